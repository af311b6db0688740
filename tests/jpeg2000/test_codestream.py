"""Codestreams: headers, tile-parts by TLM and by walking, and the chunk grid of irregular tiles."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000 import JPEG2000
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE
from jnrrdz.formats.jpeg2000.codestream import find_codestream, parse_codestream
from jnrrdz.formats.jpeg2000.grid import ChunkGrid
from jnrrdz.formats.jpeg2000.markers import Axis, Component, Marker, Siz, parse_siz

GOLDEN = Path(__file__).parent / "golden"
NAMES = [
    "tiles_tlm",
    "odd_tiles",
    "offset",
    "by_resolution",
    "by_resolution_plt",
    "by_layer",
    "lossy",
    "subsampled",
    "signed",
]


def golden(name):
    return (GOLDEN / f"{name}.j2k").read_bytes()


def reader(data, log=None):
    def read(start, stop):
        assert 0 <= start <= stop <= len(data)
        if log is not None:
            log.append((start, stop))
        return data[start:stop]

    return read


def parsed(data, *, far=False):
    read = reader(data)

    def fetch(spans):
        return [read(start, stop) for start, stop in spans]

    return parse_codestream(read, 0, len(data), fetch=fetch if far else None)


def sots(data):
    """Tile, offset and length of every tile-part, found by looking for SOT's first four bytes."""
    found, at = [], data.find(b"\xff\x90\0\x0a")
    while at >= 0:
        tile, length = struct.unpack_from(">HI", data, at + 4)
        found.append((tile, at, length))
        at = data.find(b"\xff\x90\0\x0a", at + length)
    return found


CASES = {
    # levels, tiles across and down, components, bits, signed, reversible, progression
    "tiles_tlm": (3, 4, 3, 1, 8, False, True, 0),
    "odd_tiles": (3, 4, 4, 1, 8, False, True, 2),
    "offset": (3, 3, 3, 3, 8, False, True, 3),
    "by_resolution": (3, 2, 2, 1, 8, False, True, 1),
    "by_layer": (2, 2, 2, 3, 8, False, True, 0),
    "lossy": (3, 2, 2, 1, 8, False, False, 0),
    "signed": (2, 2, 2, 1, 8, True, True, 4),
}


@pytest.mark.parametrize("name", CASES)
def test_the_main_header_says_what_the_encoder_was_told(name):
    found = parsed(golden(name))
    first = found.siz.components[0]
    sizes = (found.siz.x.tiles, found.siz.y.tiles, len(found.siz.components))
    style = found.style
    assert (found.levels, *sizes, first.bits, first.signed, style.reversible, style.progression) == CASES[name]
    assert not found.bodies(Marker.CAP)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_tile_parts_are_those_that_stand_in_the_file(name, far):
    data = golden(name)
    found = parsed(data, far=far)
    assert list(zip(found.parts.tile, found.parts.offset, found.parts.length, strict=True)) == sots(data)
    assert found.stop == len(data)


def test_a_window_of_a_source_is_read_as_if_it_were_alone():
    data = golden("by_resolution")
    before, alone = 1234, parsed(data)
    found = parse_codestream(reader(bytes(before) + data + bytes(99)), before, before + len(data))
    np.testing.assert_array_equal(found.parts.offset, alone.parts.offset + before)
    assert (found.header, found.start, found.stop) == (alone.header, before, before + len(data))


@pytest.mark.parametrize("name", ["tiles_tlm", "by_resolution"])
def test_a_list_that_is_wrong_is_not_believed(name):
    data = bytearray(golden(name))
    at = data.find(b"\xff\x55")
    length = int.from_bytes(data[at + 2 : at + 4], "big")
    last = at + 2 + length - 4
    data[last : last + 4] = struct.pack(">I", int.from_bytes(data[last : last + 4], "big") + 1)
    found = parsed(bytes(data))
    assert list(zip(found.parts.offset, found.parts.length, strict=True)) == [one[1:] for one in sots(bytes(data))]


def test_a_last_tile_part_may_leave_its_length_open():
    data = bytearray(golden("odd_tiles"))
    _, offset, length = sots(data)[-1]
    data[offset + 6 : offset + 10] = bytes(4)
    assert parsed(bytes(data)).parts.length[-1] == length


def test_a_tile_of_fewer_levels_counts_for_the_image():
    data = golden("by_layer")
    _, offset, length = sots(data)[-1]
    cod = data.find(b"\xff\x52")
    own = bytearray(data[cod : cod + 2 + int.from_bytes(data[cod + 2 : cod + 4], "big")])
    own[9] = 1
    first = next(at for tile, at, _ in sots(data) if tile == 3)
    size = next(size for tile, _, size in sots(data) if tile == 3)
    part = bytearray(data[first : first + size])
    part[6:10] = struct.pack(">I", size + len(own))
    part[12:12] = own
    changed = data[:first] + bytes(part) + data[first + size :]
    assert offset + length <= len(data)
    for far in (False, True):
        assert parsed(changed, far=far).levels == 1


BROKEN = [
    ("cut", lambda data: data[: len(data) * 2 // 3], "Psot"),
    ("cut in the header", lambda data: data[:30], "main header"),
    ("no SIZ", lambda data: data[:2] + data[2:].replace(b"\xff\x51", b"\xff\x64", 1), "SIZ"),
    ("no COD", lambda data: data.replace(b"\xff\x52", b"\xff\x64", 1), "COD"),
    ("no tile", lambda data: data[: data.find(b"\xff\x90\0\x0a")] + b"\xff\xd9", "main header"),
    ("tile 999", lambda data: data.replace(b"\xff\x90\0\x0a\0\0", b"\xff\x90\0\x0a\x03\xe7", 1), "Isot"),
    ("a tile is missing", lambda data: data[: sots(data)[-1][1]] + b"\xff\xd9", "SOT"),
]


@pytest.mark.parametrize(("change", "field"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_is_broken_is_an_error_that_names_its_place(change, field):
    data = change(golden("odd_tiles"))
    with pytest.raises(MalformedError) as caught:
        parsed(data)
    assert (caught.value.field, caught.value.offset is not None) == (field, True)


def test_extensions_of_part_2_are_refused():
    data = bytearray(golden("odd_tiles"))
    data[6:8] = b"\x80\x01"
    with pytest.raises(UnsupportedError, match="part 2"):
        parsed(bytes(data))


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(NAMES), flips=st.integers(1, 12))
def test_spoiled_bytes_raise_nothing_but_our_errors(seed, name, flips):
    random = np.random.default_rng(seed)
    data = bytearray(golden(name)[: random.integers(1, 4000)])
    for at in random.integers(0, min(len(data), 400), flips):
        data[at] = random.integers(0, 256)
    try:
        start, stop, _ = find_codestream(reader(bytes(data)), 0, len(data))
        parse_codestream(reader(bytes(data)), start, stop)
    except JnrrdzError:
        pass


def boxed(data):
    """The codestream in a file whose last box is as long as the rest, after a box of an extended length."""
    extended = struct.pack(">I4sQ", 1, b"free", 16 + 5) + b"hello"
    return SIGNATURE + struct.pack(">I4s4sI4s", 20, b"ftyp", b"jp2 ", 0, b"jp2 ") + extended + bytes(4) + b"jp2c" + data


def test_a_codestream_is_found_in_its_boxes():
    data = golden("lossy")
    whole = boxed(data)
    assert JPEG2000.fits(whole)
    assert JPEG2000.fits(data)
    start, stop, boxes = find_codestream(reader(whole), 0, len(whole))
    assert whole[start:stop] == data
    assert [box.kind for box in boxes.top] == [b"jP  ", b"ftyp", b"free", b"jp2c"]


def test_a_box_that_ends_behind_its_file_is_told_of():
    data = SIGNATURE + struct.pack(">I4s", 1000, b"ftyp")
    with pytest.raises(UnsupportedError, match="no codestream"):
        find_codestream(reader(data), 0, len(data))


GREY = Component(bits=8, signed=False, dx=1, dy=1)


def codestream_of(tiles, length):
    """8192x8192 in 256 tiles without TLM, every tile-part of so many bytes: all that an index looks at."""
    siz = Siz(0, Axis(0, 8192, 0, 512), Axis(0, 8192, 0, 512), (GREY,))
    cod = b"\xff\x52" + struct.pack(">HBBHBBBBBB", 12, 0, 0, 1, 0, 5, 4, 4, 0, 1)
    qcd = b"\xff\x5c" + struct.pack(">HB", 19, 0x40) + bytes(16)
    parts = b"".join(
        struct.pack(">HHHIBB", 0xFF90, 10, tile, length, 0, 1) + b"\xff\x93" + bytes(length - 14)
        for tile in range(tiles)
    )
    return b"\xff\x4f" + siz.encode() + cod + qcd + parts + b"\xff\xd9"


@pytest.mark.parametrize(
    ("length", "most", "bytes_read"), [(60_000, 9, 16e6), (130_000, 320, 4e6), (1_000_000, 340, 22e6)]
)
def test_without_a_list_short_tile_parts_are_read_through_and_long_ones_jumped_over(length, most, bytes_read):
    data, log = codestream_of(256, length), []
    read = reader(data, log)
    found = parse_codestream(read, 0, len(data), fetch=lambda spans: [read(*span) for span in spans])
    far = [(start, stop) for start, stop in log if start >= len(found.header)]
    assert len(found.parts) == 256
    assert len(far) <= most
    assert sum(stop - start for start, stop in far) < bytes_read


AXES = st.builds(
    lambda tile_start, tile, into, size: Axis(
        tile_start + into % tile, tile_start + into % tile + size, tile_start, tile
    ),
    st.integers(0, 40),
    st.integers(1, 40),
    st.integers(0, 39),
    st.integers(1, 200),
)


@given(axis=AXES, factor=st.sampled_from([1, 2, 3, 4, 5, 8, 16, 64]))
def test_chunks_cover_the_axis_and_need_the_tiles_that_hold_their_samples(axis, factor):
    """The oracle is the definition: a tile's samples are ceil(start / factor) up to ceil(stop / factor)."""
    assume(axis.size(factor))
    ends = [-(-min(axis.tile_start + n * axis.tile, axis.stop) // factor) for n in range(axis.tiles + 1)]
    ends[0] = -(-axis.start // factor)
    owner = [tile for tile in range(axis.tiles) for _ in range(ends[tile], ends[tile + 1])]
    chunk = axis.chunk(factor)
    assert chunk <= axis.tile
    for index, first in enumerate(range(0, len(owner), chunk)):
        part = owner[first : first + chunk]
        assert axis.chunk_tiles(index, factor) == (part[0], part[-1] + 1)
        assert axis.chunk_box(index, factor) == (ends[0] + first, ends[0] + first + len(part))


@given(x=AXES, y=AXES, level=st.integers(0, 4), foreign=st.booleans())
def test_a_chunk_is_known_by_its_tiles(x, y, level, foreign):
    assume(x.tiles * y.tiles < 200)
    siz = Siz(0, x, y, (GREY,))
    grid = ChunkGrid(siz, siz.components[0], level)
    assume(min(grid.shape) > 0)
    down, across = (-(-size // step) for size, step in zip(grid.shape, grid.chunk, strict=True))
    for row in range(down):
        for column in range(across):
            own = sorted(grid.numbers(grid.tiles(row, column)))
            between = range(own[0], own[-1] + 1) if foreign else own
            assert grid.place(list(between)) == (row, column)


@given(x=AXES, y=AXES, bits=st.integers(1, 38), signed=st.booleans(), step=st.integers(1, 3))
def test_siz_is_written_as_it_is_read(x, y, bits, signed, step):
    siz = Siz(2, x, y, (GREY, Component(bits, signed, step, 1)))
    assume(x.size(step))
    assert parse_siz(siz.encode()) == siz
