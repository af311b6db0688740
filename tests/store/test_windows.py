"""Windows whose chunks are read many at once hold what tifffile reads, in every kind of chunk, and errors stay told."""

import io
import json
import os
import pickle

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image
from zarr.core.indexing import BasicIndexer

import jnrrdz
from jnrrdz.codecs.base import chunks_at_once
from jnrrdz.core.refs import Ranges
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.image_streams import upper_rows
from jnrrdz.formats.jpeg_markers import jpeg_markers
from jnrrdz.store.pipeline import Window

WINDOWS = [
    np.s_[..., :, :],
    np.s_[..., 5:61, 17:99],
    np.s_[..., 33, :],
    np.s_[..., 31:33, 40],
    np.s_[..., -20:, -7:],
    np.s_[..., ::3, 1::2],  # zarr's own way
    np.s_[..., 9:9, :],
]

KINDS = [
    ("u1", {"compression": "zlib"}),
    ("u2", {"compression": "zlib", "predictor": 2}),
    ("i4", {"compression": "lzw", "predictor": 2}),
    ("u8", {"compression": "zstd", "predictor": 2}),
    ("f2", {"compression": "zstd", "predictor": 3}),
    ("f4", {"compression": "zstd", "predictor": 3}),
    ("f8", {"compression": "zlib", "predictor": 3}),
    ("f4", {"compression": "lzw"}),
    ("u2", {}),
    ("u2", {"byteorder": ">", "compression": "zlib", "predictor": 2}),
    ("f4", {"byteorder": ">", "compression": "zstd", "predictor": 3}),
    ("u2", {"compression": "packbits"}),
]


def picture(dtype, shape):
    rows = np.random.default_rng(5).integers(0, 200, shape)
    return (rows - 100 if np.dtype(dtype).kind in "if" else rows).astype(dtype)


def opened(tmp_path, form="json"):
    jnrrdz.index(str(tmp_path / "a.tif"), str(tmp_path / f"a.{form}"))
    return jnrrdz.open_group(str(tmp_path / f"a.{form}"))["data"]


def reads_at_once(array):
    """Whether zarr is not asked for the chunks one by one."""
    indexer = BasicIndexer((slice(None),) * array.ndim, array.shape, array._chunk_grid)  # noqa: SLF001  no other way
    return array._window(indexer) is not None  # noqa: SLF001  no other way


@pytest.fixture
def alone(monkeypatch):
    """The chunks that were read one by one after all."""
    read = []
    monkeypatch.setattr(Window, "_read_alone", lambda _self, number, *_: read.append(number))
    return read


@pytest.mark.parametrize(
    ("dtype", "options"), KINDS, ids=lambda of: of if isinstance(of, str) else "-".join(map(str, of.values()))
)
@pytest.mark.parametrize("samples", ["one", "chunky", "apart"])
def test_windows_hold_what_tifffile_reads(tmp_path, alone, dtype, options, samples):
    shape = {"one": (83, 115), "chunky": (83, 115, 3), "apart": (3, 83, 115)}[samples]
    planar = {"one": {}, "chunky": {"planarconfig": "contig"}, "apart": {"planarconfig": "separate"}}[samples]
    colours = {} if samples == "one" else {"photometric": "rgb" if dtype == "u1" else "minisblack"}
    pixels = picture(dtype, shape)
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(16, 32), **options, **planar, **colours)
    expected = tifffile.imread(tmp_path / "a.tif")
    expected = np.moveaxis(expected, -1, 0) if samples == "chunky" else expected
    array = opened(tmp_path)
    assert reads_at_once(array)
    for window in WINDOWS:
        np.testing.assert_array_equal(array[window], expected[window], strict=True)
    assert not alone


@pytest.mark.parametrize("compression", ["jpeg", "webp"])
def test_colours_stand_in_their_planes(tmp_path, alone, compression):
    across = np.add.outer(np.arange(80), 2 * np.arange(96))[..., None] // 2 + np.array([0, 40, 90])
    options = {"compressionargs": {"lossless": True}} if compression == "webp" else {}
    tifffile.imwrite(
        tmp_path / "a.tif", across.astype("u1"), tile=(32, 32), compression=compression, photometric="rgb", **options
    )
    expected = np.moveaxis(tifffile.imread(tmp_path / "a.tif"), -1, 0)
    array = opened(tmp_path)
    assert reads_at_once(array)
    for window in (*WINDOWS, np.s_[1], np.s_[::2, 3:50, 60]):
        np.testing.assert_array_equal(array[window], expected[window], strict=True)
    assert not alone


@pytest.mark.parametrize("subsampling", [(1, 1), (2, 1), (2, 2), (4, 1)])
def test_upper_rows_of_a_jpeg_are_those_of_the_whole(tmp_path, subsampling):
    noise = np.random.default_rng(3).integers(0, 256, (96, 96, 3)).astype("u1")
    tifffile.imwrite(
        tmp_path / "a.tif", noise, tile=(96, 96), compression="jpeg", photometric="rgb", subsampling=subsampling
    )
    expected = np.moveaxis(tifffile.imread(tmp_path / "a.tif"), -1, 0)
    array = opened(tmp_path)
    for stop in range(1, 97):
        np.testing.assert_array_equal(array[:, :stop], expected[:, :stop], strict=True)
        np.testing.assert_array_equal(array[1, stop - 1, 7:9], expected[1, stop - 1, 7:9], strict=True)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 3}])
def test_a_jpeg_that_cannot_end_early_is_left_whole(options):
    noise = np.random.default_rng(3).integers(0, 256, (96, 64, 3)).astype("u1")
    stream = io.BytesIO()
    Image.fromarray(noise).save(stream, "JPEG", subsampling=2, **options)
    whole, data = np.asarray(Image.open(stream)), stream.getvalue()
    upper, height = upper_rows(data, jpeg_markers(data), 96, 40)
    assert height == (96 if "progressive" in options else 48)
    assert len(upper) == len(data)
    with Image.open(io.BytesIO(upper)) as image:
        assert image.size == (64, height)
        np.testing.assert_array_equal(np.asarray(image)[:40], whole[:40])
    assert upper_rows(data, jpeg_markers(data), 96, 88) == (data, 96)  # nothing is saved
    assert upper_rows(data[:40], jpeg_markers(data[:40]), 96, 8) == (data[:40], 96)


def test_zarr_is_not_asked_for_windows(tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "a.tif", picture("u2", (64, 64)), tile=(16, 16), compression="zlib")
    array = pickle.loads(pickle.dumps(opened(tmp_path)))
    expected = tifffile.imread(tmp_path / "a.tif")
    monkeypatch.setattr(zarr.Array, "get_basic_selection", None)
    monkeypatch.setattr(zarr.Array, "get_orthogonal_selection", None)
    np.testing.assert_array_equal(array[3:20, 5:60], expected[3:20, 5:60], strict=True)
    np.testing.assert_array_equal(array.oindex[3:20, 7], expected[3:20, 7], strict=True)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], expected, strict=True)


def test_chunks_of_parquet_records_and_absent_ones(tmp_path):
    pixels = picture("u1", (160, 160))
    pixels[32:64, 16:80] = 0
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(16, 16), compression="zlib")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as tiff:
        counts, offsets = list(tiff.pages[0].databytecounts), list(tiff.pages[0].dataoffsets)
        for number in range(21, 24):  # the third row of tiles
            counts[number] = offsets[number] = 0
        tiff.pages[0].tags["TileByteCounts"].overwrite(counts)
        tiff.pages[0].tags["TileOffsets"].overwrite(offsets)
    expected = tifffile.imread(tmp_path / "a.tif")
    for form in ("json", "parquet"):
        array = opened(tmp_path, form)
        assert reads_at_once(array)
        for window in WINDOWS:
            np.testing.assert_array_equal(array[window], expected[window], strict=True)


@pytest.mark.parametrize("predictor", [1, 2])
def test_a_damaged_chunk_is_named(tmp_path, predictor):
    tifffile.imwrite(
        tmp_path / "a.tif", picture("u2", (64, 64)), tile=(16, 16), compression="zlib", predictor=predictor
    )
    opened(tmp_path)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        offset = tiff.pages[0].dataoffsets[6]
    whole = (tmp_path / "a.tif").read_bytes()
    then = (tmp_path / "a.tif").stat().st_mtime_ns
    (tmp_path / "a.tif").write_bytes(whole[: offset + 2] + bytes(40) + whole[offset + 42 :])
    os.utime(tmp_path / "a.tif", ns=(then, then))
    (tmp_path / "a.json").touch()
    array = jnrrdz.open_group(str(tmp_path / "a.json"))["data"]
    with pytest.raises(MalformedError, match="c/1/2"):
        array[...]


HUGE = dict.fromkeys(("tile_width", "tile_height", "image_width", "image_height"), 1 << 21)


@pytest.mark.parametrize("bent", [{"tile_width": 32}, {"compression": 12345}, HUGE], ids=["width", "scheme", "memory"])
def test_a_codec_that_refuses_names_the_chunk(tmp_path, bent):
    tifffile.imwrite(tmp_path / "a.tif", picture("u2", (64, 64)), tile=(16, 16), compression="zstd", predictor=2)
    opened(tmp_path)
    manifest = json.loads((tmp_path / "a.json").read_text())
    array = json.loads(manifest["refs"]["data/zarr.json"])
    array["codecs"][0]["configuration"] |= bent
    if bent == HUGE:
        array["shape"] = array["chunk_grid"]["configuration"]["chunk_shape"] = [1 << 21, 1 << 21]
        manifest["refs"] = {k: v for k, v in manifest["refs"].items() if "/c/" not in k or k.endswith("c/0/0")}
    manifest["refs"]["data/zarr.json"] = json.dumps(array)
    (tmp_path / "a.json").write_text(json.dumps(manifest))
    with pytest.raises(JnrrdzError) as told:
        jnrrdz.open_group(str(tmp_path / "a.json"))["data"][:3, :3]
    assert "a.tif" in str(told.value)
    assert "c/0/0" in str(told.value)


def test_a_chunk_without_a_length_does_not_end_the_bound_on_what_is_held():
    counts = np.ones(4000, np.int64)
    length = np.full(4000, 10 << 20)
    counts[2000], length[2000] = -1, np.iinfo(np.int64).max  # a file to its end, which is read by itself
    tasks = list(Window._tasks(None, Ranges(("a",), length, length, length, counts), 2))  # noqa: SLF001  no other way
    assert [first for first, _ in tasks] == [0, *(stop for _, stop in tasks[:-1])]
    assert tasks[-1][1] == 4000
    assert max(int(length[first:stop][counts[first:stop] == 1].sum()) for first, stop in tasks) <= 10 << 20


def test_zarr_may_be_told_to_fetch_without_bound():
    with zarr.config.set({"async.concurrency": None}):
        assert chunks_at_once((100,), 1) == 64
