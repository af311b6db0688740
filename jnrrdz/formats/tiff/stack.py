"""Series to groups: the variable or the pyramid, what its axes mean, and OME-Zarr metadata.

May touch the model and the planes of this folder.
Spec: https://ngff.openmicroscopy.org/0.5/

Pages that all agree, as one array with a leading axis `page`; each may bring smaller versions of itself.

May touch the TIFF layout, and the pages and planes of this folder.  Anything that does not agree
(shape, samples, type, codec, place on the Earth) leaves the file to the caller, a group for a page.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
from jnrrdz.core.ome import Axis, Channel, Dataset, ome_attributes
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.arrays import Keyframe, Level, level_array
from jnrrdz.formats.tiff.chain import Pages, has_images, main_chain, pages_at
from jnrrdz.formats.tiff.georeference import Geo, geo_of, levels_attributes
from jnrrdz.formats.tiff.metadata import Meaning, meaning_of
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Tag
from jnrrdz.options import ScanOptions

VARIABLE = "data"
AXES = "axes"
"""The attribute of a variable that says what its axes mean: by axis, `step` and `unit`, or `labels`."""

_UNFIT = re.compile(r"[/\x00-\x1f]")


@dataclass(frozen=True, eq=False)
class Series:
    """One image of a file: all its pages, at every resolution."""

    name: str
    levels: Sequence[Level]
    axes: Mapping[str, Axis] = field(default_factory=dict)
    """What is known of the axes, by name, at the finest level."""

    channels: Sequence[Channel] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the series' group."""

    geo: Geo = field(default_factory=Geo)
    meaning: Meaning = field(default_factory=Meaning)
    """What the tags of the first page say."""

    is_ome: bool = True
    """Whether OME-Zarr is told of it; not of maps and scans, which are no microscopy."""


def file_group(series: Sequence[Series], refused: Sequence[Mapping[str, str]] = ()) -> VirtualGroup:
    """Return the group of a file: its only series, or a group for each."""
    extra = {"refused": [dict(entry) for entry in refused]} if refused else {}
    if len(series) == 1:
        whole = series_group(series[0])
        return VirtualGroup(whole.children, {**whole.attributes, **extra})
    children: dict[str, Node] = {}
    for number, one in enumerate(series):
        children[node_name(one.name, number, children)] = series_group(one)
    return VirtualGroup(children, extra)


def node_name(name: str, number: int, taken: Mapping[str, Any]) -> str:
    """Return a name that Zarr allows and that nobody has: the format's own, or `series_N`."""
    fit = _UNFIT.sub("_", name).strip()
    if not fit or fit.startswith(("__", ".")) or fit == "zarr.json":
        fit = f"series_{number}"
    return f"{fit}_{number}" if fit in taken else fit


def series_group(series: Series) -> VirtualGroup:
    """Return the group of one series: its variable, or a group for each level."""
    arrays = [level_array(level) for level in series.levels]
    shapes = [(array.shape[-2], array.shape[-1]) for array in arrays]
    levels = [_level_group(series, array, arrays[0]) for array in arrays]
    if len(levels) == 1:
        attributes = {**levels[0].attributes, **_ome(series, [VARIABLE], arrays), **series.attributes}
        return VirtualGroup(levels[0].children, attributes)
    paths = [f"{number}/{VARIABLE}" for number in range(len(arrays))]
    attributes = {**levels_attributes(series.geo, shapes), **_ome(series, paths, arrays), **series.attributes}
    return VirtualGroup({str(number): level for number, level in enumerate(levels)}, attributes)


def _level_group(series: Series, array: VirtualArray, full: VirtualArray) -> VirtualGroup:
    """Return the group of one level: its variable and the grid mapping."""
    shape, is_full = (array.shape[-2], array.shape[-1]), array is full
    here = series.geo.at_level((full.shape[-2], full.shape[-1]), shape)
    attributes = {
        **array.attributes,
        **here.array_attributes(),
        **series.meaning.variable(is_full=is_full),
        **_axes(array, series, full),
    }
    about = {**(series.meaning.group if is_full else {}), **here.group_attributes(shape)}
    return VirtualGroup({VARIABLE: replace(array, attributes=attributes), **here.variables()}, about)


def _ome(series: Series, paths: Sequence[str], arrays: Sequence[VirtualArray]) -> dict[str, Any]:
    full = arrays[0]
    axes = [series.axes.get(name, Axis(name)) for name in full.dimension_names]
    datasets = [Dataset(path, array.shape) for path, array in zip(paths, arrays, strict=True)]
    if not series.is_ome or any(array.dimension_names != full.dimension_names for array in arrays):
        return {}
    return ome_attributes(series.name, axes, datasets, series.channels, full.dtype)


def _axes(array: VirtualArray, series: Series, full: VirtualArray) -> dict[str, Any]:
    """Return the attribute that says what is known of a level's axes."""
    sizes = dict(zip(full.dimension_names, full.shape, strict=True))
    known: dict[str, dict[str, Any]] = {}
    for name, size in zip(array.dimension_names, array.shape, strict=True):
        axis = series.axes.get(name)
        if axis is not None and axis.step is not None:
            step = axis.step * sizes.get(name, size) / max(size, 1)
            unit = {} if axis.unit is None else {"unit": axis.unit}
            known[name] = {"step": step, "start": axis.start + (step - axis.step) / 2, **unit}
        if name == "c" and len(series.channels) == size:
            known.setdefault(name, {})["labels"] = [channel.name for channel in series.channels]
    return {AXES: known} if known else {}


def check_levels(levels: Sequence[Level]) -> list[Level]:
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

type Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Roles:
    """The numbers of the main pages, and of those that are the first, second, ... smaller version of each."""

    mains: Numbers
    reduced: list[Numbers]


def stack_series(layout: TiffLayout, url: str, options: ScanOptions) -> Series | None:
    """Return the stack that a file's pages are, None where they are not one."""
    first = layout.ifd(layout.first)
    if not first.next or first.next + 2 > layout.size:
        return None
    chain = main_chain(layout)
    if not has_images(layout, chain, FEWEST):
        return None
    pages = Pages(layout, url, chain, kinds=MOST_KINDS)
    roles = None if (pages.kind < 0).any() else _roles(pages)
    if roles is None or not _same_meaning(pages, roles.mains):
        return None
    full = stack_level(pages, roles.mains)
    below = None if full is None else _below(pages, roles) if options.overviews else []
    if full is None or below is None:
        return None
    image = full.key.image
    if options.expand_palette and image.photometric == Photometric.PALETTE:
        return None  # the codec of a palette gives three bands, which a page by itself has room for
    geo = geo_of(layout, image)
    meaning = meaning_of(layout, image, options, unit=geo.height_unit)
    return Series("", check_levels([full, *below]), geo=geo, meaning=meaning, is_ome=False)


def stack_level(pages: Pages, numbers: Numbers, main: Keyframe | None = None) -> Level | None:
    """Return the level that pages of a file make, None where they do not agree."""
    found = gathered(pages, numbers, main)
    if isinstance(found, str):
        return None
    key, offsets, lengths = found
    source = np.zeros(len(numbers), np.int32)
    return Level(key, (("page", len(numbers)),), (pages.url,), source, offsets, lengths)


def gathered(
    pages: Pages, numbers: Numbers, main: Keyframe | None = None
) -> tuple[Keyframe, NDArray[np.int64], NDArray[np.int64]] | str:
    """Return what pages share and their columns, or else what they do not share."""
    kinds = list(dict.fromkeys(pages.kind[numbers].tolist()))
    if -1 in kinds:
        return f"more than {len(pages.kinds)} kinds of pages"
    keys = [
        Keyframe.of(pages.layout, pages.images[kind], pages.url, None if main is None else main.image) for kind in kinds
    ]
    for key in keys[1:]:
        differs = keys[0].difference(key)
        if differs is not None:
            return f"the IFD at {key.image.ifd.offset} has {differs}"
    offsets = np.zeros((len(numbers), keys[0].image.segments), np.int64)
    lengths = np.zeros_like(offsets)
    for kind in kinds:
        places = np.flatnonzero(pages.kind[numbers] == kind)
        rows = pages.row[numbers[places]]
        found = pages.columns(kind)
        offsets[places], lengths[places] = found[0][rows], found[1][rows]
    return keys[0], offsets, lengths


def _roles(pages: Pages) -> _Roles | None:
    """Return which pages are images and which their smaller versions; None unless two agree and all have as many."""
    if any(image.is_mask for image in pages.images):
        return None
    is_reduced = np.array([image.is_reduced for image in pages.images])[pages.kind]
    mains = np.flatnonzero(~is_reduced)
    if len(mains) < FEWEST or mains[0] != 0:
        return None
    steps = np.diff(np.append(mains, len(pages)))
    if (steps != steps[0]).any():
        return None
    return _Roles(mains, [mains + step for step in range(1, int(steps[0]))])


def _same_meaning(pages: Pages, mains: Numbers) -> bool:
    """Whether all pages lie at the same place and mean the same, byte for byte."""
    kinds = dict.fromkeys(pages.kind[mains].tolist())
    images = [pages.images[kind] for kind in kinds]
    return len({tuple(pages.layout.raw(image.ifd, tag) for tag in SAME) for image in images}) == 1


def _below(pages: Pages, roles: _Roles) -> list[Level] | None:
    """Return the smaller versions of a stack: pages that follow each page, then SubIFDs; None where they disagree."""
    levels: list[Level | None] = []
    main = Keyframe.of(pages.layout, pages.images[int(pages.kind[roles.mains[0]])], pages.url)
    levels = [stack_level(pages, numbers, main) for numbers in roles.reduced]
    subs = sub_ifds(pages, roles.mains)
    if subs is None:
        return None
    for column in subs.T:
        below = pages_at(pages.layout, pages.url, column.tolist(), kinds=MOST_KINDS)
        if (below.kind < 0).any() or not all(image.is_reduced and not image.is_mask for image in below.images):
            return None
        levels.append(stack_level(below, np.arange(len(below)), main))
    found = [level for level in levels if level is not None]
    if len(found) < len(levels):
        return None
    return sorted(found, key=lambda level: -level.key.image.width * level.key.image.length)


def sub_ifds(pages: Pages, numbers: Numbers) -> NDArray[np.int64] | None:
    """Return where the SubIFDs of some pages are, a row a page; None where they have not as many each."""
    kinds = list(dict.fromkeys(pages.kind[numbers].tolist()))
    found = {kind: pages.sub_ifds(kind) for kind in kinds}
    widths = {0 if column is None else column.shape[1] for column in found.values()}
    if len(widths) != 1:
        return None
    result = np.zeros((len(numbers), widths.pop()), np.int64)
    for kind, column in found.items():
        places = np.flatnonzero(pages.kind[numbers] == kind)
        if column is not None:
            result[places] = column[pages.row[numbers[places]]]
    return None if (result < 0).any() else result
