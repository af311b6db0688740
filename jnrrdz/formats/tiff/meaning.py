"""What a TIFF says of its pixels: names, units, scales and colours of bands, and where they come from.

May touch the TIFF layout and what stands beside the file.  Names and rules are GDAL's, since it
wrote most of what is read here.  A tag that cannot be understood never costs the pixels: it is
named in the attribute `metadata_refused` and in a warning.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html, docs/formats/tiff-metadata.md
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.tiff import colors, description, embedded
from jnrrdz.formats.tiff import palette_tiff as palette
from jnrrdz.formats.tiff.gdal_metadata import BandMetadata, GdalMetadata, Items, merged, parse_gdal_metadata
from jnrrdz.formats.tiff.nodata import nodata_tag
from jnrrdz.formats.tiff.palette_tiff import Table
from jnrrdz.formats.tiff.sidecars import Sidecars
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Tag
from jnrrdz.formats.tiff.tiff_image import TiffImage
from jnrrdz.options import ScanOptions

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
    text = description.bounded_text(layout, image.ifd, Tag.GDAL_METADATA)
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
        others.append(description.without_empty({**band.items, "": rest}))
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
        name: found.tried(lambda tag=tag: description.text_tag(layout, ifd, tag))  # type: ignore[misc]
        for tag, name in description.TEXTS.items()
    }
    numbers = {
        name: found.tried(lambda tag=tag: description.number_tag(layout, ifd, tag))  # type: ignore[misc]
        for tag, name in description.NUMBERS.items()
    }
    return description.without_empty(
        {
            **texts,
            **numbers,
            "TIFFTAG_RESOLUTIONUNIT": found.tried(lambda: description.resolution_unit(layout, ifd)),
            "datetime": description.acquired(items, texts["TIFFTAG_DATETIME"]),
            "gdal_metadata": items,
        }
    )


def _embedded(found: Meaning, layout: TiffLayout, image: TiffImage) -> dict[str, Any]:
    ifd = image.ifd
    return description.without_empty(
        {
            "icc_profile": found.tried(lambda: embedded.icc_profile(layout, ifd)),
            "xmp": found.tried(lambda: embedded.xmp(layout, ifd)),
            "exif": found.tried(lambda: embedded.exif(layout, ifd)),
        }
    )
