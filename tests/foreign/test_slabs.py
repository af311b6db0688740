"""Arrays of HDF5, netCDF and FITS that are stored in one piece are cut, whatever their shape."""

import h5py
import netCDF4
import numpy as np
import pytest
import scipy.io
from astropy.io import fits

import jnrrdz

TARGET = 16 << 20
SHAPES = {
    "prime": (2_097_169,),
    "leading one": (1, 1, 2300, 2000),
    "row": (1, 5_000_011),
    "prime rows": (2_003, 1_100),
    "days": (366, 91, 181),
}


def by_hdf5(path, pixels):
    with h5py.File(path, "w") as file:
        file["data"] = pixels


def by_netcdf_classic(path, pixels):
    with scipy.io.netcdf_file(path, "w", version=2) as file:
        names = [f"d{axis}" for axis in range(pixels.ndim)]
        for name, size in zip(names, pixels.shape, strict=True):
            file.createDimension(name, size)
        file.createVariable("data", "f8", names)[:] = pixels


def by_netcdf4(path, pixels):
    with netCDF4.Dataset(path, "w") as file:
        names = [f"d{axis}" for axis in range(pixels.ndim)]
        for name, size in zip(names, pixels.shape, strict=True):
            file.createDimension(name, size)
        file.createVariable("data", "f8", names, contiguous=True)[:] = pixels


def by_fits(path, pixels):
    fits.PrimaryHDU(pixels).writeto(path)


WRITERS = {
    "a.h5": by_hdf5,
    "a.nc3": by_netcdf_classic,
    "a.nc": by_netcdf4,
    "a.fits": by_fits,
}


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("name", WRITERS)
def test_slabs_are_near_sixteen_megabytes(tmp_path, name, case):
    path = tmp_path / name
    pixels = np.random.default_rng(3).random(SHAPES[case])
    pixels.reshape(-1)[-7:] = np.arange(7)
    WRITERS[name](path, pixels)
    (array,) = [each for each in jnrrdz.scan(path).children.values() if each.shape == pixels.shape]
    assert array.refs.chunks >= 2
    assert array.refs.length.max() <= TARGET
    assert array.refs.chunks <= 32 * pixels.nbytes // TARGET
    root = jnrrdz.open_group(path)
    variable = "PRIMARY" if name.endswith("fits") else "data"
    np.testing.assert_array_equal(root[variable][...], pixels)
