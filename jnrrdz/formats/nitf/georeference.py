"""Where an image lies by extensions that say it more precisely than IGEOLO, as GDAL takes them.

May touch errors, the corners of IGEOLO, and the extensions' bytes.  BLOCKA repeats the corners in
hundredths of a second; GEOLOB has an origin and pixels to the full circle; a frame of the raster
product format (RPF) has a table of its parts, and one of them has the corners as floating point.
Spec: STDI-0002 (BLOCKA), DIGEST part 2 annex D (GEOLOB), MIL-STD-2411 (RPF)

Which of the places that a file gives for an image holds, and its corners in the order of the pixels.

May touch numpy, pyproj (imported only when called), the NITF layout and the model.  The order is
GDAL's: a map's projection, an RPF frame's own corners, GEOLOB, BLOCKA, and last IGEOLO, which has
the fewest digits.  What is refused of the better ones is said, and the next one holds.

Where an image segment lies on the Earth, as the variable and the attributes that readers look for.

May touch the NITF layout and the model.  The corners of IGEOLO are an affine where they are those of
one to a quarter of a pixel, as GDAL has it, else control points.  What cannot be understood never
costs the pixels: it is named in an attribute and a warning.
"""

import json
import math
import re
import struct
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from jnrrdz.core.arrays import Node, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.crs import KEPT, Crs
from jnrrdz.core.crs_geokeys import made, registered
from jnrrdz.core.georeference import GRID_MAPPING, Affine, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.nitf.corners import (
    FIELD,
    WGS84,
    Corners,
    MapPlace,
    Point,
    Rpc,
    checked,
    map_place,
    parse_igeolo,
    rpc_at,
)
from jnrrdz.formats.nitf.image import NitfImage
from jnrrdz.formats.nitf.tre import Tre

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


type Shape = tuple[int, int]
type Gcp = tuple[float, float, float, float, float]
"""Column and row (pixel corners), x, y, z."""

TOLERANCE = 0.25
"""Of a pixel, by which a corner may lie beside where an affine puts it."""


@dataclass(frozen=True)
class Geo:
    """A CRS, and an affine or control points, each where the segment gives one."""

    crs: Crs | None = None
    affine: Affine | None = None
    gcps: tuple[Gcp, ...] = ()
    rpc: Rpc | None = None
    refused: str | None = None
    """Why a place could not be understood."""

    remark: str | None = None
    """What was done with it."""

    @property
    def known(self) -> bool:
        """Whether there is anything to write."""
        return self.crs is not None or self.rpc is not None

    def at_level(self, full: Shape, level: Shape) -> "Geo":
        """Return the same place at the pixel size of a smaller version."""
        if full == level:
            return self
        rows, columns = level[0] / full[0], level[1] / full[1]
        affine = None if self.affine is None else level_affine(self.affine, full, level)
        gcps = tuple((column * columns, row * rows, x, y, z) for column, row, x, y, z in self.gcps)
        rpc = None if self.rpc is None else rpc_at(self.rpc, (rows, columns))
        return replace(self, affine=affine, gcps=gcps, rpc=rpc)

    def array_attributes(self) -> dict[str, Any]:
        """Return what the pixels' variable says."""
        return {"grid_mapping": GRID_MAPPING} if self.known else {}

    def variables(self) -> dict[str, Node]:
        """Return the grid mapping variable: a scalar without bytes, all is in its attributes."""
        if not self.known:
            return {}
        attributes = grid_mapping(self.crs, self.affine, self.gcps)
        if self.rpc is not None:
            # rioxarray writes and reads them as JSON text
            attributes["rpcs"] = json.dumps({name.lower(): value for name, value in self.rpc.items()})
        codecs = (bytes_("little"),)
        scalar = VirtualArray((), np.dtype("i8"), (), codecs, ChunkRefs.empty(1), (), np.int64(0), attributes)
        return {GRID_MAPPING: scalar}

    def group_attributes(self, shape: Shape) -> dict[str, Any]:
        """Return the conventions' attributes of a group that holds one level."""
        found: dict[str, Any] = {} if self.refused is None else {"georeference_refused": self.refused}
        if self.remark is not None:
            found["georeference_remark"] = self.remark
        if self.rpc is not None:
            found["rpc"] = self.rpc
        return found | spatial(shape, self.affine, self.crs)


def geo_of(image: NitfImage, rpc: Rpc | None, said: Said) -> Geo:
    """Return where an image lies, as far as that can be understood."""
    found = place_of(image, said)
    for reason in found.refused:
        warnings.warn(f"a georeference is left out: {reason}", stacklevel=2)
    refused = "; ".join(found.refused) or None
    place, shape = found.place, (image.rows, image.columns)
    if place is None:
        return Geo(rpc=rpc, refused=refused)
    if isinstance(place, MapPlace):
        return Geo(crs_in_words(place.proj), place.affine, (), rpc, refused)
    crs = registered_crs(place.epsg) if place.proj is None else crs_in_words(place.proj)
    affine = affine_of(place, shape)
    gcps = () if affine is not None else control_points(place, shape)
    return Geo(crs, affine, gcps, rpc, refused, found.remark)


def registered_crs(epsg: int) -> Crs:
    """Return the CRS of an EPSG code."""
    wkt: str = made(registered("crs", epsg, FIELD), FIELD).to_wkt(version="WKT2_2019")
    return Crs(wkt, f"EPSG:{epsg}")


def _marks(corners: Corners, shape: Shape) -> list[tuple[float, float]]:
    """Return column and row of what the corners are of, in IGEOLO's order: pixels' centres, or the outline."""
    (rows, columns), inset = shape, _inset(corners)
    right, bottom = columns - inset, rows - inset
    return [(inset, inset), (right, inset), (right, bottom), (inset, bottom)]


def _inset(corners: Corners) -> float:
    return 0.0 if corners.at_edges else 0.5


def control_points(corners: Corners, shape: Shape) -> tuple[Gcp, ...]:
    """Return the corners as control points."""
    return tuple((*place, *point, 0.0) for place, point in zip(_marks(corners, shape), corners.points, strict=True))


def affine_of(corners: Corners, shape: Shape) -> Affine | None:
    """Return the affine that has the corners where they are; None where there is none."""
    rows, columns = shape
    high, wide = rows - 2 * _inset(corners), columns - 2 * _inset(corners)
    if not high or not wide:  # a line has no other side
        return None
    upper_left, upper_right, lower_right, lower_left = points = np.array(corners.points)
    # of four corners of equal weight this is the least squares' solution
    across = (upper_right - upper_left + lower_right - lower_left) / (2 * wide)
    down = (lower_left - upper_left + lower_right - upper_right) / (2 * high)
    start = points.mean(axis=0) - across * (columns / 2) - down * (rows / 2)
    found = np.array([[column, row] for column, row in _marks(corners, shape)]) @ np.array([across, down]) + start
    pixel = (np.abs(across).sum() + np.abs(down).sum()) / 2
    if pixel == 0 or np.isclose(across[0] * down[1], across[1] * down[0], rtol=1e-9, atol=0):
        return None
    if float(np.abs(found - points).max()) > TOLERANCE * pixel:
        return None
    (a, d), (b, e), (c, f) = across.tolist(), down.tolist(), start.tolist()
    return (a, b, c, d, e, f)


def levels_attributes(geo: Geo, shapes: Sequence[Shape]) -> dict[str, Any]:
    """Return the attributes of a group whose children `0`, `1`, ... are levels of these shapes, finest first."""
    full = shapes[0]
    levels = [
        Level(
            name=str(number),
            shape_yx=shape,
            affine=geo.at_level(full, shape).affine,
            scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
            derived_from=None if number == 0 else str(number - 1),
        )
        for number, (finer, shape) in enumerate(zip([full, *shapes], shapes, strict=False))
    ]
    return multiscales(levels, geo.crs)
