"""Tile-parts of far files, looked for at several places at once, and levels that end where their packets do."""

import struct

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.formats.jpeg2000 import tile_parts
from jnrrdz.formats.jpeg2000.codestream import parse_codestream
from tests.jpeg2000.images import LOSSLESS, encoded, image

TILES = {"BLOCKXSIZE": "64", "BLOCKYSIZE": "64", "RESOLUTIONS": "4"}
KINDS = {
    "plain": {},
    "EPH": {"EPH": "YES"},
    "SOP and EPH": {"SOP": "YES", "EPH": "YES"},
    "precincts": {"PRECINCTS": "{16,16},{16,16},{16,16},{16,16}", "PROGRESSION": "RPCL"},
    "small blocks": {"CODEBLOCK_WIDTH": "8", "CODEBLOCK_HEIGHT": "8"},
    "lossy": {"REVERSIBLE": "NO", "QUALITY": "20"},
    "every block style": {"CODEBLOCK_STYLE": "63"},
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make tile-parts of some hundred bytes count as long."""
    monkeypatch.setattr(tile_parts, "JUMP", 16)
    monkeypatch.setattr(tile_parts, "HEAD", 64)
    monkeypatch.setattr(tile_parts, "SHARE", 3)


def parse(data, *, far):
    def read(start, stop):
        return data[start:stop]

    def fetch(spans):
        return [read(*span) for span in spans]

    return parse_codestream(read, 0, len(data), fetch=fetch if far else None)


def rows(stream):
    return [column.tolist() for column in (stream.parts.tile, stream.parts.offset, stream.parts.length)]


def coded(folder, **options):
    return encoded(folder, image((1, 300, 300), "uint8"), **{**LOSSLESS, **TILES, "PRECINCTS": "{128,128}", **options})


@pytest.mark.parametrize("name", KINDS)
def test_levels_end_where_the_lengths_of_packets_have_it(tmp_path, name):
    found = parse(coded(tmp_path, **KINDS[name]), far=True)
    listed = parse(coded(tmp_path, **KINDS[name], PLT="YES"), far=False)
    assert sorted(listed.heads) == list(range(25))
    shares = 0
    for tile, ends in found.heads.items():
        length = int(found.parts.length[found.parts.tile == tile][0])
        # what PLT takes is no part of the tile-part here
        more = int(listed.parts.length[listed.parts.tile == tile][0]) - length
        for end, expected in zip(ends, listed.heads[tile], strict=True):
            assert end in {expected - more, length}
            shares += end < length
    assert shares > 25


@pytest.mark.parametrize("name", KINDS)
def test_tile_parts_are_those_of_the_walk(tmp_path, name):
    data = coded(tmp_path, **KINDS[name])
    assert rows(parse(data, far=True)) == rows(parse(data, far=False))


def test_what_only_looks_like_a_tile_part_is_none(tmp_path):
    data = coded(tmp_path)
    comment = b"\xff\x64" + struct.pack(">HH", 4 + 15 * 40, 0) + b"\xff\x90\0\x0a\0\1\0\0\0\x50\0\1\xff\x93\0" * 40
    pieces, at = [], data.index(b"\xff\x90")
    pieces.append(data[:at])
    while data[at : at + 2] == b"\xff\x90":
        length = int.from_bytes(data[at + 6 : at + 10], "big")
        head = data[at : at + 6] + struct.pack(">I", length + len(comment)) + data[at + 10 : at + 12]
        pieces += [head, comment, data[at + 12 : at + length]]
        at += length
    changed = b"".join([*pieces, data[at:]])
    assert rows(parse(changed, far=True)) == rows(parse(changed, far=False))


def test_a_damaged_chain_is_an_error_at_its_place(tmp_path):
    data = bytearray(coded(tmp_path))
    at = parse(bytes(data), far=False).parts.offset[12]
    data[at : at + 2] = b"\0\0"
    with pytest.raises(jnrrdz.MalformedError, match="where a tile-part begins"):
        parse(bytes(data), far=True)


@pytest.mark.parametrize("name", KINDS)
def test_lower_levels_of_a_far_file_are_those_of_the_whole(http_server, tmp_path, name):
    data = coded(tmp_path, **KINDS[name])
    http_server.files["/a.j2k"] = data
    jnrrdz.index(f"{http_server.url}/a.j2k", tmp_path / "refs.json")
    arrays = dict(jnrrdz.scan(f"{http_server.url}/a.j2k").arrays())
    group = jnrrdz.open_group(tmp_path / "refs.json")
    for level in range(4):
        pixels = group[f"{level}/data"][...]
        np.testing.assert_array_equal(pixels, imagecodecs.jpeg2k_decode(data, skipres=level)[: pixels.shape[0]])
    taken = [int(arrays[f"{level}/data"].refs.length.sum()) for level in range(4)]
    assert taken[3] < taken[0] / 3
