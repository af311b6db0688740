"""Where a dataset lies: names of its axes, steps, positions and units, from five conventions of N5.

Axes are x first here, as in N5; every vector of the file is too, but for COSEM's, which say their order.
Conventions, by what they write:

- neuroglancer: `axes`, `units`, `resolution`, inherited from any folder above.
- n5-viewer: `pixelResolution` (a list, or `{unit, dimensions}`), `downsamplingFactors` of a level, or
  `downsamplingFactors`/`scales` of all levels on the folder above.
- BigDataViewer: `downsamplingFactors` on `setupN`, `resolution` on `timepointN`.
- Paintera: `resolution` and `offset` on `data`, `downsamplingFactors` on each `sN`.
- COSEM: `transform` on a dataset, or `multiscales[].datasets[].transform` above it.
"""

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

type Attributes = Mapping[str, Any]
type Numbers = tuple[float, ...]

NAMES = ("x", "y", "z")
LEVEL = re.compile(r"s(\d+)")
LEVEL_LISTS = ("downsamplingFactors", "scales")
"""Attributes of a folder that list the factors of all levels."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Place:
    """What is known of a dataset's axes, x first."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    scale: Numbers | None = None
    """Distance of two neighbours along each axis; None where the file does not say it."""

    translation: Numbers = ()
    """Position of the first element's centre."""

    factors: Numbers | None = None
    """How many elements of the full size one spans."""


def place_of(path: str, axes: int, nodes: Mapping[str, Attributes]) -> Place:
    """Return the place of a dataset; `nodes` are the attributes of all folders by their paths."""
    parts = path.split("/") if path else []
    lineage = [nodes.get("/".join(parts[:depth]), {}) for depth in range(len(parts), -1, -1)]
    parent, _, name = path.rpartition("/")
    listed = {level.get("path"): level.get("transform") for level in cosem_levels(nodes.get(parent, {}))}
    for transform in (lineage[0].get("transform"), listed.get(name)):
        place = _cosem_place(transform, axes, path) if isinstance(transform, Mapping) else None
        if place is not None:
            return place

    def inherited[T](read: Callable[[Attributes, int], T | None], default: T) -> T:
        return next(filter(None, (read(node, axes) for node in lineage)), default)

    names = inherited(lambda node, axes: _names(node.get("axes"), axes), _default_names(axes))
    units: tuple[str | None, ...] = inherited(_units, ()) or (None,) * axes
    factors = _factors(name, axes, lineage)
    resolution: Numbers = inherited(_resolution, ())
    if not resolution:
        return Place(names, units, None, (), factors)
    offset = inherited(lambda node, axes: _numbers(node.get("offset"), axes), (0.0,) * axes)
    known = factors or (1.0,) * axes
    scale = tuple(step * factor for step, factor in zip(resolution, known, strict=True))
    centre = tuple(at + (f - 1) / 2 * step for at, f, step in zip(offset, known, resolution, strict=True))
    return Place(names, units, scale, centre, factors)


def is_overview(path: str) -> bool:
    """Whether a dataset is called like a coarser level, `s1` or further."""
    level = LEVEL.fullmatch(path.rpartition("/")[2])
    return level is not None and int(level[1]) > 0


def _default_names(axes: int) -> tuple[str, ...]:
    return (*NAMES[:axes], *(f"dim_{axis}" for axis in range(len(NAMES), axes)))


def _names(value: Any, axes: int) -> tuple[str, ...] | None:
    """Return names of axes that can be names of dimensions."""
    if not isinstance(value, list) or len(value) != axes or len({str(name).lower() for name in value}) != axes:
        return None
    names = [str(name).rstrip("'^") for name in value]
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    return tuple(name.lower() if len(name) == 1 else name for name in names)


def _numbers(value: Any, axes: int) -> Numbers | None:
    """Return a vector of finite numbers, one for each axis."""
    if not isinstance(value, list) or len(value) != axes:
        return None
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < math.inf for n in value):
        return None
    return tuple(float(number) for number in value)


def _positive(value: Any, axes: int) -> Numbers | None:
    numbers = _numbers(value, axes)
    return numbers if numbers is not None and all(number > 0 for number in numbers) else None


def _resolution(node: Attributes, axes: int) -> Numbers | None:
    """Return the step of the full size, as n5-viewer, Paintera, BigDataViewer or neuroglancer have it."""
    viewer = node.get("pixelResolution")
    dimensions = viewer.get("dimensions") if isinstance(viewer, Mapping) else viewer
    return _positive(dimensions, axes) or _positive(node.get("resolution"), axes)


def _units(node: Attributes, axes: int) -> tuple[str | None, ...] | None:
    viewer = node.get("pixelResolution")
    unit = viewer.get("unit") if isinstance(viewer, Mapping) else None
    if isinstance(unit, str):
        return (unit,) * axes
    units = node.get("units")
    if isinstance(units, list) and len(units) == axes and all(isinstance(unit, str) for unit in units):
        return tuple(unit or None for unit in units)
    return None


def _factors(name: str, axes: int, lineage: Sequence[Attributes]) -> Numbers | None:
    """Return a level's factors: its own, or those that a folder above lists for all levels."""
    own = _positive(lineage[0].get("downsamplingFactors"), axes)
    level = LEVEL.fullmatch(name)
    if own is not None or level is None:
        return own
    for node in lineage[1:]:
        for listed in map(node.get, LEVEL_LISTS):
            if isinstance(listed, list) and int(level[1]) < len(listed):
                factors = _positive(listed[int(level[1])], axes)
                if factors is not None:
                    return factors
    return None


def cosem_levels(node: Attributes) -> Sequence[Attributes]:
    """Return the entries of `multiscales[0].datasets`."""
    multiscales = node.get("multiscales")
    first = multiscales[0] if isinstance(multiscales, list) and multiscales else None
    datasets = first.get("datasets") if isinstance(first, Mapping) else None
    return [entry for entry in datasets if isinstance(entry, Mapping)] if isinstance(datasets, list) else []


def _cosem_place(transform: Attributes, axes: int, path: str) -> Place | None:
    """Return what a transform says; without `order` it is taken for C, as COSEM's own files have it."""
    scale = _positive(transform.get("scale"), axes)
    if scale is None:
        return None
    order = transform.get("order")
    if order not in {"C", "F"}:
        warnings.warn(f"{path or '/'}: a transform without order; taken for C, last axis fastest", stacklevel=2)
    turn = slice(None) if order == "F" else slice(None, None, -1)
    names = _names(transform.get("axes"), axes)
    units = _units(transform, axes) or (None,) * axes
    shift = _numbers(transform.get("translate"), axes) or (0.0,) * axes
    return Place(names[turn] if names else _default_names(axes), units[turn], scale[turn], shift[turn])
