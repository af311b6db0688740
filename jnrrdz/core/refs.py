"""References to chunk bytes: their forms have one base, whose one primitive returns some of them as columns.

`References.part(start, stop)` returns the references of some chunks as `ChunkRefs`, and all else that a reader needs
follows from it.  The forms differ in where the references are: in memory, with a row for each chunk (`ChunkRefs`) or
for each chunk that is present (`SparseRefs`); made from others when they are read (`MappedRefs`, and
`core.large_refs.ConcatRefs`); in a temporary file (`core.large_refs.SpooledRefs`); in files of a manifest
(`manifests.parquet_records.ParquetRefs`).  docs/decisions/056-one-base-of-references.md has the reasons.

Columns have the form of a CSR matrix: chunk `i` (in C order of the chunk grid) is the concatenation of the ranges
`indptr[i]:indptr[i + 1]`.  A missing chunk is an empty row, a scattered chunk a longer one, and inline bytes are in a
separate mapping.  No Python object per chunk is made, inline bytes excepted.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jnrrdz.core.limits import GRID_CHUNKS
from jnrrdz.core.tree_files import TreeFiles
from jnrrdz.errors import MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.records import record
from jnrrdz.redact import record_repr

type ByteRange = tuple[str, int, int]
"""A source's URL, the first byte, the number of bytes."""

type Ints = NDArray[np.int64]

WHOLE = int(np.iinfo(np.int64).max)
"""The length of a range that ends where its source does (kerchunk's `["url"]`)."""

SCATTERED = "jnrrdz-scattered://"
"""Stands before the URL of a chunk of several ranges where a manifest's row has room for one: no
file system opens it, so a reader that does not know the ranges fails instead of reading wrong bytes."""


FEW = 64
"""Sources that are spelt all together, however few of them are used; columns that are no shorter by broadcasting."""


def row_pointers(counts: NDArray[Any]) -> Ints:
    """Return where each chunk's ranges begin, and where the last one's end, from the number of ranges of each."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def rows_of(indptr: Ints, chunks: Ints) -> Ints:
    """Return the rows of some chunks, in the chunks' order."""
    begins = indptr[chunks]
    counts = indptr[chunks + 1] - begins
    ends = np.cumsum(counts)
    return np.repeat(begins - (ends - counts), counts) + np.arange(counts.sum())


# The base of all forms

TOGETHER = 1 << 17
"""Chunks whose references are read together."""

MOST_PARTS = 1 << 16
"""Of one array that are read one after another."""

type Shard = tuple[int, int]
"""Which of how many parts, the first one 1."""

ALL: Shard = (1, 1)


def of_shard[T](items: Sequence[T], shard: Shard) -> Sequence[T]:
    """Return neighbours among some items, as many as in other shards."""
    number, count = shard
    return items[len(items) * (number - 1) // count : len(items) * number // count]


class Ranges(NamedTuple):
    """The ranges of some chunks, for readers of many of them at once."""

    urls: Sequence[str]
    source: Ints
    """For each chunk the number of its URL; this and what follows mean nothing where the chunk is not one range."""

    offset: Ints
    length: Ints
    counts: Ints
    """1 for a chunk of one range, 0 for a missing one, -1 for any other, which only `lookup` returns."""

    @classmethod
    def joined(cls, parts: Sequence["Ranges"], places: Sequence[Ints]) -> "Ranges":
        """Return the ranges of several parts, each chunk in its place."""
        urls = [url for part in parts for url in part.urls]
        first = np.cumsum([0, *(len(part.urls) for part in parts)])
        source, offset, length, counts = np.zeros((4, sum(map(len, places))), np.int64)
        for part, place, start in zip(parts, places, first.tolist(), strict=False):
            source[place] = part.source + start
            offset[place], length[place], counts[place] = part.offset, part.length, part.counts
        return cls(urls, source, offset, length, counts)


class References:
    """Where the bytes of every chunk of one array are.

    A form has `sources` and `chunks`, and returns some of its references as columns (`part`).
    """

    sources: Sequence[str]
    """URLs of the sources that ranges may be in."""

    chunks: int
    """Number of chunks, missing ones included."""

    is_in_memory = False
    """Whether all references are in memory, so that no file is read for them."""

    def part(self, start: int, stop: int) -> "ChunkRefs":
        """Return the references of the chunks from `start` to before `stop`, numbered from 0."""
        raise NotImplementedError

    @property
    def together(self) -> int:
        """Chunks whose references are best read together."""
        return TOGETHER

    def parts(self, shard: Shard = ALL) -> "Iterator[tuple[int, ChunkRefs]]":
        """Yield parts, each with the number of its first chunk: all, or those of a shard.

        What is not in the shard is not read.  Parts whose chunks are all missing may be left out.
        """
        for number in self._part_numbers(shard):
            yield self._part(number)

    def _part_numbers(self, shard: Shard = ALL) -> Sequence[int]:
        count = -(-self.chunks // self.together)
        if count > MOST_PARTS:
            raise UnsupportedError(f"{count} parts; no more than {MOST_PARTS} are looked at")
        return of_shard(range(count), shard)

    def _part(self, number: int) -> "tuple[int, ChunkRefs]":
        first = number * self.together
        return first, self.part(first, min(first + self.together, self.chunks))

    def parts_with(self, urls: frozenset[str]) -> "Iterator[tuple[int, ChunkRefs]]":
        """Yield parts, each with the number of its first chunk; all that have ranges in some sources."""
        return ((first, part) for first, part in self.parts() if not urls.isdisjoint(part.sources))

    def has_any(self, start: int, stop: int) -> bool:  # noqa: ARG002  forms that know it override it
        """Whether any of the chunks from `start` to before `stop` may be present."""
        return True

    def columns(self) -> "ChunkRefs":
        """Return all references in memory, with a row for each chunk."""
        count = -(-self.chunks // self.together)
        parts = [without_unused(self._part(number)[1]) for number in range(count)]
        return in_turn(parts) if parts else ChunkRefs.empty(0)

    def gathered(self) -> "ChunkRefs | SparseRefs":
        """Return all references in memory; where few chunks are present, with rows of these alone."""
        refuse_many_chunks(self.chunks)
        numbers = [np.empty(0, np.int64)]
        rows = []
        for first, part in self.parts():
            present = part.present
            numbers.append(first + present)
            rows.append(without_unused(part if len(present) == part.chunks else part.take(present)))
        stored = in_turn(rows) if rows else ChunkRefs.empty(0)
        return refs_of_stored(self.chunks, np.concatenate(numbers), stored)

    def stored(self) -> "ChunkRefs":
        """Return all references in memory; missing chunks may have no row, so that rows are no chunks' numbers."""
        return self.columns()

    def take(self, chunks: Ints) -> "ChunkRefs":
        """Return the references of some chunks, in their order, each chunk's ranges in theirs."""
        if not len(chunks):
            return ChunkRefs.empty(0)
        first, stop = int(chunks.min()), int(chunks.max()) + 1
        some = self.part(first, stop)
        is_run = len(chunks) == stop - first and bool((chunks[1:] > chunks[:-1]).all())
        return some if is_run else some.take(chunks - first)

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        return self.part(chunk, chunk + 1).lookup(0)

    def ready(self, chunk: int) -> bool:  # noqa: ARG002  forms that read over a network override it
        """Whether `lookup` answers without waiting for a network."""
        return True

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once; of objects whose states are recorded only `lookup` does."""
        return self.take(chunks).ranges_of(np.arange(len(chunks)))

    def chunk_version(self, chunk: int) -> int:
        """Return the recorded state of a chunk that is a whole object, 0 where none is recorded."""
        return self.part(chunk, chunk + 1).chunk_version(0)

    @property
    def present(self) -> Ints:
        """The chunks that are not missing, ascending."""
        numbers = [first + part.present for first, part in self.parts()]
        return np.concatenate([np.empty(0, np.int64), *numbers])

    @property
    def named(self) -> Sequence[str]:
        """What a table of sources names: the sources, or the tree that they are files of."""
        return self.sources

    def moved(self, urls: Mapping[str, str]) -> "References":
        """Return the references with other URLs; `urls` has one for each that `named` has."""
        sources = tuple(urls[url] for url in self.sources)
        return MappedRefs(self, lambda part: without_unused(part).moved(urls), sources)

    def without_versions(self) -> "References":
        """Return the references without the recorded states of objects of a tree."""
        return MappedRefs(self, ChunkRefs.without_versions, self.sources)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns: what the references are read from may be open in this process only."""
        return self.columns().__reduce__()

    def __eq__(self, other: object) -> bool:
        """Whether the same chunks have the same references."""
        if not isinstance(other, References):
            return NotImplemented
        return self is other or self.columns() == other.columns()

    __hash__ = None  # type: ignore[assignment]  # equal by value, and the values are arrays

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.chunks} chunks in {len(self.sources)} sources"


@record(eq=False)
class ChunkRefs(References):
    """Columns in memory with a row for each chunk."""

    sources: Sequence[str]
    indptr: NDArray[np.int64]
    source: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    inline: Mapping[int, bytes] = field(default_factory=dict)
    version: NDArray[np.int64] | None = None
    """For each range that reaches to the end of an object of a tree what tells the object's state
    (`core.state.version_number`); 0 for others, None where that is known of none."""

    chunks: int = field(init=False)
    is_in_memory = True

    __repr__ = record_repr

    def __post_init__(self) -> None:
        """Refuse columns that contradict each other, and ranges that no file can have."""
        rows = len(self.source)
        if self.indptr.ndim != 1 or len(self.indptr) == 0 or self.indptr[0] != 0 or self.indptr[-1] != rows:
            raise MalformedError("the row pointers do not cover the ranges", field="indptr")
        # a broadcast number is everywhere the same
        if self.indptr.strides[0] and (self.indptr[1:] < self.indptr[:-1]).any():
            raise MalformedError("the row pointers decrease", field="indptr")
        columns = (self.offset, self.length) if self.version is None else (self.offset, self.length, self.version)
        if any(len(column) != rows for column in columns):
            raise MalformedError("columns of different lengths", field="offset, length")
        if rows and (self.offset.min() < 0 or self.length.min() < 0):
            raise MalformedError("a negative offset or length", field="offset, length")
        if rows and (self.source.min() < 0 or self.source.max() >= len(self.sources)):
            raise MalformedError("a range of a source that is not listed", field="source")
        object.__setattr__(self, "chunks", len(self.indptr) - 1)

    @classmethod
    def single(
        cls, url: str, offsets: ArrayLike, lengths: ArrayLike, *, missing: ArrayLike | None = None
    ) -> "ChunkRefs":
        """Return references of at most one range a chunk, all in one source.

        `missing` marks the chunks that are absent (read as fill value); none where it is left out.
        """
        offset, length = (np.asarray(column, np.int64).ravel() for column in (offsets, lengths))
        indptr = np.arange(len(offset) + 1, dtype=np.int64)
        if missing is not None and (absent := np.asarray(missing, bool).ravel()).any():
            present = ~absent
            offset, length = offset[present], length[present]
            indptr = row_pointers(present)
        # a broadcast number takes no memory, but longer to make than a few
        source = np.zeros(len(offset), np.int32) if len(offset) <= FEW else np.broadcast_to(np.int32(0), len(offset))
        return cls((url,), indptr, source, offset, length)

    @classmethod
    def from_rows(
        cls,
        sources: Sequence[str],
        counts: NDArray[Any],
        offset: Ints,
        length: Ints,
        source: NDArray[np.int32] | None = None,
    ) -> "ChunkRefs":
        """Return references of so many ranges a chunk, which stand in the chunks' order.

        `source` says which of the sources each range is in; all are in the first where it is left out.
        """
        numbers = np.broadcast_to(np.int32(0), len(offset)) if source is None else source
        return cls(sources, row_pointers(counts), numbers, offset, length)

    @classmethod
    def grouped(cls, sources: Sequence[str], chunks: int, owner: Ints, offset: Ints, length: Ints) -> "ChunkRefs":
        """Return references to the first source from ranges in any order; `owner` is the chunk of each of them."""
        order = np.argsort(owner, kind="stable")
        return cls.from_rows(sources, np.bincount(owner, minlength=chunks), offset[order], length[order])

    @classmethod
    def empty(cls, chunks: int) -> "ChunkRefs":
        """Return references to `chunks` missing chunks."""
        nothing = np.empty(0, np.int64)
        return cls((), np.broadcast_to(np.int64(0), chunks + 1), np.empty(0, np.int32), nothing, nothing)

    @property
    def named(self) -> Sequence[str]:
        """What a table of sources names: the sources, or the tree that they are files of."""
        return (self.sources.tree,) if isinstance(self.sources, TreeFiles) else self.sources

    def spelt(self, source: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
        """Return the URLs that some numbers of sources mean, and for each its place among them; -1 stays."""
        if len(self.sources) <= FEW:
            return list(self.sources), source
        used, place = np.unique(source, return_inverse=True)
        absent = int(np.searchsorted(used, 0))  # what is below 0 stands for no source
        numbers = used[absent:]
        urls = self.sources.taken(numbers) if isinstance(self.sources, TreeFiles) else None
        found = [self.sources[number] for number in numbers.tolist()] if urls is None else urls
        return found, np.maximum(place - absent, -1).astype(np.int32)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of ranges of each chunk."""
        return np.diff(self.indptr)

    @cached_property
    def is_plain(self) -> bool:
        """Whether every chunk is one range."""
        # as many ranges as chunks, and no chunk without one
        return len(self.source) == self.chunks and bool((self.indptr[1:] != self.indptr[:-1]).all())

    @property
    def present(self) -> Ints:
        """The chunks that are not missing, ascending."""
        there = self.counts > 0
        there[list(self.inline)] = True
        return np.flatnonzero(there)

    @property
    def owner(self) -> Ints:
        """Chunk of each range."""
        return np.repeat(np.arange(self.chunks), self.counts)

    def part(self, start: int, stop: int) -> "ChunkRefs":
        """Return the references of the chunks from `start` to before `stop`, numbered from 0."""
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        numbers = self.inline_numbers
        chunks = numbers[slice(*np.searchsorted(numbers, (start, stop)))].tolist() if len(numbers) else ()
        inline = {chunk - start: self.inline[chunk] for chunk in chunks}
        version = None if self.version is None else self.version[low:high]
        columns = (self.source[low:high], self.offset[low:high], self.length[low:high])
        return ChunkRefs(self.sources, self.indptr[start : stop + 1] - low, *columns, inline, version)

    def gathered(self) -> "ChunkRefs":
        """Return the references themselves."""
        return self

    def columns(self) -> "ChunkRefs":
        """Return the same."""
        return self

    def parts_with(self, urls: frozenset[str]) -> "Iterator[tuple[int, ChunkRefs]]":
        """Yield all references, which are in memory anyway, where some are in some sources."""
        if not urls.isdisjoint(self.sources):
            yield 0, self

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        inline = self.inline.get(chunk) if self.inline else None
        return self.ranges(chunk) if inline is None else inline

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once; of objects whose states are recorded only `lookup` does."""
        at = self.indptr[chunks]
        counts = self.indptr[chunks + 1] - at
        counts[(counts > 1) | (self.version is not None)] = -1
        if self.inline:
            inline = self.inline_numbers
            counts[inline[np.searchsorted(inline[:-1], chunks)] == chunks] = -1
        is_one = counts == 1
        if is_one.all():
            return Ranges(self.sources, self.source[at].astype(np.int64), self.offset[at], self.length[at], counts)
        source, offset, length = np.zeros((3, len(chunks)), np.int64)
        at = at[is_one]
        source[is_one], offset[is_one], length[is_one] = self.source[at], self.offset[at], self.length[at]
        return Ranges(self.sources, source, offset, length, counts)

    def chunk_version(self, chunk: int) -> int:
        """Return the recorded state of a chunk that is a whole object, 0 where none is recorded."""
        if self.version is None or self.indptr[chunk] == self.indptr[chunk + 1]:
            return 0
        return int(self.version[self.indptr[chunk]])

    def _columns(self) -> tuple[Any, ...]:
        return self.sources, self.indptr, self.source, self.offset, self.length, dict(self.inline), self.version

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns; the mapping of inline bytes may be a view, which does not pickle."""
        return ChunkRefs, self._columns()

    def __eq__(self, other: object) -> bool:
        """Whether the same chunks have the same references."""
        if not isinstance(other, ChunkRefs):
            return super().__eq__(other)
        pairs = zip(self._columns(), other._columns(), strict=True)
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)

    __hash__ = None  # equal by value, and the values are arrays

    @cached_property
    def inline_numbers(self) -> Ints:
        """The chunks whose bytes stand in the manifest itself, ascending."""
        return np.sort(np.fromiter(self.inline, np.int64, len(self.inline)))

    def moved(self, urls: Mapping[str, str]) -> "ChunkRefs":
        """Return the references with other URLs; `urls` has one for each that `named` has."""
        files = self.sources
        places = files.moved(urls[files.tree]) if isinstance(files, TreeFiles) else tuple(urls[url] for url in files)
        return replace(self, sources=places)

    def without_versions(self) -> "ChunkRefs":
        """Return the references without what tells the state of objects of a tree."""
        return replace(self, version=None)

    def take(self, chunks: Ints) -> "ChunkRefs":
        """Return the references of some chunks, in their order, each chunk's ranges in their own."""
        rows = rows_of(self.indptr, chunks)
        held = self.inline
        inline = {new: held[old] for new, old in enumerate(chunks.tolist()) if old in held} if held else {}
        pointers = row_pointers(self.indptr[chunks + 1] - self.indptr[chunks])
        version = None if self.version is None else self.version[rows]
        return ChunkRefs(
            self.sources, pointers, self.source[rows], self.offset[rows], self.length[rows], inline, version
        )

    def with_chunk_versions(self, versions: Ints) -> "ChunkRefs":
        """Return the references with a version for each chunk that has ranges, in their order."""
        counts = self.counts
        filled = counts[counts > 0]
        if len(filled) != len(versions):
            raise MalformedError(f"{len(versions)} versions of {len(filled)} objects", field="object_versions")
        return replace(self, version=np.repeat(versions, filled))

    @property
    def is_single(self) -> bool:
        """Whether no chunk needs more than one range."""
        return self.chunks == 0 or int(self.counts.max()) <= 1

    @property
    def nbytes_stored(self) -> int:
        """Total length of all ranges and inline bytes."""
        return int(self.length.sum()) + sum(len(data) for data in self.inline.values())

    def ranges(self, chunk: int) -> list[ByteRange]:
        """Return the ranges of one chunk, empty where it is missing (or inline)."""
        rows = range(int(self.indptr[chunk]), int(self.indptr[chunk + 1]))
        return [(self.sources[self.source[row]], int(self.offset[row]), int(self.length[row])) for row in rows]


class SparseRefs(References):
    """Columns in memory with a row for each chunk that is present: few of a large grid."""

    is_in_memory = True

    def __init__(self, refs: ChunkRefs, rows: Ints, chunks: int) -> None:
        """Take references, and for each of their rows its chunk, ascending."""
        self.refs = refs
        self.rows = rows
        self.sources = refs.sources
        self.chunks = chunks

    @classmethod
    def missing(cls, chunks: int) -> "SparseRefs":
        """Return the references of chunks that are all missing."""
        return cls(ChunkRefs.empty(0), np.empty(0, np.int64), chunks)

    def part(self, start: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `start` to before `stop`, numbered from 0."""
        low, high = np.searchsorted(self.rows, (start, stop)).tolist()
        some, chunks = self.refs.part(low, high), self.rows[low:high] - start
        counts = np.zeros(stop - start, np.int64)
        counts[chunks] = some.counts
        inline = {int(chunks[row]): data for row, data in some.inline.items()}
        return replace(some, indptr=row_pointers(counts), inline=inline)

    def _part_numbers(self, shard: Shard = ALL) -> Sequence[int]:
        """Return the parts that have a chunk that is present."""
        of_the_shard = of_shard(range(-(-self.chunks // self.together)), shard)
        used = np.unique(self.rows // self.together).tolist()
        return [number for number in used if number in of_the_shard]

    def columns(self) -> ChunkRefs:
        """Return the references with a row for each chunk."""
        refuse_many_chunks(self.chunks)
        return self.part(0, self.chunks)

    def gathered(self) -> "SparseRefs":
        """Return the references themselves."""
        refuse_many_chunks(self.chunks)
        return self

    def stored(self) -> ChunkRefs:
        """Return the references of the chunks that are present."""
        return self.refs

    def has_any(self, start: int, stop: int) -> bool:
        """Whether any of the chunks from `start` to before `stop` is present."""
        low, high = np.searchsorted(self.rows, (start, stop)).tolist()
        return bool(low < high)

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield parts, each with the number of its first chunk; none where no range is in some sources."""
        return iter(()) if urls.isdisjoint(self.sources) else super().parts_with(urls)

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        row = self._row(chunk)
        return [] if row is None else self.refs.lookup(row)

    def _row(self, chunk: int) -> int | None:
        row = int(np.searchsorted(self.rows, chunk))
        return None if row == len(self.rows) or self.rows[row] != chunk else row

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once; of objects whose states are recorded only `lookup` does."""
        rows = np.searchsorted(self.rows, chunks)
        inside = np.flatnonzero(rows < len(self.rows))
        inside = inside[self.rows[rows[inside]] == chunks[inside]]
        some = self.refs.ranges_of(rows[inside])
        source, offset, length, counts = np.zeros((4, len(chunks)), np.int64)
        source[inside], offset[inside] = some.source, some.offset
        length[inside], counts[inside] = some.length, some.counts
        return Ranges(some.urls, source, offset, length, counts)

    def chunk_version(self, chunk: int) -> int:
        """Return the recorded state of a chunk that is a whole object, 0 where none is recorded."""
        row = self._row(chunk)
        return 0 if row is None else self.refs.chunk_version(row)

    @property
    def present(self) -> Ints:
        """The chunks that are not missing, ascending."""
        return self.rows[self.refs.present]

    @property
    def named(self) -> Sequence[str]:
        """What a table of sources names: the sources, or the tree that they are files of."""
        return self.refs.named

    def moved(self, urls: Mapping[str, str]) -> "SparseRefs":
        """Return the references with other URLs; `urls` has one for each that `named` has."""
        return SparseRefs(self.refs.moved(urls), self.rows, self.chunks)

    def without_versions(self) -> "SparseRefs":
        """Return the references without the recorded states of objects of a tree."""
        return SparseRefs(self.refs.without_versions(), self.rows, self.chunks)

    def with_chunk_versions(self, versions: Ints) -> "SparseRefs":
        """Return the references with a version for each chunk that has ranges, in their order."""
        return SparseRefs(self.refs.with_chunk_versions(versions), self.rows, self.chunks)

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseRefs, (self.refs, self.rows, self.chunks)

    def __eq__(self, other: object) -> bool:
        """Whether the same chunks have the same references."""
        if not isinstance(other, SparseRefs):
            return super().__eq__(other)
        return self.chunks == other.chunks and np.array_equal(self.rows, other.rows) and self.refs == other.refs

    __hash__ = None  # equal by value, and the values are arrays


SPARSE_FROM = 1 << 16
"""Chunks of a grid from which on it may be sparse; below, row pointers are small."""

SPARSE_FACTOR = 4
"""Chunks of the grid for each stored one, from which on the grid is sparse."""


def refs_of_stored(chunks: int, numbers: Ints, rows: ChunkRefs) -> ChunkRefs | SparseRefs:
    """Return references of `chunks` chunks, some of which are stored.

    `rows` has a row for each stored chunk, `numbers` the chunks, ascending.
    """
    if len(numbers) == chunks:
        return rows
    sparse = SparseRefs(rows, numbers, chunks)
    is_sparse = chunks >= SPARSE_FROM and chunks > SPARSE_FACTOR * len(numbers)
    return sparse if is_sparse else sparse.part(0, chunks)


def refuse_many_chunks(chunks: int) -> None:
    """Refuse a grid of more chunks than are taken into memory at once."""
    if chunks > GRID_CHUNKS:
        raise UnsupportedError(f"a grid of {chunks} chunks; no more than {GRID_CHUNKS} chunks are taken at once")


class MappedRefs(References):
    """References each part of which is changed when it is read."""

    def __init__(self, inner: References, change: Callable[[ChunkRefs], ChunkRefs], sources: Sequence[str]) -> None:
        """Take references and what changes a part of them; `sources` are those of the changed parts."""
        self._inner = inner
        self._change = change
        self.sources = sources
        self.chunks = inner.chunks

    def part(self, start: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `start` to before `stop`, numbered from 0."""
        return self._change(self._inner.part(start, stop))

    @property
    def together(self) -> int:
        """Chunks whose references are best read together."""
        return self._inner.together

    def parts(self, shard: Shard = ALL) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield changed parts, each with the number of its first chunk, where the references have parts."""
        for first, part in self._inner.parts(shard):
            yield first, self._change(part)

    def _part_numbers(self, shard: Shard = ALL) -> Sequence[int]:
        return self._inner._part_numbers(shard)  # noqa: SLF001  a reference of the same base


type Grid = tuple[int, ...]

MARKER = 2
"""Bytes of a JPEG marker without parameters: SOI at the start of a stream, EOI at its end."""


def joined(parts: Sequence[ChunkRefs], grids: Sequence[Grid], axis: int, turn: Ints | None = None) -> ChunkRefs:
    """Return the references of a grid that holds the parts' grids one after another along `axis`.

    `turn` says which place along that axis comes first, second, ... where they are to change places.
    """
    behind = in_turn(parts)
    if turn is None and (len(parts) == 1 or math.prod(grids[0][:axis]) == 1):
        return without_unused(behind)
    starts = np.cumsum([0, *map(math.prod, grids)])
    chunks = [
        np.arange(start, start + math.prod(grid), dtype=np.int64).reshape(grid)
        for start, grid in zip(starts, grids, strict=False)
    ]
    places = np.concatenate(chunks, axis)  # which of the chunks in turn stands at each place of the whole grid
    order = places if turn is None else places.take(turn, axis)
    return without_unused(behind.take(order.ravel()))


def in_turn(parts: Sequence[ChunkRefs]) -> ChunkRefs:
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
    version = None
    if any(part.version is not None for part in parts):
        known = [np.zeros(len(part.source), np.int64) if part.version is None else part.version for part in parts]
        version = np.concatenate(known)
    return ChunkRefs(
        tuple(numbers),
        row_pointers(counts),
        np.concatenate(columns),
        np.concatenate([part.offset for part in parts]),
        np.concatenate([part.length for part in parts]),
        inline,
        version,
    )


def without_unused(refs: ChunkRefs) -> ChunkRefs:
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
        row_pointers(counts),
        np.insert(refs.source, first, 0),
        np.insert(start, first, offset),
        np.insert(length, first, len(tables) - MARKER),
        {chunk: tables[:-MARKER] + data[MARKER:] for chunk, data in refs.inline.items()},
    )
