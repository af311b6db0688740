"""Files in ZIP archives: stored ones are byte ranges of the archive, which anybody reads."""

import json
import os
import shutil
import struct
import tracemalloc
import zipfile

import fsspec
import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.zip_member import open_member

PIXELS = np.random.default_rng(5).integers(0, 60000, (96, 128)).astype("u2")
OTHERS = PIXELS[::-1].copy()


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Write `a.zip`: two TIFFs as they are, one deflated, and a NRRD with its data."""
    monkeypatch.chdir(tmp_path)
    for name, pixels in (("x.tif", PIXELS), ("y.tif", OTHERS)):
        tifffile.imwrite(name, pixels, tile=(32, 48))
    head = "NRRD0004\ntype: uint16\ndimension: 2\nsizes: 128 96\nencoding: raw\nendian: little\n"
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    with zipfile.ZipFile("a.zip", "w") as file:
        file.write("x.tif", compress_type=stored)
        file.write("y.tif", "sub/y.tif", compress_type=stored)
        file.write("x.tif", "deflated.tif", compress_type=deflated)
        file.writestr("v.nhdr", f"{head}data file: v.raw\n", compress_type=stored)
        file.writestr("v.raw", PIXELS.astype("<u2").tobytes(), compress_type=stored)
        file.writestr("packed.nhdr", f"{head}data file: packed.raw\n", compress_type=stored)
        file.writestr("packed.raw", PIXELS.astype("<u2").tobytes(), compress_type=deflated)
    os.remove("x.tif")  # noqa: PTH107
    os.remove("y.tif")  # noqa: PTH107
    return tmp_path / "a.zip"


def references(path):
    refs = json.loads(path.read_text())["refs"]
    return [value for value in refs.values() if isinstance(value, list)]


def by_stock_fsspec(path, **options):
    target = {"remote_protocol": "file", **options}
    fs = fsspec.filesystem("reference", fo=str(path), asynchronous=True, **target)
    return zarr.open_group(zarr.storage.FsspecStore(fs, path=""), mode="r")["data"][...]


def able(path):
    done = CliRunner().invoke(cli, ["info", "--json", str(path)])
    found = json.loads(done.stdout)["readable_by"]
    return {each["reader"] for each in found if each["readable"]}


MEMBERS = {"x.tif": PIXELS, "sub/y.tif": OTHERS, "/sub/y.tif": OTHERS, "v.nhdr": PIXELS}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("spelling", ["a.zip", "{}", "file://{}"])
def test_a_stored_file_is_a_part_of_the_archive(archive, tmp_path, name, spelling):
    jnrrdz.index(f"zip://{name}::{spelling.format(archive)}", tmp_path / "r.json")
    data = archive.read_bytes()
    ranges = references(tmp_path / "r.json")
    assert {url for url, _, _ in ranges} == {str(archive)}
    if name != "v.nhdr":
        # the bytes at each range are those of the file in the archive
        with zipfile.ZipFile(archive) as file:
            member = file.read(name.lstrip("/"))
        for _, offset, length in ranges:
            assert data[offset : offset + length] in member
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "r.json")["data"], MEMBERS[name])
    assert jnrrdz.verify(tmp_path / "r.json", deep=True).ok
    assert "zarr-python by itself" in able(tmp_path / "r.json")
    np.testing.assert_array_equal(by_stock_fsspec(tmp_path / "r.json"), MEMBERS[name])


def test_opened_without_a_manifest(archive):
    opened = jnrrdz.open_dataset(f"zip://x.tif::{archive}")
    np.testing.assert_array_equal(opened["data"], PIXELS)


@pytest.mark.parametrize("form", ["r.json", "r.parquet"])
def test_manifest_and_archive_move_together(archive, tmp_path, form):
    (tmp_path / "one").mkdir()
    shutil.move(archive, tmp_path / "one" / "a.zip")
    name = f"zip://sub/y.tif::{tmp_path}/one/a.zip"
    jnrrdz.index(name, tmp_path / "one" / form, relative=True)
    shutil.move(tmp_path / "one", tmp_path / "two")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "two" / form)["data"], OTHERS)


def test_over_http(archive, http_server, tmp_path):
    http_server.files["/d/a.zip"] = archive.read_bytes()
    url = f"{http_server.url}/d/a.zip"
    jnrrdz.index(f"zip://sub/y.tif::{url}", tmp_path / "r.json")
    assert {one for one, _, _ in references(tmp_path / "r.json")} == {url}
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "r.json")["data"], OTHERS)


def test_several_files_of_one_archive(archive, tmp_path):
    for name in ("x", "sub/y"):
        out = tmp_path / f"{name[-1]}.json"
        jnrrdz.index(f"zip://{name}.tif::{archive}", out)
    jnrrdz.merge([tmp_path / "x.json", tmp_path / "y.json"], tmp_path / "m.json", concat_dim="time")
    found = xr.open_dataset(tmp_path / "m.json")["data"]
    np.testing.assert_array_equal(found, np.stack([PIXELS, OTHERS]))


def test_refresh_scans_the_same_file_again(archive, tmp_path):
    jnrrdz.index(f"zip://x.tif::{archive}", tmp_path / "r.json")
    with zipfile.ZipFile(archive) as file:
        y = file.read("sub/y.tif")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("first", b"something longer than before")
        file.writestr("x.tif", y)
    with pytest.raises(jnrrdz.DriftError):
        xr.open_dataset(tmp_path / "r.json").load()
    jnrrdz.refresh(tmp_path / "r.json")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "r.json")["data"], OTHERS)


@pytest.mark.parametrize("name", ["deflated.tif", "packed.nhdr"])
def test_a_deflated_file_is_for_jnrrdz_alone_and_info_says_so(archive, tmp_path, name, monkeypatch):
    jnrrdz.index(f"zip://{name}::a.zip", tmp_path / "r.json")
    (url,) = {url for url, _, _ in references(tmp_path / "r.json")}
    assert url.endswith(f"::file://{archive}")  # from wherever it is read
    assert able(tmp_path / "r.json") == {"jnrrdz"}
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "r.json")["data"], PIXELS)
    with pytest.raises(Exception, match="failed to fetch target"):
        by_stock_fsspec(tmp_path / "r.json")


def test_what_is_not_in_the_archive(archive):
    with pytest.raises(jnrrdz.JnrrdzError, match=r"gone\.tif"):
        jnrrdz.scan(f"zip://gone.tif::{archive}")


def test_an_archive_in_an_archive_is_left_to_fsspec(archive):
    assert open_member(f"zip://x.tif::zip://a.zip::file://{archive}", open_source) is None


def test_a_directory_that_lies(archive):
    data = bytearray(archive.read_bytes())
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 42, 7)  # where the first file's header is
    archive.write_bytes(data)
    with pytest.raises(jnrrdz.MalformedError, match=r"places 'x\.tif' where it is not"):
        jnrrdz.scan(f"zip://x.tif::{archive}")


def test_a_name_that_is_no_text(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("ü.tif", b"")
    damaged = (tmp_path / "b.zip").read_bytes().replace("ü".encode(), b"\xff\xff")
    (tmp_path / "b.zip").write_bytes(damaged)
    with pytest.raises(jnrrdz.MalformedError, match="no ZIP archive"):
        jnrrdz.scan(f"zip://x.tif::{tmp_path}/b.zip")


def test_a_directory_as_large_as_a_disk_is_not_read(tmp_path):
    size = 1 << 30
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0)
    with (tmp_path / "b.zip").open("wb") as file:
        file.truncate(size)  # sparse
        file.seek(size)
        file.write(end)
    tracemalloc.start()
    with pytest.raises(jnrrdz.UnsupportedError, match="directory of more than"):
        jnrrdz.scan(f"zip://x.tif::{tmp_path}/b.zip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 256 << 20


def test_bytes_before_the_archive(archive, tmp_path):
    """An archive that unpacks itself begins with a program; offsets move, as zipfile has it."""
    archive.write_bytes(b"#!/bin/sh\n" + archive.read_bytes())
    jnrrdz.index(f"zip://x.tif::{archive}", tmp_path / "r.json")
    np.testing.assert_array_equal(by_stock_fsspec(tmp_path / "r.json"), PIXELS)


@pytest.mark.parametrize(
    "name",
    ["../v.raw", "a/../../v.raw", "v.raw::file:///etc/passwd", "zip://v.raw::/etc/a.zip", "/etc/passwd"],
)
def test_a_header_in_an_archive_names_files_of_its_folder_only(tmp_path, name):
    head = f"NRRD0004\ntype: uint8\ndimension: 1\nsizes: 4\nencoding: raw\ndata file: {name}\n"
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("d/v.nhdr", head)
        file.writestr("v.raw", b"1234")
    with pytest.raises(jnrrdz.JnrrdzError, match=r"leads out of the folder|no such|not there"):
        jnrrdz.scan(f"zip://d/v.nhdr::{tmp_path}/b.zip")
