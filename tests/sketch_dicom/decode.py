"""Frames of run lengths to pixels.

Spec: https://dicom.nema.org/medical/dicom/current/output/chtml/part05/chapter_G.html
"""

import math
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from tests.sketch_dicom.codecs import DICOM_RLE, DicomRleConfig


class RleDecoder:
    """Decodes frames: a segment for each byte of a sample."""

    def __init__(self, _: DicomRleConfig, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        self.nbytes = math.prod(shape) * dtype.itemsize

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the pixels of a frame, sample by sample."""
        stored = self.dtype.newbyteorder("<")
        try:
            decoded = imagecodecs.dicomrle_decode(bytes(data), stored, out=self.nbytes)
        except (ValueError, RuntimeError) as error:
            raise MalformedError(str(error), field=DICOM_RLE) from error
        if len(decoded) != self.nbytes:
            message = f"{len(decoded)} bytes in a frame of {self.nbytes}"
            raise MalformedError(message, field=DICOM_RLE)
        return np.frombuffer(decoded, stored).astype(self.dtype).reshape(self.shape)
