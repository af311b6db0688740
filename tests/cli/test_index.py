"""`jnrrdz index`: what it writes is what the images' writers say, and failures leave nothing."""

import json
import os

import fsspec
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
import zarr

from jnrrdz.cli.options import ONE, planned
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests.forms import FORMS
from jnrrdz.manifests.manifest import form_module, format_of


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def references(path):
    return json.loads(path.read_text(encoding="utf-8"))["refs"]


# One source


@pytest.mark.parametrize("output", ["refs.json", "refs.parquet"])
def test_manifest_holds_the_pixels_that_rasterio_wrote(cog, run, pixels, output):
    run("index", cog, "-o", output)
    assert names(cog.parent) == sorted([output, "scene.tif"])
    with xr.open_dataset(output, mask_and_scale=False) as found:
        assert np.array_equal(found["data"], pixels)
        assert found["data"].attrs["_FillValue"] == 7
    with xr.open_dataset(output, mask_and_scale=False, group="1") as found, rasterio.open(cog) as source:
        assert np.array_equal(found["data"], source.read(1, out_shape=(150, 250)))


def test_stock_fsspec_and_zarr_read_what_goes_to_stdout(cog, run, pixels):
    result = run("index", cog, "-o", "-")
    store = fsspec.filesystem("reference", fo=json.loads(result.stdout), asynchronous=False)
    array = zarr.open_array(zarr.storage.FsspecStore(wrapped(store), path="0/data"), mode="r")
    assert np.array_equal(array[:], pixels)
    assert names(cog.parent) == ["scene.tif"]
    assert result.stderr.startswith(f"{cog} -> -: 3 arrays, ")


def wrapped(fs):
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper  # noqa: PLC0415  needed here only

    return AsyncFileSystemWrapper(fs, asynchronous=True)


def test_stdout_and_file_are_the_same(cog, run):
    run("index", cog, "-o", "refs.json")
    assert run("-q", "index", cog, "-o", "-").stdout == (cog.parent / "refs.json").read_text(encoding="utf-8")


def test_line_tells_what_was_found_and_what_it_took(make_http_server, cog, cog_bytes, run):
    server = make_http_server(files={"/scene.tif": cog_bytes})
    line = run("index", f"{server.url}/scene.tif", "-o", "refs.json").stderr
    with tifffile.TiffFile(cog) as file:
        chunks = sum(len(level.keyframe.dataoffsets) for level in file.series[0].levels)
    made = f"{server.url}/scene.tif -> refs.json: 3 arrays, {chunks} chunks"
    assert line == f"{made}, {server.methods().count('GET')} requests, {server.body_bytes:,} bytes read\n"


@pytest.mark.parametrize("place", ["before", "after"])
def test_quiet_says_nothing(cog, run, place):
    args = ["index", cog, "-o", "refs.json"]
    result = run("-q", *args) if place == "before" else run(*args, "-q")
    assert (result.stdout, result.stderr) == ("", "")


def test_no_overviews(cog, run, pixels):
    run("index", cog, "-o", "refs.json", "--no-overviews")
    assert not any(key.startswith(("0/", "1/")) for key in references(cog.parent / "refs.json"))
    with xr.open_dataset("refs.json", mask_and_scale=False) as found:
        assert np.array_equal(found["data"], pixels)


def test_relative_manifest_moves_with_its_source(cog, run, pixels, tmp_path):
    run("index", cog, "-o", "refs.json", "--relative")
    urls = {value[0] for value in references(cog.parent / "refs.json").values() if isinstance(value, list)}
    assert urls == {"scene.tif"}
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("refs.json", "scene.tif"):
        (cog.parent / name).rename(moved / name)
    with xr.open_dataset(moved / "refs.json", mask_and_scale=False) as found:
        assert np.array_equal(found["data"], pixels)


@pytest.mark.parametrize(("form", "ending"), [("json", ".parquet"), ("parquet", ".json"), ("icechunk", ".json")])
def test_format_is_stronger_than_the_ending(cog, run, form, ending):
    pytest.importorskip("icechunk")
    run("index", cog, "-o", f"refs{ending}", "-f", form)
    place = cog.parent / f"refs{ending}"
    assert place.is_file() == (form == "json")
    assert (place / {"parquet": ".zmetadata", "icechunk": "repo", "json": "x"}[form]).exists() == (form != "json")


def test_icechunk_holds_the_pixels(cog, run, pixels):
    icechunk = pytest.importorskip("icechunk")
    run("index", cog, "-o", "refs.icechunk")
    storage = icechunk.local_filesystem_storage(str(cog.parent / "refs.icechunk"))
    access = icechunk.containers_credentials({f"{cog.parent.as_uri()}/": icechunk.credentials.LocalFileSystemAccess})
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    assert np.array_equal(group["0/data"][:], pixels)


@pytest.mark.parametrize("output", ["refs.json", "refs.parquet"])
def test_existing_output_needs_overwrite(cog, run, error_line, output):
    run("index", cog, "-o", output, "--no-overviews")
    assert "--overwrite" in error_line("index", cog, "-o", output)
    with xr.open_datatree(output) as kept:
        assert list(kept.children) == []
    run("index", cog, "-o", output, "--overwrite")
    with xr.open_datatree(output) as replaced:
        assert list(replaced.children) == ["0", "1", "2"]
    assert names(cog.parent) == sorted([output, "scene.tif"])


@pytest.mark.parametrize("output", ["scene.tif", "./scene.tif", "link.tif"])
def test_a_source_is_never_replaced(cog, run, cog_bytes, output):
    (cog.parent / "link.tif").symlink_to(cog)
    result = run("index", cog, "-o", output, "--overwrite", code=2)
    assert "is a source itself" in result.stderr
    assert cog.read_bytes() == cog_bytes


def test_nothing_stays_of_a_write_that_fails(cog, error_line, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("jnrrdz.manifests.json._write_lines", fail)
    assert "No space left" in error_line("index", cog, "-o", "refs.json")
    assert names(cog.parent) == ["scene.tif"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-o", "refs.json", "-f", "hdf5"], "'json', 'parquet', 'icechunk'"),
        (["-o", "-", "-f", "parquet"], "cannot go to stdout"),
        (["-o", "-", "--relative"], "--relative needs"),
        (["-o", "-", "other.tif"], "takes one manifest"),
        ([], "--output"),
    ],
)
def test_usage(cog, run, args, words):
    result = run("index", cog, *args, code=2)
    assert words in result.stderr
    assert names(cog.parent) == ["scene.tif"]


# Several sources


@pytest.fixture
def three(cog, pixels):
    """Two images and a file that is none, in the middle."""
    tifffile.imwrite("plain.tiff", pixels[:60, :50], tile=(16, 16))
    (cog.parent / "bad.tif").write_bytes(bytes(range(200)))
    return [cog, cog.parent / "bad.tif", cog.parent / "plain.tiff"]


def test_one_that_fails_does_not_stop_the_others(three, run, pixels):
    result = run("index", *three, "-o", "out/deep", code=3)
    assert names(three[0].parent / "out" / "deep") == ["plain.json", "scene.json"]
    with xr.open_dataset("out/deep/plain.json") as plain, xr.open_dataset("out/deep/scene.json") as scene:
        assert np.array_equal(plain["data"], pixels[:60, :50])
        assert scene.sizes == {"y": 300, "x": 500}
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{three[0]} -> out/deep/scene.json: ")
    assert lines[1].startswith("error: ")
    assert lines[2].startswith(f"{three[2]} -> out/deep/plain.json: ")
    assert "bad.tif" in lines[1]
    assert lines[3:] == ["1 of 3 sources failed"]


@pytest.mark.parametrize(("form", "ending"), [("parquet", ".parquet"), ("json", ".json")])
def test_names_follow_the_format(three, run, form, ending):
    run("index", three[0], three[2], "-o", "out", "-f", form)
    assert names(three[0].parent / "out") == [f"plain{ending}", f"scene{ending}"]


def test_folder_of_failures_only_is_not_left(three, run):
    run("index", three[1], "missing.tif", "-o", "out", code=3)
    assert not (three[0].parent / "out").exists()


def test_folder_that_was_there_stays(three, run):
    (three[0].parent / "out").mkdir()
    run("index", three[1], "missing.tif", "-o", "out", code=3)
    assert (three[0].parent / "out").is_dir()


def test_clash_is_refused_before_anything_is_written(three, run):
    result = run("index", *three, "sub/plain.tif", "-o", "out", code=2)
    assert "plain.tiff and sub/plain.tif would all become out/plain.json" in result.stderr
    assert not (three[0].parent / "out").exists()


@pytest.mark.parametrize(
    ("sources", "output", "form", "places"),
    [
        (["a.tif"], "out.json", None, ["out.json"]),
        (["a.tif"], "out/", None, ["out/a.json"]),
        (["a.tif"], "out.parquet/", None, ["out.parquet/"]),
        (["a.tif"], "/", "parquet", ["//a.parquet"]),
        (["x/a.ome.tif", "b"], "out", "icechunk", ["out/a.ome.icechunk", "out/b.icechunk"]),
        (["https://h/p/a.tif?key=x/y.tif", "s3://b/k?.tif"], "s3://o/d", None, ["s3://o/d/a.json", "s3://o/d/k?.json"]),
    ],
)
def test_planned(sources, output, form, places):
    assert planned(sources, output, FORMS[form or "json"].endings[0], ONE) == list(zip(sources, places, strict=True))


@pytest.mark.parametrize("source", ["https://host/"])
def test_source_without_a_name_is_a_usage_error(run, source):
    assert "names no file" in run("index", source, "a.tif", "-o", "out", code=2).stderr


# What is asked of the library


def test_s3_options_go_to_s3_only_and_not_into_the_manifest(cog, run, monkeypatch):
    seen = []
    monkeypatch.setattr("jnrrdz.api.index", lambda *args, **options: seen.append((args, options)) or stop())

    def stop():
        raise JnrrdzError("seen")

    options = ["--profile", "p", "--endpoint-url", "http://e", "--region", "r", "--requester-pays"]
    given = {
        "profile": "p",
        "endpoint_url": "http://e",
        "client_kwargs": {"region_name": "r"},
        "requester_pays": True,
    }
    for source, output, form, expected in (
        (str(cog), "refs.json", None, (None, None)),
        ("s3://b/a.tif", "refs.json", None, (given, None)),
        (str(cog), "s3://b/refs.json", None, (None, given)),
        ("https://h/a.tif", "s3://b/refs.json", None, (None, given)),
        ("s3://b/a.tif", "refs", "icechunk", (given, given)),
    ):
        run("index", source, "-o", output, *(["-f", form] if form else []), *options, code=1)
        options_seen = seen[-1][1]
        assert (options_seen["storage_options"], options_seen["target_options"]) == expected


@pytest.fixture
def bucket(make_http_server, cog_bytes, monkeypatch):
    """A server that answers as S3 does for one object, and no AWS settings around."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    return make_http_server(files={"/bucket/scene.tif": cog_bytes})


def test_s3_server_gets_what_the_options_say(bucket, run, tmp_path, pixels):
    server = bucket
    options = ["--endpoint-url", server.url, "--no-sign-request", "--requester-pays"]
    run("index", "s3://bucket/scene.tif", "-o", tmp_path / "refs.json", *options)
    assert {entry.path.partition("?")[0] for entry in server.log} == {"/bucket/scene.tif"}
    assert {entry.headers.get("x-amz-request-payer") for entry in server.log} == {"requester"}
    assert not any("Authorization" in entry.headers for entry in server.log)
    text = (tmp_path / "refs.json").read_text(encoding="utf-8")
    assert "s3://bucket/scene.tif" in text
    assert not any(word in text for word in (server.url, str(server.port), "anon", "requester"))
    source = {"anon": True, "endpoint_url": server.url}
    with xr.open_dataset(tmp_path / "refs.json", mask_and_scale=False, source_options=source) as found:
        assert np.array_equal(found["data"], pixels)


def test_each_form_has_a_writer_and_its_endings():
    for form in FORMS.values():
        assert callable(form_module(form.name).write)
        assert {format_of(f"a{ending}") for ending in form.endings} == {form.name}


@pytest.mark.parametrize("option", [["--chain", "offset"], ["--stack-timepoints"]])
def test_options_of_containers_are_a_usage_error_for_files(cog, run, option):
    assert f"{option[0]}: for N5 containers" in run("index", cog, "-o", "a.json", *option, code=2).stderr
    assert names(cog.parent) == ["scene.tif"]
