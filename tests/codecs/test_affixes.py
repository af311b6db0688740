"""`offset` and `pad` inside zarr: what it stores byte for byte, what it reads, how it fails."""

import json
import pickle
import struct
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.core.buffer import cpu
from zarr.core.buffer.core import default_buffer_prototype
from zarr.core.metadata.v3 import parse_codecs
from zarr.storage import MemoryStore

from jnrrdz.codecs.steps import OffsetCodec, PadCodec
from jnrrdz.errors import MalformedError

VALUES = np.arange(24, dtype="u2").reshape(4, 6) * 257
CHUNKS = {"c/0/0": VALUES[:2, :4], "c/1/0": VALUES[2:, :4]}
"""Chunks that lie inside the array as a whole, by key."""

LENGTH = partial(struct.pack, "<4s")
"""A function of the chunk that pickles: its first four bytes."""


@pytest.fixture(params=["Batched", "Fused"])
def pipeline(request):
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{request.param}CodecPipeline"}):
        yield


def written(*codecs, endian="little", **options):
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=VALUES.shape,
        dtype=VALUES.dtype,
        chunks=(2, 4),
        serializer=BytesCodec(endian=endian),
        compressors=codecs,
        fill_value=0,
        **options,
    )
    array[...] = VALUES
    return store


def stored(store, key):
    return store._store_dict[key].to_bytes()  # noqa: SLF001  # what really lies there, without zarr's reading


def metadata(store):
    return json.loads(stored(store, "zarr.json"))["codecs"][1:]


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize(
    ("codecs", "around"),
    [
        pytest.param([OffsetCodec(offset=3, prefix=b"abc")], (b"abc", b""), id="offset"),
        pytest.param([OffsetCodec(offset=3, prefix="YWJj")], (b"abc", b""), id="offset, base64"),
        pytest.param([OffsetCodec(offset=4)], (bytes(4), b""), id="offset, zeros"),
        pytest.param([OffsetCodec(offset=0)], (b"", b""), id="offset, nothing"),
        pytest.param([PadCodec(location="start", nbytes=3, padding=b"abc")], (b"abc", b""), id="pad, start"),
        pytest.param([PadCodec(location="end", nbytes=3, padding="YWJj")], (b"", b"abc"), id="pad, end"),
        pytest.param([PadCodec(location="end", nbytes=2)], (b"", b"\0\0"), id="pad, zeros"),
        pytest.param(
            [OffsetCodec(offset=1, prefix=b"b"), OffsetCodec(offset=1, prefix=b"a")], (b"ab", b""), id="the last is out"
        ),
        pytest.param(
            [PadCodec(location="end", nbytes=1, padding=b"z"), PadCodec(location="start", nbytes=1, padding=b"a")],
            (b"a", b"z"),
            id="both ends",
        ),
    ],
)
def test_zarr_stores_the_chunk_between_the_bytes_and_reads_it_back(codecs, around):
    store = written(*codecs)
    before, after = around
    for key, values in CHUNKS.items():
        assert stored(store, key) == before + values.astype("<u2").tobytes() + after
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[...], VALUES)


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        pytest.param(OffsetCodec(offset=4, prefix_func=LENGTH), lambda chunk: chunk[:4] + chunk, id="offset"),
        pytest.param(
            PadCodec(location="end", nbytes=4, padding_func=LENGTH), lambda chunk: chunk + chunk[:4], id="pad"
        ),
    ],
)
def test_a_function_makes_the_bytes_and_stays_out_of_the_metadata(codec, expected):
    store = written(codec)
    for key, values in CHUNKS.items():
        assert stored(store, key) == expected(values.astype("<u2").tobytes())
    assert "func" not in stored(store, "zarr.json").decode()
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[...], VALUES)


def test_a_computed_trailer_is_what_zarrs_own_checksum_codec_stores():
    google_crc32c = pytest.importorskip("google_crc32c")
    codec = PadCodec(
        location="end", nbytes=4, padding_func=lambda chunk: google_crc32c.value(chunk).to_bytes(4, "little")
    )
    ours, theirs = written(codec), written(Crc32cCodec())
    assert [stored(ours, key) for key in CHUNKS] == [stored(theirs, key) for key in CHUNKS]


ENTRIES = [
    {"name": "offset", "configuration": {"offset": 12}},
    {"name": "offset", "configuration": {"offset": 3, "prefix": "YWJj"}},
    {"name": "pad", "configuration": {"location": "end", "nbytes": 1}},
    {"name": "pad", "configuration": {"location": "start", "nbytes": 2, "padding": "AAA="}},
]


@pytest.mark.parametrize("entry", ENTRIES, ids=json.dumps)
def test_zarr_finds_the_codec_by_its_name_and_gives_the_entry_back(entry):
    (codec,) = parse_codecs([entry])
    assert isinstance(codec, OffsetCodec if entry["name"] == "offset" else PadCodec)
    assert codec.to_dict() == entry
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert metadata(written(codec)) == [entry]


@pytest.mark.parametrize(
    "codec",
    [OffsetCodec(offset=4, prefix_func=LENGTH), PadCodec(location="start", nbytes=4, padding_func=LENGTH)],
    ids=["offset", "pad"],
)
def test_a_pickled_codec_keeps_its_function(codec):
    copy = pickle.loads(pickle.dumps(codec))
    assert stored(written(copy), "c/0/0")[:6] == struct.pack("<HHH", 0, 257, 0)


def test_a_pickled_array_reads():
    array = zarr.open_array(written(OffsetCodec(offset=3, prefix=b"abc")), mode="r")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], VALUES)


@pytest.mark.parametrize(
    ("entry", "field", "message"),
    [
        ({"name": "offset"}, "offset", "offset is missing"),
        ({"name": "offset", "configuration": {"offset": -1}}, "offset", "offset: found -1"),
        (
            {"name": "offset", "configuration": {"offset": 1, "prefix": "AAA="}},
            "prefix",
            "2 bytes long, but offset is 1",
        ),
        ({"name": "pad"}, "pad", "location is missing; nbytes is missing"),
        ({"name": "pad", "configuration": {"location": "mid", "nbytes": 1}}, "pad", "location: found 'mid'"),
        ({"name": "pad", "configuration": {"location": "end", "nbytes": 1, "x": 1}}, "pad", "unknown member 'x'"),
    ],
)
def test_zarr_passes_on_what_is_wrong_with_a_configuration(entry, field, message):
    store = written(OffsetCodec(offset=1))
    document = json.loads(stored(store, "zarr.json"))
    document["codecs"][1] = entry
    store._store_dict["zarr.json"] = cpu.Buffer.from_bytes(json.dumps(document).encode())  # noqa: SLF001
    with pytest.raises(MalformedError, match=message) as caught:
        zarr.open_array(store, mode="r")
    assert caught.value.field == field


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize("codec", [OffsetCodec(offset=12), PadCodec(location="end", nbytes=12)], ids=["offset", "pad"])
def test_zarr_passes_on_that_a_chunk_is_too_short(codec):
    store = written(codec)
    store._store_dict["c/0/0"] = cpu.Buffer.from_bytes(b"12345")  # noqa: SLF001
    with pytest.raises(MalformedError, match=r"a chunk of 5 bytes .* 12 bytes"):
        zarr.open_array(store, mode="r")[...]


@pytest.mark.parametrize("codec", [OffsetCodec(offset=12), PadCodec(location="end", nbytes=12)], ids=["offset", "pad"])
def test_decoding_copies_nothing(codec):
    chunk = cpu.Buffer.from_bytes(bytes(64))
    spec = SimpleNamespace(prototype=default_buffer_prototype())
    decoded = codec._decode_sync(chunk, spec)  # noqa: SLF001
    assert len(decoded) == 52
    assert np.shares_memory(decoded.as_numpy_array(), chunk.as_numpy_array())


@pytest.mark.parametrize(
    "codec",
    [OffsetCodec(offset=3, prefix=b"abc"), PadCodec(location="end", nbytes=3, padding=b"abc")],
    ids=["offset", "pad"],
)
def test_a_shard_has_them_inside_and_in_its_index(codec):
    """The index lies at the shard's end; only a true encoded size lets zarr find it."""
    store = MemoryStore()
    sharding = ShardingCodec(
        chunk_shape=(2, 3),
        codecs=[BytesCodec(endian="little"), codec],
        index_codecs=[BytesCodec(endian="little"), codec],
    )
    array = zarr.create_array(
        store, shape=(4, 6), chunks=(4, 6), dtype="u2", serializer=sharding, compressors=None, fill_value=0
    )
    array[...] = VALUES
    assert len(stored(store, "c/0/0")) == 4 * (12 + 3) + 4 * 16 + 3
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[1:3, 2:5], VALUES[1:3, 2:5])
