"""What a decoder keeps for code-blocks and precincts: counted as the packets' layout counts them, and bounded."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000 import markers as jpeg2000_cost
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000Config
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder
from jnrrdz.formats.jpeg2000.markers import check_pieces, parse_siz
from jnrrdz.formats.jpeg2000.packets import blocks_of, coding, resolution
from tests.growth import steps

SOD = b"\xff\x93"


def siz(width, height, *components, tile=None):
    body = b"".join(bytes((7, *one)) for one in components)
    sizes = (width, height, 0, 0, *(tile or (width, height)), 0, 0)
    return struct.pack(">HHH8IH", 0xFF51, 38 + len(body), 0, *sizes, len(components)) + body


def style(levels, block, sizes=()):
    return bytes([levels, block[0] - 2, block[1] - 2, 0, 1, *sizes])


def cod(levels=3, block=(6, 6), sizes=(), layers=1, progression=0):
    body = struct.pack(">BBHB", bool(sizes), progression, layers, 0) + style(levels, block, sizes)
    return struct.pack(">HH", 0xFF52, 2 + len(body)) + body


def coc(component, levels=3, block=(6, 6)):
    body = bytes([component, 0]) + style(levels, block)
    return struct.pack(">HH", 0xFF53, 2 + len(body)) + body


def qcd(levels):
    body = bytes([0x40, *[0x48] * (3 * levels + 1)])
    return struct.pack(">HH", 0xFF5C, 2 + len(body)) + body


def poc(times):
    body = bytes([0, 0, 0, 1, 1, 1, 0]) * times
    return struct.pack(">HH", 0xFF5F, 2 + len(body)) + body


def pieces_of(header):
    """Code-blocks and precincts of a tile, from the layout that finds packets."""
    known = coding(header)
    count = 0
    for component in range(len(known.siz.components)):
        for number in range(known.levels + 1):
            level = resolution(known, known.tile_box(0), component, number)
            count += level.count
            for precinct in range(level.count):
                count += sum(
                    across * down for across, down in blocks_of(known.components[component], level, number, precinct)
                )
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


ONE = (1, 1)
LOOKS = {
    "layers x precincts": siz(1024, 1024, ONE) + cod(0, sizes=[0x00], layers=255) + qcd(0),
    "layers alone": siz(64, 64, ONE) + cod(5, sizes=[0x00, *[0x11] * 5], layers=65535) + qcd(5),
    "x components": siz(64, 64, *[ONE] * 4096) + cod(0, sizes=[0x22], layers=255) + qcd(0),
    "x resolutions": siz(256, 256, ONE) + cod(32, sizes=[0x00, *[0x11] * 32], layers=255) + qcd(32),
    "x progressions": siz(512, 512, ONE) + cod(0, sizes=[0x00], layers=20) + qcd(0) + poc(31),
    "places without precincts": siz(16384, 16384, ONE) + cod(1, sizes=[0xF1, 0x1F], progression=2) + qcd(1),
    "x tiles of a chunk": siz(1023, 1023, ONE, tile=(33, 33)) + cod(5, sizes=[0x00, *[0x11] * 5], layers=64) + qcd(5),
}


def stream(header):
    """A codestream whose tiles hold nothing."""
    across = -(-int.from_bytes(header[6:10]) // int.from_bytes(header[22:26]))
    sot = b"".join(struct.pack(">HHHIBB", 0xFF90, 10, tile, 14, 0, 1) + SOD for tile in range(across * across))
    return b"\xff\x4f" + header + sot + b"\xff\xd9"


@pytest.mark.parametrize("name", LOOKS)
def test_places_for_packets_are_counted_before_anything_is_decoded(tmp_path, name):
    (tmp_path / "a.j2k").write_bytes(stream(LOOKS[name]))
    with pytest.raises(UnsupportedError, match="places for packets"):
        jnrrdz.index(tmp_path / "a.j2k", tmp_path / "refs.json")
    assert not (tmp_path / "refs.json").exists()


@pytest.mark.parametrize(
    "own", [cod(0, sizes=[0x00], layers=255), cod(0, sizes=[0x44]) + poc(9000)], ids=["layers", "progressions"]
)
def test_places_of_a_tile_s_own_header_are_counted_too(own):
    header = b"\xff\x4f" + siz(1024, 1024, ONE) + cod(0) + qcd(0)
    body = own + SOD + bytes(9)
    part = struct.pack(">HHHIBB", 0xFF90, 10, 0, 12 + len(body), 0, 1) + body
    decoder = Jpeg2000Decoder(Jpeg2000Config(header, 0), (1024, 1024), np.dtype("u1"), 0)
    with pytest.raises(UnsupportedError, match="places for packets"):
        decoder.decode(part)


@pytest.mark.parametrize("level", [1, 3])
def test_packets_that_bytes_cannot_hold_are_not_put_in_order(level):
    header = b"\xff\x4f" + siz(2048, 2048, ONE) + cod(5, sizes=[0x55] * 6, layers=99) + qcd(5)
    body = SOD + bytes(99)
    part = struct.pack(">HHHIBB", 0xFF90, 10, 0, 12 + len(body), 0, 3) + body
    side = 2048 >> level
    decoder = Jpeg2000Decoder(Jpeg2000Config(header, level), (side, side), np.dtype("u1"), 0)

    def refused(_):
        with pytest.raises(MalformedError, match=rf"packets of resolution level {level} in 113 bytes of tile 0"):
            decoder.decode(part)

    assert steps(refused, None) < 5_000


def test_components_of_many_sizes_are_refused(tmp_path):
    sizes = [(across, down) for across in range(1, 6) for down in range(1, 6)]
    (tmp_path / "a.j2k").write_bytes(stream(siz(64, 64, *sizes) + cod(0) + qcd(0)))
    with pytest.raises(UnsupportedError, match="components of more than 16 different sizes"):
        jnrrdz.scan(tmp_path / "a.j2k")
