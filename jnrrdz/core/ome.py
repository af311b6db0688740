"""OME-Zarr metadata of an image: axes with units, levels with their scales, channels.

Follows https://ngff.openmicroscopy.org/0.5/ (`ome` attribute of the group that holds the levels).  What that version
cannot say of an image (axes in another order, too many of them) is left out whole: half of it would be invalid.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jnrrdz.records import record

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
    "inche": "inch",
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


@record
class Axis:
    """One axis of an image."""

    name: str
    step: float | None = None
    """Distance of two neighbours at the finest level, in the axis's unit."""

    unit: str | None = None
    """As the file spells it."""

    start: float = 0.0
    """Position of the first one."""

    labels: tuple[str, ...] = ()
    """A name for each element, where elements have names rather than positions."""


@record
class Channel:
    """One channel of an image: a name, and a colour as RRGGBB."""

    name: str
    colour: str | None = None


@record
class Dataset:
    """One level: the path of its array, and its shape."""

    path: str
    shape: tuple[int, ...]


def unit_name(unit: str | None, kind: str) -> str | None:
    """Return the word for a unit that OME-Zarr knows, None for any other."""
    if unit is None:
        return None
    table = UNITS.get(kind, {})
    singular = unit.strip().lower().removesuffix("s")
    word = table.get(unit.strip(), table.get(singular, singular))
    return word if word in table.values() else None


def ome_attributes(  # noqa: PLR0913, PLR0917  what OME-Zarr says of an image
    name: str,
    axes: Sequence[Axis],
    datasets: Sequence[Dataset],
    channels: Sequence[Channel] = (),
    dtype: np.dtype[Any] | None = None,
    significant_bits: int | None = None,
) -> dict[str, Any]:
    """Return the attribute `ome` of a group, or nothing where OME-Zarr has no such image.

    A channel's window is the range of its type, and starts and ends with the range of its significant bits.
    """
    if not is_expressible([axis.name for axis in axes]):
        return {}
    multiscales = {
        **({"name": name} if name else {}),
        "axes": [axis_entry(axis) for axis in axes],
        "datasets": [_dataset(axes, datasets[0], level) for level in datasets],
    }
    attributes: dict[str, Any] = {"version": VERSION, "multiscales": [multiscales]}
    sizes = dict(zip([axis.name for axis in axes], datasets[0].shape, strict=True))
    # floats have no range, so they go without
    if channels and dtype is not None and dtype.kind in "iu" and len(channels) == sizes.get("c", 1):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        unused = max(dtype.itemsize * 8 - (significant_bits or 64), 0)
        window = {"min": low, "max": high, "start": low >> unused, "end": high >> unused}
        colours = [(channel.colour or "").upper() for channel in channels]
        entries = [
            {
                "label": channel.name,
                "color": colour if COLOUR.fullmatch(colour) else "FFFFFF",
                "active": True,
                "window": dict(window),
            }
            for channel, colour in zip(channels, colours, strict=True)
        ]
        attributes["omero"] = {"channels": entries}
    return {"ome": attributes}


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
    # a step that is unknown or none is that of an index
    steps = [float(axis.step) if axis.step and 0 < axis.step < math.inf else 1.0 for axis in axes]
    scale = [step * factor for step, factor in zip(steps, factors, strict=True)]
    shift = [axis.start + (f - 1) / 2 * step for axis, f, step in zip(axes, factors, steps, strict=True)]
    return dataset_entry(level.path, scale, shift)


def dataset_entry(path: str, scale: Sequence[float], translation: Sequence[float]) -> dict[str, Any]:
    """Return the entry of one level: the path of its array, and how its indices become positions."""
    transforms: list[dict[str, Any]] = [{"type": "scale", "scale": list(scale)}]
    if any(translation):
        transforms.append({"type": "translation", "translation": list(translation)})
    return {"path": path, "coordinateTransformations": transforms}
