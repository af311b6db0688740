"""Virtual arrays and groups: facts for a manifest, frozen, without a file behind them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.core.configuration import Codec
from jnrrdz.core.refs import References
from jnrrdz.core.state import SourceState
from jnrrdz.errors import MalformedError, UnrepresentableError
from jnrrdz.redact import record_repr


@dataclass(frozen=True)
class SourceRecord(SourceState):
    """A source as it was when it was scanned."""

    url: str
    """Where the source is, without secrets."""
    size: int | None = None
    """Its bytes; None where nobody knows."""
    etag: str | None = None
    """The server's name for this state of it."""
    version: str | None = None
    """The store's version id."""
    modified: str | None = None
    """Last modification as RFC 3339 text in UTC."""

    __repr__ = record_repr

    def contradiction(self, other: "SourceRecord") -> str | None:
        """Return in words what shows that another record of this URL is of another state, None where nothing does."""
        return self.difference(other, times="://" in self.url)


@dataclass(frozen=True, eq=False)
class VirtualArray:
    """An array on a regular chunk grid whose chunks are references."""

    shape: tuple[int, ...]
    """Elements along each axis, the last axis fastest."""
    dtype: np.dtype[Any]
    """The type of the elements once they are decoded."""
    chunks: tuple[int, ...]
    """Elements of a chunk along each axis."""
    codecs: tuple[Codec, ...]
    """What makes elements of a chunk's bytes, in Zarr's order: the first one encodes first."""
    refs: References
    """Where the bytes of each chunk are."""
    dimension_names: tuple[str, ...]
    """The name of each axis."""
    fill_value: Any = 0
    """What a chunk that is absent reads as."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the array, as JSON has them."""
    grid: tuple[int, ...] = field(init=False)
    """Number of chunks along each axis."""

    def __post_init__(self) -> None:
        """Refuse a grid that contradicts the shape or the number of references."""
        if not len(self.shape) == len(self.chunks) == len(self.dimension_names):
            raise MalformedError("shape, chunks and dimension names differ in length", field="shape")
        if any(size < 1 for size in self.chunks):
            raise MalformedError(f"a chunk of shape {self.chunks}", field="chunks")
        grid = grid_of(self.shape, self.chunks)
        if math.prod(grid) != self.refs.chunks:
            raise MalformedError(f"{self.refs.chunks} references for a grid of {grid}", field="refs")
        object.__setattr__(self, "grid", grid)

    def __repr__(self) -> str:
        return f"VirtualArray({self.dtype} {self.shape} in {self.refs.chunks} chunks of {self.chunks})"


def grid_of(shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """Return the number of chunks along each axis."""
    return tuple(-(-size // step) for size, step in zip(shape, chunks, strict=True))


BY_AXIS = {"transpose", "reshape", "sharding_indexed"}
"""Codecs that count the axes of a chunk."""


def band_of(array: VirtualArray, axis: int, band: int) -> VirtualArray:
    """Return one index of an axis, without the axis; chunks may hold one index only."""
    counting = BY_AXIS & {codec.name for codec in array.codecs}
    if array.chunks[axis] != 1 or counting:
        found = f"codecs {', '.join(sorted(counting))}" if counting else f"chunks of {array.chunks}"
        raise UnrepresentableError(f"bands differ in scale or offset, and {found} do not let them be read one by one")
    chunks = np.arange(array.refs.chunks).reshape(array.grid).take(band, axis).ravel()
    return VirtualArray(
        shape=_without(array.shape, axis),
        dtype=array.dtype,
        chunks=_without(array.chunks, axis),
        codecs=array.codecs,
        refs=array.refs.take(chunks),
        dimension_names=_without(array.dimension_names, axis),
        fill_value=array.fill_value,
        attributes=array.attributes,
    )


def _without[T](values: tuple[T, ...], axis: int) -> tuple[T, ...]:
    return (*values[:axis], *values[axis + 1 :])
