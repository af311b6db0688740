"""Files with more and more of what a NITF repeats: a scan takes time in proportion."""

import struct

import pytest

import jnrrdz
from tests.growth import assert_linear
from tests.nitf.by_hand import SECURITY, V20, V21, file_bytes, image_header, overflow_header

FL, NUMI = 342, 360


def one(header=None, data=bytes(16), **more):
    return file_bytes(image_header(4, 4, version=V21) if header is None else header, data, version=V21, **more)


def images(count):
    """A file of so many images of 4 x 4 pixels."""
    header = image_header(4, 4, version=V21)
    single = one(header)
    rest = single[NUMI + 19 : -len(header) - 16]
    head = single[:NUMI] + b"%03d" % count + b"%06d%010d" % (len(header), 16) * count + rest
    data = head + (header + bytes(16)) * count
    return data[:FL] + b"%012d%06d" % (len(data), len(head)) + data[NUMI:]


def tres(count, body=b"xyz"):
    return b"".join(b"T%05d%05d%b" % (number % 100000, len(body), body) for number in range(count))


def symbol(count):
    header = b"SY" + b"a".ljust(10) + b"b".ljust(20) + SECURITY + b"0C" + b"0" * 13 + b"001000" + b"0" * 20
    return [(header + b"C" + b"0" * 10 + b"00" + b"00000", b"x")] * count


def extension(count, name=b"MINE"):
    return [(b"DE" + name.ljust(25) + b"01" + SECURITY + b"0000", b"content")] * count


def overflow(count):
    header = overflow_header(V21, b"UDHD", 0)
    return [(header, tres(20))] * count


def masked(count):
    """An image in a row of blocks of 4 x 4 pixels, with a table of their places."""
    header = image_header(4, 4 * count, version=V21, ic=b"NM", grid=(1, count), block=(4, 4))
    table = b"".join(struct.pack(">I", 16 * number) for number in range(count))
    return one(header, struct.pack(">IHHH", 10 + len(table), 4, 0, 0) + table + bytes(16 * count))


def streams(count, fill):
    """An image in a row of blocks, each a stream of JPEG; no table tells where they are."""
    header = image_header(4, 4 * count, version=V21, ic=b"C300.0", grid=(1, count), block=(4, 4))
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
    return one(header, (b"\xff\xd8" + b"\xff\xfe\x00\x04ab" * 3 + scan + bytes(fill) + b"\xff\xd9") * count)


def bands(count):
    header = image_header(4, 4, version=V21, bands=[(b"M", ())] * count, is_many=True, imode=b"P")
    return one(header, bytes(16 * count))


MADE = {
    "images": (images, 15),
    "extensions in a header": (lambda n: one(image_header(4, 4, version=V21, udid=(tres(n), 0))), 200),
    "extensions that are broken": (
        lambda n: one(image_header(4, 4, version=V21, udid=(b"".join([b"BLOCKA00003xyz"] * n), 0))),
        200,
    ),
    "extensions in segments": (lambda n: one(extensions=overflow(n)), 20),
    "data extension segments": (lambda n: one(extensions=extension(n)), 40),
    "segments of XML": (lambda n: one(extensions=extension(n, b"XML_DATA_CONTENT")), 40),
    "graphics": (lambda n: one(symbols=symbol(n)), 40),
    "symbols": (lambda n: file_bytes(image_header(4, 4, version=V20), bytes(16), symbols=symbol(n)), 40),
    "blocks in a table": (masked, 300),
    "streams": (lambda n: streams(n, 20), 200),
    "bands": (bands, 300),
    "lookup tables": (
        lambda n: one(
            image_header(4, 4, version=V21, bands=[(b"LU", (bytes(50),) * 3)] * n, is_many=True), bytes(16 * n)
        ),
        150,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MADE)
def test_a_scan_takes_time_in_proportion(tmp_path, name):
    make, count = MADE[name]

    def written(times):
        path = tmp_path / f"{times}.ntf"
        path.write_bytes(make(times))
        return path

    def run(path):
        try:
            return jnrrdz.scan(path)
        except jnrrdz.JnrrdzError:
            return None

    assert_linear(written, run, count)


@pytest.mark.filterwarnings("ignore")
def test_extensions_of_megabytes_are_gone_through_once(tmp_path):
    def written(count):
        path = tmp_path / f"{count}.ntf"
        path.write_bytes(one(extensions=[(overflow_header(V21, b"UDHD", 0), tres(count, bytes(2000)))]))
        return path

    assert_linear(written, jnrrdz.scan, 500)
