"""OME-Zarr metadata of an image: axes with units, levels with their scales, channels.

Follows https://ngff.openmicroscopy.org/0.5/ (`ome` attribute of the group that holds the levels).  What that version
cannot say of an image (axes in another order, too many of them) is left out whole: half of it would be invalid.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from jnrrdz.core.json_schema import (
    as_number,
    as_numbers,
    as_object,
    as_objects,
    as_text,
    shown,
    without_empty,
)
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

    name: str | None
    colour: str | None = None
    window: Mapping[str, float] = field(default_factory=dict)
    """`{"start": 0, "end": 4095}`: numbers that are black and white.  Where channels are
    written it follows from the type of the numbers."""

    is_active: bool = True
    """Whether viewers show the channel at first."""

    def to_json(self) -> dict[str, Any]:
        """Return what is known of the channel, as `jnrrdz info` has it."""
        window = dict(self.window)
        return without_empty({"name": self.name, "color": self.colour, "window": window})


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


# The same, read again


def stated_channels(attributes: Mapping[str, Any]) -> tuple[Channel, ...]:
    """Return the channels that an image's attribute `ome` lists; a TypeError where one is no object."""
    channels = []
    omero = as_object(as_object(attributes.get("ome")).get("omero"))
    entries = omero.get("channels")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            raise TypeError(f"{shown(entry)}: a channel that is no object")
        limits = as_object(entry.get("window"))
        window = {name: value for name, value in limits.items() if as_number(value) is not None}
        channel = Channel(
            as_text(entry.get("label")),
            as_text(entry.get("color")),
            window,
            is_active=bool(entry.get("active", True)),
        )
        channels.append(channel)
    return tuple(channels)


def stated_axes(attributes: Mapping[str, Any]) -> dict[str, Axis]:
    """Return the axes by the attribute `axes` of an array: `{"z": {"step": 0.3, "unit": "um"}}`."""
    axes = {}
    for name, entry in as_object(attributes.get("axes")).items():
        if not isinstance(entry, dict):
            continue
        start = as_number(entry.get("start", 0.0))
        if start is None:
            continue
        labels = entry.get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            labels = []
        axes[name] = Axis(
            name,
            as_number(entry.get("step")),
            as_text(entry.get("unit")),
            start,
            tuple(labels),
        )
    return axes


type PixelSize = dict[str, dict[str, Any]]
"""`{"x": {"size": 0.25, "unit": "micrometer"}}`"""


def pixel_size(attributes: Mapping[str, Any], names: Sequence[str | None]) -> PixelSize:
    """Return the distance of neighbours along each axis that has a physical scale."""
    steps = {
        name: without_empty({"size": axis.step, "unit": axis.unit})
        for name, axis in stated_axes(attributes).items()
        if name in names and axis.step is not None
    }
    return steps or _finest_scale(as_object(attributes.get("ome")))


def _finest_scale(ome: Mapping[str, Any]) -> PixelSize:
    """Return the scale of OME-Zarr's first level; axes without a unit count elements."""
    for scales in as_objects(ome.get("multiscales"))[:1]:
        axes = as_objects(scales.get("axes"))
        datasets = as_objects(scales.get("datasets"))
        transforms = datasets[0].get("coordinateTransformations") if datasets else []
        steps = [
            as_numbers(transform.get("scale"), len(axes))
            for transform in as_objects(transforms)
            if transform.get("type") == "scale"
        ]
        return {
            str(axis.get("name")): {"size": size, "unit": axis["unit"]}
            for axis, size in zip(axes, next(filter(None, steps), ()), strict=False)
            if isinstance(axis.get("unit"), str)
        }
    return {}
