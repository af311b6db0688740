"""Geometry, types and segments of an image, against tifffile's view of the same file; refusals name their tag."""

import io
import itertools
import struct
from functools import partial

import numpy as np
import pytest
import rasterio
import tifffile

import jnrrdz
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.tiff.image import segments, tiff_image
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import sample_dtype
from tests.readers import by_gdal
from tests.writers import tiff_bytes

written = partial(tiff_bytes, metadata=None)


def parsed(data):
    layout = TiffLayout(lambda start, stop: data[start:stop], len(data))
    return layout, tiff_image(layout, layout.ifd(layout.main[0]))


def changed(data, **tags):
    """Return a file with the values of tags changed in place."""
    file = io.BytesIO(data)
    with tifffile.TiffFile(file, mode="r+") as tif:
        for name, (value, kind) in tags.items():
            tif.pages[0].tags[name].overwrite(value, dtype=kind)
        file.seek(0)
        return file.read()


SHAPES = {"grey": (37, 53), "chunky": (37, 53, 3), "planar": (3, 37, 53)}
DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_tifffile_sees(shape, dtype):
    cases = itertools.product("<>", (False, True), ({"tile": (16, 32)}, {"rowsperstrip": 8}))
    for order, big, layout_options in cases:
        planar = {"chunky": "contig", "planar": "separate"}.get(shape)
        options = {"byteorder": order, "bigtiff": big, "photometric": "minisblack", "planarconfig": planar}
        data = written(np.zeros(SHAPES[shape], dtype), **options, **layout_options)
        layout, image = parsed(data)
        with tifffile.TiffFile(io.BytesIO(data)) as tif:
            page = tif.pages[0]
            assert (image.width, image.length, image.samples) == (
                page.imagewidth,
                page.imagelength,
                page.samplesperpixel,
            )
            assert image.tiled == page.is_tiled
            assert sample_dtype(image.bits, image.formats) == page.dtype.newbyteorder("=")
            assert image.separate == (shape == "planar")
            found = segments(layout, image)
            assert found.offsets.tolist() == list(page.dataoffsets)
            assert found.lengths.tolist() == list(page.databytecounts)
            assert image.segments == len(page.dataoffsets)


def test_lengths_of_raw_segments_are_no_more_than_their_pixels():
    data = written(np.ones((16, 16), "u1"), tile=(16, 16))
    layout, image = parsed(changed(data, TileByteCounts=(400, "I")) + bytes(500))
    assert segments(layout, image).lengths.tolist() == [256]


LISTS = {"strips": ("StripOffsets", "StripByteCounts"), "tiles": ("TileOffsets", "TileByteCounts")}


def four_segments(kind):
    """Return a file of four segments, and their offsets and lengths."""
    options = {"tile": (16, 16)} if kind == "tiles" else {"rowsperstrip": 4}
    data = written(np.ones((16, 64), "u1"), compression="zlib", **options)
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        return data, list(tif.pages[0].dataoffsets), list(tif.pages[0].databytecounts)


@pytest.mark.parametrize("kind", LISTS)
def test_a_segment_without_a_place_is_missing(kind, tmp_path):
    data, offsets, counts = four_segments(kind)
    offsets[1], counts[1] = 0, 0
    lists = dict(zip(LISTS[kind], ((offsets, "I"), (counts, "I")), strict=True))
    data = changed(data, **lists)
    assert segments(*parsed(data)).missing.tolist() == [False, True, False, False]
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        expected = by_gdal(tmp_path / "a.tif")[0]
    assert (expected == 0).sum() == 256
    found = jnrrdz.open_group(tmp_path / "a.tif")["data"][...]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", LISTS)
def test_one_of_several_segments_with_a_place_and_no_bytes_is_refused(kind):
    """Others read it as blank, be it absent or damaged."""
    data, offsets, counts = four_segments(kind)
    counts[2] = 0
    data = changed(data, **{LISTS[kind][1]: (counts, "I")})
    reason = f"{LISTS[kind][1]}: segment 2 of 4 begins at {offsets[2]} and has 0 bytes"
    with pytest.raises(MalformedError, match=reason):
        segments(*parsed(data))


@pytest.mark.parametrize("scheme", [None, "lzw", "zlib", "packbits", "zstd", "lzma", "jpeg"])
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_the_length_of_an_only_strip_is_estimated_where_it_is_0(tmp_path, scheme):
    pixels = np.random.default_rng(0).integers(0, 250, (32, 64), "u1")
    data = written(pixels, compression=scheme)
    path = tmp_path / "a.tif"
    path.write_bytes(changed(data, StripByteCounts=([0], "I")))
    expected = by_gdal(path)[0]
    assert expected.any()
    found = jnrrdz.open_group(path)["data"][...]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, tifffile.imread(io.BytesIO(data)))


def test_the_length_of_an_only_strip_of_a_page_is_estimated_too(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 250, (5, 32, 64), "u1")
    path = tmp_path / "a.tif"
    options = {"compression": "zlib", "photometric": "minisblack"}
    tifffile.imwrite(path, pixels, metadata=None, **options)
    with tifffile.TiffFile(path, mode="r+") as tif:
        tif.pages[2].tags["StripByteCounts"].overwrite(0)
    found = jnrrdz.open_group(path)["data"]
    assert found.shape == pixels.shape
    np.testing.assert_array_equal(found[...], pixels)


def test_an_only_tile_of_no_bytes_is_refused():
    data = written(np.ones((16, 16), "u1"), compression="zlib", tile=(16, 16))
    data = changed(data, TileByteCounts=([0], "I"))
    with pytest.raises(MalformedError, match="TileByteCounts: segment 0 of 1 begins"):
        segments(*parsed(data))


@pytest.mark.parametrize("kind", LISTS)
def test_a_segment_of_some_bytes_and_no_place_is_refused(kind):
    data, offsets, counts = four_segments(kind)
    offsets[1] = 0
    data = changed(data, **{LISTS[kind][0]: (offsets, "I")})
    with pytest.raises(MalformedError, match=f"{LISTS[kind][0]}: segment 1 begins at 0.*gives it {counts[1]} bytes"):
        segments(*parsed(data))


def test_a_raw_pixel_at_the_start_of_the_file_is_missing_with_a_warning():
    """The smallest TIFF of GDAL's own tests is such a one; every reader sees 0 in it."""
    tags = {256: 1, 257: 1, 273: 0, 279: 1}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    data = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)
    with pytest.warns(UserWarning, match="segment 0 begins at 0, and StripByteCounts gives it 1 bytes: it is missing"):
        assert segments(*parsed(data)).missing.all()
    assert not tifffile.imread(io.BytesIO(data)).any()


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("listed", [0, 1, 3])
def test_a_segment_whose_length_is_not_listed_is_refused(kind, listed):
    data, _, counts = four_segments(kind)
    data = with_count(changed(data, **{LISTS[kind][1]: (counts, "I")}), LISTS[kind][1], listed)
    with pytest.warns(UserWarning, match="the others are missing"), pytest.raises(MalformedError) as caught:
        segments(*parsed(data))
    assert f"{LISTS[kind][1]}: {listed} values for 4 segments: the length of segment {listed}" in str(caught.value)


def with_count(data, name, count):
    """Return a file whose tag says that it has so many values."""
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        at = tif.pages[0].tags[name].offset
    return data[: at + 4] + struct.pack("<I", count) + data[at + 8 :]


@pytest.mark.parametrize("compression", [5, 6])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_subsampling_that_is_no_pair_is_refused_by_name(tmp_path, compression, count):
    tags = [(530, 3, count, (2, 2, 2)[:count] if count != 1 else 2, True)] if count else [(530, 3, 1, 2, True)]
    data = written(np.zeros((16, 16, 3), "u1"), photometric="rgb", extratags=tags)
    data = changed(data, PhotometricInterpretation=(6, "H"), Compression=(compression, "H"))
    (tmp_path / "a.tif").write_bytes(data if count else with_count(data, "YCbCrSubSampling", 0))
    with pytest.raises(MalformedError, match=f"YCbCrSubSampling: {count} values where two belong"):
        jnrrdz.scan(tmp_path / "a.tif")


SINGLE = ["ImageWidth", "ImageLength", "SamplesPerPixel", "RowsPerStrip", "Compression", "PhotometricInterpretation"]


@pytest.mark.parametrize("name", [*SINGLE, "BitsPerSample", "SampleFormat"])
def test_a_tag_without_values_is_refused_by_name(name):
    data = with_count(written(np.zeros((8, 8), "i2"), rowsperstrip=4), name, 0)
    with pytest.raises(MalformedError, match=f"{name}: 0 values where one belongs"):
        parsed(data)


@pytest.mark.parametrize("name", SINGLE)
def test_a_tag_with_many_values_is_refused_by_name(name):
    data = with_count(written(np.arange(640, dtype="i2").reshape(20, 32), rowsperstrip=4), name, 33)
    with pytest.raises(MalformedError, match=f"{name}: 33 values where one belongs"):
        parsed(data)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({"ImageWidth": (0, "I")}, "ImageWidth: a side of 0 pixels"),
        ({"ImageLength": (2**31, "I")}, "ImageLength: a side of 2147483648"),
        ({"TileWidth": (0, "I")}, "TileWidth: a side of 0"),
        ({"SamplesPerPixel": (0, "H")}, "SamplesPerPixel: 0 samples"),
        ({"TileOffsets": ([2**32 - 1] * 4, "I")}, "TileOffsets: the file is truncated: segment 0 begins at 4294967295"),
    ],
)
def test_what_is_impossible_names_its_tag(tags, words):
    data = changed(written(np.zeros((20, 20), "u1"), tile=(16, 16)), **tags)
    with pytest.raises(MalformedError, match=words):
        segments(*parsed(data))


def test_a_segment_whose_end_is_beyond_64_bits_is_refused():
    data = written(np.zeros((20, 20), "u1"), tile=(16, 16), compression="zlib", bigtiff=True)
    with pytest.raises(MalformedError, match="TileByteCounts: the file is truncated: segment 0 ends at 9223372036854"):
        segments(*parsed(changed(data, TileByteCounts=([2**63 - 1] * 4, "Q"))))


def test_segments_that_are_not_listed_are_missing_with_a_warning():
    data = changed(written(np.zeros((20, 20), "u1"), tile=(16, 16)), ImageWidth=(4000, "I"))
    with pytest.warns(UserWarning, match="lists 4 of 500 segments"):
        found = segments(*parsed(data))
    assert found.missing.tolist() == [False] * 4 + [True] * 496


@pytest.mark.parametrize(
    ("dtype", "tags", "words"),
    [
        ("i1", {"SampleFormat": (9, "H")}, "SampleFormat: sample format 9"),
        ("i1", {"SampleFormat": (3, "H")}, "BitsPerSample"),
        ("f4", {"BitsPerSample": (31, "H")}, "BitsPerSample"),
        ("i1", {"BitsPerSample": (1, "H")}, "BitsPerSample"),
        ("u1", {"BitsPerSample": (65, "H")}, "BitsPerSample"),
        ("u1", {"BitsPerSample": (0, "H")}, "BitsPerSample"),
    ],
)
def test_types_that_nothing_holds_are_refused(dtype, tags, words):
    data = written(np.zeros((20, 20), dtype), tile=(16, 16))
    image = parsed(changed(data, **tags))[1]
    with pytest.raises(UnsupportedError, match=words):
        sample_dtype(image.bits, image.formats)


def test_one_value_stands_for_all_samples():
    data = written(np.zeros((4, 5, 3), "i2"), photometric="rgb")
    image = parsed(changed(data, BitsPerSample=(16, "H"), SampleFormat=(2, "H")))[1]
    assert (image.bits, image.formats) == ((16, 16, 16), (2, 2, 2))


def test_every_cut_of_a_file_is_an_image_or_an_error():
    data = written(np.zeros(400, "u1").reshape(20, 20), tile=(16, 16))
    for size in range(len(data)):
        try:
            segments(*parsed(data[:size]))
        except JnrrdzError as error:
            assert error.offset is not None  # noqa: PT017 - it says where
