"""A volume's place and its levels as attributes: axes, multiscales, OME-Zarr.

May touch errors and the model's own modules.  Follows https://github.com/zarr-conventions/multiscales
(version 1) and https://ngff.openmicroscopy.org/0.5/.  Axes are in the array's order, last one fastest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core import ome
from jnrrdz.core.georeference import MULTISCALES

type Attributes = dict[str, Any]


@dataclass(frozen=True)
class VolumeLevel:
    """One level: the names of its group and of the array in it, and where it lies."""

    group: str
    variable: str
    """Empty where the group is the array."""

    factors: tuple[float, ...]
    """Elements of the finest level that one spans, along each axis."""

    scale: tuple[float, ...] | None = None
    translation: tuple[float, ...] = ()


def axis_attributes(
    names: Sequence[str],
    units: Sequence[str | None],
    scale: Sequence[float] | None,
    translation: Sequence[float],
) -> Attributes:
    """Return the attribute `axes` of an array, from which coordinates are computed; nothing where no step is known."""
    if scale is None:
        return {}
    axes: Attributes = {}
    for name, unit, step, start in zip(names, units, scale, translation, strict=True):
        axes[name] = {"step": step, "start": start, **({} if unit is None else {"unit": unit})}
    return {"axes": axes}


def level_attributes(
    name: str, names: Sequence[str], units: Sequence[str | None], levels: Sequence[VolumeLevel]
) -> Attributes:
    """Return the attributes of the group that holds the levels, finest first."""
    layout = [_layout(level, levels[0]) for level in levels]
    found: Attributes = {"zarr_conventions": [dict(MULTISCALES)], "multiscales": {"layout": layout}}
    return found | _ome(name, names, units, levels)


def _layout(level: VolumeLevel, finest: VolumeLevel) -> Attributes:
    origin = {} if level is finest else {"derived_from": finest.group}
    transform = {"scale": list(level.factors), "translation": [0.0] * len(level.factors)}
    return {"asset": level.group, **origin, "transform": transform}


def _ome(name: str, names: Sequence[str], units: Sequence[str | None], levels: Sequence[VolumeLevel]) -> Attributes:
    if not ome.is_expressible(names):
        return {}
    multiscales = {
        **({"name": name} if name else {}),
        "axes": [ome.axis_entry(ome.Axis(axis, unit=unit)) for axis, unit in zip(names, units, strict=True)],
        "datasets": [_dataset(level) for level in levels],
    }
    return {"ome": {"version": ome.VERSION, "multiscales": [multiscales]}}


def _dataset(level: VolumeLevel) -> Attributes:
    """Return one level in units, in elements of the finest level where no step is known."""
    scale = level.scale or level.factors
    shift = level.translation if level.scale else tuple((factor - 1) / 2 for factor in level.factors)
    transforms: list[Attributes] = [{"type": "scale", "scale": list(scale)}]
    if any(shift):
        transforms.append({"type": "translation", "translation": list(shift)})
    path = f"{level.group}/{level.variable}".rstrip("/")
    return {"path": path, "coordinateTransformations": transforms}
