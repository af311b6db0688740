"""The codecs of NITF's image segments as zarr's array->bytes codecs.

May touch zarr's types, errors, the model and the codecs' pure modules.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from jnrrdz.codecs.array_bytes import ChunkDecoder, TileCodec
from jnrrdz.core.codec_nitf import JBP_BLOCK, JPEG, NITF_VQ, Config, JbpBlockConfig, JpegConfig, NitfVqConfig
from jnrrdz.formats.nitf.colours_codec import ColourDecoder, table_of
from jnrrdz.formats.nitf.jbp_block import BlockDecoder, sample_dtype
from jnrrdz.formats.nitf.jpeg_block import JpegDecoder
from jnrrdz.formats.nitf.nitf_vq_codec import VqDecoder

type Shape = tuple[int, ...]


@dataclass(frozen=True)
class _NitfCodec(TileCodec):
    """What the three have in common: a checked configuration, and colours in place of indices."""

    CONFIG: ClassVar[type[Config]]

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        if self.config.palette is None:
            return self.stored(self.config, shape, dtype, fill_value)
        table = table_of(self.config.palette, shape, dtype, self.name)
        plain = replace(self.config, palette=None)
        return ColourDecoder(self.stored(plain, shape[-2:], self.index_dtype(), 0), table, self.name)

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for what is stored."""
        raise NotImplementedError

    def index_dtype(self) -> np.dtype[Any]:
        """Return the type of the indices of a palette."""
        return np.dtype(np.uint8)


@dataclass(frozen=True)
class JbpBlockCodec(_NitfCodec):
    """Uncompressed blocks: docs/codecs/jbp-block."""

    config: JbpBlockConfig
    name = JBP_BLOCK
    CONFIG = JbpBlockConfig

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for what is stored."""
        return BlockDecoder(config, shape, dtype, fill_value)

    def index_dtype(self) -> np.dtype[Any]:
        """Return the type of the indices of a palette."""
        return sample_dtype(self.config.pixel_type, self.config.bits_per_pixel)


@dataclass(frozen=True)
class JpegCodec(_NitfCodec):
    """JPEG streams: docs/codecs/jpeg."""

    config: JpegConfig
    name = JPEG
    CONFIG = JpegConfig

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for what is stored."""
        return JpegDecoder(config, shape, dtype, fill_value)


@dataclass(frozen=True)
class NitfVqCodec(_NitfCodec):
    """Vector-quantised blocks: docs/codecs/jnrrdz.nitf-vq."""

    config: NitfVqConfig
    name = NITF_VQ
    CONFIG = NitfVqConfig

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:  # noqa: ARG002
        """Return the decoder for what is stored; blocks are never short."""
        return VqDecoder(config, shape, dtype)
