"""`offset` as pure functions: against slicing, against bytes that others wrote, and what it refuses."""

import base64
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.codecs import OffsetCodec
from jnrrdz.core.codecs import OffsetConfig
from jnrrdz.errors import MalformedError

GOLDEN = Path(__file__).parent / "golden"


def decode(config, chunk):
    return OffsetCodec(**vars(config)).strip(chunk)


def encode(config, chunk):
    return OffsetCodec(**vars(config)).attach(chunk)


def view(data):
    return memoryview(np.frombuffer(data, "B"))


@given(header=st.binary(max_size=64), payload=st.binary(max_size=256))
def test_encoding_is_concatenation_and_decoding_is_slicing(header, payload):
    config = OffsetConfig(len(header), header)
    stored = encode(config, view(payload))
    assert stored == header + payload
    assert bytes(decode(config, view(stored))) == stored[len(header) :] == payload


@given(offset=st.integers(0, 64), stored=st.binary(max_size=128))
def test_decoding_any_bytes_is_slicing_or_an_error(offset, stored):
    config = OffsetConfig(offset)
    if len(stored) < offset:
        with pytest.raises(MalformedError, match=f"a chunk of {len(stored)} bytes .* header of {offset} bytes"):
            decode(config, view(stored))
    else:
        assert bytes(decode(config, view(stored))) == stored[offset:]


def test_decoding_does_not_look_at_the_header():
    assert bytes(decode(OffsetConfig(2, b"ab"), view(b"xyz"))) == b"z"


def test_decoding_copies_nothing():
    chunk = np.arange(16, dtype="B")
    decoded = np.frombuffer(decode(OffsetConfig(4), memoryview(chunk)), "B")
    assert np.shares_memory(decoded, chunk)


def test_the_header_is_zeros_where_there_is_none():
    assert encode(OffsetConfig(3), view(b"abc")) == b"\0\0\0abc"


def test_the_function_gets_the_encoded_chunk_and_makes_the_header():
    config = OffsetConfig(5, prefix_func=lambda chunk: len(chunk).to_bytes(4, "big") + chunk[:1])
    assert encode(config, view(b"abc")) == b"\x00\x00\x00\x03aabc"


def test_golden_n5_block():
    """The block was written by tensorstore; its header is mode 0, two dimensions, 3 and 2."""
    stored = (GOLDEN / "n5_block_3x2_uint16.bin").read_bytes()
    values = (np.arange(6, dtype=">u2") * 257 + 1).reshape(3, 2)
    payload = values.T.astype(">u2").tobytes()
    config = OffsetConfig(12, bytes.fromhex("0000 0002 00000003 00000002"))
    assert bytes(decode(config, view(stored))) == payload
    assert encode(config, view(payload)) == stored


@pytest.mark.parametrize(
    ("configuration", "prefix"),
    [
        pytest.param({"offset": 0}, None, id="nothing"),
        pytest.param({"offset": 12}, None, id="without prefix"),
        pytest.param({"offset": 0, "prefix": ""}, b"", id="empty prefix"),
        pytest.param({"offset": 2, "prefix": "AAA="}, b"\0\0", id="zeros said aloud"),
        pytest.param({"offset": 3, "prefix": "+/+/"}, b"\xfb\xff\xbf", id="both odd letters"),
        pytest.param({"offset": 1, "prefix": "/w=="}, b"\xff", id="two paddings"),
    ],
)
def test_json_round_trip(configuration, prefix):
    config = OffsetConfig.from_json(configuration)
    assert (config.offset, config.prefix) == (configuration["offset"], prefix)
    assert config.to_json() == {"name": "offset", "configuration": configuration}


@given(st.binary(max_size=100))
def test_json_round_trip_of_any_prefix(prefix):
    config = OffsetConfig(len(prefix), prefix)
    entry = config.to_json()
    assert base64.b64decode(entry["configuration"]["prefix"]) == prefix
    assert OffsetConfig.from_json(entry["configuration"]) == config


def test_a_function_never_gets_into_json():
    config = OffsetConfig(1, prefix_func=lambda chunk: chunk[:1])
    assert config.to_json() == {"name": "offset", "configuration": {"offset": 1}}


REFUSED = [
    pytest.param(None, "offset", r"no configuration: found None; an object of ", id="no configuration"),
    pytest.param([12], "offset", r"no configuration: found \[12\]; an object of ", id="a list"),
    pytest.param({}, "offset", "offset is missing", id="no offset"),
    pytest.param({"offset": 1, "prefx": "AA=="}, "offset", "unknown member 'prefx'", id="misspelt"),
    pytest.param({"offset": 1, "prefix_func": "f"}, "offset", "unknown member 'prefix_func'", id="a function"),
    pytest.param({"offset": True}, "offset", "offset: found True; an integer of 0 or more", id="bool"),
    pytest.param({"offset": -1}, "offset", "offset: found -1", id="negative"),
    pytest.param({"offset": 1.0}, "offset", "offset: found 1.0", id="float"),
    pytest.param({"offset": "1"}, "offset", "offset: found '1'", id="text"),
    pytest.param({"offset": None}, "offset", "offset: found None", id="null"),
    pytest.param({"offset": 2, "prefix": "AA=="}, "prefix", "1 bytes long, but offset is 2", id="too short"),
    pytest.param({"offset": 0, "prefix": "AA=="}, "prefix", "1 bytes long, but offset is 0", id="too long"),
    pytest.param({"offset": 1, "prefix": "AA"}, "offset", "prefix: not base64", id="unpadded"),
    pytest.param({"offset": 1, "prefix": "AA==\n"}, "offset", "prefix: not base64", id="line break"),
    pytest.param({"offset": 3, "prefix": "-_-_"}, "offset", "prefix: not base64", id="the other alphabet"),
    pytest.param({"offset": 3, "prefix": "ÄÖÜß"}, "offset", "prefix: not base64", id="not ASCII"),
    pytest.param({"offset": 1, "prefix": "AB=="}, "offset", "prefix: not canonical base64", id="stray bits"),
    pytest.param({"offset": 1, "prefix": None}, "offset", "prefix: found None; base64 text", id="prefix null"),
    pytest.param({"offset": 1, "prefix": 0}, "offset", "prefix: found 0; base64 text", id="prefix a number"),
]


@pytest.mark.parametrize(("configuration", "field", "message"), REFUSED)
def test_refused_configuration(configuration, field, message):
    with pytest.raises(MalformedError, match=message) as caught:
        OffsetConfig.from_json(configuration)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        pytest.param({"offset": 1, "prefix": "AA=="}, "prefix", "bytes are needed", id="undecoded text"),
        pytest.param({"offset": 1, "prefix_func": b"a"}, "prefix_func", "a function .* is needed", id="no function"),
        pytest.param(
            {"offset": 1, "prefix": b"a", "prefix_func": bytes}, "prefix_func", "together with prefix", id="both"
        ),
    ],
)
def test_refused_arguments(arguments, field, message):
    with pytest.raises(MalformedError, match=message) as caught:
        OffsetConfig(**arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("made", "message"),
    [(b"", "returned 0 bytes; 2 are needed"), (b"abc", "returned 3 bytes"), ("ab", "returned str; bytes")],
)
def test_refused_result_of_the_function(made, message):
    with pytest.raises(MalformedError, match=message) as caught:
        encode(OffsetConfig(2, prefix_func=lambda _: made), view(b"chunk"))
    assert caught.value.field == "prefix_func"
