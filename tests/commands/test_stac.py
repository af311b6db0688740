"""STAC items: valid, where GDAL says that an image lies, with bands and times as in the file."""

import json

import numpy as np
import pytest
import rasterio
import rasterio.warp
import shapely
import xarray as xr
from click.testing import CliRunner
from rasterio.control import GroundControlPoint
from rasterio.transform import Affine, RPCTransformer

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.core.footprint import Bounds, footprint
from jnrrdz.core.georeference import Place, StatedCrs
from jnrrdz.errors import MalformedError, UnrepresentableError
from tests import writers
from tests.stac_reader import validated

UTM = Affine(10, 0, 600000, 0, -10, 5200000)
TAKEN = {"TIFFTAG_DATETIME": "2024:06:01 10:30:00"}


def write(path, *, shape=(1, 64, 96), dtype="uint16", tags=TAKEN, **options):
    pixels = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with writers.gdal_file(path, pixels, **{"crs": "EPSG:32633", "transform": UTM} | options) as file:
        file.update_tags(**tags)
    return path


def unplaced(path):
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        return write(path, crs=None, transform=None)


def shown(path, **rules):
    item = jnrrdz.stac_item(path, **rules)
    validated(item)
    return item


def test_an_item_says_what_the_file_says(tmp_path):
    path = write(tmp_path / "scene.tif", shape=(2, 64, 96), nodata=7)
    with rasterio.open(path, "r+") as file:
        file.descriptions, file.units, file.scales, file.offsets = ("B02", "B04"), ("K", "K"), (0.1, 0.1), (0, 5)
        file.update_tags(2, STATISTICS_MINIMUM=3, STATISTICS_MAXIMUM=9, STATISTICS_MEAN=4.5, STATISTICS_STDDEV=1)
        file.colorinterp = [rasterio.enums.ColorInterp.blue, rasterio.enums.ColorInterp.red]
    jnrrdz.index(path, tmp_path / "scene.json")
    item = shown(path, manifest=tmp_path / "scene.json")
    assert item["id"] == "scene"
    properties, image = item["properties"], item["assets"]["image"]
    with rasterio.open(path) as file:
        assert properties["proj:code"] == file.crs.to_string()
        assert properties["proj:transform"] == list(file.transform)[:6]
        assert properties["proj:shape"] == list(file.shape)
        assert properties["proj:bbox"] == list(file.bounds)
    assert properties["datetime"] == "2024-06-01T10:30:00Z"
    assert properties["gsd"] == image["raster:spatial_resolution"] == 10
    assert image["href"] == str(path)
    assert image["type"] == "image/tiff; application=geotiff"
    assert image["file:size"] == path.stat().st_size
    assert (image["data_type"], image["nodata"], image["unit"], image["raster:scale"]) == ("uint16", 7, "K", 0.1)
    assert [band["name"] for band in image["bands"]] == ["B02", "B04"]
    assert [band["eo:common_name"] for band in image["bands"]] == ["blue", "red"]
    assert [band["raster:offset"] for band in image["bands"]] == [0, 5]
    assert image["bands"][1]["statistics"] == {"minimum": 3, "maximum": 9, "mean": 4.5, "stddev": 1}
    references = item["assets"]["references"]
    assert references["href"] == str(tmp_path / "scene.json")
    opened = xr.open_dataset(references["href"], **references["xarray:open_kwargs"], mask_and_scale=False)
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(opened["data"], file.read())
    assert shown(tmp_path / "scene.json") == item


def outline(path, steps=400):
    """Return the edges of an image as GDAL takes them to degrees, point by point."""
    with rasterio.open(path) as file:
        along = np.linspace(0, 1, steps)
        column = np.concatenate([0 * along, along, 0 * along + 1, along[::-1]]) * file.width
        row = np.concatenate([along, 0 * along + 1, along[::-1], 0 * along]) * file.height
        xs, ys = file.transform @ (column, row)
        return np.column_stack(rasterio.warp.transform(file.crs, "OGC:CRS84", xs, ys))


PLACES = {
    "utm": ({}, 0.00005),
    "a large tile of utm": ({"transform": Affine(1150, 0, 600000, 0, -1700, 5200000)}, 0.011),
    "rotated": ({"transform": Affine(8, 3, 600000, 2, -9, 5200000)}, 0.00005),
    "sheared degrees": ({"crs": "EPSG:4326", "transform": Affine(0.01, 0.002, 10, 0.003, -0.01, 50)}, 0.0001),
    "another datum": ({"crs": "EPSG:31468", "transform": Affine(10, 0, 4468000, 0, -10, 5333000)}, 0.00005),
    "south up": ({"transform": Affine(10, 0, 600000, 0, 10, 5200000)}, 0.00005),
    "near the pole": ({"crs": "EPSG:3413", "transform": Affine(9000, 0, 400000, 0, -9000, -500000)}, 0.06),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_footprint_is_that_of_gdal_s_edges(tmp_path, name):
    options, tolerance = PLACES[name]
    item = shown(write(tmp_path / "a.tif", **options))
    polygon = shapely.geometry.shape(item["geometry"])
    assert polygon.is_valid
    assert polygon.exterior.is_ccw
    edges = shapely.Polygon(outline(tmp_path / "a.tif"))
    assert polygon.hausdorff_distance(edges) < tolerance
    np.testing.assert_allclose(item["bbox"], polygon.bounds, atol=1e-7)
    np.testing.assert_allclose(item["bbox"], edges.bounds, atol=tolerance)


def test_across_the_antimeridian_it_is_cut_there(tmp_path):
    item = shown(write(tmp_path / "a.tif", crs="EPSG:32601", transform=Affine(5000, 0, 150000, 0, -5000, 7000000)))
    assert item["geometry"]["type"] == "MultiPolygon"
    parts = shapely.geometry.shape(item["geometry"])
    assert parts.is_valid
    assert [part.exterior.is_ccw for part in parts.geoms] == [True, True]
    assert (parts.bounds[0], parts.bounds[2]) == (-180, 180)
    edges = outline(tmp_path / "a.tif")
    edges[:, 0] %= 360
    whole = shapely.Polygon(edges)
    shifted = [shapely.affinity.translate(part, 360 if part.bounds[0] < 0 else 0) for part in parts.geoms]
    assert shapely.union_all(shifted).symmetric_difference(whole).area < whole.area / 50  # half a pixel of 5 km
    west, south, east, north = item["bbox"]
    assert west > 0 > east
    np.testing.assert_allclose([west, south, east + 360, north], whole.bounds, atol=0.05)


@pytest.mark.parametrize(("code", "pole"), [("EPSG:3031", -90), ("EPSG:3413", 90)])
def test_over_a_pole_it_reaches_up_to_it(tmp_path, code, pole):
    place = Affine(60000, 0, -2880000, 0, -60000, 1920000)
    item = shown(write(tmp_path / "a.tif", crs=code, transform=place))
    polygon = shapely.geometry.shape(item["geometry"])
    assert polygon.is_valid
    assert item["bbox"][::2] == [-180, 180]
    assert pole in item["bbox"]
    inside = rasterio.warp.transform(code, "OGC:CRS84", [100000.0, -2700000.0, 2700000.0], [50000.0, 0.0, -1800000.0])
    outside = rasterio.warp.transform(code, "OGC:CRS84", [-3000000.0, 100000.0], [0.0, 2100000.0])
    assert all(polygon.contains(shapely.Point(point)) for point in zip(*inside, strict=True))
    assert not any(polygon.contains(shapely.Point(point)) for point in zip(*outside, strict=True))


def test_degrees_beyond_180_are_said_within_them(tmp_path):
    item = shown(write(tmp_path / "a.tif", crs="EPSG:4326", transform=Affine(0.1, 0, 200, 0, -0.1, 50)))
    np.testing.assert_allclose(item["bbox"], [-160, 43.6, -150.4, 50])
    assert item["properties"]["proj:centroid"] == {"lat": 46.8, "lon": -155.2}
    assert item["properties"]["proj:bbox"][0] == 200


def test_corners_in_one_point_are_no_ground():
    crs = StatedCrs("EPSG:4326")
    assert footprint(Place((64, 96), crs, affine=(0, 0, 10, 0, 0, 50))) is None
    points = [{"column": c, "row": r, "x": 10, "y": 50} for c in (0, 96) for r in (0, 64)]
    assert footprint(Place((64, 96), crs, control_points=points)) is None


@pytest.mark.parametrize("left", [-180, 0, -180.125])
def test_the_whole_world_is_one_polygon(tmp_path, left):
    item = shown(
        write(tmp_path / "a.tif", crs="EPSG:4326", shape=(1, 180, 360), transform=Affine(1, 0, left, 0, -1, 90))
    )
    assert item["bbox"] == [-180, -90, 180, 90]
    assert shapely.geometry.shape(item["geometry"]).equals(shapely.box(-180, -90, 180, 90))


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_control_points_say_where_an_image_lies(tmp_path):
    turned = Affine.rotation(20) @ Affine.scale(0.001, -0.002)
    points = [
        GroundControlPoint(row, column, *(Affine.translation(10, 50) @ turned @ (column, row)), 0)
        for row in (0.5, 63.5)
        for column in (0.5, 95.5)
    ]
    path = unplaced(tmp_path / "a.tif")
    with rasterio.open(path, "r+") as file:
        file.gcps = (points, rasterio.CRS.from_epsg(4326))
    corners = [Affine.translation(10, 50) @ turned @ corner for corner in ((0, 0), (0, 64), (96, 64), (96, 0))]
    polygon = shapely.geometry.shape(shown(path)["geometry"])
    assert polygon.hausdorff_distance(shapely.Polygon(corners)) < 1e-6


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_sensor_model_says_where_an_image_lies(tmp_path):
    number = {"ERR_BIAS": -1, "ERR_RAND": -1, "LINE_OFF": 32, "LINE_SCALE": 32, "SAMP_OFF": 48, "SAMP_SCALE": 48}
    number |= {"LAT_OFF": 50, "LAT_SCALE": 0.05, "LONG_OFF": 10, "LONG_SCALE": 0.08, "HEIGHT_OFF": 300}
    number["HEIGHT_SCALE"] = 500
    line = [0, 0.1, -1, 0.02, 0.01, 0, 0, 0.003, -0.002, 0, 0, 0.0004, 0.001, 0, 0.0007, 0.0003, 0, 0, 0, 0]
    sample = [0.01, 1, 0.08, 0.03, -0.02, 0, 0, 0.004, 0.001, 0, 0, 0.0002, -0.001, 0, 0.0006, 0.0001, 0, 0, 0, 0]
    even = [1, 0.001, 0.002, *[0] * 17]
    lists = {"LINE_NUM": line, "LINE_DEN": even, "SAMP_NUM": sample, "SAMP_DEN": even}
    rpc = number | {f"{name}_COEFF": " ".join(map(str, values)) for name, values in lists.items()}
    path = unplaced(tmp_path / "a.tif")
    with rasterio.open(path, "r+") as file:
        file.update_tags(ns="RPC", **{name: str(value) for name, value in rpc.items()})
    with rasterio.open(path) as file, RPCTransformer(file.rpcs) as model:
        columns, rows = (0, 0, 96, 96), (0, 64, 64, 0)
        expected = np.column_stack(model.xy(rows, columns, zs=[300] * 4, offset="ul"))
    polygon = shapely.geometry.shape(shown(path)["geometry"])
    assert shapely.Polygon(expected).area > 0.01
    for corner in expected:
        assert polygon.exterior.distance(shapely.Point(corner)) < 0.0005


def test_an_image_that_says_no_place_has_no_geometry(tmp_path):
    item = shown(unplaced(tmp_path / "a.tif"))
    assert item["geometry"] is None
    assert "bbox" not in item
    assert not [name for name in item["properties"] if name.startswith("proj:")]
    assert item["assets"]["image"]["type"] == "image/tiff"


def test_bounds_of_many_go_the_shorter_way_round():
    bounds = Bounds()
    for bbox in ([170, -5, -175, 5], [-179, 0, -170, 9]):
        bounds.add(bbox)
    assert bounds.bbox() == [170, -5, -170, 9]
    plain = Bounds()
    for bbox in ([-10, 40, 5, 50], [16, 30, 17, 31]):
        plain.add(bbox)
    assert plain.bbox() == [-10, 30, 17, 50]


def test_several_images_of_a_file_are_one_ground(tmp_path):
    path = write(tmp_path / "a.tif")
    other = {"transform": Affine(10, 0, 620000, 0, -10, 5200000), "APPEND_SUBDATASET": "YES"}
    write(path, **other)
    item = shown(path)
    assert item["geometry"]["type"] == "MultiPolygon"
    places = [
        footprint(Place((64, 96), StatedCrs("EPSG:32633"), affine=tuple(one)[:6])) for one in (UTM, other["transform"])
    ]
    assert item["geometry"]["coordinates"] == [place.geometry["coordinates"] for place in places]
    assert item["bbox"][0] == places[0].bbox[0]
    assert item["bbox"][2] == places[1].bbox[2]
    assert "proj:transform" not in item["properties"]
    assert "bands" not in item["assets"]["image"]


TIMES = {
    "a time": ({"datetime": "2023-01-02T03:04:05Z"}, ("2023-01-02T03:04:05Z", None, None)),
    "a zone": ({"datetime": "2023-01-02T03:04:05+02:00"}, ("2023-01-02T01:04:05Z", None, None)),
    "a day": ({"datetime": "2023-01-02"}, ("2023-01-02T00:00:00Z", "2023-01-02T00:00:00Z", "2023-01-02T23:59:59Z")),
    "a span": (
        {"datetime": "2023-01-01/2023-01-31"},
        (None, "2023-01-01T00:00:00Z", "2023-01-31T23:59:59Z"),
    ),
    "the name": ({"time_from": r"_(\d{8}T\d{6})"}, ("2022-05-06T07:08:09Z", None, None)),
    "the metadata": ({"time_from": "metadata"}, ("2024-06-01T10:30:00Z", None, None)),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_time_is_told_by_a_rule(tmp_path, name):
    rules, (when, start, end) = TIMES[name]
    properties = shown(write(tmp_path / "a_20220506T070809.tif"), **rules)["properties"]
    found = (properties["datetime"], properties.get("start_datetime"), properties.get("end_datetime"))
    assert found == (when, start, end)


def test_no_time_is_an_error_and_that_of_the_file_has_to_be_asked_for(tmp_path):
    path = write(tmp_path / "a.tif", tags={})
    with pytest.raises(UnrepresentableError, match=r"no time .*--datetime TIME or --time-from REGEX") as refused:
        jnrrdz.stac_item(path)
    assert str(path) in str(refused.value)
    item = shown(path, time_from="modified")
    assert item["properties"]["datetime"] == item["assets"]["image"]["updated"]
    with pytest.raises(MalformedError, match=r"--datetime: '2024-13-01' is no time"):
        jnrrdz.stac_item(path, datetime="2024-13-01")
    with pytest.raises(UnrepresentableError, match=r"--time-from .* finds nothing"):
        jnrrdz.stac_item(path, time_from=r"(\d{8})")


TYPES = {"uint8": "uint8", "int16": "int16", "float32": "float32", "complex64": "cfloat32", "complex128": "cfloat64"}


@pytest.mark.parametrize("dtype", TYPES)
def test_data_types_are_stac_s(tmp_path, dtype):
    asset = shown(write(tmp_path / "a.tif", dtype=dtype))["assets"]["image"]
    assert asset["data_type"] == TYPES[dtype]
    assert asset["bands"] == [{"name": "b1"}]


@pytest.mark.parametrize(
    ("nodata", "expected"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (-9999.0, -9999)]
)
def test_nodata_is_spelt_as_stac_has_it(tmp_path, nodata, expected):
    asset = shown(write(tmp_path / "a.tif", dtype="float32", nodata=nodata))["assets"]["image"]
    assert asset["nodata"] == expected


@pytest.mark.parametrize(
    ("driver", "ending", "expected"),
    [("NITF", "ntf", "application/vnd.nitf"), ("JP2OpenJPEG", "jp2", "image/jp2")],
)
def test_other_formats_have_their_types(tmp_path, driver, ending, expected):
    options = {"driver": driver, "crs": "EPSG:4326", "transform": Affine(0.01, 0, 10, 0, -0.01, 50), "dtype": "uint8"}
    options |= {"ICORDS": "G"} if driver == "NITF" else {}
    path = write(tmp_path / f"a.{ending}", tags={}, shape=(1, 128, 128), **options)
    item = shown(path, datetime="2024-06-01T00:00:00Z")
    assert item["assets"]["image"]["type"] == expected
    polygon = shapely.geometry.shape(item["geometry"])
    assert polygon.hausdorff_distance(shapely.box(10, 48.72, 11.28, 50)) < 0.0003


def test_no_secret_of_a_url_is_in_an_item(tmp_path, monkeypatch):
    write(tmp_path / "a.tif")
    monkeypatch.chdir(tmp_path)
    item = jnrrdz.stac_item("a.tif", manifest="https://data.example/refs/a.json?X-Amz-Signature=0123456789abcdef")
    assert "0123456789abcdef" not in json.dumps(item)
    assert item["assets"]["references"]["href"] == "https://data.example/refs/a.json"
    assert item["assets"]["image"]["href"] == str(tmp_path / "a.tif")


def test_the_command_prints_one_item_or_a_line_each(tmp_path):
    paths = [str(write(tmp_path / f"{name}.tif")) for name in "ab"]
    one = CliRunner().invoke(cli, ["info", paths[0], "--stac"])
    assert json.loads(one.stdout)["id"] == "a"
    two = CliRunner().invoke(cli, ["info", *paths, "--stac", "--datetime", "2020-01-01T00:00:00Z"])
    items = [json.loads(line) for line in two.stdout.splitlines()]
    assert [item["id"] for item in items] == ["a", "b"]
    assert {item["properties"]["datetime"] for item in items} == {"2020-01-01T00:00:00Z"}
    for wrong in (["--stac", "--json"], ["--stac", "-a"], ["--datetime", "2020-01-01"], ["--stac", "--datetime", "x"]):
        assert CliRunner().invoke(cli, ["info", paths[0], *wrong]).exit_code == 2, wrong
