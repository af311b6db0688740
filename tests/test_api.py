"""The library's functions over one COG: what they return, what they cost, and that it travels."""

import json
import pickle
import subprocess
import sys
import textwrap

import dask
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from rasterio.transform import from_origin

import jnrrdz
from tests import writers

HEIGHT, WIDTH, TILE = 700, 900, 128


@pytest.fixture(scope="session")
def cog_bytes(tmp_path_factory):
    """A COG of GDAL's: 700 x 900 uint16, three overviews, a CRS and nodata."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    data = (x * 11 + y * 7 + np.random.default_rng(3).integers(0, 99, (HEIGHT, WIDTH))).astype("uint16")
    place = {"crs": "EPSG:32633", "transform": from_origin(300000, 4900020, 10, 10), "nodata": 65535}
    return writers.cog(
        tmp_path_factory.mktemp("cog") / "cog.tif", data, place, BLOCKSIZE=TILE, PREDICTOR=2
    ).read_bytes()


@pytest.fixture
def cog(tmp_path, cog_bytes):
    path = tmp_path / "cog.tif"
    path.write_bytes(cog_bytes)
    return path


@pytest.fixture
def full(cog):
    with rasterio.open(cog) as source:
        return source.read(1)


def test_scan_write_and_open_are_index_and_open(cog, tmp_path, full):
    jnrrdz.write(jnrrdz.scan(cog), tmp_path / "by_parts.json")
    done = jnrrdz.index(cog, tmp_path / "at_once.json")
    assert (tmp_path / "by_parts.json").read_bytes() == (tmp_path / "at_once.json").read_bytes()
    assert (done.format, done.arrays, done.requests, done.bytes_read < 65536) == ("json", 4, 1, True)
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "at_once.json")["0/data"][...], full)
    np.testing.assert_array_equal(jnrrdz.open_group(jnrrdz.scan(cog))["0/data"][...], full)


@pytest.mark.parametrize("output", ["refs.json", "refs.parquet", "refs.icechunk"])
def test_every_manifest_shows_every_level(cog, tmp_path, output):
    jnrrdz.index(cog, tmp_path / output)
    group = jnrrdz.open_group(tmp_path / output) if not output.endswith("icechunk") else icechunk_group(tmp_path)
    for level in range(4):
        with rasterio.open(cog, **({"overview_level": level - 1} if level else {})) as source:
            np.testing.assert_array_equal(group[f"{level}/data"][...], source.read(1))


def icechunk_group(folder):
    import icechunk  # noqa: PLC0415 - an optional package
    import zarr  # noqa: PLC0415

    storage = icechunk.local_filesystem_storage(str(folder / "refs.icechunk"))
    prefix = f"file://{folder}/"
    allowed = {prefix: icechunk.credentials.LocalFileSystemAccess}
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=allowed)
    return zarr.open_group(repository.readonly_session("main").store, mode="r")


def test_a_manifest_of_relative_urls_moves_with_its_source(cog, tmp_path, full, monkeypatch):
    jnrrdz.index(cog, tmp_path / "refs.json", relative=True)
    moved = tmp_path.rename(tmp_path.with_name(tmp_path.name + "_moved"))
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(jnrrdz.open_group(moved / "refs.json")["0/data"][...], full)


def test_no_overviews(cog, tmp_path, full):
    jnrrdz.index(cog, tmp_path / "refs.json", overviews=False)
    group = jnrrdz.open_group(tmp_path / "refs.json")
    np.testing.assert_array_equal(group["data"][...], full)
    assert not list(group.group_keys())


def test_the_sources_are_recorded_as_they_were_seen(cog, tmp_path):
    jnrrdz.index(cog, tmp_path / "refs.json")
    (record,) = jnrrdz.open_group(tmp_path / "refs.json").attrs["jnrrdz"]["sources"]
    assert record["size"] == cog.stat().st_size
    assert record["url"].endswith("/cog.tif")


# Travelling


@pytest.mark.parametrize("of", ["source", "manifest"])
@pytest.mark.parametrize("what", ["group", "dataset", "lazy dataset"])
def test_groups_and_datasets_pickle(cog, tmp_path, full, of, what):
    jnrrdz.index(cog, tmp_path / "refs.json")
    path = cog if of == "source" else tmp_path / "refs.json"
    if what == "group":
        again = pickle.loads(pickle.dumps(jnrrdz.open_group(path)))["0/data"][...]
    else:
        options = {"chunks": {}} if what == "lazy dataset" else {}
        opened = jnrrdz.open_dataset(path, mask_and_scale=False, **options)
        again = pickle.loads(pickle.dumps(opened))["data"].values
    np.testing.assert_array_equal(again, full)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_dask_reads_by_chunks(cog, tmp_path, full, scheduler):
    jnrrdz.index(cog, tmp_path / "refs.json")
    found = xr.open_dataset(tmp_path / "refs.json", chunks={}, mask_and_scale=False)["data"]
    assert found.chunksizes["y"][:2] == (TILE, TILE)
    with dask.config.set(scheduler=scheduler, num_workers=2):
        np.testing.assert_array_equal(found.compute(), full)


STOCK = """
    import sys
    import numpy as np, xarray as xr, zarr
    from zarr.registry import register_codec
    from jnrrdz.codecs.tiles import TiffTileCodec
    register_codec("tiff-tile", TiffTileCodec)
    fo, expected, expected_level = sys.argv[1:]
    options = {"fo": fo, "remote_protocol": "file"}
    found = xr.open_dataset("reference://", engine="zarr", group="0", storage_options=options,
                            backend_kwargs={"consolidated": False, "zarr_format": 3}, mask_and_scale=False)
    np.testing.assert_array_equal(found["data"].values, np.load(expected))
    group = zarr.open_group("reference://", mode="r", storage_options=options)
    np.testing.assert_array_equal(group["1/data"][...], np.load(expected_level))
    loaded = sorted(name for name in sys.modules if name.startswith("jnrrdz.store"))
    assert not loaded, loaded
    print("read by fsspec and zarr alone")
"""


@pytest.mark.parametrize("output", ["refs.json", "refs.parquet"])
def test_stock_fsspec_and_zarr_open_it_with_our_codecs_alone(cog, tmp_path, full, output):
    jnrrdz.index(cog, tmp_path / output)
    np.save(tmp_path / "full.npy", full)
    with rasterio.open(cog, overview_level=0) as level:
        np.save(tmp_path / "level.npy", level.read(1))
    args = [str(tmp_path / output), str(tmp_path / "full.npy"), str(tmp_path / "level.npy")]
    code = textwrap.dedent(STOCK)
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "alone" in done.stdout


# Errors


def test_a_chunk_that_does_not_decode_is_named(cog, tmp_path):
    with tifffile.TiffFile(cog) as tif:
        page = tif.pages[0]
        offset, length = page.dataoffsets[9], page.databytecounts[9]
    data = bytearray(cog.read_bytes())
    data[offset : offset + 8] = b"\xff" * 8
    cog.write_bytes(data)
    jnrrdz.index(cog, tmp_path / "refs.json")
    array = jnrrdz.open_group(tmp_path / "refs.json")["0/data"]
    with pytest.raises(jnrrdz.MalformedError, match=rf"c/1/1.*DEFLATE|cog\.tif bytes {offset}-{offset + length - 1}"):
        array[...]
    assert array[:TILE, :TILE].any()


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", jnrrdz.MalformedError, "empty"),
        (b"II*\0", jnrrdz.MalformedError, "header of 4 bytes"),
        (b"II*\0\x08\0\0\0", jnrrdz.MalformedError, "IFD"),
        (b"hello, world, this is no image", jnrrdz.UnsupportedError, "68 65 6c 6c 6f"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), jnrrdz.UnsupportedError, "this is PNG, which is not a format that"),
        (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(100), jnrrdz.UnsupportedError, "no codestream in the file"),
        (b"NITF02.10" + bytes(100), jnrrdz.MalformedError, "file header"),
        (b"    <" + bytes(100), jnrrdz.UnsupportedError, "starts with 20 20 20 20"),
    ],
)
def test_what_is_no_tiff_is_refused_by_name_and_leaves_nothing(tmp_path, data, error, words):
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(error, match=words) as caught:
        jnrrdz.index(tmp_path / "a.tif", tmp_path / "refs.json")
    assert caught.value.url.endswith("a.tif")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tif"]


def test_an_unknown_manifest_format(cog, tmp_path):
    with pytest.raises(jnrrdz.UnsupportedError, match=r"hdf5.*json, parquet, icechunk"):
        jnrrdz.index(cog, tmp_path / "refs.json", format="hdf5")
    with pytest.raises(jnrrdz.JnrrdzError, match="no such group"):
        jnrrdz.open_dataset(cog, group="9")


# HTTP


def test_a_cog_over_http_is_indexed_in_two_requests_of_64_kb(http_server, cog_bytes, tmp_path):
    http_server.files["/cog.tif"] = cog_bytes
    done = jnrrdz.index(f"{http_server.url}/cog.tif", tmp_path / "refs.json")
    assert done.arrays == 4
    assert len(http_server.log) <= 2, http_server.log
    assert http_server.body_bytes <= 65536 < len(cog_bytes)


def test_a_window_of_three_by_three_tiles_is_at_most_three_requests(http_server, cog_bytes, tmp_path, full):
    http_server.files["/cog.tif"] = cog_bytes
    http_server.files["/refs.json"] = manifest_bytes(f"{http_server.url}/cog.tif", tmp_path)
    array = jnrrdz.open_group(f"{http_server.url}/refs.json")["0/data"]
    http_server.log.clear()
    window = (slice(TILE, 4 * TILE), slice(2 * TILE, 5 * TILE))
    np.testing.assert_array_equal(array[window], full[window])
    assert 1 <= len([entry for entry in http_server.log if entry.method == "GET"]) <= 3, http_server.log


def manifest_bytes(url, folder):
    jnrrdz.index(url, folder / "made.json")
    return (folder / "made.json").read_bytes()


def test_a_source_that_changed_since_is_drift(http_server, cog_bytes, tmp_path):
    http_server.files["/cog.tif"] = cog_bytes
    jnrrdz.index(f"{http_server.url}/cog.tif", tmp_path / "refs.json")
    changed = bytearray(cog_bytes)
    changed[-1] ^= 1
    http_server.files["/cog.tif"] = bytes(changed)
    with pytest.raises(jnrrdz.DriftError, match=r"cog\.tif"):
        jnrrdz.open_group(tmp_path / "refs.json")["0/data"][:1, :1]


def test_the_manifest_is_plain_json(cog, tmp_path):
    jnrrdz.index(cog, tmp_path / "refs.json")
    refs = json.loads((tmp_path / "refs.json").read_text())["refs"]
    with tifffile.TiffFile(cog) as tif:
        expected = [tif.pages[0].dataoffsets[9], tif.pages[0].databytecounts[9]]
    assert refs["0/data/c/1/1"][1:] == expected
