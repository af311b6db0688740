"""Plain Zarr over HTTP, read by readers that know nothing of jnrrdz; and what the server refuses."""

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import imagecodecs
import numpy as np
import pytest
import tensorstore
import tifffile
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.server.plain import LEAST, MOST, served_chunks

pytest.importorskip("uvicorn")
CORE = {"bytes", "zstd", "gzip"}


def ask(url, headers=None, method="GET"):
    """Return status, headers and body."""
    request = urllib.request.Request(url, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def image(path, shape=(700, 500), dtype="u2", **options):
    pixels = np.random.default_rng(7).integers(0, 250, shape).astype(dtype)
    tifffile.imwrite(path, pixels, **options)
    return pixels


def by_tensorstore(url):
    return tensorstore.open({"driver": "zarr3", "kvstore": url}).result().read().result()


@pytest.mark.parametrize("packing", ["zstd", "gzip", "bytes"])
@pytest.mark.parametrize("dtype", ["u1", "i2", ">u2", "f4", "f8", "c8"])
def test_tensorstore_reads_what_is_served(tmp_path, packing, dtype):
    pixels = image(tmp_path / "a.tif", (90, 70), dtype, tile=(32, 48), compression="zlib")
    with jnrrdz.serve(tmp_path / "a.tif", packing=packing) as server:
        np.testing.assert_array_equal(by_tensorstore(f"{server['a.tif']}/data"), pixels)
        metadata = json.loads(ask(f"{server['a.tif']}/data/zarr.json")[2])
    assert {codec["name"] for codec in metadata["codecs"]} <= CORE


def test_each_format_and_form_of_manifest(tmp_path):
    pixels = image(tmp_path / "a.tif", dtype="u1", rowsperstrip=1)
    (tmp_path / "a.j2k").write_bytes(imagecodecs.jpeg2k_encode(pixels, level=0, reversible=True, codecformat="j2k"))
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{tmp_path}/a.n5"}}
    spec["metadata"] = {"dimensions": [700, 500], "blockSize": [64, 64], "dataType": "uint8"}
    spec["metadata"]["compression"] = {"type": "gzip"}
    tensorstore.open(spec, create=True).result()[...] = pixels
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "a.json")
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "a.parquet")
    names = ["a.tif", "a.j2k", "a.n5", "a.json", "a.parquet"]
    with jnrrdz.serve(*(tmp_path / name for name in names)) as server:
        assert list(server.names) == names
        for name in names:
            group = zarr.open_group(server[name], mode="r")
            array = next(array for _, array in group.members(max_depth=None) if getattr(array, "ndim", 0) > 1)
            found = array[...]
            np.testing.assert_array_equal(found if name != "a.n5" else found.T, pixels)


def test_xarray_reads_a_place_and_levels_that_no_file_holds(tmp_path):
    from tests import writers  # noqa: PLC0415  rasterio is slow to import

    pixels = np.random.default_rng(1).integers(0, 9999, (1500, 1200)).astype("u2")
    writers.geotiff(tmp_path / "a.tif", pixels, **writers.TILES, **writers.PLACE)
    with jnrrdz.serve(tmp_path / "a.tif") as server:
        tree = xr.open_datatree(server["a.tif"], engine="zarr", chunks={})
        assert [tree[level]["data"].shape for level in "012"] == [(1500, 1200), (750, 600), (375, 300)]
        np.testing.assert_array_equal(tree["0"]["data"].to_numpy(), pixels)
        expected = jnrrdz.open_group(tmp_path / "a.tif", virtual_levels=2)["2/data"][...]
        np.testing.assert_array_equal(tree["2"]["data"].to_numpy(), expected)
        assert "crs_wkt" in tree["0"]["spatial_ref"].attrs


def test_a_missing_chunk_is_absent_and_reads_as_the_fill_value(tmp_path):
    pixels = np.zeros((64, 64), "u1")
    pixels[:32, :32] = 9
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(32, 32))
    with jnrrdz.serve(tmp_path / "a.tif") as server:
        base = server["a.tif"]
        shape = json.loads(ask(f"{base}/data/zarr.json")[2])["chunk_grid"]["configuration"]["chunk_shape"]
        np.testing.assert_array_equal(by_tensorstore(f"{base}/data"), pixels)
        assert ask(f"{base}/data/c/9/9")[0] == 404
        assert ask(f"{base}/data/c/0/{64 // shape[1]}")[0] == 404


@given(
    sizes=st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**5)), min_size=1, max_size=5),
    itemsize=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_chunks_are_of_a_size_that_browsers_like(sizes, itemsize):
    shape, chunks = zip(*sizes, strict=True)
    served = served_chunks(shape, chunks, itemsize)
    nbytes = np.prod(served, dtype=object) * itemsize
    assert nbytes <= MOST
    assert all(1 <= one <= size for one, size in zip(served, shape, strict=True))
    stored = np.prod([min(*pair) for pair in sizes], dtype=object) * itemsize
    if stored < LEAST:  # gathered as far as rows and columns go
        assert nbytes >= min(stored, LEAST) or served == shape


def test_headers_parts_and_methods(tmp_path):
    image(tmp_path / "a.tif", tile=(256, 256))
    with jnrrdz.serve(tmp_path / "a.tif", packing="bytes") as server:
        url = f"{server['a.tif']}/0/data/c/0/0"
        if ask(url)[0] == 404:
            url = f"{server['a.tif']}/data/c/0/0"
        status, headers, body = ask(url)
        assert (status, headers["content-length"], headers["accept-ranges"]) == (200, str(len(body)), "bytes")
        assert ask(url, {"If-None-Match": headers["etag"]})[0] == 304
        status, some, part = ask(url, {"Range": "bytes=10-19"})
        assert (status, some["content-range"], part) == (206, f"bytes 10-19/{len(body)}", body[10:20])
        assert ask(url, {"Range": "bytes=-7"})[2] == body[-7:]
        assert ask(url, {"Range": f"bytes={len(body)}-"})[0] == 416
        assert ask(url, {"Range": "bytes=5-3"})[0] == 200
        status, some, nothing = ask(url, method="HEAD")
        assert (status, some["content-length"], nothing) == (200, str(len(body)), b"")
        assert ask(url, method="POST")[0] == 405


HOSTILE = [
    "..",
    "%2e%2e",
    "..%2f..",
    "%00",
    "c",
    "c/",
    "c/-1/0",
    "c/0/0/0",
    "c/0",
    "c/+0/0",
    "c/00/0",
    "c/0/99999999999999999999",
]


def test_a_path_reaches_nothing_but_keys(tmp_path):
    image(tmp_path / "a.tif", (50, 40))
    (tmp_path / "secret").write_text("secret")
    with jnrrdz.serve(tmp_path / "a.tif") as server:
        for path in HOSTILE:
            for start in ("/", "/data/", "/../", "/data/../../"):
                status, _, body = ask(server["a.tif"] + start + path)
                assert status in {404, 400}
                assert b"secret" not in body
            assert ask(f"{server.url}{path}")[0] in {400, 404}


def test_a_page_of_another_origin_reads_nothing(tmp_path):
    image(tmp_path / "a.tif", (50, 40))
    friend = "https://viewer.example"
    with jnrrdz.serve(tmp_path / "a.tif", origins=[friend]) as server:
        url = f"{server['a.tif']}/zarr.json"
        assert ask(url, {"Host": "rebound.example"})[0] == 421
        assert ask(url, {"Host": "127.0.0.1.rebound.example"})[0] == 421
        assert ask(url, {"Host": "localhost:1"})[0] == 200
        assert "access-control-allow-origin" not in ask(url, {"Origin": "https://evil.example"})[1]
        assert ask(url, {"Origin": friend})[1]["access-control-allow-origin"] == friend
        status, headers, _ = ask(url, {"Origin": friend, "Access-Control-Request-Method": "GET"}, "OPTIONS")
        assert (status, headers["access-control-allow-origin"]) == (204, friend)


def test_a_token_is_the_first_part_of_every_path(tmp_path):
    pixels = image(tmp_path / "a.tif", (50, 40))
    with jnrrdz.serve(tmp_path / "a.tif", token="t0ken") as server:
        assert "/t0ken/" in server.url
        np.testing.assert_array_equal(by_tensorstore(f"{server['a.tif']}/data"), pixels)
        for path in ("", "a.tif/zarr.json", "wrong/a.tif/zarr.json", "t0kenx/a.tif/zarr.json", "t0ke/a.tif/zarr.json"):
            assert ask(server.url.replace("t0ken/", "") + path)[0] == 403


def test_a_chunk_that_many_ask_for_is_decoded_once(tmp_path, monkeypatch):
    from jnrrdz.server import plain  # noqa: PLC0415  what is counted

    image(tmp_path / "a.tif", (600, 500), tile=(256, 256))
    made, make = [], plain.PlainArray.chunk
    monkeypatch.setattr(
        plain.PlainArray, "chunk", lambda array, index: (made.append(index), time.sleep(0.1), make(array, index))[2]
    )
    with (
        jnrrdz.serve(tmp_path / "a.tif", pyramids=False) as server,
        ThreadPoolExecutor(20) as pool,
    ):
        bodies = set(pool.map(lambda _: ask(f"{server['a.tif']}/data/c/0/0")[2], range(40)))
    assert (len(bodies), made) == (1, [(0, 0)])


def test_what_cannot_be_read_is_told_and_costs_nobody_else(tmp_path):
    image(tmp_path / "a.tif", (50, 40))
    (tmp_path / "b.tif").write_bytes(b"II*\0" + bytes(40))
    with jnrrdz.serve(tmp_path / "a.tif", tmp_path / "b.tif") as server:
        status, _, body = ask(f"{server['b.tif']}/zarr.json")
        assert status == 502
        assert b"b.tif" in body
        assert b"Traceback" not in body
        assert ask(f"{server['a.tif']}/zarr.json")[0] == 200
        assert ask(f"{server.url}c.tif/zarr.json")[0] == 404


def test_giant_headers_and_clients_that_say_nothing(tmp_path):
    image(tmp_path / "a.tif", (50, 40))
    with jnrrdz.serve(tmp_path / "a.tif") as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert ask(f"{server['a.tif']}/zarr.json")[0] == 200
            giant = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            giant.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 100_000)
            assert giant.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
            assert ask(f"{server['a.tif']}/zarr.json")[0] == 200


def test_the_command(tmp_path):
    pixels = image(tmp_path / "a.tif", (50, 40))
    (tmp_path / "notes.txt").write_text("no image")
    command = [sys.executable, "-m", "jnrrdz", "serve", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        url = process.stdout.readline().strip()
        assert url.endswith("/a.tif")
        np.testing.assert_array_equal(by_tensorstore(f"{url}/data"), pixels)
    finally:
        process.terminate()
        _, told = process.communicate(timeout=30)
        watchdog.cancel()
    assert "Traceback" not in told


def test_a_source_that_is_slow_to_open_keeps_nobody_from_the_others(tmp_path, http_server):
    image(tmp_path / "a.tif", (50, 40))
    http_server.files["/slow.tif"] = (tmp_path / "a.tif").read_bytes()
    http_server.latency = 5.0
    with jnrrdz.serve(tmp_path / "a.tif", f"{http_server.url}/slow.tif") as server, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask, f"{server['slow.tif']}/zarr.json")
        wait_until = time.monotonic() + 20
        while not http_server.log and time.monotonic() < wait_until:
            time.sleep(0.01)
        start = time.monotonic()
        assert ask(f"{server['a.tif']}/zarr.json")[0] == 200
        assert not slow.done()
        assert time.monotonic() - start < 4
        assert slow.result()[0] == 200


def test_names_are_one_part_of_a_path_each(tmp_path):
    (tmp_path / "b").mkdir()
    for path in (tmp_path / "a b{.tif", tmp_path / "b" / "a b{.tif"):
        image(path, (50, 40))
    with jnrrdz.serve(tmp_path / "a b{.tif", tmp_path / "b" / "a b{.tif") as server:
        assert list(server.names) == ["a_b_.tif", "a_b_.tif-2"]
        assert [ask(f"{server[name]}/zarr.json")[0] for name in server.names] == [200, 200]


def test_a_request_without_a_path_needs_the_token_too(tmp_path):
    image(tmp_path / "a.tif", (50, 40))
    with jnrrdz.serve(tmp_path / "a.tif", token="t0ken") as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert b" 403 " in client.recv(1000).splitlines()[0]


def test_what_a_page_needs(tmp_path):
    image(tmp_path / "a.tif", (300, 200), "u1", photometric="minisblack")
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "b.json")
    with jnrrdz.serve(tmp_path, token="t0ken") as server:
        served = json.loads(ask(f"{server.url}index.json")[2])["served"]
        assert served == [
            {"name": "a.tif", "kind": "TIFF", "title": "a.tif", "url": "/t0ken/a.tif"},
            {"name": "b.json", "kind": "manifest", "title": "b.json", "url": "/t0ken/b.json"},
        ]
        assert json.loads(ask(server.url, {"Accept": "application/json"})[2])["served"] == served
        status, headers, body = ask(f"{server['b.json']}/preview.png?size=100")
        assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
        assert imagecodecs.png_decode(body).shape[:2] == (100, 67)
        assert ask(f"{server.url}viewer/../app.py")[0] == 404
        assert ask(server.url.removesuffix("/"))[0] == 200  # urllib follows to the page's own folder


def test_a_folder_is_listed_when_it_is_asked_for_and_nothing_in_it_is_opened(tmp_path):
    (tmp_path / "deep").mkdir()
    for number in range(2000):
        (tmp_path / "deep" / f"{number}.tif").write_bytes(b"no image")
    (tmp_path / "item.json").write_text('{"type": "Feature"}')
    image(tmp_path / "deep" / "good.tif", (50, 40))
    with jnrrdz.serve(tmp_path) as server:
        names = [entry["name"] for entry in json.loads(ask(f"{server.url}index.json")[2])["served"]]
        assert len(names) == 2001
        assert ask(f"{server['deep/good.tif']}/zarr.json")[0] == 200
        assert ask(f"{server['deep/7.tif']}/zarr.json")[0] == 502


def test_a_link_out_of_a_folder_is_not_served(tmp_path):
    (tmp_path / "served").mkdir()
    image(tmp_path / "elsewhere.tif", (50, 40))
    image(tmp_path / "served" / "here.tif", (50, 40))
    (tmp_path / "served" / "out.tif").symlink_to(tmp_path / "elsewhere.tif")
    (tmp_path / "served" / "in.tif").symlink_to("here.tif")
    with jnrrdz.serve(tmp_path / "served") as server:
        assert sorted(server.names) == ["here.tif", "in.tif"]


def test_a_picture_in_one_strip_is_decoded_once(tmp_path, monkeypatch):
    """However small the cache: what does not fit it is kept in a file."""
    from jnrrdz.store.group import ChunkReader  # noqa: PLC0415  what is counted

    pixels = image(tmp_path / "a.tif", (3000, 2500), "u2", rowsperstrip=3000, compression="zlib")
    reads, read = [], ChunkReader.read_sync
    monkeypatch.setattr(ChunkReader, "read_sync", lambda one, window: (reads.append(window), read(one, window))[1])
    with jnrrdz.serve(tmp_path / "a.tif", pyramids=False, cache_bytes=4 << 20) as server:
        np.testing.assert_array_equal(by_tensorstore(f"{server['a.tif']}/data"), pixels)
    assert len(reads) == 1


def test_an_old_part_is_not_mixed_with_a_new_whole(tmp_path):
    image(tmp_path / "a.tif", (90, 70))
    with jnrrdz.serve(tmp_path / "a.tif", packing="bytes") as server:
        url = f"{server['a.tif']}/data/c/0/0"
        _, headers, body = ask(url)
        assert ask(url, {"Range": "bytes=2-3", "If-Range": headers["etag"]})[2] == body[2:4]
        assert ask(url, {"Range": "bytes=2-3", "If-Range": '"another"'})[::2] == (200, body)
        assert ask(url, {"If-None-Match": f'W/{headers["etag"]}, "x"'})[0] == 304
        assert ask(url, {"Range": "bytes=-0"})[0] == 416
        assert headers["cache-control"] == "no-cache"
