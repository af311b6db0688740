"""Products as sources: what opens, compared with what GDAL sees."""

import json
import zipfile

import jnrrdz
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from jnrrdz.errors import GIVEN_WARNINGS, JnrrdzError
from tests.products.writers import SAFE_1C, image_of, moved, write_image

STORED = {"mask_and_scale": False}


@pytest.fixture
def refs(safe, tmp_path):
    """Return the manifest of a product of Sentinel-2."""
    out = tmp_path / "refs.json"
    jnrrdz.index(safe, out)
    return out


def test_a_group_for_each_resolution_has_an_array_for_each_band(safe, refs):
    tree = xr.open_datatree(refs, **STORED)
    assert list(tree.children) == ["10m", "20m", "60m"]
    for name, group in tree.children.items():
        metres = int(name.removesuffix("m"))
        for band, array in group.data_vars.items():
            with rasterio.open(image_of(safe, band, metres)) as file:
                expected = file.read()
            assert np.array_equal(array.to_numpy().reshape(expected.shape), expected)
    assert tree["10m/B04"].dims == ("y", "x")
    assert tree["10m/TCI"].dims == ("band", "y", "x")
    assert set(tree["60m"].data_vars) >= {"B01", "B09", "SCL"}


def test_bands_are_those_of_gdal(safe, refs):
    """GDAL's own reader of SAFE has names, offsets and places of the bands."""
    for metres in (10, 20, 60):
        document = safe / "MTD_MSIL2A.xml"
        dataset = xr.open_dataset(refs, group=f"{metres}m", **STORED)
        with rasterio.open(f"SENTINEL2_L2A:{document}:{metres}m:EPSG_32629") as file:
            theirs = dict(zip(file.descriptions, file.indexes, strict=True))
            spectral = [each for each in theirs if each.startswith("B")]
            for description in spectral:
                tags = file.tags(theirs[description])
                name = f"B{tags['BANDNAME'].removeprefix('B'):0>2}"
                array = dataset[name]
                offset = float(tags["BOA_ADD_OFFSET"])
                factor = float(file.tags()["BOA_QUANTIFICATION_VALUE"])
                assert array.attrs["add_offset"] == offset / factor
                assert array.attrs["scale_factor"] == 1 / factor
                expected = file.read(theirs[description])
                assert np.array_equal(array.to_numpy(), expected)
            assert dataset.rio.crs == file.crs
            place = dataset.spatial_ref.attrs["GeoTransform"].split()
            assert [float(each) for each in place] == list(file.transform.to_gdal())


def test_decoded_values_are_reflectance(safe, refs):
    red = xr.open_dataset(refs, group="10m").B04
    with rasterio.open(image_of(safe, "B04", 10)) as file:
        numbers = file.read(1)
    expected = np.where(numbers == 0, np.nan, (numbers - 1000.0) / 10000)
    assert np.allclose(red, expected, equal_nan=True, rtol=0, atol=1e-9)
    assert np.isnan(red).any()


def test_classes_stay_integers(refs):
    scl = xr.open_dataset(refs, group="20m").SCL
    assert scl.dtype == np.uint8
    assert scl.attrs["flag_meanings"].split()[8] == "cloud_medium_proba"


def test_choices_are_named_where_none_is_made(refs):
    GIVEN_WARNINGS.clear()  # a process gives each once
    with pytest.warns(UserWarning, match="10m is opened, one image of 3; .*20m, 60m"):
        dataset = xr.open_dataset(refs)
    assert dataset.attrs["datetime"] == "2022-10-05T11:54:11.024Z"
    facts = json.loads(dataset.attrs["product"])
    assert facts["processing_baseline"] == "04.00"


def test_the_document_is_the_product(safe, refs, tmp_path):
    out = tmp_path / "of_document.json"
    jnrrdz.index(safe / "MTD_MSIL2A.xml", out)
    assert out.read_text() == refs.read_text()


def test_level_1c_is_grouped_by_pixel_size(products):
    tree = jnrrdz.open_datatree(products / SAFE_1C, **STORED)
    assert set(tree["60m"].data_vars) == {"B01", "B09", "B10"}
    assert set(tree["20m"].data_vars) == {"B05", "B06", "B07", "B8A", "B11", "B12"}
    assert tree["10m/B02"].attrs["add_offset"] == 0
    standard_name = tree["10m/B02"].attrs["standard_name"]
    assert standard_name == "toa_bidirectional_reflectance"


def test_landsat_is_read_as_rasterio_does(landsat):
    dataset = xr.open_dataset(landsat, engine="jnrrdz", group="30m", **STORED)
    assert len(dataset.data_vars) == 19
    for name, array in dataset.data_vars.items():
        with rasterio.open(landsat / f"{landsat.name}_{name}.TIF") as file:
            assert np.array_equal(array.to_numpy(), file.read(1))


def test_bits_can_be_tested_without_a_cast(landsat):
    pixel = xr.open_dataset(landsat, engine="jnrrdz").QA_PIXEL
    assert pixel.dtype == np.uint16
    assert (pixel & 8).dtype == np.uint16
    assert pixel.rio.nodata == 1


def test_temperature_is_in_kelvin(landsat):
    dataset = xr.open_dataset(landsat, engine="jnrrdz")
    with rasterio.open(landsat / f"{landsat.name}_ST_B10.TIF") as file:
        numbers = file.read(1)
    expected = np.where(numbers == 0, np.nan, numbers * 0.00341802 + 149)
    assert np.allclose(dataset.ST_B10, expected, equal_nan=True)
    assert dataset.ST_B10.attrs["units"] == "K"


def test_a_missing_image_is_an_error_with_a_remedy(safe, tmp_path):
    folder = moved(safe, tmp_path)
    image_of(folder, "B8A", 20).unlink()
    with pytest.raises(JnrrdzError, match=r"B8A_20m\.jp2 does not exist") as caught:
        jnrrdz.scan(folder)
    assert caught.value.field == "IMAGE_FILE 15"
    assert "allow_missing" in str(caught.value)
    with pytest.warns(UserWarning, match="B8A is left out"):
        group = jnrrdz.scan(folder, allow_missing=True)
    assert group.at("20m/B8A") is None
    assert group.at("20m/B11") is not None


def test_a_product_without_images_is_refused(safe, tmp_path):
    folder = moved(safe, tmp_path)
    for image in folder.rglob("*.jp2"):
        image.unlink()
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(JnrrdzError, match="none of the images"),
    ):
        jnrrdz.scan(folder, allow_missing=True)


def test_an_image_on_another_grid_is_refused(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    path = folder / f"{landsat.name}_SR_B3.TIF"
    write_image(path, np.ones((1, 90, 90), "u2"), 30, "GTiff", epsg=32619)
    with pytest.raises(JnrrdzError, match=r"SR_B3.TIF is not on the grid of .*SR_B1"):
        jnrrdz.scan(folder)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_an_image_without_a_place_is_refused(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    path = folder / f"{landsat.name}_SR_B3.TIF"
    with rasterio.open(
        path, "w", driver="GTiff", width=9, height=9, count=1, dtype="uint16"
    ) as file:
        file.write(np.ones((1, 9, 9), "u2"))
    with pytest.raises(JnrrdzError, match="has no CRS and affine transform"):
        jnrrdz.scan(folder)


def test_a_file_that_is_no_image_is_refused(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    document = next(folder.glob("*_MTL.*"))
    path = folder / f"{landsat.name}_SR_B3.TIF"
    path.write_bytes(document.read_bytes())
    with pytest.raises(JnrrdzError, match="an image is needed"):
        jnrrdz.scan(folder)


def test_a_file_of_two_images_is_refused(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    with tifffile.TiffWriter(folder / f"{landsat.name}_SR_B3.TIF") as file:
        file.write(np.ones((90, 90), "u2"))
        file.write(np.ones((50, 70), "u1"))
    with pytest.raises(JnrrdzError, match=r"SR_B3.TIF holds no image or several"):
        jnrrdz.scan(folder)


def test_two_images_of_one_name_are_refused(safe, tmp_path):
    folder = moved(safe, tmp_path)
    document = folder / "MTD_MSIL2A.xml"
    text = document.read_text()
    assert "_B03_10m<" in text
    document.write_text(text.replace("_B03_10m<", "_B02_10m<"))
    with pytest.raises(JnrrdzError, match="two images B02 of 10m"):
        jnrrdz.scan(folder)


def test_a_document_of_many_bytes_is_refused(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    document = next(folder.glob("*_MTL.*"))
    document.write_bytes(document.read_bytes() + b"\n" * (17 << 20))
    with pytest.raises(JnrrdzError, match=r"a document of \d+ bytes"):
        jnrrdz.scan(folder)


def test_a_scale_of_the_file_comes_first(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    with rasterio.open(folder / f"{landsat.name}_SR_B3.TIF", "r+") as file:
        file.scales, file.offsets, file.nodata = [0.5], [1.0], 7
    with pytest.warns(UserWarning, match="the file's is used") as caught:
        array = jnrrdz.scan(folder).at("30m/SR_B3")
    assert array.attributes["scale_factor"] == 0.5
    assert array.attributes["_FillValue"] == 7
    texts = " ".join(str(each.message) for each in caught)
    assert "the scale of the file is not the one" in texts
    assert "nodata is 7 in the file and 0" in texts


def test_a_link_out_of_a_product_is_refused(landsat, tmp_path):
    folder = moved(landsat, tmp_path)
    path = folder / f"{landsat.name}_SR_B3.TIF"
    outside = path.rename(tmp_path / "outside.tif")
    path.symlink_to(outside)
    with pytest.raises(JnrrdzError, match="allow"):
        jnrrdz.scan(folder)


def test_physical_values_of_a_product(safe, tmp_path):
    out = tmp_path / "physical.json"
    jnrrdz.index(safe, out, physical=True)
    red = xr.open_dataset(out, group="10m", **STORED).B04
    with rasterio.open(image_of(safe, "B04", 10)) as file:
        numbers = file.read(1)
    expected = np.where(numbers == 0, np.nan, (numbers - 1000.0) / 10000)
    assert np.allclose(red, expected, equal_nan=True, atol=1e-6)


def test_a_product_is_read_over_http(safe, http_server):
    for path in safe.rglob("*"):
        if path.is_file():
            place = f"/{safe.name}/{path.relative_to(safe).as_posix()}"
            http_server.files[place] = path.read_bytes()
    url = f"{http_server.url}/{safe.name}/"
    group = jnrrdz.scan(url)
    assert len(group.arrays()) == 39
    assert group.sources[0].url.endswith("MTD_MSIL2A.xml")


def test_a_product_over_http_without_its_document_is_refused(http_server):
    url = f"{http_server.url}/S2A_MSIL2A_X.SAFE/"
    with pytest.raises(JnrrdzError, match=r"without its document, MTD_MSIL2A\.xml"):
        jnrrdz.scan(url)


def test_a_changed_image_is_found_by_refresh(safe, tmp_path):
    folder = moved(safe, tmp_path)
    out = tmp_path / "refs.json"
    jnrrdz.index(folder, out)
    path = image_of(folder, "B04", 10)
    with rasterio.open(path) as file:
        other = file.read()[:, ::-1]
    write_image(path, other, 10, "JP2OpenJPEG", REVERSIBLE="YES", QUALITY="100")
    assert jnrrdz.refresh(out).changed
    assert np.array_equal(xr.open_dataset(out, group="10m", **STORED).B04, other[0])


def test_an_item_of_a_product_has_its_identifier_and_clouds(safe):
    item = jnrrdz.stac_item(safe)
    assert item["id"] == safe.name.removesuffix(".SAFE")
    assert item["properties"]["eo:cloud_cover"] == 59.769726
    assert item["properties"]["datetime"] == "2022-10-05T11:54:11.024Z"


def test_a_product_in_an_archive(safe, tmp_path):
    archive = tmp_path / "product.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as target:
        for path in safe.rglob("*"):
            target.write(path, f"{safe.name}/{path.relative_to(safe).as_posix()}")
    out = tmp_path / "refs.json"
    jnrrdz.index(f"zip://{safe.name}/MTD_MSIL2A.xml::{archive}", out)
    red = xr.open_dataset(out, group="10m", **STORED).B04
    with rasterio.open(image_of(safe, "B04", 10)) as file:
        assert np.array_equal(red.to_numpy(), file.read(1))
