"""What an image's bands mean: CF's attributes where all bands agree, else lists with an entry for each band.

CF has one `scale_factor`, `add_offset` and `units` for an array, and readers apply them
(https://cfconventions.org/cf-conventions/cf-conventions.html#packed-data).  Bands that differ have lists, named as in
rasterio, that no reader applies: `{"scales": [0.1, 0.5], "offsets": [0.0, -1.0], "band_units": ["m", "K"]}`.
docs/decisions/042-what-is-opened-can-be-saved.md has the reasons.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from jnrrdz.core.json_schema import as_object, as_text, without_empty
from jnrrdz.records import record

BAND = "band"
BAND_AXES = (BAND, "c")
"""Names of axes whose elements are bands or channels."""

NAMES, SCALES, OFFSETS, UNITS = "band_names", "scales", "offsets", "band_units"
NODATA = "band_nodata"
"""Numbers that mark missing pixels of bands that differ, `[0.0, 255.0, None]`; `_FillValue` where they agree."""
SCALE_FACTOR, ADD_OFFSET, CF_UNITS = "scale_factor", "add_offset", "units"

COORDINATES = {
    SCALES: "scale",
    OFFSETS: "offset",
    UNITS: "unit",
    NODATA: "nodata",
    "colorinterp": "colorinterp",
    "bits_per_sample": "bits_per_sample",
    "statistics": "statistics",
    "band_metadata": "band_metadata",
}
"""Attributes with an entry for each band, and the coordinates along `band` that they become in a dataset."""

PER_BAND = frozenset({NAMES, *COORDINATES})

SPREAD = frozenset({SCALES, OFFSETS, UNITS, SCALE_FACTOR, ADD_OFFSET, CF_UNITS})
"""Attributes of `with_common` and `by_band`: for all bands at once, or a list of entries."""

DEFAULTS: Mapping[str, Any] = {SCALES: 1.0, OFFSETS: 0.0, UNITS: ""}
"""The entries of a band without scale, offset or unit."""

type Attributes = dict[str, Any]


def band_count(names: Sequence[Hashable], shape: Sequence[int]) -> int:
    """Return the bands of an array with these axes, 1 where it has no axis of bands."""
    return shape[names.index(BAND)] if BAND in names else 1


def entries(attributes: Mapping[str, Any], name: str, bands: int) -> list[Any] | None:
    """Return the entry of each band; None where the attribute is no list of as many."""
    value = attributes.get(name)
    if not isinstance(value, list | tuple) or not value or len(value) not in {1, bands}:
        return None
    return [*value] * (bands // len(value))


def differ_in_scale(attributes: Mapping[str, Any], bands: int) -> bool:
    """Whether the bands' numbers mean values by different scales or offsets."""
    pairs = _pairs(attributes, bands)
    return any(pair != pairs[0] for pair in pairs)


def _pairs(attributes: Mapping[str, Any], bands: int) -> list[tuple[float, float]]:
    """Return scale and offset of each band; nothing where the attributes do not list both."""
    scales, offsets = entries(attributes, SCALES, bands), entries(attributes, OFFSETS, bands)
    if scales is None or offsets is None or not _is_numeric(scales + offsets):
        return []
    return list(zip(scales, offsets, strict=True))


def with_common(attributes: Mapping[str, Any], bands: int) -> Attributes:
    """Return attributes with CF's in place of the lists whose entries agree."""
    common = dict(attributes)
    pairs = _pairs(common, bands)
    if pairs and not differ_in_scale(common, bands):
        del common[SCALES], common[OFFSETS]
        scale, offset = pairs[0]
        if (scale, offset) != (1, 0):
            common |= {SCALE_FACTOR: float(scale), ADD_OFFSET: float(offset)}
    units = entries(common, UNITS, bands)
    agree = units is not None and SCALES not in common and all(unit == units[0] for unit in units)
    # CF's unit is that of the scaled numbers; xarray makes dates of numbers that it was asked not to scale
    if units and agree and not (SCALE_FACTOR in common and " since " in str(units[0])):
        del common[UNITS]
        common |= {CF_UNITS: units[0]} if units[0] else {}
    return common


def by_band(attributes: Mapping[str, Any], bands: int) -> Attributes:
    """Return attributes with lists in place of CF's that hold for all bands."""
    spread = dict(attributes)
    if SCALES not in spread and _is_numeric([spread.get(SCALE_FACTOR, 1), spread.get(ADD_OFFSET, 0)]):
        scale, offset = spread.pop(SCALE_FACTOR, None), spread.pop(ADD_OFFSET, None)
        if (scale, offset) != (None, None):
            spread[SCALES] = [1.0 if scale is None else scale] * bands
            spread[OFFSETS] = [0.0 if offset is None else offset] * bands
    if UNITS not in spread and isinstance(spread.get(CF_UNITS), str):
        spread[UNITS] = [spread.pop(CF_UNITS)] * bands
    return spread


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


# The same, read again


@record(eq=False)
class Band:
    """What metadata say of one band; None for what they do not say."""

    number: int
    """Counted from 1."""
    nodata: Any = None
    """As JSON has it: a number, or Zarr's text for NaN and infinities."""
    name: Any = None
    colour: Any = None
    """GDAL's interpretation, such as `red`, `alpha` or `palette`."""
    scale: Any = None
    offset: Any = None
    unit: Any = None
    statistics: Any = None
    """`{"minimum": 0, "maximum": 255, "mean": 97.2}`"""
    metadata: Any = None
    """Items of GDAL's metadata by their domains."""
    bits: Any = None
    """Significant bits of a sample."""

    def to_json(self) -> Attributes:
        """Return what is known of the band, as `jnrrdz info` has it."""
        return without_empty(
            {
                "number": self.number,
                "nodata": self.nodata,
                "name": self.name,
                "colour": self.colour,
                "scale": self.scale,
                "offset": self.offset,
                "unit": self.unit,
                "statistics": self.statistics,
                "metadata": self.metadata,
                "bits": self.bits,
            }
        )


BAND_LISTS = {
    "nodata": NODATA,
    "name": NAMES,
    "colour": "colorinterp",
    "scale": SCALES,
    "offset": OFFSETS,
    "unit": UNITS,
    "statistics": "statistics",
    "metadata": "band_metadata",
    "bits": "bits_per_sample",
}
"""Fields of a band, and the attributes that list them."""


def stated_bands(attributes: Mapping[str, Any], count: int, nodata: Any) -> tuple[Band, ...]:
    """Return each band by the attributes of its array; nothing where they say nothing.

    `nodata` is the value of all bands, where they have one.  A list counts where it has
    an entry for each band; empty texts say nothing.
    """
    spread = by_band(attributes, count)
    lists = {member: spread.get(name) for member, name in BAND_LISTS.items()}
    listed = {member: values for member, values in lists.items() if isinstance(values, list) and len(values) == count}
    if not listed and nodata is None:
        return ()
    bands = []
    for index in range(count):
        entries_of_band = {member: values[index] for member, values in listed.items()}
        stated = {member: value for member, value in entries_of_band.items() if value != ""}
        bands.append(Band(number=index + 1, **{"nodata": nodata, **stated}))
    return tuple(bands)


@record(eq=False)
class Colours:
    """How the numbers of an image become colours."""

    photometric: str | None = None
    """TIFF's word, such as `MINISWHITE`."""
    space: Any = None
    table: list[Any] | None = None
    """A palette: red, green, blue and alpha of each index."""

    @classmethod
    def of_attributes(cls, attributes: Mapping[str, Any]) -> "Colours":
        """Return the colours that attributes of an array state."""
        table = attributes.get(PALETTE)
        return cls(
            as_text(attributes.get("photometric")),
            attributes.get("color_space"),
            table if isinstance(table, list) else None,
        )

    def to_json(self) -> Attributes:
        """Return what is known of the colours, as `jnrrdz info` has it."""
        members = {"photometric": self.photometric, "space": self.space, "table": self.table}
        return without_empty(members)


PALETTE = "color_table"
COLOURS = 3
FEWEST_RAMP = 3
"""Colours of the shortest ramp: two are none."""

CLASSES = ("flag_values", "flag_masks", "flag_meanings")
"""Attributes of arrays whose numbers are names of classes, as CF has them."""


def has_palette(attributes: Mapping[str, Any]) -> bool:
    """Whether the numbers of an array are indices into a table of colours."""
    table = attributes.get(PALETTE)
    return isinstance(table, list | tuple) or attributes.get("colorinterp") == ["palette"]


def is_grey_ramp(attributes: Mapping[str, Any]) -> bool:
    """Whether the table of colours is brightness in even steps: it names no classes.

    TIFF's MINISWHITE and look-up tables of NITF are tables too.
    """
    table = attributes.get(PALETTE)
    if not isinstance(table, list | tuple) or len(table) < FEWEST_RAMP:
        return False
    greys = []
    for entry in table:
        if not isinstance(entry, list | tuple) or len(entry) < COLOURS:
            return False
        red, green, blue = entry[:COLOURS]
        if not isinstance(red, int) or not red == green == blue:
            return False
        greys.append(red)
    steps = [after - before for before, after in pairwise(greys)]
    is_even = max(steps) - min(steps) <= 1
    return is_even and bool(min(steps) > 0 or max(steps) < 0)


def has_classes(attributes: Mapping[str, Any], *, is_ramp: bool) -> bool:
    """Whether flags, or GDAL's metadata of all bands, make the numbers names of classes.

    `is_ramp` says that the table of colours is a ramp of greys, whose flags are none.
    """
    if any(name in attributes for name in CLASSES) and not is_ramp:
        return True
    bands = attributes.get("band_metadata")
    if not isinstance(bands, list | tuple) or not bands:
        return False
    items = [as_object(as_object(band).get("")) for band in bands]
    return all(str(item.get("LAYER_TYPE")).lower() == "thematic" for item in items)
