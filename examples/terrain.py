"""The image that the examples read: a made-up terrain as a Cloud-Optimized GeoTIFF.

Made once, in demo/terrain.tif.
"""

from pathlib import Path

import numpy as np
import rasterio.shutil
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.transform import from_origin

FOLDER = Path("demo")
SIZE = 2048
CELL = 10.0  # metres


def mountains(size: int) -> NDArray[np.uint16]:
    """Return elevations in metres: ridges of a natural spectrum around a lake at level 0."""
    rng = np.random.default_rng(5)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :])
    frequency[0, 0] = np.inf
    field = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((size, size))) / frequency**2.1, s=(size, size))
    field = (field - field.mean()) / field.std()
    return np.clip(field * 700 + 600, 0, None).astype(np.uint16)


def write_cog(path: Path, elevation: NDArray[np.uint16]) -> None:
    """Write a COG of tiles of 256 with overviews, in UTM zone 33 north."""
    profile = {"driver": "GTiff", "height": elevation.shape[0], "width": elevation.shape[1], "count": 1}
    place = {"crs": "EPSG:32633", "transform": from_origin(390_000, 5_220_000, CELL, CELL)}
    with MemoryFile() as memory:
        with memory.open(**profile, dtype="uint16", **place) as plain:
            plain.write(elevation, 1)
            plain.set_band_description(1, "elevation")
        with memory.open() as plain:
            options = {"COMPRESS": "DEFLATE", "PREDICTOR": "YES", "BLOCKSIZE": 256}
            rasterio.shutil.copy(plain, path, driver="COG", **options)


def terrain_cog() -> Path:
    """Return the demo's COG, made where it is missing."""
    path = FOLDER / "terrain.tif"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        write_cog(path, mountains(SIZE))
    return path
