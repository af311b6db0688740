"""The references of an array against their sources, and its chunks read as users read them: for `verify`."""

import lzma
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from jnrrdz.commands.verification import MOST, Finding, kind_of
from jnrrdz.core.refs import WHOLE, ChunkRefs, References
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests.documents import ChunkKeys

type Box = tuple[range, ...]
"""The chunks along each axis."""

AT_ONCE = 512
"""Chunks that wait for their turn at the decoders."""

BYTES_AT_ONCE = 16 << 20
"""Bytes of pixels that are read with one call, where chunks are smaller."""

UNREADABLE = (
    JnrrdzError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    OSError,
    EOFError,
    MemoryError,
    zlib.error,
    lzma.LZMAError,
)
"""What codecs raise for bytes that they cannot read: those of other packages have their own exceptions."""

_UNKNOWN = -1


def sampled(numbers: npt.ArrayLike, sample: int | None) -> npt.NDArray[np.int64]:
    """Return first and last and some between: a file that was cut or overwritten in part shows at either end."""
    every = np.asarray(numbers, np.int64)
    if sample is None or len(every) <= sample:
        return every
    return every[np.unique(np.linspace(0, len(every) - 1, sample).astype(np.int64))]


@dataclass
class RangeComparison:
    """What a look at the references of an array, some at a time, finds; `sizes` are those of the sources."""

    keys: ChunkKeys
    sizes: Mapping[str, int]
    sample: int | None
    """How many chunks are to be read; None for all."""
    compared: int = 0
    beyond: int = 0
    findings: list[Finding] = field(default_factory=list)
    chosen: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Of each part as many chunks as are to be read of all of them."""

    def look(self, first: int, refs: ChunkRefs) -> None:
        """Compare ranges with their source's size; `first` is the number of the first chunk."""
        if self.sample is not None:
            self.chosen.append(first + sampled(refs.present, self.sample))
        urls, place = refs.spelt(refs.source)
        known = np.array([self.sizes.get(url, _UNKNOWN) for url in urls] or [_UNKNOWN], np.int64)[place]
        whole = refs.length == WHOLE
        # a range to the end of its source needs its first byte only; the sum of the others may not overflow
        last = np.where(whole, refs.offset, refs.offset + np.where(whole, 0, refs.length))
        beyond = np.flatnonzero((known != _UNKNOWN) & (last > known))
        shown = beyond[: max(MOST - self.beyond, 0)]
        chunks = np.searchsorted(refs.indptr, shown, side="right") - 1 + first
        self.findings += [
            Finding(
                "range",
                self.keys.key(int(chunk)),
                f"bytes {refs.offset[row]} to {last[row]} of {urls[place[row]]}, which has {known[row]}",
            )
            for chunk, row in zip(chunks.tolist(), shown.tolist(), strict=True)
        ]
        self.beyond += len(beyond)
        self.compared += int(np.count_nonzero(known != _UNKNOWN))

    def all_findings(self) -> list[Finding]:
        """Return the findings, and how many more there are."""
        if self.beyond <= MOST:
            return self.findings
        message = f"{self.beyond - MOST:,} more ranges end behind their source"
        return [*self.findings, Finding("range", self.keys.prefix, message)]

    def sampled(self) -> list[int]:
        """Return the chunks that are to be read."""
        every = np.concatenate([np.empty(0, np.int64), *self.chosen])
        return [int(chunk) for chunk in sampled(every, self.sample)]


def readable_chunks(refs: References, lost: frozenset[str], chunks: Iterable[int]) -> Iterator[int]:
    """Yield the numbers of some chunks but for those of sources that are `lost`."""
    if not lost:
        yield from chunks
        return
    trees = tuple(url for url in lost if url.endswith("/"))
    for chunk in chunks:
        ranges = refs.lookup(chunk)
        if isinstance(ranges, bytes) or not any(url in lost or url.startswith(trees) for url, _, _ in ranges):
            yield chunk


def boxes(numbers: Sequence[int], grid: tuple[int, ...], most: int) -> Iterator[Box]:
    """Yield boxes of at most this many chunks that together are the chunks of ascending numbers.

    `boxes([0, 1, 2, 3, 5], (2, 3), 6)` yields rows 0 to 1 of columns 0 to 3, row 1 of column 0 and row 1 of column 2.
    """
    gaps = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(np.asarray(numbers, np.int64), gaps):
        first, stop = int(run[0]), int(run[-1]) + 1
        while first < stop:
            box, count = _largest_box(first, stop, grid, most)
            yield box
            first += count


def _largest_box(first: int, stop: int, grid: tuple[int, ...], most: int) -> tuple[Box, int]:
    """Return a box that begins with one chunk and ends before another, whole along its last axes; and its chunks."""
    if not grid:
        return (), 1
    index = [int(at) for at in np.unravel_index(first, grid)]
    axis, step = len(grid) - 1, 1
    while axis > 0 and index[axis] == 0 and step * grid[axis] <= min(stop - first, most):
        step *= grid[axis]
        axis -= 1
    count = max(min((stop - first) // step, most // step, grid[axis] - index[axis]), 1)
    lead = [range(at, at + 1) for at in index[:axis]]
    whole = [range(size) for size in grid[axis + 1 :]]
    return (*lead, range(index[axis], index[axis] + count), *whole), count * step


def chunk_findings(array: "zarr.Array[Any]", keys: ChunkKeys, chunks: Iterator[int]) -> tuple[int, list[Finding]]:
    """Return how many chunks were read, and those that could not be.

    Neighbours are read with one call, as users read them.  Where that fails, each of them is read by itself.
    """

    def read(box: Box) -> None:
        sides = zip(box, array.chunks, strict=True)
        array[tuple(slice(side.start * size, side.stop * size) for side, size in sides)]

    def failures(box: Box) -> list[tuple[int, Exception]]:
        try:
            read(box)
        except UNREADABLE as error:
            numbers = _numbers(box, keys)
            if len(numbers) == 1:
                return [(numbers[0], error)]
            alone = (failures(_box_of(number, keys)) for number in numbers)
            return [failure for each in alone for failure in each]
        return []

    nbytes = math.prod(array.chunks) * array.dtype.itemsize
    most = max(BYTES_AT_ONCE // max(nbytes, 1), 1)
    findings: list[Finding] = []
    count = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for some in batched(chunks, AT_ONCE):
            count += len(some)
            for each in threads.map(failures, boxes(some, keys.grid, most)):
                for chunk, error in each:
                    failed += 1
                    if failed <= MOST:
                        message = str(error) or type(error).__name__
                        findings.append(Finding(kind_of(error, "chunk"), keys.key(chunk), message))
    if failed > MOST:
        findings.append(Finding("chunk", keys.prefix, f"{failed - MOST:,} more chunks cannot be read"))
    return count, findings


def _numbers(box: Box, keys: ChunkKeys) -> list[int]:
    numbers = np.zeros((), np.int64)
    for side, stride in zip(box, keys.strides, strict=True):
        numbers = np.add.outer(numbers, np.array(side, np.int64) * stride)
    return [int(number) for number in numbers.ravel()]


def _box_of(number: int, keys: ChunkKeys) -> Box:
    if not keys.grid:
        return ()
    return tuple(range(int(at), int(at) + 1) for at in np.unravel_index(number, keys.grid))
