"""How an array's stored numbers stand for values, as its attributes say; and the attributes of the values.

May touch numpy, errors and the model's own modules only.  Read are `scales` and `offsets` (lists, one
entry a band, GDAL's meaning), CF's `scale_factor` and `add_offset`, `_FillValue` and `missing_value`:
https://cfconventions.org/cf-conventions/cf-conventions.html#packed-data
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.core.array import VirtualArray
from jnrrdz.errors import UnrepresentableError

BAND = "band"
SCALES = ("scales", "scale_factor")
OFFSETS = ("offsets", "add_offset")
MISSING = ("_FillValue", "missing_value")
CATEGORIES = ("flag_values", "flag_masks", "flag_meanings", "flag_colors", "color_table")
"""Attributes that speak of stored numbers one by one: names, not quantities."""

LIMITS = ("valid_min", "valid_max", "valid_range")
STATISTICS = "statistics"
UNITS = "band_units"
BAND_LISTS = {"band_names": "long_name", UNITS: "units"}
"""Lists with an entry a band, and what the entry is called on a band of its own."""


@dataclass(frozen=True)
class Packing:
    """A value is `stored * scale + offset`; one pair for all bands, or one for each."""

    scales: tuple[float, ...] = (1.0,)
    offsets: tuple[float, ...] = (0.0,)
    missing: tuple[Any, ...] = ()
    """Stored numbers, of the array's type, that mark a missing value."""

    @property
    def is_scaled(self) -> bool:
        """Whether values differ from what is stored."""
        return any(scale != 1 for scale in self.scales) or any(offset != 0 for offset in self.offsets)

    @property
    def mapped(self) -> tuple[Any, ...]:
        """The marks of a missing value that are not NaN already."""
        return tuple(mark for mark in self.missing if mark == mark)  # noqa: PLR0124  what NaN is not

    def is_missing(self, stored: Any) -> bool:
        """Whether a stored number marks a missing value."""
        return any(mark == stored or (mark != mark and stored != stored) for mark in self.missing)  # noqa: PLR0124

    def of_band(self, band: int) -> "Packing":
        """Return the packing of one band, counted from 0."""
        return Packing((self.scales[band],), (self.offsets[band],), self.missing)


def packing_of(array: VirtualArray) -> Packing:
    """Return what the attributes say of stored numbers; a band's pair only where the bands differ."""
    bands = array.shape[array.dimension_names.index(BAND)] if BAND in array.dimension_names else 1
    scales = _numbers(array.attributes, SCALES, bands, default=1.0)
    offsets = _numbers(array.attributes, OFFSETS, bands, default=0.0)
    for band, scale in enumerate(scales, start=1):
        if scale == 0:
            raise UnrepresentableError(f"scale 0 of band {band} would make one value of all", field=SCALES[0])
    if len(set(zip(scales, offsets, strict=True))) == 1:
        scales, offsets = scales[:1], offsets[:1]
    return Packing(scales, offsets, tuple(_marks(array)))


def _numbers(attributes: Mapping[str, Any], names: Sequence[str], bands: int, *, default: float) -> tuple[float, ...]:
    """Return a number for each band."""
    name = next((name for name in names if attributes.get(name) is not None), None)
    if name is None:
        return (default,) * bands
    found = np.atleast_1d(attributes[name])
    if found.ndim != 1 or len(found) not in {1, bands} or found.dtype.kind not in "iuf":
        raise UnrepresentableError(f"{attributes[name]!r} is not a number for each of {bands} bands", field=name)
    if not np.isfinite(found).all():
        raise UnrepresentableError(f"{attributes[name]!r} are not finite", field=name)
    return tuple(float(number) for number in np.broadcast_to(found, bands))


def _marks(array: VirtualArray) -> list[Any]:
    """Return the marks of missing values that stored numbers can equal."""
    found: list[Any] = []
    for name in MISSING:
        for mark in np.atleast_1d(array.attributes[name]).tolist() if name in array.attributes else ():
            typed = _typed(mark, array.dtype)
            if typed is not None and typed not in found:
                found.append(typed)
    return found


def _typed(mark: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = isinstance(mark, int) or (isinstance(mark, float) and mark.is_integer())
        return int(mark) if whole and limits.min <= mark <= limits.max else None
    return dtype.type(mark).item()


def is_categorical(array: VirtualArray) -> bool:
    """Whether stored numbers are names of something: a palette's indices, flags, a mask."""
    return array.dtype.kind == "b" or any(name in array.attributes for name in CATEGORIES)


def unpacked_attributes(array: VirtualArray, packing: Packing) -> dict[str, Any]:
    """Return the attributes without what would make a reader unpack again, limits and statistics as values."""
    gone = {*SCALES, *OFFSETS, *MISSING}
    if packing.is_scaled:
        gone |= {*CATEGORIES, "_Unsigned"}
    if len(packing.scales) > 1:
        gone |= {*LIMITS}  # a limit for all bands is none for any
    kept = {name: value for name, value in array.attributes.items() if name not in gone}
    if packing.is_scaled:
        kept |= {name: _limits(kept[name], packing) for name in LIMITS if name in kept}
        if packing.scales[0] < 0:
            kept = {_swapped(name): value for name, value in kept.items()}
        kept |= {STATISTICS: _statistics(kept[STATISTICS], packing)} if STATISTICS in kept else {}
        kept = _with_unit(kept)
    return kept


def _with_unit(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes with the unit in which all bands are, which does not hold of scaled numbers as stored."""
    units = set(attributes.get(UNITS, ()))
    if len(units) != 1 or "" in units:
        return attributes
    kept = {name: value for name, value in attributes.items() if name != UNITS}
    return {**kept, BAND_LISTS[UNITS]: units.pop()}


def _limits(stored: Any, packing: Packing) -> Any:
    values = np.asarray(stored, np.float64) * packing.scales[0] + packing.offsets[0]
    found: Any = sorted(values.tolist()) if values.ndim else float(values)
    return found


def _swapped(name: str) -> str:
    """Return the limit that another becomes under a negative scale."""
    return {"valid_min": "valid_max", "valid_max": "valid_min"}.get(name, name)


def _statistics(bands: Sequence[Mapping[str, Any]], packing: Packing) -> list[dict[str, Any]]:
    """Return the statistics of stored numbers as those of the values."""
    pairs = list(zip(packing.scales, packing.offsets, strict=True))
    pairs *= len(bands) if len(pairs) == 1 else 1
    return [_band_statistics(found, *pair) for found, pair in zip(bands, pairs, strict=True)]


def _band_statistics(stored: Mapping[str, Any], scale: float, offset: float) -> dict[str, Any]:
    names = {"minimum": "maximum", "maximum": "minimum"} if scale < 0 else {}
    found: dict[str, Any] = {}
    for name, value in stored.items():
        if name in {"minimum", "maximum", "mean", "median"}:
            found[names.get(name, name)] = float(value) * scale + offset
        else:
            found[name] = float(value) * math.fabs(scale) if name == "stddev" else value
    return found


def band_attributes(attributes: Mapping[str, Any], band: int, bands: int) -> dict[str, Any]:
    """Return the attributes of one band, counted from 0, of an array that is split into its bands."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        if not isinstance(value, list | tuple) or len(value) != bands or name in (*LIMITS, *CATEGORIES):
            found[name] = value
        elif name not in BAND_LISTS:
            found[name] = [value[band]]
        elif value[band]:
            found[BAND_LISTS[name]] = value[band]
    return found
