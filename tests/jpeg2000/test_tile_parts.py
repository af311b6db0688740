"""Levels of tiles in several tile-parts: read like the full resolution, however the tile-parts were cut."""

import os
import struct
from pathlib import Path

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from tests.jpeg2000.images import LOSSLESS, encoded, image

CORPUS = Path(os.environ.get("JNRRDZ_CORPUS", "/nowhere")).parent
EMPTY_PARTS = CORPUS / "nitf" / "imaging-nitf" / "JitcJpeg2000_p0_10b.ntf"
SOT = b"\xff\x90\0\x0a"
LEVELS = 3


def parts_of(data):
    """Return the main header, and the bodies (from SOD on) of the tile-parts of one tile."""
    header, *parts = data.removesuffix(b"\xff\xd9").split(SOT)
    assert all(part[8:10] == b"\xff\x93" for part in parts)
    return header, [part[8:] for part in parts]


def joined(header, bodies, *, count=None, listed=None):
    """Return a codestream of tile-parts; TLM says that they have the lengths `listed`."""
    lengths = [12 + len(body) for body in bodies]
    if listed is not None:
        entries = b"".join(struct.pack(">I", length) for length in listed(lengths))
        header += struct.pack(">HHBB", 0xFF55, 4 + 5 * len(lengths), 0, 0x50)
        header += b"".join(b"\0" + entries[at : at + 4] for at in range(0, len(entries), 4))
    count = len(bodies) if count is None else count
    sots = (SOT + struct.pack(">HIBB", 0, length, number, count) for number, length in enumerate(lengths))
    return header + b"".join(sot + body for sot, body in zip(sots, bodies, strict=True)) + b"\xff\xd9"


def moved(lengths):
    """Lengths that are wrong between the first and the last tile-part, and right together."""
    return [lengths[0], lengths[1] - 3, lengths[2] + 3, *lengths[3:]]


CASES = {
    "as written": joined,
    "two resolutions in one, nothing in the next": lambda header, bodies: joined(
        header, [bodies[0] + bodies[1][2:], b"\xff\x93", *bodies[2:]], count=0
    ),
    "nothing in one, two resolutions in the next": lambda header, bodies: joined(
        header, [bodies[0], b"\xff\x93", bodies[1] + bodies[2][2:], *bodies[3:]], count=0
    ),
    "a list that is wrong in the middle": lambda header, bodies: joined(header, bodies, listed=moved),
    "a list that is right": lambda header, bodies: joined(header, bodies, listed=list),
    "a header of its own in a tile-part": lambda header, bodies: joined(
        header, [bodies[0], b"\xff\x64\0\x05\0\x01x" + bodies[1], *bodies[2:]]
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    options = {"PROGRESSION": "RPCL", "TILEPARTS": "RESOLUTIONS", "RESOLUTIONS": str(LEVELS + 1)}
    data = encoded(tmp_path_factory.mktemp("made"), image((1, 150, 190), "uint8"), **LOSSLESS, **options)
    header, bodies = parts_of(data)
    assert len(bodies) == LEVELS + 1
    return data, header, bodies


@pytest.mark.parametrize("name", CASES)
def test_every_level_is_that_of_the_whole_tile(tmp_path, made, name):
    whole, header, bodies = made
    (tmp_path / "a.j2k").write_bytes(CASES[name](header, bodies))
    jnrrdz.index(tmp_path / "a.j2k", tmp_path / "refs.json")
    group = jnrrdz.open_group(tmp_path / "refs.json")
    for level in range(LEVELS + 1):
        np.testing.assert_array_equal(group[f"{level}/data"][...], imagecodecs.jpeg2k_decode(whole, skipres=level))


def test_a_level_leaves_the_finer_resolutions_alone(tmp_path, made):
    (tmp_path / "a.j2k").write_bytes(made[0])
    arrays = dict(jnrrdz.scan(tmp_path / "a.j2k").arrays())
    taken = [int(arrays[f"{level}/data"].refs.length.sum()) for level in range(LEVELS + 1)]
    assert taken == [sum(12 + len(body) for body in made[2][: LEVELS + 1 - level]) for level in range(LEVELS + 1)]


@pytest.mark.skipif(not EMPTY_PARTS.exists(), reason="no corpus of NITF beside JNRRDZ_CORPUS")
def test_a_file_with_tile_parts_that_hold_nothing_is_read_at_every_level(tmp_path):
    glymur = pytest.importorskip("glymur")
    data = EMPTY_PARTS.read_bytes()
    (tmp_path / "a.j2k").write_bytes(data[data.index(b"\xff\x4f\xff\x51") :])
    expected = glymur.Jp2k(tmp_path / "a.j2k")
    group = jnrrdz.open_group(jnrrdz.scan(EMPTY_PARTS))["image_0"]
    for level in range(4):
        pixels = expected[:: 2**level, :: 2**level]
        np.testing.assert_array_equal(group[f"{level}/data"][...], np.moveaxis(pixels, -1, 0))
