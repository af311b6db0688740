"""Rows of products: a document and the images that it names."""

import re
from dataclasses import replace

import rasterio
from tests.matrix.readers import by_gdal
from tests.matrix.row import Row
from tests.matrix.view import View
from tests.products import writers

SCALE = (2.75e-05,)
OFFSET = (-0.2,)
"""Of surface reflectance, by the USGS product guide."""


def red_alone(text):
    """Leave one image in a document of Sentinel-2."""
    lines = text.splitlines(keepends=True)
    return "".join(
        line for line in lines if "<IMAGE_FILE>" not in line or "_B04_10m<" in line
    )


def safe(path, seed):
    """Write a product of Sentinel-2 with one image."""
    made = writers.safe(path.parent, seed=seed, change=red_alone)
    made.rename(path)


def by_gdal_safe(path):
    """Return the view of GDAL's driver for SAFE."""
    name = f"SENTINEL2_L2A:{path}/MTD_MSIL2A.xml:10m:EPSG_32629"
    with rasterio.open(name) as source:
        (number,) = (
            index for index in source.indexes if source.tags(index)["BANDNAME"] == "B4"
        )
        facts = source.tags()
        factor = float(facts["BOA_QUANTIFICATION_VALUE"])
        return View(
            source.read(number),
            ("y", "x"),
            tuple(source.transform)[:6],
            source.crs.to_epsg(),
            nodata=float(facts["SPECIAL_VALUE_NODATA"]),
            scales=(1 / factor,),
            offsets=(float(source.tags(number)["BOA_ADD_OFFSET"]) / factor,),
        )


def landsat(path, seed):
    """Write a product of Landsat with one image."""
    made = writers.landsat(
        path.parent,
        seed=seed,
        change=lambda text: re.sub(r'"FILE_NAME_(?!BAND_4")\w+": "[^"]+", ', "", text),
    )
    made.rename(path)


def by_gdal_landsat(path):
    (image,) = path.glob("*_SR_B4.TIF")
    return replace(by_gdal(image), nodata=0.0, scales=SCALE, offsets=OFFSET)


TRAITS = frozenset({"place"})
# fmt: off
PRODUCTS = [
    Row("Sentinel-2 product", "GDAL", safe, by_gdal_safe, "GDAL", "{}.SAFE",
        variable="B04", group="10m", bands=("B04",),
        traits=TRAITS | {"our codec"}),
    Row("Landsat product", "GDAL", landsat, by_gdal_landsat, "GDAL", "product_{}",
        variable="SR_B4", group="30m", bands=("SR_B4",), traits=TRAITS),
]
# fmt: on
