"""What the tags of a TIFF say in words: who made the image, when, with what, at which resolution.

May touch the TIFF layout.  Names and spelling are those of GDAL's metadata, so that what rasterio
calls `tags()` is found under the same keys.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html#metadata

Whole documents that a TIFF carries: colour profile, XMP, EXIF.

May touch the TIFF layout and tifffile's names of EXIF tags.  They are read only on request: they
can be larger than all other metadata together, and few readers want them.
Spec: https://www.color.org/icc_specs2.xalter, https://developer.adobe.com/xmp/docs/xmp-specifications/,
https://www.cipa.jp/e/std/std-sec.html (EXIF)

What a TIFF says of its pixels: names, units, scales and colours of bands, and where they come from.

May touch the TIFF layout and what stands beside the file.  Names and rules are GDAL's, since it
wrote most of what is read here.  A tag that cannot be understood never costs the pixels: it is
named in the attribute `metadata_refused` and in a warning.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html, docs/formats/tiff-metadata.md
"""

import base64
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from jnrrdz.core.xml_tree import MAX_BYTES
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.tiff import colours as colors
from jnrrdz.formats.tiff import colours as palette
from jnrrdz.formats.tiff.arrays import nodata_tag
from jnrrdz.formats.tiff.colours import Table
from jnrrdz.formats.tiff.gdal_metadata import BandMetadata, GdalMetadata, Items, merged, parse_gdal_metadata
from jnrrdz.formats.tiff.georeference import Sidecars
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.structure import Entry, Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import FieldType, Photometric, Tag
from jnrrdz.options import ScanOptions

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


GPS_IFD = 34853
MAX_VALUES = 4096
"""A tag of more values than this is no fact about the image: maker notes, thumbnails."""


def icc_profile(layout: TiffLayout, ifd: Ifd) -> str | None:
    """Return the colour profile in base64."""
    check_length(layout, ifd, Tag.ICCProfile)
    data = layout.raw(ifd, Tag.ICCProfile)
    return base64.b64encode(data).decode("ascii") if data else None


def xmp(layout: TiffLayout, ifd: Ifd) -> str | None:
    """Return the XMP packet as it stands."""
    return bounded_text(layout, ifd, Tag.XMP)


def exif(layout: TiffLayout, ifd: Ifd) -> dict[str, Any] | None:
    """Return the EXIF tags by name; positions (`GPS...`) among them."""
    from tifffile import TIFF  # noqa: PLC0415  needs tens of milliseconds that other scans need not pay

    found: dict[str, Any] = {}
    for pointer, names in ((Tag.ExifIFD, TIFF.EXIF_TAGS), (GPS_IFD, TIFF.GPS_TAGS)):
        start = layout.integer(ifd, pointer, 0)
        if start:
            found |= _named(layout, layout.ifd(start), names)
    return found or None


def _named(layout: TiffLayout, ifd: Ifd, names: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in ifd.entries.values():
        if entry.count > MAX_VALUES:
            continue
        try:
            value = _value(layout, ifd, entry)
        except JnrrdzError:
            continue  # one tag that points outside the file says nothing about the others
        if value is not None:
            found[str(names.get(entry.tag, entry.tag))] = value
    return found


def _value(layout: TiffLayout, ifd: Ifd, entry: Entry) -> Any:
    if entry.type == FieldType.ASCII:
        return layout.text(ifd, entry.tag)
    if entry.type == FieldType.UNDEFINED:
        data = layout.raw(ifd, entry.tag) or b""
        text = data.rstrip(b"\0")
        return text.decode() if text.isascii() and text.decode().isprintable() else base64.b64encode(data).decode()
    if entry.type in {FieldType.RATIONAL, FieldType.SRATIONAL}:
        numbers: list[Any] = [number if np.isfinite(number) else None for number in layout.floats(ifd, entry.tag)]
    else:
        values = layout.array(ifd, entry.tag)
        numbers = [] if values is None else [number if np.isfinite(number) else None for number in values.tolist()]
    return numbers[0] if len(numbers) == 1 else numbers


STATISTICS = "STATISTICS_"
APPROXIMATE = "approximate"


@dataclass
class Meaning:
    """What is known of an image beyond its pixels."""

    array: dict[str, Any] = field(default_factory=dict)
    """Attributes of the variable, at every resolution."""

    full: dict[str, Any] = field(default_factory=dict)
    """Attributes of the variable at full resolution."""

    group: dict[str, Any] = field(default_factory=dict)
    """Attributes of the full resolution's group."""

    nodata: str | None = None
    """What a file beside the image says marks missing pixels."""

    table: Table | None = None
    """The colours of a palette that `expand_palette` asked to read."""

    refused: list[str] = field(default_factory=list)
    """What could not be understood."""

    def variable(self, *, is_full: bool) -> dict[str, Any]:
        """Return the attributes of the variable at one resolution."""
        return {**self.array, **self.full} if is_full else self.array

    def tried[T](self, read: Callable[[], T]) -> T | None:
        """Return what a reader finds, or None with the reason noted."""
        try:
            return read()
        except JnrrdzError as error:
            self.refuse(str(error))
            return None

    def refuse(self, reason: str) -> None:
        """Note what could not be understood."""
        warnings.warn(f"metadata are left out: {reason}", stacklevel=4)
        self.refused.append(reason)


def meaning_of(
    layout: TiffLayout,
    image: TiffImage,
    options: ScanOptions,
    beside: Sidecars | None = None,
    *,
    unit: str | None = None,
) -> Meaning:
    """Return what an image's tags, and the files beside it, say of it; `unit` is that of the CRS's heights."""
    found, beside = Meaning(), beside or Sidecars()
    said = merged(found.tried(lambda: _tag(layout, image)) or GdalMetadata(), beside.pam)
    for problem in said.problems:
        found.refuse(problem)
    bands = [said.band(number) for number in range(1, image.samples + 1)]
    if len(bands) == 1 and bands[0].unit is None and image.photometric == Photometric.MINISBLACK:
        bands[0].unit = unit
    found.nodata = next((band.nodata for band in bands if band.nodata is not None), None)
    found.array |= _bands(bands)
    _add_colors(found, layout, image, bands, expand=options.expand_palette)
    found.full |= _extras(bands)
    found.group |= _about(found, layout, image, said.items)
    if options.embedded:
        found.group |= _embedded(found, layout, image)
    refused = [*found.refused, *beside.refused]
    found.group |= {"metadata_refused": refused} if refused else {}
    return found


def _tag(layout: TiffLayout, image: TiffImage) -> GdalMetadata:
    text = bounded_text(layout, image.ifd, Tag.GDAL_METADATA)
    return parse_gdal_metadata(text) if text and text.strip() else GdalMetadata()


def _bands(bands: Sequence[BandMetadata]) -> dict[str, Any]:
    """Return names, scales, offsets and units; a list has an entry a band.

    CF's `units` only where one unit is that of all stored numbers: those of scaled bands have none.
    """
    found: dict[str, Any] = {}
    if any(band.description for band in bands):
        found["band_names"] = [band.description or "" for band in bands]
        if len(bands) == 1:
            found["long_name"] = bands[0].description
    scaling = [(_finite(band.scale, 1.0), _finite(band.offset, 0.0)) for band in bands]
    is_scaled = set(scaling) != {(1.0, 0.0)}
    if is_scaled:
        found |= {"scales": [scale for scale, _ in scaling], "offsets": [offset for _, offset in scaling]}
    units = [band.unit or "" for band in bands]
    if any(units):
        is_plain = len(set(units)) == 1 and not is_scaled
        found |= {"units": units[0]} if is_plain else {"band_units": units}
    return found


def _finite(value: float | None, default: float) -> float:
    return default if value is None or not math.isfinite(value) else value


def _add_colors(
    found: Meaning, layout: TiffLayout, image: TiffImage, bands: Sequence[BandMetadata], *, expand: bool
) -> None:
    """Add colour interpretations, and the colours of a palette, or take these instead of the indices."""
    outer = bands[0].color_table if bands else ()
    said = found.nodata or found.tried(lambda: nodata_tag(layout, image))
    table = found.tried(lambda: palette.palette_of(layout, image))
    if table is not None and expand and image.photometric == Photometric.PALETTE:
        found.table = table
        found.array |= {"colorinterp": list(colors.COLORS[Photometric.RGB])}
        return
    extra = found.tried(lambda: layout.ints(image.ifd, Tag.ExtraSamples)) or ()
    has_table = table is not None or bool(outer)
    found.array |= colors.color_attributes(image, extra, [band.color for band in bands], has_table=has_table)
    names = bands[0].categories
    if outer:
        found.array |= palette.palette_attributes(outer, names=names)
    elif table is not None:
        is_map = image.photometric == Photometric.PALETTE
        names = names or palette.bilevel_names(table)
        transparent = _whole(said) if is_map else None
        found.array |= palette.palette_attributes(table.tolist(), transparent=transparent, names=names)
    else:
        found.array |= palette.flag_meanings(names)


def _whole(text: str | None) -> int | None:
    try:
        number = float(text or "nan")
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _extras(bands: Sequence[BandMetadata]) -> dict[str, Any]:
    """Return statistics and all other items, each with an entry a band."""
    statistics, others = [], []
    for band in bands:
        plain = band.items.get("", {})
        numbers = {name: _statistic(name, value) for name, value in plain.items() if name.startswith(STATISTICS)}
        read = {name: value for name, value in numbers.items() if value is not None}
        rest = {name: value for name, value in plain.items() if name not in read}
        if band.color is not None and colors.color_name(band.color) is None:
            rest["COLOR_INTERPRETATION"] = band.color  # as GDAL keeps one that it does not know
        statistics.append({name.removeprefix(STATISTICS).lower(): value for name, value in read.items()})
        others.append(without_empty({**band.items, "": rest}))
    found = {"statistics": statistics, "band_metadata": others}
    return {name: values for name, values in found.items() if any(values)}


def _statistic(name: str, text: str) -> float | bool | None:
    """Return a statistic, None for what is no finite number."""
    if name.lower().endswith(APPROXIMATE):
        return text.strip().upper() == "YES"
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _about(found: Meaning, layout: TiffLayout, image: TiffImage, items: Items) -> dict[str, Any]:
    """Return what stands in tags of their own, and GDAL's items by domain."""
    ifd = image.ifd
    texts = {
        name: found.tried(lambda tag=tag: text_tag(layout, ifd, tag))  # type: ignore[misc]
        for tag, name in TEXTS.items()
    }
    numbers = {
        name: found.tried(lambda tag=tag: number_tag(layout, ifd, tag))  # type: ignore[misc]
        for tag, name in NUMBERS.items()
    }
    return without_empty(
        {
            **texts,
            **numbers,
            "TIFFTAG_RESOLUTIONUNIT": found.tried(lambda: resolution_unit(layout, ifd)),
            "datetime": acquired(items, texts["TIFFTAG_DATETIME"]),
            "gdal_metadata": items,
        }
    )


def _embedded(found: Meaning, layout: TiffLayout, image: TiffImage) -> dict[str, Any]:
    ifd = image.ifd
    return without_empty(
        {
            "icc_profile": found.tried(lambda: icc_profile(layout, ifd)),
            "xmp": found.tried(lambda: xmp(layout, ifd)),
            "exif": found.tried(lambda: exif(layout, ifd)),
        }
    )
