"""The keys of an N5 container, sorted into metadata and blocks as columns.

May touch numpy only; opens nothing.  Follows https://github.com/saalfeldlab/n5#file-system-specification:
a dataset's blocks are `DATASET/x/y/z`, its metadata `DATASET/attributes.json`.  Keys come in pages; of a
million blocks only their numbers stay.

The metadata of a container that cannot be listed, looked for where conventions put them.

May touch errors, trees and the layout.  From the folder that is named on downwards: levels that `multiscales`,
`downsamplingFactors` or `scales` list, those called `s0`, `s1`, ... until one is missing, Paintera's `data`, and
BigDataViewer's `setup0`, ... with `timepoint0`, ... until one is missing.  Whatever has another name is not found.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.n5 import attributes as n5
from jnrrdz.formats.n5.axes import cosem_levels
from jnrrdz.sources.tree import UnlistedTree

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


LARGEST_DOCUMENT = 1 << 26
_MOST = 1 << 16
"""Folders that are looked for."""

_DEEPEST = 6

_SERIES = ("s", "setup", "timepoint")
_NAME = re.compile(r"(?!\.+(?:/|$))[^/\\?#%:]+(?:/(?!\.+(?:/|$))[^/\\?#%:]+)*")

type Nodes = dict[str, dict[str, Any]]


def probed(tree: UnlistedTree) -> Nodes:
    """Return the attributes of every folder that was found, sorted by path; a dataset is among them."""
    nodes: Nodes = {}
    waiting = _asked(tree, [""], nodes) or [""]
    while waiting:
        path = waiting.pop()
        if len(nodes) > _MOST or path.count("/") > _DEEPEST:
            raise UnsupportedError(f"more than {_MOST} folders, or folders in folders without end", url=tree.url + path)
        if not n5.is_dataset(nodes.get(path, {})):
            waiting += [below for below in _below(tree, path, nodes) if below not in {"", path}]
    if not any(map(n5.is_dataset, nodes.values())):
        raise UnsupportedError(
            "no dataset found, and HTTP has no listing to find others; name the dataset itself, the folder of its "
            "attributes.json, or index the container where it can be listed",
            url=tree.url,
        )
    if not n5.is_dataset(nodes.get("", {})):
        text = f"HTTP has no listing; found by their usual names: {', '.join(_shown(nodes))}"
        warnings.warn(text, stacklevel=2)
    return dict(sorted(nodes.items()))


def _shown(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    paths = sorted(path for path, attributes in nodes.items() if n5.is_dataset(attributes))
    most = 8
    return paths[:most] + ([f"and {len(paths) - most} more"] if len(paths) > most else [])


def _below(tree: UnlistedTree, path: str, nodes: Nodes) -> list[str]:
    """Look for the folders below one, and return those that are there."""
    prefix, attributes = f"{path}/" if path else "", nodes.get(path, {})
    listed = [name for name in _listed(attributes) if _NAME.fullmatch(name)]
    found = _asked(tree, [prefix + name for name in listed], nodes)
    if "painteraData" in attributes:
        # the folder need not have metadata of its own
        found += _asked(tree, [f"{prefix}data"], nodes) or [f"{prefix}data"]
    for series in _SERIES:
        known = prefix + series
        found += _until_missing((f"{known}{number}" for number in count()), lambda key: _asked(tree, [key], nodes))
    return list(dict.fromkeys(found))


def _listed(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of levels that a folder lists."""
    names = [str(entry.get("path")) for entry in cosem_levels(attributes)]
    for name in ("downsamplingFactors", "scales"):
        levels = attributes.get(name)
        if isinstance(levels, list) and levels and all(isinstance(level, list) for level in levels):
            names += [f"s{number}" for number in range(min(len(levels), _MOST))]
    return list(dict.fromkeys(names))


def _until_missing(keys: Iterable[str], ask: Callable[[str], list[str]]) -> Iterator[str]:
    for key in islice(keys, _MOST):
        if not ask(key):
            return
        yield key


def _asked(tree: UnlistedTree, paths: list[str], nodes: Nodes) -> list[str]:
    """Read the attributes of folders that are not known yet, and return the paths of those that have some."""
    new = [path for path in paths if path not in nodes]
    keys = [f"{path}/attributes.json" if path else "attributes.json" for path in new]
    for path, key, data in zip(new, keys, tree.find(keys, LARGEST_DOCUMENT) if keys else (), strict=True):
        if data is None:
            continue
        try:
            nodes[path] = n5.parse(data)
        except JnrrdzError as error:
            raise error.at(url=tree.url + key) from error.__cause__
    return [path for path in paths if path in nodes]
