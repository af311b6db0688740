"""`jnrrdz info`: what it says is what tifffile and rasterio see."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import rasterio
import rasterio.warp
import tifffile

from jnrrdz.cli.info import SOURCES
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "info.schema.json").read_text())
SMALL = {"driver": "GTiff", "height": 8, "width": 8, "dtype": "uint8"}
PLACE = rasterio.Affine(0.001, 0, 8, 0, -0.001, 47)


def info_of(run, *args):
    return json.loads(run("info", *args, "--json").stdout)


def manifests(run, source):
    """Return the source and two manifests of it."""
    run("-q", "index", source, "-o", "refs.json", "--overwrite")
    run("-q", "index", source, "-o", "refs.parquet", "--overwrite")
    return [str(source), "refs.json", "refs.parquet"]


def test_levels_are_those_that_tifffile_sees(cog, run):
    with tifffile.TiffFile(cog) as file:
        pages = [level.keyframe for level in file.series[0].levels]
        expected = [
            {
                "path": f"{number}/data",
                "level": number,
                "shape": list(page.shape),
                "data_type": str(page.dtype),
                "dimension_names": ["y", "x"],
                "chunk_shape": [page.tilelength, page.tilewidth],
                "chunks": len(page.dataoffsets),
                "missing": 0,
                "stored_bytes": sum(page.databytecounts),
                "nodata": int(page.nodata),
            }
            for number, page in enumerate(pages)
        ]
        compressions = {int(page.compression) for page in pages}
    for name in manifests(run, cog):
        found = info_of(run, name)
        shown = [{key: array[key] for key in expected[0]} for array in found["arrays"]]
        assert shown == expected
        assert {array["codecs"][0]["configuration"]["compression"] for array in found["arrays"]} == compressions
        assert found["levels"] == len(pages)
        assert found["chunks"] == sum(level["chunks"] for level in expected)
        assert found["stored_bytes"] == sum(level["stored_bytes"] for level in expected)


def test_crs_and_nodata_are_rasterios(cog, run):
    with rasterio.open(cog) as file:
        code = ":".join(file.crs.to_authority())
        name = file.crs.to_dict(projjson=True)["name"]
        nodata = file.nodata
    for place in manifests(run, cog):
        assert {(array["crs"]["code"], array["crs"]["name"]) for array in info_of(run, place)["arrays"]} == {
            (code, name)
        }
        assert {array["nodata"] for array in info_of(run, place)["arrays"]} == {nodata}


def test_absent_chunks_are_counted(holes, run):
    with tifffile.TiffFile(holes) as file:
        counts = file.pages.first.databytecounts
    for name in manifests(run, holes):
        (array,) = info_of(run, name)["arrays"]
        assert (array["chunks"], array["missing"]) == (len(counts), counts.count(0)) == (12, 2)
        assert array["stored_bytes"] == sum(counts)
        assert array["crs"] is array["nodata"] is None
        assert array["dimension_names"] == ["band", "y", "x"]


def test_header_of_a_source_is_what_its_server_sent(make_http_server, cog_bytes, run):
    server = make_http_server(files={"/scene.tif": cog_bytes})
    found = info_of(run, f"{server.url}/scene.tif")
    assert (found["requests"], found["bytes_read"]) == (server.methods().count("GET"), server.body_bytes)
    assert found["format"] == "TIFF"
    (source,) = found["sources"]
    assert source["size"] == len(cog_bytes)
    assert source["etag"]
    assert source["last_modified"].startswith("2015-10-21T07:28:00")


@pytest.mark.parametrize(("name", "form"), [("refs.json", "JSON manifest"), ("refs.parquet", "Parquet manifest")])
def test_manifest_has_sources_and_no_header(cog, run, name, form):
    manifests(run, cog)
    found = info_of(run, name)
    assert found["format"] == form
    assert not {"requests", "bytes_read"} & set(found)
    (source,) = found["sources"]
    assert (source["url"], source["size"]) == (str(cog), cog.stat().st_size)


def test_text_for_people(cog, run):
    lines = run("info", cog).stdout.splitlines()
    head = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert head["format"] == "TIFF"
    assert head["CRS"] == "EPSG:32633, WGS 84 / UTM zone 33N"
    assert head["codecs"] == "tiff-tile (DEFLATE (8), predictor HORIZONTAL)"
    assert (head["type"], head["dimensions"], head["nodata"], head["levels"]) == ("uint16", "y, x", "7", "3")
    rows = [line.split("  ") for line in lines[lines.index("") + 1 :]]
    assert rows[1][0] == "0/data"
    starts = {line.index(word) for line, word in zip(lines[-4:], ["shape", "300 x", "150 x", "75 x"], strict=True)}
    assert len(starts) == 1


def test_what_differs_between_pages_is_said_for_each(run, tmp_path, pixels):
    with tifffile.TiffWriter(tmp_path / "pages.tif") as file:
        file.write(pixels, tile=(64, 64), compression="lzw")
        file.write(pixels[:50].astype("u1"), compression="packbits")
    arrays = info_of(run, tmp_path / "pages.tif")["arrays"]
    assert [(array["data_type"], array["level"]) for array in arrays] == [("uint16", 0), ("uint8", 0)]
    shown = run("info", tmp_path / "pages.tif").stdout
    for array, codec in zip(arrays, ("LZW (5)", "PACKBITS (32773)"), strict=True):
        assert f" {array['data_type']}: {array['path']}\n" in shown
        assert f" tiff-tile ({codec}): {array['path']}\n" in shown


def test_many_sources_are_cut_for_people_only(run, tmp_path):
    table = [{"url": f"/data/{number}.tif"} for number in range(SOURCES + 3)]
    manifest = written(tmp_path, {"attributes": {"jnrrdz": {"version": "0", "sources": table}}})
    assert "and 3 more" in run("info", manifest).stdout
    assert len(info_of(run, manifest)["sources"]) == SOURCES + 3


ARRAY = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 4],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}],
}


def written(folder, group=None, array=None, chunks=None):
    """Write a manifest by hand."""
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}, **(group or {})}
    refs = {"zarr.json": json.dumps(root), "data/zarr.json": json.dumps({**ARRAY, **(array or {})}), **(chunks or {})}
    path = folder / "hand.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}), encoding="utf-8")
    return path


WKT = 'PROJCRS["A ""b""",BASEGEOGCRS["WGS 84",ID["EPSG",4326]],ID["EPSG",32633]]'


@pytest.mark.parametrize(
    ("group", "array", "crs"),
    [
        ({"proj:code": "EPSG:4326"}, {}, {"code": "EPSG:4326", "name": None}),
        ({"proj:wkt2": WKT}, {}, {"code": "EPSG:32633", "name": 'A "b"'}),
        ({}, {"proj:wkt2": WKT.replace(',ID["EPSG",32633]', "")}, {"code": None, "name": 'A "b"'}),
        ({}, {"proj:wkt2": 'GEOGCS["x",AUTHORITY["EPSG","4326"]]'}, {"code": "EPSG:4326", "name": "x"}),
        ({"proj:code": 4326, "proj:wkt2": ["no text"], "multiscales": 3}, {"grid_mapping": {}}, None),
        ({}, {"grid_mapping": "data", "crs_wkt": WKT}, {"code": "EPSG:32633", "name": 'A "b"'}),
    ],
)
def test_crs_of_manifests_by_others(run, tmp_path, group, array, crs):
    (found,) = info_of(run, written(tmp_path, {"attributes": group}, {"attributes": array}))["arrays"]
    assert found["crs"] == crs


@pytest.mark.parametrize(
    ("chunks", "table", "size"),
    [
        ({"data/c/0/0": ["/s.raw", 5, 8], "data/c/1/0": ["/s.raw", [[0, 3], [9, 2]]]}, [], 13),
        ({"data/c/0/0": "base64:AAECAw==", "data/c/1/0": ["/s.raw", 5, 8]}, [], 12),
        ({"data/c/0/0": ["/s.raw"]}, [{"url": "/s.raw", "size": 99}], 99),
        ({"data/c/0/0": ["/s.raw"]}, [], None),
        ({"data/c/0/0": ["/s.raw", [[0, 2**62 - 1]] * 3]}, [], 3 * (2**62 - 1)),
    ],
)
def test_sizes_of_every_form_of_reference(run, tmp_path, chunks, table, size):
    manifest = written(tmp_path, {"attributes": {"jnrrdz": {"sources": table}}}, chunks=chunks)
    (array,) = info_of(run, manifest)["arrays"]
    assert array["stored_bytes"] == size
    assert array["missing"] == 2 - len(chunks)


def test_a_manifest_cannot_drive_the_terminal(run, tmp_path):
    text = run("info", written(tmp_path, array={"dimension_names": ["\x1b[2J", "a\nb"]})).stdout
    assert "\x1b" not in text
    assert "\\x1b[2J, a\\nb" in text
    assert info_of(run, tmp_path / "hand.json")["arrays"][0]["dimension_names"] == ["\x1b[2J", "a\nb"]


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        ([], "data/zarr.json: codecs: found []; a list of 1 or more is needed"),
        (None, "data/zarr.json: codecs: found None; a list of 1 or more is needed"),
        ("bytes", "data/zarr.json: codecs: found 'bytes'; a list of 1 or more is needed"),
        ([1], "data/zarr.json: codecs[0]: found 1; an object is needed"),
        ([{"configuration": {}}], "data/zarr.json: codecs[0].name: is missing"),
        (
            [{"name": "x", "configuration": 1}],
            "data/zarr.json: codecs[0].configuration: found 1; an object is needed",
        ),
    ],
)
def test_codecs_of_no_known_form_are_malformed(error_line, tmp_path, codecs, message):
    assert message in error_line("info", written(tmp_path, array={"codecs": codecs}))


def test_a_person_reads_where_an_image_lies(cog, run):
    lines = run("info", cog).stdout.splitlines()
    head = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert head["bounds"] == "x 500000 to 505000, y 4997000 to 5000000"
    west, south, east, north = rasterio.warp.transform_bounds("EPSG:32633", "EPSG:4326", 500000, 4997000, 505000, 5e6)
    assert head["degrees"] == f"longitude {west:.6f} to {east:.6f}, latitude {south:.6f} to {north:.6f}"
    assert (head["resolution"], head["affine"]) == ("10 x 10", "10, 0, 500000, 0, -10, 5000000")
    assert head["bands"] == "gray"
    tail = lines[lines.index("") :]
    assert max(map(len, [*tail, *(f"{label:12}{told}" for label, told in head.items() if label != "sources")])) <= 100


def test_bands_with_names_are_listed(run, tmp_path):
    place = {"crs": "EPSG:4326", "transform": PLACE}
    with writers.gdal_file(tmp_path / "a.tif", np.zeros((2, 8, 8), "u1"), **place) as file:
        file.descriptions, file.scales, file.offsets, file.units = ("heat", ""), (0.5, 1), (-3, 0), ("K", "")
    shown = run("info", tmp_path / "a.tif").stdout
    assert re.search(r"\nbands +1: heat, gray, K, x 0\.5, \+ -3\n +2: ", shown)


def test_images_of_one_file_are_told_one_after_the_other(run, tmp_path):
    pixels = np.zeros((8, 8), "u1")
    first = pixels, {"FTITLE": "Two", "IID2": "North"}
    writers.nitf_segments(tmp_path / "a.ntf", first, (pixels, {"IDLVL": 2}))
    shown = run("info", tmp_path / "a.ntf").stdout
    assert "title           Two\n" in shown
    assert "\nimage_0/data\n  size            8 x 8\n  title           North\n" in shown
    assert "place           row 0, column 0; display level 2\n" in shown


def test_all_attributes_are_shown_on_demand(cog, run):
    assert "GeoTransform" not in run("info", cog).stdout
    shown = run("info", "-a", cog).stdout
    assert '  GeoTransform: "500000.0 10.0 0.0 5000000.0 0.0 -10.0"\n' in shown
    assert info_of(run, cog, "-a")["attributes"]["0/spatial_ref"]["GeoTransform"]


def test_json_is_as_the_schema_says(cog, run):
    jsonschema.validate(info_of(run, cog), SCHEMA)


def test_who_reads_it_and_what_helps_the_others(run, tmp_path, pixels):
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(16, 16), compression="zlib")
    text = run("info", tmp_path / "a.tif").stdout
    assert "readable by  jnrrdz; zarr-python with jnrrdz installed; zarr-python by itself\n" in text
    assert "not by any Zarr v3 reader, GDAL: data has the codec numcodecs.zlib" in text
    found = info_of(run, tmp_path / "a.tif")["readable_by"]
    assert {each["reader"]: each["readable"] for each in found}["GDAL"] is False
