"""Numbers back to an array's own type: rounded half to even, clipped, and never the missing value by chance.

May touch numpy and errors.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

type Gone = NDArray[np.bool_] | None


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
    found = np.where(low | high, 0, rounded).astype(dtype)
    found[low], found[high] = limits.min, limits.max
    return found


def with_missing(found: NDArray[Any], nothing: Gone, missing: Any) -> NDArray[Any]:
    """Return the values with the missing one where there is nothing, and there only."""
    if missing is not None:
        found = np.where(found == missing, beside(missing, found.dtype), found).astype(found.dtype)
    if nothing is not None:
        found[nothing] = np.nan if missing is None else missing
    return found


def beside(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the neighbour of a value: for what was computed and is the missing value by chance."""
    if dtype.kind in "iu":
        return int(value) - 1 if int(value) == np.iinfo(dtype).max else int(value) + 1
    if dtype.kind == "f":
        return np.nextafter(dtype.type(value), dtype.type(0 if value else 1))
    return value
