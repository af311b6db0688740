"""`refresh`: what changed is scanned again, and read right after; and `convert`."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.commands.convert import prefix_of
from jnrrdz.errors import DriftError, JnrrdzError, MalformedError, UnrepresentableError
from tests import writers


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scene(name, seed, **profile):
    return writers.scene(name, seed, 200 + seed, **profile)


def pixels_of(refs):
    return jnrrdz.open_dataset(refs)["data"].values


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
@pytest.mark.parametrize("relative", [True, False])
def test_one_source(name, relative):
    scene("a.tif", 1)
    jnrrdz.index("a.tif", name, relative=relative)
    before = Path("a.json").read_bytes() if name == "a.json" else None
    assert jnrrdz.refresh(name).changed == ()
    if before is not None:
        assert Path("a.json").read_bytes() == before
    now = scene("a.tif", 5000)
    with pytest.raises(DriftError):
        pixels_of(name)
    assert len(jnrrdz.refresh(name, dry_run=True).changed) == 1
    with pytest.raises(DriftError):
        pixels_of(name)
    assert len(jnrrdz.refresh(name).changed) == 1
    np.testing.assert_array_equal(pixels_of(name), now)
    assert jnrrdz.refresh(name).changed == ()
    fresh = "b" + name[1:]
    jnrrdz.index("a.tif", fresh, relative=relative)
    if name == "a.json":
        assert Path("a.json").read_bytes() == Path(fresh).read_bytes()


def test_choices_of_the_scan_are_kept():
    scene("a.tif", 1, nodata=0)
    jnrrdz.index("a.tif", "a.json", physical=True)
    assert json.loads(json.loads(Path("a.json").read_text())["refs"]["zarr.json"])["attributes"]["jnrrdz"][
        "options"
    ] == {"physical": True}
    now = scene("a.tif", 5000, nodata=0)
    jnrrdz.refresh("a.json")
    found = pixels_of("a.json")
    assert found.dtype.kind == "f"
    np.testing.assert_array_equal(np.isnan(found), now == 0)


@pytest.mark.parametrize("name", ["year.json", "year.parquet"])
def test_one_member_of_a_stack(name):
    images = {day: scene(f"s_2020010{day}.tif", day) for day in (1, 2, 3)}
    jnrrdz.merge(sorted(map(str, Path().glob("*.tif"))), name, concat_dim="time", coord_from=r"_(\d{8})")
    images[2] = scene("s_20200102.tif", 7000)
    done = jnrrdz.refresh(name)
    assert [os.path.basename(url) for url in done.changed] == ["s_20200102.tif"]  # noqa: PTH119
    found = jnrrdz.open_dataset(name)
    np.testing.assert_array_equal(found["data"].values, [images[day] for day in (1, 2, 3)])
    assert found.sizes["time"] == 3
    assert jnrrdz.refresh(name).changed == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transform": from_origin(500010, 5000000, 10, 10)}, "attribute"),
        ({"crs": "EPSG:32634"}, "attribute"),
        ({"compress": "zstd"}, "codecs"),
        ({"blockxsize": 32, "blockysize": 32}, "chunk shape"),
        ({"dtype": "int16"}, "data type"),
    ],
)
def test_a_member_that_no_longer_fits_is_refused(change, message):
    for day in (1, 2):
        scene(f"s_2020010{day}.tif", day)
    jnrrdz.merge(["s_20200101.tif", "s_20200102.tif"], "year.json", concat_dim="time", coord_from=r"_(\d{8})")
    before = Path("year.json").read_bytes()
    scene("s_20200102.tif", 7000, **change)
    with pytest.raises(UnrepresentableError, match=message):
        jnrrdz.refresh("year.json")
    assert Path("year.json").read_bytes() == before


def test_a_member_whose_values_mean_something_else_is_refused():
    for day in (1, 2):
        scene(f"s_{day}.tif", day)
        with rasterio.open(f"s_{day}.tif", "r+") as file:
            file.units = ("m",)
    jnrrdz.merge(["s_1.tif", "s_2.tif"], "year.json", concat_dim="time", coord_from=r"_(\d)")
    scene("s_2.tif", 7000)
    with rasterio.open("s_2.tif", "r+") as file:
        file.units = ("feet",)
    with pytest.raises(UnrepresentableError, match="data: attribute 'units'"):
        jnrrdz.refresh("year.json")


def test_a_source_that_is_gone_is_named():
    scene("a.tif", 1)
    jnrrdz.index("a.tif", "a.json")
    Path("a.tif").unlink()
    with pytest.raises(JnrrdzError, match=r"a\.tif.*cannot be scanned again"):
        jnrrdz.refresh("a.json")


@pytest.mark.parametrize("options", [{"allow": ["*"]}, {"physical": 3}, {"unknown": True}, {"chain": True}, 5, None])
def test_options_that_no_scan_has_are_refused(options):
    scene("a.tif", 1)
    jnrrdz.index("a.tif", "a.json")
    document = json.loads(Path("a.json").read_text())
    root = json.loads(document["refs"]["zarr.json"])
    root["attributes"]["jnrrdz"]["options"] = options
    document["refs"]["zarr.json"] = json.dumps(root)
    Path("a.json").write_text(json.dumps(document))
    scene("a.tif", 5000)
    with pytest.raises(JnrrdzError, match="options"):
        jnrrdz.refresh("a.json")


def test_a_source_is_no_manifest():
    scene("a.tif", 1)
    with pytest.raises(JnrrdzError, match="not a manifest"):
        jnrrdz.refresh("a.tif")


@pytest.mark.parametrize(("form", "out"), [("json", "b.json"), ("parquet", "b.parquet")])
def test_convert_to_where_the_sources_are_now(form, out):
    Path("old").mkdir()
    pixels = scene("old/a.tif", 1)
    jnrrdz.index("old/a.tif", "a.json")
    shutil.move("old", "new")
    here = os.path.realpath(".")
    jnrrdz.convert("a.json", out, format=form, rewrite_prefix={f"{here}/old": f"{here}/new"})
    np.testing.assert_array_equal(pixels_of(out), pixels)
    assert jnrrdz.verify(out, deep=True).ok


def test_convert_back_and_forth_changes_nothing():
    scene("a.tif", 1)
    jnrrdz.index("a.tif", "a.json")
    jnrrdz.convert("a.json", "b.parquet")
    jnrrdz.convert("b.parquet", "c.json")
    assert Path("c.json").read_bytes() == Path("a.json").read_bytes()


def test_a_copy_keeps_its_size_and_loses_what_is_the_originals():
    scene("a.tif", 1)
    jnrrdz.index("a.tif", "a.json")
    here = os.path.realpath(".")
    made = jnrrdz.convert("a.json", "b.json", rewrite_prefix={here: "s3://bucket/x"}, check=False)
    (record,) = made.sources
    assert record.url == "s3://bucket/x/a.tif"
    assert record.size == Path("a.tif").stat().st_size
    assert (record.etag, record.version, record.modified) == (None, None, None)
    refs = json.loads(Path("b.json").read_text())["refs"]
    assert {value[0] for key, value in refs.items() if not key.endswith("zarr.json")} == {"s3://bucket/x/a.tif"}


def test_a_prefix_ends_where_a_name_ends():
    Path("ab").mkdir()
    scene("ab/a.tif", 1)
    jnrrdz.index("ab/a.tif", "a.json")
    here = os.path.realpath(".")
    with pytest.raises(UnrepresentableError, match="no source begins with"):
        jnrrdz.convert("a.json", "b.json", rewrite_prefix={f"{here}/a": "/x"})
    assert not Path("b.json").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://a=s3://b", ("s3://a", "s3://b")),
        ("/data/year=2020=/new/year=2020", ("/data/year=2020", "/new/year=2020")),
        ("old=new", ("old", "new")),
    ],
)
def test_both_sides_of_a_rule(text, expected):
    assert prefix_of(text) == expected


@pytest.mark.parametrize("text", ["", "a", "=b", "a=", "a=b=c", "a=/b=/c"])
def test_a_rule_that_has_no_two_sides(text):
    with pytest.raises(MalformedError, match="OLD=NEW"):
        prefix_of(text)
