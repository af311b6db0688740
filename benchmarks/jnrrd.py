"""Indexing and full read of a tiled JNRRD on two threads, beside decode only; `run.py --only jnrrd`.

A uint8 volume of natural relief with noise, four times as wide as it is
deep, in zstd tiles of 256 x 256 x 64 and four levels, made by `jnrrdz tile` from a .npy file.  What differs
from the .npy stops the run.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import data
import imagecodecs
import jobs
import numpy as np
from measure import Case, Sample, timed
from numpy.typing import NDArray
from zarr.core.buffer.cpu import NDBuffer

import jnrrdz

TILE, LEVELS, THREADS, WARM_UP = (256, 256, 64), 4, 2, 256
NOISE = 8


def source(size: int) -> Path:
    """Return a .npy file of a relief that drifts with depth, made plane by plane where it is not there yet."""
    path = data.cache() / f"volume-{size}.npy"
    if not path.exists():
        partial = path.with_suffix(".partial")
        volume = np.lib.format.open_memmap(partial, "w+", np.uint8, (size // 4, size, size))
        relief = data.terrain(size, 5) * np.float32(240)
        rng = np.random.default_rng(6)
        for depth, plane in enumerate(volume):
            plane[...] = np.roll(relief, depth, axis=1) + rng.integers(0, NOISE, relief.shape, np.uint8)
        del volume
        partial.rename(path)
    return path


def tiled(size: int) -> Path:
    """Return the JNRRD, tiled where it is not there yet."""
    path = data.cache() / f"volume-{size}.jnrrd"
    if not path.exists():
        jnrrdz.tile(source(size), path, tile=TILE, compression="zstd", levels=LEVELS, jobs=THREADS)
    return path


class Bound:
    """Tiles of level 0 in memory, decoded to an array that exists."""

    def __init__(self, path: Path, size: int) -> None:
        """Read the tables and the tiles, and touch every page of the arrays that they go to."""
        header: dict[str, Any] = {}
        with path.open("rb") as stream:
            for line in iter(stream.readline, b"\n"):
                header |= json.loads(line)
        self.shape = (size // 4, size, size)
        steps = TILE[::-1]
        counts = [-(-extent // step) for extent, step in zip(self.shape, steps, strict=True)]
        content = np.memmap(path, np.uint8, "r")
        self.tiles = []
        for number, index in enumerate(product(*map(range, counts))):
            at, length = header["tile:offset_table"][number], header["tile:size_table"][number]
            place = tuple(slice(i * step, (i + 1) * step) for i, step in zip(index, steps, strict=True))
            self.tiles.append((number, place, bytes(content[at : at + length])))
        self.octets = np.full((len(self.tiles), int(np.prod(TILE))), 1, np.uint8)
        self.volume = np.full(self.shape, 1, np.uint8)

    def decode(self, tile: tuple[int, Any, bytes]) -> None:
        """Decode a tile, which stays as it is."""
        imagecodecs.zstd_decode(tile[2], out=self.octets[tile[0]])

    def into(self, tile: tuple[int, Any, bytes]) -> None:
        """Decode a tile to its place in the volume."""
        octets = imagecodecs.zstd_decode(tile[2], out=int(np.prod(TILE)))
        self.volume[tile[1]] = np.frombuffer(octets, np.uint8).reshape(TILE[::-1])

    def run(self, work: Callable[[tuple[int, Any, bytes]], None]) -> None:
        """Do the work of every tile on the threads."""
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(work, self.tiles):
                pass

    def read(self) -> NDArray[np.uint8]:
        """Return the volume, decoded to its place."""
        self.run(self.into)
        return self.volume

    def read_anew(self) -> NDArray[np.uint8]:
        """Return the volume in an array that is made now: its pages are the machine's to make, for every reader."""
        kept, self.volume = self.volume, np.empty(self.shape, np.uint8)
        found = self.read()
        self.volume = kept
        return found


def index(size: int, work: Path) -> Case:
    """Return indexing in a process of its own, its imports not counted."""
    small, large = tiled(WARM_UP), tiled(size)
    arguments = (str(small), str(work / "small-volume.json")), (str(large), str(work / "volume.json"))
    return Case(
        f"index, JNRRD of {size} x {size} x {size // 4} uint8, {LEVELS} levels",
        "jnrrdz json",
        {"jnrrdz json": lambda: Sample(**jobs.run("jnrrdz_json", *arguments))},
    )


def full_read(size: int, same: Callable[..., None]) -> Case:
    """Return the full read of the finest level."""
    path, volume = tiled(size), np.load(source(size), mmap_mode="r")
    bound = Bound(path, size)
    array = jnrrdz.open_group(path)["0/data"]
    same(array[...], volume, "JNRRD")
    exists = NDBuffer.from_numpy_array(bound.volume)  # as that of the bound: new pages cost what the machine makes them
    same(bound.read(), volume, "decode only")
    return Case(
        f"full read, JNRRD of {size} x {size} x {size // 4} uint8, zstd",
        "decode only",
        {
            "decode only": lambda: timed(bound.run, bound.decode),
            "decode to the place": lambda: timed(bound.read),
            "decode to a new array": lambda: timed(bound.read_anew),
            "jnrrdz, array that exists": lambda: timed(lambda: array.get_basic_selection(..., out=exists)),
            "jnrrdz": lambda: timed(lambda: array[...]),
        },
        rounds=5,
        goals={"jnrrdz, array that exists": {"seconds": 1.3}},
    )
