"""`offset` and `pad` as zarr's bytes->bytes codecs.

May touch zarr, errors, and the codecs' pure modules.  Follows zarr.abc.codec as of zarr 3.4: the
`_sync` methods serve the fused pipeline and the store's synchronous path, the others await nothing,
for there is nothing here worth a thread.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON

from jnrrdz.codecs import offset as offset_codec
from jnrrdz.codecs import pad as pad_codec
from jnrrdz.codecs.affix import ChunkFunction, decoded_literal
from jnrrdz.codecs.offset import OffsetConfig
from jnrrdz.codecs.pad import PadConfig, checked_location


class _FixedLengthCodec(BytesBytesCodec):
    """A codec that adds as many bytes to every chunk."""

    is_fixed_size = True

    @property
    @abstractmethod
    def _added(self) -> int:
        """Return how many bytes an encoded chunk has more."""

    @abstractmethod
    def _decode_view(self, chunk: memoryview) -> memoryview:
        """Return the chunk without the bytes."""

    @abstractmethod
    def _encode_view(self, chunk: memoryview) -> bytes:
        """Return the chunk with the bytes."""

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        decoded = self._decode_view(memoryview(chunk_data.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(decoded)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        encoded = self._encode_view(memoryview(chunk_data.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(encoded)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return self._decode_sync(chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002  # zarr passes it by this name
        """Return the same codec: the array changes nothing in it."""
        return self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets."""
        return input_byte_length + self._added


@dataclass(frozen=True, init=False)
class OffsetCodec(_FixedLengthCodec):
    """A header of fixed length before every chunk: docs/codecs/offset."""

    config: OffsetConfig

    def __init__(
        self, *, offset: int, prefix: bytes | str | None = None, prefix_func: ChunkFunction | None = None
    ) -> None:
        literal = decoded_literal(prefix, field="prefix") if isinstance(prefix, str) else prefix
        object.__setattr__(self, "config", OffsetConfig(offset, literal, prefix_func))

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        config = OffsetConfig.from_json(data.get("configuration"))
        return cls(offset=config.offset, prefix=config.prefix)

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return self.config.to_json()

    @property
    def _added(self) -> int:
        return self.config.offset

    def _decode_view(self, chunk: memoryview) -> memoryview:
        return offset_codec.decode(self.config, chunk)

    def _encode_view(self, chunk: memoryview) -> bytes:
        return offset_codec.encode(self.config, chunk)


@dataclass(frozen=True, init=False)
class PadCodec(_FixedLengthCodec):
    """A fixed number of bytes before or after every chunk: docs/codecs/pad."""

    config: PadConfig

    def __init__(
        self,
        *,
        location: str,
        nbytes: int,
        padding: bytes | str | None = None,
        padding_func: ChunkFunction | None = None,
    ) -> None:
        literal = decoded_literal(padding, field="padding") if isinstance(padding, str) else padding
        config = PadConfig(checked_location(location), nbytes, literal, padding_func)
        object.__setattr__(self, "config", config)

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        config = PadConfig.from_json(data.get("configuration"))
        return cls(location=config.location, nbytes=config.nbytes, padding=config.padding)

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return self.config.to_json()

    @property
    def _added(self) -> int:
        return self.config.nbytes

    def _decode_view(self, chunk: memoryview) -> memoryview:
        return pad_codec.decode(self.config, chunk)

    def _encode_view(self, chunk: memoryview) -> bytes:
        return pad_codec.encode(self.config, chunk)
