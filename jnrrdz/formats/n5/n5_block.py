"""The header of an N5 block: how long it is, and which elements follow.

May touch errors only; opens nothing.  Follows https://github.com/saalfeldlab/n5#file-system-specification:
big-endian, mode and number of dimensions in 16 bits, then each dimension in 32, x first.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from jnrrdz.errors import MalformedError, UnsupportedError

_START = struct.Struct(">HH")
_NUMBER = struct.Struct(">I")
MOST_AXES = 32
"""numpy's and Zarr's readers take no more; N5 in practice has five."""

MOST = (1 << 32) - 1


class Mode(IntEnum):
    """What a block holds."""

    DEFAULT = 0
    VARLENGTH = 1
    OBJECT = 2


@dataclass(frozen=True)
class BlockHeader:
    """What stands before the compressed elements of a block."""

    mode: Mode
    dimensions: tuple[int, ...]
    """Size along each axis, x first."""

    nbytes: int
    """Length of the header itself."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.dimensions)


def header_length(axes: int, mode: Mode = Mode.DEFAULT) -> int:
    """Return the number of bytes of a header."""
    return _START.size + _NUMBER.size * (axes + (mode == Mode.VARLENGTH))


def default_header(dimensions: Sequence[int]) -> bytes:
    """Return the header of a block in default mode."""
    if not 0 < len(dimensions) <= MOST_AXES or not all(0 <= size <= MOST for size in dimensions):
        raise MalformedError(f"a block of {tuple(dimensions)}; sizes are of 32 bits", field="dimensions")
    return struct.pack(f">HH{len(dimensions)}I", Mode.DEFAULT, len(dimensions), *dimensions)


def block_header(data: bytes | memoryview, axes: int) -> BlockHeader:
    """Return the header that a block of a dataset with so many axes begins with."""
    if len(data) < _START.size:
        raise MalformedError(f"a block of {len(data)} bytes has no header", offset=0, field="block")
    mode, found = _START.unpack_from(data)
    if mode == Mode.OBJECT:
        raise UnsupportedError("a block of serialised objects (mode 2); numbers are read", offset=0, field="mode")
    if mode > Mode.VARLENGTH:
        raise MalformedError(f"block mode {mode}; 0 and 1 are read", offset=0, field="mode")
    if found != axes:
        raise MalformedError(f"a block of {found} dimensions in a dataset of {axes}", offset=2, field="dimensions")
    length = header_length(axes, Mode(mode))
    if len(data) < length:
        raise MalformedError(f"a block of {len(data)} bytes, where its header has {length}", offset=0, field="block")
    header = BlockHeader(Mode(mode), struct.unpack_from(f">{axes}I", data, _START.size), length)
    if mode == Mode.VARLENGTH:
        _check_count(header, _NUMBER.unpack_from(data, length - _NUMBER.size)[0])
    return header


def _check_count(header: BlockHeader, count: int) -> None:
    """Refuse a block with another number of elements than its dimensions have: they have no place."""
    if count != header.elements:
        raise UnsupportedError(
            f"a block of {count} elements for {header.dimensions}; as many as these have are read",
            offset=header.nbytes - _NUMBER.size,
            field="numElements",
        )
