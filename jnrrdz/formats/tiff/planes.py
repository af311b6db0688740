"""Many pages of one kind to one virtual array: what they share, and where the segments of each stand.

May touch the TIFF layout and the model.  Everything about pages is a column here, one row a page:
a stack of a hundred thousand pages is a few numpy arrays.  Pixels that are stored raw are cut into
chunks of some hundred kilobytes, whatever the strips are: a part of a plane, or several planes.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec import CodecSpec, TiffTileConfig, bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.formats.tiff.arrays import Place, virtual_array
from jnrrdz.formats.tiff.axes import order_of
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Compression, Photometric, Predictor, SampleFormat
from jnrrdz.formats.tiff.tiff_image import TiffImage

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
