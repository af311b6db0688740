"""The codecs that are one step of a chain: bytes beside a chunk, numbers computed, one axis less, an N5 block.

`offset` and `pad`, bytes to bytes: docs/codecs/offset/README.md and docs/codecs/pad/README.md; what is written is a
literal, computed from the encoded chunk by a function that metadata cannot name, or zeros.  `jnrrdz.linear` and
`reshape`, array to array: docs/codecs/jnrrdz.linear/README.md and docs/codecs/reshape/README.md.
`n5_default`, array to bytes, and `jnrrdz.lz4`, bytes to bytes:
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default and docs/codecs/jnrrdz.lz4/README.md.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numcodecs.fletcher32 import Fletcher32
from numpy.typing import NDArray
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.common import JSON

from jnrrdz.codecs.base import QuickCodec, ThreadedCodec
from jnrrdz.codecs.tiles import TileCodec, placed
from jnrrdz.core.codec_records import CHECKSUM
from jnrrdz.core.codecs import (
    FLETCHER32,
    LINEAR,
    RESHAPE,
    SHUFFLE,
    SQUEEZE,
    TRANSPOSE,
    ChunkFunction,
    LinearConfig,
    Lz4Config,
    OffsetConfig,
    PadConfig,
    PadSide,
    ReshapeConfig,
    SqueezeConfig,
)
from jnrrdz.core.configuration import CANONICAL, Codec
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.compressors import decode_lz4, deflate, encode_lz4, inflate
from jnrrdz.formats.n5.codecs import N5_DEFAULT, N5DefaultConfig
from jnrrdz.formats.n5.decode import BlockCoder

# Bytes before or after every encoded chunk


def affix_bytes(
    chunk: memoryview, nbytes: int, data: bytes | None, function: ChunkFunction | None, *, field: str
) -> bytes:
    """Return the bytes that go with an encoded chunk; `field` names the function."""
    if function is None:
        return bytes(nbytes) if data is None else data
    computed = function(bytes(chunk))
    if not isinstance(computed, bytes):
        raise MalformedError(f"returned {type(computed).__name__}; bytes are needed", field=field)
    if len(computed) != nbytes:
        raise MalformedError(f"returned {len(computed)} bytes; {nbytes} are needed", field=field)
    return computed


def _decoded(data: bytes | str | None, *, field: str) -> bytes | None:
    """Return bytes that may be given in base64, as metadata have them."""
    try:
        return CANONICAL["check"](data) if isinstance(data, str) else data
    except MalformedError as error:
        raise error.at(field=field) from error.__cause__


class AffixCodec(QuickCodec, BytesBytesCodec):
    """A codec that adds as many bytes to every chunk."""

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        return cls(**vars(cls.CONFIG.from_json(data.get("configuration", {}))))

    @abstractmethod
    def strip(self, chunk: memoryview) -> memoryview:
        """Return the chunk without the bytes, without copying it."""

    @abstractmethod
    def attach(self, chunk: memoryview) -> bytes:
        """Return the chunk with the bytes."""

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return chunk_spec.prototype.buffer.from_bytes(self.strip(memoryview(chunk_data.as_numpy_array())))

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return chunk_spec.prototype.buffer.from_bytes(self.attach(memoryview(chunk_data.as_numpy_array())))


@dataclass(frozen=True, init=False)
class OffsetCodec(AffixCodec):
    """A header of fixed length before every chunk: docs/codecs/offset."""

    CONFIG = OffsetConfig
    config: OffsetConfig

    def __init__(
        self, *, offset: int, prefix: bytes | str | None = None, prefix_func: ChunkFunction | None = None
    ) -> None:
        config = OffsetConfig(offset, _decoded(prefix, field="prefix"), prefix_func)
        object.__setattr__(self, "config", config)

    def strip(self, chunk: memoryview) -> memoryview:
        """Return the chunk behind its header, without copying it."""
        if chunk.nbytes < self.config.offset:
            raise MalformedError(
                f"a chunk of {chunk.nbytes} bytes cannot hold its header of {self.config.offset} bytes: "
                "the chunk is cut short, or the offset is not this format's",
                field="offset",
            )
        return chunk[self.config.offset :]

    def attach(self, chunk: memoryview) -> bytes:
        """Return the chunk with its header before it."""
        config = self.config
        header = affix_bytes(chunk, config.offset, config.prefix, config.prefix_func, field="prefix_func")
        return b"".join((header, chunk))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets."""
        return input_byte_length + self.config.offset


@dataclass(frozen=True, init=False)
class PadCodec(AffixCodec):
    """A fixed number of bytes before or after every chunk: docs/codecs/pad."""

    CONFIG = PadConfig
    config: PadConfig

    def __init__(
        self,
        *,
        location: str,
        nbytes: int,
        padding: bytes | str | None = None,
        padding_func: ChunkFunction | None = None,
    ) -> None:
        config = PadConfig(location, nbytes, _decoded(padding, field="padding"), padding_func)
        object.__setattr__(self, "config", config)

    def strip(self, chunk: memoryview) -> memoryview:
        """Return the chunk without its padding, without copying it."""
        nbytes, location = self.config.nbytes, self.config.location
        rest = chunk.nbytes - nbytes
        if rest < 0:
            raise MalformedError(
                f"a chunk of {chunk.nbytes} bytes cannot hold {nbytes} bytes of padding at its {location}: "
                "the chunk is cut short, or the padding is not this format's",
                field="nbytes",
            )
        return chunk[nbytes:] if location == PadSide.START else chunk[:rest]

    def attach(self, chunk: memoryview) -> bytes:
        """Return the chunk with its padding."""
        config = self.config
        padding = affix_bytes(chunk, config.nbytes, config.padding, config.padding_func, field="padding_func")
        return b"".join((padding, chunk) if config.location == PadSide.START else (chunk, padding))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets."""
        return input_byte_length + self.config.nbytes


# Arithmetic, and an axis of one place

type Doubles = NDArray[np.float64]


def _along_axis(config: LinearConfig, dimensions: int) -> tuple[Doubles, Doubles]:
    """Return scale and offset so that they broadcast along the axis."""
    shape = [] if config.axis is None else [-1 if place == config.axis else 1 for place in range(dimensions)]
    return np.array(config.scale).reshape(shape), np.array(config.offset).reshape(shape)


def decode_linear(config: LinearConfig, stored: Doubles) -> Doubles:
    """Return the values of stored numbers: a product and a sum, each rounded to float64."""
    scale, offset = _along_axis(config, stored.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(np.multiply(stored, scale, dtype=np.float64))  # numpy makes a scalar of no dimensions
        values += offset
    return values


def encode_linear(config: LinearConfig, values: Doubles) -> Doubles:
    """Return the stored numbers of values, up to the rounding of float64."""
    scale, offset = _along_axis(config, values.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        stored = np.asarray(np.subtract(values, offset, dtype=np.float64))
        stored /= scale
    return stored


class LinearCodec(QuickCodec, ArrayArrayCodec):
    """A scale and an offset: docs/codecs/jnrrdz.linear."""

    CONFIG = LinearConfig

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """Return the specification of what is stored: the fill value is, as the first index has it."""
        dtype, shape = chunk_spec.dtype.to_native_dtype(), chunk_spec.shape
        if dtype != np.float64:
            raise MalformedError(f"an array of {dtype} where float64 is computed", field=LINEAR)
        scales, offsets = np.atleast_1d(self.config.scale), np.atleast_1d(self.config.offset)
        axis = self.config.axis
        if axis is not None and (axis >= len(shape) or shape[axis] != len(scales)):
            raise MalformedError(f"{len(scales)} scales for axis {axis} of chunks of shape {shape}", field=LINEAR)
        first = LinearConfig(float(scales[0]), float(offsets[0]))
        fill = encode_linear(first, np.asarray(chunk_spec.fill_value, np.float64))
        return replace(chunk_spec, fill_value=np.float64(fill))

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        stored: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(decode_linear(self.config, stored))

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        values: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(encode_linear(self.config, values))


@dataclass(frozen=True)
class ReshapeCodec(QuickCodec, ArrayArrayCodec):
    """Chunks with other axes and their elements in the same order: docs/codecs/reshape."""

    CONFIG = ReshapeConfig

    config: ReshapeConfig

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """Return the specification of what is stored."""
        return replace(chunk_spec, shape=self.config.of(chunk_spec.shape))

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return _reshaped(chunk_data, chunk_spec, chunk_spec.shape)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return _reshaped(chunk_data, chunk_spec, self.config.of(chunk_spec.shape))


def _reshaped(chunk_data: NDBuffer, chunk_spec: ArraySpec, shape: tuple[int, ...]) -> NDBuffer:
    return chunk_spec.prototype.nd_buffer.from_ndarray_like(chunk_data.as_numpy_array().reshape(shape))


@dataclass(frozen=True)
class SqueezeCodec(QuickCodec, ArrayArrayCodec):
    """Chunks without their first axis, of which they hold one place: docs/codecs/reshape tells of it."""

    CONFIG = SqueezeConfig

    config: SqueezeConfig = field(default_factory=SqueezeConfig)

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """Return the specification of what is stored."""
        return replace(chunk_spec, shape=chunk_spec.shape[1:])

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        _check_one_place(chunk_spec)
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(chunk_data.as_numpy_array()[np.newaxis])

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        _check_one_place(chunk_spec)
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(chunk_data.as_numpy_array()[0])


def _check_one_place(chunk_spec: ArraySpec) -> None:
    if chunk_spec.shape[0] != 1:
        raise MalformedError(f"chunks of {chunk_spec.shape}, of several places", field=SQUEEZE)


# N5

LZ4_SLACK = 1 << 20
"""Bytes that LZ4 data may decode to beyond the chunk's own, for headers of codecs before it."""


def _rest(origin: Any, axes: int) -> tuple[int, ...] | None:
    """Return how much of a data set there is from a chunk's first element on, x first; None where nothing tells.

    jnrrdz's own store tells which chunk it is.  The array's axes come to the block through the array's codecs.
    """
    store, key = origin or (None, "")
    manifest = getattr(store, "manifest", None)
    chunk = None if manifest is None else manifest.chunk(key)
    if manifest is None or chunk is None:
        return None
    path, number = chunk
    facts = manifest.hierarchy.nodes[path].array
    place = np.unravel_index(number, manifest.keys[path].grid)
    rest = [size - int(at) * step for size, at, step in zip(facts.shape, place, facts.chunks, strict=True)]
    for codec in facts.codecs:
        if codec.name == TRANSPOSE:
            rest = [rest[axis] for axis in codec.configuration["order"]]
        elif codec.name in {SQUEEZE, RESHAPE}:  # what is left out in front has one place
            rest = rest[1:] if codec.name == SQUEEZE else rest[-len(codec.configuration["shape"]) :]
        elif codec.name == N5_DEFAULT:
            break
        elif codec.name != LINEAR:  # a chain whose header is checked by this codec in its place, in C order
            rest = rest[-axes:][::-1]  # behind axes of one place, where it was merged
            break
    return tuple(rest) if len(rest) == axes else None


class BlockCodec(TileCodec):
    """A block of N5, whose elements are of the array's type."""

    CONFIG = N5DefaultConfig
    is_placeless = False

    def check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array of a type that N5 has not."""
        BlockCoder(self.config, (1,) * self.config.axes, dtype, 0)

    def _decode_array(self, data: Buffer, spec: ArraySpec) -> NDArray[Any]:
        origin = getattr(data, "origin", None)
        elements: NDArray[Any] = self._decoder(spec).decode(
            memoryview(data.as_numpy_array()), partial(_rest, origin, len(spec.shape))
        )
        return elements


class N5DefaultCodec(BlockCodec):
    """A block of N5 with its header: docs/codecs/n5_default."""

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> BlockCoder:
        """Return the decoder for chunks of this shape and type."""
        return BlockCoder(self.config, shape, dtype, fill_value)

    def as_c_order(self) -> "COrderBlockCodec":
        """Return the codec that reads what stands behind a transposition of all axes."""
        return COrderBlockCodec(self.config)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        coder = self.decoder(chunk_spec.shape, chunk_spec.dtype.to_native_dtype(), chunk_spec.fill_value)
        return chunk_spec.prototype.buffer.from_bytes(coder.encode(chunk_data.as_numpy_array()))


class COrderBlockCodec(BlockCodec):
    """`transpose` and `n5_default` in one, for reading; it has no name of its own and stands in no metadata."""

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> BlockCoder:
        """Return the decoder for chunks of this shape and type."""
        return BlockCoder(self.config, shape[::-1], dtype, fill_value, c_order=True)


class Lz4Codec(ThreadedCodec, BytesBytesCodec):
    """LZ4 in one of three framings: docs/codecs/jnrrdz.lz4."""

    CONFIG = Lz4Config

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        limit = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize + LZ4_SLACK
        decoded = decode_lz4(self.config, memoryview(chunk_data.as_numpy_array()), limit)
        return chunk_spec.prototype.buffer.from_bytes(decoded)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        encoded = encode_lz4(self.config.configuration, memoryview(chunk_data.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(encoded)


# Filters of HDF5


@dataclass(frozen=True)
class FilterCodec(QuickCodec, BytesBytesCodec):
    """HDF5's shuffle or Fletcher-32, as numcodecs' codecs of these names; bytes that fill no element stay in place.

    https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html#subsubsec_fmt4_dataobject_hdr_msg_filter
    """

    config: Codec
    beside: int = 0

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        data = chunk_data.as_numpy_array().view("u1")
        try:
            if self.config.name == SHUFFLE:
                whole = len(data) - len(data) % self._size
                decoded = np.concatenate([data[:whole].reshape(self._size, -1).T.ravel(), data[whole:]])
            else:
                decoded = self._verified(data)
        except JnrrdzError as error:
            raise placed(error, getattr(chunk_data, "origin", None)) from error.__cause__
        return chunk_spec.prototype.buffer.from_array_like(decoded)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        data = chunk_data.as_numpy_array().view("u1")
        if self.config.name == SHUFFLE:
            whole = len(data) - len(data) % self._size
            turned = data[:whole].reshape(-1, self._size).T.ravel()
            return chunk_spec.prototype.buffer.from_array_like(np.concatenate([turned, data[whole:]]))
        return chunk_spec.prototype.buffer.from_bytes(bytes(Fletcher32().encode(np.ascontiguousarray(data))))

    @property
    def _size(self) -> int:
        return int(self.config.configuration["elementsize"])

    def _verified(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if len(data) <= CHECKSUM:
            raise MalformedError(f"{len(data)} bytes, too few for a checksum", field=FLETCHER32)
        try:
            Fletcher32().decode(np.ascontiguousarray(data))
        except RuntimeError as error:
            raise MalformedError("the bytes have another Fletcher-32 checksum", field=FLETCHER32) from error
        return data[:-CHECKSUM]

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets."""
        return input_byte_length + (CHECKSUM if self.config.name == FLETCHER32 else 0)


# A compressor behind `bytes`

MOST_BESIDE = 1 << 26
"""Bytes that may stand beside a chunk inside of its compressed data, where the chunk itself is smaller."""


@dataclass(frozen=True)
class BoundedCodec(ThreadedCodec, BytesBytesCodec):
    """A compressor that makes the bytes of a chunk, and what stands beside them, and never more."""

    config: Codec
    beside: int = 0

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        own = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize
        try:
            decoded = self.unpacked(memoryview(chunk_data.as_numpy_array()), own)
        except JnrrdzError as error:
            raise placed(error, getattr(chunk_data, "origin", None)) from error.__cause__
        return chunk_spec.prototype.buffer.from_array_like(decoded)

    def unpacked(self, data: memoryview, own: int) -> NDArray[np.uint8]:
        """Return the bytes of a chunk of so many, and what stands beside them."""
        size = own + self.beside
        if self.beside > max(own, MOST_BESIDE):
            raise UnsupportedError(f"{self.beside} bytes beside a chunk of {own}", field=self.config.name)
        return inflate(self.config, data, size)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return chunk_spec.prototype.buffer.from_bytes(deflate(self.config, chunk_data.to_bytes()))
