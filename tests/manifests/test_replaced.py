"""What an output may replace: empty files and jnrrdz's own of the same kind; and names of sources that come back."""

import fcntl
import json
import os
from pathlib import Path

import fsspec
import numpy as np
import pytest
import tifffile
import zarr

import jnrrdz
from jnrrdz.batches.run import batch
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests import parquet
from jnrrdz.options import WriteOptions

PIXELS = np.arange(64, dtype="<u2").reshape(8, 8)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """Return the name of a TIFF in the working directory."""
    monkeypatch.chdir(tmp_path)
    tifffile.imwrite("scene.tif", PIXELS, tile=(16, 16))
    return "scene.tif"


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SPELLINGS = {
    "the same": str,
    "file URL": lambda path: path.as_uri(),
    "file URL, localhost": lambda path: path.as_uri().replace("file://", "file://localhost"),
    "file URL, one slash": lambda path: f"file:{path}",
    "relative": lambda path: f"./../{path.parent.name}/{path.name}",
    "local": lambda path: f"local://{path}",
}


def linked(path, kind):
    other = path.with_name("other.json")
    (other.symlink_to if kind == "symbolic" else other.hardlink_to)(path)
    return str(other)


@pytest.mark.parametrize("source", SPELLINGS)
@pytest.mark.parametrize("output", [*SPELLINGS, "symbolic link", "hard link"])
def test_a_source_is_never_replaced(scene, tmp_path, source, output):
    path = tmp_path / scene
    target = linked(path, output.split()[0]) if output.endswith("link") else SPELLINGS[output](path)
    before = files(tmp_path)
    with pytest.raises(JnrrdzError, match="replace"):
        jnrrdz.index(SPELLINGS[source](path), target, overwrite=True, format="json")
    done = batch(SPELLINGS[source](path), target, overwrite=True, format="json")
    assert (done.ok, done.failed) == (0, 1)
    assert files(tmp_path) == before


@pytest.mark.parametrize("command", ["index", "merge", "convert", "tile", "batch"])
@pytest.mark.parametrize("content", [b"precious", b"{}", b'{"refs": {}}', b'{"a": [1, 2]}', b"\0" * 100])
def test_files_of_others_are_never_replaced(scene, tmp_path, command, content):
    jnrrdz.index(scene, "scene.json")
    Path("out.json").write_bytes(content)
    run = {
        "index": lambda: jnrrdz.index(scene, "out.json", overwrite=True),
        "merge": lambda: jnrrdz.merge([scene, scene], "out.json", concat_dim="t", overwrite=True),
        "convert": lambda: jnrrdz.convert("scene.json", "out.json", overwrite=True),
        "tile": lambda: jnrrdz.tile(scene, "out.json", tile=(4, 4), overwrite=True),
        "batch": lambda: batch([scene], "out.json", overwrite=True),
    }[command]
    before = files(tmp_path)
    if command == "batch":
        assert "is not replaced" in run().failures[0]["message"]
    else:
        with pytest.raises(JnrrdzError, match=r"out\.json: exists and jnrrdz did not make it, so it is not replaced"):
            run()
    assert files(tmp_path) == before


def test_one_kind_does_not_replace_another(scene, tmp_path):
    jnrrdz.index(scene, "a.json")
    jnrrdz.tile(scene, "a.jnrrd", tile=(4, 4))
    jnrrdz.index(scene, "a.parquet")
    before = files(tmp_path)
    for target, form in [("a.jnrrd", "json"), ("a.jnrrd", "parquet"), ("a.json", "parquet"), ("a.parquet", "json")]:
        with pytest.raises(JnrrdzError, match=r"replace|name a file"):
            jnrrdz.index(scene, target, format=form, overwrite=True)
    with pytest.raises(JnrrdzError, match="is not replaced"):
        jnrrdz.tile(scene, "a.json", tile=(4, 4), overwrite=True)
    assert files(tmp_path) == before


def test_a_link_stays_and_what_it_leads_to_is_replaced(scene):
    jnrrdz.index(scene, "real.json")
    Path("link.json").symlink_to("real.json")
    tifffile.imwrite("scene.tif", PIXELS + 1, tile=(16, 16))
    jnrrdz.index(scene, "link.json", overwrite=True)
    assert Path("link.json").is_symlink()
    np.testing.assert_array_equal(jnrrdz.open_group("real.json")["data"][...], PIXELS + 1)


# Reports


def test_a_report_replaces_nothing_but_a_report(scene, tmp_path):
    jnrrdz.index(scene, "scene.json")
    Path("notes.jsonl").write_text('{"source": "a", "of": "others"}\n')
    before = files(tmp_path)
    for name in (scene, "scene.json", "notes.jsonl"):
        with pytest.raises(JnrrdzError, match=f"{name}: is no report of a batch, and is not replaced"):
            batch([scene], "out.json", report=name)
    assert files(tmp_path) == before
    Path("report.jsonl").touch()
    for number in range(2):
        batch([scene], f"out{number}.json", report="report.jsonl")
        (line,) = map(json.loads, Path("report.jsonl").read_text().splitlines())
        assert (line["output"], line["state"]) == (f"out{number}.json", "ok")


def test_an_output_does_not_replace_the_report_of_its_run(scene):
    done = batch([scene], "same.json", report="same.json", overwrite=True)
    assert (done.ok, done.failed) == (0, 1)
    assert json.loads(Path("same.json").read_text())["state"] == "failed"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names of descriptors")
def test_a_report_goes_into_a_pipe(scene):
    reader, writer = os.pipe()
    batch([scene], "out.json", report=f"/dev/fd/{writer}")
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        assert [json.loads(line)["state"] for line in lines] == ["ok"]


# Parquet manifests


@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_zarr_store_is_never_replaced(scene, tmp_path, place):
    target = str(tmp_path / "store") if place == "local" else f"memory://replaced-{tmp_path.name}/store"
    fs, path = fsspec.core.url_to_fs(target)
    group = zarr.open_group(fsspec.get_mapper(target) if place == "memory" else target, mode="w", zarr_format=2)
    group.create_array("data", shape=(4,), dtype="u1")[:] = 7
    zarr.consolidate_metadata(group.store)
    before = {name: fs.cat_file(name) for name in fs.find(path)}
    assert any(name.endswith(".zmetadata") for name in before)
    with pytest.raises(JnrrdzError, match=r"its \.zmetadata is no Parquet manifest's of jnrrdz, and is not replaced"):
        jnrrdz.index(scene, target, format="parquet", overwrite=True)
    assert {name: fs.cat_file(name) for name in fs.find(path)} == before


@pytest.mark.parametrize("metadata", ["[]", "not JSON", "{}", '{"metadata": {}}', '{"jnrrdz": {"begun": 3}}'])
def test_a_directory_whose_metadata_is_anything_else_is_left(scene, tmp_path, metadata):
    Path("out.parquet").mkdir()
    Path("out.parquet/.zmetadata").write_text(metadata)
    before = files(tmp_path)
    with pytest.raises(JnrrdzError, match="is not replaced"):
        jnrrdz.index(scene, "out.parquet", overwrite=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("place", ["local", "memory"])
def test_only_the_files_that_a_manifest_lists_are_replaced(scene, tmp_path, place):
    target = str(tmp_path / "m.parquet") if place == "local" else f"memory://listed-{tmp_path.name}/m.parquet"
    fs, path = fsspec.core.url_to_fs(target)
    group = jnrrdz.scan(scene)
    parquet.write(group, target, record_size=1)
    fs.pipe_file(f"{path}/notes.txt", b"of others")
    fs.pipe_file(f"{path}/data/refs.9.parq", b"of others")
    parquet.write(group, target, WriteOptions(overwrite=True))
    assert fs.cat_file(f"{path}/notes.txt") == fs.cat_file(f"{path}/data/refs.9.parq") == b"of others"
    names = sorted(name[len(path) + 1 :] for name in fs.find(path))
    assert names == [".zmetadata", "data/refs.0.parq", "data/refs.9.parq", "notes.txt"]
    np.testing.assert_array_equal(jnrrdz.open_group(target, allow=("*",))["data"][...], PIXELS)


def test_a_file_of_others_under_a_name_that_is_needed_is_left(scene, tmp_path):
    group = jnrrdz.scan(scene)
    parquet.write(group, "m.parquet")
    tifffile.imwrite("scene.tif", np.tile(PIXELS, (4, 4)), tile=(16, 16))
    Path("m.parquet/data/refs.1.parq").write_bytes(b"of others")
    before = files(tmp_path)
    with pytest.raises(JnrrdzError, match=r"data/refs\.1\.parq is not the older manifest's"):
        parquet.write(jnrrdz.scan(scene), "m.parquet", WriteOptions(overwrite=True), record_size=1)
    assert files(tmp_path) == before


def test_what_a_killed_run_left_beside_a_manifest_goes_with_the_next(scene):
    jnrrdz.index(scene, "m.parquet")
    whole, empty, writing = (Path(f"m.parquet/.jnrrdz-{digit * 16}") for digit in "123")
    for folder in (whole, empty, writing):
        (folder / "data").mkdir(parents=True)
    (whole / "data" / "refs.0.parq").write_bytes(b"half")
    descriptor = os.open(writing, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    jnrrdz.index(scene, "m.parquet", overwrite=True)
    os.close(descriptor)
    assert sorted(path.name for path in Path("m.parquet").iterdir()) == [writing.name, ".zmetadata", "data"]
    np.testing.assert_array_equal(jnrrdz.open_group("m.parquet")["data"][...], PIXELS)


def test_names_that_lead_elsewhere_are_not_removed(scene, tmp_path):
    Path("m.parquet").mkdir()
    Path("data").mkdir()
    Path("data/refs.0.parq").write_bytes(b"of others")
    names = ["../data/refs.0.parq", f"{tmp_path}/data/refs.0.parq", "x/../../data/refs.0.parq"]
    Path("m.parquet/.zmetadata").write_text(json.dumps({"jnrrdz": {"begun": names}}))
    jnrrdz.index(scene, "m.parquet", overwrite=True)
    assert Path("data/refs.0.parq").read_bytes() == b"of others"
    np.testing.assert_array_equal(jnrrdz.open_group("m.parquet")["data"][...], PIXELS)


# Names of sources that are read back

ODD = ["x{{y}}.tif", "new\nline.tif", "tab\t.tif", "esc\x1b.tif", "per%41cent.tif", "q?x=1.tif", "h#a.tif", "{u}.tif"]


@pytest.mark.parametrize("name", [*ODD, "file:x.tif", "~t.tif", " spaces .tif", "[a]*.tif"])
@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("spelling", ["as it is", "file URL"])
def test_names_are_read_back(scene, tmp_path, name, form, spelling):
    path = tmp_path / name
    Path(scene).rename(path)
    jnrrdz.index(str(path) if spelling == "as it is" else path.as_uri(), f"out.{form}")
    np.testing.assert_array_equal(jnrrdz.open_group(f"out.{form}")["data"][...], PIXELS)
    if any(text in name for text in ("{{", "\n", "\t", "\x1b")):
        with pytest.raises(JnrrdzError, match="a relative path cannot spell; write absolute URLs"):
            jnrrdz.index(str(path), f"relative.{form}", relative=True)
        assert not Path(f"relative.{form}").exists()
    else:
        jnrrdz.index(str(path), f"relative.{form}", relative=True)
        np.testing.assert_array_equal(jnrrdz.open_group(f"relative.{form}")["data"][...], PIXELS)
