"""Pages that all agree are one array; pages that do not are a group each."""

import struct

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.formats.tiff.pages import Pages
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.readahead import ReadAhead
from tests.growth import steps
from tests.writers import tiff_pages


def pattern(*shape, dtype="u2"):
    """Noise: no two planes are alike."""
    top = min(np.iinfo(dtype).max, 60000) if np.dtype(dtype).kind in "iu" else 1000
    return np.random.default_rng(0).integers(0, top, shape).astype(dtype)


STACKS = {
    "strips": ((7, 40, 33), {}),
    "rows-of-one": ((5, 40, 33), {"rowsperstrip": 1}),
    "tiles-deflate": ((4, 70, 50), {"tile": (32, 16), "compression": "zlib", "predictor": True}),
    "big-endian": ((3, 40, 33), {"byteorder": ">"}),
    "bigtiff": ((3, 40, 33), {"bigtiff": True, "tile": (16, 16)}),
    "rgb": ((3, 40, 33, 3), {"photometric": "rgb", "compression": "lzw"}),
    "planar": ((3, 3, 40, 33), {"photometric": "rgb", "planarconfig": "separate"}),
    "floats": ((3, 40, 33), {"dtype": "f4"}),
    "bytes": ((6, 8, 9), {"dtype": "u1"}),
    "large-planes": ((2, 700, 900), {}),
}


def write_stack(path, shape, options):
    options = dict(options)
    return tiff_pages(path, pattern(*shape, dtype=options.pop("dtype", "u2")), **options)


@pytest.mark.parametrize("case", STACKS)
def test_pages_that_agree_are_one_array(tmp_path, assert_like_tifffile, case):
    path = write_stack(tmp_path / "a.tif", *STACKS[case])
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims[0] == "page"
    assert_like_tifffile(found, path)


def test_first_page_with_a_description_belongs_to_the_stack(tmp_path):
    pages = pattern(4, 20, 30)
    path = tiff_pages(tmp_path / "a.tif", pages, "only the first says this")
    np.testing.assert_array_equal(jnrrdz.open_dataset(path)["data"].values, pages)


@pytest.mark.parametrize(
    ("pages", "options"),
    [
        pytest.param([pattern(20, 30), pattern(21, 30)], [{}, {}], id="shape"),
        pytest.param([pattern(20, 30), pattern(20, 30, dtype="i2")], [{}, {}], id="type"),
        pytest.param([pattern(20, 30)] * 2, [{}, {"compression": "zlib"}], id="compression"),
        pytest.param([pattern(20, 30)] * 2, [{"rowsperstrip": 20}, {"rowsperstrip": 7}], id="strips"),
        pytest.param(
            [pattern(20, 30)] * 2,
            [{"extratags": [(42113, 2, 0, "1", True)]}, {"extratags": [(42113, 2, 0, "2", True)]}],
            id="nodata",
        ),
        pytest.param(
            [pattern(20, 30)] * 2,
            [
                {"extratags": [(33550, 12, 3, (1.0, 1.0, 0.0), True), (33922, 12, 6, (0.0, 0, 0, x, 9, 0), True)]}
                for x in (5.0, 6.0)
            ],
            id="place",
        ),
    ],
)
def test_pages_that_differ_are_groups(tmp_path, pages, options):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        for page, one in zip(pages, options, strict=True):
            tif.write(page, metadata=None, contiguous=False, photometric="minisblack", **one)
    group = jnrrdz.scan(path)
    assert sorted(group.children) == ["page_0", "page_1"]
    for number, page in enumerate(pages):
        np.testing.assert_array_equal(jnrrdz.open_group(path)[f"page_{number}/data"][...], page)


def test_georeferenced_pages_of_one_place_keep_it(tmp_path):
    path = tmp_path / "a.tif"
    tags = [(33550, 12, 3, (2.0, 2.0, 0.0), True), (33922, 12, 6, (0.0, 0, 0, 100.0, 900.0, 0), True)]
    with tifffile.TiffWriter(path) as tif:
        for page in pattern(3, 20, 30):
            tif.write(page, metadata=None, contiguous=False, extratags=tags, photometric="minisblack")
    found = jnrrdz.open_dataset(path)
    assert found["data"].dims == ("page", "y", "x")
    assert "ome" not in found.attrs
    assert float(found["x"][0]) == 101.0
    assert float(found["y"][0]) == 899.0


@pytest.mark.parametrize("how", ["subifds", "following"])
def test_pages_with_overviews_are_a_pyramid_of_stacks(tmp_path, how):
    path, pages = tmp_path / "a.tif", pattern(3, 64, 96)
    options = {"tile": (16, 16), "metadata": None, "contiguous": False, "photometric": "minisblack"}
    with tifffile.TiffWriter(path) as tif:
        for page in pages:
            tif.write(page, **({"subifds": 2} if how == "subifds" else {}), **options)
            for step in (2, 4):
                tif.write(page[::step, ::step], subfiletype=1, **options)
    group = jnrrdz.open_group(path)
    for level, step in enumerate((1, 2, 4)):
        np.testing.assert_array_equal(group[f"{level}/data"][...], pages[:, ::step, ::step])
    assert [entry["asset"] for entry in group.attrs["multiscales"]["layout"]] == ["0", "1", "2"]
    assert sorted(jnrrdz.scan(path, overviews=False).children) == ["data"]


def test_small_planes_share_chunks_and_large_ones_are_cut(tmp_path):
    small = write_stack(tmp_path / "small.tif", (600, 16, 16), {})
    with tifffile.TiffWriter(tmp_path / "thin.tif") as tif:
        tif.write(pattern(600, 16, 16), metadata=None, photometric="minisblack")
    thin = jnrrdz.scan(tmp_path / "thin.tif").children["data"]
    assert thin.refs.chunks < 10
    np.testing.assert_array_equal(jnrrdz.open_dataset(tmp_path / "thin.tif")["data"].values, pattern(600, 16, 16))
    assert jnrrdz.scan(small).children["data"].shape == (600, 16, 16)
    large = jnrrdz.scan(write_stack(tmp_path / "large.tif", (2, 1500, 1200), {})).children["data"]
    assert large.refs.length.max() <= 1 << 20


def test_chunks_of_several_planes_are_never_short(tmp_path):
    """1,500 planes of 1 KB: a chunk takes 750, since 1,024 would leave a last one that ends with the file."""
    pixels = pattern(1500, 16, 32)
    tifffile.imwrite(tmp_path / "a.tif", pixels, metadata=None, photometric="minisblack")
    found = jnrrdz.scan(tmp_path / "a.tif").children["data"]
    assert found.chunks == (750, 16, 32)
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "a.tif")["data"][...], pixels)


def test_plane_without_a_place_is_missing(tmp_path):
    path = tiff_pages(tmp_path / "a.tif", pattern(3, 16, 16), compression="zlib")
    with tifffile.TiffFile(path, mode="r+") as tif:
        for name in ("StripOffsets", "StripByteCounts"):
            tif.pages[1].tags[name].overwrite(0)
    found = jnrrdz.open_group(path)["data"]
    np.testing.assert_array_equal(found[1], np.zeros((16, 16)))
    np.testing.assert_array_equal(found[2], pattern(3, 16, 16)[2])


def test_a_hundred_thousand_pages_scan_in_some_steps_each(tmp_path):
    path = tmp_path / "many.tif"
    _write_many(path, 100_000)
    assert steps(jnrrdz.scan, path) < 150 * 100_000
    assert jnrrdz.scan(path).children["data"].shape == (100_000, 4, 4)
    assert jnrrdz.open_group(path)["data"][99_999, 0, 0] == 99_999 % 251


def _write_many(path, pages):
    """One raw plane of 4 x 4 bytes a page, each before its IFD."""
    tags = [(256, 4), (257, 4), (258, 8), (259, 1), (262, 1), (273, 0), (277, 1), (278, 4), (279, 16)]
    form = struct.Struct("<16sH" + "HHII" * len(tags) + "I")
    with path.open("wb") as file:
        file.write(struct.pack("<2sHI", b"II", 42, 8 + 16))
        for number in range(pages):
            at = 8 + number * form.size
            fields = [part for tag, value in tags for part in (tag, 4, 1, value or at)]
            after = 0 if number == pages - 1 else at + form.size + 16
            file.write(form.pack(bytes([number % 251]) * 16, len(tags), *fields, after))


def test_kinds_tell_pages_apart_by_what_decides_about_pixels(tmp_path):
    """Every page is read by the columns of its kind just as the layout reads it alone."""
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        for number in range(6):
            tif.write(
                pattern(20 + number % 2, 30),
                metadata=None,
                contiguous=False,
                software=f"writer {number}",
                photometric="minisblack",
            )
    read = ReadAhead(open_source(str(path)))
    layout = TiffLayout(read, read.size)
    pages = Pages(layout, str(path), layout.main)
    assert pages.kind.tolist() == [0, 1, 0, 1, 0, 1]
    with tifffile.TiffFile(path) as tif:
        for number, page in enumerate(tif.pages):
            offsets, lengths = pages.columns(int(pages.kind[number]))
            assert tuple(offsets[pages.row[number]]) == page.dataoffsets
            assert tuple(lengths[pages.row[number]]) == page.databytecounts


def test_pages_with_masks_are_groups(tmp_path):
    path, pages = tmp_path / "a.tif", pattern(2, 20, 30)
    options = {"metadata": None, "contiguous": False}
    with tifffile.TiffWriter(path) as tif:
        for page in pages:
            tif.write(page, photometric="minisblack", **options)
            tif.write(page > 30000, photometric="mask", subfiletype=4, **options)
    group = jnrrdz.open_group(path)
    for number, page in enumerate(pages):
        np.testing.assert_array_equal(group[f"page_{number}/data"][...], page)
        np.testing.assert_array_equal(group[f"page_{number}/mask"][...], page > 30000)


def test_pages_with_unlike_numbers_of_overviews_are_groups(tmp_path):
    path, pages = tmp_path / "a.tif", pattern(2, 64, 96)
    options = {"metadata": None, "contiguous": False, "photometric": "minisblack"}
    with tifffile.TiffWriter(path) as tif:
        for number, page in enumerate(pages):
            tif.write(page, **options)
            for step in (2, 4)[: number + 1]:
                tif.write(page[::step, ::step], subfiletype=1, **options)
    group = jnrrdz.open_group(path)
    for number, page in enumerate(pages):
        for level, step in enumerate((1, 2, 4)[: number + 2]):
            np.testing.assert_array_equal(group[f"page_{number}/{level}/data"][...], page[::step, ::step])
