"""A chunk that cannot be decoded is one error, and nothing else is printed when the process ends."""

import os
import subprocess
import sys

import numpy as np
import pytest

import jnrrdz
from tests import writers

CODE = """
import sys
import numpy as np, xarray as xr, zarr
import jnrrdz

door, name, out = sys.argv[1:]
doors = {
    "zarr's own pipeline": lambda: zarr.open_group(jnrrdz.open_store(name), mode="r")["data"][...],
    "lists of indices": lambda: zarr.open_group(jnrrdz.open_store(name), mode="r")["data"][::2, [1, 300, 500]],
    "to_zarr": lambda: xr.open_dataset(name).to_zarr(out),
    "to_zarr of dask": lambda: xr.open_dataset(name, chunks={}).to_zarr(out),
}
try:
    doors[door]()
except jnrrdz.MalformedError as error:
    print(error)
"""
DOORS = ["zarr's own pipeline", "lists of indices", "to_zarr", "to_zarr of dask"]


@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_pending_at_the_end(tmp_path, door):
    path = tmp_path / "a.tif"
    pixels = np.random.default_rng(3).integers(0, 60000, (512, 512)).astype("u2")
    writers.geotiff(path, pixels, **writers.PLACE, **writers.TILES, predictor=2)
    jnrrdz.index(path, tmp_path / "refs.json")
    before, data = path.stat(), bytearray(path.read_bytes())
    for start in range(len(data) // 4, len(data), 1000):
        data[start : start + 50] = b"\xff" * 50
    path.write_bytes(data[: before.st_size])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", CODE, door, tmp_path / "refs.json", tmp_path / "out"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "a.tif" in run.stdout
    assert not [word for word in ("destroyed", "never awaited", "never retrieved") if word in run.stderr]
