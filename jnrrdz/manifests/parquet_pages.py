"""What a Parquet file says of its pages, looked at before anything is decoded.

A page's header says how long it gets, and how many values a dictionary has; Arrow makes room for both before it looks
at the page, so that two kilobytes take gigabytes.  Arrow's own objects for what the footer says end the process where
it contradicts itself, so the footer is read here too.  Follows
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift in Thrift's compact protocol,
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from collections.abc import Iterator
from typing import Any

from jnrrdz.errors import MalformedError, UnsupportedError

_MAGIC = b"PAR1"
_FLAGS, _BYTE, _VARINTS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
_MOST_DEEP = 16
_LONG_LIST = 15
"""What stands in place of a list's length where that follows."""

# field numbers: of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
_ROWS, _GROUPS = 3, 4
_COLUMNS, _GROUP_ROWS = 1, 3
_COLUMN = 3
_PATH, _STORED, _FIRST_DATA, _FIRST_DICTIONARY = 3, 7, 9, 11

# of PageHeader, and of the headers inside
_TYPE, _UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY, _DATA_V2 = 1, 2, 3, 5, 7, 8
_TYPE_DICTIONARY = 2
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4
_DELTA_BYTE_ARRAY = 7
"""Values that repeat what the one before them begins with: a page of a few bytes makes any number."""

SMALLEST_VALUE = 4
"""Bytes that a value of a dictionary takes at least: the length of a text."""

MOST_FREE, MOST_EXPANDED = 1 << 26, 64
"""Bytes that the pages of any file may decode to, and for each byte of the file."""

FREE_ROWS, ROWS_OF_A_BYTE = 1 << 20, 64
"""Rows that any file may have, and for each of its bytes: a column of one value takes next to nothing."""


def check(data: bytes, *, most_decoded: int | None = None) -> None:
    """Refuse a file whose pages or rows take much more room than the file.

    With `most_decoded` a file's pages decode to no more bytes than that, and none is a dictionary: what is decoded
    without one has each value as often as there are rows with it.
    """
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != _MAGIC or length > len(data) - 8:
        raise MalformedError("not a Parquet file, or one that is cut off")
    footer, _ = _struct(data, len(data) - 8 - length, 0)
    groups = _members(footer, _GROUPS)
    rows = max(_number(footer, _ROWS), sum(_number(group, _GROUP_ROWS) for group in groups))
    most = FREE_ROWS + ROWS_OF_A_BYTE * len(data)
    if rows > most:
        raise UnsupportedError(f"a record of {rows} rows in {len(data)} bytes; {most} are read at most")
    left = allowed = MOST_FREE + MOST_EXPANDED * len(data) if most_decoded is None else most_decoded
    for group in groups:
        for column in _members(group, _COLUMNS):
            told = column.get(_COLUMN)
            told = told if isinstance(told, dict) else {}
            path = told.get(_PATH)
            # a list has a value for each of its members: they are as many as rows may be, and taken as 8 bytes each
            is_list = isinstance(path, list) and len(path) > 1
            for header in _pages(data, told):
                if most_decoded is not None and (header.get(_TYPE) == _TYPE_DICTIONARY or _DICTIONARY in header):
                    raise UnsupportedError("values in a dictionary, where each stands by itself")
                left -= _list_size(header, most) if is_list else _size(header, _number(group, _GROUP_ROWS))
                if left < 0:
                    raise UnsupportedError(f"pages of more than {allowed} bytes in a file of {len(data)}")


def _number(fields: dict[int, Any], name: int) -> int:
    """Return a field that is a number, 0 where it is not there."""
    value = fields.get(name, 0)
    if type(value) is not int or value < 0:
        raise MalformedError(f"field {name} of the footer or of a page is no number of 0 or more")
    return value


def _members(fields: dict[int, Any], name: int) -> list[dict[int, Any]]:
    """Return a field that is a list of structs."""
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise MalformedError(f"field {name} of the footer is no list of structs")
    return found


def _size(header: dict[int, Any], rows: int) -> int:
    """Return the bytes that a page decodes to."""
    size = _number(header, _UNCOMPRESSED)
    for kind, most in ((_DICTIONARY, size // SMALLEST_VALUE), (_DATA, rows), (_DATA_V2, rows)):
        inner = header.get(kind)
        inner = inner if isinstance(inner, dict) else {}
        if _number(inner, _VALUES) > most:
            raise MalformedError(f"a page that says that it has more than {most} values", field="num_values")
        if inner.get(_ENCODING_V2 if kind == _DATA_V2 else _ENCODING) == _DELTA_BYTE_ARRAY:
            raise UnsupportedError("texts by what they share with the one before", field="DELTA_BYTE_ARRAY")
    return size


def _list_size(header: dict[int, Any], most: int) -> int:
    """Return the bytes that a page of lists decodes to; pages pack numbers closer than they are in memory."""
    inner = (header.get(kind) for kind in (_DATA, _DATA_V2))
    values = sum(_number(it, _VALUES) for it in inner if isinstance(it, dict))
    return max(_size(header, most), values * _NUMBER)


_NUMBER = 8
"""Bytes of a list's member."""


def _pages(data: bytes, column: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """Yield the headers of a column's pages."""
    at = min(_number(column, _FIRST_DATA), _number(column, _FIRST_DICTIONARY) or len(data))
    end = at + _number(column, _STORED)
    if end > len(data):
        raise MalformedError(f"a column that ends at byte {end} of a file of {len(data)}")
    while at < end:
        header, at = _struct(data, at, 0)
        at += _number(header, _COMPRESSED)
        yield header


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by their numbers, and where it ends."""
    if depth > _MOST_DEEP:
        raise MalformedError("structs in structs without end", offset=at)
    fields: dict[int, Any] = {}
    number = 0
    while head := _octet(data, at):
        at += 1
        number, at = (number + (head >> 4), at) if head >> 4 else _zigzag(data, at)
        fields[number], at = (None, at) if head & 0x0F in _FLAGS else _value(data, at, head & 0x0F, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return a value, None where nothing here needs it, and where it ends."""
    if kind in _VARINTS:
        return _zigzag(data, at)
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in _LISTS:
        return _list(data, at, depth + 1)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, at + length
    sizes = {**dict.fromkeys((*_FLAGS, _BYTE), 1), _DOUBLE: 8}  # a flag in a list is a byte
    if kind not in sizes:
        raise MalformedError(f"a field of kind {kind}, which Parquet has not", offset=at)
    return None, at + sizes[kind]


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = _octet(data, at)
    count, at = _varint(data, at + 1) if head >> 4 == _LONG_LIST else (head >> 4, at + 1)
    if count > len(data) - at or depth > _MOST_DEEP:
        raise MalformedError(f"a list of {count} members, or lists in lists without end", offset=at)
    found = []
    for _ in range(count):
        member, at = _value(data, at, head & 0x0F, depth)
        found.append(member)
    return found, at


def _octet(data: bytes, at: int) -> int:
    if at >= len(data):
        raise MalformedError("the footer or a page's header is cut off", offset=at)
    return data[at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        octet = _octet(data, at)
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:  # noqa: PLR2004  the bit that says that more follow
            return value, at
    raise MalformedError("a number of too many bytes", offset=at)


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
