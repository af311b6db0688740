"""One chunk of each array is decoded before `merge`, `cube` and `convert` write; `--no-check` leaves it out."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.commands import first_chunks
from jnrrdz.errors import JnrrdzError
from tests import writers

WHEN = {"time_from": r"_(\d{8})"}


@pytest.fixture
def refs(tmp_path, monkeypatch):
    """Return manifests of three scenes."""
    monkeypatch.chdir(tmp_path)
    for day in (1, 2, 3):
        writers.scene(f"s_2024010{day}.tif", day)
        jnrrdz.index(f"s_2024010{day}.tif", f"s_2024010{day}.json")
    return [f"s_2024010{day}.json" for day in (1, 2, 3)]


def with_codecs(name, codecs):
    """Give the array of a manifest codecs that do not read its chunks."""
    document = json.loads(Path(name).read_text())
    array = json.loads(document["refs"]["data/zarr.json"])
    document["refs"]["data/zarr.json"] = json.dumps({**array, "codecs": codecs})
    Path(name).write_text(json.dumps(document))


BROKEN = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]

COMMANDS = {
    "merge": (lambda refs, **more: jnrrdz.merge(refs, "out.json", concat_dim="time", **more), ["--concat-dim", "t"]),
    "cube": (lambda refs, **more: jnrrdz.cube(refs, "out.json", **WHEN, **more), ["--time-from", WHEN["time_from"]]),
    "convert": (lambda refs, **more: jnrrdz.convert(refs[0], "out.json", **more), []),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_read_is_not_written(refs, command):
    for name in refs:
        with_codecs(name, BROKEN)
    run, options = COMMANDS[command]
    with pytest.raises(JnrrdzError, match=r"data: a chunk of it cannot be read: .*--no-check"):
        run(refs)
    assert not Path("out.json").exists()
    named = refs[:1] if command == "convert" else refs
    failed = CliRunner().invoke(cli, [command, *named, "-o", "out.json", *options])
    assert (failed.exit_code, failed.stderr.count("\n"), Path("out.json").exists()) == (1, 1, False)
    made = CliRunner().invoke(cli, [command, *named, "-o", "out.json", *options, "--no-check"])
    assert (made.exit_code, Path("out.json").exists()) == (0, True), made.output
    run(refs, check=False, overwrite=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_one_chunk_of_each_array_is_read(refs, command, monkeypatch):
    read = []
    read_chunk = first_chunks.read_chunk

    def counted(store, path, chunk):
        read.append(path)
        read_chunk(store, path, chunk)

    monkeypatch.setattr(first_chunks, "read_chunk", counted)
    COMMANDS[command][0](refs)
    assert read.count("data") == 1
    assert set(read) <= {"data", "time"}
    read.clear()
    COMMANDS[command][0](refs, check=False, overwrite=True)
    assert not read


@pytest.mark.parametrize("out", ["c.json", "c.parquet", "c.icechunk"])
def test_what_is_added_to_a_cube_is_read(refs, out):
    """The chunk that is looked at is of the file that is added, not of those that are there."""
    jnrrdz.cube(refs[:2], out, **WHEN)
    Path("s_20240103.tif").rename("elsewhere.tif")
    with pytest.raises(JnrrdzError, match=r"s_20240103\.tif.*--no-check"):
        jnrrdz.cube(refs[2:], out, **WHEN, append=True)
    assert xr.open_dataset(out, engine="jnrrdz").sizes["time"] == 2
    jnrrdz.cube(refs[2:], out, **WHEN, append=True, check=False)
    assert xr.open_dataset(out, engine="jnrrdz").sizes["time"] == 3


def test_what_is_there_already_is_not_read_again(refs):
    jnrrdz.cube(refs[:2], "c.json", **WHEN)
    Path("s_20240101.tif").rename("elsewhere.tif")
    jnrrdz.cube(refs[2:], "c.json", **WHEN, append=True)
    np.testing.assert_array_equal(xr.open_dataset("c.json")["data"][2, 0], writers.scene("again.tif", 3))


@pytest.mark.usefixtures("refs")
def test_sources_of_a_manifest_are_opened_with_its_rights(make_http_server):
    """A source of a manifest from afar that leads to another host is not followed, as when it is read."""
    server, other = make_http_server(), make_http_server()
    jnrrdz.index("s_20240101.tif", "near.json", relative=True)
    server.files["/near_20240101.json"] = Path("near.json").read_bytes()
    server.redirects["/s_20240101.tif"] = f"{other.url}/s_20240101.tif"
    other.files["/s_20240101.tif"] = Path("s_20240101.tif").read_bytes()
    for run, _ in COMMANDS.values():
        with pytest.raises(JnrrdzError, match="a chunk of it cannot be read"):
            run([f"{server.url}/near_20240101.json"])
    assert other.log == []
