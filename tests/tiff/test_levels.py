"""Pyramids, pages, masks and sparse tiles: which arrays a TIFF becomes, compared with what GDAL sees."""

import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401  gives datasets their .rio
import tifffile
import xarray as xr
from rasterio.enums import Resampling
from rasterio.shutil import copy as gdal_copy
from rasterio.transform import from_origin

import jnrrdz
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

PLACE = {"crs": "EPSG:32633", "transform": from_origin(300000, 4900020, 10, 20)}


def pixels(bands=1, height=700, width=900, dtype="uint16"):
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(1).integers(0, 9, (bands, height, width))
    return (noise + np.stack([x * 11 + y * 7 + 1000 * band for band in range(bands)])).astype(dtype)


def write(path, data, **options):
    return writers.geotiff(path, data, **writers.TILES | {"blockxsize": 128, "blockysize": 128}, **options)


@pytest.fixture
def cog(tmp_path):
    """A COG that GDAL made: 700 x 900 with overviews of 350 x 450 and 175 x 225."""
    plain = write(tmp_path / "plain.tif", pixels(), **PLACE)
    gdal_copy(plain, tmp_path / "cog.tif", driver="COG", BLOCKSIZE=128, COMPRESS="DEFLATE", PREDICTOR=2)
    return tmp_path / "cog.tif"


def with_overviews(path):
    """Give a file internal overviews in the ordinary way: at its end, not where a COG has them."""
    with rasterio.open(path, "r+") as target:
        target.build_overviews([2, 4, 8], Resampling.average)
    return path


def gdals_levels(path):
    """Return the pixels of every level that GDAL sees, finest first."""
    with rasterio.open(path) as source:
        levels = [source.read()]
        count = len(source.overviews(1))
    for number in range(count):
        with rasterio.open(path, overview_level=number) as source:
            levels.append(source.read())
    return levels


def levels_are_gdals(path, bands):
    expected, group = gdals_levels(path), jnrrdz.open_group(str(path))
    assert [str(number) for number in range(len(expected))] == sorted(group.group_keys())
    for number, level in enumerate(expected):
        np.testing.assert_array_equal(group[f"{number}/data"][...], level if bands > 1 else level[0])
    return len(expected)


def test_every_level_of_a_cog(cog):
    assert levels_are_gdals(cog, 1) == 4


@pytest.mark.parametrize("bands", [1, 3])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_every_level_of_internal_overviews(tmp_path, bands, interleave):
    path = with_overviews(write(tmp_path / "a.tif", pixels(bands), interleave=interleave, **PLACE))
    assert levels_are_gdals(path, bands) == 4


def test_a_pyramid_in_sub_ifds(tmp_path):
    full = pixels()[0]
    with tifffile.TiffWriter(tmp_path / "a.tif") as tif:
        tif.write(full, tile=(64, 64), subifds=2, metadata=None)
        tif.write(full[::2, ::2], tile=(64, 64), subfiletype=1, metadata=None)
        tif.write(full[::4, ::4], tile=(64, 64), subfiletype=1, metadata=None)
    group = jnrrdz.open_group(str(tmp_path / "a.tif"))
    for number, step in enumerate((1, 2, 4)):
        np.testing.assert_array_equal(group[f"{number}/data"][...], full[::step, ::step])


def test_no_overviews_when_they_are_not_wanted(cog):
    (path, array), *others = [node for node in jnrrdz.scan(str(cog), overviews=False).arrays() if node[1].shape]
    assert (path, array.shape, others) == ("data", (700, 900), [])


def test_the_multiscales_tell_where_each_level_lies(cog):
    group = jnrrdz.open_group(str(cog))
    layout = group.attrs["multiscales"]["layout"]
    assert [entry["asset"] for entry in layout] == ["0", "1", "2", "3"]
    for number, entry in enumerate(layout):
        options = {"overview_level": number - 1} if number else {}
        with rasterio.open(cog, **options) as level:
            assert entry["spatial:shape"] == list(level.shape)
            np.testing.assert_allclose(entry["spatial:transform"], list(level.transform)[:6], rtol=1e-12)
            np.testing.assert_allclose(group[str(number)].attrs["spatial:transform"], list(level.transform)[:6])


@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")  # rioxarray's own arithmetic
def test_rioxarray_finds_crs_and_affine_of_every_level(cog):
    for number, name in enumerate(("0", "1", "2")):
        data = xr.open_dataset(cog, engine="jnrrdz", group=name)["data"]
        options = {"overview_level": number - 1} if number else {}
        with rasterio.open(cog, **options) as level:
            assert data.rio.crs.to_epsg() == 32633
            np.testing.assert_allclose(list(data.rio.transform())[:6], list(level.transform)[:6], rtol=1e-12)
            np.testing.assert_allclose(data.rio.bounds(), level.bounds, rtol=1e-12)


def sparse(path, bands=1, nodata=None):
    """Write the first and the last tile only."""
    data = pixels(bands)
    profile = {"driver": "GTiff", "count": bands, "height": 700, "width": 900, "dtype": "uint16"}
    with rasterio.open(
        path, "w", **profile, tiled=True, blockxsize=128, blockysize=128, SPARSE_OK=True, nodata=nodata
    ) as target:
        for window in (((0, 128), (0, 128)), ((640, 700), (896, 900))):
            rows, columns = window
            target.write(data[:, slice(*rows), slice(*columns)], window=window)
    return path


@pytest.mark.parametrize(("bands", "nodata"), [(1, None), (1, 77), (3, 77)])
def test_tiles_that_the_file_does_not_hold_read_as_gdal_fills_them(tmp_path, bands, nodata):
    path = sparse(tmp_path / "a.tif", bands, nodata)
    array = jnrrdz.scan(str(path)).children["data"]
    assert 0 < (array.refs.counts == 0).sum() == array.refs.chunks - 2 * (array.refs.chunks // 48)
    with rasterio.open(path) as source:
        expected = source.read()
    np.testing.assert_array_equal(jnrrdz.open_group(str(path))["data"][...], expected if bands > 1 else expected[0])
    assert (expected[..., 200:600, 200:600] == (nodata or 0)).all()


def test_unrelated_pages_are_groups_of_their_own(tmp_path):
    images = [pixels()[0][:40, :50], pixels(dtype="uint8")[0][:30, :20], pixels(3, dtype="float32")[:, :11, :13]]
    with tifffile.TiffWriter(tmp_path / "a.tif") as tif:
        for image in images:
            tif.write(
                image, photometric="minisblack", metadata=None, planarconfig="separate" if image.ndim > 2 else None
            )
    group = jnrrdz.open_group(str(tmp_path / "a.tif"))
    for number, image in enumerate(images):
        found = group[f"page_{number}/data"]
        assert found.dtype == image.dtype
        np.testing.assert_array_equal(found[...], image)


def test_a_mask_stands_beside_its_image(tmp_path):
    data, opaque = pixels(3, dtype="uint8"), np.zeros((700, 900), "uint8")
    opaque[100:500, 50:333] = 255
    path = tmp_path / "a.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), writers.gdal_file(path, data, compress="deflate") as target:
        target.write_mask(opaque)
    group = jnrrdz.open_group(str(tmp_path / "a.tif"))
    np.testing.assert_array_equal(group["data"][...], data)
    np.testing.assert_array_equal(group["mask"][...] != 0, opaque != 0)
    found = xr.open_dataset(tmp_path / "a.tif", engine="jnrrdz")
    np.testing.assert_array_equal(found["data"], data)
