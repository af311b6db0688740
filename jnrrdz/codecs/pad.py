"""The `pad` codec, bytes to bytes: a fixed number of bytes before or after the encoded chunk.

May touch errors, the model's codec names and `affix` only; knows no zarr.  Follows
docs/codecs/pad/README.md.  Chunks come and go as memory views of single bytes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from jnrrdz.codecs import affix
from jnrrdz.codecs.affix import ChunkFunction
from jnrrdz.core import codec
from jnrrdz.errors import MalformedError


class Location(StrEnum):
    """The side of the chunk that the padding is on."""

    START = "start"
    END = "end"


@dataclass(frozen=True)
class PadConfig:
    """Where the padding is, how long it is, and what it holds when it is written."""

    location: Location
    nbytes: int
    padding: bytes | None = None
    padding_func: ChunkFunction | None = None
    """Makes the padding from the encoded chunk; lives in this process only, never in metadata."""

    def __post_init__(self) -> None:
        """Refuse padding whose length and bytes contradict each other."""
        checked_location(self.location)
        affix.checked_length(self.nbytes, field="nbytes")
        affix.check_literal(self.padding, self.nbytes, field="padding", length_field="nbytes")
        affix.check_function(self.padding_func, self.padding, field="padding_func", literal_field="padding")

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        known = affix.checked_configuration(configuration, required=("location", "nbytes"), optional=("padding",))
        location = checked_location(known["location"])
        length = affix.checked_length(known["nbytes"], field="nbytes")
        padding = affix.decoded_literal(known["padding"], field="padding") if "padding" in known else None
        return cls(location, length, padding)

    def to_json(self) -> dict[str, Any]:
        """Return the codec's entry for zarr.json."""
        return codec.pad(str(self.location), self.nbytes, self.padding).to_json()


def checked_location(value: object) -> Location:
    """Return a side of the chunk from its name."""
    for location in Location:
        if value == location:
            return location
    raise MalformedError(f"found {value!r}; 'start' or 'end' is needed", field="location")


def decode(config: PadConfig, chunk: memoryview) -> memoryview:
    """Return the chunk without its padding, without copying it."""
    rest = chunk.nbytes - config.nbytes
    if rest < 0:
        raise MalformedError(
            f"a chunk of {chunk.nbytes} bytes cannot hold {config.nbytes} bytes of padding at its {config.location}: "
            "the chunk is cut short, or the padding is not this format's",
            field="nbytes",
        )
    return chunk[config.nbytes :] if config.location == Location.START else chunk[:rest]


def encode(config: PadConfig, chunk: memoryview) -> bytes:
    """Return the chunk with its padding."""
    padding = affix.affix_bytes(chunk, config.nbytes, config.padding, config.padding_func, field="padding_func")
    return b"".join((padding, chunk) if config.location == Location.START else (chunk, padding))
