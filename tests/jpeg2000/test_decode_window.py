"""Windows of JPEG 2000 tiles against OpenJPEG's decoding of the whole, at every level, bit for bit."""

import contextlib
import struct
import tracemalloc

import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000 import decode_window
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.codestream import parse_codestream
from jnrrdz.formats.jpeg2000.decode_window import WindowedDecoder
from jnrrdz.formats.jpeg2000.openjpeg import decode_components
from jnrrdz.formats.jpeg2000.packets import TilePart, coding, packet_table, tile_part
from jnrrdz.formats.jpeg2000.windows import WindowGrid, chunk_ranges
from tests.jpeg2000.images import LOSSLESS, encoded, image


class Tile:
    """One tile of a codestream, and its windows."""

    def __init__(self, data, number=0, *, plt=True):
        self.data = data
        stream = parse_codestream(self.read, 0, len(data))
        rows = np.flatnonzero(stream.parts.tile == number).tolist()
        starts, lengths = stream.parts.offset.tolist(), stream.parts.length.tolist()
        parts = [tile_part(self.read, starts[row], starts[row] + lengths[row]) for row in rows]
        if not plt:
            parts = [TilePart(part.start, part.stop) for part in parts]
        self.header, self.coding, self.sot = stream.header, coding(stream.header), starts[rows[0]]
        self.box = self.coding.tile_box(number)
        self.table = packet_table(self.read, self.coding, self.box, parts)

    def read(self, start, stop):
        return self.data[start:stop]

    def chunks(self, level, chunk):
        """Return the grid, and every chunk's bytes as a reader of its references gets them."""
        grid = WindowGrid(self.coding, self.box, level, chunk)
        indptr, offset, length = chunk_ranges(grid, self.table, self.sot)
        ranges = list(zip(offset.tolist(), length.tolist(), strict=True))
        return grid, [
            b"".join(self.data[start : start + size] for start, size in ranges[first:last])
            for first, last in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)
        ]

    def decoder(self, level, chunk, dtype="uint8"):
        count = len(self.coding.siz.components)
        config = Jpeg2000WindowConfig(self.header, level)
        return WindowedDecoder(config, (count, *chunk) if count > 1 else chunk, np.dtype(dtype), 1)

    def whole(self, level, chunk, dtype):
        """Return the level, put together from its windows."""
        grid, chunks = self.chunks(level, chunk)
        count = len(self.coding.siz.components)
        decoder = self.decoder(level, chunk, dtype)
        pixels = [decoder.decode(data).reshape(count, *chunk) for data in chunks]
        rows = [np.concatenate(pixels[row * grid.shape[1] :][: grid.shape[1]], axis=2) for row in range(grid.shape[0])]
        x0, y0, x1, y1 = grid.box
        return np.concatenate(rows, axis=1), (y1 - y0, x1 - x0)


def decoded(data, level):
    """Return a level of the whole image by libopenjp2; another build of it may round 9/7 otherwise."""
    return np.stack(decode_components(data, level))


def decoded_by_imagecodecs(data, level):
    pixels = np.asarray(imagecodecs.jpeg2k_decode(data, skipres=level, planar=True))
    return pixels if pixels.ndim == 3 else pixels[None]


ORDERS = [
    (f"{order} {kind}", (3, 190, 230), "uint8", {"PROGRESSION": order, **options})
    for order in ("LRCP", "RLCP", "RPCL", "PCRL", "CPRL")
    for kind, options in {"5/3": LOSSLESS, "9/7, layers": {"QUALITY": "4,15,60", "PLT": "YES"}}.items()
]
CASES = [
    *ORDERS,
    ("5/3 cut off by layers", (3, 150, 211), "uint8", {"REVERSIBLE": "YES", "QUALITY": "2,9"}),
    ("16 bits, 5/3", (1, 130, 200), "uint16", LOSSLESS),
    ("16 bits, 9/7 with ICT", (3, 430, 450), "uint16", {"QUALITY": "30", "PROGRESSION": "RPCL"}),
    ("signed, 5/3", (2, 130, 141), "int16", {**LOSSLESS, "PROGRESSION": "PCRL"}),
    ("signed, 9/7", (2, 130, 141), "int16", {"QUALITY": "60", "PROGRESSION": "PCRL"}),
    ("four components", (4, 100, 111), "uint8", {"QUALITY": "30"}),
    ("two components", (2, 100, 111), "uint8", {**LOSSLESS, "YCC": "NO"}),
    ("SOP and EPH", (3, 120, 140), "uint8", {"QUALITY": "5,30", "SOP": "YES", "EPH": "YES"}),
    (
        "SOP and EPH by component",
        (3, 120, 140),
        "uint8",
        {**LOSSLESS, "SOP": "YES", "EPH": "YES", "PROGRESSION": "CPRL"},
    ),
    ("every block style", (1, 100, 130), "uint8", {"QUALITY": "60,99", "CODEBLOCK_STYLE": "63"}),
    ("small blocks", (1, 130, 190), "uint8", {"QUALITY": "60", "CODEBLOCK_WIDTH": "16", "CODEBLOCK_HEIGHT": "8"}),
    ("one resolution", (1, 100, 130), "uint8", {**LOSSLESS, "RESOLUTIONS": "1"}),
    ("one precinct", (1, 100, 130), "uint8", {**LOSSLESS, "PRECINCTS": "{2048,2048}"}),
    ("tile-parts", (1, 130, 190), "uint8", {"QUALITY": "30", "PROGRESSION": "RPCL", "TILEPARTS": "RESOLUTIONS"}),
]


@pytest.mark.parametrize(("shape", "dtype", "options"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_windows_are_the_whole_at_every_level(tmp_path, shape, dtype, options):
    pixels = image(shape, dtype)
    data = encoded(tmp_path, pixels, **options)
    tile = Tile(data)
    for level in range(tile.coding.levels + 1):
        found, (height, width) = tile.whole(level, (61, 83), dtype)
        expected = decoded(data, level)[:, :height, :width]
        assert np.array_equal(found[:, :height, :width], expected), level
        assert (found[:, height:] == 1).all()
        assert (found[:, :, width:] == 1).all()
        if level == 0 and options.get("QUALITY") == "100":
            assert np.array_equal(expected, pixels)


@pytest.mark.parametrize(("shape", "dtype", "options"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_without_libopenjp2_windows_are_cut_from_the_whole(tmp_path, monkeypatch, shape, dtype, options):
    def missing():
        raise UnsupportedError("no libopenjp2")

    monkeypatch.setattr(decode_window, "binding", missing)
    decode_window.warn_of_whole_tiles.cache_clear()
    data = encoded(tmp_path, image(shape, dtype), **options)
    tile = Tile(data)
    with pytest.warns(UserWarning, match="cut from whole tiles.*no libopenjp2") as warned:  # noqa: PT031  once for all
        for level in range(tile.coding.levels + 1):
            found, (height, width) = tile.whole(level, (61, 83), dtype)
            expected = decoded_by_imagecodecs(data, level)[:, :height, :width]
            assert np.array_equal(found[:, :height, :width], expected), level
    assert len(warned) == 1


@pytest.mark.parametrize("chunk", [(1, 1), (3, 40), (64, 64), (1000, 1000)])
@pytest.mark.parametrize("options", [LOSSLESS, {"QUALITY": "30"}], ids=["5/3", "9/7"])
def test_windows_of_any_size(tmp_path, chunk, options):
    data = encoded(tmp_path, image((1, 35, 70), "uint8"), **options)
    found, (height, width) = Tile(data, plt=False).whole(0, chunk, "uint8")
    assert np.array_equal(found[:, :height, :width], decoded(data, 0))


@pytest.mark.parametrize("options", [LOSSLESS, {"QUALITY": "30"}], ids=["5/3", "9/7"])
def test_a_tile_that_is_one_sample_wide_at_an_odd_place(tmp_path, options):
    size = {"BLOCKXSIZE": "65", "BLOCKYSIZE": "67"}
    data = encoded(tmp_path, image((1, 68, 66), "uint8"), **size, **options)
    expected = decoded(data, 0)
    for number in range(4):
        tile = Tile(data, number)
        found, (height, width) = tile.whole(0, (40, 40), "uint8")
        x0, y0, x1, y1 = tile.box
        assert np.array_equal(found[:, :height, :width], expected[:, y0:y1, x0:x1])


def test_a_window_costs_what_it_shows(tmp_path):
    data = encoded(tmp_path, image((1, 1600, 1600), "uint8"), **LOSSLESS, PRECINCTS="{64,64},{64,64},{64,64},{64,64}")
    tile = Tile(data)
    _, chunks = tile.chunks(0, (64, 64))
    decoder = tile.decoder(0, (64, 64))
    assert max(len(chunk) for chunk in chunks) < len(data) / 30
    tracemalloc.start()
    decoder.decode(chunks[300])
    assert tracemalloc.get_traced_memory()[1] < 2e6
    tracemalloc.stop()


def test_other_bytes_than_a_chunks_are_an_error(tmp_path):
    data = encoded(tmp_path, image((1, 130, 190), "uint8"), **LOSSLESS)
    tile = Tile(data)
    _, chunks = tile.chunks(0, (64, 64))
    sot = data[tile.sot : tile.sot + 12]
    decode = tile.decoder(0, (64, 64)).decode
    with pytest.raises(MalformedError, match="1 sections where a chunk has 6"):
        decode(data[tile.sot :])
    with pytest.raises(MalformedError, match="sections where"):
        decode(chunks[3] + sot)
    with pytest.raises(MalformedError, match="no SOT"):
        decode(chunks[3][5:])
    with pytest.raises(MalformedError, match="chunk 9, 0 of a grid of"):
        decode(sot + b"\0" * 9 + chunks[0][12:])
    with pytest.raises(MalformedError, match="no SOT"):
        decode(b"\0" * 12 + chunks[0])


@given(st.data())
def test_spoiled_packets_never_pass_the_errors(chunk_of_noise, data):
    decode, chunk = chunk_of_noise
    spoiled = bytearray(chunk)
    for at in data.draw(st.lists(st.integers(0, len(chunk) - 1), min_size=1, max_size=6)):
        spoiled[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(JnrrdzError):
        assert decode(bytes(spoiled)).shape == (64, 64)


@pytest.fixture(scope="module")
def chunk_of_noise(tmp_path_factory):
    tile = Tile(encoded(tmp_path_factory.mktemp("noise"), image((1, 130, 190), "uint8"), **LOSSLESS))
    _, chunks = tile.chunks(0, (64, 64))
    return tile.decoder(0, (64, 64)).decode, chunks[4]


RANGES = {
    "is missing": lambda ranges, at: ranges[:at] + ranges[at + 1 :],
    "is there twice": lambda ranges, at: [*ranges[: at + 1], *ranges[at:]],
    "ends a byte early": lambda ranges, at: [*ranges[:at], ranges[at][:-1], *ranges[at + 1 :]],
    "goes on for a byte": lambda ranges, at: [*ranges[:at], ranges[at] + b"\0", *ranges[at + 1 :]],
}


@pytest.mark.parametrize("options", [LOSSLESS, {"QUALITY": "5,30"}, {**LOSSLESS, "PROGRESSION": "CPRL"}], ids=str)
@pytest.mark.parametrize("change", RANGES)
def test_a_chunk_of_which_a_range_is_another_is_an_error(tmp_path, options, change):
    # decoders give pixels for whatever packets there are, so they are counted before
    tile = Tile(encoded(tmp_path, image((3, 200, 230), "uint8"), **options))
    grid = WindowGrid(tile.coding, tile.box, 0, (64, 64))
    pointers, offset, length = chunk_ranges(grid, tile.table, tile.sot)
    row = np.s_[pointers[5] : pointers[6]]
    ranges = [tile.data[at : at + size] for at, size in zip(offset[row].tolist(), length[row].tolist(), strict=True)]
    sot = tile.data[tile.sot : tile.sot + 12]
    decode = tile.decoder(0, (64, 64)).decode
    decode(b"".join(ranges))
    packets = [at for at, part in enumerate(ranges) if not part.startswith(sot)]
    assert len(packets) > 5
    for at in packets:
        with pytest.raises(MalformedError, match=r"not all packets of resolution|sections where"):
            decode(b"".join(RANGES[change](ranges, at)))


BOMBS = {
    "precincts of the whole": (LOSSLESS | {"PRECINCTS": "{32768,32768}"}, 1 << 14, "costs"),
    "precincts of two samples": (LOSSLESS | {"PRECINCTS": "{64,64},{64,64},{64,64},{64,64}"}, 1 << 13, "packets"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_a_window_would_cost_is_refused_before_it_is_spent(tmp_path, name):
    options, side, words = BOMBS[name]
    data = bytearray(encoded(tmp_path, image((1, 64, 64), "uint8"), **options))
    at = data.index(b"\xff\x51")
    struct.pack_into(">2I", data, at + 6, 1 << 28, 1 << 28)
    struct.pack_into(">2I", data, at + 22, 1 << 28, 1 << 28)
    if "two" in name:
        at = data.index(b"\xff\x52")
        data[at + 14 : at + 18] = b"\x11" * 4
    known = coding(bytes(data[: data.index(b"\xff\x90")]))
    tracemalloc.start()
    with pytest.raises(UnsupportedError, match=words):
        WindowGrid(known, known.tile_box(0), 0, (side, side))
    assert tracemalloc.get_traced_memory()[1] < 1e5
    tracemalloc.stop()
