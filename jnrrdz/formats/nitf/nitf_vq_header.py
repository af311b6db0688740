"""The codebooks of a vector-quantised image (C4, M4), which stand before its blocks.

May touch errors; bytes come through `read(start, stop)`.  Pixels are kept four by four: a code of
12 bits names four rows of four values, one row in each of four tables.
Spec: MIL-STD-188-199, MIL-STD-2411 (the compression lookup subsection)
"""

import struct
from collections.abc import Callable

from jnrrdz.errors import MalformedError, UnsupportedError

type ReadRange = Callable[[int, int], bytes]

DISPLAY = struct.Struct(">IIB")
"""The image display parameters: rows and columns of codes in a block, bits of a code."""

SECTION = struct.Struct(">HHH")
"""The compression section: algorithm, number of lookup tables, number of parameters."""

HEAD = struct.Struct(">IH")
RECORD = struct.Struct(">HIHHI")
TABLES = 4
VECTOR_QUANTIZATION = 1
SIDE = 4
CODES = 4096
CODE_BITS = 12
TABLE_BYTES = CODES * SIDE
FIELD = "VQ tables"


def parse_codebooks(read: ReadRange, start: int, stop: int) -> tuple[bytes, int]:
    """Return the four tables, one after the other, and where the codes begin."""
    need = DISPLAY.size + SECTION.size + HEAD.size
    head = read(start, min(start + need, stop))
    if len(head) < need:
        raise MalformedError(f"{len(head)} bytes where {need} belong", offset=start, field=FIELD)
    *_, bits = DISPLAY.unpack_from(head)
    algorithm, tables, _ = SECTION.unpack_from(head, DISPLAY.size)
    if (bits, algorithm, tables) != (CODE_BITS, VECTOR_QUANTIZATION, TABLES):
        found = f"algorithm {algorithm}, {tables} tables, codes of {bits} bits"
        raise UnsupportedError(
            f"{found}; 1 (vector quantisation), {TABLES} and {CODE_BITS} are read", offset=start, field=FIELD
        )
    start += DISPLAY.size + SECTION.size
    offset, width = HEAD.unpack_from(head, DISPLAY.size + SECTION.size)
    if width != RECORD.size:
        raise MalformedError(f"records of {width} bytes, not {RECORD.size}", offset=start, field=FIELD)
    at = start + offset
    records = read(at, min(at + TABLES * RECORD.size, stop)) if at < stop else b""
    if len(records) < TABLES * RECORD.size:
        raise MalformedError(f"{len(records)} bytes of records", offset=at, field=FIELD)
    tables_found = [_table(read, start, stop, record) for record in RECORD.iter_unpack(records)]
    return b"".join(data for data, _ in tables_found), max(end for _, end in tables_found)


def _table(read: ReadRange, start: int, stop: int, record: tuple[int, ...]) -> tuple[bytes, int]:
    _, codes, values, bits, offset = record
    if (codes, values, bits) != (CODES, SIDE, 8):
        found = f"{codes} codes of {values} values of {bits} bits"
        raise UnsupportedError(f"{found}; {CODES} of {SIDE} of 8 are read", offset=start, field=FIELD)
    at = start + offset
    data = read(at, min(at + TABLE_BYTES, stop)) if at < stop else b""
    if len(data) < TABLE_BYTES:
        raise MalformedError(f"{len(data)} bytes of {TABLE_BYTES}", offset=at, field=FIELD)
    return data, at + TABLE_BYTES
