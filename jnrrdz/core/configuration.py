"""What all codecs share: configurations with their checks and JSON, samples, and the record of a codec.

The configurations and records themselves are in `codecs`, beside this module, and in
`formats/NAME/codecs.py`; `codec_table` gathers them.
"""

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from enum import Enum, StrEnum
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import json_schema
from jnrrdz.core.json_schema import Check, is_integer, shown
from jnrrdz.core.limits import AXES
from jnrrdz.errors import MalformedError
from jnrrdz.records import record

type Codec = CodecSpec | Configuration
"""One entry of a Zarr v3 array's `codecs`."""


@record
class CodecSpec:
    """A codec that is only named here, such as zarr's own, or one that a manifest names."""

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Return the codec of an entry, which may be a bare name; its configuration is checked where it is known."""
        if isinstance(entry, str):
            return cls(entry)
        found = CODEC(entry)
        return cls(found["name"], found.get("configuration", {}))

    def __eq__(self, other: object) -> bool:
        """Whether both are written alike: a codec that a manifest names may be a `Configuration` elsewhere."""
        if not isinstance(other, CodecSpec | Configuration):
            return NotImplemented
        return self.name == other.name and self.configuration == other.configuration

    def __hash__(self) -> int:
        return hash(self.name)  # mappings have no hash

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in zarr.json."""
        if not self.configuration:
            return {"name": self.name}
        return {"name": self.name, "configuration": dict(self.configuration)}


@record
class Configuration:
    """The configuration of a codec of ours: subclasses declare the members, each with its check.

    A field without a check lives in this process only and never gets into JSON.
    """

    NAME: ClassVar[str]
    name: ClassVar[str]
    """The codec's name in zarr.json: that of every codec is asked for by `name`."""
    ALWAYS: ClassVar[frozenset[str]] = frozenset()
    """Members that are written even at their defaults, because a reader of the manifest wants to see them."""

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the checked configuration; unknown, missing and wrong members are reported together."""
        members = {item.name: item for item in fields(cls) if "check" in item.metadata}
        if not isinstance(configuration, Mapping):
            known = ", ".join(members)
            raise MalformedError(
                f"no configuration: found {shown(configuration)}; an object of {known} is needed", field=cls.NAME
            )
        values: dict[str, Any] = {}
        problems = [f"unknown member {name!r}" for name in configuration if name not in members]
        for name, item in members.items():
            if name in configuration:
                try:
                    values[name] = item.metadata["check"](configuration[name])
                except MalformedError as error:
                    problems.append(f"{name}: {error.message}")
            elif item.default is MISSING:
                problems.append(f"{name} is missing")
        if problems:
            raise MalformedError("; ".join(problems), field=cls.NAME)
        return cls(**values)

    def __init_subclass__(cls) -> None:
        """Give the class its codec's name."""
        super().__init_subclass__()
        cls.name = cls.NAME

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Return the members as JSON, without those at their defaults."""
        members: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            is_written = item.default is MISSING or value != item.default or item.name in self.ALWAYS
            if is_written and "check" in item.metadata:
                members[item.name] = spelt(value)
        return members

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in zarr.json."""
        return CodecSpec(self.NAME, self.configuration).to_json()


def spelt(value: Any) -> Any:
    """Return a member's value as JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, CodecSpec | Configuration):
        return value.to_json()
    return list(map(spelt, value)) if isinstance(value, tuple) else value


# Entries of `codecs`


EXTENSION = json_schema.text_or(
    json_schema.members(
        {"name": json_schema.TEXT},
        {"configuration": json_schema.OBJECT},
    )
)
"""A bare name, or a name with a configuration: codecs, chunk grids, chunk key encodings, data types."""

_CONFIGURATIONS: dict[str, Check] = {}
"""Checks of those of zarr's own codecs whose configuration decides how bytes become elements.

Readers would take a configuration of other types for another one: true for 1.
"""

CODEC: Check = json_schema.all_of(EXTENSION, json_schema.by_name(_CONFIGURATIONS))

"""numpy has no more."""


def sizes(least: int) -> Check:
    """Return the check of a size for each axis."""
    size = json_schema.integer(least, json_schema.LARGEST_SIZE)
    return json_schema.list_of(size, most=AXES)


_CONFIGURATIONS |= {
    "transpose": json_schema.members(
        {"order": json_schema.list_of(json_schema.integer(0, AXES))},
    ),
    "bytes": json_schema.members({}, {"endian": json_schema.nullable(json_schema.one_of("little", "big"))}),
    "sharding_indexed": json_schema.members(
        {"chunk_shape": sizes(1), "codecs": json_schema.list_of(CODEC, fewest=1)},
        {"index_codecs": json_schema.list_of(CODEC), "index_location": json_schema.one_of("start", "end")},
    ),
    "numcodecs.shuffle": json_schema.members({}, {"elementsize": json_schema.integer(1)}),
}


# What checks members: each is the metadata of a dataclass's field


def checked(check: Check) -> Mapping[str, Check]:
    """Return a member's metadata: its value in JSON goes through this check."""
    return {"check": check}


def integer(least: int = 0, most: float = math.inf) -> Mapping[str, Check]:
    """Return the check of an integer."""
    return checked(json_schema.integer(least, most))


def integers(most: int, *, fewest: int = 0, count: int, distinct: bool = False) -> Mapping[str, Check]:
    """Return the check of a list of `fewest` to `count` integers from 0."""

    def check(value: Any) -> tuple[int, ...]:
        is_list = isinstance(value, list) and fewest <= len(value) <= count
        if not is_list or not all(is_integer(item, 0, most) for item in value):
            raise MalformedError(f"found {shown(value)}; a list of {fewest} or more integers to {most} is needed")
        if distinct and len(set(value)) != len(value):
            raise MalformedError(f"found {shown(value)}; different numbers are needed")
        return tuple(value)

    return checked(check)


def one_of(*known: str) -> Mapping[str, Check]:
    """Return the check of a value that is one of these."""
    return checked(json_schema.one_of(*known))


def literal(fewest: int = 0, *, canonical: bool = False) -> Mapping[str, Check]:
    """Return the check of bytes spelt in base64; canonical ones have no bits beyond their last byte."""

    def check(value: Any) -> bytes:
        if not isinstance(value, str):
            raise MalformedError(f"found {shown(value)}; base64 text is needed")
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise MalformedError(f"not base64 (RFC 4648, section 4): {error}") from error
        if len(data) < fewest:
            raise MalformedError(f"{len(data)} bytes of base64; {fewest} or more are needed")
        # the decoder drops stray bits after the last byte; then the text would not survive a round trip
        if canonical and spelt(data) != value:
            raise MalformedError("not canonical base64: the bits after the last byte are not zero")
        return data

    return checked(check)


FLAG = checked(json_schema.FLAG)
PALETTE = literal(1)
CANONICAL = literal(canonical=True)
ENDIAN = one_of("little", "big")


# What chunks hold, and which arrays have room for it

KINDS = {"b": "bool", "u": "uint", "i": "int", "f": "float", "c": "complex"}
BYTE_BITS = 8


class Samples(NamedTuple):
    """The numbers in a codec's chunks: numpy's letter for their kind, and the bits of each, 12 of a uint12."""

    kind: str
    bits: int
    is_exact: bool = False
    """Whether only the type of just these bits is read, though another would have room."""

    @classmethod
    def of(cls, dtype: np.dtype[Any], *, is_exact: bool = False) -> Self:
        """Return all the numbers of a type."""
        return cls(dtype.kind, 1 if dtype.kind == "b" else dtype.itemsize * BYTE_BITS, is_exact)

    def fit(self, dtype: np.dtype[Any]) -> bool:
        """Whether a type holds each of these numbers as it is."""
        room = Samples.of(dtype)
        if self.is_exact:
            return (self.kind, self.bits) == room[:2]
        if room.kind == "c" and self.kind != "c":
            return self.fit(np.dtype(f"f{dtype.itemsize // 2}"))
        if room.kind == "f" and self.kind in "bui":
            return self.bits - (self.kind == "i") <= np.finfo(dtype).nmant + 1
        if room.kind in "bui" and self.kind in "bui":
            return self.bits + (room.kind == "i" and self.kind != "i") <= room.bits and self.kind in f"bu{room.kind}"
        return room.kind == self.kind in "fc" and self.bits <= room.bits

    def __str__(self) -> str:
        return f"{KINDS.get(self.kind, self.kind)}{'' if self.kind == 'b' else self.bits}"


def check_type(dtype: np.dtype[Any], samples: Samples, name: str) -> None:
    """Refuse an array whose type does not hold a codec's samples: to cast them would change pixels silently."""
    if not samples.fit(dtype):
        raise MalformedError(f"samples of {samples} for an array of {dtype}, which does not hold them", field=name)


def in_type(pixels: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Return decoded pixels in an array's type; refuse those that it does not hold."""
    if pixels.dtype == dtype:
        return pixels
    samples = Samples.of(pixels.dtype)
    if not samples.fit(dtype) and samples.kind in "ui" and pixels.size:
        # a decoder may hand out fewer bits in a wider type
        low, high = int(pixels.min()), int(pixels.max())
        samples = Samples("i", max(~low, high).bit_length() + 1) if low < 0 else Samples("u", high.bit_length())
    check_type(dtype, samples, name)
    return pixels.astype(dtype)


# What is recorded of a codec

SLACK = 1 << 16
"""Bytes that any compressed data may become, however few they are."""


class Stage(Enum):
    """Where in a chain a codec is."""

    ARRAY = "from elements to elements"
    PIXELS = "from elements to bytes"
    PACKER = "from the bytes that `bytes` makes to fewer bytes"
    BYTES = "from bytes to bytes"


class Readers(Enum):
    """Which readers of Zarr v3 have a codec without jnrrdz."""

    ANY = "any reader: the codec is in the Zarr specification"
    PYTHON = "zarr-python, and few others"
    NEWEST = "zarr-python from a recent version on"
    JNRRDZ = "none: jnrrdz brings the codec"


type Change = Callable[[Codec, int], Codec | None]
"""From a codec, and the number of axes of its chunk without the one in front, to what the codec becomes.

None is a codec that takes no axis in front, or that has nothing left to do.
"""

type Translation = Callable[[Mapping[str, Any], np.dtype[Any]], Mapping[str, Any]]
"""From a codec's entry in Zarr v2, and the array's type, to the configuration in version 3."""


@record
class Leading:
    """What a codec becomes where chunks get an axis of length 1 in front, and where they lose it again."""

    lifted: Change
    lowered: Change
    takes_it_off: bool = False
    """Whether the codecs behind it are given the same chunk as before."""


def _same(codec: Codec, _: int) -> Codec:
    return codec


def _nothing(_: Codec, __: int) -> None:
    return None


def _unless_palette(codec: Codec, _: int) -> Codec | None:
    return None if "palette" in codec.configuration else codec


ANY_AXES = Leading(_same, _same)
"""The codec reads the same bytes for any number of axes of length 1 in front."""

NO_AXES = Leading(_nothing, _nothing)
"""The codec takes the axes that its bytes have, and no others."""

NO_AXES_WITH_PALETTE = Leading(_unless_palette, _unless_palette)
"""Colours are looked up for chunks of three bands alone."""


def same_members(entry: Mapping[str, Any], _: np.dtype[Any]) -> Mapping[str, Any]:
    """Return the configuration of a codec that has the same members in Zarr v2 and v3."""
    return {name: value for name, value in entry.items() if name != "id"}


@record
class CodecRecord:
    """What jnrrdz knows of one codec; functions and classes are named `module:name` and imported on demand.

    Of jnrrdz's own codecs every member is here.  Of Zarr's own codecs, which zarr-python
    decodes, `decoder`, `samples` and `codec_class` are None.
    """

    name: str
    """In zarr.json, such as `tiff-tile`."""

    stage: Stage
    leading: Leading
    readers: Readers = Readers.JNRRDZ
    config: type[Configuration] | None = None
    """Declares and checks the members."""

    codec_class: str | None = None
    """zarr's class, which is an entry point in pyproject.toml; None for Zarr's own codecs."""

    bounded_class: str | None = None
    """The class that decodes one of Zarr's own codecs to no more than a chunk's size."""

    decoder: str | None = None
    """Returns what decodes chunks, `decoder(config, shape, dtype, fill_value)`; of a compressor returns the bytes:
    `decoder(compressor, data, size)`."""

    encoder: str | None = None
    """Of a compressor, returns compressed bytes: `encoder(configuration, data)`."""

    samples: str | None = None
    """Returns what chunks hold, `samples(config)`; None where only a chunk says it."""

    schema: str | None = None
    """The JSON schema in the documentation, such as `docs/codecs/pad/schema.json`."""

    can_decode: bool = True
    can_encode: bool = False
    version_2: Mapping[str, Translation] = field(default_factory=dict)
    """By the codec's ids in Zarr v2: how an entry becomes the configuration."""

    filter_class: str | None = None
    """numcodecs' class, which is an entry point in pyproject.toml."""

    former_name: str | None = None
    """The name that earlier versions of jnrrdz wrote."""

    standard: str | None = None
    """Returns codecs of Zarr's own for the same chunks: `standard(config, array)`; raises where there are none."""

    not_standard: str | None = None
    """Why no codecs of Zarr's own read the same chunks."""

    foreign: str | None = None
    """Returns this codec for a chain of another project's codecs: `foreign(specs, tiles)`; None for other chains."""

    foreign_document: str | None = None
    """Returns the codecs of an array's zarr.json with those of another project replaced."""

    lack: str | None = None
    """Returns why a configuration cannot be decoded in this environment, `lack(configuration)`; None if it can."""

    heads: str | None = None
    """Returns what finds the first bytes of a chunk that are all it needs, `heads(config)`; None if it needs all."""

    sides: Mapping[str, int] = field(default_factory=dict)
    """Members that hold the image's size along an axis, which limits chunks at its edge: `{"image_width": -1}`."""

    of_writers: frozenset[str] = frozenset()
    """Members that matter to writers alone."""

    distinctive: frozenset[str] | None = None
    """Members that lists of codecs show; None for all of them."""

    in_chunks: str | None = None
    """The member whose bytes may be at the head of each chunk instead: `jpeg_tables`."""

    is_part_of_stored: bool = False
    """Whether a chunk may be a small part of the bytes that it is decoded from."""

    added_bytes: Callable[[Mapping[str, Any]], int] | None = None
    """Returns how many bytes a step from bytes to bytes adds to a chunk."""

    most_times: int | None = None
    """How many bytes one byte can become at the most; None where the format has no limit."""
