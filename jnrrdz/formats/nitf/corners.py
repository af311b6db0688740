"""The four corners of an image: IGEOLO, and the extensions that repeat it more precisely, as GDAL takes them.

ICORDS says how IGEOLO writes its corners, which are those pixels' centres: upper left, upper right, lower
right, lower left.  A reference of the military grid (MGRS) names a zone, a band of latitude, a square of
100 km, and metres in it; the letters of squares repeat, and the band says which repetition is meant.
BLOCKA repeats the corners in hundredths of a second; GEOLOB has an origin and pixels to the full circle;
a frame of the raster product format (RPF) has a table of its parts, and one of them, the coverage
section, has the corners as floating point.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, IGEOLO), MIL-STD-2500A (ICORDS C and U),
NGA.STND.0037 (MGRS), https://earth-info.nga.mil/php/download.php?file=coord-grids,
STDI-0002 (BLOCKA), DIGEST part 2 annex D (GEOLOB), MIL-STD-2411 (RPF)
"""

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.header import ReadRange
from jnrrdz.formats.nitf.tre import Tre, field_bytes, find_tre
from jnrrdz.formats.nitf.tre_tables import STRICT, TRES

LATITUDE_BANDS = "CDEFGHJKLMNPQRSTUVWX"
SQUARE_COLUMNS = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")
"""Letters of the squares from west to east, for zones 1, 2, 3 and so on in turn."""

SQUARE_ROWS = "ABCDEFGHJKLMNPQRSTUV"
SQUARE = 100_000
CYCLE = len(SQUARE_ROWS) * SQUARE
FIELD = "IGEOLO"

LOWEST = {
    "C": 1_100_000,
    "D": 2_000_000,
    "E": 2_800_000,
    "F": 3_700_000,
    "G": 4_600_000,
    "H": 5_500_000,
    "J": 6_400_000,
    "K": 7_300_000,
    "L": 8_200_000,
    "M": 9_100_000,
    "N": 0,
    "P": 800_000,
    "Q": 1_700_000,
    "R": 2_600_000,
    "S": 3_500_000,
    "T": 4_400_000,
    "U": 5_300_000,
    "V": 6_200_000,
    "W": 7_000_000,
    "X": 7_900_000,
}
"""The least northing of each band of latitude, rounded down to a square."""

_REFERENCE = re.compile(rf"([0-9]{{2}})([{LATITUDE_BANDS}])([A-HJ-NP-Z])([{SQUARE_ROWS}])([0-9]{{5}})([0-9]{{5}})")


class Utm(NamedTuple):
    """A place in a zone of UTM."""

    zone: int
    is_north: bool
    easting: float
    northing: float


def parse_mgrs(text: str) -> Utm:
    """Return the place of a reference of 15 characters."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise MalformedError(f"{text!r} is no MGRS reference of 15 characters", field=FIELD)
    zone, band, column, row = int(match[1]), match[2], match[3], match[4]
    columns = SQUARE_COLUMNS[(zone - 1) % len(SQUARE_COLUMNS)]
    if column not in columns:
        raise MalformedError(f"{text!r}: zone {zone} has no square {column}", field=FIELD)
    # the letters of rows begin five squares later in zones of even number
    shift = 5 if zone % 2 == 0 else 0
    northing = ((SQUARE_ROWS.index(row) - shift) % len(SQUARE_ROWS)) * SQUARE
    while northing < LOWEST[band]:
        northing += CYCLE
    easting = (columns.index(column) + 1) * SQUARE
    return Utm(zone, band >= "N", easting + float(match[5]), northing + float(match[6]))


type Point = tuple[float, float]
"""x and y: longitude and latitude, or easting and northing."""

CORNERS = 4
WIDTH = 15
WGS84 = 4326
NORTH, SOUTH = 32600, 32700
ZONES = 60
FLATTENING = 1 / 298.257223563

_DEGREES = re.compile(r"([0-9 ]{2})([0-9 ]{2})([0-9 ]{2})([NS])([0-9 ]{3})([0-9 ]{2})([0-9 ]{2})([EW])")
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

    @property
    def inset(self) -> float:
        """How far the points are from the image's edges, in pixels."""
        return 0.0 if self.at_edges else 0.5


def parse_igeolo(text: str, kind: str, *, is_20: bool = False) -> Corners | None:
    """Return the corners of an image, None where the header gives none; `kind` is ICORDS."""
    if kind in {"", " "} or (is_20 and kind == "N") or not text.strip():
        return None
    padded = text.ljust(CORNERS * WIDTH)
    parts = [padded[start : start + WIDTH] for start in range(0, CORNERS * WIDTH, WIDTH)]
    if kind == "U" or (kind in {"N", "S"} and not is_20):
        places = [parse_mgrs(part) if kind == "U" else _utm(part, is_north=kind == "N") for part in parts]
        if len({place.is_north for place in places}) != 1:
            raise UnsupportedError("corners on both sides of the equator", field=FIELD)
        return Corners(tuple((place.easting, place.northing) for place in places), _zone_code(places))
    if kind not in {"C", "D", "G"}:
        raise UnsupportedError(f"{kind!r}; C, D, G, N, S and U are read", field="ICORDS")
    return Corners(tuple(_decimal(part) if kind == "D" else _sexagesimal(part, kind) for part in parts), WGS84)


def _matched(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = pattern.fullmatch(text)
    if match is None:
        raise MalformedError(f"{text!r} is no corner", field=FIELD)
    return match.groups()


def _number(part: str, text: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise MalformedError(f"{text!r} is no corner", field=FIELD) from None


def _sexagesimal(text: str, kind: str) -> Point:
    """Return geodetic degrees of `ddmmssXdddmmssY`, which are geocentric if ICORDS is C.

    Blanks are what is not known of degrees, minutes and seconds, at the end only.
    """
    values = _matched(_DEGREES, text.upper())
    degrees = []
    for parts in (values[:3], values[4:7]):
        known = [part for part in parts if part.strip()]
        if not known or known != list(parts[: len(known)]):
            raise MalformedError(f"{text.upper()!r} is no corner", field=FIELD)
        degrees.append(sum(_number(part, text.upper()) / 60.0**power for power, part in enumerate(known)))
    latitude, longitude = degrees
    x, y = check_degrees(longitude * (-1 if values[7] == "W" else 1), latitude * (-1 if values[3] == "S" else 1), text)
    if kind == "C":
        y = math.degrees(math.atan(math.tan(math.radians(y)) / (1 - FLATTENING) ** 2))
    return x, y


def _decimal(text: str) -> Point:
    """Return degrees of `+dd.ddd+ddd.ddd`."""
    latitude, longitude = _matched(_DECIMAL, text)
    return check_degrees(_number(longitude, text), _number(latitude, text), text)


def check_degrees(longitude: float, latitude: float, text: str) -> Point:
    """Return a place in degrees, if it is one on the Earth."""
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):  # noqa: PLR2004  degrees
        raise MalformedError(f"{text!r} is no place on the Earth", field=FIELD)
    return longitude, latitude


def _utm(text: str, *, is_north: bool) -> Utm:
    """Return metres of `zzeeeeeennnnnnn`."""
    zone, x, y = _matched(_UTM, text)
    return Utm(int(zone), is_north, _number(x, text), _number(y, text))


def _zone_code(places: Sequence[Utm]) -> int:
    """Return the EPSG code of the one zone that places are in."""
    zones = {place.zone for place in places}
    if len(zones) != 1 or not 1 <= min(zones) <= ZONES:
        raise UnsupportedError(f"corners in zones {sorted(zones)}; one of 1 to {ZONES} is read", field=FIELD)
    return (NORTH if places[0].is_north else SOUTH) + zones.pop()


BLOCKA, GEOLOB, RPFIMG, RPFHDR = "BLOCKA", "GEOLOB", "RPFIMG", b"RPFHDR"
BLOCKA_BYTES, GEOLOB_BYTES = 123, 48
BLOCKA_ORDER = ("FRLC_LOC", "LRLC_LOC", "LRFC_LOC", "FRFC_LOC")
"""BLOCKA begins with the upper right corner and goes on clockwise."""

CIRCLE = 360

LOCATIONS = struct.Struct(">HIHHI")
LOCATION = struct.Struct(">HII")
COVERAGE = struct.Struct(">8d")
HEADER_COMPONENT, COVERAGE_SECTION = 128, 130
TRE_HEAD = 11
NEAR = 0.1
"""Degrees by which a coverage may be beside IGEOLO where the frame's header is not where its table says."""

_BLOCKA_DEGREES = re.compile(r"([NS])(\d\d)(\d\d)(\d\d\.\d\d)([EW])(\d{3})(\d\d)(\d\d\.\d\d)")
_BLOCKA_DECIMAL = re.compile(r"([+-]\d\d\.\d{6})([+-]\d{3}\.\d{6})")


def blocka_corners(tres: Sequence[Tre], rows: int) -> Corners | None:
    """Return the corners of the first BLOCKA, None where it gives none or is of another block than the image."""
    data = find_tre(tres, BLOCKA)
    if data is None or len(data) != BLOCKA_BYTES:
        return None
    fields = field_bytes(STRICT[BLOCKA], data)
    places = [fields[name].decode("latin-1") for name in BLOCKA_ORDER]
    if fields["L_LINES"] != f"{rows:05}".encode() or any(place[0] == " " for place in places):
        return None
    first, *others = (_blocka_place(place) for place in places)
    return Corners((others.pop(), first, *others), WGS84)


def _blocka_place(text: str) -> Point:
    """Return degrees of `Xddmmss.ssYdddmmss.ss` or `+dd.dddddd+ddd.dddddd`."""
    decimal = _BLOCKA_DECIMAL.fullmatch(text)
    if decimal is not None:
        return check_degrees(float(decimal[2]), float(decimal[1]), text)
    match = _BLOCKA_DEGREES.fullmatch(text)
    if match is None:
        raise MalformedError(f"{text!r} is no corner", field=BLOCKA)
    north, east = (
        float(match[start + 1]) + float(match[start + 2]) / 60 + float(match[start + 3]) / 3600 for start in (1, 5)
    )
    return check_degrees(-east if match[5] == "W" else east, -north if match[1] == "S" else north, text)


def geolob_corners(tres: Sequence[Tre], rows: int, columns: int) -> Corners | None:
    """Return the corners that GEOLOB's origin and pixels to the circle make, None without it."""
    data = find_tre(tres, GEOLOB)
    if data is None or len(data) != GEOLOB_BYTES:
        return None
    across, down, west, north = (parse_number(text, GEOLOB) for text in field_bytes(TRES[GEOLOB], data).values())
    if across <= 0 or down <= 0:
        raise MalformedError(f"{across:g} and {down:g} pixels to the circle", field=GEOLOB)
    east, south = west + columns * CIRCLE / across, north - rows * CIRCLE / down
    check_degrees(west, north, f"{west:g}, {north:g}")
    return Corners(((west, north), (east, north), (east, south), (west, south)), WGS84, at_edges=True)


def parse_number(text: bytes, field: str) -> float:
    """Return the number that a field of an extension holds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise MalformedError(f"{text!r} is no number", field=field)
    return number


def rpf_corners(tres: Sequence[Tre], read: ReadRange, igeolo: Corners | None) -> Corners | None:
    """Return the corners in an RPF frame's coverage section, None where it has none that can be trusted.

    Files that were edited have tables whose places are no longer right: the header of the frame has to
    be where its table says, if it does, or the corners have to be IGEOLO's.
    """
    places = _rpf_locations(find_tre(tres, RPFIMG) or b"")
    if COVERAGE_SECTION not in places or igeolo is None:
        return None
    data = read(places[COVERAGE_SECTION], places[COVERAGE_SECTION] + COVERAGE.size)
    if len(data) != COVERAGE.size:
        return None
    values = COVERAGE.unpack(data)
    upper_left, lower_left, upper_right, lower_right = zip(values[1::2], values[::2], strict=True)
    points = (upper_left, upper_right, lower_right, lower_left)
    if not all(abs(x) <= CIRCLE / 2 and abs(y) <= CIRCLE / 4 for x, y in points):
        return None
    is_near = all(
        abs(math.remainder(x - east, CIRCLE)) < NEAR and abs(y - north) < NEAR
        for (x, y), (east, north) in zip(points, igeolo.points, strict=True)
    )
    header = places.get(HEADER_COMPONENT, TRE_HEAD) - TRE_HEAD
    is_in_place = HEADER_COMPONENT not in places or read(header, header + len(RPFHDR)) == RPFHDR
    return Corners(points, WGS84, at_edges=True) if is_near or is_in_place else None


def _rpf_locations(data: bytes) -> dict[int, int]:
    """Return where in the file the parts of an RPF frame stand, by their numbers."""
    if len(data) < LOCATIONS.size:
        return {}
    _, start, count, width, _ = LOCATIONS.unpack_from(data)
    table = data[start : start + count * LOCATION.size]
    if width != LOCATION.size or len(table) != count * LOCATION.size:
        return {}
    return {number: place for number, _, place in LOCATION.iter_unpack(table)}


def unwind(corners: Corners) -> Corners:
    """Return corners on both sides of the antimeridian as ones that follow each other: beyond 180 degrees."""
    if corners.epsg != WGS84:
        return corners
    first = corners.points[0][0]
    turns = ((x + CIRCLE * round((first - x) / CIRCLE), y) for x, y in corners.points)
    return replace(corners, points=tuple(turns))


def check_order(corners: Corners) -> Corners:
    """Return corners, if their outline does not cross itself: else they are not in the order that the standard has."""
    if {-1.0, 1.0} <= set(_turns(corners.points)):
        raise MalformedError("corners that are not those of a convex area, in order", field=FIELD)
    return corners


def _turns(points: Sequence[Point]) -> list[float]:
    """Return to which side the outline turns at each corner."""
    corners = np.array(points)
    sides = np.roll(corners, -1, axis=0) - corners
    after = np.roll(sides, -1, axis=0)
    turns: list[float] = np.sign(sides[:, 0] * after[:, 1] - sides[:, 1] * after[:, 0]).tolist()
    return turns


def is_crossed(points: Sequence[Point]) -> bool:
    """Whether the left side crosses the right one: corners row by row, or column by column."""
    first, second, third, fourth = points
    # they are the diagonals of this outline, and cross if and only if it is convex
    return set(_turns((first, second, fourth, third))) in ({1.0}, {-1.0})


def order_by_quadrant(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return corners as upper left, upper right, lower right, lower left; as they are if not one lies in each."""
    xs, ys = zip(*points, strict=True)
    x, y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    sides = [(-1, 1), (1, 1), (1, -1), (-1, -1)]
    placed = {(int(np.sign(east - x)), int(np.sign(north - y))): (east, north) for east, north in points}
    return tuple(placed[side] for side in sides) if set(placed) == set(sides) else tuple(points)
