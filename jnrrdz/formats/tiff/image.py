"""What one directory means as an image: its geometry and samples, and where its segments are.

A `TiffImage` is one IFD's geometry, samples, compression, and the place of each segment (tile or strip); everything
that is impossible is refused with the tag's name.  The segments of an old-style JPEG (compression 6) lack a header: it
is put together from tags, or taken from the stream (JPEGInterchangeFormat) that the segments are parts of.

Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf (section 22 for old-style JPEG;
https://www.simplesystems.org/libtiff/TIFFTechNote2.html has the reasons why it was given up)
"""

import struct
import warnings
from collections.abc import Iterable
from dataclasses import field
from math import prod

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.limits import LIMITS, Resource
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.schemes import BYTE_STREAMS, Compression
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Planar, Predictor, SubfileType, Tag
from jnrrdz.records import record

MAX_UNLISTED = LIMITS[Resource.CHUNKS].free
"""Segments that a source need not list: a few bytes must not stand for gigabytes of zeros."""


MAX_SIDE = (1 << 31) - 1
MAX_TILE_SIDE = (1 << 32) - 1
MAX_SAMPLES = (1 << 16) - 1
PACKBITS_REPEAT = 128


@record
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

PER_SAMPLE = {Tag.BitsPerSample, Tag.SampleFormat}


def sound_image(layout: TiffLayout, offset: int) -> TiffImage | None:
    """Return the facts of the IFD at an offset, None for a later one that cannot be read and is left out."""
    try:
        return tiff_image(layout, layout.ifd(offset))
    except (MalformedError, UnsupportedError) as error:
        if offset == layout.first:
            raise
        layout.leave_out(f"IFD at {offset}", error)
        return None


def sound_images(layout: TiffLayout, offsets: Iterable[int]) -> list[TiffImage]:
    """Return the facts of those IFDs that can be read."""
    images = [sound_image(layout, offset) for offset in offsets]
    return [image for image in images if image is not None]


def tiff_image(layout: TiffLayout, ifd: Ifd) -> TiffImage:
    """Return the facts of an IFD, or an error that names the tag in the way."""
    tiled = Tag.TileWidth in ifd.entries or Tag.TileOffsets in ifd.entries
    values = layout.all_ints(ifd, (*GEOMETRY, *(TILES if tiled else STRIPS), *PIXELS))
    first = {tag: numbers[0] for tag, numbers in values.items() if numbers}
    if first.get(Tag.Compression) == Compression.OLD_JPEG:
        first, values = _with_old_jpeg_defaults(first, values)
    for tag, numbers in values.items():
        # several values for all samples say nothing else than one; of a side there is only one
        if len(numbers) != 1 and (not numbers or tag not in PIXELS or (tag not in PER_SAMPLE and len({*numbers}) > 1)):
            count = ifd.entries[tag].count
            raise MalformedError(f"{count} values where one belongs", offset=ifd.offset, field=Tag(tag).name)

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


def _with_old_jpeg_defaults(
    first: dict[int, int], values: dict[int, tuple[int, ...]]
) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """Return the tags with those that old-style JPEG often lacks, as libtiff adds them."""
    photometric = first.get(Tag.PhotometricInterpretation, Photometric.YCBCR)
    is_colour = photometric in {Photometric.YCBCR, Photometric.RGB}
    defaults: dict[int, int] = {
        Tag.PhotometricInterpretation: photometric,
        Tag.SamplesPerPixel: 3 if is_colour else 1,
        Tag.BitsPerSample: 8,
    }
    return defaults | first, {tag: (number,) for tag, number in defaults.items()} | values


@record(eq=False)
class Segments:
    """Where the segments of an image stand, in the order (plane, down, across)."""

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    missing: NDArray[np.bool_]
    """Which segments the file does not hold: those of offset 0."""


TILE_LISTS = (Tag.TileOffsets, Tag.TileByteCounts)
STRIP_LISTS = (Tag.StripOffsets, Tag.StripByteCounts)


def segment_tags(image: TiffImage) -> tuple[Tag, Tag]:
    """Return the tags that list segments; as in libtiff, those of strips may list tiles."""
    if not image.tiled:
        return STRIP_LISTS
    entries = image.ifd.entries
    offsets, lengths = (
        strip if tile not in entries and strip in entries else tile
        for tile, strip in zip(TILE_LISTS, STRIP_LISTS, strict=True)
    )
    return offsets, lengths


def segments(layout: TiffLayout, image: TiffImage) -> Segments:
    """Return the byte ranges of an image's segments, each of them inside the source."""
    here, size = image.ifd.offset, layout.size
    need, ifd = image.segments, image.ifd
    tags = segment_tags(image)
    counts = [ifd.entries[tag].count if tag in ifd.entries else None for tag in tags]
    for tag, count in zip(tags, (counts[0] or 0, counts[1]), strict=True):
        if count is not None and count < need and (need > MAX_UNLISTED or counts[0] is None):
            raise MalformedError(f"{count} values for {need} segments", offset=here, field=tag.name)
    layout.count_segments(need, here)
    values = [layout.array(ifd, tag, limit=need) for tag in tags]
    offsets = _column(values[0], ifd, tags[0], need)
    if counts[1] is None:
        lengths = _computed_lengths(layout, image, tags[1], offsets)
    else:
        lengths = _column(values[1], ifd, tags[1], need)
        _check_listed(offsets, lengths, counts[1], image, tags)
        lengths = _with_lengths(layout, image, tags[1], offsets, lengths)
    if image.compression == Compression.NONE:
        planes, _, across = image.grid
        raw = np.tile(np.repeat(strip_bytes(image), across), planes)
        # as libtiff: raw strips are read whole, whatever their counts say; tiles may be cut short at the edge
        short = (lengths > 0) & (lengths < raw) & (offsets + raw <= size) & (not image.tiled)
        lengths = np.where(short, raw, np.minimum(lengths, raw))
    missing, rest = offsets == 0, size - offsets
    if (lengths <= rest).all():
        return Segments(offsets, lengths, missing)
    beyond, cut = ~missing & (rest <= 0), ~missing & (lengths > rest)
    if beyond.any():
        number = int(beyond.argmax())
        reason = f"the file is truncated: segment {number} begins at {offsets[number]}, and the file ends at {size}"
        raise MalformedError(reason, offset=here, field=tags[0].name)
    # libtiff takes what there is of a compressed image in one piece, whose length many writers got wrong
    if cut.any() and (image.segments > 1 or image.compression == Compression.NONE):
        number = int(cut.argmax())
        end = int(offsets[number]) + int(lengths[number])
        reason = f"the file is truncated: segment {number} ends at {end}, and the file ends at {size}"
        raise MalformedError(reason, offset=here, field=tags[1].name)
    return Segments(offsets, np.minimum(lengths, rest), missing)


def _check_listed(
    offsets: NDArray[np.int64], lengths: NDArray[np.int64], count: int, image: TiffImage, tags: tuple[Tag, Tag]
) -> None:
    """Refuse segments with a length and no place, or a place and no entry for their length.

    Raw pixels at 0 are missing to tifffile, and to GDAL the bytes of the header.
    """
    if count >= len(offsets) and offsets.all():
        return
    nowhere, unlisted = (offsets == 0) & (lengths > 0), offsets[count:] > 0
    if nowhere.any():
        number = int(nowhere.argmax())
        reason = f"segment {number} begins at 0, and {tags[1].name} gives it {lengths[number]} bytes"
        if image.compression != Compression.NONE:
            raise MalformedError(reason, offset=image.ifd.offset, field=tags[0].name)
        warnings.warn(f"{reason}: it is missing", stacklevel=4)
    if unlisted.any():
        number = count + int(unlisted.argmax())
        reason = f"{count} values for {len(offsets)} segments: the length of segment {number} is not told"
        raise MalformedError(reason, offset=image.ifd.offset, field=tags[1].name)


def _with_lengths(
    layout: TiffLayout,
    image: TiffImage,
    tag: Tag,
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return lengths of which none is 0 where a segment has an offset.

    The length of an image's only strip is estimated, as libtiff does; among several
    segments one of length 0 may be absent or damaged, which nothing tells apart.
    """
    unknown = (offsets > 0) & (lengths == 0)
    if not unknown.any():
        return lengths
    if image.segments == 1 and not image.tiled:
        return _computed_lengths(layout, image, tag, offsets)
    number = int(unknown.argmax())
    raise MalformedError(
        f"segment {number} of {len(offsets)} begins at {offsets[number]} and has 0 bytes;"
        f" a segment that the file does not hold has the offset 0",
        offset=image.ifd.offset,
        field=tag.name,
    )


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
MIN_JPEG = 100
QUANTISATION = 64
COUNTS = 16
BASELINE = 1


def old_jpeg_stream(layout: TiffLayout, image: TiffImage) -> tuple[int, int] | None:
    """Return the start and stop of the one JPEG that all segments are parts of.

    None where each segment is a JPEG of its own.  As in libtiff, JPEGInterchangeFormat is
    believed over StripOffsets and StripByteCounts, which many writers got wrong.
    """
    start = layout.integer(image.ifd, Tag.JPEGInterchangeFormat, 0)
    if image.compression != Compression.OLD_JPEG or image.tiled or image.separate:
        return None
    if not 0 < start < layout.size - MIN_JPEG:
        return None
    head = layout.exactly(start, min(MAX_HEADER, layout.size - start), "JPEGInterchangeFormat")
    # imported here: old-style JPEG alone needs it, and it imports decoders
    from jnrrdz.formats.jpeg_markers import jpeg_size  # noqa: PLC0415  old-style JPEG alone asks

    size = jpeg_size(head) if head.startswith(SOI) else None
    if size is None or size[:2] != (image.length, image.width):
        return None
    length = layout.integer(image.ifd, Tag.JPEGInterchangeFormatLength, 0)
    stop = start + length if length else layout.size
    if Tag.StripOffsets in image.ifd.entries and Tag.StripByteCounts in image.ifd.entries:
        lists = (layout.ints(image.ifd, tag) for tag in STRIP_LISTS)
        stop = max(stop, *(sum(pair) for pair in zip(*lists, strict=False)))
    return start, min(stop, layout.size)


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
        across, down = subsampling_of(layout, image)
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


def subsampling_of(layout: TiffLayout, image: TiffImage) -> tuple[int, ...]:
    """Return how many columns and rows share a chroma sample; JPEG streams say it themselves, whatever the tag says."""
    numbers = layout.ints(image.ifd, Tag.YCbCrSubSampling, (2, 2))
    if len(numbers) == 2:  # noqa: PLR2004  columns, rows
        return numbers
    if image.compression == Compression.JPEG:
        return (2, 2)
    raise MalformedError(f"{len(numbers)} values where two belong", offset=image.ifd.offset, field="YCbCrSubSampling")


def _huffman(layout: TiffLayout, offset: int, field: str) -> bytes:
    counts = layout.exactly(offset, COUNTS, field)
    return counts + layout.exactly(offset + COUNTS, sum(counts), field)


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
