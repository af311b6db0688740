"""Make the files beside this one: small TIFFs by GDAL, tifffile and Pillow, and the pixels put into them.

Run by hand only; a test that misses a file fails.  The pixels of a lossy file are those that GDAL reads.
"""

import warnings
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from PIL import Image
from rasterio.enums import Resampling
from rasterio.transform import from_origin

HERE = Path(__file__).parent
Y, X = np.mgrid[:37, :53]
GREY = ((X * 3 + Y * 5) % 251).astype("u1")
WORDS = (X * 301 + Y * 77).astype("u2")
FLOATS = (X * 1.25 - Y * 0.5).astype("f4")
COLOURS = np.stack([GREY, 255 - GREY, GREY // 2])


def gdal(name, pixels, **options):
    bands = np.atleast_3d(pixels.T).T
    profile = {"driver": "GTiff", "count": len(bands), "height": 37, "width": 53, "dtype": pixels.dtype.name}
    levels = options.pop("levels", [])
    with rasterio.open(HERE / f"{name}.tif", "w", **profile, **options) as target:
        target.write(bands)
        target.build_overviews(levels, Resampling.nearest)
    with rasterio.open(HERE / f"{name}.tif") as source:
        np.save(HERE / f"{name}.npy", source.read().squeeze())


def own(name, pixels, **options):
    tifffile.imwrite(HERE / f"{name}.tif", pixels, metadata=None, **options)
    np.save(HERE / f"{name}.npy", pixels)


def pillow(name, pixels, **options):
    Image.fromarray(pixels).save(HERE / f"{name}.tif", **options)
    np.save(HERE / f"{name}.npy", np.moveaxis(pixels, -1, 0) if pixels.ndim > 2 else pixels.astype("u1"))


def main() -> None:
    """Write every file."""
    warnings.simplefilter("ignore")
    tiles = {"tiled": True, "blockxsize": 32, "blockysize": 16}
    place = {"crs": "EPSG:32633", "transform": from_origin(300000, 4900020, 10, 20), "nodata": 3}
    gdal("gdal_deflate_place", WORDS, compress="deflate", predictor=2, levels=[2], **tiles, **place)
    gdal("gdal_lzw_big", WORDS, compress="lzw", predictor=2, endianness="BIG", bigtiff="YES", blockysize=8)
    gdal("gdal_zstd_floats", FLOATS, compress="zstd", predictor=3, **tiles)
    gdal("gdal_ycbcr", COLOURS, compress="jpeg", photometric="ycbcr", interleave="pixel", **tiles)
    gdal("gdal_planar_packbits", COLOURS, compress="packbits", interleave="band", blockysize=5)
    gdal("gdal_bits", (GREY & 1), compress="none", nbits=1)
    own("tifffile_raw_big", WORDS, byteorder=">", rowsperstrip=8)
    own("tifffile_zlib", FLOATS, compression="zlib", predictor=True, tile=(16, 32), bigtiff=True)
    pillow("pillow_lzw", np.ascontiguousarray(np.moveaxis(COLOURS, 0, -1)), compression="tiff_lzw")
    pillow("pillow_packbits", GREY, compression="packbits")
    pillow("pillow_fax", GREY > 125, compression="group4")


if __name__ == "__main__":
    main()
