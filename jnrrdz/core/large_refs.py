"""References that are not all in memory at once: a part of them is, while it is read or written.

Ten million references take 280 MB as columns, and what is made of them on the way several times that.  A writer of
many reads `References.part` after part; where the references are large, only then are they put in their order
(`ConcatRefs`) or read from a temporary file (`SpooledRefs`).
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import ChunkRefs, Grid, Ints, References, in_turn, joined, without_unused
from jnrrdz.errors import JnrrdzError

LARGE = 1 << 20
"""Chunks of an array from which on its references are not put together in memory."""


class ConcatRefs(References):
    """A grid that holds the grids of several references one after another along an axis, as `refs.joined` has it."""

    def __init__(self, parts: Sequence[References], grids: Sequence[Grid], axis: int, turn: Ints | None = None) -> None:
        """Take parts with their grids; `turn` says which place along the axis comes first, second, ..."""
        lengths = np.array([grid[axis] for grid in grids], np.int64)
        outer = math.prod(grids[0][:axis])
        self._inner = math.prod(grids[0][axis + 1 :])
        self._parts = parts
        self._lengths = lengths
        self._ends = np.cumsum(lengths)
        self._turn = turn
        self._places = int(lengths.sum()) if turn is None else len(turn)
        self.chunks = outer * self._places * self._inner

    @cached_property
    def sources(self) -> Sequence[str]:  # type: ignore[override]  # mypy forgets that it can be set
        """The sources of all parts."""
        return tuple(dict.fromkeys(url for part in self._parts for url in part.sources))

    def part(self, start: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `start` to before `stop`, numbered from 0."""
        if self._turn is None and self.chunks == self._places * self._inner:
            neighbours = self._in_turn(start, stop)
            return without_unused(in_turn(neighbours)) if neighbours else ChunkRefs.empty(0)
        outer, rest = np.divmod(np.arange(start, stop, dtype=np.int64), self._places * self._inner)
        place, at = np.divmod(rest, self._inner)
        if self._turn is not None:
            place = self._turn[place]
        member = np.searchsorted(self._ends, place, side="right")
        chunks = (outer + 1) * self._lengths[member] + place - self._ends[member]
        chunks = chunks * self._inner + at
        used = np.unique(member).tolist()
        runs = [np.flatnonzero(member == number) for number in used]
        taken = [self._parts[number].take(chunks[run]) for number, run in zip(used, runs, strict=True)]
        if not taken:
            return ChunkRefs.empty(0)
        by_member = without_unused(in_turn(taken))
        order = np.concatenate(runs)
        is_in_order = bool((order[1:] > order[:-1]).all())
        return by_member if is_in_order else by_member.take(np.argsort(order))

    def _in_turn(self, start: int, stop: int) -> list[ChunkRefs]:
        """Return neighbouring chunks where all of a member's come before those of the next one."""
        ends, neighbours = self._ends * self._inner, []
        for number in range(int(np.searchsorted(ends, start, side="right")), len(self._parts)):
            begin = int(ends[number] - self._lengths[number] * self._inner)
            if begin >= stop:
                break
            neighbours.append(self._parts[number].part(max(start - begin, 0), min(stop, int(ends[number])) - begin))
        return neighbours


def put_together(parts: Sequence[References], grids: Sequence[Grid], axis: int, turn: Ints | None = None) -> References:
    """Return what `refs.joined` does, in memory only where it is not large."""
    if sum(map(math.prod, grids)) > LARGE:
        return ConcatRefs(parts, grids, axis, turn)
    return joined([part.columns() for part in parts], grids, axis, turn)


# In a temporary file


@dataclass
class Spool:
    """Keeps the columns of references in a file, those of the first ones in memory."""

    file: Callable[[], BinaryIO]
    """Opens a file for writing and reading, when there is something for it."""
    most: int = 1 << 26
    """Bytes of columns that stay in memory."""
    held: int = 0
    _opened: BinaryIO | None = None
    _end: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, refs: References) -> References:
        """Return the same references; those of arrays with few chunks, or of another form than columns, as they are."""
        if not isinstance(refs, ChunkRefs) or refs.chunks < _FEW:
            return refs
        is_plain = len(refs.source) == refs.chunks and bool((refs.counts == 1).all())
        names = [name for name in _COLUMNS if getattr(refs, name) is not None][1 if is_plain else 0 :]
        columns = {name: _least(getattr(refs, name)) for name in names}
        with self._lock:
            size = sum(column.nbytes for column in columns.values())
            if self.held + size <= self.most:
                self.held += size
                return refs
            return SpooledRefs(refs, {name: self._written(column) for name, column in columns.items()}, self)

    def _written(self, column: NDArray[Any]) -> tuple[int, NDArray[Any]]:
        """Return where a column is, and a value of it where all are the same."""
        if len(column) <= 1:
            return _NOWHERE, column.copy()  # a view would keep all of what it is of
        begin = self._end
        self._end += column.nbytes
        try:
            self._opened = self._opened or self.file()
            self._opened.seek(begin)
            self._opened.write(column.data)
        except OSError as error:
            raise JnrrdzError(f"references do not fit into the folder for temporary files: {error}") from error
        return begin, column[:1].copy()

    def read(self, begin: int, kind: np.dtype[Any], first: int, stop: int) -> NDArray[Any]:
        """Return some values of a column."""
        data = bytearray((stop - first) * kind.itemsize)
        with self._lock:
            if self._opened is None:
                raise JnrrdzError("the references' temporary file is closed")
            self._opened.seek(begin + first * kind.itemsize)
            if self._opened.readinto(data) != len(data):  # type: ignore[attr-defined]
                raise JnrrdzError("the references' temporary file was cut")
        return np.frombuffer(data, kind)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None


_FEW = 1 << 10
_NOWHERE = -1
_COLUMNS = ("indptr", "source", "offset", "length", "version")


def _least(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column, as one value where all are the same."""
    column = np.ascontiguousarray(column[:1]) if len(column) and not column.strides[0] else np.ascontiguousarray(column)
    return column[:1] if len(column) and (column == column[0]).all() else column


class SpooledRefs(References):
    """References whose columns are in the file of a spool."""

    def __init__(self, refs: ChunkRefs, columns: Mapping[str, tuple[int, NDArray[Any]]], spool: Spool) -> None:
        self.sources = refs.sources
        self.chunks = refs.chunks
        self._columns = columns
        self._inline = dict(refs.inline)
        self._spool = spool

    def part(self, start: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `start` to before `stop`, numbered from 0."""
        is_plain = "indptr" not in self._columns
        indptr = np.arange(start, stop + 1) if is_plain else self._column("indptr", start, stop + 1)
        low, high = int(indptr[0]), int(indptr[-1])
        source, offset, length = (self._column(name, low, high) for name in _COLUMNS[1:4])
        version = self._column("version", low, high) if "version" in self._columns else None
        inline = {chunk - start: data for chunk, data in self._inline.items() if start <= chunk < stop}
        return ChunkRefs(self.sources, indptr - low, source, offset, length, inline, version)

    def _column(self, name: str, first: int, stop: int) -> NDArray[Any]:
        begin, value = self._columns[name]
        if begin == _NOWHERE:
            return np.broadcast_to(value[0], stop - first) if len(value) else value
        return self._spool.read(begin, value.dtype, first, stop)
