"""Attributes read back by rioxarray, rasterio and pyproj, the independent readers of these conventions."""

import json

import numpy as np
import pyproj
import pytest
import rasterio
import rioxarray  # noqa: F401  # registers the accessor
import xarray as xr
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from rasterio.crs import CRS
from rioxarray._convention import zarr as rioxarray_zarr

from jnrrdz.core.crs import Crs
from jnrrdz.core.georeference import (
    GRID_MAPPING,
    MULTISCALES,
    PROJ,
    SPATIAL,
    Level,
    grid_mapping,
    level_affine,
    multiscales,
    spatial,
)
from tests import writers

# rioxarray multiplies with the operator that affine is about to drop
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

NORTH_UP = (10.0, 0.0, 300000.0, 0.0, -10.0, 4900020.0)
ROTATED = (8.0, 6.0, 300000.0, 6.0, -8.0, 4900020.0)
UTM = Crs(pyproj.CRS("EPSG:32633").to_wkt(), "EPSG:32633")
OWN = Crs(pyproj.CRS("+proj=laea +lat_0=5 +lon_0=7 +type=crs").to_wkt())


def dataset(attributes=None, mapping=None):
    """An image of 4 rows and 6 columns; `grid_mapping` stands where xarray's decoding puts it."""
    data = xr.DataArray(np.zeros((4, 6)), dims=("y", "x"), attrs=attributes or {})
    if mapping is None:
        return data
    data.encoding["grid_mapping"] = GRID_MAPPING
    return data.assign_coords({GRID_MAPPING: xr.DataArray(0, attrs=mapping)})


WKTS = {
    name: Crs(pyproj.CRS(name).to_wkt())
    for name in ("EPSG:32633", "EPSG:4326", "EPSG:4979", "EPSG:7415", "EPSG:2193", "ESRI:54009", "EPSG:4978")
} | {"own": OWN}


@pytest.mark.parametrize("crs", WKTS.values(), ids=WKTS)
def test_rioxarray_reads_the_grid_mapping(crs):
    found = dataset(mapping=grid_mapping(crs, NORTH_UP)).rio
    assert pyproj.CRS(found.crs.to_wkt(version="WKT2_2019")) == pyproj.CRS(crs.wkt)
    assert found.transform() == Affine(*NORTH_UP)


@pytest.mark.parametrize("affine", [NORTH_UP, ROTATED], ids=["north up", "rotated"])
def test_rasterio_reads_the_geotransform(affine):
    numbers = [float(number) for number in grid_mapping(UTM, affine)["GeoTransform"].split()]
    assert Affine.from_gdal(*numbers) == Affine(*affine)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=6, max_size=6))
def test_no_digit_of_a_geotransform_is_lost(affine):
    numbers = [float(number) for number in grid_mapping(None, tuple(affine))["GeoTransform"].split()]
    assert list(Affine.from_gdal(*numbers))[:6] == affine


def test_rioxarray_reads_the_control_points():
    points = ((0.5, 1.0, 10.0, 20.0, 3.0), (4.0, 2.5, 11.0, 21.0, 0.0))
    image = dataset(mapping=grid_mapping(UTM, None, points))
    found = [(point.col, point.row, point.x, point.y, point.z) for point in image.rio.get_gcps()]
    assert found == [tuple(point) for point in points]


def test_cf_names_the_projection():
    attributes = grid_mapping(UTM, NORTH_UP)
    assert attributes["grid_mapping_name"] == "transverse_mercator"
    assert attributes["longitude_of_central_meridian"] == 15
    assert pyproj.CRS.from_cf(attributes) == pyproj.CRS("EPSG:32633")


def test_the_grid_mapping_of_nothing_is_empty():
    assert grid_mapping(None, None) == {}


@pytest.mark.parametrize("crs", [UTM, OWN], ids=["code", "wkt"])
def test_rioxarray_reads_the_zarr_conventions(crs):
    found = dataset(spatial((4, 6), NORTH_UP, crs)).rio
    assert pyproj.CRS(found.crs.to_wkt(version="WKT2_2019")) == pyproj.CRS(crs.wkt)
    assert found.transform() == Affine(*NORTH_UP)
    assert (found.y_dim, found.x_dim) == ("y", "x")


@pytest.mark.parametrize("affine", [NORTH_UP, ROTATED], ids=["north up", "rotated"])
def test_spatial_attributes(affine):
    attributes = spatial((4, 6), affine, UTM)
    corners = [Affine(*affine) @ corner for corner in ((0, 0), (6, 0), (0, 4), (6, 4))]
    xs, ys = zip(*corners, strict=True)
    assert attributes["spatial:bbox"] == [min(xs), min(ys), max(xs), max(ys)]
    assert attributes["spatial:shape"] == [4, 6]
    assert attributes["spatial:transform"] == list(affine)
    assert attributes["proj:code"] == "EPSG:32633"
    assert "proj:wkt2" not in attributes, "the convention wants one of them, not both"


def test_points_lie_where_their_cells_do():
    area, point = (spatial((4, 6), NORTH_UP, UTM, is_point=is_point) for is_point in (False, True))
    assert area.pop("AREA_OR_POINT") == "Area"
    assert point.pop("AREA_OR_POINT") == "Point"
    assert area == point
    assert point["spatial:registration"] == "pixel"


def test_an_image_without_an_affine_or_a_crs():
    assert spatial((4, 6), None, UTM) == {}
    attributes = spatial((4, 6), NORTH_UP, None)
    assert attributes["zarr_conventions"] == [SPATIAL]
    assert not any(name.startswith("proj:") for name in attributes)


def test_conventions_are_declared_as_rioxarray_declares_them():
    for ours, declared in ((PROJ, rioxarray_zarr.PROJ_CONVENTION), (SPATIAL, rioxarray_zarr.SPATIAL_CONVENTION)):
        assert ours == {name: declared[name] for name in ours}


def pyramid(*, affine=NORTH_UP):
    shapes = [(4097, 4000), (2049, 2000), (1025, 1000)]
    affines = [level_affine(affine, shapes[0], shape) if affine else None for shape in shapes]
    return [
        Level("0", shapes[0], affines[0]),
        Level("1", shapes[1], affines[1], (4097 / 2049, 2.0), "0"),
        Level("2", shapes[2], affines[2], (2049 / 1025, 2.0), "1"),
    ]


def test_multiscales():
    attributes = multiscales(pyramid(), UTM)
    assert attributes["zarr_conventions"] == [MULTISCALES, PROJ, SPATIAL]
    layout = attributes["multiscales"]["layout"]
    assert [entry["asset"] for entry in layout] == ["0", "1", "2"]
    assert [entry.get("derived_from") for entry in layout] == [None, "0", "1"]
    assert layout[1]["transform"] == {"scale": [4097 / 2049, 2.0], "translation": [0.0, 0.0]}
    assert layout[2]["spatial:shape"] == [1025, 1000]
    assert layout[2]["spatial:transform"] == pytest.approx([40, 0, 300000, 0, -10 * 4097 / 1025, 4900020])
    assert attributes["spatial:bbox"] == [300000, 4900020 - 40970, 340000, 4900020]
    forbidden = {"spatial:transform", "spatial:shape", "spatial:registration"}
    assert not forbidden & attributes.keys(), "spatial: allows these on the levels only"


def test_multiscales_without_a_place():
    attributes = multiscales(pyramid(affine=None), UTM)
    assert attributes["zarr_conventions"] == [MULTISCALES]
    assert attributes.keys() == {"zarr_conventions", "multiscales"}
    assert all(entry.keys() <= {"asset", "derived_from", "transform"} for entry in attributes["multiscales"]["layout"])


@pytest.mark.parametrize("shape", [(64, 48), (63, 47), (65, 33)])
@pytest.mark.parametrize("affine", [NORTH_UP, ROTATED], ids=["north up", "rotated"])
def test_an_overview_lies_where_gdal_puts_it(tmp_path, shape, affine):
    path = tmp_path / "pyramid.tif"
    writers.geotiff(path, np.zeros(shape, "u1"), overviews=[2, 4], crs=CRS.from_epsg(32633), transform=Affine(*affine))
    for level in (0, 1):
        with rasterio.open(path, overview_level=level) as overview:
            found = level_affine(affine, shape, overview.shape)
            assert found == pytest.approx(tuple(overview.transform)[:6], rel=1e-14)


def test_everything_is_plain_json():
    affine = tuple(np.float64(number) for number in NORTH_UP)
    levels = [Level("0", (np.int64(4), np.int64(6)), affine, (np.float32(1), np.float32(1)))]
    for attributes in (grid_mapping(UTM, affine), spatial(levels[0].shape_yx, affine, UTM), multiscales(levels, UTM)):
        assert json.loads(json.dumps(attributes, allow_nan=False)) == attributes


def test_attributes_may_be_changed_without_harm():
    spatial((4, 6), NORTH_UP, UTM)["zarr_conventions"][0]["name"] = "changed"
    multiscales(pyramid(), UTM)["zarr_conventions"][1]["name"] = "changed"
    assert PROJ["name"] == "proj:"
