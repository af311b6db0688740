"""OME-Zarr metadata of an image: axes with units, levels with their scales, channels.

Follows https://ngff.openmicroscopy.org/0.5/ (`ome` attribute of the group that holds the levels).  What that version
cannot say of an image (axes in another order, too many of them) is left out whole: half of it would be invalid.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

VERSION = "0.5"
KINDS = {"t": "time", "c": "channel", "band": "channel", "z": "space", "y": "space", "x": "space"}
"""The type of each axis by its name here; any other is of a type that OME-Zarr does not name."""

MOST_AXES = 5
PLANE_AXES = 2
SPACE_AXES = 3

SPACE_UNITS = {
    "pm": "picometer",
    "Å": "angstrom",
    "nm": "nanometer",
    "µm": "micrometer",
    "μm": "micrometer",
    "um": "micrometer",
    "micron": "micrometer",
    "mm": "millimeter",
    "cm": "centimeter",
    "dm": "decimeter",
    "m": "meter",
    "km": "kilometer",
    "in": "inch",
    "ft": "foot",
}
TIME_UNITS = {
    "ns": "nanosecond",
    "µs": "microsecond",
    "μs": "microsecond",
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
UNITS = {"space": SPACE_UNITS, "time": TIME_UNITS}
"""Symbols to the words of UDUNITS-2 that OME-Zarr wants."""

COLOUR = re.compile(r"[0-9A-F]{6}")


@dataclass(frozen=True)
class Axis:
    """One axis of an image."""

    name: str
    step: float | None = None
    """Distance of two neighbours at the finest level, in the axis's unit."""

    unit: str | None = None
    """As the file spells it."""

    start: float = 0.0
    """Position of the first one."""


@dataclass(frozen=True)
class Channel:
    """One channel of an image: a name, and a colour as RRGGBB."""

    name: str
    colour: str | None = None


@dataclass(frozen=True)
class Dataset:
    """One level: the path of its array, and its shape."""

    path: str
    shape: tuple[int, ...]


def unit_name(unit: str | None, kind: str) -> str | None:
    """Return the word for a unit that OME-Zarr knows, None for any other."""
    if unit is None:
        return None
    table = UNITS.get(kind, {})
    word = table.get(unit.strip(), unit.strip().lower().removesuffix("s"))
    return word if word in table.values() else None


def ome_attributes(
    name: str,
    axes: Sequence[Axis],
    datasets: Sequence[Dataset],
    channels: Sequence[Channel] = (),
    dtype: np.dtype[Any] | None = None,
) -> dict[str, Any]:
    """Return the attribute `ome` of a group, or nothing where OME-Zarr has no such image."""
    if not is_expressible([axis.name for axis in axes]):
        return {}
    multiscales = {
        **({"name": name} if name else {}),
        "axes": [axis_entry(axis) for axis in axes],
        "datasets": [_dataset(axes, datasets[0], level) for level in datasets],
    }
    return {"ome": {"version": VERSION, "multiscales": [multiscales], **_omero(axes, datasets, channels, dtype)}}


def is_expressible(names: Sequence[str]) -> bool:
    """Whether OME-Zarr allows these axes: time, then channel or an unnamed type, then two or three of space."""
    kinds = [KINDS.get(name, "") for name in names]
    order = {"time": 0, "channel": 1, "": 1, "space": 2}
    ranks = [order[kind] for kind in kinds]
    return (
        len(names) <= MOST_AXES
        and len(set(names)) == len(names)
        and ranks == sorted(ranks)
        and kinds.count("time") <= 1
        and ranks.count(1) <= 1
        and PLANE_AXES <= kinds.count("space") <= SPACE_AXES
    )


def axis_entry(axis: Axis) -> dict[str, str]:
    """Return the entry of an axis: name, type, and the unit where OME-Zarr has it."""
    kind = KINDS.get(axis.name, "")
    unit = unit_name(axis.unit, kind)
    return {"name": axis.name, **({"type": kind} if kind else {}), **({"unit": unit} if unit else {})}


def _dataset(axes: Sequence[Axis], finest: Dataset, level: Dataset) -> dict[str, Any]:
    """Return one level; a coarser pixel's centre lies at the middle of the finer ones that it stands for."""
    factors = [full / size if size else 1.0 for full, size in zip(finest.shape, level.shape, strict=True)]
    steps = [_step(axis) for axis in axes]
    scale = [step * factor for step, factor in zip(steps, factors, strict=True)]
    shift = [axis.start + (f - 1) / 2 * step for axis, f, step in zip(axes, factors, steps, strict=True)]
    transforms: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
    if any(shift):
        transforms.append({"type": "translation", "translation": shift})
    return {"path": level.path, "coordinateTransformations": transforms}


def _step(axis: Axis) -> float:
    """Return the step, 1 (an index) where it is unknown or none."""
    known = axis.step is not None and math.isfinite(axis.step) and axis.step > 0
    return float(axis.step) if known and axis.step is not None else 1.0


def _omero(
    axes: Sequence[Axis], datasets: Sequence[Dataset], channels: Sequence[Channel], dtype: np.dtype[Any] | None
) -> Mapping[str, Any]:
    """Return the channels; their window is the type's range, so floats, which have none, go without."""
    sizes = dict(zip([axis.name for axis in axes], datasets[0].shape, strict=True))
    if not channels or dtype is None or dtype.kind not in "iu" or len(channels) != sizes.get("c", 1):
        return {}
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    window = {"min": low, "max": high, "start": low, "end": high}
    return {"omero": {"channels": [_channel(channel, window) for channel in channels]}}


def _channel(channel: Channel, window: Mapping[str, int]) -> dict[str, Any]:
    colour = channel.colour or ""
    shown = colour.upper() if COLOUR.fullmatch(colour.upper()) else "FFFFFF"
    return {"label": channel.name, "color": shown, "active": True, "window": dict(window)}
