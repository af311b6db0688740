"""The structure of a NITF or NSIF file: its header, and where its segments stand.

May touch errors and the field tables; bytes come through `read(start, stop)`.  jbpy reads the same
headers, but spends time that grows with the square of the number of bands, gives up a whole file for
one damaged extension, and knows no NITF 2.0; it is the reference of the tests, and reads TREs.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1), MIL-STD-2500A (NITF 2.0)
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.fields import (
    COPIES,
    EXTENSION,
    FILE,
    NITF20,
    NITF21,
    OVERFLOWED,
    Cursor,
    Fields,
    SegmentLengths,
    Version,
)
from jnrrdz.formats.nitf.tre import layout_of, read_fields
from jnrrdz.formats.nitf.tre_tables import DES

type ReadRange = Callable[[int, int], bytes]

VERSIONS = {
    b"NITF02.10": NITF21,
    b"NSIF01.00": NITF21,
    b"NITF02.00": NITF20,
    b"NITF01.10": None,
    b"NITF01.00": None,
}
MAGIC = 9
HEADER_LENGTH_END = 400
"""The largest place where HL may end: NITF 2.0 with a downgrading event."""

OVERFLOW_DIGITS = 3


@dataclass(frozen=True)
class Segment:
    """Where one segment stands."""

    kind: str
    number: int
    """Its place among the segments of its kind, from 0."""

    start: int
    header_length: int
    data_length: int

    @property
    def data(self) -> int:
        """Where its data begin."""
        return self.start + self.header_length

    @property
    def stop(self) -> int:
        """Where its data end."""
        return self.data + self.data_length

    def within(self, size: int) -> "Segment":
        """Return the segment with the data that a source of this size has of it."""
        return replace(self, data_length=min(self.data_length, max(size - self.data, 0)))


@dataclass(frozen=True)
class Extension:
    """A data extension segment: its identifier and fields, and where its data stand."""

    segment: Segment
    name: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class NitfLayout:
    """What the file header says."""

    version: Version
    fields: Fields
    segments: tuple[Segment, ...]
    tres: bytes = b""
    """The extensions of the file header, not yet taken apart."""

    size: int = 0
    problems: list[str] = field(default_factory=list)

    def of(self, kind: str) -> tuple[Segment, ...]:
        """Return the segments of one kind."""
        return tuple(segment for segment in self.segments if segment.kind == kind)


def parse_nitf(read: ReadRange, size: int) -> NitfLayout:
    """Return the structure of a file; nothing beyond the file header is read."""
    head = read(0, min(size, HEADER_LENGTH_END))
    version = _version(head)
    length = _header_length(head, version)
    if length > size:
        raise MalformedError(f"a header of {length} bytes, the source has {size}", field="HL")
    cursor = Cursor(read(0, length), 0, "file header")
    _identity(cursor, version)
    counts: list[Segment] = []
    at = length
    for group in version.segments:
        for segment in _segments(cursor, group, at):
            at = segment.stop
            counts.append(segment.within(size))
    problems: list[str] = []
    tres = _tres_tolerant(cursor, problems)
    return NitfLayout(version, cursor.found, tuple(counts), tres, size, problems)


def _version(head: bytes) -> Version:
    if head[:MAGIC] not in VERSIONS:
        known = ", ".join(magic.decode() for magic, tables in VERSIONS.items() if tables)
        raise MalformedError(f"version {head[:MAGIC]!r}; {known} are read", offset=0, field="FHDR, FVER")
    version = VERSIONS[head[:MAGIC]]
    if version is None:
        raise UnsupportedError(f"{head[:MAGIC].decode()}; NITF 2.0 and later are read", offset=0, field="FVER")
    return version


def _identity(cursor: Cursor, version: Version) -> None:
    """Read the file header up to HL."""
    cursor.take(FILE)
    version.security(cursor, "F")
    cursor.take(COPIES)
    cursor.take(version.origin)
    cursor.number("FL", 12)
    cursor.number("HL", 6)


def _header_length(head: bytes, version: Version) -> int:
    cursor = Cursor(head, 0, "file header")
    _identity(cursor, version)
    return int(cursor.found["HL"])


def _segments(cursor: Cursor, group: SegmentLengths, start: int) -> Iterator[Segment]:
    count = cursor.number(group.count, 3)
    if not group.data[1]:
        if count:
            raise UnsupportedError(f"{count} segments of a reserved kind", offset=cursor.offset, field=group.count)
        return
    at = start
    for number in range(count):
        header = cursor.number(f"{group.subheader[0]}{number + 1:03}", group.subheader[1])
        data = cursor.number(f"{group.data[0]}{number + 1:03}", group.data[1])
        segment = Segment(group.kind, number, at, header, data)
        at = segment.stop
        yield segment


def _tres_tolerant(cursor: Cursor, problems: list[str]) -> bytes:
    """Return the extensions at the end of a header; what is wrong with them is noted and costs nothing else."""
    found = b""
    for length, overflow, name in (("UDHDL", "UDHOFL", "UDHD"), ("XHDL", "XHDLOFL", "XHD")):
        try:
            found += extensions(cursor, length, overflow, name)
        except MalformedError as error:
            problems.append(str(error))
            return found
    return found


def extensions(cursor: Cursor, length: str, overflow: str, name: str) -> bytes:
    """Return the extension bytes of one area of a header."""
    count = cursor.number(length, 5)
    if count == 0:
        return b""
    cursor.text(overflow, OVERFLOW_DIGITS)
    return cursor.raw(name, max(count - OVERFLOW_DIGITS, 0))


def header_cursor(read: ReadRange, layout: NitfLayout, segment: Segment, what: str) -> Cursor:
    """Return a cursor over a segment's subheader."""
    if segment.data > layout.size:
        raise MalformedError(
            f"its header would end at {segment.data}, the source has {layout.size} bytes",
            offset=segment.start,
            field=what,
        )
    return Cursor(read(segment.start, segment.data), segment.start, what)


def parse_extension(read: ReadRange, layout: NitfLayout, segment: Segment) -> Extension:
    """Return the header of a data extension segment."""
    cursor = header_cursor(read, layout, segment, f"extension {segment.number}")
    cursor.take(EXTENSION)
    layout.version.security(cursor, "DE")
    name = str(cursor.found["DESID"])
    if name in layout.version.overflow:
        cursor.take(OVERFLOWED)
    length = cursor.number("DESSHL", 4)
    own = cursor.raw("DESSHF", length)
    return Extension(segment, name, {**cursor.found, **_own_fields(name, own, cursor.found)})


def _own_fields(name: str, own: bytes, header: Fields) -> dict[str, Any]:
    """Return the fields that one kind of extension has of its own; those that do not fit its layout stay text."""
    layout = DES.get(name.removesuffix(" DES"))
    with suppress(MalformedError):
        if layout is not None:
            return read_fields(name, layout_of(layout), own, header)
    return {"DESSHF": own.decode("latin-1").rstrip(" \0")} if own else {}
