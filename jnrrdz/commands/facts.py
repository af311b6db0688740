"""What a command's argument leads to: its manifest, how much of it is stored, and who can read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz import api
from jnrrdz.core.hierarchy import HierarchyNode
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.standard import ReaderVerdict, of_all, verdicts
from jnrrdz.formats import scanning
from jnrrdz.manifests.forms import FORMS
from jnrrdz.manifests.manifest import Manifest, from_group, manifest_form
from jnrrdz.options import Access, ScanOptions
from jnrrdz.sources.url import is_chained

type Json = dict[str, Any]


_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class StoredChunks:
    """The chunks of an array and their bytes."""

    chunks: int
    missing: int
    nbytes: int | None
    """None where a chunk ends with its source and the manifest does not tell the source's size."""
    is_single: bool = True
    """Whether every chunk is one range."""


class Facts:
    """The nodes of a manifest, and what one says of another."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.hierarchy = manifest.hierarchy
        self.nodes = self.hierarchy.nodes
        self._records = manifest.records

    def arrays(self) -> Iterator[HierarchyNode]:
        """Yield the arrays that have axes; scalars (the grid mapping) carry attributes only."""
        yield from (node for node in self.nodes.values() if node.refs is not None and node.shape)

    def level(self, path: str) -> int:
        """Return which level of a pyramid a node is or belongs to, 0 outside of any."""
        return self.hierarchy.level(path)

    def stored(self, node: HierarchyNode) -> StoredChunks:
        """Return how many chunks an array has and how large they are together."""
        refs = node.refs
        if refs is None:
            return StoredChunks(0, 0, 0)
        present = 0
        is_single = True
        sizes: list[int | None] = []
        for _, part in refs.parts():
            present += len(part.present)
            is_single = is_single and part.is_single
            sizes.append(self._nbytes(part))
        return StoredChunks(refs.chunks, refs.chunks - present, _sum(0, iter(sizes)), is_single)

    def readers(self) -> list[ReaderVerdict]:
        """Return for each reader whether it reads all arrays."""
        judged = []
        in_archives = any(is_chained(url) for url in self._records)
        for node in self.arrays():
            is_single = self.stored(node).is_single
            foreign = self.manifest.documents.foreign.get(node.path)
            found = verdicts(node.codecs, node.data_type, is_single=is_single, is_chained=in_archives, foreign=foreign)
            judged.append((node.path, found))
        return of_all(judged)

    def _nbytes(self, refs: ChunkRefs) -> int | None:
        whole = refs.length == WHOLE
        known = refs.length[~whole]
        # in halves: what a manifest claims may add up to more than 64 bits
        total = (int((known >> 32).sum()) << 32) + int((known & _LOW).sum())
        total += sum(map(len, refs.inline.values()))
        rows = np.flatnonzero(whole).tolist()
        return _sum(total, (self._length(refs.sources[refs.source[row]], int(refs.offset[row]), WHOLE) for row in rows))

    def _length(self, url: str, offset: int, length: int) -> int | None:
        if length != WHOLE:
            return length
        record = self._records.get(url)
        return None if record is None or record.size is None else max(record.size - offset, 0)


def _sum(total: int | None, lengths: Iterator[int | None]) -> int | None:
    for length in lengths:
        total = None if total is None or length is None else total + length
    return total


@dataclass(frozen=True)
class Inspection:
    """Metadata and references, and what finding them took."""

    name: str
    format: str
    manifest: Manifest
    requests: int | None = None
    """Requests for a source's header; None for a manifest."""
    bytes_read: int | None = None


def opened(name: str, access: Access, options: ScanOptions | None = None) -> Inspection:
    """Return what a path or URL holds."""
    form = manifest_form(name)
    if form is not None:
        store = api.open_stored(name, access=access)
        return Inspection(name, FORMS[store.manifest.form or form].title, store.manifest)
    found = scanning.scan(name, options or ScanOptions(), access)
    return Inspection(name, found.format, from_group(found.group), found.requests, found.bytes_read)
