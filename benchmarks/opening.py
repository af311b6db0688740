"""What opening a manifest costs, and one window of it: few chunks of few sources beside many of many.

    python benchmarks/opening.py [--sources 100 100000] [--chunks 1000] [--keep]

Writes Parquet manifests of so many sources of so many chunks each, one after another along the first axis; the files
are made as far as the window reads them.  Each step is a process of its own, in turns; kept are the best CPU seconds,
and requests and bytes where an HTTP server has the manifest.  `--keep` puts the figures into
`benchmarks/results/VERSION.json`, and docs/scale.md shows them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import repeat
from pathlib import Path

import numpy as np
import results
from server import serving

SIDE = 16
"""Elements along a side of a chunk."""

WINDOW = 16
"""Chunks that are read."""

ROUNDS = 2

WRITTEN = datetime(2026, 11, 19, 12, tzinfo=UTC)
"""When each source was written, as its record tells."""


def name_of(folder: Path, source: int) -> str:
    """Return where a source is."""
    return f"{folder}/archive/2026/region-{source // 1000:04}/scene_{source:08}.bin"


def pixels(source: int) -> np.ndarray:
    """Return what is in the chunks of a source that are read."""
    return np.random.default_rng(source).integers(0, 255, (WINDOW, SIDE, SIDE)).astype("u1")


def write(folder: Path, sources: int, chunks: int) -> dict[str, float]:
    """Write a manifest."""
    from jnrrdz.core.arrays import SourceRecord, VirtualArray
    from jnrrdz.core.codecs import bytes_
    from jnrrdz.core.refs import ChunkRefs, References
    from jnrrdz.core.tree import VirtualGroup
    from jnrrdz.manifests import parquet

    class Rows(References):
        """References of neighbouring rows of equal length in many files."""

        def __init__(self) -> None:
            self.sources = names
            self.chunks = sources * chunks

        def part(self, first: int, stop: int) -> ChunkRefs:
            number = np.arange(first, stop)
            used = names[first // chunks : -(-stop // chunks)]
            source = (number // chunks - first // chunks).astype(np.int32)
            size = np.full(stop - first, SIDE * SIDE)
            return ChunkRefs(used, np.arange(stop - first + 1), source, number % chunks * SIDE * SIDE, size)

    names = tuple(name_of(folder, source) for source in range(sources))
    refs = Rows()
    shape = (sources * chunks, SIDE, SIDE)
    array = VirtualArray(shape, np.dtype("u1"), (1, SIDE, SIDE), (bytes_(None),), refs, ("t", "y", "x"))
    size, time_of = chunks * SIDE * SIDE, f"{WRITTEN:%Y-%m-%dT%H:%M:%SZ}"
    etags = (blake2b(name.encode(), digest_size=16).hexdigest() for name in names)  # as random as a store's
    records = tuple(SourceRecord(*one, None, time_of) for one in zip(names, repeat(size), etags))
    cpu = time.process_time()
    parquet.write(VirtualGroup({"data": array}, {}, records), str(folder / f"{sources}.parquet"))
    source = Path(names[sources // 2])
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(pixels(sources // 2).tobytes())
    os.truncate(source, size)
    os.utime(source, (WRITTEN.timestamp(),) * 2)
    files = [each.stat().st_size for each in (folder / f"{sources}.parquet").rglob("*") if each.is_file()]
    return {"write cpu": time.process_time() - cpu, "objects": len(files), "size": sum(files)}


def read(folder: Path, sources: int, chunks: int) -> dict[str, float]:
    """Open a manifest, and read a window."""
    import xarray as xr

    import jnrrdz

    xr.Dataset({"a": 1}).to_zarr(
        {}, zarr_format=3, consolidated=False
    )  # what xarray and zarr import is not the manifest's
    jnrrdz.open_dataset(folder / "first.parquet")["data"][:1].load()
    cpu = time.process_time()
    data = jnrrdz.open_dataset(folder / f"{sources}.parquet")["data"]
    told = {"open cpu": time.process_time() - cpu, "open peak": peak()}
    cpu, first = time.process_time(), sources // 2 * chunks
    found = data[first : first + WINDOW].to_numpy()
    told |= {"window cpu": time.process_time() - cpu, "window peak": peak()}
    np.testing.assert_array_equal(found, pixels(sources // 2))
    return told


def far(folder: Path, sources: int, chunks: int) -> dict[str, float]:
    """Open a manifest that an HTTP server has, and read a window."""
    import jnrrdz

    with serving(folder, 0) as remote:
        data = jnrrdz.open_dataset(f"{remote.root}/{sources}.parquet", allow=("*",))["data"]
        told = {f"open {name}": value for name, value in remote.tally().items()}
        found = data[sources // 2 * chunks : sources // 2 * chunks + WINDOW].to_numpy()
        told |= {f"window {name}": value for name, value in remote.tally().items()}
    np.testing.assert_array_equal(found, pixels(sources // 2))
    return told


STEPS = {"write": write, "read": read, "far": far}


def peak() -> float:
    """Return the highest resident memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def step(name: str, folder: Path, sources: int, chunks: int) -> dict[str, float]:
    """Return what a step takes in a process of its own."""
    command = [sys.executable, __file__, "--step", name, "--work", str(folder)]
    command += ["--sources", str(sources), "--chunks", str(chunks)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


def measured(folder: Path, sources: list[int], chunks: int) -> dict[int, dict[str, float]]:
    """Return what each manifest takes, the best of several rounds."""
    step("write", folder, 1, WINDOW)
    (folder / "1.parquet").rename(folder / "first.parquet")
    told = {count: step("write", folder, count, chunks) | step("far", folder, count, chunks) for count in sources}
    for _ in range(ROUNDS):
        for count in sources:
            for name, value in step("read", folder, count, chunks).items():
                told[count][name] = min(value, told[count].get(name, value))
    return told


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--chunks", type=int, default=1000, help="of each source")
    parser.add_argument("--keep", action="store_true", help="put the figures into benchmarks/results/VERSION.json")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        told = STEPS[given.step](given.work, *given.sources, given.chunks)
        print(json.dumps(told | {"peak": peak()} if given.step == "write" else told), flush=True)
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        told = measured(Path(name), given.sources, given.chunks)
    for count, took in told.items():
        print(f"{count * given.chunks:,} chunks of {count:,} sources: {took}", flush=True)
    if given.keep:
        loads = [round(load, 1), round(os.getloadavg()[0], 1)]
        for count, took in told.items():
            results.keep_opening(count * given.chunks, count, took, loads)
        results.write_pages()


if __name__ == "__main__":
    main()
