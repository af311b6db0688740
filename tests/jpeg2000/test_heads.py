"""Lower levels of tiles in one tile-part each: only the head of a tile-part is referred to, and read exactly."""

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000Config
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder
from tests.jpeg2000.images import LOSSLESS, encoded, image

TILES = {"BLOCKXSIZE": "256", "BLOCKYSIZE": "256", "PRECINCTS": "{128,128}", "PLT": "YES"}
CASES = {
    "RPCL": {**LOSSLESS, "PROGRESSION": "RPCL"},
    "RLCP, layers": {"QUALITY": "5,40", "PROGRESSION": "RLCP"},
    "LRCP, one layer": {**LOSSLESS, "PROGRESSION": "LRCP"},
    "SOP and EPH": {**LOSSLESS, "PROGRESSION": "RPCL", "SOP": "YES", "EPH": "YES"},
}
WHOLE = {
    "PCRL": {**LOSSLESS, "PROGRESSION": "PCRL"},
    "LRCP, layers": {"QUALITY": "5,40", "PROGRESSION": "LRCP"},
    "no PLT": {**LOSSLESS, "PROGRESSION": "RPCL", "PLT": "NO"},
    "tiles that are not alike": {**LOSSLESS, "PROGRESSION": "RPCL", "BLOCKXSIZE": "255", "BLOCKYSIZE": "255"},
}


def levels_of(path):
    return {int(name.partition("/")[0]): array for name, array in jnrrdz.scan(str(path)).arrays()}


def expected(data, level, shape):
    return imagecodecs.jpeg2k_decode(data, skipres=level, planar=True)[..., : shape[-2], : shape[-1]]


@pytest.mark.parametrize("name", [*CASES, *WHOLE])
def test_a_level_is_read_from_the_heads_of_tile_parts(tmp_path, name):
    data = encoded(tmp_path, image((3, 600, 700), "uint8"), **{**TILES, **CASES.get(name, {}), **WHOLE.get(name, {})})
    jnrrdz.index(tmp_path / "image.j2k", tmp_path / "refs.json")
    group = jnrrdz.open_group(tmp_path / "refs.json")
    for level, array in levels_of(tmp_path / "image.j2k").items():
        pixels = group[f"{level}/data"][...]
        np.testing.assert_array_equal(pixels, expected(data, level, pixels.shape))
        part = int(array.refs.length.sum()) / len(data)
        at_most = 1 if name in WHOLE or not level else 0.5**level
        assert part <= at_most
        if name in WHOLE and level == 1:
            assert part > 0.9


@pytest.fixture
def level_2(http_server, tmp_path):
    """Index over HTTP; return bytes of the file, requests of the index, bytes that level 2 took."""

    def level_2(wish=None, **options):
        # whole tiles: what is left between the heads is longer than what is read for nothing
        data = encoded(tmp_path, image((3, 1024, 1280), "uint8"), **TILES, **CASES["RPCL"], **options)
        http_server.files["/a.j2k"] = data
        jnrrdz.index(f"{http_server.url}/a.j2k", tmp_path / "refs.json", precinct_windows=wish)
        requests, before = len(http_server.log), http_server.body_bytes
        array = jnrrdz.open_group(tmp_path / "refs.json", allow=[http_server.url])["2/data"]
        pixels = array[...]
        np.testing.assert_array_equal(pixels, expected(data, 2, pixels.shape))
        return len(data), requests, http_server.body_bytes - before

    return level_2


def test_over_http_the_second_level_costs_a_tenth_of_the_file(level_2):
    whole, _, read = level_2()
    assert read <= whole / 10


@pytest.mark.filterwarnings("ignore:tiles stay whole")
@pytest.mark.parametrize("wish", [None, "always"])
def test_over_http_tiles_that_are_listed_are_looked_at_where_asked(level_2, wish):
    whole, requests, read = level_2(wish, TLM="YES")
    assert (requests <= 2) == (wish is None)
    assert (read <= whole / 10) == (wish is not None)


class Chunk:
    """One chunk of a level, and how it is decoded."""

    def __init__(self, path, level=1, number=4):
        array = levels_of(path)[level]
        ((_, self.offset, self.length),) = array.refs.ranges(number)
        self.config, self.array = Jpeg2000Config.from_json(array.codecs[0].configuration), array
        self.data = path.read_bytes()

    def decode(self, length=None, config=None):
        data = self.data[self.offset : self.offset + (self.length if length is None else length)]
        array = self.array
        return Jpeg2000Decoder(config or self.config, array.chunks, array.dtype, array.fill_value).decode(data)


@pytest.fixture
def path(tmp_path):
    encoded(tmp_path, image((3, 600, 700), "uint8"), **TILES, **CASES["RPCL"])
    return tmp_path / "image.j2k"


def test_a_head_of_which_a_byte_is_missing_is_an_error(path):
    chunk = Chunk(path)
    chunk.decode()
    for less in (1, 2, 100, chunk.length // 2):
        with pytest.raises(jnrrdz.MalformedError, match=r"of \d+ packets of resolution level 1"):
            chunk.decode(chunk.length - less)
    for more in (1, 77, 5000):
        with pytest.raises(jnrrdz.MalformedError, match="not cut off where a packet ends"):
            chunk.decode(chunk.length + more)


def test_a_tile_part_that_leaves_its_length_open_is_not_cut(path):
    data = bytearray(path.read_bytes())
    at = Chunk(path, number=8).offset
    data[at + 6 : at + 10] = bytes(4)
    path.write_bytes(data)
    last = Chunk(path, number=8)
    assert last.length == len(data) - 2 - at > 10 * Chunk(path, number=7).length / 4
    assert np.count_nonzero(last.decode()) > 0


def test_at_the_full_resolution_a_tile_part_is_whole(path):
    chunk = Chunk(path, level=0)
    with pytest.raises(jnrrdz.MalformedError, match="Psot"):
        chunk.decode(chunk.length - 1)


def test_lengths_that_are_not_true_are_an_error(path):
    chunk = Chunk(path)
    data = bytearray(chunk.data)
    at = data.index(b"\xff\x58", chunk.offset) + 5
    # one packet of the first resolution as much shorter as one of the last is longer
    last = at + int.from_bytes(data[at - 3 : at - 1], "big") - 4
    low, high = data[at + 1], data[last]
    assert low > 3
    assert high < 0x7C
    data[at + 1] -= 3
    data[last] += 3
    path.write_bytes(data)
    lying = Chunk(path)
    assert lying.length == chunk.length - 3
    with pytest.raises(jnrrdz.MalformedError, match=r"of \d+ packets of resolution level 1"):
        lying.decode()
    np.testing.assert_array_equal(Chunk(path, level=0).decode(), Chunk(path, level=0).decode())


def test_lengths_that_do_not_add_up_are_not_used(path):
    chunk = Chunk(path)
    data = bytearray(chunk.data)
    data[data.index(b"\xff\x58", chunk.offset) + 6] -= 1
    path.write_bytes(data)
    assert Chunk(path).length == Chunk(path, level=0).length > chunk.length
    np.testing.assert_array_equal(Chunk(path).decode(), chunk.decode())


def test_packets_that_cannot_be_counted_are_not_cut(path):
    chunk = Chunk(path)
    header = chunk.config.main_header
    coc = b"\xff\x53\0\x0a\1\1" + header[header.index(b"\xff\x52") + 9 :][:5]
    size = int.from_bytes(coc[2:4], "big")
    coc = coc.ljust(size + 2, b"\x77")
    with pytest.raises(jnrrdz.MalformedError, match="goes on after the chunk ends"):
        chunk.decode(config=Jpeg2000Config(header + coc, resolution_level=1))
