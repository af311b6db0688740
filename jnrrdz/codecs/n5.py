"""`n5_default`, `jnrrdz.lz4` and `jnrrdz.squeeze` as zarr's codecs.

May touch zarr, errors, and the codecs' pure modules.  Follows zarr.abc.codec as of zarr 3.4.
"""

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.common import JSON

from jnrrdz.codecs.tiles import ChunkDecoder, TileCodec
from jnrrdz.core import codecs as codec_n5
from jnrrdz.core.codecs import N5_DEFAULT, SQUEEZE
from jnrrdz.errors import MalformedError
from jnrrdz.formats.n5 import decode as lz4
from jnrrdz.formats.n5.decode import BlockCoder, COrderCoder, Lz4Config, N5DefaultConfig

LZ4_SLACK = 1 << 20
"""Bytes that LZ4 data may decode to beyond the chunk's own, for headers of codecs before it."""


@dataclass(frozen=True)
class N5DefaultCodec(TileCodec):
    """A block of N5 with its header: docs/codecs/n5_default."""

    config: N5DefaultConfig
    name = N5_DEFAULT

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        return cls(N5DefaultConfig.from_json(data.get("configuration")))

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return self.config.to_json()

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> BlockCoder:
        """Return the decoder for chunks of this shape and type."""
        return BlockCoder(self.config, shape, dtype, fill_value)

    def as_c_order(self) -> "COrderBlockCodec":
        """Return the codec that reads what stands behind a transposition of all axes."""
        return COrderBlockCodec(self.config)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        coder = self.decoder(chunk_spec.shape, chunk_spec.dtype.to_native_dtype(), chunk_spec.fill_value)
        return chunk_spec.prototype.buffer.from_bytes(coder.encode(chunk_data.as_numpy_array()))

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)


@dataclass(frozen=True)
class COrderBlockCodec(TileCodec):
    """`transpose` and `n5_default` in one, for reading; it has no name of its own and stands in no metadata."""

    config: N5DefaultConfig
    name = N5_DEFAULT

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry of the block's codec."""
        return self.config.to_json()

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        return COrderCoder(BlockCoder(self.config, shape[::-1], dtype, fill_value))


@dataclass(frozen=True)
class Lz4Codec(BytesBytesCodec):
    """LZ4 in one of three framings: docs/codecs/jnrrdz.lz4."""

    is_fixed_size = False

    config: Lz4Config

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        return cls(Lz4Config.from_json(data.get("configuration")))

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return self.config.to_json()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002  # zarr passes it by this name
        """Return the same codec: everything that it needs stands in its configuration."""
        return self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Refuse: what is compressed has no length beforehand."""
        raise NotImplementedError

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        limit = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize + LZ4_SLACK
        found = lz4.decode(self.config, memoryview(chunk_data.as_numpy_array()), limit)
        return chunk_spec.prototype.buffer.from_bytes(found)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        found = lz4.encode(self.config, memoryview(chunk_data.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(found)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)


@dataclass(frozen=True)
class SqueezeCodec(ArrayArrayCodec):
    """Chunks without their first axis, of which they hold one place: docs/codecs/jnrrdz.squeeze."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        if data.get("configuration"):
            raise MalformedError(f"found {data['configuration']!r}; there is nothing to configure", field=SQUEEZE)
        return cls()

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return codec_n5.squeeze().to_json()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002  # zarr passes it by this name
        """Return the same codec."""
        return self

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """Return the specification of what is stored."""
        return replace(chunk_spec, shape=chunk_spec.shape[1:])

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        if chunk_spec.shape[0] != 1:
            raise MalformedError(f"chunks of {chunk_spec.shape}, of several places", field=SQUEEZE)
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(chunk_data.as_numpy_array()[np.newaxis])

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        if chunk_spec.shape[0] != 1:
            raise MalformedError(f"chunks of {chunk_spec.shape}, of several places", field=SQUEEZE)
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(chunk_data.as_numpy_array()[0])

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._decode_sync(chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets: as long as it is."""
        return input_byte_length
