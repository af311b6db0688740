"""Raw bytes cut into chunks: the one rule for strips, stacks, blocks and arrays that are stored in one piece.

A slab is a contiguous run of elements that is one chunk of a regular grid: one place of
each leading axis, some places (`step`) of one axis, the following axes whole.  Slabs
have about `target` bytes.  The step divides its axis where a divisor is near the
target, so that no slab is short and Zarr's `bytes` reads all of them; else the last
slab along the axis is short, and `jnrrdz.tile` reads it by its length.
Reasons: docs/decisions/045-raw-bytes-in-slabs.md.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codecs import TileConfig, bytes_
from jnrrdz.core.configuration import Codec
from jnrrdz.core.limits import CHUNK_BYTES
from jnrrdz.errors import UnsupportedError
from jnrrdz.records import record

NEAR = 16
"""A step this many times smaller (or larger) than wished for is near enough where it divides the axis."""

WIDE = 4
"""Targets that a row may have before it is cut."""

WHOLE = 16 << 20
"""Bytes up to which an axis stays whole rather than end in a short slab: another file can follow it."""

LEAST = 16 << 10
"""Bytes of a slab that is worth a request of its own: a divisor that makes such slabs is taken, however small."""

MOST = 1 << 22
"""Slabs of an array, before they become larger than their target."""


@record
class Slabs:
    """A grid of slabs: leading axes one by one, one axis in steps, the others whole."""

    shape: tuple[int, ...]
    axis: int
    step: int

    @property
    def chunks(self) -> tuple[int, ...]:
        """The chunk shape."""
        if not self.shape:
            return ()
        return (*(1,) * self.axis, self.step, *self.shape[self.axis + 1 :])

    @property
    def inner(self) -> int:
        """Elements of one place along the axis."""
        return math.prod(self.shape[self.axis + 1 :])

    @property
    def short(self) -> int:
        """Size of the last slab along the axis, 0 where all are alike."""
        return self.shape[self.axis] % self.step if self.shape else 0

    @property
    def count(self) -> int:
        """Number of slabs."""
        size = self.shape[self.axis] if self.shape else 1
        return math.prod(self.shape[: self.axis]) * -(-size // self.step)

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first element of every slab, and how many it has."""
        if self.count > MOST * NEAR:
            raise UnsupportedError(f"{self.count} slabs; {MOST * NEAR} are the most", field="sizes")
        if not self.shape:
            return np.zeros(1, np.int64), np.ones(1, np.int64)
        size = self.shape[self.axis]
        first = np.arange(0, size, self.step, dtype=np.int64)
        lengths = np.minimum(self.step, size - first) * self.inner
        outer = np.arange(math.prod(self.shape[: self.axis]), dtype=np.int64)
        starts = (outer[:, np.newaxis] * size + first) * self.inner
        return starts.ravel(), np.tile(lengths, len(outer))

    def codecs(self, endian: str | None) -> tuple[Codec, ...]:
        """Return what decodes the slabs."""
        return slab_codecs(self.chunks, self.axis, self.short, endian)


def slab_codecs(chunks: tuple[int, ...], axis: int, short: int, endian: str | None) -> tuple[Codec, ...]:
    """Return what decodes slabs whose last one along an axis has `short` places, 0 where none is short.

    Zarr's own `bytes` does where none is.
    """
    if not short:
        return (bytes_(endian),)
    axes: list[tuple[tuple[int, int], ...]] = [((size, 0),) for size in chunks]
    axes[axis] = ((chunks[axis], 0), (short, 0))
    return (TileConfig(tuple(axes), endian),)


def cut(shape: Sequence[int], itemsize: int, target: int, *, piece: int = 0) -> Slabs:
    """Return slabs of about `target` bytes.

    `piece` is the number of elements that are stored in one piece, for example of a file
    of several; no slab is in two of them.  0: all are.
    """
    sides = tuple(shape)
    together = piece or math.prod(sides)
    while True:
        slabs = _cut(sides, itemsize, target, together)
        if slabs.count <= MOST or 2 * target > CHUNK_BYTES:
            return slabs
        target *= 2


def _cut(shape: tuple[int, ...], itemsize: int, target: int, piece: int) -> Slabs:
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        size = shape[axis]
        nbytes = inner * size * itemsize
        is_row = axis == len(shape) - 1 and math.prod(shape[:axis]) > 1 and nbytes <= WIDE * target
        if piece % max(inner * size, 1) == 0 and (is_row or nbytes <= target):
            inner *= size
            continue
        wish = max(1, target // (inner * itemsize))
        is_parted = piece % (inner * size) != 0
        step = step_along(size, wish, piece=piece // inner if is_parted else 0, unit=inner * itemsize)
        return Slabs(shape, axis, step)
    return Slabs(shape, 0, shape[0] if shape else 1)


def _joinable(size: int, nbytes: int, step: int) -> int:
    """Return a step after which another file can follow, else the given one, which leaves a short slab."""
    even = _largest_divisor(size, step)
    if even * nbytes >= LEAST:
        return even
    return size if size * nbytes <= WHOLE else step


def _largest_divisor(size: int, most: int) -> int:
    """Return the largest divisor that is no larger than `most`, in steps of the square root of the size."""
    largest = 1
    for divisor in range(1, math.isqrt(size) + 1):
        if divisor > most:
            break
        if size % divisor:
            continue
        if size // divisor <= most:
            return size // divisor
        largest = divisor
    return largest


def step_along(size: int, wish: int, *, piece: int = 0, unit: int = 0) -> int:
    """Return how many places of an axis a slab takes: about `wish`, a divisor of the axis where one is near.

    Where the axis is stored in pieces of so many places, the step always divides a piece.
    `unit` is the number of bytes of one place: with it, a smaller divisor or the whole axis
    is taken rather than a step that leaves a short slab, as long as slabs have a fair size.
    """
    length = piece or size
    wish = max(1, min(wish, length))
    even = _divisor_near(length, wish)
    if even is not None:
        return even
    if piece:
        return _divisor_above(length, wish)
    return _joinable(length, unit, wish) if unit else wish


def _divisor_near(length: int, wish: int) -> int | None:
    """Return the largest divisor that is no larger than wished for and near it."""
    least = -(-wish // NEAR)
    first, last = -(-length // wish), length // least
    if last - first < wish - least:
        counts = (count for count in range(first, last + 1) if length % count == 0)
        return next((length // count for count in counts), None)
    return next((step for step in range(wish, least - 1, -1) if length % step == 0), None)


def _divisor_above(length: int, wish: int) -> int:
    """Return the least divisor that is larger than wished for."""
    counts = range(length // wish, 0, -1)
    return next(length // count for count in counts if length % count == 0)
