"""A tile of another tile's size in its place is an error: compressed, and made here by numpy and gzip."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import MalformedError

URI = "https://jnrrd.org/extensions/tile/v1.0.0"
SHAPE = (50, 70)
SIDE = 16


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(name, wrong=None, overlap=0, shape=SHAPE):
    """Write tiles with variable edges; `wrong` puts a tile of the size of another into a place."""
    pixels = np.random.default_rng(1).integers(0, 90, shape).astype("u1")
    step = SIDE - overlap
    rows, columns = (-(-(size - overlap) // step) for size in shape)
    tiles = [
        pixels[row * step : row * step + SIDE, column * step : column * step + SIDE]
        for row in range(rows)
        for column in range(columns)
    ]
    stored = [gzip.compress(tile.tobytes()) for tile in tiles]
    if wrong is not None:
        stored[wrong[0]] = gzip.compress(np.zeros(tiles[wrong[1]].shape, "u1").tobytes())
    keys = {
        "enabled": True,
        "dimensions": [0, 1],
        "sizes": [SIDE, SIDE],
        "storage": "internal",
        "format": "contiguous",
        "compression": "gzip",
        "edge_handling": "variable",
        "offset_table": (8192 + np.cumsum([0, *map(len, stored)]))[:-1].tolist(),
        "size_table": [len(data) for data in stored],
        **({"overlap": [overlap, overlap]} if overlap else {}),
    }
    core = {
        "jnrrd": "0004",
        "type": "uint8",
        "dimension": 2,
        "sizes": [shape[1], shape[0]],
        "extensions": {"tile": URI},
    }
    lines = [{key: value} for key, value in core.items()] + [{f"tile:{key}": value} for key, value in keys.items()]
    head = "".join(json.dumps(line) + "\n" for line in lines).encode()
    Path(name).write_bytes(head + b"\n" + bytes(8192 - len(head) - 1) + b"".join(stored))
    return pixels, rows, columns


@pytest.mark.parametrize("overlap", [0, 3, 7])
@pytest.mark.parametrize("form", ["source", "json", "parquet"])
def test_tiles_in_their_places_are_read(overlap, form):
    pixels, _, _ = written("a.jnrrd", overlap=overlap)
    name = "a.jnrrd" if form == "source" else f"a.{form}"
    if form != "source":
        jnrrdz.index("a.jnrrd", name)
    np.testing.assert_array_equal(jnrrdz.open_group(name)["data"][...], pixels)


@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.parametrize("where", ["inside", "right", "below", "corner"])
def test_a_tile_of_another_size_is_an_error(overlap, where):
    _, rows, columns = written("a.jnrrd", overlap=overlap)
    last = rows * columns - 1
    of = {"inside": (0, columns - 1), "right": (columns - 1, 0), "below": (last - 1, 0), "corner": (last, last - 1)}
    written("a.jnrrd", of[where], overlap=overlap)
    with pytest.raises(MalformedError, match="where one of"):
        jnrrdz.open_group("a.jnrrd")["data"][...]


def test_a_stack_of_two_is_read():
    pixels, _, _ = written("a_1.jnrrd", shape=(48, 70))
    written("a_2.jnrrd", shape=(48, 70))
    jnrrdz.merge(["a_1.jnrrd", "a_2.jnrrd"], "s.json", concat_dim="y")
    np.testing.assert_array_equal(jnrrdz.open_group("s.json")["data"][...], np.concatenate([pixels, pixels]))
