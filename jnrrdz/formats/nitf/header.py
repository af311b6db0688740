"""The structure of a NITF or NSIF file: its header, and where its segments stand.

Bytes come through `read(start, stop)`.  jbpy reads the same headers, but spends time that grows with the
square of the number of bands, gives up a whole file for one damaged extension, and knows no NITF 2.0; it
is the reference of the tests.
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
from jnrrdz.formats.nitf.tre import parse_layout, read_fields
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
UNKNOWN_LENGTH = 10**12 - 1
"""FL of a file that was written before its length was known."""

MARKS = {
    "image": "IM",
    "graphic": "SY",
    "symbol": "SY",
    "label": "LA",
    "text": "TE",
    "extension": "DE",
    "reserved_extension": "RE",
}
"""What the subheader of a kind of segment begins with."""


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
    end: int = 0
    """Where the last segment ends by the lengths of all, whatever the source has."""

    problems: list[str] = field(default_factory=list)

    def of(self, kind: str) -> tuple[Segment, ...]:
        """Return the segments of one kind."""
        return tuple(segment for segment in self.segments if segment.kind == kind)

    def is_end_certain(self, read: ReadRange, segment: Segment, *, strictly: bool) -> bool:
        """Whether something else says too that a segment ends where its lengths do: the next one, or the file's end.

        That is what FL says or where the source ends, `strictly` both.
        """
        after = next((other for other in self.segments if other.start > segment.start), None)
        if after is None:
            ends = [self.end == self.size, self.end == self.fields["FL"]]
            return all(ends) if strictly else any(ends)
        return read(after.start, after.start + 2).decode("latin-1") == MARKS.get(after.kind)


def parse_nitf(read: ReadRange, size: int) -> NitfLayout:
    """Return the structure of a file; nothing beyond the file header is read."""
    head = read(0, min(size, HEADER_LENGTH_END))
    if head[:MAGIC] not in VERSIONS:
        known = ", ".join(magic.decode() for magic, tables in VERSIONS.items() if tables)
        raise MalformedError(f"version {head[:MAGIC]!r}; {known} are read", offset=0, field="FHDR, FVER")
    version = VERSIONS[head[:MAGIC]]
    if version is None:
        raise UnsupportedError(f"{head[:MAGIC].decode()}; NITF 2.0 and later are read", offset=0, field="FVER")
    length = _read_to_length(Cursor(head, 0, "file header"), version)
    if length > size:
        raise MalformedError(f"a header of {length} bytes, the source has {size}", field="HL")
    cursor = Cursor(read(0, length), 0, "file header")
    _read_to_length(cursor, version)
    segments: list[Segment] = []
    start = length
    for lengths in version.segments:
        for segment in _segments(cursor, lengths, start):
            start = segment.stop
            segments.append(segment.within(size))
    tres, problems = read_tres(cursor, ("UDHDL", "UDHOFL", "UDHD"), ("XHDL", "XHDLOFL", "XHD"))
    said = cursor.fields["FL"]
    if segments and said not in {start, UNKNOWN_LENGTH}:
        problems = [*problems, f"file header FL: {said} bytes, the segments end at {start}"]
    elif start > size:
        problems = [*problems, f"file header FL: the segments end at {start}, the source has {size} bytes"]
    return NitfLayout(version, cursor.fields, tuple(segments), tres, size, start, problems)


def _read_to_length(cursor: Cursor, version: Version) -> int:
    """Read the file header up to its length, HL, and return that."""
    cursor.take(FILE)
    version.read_security(cursor, "F")
    cursor.take(COPIES)
    cursor.take(version.origin)
    cursor.number("FL", 12)
    return cursor.number("HL", 6)


def _segments(cursor: Cursor, lengths: SegmentLengths, start: int) -> Iterator[Segment]:
    """Yield the segments of one kind, the first of which begins at `start`."""
    count = cursor.number(lengths.count, 3)
    (header_name, header_width), (data_name, data_width) = lengths.subheader, lengths.data
    if not data_width:
        if count:
            raise UnsupportedError(f"{count} segments of a reserved kind", offset=cursor.offset, field=lengths.count)
        return
    for number in range(count):
        header = cursor.number(f"{header_name}{number + 1:03}", header_width)
        data = cursor.number(f"{data_name}{number + 1:03}", data_width)
        segment = Segment(lengths.kind, number, start, header, data)
        start = segment.stop
        yield segment


def read_tres(cursor: Cursor, *areas: tuple[str, str, str]) -> tuple[bytes, list[str]]:
    """Return the extension bytes at the end of a header, and what is wrong with them: that costs nothing else.

    An area is the names of its length, of the number of the segment that it goes on in, and of its data.
    """
    tres = b""
    for length, overflow, name in areas:
        try:
            count = cursor.number(length, 5)
            if count:
                cursor.text(overflow, OVERFLOW_DIGITS)
                tres += cursor.raw(name, max(count - OVERFLOW_DIGITS, 0))
        except MalformedError as error:
            return tres, [str(error)]
    return tres, []


def header_cursor(read: ReadRange, layout: NitfLayout, segment: Segment, what: str) -> Cursor:
    """Return a cursor over a segment's subheader."""
    if segment.data > layout.size:
        raise MalformedError(
            f"its header would end at {segment.data}, the source has {layout.size} bytes",
            offset=segment.start,
            field=what,
        )
    cursor = Cursor(read(segment.start, segment.data), segment.start, what)
    mark, expected = cursor.data[:2].decode("latin-1"), MARKS[segment.kind]
    if len(mark) == len(expected) and mark != expected:
        raise MalformedError(
            f"{mark!r} where {expected} belongs: the file header's lengths do not lead to it",
            offset=segment.start,
            field=what,
        )
    return cursor


def parse_extension(read: ReadRange, layout: NitfLayout, segment: Segment) -> Extension:
    """Return the header of a data extension segment."""
    cursor = header_cursor(read, layout, segment, f"extension {segment.number}")
    cursor.take(EXTENSION)
    layout.version.read_security(cursor, "DE")
    name = str(cursor.fields["DESID"])
    if name in layout.version.overflow:
        cursor.take(OVERFLOWED)
    own = cursor.raw("DESSHF", cursor.number("DESSHL", 4))
    # fields that do not fit the layout of their kind stay text
    fields: dict[str, Any] = {"DESSHF": own.decode("latin-1").rstrip(" \0")} if own else {}
    words = DES.get(name.removesuffix(" DES"))
    with suppress(MalformedError):
        if words is not None:
            fields = read_fields(name, parse_layout(words), own, cursor.fields)
    return Extension(segment, name, {**cursor.fields, **fields})
