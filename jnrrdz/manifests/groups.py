"""A manifest as the virtual group that it was written from.

The inverse of `manifest.from_group` and of the writers: references become columns again, and every source's
URL an absolute one that the manifest may reach.  A million URLs below one tree that differ in indices only are one
folder and a row of numbers each; which of them may be reached is then told for the folder.  Links between the
blocks would lead elsewhere, so where there is one, each file is looked at by itself.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import batched
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.large_refs import LARGE
from jnrrdz.core.refs import FEW, WHOLE, ChunkRefs, MappedRefs, References, SparseRefs
from jnrrdz.core.tree import VirtualGroup, tree_of
from jnrrdz.core.tree_files import GridFiles
from jnrrdz.core.zarr_json import UNREAD_SOURCES
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests.documents import read_indices
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.url import local_path

ORIGIN = ("options", "member", "cube", "concat_dim", "single_range", "keep_query", UNREAD_SOURCES)
"""Members of the root's attribute `jnrrdz` that say how a manifest came to be."""

_MOST = np.iinfo(np.int32).max
_TOGETHER = 1 << 16

type Options = Mapping[str, Any] | None


def group_from_manifest(
    manifest: Manifest,
    *,
    allow: Sequence[str] = (),
    source_options: Options = None,
    outline: bool = False,
    as_spelt: bool = False,
) -> VirtualGroup:
    """Return what a manifest describes, its sources as absolute URLs; one that it may not reach is an error.

    `allow` are further prefixes that it may reach.  `source_options` are fsspec's, and are needed
    only where a reference is a whole source whose size the manifest does not say.  An `outline` has neither
    the sources nor the references of arrays with more than one axis.  With `as_spelt` URLs are the manifest's own, and
    references are read when somebody asks for them.
    """
    try:
        return _Reader(manifest, allow, source_options, outline=outline, as_spelt=as_spelt).root()
    except JnrrdzError as error:
        raise error.at(url=manifest.url) from error.__cause__


class _Reader:
    """One manifest on its way to a group."""

    def __init__(
        self, manifest: Manifest, allow: Sequence[str], options: Options, *, outline: bool, as_spelt: bool
    ) -> None:
        self._manifest = manifest
        self._outline = outline
        self._as_spelt = as_spelt
        self._options = options
        self._records = manifest.records
        self._trees = manifest.trees
        # what was scanned was named by the user, as in read.pool
        self._trust = manifest.trust(allow)
        self._places: dict[str, str] = {}

    def root(self) -> VirtualGroup:
        documents = self._manifest.documents
        nodes = documents.nodes()
        arrays = {
            path: self._references(path, nodes[path])
            for path in sorted(nodes, key=lambda path: path.count("/"))
            if path in self._manifest.arrays
        }
        tree = tree_of(nodes, arrays)
        origin = {name: value for name, value in documents.own().items() if name in ORIGIN}
        sources = () if self._outline else self._table()
        return replace(tree, sources=sources, origin=origin)

    def _references(self, path: str, document: Mapping[str, Any]) -> References:
        """Return where the chunks of an array are, as the tree has it."""
        refs = self._manifest.arrays[path]
        if self._outline and len(document["shape"]) > 1:
            return SparseRefs.missing(refs.chunks)
        return self._all_placed(refs)

    def _table(self) -> tuple[SourceRecord, ...]:
        """Return the sources as they were scanned, in the manifest's order, then those that it does not list."""
        if self._as_spelt:
            return tuple(self._manifest.sources)
        listed = [replace(record, url=self._place(record.url)) for record in self._manifest.sources]
        known = {record.url for record in self._manifest.sources}
        inside = self._trees or ("\0",)
        others = [
            SourceRecord(place)
            for url, place in self._places.items()
            if url not in known and not url.startswith(inside)
        ]
        return tuple({record.url: record for record in (*listed, *others)}.values())

    def _all_placed(self, refs: References) -> References:
        """Return the references of an array, read a part at a time where they are many and no files of a tree."""
        if self._as_spelt:
            return refs
        if refs.chunks <= LARGE or refs.is_in_memory or self._trees:
            whole = refs.gathered()
            if isinstance(whole, SparseRefs):
                return SparseRefs(self._placed(whole.refs), whole.rows, whole.chunks)
            return self._placed(whole)
        return MappedRefs(refs, self._placed, tuple(map(self._place, refs.sources)))

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
        trees = self._trees
        if len(urls) <= FEW or not trees:
            return None
        folder = common_folder(urls)
        tree = next(filter(folder.startswith, trees), None)
        separator = "." if "/" not in urls[0][len(folder) :] and "." in urls[0][len(folder) :] else "/"
        index = None if tree is None else indices(urls, folder, separator)
        if tree is None or index is None:
            return None
        # both where they really are
        tree, folder = self._place(tree), self._place(folder)
        if not folder.startswith(tree) or not _is_plain(folder, index if separator == "/" else index[:, :1]):
            return None
        return GridFiles(tree, (folder,), np.column_stack((np.zeros(len(index), np.int32), index)), separator)

    def _sizeless(self, refs: ChunkRefs) -> NDArray[np.int64]:
        """Return the ranges whose lengths have to be asked for: not those of a tree's files, which may be absent."""
        endless = np.flatnonzero(refs.length == WHOLE)
        trees = self._trees
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


def common_folder(urls: Sequence[str]) -> str:
    """Return what all URLs begin with, up to a slash."""
    first, last = min(urls), max(urls)
    return os.path.commonprefix([first, last]).rpartition("/")[0] + "/"  # noqa: RUF071  cut at a slash behind it


def indices(urls: Sequence[str], folder: str, separator: str = "/") -> NDArray[np.int32] | None:
    """Return a row of indices for each URL below a folder; None where anything else stands there."""
    axes, rows = urls[0].count(separator, len(folder)) + 1, []
    for some in batched(urls, _TOGETHER):
        text = "\n".join(("", *(url[len(folder) :] for url in some), ""))
        found = read_indices(text.encode(), len(some), axes, separator.encode())
        if found is None or (found > _MOST).any():
            return None
        rows.append(found.astype(np.int32))
    return np.concatenate(rows)


def _is_plain(folder: str, index: NDArray[np.int32]) -> bool:
    """Whether no local file or directory in a folder is a link."""
    place = local_path(folder)
    if place is None:
        return True
    place = place.rstrip("/")
    if os.path.realpath(place) != place:
        return False
    known = {
        row[:depth] for row in map(tuple, np.unique(index[:, :-1], axis=0).tolist()) for depth in range(len(row) + 1)
    }
    for row in known:
        # what is not there is no link, and is told when it is read
        with suppress(OSError), os.scandir("/".join([place, *map(str, row)])) as entries:
            if any(entry.is_symlink() for entry in entries):
                return False
    return True
