"""Damaged files and manifests: pixels or a JnrrdzError, soon, in bounded memory, and nothing left behind.

Hypothesis damages real files of several kinds.
"""

import json
import os
import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from rasterio.transform import from_origin

import jnrrdz
from tests import writers

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # what is left out of a damaged file is named in one
]

EXAMPLES = int(os.environ.get("JNRRDZ_FUZZ_EXAMPLES", "60"))
FUZZ = settings(
    max_examples=EXAMPLES, deadline=10_000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
WHOLE_BYTES = 4 << 20
"""Arrays of no more bytes are read whole, of larger ones the first and the last pixel."""
MEMORY = 112 << 20
"""Bytes at the most: what a bounded chunk takes, and the room of 8 MiB that each of two threads keeps for the next."""


def by_gdal(*, count=1, dtype="uint16", **options):
    y, x = np.mgrid[:70, :90]
    bands = np.stack([x * 3 + y * 5 + band for band in range(count)])
    return writers.gdal_bytes(bands.astype(dtype), **options)


TILED = {"tiled": True, "blockxsize": 32, "blockysize": 32}
PLACE = {"crs": "EPSG:32633", "transform": from_origin(300000, 4900020, 10, 20), "nodata": 3}
SEEDS = {
    "tiled deflate, place, overviews": lambda: by_gdal(
        compress="deflate", predictor=2, overviews=[2, 4], **TILED, **PLACE
    ),
    "BigTIFF, big-endian, stripped lzw": lambda: by_gdal(
        compress="lzw", bigtiff="YES", endianness="BIG", blockysize=16, count=2, interleave="band"
    ),
    "jpeg in YCbCr": lambda: by_gdal(
        compress="jpeg", photometric="ycbcr", count=3, dtype="uint8", interleave="pixel", **TILED
    ),
    "packbits strips": lambda: by_gdal(compress="packbits", dtype="uint8", blockysize=7),
    "raw strips": lambda: by_gdal(blockysize=1, dtype="float32", **PLACE),
    "zstd, floating-point predictor": lambda: by_gdal(compress="zstd", predictor=3, dtype="float32", **TILED),
}


@pytest.fixture(scope="module", params=SEEDS, ids=str)
def seed(request):
    """Return the bytes of a small file, and where its directories and its columns of offsets stand."""
    data = SEEDS[request.param]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tif"
        path.write_bytes(data)
        with tifffile.TiffFile(path) as tif:
            starts = [page.offset for page in tif.pages]
            starts += [tag.valueoffset for page in tif.pages for tag in page.tags if tag.count > 1]
    return data, sorted({0, *starts})


ODD = [0, 1, 2, 7, 8, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


@st.composite
def damaged(draw, data, places):
    """Return a file with some of its bytes changed, or its end cut off."""
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        near = st.sampled_from(places).flatmap(lambda start: st.integers(start, min(start + 260, len(data) - 1)))
        at = draw(st.one_of(near, near, st.integers(0, len(data) - 1)))
        kind = draw(st.sampled_from(["flip", "number", "bytes", "cut"]))
        if kind == "flip":
            result[at : at + 1] = bytes([(result[at] if at < len(result) else 0) ^ (1 << draw(st.integers(0, 7)))])
        elif kind == "number":
            width, code = draw(st.sampled_from([(2, "H"), (4, "I"), (8, "Q")]))
            number = draw(st.sampled_from(ODD)) % (1 << 8 * width)
            result[at : at + width] = struct.pack(draw(st.sampled_from("<>")) + code, number)
        elif kind == "bytes":
            noise = draw(st.binary(min_size=1, max_size=24))
            result[at : at + len(noise)] = noise
        else:
            del result[at:]
    return bytes(result)


def read_all(path):
    """Read every array of a source or manifest, or its corners where it claims to be large."""
    group = jnrrdz.open_group(str(path))
    for _, array in group.members(max_depth=None):
        if not hasattr(array, "shape") or array.ndim < 2:
            continue
        whole = array.nbytes <= WHOLE_BYTES
        for corner in (Ellipsis,) if whole else ((0,) * array.ndim, (-1,) * array.ndim):
            try:
                array[corner]
            except jnrrdz.JnrrdzError as error:
                assert str(error)  # noqa: PT017 - an error is as good as pixels, if it is one of ours


@FUZZ
@given(draws=st.data())
def test_a_damaged_file_gives_pixels_or_our_errors(seed, draws):
    data = draws.draw(damaged(*seed))
    assume(data != seed[0])
    with tempfile.TemporaryDirectory() as folder:
        source, refs = Path(folder) / "a.tif", Path(folder) / "refs.json"
        source.write_bytes(data)
        tracemalloc.start()
        try:
            jnrrdz.index(source, refs)
            read_all(refs)
        except jnrrdz.JnrrdzError as error:
            assert str(error)  # noqa: PT017 - see above
            assert refs.exists() or os.listdir(folder) == ["a.tif"]  # noqa: PTH208 - the names alone
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MEMORY


@FUZZ
@given(
    data=st.binary(max_size=300), magic=st.sampled_from([b"II*\0", b"MM\0*", b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0"])
)
def test_noise_after_a_magic_number(data, magic):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.tif"
        source.write_bytes(magic + data)
        try:
            jnrrdz.index(source, Path(folder) / "refs.json")
            read_all(Path(folder) / "refs.json")
        except jnrrdz.JnrrdzError as error:
            assert str(error)  # noqa: PT017 - see above


# Manifests

VALUES = st.one_of(
    st.sampled_from([*ODD, -1, 1.5, None, True, "x", "", [], [0], [2**32 - 1] * 3, {}, "!!!", "AAAA"]),
    st.lists(st.integers(0, 70000), max_size=5),
)


@pytest.fixture(scope="module")
def jpeg_manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manifest")
    (folder / "a.tif").write_bytes(SEEDS["jpeg in YCbCr"]())
    jnrrdz.index(folder / "a.tif", folder / "refs.json")
    return folder, json.loads((folder / "refs.json").read_text())


def with_array(document, change):
    """Return a manifest's text with its array's metadata changed, the consolidated copy too."""
    found = json.loads(json.dumps(document))
    own = (
        json.loads(found["refs"]["data/zarr.json"])
        if isinstance(found["refs"]["data/zarr.json"], str)
        else found["refs"]["data/zarr.json"]
    )
    change(own)
    root = (
        json.loads(found["refs"]["zarr.json"])
        if isinstance(found["refs"]["zarr.json"], str)
        else found["refs"]["zarr.json"]
    )
    root["consolidated_metadata"]["metadata"]["data"] = own
    found["refs"]["data/zarr.json"], found["refs"]["zarr.json"] = json.dumps(own), json.dumps(root)
    return json.dumps(found)


MEMBERS = [
    "tile_width",
    "tile_height",
    "image_width",
    "image_height",
    "byte_order",
    "compression",
    "photometric",
    "samples_per_pixel",
    "bits_per_sample",
    "sample_format",
    "planar_config",
    "predictor",
    "fill_order",
    "extra_samples",
    "ycbcr_subsampling",
    "jpeg_tables",
    "surplus",
]


@FUZZ
@given(changes=st.dictionaries(st.sampled_from(MEMBERS), VALUES, min_size=1, max_size=3))
def test_a_damaged_configuration_gives_pixels_or_our_errors(jpeg_manifest, changes):
    folder, document = jpeg_manifest
    path = folder / "damaged.json"
    path.write_text(with_array(document, lambda array: array["codecs"][0]["configuration"].update(changes)))
    tracemalloc.start()
    try:
        read_all(path)
    except jnrrdz.JnrrdzError as error:
        assert str(error)  # noqa: PT017 - see above
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda array: array["codecs"][0]["configuration"].update(surplus=1), "unknown member 'surplus'"),
        (lambda array: array["codecs"][0]["configuration"].update(jpeg_tables="!"), "jpeg_tables: not base64"),
        (lambda array: array["codecs"][0]["configuration"].pop("tile_width"), "tile_width is missing"),
        (lambda array: array["codecs"][0]["configuration"].update(tile_width=2**32 - 1), "chunks of shape"),
        (lambda array: array["codecs"][0]["configuration"].update(tile_width=-1), "tile_width: found -1"),
        (lambda array: array["codecs"][0].pop("configuration"), "tile_width is missing"),
        (lambda array: array["chunk_grid"]["configuration"].update(chunk_shape=[3, 32, 31]), "chunks of shape"),
        (
            lambda array: array["chunk_grid"]["configuration"].update(chunk_shape=[3, 70, 90]),
            "not a chunk of a grid|chunks of shape",
        ),
    ],
)
def test_what_is_wrong_with_a_configuration_is_said(jpeg_manifest, change, words):
    folder, document = jpeg_manifest
    (folder / "damaged.json").write_text(with_array(document, change))
    with pytest.raises(jnrrdz.JnrrdzError, match=words):
        jnrrdz.open_group(folder / "damaged.json")["data"][...]
