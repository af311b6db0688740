"""The tree of arrays that were scanned, and the documents of all its nodes in both directions.

`VirtualGroup` is the `Hierarchy` of typed arrays: scanners yield it, and writers of
manifests take it.  `tree_json` returns its documents, `tree_of` the tree of documents.
Consolidated metadata have the inline form that zarr-python 3 writes and reads.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Literal

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.hierarchy import Hierarchy, HierarchyNode
from jnrrdz.core.refs import References
from jnrrdz.core.zarr_json import ZARR_JSON, Encoding, Separator, array_from_json, array_json, axis_names, json_value
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.redact import hidden, redacted

type Node = VirtualArray | VirtualGroup

MEMBERS_END = "}}}"
"""How the text of a group's document ends whose consolidated metadata have no members yet."""

_FORBIDDEN_NAME = re.compile(r"\.*|__.*|\.z.*|zarr\.json|.*[/\x00].*", re.DOTALL)
_RECORD_NAMES = {"version": "version_id", "modified": "last_modified"}


@dataclass(frozen=True, eq=False)
class VirtualGroup(Hierarchy):
    """A group of arrays that were scanned: its attributes and named children.

    The root alone has `sources` and `origin`.
    """

    children: Mapping[str, Node] = field(default_factory=dict)
    """Groups and arrays by name."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the group, as JSON has them."""
    sources: tuple[SourceRecord, ...] = ()
    """The sources of all chunks, as they were when they were scanned."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """What making it again needs: `options` of the scan, `concat_dim` of a stack."""

    def _listed(self) -> Iterator[HierarchyNode]:
        """Yield the nodes of this group, itself first, with their paths."""
        for path, node in [("", self), *self.walk()]:
            if isinstance(node, VirtualArray):
                yield HierarchyNode.of_array(path, node)
            else:
                yield HierarchyNode(path, is_array=False, attributes=node.attributes)

    def at(self, path: str) -> "Node | None":
        """Return the node at a path, None where there is none; itself for an empty one."""
        node: Node | None = self
        for name in path.split("/") if path else ():
            node = node.children.get(name) if isinstance(node, VirtualGroup) else None
        return node

    def walk(self, prefix: str = "") -> list[tuple[str, Node]]:
        """Return every node below this group with its path, parents before children."""
        nodes: list[tuple[str, Node]] = []
        for name, child in self.children.items():
            nodes.append((f"{prefix}{name}", child))
            if isinstance(child, VirtualGroup):
                nodes += child.walk(f"{prefix}{name}/")
        return nodes

    def arrays(self) -> list[tuple[str, VirtualArray]]:
        """Return every array below this group with its path."""
        return [(path, node) for path, node in self.walk() if isinstance(node, VirtualArray)]

    @cached_property
    def referenced_urls(self) -> tuple[str, ...]:
        """What references name, each once: sources, or the trees that they are files of."""
        return tuple(dict.fromkeys(url for _, array in self.arrays() for url in array.refs.named))

    def with_arrays(self, change: Callable[[str, VirtualArray], VirtualArray], prefix: str = "") -> "VirtualGroup":
        """Return the same tree with what `change` makes of every array and its path."""
        children: dict[str, Node] = {
            name: child.with_arrays(change, f"{prefix}{name}/")
            if isinstance(child, VirtualGroup)
            else change(f"{prefix}{name}", child)
            for name, child in self.children.items()
        }
        return VirtualGroup(children, self.attributes, self.sources, self.origin)

    def with_refs(self, change: Callable[[References], References]) -> "VirtualGroup":
        """Return the same tree with other references of the same chunks."""

        def changed(_: str, array: VirtualArray) -> VirtualArray:
            refs = change(array.refs)
            return array if refs is array.refs else replace(array, refs=refs)

        return self.with_arrays(changed)

    def __repr__(self) -> str:
        lines = [f"  {path}: {array!r}"[:WIDEST] for path, array in self.arrays()[:SHOWN]]
        return "\n".join([f"VirtualGroup of {self._summary()}", *lines])

    def _repr_html_(self) -> str:
        arrays = self.arrays()[:SHOWN]
        rows = [(path, array.dtype, array.shape, array.chunks, array.refs.chunks) for path, array in arrays]
        table = html_table(f"VirtualGroup of {self._summary()}", ("array", "type", "shape", "chunk", "chunks"), rows)
        # by its name: what draws reads chunks, and stands above what describes them
        png = import_module("jnrrdz.commands.preview").inline(self)
        return table if png is None else f'<img alt="" src="data:image/png;base64,{b64encode(png).decode()}">{table}'

    def _summary(self) -> str:
        arrays = len(self.arrays())
        first = f": {hidden(self.sources[0].url)}" if self.sources else ""
        shown = f", {SHOWN} of them shown" if arrays > SHOWN else ""
        return f"{arrays} arrays in {len(self.sources)} sources{first}{shown}"[:WIDEST]


SHOWN = 10
"""Rows of what a notebook shows."""

WIDEST = 160


def html_table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of plain HTML, everything in it escaped."""
    from html import escape  # noqa: PLC0415  notebooks alone show tables

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(redacted(str(cell)))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


type Consolidated = Literal["root", "each", "nowhere"]
"""Which groups' documents hold those of all that is below them."""


def tree_json(
    root: VirtualGroup,
    *,
    separator: Separator = "/",
    encoding: Encoding = "default",
    consolidated: Consolidated = "root",
) -> dict[str, dict[str, Any]]:
    """Return every document of a tree by its key, the root's first, parents before children.

    The root's document holds those of all that is below it, so that opening the tree needs no listing.  With
    `each`, every group's does, so that none does whose group is opened as a store of its own.
    """
    documents = nodes_json(root, separator=separator, encoding=encoding)
    if consolidated != "nowhere":
        documents = with_members(documents, root_only=consolidated == "root")
    return {f"{path}/{ZARR_JSON}".lstrip("/"): document for path, document in documents.items()}


def with_members(nodes: Mapping[str, dict[str, Any]], *, root_only: bool = False) -> dict[str, dict[str, Any]]:
    """Return documents by path in which each group, or the root alone, consolidates those of all nodes below it."""
    documents = dict(nodes)
    for path, inner in paths_by_ancestor(nodes).items():
        if nodes[path].get("node_type") == "group" and not (root_only and path):
            documents[path] = consolidating(nodes[path], {name: nodes[at] for name, at in inner})
    return documents


def consolidating(document: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's document with those of all that is below it, groups as zarr has them: without members."""
    own = {
        name: {**member, "consolidated_metadata": {**_INLINE, "metadata": {}}}
        if member.get("node_type") == "group"
        else member
        for name, member in members.items()
    }
    return {**document, "consolidated_metadata": {**_INLINE, "metadata": own}}


_INLINE: dict[str, Any] = {"kind": "inline", "must_understand": False}


def nodes_json(
    root: VirtualGroup, *, separator: Separator = "/", encoding: Encoding = "default"
) -> dict[str, dict[str, Any]]:
    """Return the document of every node by its path, the root's first, parents before children."""
    below_root = root.walk()
    nodes: dict[str, dict[str, Any]] = {}
    for path, node in (("", root), *below_root):
        if isinstance(node, VirtualArray):
            nodes[path] = array_json(node, separator=separator, encoding=encoding)
            continue
        # names that Zarr reserves, and those that would leave the manifest's own directory
        for name in node.children:
            if _FORBIDDEN_NAME.fullmatch(name):
                raise UnrepresentableError(f"{name!r} is no name for a Zarr node", field="children")
        attributes = node.attributes if path else {**root.attributes, "jnrrdz": _provenance(root)}
        nodes[path] = {"attributes": json_value(attributes), "zarr_format": 3, "node_type": "group"}
    return nodes


def paths_by_ancestor(paths: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return for each path those below it: as seen from there, and whole.

    What a group consolidates holds no members of its own, as in zarr.
    """
    inside: dict[str, list[tuple[str, str]]] = {path: [] for path in paths}
    for path in inside:
        parent = path
        while parent:
            parent = parent.rpartition("/")[0]
            if parent in inside:  # others' manifests have groups without documents
                inside[parent].append((path[len(parent) :].lstrip("/"), path))
    return inside


def tree_of(documents: Mapping[str, Mapping[str, Any]], arrays: Mapping[str, References]) -> VirtualGroup:
    """Return the tree of checked documents by path, with the references of its arrays.

    The inverse of `nodes_json`, without the root's attribute `jnrrdz`.  Arrays without
    references are left out; what a virtual array cannot be is refused by its field.
    """
    if "" in arrays:
        raise UnsupportedError("an array at the root, where a group is read", field=ZARR_JSON)
    members: dict[str, dict[str, Node | None]] = {"": {}}
    for path in sorted(filter(None, documents), key=lambda path: path.count("/")):
        if path in arrays:
            _put(members, path, _typed(path, documents[path], arrays[path]))
        elif documents[path].get("node_type") == "group":
            _put(members, path, None)
    return _group_of("", members, documents)


def _put(members: dict[str, dict[str, Node | None]], path: str, array: VirtualArray | None) -> None:
    """Put an array, or a group where there is none, among the members of its group."""
    parent, _, name = path.rpartition("/")
    if parent not in members:
        _put(members, parent, None)
    outer, _, last = parent.rpartition("/")
    if parent and members[outer][last] is not None:
        raise MalformedError(f"a node below the array {last!r}", field=path)
    members[parent].setdefault(name, array)
    if array is None:
        members.setdefault(path, {})


def _typed(path: str, document: Mapping[str, Any], refs: References) -> VirtualArray:
    try:
        array = array_from_json(document, refs)
    except JnrrdzError as error:
        raise error.at(field=path) from error.__cause__
    if None in axis_names(document):
        raise UnsupportedError("an array whose dimensions have no names", field=f"{path}, dimension_names")
    return array


def _group_of(
    path: str,
    members: Mapping[str, Mapping[str, Node | None]],
    documents: Mapping[str, Mapping[str, Any]],
) -> VirtualGroup:
    attributes = documents.get(path, {}).get("attributes") or {}
    if not isinstance(attributes, dict):
        message = f"attributes that are no object but {type(attributes).__name__}"
        raise MalformedError(message, field=path or ZARR_JSON)
    if not path:
        attributes = {name: value for name, value in attributes.items() if name != "jnrrdz"}
    children: dict[str, Node] = {}
    for name, array in members[path].items():
        inner = f"{path}/{name}".lstrip("/")
        children[name] = _group_of(inner, members, documents) if array is None else array
    return VirtualGroup(children, attributes)


def needed_sources(root: VirtualGroup) -> tuple[SourceRecord, ...]:
    """Return the sources that references need, those that were recorded first."""
    recorded = {record.url for record in root.sources}
    trees = tuple(url for url in recorded if url.endswith("/"))
    others = [
        SourceRecord(url)
        for url in root.referenced_urls
        if url not in recorded and not (trees and url.startswith(trees))
    ]
    return (*root.sources, *others)


def _provenance(root: VirtualGroup) -> dict[str, Any]:
    """Return what the root's attribute says: which sources the references need, as they were scanned."""
    records = [
        {_RECORD_NAMES.get(name, name): value for name, value in vars(record).items() if value is not None}
        for record in needed_sources(root)
    ]
    return {"version": _version(), "sources": records, **root.origin}


@cache
def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415  who writes nothing needs none

    return version("jnrrdz")  # reads a file each time: a sixth of what a small manifest costs
