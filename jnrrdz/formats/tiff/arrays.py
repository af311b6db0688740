"""One TIFF image to one virtual array: grid, type, nodata, codec, references.

Strips that are stored without compression are merged or cut into chunks of a few hundred kilobytes
(`core.slabs`): a chunk a row would cost a reader more than the pixels, and a chunk for all of them too.
A nodata value that the type cannot hold marks no pixel: it is kept as an attribute, with a warning, and never costs
the pixels.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://gdal.org/en/stable/drivers/raster/gtiff.html#nodata-value
"""

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import NODATA
from jnrrdz.core.limits import CHUNK_BYTES
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.slabs import step_along
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.image import (
    Segments,
    TiffImage,
    old_jpeg_header,
    old_jpeg_stream,
    segments,
    strip_bytes,
    subsampling_of,
)
from jnrrdz.formats.tiff.schemes import SCHEMES, Compression, check_decodable
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Planar, Predictor, Tag, sample_dtype

WINDOWS_NAN = re.compile(r"[+-]?1\.#(QNAN|SNAN|IND|NAN)\d*", re.IGNORECASE)
WINDOWS_INF = re.compile(r"([+-]?)1\.#INF\d*", re.IGNORECASE)
"""How old C libraries on Windows spell what is not finite."""


def nodata_text(layout: TiffLayout, image: TiffImage) -> str | None:
    """Return GDAL_NODATA, None where it is absent or blank; a mask has none."""
    text = None if image.is_mask else layout.text(image.ifd, Tag.GDAL_NODATA)
    return text if text is not None and text.strip() else None


def own_nodata(layout: TiffLayout, image: TiffImage) -> str | None:
    """Return GDAL_NODATA of an image, None where there is none or it cannot be read (with a warning)."""
    if Tag.GDAL_NODATA not in image.ifd.entries:
        return None
    try:
        return nodata_text(layout, image)
    except JnrrdzError as error:
        warnings.warn(f"no nodata: {error}", stacklevel=2)
        return None


def nodata_attributes(text: str | None, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return `_FillValue` of the array's type; for a text that the type cannot hold, `nodata` and a warning."""
    if text is None or not text.strip():
        return {}
    # as Python spells it: no decimal comma, NaN and infinity by their names
    spelt = WINDOWS_INF.sub(r"\1inf", WINDOWS_NAN.sub("nan", text.strip()))
    spelt = spelt if "." in spelt else spelt.replace(",", ".")
    value: Any = None
    with suppress(ValueError):
        if dtype.kind == "f":
            value = _nearest(float(spelt), dtype)
        elif dtype.kind == "c":
            number = complex(spelt)
            parts = [_nearest(part, np.dtype(f"f{dtype.itemsize // 2}")) for part in (number.real, number.imag)]
            value = None if None in parts else np.array(complex(*map(float, parts)), dtype)[()]
        else:  # exactly, even where a double could not hold it
            is_whole = re.fullmatch(r"[+-]?\d{1,40}", text.strip()) is not None
            whole = int(text) if is_whole else int(float(spelt)) if float(spelt).is_integer() else None
            limits = np.iinfo(dtype)
            value = dtype.type(whole) if whole is not None and limits.min <= whole <= limits.max else None
    if value is not None:
        return {"_FillValue": value}
    warnings.warn(f"nodata {text!r} is no value of {dtype}: kept as an attribute only", stacklevel=2)
    return {"nodata": text.strip()}


def _nearest(number: float, dtype: np.dtype[Any]) -> Any:
    """Return the nearest float; one just beyond the largest is the largest, as GDAL takes it."""
    largest = float(np.finfo(dtype).max)
    if np.isfinite(number) and abs(number) > largest:
        rounded = largest if number > 0 else -largest
        return dtype.type(rounded) if np.isclose(number, rounded, rtol=1e-6) else None
    return dtype.type(number)


MERGED_BYTES = 512 * 1024
"""What chunks of raw strips have, about."""

WHOLE_BYTES = 1 << 20
"""A raw strip of no more than this is a chunk."""

MISSING_SIDE = 1 << 16
MISSING_SEGMENTS = 1 << 16
MISSING_BYTES = 1 << 26

JPEGS_WITH_TABLES = frozenset(number for number, scheme in SCHEMES.items() if scheme.has_tables)
COLOURS = {Photometric.RGB: 3, Photometric.YCBCR: 3, Photometric.CIELAB: 3, Photometric.SEPARATED: 4}


def virtual_array(
    layout: TiffLayout, image: TiffImage, url: str, attributes: Mapping[str, Any], nodata: str | None = None
) -> VirtualArray:
    """Return the array of one image; `nodata` marks missing pixels in place of what its own tag says."""
    subsampling = subsampling_of(layout, image) if image.photometric == Photometric.YCBCR else ()
    stream = None
    if image.compression == Compression.OLD_JPEG:
        stream = old_jpeg_stream(layout, image)
    if stream is not None:  # all segments are one chunk, as libtiff decodes them
        image = replace(image, segment_length=image.length)
    config = _tile_config(layout, image, subsampling)
    try:
        check_decodable(config)
    except UnsupportedError as error:
        raise error.at(offset=image.ifd.offset) from None
    is_boolean = layout.has_booleans and set(image.bits) == {1}
    dtype = np.dtype(np.bool_) if is_boolean else sample_dtype(image.bits, image.formats)
    ranges = segments(layout, image) if stream is None else _one_segment(*stream)
    if ranges.missing.all():  # nothing decodes its segments: they may be of any size
        image = _resegmented(image)
        layout.count_segments(image.segments, image.ifd.offset)
        nothing = np.zeros(image.segments, np.int64)
        ranges = Segments(nothing, nothing, nothing == 0)
    rows, ranges = _raw_chunks(image, ranges)
    shape: tuple[int, ...] = (image.length, image.width)
    chunks: tuple[int, ...] = (rows, image.segment_width)
    if image.samples > 1:
        shape, chunks = (image.samples, *shape), (1 if image.separate else image.samples, *chunks)
    nbytes = prod(chunks) * dtype.itemsize
    if nbytes > CHUNK_BYTES:
        raise UnsupportedError(
            f"segments of {chunks} pixels are {nbytes} bytes each, more than {CHUNK_BYTES} are not decoded",
            offset=image.ifd.offset,
            field="TileWidth, TileLength" if image.tiled else "RowsPerStrip",
        )
    attributes = dict(attributes)
    if NODATA not in attributes:
        attributes |= nodata_attributes(nodata or own_nodata(layout, image), dtype)
    return VirtualArray(
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        codecs=(_placed_config(config, layout, image, rows, ranges),),
        refs=ChunkRefs.single(url, ranges.offsets, ranges.lengths, missing=ranges.missing),
        dimension_names=("band", "y", "x")[-len(shape) :],
        fill_value=attributes.get("_FillValue", dtype.type(0)),
        attributes=attributes,
    )


def _one_segment(start: int, stop: int) -> Segments:
    """Return the range of an image's only segment."""
    ranges = np.array([[start], [stop - start]], np.int64)
    return Segments(ranges[0], ranges[1], np.zeros(1, bool))


def _resegmented(image: TiffImage) -> TiffImage:
    """Return an image of which no segment is there, in segments no larger than itself, and not many of them."""
    width, length = min(image.width, MISSING_SIDE), min(image.length, MISSING_SIDE)
    small = replace(
        image, segment_width=min(image.segment_width, width), segment_length=min(image.segment_length, length)
    )
    if small.segments <= MISSING_SEGMENTS:
        return small
    rows = min(max(MISSING_BYTES // max(small.row_bytes, 1), small.segment_length), length)
    return replace(small, segment_length=rows)


def _raw_chunks(image: TiffImage, ranges: Segments) -> tuple[int, Segments]:
    """Return the rows of a chunk, and where chunks are: small raw strips together, large ones cut."""
    rows, strips = image.segment_length, image.grid[1]
    if not _is_raw(image):
        return rows, ranges
    strip = rows * image.row_bytes
    wish = max(MERGED_BYTES // max(image.row_bytes, 1), 1)
    planes = raw_planes(image, ranges.offsets, ranges.lengths)
    is_whole = planes is not None and bool(planes.all())
    times = min(MERGED_BYTES // max(strip, 1), strips)
    if is_whole and times > 1:
        height = step_along(image.length, rows * times)
    elif strip > WHOLE_BYTES and _hold_their_rows(image, ranges):
        height = step_along(image.length, wish) if is_whole else step_along(rows, wish, piece=rows)
    else:
        return rows, ranges
    tops = np.arange(0, image.length, height, dtype=np.int64)
    nbytes = np.minimum(height, image.length - tops) * image.row_bytes
    starts = np.where(ranges.missing, 0, ranges.offsets).reshape(-1, strips)[:, tops // rows]
    offsets = np.where(starts > 0, starts + tops % rows * image.row_bytes, 0).ravel()
    return height, Segments(offsets, np.tile(nbytes, len(starts)), offsets == 0)


def _hold_their_rows(image: TiffImage, ranges: Segments) -> bool:
    """Whether each strip that is there has the bytes of all of its rows."""
    lengths = ranges.lengths.reshape(-1, image.grid[1])
    missing = ranges.missing.reshape(lengths.shape)
    return bool((missing | (lengths >= strip_bytes(image))).all())


def _is_raw(image: TiffImage) -> bool:
    """Whether rows are stored as they are, one after the other, in each strip."""
    is_plain = image.compression == Compression.NONE and image.predictor == Predictor.NONE
    return is_plain and not image.tiled and image.photometric != Photometric.YCBCR


def raw_planes(image: TiffImage, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return where each plane (pages, planes) begins, 0 for one that is missing.

    None where the rows of one are not stored raw, one after the other.
    """
    if not _is_raw(image):
        return None
    planes, strips, _ = image.grid
    offsets, lengths = (column.reshape(-1, planes, strips) for column in (offsets, lengths))
    full = strip_bytes(image)
    absent = (offsets == 0).all(axis=2)
    follows = (offsets[..., 1:] == offsets[..., :-1] + full[:-1]).all(axis=2)
    whole = (lengths >= full).all(axis=2)
    return offsets[..., 0] if bool((absent | (follows & whole & (offsets > 0).all(axis=2))).all()) else None


def _placed_config(
    config: TiffTileConfig, layout: TiffLayout, image: TiffImage, rows: int, ranges: Segments
) -> TiffTileConfig:
    """Return the configuration for chunks of some rows, with what is read where they are."""
    config = replace(config, tile_width=image.segment_width, tile_height=rows)
    present = ranges.offsets[~ranges.missing]
    if config.compression != Compression.OLD_JPEG or not len(present):
        return config
    return replace(config, jpeg_header=old_jpeg_header(layout, image, int(present[0])))


def _tile_config(layout: TiffLayout, image: TiffImage, subsampling: tuple[int, ...]) -> TiffTileConfig:
    """Return what the codec must know of this image's segments."""
    ifd, scheme = image.ifd, image.compression
    is_chunky = image.planar in Planar and not image.separate
    extra = layout.ints(ifd, Tag.ExtraSamples) if Tag.ExtraSamples in ifd.entries else ()
    colours = COLOURS.get(Photometric(image.photometric), 1) if image.photometric in Photometric else 0
    t4_options = layout.ints(ifd, Tag.T4Options) if scheme == Compression.CCITT_T4 else ()
    # the decoding of YCbCr hangs on them
    has_coefficients = image.photometric == Photometric.YCBCR and scheme != Compression.JPEG
    return TiffTileConfig(
        tile_width=image.segment_width,
        tile_height=image.segment_length,
        image_width=image.width,
        image_height=image.length,
        byte_order="little" if layout.order == "<" else "big",
        compression=scheme,
        photometric=image.photometric,
        samples_per_pixel=image.samples,
        bits_per_sample=image.bits,
        sample_format=image.formats,
        planar_config=Planar.CHUNKY if is_chunky else image.planar,
        predictor=image.predictor,
        fill_order=image.fill_order,
        extra_samples=extra[: max(image.samples - colours, 0)],  # no more than there can be
        ycbcr_subsampling=subsampling,
        ycbcr_coefficients=_rationals(layout, image, Tag.YCbCrCoefficients) if has_coefficients else (),
        reference_black_white=_rationals(layout, image, Tag.ReferenceBlackWhite) if has_coefficients else (),
        t4_options=t4_options[0] if t4_options else None,
        lerc_parameters=layout.ints(ifd, Tag.LERCParameters) if scheme == Compression.LERC else (),
        jpeg_tables=layout.raw(ifd, Tag.JPEGTables) if scheme in JPEGS_WITH_TABLES else None,
        is_tiled=image.tiled,
    )


def _rationals(layout: TiffLayout, image: TiffImage, tag: Tag) -> tuple[int, ...]:
    """Return a rational tag as numerators and denominators."""
    values = layout.array(image.ifd, tag, limit=6)
    if values is None:
        return ()
    if values.ndim == 1:  # some writers store plain integers
        values = np.stack([values, np.ones_like(values)], axis=1)
    return tuple(values.ravel().astype(np.int64).tolist()) if values.dtype.kind == "u" else ()
