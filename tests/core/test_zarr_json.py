import base64
import enum
import json
import math
import struct
import warnings
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.json_schema import validate
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup, nodes_json, tree_json, tree_of
from jnrrdz.core.zarr_json import NODE, array_from_json, array_json, axis_names, dumps, json_value, key_encoding
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError


def virtual(shape=(5, 7), chunks=(2, 3), dtype="u2", refs=None, **more):
    count = math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    endian = None if np.dtype(dtype).itemsize == 1 else "little"
    return VirtualArray(
        shape=shape,
        dtype=np.dtype(dtype),
        chunks=chunks,
        codecs=more.pop("codecs", (bytes_(endian), CodecSpec("zstd", {"level": 0, "checksum": False}))),
        refs=refs or ChunkRefs.empty(count),
        dimension_names=more.pop("dims", tuple(f"d{i}" for i in range(len(shape)))),
        **more,
    )


def store_of(documents):
    store = MemoryStore()
    for key, document in documents.items():
        sync(store.set(key, default_buffer_prototype().buffer.from_bytes(dumps(document).encode())))
    return store


def zarrs_own(store):
    return {key: json.loads(value.to_bytes()) for key, value in store._store_dict.items() if "zarr.json" in key}  # noqa: SLF001


def test_the_documents_are_those_that_zarr_writes():
    root = VirtualGroup(
        {
            "data": virtual(dtype="f4", fill_value=math.nan, attributes={"k": [1]}),
            "0": VirtualGroup({"deep": VirtualGroup({"s": virtual((), (), "c8", fill_value=1j, dims=())})}, {"a": 1}),
        }
    )
    store = MemoryStore()
    top = zarr.create_group(store)
    zstd = zarr.codecs.ZstdCodec(level=0)
    names = ["d0", "d1"]
    more = {"compressors": zstd, "attributes": {"k": [1]}, "dimension_names": names}
    top.create_array("data", shape=(5, 7), chunks=(2, 3), dtype="f4", fill_value=math.nan, **more)
    deep = top.create_group("0", attributes={"a": 1}).create_group("deep")
    deep.create_array("s", shape=(), dtype="c8", fill_value=1j, compressors=zstd)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
        for path in ("0/deep", "0", ""):
            zarr.consolidate_metadata(store, path=path or None)
    ours, theirs = tree_json(root, consolidated="each"), zarrs_own(store)
    assert ours["zarr.json"]["attributes"].pop("jnrrdz")["sources"] == []
    scalar = [theirs["0/deep/s/zarr.json"], *(_of(theirs, key) for key in ("", "0/", "0/deep/"))]
    for document in scalar:
        document["dimension_names"] = []
    assert ours == theirs


def _of(documents, group):
    path = "0/deep/s"[len(group) :]
    return documents[f"{group}zarr.json"]["consolidated_metadata"]["metadata"][path]


def test_no_consolidated_metadata_where_it_is_not_wanted():
    root = VirtualGroup({"0": VirtualGroup({"data": virtual()})})
    documents = tree_json(root, consolidated="nowhere")
    assert list(documents) == ["zarr.json", "0/zarr.json", "0/data/zarr.json"]
    assert not any("consolidated_metadata" in document for document in documents.values())
    root = VirtualGroup({"0": VirtualGroup(attributes={"a": np.float32(1)})})
    assert tree_json(root, consolidated="nowhere")["0/zarr.json"] == {
        "attributes": {"a": 1.0},
        "zarr_format": 3,
        "node_type": "group",
    }


def test_the_root_alone_consolidates():
    root = VirtualGroup({"0": VirtualGroup({"a": virtual(), "1": VirtualGroup({"b": virtual()})})})
    documents, each = tree_json(root), tree_json(root, consolidated="each")
    assert documents["zarr.json"] == each["zarr.json"]
    assert [key for key in documents if "consolidated_metadata" in documents[key]] == ["zarr.json"]
    opened = zarr.open_group(store_of({"zarr.json": documents["zarr.json"]}), mode="r")
    assert sorted(name for name, _ in opened.members(max_depth=None)) == ["0", "0/1", "0/1/b", "0/a"]


def test_zarr_opens_the_tree_and_needs_no_listing():
    root = VirtualGroup({"0": VirtualGroup({"a": virtual(), "1": VirtualGroup({"b": virtual()})})})
    documents = tree_json(root, consolidated="each")
    opened = zarr.open_group(store_of({"zarr.json": documents["zarr.json"]}), mode="r")
    assert sorted(name for name, _ in opened.members(max_depth=None)) == ["0", "0/1", "0/1/b", "0/a"]
    level = zarr.open_group(store_of({"0/zarr.json": documents["0/zarr.json"]}), path="0", mode="r")
    assert sorted(name for name, _ in level.members(max_depth=None)) == ["1", "1/b", "a"]


def test_the_documents_of_a_tree_make_the_tree_again():
    inner = VirtualGroup({"b": virtual(), "empty": VirtualGroup()}, {"level": 1})
    root = VirtualGroup({"a": virtual(attributes={"units": "m"}), "0": inner}, {"title": "t"})
    again = tree_of(nodes_json(root), {path: array.refs for path, array in root.arrays()})
    assert tree_json(again) == tree_json(root)
    assert [path for path, _ in again.walk()] == ["a", "0", "0/b", "0/empty"]
    assert again.at("0/b").refs is root.at("0/b").refs
    assert again.choice() == root.choice()


@pytest.mark.parametrize(
    ("change", "arrays", "message"),
    [
        ({}, {"": virtual()}, "an array at the root"),
        ({}, {"a/b": virtual()}, "a node below the array 'a'"),
        ({"dimension_names": None}, {}, "dimensions have no names"),
        ({"data_type": "string"}, {}, "data type 'string'"),
    ],
)
def test_documents_that_make_no_tree(change, arrays, message):
    documents = nodes_json(VirtualGroup({"a": virtual()}))
    documents["a"] |= change
    documents |= {path: array_json(array) for path, array in arrays.items()}
    refs = {path: virtual().refs for path in ("a", *arrays)}
    with pytest.raises(JnrrdzError, match=message):
        tree_of(documents, refs)


@pytest.mark.parametrize(("encoding", "separator", "key"), [("default", "/", "c/1/2"), ("default", ".", "c.1.2")])
def test_chunk_keys(encoding, separator, key):
    metadata = ArrayV3Metadata.from_dict(array_json(virtual(), encoding=encoding, separator=separator))
    assert metadata.encode_chunk_key((1, 2)) == key


def test_v2_chunk_keys():
    assert (
        ArrayV3Metadata.from_dict(array_json(virtual(), encoding="v2", separator=".")).encode_chunk_key((1, 2)) == "1.2"
    )


shapes = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=4)


@given(
    shapes,
    st.sampled_from(["bool", "i1", "u8", "f2", "f4", "f8", "c16"]),
    st.sampled_from([("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")]),
)
def test_facts_come_back_and_zarr_agrees(shape, dtype, keys):
    encoding, separator = keys
    sizes, chunks = (tuple(column) for column in zip(*shape, strict=True)) if shape else ((), ())
    array = virtual(sizes, chunks, dtype, attributes={"a": {"b": [1, None]}}, fill_value=1)
    document = json.loads(dumps(array_json(array, encoding=encoding, separator=separator)))
    facts = array_from_json(document)
    assert (facts.shape, facts.chunks, facts.dtype) == (sizes, chunks, np.dtype(dtype))
    assert key_encoding(document) == keys
    assert facts.dimension_names == array.dimension_names
    assert facts.attributes == {"a": {"b": [1, None]}}
    assert facts.fill_value == 1
    assert [codec.to_json() for codec in facts.codecs] == [codec.to_json() for codec in array.codecs]
    metadata = ArrayV3Metadata.from_dict(document)
    assert (metadata.shape, metadata.chunks, metadata.fill_value) == (sizes, chunks, 1)
    assert metadata.dtype.to_native_dtype() == np.dtype(dtype)


def test_a_document_that_says_less_is_read_too():
    document = array_json(virtual(dtype="u1", dims=("y", "x")))
    del document["dimension_names"], document["attributes"], document["storage_transformers"]
    document |= {"codecs": ["bytes", {"name": "crc32c"}], "chunk_key_encoding": "default"}
    facts = array_from_json(document)
    assert facts.codecs == (CodecSpec("bytes", {}), CodecSpec("crc32c", {}))
    assert (facts.dimension_names, facts.attributes) == (("axis_0", "axis_1"), {})
    assert list(axis_names(document)) == [None, None]
    assert key_encoding(document) == ("default", "/")
    assert facts.refs.chunks == np.prod(facts.grid)
    assert not len(facts.refs.columns().present)
    assert key_encoding(document | {"chunk_key_encoding": {"name": "v2"}}) == ("v2", ".")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"zarr_format": 2}, MalformedError, "zarr_format: found 2; 3 is needed"),
        ({"node_type": "table"}, MalformedError, "node_type: found 'table'; 'group' or 'array' is needed"),
        ({"shape": None}, MalformedError, "a.json: shape: found None; a list of 0 to 64 is needed"),
        ({"shape": [5]}, MalformedError, "a.json: chunk_grid: chunks of shape"),
        ({"shape": [5, -7]}, MalformedError, r"a.json: shape\[1\]: found -7; an integer from 0"),
        ({"shape": [5, True]}, MalformedError, r"shape\[1\]: found True"),
        ({"shape": [5, 7.0]}, MalformedError, r"shape\[1\]: found 7.0"),
        ({"dimension_names": ["y"]}, MalformedError, "differ in length"),
        ({"fill_value": "x"}, MalformedError, "fill_value"),
        ({"codecs": [3]}, MalformedError, r"a.json: codecs\[0\]: found 3; an object is needed"),
        ({"data_type": "string"}, UnsupportedError, "data type 'string'"),
        ({"data_type": {"name": "x"}}, UnsupportedError, "data type {'name': 'x'}"),
        ({"chunk_grid": {"name": "rectilinear"}}, UnsupportedError, "rectilinear"),
        ({"chunk_key_encoding": {"name": "other"}}, UnsupportedError, "other"),
        ({"storage_transformers": [{"name": "x"}]}, UnsupportedError, "storage transformers"),
    ],
)
def test_documents_that_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        array_from_json(validate(array_json(virtual()) | change, NODE, "a.json"))


@pytest.mark.parametrize("missing", ["shape", "data_type", "chunk_grid", "codecs", "fill_value", "zarr_format"])
def test_a_field_that_is_missing_is_named(missing):
    document = array_json(virtual())
    del document[missing]
    with pytest.raises(MalformedError, match=f"a.json: {missing}: is missing"):
        validate(document, NODE, "a.json")


def test_the_root_says_which_sources_there_are():
    refs = ChunkRefs(("/a", "/b"), np.array([0, 1]), np.zeros(1, np.int32), np.array([1]), np.array([2]))
    records = (SourceRecord("/c", 5), SourceRecord("/a", 9, '"e"', "v1", "2026-01-02T03:04:05Z"))
    root = VirtualGroup({"data": virtual((1,), (1,), refs=refs)}, {"title": "t"}, records)
    attributes = tree_json(root)["zarr.json"]["attributes"]
    last = "2026-01-02T03:04:05Z"
    assert attributes == {
        "title": "t",
        "jnrrdz": {
            "version": version("jnrrdz"),
            "sources": [
                {"url": "/c", "size": 5},
                {"url": "/a", "size": 9, "etag": '"e"', "version_id": "v1", "last_modified": last},
                {"url": "/b"},
            ],
        },
    }


class Kind(enum.IntEnum):
    TILE = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), "0.5"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
        (np.array([[1, 2]], "u1"), "[[1,2]]"),
        (np.array(1.5), "1.5"),
        ((1, "é", None, np.True_), '[1,"\\u00e9",null,true]'),
        ({"a": {"b": math.nan}}, '{"a":{"b":"NaN"}}'),
        ([math.inf, -math.inf], '["Infinity","-Infinity"]'),
        ([1.5, 10**320], f"[1.5,1{'0' * 320}]"),
        (Kind.TILE, "3"),
        (np.str_("x"), '"x"'),
    ],
)
def test_attributes_become_strict_json(value, expected):
    assert dumps(json_value(value)) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [0, b"x"]}, r"attributes\.a\[1\]: JSON has no bytes"),
        ({1: 2}, "a name of type int"),
        ("\ud800", "no Unicode text"),
        ({"t": np.datetime64("2026-01-01")}, "JSON has no datetime"),
        (1j, "JSON has no complex"),
    ],
)
def test_attributes_that_json_does_not_have(value, message):
    with pytest.raises(UnrepresentableError, match=message):
        json_value(value)


@pytest.mark.parametrize("name", ["", ".", "..", "__x", "a/b", "zarr.json", ".zarray", "\0", "/"])
@pytest.mark.parametrize("depth", [0, 1])
def test_names_that_zarr_reserves_or_that_lead_elsewhere(name, depth):
    root = VirtualGroup({name: virtual()})
    with pytest.raises(UnrepresentableError, match="no name for a Zarr node"):
        tree_json(VirtualGroup({"0": root}) if depth else root)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("f4", -9999.0), ("f8", math.nan), ("u2", 65535), ("i2", np.float64(-3)), ("f8", 0.1)]
)
def test_xarray_masks_with_the_fill_value_attribute(dtype, fill):
    array = virtual((4,), (2,), dtype, codecs=(bytes_("little"),), fill_value=fill, attributes={"_FillValue": fill})
    store = store_of(tree_json(VirtualGroup({"data": array})))
    with xr.open_dataset(store, engine="zarr") as masked:
        assert np.isnan(masked["data"].to_numpy()).all()
        np.testing.assert_equal(float(masked["data"].encoding["_FillValue"]), float(fill))


def test_a_fill_value_attribute_that_is_spelt_already_stays():
    spelt = base64.b64encode(struct.pack("<d", 5)).decode()
    array = virtual(dtype="f4", attributes={"_FillValue": spelt})
    assert array_json(array)["attributes"]["_FillValue"] == spelt
    pair = array_json(virtual(dtype="c8", attributes={"_FillValue": 5 + 5j}))["attributes"]["_FillValue"]
    assert pair == [spelt, spelt]
