"""Cubes of STAC items, of names, of manifests: what odc-stac loads of the same, what is missing, shared, refused."""

import json

import numpy as np
import odc.stac
import pytest
import rasterio
import rasterio.merge
import xarray as xr
from click.testing import CliRunner
from odc.geo.geobox import GeoBox
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz import cube
from jnrrdz.cli import cli
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from tests import writers
from tests.commands.archive import BANDS, DATES, LEFT, SIDE, TOP, items, saved, write

pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul instead")  # of affine, which rioxarray calls


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
    with pytest.raises(UnrepresentableError, match=r"1 pairs of files have the same pixels: .*a_.* and .*b_.*--latest"):
        cube(twins, tmp_path / "c.json", time_from=r"_(\d{8})")
    made = cube(twins, tmp_path / "c.json", time_from=r"_(\d{8})", by=("modified",))
    assert len(made.twins) == 1
    assert (xr.open_dataset(tmp_path / "c.json")["data"] == 6).all()
    cube(twins[::-1], tmp_path / "d.json", time_from=r"_(\d{8})", by=("modified",))
    assert (xr.open_dataset(tmp_path / "d.json")["data"] == 6).all()


def test_the_latest_and_the_least_cloudy_of_items_are_taken(tmp_path):
    """Three items of one time and place: each rule takes the one that the items' properties say."""
    found = []
    for number, (updated, cloud) in enumerate([("2024-07-03", 50), ("2024-07-09", 70), ("2024-07-05", 3)]):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (item,) = items(folder, DATES[:1], tiles=1)
        item.id = f"item{number}"
        item.properties |= {"updated": f"{updated}T00:00:00Z", "eo:cloud_cover": cloud}
        found.append(item)
        for asset in item.assets.values():
            with rasterio.open(asset.href, "r+") as file:
                file.write(np.full(file.shape, number + 1, "u2"), 1)
    source = saved(tmp_path, found)
    for rules, taken in ((["--latest"], 2), (["--by", "datetime,cloud"], 3), (["--by", "cloud"], 3)):
        run = CliRunner().invoke(cli, ["cube", "--stac", source, "-o", str(tmp_path / "c.json"), "--overwrite", *rules])
        assert run.exit_code == 0, run.output
        assert "8 with the pixels of another" in run.stderr
        assert (xr.open_dataset(tmp_path / "c.json", group="10m", mask_and_scale=False)["data"] == taken).all()
    run = CliRunner().invoke(cli, ["cube", "--stac", source, "-o", str(tmp_path / "d.json")])
    assert (run.exit_code, "--latest or --by says which are taken" in run.stderr) == (1, True)


@pytest.mark.parametrize("order", [1, -1])
def test_neighbours_that_overlap_by_whole_chunks_are_resolved_where_they_do(tmp_path, order):
    write(tmp_path / "a_20240601.tif", np.full((128, 128), 1, "u2"), 10)
    write(tmp_path / "b_20240601.tif", np.full((128, 192), 2, "u2"), 10, left=LEFT + 640)
    both = [str(tmp_path / "a_20240601.tif"), str(tmp_path / "b_20240601.tif")][::order]
    rules = {"time_from": r"_(\d{8})"}
    with pytest.raises(UnrepresentableError, match=r"1 pairs of files have the same pixels"):
        cube(both, tmp_path / "c.json", **rules)
    made = cube(both, tmp_path / "c.json", by=("modified",), **rules)
    found = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)
    assert (len(made.twins), made.missing) == (1, 0)
    with rasterio.open(both[0]) as one, rasterio.open(both[1]) as other:
        merged, place = rasterio.merge.merge(sorted((one, other), key=lambda file: file.name), method="last")
    np.testing.assert_array_equal(found["data"][0], merged)
    assert found.rio.transform() == place


def test_the_metadata_tell_the_time(tmp_path):
    for day in (3, 1):
        write(tmp_path / f"{day}.tif", np.full((128, 128), day, "u2"), 10)
        with rasterio.open(tmp_path / f"{day}.tif", "r+") as file:
            file.update_tags(TIFFTAG_DATETIME=f"2024:06:0{day} 10:20:30")
    cube([str(tmp_path / "3.tif"), str(tmp_path / "1.tif")], tmp_path / "c.json")
    found = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)
    expected = np.array(["2024-06-01T10:20:30", "2024-06-03T10:20:30"], "M8[ns]")
    np.testing.assert_array_equal(found["time"], expected)
    np.testing.assert_array_equal(found["data"][:, 0, 0, 0], [1, 3])
    write(tmp_path / "none.tif", np.full((128, 128), 1, "u2"), 10)
    with pytest.raises(
        UnrepresentableError, match=r"no time at which it was taken; --time-from REGEX reads names"
    ) as refused:
        cube([str(tmp_path / "none.tif")], tmp_path / "d.json")
    assert "none.tif" in str(refused.value)
    with pytest.raises(UnrepresentableError, match=r"--time-from .* finds nothing in its name"):
        cube([str(tmp_path / "none.tif")], tmp_path / "d.json", time_from=r"_(\d{8})_")


@pytest.mark.filterwarnings("ignore::jnrrdz.ScaleWarning")
def test_files_of_many_bands_keep_what_is_said_of_each(tmp_path):
    """Two files of two bands and one of a third: names, units, scales, offsets and nodata as rasterio reads them."""
    random = np.random.default_rng(3)
    names = {"ab": ("red", "nir"), "c": ("swir",)}
    for day in (1, 2):
        for group, bands in names.items():
            pixels = random.integers(1, 5000, (len(bands), 64, 64)).astype("i2")
            pixels[:, :8] = -99
            options = {"interleave": "band", "nodata": -99, **writers.PLACE, **writers.TILES}
            path = writers.geotiff(tmp_path / f"{group}_2024060{day}.tif", pixels, **options)
            with rasterio.open(path, "r+") as file:
                file.descriptions, file.units = bands, ["1"] * len(bands)
                file.scales = [0.1 * (1 + ord(name[0]) % 5) for name in bands]
                file.offsets = [float(len(name)) for name in bands]
    files = sorted(str(path) for path in tmp_path.glob("*.tif"))
    made = cube(files, tmp_path / "c.json", time_from=r"_(\d{8})")
    assert (made.bands, made.missing) == (("nir", "red", "swir"), 0)
    found = xr.open_dataset(tmp_path / "c.json")
    raw = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)["data"]
    assert found.rio.crs.to_epsg() == 32633
    assert raw.rio.nodata == -99
    for day in (1, 2):
        for group, bands in names.items():
            with rasterio.open(tmp_path / f"{group}_2024060{day}.tif") as file:
                for number, band in enumerate(bands):
                    one = raw.sel(time=f"2024-06-0{day}", band=band).squeeze()
                    np.testing.assert_array_equal(one, file.read(number + 1))
                    assert one["scale"] == file.scales[number]
                    assert one["offset"] == file.offsets[number]
                    assert one["unit"] == file.units[number]
                    np.testing.assert_allclose(found["x"], [file.xy(0, column)[0] for column in range(64)])
                    np.testing.assert_allclose(found["y"], [file.xy(row, 0)[1] for row in range(64)])


def test_scales_that_differ_between_dates_are_refused(tmp_path):
    for day in (1, 2):
        write(tmp_path / f"a_2024060{day}.tif", np.full((64, 64), 1, "u2"), 10)
        with rasterio.open(tmp_path / f"a_2024060{day}.tif", "r+") as file:
            file.scales, file.offsets = [0.5], [float(day)]
    files = [str(tmp_path / f"a_2024060{day}.tif") for day in (1, 2)]
    with pytest.raises(UnrepresentableError, match=r"offsets of band 1 is 1\.0, and 2\.0 in .*a_20240602"):
        cube(files, tmp_path / "c.json", time_from=r"_(\d{8})")


def test_each_grid_in_its_group_is_what_rasterio_reads(tmp_path):
    places = {"a": {}, "b": {"crs": "EPSG:32634"}, "c": {"left": LEFT + 5}}
    for number, (name, place) in enumerate(places.items()):
        write(tmp_path / f"{name}_20240601.tif", np.full((128, 128), number + 1, "u2"), 10, **place)
    files = [str(tmp_path / f"{name}_20240601.tif") for name in places]
    made = cube(files, tmp_path / "c.json", time_from=r"_(\d{8})", group_by_grid=True)
    tree = xr.open_datatree(tmp_path / "c.json", engine="jnrrdz", mask_and_scale=False)
    for file, group in zip(files, made.groups, strict=True):
        with rasterio.open(file) as source:
            found = tree[group].to_dataset()
            np.testing.assert_array_equal(found["data"][0], source.read())
            assert (found.rio.crs, found.rio.transform()) == (source.crs, source.transform)


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
        cube(both, tmp_path / "c.json", time_from=r"_(\d{8})")
    assert "odc-stac" in str(refused.value)
    if "edge" not in name:
        made = cube(both, tmp_path / "c.json", time_from=r"_(\d{8})", group_by_grid=True)
        assert len(made.groups) == 2


def test_refresh_leaves_a_cube_as_it_is_and_says_what_helps(tmp_path):
    for day in (1, 2):
        write(tmp_path / f"a_2024060{day}.tif", np.full((64, 64), day, "u2"), 10)
    files = [str(tmp_path / f"a_2024060{day}.tif") for day in (1, 2)]
    for name in ("c.json", "copy.json"):
        if name == "c.json":
            cube(files, tmp_path / name, time_from=r"_(\d{8})")
        else:
            jnrrdz.convert(tmp_path / "c.json", tmp_path / name)
        before = (tmp_path / name).read_bytes()
        with (tmp_path / "a_20240602.tif").open("ab") as file:
            file.write(b"longer")
        with pytest.raises(UnrepresentableError, match=r"a cube, .* jnrrdz cube --overwrite makes it anew"):
            jnrrdz.refresh(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_nothing_is_made_of_nothing(tmp_path):
    with pytest.raises(JnrrdzError, match="no image"):
        cube([str(tmp_path / "gone.tif")], tmp_path / "c.json", time_from="(x)")
    assert CliRunner().invoke(cli, ["cube", "-o", "x.json"]).exit_code == 2
