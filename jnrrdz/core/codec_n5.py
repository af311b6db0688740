"""The codecs of N5 blocks: names and configurations, spelt once.

May touch errors and the model's codec entries only.  Names follow docs/codecs/ and the Zarr extension
registry (https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from jnrrdz.core.codec import BYTES, CodecSpec, bytes_

N5_DEFAULT = "n5_default"
TRANSPOSE = "transpose"
LZ4 = "jnrrdz.lz4"
SQUEEZE = "jnrrdz.squeeze"
GZIP = "gzip"
ZLIB = "numcodecs.zlib"
BZ2 = "numcodecs.bz2"
LZMA = "numcodecs.lzma"
ZSTD = "zstd"
BLOSC = "blosc"

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
CNAMES = ("lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd")


class Framing(StrEnum):
    """What stands around LZ4 blocks."""

    FRAME = "frame"
    """The decoded size, 32 bits little-endian, then one LZ4 block: numcodecs, and zarr 2's N5Store."""

    BLOCK = "block"
    """One bare LZ4 block: z5."""

    JAVA = "java"
    """Blocks with `LZ4Block` headers and checksums, and an empty one at the end: Java's LZ4BlockOutputStream."""


@dataclass(frozen=True)
class BlockOrder:
    """How the bytes of a block lie beside the array's axes."""

    axes: int

    @property
    def reversed(self) -> CodecSpec:
        """Zarr's `transpose` that reverses all axes: N5's first axis is the one that runs fastest."""
        return CodecSpec(TRANSPOSE, {"order": list(range(self.axes))[::-1]})


def big_endian(itemsize: int) -> CodecSpec:
    """Return the `bytes` codec of N5 data."""
    return bytes_("big" if itemsize > 1 else None)


def n5_default(axes: int, itemsize: int, compressors: Sequence[CodecSpec]) -> CodecSpec:
    """Return the codec that reads a block with its header, axes in N5's order."""
    inner = [BlockOrder(axes).reversed, big_endian(itemsize), *compressors]
    return CodecSpec(N5_DEFAULT, {"codecs": [spec.to_json() for spec in inner]})


def lz4(framing: Framing) -> CodecSpec:
    """Return the codec of LZ4 in one of its three framings."""
    return CodecSpec(LZ4, {"framing": framing.value})


def squeeze() -> CodecSpec:
    """Return the codec that drops the first axis of chunks, of which they hold one place."""
    return CodecSpec(SQUEEZE)


__all__ = [
    "BLOSC",
    "BYTES",
    "BZ2",
    "CNAMES",
    "GZIP",
    "LZ4",
    "LZMA",
    "N5_DEFAULT",
    "SHUFFLES",
    "SQUEEZE",
    "TRANSPOSE",
    "ZLIB",
    "ZSTD",
    "BlockOrder",
    "Framing",
    "big_endian",
    "lz4",
    "n5_default",
    "squeeze",
]
