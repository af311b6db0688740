"""JPEG 2000 images that GDAL writes for tests: what is in them, and every option of the coding."""

import numpy as np
import rasterio
from affine import Affine
from rasterio.io import MemoryFile
from rasterio.shutil import copy

SIDES = "{64,32},{64,64},{32,64},{32,32}"
LOSSLESS = {"REVERSIBLE": "YES", "QUALITY": "100"}


def image(shape, dtype):
    y, x = np.mgrid[: shape[1], : shape[2]]
    noise = np.random.default_rng(7).normal(0, 12, shape)
    waves = np.clip(128 + 60 * np.sin(x / 17) + 50 * np.cos(y / 23) + noise, 0, 255)
    waves[:, ::7, ::5] = 0  # sharp, so that the wavelet overshoots and samples are clipped
    limits = np.iinfo(dtype)
    return (limits.min + waves / 255 * (limits.max - limits.min)).astype(dtype)


def encoded(folder, pixels, **options):
    path, (count, height, width) = folder / "image.j2k", pixels.shape
    profile = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": str(pixels.dtype)}
    options = {
        "BLOCKXSIZE": width,
        "BLOCKYSIZE": height,
        "PRECINCTS": SIDES,
        "RESOLUTIONS": "4",
        "CODEC": "J2K",
        **options,
    }
    with rasterio.Env(), MemoryFile() as memory:
        with memory.open(**profile, transform=Affine.scale(2)) as target:
            target.write(pixels)
        with memory.open() as source:
            copy(source, path, driver="JP2OpenJPEG", **options)
    return path.read_bytes()
