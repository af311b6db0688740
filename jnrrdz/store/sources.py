"""The sources of one manifest: trusted, opened once, and still what they were when scanned.

`SourcePool` waits for its bytes; `jnrrdz.store.requests` is the way not to.

`WholeFiles` reads files that are referred to as a whole because nobody could list them.  Only those below a tree that
the manifest's table of sources names may be absent, and only "not found" makes one so: its chunk is missing, and reads
as the fill value.  Anything else is an error, as is a whole file that the table names by itself, and a dataset that is
not there any more: moved away, it would read as nothing but fill values.
"""

import asyncio
import os
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jnrrdz.caches import BoundedCache
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.refs import WHOLE, ByteRange
from jnrrdz.core.state import ObjectState, modified_text, scanned_before
from jnrrdz.core.zarr_json import ZARR_JSON
from jnrrdz.errors import (
    DriftError,
    DriftWarning,
    JnrrdzError,
    MalformedError,
    UnsupportedError,
    UntrustedSourceError,
    UntrustedSourceWarning,
)
from jnrrdz.formats.n5.attributes import ATTRIBUTES
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.redact import printable
from jnrrdz.sources import ranges
from jnrrdz.sources.faults import is_absent
from jnrrdz.sources.local import MARGIN, LocalSource, validators_of
from jnrrdz.sources.ranges import ByteSource, Span
from jnrrdz.sources.url import local_path

type Opener = Callable[..., ByteSource]
"""`jnrrdz.sources.fsspec.open_source`, or what a test puts in its place."""

_OPEN = 256
_SHARE = 4


def most_open() -> int:
    """Return how many sources are held open at once: a quarter of the descriptors that the system gives, at most 256.

    Others are for connections, for what is read at the moment, and for whoever else works in the process.
    """
    try:
        import resource  # noqa: PLC0415  only POSIX systems have it
    except ImportError:
        return _OPEN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN if soft == resource.RLIM_INFINITY else max(min(_OPEN, soft // _SHARE), 1)


@dataclass
class OpenSource:
    """A source, and what the manifest remembers of it."""

    source: ByteSource
    record: SourceRecord | None
    local: bool = False
    """Whether it is a local file; told once, for its URL is parsed to find out."""
    checked: bool = False
    touched: DriftError | None = None
    """What was found of a local file that has its size, but another time of modification than recorded."""
    rewritten: DriftError | None = None
    """What shows that a local file was written after the manifest, though its size and time are those recorded."""
    confirmed: ObjectState | None = None
    """What it was found to be as one of many objects, whose states stand beside their references."""

    def check(self) -> None:
        """Refuse a source that is not what it was when it was scanned; looks once.

        The time alone condemns no local file: a copy of a directory changes all of them.
        """
        record = self.record
        is_known = record is not None and {record.size, record.etag, record.version, record.modified} != {None}
        if not self.checked and record is not None and is_known:
            now = self.source.validators
            change = record.difference(now, times=not self.local)
            if change is not None:
                raise scanned_before(change).at(url=self.source.url)
            self.touched = record.drift(now) if self.local else None
        self.checked = True

    def check_status(self, written: int) -> None:
        """Look whether a local file's status is newer than the manifest, which was written at a time.

        Writing sets the time of the status, and no program can put it back.  A copy, a
        link or other permissions set it too.
        """
        source = self.source
        if not written or self.touched is not None or not isinstance(source, LocalSource):
            return
        if source.status_time > written + MARGIN:
            self.rewritten = DriftError(
                f"its status changed at {modified_text(source.status_time)}, after the "
                f"manifest was written at {modified_text(written)}, and its size and "
                "time of modification are as recorded: it is a copy, has other "
                "permissions or links, or was written to and its time put back; "
                "jnrrdz refresh scans it again"
            )


class SourcePool:
    """Byte ranges by the URLs that a manifest spells."""

    def __init__(
        self, manifest: Manifest, *, options: Mapping[str, Any] | None, allow: Sequence[str], opener: Opener
    ) -> None:
        self._options = options
        self._opener = opener
        self._manifest_url = manifest.url
        self._records = manifest.records
        self._written = manifest.written
        # what was scanned was named by the user; only what a manifest names has to be trusted first
        self._trust = manifest.trust(allow)
        self._own = manifest.own_chunks
        self._vouched: tuple[str, ...] = ()
        """Folders of sources that are known to have been seen by whoever wrote the manifest."""
        self.warns = True
        self._trees = manifest.trees
        self._at_home = manifest.url is None or local_path(manifest.url) is not None
        self._start()

    @cached_property
    def _first(self) -> str | None:
        return next((url for url in self._records if not url.endswith("/")), None)

    @cached_property
    def _documents(self) -> dict[str, str]:
        """The documents of data sets in trees, by their folders."""
        files = (url for url in self._records if url.rpartition("/")[2] in _DOCUMENTS) if self._trees else ()
        return {url.rpartition("/")[0]: url for url in files}

    def _start(self) -> None:
        # a source that leaves is closed when its last reader has ended
        self._opened = BoundedCache[str, OpenSource](most=most_open())
        self._turn = threading.Lock()
        self._process = os.getpid()

    def is_local(self, url: str) -> bool:
        """Whether a source is a local file, so that reading it waits for no network."""
        return self._at_home and local_path(url) is not None

    def known(self, url: str) -> OpenSource | None:
        """Return a source that is open already."""
        return self._opened.get(url) if self._process == os.getpid() else None

    def opened(self, url: str) -> OpenSource:
        """Return a source, trusted and opened."""
        if self._process != os.getpid():  # a forked child: its parent may have held the lock
            self._start()
        found = self._opened.get(url)
        return self._open(url) if found is None else found

    def _open(self, url: str) -> OpenSource:
        place = url if self._trust is None else self._trust.resolve(url)
        guard = None if self._trust is None else self._trust.guard_for(place)
        record = self._records.get(url)
        self._look_at_word(url, place, record)
        is_own = self._own is not None and url.startswith(self._own[0])
        options = self._own[1] if self._own is not None and is_own else self._options
        source = self._opener(place, storage_options=options, guard=guard, expected=record)
        opened = OpenSource(source, record, self._at_home and isinstance(source, LocalSource))
        if opened.local:
            opened.check()
            if record is not None and record.modified is not None:
                opened.check_status(self._written)
            if opened.rewritten is not None:
                self._warn(opened.rewritten.message, url)
            if opened.touched is not None and not url.startswith(self._trees or ("\0",)):
                self._warn_of_time(opened.touched, url)
        return self._opened.made(url, lambda: opened)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Open sources without a warning; those that one is due of are opened again afterwards."""
        self.warns = False
        try:
            yield
        finally:
            self.warns = True
            for url, opened in self._opened.entries():
                if opened.touched is not None or opened.rewritten is not None:
                    self._opened.pop(url)

    def _look_at_word(self, url: str, place: str, record: SourceRecord | None) -> None:
        """Warn of a source that only the word of a local manifest lets be read, if it does not say what that was.

        A stranger does not know when a file here was written; what a record says is compared when it is opened.
        """
        path = local_path(place)
        says = record is not None and (record.modified or (path is None and (record.size or record.etag)))
        if says or self._trust is None or url.startswith(self._vouched or ("\0",)):
            return
        if not self._trust.takes_its_word(place) or self._vouches(url, path):
            return
        self._vouched = ("",)  # one warning is enough
        warnings.warn(
            f"{self._manifest_url} names {place}, outside of its folder, and does not show that who wrote it has seen "
            f"that: look at it first if it came from elsewhere; --allow {place} (allow=) says that you mean it",
            UntrustedSourceWarning,
            stacklevel=2,
        )

    def _vouches(self, url: str, path: str | None) -> bool:
        """Whether a source was seen with another one: a file at or above its folder is as the manifest records it.

        A data set's metadata and a header of tiles are such files.  A container elsewhere has no state that could be
        compared.
        """
        if path is None:
            return url.startswith(self._trees or ("\0",))
        folders = {str(parent) for parent in Path(path).parents}
        for record in self._records.values():
            if record.modified and self._is_unchanged(record, folders):
                self._vouched += (f"{record.url.rpartition('/')[0]}/",)
                return True
        return False

    def _is_unchanged(self, record: SourceRecord, folders: Collection[str]) -> bool:
        """Whether a local file is in one of some folders, and is what its record says."""
        try:
            path = local_path(record.url if self._trust is None else self._trust.resolve(record.url))
            if path is None or str(Path(path).parent) not in folders:
                return False
            state = Path(path).stat()
        except (UntrustedSourceError, OSError):
            return False
        return record.is_proven_by(validators_of(state))

    def _warn_of_time(self, touched: DriftError, url: str) -> None:
        self._warn(f"{touched.message} unless this is a copy, which has a time of its own", url)

    def _warn(self, message: str, url: str) -> None:
        if self.warns:  # once for all files of a manifest
            self.warns = False
            warnings.warn(f"{printable(url)}: {message}", DriftWarning, stacklevel=2)

    def confirm(self, opened: OpenSource, url: str, expected: ObjectState) -> None:
        """Refuse one of many objects that is not what it was when it was listed, or whose data set is not.

        A copy of a directory changes the time of every file.  So a local file of the recorded size that has
        another time is a copy's only where the metadata of its data set have another time too, and the other
        way round.
        """
        now = opened.source.known  # of some stores an answer tells nothing, and asking is a request for each object
        if opened.confirmed == expected or now is None:
            return
        metadata = self.metadata_of(url)
        drift = expected.drift(now)
        touched = None if metadata is None else metadata.touched
        if drift is None and touched is not None and metadata is not None and expected.number > 0:
            raise touched.at(url=metadata.source.url)
        if drift is not None:
            is_copy = opened.local and expected.size == now.size
            if not is_copy or (metadata is not None and touched is None):
                raise drift.at(url=url)
            self._warn_of_time(drift, url)
        elif opened.local:
            opened.check_status(self._written)
            if opened.rewritten is not None:
                self._warn(opened.rewritten.message, url)
        opened.confirmed = expected

    def metadata_of(self, url: str) -> OpenSource | None:
        """Return the metadata of the data set that an object is part of, checked; None where none are recorded.

        Those of N5 stand in a folder above the object, tiles have the header that names them.
        """
        folder = url if self._documents else ""
        while folder not in self._documents and "/" in folder:
            folder = folder.rpartition("/")[0]
        document = self._documents.get(folder, self._first)
        if document is None:
            return None
        opened = self.opened(document)
        if not opened.checked:
            with self._turn:  # many objects ask at once, and their store is asked once
                opened.check()
        return opened

    def sized(self, wanted: Sequence[ByteRange]) -> list[ByteRange]:
        """Return the ranges, those that end where their source does with their length."""
        return [(url, offset, self._length(url, offset, length)) for url, offset, length in wanted]

    def _length(self, url: str, offset: int, length: int) -> int:
        if length != WHOLE:
            return length
        size = self.opened(url).source.validators.size
        if offset > size:
            raise MalformedError(f"a source of {size} bytes ends before the range", url=url, offset=offset)
        return size - offset

    def read(self, wanted: Sequence[ByteRange], expected: ObjectState | None = None) -> bytes:
        """Return the bytes of some ranges, one after another; of one object, where its state is given."""
        if len(wanted) == 1:
            return self._read(*wanted[0], expected)
        return b"".join([self._read(*one, expected) for one in wanted])

    def pieces(self, url: str, spans: list[Span]) -> Sequence[memoryview | None]:
        """Return pieces of a local file, near ones read at once; None for those that have to be read by themselves.

        That is so for pieces that are not all there, and for all where the file cannot be read: `read` says why.
        """
        try:
            opened = self.opened(url)
            first, last = min(spans)[0], max(stop for _, stop in spans)
            if not opened.local or last > opened.source.validators.size:
                return [None] * len(spans)
            if last - first <= 2 * sum(stop - start for start, stop in spans) + ranges.GAP:
                data = memoryview(opened.source.read([(first, last)])[0])
                return [data[start - first : stop - first] for start, stop in spans]
            return [memoryview(data) for data in opened.source.read(spans)]
        except JnrrdzError:
            return [None] * len(spans)

    def _read(self, url: str, offset: int, length: int, expected: ObjectState | None) -> bytes:
        if not length:
            return b""
        opened = self.opened(url)
        if opened.local and expected is not None:
            self.confirm(opened, url, expected)
        if opened.local and offset + length > opened.source.validators.size:
            # said before reading: a manifest may claim any length
            raise truncated(opened.source, offset, length, max(opened.source.validators.size - offset, 0))
        (data,) = opened.source.read([(offset, offset + length)])
        opened.check()
        if not opened.local and expected is not None:
            self.confirm(opened, url, expected)
        if len(data) != length:
            raise truncated(opened.source, offset, length, len(data))
        return data


def truncated(source: ByteSource, offset: int, length: int, found: int) -> MalformedError:
    """Return the error for a range that is not all there."""
    return MalformedError(
        f"truncated: {found} of {length} bytes are there; the file and its references do not belong together",
        url=source.url,
        offset=offset,
    )


_DOCUMENTS = (ATTRIBUTES, ZARR_JSON, ".zarray")
"""What makes a folder a data set of N5, or an array of Zarr."""

LARGEST = 1 << 30
"""Bytes of a file whose length nobody knows before it is read."""


class WholeFiles:
    """Whole files of a manifest's trees, each asked for once and without asking for its size."""

    def __init__(self, manifest: Manifest, pool: SourcePool) -> None:
        self._trees = manifest.trees
        self._manifest = manifest
        self._pool = pool
        self._lock = threading.Lock()
        self._there: set[str] = set()

    @property
    def any(self) -> bool:
        """Whether the manifest has trees of such files."""
        return bool(self._trees)

    def covers(self, wanted: Sequence[ByteRange]) -> bool:
        """Whether a chunk is such a file."""
        if not self._trees or len(wanted) != 1:
            return False
        ((url, offset, length),) = wanted
        return offset == 0 and length == WHOLE and url.startswith(self._trees)

    def expected(self, wanted: Sequence[ByteRange], key: str) -> ObjectState | None:
        """Return what a chunk's object was when it was listed, None where the manifest does not say it."""
        if not self._trees or len(wanted) != 1 or not wanted[0][0].startswith(self._trees):
            return None
        chunk = self._manifest.chunk(key)
        if chunk is None:
            return None
        path, number = chunk
        version = self._manifest.arrays[path].chunk_version(number)
        _, offset, length = wanted[0]
        return ObjectState(offset + length, version) if version else None

    def read(self, wanted: Sequence[ByteRange], key: str, most: int) -> bytes | None:
        """Return a file's bytes, of which there may be so many, None where there is none."""
        url, limit = wanted[0][0], min(most, LARGEST)
        try:
            return self._checked(self._pool.opened(url).source.read([(0, limit + 1)])[0], url, limit)
        except JnrrdzError as error:
            if not is_absent(error):
                raise
        self._require_dataset(url, key)
        return None

    async def aread(self, wanted: Sequence[ByteRange], key: str, most: int) -> bytes | None:
        """Do the same without blocking the loop."""
        url, limit = wanted[0][0], min(most, LARGEST)
        try:
            opened = self._pool.known(url)
            if opened is None:
                opened = await asyncio.to_thread(self._pool.opened, url)
            (data,) = await opened.source.aread([(0, limit + 1)])
            return await asyncio.to_thread(self._checked, data, url, limit)
        except JnrrdzError as error:
            if not is_absent(error):
                raise
        await asyncio.to_thread(self._require_dataset, url, key)
        return None

    def _require_dataset(self, url: str, key: str) -> None:
        """Refuse to take a block for absent where its dataset's metadata are not there either; looks once."""
        path = self._manifest.array_path(key)
        axes = 1 if path is None else len(self._manifest.keys[path].grid)
        folder = re.sub(rf"/(?:c(?:[./]|$))?(?:[0-9]+(?:[./]|$)){{0,{axes}}}$", "/", url)
        with self._lock:
            if folder in self._there:
                return
            for name in _DOCUMENTS:
                try:
                    self._pool.opened(f"{folder}{name}").source.read([(0, 1)])
                except JnrrdzError as error:
                    if not is_absent(error):
                        raise
                else:
                    self._there.add(folder)
                    return
            raise JnrrdzError("neither the block nor its dataset is there any more", url=url)

    def _checked(self, data: bytes, url: str, limit: int) -> bytes:
        """Return a file's bytes; its data set's metadata have to be what they were."""
        self._pool.metadata_of(url)
        if len(data) > limit:
            raise UnsupportedError(f"a block of more than {limit} bytes; index it where it can be listed", url=url)
        if not data:
            raise JnrrdzError("an empty file where a block is expected", url=url)
        return data
