"""Writing in turn: two runs that write one output never mix their work.

A run that reads an output and writes it again holds a turn, from before it reads until
it has written.

- On a disk of this machine a turn is a lock file next to the output, named
  `.NAME.lock.jnrrdz`, with a lock of the operating system on it (flock).  Other runs
  wait.  The system frees the lock of a process that was killed.
- In an object store a turn is the state (the ETag) of each object when it was read.
  An object is written on the condition that it is still in that state: `If-Match`, and
  `If-None-Match: *` where there was none.  The store refuses the second of two writers.
- In an Icechunk repository it is the snapshot that was read: a commit has it as parent.

docs/decisions/051-writing-in-turn.md
"""

import errno
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import faults

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_HAS_FLOCK = fcntl is not None

WAIT = 600.0
"""Seconds that a run waits for another one."""

LEASE = 60.0
"""Seconds after which a run that replaces files in a store, and has not changed what it
announced there, counts as killed."""

TOKEN = "turn"  # noqa: S105  a member's name
"""The member of a Parquet manifest's own metadata by which a run announces that it
replaces files in a store."""

_SHORTEST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
_ATTEMPTS = 20
_MOST_IN_ONE_PUT = 5 << 30
_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}
_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR}
"""In such a folder nothing can be written; who tries gets an error that says so."""
_REFUSED = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
_GONE = {"NoSuchKey", "404"}
_NOT_IMPLEMENTED = {"NotImplemented", "501"}


class ChangedError(JnrrdzError):
    """Another run wrote an output between our reading and our writing."""


class NoConditionsError(JnrrdzError):
    """A store refuses requests that have a condition."""


def changed(url: str, again: str = "run the command again") -> ChangedError:
    """Return the error for an output that is not as it was when it was read."""
    return ChangedError(f"another run changed it meanwhile; {again}", url=url)


class Turn:
    """The right to write an output, held from before it is read."""

    def __init__(self, url: str, path: str, *, is_local: bool) -> None:
        self.url = url
        self.path = path
        self.is_local = is_local
        self.is_update = False
        """Whether what is written depends on what was read."""
        self.version: str | None = None
        """The snapshot of an Icechunk repository that was read."""
        self.unguarded: str | None = None
        """Why nothing keeps another writer away, None where something does."""
        self._states: dict[str, str | None] = {}

    def begin(self) -> None:
        """Warn, before an output is written, if nothing keeps another writer away."""
        if self.unguarded is not None:
            warnings.warn(f"{self.url}: {self.unguarded}", stacklevel=2)

    def expect(self, path: str, state: str | None) -> None:
        """Record an object's ETag, None where there is no object."""
        self._states[path] = state

    def expects(self, path: str) -> bool:
        """Whether the state of an object is recorded."""
        return path in self._states

    def look(self, fs: Any, path: str) -> None:
        """Record the state of an object as it is now."""
        if has_conditions(fs):
            self.expect(path, etag(fs, path, self.url))

    def check(self, fs: Any, path: str) -> None:
        """Raise if an object is not in the recorded state any more."""
        if path in self._states and etag(fs, path, self.url) != self._states[path]:
            raise changed(self.url)

    def put(self, fs: Any, path: str, data: bytes) -> None:
        """Write an object if it is still in the recorded state."""
        try:
            self._states[path] = put_if(fs, path, data, self._states[path], self.url)
        except NoConditionsError:
            if self.is_update:
                raise
            self._states.clear()
            with faults.translate_errors(self.url, "writing", fs):
                fs.pipe_file(path, data)


_TURNS: ContextVar[tuple[Turn, ...]] = ContextVar("_TURNS", default=())


def turn_for(path: str) -> Turn | None:
    """Return this thread's turn that has recorded an object's state, if there is one."""
    return next((turn for turn in _TURNS.get() if turn.expects(path)), None)


def turn_at(path: str, *, is_local: bool) -> Turn | None:
    """Return this thread's turn to write an output, None without one."""
    for turn in _TURNS.get():
        if turn.path == path:
            return turn
        # links to folders give a path several names
        is_same_kind = is_local and turn.is_local
        if is_same_kind and os.path.realpath(turn.path) == os.path.realpath(path):
            return turn
    return None


def check(fs: Any, path: str) -> None:
    """Raise if an object is not as it was when this thread's turn began."""
    turn = turn_for(path)
    if turn is not None:
        turn.check(fs, path)


@contextmanager
def writing(
    url: str,
    path: str,
    lock_file: str | None = None,
    *,
    wait: float | None = None,
    is_brief: bool = False,
) -> Iterator[Turn]:
    """Yield the turn to write an output; a thread that has it already goes on with it.

    `path` names the output, `lock_file` is its lock on a disk of this machine.  Another
    run has `wait` seconds to end, WAIT unless that is given.  A turn that ends at once
    is `is_brief`: its lock file says nothing of its process, which is a call less.
    """
    is_local = lock_file is not None
    turn = turn_at(path, is_local=is_local)
    if turn is not None:
        yield turn
        return
    turn = Turn(url, path, is_local=is_local)
    descriptor = None
    if lock_file is not None:
        descriptor = _acquire(lock_file, url, WAIT if wait is None else wait)
    token = _TURNS.set((*_TURNS.get(), turn))
    try:
        if descriptor is not None and not is_brief:
            _sign(descriptor)
        yield turn
    finally:
        _TURNS.reset(token)
        if descriptor is not None:
            _release(str(lock_file), descriptor, is_brief=is_brief)


def repeated[T](work: Callable[[], T]) -> T:
    """Return what some work returns, which is done again while others are faster.

    This is for work that replaces an output whatever is in it.
    """
    pause = _SHORTEST_PAUSE
    for _ in range(_ATTEMPTS - 1):
        with suppress(ChangedError):
            return work()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return work()


# Locks of this machine


def lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file or directory until it is closed; whether that could be done."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another process has it, or the file system has no locks
        return False
    return True


def is_at(descriptor: int, path: str) -> bool:
    """Whether an open file or directory is the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _acquire(path: str, url: str, wait: float) -> int | None:
    """Return an open lock file, locked; None where nobody can lock anything.

    That is so in a folder in which nothing can be written, and on a file system that
    has no locks, which is a warning.
    """
    end, pause = time.monotonic() + wait, _SHORTEST_PAUSE
    is_done = False
    try:
        while True:
            descriptor, is_done = _attempt(path, url)
            if is_done:
                return descriptor
            if time.monotonic() >= end:
                limit = f", and was not done within {wait:g} s" if wait else ""
                raise JnrrdzError(
                    f"{_holder(path)} is writing it{limit}; wait for it to end, or end it, and run the command again",
                    url=url,
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    finally:
        if not is_done:  # interrupted, maybe before the file was locked
            _sweep(path)


def _attempt(path: str, url: str) -> tuple[int | None, bool]:
    """Return an open lock file, and whether there is no need to try again."""
    try:
        descriptor = _open(path)
    except FileExistsError:  # Windows: it is there while its process has it open
        return None, False
    except OSError as error:
        if error.errno in _NO_ACCESS:
            return None, True
        raise JnrrdzError(f"cannot be locked: {error.strerror}", url=url) from error
    return descriptor, _is_locked(descriptor, path, url)


def _sweep(path: str) -> None:
    """Remove a lock file that nobody has locked."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR)
        if lock(descriptor, wait=False):
            _release(path, descriptor)
        else:
            os.close(descriptor)


def _open(path: str) -> int:
    """Return the open lock file; on Windows it is there only while it is open."""
    if fcntl is None:
        is_temporary = getattr(os, "O_TEMPORARY", 0)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | is_temporary, 0o666)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:  # the lock file of another user
        if not os.path.lexists(path):
            raise
        return os.open(path, os.O_RDONLY)


def _is_locked(descriptor: int, path: str, url: str) -> bool:
    """Lock a lock file that was opened; False, and it is closed, if another has it."""
    is_kept = False
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the run that had the lock removed the file, and another one made a new one
        is_kept = not _HAS_FLOCK or is_at(descriptor, path)
    except OSError as error:
        if error.errno not in _TAKEN:
            is_kept = True
            warnings.warn(
                f"{url}: this file system has no locks ({error.strerror}), so that "
                "two runs that write it at the same time are not kept apart",
                stacklevel=2,
            )
    finally:
        if not is_kept:
            os.close(descriptor)
    return is_kept


def _sign(descriptor: int) -> None:
    """Write into a lock file who has it, for the messages of others."""
    with suppress(OSError):
        holder = f"process {os.getpid()} of {socket.gethostname()}"
        os.write(descriptor, holder.encode())


def _holder(path: str) -> str:
    """Return who has a lock file, in words."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.read(descriptor, 256).decode("utf-8", "replace") or "another run"
        finally:
            os.close(descriptor)
    return "another run"


def _release(path: str, descriptor: int, *, is_brief: bool = False) -> None:
    """Remove a lock file and free its lock.

    In a turn that took a while somebody may have removed it, and it is another run's.
    """
    is_removed = False
    try:
        with suppress(OSError):  # an unlocked file that stays keeps nobody from writing
            # Windows removes the file as it is closed
            is_ours = is_brief or is_at(descriptor, path)
            if is_ours and not hasattr(os, "O_TEMPORARY"):
                os.unlink(path)  # noqa: PTH108  see `atomic.locate`
                is_removed = True
    finally:
        # who waits opens the path again and again, so the lock on a removed file is of
        # no matter
        if _HAS_FLOCK and not is_removed:
            with suppress(OSError):  # a process that was forked may have it open too
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


# Conditions of object stores


def has_conditions(fs: Any) -> bool:
    """Whether objects can be written under a condition: those of S3, by s3fs."""
    protocol = fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)
    return "s3" in protocol and hasattr(fs, "call_s3")


def without_conditions(fs: Any) -> str | None:
    """Return the warning for a store whose objects are written without conditions."""
    protocol = fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)
    if "memory" in protocol:  # it is this process's
        return None
    return (
        f"through {protocol[0]}:// nothing is written under a condition, so two runs "
        "that add to this manifest or refresh it at the same time are not kept apart; "
        "start one at a time, or keep it on a disk or on S3"
    )


def etag(fs: Any, path: str, url: str) -> str | None:
    """Return an object's ETag, None where there is no object."""
    with faults.translate_errors(url, "looking for the output", fs):
        fs.invalidate_cache(fs._parent(path))  # noqa: SLF001  a listing may be old
        try:
            return etag_in(fs.info(path))
        except FileNotFoundError:
            return None


def etag_in(entry: dict[str, Any]) -> str | None:
    """Return the ETag in an entry of a listing, None of what is no object."""
    found = entry.get("ETag")
    return None if found is None else str(found)


def put_if(fs: Any, path: str, data: bytes, state: str | None, url: str) -> str:
    """Write an object that is still in a state (None: absent), and return its new one.

    It is one PUT, whatever its size, because not all stores know conditions of uploads
    in parts.
    """
    if len(data) > _MOST_IN_ONE_PUT:
        raise JnrrdzError(
            f"{len(data)} bytes, and a store takes {_MOST_IN_ONE_PUT} under a condition; write Icechunk, or Parquet",
            url=url,
        )
    condition = {"IfNoneMatch": "*"} if state is None else {"IfMatch": state}
    with faults.translate_errors(url, "writing", fs):
        try:
            answer = fs.pipe_file(path, data, chunksize=_MOST_IN_ONE_PUT, **condition)
        except OSError as error:
            codes = _codes(error)
            if codes & _NOT_IMPLEMENTED:
                message = (
                    "this store knows no conditions (If-Match), and without them two "
                    "runs could lose each other's work; add to a manifest on a disk, "
                    "and copy it"
                )
                raise NoConditionsError(message, url=url) from error
            is_missing = state is not None and bool(codes & _GONE)
            is_refused = bool(codes & _REFUSED) or isinstance(error, FileExistsError)
            if not is_refused and not is_missing:
                raise
            return _after_refusal(fs, path, data, url)
        return str(answer["ETag"])


def _after_refusal(fs: Any, path: str, data: bytes, url: str) -> str:
    """Return the state of an object if it holds our bytes after all.

    A client repeats a request whose answer did not come, and the first one was done.
    """
    state = etag(fs, path, url)
    if state is not None:
        with suppress(FileNotFoundError):
            if fs.cat_file(path) == data:
                return state
    raise changed(url)


def _codes(error: BaseException) -> set[str]:
    """Return the error codes in a refusal of S3."""
    codes: set[str] = set()
    link: BaseException | None = error
    while link is not None:
        answer = getattr(link, "response", None)
        if isinstance(answer, dict):
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
            codes |= {str(answer.get("Error", {}).get("Code")), str(status)}
        link = link.__cause__
    return codes


# Parquet manifests in a store: many files, one of which is written last


def token_in(text: bytes) -> str | None:
    """Return the token of the run that has announced itself in METADATA, if one has."""
    try:
        token = json.loads(text)["jnrrdz"][TOKEN]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return token if isinstance(token, str) else None


def settle(fs: Any, path: str, turn: Turn) -> bool:
    """Record METADATA's state, once no other run is replacing the files of a manifest.

    It returns whether there is METADATA.  A run that has announced this and does
    nothing for LEASE seconds was killed.
    """
    state = etag(fs, path, turn.url)
    begun = since = time.monotonic()
    pause = _SHORTEST_PAUSE
    while state is not None and token_in(_read(fs, path, turn.url)) is not None:
        if time.monotonic() - begun > WAIT:
            raise JnrrdzError(
                f"another run is writing it, and was not done within {WAIT:g} s; wait "
                "for it to end, and run the command again",
                url=turn.url,
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        latest = etag(fs, path, turn.url)
        if latest == state and time.monotonic() - since > LEASE:
            break
        if latest != state:
            state, since = latest, time.monotonic()
    turn.expect(path, state)
    return state is not None


def _read(fs: Any, path: str, url: str) -> bytes:
    with faults.translate_errors(url, "reading the output", fs):
        try:
            return bytes(fs.cat_file(path))
        except FileNotFoundError:
            return b""
