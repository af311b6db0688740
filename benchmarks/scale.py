"""Many small COGs on an object store to one cube: what each step costs a file.

`python -m benchmarks.scale [COUNT]` from the checkout.

SeaweedFS holds the files and shares the machine with what is measured: seconds are an upper bound, requests, bytes
and CPU carry over.  Each step is the command that a user would give, in a process of its own.  The pixels of a
window over four scenes are compared with what was put there.  docs/scale.md has what came of it.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.many import EASTING, NORTHING, SIDE, STEP, pixels, scene
from tests.servers import seaweed

COUNT = 100_000
ACROSS = 10
"""Scenes along a side of the mosaic of one date."""

WINDOW = SIDE // 4
"""Pixels from the corner in which four scenes meet to each side of the window that is read."""

COMMAND = """\
import json, os, resource, sys, time
from jnrrdz.cli import main
start = time.perf_counter()
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cost = {
    "seconds": time.perf_counter() - start,
    "cpu": sum(each.ru_utime + each.ru_stime for each in used),
    "peak MB": max(each.ru_maxrss for each in used) / 1024,
}
print(json.dumps(cost), file=sys.stderr)
"""

READ = """\
import json, resource, sys, time
import numpy as np, xarray as xr
start, before = time.perf_counter(), time.process_time()
cube = xr.open_dataset(sys.argv[1], engine="jnrrdz", chunks=None, mask_and_scale=False)
opened = time.perf_counter() - start
middle, side = int(sys.argv[2]), int(sys.argv[3])
data = next(each for each in cube.data_vars.values() if each.ndim == 4)
part = slice(middle - side, middle + side)
np.save(sys.argv[4], data.isel(time=-1, band=0, y=part, x=part).values)
cost = {
    "seconds": time.perf_counter() - start,
    "to open": opened,
    "cpu": time.process_time() - before,
    "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}
print(json.dumps(cost | {"shape": data.shape}), file=sys.stderr)
"""


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
    with ThreadPoolExecutor(8) as pool:
        for some in batched(scenes(folder, count), 1000, strict=False):
            list(pool.map(lambda one: server.put(bucket, *one), some))
    return bucket


def run(code: str, words: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Return what a step cost."""
    compiled = {"PYTHONPYCACHEPREFIX": tempfile.gettempdir() + "/jnrrdz-scale-pycache"}
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**own, **compiled, **variables},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stderr.strip().splitlines()[-1]))


def tell(step: str, cost: dict[str, Any], count: int) -> None:
    """Print what a step cost, and CPU and time a file."""
    each = f"{cost['cpu'] / count * 1000:.2f} ms CPU and {cost['seconds'] / count * 1000:.2f} ms a file"
    more = ", ".join(f"{name} {value if isinstance(value, list) else round(value, 3)}" for name, value in cost.items())
    print(f"{step}: {more} ({each})", flush=True)


def main() -> None:
    """Fill a store, index it, make the cube, read a window of it."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as work, seaweed.running(Path(work)) as server:
        folder, variables = Path(work), server.environment()
        bucket = fill(server, folder, count)
        print(f"{count} scenes; load {os.getloadavg()[0]:.1f}", flush=True)
        report, cube = folder / "report.jsonl", str(folder / "cube.parquet")
        out = ["-o", f"{folder}/refs/{{stem}}.json", "--report", str(report)]
        cost = run(COMMAND, ["batch", f"s3://{bucket}/", *out], variables)
        lines = list(map(json.loads, report.read_text().splitlines()))
        assert len(lines) == count
        cost |= {name: sum(line[name] for line in lines) / count for name in ("requests", "bytes")}
        tell("batch", cost, count)
        names = ["--time-from", r"/(\d{8})_", "-f", "parquet", "--allow", f"s3://{bucket}/"]
        tell("cube", run(COMMAND, ["cube", f"{folder}/refs/", "-o", cube, *names], variables), count)
        size = sum(path.stat().st_size for path in Path(cube).rglob("*") if path.is_file())
        print(f"cube.parquet: {size / count:.0f} bytes a file", flush=True)
        window = folder / "window.npy"
        tell("window", run(READ, [cube, str(SIDE), str(WINDOW), str(window)], variables), count)
        around = slice(SIDE - WINDOW, SIDE + WINDOW)
        assert np.array_equal(np.load(window), np.tile(pixels(), (2, 2))[around, around]), "other pixels"
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
