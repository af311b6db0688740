"""References to chunk bytes, columnar: no Python object per chunk.

May touch numpy and errors only.  The form is that of a CSR matrix: chunk `i` (in C order of the
chunk grid) is the concatenation of the ranges `indptr[i]:indptr[i + 1]`.  A missing chunk is an
empty row, a scattered chunk a longer one, and inline bytes stand in a mapping of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jnrrdz.errors import MalformedError

type ByteRange = tuple[str, int, int]
"""A source's URL, the first byte, the number of bytes."""

SCATTERED = "jnrrdz-scattered://"
"""Stands before the URL of a chunk of several ranges where a manifest's row has room for one: no
file system opens it, so a reader that does not know the ranges fails instead of reading wrong bytes."""


@dataclass(frozen=True, eq=False)
class ChunkRefs:
    """Where the bytes of every chunk of one array are."""

    sources: tuple[str, ...]
    indptr: NDArray[np.int64]
    source: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    inline: Mapping[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse columns that contradict each other, and ranges that no file can have."""
        rows = len(self.source)
        if self.indptr.ndim != 1 or len(self.indptr) == 0 or self.indptr[0] != 0 or self.indptr[-1] != rows:
            raise MalformedError("the row pointers do not cover the ranges", field="indptr")
        if np.any(np.diff(self.indptr) < 0):
            raise MalformedError("the row pointers decrease", field="indptr")
        if len(self.offset) != rows or len(self.length) != rows:
            raise MalformedError("columns of different lengths", field="offset, length")
        if rows and (self.offset.min() < 0 or self.length.min() < 0):
            raise MalformedError("a negative offset or length", field="offset, length")
        if rows and (self.source.min() < 0 or self.source.max() >= len(self.sources)):
            raise MalformedError("a range of a source that is not listed", field="source")

    @classmethod
    def single(
        cls, url: str, offsets: ArrayLike, lengths: ArrayLike, *, missing: ArrayLike | None = None
    ) -> "ChunkRefs":
        """Return references of at most one range a chunk, all in one source.

        `missing` marks the chunks that are absent (read as fill value); none where it is left out.
        """
        offset = np.ascontiguousarray(np.ravel(offsets)).astype(np.int64, copy=False)
        length = np.ascontiguousarray(np.ravel(lengths)).astype(np.int64, copy=False)
        indptr = np.arange(len(offset) + 1, dtype=np.int64)
        if missing is not None:
            present = ~np.ravel(np.asarray(missing, bool))
            offset, length = offset[present], length[present]
            indptr = np.concatenate(([0], np.cumsum(present))).astype(np.int64)
        source = np.broadcast_to(np.int32(0), len(offset))
        return cls((url,), indptr, source, offset, length)

    @classmethod
    def empty(cls, chunks: int) -> "ChunkRefs":
        """Return references to `chunks` missing chunks."""
        nothing = np.empty(0, np.int64)
        return cls((), np.zeros(chunks + 1, np.int64), np.empty(0, np.int32), nothing, nothing)

    @property
    def chunks(self) -> int:
        """Number of chunks, missing ones included."""
        return len(self.indptr) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of ranges of each chunk."""
        return np.diff(self.indptr)

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
