"""Products of several dates as one cube, with neither expression nor option."""

import jnrrdz
import numpy as np
import pytest
import rasterio
import xarray as xr
from jnrrdz.errors import JnrrdzError
from tests.products import writers
from tests.products.writers import LANDSAT_8, SAFE, image_of

STORED = {"mask_and_scale": False}
LATER = SAFE.replace("20221005", "20221010")


def later(text):
    """Change the date of a document, in its members and the names of files."""
    return text.replace("2022-10-05", "2022-10-10").replace("20221005", "20221010")


@pytest.fixture(scope="module")
def dates(tmp_path_factory):
    """Return a folder with two products of one tile."""
    root = tmp_path_factory.mktemp("dates")
    writers.safe(root)
    writers.safe(root, LATER, seed=1, change=later)
    return root


def numbers_of(folder, band, metres):
    with rasterio.open(image_of(folder, band, metres)) as file:
        return file.read(1)


def test_dates_and_bands_are_those_of_the_documents(dates, tmp_path):
    out = tmp_path / "cube.json"
    made = jnrrdz.cube([dates / LATER, dates / SAFE], out)
    assert made.times == 2
    assert made.files == 2
    tree = xr.open_datatree(out, **STORED)
    assert set(tree.children) == {"10m", "20m", "20m_uint8", "60m", "60m_uint8"}
    assert [str(time)[:10] for time in tree["10m"].time.to_numpy()] == [
        "2022-10-05",
        "2022-10-10",
    ]
    for group, band, metres in (
        ("10m", "B04", 10),
        ("20m", "B8A", 20),
        ("60m", "B09", 60),
        ("20m_uint8", "SCL", 20),
    ):
        array = tree[group].data.sel(band=band)
        for number, name in enumerate((SAFE, LATER)):
            expected = numbers_of(dates / name, band, metres)
            assert np.array_equal(array[number], expected)
    assert "snow_ice" in tree["20m_uint8"].data.attrs["flag_meanings"]
    assert not any(url.endswith(".xml") for url in made_of(out))


def made_of(out):
    return [record["url"] for record in jnrrdz.info(out)["sources"]]


def test_manifests_of_products_make_the_same_cube(dates, tmp_path):
    for name in (SAFE, LATER):
        jnrrdz.index(dates / name, tmp_path / f"{name}.json")
    of_products, of_manifests = tmp_path / "a.json", tmp_path / "b.json"
    jnrrdz.cube([dates / SAFE, dates / LATER], of_products)
    jnrrdz.cube([tmp_path / f"{name}.json" for name in (SAFE, LATER)], of_manifests)
    for path in (of_products, of_manifests):
        tree = xr.open_datatree(path, **STORED)
        expected = numbers_of(dates / LATER, "B04", 10)
        assert np.array_equal(tree["10m"].data.sel(band="B04")[1], expected)


def test_bands_can_be_chosen(dates, tmp_path):
    out = tmp_path / "cube.json"
    jnrrdz.cube([dates / SAFE, dates / LATER], out, assets=["B04", "B08"])
    dataset = xr.open_dataset(out, **STORED)
    assert dataset.band.to_numpy().tolist() == ["B04", "B08"]
    with pytest.raises(JnrrdzError, match="none of the bands B99; there are B02"):
        jnrrdz.cube([dates / SAFE], tmp_path / "none.json", assets=["B99"])


def test_values_are_reflectance(dates, tmp_path):
    out = tmp_path / "cube.json"
    jnrrdz.cube([dates / SAFE, dates / LATER], out, assets=["B04", "B08"])
    red = xr.open_dataset(out).data.sel(band="B04")[0]
    numbers = numbers_of(dates / SAFE, "B04", 10)
    expected = np.where(numbers == 0, np.nan, (numbers - 1000.0) / 10000)
    assert np.allclose(red, expected, equal_nan=True)


def test_baselines_with_other_offsets_are_refused(dates, tmp_path):
    old = writers.safe(
        tmp_path, LATER, change=lambda text: later(text).replace(">-1000<", ">0<")
    )
    with pytest.raises(JnrrdzError, match="offsets of band"):
        jnrrdz.cube([dates / SAFE, old], tmp_path / "cube.json")


def test_a_later_product_is_appended(dates, tmp_path):
    out = tmp_path / "cube.parquet"
    jnrrdz.cube([dates / SAFE], out)
    jnrrdz.cube([dates / LATER], out, append=True)
    array = xr.open_dataset(out, group="10m", **STORED).data.sel(band="B04")
    assert np.array_equal(array[1], numbers_of(dates / LATER, "B04", 10))


def test_the_less_cloudy_product_is_taken(dates, tmp_path):
    clear = writers.safe(
        tmp_path,
        SAFE.replace("T164454", "T200000"),
        seed=2,
        change=lambda text: text.replace("59.769726", "1.5"),
    )
    out = tmp_path / "cube.json"
    jnrrdz.cube([dates / SAFE, clear], out, by=["cloud"])
    array = xr.open_dataset(out, group="10m", **STORED).data.sel(band="B04")
    assert np.array_equal(array[0], numbers_of(clear, "B04", 10))


def test_classes_of_landsat_keep_their_own_bits(products, tmp_path):
    out = tmp_path / "cube.json"
    jnrrdz.cube([products / LANDSAT_8], out)
    tree = xr.open_datatree(out, **STORED)
    by_band = {
        group.data.band.to_numpy().tolist()[0]: group.data.attrs
        for group in tree.children.values()
        if "flag_meanings" in group.data.attrs
    }
    assert set(by_band) == {"QA_PIXEL", "QA_RADSAT", "SR_QA_AEROSOL"}
    assert "terrain_occlusion" in by_band["QA_RADSAT"]["flag_meanings"]
    assert "terrain_occlusion" not in by_band["QA_PIXEL"]["flag_meanings"]


def test_a_changed_image_of_a_cube_is_refused(dates, tmp_path):
    folder = writers.moved(dates / SAFE, tmp_path)
    out = tmp_path / "cube.json"
    jnrrdz.cube([folder, dates / LATER], out, assets=["10m/B04"])
    assert xr.open_dataset(out).data.shape == (2, 1, 192, 192)
    path = image_of(folder, "B04", 10)
    other = numbers_of(folder, "B04", 10)[None, ::-1]
    writers.write_image(path, other, 10, "JP2OpenJPEG", **writers.JP2)
    with pytest.raises(JnrrdzError, match="cube --overwrite"):
        jnrrdz.refresh(out)
