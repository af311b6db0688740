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
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import fsspec
import icechunk
import numpy as np
from fsspec.asyn import get_loop, sync
from numpy.typing import NDArray
from zarr.buffer import default_buffer_prototype

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.cube import TIME, VARIABLE
from jnrrdz.core.cube_growth import Extension
from jnrrdz.core.json_schema import parse_json
from jnrrdz.core.refs import ChunkRefs, References
from jnrrdz.core.tree import VirtualGroup, tree_json
from jnrrdz.core.tree_files import TreeFiles
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.manifests import turns
from jnrrdz.manifests.atomic import exists_already, locate, new_directory, writing
from jnrrdz.manifests.manifest import REPOSITORY, split_version
from jnrrdz.manifests.written_refs import (
    MISSING,
    Spans,
    absolute_path,
    is_local,
    refuse_whole,
    remedy,
    shareable,
    spans,
)
from jnrrdz.options import WriteOptions
from jnrrdz.sources import faults
from jnrrdz.sources.url import file_url

BRANCH = "main"
_FILES = {REPOSITORY, "config.yaml"}
_FOLDERS = {"snapshots", "manifests", "transactions", "chunks", "overwritten", "refs"}
"""Names below a repository's prefix: https://icechunk.io/en/stable/reference/spec/."""

_S3_OPTIONS = {"endpoint_url": "endpoint_url", "region_name": "region", "anon": "anonymous"}
_S3_CREDENTIALS = {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"}


def write(root: VirtualGroup, target: str, options: WriteOptions | None = None) -> None:
    """Commit the references of a tree to a repository at `target`, a new one unless `options.overwrite`.

    An existing repository keeps its history; the commit replaces what its branch held.  200,000 references and
    more are several commits, which the branch gets at once when all of them are there.
    """
    wanted = options or WriteOptions()
    root = _absolute(root, target, wanted)
    slabs = [slab for path, array in root.arrays() for slab in _slabs(path, array, wanted)]
    _check(slabs)
    place, branch = _branch_of(target)
    documents = _in_order(tree_json(root, consolidated="nowhere"))
    arrays, sources = len(root.arrays()), len(_urls(root))
    what = f"Index {arrays} arrays of {sources} sources with jnrrdz"
    change = _Change(documents, slabs, root.sources, what)
    store_options = dict(wanted.target_options or {})

    with turn_of(place) as turn:

        def put() -> None:
            opened = _repository(root, place, store_options, overwrite=wanted.overwrite)
            with opened as repository:
                require_name(branch, repository.list_branches(), "branch", target)
                _commit(repository, branch, change, turn)

        if turn.is_update:
            put()
        else:
            turns.repeated(put)


def turn_of(repository: str) -> AbstractContextManager[turns.Turn]:
    """Return the turn to write a repository; in a store its commits are conditional."""
    if is_local(repository):
        return writing(locate(absolute_path(repository)))
    return turns.writing(repository, repository.rstrip("/"))


def extend(more: Extension, recorded: Sequence[SourceRecord], target: str, options: WriteOptions) -> None:
    """Commit more times of a cube to the repository at `target`, whose table of sources is `recorded`.

    The commit holds the references of the new times; manifests of times before them stay as they are.
    """
    group = _absolute(more.group, target, options)
    known = {record.url for record in recorded}
    sources = (*recorded, *(record for record in group.sources if record.url not in known))
    whole = replace(more.whole(group), sources=sources)
    documents = _in_order(tree_json(whole, consolidated="nowhere"))
    place, branch = _branch_of(target)
    slabs = []
    for path, array in group.arrays():
        if path in more.before:
            slabs += [replace(slab, first=slab.first + more.before[path]) for slab in _slabs(path, array, options)]
        elif TIME in array.dimension_names:
            times = more.before[f"{path.removesuffix(TIME)}{VARIABLE}"]
            slabs += _slabs(path, array, options, times // array.chunks[0])
    _check(slabs)
    store_options = dict(options.target_options or {})
    with (
        turn_of(place) as turn,
        _repository(group, place, store_options, overwrite=True) as repository,
    ):
        require_name(branch, repository.list_branches(), "branch", target)
        what = f"Add {len(_urls(group))} sources with jnrrdz"
        change = _Change(documents, slabs, sources, what, more.before)
        _commit(repository, branch, change, turn)


def _absolute(root: VirtualGroup, target: str, options: WriteOptions) -> VirtualGroup:
    if options.relative:
        raise UnrepresentableError("Icechunk has absolute URLs only; write JSON or Parquet", url=target)
    return shareable(root, options.keep_query)


def _check(slabs: Iterable["_Slab"]) -> None:
    """Refuse what cannot be said, before a repository is touched."""
    for slab in slabs:
        slab.spans(slab.refs())


def _branch_of(target: str) -> tuple[str, str]:
    """Return a repository and the branch that is written."""
    place, version = split_version(target)
    kind, _, branch = (version or f"branch.{BRANCH}").partition(".")
    if kind != "branch":
        raise UnrepresentableError("a tag and a snapshot stay what they are; name a branch", url=target)
    return place, branch


# The repository


@contextmanager
def _repository(root: VirtualGroup, target: str, options: dict[str, Any], *, overwrite: bool) -> Iterator[Any]:
    """Yield a repository that knows the containers; a new one is gone if the block fails."""
    urls = [_uri(url) for url in _urls(root)]
    try:
        storage = storage_of(target, options)
        if overwrite and icechunk.Repository.exists(storage):
            config = icechunk.Repository.fetch_config(storage) or icechunk.RepositoryConfig.default()
            if _configure(config, root, urls, options):
                icechunk.Repository.open(storage, config).save_config()
            yield _for_writing(storage, config)
            return
        config = icechunk.RepositoryConfig.default()
        _configure(config, root, urls, options)
        if is_local(target):
            if not overwrite and os.path.lexists(absolute_path(target)):
                raise exists_already(target)
            with new_directory(target, last=REPOSITORY) as work:
                storage = icechunk.local_filesystem_storage(str(work))
                icechunk.Repository.create(storage, config)
                yield _for_writing(storage, config)
        else:
            new = _new_remote(storage, config, target, options, overwrite=overwrite)
            with new as repository:
                yield repository
    except icechunk.IcechunkError as error:
        raise JnrrdzError(f"Icechunk: {error.message}", url=target) from error


MOST_CONTAINERS = 64


def _folders_of(urls: Sequence[str]) -> set[str]:
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


def _configure(config: Any, root: VirtualGroup, urls: Sequence[str], options: dict[str, Any]) -> bool:
    """Tell a configuration which containers the sources are in and how manifests are cut; whether that is news."""
    known = dict(config.virtual_chunk_containers or {})
    above = tuple(known) or ("\0",)
    wanted = {folder for folder in _folders_of(urls) if folder in known or not folder.startswith(above)}
    if len(wanted | {*known}) > MOST_CONTAINERS:
        wanted = _folders_of([*wanted, *known])
    stores = {prefix: _container_store(prefix, options) for prefix in sorted(wanted)}
    containers = {prefix: icechunk.VirtualChunkContainer(prefix, store) for prefix, store in stores.items()}
    new = [container for prefix, container in containers.items() if repr(container) != repr(known.get(prefix))]
    for container in new:
        config.set_virtual_chunk_container(container)
    sizes: dict[Any, dict[Any, int]] = {}
    for path, array in root.arrays():
        per_index = math.prod(array.grid[1:])
        if array.grid and (array.refs.chunks > SPLIT or array.dimension_names[0] == TIME):
            condition = icechunk.ManifestSplitCondition.path_matches(f"^/{re.escape(path)}$")
            sizes[condition] = {icechunk.ManifestSplitDimCondition.Axis(0): max(SPLIT // per_index, 1)}
    is_cut = config.manifest is not None and config.manifest.splitting is not None
    if sizes and not is_cut:
        config.manifest = icechunk.ManifestConfig(splitting=icechunk.ManifestSplittingConfig.from_dict(sizes))
    return bool(new or (sizes and not is_cut))


def _for_writing(storage: Any, config: Any) -> Any:
    """Return a repository that keeps no references in memory to read them again."""
    config.caching = icechunk.CachingConfig(num_snapshot_nodes=1000, num_chunk_refs=TOGETHER)
    return icechunk.Repository.open(storage, config)


@contextmanager
def _new_remote(
    storage: Any,
    config: Any,
    target: str,
    options: dict[str, Any],
    *,
    overwrite: bool,
) -> Iterator[Any]:
    """Yield a new repository under a prefix that holds nothing yet.  If the block fails, its own objects go by name."""
    fs, place = fsspec.core.url_to_fs(target, use_listings_cache=False, **options)
    if icechunk.Repository.exists(storage):
        raise turns.changed(target) if overwrite else exists_already(target)
    with faults.translate_errors(target, "looking for the output", fs):
        # a bucket is there even if it is empty
        is_bucket = "/" not in place.strip("/")
        is_used = bool(fs.ls(place)) if is_bucket else fs.exists(place)
        objects = fs.find(place) if is_used else []
    if objects and len(_objects_of(objects, place)) == len(objects):
        raise turns.ChangedError(
            "another run is making a repository there, or one that was killed "
            "has left objects; run the command again, or remove them",
            url=target,
        )
    if is_used and (objects or is_bucket):
        raise JnrrdzError("holds other objects; name a prefix that is empty", url=target)
    try:
        icechunk.Repository.create(storage, config)
    except icechunk.IcechunkError as error:
        fs.invalidate_cache()
        objects = fs.find(place)  # of another run, which may not have ended
        if objects and len(_objects_of(objects, place)) == len(objects):
            raise turns.changed(target) from error
        raise
    done = False
    repository = _for_writing(storage, config)
    first = repository.lookup_branch(BRANCH)
    try:
        yield repository
        done = True
    finally:
        if not done and repository.lookup_branch(BRANCH) == first:
            fs.invalidate_cache()
            objects = _objects_of(fs.find(place), place)
            if objects:
                fs.rm(objects)


def _objects_of(objects: Iterable[str], place: str) -> list[str]:
    """Return those of the objects below a prefix that a repository has, by their names."""
    above = f"{place.rstrip('/')}/"
    names = {path: path.removeprefix(above) for path in objects}
    folders = tuple(f"{name}/" for name in _FOLDERS)
    return [path for path, name in names.items() if name in _FILES or name.startswith(folders)]


def storage_of(target: str, options: dict[str, Any]) -> Any:
    """Return where a repository is, as icechunk takes it."""
    if is_local(target):
        return icechunk.local_filesystem_storage(absolute_path(target))
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
        return icechunk.local_filesystem_store(absolute_path(prefix))
    if scheme == "s3":
        return icechunk.s3_store(**_s3(options))
    if scheme in ("http", "https"):
        return icechunk.http_store()
    raise UnsupportedError("Icechunk reads virtual chunks from file, s3 and http(s) here", url=prefix)


# What a commit holds

SPLIT = 100_000
"""References in one of a repository's manifests, about: what is behind them is added without touching them."""

TOGETHER = 2 * SPLIT
"""References in a commit, about: a session keeps all of its own in memory, some 800 bytes each."""


@dataclass(frozen=True, eq=False)
class _Slab:
    """The references of some indices of an array's first axis."""

    path: str
    grid: tuple[int, ...]
    first: int
    """Which index of the first axis the slab begins at."""
    whole: References
    """Of the whole array."""
    start: int
    """The number of the slab's first chunk in `whole`."""
    single_range: bool

    def refs(self) -> ChunkRefs:
        """Return the slab's references."""
        return self.whole.part(self.start, self.start + math.prod(self.grid))

    def spans(self, refs: ChunkRefs) -> Spans:
        """Return the span of each chunk; chunks of several ranges and whole files are refused."""
        found = spans(refs, self.path, single_range=self.single_range, before=self.start)
        refuse_whole(refs, found, self.path, "Icechunk", self.start)
        if len(found.scattered):
            chunk = int(found.scattered[0])
            raise UnrepresentableError(
                f"a chunk of several ranges, and Icechunk has one for each; {remedy(refs)}",
                url=refs.sources[found.source[chunk]],
                field=f"{self.path}, chunk {self.start + chunk}",
            )
        return found


def _slabs(path: str, array: VirtualArray, options: WriteOptions, since: int = 0) -> list[_Slab]:
    """Return the references of an array from an index of its first axis on, cut as manifests are."""
    if not array.grid:
        return [_Slab(path, (), 0, array.refs, 0, options.single_range)]
    length, each = array.grid[0], math.prod(array.grid[1:])
    step = max(SPLIT // each, 1)
    refs, slabs = array.refs, []
    for first in range(since, length, step):
        count = min(step, length - first)
        start = first * each
        if not refs.has_any(start, start + count * each):
            continue  # a commit of nothing is an error
        grid = (count, *array.grid[1:])
        slabs.append(_Slab(path, grid, first, refs, start, options.single_range))
    return slabs


@dataclass(frozen=True, eq=False)
class _Change:
    """What commits hold."""

    documents: Mapping[str, Any]
    slabs: Sequence[_Slab]
    sources: Iterable[SourceRecord]
    what: str
    before: Mapping[str, int] | None = None
    """The times that arrays have already, by their paths; without it all goes that the branch held."""


def _commit(repository: Any, branch: str, change: _Change, turn: turns.Turn) -> None:
    """Put documents and references to a branch, at once for all readers.

    The branch has to be at the snapshot that was read, and to stay there.
    """
    try:
        _commit_on(repository, branch, change, turn)
    except icechunk.ConflictError as error:
        raise turns.changed(turn.url) from error
    except icechunk.IcechunkError as error:
        # `reset_branch` gives no class to the refusal
        if repository.lookup_branch(branch) == turn.version or not _is_conflict(error):
            raise
        raise turns.changed(turn.url) from error


def _is_conflict(error: icechunk.IcechunkError) -> bool:
    return "conflict" in str(error.message).lower()


def _commit_on(repository: Any, branch: str, change: _Change, turn: turns.Turn) -> None:
    records = {record.url: record for record in change.sources}
    loads = _loads(change.slabs)
    base = repository.lookup_branch(branch)
    if turn.version not in (None, base):
        raise turns.changed(turn.url)
    work = branch if len(loads) == 1 else f"jnrrdz-{secrets.token_hex(8)}"
    if work != branch:
        repository.create_branch(work, base)
    try:
        for number, load in enumerate(loads):
            session = repository.writable_session(work)
            if number == 0 and session.snapshot_id != base:
                raise turns.changed(turn.url)
            if number == 0:
                _set_documents(session.store, change)
            for slab in load:
                _set_references(session.store, slab, records)
            session.commit(change.what if len(loads) == 1 else f"{change.what}, {number + 1} of {len(loads)}")
        if work != branch:
            repository.reset_branch(branch, repository.lookup_branch(work), from_snapshot_id=base)
    finally:
        if work != branch:
            repository.delete_branch(work)


ORDER = "order"
"""The member of the root's attribute `jnrrdz` that has names in the order of the tree."""


def _in_order(documents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return documents whose root records the order of nodes, for Icechunk keeps none.

    Only groups are recorded whose names in the order of `by_number` differ: the first
    image of a file is the one that is opened.
    """
    names: dict[str, list[str]] = {}
    for key in documents:
        parent, _, name = key.removesuffix(ZARR_JSON).rstrip("/").rpartition("/")
        if name:
            names.setdefault(parent, []).append(name)
    odd = {path: own for path, own in names.items() if own != sorted(own, key=by_number)}
    if not odd:
        return documents
    root = documents[ZARR_JSON]
    attributes = root.get("attributes", {})
    own = {**attributes.get("jnrrdz", {}), ORDER: odd}
    return {**documents, ZARR_JSON: {**root, "attributes": {**attributes, "jnrrdz": own}}}


def _set_documents(store: Any, change: _Change) -> None:
    """Set the documents that differ from those that are there, after all that is there has gone where it has to."""
    if change.before is None:
        sync(get_loop(), store.clear)
    there: dict[str, Any] = {}
    for key in change.documents:
        buffer = sync(get_loop(), store.get, key, default_buffer_prototype())
        there[key] = None if buffer is None else parse_json(buffer.to_bytes())
        if change.before is not None and there[key] is not None:
            times = change.before.get(key.removesuffix(f"/{ZARR_JSON}"))
            if times is not None and there[key]["shape"][0] != times:
                raise turns.changed(key, "append again")
    for key, document in change.documents.items():
        if there[key] != document:
            _set(store, key, dumps(document).encode("ascii"))


def _loads(slabs: Sequence[_Slab]) -> list[list[_Slab]]:
    """Return slabs in the groups that are committed together."""
    loads: list[list[_Slab]] = [[]]
    size = 0
    for slab in slabs:
        chunks = math.prod(slab.grid)
        if size and size + chunks > TOGETHER:
            loads.append([])
            size = 0
        loads[-1].append(slab)
        size += chunks
    return loads


def _set(store: Any, key: str, data: bytes) -> None:
    sync(get_loop(), store.set, key, default_buffer_prototype().buffer.from_bytes(data))


def _set_references(store: Any, slab: _Slab, records: Mapping[str, SourceRecord]) -> None:
    """Set the references to each source in one call, for a call has one checksum."""
    refs = slab.refs()
    found = slab.spans(refs)
    present = np.ones(len(found.source), bool)
    for chunk, data in refs.inline.items():
        present[chunk] = False
        index = np.unravel_index(chunk, slab.grid) if slab.grid else ()
        place = [int(at) + slab.first * (axis == 0) for axis, at in enumerate(index)]
        _set(store, "/".join([slab.path, "c", *map(str, place)]), data)
    for block in _blocks(refs, found, slab.grid, present):
        refused = store.set_virtual_refs_arr(
            slab.path,
            block.shape,
            block.urls,
            found.start[block.chunks].astype(np.uint64),
            found.length[block.chunks].astype(np.uint64),
            arr_offset=(block.corner[0] + slab.first, *block.corner[1:]) if block.corner else None,
            checksum=checksum(records.get(block.named, SourceRecord(block.named))),
        )
        if refused:
            raise JnrrdzError(f"Icechunk refuses the reference of chunk {refused[0]}", url=block.named, field=slab.path)


@dataclass(frozen=True, eq=False)
class _Block:
    """Chunks of a rectangle of a slab's grid, those of one source or tree with its URL and all others without."""

    named: str
    corner: tuple[int, ...]
    shape: tuple[int, ...]
    chunks: NDArray[np.int64]
    """Their numbers in the slab."""
    urls: list[str]


def _blocks(refs: ChunkRefs, found: Spans, grid: tuple[int, ...], present: NDArray[np.bool_]) -> Iterator[_Block]:
    """Yield what has one checksum."""
    if isinstance(refs.sources, TreeFiles) or not grid:
        for number, url in enumerate(refs.named):
            whole = isinstance(refs.sources, TreeFiles)
            spelt, source = refs.spelt(found.source) if whole else ([url], found.source - number)
            known = (source >= 0) & (source < len(spelt)) & present
            # an array of objects, so that all chunks of a source share one string
            urls = np.array(["", *map(_uri, spelt)], object)[np.where(known, source + 1, 0)].tolist()
            yield _Block(url, (0,) * len(grid), grid, np.arange(len(found.source)), urls)
        return
    numbers = np.where(present, found.source, MISSING)
    order = np.argsort(numbers, kind="stable")
    used, first = np.unique(numbers[order], return_index=True)
    for number, own in zip(used.tolist(), np.split(order, first[1:]), strict=True):
        if number != MISSING:
            yield _block_of(refs.sources[number], own, grid)


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
    return file_url(absolute_path(url)) if is_local(url) else url


def require_name(name: str, known: set[str], kind: str, url: str) -> None:
    """Refuse the name of a branch or tag that a repository does not have."""
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise JnrrdzError(f"no {kind} {name!r}; there are {there}", url=url, field=kind)


def by_number(name: str) -> list[tuple[int, str]]:
    """Return what sorts names by the numbers in them: `s2` before `s10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]
