"""Tiles and strips of a TIFF to arrays.

Decoders that read whole files are fed a TIFF made up around one tile or strip: tifffile parses it once for each
size that a chunk may have, and decodes all chunks of that size; libtiff (through imagecodecs) reads
what tifffile does not.  What a chunk declares is compared with the chunk's size before anything is decoded.
Palette indices are decoded as any other tile, and looked up in the configuration's `palette`.
Spec: docs/codecs/tiff-tile/README.md
"""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from numpy.typing import NDArray

from jnrrdz.core.configuration import BYTE_BITS, check_type, in_type
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.colours import Palette
from jnrrdz.formats.format import DecoderState
from jnrrdz.formats.image_streams import COLOURS, jpeg_words, lerc_size, scratch, upper_rows, webp_words
from jnrrdz.formats.jpeg_markers import LOSSLESS, JpegMarkers, Size, jpeg_markers
from jnrrdz.formats.tiff.codecs import TIFF_TILE, TiffTileConfig
from jnrrdz.formats.tiff.declared import check_declared, check_jpeg, check_possible
from jnrrdz.formats.tiff.fax import Rows, rows_held
from jnrrdz.formats.tiff.samples import (
    DECODER_ERRORS,
    DECODERS,
    INT24,
    OCTETS,
    float_planes,
    integers_of_24_bits,
    unpacked,
    without_float_predictor,
)
from jnrrdz.formats.tiff.schemes import BY_NUMBER, BYTE_STREAMS, SCHEMES, Compression, Kind, check_decodable, of_kind
from jnrrdz.formats.tiff.synthetic import JPEGS, synthetic_tiff
from jnrrdz.formats.tiff.tags import (
    ExtraSample,
    Photometric,
    Planar,
    Predictor,
    SampleFormat,
    name_of,
    sample_dtype,
    tile_samples,
)

REVERSED = 2


PLANES = 3
"""Axes of chunks that are bands, rows and columns."""

PREDICTED = {int(Predictor.HORIZONTAL): "ui", int(Predictor.FLOATING_POINT): "f"}
"""Kinds of elements that a predictor is for."""


type Shape = tuple[int, ...]
type Reach = tuple[int, int]
"""Rows and columns of a chunk up to the last ones that are selected."""

type Decode = Callable[..., tuple[NDArray[Any] | None, Any, Any]]
RGBA = 4
SOI, EOI = b"\xff\xd8", b"\xff\xd9"
BEHIND_JPEG = bytes(range(0xB5, 0xF5)) * 4
"""Bytes without a marker, whose first bits are not the zeros that libjpeg reads behind an end."""
LERC_MAGIC = {b"Lerc", b"CntZ"}
LERC_HEADERS = 1 << 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
FAXES = of_kind(Kind.FAX)
LIBTIFF_ONLY = {number for number, scheme in SCHEMES.items() if scheme.decoder == "TIFF"}
SELF_SIZED = of_kind(Kind.IMAGE, Kind.JPEG)
"""Image formats, whose data say how high and wide they are."""


def has_jfif(data: bytes | memoryview, markers: JpegMarkers) -> bool:
    """Return whether a JFIF header says that colours are YCbCr, as no lossless JPEG has them."""
    return bytes(data[6:10]) == b"JFIF" and markers.frame_kind(data) != LOSSLESS


def reach_of(selection: Sequence[Any]) -> Reach:
    """Return the reach of a selection; its last two members select rows and columns."""
    rows, columns = (_end_of(selected) for selected in selection[-2:])
    return rows, columns


def _end_of(selected: Any) -> int:
    """Return the first position behind a slice, an index or an array of indices."""
    if isinstance(selected, slice):
        return int(selected.stop)
    return int(np.max(selected, initial=-1)) + 1


class TileDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: TiffTileConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        check_decodable(config)
        self._stored = sample_dtype(config.bits_per_sample, config.sample_format)
        check_type(dtype, *tile_samples(config), TIFF_TILE)
        self.samples = 1 if config.planar_config == Planar.SEPARATE else config.samples_per_pixel
        expected = (config.tile_height, config.tile_width)
        lead = int(np.prod(shape[:-2], dtype=np.int64))
        if shape[-2:] != expected or lead != self.samples:
            raise MalformedError(
                f"chunks of shape {shape} where tiles of {self.samples} x {expected} were declared",
                field="tiff-tile",
            )
        # the sizes (height, width) that a chunk may have: whole, then cut at the image's edges; only an image format
        # that says its own size may be narrower: in all others a row of an edge tile is as long as any
        heights = [config.tile_height, config.image_height % config.tile_height or config.tile_height]
        widths = [config.tile_width]
        if config.compression in SELF_SIZED:
            widths.append(config.image_width % config.tile_width or config.tile_width)
        self.sizes = list(dict.fromkeys(product(heights, widths)))
        # YCbCr with subsampled chroma that no image codec undoes: libtiff's RGBA reading alone does
        self._is_ycbcr = config.photometric == Photometric.YCBCR and config.compression in BYTE_STREAMS
        is_float = config.sample_format[:1] == (SampleFormat.IEEEFP,)
        # tifffile knows no signed samples of 24 bits, and unpacks big-endian ones as if they were little
        self._is_int24 = config.bits_per_sample[:1] == (INT24,) and not is_float
        self._is_complex = self._stored.kind == "c"
        self._needs_libtiff = self._is_ycbcr or config.compression in LIBTIFF_ONLY
        bits = set(config.bits_per_sample)
        are_floats = set(config.sample_format) == {SampleFormat.IEEEFP} and len(bits) == 1 and bits <= {16, 24, 32, 64}
        self._has_float_predictor = (
            config.predictor == Predictor.FLOATING_POINT and are_floats and (config.compression in DECODERS)
        )
        # whole colours of 8 bits: the common case, and one with a faster way
        is_colour = config.photometric in {Photometric.RGB, Photometric.YCBCR} and not config.extra_samples
        is_bytes = self.samples == COLOURS and set(config.bits_per_sample) == {8} and dtype == np.uint8
        self._is_rgb = config.compression in {Compression.JPEG, Compression.WEBP} and is_colour and is_bytes
        # elements of one type that are stored as this machine has them, behind at most one compressor and a predictor
        are_whole = len(set(config.bits_per_sample)) == 1 and dtype == self._stored == self._stored.newbyteorder("<")
        kinds = "uif" if config.predictor == 1 else PREDICTED.get(config.predictor, "")
        self._is_stream = (
            SCHEMES[config.compression].writes_in_place
            and are_whole
            and config.bits_per_sample[0] == 8 * dtype.itemsize
            and (config.byte_order == "little" or dtype.itemsize == 1)
            and config.fill_order != REVERSED
            and not self._needs_libtiff
            and dtype.kind in kinds
            and (config.predictor == 1 or config.compression != Compression.NONE)
        )
        pixel_bits = sum(config.bits_per_sample[: self.samples])
        least = min(height * -(-width * pixel_bits // 8) for height, width in self.sizes)
        is_signed = config.sample_format[:1] == (SampleFormat.INT,)
        spare = 8 * self._stored.itemsize - config.bits_per_sample[0]
        self._spare_bits = spare if is_signed and not self._is_int24 else 0
        self._row_bytes = -(-config.tile_width * pixel_bits // 8)
        self._nbytes = math.prod(shape) * self._stored.itemsize
        self._least_bytes = 0 if self._is_ycbcr else least  # nothing is known of subsampled ones

    @cached_property
    def _pages(self) -> dict[tuple[int, int, bool], Decode]:
        """The decode function of tifffile for every size, with and without a JFIF header in the chunk."""
        pages: dict[tuple[int, int, bool], Decode] = {}
        config = self.config
        if config.compression in BYTE_STREAMS:  # `_unpacked` gives the bytes
            config = replace(config, compression=Compression.NONE, fill_order=1)
        if self._has_float_predictor:
            # its bytes are in no order but their own, which `without_float_predictor` knows
            config = replace(config, predictor=1, byte_order="little")
        headers = (False, True) if config.compression in JPEGS else (False,)
        for (height, width), jfif in product(self.sizes, headers):
            # tifffile looks for JFIF in the first segment of the file and decides the colours by it
            stub = b"\xff\xd8\xff\xe0\0\x10JFIF\0\0" if jfif else bytes(12)
            with tifffile.TiffFile(io.BytesIO(synthetic_tiff(config, width, height, stub))) as tif:
                pages[height, width, jfif] = tif.pages[0].decode
        return pages

    def place(self, data: memoryview, selection: Any, out: NDArray[Any]) -> None:
        """Put what is selected of a chunk to its place, without a copy on the way where that can be."""
        if not self._is_stream:
            pixels = self._decoded(data, reach_of(selection))
            np.copyto(out, pixels[selection], casting="unsafe")  # words to their lowest byte
            return
        elements = self._streamed(data)
        if self.config.predictor == Predictor.FLOATING_POINT:
            size = self.dtype.itemsize
            differences = elements.view(np.uint8).reshape(len(elements), -1, self.samples)
            octets, planes = out.view(OCTETS[size]), float_planes(differences, size)
            for name, plane in zip(octets.dtype.names or (), planes, strict=True):
                np.copyto(octets[name], np.moveaxis(plane, -1, 0).reshape(self.shape)[selection])
            return
        if self.config.predictor == Predictor.HORIZONTAL:
            *bands, rows, columns = selection
            if out.ndim == len(selection) <= PLANES and not columns.start:  # slices, and nothing before them is needed
                place = out.transpose(1, 2, 0) if bands else out[..., np.newaxis]
                imagecodecs.delta_decode(elements[rows, columns, *bands], axis=1, out=place)
                return
            elements = imagecodecs.delta_decode(elements, axis=1, out=elements)
        np.copyto(out, elements.transpose(2, 0, 1).reshape(self.shape)[selection])

    def decode(self, data: bytes | memoryview, reach: Reach | None = None) -> NDArray[Any]:
        """Return the chunk's pixels, short tiles padded with the fill value.

        A tile that is smaller than the reach is an error: only tiles at the image's edge
        may be short, and nothing beyond an edge is ever selected.
        """
        decoded = self._decoded(data, reach)
        return decoded if decoded.dtype == self.dtype else decoded.astype(self.dtype, order="C")

    def selected(self, data: bytes | memoryview, selection: Any) -> NDArray[Any]:
        """Return a selection of the chunk's pixels."""
        pixels: NDArray[Any] = self.decode(data, reach_of(selection))[selection]
        return pixels

    def _streamed(self, data: memoryview) -> NDArray[Any]:
        """Return (row, column, sample) elements of a whole chunk, still predicted; data of any other are an error."""
        scheme, nbytes = self.config.compression, self._nbytes
        check_possible(scheme, len(data), nbytes)
        flat = unpacked(scheme, data, scratch(nbytes))
        if len(flat) != nbytes:
            raise MalformedError(f"{len(flat)} bytes where {nbytes} belong")
        return np.frombuffer(flat, self._stored).reshape(*self.shape[-2:], self.samples)

    def _decoded(self, data: bytes | memoryview, reach: Reach | None = None) -> NDArray[Any]:
        """Return the chunk's pixels, or `image_streams`' words with colours as lowest bytes.

        Rows below the reach may be left out.
        """
        header = self.config.jpeg_header
        if header is not None and bytes(data[:2]) != SOI:
            data = header + bytes(data)
            if self.config.compression != Compression.OLD_JPEG:
                data += EOI  # a restart interval of NDPI, which ends where it is listed
        if self.config.compression not in JPEGS:
            return self._whole(data, reach)
        markers = jpeg_markers(data)
        if self.config.compression != Compression.OLD_JPEG or markers.end is not None:
            return self._whole(data, reach, markers)
        # nothing says where such data end: if a decoder gets to what follows them, then
        # other bytes there give other pixels
        ended = b"".join((data, EOI))
        pixels = self._whole(ended, reach, jpeg_markers(ended))
        longer = b"".join((data, BEHIND_JPEG, EOI))
        others = self._whole(longer, reach, jpeg_markers(longer))
        if not np.array_equal(others, pixels):
            text = f"JPEG data of {len(data)} bytes end before the chunk's last pixels"
            raise MalformedError(text)
        return pixels

    def _whole(self, data: bytes | memoryview, reach: Reach | None, markers: JpegMarkers | None = None) -> NDArray[Any]:
        """Return the pixels of data that lack nothing; JPEGs come with their markers."""
        config = self.config
        height, width = self.shape[-2:]
        if config.compression == Compression.LERC:
            data = self._bare_lerc(data)
        if markers is None:
            declared = check_declared(config.compression, data, height, width, self.samples)
        else:
            declared = check_jpeg(data, markers, height, width, self.samples)
        check_possible(config.compression, len(data), self._least_bytes)
        try:
            if not self._is_rgb or declared != (height, width, COLOURS):
                pixels = self._elements(data, markers, declared, reach)
                return self._fitted(pixels, reach)
            if markers is None:
                return webp_words(data, height, width).reshape(self.shape)
            # as tifffile has it: what claims to be RGB is RGB, unless a JFIF header says
            # that it is YCbCr
            plain = config.photometric == Photometric.RGB and not has_jfif(data, markers)
            if reach is not None:
                data, height = upper_rows(data, markers, height, reach[0])
            words = jpeg_words(data, height, width, tables=config.jpeg_tables, stored_as_rgb=plain)
            return words.reshape(*self.shape[:-2], *words.shape[1:])
        except JnrrdzError:
            raise
        except DECODER_ERRORS as error:
            scheme = name_of(Compression, config.compression)
            raise MalformedError(f"{scheme} data of {len(data)} bytes do not decode: {error}") from error

    def _elements(
        self,
        data: bytes | memoryview,
        markers: JpegMarkers | None,
        declared: Size | None,
        reach: Reach | None,
    ) -> NDArray[Any]:
        """Return the pixels of any scheme in the order (row, column, sample)."""
        if markers is not None:
            return self._pixels(data, declared, is_jfif=has_jfif(data, markers))
        scheme = self.config.compression
        if scheme in BYTE_STREAMS:
            return self._stream_pixels(data, reach)
        if scheme in FAXES:
            return self._fax(data)
        if scheme == Compression.LERC:
            return self._lerc(data)
        if scheme in SELF_SIZED:
            return self._image(data)
        return self._pixels(data, declared)

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

    def _lerc(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return pixels in the order (row, column, sample), masked ones as libtiff has them.

        A masked float is NaN.  Of bytes with an alpha that is nothing but 0 and 255, the alpha is stored as the mask.
        """
        decoded: tuple[NDArray[Any], NDArray[Any] | None] = imagecodecs.lerc_decode(data, masks=True)
        pixels, mask = decoded
        if pixels.ndim > 2 and (lerc_size(data) or (0, 0, 1))[2] == 1:  # noqa: PLR2004  bands, rows, columns
            pixels = np.moveaxis(pixels, 0, -1)
            mask = np.moveaxis(mask, 0, -1) if mask is not None and mask.ndim > 2 else mask  # noqa: PLR2004
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        if pixels.dtype != self._stored or pixels.shape[:2] not in self.sizes:
            raise MalformedError(
                f"LERC data of {pixels.shape[0]} x {pixels.shape[1]} {pixels.dtype} "
                f"in a chunk of {self.shape[-2]} x {self.shape[-1]} {self._stored}"
            )
        opaque = np.True_ if mask is None else mask.reshape(*pixels.shape[:2], -1)
        has_alpha = self.config.extra_samples[-1:] == (ExtraSample.UNASSALPHA,) and self._stored == np.uint8
        if has_alpha and pixels.shape[2] == self.samples - 1:
            alpha = np.where(opaque, np.uint8(255), np.uint8(0))
            return np.concatenate((pixels, np.broadcast_to(alpha, (*pixels.shape[:2], 1))), axis=2)
        if self.config.byte_order == "big":
            # libtiff swaps the bytes of samples before LERC sees them, and after
            pixels = pixels.byteswap()
        if self._stored.kind == "f":
            return np.where(opaque, pixels, self._stored.type(np.nan))
        if not opaque.all():
            raise MalformedError(f"masked samples of {self._stored}, which have no number")
        return pixels

    def _size(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the size of a chunk that so many rows and columns are, the last rows perhaps for nothing."""
        for height, width in self.sizes:
            if columns == width and rows >= height:
                return height, width
        sizes = " or ".join(f"{height} x {width}" for height, width in self.sizes)
        raise MalformedError(f"{rows} x {columns} pixels where {sizes} belong")

    def _image(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the pixels of an image format in the order (row, column, sample)."""
        name = SCHEMES[self.config.compression].decoder
        alpha = {"hasalpha": self.samples == RGBA} if name == "WEBP" else {}
        pixels = np.asarray(getattr(imagecodecs, f"{name.lower()}_decode")(data, **alpha))
        if pixels.ndim not in {2, 3}:
            raise MalformedError(f"an image of {pixels.ndim} axes")
        height, width = self._size(*pixels.shape[:2])
        return pixels[:height].reshape(height, width, -1)

    def _fax(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the pixels of a facsimile in the order (row, column, sample).

        Rows that the data do not reach are white, as all readers have them.
        """
        scheme, options = BY_NUMBER[self.config.compression], self.config.t4_options or 0
        height, width = self.sizes[0]
        stream = bytes(data)
        if self.config.fill_order == REVERSED:
            stream = bytes(imagecodecs.bitorder_decode(stream))
        try:
            pixels = self._fax_rows(stream, height)
            held = rows_held(stream, scheme, options, pixels)
        except DECODER_ERRORS:
            held = len(Rows(stream, scheme, options, width).read(height))
            if held in {0, height}:
                raise
            pixels = np.zeros((height, width), np.uint8)
            pixels[:held] = self._fax_rows(stream, held)
        if (held, width) in self.sizes:
            return pixels[:held, :, np.newaxis]
        warnings.warn(
            f"{scheme.name} data of {len(data)} bytes end after {held} of {height} rows; the others are white",
            stacklevel=2,
        )
        pixels[held:] = 0
        return pixels[..., np.newaxis]

    def _fax_rows(self, stream: bytes, rows: int) -> NDArray[Any]:
        """Return rows and columns of a facsimile, the first bit of each byte first."""
        width, scheme = self.config.tile_width, self.config.compression
        if scheme == Compression.CCITT_T4:
            return np.asarray(imagecodecs.ccittfax3_decode(stream, rows, width, t4options=self.config.t4_options or 0))
        if scheme == Compression.CCITT_T6:
            return np.asarray(imagecodecs.ccittfax4_decode(stream, rows, width))
        file = synthetic_tiff(replace(self.config, fill_order=1), width, rows, stream)
        return np.asarray(imagecodecs.tiff_decode(file)).reshape(rows, width)

    def _stream_pixels(self, data: bytes | memoryview, reach: Reach | None) -> NDArray[Any]:
        """Return (row, column, sample) pixels of a scheme that compresses bytes."""
        if self._is_ycbcr:
            return self._by_libtiff(data, *self._ycbcr_size(data, reach))
        flat = self._unpacked(data)
        height, width = self._stream_size(len(flat), reach)
        flat = flat[: height * self._row_bytes]
        if self._has_float_predictor:
            differences = np.frombuffer(flat, np.uint8).reshape(height, -1, self.samples)
            size = self.config.bits_per_sample[0] // 8
            return without_float_predictor(differences, size)
        if self._is_complex and self.config.predictor == Predictor.HORIZONTAL:
            return self._predicted_complex(flat, height)
        if self._is_int24:
            octets = np.frombuffer(flat, np.uint8).reshape(height, width, -1, 3)
            return integers_of_24_bits(octets, self.config.byte_order, self._stored.kind)
        pixels = self._pages[height, width, False](flat, 0)[0]
        if pixels is None:
            raise MalformedError("no pixels")
        return pixels.reshape(height, width, -1)

    def _predicted_complex(self, flat: memoryview, height: int) -> NDArray[Any]:
        """Return complex numbers whose differences are those of integers as wide as both parts.

        libtiff swaps the bytes of such integers in a big-endian file, and so both parts.
        """
        size = self.config.bits_per_sample[0] // 8
        order = "<" if self.config.byte_order == "little" else ">"
        stored = np.frombuffer(flat, f"{order}u{size}")
        wide = stored.astype(f"<u{size}").reshape(height, -1, self.samples)
        wide = imagecodecs.delta_decode(wide, axis=1, out=wide)
        is_integer = self.config.sample_format[0] == SampleFormat.COMPLEXINT
        parts = wide.view(f"<{'i' if is_integer else 'f'}{size // 2}")
        return parts.astype(f"<f{self._stored.itemsize // 2}").view(self._stored)

    def _pixels(self, data: bytes | memoryview, declared: Size | None, *, is_jfif: bool = False) -> NDArray[Any]:
        """Return pixels in the order (row, column, sample); an edge's size if the data are not a whole chunk's."""
        sizes: Iterable[tuple[int, int]] = self.sizes
        if declared is not None:
            if declared[2] != self.samples:
                raise MalformedError(f"{declared[2]} samples a pixel where {self.samples} belong")
            sizes = [self._size(*declared[:2])]
        first: Exception | None = None
        extra = {} if self.config.jpeg_tables is None else {"jpegtables": self.config.jpeg_tables}
        for height, width in sizes:
            try:
                if self._needs_libtiff:
                    return self._by_libtiff(data, height, width)
                pixels = self._pages[height, width, is_jfif](data, 0, **extra)[0]
            except DECODER_ERRORS as error:
                first = first or error
                continue
            if pixels is not None:
                return pixels.reshape(height, width, -1)
        raise first or MalformedError("no pixels")

    def _by_libtiff(self, data: bytes | memoryview, height: int, width: int) -> NDArray[Any]:
        """Return (row, column, sample) pixels as libtiff decodes them."""
        file = synthetic_tiff(self.config, width, height, bytes(data))
        pixels = np.asarray(imagecodecs.tiff_decode(file))
        return pixels.reshape(height, width, -1)[..., : self.samples]

    def _unpacked(self, data: bytes | memoryview) -> memoryview:
        """Return the bytes of a whole chunk, or fewer where its data become fewer."""
        if self.config.fill_order == REVERSED:
            data = memoryview(imagecodecs.bitorder_decode(bytes(data)))
        room = np.empty(self._row_bytes * self.shape[-2], np.uint8)
        return memoryview(unpacked(self.config.compression, data, room))

    def _stream_size(self, nbytes: int, reach: Reach | None) -> tuple[int, int]:
        """Return the size of the chunk that bytes are of; those of a cut one are an error."""
        rows = nbytes // self._row_bytes
        return self._size_of_rows(nbytes, rows, 1, reach)

    def _size_of_rows(self, nbytes: int, rows: int, step: int, reach: Reach | None) -> tuple[int, int]:
        """Return the size of the chunk that rows are of, of which there may be a step more.

        A short chunk that has more rows than the image is a whole one, cut off, unless no
        row beyond the image's is wanted.
        """
        for height, width in self.sizes:
            is_upper = reach is not None and reach[0] <= height
            if rows >= height and (height == self.shape[-2] or rows < height + step or is_upper):
                return height, width
        raise MalformedError(
            f"the data become {nbytes} bytes, {rows} rows, which are neither a whole chunk's nor an edge's"
        )

    def _ycbcr_size(self, data: bytes | memoryview, reach: Reach | None) -> tuple[int, int]:
        """Return the size that bytes are of; libtiff makes up the rest of a cut stream."""
        across, down = self.config.ycbcr_subsampling or (2, 2)
        parts = across * down + 2
        if self.config.planar_config == Planar.SEPARATE:
            across, down, parts = 1, 1, 1
        row_bytes = parts * -(-self.config.tile_width // across)
        room = np.empty(row_bytes * -(-self.config.tile_height // down), np.uint8)
        if self.config.fill_order == REVERSED:
            data = memoryview(imagecodecs.bitorder_decode(bytes(data)))
        nbytes = len(unpacked(self.config.compression, data, room))
        rows = nbytes // row_bytes * down
        return self._size_of_rows(nbytes, rows, down, reach)

    def _fitted(self, pixels: NDArray[Any], reach: Reach | None) -> NDArray[Any]:
        """Return (row, column, sample) pixels in the chunk's shape and type."""
        height, width, samples = pixels.shape
        if reach is not None and (height < reach[0] or width < reach[1]):
            raise MalformedError(
                f"{height} x {width} pixels where the image has {reach[0]} x {reach[1]}:"
                " only a tile at its edge may be smaller"
            )
        if samples != self.samples:
            raise MalformedError(f"{samples} samples a pixel where {self.samples} belong")
        if self._spare_bits:
            pixels = pixels.astype(self._stored) << self._spare_bits >> self._spare_bits
        if pixels.dtype.kind == "u" and self._stored.kind == "i" and pixels.dtype.itemsize == self._stored.itemsize:
            pixels = pixels.view(self._stored)  # image formats without a sign give the bits
        planes = np.moveaxis(in_type(pixels, self.dtype, TIFF_TILE), -1, 0)
        if (height, width) != self.shape[-2:]:
            whole = np.full((samples, *self.shape[-2:]), self.fill_value, self.dtype)
            whole[:, :height, :width] = planes
            planes = whole
        return planes.reshape(self.shape)


class PaletteDecoder:
    """Decodes the chunks of one array of colours, stored as indices; safe to use from many threads."""

    def __init__(self, config: TiffTileConfig, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._palette = Palette(config.palette or b"", TIFF_TILE)
        self._palette.check_chunks(shape, dtype)
        if config.samples_per_pixel != 1:
            message = f"a palette for {config.samples_per_pixel} samples a pixel"
            raise MalformedError(message, field=TIFF_TILE)
        index = np.dtype("u1" if config.bits_per_sample[0] <= BYTE_BITS else "u2")
        self._indices = TileDecoder(replace(config, palette=None), shape[-2:], index, 0)

    def place(self, data: memoryview, selection: Any, out: NDArray[Any]) -> None:
        """Put selected colours to their place."""
        out[...] = self.selected(data, selection)

    def selected(self, data: bytes | memoryview, selection: Any) -> NDArray[Any]:
        """Return a selection of the chunk's colours."""
        pixels: NDArray[Any] = self.decode(data, reach_of(selection))[selection]
        return pixels

    def decode(self, data: bytes | memoryview, reach: Reach | None = None) -> NDArray[Any]:
        """Return the chunk's colours, band by band."""
        return self._palette.look_up(self._indices.decode(data, reach))


def tile_decoder(
    config: TiffTileConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any
) -> TileDecoder | PaletteDecoder:
    """Return the decoder for chunks of one shape and type."""
    if config.palette is not None:
        return PaletteDecoder(config, shape, dtype)
    return TileDecoder(config, shape, dtype, fill_value)


def lack(configuration: Mapping[str, Any]) -> str | None:
    """Return why a compression cannot be decoded in this environment, None if it can."""
    scheme = configuration.get("compression", int(Compression.NONE))
    if scheme not in Compression:
        return f"no decoder is known for compression {scheme}"
    reason = decoder_of(BY_NUMBER[scheme])[1]
    return None if reason is None else f"{name_of(Compression, scheme)}: {reason}"


def decoder_of(scheme: Compression) -> tuple[str | None, str | None]:
    """Return what decodes a TIFF compression, and why it cannot be decoded (None if it can)."""
    if scheme == Compression.NONE:
        return "numpy", None
    name = SCHEMES[scheme].decoder
    if not getattr(imagecodecs, name).available:
        return None, f"this build of imagecodecs has no {name}; one that has it is needed"
    return "libtiff (imagecodecs)" if name == "TIFF" else f"imagecodecs {name}", None


def decoders() -> Iterator[DecoderState]:
    """Yield for every compression of TIFF what decodes it in this environment."""
    for scheme in Compression:
        yield DecoderState(scheme.name, *decoder_of(scheme), number=int(scheme))
