"""Reductions of blocks of one size: average, max, min, mode.

May touch numpy and downsample.values.  Sums of integers are exact, 64-bit ones too.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.downsample.values import Gone, narrowed, wide, with_missing

type Sizes = tuple[int, ...]
type Reduction = Callable[[NDArray[Any], Gone, Sizes, Any], NDArray[Any]]

HALF_WORD = 32
LOW_WORD = (1 << HALF_WORD) - 1


def _taps(data: NDArray[Any], axis: int, size: int) -> Iterator[NDArray[Any]]:
    """Yield the first elements of all blocks along an axis, then the second ones, and so on."""
    before = (slice(None),) * axis
    for tap in range(size):
        yield data[(*before, slice(tap, None, size))]


def _folded(data: NDArray[Any], sizes: Sizes, join: np.ufunc) -> NDArray[Any]:
    """Return each block joined by a function, one axis after the other, the slowest first."""
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        taps = _taps(data, axis, size)
        found = next(taps).copy()
        for tap in taps:
            join(found, tap, out=found)
        data = found
    return data


def _sums(data: NDArray[Any], sizes: Sizes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the sum of each block in a type that holds it; the input is converted as it is added."""
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        taps = _taps(data, axis, size)
        found = next(taps).astype(dtype)
        for tap in taps:
            np.add(found, tap, out=found, casting="unsafe")
        data = found
    return data if data.dtype == dtype else data.astype(dtype)


# Average


def average(data: NDArray[Any], gone: Gone, sizes: Sizes, missing: Any) -> NDArray[Any]:
    """Return the mean of what is there in each block."""
    if data.dtype.kind == "b":
        return average(data.view(np.uint8), gone, sizes, missing).astype(bool)
    count: Any = math.prod(sizes)
    if gone is not None:
        data = np.where(gone, data.dtype.type(0), data)
        count = _sums(~gone, sizes, np.dtype(np.int64))
    some = np.maximum(count, 1)
    if data.dtype.kind in "iu":
        found = _integer_mean(data, sizes, some)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            found = narrowed(_sums(data, sizes, wide(data.dtype)) / some, data.dtype)
    return with_missing(found, None if gone is None else count == 0, missing)


def _integer_mean(data: NDArray[Any], sizes: Sizes, count: Any) -> NDArray[Any]:
    if data.dtype.itemsize == np.dtype(np.int64).itemsize:
        return _long_mean(data, sizes, count)
    total = _sums(data, sizes, _holder(data.dtype, math.prod(sizes)))
    if np.ndim(count) == 0 and int(count) & (int(count) - 1) == 0:
        return _shifted(total, int(count).bit_length() - 1).astype(data.dtype)
    return _divided(total, count).astype(data.dtype)


def _holder(dtype: np.dtype[Any], count: int) -> np.dtype[Any]:
    """Return the narrowest integer that holds the sum of so many, rounding included."""
    limits = np.iinfo(dtype)
    most = max(int(limits.max), -int(limits.min)) * (count + 1)
    kinds = (np.uint16, np.uint32, np.uint64) if dtype.kind == "u" else (np.int16, np.int32, np.int64)
    return np.dtype(next(kind for kind in kinds if most <= np.iinfo(kind).max))


def _shifted(total: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return total / 2**bits, rounded half to even."""
    if not bits:
        return total
    one = total.dtype.type(1)
    odd: NDArray[Any] = (total >> total.dtype.type(bits)) & one
    odd += total
    odd += total.dtype.type((1 << (bits - 1)) - 1)
    odd >>= total.dtype.type(bits)
    return odd


def _divided(total: NDArray[Any], count: Any) -> NDArray[Any]:
    """Return total / count, rounded half to even."""
    count = np.asarray(count).astype(total.dtype)
    quotient = total // count
    rest = total - quotient * count
    up = (rest > count - rest) | ((rest == count - rest) & (quotient % 2 == 1))
    found: NDArray[Any] = quotient + up.astype(total.dtype)
    return found


def _long_mean(data: NDArray[Any], sizes: Sizes, count: Any) -> NDArray[Any]:
    """Return the mean of 64-bit integers, whose sum 64 bits do not hold: by their halves."""
    kind = np.dtype(np.uint64 if data.dtype.kind == "u" else np.int64)
    word, mask = kind.type(HALF_WORD), kind.type(LOW_WORD)
    high, low = _sums(data >> word, sizes, kind), _sums(data & mask, sizes, kind)
    count = np.asarray(count).astype(kind)
    quotient = high // count
    rest = ((high - quotient * count) << word) + low
    found: NDArray[Any] = (quotient << word) + _divided(rest, count)
    return found.astype(data.dtype)


# The others


def _extreme(join: np.ufunc, *, low: bool) -> Reduction:
    def reduced(data: NDArray[Any], gone: Gone, sizes: Sizes, missing: Any) -> NDArray[Any]:
        if gone is None:
            return _folded(data, sizes, join)
        found = _folded(np.where(gone, _limit(data.dtype, low=low), data), sizes, join)
        found[_folded(gone, sizes, np.logical_and)] = np.nan if missing is None else missing
        return found

    return reduced


def _limit(dtype: np.dtype[Any], *, low: bool) -> Any:
    """Return what loses against every other value."""
    if dtype.kind == "f":
        return dtype.type(-np.inf if low else np.inf)
    if dtype.kind == "b":
        return np.bool_(not low)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if low else limits.max)


def mode(data: NDArray[Any], gone: Gone, sizes: Sizes, missing: Any) -> NDArray[Any]:
    """Return the most frequent value of each block, the smallest of those that are as frequent."""
    ordered: NDArray[Any] = np.sort(_gathered(data, sizes), axis=0)
    nothing = None
    if gone is not None:
        nothing = np.isnan(ordered) if data.dtype.kind == "f" else np.zeros(ordered.shape, bool)
        nothing |= False if missing is None else ordered == missing
    found: NDArray[Any] = ordered[0].copy()
    best = np.zeros(ordered.shape[1:], np.int32)
    run = np.zeros_like(best)
    for place, values in enumerate(ordered):
        run = np.where(values == ordered[place - 1], run + 1, 1) if place else run + 1
        if nothing is not None:
            run[nothing[place]] = 0
        better = run > best
        best[better], found[better] = run[better], values[better]
    if gone is not None:
        found[best == 0] = np.nan if missing is None else missing
    return found


def _gathered(data: NDArray[Any], sizes: Sizes) -> NDArray[Any]:
    """Return the elements of each block along a new first axis."""
    pairs = [(extent // size, size) for extent, size in zip(data.shape, sizes, strict=True)]
    split = data.reshape([number for pair in pairs for number in pair])
    within, across = tuple(range(1, 2 * len(sizes), 2)), tuple(range(0, 2 * len(sizes), 2))
    found: NDArray[Any] = split.transpose(within + across).reshape((-1, *(count for count, _ in pairs)))
    return found


BLOCKS: Mapping[str, Reduction] = {
    "average": average,
    "max": _extreme(np.maximum, low=True),
    "min": _extreme(np.minimum, low=False),
    "mode": mode,
}
