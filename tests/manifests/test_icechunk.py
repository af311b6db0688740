import os
from datetime import UTC, datetime

import numpy as np
import pytest
import zarr

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.manifests import icechunk as writer
from jnrrdz.options import WriteOptions

icechunk = pytest.importorskip("icechunk")


def group(children, **more):
    built = {name: group(child) if isinstance(child, dict) else child for name, child in children.items()}
    return VirtualGroup(built, **more)


def opened(target, source):
    prefix = f"{source.path.parent.as_uri()}/"
    access = {prefix: icechunk.credentials.LocalFileSystemAccess}
    storage = icechunk.local_filesystem_storage(str(target))
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    return zarr.open_group(repository.readonly_session("main").store, mode="r")


def modified(path):
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat().replace("+00:00", "Z")


def test_stock_icechunk_and_zarr_read_every_kind_of_chunk(tree, source, tmp_path):
    children, seen = tree
    target = tmp_path / "repository"
    writer.write(group(children, attributes={"k": 1}), str(target))
    root = opened(target, source)
    assert root.attrs["k"] == 1
    for path, values in seen.items():
        np.testing.assert_array_equal(root[path][...], values)


def test_a_source_modified_since_is_noticed(source, tmp_path):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    record = SourceRecord(source.url, modified=modified(source.path))
    writer.write(VirtualGroup({"data": array}, sources=(record,)), str(tmp_path / "r"))
    root = opened(tmp_path / "r", source)
    np.testing.assert_array_equal(root["data"][:], seen)
    later = source.path.stat().st_mtime + 5
    os.utime(source.path, (later, later))
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        root["data"][:]


@pytest.mark.parametrize(
    ("url", "etag", "modified", "expected"),
    [
        ("s3://b/a", '"e"', "2026-01-02T03:04:05Z", '"e"'),
        ("s3://b/a", None, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("/d/a", '"e"', "2026-01-02T03:04:05.25Z", datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)),
        ("https://h/a", 'W/"e"', None, None),
    ],
)
def test_checksum(url, etag, modified, expected):
    assert writer.checksum(SourceRecord(url, etag=etag, modified=modified)) == expected


def test_a_time_that_is_none_is_an_error():
    with pytest.raises(MalformedError, match="/d/a: modified: 'yesterday' is no RFC 3339 time"):
        writer.checksum(SourceRecord("/d/a", modified="yesterday"))


def test_several_sources_each_with_its_own_time(source, tmp_path):
    array, seen = source.array(np.arange(8, dtype="<u2"), (2,), missing={3}, fill=5)
    other = source.path.with_name("other.bin")
    other.write_bytes(source.data)
    refs = ChunkRefs(
        (source.url, str(other)), array.refs.indptr, np.array([0, 1, 1], "i4"), array.refs.offset, array.refs.length
    )
    both = VirtualArray((8,), array.dtype, (2,), array.codecs, refs, ("x",), fill_value=5)
    records = (SourceRecord(source.url), SourceRecord(str(other), modified=modified(other)))
    writer.write(VirtualGroup({"data": both}, sources=records), str(tmp_path / "r"))
    root = opened(tmp_path / "r", source)
    np.testing.assert_array_equal(root["data"][:], seen)
    for path in (source.path, other):
        os.utime(path, (4e9, 4e9))
    np.testing.assert_array_equal(root["data"][:2], seen[:2])
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        root["data"][2:]


def test_overwriting_is_a_commit_that_keeps_the_history(source, tmp_path):
    older, _ = source.array(np.arange(8, dtype="<u2"), (4,))
    newer, seen = source.array(np.arange(50, 58, dtype="<u2"), (4,))
    target = str(tmp_path / "r")
    writer.write(VirtualGroup({"old": older}), target)
    with pytest.raises(JnrrdzError, match="exists already; --overwrite"):
        writer.write(VirtualGroup({"new": newer}), target)
    writer.write(VirtualGroup({"new": newer}), target, WriteOptions(overwrite=True))
    root = opened(target, source)
    assert list(root) == ["new"]
    np.testing.assert_array_equal(root["new"][:], seen)
    history = icechunk.Repository.open(icechunk.local_filesystem_storage(target)).ancestry(branch="main")
    assert len(list(history)) == 3


@pytest.mark.parametrize("error", [OSError(5, "lost"), KeyboardInterrupt()])
@pytest.mark.parametrize("older", [False, True])
def test_a_failure_midway_leaves_nothing(source, tmp_path, monkeypatch, error, older):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    target = tmp_path / "r"
    if older:
        writer.write(VirtualGroup({"old": array}), str(target))

    def failing(*_):
        raise error

    monkeypatch.setattr(writer, "_set_references", failing)
    with pytest.raises((JnrrdzError, OSError, KeyboardInterrupt)):
        writer.write(VirtualGroup({"new": array}), str(target), WriteOptions(overwrite=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == (["data", "r"] if older else ["data"])
    if older:
        np.testing.assert_array_equal(opened(target, source)["old"][:], seen)


def test_what_icechunk_cannot_say(source, tmp_path):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,), scattered={1})
    root = VirtualGroup({"data": array})
    with pytest.raises(UnrepresentableError, match=r"data, chunk 1: .*--single-range"):
        writer.write(root, str(tmp_path / "r"))
    with pytest.raises(UnrepresentableError, match="absolute URLs only"):
        writer.write(root, str(tmp_path / "r"), WriteOptions(single_range=True, relative=True))
    with pytest.raises(UnsupportedError, match="local directories and to s3://"):
        writer.write(root, "memory://r", WriteOptions(single_range=True))
    assert not (tmp_path / "r").exists()


def test_a_source_that_icechunk_cannot_reach_is_refused(tmp_path):
    array = VirtualArray(
        (1,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.single("ftp://host/a.tif", [1], [1]), ("x",)
    )
    with pytest.raises(UnsupportedError, match="ftp://host/: Icechunk reads"):
        writer.write(VirtualGroup({"data": array}), str(tmp_path / "r"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def crowded(seaweed, bucket):
    """Return a bucket with other people's objects, at its root and below a prefix."""
    for key in ("root.txt", "project/data.bin", "project/chunks.txt", "project/deep/repo", "projects/other"):
        seaweed.put(bucket, key, b"precious")
    return bucket


@pytest.mark.parametrize("place", ["project", "project/", "project/deep", ""])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_prefix_with_other_objects_is_refused_and_left_alone(seaweed, crowded, place, overwrite):
    array = VirtualArray((1,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.single("s3://b/a", [1], [1]), ("x",))
    before = seaweed.keys(crowded)
    with pytest.raises(JnrrdzError, match=r"holds other objects; name a prefix that is empty|invalid icechunk header"):
        writer.write(
            VirtualGroup({"data": array}),
            f"s3://{crowded}/{place}",
            WriteOptions(
                overwrite=overwrite, target_options=seaweed.options(client_kwargs={"region_name": "us-east-1"})
            ),
        )
    assert seaweed.keys(crowded) == before


def test_a_failure_midway_removes_what_icechunk_wrote_and_nothing_else(seaweed, crowded, monkeypatch):
    array = VirtualArray((1,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.single("s3://b/a", [1], [1]), ("x",))
    before = seaweed.keys(crowded)

    def failing(*_):
        seaweed.put(crowded, "project/new/readme.txt", b"of somebody else, meanwhile")
        assert any(key.startswith("project/new/snapshots/") for key in seaweed.keys(crowded))
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_set_references", failing)
    with pytest.raises(KeyboardInterrupt):
        writer.write(
            VirtualGroup({"data": array}),
            f"s3://{crowded}/project/new",
            WriteOptions(target_options=seaweed.options(client_kwargs={"region_name": "us-east-1"})),
        )
    assert seaweed.keys(crowded) == sorted([*before, "project/new/readme.txt"])
