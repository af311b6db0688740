"""The codec `jnrrdz.linear`: numpy's product and sum, undone again, alone and inside zarr."""

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from zarr.codecs import BytesCodec
from zarr.storage import MemoryStore

from jnrrdz.codecs.steps import LinearCodec, decode_linear, encode_linear
from jnrrdz.core.codecs import LinearConfig
from jnrrdz.errors import MalformedError

SCHEMA = Path(__file__).parents[2] / "docs" / "codecs" / "jnrrdz.linear" / "schema.json"
NUMBERS = st.floats(-1e6, 1e6)
SCALES = NUMBERS.filter(lambda number: abs(number) > 1e-6)


def is_valid(entry):
    return Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).is_valid(entry)


@given(st.lists(NUMBERS, min_size=1), SCALES, NUMBERS)
def test_decoding_is_pythons_arithmetic(stored, scale, offset):
    found = decode_linear(LinearConfig(scale, offset), np.array(stored))
    assert found.tolist() == [number * scale + offset for number in stored]


@given(st.lists(st.tuples(SCALES, NUMBERS), min_size=1, max_size=4), st.integers(0, 2))
def test_an_axis_has_a_pair_for_each_index(pairs, axis):
    shape = [2, 3, 4]
    shape[axis] = len(pairs)
    stored = np.arange(math.prod(shape), dtype="f8").reshape(shape)
    found = decode_linear(LinearConfig(*map(tuple, zip(*pairs, strict=True)), axis), stored)
    for index, (scale, offset) in enumerate(pairs):
        assert np.array_equal(found.take(index, axis), stored.take(index, axis) * scale + offset)


@given(st.integers(-(2**31), 2**31), SCALES, st.integers(-1000, 1000))
def test_encoding_undoes_it_for_integers(stored, scale, offset):
    config = LinearConfig(scale, offset * scale)
    assert np.rint(encode_linear(config, decode_linear(config, np.array([float(stored)])))).tolist() == [stored]


def test_what_comes_in_is_left_alone():
    stored = np.arange(3.0)
    decode_linear(LinearConfig(2.0, 1.0), stored)
    encode_linear(LinearConfig(2.0, 1.0), stored)
    assert stored.tolist() == [0, 1, 2]


@pytest.mark.parametrize("pipeline", ["Batched", "Fused"])
@pytest.mark.parametrize(
    "config", [LinearConfig(0.1, 5.0), LinearConfig((0.1, 3.0), (5.0, 6.0), 0)], ids=["one", "axis"]
)
def test_inside_zarr(pipeline, config):
    values = np.arange(12.0).reshape(2, 6)
    store = MemoryStore()
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}CodecPipeline"}):
        array = zarr.create_array(
            store,
            shape=(2, 6),
            chunks=(2, 3),
            dtype="f8",
            filters=[LinearCodec(config)],
            serializer=BytesCodec(),
            compressors=None,
        )
        array[...] = values
        found = zarr.open_array(store, mode="r")
        assert np.allclose(found[...], values, rtol=1e-14, atol=1e-13)
        assert np.array_equal(pickle.loads(pickle.dumps(found))[...], found[...])
    raw = np.frombuffer(store._store_dict["c/0/0"].to_bytes(), "<f8").reshape(2, 3)  # noqa: SLF001  what really lies there
    scale, offset = (np.array(numbers).reshape(-1, 1) for numbers in (config.scale, config.offset))
    assert np.array_equal(raw, (values[:, :3] - offset) / scale)
    document = json.loads(store._store_dict["zarr.json"].to_bytes())  # noqa: SLF001  the same
    assert document["codecs"][0] == config.to_json()
    assert is_valid(document["codecs"][0])


@pytest.mark.parametrize(
    ("dtype", "shape", "config", "words"),
    [
        ("f4", (2, 2), LinearConfig(1.0, 1.0), "float64 is computed"),
        ("f8", (2, 2), LinearConfig((1.0,) * 3, (1.0,) * 3, 0), "3 scales for axis 0"),
        ("f8", (2, 2), LinearConfig((1.0,) * 2, (1.0,) * 2, 2), "axis 2 of chunks"),
    ],
)
def test_arrays_that_it_does_not_fit(dtype, shape, config, words):
    with pytest.raises(MalformedError, match=words):
        zarr.create_array(MemoryStore(), shape=shape, chunks=shape, dtype=dtype, filters=[LinearCodec(config)])


CONFIGURATIONS = [
    ({"scale": 0.1, "offset": 5}, True),
    ({"scale": [0.1, 2], "offset": [5, 6], "axis": 0}, True),
    ({"scale": 0.1}, False),
    ({"offset": 0.1}, False),
    ({"scale": 0.1, "offset": 5, "axis": 0}, False),
    ({"scale": [0.1], "offset": [5]}, False),
    ({"scale": [0.1], "offset": 5, "axis": 0}, False),
    ({"scale": [], "offset": [], "axis": 0}, False),
    ({"scale": [0.1], "offset": [5], "axis": -1}, False),
    ({"scale": [0.1], "offset": [5], "axis": True}, False),
    ({"scale": 0, "offset": 5}, False),
    ({"scale": [1, 0], "offset": [5, 5], "axis": 0}, False),
    ({"scale": True, "offset": 5}, False),
    ({"scale": "0.1", "offset": 5}, False),
    ({"scale": 0.1, "offset": None}, False),
    ({"scale": 0.1, "offset": 5, "other": 1}, False),
    ({}, False),
]


@pytest.mark.parametrize(("configuration", "fits"), CONFIGURATIONS, ids=json.dumps)
def test_schema_and_codec_agree(configuration, fits):
    assert is_valid({"name": "jnrrdz.linear", "configuration": configuration}) is fits
    if fits:
        assert LinearConfig.from_json(configuration).to_json()["configuration"] == configuration
        return
    with pytest.raises(MalformedError):
        LinearConfig.from_json(configuration)


@pytest.mark.parametrize(
    "configuration",
    [None, [], "a", {"scale": [1.0, 2.0], "offset": [1.0], "axis": 0}, {"scale": math.inf, "offset": 0}],
)
def test_what_a_schema_cannot_say_is_refused_too(configuration):
    with pytest.raises(MalformedError):
        LinearConfig.from_json(configuration)


@given(st.lists(st.tuples(SCALES, NUMBERS), min_size=1, max_size=4))
def test_what_the_builder_emits_validates(pairs):
    scales, offsets = zip(*pairs, strict=True)
    for spec in (LinearConfig(scales[0], offsets[0]), LinearConfig(scales, offsets, 0)):
        assert is_valid(spec.to_json())
        assert LinearConfig.from_json(spec.configuration).to_json() == spec.to_json()
