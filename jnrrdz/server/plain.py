"""A store as Zarr that every reader has codecs for: decoded, and packed again by `zstd` or `gzip`.

Metadata keep names, attributes and conventions; only codecs, chunk grid and chunk keys are other.  Chunks take the
source's own shape where readers like it.  Tiny strips are gathered; what is too large for a browser is split along the
rows and columns, and the last few source chunks that were decoded stay in memory for the parts that follow.  A chunk
of nothing but the fill value is absent, as Zarr has it.  Follows
https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

import gzip
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import imagecodecs
import numpy as np
import zarr
from numpy.typing import NDArray

from jnrrdz.core.pyramid import MOST_LEVELS
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.store.computed_levels import with_pyramids
from jnrrdz.store.group import reference_group
from jnrrdz.store.store import ReferenceStore

type Sizes = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape of an array, and of the chunks that are served."""

type Packing = Literal["zstd", "gzip", "bytes"]

LEAST = 64 << 10
"""Bytes of a chunk below which strips are gathered."""

MOST = 4 << 20
"""Bytes of a chunk above which it is split."""

KEPT = 256 << 20
"""Bytes of decoded source chunks that are kept for the parts of them that are asked for next."""

THUMBNAIL = 512
"""Pixels along a side of the coarsest level, at most."""

OURS = "jnrrdz"
"""The root's attribute on sources, which is for readers of references."""

_PACKING: Mapping[str, tuple[dict[str, Any] | None, Callable[[bytes], bytes]]] = {
    "zstd": (
        {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
        lambda data: bytes(imagecodecs.zstd_encode(data, level=1)),
    ),
    "gzip": (
        {"name": "gzip", "configuration": {"level": 1}},
        lambda data: gzip.compress(data, compresslevel=1, mtime=0),
    ),
    "bytes": (None, lambda data: data),
}


def served_chunks(shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the shape of chunks to serve for an array that is stored in chunks of another."""
    sizes = [max(1, min(size, chunk)) for size, chunk in zip(shape, chunks, strict=True)]
    while math.prod(sizes) * itemsize > MOST:
        axis = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[axis] = -(-sizes[axis] // 2)
    for axis in range(max(len(sizes) - 2, 0), len(sizes)):  # rows, then columns
        room = LEAST // max(math.prod(sizes) * itemsize, 1)
        if room > 1 and sizes[axis] < shape[axis]:
            sizes[axis] = min(sizes[axis] * room, shape[axis])
    return tuple(sizes)


class PlainZarr:
    """The keys of a store as every Zarr v3 reader takes them."""

    def __init__(self, store: ReferenceStore, packing: Packing = "zstd") -> None:
        self._root = reference_group(store)
        self._codec, self._pack = _PACKING[packing]
        self._arrays: dict[str, PlainArray] = {}
        self._blocks = Blocks()
        nodes = store.manifest.documents.nodes()
        plain = {path: self._document(path, node) for path, node in nodes.items()}
        self.documents = {
            f"{path}/{ZARR_JSON}".lstrip("/"): dumps(_consolidated(path, plain)).encode() for path in plain
        }
        """Each node's metadata by its key."""

    def _document(self, path: str, node: Mapping[str, Any]) -> dict[str, Any]:
        document = {name: value for name, value in node.items() if name != "consolidated_metadata"}
        if document.get("node_type") != "array":
            attributes = document.get("attributes") or {}
            return document | {"attributes": {name: value for name, value in attributes.items() if name != OURS}}
        shape = tuple(document["shape"])
        dtype = np.dtype(document["data_type"])
        chunks = served_chunks(shape, document["chunk_grid"]["configuration"]["chunk_shape"], dtype.itemsize)
        self._arrays[path] = PlainArray(self._root, path, (shape, chunks), self._blocks)
        order = {"name": "bytes", "configuration": {"endian": "little"}} if dtype.itemsize > 1 else {"name": "bytes"}
        return document | {
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [order, *([self._codec] if self._codec else [])],
        }

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key, None where there are none."""
        document = self.documents.get(key)
        if document is not None:
            return document
        path, mark, rest = f"/{key}".rpartition("/c")
        array = self._arrays.get(path.strip("/")) if mark else None
        index = _index(rest)
        if array is None or index is None or not array.has(index):
            return None
        data = array.chunk(index)
        return None if data is None else self._pack(data)


def _consolidated(path: str, plain: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a node's document, a group's with those of all nodes below it."""
    if plain[path].get("node_type") == "array":
        return plain[path]
    inside = f"{path}/" if path else ""
    below = {other[len(inside) :]: node for other, node in plain.items() if other.startswith(inside) and other != path}
    inline = {"kind": "inline", "must_understand": False, "metadata": below}
    return plain[path] | {"consolidated_metadata": inline}


def _index(text: str) -> tuple[int, ...] | None:
    """Return the indices in what follows a key's `c`, None where that is none."""
    parts = text.split("/")[1:]
    if (text and not parts) or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):  # noqa: PLR2004  digits of int64
        return None
    index = tuple(map(int, parts))
    return index if "".join(f"/{one}" for one in index) == text else None


class Blocks:
    """The source chunks that were decoded last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], NDArray[Any]] = OrderedDict()
        self._nbytes = 0

    def get(self, key: tuple[str, tuple[int, ...]], read: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return a block, read where it is not kept."""
        with self._lock:
            block = self._kept.pop(key, None)
            if block is not None:
                self._kept[key] = block
                return block
        block = read()
        with self._lock:
            if key not in self._kept and block.nbytes <= KEPT:
                self._kept[key] = block
                self._nbytes += block.nbytes
                while self._nbytes > KEPT:
                    self._nbytes -= self._kept.popitem(last=False)[1].nbytes
        return block


class PlainArray:
    """An array in the chunks that are served."""

    def __init__(self, root: zarr.Group, path: str, sizes: Sizes, blocks: Blocks) -> None:
        self._root = root
        self._path = path
        self._shape, self._chunks = sizes
        self._blocks = blocks
        self._array: zarr.Array[Any] | None = None
        self._lock = threading.Lock()

    def has(self, index: tuple[int, ...]) -> bool:
        """Whether the grid has a chunk."""
        return len(index) == len(self._shape) and all(
            at * chunk < size for at, chunk, size in zip(index, self._chunks, self._shape, strict=True)
        )

    def chunk(self, index: tuple[int, ...]) -> bytes | None:
        """Return a chunk's elements, None where all of them are the fill value."""
        array = self._opened()
        spans = [
            slice(at * chunk, min((at + 1) * chunk, size))
            for at, chunk, size in zip(index, self._chunks, self._shape, strict=True)
        ]
        data = self._window(array, tuple(spans))
        fill = array.fill_value
        if ((data != data) & (fill != fill) | (data == fill)).all():  # noqa: PLR0124  NaN is not itself
            return None
        if data.shape != self._chunks:
            whole = np.full(self._chunks, fill, data.dtype)
            whole[tuple(slice(size) for size in data.shape)] = data
            data = whole
        little = data.astype(data.dtype.newbyteorder("<"), copy=False)
        return np.ascontiguousarray(little).tobytes()

    def _window(self, array: "zarr.Array[Any]", spans: tuple[slice, ...]) -> NDArray[Any]:
        """Return the elements of a window; a source chunk that is larger is decoded once for its neighbours too."""
        stored = array.chunks
        if math.prod(stored) <= math.prod(self._chunks) or not spans:
            return _read(array, spans)
        out = np.empty([span.stop - span.start for span in spans], array.dtype)
        grid = [range(span.start // size, -(-span.stop // size)) for span, size in zip(spans, stored, strict=True)]
        for index in itertools.product(*grid):
            starts = [at * size for at, size in zip(index, stored, strict=True)]
            stops = [min(start + size, end) for start, size, end in zip(starts, stored, self._shape, strict=True)]
            whole = tuple(map(slice, starts, stops))
            block = self._blocks.get((self._path, index), partial(_read, array, whole))
            target, source = [], []
            for span, start, stop in zip(spans, starts, stops, strict=True):
                low, high = max(span.start, start), min(span.stop, stop)
                target.append(slice(low - span.start, high - span.start))
                source.append(slice(low - start, high - start))
            out[tuple(target)] = block[tuple(source)]
        return out

    def _opened(self) -> "zarr.Array[Any]":
        with self._lock:
            if self._array is None:
                node = self._root[self._path]
                if not isinstance(node, zarr.Array):
                    raise JnrrdzError("not an array", field=self._path)
                self._array = node
            return self._array


def _read(array: "zarr.Array[Any]", window: tuple[slice, ...]) -> NDArray[Any]:
    return np.asarray(array[window])


def with_levels(store: ReferenceStore) -> ReferenceStore:
    """Return the store, its pictures without coarser levels with as many as make a thumbnail of the largest.

    Where the smallest picture does not bear so many, all have as many as it does.
    """
    nodes = store.manifest.documents.nodes().values()
    sides = [max(node["shape"][-2:]) for node in nodes if len(node.get("shape", ())) > 1]
    wanted = min(MOST_LEVELS, math.ceil(math.log2(max([THUMBNAIL, *sides]) / THUMBNAIL)))
    for levels in range(wanted, 0, -1):
        with suppress(UnsupportedError):
            return with_pyramids(store, levels)
    return with_pyramids(store, 0)
