"""What osml-imagery-io writes by default, Zarr v2 in JSON and Parquet (golden/osml, made by it), reads as its v3."""

import json
import shutil
from pathlib import Path

import fsspec
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from tests.readers import assert_identical, by_gdal

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

GOLDEN = Path(__file__).parent / "golden" / "osml"
IN_JSON = sorted(path.name for path in GOLDEN.glob("*.v2.json"))
IN_PARQUET = sorted(path.name for path in GOLDEN.glob("*.v2.parquet"))
EVERY_NUMBER = ("|u1", "|i1", "<u2", ">u2", "<i4", ">i8", "<f4", ">f8", "<c8", "|b1")


def pixels_of(refs, **options):
    group = jnrrdz.open_group(refs, **options)
    return {path: node[...] for path, node in group.members(max_depth=None) if isinstance(node, zarr.Array)}


@pytest.mark.parametrize("name", IN_JSON + IN_PARQUET)
def test_it_reads_as_version_3_does(name):
    version_3 = GOLDEN / f"{name.partition('.')[0]}.json"
    expected, found = pixels_of(version_3), pixels_of(GOLDEN / name)
    assert found.keys() == expected.keys()
    for path, pixels in found.items():
        assert_identical(pixels, expected[path])
    one, other = (jnrrdz.open_group(refs)["0/data"].metadata for refs in (version_3, GOLDEN / name))
    assert one.dimension_names == other.dimension_names == ("bands", "y", "x")
    assert one.attributes == other.attributes


@pytest.mark.parametrize("name", ["u2_lzw_predictor2_tiles_big", "u2_none_strips_big", "planar2_deflate_tiles_big"])
def test_it_reads_as_gdal_does(name):
    assert_identical(jnrrdz.open_group(GOLDEN / f"{name}.v2.json")["0/data"][...], by_gdal(GOLDEN / f"{name}.tif"))


@pytest.mark.parametrize("name", ["pyramid.v2.json", "pyramid.v2.parquet"])
def test_xarray_opens_it_without_being_told_how(name):
    with xr.open_dataset(GOLDEN / name, group="1") as level:
        np.testing.assert_array_equal(level["data"], by_gdal(GOLDEN / "pyramid.tif", 1))


# Templates


@pytest.mark.parametrize("name", ["templated.json", "templated.v2.json", "templated.v2.parquet"])
def test_a_template_is_the_manifests_folder_or_what_the_reader_says(tmp_path, name):
    expected = by_gdal(GOLDEN / "u4_deflate_tiles.tif")
    assert_identical(jnrrdz.open_group(GOLDEN / name)["0/data"][...], expected)
    (shutil.copytree if (GOLDEN / name).is_dir() else shutil.copy)(GOLDEN / name, tmp_path / name)
    with pytest.raises(JnrrdzError, match="not found"):
        pixels_of(tmp_path / name)
    overrides = {"base": f"{GOLDEN}/"}
    assert_identical(pixels_of(tmp_path / name, template_overrides=overrides)["0/data"], expected)
    through = fsspec.filesystem("jnrrdz", fo=str(tmp_path / name), template_overrides=overrides)
    assert_identical(zarr.open_group(through.get_mapper(""), mode="r")["0/data"][...], expected)
    with xr.open_dataset(tmp_path / name, engine="jnrrdz", group="0", template_overrides=overrides) as opened:
        assert_identical(opened["data"].to_numpy(), expected)


@pytest.mark.parametrize("escape", ["../secret.tif", "/etc/hostname", "../../secret.tif"])
def test_a_template_leads_nowhere_else(tmp_path, escape):
    (tmp_path / "scenes").mkdir()
    (tmp_path / "secret.tif").write_bytes((GOLDEN / "u4_deflate_tiles.tif").read_bytes())
    refs = json.loads((GOLDEN / "templated.v2.json").read_text())
    text = json.dumps(refs).replace("{{base}}u4_deflate_tiles.tif", f"{{{{base}}}}{escape}")
    for folder in ("", f"{tmp_path}/scenes/"):
        (tmp_path / "scenes" / "r.json").write_text(text)
        with pytest.raises(JnrrdzError, match=r"may not reach it|not found"):
            pixels_of(tmp_path / "scenes" / "r.json", template_overrides={"base": folder} if folder else None)


def test_the_files_own_value_of_a_template_is_not_trusted(tmp_path):
    refs = json.loads((GOLDEN / "templated.v2.json").read_text())
    (tmp_path / "r.json").write_text(json.dumps({**refs, "templates": {"base": f"{GOLDEN}/"}}))
    with pytest.raises(jnrrdz.UntrustedSourceError):
        pixels_of(tmp_path / "r.json")
    (tmp_path / "r.json").write_text(json.dumps({**refs, "templates": {}}))
    with pytest.raises(MalformedError, match="--template"):
        pixels_of(tmp_path / "r.json")


# Converting


@pytest.mark.parametrize("name", ["templated.v2.json", "templated.v2.parquet", "u2_lzw_predictor2_tiles_big.v2.json"])
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_it_is_converted_while_its_source_is_away(tmp_path, name, form):
    source = "u4_deflate_tiles.tif" if name.startswith("templated") else "u2_lzw_predictor2_tiles_big.tif"
    (shutil.copytree if (GOLDEN / name).is_dir() else shutil.copy)(GOLDEN / name, tmp_path / name)
    out = tmp_path / f"out.{form}"
    rules = {str(tmp_path): str(GOLDEN)}
    jnrrdz.convert(tmp_path / name, out, rewrite_prefix=rules)
    again = tmp_path / f"again.{form}"
    jnrrdz.convert(out, again, allow=[str(GOLDEN)])
    for refs in (out, again):
        # what the maker leaves out (a byte order) is still looked up when pixels are read
        assert_identical(pixels_of(refs, allow=[str(GOLDEN)])["0/data"], by_gdal(GOLDEN / source))


def test_the_command_line_takes_templates(tmp_path):
    shutil.copy(GOLDEN / "templated.v2.json", tmp_path / "r.json")
    run = CliRunner().invoke
    done = run(cli, ["verify", str(tmp_path / "r.json"), "--template", f"base={GOLDEN}/"])
    assert (done.exit_code, "fine" in done.stdout + done.stderr) == (0, True), done.output
    assert run(cli, ["verify", str(tmp_path / "r.json")]).exit_code == 1
    refused = run(cli, ["verify", str(tmp_path / "r.json"), "--template", "base"])
    assert (refused.exit_code, "NAME=URL" in refused.stderr) == (2, True)


# Zarr v2 of others, and what reads it beside us


@pytest.mark.parametrize("dtype", EVERY_NUMBER)
@pytest.mark.parametrize(
    ("compressor", "filters"),
    [
        (None, None),
        (numcodecs.Zlib(), None),
        (numcodecs.Zstd(), None),
        (numcodecs.Blosc(), None),
        (numcodecs.LZ4(), None),
        (None, [numcodecs.GZip()]),
    ],
)
def test_arrays_that_zarr_writes_in_version_2_read_the_same(tmp_path, dtype, compressor, filters):
    values = (np.arange(30).reshape(5, 6) % 7).astype(dtype)
    order = "F" if compressor is None else "C"
    made = zarr.create_array(
        str(tmp_path / "z" / "data"),
        shape=values.shape,
        chunks=(2, 4),
        dtype=dtype,
        zarr_format=2,
        compressors=compressor,
        filters=filters,
        order=order,
        fill_value=values.dtype.type(3),
        attributes={"_ARRAY_DIMENSIONS": ["y", "x"]},
    )
    made[...] = values
    (tmp_path / "z" / "data" / "0.0").unlink()
    refs = {".zgroup": '{"zarr_format":2}'}
    for name in (".zarray", ".zattrs"):
        refs[f"data/{name}"] = (tmp_path / "z" / "data" / name).read_text()
    for chunk in (tmp_path / "z" / "data").glob("[0-9]*"):
        refs[f"data/{chunk.name}"] = [f"z/data/{chunk.name}"]
    (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": refs}))
    found = jnrrdz.open_group(tmp_path / "r.json")["data"]
    np.testing.assert_array_equal(found[...], made[...])
    assert found[0, 0] == values.dtype.type(3)
    # to xarray the fill value of version 2 is a missing value, and so it is here
    with xr.open_dataset(tmp_path / "r.json", engine="jnrrdz", mask_and_scale=False) as opened:
        assert opened["data"].dims == ("y", "x")
        if values.dtype.kind in "iuf":
            assert opened["data"].attrs["_FillValue"] == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filters": [{"id": "grib"}]}, "codec 'grib' of Zarr v2"),
        ({"filters": [{"id": "zlib"}, {"id": "zlib"}]}, "at most one of"),
        ({"filters": ["zlib"]}, r".zarray: filters\[0\]: found 'zlib'; an object is needed"),
        ({"dtype": "|O"}, "numbers are read"),
        ({"dtype": [["a", "<u2"]]}, "numbers are read"),
        ({"chunks": "x"}, ".zarray: chunks: found 'x'; a list"),
        ({"fill_value": "x"}, "is no uint32"),
        ({"dimension_separator": "x"}, "separator"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(tmp_path, change, message):
    refs = json.loads((GOLDEN / "u4_deflate_tiles.v2.json").read_text())
    array = json.loads(refs["refs"]["0/data/.zarray"])
    refs["refs"]["0/data/.zarray"] = json.dumps(array | change)
    shutil.copy(GOLDEN / "u4_deflate_tiles.tif", tmp_path)
    (tmp_path / "r.json").write_text(json.dumps(refs))
    with pytest.raises((MalformedError, UnsupportedError), match=message) as refused:
        pixels_of(tmp_path / "r.json")
    assert "0/data" in str(refused.value) or message.startswith("at most")


BY_KERCHUNK = [
    "block.v2.json",
    "f4_deflate_predictor3_tiles.v2.json",
    "five_deflate_tiles.v2.json",
    "grey_jpeg_tiles.v2.json",
    "jpeg.v2.json",
    "planar2_deflate_tiles.v2.json",
    "pyramid.v2.json",
    "rgba_lzw_tiles.v2.json",
    "templated.v2.json",
    "ycbcr_jpeg_tiles.v2.json",
]


@pytest.mark.parametrize("name", BY_KERCHUNK)
def test_kerchunks_engine_reads_it_by_our_numcodecs(name, monkeypatch):
    monkeypatch.chdir(GOLDEN)
    with xr.open_dataset(name, engine="kerchunk", group="0", mask_and_scale=False) as opened:
        assert_identical(opened["data"].to_numpy(), pixels_of(GOLDEN / name)["0/data"])


def test_version_2_with_the_codecs_of_our_own_names(tmp_path):
    """Chunks are tiles of a TIFF behind eight bytes: kerchunk's engine, zarr, and we read the same."""
    jnrrdz.index(GOLDEN / "u2_lzw_predictor2_tiles.tif", tmp_path / "v3.json")
    refs = json.loads((tmp_path / "v3.json").read_text())["refs"]
    array = json.loads(refs["data/zarr.json"])
    (codec,) = array["codecs"]
    assert codec["name"] == "tiff-tile"
    said = {"zarr_format": 2, "shape": array["shape"], "dtype": "<u2", "fill_value": None, "order": "C"}
    said |= {"chunks": array["chunk_grid"]["configuration"]["chunk_shape"], "compressor": None}
    tile = {"id": codec["name"], **codec["configuration"]}
    said["filters"] = [tile, {"id": "offset", "offset": 8}, {"id": "pad", "location": "end", "nbytes": 0}]
    made = {".zgroup": '{"zarr_format":2}', "data/.zarray": json.dumps(said), "data/.zattrs": "{}"}
    for key, value in refs.items():
        if isinstance(value, list):
            made[key.replace("data/c/", "data/").replace("0/", "0.").replace("1/", "1.").replace("2/", "2.")] = [
                value[0],
                value[1] - 8,
                value[2] + 8,
            ]
    (tmp_path / "v2.json").write_text(json.dumps({"version": 1, "refs": made}))
    expected = by_gdal(GOLDEN / "u2_lzw_predictor2_tiles.tif")[0]
    stock = zarr.open_group("reference://", mode="r", storage_options={"fo": str(tmp_path / "v2.json")}, zarr_format=2)
    np.testing.assert_array_equal(stock["data"][...], expected)
    assert numcodecs.get_codec(tile) == numcodecs.get_codec(tile)
