"""STAC that a batch and a cube write: valid, read by others, and the way back from it to a cube."""

import json
import tracemalloc
from datetime import UTC, datetime

import fsspec
import numpy as np
import odc.stac
import pyarrow.parquet as pq
import pystac
import pytest
import rasterio
import requests
import stac_geoparquet.arrow
import xarray as xr
from click.testing import CliRunner
from odc.geo.geobox import GeoBox
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.batches import run
from jnrrdz.cli import cli
from jnrrdz.commands.cube import cube
from jnrrdz.commands.stac_collection import CollectionWriter
from jnrrdz.errors import JnrrdzError
from tests import writers
from tests.stac_reader import validated

LEFT, TOP, SIDE = 600000, 5200000, 64
BANDS = ("B02", "B04")
DAYS = ("20240601", "20240611")


def scene(path, *, left=LEFT, bands=BANDS, seed=0, tags=None):
    random = np.random.default_rng(seed)
    pixels = random.integers(1, 9999, (len(bands), SIDE, SIDE)).astype("u2")
    place = {"crs": "EPSG:32633", "transform": from_origin(left, TOP, 10, 10), "nodata": 0}
    tiles = {"tiled": True, "blockxsize": 32, "blockysize": 32, "interleave": "band", "compress": "deflate"}
    with writers.gdal_file(path, pixels, **place, **tiles) as file:
        file.descriptions = bands
        file.update_tags(**(tags or {}))
    return path


@pytest.fixture
def archive(tmp_path):
    """Return a folder of two dates of two neighbouring tiles, each a file of two bands."""
    folder = tmp_path / "scenes"
    folder.mkdir()
    for number, day in enumerate(DAYS):
        for tile in range(2):
            left = LEFT + tile * SIDE * 10
            scene(folder / f"T{tile}_{day}T103000.tif", left=left, seed=2 * number + tile)
    return folder


RULE = r"_(\d{8}T\d{6})"


def written(archive, out, **options):
    refs = str(archive.parent / "refs" / "{stem}.json")
    choices = {"processes": 1, "time_from": RULE} | options
    return run.batch(str(archive), refs, stac_out=out, **choices)


def test_a_batch_writes_items_and_their_collection(archive, tmp_path):
    done = written(archive, tmp_path / "stac")
    assert (done.ok, done.items) == (4, 4)
    collection = pystac.Collection.from_file(str(tmp_path / "stac" / "collection.json"))
    validated(json.loads((tmp_path / "stac" / "collection.json").read_text()))
    items = list(collection.get_items())
    assert [item.id for item in items] == sorted(path.stem for path in archive.iterdir())
    for path in (tmp_path / "stac" / "items").iterdir():
        item = validated(json.loads(path.read_text()))
        assert item.collection_id == collection.id == "stac"
        assert item.properties["proj:code"] == "EPSG:32633"
        with rasterio.open(item.assets["image"].href) as file:
            opened = xr.open_dataset(
                item.assets["references"].href,
                **item.assets["references"].extra_fields["xarray:open_kwargs"],
                mask_and_scale=False,
            )
            np.testing.assert_array_equal(opened["data"], file.read())
    assert all(item.get_root().id == collection.id for item in items)
    (interval,) = collection.extent.temporal.intervals
    assert interval == [datetime(2024, 6, day, 10, 30, tzinfo=UTC) for day in (1, 11)]
    boxes = np.array([item.bbox for item in items])
    assert collection.extent.spatial.bboxes == [[*boxes[:, :2].min(0), *boxes[:, 2:].max(0)]]
    assert collection.summaries.to_dict() == {"gsd": {"minimum": 10, "maximum": 10}, "proj:code": ["EPSG:32633"]}
    assert collection.extra_fields.get("item_assets", collection.to_dict()["item_assets"])["image"]["bands"] == [
        {"name": band} for band in BANDS
    ]


@pytest.mark.filterwarnings("ignore")
def test_items_that_a_batch_wrote_become_the_cube_that_odc_stac_loads(archive, tmp_path):
    written(archive, tmp_path / "stac")
    items = list(pystac.Collection.from_file(str(tmp_path / "stac" / "collection.json")).get_items())
    grid = GeoBox((SIDE, 2 * SIDE), from_origin(LEFT, TOP, 10, 10), "EPSG:32633")
    names = {"image.1": "B02", "image.2": "B04"}  # as odc-stac calls the bands of one asset
    expected = odc.stac.load(items, bands=list(names), geobox=grid).rename(names)
    assert expected["B02"].dtype == "uint16"
    assert expected["B02"].odc.nodata == 0
    made = cube([], tmp_path / "c.parquet", stac=[str(tmp_path / "stac" / "collection.json")])
    assert (made.files, made.times, made.bands, made.missing) == (4, 2, BANDS, 0)
    got = xr.open_dataset(tmp_path / "c.parquet", engine="jnrrdz", mask_and_scale=False)["data"]
    for band in BANDS:
        np.testing.assert_array_equal(got.sel(band=band), expected[band])
    for axis in ("time", "y", "x"):
        np.testing.assert_array_equal(got[axis], expected[axis])


def lines(folder):
    written(folder / "scenes", folder / "all.ndjson", resume=True)
    return folder / "all.ndjson"


def items_of(folder):
    return [json.loads(line) for line in lines(folder).read_text().splitlines()]


def catalogue(folder):
    links = [{"rel": "child", "href": "./stac/collection.json", "type": "application/json"}]
    catalog = {
        "type": "Catalog",
        "stac_version": "1.1.0",
        "id": "root",
        "description": "of one",
        "links": links,
    }
    (folder / "catalog.json").write_text(json.dumps(catalog))
    return folder / "catalog.json"


def item_collection(folder):
    (folder / "items.json").write_text(json.dumps({"type": "FeatureCollection", "features": items_of(folder)}))
    return folder / "items.json"


def table(folder):
    reader = stac_geoparquet.arrow.parse_stac_ndjson_to_arrow(lines(folder))
    stac_geoparquet.arrow.to_parquet(reader, folder / "items.parquet")
    return folder / "items.parquet"


SOURCES = {
    "a collection": lambda folder: folder / "stac" / "collection.json",
    "an item": lambda folder: folder / "stac" / "items" / "T0_20240601T103000.json",
    "a catalogue": catalogue,
    "an item collection": item_collection,
    "lines": lines,
    "a table": table,
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_cube_is_made_of_every_form_of_stac(archive, tmp_path, name):
    written(archive, tmp_path / "stac")
    made = cube([], tmp_path / "c.json", stac=[str(SOURCES[name](tmp_path))])
    got = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)["data"]
    assert made.files == (1 if name == "an item" else 4)
    for path in archive.glob("T0*0601*" if name == "an item" else "*"):
        left = SIDE if path.name.startswith("T1") else 0
        with rasterio.open(path) as file:
            found = got.sel(time=path.stem.partition("_")[2])[..., left : left + SIDE]
            np.testing.assert_array_equal(found.squeeze(), file.read())


@pytest.mark.usefixtures("archive")
def test_lines_are_items_that_stac_geoparquet_reads(tmp_path):
    table(tmp_path)
    rows = list(stac_geoparquet.arrow.stac_table_to_items(pq.read_table(tmp_path / "items.parquet")))
    items = {item["id"]: item for item in items_of(tmp_path)}
    assert len(rows) == len(items) == 4
    for row in rows:
        validated({**row, "stac_extensions": list(row["stac_extensions"])})
        item = items[row["id"]]
        assert row["assets"]["references"]["href"] == item["assets"]["references"]["href"]
        assert row["properties"]["proj:code"] == "EPSG:32633"
        assert row["properties"]["proj:transform"] == item["properties"]["proj:transform"]
    collection = json.loads((tmp_path / "all.collection.json").read_text())
    assert validated(collection).id == "all"
    assert {link["rel"]: link["href"] for link in collection["links"]}["items"] == "./all.ndjson"


def test_a_time_that_is_not_known_fails_its_source_alone(archive, tmp_path):
    scene(archive / "undated.tif")
    done = written(archive, tmp_path / "stac")
    assert (done.ok, done.failed, done.items) == (4, 1, 4)
    assert "finds nothing in its name" in done.failures[0]["message"]
    assert not (tmp_path / "refs" / "undated.json").exists()
    again = written(archive, tmp_path / "stac", resume=True, time_from="modified")
    assert (again.ok, again.skipped, again.items) == (1, 4, 5)


def test_resumed_items_are_those_of_the_manifests(archive, tmp_path):
    written(archive, tmp_path / "one.ndjson")
    written(archive, tmp_path / "two.ndjson", resume=True)
    first, second = (
        sorted((json.loads(line) for line in (tmp_path / name).read_text().splitlines()), key=lambda item: item["id"])
        for name in ("one.ndjson", "two.ndjson")
    )
    for one, two in zip(first, second, strict=True):
        assert {**one, "collection": "", "links": []} == {**two, "collection": "", "links": []}


def test_what_is_there_is_replaced_if_jnrrdz_wrote_it_and_that_is_asked_for(archive, tmp_path):
    written(archive, tmp_path / "stac")
    with pytest.raises(JnrrdzError, match="exists already"):
        written(archive, tmp_path / "stac", overwrite=False)
    written(archive, tmp_path / "stac", overwrite=True)
    for name in ("stac/collection.json", "stac/items/T0_20240601T103000.json"):
        (tmp_path / name).write_text('{"type": "Feature", "stac_version": "1.1.0", "id": "mine"}')
        with pytest.raises(JnrrdzError, match="jnrrdz did not make it"):
            written(archive, tmp_path / "stac", overwrite=True)
        assert "mine" in (tmp_path / name).read_text()
        (tmp_path / name).unlink()


def test_what_others_said_of_an_item_is_kept(archive, tmp_path):
    asset = {"href": str(archive / "T0_20240601T103000.tif"), "type": "image/tiff", "roles": ["data"]}
    said = {"datetime": "2020-02-03T04:05:06Z", "eo:cloud_cover": 12.5}
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "june", "properties": said, "assets": {"visual": asset}}
    (tmp_path / "june.json").write_text(json.dumps(item | {"links": [], "geometry": None}))
    out = str(tmp_path / "{id}-{asset}.refs.json")
    run.batch(
        (), out, selection=jnrrdz.Selection((), stac=[str(tmp_path / "june.json")]), stac_out=tmp_path / "o.ndjson"
    )
    (line,) = (tmp_path / "o.ndjson").read_text().splitlines()
    made = json.loads(line)
    validated(made)
    assert made["id"] == "june-visual.refs"
    assert made["properties"]["datetime"] == "2020-02-03T04:05:06Z"
    assert made["properties"]["eo:cloud_cover"] == 12.5
    assert set(made["assets"]) == {"visual", "references"}


def test_relative_urls_lead_from_the_item(archive, tmp_path):
    written(archive, tmp_path / "stac", relative=True)
    path = tmp_path / "stac" / "items" / "T0_20240601T103000.json"
    hrefs = {key: asset["href"] for key, asset in json.loads(path.read_text())["assets"].items()}
    assert hrefs == {
        "image": "../../scenes/T0_20240601T103000.tif",
        "references": "../../refs/T0_20240601T103000.json",
    }
    assert pystac.Item.from_file(str(path)).assets["image"].get_absolute_href() == str(
        archive / "T0_20240601T103000.tif"
    )


def test_processes_give_the_same_items(archive, tmp_path):
    written(archive, tmp_path / "stac", processes=2, jobs=2)
    assert len(list((tmp_path / "stac" / "items").iterdir())) == 4


WRONG = {
    "a table": (["--stac-out", "a.parquet"], "items go into a folder"),
    "a rule without items": (["--datetime", "2024-01-01"], "--stac-out writes some"),
    "no time": (["--stac-out", "s", "--datetime", "noon"], "'noon' is no time"),
    "one output": (["--stac-out", "s", "--concat-dim", "time"], "jnrrdz cube --stac-out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_told_before_anything_is_read(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, words = WRONG[name]
    out = "refs.json" if name == "one output" else "{stem}.json"
    result = CliRunner().invoke(cli, ["batch", "a.tif", "-o", out, *options])
    assert result.exit_code == 2
    assert words in result.stderr


def test_the_command_says_how_many_items_there_are(archive, tmp_path):
    out = ["-o", str(tmp_path / "refs" / "{stem}.json"), "--stac-out", str(tmp_path / "stac")]
    rules = ["--time-from", RULE, "--collection", "june"]
    result = CliRunner().invoke(cli, ["batch", str(archive), *out, *rules])
    assert result.exit_code == 0, result.stderr
    assert "4 STAC items -> " in result.stderr
    assert json.loads((tmp_path / "stac" / "collection.json").read_text())["id"] == "june"


@pytest.mark.parametrize("name", ["c.json", "c.parquet", "c.icechunk"])
def test_a_cube_is_an_asset_of_a_collection(archive, tmp_path, name):
    options = {"time_from": RULE, "stac_out": str(tmp_path / "cube.stac.json")}
    cube([str(path) for path in archive.iterdir()], tmp_path / name, **options)
    document = json.loads((tmp_path / "cube.stac.json").read_text())
    collection = validated(document)
    asset = collection.assets["references"]
    assert asset.roles == ["data", "references", "virtual"]
    opened = xr.open_dataset(asset.href, **asset.extra_fields["xarray:open_kwargs"], mask_and_scale=False)
    dimensions = asset.extra_fields["cube:dimensions"]
    assert list(dimensions) == list(opened["data"].dims)
    assert dimensions["band"]["values"] == list(BANDS)
    assert dimensions["time"]["extent"] == ["2024-06-01T10:30:00Z", "2024-06-11T10:30:00Z"]
    assert dimensions["x"]["extent"] == [LEFT, LEFT + 2 * SIDE * 10]
    assert dimensions["x"]["reference_system"] == 32633
    with rasterio.open(archive / "T1_20240611T103000.tif") as file:
        np.testing.assert_array_equal(opened["data"][1, :, :, SIDE:], file.read())
    assert document["extent"]["temporal"]["interval"] == [["2024-06-01T10:30:00Z", "2024-06-11T10:30:00Z"]]
    west, south, east, north = document["extent"]["spatial"]["bbox"][0]
    corners = rasterio.warp.transform_bounds(
        "EPSG:32633", "EPSG:4326", LEFT, TOP - SIDE * 10, LEFT + 2 * SIDE * 10, TOP
    )
    np.testing.assert_allclose([west, south, east, north], corners, atol=1e-4)
    item = jnrrdz.stac_item(tmp_path / name)
    validated(item)
    assert item["properties"]["start_datetime"] == "2024-06-01T10:30:00Z"
    assert set(item["assets"]) == {"references"}


def test_each_resolution_of_a_cube_is_an_asset_with_its_group(archive, tmp_path):
    coarse = tmp_path / "coarse_20240601T103000.tif"
    pixels = np.full((1, 32, 32), 3, "u2")
    place = {"crs": "EPSG:32633", "transform": from_origin(LEFT, TOP, 20, 20), "nodata": 0}
    tiles = {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": "deflate"}
    writers.geotiff(coarse, pixels, **place, **tiles)
    options = {"time_from": RULE, "stac_out": str(tmp_path / "cube.stac.json"), "collection": "both"}
    cube([*map(str, archive.iterdir()), str(coarse)], tmp_path / "c.json", **options)
    collection = validated(json.loads((tmp_path / "cube.stac.json").read_text()))
    assert collection.id == "both"
    assert set(collection.assets) == {"10m", "20m"}
    asset = collection.assets["20m"]
    opened = xr.open_dataset(asset.href, **asset.extra_fields["xarray:open_kwargs"], mask_and_scale=False)
    np.testing.assert_array_equal(opened["data"][0], pixels)


def test_urls_keep_what_a_manifest_keeps_and_nothing_else(archive, tmp_path, nginx):
    (nginx.files / "a.tif").write_bytes((archive / "T0_20240601T103000.tif").read_bytes())
    url = f"{nginx.url}/a.tif?id=7&token=0123456789abcdef"
    options = {"keep_query": ["id"], "datetime": "2024-06-01", "stac_out": tmp_path / "o.ndjson"}
    run.batch([url], str(tmp_path / "{stem}.json"), allow=["*"], **options)
    (item,) = [json.loads(line) for line in (tmp_path / "o.ndjson").read_text().splitlines()]
    assert item["assets"]["image"]["href"] == f"{nginx.url}/a.tif?id=7"
    assert "0123456789abcdef" not in json.dumps(item)
    assert requests.get(item["assets"]["image"]["href"], timeout=10).ok
    assert jnrrdz.info(tmp_path / "a.json")["sources"][0]["size"] == item["assets"]["image"]["file:size"]


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
def test_a_manifest_of_a_remote_image_opens_by_its_asset(archive, tmp_path, nginx, name):
    source = nginx.files / "a.tif"
    source.write_bytes((archive / "T0_20240601T103000.tif").read_bytes())
    jnrrdz.index(f"{nginx.url}/a.tif", tmp_path / name, allow=["*"])
    item = validated(jnrrdz.stac_item(tmp_path / name, datetime="2024-06-01"))
    assert item.assets["image"].href == f"{nginx.url}/a.tif"
    asset = item.assets["references"]
    opened = xr.open_dataset(asset.href, **asset.extra_fields["xarray:open_kwargs"], mask_and_scale=False)
    with rasterio.open(archive / "T0_20240601T103000.tif") as file:
        np.testing.assert_array_equal(opened["data"], file.read())
    assert requests.get(item.assets["image"].href, timeout=10).ok


def test_items_go_where_outputs_go(archive):
    for ending in ("", ".ndjson"):
        done = written(archive, f"memory://catalogues/june{ending}", resume=True)
        assert (done.failed, done.items) == (0, 4)
    files = fsspec.filesystem("memory")
    collection = json.loads(files.cat_file("/catalogues/june/collection.json"))
    validated(collection)
    hrefs = [link["href"] for link in collection["links"] if link["rel"] == "item"]
    items = [json.loads(files.cat_file(f"/catalogues/june/{href.removeprefix('./')}")) for href in hrefs]
    lines = [json.loads(line) for line in files.cat_file("/catalogues/june.ndjson").splitlines()]
    assert [item["id"] for item in items] == sorted(item["id"] for item in lines)
    assert json.loads(files.cat_file("/catalogues/june.collection.json"))["id"] == "june"


def test_memory_grows_by_names_alone(tmp_path):
    item = jnrrdz.stac_item(scene(tmp_path / "a.tif"), datetime="2024-06-01", manifest=tmp_path / "a.json")
    size = len(json.dumps(item))
    catalog = CollectionWriter(str(tmp_path / "all.ndjson"))
    catalog.add(0, item)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, 2001):
        catalog.add(number, {**item, "id": f"item-{number:06}"})
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    catalog.finish()
    assert kept < 2000 * 300 < 2000 * size / 5
    assert len((tmp_path / "all.ndjson").read_text().splitlines()) == 2001


def test_lines_of_a_batch_that_was_interrupted_are_not_there(archive, tmp_path):
    def interrupt(_, so_far):
        if so_far.total > 2:  # lines are written already
            raise KeyboardInterrupt

    folder = tmp_path / "stac"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt) as caught:
        written(archive, folder / "all.ndjson", on_outcome=interrupt)
    assert list(folder.iterdir()) == [], caught  # what is kept of the error keeps what was open
