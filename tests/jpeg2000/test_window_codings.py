"""Windows of codings in which components differ, or a part of the image comes first."""

import struct

import numpy as np
import pytest

from tests.jpeg2000.test_decode_window import Tile, decoded
from tests.jpeg2000.test_missing_packets import COMPRESS, DECOMPRESS, compressed, with_coc

pytestmark = pytest.mark.skipif(
    not (COMPRESS and DECOMPRESS),
    reason="opj_compress is not installed: Debian's libopenjp2-tools",
)

PRECINCTS = ["-c", ",".join(["[32,32]"] * 6)]


def with_qcc(data):
    """Return a codestream with QCC, which repeats QCD for component 1."""
    at = data.index(b"\xff\x5c")
    length = int.from_bytes(data[at + 2 : at + 4], "big")
    body = b"\x01" + data[at + 4 : at + 2 + length]
    after = at + 2 + length
    return data[:after] + b"\xff\x5d" + struct.pack(">H", len(body) + 2) + body + data[after:]


def same(data):
    return data


CODINGS = {
    "region of interest": (["-ROI", "c=0,U=7"], same),
    "coding style of a component": ([], lambda data: with_coc(data, in_tiles=False, count_parts=True)),
    "quantization of a component": (["-I", "-r", "4"], with_qcc),
    "layers by position": (["-p", "PCRL", "-r", "20,5,1"], same),
    "SOP and EPH": (["-p", "RLCP", "-SOP", "-EPH"], same),
}


@pytest.mark.parametrize("name", CODINGS)
def test_windows_are_the_whole(tmp_path, name):
    options, change = CODINGS[name]
    data = change(compressed(tmp_path, "colour", *PRECINCTS, *options).read_bytes())
    tile = Tile(data)
    for level in range(tile.coding.levels + 1):
        pixels, (height, width) = tile.whole(level, (40, 50), "uint8")
        expected = decoded(data, level)[:, :height, :width]
        np.testing.assert_array_equal(pixels[:, :height, :width], expected)


def test_a_cut_tile_is_a_part_of_it_in_whole_precincts(tmp_path):
    data = compressed(tmp_path, "grey", "-n", "3", "-c", "[16,16],[16,16],[16,16]").read_bytes()
    tile = Tile(data)
    grid, _ = tile.chunks(0, (16, 16))
    part = grid.cutout(grid.window(4, 4))
    assert (part.x.start, part.x.stop, part.y.start, part.y.stop) == (0, 128, 0, 128)
    assert grid.cutout(grid.window(0, 0)).x.stop == 64
