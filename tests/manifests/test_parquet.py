import gc
import json

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from fsspec.implementations.reference import LazyReferenceMapper, ReferenceFileSystem

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs, SparseRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.manifests import parquet as kerchunk_parquet
from jnrrdz.manifests.parquet_records import ParquetRefs
from jnrrdz.options import WriteOptions

# pandas announces the end of the engine that fsspec asks it for
pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")


def group(children, **more):
    built = {name: group(child) if isinstance(child, dict) else child for name, child in children.items()}
    return VirtualGroup(built, **more)


def with_engine(target, engine):
    mapper = LazyReferenceMapper(str(target), fsspec.filesystem("file"), engine=engine)
    fs = ReferenceFileSystem(mapper, remote_protocol="file", asynchronous=True)
    return zarr.open_group(zarr.storage.FsspecStore(fs, path="", read_only=True), mode="r")


@pytest.mark.parametrize("record_size", [1, 2, 4, 100_000])
def test_stock_fsspec_and_zarr_read_every_kind_of_chunk(tree, stock, tmp_path, record_size):
    children, seen = tree
    kerchunk_parquet.write(group(children), str(tmp_path / "refs.parq"), record_size=record_size)
    opened = stock(tmp_path / "refs.parq")
    for path, values in seen.items():
        np.testing.assert_array_equal(opened[path][...], values)


@pytest.mark.parametrize("engine", ["fastparquet", "pyarrow"])
def test_both_parquet_engines_read_it(source, tmp_path, engine):
    # no missing chunk here: with pandas 3 and pyarrow, which fsspec does not ask for, it takes the null for a URL
    values = np.arange(60, dtype="<u2").reshape(6, 10)
    array, seen = source.array(values, (2, 5), inline={3}, fill=7)
    kerchunk_parquet.write(group({"0": {"data": array}}), str(tmp_path / "refs.parq"), record_size=2)
    np.testing.assert_array_equal(with_engine(tmp_path / "refs.parq", engine)["0/data"][...], seen)


def test_stock_fsspec_goes_through_all_references(tree, tmp_path):
    children, _ = tree
    kerchunk_parquet.write(group(children), str(tmp_path / "refs.parq"), record_size=1)
    mapper = LazyReferenceMapper(str(tmp_path / "refs.parq"), fsspec.filesystem("file"))
    arrays = {"data": 9, "0/data": 9, "0/deep/scalar": 1, "1/nothing": 0}
    assert {path: len(list(mapper._generate_all_records(path))) for path in arrays} == arrays  # noqa: SLF001
    assert len(list(mapper.values())) == len(mapper.zmetadata) + 1 + sum(arrays.values())


def test_without_a_remote_protocol_stock_fsspec_finds_it_in_the_references(source, tmp_path):
    array, seen = source.array(np.arange(6, dtype="<u2"), (1,), missing={0, 1})
    kerchunk_parquet.write(VirtualGroup({"data": array}), str(tmp_path / "refs.parq"), record_size=2)
    opened = zarr.open_group("reference://", mode="r", storage_options={"fo": str(tmp_path / "refs.parq")})
    np.testing.assert_array_equal(opened["data"][...], seen)


def test_xarray_opens_root_group_and_tree(tree, tmp_path):
    children, seen = tree
    target = str(tmp_path / "refs.parq")
    kerchunk_parquet.write(group(children), target)
    storage = {"fo": target, "remote_protocol": "file"}
    with xr.open_dataset("reference://", engine="zarr", storage_options=storage, mask_and_scale=False) as root:
        np.testing.assert_array_equal(root["data"].to_numpy(), seen["data"])
    with xr.open_dataset("reference://", engine="zarr", storage_options=storage, group="0") as level:
        np.testing.assert_array_equal(level["data"].to_numpy(), seen["0/data"])


@pytest.mark.parametrize("fill", [2**64 - 1, 2**53 + 1])
def test_fsspec_passes_large_fill_values_through(source, stock, tmp_path, fill):
    array, seen = source.array(np.arange(4, dtype="<u8"), (2,), missing={1}, fill=fill)
    kerchunk_parquet.write(VirtualGroup({"data": array}), str(tmp_path / "r"))
    np.testing.assert_array_equal(stock(f"{tmp_path / 'r'}/")["data"][:], seen)
    assert seen[-1] == fill


def test_inline_bytes_that_look_like_base64_come_back(stock, tmp_path):
    data = b"base64:x"
    nothing = np.empty(0, np.int64)
    refs = ChunkRefs((), np.zeros(2, np.int64), nothing.astype(np.int32), nothing, nothing, {0: data})
    array = VirtualArray((8,), np.dtype("u1"), (8,), (bytes_("little"),), refs, ("x",))
    kerchunk_parquet.write(VirtualGroup({"data": array}), str(tmp_path / "r.parq"))
    assert stock(tmp_path / "r.parq")["data"][:].tobytes() == data


def test_the_files_themselves(source, tmp_path):
    array, _ = source.array(np.arange(12, dtype="<u2"), (2,), missing={1}, inline={2}, scattered={0, 5})
    kerchunk_parquet.write(VirtualGroup({"a": array}), str(tmp_path / "r"), record_size=5)
    meta = json.loads((tmp_path / "r" / ".zmetadata").read_text())
    assert meta["record_size"] == 5
    assert sorted(meta["metadata"]) == ["a/.zarray", "a/zarr.json", "zarr.json", "zarr.json/.zarray"]
    assert meta["metadata"]["a/.zarray"] == {"shape": [12], "chunks": [2]}
    keys = {"name": "v2", "configuration": {"separator": "."}}
    assert meta["metadata"]["a/zarr.json"]["chunk_key_encoding"] == keys
    refs = pq.ParquetFile(tmp_path / "r" / "a" / "refs.0.parq").read()
    assert refs.column_names == ["path", "offset", "size", "raw", "range_path", "offsets", "sizes"]
    assert refs["path"].to_pylist() == ["", None, None, source.url, source.url]
    assert refs["range_path"].to_pylist() == [source.url, None, None, None, None]
    assert refs["raw"].to_pylist() == [None, None, b"\x04\x00\x05\x00", None, None]
    (first, second) = array.refs.ranges(0)
    assert refs["offset"][0].as_py() == second[1]
    assert refs["size"][0].as_py() == first[1] + first[2] - second[1]
    (last,) = pq.ParquetFile(tmp_path / "r" / "a" / "refs.1.parq").read().to_pylist()
    for row, chunk in ((refs.to_pylist()[0], 0), (last, 5)):
        assert list(zip(row["offsets"], row["sizes"], strict=True)) == [(o, n) for _, o, n in array.refs.ranges(chunk)]


def test_a_record_of_single_ranges_has_the_columns_of_kerchunk(source, tmp_path):
    array, _ = source.array(np.arange(12, dtype="<u2"), (2,), scattered={5})
    kerchunk_parquet.write(VirtualGroup({"a": array}), str(tmp_path / "r"), record_size=5)
    refs = pq.ParquetFile(tmp_path / "r" / "a" / "refs.0.parq").read()
    assert refs.column_names == ["path", "offset", "size", "raw"]


@pytest.mark.parametrize("engine", ["fastparquet", "pyarrow"])
def test_a_scattered_chunk_fails_in_stock_fsspec_and_never_reads_as_something(source, tmp_path, engine):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,), scattered={1})
    kerchunk_parquet.write(VirtualGroup({"data": array}), str(tmp_path / "r.parq"))
    opened = with_engine(tmp_path / "r.parq", engine)
    np.testing.assert_array_equal(opened["data"][:4], np.arange(4))
    with pytest.raises(RuntimeError, match='"data/1" failed to fetch target'):
        opened["data"][4:]


def test_single_range_is_the_span(tmp_path):
    refs = ChunkRefs(("/a",), np.array([0, 2]), np.zeros(2, np.int32), np.array([70, 10]), np.array([5, 6]))
    array = VirtualArray((1,), np.dtype("u1"), (1,), (bytes_("little"),), refs, ("x",))
    kerchunk_parquet.write(VirtualGroup({"a": array}), str(tmp_path / "r"), WriteOptions(single_range=True))
    (row,) = pq.ParquetFile(tmp_path / "r" / "a" / "refs.0.parq").read().to_pylist()
    assert row == {"path": "/a", "offset": 10, "size": 65, "raw": None}


def test_relative_references(source, stock, tmp_path, monkeypatch):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    (tmp_path / "refs").mkdir()
    kerchunk_parquet.write(
        VirtualGroup({"data": array}), str(tmp_path / "refs" / "r.parq"), WriteOptions(relative=True)
    )
    monkeypatch.chdir(tmp_path / "refs")
    np.testing.assert_array_equal(stock("r.parq")["data"][:], seen)


def test_a_name_that_would_leave_the_directory_is_refused(source, tmp_path):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,))
    with pytest.raises(UnrepresentableError, match=r"'\.\.' is no name"):
        kerchunk_parquet.write(group({"..": {"x": array}}), str(tmp_path / "r.parq"))
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "r.parq").exists()


def test_overwriting_replaces_the_whole_directory(source, stock, tmp_path):
    older, _ = source.array(np.arange(8, dtype="<u2"), (2,))
    newer, seen = source.array(np.arange(50, 58, dtype="<u2"), (4,))
    target = str(tmp_path / "r.parq")
    kerchunk_parquet.write(VirtualGroup({"old": older}), target)
    with pytest.raises(JnrrdzError, match="exists already; --overwrite"):
        kerchunk_parquet.write(VirtualGroup({"new": newer}), target)
    kerchunk_parquet.write(VirtualGroup({"new": newer}), target, WriteOptions(overwrite=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "r.parq"]
    assert sorted(path.name for path in (tmp_path / "r.parq").iterdir()) == [".zmetadata", "new"]
    np.testing.assert_array_equal(stock(target)["new"][:], seen)


def test_a_failure_midway_keeps_the_older_directory(source, stock, tmp_path):
    good, seen = source.array(np.arange(8, dtype="<u2"), (2,))
    bad = VirtualArray((1,), np.dtype("u1"), (1,), (bytes_("little"),), ChunkRefs.single(source.url, [4], [0]), ("x",))
    target = str(tmp_path / "r.parq")
    kerchunk_parquet.write(VirtualGroup({"data": good}), target)
    with pytest.raises(UnrepresentableError):
        kerchunk_parquet.write(VirtualGroup({"other": good, "bad": bad}), target, WriteOptions(overwrite=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "r.parq"]
    np.testing.assert_array_equal(stock(target)["data"][:], seen)


def test_a_remote_directory_is_written_and_read(source, stock):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    kerchunk_parquet.write(VirtualGroup({"data": array}), "memory://parquet/r.parq", WriteOptions(overwrite=True))
    np.testing.assert_array_equal(stock("memory://parquet/r.parq")["data"][:], seen)


# Grids with few references


def sparse_group(source):
    """An array of 1200 chunks, of which the chunks 5 and 907 are stored."""
    source.path.write_bytes(bytes(range(100)))
    stored = ChunkRefs.single(source.url, np.array([3, 40]), np.array([1, 1]))
    refs = SparseRefs(stored, np.array([5, 907]), 1200)
    array = VirtualArray((40, 30), np.dtype("u1"), (1, 1), (bytes_("little"),), refs, ("y", "x"), np.uint8(9))
    return group({"data": array})


def without_files_of_missing_chunks(manifest, size):
    """Remove the records without a reference, as other writers leave them out."""
    for record in range(-(-1200 // size)):
        if record not in {5 // size, 907 // size}:
            (manifest / "data" / f"refs.{record}.parq").unlink()


@pytest.mark.parametrize("size", [100, 350, 1000])
@pytest.mark.parametrize("is_cut", [False, True])
def test_records_without_a_reference_are_left_out(source, stock, tmp_path, size, is_cut):
    target = tmp_path / "refs.parq"
    kerchunk_parquet.write(sparse_group(source), str(target), record_size=size)
    opened = stock(target)["data"][...]
    expected = np.full(1200, 9)
    expected[[5, 907]] = 3, 40
    np.testing.assert_array_equal(opened.ravel(), expected)
    if is_cut:
        without_files_of_missing_chunks(target, size)
    refs = ParquetRefs(1200, str(target / "data"), size, None)
    stored = {5: [(source.url, 3, 1)], 907: [(source.url, 40, 1)]}
    assert [refs.lookup(chunk) for chunk in range(1200)] == [stored.get(chunk, []) for chunk in range(1200)]
    starts = sorted({chunk // size * size for chunk in stored})
    assert [first for first, _ in refs.parts()] == starts
    assert refs.present.tolist() == sorted(stored)
    assert refs.stored().offset.tolist() == [3, 40]
    columns = refs.columns()
    assert columns.chunks == 1200
    assert columns.present.tolist() == sorted(stored)


def test_records_without_a_reference_have_the_bytes_of_their_number_of_rows(source, tmp_path):
    target = tmp_path / "refs.parq"
    sparse = sparse_group(source)
    kerchunk_parquet.write(sparse, str(target), record_size=350)
    dense = sparse.with_refs(lambda refs: refs.columns())
    kerchunk_parquet.write(dense, str(tmp_path / "dense.parq"), record_size=350)
    names = sorted(path.relative_to(target) for path in target.rglob("*") if path.is_file())
    assert len(names) == 1 + 4
    for name in names:
        assert (target / name).read_bytes() == (tmp_path / "dense.parq" / name).read_bytes()


@pytest.mark.parametrize("where", ["memory://missing-records", "missing-records"])
def test_missing_records_leave_nothing_in_memory(where):
    refs = ParquetRefs(1 << 20, f"{where}/data", 1 << 16, None)
    gc.collect()
    gc.disable()
    try:
        assert refs.lookup(70_000) == []
        errors = [each for each in gc.get_objects() if isinstance(each, FileNotFoundError)]
        in_memory = [each for each in errors if each.__traceback__ is not None]
    finally:
        gc.enable()
    assert in_memory == []
