"""The `n5_default` codec, array to bytes: an N5 block with its header, axes in N5's order.

May touch errors, numpy, the layout of block headers, `inflate`, `deflate` and the model's codec names; knows
no zarr.  Follows https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default, and reads
blocks of variable length (mode 1) too where they have an element for each place.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codec_n5
from jnrrdz.core.codec import BYTES, CodecSpec
from jnrrdz.core.codec_n5 import N5_DEFAULT, TRANSPOSE
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.n5.deflate import deflate
from jnrrdz.formats.n5.inflate import KNOWN, inflate
from jnrrdz.formats.n5.n5_block import BlockHeader, block_header, default_header

OVERSIZE = 16
"""How many times a chunk's size a block may declare: Java accepts blocks that reach beyond their place."""

SMALLEST_LIMIT = 1 << 20
"""Bytes that any block may declare, however small the chunk."""

_INNER = 2
"""Codecs that have to be there: `transpose` and `bytes`."""


@dataclass(frozen=True)
class N5DefaultConfig:
    """How many axes, whether the elements have a byte order, and how they are compressed."""

    axes: int
    endian: str | None
    compressor: CodecSpec | None

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        codecs = configuration.get("codecs") if isinstance(configuration, Mapping) else None
        if not isinstance(codecs, list) or not _INNER <= len(codecs) <= _INNER + 1:
            raise MalformedError("codecs are to be transpose, bytes and at most one compressor", field=N5_DEFAULT)
        order, layout, *compressors = (_entry(codec) for codec in codecs)
        if layout.name != BYTES or layout.configuration.get("endian", "big") != "big":
            raise MalformedError(f"second codec {layout}; bytes, big-endian, is needed", field=N5_DEFAULT)
        if compressors and compressors[0].name not in KNOWN:
            raise UnsupportedError(f"compressor {compressors[0].name!r}; there are {', '.join(KNOWN)}")
        return cls(_axes(order), layout.configuration.get("endian"), compressors[0] if compressors else None)

    def to_json(self) -> dict[str, Any]:
        """Return the codec's entry for zarr.json."""
        compressors = () if self.compressor is None else (self.compressor,)
        return codec_n5.n5_default(self.axes, 1 if self.endian is None else _INNER, compressors).to_json()


def _entry(codec: object) -> CodecSpec:
    if isinstance(codec, str):
        return CodecSpec(codec)
    name = codec.get("name") if isinstance(codec, Mapping) else None
    configuration = codec.get("configuration", {}) if isinstance(codec, Mapping) else None
    if not isinstance(name, str) or not isinstance(configuration, Mapping):
        raise MalformedError(f"{codec!r} is no codec", field=N5_DEFAULT)
    return CodecSpec(name, configuration)


def _axes(order: CodecSpec) -> int:
    """Return the number of axes that a transposition reverses."""
    found = order.configuration.get("order")
    if order.name != TRANSPOSE or not isinstance(found, list) or found != list(range(len(found)))[::-1] or not found:
        raise MalformedError(f"first codec {order}; a transposition that reverses all axes is needed", field=N5_DEFAULT)
    return len(found)


@dataclass(frozen=True)
class BlockCoder:
    """Blocks of one array: chunks of one shape and type."""

    config: N5DefaultConfig
    shape: tuple[int, ...]
    """Of a chunk, x first."""

    dtype: np.dtype[Any]
    fill_value: Any

    def __post_init__(self) -> None:
        """Refuse arrays that N5 has not."""
        if len(self.shape) != self.config.axes:
            raise MalformedError(f"{self.config.axes} axes for chunks of {self.shape}", field=N5_DEFAULT)
        if self.dtype.kind not in "iuf" or (self.dtype.itemsize == _INNER and self.dtype.kind == "f"):
            raise UnsupportedError(f"data type {self.dtype}; N5 has integers and floats of 32 and 64 bits")
        if self.dtype.itemsize > 1 and self.config.endian is None:
            raise MalformedError("bytes without endian, where elements have several bytes", field=N5_DEFAULT)

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return a chunk: the block's elements in their place, cut and filled up to the chunk's shape."""
        return self.in_c_order(data).T

    def in_c_order(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the same with its axes as they lie in the block, x last."""
        view = memoryview(data)
        header = block_header(view, len(self.shape))
        elements = self._elements(header, view[header.nbytes :]).reshape(header.dimensions[::-1])
        shape = self.shape[::-1]
        if elements.shape != shape:
            elements = self._fitted(elements, shape)
        return elements

    def _elements(self, header: BlockHeader, body: memoryview) -> NDArray[Any]:
        """Return the elements in a row, big-endian as they are stored."""
        size = header.elements * self.dtype.itemsize
        limit = max(OVERSIZE * math.prod(self.shape) * self.dtype.itemsize, SMALLEST_LIMIT)
        if size > limit:
            raise MalformedError(
                f"a block of {header.dimensions} in chunks of {self.shape}; {limit} bytes are decoded at most",
                offset=4,
                field="dimensions",
            )
        if self.config.compressor is None:
            octets = self._raw(body, size)
        else:
            octets = inflate(self.config.compressor, body, size)
        # bytes are swapped when zarr copies the elements to where they go, which costs less than a pass of its own
        return octets.view(self.dtype.newbyteorder(">"))

    def _raw(self, body: memoryview, size: int) -> NDArray[np.uint8]:
        if len(body) != size:
            raise MalformedError(f"{len(body)} bytes of elements where the header says {size}", field="block")
        return np.frombuffer(body, np.uint8)

    def _fitted(self, elements: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return elements of another shape in a chunk's, the fill value where they have none."""
        chunk = np.full(shape, self.fill_value, self.dtype)
        common = tuple(slice(min(sizes)) for sizes in zip(elements.shape, shape, strict=True))
        chunk[common] = elements[common]
        return chunk

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """Return a chunk as a block in default mode, of the chunk's shape."""
        elements = chunk.T.astype(self.dtype.newbyteorder(">"), order="C").tobytes()
        body = elements if self.config.compressor is None else deflate(self.config.compressor, elements)
        return default_header(chunk.shape) + body


@dataclass(frozen=True)
class COrderCoder:
    """Chunks with their axes as they lie in the blocks, x last."""

    coder: BlockCoder

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return a chunk."""
        return self.coder.in_c_order(data)
