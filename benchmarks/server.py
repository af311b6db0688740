"""A local HTTP server with byte ranges and a latency, that counts what is asked of it, and how much at once.

It runs in a process of its own, so that
the reader under measure keeps its interpreter lock to itself.  Ranges follow RFC 9110, section 14:
one range a request, as GDAL and fsspec ask for them.
"""

import argparse
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RANGE = re.compile(r"bytes=(\d*)-(\d*)$")
TALLY = "/tally"
PIECE = 1 << 16


class Server(ThreadingHTTPServer):
    """Serves one folder; `tally` grows with every answer."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path, latency: float, rate: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder.resolve()
        self.latency = latency
        self.rate = rate
        self.lock = threading.Lock()
        self.busy = 0
        self.since = time.monotonic()
        self.restart()

    def restart(self) -> None:
        """Count from nothing."""
        self.tally = {"requests": 0, "bytes": 0, "under_way": 0.0, "busy": 0.0}

    def count(self, step: int) -> None:
        """Note that a request has come or is answered: `under_way` is their time, `busy` that with one at least."""
        with self.lock:
            now, since = time.monotonic(), self.since
            self.tally["under_way"] += self.busy * (now - since)
            self.tally["busy"] += (self.busy > 0) * (now - since)
            self.busy, self.since = self.busy + step, now


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for files of the folder."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: Server

    def log_message(self, *_: object) -> None:
        """Say nothing: the tally tells what was asked."""

    def do_HEAD(self) -> None:
        """Answer as for GET, without the body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with a file, a range of it, or the tally."""
        if self.path == TALLY:
            self._send(HTTPStatus.OK, json.dumps(self.server.tally).encode())
            self.server.restart()
            return
        self.server.count(1)
        try:
            time.sleep(self.server.latency)
            self._serve()
        finally:
            self.server.count(-1)

    def _serve(self) -> None:
        path = (self.server.folder / self.path.partition("?")[0].lstrip("/")).resolve()  # S3 clients name what they do
        if not path.is_relative_to(self.server.folder) or not path.is_file():
            self._count(b"")
            self._send(HTTPStatus.NOT_FOUND, b"")
        else:
            self._file(path)

    def _file(self, path: Path) -> None:
        """Answer with the file's bytes, or those that the Range header names."""
        size = path.stat().st_size
        span = _span(self.headers.get("Range", ""), size)
        headers = {"Accept-Ranges": "bytes", "ETag": f'"{size:x}"', "Last-Modified": self.date_time_string(0)}
        if span is None:
            self._answer(HTTPStatus.OK, path, 0, size, headers)
        elif span[0] >= size:
            self._count(b"")
            self._send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", {"Content-Range": f"bytes */{size}"})
        else:
            headers["Content-Range"] = f"bytes {span[0]}-{span[1] - 1}/{size}"
            self._answer(HTTPStatus.PARTIAL_CONTENT, path, *span, headers)

    def _answer(self, status: HTTPStatus, path: Path, start: int, stop: int, headers: dict[str, str]) -> None:
        """Send one span of a file, or, for HEAD, its size only."""
        if self.command == "HEAD":
            self._count(b"")
            self._send(status, b"", {**headers, "Content-Length": str(stop - start)})
            return
        with path.open("rb") as file:
            file.seek(start)
            body = file.read(stop - start)
        self._count(body)
        self._send(status, body, headers)

    def _count(self, body: bytes) -> None:
        self.server.tally["requests"] += 1
        self.server.tally["bytes"] += len(body)

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send one whole response."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        piece = PIECE if self.server.rate else len(body) or 1
        for start in range(0, len(body), piece):
            self.wfile.write(body[start : start + piece])
            time.sleep(piece / self.server.rate if self.server.rate else 0)


def _span(header: str, size: int) -> tuple[int, int] | None:
    """Return first byte and end of a Range header, None where there is none to follow."""
    match = RANGE.match(header)
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


@dataclass(frozen=True)
class Remote:
    """The address of a running server."""

    root: str

    def tally(self) -> dict[str, float]:
        """Return requests, bytes and seconds of answering since the last call, and start again."""
        with urllib.request.urlopen(self.root + TALLY) as answer:
            return json.load(answer)


@contextmanager
def serving(folder: Path, latency: float, rate: float = 0.0) -> Iterator[Remote]:
    """Serve the folder while the context lasts."""
    command = [sys.executable, __file__, str(folder), "--latency", str(latency), "--rate", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Remote(process.stdout.readline().strip())
        finally:
            process.terminate()


def main() -> None:
    """Serve until ended; the first line printed is the address."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--rate", type=float, default=0.0, help="bytes a second of each connection; 0 is no bound")
    options = parser.parse_args()
    with Server(options.folder, options.latency, options.rate) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
