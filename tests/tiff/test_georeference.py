"""Control points and sensor models as attributes, against rasterio and rioxarray."""

import json
import warnings

import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401  registers .rio
import tifffile
import xarray as xr
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC
from rasterio.transform import Affine

import jnrrdz
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

POINTS = [(0.0, 0.0, 10.0, 50.0, 1.5), (63.5, 0.25, 11.0, 50.5, 0.0), (0.0, 64.0, 10.0, 49.0, -2.0)]
RPCS = RPC(
    height_off=100.0,
    height_scale=50.0,
    lat_off=50.5,
    lat_scale=0.5,
    long_off=10.5,
    long_scale=0.5,
    line_off=31.5,
    line_scale=32.0,
    samp_off=30.25,
    samp_scale=31.0,
    line_num_coeff=[0.001 * n for n in range(20)],
    line_den_coeff=[1.0] + [0.002 * n for n in range(19)],
    samp_num_coeff=[0.003 * n for n in range(20)],
    samp_den_coeff=[1.0] + [0.004 * n for n in range(19)],
    err_bias=0.5,
    err_rand=0.25,
)


@pytest.fixture
def pyramid(tmp_path):
    """Return a file with a sensor model, control points and an overview."""
    path = tmp_path / "a.tif"
    points = [GroundControlPoint(row, column, x, y, z) for column, row, x, y, z in POINTS]
    with writers.gdal_file(path, np.zeros((64, 64), "u1"), tiled=True) as target:
        target.rpcs = RPCS
        target.gcps = (points, rasterio.CRS.from_epsg(4326))
        target.build_overviews([2])
    return path


def test_sensor_model(pyramid):
    group = jnrrdz.scan(str(pyramid))
    with rasterio.open(pyramid) as source:
        theirs = source.rpcs.to_dict()
    mine = group.children["0"].attributes["rpc"]
    # GDAL keeps 15 digits on its way from the tag to rasterio
    assert {name.lower(): pytest.approx(value, rel=1e-14) for name, value in mine.items()} == theirs


def test_rioxarray_finds_the_sensor_model(pyramid):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = xr.open_dataset(pyramid, engine="jnrrdz")["data"].rio.get_rpcs()
    with rasterio.open(pyramid) as source:
        theirs = source.rpcs.to_dict()
    assert {name: pytest.approx(value, rel=1e-14) for name, value in found.to_dict().items()} == theirs


def test_an_overviews_model_is_rasterios(pyramid):
    half = jnrrdz.scan(str(pyramid)).children["1"].attributes["rpc"]
    with rasterio.open(pyramid, overview_level=0) as source:
        theirs = source.rpcs.to_dict()
    for name, value in half.items():
        assert value == pytest.approx(theirs[name.lower()], rel=1e-12), name


def features(group):
    found = json.loads(group.children["spatial_ref"].attributes["gcps"])["features"]
    return [(f["properties"]["col"], f["properties"]["row"], *f["geometry"]["coordinates"]) for f in found]


@pytest.mark.parametrize("level", [0, 1])
def test_control_points_of_every_level(pyramid, level):
    group = jnrrdz.scan(str(pyramid)).children[str(level)]
    with rasterio.open(pyramid, **({"overview_level": 0} if level else {})) as source:
        theirs = [(point.col, point.row, point.x, point.y, point.z) for point in source.gcps[0]]
    assert features(group) == theirs


@pytest.mark.parametrize("point", ["Point", "Area"])
def test_area_or_point(tmp_path, point):
    path = tmp_path / "a.tif"
    place = {"crs": "EPSG:4326", "transform": Affine(1, 0, 5, 0, -1, 6)}
    with writers.gdal_file(path, np.zeros((8, 8), "u1"), **place) as target:
        target.update_tags(AREA_OR_POINT=point)
    assert jnrrdz.scan(str(path)).attributes["AREA_OR_POINT"] == point


def test_what_no_key_says_is_not_said(tmp_path):
    path = tmp_path / "a.tif"
    extra = [(33550, 12, 3, (1.0, 1.0, 0.0), True), (33922, 12, 6, (0.0, 0.0, 0.0, 5.0, 6.0, 0.0), True)]
    tifffile.imwrite(path, np.zeros((8, 8), "u1"), extratags=extra, metadata=None)
    with rasterio.open(path) as source:
        assert "AREA_OR_POINT" not in source.tags()
    group = jnrrdz.scan(str(path))
    assert "AREA_OR_POINT" not in group.attributes
    assert group.attributes["spatial:transform"] == [1.0, 0.0, 5.0, 0.0, -1.0, 6.0]


def test_a_wrong_sensor_model_never_costs_the_pixels(tmp_path):
    path, data = tmp_path / "a.tif", np.arange(64, dtype="u1").reshape(8, 8)
    tifffile.imwrite(path, data, extratags=[(50844, 12, 3, (1.0, 2.0, 3.0), True)])
    with pytest.warns(UserWarning, match="RPCCoefficientTag"):
        group = jnrrdz.scan(str(path))
    assert "RPCCoefficientTag" in group.attributes["georeference_refused"]
    np.testing.assert_array_equal(xr.open_dataset(group, engine="jnrrdz")["data"], data)


@pytest.mark.parametrize(("crs", "unit"), [("EPSG:32631+5773", "metre"), ("EPSG:32631", "")])
def test_heights_have_the_unit_of_their_crs(tmp_path, crs, unit):
    path = tmp_path / "a.tif"
    place = {"crs": crs, "transform": Affine(1, 0, 5, 0, -1, 6), "GEOTIFF_VERSION": "1.1"}
    writers.geotiff(path, np.zeros((8, 8), "f4"), **place)
    with rasterio.open(path) as source:
        assert (source.units[0] or "") == unit
    assert jnrrdz.scan(str(path)).children["data"].attributes.get("units", "") == unit
