"""Names, coordinates and the space of a header's axes.

A header gives vectors in its own order, the fastest axis first; a `Geometry` is in
C order.  Where the header has `space directions`, an axis has the name of the axis of
space that it runs along: a sagittal volume's fastest axis is y.  The coordinates of an
axis are known where it alone runs along its axis of space.  Follows
http://teem.sourceforge.net/nrrd/format.html; docs/formats/nrrd.md has the rules.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core import ome
from jnrrdz.core.pyramid import SPACE, axis_attributes, coarser_space
from jnrrdz.formats.nrrd.header import SPACES, Axes

type Attributes = dict[str, Any]
type Numbers = tuple[float, ...]

SPACE_NAMES = ("x", "y", "z", "t")
"""Axes of a named space in their order; the fourth is that of `...-time`."""

NEUTRAL_NAMES = ("i", "j", "k")
SPACE_KINDS = {"domain", "space"}
CHANNEL_KINDS = (
    "color",
    "vector",
    "gradient",
    "normal",
    "list",
    "complex",
    "matrix",
    "scalar",
    "quaternion",
)
_NAME = re.compile(r"[A-Za-z_][\w .\-]*")

ROUNDING = 1e-12
"""Part of a direction's length below which a component is a rounding error."""

DOMINANT = math.sqrt(0.5)
"""Cosine of 45 degrees: two directions at right angles never share a dominant axis."""


@dataclass(frozen=True)
class Sampling:
    """Positions of the elements along one axis: `start + step * index`."""

    step: float | None = None
    """None where the header does not say it."""

    start: float = 0.0
    unit: str | None = None

    def at(self, factor: float) -> "Sampling":
        """Return the sampling of a level whose elements span several of these."""
        if self.step is None:
            return self
        start = self.start + (factor - 1) / 2 * self.step
        return Sampling(self.step * factor, start, self.unit)


@dataclass(frozen=True)
class Geometry:
    """The axes of one array, in C order."""

    names: tuple[str, ...]
    samplings: tuple[Sampling, ...]
    space: Attributes
    """The attribute `SPACE` of the finest level; empty without directions."""

    @property
    def units(self) -> tuple[str | None, ...]:
        """The unit of each axis."""
        return tuple(sampling.unit for sampling in self.samplings)

    @property
    def ome_units(self) -> tuple[str | None, ...]:
        """The unit of each axis whose step is known; of others the elements are counted."""
        return tuple(None if s.step is None else s.unit for s in self.samplings)

    @property
    def has_ome(self) -> bool:
        """Whether OME-Zarr can describe the axes: it has neither rotation nor reflection."""
        steps = [sampling.step for sampling in self.samplings]
        if any(step is not None and step < 0 for step in steps):
            return False
        directed = self.space.get("directions", {})
        named = zip(self.names, steps, strict=True)
        if any(step is None and name in directed for name, step in named):
            return False
        # without any step elements are counted; some that are unknown would be made up
        spatial = [
            step is not None for name, step in zip(self.names, steps, strict=True) if ome.KINDS.get(name) == "space"
        ]
        return all(spatial) or not any(spatial)

    def array_attributes(self, factors: Numbers) -> Attributes:
        """Return the attributes of a level's array: coordinates, and directions in space."""
        level = [s.at(factor) for s, factor in zip(self.samplings, factors, strict=True)]
        steps = [sampling.step for sampling in level]
        starts = [sampling.start for sampling in level]
        attributes = axis_attributes(self.names, self.units, steps, starts)
        if self.space:
            by_name = dict(zip(self.names, factors, strict=True))
            attributes[SPACE] = coarser_space(self.space, by_name)
        return attributes

    def ome_level(self, factors: Numbers) -> tuple[Numbers, Numbers]:
        """Return scale and translation of a level; elements count where no step is known."""
        counted = [Sampling(1.0) if s.step is None else s for s in self.samplings]
        level = [s.at(factor) for s, factor in zip(counted, factors, strict=True)]
        scale = tuple(sampling.step or 1.0 for sampling in level)
        return scale, tuple(sampling.start for sampling in level)

    def single_attributes(self, variable: str, shape: tuple[int, ...]) -> Attributes:
        """Return OME-Zarr's attributes of a group with the one array."""
        if not self.has_ome:
            return {}
        axes = [
            ome.Axis(name, sampling.step, unit, sampling.start)
            for name, sampling, unit in zip(self.names, self.samplings, self.ome_units, strict=True)
        ]
        return ome.ome_attributes("", axes, [ome.Dataset(variable, shape)])


def geometry_of(axes: Axes, sizes: Sequence[int]) -> Geometry:
    """Return the geometry of the header's axes, which have these sizes."""
    names = axis_names(axes, len(sizes))
    samplings = samplings_of(axes, sizes)
    return Geometry(names[::-1], samplings[::-1], _space(axes, names))


def _space(axes: Axes, names: Sequence[str]) -> Attributes:
    """Return the attribute `SPACE`: the vectors as the header has them."""
    if not any(axes.directions):
        return {}
    directed = zip(names, axes.directions, strict=True)
    directions = {name: list(vector) for name, vector in directed if vector}
    members = {
        "name": axes.space,
        "directions": directions if _are_finite(*directions.values()) else None,
        "origin": list(axes.origin) if _are_finite(axes.origin) else None,
        "units": list(axes.space_units),
        "measurement_frame": [list(v) for v in axes.frame if v and _are_finite(v)],
    }
    if members["directions"] is None:
        return {}
    return {name: value for name, value in members.items() if value}


def _are_finite(*vectors: Sequence[float]) -> bool:
    return all(math.isfinite(part) for vector in vectors for part in vector)


# Names


def axis_names(axes: Axes, count: int) -> tuple[str, ...]:
    """Return a name for each axis, in the header's order.

    It is the label, else the axis of space that the axis runs along, else what its kind
    says, else `d` and its number.
    """
    labels = tuple(label.strip() for label in axes.labels)
    are_names = labels and all(map(_NAME.fullmatch, labels))
    if are_names and len(set(labels)) == count:
        return labels
    directed = _directed_names(axes)
    spatial = iter(() if directed else SPACE_NAMES[:3])
    names: list[str] = []
    for number in range(count):
        kind = axes.kinds[number].lower() if axes.kinds else ""
        is_outside = bool(axes.directions) and axes.directions[number] is None
        if number in directed:
            names.append(directed[number])
        elif kind == "time":
            names.append("t")
        elif _is_channel(kind) or (is_outside and kind not in SPACE_KINDS):
            names.append("c" if "c" not in names else f"d{number}")
        else:
            names.append(next(spatial, f"d{number}"))
    if len(set(names)) == count:
        return tuple(names)
    return tuple(f"d{number}" for number in range(count))


def _is_channel(kind: str) -> bool:
    return any(word in kind for word in CHANNEL_KINDS)


def _directed_names(axes: Axes) -> dict[int, str]:
    """Return the names of the axes that have a direction, by their numbers.

    Unless each is dominated by another axis of space, all of them have neutral names.
    """
    known = _space_names(axes.space)
    names: dict[int, str] = {}
    numbers = [number for number, v in enumerate(axes.directions) if v is not None]
    for number in numbers:
        place = _dominant(axes.directions[number] or ())
        if place is not None and place < len(known):
            names[number] = known[place]
    if len(set(names.values())) == len(numbers):
        return names
    neutral = [*NEUTRAL_NAMES, *(f"d{n}" for n in numbers[len(NEUTRAL_NAMES) :])]
    return dict(zip(numbers, neutral, strict=False))


def _space_names(space: str) -> tuple[str, ...]:
    has_time = space.lower().replace(" ", "-") in SPACES[len(SPACE_NAMES)]
    return SPACE_NAMES if has_time else SPACE_NAMES[:3]


def _dominant(vector: Sequence[float]) -> int | None:
    """Return the axis of space that a direction is less than 45 degrees away from."""
    length = math.hypot(*vector)
    if not math.isfinite(length) or length == 0:
        return None
    largest = max(range(len(vector)), key=lambda place: abs(vector[place]))
    return largest if abs(vector[largest]) > DOMINANT * length else None


# Coordinates


def samplings_of(axes: Axes, sizes: Sequence[int]) -> tuple[Sampling, ...]:
    """Return where elements are along each axis, in the header's order."""
    units = [unit or None for unit in axes.units] or [None] * len(sizes)
    samplings = []
    for number, size in enumerate(sizes):
        place = _aligned(axes, number)
        if place is None:
            is_directed = bool(axes.directions) and axes.directions[number] is not None
            scalar = None if is_directed else _scalar_sampling(axes, number, size)
            step, start = scalar or (None, 0.0)
            samplings.append(Sampling(step, start, units[number]))
            continue
        step = (axes.directions[number] or ())[place]
        start = axes.origin[place] if axes.origin else 0.0
        unit = units[number]
        if unit is None and axes.space_units:
            unit = axes.space_units[place] or None
        samplings.append(Sampling(step, start if math.isfinite(start) else 0.0, unit))
    return tuple(samplings)


def _aligned(axes: Axes, number: int) -> int | None:
    """Return the axis of space along which this axis, and no other one, runs."""
    if not axes.directions or axes.directions[number] is None:
        return None
    places = _parts(axes.directions[number])
    if len(places) != 1:
        return None
    others = [v for n, v in enumerate(axes.directions) if n != number]
    is_shared = any(places[0] in _parts(vector) for vector in others)
    return None if is_shared else places[0]


def _parts(vector: Sequence[float] | None) -> list[int]:
    """Return the axes of space that a direction has a component along."""
    if vector is None:
        return []
    length = math.hypot(*vector)
    if not math.isfinite(length):
        return list(range(len(vector)))
    return [place for place, part in enumerate(vector) if abs(part) > ROUNDING * length]


def _scalar_sampling(axes: Axes, number: int, size: int) -> tuple[float, float] | None:
    """Return step and start of an axis without direction, None without a step.

    `axis mins` is the border of the first element, or its place if centered on a node.
    An axis that does not say its centering has cells, as for teem and ITK.
    """
    centering = axes.centerings[number].lower() if axes.centerings else ""
    is_node = centering == "node"
    low = axes.mins[number] if axes.mins else math.nan
    high = axes.maxs[number] if axes.maxs else math.nan
    step = axes.spacings[number] if axes.spacings else math.nan
    steps = size - 1 if is_node else size
    if not _is_step(step) and steps:
        step = (high - low) / steps
    if not _is_step(step):
        return None
    start = low if is_node else low + step / 2
    return step, start if math.isfinite(start) else 0.0


def _is_step(value: float) -> bool:
    return math.isfinite(value) and value != 0
