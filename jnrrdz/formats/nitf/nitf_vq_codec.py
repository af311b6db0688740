"""Vector-quantised blocks of a NITF (C4, M4) to arrays: codes of 12 bits looked up in four codebooks.

May touch numpy, errors and the model; no I/O, no zarr.
Spec: docs/codecs/jnrrdz.nitf-vq/README.md
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_nitf import NITF_VQ, NitfVqConfig, plain_codebooks
from jnrrdz.errors import MalformedError

type Shape = tuple[int, ...]

SIDE = 4
CODES = 4096
CODE_BITS = 12
BYTE = 8


class VqDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: NitfVqConfig, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape = shape
        rows, columns = shape[-2:]
        if dtype != np.uint8 or len(shape) != 2 or rows % SIDE or columns % SIDE:  # noqa: PLR2004  rows, columns
            raise MalformedError(
                f"chunks of shape {shape} and type {dtype}; sides that are multiples of {SIDE} and uint8 are needed",
                field=NITF_VQ,
            )
        self._codes = (rows // SIDE) * (columns // SIDE)
        books = plain_codebooks(config.codebooks)
        if books is None:
            raise MalformedError("codebooks of another length", field=NITF_VQ)
        # code, row, column: the kernel of a code in one piece
        tables = np.frombuffer(books, np.uint8).reshape(SIDE, CODES, SIDE)
        self._kernels = np.ascontiguousarray(tables.transpose(1, 0, 2))

    def decode(self, data: bytes | memoryview) -> NDArray[np.uint8]:
        """Return the chunk's pixels."""
        need = -(-self._codes * CODE_BITS // BYTE)
        if len(data) != need:
            raise MalformedError(f"{len(data)} bytes of codes where {need} belong", field=NITF_VQ)
        rows, columns = self.shape
        kernels = self._kernels[codes_of(data, self._codes)].reshape(rows // SIDE, columns // SIDE, SIDE, SIDE)
        return np.ascontiguousarray(kernels.transpose(0, 2, 1, 3)).reshape(self.shape)


def codes_of(data: bytes | memoryview, count: int) -> NDArray[np.uint16]:
    """Return codes of 12 bits, two in three bytes, the first one's bits first."""
    found = np.zeros(-(-len(data) // 3) * 3, np.uint8)
    found[: len(data)] = np.frombuffer(data, np.uint8)
    first, middle, last = found.reshape(-1, 3).astype(np.uint16).T
    codes = np.empty((len(first), 2), np.uint16)
    codes[:, 0] = first << 4 | middle >> 4
    codes[:, 1] = (middle & 15) << 8 | last
    return codes.reshape(-1)[:count]
