"""A damaged directory behind a sound first one costs itself only, as GDAL and tifffile have it."""

import struct

import numpy as np
import pytest
import tifffile

import jnrrdz
from tests.readers import by_gdal
from tests.writers import tiff_pages

SHAPE = (24, 31)
OFFSETS, WIDTH, SCHEME = 273, 256, 259

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def pages_of(count, *, dtype="u1"):
    numbers = np.random.default_rng(count).integers(0, 250, (count, *SHAPE))
    return numbers.astype(dtype)


def write(path, pages, *, shapes_differ=False, **options):
    """Write pages that are one stack, or (where shapes differ) a group each."""
    if shapes_differ:
        pages = [page[: len(page) - number] for number, page in enumerate(pages)]
    return tiff_pages(path, pages, **options)


def directories(path):
    """Return the offset of every directory, the number of its entries, and where its tags are."""
    with tifffile.TiffFile(path) as source:
        found = []
        for page in source.pages:
            count = len(page.tags)
            places = {tag.code: tag.offset for tag in page.tags}
            found.append((page.offset, count, places))
        return found


def patch(path, at, data):
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def loop(path, entry, first):
    """The next directory is the first one again."""
    offset, count, _ = entry
    patch(path, offset + 2 + 12 * count, struct.pack("<I", first))


def no_entries(path, entry, _first):
    patch(path, entry[0], b"\0\0")


def many_entries(path, entry, _first):
    patch(path, entry[0], b"\xff\xff")


def no_width(path, entry, _first):
    patch(path, entry[2][WIDTH], struct.pack("<H", 65000))


def unknown_scheme(path, entry, _first):
    patch(path, entry[2][SCHEME] + 8, struct.pack("<I", 61234))


def absurd_count(path, entry, _first):
    patch(path, entry[2][OFFSETS] + 4, struct.pack("<I", 2**31))


def beyond(path, entry, _first):
    offset, count, _ = entry
    patch(path, offset + 2 + 12 * count, struct.pack("<I", 2**31))


ENDS = {"loop": loop, "link-beyond-the-end": beyond}
"""What ends the chain behind a directory that is sound itself."""

LOST = {
    "no-entries": no_entries,
    "65535-entries": many_entries,
    "no-width": no_width,
    "unknown-compression": unknown_scheme,
    "absurd-count": absurd_count,
}
"""What makes a directory unreadable."""


def opened(path, names):
    """Return the pixels of some groups, after one warning."""
    with pytest.warns(UserWarning, match="left out") as caught:
        group = jnrrdz.scan(path)
    assert len([each for each in caught if "left out" in str(each.message)]) == 1
    assert group.attributes["refused"]
    with pytest.warns(UserWarning, match="left out"):
        root = jnrrdz.open_group(path)
    return group, [root[name][...] for name in names]


@pytest.mark.parametrize("damage", LOST)
@pytest.mark.parametrize("shapes_differ", [False, True])
def test_a_damaged_last_page_costs_itself(tmp_path, damage, shapes_differ):
    pages = pages_of(3)
    path = write(tmp_path / "a.tif", pages, shapes_differ=shapes_differ)
    entries = directories(path)
    LOST[damage](path, entries[2], entries[0][0])
    np.testing.assert_array_equal(by_gdal(path)[0], pages[0])
    is_stack = damage.endswith("entries") and not shapes_differ
    names = ["data"] if is_stack else ["page_0/data", "page_1/data"]
    _, found = opened(path, names)
    first, second = found[0] if is_stack else found
    np.testing.assert_array_equal(first, pages[0])
    np.testing.assert_array_equal(second, pages[1, : len(second)])


@pytest.mark.parametrize("damage", ["no-width", "unknown-compression", "absurd-count"])
def test_pages_behind_a_damaged_one_keep_their_numbers(tmp_path, damage):
    pages = pages_of(3)
    path = write(tmp_path / "a.tif", pages)
    entries = directories(path)
    LOST[damage](path, entries[1], entries[0][0])
    group, found = opened(path, ["page_0/data", "page_2/data"])
    assert sorted(group.children) == ["page_0", "page_2"]
    np.testing.assert_array_equal(found, pages[[0, 2]])


@pytest.mark.parametrize("end", ENDS)
def test_a_chain_that_leads_nowhere_ends_there(tmp_path, end):
    pages = pages_of(3)
    path = write(tmp_path / "a.tif", pages)
    entries = directories(path)
    ENDS[end](path, entries[2], entries[0][0])
    _, (found,) = opened(path, ["data"])
    np.testing.assert_array_equal(found, pages)


@pytest.mark.parametrize("damage", LOST)
def test_a_damaged_first_directory_is_an_error(tmp_path, damage):
    path = write(tmp_path / "a.tif", pages_of(2))
    entries = directories(path)
    LOST[damage](path, entries[0], entries[0][0])
    with pytest.raises(jnrrdz.JnrrdzError, match=r"a\.tif"):
        jnrrdz.scan(path)


@pytest.mark.parametrize("damage", LOST)
def test_a_damaged_sub_ifd_costs_itself(tmp_path, damage):
    page = pages_of(1)[0]
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as target:
        target.write(page, subifds=2, tile=(16, 16), metadata=None)
        target.write(page[::2, ::2], subfiletype=1, metadata=None)
        target.write(page[::4, ::4], subfiletype=1, metadata=None)
    with tifffile.TiffFile(path) as source:
        below = source.pages[0].pages
        places = {tag.code: tag.offset for tag in below[0].tags}
        entry = below[0].offset, len(below[0].tags), places
    LOST[damage](path, entry, 0)
    _, (full, quarter) = opened(path, ["0/data", "1/data"])
    np.testing.assert_array_equal(full, page)
    np.testing.assert_array_equal(quarter, page[::4, ::4])


def test_many_damaged_pages_are_one_warning(tmp_path):
    path = write(tmp_path / "a.tif", pages_of(30))
    entries = directories(path)
    for entry in entries[1:]:
        no_width(path, entry, 0)
    group, (found,) = opened(path, ["data"])
    assert len(group.attributes["refused"]) == 29
    np.testing.assert_array_equal(found, pages_of(30)[0])
