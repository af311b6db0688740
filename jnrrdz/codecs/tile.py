"""`jnrrdz.tile` as zarr's codec.

May touch zarr and the codec's pure module.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer

from jnrrdz.codecs.array_bytes import TileCodec
from jnrrdz.core.codec_tile import TILE, TileConfig
from jnrrdz.formats.nrrd.tile import TileCoder


@dataclass(frozen=True)
class JnrrdTileCodec(TileCodec):
    """A tile of a JNRRD, of which the chunk may be a part: docs/codecs/jnrrdz.tile."""

    config: TileConfig
    name = TILE
    CONFIG = TileConfig

    def _decode_array(self, data: Buffer, spec: ArraySpec) -> NDArray[Any]:
        decoder: Any = self._decoder(spec)
        found: NDArray[Any] = decoder.decode(memoryview(data.as_numpy_array()), self._expected(data))
        return found

    def _expected(self, data: Buffer) -> int | None:
        """Return the kind of tile that belongs into a chunk, where the store tells which chunk it is.

        jnrrdz's own does; in stacks of several files a chunk's place is no longer that of a tile.
        """
        store, path = getattr(data, "origin", None) or (None, None)
        manifest = getattr(store, "manifest", None)
        if len(self.config.kinds) == 1 or manifest is None or manifest.is_stack:
            return None
        chunk = manifest.chunk(path)
        return None if chunk is None else self.config.kind_of(chunk[1], chunk[0].keys.grid)

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> TileCoder:
        """Return the decoder for chunks of this shape and type."""
        return TileCoder(self.config, shape, dtype, fill_value)
