"""What the boxes of a JP2 file say of its samples, as attributes.

May touch the layouts and the options.  Names are those that GDAL and rasterio have.  What cannot be
understood is named in `metadata_refused` and in a warning; it never costs the pixels.
Spec: docs/formats/jpeg2000.md

GML in JP2: where an image lies, by the rectified grid of its coverage.

May touch errors, the XML tree and the tables of axes that it is given.  The origin is the centre of
the first pixel.  A CRS that is named by a URN (or OGC's URL) has its coordinates in the order of its
register, which for many is north before east; GDAL is followed where a file says "Easting" first.
Spec: https://docs.ogc.org/is/08-085r8/08-085r8.html (GMLJP2 2), OGC 05-047r3 (GMLJP2 1)

Where a JP2 file's image lies: by GeoJP2 (a GeoTIFF in a box) or GMLJP2, in this order, as GDAL has it.

May touch the layouts and the model.  What cannot be understood never costs the pixels: it is named
in an attribute and a warning.
Spec: https://web.archive.org/web/2009/http://www.lizardtech.com/download/geo/geotiff_box.txt (GeoJP2)
"""

import base64
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jnrrdz.core.crs import crs_from_epsg, crs_from_geokeys, is_north_first
from jnrrdz.core.crs_geokeys import Affine, parse_geokeys, placement
from jnrrdz.core.georeference import Georeference
from jnrrdz.core.xml_tree import Element, parse_xml
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import COLOUR_SPACES, Boxes, Colour, parse_colour
from jnrrdz.formats.jpeg2000.codestream import Codestream
from jnrrdz.formats.jpeg2000.markers import Marker
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.options import ScanOptions

XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
LATIN = 1
OPAQUE = 255
MAX_FLAGS = 256
MAX_TEXT = 1 << 20


@dataclass
class Meaning:
    """What is known of an image beyond its pixels."""

    array: dict[str, Any] = field(default_factory=dict)
    """Attributes of the variable."""

    group: dict[str, Any] = field(default_factory=dict)
    """Attributes of its group."""

    palette: bytes | None = None
    """The colours that `expand_palette` asked to read."""


def meaning_of(codestream: Codestream, boxes: Boxes | None, names: Sequence[int], options: ScanOptions) -> Meaning:
    """Return what a file says of some components."""
    found = Meaning()
    refused = list(boxes.problems) if boxes is not None else []
    components = [codestream.siz.components[one] for one in names]
    width = 8 * (1 << (max(one.bits for one in components) - 1) // 8)
    if any(one.bits != width for one in components):
        found.array["bits_per_sample"] = [one.bits for one in components]
    try:
        colour = Colour() if boxes is None else parse_colour(boxes)
    except JnrrdzError as error:
        colour = Colour()
        refused.append(str(error))
    _add_colour(found, colour, names, options)
    comments = [_comment(body) for body in codestream.bodies(Marker.COM)]
    found.group |= {"comments": [text for text in comments if text]} if any(comments) else {}
    if options.embedded and boxes is not None:
        found.group |= _embedded(boxes, colour)
    for problem in refused:
        warnings.warn(f"metadata are left out: {problem}", stacklevel=2)
    found.group |= {"metadata_refused": refused} if refused else {}
    return found


def _add_colour(found: Meaning, colour: Colour, names: Sequence[int], options: ScanOptions) -> None:
    table = None if colour.palette is None or len(names) != 1 else colour.palette.colours
    if table is not None and options.expand_palette:
        found.palette = table[:, :3].tobytes()
        found.array["colorinterp"] = ["red", "green", "blue"]
    elif table is not None:
        entries = [[*row, OPAQUE][:4] for row in table.tolist()]
        found.array |= {"colorinterp": ["palette"], "color_table": entries}
        if len(entries) <= MAX_FLAGS:
            colours = " ".join(f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue, _ in entries)
            found.array |= {"flag_values": list(range(len(entries))), "flag_colors": colours}
    elif colour.space is not None or colour.channels:
        every = colour.names(max(names) + 1)
        found.array["colorinterp"] = [every[one] for one in names]
    if colour.is_premultiplied:
        found.array["alpha_premultiplied"] = True
    if colour.space is not None:
        found.array["color_space"] = COLOUR_SPACES.get(colour.space, f"EnumCS {colour.space}")
    for name, (down, across) in colour.resolution.items():
        found.group[f"{name}_resolution"] = {"y": down, "x": across, "unit": "samples per metre"}


def _comment(body: bytes) -> str:
    """Return a comment of the codestream that is text."""
    if int.from_bytes(body[:2], "big") != LATIN:
        return ""
    return body[2:].rstrip(b"\0").decode("latin-1")


def _embedded(boxes: Boxes, colour: Colour) -> dict[str, Any]:
    """Return whole documents: colour profile, XMP, and XML of other kinds."""
    found: dict[str, Any] = {}
    if colour.profile:
        found["icc_profile"] = base64.b64encode(colour.profile).decode("ascii")
    xmp = next(iter(boxes.uuid(XMP)), None)
    if xmp:
        found["xmp"] = xmp.decode(errors="replace")
    documents = [boxes.body(box) for box in boxes.all(b"xml ") if box.stop - box.start <= MAX_TEXT]
    if documents:
        found["xml"] = [one.rstrip(b"\0").decode(errors="replace") for one in documents]
    return found


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


GEOJP2 = bytes.fromhex("b14bf8bd083d4b43a5ae8cd7d5a6ce03")
TEMPLATE_LIMIT = 1 << 20
"""A GeoJP2 box larger than this holds more than a template without pixels."""


def geo_of(boxes: Boxes | None) -> Georeference:
    """Return where an image lies, as far as the boxes can be understood."""
    if boxes is None:
        return Georeference()
    refused: list[str] = []
    for read in (_geojp2, _gmljp2):
        try:
            found = read(boxes)
        except JnrrdzError as error:
            warnings.warn(f"the georeference is left out: {error}", stacklevel=2)
            refused.append(str(error))
            continue
        if found.known:
            refused += [] if found.refused is None else [found.refused]
            return replace(found, refused="; ".join(refused) or None)
    return Georeference(refused="; ".join(refused) or None)


def _geojp2(boxes: Boxes) -> Georeference:
    """Return what the GeoTIFF in the first box of its kind says."""
    body = next((one for one in boxes.uuid(GEOJP2) if len(one) <= TEMPLATE_LIMIT), None)
    if not body:
        return Georeference()
    layout = TiffLayout(lambda start, stop: body[start:stop], len(body))
    ifd = layout.ifd(layout.first)
    scale, ties, matrix = (
        layout.floats(ifd, tag) for tag in (Tag.ModelPixelScale, Tag.ModelTiepoint, Tag.ModelTransformation)
    )
    text = (layout.raw(ifd, Tag.GeoAsciiParams) or b"").decode("latin-1")
    directory = layout.ints(ifd, Tag.GeoKeyDirectory)
    keys = parse_geokeys(directory, layout.floats(ifd, Tag.GeoDoubleParams), text)
    place = placement(keys, scale, ties, matrix)
    crs = refused = None
    try:
        crs = crs_from_geokeys(keys)
    except JnrrdzError as error:
        warnings.warn(f"the CRS is left out: {error}", stacklevel=3)
        refused = str(error)
    pixel: Literal["Area", "Point"] = "Point" if place.is_point else "Area"
    registration = None if place.affine is None else pixel
    return Georeference(crs, place.affine, place.gcps, registration=registration, refused=refused)


def _gmljp2(boxes: Boxes) -> Georeference:
    """Return what the first coverage in an XML box says."""
    for box in boxes.all(b"xml "):
        text = boxes.body(box).decode(errors="replace")
        grid = parse_gml(text) if GRID in text else None
        if grid is None:
            continue
        crs = None if grid.epsg is None else crs_from_epsg(grid.epsg, FIELD)
        if crs is not None and grid.by_register and is_north_first(crs):
            grid = grid.turned()
        return Georeference(crs, grid.affine, registration="Area")
    return Georeference()
