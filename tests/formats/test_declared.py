"""What image data say of their own size, against what the encoders were given."""

import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.errors import MalformedError
from jnrrdz.formats.image_streams import png_size, webp_size
from jnrrdz.formats.jpeg_markers import jpeg_size
from jnrrdz.formats.tiff.declared import check_declared, check_possible
from jnrrdz.formats.tiff.schemes import Compression

SIZES = st.tuples(st.integers(1, 90), st.integers(1, 90))


def image(shape, dtype="u1"):
    return (np.arange(np.prod(shape)).reshape(shape) % 200).astype(dtype)


@given(size=SIZES, samples=st.sampled_from([1, 3, 4]))
def test_jpeg(size, samples):
    data = imagecodecs.jpeg_encode(image((*size, samples)[: 2 if samples == 1 else 3]))
    assert jpeg_size(data) == (*size, samples)
    assert jpeg_size(memoryview(data)) == (*size, samples)


@given(size=SIZES, samples=st.sampled_from([1, 3]))
def test_png(size, samples):
    assert png_size(imagecodecs.png_encode(image((*size, samples)[: 2 if samples == 1 else 3])))[:2] == size


@given(size=SIZES, lossless=st.booleans(), alpha=st.booleans())
def test_webp(size, lossless, alpha):
    assert webp_size(imagecodecs.webp_encode(image((*size, 3 + alpha)), lossless=lossless))[:2] == size


@pytest.mark.parametrize("read", [jpeg_size, png_size, webp_size])
@given(data=st.binary(max_size=64))
def test_noise_declares_nothing_or_something_but_does_not_fail(read, data):
    assert read(data) is None or len(read(data)) == 3


@given(data=st.data())
def test_a_jpeg_cut_anywhere_is_looked_at_without_failing(data):
    whole = imagecodecs.jpeg_encode(image((20, 30)))
    assert jpeg_size(whole[: data.draw(st.integers(0, len(whole)))]) in {None, (20, 30, 1)}


ENCODERS = {
    Compression.JPEG: imagecodecs.jpeg_encode,
    Compression.PNG: imagecodecs.png_encode,
    Compression.LERC: imagecodecs.lerc_encode,
    Compression.JPEG2000: imagecodecs.jpeg2k_encode,
    Compression.APERIO_JP2000_YCBC: imagecodecs.jpeg2k_encode,
    Compression.JPEGXL: imagecodecs.jpegxl_encode,
    Compression.JPEGXR: imagecodecs.jpegxr_encode,
    Compression.WEBP: lambda pixels: imagecodecs.webp_encode(np.dstack([pixels] * 3)),
}


@pytest.mark.parametrize("compression", ENCODERS)
@pytest.mark.parametrize(("height", "width"), [(20, 30), (21, 30), (64, 64)])
def test_what_fits_is_let_through(compression, height, width):
    check_declared(compression, ENCODERS[compression](image((20, 30))), height, width, 3)


@pytest.mark.parametrize("compression", ENCODERS)
@pytest.mark.parametrize(("height", "width"), [(19, 30), (20, 29), (1, 1), (30, 20)])
def test_what_is_larger_is_refused_with_both_sizes(compression, height, width):
    words = rf"{compression.name} data declare 20 x 30 x \d in a chunk of {height} x {width} x 3"
    with pytest.raises(MalformedError, match=words):
        check_declared(compression, ENCODERS[compression](image((20, 30))), height, width, 3)


@pytest.mark.parametrize("compression", [1, 5, 8, 32773, 50000, 12345])
def test_schemes_that_are_told_their_size_declare_none(compression):
    check_declared(compression, b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\x01", 1, 1, 1)


@pytest.mark.parametrize(
    ("compression", "nbytes", "need", "fits"),
    [
        (Compression.NONE, 100, 100, True),
        (Compression.NONE, 99, 100, False),
        (Compression.DEFLATE, 100, 103_200, True),
        (Compression.DEFLATE, 100, 103_201, False),
        (Compression.ZSTD, 20, 1 << 30, True),
    ],
)
def test_a_stream_that_is_too_short_for_its_chunk_is_refused_before_it_is_decoded(compression, nbytes, need, fits):
    if fits:
        check_possible(compression, nbytes, need)
        return
    with pytest.raises(MalformedError, match=f"{nbytes} bytes"):
        check_possible(compression, nbytes, need)


@pytest.mark.parametrize("size", [1 << 16, 1 << 24])
def test_no_stream_is_longer_than_the_limits_allow(size):
    for compression, encode in (
        (Compression.DEFLATE, imagecodecs.zlib_encode),
        (Compression.LZW, imagecodecs.lzw_encode),
        (Compression.PACKBITS, imagecodecs.packbits_encode),
    ):
        if size > 1 << 20 and compression != Compression.DEFLATE:
            continue  # those two encoders take minutes for it
        check_possible(compression, len(encode(bytes(size))), size)
