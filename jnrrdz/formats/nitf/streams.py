"""Where the chunks of a JPEG, facsimile or vector-quantised image segment stand.

May touch numpy, the NITF layout and the model.  A mask tells where blocks begin, the next one where
they end; JPEG without a mask has to be looked through, a piece at a time.
"""

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nitf.blocks import BYTE, PLANAR, Chunks, block_count, check_count, needed_grid, per_block
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.nitf_jpeg import ReadRange, find_streams, frame_size
from jnrrdz.formats.nitf.nitf_mask import Mask
from jnrrdz.formats.nitf.nitf_vq_header import CODE_BITS, SIDE, parse_codebooks

SOI = b"\xff\xd8"
DOWNSAMPLED = "I1"
MAX_PIXELS = 1 << 30
"""Of a stream that is not as large as its block: what it declares is decoded at once."""


def block_spans(image: NitfImage, mask: Mask | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
    return Chunks((1, *image.block), offset, length, offset < 0)


def jpeg_chunks(read: ReadRange, image: NitfImage, mask: Mask | None) -> Chunks:
    """Return chunks that are JPEG streams: of a block, or of one band of a block."""
    bands = len(image.bands)
    inside = bands if image.mode == "B" else 1
    check_count(image, block_count(image) * inside)
    if mask is not None and mask.offsets is not None:
        offset, length = _masked(read, image, mask, inside)
    else:
        offset, length = _followed(read, image, mask, block_count(image) * inside)
    down, across = needed_grid(image)
    if image.mode == "B":  # block by block, in each band by band
        parts = (part.reshape(*image.grid, inside)[:down, :across].transpose(2, 0, 1) for part in (offset, length))
    else:
        parts = (per_block(image, part) for part in (offset, length))
    offset, length = (part.ravel() for part in parts)
    return Chunks((1 if image.mode in PLANAR else bands, *image.block), offset, length, offset < 0)


def with_frame_size(read: ReadRange, image: NitfImage, chunks: Chunks) -> tuple[Chunks, tuple[int, int]]:
    """Return the chunks of an image of one block in the size that its stream has, and that size.

    A stream may be larger than the image, up to whole units of its compression and more; a smaller one
    is stored in its upper left corner if the image is downsampled, and else leaves pixels out.
    """
    begin = int(chunks.offset[0])
    rows, columns = found = frame_size(read, begin, begin + int(chunks.length[0]))
    wanted = (image.rows, image.columns)
    is_larger = rows >= image.rows and columns >= image.columns
    is_smaller = 0 < rows <= image.rows and 0 < columns <= image.columns
    if not (is_larger or (is_smaller and image.compression == DOWNSAMPLED)) or rows * columns > MAX_PIXELS:
        raise MalformedError(
            f"a stream of {rows} x {columns} pixels for an image of {wanted[0]} x {wanted[1]}",
            offset=begin,
            field=f"{image.what} NROWS, NCOLS",
        )
    grid = (chunks.offset.size, -(-image.rows // rows), -(-image.columns // columns))
    check_count(image, grid[0] * grid[1] * grid[2])
    offset, length = np.full(grid, -1), np.zeros(grid, np.int64)
    offset[:, 0, 0], length[:, 0, 0] = chunks.offset, chunks.length
    return Chunks((chunks.shape[0], *found), offset.ravel(), length.ravel(), offset.ravel() < 0), found


def _followed(
    read: ReadRange, image: NitfImage, mask: Mask | None, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return streams that stand one after the other."""
    begin = image.segment.data if mask is None else mask.start
    stop = image.segment.stop
    if count == 1 and read(begin, min(begin + len(SOI), stop)) == SOI:
        return np.array([begin]), np.array([stop - begin])
    return find_streams(read, begin, stop, count)


def _masked(read: ReadRange, image: NitfImage, mask: Mask, inside: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the streams of the blocks that a mask tells, `inside` of them in each."""
    offset, length = block_spans(image, mask)
    if inside == 1:
        return offset, length
    check_count(image, offset.size * inside)
    offsets, lengths = np.full((offset.size, inside), -1), np.zeros((offset.size, inside), np.int64)
    for block in np.flatnonzero(offset >= 0).tolist():
        begin = int(offset[block])
        offsets[block], lengths[block] = find_streams(read, begin, begin + int(length[block]), inside)
    return offsets.ravel(), lengths.ravel()


def vq_chunks(read: ReadRange, image: NitfImage, mask: Mask | None) -> tuple[Chunks, bytes]:
    """Return the chunks of codes, and the codebooks that they need."""
    stop = image.segment.stop
    books, end = parse_codebooks(read, image.segment.data if mask is None else mask.end, stop)
    rows, columns = image.block
    nbytes = -(-(rows // SIDE) * (columns // SIDE) * CODE_BITS // BYTE)
    begin = max(end, image.segment.data if mask is None else mask.start)
    count = block_count(image)
    check_count(image, count)
    listed = mask.offsets if mask is not None else None
    offsets = np.arange(count, dtype=np.int64) * nbytes if listed is None else listed
    offset = per_block(image, np.where(offsets < 0, -1, begin + offsets)).ravel()
    if offset.size and offset.max() + nbytes > stop:
        raise MalformedError(
            f"codes would end at {offset.max() + nbytes}, the data end at {stop}",
            offset=begin,
            field=f"{image.what} blocks",
        )
    return Chunks((1, rows, columns), offset, np.full(offset.size, nbytes), offset < 0), books
