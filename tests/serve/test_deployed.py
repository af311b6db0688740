"""The application as others run it: mounted, by uvicorn's workers from the environment, in several processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import imagecodecs
import numpy as np
import pytest
import tensorstore
import tifffile
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import jnrrdz
from jnrrdz.errors import UnsupportedError

pytest.importorskip("uvicorn")
CONTAINER = Path(__file__).parents[2] / "examples" / "serve" / "Containerfile"


def image(folder):
    pixels = np.random.default_rng(3).integers(0, 999, (600, 500)).astype("u2")
    tifffile.imwrite(folder / "a.tif", pixels, tile=(128, 128), compression="zlib")
    return pixels


def test_mounted_below_a_path_of_another_application(tmp_path):
    image(tmp_path)
    app = jnrrdz.make_app([tmp_path], hosts=["testserver"], token="t0ken")
    with TestClient(Starlette(routes=[Mount("/data", app=app)])) as client:
        listed = client.get("/data/t0ken/index.json").json()["served"]
        assert [entry["url"] for entry in listed] == ["/data/t0ken/a.tif"]
        answer = client.get("/data/t0ken/a.tif/0/data/zarr.json")
        assert answer.json()["shape"] == [600, 500]
        assert client.get("/data/t0ken/a.tif/0/data/c/0/0").status_code == 200
        assert client.get("/data/a.tif/zarr.json").status_code == 403
        assert client.get("/data/t0ken", follow_redirects=False).headers["location"] == "/data/t0ken/"
    app.close()


@pytest.mark.parametrize("token", [None, "t0ken"])
def test_the_viewers_page_mounted_below_a_path(tmp_path, token):
    """What a browser asks for from the page on: every link is relative, and leads below the mount."""
    pixels = image(tmp_path)
    app = jnrrdz.make_app([tmp_path], hosts=["testserver"], token=token)
    below = f"/deep/data/{token}/" if token else "/deep/data/"
    with TestClient(Starlette(routes=[Mount("/deep", routes=[Mount("/data", app=app)])])) as client:
        client.headers["sec-fetch-site"] = "same-origin"
        page = client.get(below, headers={"accept": "text/html"})
        assert page.headers["content-type"].startswith("text/html")
        links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert {"viewer/main.js", "viewer/style.css"} <= set(links)
        for link in [*links, "viewer/neuroglancer/index.html"]:
            assert urljoin(below, link) == below + link
            assert client.get(below + link).status_code == 200
        (entry,) = client.get(urljoin(below, "index.json")).json()["served"]
        assert entry["url"] == f"{below}a.tif"
        assert client.get(f"{entry['url']}/preview.png").content[:4] == b"\x89PNG"
        assert client.get("/viewer/main.js").status_code == 404
        for address in (entry["url"], f"{entry['url']}/"):
            seen = client.get(address, headers={"accept": "text/html,*/*;q=0.8"}, follow_redirects=False)
            assert (seen.status_code, seen.headers["location"]) == (303, f"{below}#/a.tif")
            assert client.get(address).status_code == 404, "a reader of Zarr is led nowhere"
        assert client.get(f"{below}b.tif", headers={"accept": "text/html"}).status_code == 404
        metadata = client.get(f"{entry['url']}/0/data/zarr.json").json()
        chunk = imagecodecs.zstd_decode(client.get(f"{entry['url']}/0/data/c/0/0").content)
    app.close()
    rows, columns = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    found = np.frombuffer(chunk, "<u2").reshape(rows, columns)
    np.testing.assert_array_equal(found[:600, :500], pixels[:rows, :columns])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running(command, environment):
    process = subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(200, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        watchdog.cancel()


def wait_for(url):
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
            raise
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(url)


def test_the_containers_command_from_the_environment(tmp_path):
    """The very words of the container's CMD, on a port of this machine."""
    pixels = image(tmp_path)
    text = CONTAINER.read_text().rpartition("CMD ")[2].replace("\\\n", "")
    port = free_port()
    words = [{"0.0.0.0": "127.0.0.1", "8000": str(port)}.get(word, word) for word in json.loads(text)]
    environment = {"JNRRDZ_SERVE": str(tmp_path), "JNRRDZ_TOKEN": "t0ken", "JNRRDZ_MAX_AGE": "300"}
    with running([sys.executable, "-m", *words], environment):
        base = f"http://127.0.0.1:{port}/t0ken"
        wait_for(f"{base}/index.json")
        found = tensorstore.open({"driver": "zarr3", "kvstore": f"{base}/a.tif/0/data"}).result().read().result()
        np.testing.assert_array_equal(found, pixels)
        with urllib.request.urlopen(f"{base}/a.tif/0/data/c/0/0") as answer:
            assert answer.headers["cache-control"] == "private, max-age=300"


@pytest.mark.skipif(sys.platform == "win32", reason="its processes are not ended by signals")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_no_worker_outlives_who_started_it(tmp_path, how):
    image(tmp_path)
    port = free_port()
    command = [sys.executable, "-m", "jnrrdz", "serve", str(tmp_path), "--port", str(port), "--workers", "2"]
    with running(command, {}) as process:
        wait_for(f"http://127.0.0.1:{port}/index.json")
        process.send_signal(getattr(signal, how))
        process.wait(60)
        deadline = time.monotonic() + 60
        with pytest.raises(OSError, match="refused"):  # noqa: PT012  as long as one of them listens
            while time.monotonic() < deadline:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                time.sleep(0.1)


def test_several_processes_share_a_port(tmp_path):
    pixels = image(tmp_path)
    port = free_port()
    command = [sys.executable, "-m", "jnrrdz", "serve", str(tmp_path), "--port", str(port), "--workers", "2"]
    with running(command, {}) as process:
        wait_for(f"http://127.0.0.1:{port}/index.json")
        place = f"http://127.0.0.1:{port}/a.tif/0/data"
        found = tensorstore.open({"driver": "zarr3", "kvstore": place}).result().read().result()
        np.testing.assert_array_equal(found, pixels)
    assert process.returncode is not None
    with pytest.raises(OSError, match="refused"):  # all of them have ended
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({}, "JNRRDZ_SERVE"),
        ({"JNRRDZ_SERVE": "a.tif"}, "JNRRDZ_TOKEN"),
        ({"JNRRDZ_SERVE": "a.tif", "JNRRDZ_TOKEN": "-", "JNRRDZ_CODEC": "lz4"}, "JNRRDZ_CODEC"),
        ({"JNRRDZ_SERVE": "a.tif", "JNRRDZ_TOKEN": "-", "JNRRDZ_CACHE_MB": "1e9"}, "JNRRDZ_CACHE_MB"),
    ],
)
def test_an_environment_that_does_not_suffice(monkeypatch, environment, field):
    from jnrrdz.server.running import VARIABLES, app_from_environment  # noqa: PLC0415  it needs no server otherwise

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnsupportedError) as told:
        app_from_environment()
    assert told.value.field == field
