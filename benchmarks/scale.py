"""Many small COGs on an object store to one cube: what each step costs a file.

`python -m benchmarks.scale --files 100000 --keep` from the checkout; some twenty minutes and 6 GB of disk, which it
gives back.

SeaweedFS holds the files and shares the machine with what is measured: seconds are an upper bound, requests, bytes
and CPU carry over.  Each step is the command that a user would give, in a process of its own; a part of the files is
indexed by dask's workers as well.  The pixels of a window over four scenes are compared with what was put there.
`--keep` puts the figures into `benchmarks/results/VERSION.json`, and docs/scale.md shows them.
"""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from itertools import batched
from pathlib import Path

import numpy as np
import obstore
from obstore.store import S3Store

from benchmarks import results
from benchmarks.many import EASTING, NORTHING, SIDE, STEP, pixels, scene
from tests.servers import seaweed

COUNT = 100_000
ACROSS = 10
"""Scenes along a side of the mosaic of one date."""

ON_DASK = 5000
"""Files, more or less, that dask's workers index as well."""

FIRST = 100
"""Files of a first run, which is not measured: it compiles what all steps import."""

ROOM = 60_000
"""Bytes of disk for each file: itself, its manifest, its part of the cube, and as much again."""

WINDOW = SIDE // 4
"""Pixels from the corner in which four scenes meet to each side of the window that is read."""

PEAK = """\
import resource
def peak():
    own = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
    return max(int(own), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024
"""

COMMAND = (
    PEAK
    + """\
import json, os, sys, time
if __name__ == "__main__":
    from jnrrdz.cli import main
    start = time.perf_counter()
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    cost = {"seconds": time.perf_counter() - start, "cpu": cpu, "peak": peak()}
    print(json.dumps(cost), file=sys.stderr)
"""
)

READ = (
    PEAK
    + """\
import json, sys, time
import numpy as np, xarray as xr
start, before = time.perf_counter(), time.process_time()
cube = xr.open_dataset(sys.argv[1], engine="jnrrdz", chunks=None, mask_and_scale=False)
opened = time.perf_counter() - start
middle, side = int(sys.argv[2]), int(sys.argv[3])
data = next(each for each in cube.data_vars.values() if each.ndim == 4)
part = slice(middle - side, middle + side)
np.save(sys.argv[4], data.isel(time=-1, band=0, y=part, x=part).values)
cpu = time.process_time() - before
cost = {"seconds": time.perf_counter() - start, "opening": opened, "cpu": cpu, "peak": peak()}
print(json.dumps(cost), file=sys.stderr)
"""
)


def scenes(folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield keys and files: for each date a square of neighbours."""
    data = scene(folder)
    east, north = struct.pack("<d", EASTING), struct.pack("<d", NORTHING)
    assert data.count(east) == data.count(north) == 1
    for number in range(count):
        day, place = divmod(number, ACROSS * ACROSS)
        row, column = divmod(place, ACROSS)
        moved = data.replace(east, struct.pack("<d", EASTING + STEP * SIDE * column))
        name = f"{date(2000, 1, 1) + timedelta(day):%Y%m%d}_{row}{column}.tif"
        yield name, moved.replace(north, struct.pack("<d", NORTHING - STEP * SIDE * row))


def fill(server: seaweed.Seaweed, folder: Path, count: int) -> str:
    """Put the scenes into a new bucket and return its name."""
    bucket = server.make_bucket()
    key, secret = seaweed.ADMIN
    store = S3Store(
        bucket,
        endpoint=server.url,
        access_key_id=key,
        secret_access_key=secret,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    with ThreadPoolExecutor(16) as pool:
        for some in batched(scenes(folder, count), 1000, strict=False):
            list(pool.map(lambda one: obstore.put(store, *one), some))
    return bucket


def run(code: str, words: list[str], variables: dict[str, str]) -> dict[str, float]:
    """Return what a step cost."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**own, **variables},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stderr.strip().splitlines()[-1]))


def report(path: Path, count: int) -> dict[str, float]:
    """Return the requests and bytes of all files, as the report of a batch tells them."""
    with path.open(encoding="utf-8") as stream:
        told = [(line["requests"], line["bytes"]) for line in map(json.loads, stream)]
    assert len(told) == count, f"{len(told)} of {count} files"
    return {"requests": sum(requests for requests, _ in told), "bytes": sum(nbytes for _, nbytes in told)}


def steps(server: seaweed.Seaweed, folder: Path, count: int) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield each step, how many files it was for, and what it cost."""
    start = time.perf_counter()
    bucket = fill(server, folder, count)
    print(
        f"{count} files are there after {time.perf_counter() - start:.0f} s; load {os.getloadavg()[0]:.1f}", flush=True
    )
    variables = {**server.environment(), "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled")}
    told, cube = folder / "report.jsonl", str(folder / "cube.parquet")
    to = ["-o", f"{folder}/refs/{{stem}}.json", "--report", str(told)]
    cost = run(COMMAND, ["batch", f"s3://{bucket}/", *to], variables)
    yield "batch", count, cost | report(told, count)
    to = ["-o", f"{folder}/dask/{{stem}}.json", "--report", str(told), "--shard", f"1/{max(count // ON_DASK, 1)}"]
    cost = run(COMMAND, ["batch", f"s3://{bucket}/", *to, "--scheduler", "local"], variables)
    some = sum(1 for _ in (folder / "dask").iterdir())
    yield "batch on dask", some, cost | report(told, some)
    names = ["--time-from", r"/(\d{8})_", "-f", "parquet", "--allow", f"s3://{bucket}/"]
    cost = run(COMMAND, ["cube", f"{folder}/refs/", "-o", cube, *names], variables)
    size = sum(path.stat().st_size for path in Path(cube).rglob("*") if path.is_file())
    yield "cube", count, cost | {"size": size}
    window = folder / "window.npy"
    yield "window", count, run(READ, [cube, str(SIDE), str(WINDOW), str(window)], variables)
    around = slice(SIDE - WINDOW, SIDE + WINDOW)
    assert np.array_equal(np.load(window), np.tile(pixels(), (2, 2))[around, around]), "other pixels"


def main() -> None:
    """Fill a store, index it, make the cube, read a window of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=COUNT, help="how many; 100 or more")
    parser.add_argument("--keep", action="store_true", help="put the figures into benchmarks/results/VERSION.json")
    given = parser.parse_args()
    count, free = given.files, shutil.disk_usage(tempfile.gettempdir()).free
    if free < count * ROOM:
        raise SystemExit(f"{count * ROOM >> 20} MB of disk are wanted, {free >> 20} are free; TMPDIR names another")
    load, start, kept = os.getloadavg()[0], time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as work, seaweed.running(Path(work)) as server:
        for name in ("first", "all"):
            (Path(work) / name).mkdir()
        for step, _, _ in steps(server, Path(work) / "first", FIRST):
            print(f"{step}: done with {FIRST} files, so that Python's code is compiled", flush=True)
        for step, files, cost in steps(server, Path(work) / "all", count):
            kept[step] = {"files": files, **{name: float(f"{value:.4g}") for name, value in cost.items()}}
            each = f"{cost['cpu'] / files * 1000:.2f} ms CPU and {cost['seconds'] / files * 1000:.2f} ms a file"
            print(f"{step}: {kept[step]} ({each})", flush=True)
    loads = [round(load, 1), round(os.getloadavg()[0], 1)]
    print(f"{time.perf_counter() - start:.0f} s; load {loads[0]} to {loads[1]}")
    if given.keep:
        results.keep_scale(count, kept, loads)
        results.write_pages()


if __name__ == "__main__":
    main()
