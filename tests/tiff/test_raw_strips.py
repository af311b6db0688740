"""Raw strips and stacks are cut into chunks near one size, whatever the file's strips are."""

import numpy as np
import pytest
import tifffile

import jnrrdz
from tests.readers import by_gdal

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

MIB = 1 << 20


def noise(*shape):
    return np.random.default_rng(7).integers(0, 60000, shape).astype("u2")


def sizes(array):
    return int(array.refs.length.min()), int(array.refs.length.max())


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("rows", [2048, 2053])
def test_one_large_strip_is_cut(tmp_path, rows, byteorder):
    path, pixels = tmp_path / "a.tif", noise(rows, 1500)
    options = {"rowsperstrip": rows, "photometric": "minisblack", "metadata": None}
    tifffile.imwrite(path, pixels, byteorder=byteorder, **options)
    array = jnrrdz.scan(path).children["data"]
    assert sizes(array)[1] <= MIB
    assert array.refs.chunks < 64
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], by_gdal(path)[0])


def test_large_planar_strips_are_cut(tmp_path):
    path, pixels = tmp_path / "a.tif", noise(3, 1031, 700)
    options = {"planarconfig": "separate", "photometric": "rgb", "rowsperstrip": 1031}
    tifffile.imwrite(path, pixels, metadata=None, **options)
    assert sizes(jnrrdz.scan(path).children["data"])[1] <= MIB
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], by_gdal(path))


def test_large_interleaved_strips_are_cut(tmp_path):
    path, pixels = tmp_path / "a.tif", noise(1031, 700, 3)
    tifffile.imwrite(path, pixels, photometric="rgb", rowsperstrip=1031, metadata=None)
    assert sizes(jnrrdz.scan(path).children["data"])[1] <= MIB
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], by_gdal(path))


@pytest.mark.parametrize("rows", [1200, 1201])
def test_large_strips_apart_are_cut_within_each(tmp_path, rows):
    """The second strip begins elsewhere: rows are whole, chunks are of one strip each."""
    path, pixels = tmp_path / "a.tif", noise(2 * rows - 100, 700)
    tifffile.imwrite(path, pixels, photometric="minisblack", rowsperstrip=rows, metadata=None)
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as source:
        page = source.pages[0]
        first, second = page.dataoffsets
        nbytes = page.databytecounts[1]
        tag = page.tags["StripOffsets"]
    moved = len(data) + 3
    data += b"abc" + data[second : second + nbytes]
    data[second : second + nbytes] = bytes(nbytes)
    listed = np.array([first, moved], "<u4").tobytes()
    data[tag.valueoffset : tag.valueoffset + 8] = listed
    path.write_bytes(data)
    np.testing.assert_array_equal(by_gdal(path)[0], pixels)
    array = jnrrdz.scan(path).children["data"]
    assert sizes(array)[1] <= 2 * MIB
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], pixels)


def test_a_strip_beyond_two_gigabytes(tmp_path):
    """A sparse file: only the last row has bytes."""
    path, rows, columns = tmp_path / "a.tif", 40_009, 30_000
    small = np.zeros((1, columns), "u2")
    options = {"photometric": "minisblack", "metadata": None, "bigtiff": True}
    tifffile.imwrite(path, small, rowsperstrip=rows, **options)
    with tifffile.TiffFile(path, mode="r+b") as source:
        page = source.pages[0]
        (start,) = page.dataoffsets
        page.tags["ImageLength"].overwrite(rows)
        page.tags["RowsPerStrip"].overwrite(rows)
        page.tags["StripByteCounts"].overwrite(rows * columns * 2)
    last = np.arange(columns).astype("<u2")
    with path.open("r+b") as file:
        file.seek(start + (rows - 1) * columns * 2)
        file.write(last.tobytes())
    array = jnrrdz.scan(path).children["data"]
    assert array.shape == (rows, columns)
    assert sizes(array)[1] <= MIB
    found = jnrrdz.open_group(path)["data"]
    np.testing.assert_array_equal(found[rows - 1], last)
    assert not found[rows - 2].any()


def test_a_stack_of_a_prime_number_of_planes(tmp_path):
    path, pixels = tmp_path / "a.tif", noise(2003, 24, 25)
    tifffile.imwrite(path, pixels, metadata=None, photometric="minisblack")
    array = jnrrdz.scan(path).children["data"]
    assert array.refs.chunks < 8
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], tifffile.imread(path))


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
def test_axes_that_change_places_and_do_not_divide(tmp_path, dtype, byteorder):
    """Time is fastest in the file, and comes before channels in the array."""
    path, pixels = tmp_path / "a.ome.tif", noise(2, 1009, 24, 50).astype(dtype)
    options = {"metadata": {"axes": "CTYX"}, "photometric": "minisblack"}
    tifffile.imwrite(path, pixels, ome=True, byteorder=byteorder, **options)
    array = jnrrdz.scan(path).children["data"]
    assert array.dimension_names == ("t", "c", "y", "x")
    assert array.refs.chunks < 32
    found = jnrrdz.open_group(path)["data"][...]
    np.testing.assert_array_equal(found, pixels.swapaxes(0, 1))


def test_a_divisor_near_the_target_is_read_by_zarr_alone(tmp_path):
    path, pixels = tmp_path / "a.tif", noise(2000, 1500)
    tifffile.imwrite(path, pixels, photometric="minisblack", rowsperstrip=2000, metadata=None)
    array = jnrrdz.scan(path, codecs="standard").children["data"]
    assert [codec.name for codec in array.codecs] == ["bytes"]
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], pixels)


def test_a_large_strip_without_all_of_its_bytes_is_not_cut(tmp_path):
    """Parts of it would be beyond the end of the file."""
    pixels = np.zeros((2053, 3000), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", pixels, rowsperstrip=2053)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as file:
        file.pages.first.tags["StripByteCounts"].overwrite(4000)
    data = (tmp_path / "a.tif").read_bytes()
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        (start,) = file.pages.first.dataoffsets
    (tmp_path / "a.tif").write_bytes(data[: start + 4000])
    try:
        group = jnrrdz.scan(tmp_path / "a.tif")
    except jnrrdz.JnrrdzError:
        return
    for _, array in group.arrays():
        assert (array.refs.offset + array.refs.length <= start + 4000).all()
