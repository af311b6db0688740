"""What stands where in an N5 container: its keys, sorted into metadata and blocks, and the metadata themselves.

A dataset's blocks are `DATASET/x/y/z`, its metadata `DATASET/attributes.json`
(https://github.com/saalfeldlab/n5#file-system-specification).  Keys come in pages; of a million blocks only their
numbers stay.

Over HTTP, which has no listing, metadata are looked for where conventions put them, from the folder that is named
on downwards: levels that `multiscales`, `downsamplingFactors` or `scales` list, those called `s0`, `s1`, ... until
one is missing, Paintera's `data`, and BigDataViewer's `setup0`, ... with `timepoint0`, ... until one is missing.
Whatever has another name is not found.
"""

import re
import warnings
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.n5.attributes import LEVEL_LISTS, cosem_levels, is_dataset, parse_attributes
from jnrrdz.sources.base import Mark, Validators, seen_in_listing, version_number
from jnrrdz.sources.tree import Tree, UnlistedTree

ATTRIBUTES = "attributes.json"
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_BLOCK = re.compile(rf"(?:(.*?)/)??({_NUMBER}(?:/{_NUMBER})*)", re.DOTALL)
"""A folder, and the indices that end a key; a folder whose name is a number is found among them."""

type Indices = NDArray[np.int32]
type Sizes = NDArray[np.int64]


class Found(NamedTuple):
    """Blocks that a listing shows."""

    places: Indices
    """The indices of each block, x first."""

    sizes: Sizes
    versions: Sizes
    """What tells each object's state, as `version_number` has it."""


@dataclass
class TreeKeys:
    """The keys of a container, as far as its listing has come."""

    documents: dict[str, Validators] = field(default_factory=dict)
    """The folder of each attributes.json, and the file's state."""

    others: set[str] = field(default_factory=set)
    """The names of files at the root that are neither."""

    _pages: dict[tuple[str, int], list[Found]] = field(default_factory=lambda: defaultdict(list))
    _in_order: set[tuple[str, int]] = field(default_factory=set)
    """The pages that are one, by their indices."""

    @property
    def holds_blocks(self) -> bool:
        """Whether any key is a block's."""
        return bool(self._pages)

    def add(self, keys: Sequence[str], sizes: Sequence[int], marks: Sequence[Mark]) -> None:
        """Take a page of keys, with the size of each object and what tells its state."""
        blocks: dict[tuple[str, int], tuple[list[str], list[int], list[int]]] = defaultdict(lambda: ([], [], []))
        for key, size, mark in zip(keys, sizes, marks, strict=True):
            block = _BLOCK.fullmatch(key)
            if block is not None:
                texts, lengths, versions = blocks[block[1] or "", block[2].count("/") + 1]
                texts.append(block[2])
                lengths.append(size)
                versions.append(version_number(mark))
            elif key == ATTRIBUTES or key.endswith(f"/{ATTRIBUTES}"):
                self.documents[key[: -len(ATTRIBUTES) - 1]] = seen_in_listing(size, mark)
            elif "/" not in key:
                self.others.add(key)
        for (folder, depth), (texts, lengths, versions) in blocks.items():
            index = np.fromstring("/".join(texts), np.int32, sep="/").reshape(-1, depth)
            found = Found(index, np.array(lengths, np.int64), np.array(versions, np.int64))
            self._pages[folder, depth].append(found)

    def blocks(self, dataset: str, axes: int) -> "Found":
        """Return the blocks of a dataset, in no order."""
        own = _BLOCK.fullmatch(dataset)  # a folder whose name is a number is taken apart as keys are
        folder = dataset if own is None else own[1] or ""
        numbers = [] if own is None else [int(number) for number in own[2].split("/")]
        found = self._joined(folder, len(numbers) + axes, in_order=bool(numbers))
        first, stop = 0, len(found.places)
        for column, number in enumerate(numbers):
            part = found.places[:, column]  # numpy's search would copy a column whose numbers are apart
            first, stop = bisect_left(part, number, first, stop), bisect_right(part, number, first, stop)
        return Found(found.places[first:stop, len(numbers) :], found.sizes[first:stop], found.versions[first:stop])

    def _joined(self, folder: str, depth: int, *, in_order: bool) -> "Found":
        """Return all blocks of a folder whose indices are so many; in order where datasets share them."""
        pages = self._pages.get((folder, depth), [])
        if len(pages) == 1 and (not in_order or (folder, depth) in self._in_order):
            return pages[0]
        found = Found(
            np.concatenate([np.empty((0, depth), np.int32), *(page.places for page in pages)]),
            np.concatenate([np.empty(0, np.int64), *(page.sizes for page in pages)]),
            np.concatenate([np.empty(0, np.int64), *(page.versions for page in pages)]),
        )
        if in_order:
            order = np.lexsort(found.places.T[::-1])
            found = Found(found.places[order], found.sizes[order], found.versions[order])
            self._in_order.add((folder, depth))
        self._pages[folder, depth] = [found]
        return found


LARGEST_DOCUMENT = 1 << 26
MOST_DOCUMENTS = 1 << 20
_MOST_FOLDERS = 1 << 16
"""Folders that are looked for."""

_DEEPEST = 6

_SERIES = ("s", "setup", "timepoint")
_NAME = re.compile(r"(?!\.+(?:/|$))[^/\\?#%:]+(?:/(?!\.+(?:/|$))[^/\\?#%:]+)*")

type Nodes = dict[str, dict[str, Any]]
"""The attributes of every folder that has some, by its path."""


def read_nodes(tree: Tree, keys: TreeKeys) -> Nodes:
    """Return the attributes of a container that is listed, sorted by path."""
    if not keys.documents:
        names = sorted(keys.others)
        seen = f"holds {', '.join(names[:3])}{', ...' if names[3:] else ''} and no" if names else "is empty: it has no"
        advice = f"; jnrrdz batch {tree.url} makes a manifest of each image in it" if names else ""
        raise UnsupportedError(f"the folder {seen} attributes.json, so it is no N5 container{advice}", url=tree.url)
    folders = sorted(keys.documents)
    for folder in folders:
        if keys.documents[folder].size > LARGEST_DOCUMENT or len(folders) > MOST_DOCUMENTS:
            raise UnsupportedError("metadata too large to read", url=tree.url + document_key(folder))
    longest = max(*(state.size for state in keys.documents.values()), 1)
    documents = zip(folders, tree.read([document_key(folder) for folder in folders], longest), strict=True)
    return {folder: _attributes(tree, folder, data) for folder, data in documents}


def document_key(folder: str) -> str:
    """Return the key of a folder's attributes.json."""
    return f"{folder}/{ATTRIBUTES}" if folder else ATTRIBUTES


def _attributes(tree: Tree, folder: str, data: bytes) -> dict[str, Any]:
    try:
        return parse_attributes(data)
    except JnrrdzError as error:
        raise error.at(url=tree.url + document_key(folder)) from error.__cause__


def find_nodes(tree: UnlistedTree) -> Nodes:
    """Return the attributes of a container that cannot be listed, sorted by path; a dataset is among them."""
    nodes: Nodes = {}
    waiting = _look_for(tree, [""], nodes) or [""]
    while waiting:
        path = waiting.pop()
        if len(nodes) > _MOST_FOLDERS or path.count("/") > _DEEPEST:
            text = f"more than {_MOST_FOLDERS} folders, or folders in folders without end"
            raise UnsupportedError(text, url=tree.url + path)
        if not is_dataset(nodes.get(path, {})):
            waiting += [below for below in _below(tree, path, nodes) if below not in {"", path}]
    datasets = sorted(path for path, attributes in nodes.items() if is_dataset(attributes))
    if not datasets:
        raise UnsupportedError(
            "no dataset found, and HTTP has no listing to find others; name the dataset itself, the folder of its "
            "attributes.json, or index the container where it can be listed",
            url=tree.url,
        )
    if "" not in datasets:
        few = 8
        shown = datasets[:few] + ([f"and {len(datasets) - few} more"] if len(datasets) > few else [])
        warnings.warn(f"HTTP has no listing; found by their usual names: {', '.join(shown)}", stacklevel=2)
    return dict(sorted(nodes.items()))


def _below(tree: UnlistedTree, path: str, nodes: Nodes) -> list[str]:
    """Look for the folders below one, and return those that are there."""
    prefix, attributes = f"{path}/" if path else "", nodes.get(path, {})
    names = [str(entry.get("path")) for entry in cosem_levels(attributes)]
    for levels in map(attributes.get, LEVEL_LISTS):
        if isinstance(levels, list) and all(isinstance(level, list) for level in levels):
            names += [f"s{number}" for number in range(min(len(levels), _MOST_FOLDERS))]
    folders = _look_for(tree, [prefix + name for name in dict.fromkeys(names) if _NAME.fullmatch(name)], nodes)
    if "painteraData" in attributes:
        # the folder need not have metadata of its own
        folders += _look_for(tree, [f"{prefix}data"], nodes) or [f"{prefix}data"]
    for series in _SERIES:
        for number in range(_MOST_FOLDERS):
            known = _look_for(tree, [f"{prefix}{series}{number}"], nodes)
            if not known:
                break
            folders += known
    return list(dict.fromkeys(folders))


def _look_for(tree: UnlistedTree, paths: list[str], nodes: Nodes) -> list[str]:
    """Read the attributes of folders that are not known yet, and return the paths of those that have some."""
    new = [path for path in paths if path not in nodes]
    documents = tree.find(list(map(document_key, new)), LARGEST_DOCUMENT) if new else ()
    for path, data in zip(new, documents, strict=True):
        if data is not None:
            nodes[path] = _attributes(tree, path, data)
    return [path for path in paths if path in nodes]
