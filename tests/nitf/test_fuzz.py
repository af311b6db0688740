"""Files of every kind with bytes changed or cut off: errors of ours that name the file, or arrays that can be asked."""

import struct
import tracemalloc
import warnings

import imagecodecs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jnrrdz

MEMORY = 64 << 20
ROWS = {"NROWS": 32, "NCOLS": 32, "NPPBV": 16, "NPPBH": 16, "NBPR": 2, "NBPC": 2}


def kinds(make_bytes, make_mask):
    """Return a small file of each way to store an image."""
    block = np.arange(256, dtype=np.uint8).reshape(16, 16)
    jpeg = imagecodecs.jpeg8_encode(block)
    mask = make_mask([0, None, 256, 512], pad=b"\x01")
    j2k = imagecodecs.jpeg2k_encode(block, level=0, codecformat="J2K")
    tables = struct.pack(">IIBHHH", 4, 4, 12, 1, 4, 0) + struct.pack(">IH", 6, 14)
    tables += b"".join(struct.pack(">HIHHI", n, 4096, 4, 8, 62 + n * 16384) for n in range(4)) + bytes(65536)
    small = {"NROWS": 16, "NCOLS": 16}
    return {
        "NC": make_bytes((bytes(1024), ROWS | {"ICORDS": "G", "IGEOLO": "010000N0020000E" * 4})),
        "NM": make_bytes((mask + bytes(768), ROWS | {"IC": "NM"})),
        "C3": make_bytes((jpeg * 4, ROWS | {"IC": "C3", "COMRAT": "00.3"})),
        "M3": make_bytes((make_mask([0, len(jpeg), None, None]) + jpeg * 2, ROWS | {"IC": "M3", "COMRAT": "00.3"})),
        "C1": make_bytes((bytes(64), small | {"IC": "C1", "COMRAT": "1D", "NBPP": 1, "PVTYPE": "B"})),
        "C4": make_bytes((tables + bytes(96), ROWS | {"IC": "C4", "COMRAT": "0.75"})),
        "C8": make_bytes((j2k, small | {"IC": "C8", "COMRAT": "01.0"})),
    }


@pytest.fixture(scope="module")
def files(make_bytes, make_mask):
    """Return a function that gives a file by its kind: Hypothesis would print a mapping whole."""
    made = kinds(make_bytes, make_mask)
    return lambda kind: made[kind]


def scanned(path):
    """Return the arrays of a file, None where it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(jnrrdz.scan(path).arrays())
        except jnrrdz.JnrrdzError as error:
            if "damaged.ntf" not in str(error):
                raise AssertionError("an error that does not say where") from error
            return None


def check(path, size):
    for _, array in scanned(path) or ():
        assert array.refs.chunks <= size + (1 << 16)
        ends = array.refs.offset + array.refs.length
        assert int(ends.max(initial=0)) <= size


@pytest.mark.parametrize("kind", ["NC", "NM", "C3", "M3", "C1", "C4", "C8"])
def test_every_kind_is_read_while_it_is_whole(files, tmp_path, kind):
    path = tmp_path / "damaged.ntf"
    path.write_bytes(files(kind))
    assert scanned(path)


CHANGES = st.lists(
    st.tuples(st.integers(0, 9999), st.booleans(), st.sampled_from([*b"0129 ABNPRSCM\0\xff\xd8\xd9-_."])),
    min_size=1,
    max_size=8,
)
"""Where in ten thousandths (of the headers, or of all), and which byte."""


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(["NC", "NM", "C3", "M3", "C1", "C4", "C8"]), changes=CHANGES, kept=st.integers(0, 20_000))
def test_damaged_files_are_errors_or_arrays(files, tmp_path, kind, changes, kept):
    whole = bytearray(files(kind))
    for place, is_header, value in changes:
        whole[place * (min(len(whole), 1100) if is_header else len(whole)) // 10_000] = value
    del whole[len(whole) * kept // 10_000 :]
    path = tmp_path / "damaged.ntf"
    path.write_bytes(whole)
    check(path, len(whole))


@pytest.mark.parametrize("kind", ["NC", "NM", "C3", "M3", "C4"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"0000003200000032", b"9999999999999999"),  # NROWS, NCOLS
        (b"0002000200160016", b"9999999900010001"),  # NBPR, NBPC, NPPBH, NPPBV
        (b"0002000200160016", b"9999999999999999"),
    ],
)
def test_few_bytes_that_claim_much_cost_little(files, tmp_path, kind, old, new):
    whole = files(kind)
    assert whole.count(old) == 1
    path = tmp_path / "damaged.ntf"
    path.write_bytes(whole.replace(old, new))
    tracemalloc.start()
    try:
        scanned(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
