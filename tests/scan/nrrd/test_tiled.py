"""Internal tiles, written by numpy alone, read as they were written."""

import numpy as np
import pytest

from jnrrdz.api import open_group
from tests.scan.nrrd.tiled_files import core, keys, stored, tiles_of, volume, write

SIZES = (23, 14, 9, 5, 3)
TILES = (8, 6, 4, 2, 2)
OVERLAPS = (2, 3, 1, 1, 0)


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("edges", ["pad", "variable"])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    "form",
    [
        ("raw", "uint16", "big"),
        ("gzip", "float32", "little"),
        ("bzip2", "int32", "big"),
        ("zstd", "uint8", "little"),
        ("lz4", "complex64", "big"),
        ("raw", "uint8", "little"),
    ],
)
def test_every_tile_is_read_from_its_place(tmp_path, axes, edges, overlap, form):
    compression, kind, endian = form
    expected = volume(SIZES[:axes], kind)
    shared = list(OVERLAPS[:axes]) if overlap else None
    parts = [part for _, part in tiles_of(expected, TILES[:axes], shared, variable=edges == "variable")]
    blobs = [stored(part, endian, compression) for part in parts]
    tile = keys(TILES[:axes], format="chunked", edge_handling=edges, overlap=shared, compression=compression)
    order = np.random.default_rng(1).permutation(len(blobs)).tolist()
    write(tmp_path / "a.jnrrd", core(expected, endian) | tile, blobs, order=order)
    array = open_group(tmp_path / "a.jnrrd")["data"]
    np.testing.assert_array_equal(array[:], expected)
