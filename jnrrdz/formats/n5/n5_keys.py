"""The keys of an N5 container, sorted into metadata and blocks as columns.

May touch numpy only; opens nothing.  Follows https://github.com/saalfeldlab/n5#file-system-specification:
a dataset's blocks are `DATASET/x/y/z`, its metadata `DATASET/attributes.json`.  Keys come in pages; of a
million blocks only their numbers stay.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

ATTRIBUTES = "attributes.json"
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_BLOCK = re.compile(rf"(?:(.*?)/)??({_NUMBER}(?:/{_NUMBER})*)", re.DOTALL)
"""A folder, and the indices that end a key; a folder whose name is a number is found among them."""

type Indices = NDArray[np.int32]
type Sizes = NDArray[np.int64]


@dataclass
class TreeKeys:
    """What a listing told so far."""

    documents: dict[str, int] = field(default_factory=dict)
    """The folder of each attributes.json, and the file's size."""

    others: set[str] = field(default_factory=set)
    """The names of files at the root that are neither."""

    _pages: dict[tuple[str, int], list[tuple[Indices, Sizes]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, keys: Sequence[str], sizes: Sequence[int]) -> None:
        """Take a page of keys, with the size of each object."""
        found: dict[tuple[str, int], tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
        for key, size in zip(keys, sizes, strict=True):
            block = _BLOCK.fullmatch(key)
            if block is not None:
                texts, lengths = found[block[1] or "", block[2].count("/") + 1]
                texts.append(block[2])
                lengths.append(size)
            elif key == ATTRIBUTES or key.endswith(f"/{ATTRIBUTES}"):
                self.documents[key[: -len(ATTRIBUTES) - 1]] = size
            elif "/" not in key:
                self.others.add(key)
        for (folder, depth), (texts, lengths) in found.items():
            index = np.fromstring("/".join(texts), np.int32, sep="/").reshape(-1, depth)
            self._pages[folder, depth].append((index, np.array(lengths, np.int64)))

    def blocks(self, dataset: str, axes: int) -> tuple[Indices, Sizes]:
        """Return the indices, x first, and the sizes of the blocks of a dataset; in no order."""
        folder, numbers = _split(dataset)
        pages = self._pages.get((folder, len(numbers) + axes), [])
        index = np.concatenate([np.empty((0, len(numbers) + axes), np.int32), *(page for page, _ in pages)])
        sizes = np.concatenate([np.empty(0, np.int64), *(page for _, page in pages)])
        if not numbers:
            return index, sizes
        own = (index[:, : len(numbers)] == np.array(numbers, np.int32)).all(axis=1)
        return index[own, len(numbers) :], sizes[own]


def _split(dataset: str) -> tuple[str, list[int]]:
    """Return a dataset's path as `_BLOCK` takes it apart: the folder, and the numbers that end it."""
    found = _BLOCK.fullmatch(dataset)
    return (dataset, []) if found is None else (found[1] or "", [int(number) for number in found[2].split("/")])
