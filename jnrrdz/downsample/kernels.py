"""Weighted means around the middle of each block: gaussian and lanczos.

May touch numpy, errors and downsample.values.  Both are separable.  With the distance d of an element
from the middle of the block, in elements, and the factor f along an axis, the weight is
exp(-(d / (f / 3))**2 / 2) up to d = f, as scikit-image's pyramids have it, or
sinc(d / f) sinc(d / 3f) up to d = 3f (https://en.wikipedia.org/wiki/Lanczos_resampling, a = 3).
Elements beyond the source's ends have no weight; the rest is divided by the weights that are left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.downsample.values import Gone, narrowed, wide, with_missing
from jnrrdz.errors import UnsupportedError

if TYPE_CHECKING:
    from jnrrdz.downsample import Downsampling, Region

EXACT = 1 << 48
"""Integers whose weighted sums are right to the unit: 53 bits, less some for the roundings of the sum."""

LEAST = 0.5
"""Part of the weights that what is there must have for an element to be there."""

type Floats = NDArray[np.float64]


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


def filtered(source: NDArray[Any], gone: Gone, how: "Downsampling", region: "Region") -> NDArray[Any]:
    """Return the weighted means of a region of the level."""
    kernel, window = KERNELS[how.method], how.window(region)
    _refuse_inexact(source, gone, how.method)
    filled = source if gone is None else np.where(gone, source.dtype.type(0), source)
    whole: Any = 1.0
    for axis, norm in enumerate(_norms(kernel, how, region)):
        whole = whole * norm.reshape((-1,) + (1,) * (source.ndim - axis - 1))
    with np.errstate(invalid="ignore", over="ignore"):
        sums = _summed(kernel, filled, how.factors, region, window, wide(source.dtype))
        if gone is None:
            return with_missing(narrowed(sums / whole, source.dtype), None, how.missing)
        weights = _summed(kernel, ~gone, how.factors, region, window, np.dtype(np.float64))
        touched = _summed(kernel, gone, how.factors, region, window, np.dtype(bool))
        divisor = np.where(touched, weights, whole)
        nothing = touched & (weights < LEAST * whole)
        found = narrowed(sums / np.where(nothing, 1.0, divisor), source.dtype)
    return with_missing(found, nothing, how.missing)


def _refuse_inexact(source: NDArray[Any], gone: Gone, method: str) -> None:
    if source.dtype.kind not in "iu" or source.dtype.itemsize < np.dtype(np.int64).itemsize or not source.size:
        return
    there = source if gone is None else source[~gone]
    if there.size and (int(there.max()) > EXACT or int(there.min()) < -EXACT):
        raise UnsupportedError(
            f"{method} of integers beyond 2**48, whose weighted sums floats do not hold; average is exact",
            field="method",
        )


def _norms(kernel: Kernel, how: "Downsampling", region: "Region") -> list[Floats]:
    """Return, along each axis, the sum of the weights that lie inside the source."""
    found = []
    for at, factor, size in zip(region, how.factors, how.source_shape, strict=True):
        norm = np.zeros(at.stop - at.start)
        for place, weight in kernel.taps(factor) if factor > 1 else [(0, 1.0)]:
            where = np.arange(at.start, at.stop) * factor + place
            norm += weight * ((where >= 0) & (where < size))
        found.append(norm)
    return found


def _summed(  # noqa: PLR0913, PLR0917 - one axis after the other, with what each needs
    kernel: Kernel,
    data: NDArray[Any],
    factors: tuple[int, ...],
    region: "Region",
    window: "Region",
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    """Return the sums of weighted elements; of booleans whether any with weight is true."""
    for axis, (at, of, factor) in enumerate(zip(region, window, factors, strict=True)):
        if factor == 1:
            continue
        margin = kernel.margin(factor)
        lacking = (of.start - (at.start * factor - margin), at.stop * factor + margin - of.stop)
        data = _along(_padded(data, axis, lacking), axis, kernel.taps(factor), margin, factor, dtype)
    return data if data.dtype == dtype else data.astype(dtype)


def _padded(data: NDArray[Any], axis: int, lacking: tuple[int, int]) -> NDArray[Any]:
    """Return the data with zeros where the source has ended."""
    if lacking == (0, 0):
        return data
    return np.pad(data, [lacking if number == axis else (0, 0) for number in range(data.ndim)])


def _along(  # noqa: PLR0913, PLR0917 - the same
    data: NDArray[Any],
    axis: int,
    taps: list[tuple[int, float]],
    margin: int,
    factor: int,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    before = (slice(None),) * axis
    count = (data.shape[axis] - 2 * margin) // factor
    total = np.zeros((*data.shape[:axis], count, *data.shape[axis + 1 :]), dtype)
    product = np.empty_like(total)
    for place, weight in taps:
        start = place + margin
        part = data[(*before, slice(start, start + (count - 1) * factor + 1, factor))]
        if dtype.kind == "b":
            total |= part
        else:
            total += np.multiply(part, weight, out=product, dtype=dtype, casting="unsafe")
    return total
