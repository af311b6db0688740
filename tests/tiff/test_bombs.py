"""Few bytes that claim, or become, many: a tile costs no more memory than its chunk.

Each is read in a process of its own with little address space.
"""

import base64
import json
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.core import xml_tree

READ = """
    import resource, sys
    import jnrrdz
    jnrrdz.open_group(sys.argv[2])["data"][...]  # a sound file first: threads and tables are there now
    def kilobytes(field):  # getrusage would tell the peak of the process that started this one
        return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1])
    resource.setrlimit(resource.RLIMIT_AS, ((kilobytes("VmSize") << 10) + (64 << 20),) * 2)
    try:
        pixels = jnrrdz.open_group(sys.argv[1])["data"][...]
    except jnrrdz.JnrrdzError as error:
        print("refused", error)
    else:
        print("read", pixels.shape)
    print(kilobytes("VmHWM") >> 10)
"""


def one_tile(path, payload, compression, side=64, samples=1):
    """Write a TIFF of one tile whose bytes are the payload, whatever it is."""
    pixels = np.zeros((side, side, samples)[: 2 + (samples > 1)], "u1")
    photometric = "rgb" if samples == 3 else "minisblack"
    tifffile.imwrite(path, pixels, tile=(side, side), compression=compression, photometric=photometric, metadata=None)
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        tags = tif.pages[0].tags
        places = [(tags[name].valueoffset, "<H" if tags[name].dtype == 3 else "<I") for name in (324, 325)]
    assert places[0][1] == "<I"
    struct.pack_into("<I", data, places[0][0], len(data))
    position, _ = places[1]
    struct.pack_into("<HI", data, position - 6, 4, 1)
    struct.pack_into("<I", data, position, len(payload))
    path.write_bytes(bytes(data) + payload)
    return path


def resized_jpeg(height, width):
    """Return a JPEG whose frame header says another size than it has."""
    data = bytearray(imagecodecs.jpeg_encode(np.zeros((64, 64), "u1")))
    at = data.index(b"\xff\xc0") + 5
    struct.pack_into(">HH", data, at, height, width)
    return bytes(data)


def endless_deflate():
    """Return a megabyte of deflate that stands for a gigabyte of zeros, without compressing as much."""
    stream = zlib.compressobj(9)
    first = stream.compress(bytes(16 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
    return first + first[2:] * 63  # a full flush makes the blocks independent, only the header comes once


def zstd_frame(claimed):
    """Return a ZSTD frame whose header claims a content of so many bytes."""
    return struct.pack("<IBQ", 0xFD2FB528, 0b11100000, claimed) + b"\x03\0\0" + b"\x02\x80\0\0"[:3]


BOMBS = {
    "a gigabyte of zeros in a megabyte of deflate": lambda: (endless_deflate(), "deflate"),
    "a JPEG of 60000 x 60000": lambda: (resized_jpeg(60000, 60000), "jpeg"),
    "a JPEG of 65 x 64": lambda: (resized_jpeg(65, 64), "jpeg"),
    "a ZSTD frame of 4 GB": lambda: (zstd_frame(4 << 30), "zstd"),
    "a ZSTD frame of 2 EB": lambda: (zstd_frame(1 << 61), "zstd"),
    "128 MB of zeros in ZSTD": lambda: (imagecodecs.zstd_encode(bytes(128 << 20)), "zstd"),
    "128 MB of zeros in two of packbits": lambda: (b"\x81\0" * (1 << 20), "packbits"),
    "16 MB of zeros in LZW": lambda: (imagecodecs.lzw_encode(bytes(16 << 20)), "lzw"),
}
REFUSED = {"a JPEG of 60000 x 60000", "a JPEG of 65 x 64", "a ZSTD frame of 4 GB", "a ZSTD frame of 2 EB"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and limits the address space")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_its_chunk(tmp_path, name):
    payload, compression = BOMBS[name]()
    bomb = one_tile(tmp_path / "bomb.tif", payload, compression)
    sound = {"jpeg": resized_jpeg(64, 64), "deflate": zlib.compress(bytes(4096)), "packbits": b"\x81\0" * 32}
    other = {"zstd": imagecodecs.zstd_encode(bytes(4096)), "lzw": imagecodecs.lzw_encode(bytes(4096))}
    good = one_tile(tmp_path / "good.tif", {**sound, **other}[compression], compression)
    command = [sys.executable, "-c", textwrap.dedent(READ), str(bomb), str(good)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    outcome, memory = done.stdout.split("\n")[:2]
    assert int(memory) < 600, done.stdout
    if name in REFUSED:
        assert outcome.startswith("refused")
        assert "bomb.tif" in outcome
        assert ("JPEG data declare" in outcome) == ("JPEG" in name), outcome  # not left to the decoder's own limits


def test_inline_bytes_are_capped_too(tmp_path):
    """A chunk's bytes can stand in the manifest itself."""
    path = one_tile(tmp_path / "a.tif", zlib.compress(bytes(64 << 20)), "deflate")
    jnrrdz.index(path, tmp_path / "refs.json")
    document = json.loads((tmp_path / "refs.json").read_text())
    bomb = base64.b64encode(zlib.compress(bytes(64 << 20))).decode()
    document["refs"]["data/c/0/0"] = f"base64:{bomb}"
    (tmp_path / "refs.json").write_text(json.dumps(document))
    array = jnrrdz.open_group(tmp_path / "refs.json")["data"]
    tracemalloc.start()
    try:
        array[...]
    except jnrrdz.JnrrdzError as error:
        assert "a.tif" in str(error) or "refs.json" in str(error)  # noqa: PT017 - either is fine
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 << 20


def directory(tags, following=0):
    """Return an IFD of single values, little-endian."""
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, (kind, value) in sorted(tags.items()))
    return struct.pack("<H", len(tags)) + entries + struct.pack("<I", following)


def hollow(width, length, **more):
    """Return the tags of an image of one byte a pixel, whose segments are said to be absent."""
    tags = {256: (4, width), 257: (4, length), 258: (3, 8), 259: (3, 1), 262: (3, 1), 277: (3, 1)}
    if "tile" in more:
        tags |= {322: (4, more["tile"]), 323: (4, more["tile"]), 324: (4, 0), 325: (4, 0)}
    else:
        tags |= {278: (4, 1), 273: (4, 0), 279: (4, 0)}
    if "planes" in more:
        tags |= {277: (3, more["planes"]), 284: (3, 2)}
    return tags


HOLLOW = {
    "a strip a row": [hollow(1 << 23, 1 << 20)],
    "small tiles": [hollow(1 << 14, 1 << 14, tile=16)],
    "a plane a sample": [hollow(16, 16, planes=9000)],
    "many pages of strips": [hollow(16 + page, 1 << 15) for page in range(100)],
    "many pages of planes": [hollow(16 + page, 8, planes=4096) for page in range(100)],
    "many equal pages": [hollow(16, 1 << 19)] * 300,
}


@pytest.mark.parametrize("name", HOLLOW)
def test_absent_segments_cost_no_more_than_the_file(tmp_path, name):
    data = b"II*\0" + struct.pack("<I", 8)
    for number, tags in enumerate(HOLLOW[name]):
        end = len(data) + len(directory(tags))
        data += directory(tags, 0 if number + 1 == len(HOLLOW[name]) else end)
    path = tmp_path / "a.tif"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = jnrrdz.scan(path)
        assert all(array.refs.chunks <= 1 << 20 for _, array in group.arrays())
    except jnrrdz.JnrrdzError as error:
        assert "a.tif" in str(error)  # noqa: PT017 - either is fine
        assert "segments" in str(error)  # noqa: PT017
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 96 << 20


def test_an_image_of_nothing_but_absent_tiles_is_read(tmp_path):
    """The pixels are none of the file's; how they are cut into chunks is free."""
    data = b"II*\0" + struct.pack("<I", 8) + directory(hollow(40_000, 1000))
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.warns(UserWarning, match="the others are missing"):
        array = jnrrdz.open_group(tmp_path / "a.tif")["data"]
    assert array.shape == (1000, 40_000)
    assert not array[-3:, -5:].any()


def sharing(path, count, tags, values):
    """Write a file whose pages, each of another width, have tags of the same values (tag, type, count)."""
    data = bytearray(b"II*\0\0\0\0\0" + bytes(8) + values)
    link = 4
    for number in range(count):
        rows = {256: (4, 1, 4 + number), 257: (4, 1, 1), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1), 277: (3, 1, 1)}
        rows |= {273: (4, 1, 8), 278: (4, 1, 1), 279: (4, 1, 4)} | {tag: (*kind, 16) for tag, *kind in tags}
        rows |= {257: (4, 1, len(values) // 4)} if 273 in dict.fromkeys(tag for tag, *_ in tags) else {}
        start = len(data)
        data += struct.pack("<H", len(rows))
        data += b"".join(struct.pack("<HHII", tag, *rows[tag]) for tag in sorted(rows)) + bytes(4)
        data[link : link + 4] = struct.pack("<I", start)
        link = len(data) - 4
    path.write_bytes(data)
    return path


def test_pages_that_share_the_places_of_their_strips(tmp_path):
    """A megabyte of places is that of each page: a file of a megabyte would make a million references a page."""
    places = struct.pack("<I", 8) * (1 << 18)
    path = sharing(tmp_path / "a.tif", 100, [(273, 4, 1 << 18), (279, 4, 1 << 18)], places)
    with pytest.raises(jnrrdz.MalformedError, match=r"share their values|segments more"):
        jnrrdz.scan(path)


@pytest.mark.filterwarnings("ignore:metadata are left out:UserWarning")
def test_pages_that_share_a_text(tmp_path):
    path = sharing(tmp_path / "a.tif", 60, [(270, 2, 4 << 20)], b"a" * (4 << 20))
    pages = jnrrdz.scan(path).children.values()
    texts = [
        page.attributes["TIFFTAG_IMAGEDESCRIPTION"] for page in pages if "TIFFTAG_IMAGEDESCRIPTION" in page.attributes
    ]
    assert 1 <= len(texts) < 30
    assert "share their values" in str(list(pages)[-1].attributes["metadata_refused"])


def test_directories_that_lie_over_each_other(tmp_path):
    entries, count = 4000, 20_000
    data = bytearray(8 * count + 12 * entries + 20)
    data[:8] = b"II*\0" + struct.pack("<I", 8)
    for start in range(8, 8 * count, 8):
        data[start : start + 2] = struct.pack("<H", entries)
        following = start + 2 + 12 * entries
        data[following : following + 4] = struct.pack("<I", start + 8)
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(jnrrdz.MalformedError, match="share their values"):
        jnrrdz.scan(tmp_path / "a.tif")


def test_elements_in_elements_hold_what_is_in_them_once():
    text = "<a>" * 60 + "x" * (4 << 20) + "</a>" * 60
    tracemalloc.start()
    root = xml_tree.parse_xml(text, "XML")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert root.markup.startswith("<a>")
    assert peak < 8 * len(text)


def test_xml_of_more_elements_than_are_read(monkeypatch):
    monkeypatch.setattr(xml_tree, "XML_ELEMENTS", 1000)
    assert len(xml_tree.parse_xml("<a>" + "<b/>" * 999 + "</a>", "XML").children) == 999
    with pytest.raises(jnrrdz.UnsupportedError, match="elements"):
        xml_tree.parse_xml("<a>" + "<b/>" * 1000 + "</a>", "XML")


def ome(path, images, strips=1):
    """Write an OME-TIFF of one page of so many strips."""
    text = f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{images}</OME>'
    pixels = np.zeros((strips, 4), "u1")
    tifffile.imwrite(path, pixels, description=text.encode(), metadata=None, rowsperstrip=1, compression="zlib")
    return path


OME_IMAGE = (
    '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" SizeX="4" SizeY="{}" SizeZ="1" '
    'SizeC="1" SizeT="{}"><TiffData IFD="0" PlaneCount="1"/></Pixels></Image>'
)


def test_images_that_share_a_page_of_many_strips(tmp_path):
    path = ome(tmp_path / "a.ome.tif", OME_IMAGE.format(1 << 15, 1) * 100, 1 << 15)
    with pytest.raises(jnrrdz.MalformedError, match=r"share planes|segments more"):
        jnrrdz.scan(path)


def test_images_of_planes_that_are_missing(tmp_path):
    path = ome(tmp_path / "a.ome.tif", OME_IMAGE.format(1, 1 << 21) * 9)
    with pytest.raises(jnrrdz.MalformedError, match="are missing"):
        jnrrdz.scan(path)
