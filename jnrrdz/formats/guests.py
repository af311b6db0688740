"""Parsers of other libraries in worker processes, which have an end.

h5py, astropy, VirtualiZarr, kerchunk and tifffile were not written for files that are
made to harm.  `batch` and `serve`, where files of strangers come unattended, run them
in a few processes that are kept: each has a limit of its address space, and is killed
when the time of its source is over, when the batch stops, or when the server ends.
Remote files are read in this process, with its credentials, retries and address
guard; of a local file a worker gets the open descriptor.
What a worker answers is checked like a manifest (`guest_messages`).

docs/decisions/049-parsers-in-worker-processes.md
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats import guest_messages as messages
from jnrrdz.formats.neighbours import Guest, Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.local import LocalSource
from jnrrdz.sources.ranges import ByteSource, Span
from jnrrdz.sources.readahead import FIRST, ReadAhead

SECONDS = 600.0
"""Seconds that a parser may work on a source; waiting for the source is not counted."""

MEMORY = 4 << 30
"""Bytes of a worker's address space, its libraries included."""

MOST_READ = 1 << 28
"""Bytes that a worker may ask for at once."""

LOOK = 0.25
"""Seconds between two looks at whether to stop."""

IS_POSSIBLE = os.name == "posix"
"""Whether this system can limit and pass what a worker needs; Windows cannot."""

ENDED = (EOFError, BrokenPipeError, ConnectionResetError)
PROGRAM = "import sys; from jnrrdz.formats.guest_worker import main; main(int(sys.argv[1]), int(sys.argv[2]))"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Variables for libraries that reserve address space for each core."""


class ParserTimeoutError(JnrrdzError):
    """A parser of another library has worked on its source for as long as it may."""


class Patience(Protocol):
    """How long a source's scan may take, and whether its result is needed."""

    def check(self) -> None:
        """Raise if the time is over or the work is to stop."""

    def check_stop(self) -> None:
        """Raise if the work is to stop."""

    def extend(self, seconds: float) -> None:
        """Add seconds that were not the source's own."""


class Unlimited:
    """A scan that takes as long as its source and its parser take."""

    def check(self) -> None:
        """Never raise."""

    check_stop = check

    def extend(self, seconds: float) -> None:
        """Ignore the seconds."""


UNLIMITED = Unlimited()


class Guests:
    """A few worker processes for parsers of other libraries, started when needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._room = threading.Condition()
        self._starting = 0
        self._is_closed = False

    def within(self, seconds: float, patience: Patience = UNLIMITED) -> Guest:
        """Return what runs a scanner in a worker, for some seconds of its own work.

        It ends sooner where the patience does, which does not count the time for
        which other sources hold all workers.
        """

        def scan(
            function: str,
            read: ReadAhead,
            url: str,
            options: ScanOptions,
            neighbours: Neighbours,
        ) -> VirtualGroup | None:
            with self._worker(patience) as worker:
                limits = _Limits(patience, seconds)
                talk = _Talk(worker, limits, [read], neighbours)
                return talk.scanned(function, url, options)

        return scan

    def close(self) -> None:
        """End all workers; who waits for one gets an error."""
        with self._room:
            self._is_closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
            self._room.notify_all()
        for worker in workers:
            worker.kill()

    @contextmanager
    def _worker(self, patience: Patience) -> Iterator["_Worker"]:
        """Yield a worker for one source; one that did not answer is replaced."""
        worker = self._taken(patience)
        try:
            yield worker
        finally:
            with self._room:
                self._busy.discard(worker)
                is_kept = worker.is_idle and not self._is_closed
                if is_kept:
                    self._idle.append(worker)
                self._room.notify()
            if not is_kept:
                worker.kill()

    def _taken(self, patience: Patience) -> "_Worker":
        start = time.monotonic()
        with self._room:
            while not self._is_closed and not self._has_room:
                self._room.wait(LOOK)
                patience.check_stop()
            self._refuse_if_closed()
            patience.extend(time.monotonic() - start)
            if self._idle:
                worker = self._idle.pop()
                self._busy.add(worker)
                return worker
            self._starting += 1
        try:
            worker = _Worker()
        finally:
            with self._room:
                self._starting -= 1
        with self._room:
            self._busy.add(worker)
            is_late = self._is_closed
        if is_late:
            worker.kill()
        return worker

    @property
    def _has_room(self) -> bool:
        return bool(self._idle) or len(self._busy) + self._starting < self._most

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise JnrrdzError("interrupted")


class _Worker:
    """One process and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-c", PROGRAM]
        command += [str(theirs.fileno()), str(MEMORY)]
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own program
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
                # an interrupt from the terminal is for the process that started it
                process_group=0,
            )
        except OSError as error:
            ours.close()
            message = f"no process for a parser could be started: {error.strerror}"
            raise JnrrdzError(message) from error
        finally:
            theirs.close()
        self.channel = messages.Channel(ours, LOOK)
        self.is_idle = True
        """Whether it has answered, and waits for a request."""
        self._prepared: set[str] = set()

    def prepare(self, function: str, patience: Patience) -> None:
        """Wait until the process can call a scanner; that time is not the source's."""
        if function in self._prepared:
            return
        start = time.monotonic()
        self.channel.send({"prepare": function}, b"", patience.check_stop)
        self.channel.receive(patience.check_stop)
        self._prepared.add(function)
        patience.extend(time.monotonic() - start)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.channel.close()

    def death(self) -> str:
        """Return in words how the process ended."""
        try:
            code = self._process.wait(LOOK)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code >= 0:
            return f"code {code}"
        return signal.Signals(-code).name


class _Limits:
    """The time that one source has, and how much of it its parser has worked."""

    def __init__(self, patience: Patience, seconds: float) -> None:
        self.patience = patience
        self._seconds = seconds
        self._worked = 0.0
        self._start = 0.0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time for which this lasts."""
        self._start = time.monotonic()
        yield
        self._worked += time.monotonic() - self._start

    def check(self) -> None:
        """Raise if the time is over or the work is to stop."""
        self.patience.check()
        left = self._seconds - self._worked - (time.monotonic() - self._start)
        if left <= 0:
            message = f"its parser was not done after {self._seconds:g} s of work"
            way_out = "jnrrdz index reads it without this limit"
            raise ParserTimeoutError(f"{message}; {way_out}")


class _Talk:
    """One source's conversation with a worker."""

    def __init__(
        self,
        worker: _Worker,
        limits: _Limits,
        readers: list[ReadAhead],
        neighbours: Neighbours,
    ) -> None:
        self._worker = worker
        self._limits = limits
        self._readers = readers
        self._neighbours = neighbours
        self._failure: JnrrdzError | None = None

    def scanned(self, function: str, url: str, options: ScanOptions) -> VirtualGroup | None:
        """Return the group that the worker answers with, None where it finds none."""
        request = {
            "function": function,
            "url": url,
            "size": self._readers[0].size,
            "options": options.changed(),
            "too_large": f"its parser needs more than {MEMORY >> 30} GB of memory; "
            "jnrrdz index reads it without this limit",
        }
        self._worker.is_idle = False
        try:
            self._worker.prepare(function, self._limits.patience)
            with _descriptors(self._readers[0].source) as descriptors:
                # of a local file the worker reads the head, too
                head = b"" if descriptors else self._head(self._readers[0])
                answer, data = self._asked(request, head, descriptors)
            while "tree" not in answer and "error" not in answer:
                answer, data = self._asked(*self._reply(answer))
        except ENDED as error:
            self._limits.patience.check()
            message = f"the process of its parser ended ({self._worker.death()})"
            raise JnrrdzError(message) from error
        if answer.get("tree", True) is not None:
            # without a tree this process reads the file itself
            self._count(messages.spans_from_json(answer.get("spans", [])))
        for text in messages.warnings_from_json(answer.get("warnings", [])):
            warnings.warn(text, stacklevel=2)
        failure = self._failure
        if failure is None and "error" in answer:
            failure = messages.error_from_json(answer["error"])
        group = None
        if failure is None and answer["tree"] is not None:
            urls = frozenset({url, *(reader.source.url for reader in self._readers)})
            group = messages.group_from_message(answer["tree"], data, urls)
        self._worker.is_idle = not answer.get("is_last")
        if failure is not None:
            raise failure
        return group

    def _count(self, spans: list[Span]) -> None:
        """Count what the worker read of a local file, whose state is checked again."""
        read = self._readers[0]
        if spans:
            read.source.read([])
        for start, stop in spans:
            if read.cached(start, stop) is None:
                read.requests += 1
                read.bytes_read += min(stop, read.size) - min(start, read.size)

    def _asked(self, document: dict[str, Any], data: bytes, descriptors: Sequence[int] = ()) -> tuple[Any, bytes]:
        """Send a message and return the next one of the worker."""
        channel = self._worker.channel
        with self._limits.working():
            channel.send(document, data, self._limits.check, descriptors)
            return channel.receive(self._limits.check)

    def _reply(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return the reply to a worker's question."""
        try:
            if "read" in question:
                return self._read(question)
            if "open" in question:
                return self._opened(question)
        except JnrrdzError as error:
            self._limits.patience.check()
            self._failure = self._failure or error
            return {"failed": error.message}, b""
        raise MalformedError("neither a question nor a result", field=messages.FIELD)

    def _read(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        number = messages.reader_number(question["read"], len(self._readers))
        spans = messages.spans_from_json(question.get("spans"))
        total = sum(stop - start for start, stop in spans)
        if total > MOST_READ:
            text = f"its parser asks for {total} bytes at once"
            raise MalformedError(text, field=messages.FIELD)
        parts = read_parts(self._readers[number], spans)
        return {"lengths": [len(part) for part in parts]}, b"".join(parts)

    def _opened(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        reader = self._neighbours.open(messages.url_from_json(question["open"]))
        if reader is None:
            return {"absent": True}, b""
        self._readers.append(reader)
        reply = {"absent": False, "read": len(self._readers) - 1, "size": reader.size}
        return reply, self._head(reader)

    def _head(self, reader: ReadAhead) -> bytes:
        return reader(0, min(FIRST, reader.size))


@contextmanager
def _descriptors(source: ByteSource) -> Iterator[list[int]]:
    """Yield a descriptor of a local file, which the worker reads by itself."""
    if not isinstance(source, LocalSource):
        yield []
        return
    descriptor = source.descriptor()
    try:
        yield [descriptor]
    finally:
        os.close(descriptor)


def read_parts(read: ReadAhead, spans: list[Span]) -> list[bytes]:
    """Return the bytes of spans; what was read before is not read again."""
    parts = {span: read.cached(*span) for span in spans}
    missing = [span for span, data in parts.items() if data is None]
    if missing:
        fetched = read.source.read(missing)
        read.requests += len(missing)
        for span, data in zip(missing, fetched, strict=True):
            read.bytes_read += len(data)
            read.add(span[0], data)
            parts[span] = data
    return [parts[span] or b"" for span in spans]
