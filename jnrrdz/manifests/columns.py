"""The references of one array while they are gathered from a manifest.

A manifest's references arrive in pieces, in any order; `Columns` keeps the pieces as arrays and `build` joins them to
one `ChunkRefs`, or `SparseRefs` where few chunks of a large grid have any.  Nothing here grows with the grid that a
manifest declares, only with the references that it holds.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import ChunkRefs, Ints, SparseRefs, row_pointers, rows_of
from jnrrdz.errors import MalformedError
from jnrrdz.manifests.documents import ChunkKeys

_TWINS = "two references for one chunk"
_SPARSE_FROM = 256  # chunks; below, row pointers are no larger than the array's document, however many arrays
_SPARSE_FACTOR = 4  # chunks of the grid per reference from which a search is cheaper than row pointers


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

    def build(self, sources: tuple[str, ...]) -> ChunkRefs | SparseRefs:
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

    def _shaped(self, piece: Piece, sources: tuple[str, ...]) -> ChunkRefs | SparseRefs:
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
        return SparseRefs(refs, piece.chunks, total) if sparse else refs


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
