"""The formats: a folder each, with everything that knows its bytes, and a line here.

A format of your own is a `Format` in a module of your own and `FORMATS.append(MINE)`.
"""

from typing import TYPE_CHECKING

from jnrrdz.formats.foreign import DMRPP, FITS, HDF5, NETCDF3, ZARR
from jnrrdz.formats.format import Format
from jnrrdz.formats.jpeg2000 import JPEG2000
from jnrrdz.formats.n5 import N5
from jnrrdz.formats.nitf import NITF
from jnrrdz.formats.nrrd import JNRRD, NRRD
from jnrrdz.formats.products import LANDSAT, SENTINEL2
from jnrrdz.formats.tiff import TIFF
from jnrrdz.lazy import modules

if TYPE_CHECKING:
    from jnrrdz.formats import scanning

FORMATS: list[Format] = [
    TIFF,
    JPEG2000,
    NITF,
    JNRRD,
    NRRD,
    N5,
    HDF5,
    NETCDF3,
    FITS,
    SENTINEL2,
    LANDSAT,
    DMRPP,
    ZARR,
]
"""In the order in which a file's head is compared with their magic."""

__all__ = ["FORMATS", "Format", "scanning"]

__getattr__ = modules(__name__, ["scanning"])
