"""Tile-parts of a JPEG 2000 codestream to arrays.

May touch numpy, imagecodecs, the layouts of JPEG 2000 and the model; no I/O, no zarr.  Which chunk
it is, and so which samples of its tiles, follows from the numbers of the tiles in it.  The sizes
that the main header declares are compared with the chunk's before anything is decoded.
Spec: docs/codecs/jpeg2000/README.md
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_jpeg2000 import JPEG2000, Jpeg2000Config
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.htj2k import decode_wide, spare_bits
from jnrrdz.formats.jpeg2000.jpeg2000_chunks import Boxes, ChunkGrid
from jnrrdz.formats.jpeg2000.jpeg2000_composite_codec import Composite
from jnrrdz.formats.jpeg2000.jpeg2000_cost import check_pieces
from jnrrdz.formats.jpeg2000.jpeg2000_levels import check_packets
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker, segments
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Component, Siz, parse_siz
from jnrrdz.formats.jpeg2000.jpeg2000_stream import Header, Part, completed, parts_of
from jnrrdz.formats.jpeg2000.openjp2 import binding, decode_components
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES

type Shape = tuple[int, ...]

COLOURS = 3
IMAGECODECS_BITS = 26
"""As many as imagecodecs' decoder holds exactly."""

DECODER_ERRORS = (RuntimeError, ValueError, TypeError, NotImplementedError, OverflowError, MemoryError)
"""What imagecodecs raises at bytes that it cannot decode."""


class Jpeg2000Decoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: Jpeg2000Config, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.fill_value = fill_value
        header = config.main_header
        found = list(segments(header))
        if not found or found[0].marker != Marker.SIZ:
            raise MalformedError("main_header does not begin with SOC and SIZ", field=JPEG2000)
        siz = parse_siz(header[found[0].start : found[0].stop])
        check_pieces(siz, header)
        self._header = Header(header, siz, config.tile_parts)
        self._components = config.components or tuple(range(len(siz.components)))
        if max(self._components) >= len(siz.components):
            raise MalformedError(f"component {max(self._components)} of {len(siz.components)}", field=JPEG2000)
        self._composite = self._composed(siz)
        first = self._components[0] if self._composite is None else self._composite.finest
        self._grid = ChunkGrid(siz, siz.components[first], config.resolution_level)
        self._is_regular = _is_regular(siz.components)
        self._wide = spare_bits(header, found, siz.components[0]) if self._is_regular else None
        self._table = self._palette()
        self._check_shape()

    def _composed(self, siz: Siz) -> Composite | None:
        """Return what brings components of several sizes together, where that is asked for."""
        config = self.config
        if config.upsample:
            if config.components or config.palette is not None:
                raise MalformedError("upsample is for all components, and for no palette", field=JPEG2000)
            return Composite(siz, config.resolution_level, is_rgb=config.sycc_to_rgb)
        if config.sycc_to_rgb:
            raise MalformedError("sycc_to_rgb without upsample", field=JPEG2000)
        if len({(siz.components[one].dx, siz.components[one].dy) for one in self._components}) > 1:
            raise MalformedError("components of several sizes in one array", field=JPEG2000)
        return None

    def _palette(self) -> NDArray[np.uint8] | None:
        entries = self.config.palette
        if entries is None:
            return None
        if len(entries) % COLOURS or self.dtype != np.uint8 or len(self._components) != 1:
            raise MalformedError(
                f"a palette of {len(entries)} bytes for {len(self._components)} components of {self.dtype}",
                field=JPEG2000,
            )
        return np.ascontiguousarray(np.frombuffer(entries, np.uint8).reshape(-1, COLOURS).T)

    def _check_shape(self) -> None:
        self._grid.check_samples()
        bands = len(self._components) if self._table is None else COLOURS
        expected = (*((bands,) if bands > 1 else ()), *self._grid.chunk)
        if self.shape != expected:
            raise MalformedError(
                f"chunks of shape {self.shape} where the main header makes them {expected}", field=JPEG2000
            )

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short ones padded with the fill value."""
        by_tile: dict[int, list[Part]] = {}
        for part in parts_of(data, self._grid.siz.tiles, may_cut=bool(self.config.resolution_level)):
            by_tile.setdefault(part.tile, []).append(part)
        row, column = self._grid.place(list(by_tile))
        rows, columns = self._grid.tiles(row, column)
        boxes = self._grid.box(row, column)
        if len(rows) == len(columns) == 1 and tuple(stop - start for start, stop in boxes) == self.shape[-2:]:
            # the common case, spared the copy into a larger array
            (first,) = self._grid.numbers((rows, columns))
            return self._tile(data, by_tile[first]).astype(self.dtype, copy=False).reshape(self.shape)
        bands = self.shape[0] if len(self.shape) == COLOURS else 1
        whole = np.full((bands, *self.shape[-2:]), self.fill_value, self.dtype)
        for number in self._grid.numbers((rows, columns)):
            self._paste(whole, data, by_tile[number], boxes)
        return whole.reshape(self.shape)

    def _paste(self, whole: NDArray[Any], data: bytes | memoryview, parts: list[Part], boxes: Boxes) -> None:
        """Put what a chunk has of one tile where it belongs."""
        tile = self._grid.tile_box(parts[0].tile)
        cut = [(max(start, low), min(stop, high)) for (start, stop), (low, high) in zip(tile, boxes, strict=True)]
        if any(start >= stop for start, stop in cut):
            return  # a tile without samples at this level, which decoders refuse
        (top, bottom), (left, right) = cut
        (y, _), (x, _) = tile
        pixels = self._tile(data, parts)[:, top - y : bottom - y, left - x : right - x]
        (y, _), (x, _) = boxes
        whole[:, top - y : bottom - y, left - x : right - x] = pixels

    def _tile(self, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        """Return the wanted components of one tile, as bands, rows and columns."""
        level = self.config.resolution_level
        for part in parts:
            check_pieces(self._grid.siz, data, part.start + SOT_BYTES)
        if level and (parts[0].is_cut or max(part.announced for part in parts) != len(parts)):
            spans = [(part.start, part.stop) for part in parts]
            empty = check_packets(data, spans, self.config.main_header, parts[0].tile, level)
            if parts[0].is_cut:
                data, parts[0] = completed(data, parts[0], empty)
        rows, columns = (stop - start for start, stop in self._grid.tile_box(parts[0].tile))
        planes = self._decoded(data, parts)
        if planes.shape[1] < rows or planes.shape[2] < columns:
            raise MalformedError(f"{planes.shape[1:]} samples where a tile has {(rows, columns)}", field=JPEG2000)
        # at an odd origin OpenJPEG gives a row or column too many
        planes = planes[:, :rows, :columns]
        return planes if self._table is None else self._colours(planes[0])

    def _decoded(self, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        """Return the wanted components of one tile, perhaps with a row or column too many."""
        is_rgb = self._composite is not None and self._composite.is_rgb
        if not self._is_regular and not is_rgb:
            found = decode_components(self._header.codestream(data, parts), self.config.resolution_level)
            if self._composite is not None:
                rows, columns = self._grid.tile_box(parts[0].tile)
                return self._composite.planes(found, (rows[1] - rows[0], columns[1] - columns[0]), self.dtype)
            return np.stack([found[one] for one in self._components])
        try:
            pixels = self._by_imagecodecs(data, parts)
        except DECODER_ERRORS as error:
            nbytes = sum(part.stop - part.start for part in parts)
            raise MalformedError(
                f"tile {parts[0].tile}, {nbytes} bytes in {len(parts)} tile-parts, does not decode: {error}",
                field=JPEG2000,
            ) from error
        planes = pixels if pixels.ndim == COLOURS else pixels[np.newaxis]
        if len(planes) != len(self._grid.siz.components):
            raise MalformedError(f"{len(planes)} components where {len(self._components)} belong", field=JPEG2000)
        return planes[list(self._components)] if self.config.components else planes

    def _by_imagecodecs(self, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        level = self.config.resolution_level
        if self._wide is not None:
            stream = self._header.codestream(data, parts, self._wide)
            with suppress(*DECODER_ERRORS):  # OpenJPEG reads more of the standard
                return decode_wide(stream, level, self._grid.siz.components[0])
        stream = self._header.codestream(data, parts)
        if self._composite is not None:
            stream = self._composite.sycc(stream)
        return np.asarray(imagecodecs.jpeg2k_decode(stream, planar=True, skipres=level))

    def _colours(self, indices: NDArray[Any]) -> NDArray[np.uint8]:
        table = self._table
        if table is None or int(indices.max()) >= table.shape[1] or int(indices.min()) < 0:
            raise MalformedError(f"index {int(indices.max())} into a palette of colours", field=JPEG2000)
        colours: NDArray[np.uint8] = table[:, indices]
        return colours


def missing_library(config: Jpeg2000Config) -> str | None:
    """Return what keeps chunks of this configuration from being decoded here, None where nothing does."""
    header = config.main_header
    components = parse_siz(header[2 : 4 + int.from_bytes(header[4:6], "big")]).components
    if _is_regular(components) or config.sycc_to_rgb:
        return None
    try:
        binding()
    except UnsupportedError as error:
        return error.message
    return None


def _is_regular(components: Sequence[Component]) -> bool:
    """Whether imagecodecs decodes components: they are all alike, and not too wide."""
    return len(set(components)) == 1 and components[0].bits <= IMAGECODECS_BITS
