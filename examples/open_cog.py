"""Open one TIFF as an xarray dataset: `python examples/open_cog.py [FILE_OR_URL]`.

Without an argument it uses the demo's file.  Nothing is written: the headers are scanned on the
fly, and only the tiles under the window are fetched.
"""

import sys

import xarray as xr
from terrain import terrain_cog


def main(source: str) -> None:
    """Print the dataset, and the mean of a window in the middle."""
    dataset = xr.open_dataset(source, engine="jnrrdz")
    print(dataset)
    middle = {axis: dataset.sizes[axis] // 2 for axis in ("y", "x")}
    window = dataset["data"].isel({axis: slice(start, start + 256) for axis, start in middle.items()})
    print(f"\nMean of 256 x 256 pixels from row {middle['y']}, column {middle['x']}: {float(window.mean()):.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(terrain_cog()))
