"""Tiles of palette indices to colours.

May touch numpy, the tile decoder and the model; no I/O, no zarr.  A chunk of indices, decoded as any
other tile, is looked up in the table of the configuration: `palette`, with red, green and blue of
each value in turn, 8 bits each.
Spec: docs/codecs/tiff-tile/README.md
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec import TIFF_TILE, TiffTileConfig
from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.tiff_tile import Shape, TileDecoder

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
