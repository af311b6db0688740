"""DICOM, as a project of its own would add it to jnrrdz: a sketch, which is not shipped.

It shows how far a new format gets with what is there, and is what docs/architecture.md
counts its ten steps by. `registered()` does what a plugin does when it is imported.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from zarr.registry import register_codec

from jnrrdz.codecs import tiles
from jnrrdz.core.codec_table import ROOMS
from jnrrdz.formats import FORMATS
from jnrrdz.formats.format import Format

DICOM = Format(
    "DICOM",
    scan=f"{__name__}.scan:scan_dicom",
    magic=re.compile(b"DICM"),
    magic_start=128,
    magic_length=4,
    endings=(".dcm",),
    media_types=("application/dicom",),
    decoders=f"{__name__}.scan:decoders",
)
ROOM = f"{__name__}.codecs"


@contextmanager
def registered() -> Iterator[None]:
    """Add the format and its codec for a while."""
    # in front: the free bytes before its magic may look like a TIFF
    FORMATS.insert(0, DICOM)
    ROOMS.append(ROOM)
    # an installed package has an entry point for this
    register_codec("dicom-rle", tiles.DicomRleCodec)
    try:
        yield
    finally:
        FORMATS.remove(DICOM)
        ROOMS.remove(ROOM)
