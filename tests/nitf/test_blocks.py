"""Uncompressed and masked images: every mode and type against the pixels that were laid out, and against GDAL."""

import itertools

import numpy as np
import pytest
import rasterio

import jnrrdz

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

NATIVE = [
    ("INT", 8, ">u1"),
    ("INT", 16, ">u2"),
    ("INT", 32, ">u4"),
    ("INT", 64, ">u8"),
    ("SI", 8, ">i1"),
    ("SI", 16, ">i2"),
    ("SI", 32, ">i4"),
    ("SI", 64, ">i8"),
    ("R", 32, ">f4"),
    ("R", 64, ">f8"),
    ("C", 64, ">c8"),
]
BY_GDAL = {"u1", "u2", "u4", "i2", "i4", "f4", "f8", "c8"}
ORDER = {"B": (0, 1, 2), "S": (0, 1, 2), "R": (1, 0, 2), "P": (1, 2, 0)}


def values(dtype, shape, seed=0):
    random = np.random.default_rng(seed)
    raw = random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if np.dtype(dtype).kind in "fc":
        return random.normal(size=shape).astype(dtype)
    return raw.view(dtype)[..., 0]


def packed(samples, bits):
    """Return samples one after the other, the first bits first, as one long number."""
    number = 0
    for sample in samples.ravel().tolist():
        number = number << bits | sample & ((1 << bits) - 1)
    length = -(-samples.size * bits // 8)
    return (number << (length * 8 - samples.size * bits)).to_bytes(length, "big")


def stored(block, mode, bits):
    """Return one block of (band, row, column) as the standard stores it."""
    if mode == "B":
        return b"".join(packed(band, bits) for band in block)
    return packed(block.transpose(ORDER[mode]), bits)


def raw(block, mode, _bits):
    return np.ascontiguousarray(block.transpose(ORDER[mode])).tobytes()


def blocks(pixels, block, mode):
    """Yield the blocks of an image in the order of the file, padded with zeros at the edges."""
    bands, rows, columns = pixels.shape
    down, across = -(-rows // block[0]), -(-columns // block[1])
    whole = np.zeros((bands, down * block[0], across * block[1]), pixels.dtype)
    whole[:, :rows, :columns] = pixels
    planes = [whole[band : band + 1] for band in range(bands)] if mode == "S" else [whole]
    for plane, row, column in itertools.product(planes, range(down), range(across)):
        top, left = row * block[0], column * block[1]
        yield plane[:, top : top + block[0], left : left + block[1]]


def fields(pixels, block, mode, pvtype, bits, **more):
    bands, rows, columns = pixels.shape
    return {
        "NROWS": rows,
        "NCOLS": columns,
        "NBPR": -(-columns // block[1]),
        "NBPC": -(-rows // block[0]),
        "NPPBH": block[1],
        "NPPBV": block[0],
        "NBPP": bits,
        "ABPP": bits,
        "PVTYPE": pvtype,
        "IMODE": mode,
        "NBANDS": bands,
        **more,
    }


@pytest.mark.parametrize("sample", NATIVE)
@pytest.mark.parametrize("mode", "BPRS")
def test_types_and_modes(make_nitf, open_nitf, mode, sample):
    pvtype, bits, dtype = sample
    pixels = values(dtype, (3, 10, 13))
    data = b"".join(raw(block, mode, bits) for block in blocks(pixels, (4, 6), mode))
    path = make_nitf((data, fields(pixels, (4, 6), mode, pvtype, bits)))
    found = open_nitf(path)["image_0/data"]
    assert found.metadata.dimension_names == ("band", "y", "x")
    assert found.dtype == pixels.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found[...], pixels)
    if dtype.strip(">") in BY_GDAL:
        with rasterio.open(path) as gdal:
            np.testing.assert_array_equal(found[...], gdal.read())


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 7, 9, 11, 12, 13, 17, 24, 31, 33, 47, 63])
@pytest.mark.parametrize("mode", "BPRS")
@pytest.mark.parametrize("pvtype", ["INT", "SI"])
def test_packed_samples_are_unpacked_first_bit_first(make_nitf, open_nitf, mode, bits, pvtype):
    random = np.random.default_rng(bits)
    low, high = (0, 1 << bits) if pvtype == "INT" else (-(1 << bits - 1), 1 << bits - 1)
    pixels = random.integers(low, high, (2, 5, 7), dtype=np.int64)
    data = b"".join(stored(block, mode, bits) for block in blocks(pixels, (3, 5), mode))
    found = open_nitf(make_nitf((data, fields(pixels, (3, 5), mode, pvtype, bits))))["image_0/data"]
    np.testing.assert_array_equal(found[...], pixels)
    assert found.dtype.kind == ("u" if pvtype == "INT" else "i")


def test_bilevel_samples(make_nitf, open_nitf):
    pixels = np.random.default_rng(1).integers(0, 2, (1, 9, 11))
    path = make_nitf((packed(pixels, 1), fields(pixels, (9, 11), "B", "B", 1)))
    found = open_nitf(path)["image_0/data"][...]
    np.testing.assert_array_equal(found, pixels[0])
    with rasterio.open(path) as gdal:
        np.testing.assert_array_equal(found, gdal.read(1))


def test_where_gdal_swaps_the_nibbles_of_12_bits_the_standards_order_is_read(make_nitf, open_nitf):
    """JBP packs the most significant bit first: ab cd ef is abc, def. GDAL reads them otherwise."""
    pixels = np.array([[[0xABC, 0xDEF]]])
    path = make_nitf((bytes.fromhex("abcdef"), fields(pixels, (1, 2), "B", "INT", 12)))
    assert open_nitf(path)["image_0/data"][...].tolist() == [[0xABC, 0xDEF]]
    with rasterio.open(path) as gdal:
        assert gdal.read(1).tolist() != [[0xABC, 0xDEF]]


@pytest.mark.parametrize("mode", "BPRS")
def test_missing_blocks_are_missing_chunks_of_the_pad_pixel(make_nitf, make_mask, open_nitf, mode):
    pixels = values(">u2", (3, 8, 12))
    kept = list(blocks(pixels, (4, 6), mode))
    gone = [number % 3 == 1 for number in range(len(kept))]
    data, offsets = b"", []
    for block, is_gone in zip(kept, gone, strict=True):
        offsets.append(None if is_gone else len(data))
        if not is_gone:
            data += raw(block, mode, 16)
    mask = make_mask(offsets, pad=b"\x01\x02")
    path = make_nitf((mask + data, fields(pixels, (4, 6), mode, "INT", 16, IC="NM")))
    found = open_nitf(path)["image_0/data"]
    assert found.fill_value == 0x0102
    expected = pixels.astype(np.uint16)
    places = itertools.product(range(3 if mode == "S" else 1), range(2), range(2))
    for is_gone, (band, row, column) in zip(gone, places, strict=True):
        if is_gone:
            bands = slice(band, band + 1) if mode == "S" else slice(None)
            expected[bands, row * 4 : row * 4 + 4, column * 6 : column * 6 + 6] = 0x0102
    np.testing.assert_array_equal(found[...], expected)


def test_missing_blocks_as_gdal_reads_them(make_nitf, make_mask, open_nitf):
    """In the one case that GDAL gets right: IMODE P, a byte a sample."""
    mode = "P"
    pixels = values(">u1", (3, 8, 12))
    kept = [raw(block, mode, 8) for block in blocks(pixels, (4, 6), mode)]
    mask = make_mask([0, None, len(kept[0]), None], pad=b"\x7f")
    header = fields(pixels, (4, 6), mode, "INT", 8, IC="NM")
    path = make_nitf((mask + kept[0] + kept[2], header))
    with rasterio.open(path) as gdal:
        np.testing.assert_array_equal(open_nitf(path)["image_0/data"][...], gdal.read())


def test_a_mask_without_a_table_of_blocks(make_nitf, make_mask, open_nitf):
    pixels = values(">u1", (1, 4, 6))
    mask = make_mask([], pad=b"\x07")
    found = open_nitf(make_nitf((mask + pixels.tobytes(), fields(pixels, (4, 6), "B", "INT", 8, IC="NM"))))
    np.testing.assert_array_equal(found["image_0/data"][...], pixels[0])
    assert found["image_0/data"].fill_value == 7


@pytest.mark.parametrize("listed", [False, True])
def test_blocks_begin_where_the_mask_says_behind_its_tables(make_nitf, make_mask, open_nitf, listed):
    pixels = values(">u1", (1, 4, 6))
    mask = make_mask([0] if listed else [], pad=b"\x07")
    begin = int.from_bytes(mask[:4], "big") + 5
    data = begin.to_bytes(4, "big") + mask[4:] + b"\xaa" * 5 + pixels.tobytes()
    found = open_nitf(make_nitf((data, fields(pixels, (4, 6), "B", "INT", 8, IC="NM"))))
    np.testing.assert_array_equal(found["image_0/data"][...], pixels[0])


@pytest.mark.parametrize(("sample", "pad"), [(("SI", 16, ">i2"), -2), (("R", 32, ">f4"), 2.5), (("INT", 8, "u1"), 9)])
def test_the_pad_pixel_is_a_sample(make_nitf, make_mask, open_nitf, sample, pad):
    pvtype, bits, dtype = sample
    pixels = np.zeros((1, 2, 4), dtype)
    data = make_mask([None, 0], pad=np.array(pad, dtype).tobytes()) + pixels[:, :, :2].tobytes()
    found = open_nitf(make_nitf((data, fields(pixels, (2, 2), "B", pvtype, bits, IC="NM"))))["image_0/data"]
    assert found[...].tolist() == [[pad, pad, 0, 0]] * 2


@pytest.mark.parametrize(("mode", "bands"), [("B", 2), ("P", 2), ("B", 1)])
def test_one_long_block_is_cut_into_groups_of_rows(make_nitf, open_nitf, mode, bands):
    pixels = values(">u2", (bands, 700, 1000))
    path = make_nitf((raw(pixels, mode, 16), fields(pixels, (700, 1000), mode, "INT", 16)))
    found = open_nitf(path)["image_0/data"]
    assert found.chunks[-2] < 700
    np.testing.assert_array_equal(found[...].reshape(pixels.shape), pixels)


def test_a_column_of_long_blocks_is_cut_where_rows_divide_a_block(make_nitf, open_nitf):
    pixels = values(">u4", (1, 1500, 500))
    data = b"".join(raw(block, "B", 32) for block in blocks(pixels, (1000, 400), "B"))
    found = open_nitf(make_nitf((data, fields(pixels, (1000, 400), "B", "INT", 32))))["image_0/data"]
    assert found.chunks[0] < 1000
    assert 1000 % found.chunks[0] == 0
    np.testing.assert_array_equal(found[...], pixels[0])


def test_sides_too_long_for_four_digits_are_zero_in_the_header(make_nitf, open_nitf):
    pixels = values(">u1", (1, 2, 10_001))
    header = fields(pixels, (2, 10_001), "B", "INT", 8) | {"NPPBH": 0}
    np.testing.assert_array_equal(open_nitf(make_nitf((pixels.tobytes(), header)))["image_0/data"][...], pixels[0])


def test_real_and_imaginary_bands_are_one_complex_band(make_nitf, open_nitf):
    parts = values(">f4", (4, 5, 2))
    header = fields(parts.transpose(2, 0, 1), (4, 5), "P", "R", 32)
    names = {"ISUBCAT00001": "I", "ISUBCAT00002": "Q"}
    found = open_nitf(make_nitf((parts.tobytes(), header | names)))["image_0/data"]
    assert found.dtype == np.complex64
    np.testing.assert_array_equal(found[...], parts[..., 0] + 1j * parts[..., 1])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"NROWS": 60}, "NBPC, NPPBV"),
        ({"NBPC": 2, "NPPBV": 3000, "NROWS": 5000}, "blocks"),
        ({"NBPP": 65}, "PVTYPE, NBPP"),
        ({"PVTYPE": "R", "NBPP": 24}, "PVTYPE, NBPP"),
        ({"IC": "C7", "COMRAT": "01.0"}, "IC"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(make_nitf, tmp_path, change, named):
    pixels = values(">u1", (1, 6, 6))
    header = fields(pixels, (6, 6), "B", "INT", 8) | change
    path = make_nitf((pixels.tobytes(), header))
    with pytest.raises(jnrrdz.JnrrdzError) as caught:
        jnrrdz.index(path, tmp_path / "refs.json")
    assert caught.value.field == f"image 0 {named}"
    assert str(path) in str(caught.value)
    assert not (tmp_path / "refs.json").exists()


@pytest.mark.parametrize(
    "case",
    [
        (12, "R", b"\x01\x23", 0x123),
        (12, "L", b"\x12\x30", 0x123),
        (12, "L", b"\x01\x20", 0x012),
        (12, "R", b"\x01\x20", 0x120),
        (12, "R", b"\x12\x30", 0x123),  # too large to stand on the right
        (1, "L", b"\x80", 1),
        (16, "L", b"\x12\x30", 0x1230),
    ],
)
def test_the_pad_pixel_stands_in_its_bytes_as_samples_do(make_nitf, make_mask, open_nitf, case):
    bits, side, pad, value = case
    pixels = np.zeros((1, 8, 16), np.uint16)
    data = make_mask([None, 0], pad=pad, pad_bits=bits) + packed(pixels[:, :, :8], bits)
    header = fields(pixels, (8, 8), "B", "INT", bits, IC="NM", PJUST=side)
    found = open_nitf(make_nitf((data, header)))["image_0/data"]
    assert (found[:, :8] == value).all()
    assert not found[:, 8:].any()


@pytest.mark.parametrize(("entries", "black_end"), [(10, False), (216, False), (217, False), (217, True), (254, False)])
def test_missing_blocks_without_a_pad_pixel_have_no_colour(make_nitf, make_mask, open_nitf, entries, black_end):
    """As GDAL has it: a value beyond the table, or the black at the end of CADRG's."""
    pixels = values(">u1", (1, 8, 12)) % entries
    kept = [raw(block, "B", 8) for block in blocks(pixels, (4, 6), "B")]
    lut = bytes(range(1, entries)) + (b"\0" if black_end else b"\7")
    header = fields(pixels, (4, 6), "B", "INT", 8, IC="NM", IREP="RGB/LUT")
    data = make_mask([0, None, 24, 48]) + kept[0] + kept[2] + kept[3]
    path = make_nitf((data, header), luts=[lut] * 3)
    group = open_nitf(path)
    with rasterio.open(path) as gdal:
        np.testing.assert_array_equal(group["image_0/data"][...], gdal.read(1))
        assert group["image_0/data"].fill_value == gdal.nodata
    assert not open_nitf(path, expand_palette=True)["image_0/data"][:, :4, 6:].any()
