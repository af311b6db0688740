"""What GDAL writes about a raster and its bands: the tag GDAL_METADATA, and `.aux.xml` files beside it.

A value that cannot be read is left out and named among the problems; the others are kept.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html#metadata,
https://gdal.org/en/stable/user/raster_data_model.html#pam-gdal-persistent-auxiliary-metadata
"""

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jnrrdz.core.crs_geokeys import Affine, GroundControlPoint
from jnrrdz.core.georeference import AFFINE_NUMBERS
from jnrrdz.core.xml_tree import Element, parse_xml
from jnrrdz.errors import MalformedError
from jnrrdz.lazy import library

if TYPE_CHECKING:
    import html
else:
    html = library("html")  # few texts have references to characters

TAG = "GDAL_METADATA"
PAM = ".aux.xml"
MAX_DIGITS = 6
CHANNELS = {"c1": "0", "c2": "0", "c3": "0", "c4": "255"}
"""Attributes of a colour table's entry, and what they are by default."""

NUMBER_ROLES = {"scale", "offset"}
TEXT_ROLES = {"unittype": "unit", "description": "description", "colorinterp": "colour"}
"""Items that set something of a band; all others only have a name and a value."""

type Items = dict[str, dict[str, str]]
"""Domain to name to value; the domain of most items is the empty text."""


@dataclass
class BandMetadata:
    """What is said of one band."""

    description: str | None = None
    scale: float | None = None
    offset: float | None = None
    unit: str | None = None
    colour: str | None = None
    """Colour interpretation, as GDAL names it."""
    nodata: str | None = None
    categories: tuple[str, ...] = ()
    """What the values 0, 1, ... mean."""
    colour_table: tuple[tuple[int, ...], ...] = ()
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


def finite_number(text: str | None) -> float | None:
    """Return the number that a text is, None for one that is none or not finite."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def parse_gdal_metadata(text: str) -> GdalMetadata:
    """Return what the tag GDAL_METADATA says."""
    root = parse_xml(text.strip(" \t\r\n\0"), TAG)
    if root.tag != "GDALMetadata":
        raise MalformedError(f"an element {root.tag!r} where GDALMetadata belongs", field=TAG)
    metadata = GdalMetadata()
    for element in root.named("Item"):
        # GDAL escapes twice when it writes, and undoes it twice
        name, value = element.attributes.get("name"), element.markup or element.text
        if not element.markup and "&" in value:
            value = html.unescape(value)
        if name is None or not value:
            continue
        sample = element.attributes.get("sample", "-1").strip()
        domain, role = (element.attributes.get(key, "") for key in ("domain", "role"))
        if not re.fullmatch(r"-1|\d{1,5}", sample):
            metadata.problems.append(f"sample {sample[:80]!r} of item {name[:80]!r} is no number of a sample")
        elif sample == "-1":
            metadata.items.setdefault(domain, {})[name] = value
        elif role in NUMBER_ROLES:
            number = int(sample) + 1
            setattr(metadata.band(number), role, metadata.number(value, f"{role} of band {number}"))
        elif role in TEXT_ROLES:
            setattr(metadata.band(int(sample) + 1), TEXT_ROLES[role], value)
        else:
            metadata.band(int(sample) + 1).items.setdefault(domain, {})[name] = value
    return metadata


def parse_pam(text: str) -> GdalMetadata:
    """Return what an `.aux.xml` file says."""
    root = parse_xml(text.lstrip("\ufeff \t\r\n"), PAM)
    if root.tag != "PAMDataset":
        raise MalformedError(f"an element {root.tag!r} where PAMDataset belongs", field=PAM)
    metadata = GdalMetadata(items=_domains(root), wkt=root.text_of("SRS"))
    transform = root.text_of("GeoTransform")
    if transform is not None:
        numbers = [number for number in map(finite_number, transform.split(",")) if number is not None]
        if len(numbers) == AFFINE_NUMBERS == transform.count(",") + 1:
            c, a, b, f, d, e = numbers
            metadata.affine = (a, b, c, d, e, f)
        else:
            metadata.problems.append(f"geotransform {transform[:200]!r} is not six numbers")
    for points in root.named("GCPList"):
        metadata.wkt = metadata.wkt or points.attributes.get("Projection") or None
        gcps: list[GroundControlPoint] = []
        for point in points.named("GCP"):
            values = {"Z": "0", **point.attributes}
            place = [finite_number(values.get(name)) for name in ("Pixel", "Line", "X", "Y", "Z")]
            if None in place:
                metadata.problems.append(f"control point {dict(point.attributes)} lacks a number")
            else:
                gcps.append(GroundControlPoint(*(number or 0.0 for number in place)))
        metadata.gcps = tuple(gcps)
    for element in root.named("PAMRasterBand"):
        _take_band(metadata, element)
    return metadata


def _domains(parent: Element) -> Items:
    """Return the items of all `Metadata` elements; one that holds XML has it as its only item."""
    domains: Items = {}
    for group in parent.named("Metadata"):
        domain = group.attributes.get("domain", "")
        if group.attributes.get("format") == "xml":
            domains[domain] = {domain: group.markup}
            continue
        values = {item.attributes.get("key", ""): item.text for item in group.named("MDI")}
        domains.setdefault(domain, {}).update({key: value for key, value in values.items() if key and value})
    return {domain: items for domain, items in domains.items() if items}


def _take_band(metadata: GdalMetadata, element: Element) -> None:
    number = element.attributes.get("band", "").strip()
    if not re.fullmatch(r"\d{1,5}", number) or int(number) == 0:
        metadata.problems.append(f"PAMRasterBand {number[:80]!r} is no number of a band")
        return
    band = metadata.band(int(number))
    band.description = element.text_of("Description")
    band.scale = metadata.number(element.text_of("Scale"), f"scale of band {number}")
    band.offset = metadata.number(element.text_of("Offset"), f"offset of band {number}")
    band.unit = element.text_of("UnitType")
    band.colour = element.text_of("ColorInterp")
    band.nodata = element.text_of("NoDataValue")
    band.items = _domains(element)
    for names in element.named("CategoryNames"):
        band.categories = tuple(name.text for name in names.named("Category"))
    for table in element.named("ColorTable"):
        texts = [[entry.attributes.get(*channel) for channel in CHANNELS.items()] for entry in table.named("Entry")]
        # 8 bits a channel; what is no number is 0, as GDAL has it
        band.colour_table = tuple(
            tuple(min(int(text), 255) if text.isdecimal() and len(text) < MAX_DIGITS else 0 for text in entry)
            for entry in texts
        )


def merged(inner: GdalMetadata, outer: GdalMetadata | None) -> GdalMetadata:
    """Return both, what stands beside the file (`outer`) first, as GDAL has it."""
    if outer is None:
        return inner
    items, problems = _merged_items(inner.items, outer.items), [*inner.problems, *outer.problems]
    metadata = replace(outer, items=items, bands={}, problems=problems)
    for number in sorted({*inner.bands, *outer.bands}):
        below, above = inner.band(number), outer.band(number)
        values = {name: value for name, value in vars(above).items() if name != "items" and value not in {None, ()}}
        metadata.bands[number] = replace(below, **values, items=_merged_items(below.items, above.items))
    return metadata


def _merged_items(inner: Items, outer: Items) -> Items:
    return {domain: {**inner.get(domain, {}), **outer.get(domain, {})} for domain in dict.fromkeys([*inner, *outer])}
