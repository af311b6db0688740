"""The codecs of an array as objects: every name and configuration, its checks and its JSON, stands here once.

Scanners make these objects, `zarr_json` spells them, and zarr's codec classes (`jnrrdz.codecs`) hold the
same ones.  Names and members follow docs/codecs/NAME/README.md (proposals, and our own `jnrrdz.*`) and the
Zarr extension registry (https://github.com/zarr-developers/zarr-extensions/tree/main/codecs).
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

from jnrrdz.core.configuration import (
    CANONICAL,
    FLAG,
    PALETTE,
    Codec,
    CodecSpec,
    Configuration,
    checked,
    integer,
    integers,
    is_integer,
    literal,
    one_of,
    shown,
    spelt,
)
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
TIFF_TILE = "tiff-tile"
JPEG2000 = "jpeg2000"
JBP_BLOCK = "jbp-block"
JBP_JPEG = "jbp-jpeg"
N5_DEFAULT = "n5_default"
JPEG2000_WINDOW = "jnrrdz.jpeg2000-window"
NITF_VQ = "jnrrdz.nitf-vq"
LINEAR = "jnrrdz.linear"
LZ4 = "jnrrdz.lz4"
RESHAPE = "reshape"
SQUEEZE = "jnrrdz.squeeze"
"""What 0.1.0 wrote where `reshape` stands now."""

TILE = "jnrrdz.tile"
SHUFFLE = "numcodecs.shuffle"
FLETCHER32 = "numcodecs.fletcher32"
OSML = "https://awslabs.github.io/osml-imagery-io/codecs/"

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


class Location(StrEnum):
    """The side of the chunk that the padding is on."""

    START = "start"
    END = "end"


@record
class PadConfig(Configuration):
    """Where the padding of a chunk is, how long it is, and what it holds when it is written."""

    location: str = field(metadata=one_of(*Location))
    nbytes: int = field(metadata=integer())
    padding: bytes | None = field(default=None, metadata=CANONICAL)
    padding_func: ChunkFunction | None = None
    """Makes the padding from the encoded chunk; lives in this process only, never in metadata."""

    NAME: ClassVar[str] = PAD

    def __post_init__(self) -> None:
        """Refuse padding whose length and bytes contradict each other, or that is on no side."""
        if self.location not in tuple(Location):
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


# docs/codecs/tiff-tile

MAX_TAG_VALUE = (1 << 32) - 1
TAG = integer(0, MAX_TAG_VALUE)
SIDE = integer(1, MAX_TAG_VALUE)
TAGS = integers(MAX_TAG_VALUE, count=1 << 16)
ENDIAN = one_of("little", "big")


@record
class TiffTileConfig(Configuration):
    """What a TIFF's IFD says that its tiles and strips do not: the configuration of `tiff-tile`.

    The members mirror the tags of the same names; rationals are numerators and denominators in
    turn.  `image_width` and `image_height` are those of the whole image: they tell which sizes a
    short tile at the right or lower edge may have.  `palette`, red, green and blue of each value in
    turn, asks for colours in place of indices.
    """

    tile_width: int = field(metadata=SIDE)
    tile_height: int = field(metadata=SIDE)
    image_width: int = field(metadata=SIDE)
    image_height: int = field(metadata=SIDE)
    byte_order: str = field(default="little", metadata=ENDIAN)
    compression: int = field(default=1, metadata=TAG)
    photometric: int = field(default=1, metadata=TAG)
    samples_per_pixel: int = field(default=1, metadata=SIDE)
    bits_per_sample: tuple[int, ...] = field(default=(1,), metadata=TAGS)
    sample_format: tuple[int, ...] = field(default=(1,), metadata=TAGS)
    planar_config: int = field(default=1, metadata=TAG)
    predictor: int = field(default=1, metadata=TAG)
    fill_order: int = field(default=1, metadata=TAG)
    extra_samples: tuple[int, ...] = field(default=(), metadata=TAGS)
    ycbcr_subsampling: tuple[int, ...] = field(default=(), metadata=TAGS)
    ycbcr_coefficients: tuple[int, ...] = field(default=(), metadata=TAGS)
    reference_black_white: tuple[int, ...] = field(default=(), metadata=TAGS)
    t4_options: int | None = field(default=None, metadata=TAG)
    lerc_parameters: tuple[int, ...] = field(default=(), metadata=TAGS)
    jpeg_tables: bytes | None = field(default=None, metadata=literal())
    jpeg_header: bytes | None = field(default=None, metadata=literal())
    palette: bytes | None = field(default=None, metadata=literal())
    is_tiled: bool = False
    """Whether segments are tiles, whole at every edge; known where a file is scanned, never in metadata."""

    NAME: ClassVar[str] = TIFF_TILE
    ALWAYS: ClassVar[frozenset[str]] = frozenset(
        {"compression", "photometric", "bits_per_sample", "samples_per_pixel", "byte_order"}
    )


# docs/codecs/jpeg2000, docs/codecs/jnrrdz.jpeg2000-window

MAX_LEVEL = 32
MAX_TILE = 65534
MAX_COMPONENT = 16383
MAX_LIST = 1 << 21


@record
class Jpeg2000Config(Configuration):
    """What a codestream's main header says and its tile-parts do not, and what of the image is wanted."""

    main_header: bytes = field(metadata=literal(1))
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = field(default=0, metadata=integer(0, MAX_LEVEL))
    """How many times the image is halved."""

    components: tuple[int, ...] = field(
        default=(), metadata=integers(MAX_COMPONENT, fewest=1, count=MAX_LIST, distinct=True)
    )
    """The components that a chunk holds, in its order; all of them where none is named."""

    tile_parts: tuple[int, ...] = field(default=(), metadata=integers(MAX_TILE, fewest=1, count=MAX_LIST))
    """The tile of every tile-part in the order of the file: needed where the main header has PPM."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    upsample: bool = field(default=False, metadata=FLAG)
    """Whether components with fewer samples than the finest are repeated to its grid."""

    sycc_to_rgb: bool = field(default=False, metadata=FLAG)
    """Whether Y, Cb and Cr, brought to one grid, are turned into red, green and blue."""

    NAME: ClassVar[str] = JPEG2000
    ALWAYS: ClassVar[frozenset[str]] = frozenset({"resolution_level"})


@record
class Jpeg2000WindowConfig(Configuration):
    """What is the same for every window; tile and place in it stand in the chunk's own bytes."""

    main_header: bytes = field(metadata=literal(1))
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = field(default=0, metadata=integer(0, MAX_LEVEL))
    """How many times the image is halved."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    NAME: ClassVar[str] = JPEG2000_WINDOW
    ALWAYS: ClassVar[frozenset[str]] = frozenset({"resolution_level"})


# docs/codecs/jbp-block, docs/codecs/jbp-jpeg, docs/codecs/jnrrdz.nitf-vq

NITF_KINDS = {"INT": "u", "B": "u", "SI": "i", "R": "f", "C": "c"}
"""PVTYPE."""

NITF_ORDERS = {"B": "bhw", "S": "bhw", "R": "hbw", "P": "hwb"}
"""IMODE: the axes of a block as stored: band, row (height), column (width)."""

CODEBOOK_BYTES = 4 * 4096 * 4


def plain_codebooks(data: bytes) -> bytes | None:
    """Return what a zlib stream of codebooks holds, None where it is none."""
    unpacker = zlib.decompressobj()
    try:
        books = unpacker.decompress(data, CODEBOOK_BYTES + 1)
    except zlib.error:
        return None
    return books if len(books) == CODEBOOK_BYTES else None


def _codebooks(value: Any) -> Any:
    data = PALETTE["check"](value)
    if plain_codebooks(data) is None:
        raise MalformedError(f"no zlib stream of {CODEBOOK_BYTES} bytes")
    return data


@record
class JbpBlockConfig(Configuration):
    """How the samples of an uncompressed block are packed."""

    pixel_type: str = field(metadata=one_of("INT", "SI", "R", "C", "B"))
    """PVTYPE."""

    bits_per_pixel: int = field(metadata=integer(1, 128))
    """NBPP: the bits that one sample takes."""

    interleave: str = field(default="B", metadata=one_of("B", "P", "R", "S"))
    """IMODE, of several samples in one chunk."""

    image_rows: int = field(default=0, metadata=integer(0, (1 << 31) - 1))
    """Rows of the image, where its last chunk ends with them; 0 where every chunk is whole."""

    complex_pairs: bool = field(default=False, metadata=FLAG)
    """Whether two samples in turn are the real and the imaginary part of one complex number."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = JBP_BLOCK


@record
class JbpJpegConfig(Configuration):
    """What a JPEG stream of a NITF does not say itself."""

    quality: int = field(default=0, metadata=integer(0, 5))
    """Which of the standard's five quantisation tables a stream without any means; 0 where none does."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    stored_as_rgb: bool = field(default=False, metadata=FLAG)
    """Whether three components are red, green and blue in a stream whose markers do not name its colours."""

    NAME: ClassVar[str] = JBP_JPEG


def renamed(entry: Any) -> Any:
    """Return an entry of a manifest of ours under the codec's present name: 0.1.0 called `jbp-jpeg` `jpeg`."""
    if entry == "jpeg" or (isinstance(entry, Mapping) and entry.get("name") == "jpeg"):
        configuration = {} if isinstance(entry, str) else entry.get("configuration", {})
        with suppress(MalformedError):  # another project's codec of that name
            return JbpJpegConfig.from_json(configuration).to_json()
    return entry


@record
class NitfVqConfig(Configuration):
    """The four codebooks of a vector-quantised image."""

    codebooks: bytes = field(metadata=checked(_codebooks))
    """For each row of four pixels in turn, 4096 rows of four values, as a zlib stream."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = NITF_VQ


# N5: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default, docs/codecs/jnrrdz.lz4,
# docs/codecs/reshape


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


INNER = ("transpose", "bytes")
"""The codecs that every N5 block has; one compressor may follow."""


def _inner(entries: Any) -> tuple[Codec, ...]:
    """Return the codecs inside of a block."""
    if not isinstance(entries, list):
        raise MalformedError(f"found {shown(entries)}; a list of codecs is needed")
    codecs: list[Codec] = []
    for entry in entries:
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        configuration = entry.get("configuration", {}) if isinstance(entry, Mapping) else {}
        if not isinstance(name, str) or not isinstance(configuration, Mapping):
            raise MalformedError(f"{shown(entry)} is no codec")
        codecs.append(Lz4Config.from_json(configuration) if name == LZ4 else CodecSpec(name, configuration))
    return tuple(codecs)


@record
class N5DefaultConfig(Configuration):
    """A block with its header: how many axes, whether elements have a byte order, how they are compressed."""

    codecs: tuple[Codec, ...] = field(metadata=checked(_inner))
    """`transpose` of all axes, big-endian `bytes`, and a compressor where there is one."""

    odd_blocks: bool = field(default=False, metadata=FLAG)
    """Whether a block may have another shape than its place: what is beyond the place is cut off, what is
    missing is the fill value."""

    NAME: ClassVar[str] = N5_DEFAULT

    def __post_init__(self) -> None:
        """Refuse codecs that no block of N5 is encoded with."""
        if not len(INNER) <= len(self.codecs) <= len(INNER) + 1:
            raise MalformedError("codecs: transpose, bytes and at most one compressor are needed", field=N5_DEFAULT)
        order, layout = self.codecs[:2]
        axes = order.configuration.get("order")
        if order.name != TRANSPOSE or not isinstance(axes, list) or not axes or axes != list(range(len(axes)))[::-1]:
            raise MalformedError(
                f"first codec {order}; a transposition that reverses all axes is needed", field=N5_DEFAULT
            )
        if layout.name != BYTES or layout.configuration.get("endian", "big") != "big":
            raise MalformedError(f"second codec {layout}; bytes, big-endian, is needed", field=N5_DEFAULT)
        if self.compressor is not None and self.compressor.name not in COMPRESSORS:
            raise UnsupportedError(f"compressor {self.compressor.name!r}; there are {', '.join(COMPRESSORS)}")

    @classmethod
    def of(cls, axes: int, itemsize: int, compressors: Sequence[Codec], *, odd_blocks: bool = False) -> Self:
        """Return the configuration for blocks of so many axes, elements of so many bytes."""
        return cls((reversed_axes(axes), bytes_("big" if itemsize > 1 else None), *compressors), odd_blocks)

    @property
    def axes(self) -> int:
        """Number of axes of a block."""
        return len(self.codecs[0].configuration["order"])

    @property
    def endian(self) -> str | None:
        """Byte order of the elements, None where they are single bytes."""
        endian: str | None = self.codecs[1].configuration.get("endian")
        return endian

    @property
    def compressor(self) -> Codec | None:
        """What the elements are compressed with."""
        return self.codecs[2] if len(self.codecs) > len(INNER) else None


# docs/codecs/jnrrdz.tile

MOST_KINDS = 1 << 12
MOST_BYTES = 1 << 40
REPEATED = 8
"""Bytes of a tile's own head that stand before those that are counted, where lengths were guessed."""

RATIO = {"raw": 1, "gzip": 1032, "bzip2": 1 << 21, "zstd": 1 << 16, "lz4": 256}
"""How many bytes one byte can become at the most."""

SLACK = 1 << 16

type Choice = tuple[int, int]
"""Stored size of a tile along an axis, and the first of it that the chunk takes."""


def can_hold(compression: str, stored: int, decoded: int) -> bool:
    """Whether so many stored bytes can become so many; it is asked before anything is allocated."""
    return decoded <= stored * RATIO[compression] + (0 if compression == "raw" else SLACK)


@record
class Kind:
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
    def kinds(self) -> tuple[Kind, ...]:
        """The combinations of choices, in C order."""
        kinds = []
        for choices in product(*self.axes):
            shape, origin = (tuple(column) for column in zip(*choices, strict=True))
            first = 0
            for size, begin in choices:
                first = first * size + begin
            kinds.append(Kind(shape, origin, math.prod(shape), first))
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
