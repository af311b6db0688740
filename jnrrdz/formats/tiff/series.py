"""Series of pages as arrays and groups: axes, levels, chunks.

Axes have the letters of tifffile and OME-XML in files, here the names that users are promised.

The group of a series is its variable or its pyramid, with what the axes mean and OME-Zarr metadata
(https://ngff.openmicroscopy.org/0.5/).  Pages that all agree make a variable with a leading axis `page`; each may
bring smaller versions of itself.  Anything that does not agree (shape, samples, type, codec, place on the Earth)
leaves the file to the caller, a group for a page.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.configuration import Codec
from jnrrdz.core.georeference import Georeference
from jnrrdz.core.ome import Axis, Channel, Dataset, ome_attributes
from jnrrdz.core.pyramid import raster_pyramid
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.slabs import slab_codecs, step_along
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.arrays import raw_planes
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.georeference import geo_of
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.metadata import Meaning, meaning_of
from jnrrdz.formats.tiff.pages import Column, Keyframe, Numbers, Pages
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, SampleFormat, Tag
from jnrrdz.options import ScanOptions
from jnrrdz.records import record

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


RAW_CHUNK_BYTES = 1 << 20
"""Pixels that are stored raw are cut into chunks of this size: a part of a plane, or several planes."""

WHOLE = {SampleFormat.UINT, SampleFormat.INT, SampleFormat.IEEEFP, SampleFormat.VOID}


@record(eq=False)
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


@record(eq=False)
class _Chunked:
    """A level cut into chunks: the chunk's shape and codec, and the range of each in the file's order."""

    together: int
    """Pages in a chunk, along the last leading axis."""

    rows: int
    codec: TiffTileConfig
    """How a chunk of one page is decoded."""

    offsets: Column
    """(runs of pages, chunks of a run)"""

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
    offsets, lengths = cut.offsets.ravel()[places], cut.lengths.ravel()[places]
    present = (offsets > 0) & (lengths > 0)
    source = None
    if len(level.sources) > 1:
        runs = level.source.reshape(-1, lead[-1][1] if lead else 1)[:, :: cut.together]
        source = np.repeat(runs.ravel(), cut.offsets.shape[1])[places][present]
    shape, chunks = (tuple(sides[place] for place in order) for sides in (shape, chunks))
    codecs: tuple[Codec, ...] = (cut.codec,)
    if cut.together > 1:
        axis = order.index(len(lead) - 1)
        endian = None if alone.dtype.itemsize == 1 else cut.codec.byte_order
        codecs = slab_codecs(chunks, axis, shape[axis] % cut.together, endian)
    return VirtualArray(
        shape=shape,
        dtype=alone.dtype,
        chunks=chunks,
        codecs=codecs,
        refs=ChunkRefs.from_rows(level.sources, present, offsets[present], lengths[present], source),
        dimension_names=tuple(names[place] for place in order),
        fill_value=alone.fill_value,
        attributes=alone.attributes,
    )


def _chunked(level: Level) -> _Chunked:
    """Return the level's chunks: its segments, or pieces of about the same size where the pixels are raw."""
    key = level.key
    starts = raw_planes(key.image, level.offsets, level.lengths)
    if starts is None:
        return _Chunked(1, key.image.segment_length, key.config, level.offsets, level.lengths)
    together = _planes_together(level, starts)
    plane = key.image.row_bytes * key.image.length
    if together > 1:
        pages = next(size for _, size in reversed(level.lead) if size > 1)
        first = starts.reshape(-1, pages)[:, ::together].reshape(-1, 1)
        counts = np.minimum(together, pages - np.arange(0, pages, together))
        lengths = np.tile(counts * plane, len(starts) // pages).reshape(-1, 1)
        return _Chunked(together, key.image.length, key.config, first, lengths)
    rows = step_along(key.image.length, RAW_CHUNK_BYTES // max(key.image.row_bytes, 1))
    tops = np.arange(0, key.image.length, rows) * key.image.row_bytes
    nbytes = np.minimum(rows * key.image.row_bytes, plane - tops)
    offsets = np.where(starts[..., None] > 0, starts[..., None] + tops, 0)
    lengths = np.where(starts[..., None] > 0, nbytes, 0)
    codec = replace(key.config, tile_height=rows)
    count = len(starts)
    return _Chunked(1, rows, codec, offsets.reshape(count, -1), lengths.reshape(count, -1))


def _planes_together(level: Level, starts: Column) -> int:
    """Return how many whole planes one chunk takes, of those that follow each other."""
    image, dtype = level.key.image, level.key.alone.dtype
    sizes = [size for _, size in level.lead if size > 1]
    plane = image.row_bytes * image.length
    plain = image.formats[0] in WHOLE and dtype.itemsize * 8 == image.bits[0] and image.fill_order == 1
    if not sizes or image.samples > 1 or not plain or 2 * plane > RAW_CHUNK_BYTES or (starts == 0).any():
        return 1
    runs = starts.reshape(-1, sizes[-1])
    sources = level.source.reshape(-1, sizes[-1])
    if (np.diff(runs, axis=1) != plane).any() or np.diff(sources, axis=1).any():
        return 1
    return step_along(sizes[-1], RAW_CHUNK_BYTES // plane)


def check_levels(levels: Sequence[Level]) -> list[Level]:
    """Return the levels that fit; a warning names those that are left out."""
    kept = fitting_levels(levels)
    left_out = [level.key.image for level in levels if level not in kept]
    if left_out:
        sizes = ", ".join(f"{image.width} x {image.length} at {image.ifd.offset}" for image in left_out)
        text = f"smaller images that are no levels are left out: {sizes}"
        warnings.warn(text, stacklevel=2)
    return kept


def fitting_levels(levels: Sequence[Level]) -> list[Level]:
    """Return the levels that are ever smaller versions of the first, of its type and samples."""
    kept, first = [levels[0]], levels[0].key.alone
    for level in levels[1:]:
        last, here = kept[-1].key.alone, level.key.alone
        like = here.dtype == first.dtype and here.shape[:-2] == first.shape[:-2] and level.lead == kept[0].lead
        smaller = here.shape[-2:] != last.shape[-2:] and all(
            size <= before for size, before in zip(here.shape[-2:], last.shape[-2:], strict=True)
        )
        if like and smaller:
            kept.append(level)
    return kept


VARIABLE = "data"
AXES = "axes"
"""The attribute of a variable that says what its axes mean: by axis, `step` and `unit`, or `labels`."""

_UNFIT = re.compile(r"[/\x00-\x1f]")


@record(eq=False)
class Series:
    """One image of a file: all its pages, at every resolution."""

    name: str
    levels: Sequence[Level]
    axes: Mapping[str, Axis] = field(default_factory=dict)
    """What is known of the axes, by name, at the finest level."""

    channels: Sequence[Channel] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the series' group."""

    geo: Georeference = field(default_factory=Georeference)
    meaning: Meaning = field(default_factory=Meaning)
    """What the tags of the first page say."""

    is_ome: bool = True
    """Whether OME-Zarr is told of it; not of maps and scans, which are no microscopy."""

    significant_bits: int | None = None
    """How many of a sample's bits the format says are used."""


def file_group(series: Sequence[Series], refused: Sequence[Mapping[str, str]] = ()) -> VirtualGroup:
    """Return the group of a file: its only series, or a group for each."""
    extra = {"refused": [dict(entry) for entry in refused]} if refused else {}
    if len(series) == 1:
        whole = series_group(series[0])
        return VirtualGroup(whole.children, {**whole.attributes, **extra})
    children: dict[str, Node] = {}
    for number, each in enumerate(series):
        # a name that Zarr allows and that nobody has: the format's own, or `series_N`
        name = _UNFIT.sub("_", each.name).strip()
        if not name or name.startswith(("__", ".")) or name == "zarr.json":
            name = f"series_{number}"
        children[f"{name}_{number}" if name in children else name] = series_group(each)
    return VirtualGroup(children, extra)


def series_group(series: Series) -> VirtualGroup:
    """Return the group of one series: its variable, or a group for each level."""
    arrays = [level_array(level) for level in series.levels]
    full = arrays[0]
    pyramid = raster_pyramid([_level_group(series, array, full) for array in arrays], series.geo.crs)
    attributes = dict(pyramid.attributes)
    if series.geo.refused is not None:
        attributes["georeference_refused"] = series.geo.refused
    if series.is_ome and all(array.dimension_names == full.dimension_names for array in arrays):
        axes = [series.axes.get(name, Axis(name)) for name in full.dimension_names]
        paths = [VARIABLE] if len(arrays) == 1 else [f"{number}/{VARIABLE}" for number in range(len(arrays))]
        datasets = [Dataset(path, array.shape) for path, array in zip(paths, arrays, strict=True)]
        bits = series.significant_bits
        attributes |= ome_attributes(series.name, axes, datasets, series.channels, full.dtype, bits)
    return VirtualGroup(pyramid.children, {**attributes, **series.attributes})


def _level_group(series: Series, array: VirtualArray, full: VirtualArray) -> VirtualGroup:
    """Return the group of one level: its variable and the grid mapping."""
    shape, is_full = (array.shape[-2], array.shape[-1]), array is full
    here, meaning = series.geo.at_level((full.shape[-2], full.shape[-1]), shape), series.meaning
    attributes = {**array.attributes, **here.array_attributes(), **meaning.array, **(meaning.full if is_full else {})}
    sizes = dict(zip(full.dimension_names, full.shape, strict=True))
    known: dict[str, dict[str, Any]] = {}
    for name, size in zip(array.dimension_names, array.shape, strict=True):
        axis = series.axes.get(name, Axis(name))
        labels = [channel.name for channel in series.channels] if name == "c" else list(axis.labels)
        about: dict[str, Any] = {"labels": labels} if labels and len(labels) == size else {}
        if axis.step is not None:
            step = axis.step * (sizes.get(name, size) / max(size, 1))
            about |= {"step": step, "start": axis.start + (step - axis.step) / 2}
        if about:
            known[name] = about | ({} if axis.unit is None else {"unit": axis.unit})
    if known:
        attributes[AXES] = known
    group = {**(meaning.group if is_full else {}), **here.group_attributes(shape)}
    return VirtualGroup({VARIABLE: replace(array, attributes=attributes), **here.variables()}, group)


def refusal(name: str, error: UnsupportedError | MalformedError) -> dict[str, str]:
    """Return the entry of the attribute `refused` for an image that cannot be read."""
    return {"image": name, "reason": str(error)}


FEWEST = 2

SAME = (
    Tag.ColorMap,
    Tag.GDAL_METADATA,
    Tag.ModelPixelScale,
    Tag.ModelTiepoint,
    Tag.ModelTransformation,
    Tag.GeoKeyDirectory,
    Tag.GeoDoubleParams,
    Tag.GeoAsciiParams,
    Tag.RPCCoefficientTag,
)
"""Tags that do not decide how pixels are decoded, but what they mean and where they lie."""


def stack_group(layout: TiffLayout, url: str, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of the stack that a file's pages are, None where they are not one."""
    levels = _stack_levels(Pages(layout, url, layout.main))
    if levels is None:
        return None
    image = levels[0].key.image
    if options.expand_palette and image.photometric == Photometric.PALETTE:
        return None  # the codec of a palette gives three bands, which a page by itself has room for
    geo = geo_of(layout, image)
    meaning = meaning_of(layout, image, options, unit=geo.height_unit)
    kept = levels if options.overviews else levels[:1]
    return series_group(Series("", kept, geo=geo, meaning=meaning, is_ome=False))


def _stack_levels(pages: Pages) -> list[Level] | None:
    """Return the levels of a stack, None where pages or their smaller versions disagree."""
    if any(image.is_mask for image in pages.images):
        return None
    is_reduced = np.array([image.is_reduced for image in pages.images])[pages.kind]
    mains = np.flatnonzero(~is_reduced)
    steps = np.diff(np.append(mains, len(pages)))
    if len(mains) < FEWEST or mains[0] != 0 or (steps != steps[0]).any():
        return None
    # all pages lie at the same place and mean the same, byte for byte
    images = [pages.image_of(kind) for kind in dict.fromkeys(pages.kind[mains].tolist())]
    layout = pages.layout
    if len({tuple(layout.tag_digest(image.ifd, tag) for tag in SAME) for image in images}) > 1:
        return None
    full = _stack_level(pages, mains)
    below = None if full is None else _below(pages, mains, int(steps[0]))
    if full is None or below is None:
        return None
    levels = fitting_levels([full, *below])
    # thumbnails of other samples are no levels: each page has its own
    return levels if len(levels) > len(below) else None


def _stack_level(pages: Pages, numbers: Numbers, main: TiffImage | None = None) -> Level | None:
    """Return the level that pages of a file make, None where they do not agree."""
    gathered = pages.gathered(numbers, main)
    if isinstance(gathered, str):
        return None
    key, offsets, lengths = gathered
    source = np.zeros(len(numbers), np.int32)
    return Level(key, (("page", len(numbers)),), (pages.url,), source, offsets, lengths)


def _below(pages: Pages, mains: Numbers, step: int) -> list[Level] | None:
    """Return the smaller versions of a stack: pages that follow each page, then SubIFDs; None where they disagree."""
    main = pages.image_of(int(pages.kind[mains[0]]))
    levels = [_stack_level(pages, mains + number, main) for number in range(1, step)]
    subs = pages.sub_ifds(mains)
    if subs is None:
        return None
    for column in subs.T:
        below = Pages(pages.layout, pages.url, column.tolist())
        if not all(image.is_reduced and not image.is_mask for image in below.images):
            return None
        levels.append(_stack_level(below, np.arange(len(below)), main))
    agreed = [level for level in levels if level is not None]
    if len(agreed) < len(levels):
        return None
    return sorted(agreed, key=lambda level: -level.key.image.width * level.key.image.length)
