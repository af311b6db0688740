"""What a virtual array and a virtual group are: facts for a manifest, frozen, without a file behind them.

May touch numpy, errors and the model's own modules only.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from jnrrdz.core.codec import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError

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
