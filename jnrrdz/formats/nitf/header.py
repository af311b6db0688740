"""The structure of a NITF or NSIF file: its header by tables of names and widths, and where its segments stand.

A header is read whole (its length field has six digits at most) and then walked; every value keeps its
name, so that an error can say which field is wrong.  Names and widths are the standards', in their order.
NITF 2.0 has other security fields, one of which (a downgrading event) is there only if the one before it
says so; symbols and labels in place of graphics; and `N` in ICORDS means no coordinates, where in 2.1 it
is the northern hemisphere.

Bytes come through `read(start, stop)`.  jbpy reads the same headers, but spends time that grows with the
square of the number of bands, gives up a whole file for one damaged extension, and knows no NITF 2.0; it
is the reference of the tests.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, tables 5.11 to 5.18),
MIL-STD-2500A (NITF 2.0), MIL-STD-2500C, https://gwg.nga.mil/gwg/focus-groups/ntb/documents.html
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.codecs import NITF_KINDS
from jnrrdz.formats.nitf.tre import parse_layout, read_fields
from jnrrdz.formats.nitf.tre_tables import DES

type Value = str | int
type Fields = dict[str, Value]


class Field(NamedTuple):
    """One field: its name in the standard, its width in bytes, and whether it holds digits."""

    name: str
    width: int
    is_number: bool = False


def table(text: str) -> tuple[Field, ...]:
    """Return the fields of a text of `NAME:width` words; `NAME:width#` is a number."""
    words = (word.rpartition(":") for word in text.split())
    return tuple(Field(name, int(width.rstrip("#")), width.endswith("#")) for name, _, width in words)


@dataclass
class Cursor:
    """The bytes of one header, and how far they have been read."""

    data: bytes
    base: int
    """Where the first byte stands in the source."""

    what: str
    """Which header it is, for messages."""

    at: int = 0
    fields: Fields = field(default_factory=dict)

    @property
    def offset(self) -> int:
        """Where the next byte stands in the source."""
        return self.base + self.at

    def raw(self, name: str, width: int) -> bytes:
        """Return the bytes of the next field."""
        data = self.data[self.at : self.at + width]
        if len(data) < width:
            left = len(self.data) - self.at
            raise MalformedError(
                f"{width} bytes where {left} are left", offset=self.offset, field=f"{self.what} {name}"
            )
        self.at += width
        return data

    def text(self, name: str, width: int) -> str:
        """Return the next field as text without the blanks at its end, and keep it."""
        self.fields[name] = text = self.raw(name, width).decode("latin-1").rstrip(" \0")
        return text

    def number(self, name: str, width: int) -> int:
        """Return the next field as a whole number, and keep it."""
        here, text = self.offset, self.raw(name, width)
        try:
            number = int(text)
        except ValueError:
            raise MalformedError(f"{text!r} is no number", offset=here, field=f"{self.what} {name}") from None
        if number < 0 or b"_" in text:
            raise MalformedError(f"{text!r} is no count", offset=here, field=f"{self.what} {name}")
        self.fields[name] = number
        return number

    def take(self, fields: Iterable[Field], prefix: str = "") -> None:
        """Keep the next fields, their names behind a prefix; a number that is none stays text."""
        for name, width, is_number in fields:
            text = self.text(prefix + name, width)
            digits = text.strip()
            if is_number and digits.isascii() and digits.isdigit():
                self.fields[prefix + name] = int(digits)


@dataclass(frozen=True)
class SegmentLengths:
    """A list of segments in the file header: how many, and each one's subheader and data length."""

    kind: str
    count: str
    subheader: tuple[str, int]
    data: tuple[str, int]


@dataclass(frozen=True)
class Version:
    """The tables of one version of the format."""

    security: tuple[Field, ...]
    """Named without the letters of the header that they stand in: F, I, S, L, T, DE."""

    origin: tuple[Field, ...]
    """What stands between ENCRYP and FL in the file header."""

    segments: tuple[SegmentLengths, ...]
    image: tuple[Field, ...]
    """The image subheader up to its security fields."""

    graphic: tuple[tuple[Field, ...], tuple[Field, ...]]
    """A graphic's subheader before and after its security fields."""

    label: tuple[tuple[Field, ...], tuple[Field, ...]] | None
    text: tuple[tuple[Field, ...], tuple[Field, ...]]
    no_coordinates: str
    """The value of ICORDS that says that IGEOLO is absent."""

    overflow: frozenset[str]
    """Identifiers of data extension segments that hold TREs for which a header has no room."""

    def read_security(self, cursor: Cursor, prefix: str) -> None:
        """Read the security fields of a header, with the downgrading event where there is one."""
        cursor.take(self.security, prefix)
        if cursor.fields.get(f"{prefix}SDWNG") == DOWNGRADING_EVENT:
            cursor.text(f"{prefix}SDEVT", EVENT_BYTES)


FILE = table("FHDR:4 FVER:5 CLEVEL:2# STYPE:4 OSTAID:10 FDT:14 FTITLE:80")
COPIES = table("FSCOP:5# FSCPYS:5# ENCRYP:1#")
IMAGE_SHAPE = table("ENCRYP:1# ISORCE:42 NROWS:8# NCOLS:8# PVTYPE:3 IREP:8 ICAT:8 ABPP:2# PJUST:1 ICORDS:1")
IMAGE_BLOCKS = table("ISYNC:1# IMODE:1 NBPR:4# NBPC:4# NPPBH:4# NPPBV:4# NBPP:2# IDLVL:3# IALVL:3# ILOC:10 IMAG:4")
BAND = table("IREPBAND:2 ISUBCAT:6 IFC:1 IMFLT:3 NLUTS:1#")
EXTENSION = table("DE:2 DESID:25 DESVER:2#")
OVERFLOWED = table("DESOFLW:6 DESITEM:3#")

BYTE = 8
FLOATS = {"R": {16, 32, 64}, "C": {64, 128}}
MAX_BITS = 64
SINGLE_BYTES = 4


def sample_type(pixel_type: str, bits: int) -> np.dtype[Any] | None:
    """Return the narrowest type that holds a sample of a PVTYPE and NBPP, None where there is none."""
    known = bits in FLOATS[pixel_type] if pixel_type in FLOATS else pixel_type in NITF_KINDS and 1 <= bits <= MAX_BITS
    if not known:
        return None
    width = bits // BYTE if pixel_type in FLOATS else next(size for size in (1, 2, 4, 8) if size * BYTE >= bits)
    return np.dtype(f"{NITF_KINDS[pixel_type]}{width}")


def pair_dtype(sample: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex type that holds two samples without loss."""
    exact = sample.itemsize < SINGLE_BYTES or sample == np.dtype("f4")
    return np.dtype("c8" if exact else "c16")


DOWNGRADING_EVENT = "999998"
EVENT_BYTES = 40

NITF21 = Version(
    security=table(
        "SCLAS:1 SCLSY:2 SCODE:11 SCTLH:2 SREL:20 SDCTP:2 SDCDT:8 SDCXM:4 SDG:1 SDGDT:8 SCLTX:43 SCATP:1 SCAUT:40 "
        "SCRSN:1 SSRDT:8 SCTLN:15"
    ),
    origin=table("FBKGC:3 ONAME:24 OPHONE:18"),
    segments=(
        SegmentLengths("image", "NUMI", ("LISH", 6), ("LI", 10)),
        SegmentLengths("graphic", "NUMS", ("LSSH", 4), ("LS", 6)),
        SegmentLengths("reserved", "NUMX", ("LXSH", 0), ("LX", 0)),
        SegmentLengths("text", "NUMT", ("LTSH", 4), ("LT", 5)),
        SegmentLengths("extension", "NUMDES", ("LDSH", 4), ("LD", 9)),
        SegmentLengths("reserved_extension", "NUMRES", ("LRESH", 4), ("LRE", 7)),
    ),
    image=table("IM:2 IID1:10 IDATIM:14 TGTID:17 IID2:80"),
    graphic=(
        table("SY:2 SID:10 SNAME:20"),
        table("ENCRYP:1# SFMT:1 SSTRUCT:13 SDLVL:3# SALVL:3# SLOC:10 SBND1:10 SCOLOR:1 SBND2:10 SRES2:2 SXSHDL:5#"),
    ),
    label=None,
    text=(table("TE:2 TEXTID:7 TXTALVL:3# TXTDT:14 TXTITL:80"), table("ENCRYP:1# TXTFMT:3 TXSHDL:5#")),
    no_coordinates=" ",
    overflow=frozenset({"TRE_OVERFLOW"}),
)


NITF20 = Version(
    security=table("SCLAS:1 SCODE:40 SCTLH:40 SREL:40 SCAUT:20 SCTLN:20 SDWNG:6"),
    origin=table("ONAME:27 OPHONE:18"),
    segments=(
        SegmentLengths("image", "NUMI", ("LISH", 6), ("LI", 10)),
        SegmentLengths("symbol", "NUMS", ("LSSH", 4), ("LS", 6)),
        SegmentLengths("label", "NUML", ("LLSH", 4), ("LL", 3)),
        SegmentLengths("text", "NUMT", ("LTSH", 4), ("LT", 5)),
        SegmentLengths("extension", "NUMD", ("LDSH", 4), ("LD", 9)),
        SegmentLengths("reserved_extension", "NUMR", ("LRESH", 4), ("LRE", 7)),
    ),
    image=table("IM:2 IID:10 IDATIM:14 TGTID:17 ITITLE:80"),
    graphic=(
        table("SY:2 SID:10 SNAME:20"),
        table(
            "ENCRYP:1# STYPE:1 NLIPS:4# NPIXPL:4# NWDTH:4# NBPP:1# SDLVL:3# SALVL:3# SLOC:10 SLOC2:10 SCOLOR:1 "
            "SNUM:6 SROT:3# NELUT:3#"
        ),
    ),
    label=(
        table("LA:2 LID:10"),
        table("ENCRYP:1# LFS:1 LCW:2 LCH:2 LDLVL:3# LALVL:3# LLOC:10"),
    ),
    text=(table("TE:2 TEXTID:10 TXTDT:14 TXTITL:80"), table("ENCRYP:1# TXTFMT:3 TXSHDL:5#")),
    no_coordinates="N",
    overflow=frozenset({"TRE_OVERFLOW", "Registered Extensions", "Controlled Extensions"}),
)


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
