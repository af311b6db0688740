"""A place is listed in one way, whatever lists it: names relative to it, in order, and states."""

import fsspec
import pytest

from jnrrdz.core.state import Validators
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.sources import filesystems
from jnrrdz.sources.listing import RemoteFolder, local_entries, mark_of, pages, state_of, validators_of

NAMES = ["a.tif", "b/c.tif", "b/d/e.tif", "f/g.tif"]
TIME = "2024-01-02T03:04:05Z"


@pytest.fixture
def folder():
    fs = fsspec.filesystem("memory")
    for name in NAMES:
        fs.pipe_file(f"/listed/{name}", name.encode())
    yield RemoteFolder(fs, "/listed", "memory://listed")
    fs.rm("/listed", recursive=True)


def files(listing):
    return [name for page in listing for name, entry in page if entry["type"] == "file"]


def test_folders_are_listed_one_by_one_in_order(folder):
    assert files(pages(folder)) == NAMES
    assert files(pages(folder, descends=lambda name: name == "f/")) == ["a.tif", "f/g.tif"]


def test_a_bucket_is_listed_as_one_folder(seaweed, bucket):
    for name in NAMES:
        seaweed.put(bucket, f"in/{name}", name.encode())
    fs, path = filesystems.opened(f"s3://{bucket}/in", seaweed.options())
    folder = RemoteFolder(fs, path, f"s3://{bucket}/in")
    assert files(pages(folder)) == NAMES
    assert files(pages(folder, start="b/")) == ["b/c.tif", "b/d/e.tif"]
    assert files(pages(folder, is_deep=False)) == ["a.tif"]
    states = {name: state_of(entry) for page in pages(folder) for name, entry in page}
    assert states["a.tif"].size == 5
    assert states["a.tif"].etag.strip('"')


def test_a_local_folder(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").mkdir()
    assert {entry.name: entry.is_dir() for entry in local_entries(str(tmp_path), "name")} == {"a": False, "b": True}
    with pytest.raises(JnrrdzError) as error:
        local_entries(str(tmp_path / "c"), "name")
    assert error.value.url == "name"


STATES = {
    "S3": (
        {"size": 3, "ETag": '"a"', "VersionId": "v", "LastModified": TIME},
        Validators(3, '"a"', "v", TIME),
        '"a"',
    ),
    "null version": ({"size": 3, "VersionId": "null", "etag": "b"}, Validators(3, "b"), "b"),
    "GCS": ({"size": "3", "generation": 17, "updated": TIME}, Validators(3, None, "17", TIME), 1704164645 * 10**9),
    "seconds": ({"size": 3, "mtime": 1704164645}, Validators(3, modified=TIME), 1704164645 * 10**9),
    "another time": ({"size": 3, "updated": "yesterday"}, Validators(3), 0),
}


@pytest.mark.parametrize(("entry", "state", "mark"), STATES.values(), ids=STATES)
def test_what_an_entry_reports_of_an_objects_state(entry, state, mark):
    assert (state_of(entry), mark_of(entry)) == (state, mark)


def test_an_entry_without_a_size_or_of_a_directory():
    assert state_of({"size": None, "ETag": "a"}) is None
    for entry in ({"size": None}, {"size": 0, "type": "directory"}):
        with pytest.raises(UnsupportedError):
            validators_of(entry)
