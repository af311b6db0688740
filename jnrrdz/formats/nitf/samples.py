"""The types of an image segment's samples, and its pad pixel as one of them.

May touch numpy, the NITF layout and errors.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, PVTYPE, NBPP, TPXCD)
"""

from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.nitf_mask import Mask

BYTE = 8
KINDS = {"INT": "u", "B": "u", "SI": "i", "R": "f", "C": "c"}
FLOATS = {"R": {16, 32, 64}, "C": {64, 128}}
MAX_BITS = 64
SINGLE_BYTES = 4


def sample_dtype(image: NitfImage) -> np.dtype[Any]:
    """Return the narrowest type that holds a sample."""
    kind, bits = image.text("PVTYPE"), image.bits
    known = kind in KINDS and (bits in FLOATS[kind] if kind in FLOATS else bits <= MAX_BITS)
    if not known:
        raise UnsupportedError(
            f"{kind!r} of {bits} bits; INT, SI and B of up to 64, R of 16, 32 and 64, C of 64 and 128 are read",
            offset=image.segment.start,
            field=f"{image.what} PVTYPE, NBPP",
        )
    width = bits // BYTE if kind in FLOATS else next(size for size in (1, 2, 4, 8) if size * BYTE >= bits)
    return np.dtype(f"{KINDS[kind]}{width}")


def pair_dtype(sample: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex type that holds two samples without loss."""
    exact = sample.itemsize < SINGLE_BYTES or sample == np.dtype("f4")
    return np.dtype("c8" if exact else "c16")


def pad_value(mask: Mask | None, image: NitfImage, dtype: np.dtype[Any]) -> Any:
    """Return what marks pixels that have no value, None where nothing does."""
    if mask is None or not mask.pad:
        return None
    if dtype.kind in "fc" and len(mask.pad) == dtype.itemsize:
        return np.frombuffer(mask.pad, dtype.newbyteorder(">")).astype(dtype)[0]
    value = _justified(mask.pad, image)
    if dtype.kind == "i" and value >> (image.bits - 1) & 1:
        value -= 1 << image.bits
    try:
        return dtype.type(value)
    except OverflowError:
        raise MalformedError(
            f"a pad pixel {value} for samples of {image.bits} bits", offset=image.segment.data, field="TPXCD"
        ) from None


def _justified(pad: bytes, image: NitfImage) -> int:
    """Return the pad pixel's bits as a number: in whole bytes they stand as PJUST has it."""
    value, spare = int.from_bytes(pad, "big"), len(pad) * BYTE - image.bits
    is_left = spare > 0 and not value & ((1 << spare) - 1)
    # what is too large for a sample cannot stand on the right
    return value >> spare if is_left and (image.text("PJUST") == "L" or value >> image.bits) else value
