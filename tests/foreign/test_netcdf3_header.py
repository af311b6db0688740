"""The counts of a classic netCDF file, as its header and an independent writer have them."""

import struct

import numpy as np
import pytest
from scipy.io import netcdf_file

import jnrrdz
from jnrrdz.core.limits import Budget, Resource
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.foreign.netcdf3_header import check_header
from tests.bombs import netcdf3


def charged(path):
    data = path.read_bytes()
    budget = Budget(0)
    check_header(lambda start, stop: data[start:stop], len(data), budget)
    return budget.charged(Resource.CHUNKS)


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


def two_variables_of_records(path):
    """Write two variables of two records, and return their values."""
    values = np.arange(6, dtype="f4").reshape(2, 3), np.arange(2, dtype="i4") + 70
    with netcdf_file(path, "w", version=2) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("time", "x"))[:2] = values[0]
        file.createVariable("w", "i4", ("time",))[:2] = values[1]
    return values


def with_vsize(path, value):
    """Change the `vsize` of the variable of three numbers of type 5 in each record."""
    data = path.read_bytes()
    before = struct.pack(">II", 5, 12)
    assert data.count(before) == 1
    path.write_bytes(data.replace(before, struct.pack(">II", 5, value)))


def test_records_are_where_other_readers_have_them(tmp_path):
    values = two_variables_of_records(tmp_path / "a.nc")
    group = jnrrdz.open_group(str(tmp_path / "a.nc"))
    np.testing.assert_array_equal(group["v"][...], values[0])
    np.testing.assert_array_equal(group["w"][...], values[1])


@pytest.mark.parametrize("vsize", [0, 8, 16, 1 << 20, (1 << 32) - 1])
def test_another_size_than_the_dimensions_need_is_refused(tmp_path, vsize):
    netcdf = pytest.importorskip("netCDF4")
    path = tmp_path / "a.nc"
    values = two_variables_of_records(path)
    with_vsize(path, vsize)
    with netcdf.Dataset(path) as file:  # which computes it
        np.testing.assert_array_equal(file["v"][...], values[0])
        np.testing.assert_array_equal(file["w"][...], values[1])
    with pytest.raises(UnsupportedError, match=r"its dimensions need 12; .*nccopy") as refusal:
        jnrrdz.scan(str(path))
    assert refusal.value.field == "vsize"
    assert path.read_bytes()[refusal.value.offset :][:4] == struct.pack(">I", vsize)


def test_a_size_that_is_no_signed_number_is_refused(tmp_path):
    variables = [("v", [0, 1]), ("w", [0])]
    data = netcdf3(2, [0, (1 << 31) - 1], variables)
    sizes = struct.pack(">II", 1, 4)
    data = data.replace(sizes, struct.pack(">II", 1, 1 << 31), 1)
    path = tmp_path / "a.nc"
    path.write_bytes(data.ljust(2048, b"\0"))
    with pytest.raises(UnsupportedError, match="its dimensions need 2147483648"):
        jnrrdz.scan(str(path))


def test_one_variable_of_records_needs_no_size(tmp_path):
    path = tmp_path / "a.nc"
    with netcdf_file(path, "w", version=2) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("time", "x"))[:2] = np.arange(6).reshape(2, 3)
    with_vsize(path, 64)
    np.testing.assert_array_equal(jnrrdz.open_group(str(path))["v"][...], np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("axis", [-1, 2, 1 << 30])
def test_a_dimension_that_is_not_there_is_refused(tmp_path, axis):
    path = tmp_path / "a.nc"
    data = netcdf3(0, [4, 5], [("v", [0, 7])])
    path.write_bytes(data.replace(struct.pack(">II", 0, 7), struct.pack(">Ii", 0, axis)).ljust(2048, b"\0"))
    with pytest.raises(MalformedError, match=f"dimension {axis} of 2"):
        jnrrdz.scan(str(path))


def test_two_dimensions_of_one_name_are_refused(tmp_path):
    path = tmp_path / "a.nc"
    data = netcdf3(0, [4, 5, 6], [("v", [0, 2])])
    path.write_bytes(data.replace(b"d1\0\0", b"d0\0\0").ljust(2048, b"\0"))
    with pytest.raises(MalformedError, match="two dimensions of one name"):
        jnrrdz.scan(str(path))
