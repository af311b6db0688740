"""What the boxes of a JP2 file say beside its pixels: what samples mean, and where the image lies.

Attributes have the names of GDAL and rasterio.  What cannot be understood is named in `metadata_refused` or
`georeference_refused` and in a warning; it never costs the pixels.

The place comes from GeoJP2 (a GeoTIFF without pixels in a box) or GMLJP2, in this order, as GDAL has it.  In GML the
origin is the centre of the first pixel.  A CRS that is named by a URN (or OGC's URL) has its coordinates in the order
of its register, which for many is north before east; GDAL is followed where a file says "Easting" first.
Spec: docs/formats/jpeg2000.md;
https://web.archive.org/web/2009/http://www.lizardtech.com/download/geo/geotiff_box.txt (GeoJP2),
https://docs.ogc.org/is/19-008r4/19-008r4.html (GeoTIFF 1.1), https://docs.ogc.org/is/08-085r8/08-085r8.html (GMLJP2 2),
OGC 05-047r3 (GMLJP2 1)
"""

import base64
import math
import re
import struct
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal

from jnrrdz.core.crs import crs_from_epsg, crs_from_geokeys, is_north_first
from jnrrdz.core.crs_geokeys import Affine, parse_geokeys, placement
from jnrrdz.core.georeference import Georeference
from jnrrdz.core.xml_tree import Element, parse_xml
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.colours import palette_attributes
from jnrrdz.formats.jpeg2000.boxes import COLOUR_SPACES, Boxes, Colour, parse_colour
from jnrrdz.formats.jpeg2000.codestream import Codestream
from jnrrdz.formats.jpeg2000.markers import Marker
from jnrrdz.formats.tiff_directory import Entry, FieldType, parse_header
from jnrrdz.options import ScanOptions

XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
LATIN = 1
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
    meaning = Meaning()
    refused = list(boxes.problems) if boxes is not None else []
    components = [codestream.siz.components[number] for number in names]
    width = 8 * (1 << (max(component.bits for component in components) - 1) // 8)
    if any(component.bits != width for component in components):
        meaning.array["bits_per_sample"] = [component.bits for component in components]
    colour = Colour()
    if boxes is not None:
        try:
            colour = parse_colour(boxes)
        except JnrrdzError as error:
            refused.append(str(error))
    _add_colour(meaning, colour, names, options)
    comments = [
        body[2:].rstrip(b"\0").decode("latin-1")
        for body in codestream.bodies(Marker.COM)
        if int.from_bytes(body[:2], "big") == LATIN
    ]
    if any(comments):
        meaning.group["comments"] = [text for text in comments if text]
    if options.embedded and boxes is not None:
        meaning.group |= _embedded(boxes, colour)
    for problem in refused:
        warnings.warn(f"metadata are left out: {problem}", stacklevel=2)
    if refused:
        meaning.group["metadata_refused"] = refused
    return meaning


def _add_colour(meaning: Meaning, colour: Colour, names: Sequence[int], options: ScanOptions) -> None:
    table = None if colour.palette is None or len(names) != 1 else colour.palette.colours
    if table is not None and options.expand_palette:
        meaning.palette = table[:, :3].tobytes()
        meaning.array["colorinterp"] = ["red", "green", "blue"]
    elif table is not None:
        meaning.array |= {"colorinterp": ["palette"], **palette_attributes(table.tolist())}
    elif colour.space is not None or colour.channels:
        every = colour.names(max(names) + 1)
        meaning.array["colorinterp"] = [every[number] for number in names]
    if colour.is_premultiplied:
        meaning.array["alpha_premultiplied"] = True
    if colour.space is not None:
        meaning.array["color_space"] = COLOUR_SPACES.get(colour.space, f"EnumCS {colour.space}")
    for name, (down, across) in colour.resolution.items():
        meaning.group[f"{name}_resolution"] = {"y": down, "x": across, "unit": "samples per metre"}


def _embedded(boxes: Boxes, colour: Colour) -> dict[str, Any]:
    """Return whole documents: colour profile, XMP, and XML of other kinds."""
    documents: dict[str, Any] = {}
    if colour.profile:
        documents["icc_profile"] = base64.b64encode(colour.profile).decode("ascii")
    xmp = next(iter(boxes.uuid(XMP)), None)
    if xmp:
        documents["xmp"] = xmp.decode(errors="replace")
    texts = [boxes.body(box) for box in boxes.all(b"xml ") if box.stop - box.start <= MAX_TEXT]
    if texts:
        documents["xml"] = [text.rstrip(b"\0").decode(errors="replace") for text in texts]
    return documents


FIELD = "GMLJP2"
GRID = "RectifiedGrid"
CRS_NAME = re.compile(
    r"(?:(?P<register>urn:(?:x-)?ogc:def:crs:|https?://www\.opengis\.net/def/crs/)EPSG[:/][\w.]*[:/]|epsg:|"
    r"https?://www\.opengis\.net/gml/srs/epsg\.xml#)(?P<code>\d+)$",
    re.IGNORECASE,
)
EASTING = {"easting", "e", "long", "lon", "longitude"}


def parse_gml(text: str) -> tuple[Affine, int | None, bool] | None:
    """Return the grid of a GML document, its CRS's code, and whether points have the order of the CRS's own axes.

    None of a document without a grid.
    """
    root = parse_xml(text.rstrip("\0 \r\n\t"), FIELD)
    grid = next(_all(root, GRID), None)
    if grid is None:
        return None
    point = next(_all(grid, "Point"), None)
    offsets = [child for child in grid.children if _local(child.tag) == "offsetVector"]
    vectors = [_numbers(vector) for vector in offsets]
    place = next((_numbers(element) for tag in ("pos", "coordinates") for element in _all(grid, tag)), None)
    if place is None or len(vectors) != 2 or any(len(numbers) < 2 for numbers in (place, *vectors)):  # noqa: PLR2004
        raise MalformedError("a grid without origin or offset vectors", field=FIELD)
    (ax, ay), (bx, by) = vectors[0][:2], vectors[1][:2]
    x, y = place[:2]
    # from the centre of the first pixel to its corner
    affine = (ax, bx, x - (ax + bx) / 2, ay, by, y - (ay + by) / 2)
    if not all(map(math.isfinite, affine)) or ax * by == ay * bx:
        raise MalformedError(f"a grid of {affine}, which maps the image onto a line", field=FIELD)
    named = [one.attributes["srsName"] for one in (point, grid, *offsets) if one and "srsName" in one.attributes]
    name = CRS_NAME.match(named[0].strip()) if named else None
    if named and name is None:
        raise UnsupportedError(f"a CRS named {named[0]!r}, which is no EPSG code", field=FIELD)
    if name is None:
        return affine, None, False
    axes = [child.text.strip().lower() for child in grid.children if _local(child.tag) == "axisName"]
    is_easting = bool(axes) and axes[0] in EASTING
    return affine, int(name["code"]), name["register"] is not None and not is_easting


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

FIELD_CODES = {
    FieldType.ASCII: "s",
    FieldType.SHORT: "H",
    FieldType.LONG: "I",
    FieldType.FLOAT: "f",
    FieldType.DOUBLE: "d",
}
"""`struct` codes of the field types that the tags of GeoTIFF are written with."""


class GeoTag(IntEnum):
    """The tags of GeoTIFF."""

    ModelPixelScale = 33550
    ModelTiepoint = 33922
    ModelTransformation = 34264
    GeoKeyDirectory = 34735
    GeoDoubleParams = 34736
    GeoAsciiParams = 34737


def geo_of(boxes: Boxes | None) -> Georeference:
    """Return where an image lies, as far as the boxes can be understood."""
    if boxes is None:
        return Georeference()
    refused: list[str] = []
    for read in (_geojp2, _gmljp2):
        try:
            geo = read(boxes)
        except JnrrdzError as error:
            warnings.warn(f"the georeference is left out: {error}", stacklevel=2)
            refused.append(str(error))
            continue
        if geo.known:
            refused += [] if geo.refused is None else [geo.refused]
            return replace(geo, refused="; ".join(refused) or None)
    return Georeference(refused="; ".join(refused) or None)


def _geojp2(boxes: Boxes) -> Georeference:
    """Return what the GeoTIFF in the first box of its kind says."""
    body = next((data for data in boxes.uuid(GEOJP2) if len(data) <= TEMPLATE_LIMIT), None)
    if not body:
        return Georeference()
    tags = geotiff_tags(body)
    scale, ties, matrix, directory, doubles = (tags.get(tag, ()) for tag in GeoTag if tag != GeoTag.GeoAsciiParams)
    keys = parse_geokeys(directory, doubles, bytes(tags.get(GeoTag.GeoAsciiParams, ())).decode("latin-1"))
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


def geotiff_tags(data: bytes) -> dict[GeoTag, tuple[Any, ...]]:
    """Return the values of the GeoTIFF tags in the first directory of a TIFF or BigTIFF."""
    form, first = parse_header(data)
    count = _span(data, first, form.count_width, "IFD entry count")
    start = first + form.count_width
    stored = _span(data, start, form.entry_bytes(count, first), "IFD entries")
    values: dict[GeoTag, tuple[Any, ...]] = {}
    for entry in form.entries(stored, start).values():
        if entry.tag in GeoTag:
            tag = GeoTag(entry.tag)
            values[tag] = _values(data, form.order, tag, entry)
    return values


def _values(data: bytes, order: str, tag: GeoTag, entry: Entry) -> tuple[Any, ...]:
    """Return the values of one GeoTIFF tag; characters are their numbers."""
    name = f"{tag.name} ({tag})"
    if entry.type not in FIELD_CODES:
        text = f"field type {entry.type}"
        raise UnsupportedError(text, offset=entry.position, field=name)
    kind = FieldType(entry.type)
    code = FIELD_CODES[kind]
    stored = _span(data, entry.position, entry.nbytes, name)
    if tag == GeoTag.GeoKeyDirectory and code not in "HI":
        text = f"{kind.name} values where integers belong"
        raise MalformedError(text, offset=entry.position, field=name)
    if tag == GeoTag.GeoAsciiParams:
        return tuple(stored)
    if kind == FieldType.ASCII:
        return ()
    return struct.unpack(f"{order}{entry.count}{code}", stored)


def _span(data: bytes, start: int, length: int, field: str) -> bytes:
    """Return bytes of a TIFF, or an error that names the field."""
    if start + length > len(data):
        raise MalformedError(
            f"{length} bytes would end at {start + length}, the source has {len(data)}", offset=start, field=field
        )
    return data[start : start + length]


def _gmljp2(boxes: Boxes) -> Georeference:
    """Return what the first coverage in an XML box says."""
    for box in boxes.all(b"xml "):
        text = boxes.body(box).decode(errors="replace")
        grid = parse_gml(text) if GRID in text else None
        if grid is None:
            continue
        affine, epsg, by_register = grid
        crs = None if epsg is None else crs_from_epsg(epsg, FIELD)
        if crs is not None and by_register and is_north_first(crs):
            affine = (*affine[3:], *affine[:3])
        return Georeference(crs, affine, registration="Area")
    return Georeference()
