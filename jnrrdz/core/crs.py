"""A coordinate reference system from GeoTIFF keys, as the WKT that readers of Zarr expect.

May touch errors, pyproj (imported only when called) and the model's own modules.  Follows OGC
GeoTIFF 1.1 (https://docs.ogc.org/is/19-008r4/19-008r4.html), and GDAL where files do not; which
of the two where, stands in docs/georeferencing.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jnrrdz.core import crs_tables
from jnrrdz.core.crs_geographic import angular_unit, geocentric, geographic, shift_to_wgs84, with_ellipsoid
from jnrrdz.core.crs_parts import (
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
from jnrrdz.core.crs_vertical import with_height
from jnrrdz.errors import UnsupportedError

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
    return _esri(keys) or _user_defined(keys)


def _geographic(keys: Keys) -> Json:
    epsg = code(keys, _GEODETIC)
    return geographic(keys) if epsg is None else _horizontal_crs(epsg, _GEODETIC)


def _horizontal_crs(epsg: int, field: str) -> Json:
    """Return the registered CRS, of whichever kind: a code in the wrong key still says what is meant."""
    found = registered("crs", epsg, field)
    if found["type"] not in {"ProjectedCRS", "GeographicCRS", "GeodeticCRS", "CompoundCRS"}:
        raise UnsupportedError(f"EPSG code {epsg}, a {found['type']} where a horizontal one belongs", field=field)
    return found


def _user_defined(keys: Keys) -> Json:
    base = with_ellipsoid(geographic(keys), keys)
    length = _linear_unit(keys) or "metre"
    conversion, directions = _conversion(keys, base, length)
    axes = [
        {"name": name, "abbreviation": name[0], "direction": direction, "unit": length}
        for name, direction in zip(("Easting", "Northing"), directions, strict=True)
    ]
    return {
        "type": "ProjectedCRS",
        "name": _name(keys, *_CITATIONS),
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


def _name(keys: Keys, *names: str) -> str:
    said = citation(text(keys, *names))
    return said.get("PCS Name") or said.get("Projection Name") or said.get("Name") or "unnamed"


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
