"""`jnrrdz.linear` as zarr's array->array codec.

May touch zarr, errors, and the codecs' pure modules.  Follows zarr.abc.codec as of zarr 3.4: the
`_sync` methods serve the fused pipeline and the store's synchronous path, the others await nothing,
for a product and a sum are not worth a thread.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from zarr.abc.codec import ArrayArrayCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer
from zarr.core.common import JSON

from jnrrdz.codecs import linear
from jnrrdz.codecs.linear import LinearConfig


@dataclass(frozen=True)
class LinearCodec(ArrayArrayCodec):
    """A scale and an offset: docs/codecs/jnrrdz.linear."""

    is_fixed_size = True

    config: LinearConfig

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        return cls(LinearConfig.from_json(data.get("configuration")))

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return self.config.to_json()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002  # zarr passes it by this name
        """Return the same codec: everything that it needs stands in its configuration."""
        return self

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """Return the specification of what is stored: the fill value is, as the first index has it."""
        self.config.check_chunk(chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        first = LinearConfig(self.config.scale[:1], self.config.offset[:1])
        fill = linear.encode(first, np.asarray(chunk_spec.fill_value, np.float64))
        return replace(chunk_spec, fill_value=np.float64(fill))

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        stored: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(linear.decode(self.config, stored))

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        values: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(linear.encode(self.config, values))

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._decode_sync(chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets: as long as it is."""
        return input_byte_length
