"""Compute on all tiles in parallel with dask: `python examples/dask_mean.py [FILE_OR_URL]`.

Without an argument it uses the demo's file.  `chunks={}` makes one dask chunk of each tile, so
that the mean never holds more than a few tiles in memory.
"""

import sys

import xarray as xr
from terrain import terrain_cog


def main(source: str) -> None:
    """Print how the image is divided, and its mean."""
    dataset = xr.open_dataset(source, engine="jnrrdz", chunks={})
    image = dataset["data"]
    print(f"{image.shape} {image.dtype} in {image.data.npartitions} chunks of {image.data.chunksize}")
    print(f"mean {float(image.mean().compute(scheduler='threads')):.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(terrain_cog()))
