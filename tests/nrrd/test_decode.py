"""`jnrrdz.tile`: parts of tiles told by the length of their bytes, in memory that the tile's size bounds."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jnrrdz.core.codecs import TileConfig
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.decode import TileCoder
from tests.writers import PACK

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/codecs/jnrrdz.tile/schema.json").read_text("utf-8"))
PACKED = [name for name in PACK if name != "raw"]
U1 = np.dtype("uint8")


def coder(axes, shape, compression="raw", dtype=U1, fill=0, **others):
    endian = "little" if dtype.itemsize > 1 else None
    return TileCoder(TileConfig(axes, endian, compression, **others), shape, dtype, fill)


@st.composite
def tiles(draw):
    """Return choices of axes and the shape of chunks, as overlapping tiles with short edges have them."""
    axes, shape = [], []
    for _ in range(draw(st.integers(1, 3))):
        tile = draw(st.integers(1, 7))
        step = draw(st.integers(1, tile))
        last = draw(st.integers(1, tile))
        choices = [(tile, 0), (last, 0), *((last, first) for first in range(step, last, step))]
        axes.append(tuple(dict.fromkeys(choices)))
        shape.append(step)
    return tuple(axes), tuple(shape)


def expected_chunk(whole, kind, shape, fill):
    found = np.full(shape, fill, whole.dtype)
    part = whole[tuple(slice(first, first + size) for first, size in zip(kind.origin, shape, strict=True))]
    found[tuple(map(slice, part.shape))] = part
    return found


def chunk_bytes(config, number, whole, compression, junk):
    """Return a chunk's bytes as the README tells them, reckoned anew here."""
    kind = config.kinds[number]
    data = whole.tobytes()
    if compression == "raw":
        lengths: list[int] = []
        for one in config.kinds[: number + 1]:
            length = (one.size - one.first) * whole.itemsize
            while length in lengths:
                length += 1
            lengths.append(length)
        own = data[kind.first * whole.itemsize :]
        return junk[: lengths[-1] - len(own)] + own
    counts: dict[int, list[int]] = {}
    mine = {}
    for place in (0, *range(len(config.kinds) - 1, 0, -1)):
        taken = counts.setdefault(config.kinds[place].size, [])
        mine[place] = next(count for count in range(len(taken) + 1) if count not in taken)
        taken.append(mine[place])
    return PACK[compression](data) + junk[: mine[number]]


@settings(max_examples=120, deadline=None)
@given(
    made=tiles(), compression=st.sampled_from(list(PACK)), kind=st.sampled_from(["u1", "<i2", ">f4"]), data=st.data()
)
def test_every_kind_of_tile_is_told_by_its_length(made, compression, kind, data):
    axes, shape = made
    dtype = np.dtype(kind)
    endian = {1: None}.get(dtype.itemsize, "big" if kind.startswith(">") else "little")
    config = TileConfig(axes, endian, compression)
    decoder = TileCoder(config, shape, dtype.newbyteorder("="), 9)
    number = data.draw(st.integers(0, len(config.kinds) - 1))
    random = np.random.default_rng(number)
    whole = random.integers(0, 100, config.kinds[number].shape).astype(dtype)
    chunk = chunk_bytes(config, number, whole, compression, random.bytes(4096))
    np.testing.assert_array_equal(decoder.decode(chunk), expected_chunk(whole, config.kinds[number], shape, 9))
    stored = PACK[compression](whole.tobytes())
    if compression != "raw" or not config.kinds[number].first:
        assert bytes(decoder.stored(chunk)) == stored


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("behind", [b"", b"x", bytes(50), b"\x1f\x8b\x08\x00 no stream", b"\x28\xb5\x2f\xfd no frame"])
def test_what_stands_behind_a_tile_of_guessed_length_is_not_looked_at(compression, behind):
    decoder = coder((((6, 0), (3, 0)),), (6,), compression, fill=7, repeated=True)
    for size in (6, 3):
        whole = np.arange(size, dtype=U1)
        found = decoder.decode(PACK[compression](whole.tobytes()) + behind)
        np.testing.assert_array_equal(found, [*whole, *[7] * (6 - size)])


@pytest.mark.parametrize("compression", PACKED)
def test_a_tile_of_two_streams_is_no_shorter_tile_with_something_behind_it(compression):
    decoder = coder((((6, 0), (3, 0)),), (6,), compression, repeated=True)
    pack = PACK[compression]
    np.testing.assert_array_equal(decoder.decode(pack(b"abc") + pack(b"def")), list(b"abcdef"))


@pytest.mark.parametrize("compression", PACKED)
def test_a_repeated_head_is_counted(compression):
    decoder = coder((((4, 0), (4, 2)),), (2,), compression, repeated=True)
    packed = PACK[compression](b"abcd")
    counts = decoder.config.extras
    for number, expected in ((0, b"ab"), (1, b"cd")):
        behind = (packed * 2)[: 8 + counts[number]] if counts[number] else b""
        np.testing.assert_array_equal(decoder.decode(packed + behind), list(expected))


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("change", ["cut", "longer", "shorter", "empty", "junk", "behind"])
def test_other_bytes_than_a_tile_are_refused(compression, change):
    pack = PACK[compression]
    good = pack(bytes(range(64)))
    data = {
        "cut": good[:-5],
        "longer": pack(bytes(65)),
        "shorter": pack(bytes(63)),
        "empty": b"",
        "junk": b"x" * 80,
        "behind": good + b"x",
    }[change]
    with pytest.raises(MalformedError):
        coder((((64, 0),),), (64,), compression).decode(data)


def test_raw_bytes_of_another_length_are_refused():
    with pytest.raises(MalformedError, match="7 bytes; 6"):
        coder((((6, 0),),), (6,)).decode(bytes(7))


def test_a_zstd_frame_to_be_skipped_is_skipped():
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    decoder = coder((((3, 0),),), (3,), "zstd")
    for data in (skipped + PACK["zstd"](b"xyz"), PACK["zstd"](b"xyz") + skipped):
        np.testing.assert_array_equal(decoder.decode(data), list(b"xyz"))


GOOD = {"axes": [[[4, 0], [4, 2]]], "endian": "little", "compression": "lz4", "repeated": True}


@pytest.mark.parametrize(
    "change",
    [
        {"axes": []},
        {"axes": [[]]},
        {"axes": 3},
        {"axes": [[[4]]]},
        {"axes": [[[4, 0, 0]]]},
        {"axes": [[[4, "0"]]]},
        {"axes": [[[0, 0]]]},
        {"axes": [[[4, -1]]]},
        {"axes": [[[4, 1.5]]]},
        {"axes": [[[1 << 41, 0]]]},
        {"endian": "middle"},
        {"compression": "blosc"},
        {"repeated": 1},
        {"surplus": 1},
        {},
    ],
    ids=json.dumps,
)
def test_schema_and_codec_agree(change):
    entry = {"name": "jnrrdz.tile", "configuration": GOOD | change}
    try:
        found = TileConfig.from_json(entry["configuration"])
    except JnrrdzError:
        assert not Draft202012Validator(SCHEMA).is_valid(entry)
    else:
        assert Draft202012Validator(SCHEMA).is_valid(entry)
        assert Draft202012Validator(SCHEMA).is_valid(found.to_json())
        assert TileConfig.from_json(found.configuration) == found


def test_a_first_element_behind_the_tile_is_refused():
    with pytest.raises(MalformedError, match=r"\[size, first\]"):
        TileConfig.from_json({"axes": [[[4, 4]]]})


def test_too_many_kinds_are_refused():
    with pytest.raises(UnsupportedError, match="4096 kinds"):
        TileConfig.from_json({"axes": [[[20, first] for first in range(17)]] * 3})
    with pytest.raises(UnsupportedError, match="elements"):
        TileConfig.from_json({"axes": [[[1 << 30, 0]]] * 2})


def test_arrays_that_a_configuration_is_not_for_are_refused():
    with pytest.raises(MalformedError, match="1 axes"):
        coder((((4, 0),),), (2, 2))
    with pytest.raises(MalformedError, match="endian"):
        TileCoder(TileConfig((((4, 0),),)), (4,), np.dtype("u2"), 0)
    with pytest.raises(UnsupportedError, match="data type"):
        TileCoder(TileConfig((((4, 0),),), "little"), (4,), np.dtype("M8[s]"), 0)
