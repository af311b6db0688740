"""Keys of a JNRRD's header that describe its axes, their space and what is measured.

An array of any source is described by its attributes: `axes` (a step, a start and a unit
by name), `jnrrdz:space` (directions and an origin) or an affine.  What a NRRD or JNRRD
says beyond that is taken from its header, as the attributes `nrrd` and `jnrrd` have it.
Vectors are in the header's order, dimension 0 (x) first; docs/howto/tile.md lists the
keys.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.ome import KINDS
from jnrrdz.core.pyramid import SPACE, is_space
from jnrrdz.formats.nrrd.header import SPACES, Fields

type Keys = list[tuple[str, Any]]
type Members = Mapping[str, Any]

SPATIAL = ("x", "y", "z")
NRRD_KINDS = {"time": "time", "space": "space", "channel": "list"}

_OF_AXES = {
    "labels", "kinds", "spacings", "units", "axis_mins", "axis_maxs", "centerings",
    "space", "space_dimension", "space_directions", "space_origin", "space_units",
    "measurement_frame",
}  # fmt: skip
_OF_BYTES = {
    "jnrrd", "type", "dimension", "sizes", "endian", "encoding", "byte_skip", "line_skip",
    "data_file", "data_files", "data_file_pattern", "subdim", "extensions", "attributes",
}  # fmt: skip


@dataclass(frozen=True)
class Described:
    """What a source says of an array; names in the header's order."""

    names: tuple[str, ...]
    attributes: Members
    """Of the array."""

    affine: Sequence[float] = ()
    """GDAL's, of the corner of the first pixel; empty where there is none."""

    header: Members | None = None
    """The keys of the source's own header, in JNRRD's spelling."""

    def keys(self) -> Keys:
        """Return the keys of the header that describe the array."""
        return [
            ("labels", list(self.names)),
            ("kinds", self._kinds()),
            *self._axes(),
            *self._others(),
        ]

    def _kinds(self) -> list[str | None]:
        usual = [NRRD_KINDS.get(KINDS.get(name, ""), "domain") for name in self.names]
        kinds = self._per_axis("kinds")
        return [kind or None for kind in kinds] if kinds else list(usual)

    def _per_axis(self, name: str) -> list[Any]:
        """Return a list of the source's header, empty unless it has an entry an axis."""
        values = (self.header or {}).get(name)
        is_fitting = isinstance(values, list) and len(values) == len(self.names)
        return list(values) if isinstance(values, list) and is_fitting else []

    def _others(self) -> Keys:
        """Return the keys of the source's header that are about neither axes nor bytes."""
        left_out = _OF_AXES | _OF_BYTES
        members = self.header or {}
        kept = {name: it for name, it in members.items() if name not in left_out}
        # a list for each axis of an array that has other ones now
        if len(self._per_axis("thicknesses")) == 0:
            kept.pop("thicknesses", None)
        return list(kept.items())

    def _axes(self) -> Keys:
        space = self._space()
        directions = space.get("directions", {})
        samplings = self._samplings()
        scalar = {n: s for n, s in samplings.items() if n not in directions}
        keys = self._scalar_keys(scalar)
        if not directions:
            return keys
        name = space.get("name")
        first = next(iter(directions.values()))
        keys.append(("space", name) if name else ("space_dimension", len(first)))
        keys.append(("space_directions", [directions.get(n) for n in self.names]))
        members = ("origin", "space_origin"), ("units", "space_units")
        for member, key in (*members, ("measurement_frame", "measurement_frame")):
            if space.get(member):
                keys.append((key, space[member]))
        return keys

    def _scalar_keys(self, samplings: Mapping[str, "_Sampling"]) -> Keys:
        """Return steps, first positions and units of the axes without a direction."""
        listed = [samplings.get(name) for name in self.names]
        centerings = self._per_axis("centerings") or [None] * len(listed)
        keys: Keys = []
        if any(one is not None and one.step for one in listed):
            keys.append(("spacings", [one.step if one else None for one in listed]))
        if any(one is not None and one.start for one in listed):
            starts = [one.start if one and one.step else None for one in listed]
            keys.append(("axis_mins", starts))
            # a start is the centre of an element
            named = zip(centerings, starts, strict=True)
            centerings = [c if at is None else "node" for c, at in named]
        if any(centerings):
            keys.append(("centerings", centerings))
        if any(one is not None and one.unit for one in listed):
            keys.append(("units", [one.unit if one else "" for one in listed]))
        return keys

    def _samplings(self) -> dict[str, "_Sampling"]:
        axes = self.attributes.get("axes")
        if not isinstance(axes, dict):
            return {}
        samplings = {name: _sampling(axes.get(name)) for name in self.names}
        return {name: one for name, one in samplings.items() if one is not None}

    def _space(self) -> dict[str, Any]:
        """Return the space in which axes have directions, in the form of `SPACE`."""
        given = self.attributes.get(SPACE)
        if is_space(given):
            return _checked(given, self.names)
        samplings = self._samplings()
        placed = {name for name in SPATIAL if name in samplings and samplings[name].step}
        if self.affine and {"x", "y"} <= set(self.names):
            placed |= {"x", "y"}
        dimensions = [name for name in SPATIAL if name in placed and name in self.names]
        if not dimensions:
            return {}
        none = _Sampling(0.0, 0.0, "")
        steps = {name: samplings.get(name, none) for name in dimensions}
        directions = {
            name: [(steps[name].step or 0.0) if axis == name else 0.0 for axis in dimensions] for name in dimensions
        }
        origin = {name: steps[name].start for name in dimensions}
        if self.affine:  # rows and columns of a rotated image go along both axes
            left, xx, xy, top, yx, yy = self.affine
            for name, along in (("x", {"x": xx, "y": yx}), ("y", {"x": xy, "y": yy})):
                directions[name] = [along.get(axis, 0.0) for axis in dimensions]
            origin |= {"x": left + (xx + xy) / 2, "y": top + (yx + yy) / 2}
        space: dict[str, Any] = {
            "directions": directions,
            "origin": [origin[name] for name in dimensions],
        }
        units = [steps[name].unit for name in dimensions]
        return space | ({"units": units} if any(units) else {})


@dataclass(frozen=True)
class _Sampling:
    """Positions along one axis."""

    step: float | None
    start: float
    unit: str


def _sampling(axis: Any) -> _Sampling | None:
    """Return an entry of the attribute `axes`, None where it says nothing."""
    if not isinstance(axis, dict):
        return None
    step, start, unit = axis.get("step"), axis.get("start", 0.0), axis.get("unit")
    unit = unit if isinstance(unit, str) else ""
    if not _is_number(step) or not _is_number(start) or not step:
        return _Sampling(None, 0.0, unit)
    return _Sampling(float(step), float(start), unit)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)


def _checked(space: Members, names: Sequence[str]) -> dict[str, Any]:
    """Return the members of a `SPACE` that a header can have."""
    directions = {n: v for n, v in space["directions"].items() if n in names}
    dimension = len(next(iter(space["directions"].values())))
    checked: dict[str, Any] = {"directions": directions}
    name = space.get("name")
    spelled = name.lower().replace(" ", "-") if isinstance(name, str) else ""
    if spelled in SPACES.get(dimension, ()):
        checked["name"] = name
    if "origin" in space:
        checked["origin"] = space["origin"]
    units, frame = space.get("units"), space.get("measurement_frame")
    if isinstance(units, list) and len(units) == dimension:
        checked["units"] = units
    if isinstance(frame, list) and len(frame) == dimension:
        checked["measurement_frame"] = frame
    return checked


_NUMBERS = {"thicknesses", "old min", "old max"}
_WORDS = {"kinds", "centerings"}
_UNKNOWN = {"???", "none"}


def header_of_source(attributes: Members) -> Members | None:
    """Return a source's own header of a group's attributes, in JNRRD's spelling."""
    jnrrd, nrrd = attributes.get("jnrrd"), attributes.get("nrrd")
    if isinstance(jnrrd, dict):
        return jnrrd
    if not isinstance(nrrd, dict):
        return None
    members: dict[str, Any] = {}
    for name, value in nrrd.items():
        key = name.replace(" ", "_")
        if not isinstance(value, str):
            members[key] = value
            continue
        if name in _WORDS:
            members[key] = [None if w in _UNKNOWN else w for w in value.split()]
        elif name in _NUMBERS:
            members[key] = _numbers(name, value)
        else:
            members[key] = value
    return members


def _numbers(name: str, text: str) -> Any:
    """Return numbers of a field, None where they are no number."""
    values = Fields({name: text}).numbers(name, len(text.split()))
    numbers = [value if math.isfinite(value) else None for value in values]
    return numbers if name == "thicknesses" else next(iter(numbers), None)
