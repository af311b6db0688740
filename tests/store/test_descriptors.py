"""More sources than a process may open: as many are held as there is room for, all are read."""

import json
import subprocess
import sys

import numpy as np
import pytest

import jnrrdz
from tests.writers import geotiff

COUNT = 300

READ = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
import jnrrdz
if len(sys.argv) > 3:
    jnrrdz.merge(sys.argv[3:], sys.argv[1], concat_dim="t", overwrite=True)
group = jnrrdz.open_group(sys.argv[1])
print(json.dumps(group["data"][:, 0, 0].tolist()))
print(json.dumps(group["data"][:, 1, 1].tolist()))
"""


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """A manifest of an array of 300 files."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(COUNT):
        geotiff(folder / f"{number:03}.tif", np.full((1, 4, 4), number, np.uint16))
    out = folder / "merged.json"
    jnrrdz.merge([folder / f"{number:03}.tif" for number in range(COUNT)], out, concat_dim="t")
    return out


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("limit", [64])
@pytest.mark.parametrize("anew", [False, True], ids=["read", "merge and read"])
def test_sources_are_read_whatever_the_limit(merged, limit, anew):
    sources = [str(merged.parent / f"{number:03}.tif") for number in range(COUNT)] if anew else []
    command = [sys.executable, "-c", READ, str(merged), str(limit), *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == second == list(range(COUNT))
