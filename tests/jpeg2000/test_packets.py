"""Packet tables against what OpenJPEG (in GDAL) wrote: PLT and packet headers are two independent tellers."""

import itertools

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from rasterio.io import MemoryFile
from rasterio.shutil import copy

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codestream import parse_codestream
from jnrrdz.formats.jpeg2000.packets import (
    TilePart,
    blocks_of,
    coding,
    packet_order,
    packet_table,
    plt_lengths,
    resolution,
    tile_part,
)
from jnrrdz.formats.jpeg2000.tagtree import Bits, TagTree
from jnrrdz.formats.jpeg2000.windows import WindowGrid, chunk_ranges

SIDES = "{64,32},{64,64},{32,64},{32,32}"


def encoded(folder, shape, **options):
    """Return a codestream of noise on waves, and the pixels."""
    y, x = np.mgrid[: shape[1], : shape[2]]
    noise = np.random.default_rng(7).normal(0, 12, shape)
    pixels = np.clip(128 + 60 * np.sin(x / 17) + 50 * np.cos(y / 23) + noise, 0, 255).astype(np.uint8)
    path = folder / "image.j2k"
    tile = {"BLOCKXSIZE": shape[2], "BLOCKYSIZE": shape[1]}
    profile = {"driver": "GTiff", "count": shape[0], "height": shape[1], "width": shape[2], "dtype": "uint8"}
    profile["transform"] = Affine.scale(2)
    with rasterio.Env(), MemoryFile() as memory:
        with memory.open(**profile) as target:
            target.write(pixels)
        with memory.open() as source:
            copy(source, path, driver="JP2OpenJPEG", CODEC="J2K", **{**tile, "PRECINCTS": SIDES, **options})
    return path.read_bytes(), pixels


def opened(data):
    """Return coding, first tile's box, its parts, and a function that reads."""

    def read(start, stop):
        return data[start:stop]

    stream = parse_codestream(read, 0, len(data))
    parts = [
        tile_part(read, start, start + length)
        for tile, start, length in zip(
            *(column.tolist() for column in (stream.parts.tile, stream.parts.offset, stream.parts.length)), strict=True
        )
        if tile == 0
    ]
    found = coding(stream.header)
    return found, found.tile_box(), parts, read


CASES = {
    "LRCP": {"PROGRESSION": "LRCP", "QUALITY": "100", "REVERSIBLE": "YES"},
    "RLCP, layers": {"PROGRESSION": "RLCP", "QUALITY": "4,15,60"},
    "RPCL": {"PROGRESSION": "RPCL", "QUALITY": "100", "REVERSIBLE": "YES"},
    "PCRL, layers": {"PROGRESSION": "PCRL", "QUALITY": "4,15,60"},
    "CPRL": {"PROGRESSION": "CPRL", "QUALITY": "25"},
    "markers": {"PROGRESSION": "LRCP", "QUALITY": "4,40", "SOP": "YES", "EPH": "YES"},
    "terminated, bypassed": {"CODEBLOCK_STYLE": "5", "QUALITY": "60,99"},
    "bypassed": {"CODEBLOCK_STYLE": "1", "QUALITY": "50,80,99"},
    "many tile-parts": {"PROGRESSION": "RPCL", "QUALITY": "30", "TILEPARTS": "RESOLUTIONS"},
    "narrow blocks": {"QUALITY": "10,30", "CODEBLOCK_WIDTH": "16", "CODEBLOCK_HEIGHT": "8"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_headers_tell_the_lengths_that_plt_tells(tmp_path, options):
    data, _ = encoded(tmp_path, (3, 140, 190), PLT="YES", RESOLUTIONS="4", **options)
    found, box, parts, read = opened(data)
    assert all(part.plt for part in parts)
    told = packet_table(read, found, box, parts)
    parsed = packet_table(read, found, box, [TilePart(part.start, part.stop) for part in parts])
    assert np.array_equal(told.offset, parsed.offset)
    assert np.array_equal(told.length, parsed.length)
    assert told.length.sum() == sum(part.stop - part.start for part in parts)


def nested(found, box):
    """Return component, resolution, precinct, layer in the specification's own words: loops over all positions."""
    count, levels = len(found.siz.components), found.levels + 1
    grids = {(c, r): resolution(found, box, c, r) for c in range(count) for r in range(levels)}

    def precinct(c, r, y, x):
        grid, shift = grids[c, r], found.levels - r
        across, down = grid.exponents
        begins = [
            at % (1 << (exponent + shift)) == 0 or (at == first and (low << shift) % (1 << (exponent + shift)))
            for at, first, low, exponent in ((x, box[0], grid.box[0], across), (y, box[1], grid.box[1], down))
        ]
        if not all(begins):
            return None
        column, row = -(-x >> shift), -(-y >> shift)
        return (column >> across) - (grid.box[0] >> across) + grid.columns * ((row >> down) - (grid.box[1] >> down))

    spots = list(itertools.product(range(box[1], box[3]), range(box[0], box[2])))
    layers = range(found.layers)
    if found.progression.name == "LRCP":
        return [
            (c, r, p, k) for k in layers for r in range(levels) for c in range(count) for p in range(grids[c, r].count)
        ]
    if found.progression.name == "RLCP":
        return [
            (c, r, p, k) for r in range(levels) for k in layers for c in range(count) for p in range(grids[c, r].count)
        ]
    loops = {
        "RPCL": ((c, r, y, x) for r in range(levels) for y, x in spots for c in range(count)),
        "PCRL": ((c, r, y, x) for y, x in spots for c in range(count) for r in range(levels)),
        "CPRL": ((c, r, y, x) for c in range(count) for y, x in spots for r in range(levels)),
    }[found.progression.name]
    places = ((c, r, precinct(c, r, y, x)) for c, r, y, x in loops)
    return [(*place, k) for place in places if place[2] is not None for k in layers]


@pytest.mark.parametrize("order", ["LRCP", "RLCP", "RPCL", "PCRL", "CPRL"])
def test_the_order_is_that_of_the_specification(tmp_path, order):
    options = {"PROGRESSION": order, "QUALITY": "10,30", "BLOCKXSIZE": "44", "BLOCKYSIZE": "37", "RESOLUTIONS": "3"}
    data, _ = encoded(tmp_path, (2, 74, 88), **{**options, "PRECINCTS": "{16,8},{8,16},{8,8}"})
    found = coding(data)
    for tile in range(4):
        box = found.tile_box(tile)
        assert list(zip(*(column.tolist() for column in packet_order(found, box)), strict=True)) == nested(found, box)


@given(st.lists(st.lists(st.integers(0, 2**40), min_size=1, max_size=30), min_size=1, max_size=5), st.randoms())
def test_plt_segments_in_any_order(segments, random):
    def vary(value):
        digits = [value & 0x7F]
        while value := value >> 7:
            digits.append(value & 0x7F | 0x80)
        return bytes(reversed(digits))

    plt = [bytes([i]) + b"".join(vary(value) for value in values) for i, values in enumerate(segments)]
    random.shuffle(plt)
    assert plt_lengths(plt).tolist() == [value for values in segments for value in values]


@pytest.mark.parametrize(
    ("data", "bits", "end"),
    [
        (b"\x80", "1", 1),
        (b"\xa5\x80", "101001011", 2),
        (b"\xff\x7f\x80", "1111111111111111", 3),  # after FF a byte of seven bits
        (b"\xff\x00\x80", "11111111", 2),  # a header does not end with FF
        (b"\xff\x40\x80", "111111111", 2),
    ],
)
def test_bits_of_a_header(data, bits, end):
    reader = Bits(lambda start, stop: data[start:stop], 0, len(data))
    assert "".join(str(reader.bit()) for _ in bits) == bits
    assert reader.align() == end


def test_a_tag_tree_by_hand():
    # leaves 1 3 / 2 3 under a root of 1: the root's 01, then each leaf's difference in zeros and a one
    bits = Bits(lambda start, stop: b"\x65\x20"[start:stop], 0, 2)  # 01 1 001 01 001
    tree = TagTree(2, 2)
    found = []
    for y, x in ((0, 0), (0, 1), (1, 0), (1, 1)):
        value = 0
        while not tree.is_less(x, y, value + 1, bits):
            value += 1
        found.append(value)
    assert found == [1, 3, 2, 3]


def test_what_contradicts_itself_is_an_error(tmp_path):
    data, _ = encoded(tmp_path, (1, 90, 120), PLT="YES", RESOLUTIONS="3", QUALITY="30")
    found, box, (part,), read = opened(data)
    with pytest.raises(MalformedError, match="packet lengths of"):
        packet_table(read, found, box, [TilePart(part.start, part.stop - 1, part.plt)])
    with pytest.raises(MalformedError, match=r"goes on beyond|the tile ends after"):
        packet_table(read, found, box, [TilePart(part.start, part.stop - 9)])
    with pytest.raises(MalformedError, match="cut off"):
        packet_table(read, found, box, [TilePart(0, 3, (b"\x00\x01\x02",))])
    with pytest.raises(MalformedError, match="without its last byte"):
        plt_lengths([b"\x00\x81"])
    with pytest.raises(MalformedError, match="tile-part's header"):
        tile_part(read, 2, 100)


REFUSED = {
    "capabilities": b"\xff\x50\x00\x08\x00\x02\x00\x00\x00\x00",
    "progression": b"\xff\x5f\x00\x02",
    "packet headers": b"\xff\x60\x00\x02",
}


@pytest.mark.parametrize(("name", "segment"), REFUSED.items(), ids=REFUSED)
def test_what_windows_cannot_be_made_of_is_refused_by_name(tmp_path, name, segment):
    data, _ = encoded(tmp_path, (1, 64, 64), RESOLUTIONS="2")
    at = data.index(b"\xff\x52")
    with pytest.raises(UnsupportedError, match=name):
        coding(data[:at] + segment + data[at:])


def test_a_grid_of_precincts_too_large_for_its_windows_is_refused(tmp_path):
    data, _ = encoded(tmp_path, (1, 1100, 1200), PRECINCTS="{2048,2048}", RESOLUTIONS="2", QUALITY="1")
    found = coding(data)
    with pytest.raises(UnsupportedError, match="precincts are too large"):
        WindowGrid(found, found.tile_box(), 0, (64, 64))
    assert WindowGrid(found, found.tile_box(), 0, (256, 256)).shape == (5, 5)


def test_a_chunk_of_one_precinct_refers_to_what_it_and_its_neighbours_hold(tmp_path):
    options = {"PLT": "YES", "PROGRESSION": "RPCL", "REVERSIBLE": "YES", "QUALITY": "100", "RESOLUTIONS": "2"}
    data, _ = encoded(tmp_path, (1, 160, 160), **{**options, "PRECINCTS": "{32,32},{32,32}"})
    found, box, parts, read = opened(data)
    table = packet_table(read, found, box, parts)
    indptr, offset, length = chunk_ranges(WindowGrid(found, box, 0, (32, 32)), table, 1000)
    ranges = list(zip(offset.tolist(), length.tolist(), strict=True))[indptr[12] : indptr[13]]
    # chunk (2, 2) of 5 x 5: precincts 1..3 in both directions above, and 2 x 2 of 3 x 3 at half the size
    top = np.flatnonzero(table.resolution == 1).reshape(5, 5)[1:4, 1:4]
    low = np.flatnonzero(table.resolution == 0).reshape(3, 3)[0:2, 0:2]
    rows = [(int(table.offset[row[0]]), int(table.length[row].sum())) for row in (*low, *top)]
    assert ranges == [(1000, 14), (1000, 14), (1000, 12), *rows[:2], (1000, 12), *rows[2:]]


def test_code_blocks_of_a_precinct_at_the_edge(tmp_path):
    data, _ = encoded(tmp_path, (1, 100, 70), RESOLUTIONS="2", PRECINCTS="{64,64},{64,64}", CODEBLOCK_WIDTH="16")
    found = coding(data)
    level = resolution(found, found.tile_box(), 0, 1)
    assert (level.columns, level.rows) == (2, 2)
    # the right precinct has 6 columns: 3 in each subband; the lower one 36 rows: 18 in each
    assert blocks_of(found.components[0], level, 1, 0) == [(2, 1)] * 3
    assert blocks_of(found.components[0], level, 1, 3) == [(1, 1)] * 3
