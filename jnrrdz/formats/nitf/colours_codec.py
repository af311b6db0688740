"""Blocks of palette indices to colours, for the codecs of NITF.

May touch numpy and errors; no I/O, no zarr.  `palette` holds red, green and blue of each value in
turn, 8 bits each; a value that it does not have is an error.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError

CHANNELS = 3


class Decoder(Protocol):
    """Decodes indices."""

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's indices."""


def table_of(palette: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], field: str) -> NDArray[np.uint8]:
    """Return a palette's entries, if chunks of this shape and type are its colours."""
    if not palette or len(palette) % CHANNELS:
        raise MalformedError(f"{len(palette)} bytes are no palette of red, green and blue", field=field)
    if shape[:-2] != (CHANNELS,) or dtype != np.uint8:
        raise MalformedError(f"chunks of shape {shape} and type {dtype} where a palette gives 3 x uint8", field=field)
    return np.ascontiguousarray(np.frombuffer(palette, np.uint8).reshape(-1, CHANNELS).T)


class ColourDecoder:
    """Decodes the chunks of one array of colours, stored as indices; safe to use from many threads."""

    def __init__(self, indices: Decoder, table: NDArray[np.uint8], field: str) -> None:
        self._indices = indices
        self._table = table
        self._field = field

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's colours, band by band."""
        indices = self._indices.decode(data)
        largest = int(indices.max(initial=0))
        if largest >= self._table.shape[1]:
            raise MalformedError(f"value {largest}, the palette has {self._table.shape[1]} entries", field=self._field)
        return self._table[:, indices]
