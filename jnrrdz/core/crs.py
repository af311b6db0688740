"""Coordinate reference systems as the WKT that readers of Zarr expect: from GeoTIFF keys, codes, WKT of any dialect.

GeoTIFF keys follow OGC GeoTIFF 1.1 (https://docs.ogc.org/is/19-008r4/19-008r4.html), and GDAL where files do not;
docs/georeferencing.md says which of the two where.  Heights (section 7.5.7) of GeoTIFF 1.0 files are left out, as GDAL
does: their codes are often those of datums or of ellipsoids.  WKT follows
https://docs.ogc.org/is/18-010r7/18-010r7.html.  pyproj is imported only when a function needs it.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import crs_table
from jnrrdz.core.crs_geokeys import (
    USER_DEFINED,
    Affine,
    Json,
    Keys,
    citation,
    code,
    json_of,
    made,
    named_unit,
    number,
    registered,
    text,
    unit,
    with_unit,
)
from jnrrdz.errors import UnsupportedError
from jnrrdz.lazy import library
from jnrrdz.records import record

_MODEL = "GTModelTypeGeoKey"
_PROJECTED = "ProjectedCRSGeoKey"
_GEODETIC = "GeodeticCRSGeoKey"
_CITATIONS = ("ProjectedCitationGeoKey", "GTCitationGeoKey")
_ESRI = "ESRI PE String = "
_HEIGHT, _HEIGHT_DATUM, _HEIGHT_UNITS = "VerticalGeoKey", "VerticalDatumGeoKey", "VerticalUnitsGeoKey"
_HEIGHT_CITATION = "VerticalCitationGeoKey"
_ELLIPSOIDAL_HEIGHTS = range(5001, 5034)
"""GeoTIFF 1.0's codes for heights above an ellipsoid, which 1.1 files still have."""

if TYPE_CHECKING:
    import pyproj

    from jnrrdz.core import crs_geographic
else:
    # 0.1 s, of no use to images without a CRS, or with one of the table
    pyproj, crs_geographic = library("pyproj"), library("jnrrdz.core.crs_geographic")

KEPT = 256
"""CRS that are remembered: a batch has thousands of files and few CRS, each of which takes PROJ half a millisecond."""


@record
class Crs:
    """A coordinate reference system: WKT2:2019, and its code where it is a registered one."""

    wkt: str
    code: str | None = None
    """For example `EPSG:32633`."""


def with_height(horizontal: Json, keys: Keys) -> Json:
    """Return the CRS with its third dimension: compound, or three-dimensional for ellipsoidal heights.

    A code that is not that of a height changes nothing; the horizontal CRS is no less true for it.
    """
    names = () if keys.revision == (1, 0) else (_HEIGHT, _HEIGHT_DATUM, _HEIGHT_UNITS)
    values = [number(keys, name) or 0 for name in names]
    # codes above that of user-defined are private: nobody else knows what they are
    if not any(values) or max(values) > USER_DEFINED or horizontal["type"] == "CompoundCRS":
        return horizontal
    epsg = code(keys, _HEIGHT)
    if epsg is None:
        return _compound(horizontal, _height_user_defined(keys), keys)
    if epsg in _ELLIPSOIDAL_HEIGHTS:
        return json_of(made(horizontal, _HEIGHT).to_3d())
    try:
        vertical = registered("crs", epsg, _HEIGHT)
    except UnsupportedError:
        return horizontal
    if vertical["type"] == "VerticalCRS":
        return _compound(horizontal, vertical, keys)
    base = horizontal.get("base_crs", horizontal)
    datums = [node.get("datum", node.get("datum_ensemble", {})).get("name") for node in (base, vertical)]
    axes = vertical.get("coordinate_system", {}).get("axis", [])
    is_3d = vertical["type"] == "GeographicCRS" and len(axes) == 3  # noqa: PLR2004  # 3D
    return json_of(made(horizontal, _HEIGHT).to_3d()) if is_3d and datums[0] == datums[1] else horizontal


def _height_user_defined(keys: Keys) -> Json:
    """Return the vertical CRS that the keys describe, on the datum of the registered one of exactly its name."""
    said = citation(text(keys, _HEIGHT_CITATION))
    name = said.get("VCS Name") or said.get("Name") or "unknown"
    datum: Json | None = None
    if epsg := code(keys, _HEIGHT_DATUM):
        datum = registered("datum", epsg, _HEIGHT_DATUM)
    else:
        heights = pyproj.database.query_crs_info(auth_name="EPSG", pj_types=pyproj.enums.PJType.VERTICAL_CRS)
        epsg = next((int(info.code) for info in heights if info.name == name), None)
        datum = registered("crs", epsg, _HEIGHT_CITATION).get("datum") if epsg else None
    length = unit(keys, "LinearUnit", _HEIGHT_UNITS) or "metre"
    axis = {"name": "Gravity-related height", "abbreviation": "H", "direction": "up", "unit": length}
    return {
        "type": "VerticalCRS",
        "name": name,
        "datum": datum or {"type": "VerticalReferenceFrame", "name": "unknown"},
        "coordinate_system": {"subtype": "vertical", "axis": [axis]},
    }


def _compound(horizontal: Json, vertical: Json, keys: Keys) -> Json:
    said = text(keys, "GTCitationGeoKey")
    name = said if said and " = " not in said else f"{horizontal['name']} + {vertical['name']}"
    return {"type": "CompoundCRS", "name": name, "components": [horizontal, vertical]}


@lru_cache(KEPT)
def crs_from_geokeys(keys: Keys) -> Crs | None:
    """Return the CRS of a GeoTIFF; None where the keys, which can be hashed, name none.

    What the keys say but PROJ cannot express is an `UnsupportedError`, what contradicts itself a
    `MalformedError`; both leave the pixels as readable as they are.
    """
    if (common := _common(keys)) is not None:
        return common
    match code(keys, _MODEL):
        case None:
            # a projected CRS with a code is one whatever the model says, and files rely on it
            horizontal = _projected(keys) if code(keys, _PROJECTED) else _local(keys)
        case 1:
            horizontal = _projected(keys)
        case 2:
            epsg = code(keys, _GEODETIC)
            horizontal = crs_geographic.geographic(keys) if epsg is None else _horizontal_crs(epsg, _GEODETIC)
        case 3:
            horizontal = crs_geographic.geographic(keys)
            axes = horizontal["coordinate_system"]["axis"]
            if horizontal["type"] != "GeodeticCRS" or len(axes) != 3:  # noqa: PLR2004  # X, Y, Z
                # files written before GeoTIFF 1.1 name the geographic CRS on the same datum
                horizontal = crs_geographic.geocentric(horizontal, _linear_unit(keys) or "metre")
        case model:
            known = "1 (projected), 2 (geographic), 3 (geocentric)"
            raise UnsupportedError(f"model {model}, known are {known}", field=_MODEL)
    return None if horizontal is None else _crs(with_height(horizontal, keys), crs_geographic.shift_to_wgs84(keys))


_BESIDE = (_HEIGHT, _HEIGHT_DATUM, _HEIGHT_UNITS, "GeogTOWGS84GeoKey")


def _common(keys: Keys) -> Crs | None:
    """Return the CRS of the table that keys name by its code, None where they say anything else beside it.

    All of a CRS is the table's or all of it is PROJ's, which may have another edition of the register.
    """
    model = code(keys, _MODEL)
    name = _GEODETIC if model == 2 else _PROJECTED if model in {None, 1} else None  # noqa: PLR2004  geographic
    epsg = None if name is None else code(keys, name)
    known = None if epsg is None else crs_table.entry(epsg)
    if known is None or any(keys.get(beside) is not None for beside in _BESIDE):
        return None
    if name == _PROJECTED and known.node["type"] == "ProjectedCRS":
        length = _linear_unit(keys, _CITATIONS[1:])
        if with_unit(known.node, length) is not known.node:
            return None
    return Crs(known.wkt, f"EPSG:{epsg}")


def _projected(keys: Keys) -> Json:
    epsg = code(keys, _PROJECTED)
    if epsg is not None:
        known = _horizontal_crs(epsg, _PROJECTED)
        # files in feet on a CRS in metres are common, and their numbers are in feet
        return with_unit(known, _linear_unit(keys, _CITATIONS[1:])) if known["type"] == "ProjectedCRS" else known
    return _esri(keys) or _projected_user_defined(keys)


def _horizontal_crs(epsg: int, field: str) -> Json:
    """Return the registered CRS, of whichever kind: a code in the wrong key still says what is meant."""
    found = registered("crs", epsg, field)
    if found["type"] not in {"ProjectedCRS", "GeographicCRS", "GeodeticCRS", "CompoundCRS"}:
        raise UnsupportedError(f"EPSG code {epsg}, a {found['type']} where a horizontal one belongs", field=field)
    return found


def _projected_user_defined(keys: Keys) -> Json:
    base = crs_geographic.with_ellipsoid(crs_geographic.geographic(keys), keys)
    length = _linear_unit(keys) or "metre"
    epsg = code(keys, "ProjectionGeoKey")
    if epsg is not None:
        projection, directions = registered("operation", epsg, "ProjectionGeoKey"), ("east", "north")
    elif (method := code(keys, "ProjMethodGeoKey")) is not None:
        angle = crs_geographic.angular_unit(keys) or base["coordinate_system"]["axis"][0]["unit"]
        units = {"angle": angle, "length": length, "scale": "unity"}
        projection, directions = crs_geographic.conversion(method, keys, units)
    else:
        raise UnsupportedError(f"a projected CRS with neither {_PROJECTED}, ProjectionGeoKey nor method", field=_MODEL)
    axes = [
        {"name": name, "abbreviation": name[0], "direction": direction, "unit": length}
        for name, direction in zip(("Easting", "Northing"), directions, strict=True)
    ]
    said = citation(text(keys, *_CITATIONS))
    return {
        "type": "ProjectedCRS",
        "name": said.get("PCS Name") or said.get("Projection Name") or said.get("Name") or "unnamed",
        "base_crs": base,
        "conversion": projection,
        "coordinate_system": {"subtype": "Cartesian", "axis": axes},
    }


def _linear_unit(keys: Keys, citations: tuple[str, ...] = _CITATIONS) -> Json | None:
    own = unit(keys, "LinearUnit", "ProjLinearUnitsGeoKey", "ProjLinearUnitSizeGeoKey")
    if own is not None:
        return own
    said = [citation(text(keys, name)) for name in reversed(citations)]
    return named_unit(next((name for one in said for name in (one.get("LUnits"), one.get("Units")) if name), None))


def _local(keys: Keys) -> Json | None:
    """Return the CRS of keys without a model: that of an ESRI citation, or a plane that one names."""
    esri = _esri(keys)
    said = text(keys, "GTCitationGeoKey", "GeodeticCitationGeoKey")
    if esri is not None or said is None:
        epsg = code(keys, _GEODETIC)
        if esri is None and epsg is not None:
            raise UnsupportedError(f"no {_MODEL} that says what EPSG code {epsg} is for", field=_GEODETIC)
        return esri
    length = _linear_unit(keys) or {"type": "LinearUnit", "name": "unknown", "conversion_factor": 1}
    axes = [
        {"name": name, "abbreviation": "", "direction": direction, "unit": length}
        for name, direction in (("Easting", "east"), ("Northing", "north"))
    ]
    return {
        "type": "EngineeringCRS",
        "name": " ".join(said.rpartition("$")[2].split()),
        "datum": {"name": "Unknown engineering datum"},
        "coordinate_system": {"subtype": "Cartesian", "axis": axes},
    }


def _esri(keys: Keys) -> Json | None:
    """Return the CRS of an ESRI citation, which holds the whole WKT."""
    for name in _CITATIONS:
        _, found, wkt = (text(keys, name) or "").partition(_ESRI)
        if found:
            return json_of(made(wkt.partition("|")[0], name))
    return None


def _crs(node: Json, shift: tuple[float, ...]) -> Crs:
    crs = made(node, _MODEL)
    if shift:
        operation = pyproj.crs.coordinate_operation.ToWGS84Transformation(crs.geodetic_crs, *shift)
        crs = pyproj.crs.BoundCRS(crs, "EPSG:4326", operation)
    name = None
    if "id" in node:
        name = f"{node['id']['authority']}:{node['id']['code']}"
    elif node["type"] == "CompoundCRS" and all("id" in component for component in node["components"]):
        # a pair of registered CRS may be registered too; to search for others costs 0.3 s and finds few
        epsg = crs.to_epsg(min_confidence=90)
        name = None if epsg is None else f"EPSG:{epsg}"
    wkt: str = crs.to_wkt(version="WKT2_2019")
    return Crs(wkt, name)


def cf_attributes(crs: Crs) -> dict[str, Any]:
    """Return the CF grid mapping attributes of a CRS: `crs_wkt`, and the parameters that CF has names for."""
    attributes = _cf_attributes(crs.wkt, crs.code)
    return {name: list(value) if isinstance(value, list) else value for name, value in attributes.items()}


@lru_cache(KEPT)
def _cf_attributes(wkt: str, code: str | None) -> dict[str, Any]:
    if known := crs_table.entry_of(code, wkt):
        return {"crs_wkt": wkt} | known.cf  # in the order of PROJ
    try:
        attributes: dict[str, Any] = made(wkt, "crs_wkt").to_cf()
    except KeyError:  # a projection without a parameter that CF wants: the WKT says all that is known
        attributes = {}
    return attributes | {"crs_wkt": wkt}


def crs_from_epsg(code: int, field: str) -> Crs:
    """Return the CRS of a code."""
    known = crs_table.entry(code)
    if known is not None:
        return Crs(known.wkt, f"EPSG:{code}")
    wkt: str = made(registered("crs", code, field), field).to_wkt(version="WKT2_2019")
    return Crs(wkt, f"EPSG:{code}")


def is_north_first(crs: Crs) -> bool:
    """Whether the register has the northing, or the latitude, before the other."""
    if known := crs_table.entry_of(crs.code, crs.wkt):
        return known.is_north_first
    axes = made(crs.wkt, "crs_wkt").axis_info
    return bool(axes) and axes[0].direction == "north"


REGISTERED = re.compile(r"\s*EPSG:(\d{1,9})\s*", re.IGNORECASE)


def crs_from_wkt(wkt: str, field: str) -> Crs:
    """Return the CRS that a text (WKT 1, ESRI's, WKT 2, or a code as `EPSG:32633`) describes."""
    code = REGISTERED.fullmatch(wkt)
    crs = made(registered("crs", int(code[1]), field) if code else wkt, field)
    known = json_of(crs).get("id") or {}
    name = f"{known['authority']}:{known['code']}" if known else None
    text: str = crs.to_wkt(version="WKT2_2019")
    return Crs(text, name)


@lru_cache(KEPT)
def height_unit(crs: Crs) -> str | None:
    """Return the unit of the heights of a compound CRS, None for others, as GDAL has it."""
    if crs_table.entry_of(crs.code, crs.wkt):  # which has no compound one
        return None
    known = made(crs.wkt, "crs_wkt")
    axes = known.axis_info if known.is_compound else []
    return next((axis.unit_name for axis in axes if axis.direction in {"up", "down"}), None)


# Places in degrees

CODE = re.compile(r"[A-Za-z]{1,9}:\w{1,9}")

EDGE = 21
"""Points on an edge of an image that are looked at: the bounds of a curve are not those of its ends."""


@lru_cache(KEPT)
def _to_degrees(text: str) -> tuple[Any, Any] | None:
    """Return a CRS and what takes its x and y to longitude and latitude; None where it is not on the earth."""
    crs = pyproj.CRS.from_authority(*text.split(":")) if CODE.fullmatch(text) else pyproj.CRS.from_wkt(text)
    if not (crs.is_geographic or crs.is_projected):
        return None
    flat = crs.sub_crs_list[0] if crs.is_compound and crs.sub_crs_list else crs
    return flat, pyproj.Transformer.from_crs(flat, "OGC:CRS84", always_xy=True)


def to_degrees(text: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return places as rows of longitude and latitude on WGS 84; `text` is the WKT of their CRS, or its code.

    None where that is not on the earth, or no CRS.
    """
    try:
        known = _to_degrees(text)
        return None if known is None else np.column_stack(known[1].transform(x, y))
    except (pyproj.exceptions.CRSError, pyproj.exceptions.ProjError):
        return None


def metres(text: str) -> float | None:
    """Return how many metres the unit of a projected CRS has; None of others."""
    try:
        known = _to_degrees(text)
    except pyproj.exceptions.CRSError:
        return None
    return float(known[0].axis_info[0].unit_conversion_factor) if known is not None and known[0].is_projected else None


def ground(text: str, affine: Affine, shape: tuple[int, int]) -> dict[str, list[Any]] | None:
    """Return the corners and the middle of an image in degrees, and the bounds of all its edges; by WKT or a code.

    Corners go round from the upper left one by the lower left one.  An image across the antimeridian has a western
    bound that is larger than the eastern one.  None where the CRS is not on the earth, or reaches nowhere there.
    """
    try:
        known = _to_degrees(text)
        if known is None:
            return None
        crs, transformer = known
        rows, columns = shape
        a, b, c, d, e, f = affine
        steps = np.linspace(0.0, 1.0, EDGE)
        column = np.concatenate([0 * steps, steps, 0 * steps + 1, steps[::-1]]) * columns
        row = np.concatenate([steps, 0 * steps + 1, steps[::-1], 0 * steps]) * rows
        x, y = a * column + b * row + c, d * column + e * row + f
        longitude, latitude = transformer.transform(x, y)
        corners = np.column_stack([longitude, latitude])[::EDGE]
        center = transformer.transform(a * columns / 2 + b * rows / 2 + c, d * columns / 2 + e * rows / 2 + f)
        bounds = [longitude.min(), latitude.min(), longitude.max(), latitude.max()]
        if not b and not d and crs.is_projected:  # which looks at poles and at the antimeridian too
            bounds = list(transformer.transform_bounds(x.min(), y.min(), x.max(), y.max(), densify_pts=EDGE))
    except (pyproj.exceptions.CRSError, pyproj.exceptions.ProjError):
        return None
    found = {"corners": corners.tolist(), "bounds": [float(one) for one in bounds], "center": list(map(float, center))}
    return found if all(np.isfinite(each).all() for each in found.values()) else None
