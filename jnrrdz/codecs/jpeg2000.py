"""Tile-parts of a JPEG 2000 codestream to arrays.

May touch numpy, imagecodecs, the layouts of JPEG 2000 and the model; no I/O, no zarr.  Which chunk
it is, and so which samples of its tiles, follows from the numbers of the tiles in it.  The sizes
that the main header declares are compared with the chunk's before anything is decoded.
Spec: docs/codecs/jpeg2000/README.md
"""

from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.codecs.jpeg2000_stream import Header, Part, parts_of
from jnrrdz.codecs.openjp2 import decode_components
from jnrrdz.errors import MalformedError
from jnrrdz.layout.jpeg2000_chunks import ChunkGrid, Tiles
from jnrrdz.layout.jpeg2000_markers import Marker, segments
from jnrrdz.layout.jpeg2000_siz import parse_siz
from jnrrdz.model.codec_jpeg2000 import JPEG2000, Jpeg2000Config

type Shape = tuple[int, ...]

COLOURS = 3
HT_BIT = 1 << (32 - 15)
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
        self._header = Header(header, siz, config.tile_parts)
        self._components = config.components or tuple(range(len(siz.components)))
        if max(self._components) >= len(siz.components):
            raise MalformedError(f"component {max(self._components)} of {len(siz.components)}", field=JPEG2000)
        self._grid = ChunkGrid(siz, siz.components[self._components[0]], config.resolution_level)
        self._is_regular = len(set(siz.components)) == 1 and siz.components[0].bits <= IMAGECODECS_BITS
        self._is_regular &= (siz.components[0].dx, siz.components[0].dy) == (1, 1)
        self._is_ht = any(
            one.marker == Marker.CAP and int.from_bytes(header[one.start + 4 : one.start + 8], "big") & HT_BIT
            for one in found
        )
        self._table = self._palette()
        self._check_shape()

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
        bands = len(self._components) if self._table is None else COLOURS
        expected = (*((bands,) if bands > 1 else ()), *self._grid.chunk)
        if self.shape != expected:
            raise MalformedError(
                f"chunks of shape {self.shape} where the main header makes them {expected}", field=JPEG2000
            )

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short ones padded with the fill value."""
        parts = parts_of(data, self._grid.siz.tiles)
        row, column = self._grid.place([part.tile for part in parts])
        tiles = self._grid.tiles(row, column)
        own = self._grid.numbers(tiles)
        stream = self._header.codestream(data, [part for part in parts if part.tile in own], tiles)
        return self._placed(self._decoded(stream, parts), tiles, (row, column))

    def _decoded(self, stream: bytes, parts: list[Part]) -> NDArray[Any]:
        """Return the wanted components of a codestream."""
        if not self._is_regular:
            return np.stack([decode_components(stream, self.config.resolution_level)[one] for one in self._components])
        try:
            pixels = self._by_imagecodecs(stream)
        except DECODER_ERRORS as error:
            raise MalformedError(
                f"the {len(parts)} tile-parts of {len(stream)} bytes do not decode: {error}", field=JPEG2000
            ) from error
        planes = pixels if pixels.ndim == COLOURS else pixels[np.newaxis]
        if len(planes) != len(self._grid.siz.components):
            raise MalformedError(f"{len(planes)} components where {len(self._components)} belong", field=JPEG2000)
        return planes[list(self._components)] if self.config.components else planes

    def _by_imagecodecs(self, stream: bytes) -> NDArray[Any]:
        level = self.config.resolution_level
        if self._is_ht:
            try:
                return np.asarray(imagecodecs.htj2k_decode(stream, planar=True, skipres=level))
            except DECODER_ERRORS:
                pass  # OpenJPEG reads more of the standard, three times slower
        return np.asarray(imagecodecs.jpeg2k_decode(stream, planar=True, skipres=level))

    def _placed(self, planes: NDArray[Any], tiles: Tiles, place: tuple[int, int]) -> NDArray[Any]:
        """Return the chunk out of the samples of its tiles: cut, padded, and in the chunk's shape and type."""
        cut: list[slice] = []
        for number, (axis, factor) in enumerate(self._grid.axes):
            extent = axis.part(tiles[number].start, len(tiles[number]))
            first, stop = axis.chunk_box(place[number], factor)
            origin = -(-extent.start // factor)
            if planes.shape[1 + number] < extent.size(factor):
                raise MalformedError(
                    f"{planes.shape[1:]} samples decoded, {extent.size(factor)} expected along axis {number}",
                    field=JPEG2000,
                )
            cut.append(slice(first - origin, stop - origin))
        own = planes[:, cut[0], cut[1]]
        if self._table is not None:
            own = self._colours(own[0])
        if own.shape[1:] == self.shape[-2:]:
            return own.astype(self.dtype, copy=False).reshape(self.shape)
        whole = np.full((len(own), *self.shape[-2:]), self.fill_value, self.dtype)
        whole[:, : own.shape[1], : own.shape[2]] = own
        return whole.reshape(self.shape)

    def _colours(self, indices: NDArray[Any]) -> NDArray[np.uint8]:
        table = self._table
        if table is None or int(indices.max()) >= table.shape[1] or int(indices.min()) < 0:
            raise MalformedError(f"index {int(indices.max())} into a palette of colours", field=JPEG2000)
        colours: NDArray[np.uint8] = table[:, indices]
        return colours
