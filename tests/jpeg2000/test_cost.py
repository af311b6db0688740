"""What a decoder keeps for code-blocks and precincts: counted as the packets' layout counts them, and bounded."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.core.codecs import Jpeg2000Config
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000 import markers as jpeg2000_cost
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder
from jnrrdz.formats.jpeg2000.markers import check_pieces, parse_siz
from jnrrdz.formats.jpeg2000.packets import blocks_of, coding, resolution

SOD = b"\xff\x93"


def siz(width, height, *components):
    body = b"".join(bytes((7, *one)) for one in components)
    sizes = (width, height, 0, 0, width, height, 0, 0)
    return struct.pack(">HHH8IH", 0xFF51, 38 + len(body), 0, *sizes, len(components)) + body


def style(levels, block, sizes=()):
    return bytes([levels, block[0] - 2, block[1] - 2, 0, 1, *sizes])


def cod(levels=3, block=(6, 6), sizes=()):
    body = bytes([bool(sizes), 0, 0, 1, 0]) + style(levels, block, sizes)
    return struct.pack(">HH", 0xFF52, 2 + len(body)) + body


def coc(component, levels=3, block=(6, 6)):
    body = bytes([component, 0]) + style(levels, block)
    return struct.pack(">HH", 0xFF53, 2 + len(body)) + body


def qcd(levels):
    body = bytes([0x40, *[0x48] * (3 * levels + 1)])
    return struct.pack(">HH", 0xFF5C, 2 + len(body)) + body


def pieces_of(header):
    """Code-blocks and precincts of a tile, from the layout that finds packets."""
    known = coding(header)
    count = 0
    for component in range(len(known.siz.components)):
        for number in range(known.levels + 1):
            level = resolution(known, known.tile_box(0), component, number)
            count += level.count
            for precinct in range(level.count):
                count += sum(across * down for across, down in blocks_of(known, level, number, precinct))
    return count


@settings(deadline=None)
@given(data=st.data(), levels=st.integers(0, 3), power=st.tuples(st.integers(4, 8), st.integers(4, 8)))
def test_pieces_are_those_that_packets_are_made_of(data, levels, power):
    block = data.draw(st.tuples(st.integers(2, 6), st.integers(2, 6)))
    precinct = st.integers(2, 9)
    sizes = data.draw(st.sampled_from([(), None]))
    if sizes is None:
        sizes = [data.draw(precinct) | data.draw(precinct) << 4 for _ in range(levels + 1)]
    header = b"\xff\x4f" + siz(1 << power[0], 1 << power[1], (1, 1), (2, 2)) + cod(levels, block, sizes) + qcd(levels)
    count, limit = pieces_of(header), jpeg2000_cost.MAX_PIECES
    try:
        jpeg2000_cost.MAX_PIECES = count
        check_pieces(parse_siz(header[2:48]), header)
        jpeg2000_cost.MAX_PIECES = count - 1
        with pytest.raises(UnsupportedError, match=f"in {count} code-blocks and precincts"):
            check_pieces(parse_siz(header[2:48]), header)
    finally:
        jpeg2000_cost.MAX_PIECES = limit


@pytest.mark.parametrize(
    ("segments", "is_refused"),
    [
        (cod(), False),
        (cod(block=(2, 2)), True),
        (cod(sizes=[0x11] * 4), True),
        (cod() + coc(1, block=(2, 2)), True),
        (cod(block=(2, 2)) + coc(0) + coc(1), False),
        (coc(0, block=(2, 2)), True),
        (coc(9, block=(2, 2)), False),
        (b"", False),
    ],
)
def test_small_blocks_of_large_tiles_are_refused(segments, is_refused):
    head = siz(16384, 16000, (1, 1), (1, 1))
    if not is_refused:
        check_pieces(parse_siz(head), segments, 0)
        return
    with pytest.raises(UnsupportedError, match="tiles of 16000 x 16384 in"):
        check_pieces(parse_siz(head), segments, 0)


@pytest.mark.parametrize("marker", [b"\xff\x52", b"\xff\x53"])
@pytest.mark.parametrize("length", range(2, 9))
def test_a_style_that_is_cut_off_is_refused(marker, length):
    segment = marker + struct.pack(">H", length) + bytes(length - 2)
    with pytest.raises(MalformedError, match="are needed"):
        check_pieces(parse_siz(siz(64, 64, (1, 1))), segment, 0)


def file(main, tile=b""):
    """A codestream of one tile that holds nothing, with marker segments in both of its headers."""
    body = tile + SOD + b"\0\0"
    sot = struct.pack(">HHHIBB", 0xFF90, 10, 0, 12 + len(body), 0, 1)
    return b"\xff\x4f" + siz(16384, 16384, (1, 1)) + main + qcd(3) + sot + body + b"\xff\xd9"


def test_a_file_that_would_cost_gigabytes_of_code_blocks_is_not_indexed(tmp_path):
    (tmp_path / "a.j2k").write_bytes(file(cod(block=(2, 2))))
    with pytest.raises(UnsupportedError, match="code-blocks"):
        jnrrdz.index(tmp_path / "a.j2k", tmp_path / "refs.json")
    assert not (tmp_path / "refs.json").exists()


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("where", ["main header", "tile"])
def test_a_chunk_that_would_cost_gigabytes_of_code_blocks_is_not_decoded(where, level):
    small = cod(block=(2, 2))
    data = file(small) if where == "main header" else file(cod(), small)
    start = data.find(b"\xff\x90")
    shape = (16384 >> level, 16384 >> level)
    with pytest.raises(UnsupportedError, match="code-blocks"):
        Jpeg2000Decoder(Jpeg2000Config(data[:start], level), shape, np.dtype("u1"), 0).decode(data[start:-2])


def test_the_limit_leaves_room_for_the_largest_tile_that_is_decoded():
    head = siz(1 << 15, 1 << 14, (1, 1))
    check_pieces(parse_siz(head), cod(levels=5), 0)
    check_pieces(parse_siz(head), cod(levels=5, block=(5, 5), sizes=[0x77] * 6), 0)


def test_golden_files_pass():
    for path in (Path(__file__).parent / "golden").glob("*.j2k"):
        data = path.read_bytes()
        header = data[: data.find(b"\xff\x90\0\x0a")]
        check_pieces(parse_siz(header[2 : 4 + int.from_bytes(header[4:6], "big")]), header)
