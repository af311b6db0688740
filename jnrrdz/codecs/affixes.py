"""`offset` and `pad`, bytes to bytes: bytes of a fixed length before or after every encoded chunk.

Follows docs/codecs/offset/README.md and docs/codecs/pad/README.md: what is written is a literal, or computed
from the encoded chunk by a function that metadata cannot name, or zeros.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON

from jnrrdz.codecs.base import QuickCodec
from jnrrdz.core.codecs import CANONICAL, ChunkFunction, Location, OffsetConfig, PadConfig
from jnrrdz.errors import MalformedError


def affix_bytes(
    chunk: memoryview, nbytes: int, data: bytes | None, function: ChunkFunction | None, *, field: str
) -> bytes:
    """Return the bytes that go with an encoded chunk; `field` names the function."""
    if function is None:
        return bytes(nbytes) if data is None else data
    computed = function(bytes(chunk))
    if not isinstance(computed, bytes):
        raise MalformedError(f"returned {type(computed).__name__}; bytes are needed", field=field)
    if len(computed) != nbytes:
        raise MalformedError(f"returned {len(computed)} bytes; {nbytes} are needed", field=field)
    return computed


def _decoded(data: bytes | str | None, *, field: str) -> bytes | None:
    """Return bytes that may be given in base64, as metadata have them."""
    try:
        return CANONICAL["check"](data) if isinstance(data, str) else data
    except MalformedError as error:
        raise error.at(field=field) from error.__cause__


class AffixCodec(QuickCodec, BytesBytesCodec):
    """A codec that adds as many bytes to every chunk."""

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        return cls(**vars(cls.CONFIG.from_json(data.get("configuration", {}))))

    @abstractmethod
    def strip(self, chunk: memoryview) -> memoryview:
        """Return the chunk without the bytes, without copying it."""

    @abstractmethod
    def attach(self, chunk: memoryview) -> bytes:
        """Return the chunk with the bytes."""

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return chunk_spec.prototype.buffer.from_bytes(self.strip(memoryview(chunk_data.as_numpy_array())))

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return chunk_spec.prototype.buffer.from_bytes(self.attach(memoryview(chunk_data.as_numpy_array())))


@dataclass(frozen=True, init=False)
class OffsetCodec(AffixCodec):
    """A header of fixed length before every chunk: docs/codecs/offset."""

    CONFIG = OffsetConfig
    config: OffsetConfig

    def __init__(
        self, *, offset: int, prefix: bytes | str | None = None, prefix_func: ChunkFunction | None = None
    ) -> None:
        config = OffsetConfig(offset, _decoded(prefix, field="prefix"), prefix_func)
        object.__setattr__(self, "config", config)

    def strip(self, chunk: memoryview) -> memoryview:
        """Return the chunk behind its header, without copying it."""
        if chunk.nbytes < self.config.offset:
            raise MalformedError(
                f"a chunk of {chunk.nbytes} bytes cannot hold its header of {self.config.offset} bytes: "
                "the chunk is cut short, or the offset is not this format's",
                field="offset",
            )
        return chunk[self.config.offset :]

    def attach(self, chunk: memoryview) -> bytes:
        """Return the chunk with its header before it."""
        config = self.config
        header = affix_bytes(chunk, config.offset, config.prefix, config.prefix_func, field="prefix_func")
        return b"".join((header, chunk))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets."""
        return input_byte_length + self.config.offset


@dataclass(frozen=True, init=False)
class PadCodec(AffixCodec):
    """A fixed number of bytes before or after every chunk: docs/codecs/pad."""

    CONFIG = PadConfig
    config: PadConfig

    def __init__(
        self,
        *,
        location: str,
        nbytes: int,
        padding: bytes | str | None = None,
        padding_func: ChunkFunction | None = None,
    ) -> None:
        config = PadConfig(location, nbytes, _decoded(padding, field="padding"), padding_func)
        object.__setattr__(self, "config", config)

    def strip(self, chunk: memoryview) -> memoryview:
        """Return the chunk without its padding, without copying it."""
        nbytes, location = self.config.nbytes, self.config.location
        rest = chunk.nbytes - nbytes
        if rest < 0:
            raise MalformedError(
                f"a chunk of {chunk.nbytes} bytes cannot hold {nbytes} bytes of padding at its {location}: "
                "the chunk is cut short, or the padding is not this format's",
                field="nbytes",
            )
        return chunk[nbytes:] if location == Location.START else chunk[:rest]

    def attach(self, chunk: memoryview) -> bytes:
        """Return the chunk with its padding."""
        config = self.config
        padding = affix_bytes(chunk, config.nbytes, config.padding, config.padding_func, field="padding_func")
        return b"".join((padding, chunk) if config.location == Location.START else (chunk, padding))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets."""
        return input_byte_length + self.config.nbytes
