import os
import posixpath
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnrepresentableError
from jnrrdz.manifests.written_refs import absolute_path, is_local, relative, relocate


@pytest.mark.parametrize(
    ("url", "target", "expected"),
    [
        ("/data/a.tif", "/data/refs.json", "a.tif"),
        ("/data/a.tif", "/data/refs/r.json", "../a.tif"),
        ("file:///data/x/a b%20.tif", "/data/refs/r.json", "../x/a b%20.tif"),
        ("/data/a.tif", "file:///data/r.json", "a.tif"),
        ("/data/a.tif", "local:///data/r.parq", "a.tif"),
        ("s3://bucket/a/b.tif", "s3://bucket/a/r.json", "b.tif"),
        ("s3://bucket/a/b.tif", "s3://bucket/r/s/t.parq", "../../a/b.tif"),
        ("https://host/a/b%20c.tif", "https://host/r.json", "a/b%20c.tif"),
        ("memory://a/b.tif", "memory://a/r.json", "b.tif"),
    ],
)
def test_relative(url, target, expected):
    assert relative(url, target) == expected


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("s3://bucket/a.tif", "s3://bucket-two/r.json"),
        ("s3://bucket/a.tif", "/data/r.json"),
        ("/data/a.tif", "s3://bucket/r.json"),
        ("http://host/a.tif", "https://host/r.json"),
        ("s3://bucket/a//b.tif", "s3://bucket/r.json"),
        ("s3://bucket/a/../b.tif", "s3://bucket/r.json"),
        ("zip://a.tif::s3://bucket/b.zip", "zip://a/r.json"),
    ],
)
def test_where_no_relative_path_leads(url, target):
    with pytest.raises(UnrepresentableError, match="write absolute URLs"):
        relative(url, target)


names = st.text("ab .%é", min_size=1).filter(lambda name: set(name) != {"."})
paths = st.lists(names, min_size=1, max_size=4)


@given(paths, paths)
def test_joined_to_the_manifests_directory_it_is_the_source_again(source, target):
    for prefix in ("", "s3://bucket"):
        url, place = (f"{prefix}/{'/'.join(parts)}" for parts in (source, target))
        there = posixpath.normpath(posixpath.join("/", *target[:-1], relative(url, place)))
        assert prefix + there == url


def test_a_relative_source_is_found_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert relative("a.tif", "refs/r.json") == "../a.tif"
    assert absolute_path("file://a.tif") == str(Path(tmp_path) / "a.tif")
    assert absolute_path(f"{tmp_path}/x/../b") == os.path.join(tmp_path, "b")  # noqa: PTH118 - text, not a path


@pytest.mark.parametrize(
    ("url", "local"), [("/a", True), ("file:///a", True), ("a/b", True), ("s3://a/b", False), ("http://a", False)]
)
def test_is_local(url, local):
    assert is_local(url) is local


def test_relocate_changes_references_and_records_alike():
    refs = ChunkRefs.single("/d/a.tif", [4], [5])
    array = VirtualArray((1,), np.dtype("u1"), (1,), (bytes_(None),), refs, ("x",))
    records = (SourceRecord("/d/a.tif", 9, "e"), SourceRecord("/d/b.tif"))
    root = VirtualGroup({"0": VirtualGroup({"data": array}, {"k": 1})}, {"t": 2}, records)
    moved = relocate(root, "/d/r/refs.json")
    assert moved.sources == (SourceRecord("../a.tif", 9, "e"), SourceRecord("../b.tif"))
    ((path, inner),) = moved.arrays()
    assert (path, inner.refs.ranges(0)) == ("0/data", [("../a.tif", 4, 5)])
    assert (moved.attributes, moved.children["0"].attributes) == ({"t": 2}, {"k": 1})
    assert refs.sources == ("/d/a.tif",)
