"""The codecs of no one format: Zarr's own, steps of a chain, compressors, pieces of raw bytes.

Scanners make the configurations, `zarr_json` writes them, and zarr's codec classes
(`jnrrdz.codecs`) hold them.  Names and members follow docs/codecs/NAME/README.md and the
Zarr extension registry (https://github.com/zarr-developers/zarr-extensions/tree/main/codecs).
The codecs of a format are in `formats/NAME/codecs.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

from jnrrdz.core.configuration import (
    CANONICAL,
    ENDIAN,
    FLAG,
    SLACK,
    CodecSpec,
    Configuration,
    checked,
    integer,
    one_of,
    spelt,
)
from jnrrdz.core.json_schema import is_integer, shown
from jnrrdz.errors import MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.records import record

BYTES = "bytes"
TRANSPOSE = "transpose"
SCALE_OFFSET = "scale_offset"
CAST_VALUE = "cast_value"
GZIP = "gzip"
ZSTD = "zstd"
BLOSC = "blosc"
ZLIB = "numcodecs.zlib"
BZ2 = "numcodecs.bz2"
LZMA = "numcodecs.lzma"
OFFSET = "offset"
PAD = "pad"
LINEAR = "jnrrdz.linear"
LZ4 = "jnrrdz.lz4"
RESHAPE = "reshape"
SQUEEZE = "jnrrdz.squeeze"
"""What 0.1.0 wrote where `reshape` stands now."""

TILE = "jnrrdz.tile"
SHUFFLE = "numcodecs.shuffle"
FLETCHER32 = "numcodecs.fletcher32"
OSML = "https://awslabs.github.io/osml-imagery-io/codecs/"
CRC32C = "crc32c"

COMPRESSORS = (GZIP, ZLIB, BZ2, LZMA, ZSTD, BLOSC, LZ4)
"""What N5 compresses with, by Zarr's names."""

FILTERS = (SHUFFLE, FLETCHER32)
"""HDF5's filters that are no compressors, by Zarr's names."""

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
CNAMES = ("lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd")

type ScalarMap = Sequence[tuple[float | str, float | str]]
"""Pairs of a value and what it becomes, not finite ones as Zarr spells them."""


# Zarr's own


def bytes_(endian: str | None) -> CodecSpec:
    """Return Zarr's own `bytes` codec, with an endianness where the type has one."""
    return CodecSpec(BYTES, {} if endian is None else {"endian": endian})


def reversed_axes(axes: int) -> CodecSpec:
    """Return Zarr's `transpose` that reverses all axes: N5's first axis is the one that runs fastest."""
    return CodecSpec(TRANSPOSE, {"order": list(range(axes))[::-1]})


def scale_offset(scale: float, offset: float) -> CodecSpec:
    """Return Zarr's own codec that reads `stored / scale + offset`: a division, in the array's own type."""
    values = {"offset": (offset, 0), "scale": (scale, 1)}
    return CodecSpec(SCALE_OFFSET, {name: value for name, (value, default) in values.items() if value != default})


def cast_value(
    data_type: str, *, out_of_range: str | None = None, encode: ScalarMap = (), decode: ScalarMap = ()
) -> CodecSpec:
    """Return Zarr's own codec that stores values as `data_type`, some of them as the maps say."""
    maps = {"encode": [list(pair) for pair in encode], "decode": [list(pair) for pair in decode]}
    maps = {name: pairs for name, pairs in maps.items() if pairs}
    clamp = {} if out_of_range is None else {"out_of_range": out_of_range}
    return CodecSpec(CAST_VALUE, {"data_type": data_type, **clamp, **({"scalar_map": maps} if maps else {})})


# Bytes beside a chunk: docs/codecs/offset, docs/codecs/pad

type ChunkFunction = Callable[[bytes], bytes]
"""From the encoded chunk to the bytes that go with it."""


def _check_affix(name: str, data: object, nbytes: int, length_name: str, function: object) -> None:
    """Refuse a literal that is not exactly as long as it has to be, or has a function beside it."""
    if not is_integer(nbytes):
        raise MalformedError(f"found {nbytes!r}; an integer of 0 or more is needed", field=length_name)
    if data is not None and not isinstance(data, bytes):
        raise MalformedError(f"found {data!r}; bytes are needed", field=name)
    if data is not None and len(data) != nbytes:
        raise MalformedError(f"{len(data)} bytes long, but {length_name} is {nbytes}", field=name)
    if function is not None and not callable(function):
        raise MalformedError(f"found {function!r}; a function of the encoded chunk is needed", field=f"{name}_func")
    if function is not None and data is not None:
        raise MalformedError(f"given together with {name}; only one of them can be written", field=f"{name}_func")


@record
class OffsetConfig(Configuration):
    """How long the header before a chunk is, and what it holds when it is written."""

    offset: int = field(metadata=integer())
    prefix: bytes | None = field(default=None, metadata=CANONICAL)
    prefix_func: ChunkFunction | None = None
    """Makes the header from the encoded chunk; lives in this process only, never in metadata."""

    NAME: ClassVar[str] = OFFSET

    def __post_init__(self) -> None:
        """Refuse a header whose length and bytes contradict each other."""
        _check_affix("prefix", self.prefix, self.offset, "offset", self.prefix_func)


class PadSide(StrEnum):
    """The side of the chunk that the padding is on."""

    START = "start"
    END = "end"


@record
class PadConfig(Configuration):
    """Where the padding of a chunk is, how long it is, and what it holds when it is written."""

    location: str = field(metadata=one_of(*PadSide))
    nbytes: int = field(metadata=integer())
    padding: bytes | None = field(default=None, metadata=CANONICAL)
    padding_func: ChunkFunction | None = None
    """Makes the padding from the encoded chunk; lives in this process only, never in metadata."""

    NAME: ClassVar[str] = PAD

    def __post_init__(self) -> None:
        """Refuse padding whose length and bytes contradict each other, or that is on no side."""
        if self.location not in tuple(PadSide):
            raise MalformedError(f"found {self.location!r}; 'start' or 'end' is needed", field="location")
        _check_affix("padding", self.padding, self.nbytes, "nbytes", self.padding_func)


# docs/codecs/jnrrdz.linear

MAX_VALUES = 1 << 16


def _numbers(value: Any) -> float | tuple[float, ...]:
    listed = value if isinstance(value, list) else [value]
    for number in listed:
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise MalformedError(f"found {shown(number)}; a finite number is needed")
    return tuple(map(float, listed)) if isinstance(value, list) else float(value)


@record
class LinearConfig(Configuration):
    """One scale and offset, or one for each index of an axis: `stored * scale + offset` in float64."""

    scale: float | tuple[float, ...] = field(metadata=checked(_numbers))
    offset: float | tuple[float, ...] = field(metadata=checked(_numbers))
    axis: int | None = field(default=None, metadata=integer())

    NAME: ClassVar[str] = LINEAR

    def __post_init__(self) -> None:
        """Refuse lists that do not fit each other, and a scale that cannot be undone."""
        scales, offsets = (value if isinstance(value, tuple) else (value,) for value in (self.scale, self.offset))
        if {isinstance(value, tuple) for value in (self.scale, self.offset)} != {self.axis is not None}:
            raise MalformedError("lists, an entry for each index, belong to an axis, and numbers to none", field=LINEAR)
        if len(scales) != len(offsets) or not 1 <= len(scales) <= MAX_VALUES:
            raise MalformedError(f"{len(scales)} scales for {len(offsets)} offsets", field=LINEAR)
        if 0 in scales:
            raise MalformedError("a scale of 0 makes one value of all", field=LINEAR)


# docs/codecs/jnrrdz.lz4, docs/codecs/reshape


class Framing(StrEnum):
    """What stands around LZ4 blocks."""

    FRAME = "frame"
    """The decoded size, 32 bits little-endian, then one LZ4 block: numcodecs, and zarr 2's N5Store."""

    BLOCK = "block"
    """One bare LZ4 block: z5."""

    JAVA = "java"
    """Blocks with `LZ4Block` headers and checksums, and an empty one at the end: Java's LZ4BlockOutputStream."""


@record
class Lz4Config(Configuration):
    """LZ4 in one of its three framings."""

    framing: str = field(metadata=one_of(*Framing))

    NAME: ClassVar[str] = LZ4


AUTOMATIC = -1
"""A side whose size the others leave."""

MOST_SIDES = 64

type Side = int | tuple[int, ...]
"""A size, AUTOMATIC, or the axes of the chunk that become one."""


def _sides(value: Any) -> tuple[Side, ...]:
    """Return the sides of `reshape`."""
    sides: list[Any] = value if isinstance(value, list) and len(value) <= MOST_SIDES else [None]
    if not all(
        is_integer(side, 1)
        or (side == AUTOMATIC and is_integer(side, AUTOMATIC))
        or (
            isinstance(side, list) and len(side) <= MOST_SIDES and all(is_integer(axis, 0, MOST_SIDES) for axis in side)
        )
        for side in sides
    ):
        raise MalformedError(f"found {shown(value)}; a list of sizes, -1 and lists of axes is needed")
    axes = [axis for side in sides if isinstance(side, list) for axis in side]
    if axes != sorted(set(axes)) or sides.count(AUTOMATIC) > 1:
        raise MalformedError(f"found {shown(value)}; axes that increase and at most one -1 are needed")
    return tuple(tuple(side) if isinstance(side, list) else side for side in sides)


@record
class ReshapeConfig(Configuration):
    """Chunks with their elements in the same order and other axes."""

    shape: tuple[Side, ...] = field(metadata=checked(_sides))

    NAME: ClassVar[str] = RESHAPE

    @classmethod
    def dropping(cls, count: int, axes: int) -> Self:
        """Return the configuration that leaves out so many axes of one place in front of others."""
        if not axes:
            return cls(())
        return cls((tuple(range(count + 1)), *((count + axis,) for axis in range(1, axes))))

    def lifted(self) -> Self:
        """Return the configuration that leaves out one more axis of one place in front."""
        if not self.shape:
            return self
        first, *others = (tuple(axis + 1 for axis in side) if isinstance(side, tuple) else side for side in self.shape)
        return type(self)(((0, *first) if isinstance(first, tuple) else first, *others))

    def lowered(self, axes: int) -> Self | None:
        """Return the configuration for chunks of so many axes without the first one, None where nothing is left out."""
        first, *others = self.shape or ((),)
        if not isinstance(first, tuple) or first[:1] != (0,):
            raise UnrepresentableError("does not leave out the first axis", field=RESHAPE)
        lower = (first[1:], *others)
        sides = tuple(tuple(axis - 1 for axis in side) if isinstance(side, tuple) else side for side in lower)
        return None if sides == tuple((axis,) for axis in range(axes)) else type(self)(sides)

    def of(self, chunk: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that chunks of a shape get."""
        axes = [axis for side in self.shape if isinstance(side, tuple) for axis in side]
        if axes and axes[-1] >= len(chunk):
            raise MalformedError(f"axis {axes[-1]} of chunks of {tuple(chunk)}", field=RESHAPE)
        sizes: list[int] = [
            math.prod(chunk[axis] for axis in side) if isinstance(side, tuple) else side for side in self.shape
        ]
        count, known = math.prod(chunk), math.prod(size for size in sizes if size != AUTOMATIC)
        shape = tuple(count // max(known, 1) if size == AUTOMATIC else size for size in sizes)
        firsts = [(number, side[0]) for number, side in enumerate(self.shape) if isinstance(side, tuple) and side]
        is_same = all(math.prod(shape[:number]) == math.prod(chunk[:axis]) for number, axis in firsts)
        if math.prod(shape) != count or not is_same:
            raise MalformedError(
                f"chunks of {tuple(chunk)} do not become {list(map(spelt, self.shape))}", field=RESHAPE
            )
        return shape


@record
class SqueezeConfig(Configuration):
    """Chunks without their first axis, of which they hold one place: there is nothing to configure."""

    NAME: ClassVar[str] = SQUEEZE


# docs/codecs/jnrrdz.tile

MOST_KINDS = 1 << 12
MOST_BYTES = 1 << 40
REPEATED = 8
"""Bytes of a tile's own head that stand before those that are counted, where lengths were guessed."""

RATIO = {"raw": 1, "gzip": 1032, "bzip2": 1 << 21, "zstd": 1 << 16, "lz4": 256}
"""How many bytes one byte can become at the most."""


type Choice = tuple[int, int]
"""Stored size of a tile along an axis, and the first of it that the chunk takes."""


def can_hold(compression: str, stored: int, decoded: int) -> bool:
    """Whether so many stored bytes can become so many; it is asked before anything is allocated."""
    return decoded <= stored * RATIO[compression] + (0 if compression == "raw" else SLACK)


@record
class StoredPart:
    """One combination of choices: what is stored, which part of it the chunk is, how its bytes are told."""

    shape: tuple[int, ...]
    origin: tuple[int, ...]
    size: int
    """Elements that are stored."""

    first: int
    """The first element that the chunk takes."""


def _axes(value: Any) -> tuple[tuple[Choice, ...], ...]:
    is_nested = isinstance(value, list) and value and all(isinstance(axis, list) and axis for axis in value)
    choices = [choice for axis in value for choice in axis] if is_nested else [None]
    if not all(
        isinstance(it, list) and [type(part) for part in it] == [int, int] and 0 <= it[1] < it[0] <= MOST_BYTES
        for it in choices
    ):
        raise MalformedError(f"found {shown(value)}; lists of [size, first] are needed")
    return tuple(tuple((size, first) for size, first in axis) for axis in value)


@record
class TileConfig(Configuration):
    """How tiles are stored; axes in the array's order, last one fastest."""

    axes: tuple[tuple[Choice, ...], ...] = field(metadata=checked(_axes))
    endian: str | None = field(default=None, metadata=ENDIAN)
    compression: str = field(default="raw", metadata=one_of("raw", "gzip", "bzip2", "zstd", "lz4"))
    repeated: bool = field(default=False, metadata=FLAG)
    """Whether the bytes that are counted repeat the head of the tile, because nothing tells where it ends."""

    NAME: ClassVar[str] = TILE

    def __post_init__(self) -> None:
        """Refuse more kinds of tiles than are told apart, and tiles larger than any."""
        if math.prod(map(len, self.axes)) > MOST_KINDS:
            raise UnsupportedError(f"more than {MOST_KINDS} kinds of tiles", field=TILE)
        if math.prod(max(size for size, _ in axis) for axis in self.axes) > MOST_BYTES:
            raise UnsupportedError(f"tiles of more than {MOST_BYTES} elements", field=TILE)

    @cached_property
    def kinds(self) -> tuple[StoredPart, ...]:
        """The combinations of choices, in C order."""
        kinds = []
        for choices in product(*self.axes):
            shape, origin = (tuple(column) for column in zip(*choices, strict=True))
            first = 0
            for size, begin in choices:
                first = first * size + begin
            kinds.append(StoredPart(shape, origin, math.prod(shape), first))
        return tuple(kinds)

    def kind_of(self, chunk: int, grid: tuple[int, ...]) -> int | None:
        """Return the number of the kind that belongs into a chunk of a grid; None for a grid of other axes."""
        if len(grid) != len(self.axes):
            return None
        strides = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
        number = 0
        for stride, size, axis in zip(strides, grid, self.axes, strict=True):
            # whole tiles, the last one, what is left of the last one
            rests = sum(first > 0 for _, first in axis)
            beyond = chunk // stride % size - (size - rests - 1)
            number = number * len(axis) + (0 if beyond < 0 else len(axis) - rests - 1 + beyond)
        return number

    @cached_property
    def extras(self) -> tuple[int, ...]:
        """For each kind how many bytes stand beside a compressed tile: kinds of one size differ in it."""
        taken: set[tuple[int, int]] = set()
        found = [0] * len(self.kinds)
        # the first kind is that of nearly all tiles, the last that of the tile behind which the file may end
        for number in (0, *range(len(found) - 1, 0, -1)):
            while (self.kinds[number].size, found[number]) in taken:
                found[number] += 1
            taken.add((self.kinds[number].size, found[number]))
        return tuple(found)

    def raw_extras(self, itemsize: int) -> tuple[int, ...]:
        """Return for each kind how many bytes stand before a raw tile's part: all lengths differ."""
        taken: set[int] = set()
        found = []
        for kind in self.kinds:
            length = extra = (kind.size - kind.first) * itemsize
            while length in taken:
                length += 1
            taken.add(length)
            found.append(length - extra)
        return tuple(found)
