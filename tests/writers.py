"""Files that other libraries write, for tests that need one and not its details."""

import bz2
import gzip
from pathlib import Path

import imagecodecs
import numpy as np
import rasterio
from rasterio.shutil import copy
from rasterio.transform import from_origin

PLACE = {"crs": "EPSG:32633", "transform": from_origin(500000, 5000000, 10, 10)}
TILES = {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"}

PACK = {
    "raw": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstd": lambda data: bytes(imagecodecs.zstd_encode(data)),
    "lz4": lambda data: bytes(imagecodecs.lz4f_encode(data)),
}
"""Compressions of JNRRD's tiles."""


def geotiff(path, pixels, *, overviews=(), **options):
    """Write pixels (bands first, or one band) with rasterio and return the path."""
    bands = pixels if pixels.ndim == 3 else pixels[None]
    count, height, width = bands.shape
    profile = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": bands.dtype.name}
    with rasterio.open(path, "w", **profile, **options) as file:
        file.write(bands)
        if overviews:
            file.build_overviews(overviews)
    return Path(path)


def cog(path, pixels, place=PLACE, **options):
    """Write pixels as a cloud-optimized GeoTIFF of GDAL's and return the path."""
    plain = geotiff(Path(path).with_name("plain.tif"), pixels, **place)
    copy(plain, path, driver="COG", **{"BLOCKSIZE": 128, "COMPRESS": "DEFLATE", **options})
    plain.unlink()
    return Path(path)


def scene(path, seed, most=200, *, shape=(100, 130), dtype="uint16", **options):
    """Write a georeferenced scene and return its pixels: numbers below `most`, so that sizes differ."""
    pixels = np.random.default_rng(seed).integers(0, most, shape).astype("u2")
    geotiff(path, pixels.astype(dtype), **{**PLACE, **TILES, **options})
    return pixels
