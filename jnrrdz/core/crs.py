"""Coordinate reference systems as the WKT that readers of Zarr expect: from GeoTIFF keys, codes, WKT of any dialect.

GeoTIFF keys follow OGC GeoTIFF 1.1 (https://docs.ogc.org/is/19-008r4/19-008r4.html), and GDAL where files do not;
docs/georeferencing.md says which of the two where.  Heights (section 7.5.7) of GeoTIFF 1.0 files are left out, as GDAL
does: their codes are often those of datums or of ellipsoids.  WKT follows
https://docs.ogc.org/is/18-010r7/18-010r7.html.  pyproj is imported only when a function needs it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jnrrdz.core import crs_geographic as crs_tables
from jnrrdz.core.crs_geographic import angular_unit, geocentric, geographic, shift_to_wgs84, with_ellipsoid
from jnrrdz.core.crs_geokeys import (
    USER_DEFINED,
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

_CRS, _DATUM, _UNITS = "VerticalGeoKey", "VerticalDatumGeoKey", "VerticalUnitsGeoKey"
_CITATION = "VerticalCitationGeoKey"
_ELLIPSOIDAL_HEIGHTS = range(5001, 5034)
"""GeoTIFF 1.0's codes for heights above an ellipsoid, which 1.1 files still have."""


def with_height(horizontal: Json, keys: Keys) -> Json:
    """Return the CRS with its third dimension: compound, or three-dimensional for ellipsoidal heights.

    A code that is not that of a height changes nothing; the horizontal CRS is no less true for it.
    """
    if keys.revision == (1, 0) or not _is_said(keys) or horizontal["type"] == "CompoundCRS":
        return horizontal
    epsg = code(keys, _CRS)
    if epsg is None:
        return _compound(horizontal, _user_defined(keys), keys)
    if epsg in _ELLIPSOIDAL_HEIGHTS:
        return json_of(made(horizontal, _CRS).to_3d())
    try:
        found = registered("crs", epsg, _CRS)
    except UnsupportedError:
        return horizontal
    if found["type"] == "VerticalCRS":
        return _compound(horizontal, found, keys)
    return json_of(made(horizontal, _CRS).to_3d()) if _is_3d_on_datum_of(horizontal, found) else horizontal


def _is_said(keys: Keys) -> bool:
    values = [number(keys, name) or 0 for name in (_CRS, _DATUM, _UNITS)]
    # codes above that of user-defined are private: nobody else knows what they are
    return any(values) and max(values) <= USER_DEFINED


def _is_3d_on_datum_of(horizontal: Json, other: Json) -> bool:
    base = horizontal.get("base_crs", horizontal)
    names = [node.get("datum", node.get("datum_ensemble", {})).get("name") for node in (base, other)]
    axes = other.get("coordinate_system", {}).get("axis", [])
    return other["type"] == "GeographicCRS" and names[0] == names[1] and len(axes) == 3  # noqa: PLR2004  # 3D


def _user_defined(keys: Keys) -> Json:
    said = citation(text(keys, _CITATION))
    name = said.get("VCS Name") or said.get("Name") or "unknown"
    epsg = code(keys, _DATUM)
    datum = registered("datum", epsg, _DATUM) if epsg else _datum_named(name)
    length = unit(keys, "LinearUnit", _UNITS) or "metre"
    axis = {"name": "Gravity-related height", "abbreviation": "H", "direction": "up", "unit": length}
    return {
        "type": "VerticalCRS",
        "name": name,
        "datum": datum or {"type": "VerticalReferenceFrame", "name": "unknown"},
        "coordinate_system": {"subtype": "vertical", "axis": [axis]},
    }


def _datum_named(name: str) -> Json | None:
    """Return the datum of the registered vertical CRS of exactly this name."""
    from pyproj.database import query_crs_info  # noqa: PLC0415  # see registered()
    from pyproj.enums import PJType  # noqa: PLC0415

    found = query_crs_info(auth_name="EPSG", pj_types=PJType.VERTICAL_CRS)
    codes = [info.code for info in found if info.name == name]
    datum: Json | None = registered("crs", int(codes[0]), _CITATION).get("datum") if codes else None
    return datum


def _compound(horizontal: Json, vertical: Json, keys: Keys) -> Json:
    said = text(keys, "GTCitationGeoKey")
    name = said if said and " = " not in said else f"{horizontal['name']} + {vertical['name']}"
    return {"type": "CompoundCRS", "name": name, "components": [horizontal, vertical]}


_MODEL = "GTModelTypeGeoKey"
_PROJECTED = "ProjectedCRSGeoKey"
_GEODETIC = "GeodeticCRSGeoKey"
_CITATIONS = ("ProjectedCitationGeoKey", "GTCitationGeoKey")
_ESRI = "ESRI PE String = "
KEPT = 256
"""CRS that are remembered: a batch has thousands of files and few CRS, each of which takes PROJ half a millisecond."""


@dataclass(frozen=True)
class Crs:
    """A coordinate reference system: WKT2:2019, and its code where it is a registered one."""

    wkt: str
    code: str | None = None
    """For example `EPSG:32633`."""


@lru_cache(KEPT)
def crs_from_geokeys(keys: Keys) -> Crs | None:
    """Return the CRS of a GeoTIFF; None where the keys, which can be hashed, name none.

    What the keys say but PROJ cannot express is an `UnsupportedError`, what contradicts itself a
    `MalformedError`; both leave the pixels as readable as they are.
    """
    horizontal = _horizontal(keys)
    if horizontal is None:
        return None
    return _crs(with_height(horizontal, keys), shift_to_wgs84(keys))


def _horizontal(keys: Keys) -> Json | None:
    model = code(keys, _MODEL)
    if model is None:
        # a projected CRS with a code is one whatever the model says, and files rely on it
        return _projected(keys) if code(keys, _PROJECTED) else _local(keys)
    models: dict[int, Callable[[Keys], Json]] = {1: _projected, 2: _geographic, 3: _geocentric}
    if model not in models:
        raise UnsupportedError(f"model {model}, known are 1 (projected), 2 (geographic), 3 (geocentric)", field=_MODEL)
    return models[model](keys)


def _projected(keys: Keys) -> Json:
    epsg = code(keys, _PROJECTED)
    if epsg is not None:
        found = _horizontal_crs(epsg, _PROJECTED)
        # files in feet on a CRS in metres are common, and their numbers are in feet
        return with_unit(found, _linear_unit(keys, _CITATIONS[1:])) if found["type"] == "ProjectedCRS" else found
    return _esri(keys) or _crs_user_defined(keys)


def _geographic(keys: Keys) -> Json:
    epsg = code(keys, _GEODETIC)
    return geographic(keys) if epsg is None else _horizontal_crs(epsg, _GEODETIC)


def _horizontal_crs(epsg: int, field: str) -> Json:
    """Return the registered CRS, of whichever kind: a code in the wrong key still says what is meant."""
    found = registered("crs", epsg, field)
    if found["type"] not in {"ProjectedCRS", "GeographicCRS", "GeodeticCRS", "CompoundCRS"}:
        raise UnsupportedError(f"EPSG code {epsg}, a {found['type']} where a horizontal one belongs", field=field)
    return found


def _crs_user_defined(keys: Keys) -> Json:
    base = with_ellipsoid(geographic(keys), keys)
    length = _linear_unit(keys) or "metre"
    conversion, directions = _conversion(keys, base, length)
    axes = [
        {"name": name, "abbreviation": name[0], "direction": direction, "unit": length}
        for name, direction in zip(("Easting", "Northing"), directions, strict=True)
    ]
    said = citation(text(keys, *_CITATIONS))
    return {
        "type": "ProjectedCRS",
        "name": said.get("PCS Name") or said.get("Projection Name") or said.get("Name") or "unnamed",
        "base_crs": base,
        "conversion": conversion,
        "coordinate_system": {"subtype": "Cartesian", "axis": axes},
    }


def _conversion(keys: Keys, base: Json, length: str | Json) -> tuple[Json, tuple[str, str]]:
    """Return the conversion, and which way its easting and northing grow."""
    epsg = code(keys, "ProjectionGeoKey")
    if epsg is not None:
        return registered("operation", epsg, "ProjectionGeoKey"), ("east", "north")
    method = code(keys, "ProjMethodGeoKey")
    if method is None:
        raise UnsupportedError(f"a projected CRS with neither {_PROJECTED}, ProjectionGeoKey nor method", field=_MODEL)

    def value(*names: str) -> float | None:
        return number(keys, *names)

    angle = angular_unit(keys) or base["coordinate_system"]["axis"][0]["unit"]
    units = {"angle": angle, "length": length, "scale": "unity"}
    return crs_tables.conversion(method, value, units), crs_tables.method(method, value).directions


def _linear_unit(keys: Keys, citations: tuple[str, ...] = _CITATIONS) -> Json | None:
    own = unit(keys, "LinearUnit", "ProjLinearUnitsGeoKey", "ProjLinearUnitSizeGeoKey")
    if own is not None:
        return own
    said = [citation(text(keys, name)) for name in reversed(citations)]
    return named_unit(next((name for one in said for name in (one.get("LUnits"), one.get("Units")) if name), None))


def _geocentric(keys: Keys) -> Json:
    node = geographic(keys)
    axes = node["coordinate_system"]["axis"]
    if node["type"] == "GeodeticCRS" and len(axes) == 3:  # noqa: PLR2004  # X, Y, Z
        return node
    # files written before GeoTIFF 1.1 name the geographic CRS on the same datum
    return geocentric(node, _linear_unit(keys) or "metre")


def _local(keys: Keys) -> Json | None:
    found = _esri(keys)
    said = text(keys, "GTCitationGeoKey", "GeodeticCitationGeoKey")
    if found is not None or said is None:
        _refuse_without_model(keys, found)
        return found
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


def _refuse_without_model(keys: Keys, found: Json | None) -> None:
    epsg = code(keys, _GEODETIC)
    if found is None and epsg is not None:
        raise UnsupportedError(f"no {_MODEL} that says what EPSG code {epsg} is for", field=_GEODETIC)


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
        crs = _bound(crs, shift)
    wkt: str = crs.to_wkt(version="WKT2_2019")
    return Crs(wkt, _registered_as(crs, node))


def _registered_as(crs: Any, node: Json) -> str | None:
    if "id" in node:
        return f"{node['id']['authority']}:{node['id']['code']}"
    # a pair of registered CRS may be registered too; to search for others costs 0.3 s and finds few
    if node["type"] != "CompoundCRS" or not all("id" in component for component in node["components"]):
        return None
    found = crs.to_epsg(min_confidence=90)
    return None if found is None else f"EPSG:{found}"


def _bound(crs: Any, shift: tuple[float, ...]) -> Any:
    from pyproj.crs import BoundCRS  # noqa: PLC0415  # see made()
    from pyproj.crs.coordinate_operation import ToWGS84Transformation  # noqa: PLC0415

    return BoundCRS(crs, "EPSG:4326", ToWGS84Transformation(crs.geodetic_crs, *shift))


def cf_attributes(crs: Crs) -> dict[str, Any]:
    """Return the CF grid mapping attributes of a CRS: `crs_wkt`, and the parameters that CF has names for."""
    return {name: list(value) if isinstance(value, list) else value for name, value in _cf_attributes(crs).items()}


@lru_cache(KEPT)
def _cf_attributes(crs: Crs) -> dict[str, Any]:
    attributes: dict[str, Any] = made(crs.wkt, "crs_wkt").to_cf()
    return attributes | {"crs_wkt": crs.wkt}


def crs_from_epsg(code: int, field: str) -> Crs:
    """Return the CRS of a code."""
    found = made(registered("crs", code, field), field)
    text: str = found.to_wkt(version="WKT2_2019")
    return Crs(text, f"EPSG:{code}")


def is_north_first(crs: Crs) -> bool:
    """Whether the register has the northing, or the latitude, before the other."""
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
    known = made(crs.wkt, "crs_wkt")
    axes = known.axis_info if known.is_compound else []
    return next((axis.unit_name for axis in axes if axis.direction in {"up", "down"}), None)
