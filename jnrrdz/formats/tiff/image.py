"""What one IFD says of its image: geometry, samples, compression, and where each segment stands.

May touch numpy, errors and the TIFF structure.  A segment is a tile or a strip.  Everything that
is impossible is refused here, before any pixel is asked for, with the tag's name.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf

Old-style JPEG in TIFF (compression 6): the JPEG header that its segments lack, put together from tags.

May touch errors and the TIFF layout.  Two forms exist: tables in tags of their own with bare scans
as segments, and a JPEG stream (JPEGInterchangeFormat) that the segments are parts of.
Spec: TIFF 6.0, section 22; https://www.simplesystems.org/libtiff/TIFFTechNote2.html tells why it was given up.
"""

import struct
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import (
    BYTE_STREAMS,
    Compression,
    Photometric,
    Planar,
    Predictor,
    SampleFormat,
    SubfileType,
    Tag,
    name_of,
)

MAX_SIDE = (1 << 31) - 1
MAX_TILE_SIDE = (1 << 32) - 1
MAX_SAMPLES = (1 << 16) - 1
PACKBITS_REPEAT = 128
MAX_UNLISTED = 1 << 20  # a few bytes must not stand for gigabytes of zeros

DTYPE: dict[SampleFormat, tuple[tuple[int, str], ...]] = {
    SampleFormat.UINT: ((8, "u1"), (16, "u2"), (32, "u4"), (64, "u8")),
    SampleFormat.INT: ((8, "i1"), (16, "i2"), (32, "i4"), (64, "i8")),
    SampleFormat.IEEEFP: ((16, "f2"), (32, "f4"), (64, "f8")),
    SampleFormat.COMPLEXINT: ((32, "c8"), (64, "c16")),
    SampleFormat.COMPLEXIEEEFP: ((64, "c8"), (128, "c16")),
}
"""For each sample format the most bits that a type holds, and the type."""

WHOLE_WIDTHS = {
    SampleFormat.INT: {8, 16, 24, 32, 64},
    SampleFormat.IEEEFP: {16, 24, 32, 64},
    SampleFormat.COMPLEXINT: {32, 64},
    SampleFormat.COMPLEXIEEEFP: {64, 128},
}
"""Only unsigned integers may have any number of bits; a signed one would need its sign extended."""


@dataclass(frozen=True)
class TiffImage:
    """The facts of one IFD."""

    ifd: Ifd
    width: int
    length: int
    tiled: bool
    segment_width: int
    segment_length: int
    samples: int
    bits: tuple[int, ...]
    formats: tuple[int, ...]
    compression: int
    photometric: int
    planar: int
    predictor: int
    fill_order: int
    subfile: int

    @property
    def separate(self) -> bool:
        """Whether every sample has planes of its own."""
        return self.planar == Planar.SEPARATE and self.samples > 1

    @property
    def grid(self) -> tuple[int, int, int]:
        """Segments along (plane, down, across), in the order of the offsets."""
        planes = self.samples if self.separate else 1
        return planes, -(-self.length // self.segment_length), -(-self.width // self.segment_width)

    @property
    def segments(self) -> int:
        """Number of segments that the geometry needs."""
        planes, down, across = self.grid
        return planes * down * across

    @property
    def row_bytes(self) -> int:
        """Bytes of one uncompressed row of a segment."""
        bits = self.bits[0] if self.separate else sum(self.bits)
        return -(-self.segment_width * bits // 8)

    @property
    def is_mask(self) -> bool:
        """Whether this image is a transparency mask of another."""
        return bool(self.subfile & SubfileType.MASK)

    @property
    def is_reduced(self) -> bool:
        """Whether this image is a smaller version of another."""
        return bool(self.subfile & SubfileType.REDUCED)


def tiff_image(layout: TiffLayout, ifd: Ifd) -> TiffImage:
    """Return the facts of an IFD, or an error that names the tag in the way."""
    width, length = (_side(layout, ifd, tag) for tag in (Tag.ImageWidth, Tag.ImageLength))
    samples = layout.integer(ifd, Tag.SamplesPerPixel, 1)
    if not 0 < samples <= MAX_SAMPLES:
        raise MalformedError(f"{samples} samples a pixel", offset=ifd.offset, field="SamplesPerPixel")
    tiled = Tag.TileWidth in ifd or Tag.TileOffsets in ifd
    segment = _tile(layout, ifd) if tiled else (width, _rows_per_strip(layout, ifd, length))
    if layout.integer(ifd, Tag.ImageDepth, 1) != 1 or layout.integer(ifd, Tag.TileDepth, 1) != 1:
        raise UnsupportedError("images of several planes of depth", offset=ifd.offset, field="ImageDepth")
    return TiffImage(
        ifd=ifd,
        width=width,
        length=length,
        tiled=tiled,
        segment_width=segment[0],
        segment_length=segment[1],
        samples=samples,
        bits=_per_sample(layout, ifd, Tag.BitsPerSample, samples),
        formats=_per_sample(layout, ifd, Tag.SampleFormat, samples),
        compression=layout.integer(ifd, Tag.Compression, Compression.NONE),
        photometric=layout.integer(ifd, Tag.PhotometricInterpretation, 1),
        planar=layout.integer(ifd, Tag.PlanarConfiguration, Planar.CHUNKY),
        predictor=_predictor(layout, ifd),
        fill_order=layout.integer(ifd, Tag.FillOrder, 1),
        subfile=layout.integer(ifd, Tag.NewSubfileType, 0),
    )


def _predictor(layout: TiffLayout, ifd: Ifd) -> int:
    """Return what was done before compressing; where nothing could be, the tag means nothing, as libtiff has it."""
    scheme = layout.integer(ifd, Tag.Compression, Compression.NONE)
    if scheme == Compression.NONE or (scheme in Compression and scheme not in BYTE_STREAMS):
        return Predictor.NONE
    return layout.integer(ifd, Tag.Predictor, Predictor.NONE)


def _side(layout: TiffLayout, ifd: Ifd, tag: Tag, most: int = MAX_SIDE) -> int:
    value = layout.integer(ifd, tag, 0)
    if not 0 < value <= most:
        found = f"a side of {value} pixels" if tag in ifd else "the tag is absent"
        raise MalformedError(found, offset=ifd.offset, field=tag.name)
    return value


def _tile(layout: TiffLayout, ifd: Ifd) -> tuple[int, int]:
    return _side(layout, ifd, Tag.TileWidth, MAX_TILE_SIDE), _side(layout, ifd, Tag.TileLength, MAX_TILE_SIDE)


def _rows_per_strip(layout: TiffLayout, ifd: Ifd, length: int) -> int:
    """Return the rows of a strip; absent, 0 or too many (2**32 - 1 means "all") is the whole image."""
    rows = layout.integer(ifd, Tag.RowsPerStrip, 0)
    return length if not 0 < rows < length else rows


def _per_sample(layout: TiffLayout, ifd: Ifd, tag: Tag, samples: int) -> tuple[int, ...]:
    """Return one value a sample; writers may give one for all, or too many."""
    values = layout.ints(ifd, tag) or (1,)
    return values[:samples] if len(values) >= samples else values + (values[-1],) * (samples - len(values))


def sample_dtype(image: TiffImage) -> np.dtype[Any]:
    """Return the numpy type (native order) that holds every sample of an image exactly."""
    if len(set(image.formats)) > 1:
        raise UnsupportedError(f"samples of different formats {image.formats}", field="SampleFormat")
    bits, number = max(image.bits), image.formats[0]
    if number not in SampleFormat:
        raise UnsupportedError(f"sample format {number}", field="SampleFormat")
    form = SampleFormat.UINT if number == SampleFormat.VOID else SampleFormat(number)
    widths = WHOLE_WIDTHS.get(form)
    if widths is not None and not set(image.bits) <= widths:
        raise UnsupportedError(f"{image.bits} bits of {name_of(SampleFormat, form)}", field="BitsPerSample")
    for most, code in DTYPE[form]:
        if 0 < bits <= most:
            return np.dtype(code)
    raise UnsupportedError(f"{bits} bits of {name_of(SampleFormat, form)}", field="BitsPerSample")


@dataclass(frozen=True, eq=False)
class Segments:
    """Where the segments of an image stand, in the order (plane, down, across)."""

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which segments the file does not hold: offset or length 0."""
        absent: NDArray[np.bool_] = (self.offsets == 0) | (self.lengths == 0)
        return absent


def segments(layout: TiffLayout, image: TiffImage) -> Segments:
    """Return the byte ranges of an image's segments, each of them inside the source."""
    tags = (Tag.TileOffsets, Tag.TileByteCounts) if image.tiled else (Tag.StripOffsets, Tag.StripByteCounts)
    offsets = _column(layout, image, tags[0])
    lengths = _column(layout, image, tags[1], offsets)
    if image.compression == Compression.NONE:
        raw = _raw_lengths(image)
        # as libtiff: raw strips are read whole, whatever their counts say; tiles may be cut short at the edge
        short = (lengths > 0) & (lengths < raw) & (offsets + raw <= layout.size) & (not image.tiled)
        lengths = np.where(short, raw, np.minimum(lengths, raw))
    found = Segments(offsets, lengths)
    beyond = ~found.missing & (offsets >= layout.size)
    if beyond.any():
        raise MalformedError(
            f"segment {int(beyond.argmax())} begins at {int(offsets[beyond.argmax()])}, "
            f"the source ends at {layout.size}: it is truncated, or no TIFF",
            offset=image.ifd.offset,
            field=tags[0].name,
        )
    cut = ~found.missing & (offsets + lengths > layout.size)
    # libtiff takes what there is of a compressed image in one piece, whose length many writers got wrong
    if cut.any() and (image.segments > 1 or image.compression == Compression.NONE):
        raise MalformedError(
            f"segment {int(cut.argmax())} ends at {int((offsets + lengths)[cut.argmax()])}, "
            f"the source at {layout.size}: it is truncated",
            offset=image.ifd.offset,
            field=tags[1].name,
        )
    return Segments(offsets, np.minimum(lengths, layout.size - offsets))


def _raw_lengths(image: TiffImage) -> NDArray[np.int64]:
    """Return the bytes that each segment needs where nothing is compressed; a strip has no rows beyond the image."""
    planes, down, across = image.grid
    rows = np.full(down, image.segment_length, np.int64)
    if not image.tiled:
        rows[-1] = image.length - (down - 1) * image.segment_length
    return np.tile(np.repeat(rows * image.row_bytes, across), planes)


def _column(
    layout: TiffLayout, image: TiffImage, tag: Tag, offsets: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return one integer a segment; where the file lists too few, the rest are missing, as libtiff has it."""
    need = image.segments
    entry = image.ifd.entries.get(tag)
    if entry is None and offsets is not None:
        return _computed_lengths(layout, image, tag, offsets)
    if entry is None or (entry.count < need and need > MAX_UNLISTED):
        raise MalformedError(
            f"{0 if entry is None else entry.count} values for {need} segments",
            offset=image.ifd.offset,
            field=tag.name,
        )
    values = layout.array(image.ifd, tag, limit=need)
    if values is None or values.dtype.kind not in "iu" or values.ndim != 1:
        raise MalformedError("values that are no integers", offset=entry.position, field=tag.name)
    column = values.astype(np.int64)
    if column.size and column.min() < 0:
        raise MalformedError("values beyond 2**63", offset=entry.position, field=tag.name)
    if len(column) == need:
        return column
    warnings.warn(f"{tag.name} lists {len(column)} of {need} segments: the others are missing", stacklevel=4)
    return np.pad(column, (0, need - len(column)))


def _computed_lengths(layout: TiffLayout, image: TiffImage, tag: Tag, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return lengths for a file that gives none: known where nothing is compressed, else up to what follows."""
    if image.compression == Compression.NONE:
        return np.full(len(offsets), image.row_bytes * image.segment_length, np.int64)
    if len(offsets) == 1:
        rest = max(layout.size - int(offsets[0]), 0)
        if image.compression == Compression.PACKBITS:
            rest = _packbits_length(layout.exactly(int(offsets[0]), rest, tag.name), image, tag)
        return np.array([rest], np.int64)
    raise UnsupportedError("compressed segments of unknown length", offset=image.ifd.offset, field=tag.name)


def _packbits_length(data: bytes, image: TiffImage, tag: Tag) -> int:
    """Return how many of the bytes at a strip's start are its runs: PackBits tells by itself where it ends."""
    at, made, need = 0, 0, image.row_bytes * image.segment_length
    while made < need and at < len(data):
        head = data[at]
        literal = head < PACKBITS_REPEAT
        made += head + 1 if literal else (257 - head if head > PACKBITS_REPEAT else 0)
        at += head + 2 if literal else (2 if head > PACKBITS_REPEAT else 1)
    if made < need or at > len(data):
        raise MalformedError(f"runs for {made} of {need} bytes", offset=image.ifd.offset, field=tag.name)
    return at


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
