"""The codecs of osml-imagery-io as zarr's bytes->bytes codecs.

May touch zarr, errors, and the codecs' pure modules.  Follows zarr.abc.codec as of zarr 3.4, and
docs/interop/osml.md: after `bytes`, a codec of osml-imagery-io turns a chunk's bytes into its pixels,
little-endian, in C order of the chunk's shape.  zarr looks the codecs up by URI among the entry points.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON

from jnrrdz.codecs.array_bytes import decoding_threads
from jnrrdz.codecs.osml_blocks import Decoder, decoder_of
from jnrrdz.codecs.osml_codec import TIFF_TILE, OsmlTiffTile, refusal
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.tiff_tile import TileDecoder

BANDS_Y_X = 3
"""Axes of every array that osml-imagery-io writes."""


class ReadOnlyCodec(BytesBytesCodec):
    """A codec that decodes only."""

    is_fixed_size = False

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:  # noqa: ARG002  # zarr's
        raise UnsupportedError("osml-imagery-io's codecs are for reading", field="codecs")

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Refuse: no chunk is written with this codec."""
        raise NotImplementedError


@dataclass(frozen=True)
class OsmlTiffTileCodec(ReadOnlyCodec):
    """osml-imagery-io's `tiff-tile`."""

    tile: OsmlTiffTile
    image: tuple[int, int] | None = None
    """Height and width of the whole array, which zarr tells first; edges are short by them."""
    _decoders: dict[ArraySpec, TileDecoder] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        configuration = data.get("configuration", {})
        if not isinstance(configuration, Mapping):
            raise MalformedError(f"a configuration {configuration!r}", field=TIFF_TILE)
        return cls(OsmlTiffTile.from_json(configuration))

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return {"name": TIFF_TILE, "configuration": self.tile.to_json()}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Return the codec knowing the array's size: the first shape that zarr shows is the array's."""
        return self if self.image is not None else replace(self, image=_rows_columns(array_spec))

    def _decoder(self, spec: ArraySpec) -> TileDecoder:
        known = self._decoders.get(spec)
        if known is None:
            dtype = spec.dtype.to_native_dtype()
            config = self.tile.config(self.image or _rows_columns(spec), dtype)
            known = TileDecoder(config, spec.shape, dtype, spec.fill_value)
            self._decoders[spec] = known
        return known

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        pixels = self._decoder(chunk_spec).decode(memoryview(chunk_data.as_numpy_array()))
        return _little(pixels, chunk_spec)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(decoding_threads(), self._decode_sync, chunk_data, chunk_spec)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what the decoders are made from; they are made again."""
        return {"tile": self.tile, "image": self.image}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the configuration with no decoders yet."""
        for name, value in {**state, "_decoders": {}}.items():
            object.__setattr__(self, name, value)


def _little(pixels: NDArray[Any], spec: ArraySpec) -> Buffer:
    """Return pixels as the bytes that the codec `bytes` reads, which osml-imagery-io always lets be little-endian."""
    little = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<"))
    return spec.prototype.buffer.from_array_like(little.reshape(-1).view("B"))


def _rows_columns(spec: ArraySpec) -> tuple[int, int]:
    if len(spec.shape) != BANDS_Y_X:
        raise MalformedError(f"an array of {len(spec.shape)} axes; bands, y, x are needed", field=TIFF_TILE)
    return spec.shape[1], spec.shape[2]


@dataclass(frozen=True)
class OsmlBlocksCodec(ReadOnlyCodec):
    """osml-imagery-io's codecs of NITF and JPEG 2000: what a chunk's bytes mean is in `osml_blocks`."""

    name: str
    configuration: Mapping[str, Any]
    _decoders: dict[ArraySpec, Decoder] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        name, configuration = str(data.get("name")), data.get("configuration", {})
        if not isinstance(configuration, Mapping):
            raise MalformedError(f"a configuration {configuration!r}", field=name)
        return cls(name, configuration)

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return {"name": self.name, "configuration": dict(self.configuration)}

    def __hash__(self) -> int:
        return hash((self.name, *sorted(map(str, self.configuration.items()))))

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        known = self._decoders.get(chunk_spec)
        if known is None:
            dtype = chunk_spec.dtype.to_native_dtype()
            known = decoder_of(self.name, self.configuration, chunk_spec.shape, dtype, chunk_spec.fill_value)
            self._decoders[chunk_spec] = known
        pixels = known.decode(memoryview(chunk_data.as_numpy_array()))
        return _little(pixels, chunk_spec)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(decoding_threads(), self._decode_sync, chunk_data, chunk_spec)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what the decoders are made from; they are made again."""
        return {"name": self.name, "configuration": dict(self.configuration)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the configuration with no decoders yet."""
        for name, value in {**state, "_decoders": {}}.items():
            object.__setattr__(self, name, value)


class OsmlUnreadCodec(ReadOnlyCodec):
    """Any other codec of osml-imagery-io: an array that has it is refused by the codec's name."""

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Refuse the codec."""
        raise refusal(str(data.get("name")))

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:  # noqa: ARG002  # zarr's
        raise UnsupportedError("a codec that is not read", field="codecs")
