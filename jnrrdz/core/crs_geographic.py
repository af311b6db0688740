"""The geographic CRS that GeoTIFF keys describe: registered, registered with other numbers, or user-defined.

May touch errors, pyproj through `crs_parts` and the model's own modules.  Follows OGC GeoTIFF 1.1,
section 7.5.4.
"""

import math
from typing import Any

from jnrrdz.core.crs_parts import Json, Keys, citation, code, drop_ids, number, registered, size_of, text, unit
from jnrrdz.errors import MalformedError, UnsupportedError

_CODE = "GeodeticCRSGeoKey"
_EARTH = 6378137.0
_DATUMS = ("datum", "datum_ensemble")


def geographic(keys: Keys) -> Json:
    """Return the geographic CRS as PROJJSON."""
    epsg = code(keys, _CODE)
    if epsg is None:
        return _user_defined(keys)
    found = registered("crs", epsg, _CODE)
    if found["type"] not in {"GeographicCRS", "GeodeticCRS"}:
        raise UnsupportedError(f"EPSG code {epsg}, a {found['type']} where a geographic one belongs", field=_CODE)
    return found


def angular_unit(keys: Keys) -> Json | None:
    """Return the unit of the keys' angles; None where they do not say."""
    return unit(keys, "AngularUnit", "GeogAngularUnitsGeoKey", "GeogAngularUnitSizeGeoKey")


def with_ellipsoid(node: Json, keys: Keys) -> Json:
    """Return the CRS on the ellipsoid that the keys give by its axes; the same CRS where they agree.

    Only a user-defined projection asks for that: beside the code of a whole CRS, axes are commentary.
    """
    name = next((name for name in _DATUMS if name in node), None)
    own = ellipsoid(keys, "unnamed")
    if name is None or own is None:
        return node
    datum = node[name]
    if all(
        math.isclose(*pair, rel_tol=1e-10) for pair in zip(shape_of(own), shape_of(datum["ellipsoid"]), strict=True)
    ):
        return node
    kept = {part: datum[part] for part in ("prime_meridian",) if part in datum}
    other = {"type": "GeodeticReferenceFrame", "name": datum["name"].removesuffix(" ensemble"), **kept}
    own["name"] = datum["ellipsoid"]["name"]
    rest = {part: value for part, value in drop_ids(node).items() if part != name}
    return rest | {"datum": other | {"ellipsoid": own}}


def _user_defined(keys: Keys) -> Json:
    said = citation(text(keys, "GeodeticCitationGeoKey"))
    name = said.get("GCS Name") or said.get("Name") or "unknown"
    angle = angular_unit(keys) or "degree"
    axes = [
        {"name": "Geodetic latitude", "abbreviation": "Lat", "direction": "north", "unit": angle},
        {"name": "Geodetic longitude", "abbreviation": "Lon", "direction": "east", "unit": angle},
    ]
    system = {"subtype": "ellipsoidal", "axis": axes}
    return {"type": "GeographicCRS", "name": name, **_datum(keys, said, angle), "coordinate_system": system}


def _datum(keys: Keys, said: dict[str, str], angle: str | Json) -> Json:
    """Return the datum, or the ensemble that stands for one, under its name in PROJJSON."""
    field = "GeodeticDatumGeoKey"
    epsg = code(keys, field)
    if epsg is not None:
        found = registered("datum", epsg, field)
        return {"datum_ensemble" if found["type"] == "DatumEnsemble" else "datum": found}
    own = _ellipsoid(keys, said)
    is_earth = math.isclose(shape_of(own)[0], _EARTH, rel_tol=0.005)
    meridian = _prime_meridian(keys, said | ({} if is_earth else {"Primem": "Reference meridian"}), angle)
    name = said.get("Datum") or "unnamed"
    return {"datum": {"type": "GeodeticReferenceFrame", "name": name, "ellipsoid": own, "prime_meridian": meridian}}


def _ellipsoid(keys: Keys, said: dict[str, str]) -> Json:
    field = "EllipsoidGeoKey"
    epsg = code(keys, field)
    found = registered("ellipsoid", epsg, field) if epsg else ellipsoid(keys, said.get("Ellipsoid") or "unnamed")
    if found is None:
        raise UnsupportedError(
            f"neither a CRS, a datum nor an ellipsoid ({_CODE}, GeodeticDatumGeoKey, {field} or its axes)", field=_CODE
        )
    return found


def _prime_meridian(keys: Keys, said: dict[str, str], angle: str | Json) -> Json:
    field = "PrimeMeridianGeoKey"
    epsg = code(keys, field)
    if epsg is not None:
        return registered("prime_meridian", epsg, field)
    longitude = number(keys, "PrimeMeridianLongitudeGeoKey") or 0.0
    if longitude == 0:
        said = {"Primem": "Greenwich"} | said
    # WKT keeps a base CRS's unit nowhere but in its prime meridian
    return {"name": said.get("Primem") or "unnamed", "longitude": {"value": longitude, "unit": angle}}


def shift_to_wgs84(keys: Keys) -> tuple[float, ...]:
    """Return the seven Helmert parameters of GeogTOWGS84GeoKey; none for a datum that has a code.

    What is known of a registered datum is better than what one file says of it.
    """
    field = "GeogTOWGS84GeoKey"
    value = keys.get(field)
    if value is None or any(code(keys, name) for name in (_CODE, "GeodeticDatumGeoKey", "ProjectedCRSGeoKey")):
        return ()
    if not isinstance(value, tuple) or len(value) not in {3, 7}:
        raise MalformedError(f"{value!r}, neither 3 nor 7 numbers", field=field)
    return tuple(float(number) for number in (*value, 0.0, 0.0, 0.0, 0.0)[:7])


def geocentric(node: Json, metre: str | Json) -> Json:
    """Return the geocentric CRS on a geographic one's datum."""
    axes = [
        {"name": f"Geocentric {name}", "abbreviation": name, "direction": f"geocentric{name}", "unit": metre}
        for name in "XYZ"
    ]
    datum = {name: node[name] for name in _DATUMS if name in node}
    system: dict[str, Any] = {"subtype": "Cartesian", "axis": axes}
    return {"type": "GeodeticCRS", "name": node["name"], **datum, "coordinate_system": system}


def _flattening(keys: Keys, major: float) -> float | None:
    """Return the inverse flattening, 0 for a sphere; None where the keys do not say."""
    if keys.get("EllipsoidInvFlatteningGeoKey") == math.inf:
        return 0.0
    inverse = number(keys, "EllipsoidInvFlatteningGeoKey")
    if inverse is not None:
        return inverse
    minor = number(keys, "EllipsoidSemiMinorAxisGeoKey")
    if minor is None:
        return None
    return 0.0 if minor == major else major / (major - minor)


def ellipsoid(keys: Keys, name: str) -> Json | None:
    """Return the ellipsoid that the keys give by its axes, in metres; None where they do not."""
    major = number(keys, "EllipsoidSemiMajorAxisGeoKey")
    if major is None:
        return None
    inverse = _flattening(keys, major)
    if inverse is None:
        return None
    # below one, an inverse flattening has no semi-minor axis
    if major <= 0 or (inverse != 0 and inverse <= 1):
        raise MalformedError(
            f"an ellipsoid of {major} m, flattened by 1/{inverse}", field="EllipsoidSemiMajorAxisGeoKey"
        )
    if inverse == 0:
        return {"name": name, "radius": major}
    return {"name": name, "semi_major_axis": major, "inverse_flattening": inverse}


def shape_of(node: Json) -> tuple[float, float]:
    """Return a PROJJSON ellipsoid's axes in metres."""
    if "radius" in node:
        return float(node["radius"]), float(node["radius"])
    major = _metres(node["semi_major_axis"])
    if "semi_minor_axis" in node:
        return major, _metres(node["semi_minor_axis"])
    return major, major - major / float(node["inverse_flattening"])


def _metres(value: float | Json) -> float:
    if isinstance(value, dict):
        return float(value["value"]) * size_of(value["unit"])
    return float(value)
