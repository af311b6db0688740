"""From a GeoTIFF to an xarray dataset and a picture, in one go: what `make demo` runs.

Writes demo/terrain.tif (a Cloud-Optimized GeoTIFF with overviews, made up here), demo/terrain.json
(the manifest) and demo/terrain.png (a shaded relief drawn from what xarray read).
"""

import imagecodecs
import numpy as np
import rasterio
import xarray as xr
from numpy.typing import NDArray
from terrain import CELL, FOLDER, terrain_cog

import jnrrdz

SUN = np.array([-0.5, -0.5, 0.70710678])  # from the north-west, 45 degrees up; x east, y south, z up
COLOURS = {0: (38, 84, 124), 1: (86, 140, 87), 700: (196, 190, 128), 1400: (150, 112, 84), 2200: (250, 250, 250)}


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
    image, manifest, picture = terrain_cog(), FOLDER / "terrain.json", FOLDER / "terrain.png"
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
