"""Cards of FITS that would stop astropy, written by hand."""

import subprocess
import sys

import numpy as np
import pytest
from astropy.io import fits

import jnrrdz

NUMBERS = np.arange(24, dtype=">i2").reshape(4, 6)
PRIMARY = {"SIMPLE": "T", "BITPIX": 16, "NAXIS": 2, "NAXIS1": 6, "NAXIS2": 4}
SECONDS = 60


def card(name, value):
    return f"{name:<8}= {value:>20}".ljust(80).encode()


def header(*cards):
    text = b"".join(cards) + b"END".ljust(80)
    return text.ljust(-(-len(text) // 2880) * 2880)


def primary(*cards, **changed):
    counts = {**PRIMARY, **changed}
    return header(*(card(name, value) for name, value in counts.items()), *cards)


def image(tmp_path, *cards, **changed):
    path = tmp_path / "hand.fits"
    path.write_bytes(primary(*cards, **changed) + NUMBERS.tobytes().ljust(2880, b"\0"))
    return path


def hierarch(name, value=1):
    return f"HIERARCH {name} = {value}".ljust(80).encode()


LONG = hierarch("A" * 56 + " B")

HOSTILE = {
    "dots": [hierarch("..." * 19), LONG],
    "stars in a keyword": [card("*A*A*A*A", 1), LONG],
    "stars": [hierarch("*A" * 25), LONG],
    "questions": [hierarch("?*A*" * 13), LONG],
    "no value": [b"********".ljust(80), LONG],
    "early equals sign": [b"*******= 1".ljust(80), LONG],
    "chain": [
        hierarch("*A" * 20, "'abc&'"),
        b"CONTINUE  'def&'".ljust(80),
        b"CONTINUE  'ghi'".ljust(80),
        LONG,
    ],
}

READ = """
import sys, warnings, jnrrdz
warnings.simplefilter("error")
for path in sys.argv[1:]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        group = jnrrdz.open_group(jnrrdz.scan(path))
    texts = [str(one.message) for one in caught]
    print([array[...].tolist() for _, array in group.arrays()], *texts)
"""


def test_keywords_that_are_patterns_are_left_out(tmp_path):
    """In a process of its own: at most of them astropy alone does not return."""
    paths = []
    for name, cards in HOSTILE.items():
        folder = tmp_path / name
        folder.mkdir()
        paths.append(image(folder, *cards))
    assert {path.stat().st_size for path in paths} == {5760}
    command = [sys.executable, "-c", READ, *paths]
    ended = subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    lines = ended.stdout.decode().splitlines()
    assert len(lines) == len(HOSTILE)
    for line in lines:
        assert line.startswith(f"{[NUMBERS.tolist()]} left out: card at byte 400: ")
        assert "is a pattern" in line


ODD = {
    "NAXIS": (1 << 40, "NAXIS: 1099511627776, where a number from 0 to 999"),
    "NAXIS1": (-6, "NAXIS1: -6, where"),
    "NAXIS2": ("'a'", "NAXIS2: not an integer"),
    "BITPIX": (17, "BITPIX: 17 bits a sample"),
    "TFIELDS": (10**9, "TFIELDS: 1000000000, where"),
    "ZNAXIS": (10**9, "ZNAXIS: 1000000000, where"),
}


@pytest.mark.parametrize("name", ODD)
def test_counts_outside_of_the_standard(tmp_path, name):
    value, message = ODD[name]
    with pytest.raises(jnrrdz.MalformedError, match=message):
        jnrrdz.scan(image(tmp_path, **{name: value}))


def test_a_header_without_end(tmp_path):
    path = tmp_path / "cut.fits"
    path.write_bytes(primary()[:-2880] + card("SIMPLE", "T") * 36)
    with pytest.raises(jnrrdz.MalformedError, match="ends inside of a header"):
        jnrrdz.scan(path)


def test_too_many_cards_and_units(tmp_path):
    empty = primary(NAXIS=0)
    extension = header(b"XTENSION= 'IMAGE   '".ljust(80), card("NAXIS", 0))
    path = tmp_path / "many.fits"
    path.write_bytes(empty + extension * 5000)
    with pytest.raises(jnrrdz.UnsupportedError, match="more than 4096"):
        jnrrdz.scan(path)
    path.write_bytes(primary(*[card("A", 1)] * 150_000))
    with pytest.raises(jnrrdz.UnsupportedError, match="more than 4096 blocks"):
        jnrrdz.scan(path)


def test_special_records_are_ignored(tmp_path):
    path = image(tmp_path)
    with path.open("ab") as file:
        file.write(header(b"*" * 80, hierarch("*" * 40), LONG))
    group = jnrrdz.open_group(jnrrdz.scan(path))
    (array,) = [array for _, array in group.arrays()]
    assert np.array_equal(array[...], NUMBERS)


def test_ordinary_headers_pass(tmp_path):
    """Every card that astropy writes: long texts, HIERARCH, comments, groups."""
    path = tmp_path / "a.fits"
    cards = fits.Header()
    cards["LONGTEXT"] = "word " * 60
    cards["HIERARCH ESO DET CHIP1 X"] = 3
    cards["COMMENT"] = "what ... is *this*?"
    cards["DP1"] = "AXIS.1: 2"
    second = fits.ImageHDU(NUMBERS + 1, cards, name="second")
    fits.HDUList([fits.PrimaryHDU(NUMBERS, cards), second]).writeto(path)
    arrays = dict(jnrrdz.open_group(jnrrdz.scan(path)).arrays())
    with fits.open(path) as opened:
        for hdu in opened:
            assert np.array_equal(arrays[hdu.name][...], hdu.data)
    attributes = arrays["PRIMARY"].attrs
    assert attributes["LONGTEXT"] == "word " * 59 + "word"
    assert attributes["ESO DET CHIP1 X"] == 3
