"""A classic TIFF of one directory, written around pixels that follow it."""

import struct
from collections.abc import Container, Sequence

from jnrrdz.formats.tiff_directory import FieldType

type TagValues = tuple[int, int, Sequence[int] | bytes]
"""Tag, field type, values; the numbers of a rational are numerators and denominators in turn."""

CODES = {FieldType.SHORT: "H", FieldType.LONG: "I", FieldType.RATIONAL: "I"}
HEAD = struct.Struct("2sHI")
ROOM = 4
"""Bytes of a value that a directory's entry has room for."""


def assemble(order: str, tags: Sequence[TagValues], offsets: Container[int]) -> bytes:
    """Return header, directory, and the values that do not fit into it.

    `tags` are in ascending order, `order` is "<" or ">".  Values of the tags in `offsets`
    count from the end of what is returned, where the pixels begin.
    """
    packed = [_packed(order, kind, values) for _, kind, values in tags]
    first = HEAD.size + 2 + 12 * len(tags) + 4
    start = first + sum(len(value) + len(value) % 2 for value in packed if len(value) > ROOM)
    directory, beyond = b"", b""
    for (tag, kind, values), value in zip(tags, packed, strict=True):
        stored = value
        if tag in offsets:
            stored = _packed(order, kind, [start + each for each in values])
        count = len(values) // 2 if kind == FieldType.RATIONAL else len(values)
        place = stored.ljust(ROOM, b"\0")
        if len(stored) > ROOM:  # on even bytes behind the directory
            place = struct.pack(f"{order}I", first + len(beyond))
            beyond += stored + bytes(len(stored) % 2)
        directory += struct.pack(f"{order}HHI", tag, kind, count) + place
    mark = b"II" if order == "<" else b"MM"
    head = struct.pack(f"{order}{HEAD.format}", mark, 42, HEAD.size)
    return head + struct.pack(f"{order}H", len(tags)) + directory + bytes(4) + beyond


def _packed(order: str, kind: int, values: Sequence[int] | bytes) -> bytes:
    if isinstance(values, bytes):
        return values
    return struct.pack(f"{order}{len(values)}{CODES[FieldType(kind)]}", *values)
