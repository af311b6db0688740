"""The geographic CRS and the projection that GeoTIFF keys describe, in PROJJSON's terms.

A geographic CRS is registered, registered with other numbers, or user-defined (OGC GeoTIFF 1.1, section 7.5.4).
Projections are a table by ProjMethodGeoKey (annex C.4); methods and parameters carry their EPSG names and codes.
Writers disagree on the key that holds a parameter, so that each names its keys in the order in which libgeotiff looks
for them.
"""

import math
from dataclasses import replace
from typing import Any, Literal

from jnrrdz.core.crs_geokeys import Json, Keys, citation, code, drop_ids, number, registered, size_of, text, unit
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import record

_CODE = "GeodeticCRSGeoKey"
_EARTH = 6378137.0
_DATUMS = ("datum", "datum_ensemble")


def geographic(keys: Keys) -> Json:
    """Return the geographic CRS as PROJJSON."""
    epsg = code(keys, _CODE)
    if epsg is not None:
        known = registered("crs", epsg, _CODE)
        if known["type"] not in {"GeographicCRS", "GeodeticCRS"}:
            raise UnsupportedError(f"EPSG code {epsg}, a {known['type']} where a geographic one belongs", field=_CODE)
        return known
    said = citation(text(keys, "GeodeticCitationGeoKey"))
    angle = angular_unit(keys) or "degree"
    axes = [
        {"name": "Geodetic latitude", "abbreviation": "Lat", "direction": "north", "unit": angle},
        {"name": "Geodetic longitude", "abbreviation": "Lon", "direction": "east", "unit": angle},
    ]
    return {
        "type": "GeographicCRS",
        "name": said.get("GCS Name") or said.get("Name") or "unknown",
        **_datum(keys, said, angle),
        "coordinate_system": {"subtype": "ellipsoidal", "axis": axes},
    }


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


def _datum(keys: Keys, said: dict[str, str], angle: str | Json) -> Json:
    """Return the datum, or the ensemble that stands for one, under its name in PROJJSON."""
    epsg = code(keys, "GeodeticDatumGeoKey")
    if epsg is not None:
        known = registered("datum", epsg, "GeodeticDatumGeoKey")
        return {"datum_ensemble" if known["type"] == "DatumEnsemble" else "datum": known}
    field = "EllipsoidGeoKey"
    epsg = code(keys, field)
    own = registered("ellipsoid", epsg, field) if epsg else ellipsoid(keys, said.get("Ellipsoid") or "unnamed")
    if own is None:
        raise UnsupportedError(
            f"neither a CRS, a datum nor an ellipsoid ({_CODE}, GeodeticDatumGeoKey, {field} or its axes)", field=_CODE
        )
    epsg = code(keys, "PrimeMeridianGeoKey")
    if epsg is not None:
        meridian = registered("prime_meridian", epsg, "PrimeMeridianGeoKey")
    else:
        longitude = number(keys, "PrimeMeridianLongitudeGeoKey") or 0.0
        is_earth = math.isclose(shape_of(own)[0], _EARTH, rel_tol=0.005)
        name = said.get("Primem", "Greenwich" if longitude == 0 else "") if is_earth else "Reference meridian"
        # WKT keeps a base CRS's unit nowhere but in its prime meridian
        meridian = {"name": name or "unnamed", "longitude": {"value": longitude, "unit": angle}}
    name = said.get("Datum") or "unnamed"
    return {"datum": {"type": "GeodeticReferenceFrame", "name": name, "ellipsoid": own, "prime_meridian": meridian}}


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


def ellipsoid(keys: Keys, name: str) -> Json | None:
    """Return the ellipsoid that the keys give by its axes, in metres; None where they do not."""
    major = number(keys, "EllipsoidSemiMajorAxisGeoKey")
    if major is None:
        return None
    inverse: float | None = 0.0  # a sphere
    if keys.get("EllipsoidInvFlatteningGeoKey") != math.inf:
        inverse = number(keys, "EllipsoidInvFlatteningGeoKey")
    if inverse is None:
        minor = number(keys, "EllipsoidSemiMinorAxisGeoKey")
        if minor is None:
            return None
        inverse = 0.0 if minor == major else major / (major - minor)
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


_LONG = ("ProjNatOriginLongGeoKey", "ProjFalseOriginLongGeoKey", "ProjCenterLongGeoKey")
_LAT = ("ProjNatOriginLatGeoKey", "ProjFalseOriginLatGeoKey", "ProjCenterLatGeoKey")
_POLE = ("ProjStraightVertPoleLongGeoKey", *_LONG)
_EAST = ("ProjFalseEastingGeoKey", "ProjCenterEastingGeoKey", "ProjFalseOriginEastingGeoKey")
_NORTH = ("ProjFalseNorthingGeoKey", "ProjCenterNorthingGeoKey", "ProjFalseOriginNorthingGeoKey")
_SCALE = ("ProjScaleAtNatOriginGeoKey", "ProjScaleAtCenterGeoKey")
_PARALLEL = "ProjStdParallel1GeoKey"


@record
class Parameter:
    """A parameter of a projection, the keys that may hold it, and its value where none does."""

    name: str
    code: int
    kind: Literal["angle", "length", "scale"]
    keys: tuple[str, ...]
    default: float | None = 0.0


@record
class Method:
    """A projection method with its parameters."""

    name: str
    code: int | None
    parameters: tuple[Parameter, ...]
    directions: tuple[str, str] = ("east", "north")


LAT0 = Parameter("Latitude of natural origin", 8801, "angle", _LAT)
LON0 = Parameter("Longitude of natural origin", 8802, "angle", _LONG)
K0 = Parameter("Scale factor at natural origin", 8805, "scale", _SCALE, 1.0)
FALSE = (
    Parameter("False easting", 8806, "length", _EAST),
    Parameter("False northing", 8807, "length", _NORTH),
)
SP1 = Parameter("Latitude of 1st standard parallel", 8823, "angle", (_PARALLEL,), None)
SP2 = Parameter("Latitude of 2nd standard parallel", 8824, "angle", ("ProjStdParallel2GeoKey",), None)
SP1_OR_EQUATOR = Parameter(SP1.name, 8823, "angle", SP1.keys)
CONIC = (
    Parameter("Latitude of false origin", 8821, "angle", _LAT),
    Parameter("Longitude of false origin", 8822, "angle", _LONG),
    SP1,
    SP2,
    Parameter("Easting at false origin", 8826, "length", _EAST),
    Parameter("Northing at false origin", 8827, "length", _NORTH),
)
OBLIQUE = (
    Parameter("Latitude of projection centre", 8811, "angle", _LAT),
    Parameter("Longitude of projection centre", 8812, "angle", _LONG),
    Parameter("Azimuth at projection centre", 8813, "angle", ("ProjAzimuthAngleGeoKey",), None),
)
SKEW = Parameter("Angle from Rectified to Skew Grid", 8814, "angle", ("ProjRectifiedGridAngleGeoKey",), 90.0)
K_CENTRE = Parameter("Scale factor at projection centre", 8815, "scale", _SCALE, 1.0)
CENTRE = (
    Parameter("Easting at projection centre", 8816, "length", _EAST),
    Parameter("Northing at projection centre", 8817, "length", _NORTH),
)

_ORIGIN = (LAT0, LON0, *FALSE)
_SCALED = (LAT0, LON0, K0, *FALSE)
_MERIDIAN = (LON0, *FALSE)

METHODS: dict[int, Method] = {
    1: Method("Transverse Mercator", 9807, _SCALED),
    3: Method("Hotine Oblique Mercator (variant A)", 9812, (*OBLIQUE, SKEW, K_CENTRE, *FALSE)),
    4: Method("Laborde Oblique Mercator", 9813, (*OBLIQUE, K_CENTRE, *FALSE)),
    7: Method("Mercator (variant A)", 9804, _SCALED),
    8: Method("Lambert Conic Conformal (2SP)", 9802, CONIC),
    9: Method("Lambert Conic Conformal (1SP)", 9801, _SCALED),
    10: Method("Lambert Azimuthal Equal Area", 9820, _ORIGIN),
    11: Method("Albers Equal Area", 9822, CONIC),
    12: Method("Azimuthal Equidistant", 1125, _ORIGIN),
    13: Method("Equidistant Conic", 1119, CONIC),
    14: Method("Stereographic", None, _SCALED),
    15: Method("Polar Stereographic (variant A)", 9810, (LAT0, Parameter(LON0.name, 8802, "angle", _POLE), K0, *FALSE)),
    16: Method("Oblique Stereographic", 9809, _SCALED),
    17: Method("Equidistant Cylindrical", 1028, (SP1_OR_EQUATOR, *_ORIGIN)),
    18: Method("Cassini-Soldner", 9806, _ORIGIN),
    19: Method("Gnomonic", None, _ORIGIN),
    20: Method("Miller Cylindrical", None, _MERIDIAN),
    21: Method("Orthographic", 9840, _ORIGIN),
    22: Method("American Polyconic", 9818, _ORIGIN),
    23: Method("Robinson", None, _MERIDIAN),
    24: Method("Sinusoidal", None, _MERIDIAN),
    25: Method("Van Der Grinten", None, _MERIDIAN),
    26: Method("New Zealand Map Grid", 9811, _ORIGIN),
    27: Method("Transverse Mercator (South Orientated)", 9808, _SCALED, ("west", "south")),
    28: Method("Lambert Cylindrical Equal Area", 9835, (SP1_OR_EQUATOR, *_MERIDIAN)),
    9815: Method("Hotine Oblique Mercator (variant B)", 9815, (*OBLIQUE, SKEW, K_CENTRE, *CENTRE)),
}
"""Missing are the Modified Alaska, Rosenmund and Spherical methods (2, 5, 6): PROJ has no WKT for them."""

_MERCATOR_B = Method(
    "Mercator (variant B)", 9805, (Parameter(SP1.name, 8823, "angle", (_PARALLEL, *_LAT)), LON0, *FALSE)
)
_POLAR_B = Method(
    "Polar Stereographic (variant B)",
    9829,
    (
        Parameter("Latitude of standard parallel", 8832, "angle", _LAT),
        Parameter("Longitude of origin", 8833, "angle", _POLE),
        *FALSE,
    ),
)


def _method(code: int, keys: Keys) -> Method:
    """Return the method of a ProjMethodGeoKey, in the variant that the other keys ask for.

    GeoTIFF has one code for Mercator and one for Polar Stereographic.  Without a scale factor, the
    latitude of origin (that of a Mercator off the equator) is the parallel of true scale.
    """
    if code not in METHODS:
        known = ", ".join(map(str, METHODS))
        raise UnsupportedError(f"projection method {code}, known are {known}", field="ProjMethodGeoKey")
    latitude = number(keys, *_LAT) or 0.0
    is_true_scale = (number(keys, *_SCALE) or 1.0) == 1.0
    if code == _MERCATOR and (number(keys, _PARALLEL) is not None or (latitude != 0 and is_true_scale)):
        return _MERCATOR_B
    if code != _POLAR:
        return METHODS[code]
    # both axes of a map around a pole point away from it
    directions = ("north", "north") if latitude < 0 else ("south", "south")
    return replace(_POLAR_B if is_true_scale else METHODS[code], directions=directions)


_MERCATOR, _POLAR = 7, 15


def conversion(code: int, keys: Keys, units: dict[str, Any]) -> tuple[Json, tuple[str, str]]:
    """Return the PROJJSON conversion of a user-defined projection, and which way its easting and northing grow.

    `units` has PROJJSON's unit for each kind of parameter.
    """
    method = _method(code, keys)
    described: Json = {"name": method.name}
    if method.code is not None:
        described["id"] = {"authority": "EPSG", "code": method.code}
    parameters = []
    for parameter in method.parameters:
        value = number(keys, *parameter.keys)
        if value is None:
            value = parameter.default
        if value is None:
            raise UnsupportedError(f"no {parameter.name}, which the projection needs", field=parameter.keys[0])
        epsg = {"authority": "EPSG", "code": parameter.code}
        parameters.append({"name": parameter.name, "value": value, "unit": units[parameter.kind], "id": epsg})
    return {"name": "unnamed", "method": described, "parameters": parameters}, method.directions
