"""Colours of JPEG and WebP as planes, without paying for the order of their samples.

May touch numpy and imagecodecs.  Zarr wants (band, y, x), the formats give pixel by pixel, and
gathering every third byte costs a third of a JPEG's decoding.  Decoded with a fourth, unused byte a
pixel, a plane is a cast of 32-bit words to their lowest byte, which costs a quarter of that.
"""

from collections.abc import Callable
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

WORD = 4
COLOURS = 3


def jpeg_planes(
    data: bytes | memoryview, height: int, width: int, *, tables: bytes | None, stored_as_rgb: bool
) -> NDArray[np.uint8]:
    """Return red, green and blue of a JPEG of exactly this size; what the decoder raises goes through."""
    colorspace: dict[str, Any] = {"colorspace": "RGB"} if stored_as_rgb else {}

    def decode(words: NDArray[np.uint8]) -> None:
        imagecodecs.jpeg8_decode(data, tables=tables, outcolorspace="RGBX", out=words, **colorspace)

    return _planes(decode, height, width)


def webp_planes(data: bytes | memoryview, height: int, width: int) -> NDArray[np.uint8]:
    """Return red, green and blue of a WebP of exactly this size; what the decoder raises goes through."""

    def decode(words: NDArray[np.uint8]) -> None:
        imagecodecs.webp_decode(data, hasalpha=True, out=words)

    return _planes(decode, height, width)


def _planes(decode: Callable[[NDArray[np.uint8]], None], height: int, width: int) -> NDArray[np.uint8]:
    pixels = height * width
    room = np.empty(pixels * WORD + WORD, np.uint8)  # a word more, for the planes that begin inside of one
    decode(room[: pixels * WORD].reshape(height, width, WORD))
    planes = np.empty((COLOURS, pixels), np.uint8)
    for band in range(COLOURS):
        np.copyto(planes[band], np.ndarray((pixels,), "<u4", room.data, offset=band), casting="unsafe")
    return planes.reshape(COLOURS, height, width)
