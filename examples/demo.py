"""From a GeoTIFF to an xarray dataset and a picture, in one go: what `make demo` runs.

Writes demo/terrain.tif (a Cloud-Optimized GeoTIFF with overviews, made up here), demo/terrain.json
(the manifest) and demo/terrain.png (a shaded relief drawn from what xarray read).
"""

from pathlib import Path

import imagecodecs
import numpy as np
import rasterio
import rasterio.shutil
import xarray as xr
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.transform import from_origin

import jnrrdz

FOLDER = Path("demo")
SIZE = 2048
CELL = 10.0  # metres
SUN = np.array([-0.5, -0.5, 0.70710678])  # from the north-west, 45 degrees up; x east, y south, z up
COLOURS = {0: (38, 84, 124), 1: (86, 140, 87), 700: (196, 190, 128), 1400: (150, 112, 84), 2200: (250, 250, 250)}


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


def terrain() -> Path:
    """Return the demo's COG, made where it is missing."""
    path = FOLDER / "terrain.tif"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        write_cog(path, mountains(SIZE))
    return path


def shaded_relief(elevation: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return RGB: colours by height, lit by the sun."""
    down, east = np.gradient(elevation, CELL)
    normal = np.stack([-east, -down, np.ones_like(east)], axis=-1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    light = np.clip(normal @ SUN, 0, 1) * 0.8 + 0.35
    heights = list(COLOURS)
    colours = [np.interp(elevation, heights, [COLOURS[height][band] for height in heights]) for band in range(3)]
    return np.clip(np.stack(colours, axis=-1) * light[..., None], 0, 255).astype(np.uint8)


def main() -> None:
    """Make the file, index it, open it, draw it."""
    image, manifest, picture = terrain(), FOLDER / "terrain.json", FOLDER / "terrain.png"
    print(f"Image     {image}  ({image.stat().st_size / 1e6:.1f} MB)")

    jnrrdz.index(str(image), str(manifest), overwrite=True)
    print(f"Manifest  {manifest}  ({manifest.stat().st_size / 1e3:.0f} KB); no pixel was copied\n")

    dataset = xr.open_dataset(manifest)
    print(dataset, end="\n\n")

    pixels = dataset["data"].to_numpy()
    with rasterio.open(image) as source:
        if not np.array_equal(pixels, source.read(1)):
            raise SystemExit("The pixels differ from those that rasterio reads.")
    print("Every pixel equals what rasterio reads from the TIFF.")

    picture.write_bytes(imagecodecs.png_encode(shaded_relief(pixels.astype(np.float32))))
    print(f"Picture   {picture}")


if __name__ == "__main__":
    main()
