"""Internal tiles, written by numpy alone, read as they were written."""

import json

import fsspec
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jnrrdz.api import index, open_group
from tests.nrrd.tiled_files import PACK, core, keys, stored, tiles_of, volume, write

SIZES = (19, 10, 7, 5, 3)
TILES = (8, 6, 4, 2, 2)
OVERLAPS = (3, 2, 1, 1, 0)
FORMS = [
    ("raw", "uint16", "big"),
    ("gzip", "float32", "little"),
    ("bzip2", "int32", "big"),
    ("zstd", "uint8", "little"),
    ("lz4", "complex64", "big"),
]


def made(path, expected, form, edges="pad", overlap=None, **options):
    """Write an array's tiles and return them as they are stored."""
    compression, _, endian = form
    tile = options.pop("tile", TILES[: expected.ndim])
    parts = [part for _, part in tiles_of(expected, tile, overlap, variable=edges == "variable")]
    blobs = [stored(part, endian, compression) for part in parts]
    own = {"format": "chunked", "edge_handling": edges, "overlap": overlap, "compression": compression}
    write(path, core(expected, endian) | keys(tile, **own), blobs, **options)
    return blobs


def stock(path, out):
    """Return the array of a manifest as fsspec and zarr read it."""
    index(path, out)
    options = {"fo": str(out), "asynchronous": True, "remote_options": {"asynchronous": True}}
    fs = fsspec.filesystem("reference", **options)
    return zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True), mode="r", zarr_format=3)["data"]


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("edges", ["pad", "variable"])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_tile_is_read_from_its_place(tmp_path, axes, edges, overlap, form):
    expected = volume(SIZES[:axes], form[1])
    shared = list(OVERLAPS[:axes]) if overlap else None
    count = len(list(tiles_of(expected, TILES[:axes], shared)))
    order = np.random.default_rng(1).permutation(count).tolist()
    made(tmp_path / "a.jnrrd", expected, form, edges, shared, order=order)
    array = open_group(tmp_path / "a.jnrrd")["data"]
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_whole_numbers_of_every_size(tmp_path, kind, endian):
    expected = volume(SIZES[:2], kind)
    made(tmp_path / "a.jnrrd", expected, ("gzip", kind, endian), "variable", [3, 2])
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_other_numbers_of_every_size(tmp_path, kind, endian):
    expected = volume(SIZES[:2], kind)
    made(tmp_path / "a.jnrrd", expected, ("raw", kind, endian), "variable", [3, 2])
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


CHAINS = {"raw": [], "gzip": ["gzip"], "zstd": ["zstd"], "bzip2": ["numcodecs.bz2"]}


@pytest.mark.parametrize("form", [form for form in FORMS if form[0] in CHAINS], ids=lambda form: form[0])
def test_padded_tiles_are_chunks_of_zarrs_own_codecs(tmp_path, form):
    expected = volume(SIZES[:3], form[1])
    made(tmp_path / "a.jnrrd", expected, form)
    array = stock(tmp_path / "a.jnrrd", tmp_path / "a.json")
    refs = json.loads((tmp_path / "a.json").read_text())["refs"]
    codecs = [codec["name"] for codec in json.loads(refs["data/zarr.json"])["codecs"]]
    assert codecs == ["bytes", *CHAINS[form[0]]]
    assert array.chunks == TILES[2::-1]
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
def test_stock_readers_read_edges_and_overlaps_too(tmp_path, form):
    expected = volume((19, 10), form[1])
    # the last tiles' leftover, and bytes behind a tile that is not the file's last
    made(tmp_path / "a.jnrrd", expected, form, "variable", [3, 2], order=[5, 3, 1, 0, 4, 2, 7, 6])
    (tmp_path / "a.jnrrd").write_bytes((tmp_path / "a.jnrrd").read_bytes() + bytes(16))
    array = stock(tmp_path / "a.jnrrd", tmp_path / "a.json")
    assert array.chunks == (4, 5)
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("compression", list(PACK))
@pytest.mark.parametrize("edges", ["pad", "variable"])
@pytest.mark.parametrize("tile", [(4, 6), (6, 4), (5, 5), (12, 12), (1, 1), (7, 3)])
def test_tiles_of_one_size_and_other_shapes_are_told_apart(tmp_path, compression, edges, tile):
    # 10 x 10 in tiles of 4 x 6: edges of 2 x 6 and 4 x 4 and 2 x 4; of 6 x 4: 24, 12, 16, 8 as well
    expected = volume((10, 10))
    made(tmp_path / "a.jnrrd", expected, (compression, "uint16", "little"), edges, tile=tile)
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


@pytest.mark.parametrize("compression", list(PACK))
def test_tiles_of_one_size_at_either_end_of_their_file(tmp_path, compression):
    # 6 x 6 in tiles of 4 x 4: edges of 2 x 4 and of 4 x 2 have 8 elements each, and data files nothing around them
    expected = volume((6, 6), "uint8")
    parts = [part for _, part in tiles_of(expected, (4, 4), variable=True)]
    blobs = [stored(part, compression=compression) for part in parts]
    for order in ([1, 0, 3, 2], [2, 0, 3, 1], [3, 1, 2, 0]):
        sizes = [len(blobs[number]) for number in order]
        offsets = dict(zip(order, np.cumsum([0, *sizes]).tolist(), strict=False))
        tile = keys(
            (4, 4),
            edge_handling="variable",
            compression=compression,
            offset_table=[offsets[number] for number in range(4)],
            size_table=[len(blob) for blob in blobs],
        )
        fields = core(expected, data_file="a.raw") | tile
        (tmp_path / "a.raw").write_bytes(b"".join(blobs[number] for number in order))
        (tmp_path / "a.jnrrd").write_text("".join(json.dumps({k: v}) + "\n" for k, v in fields.items()))
        np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


@pytest.mark.parametrize("axis", [
    (20, 8, 2), (19, 8, 2), (21, 8, 6), (9, 8, 7), (8, 8, 3), (7, 8, 2), (2, 8, 2), (1, 8, 3), (40, 8, 1)])  # fmt: skip
@pytest.mark.parametrize("edges", ["pad", "variable"])
@pytest.mark.parametrize("compression", ["raw", "zstd"])
def test_each_element_is_read_from_one_tile(tmp_path, axis, edges, compression):
    size, tile, overlap = axis
    expected = volume((size,))
    parts = [part for _, part in tiles_of(expected, (tile,), [overlap], variable=edges == "variable")]
    assert len(parts) == max(1, -(-(size - overlap) // (tile - overlap)))
    blobs = [stored(part, compression=compression) for part in parts]
    fields = keys((tile,), format="chunked", edge_handling=edges, overlap=[overlap], compression=compression)
    write(tmp_path / "a.jnrrd", core(expected) | fields, blobs)
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


@pytest.mark.parametrize("dimensions", [[0], [1], [2], [0, 1], [0, 2], [1, 2]])
@pytest.mark.parametrize("overlap", [False, True])
def test_untiled_dimensions_are_whole_in_each_tile(tmp_path, dimensions, overlap):
    expected = volume((9, 7, 5))
    tile = [4 if number in dimensions else size for number, size in enumerate((9, 7, 5))]
    shared = [1 if number in dimensions and overlap else 0 for number in range(3)]
    blobs = [stored(part) for _, part in tiles_of(expected, tile, shared)]
    own = keys([4] * len(dimensions), dimensions=dimensions, format="chunked")
    own |= {"tile:overlap": [1] * len(dimensions)} if overlap else {}
    write(tmp_path / "a.jnrrd", core(expected) | own, blobs)
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


@pytest.mark.parametrize(
    ("kind", "value", "expected"), [("uint8", 200, 200), ("float32", -1.5, -1.5), ("int16", 3.0, 3)]
)
def test_the_padding_value_is_the_fill_value(tmp_path, kind, value, expected):
    array = volume((6,), kind)
    blobs = [stored(part) for _, part in tiles_of(array, (4,))]
    write(tmp_path / "a.jnrrd", core(array) | keys((4,), padding_value=value), blobs)
    assert open_group(tmp_path / "a.jnrrd")["data"].fill_value == expected


@st.composite
def tilings(draw):
    """Return what a tiling may be: sizes, tiled dimensions, tiles and what they share."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    dimensions = sorted(draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1)))
    tile = draw(st.lists(st.integers(1, 7), min_size=len(dimensions), max_size=len(dimensions)))
    return sizes, dimensions, tile, [draw(st.integers(0, size - 1)) for size in tile]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=tilings(), edges=st.sampled_from(["pad", "variable"]), form=st.sampled_from(FORMS), seed=st.integers(0, 9))
def test_any_tiling_is_read_as_it_was_written(tmp_path, made, edges, form, seed):
    sizes, dimensions, tile, overlap = made
    compression, kind, endian = form
    expected = volume(sizes, kind, seed)
    whole = [tile[dimensions.index(n)] if n in dimensions else size for n, size in enumerate(sizes)]
    shared = [overlap[dimensions.index(n)] if n in dimensions else 0 for n in range(len(sizes))]
    parts = [part for _, part in tiles_of(expected, whole, shared, variable=edges == "variable")]
    blobs = [stored(part, endian, compression) for part in parts]
    own = {"format": "chunked", "edge_handling": edges, "overlap": overlap, "compression": compression}
    order = np.random.default_rng(seed).permutation(len(blobs)).tolist()
    write(tmp_path / "a.jnrrd", core(expected, endian) | keys(tile, dimensions=dimensions, **own), blobs, order=order)
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


def test_the_prefix_is_told_by_its_uri(tmp_path):
    array = volume((6,))
    blobs = [stored(part) for _, part in tiles_of(array, (4,))]
    write(tmp_path / "a.jnrrd", core(array) | keys((4,)), blobs)
    text = (tmp_path / "a.jnrrd").read_bytes()
    renamed = text.replace(b"tile:", b"bloc:").replace(b'{"tile"', b'{"bloc"').replace(b': {"tile"', b': {"bloc"')
    assert len(renamed) == len(text)
    assert b'tile":' not in renamed
    (tmp_path / "b.jnrrd").write_bytes(renamed)
    np.testing.assert_array_equal(open_group(tmp_path / "b.jnrrd")["data"][:], array)


def test_tiling_that_is_off_is_none(tmp_path):
    array = volume((6, 5))
    fields = core(array) | keys((4, 4), enabled=False)
    head = "".join(json.dumps({name: value}) + "\n" for name, value in fields.items()).encode() + b"\n"
    (tmp_path / "a.jnrrd").write_bytes(head + stored(array))
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], array)
