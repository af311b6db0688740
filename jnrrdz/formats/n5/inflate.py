"""Compressed bytes of a known length, decoded without ever holding more: the compressions of N5.

May touch errors, numpy, imagecodecs, the standard library's decompressors and the model's codec names; knows
no zarr.  Formats: RFC 1950, 1951, 1952 (zlib, deflate, gzip), RFC 8878 (zstd), blosc 1, bzip2, xz.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codec_n5
from jnrrdz.core.codec import CodecSpec
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.n5 import lz4
from jnrrdz.formats.n5.lz4 import Lz4Config

type Octets = NDArray[np.uint8]

_BLOSC_HEADER = 16
_BLOSC_SIZE = slice(4, 8)
_BLOSC_STORED = slice(12, 16)
_GZIP_WBITS, _ZLIB_WBITS = 31, 15


def inflate(compressor: CodecSpec, data: memoryview, size: int) -> Octets:
    """Return exactly `size` bytes; data that are damaged, or of any other length, are an error."""
    decoder = _DECODERS.get(compressor.name)
    if decoder is None:
        raise UnsupportedError(f"no decoder; {', '.join(_DECODERS)} are known", field=compressor.name)
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
    return lz4.decode(Lz4Config.from_json(configuration), data, size)


_DECODERS: Mapping[str, Callable[[Mapping[str, Any], memoryview, int], bytes | Octets]] = {
    codec_n5.GZIP: _gzip,
    codec_n5.ZLIB: _zlib,
    codec_n5.BZ2: _bz2,
    codec_n5.LZMA: _lzma,
    codec_n5.ZSTD: _zstd,
    codec_n5.BLOSC: _blosc,
    codec_n5.LZ4: _lz4,
}
KNOWN = tuple(_DECODERS)
