"""Products with small images, after the layouts of published ones.

The documents are those of `documents/`; the images are written by GDAL.
"""

import re
import shutil
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import from_origin

DOCUMENTS = Path(__file__).parent / "documents"
SAFE = "S2A_MSIL2A_20221005T115411_N0400_R023_T29UNU_20221005T164454.SAFE"
SAFE_1C = "S2A_MSIL1C_20210908T042701_N0301_R133_T46RER_20210908T070248.SAFE"
LANDSAT_8 = "LC08_L2SP_001070_20190114_20200830_02_T2"
LANDSAT_7 = "LE07_L2SP_021030_20100109_20200911_02_T1"
EXTENT = 1920
"""Metres along each side of the images of Sentinel-2."""

RESOLUTIONS = {
    **dict.fromkeys(("B02", "B03", "B04", "B08", "TCI"), 10),
    **dict.fromkeys(("B05", "B06", "B07", "B8A", "B11", "B12"), 20),
    **dict.fromkeys(("B01", "B09", "B10"), 60),
}
"""Metres of a pixel in products of level 1C."""


def pixels(name, size, seed=0, dtype="uint16"):
    """Return the pixels of an image: other ones for each name and seed."""
    random = np.random.default_rng([seed, *name.encode()])
    most = 12 if name == "SCL" else 4000 if dtype == "uint16" else 200
    shape = (3, size, size) if name == "TCI" else (1, size, size)
    return random.integers(0, most, shape).astype(dtype)


def write_image(  # noqa: PLR0913, PLR0917  where an image is
    path, data, resolution, driver, epsg=32629, west=500000, **options
):
    """Write one georeferenced image with GDAL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = data.shape
    profile = {
        "driver": driver,
        "count": count,
        "height": height,
        "width": width,
        "dtype": data.dtype.name,
        "crs": f"EPSG:{epsg}",
        "transform": from_origin(west, 5900040, resolution, resolution),
    }
    with rasterio.open(path, "w", **profile, **options) as file:
        file.write(data)


LOSSLESS = {"REVERSIBLE": "YES", "QUALITY": "100"}
JP2 = {**LOSSLESS, "tiled": True, "BLOCKXSIZE": 64, "BLOCKYSIZE": 64}


def safe(root, name=SAFE, seed=0, change=lambda text: text):
    """Write a product of Sentinel-2 below a folder and return its path.

    `change` changes the text of the document.
    """
    level = "2A" if "MSIL2A" in name else "1C"
    text = change((DOCUMENTS / f"MTD_MSIL{level}.xml").read_text())
    folder = Path(root) / name
    for path in re.findall(r"<IMAGE_FILE>(.+)</IMAGE_FILE>", text):
        band, *suffix = Path(path).name.split("_")[2:]
        metres = int(suffix[0].removesuffix("m")) if suffix else RESOLUTIONS[band]
        dtype = "uint8" if band in {"SCL", "TCI"} else "uint16"
        data = pixels(band, EXTENT // metres, seed, dtype)
        write_image(folder / f"{path}.jp2", data, metres, "JP2OpenJPEG", **JP2)
    (folder / f"MTD_MSIL{level}.xml").write_text(text)
    (granule,) = (folder / "GRANULE").iterdir()
    (granule / "MTD_TL.xml").write_text(tile_metadata())
    return folder


TILE = """<?xml version="1.0" encoding="UTF-8"?>
<n1:Level-2A_Tile_ID xmlns:n1="https://psd-14.sentinel2.eo.esa.int/PSD/Tile.xsd">
  <n1:General_Info/>
  <n1:Geometric_Info>
    <Tile_Geocoding metadataLevel="Brief">
      <HORIZONTAL_CS_NAME>WGS84 / UTM zone 29N</HORIZONTAL_CS_NAME>
      <HORIZONTAL_CS_CODE>EPSG:32629</HORIZONTAL_CS_CODE>
{sizes}    </Tile_Geocoding>
  </n1:Geometric_Info>
</n1:Level-2A_Tile_ID>
"""
SIZE = """      <Size resolution="{metres}">
        <NROWS>{size}</NROWS>
        <NCOLS>{size}</NCOLS>
      </Size>
      <Geoposition resolution="{metres}">
        <ULX>500000</ULX>
        <ULY>5900040</ULY>
        <XDIM>{metres}</XDIM>
        <YDIM>-{metres}</YDIM>
      </Geoposition>
"""


def tile_metadata():
    """Return the document of a granule, from which GDAL takes place and size."""
    sizes = [SIZE.format(metres=each, size=EXTENT // each) for each in (10, 20, 60)]
    return TILE.format(sizes="".join(sizes))


def image_of(folder, band, metres=None):
    """Return the path of an image of a product of Sentinel-2."""
    suffix = "" if metres is None else f"_{metres}m"
    (path,) = Path(folder).rglob(f"*_{band}{suffix}.jp2")
    return path


LANDSAT_SIZE = 100
WEST = 499995
"""Landsat's grids begin half a pixel from a multiple of 30 m."""

TIFF = {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"}
SIGNED = ("TRAD", "URAD", "DRAD", "ATRAN", "EMIS", "EMSD", "CDIST", "ST_QA", "OPACITY")
BYTES = ("SR_QA_AEROSOL", "SR_CLOUD_QA")


def landsat(root, name=LANDSAT_8, seed=0, change=lambda text: text):
    """Write a product of Landsat below a folder and return its path."""
    (source,) = DOCUMENTS.glob(f"{name}_MTL.*")
    text = change(source.read_text())
    folder = Path(root) / name
    for path in re.findall(r"[\w]+\.TIF", text):
        band = path.removesuffix(".TIF").removeprefix(f"{name}_")
        dtype = "uint16"
        if band.endswith(SIGNED):
            dtype = "int16"
        elif band in BYTES:
            dtype = "uint8"
        data = pixels(band, LANDSAT_SIZE, seed, dtype)
        nodata = 1 if band == "QA_PIXEL" else None
        target = folder / path
        place = {"epsg": 32619, "west": WEST}
        write_image(target, data, 30, "GTiff", nodata=nodata, **place, **TIFF)
    (folder / source.name).write_text(text)
    return folder


def moved(folder, root):
    """Copy a product below another folder and return its path."""
    return Path(shutil.copytree(folder, Path(root) / Path(folder).name))
