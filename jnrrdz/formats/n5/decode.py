"""N5 blocks decoded and encoded: `n5_default`, its compressions, and `jnrrdz.lz4`.

A block has a header, and its axes in N5's order
(https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default); those of variable length (mode 1)
are read too where they have an element for each place.  Compressed bytes are decoded to a length that is known,
never to more: zlib, deflate and gzip (RFC 1950, 1951, 1952), zstd (RFC 8878), blosc 1, bzip2, xz, and LZ4 in the
three framings that N5 writers use (docs/codecs/jnrrdz.lz4/README.md).  LZ4 blocks do not say how long they get:
whoever knows (the header of an N5 block, the chunk's shape) gives the size.
"""

import bz2
import gzip
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import imagecodecs
import numpy as np
import xxhash
from numpy.typing import NDArray

from jnrrdz.core.codecs import (
    BLOSC,
    BZ2,
    GZIP,
    LZ4,
    LZMA,
    N5_DEFAULT,
    SHUFFLES,
    ZLIB,
    ZSTD,
    Framing,
    Lz4Config,
    N5DefaultConfig,
)
from jnrrdz.core.configuration import Codec
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.n5.attributes import block_header, check_place, default_header

MAGIC = b"LZ4Block"
_JAVA = struct.Struct("<8sBIII")
"""Magic, token, compressed length, decoded length, checksum."""

_SIZE = struct.Struct("<I")
_RAW, _COMPRESSED = 0x10, 0x20
_SEED, _CHECK_BITS = 0x9747B28C, 0x0FFFFFFF
_LEVEL_BASE = 10
BLOCK_SIZE = 1 << 16
"""Java's default; the token says it as a power of two."""


def decode(config: Lz4Config, data: memoryview, limit: int) -> bytes:
    """Return the decoded bytes, of which there may be `limit`."""
    return _DECODERS[config.framing](data, limit)


def encode(config: Lz4Config, data: memoryview) -> bytes:
    """Return the data in the framing."""
    return _ENCODERS[config.framing](data)


def _block(data: memoryview, limit: int) -> bytes:
    """Return one decoded LZ4 block of at most so many bytes."""
    if not limit:
        return b""
    try:
        # imagecodecs takes no read-only view
        return bytes(imagecodecs.lz4_decode(bytes(data), out=limit))
    except RuntimeError as error:  # Lz4Error
        raise MalformedError(
            f"an LZ4 block that is damaged or decodes to more than {limit} bytes", field=LZ4
        ) from error


def _check_size(decoded: bytes, size: int, at: int | None = None) -> bytes:
    if len(decoded) != size:
        raise MalformedError(f"an LZ4 block of {len(decoded)} bytes that says {size}", offset=at, field=LZ4)
    return decoded


def _decode_frame(data: memoryview, limit: int) -> bytes:
    if len(data) < _SIZE.size:
        raise MalformedError(f"{len(data)} bytes, too few for a size", field=LZ4)
    (size,) = _SIZE.unpack_from(data)
    if size > limit:
        raise MalformedError(f"LZ4 data of {size} bytes where {limit} are expected", field=LZ4)
    return _check_size(_block(data[_SIZE.size :], size), size)


def _decode_java(data: memoryview, limit: int) -> bytes:
    """Return the blocks one after another; the one of no bytes ends them."""
    parts: list[bytes] = []
    at = 0
    while True:
        if len(data) < at + _JAVA.size:
            raise MalformedError("Java's LZ4 stream ends without its last block", offset=at, field=LZ4)
        magic, token, packed, size, check = _JAVA.unpack_from(data, at)
        body = data[at + _JAVA.size : at + _JAVA.size + packed]
        if magic != MAGIC or len(body) != packed:
            raise MalformedError("no block of Java's LZ4 stream, or one that is cut off", offset=at, field=LZ4)
        if not size:
            return b"".join(parts)
        limit -= size
        if limit < 0:
            raise MalformedError(f"LZ4 data longer than expected by {-limit} bytes", offset=at, field=LZ4)
        method = token & 0xF0
        if method not in {_RAW, _COMPRESSED}:
            raise MalformedError(f"compression method {method:#x}; 0x10 and 0x20 are known", offset=at, field=LZ4)
        part = _check_size(bytes(body) if method == _RAW else _block(body, size), size, at)
        if xxhash.xxh32_intdigest(part, _SEED) & _CHECK_BITS != check:
            raise MalformedError("an LZ4 block whose checksum is another", offset=at, field=LZ4)
        parts.append(part)
        at += _JAVA.size + packed


def _encode_block(data: memoryview) -> bytes:
    return bytes(imagecodecs.lz4_encode(bytes(data)))


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


_DECODERS: Mapping[str, Callable[[memoryview, int], bytes]] = {
    Framing.FRAME: _decode_frame,
    Framing.BLOCK: _block,
    Framing.JAVA: _decode_java,
}
_ENCODERS: Mapping[str, Callable[[memoryview], bytes]] = {
    Framing.FRAME: lambda data: _SIZE.pack(len(data)) + _encode_block(data),
    Framing.BLOCK: _encode_block,
    Framing.JAVA: _encode_java,
}


# Compressions

type Octets = NDArray[np.uint8]
type Options = Mapping[str, Any]

_BLOSC_HEADER = 16
_BLOSC_SIZE = slice(4, 8)
_BLOSC_STORED = slice(12, 16)
_GZIP_WBITS, _ZLIB_WBITS = 31, 15


def inflate(compressor: Codec, data: memoryview, size: int) -> Octets:
    """Return exactly `size` bytes; data that are damaged, or of any other length, are an error."""
    decoder = _INFLATE.get(compressor.name)
    if decoder is None:
        raise UnsupportedError(f"no decoder; {', '.join(_INFLATE)} are known", field=compressor.name)
    try:
        decoded = decoder(compressor, data, size)
    except (RuntimeError, ValueError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        # imagecodecs' errors are RuntimeErrors, bz2's OSErrors
        raise MalformedError(f"damaged, or longer than {size} bytes: {error}", field=compressor.name) from error
    if len(decoded) != size:
        raise MalformedError(f"{len(decoded)} bytes where {size} are expected", field=compressor.name)
    return decoded if isinstance(decoded, np.ndarray) else np.frombuffer(decoded, np.uint8)


def _blosc(data: memoryview, size: int) -> Octets:
    if len(data) < _BLOSC_HEADER:
        raise MalformedError(f"{len(data)} bytes, too few for blosc's header", field=BLOSC)
    said, stored = (int.from_bytes(data[place], "little") for place in (_BLOSC_SIZE, _BLOSC_STORED))
    # blosc is not told how long its data are and reads on
    if (said, stored) != (size, len(data)):
        message = f"blosc says {said} bytes of {stored} stored, where {size} are expected of {len(data)}"
        raise MalformedError(message, field=BLOSC)
    return _into(partial(imagecodecs.blosc_decode, numthreads=1), data, size)


def _into(decoder: Callable[..., Any], data: memoryview, size: int) -> Octets:
    """Return what a decoder writes into an array of `size` bytes: no copy, and no more than fits."""
    decoded: Octets = decoder(data, out=np.empty(size, np.uint8))
    return decoded


def _members(new: Callable[[], Any], data: memoryview, size: int) -> bytes:
    """Return what all members (streams) hold together, one byte more than `size` at most."""
    parts: list[bytes] = []
    left, rest = size, bytes(data)
    while rest:
        member = new()
        part = member.decompress(rest, left + 1)
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise MalformedError(f"longer than {size} bytes")
        if not member.eof:
            raise MalformedError(f"cut off after {size - left} of {size} bytes")
        rest = member.unused_data
    return b"".join(parts)


def _zlib(data: memoryview, size: int) -> bytes | Octets:
    """Return what a stream holds: by libdeflate, twice as fast, where it is one stream of the very size.

    The stream says where it ends and is checked by its own sum; what stands behind it is nobody's, as in TIFF.
    """
    try:
        decoded = _into(imagecodecs.deflate_decode, data, size)
    except RuntimeError:
        decoded = None
    if decoded is not None and len(decoded) == size:
        return decoded
    return _members(lambda: zlib.decompressobj(_ZLIB_WBITS), data, size)


_INFLATE: Mapping[str, Callable[[Codec, memoryview, int], bytes | Octets]] = {
    GZIP: lambda _, data, size: _members(lambda: zlib.decompressobj(_GZIP_WBITS), data, size),
    ZLIB: lambda _, data, size: _zlib(data, size),
    BZ2: lambda _, data, size: _members(bz2.BZ2Decompressor, data, size),
    LZMA: lambda _, data, size: _members(lzma.LZMADecompressor, data, size),
    ZSTD: lambda _, data, size: _into(imagecodecs.zstd_decode, data, size),
    BLOSC: lambda _, data, size: _blosc(data, size),
    LZ4: lambda compressor, data, size: (
        decode(compressor, data, size)
        if isinstance(compressor, Lz4Config)
        else _DECODERS[compressor.configuration["framing"]](data, size)
    ),
}


def deflate(compressor: Codec, data: bytes) -> bytes:
    """Return the data compressed as the entry of a codec says."""
    encoder = _DEFLATE.get(compressor.name)
    if encoder is None:
        raise UnsupportedError(f"no encoder; {', '.join(_DEFLATE)} are known", field=compressor.name)
    try:
        return encoder(compressor.configuration, data)
    except (RuntimeError, TypeError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise MalformedError(f"cannot be written so: {error}", field=compressor.name) from error


_DEFLATE: Mapping[str, Callable[[Options, bytes], bytes]] = {
    # no time in the header: the same chunk is the same bytes
    GZIP: lambda options, data: gzip.compress(data, options.get("level", 6), mtime=0),
    ZLIB: lambda options, data: zlib.compress(data, options.get("level", -1)),
    BZ2: lambda options, data: bz2.compress(data, options.get("level", 9)),
    LZMA: lambda options, data: lzma.compress(data, preset=options.get("preset")),
    ZSTD: lambda options, data: bytes(imagecodecs.zstd_encode(data, level=options.get("level", 0))),
    BLOSC: lambda options, data: bytes(
        imagecodecs.blosc_encode(
            data,
            level=options.get("clevel", 5),
            compressor=options.get("cname", "lz4"),
            shuffle=SHUFFLES.index(options.get("shuffle", "noshuffle")),
            typesize=options.get("typesize", 1),
            blocksize=options.get("blocksize") or None,
            numthreads=1,
        )
    ),
    LZ4: lambda options, data: _ENCODERS[options["framing"]](memoryview(data)),
}


# Blocks

OVERSIZE = 16
"""How many times a chunk's size a block may declare: Java accepts blocks that reach beyond their place."""

SMALLEST_LIMIT = 1 << 20
"""Bytes that any block may declare, however small the chunk."""

_HALF = 2
"""Bytes of float16, which N5 has not."""


@dataclass(frozen=True)
class BlockCoder:
    """Blocks of one array: chunks of one shape and type."""

    config: N5DefaultConfig
    shape: tuple[int, ...]
    """Of a chunk, x first."""

    dtype: np.dtype[Any]
    fill_value: Any
    c_order: bool = False
    """Whether chunks are decoded with their axes as they lie in the block, x last."""

    def __post_init__(self) -> None:
        """Refuse arrays that N5 has not."""
        if len(self.shape) != self.config.axes:
            raise MalformedError(f"{self.config.axes} axes for chunks of {self.shape}", field=N5_DEFAULT)
        if self.dtype.kind not in "iuf" or (self.dtype.itemsize == _HALF and self.dtype.kind == "f"):
            raise UnsupportedError(f"data type {self.dtype}; N5 has integers and floats of 32 and 64 bits")
        if self.dtype.itemsize > 1 and self.config.endian is None:
            raise MalformedError("bytes without endian, where elements have several bytes", field=N5_DEFAULT)

    def decode(
        self, data: bytes | memoryview, rest: Callable[[], tuple[int, ...] | None] = lambda: None
    ) -> NDArray[Any]:
        """Return a chunk: the block's elements in their place, cut and filled up to the chunk's shape.

        `rest` tells how much of the array there is from the chunk's first element on, x first; it is
        asked for blocks of another shape only, and None is what is not known.
        """
        view = memoryview(data)
        header = block_header(view, len(self.shape))
        size = header.elements * self.dtype.itemsize
        limit = max(OVERSIZE * math.prod(self.shape) * self.dtype.itemsize, SMALLEST_LIMIT)
        if size > limit:
            raise MalformedError(
                f"a block of {header.dimensions} in chunks of {self.shape}; {limit} bytes are decoded at most",
                offset=4,
                field="dimensions",
            )
        if header.dimensions != self.shape and not self.config.odd_blocks:
            check_place(header.dimensions, self.shape, rest())
        body, compressor = view[header.nbytes :], self.config.compressor
        if compressor is not None:
            octets = inflate(compressor, body, size)
        elif len(body) == size:
            octets = np.frombuffer(body, np.uint8)
        else:
            raise MalformedError(f"{len(body)} bytes of elements where the header says {size}", field="block")
        # bytes are swapped when zarr copies the elements to where they go, which costs less than a pass of its own
        elements = octets.view(self.dtype.newbyteorder(">")).reshape(header.dimensions[::-1])
        shape = self.shape[::-1]
        if elements.shape != shape:
            chunk = np.full(shape, self.fill_value, self.dtype)
            common = tuple(slice(min(sizes)) for sizes in zip(elements.shape, shape, strict=True))
            chunk[common] = elements[common]
            elements = chunk
        return elements if self.c_order else elements.T

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """Return a chunk as a block in default mode, of the chunk's shape."""
        elements = chunk.T.astype(self.dtype.newbyteorder(">"), order="C").tobytes()
        body = elements if self.config.compressor is None else deflate(self.config.compressor, elements)
        return default_header(chunk.shape) + body
