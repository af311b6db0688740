"""Planes of an array, thinned out while they are read: a strip of chunks at a time, and all bands of a strip at once.

Each pixel of a plane is the mean of a few elements spread over those that it stands for.  Where chunks are smaller
than that, the elements are of one chunk, and the others are not read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from jnrrdz.core.zarr_json import missing_value

STRIP = 32 << 20
"""Bytes of an array that are read at once, where its chunks are no larger."""

SPREAD = 4
"""Elements along rows, and along columns, that a pixel is at most the mean of."""

type Pixels = NDArray[Any]
type Places = NDArray[np.int64]


@dataclass(frozen=True)
class Plane:
    """A band, thinned out, and where it has pixels."""

    data: Pixels
    there: NDArray[np.bool_]
    dtype: np.dtype[Any]
    """The type of the numbers that these are, or have the means of."""

    limits: tuple[float, float] | None = None
    """What black and white stand for, where other pictures have to have the same."""


@dataclass(frozen=True)
class View:
    """An array, which of its axes are the picture's, and where it is cut along the others."""

    array: "zarr.Array[Any]"
    rows: int
    columns: int
    band: int | None = None
    at: tuple[int, ...] = ()
    """An index along every axis; those of rows, columns and bands have no meaning."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape[self.rows], self.array.shape[self.columns]


def thinned(view: View, numbers: Sequence[int], shape: tuple[int, int], *, average: bool = True) -> list[Plane]:
    """Return some bands of an array in another size, in the order asked for; without `average` as they stand there."""
    array, most = view.array, SPREAD if average else 1
    axes = (view.rows, view.columns)
    rows, columns = (_samples(view.shape[n], shape[n], array.chunks[axes[n]], most) for n in (0, 1))
    bands = sorted(set(numbers))
    means = rows.shape[1] * columns.shape[1] > 1 or array.dtype.kind == "c"
    data = np.zeros((len(bands), *shape), np.float64 if means else array.dtype)
    there = np.zeros(data.shape, bool)
    fill = missing_value(array.attrs.asdict(), array.dtype)
    across = _Selection.of(columns, array.chunks[view.columns])
    for targets, places in _strips(view, rows, len(bands)):
        down = _Selection.of(places, array.chunks[view.rows])
        piece = _read(view, bands, down, across)
        few = piece[:, down.within(places).ravel()][:, :, across.within(columns).ravel()]
        data[:, targets], there[:, targets] = _means(few, fill, places.shape, columns.shape)
    return [Plane(data[n], there[n], array.dtype) for n in map(bands.index, numbers)]


def cost(view: View, numbers: Sequence[int], shape: tuple[int, int]) -> int:
    """Return the bytes that chunks decode to which a picture of some size needs."""
    chunks = view.array.chunks
    axes = ((view.rows, shape[0]), (view.columns, shape[1]))
    touched = [_samples(view.array.shape[axis], size, chunks[axis], SPREAD) // chunks[axis] for axis, size in axes]
    bands = 1 if view.band is None else len({number // chunks[view.band] for number in numbers})
    return prod(len(np.unique(each)) for each in touched) * bands * prod(chunks) * view.array.dtype.itemsize


def _samples(size: int, count: int, chunk: int, most: int) -> Places:
    """Return where the elements lie along an axis that each pixel is the mean of: a row for every pixel."""
    first: Places = (np.arange(count) * size / count).astype(np.int64)
    if most == 1 or size <= count:
        middle: Places = ((np.arange(count) + 0.5) * size / count).astype(np.int64)
        return middle[:, None]
    span = max(1, size // count)
    if chunk < span:  # the chunk in the middle stands for the others
        first = (first + span // 2) // chunk * chunk
        span = chunk
    each = min(span, most)
    spread = ((np.arange(each) + 0.5) * span / each).astype(np.int64)
    places: Places = np.minimum(first[:, None] + spread, size - 1)
    return places


def _strips(view: View, rows: Places, bands: int) -> Iterator[tuple[NDArray[np.intp], Places]]:
    """Yield the rows that are read together, as many rows of chunks as a strip can hold, and their elements' places.

    A row of pixels on the border of two strips has the elements of one of them: no chunk is read twice.
    """
    step = view.array.chunks[view.rows]
    line = max(view.shape[1] * bands * view.array.dtype.itemsize * step, 1)
    height = step * max(1, STRIP // line)
    strip = rows[:, rows.shape[1] // 2] // height
    for number in np.unique(strip):
        targets = np.flatnonzero(strip == number)
        yield targets, np.clip(rows[targets], number * height, (number + 1) * height - 1)


@dataclass(frozen=True)
class _Selection:
    """What is read along an axis: a slice, or single places where it would read chunks that nobody needs."""

    wanted: slice | Places

    @classmethod
    def of(cls, places: Places, chunk: int) -> "_Selection":
        """Return the selection that holds some places."""
        chunks = np.unique(places // chunk)
        if len(chunks) == chunks[-1] - chunks[0] + 1:
            return cls(slice(int(places.min()), int(places.max()) + 1))
        return cls(np.unique(places))

    def within(self, places: Places) -> Places:
        """Return where places stand in what was read."""
        if isinstance(self.wanted, slice):
            return places - np.int64(self.wanted.start)
        return np.searchsorted(self.wanted, places)


def _read(view: View, bands: Sequence[int], down: _Selection, across: _Selection) -> Pixels:
    """Return bands, rows and columns of an array, in that order."""
    selection: list[slice | Places] = [slice(at, at + 1) for at in view.at]
    selection[view.rows], selection[view.columns] = down.wanted, across.wanted
    order = [view.rows, view.columns]
    if view.band is not None:
        is_row = len(bands) == bands[-1] - bands[0] + 1
        selection[view.band] = slice(bands[0], bands[-1] + 1) if is_row else np.array(bands)
        order = [view.band, *order]
    is_plain = all(isinstance(each, slice) for each in selection)
    found = view.array[tuple(selection)] if is_plain else view.array.oindex[tuple(selection)]
    piece = np.asarray(found)
    others = [axis for axis in range(piece.ndim) if axis not in order]
    piece = piece.transpose([*others, *order])
    return piece.reshape(len(bands), *piece.shape[-2:])


def _means(few: Pixels, fill: Any, rows: tuple[int, ...], columns: tuple[int, ...]) -> tuple[Pixels, NDArray[np.bool_]]:
    """Return the mean of the elements of each pixel that are there, and whether any is."""
    present = np.ones(few.shape, bool)
    if few.dtype.kind in "fc":
        present &= ~np.isnan(few)
    if fill is not None and fill == fill:  # noqa: PLR0124  NaN, which is gone already
        present &= few != fill
    few = np.abs(few) if few.dtype.kind == "c" else few  # a radar image's amplitude
    if rows[1] * columns[1] == 1:
        return few, present
    blocks = (len(few), *rows, *columns)
    count = present.reshape(blocks).sum(axis=(2, 4))
    total = np.where(present, few, 0).reshape(blocks).sum(axis=(2, 4), dtype=np.float64)
    return total / np.maximum(count, 1), count > 0
