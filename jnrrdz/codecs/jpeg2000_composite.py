"""Components of several sizes to one array: the coarse ones repeated, and sYCC turned into RGB.

May touch numpy, errors and the layouts of JPEG 2000; no I/O.  The conversion is OpenJPEG's own, products
cut off towards zero, so that pixels are those which its readers show.
Spec: IEC 61966-2-1, amendment 1 (sYCC); docs/codecs/jpeg2000/README.md
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.layout.jpeg2000_composite import check_composite, is_sycc
from jnrrdz.layout.jpeg2000_siz import Siz

ROWS = 64
"""As many are converted at a time: some of the numbers in between take eight bytes."""


class Composite:
    """Puts the components of one codestream's tiles together at one resolution level."""

    def __init__(self, siz: Siz, level: int, *, is_rgb: bool) -> None:
        """Refuse what has no one answer."""
        self.finest = check_composite(siz, level)
        self.level = level
        self.is_rgb = is_rgb
        self.steps = [(one.dy, one.dx) for one in siz.components]
        if is_rgb and not is_sycc(siz.components):
            raise MalformedError("sycc_to_rgb where the components are not those of sYCC", field="jpeg2000")
        self.most = (1 << siz.components[0].bits) - 1

    def planes(self, found: Sequence[NDArray[np.int32]], size: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the components of a tile of `size` rows and columns, which begins where all have a sample."""
        if len(found) != len(self.steps):
            raise MalformedError(f"{len(found)} components where {len(self.steps)} belong", field="jpeg2000")
        whole = np.empty((len(found), *size), dtype)
        for plane, (down, across), target in zip(found, self.steps, whole, strict=True):
            needed = -(-size[0] // down), -(-size[1] // across)
            if plane.shape[0] < needed[0] or plane.shape[1] < needed[1]:
                raise MalformedError(f"{plane.shape} samples where a tile has {needed}", field="jpeg2000")
            for row in range(down):
                for column in range(across):
                    place = target[row::down, column::across]
                    place[...] = plane[: place.shape[0], : place.shape[1]]
        if self.is_rgb:
            for row in range(0, size[0], ROWS):
                self._convert(whole[:, row : row + ROWS])
        return whole

    def _convert(self, rows: NDArray[Any]) -> None:
        """Turn some rows of Y, Cb, Cr into red, green, blue."""
        luma, blue, red = rows.astype(np.int32)
        middle = (self.most + 1) // 2
        blue, red = blue - middle, red - middle
        mixed = (
            luma + (1.402 * red).astype(np.int32),
            luma - (0.344 * blue + 0.714 * red).astype(np.int32),
            luma + (1.772 * blue).astype(np.int32),
        )
        for target, values in zip(rows, mixed, strict=True):
            target[...] = np.clip(values, 0, self.most)
