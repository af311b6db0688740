"""Header and directories of TIFF and BigTIFF as bytes, parsed once for all formats.

The TIFF room reads whole files with it; JPEG 2000 has a bare TIFF in a box (GeoJP2).
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://libtiff.gitlab.io/libtiff/specification/bigtiff.html
"""

import struct
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np

from jnrrdz.errors import MalformedError

MAX_ENTRIES = 1 << 12
"""Entries of a directory; 65,535 would be legal, real files have tens."""

BIG_OFFSETS = (8, 0)
"""What a BigTIFF's header has next to its mark: bytes of an offset, and zero."""


class FieldType(IntEnum):
    """How a tag's values are stored."""

    BYTE = 1
    ASCII = 2
    SHORT = 3
    LONG = 4
    RATIONAL = 5
    SBYTE = 6
    UNDEFINED = 7
    SSHORT = 8
    SLONG = 9
    SRATIONAL = 10
    FLOAT = 11
    DOUBLE = 12
    IFD = 13
    LONG8 = 16
    SLONG8 = 17
    IFD8 = 18


NUMPY_CODE: dict[int, str] = {
    FieldType.BYTE: "u1",
    FieldType.ASCII: "S1",
    FieldType.SHORT: "u2",
    FieldType.LONG: "u4",
    FieldType.RATIONAL: "2u4",
    FieldType.SBYTE: "i1",
    FieldType.UNDEFINED: "u1",
    FieldType.SSHORT: "i2",
    FieldType.SLONG: "i4",
    FieldType.SRATIONAL: "2i4",
    FieldType.FLOAT: "f4",
    FieldType.DOUBLE: "f8",
    FieldType.IFD: "u4",
    FieldType.LONG8: "u8",
    FieldType.SLONG8: "i8",
    FieldType.IFD8: "u8",
}
"""The numpy type of one value; the byte order goes in front."""

ITEMSIZE = {int(kind): np.dtype(code).itemsize for kind, code in NUMPY_CODE.items()}
"""Bytes of one value."""


class Entry(NamedTuple):
    """One tag of a directory: where its values are, not yet read."""

    tag: int
    type: int
    count: int  # type: ignore[assignment] # a tuple's method of that name is not needed
    position: int
    """Offset of the first value in the source (inside the directory where they fit there)."""

    nbytes: int
    """Bytes of all values; values of an unknown type count one byte each."""


class TiffForm(NamedTuple):
    """Byte order and widths of a TIFF; `FORMS` has all that exist."""

    order: str
    """"<" or ">", as `struct` has it."""

    byteorder: Literal["little", "big"]
    """The same in Python's words."""

    is_big: bool
    header_bytes: int
    count_width: int
    """Bytes of a directory's number of entries."""

    entry: str
    """An entry as `struct` has it: tag, field type, count, value or its offset."""

    entry_width: int
    room: int
    """Bytes of an entry's value field, and of an offset."""

    def entry_bytes(self, count: bytes, offset: int) -> int:
        """Return the bytes of all entries of the directory at an offset, by its first bytes."""
        entries = int.from_bytes(count, self.byteorder)
        if not 0 < entries <= MAX_ENTRIES:
            raise MalformedError(f"{entries} entries in an IFD", offset=offset, field="IFD entry count")
        return entries * self.entry_width

    def entries(self, stored: bytes, start: int) -> dict[int, Entry]:
        """Return the entries, by tag, that are stored from offset `start` on; of two of a tag the first."""
        entries: dict[int, Entry] = {}
        place = start + self.entry_width - self.room
        for tag, kind, count, value in struct.iter_unpack(self.entry, stored):
            if tag not in entries:
                nbytes = count * ITEMSIZE.get(kind, 1)
                position = place if nbytes <= self.room else value
                entries[tag] = Entry(tag, kind, count, position, nbytes)
            place += self.entry_width
        return entries


CLASSIC = TiffForm("<", "little", False, 8, 2, "<HHII", 12, 4)  # noqa: FBT003  a row
BIG = TiffForm("<", "little", True, 16, 8, "<HHQQ", 20, 8)  # noqa: FBT003  a row

FORMS = {
    b"II*\0": CLASSIC,
    b"MM\0*": CLASSIC._replace(order=">", byteorder="big", entry=">HHII"),
    b"II+\0": BIG,
    b"MM\0+": BIG._replace(order=">", byteorder="big", entry=">HHQQ"),
}
"""The forms of TIFF by a file's first bytes."""


def parse_header(head: bytes) -> tuple[TiffForm, int]:
    """Return the form of a TIFF that starts with these bytes, and the offset of its first directory."""
    form = FORMS.get(head[:4])
    if form is None:
        raise MalformedError("not a TIFF: no II*, MM*, II+ or MM+ at its start", offset=0, field="header")
    need = form.header_bytes
    if len(head) < need:
        text = f"a header of {len(head)} bytes where {need} are needed"
        raise MalformedError(text, offset=0, field="header")
    if form.is_big and struct.unpack_from(f"{form.order}HH", head, 4) != BIG_OFFSETS:
        raise MalformedError("a BigTIFF whose offsets are not 8 bytes", offset=4, field="header")
    first = head[need - form.room : need]
    return form, int.from_bytes(first, form.byteorder)
