"""The configurations of the codecs that NITF's image segments need: `jbp-block`, `jpeg`, `jnrrdz.nitf-vq`.

May touch errors and `codec`.  Each member is checked as it is read, all problems reported together.
Spec: docs/codecs/jbp-block/README.md, docs/codecs/jpeg/README.md, docs/codecs/jnrrdz.nitf-vq/README.md
"""

import base64
import binascii
import zlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

from jnrrdz.core.codec import CodecSpec
from jnrrdz.errors import MalformedError

JBP_BLOCK = "jbp-block"
JPEG = "jpeg"
NITF_VQ = "jnrrdz.nitf-vq"

PIXEL_TYPES = ("INT", "SI", "R", "C", "B")
MODES = ("B", "P", "R", "S")
MAX_BITS = 128
MAX_SIDE = (1 << 31) - 1
CODEBOOK_BYTES = 4 * 4096 * 4

SPELT_BYTES = {"palette", "codebooks"}
"""Members that are bytes, spelt in base64."""

type Check = Callable[[Any], bool]


def _one_of(*known: Any) -> Check:
    return lambda value: isinstance(value, str) and value in known


def _between(least: int, most: int) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(base64.b64decode(value, validate=True)) > 0
    except (ValueError, binascii.Error):
        return False


def plain_codebooks(data: bytes) -> bytes | None:
    """Return what a zlib stream of codebooks holds, None where it is none."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, CODEBOOK_BYTES + 1)
    except zlib.error:
        return None
    return found if len(found) == CODEBOOK_BYTES else None


@dataclass(frozen=True)
class Config:
    """A configuration whose members are plain values, or bytes spelt in base64."""

    NAME: ClassVar[str]
    CHECKS: ClassVar[Mapping[str, Check]]

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default:
                found[item.name] = base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        return CodecSpec(self.NAME, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        """Return the checked configuration; every problem is reported, with its member."""
        known = {item.name: item for item in fields(cls)}
        problems = [f"unknown member {name!r}" for name in configuration if name not in known]
        problems += [
            f"{name} is missing"
            for name, item in known.items()
            if item.default is MISSING and name not in configuration
        ]
        problems += [
            f"{name} {str(value)[:40]!r} is not allowed"
            for name, value in configuration.items()
            if name in known and not cls.CHECKS[name](value)
        ]
        if problems:
            raise MalformedError("; ".join(problems), field=cls.NAME)
        return cls(
            **{name: base64.b64decode(value) if name in SPELT_BYTES else value for name, value in configuration.items()}
        )


@dataclass(frozen=True)
class JbpBlockConfig(Config):
    """How the samples of an uncompressed block are packed."""

    pixel_type: str
    """PVTYPE: INT, SI, R, C or B."""

    bits_per_pixel: int
    """NBPP: the bits that one sample takes."""

    interleave: str = "B"
    """IMODE, of several samples in one chunk."""

    image_rows: int = 0
    """Rows of the image, where its last chunk ends with them; 0 where every chunk is whole."""

    complex_pairs: bool = False
    """Whether two samples in turn are the real and the imaginary part of one complex number."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = JBP_BLOCK
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "pixel_type": _one_of(*PIXEL_TYPES),
        "bits_per_pixel": _between(1, MAX_BITS),
        "interleave": _one_of(*MODES),
        "image_rows": _between(0, MAX_SIDE),
        "complex_pairs": _flag,
        "palette": _base64,
    }


@dataclass(frozen=True)
class JpegConfig(Config):
    """What a JPEG stream of a NITF does not say itself."""

    quality: int = 0
    """Which of the standard's five quantisation tables a stream without any means; 0 where none does."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = JPEG
    CHECKS: ClassVar[Mapping[str, Check]] = {"quality": _between(0, 5), "palette": _base64}


@dataclass(frozen=True)
class NitfVqConfig(Config):
    """The four codebooks of a vector-quantised image."""

    codebooks: bytes
    """For each row of four pixels in turn, 4096 rows of four values, as a zlib stream."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = NITF_VQ
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "codebooks": lambda value: _base64(value) and plain_codebooks(base64.b64decode(value)) is not None,
        "palette": _base64,
    }
