"""Files of GDAL, tifffile and Pillow as they were written once, and the pixels that were put into them."""

from pathlib import Path

import numpy as np
import pytest

import jnrrdz

GOLDEN = Path(__file__).parent / "golden"
NAMES = [
    "gdal_bits",
    "gdal_deflate_place",
    "gdal_lzw_big",
    "gdal_planar_packbits",
    "gdal_ycbcr",
    "gdal_zstd_floats",
    "pillow_fax",
    "pillow_lzw",
    "pillow_packbits",
    "tifffile_raw_big",
    "tifffile_zlib",
]


def test_every_file_is_tested():
    assert sorted(path.stem for path in GOLDEN.glob("*.tif")) == NAMES
    assert all(path.stat().st_size < 10_000 for path in GOLDEN.glob("*.tif"))


@pytest.mark.parametrize("name", NAMES)
def test_its_pixels(name):
    expected = np.load(GOLDEN / f"{name}.npy")
    found = jnrrdz.open_dataset(GOLDEN / f"{name}.tif", mask_and_scale=False)["data"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_a_place():
    found = jnrrdz.open_dataset(GOLDEN / "gdal_deflate_place.tif")
    assert (float(found["x"][0]), float(found["y"][-1])) == (300005, 4900020 - 20 * 36.5)
    assert 'ID["EPSG",32633]' in found["spatial_ref"].attrs["crs_wkt"]
    assert found["data"].encoding["_FillValue"] == 3
    finest, half = (jnrrdz.open_group(GOLDEN / "gdal_deflate_place.tif")[f"{level}/data"] for level in "01")
    assert (finest.shape, half.shape) == ((37, 53), (19, 27))
