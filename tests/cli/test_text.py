"""Facts as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.cli import console as text
from jnrrdz.cli.console import printable


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_951, "1.0 MB"),
        (2_815_432, "2.8 MB"),
        (5 * 10**18, "5.0 EB"),
        (5 * 10**21, "5,000.0 EB"),
    ],
)
def test_size(nbytes, shown):
    assert text.size(nbytes) == shown


@given(st.integers(1000, 999 * 10**18))
def test_size_is_within_its_rounding(nbytes):
    number, unit = text.size(nbytes).split()
    exact = nbytes / 1000 ** (1 + ["kB", "MB", "GB", "TB", "PB", "EB"].index(unit))
    assert len(number) <= 5
    assert abs(float(number) - exact) <= 0.05 + 1e-9


@pytest.mark.parametrize(("number", "shown"), [(0, "0 chunks"), (1, "1 chunk"), (1234567, "1,234,567 chunks")])
def test_counted(number, shown):
    assert text.counted(number, "chunk") == shown


def test_table_aligns_left_and_right():
    assert text.table([("a", "b", "c"), ("long", "12", ""), ("x", "3456", "z")], right=(1,)) == [
        "a        b  c",
        "long    12",
        "x     3456  z",
    ]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ({"name": "bytes"}, "bytes"),
        ({"name": "gzip", "configuration": {"level": 5}}, "gzip (level 5)"),
        ({"name": "offset", "configuration": {"offset": 8, "prefix": "A" * 100}}, "offset (offset 8)"),
        ({"name": "transpose", "configuration": {"order": [1, 0]}}, "transpose"),
        ({"name": "tiff-tile", "configuration": {"compression": 5, "predictor": 1}}, "tiff-tile (LZW (5))"),
        (
            {"name": "u/tiff-tile", "configuration": {"compression": 8, "predictor": 3}},
            "u/tiff-tile (DEFLATE (8), predictor FLOATING_POINT)",
        ),
        ({"name": "tiff-tile", "configuration": {"compression": 1234, "predictor": "x"}}, "tiff-tile (1234)"),
        ({"name": "tiff-tile", "configuration": {"compression": []}}, "tiff-tile ([])"),
    ],
)
def test_codec(entry, shown):
    assert text.codec(entry) == shown


@given(st.text(st.characters()))
def test_printable_is_one_line_of_what_can_be_printed(given_text):
    shown = printable(given_text)
    assert shown.isprintable()
    assert given_text.isprintable() <= (shown == given_text)


def test_printable_keeps_undecodable_names():
    assert printable("a\udcff\tb") == "a\\udcff\\tb"
