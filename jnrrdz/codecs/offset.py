"""The `offset` codec, bytes to bytes: a header of fixed length before the encoded chunk.

May touch errors, the model's codec names and `affix` only; knows no zarr.  Follows
docs/codecs/offset/README.md.  Chunks come and go as memory views of single bytes.
"""

from dataclasses import dataclass
from typing import Any, Self

from jnrrdz.codecs import affix
from jnrrdz.codecs.affix import ChunkFunction
from jnrrdz.core import codec
from jnrrdz.errors import MalformedError


@dataclass(frozen=True)
class OffsetConfig:
    """How long the header is, and what it holds when it is written."""

    offset: int
    prefix: bytes | None = None
    prefix_func: ChunkFunction | None = None
    """Makes the header from the encoded chunk; lives in this process only, never in metadata."""

    def __post_init__(self) -> None:
        """Refuse a header whose length and bytes contradict each other."""
        affix.checked_length(self.offset, field="offset")
        affix.check_literal(self.prefix, self.offset, field="prefix", length_field="offset")
        affix.check_function(self.prefix_func, self.prefix, field="prefix_func", literal_field="prefix")

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        known = affix.checked_configuration(configuration, required=("offset",), optional=("prefix",))
        length = affix.checked_length(known["offset"], field="offset")
        prefix = affix.decoded_literal(known["prefix"], field="prefix") if "prefix" in known else None
        return cls(length, prefix)

    def to_json(self) -> dict[str, Any]:
        """Return the codec's entry for zarr.json."""
        return codec.offset(self.offset, self.prefix).to_json()


def decode(config: OffsetConfig, chunk: memoryview) -> memoryview:
    """Return the chunk behind its header, without copying it."""
    if chunk.nbytes < config.offset:
        raise MalformedError(
            f"a chunk of {chunk.nbytes} bytes cannot hold its header of {config.offset} bytes: "
            "the chunk is cut short, or the offset is not this format's",
            field="offset",
        )
    return chunk[config.offset :]


def encode(config: OffsetConfig, chunk: memoryview) -> bytes:
    """Return the chunk with its header before it."""
    header = affix.affix_bytes(chunk, config.offset, config.prefix, config.prefix_func, field="prefix_func")
    return b"".join((header, chunk))
