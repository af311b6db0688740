"""The xarray engine: found without naming it, images scanned on the fly, kerchunk's files left to kerchunk."""

import json

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from rasterio.transform import from_origin
from xarray.backends.netCDF4_ import NetCDF4BackendEntrypoint
from xarray.backends.plugins import guess_engine

import jnrrdz
from jnrrdz.engine import JnrrdzBackend
from tests import writers

SIZE = 600


@pytest.fixture
def cog(tmp_path):
    y, x = np.mgrid[:SIZE, :SIZE]
    data = (x + 3 * y).astype("uint16")
    place = {"crs": "EPSG:32633", "transform": from_origin(300000, 4900020, 10, 20), "nodata": 7}
    return writers.cog(tmp_path / "cog.tif", data, place, COMPRESS="LZW")


@pytest.fixture(params=["refs.json", "refs.parquet"])
def refs(cog, tmp_path, request):
    jnrrdz.index(cog, tmp_path / request.param)
    return tmp_path / request.param


def level(cog, number):
    with rasterio.open(cog, **({"overview_level": number - 1} if number else {})) as source:
        return source.read(1, masked=True).astype("f4").filled(np.nan), source.transform


def test_a_manifest_needs_no_other_argument(refs, cog):
    expected, transform = level(cog, 0)
    found = xr.open_dataset(str(refs))
    np.testing.assert_array_equal(found["data"], expected)
    assert found["data"].dims == ("y", "x")
    columns, rows = np.arange(SIZE) + 0.5, np.arange(SIZE) + 0.5
    np.testing.assert_allclose(found["x"], transform.c + transform.a * columns, rtol=1e-12)
    np.testing.assert_allclose(found["y"], transform.f + transform.e * rows, rtol=1e-12)


def test_a_path_object_is_enough(refs):
    assert xr.open_dataset(refs)["data"].shape == (SIZE, SIZE)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_level_by_its_group(refs, cog, number):
    expected, transform = level(cog, number)
    found = xr.open_dataset(refs, group=str(number))
    np.testing.assert_array_equal(found["data"], expected)
    np.testing.assert_allclose(float(found["x"][0]), transform.c + transform.a / 2, rtol=1e-12)


def test_the_tree_has_every_level(refs, cog):
    tree = xr.open_datatree(refs)
    assert sorted(tree.children) == ["0", "1", "2", "3"][: len(tree.children)]
    for name, node in tree.children.items():
        np.testing.assert_array_equal(node["data"], level(cog, int(name))[0])
    assert json.loads(tree.attrs["multiscales"])["layout"][0]["asset"] == "0"


def test_an_image_is_scanned_on_the_fly(cog):
    found = xr.open_dataset(cog, engine="jnrrdz")
    np.testing.assert_array_equal(found["data"], level(cog, 0)[0])
    assert len(xr.open_datatree(cog, engine="jnrrdz").children) >= 3


def test_selection_by_coordinates(refs, cog):
    expected, _ = level(cog, 0)
    found = xr.open_dataset(refs)["data"]
    picked = found.sel(x=slice(300000, 300100), y=slice(4900020, 4899900))
    np.testing.assert_array_equal(picked, expected[:6, :10])


def test_an_opened_dataset_names_what_is_missing(refs):
    with pytest.raises(jnrrdz.JnrrdzError, match="no such group"):
        xr.open_dataset(refs, group="7")


def v2_references(path):
    refs = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "data/.zarray": json.dumps(
            {
                "zarr_format": 2,
                "shape": [2],
                "chunks": [2],
                "dtype": "|u1",
                "compressor": None,
                "filters": None,
                "order": "C",
                "fill_value": 0,
            }
        ),
        "data/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
        "data/0": "ab",
    }
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


def test_kerchunks_own_files_stay_kerchunks(tmp_path):
    path = v2_references(tmp_path / "v2.json")
    assert not JnrrdzBackend().guess_can_open(str(path))
    assert guess_engine(str(path)) == "kerchunk"
    with xr.open_dataset(str(path)) as found:
        assert found["data"].values.tolist() == [97, 98]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"{", b'{"version": 1}', b'{"refs": []}', b"\xff\xfe"])
def test_other_json_is_not_claimed(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    assert not JnrrdzBackend().guess_can_open(str(tmp_path / "a.json"))


@pytest.mark.parametrize("what", [None, 5, b"bytes", object(), "/no/such/file.json", "http://127.0.0.1:9/none.nc"])
def test_what_is_no_manifest_is_not_claimed(what):
    assert not JnrrdzBackend().guess_can_open(what)


def test_images_and_netcdf_are_not_claimed(cog):
    assert not JnrrdzBackend().guess_can_open(str(cog))


def test_what_cannot_be_opened_at_all_is_refused():
    with pytest.raises(jnrrdz.UnsupportedError, match="a int where a path"):
        xr.open_dataset(5, engine="jnrrdz")


def test_a_remote_manifest_needs_no_engine_named(http_server, tmp_path, monkeypatch):
    # where netCDF4 is installed, xarray's engine of that name is asked first and takes every URL without "zarr"
    monkeypatch.setattr(NetCDF4BackendEntrypoint, "guess_can_open", lambda *_: False)
    pixels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(32, 32))
    http_server.files["/a.tif"] = (tmp_path / "a.tif").read_bytes()
    jnrrdz.index(f"{http_server.url}/a.tif", tmp_path / "refs.json")
    http_server.files["/refs.json"] = (tmp_path / "refs.json").read_bytes()
    with xr.open_dataset(f"{http_server.url}/refs.json") as found:
        assert np.array_equal(found["data"].values, pixels)
