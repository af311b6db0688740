"""Which chunks of a regular grid a window overlaps, and where their elements go."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

type Window = tuple[slice, ...]
"""The elements from `start` to `stop` along each axis."""


class AxisOverlap(NamedTuple):
    """What a chunk and a window have in common along one axis."""

    chunk: int
    """The chunk's index along the axis."""
    within: slice
    """The elements, counted from the chunk's first one."""
    place: slice
    """The same elements, counted from the window's first one."""


class Overlap(NamedTuple):
    """What a chunk and a window have in common."""

    chunk: tuple[int, ...]
    within: Window
    place: Window


def chunks_along(start: int, stop: int, size: int) -> range:
    """Return the indices of the chunks of some size that the elements from `start` to `stop` are in."""
    return range(start // size, -(-stop // size))


def overlaps_along(start: int, stop: int, size: int) -> list[AxisOverlap]:
    """Return each chunk along one axis that the elements from `start` to `stop` are in.

    >>> overlaps_along(5, 12, 10)
    [AxisOverlap(chunk=0, within=slice(5, 10, None), place=slice(0, 5, None)),
     AxisOverlap(chunk=1, within=slice(0, 2, None), place=slice(5, 7, None))]
    """
    overlaps = []
    for chunk in chunks_along(start, stop, size):
        corner = chunk * size
        first, last = max(corner, start), min(corner + size, stop)
        within = slice(first - corner, last - corner)
        overlaps.append(AxisOverlap(chunk, within, slice(first - start, last - start)))
    return overlaps


def overlaps_of_axes(spans: Sequence[tuple[int, int]], sizes: Sequence[int]) -> list[list[AxisOverlap]]:
    """Return for each axis the chunks that its elements from start to stop are in."""
    return [overlaps_along(start, stop, size) for (start, stop), size in zip(spans, sizes, strict=True)]


def chunks_under(window: Window, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of the chunks that a window overlaps, in C order."""
    axes = [chunks_along(span.start, span.stop, size) for span, size in zip(window, sizes, strict=True)]
    return itertools.product(*axes)


def overlaps(window: Window, sizes: Sequence[int]) -> Iterator[Overlap]:
    """Yield what each chunk that a window overlaps has in common with it, in C order."""
    axes = [overlaps_along(span.start, span.stop, size) for span, size in zip(window, sizes, strict=True)]
    for parts in itertools.product(*axes):
        yield Overlap(
            tuple(part.chunk for part in parts),
            tuple(part.within for part in parts),
            tuple(part.place for part in parts),
        )
