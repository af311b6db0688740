"""Overviews and masks beside a TIFF, inside it and below it, compared with GDAL's own reading of them."""

import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.enums import Resampling

import jnrrdz
from tests import writers

SHAPE = (300, 400)


@pytest.fixture
def pixels():
    rows, columns = np.indices(SHAPE)
    return ((rows * 7 + columns * 3) % 251).astype(np.uint8)


def write(path, pixels):
    writers.geotiff(path, pixels, tiled=True, blockxsize=64, blockysize=64, **writers.PLACE)


def same_as_gdal(path, levels):
    group = jnrrdz.open_group(path)
    for number in range(levels):
        kwargs = {"overview_level": number - 1} if number else {}
        with rasterio.open(path, **kwargs) as source:
            assert np.array_equal(group[f"{number}/data"][...], source.read(1))
    return group


@pytest.mark.parametrize("external", [True, False])
def test_overviews_are_levels_wherever_they_stand(tmp_path, pixels, external):
    path = tmp_path / "a.tif"
    write(path, pixels)
    with rasterio.Env(TIFF_USE_OVR="YES" if external else "NO"), rasterio.open(path, "r+") as target:
        target.build_overviews([2, 4], Resampling.average)
    assert (tmp_path / "a.tif.ovr").exists() == external
    same_as_gdal(path, 3)


def test_sub_ifds_are_levels(tmp_path, pixels):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as target:
        target.write(pixels, subifds=2, tile=(64, 64))
        for step in (2, 4):
            target.write(pixels[::step, ::step], subfiletype=1, tile=(64, 64))
    group = jnrrdz.open_group(path)
    for number, step in enumerate((1, 2, 4)):
        assert np.array_equal(group[f"{number}/data"][...], pixels[::step, ::step])


@pytest.mark.parametrize("internal", [True, False])
def test_masks_are_variables_of_their_level(tmp_path, pixels, internal):
    path = tmp_path / "a.tif"
    write(path, pixels)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES" if internal else "NO"), rasterio.open(path, "r+") as target:
        target.write_mask(np.where(pixels > 100, 255, 0).astype(np.uint8))
    assert (tmp_path / "a.tif.msk").exists() != internal
    group = jnrrdz.open_group(path)
    opaque = group["mask"].attrs["flag_values"][1]
    assert group["data"].attrs["ancillary_variables"] == "mask"
    with rasterio.open(path) as source:
        assert np.array_equal(group["mask"][...] == opaque, source.dataset_mask() == 255)


def test_masks_have_overviews_too(tmp_path, pixels):
    path = tmp_path / "a.tif"
    write(path, pixels)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES"), rasterio.open(path, "r+") as target:
        target.write_mask(np.where(pixels > 100, 255, 0).astype(np.uint8))
        target.build_overviews([2], Resampling.nearest)
    group = same_as_gdal(path, 2)
    with rasterio.open(path, overview_level=0) as source:
        assert np.array_equal(group["1/mask"][...] * 255, source.dataset_mask())


def test_files_beside_are_in_the_table_of_sources(tmp_path, pixels):
    path = tmp_path / "a.tif"
    write(path, pixels)
    with rasterio.Env(TIFF_USE_OVR="YES"), rasterio.open(path, "r+") as target:
        target.build_overviews([2], Resampling.nearest)
    names = [record.url.rsplit("/", 1)[-1] for record in jnrrdz.scan(path).sources]
    assert names == ["a.tif", "a.tif.ovr"]


def test_no_overviews_where_none_are_wanted(tmp_path, pixels):
    path = tmp_path / "a.tif"
    write(path, pixels)
    with rasterio.open(path, "r+") as target:
        target.build_overviews([2], Resampling.nearest)
    assert list(jnrrdz.scan(path, overviews=False).children) == ["data", "spatial_ref"]
