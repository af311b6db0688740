"""A TIFF made up around one tile or strip, so that decoders that read whole files read it.

May touch the layout tables and the model.
Spec: docs/codecs/tiff-tile/README.md
"""

import struct

from jnrrdz.core.codec import TiffTileConfig
from jnrrdz.formats.tiff.tags import Compression, FieldType, Photometric, Planar, Tag

JPEG_COLOURS = 3

type TagValues = tuple[int, int, tuple[int, ...] | bytes]


def synthetic_tiff(config: TiffTileConfig, width: int, height: int, data: bytes) -> bytes:
    """Return a TIFF whose only strip is `data`, `width` x `height` pixels, tagged as the source is."""
    order = "<" if config.byte_order == "little" else ">"
    separate = config.planar_config == Planar.SEPARATE
    samples = 1 if separate else config.samples_per_pixel
    tags: list[TagValues] = [
        (Tag.ImageWidth, FieldType.LONG, (width,)),
        (Tag.ImageLength, FieldType.LONG, (height,)),
        (Tag.BitsPerSample, FieldType.SHORT, config.bits_per_sample[:samples]),
        (Tag.Compression, FieldType.SHORT, (config.compression,)),
        (Tag.PhotometricInterpretation, FieldType.SHORT, (_photometric(config, separate=separate),)),
        (Tag.FillOrder, FieldType.SHORT, (config.fill_order,)),
        (Tag.StripOffsets, FieldType.LONG, (0,)),
        (Tag.SamplesPerPixel, FieldType.SHORT, (samples,)),
        (Tag.RowsPerStrip, FieldType.LONG, (height,)),
        (Tag.StripByteCounts, FieldType.LONG, (len(data),)),
        (Tag.PlanarConfiguration, FieldType.SHORT, (Planar.CHUNKY,)),
        (Tag.SampleFormat, FieldType.SHORT, config.sample_format[:samples]),
    ]
    tags += _special_tags(config, len(data), separate=separate)
    return _assembled(order, sorted(tags), data)


def _special_tags(config: TiffTileConfig, nbytes: int, *, separate: bool) -> list[TagValues]:
    """Return the tags that only some schemes and colours need."""
    long, short, rational = FieldType.LONG, FieldType.SHORT, FieldType.RATIONAL
    has_palette = config.photometric == Photometric.PALETTE
    is_old = config.compression == Compression.OLD_JPEG
    optional: list[tuple[bool, TagValues]] = [
        (config.predictor != 1, (Tag.Predictor, short, (config.predictor,))),
        (config.t4_options is not None, (Tag.T4Options, long, (config.t4_options or 0,))),
        (not (separate or _is_plain_jpeg(config)), (Tag.ExtraSamples, short, config.extra_samples)),
        (True, (Tag.YCbCrSubSampling, short, config.ycbcr_subsampling)),
        (True, (Tag.YCbCrCoefficients, rational, config.ycbcr_coefficients)),
        (True, (Tag.ReferenceBlackWhite, rational, config.reference_black_white)),
        (is_old, (Tag.JPEGProc, short, (1,))),
        (is_old, (Tag.JPEGInterchangeFormat, long, (0,))),
        (is_old, (Tag.JPEGInterchangeFormatLength, long, (nbytes,))),
        (True, (Tag.LERCParameters, long, config.lerc_parameters)),
        (has_palette, (Tag.ColorMap, short, (0,) * (3 << min(config.bits_per_sample[0], 16)))),
        (True, (Tag.JPEGTables, FieldType.UNDEFINED, config.jpeg_tables or b"")),
    ]
    return [entry for wanted, entry in optional if wanted and entry[2]]


def _photometric(config: TiffTileConfig, *, separate: bool) -> int:
    """One plane of several is grey, whatever the planes together are."""
    if separate:
        return Photometric.MINISBLACK
    return Photometric.RGB if _is_plain_jpeg(config) else config.photometric


def _is_plain_jpeg(config: TiffTileConfig) -> bool:
    """Whether chunks are JPEGs of three components that are no YCbCr.

    libtiff takes their numbers as they are, be they grey, Lab or red, green and blue.  tifffile
    does so for plain RGB only, and leaves all else to libjpeg, which guesses that they are YCbCr.
    """
    is_three = config.compression == Compression.JPEG and config.samples_per_pixel == JPEG_COLOURS
    return is_three and config.photometric != Photometric.YCBCR


def _assembled(order: str, tags: list[TagValues], data: bytes) -> bytes:
    """Return header, one IFD, the values that do not fit in it, and the data."""
    codes = {FieldType.SHORT: "H", FieldType.LONG: "I", FieldType.RATIONAL: "I"}
    values = [
        value if isinstance(value, bytes) else struct.pack(f"{order}{len(value)}{codes[FieldType(kind)]}", *value)
        for _, kind, value in tags
    ]
    end = 8 + 2 + 12 * len(tags) + 4
    loose = [len(value) + len(value) % 2 if len(value) > 4 else 0 for value in values]  # noqa: PLR2004  a field's room
    start = end + sum(loose)
    ifd, heap = struct.pack(order + "H", len(tags)), b""
    for (tag, kind, value), packed, room in zip(tags, values, loose, strict=True):
        field = packed.ljust(4, b"\0")
        if room:
            field = struct.pack(order + "I", end + len(heap))
            heap += packed.ljust(room, b"\0")
        if tag in {Tag.StripOffsets, Tag.JPEGInterchangeFormat}:
            field = struct.pack(order + "I", start)
        count = len(value) // 2 if kind == FieldType.RATIONAL else len(value)
        ifd += struct.pack(order + "HHI", tag, kind, count) + field
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "I", 8) + ifd + bytes(4) + heap + data
