"""What GDAL writes about a raster and its bands: the tag GDAL_METADATA, and `.aux.xml` files beside it.

May touch errors, the safe XML parser and GeoTIFF's facts.  A value that cannot be read is left out
and named among the problems; the others are kept.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html#metadata,
https://gdal.org/en/stable/user/raster_data_model.html#pam-gdal-persistent-auxiliary-metadata
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import unescape

from jnrrdz.core.crs_geokeys import Affine, GroundControlPoint
from jnrrdz.core.xml_tree import Element, parse_xml
from jnrrdz.errors import MalformedError

TAG = "GDAL_METADATA"
PAM = ".aux.xml"
MAX_BANDS = 65536
GEO_TRANSFORM = 6

type Items = dict[str, dict[str, str]]
"""Domain to name to value; the domain of most items is the empty text."""


@dataclass
class BandMetadata:
    """What is said of one band."""

    description: str | None = None
    scale: float | None = None
    offset: float | None = None
    unit: str | None = None
    color: str | None = None
    """Colour interpretation, as GDAL names it."""
    nodata: str | None = None
    categories: tuple[str, ...] = ()
    """What the values 0, 1, ... mean."""
    color_table: tuple[tuple[int, ...], ...] = ()
    items: Items = field(default_factory=dict)


@dataclass
class GdalMetadata:
    """What is said of a raster: items by domain, bands by number from 1, and what could not be read."""

    items: Items = field(default_factory=dict)
    bands: dict[int, BandMetadata] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    wkt: str | None = None
    affine: Affine | None = None
    gcps: tuple[GroundControlPoint, ...] = ()

    def band(self, number: int) -> BandMetadata:
        """Return what is known of a band, made empty where nothing is."""
        return self.bands.setdefault(number, BandMetadata())

    def number(self, text: str | None, what: str) -> float | None:
        """Return a number, or None with a problem noted."""
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            self.problems.append(f"{what} {text[:80]!r} is no number")
            return None


def parse_gdal_metadata(text: str) -> GdalMetadata:
    """Return what the tag GDAL_METADATA says."""
    root = parse_xml(text.strip(" \t\r\n\0"), TAG)
    if root.tag != "GDALMetadata":
        raise MalformedError(f"an element {root.tag!r} where GDALMetadata belongs", field=TAG)
    found = GdalMetadata()
    for element in root.named("Item"):
        _take_item(found, element)
    return found


def _take_item(found: GdalMetadata, element: Element) -> None:
    name, value = element.attributes.get("name"), _item_value(element)
    if name is None or not value:
        return
    sample = element.attributes.get("sample", "-1").strip()
    if not re.fullmatch(r"-1|\d{1,5}", sample):
        found.problems.append(f"sample {sample[:80]!r} of item {name[:80]!r} is no number of a sample")
        return
    domain = element.attributes.get("domain", "")
    if sample == "-1":
        found.items.setdefault(domain, {})[name] = value
    elif not _take_role(found, int(sample) + 1, element.attributes.get("role", ""), value):
        found.band(int(sample) + 1).items.setdefault(domain, {})[name] = value


def _item_value(element: Element) -> str:
    # GDAL escapes twice when it writes, and undoes it twice
    return element.markup or unescape(element.text)


def _take_role(found: GdalMetadata, number: int, role: str, value: str) -> bool:
    """Take an item that sets something of a band; False for one that only has a name and a value."""
    band = found.band(number)
    match role:
        case "scale":
            band.scale = found.number(value, f"scale of band {number}")
        case "offset":
            band.offset = found.number(value, f"offset of band {number}")
        case "unittype":
            band.unit = value
        case "description":
            band.description = value
        case "colorinterp":
            band.color = value
        case _:
            return False
    return True


def parse_pam(text: str) -> GdalMetadata:
    """Return what an `.aux.xml` file says."""
    root = parse_xml(text.lstrip("\ufeff \t\r\n"), PAM)
    if root.tag != "PAMDataset":
        raise MalformedError(f"an element {root.tag!r} where PAMDataset belongs", field=PAM)
    found = GdalMetadata(items=_domains(root), wkt=root.text_of("SRS"))
    found.affine = _affine(found, root.text_of("GeoTransform"))
    for points in root.named("GCPList"):
        found.wkt = found.wkt or points.attributes.get("Projection") or None
        found.gcps = tuple(point for point in map(_point(found), points.named("GCP")) if point is not None)
    for element in root.named("PAMRasterBand"):
        _take_band(found, element)
    return found


def _domains(parent: Element) -> Items:
    """Return the items of all `Metadata` elements; one that holds XML has it as its only item."""
    found: Items = {}
    for group in parent.named("Metadata"):
        domain = group.attributes.get("domain", "")
        if group.attributes.get("format") == "xml":
            found[domain] = {domain: group.markup}
            continue
        values = {item.attributes.get("key", ""): item.text for item in group.named("MDI")}
        found.setdefault(domain, {}).update({key: value for key, value in values.items() if key and value})
    return {domain: items for domain, items in found.items() if items}


def _affine(found: GdalMetadata, text: str | None) -> Affine | None:
    """Return the affine of a GDAL geotransform."""
    if text is None:
        return None
    numbers = _floats(text.split(","))
    if len(numbers) != GEO_TRANSFORM or not all(map(math.isfinite, numbers)):
        found.problems.append(f"geotransform {text[:200]!r} is not six numbers")
        return None
    c, a, b, f, d, e = numbers
    return (a, b, c, d, e, f)


def _floats(texts: Iterable[str]) -> list[float]:
    """Return numbers, NaN for what is none."""
    found = []
    for text in texts:
        try:
            found.append(float(text))
        except ValueError:
            found.append(math.nan)
    return found


def _point(found: GdalMetadata) -> Callable[[Element], GroundControlPoint | None]:
    def read(element: Element) -> GroundControlPoint | None:
        values: Mapping[str, str] = {"Z": "0", **element.attributes}
        numbers = _floats(values.get(name, "") for name in ("Pixel", "Line", "X", "Y", "Z"))
        if all(map(math.isfinite, numbers)):
            return GroundControlPoint(*numbers)
        found.problems.append(f"control point {dict(element.attributes)} lacks a number")
        return None

    return read


def _take_band(found: GdalMetadata, element: Element) -> None:
    number = element.attributes.get("band", "").strip()
    if not re.fullmatch(r"\d{1,5}", number) or int(number) == 0:
        found.problems.append(f"PAMRasterBand {number[:80]!r} is no number of a band")
        return
    band = found.band(int(number))
    band.description = element.text_of("Description")
    band.scale = found.number(element.text_of("Scale"), f"scale of band {number}")
    band.offset = found.number(element.text_of("Offset"), f"offset of band {number}")
    band.unit = element.text_of("UnitType")
    band.color = element.text_of("ColorInterp")
    band.nodata = element.text_of("NoDataValue")
    band.items = _domains(element)
    for names in element.named("CategoryNames"):
        band.categories = tuple(name.text for name in names.named("Category"))
    for table in element.named("ColorTable"):
        band.color_table = tuple(_entry(entry) for entry in table.named("Entry"))


def _entry(element: Element) -> tuple[int, ...]:
    """Return a colour of 8 bits a channel; what is no number is 0, as GDAL has it."""
    texts = [
        element.attributes.get(f"c{channel}", default) for channel, default in enumerate(("0", "0", "0", "255"), 1)
    ]
    return tuple(min(int(text), 255) if text.isdecimal() and len(text) < GEO_TRANSFORM else 0 for text in texts)


def merged(inner: GdalMetadata, outer: GdalMetadata | None) -> GdalMetadata:
    """Return both, what stands beside the file (`outer`) first, as GDAL has it."""
    if outer is None:
        return inner
    found = GdalMetadata(
        _merged_items(inner.items, outer.items),
        {},
        [*inner.problems, *outer.problems],
        outer.wkt,
        outer.affine,
        outer.gcps,
    )
    for number in sorted({*inner.bands, *outer.bands}):
        found.bands[number] = _merged_band(inner.band(number), outer.band(number))
    return found


def _merged_items(inner: Items, outer: Items) -> Items:
    return {domain: {**inner.get(domain, {}), **outer.get(domain, {})} for domain in dict.fromkeys([*inner, *outer])}


def _merged_band(inner: BandMetadata, outer: BandMetadata) -> BandMetadata:
    values = {
        name: value if value not in {None, ()} else getattr(inner, name)
        for name, value in vars(outer).items()
        if name != "items"
    }
    return BandMetadata(**values, items=_merged_items(inner.items, outer.items))
