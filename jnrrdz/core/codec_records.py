"""Records of the codecs that no format has: Zarr's, steps of chains, compressors, and osml-imagery-io's."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jnrrdz.core.codecs import (
    BLOSC,
    BYTES,
    BZ2,
    CAST_VALUE,
    CRC32C,
    FLETCHER32,
    GZIP,
    LINEAR,
    LZ4,
    LZMA,
    OFFSET,
    OSML,
    PAD,
    RATIO,
    RESHAPE,
    SCALE_OFFSET,
    SHUFFLE,
    SHUFFLES,
    SQUEEZE,
    TILE,
    TRANSPOSE,
    ZLIB,
    ZSTD,
    LinearConfig,
    Lz4Config,
    OffsetConfig,
    PadConfig,
    ReshapeConfig,
    SqueezeConfig,
    TileConfig,
)
from jnrrdz.core.configuration import (
    ANY_AXES,
    NO_AXES,
    Codec,
    CodecRecord,
    CodecSpec,
    Leading,
    Readers,
    Stage,
    Translation,
    same_members,
)
from jnrrdz.core.json_schema import is_integer, shown
from jnrrdz.errors import MalformedError

# Axes in front


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


# Entries of Zarr v2


def _level(default: int) -> Translation:
    return lambda entry, _: {"level": entry.get("level", default)}


def _zstd(entry: Mapping[str, Any], _: np.dtype[Any]) -> Mapping[str, Any]:
    return {"level": entry.get("level", 0), "checksum": entry.get("checksum", False)}


def _blosc(entry: Mapping[str, Any], dtype: np.dtype[Any]) -> Mapping[str, Any]:
    shuffle = entry.get("shuffle", 1)
    if shuffle == -1:  # numcodecs' own choice, by the size of an element
        shuffle = 2 if dtype.itemsize == 1 else 1
    if not is_integer(shuffle, 0, len(SHUFFLES) - 1):
        raise MalformedError(f"shuffle {shown(shuffle)}; -1 to 2 are known", field=BLOSC)
    return {
        "cname": entry.get("cname", "lz4"),
        "clevel": entry.get("clevel", 5),
        "shuffle": SHUFFLES[shuffle],
        "typesize": dtype.itemsize,
        "blocksize": entry.get("blocksize", 0),
    }


def _shuffle(entry: Mapping[str, Any], dtype: np.dtype[Any]) -> Mapping[str, Any]:
    return {"elementsize": entry.get("elementsize", 4) or dtype.itemsize}


# Bytes that a step adds to a chunk

CHECKSUM = 4
"""Bytes of a checksum of 32 bits."""

MOST_ELEMENT = 1 << 10
"""Bytes of an element whose bytes are shuffled."""


def _checksum_bytes(_: Mapping[str, Any]) -> int:
    return CHECKSUM


def _shuffle_bytes(configuration: Mapping[str, Any]) -> int:
    if not is_integer(configuration.get("elementsize"), 1, MOST_ELEMENT):
        raise MalformedError(f"elementsize from 1 to {MOST_ELEMENT} is needed", field=SHUFFLE)
    return 0


def _offset_bytes(configuration: Mapping[str, Any]) -> int:
    return OffsetConfig.from_json(configuration).offset


def _pad_bytes(configuration: Mapping[str, Any]) -> int:
    return PadConfig.from_json(configuration).nbytes


# The records

LEVEL = frozenset({"level"})
BOUNDED = "jnrrdz.codecs.steps:BoundedCodec"
FILTER = "jnrrdz.codecs.steps:FilterCodec"

ZARRS_OWN = (
    CodecRecord(
        TRANSPOSE,
        Stage.ARRAY,
        Leading(_transpose_lifted, _transpose_lowered),
        Readers.ANY,
        can_encode=True,
    ),
    CodecRecord(SCALE_OFFSET, Stage.ARRAY, ANY_AXES, Readers.NEWEST, can_encode=True),
    CodecRecord(CAST_VALUE, Stage.ARRAY, ANY_AXES, Readers.NEWEST, can_encode=True),
    CodecRecord(BYTES, Stage.PIXELS, ANY_AXES, Readers.ANY, can_encode=True),
    CodecRecord(
        CRC32C,
        Stage.BYTES,
        ANY_AXES,
        Readers.ANY,
        can_encode=True,
        added_bytes=_checksum_bytes,
    ),
    CodecRecord(
        SHUFFLE,
        Stage.BYTES,
        ANY_AXES,
        Readers.PYTHON,
        bounded_class=FILTER,
        can_encode=True,
        version_2={"shuffle": _shuffle},
        added_bytes=_shuffle_bytes,
    ),
    CodecRecord(
        FLETCHER32,
        Stage.BYTES,
        ANY_AXES,
        Readers.PYTHON,
        bounded_class=FILTER,
        can_encode=True,
        version_2={"fletcher32": lambda *_: {}},
        added_bytes=_checksum_bytes,
    ),
)
"""Zarr's own codecs but compressors and shards; `codec_table` has the record of shards."""

STEPS = (
    CodecRecord(
        LINEAR,
        Stage.ARRAY,
        Leading(_linear_lifted, _linear_lowered),
        config=LinearConfig,
        codec_class="jnrrdz.codecs.steps:LinearCodec",
        schema="docs/codecs/jnrrdz.linear/schema.json",
        can_encode=True,
    ),
    CodecRecord(
        RESHAPE,
        Stage.ARRAY,
        Leading(_reshape_lifted, _reshape_lowered, takes_it_off=True),
        config=ReshapeConfig,
        codec_class="jnrrdz.codecs.steps:ReshapeCodec",
        schema="docs/codecs/reshape/schema.json",
        can_encode=True,
    ),
    CodecRecord(
        SQUEEZE,
        Stage.ARRAY,
        NO_AXES,
        config=SqueezeConfig,
        codec_class="jnrrdz.codecs.steps:SqueezeCodec",
        can_encode=True,
    ),
    CodecRecord(
        OFFSET,
        Stage.BYTES,
        ANY_AXES,
        config=OffsetConfig,
        codec_class="jnrrdz.codecs.steps:OffsetCodec",
        schema="docs/codecs/offset/schema.json",
        can_encode=True,
        version_2={OFFSET: same_members},
        filter_class="jnrrdz.codecs.filters:Offset",
        added_bytes=_offset_bytes,
    ),
    CodecRecord(
        PAD,
        Stage.BYTES,
        ANY_AXES,
        config=PadConfig,
        codec_class="jnrrdz.codecs.steps:PadCodec",
        schema="docs/codecs/pad/schema.json",
        can_encode=True,
        version_2={PAD: same_members},
        filter_class="jnrrdz.codecs.filters:Pad",
        added_bytes=_pad_bytes,
    ),
    CodecRecord(
        TILE,
        Stage.PIXELS,
        NO_AXES,
        config=TileConfig,
        codec_class="jnrrdz.codecs.tiles:JnrrdTileCodec",
        decoder="jnrrdz.formats.nrrd.decode:TileCoder",
        schema="docs/codecs/jnrrdz.tile/schema.json",
        is_part_of_stored=True,
    ),
)
"""jnrrdz's own codecs that several formats use."""

PACKERS = (
    CodecRecord(
        GZIP,
        Stage.PACKER,
        ANY_AXES,
        Readers.ANY,
        bounded_class=BOUNDED,
        decoder="jnrrdz.formats.compressors:decode_gzip",
        encoder="jnrrdz.formats.compressors:encode_gzip",
        can_encode=True,
        version_2={"gzip": _level(1)},
        of_writers=LEVEL,
        most_times=RATIO["gzip"],
    ),
    CodecRecord(
        ZLIB,
        Stage.PACKER,
        ANY_AXES,
        Readers.PYTHON,
        bounded_class=BOUNDED,
        decoder="jnrrdz.formats.compressors:decode_zlib",
        encoder="jnrrdz.formats.compressors:encode_zlib",
        can_encode=True,
        version_2=dict.fromkeys(("zlib", "imagecodecs_zlib", "imagecodecs_deflate"), _level(1)),
        of_writers=LEVEL,
        most_times=RATIO["gzip"],
    ),
    CodecRecord(
        BZ2,
        Stage.PACKER,
        ANY_AXES,
        Readers.PYTHON,
        bounded_class=BOUNDED,
        decoder="jnrrdz.formats.compressors:decode_bz2",
        encoder="jnrrdz.formats.compressors:encode_bz2",
        can_encode=True,
        version_2={"bz2": _level(1)},
        of_writers=LEVEL,
        most_times=RATIO["bzip2"],
    ),
    CodecRecord(
        LZMA,
        Stage.PACKER,
        ANY_AXES,
        Readers.PYTHON,
        bounded_class=BOUNDED,
        decoder="jnrrdz.formats.compressors:decode_lzma",
        encoder="jnrrdz.formats.compressors:encode_lzma",
        can_encode=True,
        version_2={"lzma": same_members},
    ),
    CodecRecord(
        ZSTD,
        Stage.PACKER,
        ANY_AXES,
        Readers.ANY,
        bounded_class=BOUNDED,
        decoder="jnrrdz.formats.compressors:decode_zstd",
        encoder="jnrrdz.formats.compressors:encode_zstd",
        can_encode=True,
        version_2={
            "zstd": _zstd,
            "imagecodecs_zstd": lambda *_: {"level": 0, "checksum": False},
        },
        of_writers=LEVEL,
        most_times=RATIO["zstd"],
    ),
    CodecRecord(
        BLOSC,
        Stage.PACKER,
        ANY_AXES,
        Readers.ANY,
        bounded_class=BOUNDED,
        decoder="jnrrdz.formats.compressors:decode_blosc",
        encoder="jnrrdz.formats.compressors:encode_blosc",
        can_encode=True,
        version_2={"blosc": _blosc},
    ),
    CodecRecord(
        LZ4,
        Stage.PACKER,
        ANY_AXES,
        config=Lz4Config,
        codec_class="jnrrdz.codecs.steps:Lz4Codec",
        bounded_class=BOUNDED,
        schema="docs/codecs/jnrrdz.lz4/schema.json",
        decoder="jnrrdz.formats.compressors:decode_lz4",
        encoder="jnrrdz.formats.compressors:encode_lz4",
        can_encode=True,
        version_2={"lz4": lambda *_: {"framing": "frame"}},
        most_times=RATIO["lz4"],
    ),
)
"""Compressors, which are decoded in `formats/compressors.py`."""


def _of_osml(name: str, codec_class: str, **members: Any) -> CodecRecord:
    place = f"jnrrdz.codecs.osml:{codec_class}"
    return CodecRecord(f"{OSML}{name}", Stage.PACKER, NO_AXES, codec_class=place, **members)


OF_OSML = (
    _of_osml(
        "tiff-tile",
        "OsmlTiffTileCodec",
        filter_class="jnrrdz.codecs.filters:OsmlTile",
        lack="jnrrdz.formats.tiff.decode:lack",
        distinctive=frozenset({"compression", "predictor"}),
    ),
    _of_osml(
        "jpeg2000",
        "OsmlBlocksCodec",
        filter_class="jnrrdz.codecs.filters:OsmlJpeg2000",
        is_part_of_stored=True,
    ),
    _of_osml("jbp-block", "OsmlBlocksCodec", filter_class="jnrrdz.codecs.filters:OsmlBlock"),
    _of_osml("jpeg", "OsmlBlocksCodec", filter_class="jnrrdz.codecs.filters:OsmlJpeg"),
    _of_osml("dted", "OsmlUnreadCodec", can_decode=False),
)
"""Codecs of osml-imagery-io, docs/interop/osml.md."""
