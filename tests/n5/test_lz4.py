"""`jnrrdz.lz4`: framings made by others and by hand."""

import struct

import numcodecs
import numpy as np
import pytest
import xxhash
import zarr
from zarr.storage import MemoryStore

from jnrrdz.codecs import Lz4Codec
from jnrrdz.core.codecs import Framing, Lz4Config
from jnrrdz.errors import MalformedError
from jnrrdz.formats import compressors

DATA = b"to be or not to be " * 9000
FRAME, BLOCK, JAVA = (Lz4Config(framing) for framing in Framing)
LAST = bytes.fromhex("4c5a34426c6f636b16 00000000 00000000 00000000")


def bare(data):
    """Return one LZ4 block, by numcodecs."""
    return bytes(numcodecs.LZ4().encode(data))[4:]


def java_block(data, *, raw=False, check=None):
    body = data if raw else bare(data)
    check = xxhash.xxh32_intdigest(data, 0x9747B28C) & 0x0FFFFFFF if check is None else check
    return b"LZ4Block" + struct.pack("<BIII", 0x16 if raw else 0x26, len(body), len(data), check) + body


MADE = {
    "frame": (FRAME, bytes(numcodecs.LZ4().encode(DATA))),
    "block": (BLOCK, bare(DATA)),
    "java": (JAVA, java_block(DATA[:65536]) + java_block(DATA[65536:131072]) + java_block(DATA[131072:]) + LAST),
    "java, a block stored": (JAVA, java_block(DATA[:100], raw=True) + java_block(DATA[100:]) + LAST),
}


def decode(config, data, limit=None):
    return compressors.decode_lz4(config, memoryview(data), len(DATA) if limit is None else limit)


@pytest.mark.parametrize("name", MADE)
def test_every_framing(name):
    config, data = MADE[name]
    assert decode(config, data) == DATA


@pytest.mark.parametrize("config", [FRAME, BLOCK, JAVA], ids=lambda config: config.framing)
@pytest.mark.parametrize("data", [DATA, DATA[:65536], b"x", np.random.default_rng(0).bytes(70000)], ids=len)
def test_what_is_written_comes_back(config, data):
    assert decode(config, compressors.encode_lz4(config.configuration, memoryview(data)), len(data)) == data


def test_numcodecs_reads_frames_and_blocks():
    frame = compressors.encode_lz4(FRAME.configuration, memoryview(DATA))
    block = compressors.encode_lz4(BLOCK.configuration, memoryview(DATA))
    assert numcodecs.LZ4().decode(frame) == DATA
    assert numcodecs.LZ4().decode(struct.pack("<I", len(DATA)) + block) == DATA


def test_javas_stream_as_it_is_written():
    # the checksum is that of xxHash's reference, of no bytes it is not asked
    assert compressors.encode_lz4(JAVA.configuration, memoryview(b"x")) == java_block(b"x", raw=True) + LAST


@pytest.mark.parametrize("name", MADE)
def test_no_more_than_the_limit_is_decoded(name):
    config, data = MADE[name]
    with pytest.raises(MalformedError):
        decode(config, data, len(DATA) - 1)


@pytest.mark.parametrize("name", ["frame", "java", "java, a block stored"])
def test_cut_off(name):
    config, data = MADE[name]
    for stop in [*range(25), len(data) // 2, len(data) - 1]:
        with pytest.raises(MalformedError):
            decode(config, data[:stop])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (java_block(DATA, check=1) + LAST, "checksum"),
        (java_block(DATA).replace(b"LZ4Block\x26", b"LZ4Block\x36") + LAST, "0x30"),
        (java_block(DATA), "without its last block"),
        (b"LZ4blocK" + java_block(DATA)[8:], "no block"),
    ],
)
def test_damage_in_javas_stream(data, said):
    with pytest.raises(MalformedError, match=said):
        decode(JAVA, data)


@pytest.mark.parametrize("configuration", [None, {}, {"framing": "zip"}, {"framing": "java", "level": 1}])
def test_configurations_that_are_none(configuration):
    with pytest.raises(MalformedError, match=r"framing|level"):
        Lz4Codec.from_dict({"name": "jnrrdz.lz4", "configuration": configuration})


@pytest.mark.parametrize("framing", Framing)
def test_through_zarr(framing):
    store = MemoryStore()
    codec = Lz4Codec(Lz4Config(framing))
    array = zarr.create_array(store, shape=(100,), dtype="u2", chunks=(40,), compressors=codec)
    array[...] = np.arange(100)
    np.testing.assert_array_equal(zarr.open_array(store)[...], np.arange(100))
