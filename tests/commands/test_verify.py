"""What `verify` finds: in manifests whose sources are fine, changed, cut, gone or damaged."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.errors import JnrrdzError
from tests import writers

SIDE, TILE = 256, 64
TILES = (SIDE // TILE) ** 2


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def picture(name, seed=1, **options):
    pixels = np.random.default_rng(seed).integers(0, 999, (SIDE, SIDE)).astype("u2")
    tifffile.imwrite(name, pixels, tile=(TILE, TILE), **{"compression": "zlib"} | options)
    return pixels


@pytest.fixture
def refs():
    picture("a.tif")
    jnrrdz.index("a.tif", "a.json")
    return "a.json"


def kinds(found):
    return {finding.kind for finding in found.findings}


def tile_place(number):
    with tifffile.TiffFile("a.tif") as file:
        page = file.pages.first
        return page.dataoffsets[number], page.databytecounts[number]


@pytest.mark.parametrize(("form", "name"), [("json", "b.json"), ("parquet", "b.parquet")])
@pytest.mark.parametrize(("deep", "chunks"), [(False, 8), (True, TILES)])
def test_fine(form, name, deep, chunks):
    picture("a.tif")
    jnrrdz.index("a.tif", name, format=form)
    found = jnrrdz.verify(name, deep=deep)
    assert found.ok
    assert (found.sources, found.ranges, found.chunks) == (1, TILES, chunks)


def test_a_source_is_scanned():
    picture("a.tif")
    assert jnrrdz.verify("a.tif").ok


def test_drift_looks_at_sources_only(refs):
    found = jnrrdz.verify(refs, drift=True)
    assert (found.ok, found.sources, found.ranges, found.chunks) == (True, 1, 0, 0)


@pytest.mark.parametrize("drift", [True, False])
def test_a_source_of_another_size(refs, drift):
    with Path("a.tif").open("ab") as file:
        file.write(b"more")
    found = jnrrdz.verify(refs, drift=drift)
    assert kinds(found) == {"drift"}
    assert found.findings[0].place.endswith("a.tif")
    assert found.chunks == 0


def test_a_source_that_is_gone(refs):
    Path("a.tif").unlink()
    assert kinds(jnrrdz.verify(refs)) == {"source"}


def damaged(number):
    offset, length = tile_place(number)
    with Path("a.tif").open("r+b") as file:
        file.seek(offset + length // 2)
        file.write(bytes(16))
    os.utime("a.tif", ns=(0, 0))


def test_a_damaged_tile_is_found_by_a_deep_look(refs):
    then = Path("a.tif").stat().st_mtime_ns
    damaged(9)
    os.utime("a.tif", ns=(then, then))
    Path(refs).touch()  # no time of the status is newer: a disk that loses bits changes none
    found = jnrrdz.verify(refs, deep=True)
    assert [finding.place for finding in found.findings] == ["data/c/2/1"]
    assert kinds(found) == {"chunk"}


def test_the_first_and_the_last_chunk_are_in_every_sample(refs):
    then = Path("a.tif").stat().st_mtime_ns
    damaged(0)
    damaged(TILES - 1)
    os.utime("a.tif", ns=(then, then))
    Path(refs).touch()  # no time of the status is newer: a disk that loses bits changes none
    found = jnrrdz.verify(refs, sample=2)
    assert [finding.place for finding in found.findings] == ["data/c/0/0", "data/c/3/3"]


def test_nothing_is_read_where_nothing_is_asked_for(refs):
    assert jnrrdz.verify(refs, sample=0).chunks == 0


def edited(refs, change):
    document = json.loads(Path(refs).read_text())
    change(document)
    Path(refs).write_text(json.dumps(document))


def test_a_range_behind_the_end(refs):
    size = Path("a.tif").stat().st_size

    def move(document):
        document["refs"]["data/c/1/2"][1] = size - 3

    edited(refs, move)
    found = jnrrdz.verify(refs, sample=0)
    assert [(finding.kind, finding.place) for finding in found.findings] == [("range", "data/c/1/2")]
    assert str(size) in found.findings[0].message


@pytest.mark.parametrize(("beyond", "kinds_found"), [(0, set()), (1, {"range"})])
def test_a_range_may_end_with_its_source_and_no_later(refs, beyond, kinds_found):
    size = Path("a.tif").stat().st_size

    def move(document):
        place = document["refs"]["data/c/1/2"]
        place[1] = size - place[2] + beyond

    edited(refs, move)
    assert kinds(jnrrdz.verify(refs, sample=0)) == kinds_found


def test_many_ranges_behind_the_end_are_counted():
    tifffile.imwrite("a.tif", np.zeros((1024, 1024), "u1"), tile=(16, 16))
    jnrrdz.index("a.tif", "a.json")

    def shrink(document):
        own = json.loads(document["refs"]["zarr.json"])
        own["attributes"]["jnrrdz"]["sources"][0].pop("size")
        document["refs"]["zarr.json"] = json.dumps(own)

    edited("a.json", shrink)
    with Path("a.tif").open("r+b") as file:
        file.truncate(tile_place(100)[0])
    found = jnrrdz.verify("a.json", sample=0)
    ranges = [finding for finding in found.findings if finding.kind == "range"]
    assert len(ranges) == 21
    assert "3,976 more" in ranges[-1].message


def test_what_a_manifest_may_not_reach(refs):
    Path("elsewhere").mkdir()
    picture("elsewhere/b.tif", 2)

    def reach(document):
        document["refs"]["data/c/0/0"][0] = os.path.realpath("elsewhere/b.tif")

    edited(refs, reach)
    assert "trust" in kinds(jnrrdz.verify(refs))
    assert "trust" not in kinds(jnrrdz.verify(refs, allow=["*"]))


def n5(path, shape=(96, 64), blocks=(32, 32)):
    writers.n5_dataset(path, np.ones(shape, "u2"), blocks, "gzip")


@pytest.mark.parametrize("object_versions", [True, False])
def test_blocks_of_a_container_are_known_from_its_listing(object_versions):
    n5("v.n5")
    jnrrdz.index("v.n5", "v.json", object_versions=object_versions)
    found = jnrrdz.verify("v.json")
    assert found.ok
    assert found.ranges == 6
    os.truncate("v.n5/1/0", 5)
    Path("v.n5/2/1").unlink()
    found = jnrrdz.verify("v.json", sample=0)
    assert {(finding.kind, os.path.relpath(finding.place)) for finding in found.findings} == {
        ("range", "data/c/0/1"),
        ("source", "v.n5/2/1"),
        *([("drift", "v.n5/1/0")] if object_versions else []),
    }


def test_a_container_that_is_gone():
    n5("v.n5")
    jnrrdz.index("v.n5", "v.json")
    shutil.rmtree("v.n5")
    assert kinds(jnrrdz.verify("v.json")) == {"source"}


def test_the_result_as_json(refs):
    found = jnrrdz.verify(refs).to_json()
    assert json.loads(json.dumps(found))["ok"] is True


@pytest.mark.parametrize("options", [{"sample": -1}, {"jobs": 0}])
def test_wishes_that_mean_nothing(refs, options):
    with pytest.raises(JnrrdzError, match="sample"):
        jnrrdz.verify(refs, **options)


def test_a_manifest_that_is_not_there():
    with pytest.raises(JnrrdzError, match=r"gone\.json"):
        jnrrdz.verify("gone.json")
