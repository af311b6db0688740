"""A window of a large tile, decoded from the packets of the precincts that it needs.

These packets become a codestream of one tile, at its real coordinates, in which empty packets take the place of all
others.  OpenJPEG then decodes no more than the window's area of it.  Where precincts allow it the tile is cut first:
what lies further away costs neither time nor memory.
Spec: ITU-T T.800, B.6 (precincts), B.10 (packets); docs/codecs/jnrrdz.jpeg2000-window/README.md
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.configuration import check_type
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codecs import JPEG2000_WINDOW, Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.decode import (
    DECODER_ERRORS,
    SOC,
    component_palette,
    component_samples,
    is_regular,
    main_segments,
)
from jnrrdz.formats.jpeg2000.grid import COLOURS, MAX_SAMPLES
from jnrrdz.formats.jpeg2000.markers import Marker, Siz, check_pieces
from jnrrdz.formats.jpeg2000.openjpeg import binding, decode_components
from jnrrdz.formats.jpeg2000.packets import Box, coding
from jnrrdz.formats.jpeg2000.tile_parts import EOC, SOD, SOT, SOT_BYTES, SOT_LENGTH
from jnrrdz.formats.jpeg2000.windows import WindowGrid, parse_chunk, section_packets

CUTOUTS = 8
"""Cut tiles of which the order of packets is kept: neighbouring windows share one."""


class WindowedDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(
        self, config: Jpeg2000WindowConfig, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any
    ) -> None:
        self.config, self.shape, self.dtype, self.fill_value = config, shape, dtype, fill_value
        self._coding = coding(config.main_header)
        self._segments = main_segments(config.main_header)
        self._chunk = (shape[-2], shape[-1]) if len(shape) > 1 else (0, 0)
        self._grids: dict[int, WindowGrid] = {}
        self._cut = lru_cache(CUTOUTS)(WindowGrid)
        components = self._coding.siz.components
        self._palette = component_palette(config.palette, len(components), dtype, JPEG2000_WINDOW)
        bands = len(components) if self._palette is None else COLOURS
        samples = math.prod(self._chunk) * len(components)
        if shape != (*((bands,) if bands > 1 else ()), *self._chunk) or not 0 < samples <= MAX_SAMPLES:
            raise MalformedError(
                f"chunks of shape {shape} where the main header has {len(components)} components",
                field=JPEG2000_WINDOW,
            )
        if self._palette is None:
            for stored in component_samples(config.main_header):
                check_type(dtype, stored, JPEG2000_WINDOW)

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short ones padded with the fill value."""
        sot = bytes(data[:SOT_BYTES])
        grid = self._grid(sot)
        place, sections = parse_chunk(grid, sot, bytes(data))
        pixels = self._window(grid, grid.window(*place), sections)
        if self._palette is not None:
            pixels = self._palette.look_up(pixels[0])
        whole = np.full((len(pixels), *self._chunk), self.fill_value, self.dtype)
        whole[:, : pixels.shape[1], : pixels.shape[2]] = pixels
        return whole.reshape(self.shape)

    def _grid(self, sot: bytes) -> WindowGrid:
        """Return the windows of the tile that a chunk's first bytes name."""
        tile = int.from_bytes(sot[4:6], "big")
        if len(sot) < SOT_BYTES or int.from_bytes(sot[:2], "big") != Marker.SOT or tile >= self._coding.siz.tiles:
            raise MalformedError(
                f"a chunk begins with {sot.hex(' ') or 'nothing'}, no SOT of one of {self._coding.siz.tiles} tiles",
                field="SOT",
            )
        grid = self._grids.get(tile)
        if grid is None:
            grid = WindowGrid(self._coding, self._coding.tile_box(tile), self.config.resolution_level, self._chunk)
            self._grids[tile] = grid
        return grid

    def _window(self, grid: WindowGrid, window: Box, sections: list[bytes]) -> NDArray[Any]:
        """Return a window's samples as (component, row, column)."""
        siz = grid.cutout(window)
        check_pieces(siz, self.config.main_header)
        box = siz.x.start, siz.y.start, siz.x.stop, siz.y.stop
        cut = self._cut(replace(grid.coding, siz=siz), box, grid.level, grid.chunk)
        packets = [b"\x00" + b"\xff\x92" * grid.coding.eph] * len(cut.order[0])
        positions = cut.packets(window)
        for (number, _), places, data in zip(cut.sections(), positions, sections, strict=True):
            for place, packet in zip(places.tolist(), section_packets(cut, places, number, data), strict=True):
                packets[place] = packet
        body = SOD + b"".join(packets)
        sot = SOT.pack(Marker.SOT, SOT_LENGTH, 0, SOT_BYTES + len(body), 0, 1)
        stream = b"".join([SOC, siz.encode(), self._segments, sot, body, EOC])
        height, width = window[3] - window[1], window[2] - window[0]
        planes = self._decoded(stream, siz, window)
        for plane in planes:
            if plane.shape[0] < height or plane.shape[1] < width:
                raise MalformedError(f"{plane.shape} samples where a window has {(height, width)}", field="SIZ")
        return np.stack([plane[:height, :width] for plane in planes])

    def _decoded(self, stream: bytes, siz: Siz, window: Box) -> Sequence[NDArray[Any]]:
        """Return the components of a window of a codestream's only tile, perhaps with a row or column too many."""
        level = self.config.resolution_level
        x0, y0, x1, y1 = (edge << level for edge in window)
        try:
            binding()
        except UnsupportedError as error:
            return self._cropped(stream, siz, window, error)
        return decode_components(stream, level, area=(x0, y0, min(x1, siz.x.stop), min(y1, siz.y.stop)))

    def _cropped(self, stream: bytes, siz: Siz, window: Box, reason: UnsupportedError) -> list[NDArray[Any]]:
        """Return the same from all of the tile, decoded by imagecodecs."""
        level, components = self.config.resolution_level, siz.components
        samples = siz.y.size(1 << level) * siz.x.size(1 << level) * len(components)
        if not is_regular(components) or samples > MAX_SAMPLES:
            raise UnsupportedError(f"windows of tiles of {samples} samples: {reason.message}", field="jpeg2000")
        warn_of_whole_tiles(reason.message)
        try:
            planes = np.asarray(imagecodecs.jpeg2k_decode(stream, planar=True, skipres=level))
        except DECODER_ERRORS as error:
            raise MalformedError(f"packets of a window that do not decode: {error}", field="jpeg2000") from error
        planes = planes if planes.ndim == COLOURS else planes[np.newaxis]
        left, top = siz.x.samples(1 << level)[0], siz.y.samples(1 << level)[0]
        return list(planes[:, window[1] - top : window[3] - top, window[0] - left : window[2] - left])


@lru_cache
def warn_of_whole_tiles(reason: str) -> None:
    """Warn once that windows cost as much as their tiles."""
    warnings.warn(f"windows of JPEG 2000 are cut from whole tiles, which takes time and memory: {reason}", stacklevel=2)
