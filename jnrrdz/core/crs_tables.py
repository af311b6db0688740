"""GeoTIFF's projection methods in PROJJSON's terms: a table, and the choice between variants.

May touch errors only.  Method codes are those of ProjMethodGeoKey (OGC GeoTIFF 1.1, annex C.4);
methods and parameters carry their EPSG names and codes.  Writers disagree on the key that holds a
parameter, so that each names its keys in the order in which libgeotiff looks for them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from jnrrdz.errors import UnsupportedError

type Number = Callable[..., float | None]
"""`number(key, ...)`: the value of the first of these keys that the file has."""

_LONG = ("ProjNatOriginLongGeoKey", "ProjFalseOriginLongGeoKey", "ProjCenterLongGeoKey")
_LAT = ("ProjNatOriginLatGeoKey", "ProjFalseOriginLatGeoKey", "ProjCenterLatGeoKey")
_POLE = ("ProjStraightVertPoleLongGeoKey", *_LONG)
_EAST = ("ProjFalseEastingGeoKey", "ProjCenterEastingGeoKey", "ProjFalseOriginEastingGeoKey")
_NORTH = ("ProjFalseNorthingGeoKey", "ProjCenterNorthingGeoKey", "ProjFalseOriginNorthingGeoKey")
_SCALE = ("ProjScaleAtNatOriginGeoKey", "ProjScaleAtCenterGeoKey")
_PARALLEL = "ProjStdParallel1GeoKey"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a projection, the keys that may hold it, and its value where none does."""

    name: str
    code: int
    kind: Literal["angle", "length", "scale"]
    keys: tuple[str, ...]
    default: float | None = 0.0


@dataclass(frozen=True)
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


def method(code: int, number: Number) -> Method:
    """Return the method of a ProjMethodGeoKey, in the variant that the other keys ask for.

    GeoTIFF has one code for Mercator and one for Polar Stereographic.  Without a scale factor, the
    latitude of origin (that of a Mercator off the equator) is the parallel of true scale.
    """
    if code not in METHODS:
        known = ", ".join(str(number) for number in METHODS)
        raise UnsupportedError(f"projection method {code}, known are {known}", field="ProjMethodGeoKey")
    latitude = number(*_LAT) or 0.0
    is_true_scale = (number(*_SCALE) or 1.0) == 1.0
    if code == _MERCATOR and (number(_PARALLEL) is not None or (latitude != 0 and is_true_scale)):
        return _MERCATOR_B
    if code != _POLAR:
        return METHODS[code]
    # both axes of a map around a pole point away from it
    directions = ("north", "north") if latitude < 0 else ("south", "south")
    return replace(_POLAR_B if is_true_scale else METHODS[code], directions=directions)


_MERCATOR, _POLAR = 7, 15


def conversion(code: int, number: Number, units: dict[str, Any]) -> dict[str, Any]:
    """Return the PROJJSON conversion of a user-defined projection.

    `units` has PROJJSON's unit for each kind of parameter.
    """
    chosen = method(code, number)
    described: dict[str, Any] = {"name": chosen.name}
    if chosen.code is not None:
        described["id"] = _epsg(chosen.code)
    parameters = [
        {
            "name": parameter.name,
            "value": _value(parameter, number),
            "unit": units[parameter.kind],
            "id": _epsg(parameter.code),
        }
        for parameter in chosen.parameters
    ]
    return {"name": "unnamed", "method": described, "parameters": parameters}


def _value(parameter: Parameter, number: Number) -> float:
    value = number(*parameter.keys)
    if value is not None:
        return value
    if parameter.default is None:
        raise UnsupportedError(f"no {parameter.name}, which the projection needs", field=parameter.keys[0])
    return parameter.default


def _epsg(code: int) -> dict[str, Any]:
    return {"authority": "EPSG", "code": code}
