"""A read-only Zarr store over references.

Follows https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#abstract-store-interface.  What was
decided about it, and why: docs/decisions/002-reference-store.md.
"""

import asyncio
import atexit
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import loop as loop_of_zarr

from jnrrdz.codecs.chains import checked_document, most_stored
from jnrrdz.concurrency import end
from jnrrdz.core.refs import WHOLE, ByteRange, Ints, Ranges, References
from jnrrdz.core.tree import consolidating
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.documents import ChunkKeys, Documents, is_metadata
from jnrrdz.manifests.manifest import Manifest, load
from jnrrdz.redact import hidden
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.ranges import MOST, Span
from jnrrdz.store.heads import ChunkHeads, heads_of
from jnrrdz.store.requests import Batches, Taker, Walks
from jnrrdz.store.sources import Opener, SourcePool, WholeFiles


def cut(data: bytes | None, byte_range: ByteRequest | None) -> bytes | None:
    """Return a part of a value, None where there is none."""
    return None if data is None else data[slice(*window(byte_range, len(data)))]


def window(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """Return the first byte and the byte after the last one of a part of a value."""
    match byte_range:
        case None:
            return 0, size
        case RangeByteRequest(start, end):
            return min(start, size), min(end, size)
        case OffsetByteRequest(offset):
            return min(offset, size), size
        case SuffixByteRequest(suffix):
            return max(size - suffix, 0), size
    raise TypeError(f"Unexpected byte_range, got {byte_range!r}")


LAST_SECONDS = 1.0
"""How long the end of the process waits for reads that are cancelled."""


@atexit.register
def cancel_pending_reads() -> None:
    """Cancel what zarr's event loop still has to do when the process ends.

    Where a chunk fails, zarr lets the reads and writes of others run on.  At exit it stops the loop under them, and
    Python reports each as "Task was destroyed but it is pending".  This runs first, for it was registered later.
    """
    (loop,) = loop_of_zarr
    if loop is not None and loop.is_running():
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(LAST_SECONDS)


async def _cancel_others() -> None:
    await end(asyncio.all_tasks() - {asyncio.current_task()})


type Options = Mapping[str, Any] | None


class ReferenceStore(Store):
    """The keys of a manifest; it pickles as the manifest's URL, or as its columns if it was scanned."""

    supports_writes: bool = False
    supports_deletes: bool = False
    supports_listing: bool = True

    def __init__(  # noqa: PLR0913 - what a manifest does not say itself
        self,
        manifest: Manifest,
        *,
        storage_options: Options = None,
        source_options: Options = None,
        allow: Sequence[str] = (),
        templates: Mapping[str, str] | None = None,
        opener: Opener = open_source,
        read_only: bool = True,
    ) -> None:
        if not read_only:
            raise UnsupportedError("references cannot be written through; open the store read-only", url=manifest.url)
        super().__init__(read_only=True)
        self.manifest = manifest
        self._storage_options = storage_options
        self._access = {
            "source_options": source_options,
            "allow": tuple(allow),
            "opener": opener,
            "templates": templates,
        }
        self._pool = SourcePool(manifest, options=source_options, allow=allow, opener=opener)
        self._batches = Batches(self._pool)
        self._wholes = WholeFiles(manifest, self._pool)
        self._walks: dict[str, Walks] = {}
        self._heads: dict[str, ChunkHeads | None] = {}
        self._served: dict[str, bytes | None] = {}
        self._stored: dict[str, tuple[int, int]] = {}
        self._sync: bool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        url = self.manifest.url
        return _reopened, (self.manifest if url is None else url, self._storage_options, self._access)

    def __eq__(self, other: object) -> bool:
        """Whether both read the same references with the same rights."""
        if not isinstance(other, ReferenceStore):
            return NotImplemented
        return self._access == other._access and (self.manifest is other.manifest or self.manifest == other.manifest)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"ReferenceStore({str(self)!r})"

    def __str__(self) -> str:
        return str(self.manifest)

    def with_read_only(self, read_only: bool = False) -> Self:  # noqa: FBT001, FBT002 - zarr's signature
        """Return a new store over the same references; only a read-only one can be had."""
        kwargs: dict[str, Any] = {**self._access, "storage_options": self._storage_options}
        return type(self)(self.manifest, **kwargs, read_only=read_only)

    @property
    def pool(self) -> SourcePool:
        """The sources, opened once each."""
        return self._pool

    # Reading

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of a key or of a part of it, None where the manifest has none."""
        buffer = (prototype or default_buffer_prototype()).buffer
        try:
            found = await self._found(key)
            data = await self._fetched(key, found, byte_range) if isinstance(found, list) else cut(found, byte_range)
        except JnrrdzError as error:
            raise error.at(field=key) from error.__cause__
        return None if data is None else _marked(buffer.from_bytes(data), self, key)

    async def _found(self, key: str) -> list[ByteRange] | bytes | None:
        """Return what the manifest has for a key, off the loop where that has to be fetched."""
        chunk = None if key in self.manifest.documents else self.manifest.chunk(key)
        if chunk is None:
            return self._document(key)
        path, number = chunk
        refs = self.manifest.arrays[path]
        if refs.ready(number):
            return _or_missing(refs.lookup(number))
        return _or_missing(await asyncio.to_thread(refs.lookup, number))

    async def _fetched(self, key: str, wanted: list[ByteRange], byte_range: ByteRequest | None) -> bytes | None:
        if self._wholes.covers(wanted):
            return cut(await self._wholes.aread(wanted, key, self._most(key)[1]), byte_range)
        expected = self._wholes.expected(wanted, key)
        if all(self._pool.is_local(url) for url, _, _ in wanted):
            return self._pool.read(self._part(key, wanted, byte_range), expected)
        if any(length == WHOLE for _, _, length in wanted):
            wanted = await asyncio.to_thread(self._pool.sized, wanted)
        part = self._part(key, wanted, byte_range)
        pieces = await asyncio.gather(*[self._batches.ask(*one, expected) for one in part])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Do the same without an event loop; waits where the source is not local."""
        buffer = (prototype or default_buffer_prototype()).buffer
        try:
            found = self._lookup(key)
            if isinstance(found, list) and not self._wholes.covers(found):
                expected = self._wholes.expected(found, key)
                data: bytes | None = self._pool.read(self._part(key, found, byte_range), expected)
            else:
                whole = self._wholes.read(found, key, self._most(key)[1]) if isinstance(found, list) else found
                data = cut(whole, byte_range)
        except JnrrdzError as error:
            raise error.at(field=key) from error.__cause__
        return None if data is None else _marked(buffer.from_bytes(data), self, key)

    def _lookup(self, key: str) -> list[ByteRange] | bytes | None:
        """Do the same, waiting for it."""
        chunk = None if key in self.manifest.documents else self.manifest.chunk(key)
        if chunk is None:
            return self._document(key)
        path, number = chunk
        return _or_missing(self.manifest.arrays[path].lookup(number))

    def _document(self, key: str) -> bytes | None:
        """Return a document as zarr is to take it, with codecs that are bounded; Zarr v2's mean nothing here."""
        if key not in self._served:
            documents = self.manifest.documents
            text = documents.get(key)
            if is_metadata(key):
                text = None if text is None or not key.endswith(ZARR_JSON) else checked_text(documents, key)
            self._served[key] = text
        return self._served[key]

    def _most(self, key: str) -> tuple[int, int]:
        """Return the bytes of the chunk that a key names, and the most that it may be stored in."""
        return self._most_of(self.manifest.array_path(key) or "")

    def _most_of(self, path: str) -> tuple[int, int]:
        """Return the bytes of an array's chunks, and the most that one may be stored in."""
        if path not in self._stored:
            self._stored[path] = most_stored(self.manifest.documents.node(path))
        return self._stored[path]

    def _part(self, key: str, wanted: list[ByteRange], byte_range: ByteRequest | None) -> list[ByteRange]:
        """Return the ranges of the part of a value that is asked for."""
        sized = self._pool.sized(wanted)
        total = sum(length for _, _, length in sized)
        size, most = self._most(key)
        if total > most:  # said before reading: a manifest may claim any length, of any file
            message = f"{total} bytes stored for a chunk of {size}; no more than {most} are read for it"
            raise MalformedError(message, url=sized[0][0], offset=sized[0][1])
        if byte_range is None:
            return sized
        start, stop = window(byte_range, total)
        part, at = [], 0
        for url, offset, length in sized:
            first, last = max(start - at, 0), min(stop - at, length)
            if first < last:
                part.append((url, offset + first, last - first))
            at += length
        return part

    def reads_at_once(self, path: str) -> bool:
        """Whether the chunks of an array are ranges of files that were scanned as files, not listed as trees."""
        return path in self.manifest.arrays and not self._wholes.any

    def ranges_of(self, path: str, windows: Sequence[Sequence[range]]) -> Ranges:
        """Return the ranges of the chunks of windows, each in C order; those that are too long are left to `get`.

        A chunk of several windows counts with the first.
        """
        keys = self.manifest.keys[path]
        numbers = np.concatenate([_numbers(keys, chunks) for chunks in windows])
        if len(windows) > 1:
            numbers = numbers[np.sort(np.unique(numbers, return_index=True)[1])]
        try:
            found = self.manifest.arrays[path].ranges_of(numbers)
        except JnrrdzError as error:
            raise error.at(field=path) from error.__cause__
        _, most = self._most_of(path)
        return found._replace(counts=np.where(found.length > most, -1, found.counts))

    def needed_ranges_of(self, path: str, windows: Sequence[Sequence[range]]) -> Ranges:
        """Return the same, of remote chunks no more than the codec needs: their first bytes may be read for that."""
        ranges = self.ranges_of(path, windows)
        if path not in self._heads:
            made = heads_of(self.manifest.documents.node(path))
            self._heads[path] = None if made is None else ChunkHeads(made, self._pool, self._batches.keep)
        heads = self._heads[path]
        return ranges if heads is None else heads.shortened(ranges, self.elsewhere(ranges))

    def elsewhere(self, ranges: Ranges) -> Ints:
        """Return which of some chunks are one range of a remote source each."""
        is_one = (ranges.counts == 1) & (ranges.length > 0) & (ranges.offset <= MOST - ranges.length)
        sources = np.unique(ranges.source[is_one]).tolist()
        remote = [source for source in sources if self._is_remote(ranges.urls[source])]
        return np.flatnonzero(is_one & np.isin(ranges.source, remote))

    def _is_remote(self, url: str) -> bool:
        """Whether a source is remote; one whose URL is refused is not: `get` tells why, and of which chunk."""
        try:
            return not self._pool.is_local(url)
        except JnrrdzError:
            return False

    async def each(self, ranges: Ranges, chunks: Ints, workers: int, taker: Taker) -> None:
        """Hand on the bytes of remote chunks as they come, near ones fetched together."""
        await self._batches.each(ranges, chunks, workers, taker)

    def walks(self, path: str, shape: Sequence[int]) -> Walks:
        """Return what is known of the windows that were read of an array."""
        return self._walks.setdefault(path, Walks(shape))

    async def read_ahead(self, path: str, windows: Sequence[Sequence[range]]) -> None:
        """Fetch the remote chunks of windows in the background, unless their references cannot be read."""
        try:
            ranges = await asyncio.to_thread(self.needed_ranges_of, path, windows)
        except JnrrdzError:  # told to whoever reads such a window
            return
        self._batches.ahead(ranges, self.elsewhere(ranges))

    def close(self) -> None:
        """Give up what is read ahead."""
        self._batches.close()
        super().close()

    def chunks_at(self, ranges: Ranges, first: int, stop: int) -> list[memoryview | None]:
        """Return the bytes of a run of chunks, near ones read at once; None for those that `get` has to read."""
        found: list[memoryview | None] = [None] * (stop - first)
        spans: defaultdict[int, dict[int, Span]] = defaultdict(dict)
        columns = (ranges.counts, ranges.source, ranges.offset, ranges.length)
        rows = zip(*(column[first:stop].tolist() for column in columns), strict=True)  # of few, numpy takes longer
        for place, (count, source, offset, length) in enumerate(rows):
            if count == 1:
                spans[source][place] = offset, offset + length
        for source, wanted in spans.items():
            pieces = self._pool.pieces(ranges.urls[source], list(wanted.values()))
            for place, piece in zip(wanted, pieces, strict=True):
                found[place] = piece
        return found

    async def get_many(self, keys: Iterable[str], prototype: BufferPrototype | None = None) -> list[Buffer | None]:
        """Return the bytes of many keys, near ones fetched together."""
        return await asyncio.gather(*[self.get(key, prototype) for key in keys])

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of many keys, near ones fetched together."""
        return await asyncio.gather(*[self.get(key, prototype, part) for key, part in key_ranges])

    async def exists(self, key: str) -> bool:
        """Whether the manifest has something for a key."""
        return await self._found(key) is not None

    async def getsize(self, key: str) -> int:
        """Return the number of bytes of a key, without reading them."""
        found = await self._found(key)
        if found is None:
            raise FileNotFoundError(key)
        if isinstance(found, list):
            return sum(length for _, _, length in await asyncio.to_thread(self._pool.sized, found))
        return len(found)

    def describe(self, key: str) -> str:
        """Return where a key's bytes are, for people: `file.tif bytes 1234-5678`, the last byte included."""
        found = self._lookup(key)
        if found is None:
            return "in no source"
        if isinstance(found, bytes):
            return f"inline in {self}, {len(found)} bytes"
        by_url: dict[str, list[str]] = {}
        for url, offset, length in found:
            by_url.setdefault(url, []).append(f"{offset}-{'' if length == WHOLE else offset + length - 1}")
        return ", ".join(f"{hidden(url)} bytes {', '.join(spans)}" for url, spans in by_url.items())

    def source_head(self, path: str, nbytes: int) -> bytes:
        """Return the first bytes of the source that an array's chunks stand in, none where it has no chunks."""
        refs = self.manifest.arrays[path]
        for chunk in refs.present:
            found = refs.lookup(int(chunk))
            if isinstance(found, list) and found:
                return self._pool.read([(found[0][0], 0, nbytes)])
        return b""

    def with_documents(self, documents: Mapping[str, bytes]) -> "ReferenceStore":
        """Return a store of the same references under other metadata."""
        return self.with_manifest(replace(self.manifest, documents=Documents(documents)))

    def with_manifest(self, manifest: Manifest) -> "ReferenceStore":
        """Return a store of another manifest with the same rights."""
        kwargs: dict[str, Any] = {**self._access, "storage_options": self._storage_options}
        return ReferenceStore(manifest, **kwargs)

    # Listing

    async def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        for key in keys(self.manifest):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key that begins with a prefix."""
        for key in keys(self.manifest, prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below a prefix."""
        for name in children(self.manifest, prefix):
            yield name

    # What zarr asks about

    @property
    def _supports_sync_io(self) -> bool:
        """Whether zarr may read on the calling thread: only where no source is remote."""
        if self._sync is None:
            self._sync = self._all_local()
        return self._sync

    def _all_local(self) -> bool:
        sources = self.manifest.sources
        urls = {record.url for record in sources[:1]}
        for refs in self.manifest.arrays.values():
            if refs.is_in_memory:
                urls.update(refs.sources)
            elif not sources:
                return False  # only its record files know, and they are not read for this
        try:
            return all(map(self._pool.is_local, urls)) and self.manifest.is_all_local
        except JnrrdzError:  # a URL that will be refused when it is needed
            return False

    # Refusing to write

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse."""
        self._refuse(key, value)

    async def delete(self, key: str) -> None:
        """Refuse."""
        self._refuse(key)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refuse."""
        self._refuse(key, value)

    def delete_sync(self, key: str) -> None:
        """Refuse."""
        self._refuse(key)

    def _refuse(self, *_: object) -> NoReturn:
        self._check_writable()
        raise AssertionError  # the store is read-only


class Origin(NamedTuple):
    """Where a buffer's bytes come from: what a codec in a longer chain is not told otherwise."""

    store: ReferenceStore
    path: str


def _marked(buffer: Buffer, store: ReferenceStore, key: str) -> Buffer:
    """Return the buffer with its origin, for the errors of codecs that get nothing but bytes."""
    vars(buffer)["origin"] = Origin(store, key)
    return buffer


def _reopened(manifest: Manifest | str, options: Options, access: Mapping[str, Any]) -> ReferenceStore:
    if isinstance(manifest, str):
        manifest = load(manifest, storage_options=options, templates=access["templates"])
    return ReferenceStore(manifest, storage_options=options, **access)


def checked_text(documents: Documents, key: str) -> bytes:
    """Return the text of a document as zarr is to take it; what a group consolidates is what its members' own say."""
    said = documents.whole(key)
    made = checked_document(documents.parsed(key))
    consolidated = said.get("consolidated_metadata")
    if consolidated is not None:
        members = consolidated.get("metadata") if isinstance(consolidated, dict) else None
        folder = key.removesuffix(ZARR_JSON)
        found = {name: f"{folder}{name}/{ZARR_JSON}" for name in (members if isinstance(members, dict) else {})}
        own = {name: checked_document(documents.parsed(at)) for name, at in found.items() if at in documents}
        made = consolidating(made, own)
    return documents[key] if made == said else dumps(made).encode()


def _numbers(keys: ChunkKeys, chunks: Sequence[range]) -> Ints:
    """Return the numbers of the chunks of a window, in C order."""
    numbers = np.zeros((), np.int64)
    for along, stride in zip(chunks, keys.strides, strict=True):
        numbers = np.add.outer(numbers, np.arange(along.start, along.stop, dtype=np.int64) * stride)
    return numbers.ravel()


def _or_missing(found: list[ByteRange] | bytes) -> list[ByteRange] | bytes | None:
    return None if found == [] else found


def keys(manifest: Manifest, prefix: str = "") -> Iterator[str]:
    """Yield every key that begins with a prefix."""
    yield from (key for key in manifest.documents if key.startswith(prefix))
    for path, refs in manifest.arrays.items():
        chunk_keys = manifest.keys[path]
        common = min(len(prefix), len(chunk_keys.prefix))
        if prefix[:common] != chunk_keys.prefix[:common]:
            continue
        for number in refs.present:
            key = chunk_keys.key(int(number))
            if key.startswith(prefix):
                yield key


def children(manifest: Manifest, prefix: str) -> Iterator[str]:
    """Yield the names of what stands directly below a prefix, each once."""
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    names = {key[len(folder) :].partition("/")[0]: None for key in manifest.documents if key.startswith(folder)}
    for path, refs in manifest.arrays.items():
        names.update(dict.fromkeys(_below(refs, manifest.keys[path], folder)))
    yield from names


def _below(refs: References, keys: ChunkKeys, folder: str) -> Iterator[str]:
    """Yield the names that an array's chunks make directly below a folder."""
    prefix = keys.prefix
    name, deeper, _ = prefix.removeprefix(folder).partition("/")
    if prefix.startswith(folder) and deeper:
        yield name  # the array's path, or the `c` of its chunks
    elif prefix.startswith(folder) and (keys.separator == "." or not keys.grid):
        yield from (keys.key(int(number))[len(folder) :] for number in refs.present)
    elif folder.startswith(prefix) or prefix == folder:
        lead = folder[len(prefix) :].split("/")[:-1]
        yield from map(str, _next_indices(keys, refs.present, lead))


def _next_indices(keys: ChunkKeys, present: Ints, lead: list[str]) -> Ints:
    """Return the indices that follow some leading ones."""
    if keys.separator != "/" or len(lead) >= len(keys.grid) or not all(part.isdecimal() for part in lead):
        return present[:0]
    index = np.unravel_index(present, keys.grid)
    fits = np.ones(len(present), bool)
    for axis, part in zip(index, lead, strict=False):
        fits &= axis == int(part)
    return np.unique(index[len(lead)][fits])
