"""Virtual arrays and groups: facts for a manifest, frozen, without a file behind them."""

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from jnrrdz.core.configuration import Codec
from jnrrdz.core.refs import References
from jnrrdz.core.state import SourceState
from jnrrdz.errors import MalformedError, UnrepresentableError
from jnrrdz.redact import hidden, record_repr, redacted

type Node = "VirtualArray | VirtualGroup"


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
        grid = tuple(-(-size // step) for size, step in zip(self.shape, self.chunks, strict=True))
        if math.prod(grid) != self.refs.chunks:
            raise MalformedError(f"{self.refs.chunks} references for a grid of {grid}", field="refs")
        object.__setattr__(self, "grid", grid)

    def __repr__(self) -> str:
        return f"VirtualArray({self.dtype} {self.shape} in {self.refs.chunks} chunks of {self.chunks})"


@dataclass(frozen=True, eq=False)
class VirtualGroup:
    """Attributes and named children; `sources` and `origin` stand on the root only."""

    children: Mapping[str, Node] = field(default_factory=dict)
    """Groups and arrays by name."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the group, as JSON has them."""
    sources: tuple[SourceRecord, ...] = ()
    """The sources of all chunks, as they were when they were scanned."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """How it came to be, as far as making it anew needs that: `options` of the scan, `concat_dim` of a stack."""

    def at(self, path: str) -> "Node | None":
        """Return the node at a path, None where there is none; itself for an empty one."""
        node: Node | None = self
        for name in path.split("/") if path else ():
            node = node.children.get(name) if isinstance(node, VirtualGroup) else None
        return node

    def walk(self, prefix: str = "") -> list[tuple[str, Node]]:
        """Return every node below this group with its path, parents before children."""
        nodes: list[tuple[str, Node]] = []
        for name, child in self.children.items():
            nodes.append((f"{prefix}{name}", child))
            if isinstance(child, VirtualGroup):
                nodes += child.walk(f"{prefix}{name}/")
        return nodes

    def arrays(self) -> list[tuple[str, VirtualArray]]:
        """Return every array below this group with its path."""
        return [(path, node) for path, node in self.walk() if isinstance(node, VirtualArray)]

    def with_arrays(self, change: Callable[[str, VirtualArray], VirtualArray], prefix: str = "") -> "VirtualGroup":
        """Return the same tree with what `change` makes of every array and its path."""
        children: dict[str, Node] = {
            name: child.with_arrays(change, f"{prefix}{name}/")
            if isinstance(child, VirtualGroup)
            else change(f"{prefix}{name}", child)
            for name, child in self.children.items()
        }
        return VirtualGroup(children, self.attributes, self.sources, self.origin)

    def with_refs(self, change: Callable[[References], References]) -> "VirtualGroup":
        """Return the same tree with other references of the same chunks."""
        return self.with_arrays(lambda _, array: replace(array, refs=change(array.refs)))

    def __repr__(self) -> str:
        lines = [f"  {path}: {array!r}"[:WIDEST] for path, array in self.arrays()[:SHOWN]]
        return "\n".join([f"VirtualGroup of {self._summary()}", *lines])

    def _repr_html_(self) -> str:
        arrays = self.arrays()[:SHOWN]
        rows = [(path, array.dtype, array.shape, array.chunks, array.refs.chunks) for path, array in arrays]
        table = html_table(f"VirtualGroup of {self._summary()}", ("array", "type", "shape", "chunk", "chunks"), rows)
        # by its name: what draws reads chunks, and stands above what describes them
        png = import_module("jnrrdz.commands.preview").inline(self)
        return table if png is None else f'<img alt="" src="data:image/png;base64,{b64encode(png).decode()}">{table}'

    def _summary(self) -> str:
        arrays = len(self.arrays())
        first = f": {hidden(self.sources[0].url)}" if self.sources else ""
        shown = f", {SHOWN} of them shown" if arrays > SHOWN else ""
        return f"{arrays} arrays in {len(self.sources)} sources{first}{shown}"[:WIDEST]


SHOWN = 10
"""Rows of what a notebook shows."""

WIDEST = 160


def html_table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of plain HTML, everything in it escaped."""
    from html import escape  # noqa: PLC0415  notebooks alone show tables

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(redacted(str(cell)))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
