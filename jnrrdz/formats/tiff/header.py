"""What stands before a chunk so that both together are a TIFF file of one image.

A classic TIFF of one directory, whose pixels are strips right behind it: one strip, or one for each sample where
samples have planes of their own.  Tags at their defaults are left out.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.directory import assemble
from jnrrdz.formats.tiff.schemes import Compression
from jnrrdz.formats.tiff.tags import DTYPE, ExtraSample, Photometric, Planar, SampleFormat, Tag
from jnrrdz.formats.tiff_directory import FieldType
from jnrrdz.records import record

SCHEMES = {
    None: Compression.NONE,
    "numcodecs.zlib": Compression.DEFLATE,
    "zstd": Compression.ZSTD,
    "numcodecs.lzma": Compression.LZMA,
}
"""Zarr's compressors whose streams TIFF has, by their names there."""

FORMATS = {
    np.dtype(code): form for form, types in DTYPE.items() for _, code in types if form != SampleFormat.COMPLEXINT
}
"""The sample format of each type that TIFF has."""

MOST = (1 << 32) - 1
"""Bytes of a TIFF whose offsets are 32 bits."""

COLOURS = 3
MOST_SHORT = (1 << 16) - 1
LONGS = {Tag.StripOffsets, Tag.StripByteCounts}


@record
class TiffHeader:
    """The header of TIFF files whose images are all alike; `tiff_header` makes one.

    `len(header)` is its length.  `bytes(header)` is the header of every chunk, where chunks are not compressed.
    `header(chunk)` is the header of one encoded chunk.
    """

    rows: int
    columns: int
    samples: int
    planar: Planar
    dtype: np.dtype[Any]
    compressor: str | None
    endian: Literal["little", "big"]
    rgb: bool

    def __len__(self) -> int:
        return len(self._laid_out(0))

    def __bytes__(self) -> bytes:
        if self.compressor is not None:
            raise UnsupportedError(
                f"each chunk has its own header behind {self.compressor}; give the header as a function, not its bytes",
                field="compressor",
            )
        return self._laid_out(self._pixel_bytes)

    def __call__(self, chunk: bytes) -> bytes:
        """Return the header of an encoded chunk."""
        if self.compressor is None and len(chunk) != self._pixel_bytes:
            raise MalformedError(
                f"a chunk of {len(chunk)} bytes, where pixels take {self._pixel_bytes}; "
                "if chunks are compressed, compressor= says by what",
                field="compressor",
            )
        if len(self) + len(chunk) > MOST:
            raise UnsupportedError(f"a chunk of {len(chunk)} bytes; a TIFF holds 4 GiB", field="chunk")
        return self._laid_out(len(chunk))

    @property
    def _pixel_bytes(self) -> int:
        return self.rows * self.columns * self.samples * self.dtype.itemsize

    def _laid_out(self, nbytes: int) -> bytes:
        """Return the header of pixels that take so many bytes and follow it."""
        tags = []
        for tag, values in sorted(self._entries(nbytes).items()):
            is_long = tag in LONGS or max(values) > MOST_SHORT
            kind = FieldType.LONG if is_long else FieldType.SHORT
            tags.append((tag, kind, values))
        return assemble("<" if self.endian == "little" else ">", tags, {Tag.StripOffsets})

    def _entries(self, nbytes: int) -> dict[Tag, list[int]]:
        """Return the values of each tag that is not at its default."""
        strips = self.samples if self.planar == Planar.SEPARATE else 1
        each = nbytes // strips
        entries: dict[Tag, list[int]] = {
            Tag.ImageWidth: [self.columns],
            Tag.ImageLength: [self.rows],
            Tag.BitsPerSample: [self.dtype.itemsize * 8] * self.samples,
            Tag.Compression: [SCHEMES[self.compressor]],
            Tag.PhotometricInterpretation: [Photometric.RGB if self.rgb else Photometric.MINISBLACK],
            Tag.StripOffsets: [each * number for number in range(strips)],
            Tag.RowsPerStrip: [self.rows],
            Tag.StripByteCounts: [each] * strips,
        }
        if self.samples > 1:
            entries[Tag.SamplesPerPixel] = [self.samples]
            entries[Tag.PlanarConfiguration] = [self.planar]
        extra = self.samples - (COLOURS if self.rgb else 1)
        if extra:
            entries[Tag.ExtraSamples] = [ExtraSample.UNSPECIFIED] * extra
        if FORMATS[self.dtype] != SampleFormat.UINT:
            entries[Tag.SampleFormat] = [FORMATS[self.dtype]] * self.samples
        return entries


def tiff_header(  # noqa: PLR0913  what a chunk does not say itself
    chunk_shape: Sequence[int],
    dtype: DTypeLike,
    *,
    compressor: str | None = None,
    samples: Literal["first", "last"] | None = None,
    rgb: bool = False,
    endian: Literal["little", "big"] = "little",
) -> TiffHeader:
    """Return the header that makes a TIFF file of every chunk of a Zarr array; see docs/codecs/offset/README.md.

    `chunk_shape` is (rows, columns), with axes of length one before them if the array has such.
    `dtype` is the array's type: integers of 8 to 64 bits, floats of 16 to 64 bits, complex floats.
    `compressor` names the Zarr codec that compresses the chunks, None if none does: `zstd`, `numcodecs.zlib`,
    `numcodecs.lzma`.
    `samples` says which axis of a three-dimensional chunk counts the samples of a pixel.
    `rgb` says that the first three samples are red, green and blue.
    `endian` is that of the array's codec `bytes`.
    """
    number = np.dtype(dtype).newbyteorder("=")
    if number not in FORMATS:
        raise UnsupportedError(f"{number} is no type of a TIFF", field="dtype")
    if compressor not in SCHEMES:
        known = ", ".join(filter(None, SCHEMES))
        raise UnsupportedError(f"{compressor!r} is no compression of TIFF; these are: {known}", field="compressor")
    if endian not in {"little", "big"}:
        raise UnsupportedError(f"found {endian!r}; 'little' or 'big' is needed", field="endian")
    rows, columns, count = _sides([int(side) for side in chunk_shape], samples)
    planar = Planar.SEPARATE if samples == "first" and count > 1 else Planar.CHUNKY
    if planar == Planar.SEPARATE and compressor is not None:
        raise UnsupportedError("a TIFF has a stream for each plane of samples, and a chunk is one", field="samples")
    if rgb and count < COLOURS:
        raise MalformedError(f"red, green and blue of {count} samples", field="rgb")
    header = TiffHeader(rows, columns, count, planar, number, compressor, endian, rgb)
    if len(header) + rows * columns * count * number.itemsize > MOST:
        raise UnsupportedError(f"chunks of {tuple(chunk_shape)}; a TIFF holds 4 GiB", field="chunk_shape")
    return header


def _sides(shape: list[int], samples: str | None) -> tuple[int, int, int]:
    """Return rows, columns and samples of a chunk's shape."""
    if samples not in {None, "first", "last"}:
        raise UnsupportedError(f"found {samples!r}; 'first' or 'last' is needed", field="samples")
    axes = 2 if samples is None else 3
    lead, sides = shape[:-axes], shape[-axes:]
    if len(sides) < axes or math.prod(lead) != 1 or min(sides) < 1:
        needed = "(rows, columns)" if samples is None else "three sides, one of them the samples"
        hint = "; samples='first' or 'last' says which axis counts samples" if samples is None else ""
        raise MalformedError(f"found {tuple(shape)}; {needed} are needed{hint}", field="chunk_shape")
    if samples is None:
        return sides[0], sides[1], 1
    return (sides[1], sides[2], sides[0]) if samples == "first" else (sides[0], sides[1], sides[2])
