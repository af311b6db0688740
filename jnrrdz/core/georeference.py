"""Where an image lies, as one record, and as the variable and attributes that readers of Zarr know.

Follows CF's grid mapping as rioxarray and GDAL read it, and https://github.com/zarr-conventions: `proj:`, `spatial:`
and multiscales, version 1.  All functions return new dicts of plain numbers, strings and lists.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.crs import Crs, cf_attributes, crs_from_epsg, ground, height_unit, metres
from jnrrdz.core.crs_geokeys import Affine, GroundControlPoint
from jnrrdz.core.json_schema import as_object, as_text, shown, without_empty
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError
from jnrrdz.records import record

type Attributes = dict[str, Any]

type Rpc = dict[str, float | list[float]]
"""Rational polynomial coefficients: GDAL's item names to numbers."""

RPC_CRS = 4326
"""The CRS of the ground coordinates of every sensor model of this kind: WGS 84."""

type Shape = tuple[int, int]
"""Rows and columns."""

AFFINE_NUMBERS = 6
"""How many numbers an affine has."""

GEO_TRANSFORM = "GeoTransform"
"""The attribute of a grid mapping that holds the affine."""

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

WKT2 = "proj:wkt2"
"""The attribute that says a CRS without a code."""


@record
class Georeference:
    """Where an image lies: what the file gives of a CRS, an affine or control points, and a sensor's model."""

    crs: Crs | None = None
    affine: Affine | None = None
    gcps: tuple[GroundControlPoint, ...] = ()
    rpc: Rpc | None = None
    registration: Literal["Area", "Point"] | None = None
    """What the file says a pixel is; the affine refers to pixel corners all the same."""

    refused: str | None = None
    """Why something of it could not be understood."""

    remark: str | None = None
    """What was done to understand it."""

    @property
    def known(self) -> bool:
        """Whether there is anything to write."""
        return self.crs is not None or self.affine is not None or bool(self.gcps) or self.rpc is not None

    @property
    def height_unit(self) -> str | None:
        """The unit of heights, where the CRS has them."""
        return None if self.crs is None else height_unit(self.crs)

    def at_level(self, full: Shape, level: Shape) -> "Georeference":
        """Return the same place at another level's pixel size."""
        if full == level:
            return self
        rows, columns = level[0] / full[0], level[1] / full[1]
        affine = None if self.affine is None else level_affine(self.affine, full, level)
        gcps = tuple(point._replace(column=point.column * columns, row=point.row * rows) for point in self.gcps)
        rpc = None if self.rpc is None else rpc_at(self.rpc, (rows, columns))
        return replace(self, affine=affine, gcps=gcps, rpc=rpc)

    def array_attributes(self) -> Attributes:
        """Return what the pixels' variable says; xarray makes a coordinate of what `coordinates` names."""
        return {"grid_mapping": GRID_MAPPING, "coordinates": GRID_MAPPING} if self.known else {}

    def variables(self) -> dict[str, VirtualArray]:
        """Return the grid mapping variable: a scalar without bytes, all is in its attributes."""
        if not self.known:
            return {}
        is_modelled = self.rpc is not None and self.affine is None and not self.gcps
        crs = crs_from_epsg(RPC_CRS, "RPC") if is_modelled and self.crs is None else self.crs
        attributes = grid_mapping(crs, self.affine, self.gcps)
        if self.rpc is not None:
            # rioxarray writes and reads them as JSON text
            attributes["rpcs"] = json.dumps({name.lower(): value for name, value in self.rpc.items()})
        return {GRID_MAPPING: replace(_SCALAR, attributes=attributes)}

    def group_attributes(self, shape: Shape) -> Attributes:
        """Return the conventions' attributes of a group that holds one level."""
        notes = {"georeference_refused": self.refused, "georeference_remark": self.remark, "rpc": self.rpc}
        attributes = {name: note for name, note in notes.items() if note is not None}
        attributes |= spatial(shape, self.affine, self.crs)
        attributes.pop("AREA_OR_POINT", None)
        if self.known and self.registration is not None:
            attributes["AREA_OR_POINT"] = self.registration
        return attributes


_SCALAR = VirtualArray((), np.dtype("i8"), (), (bytes_("little"),), ChunkRefs.empty(1), (), np.int64(0))
"""A grid mapping variable without its attributes."""


def rpc_at(rpc: Rpc, scale: tuple[float, float], start: tuple[float, float] = (0.0, 0.0)) -> Rpc:
    """Return the coefficients for other pixels: line and sample become `(value - start) * scale`.

    Values count from pixel corners here; the coefficients' own count from centres.
    """
    scaled = dict(rpc)
    for axis, factor, first in (("LINE", scale[0], start[0]), ("SAMP", scale[1], start[1])):
        offset, size = scaled[f"{axis}_OFF"], scaled[f"{axis}_SCALE"]
        if isinstance(offset, float) and isinstance(size, float):
            scaled[f"{axis}_OFF"] = (offset + 0.5 - first) * factor - 0.5
            scaled[f"{axis}_SCALE"] = size * factor
    return scaled


@record
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
    rows, columns = full_shape[0] / level_shape[0], full_shape[1] / level_shape[1]
    return coarser(affine, rows, columns)


def coarser(affine: Affine, rows: float, columns: float) -> Affine:
    """Return the affine of pixels that span several rows and columns, with the same origin."""
    a, b, c, d, e, f = affine
    return (a * columns, b * rows, c, d * columns, e * rows, f)


def grid_mapping(crs: Crs | None, affine: Affine | None, gcps: Iterable[Sequence[float]] = ()) -> Attributes:
    """Return the attributes of the scalar variable that CF calls a grid mapping.

    `gcps` are columns, rows, x, y, z of the ground control points of an image without an affine.
    """
    attributes: Attributes = {}
    if crs is not None:
        attributes = cf_attributes(crs)
    if affine is not None:
        attributes[GEO_TRANSFORM] = GeoTransform.of_affine(affine).text
    points = [
        {
            "type": "Feature",
            "properties": {"id": str(number), "info": "", "row": row, "col": column},
            "geometry": {"type": "Point", "coordinates": [x, y, z]},
        }
        for number, (column, row, x, y, z) in enumerate((map(float, point) for point in gcps), start=1)
    ]
    if points:
        # rioxarray writes and reads GeoJSON as text
        attributes["gcps"] = json.dumps({"type": "FeatureCollection", "features": points})
    return attributes


class GeoTransform(NamedTuple):
    """A grid mapping's `GeoTransform`: six finite numbers in GDAL's order, of pixel corners."""

    x: float
    column_x: float
    """Step of x from one column to the next."""
    row_x: float
    y: float
    column_y: float
    row_y: float
    """Step of y from one row to the next."""

    @classmethod
    def of_affine(cls, affine: Affine) -> "GeoTransform":
        """Return the numbers of an affine, which rasterio orders otherwise."""
        a, b, c, d, e, f = affine
        return cls(c, a, b, f, d, e)

    @property
    def is_rotated(self) -> bool:
        """Whether x changes along a column, or y along a row."""
        return bool(self.row_x or self.column_y)

    @property
    def affine(self) -> Affine:
        """The same numbers as rasterio orders them."""
        return (
            self.column_x,
            self.row_x,
            self.x,
            self.column_y,
            self.row_y,
            self.y,
        )

    @property
    def text(self) -> str:
        """The same numbers as the attribute has them."""
        return " ".join(repr(float(number)) for number in self)


def geo_transform(mapping: Mapping[str, Any]) -> GeoTransform | None:
    """Return the `GeoTransform` of a grid mapping, None where it has no such attribute.

    The attribute is text as GDAL and rioxarray write it, or a list of numbers.
    """
    if GEO_TRANSFORM not in mapping:
        return None
    value = mapping[GEO_TRANSFORM]
    parts = value if isinstance(value, list | tuple) else str(value).split()
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != AFFINE_NUMBERS or not all(map(math.isfinite, numbers)):
        raise MalformedError(f"found {shown(value)}; six finite numbers are needed", field=GEO_TRANSFORM)
    return GeoTransform(*numbers)


# The same, read again


CRS_WKT = "crs_wkt"
WKT = "spatial_ref"
"""GDAL's name for `crs_wkt`."""

CRS_CODE = "proj:code"

MAPPING_ATTRIBUTES = frozenset({"grid_mapping_name", CRS_WKT, WKT, GEO_TRANSFORM})
"""Attributes by which a variable is a grid mapping."""

_WKT_NAME = re.compile(r'\s*\w+\s*\[\s*"((?:[^"]|"")*)"')
_WKT_CODE = re.compile(r'(?:ID|AUTHORITY)\["(\w+)",\s*"?(\w+)"?\]\]\s*\Z')


@record
class StatedCrs:
    """A CRS as metadata state it; at least one of code and name is there."""

    code: str | None = None
    """For example `EPSG:32633`."""
    name: str | None = None
    wkt: str = ""

    @property
    def text(self) -> str:
        """What PROJ reads: the WKT, else the code."""
        return self.wkt or self.code or ""


def wkt_of(mapping: Mapping[str, Any]) -> str:
    """Return the CRS of a grid mapping as WKT; empty text where it has none."""
    texts = (mapping.get(CRS_WKT), mapping.get(WKT))
    return next((text for text in texts if isinstance(text, str)), "")


def crs_name(wkt: str) -> str | None:
    """Return the name of a CRS, None of a text that is no WKT."""
    match = _WKT_NAME.match(wkt)
    return None if match is None else match[1].replace('""', '"')


def stated_crs(
    mapping: Mapping[str, Any],
    array: Mapping[str, Any],
    group: Mapping[str, Any],
) -> StatedCrs | None:
    """Return the CRS by the attributes of a grid mapping, of an array and of its group."""
    texts = (wkt_of(mapping) or None, array.get(WKT2), group.get(WKT2))
    wkt = next((text for text in texts if isinstance(text, str)), "")
    code = array.get(CRS_CODE, group.get(CRS_CODE))
    if not isinstance(code, str):
        match = _WKT_CODE.search(wkt)
        code = None if match is None else f"{match[1]}:{match[2]}"
    name = crs_name(wkt)
    if code is None and name is None:
        return None
    return StatedCrs(code, name, wkt)


@record(eq=False)
class Place:
    """Where the pixels of an image lie, by the attributes of its dataset."""

    shape: Shape
    crs: StatedCrs | None = None
    affine: Affine | None = None
    """From columns and rows to x and y, pixel corners: rasterio's order."""

    control_points: Sequence[Mapping[str, Any]] = ()
    """`{"row": 0.5, "column": 0.5, "x": 13.1, "y": 52.5, "z": 40.0}`, from the corner."""

    rpc: Mapping[str, Any] = field(default_factory=dict)
    """Coefficients of the sensor's model by GDAL's names."""

    sampling: str | None = None
    """What a pixel is: `Area` or `Point`."""

    refused: str | None = None
    """Why something of it could not be understood."""

    remark: str | None = None
    """What was done to understand it."""

    @classmethod
    def of_attributes(
        cls,
        shape: Shape,
        mapping: Mapping[str, Any],
        array: Mapping[str, Any],
        group: Mapping[str, Any],
        inherited: Mapping[str, Any],
    ) -> "Place":
        """Return the place that attributes state.

        Parameters
        ----------
        shape
            Rows and columns of the image.
        mapping
            Attributes of its grid mapping.
        array
            Attributes of its array.
        group
            Attributes of the group that holds the array.
        inherited
            Attributes of the array and of all groups above it: the nearest one counts.
        """
        affine, refused = None, None
        try:
            affine = _stated_affine(mapping, group)
        except MalformedError as error:
            refused = str(error)
        return cls(
            shape,
            crs=stated_crs(mapping, array, group),
            affine=affine,
            control_points=_stated_points(mapping),
            rpc=as_object(inherited.get("rpc")),
            sampling=as_text(inherited.get("AREA_OR_POINT")),
            refused=as_text(inherited.get("georeference_refused")) or refused,
            remark=as_text(inherited.get("georeference_remark")),
        )

    @property
    def corners(self) -> list[list[float]]:
        """The corners of an image with an affine, from the upper left by the lower left one."""
        if self.affine is None:
            return []
        a, b, c, d, e, f = self.affine
        rows, columns = self.shape
        pixels = ((0, 0), (0, rows), (columns, rows), (columns, 0))
        return [[a * x + b * y + c, d * x + e * y + f] for x, y in pixels]

    @property
    def bounds(self) -> list[float]:
        """The least x and y, and the greatest ones."""
        xs, ys = zip(*self.corners, strict=True)
        return [min(xs), min(ys), max(xs), max(ys)]

    @property
    def resolution(self) -> list[float]:
        """Width and height of a pixel, in the CRS's units; nothing without an affine."""
        if self.affine is None:
            return []
        a, b, _, d, e, _ = self.affine
        return [math.hypot(a, d), math.hypot(b, e)]

    @cached_property
    def degrees(self) -> dict[str, list[Any]] | None:
        """Corners, bounds and centre in degrees; None without an affine in a CRS of the earth."""
        if self.affine is None or self.crs is None:
            return None
        return ground(self.crs.text, self.affine, self.shape)

    @property
    def pixel_metres(self) -> float | None:
        """The size of a pixel in metres, where the CRS counts lengths."""
        if self.crs is None or self.affine is None:
            return None
        unit = metres(self.crs.text)
        return None if unit is None else float(f"{sum(self.resolution) / 2 * unit:.9g}")

    def to_json(self) -> Attributes:
        """Return what is known of the place, as `jnrrdz info` has it."""
        crs = self.crs
        members: Attributes = {}
        if crs is not None:
            members["crs"] = {"code": crs.code, "name": crs.name, "wkt": crs.wkt or None}
        if self.affine is not None:
            members["affine"] = list(self.affine)
            members["resolution"] = self.resolution
            members["bounds"] = self.bounds
            members["corners"] = self.corners
            members["degrees"] = self.degrees
        members["control_points"] = list(self.control_points)
        members["rpc"] = self.rpc
        members["area_or_point"] = self.sampling
        members["georeference_refused"] = self.refused
        members["georeference_remark"] = self.remark
        return without_empty(members)


def _stated_affine(mapping: Mapping[str, Any], group: Mapping[str, Any]) -> Affine | None:
    transform = geo_transform(mapping)
    if transform is not None:
        return transform.affine
    numbers = group.get("spatial:transform")
    if not isinstance(numbers, list) or len(numbers) != AFFINE_NUMBERS:
        return None
    if not all(isinstance(number, int | float) for number in numbers):
        return None
    a, b, c, d, e, f = numbers
    return (a, b, c, d, e, f)


def _stated_points(mapping: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ground control points of a grid mapping, nothing where they have another form."""
    try:
        collection = json.loads(str(mapping.get("gcps", "{}")))
        return [
            {"row": point["properties"]["row"], "column": point["properties"]["col"]}
            | dict(zip("xyz", point["geometry"]["coordinates"], strict=False))
            for point in collection.get("features", [])
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


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
        **spatial_extent(shape_yx, affine),
        "spatial:registration": "pixel",
        "AREA_OR_POINT": "Point" if is_point else "Area",
    }


def spatial_extent(shape_yx: Shape, affine: Affine) -> Attributes:
    """Return what the `spatial:` attributes say of an image's extent."""
    return {
        "spatial:shape": [int(size) for size in shape_yx],
        "spatial:transform": [float(number) for number in affine],
        "spatial:bbox": _bbox(affine, shape_yx),
    }


def _declared(*conventions: dict[str, str]) -> list[dict[str, str]]:
    """Return the conventions' entries as copies, safe to change."""
    return [dict(convention) for convention in conventions]


def _proj(crs: Crs | None) -> Attributes:
    if crs is None:
        return {}
    return {WKT2: crs.wkt} if crs.code is None else {"proj:code": crs.code}


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
    layout = [
        {
            "asset": level.name,
            **({} if level.derived_from is None else {"derived_from": level.derived_from}),
            "transform": {"scale": [float(factor) for factor in level.scale_yx], "translation": [0.0, 0.0]},
            "spatial:shape": [int(size) for size in level.shape_yx],
            **({} if level.affine is None else {"spatial:transform": [float(number) for number in level.affine]}),
        }
        for level in levels
    ]
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
