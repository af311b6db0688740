"""What a tiled JNRRD is written of: levels and bands of tiles, packed tiles, and the header with its tables.

Sizes of levels are max(1, floor(size / scale)).  Axes are in the array's order, last one fastest: the header's
order reversed.  The header is written before the data, with room for the tables that are known behind it: every
line is one JSON object, filled up with spaces inside its braces, and a blank line ends it.  Rules in
docs/formats/jnrrd.md.
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
from jnrrdz.formats.nrrd.header import LARGEST as LARGEST_HEADER
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
    first: int = 0
    """Tiles of the levels before."""

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
        number = 0
        for i, count in zip(index, self.grid, strict=True):
            number = number * count + i
        return number

    def bands(self, band: Sizes) -> Iterator[tuple[Region, list[Sizes]]]:
        """Yield bands of so many tiles, and the tiles in each; all together in the order of tiles."""
        for first in product(*(range(0, count, step) for count, step in zip(self.grid, band, strict=True))):
            spans = [range(i, min(i + step, count)) for i, step, count in zip(first, band, self.grid, strict=True)]
            start, end = self.region(first), self.region(tuple(span[-1] for span in spans))
            yield tuple(slice(a.start, b.stop) for a, b in zip(start, end, strict=True)), list(product(*spans))


def levels(shape: Sizes, tile: Sizes, count: int, factors: Sizes) -> tuple[Level, ...]:
    """Return so many levels, each coarser than the one before by the factors; tiles are never larger than a level."""
    if not 1 <= count <= MOST_LEVELS:
        raise UnsupportedError(f"{count}; there can be 1 to {MOST_LEVELS}", field="levels")
    made: list[Level] = []
    for number in range(count):
        scale = tuple(factor**number for factor in factors)
        own = tuple(max(1, size // by) for size, by in zip(shape, scale, strict=True))
        if made and own == made[-1].shape:
            raise UnsupportedError(
                f"{count} levels of {'x'.join(map(str, shape))} elements; no level is smaller than that of "
                f"number {made[-1].number}, so ask for {len(made)}",
                field="levels",
            )
        steps = factors if number else (1,) * len(shape)
        first = made[-1].first + made[-1].tiles if made else 0
        made.append(Level(number, scale, steps, own, tuple(map(min, tile, own)), first))
    return tuple(made)


def band(level: Level, chunks: Sizes, itemsize: int, most: int = BAND) -> Sizes:
    """Return how many tiles along each axis to read at once: the fewest for which no chunk is decoded twice.

    Tiles are written in their order, so a band of several along an axis has all of those along the axes
    behind it.  Where that is more than `most` bytes, the band is less, and chunks are decoded again.
    """
    grid, ones = level.grid, (1,) * len(level.shape)
    is_cut = [count > 1 and tile % chunk != 0 for count, tile, chunk in zip(grid, level.tile, chunks, strict=True)]
    if not any(is_cut):
        return ones
    outermost = is_cut.index(True)
    for axis in range(outermost, len(ones)):
        aligned = math.lcm(level.tile[axis], chunks[axis]) // level.tile[axis]
        widest = min(aligned, grid[axis]) if axis == outermost else grid[axis]
        for tiles in range(widest, 0, -1):
            counts = (*ones[:axis], tiles, *grid[axis + 1 :])
            if math.prod(counts) * math.prod(level.tile) * itemsize <= most:
                return counts
    return ones


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
        dtype = self.dtype.newbyteorder("<" if self.endian == "little" else ">")
        if part.shape == tile:
            stored = part.astype(dtype, copy=False)
        else:
            stored = np.full(tile, self.padding, dtype)
            stored[tuple(map(slice, part.shape))] = part
        data = ENCODERS[self.compression](stored.tobytes())
        entry: dict[str, Any] = {"checksum": hashlib.sha256(data).hexdigest()}
        if part.dtype.kind != "c":  # JSON has neither complex numbers nor infinities
            low, high = part.min().item(), part.max().item()
            entry |= {"min": low, "max": high} if math.isfinite(low) and math.isfinite(high) else {}
        return Packed(data, json.dumps(entry))

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
        return len(self.line("[]")) + self.entries * (self.widest + len(", "))

    def line(self, value: str) -> str:
        """Return the line with a value."""
        return f'{{"{PREFIX}:{self.name}": {value}}}\n'


class TiledHeader:
    """The lines of a header: those that are known before the data, then tables."""

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
        lines = [self._known]
        for table in self._tables:
            value = f"[{', '.join(map(str, tables[table.name]))}]"
            room = table.line_length - len(table.line(value))
            lines.append(table.line(value + " " * room).encode())
        text = b"".join([*lines, b"\n"])
        if len(text) != self.length:
            raise ValueError(f"a header of {len(text)} bytes where room is for {self.length}")
        return text
