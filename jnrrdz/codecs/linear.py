"""The `jnrrdz.linear` codec, array to array: `stored * scale + offset` in float64.

May touch numpy, errors and the model's codec names only; knows no zarr.  Follows
docs/codecs/jnrrdz.linear/README.md.

`jnrrdz.linear` as zarr's array->array codec.

May touch zarr, errors, and the codecs' pure modules.  Follows zarr.abc.codec as of zarr 3.4: the
`_sync` methods serve the fused pipeline and the store's synchronous path, the others await nothing,
for a product and a sum are not worth a thread.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import ArrayArrayCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer
from zarr.core.common import JSON

from jnrrdz.core import codecs as codec
from jnrrdz.core.codecs import LINEAR
from jnrrdz.errors import MalformedError

MAX_VALUES = 1 << 16

type Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class LinearConfig:
    """One scale and offset, or one for each index of an axis."""

    scale: tuple[float, ...]
    offset: tuple[float, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        """Refuse lists that do not fit each other, and a scale that cannot be undone."""
        if len(self.scale) != len(self.offset) or not 1 <= len(self.scale) <= MAX_VALUES:
            raise MalformedError(f"{len(self.scale)} scales for {len(self.offset)} offsets", field=LINEAR)
        if 0 in self.scale:
            raise MalformedError("a scale of 0 makes one value of all", field=LINEAR)

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the configuration that stands in zarr.json."""
        if not isinstance(configuration, Mapping):
            raise MalformedError(f"configuration {configuration!r} is no object", field=LINEAR)
        unknown = set(configuration) - {"scale", "offset", "axis"}
        missing = {"scale", "offset"} - set(configuration)
        if unknown or missing:
            wrong = [f"unknown {name!r}" for name in sorted(unknown)] + [f"no {name}" for name in sorted(missing)]
            raise MalformedError("; ".join(wrong), field=LINEAR)
        axis = _axis(configuration["axis"]) if "axis" in configuration else None
        scale, offset = (_numbers(name, configuration[name], axis) for name in ("scale", "offset"))
        return cls(scale, offset, axis)

    def to_json(self) -> dict[str, Any]:
        """Return the codec's entry for zarr.json."""
        return codec.linear(self.scale, self.offset, self.axis).to_json()

    def check_chunk(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Refuse chunks that the configuration does not fit."""
        if dtype != np.float64:
            raise MalformedError(f"an array of {dtype} where float64 is computed", field=LINEAR)
        if self.axis is None:
            return
        if self.axis >= len(shape) or shape[self.axis] != len(self.scale):
            raise MalformedError(
                f"{len(self.scale)} scales for axis {self.axis} of chunks of shape {shape}", field=LINEAR
            )


def _axis(value: object) -> int:
    if type(value) is not int or value < 0:
        raise MalformedError(f"axis {value!r} is no number of an axis", field=LINEAR)
    return value


def _numbers(name: str, value: object, axis: int | None) -> tuple[float, ...]:
    """Return the numbers of one member: a list where there is an axis, else one."""
    if isinstance(value, list) is (axis is None):
        wanted = "a number, for there is no axis" if axis is None else "a list, an entry for each index of the axis"
        raise MalformedError(f"{name} {value!r} is not {wanted}", field=LINEAR)
    found: list[Any] = value if isinstance(value, list) else [value]
    for number in found:
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise MalformedError(f"{name} {number!r} is no finite number", field=LINEAR)
    return tuple(float(number) for number in found)


def _along(values: tuple[float, ...], axis: int | None, dimensions: int) -> Doubles:
    """Return the numbers so that they broadcast along the axis."""
    if axis is None:
        return np.array(values[0])
    return np.array(values).reshape([-1 if place == axis else 1 for place in range(dimensions)])


def decode(config: LinearConfig, stored: Doubles) -> Doubles:
    """Return the values of stored numbers: a product and a sum, each rounded to float64."""
    scale, offset = (_along(numbers, config.axis, stored.ndim) for numbers in (config.scale, config.offset))
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(np.multiply(stored, scale, dtype=np.float64))  # numpy makes a scalar of no dimensions
        values += offset
    return values


def encode(config: LinearConfig, values: Doubles) -> Doubles:
    """Return the stored numbers of values, up to the rounding of float64."""
    scale, offset = (_along(numbers, config.axis, values.ndim) for numbers in (config.scale, config.offset))
    with np.errstate(over="ignore", invalid="ignore"):
        stored = np.asarray(np.subtract(values, offset, dtype=np.float64))
        stored /= scale
    return stored


@dataclass(frozen=True)
class LinearCodec(ArrayArrayCodec):
    """A scale and an offset: docs/codecs/jnrrdz.linear."""

    is_fixed_size = True

    config: LinearConfig

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json."""
        return cls(LinearConfig.from_json(data.get("configuration")))

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        return self.config.to_json()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002  # zarr passes it by this name
        """Return the same codec: everything that it needs stands in its configuration."""
        return self

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """Return the specification of what is stored: the fill value is, as the first index has it."""
        self.config.check_chunk(chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        first = LinearConfig(self.config.scale[:1], self.config.offset[:1])
        fill = encode(first, np.asarray(chunk_spec.fill_value, np.float64))
        return replace(chunk_spec, fill_value=np.float64(fill))

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        stored: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(decode(self.config, stored))

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        values: Any = chunk_data.as_ndarray_like()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(encode(self.config, values))

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._decode_sync(chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets: as long as it is."""
        return input_byte_length
