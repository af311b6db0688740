"""Sizes in the headers of image codecs, against what the encoders were given."""

import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.formats.image_streams import jpeg2000_size, jpegxl_size, jpegxr_size, lerc_size

READERS = {
    "lerc": (lerc_size, imagecodecs.lerc_encode),
    "codestream": (jpeg2000_size, lambda pixels: imagecodecs.jpeg2k_encode(pixels, codecformat="J2K")),
    "jp2": (jpeg2000_size, lambda pixels: imagecodecs.jpeg2k_encode(pixels, codecformat="JP2")),
    "jpegxl": (jpegxl_size, imagecodecs.jpegxl_encode),
    "jpegxl in boxes": (jpegxl_size, lambda pixels: imagecodecs.jpegxl_encode(pixels, usecontainer=True)),
    "jpegxr": (jpegxr_size, imagecodecs.jpegxr_encode),
}
SIDES = st.one_of(st.integers(1, 40), st.integers(1, 30).map(lambda eighths: 8 * eighths))


def image(shape, dtype="u1"):
    return (np.arange(np.prod(shape)).reshape(shape) % 200).astype(dtype)


@pytest.mark.parametrize("name", READERS)
@given(height=SIDES, width=SIDES, dtype=st.sampled_from(["u1", "u2"]))
def test_any_size(name, height, width, dtype):
    read, encode = READERS[name]
    assert read(memoryview(encode(image((height, width), dtype))))[:2] == (height, width)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("size", [(600, 600), (90, 120), (120, 90), (160, 90), (1, 70000), (10000, 3), (300, 512)])
def test_large_and_of_common_ratios(name, size):
    read, encode = READERS[name]
    if name == "jpegxr" and min(size) < 16:
        pytest.skip("the encoder takes none so narrow")
    assert read(encode(image(size)))[:2] == size


@pytest.mark.parametrize("name", ["codestream", "jp2"])
def test_components_of_jpeg_2000(name):
    read, encode = READERS[name]
    assert read(encode(image((20, 30, 3)))) == (20, 30, 3)


def test_values_of_a_pixel_in_lerc():
    assert lerc_size(imagecodecs.lerc_encode(image((20, 30, 3)), planar=False)) == (20, 30, 3)


def test_the_first_lerc():
    """No encoder of it is left: name, version, type, height, width as its source has them."""
    head = b"CntZImage " + np.array([11, 8, 20, 30], "<i4").tobytes()
    assert lerc_size(head + bytes(8)) == (20, 30, 1)
    assert lerc_size(head[:-1]) is None


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_a_cut_header_is_looked_at_without_failing(name, data):
    read, encode = READERS[name]
    whole = encode(image((20, 30)))
    found = read(whole[: data.draw(st.integers(0, len(whole)))])
    assert found is None or len(found) == 3


@pytest.mark.parametrize("read", [lerc_size, jpeg2000_size, jpegxl_size, jpegxr_size])
@given(
    start=st.sampled_from(
        [b"", b"Lerc2 ", b"\xff\x4f\xff\x51", b"\xff\x0a", b"II\xbc\x01", b"\0\0\0\x0cJXL \r\n\x87\n"]
    ),
    data=st.binary(max_size=64),
)
def test_noise_declares_nothing_or_something_but_does_not_fail(read, start, data):
    assert read(start + data) is None or len(read(start + data)) == 3
