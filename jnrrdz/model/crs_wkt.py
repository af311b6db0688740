"""A coordinate reference system from WKT of any dialect, as files beside an image have it.

May touch errors, pyproj (imported only when called) and the model's own modules.
Spec: https://docs.ogc.org/is/18-010r7/18-010r7.html
"""

from jnrrdz.model.crs import Crs
from jnrrdz.model.crs_parts import json_of, made


def crs_from_wkt(wkt: str, field: str) -> Crs:
    """Return the CRS that a text (WKT 1, ESRI's, WKT 2) describes."""
    crs = made(wkt, field)
    known = json_of(crs).get("id") or {}
    code = f"{known['authority']}:{known['code']}" if known else None
    text: str = crs.to_wkt(version="WKT2_2019")
    return Crs(text, code)


def height_unit(crs: Crs) -> str | None:
    """Return the unit of the heights of a compound CRS, None for others, as GDAL has it."""
    known = made(crs.wkt, "crs_wkt")
    axes = known.axis_info if known.is_compound else []
    return next((axis.unit_name for axis in axes if axis.direction in {"up", "down"}), None)
