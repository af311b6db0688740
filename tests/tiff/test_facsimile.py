"""Facsimile strips (CCITT run-length, T.4, T.6): whole ones as GDAL reads them, those that end early refused."""

import re
import struct
import warnings

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from PIL import Image

import jnrrdz
from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff import fax
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.decode import TileDecoder
from jnrrdz.formats.tiff.fax import Rows, rows_held

SCHEMES = {
    "tiff_ccitt": (2, None),
    "group3": (3, 0),
    "group3 2-D": (3, 1),
    "group3 filled": (3, 4),
    "group4": (4, None),
}
EOFB = "000000000001" * 2


def page(seed, shape=(37, 333)):
    """Return a page with black in it, and blank rows at its end: those that a cut strip is filled with."""
    rng = np.random.default_rng(seed)
    pixels = np.zeros(shape, bool)
    pixels[2 : shape[0] - 6, 5:-9] = rng.random((shape[0] - 8, shape[1] - 14)) < 0.2
    if seed % 2:
        pixels[-1, -3:] = True
    return pixels


def written(path, pixels, name, rows=1 << 15):
    """Write a page with Pillow, by libtiff, and return where its strips stand."""
    scheme = name.split()[0]
    info = {292: SCHEMES[name][1], 278: rows} if scheme == "group3" else {278: rows}
    Image.fromarray(pixels).save(path, "TIFF", compression=scheme, tiffinfo=info, strip_size=rows * pixels.shape[1])
    with tifffile.TiffFile(path) as tif:
        return list(zip(tif.pages[0].dataoffsets, tif.pages[0].databytecounts, strict=True)), tif.pages[0].fillorder


@pytest.mark.parametrize("rows", [8, 1 << 15])
@pytest.mark.parametrize("name", SCHEMES)
def test_whole_pages(tmp_path, name, rows):
    for seed in range(4):
        path = tmp_path / f"{seed}.tif"
        written(path, page(seed), name, rows)
        np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], tifffile.imread(path))


def tile(name, shape, fill_order):
    scheme, options = SCHEMES[name]
    rows, columns = shape
    config = TiffTileConfig(
        columns, rows, columns, rows, compression=scheme, photometric=0, t4_options=options, fill_order=int(fill_order)
    )
    return TileDecoder(config, shape, np.dtype("u1"), 9)


def strip(path, pixels, name):
    """Return the only strip of a page, its decoder and what it is."""
    ((start, length),), fill_order = written(path, pixels, name)
    data = path.read_bytes()[start : start + length]
    return data, tile(name, pixels.shape, fill_order), np.asarray(tifffile.imread(path))


@pytest.mark.parametrize("name", SCHEMES)
def test_a_strip_that_is_cut_is_refused_or_named(tmp_path, name):
    """Data that end inside a row are refused; rows after those that the data hold are white."""
    for seed in range(4):
        data, decoder, expected = strip(tmp_path / "a.tif", page(seed), name)
        np.testing.assert_array_equal(decoder.decode(data), expected)
        row = len(data) // len(expected)
        refused = 0
        for cut in range(0, len(data) - 3 * row, max(len(data) // 40, 1)):
            with warnings.catch_warnings(record=True, action="always") as warned:
                try:
                    pixels = decoder.decode(data[:cut])
                except MalformedError:
                    refused += 1
                    continue
            held = int(re.search(r"after (\d+) of", str(warned[0].message))[1])
            assert held < len(expected)
            np.testing.assert_array_equal(pixels[:held], expected[:held])
            assert not pixels[held:].any()
        assert refused >= 20


@pytest.mark.parametrize("name", SCHEMES)
def test_codes_are_read_as_libtiff_writes_them(tmp_path, name):
    """Runs of every length, in rows that one parser and another one's writer agree on."""
    scheme, options = SCHEMES[name]
    rng = np.random.default_rng(5)
    for width, mean in [(333, 3), (1728, 20), (9000, 300), (17, 3), (6000, 2000)]:
        pixels = np.zeros((40, width), bool)
        for line in pixels:
            runs = rng.exponential(mean, width).astype(int) + 1
            runs[rng.random(width) < 0.01] = 5300
            line[:] = np.repeat(np.arange(width) % 2, runs)[:width]
        data, _, expected = strip(tmp_path / "a.tif", pixels, name)
        rows = Rows(data, scheme, options or 0, width).read(50)
        assert len(rows) == len(expected)
        for changes, line in zip(rows, expected, strict=True):
            theirs = np.flatnonzero(np.diff(line.astype(np.int8), prepend=0, append=-1))
            ours = [column for column in changes if column not in {0, width}]
            assert ours == [column for column in theirs.tolist() if column not in {0, width}]
            assert (changes[0] == 0) == bool(line[0])
        assert rows_held(data, scheme, options or 0, expected.astype("u1")) == len(expected)


def test_white_rows_that_fill_a_strip_to_its_last_bit(tmp_path):
    """A row of white is one bit of T.6: 37 rows, EOFB and three bits are eight bytes."""
    data, decoder, expected = strip(tmp_path / "a.tif", np.zeros((37, 17), bool), "group4")
    np.testing.assert_array_equal(decoder.decode(data), expected)
    with pytest.warns(UserWarning, match="after 32 of 37 rows"):
        np.testing.assert_array_equal(decoder.decode(data[:4]), expected)


def test_run_length_data_without_their_last_bytes(tmp_path):
    data, decoder, expected = strip(tmp_path / "a.tif", page(1), "tiff_ccitt")
    with pytest.raises(MalformedError, match="end in a row"):
        decoder.decode(data[:-7])
    with pytest.warns(UserWarning, match="after 33 of 37 rows"):
        np.testing.assert_array_equal(decoder.decode(data[:-8])[:33], expected[:33])


@pytest.mark.parametrize("name", SCHEMES)
def test_a_fax_is_decoded_once(tmp_path, monkeypatch, name):
    monkeypatch.setattr(fax.Rows, "read", None)  # nor are the codes of all rows read
    data, decoder, expected = strip(tmp_path / "a.tif", page(0), name)
    calls = []

    def counted(function):
        def call(*args, **options):
            calls.append(function)
            return function(*args, **options)

        return call

    for function in ("ccittfax3_decode", "ccittfax4_decode", "tiff_decode"):
        monkeypatch.setattr(imagecodecs, function, counted(getattr(imagecodecs, function)))
    np.testing.assert_array_equal(decoder.decode(data), expected)
    assert len(calls) == 1


@pytest.mark.parametrize("zeros", [0, 1, 3, 8])
def test_a_page_of_t6_needs_no_end(tmp_path, zeros):
    """Some writers leave out EOFB; what fills a word behind the codes is nothing."""
    for seed in range(8):
        data, decoder, expected = strip(tmp_path / "a.tif", page(seed), "group4")
        bits = "".join(f"{byte:08b}" for byte in data)
        bits = bits[: bits.rindex(EOFB)]
        bare = np.packbits(np.frombuffer(bits.encode(), np.uint8) - ord("0")).tobytes()
        assert bare != data
        np.testing.assert_array_equal(decoder.decode(bare + bytes(zeros)), expected)


@pytest.mark.parametrize("name", ["group4", "group3"])
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_page_that_says_that_it_ends_may_be_shorter_than_the_tags(tmp_path, name):
    """As GDAL, libtiff and Pillow have it: EOFB and RTC end the page, and the rows below it are blank."""
    path, pixels = tmp_path / "a.tif", page(1)
    ((start, length),), _ = written(path, pixels, name)
    data = bytearray(path.read_bytes())
    if name == "group3":  # what libtiff leaves out: six EOL codes
        bits = "".join(f"{byte:08b}" for byte in data[start : start + length]) + "000000000001" * 6
        stream = np.packbits(np.frombuffer(bits.encode(), np.uint8) - ord("0")).tobytes()
        data += stream
    with tifffile.TiffFile(path) as tif:
        tags = tif.pages[0].tags
        places = {code: tags[code].valueoffset for code in (257, 273, 279)}
        assert tags[278].value >= len(pixels) + 5
        codes = {code: "<H" if tags[code].dtype == 3 else "<I" for code in places}
    if name == "group3":
        struct.pack_into(codes[273], data, places[273], len(data) - len(stream))
        struct.pack_into(codes[279], data, places[279], len(stream))
    struct.pack_into(codes[257], data, places[257], len(pixels) + 5)
    path.write_bytes(data)
    found = jnrrdz.open_group(path)["data"][...]
    with rasterio.open(path) as image:  # Pillow's libtiff blanks them since 4.7.2 only
        np.testing.assert_array_equal(found, image.read(1))
    np.testing.assert_array_equal(found[: len(pixels)], imagecodecs.tiff_decode(bytes(data))[: len(pixels)])
