"""The mask table before the blocks of a masked image: where each block stands, and the pad pixel.

May touch numpy and errors; bytes come through `read(start, stop)`.  Offsets count from where the
blocks begin, as IMDATOFF says; where that is inside the tables, they begin behind them.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, table 5.14)
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError

type ReadRange = Callable[[int, int], bytes]

HEAD = struct.Struct(">IHHH")
NOT_RECORDED = 0xFFFF_FFFF
OFFSET_BYTES = 4
FIELD = "mask table"


@dataclass(frozen=True, eq=False)
class Mask:
    """Where the blocks stand."""

    start: int
    """Where the blocks begin in the source."""

    end: int
    """Where the mask itself ends."""

    offsets: NDArray[np.int64] | None
    """Each block's offset from there, -1 where it is not recorded; None where all are, in order."""

    padded: NDArray[np.bool_] | None
    """Whether a block holds pad pixels; None where nothing is said of it."""

    pad_bits: int = 0
    pad: bytes = b""
    """The pad pixel, in as many bytes as it needs."""


def parse_mask(read: ReadRange, start: int, stop: int, blocks: int) -> Mask:
    """Return the mask of an image of `blocks` blocks, whose data are the bytes from `start` to `stop`."""
    head = _exactly(read, start, stop, HEAD.size)
    offset, block_bytes, pad_bytes, pad_bits = HEAD.unpack(head)
    for name, width in (("BMRLNTH", block_bytes), ("TMRLNTH", pad_bytes)):
        if width not in {0, OFFSET_BYTES}:
            raise MalformedError(f"{width}, not 0 or {OFFSET_BYTES}", offset=start, field=f"{FIELD} {name}")
    at = start + HEAD.size
    pad = _exactly(read, at, stop, -(-pad_bits // 8))
    at += len(pad)
    offsets, at = _table(read, at, stop, blocks if block_bytes else 0)
    padded, at = _table(read, at, stop, blocks if pad_bytes else 0)
    begin = max(start + offset, at)
    if begin > stop:
        raise MalformedError(f"{offset}, {stop - start} bytes of data", offset=start, field=f"{FIELD} IMDATOFF")
    return Mask(begin, at, offsets, None if padded is None else padded >= 0, pad_bits, pad)


def _exactly(read: ReadRange, start: int, stop: int, length: int) -> bytes:
    data = read(start, start + length) if start + length <= stop else b""
    if len(data) != length:
        raise MalformedError(f"{length} bytes would end behind the image's data", offset=start, field=FIELD)
    return data


def _table(read: ReadRange, at: int, stop: int, blocks: int) -> tuple[NDArray[np.int64] | None, int]:
    """Return a table of offsets, -1 for none, and where it ends."""
    if not blocks:
        return None, at
    data = _exactly(read, at, stop, blocks * OFFSET_BYTES)
    values = np.frombuffer(data, ">u4").astype(np.int64)
    values[values == NOT_RECORDED] = -1
    return values, at + len(data)
