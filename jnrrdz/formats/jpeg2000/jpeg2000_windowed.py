"""Chunks of an array whose JPEG 2000 tiles are cut into windows, to pixels.

May touch numpy, the layouts, the window decoder and the model; no I/O, no zarr.  A chunk's bytes begin with
the SOT of its tile, and say after it which window they are; all else stands in the configuration.
Spec: docs/codecs/jnrrdz.jpeg2000-window/README.md
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_jpeg2000_window import JPEG2000_WINDOW, Jpeg2000WindowConfig
from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.jpeg2000_chunks import MAX_SAMPLES
from jnrrdz.formats.jpeg2000.jpeg2000_coding import coding
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Component
from jnrrdz.formats.jpeg2000.jpeg2000_window import WindowDecoder
from jnrrdz.formats.jpeg2000.jpeg2000_windows import Grid
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES

type Shape = tuple[int, ...]

COLOURS = 3


class WindowedDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: Jpeg2000WindowConfig, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config, self.shape, self.dtype, self.fill_value = config, shape, dtype, fill_value
        self._coding = coding(config.main_header)
        self._chunk = (shape[-2], shape[-1]) if len(shape) > 1 else (0, 0)
        self._table = self._palette()
        self._check_shape()
        self._grids: dict[int, Grid] = {}

    def _palette(self) -> NDArray[np.uint8] | None:
        entries, count = self.config.palette, len(self._coding.siz.components)
        if entries is None:
            return None
        if len(entries) % COLOURS or self.dtype != np.uint8 or count != 1:
            raise MalformedError(
                f"a palette of {len(entries)} bytes for {count} components of {self.dtype}", field=JPEG2000_WINDOW
            )
        return np.ascontiguousarray(np.frombuffer(entries, np.uint8).reshape(-1, COLOURS).T)

    def _check_shape(self) -> None:
        components = self._coding.siz.components
        bands = len(components) if self._table is None else COLOURS
        expected = (*((bands,) if bands > 1 else ()), *self._chunk)
        samples = math.prod(self._chunk) * len(components)
        if self.shape != expected or not 0 < samples <= MAX_SAMPLES:
            raise MalformedError(
                f"chunks of shape {self.shape} where the main header has {len(components)} components",
                field=JPEG2000_WINDOW,
            )
        if self._table is None and not all(_holds(self.dtype, one) for one in components):
            raise MalformedError(f"{self.dtype} does not hold the samples", field=JPEG2000_WINDOW)

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short ones padded with the fill value."""
        sot = bytes(data[:SOT_BYTES])
        grid = self._grid(sot)
        if self._table is None:
            return WindowDecoder(grid, sot, self.dtype, self.fill_value).decode(data).reshape(self.shape)
        indices = WindowDecoder(grid, sot, np.dtype(np.int32)).window(data)[0]
        if not 0 <= int(indices.min()) <= int(indices.max()) < self._table.shape[1]:
            raise MalformedError(
                f"index {int(indices.max())} into a palette of {self._table.shape[1]} colours", field=JPEG2000_WINDOW
            )
        whole = np.full(self.shape, self.fill_value, np.uint8)
        whole[:, : indices.shape[0], : indices.shape[1]] = self._table[:, indices]
        return whole

    def _grid(self, sot: bytes) -> Grid:
        """Return the windows of the tile that a chunk's first bytes name."""
        tile = int.from_bytes(sot[4:6], "big")
        if len(sot) < SOT_BYTES or int.from_bytes(sot[:2], "big") != Marker.SOT or tile >= self._coding.siz.tiles:
            raise MalformedError(
                f"a chunk begins with {sot.hex(' ') or 'nothing'}, no SOT of one of {self._coding.siz.tiles} tiles",
                field="SOT",
            )
        grid = self._grids.get(tile)
        if grid is None:
            grid = Grid(self._coding, self._coding.tile_box(tile), self.config.resolution_level, self._chunk)
            self._grids[tile] = grid
        return grid


def _holds(dtype: np.dtype[Any], component: Component) -> bool:
    if dtype.kind not in "iu":
        return False
    limits, half = np.iinfo(dtype), 1 << (component.bits - 1)
    low, high = (-half, half - 1) if component.signed else (0, 2 * half - 1)
    return bool(limits.min <= low and high <= limits.max)
