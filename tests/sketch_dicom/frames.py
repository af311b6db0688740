"""Encapsulated pixels: the fragments of every frame."""

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.limits import Budget, Resource
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnsupportedError
from tests.sketch_dicom.elements import UNDEFINED, Element, Header, Read, Tag, read_element


def frame_refs(read: Read, header: Header, url: str, size: int) -> ChunkRefs:
    """Return references to the frames, a range for each fragment."""
    table, *fragments = read_items(read, header, size)
    frames = header.number(Tag.FRAMES, 1)
    offset = np.array([fragment.start for fragment in fragments], np.int64)
    length = np.array([fragment.length for fragment in fragments], np.int64)
    counts = fragments_of_frames(read, table, offset, frames)
    return ChunkRefs.from_rows((url,), counts, offset, length)


def read_items(read: Read, header: Header, size: int) -> list[Element]:
    """Return the table of offsets and the fragments."""
    if header.pixels.length != UNDEFINED:
        raise MalformedError("compressed pixels that are no sequence", field=Tag.PIXELS.name)
    budget = Budget(size)
    items: list[Element] = []
    position = header.pixels.start
    while True:
        item = read_element(read, position, header.syntax, size)
        if item.tag == Tag.SEQUENCE_END and items:
            return items
        if item.tag != Tag.ITEM or item.length == UNDEFINED:
            message = "something other than a fragment"
            raise MalformedError(message, offset=position, field=Tag.PIXELS.name)
        budget.charge(Resource.CHUNKS, 1)
        items.append(item)
        position = item.stop


def fragments_of_frames(read: Read, table: Element, offset: NDArray[np.int64], frames: int) -> NDArray[np.int64]:
    """Return how many fragments each frame has."""
    if len(offset) == frames:
        return np.ones(frames, np.int64)
    if frames == 1:
        return np.array([len(offset)])
    if table.length != 4 * frames:
        message = f"{len(offset)} fragments of {frames} frames without a table of offsets"
        raise UnsupportedError(message, field=Tag.FRAMES.name)
    starts = np.frombuffer(read(table.start, table.stop), "<u4").astype(np.int64)
    # an offset leads from the first fragment's item to that of the frame
    first = np.searchsorted(offset, offset[0] + starts)
    if not np.isin(offset[0] + starts, offset).all() or (np.diff(first) < 1).any():
        raise MalformedError("a table that leads to no fragments", offset=table.start, field=Tag.PIXELS.name)
    return np.diff(first, append=len(offset))
