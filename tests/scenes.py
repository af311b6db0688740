"""A small georeferenced GeoTIFF as rasterio writes it, for tests that need one and not its details."""

import numpy as np
import rasterio
from rasterio.transform import from_origin

PROFILE = {
    "driver": "GTiff",
    "height": 100,
    "width": 130,
    "count": 1,
    "dtype": "uint16",
    "crs": "EPSG:32633",
    "transform": from_origin(500000, 5000000, 10, 10),
    "tiled": True,
    "blockxsize": 64,
    "blockysize": 64,
    "compress": "deflate",
}


def scene(path, seed, most=200, **profile):
    """Write a scene and return its pixels: numbers below `most`, which tells files of other sizes apart."""
    options = PROFILE | profile
    shape = (options["height"], options["width"])
    pixels = np.random.default_rng(seed).integers(0, most, shape).astype("u2")
    with rasterio.open(path, "w", **options) as file:
        file.write(pixels.astype(options["dtype"]), 1)
    return pixels
