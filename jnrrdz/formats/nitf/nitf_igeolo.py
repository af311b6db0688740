"""The four corners of an image in IGEOLO, by the way that ICORDS says they are written.

May touch errors and the grid of MGRS.  The corners are those pixels' centres: upper left, upper
right, lower right, lower left.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, IGEOLO), MIL-STD-2500A (ICORDS C and U)
"""

import math
import re
from dataclasses import dataclass

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.nitf_mgrs import parse_mgrs

type Point = tuple[float, float]
"""x and y: longitude and latitude, or easting and northing."""

CORNERS = 4
WIDTH = 15
FIELD = "IGEOLO"
WGS84 = 4326
NORTH, SOUTH = 32600, 32700
ZONES = 60
FLATTENING = 1 / 298.257223563

_DMS = re.compile(r"([0-9 ]{2})([0-9 ]{2})([0-9 ]{2})([NS])([0-9 ]{3})([0-9 ]{2})([0-9 ]{2})([EW])")
_DECIMAL = re.compile(r"([+-][0-9]{2}\.[0-9 ]{3})([+-][0-9]{3}\.[0-9 ]{3})")
_UTM = re.compile(r"([0-9]{2})([0-9 ]{6})([0-9 ]{7})")


@dataclass(frozen=True)
class Corners:
    """Four points in the order of IGEOLO, and the EPSG code of the CRS that they are in."""

    points: tuple[Point, ...]
    epsg: int
    at_edges: bool = False
    """Whether they are the outer corners of pixels, not their centres."""

    proj: str | None = None
    """The CRS in PROJ's words, where it has no code."""


def parse_igeolo(text: str, kind: str, *, is_20: bool = False) -> Corners | None:
    """Return the corners of an image, None where the header gives none; `kind` is ICORDS."""
    if kind in {"", " "} or (is_20 and kind == "N") or not text.strip():
        return None
    padded = text.ljust(CORNERS * WIDTH)
    parts = [padded[start : start + WIDTH] for start in range(0, CORNERS * WIDTH, WIDTH)]
    if kind in {"N", "S"} and not is_20:
        return _utm(parts, NORTH if kind == "N" else SOUTH)
    if kind == "U":
        return _mgrs(parts)
    readers = {"G": _degrees, "D": _decimal, "C": _geocentric}
    if kind not in readers:
        raise UnsupportedError(f"{kind!r}; C, D, G, N, S and U are read", field="ICORDS")
    return Corners(tuple(readers[kind](part) for part in parts), WGS84)


def _matched(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise MalformedError(f"{text!r} is no corner", field=FIELD)
    return found.groups()


def _degrees(text: str) -> Point:
    """Return degrees of `ddmmssXdddmmssY`."""
    values = _matched(_DMS, text.upper())
    latitude, longitude = (_sexagesimal(values[start : start + 3], text) for start in (0, 4))
    return checked(longitude * (-1 if values[7] == "W" else 1), latitude * (-1 if values[3] == "S" else 1), text)


def _sexagesimal(parts: tuple[str, ...], text: str) -> float:
    """Return degrees, minutes and seconds as degrees; blanks are what is not known of them, at the end only."""
    known = [part for part in parts if part.strip()]
    if not known or known != list(parts[: len(known)]):
        raise MalformedError(f"{text!r} is no corner", field=FIELD)
    return sum(_number(part, text) / 60.0**power for power, part in enumerate(known))


def _number(part: str, text: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise MalformedError(f"{text!r} is no corner", field=FIELD) from None


def _decimal(text: str) -> Point:
    """Return degrees of `+dd.ddd+ddd.ddd`."""
    latitude, longitude = _matched(_DECIMAL, text)
    return checked(_number(longitude, text), _number(latitude, text), text)


def _geocentric(text: str) -> Point:
    """Return geodetic degrees of geocentric ones, written as geographic ones are."""
    longitude, latitude = _degrees(text)
    geodetic = math.degrees(math.atan(math.tan(math.radians(latitude)) / (1 - FLATTENING) ** 2))
    return longitude, geodetic


def checked(longitude: float, latitude: float, text: str) -> Point:
    """Return a place in degrees, if it is one on the Earth."""
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):  # noqa: PLR2004  degrees
        raise MalformedError(f"{text!r} is no place on the Earth", field=FIELD)
    return longitude, latitude


def _utm(parts: list[str], base: int) -> Corners:
    """Return metres of `zzeeeeeennnnnnn`."""
    found = [_matched(_UTM, part) for part in parts]
    zones = {int(zone) for zone, _, _ in found}
    points = tuple((_number(x, part), _number(y, part)) for (_, x, y), part in zip(found, parts, strict=True))
    return Corners(points, _zone(zones, base))


def _zone(zones: set[int], base: int) -> int:
    if len(zones) != 1 or not 1 <= min(zones) <= ZONES:
        raise UnsupportedError(f"corners in zones {sorted(zones)}; one of 1 to {ZONES} is read", field=FIELD)
    return base + zones.pop()


def _mgrs(parts: list[str]) -> Corners:
    """Return metres of `zzBJKeeeeennnnn`."""
    found = [parse_mgrs(part) for part in parts]
    bases = {NORTH if one.is_north else SOUTH for one in found}
    if len(bases) != 1:
        raise UnsupportedError("corners on both sides of the equator", field=FIELD)
    points = tuple((one.easting, one.northing) for one in found)
    return Corners(points, _zone({one.zone for one in found}, bases.pop()))
