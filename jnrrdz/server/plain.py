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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.json_schema import shown
from jnrrdz.core.ome import dataset_entry
from jnrrdz.core.pyramid import MOST_LEVELS, VIRTUAL_LEVELS, VirtualLevel, virtual_levels_of
from jnrrdz.core.tree import with_members
from jnrrdz.core.windows import chunks_under, overlaps
from jnrrdz.core.zarr_json import DATA_TYPES, ZARR_JSON, dumps
from jnrrdz.errors import UnsupportedError
from jnrrdz.options import ServeOptions
from jnrrdz.server.memory import Blocks, Memory
from jnrrdz.store.computed_levels import FINEST, with_pyramids
from jnrrdz.store.group import ChunkReader, reference_group
from jnrrdz.store.store import ReferenceStore

type Sizes = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape of an array, and of the chunks that are served."""

type Block = tuple[int, str, tuple[int, ...]]
"""A source chunk: the number of its store, the path of its array, and its place."""

_numbers = itertools.count()
"""Numbers of stores: a source that is opened again shares no chunks with what it was."""

LEAST = 64 << 10
"""Bytes of a chunk below which strips are gathered."""

MOST = 4 << 20
"""Bytes of a chunk above which it is split."""

THUMBNAIL = 512
"""Pixels along a side of the coarsest level, at most."""

OURS = frozenset({"jnrrdz", VIRTUAL_LEVELS})
"""Attributes for readers of references: on sources, and on levels that are to be computed."""

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

    def __init__(self, stored: ReferenceStore, options: ServeOptions, memory: Memory | None = None) -> None:
        self.stored = stored
        """The store without computed levels."""
        store = self._store = with_levels(stored) if options.pyramids else with_pyramids(stored, 0)
        self._codec, self._pack = _PACKING[options.packing]
        self._arrays: dict[str, PlainArray] = {}
        self._blocks = Blocks(memory or Memory(options.cache_bytes))
        self._number = next(_numbers)
        nodes = with_ome_levels(store.manifest.documents.nodes())
        plain = {path: self._document(path, node) for path, node in nodes.items()}
        self.documents = {
            f"{path}/{ZARR_JSON}".lstrip("/"): dumps(document).encode()
            for path, document in with_members(plain).items()
        }
        """Each node's metadata by its key."""

    @property
    def is_local(self) -> bool:
        """Whether all sources are on this machine."""
        return self._store._supports_sync_io  # noqa: SLF001  zarr's name for it

    def _document(self, path: str, node: Mapping[str, Any]) -> dict[str, Any]:
        document = {name: value for name, value in node.items() if name != "consolidated_metadata"}
        if document.get("node_type") != "array":
            attributes = document.get("attributes") or {}
            return document | {"attributes": {name: value for name, value in attributes.items() if name not in OURS}}
        shape = tuple(document["shape"])
        if not isinstance(document["data_type"], str) or document["data_type"] not in DATA_TYPES:
            raise UnsupportedError(f"data type {shown(document['data_type'])}", field=f"{path}: data_type")
        dtype = np.dtype(document["data_type"])
        chunks = served_chunks(shape, document["chunk_grid"]["configuration"]["chunk_shape"], dtype.itemsize)
        self._arrays[path] = PlainArray(self._store, (self._number, path), (shape, chunks), self._blocks)
        order = {"name": "bytes", "configuration": {"endian": "little"}} if dtype.itemsize > 1 else {"name": "bytes"}
        return document | {
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [order, *([self._codec] if self._codec else [])],
        }

    def chunk_at(self, key: str) -> "ChunkAt | None":
        """Return the chunk that a key names, None where it names none."""
        path, mark, rest = f"/{key}".rpartition("/c")
        array = self._arrays.get(path[1:]) if mark else None  # no other spelling names the same chunk
        index = _index(rest)
        return None if array is None or index is None or not array.has(index) else ChunkAt(array, index)

    def is_kept(self, block: Block) -> bool:
        """Whether a source chunk is in memory, or in a file."""
        return self._blocks.get(block) is not None

    def packed(self, chunk: "ChunkAt") -> bytes | None:
        """Return the bytes of a chunk, None where all its elements are the fill value."""
        data = chunk.array.chunk(chunk.place)
        return None if data is None else self._pack(data)


class ChunkAt(NamedTuple):
    """A chunk of an array."""

    array: "PlainArray"
    place: tuple[int, ...]


def _index(text: str) -> tuple[int, ...] | None:
    """Return the indices in what follows a key's `c`, None where that is none."""
    parts = text.split("/")[1:]
    if (text and not parts) or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):  # noqa: PLR2004  digits of int64
        return None
    index = tuple(map(int, parts))
    return index if "".join(f"/{one}" for one in index) == text else None


class PlainArray:
    """An array in the chunks that are served."""

    def __init__(self, store: ReferenceStore, name: tuple[int, str], sizes: Sizes, blocks: Blocks) -> None:
        self._store = store
        self._number, self._path = name
        self._shape, self._chunks = sizes
        self._blocks = blocks
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def has(self, index: tuple[int, ...]) -> bool:
        """Whether the grid has a chunk."""
        return len(index) == len(self._shape) and all(
            at * chunk < size for at, chunk, size in zip(index, self._chunks, self._shape, strict=True)
        )

    def chunk(self, index: tuple[int, ...]) -> bytes | None:
        """Return a chunk's elements, None where all of them are the fill value."""
        array = self.open()
        data = self._window(array, self._spans(index))
        fill = array.fill
        if ((data != data) & (fill != fill) | (data == fill)).all():  # noqa: PLR0124  NaN is not itself
            return None
        if data.shape != self._chunks:
            whole = np.full(self._chunks, fill, data.dtype)
            whole[tuple(slice(size) for size in data.shape)] = data
            data = whole
        little = data.astype(data.dtype.newbyteorder("<"), copy=False)
        return np.ascontiguousarray(little).tobytes()

    def shared_blocks(self, index: tuple[int, ...]) -> list[Block]:
        """Return the source chunks of which a chunk and its neighbours are parts; none where it holds whole ones."""
        array = self.open()
        if math.prod(array.chunks) <= math.prod(self._chunks) or not self._shape:
            return []
        return [(self._number, self._path, place) for place in chunks_under(self._spans(index), array.chunks)]

    def load(self, block: Block) -> None:
        """Decode a source chunk, and keep it."""
        self._blocks.keep(block, self._read(self.open(), block[2]))

    @property
    def is_open(self) -> bool:
        """Whether zarr has taken the array's metadata."""
        return self._opened is not None

    def open(self) -> "_Opened":
        """Return the array, opened by the first who asks."""
        with self._lock:
            self._opened = self._opened or _Opened.of(self._store, self._path)
            return self._opened

    def _spans(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        sizes = zip(index, self._chunks, self._shape, strict=True)
        return tuple(slice(at * chunk, min((at + 1) * chunk, size)) for at, chunk, size in sizes)

    def _box(self, array: "_Opened", place: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return where a source chunk begins and ends along each axis."""
        sizes = zip(place, array.chunks, self._shape, strict=True)
        return [(at * size, min((at + 1) * size, end)) for at, size, end in sizes]

    def _read(self, array: "_Opened", place: tuple[int, ...]) -> NDArray[Any]:
        return array.read(tuple(slice(start, stop) for start, stop in self._box(array, place)))

    def _window(self, array: "_Opened", spans: tuple[slice, ...]) -> NDArray[Any]:
        """Return the elements of a window, cut from kept source chunks where those are larger."""
        if math.prod(array.chunks) <= math.prod(self._chunks) or not spans:
            return array.read(spans)
        out = np.empty([span.stop - span.start for span in spans], array.dtype)
        for place, source, target in overlaps(spans, array.chunks):
            block = self._blocks.get((self._number, self._path, place))
            if block is None:  # too large to be kept, or gone again
                block = self._read(array, place)
            out[target] = block[source]
        return out


@dataclass(frozen=True)
class _Opened:
    """An array whose metadata zarr has taken."""

    read: Callable[[tuple[slice, ...]], NDArray[Any]]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Any

    @classmethod
    def of(cls, store: ReferenceStore, path: str) -> "_Opened":
        """Return an array of a store: read in the calling thread where its sources are here and its codecs can."""
        array = reference_group(store).get_array(path)
        reader = ChunkReader(store, path, store.manifest.documents.node(path))
        if store._supports_sync_io and reader.is_sync:  # noqa: SLF001  zarr's name for it
            return cls(reader.read_sync, array.chunks, array.dtype, array.fill_value)
        return cls(lambda window: np.asarray(array[window]), array.chunks, array.dtype, array.fill_value)


def with_ome_levels(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return nodes in which an OME-Zarr image lists its computed levels: its attribute stands on the group of all.

    https://ngff.openmicroscopy.org/0.5/#multiscale-md
    """
    found = dict(nodes)
    for path, node in nodes.items():
        computed = virtual_levels_of(node.get("attributes") or {})
        finest_path = f"{path}/{FINEST}".lstrip("/")
        finest = nodes.get(finest_path, {}).get("attributes") or {}
        if not computed or not isinstance(finest.get("ome"), dict):
            continue
        image = _with_levels(finest["ome"], computed)
        if image is not None:
            found[path] = {**node, "attributes": {**(node.get("attributes") or {}), "ome": image}}
            own = {name: value for name, value in finest.items() if name != "ome"}
            found[finest_path] = {**nodes[finest_path], "attributes": own}
    return found


def _with_levels(ome: Mapping[str, Any], computed: Sequence[VirtualLevel]) -> dict[str, Any] | None:
    """Return an image's attribute with computed levels; None where it is of several images, or of none."""
    try:
        (image,) = ome["multiscales"]
        (dataset,) = image["datasets"]
        transforms = {each["type"]: each[each["type"]] for each in dataset["coordinateTransformations"]}
        step = [float(size) for size in transforms["scale"]]
        start = [float(at) for at in transforms.get("translation", [0.0] * len(step))]
    except (KeyError, TypeError, ValueError):
        return None
    datasets = [dataset_entry(f"{FINEST}/{dataset['path']}", step, start)]
    for level in computed:
        scale = [size * factor for size, factor in zip(step, level.factors, strict=True)]
        shift = [at + (factor - 1) / 2 * size for at, size, factor in zip(start, step, level.factors, strict=True)]
        datasets.append(dataset_entry(f"{level.name}/{level.variable}", scale, shift))
    return {**ome, "multiscales": [{**image, "datasets": datasets}]}


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
