"""JPEG colours as planes, without paying for the order of their samples.

May touch numpy and imagecodecs.  Zarr wants (band, y, x), JPEG gives pixel by pixel, and gathering
every third byte costs a third of the decoding.  Decoded with a fourth, unused byte a pixel, a plane
is a cast of 32-bit words to their lowest byte, which costs a quarter of that.
"""

from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

WORD = 4
COLOURS = 3


def rgb_planes(
    data: bytes | memoryview, height: int, width: int, *, tables: bytes | None, stored_as_rgb: bool
) -> NDArray[np.uint8]:
    """Return red, green and blue of a JPEG of exactly this size; what the decoder raises goes through."""
    pixels = height * width
    room = np.empty(pixels * WORD + WORD, np.uint8)  # a word more, for the planes that begin inside of one
    colorspace: dict[str, Any] = {"colorspace": "RGB"} if stored_as_rgb else {}
    words = room[: pixels * WORD].reshape(height, width, WORD)
    imagecodecs.jpeg8_decode(data, tables=tables, outcolorspace="RGBX", out=words, **colorspace)
    planes = np.empty((COLOURS, pixels), np.uint8)
    for band in range(COLOURS):
        np.copyto(planes[band], np.ndarray((pixels,), "<u4", room.data, offset=band), casting="unsafe")
    return planes.reshape(COLOURS, height, width)
