"""Bytes of a fixed length that stand before or after an encoded chunk: what `offset` and `pad` share.

May touch errors only.  Follows docs/codecs/offset and docs/codecs/pad: the bytes are a literal
(base64 in metadata), or computed from the encoded chunk by a function that metadata cannot name,
or zeros.  Every check names the configuration's field that it is about.

The `offset` codec, bytes to bytes: a header of fixed length before the encoded chunk.

May touch errors, the model's codec names and `affix` only; knows no zarr.  Follows
docs/codecs/offset/README.md.  Chunks come and go as memory views of single bytes.

The `pad` codec, bytes to bytes: a fixed number of bytes before or after the encoded chunk.

May touch errors, the model's codec names and `affix` only; knows no zarr.  Follows
docs/codecs/pad/README.md.  Chunks come and go as memory views of single bytes.

`offset` and `pad` as zarr's bytes->bytes codecs.

May touch zarr, errors, and the codecs' pure modules.  Follows zarr.abc.codec as of zarr 3.4: the
`_sync` methods serve the fused pipeline and the store's synchronous path, the others await nothing,
for there is nothing here worth a thread.
"""

import base64
import binascii
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON

from jnrrdz.core import codecs as codec
from jnrrdz.errors import MalformedError

type ChunkFunction = Callable[[bytes], bytes]
"""From the encoded chunk to the bytes that go with it."""


def checked_configuration(
    configuration: object, *, required: Collection[str], optional: Collection[str]
) -> Mapping[str, object]:
    """Return the configuration, which has every required key and no unknown one."""
    if not isinstance(configuration, Mapping):
        found = "none" if configuration is None else repr(configuration)
        raise MalformedError(f"found {found}; an object with {_listed(required)} is needed", field="configuration")
    if missing := [key for key in required if key not in configuration]:
        raise MalformedError(f"{_listed(missing)} missing", field="configuration")
    if unknown := [str(key) for key in configuration if key not in required and key not in optional]:
        known = _listed([*required, *optional])
        raise MalformedError(f"{_listed(unknown)} unknown; the codec has {known}", field="configuration")
    return configuration


def checked_length(value: object, *, field: str) -> int:
    """Return a number of bytes."""
    # true is an int to Python, but not a number of bytes
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MalformedError(f"found {value!r}; an integer of 0 or more is needed", field=field)
    return value


def decoded_literal(value: object, *, field: str) -> bytes:
    """Return the bytes of a literal that is given in base64."""
    if not isinstance(value, str):
        raise MalformedError(f"found {value!r}; base64 text is needed", field=field)
    try:
        literal = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"not base64 (RFC 4648, section 4): {error}", field=field) from error
    # the decoder drops stray bits after the last byte; then the text would not survive a round trip
    if base64.b64encode(literal).decode("ascii") != value:
        raise MalformedError("not canonical base64: the bits after the last byte are not zero", field=field)
    return literal


def check_literal(literal: object, nbytes: int, *, field: str, length_field: str) -> None:
    """Refuse a literal that is not exactly as long as it has to be."""
    if literal is None:
        return
    if not isinstance(literal, bytes):
        raise MalformedError(f"found {literal!r}; bytes are needed", field=field)
    if len(literal) != nbytes:
        raise MalformedError(f"{len(literal)} bytes long, but {length_field} is {nbytes}", field=field)


def check_function(function: object, literal: object, *, field: str, literal_field: str) -> None:
    """Refuse what cannot be called, and a function beside a literal."""
    if function is None:
        return
    if not callable(function):
        raise MalformedError(f"found {function!r}; a function of the encoded chunk is needed", field=field)
    if literal is not None:
        raise MalformedError(f"given together with {literal_field}; only one of them can be written", field=field)


def affix_bytes(
    chunk: memoryview, nbytes: int, literal: bytes | None, function: ChunkFunction | None, *, field: str
) -> bytes:
    """Return the bytes that go with an encoded chunk; `field` names the function."""
    if function is None:
        return bytes(nbytes) if literal is None else literal
    computed = function(bytes(chunk))
    if not isinstance(computed, bytes):
        raise MalformedError(f"returned {type(computed).__name__}; bytes are needed", field=field)
    if len(computed) != nbytes:
        raise MalformedError(f"returned {len(computed)} bytes; {nbytes} are needed", field=field)
    return computed


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)


@dataclass(frozen=True)
class OffsetConfig:
    """How long the header is, and what it holds when it is written."""

    offset: int
    prefix: bytes | None = None
    prefix_func: ChunkFunction | None = None
    """Makes the header from the encoded chunk; lives in this process only, never in metadata."""

    def __post_init__(self) -> None:
        """Refuse a header whose length and bytes contradict each other."""
        checked_length(self.offset, field="offset")
        check_literal(self.prefix, self.offset, field="prefix", length_field="offset")
        check_function(self.prefix_func, self.prefix, field="prefix_func", literal_field="prefix")

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        known = checked_configuration(configuration, required=("offset",), optional=("prefix",))
        length = checked_length(known["offset"], field="offset")
        prefix = decoded_literal(known["prefix"], field="prefix") if "prefix" in known else None
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
    header = affix_bytes(chunk, config.offset, config.prefix, config.prefix_func, field="prefix_func")
    return b"".join((header, chunk))


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
        checked_length(self.nbytes, field="nbytes")
        check_literal(self.padding, self.nbytes, field="padding", length_field="nbytes")
        check_function(self.padding_func, self.padding, field="padding_func", literal_field="padding")

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        known = checked_configuration(configuration, required=("location", "nbytes"), optional=("padding",))
        location = checked_location(known["location"])
        length = checked_length(known["nbytes"], field="nbytes")
        padding = decoded_literal(known["padding"], field="padding") if "padding" in known else None
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


def pad_decode(config: PadConfig, chunk: memoryview) -> memoryview:
    """Return the chunk without its padding, without copying it."""
    rest = chunk.nbytes - config.nbytes
    if rest < 0:
        raise MalformedError(
            f"a chunk of {chunk.nbytes} bytes cannot hold {config.nbytes} bytes of padding at its {config.location}: "
            "the chunk is cut short, or the padding is not this format's",
            field="nbytes",
        )
    return chunk[config.nbytes :] if config.location == Location.START else chunk[:rest]


def pad_encode(config: PadConfig, chunk: memoryview) -> bytes:
    """Return the chunk with its padding."""
    padding = affix_bytes(chunk, config.nbytes, config.padding, config.padding_func, field="padding_func")
    return b"".join((padding, chunk) if config.location == Location.START else (chunk, padding))


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
        return decode(self.config, chunk)

    def _encode_view(self, chunk: memoryview) -> bytes:
        return encode(self.config, chunk)


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
        return pad_decode(self.config, chunk)

    def _encode_view(self, chunk: memoryview) -> bytes:
        return pad_encode(self.config, chunk)
