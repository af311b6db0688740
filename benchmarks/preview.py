"""A picture of 512 pixels of a large TIFF against GDAL's: as commands, and in a process that has both loaded.

Run: python benchmarks/preview.py [--size 16384]; gdal_translate has to be on the PATH.  As a command, jnrrdz pays for
Python and zarr before it reads a byte: of a COG with levels that is nearly all of its time.  What both do once they are
loaded is told apart.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import data
import rasterio
import rasterio.shutil
from measure import Case, Sample, measure, table, timed

import jnrrdz

SIDE = 512
TILES = {"driver": "GTiff", "TILED": "YES", "BLOCKXSIZE": data.TILE, "BLOCKYSIZE": data.TILE, "BIGTIFF": "IF_SAFER"}


def without_levels(cog: Path) -> Path:
    """Return the same picture as tiles without overviews."""
    path = cog.with_name(f"flat-{cog.name}")
    if not path.exists():
        partial = path.with_suffix(".partial")
        rasterio.shutil.copy(cog, partial, COMPRESS="DEFLATE", PREDICTOR=2, COPY_SRC_OVERVIEWS="NO", **TILES)
        partial.rename(path)
    return path


def command(*words: str) -> Callable[[], Sample]:
    """Return what runs a command."""
    return lambda: timed(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))


def by_rasterio(path: Path) -> bytes:
    """Return a PNG as GDAL makes it in this process."""
    with rasterio.open(path) as source:
        pixels = source.read(out_shape=(source.count, SIDE, SIDE))
    profile = {"driver": "PNG", "width": SIDE, "height": SIDE, "count": len(pixels), "dtype": pixels.dtype}
    with rasterio.MemoryFile() as memory:
        with memory.open(**profile) as target:
            target.write(pixels)
        return bytes(memory.read())


def case(title: str, path: Path, folder: Path) -> Case:
    """Return the contenders for one file."""
    size = ("-outsize", str(SIDE), str(SIDE))
    translate = ("gdal_translate", "-q", "-of", "PNG", *size, str(path), str(folder / "gdal.png"))
    ours = (sys.executable, "-m", "jnrrdz", "-q", "preview", str(path), "-o", str(folder / "ours.png"), "--overwrite")
    return Case(
        title,
        "gdal_translate",
        {
            "gdal_translate": command(*translate),
            "jnrrdz preview": command(*ours),
            "rasterio, loaded": lambda: timed(by_rasterio, path),
            "jnrrdz.preview, loaded": lambda: timed(lambda: jnrrdz.preview(path, size=SIDE).png),
        },
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare previews with gdal_translate -outsize.")
    parser.add_argument("--size", type=int, default=data.FULL.deflate, help="pixels a side of the picture")
    if shutil.which("gdal_translate") is None:
        raise SystemExit("gdal_translate is not on the PATH (Debian: gdal-bin)")
    cog = data.deflate_cog(parser.parse_args().size)
    files = {"COG with levels": cog, "tiles without levels": without_levels(cog)}
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for title, path in files.items() for row in measure(case(title, path, Path(folder)))]
    print(table(rows))


if __name__ == "__main__":
    main()
