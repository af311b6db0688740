"""Opening a dataset without zarr: all that xarray's own Zarr engine gives of the same store, and its pickles."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import imagecodecs
import netCDF4
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
import zarr

import jnrrdz
from tests import writers

RNG = np.random.default_rng(17)
CORPUS = Path(os.environ.get("JNRRDZ_CORPUS", "/nowhere"))


def noise(*shape, dtype="u1"):
    return RNG.integers(0, 100, shape).astype(dtype)


def tiff(path, pixels, place=None, **options):
    crs = place or {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
    return writers.geotiff(path, pixels, **crs, tiled=True, blockxsize=32, blockysize=32, **options)


def n5(path):
    writers.n5_dataset(path / "v/raw", noise(50, 40, dtype="u2"), [32, 32], "gzip", axes=["x", "y"])
    return path


def nrrd(path):
    pixels = noise(40, 50, dtype=">i2")
    path.write_bytes(writers.nrrd_of(pixels) + pixels.tobytes())
    return path


def pages(path):
    for width in (20, 30):
        tifffile.imwrite(path, noise(40, width), append=width > 20)
    return path


def jpeg2000(path):
    path.write_bytes(imagecodecs.jpeg2k_encode(noise(128, 96), level=0, reversible=True, codecformat="jp2"))
    return path


def nitf(path):
    place = {"crs": "EPSG:4326", "transform": rasterio.Affine(0.01, 0, 10, 0, -0.01, 50), "ICORDS": "G"}
    return writers.gdal_image(path, noise(40, 50, dtype="u2"), driver="NITF", **place)


def netcdf(path):
    """Times, a packed variable with missing values, a variable without chunks."""
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as target:
        target.createDimension("time", 3)
        target.createDimension("x", 8)
        time = target.createVariable("time", "f8", ("time",))
        time.units, time[:] = "days since 2024-01-01", [0, 1, 5]
        packed = target.createVariable("packed", "i2", ("time", "x"), fill_value=-9)
        packed.scale_factor, packed.add_offset = 0.5, 10.0
        packed.set_auto_maskandscale(False)
        packed[:] = noise(3, 8, dtype="i2")
        target.title = "a test"
    return path


SOURCES = {
    "cog": lambda at: writers.cog(at / "a.tif", noise(600, 600), COMPRESS="DEFLATE"),
    "rgb": lambda at: tiff(at / "a.tif", noise(3, 64, 64), interleave="pixel", compress="lzw", predictor=2),
    "float": lambda at: tiff(at / "a.tif", noise(40, 50, dtype="f4"), nodata=np.nan, compress="zstd", predictor=3),
    "double": lambda at: tiff(at / "a.tif", noise(40, 50, dtype="f8"), nodata=-1.7e308),
    "signed": lambda at: tiff(at / "a.tif", noise(40, 50, dtype="i2"), nodata=-32767, compress="deflate"),
    "complex": lambda at: tiff(at / "a.tif", noise(40, 50, dtype="c8")),
    "bits": lambda at: tifffile.imwrite(at / "a.tif", noise(40, 64) > 50) or at / "a.tif",
    "pages": lambda at: pages(at / "a.tif"),
    "n5": lambda at: n5(at / "a.n5"),
    "nrrd": lambda at: nrrd(at / "a.nrrd"),
    "jpeg2000": lambda at: jpeg2000(at / "a.jp2"),
    "nitf": lambda at: nitf(at / "a.ntf"),
    "netcdf": lambda at: netcdf(at / "a.nc"),
}
FORMS = {"json": {}, "parquet": {}, "icechunk": {}, "proposal": {"codecs": "proposal"}}


CODECS = {"compressors", "filters", "serializer", "shards"}


def scalars(encoding):
    """Return an encoding without codecs, which an opened dataset leaves out, and scalars by their bytes."""
    found = {name: value for name, value in encoding.items() if name not in CODECS}
    for name, value in found.items():
        if isinstance(value, np.generic):
            found[name] = (value.dtype.str, value.tobytes())
        if isinstance(value, np.dtype):
            found[name] = value.str
    return found


def texts(attributes):
    """Return attributes with nested ones as netCDF holds them: as JSON text."""
    found = {}
    for name, value in attributes.items():
        items = value if isinstance(value, list) else [value]
        is_nested = any(isinstance(item, dict | list | bool) for item in items)
        found[name] = json.dumps(value, separators=(",", ":")) if is_nested else value
    return found


def without_bands(attributes):
    """Return attributes without facts of bands, for which tests/store/test_band_coordinates.py is."""
    names = {"band_names", "long_name", "colorinterp", "bits_per_sample", "statistics", "band_metadata"}
    return {name: value for name, value in attributes.items() if name not in names}


def assert_same(name, **options):
    """Compare every group with what xarray's own engine reads of the same store."""
    store = jnrrdz.open_store(name)
    for path, node in jnrrdz.open_datatree(name, **options).subtree_with_keys:
        group = "" if path == "." else path
        whole = xr.open_dataset(store, engine="zarr", group=group, consolidated=False, zarr_format=3, **options)
        found, expected = node.to_dataset(inherit=False), whole
        assert [each for each in found.variables if each in expected.variables] == list(expected.variables)
        assert list(found.attrs.items()) == list(texts(expected.attrs).items())
        for each, theirs in expected.variables.items():
            ours = found.variables[each]
            ours.attrs, theirs.attrs = without_bands(ours.attrs), without_bands(texts(theirs.attrs))
            assert repr(ours.dtype) == repr(theirs.dtype)
            xr.testing.assert_identical(ours.to_base_variable(), theirs.to_base_variable())
            assert repr(scalars(ours.encoding)) == repr(scalars(theirs.encoding)), each
            assert not CODECS & ours.encoding.keys()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.filterwarnings("ignore::jnrrdz.ImageChoiceWarning", "ignore:In a future version:FutureWarning")
def test_every_variable_is_what_xarrays_own_engine_gives(tmp_path, source, form):
    name = SOURCES[source](tmp_path)
    out = tmp_path / f"refs.{'json' if form == 'proposal' else form}"
    jnrrdz.index(name, out, **FORMS[form])
    assert_same(out)
    assert_same(out, mask_and_scale=False, decode_times=False)
    if form == "json":
        assert_same(name)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_stack_along_time_whose_coordinate_is_stored(tmp_path, form):
    for day in (1, 2):
        tiff(tmp_path / f"2024010{day}.tif", noise(64, 64))
        jnrrdz.index(tmp_path / f"2024010{day}.tif", tmp_path / f"2024010{day}.json")
    out = tmp_path / f"stack.{form}"
    jnrrdz.merge(sorted(tmp_path.glob("*.json")), out, concat_dim="time", coord_from=r"(\d{8})")
    assert_same(out)
    assert jnrrdz.open_dataset(out).sel(time="2024-01-02").sizes == {"y": 64, "x": 64}


@pytest.mark.skipif(not CORPUS.exists(), reason="JNRRDZ_CORPUS says where the corpus is")
@pytest.mark.filterwarnings("ignore")
def test_files_of_the_corpus():
    names = sorted(path for path in CORPUS.rglob("*.tif") if path.stat().st_size < 1 << 16)
    compared = 0
    for name in names[::10]:
        try:
            found = jnrrdz.scan(name)
        except jnrrdz.JnrrdzError:
            continue
        if all(array.refs.chunks < 50 for _, array in found.arrays()):
            try:
                jnrrdz.open_datatree(found).load()
            except jnrrdz.JnrrdzError:
                continue
            assert_same(found)
            compared += 1
    assert compared > 10


def edited(folder, **members):
    """Return a manifest whose array says something else."""
    tifffile.imwrite(folder / "a.tif", noise(64, 64), tile=(32, 32), metadata=None)
    jnrrdz.index(folder / "a.tif", folder / "a.json")
    manifest = json.loads((folder / "a.json").read_text())
    document = json.loads(manifest["refs"]["data/zarr.json"])
    manifest["refs"]["data/zarr.json"] = json.dumps(document | members)
    (folder / "b.json").write_text(json.dumps(manifest))
    return folder / "b.json"


SHARD = {"chunk_shape": [16, 32], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]}
STRANGE = {
    "a member that has to be understood": {"other": {"name": "o", "must_understand": True}},
    "shards": {"codecs": [{"name": "sharding_indexed", "configuration": SHARD | {"index_location": "end"}}]},
    "no codec of the list": {"codecs": [{"name": "vlen-bytes"}]},
    "two compressors": {"codecs": [{"name": "bytes"}, {"name": "zstd"}, {"name": "gzip"}]},
    "a type of zarr's": {"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}},
    "no names": {"dimension_names": None},
    "a fill value of another type": {"fill_value": "none"},
}


@pytest.mark.parametrize("strange", STRANGE)
def test_what_documents_do_not_tell_for_sure_is_zarrs_to_say(tmp_path, strange):
    name = edited(tmp_path, **STRANGE[strange])
    outcomes = []
    for open_ in (
        lambda: xr.open_dataset(jnrrdz.open_group(name).store, engine="zarr", consolidated=False, zarr_format=3),
        lambda: xr.open_dataset(name, engine="jnrrdz"),
    ):
        try:
            found = open_()
            outcomes.append({each: scalars(one.encoding | {"source": None}) for each, one in found.variables.items()})
        except (jnrrdz.JnrrdzError, KeyError, ValueError, TypeError) as error:
            outcomes.append(None if isinstance(error, jnrrdz.JnrrdzError) else str(error))
    ours, theirs = outcomes[1], outcomes[0]
    assert ours is None if isinstance(theirs, str) else repr(ours) == repr(theirs)


@pytest.fixture
def cog(tmp_path):
    pixels = noise(600, 600, dtype="u2")
    jnrrdz.index(writers.cog(tmp_path / "a.tif", pixels, COMPRESS="DEFLATE"), tmp_path / "a.json")
    return tmp_path / "a.json", pixels


WITHOUT_ZARR = """
import pickle, sys
import numpy as np
name, task = sys.argv[1:]
if task == "open":
    import xarray
    from jnrrdz.engine import JnrrdzBackend
    found = xarray.open_dataset(name, engine=JnrrdzBackend)
    pickle.dump((found, found["data"][3:5, 7]), open(name + ".pickle", "wb"))
    tree = xarray.open_datatree(name, engine=JnrrdzBackend)
    assert tree.children and found["x"].size
else:
    found, part = pickle.load(open(name + ".pickle", "rb"))
print("zarr" in sys.modules, "jnrrdz.store.store" in sys.modules)
print(found["data"][3:5, 7].values.astype(float).tolist(), "zarr" in sys.modules)
if task == "read":
    print(part.values.astype(float).tolist())
"""


def test_zarr_is_imported_with_the_first_chunk_and_not_to_unpickle(cog):
    name, pixels = cog
    expected = str(pixels[3:5, 7].astype(float).tolist())
    for task, more in (("open", []), ("read", [expected])):
        command = [sys.executable, "-c", WITHOUT_ZARR, str(name), task]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert lines == ["False False", f"{expected} True", *more]


def test_chunks_of_dask_by_threads_and_by_processes(cog):
    name, pixels = cog
    found = xr.open_dataset(name, engine="jnrrdz", chunks={})
    assert found["data"].data.chunksize == xr.open_dataset(name, engine="jnrrdz")["data"].encoding["chunks"]
    for scheduler in ("threads", "processes"):
        np.testing.assert_array_equal(found["data"].compute(scheduler=scheduler, num_workers=2), pixels)


def test_encodings_write_a_zarr_in_the_same_chunks(cog, tmp_path):
    name, pixels = cog
    xr.open_dataset(name, engine="jnrrdz").to_zarr(tmp_path / "copy.zarr", zarr_format=3, consolidated=False)
    copy, source = zarr.open_group(tmp_path / "copy.zarr")["data"], jnrrdz.open_group(name)["0/data"]
    np.testing.assert_array_equal(copy[...], pixels)
    assert (copy.chunks, copy.fill_value) == (source.chunks, source.fill_value)


def test_attributes_are_the_readers_own(cog):
    first = xr.open_dataset(cog[0], engine="jnrrdz")
    first["data"].attrs.clear()
    tree = jnrrdz.open_datatree(cog[0])
    tree.attrs.clear()
    assert jnrrdz.open_datatree(cog[0]).attrs["multiscales"]
    assert xr.open_dataset(cog[0], engine="jnrrdz")["data"].attrs


def test_a_manifest_that_changed_is_not_read_by_a_pickle_of_the_old_one(cog, tmp_path):
    kept = pickle.dumps(xr.open_dataset(cog[0], engine="jnrrdz"))
    jnrrdz.index(writers.cog(tmp_path / "b.tif", noise(700, 600)), cog[0], overwrite=True)
    with pytest.raises(jnrrdz.JnrrdzError, match="the manifest changed since it was opened"):
        pickle.loads(kept)["data"].load()
