"""`jnrrdz.linear` and `jnrrdz.squeeze`, array to array: `stored * scale + offset` in float64; chunks of one axis less.

Follows docs/codecs/jnrrdz.linear/README.md and docs/codecs/jnrrdz.squeeze/README.md.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import ArrayArrayCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer

from jnrrdz.codecs.base import QuickCodec
from jnrrdz.core.codecs import LINEAR, SQUEEZE, LinearConfig, SqueezeConfig
from jnrrdz.errors import MalformedError

type Doubles = NDArray[np.float64]


def _along_axis(config: LinearConfig, dimensions: int) -> tuple[Doubles, Doubles]:
    """Return scale and offset so that they broadcast along the axis."""
    shape = [] if config.axis is None else [-1 if place == config.axis else 1 for place in range(dimensions)]
    return np.array(config.scale).reshape(shape), np.array(config.offset).reshape(shape)


def decode(config: LinearConfig, stored: Doubles) -> Doubles:
    """Return the values of stored numbers: a product and a sum, each rounded to float64."""
    scale, offset = _along_axis(config, stored.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(np.multiply(stored, scale, dtype=np.float64))  # numpy makes a scalar of no dimensions
        values += offset
    return values


def encode(config: LinearConfig, values: Doubles) -> Doubles:
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
        fill = encode(first, np.asarray(chunk_spec.fill_value, np.float64))
        return replace(chunk_spec, fill_value=np.float64(fill))

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        stored: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(decode(self.config, stored))

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        values: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(encode(self.config, values))


@dataclass(frozen=True)
class SqueezeCodec(QuickCodec, ArrayArrayCodec):
    """Chunks without their first axis, of which they hold one place: docs/codecs/jnrrdz.squeeze."""

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
