"""What a virtual array and a virtual group are: facts for a manifest, frozen, without a file behind them.

May touch numpy, errors and the model's own modules only.

One band of an array that stores each band in chunks of its own.

May touch numpy, errors and the model's own modules only.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codecs import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnrepresentableError

type Node = "VirtualArray | VirtualGroup"

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class SourceRecord:
    """A source as it was when it was scanned."""

    url: str
    size: int | None = None
    etag: str | None = None
    version: str | None = None
    modified: str | None = None
    """Last modification as RFC 3339 text in UTC."""


@dataclass(frozen=True, eq=False)
class VirtualArray:
    """An array on a regular chunk grid whose chunks are references."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    codecs: tuple[CodecSpec, ...]
    refs: ChunkRefs
    dimension_names: tuple[str, ...]
    fill_value: Any = 0
    attributes: Mapping[str, Any] = field(default=_EMPTY)

    def __post_init__(self) -> None:
        """Refuse a grid that contradicts the shape or the number of references."""
        if not len(self.shape) == len(self.chunks) == len(self.dimension_names):
            raise MalformedError("shape, chunks and dimension names differ in length", field="shape")
        if any(size < 1 for size in self.chunks):
            raise MalformedError(f"a chunk of shape {self.chunks}", field="chunks")
        if math.prod(self.grid) != self.refs.chunks:
            raise MalformedError(f"{self.refs.chunks} references for a grid of {self.grid}", field="refs")

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return tuple(-(-size // step) for size, step in zip(self.shape, self.chunks, strict=True))


@dataclass(frozen=True, eq=False)
class VirtualGroup:
    """Attributes and named children; `sources` and `origin` stand on the root only."""

    children: Mapping[str, Node] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default=_EMPTY)
    sources: tuple[SourceRecord, ...] = ()
    origin: Mapping[str, Any] = field(default=_EMPTY)
    """How it came to be, as far as making it anew needs that: `options` of the scan, `concat_dim` of a stack."""

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Node]]:
        """Yield every node below this group with its path, parents before children."""
        for name, child in self.children.items():
            path = f"{prefix}{name}"
            yield path, child
            if isinstance(child, VirtualGroup):
                yield from child.walk(f"{path}/")

    def arrays(self) -> Iterator[tuple[str, VirtualArray]]:
        """Yield every array below this group with its path."""
        for path, node in self.walk():
            if isinstance(node, VirtualArray):
                yield path, node


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
        refs=taken(array.refs, chunks),
        dimension_names=_without(array.dimension_names, axis),
        fill_value=array.fill_value,
        attributes=array.attributes,
    )


def _without[T](values: tuple[T, ...], axis: int) -> tuple[T, ...]:
    return (*values[:axis], *values[axis + 1 :])


def taken(refs: ChunkRefs, chunks: NDArray[np.int64]) -> ChunkRefs:
    """Return the references of some chunks, in their order."""
    counts = refs.counts[chunks]
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    rows = np.repeat(refs.indptr[chunks] - indptr[:-1], counts) + np.arange(indptr[-1])
    inline = (
        {new: refs.inline[old] for new, old in enumerate(chunks.tolist()) if old in refs.inline} if refs.inline else {}
    )
    return ChunkRefs(refs.sources, indptr, refs.source[rows], refs.offset[rows], refs.length[rows], inline)
