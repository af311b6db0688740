"""A format as a user's plugin would add one: rows of bytes behind `TOY1`, width and height, 128 bytes into a file."""

import re
import struct

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.formats.format import DecoderState, Format

HEAD = struct.Struct("<4sII")

TOY = Format(
    "Toy",
    scan=f"{__name__}:scan_toy",
    magic=re.compile(b"TOY1"),
    magic_start=128,
    magic_length=HEAD.size,
    endings=(".toy",),
    media_types=("image/x-toy",),
    options=("allow_missing",),
    decoders=f"{__name__}:decoders",
)


def scan_toy(read, url, options, neighbours):  # noqa: ARG001  the signature of every scan
    """Return the one array of a file."""
    _, width, height = HEAD.unpack(read(128, 128 + HEAD.size))
    starts = 128 + HEAD.size + width * np.arange(height)
    refs = ChunkRefs(
        (url,), np.arange(height + 1), np.zeros(height, np.int32), starts, np.full(height, width, np.int64)
    )
    codecs = (CodecSpec("bytes", {}),)
    return VirtualGroup(
        {"data": VirtualArray((height, width), np.dtype("u1"), (1, width), codecs, refs, ("y", "x"))}, {"toy": True}
    )


def toy_bytes(pixels):
    """Return a file."""
    height, width = pixels.shape
    return bytes(128) + HEAD.pack(b"TOY1", width, height) + pixels.tobytes()


def decoders():
    """Yield the one way to compress: none."""
    yield DecoderState("none at all", "numpy", None)
