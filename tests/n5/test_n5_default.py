"""`n5_default` over blocks made byte by byte, and blocks that tensorstore judges."""

import bz2
import gzip
import json
import lzma
import struct
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import tensorstore
import zarr
from jsonschema import Draft202012Validator
from zarr.storage import LocalStore

from jnrrdz.codecs import N5DefaultCodec, ReshapeCodec, SqueezeCodec
from jnrrdz.core.codecs import Framing, Lz4Config, ReshapeConfig
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.n5.codecs import N5DefaultConfig
from jnrrdz.formats.n5.decode import BlockCoder

SCHEMA = Path(__file__).parents[2] / "docs" / "codecs" / "n5_default" / "schema.json"
SHAPE = (4, 3)
FULL = np.arange(12, dtype=">u2").reshape(3, 4)  # y, x: as the bytes lie


def block(elements, *, mode=0, dims=None, count=None, body=None):
    """Return a block of elements in the order of their bytes, last axis fastest."""
    dims = elements.shape[::-1] if dims is None else dims
    head = struct.pack(f">HH{len(dims)}I", mode, len(dims), *dims)
    head += b"" if count is None else struct.pack(">I", count)
    return head + (elements.tobytes() if body is None else body)


def coder(compressor=None, shape=SHAPE, dtype="u2", fill=7, *, odd_blocks=False):
    compressors = [] if compressor is None else [compressor]
    config = N5DefaultConfig.of(len(shape), 2, compressors, odd_blocks=odd_blocks)
    return BlockCoder(config, shape, np.dtype(dtype), fill)


def placed(elements):
    """Return elements in a chunk, 7 where they have none."""
    chunk = np.full((3, 4), 7, "u2")
    rows, columns = (min(sizes) for sizes in zip(elements.shape, (3, 4), strict=True))
    chunk[:rows, :columns] = elements[:rows, :columns]
    return chunk.T


@pytest.mark.parametrize(
    ("data", "elements"),
    [
        pytest.param(block(FULL), FULL, id="full"),
        pytest.param(block(FULL[:2]), FULL[:2], id="cut along y"),
        pytest.param(block(FULL[:, :3].copy()), FULL[:, :3], id="cut along x"),
        pytest.param(block(FULL[:1, :1].copy()), FULL[:1, :1], id="short"),
        pytest.param(block(np.arange(40, dtype=">u2").reshape(5, 8)), np.arange(40).reshape(5, 8), id="oversize"),
        pytest.param(block(np.arange(15, dtype=">u2").reshape(5, 3)), np.arange(15).reshape(5, 3), id="long and short"),
        pytest.param(block(FULL, mode=1, count=12), FULL, id="variable length"),
        pytest.param(block(FULL[:0]), FULL[:0], id="of no elements"),
    ],
)
def test_blocks_of_every_shape(data, elements):
    found = coder(odd_blocks=True).decode(data)
    assert found.dtype.newbyteorder("=") == np.dtype("u2")
    np.testing.assert_array_equal(found, placed(elements))
    if any(own > size for own, size in zip(elements.shape, FULL.shape, strict=True)):
        with pytest.raises(MalformedError, match="blockSize is"):
            coder().decode(data)
    else:  # a smaller block may be one at the data set's edge
        np.testing.assert_array_equal(coder().decode(data), placed(elements))


COMPRESSED = {
    "gzip": (CodecSpec("gzip", {"level": 5}), gzip.compress),
    "gzip, two members": (CodecSpec("gzip", {"level": 5}), lambda d: gzip.compress(d[:9]) + gzip.compress(d[9:])),
    "zlib": (CodecSpec("numcodecs.zlib", {"level": 5}), zlib.compress),
    "bz2": (CodecSpec("numcodecs.bz2", {"level": 5}), bz2.compress),
    "xz": (CodecSpec("numcodecs.lzma", {"format": 1, "preset": 1}), lzma.compress),
    "zstd": (CodecSpec("zstd", {"level": 5, "checksum": False}), lambda d: bytes(numcodecs.Zstd().encode(d))),
    "blosc": (
        CodecSpec("blosc", {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}),
        lambda d: bytes(numcodecs.Blosc("zstd", 5, 1).encode(np.frombuffer(d, "u2"))),
    ),
    "lz4": (Lz4Config(Framing.FRAME), lambda d: bytes(numcodecs.LZ4().encode(d))),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressions(name):
    spec, compress = COMPRESSED[name]
    data = block(FULL, body=compress(FULL.tobytes()))
    np.testing.assert_array_equal(coder(spec).decode(data), FULL.T)
    assert coder(spec).decode(coder(spec).encode(FULL.T.astype("u2"))).tolist() == FULL.T.tolist()


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("elements", [11, 13], ids=["too few", "too many"])
def test_a_body_of_another_length_is_refused(name, elements):
    spec, compress = COMPRESSED[name]
    data = block(FULL, body=compress(np.zeros(elements, ">u2").tobytes()))
    with pytest.raises(MalformedError):
        coder(spec).decode(data)


@pytest.mark.parametrize("name", COMPRESSED)
def test_damage_is_told_and_nothing_else_happens(name):
    spec, compress = COMPRESSED[name]
    data = block(FULL, body=compress(FULL.tobytes()))
    for stop in range(len(data)):
        with pytest.raises(JnrrdzError):
            coder(spec).decode(data[:stop])


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"", MalformedError, "no header"),
        (b"\0\2\0\0\0\5", UnsupportedError, "objects"),
        (b"\0\3\0\2" + bytes(8), MalformedError, "mode 3"),
        (block(FULL.reshape(3, 4, 1)), MalformedError, "3 dimensions in a dataset of 2"),
        (block(FULL, mode=1, count=11), UnsupportedError, "11 elements"),
        (block(FULL, body=bytes(23)), MalformedError, "23 bytes"),
        (block(FULL, dims=(4_000_000_000, 4_000_000_000)), MalformedError, "at most"),
    ],
)
def test_what_contradicts_the_chunk_is_refused(data, error, said):
    with pytest.raises(error, match=said):
        coder().decode(data)


def test_a_zlib_stream_says_itself_where_it_ends():
    """As numcodecs, Java's InflaterInputStream and libtiff have it; tensorstore refuses such blocks."""
    spec, compress = COMPRESSED["zlib"]
    stream = compress(FULL.tobytes())
    for behind in (b"\0", b"junk", compress(b"more")):
        np.testing.assert_array_equal(coder(spec).decode(block(FULL, body=stream + behind)), FULL.T)
        assert numcodecs.Zlib().decode(stream + behind) == FULL.tobytes()
    with pytest.raises(MalformedError):  # bytes behind it do not make up for what is missing
        coder(spec).decode(block(FULL, body=compress(FULL.tobytes()[:-2]) + b"\0\0"))
    with pytest.raises(MalformedError):
        coder(spec).decode(block(FULL, body=stream[:-1] + bytes([stream[-1] ^ 1]) + b"junk"))


def test_a_bomb_is_stopped_at_the_size_that_the_header_says():
    bomb = gzip.compress(bytes(100_000_000))
    with pytest.raises(MalformedError, match="longer than 24 bytes"):
        coder(COMPRESSED["gzip"][0]).decode(block(FULL, body=bomb))


@pytest.mark.parametrize(
    "codecs",
    [
        [],
        ["bytes"],
        [{"name": "transpose", "configuration": {"order": [0, 1]}}, {"name": "bytes"}],
        [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "little"}},
        ],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes"}, {"name": "crc32c"}],
        None,
    ],
    ids=json.dumps,
)
def test_configurations_that_are_none(codecs):
    with pytest.raises(JnrrdzError):
        N5DefaultCodec.from_dict({"name": "n5_default", "configuration": {"codecs": codecs}})


@pytest.mark.parametrize("name", COMPRESSED)
def test_what_is_emitted_validates_and_comes_back(name):
    entry = N5DefaultConfig.of(3, 2, [COMPRESSED[name][0]]).to_json()
    assert Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).is_valid(entry)
    assert N5DefaultCodec.from_dict(entry).to_dict() == entry


@pytest.mark.parametrize(
    ("compression", "spec"),
    [
        ({"type": "raw"}, None),
        ({"type": "gzip", "level": 5}, COMPRESSED["gzip"][0]),
        ({"type": "gzip", "level": 5, "useZlib": True}, COMPRESSED["zlib"][0]),
        ({"type": "zstd", "level": 5}, COMPRESSED["zstd"][0]),
        ({"type": "xz", "preset": 1}, COMPRESSED["xz"][0]),
        ({"type": "bzip2", "blockSize": 5}, COMPRESSED["bz2"][0]),
        ({"type": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1}, COMPRESSED["blosc"][0]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_tensorstore_reads_what_zarr_writes(compression, spec, tmp_path):
    n5 = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/"},
        "metadata": {"dimensions": [10, 7], "blockSize": [4, 3], "dataType": "uint16", "compression": compression},
    }
    tensorstore.open(n5, create=True).result()
    values = np.random.default_rng(1).integers(1, 60000, (10, 7), "u2")
    array = zarr.create_array(
        LocalStore(tmp_path),
        shape=(10, 7),
        dtype="u2",
        chunks=(4, 3),
        chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}},
        serializer=N5DefaultCodec(N5DefaultConfig.of(2, 2, [] if spec is None else [spec])),
        compressors=None,
        fill_value=0,
    )
    array[...] = values
    np.testing.assert_array_equal(tensorstore.open(n5).result().read().result(), values)
    np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize(
    ("sides", "chunk", "stored"),
    [
        ([2], (1, 2), (2,)),
        ([-1], (1, 2), (2,)),
        ([[0, 1]], (1, 2), (2,)),
        ([[0, 1], [2], 3], (100, 50, 64, 3), (5000, 64, 3)),
        ([2, [1], [2]], (2, 3, 4), (2, 3, 4)),
        ([], (1, 1), ()),
    ],
)
def test_reshape_as_the_registry_has_it(sides, chunk, stored):
    config = ReshapeConfig.from_json({"shape": sides})
    assert config.of(chunk) == stored
    assert config.to_json() == {"name": "reshape", "configuration": {"shape": sides}}


@pytest.mark.parametrize("sides", [[0], [-2], [-1, -1], [[1], [0]], [[1, 0], 10], [True], ["2"], None, [[0], [0]]])
def test_sides_that_are_none(sides):
    with pytest.raises(MalformedError, match="shape"):
        ReshapeConfig.from_json({"shape": sides})


@pytest.mark.parametrize(
    ("sides", "chunk"),
    [([3], (1, 2)), ([[2]], (1, 2)), ([-1, 4], (2, 3)), ([2, [1], 3], (3, 2, 2)), ([1, [1]], (2, 1))],
)
def test_shapes_that_chunks_do_not_become(sides, chunk):
    with pytest.raises(MalformedError, match="chunks of"):
        ReshapeConfig.from_json({"shape": sides}).of(chunk)


def test_reshape_keeps_the_order_of_elements(tmp_path):
    array = zarr.create_array(
        LocalStore(tmp_path),
        shape=(3, 4),
        dtype="u2",
        chunks=(1, 2),
        filters=ReshapeCodec(ReshapeConfig.dropping(1, 1)),
        compressors=None,
    )
    array[...] = np.arange(12).reshape(3, 4)
    assert (tmp_path / "c/2/1").read_bytes() == struct.pack("<HH", 10, 11)
    assert json.loads((tmp_path / "zarr.json").read_text())["codecs"][0]["configuration"] == {"shape": [[0, 1]]}
    np.testing.assert_array_equal(zarr.open_array(LocalStore(tmp_path))[...], np.arange(12).reshape(3, 4))


def test_squeeze_takes_and_gives_the_first_axis(tmp_path):
    array = zarr.create_array(
        LocalStore(tmp_path), shape=(3, 4), dtype="u2", chunks=(1, 2), filters=SqueezeCodec(), compressors=None
    )
    array[...] = np.arange(12).reshape(3, 4)
    assert (tmp_path / "c/2/1").read_bytes() == struct.pack("<HH", 10, 11)
    np.testing.assert_array_equal(zarr.open_array(LocalStore(tmp_path))[...], np.arange(12).reshape(3, 4))


def test_squeeze_refuses_chunks_of_several_places(tmp_path):
    array = zarr.create_array(LocalStore(tmp_path), shape=(4, 4), dtype="u2", chunks=(2, 2), filters=SqueezeCodec())
    with pytest.raises(MalformedError, match="several"):
        array[...] = 1
