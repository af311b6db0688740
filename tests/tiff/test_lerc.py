"""LERC in TIFFs of either byte order, as GDAL writes and reads it."""

import numpy as np
import pytest
import rasterio

import jnrrdz
from tests.writers import geotiff

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
LAYOUTS = {
    "tiles": {"tiled": True, "blockxsize": 32, "blockysize": 16},
    "strips": {"blockysize": 16},
    "planes": {"interleave": "band", "blockysize": 16},
}

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def both(path):
    """Return the bands as jnrrdz and as GDAL read them."""
    with rasterio.open(path) as image:
        theirs = image.read()
    return jnrrdz.open_group(path)["data"][...].reshape(theirs.shape), theirs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("scheme", ["lerc", "lerc_deflate", "lerc_zstd"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_in_either_byte_order(tmp_path, dtype, scheme, order, layout):
    pixels = np.arange(3 * 37 * 70).reshape(3, 37, 70) % 101
    pixels = pixels.astype(dtype)
    options = {"compress": scheme, "ENDIANNESS": order, **LAYOUTS[layout]}
    path = geotiff(tmp_path / "a.tif", pixels, **options)
    found, theirs = both(path)
    np.testing.assert_array_equal(found, theirs)
    np.testing.assert_array_equal(found, pixels)


def test_floats_that_a_big_endian_file_loses_are_nan(tmp_path):
    """Their swapped bytes are a NaN, which LERC keeps as a mask and nothing else."""
    pixels = np.full((1, 16, 16), 1.5, "f4")
    pixels[0, 3, 4] = np.array([0x4270807F], "u4").view("f4")[0]
    options = {"compress": "lerc", "ENDIANNESS": "big"}
    found, theirs = both(geotiff(tmp_path / "a.tif", pixels, **options))
    lost = theirs != pixels
    assert lost.sum() == 1
    assert np.isnan(found[lost]).all()
    np.testing.assert_array_equal(found[~lost], pixels[~lost])
