"""Many small COGs over a latency, 64 at once: `jnrrdz batch` beside async-tiff's header reads and its peers.

`python -m benchmarks.many [--count 2000] [--rounds 2] [--only NAME] [--server nginx|seaweed]` from the checkout.

The peers have environments of their own: `.benchmarks/env/peers` (async-tiff, tifffile, kerchunk, virtual-tiff, s3fs,
aiohttp) and `.benchmarks/env/osml` (osml-imagery-io with zarr < 3.2).

All that is measured goes through the same relay in the same run; only ratios carry over to other machines.  CPU
is that of the contender, its workers' start included: where other work shares the machine, it says more than time.
"""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import from_origin

from tests.servers import nginx, seaweed

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".benchmarks" / "env"
PEERS = {
    "async-tiff": "peers",
    "tifffile": "peers",
    "kerchunk": "peers",
    "virtual-tiff": "peers",
    "osml": "osml",
}
LATENCY = 0.02
EASTING, NORTHING = 512345.0, 5000000.0
"""The origin of the scene, which is another in each copy."""

SIDE, STEP = 512, 10
"""The scene's pixels along a side, and the metres of each."""

OURS = """\
import json, resource, sys, time
from jnrrdz.batches import run
from jnrrdz.batches.selection import Selection
start, before = time.perf_counter(), time.process_time()
done = run.batch((), sys.argv[2] + "/{stem}.json", selection=Selection((), lists=[sys.argv[1]]), jobs=64)
seconds = time.perf_counter() - start
workers = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = time.process_time() - before + workers.ru_utime + workers.ru_stime
assert done.failed == 0, done.failures[:1]
print(json.dumps({"seconds": seconds, "cpu": cpu, "requests": done.requests, "bytes": done.bytes_read}))
"""


def pixels() -> NDArray[np.uint16]:
    """Return what the scene shows."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    return (rows * columns // 64).astype(np.uint16)


def scene(folder: Path) -> bytes:
    """Return a small COG: 512 x 512 in four tiles and an overview, 16 bits."""
    path = folder / "scene.tif"
    options = {"crs": "EPSG:32633", "transform": from_origin(EASTING, NORTHING, STEP, STEP), "nodata": 7}
    options |= {"blocksize": 256, "compress": "deflate", "predictor": 2, "overviews": "AUTO"}
    with rasterio.open(path, "w", driver="COG", height=SIDE, width=SIDE, count=1, dtype="uint16", **options) as out:
        out.write(pixels(), 1)
    data = path.read_bytes()
    path.unlink()
    return data


def copies(folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and files that lie each somewhere else."""
    data = scene(folder)
    place = struct.pack("<d", EASTING)
    assert data.count(place) == 1
    for number in range(count):
        yield f"scene_{number:05}.tif", data.replace(place, struct.pack("<d", EASTING + 5120 * number))


@contextmanager
def relayed(port: int) -> Iterator[str]:
    """Give the address of a relay before a port."""
    command = [sys.executable, str(HERE / "delay.py"), str(port), "--latency", str(LATENCY)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()  # type: ignore[union-attr]  it is one


@contextmanager
def on_nginx(folder: Path, count: int) -> Iterator[tuple[list[str], str | None, dict[str, str]]]:
    """Give URLs of files that nginx serves."""
    with nginx.running(folder) as server:
        names = [name for name, data in copies(folder, count) if (server.files / name).write_bytes(data)]
        with relayed(server.port) as url:
            yield [f"{url}/{name}" for name in names], None, {}


@contextmanager
def on_seaweed(folder: Path, count: int) -> Iterator[tuple[list[str], str | None, dict[str, str]]]:
    """Give URLs of objects on SeaweedFS, its endpoint and the variables that lead there."""
    with seaweed.running(folder) as server:
        bucket = server.make_bucket()
        names = [name for name, data in copies(folder, count) if server.put(bucket, name, data)]
        with relayed(server.port) as url:
            yield [f"s3://{bucket}/{name}" for name in names], url, {**server.environment(), "AWS_ENDPOINT_URL": url}


SERVERS = {"nginx": on_nginx, "seaweed": on_seaweed}


def command(name: str, listed: Path, out: str, endpoint: str | None) -> list[str]:
    """Return what runs one contender."""
    if name == "jnrrdz":
        return [sys.executable, "-c", OURS, str(listed), out]
    python = str(ENVIRONMENTS / PEERS[name] / "bin" / "python")
    return [python, str(HERE / "many_peers.py"), name, str(listed), out, *([endpoint] if endpoint else [])]


def environment(name: str) -> dict[str, str]:
    """Return the variables of a contender: ours too runs from compiled modules, as what pip installed does."""
    if name != "jnrrdz":
        return dict(os.environ)
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**known, "PYTHONPYCACHEPREFIX": str(ENVIRONMENTS.parent / "pycache")}


def measured(name: str, listed: Path, endpoint: str | None, variables: dict[str, str]) -> dict[str, float]:
    """Return what one run of a contender took."""
    out = tempfile.mkdtemp(prefix="jnrrdz-many-")
    try:
        made = subprocess.run(
            command(name, listed, out, endpoint),
            env={**environment(name), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
    finally:
        shutil.rmtree(out)
    if made.returncode:
        print(f"  {name}: {made.stderr.strip().splitlines()[-1:]}", flush=True)
        return {}
    return dict(json.loads(made.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Measure in turns and print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", action="append", choices=["jnrrdz", *PEERS])
    parser.add_argument("--server", action="append", choices=list(SERVERS))
    given = parser.parse_args()
    for server in given.server or SERVERS:
        with tempfile.TemporaryDirectory() as work, SERVERS[server](Path(work), given.count) as (urls, endpoint, env):
            listed = Path(work) / "list.txt"
            listed.write_text("\n".join(urls), encoding="utf-8")
            runs: dict[str, list[dict[str, float]]] = {}
            for _ in range(given.rounds):
                for name in given.only or ["async-tiff", "jnrrdz", *list(PEERS)[1:]]:
                    runs.setdefault(name, []).append(measured(name, listed, endpoint, env))
            show(server, given.count, runs)


def show(server: str, count: int, runs: dict[str, list[dict[str, float]]]) -> None:
    """Print the best run of each contender beside async-tiff's."""
    best = {
        name: min(some, key=lambda one: one["seconds"])
        for name, tried in runs.items()
        if (some := [*filter(None, tried)])
    }
    base = best.get("async-tiff", {}).get("seconds")
    print(f"{server}: {count} files, {LATENCY * 1000:g} ms a request, 64 at once", flush=True)
    for name, one in best.items():
        ratio = f" x{one['seconds'] / base:.2f}" if base else ""
        cost = f", {one['requests']} requests, {one['bytes'] // 1000} kB" if "requests" in one else ""
        print(f"  {name:14}{one['seconds']:8.2f} s{ratio}, {one['cpu']:.2f} s CPU{cost}", flush=True)


if __name__ == "__main__":
    main()
