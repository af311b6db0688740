"""The sources of one manifest: trusted, opened once, and still what they were when scanned.

May touch sources, read.trust, read.manifest and errors.  Everything here waits for its bytes;
read.batches is the way not to.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.errors import DriftError, MalformedError
from jnrrdz.model.array import SourceRecord
from jnrrdz.model.refs import ByteRange
from jnrrdz.read.columns import WHOLE
from jnrrdz.read.manifest import Manifest
from jnrrdz.read.trust import Trust
from jnrrdz.source.base import ByteSource
from jnrrdz.source.url import local_path

type Opener = Callable[..., ByteSource]
"""`jnrrdz.source.fsspec.open_source`, or what a test puts in its place."""

_OPEN = 256  # sources held open at once, well below the usual limit of 1,024 descriptors


@dataclass
class Opened:
    """A source, and what the manifest remembers of it."""

    source: ByteSource
    record: SourceRecord | None
    checked: bool = False

    def check(self) -> None:
        """Refuse a source that is not what it was when it was scanned; looks once."""
        record = self.record
        if not self.checked and record is not None and (record.size is not None or record.etag is not None):
            found = self.source.validators
            if record.size not in {None, found.size}:
                raise self._drifted("size", record.size, found.size)
            if None not in {record.etag, found.etag} and _strong(record.etag) != _strong(found.etag):
                raise self._drifted("ETag", record.etag, found.etag)
        self.checked = True

    def _drifted(self, what: str, then: object, now: object) -> DriftError:
        text = f"changed since it was scanned: {what} was {then}, is {now}; index it again"
        return DriftError(text, url=self.source.url, field=what.lower())


def _strong(etag: str | None) -> str:
    """Return an ETag without its mark of weakness, which servers add and drop on the way."""
    return (etag or "").removeprefix("W/")


class SourcePool:
    """Byte ranges by the URLs that a manifest spells."""

    def __init__(
        self, manifest: Manifest, *, options: Mapping[str, Any] | None, allow: Sequence[str], opener: Opener
    ) -> None:
        self._options = options
        self._opener = opener
        self._records = {record.url: record for record in manifest.sources}
        # what was scanned was named by the user; only what a manifest names has to be trusted first
        self._trust = None if manifest.url is None else Trust(manifest.url, tuple(self._records), tuple(allow))
        self._at_home = manifest.url is None or local_path(manifest.url) is not None
        self._start()

    def _start(self) -> None:
        self._opened: dict[str, Opened] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def is_local(self, url: str) -> bool:
        """Whether a source is a local file, so that reading it waits for no network."""
        return self._at_home and local_path(url) is not None

    def known(self, url: str) -> Opened | None:
        """Return a source that is open already."""
        return self._opened.get(url) if self._process == os.getpid() else None

    def opened(self, url: str) -> Opened:
        """Return a source, trusted and opened."""
        if self._process != os.getpid():  # a forked child: its parent may have held the lock
            self._start()
        found = self._opened.get(url)
        return self._open(url) if found is None else found

    def _open(self, url: str) -> Opened:
        place = url if self._trust is None else self._trust.resolve(url)
        guard = None if self._trust is None else self._trust.guard_for(place)
        source = self._opener(place, storage_options=self._options, guard=guard)
        opened = Opened(source, self._records.get(url))
        if self.is_local(url):
            opened.check()
        with self._lock:
            if len(self._opened) >= _OPEN:
                self._opened.pop(next(iter(self._opened)))  # whoever reads from it holds it until done
            return self._opened.setdefault(url, opened)

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

    def read(self, wanted: Sequence[ByteRange]) -> bytes:
        """Return the bytes of some ranges, one after another."""
        if len(wanted) == 1:
            return self._read(*wanted[0])
        return b"".join([self._read(*one) for one in wanted])

    def _read(self, url: str, offset: int, length: int) -> bytes:
        if not length:
            return b""
        opened = self.opened(url)
        if self.is_local(url) and offset + length > opened.source.validators.size:
            # said before reading: a manifest may claim any length
            raise truncated(opened.source, offset, length, max(opened.source.validators.size - offset, 0))
        (data,) = opened.source.read([(offset, offset + length)])
        opened.check()
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
