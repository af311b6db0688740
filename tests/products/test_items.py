"""STAC items of archives: alternate locations, and values that items give of bands.

The items are after those of Earth Search (raster 1, `raster:bands`), Planetary Computer
and Copernicus (`bands` of STAC 1.1, `alternate`).
"""

import json

import jnrrdz
import numpy as np
import pytest
import rasterio
import xarray as xr
from jnrrdz.batches.selection import Selection
from jnrrdz.errors import JnrrdzError
from tests.products.writers import TIFF, pixels, write_image

MEDIA_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
STORED = {"mask_and_scale": False}


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "B04.tif"
    write_image(path, pixels("B04", 128), 10, "GTiff", **TIFF)
    return path


def write_item(tmp_path, asset, name="item"):
    item = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": name,
        "properties": {"datetime": "2024-06-01T10:00:00Z"},
        "assets": {"red": {"type": MEDIA_TYPE, "roles": ["data"], **asset}},
        "links": [],
    }
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(item))
    return str(path)


def urls(item, **options):
    return [each.url for each in Selection([item], **options).found(lambda _: None)]


def test_an_alternate_location_is_read(image, tmp_path):
    alternate = {"local": {"href": str(image)}, "s3": {"href": "s3://b/B04.tif"}}
    asset = {"href": "https://login.example/B04.tif", "alternate": alternate}
    item = write_item(tmp_path, asset)
    assert urls(item) == ["https://login.example/B04.tif"]
    assert urls(item, alternate="s3") == ["s3://b/B04.tif"]
    # an asset that has none of this name is read where it is
    assert urls(item, alternate="ftp") == ["https://login.example/B04.tif"]
    out = tmp_path / "cube.json"
    jnrrdz.cube([], out, stac=[item], alternate="local")
    array = xr.open_dataset(out, **STORED).data
    with rasterio.open(image) as file:
        assert np.array_equal(array.to_numpy()[0, 0], file.read(1))


@pytest.mark.parametrize("alternate", ["s3", ["s3"], {"s3": "x"}, {"s3": {"href": 3}}])
def test_wrong_alternates_are_refused(tmp_path, alternate):
    item = write_item(tmp_path, {"href": "a.tif", "alternate": alternate})
    with pytest.raises(JnrrdzError, match="alternate"):
        urls(item, alternate="s3")


@pytest.mark.parametrize("alternate", [None, {}, {"s3": None}, {"s3": {"href": None}}])
def test_empty_alternates_are_none(tmp_path, alternate):
    item = write_item(tmp_path, {"href": "a.tif", "alternate": alternate})
    assert urls(item, alternate="s3") == [f"{tmp_path}/a.tif"]


OFFSET = {"nodata": 0, "data_type": "uint16", "scale": 0.0001, "offset": -0.1}
OF_ARCHIVES = {
    "raster:bands": {"raster:bands": [OFFSET], "eo:bands": [{"name": "red"}]},
    "bands": {
        "nodata": 0,
        "data_type": "uint16",
        "bands": [{"name": "B04", "eo:common_name": "red"}],
        "raster:scale": 0.0001,
        "raster:offset": -0.1,
    },
}


@pytest.mark.parametrize("form", OF_ARCHIVES)
def test_values_of_items_are_those_of_products(image, tmp_path, form):
    item = write_item(tmp_path, {"href": str(image), **OF_ARCHIVES[form]})
    out = f"{tmp_path}/{{id}}-refs.json"
    assert jnrrdz.batch([item], out).ok == 1
    array = xr.open_dataset(tmp_path / "item-refs.json").data
    with rasterio.open(image) as file:
        numbers = file.read(1)
    expected = np.where(numbers == 0, np.nan, (numbers - 1000.0) / 10000)
    assert np.allclose(array, expected, equal_nan=True)
