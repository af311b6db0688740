"""Arrays of packed numbers as the floats that they stand for, NaN where a value is missing.

Read are `scales` and `offsets` (lists, one entry a band, GDAL's meaning), CF's `scale_factor` and `add_offset`,
`_FillValue` and `missing_value` (https://cfconventions.org/cf-conventions/cf-conventions.html#packed-data).  No byte
of a chunk changes: codecs are put before the array's own, zarr's `scale_offset` and `cast_value`
(https://github.com/zarr-developers/zarr-extensions/tree/main/codecs) where their result is bit for bit
`stored * scale + offset` in float64, rounded once to the array's type, and `jnrrdz.linear` where not.
docs/decisions/005-physical-values.md says how that is known.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray, band_of
from jnrrdz.core.bands import (
    ADD_OFFSET,
    BAND,
    CF_UNITS,
    NAMES,
    NODATA,
    OFFSETS,
    SCALE_FACTOR,
    SCALES,
    UNITS,
    band_count,
)
from jnrrdz.core.codecs import LinearConfig, ScalarMap, cast_value, scale_offset
from jnrrdz.core.configuration import Codec
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import data_type, spelt
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.records import record

SCALE_NAMES = (SCALES, SCALE_FACTOR)
OFFSET_NAMES = (OFFSETS, ADD_OFFSET)
MISSING = ("_FillValue", "missing_value")
CATEGORIES = ("flag_values", "flag_masks", "flag_meanings", "flag_colors", "color_table")
"""Attributes that speak of stored numbers one by one: names, not quantities."""

LIMITS = ("valid_min", "valid_max", "valid_range")
STATISTICS = "statistics"
BAND_LISTS = {NAMES: "long_name", UNITS: CF_UNITS}
"""Lists with an entry a band, and what the entry is called on a band of its own."""


@record
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
    if NODATA in array.attributes:
        message = f"bands differ in nodata, {array.attributes[NODATA]}; without physical values they are read as stored"
        raise UnrepresentableError(message, field=NODATA)
    bands = band_count(array.dimension_names, array.shape)
    scales = _numbers(array.attributes, SCALE_NAMES, bands, default=1.0)
    offsets = _numbers(array.attributes, OFFSET_NAMES, bands, default=0.0)
    for band, scale in enumerate(scales, start=1):
        if scale == 0:
            raise UnrepresentableError(f"scale 0 of band {band} would make one value of all", field=SCALES)
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
    is_whole = array.dtype.kind in "iu"
    marks: list[Any] = []
    for name in MISSING:
        for mark in np.atleast_1d(array.attributes[name]).tolist() if name in array.attributes else ():
            if is_whole:
                limits = np.iinfo(array.dtype)
                fits = isinstance(mark, int) or (isinstance(mark, float) and mark.is_integer())
                typed = int(mark) if fits and limits.min <= mark <= limits.max else None
            else:
                typed = array.dtype.type(mark).item()
            if typed is not None and typed not in marks:
                marks.append(typed)
    return marks


def is_categorical(array: VirtualArray) -> bool:
    """Whether stored numbers are names of something: a palette's indices, flags, a mask."""
    return array.dtype.kind == "b" or any(name in array.attributes for name in CATEGORIES)


def unpacked_attributes(array: VirtualArray, packing: Packing) -> dict[str, Any]:
    """Return the attributes without what would make a reader unpack again, limits and statistics as values."""
    gone = {*SCALE_NAMES, *OFFSET_NAMES, *MISSING}
    if packing.is_scaled:
        gone |= {*CATEGORIES, "_Unsigned"}
    if len(packing.scales) > 1:
        gone |= {*LIMITS}  # a limit for all bands is none for any
    kept = {name: value for name, value in array.attributes.items() if name not in gone}
    if packing.is_scaled:
        for name in LIMITS:
            if name in kept:
                values = np.asarray(kept[name], np.float64) * packing.scales[0] + packing.offsets[0]
                kept[name] = sorted(values.tolist()) if values.ndim else float(values)
        if packing.scales[0] < 0:
            limits = {"valid_min": "valid_max", "valid_max": "valid_min"}  # each becomes the other
            kept = {limits.get(name, name): value for name, value in kept.items()}
        kept |= {STATISTICS: _statistics(kept[STATISTICS], packing)} if STATISTICS in kept else {}
        # where all bands are in one unit, the whole is, which does not hold of scaled numbers as stored
        units = set(kept.get(UNITS, ()))
        if len(units) == 1 and "" not in units:
            del kept[UNITS]
            kept[BAND_LISTS[UNITS]] = units.pop()
    return kept


def _statistics(bands: Sequence[Mapping[str, Any]], packing: Packing) -> list[dict[str, Any]]:
    """Return the statistics of stored numbers as those of the values."""
    pairs = list(zip(packing.scales, packing.offsets, strict=True))
    pairs *= len(bands) if len(pairs) == 1 else 1
    statistics: list[dict[str, Any]] = []
    for stored, (scale, offset) in zip(bands, pairs, strict=True):
        names = {"minimum": "maximum", "maximum": "minimum"} if scale < 0 else {}
        values: dict[str, Any] = {}
        for name, value in stored.items():
            if name in {"minimum", "maximum", "mean", "median"}:
                values[names.get(name, name)] = float(value) * scale + offset
            else:
                values[name] = float(value) * math.fabs(scale) if name == "stddev" else value
        statistics.append(values)
    return statistics


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


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
LARGEST_PROVEN = 2
"""Bytes of the integers whose every value is tried."""

LARGEST_INTEGER = 4
"""Bytes of the integers that float64 holds without loss."""

PLAIN_EXPONENT = 900
"""Powers of two up to here, times any number that is stored, are neither infinite nor subnormal."""


@record
class Scaling:
    """How stored numbers become values: the type of these, and the codec that computes them in float64."""

    dtype: np.dtype[Any]
    codec: Codec | None = None


def physical(group: VirtualGroup) -> VirtualGroup:
    """Return the tree with scale, offset and nodata applied to every array that has them.

    An array without any of them, and one whose numbers are names (a palette's, a mask's), stays as
    it is.  One whose bands are packed differently and stored apart becomes a variable for each band.
    """
    return _group(group, "")


def _group(group: VirtualGroup, path: str) -> VirtualGroup:
    children: dict[str, Node] = {}
    for name, child in group.children.items():
        place = f"{path}{name}"
        if isinstance(child, VirtualGroup):
            children[name] = _group(child, f"{place}/")
            continue
        try:
            children |= _variables(name, child)
        except JnrrdzError as error:
            error.field = place if error.field is None else f"{place}: {error.field}"
            raise error from error.__cause__
    return replace(group, children=children)


def _variables(name: str, array: VirtualArray) -> dict[str, VirtualArray]:
    """Return the array's values under its name, or each band's under a name of its own."""
    packing = packing_of(array)
    if not packing.is_scaled and (not packing.missing or is_categorical(array)):
        return {name: array}
    if array.dtype.kind not in "iuf":
        raise UnrepresentableError(
            f"values of {array.dtype}; scale, offset and nodata are applied to integers and floats only"
        )
    if array.dtype.kind in "iu" and array.dtype.itemsize > LARGEST_INTEGER:
        raise UnrepresentableError(
            f"integers of {array.dtype} beyond 2**53 are no float64 and would be lost; "
            "without physical values they are read as stored"
        )
    if len(packing.scales) == 1:
        return {name: _values(array, packing)}
    axis = array.dimension_names.index(BAND)
    bands = array.shape[axis]
    if array.chunks[axis] == bands:
        return {name: _values(array, packing, axis)}
    variables = {}
    for band in range(bands):
        own = replace(band_of(array, axis, band), attributes=band_attributes(array.attributes, band, bands))
        variables[f"{name}_{band + 1}"] = _values(own, packing.of_band(band))
    return variables


def _values(array: VirtualArray, packing: Packing, axis: int | None = None) -> VirtualArray:
    """Return the array of values."""
    scaling = scaling_of(array.dtype, packing.scales, packing.offsets, axis)
    return replace(
        array,
        dtype=scaling.dtype,
        codecs=(*_chain(array, packing, scaling), *array.codecs),
        fill_value=_fill(array, packing, scaling.dtype),
        attributes=unpacked_attributes(array, packing),
    )


def _chain(array: VirtualArray, packing: Packing, scaling: Scaling) -> Iterator[Codec]:
    """Yield the codecs from values to stored numbers, which is the order that Zarr lists them in."""
    stored = array.dtype
    if scaling.codec is not None:
        if scaling.dtype != DOUBLE:
            yield cast_value(DOUBLE.name)
        yield scaling.codec
    computed = scaling.dtype if scaling.codec is None else DOUBLE
    decode: ScalarMap = [(spelt(mark) if isinstance(mark, float) else mark, "NaN") for mark in packing.mapped]
    if not decode and computed == stored:
        return
    encode: ScalarMap = [("NaN", mark) for mark, _ in decode[:1]] if stored.kind in "iu" else []
    # the fill value is encoded whenever an array is opened, and may be rounded to just outside
    clamp = "clamp" if stored.kind in "iu" else None
    yield cast_value(data_type(stored), out_of_range=clamp, encode=encode, decode=decode)


def _fill(array: VirtualArray, packing: Packing, dtype: np.dtype[Any]) -> Any:
    """Return what a missing chunk reads as."""
    stored = array.fill_value
    if packing.is_missing(stored):
        return dtype.type(math.nan)
    with np.errstate(over="ignore"):
        values = np.float64(stored) * np.asarray(packing.scales) + np.asarray(packing.offsets)
    if len(set(values.tolist())) > 1 and np.any(array.refs.columns().counts == 0):
        raise UnrepresentableError(
            f"missing chunks would read as {', '.join(map(repr, values.tolist()))} in bands that a chunk holds "
            "together; an array has one fill value"
        )
    return dtype.type(values[0])


@lru_cache(maxsize=128)
def scaling_of(
    stored: np.dtype[Any], scales: tuple[float, ...], offsets: tuple[float, ...], axis: int | None = None
) -> Scaling:
    """Return the narrowest type that loses nothing, and a codec whose result is exact in it."""
    small = stored.kind in "iu" and stored.itemsize <= LARGEST_PROVEN
    identity = set(scales) == {1.0} and set(offsets) == {0.0}
    if identity:
        return Scaling(SINGLE if small else stored if stored.kind == "f" else DOUBLE)
    if stored.kind in "iu":
        limits = np.array([np.iinfo(stored).min, np.iinfo(stored).max], np.float64)
        for band, (scale, offset) in enumerate(zip(scales, offsets, strict=True), start=1):
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(limits * scale + offset).all():
                    raise UnrepresentableError(f"scale {scale}, offset {offset} of band {band} go beyond float64")
    dtype = SINGLE if small and _fits_single(stored, scales, offsets) else DOUBLE
    if axis is None and _is_exact(stored, scales[0], offsets[0], dtype):
        return Scaling(dtype, scale_offset(1 / scales[0], offsets[0]))
    if axis is None:
        return Scaling(dtype, LinearConfig(scales[0], offsets[0]))
    return Scaling(dtype, LinearConfig(scales, offsets, axis))


def _every(stored: np.dtype[Any]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    limits = np.iinfo(stored)
    return np.arange(limits.min, limits.max + 1, dtype=np.float64)


def _fits_single(stored: np.dtype[Any], scales: tuple[float, ...], offsets: tuple[float, ...]) -> bool:
    """Whether every stored number keeps a finite float32 of its own."""
    for scale, offset in zip(scales, offsets, strict=True):
        with np.errstate(over="ignore", under="ignore"):
            values = (_every(stored) * scale + offset).astype(SINGLE)
        if not np.isfinite(values).all() or not np.all(values[1:] != values[:-1]):
            return False
    return True


def _is_exact(stored: np.dtype[Any], scale: float, offset: float, dtype: np.dtype[Any]) -> bool:
    """Whether `stored / (1 / scale) + offset` is `stored * scale + offset` for all that can be stored.

    Small integers are tried one and all.  For other types the reciprocal has to be exact.  Zarr's
    codec takes the reciprocal as a number of the array's type, which has to have it.
    """
    with np.errstate(all="ignore"):
        reciprocal = np.abs(dtype.type(1 / np.float64(scale)))
    if not np.finfo(dtype).tiny <= reciprocal <= np.finfo(dtype).max:
        return False
    if stored.kind in "iu" and stored.itemsize <= LARGEST_PROVEN:
        every = _every(stored)
        with np.errstate(all="ignore"):
            divided = (every / (1 / np.float64(scale)) + offset).astype(dtype)
            wanted = (every * scale + offset).astype(dtype)
        return bool(math.isfinite(1 / scale) and np.array_equal(divided, wanted))
    mantissa, exponent = math.frexp(scale)
    return abs(mantissa) == 0.5 and abs(exponent) < PLAIN_EXPONENT and stored.kind in "iu"  # noqa: PLR2004  a power of 2
