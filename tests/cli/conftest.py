"""Files as rasterio and tifffile write them, and the commands in this process."""

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner

from jnrrdz.cli import cli
from tests import writers

SHAPE = (300, 500)


@pytest.fixture(scope="session")
def pixels():
    return np.random.default_rng(2).integers(1, 60000, SHAPE).astype("u2")


@pytest.fixture(scope="session")
def cog_bytes(tmp_path_factory, pixels):
    path = tmp_path_factory.mktemp("cog") / "scene.tif"
    tiles = writers.TILES | {"blockxsize": 128, "blockysize": 128, "predictor": 2}
    return writers.geotiff(path, pixels, overviews=[2, 4], nodata=7, **tiles, **writers.PLACE).read_bytes()


@pytest.fixture
def cog(tmp_path, monkeypatch, cog_bytes):
    """A tiled TIFF with two overviews, CRS and nodata, in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scene.tif"
    path.write_bytes(cog_bytes)
    return path


@pytest.fixture
def holes(tmp_path, monkeypatch):
    """A TIFF with three bands in strips, some of which are absent."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "holes.tif"
    tifffile.imwrite(path, np.ones((3, 40, 30), "f4"), photometric="rgb", planarconfig="separate", rowsperstrip=10)
    with tifffile.TiffFile(path, mode="r+") as file:
        tags = file.pages.first.tags
        for name in ("StripOffsets", "StripByteCounts"):
            values = list(tags[name].value)
            values[1] = values[5] = 0
            tags[name].overwrite(values)
    return path


@pytest.fixture
def run():
    """Return a function that runs a command line and checks how it ended."""

    def call(*args, code=0):
        result = CliRunner().invoke(cli, [str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.stderr
        return result

    return call


@pytest.fixture
def error_line(run):
    """Return a function that runs a command line that fails, and gives its only line of error."""

    def call(*args, code=1):
        result = run(*args, code=code)
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        others = [line for line in result.stderr.splitlines() if not line.startswith(("error: ", "warning: "))]
        assert (len(errors), others, result.stdout) == (1, [], "")
        return errors[0]

    return call
