"""References of the military grid (MGRS) to metres of UTM.

May touch errors only.  A reference names a zone, a band of latitude, a square of 100 km, and metres
in it; the letters of squares repeat, and the band says which repetition is meant.
Spec: NGA.STND.0037, https://earth-info.nga.mil/php/download.php?file=coord-grids

The four corners of an image in IGEOLO, by the way that ICORDS says they are written.

May touch errors and the grid of MGRS.  The corners are those pixels' centres: upper left, upper
right, lower right, lower left.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, IGEOLO), MIL-STD-2500A (ICORDS C and U)

A map's projection and its pixels in it: GEOPSB and PRJPSB of the file header, MAPLOB of an image.

May touch errors and the extensions' bytes.  Only projections whose parameters GDAL reads in one
clear way, on WGS 84, with an origin in metres: others are named and left to IGEOLO.
Spec: DIGEST part 2 annex D (GEOPSB, PRJPSB, MAPLOB)

Rational polynomial coefficients of the extensions RPC00A and RPC00B, on the pixels of a chip.

May touch errors and the names that GeoTIFF's coefficients have.  Both extensions have the same
layout; A's polynomials have their terms in another order.  ICHIPB says which part of the full image,
at which size, a chip is.
Spec: STDI-0002 (volume 1, appendices B and E)
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.tre import Tre

BANDS = "CDEFGHJKLMNPQRSTUVWX"
COLUMNS = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")
"""Letters of the squares from west to east, for zones 1, 2, 3 and so on in turn."""

ROWS = "ABCDEFGHJKLMNPQRSTUV"
SQUARE = 100_000
CYCLE = len(ROWS) * SQUARE
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

_REFERENCE = re.compile(rf"([0-9]{{2}})([{BANDS}])([A-HJ-NP-Z])([{ROWS}])([0-9]{{5}})([0-9]{{5}})")


class Utm(NamedTuple):
    """A place in a zone of UTM."""

    zone: int
    is_north: bool
    easting: float
    northing: float


def parse_mgrs(text: str) -> Utm:
    """Return the place of a reference of 15 characters."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise MalformedError(f"{text!r} is no MGRS reference of 15 characters", field=FIELD)
    zone, band, column, row = int(found[1]), found[2], found[3], found[4]
    columns = COLUMNS[(zone - 1) % len(COLUMNS)]
    if column not in columns:
        raise MalformedError(f"{text!r}: zone {zone} has no square {column}", field=FIELD)
    # the letters of rows begin five squares later in zones of even number
    shift = 5 if zone % 2 == 0 else 0
    northing = ((ROWS.index(row) - shift) % len(ROWS)) * SQUARE
    while northing < LOWEST[band]:
        northing += CYCLE
    easting = (columns.index(column) + 1) * SQUARE
    return Utm(zone, band >= "N", easting + float(found[5]), northing + float(found[6]))


type Point = tuple[float, float]
"""x and y: longitude and latitude, or easting and northing."""

CORNERS = 4
WIDTH = 15
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


GEOPSB, PRJPSB, MAPLOB = "GEOPSB", "PRJPSB", "MAPLOB"
DATUM, CODE, COUNT, PARAMETERS, NITF_GEOSDE_WIDTH = slice(86, 90), slice(80, 82), slice(82, 83), 83, 15
NITF_GEOSDE_WGS84 = b"WGE"
MAPLOB_FIELDS = {
    "UNILOA": slice(3),
    "LOD": slice(3, 8),
    "LAD": slice(8, 13),
    "LSO": slice(13, 28),
    "PSO": slice(28, 43),
}
METRES = b"M"

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
    geodesy, projection = (_first(file_tres, tag) for tag in (GEOPSB, PRJPSB))
    origin = _first(tres, MAPLOB)
    if geodesy is None or projection is None or origin is None:
        return None
    datum = geodesy[DATUM].strip()
    if datum != NITF_GEOSDE_WGS84:
        raise UnsupportedError(f"datum {datum.decode('latin-1')!r}; WGE is read", field=f"{GEOPSB} DCD")
    return MapPlace(_proj(projection), _affine(origin))


def _first(tres: Sequence[Tre], tag: str) -> bytes | None:
    return next((tre.data for tre in tres if tre.tag == tag), None)


def _proj(data: bytes) -> str:
    code = data[CODE]
    if code not in PROJECTIONS:
        known = ", ".join(one.decode() for one in PROJECTIONS)
        raise UnsupportedError(f"{code.decode('latin-1')!r}; {known} are read", field=f"{PRJPSB} PCO")
    name, words = PROJECTIONS[code]
    names = words.split()
    count = int(_nitf_geosde_number(data[COUNT], f"{PRJPSB} NUM_PRJ"))
    if count < len(names):
        raise MalformedError(f"{count} parameters, {name} has {len(names)}", field=f"{PRJPSB} NUM_PRJ")
    fields = [
        data[at : at + NITF_GEOSDE_WIDTH]
        for at in range(PARAMETERS, PARAMETERS + NITF_GEOSDE_WIDTH * (count + 2), NITF_GEOSDE_WIDTH)
    ]
    values = [_nitf_geosde_number(field, f"{PRJPSB} parameter {number + 1}") for number, field in enumerate(fields)]
    parts = [*zip(names, values, strict=False), ("x_0", values[-2]), ("y_0", values[-1])]
    return " ".join([f"+proj={name}", *(f"+{key}={value!r}" for key, value in parts), "+datum=WGS84 +units=m"])


def _affine(data: bytes) -> tuple[float, float, float, float, float, float]:
    if data[MAPLOB_FIELDS["UNILOA"]].strip() != METRES:
        unit = data[MAPLOB_FIELDS["UNILOA"]].decode("latin-1")
        raise UnsupportedError(f"{unit!r}; M is read", field=f"{MAPLOB} UNILOA")
    across, down, west, north = (
        _nitf_geosde_number(data[MAPLOB_FIELDS[name]], f"{MAPLOB} {name}") for name in ("LOD", "LAD", "LSO", "PSO")
    )
    if across <= 0 or down <= 0:
        raise MalformedError(f"pixels of {across:g} by {down:g}", field=f"{MAPLOB} LOD, LAD")
    return (across, 0.0, west, 0.0, -down, north)


def _nitf_geosde_number(text: bytes, field: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise MalformedError(f"{text!r} is no number", field=field)
    return found


type Rpc = dict[str, float | list[float]]
"""GDAL's item names to numbers."""

SINGLE = (
    ("ERR_BIAS", 7),
    ("ERR_RAND", 7),
    ("LINE_OFF", 6),
    ("SAMP_OFF", 5),
    ("LAT_OFF", 8),
    ("LONG_OFF", 9),
    ("HEIGHT_OFF", 5),
    ("LINE_SCALE", 6),
    ("SAMP_SCALE", 5),
    ("LAT_SCALE", 8),
    ("LONG_SCALE", 9),
    ("HEIGHT_SCALE", 5),
)
POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
TERMS = 20
TERM_BYTES = 12
LENGTH = 1 + sum(width for _, width in SINGLE) + len(POLYNOMIALS) * TERMS * TERM_BYTES

A_TO_B = (0, 1, 2, 3, 4, 5, 6, 10, 7, 8, 9, 11, 14, 17, 12, 15, 18, 13, 16, 19)
"""For each term of B, the place of the same term in A."""


def rpc_of(tre: Tre) -> Rpc | None:
    """Return the coefficients of an extension, None where it says that it has none."""
    if len(tre.data) != LENGTH:
        raise MalformedError(f"{len(tre.data)} bytes where {LENGTH} belong", field=tre.tag)
    if tre.data[:1] != b"1":
        return None
    found: Rpc = {}
    at = 1
    for name, width in SINGLE:
        found[name] = _nitf_rpc_number(tre, at, width, name)
        at += width
    for name in POLYNOMIALS:
        terms = [_nitf_rpc_number(tre, at + TERM_BYTES * term, TERM_BYTES, name) for term in range(TERMS)]
        found[name] = [terms[place] for place in A_TO_B] if tre.tag == "RPC00A" else terms
        at += TERMS * TERM_BYTES
    return found


def _nitf_rpc_number(tre: Tre, at: int, width: int, name: str) -> float:
    text = tre.data[at : at + width]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MalformedError(f"{text!r} is no number", field=f"{tre.tag} {name}")
    return value


def rpc_at(rpc: Rpc, scale: tuple[float, float], start: tuple[float, float] = (0.0, 0.0)) -> Rpc:
    """Return the coefficients for other pixels: line and sample become `(value - start) * scale`.

    Values count from pixel corners here; the coefficients' own count from centres.
    """
    found = dict(rpc)
    for axis, factor, first in (("LINE", scale[0], start[0]), ("SAMP", scale[1], start[1])):
        offset, size = found[f"{axis}_OFF"], found[f"{axis}_SCALE"]
        if isinstance(offset, float) and isinstance(size, float):
            found[f"{axis}_OFF"] = (offset + 0.5 - first) * factor - 0.5
            found[f"{axis}_SCALE"] = size * factor
    return found


def chipped(rpc: Rpc, chip: Mapping[str, Any]) -> Rpc:
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
