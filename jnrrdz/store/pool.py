"""The sources of one manifest: trusted, opened once, and still what they were when scanned.

May touch sources, read.trust, read.manifest and errors.  Everything here waits for its bytes;
read.batches is the way not to.
"""

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.array import SourceRecord
from jnrrdz.core.refs import WHOLE, ByteRange
from jnrrdz.errors import DriftError, DriftWarning, MalformedError
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.manifests.trust import Trust
from jnrrdz.sources.base import ByteSource, since_scanned
from jnrrdz.sources.url import local_path

type Opener = Callable[..., ByteSource]
"""`jnrrdz.sources.fsspec.open_source`, or what a test puts in its place."""

_OPEN = 256  # sources held open at once, well below the usual limit of 1,024 descriptors


@dataclass
class Opened:
    """A source, and what the manifest remembers of it."""

    source: ByteSource
    record: SourceRecord | None
    local: bool = False
    """Whether it is a local file; told once, for its URL is parsed to find out."""
    checked: bool = False
    touched: DriftError | None = None
    """What was found of a local file that has its size, but another time of modification than recorded."""

    def check(self) -> None:
        """Refuse a source that is not what it was when it was scanned; looks once.

        The time alone condemns no local file: a copy of a directory changes all of them.
        """
        record = self.record
        if not self.checked and record is not None and (record.size, record.etag, record.modified) != (None,) * 3:
            drift = since_scanned(record, self.source.validators)
            if drift is not None and not (self.local and record.size in {None, self.source.validators.size}):
                raise drift.at(url=self.source.url)
            self.touched = drift
        self.checked = True


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
        self.warns = True
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
        record = self._records.get(url)
        source = self._opener(place, storage_options=self._options, guard=guard, expected=record)
        opened = Opened(source, record, self.is_local(url))
        if opened.local:
            opened.check()
            self._warn(opened)
        with self._lock:
            if len(self._opened) >= _OPEN:
                self._opened.pop(next(iter(self._opened)))  # whoever reads from it holds it until done
            return self._opened.setdefault(url, opened)

    def _warn(self, opened: Opened) -> None:
        """Say once for all files of a manifest that their times are not those recorded."""
        if opened.touched is not None and self.warns:
            self.warns = False
            text = f"{opened.source.url}: {opened.touched.message} unless this is a copy, which has a time of its own"
            warnings.warn(text, DriftWarning, stacklevel=2)

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
        if opened.local and offset + length > opened.source.validators.size:
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
