"""The axes of a microscopy series are coordinates in xarray."""

import json
from dataclasses import replace

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr

import jnrrdz
from tests import writers


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
    assert dataset["x"].attrs["unit"] == dataset["x"].attrs["units"] == "µm"
    assert np.array_equal(dataset["data"].sel(x=slice(1.0, 2.0)).values, pixels[..., 2:5])


def placed(tmp_path, said):
    """Return a manifest whose affine is what is said, and its pixels."""
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
    pixels = np.arange(20 * 30, dtype="u2").reshape(20, 30)
    group = jnrrdz.scan(writers.geotiff(tmp_path / "a.tif", pixels, **place))
    mapping = group.children["spatial_ref"]
    group.children["spatial_ref"] = replace(mapping, attributes={**mapping.attributes, "GeoTransform": said})
    jnrrdz.write(group, tmp_path / "refs.json")
    return tmp_path / "refs.json", pixels


@pytest.mark.parametrize(
    "said",
    ["abc", "1 2 3 4 5 abc", None, ["1"], "1 2", "nan 1 0 0 0 -1", "1e999 1 0 0 0 -1", 7],
)
def test_manifest_whose_affine_is_not_six_finite_numbers_is_refused(tmp_path, said):
    path, _ = placed(tmp_path, said)
    with pytest.raises(jnrrdz.MalformedError, match="GeoTransform"):
        xr.open_dataset(path)


def test_coordinates_of_n5_have_the_units_of_cf(tmp_path):
    folder = tmp_path / "a.n5" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "a.n5" / "attributes.json").write_text('{"n5": "4.0.0"}')
    sizes = {"dimensions": [4, 3, 2], "blockSize": [4, 3, 2], "dataType": "uint8", "compression": {"type": "raw"}}
    places = {"axes": ["x", "y", "t"], "resolution": [2.0, 3.0, 0.5], "units": ["nm", "nm", "s"]}
    (folder / "attributes.json").write_text(json.dumps(sizes | places))
    dataset = jnrrdz.open_dataset(tmp_path / "a.n5")
    assert [dataset[axis].attrs.get("units") for axis in "xy"] == ["nm", "nm"]
    assert dataset["x"].values.tolist() == [0, 2, 4, 6]
    # a step is no moment: xarray would decode "s" as a time
    assert dataset["t"].attrs == {"unit": "s"}
