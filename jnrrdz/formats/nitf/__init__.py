"""NITF 2.0 and 2.1, NSIF 1.0."""

import re

from jnrrdz.formats.format import Format

NITF = Format(
    "NITF",
    scan="jnrrdz.formats.nitf.scan:scan_nitf",
    magic=re.compile(rb"NITF|NSIF"),
    magic_length=4,
    endings=(".ntf", ".nitf", ".nsf", ".nsif", ".ntf.r0", ".nitf.r0", ".nsf.r0", ".nsif.r0"),
    media_types=("application/vnd.nitf", "application/nitf", "application/x-nitf", "image/nitf"),
    decoders="jnrrdz.formats.nitf.decode:decoders",
)
