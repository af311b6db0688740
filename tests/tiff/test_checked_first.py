"""Pages are checked by us before tifffile, which believes more, sees them."""

import struct
import sys

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.formats.tiff import vendor
from jnrrdz.formats.tiff.scan import kind_of
from jnrrdz.formats.tiff.structure import TiffLayout

SBYTE, ASCII, SHORT, LONG = 6, 2, 3, 4
DESCRIPTION = b'{"shape": [1, 8, 8]}\0'


def tiff(sides, description=DESCRIPTION, more=()):
    """Return a page of 64 zeros whose sides have the given types and numbers."""
    (width_type, width), (length_type, length) = sides
    rows = [
        (256, width_type, 1, width),
        (257, length_type, 1, length),
        (258, SHORT, 1, 8),
        (259, SHORT, 1, 1),
        (262, SHORT, 1, 1),
        (273, LONG, 1, 8),
        (277, SHORT, 1, 1),
        (278, SHORT, 1, 8),
        (279, LONG, 1, 64),
    ]
    start = 8 + 64
    behind = start + 2 + 12 * (len(rows) + 1 + len(more)) + 4
    rows += [(270, ASCII, len(description), behind), *more]
    body = b"".join(
        struct.pack("<HHIi" if value < 0 else "<HHII", tag, kind, count, value)
        for tag, kind, count, value in sorted(rows)
    )
    head = struct.pack("<2sHI64xH", b"II", 42, start, len(rows))
    return head + body + bytes(4) + description


NEGATIVE = {
    "width": ((SBYTE, -8), (SHORT, 8)),
    "length": ((SHORT, 8), (SBYTE, -8)),
    "both": ((SBYTE, -8), (SBYTE, -8)),
}


@pytest.mark.parametrize("case", NEGATIVE)
def test_negative_sides_never_reach_tifffile(tmp_path, monkeypatch, case):
    """Its series of such a file is computed for ever."""
    monkeypatch.setattr(vendor.tifffile, "TiffFile", never)
    path = tmp_path / "a.tif"
    path.write_bytes(tiff(NEGATIVE[case]))
    with pytest.raises(jnrrdz.MalformedError, match="a side of -8 pixels"):
        jnrrdz.scan(path)


def never(*_, **__):
    raise AssertionError("tifffile sees it")


def test_a_damaged_later_page_never_reaches_tifffile(tmp_path, monkeypatch):
    path = tmp_path / "a.tif"
    pixels = np.arange(3 * 40 * 30, dtype="u2").reshape(3, 40, 30)
    with tifffile.TiffWriter(path) as target:
        for number, page in enumerate(pixels):
            said = "ImageJ=1.54f\nimages=3\nslices=3\n" if number == 0 else None
            options = {"metadata": None, "contiguous": False, "photometric": "minisblack"}
            target.write(page, description=said, **options)
    with tifffile.TiffFile(path) as source:
        tag = source.pages[2].tags["ImageWidth"]
        place = tag.offset
    data = bytearray(path.read_bytes())
    data[place + 2 : place + 12] = struct.pack("<HIi", SBYTE, 1, -8)
    path.write_bytes(data)
    monkeypatch.setattr(vendor.tifffile, "TiffFile", never)
    with pytest.warns(UserWarning, match="page is damaged|left out") as caught:
        group = jnrrdz.scan(path)
    assert len(caught) == 2
    assert set(group.children) == {"page_0", "page_1"}


def test_values_of_any_length_never_reach_tifffile(tmp_path, monkeypatch):
    """A private tag of 100 MB, in a sparse file."""
    path = tmp_path / "a.tif"
    nbytes = 100 << 20
    two_pages = b'{"shape": [2, 8, 8]}\0'  # one page alone never goes to tifffile
    sides = ((SHORT, 8), (SHORT, 8))
    path.write_bytes(tiff(sides, two_pages, more=[(65000, 7, nbytes, 0)]))
    with path.open("r+b") as file:
        file.truncate(nbytes + 1000)
    monkeypatch.setattr(vendor.tifffile, "TiffFile", never)
    with pytest.warns(UserWarning, match="no more than 67108864 are read"):
        group = jnrrdz.scan(path)
    assert group.children["data"].shape == (8, 8)


def test_a_description_of_a_gigabyte_is_not_read():
    nbytes = 1 << 30
    data = tiff(((SHORT, 8), (SHORT, 8)))
    entry = struct.pack("<HHI", 270, ASCII, len(DESCRIPTION))
    at = data.index(entry)
    data = data[: at + 4] + struct.pack("<I", nbytes) + data[at + 8 :]
    read = []

    def count(start, stop):
        read.append(stop - start)
        return data[start:stop].ljust(stop - start, b"x")

    layout = TiffLayout(count, nbytes + len(data))
    assert kind_of(layout, layout.ifd(layout.first)) is None
    assert sum(read) < sys.getsizeof(data) + (1 << 20)


def test_pictures_of_tifffile_are_still_its_series(tmp_path):
    path = tmp_path / "a.tif"
    pixels = np.arange(3 * 40 * 30, dtype="u2").reshape(3, 40, 30)
    tifffile.imwrite(path, pixels, imagej=True, metadata={"axes": "ZYX"})
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("z", "y", "x")
    np.testing.assert_array_equal(found, tifffile.imread(path))
