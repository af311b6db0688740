"""A map's projection and its pixels in it: GEOPSB and PRJPSB of the file header, MAPLOB of an image.

May touch errors and the extensions' bytes.  Only projections whose parameters GDAL reads in one
clear way, on WGS 84, with an origin in metres: others are named and left to IGEOLO.
Spec: DIGEST part 2 annex D (GEOPSB, PRJPSB, MAPLOB)
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.nitf_tre import Tre

GEOPSB, PRJPSB, MAPLOB = "GEOPSB", "PRJPSB", "MAPLOB"
DATUM, CODE, COUNT, PARAMETERS, WIDTH = slice(86, 90), slice(80, 82), slice(82, 83), 83, 15
WGS84 = b"WGE"
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
    if datum != WGS84:
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
    count = int(_number(data[COUNT], f"{PRJPSB} NUM_PRJ"))
    if count < len(names):
        raise MalformedError(f"{count} parameters, {name} has {len(names)}", field=f"{PRJPSB} NUM_PRJ")
    fields = [data[at : at + WIDTH] for at in range(PARAMETERS, PARAMETERS + WIDTH * (count + 2), WIDTH)]
    values = [_number(field, f"{PRJPSB} parameter {number + 1}") for number, field in enumerate(fields)]
    parts = [*zip(names, values, strict=False), ("x_0", values[-2]), ("y_0", values[-1])]
    return " ".join([f"+proj={name}", *(f"+{key}={value!r}" for key, value in parts), "+datum=WGS84 +units=m"])


def _affine(data: bytes) -> tuple[float, float, float, float, float, float]:
    if data[MAPLOB_FIELDS["UNILOA"]].strip() != METRES:
        unit = data[MAPLOB_FIELDS["UNILOA"]].decode("latin-1")
        raise UnsupportedError(f"{unit!r}; M is read", field=f"{MAPLOB} UNILOA")
    across, down, west, north = (
        _number(data[MAPLOB_FIELDS[name]], f"{MAPLOB} {name}") for name in ("LOD", "LAD", "LSO", "PSO")
    )
    if across <= 0 or down <= 0:
        raise MalformedError(f"pixels of {across:g} by {down:g}", field=f"{MAPLOB} LOD, LAD")
    return (across, 0.0, west, 0.0, -down, north)


def _number(text: bytes, field: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise MalformedError(f"{text!r} is no number", field=field)
    return found
