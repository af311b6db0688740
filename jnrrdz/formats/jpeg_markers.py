"""The markers of a JPEG, walked once for all formats.

Spec: https://www.w3.org/Graphics/JPEG/itu-t81.pdf (annex B)
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

type Size = tuple[int, int, int]
"""Height, width, samples."""

MARK = 0xFF
LOSSLESS = 0xC3
SOF = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
SEQUENTIAL = {0xC0, 0xC1}
EOI = 0xD9
SOS = 0xDA
STANDALONE = {0x01, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8}
SEGMENT_HEAD = 4  # marker, length
FRAME_BYTES = 10  # marker, length, precision, height, width, components
AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""The marker behind the data of a scan, which have zeros stuffed in, and restarts."""


class JpegMarkers(NamedTuple):
    """Positions of the markers of a JPEG, None for those that it lacks."""

    frame: int | None
    scan: int | None
    end: int | None

    def frame_kind(self, data: bytes | memoryview) -> int | None:
        """Return the marker of the frame header, which names the process: SOF0, SOF3, ..."""
        return None if self.frame is None else data[self.frame + 1]

    def size(self, data: bytes | memoryview) -> Size | None:
        """Return what the frame header declares."""
        if self.frame is None:
            return None
        height = int.from_bytes(data[self.frame + 5 : self.frame + 7], "big")
        width = int.from_bytes(data[self.frame + 7 : self.frame + 9], "big")
        return height, width, data[self.frame + 9]


MOST_STEPS = 1 << 62

type Head = Callable[[int], bytes | memoryview]
"""Returns the four bytes at an offset, fewer at the end."""


def jpeg_segments(head: Head, at: int, most: int = MOST_STEPS) -> Iterator[tuple[int, int, int]]:
    """Yield marker, beginning and end of each segment from `at` on, to the first scan's header or the end.

    A marker that has no length is no segment, but for EOI.  Where no marker is, the last
    that is yielded is 0.  After `most` steps, one for each marker and byte that fills,
    nothing more is yielded.
    """
    for _ in range(most):
        four = head(at)
        if len(four) < 2 or four[0] != MARK:  # noqa: PLR2004  a marker's bytes
            yield 0, at, at
            return
        marker = four[1]
        if marker == MARK:  # bytes that fill
            at += 1
        elif marker in STANDALONE:
            at += 2
        elif marker == EOI:
            yield marker, at, at + 2
            return
        elif len(four) < SEGMENT_HEAD:  # the data end within it
            yield marker, at, at + len(four)
            return
        else:
            stop = at + 2 + (four[2] << 8 | four[3])
            yield marker, at, stop
            if marker == SOS:
                return
            at = stop


def jpeg_markers(data: bytes | memoryview) -> JpegMarkers:
    """Return the positions of the first frame header, the first scan and the end."""
    frame = scan = None
    at = 0
    while True:
        behind = None
        for marker, begin, stop in jpeg_segments(lambda place: data[place : place + 4], at):
            if marker == EOI:
                return JpegMarkers(frame, scan, begin)
            if marker in SOF and frame is None and begin + FRAME_BYTES <= len(data):
                frame = begin
            if marker == SOS:
                scan = begin if scan is None else scan
                behind = AFTER_SCAN.search(data, stop)
        if behind is None:
            return JpegMarkers(frame, scan, None)
        at = behind.start()
        if data[at + 1] == EOI:
            return JpegMarkers(frame, scan, at)


def jpeg_size(data: bytes | memoryview) -> Size | None:
    """Return what a JPEG's frame header declares; None where there is no frame header."""
    return jpeg_markers(data).size(data)
