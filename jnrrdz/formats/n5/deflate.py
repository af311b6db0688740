"""Bytes compressed as N5 has it: the inverse of `inflate`.

May touch errors, imagecodecs, the standard library's compressors and the model's codec names; knows no zarr.
Formats as in `inflate`.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import imagecodecs

from jnrrdz.core import codec_n5
from jnrrdz.core.codec import CodecSpec
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.n5 import lz4
from jnrrdz.formats.n5.lz4 import Lz4Config

type Options = Mapping[str, Any]


def deflate(compressor: CodecSpec, data: bytes) -> bytes:
    """Return the data compressed as the entry of a codec says."""
    encoder = _ENCODERS.get(compressor.name)
    if encoder is None:
        raise UnsupportedError(f"no encoder; {', '.join(_ENCODERS)} are known", field=compressor.name)
    try:
        return encoder(compressor.configuration, data)
    except (RuntimeError, TypeError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise MalformedError(f"cannot be written so: {error}", field=compressor.name) from error


def _blosc(options: Options, data: bytes) -> bytes:
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


_ENCODERS: Mapping[str, Callable[[Options, bytes], bytes]] = {
    # no time in the header: the same chunk is the same bytes
    codec_n5.GZIP: lambda options, data: gzip.compress(data, options.get("level", 6), mtime=0),
    codec_n5.ZLIB: lambda options, data: zlib.compress(data, options.get("level", -1)),
    codec_n5.BZ2: lambda options, data: bz2.compress(data, options.get("level", 9)),
    codec_n5.LZMA: lambda options, data: lzma.compress(data, preset=options.get("preset")),
    codec_n5.ZSTD: lambda options, data: bytes(imagecodecs.zstd_encode(data, level=options.get("level", 0))),
    codec_n5.BLOSC: _blosc,
    codec_n5.LZ4: lambda options, data: lz4.encode(Lz4Config.from_json(options), memoryview(data)),
}
