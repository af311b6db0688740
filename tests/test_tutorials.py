"""The tutorials and the README, executed as a reader types them: every block in order, in an empty folder.

Shell blocks run in bash, Python blocks in one process.  A block of the language `text` is what the block before it
prints; `...` stands for anything.  Each tutorial ends in a picture, which stands on its page as the run makes it.
"""

import codeop
import doctest
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import rasterio
import rasterio.transform
import tifffile
import xarray as xr

from tests.servers.fixtures import seaweed

__all__ = ["seaweed"]

pytestmark = pytest.mark.timeout(900)  # each is many processes that begin with imports

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("[!R]*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "-- end of block"
DRIVER = f"""
import json, pathlib, subprocess, sys
names = {{"__name__": "__main__"}}
for number, (language, code) in enumerate(json.loads(pathlib.Path("blocks.json").read_text())):
    if language == "bash":
        subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", code], check=True)
    else:
        exec(compile(code, f"block {{number}}", "exec"), names)
    print({END!r}, flush=True)
"""
PIP = f"""#!{sys.executable}
import sys
from importlib.metadata import distribution
from packaging.requirements import Requirement
assert sys.argv[1] == "install"
for wanted in map(Requirement, sys.argv[2:]):
    held = distribution(wanted.name)
    assert wanted.extras <= set(held.metadata.get_all("Provides-Extra", [])), wanted
"""
"""What `pip install` does here: it looks whether packages and extras of these names are there, and installs nothing."""


@pytest.fixture
def variables(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pip").write_text(PIP)
    (folder / "pip").chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    left = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "AWS_"))}
    return {**left, "PATH": path, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "default"}


def run_blocks(page, folder, variables):
    """Run what a page tells its reader to type, and compare what it says is printed."""
    folder.mkdir(exist_ok=True)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    typed = [[language, code] for language, code in blocks if language in {"bash", "python"}]
    (folder / "blocks.json").write_text(json.dumps(typed))
    command = [sys.executable, "-c", DRIVER]
    run = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    (folder / "blocks.json").unlink()
    assert run.returncode == 0, run.stdout
    printed = iter(run.stdout.split(f"{END}\n"))
    last = ""
    for language, code in blocks:
        if language in {"bash", "python"}:
            last = next(printed)
        elif language == "text":
            how = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert doctest.OutputChecker().check_output(code, last, how), f"{code}\nis not\n{last}"
    return typed


def months(folder):
    """Compare each month with what rasterio reads."""
    data = xr.open_dataset(folder / "year.json")["data"].values
    for number, path in enumerate(sorted((folder / "archive").glob("*.tif"))):
        with rasterio.open(path) as image:
            assert np.array_equal(data[number], image.read(1))


def cells(folder):
    """Compare the picture with tifffile's maxima."""
    shown = imagecodecs.png_decode((folder / "cells.png").read_bytes())
    nuclei = tifffile.imread(folder / "cells.ome.tif")[0].max(axis=0)
    assert np.array_equal(shown[..., 2], (nuclei / 3000 * 255).clip(0, 255).astype("uint8"))


def chip(folder):
    """Compare the chip with the window that rasterio reads."""
    shown = imagecodecs.png_decode((folder / "chip.png").read_bytes())[::2, ::2]
    with rasterio.open(folder / "harbour.ntf") as image:
        affine = image.transform
        left, top = round((13.708 - affine.c) / affine.a), round((45.648 - affine.f) / affine.e)
        assert np.array_equal(shown, image.read(1)[top : top + shown.shape[0], left : left + shown.shape[1]])


def neuron(folder):
    """Compare the picture with the blocks, read by hand: four bytes of header and the sizes, then gzip."""
    brightest = np.zeros((128, 160), "uint8")
    for path in (folder / "neuron.n5" / "raw").glob("*/*/*"):
        across, down, _ = (int(part) for part in path.relative_to(folder / "neuron.n5" / "raw").parts)
        data = path.read_bytes()
        sizes = np.frombuffer(data[4:16], ">u4")
        block = np.frombuffer(gzip.decompress(data[16:]), "u1").reshape(sizes[::-1])
        place = brightest[down * 64 :, across * 64 :][: sizes[1], : sizes[0]]
        place[...] = np.maximum(place, block.max(axis=0)[: place.shape[0], : place.shape[1]])
    shown = imagecodecs.png_decode((folder / "neuron.png").read_bytes())[::3, ::3, 0]
    assert np.abs(shown.astype(int) - brightest).max() <= 1


def week(folder):
    """Compare the three pictures with tifffile's."""
    days = [tifffile.imread(folder / "archive" / f"{day}.tif") for day in ("tuesday", "wednesday", "thursday")]
    assert np.array_equal(imagecodecs.png_decode((folder / "week.png").read_bytes()), np.hstack(days))


CHECKS = {"time-series": months, "microscopy": cells, "nitf": chip, "n5": neuron, "nightly": week}
"""What an independent reader has to say of each."""


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_to_its_picture(page, tmp_path, variables):
    folder = tmp_path / "empty"
    typed = run_blocks(page, folder, variables)
    name = re.findall(r'([\w-]+\.png)"', "".join(code for _, code in typed))[-1]
    assert f"](images/{name})" in page.read_text(encoding="utf-8")
    shown = imagecodecs.png_decode((folder / name).read_bytes())
    assert len(np.unique(shown.reshape(-1, 3 if shown.ndim == 3 else 1), axis=0)) > 8, "a blank picture"
    CHECKS[page.stem](folder)
    kept = imagecodecs.png_decode((page.parent / "images" / name).read_bytes())
    assert kept.shape == shown.shape
    assert np.abs(kept.astype(int) - shown).mean() < 1


RUN = (
    "dask",
    "duckdb",
    "fiji",
    "gdal",
    "icechunk",
    "masks",
    "merge",
    "napari",
    "physical-values",
    "qgis",
    "save",
    "stac",
    "tile",
    "titiler",
    "virtual-levels",
)
GIVEN = [
    ROOT / "README.md",
    *(ROOT / "docs" / "howto" / f"{name}.md" for name in RUN),
    *sorted((ROOT / "docs" / "from").glob("*.md")),
]
"""Pages whose reader has an image of the name that they use."""

LEFT_OUT = {
    "docs/codecs/offset/README.md": "names your own pixels; tests/test_project.py runs examples/tiff_chunks.py",
    "docs/codecs/pad/README.md": "the same",
    "docs/formats/foreign.md": "tests/foreign runs these commands on files that h5py and netCDF4 write",
    "docs/howto/batch.md": "names a bucket; tests/batch runs such batches on SeaweedFS",
    "docs/howto/cubes.md": "tests/commands/test_cube.py runs these on scenes of two resolutions that it makes",
    "docs/howto/object-stores.md": "names buckets and a server with tokens; tests/sources has such servers",
    "docs/formats/products.md": "needs products; tests/products makes such folders and opens them",
    "docs/howto/products.md": "the same",
    "docs/howto/serve.md": "needs a server beside it; tests/serve/test_clients.py runs each of these clients",
    "docs/release/README.md": "needs uv and the registry; tests/test_project.py compares what it wrote",
    "docs/scale.md": "names a bucket; benchmarks/scale.py does it on SeaweedFS",
    "docs/interop/osml.md": "names manifests of osml-imagery-io; tests/codecs/test_osml.py opens such",
    "gdalinfo 'ZARR:\"/vsikerchunk_json_ref/": "needs GDAL 3.12's programs; the block above has rasterio do it",
    "jnrrdz serve scene.ntf": "serves until it is interrupted; tests/serve/test_clients.py has GDAL read it",
    "jnrrdz index s3://bucket/scene.tif": "names a bucket; tests/manifests/test_icechunk_read.py does it on SeaweedFS",
    "public = icechunk.containers_credentials": "names a bucket; tests/manifests/test_icechunk_read.py reads with both",
    "import napari": "napari needs OpenGL; by hand, its ViewerModel took both blocks",
    'data = xr.open_dataset("cells.json"': "the same",
    "jnrrdz batch https://data.example": "names a server that is not there; tests/batch/test_stac_sources.py has one",
    "jnrrdz cube --stac catalogue": "tests/batch/test_stac_out.py makes cubes of such collections",
    "docs/howto/neuroglancer.md": "needs a browser with WebGL; by hand, with neuroglancer 2.41.2",
    "docs/howto/nightly-buckets.md": "tests/test_tutorials.py runs it on SeaweedFS",
    'cube = xr.open_dataset("cube.parquet", engine="jnrrdz", group="20m", chunks={})': "tests/commands/test_cube.py "
    "makes such cubes",
    "import duckdb": "by hand, with DuckDB 2.0.0",
    "import pystac_client": "asks a server that is not there; the block after it makes what the search would give",
}
"""Blocks that no test runs as they stand, by their page or by how they begin, and why."""

NEEDED = {"titiler": "titiler.xarray"}
"""What a page needs that tests/system.sh installs."""

PREPARED = {
    "virtual-levels": "jnrrdz tile volume.npy -o a.jnrrd --tile 64,64,9 --levels 2 && jnrrdz index a.jnrrd "
    "-o volume.json",
    "merge": "jnrrdz index a.tif -o a.json; jnrrdz index b.tif -o b.parquet",
}
"""What the reader of a page has done before."""


def test_every_block_runs_or_says_why_not():
    used = set()
    for page in sorted((ROOT / "docs").glob("**/*.md")):
        blocks = [(language, code) for language, code in BLOCK.findall(page.read_text(encoding="utf-8"))]
        run = {"bash", "python"} if page in {*TUTORIALS, *GIVEN} else set()
        for language, code in blocks:
            if language in {"bash", "python", "shell", "py", "javascript"} - run and "decisions" not in page.parts:
                name = page.relative_to(ROOT).as_posix()
                reasons = {key for key in LEFT_OUT if name == key or code.startswith(key)}
                assert reasons, f"{name}: nothing runs\n{code}"
                used |= reasons
    assert used == set(LEFT_OUT)
    proofs = {proof for reason in LEFT_OUT.values() for proof in re.findall(r"(?:tests|examples)/[\w/.]*\w", reason)}
    assert [proof for proof in sorted(proofs) if not (ROOT / proof).exists()] == []


@pytest.mark.parametrize("page", [*TUTORIALS, ROOT / "README.md"], ids=lambda page: page.stem)
def test_a_block_can_be_pasted_into_the_plain_prompt(page):
    """Python 3.12's prompt takes a paste line by line: what is indented ends at an empty line, and only there."""
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        typed = []
        for line in [*code.split("\n"), ""] if language == "python" else []:
            typed.append(line)
            if codeop.compile_command("\n".join(typed), page.name, "single") is not None:
                typed = []
        assert "".join(typed) == ""


def given_files(folder):
    """Make what those readers have: a COG with overviews, plain TIFFs, archives of two days, bands, a volume."""
    y, x = np.mgrid[:1024, :1024]
    place = {"crs": "EPSG:32633", "transform": rasterio.transform.from_origin(500_000, 5_400_000, 10, 10)}
    profile = {"width": 1024, "height": 1024, "count": 1, "dtype": "uint16", **place}
    with rasterio.open(folder / "scene.tif", "w", driver="COG", blocksize=256, compress="lzw", **profile) as image:
        image.write((x * 3 + y).astype("uint16"), 1)
    tifffile.imwrite(folder / "plain.tif", (x + y).astype("uint16"), tile=(256, 256))
    (folder / "archive").mkdir()
    for day in (1, 2):
        tifffile.imwrite(folder / "archive" / f"2026-01-0{day}.tif", (x * day % 251).astype("uint8"), tile=(256, 256))
    (folder / "scenes").mkdir()
    for number, name in enumerate(("a", "b", "c", "scenes/x_20240601", "scenes/x_20240611"), start=1):
        taken = {"datetime": f"2024:06:0{number} 00:00:00", "metadata": None}
        tifffile.imwrite(folder / f"{name}.tif", (y * number % 251).astype("uint8"), tile=(256, 256), **taken)
    bands = {"count": 3, "dtype": "int16", "nodata": -9999, "width": 512, "height": 512, "tiled": True, **place}
    (folder / "days").mkdir()
    for name, scales in {
        "bands": [0.0001] * 3,
        "mixed": [0.0001, 0.5, 2.0],
        "days/a_20240601": [],
        "days/a_20240611": [],
    }.items():
        with rasterio.open(
            folder / f"{name}.tif", "w", **bands, interleave="band", predictor=2, compress="lzw"
        ) as image:
            image.write(np.stack([x[:512, :512] * number for number in (1, 2, 3)]).astype("int16"))
            image.descriptions = ("B02", "B03", "B04")
            if scales:
                image.scales, image.offsets = scales, [0.0] * 3
    plane = {**place, "driver": "GTiff", "width": 512, "height": 512, "dtype": "uint8", "tiled": True}
    grey = (x[:512, :512] // 2).astype("uint8")
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(folder / "masked.tif", "w", count=1, **plane) as image,
    ):
        image.write(grey, 1)
        image.write_mask(np.hypot(x - 256, y - 256)[:512, :512] < 200)
    with rasterio.open(folder / "rgba.tif", "w", count=4, photometric="RGB", alpha="YES", **plane) as image:
        image.write(np.stack([grey, grey.T, grey, np.where(grey > 50, 255, 0).astype("uint8")]))
    (folder / "weather").mkdir()
    for day in (1, 2):
        weather = xr.Dataset({"t2m": (("time", "y", "x"), (280.0 + day + y[None, :8, :9] / 8))}, {"time": [day]})
        weather.to_netcdf(folder / "weather" / f"day_{day}.nc", engine="h5netcdf")
    np.save(folder / "volume.npy", (x[:32, :128] + np.arange(128)[:, None, None]).astype("uint16"))


def saved(folder):
    """Compare files that were saved with their source, as rasterio reads both."""
    bands = {"all.tif": [1, 2, 3], "one.tif": [3], "cog.tif": [1, 3], "named.tif": [1, 3], "mixed_copy.tif": [1, 2, 3]}
    for name, numbers in bands.items():
        source = "mixed.tif" if name.startswith("mixed") else "bands.tif"
        with rasterio.open(folder / name) as copy, rasterio.open(folder / source) as image:
            assert np.array_equal(copy.read(), image.read(numbers))
            assert copy.scales == tuple(image.scales[number - 1] for number in numbers)
            assert (copy.nodata, copy.crs, copy.transform) == (image.nodata, image.crs, image.transform)
    with rasterio.open(folder / "named.tif") as copy:
        assert copy.descriptions == ("B02", "B04")
    with rasterio.open(f"netcdf:{folder}/window.nc:data") as copy, rasterio.open(folder / "bands.tif") as image:
        assert copy.transform.almost_equals(image.transform @ rasterio.Affine.translation(100, 50))
        assert np.array_equal(copy.read(), image.read(window=rasterio.windows.Window(100, 50, 200, 100)))


@pytest.mark.parametrize("page", GIVEN, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_a_page_runs_where_its_files_are(page, tmp_path, variables):
    if page.stem in NEEDED:
        pytest.importorskip(NEEDED[page.stem])
    folder = tmp_path / "given"
    folder.mkdir()
    given_files(folder)
    subprocess.run(["bash", "-ec", PREPARED.get(page.stem, "")], cwd=folder, env=variables, check=True)
    assert run_blocks(page, folder, variables)
    if page.stem == "save":
        saved(folder)


def test_the_nightly_job_of_two_buckets_runs_each_night(tmp_path, variables, seaweed):
    """Run the script of the page on buckets of names of its own; then with a new, a changed and a deleted image."""
    pytest.importorskip("pyarrow")
    page = (ROOT / "docs" / "howto" / "nightly-buckets.md").read_text(encoding="utf-8")
    script = re.search(r"^```shell\n(set -euo.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    images, manifests = seaweed.make_bucket(), seaweed.make_bucket()
    script = script.replace("//images/", f"//{images}/").replace("//manifests/", f"//{manifests}/")
    environment = {**variables, **seaweed.environment()}

    def put(day, value):
        path = tmp_path / f"scene_{day}.tif"
        place = {"crs": "EPSG:32633", "transform": rasterio.transform.from_origin(500_000, 5_400_000, 10, 10)}
        with rasterio.open(path, "w", width=64, height=64, count=1, dtype="uint8", **place) as image:
            image.write(np.full((64, 64), value, "uint8"), 1)
        seaweed.put(images, f"scenes/{day[:6]}/scene_{day}.tif", path.read_bytes())

    def night():
        subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)
        options = seaweed.options(client_kwargs={"region_name": "us-east-1"})
        given = {"storage_options": options, "source_options": options}
        cube = xr.open_dataset(f"s3://{manifests}/all.parquet", engine="jnrrdz", **given)["data"]
        values = cube.values.reshape(cube.sizes["time"], -1)[:, 0]
        return dict(zip(cube["time"].dt.day.values.tolist(), values.tolist(), strict=True))

    put("20240601", 1)
    put("20240602", 2)
    assert night() == {1: 1, 2: 2}
    put("20240603", 3)
    put("20240602", 20)
    assert night() == {1: 1, 2: 20, 3: 3}
    seaweed.client.delete_object(Bucket=images, Key="scenes/202406/scene_20240601.tif")
    assert night() == {2: 20, 3: 3}
