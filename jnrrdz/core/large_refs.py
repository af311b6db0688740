"""References that are not all in memory at once: a part of them is, while somebody looks at it.

Ten million references take 280 MB as columns, and what is made of them on the way several times that.  Whoever writes
or compares many asks `ChunkRefs.part` for some of them after another; where the references are large, that is when
they are read (`FiledRefs`) and put in their order (`JoinedRefs`).  The columns themselves are there too, as in all
references, for whoever asks for them: then all of it comes into memory, and stays.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import ChunkRefs, Grid, Ints, in_turn, joined, without_unused
from jnrrdz.errors import JnrrdzError

LARGE = 1 << 20
"""Chunks of an array from which on its references are not put together in memory."""

TOGETHER = 1 << 17
"""Chunks whose references are looked at together."""


def parts_of(refs: ChunkRefs, size: int = TOGETHER) -> Iterator[tuple[int, ChunkRefs]]:
    """Yield references some at a time, each with the number of its first chunk."""
    for first in range(0, refs.chunks, size):
        yield first, refs.part(first, min(first + size, refs.chunks))


class PartedRefs(ChunkRefs):
    """References of which a part is in memory while somebody looks at it."""

    def __init__(self, sources: Sequence[str] | None, chunks: int) -> None:
        """Take the sources; None where they are told when somebody asks."""
        vars(self).update({"chunks": chunks} if sources is None else {"sources": sources, "chunks": chunks})

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `first` to before `stop`, numbered from 0."""
        raise NotImplementedError

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield references some at a time, each with the number of its first chunk; all that are in some sources."""
        return ((first, part) for first, part in parts_of(self) if not urls.isdisjoint(part.sources))

    def moved(self, urls: Mapping[str, str]) -> ChunkRefs:
        """Return the references with other URLs; `urls` has one for each that `named` has."""
        return ChangedRefs(self, tuple(urls[url] for url in self.sources), lambda part: _renamed(part, urls))

    def without_versions(self) -> ChunkRefs:
        """Return the references without what tells the state of objects of a tree."""
        return ChangedRefs(self, self.sources, ChunkRefs.without_versions)

    @cached_property
    def _whole(self) -> ChunkRefs:
        parts = [without_unused(part) for _, part in parts_of(self)]
        refs = in_turn(parts) if parts else ChunkRefs.empty(0)
        numbers = {url: number for number, url in enumerate(self.sources)}
        own = np.array([numbers[url] for url in refs.sources], np.int32)
        return replace(refs, sources=self.sources, source=own[refs.source] if len(own) else refs.source)

    def take(self, chunks: Ints) -> ChunkRefs:
        """Return the references of some chunks, in their order, each chunk's ranges in their own."""
        if not len(chunks):
            return ChunkRefs.empty(0)
        first, stop = int(chunks.min()), int(chunks.max()) + 1
        some = self.part(first, stop)
        # neighbours in their order are a part as they are
        return some if len(chunks) == stop - first and (chunks[1:] > chunks[:-1]).all() else some.take(chunks - first)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.chunks} chunks in {len(self.sources)} sources"

    # What follows is for whoever takes all columns at once.

    @property
    def indptr(self) -> Ints:
        """Where each chunk's ranges begin."""
        return self._whole.indptr

    @property
    def source(self) -> NDArray[np.int32]:
        """The number of each range's source."""
        return self._whole.source

    @property
    def offset(self) -> Ints:
        """The first byte of each range."""
        return self._whole.offset

    @property
    def length(self) -> Ints:
        """The number of bytes of each range."""
        return self._whole.length

    @property
    def inline(self) -> Mapping[int, bytes]:
        """The bytes of chunks that stand in the manifest itself."""
        return self._whole.inline

    @property
    def version(self) -> Ints | None:
        """What tells the state of each range's object."""
        return self._whole.version


def _renamed(part: ChunkRefs, urls: Mapping[str, str]) -> ChunkRefs:
    return without_unused(part).moved(urls)


class ChangedRefs(PartedRefs):
    """References of which each part is changed when it is looked at."""

    def __init__(self, inner: ChunkRefs, sources: Sequence[str], change: Callable[[ChunkRefs], ChunkRefs]) -> None:
        super().__init__(sources, inner.chunks)
        vars(self).update({"_inner": inner, "_change": change})

    _inner: ChunkRefs
    _change: Callable[[ChunkRefs], ChunkRefs]

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `first` to before `stop`, numbered from 0."""
        return self._change(self._inner.part(first, stop))


class JoinedRefs(PartedRefs):
    """A grid that holds the grids of several references one after another along an axis, as `refs.joined` has it."""

    _parts: Sequence[ChunkRefs]
    _lengths: Ints
    _ends: Ints
    _places: int
    _inner: int
    _turn: Ints | None

    def __init__(self, parts: Sequence[ChunkRefs], grids: Sequence[Grid], axis: int, turn: Ints | None = None) -> None:
        """Take parts with their grids; `turn` says which place along the axis comes first, second, ..."""
        lengths = np.array([grid[axis] for grid in grids], np.int64)
        outer, inner = math.prod(grids[0][:axis]), math.prod(grids[0][axis + 1 :])
        places = int(lengths.sum()) if turn is None else len(turn)
        super().__init__(None, outer * places * inner)
        vars(self).update({"_parts": parts, "_lengths": lengths, "_inner": inner, "_turn": turn})
        vars(self).update({"_ends": np.cumsum(lengths), "_places": places})

    @cached_property
    def sources(self) -> Sequence[str]:
        """The sources of all parts."""
        return tuple(dict.fromkeys(url for part in self._parts for url in part.sources))

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `first` to before `stop`, numbered from 0."""
        if self._turn is None and self.chunks == self._places * self._inner:
            neighbours = self._in_turn(first, stop)
            return without_unused(in_turn(neighbours)) if neighbours else ChunkRefs.empty(0)
        outer, rest = np.divmod(np.arange(first, stop, dtype=np.int64), self._places * self._inner)
        place, at = np.divmod(rest, self._inner)
        place = place if self._turn is None else self._turn[place]
        member = np.searchsorted(self._ends, place, side="right")
        own = (outer + 1) * self._lengths[member] + place - self._ends[member]
        own = own * self._inner + at
        used = np.unique(member).tolist()
        runs = [np.flatnonzero(member == number) for number in used]
        found = [self._parts[number].take(own[run]) for number, run in zip(used, runs, strict=True)]
        behind = without_unused(in_turn(found)) if found else ChunkRefs.empty(0)
        order = np.concatenate([own[:0], *runs])
        return behind if (order[1:] > order[:-1]).all() else behind.take(np.argsort(order))

    def _in_turn(self, first: int, stop: int) -> list[ChunkRefs]:
        """Return neighbouring chunks where all of a member's come before those of the next one."""
        ends, neighbours = self._ends * self._inner, []
        for number in range(int(np.searchsorted(ends, first, side="right")), len(self._parts)):
            begin = int(ends[number] - self._lengths[number] * self._inner)
            if begin >= stop:
                break
            neighbours.append(self._parts[number].part(max(first - begin, 0), min(stop, int(ends[number])) - begin))
        return neighbours


def put_together(parts: Sequence[ChunkRefs], grids: Sequence[Grid], axis: int, turn: Ints | None = None) -> ChunkRefs:
    """Return what `refs.joined` does, in memory only where it is not large."""
    together = joined if sum(map(math.prod, grids)) <= LARGE else JoinedRefs
    return together(parts, grids, axis, turn)


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

    def keep(self, refs: ChunkRefs) -> ChunkRefs:
        """Return the same references; those of arrays with few chunks, or that are parted already, as they are."""
        if isinstance(refs, PartedRefs) or refs.chunks < _FEW:
            return refs
        is_plain = len(refs.source) == refs.chunks and bool((refs.counts == 1).all())
        names = [name for name in _COLUMNS if getattr(refs, name) is not None][1 if is_plain else 0 :]
        columns = {name: _least(getattr(refs, name)) for name in names}
        with self._lock:
            size = sum(column.nbytes for column in columns.values())
            if self.held + size <= self.most:
                self.held += size
                return refs
            return FiledRefs(refs, {name: self._written(column) for name, column in columns.items()}, self)

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


class FiledRefs(PartedRefs):
    """References whose columns are in the file of a spool."""

    _columns: Mapping[str, tuple[int, NDArray[Any]]]
    _held: Mapping[int, bytes]
    _spool: Spool

    def __init__(self, refs: ChunkRefs, columns: Mapping[str, tuple[int, NDArray[Any]]], spool: Spool) -> None:
        super().__init__(refs.sources, refs.chunks)
        vars(self).update({"_columns": columns, "_held": dict(refs.inline), "_spool": spool})

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `first` to before `stop`, numbered from 0."""
        indptr = self._column("indptr", first, stop + 1) if "indptr" in self._columns else np.arange(first, stop + 1)
        low, high = int(indptr[0]), int(indptr[-1])
        source, offset, length = (self._column(name, low, high) for name in _COLUMNS[1:4])
        version = self._column("version", low, high) if "version" in self._columns else None
        inline = {chunk - first: data for chunk, data in self._held.items() if first <= chunk < stop}
        return ChunkRefs(self.sources, indptr - low, source, offset, length, inline, version)

    def _column(self, name: str, first: int, stop: int) -> NDArray[Any]:
        begin, value = self._columns[name]
        if begin == _NOWHERE:
            return np.broadcast_to(value[0], stop - first) if len(value) else value
        return self._spool.read(begin, value.dtype, first, stop)
