"""Old-style JPEG in TIFF (compression 6): the JPEG header that its segments lack, put together from tags.

May touch errors and the TIFF layout.  Two forms exist: tables in tags of their own with bare scans
as segments, and a JPEG stream (JPEGInterchangeFormat) that the segments are parts of.
Spec: TIFF 6.0, section 22; https://www.simplesystems.org/libtiff/TIFFTechNote2.html tells why it was given up.
"""

import struct

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Tag
from jnrrdz.formats.tiff.tiff_image import TiffImage

SOI = b"\xff\xd8"
MAX_HEADER = 1 << 16
QUANTISATION = 64
COUNTS = 16
BASELINE = 1


def old_jpeg_header(layout: TiffLayout, image: TiffImage, first_segment: int) -> bytes | None:
    """Return what stands before a segment in the JPEG that it is a part of; None where segments are whole."""
    if layout.exactly(first_segment, 2, "StripOffsets") == SOI:
        return None
    start = layout.integer(image.ifd, Tag.JPEGInterchangeFormat, 0)
    if 0 < start < first_segment <= start + MAX_HEADER and layout.exactly(start, 2, "JPEGInterchangeFormat") == SOI:
        return layout.exactly(start, first_segment - start, "JPEGInterchangeFormat")
    if layout.integer(image.ifd, Tag.JPEGProc, BASELINE) != BASELINE:
        raise UnsupportedError("lossless old-style JPEG", offset=image.ifd.offset, field="JPEGProc")
    return _assembled(layout, image)


def _assembled(layout: TiffLayout, image: TiffImage) -> bytes:
    """Return SOI, quantisation tables, frame header, Huffman tables and scan header, from the tags."""
    samples = 1 if image.separate else image.samples
    tables = [layout.ints(image.ifd, tag) for tag in (Tag.JPEGQTables, Tag.JPEGDCTables, Tag.JPEGACTables)]
    if any(len(offsets) < samples for offsets in tables):
        raise MalformedError("tables for fewer components than there are", offset=image.ifd.offset, field="JPEGQTables")
    quantisation, dc, ac = tables
    parts = [SOI]
    for number in range(samples):
        values = layout.exactly(quantisation[number], QUANTISATION, "JPEGQTables")
        parts.append(_segment(0xDB, bytes([number]) + values))
    parts.append(_segment(0xC0, _frame(layout, image, samples)))
    for number in range(samples):
        parts.append(_segment(0xC4, bytes([number]) + _huffman(layout, dc[number], "JPEGDCTables")))
        parts.append(_segment(0xC4, bytes([0x10 | number]) + _huffman(layout, ac[number], "JPEGACTables")))
    interval = layout.integer(image.ifd, Tag.JPEGRestartInterval, 0)
    if interval:
        parts.append(_segment(0xDD, struct.pack(">H", interval)))
    scan = b"".join(bytes([number + 1, number << 4 | number]) for number in range(samples))
    parts.append(_segment(0xDA, bytes([samples]) + scan + b"\0\x3f\0"))
    return b"".join(parts)


def _frame(layout: TiffLayout, image: TiffImage, samples: int) -> bytes:
    across, down = (1, 1)
    if image.photometric == Photometric.YCBCR and samples > 1:
        across, down = layout.ints(image.ifd, Tag.YCbCrSubSampling, (2, 2))[:2]
    size = struct.pack(">BHHB", 8, image.segment_length, image.segment_width, samples)
    factors = [(across << 4 | down) & 0xFF if number == 0 else 0x11 for number in range(samples)]
    return size + b"".join(bytes([number + 1, factor, number]) for number, factor in enumerate(factors))


def _huffman(layout: TiffLayout, offset: int, field: str) -> bytes:
    counts = layout.exactly(offset, COUNTS, field)
    return counts + layout.exactly(offset + COUNTS, sum(counts), field)


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
