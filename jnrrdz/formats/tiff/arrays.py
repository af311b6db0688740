"""The axes of a series: their names here, and the order in which an array has them.

May touch nothing.  The letters are those of tifffile and OME-XML; the names those of DESIGN: `t`,
`c`, `z`, `y`, `x`, and `band` for the samples of a pixel.

The value that marks missing pixels, as GDAL writes it into a TIFF or beside it.

May touch the TIFF layout and numpy.  A number that the type cannot hold marks no pixel: it is kept
as an attribute, with a warning, and never costs the pixels.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html#nodata-value

One TIFF image to one virtual array: grid, type, codec, references.

May touch the TIFF layout and the model.  Strips of few rows that are stored without compression,
one after the other, are merged into chunks of a few hundred kilobytes: a chunk a row would cost a
reader more than the pixels.

Many pages of one kind to one virtual array: what they share, and where the segments of each stand.

May touch the TIFF layout and the model.  Everything about pages is a column here, one row a page:
a stack of a hundred thousand pages is a few numpy arrays.  Pixels that are stored raw are cut into
chunks of some hundred kilobytes, whatever the strips are: a part of a plane, or several planes.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import CodecSpec, TiffTileConfig, bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.tiff.image import Segments, TiffImage, old_jpeg_header, sample_dtype, segments
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import (
    BYTE_STREAMS,
    Compression,
    Photometric,
    Planar,
    Predictor,
    SampleFormat,
    Tag,
    name_of,
)

NAMES = {
    "X": "x",
    "Y": "y",
    "Z": "z",
    "C": "c",
    "T": "t",
    "S": "band",
    "I": "page",
    "A": "angle",
    "P": "phase",
    "R": "tile",
    "H": "lifetime",
    "E": "lambda",
    "Q": "other",
    "L": "exposure",
    "V": "event",
    "M": "mosaic",
    "J": "column",
    "K": "row",
}
"""A letter's name; one that is not here is its own name, in lower case."""

LAST = ("t", "c", "band", "z", "y", "x")
"""The order that OME-Zarr asks for; all other axes come first, in the file's order."""


def axis_names(letters: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each letter, the second of one name with a number behind it."""
    names: list[str] = []
    for letter in letters:
        name = NAMES.get(letter.upper(), letter.lower())
        again = sum(known == name or known.startswith(f"{name}_") for known in names)
        names.append(f"{name}_{again + 1}" if again else name)
    return tuple(names)


def order_of(names: Sequence[str]) -> tuple[int, ...]:
    """Return the places in `names`, in the order in which an array has them."""
    ranks = {name: rank for rank, name in enumerate(LAST, start=1)}
    return tuple(sorted(range(len(names)), key=lambda place: ranks.get(names[place], 0)))


WINDOWS_NAN = re.compile(r"[+-]?1\.#(QNAN|SNAN|IND|NAN)\d*", re.IGNORECASE)
WINDOWS_INF = re.compile(r"([+-]?)1\.#INF\d*", re.IGNORECASE)
"""How old C libraries on Windows spell what is not finite."""


@dataclass(frozen=True)
class Nodata:
    """A fill value of the array's type, where there is one, and what the file says of it."""

    value: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)


def nodata_text(layout: TiffLayout, image: TiffImage) -> str | None:
    """Return GDAL_NODATA of an image, None where there is none or it cannot be read (with a warning)."""
    try:
        return nodata_tag(layout, image)
    except JnrrdzError as error:
        warnings.warn(f"no nodata: {error}", stacklevel=2)
        return None


def nodata_tag(layout: TiffLayout, image: TiffImage) -> str | None:
    """Return GDAL_NODATA, None where it is absent or blank; a mask has none."""
    if image.is_mask:
        return None
    text = layout.text(image.ifd, Tag.GDAL_NODATA)
    return text if text is not None and text.strip() else None


def nodata_value(text: str | None, dtype: np.dtype[Any]) -> Nodata:
    """Return a nodata text in the array's type; one that the type cannot hold is an attribute and a warning."""
    if text is None or not text.strip():
        return Nodata()
    value = _in_type(text.strip(), dtype)
    if value is None:
        warnings.warn(f"nodata {text!r} is no value of {dtype}: kept as an attribute only", stacklevel=2)
        return Nodata(None, {"nodata": text.strip()})
    return Nodata(value)


def _in_type(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the number in the type, None where it is not one of the type's values."""
    if dtype.kind in "iu":
        return _in_integer(text, dtype)
    try:
        number = complex(_spelt(text)) if dtype.kind == "c" else float(_spelt(text))
    except ValueError:
        return None
    if isinstance(number, complex):
        part = np.dtype(f"f{dtype.itemsize // 2}")
        parts = [_in_float(value, part) for value in (number.real, number.imag)]
        return None if None in parts else np.array(complex(*map(float, parts)), dtype)[()]
    return _in_float(number, dtype)


def _spelt(text: str) -> str:
    """Return a number as Python spells it: no decimal comma, NaN and infinity by their names."""
    text = WINDOWS_INF.sub(r"\1inf", WINDOWS_NAN.sub("nan", text))
    return text if "." in text else text.replace(",", ".")


def _in_integer(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the whole number, exactly even where a double could not hold it."""
    try:
        whole = int(text) if re.fullmatch(r"[+-]?\d{1,40}", text) else None
        number = float(_spelt(text))
    except ValueError:
        return None
    if whole is None and number.is_integer():
        whole = int(number)
    limits = np.iinfo(dtype)
    return dtype.type(whole) if whole is not None and limits.min <= whole <= limits.max else None


def _in_float(number: float, dtype: np.dtype[Any]) -> Any:
    """Return the nearest float; one just beyond the largest is the largest, as GDAL takes it."""
    largest = float(np.finfo(dtype).max)
    if np.isfinite(number) and abs(number) > largest:
        rounded = largest if number > 0 else -largest
        return dtype.type(rounded) if np.isclose(number, rounded, rtol=1e-6) else None
    return dtype.type(number)


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


CHUNK_BYTES = 1 << 20

type Column = NDArray[np.int64]

WHOLE = {SampleFormat.UINT, SampleFormat.INT, SampleFormat.IEEEFP, SampleFormat.VOID}


@dataclass(frozen=True, eq=False)
class Keyframe:
    """What every page of a level is like."""

    image: TiffImage
    alone: VirtualArray
    """The array that the page would be by itself."""

    config: TiffTileConfig
    """How one segment is decoded."""

    @classmethod
    def of(cls, layout: TiffLayout, image: TiffImage, url: str, main: TiffImage | None = None) -> "Keyframe":
        """Return the facts of one page (a smaller version of `main`); what cannot be read is refused here."""
        alone = virtual_array(layout, image, Place(url, main or image, {}))
        config = TiffTileConfig.from_json(alone.codecs[0].configuration)
        return cls(image, alone, replace(config, tile_height=image.segment_length))

    def difference(self, other: "Keyframe") -> str | None:
        """Return what forbids that two pages stand in one array, None where nothing does."""
        mine, yours = self.alone, other.alone
        pairs = {
            "shape": (mine.shape, yours.shape),
            "type": (mine.dtype, yours.dtype),
            "nodata": (str(mine.fill_value), str(yours.fill_value)),
            "tiles or strips": (self.image.grid, other.image.grid),
        }
        for name, (first, second) in pairs.items():
            if first != second:
                return f"{name} {second} where the first has {first}"
        return None if self.config == other.config else "another compression or codec configuration"


@dataclass(frozen=True, eq=False)
class Level:
    """One resolution of a series: pages in C order of the leading axes, missing ones with offsets of 0."""

    key: Keyframe
    lead: tuple[tuple[str, int], ...]
    """Name and size of each leading axis, in the file's order."""

    sources: tuple[str, ...]
    source: NDArray[np.int32]
    """Which of the sources each page is in."""

    offsets: Column
    """(pages, segments)"""

    lengths: Column
    band: str = "band"
    """What the format calls the axis along the samples of a pixel."""


@dataclass(frozen=True, eq=False)
class _Chunked:
    """A level cut into chunks: the chunk's shape and codec, and the range of each in the file's order."""

    together: int
    """Pages in a chunk, along the last leading axis."""

    rows: int
    codec: CodecSpec
    offsets: Column
    """(pages // together, chunks of a page)"""

    lengths: Column


def level_array(level: Level) -> VirtualArray:
    """Return the array of one level, axes of one element dropped, the others in the house's order."""
    alone, cut = level.key.alone, _chunked(level)
    lead = [(name, size) for name, size in level.lead if size > 1]
    page = [level.band if name == "band" else name for name in alone.dimension_names]
    names = (*(name for name, _ in lead), *page)
    order = order_of(names)
    shape = (*(size for _, size in lead), *alone.shape)
    chunks = (*(1 for _ in lead), *alone.shape[:-2], cut.rows, level.key.image.segment_width)
    if level.key.image.separate:
        chunks = (*chunks[: len(lead)], 1, *chunks[len(lead) + 1 :])
    if cut.together > 1:
        chunks = (*chunks[: len(lead) - 1], cut.together, *chunks[len(lead) :])
    grid = tuple(-(-size // step) for size, step in zip(shape, chunks, strict=True))
    places = np.arange(prod(grid)).reshape(grid).transpose(order).ravel()
    return VirtualArray(
        shape=tuple(shape[place] for place in order),
        dtype=alone.dtype,
        chunks=tuple(chunks[place] for place in order),
        codecs=(cut.codec,),
        refs=_refs(level, cut, places),
        dimension_names=tuple(names[place] for place in order),
        fill_value=alone.fill_value,
        attributes=alone.attributes,
    )


def _refs(level: Level, cut: _Chunked, places: NDArray[np.intp]) -> ChunkRefs:
    """Return one range a chunk, in the array's order."""
    offsets, lengths = cut.offsets.ravel()[places], cut.lengths.ravel()[places]
    present = (offsets > 0) & (lengths > 0)
    indptr = np.concatenate(([0], np.cumsum(present))).astype(np.int64)
    if len(level.sources) == 1:
        source: NDArray[np.int32] = np.broadcast_to(np.int32(0), int(indptr[-1]))
    else:
        pages = np.repeat(level.source[:: cut.together], cut.offsets.shape[1])
        source = pages[places][present]
    return ChunkRefs(level.sources, indptr, source, offsets[present], lengths[present])


def _chunked(level: Level) -> _Chunked:
    """Return the level's chunks: its segments, or pieces of about the same size where the pixels are raw."""
    key = level.key
    starts = _raw_starts(level)
    if starts is None:
        return _Chunked(1, key.image.segment_length, key.config.to_spec(), level.offsets, level.lengths)
    together = _planes_together(level, starts)
    plane = key.image.row_bytes * key.image.length
    if together > 1:
        first = starts[::together]
        codec = bytes_(None if key.alone.dtype.itemsize == 1 else key.config.byte_order)
        return _Chunked(together, key.image.length, codec, first, np.full_like(first, together * plane))
    rows = min(max(CHUNK_BYTES // max(key.image.row_bytes, 1), 1), key.image.length)
    tops = np.arange(0, key.image.length, rows) * key.image.row_bytes
    nbytes = np.minimum(rows * key.image.row_bytes, plane - tops)
    offsets = np.where(starts[..., None] > 0, starts[..., None] + tops, 0)
    lengths = np.where(starts[..., None] > 0, nbytes, 0)
    codec = replace(key.config, tile_height=rows).to_spec()
    pages = len(starts)
    return _Chunked(1, rows, codec, offsets.reshape(pages, -1), lengths.reshape(pages, -1))


def _raw_starts(level: Level) -> Column | None:
    """Return where each plane (pages, planes) begins whose rows are stored raw one after the other, else None."""
    image = level.key.image
    if image.tiled or image.compression != Compression.NONE or image.predictor != Predictor.NONE:
        return None
    if image.photometric == Photometric.YCBCR:
        return None
    planes, strips, _ = image.grid
    offsets, lengths = (column.reshape(-1, planes, strips) for column in (level.offsets, level.lengths))
    full: Column = np.full(strips, image.row_bytes * image.segment_length, np.int64)
    full[-1] = image.row_bytes * (image.length - (strips - 1) * image.segment_length)
    absent = (offsets == 0).all(axis=2)
    follows = (offsets[..., 1:] == offsets[..., :-1] + full[:-1]).all(axis=2)
    whole = (lengths >= full).all(axis=2)
    return offsets[..., 0] if bool((absent | (follows & whole & (offsets > 0).all(axis=2))).all()) else None


def _planes_together(level: Level, starts: Column) -> int:
    """Return how many whole planes one chunk takes: a divisor of the last axis, so that no chunk is short."""
    image, dtype = level.key.image, level.key.alone.dtype
    sizes = [size for _, size in level.lead if size > 1]
    plane = image.row_bytes * image.length
    plain = image.formats[0] in WHOLE and dtype.itemsize * 8 == image.bits[0] and image.fill_order == 1
    if not sizes or image.samples > 1 or not plain or 2 * plane > CHUNK_BYTES or (starts == 0).any():
        return 1
    runs = starts.reshape(-1, sizes[-1])
    sources = level.source.reshape(-1, sizes[-1])
    if (np.diff(runs, axis=1) != plane).any() or np.diff(sources, axis=1).any():
        return 1
    most = min(CHUNK_BYTES // plane, sizes[-1])
    return next(count for count in range(most, 0, -1) if sizes[-1] % count == 0)
