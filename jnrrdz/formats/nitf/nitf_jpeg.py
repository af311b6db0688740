"""The JPEG streams of a compressed image, one after the other without a table of their places.

May touch numpy and errors; bytes come through `read(start, stop)`, a bounded piece at a time.  The
markers before the first scan are walked by their lengths; in the scans FF D9 can only be the end.
Spec: MIL-STD-188-198A, https://www.w3.org/Graphics/JPEG/itu-t81.pdf (annex B)
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError

type ReadRange = Callable[[int, int], bytes]
type Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Offsets and lengths."""

PIECE = 1 << 20
SOI, EOI = b"\xff\xd8", b"\xff\xd9"
MARK, SOS = 0xFF, 0xDA
SEGMENT_HEAD = 4
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
FRAME_HEAD = 5
"""Bytes of a frame header up to its size: precision, rows, columns."""

MAX_SEGMENTS = 1 << 12
FIELD = "JPEG"


def find_streams(read: ReadRange, start: int, stop: int, count: int) -> Spans:
    """Return where `count` JPEG streams between two offsets begin, and how long they are."""
    offsets, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = start
    for number in range(count):
        begin = _find(read, SOI, at, stop)
        if begin < 0:
            raise MalformedError(f"{number} streams where {count} belong", offset=at, field=FIELD)
        end = _find(read, EOI, _first_scan(read, begin, stop), stop)
        if end < 0:
            raise MalformedError("a stream without its end (FF D9)", offset=begin, field=FIELD)
        at = end + len(EOI)
        offsets[number], lengths[number] = begin, at - begin
    return offsets, lengths


def frame_size(read: ReadRange, begin: int, stop: int) -> tuple[int, int]:
    """Return the rows and columns that a stream's frame header declares."""
    for marker, start, end in _segments(read, begin, stop):
        if marker in FRAMES:
            found = read(start, min(end, stop))[SEGMENT_HEAD : SEGMENT_HEAD + FRAME_HEAD]
            if len(found) == FRAME_HEAD:
                return int.from_bytes(found[1:3], "big"), int.from_bytes(found[3:5], "big")
    raise MalformedError("no frame header before the first scan", offset=begin, field=FIELD)


def _first_scan(read: ReadRange, begin: int, stop: int) -> int:
    """Return where the data of the first scan begin."""
    return next(end for marker, _, end in _segments(read, begin, stop) if marker == SOS)


def _segments(read: ReadRange, begin: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the marker segments up to that of the first scan: each one's marker, beginning and end."""
    at = begin + len(SOI)
    for _ in range(MAX_SEGMENTS):
        head = read(at, min(at + SEGMENT_HEAD, stop))
        if len(head) < SEGMENT_HEAD or head[0] != MARK:
            raise MalformedError(f"{head.hex(' ')} where a marker belongs", offset=at, field=FIELD)
        if head[1] == MARK:  # fill
            at += 1
            continue
        end = at + 2 + int.from_bytes(head[2:], "big")
        yield head[1], at, end
        if head[1] == SOS:
            return
        at = end
    raise MalformedError(f"more than {MAX_SEGMENTS} segments before the first scan", offset=begin, field=FIELD)


def _find(read: ReadRange, mark: bytes, start: int, stop: int) -> int:
    """Return where two bytes first stand between two offsets, -1 where they do not."""
    at = start
    while at < stop:
        data = read(at, min(at + PIECE, stop))
        place = data.find(mark)
        if place >= 0:
            return at + place
        if len(data) < PIECE:
            return -1
        at += len(data) - 1  # the mark may be cut in two
    return -1
