"""What index accepts is read; what tags alone rule out is refused at index, by its tag."""

import itertools
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.decode import TileDecoder
from jnrrdz.formats.tiff.schemes import SCHEMES, Compression, Kind, of_kind
from jnrrdz.formats.tiff.tags import Tag
from tests.readers import by_gdal
from tests.writers import geotiff, tiff_of, tiff_tags

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning"),
]
HEIGHT, WIDTH = 16, 32
RNG = np.random.default_rng(0)
STREAMS = {
    1: bytes,
    8: zlib.compress,
    50000: imagecodecs.zstd_encode,
}
FORMATS = {
    1: (1, 2, 6, 8, 12, 16, 24, 32, 64),
    2: (2, 4, 8, 12, 16, 24, 32, 64),
    3: (16, 24, 32, 64),
    4: (1, 8, 16, 32),
    5: (32, 64),
    6: (64, 128),
}
"""The bits of each sample format."""

TAGS = {tag.name for tag in Tag}


def outcome(path):
    """Return the pixels, or the tag for which index refused; a failing read fails."""
    try:
        hierarchy = jnrrdz.scan(path)
    except UnsupportedError as error:
        tag = error.field
    else:
        return jnrrdz.open_group(hierarchy)["data"][...]
    assert tag in TAGS
    return tag


@pytest.mark.parametrize("photometric", [1, 6])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("scheme", STREAMS)
def test_streams_of_bytes(tmp_path, scheme, form, photometric):
    """Any bytes are pixels, so that nothing but tags can rule them out."""
    path = tmp_path / "a.tif"
    read = 0
    predictors = (1,) if scheme == 1 else (1, 2, 3, 34894)
    cases = itertools.product(FORMATS[form], (1, 3), (1, 2), predictors, "<>")
    for bits, samples, planar, predictor, order in cases:
        chunk = 1 if planar == 2 else samples
        row = -(-WIDTH * bits * chunk // 8)
        data = bytes(STREAMS[scheme](RNG.bytes(HEIGHT * row)))
        kinds = {"form": form, "predictor": predictor, "photometric": photometric}
        tags = tiff_tags(WIDTH, HEIGHT, bits, scheme, samples=samples, **kinds)
        tags[284] = (3, [planar])
        path.write_bytes(tiff_of([data] * (samples // chunk), tags, order))
        read += not isinstance(outcome(path), str)
    assert read > 0 or (photometric == 6 and form not in {1, 2, 4})


ENCODERS = {
    7: imagecodecs.jpeg8_encode,
    34712: imagecodecs.jpeg2k_encode,
    34887: imagecodecs.lerc_encode,
    34933: imagecodecs.png_encode,
    34934: imagecodecs.jpegxr_encode,
    50001: imagecodecs.webp_encode,
    50002: imagecodecs.jpegxl_encode,
}
WIDEST = {8: "1", 16: "2", 32: "4", 64: "8"}
KINDS = {1: "u", 2: "i", 3: "f", 4: "u"}


def image_of(scheme, form, bits, samples):
    """Return an encoded image of samples that tags name, None where the encoder has none."""
    if form not in KINDS or bits not in WIDEST:
        return None
    pixels = RNG.integers(0, 100, (HEIGHT, WIDTH, samples))
    pixels = pixels.astype(KINDS[form] + WIDEST[bits])
    try:
        return bytes(ENCODERS[scheme](pixels[..., 0] if samples == 1 else pixels))
    except (ValueError, TypeError, RuntimeError, KeyError):
        return None


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("scheme", ENCODERS)
def test_images(tmp_path, scheme, form):
    """Of samples that an encoder takes, the file is read; other tags are refused."""
    path = tmp_path / "a.tif"
    for bits, samples, planar in itertools.product(FORMATS[form], (1, 2, 3, 4), (1, 2)):
        chunk = 1 if planar == 2 else samples
        data = image_of(scheme, form, bits, chunk)
        kinds = {"form": form, "photometric": 2 if samples == 3 else 1}
        tags = tiff_tags(WIDTH, HEIGHT, bits, scheme, samples=samples, **kinds)
        tags[284] = (3, [planar])
        segments = [data or b"\0" * 64] * (samples // chunk)
        path.write_bytes(tiff_of(segments, tags))
        if data is not None:
            outcome(path)
        elif bits in WIDEST and (scheme, form) not in SIGNLESS:
            with pytest.raises(UnsupportedError):
                jnrrdz.scan(path)


SIGNLESS = {(scheme, 2) for scheme in (7, 34933, 34934, 50001, 50002)}
"""Images without a sign, whose bits may be those of signed samples."""


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("scheme", [2, 3, 4, 32766, 32771, 32809])
def test_rasters_of_one_kind_of_samples(tmp_path, scheme, samples, bits):
    path = tmp_path / "a.tif"
    tags = tiff_tags(WIDTH, HEIGHT, bits, scheme, samples=samples)
    path.write_bytes(tiff_of([bytes(200)], tags))
    width = {32766: 2, 32809: 4}.get(scheme, 1)
    if (bits, samples) == (width, 1):
        jnrrdz.scan(path)
        return
    with pytest.raises(UnsupportedError, match=r"BitsPerSample|SamplesPerPixel"):
        jnrrdz.scan(path)


LOGARITHMIC = [
    *itertools.product([34676], [32844], [1, 3], [(8, 1), (16, 1), (16, 2), (32, 1), (32, 3)]),
    *itertools.product([34676, 34677], [32845], [1, 3], [(8, 1), (16, 2), (32, 1), (32, 3)]),
    *itertools.product([34676, 34677], [1, 2], [1, 3], [(32, 3)]),
]


@pytest.mark.parametrize("case", LOGARITHMIC, ids=str)
def test_luminance_on_a_logarithmic_scale(tmp_path, case):
    """Read as GDAL reads it, or refused: colours become floats and nothing else."""
    scheme, photometric, samples, (bits, form) = case
    planes = 2 if photometric == 32844 else 4
    row = b"".join(bytes([126 + WIDTH, 60 + plane]) for plane in range(planes))
    data = RNG.integers(60, 64, HEIGHT * WIDTH * 3, "u1").tobytes()
    if scheme == 34676:
        data = row * HEIGHT
    kinds = {"photometric": photometric, "samples": samples, "form": form}
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_of([data], tiff_tags(WIDTH, HEIGHT, bits, scheme, **kinds)))
    found = outcome(path)
    can_be_read = {(32844, 1, (16, 1)), (32844, 1, (16, 2)), (32844, 1, (32, 3)), (32845, 3, (32, 3))}
    assert isinstance(found, str) is ((photometric, samples, (bits, form)) not in can_be_read)
    if not isinstance(found, str):
        theirs = by_gdal(path)
        np.testing.assert_array_equal(found.reshape(theirs.shape), theirs)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("dtype", ["complex_int16", "complex64"])
def test_differences_of_complex_numbers(tmp_path, dtype, order, interleave):
    parts = RNG.integers(-99, 99, (2, 2, 20, 30))
    pixels = (parts[0] + 1j * parts[1]).astype("c8")
    options = {"compress": "deflate", "predictor": 2, "ENDIANNESS": order}
    path = tmp_path / "a.tif"
    geotiff(path, pixels, dtype=dtype, interleave=interleave, **options)
    np.testing.assert_array_equal(by_gdal(path), pixels)
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], pixels)


@pytest.mark.parametrize("predictor", [1, 2, 3])
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_differences_of_floats(tmp_path, dtype, order, predictor):
    pixels = RNG.normal(size=(2, 20, 30)).astype(dtype)
    options = {"compress": "zstd", "predictor": predictor, "ENDIANNESS": order}
    path = geotiff(tmp_path / "a.tif", pixels, **options)
    np.testing.assert_array_equal(by_gdal(path), pixels)
    np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], pixels)


def test_a_decoder_refuses_what_index_refuses():
    """A manifest of others is refused when its array is opened, in the same words."""
    config = TiffTileConfig(WIDTH, HEIGHT, WIDTH, HEIGHT, compression=3, bits_per_sample=(8,))
    with pytest.raises(UnsupportedError, match=r"CCITT_T4 \(3\) of 8-bit samples"):
        TileDecoder(config, (HEIGHT, WIDTH), np.dtype("u1"), 0)


def test_every_compression_has_a_record():
    assert set(SCHEMES) == set(Compression)


@pytest.mark.parametrize("name", ["BitsPerSample", "SamplesPerPixel"])
def test_a_tag_at_odds_with_webp_is_named(tmp_path, name):
    path = tmp_path / "a.tif"
    pixels = np.zeros((32, 32, 3), "u1")
    tifffile.imwrite(path, pixels, compression="webp", metadata=None)
    number = {"BitsPerSample": 12, "SamplesPerPixel": 2}[name]
    with tifffile.TiffFile(path, mode="r+") as tif:
        tag = tif.pages[0].tags[name]
        tag.overwrite((number,) * tag.count if tag.count > 1 else number)
    with pytest.raises(UnsupportedError, match=name):
        jnrrdz.scan(path)


def test_what_is_an_image_declares_its_size():
    """A decoder would else take the memory that a chunk's bytes ask for."""
    images = [SCHEMES[number] for number in of_kind(Kind.IMAGE, Kind.JPEG)]
    assert images
    assert [scheme for scheme in images if scheme.declared is None] == []
