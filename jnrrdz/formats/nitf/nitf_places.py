"""Where an image lies by extensions that say it more precisely than IGEOLO, as GDAL takes them.

May touch errors, the corners of IGEOLO, and the extensions' bytes.  BLOCKA repeats the corners in
hundredths of a second; GEOLOB has an origin and pixels to the full circle; a frame of the raster
product format (RPF) has a table of its parts, and one of them has the corners as floating point.
Spec: STDI-0002 (BLOCKA), DIGEST part 2 annex D (GEOLOB), MIL-STD-2411 (RPF)
"""

import math
import re
import struct
from collections.abc import Callable, Sequence

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nitf.nitf_igeolo import WGS84, Corners, Point, checked
from jnrrdz.formats.nitf.nitf_tre import Tre

type ReadRange = Callable[[int, int], bytes]

BLOCKA, GEOLOB, RPFIMG, RPFHDR = "BLOCKA", "GEOLOB", "RPFIMG", b"RPFHDR"
BLOCKA_BYTES, LINES, FIRST_PLACE, PLACE_BYTES = 123, slice(7, 12), 34, 21
IGEOLO_ORDER = (3, 0, 1, 2)
"""BLOCKA begins with the upper right corner and goes on clockwise."""

GEOLOB_FIELDS = (slice(0, 9), slice(9, 18), slice(18, 33), slice(33, 48))
GEOLOB_BYTES = 48
CIRCLE = 360

LOCATIONS = struct.Struct(">HIHHI")
LOCATION = struct.Struct(">HII")
COVERAGE = struct.Struct(">8d")
HEADER_COMPONENT, COVERAGE_SECTION = 128, 130
TRE_HEAD = 11
NEAR = 0.1
"""Degrees by which a coverage may be beside IGEOLO where the frame's header is not where its table says."""

_DMS = re.compile(r"([NS])(\d\d)(\d\d)(\d\d\.\d\d)([EW])(\d{3})(\d\d)(\d\d\.\d\d)")
_DECIMAL = re.compile(r"([+-]\d\d\.\d{6})([+-]\d{3}\.\d{6})")


def blocka_corners(tres: Sequence[Tre], rows: int) -> Corners | None:
    """Return the corners of the first BLOCKA, None where it gives none or is of another block than the image."""
    tre = next((one for one in tres if one.tag == BLOCKA), None)
    if tre is None or len(tre.data) != BLOCKA_BYTES or tre.data[LINES] != f"{rows:05}".encode():
        return None
    text = tre.data.decode("latin-1")
    places = [text[start : start + PLACE_BYTES] for start in range(FIRST_PLACE, BLOCKA_BYTES - 5, PLACE_BYTES)]
    if any(place[0] == " " for place in places):
        return None
    points = [_place(place) for place in places]
    return Corners(tuple(points[number] for number in IGEOLO_ORDER), WGS84)


def _place(text: str) -> Point:
    """Return degrees of `Xddmmss.ssYdddmmss.ss` or `+dd.dddddd+ddd.dddddd`."""
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        return checked(float(decimal[2]), float(decimal[1]), text)
    found = _DMS.fullmatch(text)
    if found is None:
        raise MalformedError(f"{text!r} is no corner", field=BLOCKA)
    north, east = (
        float(found[start + 1]) + float(found[start + 2]) / 60 + float(found[start + 3]) / 3600 for start in (1, 5)
    )
    return checked(-east if found[5] == "W" else east, -north if found[1] == "S" else north, text)


def geolob_corners(tres: Sequence[Tre], rows: int, columns: int) -> Corners | None:
    """Return the corners that GEOLOB's origin and pixels to the circle make, None without it."""
    tre = next((one for one in tres if one.tag == GEOLOB), None)
    if tre is None or len(tre.data) != GEOLOB_BYTES:
        return None
    across, down, west, north = (_number(tre.data[field]) for field in GEOLOB_FIELDS)
    if across <= 0 or down <= 0:
        raise MalformedError(f"{across:g} and {down:g} pixels to the circle", field=GEOLOB)
    east, south = west + columns * CIRCLE / across, north - rows * CIRCLE / down
    checked(west, north, f"{west:g}, {north:g}")
    return Corners(((west, north), (east, north), (east, south), (west, south)), WGS84, at_edges=True)


def _number(text: bytes) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise MalformedError(f"{text!r} is no number", field=GEOLOB)
    return found


def rpf_corners(tres: Sequence[Tre], read: ReadRange, igeolo: Corners | None) -> Corners | None:
    """Return the corners in an RPF frame's coverage section, None where it has none that can be trusted.

    Files that were edited have tables whose places are no longer right: the header of the frame has to
    be where its table says, if it does, or the corners have to be IGEOLO's.
    """
    tre = next((one for one in tres if one.tag == RPFIMG), None)
    places = {} if tre is None else _locations(tre.data)
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
    if not (_is_in_place(places, read) or _is_near(points, igeolo.points)):
        return None
    return Corners(points, WGS84, at_edges=True)


def _locations(data: bytes) -> dict[int, int]:
    """Return where in the file the parts of an RPF frame stand, by their numbers."""
    if len(data) < LOCATIONS.size:
        return {}
    _, start, count, width, _ = LOCATIONS.unpack_from(data)
    table = data[start : start + count * LOCATION.size]
    if width != LOCATION.size or len(table) != count * LOCATION.size:
        return {}
    return {number: place for number, _, place in LOCATION.iter_unpack(table)}


def _is_in_place(places: dict[int, int], read: ReadRange) -> bool:
    """Whether a frame's header is where the table has it; a table need not have it."""
    if HEADER_COMPONENT not in places:
        return True
    start = places[HEADER_COMPONENT] - TRE_HEAD
    return read(start, start + len(RPFHDR)) == RPFHDR


def _is_near(points: Sequence[Point], others: Sequence[Point]) -> bool:
    pairs = zip(points, others, strict=True)
    return all(
        abs(math.remainder(x - east, CIRCLE)) < NEAR and abs(y - north) < NEAR for (x, y), (east, north) in pairs
    )
