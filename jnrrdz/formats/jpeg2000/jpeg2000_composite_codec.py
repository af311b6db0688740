"""Components of several sizes to one array: the coarse ones repeated, or as sYCC for a decoder that makes RGB of it.

May touch numpy, errors and the layouts of JPEG 2000; no I/O.  The conversion is that of imagecodecs' OpenJPEG,
so that pixels are those which its readers show; a tile has to be in a JP2 file for it to be done.
Spec: IEC 61966-2-1, amendment 1 (sYCC); ITU-T T.800, annex I (JP2); docs/codecs/jpeg2000/README.md
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.jp2_boxes import SIGNATURE
from jnrrdz.formats.jpeg2000.jpeg2000_composite_header import check_composite, is_sycc
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Siz

SIZ_AT = 8
"""Where a codestream says where its image ends and begins: behind SOC, and marker, length and Rsiz of SIZ."""

SYCC = 18
"""The colour space's number in `colr`."""


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
        self.bits = siz.components[0].bits

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
        return whole

    def sycc(self, codestream: bytes) -> bytes:
        """Return a JP2 file of one tile that says of its components that they are those of sYCC."""
        right, bottom, left, top = struct.unpack_from(">4I", codestream, SIZ_AT)
        ihdr = struct.pack(">IIHBBBB", bottom - top, right - left, len(self.steps), self.bits - 1, 7, 0, 0)
        colr = struct.pack(">BBBI", 1, 0, 0, SYCC)
        head = _box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + _box(b"jp2h", _box(b"ihdr", ihdr) + _box(b"colr", colr))
        return SIGNATURE + head + _box(b"jp2c", codestream)


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body
