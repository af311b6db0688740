"""Rows of N5."""

from functools import partial

import z5py
from tests.matrix.readers import by_numbers, by_tensorstore
from tests.matrix.row import DAYS, Row
from tests.matrix.sources_tiff import noise
from tests.n5.test_java import COMPRESSIONS
from tests.n5.test_java import write as write_java
from tests.writers import n5_attributes, n5_dataset

SHAPE = (8, 32, 48)
BLOCK = [16, 16, 4]
BLOSC = {"type": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}


def by_compression(path, seed, *, compression, shape=SHAPE, dtype="u2"):
    n5_dataset(path, noise(seed, shape, dtype, low=1).T, BLOCK, compression)


def by_z5py(path, seed):
    with z5py.File(str(path), mode="w", use_zarr_format=False) as container:
        pixels = noise(seed, SHAPE, "u2", low=1)
        container.create_dataset(
            "v", data=pixels, chunks=(4, 16, 16), compression="gzip"
        )


def by_java(compression, shape=SHAPE):
    """Return a function that writes blocks as Java does, cut at the edges."""
    document, pack = COMPRESSIONS[compression]

    def write(path, seed):
        pixels = noise(seed, shape, "u2", low=1)
        write_java(path, pixels.T, BLOCK, document, pack)
        n5_attributes(path, n5="4.0.0")

    return write


def of_seed(path):
    """Return the pixels that belong to the seed in a container's name."""
    return noise(DAYS.index(path.stem.removeprefix("d_")), SHAPE, "u2", low=1)


def multiscale(path, seed):
    pixels = noise(seed, SHAPE, "u2", low=1)
    n5_dataset(path / "v" / "s0", pixels.T, BLOCK, "gzip")
    n5_dataset(path / "v" / "s1", pixels[:, ::2, ::2].T, BLOCK, "gzip")
    scales = {"scales": [[1, 1, 1], [2, 2, 1]], "pixelResolution": [1, 2, 5]}
    n5_attributes(path / "v", **scales, units=["um"] * 3)
    n5_attributes(path, n5="4.0.0")


def n5(name, write, *traits, by="tensorstore", **own):
    dataset, levels = own.pop("dataset", ""), own.pop("datasets", ())
    see = {"dataset": dataset, "levels": levels, **own.pop("see", {})}
    read = by_tensorstore("z", "y", "x", **see)
    own = {"read": read, "reader": "tensorstore", "file": "d_{}.n5", **own}
    return Row(f"N5 {name}", by, write, traits=frozenset({*traits, "N5"}), **own)


def packed(name, compression, *traits, **options):
    write = partial(by_compression, compression=compression, **options)
    return n5(name, write, *traits)


OF_SEED = by_numbers(of_seed, "z", "y", "x")
STEPS = {"z": (0, 5), "y": (0, 2), "x": (0, 1)}
# fmt: off
N5 = [
    packed("raw", {"type": "raw"}),
    packed("gzip", {"type": "gzip", "level": 5}),
    packed("zlib", {"type": "gzip", "level": 5, "useZlib": True}, dtype="f4"),
    packed("zstd", {"type": "zstd", "level": 3}, dtype="i4"),
    packed("blosc", BLOSC),
    packed("bzip2", {"type": "bzip2", "blockSize": 9}),
    packed("edges", {"type": "gzip", "level": 5}, shape=(7, 30, 45)),
    n5("of Java", by_java("gzip", (7, 30, 45)), "our codec", by="Java's layout"),
    n5("of Java, lz4", by_java("lz4"), "our codec", by="Java's layout", read=OF_SEED,
       reader="numpy"),
    n5("z5py", by_z5py, by="z5py", dataset="v", group="v"),
    n5("multiscale", multiscale, dataset="v/s0", datasets=("v/s1",), group="v/s0",
       levels=("v/s1",), see={"steps": STEPS}),
]
# fmt: on
