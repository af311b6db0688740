"""File systems that fail: each operation on what is being written may raise, before or after it is done."""

import builtins
import errno
import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from jnrrdz.manifests import atomic
from tests.servers.proxy import FaultProxy, Faults

OPERATIONS = ("open", "link", "rename", "replace", "unlink", "remove", "mkdir", "rmdir", "fsync")
WRITES = ("write_text", "write_bytes")
REMOVALS = {"unlink", "remove", "rmdir", "rm_file"}
REMOTE = ("put_file", "pipe_file", "rm_file", "cat_file", "info", "ls", "find")

FAULTS: dict[str, Callable[[], BaseException]] = {
    "full": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "broken": lambda: OSError(errno.EIO, "Input/output error"),
    "interrupted": KeyboardInterrupt,
    "interrupted after": KeyboardInterrupt,
}


@dataclass
class Failing:
    """Counts operations, and lets one of them fail."""

    fault: str = "full"
    at: int | None = None
    """The number of the operation that fails."""
    done: list[str] = field(default_factory=list)
    """The operations so far, by name."""

    @property
    def failed(self) -> str | None:
        """The operation that failed, None where it has not come yet."""
        return None if self.at is None or self.at >= len(self.done) else self.done[self.at]

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Do an operation, unless it is the one that fails."""
        is_it = self.at == len(self.done)
        self.done.append(name)
        if is_it and not self.fault.endswith("after"):
            raise FAULTS[self.fault]()  # noqa: RSE102  it makes one
        result = work()
        if is_it:
            raise FAULTS[self.fault]()  # noqa: RSE102  it makes one
        return result


class FailingStream:
    """A stream whose writes count."""

    def __init__(self, stream: Any, failing: Failing) -> None:
        self._stream, self._failing = stream, failing

    def write(self, data: Any) -> Any:
        """Write."""
        return self._failing.run("write", lambda: self._stream.write(data))

    def writelines(self, pieces: Any) -> None:
        """Write each."""
        for piece in pieces:
            self.write(piece)

    def flush(self) -> None:
        """Flush."""
        self._failing.run("flush", self._stream.flush)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _steps() -> Iterator[tuple[Any, str]]:
    """Yield what writes without Python's own functions: steps of Arrow and Icechunk, if installed."""
    with suppress(ImportError):
        from jnrrdz.manifests import parquet  # noqa: PLC0415  it may not be installed

        yield parquet.pq, "write_table"
    with suppress(ImportError):
        from icechunk import Repository, Session  # noqa: PLC0415  the same

        from jnrrdz.manifests import icechunk  # noqa: PLC0415  the same

        own = ("_for_writing", "_set", "_set_references")
        branches = ("create_branch", "reset_branch", "delete_branch")
        yield from (*((icechunk, name) for name in own), *((Repository, name) for name in branches))
        yield Session, "commit"


@contextmanager
def failing_folder(monkeypatch: Any, folder: pathlib.Path, failing: Failing) -> Iterator[None]:
    """Let the operations of this process on a folder count, and one of them fail."""

    def counts(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        first = arguments[0]
        if isinstance(first, int) or options.get("dir_fd") is not None or str(first).startswith("/proc/self/fd"):
            return True
        return str(os.fspath(first)).startswith(str(folder))

    def wrapped(name: str, function: Callable[..., Any], *, is_named: bool = True) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            def work() -> Any:
                return function(*arguments, **options)

            return failing.run(name, work) if not is_named or counts(arguments, options) else work()

        return call

    with monkeypatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, wrapped(name, getattr(os, name)))
        for name in WRITES:
            patch.setattr(pathlib.Path, name, wrapped(name, getattr(pathlib.Path, name)))
        for place, name in _steps():
            patch.setattr(place, name, wrapped(name, getattr(place, name), is_named=False))
        patch.setattr(
            atomic,
            "open",
            lambda *a, **o: FailingStream(builtins.open(*a, **o), failing),  # noqa: SIM115, PTH123  as it is there
            raising=False,
        )
        yield


@contextmanager
def failing_store(monkeypatch: Any, fs: Any, failing: Failing) -> Iterator[None]:
    """Let the calls of a file system of fsspec's count, and one of them fail."""
    with monkeypatch.context() as patch:
        for name in REMOTE:
            method = getattr(fs, name)
            patch.setattr(
                fs, name, lambda *a, _name=name, _method=method, **o: failing.run(_name, lambda: _method(*a, **o))
            )
        yield


class OneFault(Faults):
    """Refuses the n-th request, and what repeats it."""

    def __init__(self, at: int | None = None, fault: str = "unavailable") -> None:
        super().__init__(status=403)
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "fault", fault)
        object.__setattr__(self, "seen", [])
        object.__setattr__(self, "refused", None)

    def of(self, method: str, path: str, span: str, asked: int) -> str | None:  # noqa: ARG002  those of `Faults`
        """Return the fault that the request meets."""
        self.seen.append(method)
        if self.at is not None and len(self.seen) - 1 == self.at:
            object.__setattr__(self, "refused", (method, path))
        return self.fault if (method, path) == self.refused else None


class RefusingProxy(FaultProxy):
    """Tells that access is denied, which no client asks again for."""

    def _refusal(self, method: str) -> bytes:
        return super()._refusal(method).replace(b"SlowDown", b"Refused!")
