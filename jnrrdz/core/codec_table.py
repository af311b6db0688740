"""What jnrrdz knows of each codec, one record each: its stage, its class, and axes in front of a chunk's own.

`merge` and `cube` put an axis in front of arrays, of which each chunk holds one place.  The bytes of a chunk stay as
they are, so the codecs have to read them for a chunk that has one more axis of length 1.  Each record says how: the
codec takes any number of such axes, or counts axes in its configuration, or takes none.  In front of a codec that takes
none stands `reshape`, which leaves the axis out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from jnrrdz.core.codecs import (
    BLOSC,
    BYTES,
    BZ2,
    CAST_VALUE,
    FILTERS,
    GZIP,
    JBP_BLOCK,
    JBP_JPEG,
    JPEG2000,
    JPEG2000_WINDOW,
    LINEAR,
    LZ4,
    LZMA,
    N5_DEFAULT,
    NITF_VQ,
    OFFSET,
    OSML,
    PAD,
    RESHAPE,
    SCALE_OFFSET,
    SQUEEZE,
    TIFF_TILE,
    TILE,
    TRANSPOSE,
    ZLIB,
    ZSTD,
    ReshapeConfig,
)
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.errors import UnrepresentableError
from jnrrdz.records import record

CRC32C = "crc32c"
SHARDING = "sharding_indexed"


class Stage(Enum):
    """Where in a chain a codec is."""

    ARRAY = "from elements to elements"
    PIXELS = "from elements to bytes"
    PACKER = "from the bytes that `bytes` makes to fewer: compressors, and osml-imagery-io's codecs"
    BYTES = "from bytes to bytes"


type Change = Callable[[Codec, int], Codec | None]
"""From a codec, and the axes of the chunk that it is given without the one in front, to what the codec becomes.

None is a codec that takes no axis in front, or that has nothing left to do.
"""


@record
class Leading:
    """What a codec becomes where chunks get an axis of length 1 in front, and where they lose it again."""

    lifted: Change
    lowered: Change
    takes_it_off: bool = False
    """Whether the codecs behind it are given the same chunk as before."""


@record
class CodecRecord:
    """One codec."""

    name: str
    stage: Stage
    leading: Leading
    codec_class: str | None = None
    """Its class in `jnrrdz.codecs`; None for Zarr's own codecs."""

    sides: Mapping[str, int] = field(default_factory=dict)
    """Members that hold the size of the image along an axis: they say how short chunks at its edge may be."""

    of_writers: frozenset[str] = frozenset()
    """Members that matter to writers alone."""


# Axes in front


def _same(codec: Codec, _: int) -> Codec:
    return codec


def _nothing(_: Codec, __: int) -> None:
    return None


def _unless_palette(codec: Codec, _: int) -> Codec | None:
    """Return the codec but where it looks up colours, which it makes for chunks of three bands alone."""
    return None if "palette" in codec.configuration else codec


def _transpose_lifted(codec: Codec, _: int) -> Codec:
    order = [0, *(axis + 1 for axis in codec.configuration["order"])]
    return CodecSpec(TRANSPOSE, {**codec.configuration, "order": order})


def _transpose_lowered(codec: Codec, _: int) -> Codec | None:
    first, *others = codec.configuration["order"]
    if first != 0:
        return None
    return CodecSpec(TRANSPOSE, {**codec.configuration, "order": [axis - 1 for axis in others]})


def _linear_lifted(codec: Codec, _: int) -> Codec:
    axis = codec.configuration.get("axis")
    return codec if axis is None else CodecSpec(LINEAR, {**codec.configuration, "axis": axis + 1})


def _linear_lowered(codec: Codec, _: int) -> Codec | None:
    axis = codec.configuration.get("axis")
    if axis == 0:
        return None
    return codec if axis is None else CodecSpec(LINEAR, {**codec.configuration, "axis": axis - 1})


def _reshape_lifted(codec: Codec, _: int) -> Codec:
    return ReshapeConfig.from_json(codec.configuration).lifted()


def _reshape_lowered(codec: Codec, axes: int) -> Codec | None:
    return ReshapeConfig.from_json(codec.configuration).lowered(axes)


def _shards_lifted(codec: Codec, _: int) -> Codec:
    inner = codec.configuration["chunk_shape"]
    return _shards(codec, [1, *inner], lifted(_specs(codec.configuration["codecs"]), len(inner)))


def _shards_lowered(codec: Codec, _: int) -> Codec | None:
    first, *inner = codec.configuration["chunk_shape"]
    if first != 1:
        return None
    return _shards(codec, inner, lowered(_specs(codec.configuration["codecs"]), len(inner)))


def _shards(codec: Codec, inner: Sequence[int], codecs: Iterable[Codec]) -> Codec:
    members = {"chunk_shape": list(inner), "codecs": [one.to_json() for one in codecs]}
    return CodecSpec(SHARDING, {**codec.configuration, **members})


def _specs(entries: Iterable[Any]) -> tuple[CodecSpec, ...]:
    return tuple(
        CodecSpec(entry) if isinstance(entry, str) else CodecSpec(entry["name"], entry.get("configuration", {}))
        for entry in entries
    )


ANY = Leading(_same, _same)
"""The codec reads the same bytes whatever axes of length 1 are in front."""

NONE = Leading(_nothing, _nothing)
"""The codec takes the axes that its bytes have, and no others."""

BUT_FOR_COLOURS = Leading(_unless_palette, _unless_palette)

OF_TRANSPOSE = Leading(_transpose_lifted, _transpose_lowered)
OF_LINEAR = Leading(_linear_lifted, _linear_lowered)
OF_SHARDS = Leading(_shards_lifted, _shards_lowered)
OF_RESHAPE = Leading(_reshape_lifted, _reshape_lowered, takes_it_off=True)


# The table

TIFF_SIDES = {"image_height": -2, "image_width": -1}
LEVEL = frozenset({"level"})

_RECORDS = (
    CodecRecord(TRANSPOSE, Stage.ARRAY, OF_TRANSPOSE),
    CodecRecord(SCALE_OFFSET, Stage.ARRAY, ANY),
    CodecRecord(CAST_VALUE, Stage.ARRAY, ANY),
    CodecRecord(LINEAR, Stage.ARRAY, OF_LINEAR, "LinearCodec"),
    CodecRecord(RESHAPE, Stage.ARRAY, OF_RESHAPE, "ReshapeCodec"),
    CodecRecord(SQUEEZE, Stage.ARRAY, NONE, "SqueezeCodec"),
    CodecRecord(BYTES, Stage.PIXELS, ANY),
    CodecRecord(SHARDING, Stage.PIXELS, OF_SHARDS),
    CodecRecord(N5_DEFAULT, Stage.PIXELS, NONE, "N5DefaultCodec"),
    CodecRecord(TIFF_TILE, Stage.PIXELS, BUT_FOR_COLOURS, "TiffTileCodec", TIFF_SIDES),
    CodecRecord(JPEG2000, Stage.PIXELS, NONE, "Jpeg2000Codec"),
    CodecRecord(JPEG2000_WINDOW, Stage.PIXELS, NONE, "Jpeg2000WindowCodec"),
    CodecRecord(TILE, Stage.PIXELS, NONE, "JnrrdTileCodec"),
    CodecRecord(JBP_BLOCK, Stage.PIXELS, BUT_FOR_COLOURS, "JbpBlockCodec"),
    CodecRecord(JBP_JPEG, Stage.PIXELS, BUT_FOR_COLOURS, "JbpJpegCodec"),
    CodecRecord(NITF_VQ, Stage.PIXELS, NONE, "NitfVqCodec"),
    CodecRecord(GZIP, Stage.PACKER, ANY, of_writers=LEVEL),
    CodecRecord(ZLIB, Stage.PACKER, ANY, of_writers=LEVEL),
    CodecRecord(BZ2, Stage.PACKER, ANY, of_writers=LEVEL),
    CodecRecord(LZMA, Stage.PACKER, ANY),
    CodecRecord(ZSTD, Stage.PACKER, ANY, of_writers=LEVEL),
    CodecRecord(BLOSC, Stage.PACKER, ANY),
    CodecRecord(LZ4, Stage.PACKER, ANY, "Lz4Codec"),
    CodecRecord(f"{OSML}tiff-tile", Stage.PACKER, NONE, "OsmlTiffTileCodec"),
    CodecRecord(f"{OSML}jpeg2000", Stage.PACKER, NONE, "OsmlBlocksCodec"),
    CodecRecord(f"{OSML}jbp-block", Stage.PACKER, NONE, "OsmlBlocksCodec"),
    CodecRecord(f"{OSML}jpeg", Stage.PACKER, NONE, "OsmlBlocksCodec"),
    CodecRecord(f"{OSML}dted", Stage.PACKER, NONE, "OsmlUnreadCodec"),
    CodecRecord(OFFSET, Stage.BYTES, ANY, "OffsetCodec"),
    CodecRecord(PAD, Stage.BYTES, ANY, "PadCodec"),
    CodecRecord(CRC32C, Stage.BYTES, ANY),
    *(CodecRecord(name, Stage.BYTES, ANY) for name in FILTERS),
)

CODECS: Mapping[str, CodecRecord] = {one.name: one for one in _RECORDS}
"""The codecs that arrays of manifests may have."""

OWN: Mapping[str, str] = {one.name: one.codec_class for one in _RECORDS if one.codec_class is not None}
"""The classes in `jnrrdz.codecs` by the names of their codecs: what the entry points say to zarr."""


def _of_stage(stage: Stage) -> tuple[str, ...]:
    return tuple(one.name for one in _RECORDS if one.stage is stage)


ARRAY_STEPS = _of_stage(Stage.ARRAY)
PIXELS = _of_stage(Stage.PIXELS)
"""What makes bytes of an array, and is told by the array's type how many there may be."""

PACKERS = _of_stage(Stage.PACKER)
BYTES_STEPS = _of_stage(Stage.BYTES)


# Chains


def lifted(codecs: Sequence[Codec], axes: int) -> tuple[Codec, ...]:
    """Return codecs that read the same bytes for chunks of so many axes and one more in front, of length 1."""
    raised: list[Codec] = []
    for number, codec in enumerate(codecs):
        rest = [_record(one) for one in codecs[number:]]
        changed = _changed(rest[0].leading.lifted, codec, axes)
        # what packs the bytes that `bytes` makes is given the shape of the same chunk
        takes_none = changed is None or (codec.name == BYTES and any(one.leading is NONE for one in rest))
        if takes_none:
            return (*raised, ReshapeConfig.dropping(1, axes), *codecs[number:])
        if changed is not None:
            raised.append(changed)
        if rest[0].leading.takes_it_off:
            return (*raised, *codecs[number + 1 :])
    return tuple(raised)


def lowered(codecs: Sequence[Codec], axes: int) -> tuple[Codec, ...]:
    """Return codecs for chunks of so many axes, which have no axis in front any more: the inverse of `lifted`."""
    found: list[Codec] = []
    for number, codec in enumerate(codecs):
        leading = _record(codec).leading
        changed = _changed(leading.lowered, codec, axes)
        if leading.takes_it_off:
            return (*found, *(() if changed is None else (changed,)), *codecs[number + 1 :])
        if changed is None:
            raise UnrepresentableError(f"{codec.name} does not let the first axis be left out", field="codecs")
        found.append(changed)
    return tuple(found)


def decoding(codecs: Sequence[Codec]) -> list[Any]:
    """Return what decides how chunks are decoded, as JSON: without the image's size, and what matters to writers."""
    entries = []
    for codec in codecs:
        known = CODECS.get(codec.name)
        left_out = frozenset[str]() if known is None else known.of_writers | known.sides.keys()
        members = {name: value for name, value in codec.configuration.items() if name not in left_out}
        entries.append(CodecSpec(codec.name, members).to_json())
    return entries


def with_sides(codecs: Sequence[Codec], shape: Sequence[int]) -> tuple[Codec, ...]:
    """Return codecs for an image of another shape with chunks of the same."""
    found: list[Codec] = []
    for codec in codecs:
        known = CODECS.get(codec.name)
        sides = {} if known is None else {name: int(shape[axis]) for name, axis in known.sides.items()}
        changed = sides and any(codec.configuration[name] != size for name, size in sides.items())
        found.append(CodecSpec(codec.name, {**codec.configuration, **sides}) if changed else codec)
    return tuple(found)


def _changed(change: Change, codec: Codec, axes: int) -> Codec | None:
    try:
        return change(codec, axes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{codec.name} has no configuration of its kind: {error!r}"
        raise UnrepresentableError(message, field="codecs") from error


def _record(codec: Codec) -> CodecRecord:
    known = CODECS.get(codec.name)
    if known is None:
        raise UnrepresentableError(
            f"codec {codec.name}, of which jnrrdz does not know how it reads chunks with one more axis; "
            f"{', '.join(CODECS)} are known",
            field="codecs",
        )
    return known
