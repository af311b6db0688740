"""Outputs that are there whole or not at all.

A local file or directory is made beside its place and renamed
into it; a remote one is made in a local temporary directory first and uploaded when it is complete.
Whatever goes wrong in between (a signal too), nothing is left behind and an older output stays.
"""

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from fsspec.implementations.local import LocalFileSystem

from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import faults, filesystems

DURABLE: ContextVar[bool] = ContextVar("DURABLE", default=True)
"""Whether an output is on the disk when it is done.  A batch, which finds and replaces broken outputs when
it is resumed, does not wait for the disk: that costs several times what a small manifest does."""


_BUFFER = 1 << 16
"""Bytes that are written at once: a small manifest is one write."""

LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.(?:tmp|old)", re.DOTALL)
"""A hidden name beside an output, which a run that was killed may leave; the group is the output's name."""


def leftovers(folder: str) -> dict[str, list[str]]:
    """Return what killed runs left in a local directory, by the name of the output that it was to become."""
    found: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            match = LEFTOVER.fullmatch(entry.name)
            if match is not None:
                found.setdefault(match[1], []).append(entry.path)
    return found


@contextmanager
def new_file(
    target: str, *, overwrite: bool = False, storage_options: Mapping[str, Any] | None = None
) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the file `target` when the block ends without an error."""
    fs, place, kind = _locate(target, storage_options)
    if kind == "directory":
        raise JnrrdzError("is a directory; name a file", url=target)
    if kind is not None and not overwrite:
        raise _exists(target)
    with _workplace(fs, place, target) as work:
        with work.open("wb", _BUFFER) as stream:
            yield stream
            stream.flush()
            if DURABLE.get():
                os.fsync(stream.fileno())
        if isinstance(fs, LocalFileSystem):
            work.replace(place)
            _sync_directory(Path(place).parent)
        else:
            with faults.translate_errors(target, "writing", fs):
                fs.put_file(str(work), place)


@contextmanager
def new_directory(
    target: str, *, last: str, overwrite: bool = False, storage_options: Mapping[str, Any] | None = None
) -> Iterator[Path]:
    """Yield a local directory that becomes `target` when the block ends without an error.

    `last` is the file that makes the rest readable: it is uploaded after all others, and only a
    directory that holds it (or nothing) is ever replaced.
    """
    fs, place, kind = _locate(target, storage_options)
    if kind is not None and not overwrite:
        raise _exists(target)
    if kind is not None:
        with faults.translate_errors(target, "looking for the output", fs):
            if kind != "directory":
                message = "is a file, and a directory would replace it; remove it or name another place"
                raise JnrrdzError(message, url=target)
            if fs.ls(place, detail=False) and not fs.exists(f"{place}/{last}"):
                raise JnrrdzError(f"is a directory without {last}, not a manifest, and is not replaced", url=target)
    with _workplace(fs, place, target) as work:
        work.mkdir()
        yield work
        if isinstance(fs, LocalFileSystem):
            _sync_tree(work)
            _swap(work, Path(place))
        else:
            with faults.translate_errors(target, "writing", fs):
                _upload(fs, work, place, last)


def _locate(target: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, str, str | None]:
    """Return the file system, the path in it, and what is there (`directory`, `file`); its parent is there."""
    with faults.translate_errors(target, "writing"):
        fs, place = filesystems.opened(target, storage_options or {})
    if not isinstance(fs, LocalFileSystem):
        with faults.translate_errors(target, "looking for the output", fs):
            fs.invalidate_cache(fs._parent(place))  # noqa: SLF001  a listing made earlier tells of an earlier state
            try:
                return fs, place, str(fs.info(place)["type"])
            except FileNotFoundError:
                return fs, place, None
    if not os.path.isdir(os.path.dirname(place)):  # noqa: PTH112, PTH120  a path object costs more than the call
        raise JnrrdzError("the directory to write to does not exist", url=target)
    try:
        mode = os.stat(place).st_mode  # noqa: PTH116  the same
    except OSError:
        return fs, place, None
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise JnrrdzError("is neither a file nor a directory, and cannot be replaced", url=target)
    return fs, place, "directory" if stat.S_ISDIR(mode) else "file"


def _exists(target: str) -> JnrrdzError:
    return JnrrdzError("exists already; --overwrite (overwrite=True) replaces it", url=target)


@contextmanager
def _workplace(fs: Any, place: str, target: str) -> Iterator[Path]:
    """Yield a path where nothing is yet, on the same volume as a local place; what is left there goes."""
    name = f".{Path(place).name}.{secrets.token_hex(4)}.tmp"
    local = isinstance(fs, LocalFileSystem)
    # no mkstemp: its files are private, while these follow the umask as any output does
    parent = Path(place).parent if local else Path(tempfile.mkdtemp(prefix="jnrrdz-"))
    work = parent / name
    try:
        yield work
    except OSError as error:
        raise JnrrdzError(f"cannot be written: {error.strerror or error}", url=target) from error
    finally:
        if not local:
            remove(parent)
        elif os.path.lexists(work):  # whatever is renamed is there no more
            remove(work)


def remove(path: str | Path) -> None:
    """Remove a file or a directory with all that is in it, if it is there."""
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _swap(work: Path, place: Path) -> None:
    """Put `work` in the place of a directory that may exist, which comes back if that fails."""
    old = work.with_suffix(".old")
    if place.exists():
        place.rename(old)
    try:
        work.rename(place)
    finally:
        if old.exists() and not place.exists():
            old.rename(place)
    _sync_directory(place.parent)
    remove(old)


def _upload(fs: Any, work: Path, place: str, last: str) -> None:
    """Copy a tree, the file `last` at the end; the older tree goes first, for the two share their names."""
    if fs.exists(place):
        fs.rm(place, recursive=True)
    files = sorted(path for path in work.rglob("*") if path.is_file())
    done = False
    try:
        for path in sorted(files, key=lambda path: path.name == last):
            remote = f"{place}/{path.relative_to(work).as_posix()}"
            fs.makedirs(remote.rpartition("/")[0], exist_ok=True)
            fs.put_file(str(path), remote)
        done = True
    finally:
        if not done and fs.exists(place):
            fs.rm(place, recursive=True)


def _sync_tree(root: Path) -> None:
    if not DURABLE.get():
        return
    for path in [*root.rglob("*"), root]:
        if path.is_dir():
            _sync_directory(path)
        else:
            with path.open("rb") as stream:
                os.fsync(stream.fileno())


def _sync_directory(path: Path) -> None:
    """Make renames last; a no-op where directories cannot be opened, as on Windows."""
    if os.name == "posix" and DURABLE.get():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
