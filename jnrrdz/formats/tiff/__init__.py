"""TIFF, BigTIFF, Cloud-Optimized GeoTIFF, and the dialects of microscopy."""

import re

from jnrrdz.formats.format import Format

TIFF = Format(
    "TIFF",
    scan="jnrrdz.formats.tiff.scan:scan_tiff",
    magic=re.compile(rb"II[*+]\0|MM\0[*+]"),
    magic_length=4,
    endings=(".tif", ".tiff", ".gtiff", ".btf", ".tf8", ".svs", ".ndpi", ".scn", ".lsm"),
    media_types=("image/tiff", "image/vnd.stac.geotiff", "image/geo+tiff"),
    codecs=("tiff-tile",),
    decoders="jnrrdz.formats.tiff.decode:decoders",
)
