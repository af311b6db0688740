"""Levels that are asked for when an image is opened: independent means, places, trees, pickles."""

import pickle

import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401  the accessor `rio`
import tifffile
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.errors import UnsupportedError
from tests import writers

SHAPE = (300, 517)


def halved(pixels, times):
    """Return block means, rounded half to even; the blocks that the edge cuts are smaller."""
    step = 2**times
    rows, columns = (-(-size // step) for size in pixels.shape)
    found = np.empty((rows, columns))
    for row in range(rows):
        for column in range(columns):
            block = pixels[row * step : (row + 1) * step, column * step : (column + 1) * step]
            found[row, column] = block.astype("f8").mean()
    return np.rint(found).astype(pixels.dtype)


@pytest.fixture
def scene(tmp_path):
    place = from_origin(500000, 5000000, 10, 20)
    pixels = writers.scene(tmp_path / "a.tif", 4, 60000, shape=SHAPE, transform=place)
    return tmp_path / "a.tif", pixels


@pytest.fixture(params=["source", "json", "parquet"])
def opened(request, scene, tmp_path):
    path, pixels = scene
    if request.param == "source":
        return path, pixels
    out = tmp_path / f"a.{request.param}"
    jnrrdz.index(path, out)
    return out, pixels


def test_levels_are_block_means_beside_the_image(opened):
    name, pixels = opened
    tree = jnrrdz.open_datatree(name, virtual_levels=3)
    assert sorted(tree.children) == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(tree["0/data"].values, pixels)
    for level in (1, 2, 3):
        np.testing.assert_array_equal(tree[f"{level}/data"].values, halved(pixels, level))


def test_the_image_itself_is_what_a_dataset_shows(opened):
    name, pixels = opened
    np.testing.assert_array_equal(jnrrdz.open_dataset(name, virtual_levels=2)["data"].values, pixels)
    np.testing.assert_array_equal(jnrrdz.open_dataset(name)["data"].values, pixels)


def test_a_level_lies_where_the_image_lies(opened):
    name, _ = opened
    found = jnrrdz.open_dataset(name, virtual_levels=2, group="2")
    assert found.rio.crs.to_epsg() == 32633
    assert [float(word) for word in found["spatial_ref"].attrs["GeoTransform"].split()] == [5e5, 40, 0, 5e6, 0, -80]
    assert float(found.x[0]) == 500020
    assert float(found.y[0]) == 5000000 - 40


def test_the_levels_pickle_with_their_store(opened):
    name, pixels = opened
    store = jnrrdz.open_store(name, virtual_levels=1, downsample="max")
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    found = jnrrdz.open_group(name, virtual_levels=1, downsample="max")["1/data"]
    assert found[3, 5] == pixels[6:8, 10:12].max()


def test_a_method_can_be_named(scene):
    path, pixels = scene
    found = jnrrdz.open_group(path, virtual_levels=1, downsample="min")["1/data"]
    assert found[0, 0] == pixels[:2, :2].min()


def test_bands_stay_and_thin_strips_become_blocks(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 255, (3, 600, 800)).astype("u1")
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", planarconfig="separate", rowsperstrip=1)
    found = jnrrdz.open_group(tmp_path / "a.tif", virtual_levels=1)["1/data"]
    assert found.shape == (3, 300, 400)
    assert found.chunks[0] == 1
    assert min(found.chunks[-2:]) >= 256
    for band in range(3):
        np.testing.assert_array_equal(found[band], halved(pixels[band], 1))


def test_images_with_levels_keep_theirs(scene):
    path, _ = scene
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2])
    plain = jnrrdz.open_datatree(path)
    assert sorted(jnrrdz.open_datatree(path, virtual_levels=4).children) == sorted(plain.children) == ["0", "1"]


def test_halving_ends_where_there_is_one_element(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.arange(12, dtype="u1").reshape(3, 4))
    tree = jnrrdz.open_datatree(tmp_path / "a.tif", virtual_levels=60)
    assert sorted(tree.children) == ["0", "1", "2"]
    assert tree["2/data"].shape == (1, 1)


@pytest.mark.parametrize("levels", [-1, 65, 1.5, True, "2"])
def test_numbers_of_levels_that_mean_nothing(scene, levels):
    with pytest.raises(UnsupportedError, match="virtual_levels"):
        jnrrdz.open_store(scene[0], virtual_levels=levels)


def test_an_unknown_method_is_refused(scene):
    with pytest.raises(UnsupportedError, match="median"):
        jnrrdz.open_store(scene[0], virtual_levels=1, downsample="median")
