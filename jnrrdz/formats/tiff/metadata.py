"""What a TIFF says of its pixels: names, units, scales, colours and palettes of bands, when and by whom they were made.

Colours go by the names that rasterio gives to GDAL's interpretations.  GDAL's own tag comes from `gdal_metadata`.
"""

import base64
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import NAMES, NODATA, OFFSETS, SCALES, UNITS, with_common
from jnrrdz.core.limits import XML_BYTES
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.colours import CHANNELS, OPAQUE, palette_attributes
from jnrrdz.formats.tiff.arrays import nodata_text
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.gdal_metadata import (
    BandMetadata,
    GdalMetadata,
    Items,
    finite_number,
    merged,
    parse_gdal_metadata,
)
from jnrrdz.formats.tiff.georeference import Sidecars
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import ExtraSample, Photometric, Tag
from jnrrdz.formats.tiff_directory import Entry, FieldType
from jnrrdz.options import ScanOptions

COLOURS: dict[int, tuple[str, ...]] = {
    Photometric.MINISBLACK: ("gray",),
    Photometric.MINISWHITE: ("gray",),
    Photometric.PALETTE: ("palette",),
    Photometric.RGB: ("red", "green", "blue"),
    Photometric.YCBCR: ("red", "green", "blue"),  # as which it is read
    Photometric.SEPARATED: ("cyan", "magenta", "yellow", "black"),
}
"""The colours of the first samples; further ones are alpha or undefined."""

RENAMED = {"ycbcr_y": "Y", "ycbcr_cb": "Cb", "ycbcr_cr": "Cr", "otherir": "other_ir"}
"""GDAL's names in lower case, where rasterio has others."""

NAMED = frozenset(
    {
        "undefined",
        "gray",
        "palette",
        "red",
        "green",
        "blue",
        "alpha",
        "hue",
        "saturation",
        "lightness",
        "cyan",
        "magenta",
        "yellow",
        "black",
        "pan",
        "coastal",
        "rededge",
        "nir",
        "swir",
        "mwir",
        "lwir",
        "tir",
        "ir",
        "sar_ka",
        "sar_k",
        "sar_ku",
        "sar_x",
        "sar_c",
        "sar_s",
        "sar_l",
        "sar_p",
    }
)
"""GDAL's names in lower case, where rasterio has the same."""

PLAIN = {Photometric.MINISBLACK, Photometric.RGB, Photometric.YCBCR, Photometric.PALETTE}
"""Interpretations that the colours say already; all others are named in an attribute."""

COLOUR_SAMPLES: dict[int, int] = {
    Photometric.MINISWHITE: 1,
    Photometric.MINISBLACK: 1,
    Photometric.PALETTE: 1,
    Photometric.RGB: 3,
    Photometric.YCBCR: 3,
    Photometric.CIELAB: 3,
    Photometric.ICCLAB: 3,
    Photometric.ITULAB: 3,
    Photometric.LOGLUV: 3,
    Photometric.SEPARATED: 4,
    Photometric.MASK: 4,
}
"""How many samples are colours, where libtiff knows."""

ALPHAS = {ExtraSample.ASSOCALPHA, ExtraSample.UNASSALPHA}


type Table = NDArray[np.uint8]
"""Entries by channels: red, green, blue."""

MAX_GREY_BITS = 8  # a longer list of greys says no more than the name of the interpretation
MAX_PALETTE_BITS = 16


def colour_attributes(
    image: TiffImage,
    extra: Sequence[int],
    bands: Sequence[BandMetadata],
    table: Table | None,
    transparent: int | None = None,
) -> dict[str, Any]:
    """Return the interpretation of each band, and the colours of a palette.

    What the metadata of the bands say goes before what the tags do (`extra` are ExtraSamples, `table` is
    ColorMap or what stands in for it).  `transparent` is the value that marks missing pixels.
    """
    outer, names = bands[0].colour_table, bands[0].categories
    has_table = table is not None or bool(outer)
    base = ("palette",) if has_table else COLOURS.get(image.photometric, ())
    # a list too short begins after the colours (libtiff), one too long ends with the last sample (GDAL)
    start = min(image.samples - len(extra), COLOUR_SAMPLES.get(image.photometric, image.samples))
    others = {start + place: "alpha" for place, kind in enumerate(extra) if kind in ALPHAS}
    shown = [*base, *(others.get(index, "undefined") for index in range(len(base), image.samples))][: image.samples]
    for index, band in enumerate(bands):
        if band.colour is not None and not (has_table and image.bits[0] == 1):  # two colours stay two colours
            shown[index] = colour_name(band.colour) or "undefined"
    attributes: dict[str, Any] = {"colorinterp": shown}
    if image.photometric in Photometric and image.photometric not in PLAIN:
        attributes["photometric"] = Photometric(image.photometric).name
    if ExtraSample.ASSOCALPHA in extra:
        attributes["alpha_premultiplied"] = True
    if outer:
        return attributes | _palette_attributes(outer, None, names)
    if table is not None:
        colours = table.tolist()
        if not names and sorted(colours) == [[0] * CHANNELS, [OPAQUE] * CHANNELS]:
            names = ("white", "black") if colours[0][0] else ("black", "white")
        return attributes | _palette_attributes(colours, transparent, names)
    return attributes | _flag_meanings(names)


def colour_name(text: str) -> str | None:
    """Return rasterio's name of what GDAL calls a colour interpretation, None for what is none."""
    name = text.strip().lower()
    return RENAMED.get(name, name if name in NAMED else None)


def palette_of(layout: TiffLayout, image: TiffImage) -> Table | None:
    """Return the colours of an image's values, None where they are no palette's."""
    bits, kind = image.bits[0], image.photometric
    if image.samples != 1:
        return None
    if kind == Photometric.PALETTE and (bits > 1 or Tag.ColorMap in image.ifd.entries):
        if bits > MAX_PALETTE_BITS:
            raise UnsupportedError(f"a palette of {bits} bits", offset=image.ifd.offset, field="ColorMap")
        values = layout.array(image.ifd, Tag.ColorMap, limit=CHANNELS << bits)
        if values is None or values.dtype.kind != "u" or values.size != CHANNELS << bits:
            reason = f"{0 if values is None else values.size} values where {CHANNELS << bits} belong"
            raise MalformedError(reason, offset=image.ifd.offset, field="ColorMap")
        divisor = 1 if values.max() <= OPAQUE else 257 if (values % 256).any() else 256
        return (values.reshape(CHANNELS, -1).T // divisor).astype(np.uint8)
    is_bilevel = bits == 1 and kind in {Photometric.MINISBLACK, Photometric.PALETTE}
    is_inverted = kind == Photometric.MINISWHITE and bits <= MAX_GREY_BITS
    if not (is_bilevel or is_inverted):
        return None
    steps = (1 << bits) - 1
    levels = (OPAQUE * np.arange(steps + 1) // steps).astype(np.uint8)
    return np.repeat((levels[::-1] if is_inverted else levels)[:, np.newaxis], CHANNELS, axis=1)


def _palette_attributes(
    table: Sequence[Sequence[int]], transparent: int | None, names: Sequence[str]
) -> dict[str, Any]:
    """Return colours as attributes: `color_table` as GDAL has it (with opacity), and CF's flags."""
    entries = [[*(int(channel) for channel in entry), OPAQUE][: CHANNELS + 1] for entry in table]
    if transparent is not None and 0 <= transparent < len(entries):
        entries[transparent][CHANNELS] = 0
    return palette_attributes(entries) | _flag_meanings(names)


def _flag_meanings(names: Sequence[str]) -> dict[str, Any]:
    """Return what the values 0, 1, ... mean as CF has it: one word each."""
    if not names:
        return {}
    words = ["_".join(name.split()) or f"value_{value}" for value, name in enumerate(names)]
    return {"flag_values": list(range(len(words))), "flag_meanings": " ".join(words)}


def expanded(array: VirtualArray, table: Table) -> VirtualArray:
    """Return an array of indices as one of colours: bands red, green and blue, 8 bits each."""
    config = cast("TiffTileConfig", array.codecs[0])
    attributes = {name: value for name, value in array.attributes.items() if name != "_FillValue"}
    if "_FillValue" in array.attributes:
        attributes["nodata"] = str(int(array.fill_value))
    fill = 0
    if (array.refs.columns().counts == 0).any():
        # the one number that chunks that are not there read as; their colour has three
        fill, green, blue = table[int(array.fill_value)].tolist()
        if not fill == green == blue:
            raise UnsupportedError(
                f"missing tiles of colour {(fill, green, blue)}: Zarr's fill value is one number for all bands; "
                "read the indices instead",
                field="ColorMap",
            )
    return replace(
        array,
        shape=(CHANNELS, *array.shape),
        dtype=np.dtype("u1"),
        chunks=(CHANNELS, *array.chunks),
        codecs=(replace(config, palette=table.tobytes()),),
        dimension_names=("band", *array.dimension_names),
        fill_value=np.uint8(fill),
        attributes=attributes,
    )


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


def bounded[T](read: Callable[[Ifd, int], T], ifd: Ifd, tag: Tag) -> T | None:
    """Return what a reader finds in a tag, None where it is absent; one too long to be metadata is refused."""
    entry = ifd.entries.get(tag)
    if entry is not None and entry.nbytes > XML_BYTES:
        reason = f"{entry.nbytes} bytes, no more than {XML_BYTES} are read"
        raise UnsupportedError(reason, offset=ifd.offset, field=tag.name)
    return None if entry is None else read(ifd, tag)


def _number_text(layout: TiffLayout, ifd: Ifd, tag: Tag) -> str | None:
    """Return the first number of a tag, as GDAL prints it."""
    values = layout.floats(ifd, tag)
    if not values:
        return None
    is_real = ifd.entries[tag].type in {FieldType.RATIONAL, FieldType.SRATIONAL, FieldType.FLOAT}
    return format(np.float32(values[0]), ".8g") if is_real else format(values[0], ".15g")


def acquired(items: Items, date_time: str | None) -> str | None:
    """Return in ISO 8601 when the image was taken; where no item says so, when the file says it was made."""
    known: dict[str, str] = {}
    for values in items.values():
        for name, value in values.items():
            known.setdefault(name.rpartition(".")[2].upper(), value)
    texts = [known[name] for name in ACQUIRED if name in known]
    return next((time for time in map(iso_time, [*texts, date_time or ""]) if time is not None), None)


def iso_time(text: str) -> str | None:
    """Return a date and time as ISO 8601 (without an offset where none is given), None for what is none."""
    match = _DATE.fullmatch(text.strip().strip("\"';"))
    if match is None:
        return None
    day, time = re.sub("[:/]", "-", match["day"]), match["time"]
    try:
        datetime.fromisoformat(day if time is None else f"{day}T{time}")
    except ValueError:
        return None
    if time is None:
        return day
    seconds, zone = time if time.count(":") > 1 else f"{time}:00", match["zone"] or ""
    zone = zone if zone in {"", "Z"} or ":" in zone else f"{zone[:3]}:{zone[3:]}"
    return f"{day}T{seconds}{match['fraction'] or ''}{zone}"


def without_empty(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items that have a value."""
    return {name: value for name, value in items.items() if value not in (None, "", {}, [])}


GPS_IFD = 34853
MAX_VALUES = 4096
"""A tag of more values than this is no fact about the image: maker notes, thumbnails."""


def _exif(layout: TiffLayout, ifd: Ifd) -> dict[str, Any] | None:
    """Return the EXIF tags by name; positions (`GPS...`) among them."""
    from tifffile import TIFF  # noqa: PLC0415  needs tens of milliseconds that other scans need not pay

    tags: dict[str, Any] = {}
    for pointer, names in ((Tag.ExifIFD, TIFF.EXIF_TAGS), (GPS_IFD, TIFF.GPS_TAGS)):
        start = layout.integer(ifd, pointer, 0)
        if not start:
            continue
        below = layout.ifd(start)
        for entry in below.entries.values():
            try:
                value = _exif_value(layout, below, entry) if entry.count <= MAX_VALUES else None
            except JnrrdzError:
                continue  # one tag that points outside the file says nothing about the others
            if value is not None:
                tags[str(names.get(entry.tag) or entry.tag)] = value
    return tags or None


def _exif_value(layout: TiffLayout, ifd: Ifd, entry: Entry) -> Any:
    if entry.type == FieldType.ASCII:
        return layout.text(ifd, entry.tag)
    if entry.type == FieldType.UNDEFINED:
        data = layout.raw(ifd, entry.tag) or b""
        text = data.rstrip(b"\0")
        return text.decode() if text.isascii() and text.decode().isprintable() else base64.b64encode(data).decode()
    if entry.type in {FieldType.RATIONAL, FieldType.SRATIONAL}:
        values: list[Any] = list(layout.floats(ifd, entry.tag))
    else:
        array = layout.array(ifd, entry.tag)
        values = [] if array is None else array.tolist()
    numbers = [number if np.isfinite(number) else None for number in values]
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

    def attempt[T](self, read: Callable[..., T], *arguments: Any) -> T | None:
        """Return what a reader finds, or None with the reason noted."""
        try:
            return read(*arguments)
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
    meaning, beside, ifd = Meaning(), beside or Sidecars(), image.ifd
    text = meaning.attempt(bounded, layout.text, ifd, Tag.GDAL_METADATA) or ""
    inner = meaning.attempt(parse_gdal_metadata, text) if text.strip() else None
    metadata = merged(inner or GdalMetadata(), beside.pam)
    for problem in metadata.problems:
        meaning.refuse(problem)
    bands = [metadata.band(number) for number in range(1, image.samples + 1)]
    if len(bands) == 1 and bands[0].unit is None and image.photometric == Photometric.MINISBLACK:
        bands[0].unit = unit
    meaning.array |= _bands(bands)
    _add_nodata(meaning, layout, image, bands)
    _add_colours(meaning, layout, image, bands, expand=options.expand_palette)
    meaning.full |= _extras(bands)
    meaning.group |= _about(meaning, layout, ifd, metadata.items)
    if options.embedded:
        profile = meaning.attempt(bounded, layout.raw, ifd, Tag.ICCProfile) or b""
        documents = {
            "icc_profile": base64.b64encode(profile).decode("ascii"),
            "xmp": meaning.attempt(bounded, layout.text, ifd, Tag.XMP),
            "exif": meaning.attempt(_exif, layout, ifd),
        }
        meaning.group |= without_empty(documents)
    refused = [*meaning.refused, *beside.refused]
    meaning.group |= {"metadata_refused": refused} if refused else {}
    return meaning


def _add_nodata(meaning: Meaning, layout: TiffLayout, image: TiffImage, bands: Sequence[BandMetadata]) -> None:
    """Add what marks missing pixels: one text where the bands of a sidecar agree, else a number for each."""
    if all(band.nodata is None for band in bands):
        return
    tag = meaning.attempt(nodata_text, layout, image) if Tag.GDAL_NODATA in image.ifd.entries else None
    texts = [tag if band.nodata is None else band.nodata for band in bands]
    numbers = [finite_number(text) for text in texts]
    if all(number == numbers[0] for number in numbers):
        meaning.nodata = texts[0]
    else:
        meaning.array[NODATA] = numbers


def _bands(bands: Sequence[BandMetadata]) -> dict[str, Any]:
    """Return names, scales, offsets and units: CF's attributes where all bands agree, else a list of each."""
    attributes: dict[str, Any] = {}
    if any(band.description for band in bands):
        attributes[NAMES] = [band.description or "" for band in bands]
        if len(bands) == 1:
            attributes["long_name"] = bands[0].description
    scales = [1.0 if band.scale is None or not math.isfinite(band.scale) else band.scale for band in bands]
    offsets = [0.0 if band.offset is None or not math.isfinite(band.offset) else band.offset for band in bands]
    units = [band.unit or "" for band in bands]
    return with_common({**attributes, SCALES: scales, OFFSETS: offsets, UNITS: units}, len(bands))


def _add_colours(
    meaning: Meaning, layout: TiffLayout, image: TiffImage, bands: Sequence[BandMetadata], *, expand: bool
) -> None:
    """Add colour interpretations, and the colours of a palette, or take these instead of the indices."""
    entries = image.ifd.entries
    is_palette = image.photometric == Photometric.PALETTE
    own = meaning.attempt(nodata_text, layout, image) if Tag.GDAL_NODATA in entries and not meaning.nodata else None
    table = meaning.attempt(palette_of, layout, image) if image.samples == 1 else None
    if table is not None and expand and is_palette:
        meaning.table = table
        meaning.array |= {"colorinterp": list(COLOURS[Photometric.RGB])}
        return
    extra = meaning.attempt(layout.ints, image.ifd, Tag.ExtraSamples) if Tag.ExtraSamples in entries else None
    number = finite_number(meaning.nodata or own) if is_palette else None
    transparent = int(number) if number is not None and number.is_integer() else None
    meaning.array |= colour_attributes(image, extra or (), bands, table, transparent)


def _extras(bands: Sequence[BandMetadata]) -> dict[str, Any]:
    """Return statistics and all other items, each with an entry a band."""
    statistics, others = [], []
    for band in bands:
        numbers: dict[str, float | bool] = {}
        rest: dict[str, str] = {}
        for name, text in band.items.get("", {}).items():
            value: float | bool | None = None
            if name.startswith(STATISTICS):
                is_flag = name.lower().endswith(APPROXIMATE)
                value = text.strip().upper() == "YES" if is_flag else finite_number(text)
            if value is None:
                rest[name] = text
            else:
                numbers[name.removeprefix(STATISTICS).lower()] = value
        if band.colour is not None and colour_name(band.colour) is None:
            rest["COLOR_INTERPRETATION"] = band.colour  # as GDAL keeps one that it does not know
        statistics.append(numbers)
        others.append(without_empty({**band.items, "": rest}))
    return {name: values for name, values in (("statistics", statistics), ("band_metadata", others)) if any(values)}


def _about(meaning: Meaning, layout: TiffLayout, ifd: Ifd, items: Items) -> dict[str, Any]:
    """Return what stands in tags of their own, and GDAL's items by domain."""
    entries = ifd.entries
    about: dict[str, Any] = {
        name: meaning.attempt(bounded, layout.text, ifd, tag) for tag, name in TEXTS.items() if tag in entries
    }
    about |= {name: meaning.attempt(_number_text, layout, ifd, tag) for tag, name in NUMBERS.items() if tag in entries}
    if not entries.keys().isdisjoint({Tag.ResolutionUnit, Tag.XResolution, Tag.YResolution}):
        # inches are TIFF's default
        unit = meaning.attempt(layout.integer, ifd, Tag.ResolutionUnit, 2)
        about["TIFFTAG_RESOLUTIONUNIT"] = None if unit is None else RESOLUTION_UNITS.get(unit, str(unit))
    about |= {"datetime": acquired(items, about.get("TIFFTAG_DATETIME")), "gdal_metadata": items}
    return without_empty(about)
