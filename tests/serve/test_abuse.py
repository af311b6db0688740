"""What a server bears: paths that lead elsewhere, clients that are slow, many or giant, and pages of strangers."""

import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import tifffile

import jnrrdz

pytest.importorskip("uvicorn")
from jnrrdz.server import connections

FRIEND = "https://viewer.example"
STRANGER = "https://evil.example"


@contextmanager
def serving(tmp_path, shape=(90, 70), **options):
    pixels = np.random.default_rng(5).integers(0, 250, shape).astype("u1")
    tifffile.imwrite(tmp_path / "a.tif", pixels)
    (tmp_path / "secret").write_text("the secret")
    with jnrrdz.serve(tmp_path / "a.tif", **options) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for what leaves nothing behind."""
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


def ended(client):
    """Whether the server ends a connection, whatever it has said before."""
    try:
        while client.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def connected(server):
    return socket.create_connection(("127.0.0.1", urlsplit(server.url).port), timeout=20)


def said(server, head, body=b""):
    """Return the answer to bytes, all that comes until the server ends the connection."""
    with connected(server) as client:
        client.sendall(head + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" + body)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def status(answer):
    return int(answer.split(b" ", 2)[1])


def ask(url, method="GET", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, headers=named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


PATHS = [
    b"/a.tif/../secret",
    b"/../../../../etc/passwd",
    b"/a.tif/%2e%2e/secret",
    b"/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    b"/a.tif/..%2fsecret",
    b"/a.tif/..%5csecret",
    b"/a.tif/..\\secret",
    b"//etc/passwd",
    b"/%00",
    b"/a.tif%00/zarr.json",
    b"/a.tif/data/c/0/0%00",
    b"/a.tif/zarr.json/",
    b"/a.tif//zarr.json",
    b"/viewer/../app.py",
    b"/viewer/%2e%2e/app.py",
    b"/viewer//etc/passwd",
    b"/" + b"a" * 20_000,
    b"/" + b"a/" * 10_000,
    b"/a.tif/data/c/" + b"0/" * 5_000,
    b"/a.tif/data/c/" + b"9" * 5_000 + b"/0",
    b"/\xff\xfe",
    b"/%ff%fe",
    b"/%",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:24].decode("latin-1").replace("\\", "|"))
def test_a_path_leads_to_no_file(server, path):
    answer = said(server, b"GET " + path + b" HTTP/1.1")
    assert status(answer) in {400, 404}
    assert b"root:" not in answer
    assert b"the secret" not in answer
    assert ask(f"{server['a.tif']}/zarr.json")[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 200_000,
        b"GET /" + b"x" * 200_000,
        b"GET / HTTP/1.1" + b"\r\nA: b" * 50_000,
    ],
    ids=["a header", "the line", "many headers"],
)
def test_headers_without_end(server, head):
    with connected(server) as client:
        try:
            client.sendall(head)
        except OSError:  # it was refused before it was all sent
            return
        assert status(client.recv(1000)) in {400, 431}
    assert ask(f"{server['a.tif']}/zarr.json")[0] == 200


def test_clients_that_say_little_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_TIME", 1.0)
    monkeypatch.setattr(connections, "SWEEP", 0.2)
    with serving(tmp_path) as server, ExitStack() as stack:
        silent, slow, again = (stack.enter_context(connected(server)) for _ in range(3))
        again.sendall(b"GET /a.tif/zarr.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert status(again.recv(1 << 20)) == 200
        again.sendall(b"GET /a.tif/zarr")
        with contextlib.suppress(OSError):
            for _ in range(100):
                slow.sendall(b"G")  # a byte now and then
                time.sleep(0.2)
            pytest.fail("twenty seconds for a request's line")
        for client in (silent, again):
            assert ended(client)


def test_a_client_that_does_not_read_is_ended(tmp_path, monkeypatch):
    let_go, end = [], connections.BoundedProtocol.end
    monkeypatch.setattr(connections.BoundedProtocol, "end", lambda one: (let_go.append(one), end(one)))
    monkeypatch.setattr(connections, "READ_TIME", 1.0)
    monkeypatch.setattr(connections, "SWEEP", 0.2)
    with serving(tmp_path, (2000, 2000), packing="bytes", pyramids=False) as server:
        with connected(server) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(40):  # 20 MB, more than kernels keep
                client.sendall(b"GET /a.tif/data/c/0/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            deadline = time.monotonic() + 30
            while not let_go and time.monotonic() < deadline:
                time.sleep(0.1)
            assert let_go  # its end of the line would have to read megabytes to notice
        assert ask(f"{server['a.tif']}/zarr.json")[0] == 200


def crowd_at(place, count):
    """Return connections, as many as the system lets be made of so many."""
    crowd = []
    for _ in range(count):
        client = socket.socket()
        client.settimeout(20)
        with contextlib.suppress(OSError):
            client.connect(place)
            crowd.append(client)
    return crowd


def heard(client):
    """Return what a client is told: the beginning of an answer, `ended`, or nothing."""
    client.settimeout(0.1)
    try:
        return client.recv(12).decode() or "ended"
    except TimeoutError:
        return ""
    except OSError:  # ended without a word, where even those that are told are many
        return "ended"


@pytest.fixture
def many_files():
    """Let this process, and those that it starts, open ten thousand files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the system lets a process open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def whole_answer(client):
    """Return an answer with its body, which may come in pieces."""
    answer = b""
    while (piece := client.recv(1 << 20)) and b"\r\n\r\n" not in (answer := answer + piece):
        pass
    head, _, body = answer.partition(b"\r\n\r\n")
    missing = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(body)
    while missing > 0 and (piece := client.recv(missing)):
        missing -= len(piece)
    return answer


def test_ten_thousand_connections(tmp_path):
    """Those beyond a number are told to come again; whoever is served is served on, and everyone is afterwards."""
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((50, 40), "u1"))
    command = [sys.executable, "-m", "jnrrdz", "serve", str(tmp_path / "a.tif"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(250, process.kill)
    watchdog.start()
    request = b"GET /a.tif/zarr.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    url = process.stdout.readline().strip()
    place = ("127.0.0.1", urlsplit(url).port)
    try:
        with socket.create_connection(place, timeout=60) as client:
            client.sendall(request)
            assert status(whole_answer(client)) == 200
            crowd = crowd_at(place, 10_000)
            told = {heard(one) for one in crowd[::20]}
            assert {"HTTP/1.1 503", "ended"} <= told
            client.sendall(request)
            assert status(whole_answer(client)) == 200
        for one in crowd:
            one.close()
        deadline = time.monotonic() + 60
        while is_busy(url) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert ask(f"{url}/zarr.json")[0] == 200
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        assert peak < 600_000  # KB
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=60)
        watchdog.cancel()
    assert "Traceback" not in errors


def is_busy(url):
    try:
        return ask(f"{url}/zarr.json")[0] != 200
    except OSError:
        return True


@pytest.mark.parametrize("token", ["", "t0ke", "t0kenx", "T0KEN", "%74%30%6b%65%6ex", "..", "t0ken%00", "t\u00f6ken"])
def test_without_the_token_nothing_is_said(tmp_path, token):
    with serving(tmp_path, token="t0ken") as server:
        for rest in ("a.tif/zarr.json", "index.json", "", "viewer/index.html", "a.tif/preview.png", "b.tif/zarr.json"):
            path = f"/{token}/{rest}".encode()
            answer = said(server, b"GET " + path + b" HTTP/1.1")
            assert status(answer) in {400, 403}
            assert b"a.tif" not in answer
        assert said(server, b"GET /t0ken/a.tif/zarr.json HTTP/1.1").startswith(b"HTTP/1.1 200")


def test_the_token_is_compared_in_constant_time(tmp_path, monkeypatch):
    from jnrrdz.server import answers  # noqa: PLC0415  what is watched

    compared, compare = [], answers.hmac.compare_digest
    monkeypatch.setattr(answers.hmac, "compare_digest", lambda *texts: (compared.append(texts), compare(*texts))[1])
    with serving(tmp_path, token="t0ken") as server:
        said(server, b"GET /wrong/a.tif/zarr.json HTTP/1.1")
    assert (b"wrong", b"t0ken") in compared


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "evil.example:1", "", "0"],
)
def test_a_name_that_is_bound_anew_reaches_nothing(server, host):
    assert ask(f"{server['a.tif']}/zarr.json")[0] == 200  # it is kept now
    with connected(server) as client:
        client.sendall(f"GET /a.tif/zarr.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert status(answer) in {400, 421}
    assert b"zarr_format" not in answer


def test_two_host_headers(server):
    for _ in range(2):  # the second time it would be kept
        answer = said(server, b"GET /a.tif/zarr.json HTTP/1.1\r\nHost: evil.example")
        assert status(answer) == 400
        ask(f"{server['a.tif']}/zarr.json")


PAGES = {
    "fetch": {"Origin": STRANGER},
    "a sandboxed frame": {"Origin": "null"},
    "the same name, another port": {"Origin": "http://127.0.0.1:1"},
    "an image": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
    "a script": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"},
    "a frame": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    "another port's image": {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_another_origin_gets_nothing(tmp_path, page):
    with serving(tmp_path) as server:
        for path in ("a.tif/zarr.json", "a.tif/data/c/0/0", "a.tif/preview.png", "index.json"):
            assert ask(server.url + path)[0] == 200
            status, headers = ask(server.url + path, **PAGES[page])
            assert status == 403
            assert "access-control-allow-origin" not in headers
    with serving(tmp_path, origins=["*"]) as server:
        assert ask(f"{server['a.tif']}/zarr.json", **PAGES[page])[0] == 200


def test_the_servers_own_pages_and_links_to_them(server):
    url = f"{server['a.tif']}/zarr.json"
    assert ask(url, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200
    assert ask(url, Origin=server.url.rstrip("/"))[0] == 200
    assert ask(server.url, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0] == 200


def preflight(server, origin, **headers):
    asked = {"Origin": origin, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "range"}
    return ask(f"{server['a.tif']}/data/c/0/0", "OPTIONS", **{**asked, **headers})


def test_preflights(tmp_path):
    with serving(tmp_path, origins=[FRIEND]) as server:
        status, headers = preflight(server, FRIEND, **{"Access-Control-Request-Private-Network": "true"})
        assert (status, headers["access-control-allow-origin"]) == (204, FRIEND)
        assert "GET" in headers["access-control-allow-methods"]
        assert "range" in headers["access-control-allow-headers"]
        assert headers["access-control-allow-private-network"] == "true"
        _, headers = ask(f"{server['a.tif']}/zarr.json", Origin=FRIEND)
        exposed = headers["access-control-expose-headers"]
        assert all(name in exposed for name in ("etag", "content-range", "content-length"))
        assert headers["vary"] == "origin"
        status, headers = preflight(server, STRANGER)
        assert status == 403
        assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"PROPFIND"])
def test_other_methods(server, method):
    answer = said(server, method + b" /a.tif/zarr.json HTTP/1.1\r\nContent-Length: 5", b"12345")
    assert status(answer) == 405


def test_what_follows_a_request_keeps_no_connection(server):
    with connected(server) as client:
        client.sendall(b"GET /a.tif/zarr.json HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))  # until the server ends it
        assert status(answer) == 200


def test_a_websocket_is_none(server):
    upgrade = (
        b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
        b"\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    )
    answer = said(server, b"GET /a.tif/zarr.json HTTP/1.1\r\nOrigin: " + STRANGER.encode() + upgrade)
    assert status(answer) == 403
    assert status(said(server, b"GET /a.tif/zarr.json HTTP/1.1" + upgrade)) != 101


def test_errors_hide_secrets_and_fit_on_a_line(http_server):
    http_server.files["/a.tif"] = b"II*\0" + bytes(40)
    with jnrrdz.serve(f"{http_server.url}/a.tif?X-Amz-Signature=5ecret") as server:
        answer = said(server, b"GET /a.tif/zarr.json HTTP/1.1")
        assert status(answer) == 502
        body = answer.partition(b"\r\n\r\n")[2]
        assert body.count(b"\n") == 1
        assert b"5ecret" not in body
        listed = json.loads(urllib.request.urlopen(f"{server.url}index.json").read())
    assert "5ecret" not in json.dumps(listed)


def test_errors_show_names_and_no_places(tmp_path, http_server, caplog):
    """Of sources, of what a manifest names, and of what is gone since; the server's own log has them."""
    folder = tmp_path / "my secret place"
    folder.mkdir()
    good = np.random.default_rng(1).integers(0, 99, (300, 300), "u1")
    for name in ("good.tif", "gone.tif"):
        tifffile.imwrite(folder / name, good, tile=(256, 256), compression="zlib")
    (folder / "bad.tif").write_bytes(b"II*\0" + bytes(40))
    (folder / "detached.nhdr").write_text(
        "NRRD0004\ntype: uchar\ndimension: 2\nsizes: 3 3\nencoding: raw\ndata file: lost.raw\n"
    )
    jnrrdz.index(folder / "gone.tif", folder / "refs.json")
    http_server.files["/bucket/far.tif"] = b"II*\0" + bytes(40)
    names = ["good.tif", "bad.tif", "gone.tif", "detached.nhdr", "refs.json", "far.tif"]
    sources = [*(folder / name for name in names[:-1]), f"{http_server.url}/bucket/far.tif"]
    with jnrrdz.serve(*sources) as server:
        assert ask(f"{server['refs.json']}/zarr.json")[0] == 200
        (folder / "gone.tif").unlink()
        (folder / "good.tif").write_bytes(b"")
        answers = {name: said(server, f"GET /{name}/preview.png HTTP/1.1".encode()) for name in names}
    for name, answer in answers.items():
        assert status(answer) in {409, 502}, answer
        body = answer.partition(b"\r\n\r\n")[2].decode()
        assert body.startswith(f"{name}: ")
        for place in (str(tmp_path), "secret place", "bucket", "127.0.0.1"):
            assert place not in body
    assert f"{folder}/bad.tif" in caplog.text


def test_a_changed_source_is_told_once_and_then_read_anew(tmp_path):
    first, second = (np.full((600, 600), value, "u1") for value in (1, 2))
    tifffile.imwrite(tmp_path / "a.tif", first, tile=(256, 256))
    with jnrrdz.serve(tmp_path / "a.tif", packing="bytes", pyramids=False) as server:
        assert urllib.request.urlopen(f"{server['a.tif']}/data/c/0/0").read(1) == b"\x01"
        os.utime(tmp_path / "a.tif", (1, 1))
        tifffile.imwrite(tmp_path / "a.tif", second, tile=(256, 256), software="other")
        status, _ = ask(f"{server['a.tif']}/data/c/1/1")
        assert status == 409
        for key in ("c/0/0", "c/1/1"):  # the one that was kept too
            assert urllib.request.urlopen(f"{server['a.tif']}/data/{key}").read(1) == b"\x02"
