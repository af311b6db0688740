"""JPEG tiles whose tags do not quite fit them, against GDAL."""

import io

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from PIL import Image

import jnrrdz
from jnrrdz.errors import MalformedError
from tests.writers import change_tags, tiff_of, tiff_tags

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
SIDE = 64


def picture(height, width, samples=1):
    """Return smooth pixels, rows first."""
    y, x, _ = np.mgrid[:height, :width, :1]
    waves = 128 + 100 * np.sin(x / 9 + np.arange(samples)) * np.cos(y / 7)
    return waves.astype("u1").squeeze()


def written(path, tiles, shape, samples=1, **numbers):
    """Write encoded tiles with tifffile, and change tags to numbers."""
    bands = (samples,) if samples > 1 else ()
    kind = "rgb" if samples == 3 else "minisblack"
    tifffile.imwrite(
        path,
        iter(tiles),
        shape=(*shape, *bands),
        dtype="u1",
        tile=(SIDE, SIDE),
        compression="jpeg",
        photometric=kind,
        planarconfig="contig" if bands else None,
        metadata=None,
    )
    return change_tags(path, **numbers)


def by_gdal(path):
    """Return the pixels as GDAL reads them, without axes of one element."""
    with rasterio.open(path) as image:
        return image.read().squeeze()


@pytest.mark.parametrize("photometric", [0, 1, 2, 5])
def test_one_sample_is_grey_whatever_it_is_called(tmp_path, photometric):
    tile = imagecodecs.jpeg8_encode(picture(SIDE, SIDE), 90)
    tags = {"PhotometricInterpretation": photometric}
    path = written(tmp_path / "a.tif", [tile], (SIDE, SIDE), **tags)
    found = jnrrdz.open_group(path)["data"][...]
    np.testing.assert_array_equal(found, by_gdal(path))


@pytest.mark.parametrize("size", [(40, SIDE), (SIDE, 40)])
@pytest.mark.parametrize("samples", [1, 3])
def test_a_short_tile_is_accepted_only_at_the_edge(tmp_path, samples, size):
    options = {"colorspace": "RGB", "outcolorspace": "RGB"} if samples == 3 else {}
    pixels = picture(SIDE, SIDE, samples), picture(*size, samples)
    whole, short = (imagecodecs.jpeg8_encode(each, 95, **options) for each in pixels)
    shape = tuple(SIDE + side % SIDE for side in size)
    at_edge, before = ((whole, short), (short, whole))
    path = written(tmp_path / "edge.tif", at_edge, shape, samples)
    group = jnrrdz.open_group(path)
    found = np.moveaxis(group["data"][...].reshape(samples, *shape), 0, -1)
    last = found[-size[0] :, -size[1] :].squeeze()
    np.testing.assert_array_equal(last, imagecodecs.jpeg8_decode(short, **options))
    path = written(tmp_path / "before.tif", before, shape, samples)
    array = jnrrdz.open_group(path)["data"]
    bands = (slice(None),) * (array.ndim - 2)
    with pytest.raises(MalformedError, match="only a tile at its edge may be smaller"):
        array[...]
    with pytest.raises(MalformedError, match="only a tile at its edge may be smaller"):
        array.oindex[(*bands, [0, 63], [0, 63])]


APPLICATION = b"\xff\xe5\0\x06\xff\xd9\xff\xd9"
"""A marker segment whose contents look like ends of an image."""
JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"


@pytest.mark.parametrize("padding", [bytes(4096), b"\xff" * 5000, b"\xff\xd9" * 3])
@pytest.mark.parametrize("options", [{}, {"lossless": True}])
def test_bytes_behind_the_end_of_an_image_are_padding(tmp_path, options, padding):
    tile = imagecodecs.jpeg8_encode(picture(SIDE, SIDE), 90, **options)
    tile = tile[:2] + APPLICATION + tile[2:]
    path = written(tmp_path / "a.tif", [tile + padding], (SIDE, SIDE))
    found = jnrrdz.open_group(path)["data"][...]
    np.testing.assert_array_equal(found, by_gdal(path))
    np.testing.assert_array_equal(found, tifffile.imread(path))
    check_cut(tmp_path, tile, padding)


@pytest.mark.parametrize("padding", [b"", bytes(5000)])
def test_a_progressive_jpeg_ends_behind_its_last_scan(tmp_path, padding):
    file = io.BytesIO()
    Image.fromarray(picture(SIDE, SIDE)).save(file, "jpeg", progressive=True)
    tile = file.getvalue()
    path = written(tmp_path / "a.tif", [tile + padding], (SIDE, SIDE))
    found = jnrrdz.open_group(path)["data"][...]
    np.testing.assert_array_equal(found, by_gdal(path))
    check_cut(tmp_path, tile, padding)


def check_cut(tmp_path, tile, padding):
    """Check that a tile that is cut off is refused, with padding behind it too."""
    whole = len(tile)
    for kept in (whole - 1, whole - 20, whole // 2):
        data = tile[:kept] + bytes(len(padding))
        path = written(tmp_path / "cut.tif", [data], (SIDE, SIDE))
        with pytest.raises(MalformedError, match="are cut off: no end of image"):
            jnrrdz.open_group(path)["data"][...]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("header", [b"", JFIF])
def test_colours_of_a_lossless_jpeg_are_as_they_are_stored(tmp_path, header, bits):
    pixels = picture(SIDE, SIDE, 3).astype(f"u{bits // 8}") << (bits - 8)
    options = {"colorspace": "RGB", "outcolorspace": "RGB"}
    data = imagecodecs.jpeg8_encode(pixels, lossless=True, bitspersample=bits, **options)
    data = data[:2] + header + data[2:]
    path = tmp_path / "a.tif"
    tags = tiff_tags(SIDE, SIDE, bits, 7, photometric=2, samples=3)
    path.write_bytes(tiff_of([data], tags))
    found = jnrrdz.open_group(path)["data"][...]
    np.testing.assert_array_equal(found, np.moveaxis(pixels, -1, 0))
    np.testing.assert_array_equal(found, np.moveaxis(tifffile.imread(path), -1, 0))
