"""The modules of jnrrdz that three files' bytes pass, as JSON: `python -m tests.ways FOLDER`."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import xarray as xr
from rasterio.shutil import copy
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.cli import cli
from tests import writers

PACKAGE = Path(jnrrdz.__file__).parent
TOOL = sys.monitoring.PROFILER_ID
EVENT = sys.monitoring.events.PY_START
PIXELS = np.add.outer(np.arange(600), np.arange(700)).astype("u2")


def modules_of(task):
    """Return what a task returns, and the modules whose functions it calls in any thread."""
    modules = set()

    def note(code, _):
        if code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
            modules.add(Path(code.co_filename).relative_to(PACKAGE).as_posix())
        return sys.monitoring.DISABLE

    sys.monitoring.use_tool_id(TOOL, "ways")
    sys.monitoring.register_callback(TOOL, EVENT, note)
    sys.monitoring.set_events(TOOL, EVENT)
    sys.monitoring.restart_events()
    try:
        return task(), modules
    finally:
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.free_tool_id(TOOL)


def way(source, group=None):
    """Return the modules of the index, the opening and the first window of a source."""
    manifest = f"{source}.json"
    arguments = ["index", str(source), "-o", manifest]
    _, index = modules_of(lambda: cli(arguments, standalone_mode=False))
    dataset, opening = modules_of(lambda: xr.open_dataset(manifest, engine="jnrrdz", group=group))
    _, read = modules_of(dataset["data"][..., :64, :64].load)
    return sorted(index | opening | read)


def main(folder):
    """Print the modules by the kind of file."""
    warnings.simplefilter("ignore")
    cog = writers.cog(folder / "scene.tif", PIXELS)
    options = {"IC": "C8", "QUALITY": "100", "REVERSIBLE": "YES", "ICORDS": "G"}
    place = {"crs": "EPSG:4326", "transform": from_origin(10, 50, 0.01, 0.01)}
    nitf = folder / "scene.ntf"
    plain = writers.geotiff(folder / "plain.tif", PIXELS, **place)
    copy(plain, nitf, driver="NITF", **options)
    container = folder / "volume.n5"
    writers.n5_dataset(container / "raw", PIXELS[:64, :96], [32, 32], "gzip")
    writers.n5_attributes(container, n5="4.0.0")
    ways = {"COG": way(cog), "NITF": way(nitf), "N5": way(container, "raw")}
    print(json.dumps(ways))  # noqa: T201  a program


if __name__ == "__main__":
    main(Path(sys.argv[1]))
