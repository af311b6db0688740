"""Walk a COG's overviews, each a group of the manifest: `python examples/pyramid.py [FILE_OR_URL]`.

Without an argument it uses the demo's file.  Level 0 is the full resolution.
"""

import sys
import tempfile
from pathlib import Path

import xarray as xr
from terrain import terrain_cog

import jnrrdz


def main(source: str) -> None:
    """Print shape, cell size and mean of every level."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "pyramid.json"
        jnrrdz.index(source, str(manifest))
        with xr.open_datatree(manifest) as tree:
            for name, level in sorted(tree.children.items(), key=lambda item: int(item[0])):
                image, columns = level["data"], level["x"].to_numpy()
                cell = abs(columns[1] - columns[0])
                print(f"level {name}: {image.shape}, cells of {cell:g}, mean {float(image.mean()):.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(terrain_cog()))
