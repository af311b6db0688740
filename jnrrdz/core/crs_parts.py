"""What a CRS is made of, read from GeoTIFF keys: codes, names in citations, units, ellipsoid, datum.

May touch errors and pyproj, which it imports only when called.  Everything is PROJJSON
(https://proj.org/schemas/v0.7/projjson.schema.json); the keys follow OGC GeoTIFF 1.1.
"""

import functools
import math
import re
from typing import Any, Protocol

from jnrrdz.errors import MalformedError, UnsupportedError

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
    from pyproj import crs, exceptions  # noqa: PLC0415  # 0.1 s, of no use to images without a CRS

    maker = getattr(crs, _MAKERS[kind])
    for authority in ("EPSG", "ESRI") if kind == "crs" else ("EPSG",):
        try:
            return json_of(maker.from_authority(authority, epsg))
        except exceptions.CRSError:
            continue
    raise UnsupportedError(f"EPSG code {epsg}, which is no {kind.replace('_', ' ')} that PROJ knows", field=field)


def made(definition: str | Json, field: str) -> Any:
    """Return pyproj's CRS of a WKT or PROJJSON definition."""
    from pyproj import CRS, exceptions  # noqa: PLC0415  # see registered()

    try:
        return CRS.from_wkt(definition) if isinstance(definition, str) else CRS.from_json_dict(definition)
    except exceptions.CRSError as error:
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


@functools.cache
def _units() -> dict[str, Json]:
    from pyproj.database import get_units_map  # noqa: PLC0415  # see registered()

    kinds = {"linear": "LinearUnit", "angular": "AngularUnit"}
    found = get_units_map(auth_name="EPSG", allow_deprecated=True).values()
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
        found = _units().get(str(epsg))
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
    return None if epsg is None else _units()[str(epsg)]


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
