"""TIFF, BigTIFF, Cloud-Optimized GeoTIFF, and the dialects of microscopy."""

import re

from jnrrdz.formats.format import Format

TIFF = Format(
    "TIFF",
    scan="jnrrdz.formats.tiff.scan:scan_tiff",
    magic=re.compile(rb"II[*+]\0|MM\0[*+]"),
    magic_length=4,
    endings=(
        *(".tif", ".tiff", ".gtif", ".gtiff", ".btf", ".tf2", ".tf8", ".ptif", ".ptiff"),
        # of microscopes and scanners
        *(".svs", ".ndpi", ".scn", ".lsm", ".stk", ".qptiff", ".qpi", ".bif", ".zif", ".gel"),
    ),
    media_types=("image/tiff", "image/vnd.stac.geotiff", "image/geo+tiff"),
    decoders="jnrrdz.formats.tiff.decode:decoders",
)
