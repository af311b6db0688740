"""What the tags of a TIFF say in words: who made the image, when, with what, at which resolution.

May touch the TIFF layout.  Names and spelling are those of GDAL's metadata, so that what rasterio
calls `tags()` is found under the same keys.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html#metadata
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from jnrrdz.core.xml_tree import MAX_BYTES
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.tiff.gdal_metadata import Items
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import FieldType, Tag

TEXTS = {
    Tag.DocumentName: "TIFFTAG_DOCUMENTNAME",
    Tag.ImageDescription: "TIFFTAG_IMAGEDESCRIPTION",
    Tag.Software: "TIFFTAG_SOFTWARE",
    Tag.DateTime: "TIFFTAG_DATETIME",
    Tag.Artist: "TIFFTAG_ARTIST",
    Tag.HostComputer: "TIFFTAG_HOSTCOMPUTER",
    Tag.Copyright: "TIFFTAG_COPYRIGHT",
    Tag.Make: "TIFFTAG_MAKE",
    Tag.Model: "TIFFTAG_MODEL",
}
"""GDAL has no names for the last two; they follow its pattern."""

NUMBERS = {
    Tag.MinSampleValue: "TIFFTAG_MINSAMPLEVALUE",
    Tag.MaxSampleValue: "TIFFTAG_MAXSAMPLEVALUE",
    Tag.XResolution: "TIFFTAG_XRESOLUTION",
    Tag.YResolution: "TIFFTAG_YRESOLUTION",
}
RESOLUTION_UNITS = {1: "1 (unitless)", 2: "2 (pixels/inch)", 3: "3 (pixels/cm)"}

ACQUIRED = (
    "ACQUISITIONDATETIME",
    "ACQUISITION_DATETIME",
    "FIRSTLINETIME",
    "EARLIESTACQTIME",
    "SENSING_TIME",
    "DATATAKE_1_DATATAKE_SENSING_START",
    "PRODUCT_START_TIME",
    "ACQUISITION_DATE",
    "DATE_ACQUIRED",
)
"""Items that say when the image was taken, the most exact first; of a dotted name the last part counts."""

_DATE = re.compile(
    r"(?P<day>\d{4}[:/-]\d\d[:/-]\d\d)"
    r"(?:[ T](?P<time>\d\d:\d\d(?::\d\d)?)(?P<fraction>\.\d+)?\s*(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)


def bounded_text(layout: TiffLayout, ifd: Ifd, tag: Tag) -> str | None:
    """Return a text tag, refusing one too long to be meant."""
    check_length(layout, ifd, tag)
    return layout.text(ifd, tag)


def check_length(layout: TiffLayout, ifd: Ifd, tag: Tag) -> None:
    """Refuse a tag too long to be metadata."""
    entry = ifd.entries.get(tag)
    nbytes = 0 if entry is None else entry.count * layout.itemsize(entry.type)
    if nbytes > MAX_BYTES:
        raise UnsupportedError(f"{nbytes} bytes, no more than {MAX_BYTES} are read", offset=ifd.offset, field=tag.name)


def text_tag(layout: TiffLayout, ifd: Ifd, tag: Tag) -> str | None:
    """Return one of `TEXTS`, None where it is absent or empty."""
    return bounded_text(layout, ifd, tag) or None


def number_tag(layout: TiffLayout, ifd: Ifd, tag: Tag) -> str | None:
    """Return the first number of one of `NUMBERS`, as GDAL prints it."""
    values = layout.floats(ifd, tag)
    if not values:
        return None
    is_real = ifd.entries[tag].type in {FieldType.RATIONAL, FieldType.SRATIONAL, FieldType.FLOAT}
    return format(np.float32(values[0]), ".8g") if is_real else format(values[0], ".15g")


def resolution_unit(layout: TiffLayout, ifd: Ifd) -> str | None:
    """Return the unit of the resolution in GDAL's words; inches are TIFF's default."""
    if Tag.ResolutionUnit not in ifd and not (Tag.XResolution in ifd or Tag.YResolution in ifd):
        return None
    unit = layout.integer(ifd, Tag.ResolutionUnit, 2)
    return RESOLUTION_UNITS.get(unit, str(unit))


def acquired(items: Items, date_time: str | None) -> str | None:
    """Return in ISO 8601 when the image was taken; where no item says so, when the file says it was made."""
    known: dict[str, str] = {}
    for values in items.values():
        for name, value in values.items():
            known.setdefault(name.rpartition(".")[2].upper(), value)
    texts = [known[name] for name in ACQUIRED if name in known]
    return next((found for found in map(iso_time, [*texts, date_time or ""]) if found is not None), None)


def iso_time(text: str) -> str | None:
    """Return a date and time as ISO 8601 (without an offset where none is given), None for what is none."""
    found = _DATE.fullmatch(text.strip().strip("\"';"))
    if found is None:
        return None
    day = re.sub("[:/]", "-", found["day"])
    time = found["time"]
    try:
        datetime.fromisoformat(day if time is None else f"{day}T{time}")
    except ValueError:
        return None
    if time is None:
        return day
    seconds = time if time.count(":") > 1 else f"{time}:00"
    return f"{day}T{seconds}{found['fraction'] or ''}{_zone(found['zone'])}"


def _zone(zone: str | None) -> str:
    if zone is None or zone == "Z" or ":" in zone:
        return zone or ""
    return f"{zone[:3]}:{zone[3:]}"


def without_empty(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items that have a value."""
    return {name: value for name, value in items.items() if value not in (None, "", {}, [])}
