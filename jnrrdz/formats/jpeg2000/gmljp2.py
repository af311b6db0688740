"""GML in JP2: where an image lies, by the rectified grid of its coverage.

May touch errors, the XML tree and the tables of axes that it is given.  The origin is the centre of
the first pixel.  A CRS that is named by a URN (or OGC's URL) has its coordinates in the order of its
register, which for many is north before east; GDAL is followed where a file says "Easting" first.
Spec: https://docs.ogc.org/is/08-085r8/08-085r8.html (GMLJP2 2), OGC 05-047r3 (GMLJP2 1)
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from jnrrdz.core.xml_tree import Element, parse_xml
from jnrrdz.errors import MalformedError, UnsupportedError

type Affine = tuple[float, float, float, float, float, float]

FIELD = "GMLJP2"
GRID = "RectifiedGrid"
CRS_NAME = re.compile(
    r"(?:(?P<register>urn:(?:x-)?ogc:def:crs:|https?://www\.opengis\.net/def/crs/)EPSG[:/][\w.]*[:/]|epsg:|"
    r"https?://www\.opengis\.net/gml/srs/epsg\.xml#)(?P<code>\d+)$",
    re.IGNORECASE,
)
EASTING = {"easting", "e", "long", "lon", "longitude"}


@dataclass(frozen=True)
class GmlGrid:
    """An affine in the order in which the coordinates are written, and the CRS's code."""

    affine: Affine
    epsg: int | None
    by_register: bool
    """Whether the coordinates stand in the order of the CRS's own axes."""

    def turned(self) -> "GmlGrid":
        """Return the grid with the two coordinates of every point exchanged."""
        a, b, c, d, e, f = self.affine
        return replace(self, affine=(d, e, f, a, b, c))


def parse_gml(text: str) -> GmlGrid | None:
    """Return the grid of a GML document, None where it has none."""
    root = parse_xml(text.rstrip("\0 \r\n\t"), FIELD)
    grid = next(_all(root, GRID), None)
    if grid is None:
        return None
    point = next(_all(grid, "Point"), None)
    vectors = [_numbers(one) for one in grid.children if _local(one.tag) == "offsetVector"]
    place = next((_numbers(one) for tag in ("pos", "coordinates") for one in _all(grid, tag)), None)
    if place is None or len(vectors) != 2 or any(len(one) < 2 for one in (place, *vectors)):  # noqa: PLR2004
        raise MalformedError("a grid without origin or offset vectors", field=FIELD)
    (ax, ay), (bx, by) = vectors[0][:2], vectors[1][:2]
    x, y = place[:2]
    # from the centre of the first pixel to its corner
    affine = (ax, bx, x - (ax + bx) / 2, ay, by, y - (ay + by) / 2)
    if not all(map(math.isfinite, affine)) or ax * by == ay * bx:
        raise MalformedError(f"a grid of {affine}, which maps the image onto a line", field=FIELD)
    epsg, by_register = _crs(grid, point)
    names = [one.text.strip().lower() for one in grid.children if _local(one.tag) == "axisName"]
    return GmlGrid(affine, epsg, by_register and not (names and names[0] in EASTING))


def _crs(grid: Element, point: Element | None) -> tuple[int | None, bool]:
    """Return the code of the CRS that a grid names, and whether by a name that implies the order of its axes."""
    vectors = [one for one in grid.children if _local(one.tag) == "offsetVector"]
    names = [one.attributes["srsName"] for one in (point, grid, *vectors) if one and "srsName" in one.attributes]
    if not names:
        return None, False
    found = CRS_NAME.match(names[0].strip())
    if found is None:
        raise UnsupportedError(f"a CRS named {names[0]!r}, which is no EPSG code", field=FIELD)
    return int(found["code"]), found["register"] is not None


def _all(element: Element, name: str) -> Iterator[Element]:
    """Yield the elements of one local name, at any depth."""
    if _local(element.tag) == name:
        yield element
    for child in element.children:
        yield from _all(child, name)


def _local(tag: str) -> str:
    return tag.rpartition(":")[2]


def _numbers(element: Element) -> list[float]:
    try:
        return [float(part) for part in re.split(r"[\s,]+", element.text.strip())]
    except ValueError:
        raise MalformedError(f"{element.text[:80]!r} are no coordinates", field=FIELD) from None
