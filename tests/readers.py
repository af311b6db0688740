"""What readers that share no code with jnrrdz see in a file."""

import numpy as np
import pytest
import rasterio

from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.jpeg2000 import openjpeg as openjp2


def by_gdal(path, level=0):
    """Return the pixels of a level that GDAL reads, bands first; level 0 is the full resolution."""
    with rasterio.open(path, **({"overview_level": level - 1} if level else {})) as source:
        return source.read()


def assert_identical(pixels, expected):
    """Check the type, whatever its byte order, and every value."""
    assert pixels.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(pixels, expected)


def has_openjp2():
    """Return whether libopenjp2 is here."""
    try:
        openjp2.binding()
    except UnsupportedError:
        return False
    return True


needs_openjp2 = pytest.mark.skipif(not has_openjp2(), reason=openjp2.INSTALL)
