"""TIFFs that rasterio wrote, indexed with physical values: every reader sees rasterio's raw * scale + offset."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
import rasterio
import xarray as xr
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import UnrepresentableError, UnsupportedError
from tests import writers

EVERY = np.arange(65536, dtype="u2").reshape(1, 256, 256)
LANDSAT = (2.75e-5, -0.2)


def write(path, pixels, scales=None, offsets=None, *, nodata=None, overviews=(), **profile):  # noqa: PLR0913  what a file is made of
    bands, tiles = len(pixels), {"blockxsize": 96, "blockysize": 96}
    writers.geotiff(path, pixels, nodata=nodata, **writers.PLACE | writers.TILES | tiles | profile)
    with rasterio.open(path, "r+") as file:
        file.scales = scales or (1.0,) * bands
        file.offsets = offsets or (0.0,) * bands
        file.units = ("m",) * bands
        if overviews:
            file.build_overviews(overviews)
    return path


def physical(path, band, dtype, level=0):
    """Return a band as rasterio reads it, scaled in float64, nodata NaN, rounded once."""
    options = {"overview_level": level - 1} if level else {}
    with rasterio.open(path) as file, rasterio.open(path, **options) as level_file:
        raw = level_file.read(band)
        # rasterio tells the scale of an overview by its main image only
        values = raw.astype("f8") * file.scales[band - 1] + file.offsets[band - 1]
        if file.nodata is not None:
            values[raw == file.nodata] = np.nan
    return values.astype(dtype)


@pytest.fixture
def scene(tmp_path):
    return write(tmp_path / "scene.tif", EVERY, LANDSAT[:1], LANDSAT[1:], nodata=0, overviews=[2])


STOCK = """
import json, sys
import numpy as np, xarray as xr, zarr
fo, out = sys.argv[1:]
options = {"fo": fo}
found = {}
for level in ("0", "1"):
    with xr.open_dataset("reference://", engine="zarr", group=level, storage_options=options) as dataset:
        found[f"xarray_{level}"] = dataset["data"].values
        assert dataset["data"].attrs["units"] == "m"
group = zarr.open_group("reference://", mode="r", storage_options=options)
for level in ("0", "1"):
    found[f"zarr_{level}"] = group[f"{level}/data"][...]
assert not [name for name in sys.modules if name.startswith("jnrrdz.store")]
np.savez(out, **found)
"""


def test_stock_zarr_and_xarray_read_the_floats(scene, tmp_path):
    jnrrdz.index(scene, tmp_path / "scene.json", physical=True)
    command = [sys.executable, "-c", STOCK, str(tmp_path / "scene.json"), str(tmp_path / "found.npz")]
    subprocess.run(command, check=True, capture_output=True)
    with np.load(tmp_path / "found.npz") as found:
        assert len(found) == 4
        for name, values in found.items():
            level = int(name[-1])
            assert values.dtype == np.float32
            assert np.array_equal(values, physical(scene, 1, "f4", level), equal_nan=True)
            assert np.isnan(values).sum() == 1


@pytest.mark.parametrize("ending", [".json", ".parquet"])
def test_every_form_and_reader_of_ours(scene, tmp_path, ending):
    manifest = tmp_path / f"scene{ending}"
    jnrrdz.index(scene, manifest, physical=True)
    with xr.open_dataset(manifest) as found:
        assert np.array_equal(found["data"], physical(scene, 1, "f4"), equal_nan=True)
        assert not {"scale_factor", "add_offset", "_FillValue", "scales", "offsets"} & found["data"].attrs.keys()
        assert not {"scale_factor", "add_offset"} & found["data"].encoding.keys()
    with jnrrdz.open_datatree(manifest) as tree:
        assert np.array_equal(tree["1/data"], physical(scene, 1, "f4", level=1), equal_nan=True)
    assert np.array_equal(jnrrdz.open_group(manifest)["0/data"][...], physical(scene, 1, "f4"), equal_nan=True)


def test_opened_on_the_fly(scene):
    wanted = physical(scene, 1, "f4")
    assert np.array_equal(jnrrdz.open_group(scene, physical=True)["0/data"][...], wanted, equal_nan=True)
    with jnrrdz.open_dataset(scene, physical=True) as found:
        assert np.array_equal(found["data"], wanted, equal_nan=True)
    with xr.open_dataset(scene, engine="jnrrdz", physical=True) as found:
        assert np.array_equal(found["data"], wanted, equal_nan=True)
    with jnrrdz.open_datatree(scene, physical=True) as tree:
        assert np.array_equal(tree["1/data"], physical(scene, 1, "f4", level=1), equal_nan=True)
    group = jnrrdz.scan(scene)
    with jnrrdz.open_dataset(group, physical=True) as found:
        assert np.array_equal(found["data"], wanted, equal_nan=True)
    assert jnrrdz.open_group(group)["0/data"].dtype == np.uint16


def test_a_manifest_cannot_be_made_physical_when_it_is_opened(scene, tmp_path):
    jnrrdz.index(scene, tmp_path / "scene.json")
    with pytest.raises(UnsupportedError, match="physical=True"):
        jnrrdz.open_group(tmp_path / "scene.json", physical=True)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "i4", "u4", "f4", "f8"])
@pytest.mark.parametrize(("scale", "offset", "nodata"), [(0.1, -100.0, None), (0.01, 0.0, 7), (1.0, 0.0, 7)])
def test_types(tmp_path, dtype, scale, offset, nodata):
    rng = np.random.default_rng(3)
    pixels = rng.integers(-(2**31), 2**31, (1, 200, 200)).astype(dtype)
    pixels[0, :3] = 7
    path = write(tmp_path / "a.tif", pixels, [scale], [offset], nodata=nodata)
    with jnrrdz.open_dataset(path, physical=True) as found:
        values = found["data"].values
    assert np.array_equal(values, physical(path, 1, values.dtype), equal_nan=True)
    assert values.dtype == (np.float32 if pixels.itemsize < 4 or (dtype, scale) == ("f4", 1.0) else np.float64)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_bands_that_agree(tmp_path, interleave):
    pixels = np.concatenate([EVERY, EVERY[:, ::-1]])
    path = write(tmp_path / "a.tif", pixels, [0.1] * 2, [-5.0] * 2, nodata=3, interleave=interleave)
    with jnrrdz.open_dataset(path, physical=True) as found:
        for band in (1, 2):
            assert np.array_equal(found["data"][band - 1], physical(path, band, "f4"), equal_nan=True)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_bands_that_differ(tmp_path, interleave):
    pixels = np.concatenate([EVERY, EVERY[:, ::-1], EVERY])
    path = write(
        tmp_path / "a.tif", pixels, [0.1, 0.01, 1.0], [0.0, -5.0, 0.0], nodata=3, interleave=interleave, overviews=[2]
    )
    with jnrrdz.open_datatree(path, physical=True) as tree:
        for level in (0, 1):
            for band in (1, 2, 3):
                node = tree[str(level)]
                values = node["data"][band - 1] if interleave == "pixel" else node[f"data_{band}"]
                assert np.array_equal(values, physical(path, band, "f4", level), equal_nan=True)


@pytest.mark.parametrize(("nodata", "wanted"), [(None, 5.0), (0, np.nan)])
def test_missing_chunks(tmp_path, nodata, wanted):
    path = write(tmp_path / "a.tif", np.zeros((1, 256, 256), "u2"), [0.1], [5.0], nodata=nodata, SPARSE_OK=True)
    array = jnrrdz.scan(path, physical=True).children["data"]
    assert array.refs.counts.sum() == 0
    with jnrrdz.open_dataset(path, physical=True) as found:
        assert np.array_equal(found["data"], np.full((256, 256), wanted, "f4"), equal_nan=True)
        assert np.array_equal(found["data"], physical(path, 1, "f4"), equal_nan=True)


def test_dask_reads_the_same(scene):
    pytest.importorskip("dask")
    with jnrrdz.open_dataset(scene, physical=True, chunks={}) as found:
        assert np.array_equal(found["data"].compute(), physical(scene, 1, "f4"), equal_nan=True)


def test_refusal_names_source_and_array_and_writes_nothing(tmp_path):
    path = write(tmp_path / "a.tif", np.zeros((1, 20, 20), "i8"), [0.1], [5.0])
    with pytest.raises(UnrepresentableError, match="int64") as caught:
        jnrrdz.index(path, tmp_path / "a.json", physical=True)
    assert (caught.value.url, caught.value.field) == (str(path), "data")
    assert not (tmp_path / "a.json").exists()


def test_command_line(scene, tmp_path):
    manifest = tmp_path / "scene.json"
    result = CliRunner().invoke(cli, ["index", str(scene), "-o", str(manifest), "--physical"])
    assert result.exit_code == 0, result.stderr
    assert zarr.open_array(jnrrdz.open_group(manifest).store, path="0/data", mode="r").dtype == np.float32
    stdout = CliRunner().invoke(cli, ["index", str(scene), "-o", "-", "--physical"]).stdout
    assert stdout == manifest.read_text(encoding="utf-8")
    checked = CliRunner().invoke(cli, ["codecs", "--check", str(manifest), "--json"])
    assert checked.exit_code == 0
    assert {"cast_value", "scale_offset"} <= {row["codec"]["name"] for row in json.loads(checked.stdout)["codecs"]}


def test_codecs_says_that_the_casting_library_is_missing(scene, tmp_path, monkeypatch):
    jnrrdz.index(scene, tmp_path / "scene.json", physical=True)

    def find_spec(name, package=None):
        return None if name == "cast_value_rs" else real(name, package)

    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    checked = CliRunner().invoke(cli, ["codecs", "--check", str(tmp_path / "scene.json"), "--json"])
    assert checked.exit_code == 1
    rows = [row for row in json.loads(checked.stdout)["codecs"] if row["codec"]["name"] == "cast_value"]
    assert rows
    assert all("pip install cast-value-rs" in row["reason"] for row in rows)
