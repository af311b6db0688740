"""What LERC, JPEG 2000, JPEG XL and JPEG XR data say of their own size, from their headers.

May touch the layout of JP2 boxes only.  A few bytes of each may stand for any number of pixels, so
these are read before a decoder is called.  Each function gives None where it finds no header: then
no decoder finds one either.
Spec: https://github.com/Esri/lerc; ITU-T T.800, A.5.1; ISO/IEC 18181-1, SizeHeader; ITU-T T.832, 8.3
"""

import struct

from jnrrdz.formats.jpeg2000.jp2_boxes import parse_boxes

type Size = tuple[int, int, int]
"""Height, width, samples."""

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
    start = 0 if bytes(data[:2]) == J2K_SIZ[:2] else _codestream(data)
    head = bytes(data[start : start + 42])
    if head[:4] != J2K_SIZ or len(head) < 42:  # noqa: PLR2004  up to Csiz
        return None
    right, bottom, left, top = struct.unpack_from(">4I", head, 8)
    return bottom - top, right - left, int.from_bytes(head[40:42], "big")


def _codestream(data: bytes | memoryview) -> int:
    spans = parse_boxes(lambda start, stop: bytes(data[start:stop]), 0, len(data)).codestreams
    return spans[0][0] if spans else 0


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
    bits = _Bits(head[2:])
    small = bits.take(1)
    height = bits.side(small)
    ratio = bits.take(3)
    over, under = JXL_RATIOS[ratio]
    return height, height * over // under if ratio else bits.side(small), 1


class _Bits:
    """Bits of JPEG XL, the lowest of a byte first."""

    def __init__(self, data: bytes) -> None:
        self.value = int.from_bytes(data, "little")

    def take(self, count: int) -> int:
        """Return the next bits as a number."""
        found = self.value & ((1 << count) - 1)
        self.value >>= count
        return found

    def side(self, small: int) -> int:
        """Return a height or width: five bits for eighths of it, or as many as two bits say."""
        return (self.take(5) + 1) * 8 if small else 1 + self.take(JXL_BITS[self.take(2)])


def jpegxr_size(data: bytes | memoryview) -> Size | None:
    """Return what the image header declares that a JPEG XR's directory points to."""
    if bytes(data[:3]) != JXR_CONTAINER:
        return None
    at = int.from_bytes(data[4:8], "little")
    count = int.from_bytes(data[at : at + 2], "little")
    for entry in range(at + 2, min(at + 2 + 12 * count, len(data) - 11), 12):
        if int.from_bytes(data[entry : entry + 2], "little") == JXR_IMAGE_OFFSET:
            return _jpegxr_image(data, int.from_bytes(data[entry + 8 : entry + 12], "little"))
    return None


def _jpegxr_image(data: bytes | memoryview, at: int) -> Size | None:
    head = bytes(data[at : at + 20])
    if head[:8] != JXR_IMAGE or len(head) < 20:  # noqa: PLR2004  up to HEIGHT_MINUS1
        return None
    width, height = struct.unpack_from(">HH" if head[10] & JXR_SHORT else ">II", head, 12)
    return height + 1, width + 1, 1
