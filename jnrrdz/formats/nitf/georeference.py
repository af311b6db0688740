"""Where an image segment lies on the Earth, as the variable and the attributes that readers look for.

A map has a projection and pixels in it: GEOPSB and PRJPSB of the file header, MAPLOB of the image.  Only
projections are taken whose parameters GDAL reads in one clear way, on WGS 84, with an origin in metres:
others are named and left to the corners.  Corners are an affine where they are those of one to a quarter
of a pixel, as GDAL has it, else control points.  RPC00A and RPC00B have rational polynomial coefficients;
ICHIPB says which part of the full image, at which size, a chip is.  What cannot be understood never costs
the pixels: it is named in an attribute and a warning, and the next best place holds.
Spec: DIGEST part 2 annex D (GEOPSB, PRJPSB, MAPLOB), STDI-0002 (volume 1, appendices B and E)
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jnrrdz.core.crs import KEPT, Crs
from jnrrdz.core.crs_geokeys import Affine, GroundControlPoint, made, registered
from jnrrdz.core.georeference import Georeference, Rpc, rpc_at
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nitf.corners import (
    FIELD,
    WGS84,
    Corners,
    blocka_corners,
    check_order,
    geolob_corners,
    is_crossed,
    order_by_quadrant,
    parse_igeolo,
    parse_number,
    rpf_corners,
    unwind,
)
from jnrrdz.formats.nitf.header import ReadRange
from jnrrdz.formats.nitf.image import NitfImage
from jnrrdz.formats.nitf.tre import Tre, field_bytes, find_tre
from jnrrdz.formats.nitf.tre_tables import STRICT, TRES
from jnrrdz.lazy import library

if TYPE_CHECKING:
    import pyproj
else:
    pyproj = library("pyproj")  # 0.1 s, of no use to most images

GEOPSB, PRJPSB, MAPLOB = "GEOPSB", "PRJPSB", "MAPLOB"
DATUM, METRES = b"WGE", b"M"
PARAMETERS, PARAMETER_BYTES = 83, 15
"""Where PRJPSB's parameters begin, and how long each is."""

PROJECTIONS = {
    b"AC": ("aea", "lon_0 lat_1 lat_2 lat_0"),
    b"AK": ("laea", "lon_0 lat_0"),
    b"AL": ("aeqd", "lon_0 lat_0"),
    b"KA": ("eqdc", "lon_0 lat_1 lat_2 lat_0"),
    b"LE": ("lcc", "lon_0 lat_1 lat_2 lat_0"),
    b"LI": ("cea", "lon_0 lat_ts"),
    b"SA": ("sinu", "lon_0"),
    b"TC": ("tmerc", "lon_0 k_0 lat_0"),
}
"""PCO to PROJ's name, and PROJ's names of the parameters in PRJPSB's order."""


class MapPlace(NamedTuple):
    """A CRS in PROJ's words, and the affine of pixels in it."""

    proj: str
    affine: tuple[float, float, float, float, float, float]


def map_place(file_tres: Sequence[Tre], tres: Sequence[Tre]) -> MapPlace | None:
    """Return a map's CRS and affine, None where one of the three extensions is missing."""
    geodesy, projection, origin = find_tre(file_tres, GEOPSB), find_tre(file_tres, PRJPSB), find_tre(tres, MAPLOB)
    if geodesy is None or projection is None or origin is None:
        return None
    datum = field_bytes(STRICT[GEOPSB], geodesy)["DCD"].strip()
    if datum != DATUM:
        raise UnsupportedError(f"datum {datum.decode('latin-1')!r}; WGE is read", field=f"{GEOPSB} DCD")
    proj = _proj(projection)
    fields = field_bytes(TRES[MAPLOB], origin)
    unit = fields.pop("UNILOA")
    if unit.strip() != METRES:
        raise UnsupportedError(f"{unit.decode('latin-1')!r}; M is read", field=f"{MAPLOB} UNILOA")
    across, down, west, north = (parse_number(text, f"{MAPLOB} {name}") for name, text in fields.items())
    if across <= 0 or down <= 0:
        raise MalformedError(f"pixels of {across:g} by {down:g}", field=f"{MAPLOB} LOD, LAD")
    crs_in_words(proj)  # parameters may contradict each other
    return MapPlace(proj, (across, 0.0, west, 0.0, -down, north))


def _proj(data: bytes) -> str:
    """Return PRJPSB's projection in PROJ's words."""
    fields = field_bytes(STRICT[PRJPSB], data)
    code = fields["PCO"]
    if code not in PROJECTIONS:
        known = ", ".join(name.decode() for name in PROJECTIONS)
        raise UnsupportedError(f"{code.decode('latin-1')!r}; {known} are read", field=f"{PRJPSB} PCO")
    name, words = PROJECTIONS[code]
    names = words.split()
    count = int(parse_number(fields["NUM_PRJ"], f"{PRJPSB} NUM_PRJ"))
    if count < len(names):
        raise MalformedError(f"{count} parameters, {name} has {len(names)}", field=f"{PRJPSB} NUM_PRJ")
    values = []
    for number in range(count + 2):
        start = PARAMETERS + PARAMETER_BYTES * number
        values.append(parse_number(data[start : start + PARAMETER_BYTES], f"{PRJPSB} parameter {number + 1}"))
    parts = [*zip(names, values, strict=False), ("x_0", values[-2]), ("y_0", values[-1])]
    return " ".join([f"+proj={name}", *(f"+{key}={value!r}" for key, value in parts), "+datum=WGS84 +units=m"])


@lru_cache(KEPT)
def crs_in_words(proj: str) -> Crs:
    """Return the CRS that PROJ's words mean."""
    try:
        return Crs(pyproj.CRS.from_user_input(proj).to_wkt(version="WKT2_2019"))
    except pyproj.exceptions.CRSError as error:
        raise MalformedError(f"{proj!r} is no CRS: {error}", field="PRJPSB") from error


RPC_BYTES = 1041
POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
TERMS = 20
A_TO_B = (0, 1, 2, 3, 4, 5, 6, 10, 7, 8, 9, 11, 14, 17, 12, 15, 18, 13, 16, 19)
"""For each term of RPC00B, the place of the same term in RPC00A."""


def parse_rpc(tre: Tre) -> Rpc | None:
    """Return the coefficients of an extension, None where it says that it has none."""
    if len(tre.data) != RPC_BYTES:
        raise MalformedError(f"{len(tre.data)} bytes where {RPC_BYTES} belong", field=tre.tag)
    fields = field_bytes(STRICT["RPC00B"], tre.data)
    if fields.pop("SUCCESS") != b"1":
        return None
    rpc: Rpc = {name: parse_number(text, f"{tre.tag} {name}") for name, text in fields.items() if "COEFF" not in name}
    for name in POLYNOMIALS:
        terms = [parse_number(fields[f"{name}_{number + 1}"], f"{tre.tag} {name}") for number in range(TERMS)]
        rpc[name] = [terms[place] for place in A_TO_B] if tre.tag == "RPC00A" else terms
    return rpc


def chip_rpc(rpc: Rpc, chip: Mapping[str, Any]) -> Rpc:
    """Return the coefficients of the full image for a chip of it, as ICHIPB describes that."""
    if chip.get("XFRM_FLG") not in {0, "00"}:
        return rpc
    scales, starts = [], []
    for axis in ("ROW", "COL"):
        last = "21" if axis == "ROW" else "12"
        op_first, op_last, fi_first, fi_last = (
            float(chip[f"{kind}_{axis}_{corner}"]) for kind in ("OP", "FI") for corner in ("11", last)
        )
        if op_last == op_first or fi_last == fi_first:
            return rpc
        scale = (op_last - op_first) / (fi_last - fi_first)
        scales.append(scale)
        starts.append(fi_first - op_first / scale)
    return rpc_at(rpc, (scales[0], scales[1]), (starts[0], starts[1]))


CADRG, POLAR_ZONES = "CADRG", {"9", "J"}
RADIUS = 6378137
"""Of the sphere on which a polar frame is a rectangle."""

REORDERED = f"{FIELD}: the corners are not in the standard's order; they were taken by where they lie, north up"
SAME = 1e-6
"""By which the sides of such a rectangle may differ."""


@dataclass(frozen=True)
class PlaceSources:
    """The extensions and bytes that a place may be taken from, beside IGEOLO."""

    read: ReadRange
    file_tres: Sequence[Tre] = ()
    tres: Sequence[Tre] = ()
    is_20: bool = False


def choose_place(image: NitfImage, sources: PlaceSources) -> tuple[Corners | MapPlace | None, list[str], str | None]:
    """Return the best place of an image that can be understood, why others cannot, and what was done with it.

    The order is GDAL's: a map's projection, an RPF frame's own corners, GEOLOB, BLOCKA, and last
    IGEOLO, which has the fewest digits.
    """
    refused: list[str] = []

    def attempt[T](way: Callable[[], T]) -> T | None:
        try:
            return way()
        except JnrrdzError as error:
            refused.append(str(error))
            return None

    def in_order(corners: Corners | None) -> Corners | None:
        return None if corners is None else check_order(unwind(corners))

    igeolo, remark = attempt(lambda: _igeolo(image, is_20=sources.is_20)) or (None, None)
    ways: tuple[Callable[[], Corners | MapPlace | None], ...] = (
        lambda: map_place(sources.file_tres, sources.tres),
        lambda: in_order(rpf_corners(sources.tres, sources.read, igeolo)),
        lambda: in_order(geolob_corners(sources.tres, image.rows, image.columns)),
        lambda: in_order(blocka_corners(sources.tres, image.rows)),
    )
    better = next((place for way in ways if (place := attempt(way)) is not None), None)
    place = igeolo if better is None else better
    if isinstance(place, Corners):
        place = _polar(image, place)
    return place, refused, remark if better is None else None


def _igeolo(image: NitfImage, *, is_20: bool) -> tuple[Corners | None, str | None]:
    """Return the corners of IGEOLO, and what was done with them."""
    corners = parse_igeolo(image.text("IGEOLO"), image.text("ICORDS"), is_20=is_20)
    if corners is None or not any(number for point in corners.points for number in point):  # zeros say nothing
        return None, None
    corners, remark = unwind(corners), None
    if is_crossed(corners.points):
        corners, remark = replace(corners, points=order_by_quadrant(corners.points)), REORDERED
    return check_order(corners), remark


def _polar(image: NitfImage, corners: Corners) -> Corners:
    """Return the corners of a CADRG frame of a polar zone in the projection in which it is a rectangle."""
    title = image.text("ITITLE")
    if image.text("IID") != CADRG or len(title) < len("0123456789AB") or title[-1] not in POLAR_ZONES:
        return corners
    if corners.epsg != WGS84:
        return corners
    pole = math.copysign(1, corners.points[0][1])
    points = []
    for x, y in corners.points:
        # metres from the pole, equidistant on the sphere
        away = RADIUS * (math.pi / 2 - pole * math.radians(y))
        points.append((away * math.sin(math.radians(x)), -pole * away * math.cos(math.radians(x))))
    (left, top), (right, other_top), (other_right, bottom), (other_left, other_bottom) = points
    pairs = ((left, other_left), (right, other_right), (top, other_top), (bottom, other_bottom))
    if any(abs(side - other) >= SAME * abs(other) for side, other in pairs):
        return corners
    proj = f"+proj=aeqd +lat_0={90 * int(pole)} +lon_0=0 +R={RADIUS} +units=m"
    # GDAL takes them for outer corners whatever they were read from
    return replace(corners, points=tuple(points), at_edges=True, proj=proj)


type Shape = tuple[int, int]
TOLERANCE = 0.25
"""Of a pixel, by which a corner may lie beside where an affine puts it."""


def find_georeference(image: NitfImage, rpc: Rpc | None, sources: PlaceSources) -> Georeference:
    """Return where an image lies, as far as that can be understood."""
    place, reasons, remark = choose_place(image, sources)
    for reason in reasons:
        warnings.warn(f"a georeference is left out: {reason}", stacklevel=2)
    refused = "; ".join(reasons) or None
    if place is None:
        return Georeference(rpc=rpc, refused=refused)
    if isinstance(place, MapPlace):
        return Georeference(crs_in_words(place.proj), place.affine, (), rpc, "Area", refused)
    if place.proj is None:
        wkt: str = made(registered("crs", place.epsg, FIELD), FIELD).to_wkt(version="WKT2_2019")
        crs = Crs(wkt, f"EPSG:{place.epsg}")
    else:
        crs = crs_in_words(place.proj)
    affine = fit_affine(place, (image.rows, image.columns))
    gcps = () if affine is not None else control_points(place, (image.rows, image.columns))
    return Georeference(crs, affine, gcps, rpc, None if affine is None else "Area", refused, remark)


def _marks(corners: Corners, shape: Shape) -> list[tuple[float, float]]:
    """Return column and row of what the corners are of, in IGEOLO's order: pixels' centres, or the outline."""
    (rows, columns), inset = shape, corners.inset
    right, bottom = columns - inset, rows - inset
    return [(inset, inset), (right, inset), (right, bottom), (inset, bottom)]


def control_points(corners: Corners, shape: Shape) -> tuple[GroundControlPoint, ...]:
    """Return the corners as control points."""
    return tuple(
        GroundControlPoint(*place, *point, 0.0)
        for place, point in zip(_marks(corners, shape), corners.points, strict=True)
    )


def fit_affine(corners: Corners, shape: Shape) -> Affine | None:
    """Return the affine that has the corners where they are; None where there is none."""
    rows, columns = shape
    high, wide = rows - 2 * corners.inset, columns - 2 * corners.inset
    if not high or not wide:  # a line has no other side
        return None
    upper_left, upper_right, lower_right, lower_left = points = np.array(corners.points)
    # of four corners of equal weight this is the least squares' solution
    across = (upper_right - upper_left + lower_right - lower_left) / (2 * wide)
    down = (lower_left - upper_left + lower_right - upper_right) / (2 * high)
    start = points.mean(axis=0) - across * (columns / 2) - down * (rows / 2)
    fitted = np.array(_marks(corners, shape)) @ np.array([across, down]) + start
    pixel = (np.abs(across).sum() + np.abs(down).sum()) / 2
    if pixel == 0 or np.isclose(across[0] * down[1], across[1] * down[0], rtol=1e-9, atol=0):
        return None
    if float(np.abs(fitted - points).max()) > TOLERANCE * pixel:
        return None
    (a, d), (b, e), (c, f) = across.tolist(), down.tolist(), start.tolist()
    return (a, b, c, d, e, f)
