"""The codec `jnrrdz.jpeg2000-window` as zarr's array->bytes codec.

May touch zarr, errors, the model's codec configurations and the codecs' pure modules.
Spec: docs/codecs/jnrrdz.jpeg2000-window/README.md
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.codecs.array_bytes import ChunkDecoder, TileCodec
from jnrrdz.core.codec_jpeg2000_window import JPEG2000_WINDOW, Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.jpeg2000_windowed import WindowedDecoder


@dataclass(frozen=True)
class Jpeg2000WindowCodec(TileCodec):
    """Windows of a large JPEG 2000 tile: docs/codecs/jnrrdz.jpeg2000-window."""

    config: Jpeg2000WindowConfig
    name = JPEG2000_WINDOW
    CONFIG = Jpeg2000WindowConfig

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        return WindowedDecoder(self.config, shape, dtype, fill_value)
