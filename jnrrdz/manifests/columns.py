"""The references of one array in memory, and how they are gathered.

A manifest's references arrive in pieces, in any order; `Columns` keeps the pieces as arrays and `build` joins them to
one `ChunkRefs`.  Nothing here grows with the grid that a manifest declares, only with the references that it holds.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.large_refs import TOGETHER, PartedRefs
from jnrrdz.core.refs import ByteRange, ChunkRefs, row_pointers, rows_of, without_unused
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.documents import ChunkKeys
from jnrrdz.records import record

MOST_CHUNKS = 1 << 27
"""Of one array in memory: a row pointer for each of them, there or not, takes 1 GB."""

MOST_PARTS = 1 << 16
"""Of one array that are looked at one after another."""

_TWINS = "two references for one chunk"
_SPARSE_FROM = 256  # chunks; below, row pointers are no larger than the array's document, however many arrays
_SPARSE_FACTOR = 4  # chunks of the grid per reference from which a search is cheaper than row pointers

type Ints = NDArray[np.int64]


class Ranges(NamedTuple):
    """The ranges of some chunks, for readers of many of them at once."""

    urls: Sequence[str]
    source: Ints
    """For each chunk the number of its URL; this and what follows mean nothing where the chunk is not one range."""

    offset: Ints
    length: Ints
    counts: Ints
    """1 for a chunk of one range, 0 for one that is missing, -1 for any that only `lookup` tells."""

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


class ArrayRefs(Protocol):
    """Where the bytes of every chunk of one array are, wherever that is written."""

    @property
    def keys(self) -> ChunkKeys:
        """How the chunks are called."""

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""

    def ready(self, chunk: int) -> bool:
        """Whether `lookup` answers without waiting for a network."""

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once."""

    def version(self, chunk: int) -> int:
        """Return what tells the state of a chunk that is a whole object, 0 where that is not known."""

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending."""

    def columnar(self) -> ChunkRefs:
        """Return the same in memory, with a row for each chunk of the grid."""

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield references some at a time, each with the number of its first chunk; all that are in some sources."""

    @property
    def together(self) -> int:
        """Chunks whose references are best looked at together."""

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return those of the chunks from `first` to before `stop` in memory, with a row for each of these."""


type Shard = tuple[int, int]
"""Which of how many parts, the first one 1."""

ALL: Shard = (1, 1)


def parts_of_shard(refs: ArrayRefs, shard: Shard = ALL) -> Iterator[tuple[int, ChunkRefs]]:
    """Yield references some at a time, each with the number of its first chunk: all, or a shard of them.

    What is not in the shard is not read.
    """
    chunks, size = refs.keys.chunks, refs.together
    parts = -(-chunks // size)
    if parts > MOST_PARTS:
        raise UnsupportedError(f"{parts} parts; no more than {MOST_PARTS} are looked at")
    for number in of_shard(range(parts), shard):
        first = number * size
        yield first, refs.part(first, min(first + size, chunks))


def of_shard[T](items: Sequence[T], shard: Shard) -> Sequence[T]:
    """Return neighbours among some items, as many as in other shards."""
    number, count = shard
    return items[len(items) * (number - 1) // count : len(items) * number // count]


class ManifestRefs(PartedRefs):
    """The references of an array of a manifest, read when they are looked at."""

    _refs: ArrayRefs

    def __init__(self, refs: ArrayRefs) -> None:
        super().__init__(None, refs.keys.chunks)
        vars(self)["_refs"] = refs

    @cached_property
    def sources(self) -> Sequence[str]:
        """The sources of all chunks; reads all of them."""
        parts = (without_unused(part) for _, part in parts_of_shard(self._refs))
        return tuple(dict.fromkeys(url for part in parts for url in part.sources))

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield references some at a time, each with the number of its first chunk; all that are in some sources."""
        return self._refs.parts_with(urls)

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return the references of the chunks from `first` to before `stop`, numbered from 0."""
        return self._refs.part(first, stop)


@record
class MovedRefs:
    """The references of an array under another path."""

    keys: ChunkKeys
    inner: ArrayRefs

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        return self.inner.lookup(chunk)

    def ready(self, chunk: int) -> bool:
        """Whether `lookup` answers without waiting for a network."""
        return self.inner.ready(chunk)

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once."""
        return self.inner.ranges_of(chunks)

    def version(self, chunk: int) -> int:
        """Return what tells the state of a chunk that is a whole object, 0 where that is not known."""
        return self.inner.version(chunk)

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending."""
        return self.inner.present()

    def columnar(self) -> ChunkRefs:
        """Return the same in memory, with a row for each chunk of the grid."""
        return self.inner.columnar()

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield references some at a time, each with the number of its first chunk; all that are in some sources."""
        return self.inner.parts_with(urls)

    @property
    def together(self) -> int:
        """Chunks whose references are best looked at together."""
        return self.inner.together

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return those of the chunks from `first` to before `stop` in memory, with a row for each of these."""
        return self.inner.part(first, stop)


def refuse_many_chunks(keys: ChunkKeys) -> None:
    """Refuse a grid of more chunks than are taken into memory at once."""
    if keys.chunks > MOST_CHUNKS:
        raise UnsupportedError(f"a grid of {keys.grid}; no more than {MOST_CHUNKS} chunks are taken at once")


@record(eq=False)
class ColumnarRefs:
    """References in memory: a row per chunk, or per chunk that is there if few are."""

    keys: ChunkKeys
    refs: ChunkRefs
    rows: Ints | None = None
    """The chunk of each row, ascending; None where every chunk has its row."""

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        row = self._row(chunk)
        if row is None:
            return []
        inline = self.refs.inline.get(row) if self.refs.inline else None
        return self.refs.ranges(row) if inline is None else inline

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once; of objects whose states are known `lookup` alone tells."""
        refs, rows, there = self.refs, chunks, np.ones(len(chunks), bool)
        if self.rows is not None:
            rows = np.searchsorted(self.rows, chunks).clip(max=max(len(self.rows) - 1, 0))
            there = self.rows[rows] == chunks if len(self.rows) else np.zeros(len(chunks), bool)
        found = np.zeros(len(chunks), np.int64)
        found[there] = refs.indptr[rows[there] + 1] - refs.indptr[rows[there]]
        counts = np.where((found > 1) | (refs.version is not None), -1, found)
        if refs.inline:
            inline = refs.inline_numbers
            counts[there & (inline[np.searchsorted(inline[:-1], rows)] == rows)] = -1
        is_one = counts == 1
        at = refs.indptr[rows[is_one]]
        source, offset, length = np.zeros((3, len(chunks)), np.int64)
        source[is_one], offset[is_one], length[is_one] = refs.source[at], refs.offset[at], refs.length[at]
        return Ranges(refs.sources, source, offset, length, counts)

    def _row(self, chunk: int) -> int | None:
        if self.rows is None:
            return chunk
        row = int(np.searchsorted(self.rows, chunk))
        return None if row == len(self.rows) or self.rows[row] != chunk else row

    def version(self, chunk: int) -> int:
        """Return what tells the state of a chunk that is a whole object, 0 where that is not known."""
        row = None if self.refs.version is None else self._row(chunk)
        if self.refs.version is None or row is None or self.refs.indptr[row] == self.refs.indptr[row + 1]:
            return 0
        return int(self.refs.version[self.refs.indptr[row]])

    def with_versions(self, versions: Ints) -> "ColumnarRefs":
        """Return the references with a version for each chunk that has ranges, in their order."""
        return replace(self, refs=self.refs.with_chunk_versions(versions))

    def ready(self, chunk: int) -> bool:  # noqa: ARG002 - in memory every chunk is
        """Whether `lookup` answers without waiting for a network: it always does."""
        return True

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending."""
        there = self.refs.present
        return there if self.rows is None else self.rows[there]

    def columnar(self) -> ChunkRefs:
        """Return the references with a row for each chunk of the grid."""
        refuse_many_chunks(self.keys)
        return self.refs if self.rows is None else self.part(0, self.keys.chunks)

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield references some at a time, each with the number of its first chunk; all that are in some sources."""
        return self.columnar().parts_with(urls)

    @property
    def together(self) -> int:
        """Chunks whose references are best looked at together."""
        return TOGETHER

    def part(self, first: int, stop: int) -> ChunkRefs:
        """Return those of the chunks from `first` to before `stop`, with a row for each of these."""
        if self.rows is None:
            return self.refs.part(first, stop)
        low, high = np.searchsorted(self.rows, (first, stop)).tolist()
        some, chunks = self.refs.part(low, high), self.rows[low:high] - first
        indptr = row_pointers(_spread(chunks, some.counts, stop - first))
        inline = {int(chunks[row]): data for row, data in some.inline.items()}
        return replace(some, indptr=indptr, inline=inline)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns; the mapping of inline bytes may be a view, which does not pickle."""
        refs = self.refs
        columns = (refs.sources, refs.indptr, refs.source, refs.offset, refs.length, dict(refs.inline), refs.version)
        return _restored, (self.keys, self.rows, columns)

    def __eq__(self, other: object) -> bool:
        """Whether the same chunks have the same references."""
        if not isinstance(other, ColumnarRefs):
            return NotImplemented
        mine, theirs = self.refs, other.refs
        columns = ("indptr", "source", "offset", "length", "version")
        return (
            (self.keys, mine.sources, dict(mine.inline)) == (other.keys, theirs.sources, dict(theirs.inline))
            and all(np.array_equal(getattr(mine, name), getattr(theirs, name)) for name in columns)
            and np.array_equal(self.present(), other.present())
        )

    __hash__ = None  # type: ignore[assignment]  # equal by value, and the values are arrays


def _restored(keys: ChunkKeys, rows: Ints | None, columns: tuple[Any, ...]) -> ColumnarRefs:
    return ColumnarRefs(keys, ChunkRefs(*columns), rows)


class Piece(NamedTuple):
    """References of some chunks of one array; the ranges stand in the order of the chunks."""

    chunks: Ints
    source: NDArray[np.int32]
    offset: Ints
    length: Ints
    counts: Ints | None = None
    """Ranges of each chunk; None where every chunk has one."""


@dataclass
class Columns:
    """The references of one array while they are being gathered."""

    keys: ChunkKeys
    pieces: list[Piece] = field(default_factory=list)
    inline: dict[int, bytes] = field(default_factory=dict)

    def add_inline(self, chunk: int, data: bytes) -> None:
        """Take the bytes of a chunk that stand in the manifest itself."""
        if chunk in self.inline:
            raise MalformedError(_TWINS, field=self.keys.key(chunk))
        self.inline[chunk] = data

    def build(self, sources: tuple[str, ...]) -> ColumnarRefs:
        """Return the references in chunk order; a chunk that has two is an error."""
        if self.inline:
            self.pieces.append(_rows_without_ranges(self.inline))
        piece = _joined(self.pieces)
        if not (piece.chunks[1:] > piece.chunks[:-1]).all():
            piece = _ordered(piece)
            twins = np.flatnonzero(piece.chunks[1:] == piece.chunks[:-1])
            if len(twins):
                raise MalformedError(_TWINS, field=self.keys.key(int(piece.chunks[twins[0]])))
        return self._shaped(piece, sources)

    def _shaped(self, piece: Piece, sources: tuple[str, ...]) -> ColumnarRefs:
        """Give every chunk its row, or only those that are there where the grid is much larger."""
        total, listed = self.keys.chunks, len(piece.chunks)
        sparse = total > max(_SPARSE_FROM, _SPARSE_FACTOR * listed)
        if piece.counts is None and (sparse or listed == total):
            indptr = np.arange(listed + 1, dtype=np.int64)
        else:
            counts = np.ones(listed, np.int64) if piece.counts is None else piece.counts
            indptr = row_pointers(counts if sparse else _spread(piece.chunks, counts, total))
        inline = self.inline
        if sparse:
            inline = {int(np.searchsorted(piece.chunks, chunk)): data for chunk, data in inline.items()}
        source = piece.source
        if len(source) and (source == source[0]).all():  # then the column needs no memory of its own
            source = np.broadcast_to(source[0], len(source))
        refs = ChunkRefs(sources, indptr, source, piece.offset, piece.length, inline)
        return ColumnarRefs(self.keys, refs, piece.chunks if sparse else None)


def _rows_without_ranges(chunks: Collection[int]) -> Piece:
    none, numbers = np.empty(0, np.int64), np.fromiter(chunks, np.int64, len(chunks))
    return Piece(numbers, np.empty(0, np.int32), none, none, np.zeros(len(numbers), np.int64))


def _joined(pieces: list[Piece]) -> Piece:
    """Return the pieces end to end, and take them from the list."""
    if not pieces:
        return _rows_without_ranges(())
    counts = None
    if any(piece.counts is not None for piece in pieces):
        counts = np.concatenate([np.ones(len(p.chunks), np.int64) if p.counts is None else p.counts for p in pieces])
    columns = [list(column) for column in list(zip(*pieces, strict=True))[:4]]
    pieces.clear()  # with the columns popped one by one, a million references are never there twice
    chunks, source, offset, length = (np.concatenate(columns.pop(0)) for _ in range(4))
    return Piece(chunks, source, offset, length, counts)


def _ordered(piece: Piece) -> Piece:
    """Return the same references by chunk, each chunk's ranges in the order that they had."""
    order = np.argsort(piece.chunks, kind="stable")
    ranges, counts = order, None
    if piece.counts is not None:
        counts = piece.counts[order]
        ranges = rows_of(row_pointers(piece.counts), order)
    return Piece(piece.chunks[order], piece.source[ranges], piece.offset[ranges], piece.length[ranges], counts)


def _spread(chunks: Ints, counts: Ints, total: int) -> Ints:
    """Return the number of ranges of every chunk of the grid."""
    spread = np.zeros(total, np.int64)
    spread[chunks] = counts
    return spread
