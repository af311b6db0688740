"""A coordinate reference system from WKT of any dialect or a code, as files beside an image have it.

May touch errors, pyproj (imported only when called) and the model's own modules.
Spec: https://docs.ogc.org/is/18-010r7/18-010r7.html
"""

import re
from functools import lru_cache

from jnrrdz.core.crs import KEPT, Crs
from jnrrdz.core.crs_parts import json_of, made, registered

REGISTERED = re.compile(r"\s*EPSG:(\d{1,9})\s*", re.IGNORECASE)


def crs_from_wkt(wkt: str, field: str) -> Crs:
    """Return the CRS that a text (WKT 1, ESRI's, WKT 2, or a code as `EPSG:32633`) describes."""
    code = REGISTERED.fullmatch(wkt)
    crs = made(registered("crs", int(code[1]), field) if code else wkt, field)
    known = json_of(crs).get("id") or {}
    name = f"{known['authority']}:{known['code']}" if known else None
    text: str = crs.to_wkt(version="WKT2_2019")
    return Crs(text, name)


@lru_cache(KEPT)
def height_unit(crs: Crs) -> str | None:
    """Return the unit of the heights of a compound CRS, None for others, as GDAL has it."""
    known = made(crs.wkt, "crs_wkt")
    axes = known.axis_info if known.is_compound else []
    return next((axis.unit_name for axis in axes if axis.direction in {"up", "down"}), None)
