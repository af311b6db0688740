"""The `jnrrdz.lz4` codec, bytes to bytes: LZ4 in the three framings that N5 writers use.

May touch errors, imagecodecs' block decoder, xxhash and the model's codec names; knows no zarr.
Follows docs/codecs/jnrrdz.lz4/README.md.  LZ4 blocks do not say how long they get: whoever knows (the
header of an N5 block, the chunk's shape) gives the size, and more than that is never decoded.

Compressed bytes of a known length, decoded without ever holding more: the compressions of N5.

May touch errors, numpy, imagecodecs, the standard library's decompressors and the model's codec names; knows
no zarr.  Formats: RFC 1950, 1951, 1952 (zlib, deflate, gzip), RFC 8878 (zstd), blosc 1, bzip2, xz.

Bytes compressed as N5 has it: the inverse of `inflate`.

May touch errors, imagecodecs, the standard library's compressors and the model's codec names; knows no zarr.
Formats as in `inflate`.

The `n5_default` codec, array to bytes: an N5 block with its header, axes in N5's order.

May touch errors, numpy, the layout of block headers, `inflate`, `deflate` and the model's codec names; knows
no zarr.  Follows https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default, and reads
blocks of variable length (mode 1) too where they have an element for each place.
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

from jnrrdz.core import codecs as codec_n5
from jnrrdz.core.codecs import LZ4, N5_DEFAULT, Codec, Framing, Lz4Config, N5DefaultConfig
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.n5.attributes import BlockHeader, block_header, default_header

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


_DECODERS: Mapping[str, Callable[[memoryview, int], bytes]] = {
    Framing.FRAME: _decode_frame,
    Framing.BLOCK: _block,
    Framing.JAVA: _decode_java,
}
_ENCODERS: Mapping[str, Callable[[memoryview], bytes]] = {
    Framing.FRAME: _encode_frame,
    Framing.BLOCK: _encode_block,
    Framing.JAVA: _encode_java,
}


type Octets = NDArray[np.uint8]

_BLOSC_HEADER = 16
_BLOSC_SIZE = slice(4, 8)
_BLOSC_STORED = slice(12, 16)
_GZIP_WBITS, _ZLIB_WBITS = 31, 15


def inflate(compressor: Codec, data: memoryview, size: int) -> Octets:
    """Return exactly `size` bytes; data that are damaged, or of any other length, are an error."""
    decoder = _INFLATE_DECODERS.get(compressor.name)
    if decoder is None:
        raise UnsupportedError(f"no decoder; {', '.join(_INFLATE_DECODERS)} are known", field=compressor.name)
    try:
        found = decoder(compressor.configuration, data, size)
    except (RuntimeError, ValueError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        # imagecodecs' errors are RuntimeErrors, bz2's OSErrors
        raise MalformedError(f"damaged, or longer than {size} bytes: {error}", field=compressor.name) from error
    if len(found) != size:
        raise MalformedError(f"{len(found)} bytes where {size} are expected", field=compressor.name)
    return found if isinstance(found, np.ndarray) else np.frombuffer(found, np.uint8)


def _zstd(_: Mapping[str, Any], data: memoryview, size: int) -> Octets:
    return _into(imagecodecs.zstd_decode, data, size)


def _blosc(_: Mapping[str, Any], data: memoryview, size: int) -> Octets:
    if len(data) < _BLOSC_HEADER:
        raise MalformedError(f"{len(data)} bytes, too few for blosc's header", field=codec_n5.BLOSC)
    said, stored = (int.from_bytes(data[place], "little") for place in (_BLOSC_SIZE, _BLOSC_STORED))
    # blosc is not told how long its data are and reads on
    if (said, stored) != (size, len(data)):
        raise MalformedError(
            f"blosc says {said} bytes of {stored} stored, where {size} are expected of {len(data)}",
            field=codec_n5.BLOSC,
        )
    return _into(partial(imagecodecs.blosc_decode, numthreads=1), data, size)


def _into(decoder: Callable[..., Any], data: memoryview, size: int) -> Octets:
    """Return what a decoder writes into an array of `size` bytes: no copy, and no more than fits."""
    found: Octets = decoder(data, out=np.empty(size, np.uint8))
    return found


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


def _gzip(_: Mapping[str, Any], data: memoryview, size: int) -> bytes:
    return _members(lambda: zlib.decompressobj(_GZIP_WBITS), data, size)


def _zlib(_: Mapping[str, Any], data: memoryview, size: int) -> bytes:
    return _members(lambda: zlib.decompressobj(_ZLIB_WBITS), data, size)


def _bz2(_: Mapping[str, Any], data: memoryview, size: int) -> bytes:
    return _members(bz2.BZ2Decompressor, data, size)


def _lzma(_: Mapping[str, Any], data: memoryview, size: int) -> bytes:
    return _members(lzma.LZMADecompressor, data, size)


def _lz4(configuration: Mapping[str, Any], data: memoryview, size: int) -> bytes:
    return _DECODERS[configuration["framing"]](data, size)


_INFLATE_DECODERS: Mapping[str, Callable[[Mapping[str, Any], memoryview, int], bytes | Octets]] = {
    codec_n5.GZIP: _gzip,
    codec_n5.ZLIB: _zlib,
    codec_n5.BZ2: _bz2,
    codec_n5.LZMA: _lzma,
    codec_n5.ZSTD: _zstd,
    codec_n5.BLOSC: _blosc,
    codec_n5.LZ4: _lz4,
}


type Options = Mapping[str, Any]


def deflate(compressor: Codec, data: bytes) -> bytes:
    """Return the data compressed as the entry of a codec says."""
    encoder = _DEFLATE_ENCODERS.get(compressor.name)
    if encoder is None:
        raise UnsupportedError(f"no encoder; {', '.join(_DEFLATE_ENCODERS)} are known", field=compressor.name)
    try:
        return encoder(compressor.configuration, data)
    except (RuntimeError, TypeError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise MalformedError(f"cannot be written so: {error}", field=compressor.name) from error


def _deflate_blosc(options: Options, data: bytes) -> bytes:
    shuffle = codec_n5.SHUFFLES.index(options.get("shuffle", "noshuffle"))
    return bytes(
        imagecodecs.blosc_encode(
            data,
            level=options.get("clevel", 5),
            compressor=options.get("cname", "lz4"),
            shuffle=shuffle,
            typesize=options.get("typesize", 1),
            blocksize=options.get("blocksize") or None,
            numthreads=1,
        )
    )


_DEFLATE_ENCODERS: Mapping[str, Callable[[Options, bytes], bytes]] = {
    # no time in the header: the same chunk is the same bytes
    codec_n5.GZIP: lambda options, data: gzip.compress(data, options.get("level", 6), mtime=0),
    codec_n5.ZLIB: lambda options, data: zlib.compress(data, options.get("level", -1)),
    codec_n5.BZ2: lambda options, data: bz2.compress(data, options.get("level", 9)),
    codec_n5.LZMA: lambda options, data: lzma.compress(data, preset=options.get("preset")),
    codec_n5.ZSTD: lambda options, data: bytes(imagecodecs.zstd_encode(data, level=options.get("level", 0))),
    codec_n5.BLOSC: _deflate_blosc,
    codec_n5.LZ4: lambda options, data: _ENCODERS[options["framing"]](memoryview(data)),
}


OVERSIZE = 16
"""How many times a chunk's size a block may declare: Java accepts blocks that reach beyond their place."""

SMALLEST_LIMIT = 1 << 20
"""Bytes that any block may declare, however small the chunk."""

_INNER = 2
"""Codecs that have to be there: `transpose` and `bytes`."""


@dataclass(frozen=True)
class BlockCoder:
    """Blocks of one array: chunks of one shape and type."""

    config: N5DefaultConfig
    shape: tuple[int, ...]
    """Of a chunk, x first."""

    dtype: np.dtype[Any]
    fill_value: Any

    def __post_init__(self) -> None:
        """Refuse arrays that N5 has not."""
        if len(self.shape) != self.config.axes:
            raise MalformedError(f"{self.config.axes} axes for chunks of {self.shape}", field=N5_DEFAULT)
        if self.dtype.kind not in "iuf" or (self.dtype.itemsize == _INNER and self.dtype.kind == "f"):
            raise UnsupportedError(f"data type {self.dtype}; N5 has integers and floats of 32 and 64 bits")
        if self.dtype.itemsize > 1 and self.config.endian is None:
            raise MalformedError("bytes without endian, where elements have several bytes", field=N5_DEFAULT)

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return a chunk: the block's elements in their place, cut and filled up to the chunk's shape."""
        return self.in_c_order(data).T

    def in_c_order(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the same with its axes as they lie in the block, x last."""
        view = memoryview(data)
        header = block_header(view, len(self.shape))
        elements = self._elements(header, view[header.nbytes :]).reshape(header.dimensions[::-1])
        shape = self.shape[::-1]
        if elements.shape != shape:
            elements = self._fitted(elements, shape)
        return elements

    def _elements(self, header: BlockHeader, body: memoryview) -> NDArray[Any]:
        """Return the elements in a row, big-endian as they are stored."""
        size = header.elements * self.dtype.itemsize
        limit = max(OVERSIZE * math.prod(self.shape) * self.dtype.itemsize, SMALLEST_LIMIT)
        if size > limit:
            raise MalformedError(
                f"a block of {header.dimensions} in chunks of {self.shape}; {limit} bytes are decoded at most",
                offset=4,
                field="dimensions",
            )
        if self.config.compressor is None:
            octets = self._raw(body, size)
        else:
            octets = inflate(self.config.compressor, body, size)
        # bytes are swapped when zarr copies the elements to where they go, which costs less than a pass of its own
        return octets.view(self.dtype.newbyteorder(">"))

    def _raw(self, body: memoryview, size: int) -> NDArray[np.uint8]:
        if len(body) != size:
            raise MalformedError(f"{len(body)} bytes of elements where the header says {size}", field="block")
        return np.frombuffer(body, np.uint8)

    def _fitted(self, elements: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return elements of another shape in a chunk's, the fill value where they have none."""
        chunk = np.full(shape, self.fill_value, self.dtype)
        common = tuple(slice(min(sizes)) for sizes in zip(elements.shape, shape, strict=True))
        chunk[common] = elements[common]
        return chunk

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """Return a chunk as a block in default mode, of the chunk's shape."""
        elements = chunk.T.astype(self.dtype.newbyteorder(">"), order="C").tobytes()
        body = elements if self.config.compressor is None else deflate(self.config.compressor, elements)
        return default_header(chunk.shape) + body


@dataclass(frozen=True)
class COrderCoder:
    """Chunks with their axes as they lie in the blocks, x last."""

    coder: BlockCoder

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return a chunk."""
        return self.coder.in_c_order(data)
