"""Arrays of packed numbers as the floats that they stand for, NaN where a value is missing.

May touch numpy, errors and the model's own modules only.  No byte of a chunk changes: codecs are put
before the array's own, zarr's `scale_offset` and `cast_value` where their result is bit for bit
`stored * scale + offset` in float64, rounded once to the array's type, and `jnrrdz.linear` where not.
docs/decisions/005-physical-values.md says how that is known.
Spec: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.core.bands import band_of
from jnrrdz.core.codec import CodecSpec, ScalarMap, cast_value, linear, scale_offset
from jnrrdz.core.fill_value import data_type, spelt
from jnrrdz.core.packing import BAND, Packing, band_attributes, is_categorical, packing_of, unpacked_attributes
from jnrrdz.errors import JnrrdzError, UnrepresentableError

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
LARGEST_PROVEN = 2
"""Bytes of the integers whose every value is tried."""

LARGEST_INTEGER = 4
"""Bytes of the integers that float64 holds without loss."""

PLAIN_EXPONENT = 900
"""Powers of two up to here, times any number that is stored, are neither infinite nor subnormal."""


@dataclass(frozen=True)
class Scaling:
    """How stored numbers become values: the type of these, and the codec that computes them in float64."""

    dtype: np.dtype[Any]
    codec: CodecSpec | None = None


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
            raise error.at(field=place) if error.field is None else _placed(error, place) from error.__cause__
    return replace(group, children=children)


def _placed(error: JnrrdzError, place: str) -> JnrrdzError:
    error.field = f"{place}: {error.field}"
    return error


def _variables(name: str, array: VirtualArray) -> dict[str, VirtualArray]:
    """Return the array's values under its name, or each band's under a name of its own."""
    packing = packing_of(array)
    if not packing.is_scaled and (not packing.missing or is_categorical(array)):
        return {name: array}
    _check_type(array)
    if len(packing.scales) == 1:
        return {name: _values(array, packing)}
    axis = array.dimension_names.index(BAND)
    if array.chunks[axis] == array.shape[axis]:
        return {name: _values(array, packing, axis)}
    return dict(_split(name, array, packing, axis))


def _check_type(array: VirtualArray) -> None:
    """Refuse a type whose values floats do not hold."""
    if array.dtype.kind not in "iuf":
        raise UnrepresentableError(
            f"values of {array.dtype}; scale, offset and nodata are applied to integers and floats only"
        )
    if array.dtype.kind in "iu" and array.dtype.itemsize > LARGEST_INTEGER:
        raise UnrepresentableError(
            f"integers of {array.dtype} beyond 2**53 are no float64 and would be lost; "
            "without physical values they are read as stored"
        )


def _split(name: str, array: VirtualArray, packing: Packing, axis: int) -> Iterator[tuple[str, VirtualArray]]:
    """Yield a variable for each band of an array with a chunk for each band."""
    bands = array.shape[axis]
    for band in range(bands):
        own = replace(band_of(array, axis, band), attributes=band_attributes(array.attributes, band, bands))
        yield f"{name}_{band + 1}", _values(own, packing.of_band(band))


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


def _chain(array: VirtualArray, packing: Packing, scaling: Scaling) -> Iterator[CodecSpec]:
    """Yield the codecs from values to stored numbers, which is the order that Zarr lists them in."""
    stored = array.dtype
    if scaling.codec is not None:
        if scaling.dtype != DOUBLE:
            yield cast_value(DOUBLE.name)
        yield scaling.codec
    computed = scaling.dtype if scaling.codec is None else DOUBLE
    decode: ScalarMap = [(_json(mark), "NaN") for mark in packing.mapped]
    if not decode and computed == stored:
        return
    encode: ScalarMap = [("NaN", mark) for mark, _ in decode[:1]] if stored.kind in "iu" else []
    # the fill value is encoded whenever an array is opened, and may be rounded to just outside
    clamp = "clamp" if stored.kind in "iu" else None
    yield cast_value(data_type(stored), out_of_range=clamp, encode=encode, decode=decode)


def _json(mark: Any) -> float | str:
    return spelt(mark) if isinstance(mark, float) else mark


def _fill(array: VirtualArray, packing: Packing, dtype: np.dtype[Any]) -> Any:
    """Return what a missing chunk reads as."""
    stored = array.fill_value
    if packing.is_missing(stored):
        return dtype.type(math.nan)
    with np.errstate(over="ignore"):
        values = np.float64(stored) * np.asarray(packing.scales) + np.asarray(packing.offsets)
    if len(set(values.tolist())) > 1 and np.any(array.refs.counts == 0):
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
        _check_finite(stored, scales, offsets)
    dtype = SINGLE if small and _fits_single(stored, scales, offsets) else DOUBLE
    if axis is None and _is_exact(stored, scales[0], offsets[0], dtype):
        return Scaling(dtype, scale_offset(1 / scales[0], offsets[0]))
    return Scaling(dtype, linear(scales, offsets, axis))


def _check_finite(stored: np.dtype[Any], scales: tuple[float, ...], offsets: tuple[float, ...]) -> None:
    limits = np.array([np.iinfo(stored).min, np.iinfo(stored).max], np.float64)
    for band, (scale, offset) in enumerate(zip(scales, offsets, strict=True), start=1):
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(limits * scale + offset).all():
                raise UnrepresentableError(f"scale {scale}, offset {offset} of band {band} go beyond float64")


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
