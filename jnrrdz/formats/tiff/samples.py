"""Samples of TIFF tiles: bytes without their compression, predicted floats, integers of 24 bits."""

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from numpy.typing import NDArray

from jnrrdz.formats.tiff.schemes import SCHEMES, Compression, Kind

DECODERS: dict[int, Callable[..., bytes | bytearray | memoryview]] = {
    number: getattr(imagecodecs, f"{scheme.decoder.lower()}_decode")
    for number, scheme in SCHEMES.items()
    if scheme.kind is Kind.STREAM and scheme.decoder != "NONE"
}


SURPLUS = 1 << 16


def unpacked(
    scheme: int, data: bytes | memoryview, room: NDArray[np.uint8]
) -> bytes | bytearray | memoryview | NDArray[np.uint8]:
    """Return the first bytes that a stream becomes, as many as there is room for or fewer.

    As in libtiff, what a stream has beyond a segment is left out.
    """
    if scheme == Compression.NONE:
        return memoryview(data)[: len(room)]
    try:
        return DECODERS[scheme](data, out=room)
    except DECODER_ERRORS:
        longer: bytes | bytearray | memoryview | None = None
        if SCHEMES[scheme].decoder == "DEFLATE":
            longer = _inflated(data, len(room) + 1)
        elif SCHEMES[scheme].needs_room:
            with suppress(*DECODER_ERRORS):
                longer = DECODERS[scheme](data, out=2 * len(room) + SURPLUS)
        if longer is None or len(longer) <= len(room):
            raise
        return memoryview(bytearray(longer))[: len(room)]


def _inflated(data: bytes | memoryview, most: int) -> bytes | None:
    """Return the first bytes that a zlib stream becomes, None if it is damaged before."""
    try:
        return zlib.decompressobj().decompress(data, most)
    except zlib.error:
        return None


OCTETS = {size: np.dtype([(f"byte{number}", np.uint8) for number in range(size)]) for size in (2, 4, 8)}
"""Floats as their bytes, the lowest first."""


def float_planes(differences: NDArray[np.uint8], size: int) -> list[NDArray[np.uint8]]:
    """Return the bytes of predicted floats, the lowest first; changes what it is given.

    A row has the first byte of all its floats, the one with the sign, then all second ones, and of all these the
    differences (Adobe's TIFF Technical Note 3).  imagecodecs' own function gives the same in three times the time: it
    works byte by byte.  `differences` are (row, byte and column, sample), the result's planes (row, column, sample).
    """
    rows, octets, samples = differences.shape
    imagecodecs.delta_decode(differences, axis=1, out=differences)
    planes = differences.reshape(rows, size, octets // size, samples)
    return [planes[:, number] for number in range(size)][::-1]


def without_float_predictor(differences: NDArray[np.uint8], size: int) -> NDArray[Any]:
    """Return the (row, column, sample) floats of so many bytes that are predicted."""
    planes = float_planes(differences, size)
    if size == INT24 // 8:
        octets = np.stack(planes, axis=-1)
        floats: NDArray[Any] = imagecodecs.float24_decode(octets.tobytes(), byteorder="<")
        return floats.reshape(planes[0].shape)
    floats = np.empty(planes[0].shape, f"<f{size}")
    fields = floats.view(OCTETS[size])
    for name, plane in zip(fields.dtype.names or (), planes, strict=True):
        fields[name] = plane
    return floats


def integers_of_24_bits(octets: NDArray[np.uint8], byte_order: str, kind: str) -> NDArray[Any]:
    """Return the integers ("i" or "u") that the three bytes along the last axis are.

    As libtiff and GDAL have it, the highest byte comes first in little-endian files, where
    bits are packed, and last in big-endian ones, where libtiff swaps them.
    """
    padded = np.zeros((*octets.shape[:-1], 4), np.uint8)
    padded[..., :3] = octets if byte_order == "little" else octets[..., ::-1]
    return padded.view(f">{kind}4")[..., 0].astype(f"{kind}4") >> 8


INT24 = 24

DECODER_ERRORS = (
    ValueError,
    TypeError,
    RuntimeError,  # every error of imagecodecs' decoders
    NotImplementedError,
    OverflowError,
    struct.error,
    IndexError,
    KeyError,
    MemoryError,
    tifffile.TiffFileError,
)
"""What the libraries raise at bytes that they cannot decode."""
