"""rioxarray and odc-geo on our datasets, however they are opened: sensor models, control points, warped pixels.

rioxarray's own `open_rasterio` on the same file says what is expected.
"""

import json
import os
from pathlib import Path

import fsspec
import numpy as np
import odc.geo.xr
import pytest
import rasterio
import rasterio.shutil
import rioxarray
import xarray as xr
import zarr
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.rpc import RPC
from rasterio.transform import Affine

import jnrrdz
from tests import writers

SHAPE = (60, 80)


def rpc():
    """Return a model that maps degrees to pixels, nearly straight."""
    constant, east, north = ([float(place == at) for place in range(20)] for at in range(3))
    return RPC(
        height_off=100.0,
        height_scale=500.0,
        lat_off=47.0,
        lat_scale=0.05,
        line_den_coeff=constant,
        line_num_coeff=[0.01, *[-value for value in north[1:]]],
        line_off=30.0,
        line_scale=30.0,
        long_off=8.0,
        long_scale=0.05,
        samp_den_coeff=constant,
        samp_num_coeff=east,
        samp_off=40.0,
        samp_scale=40.0,
    )


def corners():
    """Return the control points of an image's corners."""
    return [
        GroundControlPoint(row, column, 8.0 + column / 800, 47.0 - row / 1200, 10.0)
        for row in (0, 60)
        for column in (0, 80)
    ]


pytestmark = [
    pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning"),  # affine, used by rioxarray
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]

PLACES = {
    "sensor model": ("GTiff", {"rpcs": rpc()}),
    "sensor model of a NITF": ("NITF", {"rpcs": rpc()}),
    "control points": ("GTiff", {"gcps": corners(), "crs": CRS.from_epsg(4326)}),
    "control points in metres": ("GTiff", {"gcps": corners(), "crs": CRS.from_epsg(32632)}),
    "affine": ("GTiff", {"transform": Affine(0.001, 0, 8, 0, -0.001, 47), "crs": CRS.from_epsg(4326)}),
    "affine and model": (
        "GTiff",
        {"rpcs": rpc(), "transform": Affine(0.001, 0, 8, 0, -0.001, 47), "crs": CRS.from_epsg(4326)},
    ),
}


def manifest(path):
    jnrrdz.index(path, path.with_suffix(".json"))
    return path.with_suffix(".json")


def only(tree):
    """Return the only image of a tree."""
    (dataset,) = [node.to_dataset() for node in tree.subtree if "data" in node.data_vars]
    return dataset


OPENERS = {
    "engine": lambda path: xr.open_dataset(path, engine="jnrrdz"),
    "manifest": lambda path: xr.open_dataset(manifest(path)),
    "tree": lambda path: only(xr.open_datatree(path, engine="jnrrdz")),
    "stock xarray": lambda path: only(
        xr.open_datatree(jnrrdz.open_store(manifest(path)), engine="zarr", consolidated=False)
    ),
    "all coordinates": lambda path: xr.open_dataset(path, engine="jnrrdz", decode_coords="all"),
}


@pytest.fixture(params=PLACES)
def scene(request, tmp_path):
    """Return a path of an image whose place is given in one way."""
    driver, place = PLACES[request.param]
    path = tmp_path / "scene.tif"
    pixels = np.random.default_rng(0).integers(1, 60000, SHAPE).astype("u2")
    writers.geotiff(path, pixels, **place)
    if driver == "GTiff":
        return path
    rasterio.shutil.copy(path, tmp_path / "a.ntf", driver=driver, RPC00B="YES")
    (tmp_path / "a.ntf.aux.xml").unlink(missing_ok=True)
    return tmp_path / "a.ntf"


@pytest.mark.parametrize("opener", OPENERS)
def test_place_is_what_open_rasterio_says(scene, opener):
    theirs = rioxarray.open_rasterio(scene).squeeze("band")
    opened = OPENERS[opener](scene)
    ours = opened["data"]
    assert list(opened.data_vars) == ["data"]
    assert ours.rio.get_rpcs() == theirs.rio.get_rpcs()
    points = [[point.asdict() for point in image.rio.get_gcps() or []] for image in (ours, theirs)]
    assert [strip(point) for point in points[0]] == [strip(point) for point in points[1]]
    assert ours.rio.crs == theirs.rio.crs
    np.testing.assert_array_equal(ours, theirs)


def strip(point):
    """Return a control point without what only names it."""
    return {name: value for name, value in point.items() if name not in {"id", "info"}}


@pytest.mark.parametrize("opener", OPENERS)
def test_warped_pixels_are_those_of_open_rasterio(scene, opener):
    theirs = rioxarray.open_rasterio(scene).squeeze("band").rio.reproject("EPSG:3857")
    ours = OPENERS[opener](scene)["data"].rio.reproject("EPSG:3857")
    np.testing.assert_allclose(ours.rio.transform(), theirs.rio.transform(), rtol=1e-9)
    np.testing.assert_array_equal(ours, theirs)


OF_CORPUS = [
    *("data_byte.tif", "data_byte_gcp.tif", "data_byte_rpc.tif", "data_md_dg.tif", "data_n43.tif"),
    *("data_test_rpc_with_gt_bug_2460.tif", "data_unstable_rpc_with_dem_blank_output.tif", "data_utmsmall_Q1.tif"),
    *("nitf_valid_udid.ntf", "nitf_rset.ntf.r0", "jpeg2000_byte.jp2"),
]
"""Of GDAL's own test files: affines, control points, sensor models, both, NITF's corners, GeoJP2.

Left out is data_byte_gcp_pixelispoint.tif, for which GDAL invents a CRS that the file does not have.
"""


KINDS = ("tiff", "nitf", "jpeg2000")


def of_corpus():
    """Return the files of the corpus that JNRRDZ_CORPUS names (its folder of TIFFs), nothing where it names none."""
    folder = os.environ.get("JNRRDZ_CORPUS")
    found = [Path(folder).parent / kind / "gdal" / name for kind in KINDS for name in OF_CORPUS] if folder else []
    return [path for path in found if path.exists()]


@pytest.mark.filterwarnings("ignore:Transform that is non-rectilinear")
@pytest.mark.parametrize("path", of_corpus(), ids=lambda path: path.name)
def test_files_of_the_corpus_are_warped_as_by_open_rasterio(path):
    theirs, ours = rioxarray.open_rasterio(path), xr.open_dataset(path, engine="jnrrdz")["data"]
    theirs = theirs if "band" in ours.dims else theirs.squeeze("band")
    models = [image.rio.get_rpcs() for image in (ours, theirs)]
    # GDAL gives 15 digits of a TIFF's
    numbers = [
        [] if model is None else [number for line in model.to_gdal().values() for number in line.split()]
        for model in models
    ]
    np.testing.assert_allclose(*(np.array(each, float) for each in numbers), rtol=1e-14)
    assert len(ours.rio.get_gcps() or []) == len(theirs.rio.get_gcps() or [])
    warped, expected = ours.rio.reproject("EPSG:3857"), theirs.rio.reproject("EPSG:3857")
    np.testing.assert_allclose(warped.rio.transform(), expected.rio.transform(), rtol=1e-9)
    # nodata is NaN here, where xarray masks it
    kept = np.where(expected == expected.rio.nodata, np.nan, expected) if warped.dtype.kind == "f" else expected
    np.testing.assert_array_equal(warped, kept)


SYSTEMS = {
    "metres": ("EPSG:32633", Affine(10, 0, 300000, 0, -10, 5000000)),
    "degrees": ("EPSG:4326", Affine(0.001, 0, 8, 0, -0.001, 47)),
    "degrees and heights": ("EPSG:4979", Affine(0.001, 0, 8, 0, -0.001, 47)),
    "feet": ("EPSG:2222", Affine(10, 0, 700000, 0, -10, 400000)),
    "survey feet and heights": ("EPSG:2263+6360", Affine(10, 0, 900000, 0, -10, 100000)),
    "northing first": ("EPSG:3035", Affine(10, 0, 4300000, 0, -10, 3200000)),
}


def said(axis):
    """Return what is said of an axis, the digits of a unit's size that all writers have."""
    size, _, unit = axis.attrs["units"].rpartition(" ")
    return axis.attrs["axis"], axis.attrs["standard_name"], unit, round(float(size or 1), 14)


@pytest.mark.parametrize("system", SYSTEMS)
def test_axes_and_their_units_are_those_that_rioxarray_and_odc_geo_see(tmp_path, system):
    code, affine = SYSTEMS[system]
    path = tmp_path / "a.tif"
    place = {"crs": CRS.from_string(code), "transform": affine, "GEOTIFF_VERSION": "1.1"}
    writers.geotiff(path, np.ones((60, 80), "u1"), **place)
    theirs = rioxarray.open_rasterio(path).squeeze("band")
    theirs = theirs.rio.write_coordinate_system()
    ours = xr.open_dataset(manifest(path))["data"]
    for axis in "xy":
        assert said(ours[axis]) == said(theirs[axis])
        np.testing.assert_allclose(ours[axis], theirs[axis], rtol=1e-15)
    assert ours.odc.geobox == theirs.odc.geobox
    assert ours.odc.geobox == odc.geo.geobox.GeoBox((60, 80), affine, theirs.rio.crs)


def test_control_points_are_those_that_odc_geo_sees(tmp_path):
    path = writers.geotiff(tmp_path / "a.tif", np.ones((60, 80), "u1"), crs=CRS.from_epsg(4326), gcps=corners())
    ours, theirs = (each["data"].odc for each in (xr.open_dataset(manifest(path)), stacked(path)))
    assert ours.crs == theirs.crs
    assert ours.geobox.shape == theirs.geobox.shape
    assert ours.geobox.approx == theirs.geobox.approx


def stacked(path):
    """Return rioxarray's dataset of a file."""
    return rioxarray.open_rasterio(path).squeeze("band").to_dataset(name="data")


NAMED = CRS.from_epsg(32633)
UNNAMED = CRS.from_proj4("+proj=laea +lat_0=46 +lon_0=15 +ellps=GRS80 +units=m +no_defs")


@pytest.mark.filterwarnings("ignore:Object at .zarray:UserWarning")  # fsspec's way of reading Parquet
@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine")
@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("crs", [NAMED, UNNAMED], ids=["with a code", "without"])
def test_each_level_has_its_crs_for_stock_fsspec_and_zarr(tmp_path, crs, form):
    pixels = (np.add.outer(np.arange(1024) * 20, np.arange(1024) * 11) % 60000).astype("u2")
    path = writers.cog(tmp_path / "a.tif", pixels, {"crs": crs, "transform": Affine(10, 0, 3e5, 0, -10, 5e6)})
    jnrrdz.index(path, tmp_path / f"refs.{form}")
    for group, step in (("0", 10), ("1", 20)):
        files = fsspec.filesystem("reference", fo=str(tmp_path / f"refs.{form}"), asynchronous=True)
        store = zarr.storage.FsspecStore(files, read_only=True)
        level = xr.open_dataset(store, engine="zarr", group=group)
        assert level.rio.crs == crs
        assert level["data"].rio.crs == crs
        assert CRS.from_wkt(level["data"].odc.crs.wkt) == crs
        assert level["data"].rio.transform().a == step


def test_a_manifest_says_a_wkt_once_a_grid_mapping_and_consolidates_at_the_root(tmp_path):
    pixels = np.zeros((1024, 1024), "u2")
    path = writers.cog(tmp_path / "a.tif", pixels, {"crs": UNNAMED, "transform": Affine(10, 0, 3e5, 0, -10, 5e6)})
    refs = json.loads(manifest(path).read_text())["refs"]
    documents = {key: text for key, text in refs.items() if key.endswith("zarr.json")}
    levels = [key for key in documents if key.endswith("spatial_ref/zarr.json")]
    assert len(levels) > 1
    assert all(documents[key].count("PROJCRS[") == 1 for key in levels)
    assert documents["zarr.json"].count("PROJCRS[") == 1 + len(levels)  # `proj:wkt2`, and a copy of each level's
    others = {key: text for key, text in documents.items() if key not in {"zarr.json", *levels}}
    assert not any("PROJCRS[" in text or "consolidated_metadata" in text for text in others.values())
