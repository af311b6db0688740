"""`jnrrdz.tile` as zarr's codec.

May touch zarr and the codec's pure module.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.codecs.adapter.array_bytes import TileCodec
from jnrrdz.codecs.tile import TileCoder
from jnrrdz.model.codec_tile import TILE, TileConfig


@dataclass(frozen=True)
class JnrrdTileCodec(TileCodec):
    """A tile of a JNRRD, of which the chunk may be a part: docs/codecs/jnrrdz.tile."""

    config: TileConfig
    name = TILE
    CONFIG = TileConfig

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> TileCoder:
        """Return the decoder for chunks of this shape and type."""
        return TileCoder(self.config, shape, dtype, fill_value)
