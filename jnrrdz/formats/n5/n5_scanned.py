"""N5: a container, or one dataset of it, to a virtual group with the tree kept.

May touch errors, trees, the layout and the model.  Follows https://github.com/saalfeldlab/n5; what becomes of
what is told in docs/formats/n5.md.  The listing tells blocks and sizes; of blocks themselves at most
headers are read.  Where there is no listing (HTTP), metadata are looked for and every block is taken to be there.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jnrrdz.core.array import Node, SourceRecord, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.n5 import n5_header as n5
from jnrrdz.formats.n5.arrays import Container, Found, Frame
from jnrrdz.formats.n5.axes import is_overview
from jnrrdz.formats.n5.groups import assembled
from jnrrdz.formats.n5.n5_keys import TreeKeys
from jnrrdz.formats.n5.probe import LARGEST_DOCUMENT, probed
from jnrrdz.formats.n5.stack import stacked
from jnrrdz.options import ScanOptions
from jnrrdz.sources.tree import Tree
from jnrrdz.sources.unlisted import UnlistedTree

MOST_DOCUMENTS = 1 << 20

type Nodes = dict[str, dict[str, Any]]


def scan_n5(tree: Tree, options: ScanOptions) -> VirtualGroup:
    """Return the virtual group of the container or dataset at a tree's root."""
    root = _root(tree, options, Frame())
    if not isinstance(root, VirtualGroup):
        raise TypeError(root)
    if options.stack_timepoints:
        root = stacked(root, tree.url)
    return VirtualGroup(root.children, root.attributes, (SourceRecord(tree.url),))


def describe_in_place(tree: Tree, options: ScanOptions) -> Node:
    """Return the tree as Zarr would have it in the very same place: axes and keys as N5 has them, no references."""
    if isinstance(tree, UnlistedTree):
        raise UnsupportedError(
            "HTTP is read-only; write a manifest, or index in place where it is stored", url=tree.url
        )
    if options.stack_timepoints:
        raise UnsupportedError("timepoints cannot be stacked in place; write a manifest", field="stack_timepoints")
    return _root(tree, options, Frame(in_place=True))


def _root(tree: Tree, options: ScanOptions, frame: Frame) -> Node:
    keys, nodes = (None, probed(tree)) if isinstance(tree, UnlistedTree) else _listed(tree)
    n5.check_version(nodes.get("", {}))
    paths = [path for path, attributes in nodes.items() if n5.is_dataset(attributes)]
    if not options.overviews:
        paths = [path for path in paths if not is_overview(path)]
    container = Container(tree, keys, nodes)
    found = _datasets(tree, paths, lambda path: container.volume(path, options, frame))
    return assembled(found, nodes, tree.url, frame)


def _listed(tree: Tree) -> tuple[TreeKeys, Nodes]:
    keys = TreeKeys()
    for page in tree.pages():
        keys.add(*page)
    return keys, attributes_of(tree, keys)


def attributes_of(tree: Tree, keys: TreeKeys) -> Nodes:
    """Return the attributes of every folder that has some, sorted by path."""
    if not keys.documents:
        seen = f" but {', '.join(sorted(keys.others)[:3])}" if keys.others else ""
        raise UnsupportedError(f"a directory without attributes.json{seen}; N5 is read", url=tree.url, field="format")
    folders = sorted(keys.documents)
    for folder in folders:
        if keys.documents[folder] > LARGEST_DOCUMENT or len(folders) > MOST_DOCUMENTS:
            raise UnsupportedError("metadata too large to read", url=_document(tree, folder))
    nodes: Nodes = {}
    longest = max(*keys.documents.values(), 1)
    for folder, data in zip(folders, tree.read([_key(folder) for folder in folders], longest), strict=True):
        try:
            nodes[folder] = n5.parse(data)
        except JnrrdzError as error:
            raise error.at(url=_document(tree, folder)) from error.__cause__
    return nodes


def _key(folder: str) -> str:
    return f"{folder}/attributes.json" if folder else "attributes.json"


def _document(tree: Tree, folder: str) -> str:
    return tree.url + _key(folder)


def _datasets(tree: Tree, paths: Sequence[str], read: Callable[[str], Found]) -> list[Found]:
    """Return the datasets; in a container those that cannot be read are left out, each with a warning."""
    if not paths:
        raise MalformedError("an N5 container without a dataset", url=tree.url, field="dimensions")
    found = []
    for path in paths:
        try:
            found.append(read(path))
        except UnsupportedError as error:
            error.at(url=_document(tree, path))
            if len(paths) == 1:
                raise
            warnings.warn(f"left out: {error}", stacklevel=2)
        except JnrrdzError as error:
            raise error.at(url=_document(tree, path)) from error.__cause__
    if not found:
        raise UnsupportedError("no dataset of a kind that is read", url=tree.url, field="dataType")
    return found
