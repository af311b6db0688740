"""Where the chunks of an image segment stand, by the way it is compressed.

A band of IMODE B or S is a chunk of its own, since it stands in one piece.  An uncompressed block of more
than a megabyte, as images of one block have, is cut into groups of rows: a reader that wants a window would
else fetch the whole image.  A mask tells where blocks begin; compressed ones end where the next begins.
JPEG streams without a mask follow each other without a table of their places and have to be looked
through, a piece at a time: the markers before the first scan are walked by their lengths, and in the scans
FF D9 can only be the end.  A vector-quantised image (C4, M4) has codebooks before its blocks; pixels are kept
four by four: a code of 12 bits names four rows of four values, one row in each of four tables.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, table 5.14), MIL-STD-188-198A,
https://www.w3.org/Graphics/JPEG/itu-t81.pdf (annex B), MIL-STD-188-199, MIL-STD-2411 (the compression
lookup subsection)
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.configuration import Codec
from jnrrdz.core.limits import CHUNK_BYTES
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.slabs import step_along
from jnrrdz.core.standard import check_lengths, refuse, stored_bytes, stored_order
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg_markers import SOS, jpeg_segments
from jnrrdz.formats.nitf.codecs import NITF_KINDS, NITF_ORDERS, JbpBlockConfig
from jnrrdz.formats.nitf.header import BYTE, NitfLayout, ReadRange
from jnrrdz.formats.nitf.image import Mask, NitfImage

type Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Offsets and lengths."""

WHOLE_BYTES = 1 << 20
PIECE_BYTES = 1 << 19
SPARE_CHUNKS = 1 << 16
"""Chunks that any image may have, however few bytes it has; of others each is a byte at least."""

PLANAR = {"B", "S"}
UNENDED = {"C1", "M1"}
"""Compressions whose streams do not say where they end."""

STREAM_MARKS = b"\xff\xd8\xff", b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP  "
"""The first bytes of JPEG, of JPEG 2000, and of the latter in a JP2."""


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of one array: their shape, and for each (in C order of the grid) its place."""

    shape: tuple[int, int, int]
    """Bands, rows and columns of a chunk."""

    offset: NDArray[np.int64]
    """-1 for a chunk that is not stored."""

    length: NDArray[np.int64]
    image_rows: int = 0
    """Rows of the image where the last chunk of a column is a short one, 0 where all are whole."""

    def refs(self, url: str) -> ChunkRefs:
        """Return the references to a source."""
        return ChunkRefs.single(url, self.offset.clip(0), self.length, missing=self.offset < 0)


def needed_grid(image: NitfImage) -> tuple[int, int]:
    """Return the blocks, down and across, that hold pixels of the image; headers may list more."""
    rows, columns = image.block
    return -(-image.rows // rows), -(-image.columns // columns)


def block_count(image: NitfImage) -> int:
    """Return the number of blocks that are stored, those of every band counted where bands are apart."""
    down, across = image.grid
    return down * across * (len(image.bands) if image.mode == "S" else 1)


def check_count(image: NitfImage, chunks: int) -> None:
    """Refuse more chunks than an image of so many bytes can have."""
    if chunks > image.segment.data_length + SPARE_CHUNKS:
        raise MalformedError(
            f"{chunks} chunks in {image.segment.data_length} bytes",
            offset=image.segment.start,
            field=f"{image.what} NBPR, NBPC",
        )


def check_data(image: NitfImage, nbytes: int) -> None:
    """Refuse an image whose blocks would take more bytes than it has."""
    if nbytes > image.segment.data_length:
        raise MalformedError(
            f"blocks of {nbytes} bytes in {image.segment.data_length} bytes of data",
            offset=image.segment.data,
            field=f"{image.what} blocks",
        )


def block_bytes(image: NitfImage) -> tuple[int, int]:
    """Return the bytes of an uncompressed block's pieces, and how many pieces (bands in IMODE B) a block has."""
    rows, columns = image.block
    together = 1 if image.mode in PLANAR else len(image.bands)
    return -(-rows * columns * together * image.bits // BYTE), len(image.bands) if image.mode == "B" else 1


def check_place(read: ReadRange, layout: NitfLayout, image: NitfImage) -> None:
    """Refuse an image if it is not certain where its data begin, or where they end if that decides over pixels.

    Data begin where LISH says.  Where the subheader's own fields end elsewhere, one of both is wrong, and something
    else has to say so too: blocks that take all of LI, or the mark that a compressed stream begins with.
    """
    segment = image.segment
    if segment.data == image.end:
        is_certain = image.compression not in UNENDED or layout.is_end_certain(read, segment, strictly=False)
        field, said = "LI", "the data do not end where the next segment or the end of the file is"
    else:
        nbytes, pieces = block_bytes(image)
        fits = image.compression == "NC" and segment.data_length == nbytes * pieces * block_count(image)
        begins = not image.is_masked and read(segment.data, segment.data + 8).startswith(STREAM_MARKS)
        is_certain = (fits or begins) and layout.is_end_certain(read, segment, strictly=True)
        field, said = "LISH", f"{segment.header_length} bytes, its fields take {image.end - segment.start}"
    if not is_certain:
        raise MalformedError(
            f"{said}; it is not certain where the pixels are, correct LISH and LI in the file header",
            offset=segment.start,
            field=f"{image.what} {field}",
        )


def per_block(image: NitfImage, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a value for each stored block as (band, down, across), only one band where they are together."""
    bands = len(image.bands) if image.mode == "S" else 1
    down, across = needed_grid(image)
    return values.reshape(bands, *image.grid)[:, :down, :across]


def block_starts(image: NitfImage, mask: Mask | None, begin: int, nbytes: int) -> NDArray[np.int64]:
    """Return where each block begins, as (band, down, across): by the mask, else one after the other; -1 for none."""
    listed = None if mask is None else mask.offsets
    offsets = np.arange(block_count(image), dtype=np.int64) * nbytes if listed is None else listed
    return per_block(image, np.where(offsets < 0, -1, begin + offsets))


def uncompressed_chunks(image: NitfImage, mask: Mask | None) -> Chunks:
    """Return the chunks of an image without compression."""
    rows, columns = image.block
    bands, count = len(image.bands), block_count(image)
    together = 1 if image.mode in PLANAR else bands
    nbytes, planes = block_bytes(image)
    check_count(image, count * planes)
    begin = image.segment.data if mask is None else mask.start
    if mask is None or mask.offsets is None:
        check_data(image, begin - image.segment.data + count * nbytes * planes)
    starts = block_starts(image, mask, begin, nbytes * planes)
    if planes > 1:
        plane = np.arange(bands, dtype=np.int64)[:, np.newaxis, np.newaxis] * nbytes
        starts = np.where(starts < 0, -1, starts + plane)
    row_bits = columns * together * image.bits
    step = _chunk_rows(image, nbytes, row_bits)
    if step == rows:
        return Chunks((together, rows, columns), starts.ravel(), np.full(starts.size, nbytes))
    return _cut(image, starts, (together, step, columns), row_bits // BYTE)


def _chunk_rows(image: NitfImage, nbytes: int, row_bits: int) -> int:
    """Return the rows of a chunk: those of a block, or fewer where it is a long one."""
    rows = step = image.block[0]
    if nbytes > WHOLE_BYTES and row_bits % BYTE == 0:
        most = max(PIECE_BYTES // (row_bits // BYTE), 1)
        is_one = needed_grid(image)[0] == 1
        step = step_along(image.rows, most) if is_one else step_along(rows, most, piece=rows)
    size = nbytes if step == rows else step * row_bits // BYTE
    if size > CHUNK_BYTES:
        raise UnsupportedError(
            f"blocks of {size} bytes; no more than {CHUNK_BYTES} are decoded at once",
            offset=image.segment.start,
            field=f"{image.what} NPPBH, NPPBV",
        )
    return step


def _cut(image: NitfImage, starts: NDArray[np.int64], shape: tuple[int, int, int], row: int) -> Chunks:
    """Return the chunks of blocks that are cut into groups of rows of so many bytes."""
    step, (bands, down, across) = shape[1], starts.shape
    within = -(-(image.rows if down == 1 else image.block[0]) // step)
    check_count(image, bands * down * within * across)
    starts = starts[:, :, np.newaxis, :]
    offset = np.where(starts < 0, -1, starts + np.arange(within)[:, np.newaxis] * (step * row))
    offset = offset.reshape(bands, down * within, across)[:, : -(-image.rows // step)]
    length = np.full(offset.shape, step * row)
    last = image.rows % step if down == 1 else 0
    if last:
        length[:, -1] = last * row
    return Chunks(shape, offset.ravel(), length.ravel(), image.rows if last else 0)


def block_spans(image: NitfImage, mask: Mask | None) -> Spans:
    """Return where each block of a mask begins (-1 for a missing one) and its length: up to the next one."""
    stop = image.segment.stop
    count = block_count(image)
    if mask is None or mask.offsets is None:
        if count > 1:
            raise MalformedError(
                f"{count} blocks and no table of their places", offset=image.segment.data, field=f"{image.what} IC"
            )
        begin = image.segment.data if mask is None else mask.start
        return np.array([begin]), np.array([stop - begin])
    present = mask.offsets >= 0
    begins = mask.start + mask.offsets[present]
    if begins.size and begins.max() >= stop:
        raise MalformedError(
            f"a block would begin at {begins.max()}, the data end at {stop}",
            offset=image.segment.data,
            field=f"{image.what} BMR",
        )
    ordered = np.unique(begins)
    ends = np.append(ordered[1:], stop)
    offset, length = np.full(count, -1), np.zeros(count, np.int64)
    offset[present] = begins
    length[present] = ends[np.searchsorted(ordered, begins)] - begins
    return offset, length


def whole_block_chunks(image: NitfImage, mask: Mask | None) -> Chunks:
    """Return chunks that are blocks, each with all that stands up to the next one."""
    offset, length = (per_block(image, part).ravel() for part in block_spans(image, mask))
    return Chunks((1, *image.block), offset, length)


FIRST_PIECE = 1 << 12
PIECE = 1 << 20
SOI, EOI = b"\xff\xd8", b"\xff\xd9"
SEGMENT_HEAD = 4
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
FRAME_HEAD = 5
"""Bytes of a frame header up to its size: precision, rows, columns."""

MAX_SEGMENTS = 1 << 12
DOWNSAMPLED = "I1"
MAX_PIXELS = 1 << 30
"""Of a stream that is not as large as its block: what it declares is decoded at once."""

JPEG_STREAM = "JPEG"


def jpeg_chunks(read: ReadRange, image: NitfImage, mask: Mask | None) -> Chunks:
    """Return chunks that are JPEG streams: of a block, or of one band of a block."""
    bands, stop = len(image.bands), image.segment.stop
    inside = bands if image.mode == "B" else 1
    count = block_count(image) * inside
    check_count(image, count)
    begin = image.segment.data if mask is None else mask.start
    if mask is not None and mask.offsets is not None:
        offset, length = _masked_streams(read, image, mask, inside)
    elif count == 1 and read(begin, min(begin + len(SOI), stop)) == SOI:
        offset, length = np.array([begin]), np.array([stop - begin])
    else:
        offset, length = find_streams(read, begin, stop, count)
    if image.mode == "B":  # block by block, in each band by band
        down, across = needed_grid(image)
        parts = (part.reshape(*image.grid, inside)[:down, :across].transpose(2, 0, 1) for part in (offset, length))
    else:
        parts = (per_block(image, part) for part in (offset, length))
    offset, length = (part.ravel() for part in parts)
    return Chunks((1 if image.mode in PLANAR else bands, *image.block), offset, length)


def _masked_streams(read: ReadRange, image: NitfImage, mask: Mask, inside: int) -> Spans:
    """Return the streams of the blocks that a mask tells, `inside` of them in each."""
    offset, length = block_spans(image, mask)
    if inside == 1:
        return offset, length
    offsets, lengths = np.full((offset.size, inside), -1), np.zeros((offset.size, inside), np.int64)
    for block in np.flatnonzero(offset >= 0).tolist():
        begin = int(offset[block])
        offsets[block], lengths[block] = find_streams(read, begin, begin + int(length[block]), inside)
    return offsets.ravel(), lengths.ravel()


def with_frame_size(read: ReadRange, image: NitfImage, chunks: Chunks) -> tuple[Chunks, tuple[int, int]]:
    """Return the chunks of an image of one block in the size that its stream has, and that size.

    A stream may be larger than the image, up to whole units of its compression and more; a smaller one
    is stored in its upper left corner if the image is downsampled, and else leaves pixels out.
    """
    begin = int(chunks.offset[0])
    rows, columns = size = frame_size(read, begin, begin + int(chunks.length[0]))
    is_larger = rows >= image.rows and columns >= image.columns
    is_smaller = 0 < rows <= image.rows and 0 < columns <= image.columns
    if not (is_larger or (is_smaller and image.compression == DOWNSAMPLED)) or rows * columns > MAX_PIXELS:
        raise MalformedError(
            f"a stream of {rows} x {columns} pixels for an image of {image.rows} x {image.columns}",
            offset=begin,
            field=f"{image.what} NROWS, NCOLS",
        )
    grid = (chunks.offset.size, -(-image.rows // rows), -(-image.columns // columns))
    check_count(image, grid[0] * grid[1] * grid[2])
    offset, length = np.full(grid, -1), np.zeros(grid, np.int64)
    offset[:, 0, 0], length[:, 0, 0] = chunks.offset, chunks.length
    return Chunks((chunks.shape[0], *size), offset.ravel(), length.ravel()), size


def find_streams(read: ReadRange, start: int, stop: int, count: int) -> Spans:
    """Return where `count` JPEG streams between two offsets begin, and how long they are."""
    offsets, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = start
    for number in range(count):
        begin = _find(read, SOI, at, stop)
        if begin < 0:
            raise MalformedError(f"{number} streams where {count} belong", offset=at, field=JPEG_STREAM)
        scan = next(end for marker, _, end in _marker_segments(read, begin, stop) if marker == SOS)
        end = _find(read, EOI, scan, stop)
        if end < 0:
            raise MalformedError("a stream without its end (FF D9)", offset=begin, field=JPEG_STREAM)
        at = end + len(EOI)
        offsets[number], lengths[number] = begin, at - begin
    return offsets, lengths


def frame_size(read: ReadRange, begin: int, stop: int) -> tuple[int, int]:
    """Return the rows and columns that a stream's frame header declares."""
    for marker, start, end in _marker_segments(read, begin, stop):
        if marker in FRAMES:
            frame = read(start, min(end, stop))[SEGMENT_HEAD : SEGMENT_HEAD + FRAME_HEAD]
            if len(frame) == FRAME_HEAD:
                return int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    raise MalformedError("no frame header before the first scan", offset=begin, field=JPEG_STREAM)


def _marker_segments(read: ReadRange, begin: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the marker segments up to that of the first scan: each one's marker, beginning and end."""
    head = read(begin, min(begin + MAX_SEGMENTS, stop))
    fill = len(head) - len(head.lstrip(SOI[:1]))  # of FF any number may stand before a marker (T.81, B.1.1.2)
    at = begin + max(fill - 1, 0) + len(SOI)
    walk = jpeg_segments(lambda place: read(place, min(place + SEGMENT_HEAD, stop)), at, MAX_SEGMENTS)
    for marker, start, end in walk:
        if marker in {0, EOI[1]} or start + SEGMENT_HEAD > stop:
            four = read(start, min(start + SEGMENT_HEAD, stop))
            raise MalformedError(f"{four.hex(' ')} where a marker belongs", offset=start, field=JPEG_STREAM)
        yield marker, start, end
        if marker == SOS:
            return
    raise MalformedError(f"more than {MAX_SEGMENTS} segments before the first scan", offset=begin, field=JPEG_STREAM)


def _find(read: ReadRange, mark: bytes, start: int, stop: int) -> int:
    """Return where two bytes first stand between two offsets, -1 where they do not."""
    at, size = start, FIRST_PIECE
    while at < stop:
        data = read(at, min(at + size, stop))
        place = data.find(mark)
        if place >= 0:
            return at + place
        if len(data) < size:
            return -1
        at, size = at + len(data) - 1, min(2 * size, PIECE)  # the mark may be cut in two
    return -1


DISPLAY = struct.Struct(">IIB")
"""The image display parameters: rows and columns of codes in a block, bits of a code."""

SECTION = struct.Struct(">HHH")
"""The compression section: algorithm, number of lookup tables, number of parameters."""

OFFSETS = struct.Struct(">IH")
RECORD = struct.Struct(">HIHHI")
TABLES = 4
VECTOR_QUANTIZATION = 1
SIDE = 4
CODES = 4096
CODE_BITS = 12
TABLE_BYTES = CODES * SIDE
VQ_TABLES = "VQ tables"


def parse_codebooks(read: ReadRange, start: int, stop: int) -> tuple[bytes, int]:
    """Return the four tables, one after the other, and where the codes begin."""
    need = DISPLAY.size + SECTION.size + OFFSETS.size
    head = read(start, min(start + need, stop))
    if len(head) < need:
        raise MalformedError(f"{len(head)} bytes where {need} belong", offset=start, field=VQ_TABLES)
    *_, bits = DISPLAY.unpack_from(head)
    algorithm, tables, _ = SECTION.unpack_from(head, DISPLAY.size)
    if (bits, algorithm, tables) != (CODE_BITS, VECTOR_QUANTIZATION, TABLES):
        raise UnsupportedError(
            f"algorithm {algorithm}, {tables} tables, codes of {bits} bits; "
            f"1 (vector quantisation), {TABLES} and {CODE_BITS} are read",
            offset=start,
            field=VQ_TABLES,
        )
    start += DISPLAY.size + SECTION.size
    offset, width = OFFSETS.unpack_from(head, DISPLAY.size + SECTION.size)
    if width != RECORD.size:
        raise MalformedError(f"records of {width} bytes, not {RECORD.size}", offset=start, field=VQ_TABLES)
    at = start + offset
    records = read(at, min(at + TABLES * RECORD.size, stop)) if at < stop else b""
    if len(records) < TABLES * RECORD.size:
        raise MalformedError(f"{len(records)} bytes of records", offset=at, field=VQ_TABLES)
    books = [_codebook(read, start, stop, record) for record in RECORD.iter_unpack(records)]
    return b"".join(data for data, _ in books), max(end for _, end in books)


def _codebook(read: ReadRange, start: int, stop: int, record: tuple[int, ...]) -> tuple[bytes, int]:
    _, codes, values, bits, offset = record
    if (codes, values, bits) != (CODES, SIDE, 8):
        raise UnsupportedError(
            f"{codes} codes of {values} values of {bits} bits; {CODES} of {SIDE} of 8 are read",
            offset=start,
            field=VQ_TABLES,
        )
    at = start + offset
    data = read(at, min(at + TABLE_BYTES, stop)) if at < stop else b""
    if len(data) < TABLE_BYTES:
        raise MalformedError(f"{len(data)} bytes of {TABLE_BYTES}", offset=at, field=VQ_TABLES)
    return data, at + TABLE_BYTES


def vq_chunks(read: ReadRange, image: NitfImage, mask: Mask | None) -> tuple[Chunks, bytes]:
    """Return the chunks of codes, and the codebooks that they need."""
    stop = image.segment.stop
    books, end = parse_codebooks(read, image.segment.data if mask is None else mask.end, stop)
    rows, columns = image.block
    nbytes = -(-(rows // SIDE) * (columns // SIDE) * CODE_BITS // BYTE)
    begin = max(end, image.segment.data if mask is None else mask.start)
    check_count(image, block_count(image))
    offset = block_starts(image, mask, begin, nbytes).ravel()
    if offset.size and offset.max() + nbytes > stop:
        raise MalformedError(
            f"codes would end at {offset.max() + nbytes}, the data end at {stop}",
            offset=begin,
            field=f"{image.what} blocks",
        )
    return Chunks((1, rows, columns), offset, np.full(offset.size, nbytes)), books


def standard_codecs(config: JbpBlockConfig, array: VirtualArray) -> tuple[Codec, ...]:
    """Return codecs of Zarr's own that read the chunks of `jbp-block`; an error says why there are none."""
    width = config.bits_per_pixel * (2 if config.complex_pairs else 1)
    kind = "c" if config.complex_pairs else NITF_KINDS[config.pixel_type]
    is_exact = (width, kind) == (array.dtype.itemsize * BYTE, array.dtype.kind)
    is_apart = config.complex_pairs and config.interleave != "P"
    refuse(
        (
            (config.palette is not None, "colours are looked up in a palette"),
            (not is_exact, f"samples of {config.bits_per_pixel} bits that are no {array.dtype} as stored"),
            (is_apart, "real and imaginary parts that do not stand side by side"),
        )
    )
    check_lengths(array)
    order = stored_order(array.chunks, NITF_ORDERS[config.interleave], for_gdal=True)
    return (*order, stored_bytes(array, "big"))
