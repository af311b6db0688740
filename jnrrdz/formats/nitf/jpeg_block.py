"""JPEG streams of a NITF's blocks to arrays: 8 and 12 bits, lossless, with the tables that they leave out.

May touch numpy, imagecodecs, errors, the model and this folder's look at what a stream declares; no
I/O, no zarr.  YCbCr comes out as red, green and blue, as libjpeg decides from the stream.
Spec: docs/codecs/jpeg/README.md
"""

import math
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_nitf import JPEG, JpegConfig
from jnrrdz.errors import MalformedError
from jnrrdz.formats.declared import jpeg_size
from jnrrdz.formats.nitf.jpeg_tables import completed, header_markers
from jnrrdz.formats.rgb_planes import COLOURS, jpeg_planes

type Shape = tuple[int, ...]
type Pixels = NDArray[Any]

EOI = b"\xff\xd9"
LOSSLESS = 0xC3
DECODER_ERRORS = (ValueError, TypeError, RuntimeError, NotImplementedError, MemoryError, OverflowError)
"""What imagecodecs raises at bytes that it cannot decode."""


class JpegDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: JpegConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        self.rows, self.columns = shape[-2:]
        self.bands = math.prod(shape[:-2])

    def decode(self, data: bytes | memoryview) -> Pixels:
        """Return the chunk's pixels."""
        stream = bytes(data)
        size = self._checked(stream)
        try:
            planes = self._planes(completed(stream, self.config.quality), size)
        except DECODER_ERRORS as error:
            raise MalformedError(f"JPEG data of {len(data)} bytes do not decode: {error}", field=JPEG) from error
        return self._fitted(planes)

    def _checked(self, data: bytes) -> tuple[int, int, int]:
        """Return the size that a stream declares, if it is the chunk's."""
        size = jpeg_size(data)
        if size is None:
            raise MalformedError("no frame header", field=JPEG)
        if size != (self.rows, self.columns, self.bands):
            raise MalformedError(
                f"JPEG data declare {size[0]} x {size[1]} x {size[2]} in a chunk of "
                f"{self.rows} x {self.columns} x {self.bands}",
                field=JPEG,
            )
        if data.rfind(EOI) < 0:
            # libjpeg would only warn, and leave the rest of the pixels grey
            raise MalformedError(f"JPEG data of {len(data)} bytes are cut off: no end of image (FF D9)", field=JPEG)
        return size

    def _planes(self, data: bytes, size: tuple[int, int, int]) -> Pixels:
        """Return the pixels band by band."""
        if LOSSLESS in header_markers(data):
            pixels = np.asarray(imagecodecs.ljpeg_decode(data))
        elif size[2] == COLOURS and self.dtype == np.uint8:
            return jpeg_planes(data, size[0], size[1], tables=None, stored_as_rgb=False)
        else:
            pixels = np.asarray(imagecodecs.jpeg8_decode(data))
        return np.moveaxis(pixels.reshape(size), -1, 0)

    def _fitted(self, planes: Pixels) -> Pixels:
        """Return planes in the chunk's shape and type."""
        if planes.dtype.itemsize > self.dtype.itemsize:
            raise MalformedError(f"samples of {planes.dtype} for an array of {self.dtype}", field=JPEG)
        return np.ascontiguousarray(planes, self.dtype).reshape(self.shape)
