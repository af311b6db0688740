"""The counts of a classic netCDF file, as its header and an independent writer have them."""

import numpy as np
import pytest
from scipy.io import netcdf_file

from jnrrdz.core.limits import Budget, Kind
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.foreign.netcdf3_header import check_header


def charged(path):
    data = path.read_bytes()
    budget = Budget(0)
    check_header(lambda start, stop: data[start:stop], len(data), budget)
    return budget.charged(Kind.CHUNKS)


@pytest.mark.parametrize("version", [1, 2])
def test_variables_of_records_are_charged_by_record(tmp_path, version):
    with netcdf_file(tmp_path / "a.nc", "w", version=version) as file:
        file.title = "odd"
        file.createDimension("time", None)
        file.createDimension("x", 3)
        for name in ("one", "another"):
            file.createVariable(name, "f4", ("time", "x"))[:5] = np.ones((5, 3), "f4")
            file.variables[name].units = "kelvin"
        file.createVariable("fixed", "i2", ("x",))[:] = np.arange(3)
        file.createVariable("alone", "f8", ())[...] = 1.0
    assert charged(tmp_path / "a.nc") == 2 * 5


def test_headers_of_cdf_5(tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_64BIT_DATA") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("v", "u8", ("time", "x"))[:7] = np.ones((7, 3), "u8")
        file.createVariable("fixed", "u1", ("x",))[:] = 1
        file.title = "odd"
    assert charged(tmp_path / "a.nc") == 7


def test_a_header_that_ends_early_is_refused(tmp_path):
    with netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("one", "f4", ("time",))[:5] = np.ones(5, "f4")
    data = (tmp_path / "a.nc").read_bytes()
    for stop in range(4, 76, 4):
        with pytest.raises(JnrrdzError):
            check_header(lambda start, end, stop=stop: data[:stop][start:end], stop, Budget(0))
