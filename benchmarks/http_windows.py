"""Windows that follow one another over HTTP: in a loop, by dask's threads, as tiles of `jnrrdz serve`.

The bounds of windows that are read one after another stand beside them: one round trip each, and a client that throws
the bytes away.
"""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
import dask.array as da
import numpy as np
import rasterio
import tifffile
import zarr
from measure import Case, Sample
from rasterio.windows import Window
from server import Remote, serving

import jnrrdz
from jnrrdz.server.running import serve
from jnrrdz.sources.ranges import Span, coalesce
from jnrrdz.store.requests import CONNECTIONS

VSICURL = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".tif"}
BLOCK = 1024
ROWS = 4
TILE = 512
TILE_ROWS = 2
CLIENTS = 6
RATE = 1_000_000

type Places = Sequence[tuple[int, int]]
type Finest = Callable[..., "zarr.Array[Any]"]


def passed(path: Path, places: Places, size: int, latency: float) -> Sample:
    """Return how long a client takes that asks for the bytes of each window at once, and throws them away."""
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages.first
        tile, across = page.tilelength, -(-page.imagewidth // page.tilewidth)
        first, count = page.dataoffsets, page.databytecounts

    def spans(row: int, column: int) -> list[Span]:
        sides = [range(at // tile, -(-(at + size) // tile)) for at in (row, column)]
        numbers = [r * across + c for r, c in product(*sides)]
        return [request.span for request in coalesce([(first[n], first[n] + count[n]) for n in numbers])]

    with serving(path.parent, latency) as remote, ThreadPoolExecutor(8) as pool:
        connections: queue.SimpleQueue[HTTPConnection] = queue.SimpleQueue()
        for _ in range(8):
            connections.put(HTTPConnection(urlsplit(remote.root).netloc))

        def take(span: Span) -> None:
            connection = connections.get()
            connection.request("GET", f"/{path.name}", headers={"Range": f"bytes={span[0]}-{span[1] - 1}"})
            connection.getresponse().read()
            connections.put(connection)

        return counted(remote, lambda: [list(pool.map(take, spans(*place))) for place in places])


def counted(remote: Remote, function: Callable[[], object]) -> Sample:
    """Return seconds, requests and bytes of one call."""
    remote.tally()
    start = time.perf_counter()
    function()
    seconds, tally = time.perf_counter() - start, remote.tally()
    under_way = tally["under_way"] / (tally["busy"] or 1)
    return Sample(seconds=seconds, requests=int(tally["requests"]), nbytes=int(tally["bytes"]), under_way=under_way)


def cases(path: Path, work: Path, finest: Finest, latency: float) -> Iterator[Case]:
    """Yield blocks in rows, and tiles in rows through a server of ours."""
    with tifffile.TiffFile(path) as tiff:
        image = tiff.pages.first.asarray()
    yield _blocks(path, work, finest, latency, image)
    yield _tiles(path, latency, image)


def slow_links(path: Path, work: Path, finest: Finest, latency: float) -> Case:
    """Return the full read where each connection brings little: only many of them together are fast.

    rasterio asks for four ranges, one after another, and would take minutes.
    """
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages.first
        image, nbytes = page.asarray(), sum(page.databytecounts)

    def with_jnrrdz() -> Sample:
        with serving(path.parent, latency, RATE) as remote:
            manifest = work / "slow.json"
            jnrrdz.index(f"{remote.root}/{path.name}", str(manifest), overwrite=True)
            array, found = finest(manifest, allow=[remote.root]), []
            sample = counted(remote, lambda: found.append(array[...]))
        return _checked(sample, found[0], image)

    bound = f" {CONNECTIONS} connections"
    return Case(
        f"full read of a COG, HTTP with {latency * 1000:.0f} ms and {RATE / 1e6:.0f} MB/s a connection",
        bound,
        {
            bound: lambda: Sample(seconds=nbytes / RATE / CONNECTIONS, under_way=CONNECTIONS),
            "jnrrdz": with_jnrrdz,
        },
        rounds=2,
    )


def _with_rasterio(path: Path, latency: float, places: Places, size: int) -> Sample:
    with (
        serving(path.parent, latency) as remote,
        rasterio.Env(**VSICURL),
        rasterio.open(f"/vsicurl/{remote.root}/{path.name}") as source,
    ):
        return counted(remote, lambda: [source.read(1, window=Window(c, r, size, size)) for r, c in places])


def _blocks(path: Path, work: Path, finest: Finest, latency: float, image: Any) -> Case:
    side = image.shape[1]
    places = list(product(range(0, ROWS * BLOCK, BLOCK), range(0, side, BLOCK)))

    def opened(remote: Remote) -> "zarr.Array[Any]":
        manifest = work / "rows.json"
        jnrrdz.index(f"{remote.root}/{path.name}", str(manifest), overwrite=True)
        return finest(manifest, allow=[remote.root])

    def in_a_loop() -> Sample:
        with serving(path.parent, latency) as remote:
            array, got = opened(remote), np.empty((ROWS * BLOCK, side), image.dtype)

            def read() -> None:
                for r, c in places:
                    got[r : r + BLOCK, c : c + BLOCK] = array[r : r + BLOCK, c : c + BLOCK]

            sample = counted(remote, read)
        return _checked(sample, got, image[: ROWS * BLOCK])

    def by_dask() -> Sample:
        with serving(path.parent, latency) as remote, dask.config.set(scheduler="threads", num_workers=2):
            blocks = da.from_array(opened(remote), chunks=(BLOCK, BLOCK))[: ROWS * BLOCK]
            found: list[Any] = []
            sample = counted(remote, lambda: found.append(blocks.compute()))
        return _checked(sample, found[0], image[: ROWS * BLOCK])

    return Case(
        f"{len(places)} windows of {BLOCK}x{BLOCK} in rows, HTTP with {latency * 1000:.0f} ms",
        "rasterio /vsicurl",
        {
            "rasterio /vsicurl": lambda: _with_rasterio(path, latency, places, BLOCK),
            "jnrrdz": in_a_loop,
            "jnrrdz, dask of 2 threads": by_dask,
            " a round trip a window": lambda: Sample(seconds=len(places) * latency),
        },
        goals={"jnrrdz": {"requests": 1.0}},
    )


def _checked(sample: Sample, got: Any, expected: Any) -> Sample:
    if not np.array_equal(got, expected):
        raise ValueError("windows in rows: the pixels differ, so the times mean nothing")
    return sample


def _tiles(path: Path, latency: float, image: Any) -> Case:
    places = list(product(range(0, TILE_ROWS * TILE, TILE), range(0, image.shape[1], TILE)))

    def through_a_server(clients: int) -> Sample:
        with serving(path.parent, latency) as remote, serve(f"{remote.root}/{path.name}") as server:
            address = urlsplit(server[server.names[0]])
            connections: queue.SimpleQueue[HTTPConnection] = queue.SimpleQueue()
            for _ in range(clients):
                connections.put(HTTPConnection(address.netloc))

            def tile(place: tuple[int, int]) -> None:
                connection = connections.get()
                connection.request("GET", f"{address.path}/0/data/c/{place[0] // TILE}/{place[1] // TILE}")
                answer = connection.getresponse()
                if answer.status != 200 or not answer.read():
                    raise ValueError(f"a tile was answered with {answer.status}")
                connections.put(connection)

            tile((image.shape[0] - 1, image.shape[1] - 1))  # the server has opened the image then
            with ThreadPoolExecutor(clients) as pool:
                return counted(remote, lambda: list(pool.map(tile, places)))

    return Case(
        f"{len(places)} tiles of {TILE}x{TILE} in rows, HTTP with {latency * 1000:.0f} ms",
        "rasterio /vsicurl",
        {
            "rasterio /vsicurl": lambda: _with_rasterio(path, latency, places, TILE),
            "jnrrdz serve, one client": lambda: through_a_server(1),
            f"jnrrdz serve, {CLIENTS} connections": lambda: through_a_server(CLIENTS),
            " a round trip a tile": lambda: Sample(seconds=len(places) * latency),
        },
        goals={"jnrrdz serve, one client": {"requests": 1.0}},
    )
