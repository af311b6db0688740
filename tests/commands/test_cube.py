"""Cubes of STAC items, of names, of manifests: what odc-stac loads of the same, what is missing, shared, refused."""

import json

import numpy as np
import odc.stac
import pytest
import rasterio
import xarray as xr
from click.testing import CliRunner
from odc.geo.geobox import GeoBox
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz import CubeOptions, cube
from jnrrdz.cli import cli
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from tests.commands.archive import BANDS, LEFT, SIDE, TOP, items, saved, write


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Return a folder of 24 files less one, and their items."""
    folder = tmp_path_factory.mktemp("archive")
    found = items(folder)
    (folder / "T1_20240611_B04.tif").unlink()
    return folder, found


@pytest.mark.parametrize("name", ["c.json", "c.parquet"])
@pytest.mark.filterwarnings("ignore")
def test_a_cube_is_what_odc_stac_loads(archive, tmp_path, name):
    _, found = archive
    made = cube([], tmp_path / name, stac=[saved(tmp_path, found)])
    assert (made.files, made.times, made.groups) == (23, 3, ("10m", "20m"))
    assert [path.rpartition("/")[2] for path in made.absent] == ["T1_20240611_B04.tif"]
    assert made.missing == 16
    for resolution in (10, 20):
        bands = [band for band, own in BANDS.items() if own == resolution]
        grid = GeoBox(
            (SIDE // resolution, 2 * SIDE // resolution), from_origin(LEFT, TOP, resolution, resolution), "EPSG:32633"
        )
        expected = odc.stac.load(found, bands=bands, geobox=grid, fail_on_error=False)
        got = xr.open_dataset(tmp_path / name, engine="jnrrdz", group=f"{resolution}m", mask_and_scale=False)
        assert got["data"].dims == ("time", "band", "y", "x")
        assert got["band"].values.tolist() == bands
        for axis in ("time", "y", "x"):
            np.testing.assert_array_equal(got[axis], expected[axis])
        for band in bands:
            np.testing.assert_array_equal(got["data"].sel(band=band), expected[band])
        assert got.rio.crs.to_epsg() == expected.odc.crs.epsg == 32633
        assert got["data"].rio.nodata == 0
    gap = xr.open_dataset(tmp_path / name, engine="jnrrdz", group="10m")["data"].sel(band="B04").isel(time=1)
    assert np.isnan(gap[:, SIDE // 10 :]).all()
    assert not np.isnan(gap[:, : SIDE // 10]).any()
    assert jnrrdz.verify(tmp_path / name).ok


def test_names_tell_times_and_bands(archive, tmp_path):
    folder, _ = archive
    rules = ["--time-from", r"_(\d{8})_", "--band-from", r"_(B\d+)\.tif"]
    run = CliRunner().invoke(
        cli, ["cube", f"{folder}/T0_*_B0[24].tif", "-o", str(tmp_path / "c.json"), *rules, "--json"]
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["bands"] == ["B02", "B04"]
    found = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)
    for band in ("B02", "B04"):
        with rasterio.open(folder / f"T0_20240611_{band}.tif") as source:
            np.testing.assert_array_equal(found["data"].sel(time="2024-06-11", band=band).squeeze(), source.read(1))


@pytest.fixture
def twins(tmp_path):
    """Return two files of one place and time, and the pixels of the second."""
    for number, name in enumerate(("a_20240601.tif", "b_20240601.tif")):
        write(tmp_path / name, np.full((128, 128), 5 + number, "u2"), 10)
    return [str(tmp_path / "a_20240601.tif"), str(tmp_path / "b_20240601.tif")]


def test_files_with_the_same_pixels_need_a_rule(twins, tmp_path):
    options = CubeOptions(time_from=r"_(\d{8})")
    with pytest.raises(UnrepresentableError, match=r"1 pairs of files have the same pixels: .*a_.* and .*b_.*--latest"):
        cube(twins, tmp_path / "c.json", options)
    made = cube(twins, tmp_path / "c.json", CubeOptions(time_from=r"_(\d{8})", by=("modified",)))
    assert len(made.twins) == 1
    assert (xr.open_dataset(tmp_path / "c.json")["data"] == 6).all()
    cube(twins[::-1], tmp_path / "d.json", CubeOptions(time_from=r"_(\d{8})", by=("modified",)))
    assert (xr.open_dataset(tmp_path / "d.json")["data"] == 6).all()


OTHERS = {
    "another system": ({"crs": "EPSG:32634"}, "coordinate systems"),
    "beside the grid": ({"left": LEFT + 5}, "beside whole chunks"),
    "beside the chunks": ({"left": LEFT + 320}, "beside whole chunks"),
    "an edge in a chunk": ({"left": LEFT + 1920}, "ends within a chunk"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_grids_are_refused_in_words_or_put_apart(tmp_path, name):
    other, words = OTHERS[name]
    side = 150 if "edge" in name else 128
    write(tmp_path / "a_20240601.tif", np.full((128, side), 1, "u2"), 10)
    write(tmp_path / "b_20240611.tif", np.full((128, 128), 2, "u2"), 10, **other)
    both = [str(tmp_path / "a_20240601.tif"), str(tmp_path / "b_20240611.tif")]
    with pytest.raises(UnrepresentableError, match=words) as refused:
        cube(both, tmp_path / "c.json", CubeOptions(time_from=r"_(\d{8})"))
    assert "odc-stac" in str(refused.value)
    if "edge" not in name:
        made = cube(both, tmp_path / "c.json", CubeOptions(time_from=r"_(\d{8})", group_by_grid=True))
        assert len(made.groups) == 2


def test_nothing_is_made_of_nothing(tmp_path):
    with pytest.raises(JnrrdzError, match="no image"):
        cube([str(tmp_path / "gone.tif")], tmp_path / "c.json", CubeOptions(time_from="(x)"))
    assert CliRunner().invoke(cli, ["cube", "-o", "x.json"]).exit_code == 2
