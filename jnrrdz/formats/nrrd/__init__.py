"""NRRD and JNRRD."""

import re

from jnrrdz.formats.format import Format

JNRRD = Format(
    "JNRRD",
    scan="jnrrdz.formats.nrrd.scan:scan_jnrrd",
    magic=re.compile(rb'\s*\{\s*"jnrrd"\s*:'),
    magic_length=64,
    endings=(".jnrrd",),
    verify_tables="jnrrdz.formats.nrrd.verify:TileTables",
)

NRRD = Format(
    "NRRD",
    scan="jnrrdz.formats.nrrd.scan:scan_nrrd",
    magic=re.compile(rb"NRRD000[1-9](?=\r?\n)"),
    magic_length=10,
    endings=(".nrrd", ".nhdr"),
)
