"""Where the chunks of an uncompressed image segment stand: blocks, their bands, and long blocks in pieces.

May touch numpy, the NITF layout and the model.  A band of IMODE B or S is a chunk of its own, since
it stands in one piece.  A block of more than a megabyte, as images of one block have, is cut into
groups of rows: a reader that wants a window would else fetch the whole image.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.nitf_mask import Mask

type Shape = tuple[int, ...]

WHOLE_BYTES = 1 << 20
PIECE_BYTES = 1 << 19
MAX_CHUNK_BYTES = 1 << 31
SPARE_CHUNKS = 1 << 16
"""Chunks that any image may have, however few bytes it has; of others each is a byte at least."""

BYTE = 8
PLANAR = {"B", "S"}


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of one array: their shape, and for each (in C order of the grid) its place."""

    shape: Shape
    """Bands, rows and columns of a chunk."""

    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    missing: NDArray[np.bool_]
    image_rows: int = 0
    """Rows of the image where the last chunk of a column is a short one, 0 where all are whole."""


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


def per_block(image: NitfImage, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a value for each stored block as (band, down, across), only one band where they are together."""
    bands = len(image.bands) if image.mode == "S" else 1
    down, across = needed_grid(image)
    return values.reshape(bands, *image.grid)[:, :down, :across]


def uncompressed_chunks(image: NitfImage, mask: Mask | None) -> Chunks:
    """Return the chunks of an image without compression."""
    rows, columns = image.block
    bands = len(image.bands)
    together = 1 if image.mode in PLANAR else bands
    unit = -(-rows * columns * together * image.bits // BYTE)
    block = unit * (bands if image.mode == "B" else 1)
    check_count(image, block_count(image) * (bands if image.mode == "B" else 1))
    starts = _starts(image, mask, block)
    if image.mode == "B" and bands > 1:
        planes = np.arange(bands, dtype=np.int64)[:, np.newaxis, np.newaxis] * unit
        starts = np.where(starts < 0, -1, starts + planes)
    pieces = _pieces(image, together, unit)
    return _cut(image, starts, pieces, (together, unit))


def _starts(image: NitfImage, mask: Mask | None, block: int) -> NDArray[np.int64]:
    """Return where each block begins, -1 for a missing one."""
    count = block_count(image)
    begin = image.segment.data if mask is None else mask.start
    if mask is not None and mask.offsets is not None:
        return per_block(image, np.where(mask.offsets < 0, -1, begin + mask.offsets))
    check_data(image, begin - image.segment.data + count * block)
    return per_block(image, begin + np.arange(count, dtype=np.int64) * block)


def _pieces(image: NitfImage, bands: int, unit: int) -> int:
    """Return the rows of a chunk: those of a block, or fewer where it is a long one."""
    rows, columns = image.block
    bits = columns * bands * image.bits
    if unit <= WHOLE_BYTES or bits % BYTE:
        return rows
    most = max(PIECE_BYTES // (bits // BYTE), 1)
    if needed_grid(image)[0] == 1:
        return min(most, rows)
    return next(step for step in range(min(most, rows), 0, -1) if rows % step == 0)


def _cut(image: NitfImage, starts: NDArray[np.int64], step: int, unit: tuple[int, int]) -> Chunks:
    """Return the chunks of blocks that are cut into groups of `step` rows."""
    rows, columns = image.block
    together, nbytes = unit
    shape = (together, step, columns)
    if step == rows:
        _check_chunk(image, nbytes)
        return Chunks(shape, starts.ravel(), np.full(starts.size, nbytes), starts.ravel() < 0)
    row = columns * together * image.bits // BYTE
    _check_chunk(image, row * step)
    bands, down, across = starts.shape
    within = -(-(image.rows if down == 1 else rows) // step)
    check_count(image, bands * down * within * across)
    offset = starts[:, :, np.newaxis, :] + np.arange(within)[:, np.newaxis] * (step * row)
    missing = np.broadcast_to(starts[:, :, np.newaxis, :] < 0, offset.shape)
    kept = -(-image.rows // step)
    length = np.full((kept, across), step * row)
    last = image.rows % step if down == 1 else 0
    if last:
        length[-1] = last * row
    grid = (bands, down * within, across)
    offset, missing = offset.reshape(grid)[:, :kept], missing.reshape(grid)[:, :kept]
    everywhere = np.broadcast_to(length, offset.shape)
    return Chunks(shape, offset.ravel(), everywhere.ravel(), missing.ravel(), image.rows if last else 0)


def _check_chunk(image: NitfImage, nbytes: int) -> None:
    if nbytes > MAX_CHUNK_BYTES:
        raise UnsupportedError(
            f"blocks of {nbytes} bytes; no more than {MAX_CHUNK_BYTES} are decoded at once",
            offset=image.segment.start,
            field=f"{image.what} NPPBH, NPPBV",
        )
