"""The height that GeoTIFF keys add to a horizontal CRS.

May touch errors, pyproj through `crs_parts` and the model's own modules.  Follows OGC GeoTIFF 1.1,
section 7.5.7.  Heights of GeoTIFF 1.0 files are left out, as GDAL does: their codes are often
those of datums or of ellipsoids.
"""

from jnrrdz.core.crs_parts import (
    USER_DEFINED,
    Json,
    Keys,
    citation,
    code,
    json_of,
    made,
    number,
    registered,
    text,
    unit,
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
