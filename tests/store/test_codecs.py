"""Manifests' codecs: those of a list, each bounded, and ours whatever else is registered; by both ways to open them."""

import base64
import bz2
import gzip
import json
import lzma
import pickle
import struct
import tomllib
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import tifffile
import zarr
from google_crc32c import value as crc32c
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec
from zarr.registry import _codec_registries, register_codec

import jnrrdz
from jnrrdz.core.codec_table import own_records
from jnrrdz.errors import JnrrdzError

OWN = own_records()
VALUES = np.arange(64, dtype="<u2").reshape(8, 8)
RAW = VALUES.tobytes()
LAYOUT = {"name": "bytes", "configuration": {"endian": "little"}}
GZIP = {"name": "gzip", "configuration": {"level": 5}}
BOMB = 16 << 20
"""Bytes that a bomb inflates to."""

DOORS = {"ours": jnrrdz.open_group, "zarr's": lambda manifest: zarr.open_group(jnrrdz.open_store(manifest), mode="r")}
both_doors = pytest.mark.parametrize("opened", DOORS.values(), ids=DOORS)


def named(name, **configuration):
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def manifest_of(folder, codecs, chunk, *, consolidated=None, extra=None, **facts):
    """Write a manifest of one array of one chunk, whose bytes stand in the manifest."""
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8, 8],
        "data_type": "uint16",
        "chunk_grid": named("regular", chunk_shape=[8, 8]),
        "chunk_key_encoding": named("default", separator="/"),
        "codecs": codecs,
        "fill_value": 0,
        "attributes": {},
        **facts,
    }
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    if consolidated is not None:
        members = {"kind": "inline", "must_understand": False, "metadata": {"data": {**array, **consolidated}}}
        group["consolidated_metadata"] = members
    refs = {
        "zarr.json": json.dumps(group),
        "data/zarr.json": json.dumps(array),
        "data/c/0/0": "base64:" + base64.b64encode(chunk).decode(),
        **(extra or {}),
    }
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return str(path)


def gzipped(data):
    return gzip.compress(data, mtime=0)


READABLE = {
    "gzip": ([LAYOUT, GZIP], gzipped(RAW)),
    "gzip of two members": ([LAYOUT, GZIP], gzipped(RAW[:50]) + gzipped(RAW[50:])),
    "zlib": ([LAYOUT, named("numcodecs.zlib", level=6)], zlib.compress(RAW)),
    "bz2": ([LAYOUT, named("numcodecs.bz2", level=6)], bz2.compress(RAW)),
    "lzma": ([LAYOUT, named("numcodecs.lzma", preset=1)], lzma.compress(RAW)),
    "zstd": ([LAYOUT, named("zstd", level=1, checksum=False)], bytes(numcodecs.Zstd().encode(RAW))),
    "blosc": (
        [LAYOUT, named("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=2, blocksize=0)],
        bytes(numcodecs.Blosc("lz4", 5, 1).encode(VALUES)),
    ),
    "lz4": ([LAYOUT, named("jnrrdz.lz4", framing="frame")], bytes(numcodecs.LZ4().encode(RAW))),
    "a header inside": ([LAYOUT, named("offset", offset=5), GZIP], gzipped(b"first" + RAW)),
    "a header outside": ([LAYOUT, GZIP, named("offset", offset=5)], b"first" + gzipped(RAW)),
    "padding inside": ([LAYOUT, named("pad", location="end", nbytes=3), GZIP], gzipped(RAW + b"end")),
    "a checksum inside": ([LAYOUT, named("crc32c"), GZIP], gzipped(RAW + struct.pack("<I", crc32c(RAW)))),
    "a checksum outside": ([LAYOUT, GZIP, named("crc32c")], gzipped(RAW) + struct.pack("<I", crc32c(gzipped(RAW)))),
    "another order": ([named("transpose", order=[1, 0]), LAYOUT, GZIP], gzipped(VALUES.T.tobytes())),
}


@both_doors
@pytest.mark.parametrize(("codecs", "chunk"), READABLE.values(), ids=READABLE)
def test_codecs_of_the_list_are_read(tmp_path, codecs, chunk, opened):
    array = opened(manifest_of(tmp_path, codecs, chunk))["data"]
    np.testing.assert_array_equal(array[:], VALUES)
    assert array.metadata.to_dict()["codecs"][-1]["name"] == codecs[-1]["name"], "metadata spell what the manifest has"


ZEROS = bytes(BOMB)
BOMBS = {
    "gzip": ([LAYOUT, GZIP], gzipped(ZEROS)),
    "gzip twice": ([LAYOUT, GZIP, GZIP], gzipped(gzipped(ZEROS))),
    "gzip behind a transposition": ([named("transpose", order=[1, 0]), LAYOUT, GZIP], gzipped(ZEROS)),
    "gzip behind a checksum": ([LAYOUT, named("crc32c"), GZIP], gzipped(ZEROS)),
    "gzip behind a header": ([LAYOUT, named("offset", offset=16), GZIP], gzipped(ZEROS)),
    "gzip behind a large header": ([LAYOUT, named("offset", offset=(64 << 20) + 1), GZIP], gzipped(ZEROS)),
    "zlib": ([LAYOUT, named("numcodecs.zlib", level=6)], zlib.compress(ZEROS)),
    "bz2": ([LAYOUT, named("numcodecs.bz2", level=6)], bz2.compress(ZEROS)),
    "lzma": ([LAYOUT, named("numcodecs.lzma", preset=1)], lzma.compress(ZEROS, preset=1)),
    "zstd": ([LAYOUT, named("zstd", level=1, checksum=False)], bytes(numcodecs.Zstd().encode(ZEROS))),
    "blosc": (
        [LAYOUT, named("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=1, blocksize=0)],
        bytes(numcodecs.Blosc("lz4", 5, 1).encode(ZEROS)),
    ),
    "blosc that says more": (
        [LAYOUT, named("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=1, blocksize=0)],
        struct.pack("<4BIII", 2, 1, 1, 1, BOMB, BOMB, 24) + bytes(8),
    ),
    "numcodecs' gzip": ([LAYOUT, named("numcodecs.gzip", level=1)], gzipped(ZEROS)),
    "numcodecs' zstd": ([LAYOUT, named("numcodecs.zstd", level=1)], bytes(numcodecs.Zstd().encode(ZEROS))),
    "numcodecs' lz4": ([LAYOUT, named("numcodecs.lz4", acceleration=1)], bytes(numcodecs.LZ4().encode(ZEROS))),
    "packbits": ([LAYOUT, named("numcodecs.packbits")], bytes(64)),
    "texts": ([named("vlen-bytes")], struct.pack("<I", BOMB >> 3) + bytes(64)),
    "shards": (
        [
            named(
                "sharding_indexed",
                chunk_shape=[1, 1],
                codecs=[LAYOUT],
                index_codecs=[LAYOUT, named("crc32c")],
                index_location="end",
            )
        ],
        bytes(64),
    ),
}


@both_doors
@pytest.mark.parametrize(("codecs", "chunk"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused(tmp_path, codecs, chunk, opened):
    facts = {"data_type": "variable_length_bytes", "fill_value": ""} if codecs[0]["name"] == "vlen-bytes" else {}
    manifest = manifest_of(tmp_path, codecs, chunk, **facts)
    # zarr refuses a shard that is shorter than its index before our codecs are asked
    refused = (JnrrdzError, ValueError) if codecs[0]["name"] == "sharding_indexed" else JnrrdzError
    with pytest.raises(refused):
        opened(manifest)["data"][:]


@both_doors
def test_what_a_group_consolidates_is_what_its_members_say(tmp_path, opened):
    """Else an array could have a chunk of one size where bounds are told and another where it is decoded."""
    manifest = manifest_of(tmp_path, [LAYOUT], RAW, consolidated={"codecs": [LAYOUT, GZIP, GZIP], "shape": [8, 4]})
    np.testing.assert_array_equal(opened(manifest)["data"][:], VALUES)


def test_documents_of_zarr_2_are_not_served(tmp_path):
    old = {"zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "|u1", "order": "C", "fill_value": 0}
    old |= {"compressor": {"id": "gzip", "level": 1}, "filters": None}
    store = jnrrdz.open_store(
        manifest_of(tmp_path, [LAYOUT], RAW, extra={"old/.zarray": json.dumps(old), "old/0": "base64:AAAA"})
    )
    with pytest.raises(FileNotFoundError):
        zarr.open_array(store, path="old", mode="r")


@pytest.mark.filterwarnings("ignore:encoding gzip")
def test_a_nrrd_whose_gzip_holds_more_than_it_says_is_refused(tmp_path):
    header = b"NRRD0004\ntype: uint8\ndimension: 1\nsizes: 64\nencoding: gzip\nbyte skip: 16\n\n"
    (tmp_path / "a.nrrd").write_bytes(header + gzipped(ZEROS))
    jnrrdz.index(tmp_path / "a.nrrd", tmp_path / "a.json")
    for opened in DOORS.values():
        with pytest.raises(JnrrdzError, match="longer than 80 bytes"):
            next(iter(opened(str(tmp_path / "a.json")).array_values()))[:]


def test_our_classes_are_those_of_the_entry_points():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    entries = project["project"]["entry-points"]["zarr.codecs"]
    assert entries == {name: record.codec_class for name, record in OWN.items()}


class Rival:
    """Another package's codec of the same name."""

    @classmethod
    def from_dict(cls, data):
        raise AssertionError(f"{data['name']} is read by another package's class")


class RivalPixels(Rival, ArrayBytesCodec):
    """In place of one that makes bytes of elements."""


class RivalBytes(Rival, BytesBytesCodec):
    """In place of one that makes bytes of bytes."""


@pytest.fixture
def rivals(monkeypatch):
    for name in OWN:
        registry = _codec_registries[name]
        monkeypatch.setattr(registry, "lazy_load_list", list(registry.lazy_load_list))
        rival = RivalBytes if name in {"offset", "pad", "jnrrdz.lz4"} else RivalPixels
        register_codec(name, rival)
    yield
    for name in OWN:
        for registered in [key for key, found in _codec_registries[name].items() if issubclass(found, Rival)]:
            del _codec_registries[name][registered]


@pytest.mark.usefixtures("rivals")
@both_doors
def test_our_own_codecs_are_read_by_our_own_classes(tmp_path, opened):
    block = struct.pack(">HHII", 0, 2, 8, 8) + VALUES.astype(">u2").tobytes()
    inner = [named("transpose", order=[1, 0]), named("bytes", endian="big")]
    codecs = [named("transpose", order=[1, 0]), named("n5_default", codecs=inner)]
    group = opened(manifest_of(tmp_path, codecs, block))
    np.testing.assert_array_equal(group["data"][:], VALUES)
    assert group["data"].metadata.to_dict()["codecs"][1]["name"] == "n5_default"
    np.testing.assert_array_equal(opened(manifest_of(tmp_path, *READABLE["a header inside"]))["data"][:], VALUES)


@pytest.mark.usefixtures("rivals")
def test_so_they_are_by_the_engine_and_where_levels_are_computed(tmp_path):
    pixels = np.arange(4096, dtype="u2").reshape(64, 64)
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(32, 32), compression="zlib")
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "a.json")
    np.testing.assert_array_equal(jnrrdz.open_dataset(tmp_path / "a.json")["data"].values, pixels)
    tree = jnrrdz.open_datatree(tmp_path / "a.json", virtual_levels=1)
    assert len(tree.children) > 0
    for node in tree.children.values():
        node.load()


def far_file(folder, size):
    """Make a file of that many zeros, which take no room."""
    with (folder / "far.bin").open("wb") as stream:
        stream.truncate(size)
    return "far.bin"


LARGE = {
    "one range": lambda name: [name, 0, 3 << 30],
    "several ranges": lambda name: [name, [[at << 20, 1 << 20] for at in range(80)]],
    "a whole file": lambda name: [name],
}


@pytest.mark.parametrize("stored", LARGE.values(), ids=LARGE)
def test_a_chunk_is_stored_in_few_bytes(tmp_path, stored):
    """Else a chunk of 128 bytes makes whoever opens it read gigabytes."""
    manifest = Path(manifest_of(tmp_path, [LAYOUT, GZIP], b""))
    document = json.loads(manifest.read_text())
    document["refs"]["data/c/0/0"] = stored(far_file(tmp_path, 3 << 30))
    manifest.write_text(json.dumps(document))
    for opened in DOORS.values():
        with pytest.raises(JnrrdzError, match=r"data/c/0/0.* bytes stored for a chunk of 128; no more than \d+"):
            opened(str(manifest))["data"][:]


def test_a_whole_block_of_a_tree_is_no_larger_than_its_chunk_allows(tmp_path):
    manifest = Path(manifest_of(tmp_path, [LAYOUT], b""))
    document = json.loads(manifest.read_text())
    group = json.loads(document["refs"]["zarr.json"])
    group["attributes"]["jnrrdz"] = {"version": "0", "sources": [{"url": f"{tmp_path}/"}]}
    document["refs"]["zarr.json"] = json.dumps(group)
    document["refs"]["data/c/0/0"] = [str(tmp_path / far_file(tmp_path, 3 << 30))]
    manifest.write_text(json.dumps(document))
    with pytest.raises(JnrrdzError, match="a block of more than 67110912 bytes"):
        jnrrdz.open_group(str(manifest))["data"][:]


@pytest.mark.parametrize("stored", [RAW[:-3], RAW + b"more", b""], ids=["cut", "longer", "none"])
def test_a_chunk_of_another_length_names_itself(tmp_path, stored):
    with pytest.raises(JnrrdzError, match=r"data/c/0/0.*cannot be decoded"):
        jnrrdz.open_group(manifest_of(tmp_path, [LAYOUT], stored))["data"][:]


def test_a_wrong_checksum_names_its_chunk(tmp_path):
    chunk = RAW + struct.pack("<I", crc32c(RAW) ^ 1)
    with pytest.raises(JnrrdzError, match=r"data/c/0/0.*cannot be decoded"):
        jnrrdz.open_group(manifest_of(tmp_path, [LAYOUT, named("crc32c")], chunk))["data"][:]


@pytest.mark.parametrize("facts", [{"fill_value": 2**70}, {"data_type": "no type"}, {"attributes": 5}], ids=str)
def test_metadata_that_zarr_refuses_are_refused_as_a_manifest(tmp_path, facts):
    with pytest.raises(JnrrdzError, match=r"refs\.json"):
        jnrrdz.open_group(manifest_of(tmp_path, [LAYOUT], RAW, **facts))["data"]


def test_an_array_made_with_the_same_codecs_is_anybody_s(tmp_path):
    """Our classes write what they read, under the codecs' own names; arrays of them go to other processes."""
    source = zarr.open_group(jnrrdz.open_store(manifest_of(tmp_path, *READABLE["gzip"])), mode="r")["data"]
    assert (pickle.loads(pickle.dumps(source))[:] == VALUES).all()
    target = tmp_path / "copy.zarr"
    layout = {"shape": source.shape, "chunks": source.chunks, "dtype": source.dtype, "serializer": source.serializer}
    copy = zarr.create_array(target, **layout, compressors=source.compressors)
    copy[:] = source[:]
    assert json.loads((target / "zarr.json").read_text())["codecs"] == [LAYOUT, GZIP]
    assert (zarr.open_array(target)[:] == VALUES).all()
