"""Chains of a compressor alone, read by a codec that never holds more than the chunk.

May touch zarr's codec registry and the model's codec names.  zarr's own decompressors hold whatever a chunk
inflates to: a few kilobytes can fill all memory.  `jnrrdz.tile` decodes the same bytes to the same elements, and
stops where the chunk ends.  The array's metadata stay as they are.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from zarr.abc.codec import Codec
from zarr.registry import get_codec_class

from jnrrdz.core import codec_n5
from jnrrdz.core.codec import BYTES
from jnrrdz.core.codec_tile import MOST_BYTES, TILE, TileConfig

_COMPRESSIONS: Mapping[str, str] = {codec_n5.GZIP: "gzip", codec_n5.BZ2: "bzip2", codec_n5.ZSTD: "zstd"}
_KINDS = "iufcb"


def bounded(codecs: Sequence[Codec], chunk: Sequence[int], dtype: np.dtype[Any]) -> tuple[Codec, ...]:
    """Return the codec that reads the same chunks within bounds; the very same codecs for any other chain."""
    entries: list[Any] = [codec.to_dict() for codec in codecs]
    compression = _COMPRESSIONS.get(entries[-1]["name"]) if len(entries) == len(("bytes", "compressor")) else None
    if compression is None or entries[0]["name"] != BYTES or dtype.kind not in _KINDS or not chunk:
        return tuple(codecs)
    if math.prod(chunk) > MOST_BYTES:
        return tuple(codecs)
    endian = (entries[0].get("configuration") or {}).get("endian")
    spec = TileConfig(tuple(((size, 0),) for size in chunk), endian, compression).to_spec()
    return (get_codec_class(TILE).from_dict(spec.to_json()),)
