"""Segments of bytes that were compressed, of samples of any width, against GDAL."""

import zlib

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import MalformedError
from tests.readers import by_gdal
from tests.writers import tiff_of, tiff_tags

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
ENCODERS = {
    1: bytes,
    5: imagecodecs.lzw_encode,
    8: zlib.compress,
    32773: imagecodecs.packbits_encode,
    32946: imagecodecs.deflate_encode,
    34925: imagecodecs.lzma_encode,
    50000: imagecodecs.zstd_encode,
}
WIDTH, HEIGHT = 64, 40


def pixels_of(path):
    """Return the pixels as `tiff-tile` reads them; Zarr's own codecs take no more bytes."""
    hierarchy = jnrrdz.scan(path, codecs="proposal")
    return jnrrdz.open_group(hierarchy)["data"][...]


@pytest.mark.parametrize("rows", [HEIGHT, 16])
@pytest.mark.parametrize("surplus", [1, 100, 500, 50_000])
@pytest.mark.parametrize("scheme", ENCODERS)
def test_what_a_stream_has_beyond_its_strip_is_left_out(tmp_path, scheme, surplus, rows):
    pixels = np.arange(HEIGHT * WIDTH, dtype="<u2").reshape(HEIGHT, WIDTH)
    strips = [
        bytes(ENCODERS[scheme](pixels[top : top + rows].tobytes() + bytes(surplus))) for top in range(0, HEIGHT, rows)
    ]
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_of(strips, tiff_tags(WIDTH, HEIGHT, 16, scheme, rows=rows)))
    np.testing.assert_array_equal(by_gdal(path)[0], pixels)
    np.testing.assert_array_equal(pixels_of(path), pixels)


@pytest.mark.parametrize("sharing", [(1, 1), (2, 1), (2, 2), (4, 2)])
@pytest.mark.parametrize("surplus", [0, 1, 500, 50_000])
@pytest.mark.parametrize("scheme", ENCODERS)
def test_so_are_bytes_beyond_a_strip_of_ycbcr(tmp_path, scheme, surplus, sharing):
    path = tmp_path / "a.tif"
    across, down = sharing
    for height, rows in ((32, 32), (40, 16), (37, 16)):
        strips = []
        for top in range(0, height, rows):
            units = -(-WIDTH // across) * -(-min(rows, height - top) // down)
            pixels = np.random.default_rng(top).integers(16, 235, units * (across * down + 2))
            data = pixels.astype("u1").tobytes() + bytes(surplus)
            strips.append(bytes(ENCODERS[scheme](data)))
        tags = tiff_tags(WIDTH, height, 8, scheme, samples=3, photometric=6, rows=rows)
        tags[530] = (3, sharing)
        path.write_bytes(tiff_of(strips, tags))
        found = jnrrdz.open_group(path)["data"][...]
        np.testing.assert_array_equal(found, by_gdal(path)[:3])


@pytest.mark.parametrize("scheme", [5, 8])
def test_a_strip_that_lacks_rows_of_the_image_is_refused(tmp_path, scheme):
    """The first of two strips has as many rows as the last, or some more."""
    pixels = np.arange(40 * WIDTH, dtype="u1").reshape(40, WIDTH)
    path = tmp_path / "a.tif"
    for rows in (16, 20, 23):
        strips = [bytes(ENCODERS[scheme](part.tobytes())) for part in (pixels[:rows], pixels[24:])]
        path.write_bytes(tiff_of(strips, tiff_tags(WIDTH, 40, 8, scheme, rows=24)))
        array = jnrrdz.open_group(jnrrdz.scan(path, codecs="proposal"))["data"]
        np.testing.assert_array_equal(array[24:], pixels[24:])
        with pytest.raises(MalformedError, match=r"neither a whole|only a tile at its edge"):
            array[...]


@pytest.mark.parametrize("scheme", [8, 32946])
def test_a_damaged_stream_of_the_right_length_is_refused(tmp_path, scheme):
    stream = bytearray(zlib.compress(bytes(WIDTH * HEIGHT)))
    stream[-1] ^= 1  # of its checksum
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_of([bytes(stream)], tiff_tags(WIDTH, HEIGHT, 8, scheme)))
    with pytest.raises(MalformedError, match="do not decode"):
        pixels_of(path)


@pytest.mark.parametrize("scheme", ENCODERS)
def test_tiles_may_be_listed_as_strips(tmp_path, scheme):
    pixels = np.arange(64 * 32, dtype="<u2").reshape(64, 32)
    tiles = [
        bytes(ENCODERS[scheme](pixels[y : y + 16, x : x + 16].tobytes()))
        for y in range(0, 64, 16)
        for x in range(0, 32, 16)
    ]
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_of(tiles, tiff_tags(32, 64, 16, scheme, tile=(16, 16))))
    np.testing.assert_array_equal(by_gdal(path)[0], pixels)
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], pixels)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("bits", [2, 4, 6, 10, 12, 14, 20, 24, 31])
def test_signed_samples_of_any_width(tmp_path, bits, order):
    """GDAL gives their bits without a sign."""
    numbers = np.random.default_rng(bits).integers(0, 1 << bits, (HEIGHT, WIDTH))
    shifts = np.arange(bits - 1, -1, -1)
    flags = numbers[..., None] >> shifts & 1
    packed = np.packbits(flags.astype("u1").reshape(HEIGHT, -1), axis=-1)
    if (bits, order) == (24, ">"):  # three bytes, which libtiff swaps
        packed = packed.reshape(-1, 3)[:, ::-1]
    data = packed.tobytes()
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_of([data], tiff_tags(WIDTH, HEIGHT, bits, form=2), order))
    found = jnrrdz.open_group(path)["data"][...]
    assert found.dtype.kind == "i"
    signed = np.where(numbers >> (bits - 1), numbers - (1 << bits), numbers)
    np.testing.assert_array_equal(found, signed)
    theirs = by_gdal(path)[0].astype("i8") & (1 << bits) - 1
    np.testing.assert_array_equal(found.astype("i8") & (1 << bits) - 1, theirs)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("scheme", [5, 8, 50000])
def test_predicted_floats_of_24_bits(tmp_path, scheme, order, samples):
    rng = np.random.default_rng(0)
    octets = rng.integers(0, 256, (HEIGHT, WIDTH, samples, 3), "u1")
    octets[..., 0] = 60 + octets[..., 0] % 8  # the highest: neither NaN nor infinite
    planes = np.moveaxis(octets, -1, 1).reshape(HEIGHT, -1, samples)
    differences = np.diff(planes, axis=1, prepend=np.zeros((HEIGHT, 1, samples), "u1"))
    stream = bytes(ENCODERS[scheme](differences.astype("u1").tobytes()))
    path = tmp_path / "a.tif"
    tags = tiff_tags(WIDTH, HEIGHT, 24, scheme, samples=samples, form=3, predictor=3)
    path.write_bytes(tiff_of([stream], tags, order))
    theirs = by_gdal(path)
    found = jnrrdz.open_group(path)["data"][...].reshape(theirs.shape)
    assert np.unique(theirs).size > 1000
    np.testing.assert_array_equal(found, theirs)
