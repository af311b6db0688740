"""uvicorn's protocol with bounds on what a connection may take: their number, the length of headers, time.

uvicorn itself holds a connection that says nothing, or a word now and then, for ever; with httptools it reads headers
of any length; and it waits for a reader that never reads.  Here such connections are ended, and those beyond a number
are told to come again, so that there is room for the next one.
"""

import asyncio
import contextlib
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 32 << 10
"""Bytes of a request's line and headers."""

HEAD_TIME = 10.0
"""Seconds that a connection has for the headers of its first request, and of each one that it begins."""

READ_TIME = 30.0
"""Seconds in which a reader takes `READ_LEAST` of what it was sent, or all of it."""

READ_LEAST = 64 << 10

MOST_UNREAD = 512 << 20
"""Bytes sent and not read, of all connections; beyond, those with the most are ended."""

MOST_CONNECTIONS = 2048

KEEP_ALIVE = 20.0
"""Seconds for which a connection stays open that asks for nothing more."""

LINGER = 1.0
"""Seconds in which a client that is refused may read why."""

SWEEP = 1.0
"""Seconds from one look at all connections to the next."""

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def most_connections(wanted: int = MOST_CONNECTIONS) -> int:
    """Return how many connections may be held, the system's limit of open files raised for them if need be.

    Each has a place left for one that is told to come again, and as many files are left for sources.
    """
    try:
        import resource  # noqa: PLC0415  Windows has none, and no such limit
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 4 * wanted:
        raised = 4 * wanted if hard == resource.RLIM_INFINITY else min(hard, 4 * wanted)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(raised, soft), hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(min(wanted, soft // 4), 1)


class BoundedProtocol(HttpToolsProtocol):
    """One connection; `uvicorn --http jnrrdz.server.connections:BoundedProtocol` takes it too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = Watch.of(self.server_state, self.loop)
        self._head = 0
        self._head_since: float | None = self.loop.time()
        self._is_refused = False
        self._is_answered = False
        self._idle_since: float | None = None
        self._unread = 0
        self._taken = 0
        self._unread_since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Take a connection, tell it to come again, or where even those are many end it."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self._watch.most:
            self.end()
        elif len(self.connections) > self._watch.most:
            self._refuse(_TOO_MANY)

    def data_received(self, data: bytes) -> None:
        """Take what was sent."""
        if self._is_refused:
            return
        if self._head_since is None and self._is_idle:
            self._head_since, self._head = self.loop.time(), 0
            self._idle_since = None
        self._head += len(data)
        super().data_received(data)
        if self._head_since is not None and self._head > LONGEST_HEAD:
            self._refuse(_TOO_LONG)

    @property
    def _is_idle(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._head_since, self._head = None, 0
        if self._is_refused or self._answered_at_once():
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > LONGEST_HEAD:
            self._refuse(_TOO_LONG)
            return
        super().on_headers_complete()
        if any(name in _MORE for name, _ in self.headers):  # nobody waits for what follows
            self.cycle.keep_alive = False

    def _answered_at_once(self) -> bool:
        """Whether the request was answered here: an answer that is kept needs no task and no application."""
        self._is_answered = False
        kept = getattr(self.app, "kept", None)
        if kept is None or self.root_path or not self._is_idle or self.flow.write_paused or self.pipeline:
            return False
        if self.parser.get_method() != b"GET" or not self.parser.should_keep_alive():
            return False
        answer = kept(self.url, self.headers)
        if answer is None:
            return False
        head, body = answer
        date = b"".join([b"%s: %s\r\n" % pair for pair in self.server_state.default_headers])
        self.transport.writelines((b"HTTP/1.1 200 OK\r\n" + date + head, body))
        self._idle_since = self.loop.time()
        self._is_answered = True
        return True

    def on_body(self, body: bytes) -> None:
        """Pass over what no request here has."""

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        if not self._is_refused and not self._is_answered:
            super().on_message_complete()

    def _refuse(self, answer: bytes) -> None:
        """Say no, and let go of the connection once that may have been read."""
        self._is_refused = True
        self._head_since = None
        self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.end)

    def end(self) -> None:
        """Let go of the connection now, whatever is under way."""
        self._is_refused = True
        self.pipeline.clear()
        cycle: Any = self.cycle
        if cycle is not None:  # what it still wants to say is said to nobody
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        self.transport.abort()

    def unread(self) -> int:
        """Return how many bytes were sent and not read."""
        return self.transport.get_write_buffer_size()

    def is_stuck(self, now: float) -> bool:
        """Whether this connection keeps others out and does nothing; asked now and then."""
        if self._head_since is not None and now - self._head_since > HEAD_TIME:
            return True
        if self._idle_since is not None and now - self._idle_since > KEEP_ALIVE:
            return True
        unread = self.unread()
        self._taken += READ_LEAST if unread > self._unread else self._unread - unread  # more is sent when much was read
        self._unread = unread
        if not unread or self._taken >= READ_LEAST:
            self._taken, self._unread_since = 0, now
        return now - self._unread_since > READ_TIME


_MORE = frozenset({b"content-length", b"transfer-encoding", b"upgrade"})


class Watch:
    """Looks at all connections of a server now and then, and ends those that are stuck."""

    def __init__(self, state: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop
        self.most = most_connections()
        """Connections that are held at once."""
        loop.call_later(SWEEP, self._sweep)

    @classmethod
    def of(cls, state: Any, loop: asyncio.AbstractEventLoop) -> "Watch":
        """Return the watch of a server, begun with its first connection."""
        watch: Watch | None = vars(state).get("jnrrdz_watch")
        if watch is None:
            watch = state.jnrrdz_watch = cls(state, loop)
        return watch

    def _sweep(self) -> None:
        now = self._loop.time()
        connections = [each for each in self._state.connections if isinstance(each, BoundedProtocol)]
        for connection in connections:
            if connection.is_stuck(now):
                connection.end()
        waiting = sorted(connections, key=BoundedProtocol.unread)
        total = sum(map(BoundedProtocol.unread, waiting))
        while total > MOST_UNREAD:
            worst = waiting.pop()
            total -= worst.unread()
            worst.end()
        self._loop.call_later(SWEEP, self._sweep)
