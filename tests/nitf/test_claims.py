"""Headers and masks that claim what is not there: a clear error, or the images that are, and no memory for the rest."""

import tracemalloc
import warnings

import pytest

import jnrrdz

MEMORY = 64 << 20
PLAIN = {"NROWS": 32, "NCOLS": 32, "NPPBV": 16, "NPPBH": 16, "NBPR": 2, "NBPC": 2}
NUMI = 360
"""Where NITF 2.1 has it; LISH001 of six digits and LI001 of ten follow."""


def scanned(path):
    """Return the arrays' shapes, or the error that is told; neither may take much memory."""
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [array.shape for _, array in jnrrdz.scan(path).arrays() if array.shape]
    except jnrrdz.JnrrdzError as error:
        return str(error) if str(path) in str(error) else "an error that does not say where"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY


@pytest.fixture
def damaged(make_nitf, make_mask):
    """Return a function that writes a file with some of its bytes replaced, and returns what is found in it."""

    def made(old, new, *, masked=False):
        mask = make_mask([0, None, 256, 512], pad=b"\x01") if masked else b""
        path = make_nitf((mask + bytes(1024), PLAIN | {"IC": "NM" if masked else "NC"}))
        data = path.read_bytes()
        assert data.count(old) == 1
        path.write_bytes(data.replace(old, new))
        return scanned(path)

    return made


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (b"999", "bytes where"),
        (b"001999999", "its header would end at"),
        (b"001000100", "bytes where"),
        (b"001000000", "bytes where"),
        (b"000", "segments of a reserved kind"),
    ],
)
def test_counts_of_segments(make_nitf, counts, words):
    path = make_nitf((bytes(1024), PLAIN))
    data = path.read_bytes()
    assert data[NUMI : NUMI + 3] == b"001"
    path.write_bytes(data[:NUMI] + counts + data[NUMI + len(counts) :])
    assert words in scanned(path)


def test_a_thousand_images_of_which_one_is_there(make_nitf):
    whole = make_nitf((bytes(1024), PLAIN)).read_bytes()
    lengths, header = whole[NUMI + 3 : NUMI + 19], int(whole[NUMI - 6 : NUMI])
    more = lengths * 998
    path = make_nitf((bytes(1024), PLAIN))
    head = whole[: NUMI - 6] + f"{header + len(more):06}".encode() + b"999"
    path.write_bytes(head + lengths + more + whole[NUMI + 19 :])
    assert scanned(path) == [(32, 32)]


def test_an_image_longer_than_the_file(make_nitf):
    path = make_nitf((bytes(1024), PLAIN))
    path.write_bytes(path.read_bytes()[:-1])
    assert "bytes of data" in scanned(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"0002000200160016", b"9999999999999999", "chunks in 1024 bytes"),
        (b"0002000200160016", b"0000000000160016", "0 blocks"),
        (b"0002000200160016", b"0001000100160016", "1 blocks of 16 pixels for 32"),
        (b"0000003200000032", b"0000000000000032", "NROWS"),
    ],
)
def test_headers(damaged, old, new, words):
    assert words in damaged(old, new)


MASK = bytes.fromhex("0000001b00040000000801")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (bytes.fromhex("ffffffff00040000000801"), "IMDATOFF"),
        (bytes.fromhex("0000001b00080000000801"), "BMRLNTH"),
        (bytes.fromhex("0000001b00040005000801"), "TMRLNTH"),
        (bytes.fromhex("0000001b00040000ffff01"), "mask table"),
    ],
)
def test_masks(damaged, new, words):
    found = damaged(MASK, new, masked=True)
    assert isinstance(found, str)
    assert words in found


def test_a_block_beyond_the_data(damaged):
    old, new = (bytes.fromhex(f"00000000ffffffff{second}00000200") for second in ("00000100", "7fffff00"))
    assert "would end at" in damaged(old, new, masked=True)


def test_a_mask_of_more_blocks_than_the_data_have_room_for(damaged):
    assert "mask table" in damaged(b"0002000200160016", b"9999999900160016", masked=True)
