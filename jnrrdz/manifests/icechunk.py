"""A tree of virtual arrays as a commit of an Icechunk repository, and a version of a repository as a manifest.

A version is named `REPO@branch.NAME`, `REPO@tag.NAME` or `REPO@SNAPSHOT`; a repository by itself means its branch
`main`.  References are read as columns, a hundred thousand in a batch; what a manifest records of its sources stands
in the root's attribute `jnrrdz`, as in the other forms.

Follows https://icechunk.io/en/stable/guides/virtual/.  The repository names the directory of every source as a
container of virtual chunks; its reader has to authorise them (`authorize_virtual_chunk_access`).  Every
reference carries what is known of its source's state, the ETag on S3 or else the time of modification, and
Icechunk refuses to read a source that is no longer in it.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import fsspec
import icechunk
import numpy as np
from fsspec.asyn import get_loop, sync
from numpy.typing import NDArray
from zarr.buffer import default_buffer_prototype

from jnrrdz.core.arrays import SourceRecord, VirtualArray, VirtualGroup
from jnrrdz.core.refs import TreeFiles
from jnrrdz.core.zarr_json import ZARR_JSON, dumps, tree_json
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.manifests.atomic import exists_already, new_directory
from jnrrdz.manifests.columns import MOST_CHUNKS, ColumnarRefs, Columns, Piece
from jnrrdz.manifests.documents import ChunkKeys, Documents
from jnrrdz.manifests.manifest import REPOSITORY, Manifest, split_version
from jnrrdz.manifests.written_refs import Spans, is_local, local_path, refuse_whole, remedy, shareable, spans
from jnrrdz.options import WriteOptions
from jnrrdz.sources import faults
from jnrrdz.sources.url import file_url
from jnrrdz.sources.url import local_path as path_of

BRANCH = "main"
_FILES = {REPOSITORY, "config.yaml"}
_FOLDERS = {"snapshots", "manifests", "transactions", "chunks", "overwritten", "refs"}
"""Names below a repository's prefix: https://icechunk.io/en/stable/reference/spec/."""

_S3_OPTIONS = {"endpoint_url": "endpoint_url", "region_name": "region", "anon": "anonymous"}
_S3_CREDENTIALS = {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"}


def write(root: VirtualGroup, target: str, options: WriteOptions | None = None) -> None:
    """Commit the references of a tree to a repository at `target`, a new one unless `options.overwrite`.

    An existing repository keeps its history; the commit replaces what its branch held.
    """
    wanted = options or WriteOptions()
    if wanted.relative:
        raise UnrepresentableError("Icechunk has absolute URLs only; write JSON or Parquet", url=target)
    root = shareable(root, wanted.keep_query)
    found = {path: _single(array, path, single_range=wanted.single_range) for path, array in root.arrays()}
    place, version = split_version(target)
    kind, _, branch = (version or f"branch.{BRANCH}").partition(".")
    if kind != "branch":
        raise UnrepresentableError("a tag and a snapshot stay what they are; name a branch", url=target)
    with _repository(root, place, dict(wanted.target_options or {}), overwrite=wanted.overwrite) as repository:
        _require(branch, repository.list_branches(), "branch", target)
        session = repository.writable_session(branch)
        sync(get_loop(), session.store.clear)
        _fill(session.store, root, found)
        session.commit(f"Index {len(found)} arrays of {len(_urls(root))} sources with jnrrdz")


def _single(array: VirtualArray, path: str, *, single_range: bool) -> Spans:
    found = spans(array.refs, path, single_range=single_range)
    refuse_whole(array.refs, found, path, "Icechunk")
    if len(found.scattered):
        chunk = int(found.scattered[0])
        raise UnrepresentableError(
            f"a chunk of several ranges, and Icechunk has one for each; {remedy(array.refs)}",
            url=array.refs.sources[found.source[chunk]],
            field=f"{path}, chunk {chunk}",
        )
    return found


# The repository


@contextmanager
def _repository(root: VirtualGroup, target: str, options: dict[str, Any], *, overwrite: bool) -> Iterator[Any]:
    """Yield a repository that knows the containers; a new one is gone if the block fails."""
    prefixes = _folders_of([_uri(url) for url in _urls(root)])
    stores = {prefix: _container_store(prefix, options) for prefix in sorted(prefixes)}
    try:
        containers = [icechunk.VirtualChunkContainer(prefix, store) for prefix, store in stores.items()]
        storage = _storage(target, options)
        if overwrite and icechunk.Repository.exists(storage):
            config = icechunk.Repository.fetch_config(storage) or icechunk.RepositoryConfig.default()
            repository = icechunk.Repository.open(storage, _with_containers(config, containers))
            repository.save_config()
            yield repository
        elif is_local(target):
            if not overwrite and os.path.lexists(local_path(target)):
                raise exists_already(target)
            with new_directory(target, last=REPOSITORY) as work:
                yield _new(icechunk.local_filesystem_storage(str(work)), containers)
        else:
            with _new_remote(storage, containers, target, options) as repository:
                yield repository
    except icechunk.IcechunkError as error:
        raise JnrrdzError(f"Icechunk: {error.message}", url=target) from error


MOST_CONTAINERS = 64


def _folders_of(urls: list[str]) -> set[str]:
    """Return the folders that sources are in; where these are very many, those that hold them."""
    folders = {url.rpartition("/")[0] for url in urls}
    while len(folders) > MOST_CONTAINERS:
        above = {folder if folder.count("/") <= _HOST_SLASHES + 1 else folder.rpartition("/")[0] for folder in folders}
        if above == folders:
            break
        folders = above
    return {f"{folder}/" for folder in folders}


_HOST_SLASHES = 2
"""Of a URL before its path."""


def _new(storage: Any, containers: list[Any]) -> Any:
    return icechunk.Repository.create(storage, _with_containers(icechunk.RepositoryConfig.default(), containers))


def _with_containers(config: Any, containers: list[Any]) -> Any:
    for container in containers:
        config.set_virtual_chunk_container(container)
    return config


@contextmanager
def _new_remote(storage: Any, containers: list[Any], target: str, options: dict[str, Any]) -> Iterator[Any]:
    """Yield a new repository under a prefix that holds nothing yet.  If the block fails, its own objects go by name."""
    fs, place = fsspec.core.url_to_fs(target, use_listings_cache=False, **options)
    if icechunk.Repository.exists(storage):
        raise exists_already(target)
    with faults.translate_errors(target, "looking for the output", fs):
        # a bucket is there even if it is empty
        if fs.ls(place) if "/" not in place.strip("/") else fs.exists(place):
            raise JnrrdzError("holds other objects; name a prefix that is empty", url=target)
    repository = _new(storage, containers)
    done = False
    try:
        yield repository
        done = True
    finally:
        if not done:
            names = {path.removeprefix(f"{place.rstrip('/')}/"): path for path in fs.find(place)}
            # by their names below the prefix: others may have put something there meanwhile
            folders = tuple(f"{name}/" for name in _FOLDERS)
            own = [path for name, path in names.items() if name in _FILES or name.startswith(folders)]
            if own:
                fs.rm(own)


def _storage(target: str, options: dict[str, Any]) -> Any:
    if is_local(target):
        return icechunk.local_filesystem_storage(local_path(target))
    parts = urlsplit(target)
    if parts.scheme != "s3":
        raise UnsupportedError("repositories are written to local directories and to s3:// only", url=target)
    credentials = {name: options[key] for key, name in _S3_CREDENTIALS.items() if key in options}
    place = {"bucket": parts.netloc, "prefix": parts.path.strip("/"), **_s3(options), **credentials}
    return icechunk.s3_storage(**place, from_env=None if credentials else True)


def _s3(options: dict[str, Any]) -> dict[str, Any]:
    """Return what s3fs's options mean to icechunk."""
    given = {**options, **options.get("client_kwargs", {})}
    known = {name: given[key] for key, name in _S3_OPTIONS.items() if key in given}
    endpoint = known.get("endpoint_url")
    return known | ({"force_path_style": True, "allow_http": endpoint.startswith("http:")} if endpoint else {})


def _container_store(prefix: str, options: dict[str, Any]) -> Any:
    scheme = urlsplit(prefix).scheme
    if scheme == "file":
        return icechunk.local_filesystem_store(local_path(prefix))
    if scheme == "s3":
        return icechunk.s3_store(**_s3(options))
    if scheme in ("http", "https"):
        return icechunk.http_store()
    raise UnsupportedError("Icechunk reads virtual chunks from file, s3 and http(s) here", url=prefix)


# What a commit holds


def _fill(store: Any, root: VirtualGroup, found: Mapping[str, Spans]) -> None:
    for key, document in tree_json(root, consolidated="nowhere").items():
        _set(store, key, dumps(document).encode("ascii"))
    records = {record.url: record for record in root.sources}
    for path, array in root.arrays():
        _set_references(store, path, array, found[path], records)
        for chunk, data in array.refs.inline.items():
            index = np.unravel_index(chunk, array.grid) if array.grid else ()
            _set(store, "/".join([path, "c", *map(str, index)]), data)


def _set(store: Any, key: str, data: bytes) -> None:
    sync(get_loop(), store.set, key, default_buffer_prototype().buffer.from_bytes(data))


def _set_references(
    store: Any, path: str, array: VirtualArray, found: Spans, records: Mapping[str, SourceRecord]
) -> None:
    """Set the references to each source in one call, for a call has one checksum."""
    present = np.ones(len(found.source), bool)
    present[list(array.refs.inline)] = False
    for block in _blocks(array, found, present):
        refused = store.set_virtual_refs_arr(
            path,
            block.shape,
            block.urls,
            found.start[block.chunks].astype(np.uint64),
            found.length[block.chunks].astype(np.uint64),
            arr_offset=block.corner or None,
            checksum=checksum(records.get(block.named, SourceRecord(block.named))),
        )
        if refused:
            raise JnrrdzError(f"Icechunk refuses the reference of chunk {refused[0]}", url=block.named, field=path)


@dataclass(frozen=True, eq=False)
class _Block:
    """Chunks of a rectangle of an array's grid, those of one source or tree with its URL and all others without."""

    named: str
    corner: tuple[int, ...]
    shape: tuple[int, ...]
    chunks: NDArray[np.int64]
    """Their numbers in the whole grid."""
    urls: list[str]


def _blocks(array: VirtualArray, found: Spans, present: NDArray[np.bool_]) -> Iterator[_Block]:
    """Yield what has one checksum."""
    refs, grid = array.refs, array.grid
    if isinstance(refs.sources, TreeFiles) or not grid:
        for number, url in enumerate(refs.named):
            whole = isinstance(refs.sources, TreeFiles)
            spelt, source = refs.spelt(found.source) if whole else ([url], found.source - number)
            known = (source >= 0) & (source < len(spelt)) & present
            # an array of objects, so that all chunks of a source share one string
            urls = np.array(["", *map(_uri, spelt)], object)[np.where(known, source + 1, 0)].tolist()
            yield _Block(url, (0,) * len(grid), grid, np.arange(len(found.source)), urls)
        return
    numbers = np.where(present, found.source, -1)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(refs.sources) + 1))
    for number, url in enumerate(refs.sources):
        own = order[bounds[number] : bounds[number + 1]]
        if len(own):
            yield _block_of(url, own, grid)


def _block_of(url: str, own: NDArray[np.int64], grid: tuple[int, ...]) -> _Block:
    """Return the smallest block that holds the chunks of a source."""
    places = np.array(np.unravel_index(own, grid))
    corner = places.min(1)
    shape = tuple((places.max(1) - corner + 1).tolist())
    inside = np.indices(shape).reshape(len(grid), -1) + corner[:, None]
    urls = np.full(inside.shape[1], "", object)
    urls[np.ravel_multi_index(tuple(places - corner[:, None]), shape)] = _uri(url)
    chunks = np.ravel_multi_index(tuple(inside), grid)
    return _Block(url, tuple(corner.tolist()), shape, chunks, urls.tolist())


def checksum(record: SourceRecord) -> str | datetime | None:
    """Return what Icechunk compares with the source before it reads; times rounded up, for it keeps whole seconds."""
    # elsewhere an ETag may be weak, or other than what Icechunk sees in its place
    if record.etag is not None and urlsplit(record.url).scheme == "s3":
        return record.etag
    if record.modified is None:
        return None
    try:
        seconds = datetime.fromisoformat(record.modified).timestamp()
    except ValueError as error:
        message = f"{record.modified!r} is no RFC 3339 time"
        raise MalformedError(message, url=record.url, field="modified") from error
    return datetime.fromtimestamp(math.ceil(seconds), UTC)


def _urls(root: VirtualGroup) -> list[str]:
    return list(dict.fromkeys(url for _, array in root.arrays() for url in array.refs.named))


def _uri(url: str) -> str:
    """Return the URL of a source as Icechunk reads it: absolute, a local path percent-encoded."""
    return file_url(local_path(url)) if is_local(url) else url


# Reading

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
    session: Any
    options: Mapping[str, Any] | None

    def manifest(self) -> Manifest:
        """Return what the version holds."""
        with _told(self.url):
            documents = Documents(sync(get_loop(), _read_documents, self.session.store))
            documents.require_v3()
            urls: dict[str, int] = {}
            columns = {
                path: sync(get_loop(), _read_columns, self.session.store, path, keys, self._chunks, urls)
                for path, keys in documents.array_keys(list(documents)).items()
            }
        records = documents.sources()
        # Icechunk spells local files as URLs: each is called here as the table of sources calls it
        called = {path: record.url for record in records if (path := path_of(record.url)) is not None}
        sources = tuple(called.get(path, path) if (path := path_of(url)) is not None else url for url in urls)
        arrays: dict[str, ColumnarRefs] = {path: found.build(sources) for path, found in columns.items()}
        return Manifest(self.url, documents, arrays, records, "icechunk", (self._chunks, self.options))

    @property
    def _chunks(self) -> str:
        return f"{self.repository.rstrip('/')}/{CHUNKS}"


def open_version(url: str, storage_options: Mapping[str, Any] | None = None) -> Version:
    """Return the version of a repository that a name asks for, its branch `main` where it asks for none."""
    place, version = split_version(url)
    kind, _, name = (version or f"branch.{BRANCH}").partition(".")
    options = dict(storage_options or {})
    with _told(url):
        repository = icechunk.Repository.open(_storage(place, options))
        if not name:
            session = repository.readonly_session(snapshot_id=kind)
        elif kind == "tag":
            _require(name, repository.list_tags(), kind, url)
            session = repository.readonly_session(tag=name)
        else:
            _require(name, repository.list_branches(), kind, url)
            session = repository.readonly_session(name)
        held = sum(file.num_chunk_refs for file in repository.list_manifest_files(session.snapshot_id))
    if held > MOST_CHUNKS:
        raise UnsupportedError(f"{held} chunks; no more than {MOST_CHUNKS} are taken at once", url=url)
    where = os.path.abspath(local_path(place)) if is_local(place) else place.rstrip("/")  # noqa: PTH100
    return Version(f"{where}@{session.snapshot_id}", where, session, storage_options)


def _require(name: str, known: set[str], kind: str, url: str) -> None:
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise JnrrdzError(f"no {kind} {name!r}; there are {there}", url=url, field=kind)


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
            # Icechunk keeps no order: 2 comes before 10, for the first image is what is opened
            waiting += [f"{path}{name}/" for name in sorted(names, key=_by_number, reverse=True)]
    return found


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


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
