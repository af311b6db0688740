"""Levels that are not stored: seen through jnrrdz alone, equal to formulas of numpy, read by windows."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import fsspec
import numpy as np
import pytest
import zarr

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.pyramid import VirtualLevel, virtual_levels_attribute
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests import json as kerchunk_json
from jnrrdz.manifests.documents import Documents
from jnrrdz.manifests.manifest import from_group, load
from jnrrdz.store.computed_levels import level_documents, with_virtual_levels
from jnrrdz.store.group import reference_group
from jnrrdz.store.store import ReferenceStore
from jnrrdz.store.xarray import datasets

VALUES = np.random.default_rng(3).integers(0, 60000, (24, 40), np.uint16)
AXES = {"y": {"step": 2.0, "start": 10.0, "unit": "m"}, "x": {"step": 0.5, "start": 0.0}}
EXPECTED = np.rint(VALUES.reshape(12, 2, 20, 2).mean((1, 3))).astype("u2")


PLAIN = (bytes_("little"),)


def group_of(path, levels, codecs=PLAIN):
    """An array of chunks of 8 x 10 in one raw file, written here by hand."""
    chunks = [VALUES[y : y + 8, x : x + 10].tobytes() for y in range(0, 24, 8) for x in range(0, 40, 10)]
    path.write_bytes(b"".join(chunks))
    numbers = np.arange(13, dtype=np.int64)
    lengths = np.full(12, 160, np.int64)
    refs = ChunkRefs((str(path),), numbers, np.zeros(12, np.int32), numbers[:-1] * 160, lengths)
    array = VirtualArray((24, 40), np.dtype("u2"), (8, 10), codecs, refs, ("y", "x"), np.uint16(0), {"axes": AXES})
    layout = [{"asset": "0", "transform": {"scale": [1.0, 1.0], "translation": [0.0, 0.0]}}]
    attributes = {"multiscales": {"layout": layout}, **virtual_levels_attribute(levels)}
    return VirtualGroup({"0": VirtualGroup({"data": array})}, attributes)


HALF = VirtualLevel("1", "0", "data", (2, 2), (12, 20), (5, 7))
ROWS = VirtualLevel("2", "0", "data", (8, 1), (3, 40), (2, 40), "max")


@pytest.fixture
def group(tmp_path):
    return group_of(tmp_path / "raw.bin", [HALF, ROWS])


@pytest.fixture
def store(group):
    return with_virtual_levels(ReferenceStore(from_group(group), allow=("*",)))


@pytest.mark.parametrize("pipeline", ["BatchedCodecPipeline", "FusedCodecPipeline"])
def test_levels_are_there_and_are_what_numpy_computes(store, pipeline):
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}):
        root = zarr.open_group(store, mode="r")
        assert np.array_equal(root["1/data"][...], EXPECTED)
        assert np.array_equal(root["1/data"][3:9, 11:18], EXPECTED[3:9, 11:18])
        assert np.array_equal(root["2/data"][...], VALUES.reshape(3, 8, 40).max(1))
        assert np.array_equal(root["0/data"][...], VALUES)


def test_a_tuned_group_reads_them_too(store):
    assert np.array_equal(reference_group(store)["1/data"][...], EXPECTED)


def test_datasets_have_the_levels_with_coordinates_in_the_middle_of_their_elements(store):
    found = datasets(store)
    assert sorted(found) == ["/", "/0", "/1", "/2"]
    assert np.array_equal(found["/1"]["data"].values, EXPECTED)
    assert found["/1"]["y"].values[:3].tolist() == [11.0, 15.0, 19.0]
    assert found["/2"]["x"].values.tolist() == found["/0"]["x"].values.tolist()


def test_multiscales_name_every_level_by_size(store):
    layout = json.loads(store.manifest.documents["zarr.json"])["attributes"]["multiscales"]["layout"]
    assert [entry["asset"] for entry in layout] == ["0", "1", "2"]
    assert layout[1]["derived_from"] == "0"
    assert layout[1]["transform"]["scale"] == [2.0, 2.0]


@pytest.mark.parametrize(
    ("names", "expected"), [(["y", "x"], [30.0, 0.0, 500.0, 0.0, -20.0, 900.0]), (["x", "y"], None)]
)
def test_an_affine_keeps_its_origin_and_grows_with_the_factors(names, expected):
    attributes = {"spatial:transform": [10.0, 0.0, 500.0, 0.0, -10.0, 900.0], "spatial:shape": [24, 40], "rpc": {}}
    source = {"zarr_format": 3, "node_type": "array", "shape": [24, 40], "data_type": "uint16"}
    source |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 7]}}, "fill_value": 0}
    source |= {"chunk_key_encoding": "default", "codecs": ["bytes"], "dimension_names": names, "attributes": attributes}
    group = b'{"zarr_format": 3, "node_type": "group"}'
    level = VirtualLevel("1", "0", "data", (2, 3), (12, 13), (5, 7))
    documents = Documents({"zarr.json": group, "0/data/zarr.json": json.dumps(source).encode()})
    found = json.loads(level_documents(documents, {"": (level,)})["1/data/zarr.json"])["attributes"]
    assert found.get("spatial:transform") == expected
    assert found.get("spatial:shape") == (expected and [12, 13])
    assert "rpc" not in found


def test_a_stock_reader_sees_the_stored_level_alone(group, tmp_path):
    kerchunk_json.write(group, str(tmp_path / "m.json"))
    mapper = fsspec.filesystem("reference", fo=str(tmp_path / "m.json"), asynchronous=False)
    assert {key.partition("/")[0] for key in mapper.references if "/" in key} == {"0"}
    store = with_virtual_levels(ReferenceStore(load(str(tmp_path / "m.json")), allow=("*",)))
    assert np.array_equal(zarr.open_group(store, mode="r")["1/data"][...], EXPECTED)


def test_a_manifest_without_such_levels_keeps_its_store(tmp_path):
    plain = ReferenceStore(from_group(group_of(tmp_path / "raw.bin", [])), allow=("*",))
    assert with_virtual_levels(plain) is plain


def test_a_copy_by_pickle_computes_the_same(store):
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert np.array_equal(zarr.open_group(copy, mode="r")["1/data"][...], EXPECTED)


def test_a_chunk_reads_its_own_part_of_the_source_and_is_kept(store, monkeypatch):
    asked = []
    real = ReferenceStore.get_sync

    def counted(self, key, **options):
        asked.append(key)
        return real(self, key, **options)

    monkeypatch.setattr(ReferenceStore, "get_sync", counted)
    store.get_sync("1/data/c/0/0")  # rows 0-10 and columns 0-14 of the source
    assert sorted(asked) == [f"0/data/c/{y}/{x}" for y in (0, 1) for x in (0, 1)]
    asked.clear()
    store.get_sync("1/data/c/0/0")
    assert asked == []


def test_many_threads_get_the_same(store):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: zarr.open_group(store, mode="r")["1/data"][...], range(16)))
    assert all(np.array_equal(one, EXPECTED) for one in found)


def test_a_small_piece_at_a_time_gives_the_same(store, monkeypatch):
    monkeypatch.setattr("jnrrdz.downsample.PIECE", 64)
    assert np.array_equal(zarr.open_group(store, mode="r")["1/data"][...], EXPECTED)


def test_listing_shows_the_chunks_of_levels(store):
    async def listed():
        return [key async for key in store.list_prefix("1/data/c/")]

    found = zarr.core.sync.sync(listed())
    assert sorted(found) == [f"1/data/c/{y}/{x}" for y in range(3) for x in range(3)]


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (VirtualLevel("1", "9", "data", (2, 2), (12, 20), (5, 7)), "no stored level '9'"),
        (VirtualLevel("1", "0", "data", (2, 2), (13, 20), (5, 7)), "it would be"),
        (VirtualLevel("1", "0", "data", (2, 2), (12, 20), (1 << 20, 1 << 20)), "no more than"),
    ],
)
def test_a_level_that_cannot_be_is_refused(tmp_path, level, said):
    stored = ReferenceStore(from_group(group_of(tmp_path / "raw.bin", [level])), allow=("*",))
    with pytest.raises(JnrrdzError, match=said):
        with_virtual_levels(stored)


def test_a_level_that_is_stored_too_is_refused(tmp_path):
    group = group_of(tmp_path / "raw.bin", [VirtualLevel("1", "0", "data", (2, 2), (12, 20), (5, 7))])
    both = VirtualGroup({**group.children, "1": group.children["0"]}, group.attributes)
    with pytest.raises(JnrrdzError, match="both stored and virtual"):
        with_virtual_levels(ReferenceStore(from_group(both), allow=("*",)))


def test_a_source_that_does_not_decode_is_an_error_not_zeros(tmp_path):
    broken = group_of(tmp_path / "raw.bin", [HALF], (bytes_("little"), CodecSpec("gzip", {"level": 1})))
    store = with_virtual_levels(ReferenceStore(from_group(broken), allow=("*",)))
    with pytest.raises(Exception, match=r"(?i)gzip|header"):
        store.get_sync("1/data/c/0/0")
