"""Series to groups: the variable or the pyramid, what its axes mean, and OME-Zarr metadata.

May touch the model and the planes of this folder.
Spec: https://ngff.openmicroscopy.org/0.5/
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.core.ome import Axis, Channel, Dataset, ome_attributes
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.geo import Geo, levels_attributes
from jnrrdz.formats.tiff.meaning import Meaning
from jnrrdz.formats.tiff.planes import Level, level_array

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
