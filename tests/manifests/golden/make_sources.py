"""Write the files of glymur, h5py, scipy and astropy in `sources`; run by hand, never by a test."""

from pathlib import Path

import glymur
import h5py
import numpy as np
import xarray as xr
from astropy.io import fits

SOURCES = Path(__file__).parent / "sources"
HEIGHTS = np.arange(24, dtype="i2").reshape(2, 3, 4)


def main() -> None:
    """Write every file."""
    SOURCES.mkdir(exist_ok=True)
    rows, columns = np.arange(1024) // 64, np.arange(1100) // 64
    steps = np.add.outer(rows, columns).astype("u2")
    precincts = {"psizes": [(256, 256), (128, 128), (64, 64)], "cbsize": (64, 64)}
    path = SOURCES / "precincts.j2k"
    glymur.Jp2k(path, data=steps, plt=True, numres=3, prog="RPCL", **precincts)
    with h5py.File(SOURCES / "chunks.h5", "w", track_order=False) as file:
        chunks = {"chunks": (1, 2, 4), "compression": "gzip", "shuffle": True}
        file.create_dataset("v", data=HEIGHTS, **chunks)
        file.create_dataset("contiguous", data=HEIGHTS[0].astype("f4"))
    packing = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": np.int16(7)}
    variable = ("z", "y", "x"), HEIGHTS, packing
    grid = {"y": np.arange(3) * 0.25, "x": 15 + np.arange(4) * 0.25}
    dataset = xr.Dataset({"t2m": variable}, grid)
    dataset.to_netcdf(SOURCES / "packed.nc", engine="scipy")
    fits.PrimaryHDU(HEIGHTS[0].astype(">i2")).writeto(SOURCES / "image.fits", overwrite=True)


if __name__ == "__main__":
    main()
