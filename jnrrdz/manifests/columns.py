"""The references of one array in memory, and how they are gathered.

May touch numpy, the model, read.keys and errors.  A manifest's references arrive in pieces, in any
order; `Columns` keeps the pieces as arrays and `build` joins them to one `ChunkRefs`.  Nothing here
grows with the grid that a manifest declares, only with the references that it holds.

Numbers out of Arrow columns.

May touch pyarrow and numpy.  Arrow's own `to_numpy` and `fill_null` import pandas, which takes longer
than everything that a manifest needs.

Columns as Arrow arrays.

May touch numpy and pyarrow.  `pa.array` would do, but imports pandas when it is called first, which takes
longer than writing a million references.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jnrrdz.core.refs import WHOLE, ByteRange, ChunkRefs
from jnrrdz.errors import MalformedError
from jnrrdz.manifests.keys import ChunkKeys

__all__ = ["WHOLE", "ArrayRefs", "ColumnarRefs", "Columns", "Ints", "Piece"]

_TWINS = "two references for one chunk"
_SPARSE_FROM = 256  # chunks; below, row pointers are no larger than the array's document, however many arrays
_SPARSE_FACTOR = 4  # chunks of the grid per reference from which a search is cheaper than row pointers

type Ints = NDArray[np.int64]


class ArrayRefs(Protocol):
    """Where the bytes of every chunk of one array are, wherever that is written."""

    @property
    def keys(self) -> ChunkKeys:
        """How the chunks are called."""

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""

    def ready(self, chunk: int) -> bool:
        """Whether `lookup` answers without waiting for a network."""

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending."""


@dataclass(frozen=True, eq=False)
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

    def ready(self, chunk: int) -> bool:  # noqa: ARG002 - in memory every chunk is
        """Whether `lookup` answers without waiting for a network: it always does."""
        return True

    def _row(self, chunk: int) -> int | None:
        if self.rows is None:
            return chunk
        row = int(np.searchsorted(self.rows, chunk))
        return row if row < len(self.rows) and self.rows[row] == chunk else None

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending."""
        there = self.refs.counts > 0
        there[list(self.refs.inline)] = True
        return np.flatnonzero(there) if self.rows is None else self.rows[there]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns; the mapping of inline bytes may be a view, which does not pickle."""
        refs = self.refs
        columns = (refs.sources, refs.indptr, refs.source, refs.offset, refs.length, dict(refs.inline))
        return _restored, (self.keys, self.rows, columns)

    def __eq__(self, other: object) -> bool:
        """Whether the same chunks have the same references."""
        if not isinstance(other, ColumnarRefs):
            return NotImplemented
        mine, theirs = self.refs, other.refs
        columns = ("indptr", "source", "offset", "length")
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

    def add(self, piece: Piece) -> None:
        """Take some references."""
        self.pieces.append(piece)

    def add_inline(self, chunk: int, data: bytes) -> None:
        """Take the bytes of a chunk that stand in the manifest itself."""
        if chunk in self.inline:
            raise MalformedError(_TWINS, field=self.keys.key(chunk))
        self.inline[chunk] = data

    def build(self, sources: tuple[str, ...]) -> ColumnarRefs:
        """Return the references in chunk order; a chunk that has two is an error."""
        if self.inline:
            self.add(_rows_without_ranges(self.inline))
        piece = _joined(self.pieces)
        if not (piece.chunks[1:] > piece.chunks[:-1]).all():
            piece = _ordered(piece)
            self._refuse_twins(piece.chunks)
        return self._shaped(piece, sources)

    def _refuse_twins(self, chunks: Ints) -> None:
        twins = np.flatnonzero(chunks[1:] == chunks[:-1])
        if len(twins):
            raise MalformedError(_TWINS, field=self.keys.key(int(chunks[twins[0]])))

    def _shaped(self, piece: Piece, sources: tuple[str, ...]) -> ColumnarRefs:
        """Give every chunk its row, or only those that are there where the grid is much larger."""
        total, listed = self.keys.chunks, len(piece.chunks)
        sparse = total > max(_SPARSE_FROM, _SPARSE_FACTOR * listed)
        if piece.counts is None and (sparse or listed == total):
            indptr = np.arange(listed + 1, dtype=np.int64)
        else:
            counts = np.ones(listed, np.int64) if piece.counts is None else piece.counts
            indptr = _row_pointers(counts if sparse else _spread(piece.chunks, counts, total))
        inline = self.inline
        if sparse:
            inline = {int(np.searchsorted(piece.chunks, chunk)): data for chunk, data in inline.items()}
        refs = ChunkRefs(sources, indptr, _narrowed(piece.source), piece.offset, piece.length, inline)
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
    ranges = order if piece.counts is None else _range_order(order, piece.counts)
    counts = None if piece.counts is None else piece.counts[order]
    return Piece(piece.chunks[order], piece.source[ranges], piece.offset[ranges], piece.length[ranges], counts)


def _range_order(order: Ints, counts: Ints) -> Ints:
    """Return the order of the ranges that follows from an order of their chunks."""
    starts, sizes = _row_pointers(counts)[:-1][order], counts[order]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(starts, sizes) + within


def _narrowed(source: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the column without memory of its own where all ranges are in one source."""
    return np.broadcast_to(source[0], len(source)) if len(source) and (source == source[0]).all() else source


def _spread(chunks: Ints, counts: Ints, total: int) -> Ints:
    """Return the number of ranges of every chunk of the grid."""
    spread = np.zeros(total, np.int64)
    spread[chunks] = counts
    return spread


def _row_pointers(counts: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def numbers[Kind: np.generic](column: pa.Array, kind: type[Kind]) -> NDArray[Kind]:
    """Return a copy of a column of numbers; what stands for nulls has no meaning."""
    values = np.frombuffer(column.buffers()[1], kind) if len(column) else np.empty(0, kind)
    return values[column.offset : column.offset + len(column)].copy()


def valid(column: pa.Array) -> NDArray[np.bool_]:
    """Return which values are not null."""
    return numbers(column.is_valid().cast(pa.uint8()), np.uint8).astype(bool)


_TYPES = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def integers(column: NDArray[np.integer], present: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column of 32 or 64 bit integers, null where it is not `present`."""
    data = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(_TYPES[column.dtype], len(column), [_bits(present), data])


def booleans(column: NDArray[np.bool_]) -> pa.Array:
    """Return a column of truth values."""
    return pa.Array.from_buffers(pa.bool_(), len(column), [None, _bits(column)])


def texts(values: Iterable[str]) -> pa.Array:
    """Return a column of texts, of at most 2 GB together."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def text(value: str) -> pa.Scalar:
    """Return one text, which stands for a column of it."""
    return texts([value])[0]


def joined(*columns: pa.Array | str) -> pa.Array:
    """Return the columns' texts one after another, row by row; a mere text stands in every row."""
    parts = [text(column) if isinstance(column, str) else column for column in columns]
    return pc.binary_join_element_wise(*parts, text(""))


def _bits(column: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if column is None else pa.py_buffer(np.packbits(column, bitorder="little"))
