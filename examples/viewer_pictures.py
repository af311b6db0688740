"""The pictures of the viewer in docs/howto/viewer.md: makes up data, serves it, and takes screenshots.

    python examples/viewer_pictures.py [FOLDER]

Needs Chromium and the packages of the extra `dev`.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import rasterio
import tensorstore
import tifffile
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rasterio.enums import ColorInterp
from terrain import terrain_cog

import jnrrdz
from demo import shaded_relief

FLAGS = ["--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PICTURES = Path(__file__).parent.parent / "docs" / "howto" / "images"
COLOURS = 256
"""Colours of a picture that is written: a third of the bytes, and nobody sees it."""


def blobs(shape: tuple[int, ...], count: int, seed: int) -> NDArray[np.float64]:
    """Return a volume of soft spots."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"))
    total = np.zeros(shape)
    for _ in range(count):
        centre = rng.uniform(0.1, 0.9, 3) * shape
        radius = rng.uniform(0.04, 0.1) * shape[-1] * np.array([shape[0] / shape[1], 1, 1])
        away = sum(((places[axis] - centre[axis]) / radius[axis]) ** 2 for axis in range(3))
        total = np.maximum(total, np.exp(-away) * rng.uniform(0.4, 1))
    return total


def make_data(folder: Path) -> None:
    """Write a relief, its heights, a stack of two channels and an N5 volume."""
    heights = shutil.copy(terrain_cog(), folder / "heights.tif")
    with rasterio.open(heights) as file:
        relief = shaded_relief(file.read(1))
        profile = {"crs": file.crs, "transform": file.transform, "tiled": True, "compress": "deflate"}
    rows, columns, bands = relief.shape
    sizes = {"driver": "COG", "height": rows, "width": columns, "count": bands, "dtype": "uint8"}
    with rasterio.open(folder / "relief.tif", "w", **sizes, crs=profile["crs"], transform=profile["transform"]) as file:
        file.colorinterp = [ColorInterp.red, ColorInterp.green, ColorInterp.blue]
        file.write(relief.transpose(2, 0, 1))
    channels = [blobs((16, 256, 320), 40, seed) for seed in (1, 2)]
    stack = (np.stack(channels, axis=1) * 4000).astype("u2")
    microns = {f"PhysicalSize{axis}": size for axis, size in [("X", 0.2), ("Y", 0.2), ("Z", 1.0)]}
    colours = [0x00FF00FF, 0xFF00FFFF - 2**32]  # RGBA, signed
    told = {"axes": "ZCYX", "Channel": {"Name": ["GFP", "mCherry"], "Color": colours}}
    tifffile.imwrite(folder / "cells.ome.tif", stack, ome=True, metadata=told | microns)
    volume = (blobs((96, 160, 160), 60, 3) * 220 + 20).astype("u1")
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{folder}/tissue.n5/raw"}}
    sides = {"dimensions": list(volume.shape[::-1]), "blockSize": [64, 64, 32], "dataType": "uint8"}
    units = {"compression": {"type": "gzip"}, "resolution": [8, 8, 16], "units": ["nm", "nm", "nm"]}
    tensorstore.open(spec | {"metadata": sides | units}, create=True).result()[...] = volume.transpose(2, 1, 0)


def take(page: Page, address: str, path: Path) -> None:
    """Write a picture of a page, once it is complete."""
    page.goto("about:blank")
    page.goto(address)
    page.locator("body[data-state=ready]").wait_for()
    if "view=sections" in address or not address.partition("#")[2]:
        page.wait_for_timeout(5000)  # neuroglancer, and pictures of a list, do not say when they are complete
    if "elsewhere" in path.name:
        page.get_by_role("button", name="Read elsewhere").click()
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}  ({path.stat().st_size / 1e3:.0f} KB)")


def main() -> None:
    """Make the data, serve it, take the pictures."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    out.mkdir(parents=True, exist_ok=True)
    addresses = {
        "list": "",
        "picture": "#/relief.tif",
        "heights": "#/heights.tif?ramp=terrain",
        "stack": "#/cells.ome.tif?z=8&stretch=0.1-99.9",
        "volume": "#/tissue.n5?view=sections",
        "elsewhere": "#/relief.tif",
    }
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        make_data(Path(name))
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 680})
        with jnrrdz.serve(name) as server:
            for title, address in addresses.items():
                take(page, f"{server.url}{address}", out / f"viewer-{title}.png")
        browser.close()


if __name__ == "__main__":
    main()
