"""`refresh --prune`: sources that are gone are taken out, and what is left reads as rasterio has it."""

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.prune import pruned
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from tests import writers
from tests.writers import geotiff

DAYS = ("20240601", "20240611", "20240621")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(name):
    with rasterio.open(name) as file:
        return file.read(1)


def stack(name, days=DAYS, **options):
    """Write a file a day, and a stack of them."""
    for number, day in enumerate(days):
        writers.scene(f"s_{day}.tif", number, 200 + number)
    files = [f"s_{day}.tif" for day in days]
    jnrrdz.merge(files, name, concat_dim="time", coord_from=r"_(\d{8})", **options)


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_the_manifest_of_one_file_goes_with_it(name):
    writers.scene("a.tif", 1, 200)
    jnrrdz.index("a.tif", name)
    Path("a.tif").unlink()
    with pytest.raises(UnrepresentableError, match=r"a\.tif.*--prune \(prune=True\) takes out"):
        jnrrdz.refresh(name)
    found = jnrrdz.refresh(name, prune=True, dry_run=True)
    assert (len(found.gone), found.removed, Path(name).exists()) == (1, True, True)
    found = jnrrdz.refresh(name, prune=True)
    assert (found.changed, len(found.gone), found.removed, found.sources) == ((), 1, True, 1)
    assert not Path(name).exists()


def test_a_directory_keeps_what_is_not_the_manifests():
    writers.scene("a.tif", 1, 200)
    jnrrdz.index("a.tif", "a.parquet")
    Path("a.parquet/notes.txt").write_text("mine")
    Path("a.tif").unlink()
    jnrrdz.refresh("a.parquet", prune=True)
    assert [path.name for path in Path("a.parquet").rglob("*") if path.is_file()] == ["notes.txt"]


@pytest.mark.parametrize("form", ["json", "parquet", "icechunk"])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_member_of_a_stack(form, gone):
    name = f"year.{form}"
    stack(name)
    Path(f"s_{DAYS[gone]}.tif").unlink()
    made = jnrrdz.refresh(name, prune=True)
    assert [Path(url).name for url in made.gone] == [f"s_{DAYS[gone]}.tif"]
    assert not made.removed
    kept = [day for day in DAYS if day != DAYS[gone]]
    found = jnrrdz.open_dataset(name)
    assert found["time"].dt.strftime("%Y%m%d").values.tolist() == kept
    np.testing.assert_array_equal(found["data"].values, [read(f"s_{day}.tif") for day in kept])
    assert jnrrdz.verify(name).ok
    assert jnrrdz.refresh(name).changed == ()
    assert jnrrdz.verify(name).sources == len(kept)


def test_one_that_is_gone_and_one_that_changed():
    stack("year.json")
    Path(f"s_{DAYS[0]}.tif").unlink()
    writers.scene(f"s_{DAYS[2]}.tif", 9000, 222)
    made = jnrrdz.refresh("year.json", prune=True)
    assert (len(made.gone), len(made.changed)) == (1, 1)
    data = jnrrdz.open_dataset("year.json")["data"].values
    np.testing.assert_array_equal(data, [read(f"s_{day}.tif") for day in DAYS[1:]])


def test_of_an_axis_that_files_have_already_all_places_of_one_go():
    netcdf4 = pytest.importorskip("netCDF4")
    for month, size in enumerate((3, 2, 4)):
        with netcdf4.Dataset(f"m{month}.nc", "w") as file:
            file.createDimension("time", size)
            file.createDimension("x", 5)
            file.createVariable("time", "f8", ("time",))[:] = np.arange(size) + month * 10
            numbers = np.arange(size * 5).reshape(size, 5) + month * 100
            file.createVariable("t", "i4", ("time", "x"), chunksizes=(1, 5))[:] = numbers
    jnrrdz.merge(["m0.nc", "m1.nc", "m2.nc"], "all.json", concat_dim="time")
    Path("m1.nc").unlink()
    jnrrdz.refresh("all.json", prune=True)
    found = jnrrdz.open_dataset("all.json")
    parts = []
    for month in (0, 2):
        with netcdf4.Dataset(f"m{month}.nc") as file:
            parts.append(file["t"][:].filled())
    np.testing.assert_array_equal(found["t"].values, np.concatenate(parts))
    assert found.sizes["time"] == 7


def group_of(**arrays):
    """Return a stack of three places, of sources a, b and c, along the axis `name`."""
    children = {}
    for name, (shape, urls) in arrays.items():
        refs = ChunkRefs.from_rows(
            tuple(urls), np.ones(len(urls), int), np.zeros(len(urls), int), np.full(len(urls), 4), np.arange(len(urls))
        )
        names = ("name", "x")[-len(shape) :]
        children[name] = VirtualArray(shape, np.dtype("u1"), (1, 4)[-len(shape) :], (), refs, names)
    records = tuple(SourceRecord(url) for url in "abc")
    return VirtualGroup(children, {"name_labels": ["first", "second", "third"]}, records)


def test_labels_of_the_axis_are_cut_too():
    found = pruned(group_of(data=((3, 4), "abc")), ["b"], "name", is_cube=False)
    assert found.attributes["name_labels"] == ["first", "third"]
    assert [record.url for record in found.sources] == ["a", "c"]
    data = found.children["data"]
    assert (data.shape, [data.refs.ranges(chunk)[0][0] for chunk in range(2)]) == ((2, 4), ["a", "c"])


@pytest.mark.parametrize("arrays", [{"lat": ((4,), "b")}, {"mask": ((3, 4), "bbb")}])
def test_what_others_share_is_not_taken_from_them(arrays):
    with pytest.raises(UnrepresentableError, match="a source that is gone holds a part of what stays"):
        pruned(group_of(data=((3, 4), "abc"), **arrays), ["b"], "name", is_cube=False)


def test_a_stack_without_any_source_is_refused():
    stack("year.json")
    for day in DAYS:
        Path(f"s_{day}.tif").unlink()
    with pytest.raises(UnrepresentableError, match="none of its sources is there"):
        jnrrdz.refresh("year.json", prune=True)


PLACE = {"crs": "EPSG:32633", "nodata": 0, "compress": "deflate", "tiled": True, "blockxsize": 64, "blockysize": 64}


def scenes():
    """Write two tiles and two bands a day, and return all pixels by day, band."""
    random, pixels = np.random.default_rng(3), {}
    for day in DAYS:
        for band in ("B02", "B04"):
            whole = pixels[day, band] = random.integers(1, 9999, (128, 256)).astype("u2")
            for tile in (0, 1):
                transform = from_origin(600000 + tile * 1280, 5200000, 10, 10)
                part = whole[:, tile * 128 : (tile + 1) * 128]
                geotiff(f"T{tile}_{day}_{band}.tif", part, transform=transform, **PLACE)
    return pixels


def band_of(found, band):
    """Return a band of a cube, be it a variable of its own or a place along an axis."""
    return found[band] if band in found else found["data"].sel(band=band)


@pytest.mark.parametrize("form", ["json", "parquet", "icechunk"])
def test_a_cube(form):
    name = f"cube.{form}"
    pixels = scenes()
    files = sorted(str(path) for path in Path().glob("T*.tif"))
    jnrrdz.cube(files, name, time_from=r"_(\d{8})_", band_from=r"_(B\d\d)")
    gone = [f"T{tile}_{DAYS[1]}_{band}.tif" for tile in (0, 1) for band in ("B02", "B04")]
    gone.append(f"T1_{DAYS[2]}_B04.tif")
    for path in gone:
        Path(path).unlink()
    with pytest.raises(JnrrdzError, match="--prune"):
        jnrrdz.refresh(name)
    made = jnrrdz.refresh(name, prune=True)
    assert sorted(Path(url).name for url in made.gone) == sorted(gone)
    found = jnrrdz.open_dataset(name)
    assert found["time"].dt.strftime("%Y%m%d").values.tolist() == [DAYS[0], DAYS[2]]
    for band in ("B02", "B04"):
        for number, day in enumerate((DAYS[0], DAYS[2])):
            expected = pixels[day, band].copy()
            if (day, band) == (DAYS[2], "B04"):
                expected[:, 128:] = 0
            np.testing.assert_array_equal(band_of(found, band).fillna(0).values[number], expected)
    assert jnrrdz.verify(name).ok
    assert jnrrdz.refresh(name).changed == ()


def test_another_failure_is_not_taken_for_a_deletion(http_server):
    writers.scene("a.tif", 1, 200)
    http_server.files["/a.tif"] = Path("a.tif").read_bytes()
    jnrrdz.index(f"{http_server.url}/a.tif", "a.json")
    http_server.statuses["/a.tif"] = [403] * 9
    with pytest.raises(JnrrdzError, match="403"):
        jnrrdz.refresh("a.json", prune=True)
    assert Path("a.json").exists()
    http_server.statuses.clear()
    del http_server.files["/a.tif"]
    assert jnrrdz.refresh("a.json", prune=True).removed


def test_a_manifest_in_a_bucket(seaweed, bucket):
    writers.scene("a.tif", 1, 200)
    options = seaweed.options()
    for name in ("a", "b"):
        seaweed.put(bucket, f"in/{name}.tif", Path("a.tif").read_bytes())
    sources = f"s3://{bucket}/in/"
    for form in ("json", "parquet"):
        jnrrdz.batch(sources, f"s3://{bucket}/refs/{{stem}}.{form}", storage_options=options, target_options=options)
    seaweed.client.delete_object(Bucket=bucket, Key="in/a.tif")
    for form in ("json", "parquet"):
        refs = f"s3://{bucket}/refs/a.{form}"
        assert jnrrdz.refresh(refs, prune=True, storage_options=options, source_options=options).removed
    assert {key.partition("/")[2].split("/")[0] for key in seaweed.keys(bucket, "refs/")} == {"b.json", "b.parquet"}


def test_the_command_tells_what_it_took_out(tmp_path, monkeypatch):
    from click.testing import CliRunner  # noqa: PLC0415  the one test of the command here

    from jnrrdz.cli import cli  # noqa: PLC0415  the same

    monkeypatch.chdir(tmp_path)
    stack("year.json")
    writers.scene("a.tif", 1, 200)
    jnrrdz.index("a.tif", "a.json")
    Path("a.tif").unlink()
    Path(f"s_{DAYS[1]}.tif").unlink()
    run = CliRunner().invoke
    refused = run(cli, ["refresh", "a.json", "year.json"])
    assert refused.exit_code == 3
    assert refused.stderr.count("--prune") == 2
    told = run(cli, ["refresh", "--prune", "--dry-run", "a.json", "year.json"])
    assert "a.json: would be removed, its source is gone" in told.stderr
    assert "year.json: 1 of 3 sources gone" in told.stderr
    done = run(cli, ["refresh", "--prune", "--json", "a.json", "year.json"])
    assert done.exit_code == 0
    assert "a.json: removed, its source is gone" in done.stderr
    assert "year.json: 1 of 3 sources taken out, gone" in done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["removed"], first["written"], len(first["gone"])) == (True, True, 1)
    assert (second["removed"], second["written"], len(second["gone"])) == (False, True, 1)


@pytest.mark.parametrize("command", [["refresh"], ["verify", "--drift"]])
def test_the_first_night_has_no_manifests_yet(command, tmp_path, monkeypatch):
    from click.testing import CliRunner  # noqa: PLC0415  see above

    from jnrrdz.cli import cli  # noqa: PLC0415  the same

    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert run(cli, [*command, "refs/"]).exit_code != 0
    assert run(cli, [*command, "--if-any", "refs/"]).exit_code == 0
    Path("refs").mkdir()
    assert run(cli, [*command, "refs/"]).exit_code != 0
    assert run(cli, [*command, "--if-any", "refs/"]).exit_code == 0
    assert run(cli, [*command, "--if-any", "refs/*.json"]).exit_code == 0
