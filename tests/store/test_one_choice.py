"""Every door opens the same image where nobody names one, and reads lists of levels alike."""

import json

import imagecodecs
import netCDF4
import numpy as np
import pytest
import rasterio
import xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore

import jnrrdz
from jnrrdz.core.cube import Cube, Scene
from jnrrdz.core.hierarchy import Hierarchy, level_paths
from jnrrdz.errors import GIVEN_WARNINGS
from jnrrdz.formats.scanning import describe_in_place
from jnrrdz.options import Access, ScanOptions
from tests import writers
from tests.readers import by_gdal
from tests.writers import n5_dataset

pytestmark = pytest.mark.filterwarnings("ignore::jnrrdz.ImageChoiceWarning")


@pytest.fixture
def container(tmp_path):
    """Return an N5 container of labels and an image, each of one value."""
    for name, value in [("labels", 1), ("raw", 200)]:
        pixels = np.full((64, 48), value, "u1")
        n5_dataset(tmp_path / "c.n5" / name, pixels, (32, 32))
    return tmp_path / "c.n5"


def by_dataset(source, _):
    return jnrrdz.open_dataset(source)["data"].values


def by_parser(source, _):
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    store = jnrrdz.Parser()(f"file://{source}", registry)
    return xr.open_zarr(store, consolidated=False, zarr_format=3)["data"].values


def by_preview(source, _):
    return imagecodecs.png_decode(jnrrdz.preview(source).png)[..., 0]


def by_tile(source, folder):
    jnrrdz.tile(source, folder / "tiled.jnrrd", tile=(32, 32))
    return jnrrdz.open_dataset(folder / "tiled.jnrrd")["data"].values


def by_info(source, _):
    first = jnrrdz.info(source)["images"][0]["path"]
    return jnrrdz.open_group(source)[first][:]


DOORS = [by_dataset, by_parser, by_preview, by_tile, by_info]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_door_opens_the_image_and_not_its_labels(door, container, tmp_path):
    pixels = door(container, tmp_path)
    assert pixels.shape == (48, 64)
    assert set(np.unique(pixels)) == {200}


def test_the_parser_names_the_images_that_it_leaves_out(container):
    GIVEN_WARNINGS.clear()
    with pytest.warns(jnrrdz.ImageChoiceWarning, match="raw is opened, one image of 2"):
        by_parser(container, None)


def test_a_cube_takes_the_image_and_not_its_labels(tmp_path):
    groups = {}
    for name, value in [("labels", 1), ("raw", 200)]:
        pixels = np.full((64, 64), value, "u1")
        path = writers.geotiff(tmp_path / f"{name}.tif", pixels, **writers.PLACE)
        groups[name] = jnrrdz.scan(path)
    cube = Cube()
    root = jnrrdz.VirtualGroup(groups, {}, groups["raw"].sources)
    cube.add(Scene("a", np.datetime64("2024-01-01"), root))
    found = jnrrdz.open_dataset(cube.finish().group)["data"].values
    assert set(np.unique(found)) == {200}


@pytest.fixture
def ocean(tmp_path):
    """Return a netCDF whose coordinates have two axes, and the temperatures in it."""
    temperature = np.random.default_rng(1).integers(0, 255, (20, 30)).astype("u1")
    with netCDF4.Dataset(tmp_path / "ocean.nc", "w") as file:
        file.createDimension("y", 20)
        file.createDimension("x", 30)
        for name in ("lat", "lon", "temperature"):
            kind = "u1" if name == "temperature" else "f4"
            variable = file.createVariable(name, kind, ("y", "x"))
            variable[:] = temperature if name == "temperature" else 1.5
        variable.coordinates = "lat lon"
    return tmp_path / "ocean.nc", temperature


@pytest.mark.parametrize("door", [by_preview, by_tile], ids=lambda door: door.__name__)
def test_coordinates_of_two_axes_are_no_image(door, ocean, tmp_path):
    source, temperature = ocean
    np.testing.assert_array_equal(door(source, tmp_path), temperature)


def test_tile_takes_the_image_and_not_its_mask(tmp_path):
    pixels = np.random.default_rng(2).integers(0, 255, (64, 64)).astype("u1")
    path = writers.geotiff(tmp_path / "a.tif", pixels, **writers.PLACE)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as file:
        file.write_mask(pixels > 9)
    np.testing.assert_array_equal(by_tile(path, tmp_path), by_gdal(path)[0])


MALFORMED = [
    {"layout": [1, 2]},
    {"layout": "0"},
    {"layout": {"asset": "0"}},
    {"layout": [{"asset": "1"}, 5]},
    {"layout": [{"asset": 1}]},
    {"layout": None},
    [{"datasets": [1]}],
    [1, 2],
    "0",
    7,
]


@pytest.fixture(params=MALFORMED, ids=str)
def foreign(request, tmp_path):
    """Return a manifest whose `multiscales` somebody else wrote, and its image."""
    pixels = np.random.default_rng(3).integers(0, 255, (256, 256)).astype("u1")
    source = writers.geotiff(tmp_path / "a.tif", pixels, overviews=[2], **writers.TILES, **writers.PLACE)
    jnrrdz.index(source, tmp_path / "a.json")
    references = json.loads((tmp_path / "a.json").read_text())
    documents = references["refs"]
    root = json.loads(documents["zarr.json"])
    root["attributes"]["multiscales"] = request.param
    root.pop("consolidated_metadata", None)
    documents["zarr.json"] = json.dumps(root)
    (tmp_path / "foreign.json").write_text(json.dumps(references))
    return tmp_path / "foreign.json", pixels


@pytest.mark.parametrize("door", [by_dataset, by_preview, by_tile, by_info])
def test_a_list_of_levels_of_another_form_is_ignored(door, foreign, tmp_path):
    manifest, pixels = foreign
    np.testing.assert_array_equal(door(manifest, tmp_path), pixels)


def test_levels_are_computed_beside_a_list_of_another_form(foreign):
    manifest, pixels = foreign
    group = jnrrdz.open_group(manifest, virtual_levels=1)
    np.testing.assert_array_equal(group["0/0/data"][:], pixels)
    assert group["0/1/data"].shape == (128, 128)
    assert sorted(jnrrdz.open_datatree(manifest).children) == ["0", "1"]


def test_levels_that_are_arrays_are_one_image(tmp_path):
    for level in range(3):
        pixels = np.full((64 >> level, 64 >> level), level, "u1")
        n5_dataset(tmp_path / "c.n5" / "raw" / f"s{level}", pixels, (32, 32))
    root = describe_in_place(str(tmp_path / "c.n5"), ScanOptions(), Access())
    (image,) = root.images()
    assert [level.path for level in image.levels] == ["raw/s0", "raw/s1", "raw/s2"]


@pytest.mark.parametrize(
    ("attributes", "paths"),
    [
        ({"multiscales": {"layout": [{"asset": "0"}, {"asset": "1"}]}}, ("0", "1")),
        ({"ome": {"multiscales": [{"datasets": [{"path": "s0/a"}]}]}}, ("s0/a",)),
        ({"multiscales": [{"datasets": [{"path": "0"}, {"path": "1"}]}]}, ("0", "1")),
        ({"multiscales": [{"datasets": []}, {"datasets": []}]}, ()),
        ({"ome": 3}, ()),
        ({}, ()),
    ],
)
def test_lists_of_levels_that_are_read(attributes, paths):
    assert level_paths(attributes) == paths


def test_levels_in_deeper_groups_lead_to_the_finest():
    layout = [{"asset": "fine/image"}, {"asset": "coarse/image"}]
    group = {"node_type": "group", "attributes": {}}
    array = {"node_type": "array", "shape": [4, 4], "data_type": "uint8"}
    documents = {
        "": {"node_type": "group", "attributes": {"multiscales": {"layout": layout}}},
        "coarse": group,
        "coarse/image": group,
        "coarse/image/data": array,
        "fine": group,
        "fine/image": group,
        "fine/image/data": array,
    }
    tree = Hierarchy.of_documents(documents)
    assert tree.choice() == ("fine/image", (), False)
    assert [image.finest.path for image in tree.images()] == ["fine/image/data"]
