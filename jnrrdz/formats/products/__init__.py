"""Products of satellites: a folder of images and the document that describes them.

The document is the source; a folder stands for the document in it.
"""

import re

from jnrrdz.formats.format import Format

SENTINEL2 = Format(
    "Sentinel-2 product",
    scan="jnrrdz.formats.products.scan:scan_sentinel2",
    magic=re.compile(
        rb"(?s)(?:\xef\xbb\xbf)?\s*(?:<\?xml.{0,200}?\?>)?\s*"
        rb"<(?:\w{1,20}:)?Level-(?:1C|2A)_User_Product[\s>]"
    ),
    magic_length=512,
    folder=re.compile(r".+\.SAFE", re.IGNORECASE),
    document=re.compile(r"MTD_MSI(?:L1C|L2A)\.xml", re.IGNORECASE),
    documents=("MTD_MSIL2A.xml", "MTD_MSIL1C.xml"),
    options=("tile_part_table",),
)

LANDSAT = Format(
    "Landsat product",
    scan="jnrrdz.formats.products.scan:scan_landsat",
    magic=re.compile(
        rb"(?s)(?:\xef\xbb\xbf)?\s*(?:\{\s*\"LANDSAT_METADATA_FILE\""
        rb"|(?:<\?xml.{0,200}?\?>)?\s*<LANDSAT_METADATA_FILE[\s>])"
    ),
    magic_length=512,
    folder=re.compile(
        r"L[COTEM]0[1-9]_L[12][A-Z]{2}_\d{6}_\d{8}_\d{8}_\d{2}_(?:T1|T2|RT)"
    ),
    document=re.compile(r"L.+_MTL\.(?:xml|json)", re.IGNORECASE),
    documents=("{name}_MTL.xml", "{name}_MTL.json"),
)
