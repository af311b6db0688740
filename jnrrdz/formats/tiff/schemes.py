"""The compressions of TIFF, a record each, and which combinations of tags can be decoded.

Index asks `check_decodable` before it lists an image, a decoder before it decodes a chunk:
what tags alone rule out is refused in the same words by both.  A member of `Compression` is
all that the package knows of a scheme: its number and name, its record with what decodes it
and which samples its streams can hold, and its names in references of others; the formats of samples that exist at
all are in `tags.sample_dtype`.
Spec: docs/codecs/tiff-tile/README.md
"""

from collections.abc import Container, Mapping
from enum import Enum, IntEnum, auto
from typing import NoReturn, Self

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import ZLIB, ZSTD
from jnrrdz.core.configuration import BYTE_BITS, Codec, CodecSpec
from jnrrdz.core.standard import check_lengths, is_core, refuse, stored_bytes, stored_order
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.tags import (
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

    declared: str | None = None
    """Returns the size that data declare; None where they declare none."""

    most_times: int | None = None
    """How many times its length a stream can become at the most; None where its format has no limit."""

    writes_in_place: bool = False
    """Whether a stream's decoder writes whole chunks to where it is told."""

    needs_room: bool = False
    """Whether a stream's decoder needs room for all that the stream becomes."""

    zarr: tuple[CodecSpec, ...] | None = None
    """Zarr's own codecs that decode the same streams; levels matter to writers alone."""

    has_tables: bool = False
    """Whether the directory may have JPEG tables for all chunks."""

    logarithmic: Mapping[int, int] | None = None
    """Of a scheme for luminance on a logarithmic scale: samples for each photometric."""

    is_readable: bool = True
    """Whether a decoder at hand reads it."""


ONE = frozenset({1})
SIZES = "jnrrdz.formats.image_streams:"
STREAM = Kind.STREAM
ZLIB_CHAIN = (CodecSpec(ZLIB, {"level": 6}),)
ZSTD_CHAIN = (CodecSpec(ZSTD, {"level": 3, "checksum": False}),)
LOGLUV: Mapping[int, int] = {Photometric.LOGLUV: 3}
LOG_COLOURS: Mapping[int, int] = {Photometric.LOGL: 1, **LOGLUV}

PLAIN = Scheme("NONE", STREAM, most_times=1, writes_in_place=True, zarr=())
RLE = Scheme("TIFF", Kind.FAX, BITS, ONE)
DEFLATED = Scheme("DEFLATE", STREAM, most_times=1032, writes_in_place=True, zarr=ZLIB_CHAIN)
ZSTANDARD = Scheme("ZSTD", STREAM, writes_in_place=True, needs_room=True, zarr=ZSTD_CHAIN)
J2K = Scheme("JPEG2K", Kind.IMAGE, JPEG2000_WIDTHS, declared=f"{SIZES}jpeg2000_size")
BASELINE = Scheme("JPEG8", Kind.JPEG, JPEG_WIDTHS, ONE_TO_FOUR, f"{SIZES}jpeg_size", has_tables=True)
JPEG_XR = Scheme("JPEGXR", Kind.IMAGE, JPEGXL_WIDTHS, frozenset({1, *range(3, 9)}), f"{SIZES}jpegxr_size")
JPEG_XL = Scheme("JPEGXL", Kind.IMAGE, JPEGXL_WIDTHS, declared=f"{SIZES}jpegxl_size")
WEB_P = Scheme("WEBP", Kind.IMAGE, OCTETS, frozenset({3, 4}), f"{SIZES}webp_size")


class Compression(IntEnum):
    """Schemes by the names that their users know: number, record, and names of tifffile's references."""

    scheme: Scheme
    foreign: tuple[str, ...]

    def __new__(cls, number: int, scheme: Scheme, *foreign: str) -> Self:
        """Return the member of a number."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.scheme = scheme
        member.foreign = foreign
        return member

    NONE = 1, PLAIN
    CCITT_RLE = 2, RLE
    CCITT_T4 = 3, Scheme("CCITTFAX3", Kind.FAX, BITS, ONE)
    CCITT_T6 = 4, Scheme("CCITTFAX4", Kind.FAX, BITS, ONE)
    LZW = 5, Scheme("LZW", STREAM, most_times=4096, writes_in_place=True), "imagecodecs_lzw"
    OLD_JPEG = 6, Scheme("TIFF", Kind.JPEG, OCTETS, ONE_TO_FOUR, f"{SIZES}jpeg_size")
    JPEG = 7, BASELINE, "imagecodecs_jpeg"
    DEFLATE = 8, DEFLATED, "zlib", "imagecodecs_zlib", "imagecodecs_deflate"
    JPEGXR_NDPI = 22610, JPEG_XR
    NEXT = 32766, Scheme("TIFF", Kind.RASTER, {SampleFormat.UINT: {2}}, ONE)
    CCITT_RLEW = 32771, RLE
    PACKBITS = 32773, Scheme("PACKBITS", STREAM, most_times=64, needs_room=True), "imagecodecs_packbits"
    THUNDERSCAN = 32809, Scheme("TIFF", Kind.RASTER, {SampleFormat.UINT: {4}}, ONE)
    PIXARLOG = 32909, Scheme("TIFF", Kind.RASTER, PIXARLOG_WIDTHS)
    DEFLATE_OLD = 32946, DEFLATED
    APERIO_JP2000_YCBC = 33003, J2K
    JPEG2000_LOSSY = 33004, J2K
    APERIO_JP2000_RGB = 33005, J2K
    ALT_JPEG = 33007, BASELINE
    JPEG2000 = 34712, J2K, "imagecodecs_jpeg2k"
    SGILOG = 34676, Scheme("TIFF", Kind.RASTER, LOG_WIDTHS, logarithmic=LOG_COLOURS)
    SGILOG24 = 34677, Scheme("TIFF", Kind.RASTER, LOG_WIDTHS, logarithmic=LOGLUV)
    LERC = 34887, Scheme("LERC", Kind.RASTER, LERC_WIDTHS, declared=f"{SIZES}lerc_size"), "imagecodecs_lerc"
    JPEG_LOSSY = 34892, BASELINE
    LZMA = 34925, Scheme("LZMA", STREAM), "lzma", "imagecodecs_lzma"
    ZSTD_OLD = 34926, ZSTANDARD
    WEBP_OLD = 34927, WEB_P
    PNG = 34933, Scheme("PNG", Kind.IMAGE, SHORTS, ONE_TO_FOUR, f"{SIZES}png_size"), "imagecodecs_png"
    JPEGXR = 34934, JPEG_XR, "imagecodecs_jpegxr"
    JETRAW = 48124, Scheme("JETRAW", Kind.RASTER, is_readable=False)
    ZSTD = 50000, ZSTANDARD, "zstd", "imagecodecs_zstd"
    WEBP = 50001, WEB_P, "imagecodecs_webp"
    JPEGXL = 50002, JPEG_XL, "imagecodecs_jpegxl"
    PIXTIFF = 50013, DEFLATED
    JPEGXL_DNG = 52546, JPEG_XL


BY_NUMBER: Mapping[int, Compression] = {int(number): number for number in Compression}
SCHEMES: Mapping[int, Scheme] = {number: number.scheme for number in Compression}

HORIZONTAL_BITS = {8, 16, 32, 64}
"""Widths of samples whose differences libtiff undoes."""

FLOAT24 = 24
COLOURS = 3
SUBSAMPLINGS = {(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)}


def of_kind(*kinds: Kind) -> frozenset[int]:
    """Return the compressions of some kinds."""
    return frozenset(number for number, scheme in SCHEMES.items() if scheme.kind in kinds)


BYTE_STREAMS = of_kind(Kind.STREAM)


def _refuse(tag: Tag, reason: str) -> NoReturn:
    raise UnsupportedError(reason, field=tag.name)


def check_decodable(config: TiffTileConfig) -> None:
    """Refuse tags that no tile can be decoded with, by the name of the tag."""
    scheme = SCHEMES.get(config.compression)
    if scheme is None or not scheme.is_readable:
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
    _check_samples(config, scheme)
    if scheme.logarithmic is not None:
        _check_logarithmic(config, scheme.logarithmic)
    if scheme.kind is Kind.STREAM:
        _check_predictor(config)
        if config.photometric == Photometric.YCBCR:
            _check_ycbcr(config)


def _check_samples(config: TiffTileConfig, scheme: Scheme) -> None:
    """Refuse samples that a scheme's data cannot hold."""
    form = SampleFormat(config.sample_format[0])
    held = SampleFormat.UINT if form == SampleFormat.VOID else form
    bits = config.bits_per_sample[0]
    if scheme.widths is not None:
        if held not in scheme.widths:
            text = f"{_scheme_name(config)} of samples that are {name_of(SampleFormat, form)}"
            _refuse(Tag.SampleFormat, text)
        if bits not in scheme.widths[held]:
            name = name_of(SampleFormat, form)
            text = f"{_scheme_name(config)} of {bits}-bit samples that are {name}"
            _refuse(Tag.BitsPerSample, text)
    is_separate = config.planar_config == Planar.SEPARATE
    samples = 1 if is_separate else config.samples_per_pixel
    if scheme.samples is not None and samples not in scheme.samples:
        tag = Tag.PlanarConfiguration if is_separate else Tag.SamplesPerPixel
        _refuse(tag, f"{_scheme_name(config)} of {samples} samples a pixel")


def _scheme_name(config: TiffTileConfig) -> str:
    """Return the name of a compression, which errors alone need."""
    return name_of(Compression, config.compression)


def _check_logarithmic(config: TiffTileConfig, colours: Mapping[int, int]) -> None:
    """Refuse what libtiff refuses of SGILog, and colours that are no floats.

    libtiff gives them in three other ways, depending on BitsPerSample.
    """
    name = _scheme_name(config)
    samples = colours.get(config.photometric)
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

TIFF_KINDS = {1: "u", 2: "i", 3: "f", 4: "u", 6: "c"}
"""SampleFormat: unsigned, signed, float, undefined, complex float."""


def standard_codecs(config: TiffTileConfig, array: VirtualArray) -> tuple[Codec, ...]:
    """Return codecs of Zarr's own that read the chunks of `tiff-tile`; an error says why there are none."""
    scheme = SCHEMES.get(config.compression)
    packed = None if scheme is None else scheme.zarr
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
