"""Full read of an N5 volume: `python benchmarks/n5.py [--size N]`, in turns, beside decode only and tensorstore.

May touch a temporary folder.  A uint16 volume in zstd blocks of 64 cubed, two threads; what differs from what was
written stops the run.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tensorstore
import zarr

import jnrrdz

BLOCK, THREADS, ROUNDS, HEADER = 64, 2, 5, 16


def spec(path: Path, size: int) -> dict[str, Any]:
    """Return tensorstore's description of the volume."""
    metadata = {
        "dimensions": [size] * 3,
        "blockSize": [BLOCK] * 3,
        "dataType": "uint16",
        "compression": {"type": "zstd", "level": 3},
    }
    context = {"data_copy_concurrency": {"limit": THREADS}, "file_io_concurrency": {"limit": THREADS}}
    return {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "metadata": metadata,
        "context": context,
        "recheck_cached_data": False,
    }


def contenders(path: Path, size: int) -> dict[str, Callable[[], Any]]:
    """Return what is measured, the bound first."""
    blocks = sorted(file for file in path.rglob("*") if file.is_file() and file.name != "attributes.json")

    def decode(file: Path) -> None:
        imagecodecs.zstd_decode(memoryview(file.read_bytes())[HEADER:], out=np.empty(2 * BLOCK**3, np.uint8))

    def decode_only() -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(decode, blocks))

    arrays = {chain: jnrrdz.open_group(path, chain=chain)["data"] for chain in ("offset", "n5_default")}
    return {
        "decode only": decode_only,
        "tensorstore n5": lambda: tensorstore.open(spec(path, size)).result().read().result(),
        **{f"jnrrdz, {chain}": lambda array=array: array[...] for chain, array in arrays.items()},
    }


def main() -> None:
    """Measure, and print seconds and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=512)
    size = parser.parse_args().size
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    zarr.config.set({"threading.max_workers": THREADS})
    values = (np.random.default_rng(1).standard_normal((size,) * 3, np.float32) * 50 + 1000).astype("u2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.n5"
        tensorstore.open(spec(path, size), create=True).result().write(values).result()
        taken: dict[str, list[float]] = {}
        runs = contenders(path, size)
        if not np.array_equal(runs["jnrrdz, offset"](), values.T):
            raise ValueError("the voxels differ, so the times mean nothing")
        for _ in range(ROUNDS):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                taken.setdefault(name, []).append(time.perf_counter() - start)
    base = statistics.median(taken["decode only"])
    for name, seconds in taken.items():
        print(f"{name:20} {statistics.median(seconds):6.3f} s  {statistics.median(seconds) / base:5.2f}")


if __name__ == "__main__":
    main()
