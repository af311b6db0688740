"""How coarser levels are made follows from the image: means of measurements, modes of names.

Expected levels are counts and sums of each block by numpy alone, edges included.
"""

import warnings

import netCDF4
import nrrd
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
import zarr

import jnrrdz
from jnrrdz.core.describe import ImageKind
from jnrrdz.core.hierarchy import Hierarchy
from tests import writers
from tests.writers import n5_dataset

pytestmark = pytest.mark.filterwarnings(
    "ignore::jnrrdz.ImageChoiceWarning", "ignore::rasterio.errors.NotGeoreferencedWarning"
)

SHAPE = (1100, 1030)
Y, X = np.mgrid[: SHAPE[0], : SHAPE[1]]
CLASSES = np.array([0, 100, 200], "u1")[(Y // 7 + X // 5) % 3]
SLOPE = ((3 * Y + 2 * X) % 251).astype("u1")


def sums(values, step):
    """Return the sum of each block of elements; a block that the edge cuts is smaller."""
    for axis, size in enumerate(values.shape):
        values = np.add.reduceat(values, range(0, size, step), axis=axis)
    return values


def most_frequent(pixels, step):
    """Return the most frequent value of each block, the smallest of several."""
    values = np.unique(pixels)
    counts = [sums((pixels == value).astype("i8"), step) for value in values]
    return values[np.argmax(counts, axis=0)]


def mean(pixels, step):
    """Return the mean of each block, rounded half to even where numbers are whole."""
    means = sums(pixels.astype("f8"), step) / sums(np.ones(pixels.shape), step)
    return means if pixels.dtype.kind == "f" else np.rint(means).astype(pixels.dtype)


def mean_of_valid(pixels, step, nodata):
    """Return the mean of what is there in each block, nodata where nothing is."""
    there = pixels != nodata
    count = sums(there.astype("i8"), step)
    total = sums(np.where(there, pixels, 0).astype("f8"), step)
    means = total / np.maximum(count, 1)
    return np.where(count == 0, nodata, means if pixels.dtype.kind == "f" else np.rint(means))


def palette_tiff(folder):
    table = {0: (255, 0, 0, 255), 100: (0, 255, 0, 255), 200: (0, 0, 255, 255)}
    path = writers.geotiff(folder / "a.tif", CLASSES, **writers.PLACE)
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, table)
    return path, CLASSES


def palette_jp2(folder):
    """Write a palette of JPEG 2000 by GDAL."""
    plain, _ = palette_tiff(folder)
    options = {"QUALITY": "100", "REVERSIBLE": "YES", "RESOLUTIONS": "1"}
    rasterio.shutil.copy(plain, folder / "a.jp2", driver="JP2OpenJPEG", **options)
    return folder / "a.jp2", CLASSES


def lut_nitf(folder):
    plain, _ = palette_tiff(folder)
    options = {"IREP": "RGB/LUT", "LUT_SIZE": "201"}
    rasterio.shutil.copy(plain, folder / "a.ntf", driver="NITF", **options)
    return folder / "a.ntf", CLASSES


def thematic_tiff(folder):
    path = writers.geotiff(folder / "a.tif", CLASSES)
    with rasterio.open(path, "r+") as file:
        file.update_tags(1, LAYER_TYPE="thematic")
    return path, CLASSES


def flags_netcdf(folder):
    with netCDF4.Dataset(folder / "a.nc", "w") as file:
        for name, size in zip("yx", SHAPE, strict=True):
            file.createDimension(name, size)
        variable = file.createVariable("cover", "u1", ("y", "x"))
        variable[:] = CLASSES
        variable.flag_values = np.array([0, 100, 200], "u1")
        variable.flag_meanings = "water forest city"
    return folder / "a.nc", CLASSES


def named_n5(folder):
    n5_dataset(folder / "a.n5" / "labels", CLASSES.T, (256, 256))
    return folder / "a.n5", CLASSES


def segments_nrrd(folder):
    """Write a segmentation with the keys of 3D Slicer."""
    fields = {"space": "left-posterior-superior", "space directions": np.eye(3)}
    fields |= {"kinds": ["domain"] * 3, "Segment0_ID": "Segment_1", "encoding": "raw"}
    volume = np.stack([CLASSES[:200, :180]] * 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pynrrd's own date
        nrrd.write(str(folder / "a.seg.nrrd"), volume.T, fields)
    return folder / "a.seg.nrrd", volume


def test_a_segmentation_of_slicer_is_labels(tmp_path):
    path, volume = segments_nrrd(tmp_path)
    found = jnrrdz.open_group(path, virtual_levels=1)["1/data"][:]
    halved = volume if found.shape[0] == len(volume) else volume[::2]
    per_slice = [most_frequent(plane, 2) for plane in halved]
    np.testing.assert_array_equal(found, np.stack(per_slice))


def test_an_image_that_ome_lists_alone_has_computed_levels(tmp_path):
    tifffile.imwrite(tmp_path / "a.ome.tif", SLOPE, ome=True, metadata={"axes": "YX"})
    group = jnrrdz.open_group(tmp_path / "a.ome.tif", virtual_levels=1)
    np.testing.assert_array_equal(group["0/data"][:], SLOPE)
    np.testing.assert_array_equal(group["1/data"][:], mean(SLOPE, 2))


NAMES = [palette_tiff, palette_jp2, lut_nitf, thematic_tiff, flags_netcdf, named_n5]


def slope_tiff(folder):
    return writers.geotiff(folder / "a.tif", SLOPE), SLOPE


def inverted_tiff(folder):
    """Write a scan whose zero is white: its greys are a table, and no classes."""
    tifffile.imwrite(folder / "a.tif", SLOPE, photometric="miniswhite")
    return folder / "a.tif", SLOPE


def raw_n5(folder):
    n5_dataset(folder / "a.n5" / "raw", SLOPE.T, (256, 256))
    return folder / "a.n5", SLOPE


MEASUREMENTS = [slope_tiff, inverted_tiff, raw_n5]
EVERY = [*((make, most_frequent) for make in NAMES), *((make, mean) for make in MEASUREMENTS)]


def named(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("make", "how"), EVERY, ids=named)
def test_computed_levels_follow_the_kind(make, how, tmp_path):
    path, pixels = make(tmp_path)
    group = jnrrdz.open_group(path, virtual_levels=2)
    finest = jnrrdz.info(path)["images"][0]["path"]
    home, _, variable = finest.rpartition("/")
    for level in (1, 2):
        served = group[f"{home}/{level}/{variable}".lstrip("/")][:]
        np.testing.assert_array_equal(served, how(pixels, 2**level))
        if how is most_frequent:
            assert set(np.unique(served)) <= set(np.unique(pixels))


@pytest.mark.parametrize(("make", "how"), EVERY, ids=named)
def test_tile_follows_the_kind(make, how, tmp_path):
    path, pixels = make(tmp_path)
    jnrrdz.tile(path, tmp_path / "t.jnrrd", tile=(256, 256), levels=3)
    group = jnrrdz.open_group(tmp_path / "t.jnrrd")
    for level in (1, 2):
        rows, columns = (size // 2 for size in pixels.shape)
        pixels = how(pixels[: 2 * rows, : 2 * columns], 2)
        np.testing.assert_array_equal(group[f"{level}/data"][:], pixels)


def test_tile_takes_the_method_that_is_named(tmp_path):
    path, pixels = palette_tiff(tmp_path)
    out = tmp_path / "t.jnrrd"
    jnrrdz.tile(path, out, tile=(256, 256), levels=2, method="average")
    found = jnrrdz.open_group(out)["1/data"][:]
    np.testing.assert_array_equal(found, mean(pixels, 2))


def test_computed_levels_take_the_method_that_is_named(tmp_path):
    path, pixels = palette_tiff(tmp_path)
    group = jnrrdz.open_group(path, virtual_levels=1, downsample="average")
    np.testing.assert_array_equal(group["1/data"][:], mean(pixels, 2))


@pytest.mark.parametrize(
    ("make", "how"), [(palette_tiff, most_frequent), (named_n5, most_frequent), (slope_tiff, mean)]
)
def test_served_levels_follow_the_kind(make, how, tmp_path):
    path, pixels = make(tmp_path)
    home = "labels/" if make is named_n5 else ""
    with jnrrdz.serve(path) as server:
        group = zarr.open_group(server[path.name], mode="r")
        for level in (1, 2):
            found = group[f"{home}{level}/data"][:]
            np.testing.assert_array_equal(found, how(pixels, 2**level))


def test_a_preview_of_labels_has_no_colour_between_them(tmp_path):
    path, pixels = named_n5(tmp_path)
    shown = jnrrdz.preview(path, size=200).rgba
    assert set(np.unique(shown[..., 0])) == set(np.unique(pixels))


@pytest.mark.parametrize("kind", ["u4", "u8"])
def test_volumes_of_identifiers_are_labels(kind, tmp_path):
    ids = np.random.default_rng(5).choice(2**31, 50).astype(kind)
    z, y, x = np.mgrid[:40, :60, :80]
    volume = ids[(z // 9 * 7 + y // 7 * 3 + x // 5) % 50]
    n5_dataset(tmp_path / "a.n5" / "neurons", volume.T, (40, 30, 20))
    group = jnrrdz.open_group(tmp_path / "a.n5", virtual_levels=2)
    for level in (1, 2):
        found = group[f"neurons/{level}/data"][:]
        np.testing.assert_array_equal(found, most_frequent(volume, 2**level))
        assert set(np.unique(found)) <= set(ids)


# Missing values


def test_nodata_takes_no_part_in_a_mean(tmp_path):
    pixels = np.where((X + Y) % 11 < 4, 7, SLOPE).astype("u1")
    path = writers.geotiff(tmp_path / "a.tif", pixels, nodata=7)
    expected = mean_of_valid(pixels, 2, 7)
    is_missing = sums((pixels != 7).astype("i8"), 2) == 0
    expected[(expected == 7) & ~is_missing] = 8  # what is there is never nodata by chance
    found = jnrrdz.open_group(path, virtual_levels=1)["1/data"][:]
    np.testing.assert_array_equal(found, expected)


def test_nodata_of_zarr_is_its_attribute_and_not_what_absent_chunks_read_as(tmp_path):
    """xarray writes `_FillValue` as an attribute, and a fill value of its own choice."""
    heights = np.where((X + Y) % 11 < 4, -9999, SLOPE.astype("f4")).astype("f4")
    dataset = xr.Dataset({"height": (("y", "x"), heights)})
    dataset["height"].attrs["_FillValue"] = np.float32(-9999)
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    found = jnrrdz.open_group(tmp_path / "a.zarr", virtual_levels=1)["1/height"][:]
    np.testing.assert_allclose(found, mean_of_valid(heights, 2, -9999), rtol=1e-6)


def test_the_older_name_of_nodata(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in zip("yx", SHAPE, strict=True):
            file.createDimension(name, size)
        variable = file.createVariable("cover", "i2", ("y", "x"), fill_value=False)
        variable.set_auto_mask(False)
        variable.missing_value = np.int16(-5)
        heights = np.where((X + Y) % 11 < 4, -5, SLOPE.astype("i2")).astype("i2")
        variable[:] = heights
    found = jnrrdz.open_group(tmp_path / "a.nc", virtual_levels=1)["1/cover"][:]
    np.testing.assert_array_equal(found, mean_of_valid(heights, 2, -5))


# The kind


def kind_of(name="data", attributes=None, shape=(8, 8), dtype="uint8", above=None):
    names = ["t", "z", "y", "x"][-len(shape) :]
    array = {"node_type": "array", "shape": list(shape), "dimension_names": names}
    array |= {"data_type": dtype, "attributes": attributes or {}}
    group = {"node_type": "group", "attributes": above or {}}
    return Hierarchy.of_documents({"": group, name: array}).kind(name)


GREYS = [[value, value, value, 255] for value in range(255, -1, -1)]


@pytest.mark.parametrize(
    ("expected", "image"),
    [
        ("picture", {}),
        ("volume", {"shape": (8, 8, 8)}),
        ("labels", {"shape": (8, 8, 8), "dtype": "uint32"}),
        ("volume", {"shape": (8, 8, 8), "dtype": "int32"}),
        ("picture", {"dtype": "uint32"}),
        ("volume", {"shape": (8, 8, 8, 8), "dtype": "uint32"}),
        ("labels", {"name": "segmentation"}),
        ("picture", {"name": "predictions", "dtype": "float32"}),
        ("labels", {"attributes": {"flag_meanings": "a b"}, "dtype": "float32"}),
        ("labels", {"above": {"ome": {"image-label": {}}}}),
        ("labels", {"above": {"image-label": {}}}),
        ("palette", {"attributes": {"color_table": [[0, 0, 0], [255, 0, 0], [0, 9, 9]]}}),
        ("palette", {"attributes": {"colorinterp": ["palette"]}}),
        ("picture", {"attributes": {"color_table": GREYS, "flag_values": [0, 1]}}),
        ("picture", {"attributes": {"color_table": GREYS[::-1]}}),
        ("palette", {"attributes": {"color_table": [*GREYS, [0, 0, 0, 0]]}}),
        ("palette", {"attributes": {"color_table": [["a"], 3, None]}}),
        ("picture", {"attributes": {"band_metadata": [{"": {}}, 3]}}),
    ],
    ids=str,
)
def test_kinds(expected, image):
    assert kind_of(**image) == ImageKind(expected)
