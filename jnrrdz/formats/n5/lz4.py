"""The `jnrrdz.lz4` codec, bytes to bytes: LZ4 in the three framings that N5 writers use.

May touch errors, imagecodecs' block decoder, xxhash and the model's codec names; knows no zarr.
Follows docs/codecs/jnrrdz.lz4/README.md.  LZ4 blocks do not say how long they get: whoever knows (the
header of an N5 block, the chunk's shape) gives the size, and more than that is never decoded.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import imagecodecs
import xxhash

from jnrrdz.core import codec_n5
from jnrrdz.core.codec_n5 import LZ4, Framing
from jnrrdz.errors import MalformedError

MAGIC = b"LZ4Block"
_JAVA = struct.Struct("<8sBIII")
"""Magic, token, compressed length, decoded length, checksum."""

_SIZE = struct.Struct("<I")
_RAW, _COMPRESSED = 0x10, 0x20
_SEED, _CHECK_BITS = 0x9747B28C, 0x0FFFFFFF
_LEVEL_BASE = 10
BLOCK_SIZE = 1 << 16
"""Java's default; the token says it as a power of two."""


@dataclass(frozen=True)
class Lz4Config:
    """Which framing."""

    framing: Framing

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        if not isinstance(configuration, Mapping) or set(configuration) != {"framing"}:
            raise MalformedError(f"found {configuration!r}; an object with 'framing' is needed", field=LZ4)
        for framing in Framing:
            if configuration["framing"] == framing:
                return cls(framing)
        found, known = configuration["framing"], ", ".join(map(str, Framing))
        raise MalformedError(f"framing {found!r}; there are {known}", field=LZ4)

    def to_json(self) -> dict[str, Any]:
        """Return the codec's entry for zarr.json."""
        return codec_n5.lz4(self.framing).to_json()


def decode(config: Lz4Config, data: memoryview, limit: int) -> bytes:
    """Return the decoded bytes, of which there may be `limit`."""
    return _DECODERS[config.framing](data, limit)


def encode(config: Lz4Config, data: memoryview) -> bytes:
    """Return the data in the framing."""
    return _ENCODERS[config.framing](data)


def _block(data: memoryview, size: int) -> bytes:
    """Return one decoded LZ4 block of at most `size` bytes."""
    if not size:
        return b""
    try:
        # imagecodecs takes no read-only view
        return bytes(imagecodecs.lz4_decode(bytes(data), out=size))
    except RuntimeError as error:  # Lz4Error
        raise MalformedError(f"an LZ4 block that is damaged or decodes to more than {size} bytes", field=LZ4) from error


def _decode_frame(data: memoryview, limit: int) -> bytes:
    if len(data) < _SIZE.size:
        raise MalformedError(f"{len(data)} bytes, too few for a size", field=LZ4)
    (size,) = _SIZE.unpack_from(data)
    if size > limit:
        raise MalformedError(f"LZ4 data of {size} bytes where {limit} are expected", field=LZ4)
    found = _block(data[_SIZE.size :], size)
    if len(found) != size:
        raise MalformedError(f"an LZ4 block of {len(found)} bytes that says {size}", field=LZ4)
    return found


def _decode_java(data: memoryview, limit: int) -> bytes:
    """Return the blocks one after another; the one of no bytes ends them."""
    parts: list[bytes] = []
    at = 0
    while True:
        magic, token, packed, size, check = _java_header(data, at)
        body = data[at + _JAVA.size : at + _JAVA.size + packed]
        if magic != MAGIC or len(body) != packed:
            raise MalformedError("no block of Java's LZ4 stream, or one that is cut off", offset=at, field=LZ4)
        if not size:
            return b"".join(parts)
        limit -= size
        if limit < 0:
            raise MalformedError(f"LZ4 data longer than expected by {-limit} bytes", offset=at, field=LZ4)
        parts.append(_java_body(token & 0xF0, body, size, check, at))
        at += _JAVA.size + packed


def _java_header(data: memoryview, at: int) -> tuple[Any, ...]:
    if len(data) < at + _JAVA.size:
        raise MalformedError("Java's LZ4 stream ends without its last block", offset=at, field=LZ4)
    return _JAVA.unpack_from(data, at)


def _java_body(method: int, body: memoryview, size: int, check: int, at: int) -> bytes:
    if method not in {_RAW, _COMPRESSED}:
        raise MalformedError(f"compression method {method:#x}; 0x10 and 0x20 are known", offset=at, field=LZ4)
    found = bytes(body) if method == _RAW else _block(body, size)
    if len(found) != size:
        raise MalformedError(f"an LZ4 block of {len(found)} bytes that says {size}", offset=at, field=LZ4)
    if xxhash.xxh32_intdigest(found, _SEED) & _CHECK_BITS != check:
        raise MalformedError("an LZ4 block whose checksum is another", offset=at, field=LZ4)
    return found


def _encode_block(data: memoryview) -> bytes:
    return bytes(imagecodecs.lz4_encode(bytes(data)))


def _encode_frame(data: memoryview) -> bytes:
    return _SIZE.pack(len(data)) + _encode_block(data)


def _encode_java(data: memoryview) -> bytes:
    level = BLOCK_SIZE.bit_length() - 1 - _LEVEL_BASE
    parts = []
    for first in range(0, len(data), BLOCK_SIZE):
        body = data[first : first + BLOCK_SIZE]
        packed = _encode_block(body)
        method, stored = (_COMPRESSED, packed) if len(packed) < len(body) else (_RAW, bytes(body))
        check = xxhash.xxh32_intdigest(bytes(body), _SEED) & _CHECK_BITS
        parts += [_JAVA.pack(MAGIC, method | level, len(stored), len(body), check), stored]
    return b"".join([*parts, _JAVA.pack(MAGIC, _RAW | level, 0, 0, 0)])


_DECODERS: Mapping[Framing, Callable[[memoryview, int], bytes]] = {
    Framing.FRAME: _decode_frame,
    Framing.BLOCK: _block,
    Framing.JAVA: _decode_java,
}
_ENCODERS: Mapping[Framing, Callable[[memoryview], bytes]] = {
    Framing.FRAME: _encode_frame,
    Framing.BLOCK: _encode_block,
    Framing.JAVA: _encode_java,
}
