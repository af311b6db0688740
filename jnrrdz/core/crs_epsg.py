"""A coordinate reference system from its EPSG code, and the order of its axes.

May touch errors, pyproj (imported only when called) and the model's own modules.
"""

from jnrrdz.core.crs import Crs
from jnrrdz.core.crs_parts import made, registered


def crs_from_epsg(code: int, field: str) -> Crs:
    """Return the CRS of a code."""
    found = made(registered("crs", code, field), field)
    text: str = found.to_wkt(version="WKT2_2019")
    return Crs(text, f"EPSG:{code}")


def is_north_first(crs: Crs) -> bool:
    """Whether the register has the northing, or the latitude, before the other."""
    axes = made(crs.wkt, "crs_wkt").axis_info
    return bool(axes) and axes[0].direction == "north"
