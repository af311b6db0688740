"""The tile decoder against libtiff's and tifffile's own reading of the same tiles; its schema and its documents."""

import io
import json
from dataclasses import replace
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import jnrrdz
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.decode import TileDecoder
from jnrrdz.formats.tiff.synthetic import synthetic_tiff

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "docs" / "codecs" / "tiff-tile" / "schema.json").read_text("utf-8"))
)
GREY = TiffTileConfig(tile_width=32, tile_height=16, image_width=53, image_height=37, bits_per_sample=(8,))
PIXELS = (np.arange(16 * 32).reshape(16, 32) % 251).astype("u1")
CODE = {1: None, 5: "lzw", 8: "deflate", 50000: "zstd", 32773: "packbits", 34925: "lzma"}
EDGE = 37 % 16


def encoded(pixels, compression):
    """Return a tile's bytes as tifffile writes them."""
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, compression=CODE[compression], rowsperstrip=len(pixels), metadata=None)
    file.seek(0)
    with tifffile.TiffFile(file) as tif:
        (start,), (length,) = tif.pages[0].dataoffsets, tif.pages[0].databytecounts
    return file.getvalue()[start : start + length]


def decoder(config, fill=9, dtype="u1"):
    samples = config.samples_per_pixel if config.planar_config == 1 else 1
    lead = (samples,) if config.samples_per_pixel > 1 else ()
    return TileDecoder(config, (*lead, config.tile_height, config.tile_width), np.dtype(dtype), fill)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("compression", CODE)
def test_the_synthetic_file_is_a_tiff_to_other_readers(order, compression):
    config = replace(GREY, compression=compression, byte_order=order)
    file = synthetic_tiff(config, 32, 16, encoded(PIXELS, compression))
    np.testing.assert_array_equal(tifffile.imread(io.BytesIO(file)), PIXELS)
    np.testing.assert_array_equal(imagecodecs.tiff_decode(file), PIXELS)


@pytest.mark.parametrize("compression", CODE)
def test_a_whole_tile(compression):
    found = decoder(replace(GREY, compression=compression)).decode(memoryview(encoded(PIXELS, compression)))
    np.testing.assert_array_equal(found, PIXELS)


@pytest.mark.parametrize("compression", CODE)
def test_a_short_strip_is_padded_with_the_fill_value(compression):
    config = replace(GREY, compression=compression)
    found = decoder(config).decode(encoded(PIXELS[:EDGE], compression))
    np.testing.assert_array_equal(found[:EDGE], PIXELS[:EDGE])
    assert (found[EDGE:] == 9).all()


@pytest.mark.parametrize("rows", [EDGE + 1, 10, 15])
@pytest.mark.parametrize("compression", CODE)
def test_a_cut_off_tile_is_no_short_one(compression, rows):
    with pytest.raises(MalformedError):
        decoder(replace(GREY, compression=compression)).decode(encoded(PIXELS[:rows], compression))


@pytest.mark.parametrize("compression", CODE)
def test_rows_of_an_edge_tile_are_not_shorter(compression):
    narrow = encoded(np.ascontiguousarray(PIXELS[:, : 53 % 32]), compression)
    with pytest.raises(MalformedError):
        decoder(replace(GREY, compression=compression)).decode(narrow)


@pytest.mark.parametrize("shape", [(16, 21), (5, 32), (5, 21)])
def test_an_image_format_may_be_smaller_at_both_edges(shape):
    pixels = np.ascontiguousarray(PIXELS[: shape[0], : shape[1]])
    data = imagecodecs.jpeg_encode(pixels, level=100)
    found = decoder(replace(GREY, compression=7)).decode(data)
    np.testing.assert_array_equal(found[: shape[0], : shape[1]], imagecodecs.jpeg_decode(data))
    assert (found[shape[0] :] == 9).all()
    assert (found[:, shape[1] :] == 9).all()


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 40, b"x\x9c\x03\0\0\0\0\x01"])
@pytest.mark.parametrize("compression", [*CODE, 7, 33003, 34887, 34933, 50001, 50002])
def test_nonsense_is_malformed_and_never_zeros(compression, data):
    with pytest.raises((MalformedError, UnsupportedError)):
        decoder(replace(GREY, compression=compression)).decode(data)


@pytest.mark.parametrize("shape", [(16, 31), (15, 32), (32, 16), (2, 16, 32), (512,)], ids=str)
def test_a_chunk_of_another_shape_is_refused(shape):
    with pytest.raises(MalformedError, match="chunks of shape"):
        TileDecoder(GREY, shape, np.dtype("u1"), 0)


@pytest.mark.parametrize("shape", [(17, 32), (16, 33), (600, 600)])
def test_an_image_that_declares_more_than_the_chunk_is_not_decoded(shape):
    data = imagecodecs.jpeg_encode(np.zeros(shape, "u1"))
    with pytest.raises(MalformedError, match=f"declare {shape[0]} x {shape[1]} x 1 in a chunk of 16 x 32"):
        decoder(replace(GREY, compression=7)).decode(data)


@pytest.mark.parametrize("wrap", [bytes, imagecodecs.zlib_encode, imagecodecs.zstd_encode])
def test_lerc_within_another_scheme_is_looked_at_too(wrap):
    config = replace(GREY, compression=34887)
    found = decoder(config).decode(wrap(imagecodecs.lerc_encode(PIXELS)))
    np.testing.assert_array_equal(found, PIXELS)
    with pytest.raises(MalformedError, match="declare 4000 x 4000"):
        decoder(config).decode(wrap(imagecodecs.lerc_encode(np.zeros((4000, 4000), "u1"))))
    if wrap is not bytes:
        with pytest.raises(MalformedError, match="do not decompress"):
            decoder(config).decode(wrap(b"Lerc2 " + bytes(1 << 20)))


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_byte_order_is_the_files(order):
    values = np.arange(512).reshape(16, 32) * 100
    data = values.astype("<u2" if order == "little" else ">u2").tobytes()
    found = decoder(replace(GREY, bits_per_sample=(16,), byte_order=order), dtype="u2").decode(data)
    np.testing.assert_array_equal(found, values)
    assert found.dtype == np.dtype("u2")


def test_bits_in_the_other_order():
    config = replace(GREY, bits_per_sample=(1,), fill_order=2)
    expected = np.random.default_rng(0).integers(0, 2, (16, 32)).astype("u1")
    data = np.packbits(expected, axis=1, bitorder="little").tobytes()
    np.testing.assert_array_equal(decoder(config).decode(data), expected)


# Configurations

SMALL = st.integers(0, 2**32 - 1)
LISTS = st.lists(SMALL, max_size=4).map(tuple)
SIDES = st.integers(1, 2**32 - 1)
BYTES = st.none() | st.binary(max_size=20)
CONFIGS = st.builds(
    TiffTileConfig,
    tile_width=SIDES,
    tile_height=SIDES,
    image_width=SIDES,
    image_height=SIDES,
    byte_order=st.sampled_from(["little", "big"]),
    compression=SMALL,
    photometric=SMALL,
    samples_per_pixel=SIDES,
    bits_per_sample=LISTS,
    sample_format=LISTS,
    planar_config=SMALL,
    predictor=SMALL,
    fill_order=SMALL,
    extra_samples=LISTS,
    ycbcr_subsampling=LISTS,
    ycbcr_coefficients=LISTS,
    reference_black_white=LISTS,
    t4_options=st.none() | SMALL,
    lerc_parameters=LISTS,
    jpeg_tables=BYTES,
    jpeg_header=BYTES,
    palette=BYTES,
)


@given(config=CONFIGS)
def test_a_configuration_validates_and_comes_back(config):
    entry = json.loads(json.dumps(config.to_json()))
    SCHEMA.validate(entry)
    assert TiffTileConfig.from_json(entry["configuration"]) == config


VALUES = st.one_of(
    st.sampled_from(
        [None, True, -1, 0, 1, 2**32, 1.5, "little", "", "AAAA", "AA==", "AAA=", "A", "!", [], [0], [-1], [[]], {}]
    )
)


@given(member=st.sampled_from([*TiffTileConfig.__dataclass_fields__, "surplus"]), value=VALUES)
def test_schema_and_codec_agree(member, value):
    plain = {"tile_width": 1, "tile_height": 1, "image_width": 1, "image_height": 1, member: value}
    try:
        TiffTileConfig.from_json(plain)
    except MalformedError as error:
        accepted = False
        assert member in error.message  # noqa: PT017 - the member at fault is named
    else:
        accepted = True
    assert SCHEMA.is_valid({"name": "tiff-tile", "configuration": plain}) is accepted


@pytest.mark.parametrize("missing", ["tile_width", "tile_height", "image_width", "image_height"])
def test_what_is_required(missing):
    plain = {"tile_width": 1, "tile_height": 1, "image_width": 1, "image_height": 1}
    del plain[missing]
    assert not SCHEMA.is_valid({"name": "tiff-tile", "configuration": plain})
    with pytest.raises(MalformedError, match=f"{missing} is missing"):
        TiffTileConfig.from_json(plain)


SOURCES = sorted((Path(__file__).parents[1]).glob("**/golden/**/*.tif"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is left out is not the matter here
def test_every_configuration_that_the_scanner_emits_validates(path):
    entries = [
        spec.to_json()
        for _, array in jnrrdz.scan(path, codecs="proposal").arrays()
        for spec in array.codecs
        if spec.name == "tiff-tile"
    ]
    assert entries
    for entry in entries:
        SCHEMA.validate(json.loads(json.dumps(entry)))


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # a NaN that signals, in another type
@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("compression", ["zlib", "lzw", "zstd"])
@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("layout", ["grey", "contig", "separate"])
def test_predicted_floats_are_bit_for_bit_those_of_others(tmp_path, byteorder, compression, size, layout):
    dtype, bits = f"f{size}", f"u{size}"
    shape = {"grey": (45, 67), "contig": (45, 67, 3), "separate": (3, 45, 67)}[layout]
    rng = np.random.default_rng(1)  # every kind of NaN and infinity too
    pixels = rng.integers(0, np.iinfo(bits).max, shape, bits, endpoint=True).view(dtype)
    how = {"photometric": "minisblack", "planarconfig": None if layout == "grey" else layout, "metadata": None}
    for name, sizes in {"tiles": {"tile": (16, 32)}, "strips": {"rowsperstrip": 7}}.items():
        path = tmp_path / f"{name}.tif"
        tifffile.imwrite(path, pixels, byteorder=byteorder, compression=compression, predictor=3, **how, **sizes)
        expected = np.moveaxis(pixels, -1, 0) if layout == "contig" else pixels
        got = np.ascontiguousarray(jnrrdz.open_group(jnrrdz.scan(path))["data"][...])
        np.testing.assert_array_equal(got.view(bits), np.ascontiguousarray(expected).view(bits))
        with rasterio.open(path) as opened:
            theirs = opened.read()
        np.testing.assert_array_equal(got.reshape(theirs.shape).astype(theirs.dtype), theirs)
