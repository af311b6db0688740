"""A manifest as the virtual group that it was written from.

May touch the model, sources, errors and read's own modules below the store.  The inverse of
`read.manifest.from_group` and of the writers: references become columns again, and every source's
URL an absolute one that the manifest may reach.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import Node, SourceRecord, VirtualArray, VirtualGroup
from jnrrdz.core.refs import FEW, WHOLE, ChunkRefs, GridFiles, joined
from jnrrdz.core.zarr_json import ZARR_JSON, array_from_json
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.columns import ArrayRefs, ColumnarRefs
from jnrrdz.manifests.json_refs import common_folder, indices, tree_files
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.manifests.parquet import ParquetRefs
from jnrrdz.manifests.trust import Trust
from jnrrdz.sources.fsspec import open_source

MOST_CHUNKS = 1 << 27
"""Of one array: a row pointer for each of them, there or not, takes 1 GB."""

MOST_RECORDS = 1 << 16
"""Files of references of one array in a Parquet manifest."""

ORIGIN = ("options", "concat_dim", "single_range")
"""Members of the root's attribute `jnrrdz` that say how a manifest came to be."""

type Options = Mapping[str, Any] | None


def group_from_manifest(
    manifest: Manifest, *, allow: Sequence[str] = (), source_options: Options = None
) -> VirtualGroup:
    """Return what a manifest describes, its sources as absolute URLs; one that it may not reach is an error.

    `allow` are further prefixes that it may reach.  `source_options` are fsspec's, and are needed
    only where a reference is a whole source whose size the manifest does not say.
    """
    try:
        return _Reader(manifest, allow, source_options).root()
    except JnrrdzError as error:
        raise error.at(url=manifest.url) from error.__cause__


class _Reader:
    """One manifest on its way to a group."""

    def __init__(self, manifest: Manifest, allow: Sequence[str], options: Options) -> None:
        self._manifest = manifest
        self._options = options
        self._records = {record.url: record for record in manifest.sources}
        # what was scanned was named by the user, as in read.pool
        self._trust = None if manifest.url is None else Trust(manifest.url, tuple(self._records), tuple(allow))
        self._places: dict[str, str] = {}

    def root(self) -> VirtualGroup:
        if "" in self._manifest.arrays:
            raise UnsupportedError("an array at the root, where a group is read", field=ZARR_JSON)
        tree: dict[str, Any] = {}
        for path, document in self._documents():
            self._put(tree, path, document)
        top = self._attributes(self._parsed(ZARR_JSON), ZARR_JSON)
        attributes = {name: value for name, value in top.items() if name != "jnrrdz"}
        children = {name: _frozen(child) for name, child in tree.items()}
        return VirtualGroup(children, attributes, self._table(), _origin(top.get("jnrrdz")))

    def _table(self) -> tuple[SourceRecord, ...]:
        """Return the sources as they were scanned, in the manifest's order, then those that it does not list."""
        trees = tuple(url for url in self._records if url.endswith("/"))
        listed = [replace(record, url=self._place(url)) for url, record in self._records.items()]
        inside = trees or ("\0",)
        others = [
            SourceRecord(place)
            for url, place in self._places.items()
            if url not in self._records and not url.startswith(inside)
        ]
        return tuple({record.url: record for record in (*listed, *others)}.values())

    def _documents(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the documents below the root by the path of their nodes, parents first."""
        keys = [key for key in self._manifest.documents if key.endswith(f"/{ZARR_JSON}")]
        for key in sorted(keys, key=lambda key: key.count("/")):
            yield key[: -len(ZARR_JSON) - 1], self._parsed(key)

    def _parsed(self, key: str) -> dict[str, Any]:
        try:
            found = json.loads(self._manifest.documents.get(key, b"{}"))
        except (ValueError, RecursionError) as error:
            raise MalformedError(f"not JSON: {error}", field=key) from error
        if not isinstance(found, dict):
            raise MalformedError(f"metadata that is no object but {type(found).__name__}", field=key)
        return found

    def _attributes(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        found = document.get("attributes") or {}
        if not isinstance(found, dict):
            raise MalformedError(f"attributes that are no object but {type(found).__name__}", field=key)
        return found

    def _put(self, tree: dict[str, Any], path: str, document: Mapping[str, Any]) -> None:
        """Hang a node into the tree of groups, each of which is a dict of children and a list of attributes."""
        *parents, name = path.split("/")
        place = tree
        for parent in parents:
            group = place.setdefault(parent, ({}, {}))
            if isinstance(group, VirtualArray):
                raise MalformedError(f"a node below the array {parent!r}", field=path)
            place = group[0]
        refs = self._manifest.arrays.get(path)
        if refs is not None:
            place[name] = self._array(path, document, refs)
        elif document.get("node_type") == "group":
            place[name] = ({}, self._attributes(document, path))

    def _array(self, path: str, document: Mapping[str, Any], refs: ArrayRefs) -> VirtualArray:
        try:
            facts = array_from_json(document)
        except JnrrdzError as error:
            raise error.at(field=path) from error.__cause__
        names = tuple(name for name in facts.dimension_names if name is not None)
        if len(names) < len(facts.shape):
            raise UnsupportedError("an array whose dimensions have no names", field=f"{path}, dimension_names")
        return VirtualArray(
            facts.shape,
            facts.dtype,
            facts.chunks,
            facts.codecs,
            self._placed(columnar(refs)),
            names,
            facts.fill_value,
            facts.attributes,
        )

    def _placed(self, refs: ChunkRefs) -> ChunkRefs:
        """Return the references with absolute URLs, and a length for every range."""
        used = np.zeros(len(refs.sources), bool)
        used[refs.source] = True
        urls = refs.sources if used.all() else [refs.sources[number] for number in np.flatnonzero(used).tolist()]
        places = self._tree_files(urls) or tuple(map(self._place, urls))
        length = refs.length
        endless = self._sizeless(refs)
        if len(endless):
            length = length.copy()
            sizes = np.array([self._size(refs.sources[number]) for number in refs.source[endless]], np.int64)
            length[endless] = sizes - refs.offset[endless]
        number = (np.cumsum(used) - 1).astype(np.int32)
        source = refs.source if used.all() else number[refs.source]
        return replace(refs, sources=places, source=source, length=length)

    def _tree_files(self, urls: Sequence[str]) -> GridFiles | None:
        """Return the many files of a recorded tree as columns, None where they are anything else."""
        trees = tuple(url for url in self._records if url.endswith("/"))
        if len(urls) <= FEW or not trees:
            return None
        folder = common_folder(urls)
        tree = next(filter(folder.startswith, trees), None)
        index = None if tree is None else indices(urls, folder)
        return None if tree is None or index is None else tree_files(self._place(tree), self._place(folder), index)

    def _sizeless(self, refs: ChunkRefs) -> NDArray[np.int64]:
        """Return the ranges whose lengths have to be asked for: not those of a tree's files, which may be absent."""
        endless = np.flatnonzero(refs.length == WHOLE)
        trees = tuple(url for url in self._records if url.endswith("/"))
        if not trees or not len(endless):
            return endless
        inside = np.array([url.startswith(trees) for url in refs.sources], bool)
        return endless[~inside[refs.source[endless]] | (refs.offset[endless] > 0)]

    def _place(self, url: str) -> str:
        if url not in self._places:
            place = url if self._trust is None else self._trust.resolve(url)
            self._places[url] = f"{place.rstrip('/')}/" if url.endswith("/") else place
        return self._places[url]

    def _size(self, url: str) -> int:
        record = self._records.get(url)
        if record is not None and record.size is not None:
            return record.size
        place = self._place(url)
        guard = None if self._trust is None else self._trust.guard_for(place)
        return open_source(place, storage_options=self._options, guard=guard).validators.size


def _origin(own: Any) -> dict[str, Any]:
    """Return what the root's attribute `jnrrdz` says of how the manifest came to be."""
    return {name: own[name] for name in ORIGIN if name in own} if isinstance(own, dict) else {}


def _frozen(node: Any) -> Node:
    if isinstance(node, VirtualArray):
        return node
    children, attributes = node
    return VirtualGroup({name: _frozen(child) for name, child in children.items()}, attributes)


def columnar(refs: ArrayRefs) -> ChunkRefs:
    """Return an array's references with a row for each chunk of its grid."""
    if refs.keys.chunks > MOST_CHUNKS:
        raise UnsupportedError(f"a grid of {refs.keys.grid}; no more than {MOST_CHUNKS} chunks are taken at once")
    if isinstance(refs, ColumnarRefs):
        return refs.refs if refs.rows is None else _spread(refs.refs, refs.rows, refs.keys.chunks)
    if isinstance(refs, ParquetRefs):
        return _records_in_turn(refs)
    raise TypeError(type(refs))


def _spread(refs: ChunkRefs, rows: NDArray[np.int64], chunks: int) -> ChunkRefs:
    """Return references whose rows are those of some chunks only with a row for every chunk."""
    counts = np.zeros(chunks, np.int64)
    counts[rows] = refs.counts
    inline = {int(rows[row]): data for row, data in refs.inline.items()}
    return replace(refs, indptr=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))), inline=inline)


def _records_in_turn(refs: ParquetRefs) -> ChunkRefs:
    """Return all records of a Parquet manifest, the last one cut where the grid ends."""
    size, chunks = refs._record_size, refs.keys.chunks  # noqa: SLF001 - the only way to columns, not chunks one by one
    if chunks > MOST_RECORDS * size:
        raise UnsupportedError(f"{-(-chunks // size)} records; no more than {MOST_RECORDS} are read at once")
    lengths = [min(size, chunks - first) for first in range(0, chunks, size)]
    parts = [_cut(columnar(refs._record(number)), length) for number, length in enumerate(lengths)]  # noqa: SLF001
    return joined(parts, [(length,) for length in lengths], 0) if parts else ChunkRefs.empty(0)


def _cut(refs: ChunkRefs, chunks: int) -> ChunkRefs:
    rows = int(refs.indptr[chunks])
    inline = {chunk: data for chunk, data in refs.inline.items() if chunk < chunks}
    columns = (refs.source[:rows], refs.offset[:rows], refs.length[:rows])
    return ChunkRefs(refs.sources, refs.indptr[: chunks + 1], *columns, inline)
