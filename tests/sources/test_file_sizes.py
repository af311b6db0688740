"""Sizes of many files: by listings where there are such, links told apart."""

from pathlib import Path

import fsspec
import pytest

from jnrrdz.errors import JnrrdzError
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.tree import MISSING, common_folder, file_sizes


def never(url):
    raise AssertionError(url)


def test_local_files_are_listed_by_their_folders(tmp_path):
    for name in ("a", "b/c", "b/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(len(name)))
    names = ["a", "b/c", "b/d", "b", "none", "b/none", "none/none", "a/none"]
    found = file_sizes([f"{tmp_path}/{name}" for name in names], never)
    assert found.sizes == [1, 3, 3, *[MISSING] * 5]
    assert found.links == []
    assert found.requests == 4


def test_files_that_links_lead_to_are_told(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"abc")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "real" / "a")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    found = file_sizes([f"{tmp_path}/{name}" for name in ("real/a", "folder/a", "file", "lost")], never)
    assert found.sizes == [3, 3, 3, MISSING]
    assert found.links == [1, 2]


def test_stores_are_listed_once():
    fs = fsspec.filesystem("memory")
    urls = [f"memory://sizes/t/{number}/x" for number in range(20)]
    for number in range(19):
        fs.pipe(f"/sizes/t/{number}/x", bytes(number))
    found = file_sizes([*urls, urls[3]], never)
    fs.rm("/sizes", recursive=True)
    assert found.sizes == [*range(19), MISSING, 3]
    assert file_sizes(urls, never).sizes == [MISSING] * 20


def test_what_cannot_be_listed_is_asked_for(tmp_path):
    (tmp_path / "a").write_bytes(bytes(5))
    asked = []

    def opener(url):
        asked.append(url)
        return open_source(str(tmp_path / Path(url).name))

    found = file_sizes(["http://host/a", "http://host/b"], opener)
    assert found.sizes == [5, MISSING]
    assert sorted(asked) == ["http://host/a", "http://host/b"]


def test_other_failures_are_errors():
    def opener(url):
        raise JnrrdzError("no answer", url=url)

    with pytest.raises(JnrrdzError, match="no answer"):
        file_sizes(["http://host/a"], opener)


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["/a/b/c", "/a/b/d"], "/a/b"),
        (["/a/bc/x", "/a/bd/x"], "/a"),
        (["s3://b/a/1", "s3://b/a/b/2", "s3://b/a/c/d/3"], "s3://b/a"),
        (["s3://b/1", "s3://c/1"], "s3:/"),
        ([], ""),
    ],
)
def test_the_folder_that_files_share(urls, expected):
    assert common_folder(urls) == expected
