"""The tile codec as zarr sees it: registered, pickled, in either pipeline, with errors that have a place."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tifffile
import zarr
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import get_data_type_from_native_dtype
from zarr.registry import get_codec_class

import jnrrdz
from jnrrdz.codecs.tiles import TiffTileCodec
from jnrrdz.errors import MalformedError, UnsupportedError

CONFIGURATION = {
    "tile_width": 4,
    "tile_height": 3,
    "image_width": 4,
    "image_height": 5,
    "bits_per_sample": [8],
    "byte_order": "little",
    "compression": 1,
    "photometric": 1,
    "samples_per_pixel": 1,
}
PIPELINES = ["zarr.core.codec_pipeline.BatchedCodecPipeline", "zarr.core.codec_pipeline.FusedCodecPipeline"]


def codec():
    return TiffTileCodec.from_dict({"name": "tiff-tile", "configuration": CONFIGURATION})


def spec(shape=(3, 4), dtype="u1", fill=7):
    return ArraySpec(
        shape=shape,
        dtype=get_data_type_from_native_dtype(np.dtype(dtype)),
        fill_value=np.dtype(dtype).type(fill),
        config=ArrayConfig.from_dict({}),
        prototype=default_buffer_prototype(),
    )


def buffer(data):
    return default_buffer_prototype().buffer.from_bytes(data)


def test_zarr_finds_it_by_its_name():
    assert get_codec_class("tiff-tile") is TiffTileCodec


def test_the_entry_comes_back_as_it_was():
    assert codec().to_dict() == {"name": "tiff-tile", "configuration": CONFIGURATION}
    assert TiffTileCodec.from_dict(codec().to_dict()) == codec()


def test_it_pickles_after_use_and_hashes():
    used = codec()
    used._decode_sync(buffer(bytes(12)), spec())  # noqa: SLF001 - zarr's own entrance
    again = pickle.loads(pickle.dumps(used))
    assert again == used == codec()
    assert hash(again) == hash(used)
    assert again._decode_sync(buffer(bytes(range(12))), spec()).as_numpy_array().ravel().tolist() == list(range(12))  # noqa: SLF001


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "tiff-tile"}, "tiff-tile: tile_width is missing"),
        ({"name": "tiff-tile", "configuration": None}, "tiff-tile: no configuration"),
    ],
)
def test_no_configuration_is_malformed(entry, words):
    with pytest.raises(MalformedError, match=words):
        TiffTileCodec.from_dict(entry)


def test_sync_and_async_decode_the_same():
    chunk = buffer(bytes(range(12)))
    (found,) = asyncio.run(_decoded(chunk))
    expected = np.arange(12, dtype="u1").reshape(3, 4)
    np.testing.assert_array_equal(found.as_numpy_array(), expected)
    np.testing.assert_array_equal(codec()._decode_sync(chunk, spec()).as_numpy_array(), expected)  # noqa: SLF001


async def _decoded(chunk):
    return list(await codec().decode([(chunk, spec())]))


def test_the_fill_value_of_the_array_pads():
    found = codec()._decode_sync(buffer(bytes(8)), spec(fill=5)).as_numpy_array()  # noqa: SLF001
    np.testing.assert_array_equal(found, [[0] * 4] * 2 + [[5] * 4])


def test_writing_is_refused():
    with pytest.raises(UnsupportedError, match="read with this codec, not written"):
        codec()._encode_sync(None, spec())  # noqa: SLF001


@pytest.fixture
def tiled(tmp_path):
    pixels = np.arange(100 * 120, dtype="u2").reshape(100, 120)
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(32, 32), compression="zlib", metadata=None)
    return tmp_path / "a.tif", pixels


WINDOWS = [
    (slice(None), slice(None)),
    (slice(3, 5), slice(60, 70)),
    (5, slice(None)),
    (slice(0, 100, 7), slice(2, 119, 40)),
    (-1, -1),
    (slice(99, 100), slice(96, 120)),
]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_in_either_pipeline(tiled, pipeline, window):
    path, pixels = tiled
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        found = jnrrdz.open_group(path)["data"]
        np.testing.assert_array_equal(found[window], pixels[window])
        np.testing.assert_array_equal(found.oindex[[3, 50, 99], [1, 64]], pixels[np.ix_([3, 50, 99], [1, 64])])


def test_what_is_read_may_be_changed(tiled):
    """A chunk that is a view of the file's bytes must not come out read-only."""
    found = jnrrdz.open_group(tiled[0])["data"][:32, :32]
    found += 1
    np.testing.assert_array_equal(found, tiled[1][:32, :32] + 1)


def test_many_threads_share_one_array(tiled):
    path, pixels = tiled
    array = jnrrdz.open_group(path)["data"]
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: array[...], range(24)):
            np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_an_error_has_chunk_source_and_offset(tiled, pipeline):
    path, _ = tiled
    with tifffile.TiffFile(path) as tif:
        offset = tif.pages[0].dataoffsets[5]
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = b"\xff" * 4
    path.write_bytes(data)
    with zarr.config.set({"codec_pipeline.path": pipeline}), pytest.raises(MalformedError) as caught:
        jnrrdz.open_group(path)["data"][...]
    for word in ("a.tif", "data/c/1/1", str(offset), "numcodecs.zlib"):
        assert word in str(caught.value)
