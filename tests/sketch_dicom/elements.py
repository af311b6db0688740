"""Data elements of a DICOM file: those that describe pixels, up to the pixels themselves.

Functions take `read(start, stop)` and the file's size.
Spec: https://dicom.nema.org/medical/dicom/current/output/chtml/part05/chapter_7.html
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from jnrrdz.core.limits import DEEPEST
from jnrrdz.errors import MalformedError, UnsupportedError

type Read = Callable[[int, int], bytes]

PREAMBLE = 132
"""Bytes in front of the first element: a preamble, and DICM."""

UNDEFINED = 0xFFFFFFFF
LONG = frozenset({"OB", "OD", "OF", "OL", "OV", "OW", "SQ", "SV", "UC", "UN", "UR", "UT", "UV"})
"""Value representations whose length has four bytes, behind two that are reserved."""

MOST_BYTES = 1 << 16
"""Bytes of one value that is read."""

MOST_ELEMENTS = 1 << 16


class Tag(IntEnum):
    """Group and element."""

    FILE_META = 0x00020000
    TRANSFER_SYNTAX = 0x00020010
    SAMPLES = 0x00280002
    PHOTOMETRIC = 0x00280004
    PLANAR = 0x00280006
    FRAMES = 0x00280008
    ROWS = 0x00280010
    COLUMNS = 0x00280011
    SPACING = 0x00280030
    BITS_ALLOCATED = 0x00280100
    BITS_STORED = 0x00280101
    IS_SIGNED = 0x00280103
    PADDING = 0x00280120
    INTERCEPT = 0x00281052
    SLOPE = 0x00281053
    UNIT = 0x00281054
    PIXELS = 0x7FE00010
    ITEM = 0xFFFEE000
    ITEM_END = 0xFFFEE00D
    SEQUENCE_END = 0xFFFEE0DD


class Syntax(StrEnum):
    """Transfer syntaxes: how elements are written, and how pixels are compressed."""

    IMPLICIT = "1.2.840.10008.1.2"
    EXPLICIT = "1.2.840.10008.1.2.1"
    BIG_ENDIAN = "1.2.840.10008.1.2.2"
    JPEG_BASELINE = "1.2.840.10008.1.2.4.50"
    JPEG2000_LOSSLESS = "1.2.840.10008.1.2.4.90"
    JPEG2000 = "1.2.840.10008.1.2.4.91"
    RLE = "1.2.840.10008.1.2.5"

    @property
    def order(self) -> str:
        """The byte order, as `struct` has it."""
        return ">" if self is Syntax.BIG_ENDIAN else "<"


@dataclass(frozen=True)
class Element:
    """Where one value is."""

    tag: int
    representation: str
    start: int
    length: int

    @property
    def stop(self) -> int:
        """The end of the value."""
        return self.start + self.length


@dataclass(frozen=True)
class Header:
    """The values that describe the pixels, as they are stored, and where the pixels are."""

    syntax: Syntax
    values: Mapping[Tag, bytes]
    pixels: Element

    def number(self, tag: Tag, default: int | None = None) -> int:
        """Return an unsigned short, or a number that is written in digits."""
        value = self.values.get(tag)
        if value is None:
            if default is None:
                raise MalformedError("the element is missing", field=tag.name)
            return default
        if tag is not Tag.FRAMES:
            if len(value) != 2:
                raise MalformedError(f"{len(value)} bytes in place of 2", field=tag.name)
            return int(struct.unpack(self.syntax.order + "H", value)[0])
        text = self.text(tag)
        if not text.isdecimal():
            raise MalformedError(f"{text!r} is no count", field=tag.name)
        return int(text)

    def text(self, tag: Tag) -> str:
        """Return a text without its padding, empty where there is none."""
        return self.values.get(tag, b"").decode("ascii", "replace").strip(" \0")

    def numbers(self, tag: Tag) -> list[float]:
        """Return numbers that are written in digits, none where there are none."""
        text = self.text(tag)
        try:
            return [float(part) for part in text.split("\\")] if text else []
        except ValueError as error:
            raise MalformedError(f"{text!r} are no numbers", field=tag.name) from error


def parse_header(read: Read, size: int) -> Header:
    """Return what describes the pixels of a file."""
    position, syntax_name = PREAMBLE, ""
    while read(position, position + 2) == b"\2\0":
        element = read_element(read, position, Syntax.EXPLICIT, size)
        if element.tag == Tag.TRANSFER_SYNTAX:
            syntax_name = read(element.start, element.stop).decode("ascii", "replace")
        position = element.stop
    try:
        syntax = Syntax(syntax_name.strip(" \0"))
    except ValueError as error:
        syntaxes = ", ".join(syntax.name for syntax in Syntax)
        message = f"{syntax_name!r}; {syntaxes} are read"
        raise UnsupportedError(message, field=Tag.TRANSFER_SYNTAX.name) from error
    wanted = frozenset(Tag)
    values = {}
    for _ in range(MOST_ELEMENTS):
        if position >= size:
            raise UnsupportedError("a file without pixels", field=Tag.PIXELS.name)
        element = read_element(read, position, syntax, size)
        if element.tag == Tag.PIXELS:
            return Header(syntax, values, element)
        if element.length == UNDEFINED:
            position = end_of_sequence(read, element.start, syntax, size)
            continue
        if element.tag in wanted and element.length <= MOST_BYTES:
            values[Tag(element.tag)] = read(element.start, element.stop)
        position = element.stop
    raise UnsupportedError(f"more than {MOST_ELEMENTS} elements", offset=position)


def read_element(read: Read, position: int, syntax: Syntax, size: int) -> Element:
    """Return the element at a position; its value has to be inside of the file."""
    head = read(position, position + 12).ljust(12, b"\0")
    group, number = struct.unpack_from(syntax.order + "HH", head)
    tag = group << 16 | number
    representation = ""
    length_form, width = "I", 4
    start = position + 8
    is_explicit = syntax is not Syntax.IMPLICIT and group != 0xFFFE
    if is_explicit:
        representation = head[4:6].decode("ascii", "replace")
        if representation in LONG:
            start = position + 12
        else:
            length_form, width = "H", 2
    (length,) = struct.unpack_from(syntax.order + length_form, head, start - width - position)
    if start > size or (length != UNDEFINED and start + length > size):
        message = f"a value of {length} bytes in a file of {size}"
        raise MalformedError(message, offset=position, field=f"({group:04x},{number:04x})")
    return Element(tag, representation, start, length)


def end_of_sequence(read: Read, position: int, syntax: Syntax, size: int) -> int:
    """Return where a sequence of undefined length ends."""
    depth = 1
    for _ in range(MOST_ELEMENTS):
        element = read_element(read, position, syntax, size)
        position = element.start
        if element.tag in {Tag.ITEM_END, Tag.SEQUENCE_END}:
            depth -= 1
        elif element.length == UNDEFINED:
            depth += 1
        else:
            position = element.stop
        if depth == 0:
            return position
        if depth > 2 * DEEPEST:
            raise UnsupportedError(f"sequences more than {DEEPEST} deep", offset=position)
    raise UnsupportedError(f"a sequence of more than {MOST_ELEMENTS} elements", offset=position)
