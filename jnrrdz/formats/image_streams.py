"""What the bytes of an image codec say of their own size, and colours of JPEG and WebP as planes.

A few bytes of JPEG, PNG, WebP, LERC, JPEG 2000, JPEG XL or JPEG XR may declare gigabytes: their headers are
compared with the chunk that they must fill before a decoder allocates anything.  A reader of a size gives None
where it finds no header: then no decoder finds one either.  Schemes that are told the size of their output
(deflate, LZW, ZSTD, LZMA, PackBits) stop there by themselves and need no look.

Zarr wants (band, y, x), the formats give pixel by pixel, and gathering every third byte costs a third of a
JPEG's decoding.  Decoded with a fourth, unused byte a pixel, a plane is a cast of 32-bit words to their
lowest byte, which costs half of that, and puts the plane where it belongs.
Spec: https://github.com/Esri/lerc; ITU-T T.800, A.5.1; ISO/IEC 18181-1, SizeHeader; ITU-T T.832, 8.3
"""

import struct
import threading
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.formats.jpeg2000.boxes import parse_boxes
from jnrrdz.formats.jpeg_markers import SEQUENTIAL, JpegMarkers, Size

J2K_SIZ = b"\xff\x4f\xff\x51"
JXL_CODESTREAM = b"\xff\x0a"
JXL_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
JXL_BITS = (9, 13, 18, 30)
JXL_RATIOS = ((1, 1), (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
JXR_CONTAINER = b"II\xbc"
JXR_IMAGE = b"WMPHOTO\0"
JXR_IMAGE_OFFSET = 0xBCC0
JXR_SHORT = 0x80


def lerc_size(data: bytes | memoryview) -> Size | None:
    """Return what a LERC blob's header declares, of the second version or the first."""
    head = bytes(data[:34])
    if head[:10] == b"CntZImage " and len(head) >= 26:  # noqa: PLR2004  name, version, type, height, width
        height, width = struct.unpack_from("<ii", head, 18)
        return height, width, 1
    if head[:6] != b"Lerc2 ":
        return None
    version = int.from_bytes(head[6:10], "little")
    start = 14 if version >= 3 else 10  # noqa: PLR2004  a checksum stands there from version 3 on
    height, width = (int.from_bytes(head[i : i + 4], "little") for i in (start, start + 4))
    depth = int.from_bytes(head[start + 8 : start + 12], "little") if version >= 4 else 1  # noqa: PLR2004
    return height, width, depth


def jpeg2000_size(data: bytes | memoryview) -> Size | None:
    """Return what the SIZ marker segment declares, of a codestream or of the first one in a JP2."""
    start = 0
    if bytes(data[:2]) != J2K_SIZ[:2]:
        spans = parse_boxes(lambda start, stop: bytes(data[start:stop]), 0, len(data)).codestreams
        start = spans[0][0] if spans else 0
    head = bytes(data[start : start + 42])
    if head[:4] != J2K_SIZ or len(head) < 42:  # noqa: PLR2004  up to Csiz
        return None
    right, bottom, left, top = struct.unpack_from(">4I", head, 8)
    return bottom - top, right - left, int.from_bytes(head[40:42], "big")


def jpegxl_size(data: bytes | memoryview) -> Size | None:
    """Return what a JPEG XL's SizeHeader declares, of a codestream or of one in boxes."""
    head = bytes(data[:16])
    if head[:12] == JXL_CONTAINER:
        boxes = parse_boxes(lambda start, stop: bytes(data[start:stop]), 0, len(data)).top
        skip = {b"jxlc": 0, b"jxlp": 4}  # a part begins with its number
        parts = (data[box.start + skip[box.kind] : box.stop] for box in boxes if box.kind in skip)
        head = b"".join(bytes(part[:16]) for part in parts)[:16]
    if head[:2] != JXL_CODESTREAM:
        return None
    bits = int.from_bytes(head[2:], "little")  # the lowest of a byte first

    def take(count: int) -> int:
        """Return the next bits as a number."""
        nonlocal bits
        number = bits & ((1 << count) - 1)
        bits >>= count
        return number

    def side() -> int:
        """Return a height or width: five bits for eighths of it, or as many as two bits say."""
        return (take(5) + 1) * 8 if small else 1 + take(JXL_BITS[take(2)])

    small = take(1)
    height = side()
    ratio = take(3)
    over, under = JXL_RATIOS[ratio]
    return height, height * over // under if ratio else side(), 1


def jpegxr_size(data: bytes | memoryview) -> Size | None:
    """Return what the image header declares that a JPEG XR's directory points to."""
    if bytes(data[:3]) != JXR_CONTAINER:
        return None
    at = int.from_bytes(data[4:8], "little")
    count = int.from_bytes(data[at : at + 2], "little")
    entries = range(at + 2, min(at + 2 + 12 * count, len(data) - 11), 12)
    images = (entry for entry in entries if int.from_bytes(data[entry : entry + 2], "little") == JXR_IMAGE_OFFSET)
    at = next((int.from_bytes(data[entry + 8 : entry + 12], "little") for entry in images), len(data))
    head = bytes(data[at : at + 20])
    if head[:8] != JXR_IMAGE or len(head) < 20:  # noqa: PLR2004  up to HEIGHT_MINUS1
        return None
    width, height = struct.unpack_from(">HH" if head[10] & JXR_SHORT else ">II", head, 12)
    return height + 1, width + 1, 1


def png_size(data: bytes | memoryview) -> Size | None:
    """Return what a PNG's IHDR declares."""
    if bytes(data[12:16]) != b"IHDR":
        return None
    return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big"), 1


def webp_size(data: bytes | memoryview) -> Size | None:
    """Return what a WebP's first chunk declares."""
    head = bytes(data[:30])
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[27:30], "little"), 1 + int.from_bytes(head[24:27], "little"), 3
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF), 3
    if kind == b"VP8 ":
        return int.from_bytes(head[28:30], "little") & 0x3FFF, int.from_bytes(head[26:28], "little") & 0x3FFF, 3
    return None


WORD = 4
COLOURS = 3


ROWS_BELOW = 8
"""Rows that a JPEG keeps below those that are wanted: libjpeg takes chroma from one of them."""


def upper_rows(
    data: bytes | memoryview, markers: JpegMarkers, height: int, rows: int
) -> tuple[bytes | memoryview, int]:
    """Return a JPEG whose first rows are those of the given one, and its height: the same where that saves nothing.

    Its frame header declares fewer rows.  Where all components are in one sequential scan, a decoder then stops early.
    """
    rows += ROWS_BELOW
    frame, scan, _ = markers
    if rows >= height or frame is None or scan is None:
        return data, height
    if data[frame + 1] not in SEQUENTIAL or data[scan + 4] != data[frame + 9]:
        return data, height
    upper = bytearray(data)
    struct.pack_into(">H", upper, frame + 5, rows)
    return memoryview(upper), rows


def jpeg_words(
    data: bytes | memoryview, height: int, width: int, *, tables: bytes | None, stored_as_rgb: bool
) -> NDArray[np.uint32]:
    """Return the colours of a JPEG of exactly this size as words; what the decoder raises goes through."""
    colorspace: dict[str, Any] = {"colorspace": "RGB"} if stored_as_rgb else {}
    room = scratch(height * width * WORD + WORD)
    out = room[:-WORD].reshape(height, width, WORD)
    imagecodecs.jpeg8_decode(data, tables=tables, outcolorspace="RGBX", out=out, **colorspace)
    return _words(room, height, width)


def jpeg_planes(
    data: bytes | memoryview, height: int, width: int, *, tables: bytes | None, stored_as_rgb: bool
) -> NDArray[np.uint8]:
    """Return the colours of a JPEG of exactly this size, band by band."""
    words = jpeg_words(data, height, width, tables=tables, stored_as_rgb=stored_as_rgb)
    return words.astype(np.uint8, order="C")


def webp_words(data: bytes | memoryview, height: int, width: int) -> NDArray[np.uint32]:
    """Return the colours of a WebP of exactly this size as words; what the decoder raises goes through."""
    room = scratch(height * width * WORD + WORD)
    imagecodecs.webp_decode(data, hasalpha=True, out=room[:-WORD].reshape(height, width, WORD))
    return _words(room, height, width)


def _words(room: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint32]:
    """Return planes of words whose lowest bytes are the colours; the room has a word more, for those that begin late.

    They are to be copied before the thread decodes the next chunk.
    """
    words: NDArray[np.uint32] = np.ndarray((COLOURS, height, width), "<u4", room.data, strides=(1, WORD * width, WORD))
    return words


_KEPT = 8 << 20
"""Bytes that a thread keeps for the next chunk; room for more is made anew each time."""

_own = threading.local()


def scratch(nbytes: int) -> NDArray[np.uint8]:
    """Return room for what a decoder makes on the way: the thread's own, and the same at every call.

    Fresh memory for a megabyte costs as much as copying it: the system has to clear each of its pages.
    """
    room: NDArray[np.uint8] | None = getattr(_own, "room", None)
    if room is None or len(room) < nbytes:
        room = np.empty(nbytes, np.uint8)
        if nbytes <= _KEPT:
            _own.room = room
    return room[:nbytes]
