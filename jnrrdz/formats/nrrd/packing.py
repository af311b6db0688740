"""One tile: cut out, filled up, compressed, summed; and the same back.

May touch numpy, imagecodecs, the codecs and errors.  Dimension 0 of the header varies fastest, which is the
last axis of an array in C order.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_tile import TileConfig
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.nrrd.grid import Sizes
from jnrrdz.formats.nrrd.tile import TileCoder

ENCODERS: Mapping[str, Callable[[bytes], bytes | bytearray | memoryview]] = {
    "raw": lambda data: data,
    "gzip": partial(imagecodecs.gzip_encode, level=6),
    "bzip2": imagecodecs.bz2_encode,
    "zstd": partial(imagecodecs.zstd_encode, level=3),
    "lz4": imagecodecs.lz4f_encode,
}
LARGEST = (1 << 31) - 1
"""Bytes of a tile: what every decoder and Zarr's buffers take."""


@dataclass(frozen=True)
class Packed:
    """The stored bytes of a tile, and its entry in the table of metadata, as JSON."""

    data: bytes | bytearray | memoryview
    entry: str


def padding_of(fill_value: Any) -> int | float:
    """Return what tiles are filled up with: the fill value where JSON can say it, else 0."""
    number = fill_value.item() if hasattr(fill_value, "item") else fill_value
    if isinstance(number, complex):
        number = number.real if not number.imag else math.nan
    return number if isinstance(number, int | float) and math.isfinite(number) else 0


@dataclass(frozen=True)
class Packer:
    """How the tiles of a file are stored."""

    dtype: np.dtype[Any]
    """Of the array, in the machine's byte order."""

    endian: str
    compression: str
    padding: int | float

    def __post_init__(self) -> None:
        """Refuse what is no compression of the format."""
        if self.compression not in ENCODERS:
            raise UnsupportedError(f"{self.compression!r}; there are {', '.join(ENCODERS)}", field="compression")
        if self.endian not in {"little", "big"}:
            raise UnsupportedError(f"{self.endian!r}; little or big", field="endian")

    def pack(self, part: NDArray[Any], tile: Sizes) -> Packed:
        """Return a tile of the elements that are there."""
        data = ENCODERS[self.compression](self._stored(part, tile).tobytes())
        return Packed(data, json.dumps({"checksum": hashlib.sha256(data).hexdigest(), **self._extent(part)}))

    def _stored(self, part: NDArray[Any], tile: Sizes) -> NDArray[Any]:
        dtype = self.dtype.newbyteorder("<" if self.endian == "little" else ">")
        if part.shape == tile:
            return part.astype(dtype, copy=False)
        stored = np.full(tile, self.padding, dtype)
        stored[tuple(map(slice, part.shape))] = part
        return stored

    def _extent(self, part: NDArray[Any]) -> dict[str, int | float]:
        """Return the least and the greatest element; nothing of numbers without order, or that JSON has not."""
        if part.dtype.kind == "c":
            return {}
        low, high = part.min().item(), part.max().item()
        return {"min": low, "max": high} if math.isfinite(low) and math.isfinite(high) else {}

    def widest_entry(self) -> int:
        """Return the most characters that an entry may have."""
        numbers = 0 if self.dtype.kind == "c" else len(', "min": , "max": ') + 2 * LONGEST_NUMBER
        return len('{"checksum": ""}') + 2 * hashlib.sha256().digest_size + numbers

    def unpack(self, data: bytes, tile: Sizes) -> NDArray[Any]:
        """Return the elements of a stored tile, filled up as it is."""
        config = TileConfig(tuple(((size, 0),) for size in tile), self.endian, self.compression)
        return TileCoder(config, tile, self.dtype, self.padding).decode(data).astype(self.dtype, copy=False)

    def most_bytes(self, tile: Sizes) -> int:
        """Return the most bytes that a tile takes in the file: what does not compress grows a little."""
        nbytes = math.prod(tile) * self.dtype.itemsize
        if nbytes > LARGEST:
            raise UnsupportedError(f"tiles of {nbytes} bytes; {LARGEST} are the most", field="tile")
        return nbytes + nbytes // 50 + 1024


LONGEST_NUMBER = 25
"""Characters of -1.7976931348623157e+308, or of any integer of 64 bits."""
