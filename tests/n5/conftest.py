"""N5 datasets by independent writers, and an S3 server of its own for listings."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from tests.writers import n5_attributes, n5_dataset


@pytest.fixture
def write_n5():
    """Return a function that writes a dataset."""
    return n5_dataset


@pytest.fixture
def add_attributes():
    """Return a function that adds attributes to a folder."""
    return n5_attributes


class _S3(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        parts = urlsplit(self.path)
        query = {name: value[0] for name, value in parse_qs(parts.query, keep_blank_values=True).items()}
        self.server.log.append("LIST" if "list-type" in query else "GET")
        key = parts.path.partition("/")[2].partition("/")[2]
        body = self._listing(query) if "list-type" in query else self.server.files.get(key)
        status = self.server.refused.get(key, 404 if body is None else 200)
        body = body or b""
        span = self.headers.get("Range")
        headers = {}
        if span and status == 200 and body:
            first, _, last = span.removeprefix("bytes=").partition("-")
            size, body, status = len(body), body[int(first) : int(last) + 1], 206
            headers["Content-Range"] = f"bytes {first}-{int(first) + len(body) - 1}/{size}"
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body), "ETag": '"1"'}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def _listing(self, query):
        keys = sorted(key for key in self.server.files if key.startswith(query.get("prefix", "")))
        first = int(query.get("continuation-token", 0))
        some, more = keys[first : first + 1000], len(keys) > first + 1000
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.files[key])}</Size></Contents>" for key in some
        )
        token = f"<NextContinuationToken>{first + 1000}</NextContinuationToken>" if more else ""
        text = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{contents}</ListBucketResult>"
        return text.encode()


@pytest.fixture
def s3(monkeypatch):
    """Return a server with `files` by key, a `log` of requests and the storage `options` for it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _S3)
    server.daemon_threads = True
    server.files, server.log, server.refused = {}, [], {}
    server.options = {"endpoint_url": f"http://127.0.0.1:{server.server_port}"}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
