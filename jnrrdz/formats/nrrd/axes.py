"""What the axes of an NRRD mean: as its header says it, and as names, coordinates and OME-Zarr's attributes.

A header's vectors are in the file's order, the fastest axis first (http://teem.sourceforge.net/nrrd/format.html);
`Meaning` has them in C order.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from jnrrdz.core import ome
from jnrrdz.core.pyramid import axis_attributes
from jnrrdz.errors import MalformedError

type Attributes = dict[str, Any]
type Numbers = tuple[float, ...]

VARIABLE = "data"
SPACE_KINDS = {"domain", "space"}
CHANNEL_KINDS = ("color", "vector", "gradient", "normal", "list", "complex", "matrix", "scalar", "quaternion")
_SPATIAL = ("x", "y", "z")
_NAME = re.compile(r"[A-Za-z_][\w .\-]*")


@dataclass(frozen=True)
class Axes:
    """What the axes mean; every member is empty, or has an entry for each axis."""

    labels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    spacings: tuple[float, ...] = ()
    directions: tuple[tuple[float, ...] | None, ...] = ()
    """A vector in space for each axis that lies there."""

    origin: tuple[float, ...] = ()
    space_units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse vectors of spaces that differ."""
        vectors = [vector for vector in self.directions if vector is not None]
        lengths = {len(vector) for vector in (*vectors, self.origin, self.space_units) if vector}
        if len(lengths) > 1:
            counts = " and ".join(map(str, sorted(lengths)))
            raise MalformedError(f"vectors of {counts} dimensions in one space", field="space directions")


def axis_names(axes: Axes, count: int) -> tuple[str, ...]:
    """Return a name for each axis: its label, else x, y, z for those in space, else `d` and its number."""
    labels = tuple(label.strip() for label in axes.labels)
    if labels and all(map(_NAME.fullmatch, labels)) and len(set(labels)) == count:
        return labels
    spatial = iter(_SPATIAL)
    names: list[str] = []
    for number in range(count):
        kind = axes.kinds[number].lower() if axes.kinds else ""
        outside = bool(axes.directions) and axes.directions[number] is None
        if kind == "time":
            names.append("t")
        elif any(word in kind for word in CHANNEL_KINDS) or (outside and kind not in SPACE_KINDS):
            names.append("c" if "c" not in names else f"d{number}")
        else:
            names.append(next(spatial, f"d{number}"))
    return tuple(names) if len(set(names)) == count else tuple(f"d{number}" for number in range(count))


@dataclass(frozen=True)
class Steps:
    """Where elements lie along each axis."""

    step: tuple[float, ...]
    start: tuple[float, ...]
    units: tuple[str | None, ...]


def steps_of(axes: Axes, count: int) -> Steps | None:
    """Return steps and first positions; None where the header says no step, or where axes lie askew in space."""
    units: list[str | None] = [unit or None for unit in axes.units] or [None] * count
    step, start = [1.0] * count, [0.0] * count
    known = False
    for number in range(count):
        if axes.spacings and _is_step(axes.spacings[number]):
            step[number], known = axes.spacings[number], True
        vector = axes.directions[number] if axes.directions else None
        if vector is None:
            continue
        along = [place for place, part in enumerate(vector) if part]
        if len(along) != 1 or not _is_step(vector[along[0]]):
            return None
        (place,) = along
        step[number], known = vector[place], True
        start[number] = axes.origin[place] if axes.origin and math.isfinite(axes.origin[place]) else 0.0
        if units[number] is None and axes.space_units:
            units[number] = axes.space_units[place] or None
    return Steps(tuple(step), tuple(start), tuple(units)) if known else None


def _is_step(value: float) -> bool:
    return math.isfinite(value) and value != 0


@dataclass(frozen=True)
class Meaning:
    """The axes of one array, in C order."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    steps: Steps | None

    @property
    def is_forward(self) -> bool:
        """Whether coordinates grow with indices, which OME-Zarr presumes."""
        return self.steps is None or all(step > 0 for step in self.steps.step)

    def scale(self, factors: Numbers) -> Numbers | None:
        """Return the distance of neighbours at a level, None where the header says none."""
        if self.steps is None:
            return None
        return tuple(step * factor for step, factor in zip(self.steps.step, factors, strict=True))

    def start(self, factors: Numbers) -> Numbers:
        """Return where the first element's centre is at a level."""
        if self.steps is None:
            return ()
        steps = zip(self.steps.start, self.steps.step, factors, strict=True)
        return tuple(start + (factor - 1) / 2 * step for start, step, factor in steps)

    def array_attributes(self, factors: Numbers) -> Attributes:
        """Return the attributes that tell coordinates."""
        return axis_attributes(self.names, self.units, self.scale(factors), self.start(factors))

    def single_attributes(self, shape: tuple[int, ...]) -> Attributes:
        """Return OME-Zarr's attributes of a group with the one array."""
        if not self.is_forward:
            return {}
        known = self.steps or Steps((1.0,) * len(shape), (0.0,) * len(shape), ())
        each = zip(self.names, known.step, self.units, known.start, strict=True)
        axes = [ome.Axis(name, step, unit, start) for name, step, unit, start in each]
        return ome.ome_attributes("", axes, [ome.Dataset(VARIABLE, shape)])


def meaning_of(axes: Axes, count: int) -> Meaning:
    """Return what so many axes mean."""
    steps = steps_of(axes, count)
    units = steps.units if steps else tuple(unit or None for unit in axes.units) or (None,) * count
    turned = None if steps is None else Steps(steps.step[::-1], steps.start[::-1], steps.units[::-1])
    return Meaning(axis_names(axes, count)[::-1], units[::-1], turned)


def kept(value: Any) -> Any:
    """Return a value of a header as an attribute: in plain lists and objects, numbers that JSON has not as texts."""
    if isinstance(value, dict):
        return {str(name): kept(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [kept(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value
