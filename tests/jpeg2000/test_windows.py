"""Windows of JPEG 2000 tiles from file to pixels: every level against OpenJPEG's decoding of the whole."""

import json
from pathlib import Path

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.formats.jpeg2000 import windows
from jnrrdz.formats.jpeg2000.openjpeg import decode_components
from tests.jpeg2000.images import LOSSLESS, encoded, image

GOLDEN = Path(__file__).parent / "golden"
WINDOW = "jnrrdz.jpeg2000-window"
PRECINCTS = "{32,32},{32,32},{16,32},{16,16}"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make images of some hundred samples count as large."""
    monkeypatch.setattr(windows, "SIDE", 32)
    monkeypatch.setattr(windows, "LARGE", 64 * 64)


@pytest.fixture
def index(tmp_path):
    def index(path, wish="always", **options):
        jnrrdz.index(str(path), tmp_path / "refs.json", overwrite=True, precinct_windows=wish, **options)
        return jnrrdz.open_group(tmp_path / "refs.json")

    return index


def codecs(array):
    return [codec.to_dict()["name"] for codec in array.metadata.codecs]


def check(group, data):
    """Compare every level, whole and in part, with the decoding of the whole; return the levels' chunks."""
    start, found = data.find(b"\xff\x4f\xff\x51"), []
    for level, (_, one) in enumerate(sorted(group.groups())):
        array = one["data"]
        assert codecs(array) == [WINDOW]
        expected = np.stack(decode_components(data[start:], level)).astype(array.dtype)
        expected = expected[..., : array.shape[-2], : array.shape[-1]].reshape(array.shape)
        np.testing.assert_array_equal(array[...], expected)
        part = np.s_[..., array.shape[-2] // 3 : array.shape[-2] // 2, array.shape[-1] // 4 :]
        np.testing.assert_array_equal(array[part], expected[part])
        found.append(array.chunks[-2:])
    return found


ORDERS = [
    (f"{order}, {kind}", (3, 130, 150), "uint8", {"PROGRESSION": order, **options})
    for order in ("LRCP", "RLCP", "RPCL", "PCRL", "CPRL")
    for kind, options in {
        "5/3, PLT": {**LOSSLESS, "PLT": "YES"},
        "9/7, layers": {"QUALITY": "4,15,60"},
    }.items()
]
CASES = [
    *ORDERS,
    ("16 bits", (1, 170, 230), "uint16", {**LOSSLESS, "PLT": "YES"}),
    ("16 bits, 9/7 with ICT", (3, 170, 190), "uint16", {"QUALITY": "30"}),
    ("signed", (2, 150, 161), "int16", LOSSLESS),
    ("SOP and EPH", (3, 120, 140), "uint8", {"QUALITY": "5,30", "SOP": "YES", "EPH": "YES", "PLT": "YES"}),
    ("tile-parts", (1, 150, 190), "uint8", {**LOSSLESS, "PROGRESSION": "RPCL", "TILEPARTS": "RESOLUTIONS"}),
    ("tiles", (1, 300, 500), "uint8", {**LOSSLESS, "BLOCKXSIZE": "256", "BLOCKYSIZE": "128", "PLT": "YES"}),
    ("tiles, 9/7", (3, 200, 300), "uint8", {"QUALITY": "30", "BLOCKXSIZE": "128", "BLOCKYSIZE": "128"}),
    ("in boxes", (3, 130, 150), "uint8", {**LOSSLESS, "CODEC": "JP2"}),
]


@pytest.mark.parametrize(("shape", "dtype", "options"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_level_is_the_whole_and_windows_are_its_parts(index, tmp_path, shape, dtype, options):
    data = encoded(tmp_path, image(shape, dtype), **{"PRECINCTS": PRECINCTS, **options})
    chunks = check(index(tmp_path / "image.j2k"), data)
    assert len(chunks) == 4
    assert chunks[0] == (64, 64)


@pytest.mark.parametrize("name", ["precincts", "precincts_lossy"])
def test_an_image_that_begins_at_odd_coordinates(index, name):
    # made by opj_compress, RPCL with PLT, and PCRL with SOP and EPH
    chunks = check(index(GOLDEN / f"{name}.j2k"), (GOLDEN / f"{name}.j2k").read_bytes())
    assert chunks[0] == (32, 32)


def test_colours_of_a_palette(index, tmp_path):
    table = np.random.default_rng(3).integers(0, 256, (256, 3), dtype=np.uint8)
    pixels = image((1, 150, 190), "uint8")
    inside = encoded(tmp_path, pixels, **LOSSLESS, PRECINCTS=PRECINCTS)
    (tmp_path / "a.jp2").write_bytes(boxed(inside, table, pixels.shape[1:]))
    group = index(tmp_path / "a.jp2", expand_palette=True)
    array = group["0/data"]
    assert codecs(array) == [WINDOW]
    np.testing.assert_array_equal(np.moveaxis(array[...], 0, -1), table[pixels[0]])
    plain = index(tmp_path / "a.jp2")["0/data"]
    assert codecs(plain) == [WINDOW]
    np.testing.assert_array_equal(plain[...], pixels[0])


def boxed(codestream, table, size):
    """Return a JP2 file with a palette."""

    def box(kind, body):
        return (8 + len(body)).to_bytes(4, "big") + kind + body

    ihdr = box(b"ihdr", b"".join(side.to_bytes(4, "big") for side in size) + b"\0\1\7\7\0\0")
    colr = box(b"colr", b"\1\0\0\0\0\0\x10")
    pclr = box(b"pclr", len(table).to_bytes(2, "big") + b"\3\7\7\7" + table.tobytes())
    cmap = box(b"cmap", b"".join(b"\0\0\1" + bytes([column]) for column in range(3)))
    head = box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 \0\0\0\0jp2 ")
    return head + box(b"jp2h", ihdr + colr + pclr + cmap) + box(b"jp2c", codestream)


REMOTE = {**LOSSLESS, "PRECINCTS": "{32,32},{32,32},{32,32},{32,32}", "PROGRESSION": "RPCL"}


@pytest.fixture
def remote(http_server, tmp_path):
    """Index a file over HTTP; return the manifest's group, and the tally of a function's requests and bytes."""

    def index(data, wish=None):
        http_server.files["/a.j2k"] = data
        jnrrdz.index(f"{http_server.url}/a.j2k", tmp_path / "refs.json", precinct_windows=wish)
        return jnrrdz.open_group(tmp_path / "refs.json", allow=[http_server.url])

    def tally(function):
        requests, before = len(http_server.log), http_server.body_bytes
        found = function()
        return found, len(http_server.log) - requests, http_server.body_bytes - before

    return index, tally


def test_over_http_a_window_is_some_requests_and_a_part_of_the_bytes(remote, tmp_path):
    index, tally = remote
    pixels = image((1, 1300, 1300), "uint8")
    data = encoded(tmp_path, pixels, **REMOTE, PLT="YES")
    group, requests, read = tally(lambda: index(data))
    assert requests <= 4
    assert read < len(data) / 4
    array = group["0/data"]
    assert codecs(array) == [WINDOW]
    found, requests, read = tally(lambda: array[640:704, 704:768])
    np.testing.assert_array_equal(found, pixels[0, 640:704, 704:768])
    assert requests <= 12
    assert read < len(data) / 6  # neighbours are asked for together, with what lies between them
    whole, requests, read = tally(lambda: group["3/data"][...])
    np.testing.assert_array_equal(whole, imagecodecs.jpeg2k_decode(data, skipres=3))
    assert read < len(data) / 10


def test_over_http_tiles_without_lengths_stay_whole_unless_asked_for(remote, tmp_path):
    index, tally = remote
    pixels = image((1, 300, 300), "uint8")
    data = encoded(tmp_path, pixels, **REMOTE)
    assert codecs(index(data)["0/data"]) == ["jpeg2000"]
    (tmp_path / "refs.json").unlink()
    group, requests, _ = tally(lambda: index(data, "always"))
    assert requests <= 6  # long reads, not one for each packet header
    np.testing.assert_array_equal(group["0/data"][...], pixels[0])
    assert codecs(group["0/data"]) == [WINDOW]


def test_auto_leaves_small_tiles_whole(index, tmp_path, monkeypatch):
    encoded(tmp_path, image((1, 400, 400), "uint8"), **LOSSLESS, PRECINCTS=PRECINCTS)
    assert codecs(index(tmp_path / "image.j2k", "auto")["0/data"]) == [WINDOW]
    assert codecs(index(tmp_path / "image.j2k", "never")["0/data"]) == ["jpeg2000"]
    monkeypatch.setattr(windows, "LARGE", 400 * 400)
    assert codecs(index(tmp_path / "image.j2k", "auto")["0/data"]) == ["jpeg2000"]


def test_auto_leaves_tiles_whole_where_a_window_is_most_of_them(index, tmp_path):
    encoded(tmp_path, image((1, 190, 230), "uint8"), **LOSSLESS, PRECINCTS="{128,128}")
    assert codecs(index(tmp_path / "image.j2k", "auto")["0/data"]) == ["jpeg2000"]
    with pytest.warns(UserWarning, match=r"tiles stay whole: .* would be a tile of|tiles stay whole: .* costs"):
        index(tmp_path / "image.j2k", "always", overviews=False)


def test_where_a_chunk_is_one_range_tiles_stay_whole(index, tmp_path):
    pixels = image((1, 190, 230), "uint8")
    encoded(tmp_path, pixels, **LOSSLESS, PRECINCTS=PRECINCTS)
    array = index(tmp_path / "image.j2k", None, single_range=True)["0/data"]
    assert codecs(array) == ["jpeg2000"]
    np.testing.assert_array_equal(array[...], pixels[0])
    with pytest.raises(jnrrdz.JnrrdzError, match="window"):
        index(tmp_path / "image.j2k", "always", single_range=True)


def test_an_unknown_wish_is_refused(index, tmp_path):
    encoded(tmp_path, image((1, 90, 130), "uint8"), **LOSSLESS)
    with pytest.raises(jnrrdz.JnrrdzError, match="auto, always and never"):
        index(tmp_path / "image.j2k", "sometimes")


def test_references_that_lack_a_range_are_an_error(index, tmp_path):
    encoded(tmp_path, image((1, 150, 190), "uint8"), **LOSSLESS, PRECINCTS=PRECINCTS)
    array = index(tmp_path / "image.j2k")["0/data"]
    array[64:128, 64:128]
    manifest = json.loads((tmp_path / "refs.json").read_text("utf-8"))
    manifest["refs"]["0/data/c/1/1"][1].pop(-2)
    (tmp_path / "refs.json").write_text(json.dumps(manifest), "utf-8")
    array = jnrrdz.open_group(tmp_path / "refs.json")["0/data"]
    array[:64, :64]
    with pytest.raises(jnrrdz.MalformedError, match=r"not all packets of resolution 3"):
        array[64:128, 64:128]


def test_a_file_that_was_cut_off_since_is_an_error(index, tmp_path):
    data = encoded(tmp_path, image((1, 150, 190), "uint8"), **LOSSLESS, PRECINCTS=PRECINCTS)
    array = index(tmp_path / "image.j2k")["0/data"]
    (tmp_path / "image.j2k").write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(jnrrdz.JnrrdzError):
        array[...]


def test_a_file_that_is_cut_off_already_has_no_windows(index, tmp_path):
    data = encoded(tmp_path, image((1, 150, 190), "uint8"), **LOSSLESS, PRECINCTS=PRECINCTS)
    at = data.index(b"\xff\x90\0\x0a")
    short = bytearray(data[: len(data) * 3 // 4])
    short[at + 6 : at + 10] = (len(short) - at).to_bytes(4, "big")
    (tmp_path / "image.j2k").write_bytes(short + b"\xff\xd9")
    with pytest.warns(UserWarning, match="tiles stay whole: .* goes on beyond its tile-part"):
        array = index(tmp_path / "image.j2k", overviews=False)["data"]
    assert codecs(array) == ["jpeg2000"]


def with_lengths(header, packets):
    """Return a codestream of one tile-part of those packets, with PLT."""
    lengths = b""
    for one in packets:
        sevens = [len(one) >> shift & 0x7F for shift in (14, 7, 0)]
        while len(sevens) > 1 and not sevens[0]:
            sevens.pop(0)
        lengths += bytes(seven | 0x80 for seven in sevens[:-1]) + bytes(sevens[-1:])
    plt = b"\xff\x58" + (len(lengths) + 3).to_bytes(2, "big") + b"\0" + lengths
    body = plt + b"\xff\x93" + b"".join(packets)
    return header + b"\xff\x90\0\x0a\0\0" + (len(body) + 12).to_bytes(4, "big") + b"\0\1" + body + b"\xff\xd9"


def test_a_tile_of_more_samples_than_any_decoder_takes(index, tmp_path, monkeypatch):
    # 2^30 samples, whose precincts at the top left are those of a small image where these are whole
    monkeypatch.setattr(windows, "SIDE", 256)
    coding = {
        **LOSSLESS,
        "PROGRESSION": "RPCL",
        "PLT": "YES",
        "RESOLUTIONS": "6",
        "PRECINCTS": ",".join(["{256,256}"] * 6),
    }
    small = encoded(tmp_path, image((1, 1024, 1024), "uint8"), **coding)
    at = small.index(b"\xff\x90\0\x0a")
    plt, start = small.index(b"\xff\x58", at), small.index(b"\xff\x93", at) + 2
    numbers, value = [], 0
    for octet in small[plt + 5 : start - 2]:
        value = value << 7 | octet & 0x7F
        if octet < 0x80:
            numbers.append(value)
            value = 0
    stops = np.cumsum(numbers) + start
    packets = [small[stop - number : stop] for stop, number in zip(stops, numbers, strict=True)]
    real = {}
    for resolution, side in enumerate((1, 1, 1, 1, 2, 4)):
        for row, column in np.ndindex(side, side):
            packet = packets.pop(0)
            real[resolution, row, column] = packet if resolution > 2 else b"\0"
    small_sides = dict(enumerate((1, 1, 1, 1, 2, 4)))
    large_sides = {resolution: 128 >> (5 - resolution) for resolution in range(6)}

    def stream(size, sides):
        found = bytearray(small[:at])
        for place in (8, 12, 24, 28):
            found[place : place + 4] = size.to_bytes(4, "big")
        order = [(number, *place) for number, side in sides.items() for place in np.ndindex(side, side)]
        return with_lengths(bytes(found), [real.get(place, b"\0") for place in order])

    expected = imagecodecs.jpeg2k_decode(stream(1024, small_sides))
    assert np.ptp(expected) > 100
    (tmp_path / "large.j2k").write_bytes(stream(1 << 15, large_sides))
    group = index(tmp_path / "large.j2k", None)
    array = group["0/data"]
    assert codecs(array) == [WINDOW]
    assert array.shape == (1 << 15, 1 << 15)
    np.testing.assert_array_equal(array[:900, 100:900], expected[:900, 100:900])
    assert (array[-9:, -9:] == 128).all()
    assert group["5/data"].shape == (1024, 1024)
    with pytest.raises(jnrrdz.UnsupportedError, match="32768 x 32768"):
        index(tmp_path / "large.j2k", "never")
    data = (tmp_path / "large.j2k").read_bytes()
    at = data.index(b"\xff\x52")
    (tmp_path / "large.j2k").write_bytes(data[: at + 9] + b"\x04" + data[at + 10 :])
    with pytest.raises(jnrrdz.JnrrdzError, match=r"32768 x 32768.*precinct_windows=auto.*21840 packets"):
        index(tmp_path / "large.j2k", None)
