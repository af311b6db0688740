"""The blocks of a NITF image to arrays: uncompressed, vector-quantised, JPEG, and indices of a palette.

Uncompressed samples are big-endian, the most significant bit first; of a packed type each band of IMODE
B and S begins with a whole byte.  Vector-quantised blocks (C4, M4) are codes of 12 bits, looked up in four
codebooks.  A JPEG stream has 8 or 12 bits, or is lossless; YCbCr comes out as red, green and blue, as
libjpeg decides from the stream.  A stream may leave out tables that the standard gives: one without
quantisation tables means one of five, by the quality level that its NITF application segment (APP6)
names; one without Huffman tables means the typical ones.
Spec: docs/codecs/jbp-block/README.md, docs/codecs/jnrrdz.nitf-vq/README.md, docs/codecs/jbp-jpeg/README.md,
MIL-STD-188-198A (appendix A), https://www.w3.org/Graphics/JPEG/itu-t81.pdf (annex K)
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.configuration import Samples, check_type, in_type
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.colours import ColourDecoder, IndexDecoder, Palette
from jnrrdz.formats.format import DecoderState
from jnrrdz.formats.image_streams import COLOURS, jpeg_planes
from jnrrdz.formats.jpeg_markers import jpeg_segments, jpeg_size
from jnrrdz.formats.nitf.blocks import CODE_BITS, CODES, SIDE, find_streams
from jnrrdz.formats.nitf.codecs import (
    JBP_BLOCK,
    JBP_JPEG,
    NITF_ORDERS,
    NITF_VQ,
    JbpBlockConfig,
    JbpJpegConfig,
    NitfVqConfig,
    plain_codebooks,
)
from jnrrdz.formats.nitf.header import BYTE, pair_dtype, sample_type

type Shape = tuple[int, ...]
type Pixels = NDArray[Any]

NATIVE: dict[str, dict[int, str]] = {
    "INT": {8: "u1", 16: ">u2", 32: ">u4", 64: ">u8"},
    "B": {8: "u1"},
    "SI": {8: "i1", 16: ">i2", 32: ">i4", 64: ">i8"},
    "R": {16: ">f2", 32: ">f4", 64: ">f8"},
    "C": {64: ">c8", 128: ">c16"},
}
"""Samples that are whole bytes, as numpy types."""


def sample_dtype(pixel_type: str, bits: int) -> np.dtype[Any]:
    """Return the type that holds a sample: its own, or the next one that has room."""
    dtype = sample_type(pixel_type, bits)
    if dtype is None:
        known = "; ".join(f"{kind} of {', '.join(map(str, sizes))}" for kind, sizes in NATIVE.items())
        raise UnsupportedError(f"{pixel_type} of {bits} bits; {known} are read, INT, SI and B of 1 to 64", field="NBPP")
    return dtype


def block_samples(config: JbpBlockConfig) -> tuple[Samples]:
    """Return what blocks hold: an array is of just this type."""
    dtype = sample_dtype(config.pixel_type, config.bits_per_pixel)
    stored = pair_dtype(dtype) if config.complex_pairs else dtype
    return (Samples.of(stored, is_exact=True),)


def vq_samples(_: NitfVqConfig) -> tuple[Samples]:
    """Return what the codebooks hold."""
    return (Samples("u", BYTE, is_exact=True),)


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
        check_type(dtype, *block_samples(config), JBP_BLOCK)

    def decode(self, data: bytes | memoryview) -> Pixels:
        """Return the chunk's pixels; one that ends with the image is padded with the fill value."""
        rows = self._rows_of(len(data))
        order = NITF_ORDERS[self.config.interleave]
        sizes = {"b": self.bands, "h": rows, "w": self.columns}
        stored = self._unpacked(memoryview(data), rows).reshape([sizes[axis] for axis in order])
        planes = stored.transpose([order.index(axis) for axis in "bhw"])
        if self.config.complex_pairs:
            pairs = np.empty((len(planes) // 2, *planes.shape[1:]), self.dtype)
            pairs.real, pairs.imag = planes[0::2], planes[1::2]
            planes = pairs
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

    def _unpacked(self, data: memoryview, rows: int) -> Pixels:
        """Return the samples in the order in which they are stored."""
        config = self.config
        native = NATIVE[config.pixel_type].get(config.bits_per_pixel)
        if native is not None:
            return np.frombuffer(data, native)
        runs = self.bands if config.interleave in {"B", "S"} else 1
        samples = self.bands * rows * self.columns // runs
        length = len(data) // runs
        parts = []
        for start in range(0, len(data), length):
            run = unpack_samples(data[start : start + length], config.bits_per_pixel, samples)
            parts.append(extend_sign(run, config.bits_per_pixel, self._sample) if config.pixel_type == "SI" else run)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def unpack_samples(data: memoryview, bits: int, samples: int) -> Pixels:
    """Return unsigned samples of any number of bits, the most significant first."""
    if bits == 1:
        return np.unpackbits(np.frombuffer(data, np.uint8), count=samples)
    wide = np.dtype(f"u{next(size for size in (1, 2, 4, 8) if size * BYTE >= bits)}")
    try:
        values: Pixels = imagecodecs.packints_decode(bytes(data), wide, bits)
    except (ValueError, RuntimeError, NotImplementedError):  # widths that it has no loop for
        flags = np.unpackbits(np.frombuffer(data, np.uint8), count=samples * bits).reshape(samples, bits)
        weights = np.left_shift(np.uint64(1), np.arange(bits - 1, -1, -1, dtype=np.uint64))
        values = (flags * weights).sum(axis=1, dtype=np.uint64)
    return values[:samples].astype(wide, copy=False)


def extend_sign(values: Pixels, bits: int, dtype: np.dtype[Any]) -> Pixels:
    """Return values of so many bits as two's complement."""
    spare = 64 - bits
    return ((values.astype(np.int64) << spare) >> spare).astype(dtype)


class VqDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: NitfVqConfig, shape: Shape, dtype: np.dtype[Any], _: Any = 0) -> None:
        self.shape = shape
        rows, columns = shape[-2:]
        if dtype != np.uint8 or len(shape) != 2 or rows % SIDE or columns % SIDE:  # noqa: PLR2004  rows, columns
            raise MalformedError(
                f"chunks of shape {shape} and type {dtype}; sides that are multiples of {SIDE} and uint8 are needed",
                field=NITF_VQ,
            )
        self._codes = (rows // SIDE) * (columns // SIDE)
        books = plain_codebooks(config.codebooks)
        if books is None:
            raise MalformedError("codebooks of another length", field=NITF_VQ)
        # code, row, column: the kernel of a code in one piece
        tables = np.frombuffer(books, np.uint8).reshape(SIDE, CODES, SIDE)
        self._kernels = np.ascontiguousarray(tables.transpose(1, 0, 2))

    def decode(self, data: bytes | memoryview) -> NDArray[np.uint8]:
        """Return the chunk's pixels."""
        need = -(-self._codes * CODE_BITS // BYTE)
        if len(data) != need:
            raise MalformedError(f"{len(data)} bytes of codes where {need} belong", field=NITF_VQ)
        rows, columns = self.shape
        kernels = self._kernels[unpack_codes(data, self._codes)].reshape(rows // SIDE, columns // SIDE, SIDE, SIDE)
        return np.ascontiguousarray(kernels.transpose(0, 2, 1, 3)).reshape(self.shape)


def unpack_codes(data: bytes | memoryview, count: int) -> NDArray[np.uint16]:
    """Return codes of 12 bits, two in three bytes, the first one's bits first."""
    padded = np.zeros(-(-len(data) // 3) * 3, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    first, middle, last = padded.reshape(-1, 3).astype(np.uint16).T
    codes = np.empty((len(first), 2), np.uint16)
    codes[:, 0] = first << 4 | middle >> 4
    codes[:, 1] = (middle & 15) << 8 | last
    return codes.reshape(-1)[:count]


SOI = b"\xff\xd8"
MARK, DQT, DHT = 0xFF, 0xDB, 0xC4
BASELINE = 0xC0
TABLES = 4
HUFFMAN_TABLES = 2
"""How many tables of a kind a baseline stream may name."""

LUMINANCE_AC = (0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125)
LUMINANCE_DC = (0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0)

SHORT_AC_SYMBOLS = bytes.fromhex(
    "01 02 03 00 04 11 05 12 21 31 41 06 13 51 61 07 22 71 14 32 81 91 a1 08 23 42 b1 c1 15 52 d1 f0 24 33 62 72 82"
)
"""The typical AC symbols of less than sixteen bits: T.81's table K.5."""

QUANTISATION = {
    1: "8 72 72 72 72 72 72 72 72 72 78 74 76 74 78 89 81 84 84 81 89 106 93 94 99 94 93 106 129 111 108 116 "
    "116 108 111 129 135 128 136 145 136 128 135 155 160 177 177 160 155 193 213 228 213 193 255 255 "
    "255 255 255 255 255 255 255 255",
    2: "8 36 36 36 36 36 36 36 36 36 39 37 38 37 39 45 41 42 42 41 45 53 47 47 50 47 47 53 65 56 54 59 "
    "59 54 56 65 68 64 69 73 69 64 68 78 81 89 89 81 78 98 108 115 108 98 130 144 144 130 178 190 178 243 243 255",
    3: "8 10 10 10 10 10 10 10 10 10 11 10 11 10 11 13 11 12 12 11 13 15 13 13 14 13 13 15 18 16 15 16 "
    "16 15 16 18 19 18 19 21 19 18 19 22 23 25 25 23 22 27 30 32 30 27 36 40 40 36 50 53 50 68 68 91",
    4: "8 7 7 7 7 7 7 7 7 7 8 7 8 7 8 9 8 8 8 8 9 11 9 9 10 9 9 11 13 11 11 12 "
    "12 11 11 13 14 13 14 15 14 13 14 16 16 18 18 16 16 20 22 23 22 20 26 29 29 26 36 38 36 49 49 65",
    5: "4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 5 5 5 5 5 5 6 5 5 6 5 5 6 7 6 6 6 "
    "6 6 6 7 8 7 8 8 8 7 8 9 9 10 10 9 9 11 12 13 12 11 14 16 16 14 20 21 20 27 27 36",
}
"""The 8-bit tables in zigzag order, by quality level."""


def quantisation_segment(quality: int) -> bytes:
    """Return the DQT segment of one quality level, under every number that a component may name."""
    table = bytes(int(word) for word in QUANTISATION[quality].split())
    return _segment(DQT, b"".join(bytes((number,)) + table for number in range(TABLES)))


def huffman_segment() -> bytes:
    """Return the DHT segment of the typical tables, under every number that a component may name."""
    # the symbols of T.81's table K.5 that are not listed have sixteen bits each, in ascending order
    rest = (run << 4 | size for run in range(16) for size in range(1, 11))
    symbols = SHORT_AC_SYMBOLS + bytes(symbol for symbol in rest if symbol not in SHORT_AC_SYMBOLS)
    dc, ac = bytes(LUMINANCE_DC) + bytes(range(12)), bytes(LUMINANCE_AC) + symbols
    both = (bytes((number,)) + dc + bytes((0x10 | number,)) + ac for number in range(HUFFMAN_TABLES))
    return _segment(DHT, b"".join(both))


def _segment(marker: int, body: bytes) -> bytes:
    return bytes((MARK, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def complete_stream(data: bytes, quality: int) -> bytes:
    """Return a baseline stream with the tables that it leaves out; one that has all comes back as it is."""
    present = list_markers(data)
    if BASELINE not in present or {DQT, DHT} <= present:
        return data
    missing = b"" if DHT in present else huffman_segment()
    if DQT not in present:
        if quality not in QUANTISATION:
            raise MalformedError("no quantisation tables, and no quality level that says which are meant", field="DQT")
        missing += quantisation_segment(quality)
    return data[: len(SOI)] + missing + data[len(SOI) :]


def list_markers(data: bytes) -> set[int]:
    """Return the markers of the segments before the first scan's data."""
    return {marker for marker, _ in segments_of(data)}


def segments_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield marker and content of each segment up to the first scan's header."""
    for marker, start, stop in jpeg_segments(lambda at: data[at : at + 4], len(SOI)):
        if marker and start + 4 <= len(data):
            yield marker, data[start + 4 : stop]


APP0, APP6, APP14 = 0xE0, 0xE6, 0xEE
LIBJPEG_KNOWS = {APP0: b"JFIF\0", APP14: b"Adobe"}
"""Segments by which libjpeg itself tells RGB from YCbCr."""

NITF_SEGMENT = b"NITF\0"
STREAM_COLOUR = 17
"""Where a NITF segment has the colours of the stream: 0 for one band, 1 for RGB, 2 for YCbCr601."""

RGB_STREAM, YCBCR_STREAM = 1, 2


def is_stored_as_rgb(data: bytes, *, otherwise: bool) -> bool:
    """Return whether three components are red, green and blue as stored; `otherwise` where no segment names them.

    A JFIF or Adobe segment leaves it to libjpeg; next counts the NITF segment of MIL-STD-188-198A.
    """
    answer = otherwise
    for marker, content in segments_of(data):
        if marker in LIBJPEG_KNOWS and content.startswith(LIBJPEG_KNOWS[marker]):
            return False
        if marker == APP6 and content.startswith(NITF_SEGMENT) and len(content) > STREAM_COLOUR:
            colours = content[STREAM_COLOUR]
            if colours in {RGB_STREAM, YCBCR_STREAM}:
                answer = colours == RGB_STREAM
    return answer


EOI = b"\xff\xd9"
LOSSLESS = 0xC3
DECODER_ERRORS = (ValueError, TypeError, RuntimeError, NotImplementedError, MemoryError, OverflowError)
"""What imagecodecs raises at bytes that it cannot decode."""


class JpegDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: JbpJpegConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        self.rows, self.columns = shape[-2:]
        self.bands = math.prod(shape[:-2])

    def decode(self, data: bytes | memoryview) -> Pixels:
        """Return the chunk's pixels: of one stream, or of one for each band, one behind the other."""
        stream = bytes(data)
        behind = stream.lstrip(SOI[:1])
        if behind[:1] == SOI[1:]:  # before a marker any number of FF may stand (T.81, B.1.1.2)
            stream = SOI[:1] + behind
        if self.bands > 1 and jpeg_size(stream) == (self.rows, self.columns, 1):
            spans = find_streams(lambda start, stop: stream[start:stop], 0, len(stream), self.bands)
            planes = np.concatenate(
                [self._decoded(stream[at : at + length], 1) for at, length in zip(*spans, strict=True)]
            )
        else:
            planes = self._decoded(stream, self.bands)
        return np.ascontiguousarray(in_type(planes, self.dtype, JBP_JPEG)).reshape(self.shape)

    def _decoded(self, stream: bytes, bands: int) -> Pixels:
        """Return so many bands of one stream."""
        size = self._checked(stream, bands)
        try:
            data = complete_stream(stream, self.config.quality)
            is_lossless = LOSSLESS in list_markers(data)
            if size[2] == COLOURS and self.dtype == np.uint8 and not is_lossless:
                as_rgb = is_stored_as_rgb(data, otherwise=self.config.stored_as_rgb)
                return jpeg_planes(data, size[0], size[1], tables=None, stored_as_rgb=as_rgb)
            decode = imagecodecs.ljpeg_decode if is_lossless else imagecodecs.jpeg8_decode
            return np.moveaxis(np.asarray(decode(data)).reshape(size), -1, 0)
        except DECODER_ERRORS as error:
            raise MalformedError(f"JPEG data of {len(stream)} bytes do not decode: {error}", field=JBP_JPEG) from error

    def _checked(self, data: bytes, bands: int) -> tuple[int, int, int]:
        """Return the size that a stream declares, if it is the chunk's."""
        size = jpeg_size(data)
        if size is None:
            raise MalformedError("no frame header", field=JBP_JPEG)
        if size != (self.rows, self.columns, bands):
            raise MalformedError(
                f"JPEG data declare {size[0]} x {size[1]} x {size[2]} in a chunk of "
                f"{self.rows} x {self.columns} x {bands}",
                field=JBP_JPEG,
            )
        if data.rfind(EOI) < 0:
            # libjpeg would only warn, and leave the rest of the pixels grey
            raise MalformedError(f"JPEG data of {len(data)} bytes are cut off: no end of image (FF D9)", field=JBP_JPEG)
        return size


# Decoders by the configuration of their codecs

type Config = JbpBlockConfig | JbpJpegConfig | NitfVqConfig
type Make = Callable[[Any, Shape, np.dtype[Any], Any], IndexDecoder]


def block_decoder(
    config: JbpBlockConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any
) -> BlockDecoder | ColourDecoder:
    """Return the decoder of uncompressed blocks."""
    if config.palette is None:
        return BlockDecoder(config, shape, dtype, fill_value)
    index = sample_dtype(config.pixel_type, config.bits_per_pixel)
    return _colour_decoder(BlockDecoder, config, shape, dtype, index)


def jpeg_decoder(
    config: JbpJpegConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any
) -> JpegDecoder | ColourDecoder:
    """Return the decoder of JPEG streams."""
    if config.palette is None:
        return JpegDecoder(config, shape, dtype, fill_value)
    return _colour_decoder(JpegDecoder, config, shape, dtype, np.dtype(np.uint8))


def vq_decoder(config: NitfVqConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> VqDecoder | ColourDecoder:
    """Return the decoder of vector-quantised blocks, which are never short."""
    if config.palette is None:
        return VqDecoder(config, shape, dtype, fill_value)
    return _colour_decoder(VqDecoder, config, shape, dtype, np.dtype(np.uint8))


def _colour_decoder(
    make: Make, config: Config, shape: Shape, dtype: np.dtype[Any], index: np.dtype[Any]
) -> ColourDecoder:
    """Return the decoder of indices of a type that are looked up in the configuration's palette."""
    palette = Palette(config.palette or b"", config.name)
    palette.check_chunks(shape, dtype)
    plain = replace(config, palette=None)
    return ColourDecoder(make(plain, shape[-2:], index, 0), palette)


def jpeg_lack(_: Mapping[str, Any]) -> str | None:
    """Return why JPEG streams cannot be decoded in this environment, None if they can."""
    return decoder_of("JPEG8")[1]


class Scheme(NamedTuple):
    """What one value of IC, or several alike, means, and what decodes it."""

    name: str
    meaning: str
    decoder: str | None
    """The decoder of imagecodecs, empty for numpy, None where nobody here has one."""


SCHEMES = (
    Scheme("NC, NM", "not compressed", ""),
    Scheme("NC, NM packed", "samples that are no whole bytes", "PACKINTS"),
    Scheme("C1, M1", "facsimile (CCITT T.4)", "CCITTFAX3"),
    Scheme("C3, M3, I1", "JPEG", "JPEG8"),
    Scheme("C4, M4", "vector quantisation", ""),
    Scheme("C5, M5", "lossless JPEG", "LJPEG"),
    Scheme("C8, M8", "JPEG 2000", "JPEG2K"),
    Scheme("CD, MD", "JPEG 2000 with the HT coder", "JPEG2K"),
    Scheme("C6, M6", "correlated multicomponent compression", None),
    Scheme("C7, M7", "SAR complex compression", None),
)
"""The values of IC, in the standard's order."""


def decoders() -> Iterator[DecoderState]:
    """Yield for every value of IC what decodes it in this environment."""
    from jnrrdz.formats.jpeg2000 import openjpeg as openjp2  # noqa: PLC0415  few who decode blocks look for it

    for scheme in SCHEMES:
        yield DecoderState(scheme.name, *decoder_of(scheme.decoder), meaning=scheme.meaning)
    reason: str | None = openjp2.INSTALL
    with suppress(UnsupportedError):
        openjp2.binding()
        reason = None
    library = None if reason else "libopenjp2 (glymur)"
    meaning = "JPEG 2000 whose components differ in precision, sign or size"
    yield DecoderState("C8, M8, CD, MD mixed", library, reason, meaning=meaning)


def decoder_of(name: str | None) -> tuple[str | None, str | None]:
    """Return what decodes, and why it cannot (None if it can)."""
    if name is None:
        return None, "no decoder is known"
    if not name:
        return "numpy", None
    if getattr(imagecodecs, name).available:
        return f"imagecodecs {name}", None
    return None, f"this build of imagecodecs has no {name}; one that has it: pip install -U imagecodecs"
