"""What one IFD says of its image: geometry, samples, compression, and where each segment stands.

A segment is a tile or a strip.  Everything that is impossible is refused here, before any pixel is
asked for, with the tag's name.  The segments of an old-style JPEG (compression 6) lack a header: it is put
together from tags, or taken from the stream (JPEGInterchangeFormat) that the segments are parts of.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf (section 22 for old-style JPEG;
https://www.simplesystems.org/libtiff/TIFFTechNote2.html tells why it was given up)
"""

import struct
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

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
    SubfileType,
    Tag,
)

MAX_SIDE = (1 << 31) - 1
MAX_TILE_SIDE = (1 << 32) - 1
MAX_SAMPLES = (1 << 16) - 1
PACKBITS_REPEAT = 128
MAX_UNLISTED = 1 << 20  # a few bytes must not stand for gigabytes of zeros


@dataclass(frozen=True)
class TiffImage:
    """The facts of one IFD, and what follows from them."""

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
    separate: bool = field(init=False)
    """Whether every sample has planes of its own."""

    grid: tuple[int, int, int] = field(init=False)
    """Segments along (plane, down, across), in the order of the offsets."""

    segments: int = field(init=False)
    """Number of segments that the geometry needs."""

    row_bytes: int = field(init=False)
    """Bytes of one uncompressed row of a segment."""

    is_mask: bool = field(init=False)
    """Whether this image is a transparency mask of another."""

    is_reduced: bool = field(init=False)
    """Whether this image is a smaller version of another."""

    def __post_init__(self) -> None:
        """Compute what follows."""
        separate = self.planar == Planar.SEPARATE and self.samples > 1
        planes = self.samples if separate else 1
        grid = (planes, -(-self.length // self.segment_length), -(-self.width // self.segment_width))
        bits = self.bits[0] if separate else sum(self.bits)
        vars(self).update(
            separate=separate,
            grid=grid,
            segments=prod(grid),
            row_bytes=-(-self.segment_width * bits // 8),
            is_mask=bool(self.subfile & SubfileType.MASK),
            is_reduced=bool(self.subfile & SubfileType.REDUCED),
        )


GEOMETRY = (Tag.ImageWidth, Tag.ImageLength, Tag.SamplesPerPixel, Tag.ImageDepth, Tag.TileDepth)
STRIPS = (Tag.RowsPerStrip,)
TILES = (Tag.TileWidth, Tag.TileLength)
PIXELS = (
    Tag.BitsPerSample,
    Tag.SampleFormat,
    Tag.Compression,
    Tag.PhotometricInterpretation,
    Tag.PlanarConfiguration,
    Tag.Predictor,
    Tag.FillOrder,
    Tag.NewSubfileType,
)


def tiff_images(layout: TiffLayout, offsets: Iterable[int]) -> list[TiffImage]:
    """Return the facts of the IFDs at some offsets."""
    ifds = [layout.ifd(offset) for offset in offsets]
    return [tiff_image(layout, ifd) for ifd in ifds]


def tiff_image(layout: TiffLayout, ifd: Ifd) -> TiffImage:
    """Return the facts of an IFD, or an error that names the tag in the way."""
    tiled = Tag.TileWidth in ifd.entries or Tag.TileOffsets in ifd.entries
    values = layout.all_ints(ifd, (*GEOMETRY, *(TILES if tiled else STRIPS), *PIXELS))
    first = {tag: numbers[0] for tag, numbers in values.items() if numbers}

    def side(tag: Tag, most: int) -> int:
        value = first.get(tag, 0)
        if not 0 < value <= most:
            reason = f"a side of {value} pixels" if tag in values else "the tag is absent"
            raise MalformedError(reason, offset=ifd.offset, field=tag.name)
        return value

    def per_sample(tag: Tag) -> tuple[int, ...]:
        """Return one value a sample; writers may give one for all, or too many."""
        numbers = values.get(tag) or (1,)
        return numbers[:samples] + (numbers[-1],) * (samples - len(numbers))

    width, length = side(Tag.ImageWidth, MAX_SIDE), side(Tag.ImageLength, MAX_SIDE)
    samples = first.get(Tag.SamplesPerPixel, 1)
    if not 0 < samples <= MAX_SAMPLES:
        raise MalformedError(f"{samples} samples a pixel", offset=ifd.offset, field="SamplesPerPixel")
    if tiled:
        segment = side(Tag.TileWidth, MAX_TILE_SIDE), side(Tag.TileLength, MAX_TILE_SIDE)
    else:  # absent, 0 or too many rows (2**32 - 1 means "all") are the whole image
        rows = first.get(Tag.RowsPerStrip, 0)
        segment = width, rows if 0 < rows < length else length
    if first.get(Tag.ImageDepth, 1) != 1 or first.get(Tag.TileDepth, 1) != 1:
        raise UnsupportedError("images of several planes of depth", offset=ifd.offset, field="ImageDepth")
    scheme = first.get(Tag.Compression, Compression.NONE)
    # where nothing could be done before compressing, the tag means nothing, as libtiff has it
    is_plain = scheme == Compression.NONE or (scheme in Compression and scheme not in BYTE_STREAMS)
    return TiffImage(
        ifd=ifd,
        width=width,
        length=length,
        tiled=tiled,
        segment_width=segment[0],
        segment_length=segment[1],
        samples=samples,
        bits=per_sample(Tag.BitsPerSample),
        formats=per_sample(Tag.SampleFormat),
        compression=scheme,
        photometric=first.get(Tag.PhotometricInterpretation, 1),
        planar=first.get(Tag.PlanarConfiguration, Planar.CHUNKY),
        predictor=Predictor.NONE if is_plain else first.get(Tag.Predictor, Predictor.NONE),
        fill_order=first.get(Tag.FillOrder, 1),
        subfile=first.get(Tag.NewSubfileType, 0),
    )


@dataclass(frozen=True, eq=False)
class Segments:
    """Where the segments of an image stand, in the order (plane, down, across)."""

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    missing: NDArray[np.bool_]
    """Which segments the file does not hold: offset or length 0."""


def segments(layout: TiffLayout, image: TiffImage) -> Segments:
    """Return the byte ranges of an image's segments, each of them inside the source."""
    here, size = image.ifd.offset, layout.size
    tags = (Tag.TileOffsets, Tag.TileByteCounts) if image.tiled else (Tag.StripOffsets, Tag.StripByteCounts)
    need, ifd = image.segments, image.ifd
    counts = [ifd.entries[tag].count if tag in ifd.entries else None for tag in tags]
    for tag, count in zip(tags, (counts[0] or 0, counts[1]), strict=True):
        if count is not None and count < need and (need > MAX_UNLISTED or counts[0] is None):
            raise MalformedError(f"{count} values for {need} segments", offset=here, field=tag.name)
    values = [layout.array(ifd, tag, limit=need) for tag in tags]
    offsets = _column(values[0], ifd, tags[0], need)
    if counts[1] is None:
        lengths = _computed_lengths(layout, image, tags[1], offsets)
    else:
        lengths = _column(values[1], ifd, tags[1], need)
    if image.compression == Compression.NONE:
        planes, _, across = image.grid
        raw = np.tile(np.repeat(strip_bytes(image), across), planes)
        # as libtiff: raw strips are read whole, whatever their counts say; tiles may be cut short at the edge
        short = (lengths > 0) & (lengths < raw) & (offsets + raw <= size) & (not image.tiled)
        lengths = np.where(short, raw, np.minimum(lengths, raw))
    ends, missing = offsets + lengths, (offsets == 0) | (lengths == 0)
    beyond, cut = ~missing & (offsets >= size), ~missing & (ends > size)
    if beyond.any():
        number = int(beyond.argmax())
        reason = f"segment {number} begins at {offsets[number]}, the source ends at {size}: it is truncated, or no TIFF"
        raise MalformedError(reason, offset=here, field=tags[0].name)
    # libtiff takes what there is of a compressed image in one piece, whose length many writers got wrong
    if cut.any() and (image.segments > 1 or image.compression == Compression.NONE):
        number = int(cut.argmax())
        reason = f"segment {number} ends at {ends[number]}, the source at {size}: it is truncated"
        raise MalformedError(reason, offset=here, field=tags[1].name)
    return Segments(offsets, np.minimum(lengths, size - offsets), missing)


def strip_bytes(image: TiffImage) -> NDArray[np.int64]:
    """Return the bytes that the segments of one column need uncompressed; a strip has no rows beyond the image."""
    down = image.grid[1]
    nbytes = np.full(down, image.segment_length * image.row_bytes, np.int64)
    if not image.tiled:
        nbytes[-1] = (image.length - (down - 1) * image.segment_length) * image.row_bytes
    return nbytes


def _column(values: NDArray[np.generic] | None, ifd: Ifd, tag: Tag, need: int) -> NDArray[np.int64]:
    """Return one integer a segment; where the file lists too few, the rest are missing, as libtiff has it."""
    position, name = ifd.entries[tag].position, tag.name
    if values is None or values.dtype.kind not in "iu" or values.ndim != 1:
        raise MalformedError("values that are no integers", offset=position, field=name)
    column = values.astype(np.int64)
    if column.size and column.min() < 0:
        raise MalformedError("values beyond 2**63", offset=position, field=name)
    if len(column) == need:
        return column
    warnings.warn(f"{name} lists {len(column)} of {need} segments: the others are missing", stacklevel=4)
    return np.pad(column, (0, need - len(column)))


def _computed_lengths(layout: TiffLayout, image: TiffImage, tag: Tag, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return lengths for a file that gives none: known where nothing is compressed, else up to what follows."""
    if image.compression == Compression.NONE:
        return np.full(len(offsets), image.row_bytes * image.segment_length, np.int64)
    if len(offsets) == 1:
        rest = max(layout.size - int(offsets[0]), 0)
        if image.compression != Compression.PACKBITS:
            return np.array([rest], np.int64)
        # PackBits tells by itself where it ends
        data = layout.exactly(int(offsets[0]), rest, tag.name)
        at, made, need = 0, 0, image.row_bytes * image.segment_length
        while made < need and at < len(data):
            head = data[at]
            literal = head < PACKBITS_REPEAT
            made += head + 1 if literal else (257 - head if head > PACKBITS_REPEAT else 0)
            at += head + 2 if literal else (2 if head > PACKBITS_REPEAT else 1)
        if made < need or at > len(data):
            raise MalformedError(f"runs for {made} of {need} bytes", offset=image.ifd.offset, field=tag.name)
        return np.array([at], np.int64)
    raise UnsupportedError("compressed segments of unknown length", offset=image.ifd.offset, field=tag.name)


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
    samples = 1 if image.separate else image.samples
    tables = [layout.ints(image.ifd, tag) for tag in (Tag.JPEGQTables, Tag.JPEGDCTables, Tag.JPEGACTables)]
    if any(len(offsets) < samples for offsets in tables):
        raise MalformedError("tables for fewer components than there are", offset=image.ifd.offset, field="JPEGQTables")
    quantisation, dc, ac = tables
    parts = [SOI]
    for number in range(samples):
        values = layout.exactly(quantisation[number], QUANTISATION, "JPEGQTables")
        parts.append(_segment(0xDB, bytes([number]) + values))
    across, down = (1, 1)
    if image.photometric == Photometric.YCBCR and samples > 1:
        across, down = layout.ints(image.ifd, Tag.YCbCrSubSampling, (2, 2))[:2]
    frame = struct.pack(">BHHB", 8, image.segment_length, image.segment_width, samples)
    for number in range(samples):
        frame += bytes([number + 1, (across << 4 | down) & 0xFF if number == 0 else 0x11, number])
    parts.append(_segment(0xC0, frame))
    for number in range(samples):
        parts.append(_segment(0xC4, bytes([number]) + _huffman(layout, dc[number], "JPEGDCTables")))
        parts.append(_segment(0xC4, bytes([0x10 | number]) + _huffman(layout, ac[number], "JPEGACTables")))
    interval = layout.integer(image.ifd, Tag.JPEGRestartInterval, 0)
    if interval:
        parts.append(_segment(0xDD, struct.pack(">H", interval)))
    scan = b"".join(bytes([number + 1, number << 4 | number]) for number in range(samples))
    parts.append(_segment(0xDA, bytes([samples]) + scan + b"\0\x3f\0"))
    return b"".join(parts)


def _huffman(layout: TiffLayout, offset: int, field: str) -> bytes:
    counts = layout.exactly(offset, COUNTS, field)
    return counts + layout.exactly(offset + COUNTS, sum(counts), field)


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
