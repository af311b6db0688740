"""Which of the places that a file gives for an image holds, and its corners in the order of the pixels.

May touch numpy, pyproj (imported only when called), the NITF layout and the model.  The order is
GDAL's: a map's projection, an RPF frame's own corners, GEOLOB, BLOCKA, and last IGEOLO, which has
the fewest digits.  What is refused of the better ones is said, and the next one holds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from jnrrdz.core.crs import KEPT, Crs
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.nitf.nitf_geosde import MapPlace, map_place
from jnrrdz.formats.nitf.nitf_igeolo import FIELD, WGS84, Corners, Point, parse_igeolo
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.nitf_places import ReadRange, blocka_corners, geolob_corners, rpf_corners
from jnrrdz.formats.nitf.nitf_tre import Tre

TURN = 360
CADRG, POLAR_ZONES = "CADRG", {"9", "J"}
RADIUS = 6378137
"""Of the sphere on which a polar frame is a rectangle."""

REORDERED = f"{FIELD}: the corners are not in the standard's order; they were taken by where they lie, north up"
SAME = 1e-6
"""By which the sides of such a rectangle may differ."""


@dataclass(frozen=True)
class Said:
    """The extensions and bytes that a place may be taken from."""

    read: ReadRange
    file_tres: Sequence[Tre] = ()
    tres: Sequence[Tre] = ()
    is_20: bool = False


@dataclass
class Found:
    """A place, and what is to be said of it."""

    place: Corners | MapPlace | None = None
    refused: list[str] = field(default_factory=list)
    remark: str | None = None


def place_of(image: NitfImage, said: Said) -> Found:
    """Return the best place of an image that can be understood."""
    found = Found()
    igeolo, remark = _tried(partial(_igeolo, image, said), found) or (None, None)
    ways: tuple[Callable[[], Corners | MapPlace | None], ...] = (
        lambda: _map(said),
        lambda: _whole(rpf_corners(said.tres, said.read, igeolo)),
        lambda: _whole(geolob_corners(said.tres, image.rows, image.columns)),
        lambda: _whole(blocka_corners(said.tres, image.rows)),
    )
    better = next((place for way in ways if (place := _tried(way, found)) is not None), None)
    found.place, found.remark = (igeolo, remark) if better is None else (better, None)
    if isinstance(found.place, Corners):
        found.place = _polar(image, found.place)
    return found


def _tried[T](way: Callable[[], T], found: Found) -> T | None:
    try:
        return way()
    except JnrrdzError as error:
        found.refused.append(str(error))
        return None


def _igeolo(image: NitfImage, said: Said) -> tuple[Corners | None, str | None]:
    """Return the corners of IGEOLO, and what was done with them."""
    corners = parse_igeolo(image.text("IGEOLO"), image.text("ICORDS"), is_20=said.is_20)
    if corners is None or not any(number for point in corners.points for number in point):  # zeros say nothing
        return None, None
    corners, remark = unwound(corners), None
    if is_crossed(corners.points):
        corners, remark = replace(corners, points=by_quadrant(corners.points)), REORDERED
    check_order(corners)
    return corners, remark


def _map(said: Said) -> MapPlace | None:
    place = map_place(said.file_tres, said.tres)
    if place is not None:
        crs_in_words(place.proj)  # parameters may contradict each other
    return place


@lru_cache(KEPT)
def crs_in_words(proj: str) -> Crs:
    """Return the CRS that PROJ's words mean."""
    from pyproj import CRS, exceptions  # noqa: PLC0415  0.1 s, of no use to most images

    try:
        return Crs(CRS.from_user_input(proj).to_wkt(version="WKT2_2019"))
    except exceptions.CRSError as error:
        raise MalformedError(f"{proj!r} is no CRS: {error}", field="PRJPSB") from error


def _whole(corners: Corners | None) -> Corners | None:
    """Return corners in one piece and in order."""
    if corners is None:
        return None
    corners = unwound(corners)
    check_order(corners)
    return corners


def unwound(corners: Corners) -> Corners:
    """Return corners on both sides of the antimeridian as ones that follow each other: beyond 180 degrees."""
    if corners.epsg != WGS84:
        return corners
    first = corners.points[0][0]
    turns = ((x + TURN * round((first - x) / TURN), y) for x, y in corners.points)
    return replace(corners, points=tuple(turns))


def check_order(corners: Corners) -> None:
    """Refuse corners whose outline crosses itself: they are not in the order that the standard has."""
    if {-1.0, 1.0} <= set(_turns(corners.points)):
        raise MalformedError("corners that are not those of a convex area, in order", field=FIELD)


def _turns(points: Sequence[Point]) -> list[float]:
    """Return to which side the outline turns at each corner."""
    corners = np.array(points)
    sides = np.roll(corners, -1, axis=0) - corners
    after = np.roll(sides, -1, axis=0)
    found: list[float] = np.sign(sides[:, 0] * after[:, 1] - sides[:, 1] * after[:, 0]).tolist()
    return found


def is_crossed(points: Sequence[Point]) -> bool:
    """Whether the left side crosses the right one: corners row by row, or column by column."""
    first, second, third, fourth = points
    # they are the diagonals of this outline, and cross if and only if it is convex
    return set(_turns((first, second, fourth, third))) in ({1.0}, {-1.0})


def by_quadrant(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return corners as upper left, upper right, lower right, lower left; as they are if not one lies in each."""
    xs, ys = zip(*points, strict=True)
    x, y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    sides = [(-1, 1), (1, 1), (1, -1), (-1, -1)]
    found = {(int(np.sign(east - x)), int(np.sign(north - y))): (east, north) for east, north in points}
    return tuple(found[side] for side in sides) if set(found) == set(sides) else tuple(points)


def _polar(image: NitfImage, corners: Corners) -> Corners:
    """Return the corners of a CADRG frame of a polar zone in the projection in which it is a rectangle."""
    title = image.text("ITITLE")
    if image.text("IID") != CADRG or len(title) < len("0123456789AB") or title[-1] not in POLAR_ZONES:
        return corners
    if corners.epsg != WGS84:
        return corners
    pole = math.copysign(1, corners.points[0][1])
    points = tuple(_azimuthal(point, pole) for point in corners.points)
    (left, top), (right, other_top), (other_right, bottom), (other_left, other_bottom) = points
    pairs = ((left, other_left), (right, other_right), (top, other_top), (bottom, other_bottom))
    if any(abs(one - two) >= SAME * abs(two) for one, two in pairs):
        return corners
    proj = f"+proj=aeqd +lat_0={90 * int(pole)} +lon_0=0 +R={RADIUS} +units=m"
    # GDAL takes them for outer corners whatever they were read from
    return replace(corners, points=points, at_edges=True, proj=proj)


def _azimuthal(point: Point, pole: float) -> Point:
    """Return metres from the pole, equidistant on the sphere."""
    x, y = math.radians(point[0]), math.radians(point[1])
    away = RADIUS * (math.pi / 2 - pole * y)
    return away * math.sin(x), -pole * away * math.cos(x)
