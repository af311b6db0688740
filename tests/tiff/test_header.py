"""`tiff_header`: chunk files that zarr writes with it are TIFF files to tifffile, GDAL and libtiff."""

import base64
import pickle

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
import zarr
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.codecs.numcodecs import LZMA, Zlib

import jnrrdz
from jnrrdz.codecs import OffsetCodec, PadCodec, tiff_header
from jnrrdz.errors import MalformedError, UnsupportedError
from tests.codecs.test_seed_examples import TIFF, literal

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification"),
]


def values(shape, dtype):
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind in "ui":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    parts = rng.standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]).astype(dtype)


def chunk_file(folder, pixels, chunks, step, *, compressors=(), endian="little"):  # noqa: PLR0913 - what tests vary
    """Return the file of the last chunk of an array that zarr writes, and what is in that chunk."""
    array = zarr.create_array(
        folder / "a.zarr",
        shape=pixels.shape,
        chunks=chunks,
        dtype=pixels.dtype,
        serializer=BytesCodec(endian=endian if pixels.dtype.itemsize > 1 else None),
        compressors=[*compressors, step],
        fill_value=0,
    )
    array[:] = pixels
    np.testing.assert_array_equal(zarr.open_array(folder / "a.zarr", mode="r")[:], pixels)
    last = [size // step - 1 for size, step in zip(pixels.shape, chunks, strict=True)]
    window = tuple(slice(at * step, (at + 1) * step) for at, step in zip(last, chunks, strict=True))
    return folder / "a.zarr" / "c" / "/".join(map(str, last)), pixels[window]


def by_gdal(path):
    with rasterio.open(path) as source:
        return source.read()


TYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("dtype", TYPES)
def test_chunks_of_every_type_are_tiff_files(tmp_path, dtype, endian):
    header = bytes(tiff_header((16, 24), dtype, endian=endian))
    step = OffsetCodec(offset=len(header), prefix=header)
    path, expected = chunk_file(tmp_path, values((32, 48), dtype), (16, 24), step, endian=endian)
    np.testing.assert_array_equal(tifffile.imread(path), expected)
    np.testing.assert_array_equal(by_gdal(path), expected[np.newaxis])


def test_half_floats_are_told_by_tifffile(tmp_path):
    header = bytes(tiff_header((16, 24), "f2"))
    path, expected = chunk_file(
        tmp_path, values((32, 48), "f2"), (16, 24), OffsetCodec(offset=len(header), prefix=header)
    )
    np.testing.assert_array_equal(tifffile.imread(path), expected)


COMPRESSORS = {"zstd": ZstdCodec(level=3), "numcodecs.zlib": Zlib(level=6), "numcodecs.lzma": LZMA(preset=1)}


@pytest.mark.parametrize("made", [OffsetCodec, PadCodec])
@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressed_chunks_have_headers_of_their_own(tmp_path, name, made):
    header = tiff_header((16, 24), "uint16", compressor=name)
    options = {"location": "start", "nbytes": len(header), "padding_func": header}
    step = made(**options) if made is PadCodec else made(offset=len(header), prefix_func=header)
    pixels = np.arange(32 * 48, dtype="u2").reshape(32, 48) // 7
    path, expected = chunk_file(tmp_path, pixels, (16, 24), step, compressors=[COMPRESSORS[name]])
    np.testing.assert_array_equal(tifffile.imread(path), expected)
    if name != "numcodecs.lzma":  # the wheels' libtiff has none
        np.testing.assert_array_equal(by_gdal(path)[0], expected)
    np.testing.assert_array_equal(jnrrdz.open_dataset(path)["data"], expected)
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages.first
        assert page.dataoffsets[0] + page.databytecounts[0] == path.stat().st_size


@pytest.mark.parametrize("samples", ["first", "last"])
@pytest.mark.parametrize(("count", "rgb"), [(1, False), (2, False), (3, True), (4, True), (5, False), (7, True)])
def test_samples_of_a_pixel(tmp_path, samples, count, rgb):
    chunk = (count, 16, 24) if samples == "first" else (16, 24, count)
    pixels = values(tuple(side * 2 if side in {16, 24} else side for side in chunk), "u2")
    header = bytes(tiff_header(chunk, "u2", samples=samples, rgb=rgb))
    path, expected = chunk_file(tmp_path, pixels, chunk, OffsetCodec(offset=len(header), prefix=header))
    np.testing.assert_array_equal(tifffile.imread(path).squeeze(), expected.squeeze())
    np.testing.assert_array_equal(by_gdal(path), expected if samples == "first" else np.moveaxis(expected, 2, 0))
    with rasterio.open(path) as source:
        assert (source.colorinterp[0].name == "red") is rgb


def test_compressed_samples_that_stand_together(tmp_path):
    header = tiff_header((16, 24, 3), "u1", samples="last", compressor="zstd", rgb=True)
    pixels = values((32, 48, 3), "u1")
    step = OffsetCodec(offset=len(header), prefix_func=header)
    path, expected = chunk_file(tmp_path, pixels, (16, 24, 3), step, compressors=[ZstdCodec()])
    np.testing.assert_array_equal(tifffile.imread(path), expected)
    np.testing.assert_array_equal(imagecodecs.imread(path, codec="tiff"), expected)


def test_axes_of_one_place_before_the_image(tmp_path):
    header = bytes(tiff_header((1, 1, 16, 24), "u2"))
    pixels = values((2, 3, 16, 24), "u2")
    step = OffsetCodec(offset=len(header), prefix=header)
    path, expected = chunk_file(tmp_path, pixels, (1, 1, 16, 24), step)
    np.testing.assert_array_equal(tifffile.imread(path), expected[0, 0])


def test_it_is_the_proposals_header():
    """Both proposals have the 110 bytes in base64."""
    assert bytes(tiff_header((256, 256), "uint16")) == literal("offset", TIFF) == literal("pad", TIFF)
    assert base64.b64encode(bytes(tiff_header((256, 256), "uint16"))).startswith(b"SUkqAAgAAAAIAAABAwAB")


def test_sides_of_more_than_65535(tmp_path):
    header = bytes(tiff_header((1, 70_000), "u1"))
    (tmp_path / "a.tif").write_bytes(header + bytes(range(250)) * 280)
    assert by_gdal(tmp_path / "a.tif").tobytes() == bytes(range(250)) * 280


def test_a_header_travels_to_workers():
    header = tiff_header((16, 24), "u2", compressor="zstd")
    assert pickle.loads(pickle.dumps(header))(b"abc") == header(b"abc")


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (((3, 16, 24), "u2"), {}, "samples='first' or 'last'"),
        (((16,), "u2"), {}, "found \\(16,\\)"),
        (((16, 24), "u2"), {"samples": "last"}, "three sides"),
        (((2, 3, 16, 24), "u2"), {"samples": "first"}, "three sides"),
        (((0, 24), "u2"), {}, "found \\(0, 24\\)"),
        (((16, 24), "bool"), {}, "bool is no type of a TIFF"),
        (((16, 24), "U4"), {}, "no type of a TIFF"),
        (((16, 24), "u2"), {"compressor": "blosc"}, "zstd, "),
        (((16, 24), "u2"), {"endian": "native"}, "'little' or 'big'"),
        (((16, 24), "u2"), {"samples": "middle"}, "'first' or 'last'"),
        (((3, 16, 24), "u2"), {"samples": "first", "compressor": "zstd"}, "a stream for each plane"),
        (((16, 24, 2), "u2"), {"samples": "last", "rgb": True}, "red, green and blue of 2"),
        (((1 << 16, 1 << 16), "u1"), {}, "4 GiB"),
    ],
)
def test_what_no_tiff_says_is_refused(arguments, options, words):
    with pytest.raises((MalformedError, UnsupportedError), match=words):
        tiff_header(*arguments, **options)


def test_a_header_without_its_chunk_s_compression_is_refused():
    with pytest.raises(MalformedError, match="a chunk of 5 bytes, where pixels take 768"):
        tiff_header((16, 24), "u2")(b"short")
    with pytest.raises(UnsupportedError, match="as a function"):
        bytes(tiff_header((16, 24), "u2", compressor="zstd"))
