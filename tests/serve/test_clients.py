"""What `jnrrdz serve` serves of each format, read pixel for pixel by readers that nobody changed for it.

The files are written by other libraries, and the server is a process of its own: rasterio keeps the interpreter's lock
while GDAL opens a URL.
"""

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import attr
import imagecodecs
import nrrd
import numpy as np
import ome_zarr_models
import pytest
import rasterio
import tensorstore
import tifffile
import xarray as xr
import zarr
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader

import jnrrdz
from tests import writers
from tests.nrrd import tiled_files

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.filterwarnings(
    "ignore::rasterio.errors.NotGeoreferencedWarning",
    "ignore:Use `@` matmul:PendingDeprecationWarning",  # rio-tiler's
    "ignore:datetime.datetime.utcnow:DeprecationWarning:nrrd",
)
MICROSCOPE = {"ome": True, "metadata": {"axes": "CZYX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}}
RGB = {"planarconfig": "separate", "photometric": "rgb"}
CLIENTS = Path(__file__).parents[1] / "clients"
RANDOM = np.random.default_rng(13)
SHAPE = (150, 130)


def numbers(dtype, shape=SHAPE):
    return RANDOM.integers(0, 120, shape).astype(dtype)


def tiff(path, pixels, **options):
    tifffile.imwrite(path, pixels, **{"tile": (64, 64), "compression": "zlib", **options})
    return pixels


def n5(path, pixels):
    writers.n5_dataset(path / "volume", pixels, [16, 32, 8], "gzip")
    writers.n5_attributes(path, n5="4.0.0")
    return pixels.T


def jnrrd_file(path):
    volume = tiled_files.volume((40, 30, 20), "uint16")
    blobs = [tiled_files.stored(part, compression="zstd") for _, part in tiled_files.tiles_of(volume, (16, 16, 16))]
    keys = tiled_files.keys((16, 16, 16), format="chunked", compression="zstd")
    tiled_files.write(path, tiled_files.core(volume) | keys, blobs)
    return volume


def made(folder):
    """Write a file of each format and kind, and return what each holds, by its name."""
    holds = {
        "cog.tif": numbers("u2", (1100, 900)),
        "mean.tif": numbers("f4"),
        "planar.tif": tiff(
            folder / "planar.tif", numbers("u1", (3, *SHAPE)), planarconfig="separate", photometric="rgb"
        ),
        "strips.tif": tiff(folder / "strips.tif", numbers("i2", (200, 300)), tile=None, rowsperstrip=1),
        "one.tif": tiff(folder / "one.tif", numbers(">u2", (2100, 1500)), tile=None, rowsperstrip=2100),
        "half.tif": tiff(folder / "half.tif", numbers("f2")),
        "bits.tif": tiff(folder / "bits.tif", RANDOM.random(SHAPE) > 0.5, tile=None, compression=None),
        "complex.tif": tiff(folder / "complex.tif", numbers("c8") + np.complex64(1j)),
        "wide.tif": tiff(folder / "wide.tif", numbers("u8")),
        "picture.jp2": numbers("u1", (*SHAPE, 3)),
        "segment.ntf": numbers("u2"),
        "tree.n5": n5(folder / "tree.n5", numbers("u2", (40, 50, 20))),
        "volume.nrrd": numbers("i2", (30, 20, 10)),
        "cells.ome.tif": tiff(folder / "cells.ome.tif", numbers("u2", (2, 3, 1100, 600)), **MICROSCOPE),
        "volume.jnrrd": jnrrd_file(folder / "volume.jnrrd"),
    }
    writers.cog(folder / "cog.tif", holds["cog.tif"])
    holds["mean.tif"][:20] = np.nan
    writers.geotiff(folder / "mean.tif", holds["mean.tif"], nodata=float("nan"), **writers.PLACE, **writers.TILES)
    holds["bits.tif"] = tifffile.imread(folder / "bits.tif")
    packed = imagecodecs.jpeg2k_encode(holds["picture.jp2"], level=0, reversible=True, codecformat="jp2")
    (folder / "picture.jp2").write_bytes(packed)
    holds["picture.jp2"] = holds["picture.jp2"].transpose(2, 0, 1)
    writers.gdal_image(folder / "segment.ntf", holds["segment.ntf"], driver="NITF")
    nrrd.write(str(folder / "volume.nrrd"), holds["volume.nrrd"])
    holds["volume.nrrd"] = holds["volume.nrrd"].T
    for name, form in {"cog.json": "json", "cog.parquet": "parquet"}.items():
        jnrrdz.index(folder / "cog.tif", folder / name, format=form)
        holds[name] = holds["cog.tif"]
    return holds


class Served:
    """A server's arrays: the largest of each source, with what it has to be."""

    def __init__(self, url, holds):
        self.url = url
        self.holds = holds
        self.paths = {}
        for name in holds:
            with urllib.request.urlopen(f"{url}{name}/zarr.json") as answer:
                nodes = json.load(answer)["consolidated_metadata"]["metadata"]
            sizes = {path: np.prod(node["shape"]) for path, node in nodes.items() if node["node_type"] == "array"}
            self.paths[name] = max(sizes, key=sizes.__getitem__)

    def array(self, name):
        return f"{self.url}{name}/{self.paths[name]}"

    def asked(self):
        return json.dumps([{"url": f"{self.url}{name}", "path": path} for name, path in self.paths.items()])

    def differs(self, name, told):
        """Return what a reader in another process has read otherwise, nothing where it is the same."""
        expected = self.holds[name]
        little = np.ascontiguousarray(expected).astype(expected.dtype.newbyteorder("<"))
        is_same = told.get("shape") == list(expected.shape) and told["sha256"] == hashlib.sha256(little).hexdigest()
        return {} if is_same else {name: told}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    holds = made(folder)
    command = [sys.executable, "-m", "jnrrdz", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    watchdog = threading.Timer(600, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline().strip()
        yield Served(re.match(r"http://127.0.0.1:\d+/", line)[0], holds)
    finally:
        process.terminate()
        process.communicate(timeout=60)
        watchdog.cancel()


NAMES = [
    *("cog.tif", "mean.tif", "planar.tif", "strips.tif", "one.tif", "half.tif", "bits.tif", "complex.tif", "wide.tif"),
    *(
        "picture.jp2",
        "segment.ntf",
        "tree.n5",
        "volume.nrrd",
        "volume.jnrrd",
        "cog.json",
        "cog.parquet",
        "cells.ome.tif",
    ),
]


def test_a_file_of_each_format_is_served(served):
    with urllib.request.urlopen(f"{served.url}index.json") as answer:
        listed = {entry["name"]: entry["kind"] for entry in json.load(answer)["served"]}
    assert set(NAMES) == set(listed) == set(served.holds)
    assert len(set(listed.values())) == 7  # six formats, and manifests


def test_zarr_without_jnrrdz(served):
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("read_zarr.py"))]
    done = subprocess.run(command, input=served.asked(), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    for name, line in zip(served.holds, done.stdout.splitlines(), strict=True):
        assert served.differs(name, json.loads(line)) == {}


@pytest.mark.parametrize("name", NAMES)
def test_tensorstore(served, name):
    found = tensorstore.open({"driver": "zarr3", "kvstore": served.array(name)}).result().read().result()
    np.testing.assert_array_equal(found, served.holds[name])


def test_zarrita_in_node(served):
    if shutil.which("node") is None or not (CLIENTS / "node_modules" / "zarrita").is_dir():
        pytest.skip("Node with the packages of tests/clients is not there: bash tests/system.sh")
    command = ["node", str(CLIENTS / "read_zarrita.mjs")]
    done = subprocess.run(command, input=served.asked(), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    told = dict(zip(served.holds, map(json.loads, done.stdout.splitlines()), strict=True))
    assert "dataType" in told.pop("complex.tif")["error"]  # docs/howto/serve.md names what is not read
    if "error" in told["half.tif"]:
        assert "dataType" in told.pop("half.tif")["error"]  # before Node has Float16Array
    for name, one in told.items():
        assert served.differs(name, one) == {}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cells.ome.tif"])  # its bands are of one z each
def test_gdal_by_vsicurl(served, name):
    expected = served.holds[name]
    with rasterio.open(f'ZARR:"/vsicurl/{served.url}{name}":/{served.paths[name]}') as file:
        found = file.read()
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("name", NAMES)
def test_xarray_and_dask(served, name):
    group, _, variable = served.paths[name].rpartition("/")
    how = {"engine": "zarr", "group": group or None, "chunks": {}, "mask_and_scale": False}
    with xr.open_dataset(f"{served.url}{name}", **how) as dataset:
        assert dataset[variable].chunks is not None  # dask's
        np.testing.assert_array_equal(dataset[variable].compute().to_numpy(), served.holds[name])


def test_titiler_with_an_opener_of_two_lines(served):
    """docs/howto/titiler.md has the opener: titiler-xarray's own takes https alone."""
    pytest.importorskip("titiler.xarray", reason="tests/system.sh installs titiler-xarray")
    from fastapi import FastAPI  # noqa: PLC0415  what titiler brings
    from starlette.testclient import TestClient  # noqa: PLC0415  the same
    from titiler.xarray import io as titiler  # noqa: PLC0415  the same
    from titiler.xarray.factory import TilerFactory  # noqa: PLC0415  the same

    def opened(src_path, group=None, **_):
        return xr.open_dataset(src_path, engine="zarr", group=group, decode_coords="all")

    @attr.s
    class Plain(titiler.Reader):
        opener = attr.ib(default=opened)

    app = FastAPI()
    app.include_router(TilerFactory(reader=Plain).router)
    asked = {"url": f"{served.url}cog.tif", "group": "0", "variable": "data"}
    with TestClient(app) as client:
        info = client.get("/info", params=asked).json()
        assert info["bounds"] == [500000, 5000000 - 11000, 500000 + 9000, 5000000]
        window = "500000,4998000,502000,5000000"
        more = {"coord_crs": "epsg:32633", "dst_crs": "epsg:32633", "max_size": 1024}
        answer = client.get(f"/bbox/{window}.npy", params={**asked, **more})
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.content))[0], served.holds["cog.tif"][:200, :200])


def test_ome_zarr_lists_computed_levels(served):
    group = zarr.open_group(f"{served.url}cells.ome.tif", mode="r")
    image = ome_zarr_models.open_ome_zarr(group)
    assert type(image).__module__ == "ome_zarr_models.v05.image"
    (node,) = Reader(parse_url(f"{served.url}cells.ome.tif"))()
    assert [level.shape for level in node.data] == [(2, 3, 1100, 600), (2, 3, 550, 300), (2, 3, 275, 150)]
    np.testing.assert_array_equal(node.data[0].compute(), served.holds["cells.ome.tif"])
    scales = [dataset["coordinateTransformations"] for dataset in group.attrs["ome"]["multiscales"][0]["datasets"]]
    assert [steps[0]["scale"][-1] for steps in scales] == [0.5, 1.0, 2.0]
    assert [steps[1]["translation"][-1] for steps in scales[1:]] == [0.25, 0.75]


def test_geozarr_lists_computed_levels(served):
    tree = xr.open_datatree(f"{served.url}one.tif", engine="zarr", chunks={})
    layout = tree.attrs["multiscales"]["layout"]
    assert [(level["asset"], level.get("derived_from")) for level in layout][:2] == [("0", None), ("1", "0")]
    for level in layout:
        rows, columns = level["transform"]["scale"]
        assert tree[level["asset"]]["data"].shape == (-(-2100 // int(rows)), -(-1500 // int(columns)))
    assert not [name for name in tree.attrs if name.startswith("jnrrdz")]
