"""Nodata as GDAL writes it: the array's fill value, xarray's `_FillValue`, NaN where it is masked."""

import warnings

import numpy as np
import pytest
import rasterio
import xarray as xr

import jnrrdz
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

VALUES = [
    ("uint8", 0),
    ("uint8", 255),
    ("int8", -128),
    ("uint16", 65535),
    ("int16", -32768),
    ("uint32", 2**32 - 1),
    ("int32", -(2**31)),
    ("float32", -9999.0),
    ("float32", -3.4028234663852886e38),
    ("float32", 1e20),
    ("float64", -1.7976931348623157e308),
    ("float64", 0.1),
    ("float32", float("nan")),
    ("float64", float("inf")),
]


def write(path, dtype, nodata):
    """Write 20 x 30 pixels, every third of them nodata."""
    data = np.arange(600).reshape(20, 30).astype(dtype)
    if nodata is not None:
        data.ravel()[::3] = nodata
    writers.geotiff(path, data, nodata=nodata, blockysize=7)
    return data


def set_text(path, text):
    """Write the GDAL_NODATA tag as it stands, whatever GDAL thinks of it."""
    import tifffile  # noqa: PLC0415 - used here only

    with tifffile.TiffFile(path, mode="r+b") as tif:
        tif.pages[0].tags["GDAL_NODATA"].overwrite(text)


@pytest.mark.parametrize(("dtype", "nodata"), VALUES)
def test_nodata_is_fill_value_and_masked(tmp_path, dtype, nodata):
    data = write(tmp_path / "a.tif", dtype, nodata)
    array = jnrrdz.open_group(str(tmp_path / "a.tif"))["data"]
    assert array.fill_value.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array.fill_value, np.dtype(dtype).type(nodata))
    np.testing.assert_array_equal(array[...], data)
    found = xr.open_dataset(tmp_path / "a.tif", engine="jnrrdz")["data"]
    with rasterio.open(tmp_path / "a.tif") as source:
        expected = source.read(1, masked=True)
    np.testing.assert_array_equal(np.isnan(found), np.ma.getmaskarray(expected))
    np.testing.assert_array_equal(found.values[~found.isnull()], expected.compressed().astype(found.dtype))


@pytest.mark.parametrize(("dtype", "nodata"), VALUES)
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_nodata_survives_the_manifest(tmp_path, dtype, nodata, form):
    data = write(tmp_path / "a.tif", dtype, nodata)
    jnrrdz.index(tmp_path / "a.tif", tmp_path / f"refs.{form}")
    found = xr.open_dataset(tmp_path / f"refs.{form}", engine="jnrrdz", mask_and_scale=False)["data"]
    np.testing.assert_array_equal(found, data)
    np.testing.assert_array_equal(found.attrs["_FillValue"], np.dtype(dtype).type(nodata))


@pytest.mark.parametrize(
    ("dtype", "text"),
    [("uint8", "-9999"), ("uint8", "256"), ("int16", "1.5"), ("uint8", "nan"), ("uint16", "1e6"), ("int32", "none")],
)
def test_a_number_that_the_type_cannot_hold_is_kept_as_text(tmp_path, dtype, text):
    data = write(tmp_path / "a.tif", dtype, 0)
    set_text(tmp_path / "a.tif", text)
    with pytest.warns(UserWarning, match=f"nodata '{text}' is no value of {dtype}"):
        group = jnrrdz.open_group(str(tmp_path / "a.tif"))
    assert group["data"].attrs["nodata"] == text
    assert "_FillValue" not in group["data"].attrs
    np.testing.assert_array_equal(group["data"][...], data)


@pytest.mark.parametrize(
    ("dtype", "text", "value"),
    [
        ("float32", "-3.40282346638529e+38", np.finfo("f4").min),
        ("float32", "-1.79769e+308", None),
        ("float32", "1.#QNAN", np.nan),
        ("float32", " -9999 ", -9999),
        ("int64", "9223372036854775807", 2**63 - 1),
        ("uint64", "18446744073709551615", 2**64 - 1),
        ("int16", "-3.2768e4", -32768),
        ("uint8", "0.000000", 0),
    ],
)
def test_spellings(tmp_path, dtype, text, value):
    write(tmp_path / "a.tif", dtype, 0)
    set_text(tmp_path / "a.tif", text)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if value is not None else "ignore")
        array = jnrrdz.open_group(str(tmp_path / "a.tif"))["data"]
    np.testing.assert_array_equal(array.fill_value, np.dtype(dtype).type(0 if value is None else value))


def test_a_file_without_nodata_has_none(tmp_path):
    write(tmp_path / "a.tif", "int16", None)
    array = jnrrdz.open_group(str(tmp_path / "a.tif"))["data"]
    assert array.fill_value == 0
    assert "_FillValue" not in array.attrs
    assert xr.open_dataset(tmp_path / "a.tif", engine="jnrrdz")["data"].dtype == "int16"
