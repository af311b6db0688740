"""One server for many: slow sources keep nobody out, one budget for all, one spelling of a key."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException

import numpy as np
import pytest
import tifffile

import jnrrdz

pytest.importorskip("uvicorn")
from jnrrdz.server.app import FETCHES
from jnrrdz.server.memory import Memory, ThreadPool

SLOW = 16


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def image(path, shape, **options):
    pixels = np.random.default_rng(3).integers(1, 250, shape).astype("u1")
    tifffile.imwrite(path, pixels, **options)
    return pixels


class Held:
    """Requests that a server answers only when told to."""

    def __init__(self, http_server, data):
        self.server = http_server
        http_server.latency = 30.0
        for number in range(SLOW):
            http_server.files[f"/slow{number}.tif"] = data

    @property
    def urls(self):
        return [f"{self.server.url}/slow{number}.tif" for number in range(SLOW)]


@pytest.mark.parametrize("same", [True, False], ids=["one slow source", "16 slow sources"])
def test_slow_sources_keep_a_local_one_from_nobody(tmp_path, http_server, same):
    pixels = image(tmp_path / "a.tif", (90, 70), tile=(16, 16))
    held = Held(http_server, (tmp_path / "a.tif").read_bytes())
    options = {"packing": "bytes"}
    with (
        jnrrdz.serve(tmp_path / "a.tif", *held.urls, **options) as server,
        ThreadPoolExecutor(2 * SLOW) as clients,
    ):
        names = ["slow0.tif"] * 2 * SLOW if same else [f"slow{n}.tif" for n in range(SLOW)]
        keys = ["zarr.json", "preview.png"]
        waiting = [clients.submit(ask, f"{server[name]}/{keys[n % 2]}") for n, name in enumerate(names)]
        deadline = time.monotonic() + 20
        while len(http_server.log) < (1 if same else SLOW) and time.monotonic() < deadline:
            time.sleep(0.01)
        for key in ("zarr.json", "preview.png"):
            assert ask(f"{server['a.tif']}/{key}")[0] == 200
        status, chunk = ask(f"{server['a.tif']}/data/c/0/0")
        assert not any(future.done() for future in waiting)
        assert status == 200
        rows = np.frombuffer(chunk, "u1").reshape(-1, 70)
        np.testing.assert_array_equal(rows[:16], pixels[:16])
        # those who wait for one source wait for one opening
        assert len(http_server.log) == (1 if same else SLOW)
        http_server.latency = 0
        start = time.monotonic()
    # whatever the slow sources do, the server is left
    assert time.monotonic() - start < 60


def test_a_slow_source_elsewhere_blocks_no_other_one(tmp_path, make_http_server):
    """More chunks of one source are asked for than a server has threads for a source."""
    image(tmp_path / "a.tif", (2048, 2048), tile=(256, 256))
    slow, quick = make_http_server(), make_http_server()
    for server, name in ((slow, "slow"), (quick, "quick")):
        server.files[f"/{name}.tif"] = (tmp_path / "a.tif").read_bytes()
    sources = [f"{slow.url}/slow.tif", f"{quick.url}/quick.tif"]
    with (
        jnrrdz.serve(*sources, packing="bytes", pyramids=False) as server,
        ThreadPoolExecutor(64) as clients,
    ):
        assert ask(f"{server['slow.tif']}/data/c/0/0")[0] == 200
        slow.latency, before = 30.0, len(slow.log)
        keys = [f"data/c/{number // 8}/{number % 8}" for number in range(1, 64)]
        waiting = [clients.submit(asked_in_vain, f"{server['slow.tif']}/{key}") for key in keys]
        deadline = time.monotonic() + 20
        while len(slow.log) < before + FETCHES // 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        for key in ("zarr.json", "data/c/1/1", "preview.png"):
            assert ask(f"{server['quick.tif']}/{key}")[0] == 200
        assert not any(future.done() for future in waiting)
        slow.latency = 0


def test_threads_without_work_end_and_others_begin(monkeypatch):
    monkeypatch.setattr("jnrrdz.server.memory.IDLE", 0.01)

    pool = ThreadPool(2, "idle")
    for number in range(20):
        made = asyncio.run(pool.run(lambda number=number: number))
        assert made == number
        deadline = time.monotonic() + 20
        while number % 2 and not pool.is_idle and time.monotonic() < deadline:
            time.sleep(0.001)
        assert number % 2 == 0 or pool.is_idle


def asked_in_vain(url):
    with suppress(OSError, HTTPException):
        ask(url)


@pytest.mark.parametrize("name", ["slow0.tif", "slow.n5/", "slow.zarr/"])
def test_a_server_ends_though_a_source_does_not_answer(tmp_path, http_server, name):
    image(tmp_path / "a.tif", (90, 70))
    held = Held(http_server, (tmp_path / "a.tif").read_bytes())
    slow = f"{held.server.url}/{name}"
    command = [sys.executable, "-m", "jnrrdz", "serve", str(tmp_path / "a.tif"), slow, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(100, process.kill)
    watchdog.start()
    try:
        base = re.match(r"http://[^/]+/", process.stdout.readline())[0]
        client = threading.Thread(target=asked_in_vain, args=(f"{base}{name.rstrip('/')}/zarr.json",))
        client.start()
        deadline = time.monotonic() + 20
        while not http_server.log and time.monotonic() < deadline:
            time.sleep(0.01)
        start = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
        # five seconds for the connections that are open, and no wait for the source's thirty
        assert time.monotonic() - start < 20
        client.join(20)
    finally:
        watchdog.cancel()
        process.kill()


def test_one_budget_for_all_sources(tmp_path):
    """24 pictures in one strip each, of 1 MB when they are decoded; 3 MB for all."""
    sources = []
    for number in range(24):
        sources.append(tmp_path / f"{number}.tif")
        image(sources[-1], (1100, 1000), rowsperstrip=1100, compression="zlib")
    most = 3 << 20
    options = {"pyramids": False, "cache_bytes": most, "packing": "bytes"}
    with jnrrdz.serve(*sources, **options) as server:
        for source in sources:
            assert ask(f"{server[source.name]}/data/c/0/0")[0] == 200
            kept = server.app.memory.nbytes()
            assert kept.get("answers", 0) + kept.get("blocks", 0) <= most
        text = ask(f"{server.url}metrics")[1].decode()
    figures = dict(re.findall(r'kind="(\w+)"} (\d+)', text))
    assert int(figures["answers"]) + int(figures["blocks"]) <= most
    assert f"jnrrdz_kept_bytes_most {most}" in text
    assert "jnrrdz_open_sources 24" in text


def test_a_key_has_one_spelling(tmp_path):
    image(tmp_path / "a.tif", (90, 70), tile=(16, 16))
    with jnrrdz.serve(tmp_path / "a.tif") as server:
        assert ask(f"{server['a.tif']}/data/c/0/0")[0] == 200
        kept = server.app.memory.nbytes()
        for slashes in ("//", "///", "////////"):
            assert ask(f"{server['a.tif']}{slashes}data/c/0/0")[0] == 404
            assert ask(f"{server['a.tif']}/data{slashes}c/0/0")[0] == 404
            assert ask(f"{server['a.tif']}/data/c/0{slashes}0")[0] == 404
            assert ask(f"{server['a.tif']}/data/c/0/0{slashes}")[0] == 404
        assert server.app.memory.nbytes() == kept


def test_what_was_not_asked_for_the_longest_goes_first():
    memory = Memory(100, most_in_files=50)
    memory.put("answers", "/a/1", 1, 40)
    memory.put("blocks", (0, "", (0,)), 2, 40)
    assert memory.get("answers", "/a/1") == 1
    memory.put("answers", "/b/1", 3, 40)
    assert memory.get("blocks", (0, "", (0,))) is None
    memory.put("files", 7, 4, 50)
    assert memory.nbytes() == {"answers": 80, "blocks": 0, "files": 50}
    memory.put("files", 8, 5, 10)
    assert memory.get("files", 7) is None
    memory.forget("answers", "/a/")
    assert memory.get("answers", "/a/1") is None
    assert memory.nbytes() == {"answers": 40, "blocks": 0, "files": 10}
    memory.put("answers", "/b/1", 6, 200)  # larger than all: nothing stays
    assert memory.nbytes()["answers"] == 0
