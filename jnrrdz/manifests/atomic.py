"""Outputs that are there whole or not at all, and that replace nothing but what jnrrdz wrote.

A local file has no name until it is complete, where the system has files without names (O_TMPFILE); then it is
linked to its place, which fails where somebody else was faster.  What needs a name before, a directory or a file
that replaces another, has one that ends in `.jnrrdz` beside its place.  Its writer holds a lock on it, so that the
next run can tell what a killed one left from what another is writing.  A remote output is made in a local temporary
file first.  Cleaning up removes what this run wrote, by name.  docs/decisions/021-outputs-replace-only-their-own.md
"""

import errno
import itertools
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Self

from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests import turns
from jnrrdz.records import record
from jnrrdz.sources import faults, filesystems

DURABLE: ContextVar[bool] = ContextVar("DURABLE", default=True)
"""Whether an output is on the disk when it is done.  A batch, which finds and replaces broken outputs when
it is resumed, does not wait for the disk: that costs several times what a small manifest does."""

_BUFFER = 1 << 16
"""Bytes that are written at once: a small manifest is one write."""

_HEAD = 1 << 19
"""Bytes of a file that tell what it is."""

_IN_ONE_PUT = 1 << 28
"""Bytes of a new object up to which it is written under a condition, from memory."""

_SYNCED_TOGETHER = 8
"""Files that are brought to the disk together: a disk takes several in one step."""

_DESCRIPTORS = "/proc/self/fd"
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
_NO_LINKS = {errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS, errno.EMLINK}
_FILLED = {errno.ENOTEMPTY, errno.EEXIST}
_LONGEST_NAME = 60

type Replaces = Callable[[bytes], bool]
"""Whether a file may be replaced, by its first bytes."""


# What is at an output's place


@record
class OutputPath:
    """Where an output goes, and what is there."""

    fs: Any
    path: str
    url: str
    """As the user spelt it."""
    kind: str | None
    """`file` or `directory`; None where there is nothing."""
    size: int = 0
    """Bytes of a file."""

    @property
    def is_local(self) -> bool:
        """Whether it is in a directory of this machine."""
        return filesystems.is_local(self.fs)

    def join(self, name: str) -> "OutputPath":
        """Return the place of a file in this directory."""
        return replace(self, path=f"{self.path.rstrip('/')}/{name}", url=f"{self.url.rstrip('/')}/{name}", kind=None)

    def names(self) -> list[str]:
        """Return the names of all files below a directory."""
        with faults.translate_errors(self.url, "listing the output", self.fs):
            self.fs.invalidate_cache()
            above = f"{self.path.rstrip('/')}/"
            # of an empty folder some stores name itself
            return [path.removeprefix(above) for path in self.fs.find(self.path) if path.startswith(above)]

    def states(self) -> dict[str, str | None]:
        """Return the ETags of all files below a directory of a store, by name."""
        with faults.translate_errors(self.url, "listing the output", self.fs):
            self.fs.invalidate_cache()
            above = f"{self.path.rstrip('/')}/"
            entries = self.fs.find(self.path, detail=True).items()
            return {
                path.removeprefix(above): turns.etag_in(entry)
                for path, entry in entries
                if path.startswith(above)  # a folder may list itself
            }

    def read(self) -> bytes:
        """Return a file's bytes."""
        with faults.translate_errors(self.url, "reading the output", self.fs):
            return bytes(self.fs.cat_file(self.path))

    def head(self) -> bytes:
        """Return the first bytes of a file, by which it is known."""
        if not self.size:  # an empty object has no range that could be asked for
            return b""
        with faults.translate_errors(self.url, "reading the output", self.fs):
            if self.is_local:
                with open(self.path, "rb") as file:  # noqa: PTH123  see `locate`
                    return file.read(_HEAD)
            return bytes(self.fs.cat_file(self.path, start=0, end=min(_HEAD, self.size)))

    def put(self, source: Path) -> None:
        """Make a file's bytes those of a local file, at one time."""
        if self.is_local:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)  # noqa: PTH103, PTH120  a path of fsspec's
            with _written(replace(self, kind="file")) as stream, source.open("rb") as lines:
                shutil.copyfileobj(lines, stream, _BUFFER)
        elif (turn := turns.turn_for(self.path)) is not None:
            turn.put(self.fs, self.path, source.read_bytes())
        else:
            with faults.translate_errors(self.url, "writing", self.fs):
                self.fs.put_file(str(source), self.path)

    def put_bytes(self, data: bytes) -> None:
        """Make a file's bytes these, at one time."""
        if self.is_local:
            with _written(replace(self, kind="file")) as stream:
                stream.write(data)
        elif (turn := turns.turn_for(self.path)) is not None:
            turn.put(self.fs, self.path, data)
        else:
            with faults.translate_errors(self.url, "writing", self.fs):
                self.fs.pipe_file(self.path, data)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files below a directory by name, and local directories that this leaves empty."""
        folders = set()
        with faults.translate_errors(self.url, "removing", self.fs):
            for name in names:
                with suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.path.rstrip('/')}/{name}")
                parts = name.split("/")[:-1]
                folders |= {"/".join(parts[: length + 1]) for length in range(len(parts))}
            if self.is_local:
                for folder in sorted(folders, key=len, reverse=True):
                    with suppress(OSError):  # others have something there
                        os.rmdir(f"{self.path}/{folder}")  # noqa: PTH106  a path of fsspec's


def locate(target: str, storage_options: Mapping[str, Any] | None = None) -> OutputPath:
    """Return an output's place; the directory that it is to be in is there."""
    with faults.translate_errors(target, "writing"):
        fs, path = filesystems.opened(target, storage_options or {})
    if not filesystems.is_local(fs):
        with faults.translate_errors(target, "looking for the output", fs):
            fs.invalidate_cache(fs._parent(path))  # noqa: SLF001  a listing made earlier tells of an earlier state
            try:
                state = fs.info(path)
                return OutputPath(fs, path, target, str(state["type"]), state["size"] or 0)
            except FileNotFoundError:
                return OutputPath(fs, path, target, None)
    return _locate_here(fs, path, target)


def _locate_here(fs: Any, path: str, target: str) -> OutputPath:
    """Return an output's place on a disk of this machine."""
    with suppress(OSError):
        if stat.S_ISLNK(os.lstat(path).st_mode):  # the link stays, as a shell's `>` has it
            path = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120  a path object costs more than the call
        raise JnrrdzError("the folder of this output does not exist; make it first", url=target)
    try:
        entry = os.stat(path)  # noqa: PTH116  the same
    except OSError:
        return OutputPath(fs, path, target, None)
    mode = entry.st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise JnrrdzError("is neither a file nor a directory, and cannot be replaced", url=target)
    return OutputPath(fs, path, target, "directory" if stat.S_ISDIR(mode) else "file", entry.st_size)


def exists_already(target: str) -> JnrrdzError:
    """Return the error for an output that is there."""
    return JnrrdzError("exists already; --overwrite (overwrite=True) replaces it", url=target)


# Files


@contextmanager
def new_file(
    target: str, *, replaces: Replaces | None = None, storage_options: Mapping[str, Any] | None = None
) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the file `target` when the block ends without an error.

    A file that is there is replaced if it is empty or `replaces` knows its first bytes; without `replaces` never.
    """
    place = locate(target, storage_options)
    check_replaceable(place, replaces)
    with _written(place, replaces) as stream:
        yield stream


def check_replaceable(place: OutputPath, replaces: Replaces | None) -> None:
    """Refuse a place where something is that is not to be replaced by a file."""
    if place.kind == "directory":
        raise JnrrdzError("is a directory; name a file", url=place.url)
    if place.kind is None:
        return
    if replaces is None:
        raise exists_already(place.url)
    head = place.head()
    if head and not replaces(head):
        message = "exists and jnrrdz did not make it, so it is not replaced; name another output, or remove it yourself"
        raise JnrrdzError(message, url=place.url)


@contextmanager
def _written(place: OutputPath, replaces: Replaces | None = None) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become a file, which replaces what `place` knows of.

    With `replaces` it also replaces what another run wrote there since.
    """
    folder = os.path.dirname(place.path) if place.is_local else tempfile.gettempdir()  # noqa: PTH120  see `locate`
    with _os_errors(place.url), _Unplaced(folder, os.path.basename(place.path)) as work:  # noqa: PTH119  the same
        yield work.stream
        work.stream.flush()
        if not place.is_local:
            is_new = place.kind is None and replaces is None
            _send(Path(work.path), place, is_new=is_new)
            return
        if DURABLE.get():
            os.fsync(work.stream.fileno())
        _publish(work, place, replaces)
        _sync_directory(folder)


def _send(source: Path, place: OutputPath, *, is_new: bool) -> None:
    """Make an object's bytes those of a local file.

    A new one is written if there is none yet; one that is sent in parts, unless it came
    before its writing began.
    """
    is_small = source.stat().st_size <= _IN_ONE_PUT
    is_conditional = is_new and is_small and turns.has_conditions(place.fs)
    if not is_conditional or turns.turn_for(place.path) is not None:
        place.put(source)
        return
    try:
        turns.put_if(place.fs, place.path, source.read_bytes(), None, place.url)
    except turns.NoConditionsError:
        place.put(source)
    except turns.ChangedError as error:
        raise exists_already(place.url) from error


def _publish(work: "_Unplaced", place: OutputPath, replaces: Replaces | None) -> None:
    """Give a file its name; where it replaces another, no other run is writing that."""
    if place.kind is None or replaces is None:
        try:
            work.publish(place)
        except JnrrdzError as error:
            if replaces is None or not isinstance(error.__cause__, FileExistsError):
                raise
        else:
            return
    with writing(place, is_brief=True):
        if place.kind is None:  # another run made one since
            place = _locate_here(place.fs, place.path, place.url)
            check_replaceable(place, replaces)
        work.publish(place)


class _Unplaced:
    """A file that is not at its place yet: without a name if the system can, else with one that goes at the end."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name
        self._named: str | None = None
        unnamed = self._unnamed()
        self._has_name = unnamed is None
        self.path, descriptor = self._new_named() if unnamed is None else (f"{_DESCRIPTORS}/{unnamed}", unnamed)
        # with this name the bytes can be read while they are written
        self.stream: BinaryIO = open(self.path, "wb", _BUFFER, opener=lambda *_: descriptor)  # noqa: SIM115  see __exit__

    def _unnamed(self) -> int | None:
        """Return a file without a name, None where the system has none."""
        if not hasattr(os, "O_TMPFILE") or not hasattr(os, "link") or not os.path.isdir(_DESCRIPTORS):  # noqa: PTH112  see `locate`
            return None
        try:
            return os.open(self._folder, os.O_RDWR | os.O_TMPFILE, 0o666)
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
            return None

    def _new_named(self) -> tuple[str, int]:
        for path in temporary_names(self._folder, self._name):
            with suppress(FileExistsError):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
                self._named = path
                if _is_kept(descriptor, path):
                    return path, descriptor
                os.close(descriptor)
        raise AssertionError  # pragma: no cover  the names have no end

    def publish(self, place: OutputPath) -> None:
        """Give the file its name."""
        if place.kind is None:
            try:
                self._link(place.path)
            except FileExistsError as error:
                raise exists_already(place.url) from error
            except OSError as error:
                # a file system without links, where a name that is free has to be believed
                if not self._has_name or error.errno not in _NO_LINKS or os.path.lexists(place.path):
                    raise
                self._let_go()
                os.rename(str(self._named), place.path)  # noqa: PTH104  see `locate`
            return
        if not self._has_name:
            turns.lock(self.stream.fileno(), wait=False)
            for path in temporary_names(self._folder, self._name):
                self._named = path
                with suppress(FileExistsError):
                    self._link(path)
                    break
        self._let_go()
        os.replace(str(self._named), place.path)  # noqa: PTH105  see `locate`

    def _let_go(self) -> None:
        """Close the file where the system renames none that is open."""
        if os.name == "nt":
            self.stream.close()

    def _link(self, path: str) -> None:
        if not hasattr(os, "link"):
            raise OSError(errno.ENOSYS, "no links", path)
        if self._has_name:
            os.link(str(self._named), path)
        else:  # only where a directory is given does Python follow the link that a descriptor's name is
            os.link(self.path, path, src_dir_fd=self.stream.fileno(), follow_symlinks=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # gone if it was renamed, and somebody else's if a link was refused
            if self._named is not None and (self.stream.closed or turns.is_at(self.stream.fileno(), self._named)):
                with suppress(FileNotFoundError):
                    os.unlink(self._named)  # noqa: PTH108  see `locate`
        finally:
            with suppress(OSError):  # bytes that were not flushed are of an output that is not there
                self.stream.close()


@contextmanager
def _os_errors(url: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JnrrdzError(f"cannot be written: {error.strerror or error}", url=url) from error


# Names of what is being written


@cache
def _host() -> str:
    return blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


_TEMPORARY = re.compile(r"\..*\.(?:([0-9a-f]{8})-[0-9]+|lock)\.jnrrdz", re.DOTALL)


def temporary_names(folder: str, name: str) -> Iterator[str]:
    """Yield names for what is being written; those that killed runs left are free again."""
    stem = os.fsencode(name)[:_LONGEST_NAME].decode("utf-8", "ignore")
    for number in itertools.count():
        path = os.path.join(folder, f".{stem}.{_host()}-{number}.jnrrdz")  # noqa: PTH118  see `locate`
        if os.path.lexists(path):
            sweep(path)
        yield path


def _is_kept(descriptor: int, path: str) -> bool:
    """Lock what was just made; False where another run has removed it before, as one that a dead run left."""
    turns.lock(descriptor, wait=True)
    return turns.is_at(descriptor, path)


@contextmanager
def writing(place: OutputPath, *, is_brief: bool = False) -> Iterator[turns.Turn]:
    """Yield the turn to write an output, once no other run of this machine has it.

    In a store it keeps nobody away: what is read after it began can be a condition.
    """
    lock_file = lock_file_of(place.path) if place.is_local else None
    with turns.writing(place.url, place.path, lock_file, is_brief=is_brief) as turn:
        yield turn


def lock_file_of(path: str) -> str:
    """Return the path of the lock file of an output on this machine."""
    folder, name = os.path.split(path)
    stem = os.fsencode(name)[:_LONGEST_NAME].decode("utf-8", "ignore")
    return os.path.join(folder, f".{stem}.lock.jnrrdz")  # noqa: PTH118  see `locate`


def sweep(path: str) -> None:
    """Remove what a run of this machine that was killed left under a name of `temporary_names`; no other's."""
    match = _TEMPORARY.fullmatch(os.path.basename(path))  # noqa: PTH119  see `locate`
    is_ours = match is not None and match[1] in (None, _host())
    if not is_ours or os.path.islink(path):  # noqa: PTH114  the same
        return
    remove_dead(path)


def remove_dead(path: str) -> None:
    """Remove a file or directory that jnrrdz made for the time of writing, if no writer holds its lock."""
    with suppress(OSError):  # what is somebody else's stays, and harms nobody
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            if turns.lock(descriptor, wait=False) and turns.is_at(descriptor, path):
                if os.path.isdir(path):  # noqa: PTH112  see `locate`
                    shutil.rmtree(path)
                else:
                    os.unlink(path)  # noqa: PTH108  the same
        finally:
            os.close(descriptor)


def sweep_folder(folder: str) -> None:
    """Remove what killed runs of this machine left in a local directory."""
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if _TEMPORARY.fullmatch(entry.name)]
    for path in left:
        sweep(path)


# Directories


@contextmanager
def work_folder(place: OutputPath) -> Iterator[Path]:
    """Yield a new directory, on the same volume as a local place; it is gone after the block unless it was moved."""
    parent = os.path.dirname(place.path) if place.is_local else tempfile.gettempdir()  # noqa: PTH120  see `locate`
    path, descriptor, is_made = "", None, False
    with _os_errors(place.url):
        try:
            for path in temporary_names(parent, os.path.basename(place.path)):  # noqa: PTH119  the same
                with suppress(FileExistsError, FileNotFoundError):
                    os.mkdir(path)  # noqa: PTH102  the same
                    descriptor = os.open(path, os.O_RDONLY) if os.name == "posix" else None
                    is_made = descriptor is None or _is_kept(descriptor, path)
                    if is_made:
                        break
            yield Path(path)
        finally:
            if is_made and os.path.lexists(path):
                shutil.rmtree(path)
            elif path and not is_made:  # interrupted before it was known whose it is
                sweep(path)
            if descriptor is not None:
                os.close(descriptor)


@contextmanager
def new_directory(
    target: str, *, last: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> Iterator[Path]:
    """Yield a local directory that becomes `target` when the block ends without an error.

    Only an empty directory is ever replaced.  `last` is the file that makes the rest readable, if one does.
    """
    place = locate(target, storage_options)
    check_free(place)
    with work_folder(place) as work:
        yield work
        with ExitStack() as stack:
            if not place.is_local and turns.has_conditions(place.fs):
                turn = stack.enter_context(writing(place))
                for name in files_of(work):
                    turn.expect(place.join(name).path, None)
            place_folder(work, place, last)


def check_free(place: OutputPath) -> None:
    """Refuse a place for a new directory where there is anything but an empty directory."""
    if place.kind == "file":
        raise JnrrdzError("is a file, and a directory would replace it; remove it or name another place", url=place.url)
    with faults.translate_errors(place.url, "looking for the output", place.fs):
        if place.kind is not None and (os.listdir(place.path) if place.is_local else place.names()):  # noqa: PTH208  a path of fsspec's
            raise JnrrdzError("holds something already, and is not replaced; name another place", url=place.url)


def place_folder(work: Path, place: OutputPath, last: str | None, announced: bytes | None = None) -> None:
    """Move a complete directory to its place, or copy it there with the file `last` at the end.

    A remote copy begins with the bytes `announced` in that file, by which what a killed run leaves is known.
    """
    if place.is_local:
        sync_tree(work)
        try:
            work.rename(place.path)  # an empty directory is replaced, one that was filled meanwhile is not
        except OSError as error:
            if error.errno not in _FILLED:
                raise
            raise turns.changed(place.url) from error
        _sync_directory(os.path.dirname(place.path))  # noqa: PTH120  see `locate`
        return
    begun: list[str] = []
    is_ending = is_done = False
    try:
        if last is not None and announced is not None:
            begun.append(last)
            place.join(last).put_bytes(announced)
        for name in sorted(files_of(work), key=lambda name: name == last):
            begun.append(name)
            is_ending = name == last
            place.join(name).put(work / name)
        is_done = True
    except turns.ChangedError:
        begun.clear()  # it is another run's now
        raise
    except JnrrdzError:
        is_ending = False
        raise
    finally:
        if begun and not is_ending and not is_done:  # where the end is interrupted, it may have arrived
            with suppress(JnrrdzError):  # what was wrong first is told
                switch = place.join(str(last))
                if announced is None or _is_announced(switch, announced):
                    place.remove(reversed(dict.fromkeys(begun)))


def _is_announced(place: OutputPath, announced: bytes) -> bool:
    """Whether a file of a store holds what this run announced, which it then renews."""
    turn = turns.turn_for(place.path)
    if turn is not None:
        turn.look(place.fs, place.path)
    is_ours = place.read().rstrip(b" ") == announced
    if is_ours and turn is not None:
        place.put_bytes(announced + b"  ")
    return is_ours


def files_of(work: Path) -> list[str]:
    """Return the names of all files below a directory."""
    return sorted(path.relative_to(work).as_posix() for path in work.rglob("*") if path.is_file())


def sync_tree(root: Path) -> None:
    """Have a directory with all that is in it on the disk, where outputs are to be."""
    if not DURABLE.get():
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  which JSON does without

    paths = [*root.rglob("*"), root]
    folders = [path for path in paths if path.is_dir()]
    files = sorted(set(paths).difference(folders))
    with ThreadPoolExecutor(_SYNCED_TOGETHER) as pool:
        for _ in pool.map(_sync_file, files):  # an error is raised here
            pass
    for path in folders:
        _sync_directory(str(path))


def _sync_file(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _sync_directory(path: str) -> None:
    """Make renames last; a no-op where directories cannot be opened, as on Windows."""
    if os.name == "posix" and DURABLE.get():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
