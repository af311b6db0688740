"""Files of formats whose parsers are others', each written by its own library, and what their own readers see."""

import h5py
import numpy as np
import pytest
import xarray as xr
from astropy.io import fits

RANDOM = np.random.default_rng(15)
TIMES = {"units": "days since 2001-01-01", "calendar": "standard"}


def weather(types=("i2", "f4", "f8")):
    """Return packed numbers, plain ones with gaps, and a time, as a dataset that is not decoded."""
    packed, plain, times = types
    gaps = RANDOM.random((31, 47)).astype(plain)
    gaps[3, 4:9] = np.nan
    numbers = RANDOM.integers(-99, 99, (6, 31, 47)).astype(packed)
    return xr.Dataset(
        {
            "t2m": (
                ("time", "y", "x"),
                numbers,
                {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": numbers.dtype.type(7)},
            ),
            "gaps": (("y", "x"), gaps, {"_FillValue": gaps.dtype.type(np.nan), "units": "1"}),
            "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"}),
        },
        {"time": ("time", np.arange(6).astype(times), TIMES), "x": ("x", np.linspace(0, 4.6, 47))},
        {"title": "weather"},
    )


def netcdf4(path):
    chunked = {"zlib": True, "shuffle": True, "fletcher32": True, "chunksizes": (2, 10, 16)}
    encoding = {"t2m": chunked, "gaps": {"zlib": True, "complevel": 1, "chunksizes": (31, 7)}}
    weather().to_netcdf(path, engine="netcdf4", encoding=encoding, unlimited_dims=["time"])


def hdf5(path):
    weather().to_netcdf(path, engine="h5netcdf", encoding={"t2m": {"compression": "gzip", "chunksizes": (1, 31, 47)}})


def classic(name):
    def write(path):
        weather(("i2", "f4", "f8")).to_netcdf(path, engine="netcdf4", format=name, unlimited_dims=["time"])

    return write


def scipy_classic(path):
    weather().to_netcdf(path, engine="scipy")


WRITERS = {
    "netCDF-4 by netCDF4": (netcdf4, "a.nc", "netcdf4"),
    "netCDF-4 by h5netcdf": (hdf5, "b.nc", "h5netcdf"),
    "CDF-1": (classic("NETCDF3_CLASSIC"), "c.nc", "netcdf4"),
    "CDF-2": (classic("NETCDF3_64BIT"), "d.nc", "netcdf4"),
    "CDF-5": (classic("NETCDF3_64BIT_DATA"), "e.nc", "netcdf4"),
    "CDF-1 by scipy": (scipy_classic, "f.nc", "scipy"),
}


@pytest.fixture(params=WRITERS, scope="session")
def written(request, tmp_path_factory):
    """Return the path of a file of each kind, and the dataset that its own reader sees."""
    write, name, engine = WRITERS[request.param]
    path = tmp_path_factory.mktemp("foreign") / name
    write(path)
    with xr.open_dataset(path, engine=engine) as opened:
        return path, opened.load()


@pytest.fixture
def make_hdf5(tmp_path):
    """Return a function that writes an HDF5 file by a function of the open file."""

    def make(write, name="x.h5", **options):
        with h5py.File(tmp_path / name, "w", **options) as file:
            write(file)
        return tmp_path / name

    return make


@pytest.fixture
def make_fits(tmp_path):
    """Return a function that writes HDUs."""

    def make(*hdus, name="x.fits"):
        fits.HDUList(list(hdus)).writeto(tmp_path / name)
        return tmp_path / name

    return make
