"""Levels, their tiles, and in which bands of tiles a source is read.

May touch the model's limits and errors only; pure.  Axes are in the array's order, last one fastest; the
header's order is the reverse.  Sizes of levels as docs/formats/jnrrd.md has them: max(1, floor(size / scale)).

One tile: cut out, filled up, compressed, summed; and the same back.

May touch numpy, imagecodecs, the codecs and errors.  Dimension 0 of the header varies fastest, which is the
last axis of an array in C order.

The header of a tiled JNRRD, written before the data with room for the tables that come to be known behind it.

May touch errors; pure.  Every line is one JSON object, filled up with spaces inside its braces, so that the
header is as long with its tables as it was without.  A blank line ends it.
Follows docs/formats/jnrrd.md.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codecs import TileConfig
from jnrrdz.errors import UnrepresentableError, UnsupportedError
from jnrrdz.formats.nrrd.decode import TileCoder
from jnrrdz.formats.nrrd.jnrrd import LARGEST as LARGEST_HEADER
from jnrrdz.formats.nrrd.jnrrd import TILE

type Sizes = tuple[int, ...]
type Region = tuple[slice, ...]

BAND = 256 << 20
"""Bytes of the source that are read at one time so that no chunk of it is decoded twice."""

MOST_LEVELS = 32


@dataclass(frozen=True)
class Level:
    """One level and its grid of tiles, the last one along an axis filled up."""

    number: int
    scale: Sizes
    """Elements of the finest level that one spans."""

    factors: Sizes
    """Elements of the level before that one spans."""

    shape: Sizes
    tile: Sizes

    @property
    def grid(self) -> Sizes:
        """Tiles along each axis."""
        return tuple(-(-size // tile) for size, tile in zip(self.shape, self.tile, strict=True))

    @property
    def tiles(self) -> int:
        """Tiles of the level."""
        return math.prod(self.grid)

    def region(self, index: Sizes) -> Region:
        """Return the elements of a tile that are there."""
        axes = zip(index, self.tile, self.shape, strict=True)
        return tuple(slice(i * tile, min((i + 1) * tile, size)) for i, tile, size in axes)

    def number_of(self, index: Sizes) -> int:
        """Return a tile's place in the order of tiles."""
        found = 0
        for i, count in zip(index, self.grid, strict=True):
            found = found * count + i
        return found

    def indices(self, band: Sizes) -> Iterator[tuple[Region, list[Sizes]]]:
        """Yield bands of so many tiles, and the tiles in each; all together in the order of tiles."""
        for first in product(*(range(0, count, step) for count, step in zip(self.grid, band, strict=True))):
            spans = [range(i, min(i + step, count)) for i, step, count in zip(first, band, self.grid, strict=True)]
            start, end = self.region(first), self.region(tuple(span[-1] for span in spans))
            yield tuple(slice(a.start, b.stop) for a, b in zip(start, end, strict=True)), list(product(*spans))


def levels(shape: Sizes, tile: Sizes, count: int, factors: Sizes) -> tuple[Level, ...]:
    """Return so many levels, each coarser than the one before by the factors; tiles are never larger than a level."""
    if not 1 <= count <= MOST_LEVELS:
        raise UnsupportedError(f"{count}; there can be 1 to {MOST_LEVELS}", field="levels")
    found = [_level(shape, tile, 0, factors)]
    while len(found) < count:
        found.append(_level(shape, tile, len(found), factors))
        if found[-1].shape == found[-2].shape:
            raise UnsupportedError(
                f"{count} levels of {'x'.join(map(str, shape))} elements; no level is smaller than that of "
                f"number {found[-2].number}, so ask for {len(found) - 1}",
                field="levels",
            )
    return tuple(found)


def _level(shape: Sizes, tile: Sizes, number: int, factors: Sizes) -> Level:
    scale = tuple(factor**number for factor in factors)
    own = tuple(max(1, size // by) for size, by in zip(shape, scale, strict=True))
    return Level(number, scale, factors if number else (1,) * len(shape), own, tuple(map(min, tile, own)))


def band(level: Level, chunks: Sizes, itemsize: int, most: int = BAND) -> Sizes:
    """Return how many tiles along each axis to read at once: the fewest for which no chunk is decoded twice.

    Tiles are written in their order, so a band of several along an axis has all of those along the axes
    behind it.  Where that is more than `most` bytes, the band is less, and chunks are decoded again.
    """
    ones = (1,) * len(level.shape)
    cut = [number for number in range(len(ones)) if _is_cut(level, chunks, number)]
    if not cut:
        return ones
    for axis in range(cut[0], len(ones)):
        behind = level.grid[axis + 1 :]
        aligned = math.lcm(level.tile[axis], chunks[axis]) // level.tile[axis]
        widest = min(aligned if axis == cut[0] else level.grid[axis], level.grid[axis])
        for tiles in range(widest, 0, -1):
            found = (*ones[:axis], tiles, *behind)
            if _bytes(level, found) * itemsize <= most:
                return found
    return ones


def _is_cut(level: Level, chunks: Sequence[int], axis: int) -> bool:
    """Whether the border of a tile goes through a chunk."""
    return level.grid[axis] > 1 and level.tile[axis] % chunks[axis] != 0


def _bytes(level: Level, tiles: Sizes) -> int:
    return math.prod(count * tile for count, tile in zip(tiles, level.tile, strict=True))


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


VERSION = "0004"
EXTENSION = f"{TILE}v1.0.0"
PREFIX = "tile"


@dataclass(frozen=True)
class Table:
    """One list of the header, and the most characters of one of its entries."""

    name: str
    entries: int
    widest: int

    @property
    def line_length(self) -> int:
        """Characters of the line, its end included."""
        return len(_line(self.name, "")) + len("[]") + self.entries * (self.widest + len(", "))


def _line(name: str, value: str) -> str:
    return f'{{"{PREFIX}:{name}": {value}}}\n'


class Header:
    """The lines of a header: those that are known, then tables."""

    def __init__(self, known: Sequence[tuple[str, Any]], tables: Sequence[Table]) -> None:
        lines = [json.dumps({key: value}, ensure_ascii=False, allow_nan=False) for key, value in known]
        self._known = "".join(f"{line}\n" for line in lines).encode()
        self._tables = tables
        self.length = len(self._known) + sum(table.line_length for table in tables) + len("\n")
        if self.length > LARGEST_HEADER:
            raise UnrepresentableError(
                f"a header of {self.length} bytes for {max(table.entries for table in tables)} tiles; "
                f"{LARGEST_HEADER} are the most, so make tiles larger",
                field=PREFIX,
            )

    def text(self, tables: Mapping[str, Sequence[Any]]) -> bytes:
        """Return the header with its tables, entries as JSON."""
        found = [self._known]
        for table in self._tables:
            value = f"[{', '.join(map(str, tables[table.name]))}]"
            line = _line(table.name, value)
            found.append(_line(table.name, value + " " * (table.line_length - len(line))).encode())
        text = b"".join([*found, b"\n"])
        if len(text) != self.length:
            raise ValueError(f"a header of {len(text)} bytes where room is for {self.length}")
        return text
