"""A batch over local files: outputs as `index` makes them, resumed, sharded, refused, reported."""

import json
import subprocess
import sys

import numpy as np
import pytest
import rasterio
import tifffile

import jnrrdz
from jnrrdz.batches import run
from jnrrdz.batches.item import Found, Template
from jnrrdz.batches.selection import Selection
from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import redacted
from tests import writers
from tests.nitf.conftest import nitf_bytes

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


@pytest.fixture
def scenes(tmp_path):
    folder = tmp_path / "in" / "a"
    folder.mkdir(parents=True)
    for number in range(6):
        tifffile.imwrite(folder / f"s{number}.tif", np.full((32, 32), number, "u2"), tile=(16, 16))
    return tmp_path


def outputs(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", [{}, {"processes": 2}])
def test_outputs_are_those_of_index(scenes, how):
    done = run.batch(f"{scenes}/in/**/*.tif", f"{scenes}/out/{{path}}.json", **how)
    assert (done.ok, done.failed, done.requests) == (6, 0, 6)
    expected = scenes / "expected"
    expected.mkdir()
    for path in (scenes / "in" / "a").iterdir():
        jnrrdz.index(path, expected / f"{path.stem}.json")
    assert outputs(scenes / "out" / "a") == outputs(expected)


def test_resume_redoes_what_changed_and_what_is_broken(scenes):
    out = f"{scenes}/out/{{stem}}.json"
    run.batch(f"{scenes}/in/", out)
    assert run.batch(f"{scenes}/in/", out).failed == 6
    tifffile.imwrite(scenes / "in/a/s1.tif", np.ones((64, 64), "u2"), tile=(16, 16))
    (scenes / "out/s2.json").write_bytes(b"")
    (scenes / "out/s3.json").write_bytes((scenes / "out/s3.json").read_bytes()[:-40])
    done = run.batch(f"{scenes}/in/", out, resume=True)
    assert (done.ok, done.skipped, done.failed) == (3, 3, 0)


def test_resume_of_icechunk_repositories_redoes_what_changed(scenes):
    out = f"{scenes}/out/{{stem}}.icechunk"
    assert run.batch(f"{scenes}/in/", out, resume=True).ok == 6
    assert run.batch(f"{scenes}/in/", out, resume=True).skipped == 6
    pixels = np.full((64, 64), 9, "u2")
    tifffile.imwrite(scenes / "in/a/s1.tif", pixels, tile=(16, 16))
    done = run.batch(f"{scenes}/in/", out, resume=True)
    assert (done.ok, done.skipped, done.failed) == (1, 5, 0)
    group = jnrrdz.open_group(f"{scenes}/out/s1.icechunk")
    np.testing.assert_array_equal(group["data"][...], pixels)
    assert run.batch(f"{scenes}/in/", out, resume=True, overviews=False).ok == 6
    assert run.batch(f"{scenes}/in/", out, resume=True, overviews=False).skipped == 6
    assert run.batch(f"{scenes}/in/", out).failed == 6


def test_one_bad_file_is_told_and_the_others_are_done(scenes):
    (scenes / "in/a/s3.tif").write_bytes(b"II*\0nonsense")
    done = run.batch(f"{scenes}/in/", f"{scenes}/out/{{stem}}.json", report=scenes / "r.jsonl")
    assert (done.ok, done.failed) == (5, 1)
    lines = [json.loads(line) for line in (scenes / "r.jsonl").read_text().splitlines()]
    (bad,) = [line for line in lines if line["state"] == "failed"]
    assert (bad["error"], bad["attempts"], len(lines)) == ("MalformedError", 1, 6)


@pytest.mark.parametrize("how", [{}, {"processes": 2}, {"scheduler": "local"}])
def test_a_file_without_images_is_no_failure(scenes, how):
    (scenes / "in/a/text.ntf").write_bytes(nitf_bytes())
    with rasterio.open(scenes / "in/a/text.ntf") as file:  # GDAL finds no band in it either
        assert file.count == 0
    done = run.batch(f"{scenes}/in/", f"{scenes}/out/{{stem}}.json", report=scenes / "r.jsonl", fail_fast=True, **how)
    assert (done.ok, done.empty, done.failed, done.total, done.stopped) == (6, 1, 0, 7, None)
    lines = [json.loads(line) for line in (scenes / "r.jsonl").read_text().splitlines()]
    (empty,) = [line for line in lines if line["state"] == "empty"]
    assert (empty["error"], empty["source"]) == ("NoImageError", f"{scenes}/in/a/text.ntf")
    assert not (scenes / "out/text.json").exists()
    with pytest.raises(jnrrdz.NoImageError, match="no image segment"):
        jnrrdz.scan(scenes / "in/a/text.ntf")


NAMES = (
    *("a.tif", "b.tf2", "c.stk", "d.qptiff", "e.bif", "f.ptif", "g.TIFF"),
    *("h.ntf.r0", "i.nsif", "j.NTF"),
)
OTHERS = {".xml": 2, ".r1": 1, "no ending": 1, ".json": 1}


def test_every_ending_of_a_format_is_taken_and_others_are_counted(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        kind = "NITF" if name in NAMES[-3:] else "GTiff"
        writers.gdal_image(folder / name, np.full((8, 8), number, "u1"), driver=kind)
    for name in ("a.tif.xml", "b.xml", "z.ntf.r1", "README", "notes.json", ".hidden"):
        (folder / name).write_text("{}")
    done = run.batch(f"{folder}/", f"{tmp_path}/out/{{name}}.json")
    assert (done.ok, done.failed) == (len(NAMES), 0)
    assert done.passed_over == OTHERS
    for number, name in enumerate(NAMES):
        assert (jnrrdz.open_dataset(tmp_path / "out" / f"{name}.json")["data"].values == number).all()


def test_shards_are_a_partition_that_additions_do_not_move():
    def urls(part, sources):
        return {one.url for one in Selection(sources, shard=part).found(lambda _: None)}

    few = [f"a{number}" for number in range(50)]
    more = [f"b{number}" for number in range(50)] + few
    parts = [urls((part, 3), few) for part in (1, 2, 3)]
    assert set.union(*parts) == set(few)
    assert sum(map(len, parts)) == 50
    assert all(part <= urls((number, 3), more) for number, part in enumerate(parts, 1))


@pytest.mark.parametrize("text", ["{nope}.json", "{stem", "a}b"])
def test_unknown_placeholders_are_refused(text):
    with pytest.raises(JnrrdzError, match="placeholder"):
        Template(text)


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "a\\b", ""])
def test_no_value_leads_out_of_the_folder(name):
    with pytest.raises(JnrrdzError, match="no name for an output"):
        Template("out/{id}.json").filled(Found("s3://b/a.tif", names=(("id", name),)), 0)


def test_collisions_fail_and_one_output_for_several_is_refused(scenes):
    (scenes / "in/b").mkdir()
    (scenes / "in/b/s0.tif").write_bytes((scenes / "in/a/s0.tif").read_bytes())
    done = run.batch(f"{scenes}/in/", f"{scenes}/out/{{stem}}.json")
    assert (done.ok, done.failed) == (6, 1)
    with pytest.raises(JnrrdzError, match="one output for several"):
        run.batch(f"{scenes}/in/", f"{scenes}/one.json")


def test_signatures_are_hidden():
    url = "https://u:pw@h/a.tif?X-Amz-Signature=abc&X-Amz-Credential=AK/1&sig=zzz&versionId=1"
    shown = redacted(url)
    assert not any(secret in shown for secret in ("pw", "abc", "AK/1", "zzz"))
    assert shown == "https://h/a.tif?versionId=1&REDACTED"


def test_twins_that_are_named_one_by_one_are_refused_before_anything_is_done(scenes):
    (scenes / "in/b").mkdir()
    (scenes / "in/b/s0.tif").write_bytes((scenes / "in/a/s0.tif").read_bytes())
    named = [f"{scenes}/in/a/s0.tif", f"{scenes}/in/b/s0.tif"]
    with pytest.raises(JnrrdzError, match=r"a/s0\.tif"):
        run.batch(named, f"{scenes}/out/{{stem}}.json")
    assert not (scenes / "out").exists()
    assert run.batch(named, f"{scenes}/out/{{parent}}_{{stem}}.json").ok == 2


@pytest.mark.parametrize("code", ["import jnrrdz", "import jnrrdz.batches.run", "from jnrrdz import batch"])
def test_the_library_has_it_by_its_name_whatever_was_imported_before(scenes, code):
    call = f"print(jnrrdz.batch('{scenes}/in/', '{scenes}/out/{{stem}}.json').ok)"
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import jnrrdz; {call}"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "6\n"
