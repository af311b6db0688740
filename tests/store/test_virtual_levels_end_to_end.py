"""A manifest that lists virtual levels, through every way of opening it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import jnrrdz
from jnrrdz.core.pyramid import VirtualLevel, virtual_levels_attribute

VALUES = np.random.default_rng(5).normal(size=(6, 16, 20)).astype("<f4")
EXPECTED = VALUES.astype("f8").reshape(6, 8, 2, 10, 2).mean((2, 4)).astype("f4")


@pytest.fixture
def manifest(tmp_path):
    """References written by hand, as a stock reader takes them."""
    (tmp_path / "raw.bin").write_bytes(VALUES.tobytes())
    level = VirtualLevel("1", "0", "data", (1, 2, 2), (6, 8, 10), (4, 5, 6))
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6, 16, 20],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 16, 20]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        "dimension_names": ["z", "y", "x"],
    }
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    root = group | {"attributes": virtual_levels_attribute([level])}
    refs = {"zarr.json": json.dumps(root), "0/zarr.json": json.dumps(group), "0/data/zarr.json": json.dumps(array)}
    refs |= {f"0/data/c/{z}/0/0": ["raw.bin", z * 1280, 1280] for z in range(6)}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


@pytest.mark.parametrize(
    "opened",
    [
        lambda path: jnrrdz.open_group(str(path))["1/data"][...],
        lambda path: jnrrdz.open_dataset(str(path), group="1")["data"].values,
        lambda path: jnrrdz.open_dataset(str(path), group="1", chunks={})["data"].compute().values,
        lambda path: jnrrdz.open_datatree(str(path))["1/data"].values,
        lambda path: xr.open_dataset(path, engine="jnrrdz", group="1")["data"].values,
    ],
)
def test_every_way_of_opening_shows_the_level(manifest, opened):
    assert np.array_equal(opened(manifest), EXPECTED)


def test_without_a_group_the_finest_level_is_opened(manifest):
    assert np.array_equal(jnrrdz.open_dataset(str(manifest))["data"].values, VALUES)


def test_what_lists_references_lists_what_is_stored(manifest):
    command = [sys.executable, "-c", "from jnrrdz.cli import main; main()", "ls", str(manifest)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["0/"]
