"""One span for each chunk, as references know no more than that.

Turns the rows of `ChunkRefs` into dense columns, a value for each chunk of the grid, and says which chunks need
several ranges.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.errors import UnrepresentableError

MISSING = -1
"""The source of a chunk that has no span: it is absent, or inline."""


WHOLE_TILES = "--precinct-windows never (precinct_windows='never') refers to whole tiles of JPEG 2000"


@dataclass(frozen=True, eq=False)
class Spans:
    """From the first to the last byte of every chunk, in C order of the grid."""

    source: NDArray[np.int32]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    scattered: NDArray[np.int64]
    """The chunks whose bytes are not all of their span, or not in its order."""

    def slice(self, first: int, stop: int) -> "Spans":
        """Return the spans of the chunks from `first` to before `stop`, numbered from 0."""
        low, high = np.searchsorted(self.scattered, (first, stop))
        part = np.s_[first:stop]
        return Spans(self.source[part], self.start[part], self.length[part], self.scattered[low:high] - first)


def spans(refs: ChunkRefs, path: str, *, single_range: bool) -> Spans:
    """Return the span of every chunk of the array at `path`, none scattered if `single_range` hides that."""
    if len(refs.source) == refs.chunks and bool((refs.counts == 1).all()):
        found = Spans(refs.source, refs.offset, refs.length, np.empty(0, np.int64))
    else:
        found = _gathered(refs, path, single_range=single_range)
    _refuse_empty(found, refs, path)
    return found


def refuse_whole(refs: ChunkRefs, found: Spans, path: str, form: str) -> None:
    """Refuse whole files for a form of manifest in which a reference needs its length."""
    whole = np.flatnonzero((found.length == WHOLE) & (found.source != MISSING))
    if len(whole):
        raise UnrepresentableError(
            f"a block that nobody could list, and {form} needs its length; write JSON or Parquet, "
            "or index the container where it can be listed",
            url=refs.sources[found.source[whole[0]]],
            field=f"{path}, chunk {whole[0]}",
        )


def _gathered(refs: ChunkRefs, path: str, *, single_range: bool) -> Spans:
    filled = np.flatnonzero(refs.counts)
    first = refs.indptr[filled]
    source = _spread(refs, filled, refs.source[first], MISSING)
    _refuse_mixed(refs, source, path)
    start = np.minimum.reduceat(refs.offset, first) if len(first) else first
    stop = np.maximum.reduceat(refs.offset + refs.length, first) if len(first) else first
    if single_range:
        _refuse_overlapping(refs, source, path)
        scattered = np.empty(0, np.int64)
    else:  # some range does not begin where the one before it ends
        chunk = refs.owner
        apart = refs.offset[1:] != refs.offset[:-1] + refs.length[:-1]
        scattered = np.unique(chunk[1:][apart & (chunk[1:] == chunk[:-1])])
    return Spans(source, _spread(refs, filled, start, 0), _spread(refs, filled, stop - start, 0), scattered)


def _spread(refs: ChunkRefs, filled: NDArray[np.int64], values: NDArray[Any], absent: int) -> NDArray[Any]:
    column = np.full(refs.chunks, absent, values.dtype)
    column[filled] = values
    return column


def remedy(refs: ChunkRefs) -> str:
    """Return what helps where a form of manifest has one range for each chunk."""
    if len(_overlapping(refs)):
        return f"{WHOLE_TILES}, or write JSON or Parquet"
    return "--single-range (single_range=True) refers to all bytes between them, or write JSON or Parquet"


def _overlapping(refs: ChunkRefs) -> NDArray[np.int64]:
    """Return the chunks that refer to some byte twice: their order means something, their span does not."""
    chunk = refs.owner
    order = np.lexsort((refs.offset, chunk))
    chunk, start, stop = chunk[order], refs.offset[order], (refs.offset + refs.length)[order]
    return np.unique(chunk[1:][(start[1:] < stop[:-1]) & (chunk[1:] == chunk[:-1])])


def _refuse_overlapping(refs: ChunkRefs, source: NDArray[np.int32], path: str) -> None:
    found = _overlapping(refs)
    if len(found):
        raise UnrepresentableError(
            "a chunk of several ranges that overlap, which no single range stands for (--single-range); "
            f"{WHOLE_TILES}, or leave --single-range out and write JSON or Parquet",
            url=refs.sources[source[found[0]]],
            field=f"{path}, chunk {found[0]}",
        )


def _refuse_mixed(refs: ChunkRefs, source: NDArray[np.int32], path: str) -> None:
    chunk = refs.owner
    strange = np.flatnonzero(refs.source != source[chunk])
    if len(strange):
        where = int(chunk[strange[0]])
        raise UnrepresentableError(
            "the ranges of one chunk lie in several sources, which no manifest can say",
            url=refs.sources[refs.source[strange[0]]],
            field=f"{path}, chunk {where}",
        )


def _refuse_empty(found: Spans, refs: ChunkRefs, path: str) -> None:
    """Refuse a chunk of no bytes: no codec reads it, and readers take it for a whole file or for absent."""
    empty = np.flatnonzero((found.length == 0) & (found.source != MISSING))
    if len(empty):
        chunk = int(empty[0])
        raise UnrepresentableError(
            "a chunk of no bytes; leave it out if it is absent",
            url=refs.sources[found.source[chunk]],
            offset=int(found.start[chunk]),
            field=f"{path}, chunk {chunk}",
        )
