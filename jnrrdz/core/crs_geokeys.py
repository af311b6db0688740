"""GeoTIFF's tags as facts: the keys of the directory, where the pixels lie, and the parts of a CRS.

Follows OGC GeoTIFF 1.1 (https://docs.ogc.org/is/19-008r4/19-008r4.html).  Where a file lies about counts, the limit is
what libgeotiff accepts, since that is what writers were tested against: one key that points outside its tag makes the
whole directory unreadable, a citation that runs over the end of its tag is cut.  Parts of a CRS (codes, names in
citations, units, ellipsoid, datum) are PROJJSON (https://proj.org/schemas/v0.7/projjson.schema.json); pyproj is
imported only when a function needs it.
"""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.lazy import library
from jnrrdz.records import record

if TYPE_CHECKING:
    import pyproj
else:
    pyproj = library("pyproj")  # 0.1 s, of no use to images without a CRS

type Affine = tuple[float, float, float, float, float, float]
"""a, b, c, d, e, f with x = a*column + b*row + c and y = d*column + e*row + f, pixel corners."""

type GeoKeyValue = int | float | str | tuple[int, ...] | tuple[float, ...]


class GeoKey(IntEnum):
    """The keys of GeoTIFF 1.1 under its names; the last group stands in files, not in the standard."""

    GTModelTypeGeoKey = 1024
    GTRasterTypeGeoKey = 1025
    GTCitationGeoKey = 1026
    GeodeticCRSGeoKey = 2048
    GeodeticCitationGeoKey = 2049
    GeodeticDatumGeoKey = 2050
    PrimeMeridianGeoKey = 2051
    GeogLinearUnitsGeoKey = 2052
    GeogLinearUnitSizeGeoKey = 2053
    GeogAngularUnitsGeoKey = 2054
    GeogAngularUnitSizeGeoKey = 2055
    EllipsoidGeoKey = 2056
    EllipsoidSemiMajorAxisGeoKey = 2057
    EllipsoidSemiMinorAxisGeoKey = 2058
    EllipsoidInvFlatteningGeoKey = 2059
    GeogAzimuthUnitsGeoKey = 2060
    PrimeMeridianLongitudeGeoKey = 2061
    ProjectedCRSGeoKey = 3072
    ProjectedCitationGeoKey = 3073
    ProjectionGeoKey = 3074
    ProjMethodGeoKey = 3075
    ProjLinearUnitsGeoKey = 3076
    ProjLinearUnitSizeGeoKey = 3077
    ProjStdParallel1GeoKey = 3078
    ProjStdParallel2GeoKey = 3079
    ProjNatOriginLongGeoKey = 3080
    ProjNatOriginLatGeoKey = 3081
    ProjFalseEastingGeoKey = 3082
    ProjFalseNorthingGeoKey = 3083
    ProjFalseOriginLongGeoKey = 3084
    ProjFalseOriginLatGeoKey = 3085
    ProjFalseOriginEastingGeoKey = 3086
    ProjFalseOriginNorthingGeoKey = 3087
    ProjCenterLongGeoKey = 3088
    ProjCenterLatGeoKey = 3089
    ProjCenterEastingGeoKey = 3090
    ProjCenterNorthingGeoKey = 3091
    ProjScaleAtNatOriginGeoKey = 3092
    ProjScaleAtCenterGeoKey = 3093
    ProjAzimuthAngleGeoKey = 3094
    ProjStraightVertPoleLongGeoKey = 3095
    VerticalGeoKey = 4096
    VerticalCitationGeoKey = 4097
    VerticalDatumGeoKey = 4098
    VerticalUnitsGeoKey = 4099

    GeogTOWGS84GeoKey = 2062
    ProjRectifiedGridAngleGeoKey = 3096
    CoordinateEpochGeoKey = 5120


class RasterType(IntEnum):
    """What a pixel's coordinates mean (GTRasterTypeGeoKey)."""

    RasterPixelIsArea = 1
    RasterPixelIsPoint = 2


class GroundControlPoint(NamedTuple):
    """A place in the image (pixel corners) and where it lies in the CRS."""

    column: float
    row: float
    x: float
    y: float
    z: float


@record
class GeoKeys:
    """The values of a GeoKey directory, by key number; citations without their closing `|`."""

    values: Mapping[int, GeoKeyValue] = field(default=MappingProxyType({}))
    revision: tuple[int, int] = (1, 0)

    def get(self, key: GeoKey | str) -> GeoKeyValue | None:
        """Return a key's value by its member or its name in GeoTIFF 1.1; None where it is absent."""
        return self.values.get(GeoKey[key] if isinstance(key, str) else key)

    def __hash__(self) -> int:
        """Let equal keys be found again: files of one series have the same ones."""
        return hash((frozenset(self.values.items()), self.revision))


@record
class Placement:
    """Where an image lies: an affine, or ground control points, or neither."""

    affine: Affine | None
    gcps: tuple[GroundControlPoint, ...] = ()
    is_point: bool = False
    """Whether a pixel's value is that of a point; the affine refers to pixel corners all the same."""


_HEADER = 4
_ENTRY = 4
_TIEPOINT = 6
_MATRIX = 16


def parse_geokeys(directory: Sequence[int], doubles: Sequence[float] = (), ascii_: str = "") -> GeoKeys:
    """Return the keys of the three GeoTIFF tags; of a key that stands twice, the later value."""
    if len(directory) < _HEADER:
        raise _malformed(f"a directory of {len(directory)} numbers, its header alone has {_HEADER}")
    version, major, minor, count = directory[:_HEADER]
    if version != 1:
        raise _malformed(f"directory version {version}, the only one there is has number 1")
    if len(directory) < _HEADER + count * _ENTRY:
        raise _malformed(f"{count} keys announced, {len(directory)} numbers stored")
    values: dict[int, GeoKeyValue] = {}
    for start in range(_HEADER, _HEADER + count * _ENTRY, _ENTRY):
        key, location, number, value = directory[start : start + _ENTRY]
        found = _value(key, location, (value, number), (directory, doubles, ascii_.removesuffix("\0")))
        if found is not None:
            values[key] = found
    return GeoKeys(MappingProxyType(values), (major, minor))


def _value(
    key: int, location: int, span: tuple[int, int], tags: tuple[Sequence[int], Sequence[float], str]
) -> GeoKeyValue | None:
    offset, count = span
    directory, doubles, text = tags
    match location:
        case 0 if count == 1:
            return offset
        case 0:
            raise _malformed(f"{count} values in a place for one", key)
        case 34735:  # GeoKeyDirectory
            return _numbers(key, directory, offset, count)
        case 34736:  # GeoDoubleParams
            return _numbers(key, doubles, offset, count)
        case 34737:  # GeoAsciiParams
            # a count of one too many is the terminating NUL, larger ones are cut as libgeotiff does
            if offset >= len(text) and offset + count > len(text) + 1:
                raise _malformed(f"characters {offset} to {offset + count} of a tag that has {len(text)}", key)
            return text[offset : offset + count].split("\0", 1)[0].removesuffix("|")
    raise _malformed(f"values in tag {location}, which holds none", key)


def _numbers(key: int, tag: Sequence[float], offset: int, count: int) -> GeoKeyValue | None:
    if offset + count > len(tag):
        raise _malformed(f"values {offset} to {offset + count} of a tag that has {len(tag)}", key)
    numbers = tuple(tag[offset : offset + count])
    if count == 1:
        return numbers[0]
    return numbers or None


def _malformed(found: str, key: int | None = None) -> MalformedError:
    if key is None:
        return MalformedError(found, field="GeoKeyDirectory")
    return MalformedError(found, field=GeoKey(key).name if key in GeoKey else f"GeoKey {key}")


def placement(
    keys: GeoKeys, pixel_scale: Sequence[float], tiepoints: Sequence[float], matrix: Sequence[float]
) -> Placement:
    """Return where the image lies; the three tags are empty where the file has none.

    The affine equals GDAL's geotransform: a scale goes before a matrix, with many tiepoints the
    first one counts, and PixelIsPoint moves the origin by half a pixel.
    """
    is_point = keys.get(GeoKey.GTRasterTypeGeoKey) == RasterType.RasterPixelIsPoint
    affine = _from_scale(pixel_scale, tiepoints) or _from_matrix(matrix)
    if affine is None:
        shift = 0.5 if is_point else 0.0
        whole = range(0, len(tiepoints) - _TIEPOINT + 1, _TIEPOINT)
        points = (map(float, tiepoints[start : start + _TIEPOINT]) for start in whole)
        gcps = (GroundControlPoint(column + shift, row + shift, x, y, z) for column, row, _, x, y, z in points)
        return Placement(None, tuple(gcps), is_point)
    a, b, c, d, e, f = affine
    # a scale alone ties no pixel to a place, so that there is nothing to shift
    if is_point and (len(tiepoints) >= _TIEPOINT or not _is_scale(pixel_scale)):
        affine = (a, b, c - (a * 0.5 + b * 0.5), d, e, f - (d * 0.5 + e * 0.5))
    if not all(math.isfinite(number) for number in affine):
        raise MalformedError(f"an affine of {affine}", field="ModelPixelScale, ModelTiepoint, ModelTransformation")
    return Placement(affine, (), is_point)


def _is_scale(scale: Sequence[float]) -> bool:
    return len(scale) >= 2 and scale[0] != 0 and scale[1] != 0  # noqa: PLR2004  # x and y


def _from_scale(scale: Sequence[float], tiepoints: Sequence[float]) -> Affine | None:
    if not _is_scale(scale):
        return None
    # the standard lets a negative y scale point north; GDAL takes every such file as north-up
    a, e = float(scale[0]), -abs(float(scale[1]))
    if len(tiepoints) < _TIEPOINT:
        return (a, 0.0, 0.0, 0.0, e, 0.0)
    column, row, _, x, y, _ = tiepoints[:_TIEPOINT]
    return (a, 0.0, x - column * a, 0.0, e, y - row * e)


def _from_matrix(matrix: Sequence[float]) -> Affine | None:
    if len(matrix) != _MATRIX:
        return None
    a, b, _, c, d, e, _, f = (float(number) for number in matrix[:8])
    if a * e == b * d:
        shown = (a, b, c, d, e, f)
        raise MalformedError(f"a matrix {shown} that maps the image onto a line", field="ModelTransformation")
    return (a, b, c, d, e, f)


type Json = dict[str, Any]

USER_DEFINED = 32767
_SEXAGESIMAL = 0.0


class Keys(Protocol):
    """The keys of a GeoKey directory, by their names in GeoTIFF 1.1."""

    @property
    def revision(self) -> tuple[int, int]:
        """Major and minor revision of the keys."""

    def get(self, key: str, /) -> Any:
        """Return a key's value; None where it is absent."""


def code(keys: Keys, name: str) -> int | None:
    """Return a key's EPSG code; None where it is absent, undefined (0) or user-defined (32767)."""
    value = number(keys, name)
    return None if value in {None, 0, USER_DEFINED} else int(value or 0)


def number(keys: Keys, *names: str) -> float | None:
    """Return the value of the first of these keys that the file has."""
    for name in names:
        value = keys.get(name)
        if isinstance(value, (int, float)) and math.isfinite(value):
            return float(value)
        if value is not None:
            raise MalformedError(f"{value!r}, not a number", field=name)
    return None


def text(keys: Keys, *names: str) -> str | None:
    """Return the first of these citations that the file has and that says something."""
    for name in names:
        value = keys.get(name)
        if isinstance(value, str) and value.strip(" |"):
            return value
    return None


def citation(value: str | None) -> dict[str, str]:
    """Return what a citation of the form `GCS Name = a|Datum = b|` says, a plain name as `Name`.

    Imagine writes a copyright notice of several lines first, which ends with a `$`.
    """
    said: dict[str, str] = {}
    body = value or ""
    if body.startswith("IMAGINE GeoTIFF Support"):
        body = body.rpartition("$")[2]
    for part in re.split(r"[|\n]", body):
        name, equals, found = part.partition(" = ")
        if part.strip():
            said.setdefault(name.strip() if equals else "Name", found.strip() if equals else part.strip())
    return said


def drop_ids(node: Json) -> Json:
    """Return a PROJJSON object that no longer claims to be a registered one."""
    return {name: value for name, value in node.items() if name not in {"id", "ids", "scope", "area", "bbox", "usages"}}


def registered(kind: str, epsg: int, field: str) -> Json:
    """Return the PROJJSON of a registered `crs`, `datum`, `ellipsoid`, `prime_meridian` or `operation`.

    CRS codes that EPSG does not know are looked up under ESRI, whose numbers stand in the same key.
    """
    maker = getattr(pyproj.crs, _MAKERS[kind])
    for authority in ("EPSG", "ESRI") if kind == "crs" else ("EPSG",):
        try:
            return json_of(maker.from_authority(authority, epsg))
        except pyproj.exceptions.CRSError:
            continue
    raise UnsupportedError(f"EPSG code {epsg}, which is no {kind.replace('_', ' ')} that PROJ knows", field=field)


def made(definition: str | Json, field: str) -> Any:
    """Return pyproj's CRS of a WKT or PROJJSON definition."""
    try:
        return pyproj.CRS.from_wkt(definition) if isinstance(definition, str) else pyproj.CRS.from_json_dict(definition)
    except pyproj.exceptions.CRSError as error:
        raise UnsupportedError(f"a CRS that PROJ refuses: {error}", field=field) from error


def json_of(crs: Any) -> Json:
    """Return the PROJJSON of one of pyproj's objects."""
    return {name: value for name, value in crs.to_json_dict().items() if name != "$schema"}


_MAKERS = {
    "crs": "CRS",
    "datum": "Datum",
    "ellipsoid": "Ellipsoid",
    "prime_meridian": "PrimeMeridian",
    "operation": "CoordinateOperation",
}


METRE: Json = {
    "type": "LinearUnit",
    "name": "metre",
    "conversion_factor": 1.0,
    "id": {"authority": "EPSG", "code": 9001},
}


def _unit(epsg: int) -> Json | None:
    """Return a unit of EPSG's; the one that nearly all files have without PROJ."""
    return METRE if epsg == METRE["id"]["code"] else _units().get(str(epsg))


@functools.cache
def _units() -> dict[str, Json]:
    kinds = {"linear": "LinearUnit", "angular": "AngularUnit"}
    found = pyproj.database.get_units_map(auth_name="EPSG", allow_deprecated=True).values()
    return {
        unit.code: {
            "type": kinds[unit.category],
            "name": unit.name,
            "conversion_factor": unit.conv_factor,
            "id": {"authority": "EPSG", "code": int(unit.code)},
        }
        for unit in found
        if unit.category in kinds
    }


def unit(keys: Keys, kind: str, code_key: str, size_key: str = "") -> Json | None:
    """Return the `LinearUnit` or `AngularUnit` that a key names; None where it names none."""
    epsg = code(keys, code_key)
    if epsg is not None:
        found = _unit(epsg)
        if found is None or found["type"] != kind or found["conversion_factor"] == _SEXAGESIMAL:
            raise UnsupportedError(f"EPSG code {epsg}, which is no {kind} that numbers can be given in", field=code_key)
        return found
    size = number(keys, size_key) if size_key else None
    if size is None:
        return None
    if not (size > 0 and math.isfinite(size)):
        raise MalformedError(f"a unit of {size}", field=size_key)
    return {"type": kind, "name": "unknown", "conversion_factor": size}


_UNIT_NAMES = {
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), 9001),
    **dict.fromkeys(("international_feet", "international_foot"), 9002),
    **dict.fromkeys(("us_survey_feet", "us_survey_foot", "feet", "foot", "ft"), 9003),
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), 9036),
}
"""Imagine's and ESRI's names; a plain foot of theirs is the US survey foot."""


def named_unit(name: str | None) -> Json | None:
    """Return the linear unit that a citation names; None where it names none, or an unknown one."""
    epsg = _UNIT_NAMES.get((name or "").strip().lower().replace(" ", "_"))
    return None if epsg is None else _unit(epsg)


def size_of(node: str | Json) -> float:
    """Return how many metres or radians a PROJJSON unit has."""
    if isinstance(node, str):
        return {"degree": math.radians(1)}.get(node, 1.0)
    return float(node["conversion_factor"])


def with_unit(node: Json, wanted: Json | None) -> Json:
    """Return the CRS with its axes in a unit; the same CRS where that is what it has."""
    system = node.get("coordinate_system")
    if wanted is None or system is None:
        return node
    have = size_of(system["axis"][0]["unit"])
    if math.isclose(have, wanted["conversion_factor"], rel_tol=1e-12):
        return node
    axes = [axis | {"unit": wanted} for axis in system["axis"]]
    return drop_ids(node) | {"coordinate_system": drop_ids(system) | {"axis": axes}}
