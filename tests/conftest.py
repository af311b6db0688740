"""What all tests share: the surroundings that they run in, and a small HTTP server that answers as a test tells it.

`http_server` is a fresh one per test, `make_http_server` makes more.  Real servers
(SeaweedFS, nginx) and a proxy that breaks what passes are in tests/servers.
"""

import hashlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.servers.fixtures",)

REMOVED = ("NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "PYTHONOPTIMIZE", "PYTHONUNBUFFERED", "PYTHONWARNINGS")
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC", "COLUMNS": "100", "TERM": "dumb"}
# where another package has a codec of that name (zarr-n5), zarr is told which one tests are about
ENVIRONMENT |= {"ZARR_CODECS__N5_DEFAULT": "jnrrdz.codecs.steps.N5DefaultCodec"}


def pytest_configure() -> None:
    """Make a test's surroundings the same whoever starts it: a terminal, nohup, a job without HOME.

    Signals that the parent ignores would be ignored by every child too; a shell ignores SIGINT for what it
    starts in the background.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    for name in [name for name in os.environ if name in REMOVED or name.startswith(("AWS_", "JNRRDZ_S3", "FSSPEC_"))]:
        del os.environ[name]
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("HOME", tempfile.gettempdir())
    if hasattr(time, "tzset"):  # Windows has none
        time.tzset()
    # a busy machine is slow, which says nothing of the code
    settings.register_profile("anywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("anywhere")


LAST_MODIFIED = "Wed, 21 Oct 2015 07:28:00 GMT"


@dataclass
class Logged:
    """One request as the server saw it."""

    method: str
    path: str
    range: str | None
    connection: int
    headers: dict[str, str]


@dataclass
class HttpServer:
    """Files by path (`/a.tif`), with Range, ETag, Last-Modified and HEAD; and faults to order."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    """Statuses for the next requests of a path, before it is served."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers added to every answer (None as text removes one)."""
    head: int = 200
    """What HEAD answers; 200 means as GET does."""
    ranges: bool = True
    etags: bool = True
    latency: float = 0.0
    cut: list[int] = field(default_factory=list)
    """Bytes after which the connection breaks, for the next bodies."""
    lie: Callable[[int, int], tuple[int, int]] | None = None
    """Turns the span that was asked into the one that is answered."""
    log: list[Logged] = field(default_factory=list)
    together: int = 0
    """The most requests that were being answered at one time."""
    body_bytes: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    """Any that is free, if it is 0."""
    url: str = ""

    def __post_init__(self) -> None:
        handler = type("Handler", (_Handler,), {"owner": self})
        self.lock = threading.Lock()
        self.busy = 0
        self.connections: set[socket.socket] = set()
        self._server = _Server((self.host, self.port), handler)
        self.port = self._server.server_address[1]
        self.url = f"http://{self.host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def methods(self) -> list[str]:
        return [entry.method for entry in self.log]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        for connection in list(self.connections):
            connection.close()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # the default of 5 makes a burst of connections wait for a second


class _Handler(BaseHTTPRequestHandler):
    owner: HttpServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.owner.connections.add(self.connection)

    def log_message(self, *args) -> None:
        """Say nothing on stderr; the log is for the tests."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        owner, path = self.owner, self.path.partition("?")[0]
        owner.log.append(
            Logged(self.command, self.path, self.headers["Range"], id(self.connection), dict(self.headers))
        )
        with owner.lock:
            owner.busy += 1
            owner.together = max(owner.together, owner.busy)
        time.sleep(owner.latency)
        with owner.lock:
            owner.busy -= 1
        if owner.statuses.get(path):
            self._plain(owner.statuses[path].pop(0))
        elif path in owner.redirects:
            self._plain(302, {"Location": owner.redirects[path]})
        elif self.command == "HEAD" and owner.head != 200:
            self._plain(owner.head)
        elif path in owner.files:
            self._file(owner.files[path])
        else:
            self._plain(404)

    def _plain(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _file(self, data: bytes) -> None:
        owner, span = self.owner, self._span(len(data))
        headers = {"Last-Modified": LAST_MODIFIED, "Content-Type": "application/octet-stream"}
        if owner.etags:
            headers["ETag"] = f'"{hashlib.md5(data).hexdigest()}"'
        body, status = data, 200
        if span is not None and span[0] >= len(data):
            headers["Content-Range"] = f"bytes */{len(data)}"
            body, status = b"", 416
        elif span is not None:
            start, stop = owner.lie(*span) if owner.lie else span
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            body, status = data[start:stop], 206
        headers["Content-Length"] = str(len(body))
        self._send(status, {**headers, **owner.headers}, body)

    def _span(self, size: int) -> tuple[int, int] | None:
        asked = self.headers["Range"]
        if asked is None or not self.owner.ranges or self.command == "HEAD":
            return None
        first, _, last = asked.removeprefix("bytes=").partition("-")
        return int(first), min(int(last) + 1, size) if last else size

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if value != "None":
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.owner.cut:
            body = body[: self.owner.cut.pop(0)]
            self.close_connection = True
        for start in range(0, len(body), 65536):  # in pieces, to count what a client really takes
            piece = body[start : start + 65536]
            self.owner.body_bytes += len(piece)  # before it leaves: a test may ask as soon as its client has it
            try:
                self.wfile.write(piece)
            except OSError:
                self.owner.body_bytes -= len(piece)
                raise


@pytest.fixture
def make_http_server() -> Iterator[Callable[..., HttpServer]]:
    """Return a function that starts a server on a port of its own; all are closed afterwards."""
    made: list[HttpServer] = []

    def make(**settings) -> HttpServer:
        made.append(HttpServer(**settings))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def http_server(make_http_server) -> HttpServer:
    """Return a running server with no files yet."""
    return make_http_server()
