"""A TIFF made up around one tile or strip, so that decoders that read whole files read it.

May touch the layout tables and the model.
Spec: docs/codecs/tiff-tile/README.md

How many bytes a tile or strip becomes under a scheme that compresses bytes, whatever they mean.

May touch imagecodecs, the layout tables and the model.

Tiles and strips of a TIFF to arrays: a synthetic TIFF of one strip, parsed once, decodes every chunk.

May touch numpy, tifffile, imagecodecs, the layout tables and the model; no I/O, no zarr.  tifffile
decodes what it can; libtiff (through imagecodecs) the rest.  What a chunk declares is compared with
the chunk's size before anything is decoded.
Spec: docs/codecs/tiff-tile/README.md

Tiles of palette indices to colours.

May touch numpy, the tile decoder and the model; no I/O, no zarr.  A chunk of indices, decoded as any
other tile, is looked up in the table of the configuration: `palette`, with red, green and blue of
each value in turn, 8 bits each.
Spec: docs/codecs/tiff-tile/README.md
"""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from numpy.typing import NDArray

from jnrrdz.core.codecs import TIFF_TILE, TiffTileConfig
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.format import DecoderState
from jnrrdz.formats.image_streams import COLOURS, check_declared, check_possible, jpeg_planes, webp_planes
from jnrrdz.formats.tiff.tags import (
    BYTE_STREAMS,
    JPEG2000S,
    Compression,
    FieldType,
    Photometric,
    Planar,
    SampleFormat,
    Tag,
    name_of,
)

JPEG_COLOURS = 3

type TagValues = tuple[int, int, tuple[int, ...] | bytes]


def synthetic_tiff(config: TiffTileConfig, width: int, height: int, data: bytes) -> bytes:
    """Return a TIFF whose only strip is `data`, `width` x `height` pixels, tagged as the source is."""
    order = "<" if config.byte_order == "little" else ">"
    separate = config.planar_config == Planar.SEPARATE
    samples = 1 if separate else config.samples_per_pixel
    tags: list[TagValues] = [
        (Tag.ImageWidth, FieldType.LONG, (width,)),
        (Tag.ImageLength, FieldType.LONG, (height,)),
        (Tag.BitsPerSample, FieldType.SHORT, config.bits_per_sample[:samples]),
        (Tag.Compression, FieldType.SHORT, (config.compression,)),
        (Tag.PhotometricInterpretation, FieldType.SHORT, (_photometric(config, separate=separate),)),
        (Tag.FillOrder, FieldType.SHORT, (config.fill_order,)),
        (Tag.StripOffsets, FieldType.LONG, (0,)),
        (Tag.SamplesPerPixel, FieldType.SHORT, (samples,)),
        (Tag.RowsPerStrip, FieldType.LONG, (height,)),
        (Tag.StripByteCounts, FieldType.LONG, (len(data),)),
        (Tag.PlanarConfiguration, FieldType.SHORT, (Planar.CHUNKY,)),
        (Tag.SampleFormat, FieldType.SHORT, config.sample_format[:samples]),
    ]
    tags += _special_tags(config, len(data), separate=separate)
    return _assembled(order, sorted(tags), data)


def _special_tags(config: TiffTileConfig, nbytes: int, *, separate: bool) -> list[TagValues]:
    """Return the tags that only some schemes and colours need."""
    long, short, rational = FieldType.LONG, FieldType.SHORT, FieldType.RATIONAL
    has_palette = config.photometric == Photometric.PALETTE
    is_old = config.compression == Compression.OLD_JPEG
    optional: list[tuple[bool, TagValues]] = [
        (config.predictor != 1, (Tag.Predictor, short, (config.predictor,))),
        (config.t4_options is not None, (Tag.T4Options, long, (config.t4_options or 0,))),
        (not (separate or _is_plain_jpeg(config)), (Tag.ExtraSamples, short, config.extra_samples)),
        (True, (Tag.YCbCrSubSampling, short, config.ycbcr_subsampling)),
        (True, (Tag.YCbCrCoefficients, rational, config.ycbcr_coefficients)),
        (True, (Tag.ReferenceBlackWhite, rational, config.reference_black_white)),
        (is_old, (Tag.JPEGProc, short, (1,))),
        (is_old, (Tag.JPEGInterchangeFormat, long, (0,))),
        (is_old, (Tag.JPEGInterchangeFormatLength, long, (nbytes,))),
        (True, (Tag.LERCParameters, long, config.lerc_parameters)),
        (has_palette, (Tag.ColorMap, short, (0,) * (3 << min(config.bits_per_sample[0], 16)))),
        (True, (Tag.JPEGTables, FieldType.UNDEFINED, config.jpeg_tables or b"")),
    ]
    return [entry for wanted, entry in optional if wanted and entry[2]]


def _photometric(config: TiffTileConfig, *, separate: bool) -> int:
    """One plane of several is grey, whatever the planes together are."""
    if separate:
        return Photometric.MINISBLACK
    return Photometric.RGB if _is_plain_jpeg(config) else config.photometric


def _is_plain_jpeg(config: TiffTileConfig) -> bool:
    """Whether chunks are JPEGs of three components that are no YCbCr.

    libtiff takes their numbers as they are, be they grey, Lab or red, green and blue.  tifffile
    does so for plain RGB only, and leaves all else to libjpeg, which guesses that they are YCbCr.
    """
    is_three = config.compression == Compression.JPEG and config.samples_per_pixel == JPEG_COLOURS
    return is_three and config.photometric != Photometric.YCBCR


def _assembled(order: str, tags: list[TagValues], data: bytes) -> bytes:
    """Return header, one IFD, the values that do not fit in it, and the data."""
    codes = {FieldType.SHORT: "H", FieldType.LONG: "I", FieldType.RATIONAL: "I"}
    values = [
        value if isinstance(value, bytes) else struct.pack(f"{order}{len(value)}{codes[FieldType(kind)]}", *value)
        for _, kind, value in tags
    ]
    end = 8 + 2 + 12 * len(tags) + 4
    loose = [len(value) + len(value) % 2 if len(value) > 4 else 0 for value in values]  # noqa: PLR2004  a field's room
    start = end + sum(loose)
    ifd, heap = struct.pack(order + "H", len(tags)), b""
    for (tag, kind, value), packed, room in zip(tags, values, loose, strict=True):
        field = packed.ljust(4, b"\0")
        if room:
            field = struct.pack(order + "I", end + len(heap))
            heap += packed.ljust(room, b"\0")
        if tag in {Tag.StripOffsets, Tag.JPEGInterchangeFormat}:
            field = struct.pack(order + "I", start)
        count = len(value) // 2 if kind == FieldType.RATIONAL else len(value)
        ifd += struct.pack(order + "HHI", tag, kind, count) + field
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "I", 8) + ifd + bytes(4) + heap + data


REVERSED = 2
DECODERS: dict[int, Callable[..., bytes | bytearray | memoryview]] = {
    Compression.LZW: imagecodecs.lzw_decode,
    Compression.DEFLATE: imagecodecs.zlib_decode,
    Compression.DEFLATE_OLD: imagecodecs.zlib_decode,
    Compression.PIXTIFF: imagecodecs.zlib_decode,
    Compression.PACKBITS: imagecodecs.packbits_decode,
    Compression.LZMA: imagecodecs.lzma_decode,
    Compression.ZSTD: imagecodecs.zstd_decode,
    Compression.ZSTD_OLD: imagecodecs.zstd_decode,
}


def unpacked_length(data: bytes | memoryview, config: TiffTileConfig, most: int) -> int:
    """Return the length of what the data become, `most` at the most; what the decoder raises goes through."""
    if config.compression == Compression.NONE:
        return len(data)
    stream = imagecodecs.bitorder_decode(bytes(data)) if config.fill_order == REVERSED else data
    return len(DECODERS[config.compression](stream, out=most))


type Shape = tuple[int, ...]
type Decode = Callable[..., tuple[NDArray[Any] | None, Any, Any]]

INT24 = 24
SOI, EOI = b"\xff\xd8", b"\xff\xd9"
JPEGS = {Compression.JPEG, Compression.OLD_JPEG, Compression.ALT_JPEG, Compression.JPEG_LOSSY}
LERC_MAGIC = {b"Lerc", b"CntZ"}
LERC_HEADERS = 1 << 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LIBTIFF_ONLY = {
    Compression.CCITT_RLEW,
    Compression.OLD_JPEG,
    Compression.NEXT,
    Compression.THUNDERSCAN,
    Compression.PIXARLOG,
    Compression.SGILOG,
    Compression.SGILOG24,
}

SELF_SIZED = {
    *JPEGS,
    *JPEG2000S,
    Compression.JPEGXR,
    Compression.JPEGXR_NDPI,
    Compression.LERC,
    Compression.PNG,
    Compression.WEBP,
    Compression.WEBP_OLD,
    Compression.JPEGXL,
    Compression.JPEGXL_DNG,
}
"""Image formats, whose data say how high and wide they are."""

DECODER_ERRORS = (
    ValueError,
    TypeError,
    RuntimeError,  # every error of imagecodecs' decoders
    NotImplementedError,
    OverflowError,
    struct.error,
    IndexError,
    KeyError,
    MemoryError,
    tifffile.TiffFileError,
)
"""What the libraries raise at bytes that they cannot decode."""


class TileDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: TiffTileConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        self.samples = 1 if config.planar_config == Planar.SEPARATE else config.samples_per_pixel
        expected = (config.tile_height, config.tile_width)
        lead = int(np.prod(shape[:-2], dtype=np.int64))
        if shape[-2:] != expected or lead != self.samples:
            raise MalformedError(
                f"chunks of shape {shape} where tiles of {self.samples} x {expected} were declared",
                field="tiff-tile",
            )
        if config.compression not in Compression:
            raise UnsupportedError(f"compression {config.compression}", field="tiff-tile")

    @property
    def _can_tifffile(self) -> bool:
        config = self.config
        if config.bits_per_sample[:1] == (INT24,) and config.sample_format[:1] != (SampleFormat.IEEEFP,):
            return False  # tifffile knows no signed ones, and unpacks big-endian ones as if they were little
        return config.compression not in LIBTIFF_ONLY and not self._is_subsampled_raw

    @property
    def _is_subsampled_raw(self) -> bool:
        """YCbCr with subsampled chroma that no image codec undoes: libtiff's RGBA reading alone does."""
        config = self.config
        return config.photometric == Photometric.YCBCR and config.compression in BYTE_STREAMS

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the sizes (height, width) that a chunk may have: whole, then cut at the image's edges.

        Only an image format that says its own size may be narrower: in all others a row of an edge
        tile is as long as any.
        """
        config = self.config
        heights = {config.tile_height: None, config.image_height % config.tile_height or config.tile_height: None}
        widths = {config.tile_width: None}
        if config.compression in SELF_SIZED:
            widths[config.image_width % config.tile_width or config.tile_width] = None
        yield from ((height, width) for height in heights for width in widths)

    @cached_property
    def _pages(self) -> dict[tuple[int, int, bool], Decode]:
        """The decode function of tifffile for every size, with and without a JFIF header in the chunk."""
        sizes = {size: None for height, width in self.sizes() for size in ((height, width), (height + 1, width))}
        return {
            (height, width, jfif): self._page(height, width, jfif=jfif)
            for height, width in sizes
            for jfif in ((False, True) if self.config.compression in JPEGS else (False,))
        }

    def _page(self, height: int, width: int, *, jfif: bool) -> Decode:
        # tifffile looks for JFIF in the first segment of the file and decides the colours by it
        stub = b"\xff\xd8\xff\xe0\0\x10JFIF\0\0" if jfif else bytes(12)
        with tifffile.TiffFile(io.BytesIO(synthetic_tiff(self.config, width, height, stub))) as tif:
            page = tif.pages[0]
            decode: Decode = page.decode
        return decode

    @cached_property
    def _least_bytes(self) -> int:
        """Bytes of the smallest chunk that there may be; nothing is known of subsampled ones."""
        if self._is_subsampled_raw:
            return 0
        bits = sum(self.config.bits_per_sample[: self.samples])
        return min(height * -(-width * bits // 8) for height, width in self.sizes())

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short tiles padded with the fill value."""
        if self.config.jpeg_header is not None and bytes(data[:2]) != SOI:
            data = b"".join((self.config.jpeg_header, data, EOI))
        height, width = self.shape[-2:]
        if self.config.compression == Compression.LERC:
            data = self._bare_lerc(data)
        declared = check_declared(self.config.compression, data, height, width, self.samples)
        check_possible(self.config.compression, len(data), self._least_bytes)
        try:
            if self._is_rgb and declared == (height, width, COLOURS):
                return self._rgb_planes(data)
            if self._can_tifffile:
                return self._fitted(self._by_tifffile(data))
            return self._fitted(self._by_libtiff(data))
        except JnrrdzError:
            raise
        except DECODER_ERRORS as error:
            scheme = name_of(Compression, self.config.compression)
            raise MalformedError(f"{scheme} data of {len(data)} bytes do not decode: {error}") from error

    def _bare_lerc(self, data: bytes | memoryview) -> bytes | memoryview:
        """Return LERC data without the deflate or ZSTD around them, no more of them than a chunk can need."""
        magic = bytes(data[:4])
        if magic in LERC_MAGIC:
            return data
        inner = imagecodecs.zstd_decode if magic == ZSTD_MAGIC else imagecodecs.zlib_decode
        most = 2 * int(np.prod(self.shape)) * self.dtype.itemsize + LERC_HEADERS
        try:
            return memoryview(inner(data, out=most))
        except DECODER_ERRORS as error:
            raise MalformedError(f"LERC data of {len(data)} bytes do not decompress: {error}") from error

    @cached_property
    def _is_rgb(self) -> bool:
        """Whether chunks are whole colours of 8 bits: the common case, and one with a faster way."""
        config = self.config
        colours = config.photometric in {Photometric.RGB, Photometric.YCBCR} and not config.extra_samples
        bytes_only = self.samples == COLOURS and set(config.bits_per_sample) == {8} and self.dtype == np.uint8
        return config.compression in {Compression.JPEG, Compression.WEBP} and colours and bytes_only

    def _rgb_planes(self, data: bytes | memoryview) -> NDArray[Any]:
        height, width = self.shape[-2:]
        if self.config.compression == Compression.WEBP:
            return webp_planes(data, height, width).reshape(self.shape)
        # as tifffile has it: what claims to be RGB is RGB, unless a JFIF header says that it is YCbCr
        plain = self.config.photometric == Photometric.RGB and bytes(data[6:10]) != b"JFIF"
        planes = jpeg_planes(data, height, width, tables=self.config.jpeg_tables, stored_as_rgb=plain)
        return planes.reshape(self.shape)

    def _by_tifffile(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return pixels in tifffile's order (row, column, sample); an edge's size if not the whole one fits."""
        jfif = self.config.compression in JPEGS and bytes(data[6:10]) == b"JFIF"
        first: Exception | None = None
        extra = {} if self.config.jpeg_tables is None else {"jpegtables": self.config.jpeg_tables}
        for height, width in self.sizes():
            try:
                pixels = self._pages[height, width, jfif](data, 0, **extra)[0]
            except DECODER_ERRORS as error:
                first = first or error
                continue
            if pixels is not None and not self._holds_more(data, height, width):
                return pixels.reshape(height, width, -1)
        raise first or MalformedError("no pixels")

    def _holds_more(self, data: bytes | memoryview, height: int, width: int) -> bool:
        """Whether the data of a short chunk go on for another row: then they are a whole one's, cut off."""
        if height == self.config.tile_height or self.config.compression not in BYTE_STREAMS:
            return False
        try:
            return self._pages[height + 1, width, False](data, 0)[0] is not None
        except DECODER_ERRORS:
            return False

    def _by_libtiff(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return pixels in the order (row, column, sample), through libtiff."""
        first: Exception | None = None
        sizes = self._ycbcr_sizes(data) if self._is_subsampled_raw else self.sizes()
        for height, width in sizes:
            try:
                pixels = imagecodecs.tiff_decode(synthetic_tiff(self.config, width, height, bytes(data)))
            except DECODER_ERRORS as error:
                first = first or error
                continue
            return np.asarray(pixels).reshape(height, width, -1)[..., : self.samples]
        raise first or MalformedError("no pixels")

    def _ycbcr_sizes(self, data: bytes | memoryview) -> Iterator[tuple[int, int]]:
        """Yield the one size that the bytes are right for; libtiff would make up the rest of a short deflate stream."""
        config = self.config
        across, down = (1, 1) if config.planar_config == Planar.SEPARATE else config.ycbcr_subsampling or (2, 2)
        parts = 1 if config.planar_config == Planar.SEPARATE else across * down + 2
        found = unpacked_length(data, config, parts * -(-config.tile_width // across) * -(-config.tile_height // down))
        for height, width in self.sizes():
            rows = found // (parts * -(-width // across)) * down
            if rows >= height:
                if height < config.tile_height and rows >= height + down:
                    break  # a whole chunk's, cut off
                yield height, width
                return
        raise MalformedError(f"the chunk's data become {found} bytes, which are neither a whole chunk's nor an edge's")

    def _fitted(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Return (row, column, sample) pixels in the chunk's shape and type."""
        height, width, samples = pixels.shape
        if samples != self.samples:
            raise MalformedError(f"{samples} samples a pixel where {self.samples} belong")
        typed = pixels.astype(self.dtype, copy=False) if pixels.dtype != self.dtype else pixels
        planes = np.moveaxis(typed, -1, 0)
        if (height, width) != self.shape[-2:]:
            whole = np.full((samples, *self.shape[-2:]), self.fill_value, self.dtype)
            whole[:, :height, :width] = planes
            planes = whole
        return planes.reshape(self.shape)


CHANNELS = 3
BYTE_BITS = 8


class PaletteDecoder:
    """Decodes the chunks of one array of colours, stored as indices; safe to use from many threads."""

    def __init__(self, config: TiffTileConfig, shape: Shape, dtype: np.dtype[Any]) -> None:
        entries = config.palette or b""
        if not entries or len(entries) % CHANNELS:
            raise MalformedError(f"{len(entries)} bytes are no palette of red, green and blue", field=TIFF_TILE)
        if shape[:-2] != (CHANNELS,) or dtype != np.uint8 or config.samples_per_pixel != 1:
            raise MalformedError(
                f"chunks of shape {shape} and type {dtype} where a palette gives {CHANNELS} bands of uint8",
                field=TIFF_TILE,
            )
        self._table = np.ascontiguousarray(np.frombuffer(entries, np.uint8).reshape(-1, CHANNELS).T)
        index = np.dtype("u1" if config.bits_per_sample[0] <= BYTE_BITS else "u2")
        self._indices = TileDecoder(replace(config, palette=None), shape[-2:], index, 0)

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's colours, band by band."""
        indices = self._indices.decode(data)
        largest, count = int(indices.max()), self._table.shape[1]
        if largest >= count:
            raise MalformedError(f"index {largest} into a palette of {count} colours", field=TIFF_TILE)
        return self._table[:, indices]


IMAGECODECS = {
    Compression.CCITT_RLE: "CCITTRLE",
    Compression.CCITT_T4: "CCITTFAX3",
    Compression.CCITT_T6: "CCITTFAX4",
    Compression.LZW: "LZW",
    Compression.OLD_JPEG: "JPEG8",
    Compression.JPEG: "JPEG8",
    Compression.ALT_JPEG: "JPEG8",
    Compression.JPEG_LOSSY: "JPEG8",
    Compression.DEFLATE: "DEFLATE",
    Compression.PACKBITS: "PACKBITS",
    Compression.DEFLATE_OLD: "DEFLATE",
    Compression.APERIO_JP2000_YCBC: "JPEG2K",
    Compression.JPEG2000_LOSSY: "JPEG2K",
    Compression.APERIO_JP2000_RGB: "JPEG2K",
    Compression.JPEG2000: "JPEG2K",
    Compression.LERC: "LERC",
    Compression.LZMA: "LZMA",
    Compression.ZSTD_OLD: "ZSTD",
    Compression.WEBP_OLD: "WEBP",
    Compression.PNG: "PNG",
    Compression.JPEGXR: "JPEGXR",
    Compression.JPEGXR_NDPI: "JPEGXR",
    Compression.JETRAW: "JETRAW",
    Compression.ZSTD: "ZSTD",
    Compression.WEBP: "WEBP",
    Compression.JPEGXL: "JPEGXL",
    Compression.PIXTIFF: "DEFLATE",
    Compression.JPEGXL_DNG: "JPEGXL",
}
"""The decoder of imagecodecs that tifffile calls for a scheme."""


def decoder_of(scheme: Compression) -> tuple[str | None, str | None]:
    """Return what decodes a TIFF compression, and why it cannot be decoded (None if it can)."""
    if scheme == Compression.NONE:
        return "numpy", None
    name = "TIFF" if scheme in LIBTIFF_ONLY else IMAGECODECS.get(scheme)
    if name is None:
        return None, "no decoder is known"
    if not getattr(imagecodecs, name).available:
        return None, f"this build of imagecodecs has no {name}; one that has it is needed"
    return "libtiff (imagecodecs)" if name == "TIFF" else f"imagecodecs {name}", None


def decoders() -> Iterator[DecoderState]:
    """Yield for every compression of TIFF what decodes it in this environment."""
    for scheme in Compression:
        yield DecoderState(scheme.name, *decoder_of(scheme), number=int(scheme))
