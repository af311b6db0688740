"""A server that sends a byte now and then holds nobody: a request has to make progress, a source to end in its time."""

import socket
import threading
import time
from contextlib import closing

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem

import jnrrdz
from jnrrdz.batches.selection import Selection
from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import http, retry
from jnrrdz.sources.fsspec import open_source

SIZE = 100_000
PAUSE = 0.05
"""Seconds from one byte to the next: far below every time of silence."""

HEAD = b'HTTP/1.1 %s\r\nContent-Length: %d\r\nAccept-Ranges: bytes\r\nETag: "x"\r\n%s\r\n'


class Dripping:
    """A server of one file that sends what comes behind the first `quick` bytes of an answer byte by byte."""

    def __init__(self, quick, *, burst=1, pause=PAUSE):
        self.quick, self.burst, self.pause = quick, burst, pause
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests = []
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._over.set()
        self._socket.close()

    def _accept(self):
        while not self._over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with closing(connection):
            try:
                while request := self._request(connection):
                    self._drip(connection, self._answer(request))
            except OSError:
                return

    def _request(self, connection):
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            piece = connection.recv(4096)
            if not piece:
                return None
            data += piece
        self.requests.append(data.split()[0])
        return data

    def _answer(self, request):
        if request.startswith(b"HEAD"):
            return HEAD % (b"200 OK", SIZE, b"")
        span = request.partition(b"Range: bytes=")[2].partition(b"\r\n")[0]
        first, _, last = span.partition(b"-")
        start, stop = int(first), min(int(last) + 1, SIZE)
        told = b"Content-Range: bytes %d-%d/%d\r\n" % (start, stop - 1, SIZE)
        return HEAD % (b"206 Partial Content", stop - start, told) + bytes(stop - start)

    def _drip(self, connection, data):
        connection.sendall(data[: self.quick])
        for at in range(self.quick, len(data), self.burst):
            if self._over.wait(self.pause):
                return
            connection.sendall(data[at : at + self.burst])


@pytest.fixture
def dripping():
    made = []

    def make(quick, **more):
        made.append(Dripping(quick, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def impatient(monkeypatch):
    """Let all times be short."""
    monkeypatch.setattr(retry, "FIRST_SILENCE", 0.2)
    monkeypatch.setattr(retry, "LONGEST_SILENCE", 0.4)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retry, "LONGEST_ANSWER", 0.2)


WHERE = {"status line": 0, "headers": 40, "body": 400}
MOST = 15.0
"""Seconds: six attempts of 0.2 to 0.8 each, with room for a busy machine."""


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_request_that_makes_no_progress_is_given_up(dripping, where, scheme):
    server = dripping(WHERE[where])
    if scheme == "http":
        source = open_source(f"{server.url}/a")
    else:
        source = open_source("s3://bucket/a", storage_options={"anon": True, "endpoint_url": server.url})
    start = time.monotonic()
    with pytest.raises(JnrrdzError, match="no answer in time"):
        source.read([(0, SIZE)])
    assert time.monotonic() - start < MOST
    assert server.requests == [b"GET"] * retry.ATTEMPTS


@pytest.mark.usefixtures("impatient")
def test_asking_for_the_size_ends_too(dripping):
    with pytest.raises(JnrrdzError, match="no answer in time"):
        _ = open_source(f"{dripping(0).url}/a").validators


@pytest.mark.usefixtures("impatient")
def test_a_slow_server_that_makes_progress_is_waited_for(dripping):
    server = dripping(400, burst=8000)  # half a second
    start = time.monotonic()
    assert open_source(f"{server.url}/a").read([(0, SIZE)]) == [bytes(SIZE)]
    assert time.monotonic() - start > 2 * retry.FIRST_SILENCE


def test_times_that_the_user_asks_for_are_left_as_they_are(dripping, impatient):
    del impatient
    source = open_source(f"{dripping(300).url}/a", storage_options={"client_kwargs": {"timeout": TIMEOUT}})
    assert source.read([(0, 100)]) == [bytes(100)]  # some two seconds


TIMEOUT = http.patience(None, 5.0)


class Slow(AsyncFileSystem):
    """A store that answers in an hour."""

    protocol = "slowstore"
    cachable = False

    async def _info(self, path, **_):
        return {"name": path, "size": SIZE, "type": "file"}

    async def _cat_file(self, *_, **__):
        await http.asyncio.sleep(3600)


@pytest.mark.usefixtures("impatient")
def test_other_stores_have_their_time_too():
    fsspec.register_implementation("slowstore", Slow, clobber=True)
    with pytest.raises(JnrrdzError, match="no answer in time"):
        open_source("slowstore://a").read([(0, 10)])


@pytest.mark.parametrize("since", [None, "2020-01-01"])
@pytest.mark.parametrize("where", WHERE)
def test_a_batch_keeps_to_its_time(dripping, tmp_path, where, since):
    server = dripping(WHERE[where], pause=0.5)  # a minute for the headers alone
    start = time.monotonic()
    sources = [f"{server.url}/{number}.tif" for number in range(4)]
    chosen = Selection(sources, since=since)
    done = jnrrdz.batch((), f"{tmp_path}/{{stem}}.json", selection=chosen, timeout=1.0, retries=0)
    assert time.monotonic() - start < 6.0
    assert done.failed == len(sources)
    assert all("not done within 1 s" in failure["message"] for failure in done.failures)
