"""Arrays that lie in files row after row: cut into slabs of whole rows.

May touch numpy, errors and the model; reads nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import UnsupportedError

TARGET = 1 << 18
"""Bytes of a slab, about: a request's worth, and little enough to read for one row."""

LEAST = TARGET // 16
MOST_CHUNKS = 1 << 26


@dataclass(frozen=True)
class Slabs:
    """A grid of slabs: leading axes one by one, one axis in steps, the others whole."""

    shape: tuple[int, ...]
    axis: int
    step: int

    @property
    def chunks(self) -> tuple[int, ...]:
        """The chunk shape."""
        return (*(1,) * self.axis, self.step, *self.shape[self.axis + 1 :])

    @property
    def inner(self) -> int:
        """Elements of one place along the axis."""
        return _product(self.shape[self.axis + 1 :])

    @property
    def short(self) -> int:
        """Size of the last slab along the axis, 0 where all are alike."""
        return self.shape[self.axis] % self.step

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first element of every slab, and how many it has."""
        size = self.shape[self.axis]
        first = np.arange(0, size, self.step, dtype=np.int64)
        lengths = np.minimum(self.step, size - first) * self.inner
        outer = np.arange(_product(self.shape[: self.axis]), dtype=np.int64)
        if len(outer) * len(first) > MOST_CHUNKS:
            raise UnsupportedError(f"{len(outer) * len(first)} slabs; {MOST_CHUNKS} are the most", field="sizes")
        starts = (outer[:, np.newaxis] * size + first) * self.inner
        return starts.ravel(), np.tile(lengths, len(outer))


def _product(sizes: tuple[int, ...]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def slabs_of(shape: tuple[int, ...], itemsize: int, per_file: int) -> Slabs:
    """Return slabs of about `TARGET` bytes, none in two files of so many elements; rows are never cut."""
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        size = shape[axis]
        is_row = axis == len(shape) - 1 and axis > 0
        if per_file % (inner * size) == 0 and (is_row or inner * size * itemsize <= TARGET):
            inner *= size
            continue
        return Slabs(shape, axis, _step(size, inner, itemsize, per_file))
    return Slabs(shape, 0, shape[0])


def _step(size: int, inner: int, itemsize: int, per_file: int) -> int:
    """Return how many places a slab has: a divisor if one is large enough, so that no slab is short."""
    wish = min(size, max(1, TARGET // (inner * itemsize)))
    even = next(step for step in range(wish, 0, -1) if size % step == 0 and per_file % (step * inner) == 0)
    several = per_file != 0 and per_file % (size * inner) != 0
    return even if several or even * inner * itemsize >= min(LEAST, wish * inner * itemsize) else wish


def file_slabs(shape: tuple[int, ...], per_file: int) -> Slabs | None:
    """Return slabs that are a whole file each, None where files end within rows."""
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        if per_file % (inner * shape[axis]) == 0:
            inner *= shape[axis]
            continue
        step, rest = divmod(per_file, inner)
        return Slabs(shape, axis, step) if rest == 0 and step and shape[axis] % step == 0 else None
    return Slabs(shape, 0, shape[0])
