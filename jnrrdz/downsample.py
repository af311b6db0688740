"""Coarser levels from finer ones: pure functions of arrays, the same for any part of a level.

An element of a level depends on nothing but the elements of the source around it, and is computed by the same
operations in the same order wherever the cuts between chunks are.  `average`, `max`, `min` and `mode` reduce the
block of elements that one stands for; sums of integers are exact, 64-bit ones too.  `gaussian` and `lanczos` are
weighted means around the middle of the block, both separable.  With the distance d of an element from that middle,
in elements, and the factor f along an axis, the weight is exp(-(d / (f / 3))**2 / 2) up to d = f, as scikit-image's
pyramids have it, or sinc(d / f) sinc(d / 3f) up to d = 3f
(https://en.wikipedia.org/wiki/Lanczos_resampling, a = 3).  Elements beyond the source's ends have no weight; the
rest is divided by the weights that are left.

Integers are rounded half to even and clipped to their range; what is computed never is the missing value by chance.
docs/howto/virtual-levels.md tells what each method is for.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError

type Sizes = tuple[int, ...]
type Region = tuple[slice, ...]
"""A slice with start and stop along each axis."""

type Floats = NDArray[np.float64]
type Gone = NDArray[np.bool_] | None
"""Where there is nothing, None where that is nowhere."""

type Reduction = Callable[[NDArray[Any], Gone, Sizes, Any], NDArray[Any]]

LARGEST_BLOCK = 1 << 30
"""Elements that one element may stand for: their exact sum fits into 64 bits."""

ORDERED = "biuf"
NUMBERS = "biufc"


@dataclass(frozen=True)
class Downsampling:
    """One way from a source to a level of it."""

    method: str
    factors: tuple[int, ...]
    source_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    missing: Any = None
    """The value of elements that hold nothing, beside NaN, which always means that."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning, by the field that says so."""
        if self.method not in BLOCKS and self.method not in KERNELS:
            known = ", ".join(sorted([*BLOCKS, *KERNELS]))
            raise UnsupportedError(f"a downsampling method {self.method!r}; there are {known}", field="method")
        if len(self.factors) != len(self.source_shape) or any(factor < 1 for factor in self.factors):
            raise MalformedError(f"factors {self.factors} of shape {self.source_shape}", field="factors")
        if math.prod(self.factors) > LARGEST_BLOCK:
            raise UnsupportedError(f"factors {self.factors}; one element would stand for too many", field="factors")
        kinds = ORDERED if self.method in {"max", "min", "mode"} else NUMBERS
        if self.dtype.kind not in kinds:
            raise UnsupportedError(f"the {self.method} of {self.dtype.name}, which has none", field="method")
        object.__setattr__(self, "missing", held(self.missing, self.dtype))

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the two shapes that a level may have: what does not fill an element dropped, or kept."""
        sizes = list(zip(self.source_shape, self.factors, strict=True))
        return tuple(max(size // f, min(size, 1)) for size, f in sizes), tuple(-(-size // f) for size, f in sizes)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape that a level of this source cannot have."""
        least, most = self.shapes()
        if len(shape) != len(least) or any(
            size not in both for size, both in zip(shape, zip(least, most, strict=True), strict=True)
        ):
            raise MalformedError(
                f"a level of shape {shape} from {self.source_shape} by {self.factors}; it would be {least} or {most}",
                field="shape",
            )

    def window(self, region: Region) -> Region:
        """Return the part of the source that a region of the level depends on."""
        kernel = KERNELS.get(self.method)
        margins = [kernel.margin(factor) if kernel and factor > 1 else 0 for factor in self.factors]
        axes = zip(region, self.factors, self.source_shape, margins, strict=True)
        return tuple(slice(max(at.start * f - m, 0), min(at.stop * f + m, size)) for at, f, size, m in axes)

    def apply(self, source: NDArray[Any], region: Region) -> NDArray[Any]:
        """Return a region of the level from the elements of the source in its window."""
        window = self.window(region)
        if source.shape != tuple(at.stop - at.start for at in window):
            raise ValueError(f"elements of shape {source.shape} for the window {window}")
        if all(factor == 1 for factor in self.factors):
            return source
        gone = np.isnan(source) if source.dtype.kind in "fc" else None
        if self.missing is not None:
            marked = source == self.missing
            gone = marked if gone is None else gone | marked
        gone = gone if gone is not None and gone.any() else None
        if self.method in KERNELS:
            return filtered(source, gone, self, region)
        reduce = BLOCKS[self.method]
        level = np.empty([at.stop - at.start for at in region], source.dtype)
        for target, blocks, sizes in _uniform(region, self.factors, self.source_shape):
            if level[target].size:
                level[target] = reduce(source[blocks], None if gone is None else gone[blocks], sizes, self.missing)
        return level


PIECE = 64 << 20
"""Bytes of the source that are read at one time, where the source's chunks are smaller."""

LARGEST = 1 << 30
"""Bytes of the source of one element, and of one computed chunk."""


class Part(NamedTuple):
    """A part of a chunk or tile of a level, and what it is computed of."""

    target: Region
    """Its place in the chunk."""

    region: Region
    """Its place in the level."""

    window: Region
    """The elements of the source that it depends on."""


@dataclass(frozen=True)
class LevelAssembler:
    """How the chunks of a level are put together: of parts whose sources are few enough to be in memory.

    `Downsampling` gives the same elements, to the bit, however they are cut.
    """

    filter: Downsampling
    chunks: tuple[int, ...]
    """Of the source."""

    piece: int | None = None
    """Bytes of the source that are read at one time, where its chunks are smaller; `PIECE` by default."""

    def fill(self, chunk: NDArray[Any], region: Region, read: Callable[[Region], NDArray[Any]]) -> None:
        """Compute a region of the level into the start of a chunk; `read` returns a window of the source."""
        for part in self.parts(region):
            chunk[part.target] = self.filter.apply(read(part.window), part.region)

    def parts(self, region: Region) -> Iterator[Part]:
        """Yield the parts of a region of the level."""
        steps = self._steps([at.stop - at.start for at in region])
        corners = [range(at.start, at.stop, step) for at, step in zip(region, steps, strict=True)]
        for corner in product(*corners):
            target = []
            piece = []
            for start, step, at in zip(corner, steps, region, strict=True):
                stop = min(start + step, at.stop)
                piece.append(slice(start, stop))
                target.append(slice(start - at.start, stop - at.start))
            yield Part(tuple(target), tuple(piece), self.filter.window(tuple(piece)))

    def _steps(self, extent: Sequence[int]) -> list[int]:
        """Return the sizes of parts: halved along the longest axis, whole chunks of the source while it has them."""
        most = PIECE if self.piece is None else self.piece
        steps = [max(size, 1) for size in extent]
        units = [max(size // factor, 1) for size, factor in zip(self.chunks, self.filter.factors, strict=True)]
        while self._cost(steps) > most and max(steps) > 1:
            if all(step <= unit for step, unit in zip(steps, units, strict=True)):
                units = [1] * len(units)
            axis = max(range(len(steps)), key=lambda number: steps[number] / units[number])
            steps[axis] = max(-(-steps[axis] // (2 * units[axis])) * units[axis], 1)
        if self._cost(steps) > max(LARGEST, most):
            raise UnsupportedError(f"an element of {self.filter.factors} elements of the source", field="factors")
        return steps

    def _cost(self, steps: Sequence[int]) -> int:
        elements = math.prod(step * factor for step, factor in zip(steps, self.filter.factors, strict=True))
        return elements * self.filter.dtype.itemsize


def _uniform(
    region: Region, factors: tuple[int, ...], shape: tuple[int, ...]
) -> list[tuple[Region, Region, tuple[int, ...]]]:
    """Return parts of a region in which all blocks are of one size: where in it, where in its window, the size.

    The blocks that the source's end cuts are parts of their own.
    """
    parts: list[tuple[Region, Region, tuple[int, ...]]] = [((), (), ())]
    for at, factor, size in zip(region, factors, shape, strict=True):
        whole = min(max(size // factor, at.start), at.stop)  # blocks from here on are cut by the end
        first = at.start * factor
        axis = [(slice(0, whole - at.start), slice(0, whole * factor - first), factor)]
        if whole < at.stop:
            axis.append((slice(whole - at.start, None), slice(whole * factor - first, size - first), size % factor))
        parts = [((*t, to), (*b, of), (*s, step)) for t, b, s in parts for to, of, step in axis]
    return parts


# Values in the array's own type


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that sums are computed in: 64-bit floats, complex ones for complex."""
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def held(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value in a type, None where it is NaN or the type does not hold it: no element is it then."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return None
    if dtype.kind in "iu" and not (np.iinfo(dtype).min <= value <= np.iinfo(dtype).max and value == int(value)):
        return None
    return dtype.type(value)


def narrowed(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return floats in another type, integers rounded half to even and clipped to their range."""
    if dtype.kind == "b":
        return np.rint(numbers) > 0
    if dtype.kind not in "iu":
        with np.errstate(over="ignore"):  # beyond float16 or float32 is infinity, as in any conversion
            return numbers.astype(dtype)
    limits = np.iinfo(dtype)
    rounded = np.rint(numbers)
    low, high = rounded <= limits.min, rounded >= limits.max
    integers = np.where(low | high, 0, rounded).astype(dtype)
    integers[low], integers[high] = limits.min, limits.max
    return integers


def with_missing(values: NDArray[Any], nothing: Gone, missing: Any) -> NDArray[Any]:
    """Return the values with the missing one where there is nothing, and there only."""
    if missing is not None:
        values = np.where(values == missing, beside(missing, values.dtype), values).astype(values.dtype)
    if nothing is not None:
        values[nothing] = np.nan if missing is None else missing
    return values


def beside(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the neighbour of a value: for what was computed and is the missing value by chance."""
    if dtype.kind in "iu":
        return int(value) - 1 if int(value) == np.iinfo(dtype).max else int(value) + 1
    if dtype.kind == "f":
        return np.nextafter(dtype.type(value), dtype.type(0 if value else 1))
    return value


# Reductions of blocks of one size

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
        joined = next(taps).copy()
        for tap in taps:
            join(joined, tap, out=joined)
        data = joined
    return data


def _sums(data: NDArray[Any], sizes: Sizes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the sum of each block in a type that holds it; the input is converted as it is added."""
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        taps = _taps(data, axis, size)
        total = next(taps).astype(dtype)
        for tap in taps:
            np.add(total, tap, out=total, casting="unsafe")
        data = total
    return data if data.dtype == dtype else data.astype(dtype)


def average(data: NDArray[Any], gone: Gone, sizes: Sizes, missing: Any) -> NDArray[Any]:
    """Return the mean of what is there in each block."""
    if data.dtype.kind == "b":
        return average(data.view(np.uint8), gone, sizes, missing).astype(bool)
    count: Any = math.prod(sizes)
    if gone is not None:
        data = np.where(gone, data.dtype.type(0), data)
        count = _sums(~gone, sizes, np.dtype(np.int64))
    some = np.maximum(count, 1)
    if data.dtype.kind not in "iu":
        with np.errstate(invalid="ignore", over="ignore"):
            means = narrowed(_sums(data, sizes, wide(data.dtype)) / some, data.dtype)
    elif data.dtype.itemsize == np.dtype(np.int64).itemsize:
        means = _long_mean(data, sizes, some)
    else:
        # the narrowest integer that holds the sum of so many, rounding included
        limits = np.iinfo(data.dtype)
        most = max(int(limits.max), -int(limits.min)) * (math.prod(sizes) + 1)
        kinds = (np.uint16, np.uint32, np.uint64) if data.dtype.kind == "u" else (np.int16, np.int32, np.int64)
        total = _sums(data, sizes, np.dtype(next(kind for kind in kinds if most <= np.iinfo(kind).max)))
        is_power = np.ndim(some) == 0 and int(some) & (int(some) - 1) == 0
        means = (_shifted(total, int(some).bit_length() - 1) if is_power else _divided(total, some)).astype(data.dtype)
    return with_missing(means, None if gone is None else count == 0, missing)


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
    rounded: NDArray[Any] = quotient + up.astype(total.dtype)
    return rounded


def _long_mean(data: NDArray[Any], sizes: Sizes, count: Any) -> NDArray[Any]:
    """Return the mean of 64-bit integers, whose sum 64 bits do not hold: by their halves."""
    kind = np.dtype(np.uint64 if data.dtype.kind == "u" else np.int64)
    word, mask = kind.type(HALF_WORD), kind.type(LOW_WORD)
    high, low = _sums(data >> word, sizes, kind), _sums(data & mask, sizes, kind)
    count = np.asarray(count).astype(kind)
    quotient = high // count
    rest = ((high - quotient * count) << word) + low
    means: NDArray[Any] = (quotient << word) + _divided(rest, count)
    return means.astype(data.dtype)


def _extreme(join: np.ufunc, *, low: bool) -> Reduction:
    """Return the reduction by `np.maximum`, against which the lowest value loses, or by `np.minimum`."""

    def reduce(data: NDArray[Any], gone: Gone, sizes: Sizes, missing: Any) -> NDArray[Any]:
        if gone is None:
            return _folded(data, sizes, join)
        extremes = _folded(np.where(gone, _limit(data.dtype, low=low), data), sizes, join)
        extremes[_folded(gone, sizes, np.logical_and)] = np.nan if missing is None else missing
        return extremes

    return reduce


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
    pairs = [(extent // size, size) for extent, size in zip(data.shape, sizes, strict=True)]
    split = data.reshape([number for pair in pairs for number in pair])
    within, across = tuple(range(1, 2 * len(sizes), 2)), tuple(range(0, 2 * len(sizes), 2))
    blocks = split.transpose(within + across).reshape((-1, *(count for count, _ in pairs)))
    ordered: NDArray[Any] = np.sort(blocks, axis=0)
    nothing = None
    if gone is not None:
        nothing = np.isnan(ordered) if data.dtype.kind == "f" else np.zeros(ordered.shape, bool)
        nothing |= False if missing is None else ordered == missing
    modes: NDArray[Any] = ordered[0].copy()
    best = np.zeros(ordered.shape[1:], np.int32)
    run = np.zeros_like(best)
    for place, values in enumerate(ordered):
        run = np.where(values == ordered[place - 1], run + 1, 1) if place else run + 1
        if nothing is not None:
            run[nothing[place]] = 0
        better = run > best
        best[better], modes[better] = run[better], values[better]
    if gone is not None:
        modes[best == 0] = np.nan if missing is None else missing
    return modes


BLOCKS: Mapping[str, Reduction] = {
    "average": average,
    "max": _extreme(np.maximum, low=True),
    "min": _extreme(np.minimum, low=False),
    "mode": mode,
}


# Weighted means

EXACT = 1 << 48
"""Integers whose weighted sums are right to the unit: 53 bits, less some for the roundings of the sum."""

LEAST = 0.5
"""Part of the weights that what is there must have for an element to be there."""


@dataclass(frozen=True)
class Kernel:
    """Weights by distance in blocks, and the distance at which they end."""

    weight: Callable[[Floats], Floats]
    reach: int

    def margin(self, factor: int) -> int:
        """Return how many elements beyond a block have weight."""
        return ((2 * self.reach - 1) * factor) // 2

    def taps(self, factor: int) -> list[tuple[int, float]]:
        """Return weights by the element's place after the block's start; those of zero are none."""
        margin = self.margin(factor)
        places = np.arange(-margin, factor + margin)
        weights = self.weight((places - (factor - 1) / 2) / factor)
        return [
            (int(place), float(weight))
            for place, weight in zip(places, weights / weights.sum(), strict=True)
            if abs(weight) > np.finfo(np.float64).eps
        ]


KERNELS: Mapping[str, Kernel] = {
    "gaussian": Kernel(lambda x: np.exp(-((3 * x) ** 2) / 2), 1),
    "lanczos": Kernel(lambda x: np.sinc(x) * np.sinc(x / 3), 3),
}


def filtered(source: NDArray[Any], gone: Gone, how: "Downsampling", region: Region) -> NDArray[Any]:
    """Return the weighted means of a region of the level."""
    if source.dtype.kind in "iu" and source.dtype.itemsize == np.dtype(np.int64).itemsize:
        there = source if gone is None else source[~gone]
        if there.size and (int(there.max()) > EXACT or int(there.min()) < -EXACT):
            raise UnsupportedError(
                f"{how.method} of integers beyond 2**48, whose weighted sums floats do not hold; average is exact",
                field="method",
            )
    kernel = KERNELS[how.method]
    filled = source if gone is None else np.where(gone, source.dtype.type(0), source)
    whole: Any = 1.0
    for axis, norm in enumerate(_norms(kernel, how, region)):
        whole = whole * norm.reshape((-1,) + (1,) * (source.ndim - axis - 1))
    with np.errstate(invalid="ignore", over="ignore"):
        sums = _sums_by_weight(kernel, filled, how, region, wide(source.dtype))
        if gone is None:
            return with_missing(narrowed(sums / whole, source.dtype), None, how.missing)
        weights = _sums_by_weight(kernel, ~gone, how, region, np.dtype(np.float64))
        touched = _sums_by_weight(kernel, gone, how, region, np.dtype(bool))
        divisor = np.where(touched, weights, whole)
        nothing = touched & (weights < LEAST * whole)
        means = narrowed(sums / np.where(nothing, 1.0, divisor), source.dtype)
    return with_missing(means, nothing, how.missing)


def _norms(kernel: Kernel, how: "Downsampling", region: Region) -> list[Floats]:
    """Return, along each axis, the sum of the weights that lie inside the source."""
    norms = []
    for at, factor, size in zip(region, how.factors, how.source_shape, strict=True):
        norm = np.zeros(at.stop - at.start)
        for place, weight in kernel.taps(factor) if factor > 1 else [(0, 1.0)]:
            where = np.arange(at.start, at.stop) * factor + place
            norm += weight * ((where >= 0) & (where < size))
        norms.append(norm)
    return norms


def _sums_by_weight(
    kernel: Kernel, data: NDArray[Any], how: "Downsampling", region: Region, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return the sums of weighted elements; of booleans whether any with weight is true."""
    for axis, (at, of, factor) in enumerate(zip(region, how.window(region), how.factors, strict=True)):
        if factor == 1:
            continue
        margin = kernel.margin(factor)
        lacking = (of.start - (at.start * factor - margin), at.stop * factor + margin - of.stop)
        if lacking != (0, 0):  # zeros where the source has ended
            data = np.pad(data, [lacking if number == axis else (0, 0) for number in range(data.ndim)])
        before = (slice(None),) * axis
        count = at.stop - at.start
        total = np.zeros((*data.shape[:axis], count, *data.shape[axis + 1 :]), dtype)
        product = np.empty_like(total)
        for place, weight in kernel.taps(factor):
            start = place + margin
            part = data[(*before, slice(start, start + (count - 1) * factor + 1, factor))]
            if dtype.kind == "b":
                total |= part
            else:
                total += np.multiply(part, weight, out=product, dtype=dtype, casting="unsafe")
        data = total
    return data if data.dtype == dtype else data.astype(dtype)
