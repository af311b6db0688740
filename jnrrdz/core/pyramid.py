"""Pyramids: the group that holds an image's or a volume's levels, stored or computed, and its attributes.

Follows https://github.com/zarr-conventions/multiscales (version 1) and https://ngff.openmicroscopy.org/0.5/.  Axes are
in the array's order, last one fastest.  docs/howto/virtual-levels.md tells of levels that are computed, and
docs/formats/jnrrd.md of attributes that tell of a level's tiles.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, TypeGuard, get_args

from jnrrdz.core import ome
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.crs import Crs
from jnrrdz.core.georeference import MULTISCALES, PROJ, WKT2, Level, multiscales
from jnrrdz.core.limits import AXES
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import record

type Attributes = dict[str, Any]


def raster_pyramid(levels: Sequence[VirtualGroup], crs: Crs | None) -> VirtualGroup:
    """Return the group of an image: its only level, or the one that holds them as `0`, `1`, ..., finest first.

    Each level is a group whose first array has the pixels, and whose attributes say where it lies.
    """
    if len(levels) == 1:
        return levels[0]
    shapes = [level_shape(level) for level in levels]
    layout = [
        Level(
            name=str(number),
            shape_yx=shape,
            affine=level.attributes.get("spatial:transform"),
            scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
            derived_from=None if number == 0 else str(number - 1),
        )
        for number, (level, finer, shape) in enumerate(zip(levels, [shapes[0], *shapes], shapes, strict=False))
    ]
    attributes = multiscales(layout, crs)
    if WKT2 in attributes:  # said once: each level's grid mapping has it too
        levels = [_without_wkt(level) for level in levels]
    children: dict[str, Node] = {str(number): level for number, level in enumerate(levels)}
    return VirtualGroup(children, attributes)


def _without_wkt(level: VirtualGroup) -> VirtualGroup:
    """Return a level's group without the CRS that its pyramid's group says."""
    attributes = {name: value for name, value in level.attributes.items() if name != WKT2}
    if WKT2 in level.attributes:
        attributes["zarr_conventions"] = [entry for entry in attributes["zarr_conventions"] if entry != PROJ]
    return replace(level, attributes=attributes)


def level_shape(level: VirtualGroup) -> tuple[int, int]:
    """Return rows and columns of the first array of a group."""
    rows, columns = next(child.shape[-2:] for child in level.children.values() if isinstance(child, VirtualArray))
    return rows, columns


@record
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
    scale: Sequence[float | None] | None,
    translation: Sequence[float],
) -> Attributes:
    """Return the attribute `axes` of an array, from which coordinates are computed.

    An axis without a step has no entry.
    """
    if scale is None:
        return {}
    axes: Attributes = {}
    for name, unit, step, start in zip(names, units, scale, translation, strict=True):
        if step is not None:
            axes[name] = {"step": step, "start": start, **({} if unit is None else {"unit": unit})}
    return {"axes": axes} if axes else {}


SPACE = "jnrrdz:space"
"""Attribute of an array whose axes run through a space, obliquely or not.

`{"name": "left-posterior-superior", "directions": {"z": [0.0, 0.0, 2.0], ...},
"origin": [...], "units": ["mm", ...], "measurement_frame": [...]}`: the centre of the
element with indices i is at `origin` plus the sum of `i * direction`.
"""


def is_space(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value has the form of the attribute `SPACE`, which anybody may write."""
    if not isinstance(value, dict) or not isinstance(value.get("directions"), dict):
        return False
    vectors = list(value["directions"].values())
    vectors += [value["origin"]] if "origin" in value else []
    if not vectors or not all(map(_is_vector, vectors)):
        return False
    return len(set(map(len, vectors))) == 1


def _is_vector(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(type(part) in {int, float} and math.isfinite(part) for part in value)


def coarser_space(space: Mapping[str, Any], factors: Mapping[str, float]) -> Attributes:
    """Return the attribute `SPACE` of a level whose elements span several of the finest.

    Directions become longer, and the first centre is between those of its elements.
    """
    directions = {name: list(v) for name, v in space.get("directions", {}).items()}
    coarser: Attributes = dict(space)
    coarser["directions"] = {
        name: [part * factors.get(name, 1) for part in vector] for name, vector in directions.items()
    }
    if "origin" in space:
        origin = list(space["origin"])
        for name, vector in directions.items():
            shift = (factors.get(name, 1) - 1) / 2
            origin = [at + shift * part for at, part in zip(origin, vector, strict=True)]
        coarser["origin"] = origin
    return coarser


def level_attributes(
    name: str, names: Sequence[str], units: Sequence[str | None], levels: Sequence[VolumeLevel]
) -> Attributes:
    """Return the attributes of the group that holds the levels, finest first."""
    layout = [
        {
            "asset": level.group,
            **({} if number == 0 else {"derived_from": levels[0].group}),
            "transform": {"scale": list(level.factors), "translation": [0.0] * len(level.factors)},
        }
        for number, level in enumerate(levels)
    ]
    attributes: Attributes = {"zarr_conventions": [dict(MULTISCALES)], "multiscales": {"layout": layout}}
    if not ome.is_expressible(names):
        return attributes
    # in units, or in elements of the finest level where no step is known
    datasets = [
        ome.dataset_entry(
            f"{level.group}/{level.variable}".rstrip("/"),
            level.scale or level.factors,
            level.translation if level.scale else [(factor - 1) / 2 for factor in level.factors],
        )
        for level in levels
    ]
    multiscales = {
        **({"name": name} if name else {}),
        "axes": [ome.axis_entry(ome.Axis(axis, unit=unit)) for axis, unit in zip(names, units, strict=True)],
        "datasets": datasets,
    }
    return attributes | {"ome": {"version": ome.VERSION, "multiscales": [multiscales]}}


VIRTUAL_LEVELS = "jnrrdz:virtual_levels"
"""The attribute of the group that holds the levels: a list of objects as `to_json` makes them."""

type Method = Literal["average", "gaussian", "lanczos", "max", "min", "mode"]
METHODS: tuple[Method, ...] = get_args(Method.__value__)

LARGEST_FACTOR = 1 << 16
LARGEST_SIZE = 1 << 62
MOST_LEVELS = 64


@record
class VirtualLevel:
    """One level that is computed where it is read; sizes are in the array's order, last axis fastest."""

    name: str
    """The group of this level, below the group whose attribute lists it."""

    source: str
    """The group beside it that holds the stored, finer level."""

    variable: str
    """The name of the array in both groups."""

    factors: tuple[int, ...]
    """How many elements of the source one element spans, along each axis."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    method: Method = "average"

    def __post_init__(self) -> None:
        """Refuse what cannot be a level, by the field that says so."""
        for field in ("name", "source", "variable"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value.strip(".") or "/" in value or value.startswith("__"):
                raise MalformedError(f"{value!r} is no name of a Zarr node", field=field)
        for field in ("factors", "shape", "chunks"):
            _check_sizes(getattr(self, field), field)
        if not len(self.factors) == len(self.shape) == len(self.chunks):
            raise MalformedError("factors, shape and chunks differ in length", field="factors")
        if self.name == self.source:
            raise MalformedError(f"the level {self.name!r} is computed from itself", field="source")
        check_method(self.method)

    def stacked(self, count: int) -> "VirtualLevel":
        """Return the level of this many arrays along a new first axis."""
        return replace(
            self,
            factors=(1, *self.factors),
            shape=(count, *self.shape),
            chunks=(1, *self.chunks),
        )

    def joined(self, axis: int, before: int, after: int) -> "VirtualLevel":
        """Return the level of a source whose length along an axis has changed.

        The length is rounded as it was: a header chooses between down and up.
        """
        factor = self.factors[axis]
        is_down = self.shape[axis] == max(1, before // factor)
        length = max(1, after // factor) if is_down else -(-after // factor)
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return replace(self, shape=shape)

    def is_kind_of(self, other: "VirtualLevel") -> bool:
        """Return whether two levels are made alike, whatever the lengths of arrays."""
        keys = ("name", "source", "variable", "method")
        axes = min(len(self.factors), len(other.factors))
        is_same = self.factors[-axes:] == other.factors[-axes:]
        return is_same and all(getattr(self, key) == getattr(other, key) for key in keys)

    def to_json(self) -> dict[str, Any]:
        """Return the object that stands for this level in the attribute."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Any) -> "VirtualLevel":
        """Return the level that an object of the attribute tells; anything else is refused by its field."""
        if not isinstance(value, dict):
            raise MalformedError(f"a level that is no object but {type(value).__name__}", field=VIRTUAL_LEVELS)
        known = {"name", "source", "variable", "factors", "shape", "chunks", "method"}
        if value.keys() - known:
            raise UnsupportedError(f"unknown members {sorted(value.keys() - known)}", field=VIRTUAL_LEVELS)
        missing = known - {"method"} - value.keys()
        if missing:
            raise MalformedError(f"a level without {', '.join(sorted(missing))}", field=VIRTUAL_LEVELS)
        members: dict[str, Any] = {k: tuple(item) if isinstance(item, list) else item for k, item in value.items()}
        return cls(**members)


def virtual_levels_attribute(levels: Iterable[VirtualLevel]) -> dict[str, Any]:
    """Return the attribute that lists levels; nothing where there are none."""
    listed = [level.to_json() for level in levels]
    return {VIRTUAL_LEVELS: listed} if listed else {}


def virtual_levels_of(attributes: Mapping[str, Any]) -> tuple[VirtualLevel, ...]:
    """Return the levels that a group's attributes list."""
    listed = attributes.get(VIRTUAL_LEVELS, [])
    if not isinstance(listed, list):
        raise MalformedError(f"no list but {type(listed).__name__}", field=VIRTUAL_LEVELS)
    if len(listed) > MOST_LEVELS:
        raise UnsupportedError(f"{len(listed)} virtual levels; no more than {MOST_LEVELS}", field=VIRTUAL_LEVELS)
    levels = tuple(map(VirtualLevel.from_json, listed))
    names = [level.name for level in levels]
    if len(set(names)) < len(names):
        raise MalformedError(f"a level is listed twice: {', '.join(names)}", field=VIRTUAL_LEVELS)
    chained = next((level for level in levels if level.source in names), None)
    if chained is not None:
        raise UnsupportedError(
            f"level {chained.name!r} is computed from {chained.source!r}, which is virtual too; name a stored one",
            field=VIRTUAL_LEVELS,
        )
    return levels


def check_method(method: Any) -> None:
    """Refuse what is no method of making a coarser level."""
    if method not in METHODS:
        raise UnsupportedError(f"a downsampling method {method!r}; there are {', '.join(METHODS)}", field="method")


def _check_sizes(value: Any, field: str) -> None:
    if not isinstance(value, tuple) or not all(type(size) is int for size in value):
        raise MalformedError(f"{value!r} is no list of whole numbers", field=field)
    most = LARGEST_FACTOR if field == "factors" else LARGEST_SIZE
    least = 0 if field == "shape" else 1
    if len(value) > AXES or not all(least <= size <= most for size in value):
        raise MalformedError(f"{value}: each of them has to be {least} to {most}", field=field)


TILE_CHECKSUMS = "tile_checksums"
"""SHA-256 of each tile's stored bytes as 64 hexadecimal digits, null where there is none."""

TILE_METADATA = "tile_metadata"
"""What a file says of each tile, null where it says nothing."""

TILE_COMPRESSION_LEVELS = "tile_compression_levels"
"""How hard each tile was compressed."""

PER_TILE = (TILE_CHECKSUMS, TILE_METADATA, TILE_COMPRESSION_LEVELS)
"""Attributes of a level's array: a list with a value for each tile, in C order of the grid of tiles."""

LEVEL_OFFSETS = "level_offsets"
"""Where a file says that each level begins: the byte's number by the name of the level's group."""

LEVEL_QUALITY = "level_quality"
"""What a file says of each level's quality, by the name of the level's group."""
