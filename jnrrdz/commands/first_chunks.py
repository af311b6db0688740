"""One chunk of each array decoded before a manifest is written: `merge`, `cube` and `convert` ask here.

What these commands write is put together of references alone.  A chain of codecs that does not read the bytes, a source
that changed or that is gone would show when somebody reads.  `--no-check` leaves this out.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from jnrrdz.commands.verify_chunks import UNREADABLE
from jnrrdz.core.refs import References, SparseRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnrepresentableError
from jnrrdz.manifests.manifest import Manifest, from_group
from jnrrdz.options import Access
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.store.group import reference_group
from jnrrdz.store.opened import adopted
from jnrrdz.store.store import ReferenceStore

THREADS = 8
FEW = 16
"""Chunks at the start of an array that are looked at first."""

SKIP = "--no-check writes the manifest without reading a chunk"


@dataclass
class FirstChunks:
    """Decodes one chunk of each array of a group, with the rights of the manifests that its sources come from."""

    access: Access
    guards: dict[str, AddressGuard | None] = field(default_factory=dict)
    """With what each source is opened that a manifest names."""

    def add_manifest(self, manifest: Manifest, group: VirtualGroup) -> None:
        """Note with what the sources of a manifest are opened."""
        trust = manifest.trust(self.access.allow)
        if trust is not None:
            self.guards |= {record.url: trust.guard_for(record.url) for record in group.sources}

    def check(self, group: VirtualGroup, sources: Collection[str] | None = None) -> None:
        """Refuse a group of which an array's first chunk cannot be decoded; its first one of `sources`, if given."""
        manifest = from_group(group)
        chunks: dict[str, int] = {}
        arrays: dict[str, References] = {}
        for path, array in group.arrays():
            chunk = first_chunk(array.refs, sources) if array.shape else None
            if chunk is None:
                continue
            chunks[path] = chunk
            row = array.refs.part(chunk, chunk + 1)
            arrays[path] = SparseRefs(row, np.array([chunk], np.int64), array.refs.chunks)
        options = self.access.source_options
        if options is None:
            options = self.access.storage_options
        store = adopted(
            ReferenceStore(
                replace(manifest, arrays={**manifest.arrays, **arrays}),
                source_options=options,
                allow=("*",),
                opener=self._opened,
            )
        )
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda path: read_chunk(store, path, chunks[path]), chunks))

    def _opened(self, url: str, **options: Any) -> ByteSource:
        guard = self.guards.get(url, options.pop("guard", None))
        return open_source(url, guard=guard, **options)


def read_chunk(store: ReferenceStore, path: str, chunk: int) -> None:
    """Read one chunk of an array; one that cannot be decoded is an error that names the array."""
    nodes: Any = reference_group(store)
    try:
        array = nodes[path]
        place = np.unravel_index(chunk, store.manifest.keys[path].grid)
        sides = zip(place, array.chunks, strict=True)
        array[tuple(slice(int(at) * size, (int(at) + 1) * size) for at, size in sides)]
    except UNREADABLE as error:
        text = str(error) or type(error).__name__
        raise UnrepresentableError(f"a chunk of it cannot be read: {text}; {SKIP}", field=path) from error


def first_chunk(refs: References, sources: Collection[str] | None = None) -> int | None:
    """Return the first chunk that is there, None where all are missing; of `sources` alone, where they are named."""
    few = refs.part(0, min(FEW, refs.chunks))  # mostly one of these
    for start, part in chain([(0, few)], refs.parts()):
        present = part.present
        if sources is not None:
            numbers = [number for number, url in enumerate(part.sources) if url in sources]
            rows = np.flatnonzero(np.isin(part.source, numbers))
            present = np.searchsorted(part.indptr, rows, side="right") - 1
        if len(present):
            return start + int(present[0])
    return None
