"""`pad` as pure functions: against slicing, against bytes that others wrote, and what it refuses."""

import base64
import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.codecs import PadCodec
from jnrrdz.core.codecs import PadConfig, PadSide
from jnrrdz.errors import MalformedError

GOLDEN = Path(__file__).parent / "golden"


def decode(config, chunk):
    return PadCodec(**vars(config)).strip(chunk)


def encode(config, chunk):
    return PadCodec(**vars(config)).attach(chunk)


LOCATIONS = st.sampled_from(["start", "end"])


def view(data):
    return memoryview(np.frombuffer(data, "B"))


def stripped(location, nbytes, stored):
    """Return what is left, as plain slicing has it."""
    return stored[nbytes:] if location == "start" else stored[: len(stored) - nbytes]


@given(location=LOCATIONS, padding=st.binary(max_size=64), payload=st.binary(max_size=256))
def test_encoding_is_concatenation_and_decoding_is_slicing(location, padding, payload):
    config = PadConfig(location, len(padding), padding)
    stored = encode(config, view(payload))
    assert stored == (padding + payload if location == "start" else payload + padding)
    assert bytes(decode(config, view(stored))) == stripped(location, len(padding), stored) == payload


@given(location=LOCATIONS, nbytes=st.integers(0, 64), stored=st.binary(max_size=128))
def test_decoding_any_bytes_is_slicing_or_an_error(location, nbytes, stored):
    config = PadConfig(location, nbytes)
    if len(stored) < nbytes:
        message = f"a chunk of {len(stored)} bytes cannot hold {nbytes} bytes of padding at its {location}"
        with pytest.raises(MalformedError, match=message):
            decode(config, view(stored))
    else:
        assert bytes(decode(config, view(stored))) == stripped(location, nbytes, stored)


@pytest.mark.parametrize("location", list(PadSide))
def test_decoding_copies_nothing(location):
    chunk = np.arange(16, dtype="B")
    decoded = np.frombuffer(decode(PadConfig(location, 4), memoryview(chunk)), "B")
    assert np.shares_memory(decoded, chunk)


@pytest.mark.parametrize(("location", "stored"), [("start", b"\0\0\0abc"), ("end", b"abc\0\0\0")])
def test_the_padding_is_zeros_where_there_is_none(location, stored):
    assert encode(PadConfig(location, 3), view(b"abc")) == stored


def test_the_function_gets_the_encoded_chunk_and_makes_the_padding():
    """A raw deflate stream between a header and a computed trailer is a gzip file, and gzip checks the trailer."""
    payload = b"the payload" * 20
    compressor = zlib.compressobj(wbits=-15)
    deflated = compressor.compress(payload) + compressor.flush()

    def trailer(chunk):
        plain = zlib.decompress(chunk, wbits=-15)
        return zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little")

    inner = encode(PadConfig("end", 8, padding_func=trailer), view(deflated))
    file = encode(PadConfig("start", 10, bytes.fromhex("1f8b08000000000000ff")), view(inner))
    assert gzip.decompress(file) == payload


def test_golden_header_and_trailer():
    stored = (GOLDEN / "custom_header_trailer.bin").read_bytes()
    header, trailer = PadConfig("start", 16, b"MY_CUSTOM_HEADER"), PadConfig("end", 8, b"TRAILER\n")
    payload = bytes(range(8))
    assert encode(header, view(encode(trailer, view(payload)))) == stored
    assert encode(trailer, view(encode(header, view(payload)))) == stored
    assert bytes(decode(trailer, decode(header, view(stored)))) == payload


def test_golden_n5_block():
    """The block was written by tensorstore; its header is mode 0, two dimensions, 3 and 2."""
    stored = (GOLDEN / "n5_block_3x2_uint16.bin").read_bytes()
    payload = (np.arange(6, dtype=">u2") * 257 + 1).reshape(3, 2).T.astype(">u2").tobytes()
    config = PadConfig("start", 12, bytes.fromhex("0000 0002 00000003 00000002"))
    assert bytes(decode(config, view(stored))) == payload
    assert encode(config, view(payload)) == stored


@pytest.mark.parametrize(
    ("configuration", "padding"),
    [
        pytest.param({"location": "start", "nbytes": 0}, None, id="nothing"),
        pytest.param({"location": "end", "nbytes": 12}, None, id="without padding"),
        pytest.param({"location": "end", "nbytes": 0, "padding": ""}, b"", id="empty padding"),
        pytest.param({"location": "start", "nbytes": 2, "padding": "AAA="}, b"\0\0", id="zeros said aloud"),
        pytest.param({"location": "start", "nbytes": 3, "padding": "+/+/"}, b"\xfb\xff\xbf", id="both odd letters"),
    ],
)
def test_json_round_trip(configuration, padding):
    config = PadConfig.from_json(configuration)
    assert (config.location, config.nbytes) == (configuration["location"], configuration["nbytes"])
    assert config.padding == padding
    assert config.to_json() == {"name": "pad", "configuration": configuration}


@given(location=LOCATIONS, padding=st.binary(max_size=100))
def test_json_round_trip_of_any_padding(location, padding):
    config = PadConfig(PadSide(location), len(padding), padding)
    entry = config.to_json()
    assert base64.b64decode(entry["configuration"]["padding"]) == padding
    assert PadConfig.from_json(entry["configuration"]) == config


def test_a_function_never_gets_into_json():
    config = PadConfig("end", 1, padding_func=lambda chunk: chunk[:1])
    assert config.to_json() == {"name": "pad", "configuration": {"location": "end", "nbytes": 1}}


REFUSED = [
    pytest.param(None, "pad", r"no configuration: found None; an object of ", id="no configuration"),
    pytest.param({}, "pad", "location is missing; nbytes is missing", id="nothing"),
    pytest.param({"nbytes": 1}, "pad", "location is missing", id="no location"),
    pytest.param({"location": "end"}, "pad", "nbytes is missing", id="no nbytes"),
    pytest.param({"location": "end", "nbytes": 1, "prefix": "AA=="}, "pad", "unknown member 'prefix'", id="prefix"),
    pytest.param({"location": "middle", "nbytes": 1}, "pad", "location: found 'middle'; 'start' or 'end'", id="middle"),
    pytest.param({"location": "Start", "nbytes": 1}, "pad", "location: found 'Start'", id="capital"),
    pytest.param({"location": None, "nbytes": 1}, "pad", "location: found None", id="location null"),
    pytest.param({"location": ["end"], "nbytes": 1}, "pad", "location: found", id="location a list"),
    pytest.param(
        {"location": "end", "nbytes": False}, "pad", "nbytes: found False; an integer of 0 or more", id="bool"
    ),
    pytest.param({"location": "end", "nbytes": -12}, "pad", "nbytes: found -12", id="negative"),
    pytest.param({"location": "end", "nbytes": 1.5}, "pad", "nbytes: found 1.5", id="float"),
    pytest.param(
        {"location": "end", "nbytes": 2, "padding": "AA=="}, "padding", "1 bytes long, but nbytes is 2", id="short"
    ),
    pytest.param({"location": "end", "nbytes": 1, "padding": "AA="}, "pad", "padding: not base64", id="unpadded"),
    pytest.param({"location": "end", "nbytes": 1, "padding": "A A=="}, "pad", "padding: not base64", id="space"),
    pytest.param({"location": "end", "nbytes": 1, "padding": "AB=="}, "pad", "padding: not canonical", id="stray bits"),
    pytest.param({"location": "end", "nbytes": 1, "padding": None}, "pad", "padding: found None", id="padding null"),
]


@pytest.mark.parametrize(("configuration", "field", "message"), REFUSED)
def test_refused_configuration(configuration, field, message):
    with pytest.raises(MalformedError, match=message) as caught:
        PadConfig.from_json(configuration)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        pytest.param({"padding": "AA=="}, "padding", "bytes are needed", id="undecoded text"),
        pytest.param({"location": "both"}, "location", "found 'both'", id="location"),
        pytest.param({"padding_func": b"a"}, "padding_func", "a function .* is needed", id="no function"),
        pytest.param({"padding": b"a", "padding_func": bytes}, "padding_func", "together with padding", id="both"),
    ],
)
def test_refused_arguments(arguments, field, message):
    with pytest.raises(MalformedError, match=message) as caught:
        PadConfig(**{"location": "end", "nbytes": 1, **arguments})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("made", "message"),
    [(b"", "returned 0 bytes; 2 are needed"), (b"abc", "returned 3 bytes"), ("ab", "returned str; bytes")],
)
def test_refused_result_of_the_function(made, message):
    with pytest.raises(MalformedError, match=message) as caught:
        encode(PadConfig("end", 2, padding_func=lambda _: made), view(b"chunk"))
    assert caught.value.field == "padding_func"
