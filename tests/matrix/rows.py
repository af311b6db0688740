"""The table of sources: a new format, codec or layout joins by one line."""

from tests.matrix.sources_foreign import FOREIGN
from tests.matrix.sources_jpeg2000 import JPEG2000
from tests.matrix.sources_n5 import N5
from tests.matrix.sources_nitf import NITF
from tests.matrix.sources_nrrd import JNRRD, NRRD
from tests.matrix.sources_products import PRODUCTS
from tests.matrix.sources_tiff import TIFF

ROWS = [*TIFF, *JPEG2000, *NITF, *N5, *NRRD, *JNRRD, *PRODUCTS, *FOREIGN]
