"""NITF headers against jbpy, which reads the same fields by tables of its own, and NITF 2.0 by hand."""

import io
import logging

import jbpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nitf import NITF
from jnrrdz.formats.nitf.header import parse_nitf
from jnrrdz.formats.nitf.image import parse_image

logging.getLogger("jbpy").propagate = False


def made(version=("NITF", "02.10")):
    """Return a file of two images, a graphic, a text and an extension, with most fields set."""
    file = jbpy.Jbp()
    header = file["FileHeader"]
    header["FHDR"].value, header["FVER"].value = version
    header["OSTAID"].value, header["FDT"].value, header["FTITLE"].value = "station", "20200102030405", "a title"
    header["FSCLAS"].value, header["FSCODE"].value = "U", "code"
    header["NUMI"].value, header["NUMS"].value, header["NUMT"].value, header["NUMDES"].value = 2, 1, 1, 1
    for number, (rows, columns, bands) in enumerate([(3, 5, 1), (4, 4, 12)]):
        header[f"LI{number + 1:03}"].value = rows * columns * bands
        image = file["ImageSegments"][number]["subheader"]
        image["NBANDS"].value = 0 if bands > 9 else bands
        if bands > 9:
            image["XBANDS"].value = bands
        image["ICORDS"].value = "G"
        image["IGEOLO"].value = "010203N0040506E" * 4
        image["NICOM"].value = 2
        image["ICOM1"].value, image["ICOM2"].value = "first", "second"
        for name, value in {"NROWS": rows, "NCOLS": columns, "NBPR": 1, "NBPC": 1, "NPPBH": columns}.items():
            image[name].value = value
        for name, value in {"NPPBV": rows, "NBPP": 8, "ABPP": 8, "IDLVL": number + 1, "ISCLAS": "U"}.items():
            image[name].value = value
        image["IID1"].value, image["IREP"].value, image["ILOC"].value = "id", "MULTI", (number, 7)
    file.finalize()
    out = io.BytesIO()
    file.dump(out)
    return file, out.getvalue().ljust(file.get_size(), b"\0")


def reader(data):
    return lambda start, stop: data[start:stop]


def spelt(field):
    value = field.encoded_value.decode("latin-1")
    return value.rstrip(" \0")


@pytest.mark.parametrize("version", [("NITF", "02.10"), ("NSIF", "01.00")])
def test_every_field_is_the_one_that_jbpy_reads(version):
    file, data = made(version)
    layout = parse_nitf(reader(data), len(data))
    for name, value in layout.fields.items():
        assert str(value) in {spelt(file["FileHeader"][name]), str(file["FileHeader"][name].value)}
    for number, segment in enumerate(layout.of("image")):
        theirs = file["ImageSegments"][number]
        assert segment.data == theirs["Data"].get_offset()
        assert segment.data_length == theirs["Data"].get_size()
        image = parse_image(reader(data), layout, segment)
        assert len(image.fields) > 40
        for name, value in image.fields.items():
            assert str(value) in {spelt(theirs["subheader"][name]), str(theirs["subheader"][name].value)}
        assert image.comments == ("first", "second")
        assert len(image.bands) == [1, 12][number]
    assert [segment.kind for segment in layout.segments] == ["image", "image", "graphic", "text", "extension"]
    assert layout.segments[-1].stop == len(data)


NITF20 = (
    b"NITF02.0001    U217G0J1  03135226ZNOV92"
    + b"title".ljust(80)
    + b"U"
    + b" " * 160
    + b"999998"
    + b"event".ljust(40)
    + b"0000100001"
    + b"0"
    + b"JITC".ljust(27)
    + b"(602)".ljust(18)
)


def test_the_downgrading_event_of_nitf_2_0_moves_what_follows():
    tail = b"001" + b"000439" + b"0000000006" + b"000" * 5 + b"00000" * 2
    length = len(NITF20) + 18 + len(tail)
    data = NITF20 + f"{length + 439 + 6:012}{length:06}".encode() + tail
    image = (
        b"IM" + b"id".ljust(10) + b"25152559ZMAR93" + b" " * 17 + b"BASE".ljust(80) + b"U" + b" " * 166 + b"0"
        + b"source".ljust(42) + b"00000002" + b"00000003" + b"INT" + b"MONO".ljust(8) + b"VIS".ljust(8) + b"08" + b"R"
        + b"N0NC1" + b" " * 8 + b"N" + b"   " + b"00B" + b"0001" * 2 + b"00030002"
        + b"08" + b"001" + b"000" + b"0000000000" + b"1.0 " + b"00000" * 2
    )  # fmt: skip
    assert len(image) == 439
    data += image + bytes(range(6))
    layout = parse_nitf(reader(data), len(data))
    assert layout.fields["FSDEVT"] == "event"
    found = parse_image(reader(data), layout, layout.of("image")[0])
    assert (found.rows, found.columns, found.grid, found.block, found.mode) == (2, 3, (1, 1), (2, 3), "B")
    assert "IGEOLO" not in found.fields
    assert found.segment.stop == len(data)


@pytest.mark.parametrize(("head", "expected"), [(b"NITF02.10", True), (b"NSIF01.00", True), (b"NRRD0004", False)])
def test_the_format_is_recognised(head, expected):
    assert NITF.fits(head) is expected


@pytest.mark.parametrize(
    ("data", "error", "field"),
    [
        (b"NITF01.10".ljust(500), UnsupportedError, "FVER"),
        (b"NITF09.99".ljust(500), MalformedError, "FHDR, FVER"),
        (made()[1][:300], MalformedError, "file header"),
        (made()[1][:360] + b"0x2" + made()[1][363:], MalformedError, "file header NUMI"),
    ],
)
def test_what_is_no_header_is_refused_by_its_field(data, error, field):
    with pytest.raises(error) as caught:
        parse_nitf(reader(data), len(data))
    assert caught.value.field.startswith(field)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_headers_are_errors_that_say_where(data):
    whole = bytearray(made()[1])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.sampled_from(b"0129 \xff-_A"))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        layout = parse_nitf(reader(cut), len(cut))
        for segment in layout.of("image"):
            parse_image(reader(cut), layout, segment)
    except JnrrdzError as error:
        if not error.field:
            raise AssertionError("an error that does not say where") from error
