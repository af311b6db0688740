"""The compressions of TIFF, a record each, and which combinations of tags can be decoded.

Index asks `check_decodable` before it lists an image, a decoder before it decodes a chunk:
what tags alone rule out is refused in the same words by both.  The record of a scheme says
what decodes it and which samples its streams can hold; the formats of samples that exist at
all are in `tags.sample_dtype`.
Spec: docs/codecs/tiff-tile/README.md
"""

from collections.abc import Container, Mapping
from enum import Enum, auto
from typing import NoReturn

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import ZLIB, ZSTD
from jnrrdz.core.configuration import BYTE_BITS, Codec, CodecSpec
from jnrrdz.core.standard import check_lengths, is_core, refuse, stored_bytes, stored_order
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.tags import (
    Compression,
    Photometric,
    Planar,
    Predictor,
    SampleFormat,
    Tag,
    name_of,
    sample_dtype,
)
from jnrrdz.records import record


class Kind(Enum):
    """What a scheme compresses, and so how its data are decoded."""

    STREAM = auto()
    """Bytes, whatever they mean: a cut stream is a shorter one."""

    IMAGE = auto()
    """An image, whose data declare their size."""

    JPEG = auto()
    """An image whose colours and tables the tags tell."""

    FAX = auto()
    """Rows of bits, of a size that the tags tell."""

    RASTER = auto()
    """Rows of pixels, of a size that the tags tell."""


type Widths = Mapping[SampleFormat, Container[int]]
"""The bits that samples of a format may have; other formats are not held."""

BITS: Widths = {SampleFormat.UINT: {1}}
OCTETS: Widths = {SampleFormat.UINT: {8}, SampleFormat.INT: {8}}
SHORTS: Widths = {SampleFormat.UINT: range(1, 17), SampleFormat.INT: {8, 16}}
JPEG_WIDTHS: Widths = {SampleFormat.UINT: range(2, 17), SampleFormat.INT: {8, 16}}
JPEG2000_WIDTHS: Widths = {SampleFormat.UINT: range(1, 27), SampleFormat.INT: range(2, 27)}
"""OpenJPEG loses bits of wider samples."""

JPEGXL_WIDTHS: Widths = {**SHORTS, SampleFormat.IEEEFP: {16, 32}}
LERC_WIDTHS: Widths = {
    SampleFormat.UINT: {8, 16, 32},
    SampleFormat.INT: {8, 16, 32},
    SampleFormat.IEEEFP: {32, 64},
}
PIXARLOG_WIDTHS: Widths = {SampleFormat.UINT: {8, 16}, SampleFormat.IEEEFP: {32}}
LOG_WIDTHS: Widths = {
    SampleFormat.UINT: {16},
    SampleFormat.INT: {16},
    SampleFormat.IEEEFP: {32},
}

ONE_TO_FOUR = frozenset({1, 2, 3, 4})


@record
class Scheme:
    """What decodes a compression, and what its data can hold."""

    decoder: str
    """The decoder's name in imagecodecs; "TIFF" is libtiff."""

    kind: Kind
    widths: Widths | None = None
    """None for any that TIFF has."""

    samples: frozenset[int] | None = None
    """Samples that a pixel of a chunk may have; None for any number."""


def _stream(decoder: str) -> Scheme:
    return Scheme(decoder, Kind.STREAM)


ONE = frozenset({1})
JPEG2000 = Scheme("JPEG2K", Kind.IMAGE, JPEG2000_WIDTHS)
JPEG = Scheme("JPEG8", Kind.JPEG, JPEG_WIDTHS, ONE_TO_FOUR)
JPEGXR = Scheme("JPEGXR", Kind.IMAGE, JPEGXL_WIDTHS, frozenset({1, *range(3, 9)}))
JPEGXL = Scheme("JPEGXL", Kind.IMAGE, JPEGXL_WIDTHS)
WEBP = Scheme("WEBP", Kind.IMAGE, OCTETS, frozenset({3, 4}))

SCHEMES: Mapping[Compression, Scheme] = {
    Compression.NONE: _stream("NONE"),
    Compression.CCITT_RLE: Scheme("TIFF", Kind.FAX, BITS, ONE),
    Compression.CCITT_T4: Scheme("CCITTFAX3", Kind.FAX, BITS, ONE),
    Compression.CCITT_T6: Scheme("CCITTFAX4", Kind.FAX, BITS, ONE),
    Compression.LZW: _stream("LZW"),
    Compression.OLD_JPEG: Scheme("TIFF", Kind.JPEG, OCTETS, ONE_TO_FOUR),
    Compression.JPEG: JPEG,
    Compression.DEFLATE: _stream("DEFLATE"),
    Compression.JPEGXR_NDPI: JPEGXR,
    Compression.NEXT: Scheme("TIFF", Kind.RASTER, {SampleFormat.UINT: {2}}, ONE),
    Compression.CCITT_RLEW: Scheme("TIFF", Kind.FAX, BITS, ONE),
    Compression.PACKBITS: _stream("PACKBITS"),
    Compression.THUNDERSCAN: Scheme("TIFF", Kind.RASTER, {SampleFormat.UINT: {4}}, ONE),
    Compression.PIXARLOG: Scheme("TIFF", Kind.RASTER, PIXARLOG_WIDTHS),
    Compression.DEFLATE_OLD: _stream("DEFLATE"),
    Compression.APERIO_JP2000_YCBC: JPEG2000,
    Compression.JPEG2000_LOSSY: JPEG2000,
    Compression.APERIO_JP2000_RGB: JPEG2000,
    Compression.ALT_JPEG: JPEG,
    Compression.JPEG2000: JPEG2000,
    Compression.SGILOG: Scheme("TIFF", Kind.RASTER, LOG_WIDTHS),
    Compression.SGILOG24: Scheme("TIFF", Kind.RASTER, LOG_WIDTHS),
    Compression.LERC: Scheme("LERC", Kind.RASTER, LERC_WIDTHS),
    Compression.JPEG_LOSSY: JPEG,
    Compression.LZMA: _stream("LZMA"),
    Compression.ZSTD_OLD: _stream("ZSTD"),
    Compression.WEBP_OLD: WEBP,
    Compression.PNG: Scheme("PNG", Kind.IMAGE, SHORTS, ONE_TO_FOUR),
    Compression.JPEGXR: JPEGXR,
    Compression.JETRAW: Scheme("JETRAW", Kind.RASTER),
    Compression.ZSTD: _stream("ZSTD"),
    Compression.WEBP: WEBP,
    Compression.JPEGXL: JPEGXL,
    Compression.PIXTIFF: _stream("DEFLATE"),
    Compression.JPEGXL_DNG: JPEGXL,
}

LOGARITHMIC: Mapping[int, Mapping[int, int]] = {
    Compression.SGILOG: {Photometric.LOGL: 1, Photometric.LOGLUV: 3},
    Compression.SGILOG24: {Photometric.LOGLUV: 3},
}
"""Schemes for luminance on a logarithmic scale: samples for each photometric."""

UNREADABLE = {Compression.JETRAW}
"""Schemes with a name that no decoder at hand reads."""

HORIZONTAL_BITS = {8, 16, 32, 64}
"""Widths of samples whose differences libtiff undoes."""

FLOAT24 = 24
COLOURS = 3
SUBSAMPLINGS = {(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)}


def of_kind(*kinds: Kind) -> frozenset[Compression]:
    """Return the compressions of some kinds."""
    return frozenset(number for number, scheme in SCHEMES.items() if scheme.kind in kinds)


BYTE_STREAMS = of_kind(Kind.STREAM)


def _refuse(tag: Tag, reason: str) -> NoReturn:
    raise UnsupportedError(reason, field=tag.name)


def check_decodable(config: TiffTileConfig) -> None:
    """Refuse tags that no tile can be decoded with, by the name of the tag."""
    if config.compression not in SCHEMES or config.compression in UNREADABLE:
        _refuse(Tag.Compression, name_of(Compression, config.compression))
    if config.predictor not in Predictor:
        _refuse(Tag.Predictor, f"predictor {config.predictor}")
    if config.planar_config not in Planar:
        _refuse(Tag.PlanarConfiguration, f"planar configuration {config.planar_config}")
    if config.fill_order not in {1, 2}:
        _refuse(Tag.FillOrder, f"fill order {config.fill_order}")
    if len(set(config.bits_per_sample)) > 1:
        _refuse(Tag.BitsPerSample, f"samples of different widths {config.bits_per_sample}")
    sample_dtype(config.bits_per_sample, config.sample_format)
    scheme = SCHEMES[Compression(config.compression)]
    _check_samples(config, scheme)
    if config.compression in LOGARITHMIC:
        _check_logarithmic(config)
    if scheme.kind is Kind.STREAM:
        _check_predictor(config)
        if config.photometric == Photometric.YCBCR:
            _check_ycbcr(config)


def _check_samples(config: TiffTileConfig, scheme: Scheme) -> None:
    """Refuse samples that a scheme's data cannot hold."""
    name = name_of(Compression, config.compression)
    form = SampleFormat(config.sample_format[0])
    held = SampleFormat.UINT if form == SampleFormat.VOID else form
    bits = config.bits_per_sample[0]
    if scheme.widths is not None:
        if held not in scheme.widths:
            _refuse(Tag.SampleFormat, f"{name} of samples that are {name_of(SampleFormat, form)}")
        if bits not in scheme.widths[held]:
            text = f"{name} of {bits}-bit samples that are {name_of(SampleFormat, form)}"
            _refuse(Tag.BitsPerSample, text)
    is_separate = config.planar_config == Planar.SEPARATE
    samples = 1 if is_separate else config.samples_per_pixel
    if scheme.samples is not None and samples not in scheme.samples:
        tag = Tag.PlanarConfiguration if is_separate else Tag.SamplesPerPixel
        _refuse(tag, f"{name} of {samples} samples a pixel")


def _check_logarithmic(config: TiffTileConfig) -> None:
    """Refuse what libtiff refuses of SGILog, and colours that are no floats.

    libtiff gives them in three other ways, depending on BitsPerSample.
    """
    name = name_of(Compression, config.compression)
    samples = LOGARITHMIC[config.compression].get(config.photometric)
    if samples is None:
        text = f"{name} of {name_of(Photometric, config.photometric)}"
        _refuse(Tag.PhotometricInterpretation, text)
    if config.samples_per_pixel != samples or config.planar_config != Planar.CHUNKY:
        _refuse(Tag.SamplesPerPixel, f"{name} of {config.samples_per_pixel} samples a pixel")
    if samples > 1 and config.sample_format[0] != SampleFormat.IEEEFP:
        form = name_of(SampleFormat, config.sample_format[0])
        _refuse(Tag.SampleFormat, f"{name} of colours that are {form}")


def _check_predictor(config: TiffTileConfig) -> None:
    """Refuse predictors of samples that libtiff refuses them for."""
    bits, form = config.bits_per_sample[0], config.sample_format[0]
    if config.predictor == Predictor.NONE:
        return
    if config.predictor == Predictor.HORIZONTAL:
        if bits not in HORIZONTAL_BITS:
            _refuse(Tag.Predictor, f"horizontal differencing of {bits}-bit samples")
        return
    if form != SampleFormat.IEEEFP:
        name = name_of(SampleFormat, form)
        _refuse(Tag.Predictor, f"the floating-point predictor of samples that are {name}")
    if bits == FLOAT24 and config.predictor != Predictor.FLOATING_POINT:
        name = name_of(Predictor, config.predictor)
        _refuse(Tag.Predictor, f"{name} of floats of 24 bits")


def _check_ycbcr(config: TiffTileConfig) -> None:
    """Refuse YCbCr that libtiff does not turn into RGB: outside of JPEG nothing else does."""
    if set(config.bits_per_sample) != {8} or config.samples_per_pixel != COLOURS:
        text = f"YCbCr of {config.samples_per_pixel} samples, {config.bits_per_sample} bits"
        _refuse(Tag.BitsPerSample, text)
    subsampling = config.ycbcr_subsampling or (2, 2)
    is_separate = config.planar_config == Planar.SEPARATE
    if subsampling not in SUBSAMPLINGS or (is_separate and subsampling != (1, 1)):
        _refuse(Tag.YCbCrSubSampling, f"chroma subsampled by {subsampling}")


# Chains of Zarr's own

WRITTEN_ZLIB = (CodecSpec(ZLIB, {"level": 6}),)
WRITTEN_ZSTD = (CodecSpec(ZSTD, {"level": 3, "checksum": False}),)
PACKED: Mapping[int, tuple[CodecSpec, ...]] = {
    Compression.NONE: (),
    Compression.DEFLATE: WRITTEN_ZLIB,
    Compression.DEFLATE_OLD: WRITTEN_ZLIB,
    Compression.PIXTIFF: WRITTEN_ZLIB,
    Compression.ZSTD_OLD: WRITTEN_ZSTD,
    Compression.ZSTD: WRITTEN_ZSTD,
}

TIFF_KINDS = {1: "u", 2: "i", 3: "f", 4: "u", 6: "c"}
"""SampleFormat: unsigned, signed, float, undefined, complex float."""


def standard_codecs(config: TiffTileConfig, array: VirtualArray) -> tuple[Codec, ...]:
    """Return codecs of Zarr's own that read the chunks of `tiff-tile`; an error says why there are none."""
    packed = PACKED.get(config.compression)
    kinds = {TIFF_KINDS.get(number) for number in config.sample_format}
    widths = sorted(set(config.bits_per_sample))
    is_exact = widths == [array.dtype.itemsize * BYTE_BITS] and kinds == {array.dtype.kind}
    names = ", ".join(map(str, widths))
    rest = config.image_height % config.tile_height
    is_short = bool(packed) and not config.is_tiled and rest > 0
    refuse(
        (
            (config.palette is not None, "colours are looked up in a palette"),
            (packed is None, f"TIFF compression {config.compression}, which is no codec of Zarr's own"),
            (config.predictor != 1, f"predictor {config.predictor}, which no codec of Zarr's own undoes"),
            (config.fill_order != 1, "bytes whose bits are in reverse order (FillOrder 2)"),
            (config.photometric == Photometric.YCBCR, "YCbCr, which becomes red, green and blue"),
            (not is_exact, f"samples of {names} bits that are no {array.dtype} as stored"),
            (is_short, f"a last strip of {rest} rows, the others have more"),
        )
    )
    if not packed:
        check_lengths(array)
    stored = "bhw" if config.planar_config == Planar.SEPARATE else "hwb"
    chain = packed or ()
    for_gdal = all(is_core(codec.name) for codec in chain)
    order = stored_order(array.chunks, stored, for_gdal=for_gdal)
    return (*order, stored_bytes(array, config.byte_order), *chain)
