"""The codec `jpeg2000` as zarr's array->bytes codec.

May touch zarr, errors, the model's codec configurations and the codecs' pure modules.
Spec: docs/codecs/jpeg2000/README.md
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.codecs.array_bytes import ChunkDecoder, TileCodec
from jnrrdz.core.codec_jpeg2000 import JPEG2000, Jpeg2000Config
from jnrrdz.formats.jpeg2000.jpeg2000_codec import Jpeg2000Decoder


@dataclass(frozen=True)
class Jpeg2000Codec(TileCodec):
    """Tiles of a JPEG 2000 codestream: docs/codecs/jpeg2000."""

    config: Jpeg2000Config
    name = JPEG2000
    CONFIG = Jpeg2000Config

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        return Jpeg2000Decoder(self.config, shape, dtype, fill_value)
