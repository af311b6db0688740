"""No image of a file vanishes: thumbnails and pictures in SubIFDs are groups, as tifffile reads them."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz import errors

NEW_SUBFILE_TYPE = 254
RNG = np.random.default_rng(5)
PICTURE = RNG.integers(0, 60000, (90, 120)).astype("u2")
THUMBNAIL = RNG.integers(0, 250, (9, 12, 3)).astype("u1")
PLAIN = {"metadata": None, "contiguous": False}


def without_subfile_type(path, *pages):
    """Give the tag NewSubfileType of some pages a number that nobody knows."""
    content = bytearray(path.read_bytes())
    for page in pages:
        at = page.tags[NEW_SUBFILE_TYPE].offset
        content[at : at + 2] = (253).to_bytes(2, "little")
    path.write_bytes(content)


def dng(path, *, is_marked):
    """Write a thumbnail in IFD 0 and the picture in a SubIFD that does not say what it is."""
    with tifffile.TiffWriter(path) as target:
        options = {"photometric": "rgb", "subifds": 1, **PLAIN}
        target.write(THUMBNAIL, subfiletype=1, **options)
        target.write(PICTURE, photometric="minisblack", tile=(32, 32), **PLAIN)
    with tifffile.TiffFile(path) as source:
        first = source.pages[0]
        pages = first.pages if is_marked else [first, *first.pages]
        without_subfile_type(path, *[page for page in pages if NEW_SUBFILE_TYPE in page.tags])
    return path


def opened(path):
    """Return the pixels that are opened by default, and the warning."""
    errors.GIVEN_WARNINGS.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pixels = jnrrdz.open_dataset(path)["data"].values
    (text,) = [str(each.message) for each in caught if each.category is jnrrdz.ImageChoiceWarning]
    return pixels, text


def planes(image):
    """Return an image of tifffile's with its samples first."""
    return np.moveaxis(image, -1, 0) if image.ndim == 3 else image


@pytest.mark.parametrize("overviews", [True, False])
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_picture_in_a_sub_ifd_is_a_group(tmp_path, is_marked, overviews):
    path = dng(tmp_path / "a.tif", is_marked=is_marked)
    assert set(jnrrdz.scan(path, overviews=overviews).children) == {"page_0", "page_0_sub_0"}
    root = jnrrdz.open_group(path)
    with tifffile.TiffFile(path) as source:
        thumbnail = source.pages[0]
        np.testing.assert_array_equal(root["page_0/data"][...], planes(thumbnail.asarray()))
        picture = thumbnail.pages[0].asarray()
    np.testing.assert_array_equal(root["page_0_sub_0/data"][...], picture)


def test_the_picture_is_opened_where_the_file_marks_the_thumbnail(tmp_path):
    pixels, text = opened(dng(tmp_path / "a.tif", is_marked=True))
    np.testing.assert_array_equal(pixels, PICTURE)
    assert "the others are page_0." in text


def test_a_choice_names_the_picture_where_nothing_is_marked(tmp_path):
    pixels, text = opened(dng(tmp_path / "a.tif", is_marked=False))
    np.testing.assert_array_equal(pixels, planes(THUMBNAIL))
    assert "page_0_sub_0" in text


@pytest.mark.parametrize("where", ["chain", "subifds"])
def test_a_thumbnail_of_other_samples_is_a_group(tmp_path, where):
    path = tmp_path / "a.tif"
    below = {"subifds": 2} if where == "subifds" else {}
    with tifffile.TiffWriter(path) as target:
        target.write(PICTURE, photometric="minisblack", tile=(32, 32), **below, **PLAIN)
        target.write(PICTURE[::2, ::2], subfiletype=1, photometric="minisblack", **PLAIN)
        target.write(THUMBNAIL, subfiletype=1, photometric="rgb", **PLAIN)
    root = jnrrdz.open_group(path)
    np.testing.assert_array_equal(root["page_0/0/data"][...], PICTURE)
    np.testing.assert_array_equal(root["page_0/1/data"][...], PICTURE[::2, ::2])
    np.testing.assert_array_equal(root["page_0_sub_0/data"][...], planes(THUMBNAIL))
    pixels, text = opened(path)
    np.testing.assert_array_equal(pixels, PICTURE)
    assert "page_0_sub_0" in text


def test_thumbnails_of_each_page_of_a_stack_are_groups(tmp_path):
    path = tmp_path / "a.tif"
    pages = RNG.integers(0, 60000, (3, 40, 50)).astype("u2")
    with tifffile.TiffWriter(path) as target:
        for page in pages:
            target.write(page, photometric="minisblack", **PLAIN)
            target.write(THUMBNAIL, subfiletype=1, photometric="rgb", **PLAIN)
    root = jnrrdz.open_group(path)
    for number, page in enumerate(pages):
        np.testing.assert_array_equal(root[f"page_{number}/data"][...], page)
        np.testing.assert_array_equal(root[f"page_{number}_sub_0/data"][...], planes(THUMBNAIL))


def test_a_mask_of_no_images_size_is_named(tmp_path):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as target:
        target.write(PICTURE, photometric="minisblack", **PLAIN)
        target.write(np.ones((30, 30), "?"), subfiletype=4, photometric=4, **PLAIN)
    with pytest.warns(UserWarning, match="a mask of 30 x 30 pixels"):
        group = jnrrdz.scan(path)
    assert set(group.children) == {"data"}


def test_the_listing_names_all(tmp_path):
    path = dng(tmp_path / "a.tif", is_marked=True)
    listing = subprocess.run(
        [sys.executable, "-m", "jnrrdz", "ls", path],
        capture_output=True,
        check=True,
        text=True,
    )
    assert listing.stdout.split() == ["page_0_sub_0/", "page_0/"]
