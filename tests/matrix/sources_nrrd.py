"""Rows of NRRD and JNRRD."""

from functools import partial

import nrrd
import numpy as np
import SimpleITK
from tests.matrix.readers import by_itk, by_jnrrd, by_pynrrd
from tests.matrix.row import Row
from tests.matrix.sources_tiff import RGB, noise
from tests.nrrd.tiled_files import core, keys, lines, stored, tiles_of, write

SHAPE = (6, 24, 32)


def by_pynrrd_of(path, seed, *, shape=SHAPE, dtype="<i2", **header):
    header = {"encoding": "raw", **header}
    nrrd.write(str(path), noise(seed, shape, dtype), header, index_order="C")


SPACE = {"space": "left-posterior-superior", "kinds": ["domain"] * 3}
AXES = {
    "space directions": np.diag([0.5, 0.75, 2.0]),
    "space origin": np.array([-10.0, 20.0, 30.5]),
}
VECTORS = {
    "kinds": ["vector", "domain", "domain", "domain"],
    "space": "left-posterior-superior",
    "space directions": np.array([[np.nan] * 3, *AXES["space directions"]]),
    "space origin": AXES["space origin"],
}


def by_itk_of(path, seed, *, compressed=False, oblique=False):
    image = SimpleITK.GetImageFromArray(noise(seed, SHAPE, "i2"))
    image.SetSpacing((0.5, 0.75, 2.0))
    image.SetOrigin((-10.0, 20.0, 30.5))
    if oblique:
        image.SetDirection((0.8, -0.6, 0, 0.6, 0.8, 0, 0, 0, 1))
    SimpleITK.WriteImage(image, str(path), useCompression=compressed)


TILE = (16, 12, 3)


def tiled(path, seed, *, endian="little", compression="raw", **fields):
    """Write tiles by numpy alone."""
    pixels = noise(seed, SHAPE, "u2")
    own = {
        "format": "chunked",
        "edge_handling": "pad",
        "compression": compression,
        **fields,
    }
    blobs = [stored(part, endian, compression) for _, part in tiles_of(pixels, TILE)]
    write(path, core(pixels, endian) | keys(TILE, **own), blobs)


def levels(path, seed):
    finest = noise(seed, SHAPE, "u2")
    both = [finest, finest[::2, ::2, ::2]]
    blobs = [stored(part) for each in both for _, part in tiles_of(each, TILE)]
    fields = {"levels": 2, "level_scales": [1, 2]}
    write(path, core(finest) | keys(TILE, **fields), blobs)


def external(path, seed):
    pixels = noise(seed, SHAPE, "u2")
    folder = path.with_suffix("")
    folder.mkdir()
    for (x, y, z), part in tiles_of(pixels, TILE):
        (folder / f"{z}_{y}_{x}").write_bytes(stored(part, compression="zstd"))
    pattern = f"{folder.name}/{{z}}_{{y}}_{{x}}"
    own = {"storage": "external", "pattern": pattern, "compression": "zstd"}
    path.write_bytes(lines(core(pixels, labels=["x", "y", "z"]) | keys(TILE, **own)))


def virtual(path, seed):
    """Write the finest level, and list one to be computed."""
    pixels = noise(seed, SHAPE, "u2")
    fields = {"levels": 2, "level_scales": [1, 2], "levels_virtual": [1]}
    blobs = [stored(part) for _, part in tiles_of(pixels, TILE)]
    write(path, core(pixels) | keys(TILE, **fields, downsample_method="max"), blobs)


def maxima(pixels):
    """Return the next level by the largest of eight."""
    sides = [side // 2 for side in pixels.shape]
    blocks = pixels.reshape(sides[0], 2, sides[1], 2, sides[2], 2)
    return blocks.max((1, 3, 5))


def volume(  # noqa: PLR0913, PLR0917  a table's columns
    name, by, write, read, reader, file="d_{}.nrrd", traits=(), **own
):
    traits = frozenset(traits)
    return Row(name, by, write, read, reader, file, traits=traits, **own)


def pynrrd(name, read=None, **options):
    own = {key: options.pop(key) for key in ("file", "traits") if key in options}
    write = partial(by_pynrrd_of, **options)
    read = read or by_pynrrd("z", "y", "x")
    return volume(f"NRRD {name}", "pynrrd", write, read, "pynrrd", **own)


def jnrrd(name, write, **own):
    see = own.pop("see", {})
    read = by_jnrrd("z", "y", "x", **see)
    file = "d_{}.jnrrd"
    return volume(f"JNRRD {name}", "numpy", write, read, "numpy", file, **own)


STEPS = {"z": (30.5, 2.0), "y": (20.0, 0.75), "x": (-10.0, 0.5)}
PLACED = by_itk("z", "y", "x", steps=STEPS)
OBLIQUE = by_itk("z", "y", "x", steps={"z": (30.5, 2.0)})
# fmt: off
NRRD = [
    pynrrd("raw"),
    pynrrd("big-endian", dtype=">f4"),
    pynrrd("gzip", encoding="gzip"),
    pynrrd("bzip2", encoding="bzip2"),
    pynrrd("detached", file="d_{}.nhdr"),
    pynrrd("vectors", by_pynrrd("z", "y", "x", "c", steps=STEPS, colours=RGB),
           shape=(4, 12, 16, 3), dtype="f4", **VECTORS),
    volume("NRRD of ITK", "ITK", by_itk_of, PLACED, "ITK"),
    volume("NRRD of ITK, gzip", "ITK", partial(by_itk_of, compressed=True), PLACED,
           "ITK"),
    volume("NRRD oblique", "ITK", partial(by_itk_of, oblique=True), OBLIQUE, "ITK"),
]
JNRRD = [
    jnrrd("tiles", tiled),
    jnrrd("tiles in zstd", partial(tiled, compression="zstd", endian="big")),
    jnrrd("tiles in lz4", partial(tiled, compression="lz4"), traits={"our codec"}),
    jnrrd("levels", levels, group="0", levels=("1",),
          see={"level": lambda pixels: pixels[::2, ::2, ::2]}),
    jnrrd("external tiles", external),
    jnrrd("virtual levels", virtual, group="0", levels=("1",), see={"level": maxima},
          traits={"virtual levels"}),
]
# fmt: on
