"""Rows of formats whose parsers are others', of Zarr, and of references of others."""

import json
import shutil
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import jnrrdz
import numcodecs
import numpy as np
import rioxarray  # noqa: F401  gives datasets their place
import tifffile
import xarray as xr
import zarr
from astropy.io import fits
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from tests.foreign.test_reading import DMRPP
from tests.matrix.readers import (
    by_astropy,
    by_gdal,
    by_h5py,
    by_numbers,
    by_tifffile,
    by_xarray,
)
from tests.matrix.row import Row
from tests.matrix.sources_tiff import SIZE, by_gdal_tiff, noise
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # kerchunk imports what numcodecs and zarr have moved
    from kerchunk.hdf import SingleHdf5ToZarr
    from kerchunk.tiff import tiff_to_zarr

OSML = Path(__file__).parents[1] / "codecs" / "golden" / "osml"
STACK = (3, 32, 48)
CHUNKS = (1, 16, 16)


def heights(seed):
    """Return a packed variable with a grid, as a dataset that is not decoded."""
    numbers = noise(seed, STACK, "i2", low=-99)
    packing = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": np.int16(7)}
    x, y = np.arange(48) * 0.25 + 15, 45 - np.arange(32) * 0.25
    return xr.Dataset({"t2m": (("z", "y", "x"), numbers, packing)}, {"x": x, "y": y})


def netcdf4(path, seed):
    encoding = {"t2m": {"zlib": True, "shuffle": True, "chunksizes": CHUNKS}}
    heights(seed).to_netcdf(path, engine="netcdf4", encoding=encoding)


def netcdf3(path, seed, engine="scipy", **options):
    heights(seed).to_netcdf(path, engine=engine, **options)


def hdf5(path, seed, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=noise(seed, STACK, "i4"), **options)


def fits_image(path, seed):
    fits.PrimaryHDU(noise(seed, SIZE, ">i2")).writeto(path)


def dmrpp(path, seed):
    pixels = noise(seed, SIZE, "<f4")
    name = path.stem
    path.with_name(name).write_bytes(b"head" + pixels.tobytes())
    text = DMRPP.format(rows=SIZE[0], columns=SIZE[1], nbytes=pixels.nbytes)
    path.write_text(text.replace("d.bin", name))


def bytes_of_dmrpp(path):
    data = path.with_name(path.stem).read_bytes()[4:]
    return np.frombuffer(data, "<f4").reshape(SIZE)


def by_zarr_of(path, seed, *, version=3, **options):
    root = zarr.create_group(path, zarr_format=version)
    names = ("y", "x")
    own = {"dimension_names": names} if version == 3 else {}
    array = root.create_array(
        "v", shape=SIZE, dtype="i4", chunks=(16, 16), **own, **options
    )
    array[...] = noise(seed, SIZE, "i4")
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = names


def references(write_source, translate, ending):
    """Return a function that writes a file next to the references to it."""

    def write(path, seed):
        source = path.with_name(f"{path.stem}{ending}")
        write_source(source, seed)
        path.write_text(json.dumps(translate(source)))

    return write


def of_hdf5(path):
    return SingleHdf5ToZarr(str(path), inline_threshold=0).translate()


def of_tiff(path):
    return tiff_to_zarr(str(path))


def by_aszarr(path, seed, *, version=2, **options):
    """Write a TIFF, and tifffile's references to it."""
    source = path.with_suffix(".tif")
    by_gdal_tiff(source, seed, **options)
    with tifffile.imread(source, aszarr=True) as store:
        store.write_fsspec(str(path), source.parent.as_uri(), zarr_format=version)


def by_virtualizarr(path):
    """Return VirtualiZarr's references to a file of HDF5."""
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    with open_virtual_dataset(path.as_uri(), registry, HDFParser()) as virtual:
        return virtual.vz.to_kerchunk(format="dict")


def golden(name, source):
    """Return a function that copies a manifest of osml-imagery-io and its source."""

    def write(path, _seed):
        shutil.copy(OSML / source, path.with_name(source))
        shutil.copy(OSML / f"{name}.json", path)

    return write


def with_grid(path, seed):
    """Write a variable with CF's grid mapping, by rioxarray."""
    pixels = xr.DataArray(noise(seed, SIZE, "f4"), dims=("y", "x"), name="dem")
    pixels = pixels.assign_coords(
        x=500005 + 10.0 * np.arange(48), y=5e6 - 5 - 10.0 * np.arange(64)
    )
    placed = pixels.rio.write_crs("EPSG:32633").rio.write_transform()
    placed.to_dataset().to_netcdf(path, engine="netcdf4")


def read_next(read, ending):
    """Return a function that reads the file next to the references."""
    return lambda path: read(path.with_name(f"{path.stem}{ending}"))


def converted(source, out, *, codecs, **options):  # noqa: ARG001  codecs are others'
    """Write the references of others as a manifest of another form."""
    jnrrdz.convert(source, out, **options)


def foreign(  # noqa: PLR0913, PLR0917  a table's columns
    name, by, write, read, reader, file, variable="v", traits=(), **own
):
    traits = frozenset({*traits, "foreign"})
    return Row(name, by, write, read, reader, file, variable, traits=traits, **own)


def refs(  # noqa: PLR0913, PLR0917  the same
    name, by, write, read, reader, variable="data", **own
):
    own["traits"] = {"references", *own.get("traits", ())}
    return foreign(
        name, by, write, read, reader, "d_{}.refs", variable, make=converted, **own
    )


def osml(name, manifest, source):
    """Return the row of a manifest that osml-imagery-io wrote, which GDAL compares."""

    def read(path):
        view = by_gdal(path.with_name(source))
        pixels = view.pixels.reshape(-1, *view.pixels.shape[-2:])
        return replace(view, pixels=pixels, dims=("bands", "y", "x"), colours=())

    write = golden(manifest, source)
    own = {"group": "0", "is_same": True, "traits": {"our codec"}}
    return refs(name, "osml-imagery-io", write, read, "GDAL", **own)


T2M = "t2m"
PHONY = ("phony_dim_0", "phony_dim_1", "phony_dim_2")
ZARR = by_xarray("zarr", "v")
ZARR_3_TIFF = read_next(by_tifffile("Y", "X"), ".tif")  # whose fill value is no nodata
KERCHUNK_TIFF = read_next(by_tifffile("Y", "X", nodata=0), ".tif")
# fmt: off
FOREIGN = [
    foreign("HDF5 contiguous", "h5py", hdf5, by_h5py("v", *PHONY), "h5py",
            "d_{}.h5"),
    foreign("HDF5 gzip", "h5py", partial(hdf5, chunks=CHUNKS, compression="gzip",
            shuffle=True), by_h5py("v", *PHONY), "h5py", "d_{}.h5"),
    foreign("netCDF-4", "netCDF4", netcdf4, by_xarray("netcdf4", T2M), "netCDF4",
            "d_{}.nc", T2M),
    foreign("netCDF-3", "scipy", netcdf3, by_xarray("scipy", T2M), "scipy", "d_{}.nc",
            T2M),
    foreign("netCDF-3 of 64 bits", "netCDF4", partial(netcdf3, engine="netcdf4",
            format="NETCDF3_64BIT"), by_xarray("netcdf4", T2M), "netCDF4", "d_{}.nc",
            T2M),
    foreign("netCDF-4, grid mapping", "rioxarray", with_grid,
            by_xarray("netcdf4", "dem"), "netCDF4", "d_{}.nc", "dem", {"place"}),
    foreign("FITS", "astropy", fits_image, by_astropy("PRIMARY_y", "PRIMARY_x"),
            "astropy", "d_{}.fits", "PRIMARY"),
    foreign("DMR++", "by hand", dmrpp, by_numbers(bytes_of_dmrpp, "y", "x"), "numpy",
            "d_{}.bin.dmrpp", "gaps"),
    foreign("Zarr 2", "zarr", partial(by_zarr_of, version=2,
            compressors=numcodecs.Zstd()), ZARR, "zarr", "d_{}.zarr"),
    foreign("Zarr 2, filters", "zarr", partial(by_zarr_of, version=2,
            filters=[numcodecs.Shuffle(4)], compressors=numcodecs.Zlib()),
            ZARR, "zarr", "d_{}.zarr"),
    foreign("Zarr 3", "zarr", by_zarr_of, ZARR, "zarr", "d_{}.zarr"),
    foreign("Zarr 3, shards", "zarr", partial(by_zarr_of, shards=(32, 48)),
            ZARR, "zarr", "d_{}.zarr"),
    refs("kerchunk of HDF5", "kerchunk", references(partial(hdf5, chunks=CHUNKS,
         compression="gzip"), of_hdf5, ".h5"),
         read_next(by_h5py("v", *PHONY, nodata=0), ".h5"),
         "h5py", "v"),
    refs("VirtualiZarr of HDF5", "VirtualiZarr", references(partial(hdf5, chunks=CHUNKS,
         compression="gzip"), by_virtualizarr, ".h5"),
         read_next(by_h5py("v", *PHONY, nodata=0), ".h5"), "h5py", "v"),
    osml("osml, TIFF", "u2_lzw_predictor2_tiles", "u2_lzw_predictor2_tiles.tif"),
    osml("osml, JPEG 2000", "scattered", "scattered.j2k"),
    osml("osml, NITF blocks", "block", "block.ntf"),
    osml("osml, NITF JPEG", "jpeg", "jpeg.ntf"),
    refs("kerchunk of TIFF", "kerchunk",
         references(partial(by_gdal_tiff, compress="deflate"), of_tiff, ".tif"),
         KERCHUNK_TIFF, "tifffile"),
    refs("tifffile's references 2", "tifffile", partial(by_aszarr, compress="lzw",
         predictor=2, dtype="u2"), KERCHUNK_TIFF, "tifffile", traits={"our codec"}),
    refs("tifffile's references 3", "tifffile", partial(by_aszarr, version=3,
         compress="deflate"), ZARR_3_TIFF, "tifffile"),
]
# fmt: on
