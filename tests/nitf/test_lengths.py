"""Lengths that contradict each other: an image is read where its place is certain, else refused in words."""

import itertools
import warnings
from io import BytesIO

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from tests.nitf.by_hand import V21, file_bytes, image_header

ROWS, COLUMNS = 12, 16
PIXELS = np.random.default_rng(5).integers(1, 250, (2, ROWS, COLUMNS), np.uint8)
FL, NUMI = 342, 360
"""Where NITF 2.1 has them; LISH001 of six digits and LI001 of ten follow NUMI's three."""

LISH, LI = NUMI + 3, NUMI + 9


def two_images():
    """A file of two images without compression, one after the other."""
    header = image_header(ROWS, COLUMNS, version=V21)
    one = file_bytes(header, PIXELS[0].tobytes(), version=V21)
    lengths = b"%06d%010d" % (len(header), ROWS * COLUMNS)
    head = one[:NUMI] + b"002" + lengths * 2 + one[LI + 10 : -len(header) - ROWS * COLUMNS]
    data = head + b"".join(header + pixels.tobytes() for pixels in PIXELS)
    return head[:FL] + b"%012d%06d" % (len(data), len(head)) + data[NUMI:]


def add(data, at, width, change):
    return data[:at] + b"%0*d" % (width, int(data[at : at + width]) + change) + data[at + width :]


def read(path):
    """Return the images that are read, and what is said of those that are not."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            group = jnrrdz.open_group(jnrrdz.scan(path))
        except jnrrdz.JnrrdzError as error:
            return {}, [str(error)]
    listed = [entry["image"] for entry in group.attrs.get("refused", [])]
    told = [str(each.message) for each in said]
    assert all(any(line.startswith(f"{name} is left out: image") for line in told) for name in listed)
    assert sorted([*group, *listed]) == ["image_0", "image_1"]
    return {name: group[f"{name}/data"][...] for name in group}, told


def test_a_file_without_contradictions_says_nothing(tmp_path):
    (tmp_path / "a.ntf").write_bytes(two_images())
    images, told = read(tmp_path / "a.ntf")
    np.testing.assert_array_equal([images["image_0"], images["image_1"]], PIXELS)
    assert told == []


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("changes", [each for each in itertools.product([-1, 0, 1], repeat=3) if any(each)])
def test_no_pixel_is_read_from_elsewhere(tmp_path, number, changes):
    lish, li, fl = changes
    data = add(add(add(two_images(), LISH + 16 * number, 6, lish), LI + 16 * number, 10, li), FL, 12, fl)
    (tmp_path / "a.ntf").write_bytes(data)
    images, told = read(tmp_path / "a.ntf")
    for name, pixels in images.items():
        np.testing.assert_array_equal(pixels, PIXELS[int(name[-1])])
    assert told
    if number == 1:
        assert "image_0" in images
    if lish:
        assert f"image_{number}" not in images
        # a cut header or one whose fields end elsewhere
        assert any("LISH" in line or "are left" in line for line in told)
    elif not li:  # the lengths of the segments are right, and that of the file is told to be wrong
        assert sorted(images) == ["image_0", "image_1"]
        assert any("FL" in line for line in told)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_header_of_another_length_than_its_fields_is_read_if_all_else_agrees(tmp_path, change):
    header = image_header(ROWS, COLUMNS, version=V21, udid=(b"ABCDEF00003xyz", 0))
    longer = header + b" " if change > 0 else header[:-1]  # a writer that counts a byte more or less than it means
    (tmp_path / "a.ntf").write_bytes(file_bytes(longer, PIXELS[0].tobytes(), version=V21))
    group = jnrrdz.open_group(jnrrdz.scan(tmp_path / "a.ntf")) if change > 0 else None
    if group is None:
        with pytest.warns(UserWarning, match="where 4 are left"):
            group = jnrrdz.open_group(jnrrdz.scan(tmp_path / "a.ntf"))
    np.testing.assert_array_equal(group["image_0/data"][...], PIXELS[0])


def jpeg(pixels):
    out = BytesIO(imagecodecs.jpeg8_encode(pixels, level=95))
    return out.getvalue()


@pytest.mark.parametrize("change", [-1, 1])
def test_a_stream_stands_where_it_begins(tmp_path, change):
    header = image_header(ROWS, COLUMNS, version=V21, ic=b"C300.0")
    stream = jpeg(PIXELS[0])
    data = file_bytes(header, stream, version=V21)
    (tmp_path / "a.ntf").write_bytes(add(add(data, LISH, 6, change), LI, 10, -change))
    images, told = read(tmp_path / "a.ntf")
    assert images == {}
    assert any("LISH" in line or "are left" in line for line in told)


@pytest.mark.parametrize("change", [-1, 1])
def test_facsimile_that_may_be_cut_is_refused(tmp_path, change):
    header = image_header(ROWS, COLUMNS, version=V21, ic=b"C11D  ", nbpp=1, abpp=1, pvtype=b"B")
    stream = bytes(40)
    data = file_bytes(header, stream, version=V21)
    (tmp_path / "a.ntf").write_bytes(add(data, LI, 10, change))
    images, told = read(tmp_path / "a.ntf")
    assert images == {}
    assert any("image 0 LI: the data do not end where" in line for line in told)


def test_other_segments_out_of_place_are_named(tmp_path):
    text = b"TE" + b"note   " + b" " * 3000, b"hello"
    data = file_bytes(image_header(ROWS, COLUMNS, version=V21), PIXELS[0].tobytes(), version=V21, extensions=[text])
    (tmp_path / "a.ntf").write_bytes(data)
    images, told = read_one(tmp_path / "a.ntf")
    np.testing.assert_array_equal(images, PIXELS[0])
    assert any("'TE' where DE belongs" in line for line in told)


def read_one(path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        group = jnrrdz.open_group(jnrrdz.scan(path))
    assert group.attrs["metadata_refused"]
    return group["image_0/data"][...], [str(each.message) for each in said]
