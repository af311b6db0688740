"""How many bytes a tile or strip becomes under a scheme that compresses bytes, whatever they mean.

May touch imagecodecs, the layout tables and the model.
"""

from collections.abc import Callable

import imagecodecs

from jnrrdz.core.codec import TiffTileConfig
from jnrrdz.formats.tiff.tags import Compression

REVERSED = 2
DECODERS: dict[int, Callable[..., bytes | bytearray | memoryview]] = {
    Compression.LZW: imagecodecs.lzw_decode,
    Compression.DEFLATE: imagecodecs.zlib_decode,
    Compression.DEFLATE_OLD: imagecodecs.zlib_decode,
    Compression.PIXTIFF: imagecodecs.zlib_decode,
    Compression.PACKBITS: imagecodecs.packbits_decode,
    Compression.LZMA: imagecodecs.lzma_decode,
    Compression.ZSTD: imagecodecs.zstd_decode,
    Compression.ZSTD_OLD: imagecodecs.zstd_decode,
}


def unpacked_length(data: bytes | memoryview, config: TiffTileConfig, most: int) -> int:
    """Return the length of what the data become, `most` at the most; what the decoder raises goes through."""
    if config.compression == Compression.NONE:
        return len(data)
    stream = imagecodecs.bitorder_decode(bytes(data)) if config.fill_order == REVERSED else data
    return len(DECODERS[config.compression](stream, out=most))
