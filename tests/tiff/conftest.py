"""A series' pixels by axis name, as tifffile reads them.

Nothing here knows how jnrrdz names or orders axes, but for the names
that users are promised: t, c, z, y, x, page, band.
"""

import numpy as np
import pytest
import tifffile
import xarray as xr

NAMES = {"T": "t", "C": "c", "Z": "z", "Y": "y", "X": "x", "S": "band", "I": "page", "Q": "other"}
NAMES |= {"A": "angle", "P": "phase", "R": "tile", "H": "lifetime", "E": "lambda", "V": "event"}


def by_tifffile(path, series=0, level=0):
    """Return the pixels of a series as tifffile reads them, its axes named, those of one element dropped."""
    with tifffile.TiffFile(path) as tif:
        found = tif.series[series].levels[level]
        kept = [NAMES.get(axis, axis.lower()) for axis, size in zip(found.axes, found.shape, strict=True) if size > 1]
        return xr.DataArray(found.asarray().reshape([size for size in found.shape if size > 1]), dims=kept)


@pytest.fixture
def assert_like_tifffile():
    """Return a check of values, type and names of axes; the order of the axes is the reader's own."""

    def check(found, path, series=0, level=0):
        expected = by_tifffile(path, series, level)
        assert set(found.dims) == set(expected.dims)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.transpose(*expected.dims).values, expected.values)

    return check
