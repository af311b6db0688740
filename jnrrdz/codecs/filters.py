"""numcodecs' classes of codecs that Zarr v2 names by `id`: for kerchunk's engine and whatever else reads version 2.

`offset`, `pad`, `tiff-tile` and `jpeg2000` have the members of docs/codecs/NAME, those of osml-imagery-io the members
that docs/interop/osml.md records; numcodecs finds all of them by their entry points.  A filter of version 2 is given
bytes and nothing else: which shape and type its pixels have is what its own configuration says, and they come back as
little-endian elements in C order, which an array's `.zarray` has to say too.  Our own store does not use these: it
reads version 2 as version 3 (`jnrrdz.core.zarr2`), and compares.  Interface:
https://numcodecs.readthedocs.io/en/stable/abc.html
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ndarray_copy

from jnrrdz.codecs.base import ChunkDecoder
from jnrrdz.codecs.osml import JBP_BLOCK, JPEG, MAKERS, OsmlTiffTile, jpeg2000_config
from jnrrdz.codecs.steps import OffsetCodec, PadCodec
from jnrrdz.core.codecs import OFFSET, OSML, PAD
from jnrrdz.core.configuration import Samples
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codecs import JPEG2000, Jpeg2000Config
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder, chunk_of, component_samples
from jnrrdz.formats.nitf.decode import sample_dtype
from jnrrdz.formats.tiff.codecs import TIFF_TILE, TiffTileConfig
from jnrrdz.formats.tiff.decode import TileDecoder
from jnrrdz.formats.tiff.tags import Planar, tile_samples


class Filter(Codec):  # type: ignore[misc]  # numcodecs has no types
    """A codec that is its configuration."""

    def __init__(self, **configuration: Any) -> None:
        self.configuration = configuration

    def get_config(self) -> dict[str, Any]:
        """Return the entry of `.zarray`."""
        return {"id": self.codec_id, **self.configuration}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the configuration; decoders are made again."""
        return {"configuration": self.configuration}


class Offset(Filter):
    """A header of fixed length before every chunk."""

    codec_id = OFFSET
    OWN: ClassVar[type[OffsetCodec | PadCodec]] = OffsetCodec

    @cached_property
    def _codec(self) -> OffsetCodec | PadCodec:
        return self.OWN.from_dict({"name": self.codec_id, "configuration": self.configuration})

    def encode(self, buf: Any) -> bytes:
        """Return the chunk with the bytes beside it."""
        return self._codec.attach(memoryview(ensure_contiguous_ndarray(buf).view("B")))

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the chunk without the bytes beside it."""
        chunk = self._codec.strip(memoryview(ensure_contiguous_ndarray(buf).view("B")))
        return ndarray_copy(np.frombuffer(chunk, "B"), out)


class Pad(Offset):
    """A fixed number of bytes before or after every chunk."""

    codec_id = PAD
    OWN = PadCodec


class PixelFilter(Filter):
    """A codec that turns a chunk's bytes into pixels."""

    @cached_property
    @abstractmethod
    def _decoder(self) -> ChunkDecoder:
        """What decodes chunks."""

    def encode(self, buf: Any) -> Any:  # noqa: ARG002  numcodecs' signature
        """Refuse."""
        raise UnsupportedError("for reading only", field=self.codec_id)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the chunk's pixels."""
        pixels = self._decoder.decode(memoryview(ensure_contiguous_ndarray(buf).view("B")))
        return ndarray_copy(np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<")), out)


class TiffTile(PixelFilter):
    """Tiles and strips of a TIFF."""

    codec_id = TIFF_TILE

    @cached_property
    def _decoder(self) -> ChunkDecoder:
        config = TiffTileConfig.from_json(self.configuration)
        if config.palette is not None:
            raise UnsupportedError("a palette's colours in Zarr v2", field=self.codec_id)
        samples = 1 if config.planar_config == Planar.SEPARATE else config.samples_per_pixel
        shape = (samples, config.tile_height, config.tile_width)
        return TileDecoder(config, shape, type_of(*tile_samples(config)), 0)


class Jpeg2000(PixelFilter):
    """Tiles of a JPEG 2000 codestream."""

    codec_id = JPEG2000

    @cached_property
    def _decoder(self) -> ChunkDecoder:
        return _jpeg2000(Jpeg2000Config.from_json(self.configuration))


class OsmlTile(PixelFilter):
    """osml-imagery-io's tiles of a TIFF: little-endian ones, since that is how it reads them itself."""

    codec_id = f"{OSML}tiff-tile"

    @cached_property
    def _decoder(self) -> ChunkDecoder:
        said = OsmlTiffTile.from_json(self.configuration)
        size = said.tile_height, said.tile_width
        dtype = type_of(*tile_samples(said.config(size)))
        return TileDecoder(said.config(size, dtype), (said.samples_per_pixel, *size), dtype, 0)


class OsmlJpeg2000(PixelFilter):
    """osml-imagery-io's tiles of a JPEG 2000 codestream."""

    codec_id = f"{OSML}jpeg2000"

    @cached_property
    def _decoder(self) -> ChunkDecoder:
        return _jpeg2000(jpeg2000_config(self.codec_id, self.configuration))


class OsmlBlock(PixelFilter):
    """osml-imagery-io's uncompressed blocks of a NITF."""

    codec_id = JBP_BLOCK

    @cached_property
    def _decoder(self) -> ChunkDecoder:
        dtype = sample_dtype(self.configuration.get("pvtype", ""), _number(self.configuration, "nbpp"))
        return MAKERS[JBP_BLOCK](JBP_BLOCK, self.configuration, _block(self.configuration), dtype, 0)


class OsmlJpeg(PixelFilter):
    """osml-imagery-io's JPEG blocks of a NITF."""

    codec_id = JPEG

    @cached_property
    def _decoder(self) -> ChunkDecoder:
        dtype = type_of(Samples("u", _number(self.configuration, "bits_per_pixel")))
        return MAKERS[JPEG](JPEG, self.configuration, _block(self.configuration), dtype, 0)


_LARGEST = {"u": 64, "i": 64, "f": 64, "c": 128}
_SMALLEST = {"u": 8, "i": 8, "f": 16, "c": 64}


def type_of(samples: Samples) -> np.dtype[Any]:
    """Return the smallest type that has room for samples."""
    bits = _SMALLEST.get(samples.kind, 8)
    while bits < samples.bits:
        bits *= 2
    if bits > _LARGEST.get(samples.kind, 0):
        raise UnsupportedError(f"samples of {samples}", field="filters")
    return np.dtype(f"<{samples.kind}{bits // 8}")


def _jpeg2000(config: Jpeg2000Config) -> ChunkDecoder:
    if config.palette is not None or config.sycc_to_rgb:
        raise UnsupportedError("colours that are computed, in Zarr v2", field=JPEG2000)
    shape = chunk_of(config)
    types = {type_of(samples) for samples in component_samples(config.main_header, config.components)}
    if len(types) != 1:
        raise UnsupportedError("components of several types in one array", field=JPEG2000)
    return Jpeg2000Decoder(config, shape, types.pop(), 0)


def _number(configuration: Mapping[str, Any], member: str) -> int:
    value = configuration.get(member)
    if type(value) is not int or value < 1:
        raise MalformedError(f"{member} {value!r}", field="filters")
    return value


def _block(configuration: Mapping[str, Any]) -> tuple[int, int, int]:
    bands, height, width = (_number(configuration, name) for name in ("num_bands", "block_height", "block_width"))
    return bands, height, width
