"""Packed numbers as floats: every value through zarr's own codecs, compared with numpy's product and sum."""

import asyncio
import json
import math

import numpy as np
import pytest
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.physical import physical, scaling_of
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.zarr_json import array_json
from jnrrdz.errors import UnrepresentableError

SMALL = ["u1", "i1", "u2", "i2"]
PAIRS = [
    (0.1, 0.0),
    (0.1, -100.0),
    (-0.1, 7.0),
    (0.01, 0.0),
    (1e-4, 0.0),
    (1e-4, -0.1),
    (2.75e-5, -0.2),
    (0.00341802, 149.0),
    (1e-3, -273.15),
    (1 / 3, 0.0),
    (1 / 3, -100.0),
    (math.pi, -math.e),
    (0.5, 0.0),
    (1.0, 0.1),
    (7.0, 0.0),
    (1e-30, 0.0),
    (1e30, 1e30),
    (3.7e-6, 1e5),
    (1e-3, 1e6),
    (1.0, 16777217.0),
    (1e-3, 123456.789),
    (1.337e36, 0.0),  # of the bytes only 255 is beyond float32
    (1e40, 0.0),
    (5e-324, 0.0),
    (1e-310, 1e-300),
]
"""Scales and offsets: decimal ones, Landsat's, Sentinel's, kelvin; some that need float64, some that strain it."""


def packed(stored, *, names=None, chunks=None, order="little", **attributes):
    """Return a virtual array of one missing chunk, with the shape and type of the stored numbers."""
    stored = np.asarray(stored)
    names = names or ("band", "y", "x")[-stored.ndim :]
    chunks = chunks or stored.shape
    count = math.prod(-(-size // step) for size, step in zip(stored.shape, chunks, strict=True))
    refs = ChunkRefs.single("a", np.arange(count) * 10, np.full(count, 10))
    codecs = (bytes_(order if stored.dtype.itemsize > 1 else None),)
    fill = attributes.pop("fill", attributes.get("_FillValue", 0))
    return VirtualArray(stored.shape, stored.dtype, chunks, codecs, refs, names, stored.dtype.type(fill), attributes)


def only(array):
    """Return the one array that the array becomes."""
    children = physical(VirtualGroup({"data": array})).children
    assert list(children) == ["data"]
    return children["data"]


def read(array, stored, order="<"):
    """Return what zarr reads with the array's metadata from a chunk of the stored numbers."""
    store = MemoryStore()
    document = json.dumps(array_json(array)).encode()
    key = "c/" + "/".join("0" * len(array.shape))
    data = stored.astype(stored.dtype.newbyteorder(order)).tobytes()
    asyncio.run(store.set("zarr.json", cpu.Buffer.from_bytes(document)))
    asyncio.run(store.set(key, cpu.Buffer.from_bytes(data)))
    return zarr.open_array(store, mode="r")[...]


def every(dtype):
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


def computed(stored, scale, offset, dtype):
    with np.errstate(over="ignore", under="ignore"):
        return (stored.astype(np.float64) * scale + offset).astype(dtype)


def same(found, wanted):
    """Whether both are equal bit for bit, all NaN and both zeros taken as one."""
    return found.dtype == wanted.dtype and np.array_equal(found, wanted, equal_nan=True)


# Exactness


@pytest.mark.parametrize(("scale", "offset"), PAIRS)
@pytest.mark.parametrize("dtype", SMALL)
def test_every_small_integer_is_the_product_and_sum(dtype, scale, offset):
    stored = every(dtype)
    array = only(packed(stored, scales=[scale], offsets=[offset]))
    assert same(read(array, stored), computed(stored, scale, offset, array.dtype))


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), *PAIRS[:7]])
def test_nodata_is_nan_and_nothing_else_is(dtype, scale, offset):
    stored = every(dtype)
    for nodata in (stored[0], stored[-1], stored[100]):
        array = only(packed(stored, scales=[scale], offsets=[offset], _FillValue=nodata))
        wanted = np.where(stored == nodata, np.nan, computed(stored, scale, offset, array.dtype)).astype(array.dtype)
        assert same(read(array, stored), wanted)
        assert math.isnan(array.fill_value)


@settings(max_examples=60, deadline=None)
@example(dtype="u1", scale=1.401298464324817e-45, offset=0.0)  # its reciprocal is beyond float32
@given(
    dtype=st.sampled_from(SMALL),
    scale=st.floats(-1e300, 1e300).filter(lambda scale: scale != 0),
    offset=st.floats(-1e300, 1e300),
)
def test_any_scale_and_offset_are_exact(dtype, scale, offset):
    stored = every(dtype)
    array = packed(stored, scales=[scale], offsets=[offset])
    if not np.isfinite(computed(stored, scale, offset, np.float64)).all():
        with pytest.raises(UnrepresentableError, match="beyond float64"):
            only(array)
        return
    found = only(array)
    assert same(read(found, stored), computed(stored, scale, offset, found.dtype))


@pytest.mark.parametrize(("scale", "offset"), [(0.01, 0.0), (0.1, -3.3), (0.25, 0.1), (-2.0, 1e6), (1.0, 0.5)])
@pytest.mark.parametrize("dtype", ["i4", "u4"])
def test_32_bit_integers_are_exact_in_float64(dtype, scale, offset):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    stored = np.r_[limits.min, limits.max, rng.integers(limits.min, limits.max, 50_000)].astype(dtype)
    array = only(packed(stored, scales=[scale], offsets=[offset]))
    assert array.dtype == np.float64
    assert same(read(array, stored), computed(stored, scale, offset, np.float64))


@pytest.mark.parametrize("dtype", ["i4", "u4"])
def test_32_bit_integers_with_nodata_alone_lose_none(dtype):
    limits = np.iinfo(dtype)
    stored = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype)
    array = only(packed(stored, _FillValue=limits.max))
    assert read(array, stored).tolist()[:-1] == stored.tolist()[:-1]
    assert math.isnan(read(array, stored)[-1])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_scaled_floats_are_computed_in_float64(dtype):
    stored = np.r_[np.random.default_rng(1).normal(size=10_000), np.nan, np.inf, -np.inf, -0.0, -99].astype(dtype)
    array = only(packed(stored, scales=[0.1], offsets=[1e3], _FillValue=-99))
    wanted = computed(stored, 0.1, 1e3, np.float64)
    wanted[stored == -99] = np.nan
    assert same(read(array, stored), wanted)


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [
        ("f4", -9999.0),
        ("f4", -3.4028234663852886e38),
        ("f4", -9999.1),
        ("f8", -1.7976931348623157e308),
        ("f4", math.inf),
    ],
)
def test_nodata_of_floats_is_nan_in_their_own_type(dtype, nodata):
    stored = np.array([1.5, nodata, 0, math.nan], dtype)
    array = only(packed(stored, _FillValue=stored[1]))
    assert same(read(array, stored), np.array([1.5, math.nan, 0, math.nan], dtype))


def test_nan_as_nodata_of_floats_needs_no_codec():
    array = packed(np.zeros(3, "f4"), _FillValue=np.float32(math.nan))
    assert only(array).codecs == array.codecs
    assert "_FillValue" not in only(array).attributes


def test_big_endian_numbers_are_read_too():
    stored = every("i2")
    array = only(packed(stored, order="big", scales=[0.1], offsets=[0.0], _FillValue=-1))
    wanted = np.where(stored == -1, np.nan, computed(stored, 0.1, 0.0, "f4")).astype("f4")
    assert same(read(array, stored, ">"), wanted)


def test_zarrs_division_alone_would_not_be_exact():
    # if this fails, zarr multiplies now and the codec of our own may go
    stored = every("u2").astype("f8")
    assert np.count_nonzero(stored / (1 / 0.1) != stored * 0.1) > 20_000


# Which type, which codecs


@pytest.mark.parametrize(
    ("dtype", "scale", "offset", "wanted", "codec"),
    [
        ("u2", 0.1, 0.0, "f4", "scale_offset"),
        ("u2", 2.75e-5, -0.2, "f4", "scale_offset"),
        ("u2", 1.0, 16777217.0, "f8", "scale_offset"),  # float32 would make one value of two
        ("u2", 1e40, 0.0, "f8", None),  # beyond float32
        ("u1", 1e-310, 0.0, "f8", "jnrrdz.linear"),  # 1 / scale is infinite
        ("i4", 0.25, 0.1, "f8", "scale_offset"),
        ("i4", 0.1, 0.0, "f8", "jnrrdz.linear"),
        ("f4", 0.5, 0.0, "f8", "jnrrdz.linear"),
    ],
)
def test_type_and_codec(dtype, scale, offset, wanted, codec):
    found = scaling_of(np.dtype(dtype), (scale,), (offset,))
    assert found.dtype == wanted
    assert codec is None or found.codec.name == codec


@pytest.mark.parametrize(
    ("dtype", "wanted"), [*((name, "f4") for name in SMALL), ("i4", "f8"), ("f4", "f4"), ("f8", "f8")]
)
def test_type_of_values_with_nodata_alone(dtype, wanted):
    array = only(packed(np.zeros(2, dtype), _FillValue=1))
    assert array.dtype == wanted
    assert [codec.name for codec in array.codecs] == ["cast_value", "bytes"]


def test_landsats_chain():
    array = only(packed(np.zeros(2, "u2"), scales=[2.75e-5], offsets=[-0.2], _FillValue=np.uint16(0)))
    assert array_json(array)["codecs"] == [
        {"name": "cast_value", "configuration": {"data_type": "float64"}},
        {"name": "scale_offset", "configuration": {"offset": -0.2, "scale": 1 / 2.75e-5}},
        {
            "name": "cast_value",
            "configuration": {
                "data_type": "uint16",
                "out_of_range": "clamp",
                "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]},
            },
        },
        {"name": "bytes", "configuration": {"endian": "little"}},
    ]
    assert array_json(array)["fill_value"] == "NaN"


# What stays as it is


@pytest.mark.parametrize(
    "array",
    [
        packed(np.zeros(2, "u2")),
        packed(np.zeros(2, "u2"), scales=[1.0], offsets=[0.0]),
        packed(np.zeros(2, "i8")),
        packed(np.zeros(2, "c8")),
        packed(np.zeros(2, "u1"), _FillValue=0, color_table=[[0, 0, 0, 255]]),
        packed(np.zeros(2, "u1"), _FillValue=0, flag_values=[0, 1]),
        packed(np.zeros(2, "?"), _FillValue=0),
    ],
    ids=["plain", "identity", "int64", "complex", "palette", "flags", "bool"],
)
def test_arrays_that_stay_as_they_are(array):
    assert only(array) is array


def test_groups_keep_their_attributes_and_all_levels_are_converted():
    level = VirtualGroup({"data": packed(np.zeros(2, "u1"), scales=[0.5], offsets=[1.0])}, {"level": 1})
    root = physical(VirtualGroup({"0": level, "1": level}, {"multiscales": 1}, ("sources",)))
    assert (root.attributes, root.sources, root.children["0"].attributes) == (
        {"multiscales": 1},
        ("sources",),
        {"level": 1},
    )
    assert [array.dtype.name for _, array in root.arrays()] == ["float32", "float32"]


# What is refused


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (packed(np.zeros(2, "i8"), _FillValue=0), r"int64 beyond 2\*\*53"),
        (packed(np.zeros(2, "u8"), scales=[0.1]), r"uint64 beyond 2\*\*53"),
        (packed(np.zeros(2, "c8"), _FillValue=0), "complex64"),
        (packed(np.zeros(2, "?"), scales=[2.0]), "bool"),
        (packed(np.zeros(2, "u2"), scales=[0.0]), "scale 0 of band 1"),
        (packed(np.zeros(2, "u2"), scales=[math.inf]), "not finite"),
        (packed(np.zeros(2, "u2"), offsets=[math.nan]), "not finite"),
        (packed(np.zeros(2, "u2"), scales=[1e306]), "scale 1e[+]306, offset 0.0 of band 1 go beyond float64"),
        (packed(np.zeros(2, "u2"), scales=["a"]), "not a number"),
        (packed(np.zeros((3, 1, 2), "u2"), scales=[1.0, 2.0]), "each of 3 bands"),
    ],
)
def test_refusals_name_the_array(array, words):
    with pytest.raises(UnrepresentableError, match=words) as caught:
        physical(VirtualGroup({"0": VirtualGroup({"data": array})}))
    assert caught.value.field.startswith("0/data")


# The fill value


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"scales": [0.1], "offsets": [5.0]}, 5.0),
        ({"scales": [0.1], "offsets": [5.0], "fill": 3}, 3 * 0.1 + 5.0),
        ({"scales": [0.1], "offsets": [5.0], "_FillValue": 9, "fill": 0}, 5.0),
        ({"scales": [0.1], "offsets": [5.0], "_FillValue": 9}, math.nan),
        ({"missing_value": [7, 9], "fill": 7}, math.nan),
        ({"scales": [0.1], "offsets": [16777215.5]}, 16777215.5),
        ({"scales": [1.0], "offsets": [16777217.0]}, 16777217.0),
    ],
)
def test_missing_chunks_read_as_the_values_of_the_fill(attributes, wanted):
    stored = np.zeros(4, "u2")
    array = only(packed(stored, **attributes))
    store = MemoryStore()
    asyncio.run(store.set("zarr.json", cpu.Buffer.from_bytes(json.dumps(array_json(array)).encode())))
    assert same(zarr.open_array(store, mode="r")[...], np.full(4, wanted, array.dtype))


# Attributes


def test_attributes_do_not_make_a_reader_unpack_again():
    given_attributes = {
        "scales": [0.5],
        "offsets": [1.0],
        "scale_factor": 0.5,
        "add_offset": 1.0,
        "_FillValue": np.uint8(9),
        "missing_value": 9,
        "flag_values": [0, 1],
        "color_table": [[0, 0, 0, 255]],
        "units": "m",
        "long_name": "height",
    }
    array = only(packed(np.zeros(2, "u1"), **given_attributes))
    assert array.attributes == {"units": "m", "long_name": "height"}


def test_cf_attributes_are_understood():
    stored = every("u1")
    array = only(packed(stored, scale_factor=0.1, add_offset=-1.0, missing_value=255))
    wanted = computed(stored, 0.1, -1.0, "f4")
    wanted[255] = np.nan
    assert same(read(array, stored), wanted)


def test_every_mark_of_a_missing_value_is_nan():
    stored = every("i1")
    array = only(packed(stored, _FillValue=-128, missing_value=[-127, 5.0, 5.5, 999]))
    assert stored[np.isnan(read(array, stored))].tolist() == [-128, -127, 5]


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [
        (0.5, {"valid_min": 1.0, "valid_max": 6.0, "valid_range": [1.0, 6.0]}),
        (-0.5, {"valid_max": 1.0, "valid_min": -4.0, "valid_range": [-4.0, 1.0]}),
    ],
)
def test_limits_are_those_of_the_values(scale, wanted):
    limits = {"valid_min": 0, "valid_max": 10, "valid_range": [0, 10]}
    assert only(packed(np.zeros(2, "u1"), scales=[scale], offsets=[1.0], **limits)).attributes == wanted


@pytest.mark.parametrize(("scale", "low", "high"), [(0.5, 2.0, 6.0), (-0.5, -4.0, 0.0)])
def test_statistics_are_those_of_the_values(scale, low, high):
    of_stored = {
        "minimum": 2.0,
        "maximum": 10.0,
        "mean": 4.0,
        "stddev": 3.0,
        "valid_percent": 50.0,
        "approximate": True,
    }
    found = only(packed(np.zeros(2, "u1"), scales=[scale], offsets=[1.0], statistics=[of_stored])).attributes[
        "statistics"
    ]
    assert found == [
        {
            "minimum": low,
            "maximum": high,
            "mean": 4.0 * scale + 1,
            "stddev": 1.5,
            "valid_percent": 50.0,
            "approximate": True,
        }
    ]


# Bands


def test_bands_that_agree_stay_together():
    stored = np.arange(24, dtype="u2").reshape(2, 3, 4)
    array = only(packed(stored, scales=[0.1, 0.1], offsets=[1.0, 1.0], band_units=["m", "s"]))
    assert same(read(array, stored), computed(stored, 0.1, 1.0, "f4"))
    assert array.attributes == {"band_units": ["m", "s"]}


@pytest.mark.parametrize(
    ("units", "wanted"),
    [
        (["m", "m"], {"units": "m"}),
        (["m", "s"], {"band_units": ["m", "s"]}),
        (["m", ""], {"band_units": ["m", ""]}),
        (["", ""], {"band_units": ["", ""]}),
    ],
)
def test_a_unit_of_all_bands_is_that_of_the_values(units, wanted):
    array = packed(np.zeros((2, 1, 2), "u2"), scales=[0.1, 0.2], band_units=units)
    assert dict(only(array).attributes) == wanted


def test_bands_of_one_chunk_may_differ():
    stored = np.stack([every("u2").reshape(256, 256)] * 3)
    array = only(packed(stored, scales=[0.1, 0.01, 1.0], offsets=[0.0, -5.0, 0.0], _FillValue=3))
    found = read(array, stored)
    for band, (scale, offset) in enumerate([(0.1, 0.0), (0.01, -5.0), (1.0, 0.0)]):
        wanted = computed(stored[band], scale, offset, "f4")
        wanted[stored[band] == 3] = np.nan
        assert same(found[band], wanted)


def test_one_band_that_needs_float64_makes_all_float64():
    stored = np.zeros((2, 1, 2), "u2")
    assert only(packed(stored, scales=[0.1, 1.0], offsets=[0.0, 16777217.0])).dtype == np.float64


def test_bands_in_chunks_of_their_own_become_variables():
    stored = np.zeros((2, 4, 4), "u2")
    attributes = {
        "scales": [0.1, 0.2],
        "offsets": [0.0, 1.0],
        "band_names": ["red", ""],
        "band_units": ["m", "s"],
        "colorinterp": ["gray", "undefined"],
        "valid_range": [0, 10],
        "grid_mapping": "spatial_ref",
    }
    group = VirtualGroup({"data": packed(stored, chunks=(1, 2, 4), **attributes)})
    found = physical(group).children
    assert list(found) == ["data_1", "data_2"]
    assert dict(found["data_1"].attributes) == {
        "long_name": "red",
        "units": "m",
        "colorinterp": ["gray"],
        "valid_range": [0.0, 1.0],
        "grid_mapping": "spatial_ref",
    }
    assert found["data_2"].attributes["units"] == "s"
    assert "long_name" not in found["data_2"].attributes
    assert (found["data_2"].dimension_names, found["data_2"].shape, found["data_2"].chunks) == (
        ("y", "x"),
        (4, 4),
        (2, 4),
    )
    assert [found[name].refs.offset.tolist() for name in found] == [[0, 10], [20, 30]]
    assert [found[name].fill_value for name in found] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("chunks", "codecs", "words"),
    [((2, 4, 4), (), "chunks of"), ((1, 4, 4), (CodecSpec("transpose", {"order": [0, 2, 1]}),), "codecs transpose")],
)
def test_bands_that_cannot_be_told_apart_are_refused(chunks, codecs, words):
    array = packed(np.zeros((4, 4, 4), "u2"), chunks=chunks, scales=[1.0, 2.0, 3.0, 4.0])
    object.__setattr__(array, "codecs", (*codecs, *array.codecs))
    with pytest.raises(UnrepresentableError, match=words):
        only(array)


def test_missing_chunks_of_bands_with_different_offsets_are_refused():
    array = packed(np.zeros((2, 4, 4), "u2"), scales=[1.0, 2.0], offsets=[1.0, 2.0])
    object.__setattr__(array, "refs", ChunkRefs.empty(1))
    with pytest.raises(UnrepresentableError, match=r"missing chunks would read as 1\.0, 2\.0"):
        only(array)
    object.__setattr__(array, "attributes", {**array.attributes, "_FillValue": 0})
    assert math.isnan(only(array).fill_value)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.data())
def test_taken_references_are_those_of_the_chunks(counts, data):
    rows = sum(counts)
    indptr = np.r_[0, np.cumsum(counts)].astype(np.int64)
    columns = np.arange(rows, dtype=np.int64)
    inline = {0: b"a"} if counts[0] == 0 else {}
    refs = ChunkRefs(("a",), indptr, np.zeros(rows, np.int32), columns, columns + 1, inline)
    chunks = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=12))
    found = refs.take(np.array(chunks, np.int64))
    assert [found.ranges(place) for place in range(len(chunks))] == [refs.ranges(chunk) for chunk in chunks]
    assert [found.inline.get(place) for place in range(len(chunks))] == [refs.inline.get(chunk) for chunk in chunks]
