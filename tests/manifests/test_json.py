import io
import json
import os
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.reference import ReferenceFileSystem
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup, tree_json
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.manifests import json as kerchunk_json
from jnrrdz.options import WriteOptions


def group(children, **more):
    built = {name: group(child) if isinstance(child, dict) else child for name, child in children.items()}
    return VirtualGroup(built, **more)


def dumped(root, **options):
    stream = io.BytesIO()
    kerchunk_json.dump(root, stream, **options)
    return stream.getvalue().decode("ascii")


def refs_of(*rows, sources=("file:///a",), inline=None):
    flat = [cell for row in rows for cell in row]
    source, offset, length = (np.array(c, t) for c, t in zip(zip(*flat, strict=True), "iqq", strict=True))
    return ChunkRefs(sources, np.cumsum([0, *map(len, rows)]), source, offset, length, inline or {})


def line_of(refs, shape=None, name="data"):
    shape = shape or (refs.chunks,)
    dims = tuple(f"d{i}" for i in range(len(shape)))
    return VirtualGroup({name: VirtualArray(shape, np.dtype("u1"), (1,) * len(shape), (bytes_(None),), refs, dims)})


def test_stock_fsspec_and_zarr_read_every_kind_of_chunk(tree, stock, tmp_path):
    children, seen = tree
    kerchunk_json.write(group(children), str(tmp_path / "refs.json"))
    opened = stock(tmp_path / "refs.json")
    for path, values in seen.items():
        np.testing.assert_array_equal(opened[path][...], values)


def test_blocks_of_any_size_give_the_same_file(tree, monkeypatch):
    root = group(tree[0])
    whole = dumped(root)
    for size in (1, 2, 5):
        monkeypatch.setattr(kerchunk_json, "BLOCK", size)
        assert dumped(root) == whole


@pytest.mark.parametrize("between", [["<", ",", ">"], ["", "", ""], ["a", '":[', "]"]])
@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 1000), min_size=2, max_size=12))
def test_few_numbers_and_many_are_spelt_alike(between, numbers):
    first, second = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 : len(numbers) // 2 * 2]
    columns = np.array([first, second], np.int64)
    start, comma, end = between
    expected = "".join(f"{start}{a}{comma}{b}{end}" for a, b in zip(first, second, strict=True)).encode()
    constants = [text.encode() for text in between]
    assert kerchunk_json.decimals(columns, constants) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kerchunk_json, "FEW", 0)
        assert kerchunk_json.decimals(columns, constants) == expected


def test_few_chunks_and_many_give_the_same_file(tree, monkeypatch):
    root = group(tree[0])
    monkeypatch.setattr(kerchunk_json, "FEW", -1)
    many = dumped(root)
    monkeypatch.setattr(kerchunk_json, "FEW", 1 << 20)
    assert dumped(root) == many


def test_documents_are_those_of_the_tree_consolidated_by_the_root(tree):
    root = group(tree[0])
    refs = json.loads(dumped(root))["refs"]
    expected = {key: json.dumps(document, separators=(",", ":")) for key, document in tree_json(root).items()}
    assert {key: text for key, text in refs.items() if key.endswith("zarr.json")} == expected


def test_xarray_opens_root_group_and_tree_without_arguments(tree, tmp_path):
    children, seen = tree
    target = str(tmp_path / "refs.json")
    kerchunk_json.write(group(children, attributes={"title": "t"}), target)
    storage = {"fo": target, "remote_protocol": "file"}
    with xr.open_dataset("reference://", engine="zarr", storage_options=storage, mask_and_scale=False) as root:
        assert root["data"].dims == ("y", "x")
        assert root.attrs["title"] == "t"
        np.testing.assert_array_equal(root["data"].to_numpy(), seen["data"])
    with xr.open_dataset("reference://", engine="zarr", storage_options=storage, group="0") as level:
        np.testing.assert_array_equal(level["data"].to_numpy(), seen["0/data"])


def test_xarray_opens_groups_as_a_tree(source, tmp_path):
    levels = [source.array(np.arange(n * n, dtype="<u2").reshape(n, n), (2, 2)) for n in (4, 2)]
    children = {str(i): {"data": array} for i, (array, _) in enumerate(levels)}
    kerchunk_json.write(group(children), str(tmp_path / "r.json"))
    storage = {"fo": str(tmp_path / "r.json"), "remote_protocol": "file"}
    with xr.open_datatree("reference://", engine="zarr", storage_options=storage) as opened:
        for i, (_, seen) in enumerate(levels):
            np.testing.assert_array_equal(opened[f"{i}/data"].to_numpy(), seen)


def test_the_text_itself():
    refs = refs_of([(0, 5, 6)], [], [(0, 7, 8), (0, 70, 80)], [], inline={3: b"\xff\x00"})
    first, second, *lines = dumped(line_of(refs, (2, 2))).split("\n")
    assert first == '{"version":1,"refs":{'
    assert second.startswith('"zarr.json":"{')
    assert lines[0].startswith('"data/zarr.json":"{')
    assert lines[1:] == [
        '"data/c/0/0":["file:///a",5,6],',
        '"data/c/1/0":["file:///a",[[7,8],[70,80]]],',
        '"data/c/1/1":"base64:/wA="',
        "}}",
        "",
    ]


def test_a_scattered_chunk_fails_in_stock_fsspec_and_never_reads_as_something(source, stock, tmp_path):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,), scattered={1})
    kerchunk_json.write(VirtualGroup({"data": array}), str(tmp_path / "r.json"))
    opened = stock(tmp_path / "r.json")
    np.testing.assert_array_equal(opened["data"][:4], np.arange(4))
    with pytest.raises(ValueError, match="unpack"):
        opened["data"][4:]


def test_single_range_is_the_span_from_the_first_to_the_last_byte():
    refs = refs_of([(0, 70, 5), (0, 10, 6)], [(0, 3, 4)])
    lines = dumped(line_of(refs), single_range=True).split("\n")
    assert lines[3:5] == ['"data/c/0":["file:///a",10,65],', '"data/c/1":["file:///a",3,4]']


def test_ranges_that_touch_are_one():
    refs = refs_of([(0, 10, 5), (0, 15, 6)], [(0, 40, 1), (0, 39, 1)])
    lines = dumped(line_of(refs)).split("\n")
    assert lines[3:5] == ['"data/c/0":["file:///a",10,11],', '"data/c/1":["file:///a",[[40,1],[39,1]]]']


@pytest.mark.parametrize(
    ("refs", "message"),
    [
        (refs_of([(0, 1, 2), (1, 3, 4)], sources=("a", "b")), r"b: data, chunk 0: .* several sources"),
        (refs_of([(0, 9, 1)], [(0, 8, 0)]), r"data, chunk 1: a chunk of no bytes.*\(at byte 8\)"),
    ],
)
@pytest.mark.parametrize("single_range", [False, True])
def test_what_references_cannot_say(refs, message, single_range, tmp_path):
    with pytest.raises(UnrepresentableError, match=message):
        kerchunk_json.write(line_of(refs), str(tmp_path / "r.json"), WriteOptions(single_range=single_range))
    assert list(tmp_path.iterdir()) == []


cells = st.tuples(st.integers(0, 1), st.integers(0, 2**62), st.integers(1, 2**40))
rows = st.lists(st.one_of(st.just([]), st.lists(cells, min_size=1, max_size=3)), min_size=6, max_size=6)
urls = st.text(st.characters(codec="utf-8"), min_size=1)


@given(rows, st.tuples(urls, urls), st.dictionaries(st.integers(0, 5), st.binary(min_size=1)))
def test_any_references_are_what_json_says_one_by_one(rows, sources, inline):
    one_source = [[(row[0][0], *cell[1:]) for cell in row] for row in rows]
    one_source = [[] if i in inline else row for i, row in enumerate(one_source)]
    flat = [cell for row in one_source for cell in row] or np.empty((0, 3), np.int64)
    columns = np.array(flat, np.int64).T
    indptr = np.cumsum([0, *map(len, one_source)])
    refs = ChunkRefs(sources, indptr, columns[0].astype(np.int32), columns[1], columns[2], inline)
    expected = {}
    for chunk, row in enumerate(one_source):
        key = f"n'\"ä/c/{chunk // 3}/{chunk % 3}"
        if chunk in inline:
            expected[key] = inline[chunk]
        elif row:
            touching = all(a[1] + a[2] == b[1] for a, b in pairwise(row))
            span = [row[0][1], sum(cell[2] for cell in row)]
            expected[key] = [sources[row[0][0]], *(span if touching else [[list(cell[1:]) for cell in row]])]
    text = dumped(line_of(refs, (2, 3), name="n'\"ä"))
    loaded = {key: value for key, value in json.loads(text)["refs"].items() if not key.endswith("zarr.json")}
    decoded = ReferenceFileSystem({"version": 1, "refs": loaded}, remote_protocol="file")
    loaded |= {key: decoded.cat_file(key) for key, value in loaded.items() if isinstance(value, str)}
    assert loaded == expected
    assert list(loaded) == list(expected)


def test_relative_references_move_with_their_sources(source, stock, tmp_path, monkeypatch):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    (tmp_path / "refs").mkdir()
    root = VirtualGroup({"data": array}, sources=(SourceRecord(source.url, size=9),))
    kerchunk_json.write(root, str(tmp_path / "refs" / "r.json"), WriteOptions(relative=True))
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("refs", "data"):
        (tmp_path / name).rename(moved / name)
    # stock fsspec takes a relative URL from the working directory
    monkeypatch.chdir(moved / "refs")
    opened = stock("r.json")
    np.testing.assert_array_equal(opened["data"][:], seen)
    assert opened.attrs["jnrrdz"]["sources"] == [{"url": "../data/raw file.bin", "size": 9}]


def test_an_absolute_manifest_keeps_the_sources_urls(source):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,))
    assert json.loads(dumped(VirtualGroup({"data": array})))["refs"]["data/c/0"][0] == source.url


OLDER = '{"version":1,"refs":{\n"zarr.json":"{}"\n}}\n'


def test_an_existing_file_stays_unless_overwritten(tmp_path):
    target = tmp_path / "r.json"
    target.write_text(OLDER)
    root = line_of(refs_of([(0, 1, 2)]))
    with pytest.raises(JnrrdzError, match="exists already; --overwrite"):
        kerchunk_json.write(root, str(target))
    assert target.read_text() == OLDER
    kerchunk_json.write(root, str(target), WriteOptions(overwrite=True))
    assert len(json.loads(target.read_text())["refs"]) > 1
    assert os.listdir(tmp_path) == ["r.json"]  # noqa: PTH208 - names are what counts


def test_a_failure_midway_keeps_the_older_file(tmp_path):
    target = tmp_path / "r.json"
    target.write_text(OLDER)
    good, bad = line_of(refs_of([(0, 1, 2)])), line_of(refs_of([(0, 1, 0)]))
    with pytest.raises(UnrepresentableError):
        kerchunk_json.write(VirtualGroup({"a": good, "b": bad}), str(target), WriteOptions(overwrite=True))
    assert target.read_text() == OLDER
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_remote_file_is_written_and_read(source, stock):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    kerchunk_json.write(VirtualGroup({"data": array}), "memory://json/r.json", WriteOptions(overwrite=True))
    np.testing.assert_array_equal(stock("memory://json/r.json")["data"][:], seen)
