"""Uncompressed blocks of a NITF image to arrays: bands taken apart, bits unpacked, bytes put in order.

May touch numpy, imagecodecs, errors and the model; no I/O, no zarr.  Samples are big-endian, the most
significant bit first.  Of a packed type each band of IMODE B and S begins with a whole byte.
Spec: docs/codecs/jbp-block/README.md
"""

import math
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_nitf import JBP_BLOCK, JbpBlockConfig
from jnrrdz.errors import MalformedError, UnsupportedError

type Shape = tuple[int, ...]
type Pixels = NDArray[Any]

BYTE = 8
NATIVE: dict[str, dict[int, str]] = {
    "INT": {8: "u1", 16: ">u2", 32: ">u4", 64: ">u8"},
    "B": {8: "u1"},
    "SI": {8: "i1", 16: ">i2", 32: ">i4", 64: ">i8"},
    "R": {16: ">f2", 32: ">f4", 64: ">f8"},
    "C": {64: ">c8", 128: ">c16"},
}
"""Samples that are whole bytes, as numpy types."""

PACKED = {"INT", "SI", "B"}
MAX_PACKED_BITS = 64
SINGLE_BYTES = 4
ORDER = {"B": "bhw", "S": "bhw", "R": "hbw", "P": "hwb"}
"""The axes of a block as stored: band, row (height), column (width)."""


def sample_dtype(pixel_type: str, bits: int) -> np.dtype[Any]:
    """Return the type that holds a sample: its own, or the next one that has room."""
    native = NATIVE.get(pixel_type, {}).get(bits)
    if native is not None:
        return np.dtype(native).newbyteorder("=")
    if pixel_type not in PACKED or not 1 <= bits <= MAX_PACKED_BITS:
        known = "; ".join(f"{kind} of {', '.join(map(str, sizes))}" for kind, sizes in NATIVE.items())
        raise UnsupportedError(f"{pixel_type} of {bits} bits; {known} are read, INT, SI and B of 1 to 64", field="NBPP")
    kind = "i" if pixel_type == "SI" else "u"
    return np.dtype(f"{kind}{next(size for size in (1, 2, 4, 8) if size * BYTE >= bits)}")


def block_bytes(bits: int, mode: str, bands: int, pixels: int) -> int:
    """Return the length of a block of so many pixels a band."""
    if mode in {"B", "S"}:
        return bands * -(-pixels * bits // BYTE)
    return -(-pixels * bands * bits // BYTE)


class BlockDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: JbpBlockConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        self.rows, self.columns = shape[-2:]
        self.bands = math.prod(shape[:-2]) * (2 if config.complex_pairs else 1)
        self._sample = sample_dtype(config.pixel_type, config.bits_per_pixel)
        expected = pair_dtype(self._sample) if config.complex_pairs else self._sample
        if dtype != expected:
            raise MalformedError(f"an array of {dtype} where blocks hold {expected}", field=JBP_BLOCK)

    def decode(self, data: bytes | memoryview) -> Pixels:
        """Return the chunk's pixels; one that ends with the image is padded with the fill value."""
        rows = self._rows_of(len(data))
        stored = self._unpacked(memoryview(data), rows).reshape(self._extent(rows))
        order = ORDER[self.config.interleave]
        planes = stored.transpose([order.index(axis) for axis in "bhw"])
        if self.config.complex_pairs:
            planes = _paired(planes, self.dtype)
        if rows == self.rows:
            # byte order and interleave in one copy
            return np.ascontiguousarray(planes, self.dtype).reshape(self.shape)
        whole = np.full((len(planes), self.rows, self.columns), self.fill_value, self.dtype)
        whole[:, :rows] = planes
        return whole.reshape(self.shape)

    def _rows_of(self, length: int) -> int:
        """Return the rows that so many bytes are: all, or those at the end of the image."""
        config = self.config
        known = {self.rows, config.image_rows % self.rows or self.rows}
        sizes = {
            block_bytes(config.bits_per_pixel, config.interleave, self.bands, rows * self.columns): rows
            for rows in known
        }
        if length not in sizes:
            allowed = " or ".join(str(size) for size in sorted(sizes))
            raise MalformedError(f"{length} bytes in a block of {allowed}", field=JBP_BLOCK)
        return sizes[length]

    def _extent(self, rows: int) -> list[int]:
        sizes = {"b": self.bands, "h": rows, "w": self.columns}
        return [sizes[axis] for axis in ORDER[self.config.interleave]]

    def _unpacked(self, data: memoryview, rows: int) -> Pixels:
        """Return the samples in the order in which they are stored."""
        config = self.config
        native = NATIVE[config.pixel_type].get(config.bits_per_pixel)
        if native is not None:
            return np.frombuffer(data, native)
        runs = self.bands if config.interleave in {"B", "S"} else 1
        samples = self.bands * rows * self.columns // runs
        length = len(data) // runs
        parts = [self._run(data[start : start + length], samples) for start in range(0, len(data), length)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _run(self, data: memoryview, samples: int) -> Pixels:
        """Return samples that follow each other without a gap."""
        bits = self.config.bits_per_pixel
        if bits == 1:
            found: Pixels = np.unpackbits(np.frombuffer(data, np.uint8), count=samples)
        else:
            found = unpacked(data, bits, samples)
        return signed(found, bits, self._sample) if self.config.pixel_type == "SI" else found


def unpacked(data: memoryview, bits: int, samples: int) -> Pixels:
    """Return unsigned samples of any number of bits, the most significant first."""
    wide = np.dtype(f"u{next(size for size in (1, 2, 4, 8) if size * BYTE >= bits)}")
    try:
        found: Pixels = imagecodecs.packints_decode(bytes(data), wide, bits)
    except (ValueError, RuntimeError, NotImplementedError):  # widths that it has no loop for
        found = _by_bits(data, bits, samples)
    return found[:samples].astype(wide, copy=False)


def _by_bits(data: memoryview, bits: int, samples: int) -> Pixels:
    flags = np.unpackbits(np.frombuffer(data, np.uint8), count=samples * bits).reshape(samples, bits)
    weights = np.left_shift(np.uint64(1), np.arange(bits - 1, -1, -1, dtype=np.uint64))
    found: Pixels = (flags * weights).sum(axis=1, dtype=np.uint64)
    return found


def signed(values: Pixels, bits: int, dtype: np.dtype[Any]) -> Pixels:
    """Return values of so many bits as two's complement."""
    wide = values.astype(np.int64)
    spare = 64 - bits
    found: Pixels = ((wide << spare) >> spare).astype(dtype)
    return found


def pair_dtype(sample: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex type that holds two samples."""
    exact = sample.itemsize < SINGLE_BYTES or sample == np.dtype("f4")
    return np.dtype("c8" if exact else "c16")


def _paired(planes: Pixels, dtype: np.dtype[Any]) -> Pixels:
    found = np.empty((len(planes) // 2, *planes.shape[1:]), dtype)
    found.real, found.imag = planes[0::2], planes[1::2]
    return found
