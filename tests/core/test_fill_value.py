import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from zarr.dtype import parse_dtype

from jnrrdz.core.zarr_json import DATA_TYPES, data_type, decode_fill, encode_fill
from jnrrdz.errors import MalformedError, UnrepresentableError

dtypes = st.sampled_from(sorted(DATA_TYPES)).map(np.dtype)
values = dtypes.flatmap(lambda dtype: hnp.arrays(dtype, ())).map(lambda array: array[()])


@given(values)
def test_zarr_reads_the_same_bits(value):
    text = json.dumps(encode_fill(value, value.dtype), allow_nan=False)
    zarrs = parse_dtype(value.dtype.name, zarr_format=3).from_json_scalar(json.loads(text), zarr_format=3)
    # zarr parses the bits of a NaN into a Python float, which keeps no signalling NaN and no sign
    same = zarrs.tobytes() == value.tobytes() or np.isnan(value)
    assert same
    assert bool(np.isnan(zarrs)) == bool(np.isnan(value))


@given(values)
def test_what_zarr_writes_is_read_back(value):
    if not np.isnan(value):
        written = parse_dtype(value.dtype.name, zarr_format=3).to_json_scalar(value, zarr_format=3)
        assert decode_fill(json.loads(json.dumps(written)), value.dtype).tobytes() == value.tobytes()


@given(values)
def test_decode_is_the_inverse_of_encode(value):
    decoded = decode_fill(encode_fill(value, value.dtype), value.dtype)
    assert decoded.dtype == value.dtype
    np.testing.assert_array_equal(decoded, value)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0, "u1", "0"),
        (-9999.0, "i2", "-9999"),
        (2**64 - 1, "u8", "18446744073709551615"),
        (np.int64(-(2**63)), "i8", "-9223372036854775808"),
        (0.1, "f8", "0.1"),
        (0.1, "f4", "0.10000000149011612"),
        (0.1, "f2", "0.0999755859375"),
        (-9999, ">f4", "-9999.0"),
        (math.nan, "f4", '"NaN"'),
        (-math.inf, "f2", '"-Infinity"'),
        (np.frombuffer(b"\x7f\xc0\x00\x01", ">f4")[0], "f4", '"0x7fc00001"'),
        (np.frombuffer(b"\xff\xf8" + bytes(6), ">f8")[0], "f8", '"0xfff8000000000000"'),
        (-3.4028234663852886e38, "f4", "-3.4028234663852886e+38"),
        (1 + 2j, "c8", "[1.0, 2.0]"),
        (complex(math.nan, math.inf), "c16", '["NaN", "Infinity"]'),
        (1, "?", "true"),
        (np.False_, "?", "false"),
    ],
)
def test_the_text_itself(value, dtype, expected):
    assert json.dumps(encode_fill(value, np.dtype(dtype)), allow_nan=False) == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (256, "u1"),
        (-1, "u8"),
        (0.5, "i4"),
        (math.nan, "i2"),
        (math.inf, "u2"),
        (1e39, "f4"),
        (10**400, "f8"),
        (70000, "f2"),
        (1j, "f8"),
        (2, "?"),
        ("0", "u1"),
        (None, "f4"),
        ("x", "c8"),
    ],
)
def test_values_that_a_type_cannot_hold(value, dtype):
    with pytest.raises(UnrepresentableError, match=r"fill_value: .* is no value of type"):
        encode_fill(value, np.dtype(dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [("nan", "f4"), ("0x7f", "f4"), ("0xzz", "f8"), ("1", "f8"), (300, "u1"), (None, "i2"), ([1], "c8"), ({}, "c8")],
)
def test_texts_that_are_no_value(value, dtype):
    with pytest.raises(MalformedError, match="fill_value"):
        decode_fill(value, np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["M8[s]", "S4", "U3", "V8", "O", [("a", "u1")], "m8[ns]"])
def test_types_that_zarr_does_not_name(dtype):
    with pytest.raises(UnrepresentableError, match="data_type"):
        data_type(np.dtype(dtype))


@pytest.mark.parametrize(
    ("dtype", "name"), [(">u2", "uint16"), ("<f8", "float64"), ("?", "bool"), (">c8", "complex64")]
)
def test_the_byte_order_has_no_part_in_the_name(dtype, name):
    assert data_type(np.dtype(dtype)) == name
