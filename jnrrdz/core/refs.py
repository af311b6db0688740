"""References to chunk bytes, columnar: no Python object per chunk.

May touch numpy and errors only.  The form is that of a CSR matrix: chunk `i` (in C order of the
chunk grid) is the concatenation of the ranges `indptr[i]:indptr[i + 1]`.  A missing chunk is an
empty row, a scattered chunk a longer one, and inline bytes stand in a mapping of their own.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jnrrdz.errors import MalformedError

type ByteRange = tuple[str, int, int]
"""A source's URL, the first byte, the number of bytes."""

WHOLE = int(np.iinfo(np.int64).max)
"""The length of a range that ends where its source does (kerchunk's `["url"]`)."""

SCATTERED = "jnrrdz-scattered://"
"""Stands before the URL of a chunk of several ranges where a manifest's row has room for one: no
file system opens it, so a reader that does not know the ranges fails instead of reading wrong bytes."""


class TreeFiles(Sequence[str]):
    """URLs of files of one tree, which a table of sources names in their place."""

    tree: str
    """With a slash at its end."""

    @abstractmethod
    def taken(self, numbers: NDArray[Any]) -> list[str]:
        """Return the URLs of some files."""

    @abstractmethod
    def moved(self, tree: str) -> "TreeFiles":
        """Return the same files of a tree that is elsewhere."""


@dataclass(frozen=True, eq=False)
class NamedFiles(TreeFiles):
    """URLs of files that are named one by one."""

    tree: str
    urls: Sequence[str]

    def __len__(self) -> int:
        return len(self.urls)

    def __getitem__(self, number: Any) -> Any:
        """Return one URL, or those of a slice."""
        return self.urls[number]

    def taken(self, numbers: NDArray[Any]) -> list[str]:
        """Return the URLs of some files."""
        return [self.urls[number] for number in numbers.tolist()]

    def moved(self, tree: str) -> "NamedFiles":
        """Return the same files of a tree that is elsewhere."""
        return NamedFiles(tree, tuple(tree + url.removeprefix(self.tree) for url in self.urls))


_TOGETHER = 1 << 12


@dataclass(frozen=True, eq=False)
class GridFiles(TreeFiles):
    """URLs of files that are named by their place in a grid (`FOLDER/0/3/1`), spelt when they are asked for.

    A million of them take some megabytes; as texts they would take hundreds.
    """

    tree: str
    """The tree that the files are part of, with a slash at its end: what a table of sources names."""

    folders: tuple[str, ...]
    """What stands before files' indices, with a slash at its end."""

    rows: NDArray[np.int32]
    """For each file the number of its folder, then its indices."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: Any) -> Any:
        """Return one URL, or those of a slice."""
        if isinstance(number, slice):
            return tuple(self.taken(np.arange(len(self))[number]))
        return self.taken(np.array([number]))[0]

    def __iter__(self) -> Iterator[str]:
        """Yield all URLs, spelt some at a time."""
        for first in range(0, len(self), _TOGETHER):
            yield from self.taken(np.arange(first, min(first + _TOGETHER, len(self))))

    def taken(self, numbers: NDArray[Any]) -> list[str]:
        """Return the URLs of some files."""
        return [self.folders[row[0]] + "/".join(map(str, row[1:])) for row in self.rows[numbers].tolist()]

    def moved(self, tree: str) -> "GridFiles":
        """Return the same files of a tree that is elsewhere."""
        folders = tuple(tree + folder.removeprefix(self.tree) for folder in self.folders)
        return GridFiles(tree, folders, self.rows)

    @classmethod
    def joined(cls, parts: "Sequence[GridFiles]") -> "GridFiles":
        """Return the files of parts of one tree, one after another."""
        first = np.cumsum([0, *(len(part.folders) for part in parts)])
        rows = np.concatenate([part.rows for part in parts])
        rows[:, 0] += np.repeat(first[:-1], [len(part) for part in parts]).astype(np.int32)
        return cls(parts[0].tree, tuple(folder for part in parts for folder in part.folders), rows)


FEW = 64
"""Sources that are spelt all together, however few of them are used; columns that are no shorter by broadcasting."""


@dataclass(frozen=True, eq=False)
class ChunkRefs:
    """Where the bytes of every chunk of one array are."""

    sources: Sequence[str]
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
        # a broadcast number is everywhere the same
        if self.indptr.strides[0] and (self.indptr[1:] < self.indptr[:-1]).any():
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
        if missing is not None and (absent := np.ravel(np.asarray(missing, bool))).any():
            present = ~absent
            offset, length = offset[present], length[present]
            indptr = np.concatenate(([0], np.cumsum(present))).astype(np.int64)
        # a broadcast number takes no memory, but longer to make than a few
        source = np.zeros(len(offset), np.int32) if len(offset) <= FEW else np.broadcast_to(np.int32(0), len(offset))
        return cls((url,), indptr, source, offset, length)

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
