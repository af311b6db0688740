"""How many chunks of a source elsewhere are under way at once: seen by a server that holds answers back."""

import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import tifffile
import zarr

import jnrrdz
from jnrrdz.codecs.base import AT_ONCE, HELD, chunks_at_once

TILE, TILES = 512, 64
STEP = 2 * TILE
"""Every other tile: those are so far apart that no two share a request."""

WANTED = TILES // 2
FEW = 3


class Server(ThreadingHTTPServer):
    """Serves one file; once `together` is set it answers when so many ask, or nobody has come for a while."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, data):
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.lock = data, threading.Condition()
        self.together = self.asking = self.most = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        server = self.server
        with server.lock:
            server.asking += 1
            server.most = max(server.most, server.asking)
            server.lock.notify_all()
            last, until = server.asking, time.monotonic() + 5
            while server.most < server.together and time.monotonic() < until:
                server.lock.wait(0.5)
                if server.asking > last:
                    last, until = server.asking, time.monotonic() + 5
        size, match = len(server.data), re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, stop = (int(match[1]), min(int(match[2]) + 1, size)) if match else (0, size)
        with server.lock:  # counted before the answer is out, after which the next one comes
            server.asking -= 1
        self.send_response(206 if match else 200)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(server.data[start:stop])


@contextmanager
def serving(data):
    server = Server(data)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/a.tif"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def column(tmp_path_factory):
    """A column of raw tiles, its file, and every other row of tiles as tifffile reads their first rows."""
    path = tmp_path_factory.mktemp("column") / "a.tif"
    pixels = np.random.default_rng(5).integers(0, 255, (TILE * TILES, TILE), np.uint8)
    tifffile.imwrite(path, pixels, tile=(TILE, TILE))
    return path.read_bytes(), tifffile.imread(path)[::STEP]


def opened(url, tmp_path, codecs):
    manifest = str(tmp_path / "a.json")
    jnrrdz.index(url, manifest, codecs=codecs)
    return jnrrdz.open_group(manifest, allow=[url])["data"]


@pytest.mark.parametrize("codecs", ["standard", "proposal"])
def test_more_chunks_are_under_way_than_zarr_has_by_itself(column, tmp_path, codecs):
    data, expected = column
    with serving(data) as (server, url):
        array = opened(url, tmp_path, codecs)
        server.most, server.together = 0, WANTED
        assert np.array_equal(array[::STEP], expected)
        assert server.most == WANTED > 3 * zarr.config.defaults[0]["async"]["concurrency"]


@pytest.mark.parametrize("codecs", ["standard", "proposal"])
def test_who_told_zarr_a_number_gets_it(column, tmp_path, codecs):
    data, expected = column
    with serving(data) as (server, url), zarr.config.set({"async.concurrency": FEW}):
        array = opened(url, tmp_path, codecs)
        server.most, server.together = 0, FEW
        assert np.array_equal(array[::STEP], expected)
        assert server.most == FEW


def test_of_large_chunks_no_more_are_held():
    assert chunks_at_once((HELD // AT_ONCE,), 1) == AT_ONCE
    assert chunks_at_once((HELD // 20,), 1) == 20
    assert chunks_at_once((HELD, 4), 8) == zarr.config.get("async.concurrency")


def test_a_chunk_that_fails_ends_the_others(column, tmp_path):
    data, _ = column
    with serving(data) as (server, url):
        array = opened(url, tmp_path, "standard")
        server.data = data + b" "
        with pytest.raises(jnrrdz.JnrrdzError, match="size was"):
            array[::STEP]
