"""The form of a manifest as an Icechunk repository, read: the references and documents of one snapshot."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
from fsspec.asyn import get_loop, sync
from zarr.buffer import default_buffer_prototype

from jnrrdz.core.limits import GRID_CHUNKS
from jnrrdz.core.zarr_json import ZARR_JSON
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.columns import Columns, Piece
from jnrrdz.manifests.documents import ChunkKeys, Documents
from jnrrdz.manifests.icechunk import BRANCH, ORDER, by_number, require_name, storage_of
from jnrrdz.manifests.manifest import Manifest, split_version
from jnrrdz.manifests.written_refs import absolute_path, is_local
from jnrrdz.sources.local import written_at
from jnrrdz.sources.url import local_path as path_of

NATIVE, INLINE = 1, 3
"""Kinds of chunks by their numbers: https://icechunk.io/en/stable/reference/spec/."""

CHUNKS = "chunks/"
"""Below a repository: the chunks that it holds itself, each an object of nothing but its bytes."""


@dataclass(frozen=True)
class Version:
    """One version of a repository, opened."""

    url: str
    """The repository and its snapshot, which never changes: `REPO@SNAPSHOT`."""
    repository: str
    opened: Any
    session: Any
    options: Mapping[str, Any] | None

    def manifest(self, *, outline: bool = False) -> Manifest:
        """Return what the version holds; in an `outline` arrays with more than one axis have no references."""
        with _told(self.url):
            if not outline:
                self._refuse_many()
            documents = Documents(sync(get_loop(), _read_documents, self.session.store))
            documents.require_v3()
            urls: dict[str, int] = {}
            columns = {
                path: Columns(keys)
                if outline and len(keys.grid) > 1
                else sync(get_loop(), _read_columns, self.session.store, path, keys, self._chunks, urls)
                for path, keys in documents.array_keys(list(documents)).items()
            }
        records = documents.sources()
        # Icechunk spells local files as URLs: each is called here as the table of sources calls it
        called = {path: record.url for record in records if (path := path_of(record.url)) is not None}
        sources = tuple(called.get(path, path) if (path := path_of(url)) is not None else url for url in urls)
        arrays = {path: found.build(sources) for path, found in columns.items()}
        own_chunks = (self._chunks, self.options)
        return Manifest(self.url, documents, arrays, records, "icechunk", own_chunks, self._written())

    def _written(self) -> int:
        """Return when the snapshot was written to a disk, 0 for one elsewhere."""
        if not is_local(self.repository):
            return 0
        snapshot = Path(absolute_path(self.repository), "snapshots", self.session.snapshot_id)
        return written_at(snapshot.stat()) if snapshot.is_file() else 0

    def root_document(self) -> bytes | None:
        """Return the root's `zarr.json`, None where the version holds nothing."""
        with _told(self.url):
            buffer = sync(get_loop(), self.session.store.get, ZARR_JSON, default_buffer_prototype())
        return None if buffer is None else bytes(buffer.to_bytes())

    def _refuse_many(self) -> None:
        held = sum(file.num_chunk_refs for file in self.opened.list_manifest_files(self.session.snapshot_id))
        if held > GRID_CHUNKS:
            raise UnsupportedError(f"{held} chunks; no more than {GRID_CHUNKS} are taken at once")

    @property
    def _chunks(self) -> str:
        return f"{self.repository.rstrip('/')}/{CHUNKS}"


def open_version(url: str, storage_options: Mapping[str, Any] | None = None) -> Version:
    """Return the version of a repository that a name asks for, its branch `main` where it asks for none."""
    place, version = split_version(url)
    kind, _, name = (version or f"branch.{BRANCH}").partition(".")
    options = dict(storage_options or {})
    with _told(url):
        repository = icechunk.Repository.open(storage_of(place, options))
        if not name:
            session = repository.readonly_session(snapshot_id=kind)
        elif kind == "tag":
            require_name(name, repository.list_tags(), kind, url)
            session = repository.readonly_session(tag=name)
        else:
            require_name(name, repository.list_branches(), kind, url)
            session = repository.readonly_session(name)
    where = os.path.abspath(absolute_path(place)) if is_local(place) else place.rstrip("/")  # noqa: PTH100
    return Version(f"{where}@{session.snapshot_id}", where, repository, session, storage_options)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn Icechunk's errors to ours; what follows the first line of theirs is about its own code."""
    try:
        yield
    except icechunk.IcechunkError as error:
        reason = next((line.strip() for line in str(error.message).splitlines() if line.strip()), "unknown")
        raise JnrrdzError(f"Icechunk: {reason}", url=url) from error
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


async def _read_documents(store: Any) -> dict[str, bytes]:
    """Return the documents of every node; what is below an array is not listed, for it has as many keys as chunks."""
    found: dict[str, bytes] = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        buffer = await store.get(f"{path}{ZARR_JSON}", default_buffer_prototype())
        if buffer is None:
            continue
        found[f"{path}{ZARR_JSON}"] = buffer.to_bytes()
        if Documents(found).parsed(f"{path}{ZARR_JSON}").get("node_type") == "group":
            names = [name async for name in store.list_dir(path.rstrip("/")) if name != ZARR_JSON]
            ordered = in_recorded_order(names, Documents(found).own().get(ORDER), path.rstrip("/"))
            waiting += [f"{path}{name}/" for name in reversed(ordered)]
    return found


def in_recorded_order(names: list[str], recorded: Any, path: str) -> list[str]:
    """Return the names below a group in the recorded order; 2 before 10 where there is none.

    Icechunk keeps no order, and the first image is the one that is opened.
    """
    listed = recorded.get(path) if isinstance(recorded, dict) else None
    numbered = sorted(names, key=by_number)
    if not isinstance(listed, list):
        return numbered
    first = [name for name in listed if name in names]
    return [*dict.fromkeys(first), *(name for name in numbered if name not in first)]


async def _read_columns(store: Any, path: str, keys: ChunkKeys, own: str, urls: dict[str, int]) -> Columns:
    """Return the references of an array; `urls` gets a number for each source."""
    columns = Columns(keys)
    grid = np.array(keys.grid, np.int64)
    async for index, kinds, places, offsets, lengths, inlined in store.array_chunk_iterator(path):
        inside = (index < grid).all(axis=1)  # an array that was made smaller may keep chunks
        numbers = index.astype(np.int64) @ np.array(keys.strides, np.int64)
        for row, data in inlined.items():
            if inside[row]:
                columns.add_inline(int(numbers[row]), data)
        if len(offsets) and max(int(offsets.max()), int(lengths.max())) > np.iinfo(np.int64).max >> 1:
            raise MalformedError("a range beyond any file's end", field=path)
        kept = np.flatnonzero(inside & (kinds != INLINE))
        native = set(np.flatnonzero(kinds == NATIVE).tolist())
        named = [f"{own}{places[row]}" if row in native else places[row] for row in kept.tolist()]
        source = np.fromiter((urls.setdefault(place, len(urls)) for place in named), np.int32, len(named))
        columns.pieces.append(
            Piece(numbers[kept], source, offsets[kept].astype(np.int64), lengths[kept].astype(np.int64))
        )
    return columns
