"""Checksums and level offsets of JNRRD, whose files are made here by numpy, hashlib and gzip alone."""

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import jnrrdz

URI = "https://jnrrd.org/extensions/tile/v1.0.0"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def tiles_of(pixels, side, overlap=0):
    step = side - overlap
    counts = [max(1, -(-(size - overlap) // step)) for size in pixels.shape]
    for row in range(counts[0]):
        for column in range(counts[1]):
            tile = np.zeros((side, side), pixels.dtype)
            part = pixels[row * step : row * step + side, column * step : column * step + side]
            tile[: part.shape[0], : part.shape[1]] = part
            yield tile


def written(name, compression, overlap=0, shift=0, change=None):
    """Write two levels of an image in tiles of 32; `shift` is added to what the header says of the second level."""
    pixels = np.random.default_rng(1).integers(0, 90, (100, 70)).astype("u1")
    levels = [list(tiles_of(pixels, 32, overlap)), list(tiles_of(pixels[::2, ::2], 32, overlap))]
    pack = {"gzip": gzip.compress, "raw": lambda data: data}[compression]
    stored = [pack(tile.tobytes()) for level in levels for tile in level]
    start = 1 << 14
    offsets = (start + np.cumsum([0, *map(len, stored)])).tolist()
    keys = {
        "enabled": True,
        "dimensions": [0, 1],
        "sizes": [32, 32],
        "storage": "internal",
        "format": "contiguous",
        "compression": compression,
        "levels": 2,
        "level_scales": [1, 2],
        "level_offsets": [offsets[0], offsets[len(levels[0])] + shift],
        "offset_table": offsets[:-1],
        "size_table": [len(data) for data in stored],
        "metadata": [{"checksum": hashlib.sha256(data).hexdigest()} for data in stored],
        **({"overlap": [overlap, overlap]} if overlap else {}),
    }
    core = {"jnrrd": "0004", "type": "uint8", "dimension": 2, "sizes": [70, 100], "extensions": {"tile": URI}}
    lines = [{key: value} for key, value in core.items()] + [{f"tile:{key}": value} for key, value in keys.items()]
    head = "".join(json.dumps(line) + "\n" for line in lines).encode()
    data = bytearray(head + b"\n" + bytes(start - len(head) - 1))
    data += b"".join(stored)
    if change is not None:
        data[offsets[change] + 20] ^= 1
    Path(name).write_bytes(data)
    return len(stored)


@pytest.mark.parametrize("compression", ["raw", "gzip"])
@pytest.mark.parametrize("overlap", [0, 4, 15])
def test_fine(compression, overlap):
    count = written("a.jnrrd", compression, overlap)
    jnrrdz.index("a.jnrrd", "a.json")
    found = jnrrdz.verify("a.json", deep=True)
    assert found.findings == ()
    assert found.checksums == count


@pytest.mark.parametrize("overlap", [0, 15])
def test_a_bit_that_turned_is_found_where_nothing_else_shows_it(overlap):
    written("a.jnrrd", "raw", overlap, change=5)
    found = jnrrdz.verify("a.jnrrd", deep=True)
    assert [finding.kind for finding in found.findings] == ["checksum"]


def test_a_sample_of_checksums():
    written("a.jnrrd", "raw")
    assert jnrrdz.verify("a.jnrrd", sample=2).checksums == 4


@pytest.mark.parametrize("compression", ["raw", "gzip"])
@pytest.mark.parametrize("overlap", [0, 15])
def test_a_level_that_begins_elsewhere(compression, overlap):
    written("a.jnrrd", compression, overlap, shift=7)
    found = jnrrdz.verify("a.jnrrd", sample=0)
    assert [(finding.kind, finding.place) for finding in found.findings] == [("table", "1/data")]


def test_what_jnrrdz_writes_is_fine():
    np.save("a.npy", np.random.default_rng(1).integers(0, 90, (50, 60, 70)).astype("u2"))
    jnrrdz.tile("a.npy", "a.jnrrd", tile=(32, 32, 16), levels=3, compression="zstd")
    found = jnrrdz.verify("a.jnrrd", deep=True)
    assert found.findings == ()
    assert found.checksums > 20
