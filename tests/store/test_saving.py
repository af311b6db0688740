"""What is opened can be saved: as Zarr 3 and 2, as netCDF by two libraries, as GeoTIFF by rioxarray.

Saved files are read back by zarr, netCDF4 and rasterio alone, and compared with what other readers see in the source.
"""

import json
from dataclasses import dataclass
from typing import Any

import astropy.io.fits
import h5py
import hdf5plugin  # noqa: F401  its filters have to be here before those of netCDF4
import imagecodecs
import netCDF4
import nrrd
import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401  gives datasets `.rio`
import tifffile
import xarray as xr
import zarr

import jnrrdz
from tests import writers
from tests.readers import by_gdal

RNG = np.random.default_rng(23)
NODATA = 60000

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*matmul:PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Transform that is non-rectilinear:UserWarning"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:nrrd"),
]


@dataclass
class Source:
    """A file, and its pixels as another reader sees them."""

    path: Any
    pixels: Any
    name: str = "data"


def noise(*shape, dtype="u2", most=60000):
    pixels = RNG.integers(0, most, shape).astype(dtype)
    pixels[..., :3, :5] = most
    return pixels


def geotiff(at, pixels, **options):
    path = writers.geotiff(at / "a.tif", pixels, **{**writers.PLACE, **writers.TILES, **options})
    seen = by_gdal(path)
    return Source(path, seen if pixels.ndim > 2 else seen[0])


def predictor(at):
    return geotiff(at, noise(3, 100, 130), predictor=2, nodata=NODATA, interleave="pixel")


def planar(at):
    return geotiff(at, noise(3, 100, 130), predictor=2, nodata=NODATA, interleave="band", bigtiff="yes")


def floats(at):
    pixels = noise(100, 130).astype("f4")
    pixels[20:30] = np.nan
    return geotiff(at, pixels, predictor=3, compress="zstd", nodata=np.nan)


def jpeg(at):
    return geotiff(
        at, noise(3, 128, 128, dtype="u1", most=255), compress="jpeg", photometric="ycbcr", interleave="pixel"
    )


def lerc(at):
    return geotiff(at, noise(100, 130), compress="lerc")


def bits(at):
    path = at / "a.tif"
    pixels = noise(40, 64) > NODATA // 2
    tifffile.imwrite(path, pixels)
    return Source(path, pixels)


def palette(at):
    path = writers.geotiff(at / "a.tif", noise(60, 70, dtype="u1", most=3), nodata=3, **writers.PLACE)
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, {number: (number, 2, 3, 255) for number in range(4)})
        file.update_tags(1, NAME="a name")
        file.update_tags(ns="RPC", LINE_OFF="3")
    return Source(path, by_gdal(path)[0])


def rotated(at):
    turned = rasterio.Affine(10, 2, 300000, 2, -10, 5000000)
    return geotiff(at, noise(100, 130), transform=turned)


def jpeg2000(at):
    path = at / "a.jp2"
    pixels = noise(128, 96)
    path.write_bytes(imagecodecs.jpeg2k_encode(pixels, level=0, reversible=True, codecformat="jp2"))
    return Source(path, by_gdal(path)[0])


def nitf(at):
    place = {"crs": "EPSG:4326", "transform": rasterio.Affine(0.01, 0, 10, 0, -0.01, 50), "ICORDS": "G"}
    path = writers.gdal_image(at / "a.ntf", noise(40, 50), driver="NITF", **place)
    return Source(path, by_gdal(path)[0])


def n5(at):
    pixels = noise(40, 50)
    writers.n5_dataset(at / "a.n5/v/raw", pixels.T, [32, 32], "gzip", axes=["x", "y"])
    return Source(at / "a.n5", pixels)


def nrrd_file(at):
    pixels = noise(6, 40, 50, dtype="i2", most=3000)
    nrrd.write(str(at / "a.nrrd"), pixels, {"encoding": "raw", "spacings": [1, 2, 3]}, index_order="C")
    return Source(at / "a.nrrd", nrrd.read(str(at / "a.nrrd"), index_order="C")[0])


def jnrrd(at):
    source = geotiff(at, noise(100, 130))
    jnrrdz.tile(source.path, at / "a.jnrrd", tile=(32, 32))
    return Source(at / "a.jnrrd", source.pixels)


def hdf5(at):
    with h5py.File(at / "a.h5", "w") as file:
        file.attrs["title"] = "a test"
        made = file.create_dataset("raw", data=noise(40, 50), chunks=(16, 16), compression="gzip", shuffle=True)
        made.attrs["is good"] = True
        made.attrs["a/b"] = 3
    with h5py.File(at / "a.h5") as file:
        return Source(at / "a.h5", file["raw"][:], "raw")


def netcdf(at):
    with netCDF4.Dataset(at / "a.nc", "w") as target:
        target.createDimension("y", 40)
        target.createDimension("x", 50)
        packed = target.createVariable("packed", "u2", ("y", "x"), fill_value=NODATA, zlib=True)
        packed.scale_factor, packed.add_offset = 0.5, 10.0
        packed.set_auto_maskandscale(False)
        packed[:] = noise(40, 50)
    return Source(at / "a.nc", stored_netcdf(at / "a.nc", "packed"), "packed")


def fits(at):
    astropy.io.fits.PrimaryHDU(noise(40, 50, dtype="i2", most=3000)).writeto(at / "a.fits")
    with astropy.io.fits.open(at / "a.fits") as file:
        return Source(at / "a.fits", file[0].data.astype("i2"), "PRIMARY")


def zarr_2(at):
    made = zarr.create_group(at / "a.zarr", zarr_format=2).create_array(
        "v", shape=(40, 50), chunks=(16, 16), dtype="u2"
    )
    made.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    made[:] = noise(40, 50)
    return Source(at / "a.zarr", zarr.open_array(at / "a.zarr" / "v")[:], "v")


SOURCES = [
    predictor,
    planar,
    floats,
    jpeg,
    lerc,
    bits,
    palette,
    rotated,
    jpeg2000,
    nitf,
    n5,
    nrrd_file,
    jnrrd,
    hdf5,
    netcdf,
    fits,
    zarr_2,
]


@pytest.fixture(params=SOURCES, ids=lambda made: made.__name__)
def source(request, tmp_path):
    return request.param(tmp_path)


def stored_netcdf(path, name):
    """Return numbers as netCDF4 finds them in the file, booleans from the bytes that netCDF has for them."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        variable = file[name]
        is_boolean = "dtype" in variable.ncattrs()
        return np.asarray(variable[:], bool if is_boolean else None)


def stored_zarr(path, name):
    return zarr.open_group(path, mode="r")[name][...]


def assert_stored(stored, source):
    """Check numbers as they are stored: those of the source, in its type."""
    assert stored.dtype == source.pixels.dtype
    np.testing.assert_array_equal(stored, source.pixels)


SAVED = {
    "zarr 3": (lambda found, path: found.to_zarr(path, zarr_format=3), stored_zarr),
    "zarr 2": (lambda found, path: found.to_zarr(path, zarr_format=2), stored_zarr),
    "netCDF4": (lambda found, path: found.to_netcdf(path, engine="netcdf4"), stored_netcdf),
    "h5netcdf": (lambda found, path: found.to_netcdf(path, engine="h5netcdf"), stored_netcdf),
}


@pytest.fixture(params=[None, {}], ids=["numpy", "dask"])
def opened(request, source, tmp_path):
    """A manifest as xarray opens it, with arrays of numpy and of dask."""
    jnrrdz.index(source.path, tmp_path / "refs.json")
    return xr.open_dataset(tmp_path / "refs.json", chunks=request.param)


def test_saved_by_every_writer(opened, source, tmp_path):
    for name, (save, read) in SAVED.items():
        path = tmp_path / name
        save(opened, path)
        assert_stored(read(path, source.name), source)


def test_a_copy_opens_as_what_was_saved(opened, tmp_path):
    opened.to_netcdf(tmp_path / "copy.nc")
    with xr.open_dataset(tmp_path / "copy.nc") as copy:
        xr.testing.assert_equal(copy.reset_coords(), opened.reset_coords())
    opened.to_zarr(tmp_path / "copy.zarr")
    with xr.open_dataset(tmp_path / "copy.zarr", engine="zarr") as copy:
        xr.testing.assert_identical(copy.reset_coords(), opened.reset_coords())


@pytest.mark.parametrize("made", [predictor, planar, floats, jpeg2000, nitf, rotated])
@pytest.mark.parametrize("chunks", [None, {}], ids=["numpy", "dask"])
def test_saved_by_rioxarray(made, chunks, tmp_path):
    source = made(tmp_path)
    found = xr.open_dataset(source.path, engine="jnrrdz", chunks=chunks)["data"]
    found.rio.to_raster(tmp_path / "copy.tif")
    with rasterio.open(tmp_path / "copy.tif") as copy, rasterio.open(source.path) as original:
        np.testing.assert_array_equal(copy.read(), original.read())
        assert copy.dtypes == original.dtypes
        assert (copy.crs, copy.transform.almost_equals(original.transform)) == (original.crs, True)
        np.testing.assert_array_equal(copy.nodata, original.nodata)


def test_nothing_that_is_opened_names_a_codec(opened):
    for variable in opened.variables.values():
        assert not {"compressor", "compressors", "filters", "serializer", "shards"} & variable.encoding.keys()


def test_attributes_are_what_netcdf_holds(tmp_path):
    source = palette(tmp_path)
    jnrrdz.index(source.path, tmp_path / "refs.json")
    found = xr.open_dataset(tmp_path / "refs.json")
    with rasterio.open(source.path) as file:
        colours = [list(colour) for colour in file.colormap(1).values()]
    assert json.loads(found["data"].attrs["color_table"]) == colours
    assert json.loads(found.attrs["jnrrdz"])["sources"][0]["url"] == str(source.path)
    found.to_netcdf(tmp_path / "copy.nc")
    with netCDF4.Dataset(tmp_path / "copy.nc") as copy:
        assert json.loads(copy["data"].color_table) == colours
    # the manifest's own documents are nested, as Zarr's conventions have them
    assert jnrrdz.open_group(tmp_path / "refs.json")["data"].attrs["color_table"] == colours


def test_a_tree(tmp_path):
    path = writers.cog(tmp_path / "a.tif", noise(600, 500), OVERVIEW_RESAMPLING="nearest")
    jnrrdz.index(path, tmp_path / "refs.json")
    tree = xr.open_datatree(tmp_path / "refs.json")
    tree.to_zarr(tmp_path / "copy.zarr")
    tree.to_netcdf(tmp_path / "copy.nc")
    with netCDF4.Dataset(tmp_path / "copy.nc") as copy:
        for level in range(2):
            expected = by_gdal(path, level)[0]
            np.testing.assert_array_equal(stored_zarr(tmp_path / "copy.zarr", f"{level}/data"), expected)
            np.testing.assert_array_equal(copy[f"{level}/data"][:], expected)


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_cube(tmp_path, is_appended):
    paths = [tmp_path / f"s_2024010{day}_B{band}.tif" for day in (1, 2, 3) for band in (2, 4)]
    pixels = [noise(100, 130) for _ in paths]
    for path, own in zip(paths, pixels, strict=True):
        writers.geotiff(path, own, **writers.PLACE, **writers.TILES, predictor=2)
    choices = {"time_from": r"_(\d{8})_", "band_from": r"_(B\d)"}
    first = len(paths) - 2 if is_appended else len(paths)
    jnrrdz.cube(paths[:first], tmp_path / "cube.json", **choices)
    if is_appended:
        jnrrdz.cube(paths[first:], tmp_path / "cube.json", append=True, **choices)
    found = xr.open_dataset(tmp_path / "cube.json")
    expected = np.reshape(pixels, (3, 2, 100, 130))
    for name, (save, read) in SAVED.items():
        save(found, tmp_path / name)
        np.testing.assert_array_equal(read(tmp_path / name, "data"), expected)
    found["data"].sel(time="2024-01-02", band="B4").rio.to_raster(tmp_path / "copy.tif")
    np.testing.assert_array_equal(by_gdal(tmp_path / "copy.tif")[0], expected[1, 1])


def test_physical_values(tmp_path):
    path = predictor(tmp_path).path
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.5,) * 3, (-7.0,) * 3
    jnrrdz.index(path, tmp_path / "refs.json", physical=True)
    found = xr.open_dataset(tmp_path / "refs.json")
    stored = by_gdal(path)
    expected = np.where(stored == NODATA, np.nan, stored * 0.5 - 7).astype("f4")
    for name, (save, read) in SAVED.items():
        save(found, tmp_path / name)
        np.testing.assert_array_equal(read(tmp_path / name, "data"), expected)
    found["data"].rio.to_raster(tmp_path / "copy.tif")
    np.testing.assert_array_equal(by_gdal(tmp_path / "copy.tif"), expected)


def test_a_window(tmp_path):
    source = predictor(tmp_path)
    found = xr.open_dataset(source.path, engine="jnrrdz").isel(y=slice(10, 90), x=slice(30, 75))
    found.to_zarr(tmp_path / "copy.zarr")
    expected = source.pixels[:, 10:90, 30:75]
    np.testing.assert_array_equal(stored_zarr(tmp_path / "copy.zarr", "data"), expected)
    found["data"].rio.to_raster(tmp_path / "copy.tif")
    with rasterio.open(tmp_path / "copy.tif") as copy, rasterio.open(source.path) as original:
        np.testing.assert_array_equal(copy.read(), expected)
        assert copy.transform.almost_equals(original.transform * rasterio.Affine.translation(30, 10))
