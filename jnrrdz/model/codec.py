"""Every codec name and configuration, spelt once.

May touch errors only.  Scanners build the specifications here, codecs read them back; neither
knows the other.  Names follow docs/codecs/ (proposals) and the Zarr extension registry.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

OFFSET = "offset"
PAD = "pad"
TIFF_TILE = "tiff-tile"
BYTES = "bytes"

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class CodecSpec:
    """One entry of a Zarr v3 array's `codecs`."""

    name: str
    configuration: Mapping[str, Any] = field(default=_NONE)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in zarr.json."""
        if not self.configuration:
            return {"name": self.name}
        return {"name": self.name, "configuration": dict(self.configuration)}


def bytes_(endian: str | None) -> CodecSpec:
    """Return Zarr's own `bytes` codec, with an endianness where the type has one."""
    return CodecSpec(BYTES, {} if endian is None else {"endian": endian})


def offset(nbytes: int, prefix: bytes | None = None) -> CodecSpec:
    """Return the codec that skips (and writes) a header of `nbytes`."""
    literal = {} if prefix is None else {"prefix": base64.b64encode(prefix).decode("ascii")}
    return CodecSpec(OFFSET, {"offset": nbytes, **literal})


def pad(location: str, nbytes: int, padding: bytes | None = None) -> CodecSpec:
    """Return the codec that strips (and writes) `nbytes` at the start or the end."""
    literal = {} if padding is None else {"padding": base64.b64encode(padding).decode("ascii")}
    return CodecSpec(PAD, {"location": location, "nbytes": nbytes, **literal})
