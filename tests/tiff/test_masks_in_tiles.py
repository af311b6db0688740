"""Tiles whose compression has a mask or alpha of its own: that of LERC, and channels beyond those of the tags."""

import io
import itertools

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.shutil import copy

import jnrrdz
from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.decode import TileDecoder
from jnrrdz.formats.tiff.synthetic import synthetic_tiff
from tests import writers
from tests.readers import by_gdal

PLACE = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 5000000)}
SIDES = {"width": 41, "height": 35}
SIDE = 64
RNG = np.random.default_rng(12)


def write(path, dtype, bands, *, alpha, nan, **options):
    """Write what GDAL makes a LERC mask of: an alpha of nothing but 0 and the largest, or floats that are NaN."""
    pixels = (RNG.random((bands, SIDES["height"], SIDES["width"])) * 100).astype(dtype)
    if alpha:
        most = np.iinfo(dtype).max if np.dtype(dtype).kind in "ui" else 1
        pixels[-1] = RNG.choice([0, most], pixels.shape[1:])
    if nan:
        holes = RNG.random((bands if nan == "each" else 1, *pixels.shape[1:])) < 0.3
        pixels[np.broadcast_to(holes, pixels.shape)] = np.nan
    profile = {**PLACE, **options}
    if alpha:
        profile["alpha"] = "yes"
    if bands > 2:
        profile["photometric"] = "rgb"
    writers.geotiff(path, pixels, **profile)


LAYOUTS = [{}, {"tiled": True, "blockxsize": 16, "blockysize": 16}]


@pytest.mark.parametrize("compress", ["LERC", "LERC_DEFLATE", "LERC_ZSTD"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"])
def test_lerc_with_masks_as_gdal_reads_it(tmp_path, compress, dtype):
    is_float = dtype.startswith("float")
    for bands, interleave, layout in itertools.product([1, 2, 3, 4], ["pixel", "band"], LAYOUTS):
        for alpha, nan in itertools.product([False, True] if bands in {2, 4} else [False], ["", "all", "each"]):
            if nan and not is_float:
                continue
            path = tmp_path / "a.tif"
            write(path, dtype, bands, alpha=alpha, nan=nan, compress=compress, interleave=interleave, **layout)
            found = jnrrdz.open_group(path)["data"][...]
            np.testing.assert_array_equal(found.reshape(-1, *found.shape[-2:]), by_gdal(path), err_msg=f"{locals()}")


@pytest.mark.parametrize("photometric", ["palette", "minisblack"])
def test_a_cog_of_one_band_and_alpha(tmp_path, photometric):
    pixels = np.stack([np.arange(70 * 90).reshape(70, 90) % 200, RNG.choice([0, 255], (70, 90))]).astype("u1")
    options = {"photometric": photometric, "alpha": "yes", **PLACE}
    with writers.gdal_file(tmp_path / "a.tif", pixels, **options) as file:
        if photometric == "palette":
            file.write_colormap(1, {value: (value, 255 - value, 7, 255) for value in range(256)})
    copy(tmp_path / "a.tif", tmp_path / "cog.tif", driver="COG", compress="LERC_ZSTD", overviews="none", blocksize=64)
    expected = by_gdal(tmp_path / "cog.tif")
    np.testing.assert_array_equal(expected[1], pixels[1])  # what it masks it does not keep
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "cog.tif")["data"][...], expected)


def decoder(compression, samples=1, dtype="u1", extra=()):
    """Return the decoder of one tile of `SIDE` by `SIDE`."""
    dtype = np.dtype(dtype)
    config = TiffTileConfig(
        SIDE,
        SIDE,
        SIDE,
        SIDE + 5,
        compression=compression,
        photometric=2 if samples > 2 else 1,
        samples_per_pixel=samples,
        bits_per_sample=(dtype.itemsize * 8,) * samples,
        sample_format=({"u": 1, "i": 2, "f": 3}[dtype.kind],) * samples,
        extra_samples=extra,
    )
    return TileDecoder(config, (samples, SIDE, SIDE) if samples > 1 else (SIDE, SIDE), dtype, 0)


LERC = 34887
HOLES = RNG.random((SIDE, SIDE)) < 0.5


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (imagecodecs.lerc_encode(np.zeros((SIDE, SIDE), "u2")), "uint16 in a chunk of 64 x 64 uint8"),
        (imagecodecs.lerc_encode(np.zeros((SIDE, SIDE), "i1")), "int8 in a chunk of 64 x 64 uint8"),
        (imagecodecs.lerc_encode(np.zeros((SIDE, SIDE), "f4")), "float32 in a chunk of 64 x 64 uint8"),
        (imagecodecs.lerc_encode(np.zeros((SIDE // 2, SIDE * 2), "u1")), "32 x 128"),
        (imagecodecs.lerc_encode(np.zeros((SIDE - 1, SIDE), "u1")), "63 x 64 uint8 in a chunk of 64 x 64"),
        (imagecodecs.lerc_encode(np.zeros((SIDE, SIDE - 1), "u1")), "64 x 63 uint8 in a chunk of 64 x 64"),
        (imagecodecs.lerc_encode(np.zeros((SIDE, SIDE, 2), "u1")), "2 samples a pixel where 1 belong"),
        (imagecodecs.lerc_encode(np.zeros((SIDE, SIDE), "u1"), masks=HOLES), "masked samples of uint8"),
    ],
    ids=["uint16", "int8", "float32", "another shape", "a row less", "a column less", "two samples", "a mask"],
)
def test_a_lerc_blob_that_is_no_tile_of_the_image(blob, words):
    with pytest.raises(MalformedError, match=words):
        decoder(LERC).decode(bytes(blob))


@pytest.mark.parametrize("extra", [(2,), (1,), (0,)])
def test_an_alpha_that_is_no_mask(extra):
    """Only of unassociated alpha does libtiff take the mask for the last sample."""
    grey = (np.arange(SIDE * SIDE).reshape(SIDE, SIDE) % 251).astype("u1")
    blob = bytes(imagecodecs.lerc_encode(grey, masks=HOLES))
    if extra == (2,):
        found = decoder(LERC, 2, extra=extra).decode(blob)
        np.testing.assert_array_equal(found[0][HOLES], grey[HOLES])
        np.testing.assert_array_equal(found[1], HOLES * np.uint8(255))
    else:
        with pytest.raises(MalformedError):
            decoder(LERC, 2, extra=extra).decode(blob)


ENCODERS = {
    34933: imagecodecs.png_encode,
    50001: lambda pixels: imagecodecs.webp_encode(pixels, lossless=True),
    50002: lambda pixels: imagecodecs.jpegxl_encode(pixels, lossless=True),
    34712: lambda pixels: imagecodecs.jpeg2k_encode(pixels, reversible=True),
}
KNOWN = {34933: {1, 2, 3, 4}, 50001: {3, 4}, 50002: {1, 2, 3, 4}, 34712: {1, 2, 3, 4}}


@pytest.mark.parametrize("compression", ENCODERS)
def test_an_image_of_more_or_fewer_channels_is_never_shuffled(compression):
    for stored, wanted in itertools.product(sorted(KNOWN[compression]), range(1, 5)):
        whole = RNG.integers(0, 256, (SIDE, SIDE, stored), "u1")
        data = bytes(ENCODERS[compression](whole if stored > 1 else whole[..., 0]))
        if compression == 50001 and wanted < 3:
            continue  # refused by its tags: test_schemes.py
        tile = decoder(compression, wanted, extra=(2,) if wanted in {2, 4} else ())
        if stored == wanted:
            np.testing.assert_array_equal(tile.decode(data).reshape(wanted, SIDE, SIDE), np.moveaxis(whole, -1, 0))
        elif compression == 50001 and {stored, wanted} == {3, 4}:  # WebP leaves out an opaque alpha, or adds one
            found = tile.decode(data)
            np.testing.assert_array_equal(found[:3], np.moveaxis(whole[..., :3], -1, 0))
            assert wanted == 3 or (found[3] == 255).all()
        else:
            with pytest.raises(MalformedError, match=f"samples a pixel where {wanted} belong|in a chunk of"):
                tile.decode(data)


@pytest.mark.parametrize("shape", [(SIDE, SIDE, 3), (16, 64, 1), (64, 16, 1), (32, 32, 1)])
def test_a_jpeg_of_other_components_or_shape_is_never_shuffled(shape):
    data = bytes(imagecodecs.jpeg_encode(np.zeros(shape, "u1").squeeze()))
    tile = decoder(7, 1 if shape[2] == 3 else 3)
    with pytest.raises(MalformedError):
        tile.decode(data)


ALPHAS = [(1, None), (2, "unassalpha"), (2, "assocalpha"), (3, None), (4, "unassalpha"), (4, "unspecified")]
IMAGES = [
    *itertools.product(["jpegxl"], [True, False], ["u1", "u2", "f4"]),
    *itertools.product(["png", "jpeg2000"], [None], ["u1", "u2"]),
    *itertools.product(["webp"], [True, False], ["u1"]),
]


@pytest.mark.parametrize(("samples", "extra"), ALPHAS)
@pytest.mark.parametrize("image", IMAGES, ids=str)
def test_images_with_alpha_as_tifffile_reads_them(tmp_path, image, samples, extra):
    compression, lossless, dtype = image
    pixels = RNG.integers(0, 200, (SIDE, SIDE, samples)).astype(dtype)
    if extra is not None:
        pixels[..., -1] *= HOLES
    options = {"compressionargs": {"lossless": lossless}} if lossless is not None else {}
    options |= {"photometric": "rgb" if samples in {3, 4} else "minisblack", "metadata": None, "tile": (32, 32)}
    options |= {"extrasamples": [extra]} if extra else {}
    options |= {"planarconfig": "contig"} if samples > 1 else {}
    path = tmp_path / "a.tif"
    if compression == "webp" and samples < 3:
        pytest.skip("WebP has three colours")
    tifffile.imwrite(path, pixels.squeeze(), compression=compression, **options)
    expected = tifffile.imread(path).reshape(SIDE, SIDE, samples)
    found = jnrrdz.open_group(path)["data"][...].reshape(samples, SIDE, SIDE)
    np.testing.assert_array_equal(found, np.moveaxis(expected, -1, 0))


@pytest.mark.parametrize("components", [1, 2, 4])
@pytest.mark.parametrize("rows", [64, 32])
def test_a_mosaic_in_lossless_jpeg_as_tifffile_reads_it(components, rows):
    """DNG has two or four neighbours of a row as the components of one pixel."""
    pixels = RNG.integers(0, 4096, (rows, SIDE)).astype("u2")
    stream = imagecodecs.jpeg8_encode(
        pixels.reshape(rows, -1, components).squeeze(), lossless=True, bitspersample=16, colorspace=None
    )
    config = TiffTileConfig(SIDE, 64, SIDE, 96, compression=7, photometric=32803, bits_per_sample=(16,))
    expected = tifffile.imread(io.BytesIO(synthetic_tiff(config, SIDE, rows, bytes(stream))))
    np.testing.assert_array_equal(expected, pixels)
    found = TileDecoder(config, (64, SIDE), np.dtype("u2"), 0).decode(bytes(stream))
    np.testing.assert_array_equal(found[:rows], pixels)


@pytest.mark.parametrize("shape", [(64, 48, 2), (64, 33, 2), (65, 32, 2)])
def test_a_mosaic_of_another_size_is_refused(shape):
    stream = imagecodecs.jpeg8_encode(np.zeros(shape, "u2"), lossless=True, bitspersample=16)
    with pytest.raises(MalformedError):
        decoder(7, dtype="u2").decode(bytes(stream))
