"""TIFFs that GDAL and tifffile write, of every kind that is claimed, read pixel by pixel as they read them."""

import itertools

import imagecodecs
import numpy as np
import PIL.Image
import pytest
import tifffile

import jnrrdz
from tests.readers import assert_identical, by_gdal
from tests.writers import gdal_file, geotiff

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

HEIGHT, WIDTH = 37, 53
"""No multiple of any tile or strip below, so that the last ones are short."""

LAYOUTS = {"tiled": {"tiled": True, "blockxsize": 32, "blockysize": 16}, "stripped": {"blockysize": 8}}
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
PREDICTABLE = ("DEFLATE", "LZW", "ZSTD")


def picture(dtype, bands, height=HEIGHT, width=WIDTH, seed=0):
    """Return a smooth image with noise in the type's low bits and, where it is signed, below zero."""
    dtype = np.dtype(dtype)
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(seed).integers(0, 5, (bands, height, width))
    smooth = np.stack([(3 * x + 5 * y + 7 * band) % 200 for band in range(bands)]) + noise
    if dtype.kind == "c":
        return (smooth + 1j * smooth[::-1]).astype(dtype)
    if dtype.kind == "f":
        return (smooth * 1.37 - 50).astype(dtype)
    if dtype.kind == "i":
        return (smooth - 100).astype(dtype)
    # a factor that leaves no byte of the type at zero
    return (smooth.astype(object) * (np.iinfo(dtype).max // 255)).astype(dtype)


def seen(path):
    """Return the pixels that jnrrdz shows, bands first."""
    pixels = jnrrdz.open_group(str(path))["data"][...]
    return pixels if pixels.ndim == 3 else pixels[None]


def gdal_cases():
    """Yield type, compression, predictor: every type with every scheme, predictors 2 and 3 where they are defined."""
    for dtype in (*INTEGERS, *FLOATS, *COMPLEX):
        for scheme in ("NONE", *PREDICTABLE, "PACKBITS"):
            yield dtype, scheme, 1
        if dtype not in COMPLEX:
            for scheme in PREDICTABLE:
                yield dtype, scheme, 2
        if dtype in FLOATS:
            for scheme in PREDICTABLE:
                yield dtype, scheme, 3
    yield "uint8", "JPEG", 1


@pytest.mark.parametrize(("dtype", "scheme", "predictor"), list(gdal_cases()))
def test_gdals_types_schemes_and_predictors(tmp_path, dtype, scheme, predictor):
    layouts = itertools.product(LAYOUTS, ("PIXEL", "BAND"), ("LITTLE", "BIG"), (1, 3))
    for number, (layout, interleave, endianness, bands) in enumerate(layouts):
        path = tmp_path / f"{layout}-{interleave}-{endianness}-{bands}.tif"
        pixels = picture(dtype, bands)
        options = {"compress": scheme, "interleave": interleave, "endianness": endianness, **LAYOUTS[layout]}
        geotiff(path, pixels, predictor=predictor, bigtiff="YES" if number % 3 == 0 else "NO", **options)
        found = seen(path)
        assert_identical(found, by_gdal(path))
        if scheme != "JPEG":
            assert_identical(found, pixels)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 7, 9, 10, 12, 15, 17, 20, 24, 31])
def test_unsigned_integers_of_any_width(tmp_path, bits):
    dtype = "uint8" if bits <= 8 else "uint16" if bits <= 16 else "uint32"
    schemes = ("NONE", "DEFLATE", "LZW", "PACKBITS")
    for scheme, layout, interleave, endianness in itertools.product(
        schemes, LAYOUTS, ("PIXEL", "BAND"), ("LITTLE", "BIG")
    ):
        path = tmp_path / f"{scheme}-{layout}-{interleave}-{endianness}.tif"
        pixels = (picture("uint64", 3) >> np.uint64(64 - bits)).astype(dtype)
        options = {"compress": scheme, "interleave": interleave, "endianness": endianness, **LAYOUTS[layout]}
        geotiff(path, pixels, nbits=bits, **options)
        assert_identical(seen(path), pixels)


@pytest.mark.parametrize("predictor", [1, 3])
def test_half_floats_are_read_as_halves(tmp_path, predictor):
    pixels = picture("float16", 2)
    geotiff(tmp_path / "a.tif", pixels.astype("f4"), nbits=16, compress="DEFLATE", predictor=predictor)
    found = seen(tmp_path / "a.tif")
    np.testing.assert_array_equal(found, pixels)
    np.testing.assert_array_equal(found, by_gdal(tmp_path / "a.tif"))


JPEGS = [
    ({"photometric": "YCBCR", "interleave": "PIXEL", **LAYOUTS["tiled"]}, 3),
    ({"photometric": "YCBCR", "interleave": "PIXEL", "blockysize": 16}, 3),
    ({"photometric": "RGB", "interleave": "PIXEL", **LAYOUTS["tiled"]}, 3),
    ({"photometric": "RGB", "interleave": "BAND", **LAYOUTS["tiled"]}, 3),
    ({"photometric": "RGB", "interleave": "BAND", **LAYOUTS["stripped"]}, 3),
    ({"photometric": "RGB", "interleave": "PIXEL", "alpha": "YES", **LAYOUTS["tiled"]}, 4),
    ({"photometric": "MINISBLACK", "JPEG_QUALITY": 20, **LAYOUTS["tiled"]}, 1),
    ({"photometric": "MINISBLACK", "JPEGTABLESMODE": 0, **LAYOUTS["tiled"]}, 1),
    ({"photometric": "YCBCR", "interleave": "PIXEL", "JPEGTABLESMODE": 2, **LAYOUTS["tiled"]}, 3),
]


@pytest.mark.parametrize(("options", "bands"), JPEGS, ids=str)
def test_jpeg_in_its_colours_with_and_without_tables(tmp_path, options, bands):
    path = geotiff(tmp_path / "a.tif", picture("uint8", bands), compress="JPEG", **options)
    assert_identical(seen(path), by_gdal(path))
    if options.get("interleave") != "BAND":  # which tifffile does not read
        assert_identical(seen(path), np.atleast_3d(tifffile.imread(path)).transpose(2, 0, 1))


def test_raw_strips_whose_counts_are_too_small_are_read_whole(tmp_path):
    pixels = picture("uint16", 1)[0]
    tifffile.imwrite(tmp_path / "a.tif", pixels, rowsperstrip=8, metadata=None)
    with tifffile.TiffFile(tmp_path / "a.tif") as tif:
        counts = [count - 100 for count in tif.pages[0].databytecounts]
    retagged(tmp_path / "a.tif", "StripByteCounts", counts)
    assert_identical(seen(tmp_path / "a.tif")[0], pixels)
    assert_identical(by_gdal(tmp_path / "a.tif")[0], pixels)


@pytest.mark.parametrize("compression", ["tiff_adobe_deflate", "tiff_lzw", "packbits", "zstd", "lzma", "raw"])
@pytest.mark.parametrize("rows", [16, 37])
def test_ycbcr_that_is_no_jpeg_with_a_short_last_strip(tmp_path, compression, rows):
    image = PIL.Image.fromarray(picture("uint8", 3).transpose(1, 2, 0).copy()).convert("YCbCr")
    image.save(tmp_path / "a.tif", compression=compression, tiffinfo={278: rows})
    assert_identical(seen(tmp_path / "a.tif"), by_gdal(tmp_path / "a.tif"))


def test_ycbcr_data_that_are_cut_off_are_an_error(tmp_path):
    image = PIL.Image.fromarray(picture("uint8", 3).transpose(1, 2, 0).copy()).convert("YCbCr")
    image.save(tmp_path / "a.tif", compression="tiff_adobe_deflate", tiffinfo={278: 16})
    with tifffile.TiffFile(tmp_path / "a.tif") as tif:
        places = list(zip(tif.pages[0].dataoffsets, tif.pages[0].databytecounts, strict=True))
    data = bytearray((tmp_path / "a.tif").read_bytes())
    short = imagecodecs.zlib_encode(
        imagecodecs.zlib_decode(bytes(data[places[0][0] :][: places[0][1]]))[: WIDTH * 3 * 9]
    )
    data[places[0][0] : places[0][0] + len(short)] = short
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(jnrrdz.MalformedError, match="neither a whole chunk's nor an edge's"):
        seen(tmp_path / "a.tif")


def test_the_other_fax_scheme_of_one_dimension(tmp_path):
    pixels = picture("uint8", 1)[0] > 100
    PIL.Image.fromarray(pixels).save(tmp_path / "a.tif", compression="tiff_raw_16", tiffinfo={278: 16})
    assert_identical(seen(tmp_path / "a.tif"), by_gdal(tmp_path / "a.tif"))


def retagged(path, name, value):
    """Write another number into a tag of the first page, which tifffile would not write there."""
    with tifffile.TiffFile(path, mode="r+b") as tif:
        tif.pages[0].tags[name].overwrite(value)
    return path


@pytest.mark.parametrize("predictor", [2, 3, 5])
@pytest.mark.parametrize(("scheme", "number"), [("deflate", 1), ("jpeg", 7), ("webp", 50001)])
def test_a_predictor_without_a_scheme_that_has_one_means_nothing(tmp_path, scheme, number, predictor):
    pixels = picture("uint8", 3).transpose(1, 2, 0)
    options = {"compressionargs": {"lossless": True}} if scheme == "webp" else {}
    path = tmp_path / "a.tif"
    if scheme == "deflate":  # GDAL's own file with the tag, its data replaced by raw ones
        geotiff(path, pixels.transpose(2, 0, 1), compress="DEFLATE", predictor=2, interleave="PIXEL", blockysize=HEIGHT)
        at = path.stat().st_size
        path.write_bytes(path.read_bytes() + pixels.tobytes())
        retagged(retagged(path, "StripOffsets", at), "StripByteCounts", pixels.nbytes)
    else:
        tifffile.imwrite(path, pixels, photometric="rgb", rowsperstrip=8, compression=scheme, software="x", **options)
        with tifffile.TiffFile(path) as tif:
            entry = tif.pages[0].tags["Software"].offset
        data = bytearray(path.read_bytes())
        data[entry : entry + 12] = np.array([317, 3, 1, 0, predictor, 0], "<u2").tobytes()
        path.write_bytes(data)
    retagged(retagged(path, "Compression", number), "Predictor", predictor)
    assert_identical(seen(path), by_gdal(path))


NUMBERS = {
    33003: "jpeg2000",
    33004: "jpeg2000",
    33005: "jpeg2000",
    33007: "jpeg",
    34892: "jpeg",
    34926: "zstd",
    34927: "webp",
    34934: "jpegxr",
    22610: "jpegxr",
    50013: "deflate",
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("tile", [(16, 32), None])
def test_other_numbers_of_the_same_schemes(tmp_path, number, tile):
    pixels = picture("uint8", 3).transpose(1, 2, 0)
    layout = {"tile": tile} if tile else {"rowsperstrip": 16}
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels, photometric="rgb", compression=NUMBERS[number], **layout)
    retagged(path, "Compression", number)
    assert_identical(seen(path), tifffile.imread(path).transpose(2, 0, 1))


@pytest.mark.parametrize("bands", [1, 3])
def test_pixar_log(tmp_path, bands):
    pixels = np.squeeze(picture("uint8", bands).transpose(1, 2, 0))
    (tmp_path / "a.tif").write_bytes(imagecodecs.tiff_encode(pixels, compression="PIXARLOG", rowsperstrip=16))
    assert_identical(
        seen(tmp_path / "a.tif"), np.atleast_3d(pixels).transpose(2, 0, 1)
    )  # as libtiff has it; GDAL's copy errs


@pytest.mark.parametrize("photometric", ["MINISBLACK", "MINISWHITE", "CMYK", "CIELAB", "ICCLAB", "ITULAB", "RGB"])
def test_jpegs_of_three_samples_that_are_no_colours_are_not_converted(tmp_path, photometric):
    pixels = picture("uint8", 1).repeat(3, axis=0) // np.array([1, 2, 3], "u1")[:, None, None]
    options = {"photometric": photometric, "interleave": "PIXEL", "JPEG_QUALITY": 100, **LAYOUTS["tiled"]}
    found = seen(geotiff(tmp_path / "a.tif", pixels, compress="JPEG", **options))
    assert np.abs(found.astype(int) - pixels).max() <= 2  # the loss of the best quality; tifffile converts these
    if photometric != "CIELAB":  # which GDAL converts
        assert_identical(found, by_gdal(tmp_path / "a.tif"))


def test_a_jpeg_of_twelve_bits_and_three_samples(tmp_path):
    pixels = picture("uint16", 3) >> 4
    path = geotiff(tmp_path / "a.tif", pixels, compress="JPEG", nbits=12, interleave="PIXEL", **LAYOUTS["tiled"])
    assert_identical(seen(path), by_gdal(path))


@pytest.mark.parametrize("photometric", ["MINISWHITE", "CMYK", "CIELAB"])
@pytest.mark.parametrize("scheme", ["NONE", "DEFLATE", "LZW"])
def test_samples_stay_as_stored_whatever_their_colour(tmp_path, photometric, scheme):
    pixels = picture("uint8", {"MINISWHITE": 1, "CMYK": 4, "CIELAB": 3}[photometric])
    path = geotiff(tmp_path / "a.tif", pixels, photometric=photometric, compress=scheme, interleave="pixel")
    assert_identical(seen(path), pixels)


def test_a_palette_stays_an_index(tmp_path):
    pixels = picture("uint8", 1)
    with gdal_file(tmp_path / "a.tif", pixels, compress="LZW") as target:
        target.write_colormap(1, {value: (value, 255 - value, 7, 255) for value in range(256)})
    assert_identical(seen(tmp_path / "a.tif"), pixels)


TIFFFILE_SCHEMES = [None, "deflate", "lzw", "zstd", "packbits"]


@pytest.mark.parametrize("scheme", TIFFFILE_SCHEMES)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint32", "int64", "float16", "float64", "complex64"])
def test_tifffiles_own(tmp_path, dtype, scheme):
    cases = itertools.product(("contig", "separate"), ((16, 32), None), "<>", (False, True), (1, 2, 5))
    for number, (planar, tile, order, big, bands) in enumerate(cases):
        path = tmp_path / f"{number}.tif"
        pixels = picture("uint8" if dtype == "bool" else dtype, bands)
        pixels = pixels > 100 if dtype == "bool" else pixels
        ordered = np.moveaxis(pixels, 0, -1) if planar == "contig" else pixels
        tifffile.imwrite(
            path,
            ordered[..., 0] if bands == 1 and planar == "contig" else ordered[0] if bands == 1 else ordered,
            byteorder=order,
            bigtiff=big,
            compression=scheme,
            predictor=predictors(scheme, dtype)[number % 2],
            photometric="minisblack",
            planarconfig=planar if bands > 1 else None,
            metadata=None,
            **({"tile": tile} if tile else {"rowsperstrip": 8}),
        )
        found, expected = seen(path), tifffile.imread(path).reshape(ordered.shape)
        np.testing.assert_array_equal(found, np.moveaxis(expected, -1, 0) if planar == "contig" else expected)
        if dtype != "bool":  # tifffile does not read the bits of several samples as it wrote them
            assert_identical(found, pixels)


def predictors(scheme, dtype):
    """Return what may stand in the Predictor tag: none, and the one that tifffile writes for a type."""
    if scheme not in {"deflate", "lzw", "zstd"} or np.dtype(dtype).kind in "bc":
        return None, None
    return None, 3 if np.dtype(dtype).kind == "f" else 2


@pytest.mark.parametrize("shape", [(1, 1), (1, 53), (37, 1), (16, 32), (17, 33), (15, 31), (160, 3)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scheme", ["NONE", "DEFLATE", "PACKBITS", "JPEG"])
def test_sizes_at_and_beside_the_segments(tmp_path, shape, layout, scheme):
    path = geotiff(tmp_path / "a.tif", picture("uint8", 1, *shape), compress=scheme, **LAYOUTS[layout])
    assert_identical(seen(path), by_gdal(path))


@pytest.mark.parametrize("rows", [1, 5, 37, 38, 1000, 2**32 - 1])
@pytest.mark.parametrize("scheme", [None, "zstd", "jpeg"])
def test_rows_of_a_strip_up_to_more_than_the_image_has(tmp_path, rows, scheme):
    pixels = picture("uint8", 1)[0]
    if scheme == "jpeg":
        rows = max(rows, 8)
    kept = min(rows, HEIGHT)
    tifffile.imwrite(tmp_path / "a.tif", pixels, rowsperstrip=kept, compression=scheme, metadata=None)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as tif:
        tif.pages[0].tags["RowsPerStrip"].overwrite(rows, dtype="I")
    assert_identical(seen(tmp_path / "a.tif"), tifffile.imread(tmp_path / "a.tif")[None])


def test_raw_strips_of_one_row_become_few_chunks(tmp_path):
    pixels = picture("uint16", 2, 5000, 100)
    tifffile.imwrite(tmp_path / "a.tif", pixels, rowsperstrip=1, metadata=None, planarconfig="separate")
    array = jnrrdz.open_group(str(tmp_path / "a.tif"))["data"]
    assert array.nchunks == 4
    np.testing.assert_array_equal(array[...], pixels)


def test_scattered_raw_strips_stay_apart(tmp_path):
    pixels = picture("uint8", 1)[0]
    tifffile.imwrite(tmp_path / "a.tif", pixels, rowsperstrip=8, metadata=None)
    with tifffile.TiffFile(tmp_path / "a.tif") as tif:
        offsets, tag = tif.pages[0].dataoffsets, tif.pages[0].tags["StripOffsets"]
        kind, position = {3: "<H", 4: "<I"}[tag.dtype], tag.valueoffset
    data = bytearray((tmp_path / "a.tif").read_bytes())
    first, second = (np.frombuffer(np.array(value).astype(kind).tobytes(), "u1") for value in offsets[:2])
    data[position : position + 2 * first.size] = bytes(second) + bytes(first)
    (tmp_path / "b.tif").write_bytes(data)
    expected = np.concatenate([pixels[8:16], pixels[:8], pixels[16:]])
    assert_identical(seen(tmp_path / "b.tif")[0], expected)
    assert_identical(tifffile.imread(tmp_path / "b.tif"), expected)


@pytest.mark.parametrize("compression", ["tiff_adobe_deflate", "tiff_lzw"])
def test_ycbcr_is_read_in_the_order_that_it_is_stored_in(tmp_path, compression):
    """Orientation turns nothing round, of whatever photometric interpretation.

    libtiff's interface for RGBA, and GDAL with it, mirrors YCbCr (and nothing else) by this tag, but does not turn it.
    """
    y, x = np.mgrid[:48, :64]
    colours = PIL.Image.fromarray(np.stack([x * 4, y * 5, (x + y) * 2], -1).astype("u1")).convert("YCbCr")
    colours.save(tmp_path / "plain.tif", "TIFF", compression=compression)
    expected = by_gdal(tmp_path / "plain.tif")
    for orientation in range(1, 9):
        path = tmp_path / f"{orientation}.tif"
        colours.save(path, "TIFF", compression=compression, tiffinfo={274: orientation})
        np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], expected)
        across, down = orientation in {2, 3, 6, 7}, orientation in {3, 4, 7, 8}
        np.testing.assert_array_equal(by_gdal(path), expected[:, :: -1 if down else 1, :: -1 if across else 1])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("predictor", [34894, 34895])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_predictors_of_dng_floats(tmp_path, dtype, predictor, order):
    for bands, tile, compression in itertools.product([1, 3], [None, (32, 32)], ["zlib", "lzw"]):
        pixels = (np.random.default_rng(bands).random((64, 96, bands)) * 200).astype(dtype)
        options = {"predictor": predictor, "compression": compression, "tile": tile, "byteorder": order}
        photometric = "rgb" if bands > 1 else "minisblack"
        tifffile.imwrite(tmp_path / "a.tif", pixels.squeeze(), photometric=photometric, metadata=None, **options)
        found = jnrrdz.open_group(tmp_path / "a.tif")["data"][...].reshape(bands, 64, 96)
        np.testing.assert_array_equal(found, np.moveaxis(pixels, -1, 0))
