"""References that others wrote, as a source: kerchunk's by format, combined, in Parquet, tifffile's, VirtualiZarr's."""

import json
import shutil
import warnings

import fsspec
import h5py
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from tests import writers
from tests.foreign.conftest import classic, hdf5, weather

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kerchunk imports what numcodecs and zarr have moved
    from kerchunk.combine import MultiZarrToZarr
    from kerchunk.df import refs_to_dataframe
    from kerchunk.hdf import SingleHdf5ToZarr
    from kerchunk.netCDF3 import NetCDF3ToZarr
    from kerchunk.tiff import tiff_to_zarr

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]


def deflated(path):
    chunked = {"compression": "gzip", "shuffle": True, "chunksizes": (2, 10, 16)}
    weather().to_netcdf(path, engine="h5netcdf", encoding={"t2m": chunked})


def of_hdf5(inline):
    return lambda path: SingleHdf5ToZarr(str(path), inline_threshold=inline).translate()


SOURCES = {
    "HDF5": (deflated, of_hdf5(0)),
    "HDF5, small chunks inline": (deflated, of_hdf5(500)),
    "HDF5 in whole images": (hdf5, of_hdf5(0)),
    "netCDF-3": (classic("NETCDF3_CLASSIC"), lambda path: NetCDF3ToZarr(str(path)).translate()),
    "netCDF-3 of 64 bits": (classic("NETCDF3_64BIT"), lambda path: NetCDF3ToZarr(str(path)).translate()),
}


@pytest.fixture(params=SOURCES)
def references(request, tmp_path):
    """Return what kerchunk says of a file, and what the file's own reader sees in it."""
    write, translate = SOURCES[request.param]
    write(tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc") as opened:
        return translate(tmp_path / "a.nc"), opened.load()


def same(found, expected):
    """Check the numbers, the gaps and the times; kerchunk gives a grid mapping its own value as the missing one."""
    for name in set(expected.variables) - {"crs"}:
        np.testing.assert_array_equal(found[name], expected[name])
        assert found[name].dims == expected[name].dims


def version_0(refs):
    return refs["refs"]


def with_templates(refs):
    folder = next(value[0] for value in refs["refs"].values() if isinstance(value, list)).rpartition("/")[0]
    text = json.dumps(refs["refs"]).replace(f'"{folder}/', '"{{ u }}/')
    return {"version": 1, "templates": {"u": folder}, "refs": json.loads(text)}


@pytest.mark.parametrize("form", [dict, version_0, with_templates])
def test_the_numbers_are_those_of_the_formats_own_reader(references, tmp_path, form):
    refs, expected = references
    (tmp_path / "refs.json").write_text(json.dumps(form(refs)))
    same(xr.open_dataset(tmp_path / "refs.json", engine="jnrrdz"), expected)


@pytest.mark.parametrize("name", ["out.json", "out.parquet"])
def test_converted(references, tmp_path, name):
    refs, expected = references
    (tmp_path / "refs").write_text(json.dumps(refs))  # told by what it holds
    jnrrdz.convert(tmp_path / "refs", tmp_path / name)
    same(xr.open_dataset(tmp_path / name), expected)
    assert jnrrdz.verify(tmp_path / name, deep=True).ok
    assert jnrrdz.verify(tmp_path / "refs", deep=True).ok


def test_parquet_of_kerchunk(references, tmp_path):
    refs, expected = references
    (tmp_path / "refs").mkdir()
    refs_to_dataframe(refs, str(tmp_path / "refs"), record_size=4)
    same(xr.open_dataset(tmp_path / "refs", engine="jnrrdz"), expected)
    assert jnrrdz.verify(tmp_path / "refs", deep=True).ok
    with pytest.raises(jnrrdz.UnsupportedError, match="manifest"):
        jnrrdz.index(tmp_path / "refs", tmp_path / "again.json")


def test_combined_by_kerchunk_and_by_us(tmp_path):
    singles = []
    for year in (2001, 2002):
        data = weather().drop_vars(["crs", "gaps"])
        data = data.assign_coords(time=data["time"] + (year - 2001) * 100)
        data["time"].attrs = {"units": "days since 2001-01-01"}
        data.to_netcdf(tmp_path / f"{year}.nc", engine="h5netcdf")
        singles.append(SingleHdf5ToZarr(str(tmp_path / f"{year}.nc")).translate())
        (tmp_path / f"{year}.json").write_text(json.dumps(singles[-1]))
    both = MultiZarrToZarr(singles, concat_dims=["time"], identical_dims=["x"]).translate()
    (tmp_path / "both.json").write_text(json.dumps(both))
    with xr.open_dataset(tmp_path / "2001.nc") as one, xr.open_dataset(tmp_path / "2002.nc") as two:
        expected = xr.concat([one, two], "time", data_vars="minimal", coords="minimal", compat="override", join="outer")
        same(xr.open_dataset(tmp_path / "both.json", engine="jnrrdz"), expected.load())
    jnrrdz.merge([tmp_path / "2001.json", tmp_path / "2002.json"], tmp_path / "ours.json", concat_dim="time")
    ours = xr.open_dataset(tmp_path / "ours.json", engine="jnrrdz")
    same(ours, expected)


def test_times_that_count_from_elsewhere(tmp_path):
    """Times of netCDF are doubles: whole ones are put in one unit, others have to have one."""
    for step, name in ((1.0, "whole"), (0.1, "parts")):
        for year in (2001, 2002):
            data = xr.Dataset(
                {"v": ("time", np.arange(3.0))}, {"time": ("time", np.arange(3) * step + (year - 2001) * 7)}
            )
            data["time"].attrs["units"] = f"days since {year}-01-01"
            data.to_netcdf(tmp_path / f"{name}{year}.nc", engine="h5netcdf")
            jnrrdz.index(tmp_path / f"{name}{year}.nc", tmp_path / f"{name}{year}.json")
    jnrrdz.merge([tmp_path / f"whole{year}.json" for year in (2001, 2002)], tmp_path / "all.json", concat_dim="time")
    with xr.open_dataset(tmp_path / "whole2001.nc") as one, xr.open_dataset(tmp_path / "whole2002.nc") as two:
        xr.testing.assert_equal(xr.open_dataset(tmp_path / "all.json"), xr.concat([one, two], "time"))
    with pytest.raises(jnrrdz.UnrepresentableError, match="different units"):
        jnrrdz.merge([tmp_path / f"parts{year}.json" for year in (2001, 2002)], tmp_path / "n.json", concat_dim="time")


TIFFS = {
    "deflate": {"compress": "deflate"},
    "deflate, 3 samples": {"compress": "deflate", "count": 3, "interleave": "pixel"},
    "LZW, differences": {"compress": "lzw", "predictor": 2},
    "LZW, differences, 3 samples": {"compress": "lzw", "predictor": 2, "count": 3, "interleave": "pixel"},
    "LZW, differences, planes": {"compress": "lzw", "predictor": 2, "count": 3, "interleave": "band"},
    "LZW, big endian": {"compress": "lzw", "predictor": 2, "ENDIANNESS": "BIG"},
    "LZW": {"compress": "lzw"},
    "packbits": {"compress": "packbits"},
    "ZSTD": {"compress": "zstd", "count": 4, "interleave": "pixel"},
    "ZSTD, differences": {"compress": "zstd", "predictor": 2, "dtype": "int16"},
    "floats": {"compress": "deflate", "predictor": 3, "dtype": "float32"},
    "floats, 3 samples": {"compress": "lzw", "predictor": 3, "dtype": "float64", "count": 3, "interleave": "pixel"},
    "plain": {"dtype": "uint8"},
}


@pytest.mark.parametrize("writer", ["kerchunk", "tifffile"])
@pytest.mark.parametrize("name", TIFFS)
def test_tiff(tmp_path, name, writer):
    options = {"count": 1, "dtype": "uint16", **TIFFS[name]}
    pixels = np.random.default_rng(3).integers(0, 250, (options["count"], 100, 120)).astype(options["dtype"])
    tiled = {"tiled": True, "blockxsize": 32, "blockysize": 48}
    writers.geotiff(tmp_path / "a.tif", pixels, crs="EPSG:32633", **tiled, **options)
    expected = tifffile.imread(tmp_path / "a.tif")
    if writer == "kerchunk":
        (tmp_path / "a.json").write_text(json.dumps(tiff_to_zarr(str(tmp_path / "a.tif"))))
    else:
        with tifffile.imread(tmp_path / "a.tif", aszarr=True) as store:
            store.write_fsspec(str(tmp_path / "a.json"), tmp_path.as_uri())
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "a.json")["data"][...], expected)
    jnrrdz.convert(tmp_path / "a.json", tmp_path / "b.json")
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "b.json")["data"][...], expected)


def test_levels_of_tifffile(tmp_path):
    pixels = np.random.default_rng(3).integers(0, 250, (64, 96)).astype("u1")
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(pixels, tile=(32, 32), subifds=1, compression="zlib")
        file.write(pixels[::2, ::2], tile=(32, 32), subfiletype=1, compression="zlib")
    with tifffile.imread(tmp_path / "a.tif", aszarr=True) as store:
        store.write_fsspec(str(tmp_path / "a.json"), tmp_path.as_uri())
    group = jnrrdz.open_group(tmp_path / "a.json")
    np.testing.assert_array_equal(group["0"][...], pixels)
    np.testing.assert_array_equal(group["1"][...], pixels[::2, ::2])


@pytest.mark.parametrize(("form", "version"), [("json", 2), ("json", 3), ("parquet", 2)])
def test_virtualizarr_writes_references(tmp_path, form, version):
    from obspec_utils.registry import ObjectStoreRegistry  # noqa: PLC0415  few tests need it
    from obstore.store import LocalStore  # noqa: PLC0415  the same
    from virtualizarr import open_virtual_dataset  # noqa: PLC0415  the same
    from virtualizarr.parsers import HDFParser  # noqa: PLC0415  the same

    weather().drop_vars("crs").to_netcdf(tmp_path / "b.nc")  # kerchunk's Parquet has no scalars
    (deflated if form == "json" else shutil.copy)(*([tmp_path / "b.nc"] if form != "json" else []), tmp_path / "a.nc")
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    with open_virtual_dataset((tmp_path / "a.nc").as_uri(), registry, HDFParser()) as virtual:
        virtual.vz.to_kerchunk(str(tmp_path / f"r.{form}"), format=form, zarr_format=version)
    with xr.open_dataset(tmp_path / "a.nc") as expected:
        same(xr.open_dataset(tmp_path / f"r.{form}", engine="jnrrdz"), expected)


GENERATED = {
    "version": 1,
    "templates": {"u": "raw", "f": "{{c}}.bin"},
    "gen": [
        {
            "key": "data/{{i}}.{{j}}",
            "url": "{{u}}{{ '%02d' % (i + 1) }}.bin",
            "offset": "{{(j * 2 + 1) * 8}}",
            "length": "16",
            "dimensions": {"i": {"stop": 3}, "j": [0, 1]},
        }
    ],
    "refs": {
        ".zgroup": '{"zarr_format": 2}',
        "data/.zattrs": '{"_ARRAY_DIMENSIONS": ["y", "x"]}',
        "data/.zarray": json.dumps(
            {
                "shape": [4, 4],
                "chunks": [1, 2],
                "dtype": "<f8",
                "fill_value": 0,
                "order": "C",
                "filters": None,
                "compressor": None,
                "zarr_format": 2,
            }
        ),
        "data/3.0": ["{{f(c='raw01')}}", 0, 16],
    },
}


def test_references_that_are_computed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(1, 4):
        np.random.default_rng(number).random(8).tofile(tmp_path / f"raw{number:02}.bin")
    (tmp_path / "r.json").write_text(json.dumps(GENERATED))
    expected = fsspec.filesystem(
        "reference", fo=json.loads(json.dumps(GENERATED)), simple_templates=False, remote_protocol="file"
    )
    found = jnrrdz.open_group(tmp_path / "r.json")["data"]
    for row in range(4):
        for column in range(2):
            key = f"data/{row}.{column}"
            stored = np.frombuffer(expected.cat(key)) if key in expected.references else np.zeros(2)
            np.testing.assert_array_equal(found[row, 2 * column : 2 * column + 2], stored)
    assert (found[0, 0], found[3, 0]) != (0, 0)


EVIL = {
    "code": "{{ ().__class__ }}",
    "power": "{{ 9 ** 9 ** 9 }}",
    "wide": "{{ '%0999999999d' % i }}",
    "a filter": "{{ i | string }}",
    "repeated": "{{ 'a' * 1000000000 }}",
    "large": "{{ i + 9223372036854775807 * 9223372036854775807 }}",
    "deep": "{{ " + "(" * 400 + "i" + ")" * 400 + " }}",
    "a loop": "{% for a in range(9) %}{{ a }}{% endfor %}",
    "itself": "{{ g(c='x') }}",
}


@pytest.mark.parametrize("name", EVIL)
def test_nothing_else_is_computed(tmp_path, name):
    entry = {**GENERATED["gen"][0], "url": EVIL[name]}
    refs = {**GENERATED, "gen": [entry], "templates": {"u": "raw", "g": "{{ g(c='x') }}"}}
    (tmp_path / "r.json").write_text(json.dumps(refs))
    with pytest.raises(jnrrdz.JnrrdzError):
        jnrrdz.open_group(tmp_path / "r.json")["data"][...]


@pytest.mark.parametrize("dimensions", [{"i": {"stop": 10**12}}, {n: {"stop": 10**4} for n in "ij"}, {"i": {}}, {}])
def test_as_many_references_as_a_line_can_ask_for(tmp_path, dimensions):
    refs = {**GENERATED, "gen": [{**GENERATED["gen"][0], "dimensions": dimensions}]}
    (tmp_path / "r.json").write_text(json.dumps(refs))
    with pytest.raises(jnrrdz.JnrrdzError, match="gen"):
        jnrrdz.open_group(tmp_path / "r.json")


def test_what_version_3_cannot_say_is_left_out_by_name(make_hdf5, tmp_path):
    def write(file):
        file["numbers"] = np.arange(6.0)
        file["names"] = np.array([b"ab", b"cd"])

    path = make_hdf5(write)
    (tmp_path / "r.json").write_text(json.dumps(SingleHdf5ToZarr(str(path), inline_threshold=0).translate()))
    with pytest.warns(UserWarning, match="left out: .*names"):
        group = jnrrdz.open_group(tmp_path / "r.json")
    np.testing.assert_array_equal(group["numbers"][...], np.arange(6.0))
    assert "names" not in group
    with h5py.File(path, "a") as file:
        del file["numbers"]
    (tmp_path / "r.json").write_text(json.dumps(SingleHdf5ToZarr(str(path), inline_threshold=0).translate()))
    with pytest.raises(jnrrdz.UnsupportedError, match="numbers are read"):
        jnrrdz.open_group(tmp_path / "r.json")


def test_a_filter_of_grib_is_refused_by_name(tmp_path):
    refs = json.loads(json.dumps(GENERATED))
    document = {**json.loads(refs["refs"]["data/.zarray"]), "filters": [{"id": "grib", "var": "t2m"}]}
    refs["refs"]["data/.zarray"] = json.dumps(document)
    (tmp_path / "r.json").write_text(json.dumps(refs))
    with pytest.raises(jnrrdz.UnsupportedError, match="codec 'grib' of Zarr v2"):
        jnrrdz.open_group(tmp_path / "r.json")


def test_commands(references, tmp_path):
    refs, expected = references
    (tmp_path / "r.json").write_text(json.dumps(refs))
    run = CliRunner().invoke
    done = run(cli, ["index", str(tmp_path / "r.json"), "-o", str(tmp_path / "x.json")])
    assert (done.exit_code, "jnrrdz convert" in done.stderr) == (1, True)
    facts = json.loads(run(cli, ["info", "--json", str(tmp_path / "r.json")]).stdout)
    assert facts["state"] == "ok"
    done = run(cli, ["preview", str(tmp_path / "r.json"), "-o", str(tmp_path / "p.png")])
    assert done.exit_code == 0, done.output
    with rasterio.open(tmp_path / "p.png") as picture:
        assert (picture.height, picture.width) == expected["gaps"].shape


def test_trust_and_what_became_of_the_source(references, tmp_path):
    refs, _ = references
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "r.json").write_text(json.dumps(refs))
    with pytest.raises(jnrrdz.UntrustedSourceError):
        xr.open_dataset(tmp_path / "elsewhere" / "r.json", engine="jnrrdz").load()
    xr.open_dataset(tmp_path / "elsewhere" / "r.json", engine="jnrrdz", allow=[str(tmp_path)]).load()
    (tmp_path / "r.json").write_text(json.dumps(refs))
    data = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(data[: len(data) // 2])
    assert not jnrrdz.verify(tmp_path / "r.json").ok
    with pytest.raises(jnrrdz.JnrrdzError):
        xr.open_dataset(tmp_path / "r.json", engine="jnrrdz").load()
    shutil.move(tmp_path / "a.nc", tmp_path / "b.nc")
    assert not jnrrdz.verify(tmp_path / "r.json").ok
