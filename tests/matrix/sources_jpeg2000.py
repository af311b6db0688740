"""Rows of JPEG 2000."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import imagecodecs
import jnrrdz
import numpy as np
from jnrrdz.formats.jpeg2000 import windows
from rasterio.io import MemoryFile
from rasterio.shutil import copy
from tests.jpeg2000.test_windows import boxed
from tests.matrix.readers import by_gdal, by_gdal_and_openjpeg, by_numbers, by_openjpeg
from tests.matrix.row import Row
from tests.matrix.sources_tiff import SIZE, noise
from tests.writers import PLACE

GOLDEN = Path(__file__).parents[1] / "jpeg2000" / "golden"
LOSSLESS = {"REVERSIBLE": "YES", "QUALITY": "100", "RESOLUTIONS": "2"}


def by_gdal_jp2(path, seed, *, bands=1, dtype="u1", grain=1, **options):
    """Write a georeferenced JP2 by GDAL; each pixel is `grain` rows and columns."""
    pixels = np.kron(noise(seed, (bands, *SIZE), dtype), np.ones((grain, grain), dtype))
    height, width = pixels.shape[1:]
    profile = {"driver": "GTiff", "count": bands, "height": height, "width": width}
    with MemoryFile() as memory:
        with memory.open(**profile, dtype=pixels.dtype.name, **PLACE) as target:
            target.write(pixels)
        with memory.open() as source:
            copy(source, path, driver="JP2OpenJPEG", **{**LOSSLESS, **options})


def golden(name):
    """Return a function that copies a codestream that opj_compress made."""

    def write(path, _seed):
        path.write_bytes((GOLDEN / f"{name}.j2k").read_bytes())

    return write


def encoded(path, seed, **options):
    pixels = noise(seed, SIZE, "u1")
    options = {"level": 0, "reversible": True, "codecformat": "j2k", **options}
    path.write_bytes(imagecodecs.jpeg2k_encode(pixels, **options))


def high_throughput(path, seed):
    pixels = noise(seed, SIZE, "u1")
    path.write_bytes(imagecodecs.htj2k_encode(pixels, reversible=True))


COLOURS = np.random.default_rng(1).integers(0, 256, (256, 3), np.uint8)


def with_palette(path, seed):
    pixels = noise(seed, SIZE, "u1")
    stream = imagecodecs.jpeg2k_encode(
        pixels, level=0, reversible=True, codecformat="j2k"
    )
    path.write_bytes(boxed(stream, COLOURS, SIZE))


def repeated(_path):
    """Return the components that golden/make.sh encodes, the coarse ones repeated."""
    y, x = np.mgrid[:48, :64]
    bright = np.where((x // 5 + y // 7) % 3, 31, 0)
    planes = [x * (3 + c) + y * 5 + x * y * (c + 1) // 7 + bright for c in range(3)]
    chroma = [np.kron(plane[:24, :32], np.ones((2, 2), "i8")) for plane in planes[1:]]
    return (np.stack([planes[0], *chroma]) % 256).astype("u1")


def by_gdal_and_stream(path):
    """Return the view of GDAL, with levels of the codestream behind the palette."""
    data = path.read_bytes()
    stream = data[data.index(b"\xff\x4f\xff\x51") :]
    levels = (imagecodecs.jpeg2k_decode(stream, skipres=level) for level in (1, 2))
    return replace(by_gdal(path), levels=tuple(levels))


def in_small_windows(source, out, **options):
    """Index a file with its tile cut into windows of 64 instead of 1,024 samples."""
    with patch.object(windows, "SIDE", 64):
        jnrrdz.index(source, out, precinct_windows="always", **options)


def jp2(name, levels=1, make=jnrrdz.index, **options):
    """Return the row of a JP2 that GDAL writes and reads."""
    traits = {"place", "our codec"} | ({"bands"} if "bands" in options else set())
    groups = {"group": "0", "levels": tuple(str(n + 1) for n in range(levels))}
    groups["make"] = make
    write = partial(by_gdal_jp2, **options)
    read = by_gdal_and_openjpeg(levels)
    return row(
        name, "GDAL", write, read, "GDAL, OpenJPEG", "d_{}.jp2", traits, **groups
    )


def j2k(name, by, write, levels=0, traits=(), **own):
    """Return the row of a codestream that OpenJPEG reads."""
    groups = {"group": "0", "levels": tuple(str(n + 1) for n in range(levels))}
    dims, origin = own.pop("dims", ("y", "x")), own.pop("origin", (0, 0))
    read = by_openjpeg(*dims, levels=levels, origin=origin)
    traits = {"our codec", *traits}
    own = {**(groups if levels else {}), **own}
    return row(name, by, write, read, "OpenJPEG", "d_{}.j2k", traits, **own)


def row(  # noqa: PLR0913, PLR0917  a table's columns
    name, by, write, read, reader, file, traits, **own
):
    traits = frozenset(traits)
    return Row(f"JPEG 2000 {name}", by, write, read, reader, file, traits=traits, **own)


SIDES = {"PRECINCTS": "{32,32},{32,32}", "BLOCKXSIZE": 512, "BLOCKYSIZE": 512}
PRECINCTS = {**SIDES, "PROGRESSION": "RPCL", "PLT": "YES"}
BANDS = ("band", "y", "x")
OPJ = "opj_compress"
# fmt: off
JPEG2000 = [
    jp2("one tile"),
    jp2("tiles", BLOCKXSIZE=32, BLOCKYSIZE=32, dtype="u2"),
    jp2("three components", bands=3),
    jp2("signed", dtype="i2"),
    jp2("windows in one tile", make=in_small_windows, grain=4, **PRECINCTS),
    j2k("lossy", OPJ, golden("lossy"), levels=3, is_same=True),
    j2k("tile-parts by resolution", OPJ, golden("by_resolution"), levels=3,
        is_same=True),
    j2k("offset", OPJ, golden("offset"), levels=3, dims=BANDS, traits={"bands"},
        is_same=True, origin=(12, 17)),
    row("sizes that differ", OPJ, golden("subsampled"), by_numbers(repeated, *BANDS),
        "numpy", "d_{}.j2k", {"our codec", "bands", "several images"}, is_same=True,
        group="composite/0"),
    j2k("high throughput", "OpenJPH", high_throughput, levels=5),
    j2k("imagecodecs", "imagecodecs", encoded, levels=2),
    row("palette", "imagecodecs", with_palette, by_gdal_and_stream,
        "GDAL, OpenJPEG", "d_{}.jp2", {"our codec"}, group="0", levels=("1", "2")),
]
# fmt: on
