"""VirtualiZarr's own fixtures of HDF5, which its wheel carries: each is read as h5py reads it, or left out by name."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import jnrrdz

fixtures = pytest.importorskip("virtualizarr.tests.test_parsers.conftest")
xr.set_options(warn_for_unclosed_files=False)  # xarray's own tests, which they import, warn of files of all others
SAME = (
    "empty_dataset_hdf5_url",
    "no_chunks_hdf5_url",
    "fill_value_scalar_no_chunks_nc4_url",
    "unlimited_dimension_netcdf4_url",
    "unlimited_dimension_compressed_hdf5_url",
    "chunked_hdf5_url",
    "single_dimension_scale_hdf5_url",
    "is_scale_hdf5_url",
    "chunked_dimensions_netcdf4_url",
    "string_attributes_hdf5_url",
    "bytes_attributes_hdf5_url",
    "group_hdf5_url",
    "nested_group_hdf5_url",
    "multiple_datasets_hdf5_url",
    "chunked_roundtrip_hdf5_url",
    "non_coord_dim",
    "scalar_fill_value_hdf5_url",
    "cf_array_fill_value_hdf5_file",
    "big_endian_dtype_hdf5_file",
)
REFUSED = {
    "empty_chunks_hdf5_url": "holds no array",
    "root_attributes_hdf5_url": "holds no array",
    "fixed_length_bytes_hdf5_url": "data: text",
    "non_utf8_fill_value_hdf5_url": "data: text",
    "vlen_string_hdf5_url": "data: text",
    "ascii_vlen_string_hdf5_url": "data: text",
}
NEEDED = (
    "np_uncompressed",
    "filter_encoded_hdf5_file",
    "cf_fill_value_hdf5_file",
    "multiple_dimension_scales_hdf5_url",
)
globals().update({name: getattr(fixtures, name) for name in (*SAME, *REFUSED, *NEEDED)})


def path_of(request, name):
    return str(request.getfixturevalue(name)).removeprefix("file://")


def check_same(path):
    group = jnrrdz.open_group(path)
    arrays = [key for key, node in group.members(max_depth=None) if hasattr(node, "shape")]
    assert arrays
    with h5py.File(path) as file:
        for key in arrays:
            np.testing.assert_array_equal(group[key][...], file[key][...])


@pytest.mark.parametrize("name", SAME)
def test_the_numbers_are_h5pys(request, name):
    check_same(path_of(request, name))


def test_each_filter(filter_encoded_hdf5_file):
    name = Path(filter_encoded_hdf5_file).stem
    if name not in {"lz4", "bzip2"}:
        check_same(filter_encoded_hdf5_file)
        return
    with pytest.raises(jnrrdz.UnsupportedError, match=f"data: filter {name}$"):
        jnrrdz.scan(filter_encoded_hdf5_file)


def test_each_fill_value(cf_fill_value_hdf5_file):
    with h5py.File(cf_fill_value_hdf5_file) as file:
        is_number = file["data"].dtype.kind in "bif"
    if is_number:
        check_same(cf_fill_value_hdf5_file)
        return
    with pytest.raises(jnrrdz.UnsupportedError, match=r"data: (text|HDF5's type compound)"):
        jnrrdz.scan(cf_fill_value_hdf5_file)


def test_an_axis_of_several_scales(multiple_dimension_scales_hdf5_url):
    with pytest.warns(UserWarning, match="left out.*data: several dimension scales"):
        check_same(multiple_dimension_scales_hdf5_url.removeprefix("file://"))


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("name", REFUSED)
def test_what_it_says_of_others(request, name):
    with pytest.raises(jnrrdz.UnsupportedError, match=REFUSED[name]):
        jnrrdz.scan(path_of(request, name))
