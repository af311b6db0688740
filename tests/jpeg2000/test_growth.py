"""Files with more and more of what a codestream or its boxes repeat: a scan takes time in proportion."""

import struct

import pytest

import jnrrdz
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE
from tests.growth import assert_linear
from tests.jpeg2000.test_cost import ONE, SOD, coc, cod, qcd, siz

EOC = b"\xff\xd9"


def segment(marker, body):
    return struct.pack(">HH", marker, 2 + len(body)) + body


def sot(tile, length, part=0, count=0):
    return struct.pack(">HHHIBB", 0xFF90, 10, tile, length, part, count)


def part(tile, header=b"", body=b"\0", number=0, count=0):
    rest = header + SOD + body
    return sot(tile, 12 + len(rest), number, count) + rest


SMALL = siz(64, 64, ONE)


def stream(main=b"", parts=None, *, size=SMALL, coded=None):
    coded = cod(0) + qcd(0) if coded is None else coded
    return b"\xff\x4f" + size + coded + main + (part(0) if parts is None else parts) + EOC


def grid(tiles):
    """The size of an image of at least so many tiles of 4 x 4 samples."""
    return siz(4 * tiles, 4, ONE, tile=(4, 4))


def box(kind, body):
    return struct.pack(">I4s", 8 + len(body), kind) + body


def jp2(boxes):
    head = box(b"ftyp", b"jp2 \0\0\0\0jp2 ")
    ihdr = box(b"ihdr", struct.pack(">IIHBBBB", 64, 64, 1, 7, 7, 0, 0))
    colr = box(b"colr", struct.pack(">BBBI", 1, 0, 0, 17))
    return SIGNATURE + head + box(b"jp2h", ihdr + colr) + boxes + box(b"jp2c", stream())


def tlm(tiles, length):
    entries = [struct.pack(">HI", tile, length) for tile in range(tiles)]
    bodies = [bytes([at // 8192, 0x60]) + b"".join(entries[at : at + 8192]) for at in range(0, tiles, 8192)]
    return b"".join(segment(0xFF55, body) for body in bodies)


MADE = {
    "comments": lambda n: stream(segment(0xFF64, b"\0\1x") * n),
    "comments in a tile": lambda n: stream(parts=part(0, segment(0xFF64, b"\0\1x") * n)),
    "components": lambda n: stream(size=siz(64, 64, *[ONE] * n)),
    "styles of components": lambda n: stream(
        b"".join(segment(0xFF53, struct.pack(">HB", number, 0) + bytes([0, 4, 4, 0, 1])) for number in range(n)),
        size=siz(64, 64, *[ONE] * n),
    ),
    "styles again and again": lambda n: stream((cod(0) + coc(0, 0)) * n, size=siz(64, 64, *[ONE] * 200)),
    "tiles": lambda n: stream(parts=b"".join(map(part, range(n))), size=grid(n)),
    "tiles in a list": lambda n: stream(tlm(n, 15), b"".join(map(part, range(n))), size=grid(n)),
    "tiles with headers": lambda n: stream(
        parts=b"".join(part(tile, segment(0xFF64, b"\0\1x") + cod(0)) for tile in range(n)), size=grid(n)
    ),
    "tiles with packet lengths": lambda n: stream(
        parts=b"".join(part(tile, segment(0xFF58, b"\0\1")) for tile in range(n)), size=grid(n)
    ),
    "tile-parts of one tile": lambda n: stream(parts=b"".join(part(0, number=k & 255) for k in range(n))),
    "tile-parts by resolution": lambda n: stream(
        parts=b"".join(part(tile, b"", b"\0", number) for number in (0, 1) for tile in range(n)),
        size=grid(n),
        coded=cod(1, progression=1) + qcd(1),
    ),
    "packet lengths": lambda n: stream(parts=part(0, segment(0xFF58, b"\0\1") * n)),
    "lists of packet lengths": lambda n: stream(segment(0xFF57, b"\0" + b"\0\0\0\1\1") * n),
    "packed headers": lambda n: stream(segment(0xFF60, b"\0" + b"\0\0\0\1\0") * n),
    "boxes": lambda n: jp2(box(b"free", b"") * n),
    "labels": lambda n: jp2(box(b"asoc", box(b"lbl ", b"name") + box(b"xml ", b"<a/>")) * n),
    "UUIDs": lambda n: jp2(box(b"uuid", bytes(16) + b"x") * n),
    "documents": lambda n: jp2(box(b"xml ", b"<a/>") * n),
    "codestreams": lambda n: SIGNATURE + box(b"ftyp", b"jpx \0\0\0\0jpx ") + box(b"jp2c", stream()) * n,
    "elements of a document": lambda n: jp2(box(b"xml ", b"<a>" + b"<b c='d'>e</b>" * n + b"</a>")),
}
SIZES = {
    "components": 2000,
    "codestreams": 20,
    "boxes": 2000,
}


SIDE = 2048


def windows(tiles):
    """Tiles that are cut into windows; all of their packets are empty."""
    size, coded = siz(SIDE * tiles, SIDE, ONE, tile=(SIDE, SIDE)), cod(1, sizes=[0x88, 0x99], progression=2) + qcd(1)
    return stream(parts=b"".join(part(tile, body=bytes(32)) for tile in range(tiles)), size=size, coded=coded)


@pytest.mark.filterwarnings("ignore")
def test_windows_take_time_in_proportion(tmp_path):
    def written(count):
        path = tmp_path / f"{count}.j2k"
        path.write_bytes(windows(count))
        return path

    def run(path):
        array = dict(jnrrdz.scan(path, precinct_windows="always").arrays())["0/data"]
        assert array.chunks[-1] < SIDE

    assert_linear(written, run, 16)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MADE)
def test_a_scan_takes_time_in_proportion(tmp_path, name):
    def make(count):
        path = tmp_path / f"{count}.jp2"
        path.write_bytes(MADE[name](count))
        return path

    def run(path):
        try:
            return jnrrdz.scan(path)
        except jnrrdz.JnrrdzError:
            return None

    assert_linear(make, run, SIZES.get(name, 500))
