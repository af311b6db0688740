"""JPEG 2000 and HTJ2K, bare or in boxes."""

import re

from jnrrdz.formats.format import Format

JPEG2000 = Format(
    "JPEG 2000",
    scan="jnrrdz.formats.jpeg2000.scan:scan_jpeg2000",
    magic=re.compile(rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n"),
    magic_length=12,
    endings=(".jp2", ".jpx", ".jpf", ".j2k", ".j2c", ".jpc", ".jph", ".jhc"),
    media_types=("image/jp2", "image/jpx", "image/j2c"),
    options=("tile_part_table",),
)
