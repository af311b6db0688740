"""`jnrrdz.info`: the document that its schema describes, of every format, and what it says against what was written."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import rasterio
import rasterio.warp
import tifffile
import zarr
from click.testing import CliRunner
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.transform import Affine

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.core.segments import moment
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "info.schema.json").read_text())
GREY = np.arange(60 * 80, dtype="u1").reshape(60, 80)


def described(path, **options):
    """Return what is said of a source, which is as the schema has it, and JSON."""
    found = jnrrdz.info(path, **options)
    jsonschema.validate(found, SCHEMA)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def only(path, **options):
    (image,) = described(path, **options)["images"]
    return image


def n5(folder):
    """Write a container with two levels of a volume, as an independent reading of the specification has it."""
    for name, side in (("s0", 4), ("s1", 2)):
        scale = {"units": ["nm"] * 3, "resolution": [float(16 // side)] * 3, "axes": ["x", "y", "z"]}
        level = writers.n5_attributes(folder / "vol" / name, **writers.n5_document([side] * 3, [side] * 3, **scale))
        (level / "0" / "0").mkdir(parents=True)
        (level / "0" / "0" / "0").write_bytes(writers.n5_block(np.zeros([side] * 3, "u1")))
    writers.n5_attributes(folder / "vol")
    return writers.n5_attributes(folder, n5="4.0.0")


def ome(path):
    metadata = {
        "axes": "ZCYX",
        "SignificantBits": 12,
        "PhysicalSizeX": 0.25,
        "PhysicalSizeXUnit": "µm",
        "Name": "cells",
    }
    metadata |= {"PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm", "PhysicalSizeZ": 2.0, "PhysicalSizeZUnit": "µm"}
    metadata |= {"Channel": {"Name": ["DAPI", "GFP"], "Color": [65535, 16711935]}}
    tifffile.imwrite(path, np.zeros((3, 2, 60, 80), "u2"), metadata=metadata)
    return path


def nitf(path):
    header = {"FTITLE": "A town", "FSCLAS": "U", "OSTAID": "HERE", "FDT": "20260102030405"}
    first = {**header, "IID2": "North", "ISCLAS": "U", "IDATIM": "20260102000000"}
    second = {"IDLVL": 2, "IALVL": 1, "ILOCROW": 30, "ILOCCOL": 40}
    return writers.nitf_segments(path, (GREY, first), (GREY, second))


def jp2(path):
    options = {"REVERSIBLE": "YES", "PROGRESSION": "RPCL", "BLOCKXSIZE": 128, "BLOCKYSIZE": 64, "RESOLUTIONS": 3}
    return writers.gdal_image(path, np.tile(GREY, (2, 2)), driver="JP2OpenJPEG", **options, **writers.PLACE)


def nrrd(path):
    header = writers.nrrd_of(GREY, version=5, spacings="2 3", units='"mm" "mm"')
    path.write_bytes(header + GREY.tobytes())
    return path


def jnrrd(path):
    np.save(path.with_suffix(".npy"), GREY)
    jnrrdz.tile(path.with_suffix(".npy"), path, tile=(32, 32), levels=2)
    return path


KINDS = {
    "TIFF": lambda folder: writers.geotiff(folder / "a.tif", GREY, overviews=[2], **writers.TILES, **writers.PLACE),
    "OME-TIFF": lambda folder: ome(folder / "a.ome.tif"),
    "NITF": lambda folder: nitf(folder / "a.ntf"),
    "JPEG 2000": lambda folder: jp2(folder / "a.jp2"),
    "N5": lambda folder: n5(folder / "a.n5"),
    "NRRD": lambda folder: nrrd(folder / "a.nrrd"),
    "JNRRD": lambda folder: jnrrd(folder / "a.jnrrd"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_is_described_as_the_schema_says(kind, tmp_path):
    path = KINDS[kind](tmp_path)
    found = described(path, attributes=True)
    assert found["images"]
    assert found["attributes"]
    jnrrdz.index(path, tmp_path / "m.json")
    jnrrdz.index(path, tmp_path / "m.parquet")
    for manifest in ("m.json", "m.parquet"):
        again = described(tmp_path / manifest)
        assert again["images"] == found["images"]


def test_the_place_of_an_image(tmp_path):
    path = KINDS["TIFF"](tmp_path)
    place = only(path)["place"]
    with rasterio.open(path) as file:
        assert place["affine"] == list(file.transform)[:6]
        assert place["bounds"] == list(file.bounds)
        assert place["resolution"] == list(file.res)
        assert CRS.from_wkt(place["crs"]["wkt"]) == file.crs
        west, south, east, north = rasterio.warp.transform_bounds(file.crs, "EPSG:4326", *file.bounds)
        longitude, latitude = file.lnglat()
    np.testing.assert_allclose(place["degrees"]["bounds"], [west, south, east, north], atol=1e-7)
    np.testing.assert_allclose(place["degrees"]["center"], [longitude, latitude], atol=1e-6)


def test_corners_of_a_rotated_image(tmp_path):
    affine = Affine.translation(500000, 5000000) @ Affine.rotation(30) @ Affine.scale(10, -10)
    path = writers.geotiff(tmp_path / "a.tif", GREY, crs="EPSG:32633", transform=affine)
    place = only(path)["place"]
    expected = [affine @ corner for corner in ((0, 0), (0, 60), (80, 60), (80, 0))]
    np.testing.assert_allclose(place["corners"], expected)
    np.testing.assert_allclose(place["resolution"], [10, 10])
    xs, ys = zip(*expected, strict=True)
    assert place["bounds"] == pytest.approx([min(xs), min(ys), max(xs), max(ys)])
    longitudes, latitudes = rasterio.warp.transform("EPSG:32633", "EPSG:4326", xs, ys)
    np.testing.assert_allclose(place["degrees"]["corners"], list(zip(longitudes, latitudes, strict=True)), atol=1e-8)


def test_bounds_in_degrees_are_those_of_curved_edges(tmp_path):
    """A wide image in a conic projection: its upper edge reaches farther north in the middle than at its ends."""
    transform = Affine(50000, 0, -2000000, 0, -50000, 3000000)
    path = writers.geotiff(tmp_path / "a.tif", GREY, crs="EPSG:5070", transform=transform)
    degrees = only(path)["place"]["degrees"]
    assert degrees["bounds"][3] > max(latitude for _, latitude in degrees["corners"]) + 1


def test_bands_say_what_the_file_says_of_each(tmp_path):
    path = tmp_path / "a.tif"
    with writers.gdal_file(path, np.stack([GREY, GREY]), nodata=7) as file:
        file.descriptions, file.units = ("heat", "cold"), ("K", "m")
        file.scales, file.offsets = (0.5, 1.0), (-3.0, 0.0)
        file.update_tags(1, STATISTICS_MINIMUM=1, STATISTICS_MAXIMUM=9, SENSOR="left")
    first, second = only(path)["bands"]
    assert first == {
        "number": 1,
        "name": "heat",
        "colour": "gray",
        "unit": "K",
        "scale": 0.5,
        "offset": -3.0,
        "nodata": 7,
        "statistics": {"minimum": 1.0, "maximum": 9.0},
        "metadata": {"": {"SENSOR": "left"}},
    }
    assert (second["name"], second["unit"], second["scale"]) == ("cold", "m", 1.0)


def test_control_points_are_told_where_there_is_no_affine(tmp_path):
    points = [GroundControlPoint(row, column, column / 10, row / 10, 5) for row in (0, 60) for column in (0, 80)]
    path = writers.geotiff(tmp_path / "a.tif", GREY, crs=CRS.from_epsg(4326), gcps=points)
    place = only(path)["place"]
    assert place["control_points"][3] == {"row": 60.0, "column": 80.0, "x": 8.0, "y": 6.0, "z": 5.0}
    assert place["crs"]["code"] == "EPSG:4326"
    assert "affine" not in place


def test_a_microscope_tells_channels_and_pixel_size(tmp_path):
    image = only(ome(tmp_path / "a.ome.tif"))
    assert image["title"] == "cells"
    assert [channel["name"] for channel in image["channels"]] == ["DAPI", "GFP"]
    assert image["channels"][1]["color"] == "00FF00"
    assert image["channels"][0]["window"] == {"min": 0, "max": 65535, "start": 0, "end": 4095}
    assert {name: (each["size"], each["unit"]) for name, each in image["pixel_size"].items()} == {
        "z": (2.0, "µm"),
        "y": (0.5, "µm"),
        "x": (0.25, "µm"),
    }


def test_a_nitf_tells_its_header_and_where_its_segments_lie(tmp_path):
    found = described(nitf(tmp_path / "a.ntf"))
    assert found["nitf"]["title"] == "A town"
    assert (found["nitf"]["date"], found["nitf"]["classification"]) == ("2026-01-02T03:04:05Z", "U")
    assert found["date"] == "2026-01-02T00:00:00Z"
    north, second = found["images"]
    assert (north["title"], north["nitf"]["place"]) == ("North", [0, 0])
    assert (second["nitf"]["place"], second["nitf"]["display_level"]) == ([30, 40], 2)
    with rasterio.open(f"NITF_IM:1:{tmp_path / 'a.ntf'}") as file:
        tags = file.tags()
    assert [int(tags["NITF_CCS_ROW"]), int(tags["NITF_CCS_COLUMN"])] == second["nitf"]["place"]


def test_a_codestream_tells_tiles_and_progression(tmp_path):
    path = jp2(tmp_path / "a.jp2")
    image = only(path)
    with rasterio.open(path) as file:
        blocks, count = list(file.block_shapes[0]), len(list(file.block_windows()))
    assert count > 1
    assert image["jpeg2000"] == {
        "tile_shape": blocks,
        "tiles": count,
        "resolutions": 3,
        "progression": "RPCL",
        "layers": 1,
        "is_reversible": True,
    }
    assert [level["shape"] for level in image["levels"]] == [[120, 160], [60, 80], [30, 40]]


def test_a_tree_tells_its_levels(tmp_path):
    image = only(n5(tmp_path / "a.n5"))
    assert [level["path"] for level in image["levels"]] == ["vol/s0/data", "vol/s1/data"]
    assert image["pixel_size"]["x"] == {"size": 4.0, "unit": "nm"}


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("20260102030405", "2026-01-02T03:04:05Z"),
        ("20260102------", "2026-01-02"),
        ("2026----------", "2026"),
        ("20260102", "2026-01-02"),
        ("01224425ZMAY93", "01224425ZMAY93"),
        ("--------------", None),
        ("", None),
        (None, None),
    ],
)
def test_dates_of_nitf(text, date):
    assert moment(text) == date


def test_no_secret_of_a_url_is_shown(tmp_path):
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"from": "see https://a.org/b.tif?key=SECRET"}}
    document["attributes"]["jnrrdz"] = {"sources": [{"url": "https://user:SECRET@a.org/b.tif"}]}
    (tmp_path / "m.json").write_text(json.dumps({"version": 1, "refs": {"zarr.json": json.dumps(document)}}))
    shown = json.dumps(jnrrdz.info(tmp_path / "m.json", attributes=True))
    assert "SECRET" not in shown
    assert "a.org/b.tif" in shown


HOSTILE = [None, 7, "x", [], {}, [1], ["x"], {"x": 1}, [[1]], [None], {"a": {"b": []}}, float("nan"), [{"name": 3}]]
NAMES = (
    "spatial:transform proj:code proj:wkt2 ome axes nitf security gdal_metadata band_names statistics units rpc tres"
)


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_attributes_of_other_forms_are_left_out(tmp_path, value):
    group = zarr.create_group(tmp_path / "a.zarr")
    names = f"{NAMES} multiscales color_table colorinterp scales band_units bits_per_sample datetime AREA_OR_POINT n5"
    hostile = dict.fromkeys(names.split(), value)
    hostile |= {
        "gcps": value,
        "GeoTransform": value,
        "crs_wkt": value,
        "grid_mapping": "spatial_ref",
        "_FillValue": value,
    }
    group.attrs.update(hostile)
    group.create_array("data", shape=(4, 4), dtype="u1", attributes=hostile)
    group.create_array("spatial_ref", shape=(), dtype="i8", attributes=hostile)
    refs = {
        str(path.relative_to(tmp_path / "a.zarr")): path.read_text()
        for path in (tmp_path / "a.zarr").rglob("zarr.json")
    }
    (tmp_path / "m.json").write_text(json.dumps({"version": 1, "refs": refs}))
    found = jnrrdz.info(tmp_path / "m.json", attributes=True)
    assert found["images"][0]["shape"] == [4, 4]
    json.dumps(found, allow_nan=False)


def test_the_documentation_explains_every_member():
    """Each name that the schema has at some depth stands in docs/info.md."""
    text = (Path(__file__).parents[2] / "docs" / "info.md").read_text()
    members = set(re.findall(r'"(\w+)": \{ ?"', json.dumps(SCHEMA, indent=None).replace('": {"', '": { "')))
    documented = {name for name in members if f"`{name}`" in text}
    ignored = {"properties", "items", "defs", "names", "shape", "point", "corners", "dimensions", "number", "array"}
    assert members - documented - ignored - {"image", "band", "source", "additionalProperties"} == set()


def test_nodata_that_differs_is_each_band_s_own(tmp_path):
    path = writers.geotiff(tmp_path / "a.tif", np.arange(48, dtype="u1").reshape(3, 4, 4), **writers.PLACE)
    bands = ((1, 0), (2, 20))
    marks = (f'<PAMRasterBand band="{n}"><NoDataValue>{mark}</NoDataValue></PAMRasterBand>' for n, mark in bands)
    (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset>{''.join(marks)}</PAMDataset>")
    with rasterio.open(path) as file:
        wanted = list(file.nodatavals)
    assert wanted == [0, 20, None]
    shown = only(path, sidecars=True)
    assert [band.get("nodata") for band in shown["bands"]] == wanted
    item = jnrrdz.stac_item(path, sidecars=True, datetime="2024-01-01")
    assert [band.get("nodata") for band in item["assets"]["image"]["bands"]] == wanted
    jnrrdz.index(path, tmp_path / "a.json", sidecars=True)
    text = CliRunner().invoke(cli, ["info", str(tmp_path / "a.json")]).stdout
    assert re.findall(r"(\d): .*nodata (\d+)", text) == [("1", "0"), ("2", "20")]
