"""Formats whose parsers are others': VirtualiZarr's, and through it h5py's and astropy's.

Nothing of these formats is parsed here: docs/formats/foreign.md, docs/decisions/031-parsers-of-others.md.
"""

import re

from jnrrdz.formats.format import Format

HDF5 = Format(
    "HDF5",
    scan="jnrrdz.formats.foreign.hdf5:scan_hdf5",
    is_guest=True,
    magic=re.compile(rb"(?s:.{512})?\x89HDF\r\n\x1a\n"),
    magic_length=520,
    endings=(".h5", ".hdf5", ".he5", ".nc", ".nc4"),
    media_types=("application/x-hdf5", "application/x-hdf", "application/netcdf", "application/x-netcdf"),
)
"""netCDF-4 is HDF5; what MATLAB writes has 512 bytes of its own before it."""

NETCDF3 = Format(
    "netCDF-3",
    scan="jnrrdz.formats.foreign.parsers:scan_netcdf3",
    is_guest=True,
    magic=re.compile(rb"CDF[\x01\x02\x05]"),
    magic_length=4,
    endings=(".nc", ".cdf", ".nc3"),
    media_types=("application/netcdf", "application/x-netcdf"),
)

FITS = Format(
    "FITS",
    scan="jnrrdz.formats.foreign.parsers:scan_fits",
    is_guest=True,
    magic=re.compile(rb"SIMPLE  ="),
    magic_length=9,
    endings=(".fits", ".fit", ".fts"),
    media_types=("application/fits", "image/fits"),
)

ZARR = Format(
    "Zarr",
    scan="jnrrdz.formats.foreign.zarr:scan_zarr",
    is_directory=True,
    endings=(".zarr",),
    marks=("zarr.json", ".zgroup", ".zarray"),
)

DMRPP = Format(
    "DMR++",
    scan="jnrrdz.formats.foreign.parsers:scan_dmrpp",
    is_guest=True,
    magic=re.compile(rb"(?s)\s*<.{0,4000}?xmlns:dmrpp="),
    magic_length=4096,
    endings=(".dmrpp",),
    media_types=("application/vnd.opendap.dap4.dmrpp+xml",),
)
