"""Compressors: bytes decoded to a length that is known, never to more, and encoded.

zlib, deflate and gzip (RFC 1950, 1951, 1952), zstd (RFC 8878), blosc 1, bzip2, xz, and LZ4
in the three framings that N5 writers use (docs/codecs/jnrrdz.lz4/README.md).  LZ4 blocks do
not say how long they get: the caller gives the size, from the header of an N5 block or the
chunk's shape.  Records of compressors (`core/codecs.py`) name `decode_NAME` and
`encode_NAME`; N5, NRRD, TIFF and zarr's codec classes use them.

The frames of zstd (RFC 8878, section 3.1) and LZ4
(https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md) are walked where other bytes
may follow them, since their decoders do not say where they end.
"""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import imagecodecs
import numpy as np
import xxhash
from numpy.typing import NDArray

from jnrrdz.core.codec_records import PACKERS
from jnrrdz.core.codec_table import find
from jnrrdz.core.codecs import BLOSC, LZ4, SHUFFLES, Framing
from jnrrdz.core.configuration import SLACK, Codec, CodecRecord, Stage
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import resolved

type Octets = NDArray[np.uint8]
type Options = Mapping[str, Any]

DECODER_ERRORS = (RuntimeError, ValueError, OSError, EOFError, zlib.error, lzma.LZMAError)
"""What the libraries raise at damaged data: imagecodecs RuntimeErrors, bz2 OSErrors."""


# Any compressor


def inflate(compressor: Codec, data: memoryview, size: int) -> Octets:
    """Return exactly `size` bytes; data that are damaged, or of any other length, are an error."""
    record = _record(compressor.name)
    # compared before any room is made
    if record.most_times is not None and size > len(data) * record.most_times + SLACK:
        message = f"{len(data)} bytes cannot become the {size} that are expected"
        raise MalformedError(message, field=compressor.name)
    try:
        decoded: bytes | Octets = resolved(record.decoder or "")(compressor, data, size)
    except DECODER_ERRORS as error:
        raise MalformedError(f"damaged, or longer than {size} bytes: {error}", field=compressor.name) from error
    if len(decoded) != size:
        raise MalformedError(f"{len(decoded)} bytes where {size} are expected", field=compressor.name)
    return decoded if isinstance(decoded, np.ndarray) else np.frombuffer(decoded, np.uint8)


def deflate(compressor: Codec, data: bytes) -> bytes:
    """Return the data compressed as the entry of a codec says."""
    encoder = _record(compressor.name).encoder or ""
    try:
        encoded: bytes = resolved(encoder)(compressor.configuration, data)
    except (TypeError, *DECODER_ERRORS) as error:
        raise MalformedError(f"cannot be written so: {error}", field=compressor.name) from error
    return encoded


@cache
def _record(name: str) -> CodecRecord:
    record = find(name)
    if record is None or record.stage is not Stage.PACKER or record.encoder is None:
        known = ", ".join(each.name for each in PACKERS)
        raise UnsupportedError(f"no compressor; {known} are known", field=name)
    return record


# Decoders

_BLOSC_HEADER = 16
_BLOSC_SIZE = slice(4, 8)
_BLOSC_STORED = slice(12, 16)
_GZIP_WBITS, _ZLIB_WBITS = 31, 15


def decode_blosc(_: Codec, data: memoryview, size: int) -> Octets:
    """Return what blosc data hold."""
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


def members(new: Callable[[], Any], data: memoryview, most: int) -> Iterator[tuple[bytes, int]]:
    """Yield what each member (stream) holds, and how many bytes follow it.

    `new` makes a decompressor.  Together they hold one byte more than `most` at most.
    """
    length, rest = 0, bytes(data)
    while rest:
        member = new()
        part = member.decompress(rest, most - length + 1)
        length += len(part)
        if length > most:
            raise MalformedError(f"longer than {most} bytes")
        if not member.eof:
            raise MalformedError(f"cut off after {length} of {most} bytes")
        rest = member.unused_data
        yield part, len(rest)


def new_gzip() -> Any:
    """Return a decompressor of one member of gzip."""
    return zlib.decompressobj(_GZIP_WBITS)


def _joined(new: Callable[[], Any], data: memoryview, size: int) -> bytes:
    return b"".join([part for part, _ in members(new, data, size)])


def decode_gzip(_: Codec, data: memoryview, size: int) -> bytes:
    """Return what the members of gzip data hold together."""
    return _joined(new_gzip, data, size)


def decode_bz2(_: Codec, data: memoryview, size: int) -> bytes:
    """Return what the streams of bzip2 data hold together."""
    return _joined(bz2.BZ2Decompressor, data, size)


def decode_lzma(_: Codec, data: memoryview, size: int) -> bytes:
    """Return what the streams of xz or LZMA data hold together."""
    return _joined(lzma.LZMADecompressor, data, size)


def decode_zstd(_: Codec, data: memoryview, size: int) -> Octets:
    """Return what zstd frames hold together."""
    return _into(imagecodecs.zstd_decode, data, size)


def decode_zlib(_: Codec, data: memoryview, size: int) -> bytes | Octets:
    """Return what a stream holds: by libdeflate, twice as fast, where it is one stream of the very size.

    The stream says where it ends and is checked by its own sum; what stands behind it is nobody's, as in TIFF.
    """
    try:
        decoded = _into(imagecodecs.deflate_decode, data, size)
    except RuntimeError:
        decoded = None
    if decoded is not None and len(decoded) == size:
        return decoded
    return _joined(lambda: zlib.decompressobj(_ZLIB_WBITS), data, size)


# Encoders


def encode_gzip(options: Options, data: bytes) -> bytes:
    """Return a member of gzip without a time: the same chunk becomes the same bytes."""
    return gzip.compress(data, options.get("level", 6), mtime=0)


def encode_zlib(options: Options, data: bytes) -> bytes:
    """Return a zlib stream."""
    return zlib.compress(data, options.get("level", -1))


def encode_bz2(options: Options, data: bytes) -> bytes:
    """Return a stream of bzip2."""
    return bz2.compress(data, options.get("level", 9))


def encode_lzma(options: Options, data: bytes) -> bytes:
    """Return a stream of xz."""
    return lzma.compress(data, preset=options.get("preset"))


def encode_zstd(options: Options, data: bytes) -> bytes:
    """Return a frame of zstd."""
    return bytes(imagecodecs.zstd_encode(data, level=options.get("level", 0)))


def encode_blosc(options: Options, data: bytes) -> bytes:
    """Return blosc data."""
    encoded = imagecodecs.blosc_encode(
        data,
        level=options.get("clevel", 5),
        compressor=options.get("cname", "lz4"),
        shuffle=SHUFFLES.index(options.get("shuffle", "noshuffle")),
        typesize=options.get("typesize", 1),
        blocksize=options.get("blocksize") or None,
        numthreads=1,
    )
    return bytes(encoded)


# LZ4

MAGIC = b"LZ4Block"
_JAVA = struct.Struct("<8sBIII")
"""Magic, token, compressed length, decoded length, checksum."""

_SIZE = struct.Struct("<I")
_RAW, _COMPRESSED = 0x10, 0x20
_SEED, _CHECK_BITS = 0x9747B28C, 0x0FFFFFFF
_LEVEL_BASE = 10
BLOCK_SIZE = 1 << 16
"""Java's default; the token says it as a power of two."""


def decode_lz4(compressor: Codec, data: memoryview, limit: int) -> bytes:
    """Return the bytes of LZ4 data in a framing, of which there may be `limit`."""
    return _DECODERS[compressor.configuration["framing"]](data, limit)


def encode_lz4(options: Options, data: bytes | memoryview) -> bytes:
    """Return the data as LZ4 in a framing."""
    return _ENCODERS[options["framing"]](memoryview(data))


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


# Frames, where other bytes may follow them

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
_SKIPPABLE = b"\x2a\x4d\x18"
_ZSTD_RLE, _ZSTD_RESERVED = 1, 3
_LZ4_UNCOMPRESSED = 0x80000000

type FrameEnd = Callable[[memoryview, int], int | None]
"""Gives the offset behind the frame that begins at an offset; None where none begins there."""


def _skippable(data: memoryview, start: int) -> int | None:
    head = bytes(data[start : start + 8])
    if len(head) < len("magicsiz") or head[1:4] != _SKIPPABLE or head[0] & 0xF0 != 0x50:  # noqa: PLR2004  0x184D2A5x
        return None
    return start + 8 + int.from_bytes(head[4:], "little")


def zstd_end(data: memoryview, start: int) -> int | None:
    """Return the offset behind a zstd frame."""
    if data[start : start + 4] != ZSTD_MAGIC:
        return _skippable(data, start)
    descriptor = _number(data, start + 4, 1)
    single = bool(descriptor & 0x20)
    content = (int(single), 2, 4, 8)[descriptor >> 6]
    at = start + 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + content
    last = False
    while not last:
        header = _number(data, at, 3)
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _ZSTD_RESERVED:
            raise MalformedError("a reserved kind of block", offset=at, field="zstd")
        at += 3 + (1 if kind == _ZSTD_RLE else size)
    return _inside(data, at + (4 if descriptor & 4 else 0), "zstd")


def lz4_end(data: memoryview, start: int) -> int | None:
    """Return the offset behind an LZ4 frame."""
    if data[start : start + 4] != LZ4_MAGIC:
        return _skippable(data, start)
    flags = _number(data, start + 4, 1)
    at = start + 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    while True:
        size = _number(data, at, 4)
        at += 4
        if not size:
            return _inside(data, at + (4 if flags & 0x04 else 0), "lz4")
        at += (size & ~_LZ4_UNCOMPRESSED) + (4 if flags & 0x10 else 0)


def _number(data: memoryview, at: int, nbytes: int) -> int:
    if at + nbytes > len(data):
        raise MalformedError(f"cut off at byte {len(data)}", field="frame")
    return int.from_bytes(data[at : at + nbytes], "little")


def _inside(data: memoryview, at: int, field: str) -> int:
    if at > len(data):
        raise MalformedError(f"cut off: {len(data)} of {at} bytes", field=field)
    return at


ENDS: Mapping[str, FrameEnd] = {"zstd": zstd_end, "lz4": lz4_end}


def frames(compression: str, data: memoryview, most: int) -> Iterator[tuple[Octets, int]]:
    """Yield what all frames make that stand one after another."""
    start, room = 0, np.empty(most + 1, np.uint8)
    length = 0
    while start < len(data):
        end = ENDS[compression](data, start)
        if end is None or end > len(data):
            return
        if bytes(data[start : start + 4]) in _MAGIC:  # other frames have no elements
            # one byte more than is allowed: LZ4's decoder stops without a word where its room ends
            length += len(_DECODE[compression](data[start:end], out=room[length:]))
        if length > most:
            raise MalformedError(f"longer than {most} bytes")
        yield room[:length], len(data) - end
        start = end


_MAGIC = {ZSTD_MAGIC, LZ4_MAGIC}
_DECODE: Mapping[str, Callable[..., Any]] = {"zstd": imagecodecs.zstd_decode, "lz4": imagecodecs.lz4f_decode}
