"""One TIFF image to one virtual array: grid, type, codec, references.

May touch the TIFF layout and the model.  Strips of few rows that are stored without compression,
one after the other, are merged into chunks of a few hundred kilobytes: a chunk a row would cost a
reader more than the pixels.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec import TiffTileConfig
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.tiff.nodata import nodata_text, nodata_value
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import BYTE_STREAMS, Compression, Photometric, Planar, Predictor, Tag, name_of
from jnrrdz.formats.tiff.tiff_image import Segments, TiffImage, sample_dtype, segments
from jnrrdz.formats.tiff.tiff_ojpeg import old_jpeg_header

MERGED_BYTES = 512 * 1024
MAX_CHUNK_BYTES = 1 << 31
MISSING_SIDE = 1 << 16

UNREADABLE = {Compression.JETRAW}
"""Schemes with a name that no decoder at hand reads."""

JPEGS_WITH_TABLES = {Compression.JPEG, Compression.ALT_JPEG, Compression.JPEG_LOSSY}
RGB_SAMPLES = 3
SUBSAMPLINGS = {(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)}


@dataclass(frozen=True)
class Place:
    """Where an array belongs: what does not stand in its own IFD."""

    url: str
    main: TiffImage
    attributes: dict[str, Any]
    nodata: str | None = None
    """What a file beside the image says marks missing pixels."""


def check_supported(layout: TiffLayout, image: TiffImage) -> None:
    """Refuse by name what no decoder here reads."""
    here = image.ifd.offset
    if image.compression not in Compression or image.compression in UNREADABLE:
        raise UnsupportedError(name_of(Compression, image.compression), offset=here, field="Compression")
    if image.predictor not in Predictor:
        raise UnsupportedError(f"predictor {image.predictor}", offset=here, field="Predictor")
    if image.planar not in Planar:
        raise UnsupportedError(f"planar configuration {image.planar}", offset=here, field="PlanarConfiguration")
    if image.fill_order not in {1, 2}:
        raise UnsupportedError(f"fill order {image.fill_order}", offset=here, field="FillOrder")
    if len(set(image.bits)) > 1:
        raise UnsupportedError(f"samples of different widths {image.bits}", offset=here, field="BitsPerSample")
    if image.photometric == Photometric.YCBCR and image.compression in BYTE_STREAMS:
        _check_ycbcr(layout, image)


def _check_ycbcr(layout: TiffLayout, image: TiffImage) -> None:
    """Refuse YCbCr that libtiff, the one decoder of it outside of JPEG, does not turn into RGB."""
    here, factors = image.ifd.offset, _subsampling(layout, image)
    if set(image.bits) != {8} or image.samples != RGB_SAMPLES:
        raise UnsupportedError(
            f"YCbCr of {image.samples} samples, {image.bits} bits", offset=here, field="BitsPerSample"
        )
    if factors not in SUBSAMPLINGS or (image.separate and factors != (1, 1)):
        raise UnsupportedError(f"chroma subsampled by {factors}", offset=here, field="YCbCrSubSampling")


def virtual_array(layout: TiffLayout, image: TiffImage, place: Place) -> VirtualArray:
    """Return the array of one image."""
    check_supported(layout, image)
    dtype = sample_dtype(image)
    image, found = _trimmed(image, segments(layout, image))
    rows, found = _merged(image, found)
    planes = 1 if image.separate else image.samples
    lead = (planes,) if image.samples > 1 else ()
    chunks = (*lead, rows, image.segment_width)
    _check_chunk(image, chunks, dtype)
    shape = (*((image.samples,) if lead else ()), image.length, image.width)
    nodata = nodata_value(place.nodata or nodata_text(layout, place.main), dtype)
    attributes = {**place.attributes, **nodata.attributes}
    if nodata.value is not None:
        attributes["_FillValue"] = nodata.value
    return VirtualArray(
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        codecs=(_config(layout, image, rows, found).to_spec(),),
        refs=ChunkRefs.single(place.url, found.offsets, found.lengths, missing=found.missing),
        dimension_names=("band", "y", "x") if lead else ("y", "x"),
        fill_value=dtype.type(0) if nodata.value is None else nodata.value,
        attributes=attributes,
    )


def _trimmed(image: TiffImage, found: Segments) -> tuple[TiffImage, Segments]:
    """Return an image without any pixels in the file with segments no larger than itself: nothing decodes them."""
    if not found.missing.all():
        return image, found
    side = (min(image.segment_length, image.length, MISSING_SIDE), min(image.segment_width, image.width, MISSING_SIDE))
    trimmed = replace(image, segment_length=side[0], segment_width=side[1])
    nothing = np.zeros(trimmed.segments, np.int64)
    return trimmed, Segments(nothing, nothing)


def _check_chunk(image: TiffImage, chunks: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    nbytes = int(np.prod(chunks, dtype=object)) * dtype.itemsize
    if nbytes > MAX_CHUNK_BYTES:
        raise UnsupportedError(
            f"segments of {chunks} pixels are {nbytes} bytes each, more than {MAX_CHUNK_BYTES} are not decoded",
            offset=image.ifd.offset,
            field="TileWidth, TileLength" if image.tiled else "RowsPerStrip",
        )


def _config(layout: TiffLayout, image: TiffImage, rows: int, found: Segments) -> TiffTileConfig:
    """Return what the codec must know of this image's segments."""
    ifd = image.ifd
    t4_options = layout.ints(ifd, Tag.T4Options)
    return TiffTileConfig(
        tile_width=image.segment_width,
        tile_height=rows,
        image_width=image.width,
        image_height=image.length,
        byte_order="little" if layout.order == "<" else "big",
        compression=image.compression,
        photometric=image.photometric,
        samples_per_pixel=image.samples,
        bits_per_sample=image.bits,
        sample_format=image.formats,
        planar_config=Planar.SEPARATE if image.separate else Planar.CHUNKY,
        predictor=image.predictor,
        fill_order=image.fill_order,
        extra_samples=_extra_samples(layout, image),
        ycbcr_subsampling=_subsampling(layout, image),
        ycbcr_coefficients=_rationals(layout, image, Tag.YCbCrCoefficients),
        reference_black_white=_rationals(layout, image, Tag.ReferenceBlackWhite),
        t4_options=t4_options[0] if t4_options and image.compression == Compression.CCITT_T4 else None,
        lerc_parameters=layout.ints(ifd, Tag.LERCParameters) if image.compression == Compression.LERC else (),
        jpeg_tables=layout.raw(ifd, Tag.JPEGTables) if image.compression in JPEGS_WITH_TABLES else None,
        jpeg_header=_jpeg_header(layout, image, found),
    )


def _jpeg_header(layout: TiffLayout, image: TiffImage, found: Segments) -> bytes | None:
    present = found.offsets[~found.missing]
    if image.compression != Compression.OLD_JPEG or not present.size:
        return None
    return old_jpeg_header(layout, image, int(present[0]))


def _extra_samples(layout: TiffLayout, image: TiffImage) -> tuple[int, ...]:
    """Return ExtraSamples, no more than there can be."""
    colours = {Photometric.RGB: 3, Photometric.YCBCR: 3, Photometric.CIELAB: 3, Photometric.SEPARATED: 4}
    room = max(image.samples - colours.get(Photometric(image.photometric), 1), 0) if _named(image) else image.samples
    return layout.ints(image.ifd, Tag.ExtraSamples)[:room]


def _named(image: TiffImage) -> bool:
    return image.photometric in Photometric


def _subsampling(layout: TiffLayout, image: TiffImage) -> tuple[int, ...]:
    if image.photometric != Photometric.YCBCR:
        return ()
    return layout.ints(image.ifd, Tag.YCbCrSubSampling, (2, 2))[:2]


def _rationals(layout: TiffLayout, image: TiffImage, tag: Tag) -> tuple[int, ...]:
    """Return a rational tag as numerators and denominators, where the decoding of YCbCr hangs on it."""
    values = layout.array(image.ifd, tag, limit=6)
    if image.photometric != Photometric.YCBCR or image.compression == Compression.JPEG or values is None:
        return ()
    if values.ndim == 1:  # some writers store plain integers
        values = np.stack([values, np.ones_like(values)], axis=1)
    return tuple(values.ravel().astype(np.int64).tolist()) if values.dtype.kind == "u" else ()


def _merged(image: TiffImage, found: Segments) -> tuple[int, Segments]:
    """Return the rows of a chunk, and where the chunks stand, with small raw strips put together."""
    rows = image.segment_length
    times = MERGED_BYTES // max(image.row_bytes * rows, 1)
    _, strips, _ = image.grid
    if times < 2 or strips < 2 or not _is_contiguous(image, found):  # noqa: PLR2004  one strip needs no merging
        return rows, found
    times = min(times, strips)
    offsets, lengths = (column.reshape(-1, strips) for column in (found.offsets, found.lengths))
    starts = np.arange(0, strips, times)
    return rows * times, Segments(
        np.ascontiguousarray(offsets[:, starts]).ravel(), np.add.reduceat(lengths, starts, axis=1).ravel()
    )


def _is_contiguous(image: TiffImage, found: Segments) -> bool:
    """Whether the strips are raw rows, each strip where the one before it ends."""
    if image.tiled or image.compression != Compression.NONE or image.predictor != Predictor.NONE:
        return False
    if image.photometric == Photometric.YCBCR or found.missing.any():
        return False
    strips = image.grid[1]
    full: NDArray[np.int64] = np.full(strips, image.row_bytes * image.segment_length)
    full[-1] = image.row_bytes * (image.length - (strips - 1) * image.segment_length)
    offsets, lengths = (column.reshape(-1, strips) for column in (found.offsets, found.lengths))
    follows = offsets[:, 1:] == offsets[:, :-1] + full[:-1]
    return bool(follows.all() and (lengths[:, :-1] == full[:-1]).all() and (lengths[:, -1] >= full[-1]).all())
