"""The numbers of TIFF: field types, tags, and the values that tags take.

TIFF 6.0, its technical notes, BigTIFF, and the private tags and schemes that GDAL, libtiff and tifffile know.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from jnrrdz.core.configuration import Samples
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig


class Tag(IntEnum):
    """Tags that jnrrdz reads."""

    NewSubfileType = 254
    SubfileType = 255
    ImageWidth = 256
    ImageLength = 257
    BitsPerSample = 258
    Compression = 259
    PhotometricInterpretation = 262
    FillOrder = 266
    DocumentName = 269
    ImageDescription = 270
    Make = 271
    Model = 272
    StripOffsets = 273
    Orientation = 274
    SamplesPerPixel = 277
    RowsPerStrip = 278
    StripByteCounts = 279
    MinSampleValue = 280
    MaxSampleValue = 281
    XResolution = 282
    YResolution = 283
    PlanarConfiguration = 284
    T4Options = 292
    T6Options = 293
    ResolutionUnit = 296
    Software = 305
    DateTime = 306
    Artist = 315
    HostComputer = 316
    Predictor = 317
    ColorMap = 320
    TileWidth = 322
    TileLength = 323
    TileOffsets = 324
    TileByteCounts = 325
    SubIFDs = 330
    ExtraSamples = 338
    SampleFormat = 339
    JPEGTables = 347
    JPEGProc = 512
    JPEGInterchangeFormat = 513
    JPEGInterchangeFormatLength = 514
    JPEGRestartInterval = 515
    JPEGQTables = 519
    JPEGDCTables = 520
    JPEGACTables = 521
    YCbCrCoefficients = 529
    YCbCrSubSampling = 530
    YCbCrPositioning = 531
    ReferenceBlackWhite = 532
    XMP = 700
    ImageDepth = 32997
    TileDepth = 32998
    Copyright = 33432
    ModelPixelScale = 33550
    ModelTiepoint = 33922
    ModelTransformation = 34264
    ExifIFD = 34665
    ICCProfile = 34675
    GeoKeyDirectory = 34735
    GeoDoubleParams = 34736
    GeoAsciiParams = 34737
    GDAL_METADATA = 42112
    GDAL_NODATA = 42113
    LERCParameters = 50674
    RPCCoefficientTag = 50844


class SubfileType(IntEnum):
    """Bits of NewSubfileType."""

    REDUCED = 1
    PAGE = 2
    MASK = 4


class ExtraSample(IntEnum):
    """What a sample beyond the colours is."""

    UNSPECIFIED = 0
    ASSOCALPHA = 1
    UNASSALPHA = 2


class Photometric(IntEnum):
    """What a pixel's values mean."""

    MINISWHITE = 0
    MINISBLACK = 1
    RGB = 2
    PALETTE = 3
    MASK = 4
    SEPARATED = 5
    YCBCR = 6
    CIELAB = 8
    ICCLAB = 9
    ITULAB = 10
    CFA = 32803
    LOGL = 32844
    LOGLUV = 32845


class Planar(IntEnum):
    """Whether the samples of a pixel stand together."""

    CHUNKY = 1
    SEPARATE = 2


class Predictor(IntEnum):
    """What was done before compressing; in DNG also from the second or fourth pixel before, the next of its colour."""

    NONE = 1
    HORIZONTAL = 2
    FLOATING_POINT = 3
    FLOATING_POINT_X2 = 34894
    FLOATING_POINT_X4 = 34895


class SampleFormat(IntEnum):
    """How a sample's bits are to be read."""

    UINT = 1
    INT = 2
    IEEEFP = 3
    VOID = 4
    COMPLEXINT = 5
    COMPLEXIEEEFP = 6


@lru_cache(1024)
def name_of[E: IntEnum](kind: type[E], value: int) -> str:
    """Return `NAME (value)` where the value has a name, else the bare value."""
    return f"{kind(value).name} ({value})" if value in kind else str(value)


DTYPE: dict[SampleFormat, tuple[tuple[int, str], ...]] = {
    SampleFormat.UINT: ((8, "u1"), (16, "u2"), (32, "u4"), (64, "u8")),
    SampleFormat.INT: ((8, "i1"), (16, "i2"), (32, "i4"), (64, "i8")),
    SampleFormat.IEEEFP: ((16, "f2"), (32, "f4"), (64, "f8")),
    SampleFormat.COMPLEXINT: ((32, "c8"), (64, "c16")),
    SampleFormat.COMPLEXIEEEFP: ((64, "c8"), (128, "c16")),
}
"""For each sample format the most bits that a type holds, and the type."""

WHOLE_WIDTHS = {
    SampleFormat.INT: {*range(2, 33), 64},
    SampleFormat.IEEEFP: {16, 24, 32, 64},
    SampleFormat.COMPLEXINT: {32, 64},
    SampleFormat.COMPLEXIEEEFP: {64, 128},
}
"""Widths that can be read, of formats that have not any number of bits."""


def sample_dtype(widths: Sequence[int], formats: Sequence[int]) -> np.dtype[Any]:
    """Return the numpy type (native order) that holds every sample of BitsPerSample and SampleFormat exactly."""
    if len(set(formats)) != 1 or not widths:
        raise UnsupportedError(f"samples of different formats {tuple(formats)}", field="SampleFormat")
    bits, number = max(widths), formats[0]
    if number not in SampleFormat:
        raise UnsupportedError(f"sample format {number}", field="SampleFormat")
    form = SampleFormat.UINT if number == SampleFormat.VOID else SampleFormat(number)
    whole = WHOLE_WIDTHS.get(form)
    if whole is not None and not set(widths) <= whole:
        raise UnsupportedError(f"{tuple(widths)} bits of {name_of(SampleFormat, form)}", field="BitsPerSample")
    for most, code in DTYPE[form]:
        if 0 < bits <= most:
            return np.dtype(code)
    raise UnsupportedError(f"{bits} bits of {name_of(SampleFormat, form)}", field="BitsPerSample")


def tile_samples(config: TiffTileConfig) -> tuple[Samples]:
    """Return what tiles of this configuration hold."""
    samples = Samples.of(sample_dtype(config.bits_per_sample, config.sample_format))
    if samples.kind in "ui":
        samples = samples._replace(bits=max(config.bits_per_sample))
    return (samples,)
