"""Pages with words of their own (XMP, GDAL's metadata) are compared once each, however many there are."""

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.formats.tiff.pages import Pages
from jnrrdz.formats.tiff.structure import TiffLayout

XMP, GDAL_METADATA, MIN_SAMPLE, JPEG_TABLES = 700, 42112, 280, 347
SHAPE = (6, 7)
WORDS = 4096


def xmp(number):
    text = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><n>{number}</n></x:xmpmeta>'
    return text.ljust(WORDS).encode()


def write(path, count, tags, description=None):
    """Write pages with tags of their own; `tags(number)` gives those of a page."""
    pages = np.random.default_rng(count).integers(0, 250, (count, *SHAPE)).astype("u1")
    with tifffile.TiffWriter(path) as target:
        for number, page in enumerate(pages):
            target.write(
                page,
                metadata=None,
                contiguous=False,
                photometric="minisblack",
                description=description if number == 0 else None,
                extratags=tags(number),
            )
    return pages


def with_xmp(number):
    return [(XMP, 1, WORDS, xmp(number), True)]


def with_metadata(number):
    text = f"<GDALMetadata><Item name='n'>{number}</Item></GDALMetadata>".ljust(WORDS)
    return [(GDAL_METADATA, 2, 0, text, True)]


def with_minimum(number):
    return [(MIN_SAMPLE, 3, 1, number % 200, True)]


@pytest.mark.parametrize("count", [64, 65, 700])
@pytest.mark.parametrize("tags", [with_xmp, with_minimum])
def test_what_changes_no_pixel_changes_no_array(tmp_path, tags, count):
    path = tmp_path / "a.tif"
    write(path, count, tags)
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("page", "y", "x")
    np.testing.assert_array_equal(found.values, tifffile.imread(path))


@pytest.mark.parametrize("count", [64, 65, 300])
def test_pages_that_mean_something_else_are_groups(tmp_path, count):
    path = tmp_path / "a.tif"
    pages = write(path, count, with_metadata)
    group = jnrrdz.scan(path)
    assert len(group.children) == count
    root = jnrrdz.open_group(path)
    np.testing.assert_array_equal(root[f"page_{count - 1}/data"][...], pages[-1])


OME = (
    '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
    '<Image ID="Image:0" Name="a"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" '
    'SizeX="7" SizeY="6" SizeZ="1" SizeC="1" SizeT="{0}">'
    '<TiffData IFD="0" PlaneCount="{0}"/></Pixels></Image></OME>'
)


@pytest.mark.parametrize("tags", [with_xmp, with_metadata])
def test_ome_of_pages_with_words(tmp_path, tags):
    path = tmp_path / "a.ome.tif"
    write(path, 700, tags, OME.format(700))
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("t", "y", "x")
    np.testing.assert_array_equal(found.values, tifffile.imread(path, is_ome=True))


def test_each_value_is_read_once(tmp_path):
    path = tmp_path / "a.tif"
    write(path, 200, with_metadata)
    data = path.read_bytes()
    read = []

    def count(start, stop):
        read.append(stop - start)
        return data[start:stop]

    layout = TiffLayout(count, len(data))
    pages = Pages(layout, str(path), layout.main)
    assert len(pages.kinds) == 200
    assert sum(size >= WORDS for size in read) <= 201
    assert sum(read) < 2 * len(data)


def test_values_that_share_their_bytes_are_read_once(tmp_path):
    """Every page names one value; a small file stays a small file."""
    path = tmp_path / "a.tif"
    write(path, 300, with_xmp)
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as source:
        places = [page.tags[XMP].offset for page in source.pages]
    shared = len(data)
    data += b"x" * (1 << 20)
    for number, place in enumerate(places):
        # GDAL's metadata, of 1 MiB: from one of two places
        start = shared - number % 2
        head = GDAL_METADATA.to_bytes(2, "little") + (2).to_bytes(2, "little")
        data[place : place + 12] = head + (1 << 20).to_bytes(4, "little") + start.to_bytes(4, "little")
    layout = TiffLayout(lambda start, stop: bytes(data[start:stop]), len(data))
    assert len(Pages(layout, "a.tif", layout.main).kinds) == 2
