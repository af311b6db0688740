"""N5 blocks decoded and encoded: `n5_default`.

A block has a header, and its axes in N5's order
(https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default); those of
variable length (mode 1) are read too where they have an element for each place.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.compressors import deflate, inflate
from jnrrdz.formats.n5.attributes import block_header, check_place, default_header
from jnrrdz.formats.n5.codecs import N5_DEFAULT, N5DefaultConfig

OVERSIZE = 16
"""How many times a chunk's size a block may declare: Java accepts blocks that reach beyond their place."""

SMALLEST_LIMIT = 1 << 20
"""Bytes that any block may declare, however small the chunk."""

_HALF = 2
"""Bytes of float16, which N5 has not."""


@dataclass(frozen=True)
class BlockCoder:
    """Blocks of one array: chunks of one shape and type."""

    config: N5DefaultConfig
    shape: tuple[int, ...]
    """Of a chunk, x first."""

    dtype: np.dtype[Any]
    fill_value: Any
    c_order: bool = False
    """Whether chunks are decoded with their axes as they lie in the block, x last."""

    def __post_init__(self) -> None:
        """Refuse arrays that N5 has not."""
        if len(self.shape) != self.config.axes:
            raise MalformedError(f"{self.config.axes} axes for chunks of {self.shape}", field=N5_DEFAULT)
        if self.dtype.kind not in "iuf" or (self.dtype.itemsize == _HALF and self.dtype.kind == "f"):
            raise UnsupportedError(f"data type {self.dtype}; N5 has integers and floats of 32 and 64 bits")
        if self.dtype.itemsize > 1 and self.config.endian is None:
            raise MalformedError("bytes without endian, where elements have several bytes", field=N5_DEFAULT)

    def decode(
        self, data: bytes | memoryview, rest: Callable[[], tuple[int, ...] | None] = lambda: None
    ) -> NDArray[Any]:
        """Return a chunk: the block's elements in their place, cut and filled up to the chunk's shape.

        `rest` tells how much of the array there is from the chunk's first element on, x first; it is
        asked for blocks of another shape only, and None is what is not known.
        """
        view = memoryview(data)
        header = block_header(view, len(self.shape))
        size = header.elements * self.dtype.itemsize
        limit = max(OVERSIZE * math.prod(self.shape) * self.dtype.itemsize, SMALLEST_LIMIT)
        if size > limit:
            raise MalformedError(
                f"a block of {header.dimensions} in chunks of {self.shape}; {limit} bytes are decoded at most",
                offset=4,
                field="dimensions",
            )
        if header.dimensions != self.shape and not self.config.odd_blocks:
            check_place(header.dimensions, self.shape, rest())
        body, compressor = view[header.nbytes :], self.config.compressor
        if compressor is not None:
            octets = inflate(compressor, body, size)
        elif len(body) == size:
            octets = np.frombuffer(body, np.uint8)
        else:
            raise MalformedError(f"{len(body)} bytes of elements where the header says {size}", field="block")
        # bytes are swapped when zarr copies the elements to where they go, which costs less than a pass of its own
        elements = octets.view(self.dtype.newbyteorder(">")).reshape(header.dimensions[::-1])
        shape = self.shape[::-1]
        if elements.shape != shape:
            chunk = np.full(shape, self.fill_value, self.dtype)
            common = tuple(slice(min(sizes)) for sizes in zip(elements.shape, shape, strict=True))
            chunk[common] = elements[common]
            elements = chunk
        return elements if self.c_order else elements.T

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """Return a chunk as a block in default mode, of the chunk's shape."""
        elements = chunk.T.astype(self.dtype.newbyteorder(">"), order="C").tobytes()
        body = elements if self.config.compressor is None else deflate(self.config.compressor, elements)
        return default_header(chunk.shape) + body
