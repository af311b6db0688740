import os
import stat

import fsspec
import pytest

from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests import atomic

FAILURES = [
    (RuntimeError("bug"), RuntimeError),
    (KeyboardInterrupt(), KeyboardInterrupt),
    (JnrrdzError("refused"), JnrrdzError),
    (OSError(28, "No space left on device"), JnrrdzError),
]
failures = pytest.mark.parametrize(("error", "seen"), FAILURES, ids=lambda value: str(value)[:20])


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """Return a directory's URL and what lists all files below it."""
    if request.param == "local":
        return str(tmp_path), lambda: {
            path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
        }
    fs = fsspec.filesystem("memory")
    root = f"/{tmp_path.name}"
    fs.mkdir(root)
    return f"memory:/{root}", lambda: {name[len(root) + 1 :]: fs.cat_file(name) for name in fs.find(root)}


def is_ours(head):
    return head.startswith((b"one", b"older"))


def write_file(url, data, replaces=None):
    with atomic.new_file(url, replaces=replaces) as stream:
        stream.write(data)


def write_directory(url, files):
    with atomic.new_directory(url, last=".meta") as work:
        for name, data in files.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_bytes(data)


def fail_in_file(url, error):
    with atomic.new_file(url, replaces=is_ours) as stream:
        stream.write(b"half")
        raise error


def fail_in_directory(url, error):
    with atomic.new_directory(url, last=".meta") as work:
        (work / "x").write_bytes(b"half")
        raise error


def test_a_file_is_written_and_overwritten(place):
    url, files = place
    write_file(f"{url}/a", b"one")
    assert files() == {"a": b"one"}
    with pytest.raises(JnrrdzError, match=r"a: exists already; --overwrite \(overwrite=True\)"):
        write_file(f"{url}/a", b"two")
    assert files() == {"a": b"one"}
    write_file(f"{url}/a", b"two", replaces=is_ours)
    assert files() == {"a": b"two"}
    with pytest.raises(JnrrdzError, match=r"a: exists and jnrrdz did not make it, so it is not replaced"):
        write_file(f"{url}/a", b"three", replaces=is_ours)
    assert files() == {"a": b"two"}
    write_file(f"{url}/empty", b"")
    write_file(f"{url}/empty", b"four", replaces=is_ours)
    assert files() == {"a": b"two", "empty": b"four"}


@failures
@pytest.mark.parametrize("older", [{}, {"a": b"older"}])
def test_a_file_that_fails_leaves_nothing(place, error, seen, older):
    url, files = place
    for name, data in older.items():
        write_file(f"{url}/{name}", data)
    with pytest.raises(seen):
        fail_in_file(f"{url}/a", error)
    assert files() == older


def test_nothing_is_at_the_target_before_the_block_ends(place):
    url, files = place
    with atomic.new_file(f"{url}/a") as stream:
        stream.write(b"x" * 100_000)
        stream.flush()
        assert "a" not in files()
    assert len(files()["a"]) == 100_000


def test_a_directory_is_written_whole_and_never_replaced(place):
    url, files = place
    whole = {"d/.meta": b"1", "d/sub/x": b"2", "d/y": b"3"}
    write_directory(f"{url}/d", {".meta": b"1", "sub/x": b"2", "y": b"3"})
    assert files() == whole
    with pytest.raises(JnrrdzError, match="holds something already, and is not replaced"):
        write_directory(f"{url}/d", {".meta": b"9"})
    assert files() == whole


@failures
def test_a_directory_that_fails_leaves_nothing(place, error, seen):
    url, files = place
    with pytest.raises(seen):
        fail_in_directory(f"{url}/d", error)
    assert files() == {}


def test_files_and_directories_do_not_replace_each_other(place):
    url, files = place
    write_file(f"{url}/a", b"1")
    write_directory(f"{url}/d", {".meta": b"2"})
    with pytest.raises(JnrrdzError, match="is a file"):
        write_directory(f"{url}/a", {".meta": b"3"})
    with pytest.raises(JnrrdzError, match="is a directory"):
        write_file(f"{url}/d", b"3", replaces=bool)
    assert files() == {"a": b"1", "d/.meta": b"2"}


def test_an_upload_ends_with_the_file_that_makes_it_readable_and_cleans_up(monkeypatch):
    fs = fsspec.filesystem("memory")
    names = []

    def failing(_self, _local, rpath):
        names.append(rpath.rpartition("/")[2])
        if rpath.endswith(".meta"):
            raise OSError(5, "connection lost")
        fs.pipe_file(rpath, b"x")

    monkeypatch.setattr(type(fs), "put_file", failing)
    with pytest.raises(JnrrdzError, match="connection lost"):
        write_directory("memory://upload/d", {".meta": b"", "a": b"", "sub/b": b""})
    assert sorted(names[:-1]) == ["a", "b"]
    assert names[-1] == ".meta"
    assert fs.find("/upload") == []


def test_outputs_follow_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        write_file(str(tmp_path / "a"), b"1")
        write_directory(str(tmp_path / "d"), {".meta": b"2"})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}/nowhere/a", "the folder of this output does not exist"),
        ("strange://a/b", "no file system of fsspec reads addresses that begin with strange://"),
        ("/dev/null", "neither a file nor a directory"),
    ],
)
def test_places_that_cannot_be_written(tmp_path, target, message):
    with pytest.raises(JnrrdzError, match=message):
        write_file(target.format(tmp_path), b"1", replaces=bool)
