"""Masked and lossless compression: streams of encoders of their own, behind mask tables that the test writes."""

import imagecodecs
import numpy as np
import pytest
import xarray as xr

import jnrrdz

BLOCK = (16, 24)
PLACES = [np.s_[:16, :24], np.s_[:16, 24:], np.s_[16:, :24], np.s_[16:, 24:]]


def header(**more):
    size = {"NROWS": 32, "NCOLS": 48, "NPPBV": 16, "NPPBH": 24, "NBPC": 2, "NBPR": 2, "COMRAT": "00.0"}
    return size | more


def parts_of(bits, count, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(0, 1 << bits, BLOCK).astype(np.uint8 if bits == 8 else np.uint16) for _ in range(count)]


@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("hole", [0, 1, 3])
def test_lossless_jpeg_behind_a_mask(make_nitf, make_mask, open_nitf, bits, hole):
    parts = parts_of(bits, 3)
    streams = [imagecodecs.ljpeg_encode(part, bitspersample=bits) for part in parts]
    starts = np.cumsum([0, *map(len, streams)])[:3].tolist()
    starts.insert(hole, None)
    pad = (7).to_bytes(1 if bits == 8 else 2, "big")
    mask = make_mask(starts, pad=pad, pad_bits=bits)
    found = open_nitf(make_nitf((mask + b"".join(streams), header(IC="M5", NBPP=bits))))["image_0/data"][...]
    blocks = [*parts[:hole], np.full(BLOCK, 7), *parts[hole:]]
    for place, block in zip(PLACES, blocks, strict=True):
        np.testing.assert_array_equal(found[place], block)


@pytest.mark.parametrize("bits", [8, 12])
def test_lossless_jpeg_stream_after_stream(make_nitf, open_nitf, bits):
    parts = parts_of(bits, 4)
    data = b"".join(imagecodecs.ljpeg_encode(part, bitspersample=bits) for part in parts)
    found = open_nitf(make_nitf((data, header(IC="C5", NBPP=bits))))["image_0/data"][...]
    for place, block in zip(PLACES, parts, strict=True):
        np.testing.assert_array_equal(found[place], block)


FAX = "000135dd3a1d1d7a74ead00001f50bfb43ae43c3800135589d7a1d5a1d4d5800010d47687dd3ab4e00013543a70307000174e061d0"
FAX += "ea10e0011d4018e50001354ffff8e9fc43a8000135569d3e3f3fbc4001e5687df1f85fe00001cf3e43bbbc0001f43ab578fc28dd58"
FAX_ROWS = """
    c940080921 011018502e 824050a010 0004616484 a7fffffc00 27fffffca2 47fffffc08 980c069828 849b00c0c1 02166c4060
    060c0bc380 01421b1190
"""


@pytest.mark.parametrize("hole", [0, 1])
def test_facsimile_behind_a_mask(make_nitf, make_mask, open_nitf, hole):
    rows = np.unpackbits(np.array([list(bytes.fromhex(row)) for row in FAX_ROWS.split()], np.uint8), axis=1)
    mask = make_mask([None, 0] if hole == 0 else [0, None], pad=b"\0", pad_bits=1)
    size = {"NROWS": 12, "NCOLS": 80, "NPPBV": 12, "NPPBH": 40, "NBPC": 1, "NBPR": 2, "COMRAT": "1D"}
    path = make_nitf((mask + bytes.fromhex(FAX), size | {"IC": "M1", "NBPP": 1, "PVTYPE": "B"}))
    found = open_nitf(path)["image_0/data"][...]
    parts = [rows, np.zeros_like(rows)]
    np.testing.assert_array_equal(found, np.concatenate(parts[::-1] if hole == 0 else parts, axis=1))


@pytest.mark.parametrize("code", ["M8", "MD"])
def test_jpeg_2000_behind_a_mask(make_nitf, make_mask, open_nitf, code):
    pixels = np.random.default_rng(1).integers(0, 256, (32, 48), np.uint8)
    stream = imagecodecs.jpeg2k_encode(pixels, level=0, reversible=True, codecformat="J2K")
    one = header(NPPBV=32, NPPBH=48, NBPC=1, NBPR=1)
    path = make_nitf((make_mask([0], pad=b"\x09") + stream, one | {"IC": code}))
    found = open_nitf(path, overviews=False)["image_0/data"]
    np.testing.assert_array_equal(found[...], pixels)
    assert found.fill_value == 9


def test_high_throughput_jpeg_2000(make_nitf, open_nitf):
    pixels = np.random.default_rng(2).integers(0, 256, (32, 48), np.uint8)
    stream = imagecodecs.htj2k_encode(pixels, reversible=True)
    one = header(NPPBV=32, NPPBH=48, NBPC=1, NBPR=1, IC="CD")
    found = open_nitf(make_nitf((stream, one)), overviews=False)["image_0/data"]
    np.testing.assert_array_equal(found[...], pixels)


# What a reader sees that names no group


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("code", ["NC", "C8"])
def test_the_first_image_is_what_a_dataset_shows(make_nitf, tmp_path, count, code):
    images = [np.random.default_rng(seed).integers(0, 256, (40, 30 + seed), np.uint8) for seed in range(count)]
    segments = []
    for image in images:
        rows, columns = image.shape
        data = image.tobytes()
        size = {"NROWS": rows, "NCOLS": columns, "NPPBV": rows, "NPPBH": columns, "IC": code}
        if code == "C8":
            data = imagecodecs.jpeg2k_encode(image, level=0, reversible=True, codecformat="J2K")
            size["COMRAT"] = "01.0"
        segments.append((data, size))
    out = tmp_path / "refs.json"
    path = make_nitf(*segments)
    jnrrdz.index(path, out)
    for name, choices in ((out, {}), (path, {"engine": "jnrrdz"})):
        with xr.open_dataset(name, **choices) as found:
            np.testing.assert_array_equal(found["data"], images[0])
    last = f"image_{count - 1}" + ("/0" if code == "C8" else "")
    with xr.open_dataset(out, group=last) as found:
        np.testing.assert_array_equal(found["data"], images[-1])
