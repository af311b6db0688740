"""Where a dataset lies: names of its axes, steps, positions and units, from five conventions of N5.

May touch the model's records only.  Axes are x first here, as in N5; every vector of the file is too, but for
COSEM's, which say their order.  Conventions, by what they write:

- neuroglancer: `axes`, `units`, `resolution`, inherited from any folder above.
- n5-viewer: `pixelResolution` (a list, or `{unit, dimensions}`), `downsamplingFactors` of a level, or
  `downsamplingFactors`/`scales` of all levels on the folder above.
- BigDataViewer: `downsamplingFactors` on `setupN`, `resolution` on `timepointN`.
- Paintera: `resolution` and `offset` on `data`, `downsamplingFactors` on each `sN`.
- COSEM: `transform` on a dataset, or `multiscales[].datasets[].transform` above it.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

type Attributes = Mapping[str, Any]
type Numbers = tuple[float, ...]

NAMES = ("x", "y", "z")
LEVEL = re.compile(r"s(\d+)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FACTORS = ("downsamplingFactors", "scales")


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
    lineage = _lineage(path, nodes)
    cosem = _cosem(path, axes, nodes)
    if cosem is not None:
        return cosem
    names = next(filter(None, (_names(node.get("axes"), axes) for node in lineage)), _default_names(axes))
    factors = _factors(path, axes, nodes)
    base = next(filter(None, (_resolution(node, axes) for node in lineage)), None)
    units = next(filter(None, (_units(node, axes) for node in lineage)), (None,) * axes)
    offset = next(filter(None, (_numbers(node.get("offset"), axes) for node in lineage)), (0.0,) * axes)
    if base is None:
        return Place(names, units, None, (), factors)
    known = factors or (1.0,) * axes
    scale = tuple(step * factor for step, factor in zip(base, known, strict=True))
    centre = tuple(at + (f - 1) / 2 * step for at, f, step in zip(offset, known, base, strict=True))
    return Place(names, units, scale, centre, factors)


def _lineage(path: str, nodes: Mapping[str, Attributes]) -> list[Attributes]:
    """Return the attributes of a dataset and of each folder above it."""
    found = [nodes.get(path, {})]
    while path:
        path = path.rpartition("/")[0]
        found.append(nodes.get(path, {}))
    return found


def is_overview(path: str) -> bool:
    """Whether a dataset is called like a coarser level, `s1` or further."""
    level = LEVEL.fullmatch(path.rpartition("/")[2])
    return level is not None and int(level[1]) > 0


def _default_names(axes: int) -> tuple[str, ...]:
    return (*NAMES[:axes], *(f"dim_{axis}" for axis in range(len(NAMES), axes)))


def _names(found: Any, axes: int) -> tuple[str, ...] | None:
    """Return names of axes that can be names of dimensions."""
    if not isinstance(found, list) or len(found) != axes or len({str(name).lower() for name in found}) != axes:
        return None
    names = [str(name).rstrip("'^") for name in found]
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    return tuple(name.lower() if len(name) == 1 else name for name in names)


def _numbers(found: Any, axes: int) -> Numbers | None:
    """Return a vector of finite numbers, one for each axis."""
    if not isinstance(found, list) or len(found) != axes:
        return None
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < float("inf") for n in found):
        return None
    return tuple(float(number) for number in found)


def _positive(found: Any, axes: int) -> Numbers | None:
    numbers = _numbers(found, axes)
    return numbers if numbers is not None and all(number > 0 for number in numbers) else None


def _resolution(node: Attributes, axes: int) -> Numbers | None:
    """Return the step of the full size, as n5-viewer, Paintera, BigDataViewer or neuroglancer have it."""
    viewer = node.get("pixelResolution")
    dimensions = viewer.get("dimensions") if isinstance(viewer, Mapping) else viewer
    return _positive(dimensions, axes) or _positive(node.get("resolution"), axes)


def _units(node: Attributes, axes: int) -> tuple[str | None, ...] | None:
    viewer = node.get("pixelResolution")
    one = viewer.get("unit") if isinstance(viewer, Mapping) else None
    if isinstance(one, str):
        return (one,) * axes
    found = node.get("units")
    if isinstance(found, list) and len(found) == axes and all(isinstance(unit, str) for unit in found):
        return tuple(unit or None for unit in found)
    return None


def _factors(path: str, axes: int, nodes: Mapping[str, Attributes]) -> Numbers | None:
    """Return a level's factors: its own, or those that a folder above lists for all levels."""
    own = _positive(nodes.get(path, {}).get("downsamplingFactors"), axes)
    level = LEVEL.fullmatch(path.rpartition("/")[2])
    if own is not None or level is None:
        return own
    for node in _lineage(path.rpartition("/")[0], nodes):
        for name in _FACTORS:
            listed = node.get(name)
            if isinstance(listed, list) and int(level[1]) < len(listed):
                found = _positive(listed[int(level[1])], axes)
                if found is not None:
                    return found
    return None


def _cosem(path: str, axes: int, nodes: Mapping[str, Attributes]) -> Place | None:
    own = nodes.get(path, {}).get("transform")
    parent, _, name = path.rpartition("/")
    listed = {level.get("path"): level.get("transform") for level in cosem_levels(nodes.get(parent, {}))}
    for transform in (own, listed.get(name)):
        found = _transform(transform, axes, path) if isinstance(transform, Mapping) else None
        if found is not None:
            return found
    return None


def cosem_levels(node: Attributes) -> Sequence[Attributes]:
    """Return the entries of `multiscales[0].datasets`."""
    multiscales = node.get("multiscales")
    first = multiscales[0] if isinstance(multiscales, list) and multiscales else None
    datasets = first.get("datasets") if isinstance(first, Mapping) else None
    return [entry for entry in datasets if isinstance(entry, Mapping)] if isinstance(datasets, list) else []


def _transform(transform: Attributes, axes: int, path: str) -> Place | None:
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
