"""Series to groups, and pages that all agree as a series of their own.

The group of a series is its variable or its pyramid, with what the axes mean and OME-Zarr metadata.  Pages
that all agree make a variable with a leading axis `page`; each may bring smaller versions of itself.  Anything
that does not agree (shape, samples, type, codec, place on the Earth) leaves the file to the caller, a group for a page.
Spec: https://ngff.openmicroscopy.org/0.5/
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
from jnrrdz.core.georeference import Georeference
from jnrrdz.core.ome import Axis, Channel, Dataset, ome_attributes
from jnrrdz.core.pyramid import raster_pyramid
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.georeference import geo_of
from jnrrdz.formats.tiff.metadata import Meaning, meaning_of
from jnrrdz.formats.tiff.pages import Level, Numbers, Pages, check_levels, level_array
from jnrrdz.formats.tiff.structure import TiffImage, TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Tag
from jnrrdz.options import ScanOptions
from jnrrdz.records import record

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
MOST_KINDS = 64
"""Pages of more kinds than this are no stack."""

SAME = (
    Tag.ColorMap,
    Tag.GDAL_METADATA,
    Tag.ModelPixelScale,
    Tag.ModelTiepoint,
    Tag.ModelTransformation,
    Tag.GeoKeyDirectory,
    Tag.GeoDoubleParams,
    Tag.GeoAsciiParams,
)
"""Tags that do not decide how pixels are decoded, but what they mean and where they lie."""


def stack_group(layout: TiffLayout, url: str, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of the stack that a file's pages are, None where they are not one."""
    pages = Pages(layout, url, layout.main, kinds=MOST_KINDS)
    if (pages.kind < 0).any() or any(image.is_mask for image in pages.images):
        return None
    is_reduced = np.array([image.is_reduced for image in pages.images])[pages.kind]
    mains = np.flatnonzero(~is_reduced)
    steps = np.diff(np.append(mains, len(pages)))
    if len(mains) < FEWEST or mains[0] != 0 or (steps != steps[0]).any():
        return None
    # all pages lie at the same place and mean the same, byte for byte
    images = [pages.images[kind] for kind in dict.fromkeys(pages.kind[mains].tolist())]
    if len({tuple(layout.raw(image.ifd, tag) for tag in SAME) for image in images}) > 1:
        return None
    full = _stack_level(pages, mains)
    below = None if full is None else _below(pages, mains, int(steps[0])) if options.overviews else []
    if full is None or below is None:
        return None
    image = full.key.image
    if options.expand_palette and image.photometric == Photometric.PALETTE:
        return None  # the codec of a palette gives three bands, which a page by itself has room for
    geo = geo_of(layout, image)
    meaning = meaning_of(layout, image, options, unit=geo.height_unit)
    return series_group(Series("", check_levels([full, *below]), geo=geo, meaning=meaning, is_ome=False))


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
    main = pages.images[int(pages.kind[mains[0]])]
    levels = [_stack_level(pages, mains + number, main) for number in range(1, step)]
    subs = pages.sub_ifds(mains)
    if subs is None:
        return None
    for column in subs.T:
        below = Pages(pages.layout, pages.url, column.tolist(), kinds=MOST_KINDS)
        if (below.kind < 0).any() or not all(image.is_reduced and not image.is_mask for image in below.images):
            return None
        levels.append(_stack_level(below, np.arange(len(below)), main))
    agreed = [level for level in levels if level is not None]
    if len(agreed) < len(levels):
        return None
    return sorted(agreed, key=lambda level: -level.key.image.width * level.key.image.length)
