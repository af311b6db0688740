from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.coordinate import Coordinate, column, coordinate_of, parsed, variable
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import MalformedError, UnrepresentableError

NOON = "2024-01-03T12:30:00"
DATES = {
    "20240103": "2024-01-03",
    "2024-01-03": "2024-01-03",
    "2024:01:03 12:30:00": NOON,
    "2024_01_03": "2024-01-03",
    "20240103T123000": NOON,
    "20240103T123000Z": NOON,
    "20240103_123000": NOON,
    "20240103-123000": NOON,
    "20240103123000": NOON,
    "202401031230": NOON,
    NOON: NOON,
    "2024-01-03T14:30:00+02:00": NOON,
    "2024-01-03T07:00:00-0530": NOON,
    "2024-01-03T12:30:00.25": f"{NOON}.250",
    "2024-01-03T12:30:00.000000001Z": f"{NOON}.000000001",
}


@pytest.mark.parametrize(("text", "expected"), DATES.items())
def test_dates_are_read(text, expected):
    (found,) = parsed([text])
    assert found == np.datetime64(expected, "ns")
    assert parsed([text], "date") == found


NUMBERS = {
    "12": 12,
    "-3": -3,
    "1.5": 1.5,
    "2024": 2024,
    "202413": 202413,
    "20241301": 20241301,
    "007": 7,
    "1e3": 1000.0,
}


@pytest.mark.parametrize(("text", "expected"), NUMBERS.items())
def test_numbers_are_read(text, expected):
    (found,) = parsed([text])
    assert (found, found.dtype.kind) == (expected, "i" if isinstance(expected, int) else "f")


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["20240103", "20240104"], "M"),
        (["20240103", "99999999"], "i"),
        (["20240103", "12.5"], "f"),
        (["20240230", "1"], "i"),
        (["16000101"], "i"),
        (["20240103", "S2A"], "U"),
        (["10000000000000000000"], "f"),
    ],
)
def test_all_texts_together_tell_what_they_are(texts, kind):
    assert parsed(texts).dtype.kind == kind


def test_what_is_meant_can_be_said():
    assert parsed(["20240103"], "number").tolist() == [20240103]
    assert parsed(["20240103"], "text").tolist() == ["20240103"]
    with pytest.raises(MalformedError, match="'99999999': not a date"):
        parsed(["20240103", "99999999"], "date")


def test_python_values_become_columns():
    here = timezone(timedelta(hours=2))
    times = column([datetime(2024, 1, 3, 14, 30, tzinfo=here), datetime(2024, 1, 3, 12, 30, tzinfo=UTC)])
    assert times.tolist() == [datetime(2024, 1, 3, 12, 30)] * 2  # noqa: DTZ001 - naive, as numpy's are
    assert column([date(2024, 1, 3)]).dtype == "M8[s]"
    assert column([1, 2.5]).dtype == "f8"
    assert column([np.uint8(1), np.int64(2)]).dtype == "i8"


@pytest.mark.parametrize("values", [[1, "a"], [None], [True], [2**64], [float("inf")], [np.datetime64(1, "ps")]])
def test_other_values_are_refused(values):
    with pytest.raises(UnrepresentableError):
        column(values)


def decoded(array):
    """What xarray sees in a variable of one inline chunk."""
    numbers = np.frombuffer(array.refs.inline[0], array.dtype.newbyteorder("<"))
    raw = xr.Dataset({"x": (array.dimension_names, numbers, dict(array.attributes))})
    return xr.decode_cf(raw)["x"]


TIMES = st.builds(
    lambda numbers, unit: np.array(numbers, f"M8[{unit}]"),
    st.lists(st.integers(-(10**9), 4 * 10**9), min_size=1, max_size=5),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5).map(np.array)
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5).map(
    lambda found: np.array(found, np.int64)
)


@settings(deadline=None)  # the first call imports what decodes times
@given(st.one_of(TIMES, FLOATS, INTEGERS))
def test_xarray_and_the_inverse_see_the_values(values):
    array = variable("x", Coordinate(column(list(values)), {"long_name": "a name"}))
    seen = decoded(array)
    assert (seen.values == values).all()
    assert seen.attrs["long_name"] == "a name"
    found = coordinate_of(VirtualGroup({"x": array}), "x")
    assert (found.values == values).all()
    assert found.values.dtype.kind == values.dtype.kind


def test_the_unit_is_the_coarsest_exact_one():
    units = {
        unit: variable("t", Coordinate(column([np.datetime64(NOON), np.datetime64(text)]), {})).attributes["units"]
        for unit, text in (("s", NOON), ("ms", f"{NOON}.250"), ("ns", f"{NOON}.000000001"))
    }
    assert units == {
        "s": "seconds since 1970-01-01",
        "ms": "milliseconds since 1970-01-01",
        "ns": "nanoseconds since 1970-01-01",
    }


LITTLE = (bytes_("little"),)


def held(values, *, codecs=LITTLE, inline=None, **attributes):
    """A group with a coordinate as others write it, in chunks of two."""
    chunks = -(-len(values) // 2)
    padded = np.resize(values, 2 * chunks).astype(values.dtype)
    data = {chunk: padded[2 * chunk : 2 * chunk + 2].tobytes() for chunk in range(chunks)}
    none = np.empty(0, np.int64)
    refs = ChunkRefs((), np.zeros(chunks + 1, np.int64), none.astype("i4"), none, none, inline or data)
    shape = (len(values),)
    array = VirtualArray(shape, values.dtype.newbyteorder("="), (2,), codecs, refs, ("time",), 0, attributes)
    return VirtualGroup({"time": array})


OTHERS = {
    "days": (
        held(np.array([0, 1, 2], "<i4"), units="days since 2024-01-01"),
        ["2024-01-01", "2024-01-02", "2024-01-03"],
    ),
    "big endian": (
        held(np.array([3600], ">i8"), codecs=(bytes_("big"),), units="seconds since 2024-01-03 11:30:00"),
        [NOON],
    ),
    "another calendar": (held(np.array([1], "<i8"), units="days since 2024-01-01", calendar="noleap"), [1]),
    "fractions of days": (held(np.array([0.5], "<f8"), units="days since 2024-01-01"), [0.5]),
    "metres": (held(np.array([1, 2, 3, 4], "<i2"), units="m"), [1, 2, 3, 4]),
}


@pytest.mark.parametrize(("group", "expected"), OTHERS.values(), ids=OTHERS)
def test_coordinates_that_others_wrote_are_read(group, expected):
    values = coordinate_of(group, "time").values
    assert values.tolist() == np.array(expected, values.dtype).tolist()


def test_coordinates_that_need_a_codec_are_not_read_here():
    assert coordinate_of(held(np.array([1]), codecs=(bytes_("little"), CodecSpec("gzip"))), "time") is None
    assert coordinate_of(VirtualGroup({}), "time") is None
    with pytest.raises(MalformedError, match="3 inline bytes for 1 coordinates"):
        coordinate_of(held(np.array([1]), inline={0: b"abc"}), "time")
