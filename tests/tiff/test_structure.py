"""Directories and tags as tifffile reads them; what contradicts itself is an error with its place."""

import io
import struct

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.tiff import TIFF
from jnrrdz.formats.tiff.structure import TiffLayout

FORMS = [("<", False), (">", False), ("<", True), (">", True)]
EXTRA = [
    (65000, "B", 3, (1, 2, 255), True),
    (65001, "s", 6, "hello", True),
    (65002, "H", 2, (1, 65535), True),
    (65003, "I", 1, 2**32 - 1, True),
    (65004, "2I", 2, (1, 3, 5, 0), True),
    (65005, "b", 2, (-1, 127), True),
    (65006, "h", 3, (-1, 0, 32767), True),
    (65007, "i", 1, -5, True),
    (65008, "2i", 1, (-1, 4), True),
    (65009, "f", 2, (1.5, -2.25), True),
    (65010, "d", 1, 0.1, True),
]


def written(order="<", *, big=False, pages=1, **options):
    file = io.BytesIO()
    with tifffile.TiffWriter(file, byteorder=order, bigtiff=big) as tif:
        for number in range(pages):
            pixels = np.full((20, 30), number, "u2")
            tif.write(pixels, tile=(16, 16), metadata=None, extratags=EXTRA, contiguous=False, **options)
    return file.getvalue()


def directories(data):
    layout = layout_of(data)
    return [layout.ifd(offset) for offset in layout.main]


def layout_of(data):
    return TiffLayout(lambda start, stop: data[start:stop], len(data))


@pytest.mark.parametrize(("order", "big"), FORMS)
def test_directories_and_their_entries(order, big):
    data = written(order, big=big, pages=3)
    layout = layout_of(data)
    assert (layout.order, layout.big) == (order, big)
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        for ifd, page in zip(map(layout.ifd, layout.main), tif.pages, strict=True):
            assert ifd.offset == page.offset
            theirs = {tag.code: (int(tag.dtype), tag.count, tag.valueoffset) for tag in page.tags}
            assert {code: (e.type, e.count, e.position) for code, e in ifd.entries.items()} == theirs


@pytest.mark.parametrize(("order", "big"), FORMS)
def test_values_of_every_type(order, big):
    layout = layout_of(written(order, big=big))
    (ifd,) = map(layout.ifd, layout.main)
    assert layout.ints(ifd, 65000) == (1, 2, 255)
    assert layout.text(ifd, 65001) == "hello"
    assert layout.ints(ifd, 65002) == (1, 65535)
    assert layout.integer(ifd, 65003, 0) == 2**32 - 1
    assert layout.floats(ifd, 65004) == pytest.approx((1 / 3, np.nan), nan_ok=True)
    assert layout.ints(ifd, 65005) == (-1, 127)
    assert layout.ints(ifd, 65006) == (-1, 0, 32767)
    assert layout.ints(ifd, 65007) == (-5,)
    assert layout.floats(ifd, 65008) == (-0.25,)
    assert layout.floats(ifd, 65009) == (1.5, -2.25)
    assert layout.floats(ifd, 65010) == (0.1,)
    assert layout.raw(ifd, 65001) == b"hello\0"
    assert (layout.ints(ifd, 64999, (7,)), layout.text(ifd, 64999), layout.integer(ifd, 64999, 3)) == ((7,), None, 3)


def test_text_that_is_no_utf8_is_latin():
    data = written().replace(b"hello\0", b"h\xe9llo\0")
    layout = layout_of(data)
    assert layout.text(layout.ifd(layout.main[0]), 65001) == "héllo"


def test_text_is_no_number():
    layout = layout_of(written())
    with pytest.raises(MalformedError, match="ASCII values where integers belong"):
        layout.ints(layout.ifd(layout.main[0]), 65001)


def header(order, first, *, big=False):
    if big:
        return (b"II" if order == "<" else b"MM") + struct.pack(order + "HHHQ", 43, 8, 0, first)
    return (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, first)


def directory(order, entries, following, *, big=False):
    form = order + ("HHQQ" if big else "HHII")
    body = b"".join(struct.pack(form, *entry) for entry in entries)
    return (
        struct.pack(order + ("Q" if big else "H"), len(entries)) + body + struct.pack(order + "QI"[not big], following)
    )


@pytest.mark.parametrize(("order", "big"), FORMS)
def test_a_loop(order, big):
    start = 16 if big else 8
    data = header(order, start, big=big) + directory(order, [(256, 3, 1, 5)], start, big=big)
    layout = layout_of(data)
    assert layout.main == [start]
    (reason,) = layout.left_out.values()
    assert "loop" in reason


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a TIFF"),
        (b"II*", "not a TIFF"),
        (b"II*\0", "header of 4 bytes where 8"),
        (b"MM\0+\0\x08\0\0", "header of 8 bytes where 16"),
        (b"II+\0\x04\0\0\0" + bytes(8), "offsets are not 8 bytes"),
        (b"II*\0\x08\0\0\0", "the source has only 8"),
        (b"II*\0\x08\0\0\0\0\0", "0 entries"),
        (b"II*\0\x08\0\0\0\xff\xff" + bytes(40), "65535 entries"),
        (b"II*\0\x08\0\0\0\x02\0" + bytes(12), "24 bytes would end at 34"),
    ],
)
def test_what_is_no_structure_is_said(data, words):
    with pytest.raises(MalformedError, match=words):
        directories(data)


@pytest.mark.parametrize("count", [2**20, 2**32 - 1])
def test_a_count_beyond_the_end_is_refused_before_it_is_read(count):
    data = header("<", 8) + directory("<", [(273, 4, count, 8)], 0)
    layout = layout_of(data)
    ifd = layout.ifd(layout.main[0])
    with pytest.raises(MalformedError, match=f"would end at .*the source has only {len(data)}") as caught:
        layout.array(ifd, 273)
    assert "StripOffsets" in str(caught.value)
    assert layout.array(ifd, 273, limit=2).tolist() == list(struct.unpack("<2I", data[8:16]))


def test_an_unknown_field_type_is_refused_by_number():
    data = header("<", 8) + directory("<", [(258, 99, 1, 8)], 0)
    layout = layout_of(data)
    with pytest.raises(UnsupportedError, match="field type 99"):
        layout.array(layout.ifd(layout.main[0]), 258)


def test_the_first_of_two_equal_tags_counts():
    data = header("<", 8) + directory("<", [(256, 3, 1, 5), (256, 3, 1, 6)], 0)
    layout = layout_of(data)
    assert layout.integer(layout.ifd(layout.main[0]), 256, 0) == 5


@given(data=st.binary(max_size=200), form=st.sampled_from(FORMS), first=st.integers(0, 260))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_bytes_end_in_directories_or_an_error(data, form, first):
    whole = header(form[0], first, big=form[1]) + data
    assert TIFF.fits(whole)
    try:
        for ifd in directories(whole):
            for tag in ifd.entries:
                layout_of(whole).array(ifd, tag)
    except JnrrdzError as error:
        assert "\n" not in str(error)  # noqa: PT017 - one line, whatever stands in the bytes
