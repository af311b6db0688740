"""URLs of files of one tree: a container of N5 or Zarr, or the tiles of a JNRRD.

A table of sources names the tree in their place.  A million files that are named by their
place in a grid take some megabytes as numbers; as texts they would take hundreds.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.records import record
from jnrrdz.redact import record_repr


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


@record(eq=False)
class NamedFiles(TreeFiles):
    """URLs of files that are named one by one."""

    tree: str
    urls: Sequence[str]

    __repr__ = record_repr

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


@record(eq=False)
class GridFiles(TreeFiles):
    """URLs of files that are named by their place in a grid (`FOLDER/0/3/1`), made when they are needed."""

    tree: str
    """The tree that the files are part of, with a slash at its end: what a table of sources names."""

    folders: tuple[str, ...]
    """What stands before files' indices, with a slash at its end."""

    rows: NDArray[np.int32]
    """For each file the number of its folder, then its indices."""

    separator: str = "/"
    """What stands between the indices."""

    __repr__ = record_repr

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
        return [self.folders[row[0]] + self.separator.join(map(str, row[1:])) for row in self.rows[numbers].tolist()]

    def moved(self, tree: str) -> "GridFiles":
        """Return the same files of a tree that is elsewhere."""
        folders = tuple(tree + folder.removeprefix(self.tree) for folder in self.folders)
        return GridFiles(tree, folders, self.rows, self.separator)

    @classmethod
    def joined(cls, parts: "Sequence[GridFiles]") -> "GridFiles":
        """Return the files of parts of one tree, one after another."""
        first = np.cumsum([0, *(len(part.folders) for part in parts)])
        rows = np.concatenate([part.rows for part in parts])
        rows[:, 0] += np.repeat(first[:-1], [len(part) for part in parts]).astype(np.int32)
        return cls(parts[0].tree, tuple(folder for part in parts for folder in part.folders), rows, parts[0].separator)
