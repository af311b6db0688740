"""Rows of N5."""

import json
from functools import partial

import tensorstore
import z5py
from tests.matrix.readers import by_tensorstore
from tests.matrix.row import Row
from tests.matrix.sources_tiff import noise

SHAPE = (8, 32, 48)
BLOCK = [16, 16, 4]
BLOSC = {"type": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}


def write_n5(path, pixels, compression, block=BLOCK):
    """Write pixels in C order as a dataset, by tensorstore."""
    metadata = {"dimensions": pixels.shape[::-1], "blockSize": block}
    metadata |= {"dataType": pixels.dtype.name, "compression": compression}
    store = {"driver": "file", "path": f"{path}/"}
    spec = {"driver": "n5", "kvstore": store, "metadata": metadata}
    tensorstore.open(spec, create=True).result().write(pixels.T).result()


def by_compression(path, seed, *, compression, shape=SHAPE, dtype="u2"):
    write_n5(path, noise(seed, shape, dtype, low=1), compression)


def by_z5py(path, seed):
    with z5py.File(str(path), mode="w", use_zarr_format=False) as container:
        pixels = noise(seed, SHAPE, "u2", low=1)
        container.create_dataset(
            "v", data=pixels, chunks=(4, 16, 16), compression="gzip"
        )


def multiscale(path, seed):
    pixels = noise(seed, SHAPE, "u2", low=1)
    write_n5(path / "v" / "s0", pixels, {"type": "gzip"})
    write_n5(path / "v" / "s1", pixels[:, ::2, ::2], {"type": "gzip"})
    scales = {"scales": [[1, 1, 1], [2, 2, 1]], "pixelResolution": [1, 2, 5]}
    (path / "v" / "attributes.json").write_text(
        json.dumps(scales | {"units": ["um"] * 3})
    )
    (path / "attributes.json").write_text(json.dumps({"n5": "4.0.0"}))


def n5(name, write, *traits, by="tensorstore", **own):
    dataset = own.pop("dataset", "")
    levels = own.pop("datasets", ())
    read = by_tensorstore(
        "z", "y", "x", dataset=dataset, levels=levels, **own.pop("see", {})
    )
    traits = frozenset({*traits, "N5"})
    return Row(
        f"N5 {name}", by, write, read, "tensorstore", "d_{}.n5", traits=traits, **own
    )


def packed(name, compression, *traits, **options):
    write = partial(by_compression, compression=compression, **options)
    return n5(name, write, *traits)


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
    n5("z5py", by_z5py, by="z5py", dataset="v", group="v"),
    n5("multiscale", multiscale, dataset="v/s0", datasets=("v/s1",), group="v/s0",
       levels=("v/s1",), see={"steps": STEPS}),
]
# fmt: on
