"""Georeferencing and pyramids as attributes, in the conventions that readers of Zarr know.

May touch errors and `crs` (for the CF attributes).  Follows CF's grid mapping as rioxarray and GDAL
read it, and https://github.com/zarr-conventions: `proj:`, `spatial:` and multiscales, version 1.
All functions return new dicts of plain numbers, strings and lists.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.crs import Crs, cf_attributes

type Affine = tuple[float, float, float, float, float, float]
"""a, b, c, d, e, f with x = a*column + b*row + c and y = d*column + e*row + f, pixel corners."""

type Attributes = dict[str, Any]

GRID_MAPPING = "spatial_ref"
"""The scalar variable that holds `grid_mapping`'s attributes, and what `grid_mapping` of an array names."""

MULTISCALES = {
    "uuid": "d35379db-88df-4056-af3a-620245f8e347",
    "name": "multiscales",
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/multiscales/blob/v1/README.md",
}
PROJ = {"uuid": "f17cb550-5864-4468-aeb7-f3180cfb622f", "name": "proj:"}
SPATIAL = {"uuid": "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4", "name": "spatial:"}
"""rioxarray finds `proj:` and `spatial:` by these names, colon included; GDAL and rio-tiler by the UUIDs."""


@dataclass(frozen=True)
class Level:
    """One resolution of an image."""

    name: str
    """The path of its group or array below the pyramid's group."""

    shape_yx: tuple[int, int]
    affine: Affine | None = None
    scale_yx: tuple[float, float] = (1.0, 1.0)
    """How many pixels of the level that it derives from one of its own spans."""

    derived_from: str | None = None


def level_affine(affine: Affine, full_shape: tuple[int, int], level_shape: tuple[int, int]) -> Affine:
    """Return the affine of an overview: the same extent in fewer pixels."""
    a, b, c, d, e, f = affine
    rows, columns = full_shape[0] / level_shape[0], full_shape[1] / level_shape[1]
    return (a * columns, b * rows, c, d * columns, e * rows, f)


def grid_mapping(crs: Crs | None, affine: Affine | None, gcps: Iterable[Sequence[float]] = ()) -> Attributes:
    """Return the attributes of the scalar variable that CF calls a grid mapping.

    `gcps` are columns, rows, x, y, z of the ground control points of an image without an affine.
    """
    attributes: Attributes = {}
    if crs is not None:
        attributes = cf_attributes(crs) | {"spatial_ref": crs.wkt}
    if affine is not None:
        a, b, c, d, e, f = (float(number) for number in affine)
        attributes["GeoTransform"] = " ".join(repr(number) for number in (c, a, b, f, d, e))
    points = [_feature(index, point) for index, point in enumerate(gcps)]
    if points:
        # rioxarray writes and reads GeoJSON as text
        attributes["gcps"] = json.dumps({"type": "FeatureCollection", "features": points})
    return attributes


def _feature(index: int, point: Sequence[float]) -> Attributes:
    column, row, x, y, z = (float(number) for number in point)
    return {
        "type": "Feature",
        "properties": {"id": str(index + 1), "info": "", "row": row, "col": column},
        "geometry": {"type": "Point", "coordinates": [x, y, z]},
    }


def spatial(shape_yx: tuple[int, int], affine: Affine | None, crs: Crs | None, *, is_point: bool = False) -> Attributes:
    """Return the `proj:` and `spatial:` attributes of an array, or of the group that holds it.

    Nothing of an image without an affine: `spatial:` asks for one, and the CRS is then that of its
    control points.  A grid of points is described by the cells around them, `"pixel"`, and not as
    `"node"`: a node's transform is that of the points, which readers that do not look at the
    registration (rioxarray) would place half a pixel off.  `AREA_OR_POINT` keeps the fact.
    """
    if affine is None:
        return {}
    return {
        "zarr_conventions": _declared(*([PROJ] if crs else []), SPATIAL),
        **_proj(crs),
        "spatial:dimensions": ["y", "x"],
        "spatial:shape": [int(size) for size in shape_yx],
        "spatial:transform": [float(number) for number in affine],
        "spatial:bbox": _bbox(affine, shape_yx),
        "spatial:registration": "pixel",
        "AREA_OR_POINT": "Point" if is_point else "Area",
    }


def _declared(*conventions: dict[str, str]) -> list[dict[str, str]]:
    """Return the conventions' entries as copies, safe to change."""
    return [dict(convention) for convention in conventions]


def _proj(crs: Crs | None) -> Attributes:
    if crs is None:
        return {}
    return {"proj:wkt2": crs.wkt} if crs.code is None else {"proj:code": crs.code}


def _bbox(affine: Affine, shape_yx: tuple[int, int]) -> list[float]:
    a, b, c, d, e, f = affine
    rows, columns = shape_yx
    corners = [(column, row) for column in (0, columns) for row in (0, rows)]
    xs = [float(a * column + b * row + c) for column, row in corners]
    ys = [float(d * column + e * row + f) for column, row in corners]
    return [min(xs), min(ys), max(xs), max(ys)]


def multiscales(levels: Sequence[Level], crs: Crs | None = None) -> Attributes:
    """Return the attributes of the group that holds the levels, finest first.

    `spatial:` wants a transform for every level or none, and none for the group itself.  The group
    has no `spatial:registration`: GDAL then checks `scale` against all axes of an array, bands
    included, and drops the level.
    """
    finest = levels[0]
    layout = [_layout(level) for level in levels]
    if finest.affine is None or any(level.affine is None for level in levels):
        plain = [{key: entry[key] for key in entry if not key.startswith("spatial:")} for entry in layout]
        return {"zarr_conventions": _declared(MULTISCALES), "multiscales": {"layout": plain}}
    return {
        "zarr_conventions": _declared(MULTISCALES, *([PROJ] if crs else []), SPATIAL),
        "multiscales": {"layout": layout},
        **_proj(crs),
        "spatial:dimensions": ["y", "x"],
        "spatial:bbox": _bbox(finest.affine, finest.shape_yx),
    }


def _layout(level: Level) -> Attributes:
    entry: Attributes = {"asset": level.name}
    if level.derived_from is not None:
        entry["derived_from"] = level.derived_from
    entry["transform"] = {"scale": [float(factor) for factor in level.scale_yx], "translation": [0.0, 0.0]}
    entry["spatial:shape"] = [int(size) for size in level.shape_yx]
    if level.affine is not None:
        entry["spatial:transform"] = [float(number) for number in level.affine]
    return entry
