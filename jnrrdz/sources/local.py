"""Bytes of a local file, by positioned reads on one descriptor.

Safe from any thread: `pread` has no position to share, and a reader keeps the descriptor alive until it has
finished, whoever closes the source meanwhile.  A process holds at most half of the descriptors that the system
allows it: the source that was opened first is closed for another, and opens its file again when it is read.
"""

import errno
import os
import stat
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from jnrrdz.core.state import Validators, modified_text
from jnrrdz.errors import DriftError, DriftWarning, JnrrdzError, UnsupportedError
from jnrrdz.redact import printable
from jnrrdz.sources import faults, ranges
from jnrrdz.sources.ranges import Span


class LocalSource:
    """A regular file; reopened by itself after `close` and in another process."""

    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._path = os.path.abspath(path)  # noqa: PTH100  # pathlib would resolve nothing more
        self._lock = threading.Lock()
        self._open_file: _OpenFile | None = None
        self._validators: Validators | None = None
        self._status: Status | None = None
        with faults.translate_errors(url, "opening"):
            self._open_file = self._reopen()
        _close_oldest(self)

    @property
    def url(self) -> str:
        """The URL or path as it was given."""
        return self._url

    @property
    def path(self) -> str:
        """The absolute path."""
        return self._path

    @property
    def validators(self) -> Validators:
        """Size and time of modification when the file was first opened."""
        return self._file().validators

    @property
    def known(self) -> Validators:
        """The same: the open file tells."""
        return self.validators

    @property
    def status_time(self) -> int:
        """Nanoseconds since 1970 of the last change of the file or its status (ctime).

        0 where the system has no such time.
        """
        return self._file().status.time

    @property
    def written_at(self) -> int:
        """Nanoseconds since 1970 at which the file was written here, 0 where that is not known."""
        return written_at(os.fstat(self._file().descriptor))

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, shorter only at the file's end."""
        try:
            ranges.check(spans)
            opened = self._file()
            pieces = [opened.read(start, stop) for start, stop in spans]
            opened.check()
        except (JnrrdzError, OSError, ValueError):
            with faults.translate_errors(self._url, "reading"):
                raise
        return pieces

    def descriptor(self) -> int:
        """Return another descriptor of the open file, which the caller closes."""
        opened = self._file()
        return os.dup(opened.descriptor)

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same in a thread."""
        import asyncio  # noqa: PLC0415  which a scan of local files does without

        return await asyncio.to_thread(self.read, spans)

    def close(self) -> None:
        """Let go of the descriptor, as soon as no read is using it."""
        with self._lock:
            self._open_file = None

    def release(self) -> None:
        """Do the same without a lock, for a thread that holds the one of another source."""
        self._open_file = None

    def _file(self) -> "_OpenFile":
        opened = self._open_file
        if opened is not None:
            return opened
        with self._lock, faults.translate_errors(self._url, "opening"):
            opened = self._open_file
            if opened is not None:
                return opened
            opened = self._open_file = self._reopen()
        _close_oldest(self)
        return opened

    def _reopen(self) -> "_OpenFile":
        opened = _OpenFile(self._path)
        change = None if self._validators is None else self._validators.difference(opened.validators)
        if change is not None:
            raise DriftError(f"changed since it was opened: {change}; scan it again")
        self._validators = opened.validators
        if self._status is not None:
            warn_of_rewriting(self._url, self._status, opened.status)
        self._status = opened.status
        return opened

    def __getstate__(self) -> dict[str, object]:
        return {
            "_url": self._url,
            "_path": self._path,
            "_validators": self._validators,
            "_status": self._status,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._open_file = None


_opened: deque[weakref.ref[LocalSource]] = deque()
"""The sources that hold a descriptor, in the order in which they were opened; some are closed by now."""

_order = threading.Lock()


@cache
def most_open() -> int:
    """Return how many descriptors the sources of this process may hold."""
    try:
        import resource  # noqa: PLC0415  Windows has none
    except ImportError:
        return 256  # half of what its runtime allows
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if allowed == resource.RLIM_INFINITY else min(allowed // 2, MOST_OPEN)


MOST_OPEN = 4096


def _close_oldest(newest: LocalSource) -> None:
    """Count a source that was opened, and close those that were opened first if there are too many.

    No lock is held while one is closed: its own may be held by a thread that waits here.
    """
    with _order:
        _opened.append(weakref.ref(newest))
        surplus = [_opened.popleft() for _ in range(len(_opened) - most_open())]
    for reference in surplus:
        source = reference()
        if source is not None and source is not newest:
            source.close()


def _descriptor(path: str) -> int:
    """Return a descriptor of a file; if the process has too many, half of the sources are closed first."""
    try:
        return os.open(path, READING)
    except OSError as error:
        if error.errno not in {errno.EMFILE, errno.ENFILE} or not _close_half():
            raise
    return os.open(path, READING)


def _close_half() -> bool:
    """Close the half of the sources that were opened first; return whether there were any."""
    with _order:
        oldest = [_opened.popleft() for _ in range((len(_opened) + 1) // 2)]
    for reference in oldest:
        source = reference()
        if source is not None:
            source.release()
    return bool(oldest)


READING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How a file is opened: no child has it, and no line end is translated."""

_seeking = threading.Lock()


def read_at(descriptor: int, count: int, start: int) -> bytes:
    """Return at most so many bytes from a place on."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, start)
    with _seeking:  # Windows has one position for all threads
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.read(descriptor, count)


class Status(NamedTuple):
    """The time when a file's status changed, and the members of the status that may explain it."""

    time: int
    """Nanoseconds since 1970; 0 on Windows, where `st_ctime` is the time of creation."""
    mode: int
    links: int
    owner: int
    group: int


def status_of(state: os.stat_result) -> Status:
    """Return a file's status."""
    time = 0 if os.name == "nt" else state.st_ctime_ns
    return Status(time, state.st_mode, state.st_nlink, state.st_uid, state.st_gid)


SETTLED = 10 * 10**9
"""Nanoseconds in which a file is written and moved into place."""

MARGIN = 10**9
"""Nanoseconds after a manifest in which its sources may be moved or copied with it."""


def written_at(state: os.stat_result) -> int:
    """Return when a file was written, in nanoseconds since 1970; 0 where it came later.

    A copy that keeps the time of modification has a newer status.  Other files that were
    copied with it have one too, and nothing shows what was written to them before.
    """
    changed = status_of(state).time
    is_copy = changed - state.st_mtime_ns > SETTLED
    return 0 if is_copy else changed


def warn_of_rewriting(url: str, before: Status, now: Status) -> None:
    """Warn of a status that is newer though nothing in it is different.

    Writing sets this time, and no program can put it back as it can the time of
    modification.  Other permissions, owners or links explain it.
    """
    if before.time == now.time or before[1:] != now[1:]:
        return
    warnings.warn(
        f"{printable(url)}: its status changed since it was opened, at "
        f"{modified_text(now.time)}, and its size and time of modification are the "
        "same: it was renamed, or written to and its time put back",
        DriftWarning,
        stacklevel=2,
    )


class _OpenFile:
    """A descriptor that closes itself when the last reader has let go of it."""

    def __init__(self, path: str) -> None:
        self.descriptor = -1
        self.path = path
        mode = os.stat(path).st_mode  # noqa: PTH116  # before opening: a named pipe would wait for a writer
        if stat.S_ISDIR(mode):
            raise UnsupportedError("a directory where a file is read; name a file in it")
        if not stat.S_ISREG(mode):
            raise UnsupportedError("neither a file nor a directory (a pipe, socket or device)")
        self.descriptor = _descriptor(path)
        state = os.fstat(self.descriptor)
        self.validators = validators_of(state)
        self.status = status_of(state)
        self._state = state.st_size, state.st_mtime_ns

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes of one span; a file that ends before the size it had is an error."""
        stop = min(stop, self.validators.size)
        wanted = max(stop - start, 0)
        data = read_at(self.descriptor, wanted, start) if wanted else b""
        while len(data) < wanted:  # Linux reads at most 2 GiB at once
            more = read_at(self.descriptor, wanted - len(data), start + len(data))
            if not more:
                raise faults.shrunk(self.path, len(data), wanted, start)
            data += more
        return data

    def check(self) -> None:
        """Refuse a file that was written to since it was opened: old and new bytes do not belong together."""
        state = os.fstat(self.descriptor)
        if (state.st_size, state.st_mtime_ns) != self._state:
            raise DriftError("was written to since it was opened; open it again", url=self.path)
        if state.st_ctime_ns != self.status.time and self.status.time:
            now = status_of(state)
            before, self.status = self.status, now
            warn_of_rewriting(self.path, before, now)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def validators_of(state: os.stat_result) -> Validators:
    """Return the state of a local file."""
    return Validators(size=state.st_size, modified=modified_text(state.st_mtime_ns))
