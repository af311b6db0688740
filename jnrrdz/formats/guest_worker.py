"""A worker process that runs parsers of other libraries, one file after another.

The worker opens nothing: bytes of the source, and files next to it, are read by the
process that started it, which answers each request for spans, or passes a local file
that it has opened.  The address space is
limited before anything else is imported.

Standard input is the lifeline: only the parent holds its other end.  When the parent
ends, in whatever way, the kernel sends SIGIO, whose default action ends this process,
though a parser holds the interpreter's lock.
"""

import fcntl
import os
import resource
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from jnrrdz.core.standard import with_standard_codecs
from jnrrdz.core.state import Validators
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.guest_messages import Channel, error_json, no_limit, tree_message
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.ranges import ByteSource, Span
from jnrrdz.sources.readahead import FIRST, ReadAhead

MOST_WARNINGS = 100
LONGEST_WARNING = 10_000
LARGEST = 1 << 30
"""Bytes of memory after which a worker is replaced: parsers do not return all of it."""


def main(descriptor: int, memory: int) -> None:
    """Answer requests until the parent ends."""
    hold_lifeline()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(Channel(socket.socket(fileno=descriptor), None))
    try:
        while parent.answer():
            pass
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def prepare(function: str) -> None:
    """Import a scanner and its libraries, which is not the time of its first source."""
    scan = resolve_name(function)
    module = import_module(scan.__module__)
    for name in getattr(module, "LIBRARIES", ()):
        with suppress(ImportError):  # the scan reports it
            import_module(name)


def hold_lifeline() -> None:
    """Let this process end when the other end of standard input is closed."""
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    is_closed, _, _ = select.select([0], [], [], 0)
    if is_closed:
        sys.exit()


class Parent:
    """The process that started this one, and reads for it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        # a new process starts with the peak of the one that started it
        self._most = max(LARGEST, _peak())

    def answer(self) -> bool:
        """Answer one request; return whether this process takes another one."""
        request, head, files = self._channel.receive_files()
        if "prepare" in request:
            prepare(request["prepare"])
            self._channel.send({"ready": True}, b"", no_limit)
            return True
        if files:
            head = os.pread(files[0], FIRST, 0)
        source = PipedSource(self, 0, request["url"], request["size"], head)
        source.descriptor = files[0] if files else None
        sources = PipedSources(self, source)
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always", UserWarning)
            answer, data = _outcome(request, sources)
        texts = [str(each.message) for each in recorded if _is_shown(each.category)]
        answer["warnings"] = [text[:LONGEST_WARNING] for text in texts[:MOST_WARNINGS]]
        answer["spans"] = source.read_here
        source.close()
        answer["is_last"] = _peak() > self._most
        self._channel.send(answer, data, no_limit)
        return not answer["is_last"]

    def ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return what the parent replies to a question."""
        self._channel.send(question, b"", no_limit)
        reply, data = self._channel.receive(no_limit)
        if "failed" in reply:
            # the parent raises the error itself, with its type and cause
            raise JnrrdzError(reply["failed"])
        return reply, data


def _is_shown(category: type[Warning]) -> bool:
    return issubclass(category, UserWarning)


def _peak() -> int:
    """Return the most memory that this process had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _outcome(request: dict[str, Any], sources: "PipedSources") -> tuple[dict[str, Any], bytes]:
    """Return the answer to a request: a tree, no tree, or the error of the parser."""
    options = ScanOptions(**request["options"])
    scan: Callable[..., VirtualGroup | None] = resolve_name(request["function"])
    try:
        group = scan(sources.read, sources.url, options, sources.neighbours)
        if group is None:
            return {"tree": None}, b""
        if options.codecs != "proposal":
            is_strict = options.codecs == "standard"
            group = with_standard_codecs(group, is_strict=is_strict)
        tree, data = tree_message(group)
    except JnrrdzError as error:
        return {"error": error_json(error)}, b""
    except MemoryError:
        return {"error": error_json(JnrrdzError(request["too_large"]))}, b""
    return {"tree": tree}, data


class PipedSources:
    """The source of a request and the files next to it, read by the parent."""

    def __init__(self, parent: Parent, source: "PipedSource") -> None:
        self._parent = parent
        self.url = source.url
        self.read = ReadAhead(source)
        self.read(0, 1)  # as the parent's has done: the same reads follow
        self.neighbours = Neighbours(self._open)

    def _open(self, url: str) -> ByteSource:
        reply, head = self._parent.ask({"open": url})
        if reply["absent"]:
            raise JnrrdzError("no such file", url=url) from FileNotFoundError(url)
        return PipedSource(self._parent, reply["read"], url, reply["size"], head)


class PipedSource:
    """A source that the parent reads, or a local file that it has opened."""

    def __init__(self, parent: Parent, number: int, url: str, size: int, head: bytes) -> None:
        self.url = url
        self.validators = Validators(size)
        self.known: Validators | None = self.validators
        self._parent = parent
        self._number = number
        self._head = head
        self.descriptor: int | None = None
        self.read_here: list[Span] = []
        """Spans that were read from the descriptor."""

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span."""
        size = self.validators.size
        is_whole = len(self._head) == size
        if is_whole or all(stop <= len(self._head) for _, stop in spans):
            return [self._head[start:stop] for start, stop in spans]
        if self.descriptor is not None:
            return [self._part(start, stop) for start, stop in spans]
        question = {"read": self._number, "spans": [list(span) for span in spans]}
        reply, data = self._parent.ask(question)
        parts: list[bytes] = []
        start = 0
        for length in reply["lengths"]:
            parts.append(data[start : start + length])
            start += length
        return parts

    def _part(self, start: int, stop: int) -> bytes:
        assert self.descriptor is not None  # noqa: S101  the caller has looked
        self.read_here.append((start, stop))
        data = b""
        while len(data) < stop - start:
            place = start + len(data)
            more = os.pread(self.descriptor, stop - place, place)
            if not more:
                break  # the reader reports it
            data += more
        return data

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the same; parsers wait for nothing else."""
        return self.read(spans)

    def close(self) -> None:
        """Close the descriptor; what the parent reads stays open."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
