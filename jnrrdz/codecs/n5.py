"""`n5_default`, array to bytes, and `jnrrdz.lz4`, bytes to bytes: the codecs that only N5 blocks need.

Follows https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default and
docs/codecs/jnrrdz.lz4/README.md.
"""

import math
from typing import Any

import numpy as np
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer

from jnrrdz.codecs.base import ThreadedCodec
from jnrrdz.codecs.tiles import TileCodec
from jnrrdz.core.codecs import Lz4Config, N5DefaultConfig
from jnrrdz.formats.n5 import decode as lz4
from jnrrdz.formats.n5.decode import BlockCoder

LZ4_SLACK = 1 << 20
"""Bytes that LZ4 data may decode to beyond the chunk's own, for headers of codecs before it."""


class N5DefaultCodec(TileCodec):
    """A block of N5 with its header: docs/codecs/n5_default."""

    CONFIG = N5DefaultConfig

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> BlockCoder:
        """Return the decoder for chunks of this shape and type."""
        return BlockCoder(self.config, shape, dtype, fill_value)

    def as_c_order(self) -> "COrderBlockCodec":
        """Return the codec that reads what stands behind a transposition of all axes."""
        return COrderBlockCodec(self.config)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        coder = self.decoder(chunk_spec.shape, chunk_spec.dtype.to_native_dtype(), chunk_spec.fill_value)
        return chunk_spec.prototype.buffer.from_bytes(coder.encode(chunk_data.as_numpy_array()))


class COrderBlockCodec(TileCodec):
    """`transpose` and `n5_default` in one, for reading; it has no name of its own and stands in no metadata."""

    CONFIG = N5DefaultConfig

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> BlockCoder:
        """Return the decoder for chunks of this shape and type."""
        return BlockCoder(self.config, shape[::-1], dtype, fill_value, c_order=True)


class Lz4Codec(ThreadedCodec, BytesBytesCodec):
    """LZ4 in one of three framings: docs/codecs/jnrrdz.lz4."""

    CONFIG = Lz4Config

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        limit = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize + LZ4_SLACK
        decoded = lz4.decode(self.config, memoryview(chunk_data.as_numpy_array()), limit)
        return chunk_spec.prototype.buffer.from_bytes(decoded)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        encoded = lz4.encode(self.config, memoryview(chunk_data.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(encoded)
