"""Codecs that tifffile writes into references of TIFFs, as `tiff-tile` or Zarr's own.

tifffile (`ZarrTiffStore.write_fsspec`) and kerchunk name a TIFF's compression and
predictor by codecs of imagecodecs (https://github.com/cgohlke/imagecodecs): filters and
a compressor in Zarr v2, a chain of codecs in v3.  `tiff-tile` reads the same bytes.  The
last axis holds samples if the predictor or the axis's name `S` says so.  A chain that is
not understood to the last member is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jnrrdz.core import codecs as names
from jnrrdz.core.configuration import Codec, CodecSpec, sizes
from jnrrdz.core.json_schema import (
    FLAG,
    TEXT,
    Check,
    integer,
    members,
    nullable,
    shown,
    text_or,
    validate,
)
from jnrrdz.core.limits import AXES
from jnrrdz.core.zarr2 import ChunkLayout
from jnrrdz.core.zarr_json import array_from_json
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.schemes import Compression, Kind

type Members = Mapping[str, Any]

PREDICTORS = {"imagecodecs_delta": 2, "imagecodecs_floatpred": 3}
JPEG = "imagecodecs_jpeg"
NUMBERS = {name: number for number in Compression for name in number.foreign}
"""TIFF's compressions by the names that tifffile has for them."""


def is_image(name: str) -> bool:
    """Whether a codec compresses pictures, and no bytes of any meaning."""
    return NUMBERS[name].scheme.kind is not Kind.STREAM


PLAIN = {
    "imagecodecs_zlib": CodecSpec(names.ZLIB, {"level": 1}),
    "imagecodecs_deflate": CodecSpec(names.ZLIB, {"level": 1}),
    "imagecodecs_zstd": CodecSpec(names.ZSTD, {"level": 0, "checksum": False}),
    "imagecodecs_lzma": CodecSpec(names.LZMA, {}),
}
"""Compressions of bytes that are Zarr's own; levels matter to writers alone."""

SAMPLE_FORMATS = {"u": 1, "i": 2, "f": 3, "c": 6}
SAMPLES = "S"
"""tifffile's name of the axis of samples."""

OF_SAMPLES = -2
"""The predictor's axis where samples are the last one."""

GREY, RGB, YCBCR = 1, 2, 6
COLOURS = 3
_COLOURS = nullable(text_or(integer()))
_JPEG_MEMBERS: dict[str, Check] = {
    "tables": nullable(TEXT),
    "header": nullable(TEXT),
    "bitspersample": nullable(integer(1)),
    "colorspace_jpeg": _COLOURS,
    "colorspace_data": _COLOURS,
}
_PREDICTOR = members(
    {},
    {
        "axis": nullable(integer(-AXES, AXES)),
        "dist": nullable(integer()),
        "shape": sizes(0),
    },
)
_OTHER = members({}, {"format": nullable(text_or(integer())), "hasalpha": nullable(FLAG)})
_CONFIGURATIONS: Mapping[str, Check] = {
    **dict.fromkeys(NUMBERS, _OTHER),
    **dict.fromkeys(PREDICTORS, _PREDICTOR),
    JPEG: members({}, _JPEG_MEMBERS),
}
"""What imagecodecs' members are that decide how tiles are read."""


def own_codecs(document: Members) -> list[Any]:
    """Return the codecs of an array's zarr.json with those of imagecodecs replaced.

    Codecs without a counterpart stay, so that a read of this array names them.
    """
    entries: list[Any] = document["codecs"]
    try:
        facts = array_from_json({**document, "codecs": [names.bytes_("little").to_json()]})
        specs = list(map(CodecSpec.from_json, entries))
        endians = [s.configuration.get("endian") for s in specs if s.name == names.BYTES]
        endian = "big" if endians == ["big"] else "little"
        tiles = ChunkLayout(facts.shape, facts.chunks, facts.dtype, endian, document.get("dimension_names") or ())
        rest = [spec for spec in specs if spec.name != names.BYTES]
        if len(rest) == 1 and len(endians) == 1 and rest[0].name in PLAIN:
            stored = next(spec for spec in specs if spec.name == names.BYTES)
            return [stored.to_json(), PLAIN[rest[0].name].to_json()]
        return [codec.to_json() for codec in tiff_codecs(rest, tiles) or specs]
    except JnrrdzError:  # the codecs stay, and a read of this array names them
        return entries


def tiff_codecs(specs: Sequence[CodecSpec], tiles: ChunkLayout) -> list[Codec] | None:
    """Return the codecs that read tiles of a TIFF; None for a chain of other codecs.

    `specs` are at most a predictor, and a compression.
    """
    if not specs or tiles.dtype.kind not in SAMPLE_FORMATS:
        return None
    _check_members(specs)
    predictor = PREDICTORS.get(specs[0].name, 1)
    scheme = specs[-1]
    number = NUMBERS.get(scheme.name)
    is_chain = len(specs) == (1 if predictor == 1 else 2)
    if not is_chain or number is None:
        return None
    if predictor > 1 and is_image(scheme.name):
        raise UnsupportedError(f"a predictor before {scheme.name!r}", field="codecs")
    samples = _samples(specs[0].configuration if predictor > 1 else None, scheme, tiles)
    lead, tile = tiles.chunks[:-2], tiles.chunks[-2:]
    length, columns = tiles.shape[-2:]
    if samples > 1:
        lead, tile = tiles.chunks[:-3], tiles.chunks[-3:-1]
        length, columns = tiles.shape[-3:-1]
    if any(size != 1 for size in lead):
        raise UnsupportedError(f"tiles of several planes, {shown(tiles.chunks)}", field="codecs")
    members = {
        "tile_width": tile[1],
        "tile_height": tile[0],
        "image_width": columns,
        "image_height": length,
        "byte_order": tiles.endian,
        "compression": int(number),
        "photometric": GREY if samples < COLOURS else RGB,
        "samples_per_pixel": samples,
        "bits_per_sample": [tiles.dtype.itemsize * 8] * samples,
        "sample_format": [SAMPLE_FORMATS[tiles.dtype.kind]] * samples,
        "predictor": predictor,
    }
    if not is_image(scheme.name):
        members["photometric"] = GREY
    members |= _of_scheme(scheme, samples)
    extra = samples - (COLOURS if members["photometric"] in {RGB, YCBCR} else 1)
    if extra > 0:
        members["extra_samples"] = [0] * extra
    config = TiffTileConfig.from_json(members)
    axes = len(tiles.chunks)
    if samples == 1:
        return [config]
    samples_first = [axes - 1, *range(axes - 1)]
    return [CodecSpec(names.TRANSPOSE, {"order": samples_first}), config]


def _check_members(specs: Sequence[CodecSpec]) -> None:
    """Refuse members of other types, which would else be taken for numbers."""
    for spec in specs:
        check = _CONFIGURATIONS.get(spec.name)
        if check is not None:
            validate(spec.configuration, check, spec.name)


def _samples(predictor: Members | None, scheme: CodecSpec, tiles: ChunkLayout) -> int:
    """Return how many samples the last axis has, 1 where it holds columns."""
    if len(tiles.chunks) < len("yx"):
        raise UnsupportedError(f"tiles of {len(tiles.chunks)} axes", field="codecs")
    is_last = list(tiles.axes)[-1:] == [SAMPLES]
    if predictor is not None:
        axis = predictor.get("axis", -1)
        chunks = predictor.get("shape", tiles.chunks)
        is_known = axis in {-1, OF_SAMPLES} and predictor.get("dist", 1) == 1
        if not is_known or list(chunks) != list(tiles.chunks):
            message = f"a predictor {shown(dict(predictor))} of chunks of {shown(tiles.chunks)}"
            raise UnsupportedError(message, field="codecs")
        is_last = axis == OF_SAMPLES
    if not is_last:
        is_unnamed = not any(tiles.axes) and len(tiles.chunks) > len("yx")
        if is_unnamed and is_image(scheme.name):
            message = f"{scheme.name!r} without names of dimensions, which say where samples are"
            raise UnsupportedError(message, field="codecs")
        return 1
    if len(tiles.chunks) < len("yxS") or tiles.chunks[-1] != tiles.shape[-1]:
        raise UnsupportedError(f"samples in chunks of {shown(tiles.chunks)}", field="codecs")
    return tiles.chunks[-1]


def _of_scheme(scheme: CodecSpec, samples: int) -> dict[str, Any]:
    """Return the members of `tiff-tile` that a compression's configuration gives."""
    given = {name: value for name, value in scheme.configuration.items() if value is not None}
    if scheme.name == JPEG:
        return _of_jpeg(given, samples)
    # how hard a writer compresses is nothing to readers
    ignored = {"level", "hasalpha", "format", "check", "preset", "checksum"}
    is_plain = given.get("format", 1) == 1 and given.keys() <= ignored
    if not is_plain or given.get("hasalpha", samples > COLOURS) != (samples > COLOURS):
        message = f"{scheme.name!r} of {samples} samples with {shown(given)}"
        raise UnsupportedError(message, field="codecs")
    return {}


def _of_jpeg(given: Members, samples: int) -> dict[str, Any]:
    colours = given.get("colorspace_jpeg"), given.get("colorspace_data")
    photometric = None
    if samples == 1 and colours[1] in {None, GREY}:
        photometric = GREY
    elif samples == COLOURS:
        # what a stream does not say is YCbCr, else it is taken as it is
        known: Mapping[Any, int] = {(None, RGB): YCBCR, (RGB, RGB): RGB}
        photometric = known.get(colours)
    bits = given.get("bitspersample", 8)
    if photometric is None or not given.keys() <= _JPEG_MEMBERS.keys():
        message = f"{JPEG!r} of {samples} samples with {shown(dict(given))}"
        raise UnsupportedError(message, field="codecs")
    members = {"photometric": photometric, "bits_per_sample": [bits] * samples}
    literals = {"jpeg_tables": given.get("tables"), "jpeg_header": given.get("header")}
    return members | {name: text for name, text in literals.items() if text is not None}
