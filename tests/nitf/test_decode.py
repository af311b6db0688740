"""NITF's codecs as zarr knows them: configurations and their schemas, and chunks that are not what they should be."""

import base64
import json
import pickle
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jnrrdz.codecs.tiles import JbpBlockCodec, JbpJpegCodec, NitfVqCodec
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nitf.codecs import JbpBlockConfig, JbpJpegConfig, NitfVqConfig
from jnrrdz.formats.nitf.decode import (
    QUANTISATION,
    BlockDecoder,
    JpegDecoder,
    VqDecoder,
    complete_stream,
    list_markers,
    unpack_codes,
    unpack_samples,
)

DOCS = Path(__file__).parents[2] / "docs" / "codecs"
BOOKS = base64.b64encode(zlib.compress(bytes(65536))).decode()
PALETTE = base64.b64encode(bytes(6)).decode()
CODECS = {"jbp-block": JbpBlockCodec, "jbp-jpeg": JbpJpegCodec, "jnrrdz.nitf-vq": NitfVqCodec}
PLAIN = {"pixel_type": "INT", "bits_per_pixel": 8}


def is_valid(name, configuration):
    document = json.loads((DOCS / name / "schema.json").read_text("utf-8"))
    return Draft202012Validator(document).is_valid({"name": name, "configuration": configuration})


@pytest.mark.parametrize(
    ("name", "configuration", "good"),
    [
        ("jbp-block", PLAIN, True),
        ("jbp-block", PLAIN | {"interleave": "S", "image_rows": 9, "complex_pairs": True, "palette": PALETTE}, True),
        ("jbp-block", {"pixel_type": "INT"}, False),
        ("jbp-block", PLAIN | {"pixel_type": "X"}, False),
        ("jbp-block", PLAIN | {"bits_per_pixel": 0}, False),
        ("jbp-block", PLAIN | {"bits_per_pixel": True}, False),
        ("jbp-block", PLAIN | {"bits_per_pixel": 129}, False),
        ("jbp-block", PLAIN | {"interleave": "Q"}, False),
        ("jbp-block", PLAIN | {"interleave": ["B"]}, False),
        ("jbp-block", PLAIN | {"image_rows": -1}, False),
        ("jbp-block", PLAIN | {"complex_pairs": 1}, False),
        ("jbp-block", PLAIN | {"palette": ""}, False),
        ("jbp-block", PLAIN | {"palette": 5}, False),
        ("jbp-block", PLAIN | {"surplus": 5}, False),
        ("jbp-jpeg", {}, True),
        ("jbp-jpeg", {"quality": 3, "palette": PALETTE}, True),
        ("jbp-jpeg", {"quality": 6}, False),
        ("jnrrdz.nitf-vq", {"codebooks": BOOKS}, True),
        ("jnrrdz.nitf-vq", {}, False),
        ("jnrrdz.nitf-vq", {"codebooks": "*"}, False),
    ],
)
def test_codec_and_schema_agree_on_configurations(name, configuration, good):
    assert is_valid(name, configuration) is good
    entry = {"name": name, "configuration": configuration}
    if not good:
        with pytest.raises(MalformedError) as caught:
            CODECS[name].from_dict(entry)
        assert caught.value.field == name
        return
    codec = zarr.registry.get_codec_class(name).from_dict(entry)
    assert isinstance(codec, CODECS[name])
    assert is_valid(name, codec.to_dict().get("configuration", {}))
    assert CODECS[name].from_dict(codec.to_dict()) == codec
    assert pickle.loads(pickle.dumps(codec)) == codec


@pytest.mark.parametrize("length", [0, 65535, 65537, 1 << 26])
def test_codebooks_of_another_length_are_refused_without_being_unpacked_whole(length):
    books = base64.b64encode(zlib.compress(bytes(length))).decode()
    with pytest.raises(MalformedError):
        NitfVqConfig.from_json({"codebooks": books})


@given(
    bits=st.integers(2, 63).filter(lambda bits: bits not in {8, 16, 32}),
    samples=st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=40),
)
def test_any_width_is_unpacked(bits, samples):
    kept = [sample & ((1 << bits) - 1) for sample in samples]
    text = "".join(f"{sample:0{bits}b}" for sample in kept)
    data = int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
    assert unpack_samples(memoryview(data), bits, len(kept)).tolist() == kept


@given(codes=st.lists(st.integers(0, 4095), min_size=1, max_size=40))
def test_codes_of_12_bits(codes):
    text = "".join(f"{code:03x}" for code in codes)
    data = bytes.fromhex(text + "0" * (len(text) % 2))
    assert unpack_codes(data, len(codes)).tolist() == codes


@pytest.mark.parametrize(
    ("shape", "image_rows", "good"), [((4, 6), 0, {24}), ((4, 6), 10, {24, 12}), ((2, 4, 6), 9, {48, 12})]
)
def test_only_whole_blocks_and_the_images_last_rows_are_taken(shape, image_rows, good):
    decoder = BlockDecoder(JbpBlockConfig("INT", 8, "B", image_rows), shape, np.dtype("u1"), 7)
    for length in range(50):
        if length in good:
            found = decoder.decode(bytes(length)).reshape(-1, 6)
            assert (found == 7).sum() == np.prod(shape) - length
        else:
            with pytest.raises(MalformedError, match=f"{length} bytes"):
                decoder.decode(bytes(length))


@pytest.mark.parametrize(
    ("config", "shape", "dtype"),
    [
        (JbpBlockConfig("INT", 16), (4, 4), "u1"),
        (JbpBlockConfig("R", 32, "P", complex_pairs=True), (4, 4), "f4"),
        (JbpBlockConfig("R", 12), (4, 4), "f4"),
        (JbpBlockConfig("INT", 65), (4, 4), "u8"),
    ],
)
def test_an_array_of_another_type_is_refused(config, shape, dtype):
    with pytest.raises((MalformedError, UnsupportedError)):
        BlockDecoder(config, shape, np.dtype(dtype), 0)


def without(data, marker):
    """Return a stream without the segments of one marker."""
    kept, at = data[:2], 2
    while data[at + 1] != 0xDA:
        length = 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        kept += b"" if data[at + 1] == marker else data[at : at + length]
        at += length
    return kept + data[at:]


@pytest.mark.parametrize("quality", QUANTISATION)
def test_a_stream_without_tables_gets_those_of_its_quality(quality):
    """A stream that has the very table decodes alike with it and without it."""
    pixels = (np.mgrid[:16, :16].sum(axis=0) * 5).astype(np.uint8)
    whole = imagecodecs.jpeg8_encode(pixels, level=75, optimize=False)
    table = b"\xff\xdb\0\x43\0" + bytes(int(word) for word in QUANTISATION[quality].split())
    bare = without(whole, 0xDB)
    own = bare[:2] + table + bare[2:]
    expected = imagecodecs.jpeg8_decode(own)
    decoder = JpegDecoder(JbpJpegConfig(quality), (16, 16), np.dtype("u1"), 0)
    np.testing.assert_array_equal(decoder.decode(bare), expected)
    np.testing.assert_array_equal(decoder.decode(without(bare, 0xC4)), expected)
    assert {0xDB, 0xC4} <= list_markers(complete_stream(without(bare, 0xC4), quality))
    assert complete_stream(whole, quality) == whole


@pytest.mark.parametrize("quality", [1, 2, 3, 4, 5])
def test_quantisation_tables_rise_with_frequency(quality):
    """As all tables of the standard do but for the first value, which is the mean's."""
    table = [int(word) for word in QUANTISATION[quality].split()]
    assert len(table) == 64
    assert table[1] <= table[-1]
    assert sum(table[:32]) < sum(table[32:])


def test_a_stream_that_no_quality_explains_is_an_error():
    bare = without(imagecodecs.jpeg8_encode(np.zeros((16, 16), np.uint8)), 0xDB)
    with pytest.raises(MalformedError, match="quality level"):
        JpegDecoder(JbpJpegConfig(), (16, 16), np.dtype("u1"), 0).decode(bare)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda data: data[:-2], "cut off"),
        (lambda data: data[:0], "no frame header"),
        (lambda data: data.replace(b"\0\x10\0\x10", b"\xff\xff\xff\xff", 1), "65535 x 65535"),
    ],
)
def test_streams_are_looked_at_before_they_are_decoded(change, named):
    data = imagecodecs.jpeg8_encode(np.zeros((16, 16), np.uint8))
    with pytest.raises(MalformedError, match=named):
        JpegDecoder(JbpJpegConfig(), (16, 16), np.dtype("u1"), 0).decode(change(data))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_streams_decode_or_are_errors_of_ours(data):
    whole = bytearray(imagecodecs.jpeg8_encode((np.mgrid[:16, :16].sum(axis=0) * 5).astype(np.uint8)))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = JpegDecoder(JbpJpegConfig(3), (16, 16), np.dtype("u1"), 0).decode(bytes(whole))
    except JnrrdzError:
        return
    assert found.shape == (16, 16)


def test_vq_refuses_chunks_of_other_shapes_and_lengths():
    config = NitfVqConfig(zlib.compress(bytes(65536)))
    with pytest.raises(MalformedError):
        VqDecoder(config, (6, 8), np.dtype("u1"))
    with pytest.raises(MalformedError, match="5 bytes of codes where 6 belong"):
        VqDecoder(config, (8, 8), np.dtype("u1")).decode(bytes(5))


def test_nothing_is_written():
    codec = JbpJpegCodec(JbpJpegConfig())
    with pytest.raises(UnsupportedError, match="read with this codec"):
        codec._encode_sync(None, None)  # noqa: SLF001  what zarr calls
