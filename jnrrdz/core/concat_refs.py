"""References of several arrays as those of one, column by column.

May touch numpy, errors and `refs`.  The parts follow each other along one axis of the chunk grid;
nothing here makes an object for a chunk, inline bytes excepted.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnrepresentableError

type Grid = tuple[int, ...]
type Ints = NDArray[np.int64]

MARKER = 2
"""Bytes of a JPEG marker without parameters: SOI at the start of a stream, EOI at its end."""


def joined(parts: Sequence[ChunkRefs], grids: Sequence[Grid], axis: int, turn: Ints | None = None) -> ChunkRefs:
    """Return the references of a grid that holds the parts' grids one after another along `axis`.

    `turn` says which place along that axis comes first, second, ... where they are to change places.
    """
    in_turn = _in_turn(parts)
    if turn is None and (len(parts) == 1 or math.prod(grids[0][:axis]) == 1):
        return _without_unused(in_turn)
    places = _places(grids, axis)
    order = places if turn is None else places.take(turn, axis)
    return _without_unused(_reordered(in_turn, order.ravel()))


def _in_turn(parts: Sequence[ChunkRefs]) -> ChunkRefs:
    """Return the chunks of the first part, then those of the second, and so on."""
    numbers: dict[str, int] = {}
    columns = []
    inline: dict[int, bytes] = {}
    first = 0
    for part in parts:
        own = np.array([numbers.setdefault(url, len(numbers)) for url in part.sources], np.int32)
        columns.append(own[part.source] if len(part.source) else part.source)
        inline |= {first + chunk: data for chunk, data in part.inline.items()}
        first += part.chunks
    counts = np.concatenate([part.counts for part in parts])
    return ChunkRefs(
        tuple(numbers),
        _row_pointers(counts),
        np.concatenate(columns),
        np.concatenate([part.offset for part in parts]),
        np.concatenate([part.length for part in parts]),
        inline,
    )


def _row_pointers(counts: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _places(grids: Sequence[Grid], axis: int) -> Ints:
    """Return which of the chunks in turn stands at each place of the whole grid."""
    sizes = [math.prod(grid) for grid in grids]
    starts = np.cumsum([0, *sizes])
    places = [
        np.arange(start, start + size, dtype=np.int64).reshape(grid)
        for start, size, grid in zip(starts, sizes, grids, strict=False)
    ]
    return np.concatenate(places, axis)


def _reordered(refs: ChunkRefs, order: Ints) -> ChunkRefs:
    """Return the references with chunk `order[i]` as the i-th, each chunk's ranges in their own order."""
    counts = refs.counts[order]
    ends = np.cumsum(counts)
    rows = np.arange(int(counts.sum())) + np.repeat(refs.indptr[:-1][order] - (ends - counts), counts)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    inline = {int(place[chunk]): data for chunk, data in refs.inline.items()}
    columns = (refs.source[rows], refs.offset[rows], refs.length[rows])
    return ChunkRefs(refs.sources, _row_pointers(counts), *columns, inline)


def _without_unused(refs: ChunkRefs) -> ChunkRefs:
    """Return the references with the sources that some range is in, and no others."""
    used = np.zeros(len(refs.sources), bool)
    used[refs.source] = True
    if used.all():
        return refs
    number = (np.cumsum(used) - 1).astype(np.int32)
    kept = tuple(url for url, is_used in zip(refs.sources, used.tolist(), strict=True) if is_used)
    return replace(refs, sources=kept, source=number[refs.source])


def with_tables(refs: ChunkRefs, url: str, offset: int, tables: bytes) -> ChunkRefs:
    """Return JPEG streams with the tables that stand at `offset` of the same source put into each of them.

    A stream and its tables are two JPEG streams: the tables lose their end marker, the stream its
    start marker, and together they are one (TIFF Technical Note 2, "Use of JPEGTables").
    """
    filled = np.flatnonzero(refs.counts)
    first = refs.indptr[filled]
    if len(first) and (set(refs.sources) != {url} or refs.length[first].min() <= MARKER):
        raise UnrepresentableError("its chunks are not whole JPEG streams in the file that holds the tables", url=url)
    start, length = refs.offset.copy(), refs.length.copy()
    start[first] += MARKER
    length[first] -= MARKER
    counts = refs.counts.copy()
    counts[filled] += 1
    return ChunkRefs(
        refs.sources,
        _row_pointers(counts),
        np.insert(refs.source, first, 0),
        np.insert(start, first, offset),
        np.insert(length, first, len(tables) - MARKER),
        {chunk: tables[:-MARKER] + data[MARKER:] for chunk, data in refs.inline.items()},
    )
