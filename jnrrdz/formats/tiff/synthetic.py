"""One tile as a TIFF of one strip, for libraries that decode files."""

from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.directory import assemble
from jnrrdz.formats.tiff.schemes import Compression, Kind, of_kind
from jnrrdz.formats.tiff.tags import Photometric, Planar, SampleFormat, Tag
from jnrrdz.formats.tiff_directory import FieldType

JPEG_COLOURS = 3

ALWAYS = {Tag.BitsPerSample, Tag.SampleFormat}
"""Tags that are written even without values."""

POINTERS = {Tag.StripOffsets, Tag.JPEGInterchangeFormat}


def synthetic_tiff(config: TiffTileConfig, width: int, height: int, data: bytes) -> bytes:
    """Return a TIFF whose only strip is `data`, `width` x `height` pixels, tagged as the source is."""
    order = "<" if config.byte_order == "little" else ">"
    long, short, rational = FieldType.LONG, FieldType.SHORT, FieldType.RATIONAL
    separate = config.planar_config == Planar.SEPARATE
    samples = 1 if separate else config.samples_per_pixel
    is_jpeg = config.compression in JPEGS and config.compression != Compression.OLD_JPEG
    # JPEGs of three components that are no YCbCr: libtiff takes their numbers as they
    # are, be they grey, Lab or red, green and blue.  tifffile does so for plain RGB only,
    # and leaves all else to libjpeg, which guesses YCbCr.
    is_three = config.compression == Compression.JPEG and samples == JPEG_COLOURS
    is_plain_jpeg = is_three and config.photometric != Photometric.YCBCR
    colours = config.photometric
    if is_plain_jpeg:
        colours = Photometric.RGB
    elif separate or (is_jpeg and samples != JPEG_COLOURS):
        # one plane of several is grey, whatever the planes together are; and tifffile makes
        # colours of a grey JPEG that is called RGB
        colours = Photometric.MINISBLACK
    formats = config.sample_format
    is_odd = SampleFormat.INT in formats and config.bits_per_sample[0] % 8
    if is_odd or SampleFormat.VOID in formats:
        formats = (SampleFormat.UINT,) * len(formats)  # whose signs are extended later
    is_old = config.compression == Compression.OLD_JPEG
    has_palette = config.photometric == Photometric.PALETTE
    tags: list[tuple[int, int, tuple[int, ...] | bytes]] = [
        (Tag.ImageWidth, long, (width,)),
        (Tag.ImageLength, long, (height,)),
        (Tag.BitsPerSample, short, config.bits_per_sample[:samples]),
        (Tag.Compression, short, (config.compression,)),
        (Tag.PhotometricInterpretation, short, (colours,)),
        (Tag.FillOrder, short, (config.fill_order,)),
        (Tag.StripOffsets, long, (0,)),
        (Tag.SamplesPerPixel, short, (samples,)),
        (Tag.RowsPerStrip, long, (height,)),
        (Tag.StripByteCounts, long, (len(data),)),
        (Tag.PlanarConfiguration, short, (Planar.CHUNKY,)),
        (Tag.SampleFormat, short, formats[:samples]),
        (Tag.Predictor, short, () if config.predictor == 1 else (config.predictor,)),
        (Tag.T4Options, long, () if config.t4_options is None else (config.t4_options,)),
        (Tag.ExtraSamples, short, () if separate or is_plain_jpeg else config.extra_samples),
        (Tag.YCbCrSubSampling, short, config.ycbcr_subsampling),
        (Tag.YCbCrCoefficients, rational, config.ycbcr_coefficients),
        (Tag.ReferenceBlackWhite, rational, config.reference_black_white),
        (Tag.JPEGProc, short, (1,) if is_old else ()),
        (Tag.JPEGInterchangeFormat, long, (0,) if is_old else ()),
        (Tag.JPEGInterchangeFormatLength, long, (len(data),) if is_old else ()),
        (Tag.LERCParameters, long, config.lerc_parameters),
        (Tag.ColorMap, short, (0,) * (3 << min(config.bits_per_sample[0], 16)) if has_palette else ()),
        (Tag.JPEGTables, FieldType.UNDEFINED, config.jpeg_tables or b""),
    ]
    present = sorted(entry for entry in tags if entry[2] or entry[0] in ALWAYS)
    return assemble(order, present, POINTERS) + data


JPEGS = of_kind(Kind.JPEG)
