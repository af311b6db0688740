"""Every codec name and configuration, spelt once.

May touch errors only.  Scanners build the specifications here, codecs read them back; neither
knows the other.  Names follow docs/codecs/ (proposals) and the Zarr extension registry.

The configuration of the codec `jpeg2000`, spelt once.

May touch errors and `codec` only.  Written as docs/codecs/jpeg2000/README.md says.

The configuration of the codec `jnrrdz.jpeg2000-window`, spelt once.

May touch errors, `codec` and the configuration of `jpeg2000`, whose members it shares.  Written as
docs/codecs/jnrrdz.jpeg2000-window/README.md says.

The codecs of N5 blocks: names and configurations, spelt once.

May touch errors and the model's codec entries only.  Names follow docs/codecs/ and the Zarr extension
registry (https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default).

The configurations of the codecs that NITF's image segments need: `jbp-block`, `jpeg`, `jnrrdz.nitf-vq`.

May touch errors and `codec`.  Each member is checked as it is read, all problems reported together.
Spec: docs/codecs/jbp-block/README.md, docs/codecs/jpeg/README.md, docs/codecs/jnrrdz.nitf-vq/README.md

The configuration of `jnrrdz.tile`, and what the length of a chunk's bytes says about its place.

May touch errors and the model's codec entries only.  Spelt once for the scanner, which cuts the ranges, and
for the codec, which reads them; docs/codecs/jnrrdz.tile/README.md tells it all.
"""

import base64
import binascii
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

from jnrrdz.errors import MalformedError, UnsupportedError

OFFSET = "offset"
PAD = "pad"
TIFF_TILE = "tiff-tile"
BYTES = "bytes"
SCALE_OFFSET = "scale_offset"
CAST_VALUE = "cast_value"
LINEAR = "jnrrdz.linear"

type ScalarMap = Sequence[tuple[float | str, float | str]]
"""Pairs of a value and what it becomes, not finite ones as Zarr spells them."""


@dataclass(frozen=True)
class CodecSpec:
    """One entry of a Zarr v3 array's `codecs`."""

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in zarr.json."""
        if not self.configuration:
            return {"name": self.name}
        return {"name": self.name, "configuration": dict(self.configuration)}


def bytes_(endian: str | None) -> CodecSpec:
    """Return Zarr's own `bytes` codec, with an endianness where the type has one."""
    return CodecSpec(BYTES, {} if endian is None else {"endian": endian})


def offset(nbytes: int, prefix: bytes | None = None) -> CodecSpec:
    """Return the codec that skips (and writes) a header of `nbytes`."""
    literal = {} if prefix is None else {"prefix": base64.b64encode(prefix).decode("ascii")}
    return CodecSpec(OFFSET, {"offset": nbytes, **literal})


def pad(location: str, nbytes: int, padding: bytes | None = None) -> CodecSpec:
    """Return the codec that strips (and writes) `nbytes` at the start or the end."""
    literal = {} if padding is None else {"padding": base64.b64encode(padding).decode("ascii")}
    return CodecSpec(PAD, {"location": location, "nbytes": nbytes, **literal})


def scale_offset(scale: float, offset: float) -> CodecSpec:
    """Return Zarr's own codec that reads `stored / scale + offset`: a division, in the array's own type."""
    values = {"offset": (offset, 0), "scale": (scale, 1)}
    return CodecSpec(SCALE_OFFSET, {name: value for name, (value, default) in values.items() if value != default})


def linear(scale: Sequence[float], offset: Sequence[float], axis: int | None = None) -> CodecSpec:
    """Return the codec that reads `stored * scale + offset` in float64, with a value for each index of `axis`."""
    if axis is None:
        return CodecSpec(LINEAR, {"scale": scale[0], "offset": offset[0]})
    return CodecSpec(LINEAR, {"scale": list(scale), "offset": list(offset), "axis": axis})


def cast_value(
    data_type: str, *, out_of_range: str | None = None, encode: ScalarMap = (), decode: ScalarMap = ()
) -> CodecSpec:
    """Return Zarr's own codec that stores values as `data_type`, some of them as the maps say."""
    maps = {"encode": [list(pair) for pair in encode], "decode": [list(pair) for pair in decode]}
    maps = {name: pairs for name, pairs in maps.items() if pairs}
    clamp = {} if out_of_range is None else {"out_of_range": out_of_range}
    return CodecSpec(CAST_VALUE, {"data_type": data_type, **clamp, **({"scalar_map": maps} if maps else {})})


@dataclass(frozen=True)
class TiffTileConfig:
    """What a TIFF's IFD says that its tiles and strips do not: the configuration of `tiff-tile`.

    The members mirror the tags of the same names; rationals are numerators and denominators in
    turn.  `image_width` and `image_height` are those of the whole image: they tell which sizes a
    short tile at the right or lower edge may have.  `palette`, red, green and blue of each value in
    turn, asks for colours in place of indices.
    """

    tile_width: int
    tile_height: int
    image_width: int
    image_height: int
    byte_order: str = "little"
    compression: int = 1
    photometric: int = 1
    samples_per_pixel: int = 1
    bits_per_sample: tuple[int, ...] = (1,)
    sample_format: tuple[int, ...] = (1,)
    planar_config: int = 1
    predictor: int = 1
    fill_order: int = 1
    extra_samples: tuple[int, ...] = ()
    ycbcr_subsampling: tuple[int, ...] = ()
    ycbcr_coefficients: tuple[int, ...] = ()
    reference_black_white: tuple[int, ...] = ()
    t4_options: int | None = None
    lerc_parameters: tuple[int, ...] = ()
    jpeg_tables: bytes | None = None
    jpeg_header: bytes | None = None
    palette: bytes | None = None

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default or item.name in TIFF_TILE_ALWAYS:
                found[item.name] = _plain(value)
        return CodecSpec(TIFF_TILE, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "TiffTileConfig":
        """Return the checked configuration; every problem is reported, with its member."""
        known = {item.name: item for item in fields(cls)}
        problems = [f"unknown member {name!r}" for name in configuration if name not in known]
        values: dict[str, Any] = {}
        for name, item in known.items():
            if name in configuration:
                values[name] = _checked(name, configuration[name], problems)
            elif item.default is MISSING:
                problems.append(f"{name} is missing")
        if problems:
            raise MalformedError("; ".join(problems), field=TIFF_TILE)
        return cls(**values)


TIFF_TILE_ALWAYS = {"compression", "photometric", "bits_per_sample", "samples_per_pixel", "byte_order"}
"""Written even at their defaults, because a reader of the manifest wants to see them."""

TIFF_TILE_LISTS = {
    "bits_per_sample",
    "sample_format",
    "extra_samples",
    "ycbcr_subsampling",
    "ycbcr_coefficients",
    "reference_black_white",
    "lerc_parameters",
}
MAX_TAG_VALUE = (1 << 32) - 1
MAX_TAG_COUNT = 1 << 16


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return list(value) if isinstance(value, tuple) else value


def _checked(name: str, value: Any, problems: list[str]) -> Any:
    """Return one member of a configuration in its type here, or note what is wrong with it."""
    if name == "byte_order":
        if not isinstance(value, str) or value not in {"little", "big"}:
            problems.append(f"byte_order {value!r} is neither little nor big")
        return value
    if name in {"jpeg_tables", "jpeg_header", "palette"}:
        return _decoded(name, value, problems)
    if name in TIFF_TILE_LISTS:
        if not isinstance(value, list) or len(value) > MAX_TAG_COUNT or not all(map(_is_tag_value, value)):
            problems.append(f"{name} is not a list of tag values")
            return ()
        return tuple(value)
    if not _is_tag_value(value) or (name.endswith(("width", "height", "pixel")) and value < 1):
        problems.append(f"{name} {value!r} is not a tag's value")
    return value


def _is_tag_value(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TAG_VALUE


def _decoded(name: str, value: Any, problems: list[str]) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        problems.append(f"{name} is not base64")
        return b""


JPEG2000 = "jpeg2000"
MAX_LEVEL = 32
MAX_TILE = 65534
MAX_COMPONENT = 16383
MAX_LIST = 1 << 21


@dataclass(frozen=True)
class Jpeg2000Config:
    """What a codestream's main header says and its tile-parts do not, and what of the image is wanted."""

    main_header: bytes
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = 0
    """How many times the image is halved."""

    components: tuple[int, ...] = ()
    """The components that a chunk holds, in its order; all of them where none is named."""

    tile_parts: tuple[int, ...] = ()
    """The tile of every tile-part in the order of the file: needed where the main header has PPM."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    upsample: bool = False
    """Whether components with fewer samples than the finest are repeated to its grid."""

    sycc_to_rgb: bool = False
    """Whether Y, Cb and Cr, brought to one grid, are turned into red, green and blue."""

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {
            "main_header": base64.b64encode(self.main_header).decode("ascii"),
            "resolution_level": self.resolution_level,
        }
        if self.components:
            found["components"] = list(self.components)
        if self.tile_parts:
            found["tile_parts"] = list(self.tile_parts)
        if self.palette is not None:
            found["palette"] = base64.b64encode(self.palette).decode("ascii")
        found |= {name: True for name in ("upsample", "sycc_to_rgb") if getattr(self, name)}
        return CodecSpec(JPEG2000, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "Jpeg2000Config":
        """Return the checked configuration; every problem is reported, with its member."""
        problems = [f"unknown member {name!r}" for name in configuration if name not in CHECKS]
        if "main_header" not in configuration:
            problems.append("main_header is missing")
        values = {name: CHECKS[name](name, value, problems) for name, value in configuration.items() if name in CHECKS}
        if problems:
            raise MalformedError("; ".join(problems), field=JPEG2000)
        return cls(**values)


def _bytes(name: str, value: Any, problems: list[str]) -> bytes:
    try:
        found = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        found = b""
    if not found:
        problems.append(f"{name} is not base64 of one byte or more")
    return found


def _flag(name: str, value: Any, problems: list[str]) -> bool:
    if not isinstance(value, bool):
        problems.append(f"{name} {value!r} is neither true nor false")
    return value is True


def _level(name: str, value: Any, problems: list[str]) -> int:
    if not _is_whole(value, MAX_LEVEL):
        problems.append(f"{name} {value!r} is no number from 0 to {MAX_LEVEL}")
        return 0
    return int(value)


def _components(name: str, value: Any, problems: list[str]) -> tuple[int, ...]:
    found = _numbers(name, value, MAX_COMPONENT, problems)
    if len(set(found)) != len(found):
        problems.append(f"{name} names a component twice")
    return found


def _tiles(name: str, value: Any, problems: list[str]) -> tuple[int, ...]:
    return _numbers(name, value, MAX_TILE, problems)


def _numbers(name: str, value: Any, largest: int, problems: list[str]) -> tuple[int, ...]:
    is_fit = isinstance(value, list) and len(value) in range(1, MAX_LIST + 1)
    if not is_fit or not all(_is_whole(one, largest) for one in value):
        problems.append(f"{name} is not a list of one or more numbers from 0 to {largest}")
        return ()
    return tuple(value)


def _is_whole(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


CHECKS: Mapping[str, Callable[[str, Any, list[str]], Any]] = {
    "main_header": _bytes,
    "resolution_level": _level,
    "components": _components,
    "tile_parts": _tiles,
    "palette": _bytes,
    "upsample": _flag,
    "sycc_to_rgb": _flag,
}
"""Every member, and what checks it."""


JPEG2000_WINDOW = "jnrrdz.jpeg2000-window"
MEMBERS = ("main_header", "resolution_level", "palette")


@dataclass(frozen=True)
class Jpeg2000WindowConfig:
    """What is the same for every window; tile and place in it stand in the chunk's own bytes."""

    main_header: bytes
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = 0
    """How many times the image is halved."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {
            "main_header": base64.b64encode(self.main_header).decode("ascii"),
            "resolution_level": self.resolution_level,
        }
        if self.palette is not None:
            found["palette"] = base64.b64encode(self.palette).decode("ascii")
        return CodecSpec(JPEG2000_WINDOW, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "Jpeg2000WindowConfig":
        """Return the checked configuration; every problem is reported, with its member."""
        problems = [f"unknown member {name!r}" for name in configuration if name not in MEMBERS]
        if "main_header" not in configuration:
            problems.append("main_header is missing")
        values = {name: CHECKS[name](name, configuration[name], problems) for name in MEMBERS if name in configuration}
        if problems:
            raise MalformedError("; ".join(problems), field=JPEG2000_WINDOW)
        return cls(**values)


N5_DEFAULT = "n5_default"
TRANSPOSE = "transpose"
LZ4 = "jnrrdz.lz4"
SQUEEZE = "jnrrdz.squeeze"
GZIP = "gzip"
ZLIB = "numcodecs.zlib"
BZ2 = "numcodecs.bz2"
LZMA = "numcodecs.lzma"
ZSTD = "zstd"
BLOSC = "blosc"

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
CNAMES = ("lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd")


class Framing(StrEnum):
    """What stands around LZ4 blocks."""

    FRAME = "frame"
    """The decoded size, 32 bits little-endian, then one LZ4 block: numcodecs, and zarr 2's N5Store."""

    BLOCK = "block"
    """One bare LZ4 block: z5."""

    JAVA = "java"
    """Blocks with `LZ4Block` headers and checksums, and an empty one at the end: Java's LZ4BlockOutputStream."""


@dataclass(frozen=True)
class BlockOrder:
    """How the bytes of a block lie beside the array's axes."""

    axes: int

    @property
    def reversed(self) -> CodecSpec:
        """Zarr's `transpose` that reverses all axes: N5's first axis is the one that runs fastest."""
        return CodecSpec(TRANSPOSE, {"order": list(range(self.axes))[::-1]})


def big_endian(itemsize: int) -> CodecSpec:
    """Return the `bytes` codec of N5 data."""
    return bytes_("big" if itemsize > 1 else None)


def n5_default(axes: int, itemsize: int, compressors: Sequence[CodecSpec]) -> CodecSpec:
    """Return the codec that reads a block with its header, axes in N5's order."""
    inner = [BlockOrder(axes).reversed, big_endian(itemsize), *compressors]
    return CodecSpec(N5_DEFAULT, {"codecs": [spec.to_json() for spec in inner]})


def lz4(framing: Framing) -> CodecSpec:
    """Return the codec of LZ4 in one of its three framings."""
    return CodecSpec(LZ4, {"framing": framing.value})


def squeeze() -> CodecSpec:
    """Return the codec that drops the first axis of chunks, of which they hold one place."""
    return CodecSpec(SQUEEZE)


__all__ = [
    "BLOSC",
    "BYTES",
    "BZ2",
    "CNAMES",
    "GZIP",
    "LZ4",
    "LZMA",
    "N5_DEFAULT",
    "SHUFFLES",
    "SQUEEZE",
    "TRANSPOSE",
    "ZLIB",
    "ZSTD",
    "BlockOrder",
    "Framing",
    "big_endian",
    "lz4",
    "n5_default",
    "squeeze",
]


JBP_BLOCK = "jbp-block"
JPEG = "jpeg"
NITF_VQ = "jnrrdz.nitf-vq"

PIXEL_TYPES = ("INT", "SI", "R", "C", "B")
MODES = ("B", "P", "R", "S")
MAX_BITS = 128
MAX_SIDE = (1 << 31) - 1
CODEBOOK_BYTES = 4 * 4096 * 4

SPELT_BYTES = {"palette", "codebooks"}
"""Members that are bytes, spelt in base64."""

type Check = Callable[[Any], bool]


def _one_of(*known: Any) -> Check:
    return lambda value: isinstance(value, str) and value in known


def _between(least: int, most: int) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _codec_nitf_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(base64.b64decode(value, validate=True)) > 0
    except (ValueError, binascii.Error):
        return False


def plain_codebooks(data: bytes) -> bytes | None:
    """Return what a zlib stream of codebooks holds, None where it is none."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, CODEBOOK_BYTES + 1)
    except zlib.error:
        return None
    return found if len(found) == CODEBOOK_BYTES else None


@dataclass(frozen=True)
class Config:
    """A configuration whose members are plain values, or bytes spelt in base64."""

    NAME: ClassVar[str]
    CHECKS: ClassVar[Mapping[str, Check]]

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default:
                found[item.name] = base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        return CodecSpec(self.NAME, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        """Return the checked configuration; every problem is reported, with its member."""
        known = {item.name: item for item in fields(cls)}
        problems = [f"unknown member {name!r}" for name in configuration if name not in known]
        problems += [
            f"{name} is missing"
            for name, item in known.items()
            if item.default is MISSING and name not in configuration
        ]
        problems += [
            f"{name} {str(value)[:40]!r} is not allowed"
            for name, value in configuration.items()
            if name in known and not cls.CHECKS[name](value)
        ]
        if problems:
            raise MalformedError("; ".join(problems), field=cls.NAME)
        return cls(
            **{name: base64.b64decode(value) if name in SPELT_BYTES else value for name, value in configuration.items()}
        )


@dataclass(frozen=True)
class JbpBlockConfig(Config):
    """How the samples of an uncompressed block are packed."""

    pixel_type: str
    """PVTYPE: INT, SI, R, C or B."""

    bits_per_pixel: int
    """NBPP: the bits that one sample takes."""

    interleave: str = "B"
    """IMODE, of several samples in one chunk."""

    image_rows: int = 0
    """Rows of the image, where its last chunk ends with them; 0 where every chunk is whole."""

    complex_pairs: bool = False
    """Whether two samples in turn are the real and the imaginary part of one complex number."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = JBP_BLOCK
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "pixel_type": _one_of(*PIXEL_TYPES),
        "bits_per_pixel": _between(1, MAX_BITS),
        "interleave": _one_of(*MODES),
        "image_rows": _between(0, MAX_SIDE),
        "complex_pairs": _codec_nitf_flag,
        "palette": _base64,
    }


@dataclass(frozen=True)
class JpegConfig(Config):
    """What a JPEG stream of a NITF does not say itself."""

    quality: int = 0
    """Which of the standard's five quantisation tables a stream without any means; 0 where none does."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = JPEG
    CHECKS: ClassVar[Mapping[str, Check]] = {"quality": _between(0, 5), "palette": _base64}


@dataclass(frozen=True)
class NitfVqConfig(Config):
    """The four codebooks of a vector-quantised image."""

    codebooks: bytes
    """For each row of four pixels in turn, 4096 rows of four values, as a zlib stream."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = NITF_VQ
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "codebooks": lambda value: _base64(value) and plain_codebooks(base64.b64decode(value)) is not None,
        "palette": _base64,
    }


TILE = "jnrrdz.tile"
COMPRESSIONS = ("raw", "gzip", "bzip2", "zstd", "lz4")
ENDIANS = ("little", "big")
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


@dataclass(frozen=True)
class Kind:
    """One combination of choices: what is stored, which part of it the chunk is, how its bytes are told."""

    shape: tuple[int, ...]
    origin: tuple[int, ...]
    size: int
    """Elements that are stored."""

    first: int
    """The first element that the chunk takes."""


@dataclass(frozen=True)
class TileConfig:
    """How tiles are stored; axes in the array's order, last one fastest."""

    axes: tuple[tuple[Choice, ...], ...]
    endian: str | None = None
    compression: str = "raw"
    repeated: bool = False
    """Whether the bytes that are counted repeat the head of the tile, because nothing tells where it ends."""

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json."""
        found: dict[str, Any] = {"axes": [[list(choice) for choice in axis] for axis in self.axes]}
        if self.endian is not None:
            found["endian"] = self.endian
        if self.compression != "raw":
            found["compression"] = self.compression
        if self.repeated:
            found["repeated"] = True
        return CodecSpec(TILE, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        """Return the checked configuration."""
        unknown = set(configuration) - {"axes", "endian", "compression", "repeated"}
        if unknown:
            raise MalformedError(f"unknown members {', '.join(sorted(unknown))}", field=TILE)
        axes = configuration.get("axes")
        endian, compression = configuration.get("endian"), configuration.get("compression", "raw")
        repeated = configuration.get("repeated", False)
        if not isinstance(axes, list) or not axes or not all(map(_is_axis, axes)):
            raise MalformedError("axes are to be lists of [size, first]", field=TILE)
        if endian not in (None, *ENDIANS) or compression not in COMPRESSIONS or not isinstance(repeated, bool):
            raise MalformedError(f"endian {endian!r}, compression {compression!r}, repeated {repeated!r}", field=TILE)
        found = cls(tuple(tuple((c[0], c[1]) for c in axis) for axis in axes), endian, compression, repeated)
        found.check()
        return found

    def check(self) -> None:
        """Refuse more kinds of tiles than are told apart, and tiles larger than any."""
        if math.prod(map(len, self.axes)) > MOST_KINDS:
            raise UnsupportedError(f"more than {MOST_KINDS} kinds of tiles", field=TILE)
        if math.prod(max(size for size, _ in axis) for axis in self.axes) > MOST_BYTES:
            raise UnsupportedError(f"tiles of more than {MOST_BYTES} elements", field=TILE)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The combinations of choices, in C order."""
        return tuple(map(_kind, product(*self.axes)))

    def kind_of(self, chunk: int, grid: tuple[int, ...]) -> int | None:
        """Return the number of the kind that belongs into a chunk of a grid; None for a grid of other axes."""
        if len(grid) != len(self.axes):
            return None
        strides = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
        number = 0
        for stride, size, axis in zip(strides, grid, self.axes, strict=True):
            number = number * len(axis) + _choice_of(chunk // stride % size, size, axis)
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


def _choice_of(chunk: int, chunks: int, axis: tuple[Choice, ...]) -> int:
    """Return which choice a chunk along an axis is: whole tiles, the last one, what is left of the last one."""
    rests = sum(first > 0 for _, first in axis)
    last = chunks - rests - 1
    starts = len(axis) - rests
    return 0 if chunk < last else starts - 1 + chunk - last


def _is_axis(axis: Any) -> bool:
    return isinstance(axis, list) and bool(axis) and all(map(_is_choice, axis))


def _is_choice(choice: Any) -> bool:
    if not isinstance(choice, list) or len(choice) != len(("size", "first")):
        return False
    return all(type(part) is int for part in choice) and 0 <= choice[1] < choice[0] <= MOST_BYTES


def _kind(choices: tuple[Choice, ...]) -> Kind:
    shape, origin = tuple(size for size, _ in choices), tuple(first for _, first in choices)
    at = 0
    for size, first in choices:
        at = at * size + first
    return Kind(shape, origin, math.prod(shape), at)
