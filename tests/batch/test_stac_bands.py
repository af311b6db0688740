"""What STAC items say of bands: applied where the file says nothing, compared where it does; and the way back."""

import json
import warnings
from datetime import UTC, datetime

import numpy as np
import pystac
import pytest
import xarray as xr

import jnrrdz
from jnrrdz.errors import MalformedError
from tests import writers
from tests.stac_reader import validated

DAYS, BANDS = ("20240601", "20240611"), ("B02", "B04")
NODATA, SCALE, OFFSET = 7, 0.0001, -0.1


def write(path, seed=0, count=1, *, scale=None, offset=None, **options):
    """Write pixels, some of them 7, without a word on nodata, scale or names."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 12, (count, 128, 128)).astype("u2")
    tiles = {**writers.TILES, "compress": "none", "interleave": "band"}
    with writers.gdal_file(path, pixels, **writers.PLACE, **tiles, **options) as file:
        if scale is not None:
            file.scales, file.offsets = [scale] * count, [offset] * count
    return pixels


def item(path, **fields):
    """Write an item of one asset, as pystac has it, and return its path."""
    when = datetime(2024, 6, 1, tzinfo=UTC)
    made = pystac.Item("scene", None, None, when, {})
    asset = pystac.Asset(str(path), media_type=pystac.MediaType.COG, roles=["data"], extra_fields=fields)
    made.add_asset("B04", asset)
    target = path.with_suffix(".stac.json")
    target.write_text(json.dumps(made.to_dict(include_self_link=False)))
    return target


SPELLINGS = {
    "1.0": {"raster:bands": [{"nodata": NODATA, "scale": SCALE, "offset": OFFSET}]},
    "1.1": {"bands": [{"nodata": NODATA, "raster:scale": SCALE, "raster:offset": OFFSET}]},
    "1.1, above the bands": {"nodata": NODATA, "raster:scale": SCALE, "raster:offset": OFFSET, "bands": [{}]},
    "1.1, no bands": {"nodata": NODATA, "raster:scale": SCALE, "raster:offset": OFFSET},
}


def opened(source, tmp_path, how):
    """Return the only image of an item, indexed by a batch or as a cube."""
    if how == "batch":
        done = jnrrdz.batch(str(source), f"{tmp_path}/out.json", processes=1)
        assert done.failed == 0, done.failures
        return xr.open_dataset(tmp_path / "out.json", engine="jnrrdz")["data"]
    jnrrdz.cube([], tmp_path / "out.json", stac=[str(source)])
    found = xr.open_dataset(tmp_path / "out.json", engine="jnrrdz")
    return (found["B04"] if "B04" in found else found["data"].sel(band="B04"))[0]


@pytest.mark.parametrize("how", ["batch", "cube"])
@pytest.mark.parametrize("fields", SPELLINGS.values(), ids=SPELLINGS)
def test_an_item_says_what_the_file_does_not(tmp_path, how, fields):
    pixels = write(tmp_path / "a.tif")[0]
    found = opened(item(tmp_path / "a.tif", **fields), tmp_path, how)
    expected = np.where(pixels == NODATA, np.nan, pixels * SCALE + OFFSET)
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)
    assert np.isnan(found.values).any()


@pytest.mark.parametrize("how", ["batch", "cube"])
def test_the_file_goes_first_and_a_warning_names_both(tmp_path, how):
    pixels = write(tmp_path / "a.tif", scale=0.5, offset=3.0, nodata=5)[0]
    source = item(tmp_path / "a.tif", **SPELLINGS["1.0"])
    if how == "batch":
        report = tmp_path / "report.jsonl"
        jnrrdz.batch(str(source), f"{tmp_path}/out.json", processes=1, report=report)
        told = json.loads(report.read_text())["warnings"]
        found = xr.open_dataset(tmp_path / "out.json", engine="jnrrdz", mask_and_scale=False)["data"]
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            jnrrdz.cube([], tmp_path / "out.json", stac=[str(source)])
        told = [str(one.message) for one in caught]
        root = xr.open_dataset(tmp_path / "out.json", engine="jnrrdz", mask_and_scale=False)
        found = root["B04"] if "B04" in root else root["data"]
    text = " ".join(told)
    assert "nodata is 5 in the file and 7 in the STAC item: the file's is taken" in text
    assert "scale and offset are 0.5 and 3 in the file and 0.0001 and -0.1 in the STAC item" in text
    assert found.attrs["_FillValue"] == 5
    np.testing.assert_array_equal(found.values.squeeze(), pixels)


def test_both_may_say_the_same(tmp_path):
    write(tmp_path / "a.tif", scale=SCALE, offset=OFFSET, nodata=NODATA)
    source = item(tmp_path / "a.tif", **SPELLINGS["1.0"])
    jnrrdz.batch(str(source), f"{tmp_path}/out.json", processes=1, report=tmp_path / "report.jsonl")
    assert "warnings" not in json.loads((tmp_path / "report.jsonl").read_text())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"raster:bands": [{"nodata": -9999}]}, "nodata -9999 of the STAC item is no uint16"),
        ({"raster:bands": [{"nodata": "nan"}]}, "nodata nan of the STAC item is no uint16"),
        ({"raster:bands": [{"scale": 0}]}, "are? no numbers to scale by"),
        ({"raster:bands": [{"nodata": 1}] * 3}, "3 bands in the STAC item, 1 in the file"),
    ],
)
def test_what_cannot_be_meant_is_left_out_with_a_warning(tmp_path, fields, message):
    pixels = write(tmp_path / "a.tif")[0]
    source = item(tmp_path / "a.tif", **fields)
    with pytest.warns(UserWarning, match=message):
        jnrrdz.cube([], tmp_path / "out.json", stac=[str(source)])
    found = xr.open_dataset(tmp_path / "out.json", engine="jnrrdz")
    np.testing.assert_array_equal((found["B04"] if "B04" in found else found["data"]).values.squeeze(), pixels)


def test_bands_that_differ_have_a_scale_each(tmp_path):
    write(tmp_path / "a.tif", count=2)
    bands = [{"raster:scale": 0.1, "nodata": 7}, {"raster:scale": 0.5, "raster:offset": 2, "nodata": 7}]
    source = item(tmp_path / "a.tif", bands=bands)
    jnrrdz.batch(str(source), f"{tmp_path}/out.json", processes=1)
    refs = json.loads((tmp_path / "out.json").read_text())["refs"]
    attributes = json.loads(refs["data/zarr.json"])["attributes"]
    assert (attributes["scales"], attributes["offsets"]) == ([0.1, 0.5], [0.0, 2.0])


@pytest.fixture
def archive(tmp_path):
    """Return a folder with a file for each day and band, and all pixels."""
    folder, pixels = tmp_path / "scenes", {}
    folder.mkdir()
    for number, (day, band) in enumerate((day, band) for day in DAYS for band in BANDS):
        pixels[day, band] = write(folder / f"T_{day}_{band}.tif", seed=number)[0]
    return folder, pixels


RULES = {"time_from": r"_(\d{8})", "band_from": r"_(B\d\d)"}


def band_of(found, band):
    return found[band] if band in found else found["data"].sel(band=band)


def test_items_of_a_batch_become_the_cube_of_its_files(archive, tmp_path):
    folder, pixels = archive
    jnrrdz.batch(str(folder), f"{tmp_path}/refs/{{stem}}.json", stac_out=tmp_path / "stac", processes=1, **RULES)
    for path in (tmp_path / "stac" / "items").iterdir():
        made = validated(json.loads(path.read_text()))
        assert [band["name"] for band in made.assets["image"].to_dict()["bands"]] == [path.stem.rpartition("_")[2]]
    jnrrdz.cube([], tmp_path / "back.json", stac=[str(tmp_path / "stac" / "collection.json")])
    jnrrdz.cube(sorted(map(str, folder.iterdir())), tmp_path / "files.json", **RULES)
    back, files = (xr.open_dataset(tmp_path / name, engine="jnrrdz") for name in ("back.json", "files.json"))
    xr.testing.assert_identical(back, files)
    for (day, band), expected in pixels.items():
        np.testing.assert_array_equal(band_of(back, band)[DAYS.index(day)], expected)


def test_one_band_without_a_name_is_what_it_is_without_the_item(archive, tmp_path):
    folder, _ = archive
    for path in folder.glob("*B04.tif"):
        path.unlink()
    rule = {"time_from": RULES["time_from"]}
    jnrrdz.batch(str(folder), f"{tmp_path}/refs/{{stem}}.json", stac_out=tmp_path / "stac", processes=1, **rule)
    jnrrdz.cube([], tmp_path / "back.json", stac=[str(tmp_path / "stac" / "collection.json")])
    jnrrdz.cube(sorted(map(str, folder.iterdir())), tmp_path / "files.json", **rule)
    back, files = (xr.open_dataset(tmp_path / name, engine="jnrrdz") for name in ("back.json", "files.json"))
    xr.testing.assert_identical(back, files)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_the_collection_of_a_cube_leads_back_to_it(archive, tmp_path, form):
    folder, _ = archive
    cube, collection = tmp_path / f"cube.{form}", tmp_path / "collection.json"
    jnrrdz.cube(sorted(map(str, folder.iterdir())), cube, stac_out=str(collection), **RULES)
    made = jnrrdz.cube([], tmp_path / "back.json", stac=[str(collection)])
    assert (made.files, made.times, made.missing) == (4, 2, 0)
    back = xr.open_dataset(tmp_path / "back.json", engine="jnrrdz")
    xr.testing.assert_identical(back, xr.open_dataset(cube, engine="jnrrdz"))
    done = jnrrdz.batch(str(collection), f"{tmp_path}/out/{{stem}}.json", processes=1)
    assert (done.ok, done.failed) == (0, 1)  # a manifest is no image


@pytest.mark.parametrize("rule", ["(", "B"])
def test_a_rule_for_bands_that_is_none_is_refused_at_once(archive, tmp_path, rule):
    folder, _ = archive
    with pytest.raises(MalformedError, match="--band-from"):
        jnrrdz.batch(str(folder), f"{tmp_path}/refs/{{stem}}.json", stac_out=tmp_path / "stac", band_from=rule)


def test_a_rule_that_finds_nothing_fails_for_its_file(archive, tmp_path):
    folder, _ = archive
    rules = {**RULES, "band_from": r"_(B02)"}
    done = jnrrdz.batch(str(folder), f"{tmp_path}/refs/{{stem}}.json", stac_out=tmp_path / "stac", **rules)
    assert (done.ok, done.failed) == (2, 2)
    assert "B04.tif" in done.failures[0]["message"]
