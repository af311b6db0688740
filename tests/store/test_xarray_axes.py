"""The axes of a microscopy series are coordinates in xarray."""

import numpy as np
import pytest
import tifffile
import xarray as xr

import jnrrdz


@pytest.fixture
def series(tmp_path):
    pixels = np.arange(2 * 3 * 20 * 30, dtype=np.uint16).reshape(2, 3, 20, 30)
    metadata = {
        "axes": "CZYX",
        "Channel": {"Name": ["DAPI", "GFP"]},
        "PhysicalSizeX": 0.5,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeZ": 2.0,
        "PhysicalSizeZUnit": "µm",
    }
    tifffile.imwrite(tmp_path / "a.ome.tif", pixels, ome=True, metadata=metadata)
    jnrrdz.index(tmp_path / "a.ome.tif", tmp_path / "refs.json")
    return xr.open_dataset(tmp_path / "refs.json"), pixels


def test_channels_are_found_by_name(series):
    dataset, pixels = series
    assert np.array_equal(dataset["data"].sel(c="GFP").values, pixels[1])


def test_steps_are_in_the_file_s_units(series):
    dataset, pixels = series
    assert dataset["z"].values.tolist() == [0.0, 2.0, 4.0]
    assert dataset["x"].attrs["unit"] == "µm"
    assert np.array_equal(dataset["data"].sel(x=slice(1.0, 2.0)).values, pixels[..., 2:5])
