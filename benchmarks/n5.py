"""Full read of an N5 volume on two threads, beside decode only, tensorstore and zarr-n5; `run.py --only n5`.

zarr-n5 registers a codec of the same name as jnrrdz, so it has an environment of its own, made on the first run, and
each of its rounds a process.  A uint16 volume in zstd blocks of 64 cubed.  What differs from what was written stops
the run.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import data
import imagecodecs
import numpy as np
import tensorstore
from measure import Case, Sample, timed
from numpy.typing import NDArray
from zarr.core.buffer.cpu import NDBuffer

import jnrrdz

BLOCK, THREADS, HEADER = 64, 2, 16
CHAINS = ("offset", "n5_default")
ZARR_N5 = "zarr-n5==0.3.1"
PEER = """
import json, sys, time, zarr
from zarr.storage import LocalStore
from zarr_n5 import N5WrapperStore
zarr.config.set({"threading.max_workers": 2, "codec_pipeline.path": sys.argv[2]})
array = zarr.open_array(N5WrapperStore(LocalStore(sys.argv[1], read_only=True)), mode="r")
array[:64, :64, :64]
start = time.perf_counter()
found = array[...]
print(json.dumps({"seconds": time.perf_counter() - start, "sum": int(found.sum(dtype="u8"))}))
"""
PIPELINES = {"": "BatchedCodecPipeline", ", fused pipeline": "FusedCodecPipeline"}


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


def volume(size: int) -> tuple[Path, NDArray[np.uint16]]:
    """Return the volume, written by tensorstore where it is not there yet, and what it holds, x first."""
    path = data.cache() / f"volume-{size}.n5"
    values = (np.random.default_rng(1).standard_normal((size,) * 3, np.float32) * 50 + 1000).astype("u2")
    if not (path / "attributes.json").exists():
        tensorstore.open(spec(path, size), create=True).result().write(values).result()
    return path, values


class Bound:
    """Blocks in memory, decoded to an array that exists: the least work that any reader does."""

    def __init__(self, path: Path, size: int) -> None:
        """Read every block, and touch every page of the array that they go to."""
        sides = range(size // BLOCK)
        self.blocks = [
            ((z, y, x), (path / f"{x}/{y}/{z}").read_bytes()[HEADER:]) for z, y, x in product(sides, repeat=3)
        ]
        self.out = np.full((size,) * 3, 1, np.uint16)

    def into(self, block: tuple[tuple[int, int, int], bytes]) -> None:
        """Decode one block to its place, in the machine's byte order."""
        place = tuple(slice(at * BLOCK, (at + 1) * BLOCK) for at in block[0])
        octets = imagecodecs.zstd_decode(block[1], out=2 * BLOCK**3)
        self.out[place] = np.frombuffer(octets, ">u2").reshape((BLOCK,) * 3)

    def read(self) -> NDArray[np.uint16]:
        """Decode all blocks."""
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(self.into, self.blocks):
                pass
        return self.out

    def read_anew(self) -> NDArray[np.uint16]:
        """Decode all blocks to an array that is made now: its pages are the machine's to make, for every reader."""
        kept, self.out = self.out, np.empty_like(self.out)
        found = self.read()
        self.out = kept
        return found


def peer_python() -> Path | None:
    """Return the interpreter of an environment with zarr-n5, made if need be; None where it cannot be had."""
    home = data.cache() / "zarr-n5"
    python, made = home / "bin" / "python", home / "made"
    try:
        if not made.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, capture_output=True)
            subprocess.run([python, "-m", "pip", "install", "-q", ZARR_N5], check=True, capture_output=True)
            made.write_text(ZARR_N5)
    except (subprocess.SubprocessError, OSError):
        return None
    return python


def peer(python: Path, path: Path, pipeline: str, total: int) -> Sample:
    """Return what zarr-n5 took in a process of its own, its start not counted."""
    command = [python, "-c", PEER, path, f"zarr.core.codec_pipeline.{pipeline}"]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
    if told["sum"] != total:
        raise ValueError("zarr-n5 reads something else, so the times mean nothing")
    return Sample(seconds=told["seconds"])


def into(array: Any, exists: NDBuffer) -> Sample:
    """Return what jnrrdz takes to read into an array that is there."""
    return timed(lambda: array.get_basic_selection(..., out=exists))


def full_read(size: int, same: Callable[..., None]) -> Case:
    """Return the full read of a volume of that side."""
    path, values = volume(size)
    bound = Bound(path, size)
    arrays = {chain: jnrrdz.open_group(path, chain=chain)["data"] for chain in CHAINS}
    for array in arrays.values():
        same(array[...], values.T, "N5")
    same(bound.read(), values.T, "decode only")
    exists = NDBuffer.from_numpy_array(np.full_like(bound.out, 1))  # as that of the bound
    contenders: dict[str, Callable[[], Sample]] = {
        "decode only": lambda: timed(bound.read),
        "decode to a new array": lambda: timed(bound.read_anew),
        **{f"jnrrdz, {chain}": lambda array=array: timed(lambda: array[...]) for chain, array in arrays.items()},
        **{f"  {chain}, array exists": lambda array=array: into(array, exists) for chain, array in arrays.items()},
        "tensorstore n5": lambda: timed(lambda: tensorstore.open(spec(path, size)).result().read().result()),
    }
    python, total = peer_python(), int(values.sum(dtype="u8"))
    if python is not None:
        for note, pipeline in PIPELINES.items():
            contenders[f"zarr-n5{note}"] = lambda pipeline=pipeline: peer(python, path, pipeline, total)
    goals = {f"jnrrdz, {chain}": {"seconds": 1.3} for chain in arrays}
    return Case(f"full read, N5 of {size} cubed uint16, zstd", "decode only", contenders, rounds=7, goals=goals)
