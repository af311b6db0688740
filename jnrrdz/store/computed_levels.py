"""Levels that are not stored, computed from the finer level where they are read.

A group lists such levels (core/pyramid.py); `with_virtual_levels` gives a store in which they are there, and
`with_pyramids` lists some for every image that has none, as if its file had asked for them; how they are made follows
from the image's kind (core/hierarchy.py).  A level has its
source's type, names and attributes, with its own place; its chunks are plain bytes.  A grid mapping comes along with
its own affine; other scalars and coordinates beside the source are not repeated.  An image whose group holds it
alone moves into the group `0` beside its levels, as stored pyramids stand: xarray's trees let no child have another
size.

The source is read by windows with the margin of the filter, never whole, and in the calling thread: in a thread
of zarr's own pool, waiting for others of that pool could wait for ever.
"""

import asyncio
import copy
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest
from zarr.buffer import default_buffer_prototype

from jnrrdz.concurrency import SharedCalls
from jnrrdz.core.describe import Image
from jnrrdz.core.georeference import (
    AFFINE_NUMBERS,
    GEO_TRANSFORM,
    MULTISCALES,
    GeoTransform,
    coarser,
    geo_transform,
)
from jnrrdz.core.hierarchy import PLANE, Hierarchy, level_paths
from jnrrdz.core.pyramid import (
    MOST_LEVELS,
    PER_TILE,
    SPACE,
    VIRTUAL_LEVELS,
    VirtualLevel,
    check_method,
    coarser_space,
    is_space,
    virtual_levels_attribute,
    virtual_levels_of,
)
from jnrrdz.core.refs import References
from jnrrdz.core.tree import with_members
from jnrrdz.core.zarr_json import ZARR_JSON, missing_value
from jnrrdz.downsample import LARGEST, Downsampling, LevelAssembler, Region
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.manifests.documents import ChunkKeys, Documents
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.store.group import ChunkReader
from jnrrdz.store.requests import Recent
from jnrrdz.store.store import ReferenceStore, cut

type Document = dict[str, Any]


def _nodes(documents: Documents) -> dict[str, Document]:
    """Return what the documents of groups and arrays say, by their keys."""
    return {f"{path}/{ZARR_JSON}".lstrip("/"): node for path, node in documents.nodes().items()}


def level_documents(documents: Documents, listed: Mapping[str, tuple[VirtualLevel, ...]]) -> Documents:
    """Return the documents with those of the levels that groups list; groups' paths end in a slash."""
    nodes = copy.deepcopy(_nodes(documents))
    for path, levels in listed.items():
        for level in levels:
            _add(nodes, path, level)
        _complete(nodes, path, levels)
    by_path = {key[: -len(ZARR_JSON) - 1]: node for key, node in nodes.items()}
    objects = {f"{path}/{ZARR_JSON}".lstrip("/"): node for path, node in with_members(by_path).items()}
    return Documents(documents, objects)


def _add(nodes: dict[str, Document], path: str, level: VirtualLevel) -> None:
    group, array = f"{path}{level.name}/{ZARR_JSON}", f"{path}{level.name}/{level.variable}/{ZARR_JSON}"
    source = nodes.get(f"{path}{level.source}/{level.variable}/{ZARR_JSON}")
    if group in nodes or array in nodes:
        raise JnrrdzError(f"the level {level.name!r} is both stored and virtual", field=f"{path}{ZARR_JSON}")
    if source is None:
        raise JnrrdzError(f"no stored level {level.source!r} for {level.name!r}", field=f"{path}{ZARR_JSON}")
    nodes[group] = {"attributes": {}, "zarr_format": 3, "node_type": "group"}
    nodes[array] = source | {
        "shape": list(level.shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(level.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": _placed(source.get("attributes") or {}, source.get("dimension_names") or [], level),
    }
    _add_mapping(nodes, path, level, source)


def _add_mapping(nodes: dict[str, Document], path: str, level: VirtualLevel, source: Document) -> None:
    """Add the grid mapping of the source, whose affine is that of the level's larger elements."""
    name = (source.get("attributes") or {}).get("grid_mapping")
    mapping = nodes.get(f"{path}{level.source}/{name}/{ZARR_JSON}")
    if mapping is None or mapping.get("shape") or (source.get("dimension_names") or [])[-2:] != ["y", "x"]:
        return
    attributes = dict(mapping["attributes"])
    if transform := geo_transform(attributes):
        rows, columns = level.factors[-2:]
        affine = coarser(transform.affine, rows, columns)
        attributes[GEO_TRANSFORM] = GeoTransform.of_affine(affine).text
    nodes[f"{path}{level.name}/{name}/{ZARR_JSON}"] = mapping | {"attributes": attributes}
    nodes[f"{path}{level.name}/{level.variable}/{ZARR_JSON}"]["attributes"] |= {
        "grid_mapping": name,
        "coordinates": name,
    }


def _placed(attributes: Document, names: list[str], level: VirtualLevel) -> Document:
    """Return attributes with the level's place: the same origin, larger elements; what is per pixel goes."""
    gone = {"grid_mapping", "coordinates", "rpc", "spatial:bbox", *PER_TILE}
    found = {name: value for name, value in attributes.items() if name not in gone}
    factors = dict(zip(names, level.factors, strict=False))
    if is_space(found.get(SPACE)):
        found[SPACE] = coarser_space(found[SPACE], factors)
    if isinstance(found.get("axes"), dict):
        found["axes"] = {name: _axis(axis, factors.get(name, 1)) for name, axis in found["axes"].items()}
    affine = found.pop("spatial:transform", None)
    found.pop("spatial:shape", None)
    if names[-2:] == ["y", "x"] and isinstance(affine, list) and len(affine) == AFFINE_NUMBERS:
        a, b, c, d, e, f = affine
        rows, columns = level.factors[-2:]
        found["spatial:shape"] = list(level.shape[-2:])
        found["spatial:transform"] = list(coarser((a, b, c, d, e, f), rows, columns))
    return found


def _axis(axis: Any, factor: int) -> Any:
    """Return an axis whose elements span several: the first one's middle lies between theirs."""
    if not isinstance(axis, dict) or factor == 1:
        return axis
    found = {name: value for name, value in axis.items() if name != "labels"}
    step = axis.get("step")
    if isinstance(step, int | float):
        found |= {"step": step * factor, "start": axis.get("start", 0.0) + (factor - 1) / 2 * step}
    return found


def _complete(nodes: dict[str, Document], path: str, levels: tuple[VirtualLevel, ...]) -> None:
    """Add the levels to the multiscales of their group, by size."""
    attributes = nodes[f"{path}{ZARR_JSON}"].get("attributes", {})
    scales = attributes.get("multiscales")
    if not isinstance(scales, dict) or not level_paths(attributes):
        return
    layout = scales["layout"]
    for level in levels:
        transform = {"scale": [float(f) for f in level.factors], "translation": [0.0] * len(level.factors)}
        layout.append({"asset": level.name, "derived_from": level.source, "transform": transform})
    variable = levels[0].variable

    def size(entry: Document) -> int:
        found = nodes.get(f"{path}{entry.get('asset')}/{variable}/{ZARR_JSON}", {})
        return -math.prod(found.get("shape", ()))

    layout.sort(key=size)


class LevelChunks:
    """One level below a group; `path` is the group's with a slash at its end, or nothing."""

    def __init__(self, stored: ReferenceStore, path: str, level: VirtualLevel) -> None:
        self.source = f"{path}{level.source}/{level.variable}"
        self._stored = stored
        document = stored.manifest.documents.node(self.source)
        facts = stored.manifest.hierarchy.nodes[self.source].array
        self._document, self._facts, self._level = document, facts, level
        missing = missing_value(facts.attributes, facts.dtype)
        self._filter = Downsampling(level.method, level.factors, facts.shape, facts.dtype, missing)
        self._filter.check_shape(level.shape)
        self._assembler = LevelAssembler(self._filter, facts.chunks)
        grid = tuple(-(-size // step) for size, step in zip(level.shape, level.chunks, strict=True))
        self.keys = ChunkKeys.encoded(f"{path}{level.name}/{level.variable}", grid, "default", "/")
        self.nbytes = math.prod(level.chunks) * facts.dtype.itemsize
        if self.nbytes > LARGEST:
            raise UnsupportedError(f"chunks of {self.nbytes} bytes; no more than {LARGEST} are computed")

    @cached_property
    def _source(self) -> ChunkReader:
        return ChunkReader(self._stored, self.source, self._document)

    @property
    def is_sync(self) -> bool:
        """Whether every codec of the source decodes without an event loop."""
        return self._source.is_sync

    def chunk_sync(self, number: int) -> bytes:
        """Return the bytes of a chunk, computed in this thread."""
        chunk = self._empty()
        self._assembler.fill(chunk, self._region(number), self._source.read_sync)
        return chunk.tobytes()

    async def chunk(self, number: int) -> bytes:
        """Return the bytes of a chunk, its sources fetched together and the filter run in a thread."""
        chunk = self._empty()
        for part in self._assembler.parts(self._region(number)):
            window = await self._source.read(part.window)
            chunk[part.target] = await asyncio.to_thread(self._filter.apply, window, part.region)
        return chunk.tobytes()

    def _empty(self) -> NDArray[Any]:
        return np.full(self._level.chunks, self._facts.fill_value, self._facts.dtype.newbyteorder("<"))

    def _region(self, number: int) -> Region:
        """Return the elements of a chunk that are in the level."""
        index = np.unravel_index(number, self.keys.grid)
        starts = [int(at) * size for at, size in zip(index, self._level.chunks, strict=True)]
        ends = zip(starts, self._level.chunks, self._level.shape, strict=True)
        stops = [min(start + chunk, size) for start, chunk, size in ends]
        return tuple(slice(start, stop) for start, stop in zip(starts, stops, strict=True))


def checked(stored: ReferenceStore, path: str, level: VirtualLevel) -> LevelChunks:
    """Return a level's chunks; a source that is not there is an error that names it."""
    if f"{path}{level.source}/{level.variable}/{ZARR_JSON}" not in stored.manifest.documents:
        raise JnrrdzError(f"no stored level {level.source!r} to compute {level.name!r} from", field=path or "/")
    return LevelChunks(stored, path, level)


KEPT = 256 << 20
"""Bytes of computed chunks that a store keeps; the longest unused leave first, none above a quarter of it."""


def with_virtual_levels(store: ReferenceStore) -> ReferenceStore:
    """Return a store in which the levels that its groups list are there; the same store where they list none."""
    listed = listed_levels(store.manifest.documents)
    return VirtualLevelStore(store, listed) if listed else store


def listed_levels(documents: Documents) -> dict[str, tuple[VirtualLevel, ...]]:
    """Return the levels that groups list, by the groups' paths with a slash at their ends."""
    listed = {}
    for key, node in _nodes(documents).items():
        attributes = node.get("attributes")
        if node.get("node_type") != "group" or not isinstance(attributes, dict) or VIRTUAL_LEVELS not in attributes:
            continue
        try:
            listed[key[: -len(ZARR_JSON)]] = virtual_levels_of(attributes)
        except JnrrdzError as error:
            raise error.at(field=key) from error.__cause__
    return {path: levels for path, levels in listed.items() if levels}


class VirtualLevelStore(ReferenceStore):
    """The keys of a manifest, and those of the levels that are computed from it."""

    def __init__(self, stored: ReferenceStore, listed: Mapping[str, tuple[VirtualLevel, ...]]) -> None:
        twin = stored.with_documents(level_documents(stored.manifest.documents, listed))
        options: Any = twin._storage_options  # noqa: SLF001  a subclass's own member
        access: Any = twin._access  # noqa: SLF001  the same
        super().__init__(twin.manifest, storage_options=options, **access)
        self.stored = stored
        """The store of what is stored alone."""
        self._levels = {
            f"{path}{level.name}/{level.variable}/": checked(stored, path, level)
            for path, levels in listed.items()
            for level in levels
        }
        self._recent = Recent(KEPT)
        self._shared = SharedCalls()

    def __reduce__(self) -> tuple[Any, ...]:
        return with_virtual_levels, (self.stored,)

    def __eq__(self, other: object) -> bool:
        """Whether both compute from the same references."""
        return isinstance(other, VirtualLevelStore) and self.stored == other.stored

    __hash__ = object.__hash__

    def _computed(self, key: str) -> tuple[LevelChunks, int] | None:
        """Return the level and the number of the chunk that a key names, None where it names none of a level."""
        for prefix, level in self._levels.items():
            if key.startswith(prefix):
                number = level.keys.number(key)
                return None if number is None else (level, number)
        return None

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of a key, computed where it is a chunk of such a level."""
        found = self._computed(key)
        if found is None:
            return await super().get(key, prototype, byte_range)
        level, number = found
        where = (level.keys.prefix, number, 0)
        data = self._recent.get(where)
        if data is None:
            try:
                data = await level.chunk(number)
            except JnrrdzError as error:
                raise error.at(field=key) from error.__cause__
            self._recent.put(where, data)
        return _buffer(data, prototype, byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Do the same without an event loop."""
        found = self._computed(key)
        if found is None:
            return super().get_sync(key, prototype=prototype, byte_range=byte_range)
        level, number = found
        where = (level.keys.prefix, number, 0)
        data = self._recent.get(where)
        return _buffer(self._once(level, number, key) if data is None else data, prototype, byte_range)

    def _once(self, level: LevelChunks, number: int, key: str) -> bytes:
        """Return a chunk that nobody has yet; of many threads that ask for it, one computes it."""
        where = (level.keys.prefix, number, 0)

        def compute() -> bytes:
            data = level.chunk_sync(number)
            self._recent.put(where, data)
            return data

        try:
            return self._shared.once(where, compute)
        except JnrrdzError as error:
            raise error.at(field=key) from error.__cause__

    async def exists(self, key: str) -> bool:
        """Whether there is something for a key."""
        return self._computed(key) is not None or await super().exists(key)

    async def getsize(self, key: str) -> int:
        """Return the number of bytes of a key, without reading them."""
        found = self._computed(key)
        return await super().getsize(key) if found is None else found[0].nbytes

    def describe(self, key: str) -> str:
        """Return where a key's bytes are, for people."""
        found = self._computed(key)
        return super().describe(key) if found is None else f"computed from {found[0].source}"

    async def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key that begins with a prefix."""
        async for key in super().list_prefix(prefix):
            yield key
        for level in self._levels.values():
            for number in range(level.keys.chunks):
                key = level.keys.key(number)
                if key.startswith(prefix):
                    yield key

    @property
    def _supports_sync_io(self) -> bool:
        """Whether zarr may read on the calling thread: where all sources are local and all codecs can."""
        return super()._supports_sync_io and all(level.is_sync for level in self._levels.values())


def _buffer(data: bytes, prototype: BufferPrototype | None, byte_range: ByteRequest | None) -> Buffer:
    part = cut(data, byte_range)
    return (prototype or default_buffer_prototype()).buffer.from_bytes(b"" if part is None else part)


FINEST = "0"
LEAST_CHUNK = 256
"""Rows and columns of a level's chunk, where its source has thinner ones (strips)."""


def with_pyramids(store: ReferenceStore, levels: int, method: str | None = None) -> ReferenceStore:
    """Return a store in which every image without coarser levels has computed ones.

    Level n halves rows and columns n times, and the slices of a volume that is stored in
    chunks of several.  Without a method each image has that of its kind.
    """
    if type(levels) is not int or not 0 <= levels <= MOST_LEVELS:
        raise UnsupportedError(f"{levels!r} levels; 0 to {MOST_LEVELS} can be asked for", field="virtual_levels")
    if method is not None:
        check_method(method)
    found = _with_lists(store.manifest, levels, method) if levels else store.manifest
    if found is store.manifest:
        return with_virtual_levels(store)
    listing = store.with_manifest(found)
    return PyramidStore(listing, (store, levels, method))


class PyramidStore(VirtualLevelStore):
    """A store with levels that were asked for when it was opened; it pickles as what it was made of."""

    def __init__(self, listing: ReferenceStore, made_of: tuple[ReferenceStore, int, str | None]) -> None:
        super().__init__(listing, listed_levels(listing.manifest.documents))
        self._made_of = made_of

    def __reduce__(self) -> tuple[Any, ...]:
        return with_pyramids, self._made_of

    def __eq__(self, other: object) -> bool:
        """Whether both compute the same levels from the same references."""
        return isinstance(other, PyramidStore) and self._made_of == other._made_of

    __hash__ = object.__hash__


def _with_lists(manifest: Manifest, levels: int, method: str | None) -> Manifest:
    nodes = _nodes(manifest.documents)
    tree = manifest.hierarchy
    documents, arrays = Documents(manifest.documents), dict(manifest.arrays)
    is_changed = False
    for image in tree.images():
        node = image.finest
        array = manifest.documents.node(node.path)
        if not _is_single(tree, image):
            continue
        listed = _levels(node.name, array, levels, method or image.level_method)
        if not listed:
            continue
        is_changed = True
        folder = f"{node.parent}/".lstrip("/")
        _move(folder, nodes, documents, arrays)
        layout = [{"asset": FINEST, "transform": {"scale": [1.0] * len(array["shape"])}}]
        about = nodes[f"{folder}{ZARR_JSON}"]
        own = {"jnrrdz": about["attributes"]["jnrrdz"]} if "jnrrdz" in (about.get("attributes") or {}) else {}
        scales = {"zarr_conventions": [dict(MULTISCALES)], "multiscales": {"layout": layout}}
        document = {"attributes": {**own, **scales, **virtual_levels_attribute(listed)}}
        documents.put(f"{folder}{ZARR_JSON}", about | document)
    return replace(manifest, documents=documents, arrays=arrays) if is_changed else manifest


def _is_single(tree: Hierarchy, image: Image) -> bool:
    """Whether an image has no other level, and its group no other plane and no group."""
    group = image.finest.parent
    if len(image.levels) > 1 or tree.is_level(group):
        return False
    children = tree.members(group)
    planes = [node for node in children if set(PLANE) <= set(node.dimension_names)]
    return planes == [image.finest] and all(node.is_array for node in children)


def _levels(variable: str, array: Document, levels: int, method: str) -> list[VirtualLevel]:
    shape, chunks = array["shape"], array["chunk_grid"]["configuration"]["chunk_shape"]
    names = array["dimension_names"]
    if 0 in shape:
        return []
    plane = [names.index(name) for name in PLANE]
    halved = [*plane, *(axis for axis, name in enumerate(names) if name == "z" and chunks[axis] > 1)]
    found = []
    for level in range(1, levels + 1):
        factors = [min(2**level, shape[axis]) if axis in halved else 1 for axis in range(len(shape))]
        if all(factors[axis] < 2**level for axis in plane):
            break
        size = [max(1, -(-side // factor)) for side, factor in zip(shape, factors, strict=True)]
        least = [LEAST_CHUNK if axis in plane else 1 for axis in range(len(shape))]
        grid = [min(max(step, few), side) for step, few, side in zip(chunks, least, size, strict=True)]
        found.append(
            VirtualLevel(str(level), FINEST, variable, tuple(factors), tuple(size), tuple(grid), method)  # type: ignore[arg-type]
        )
    return found


def _move(folder: str, nodes: Mapping[str, Document], documents: Documents, arrays: dict[str, References]) -> None:
    """Put what stands in a group into the group `0` below it."""
    there = f"{folder}{FINEST}/"
    for key in [key for key in documents if key.startswith(folder) and key != f"{folder}{ZARR_JSON}"]:
        documents.rename(key, there + key[len(folder) :])
    for path in [path for path in arrays if path.startswith(folder)]:
        arrays[there + path[len(folder) :]] = arrays.pop(path)
    own = nodes.get(f"{folder}{ZARR_JSON}", {})  # others' manifests have groups without a document
    attributes = {name: value for name, value in (own.get("attributes") or {}).items() if name != "jnrrdz"}
    group = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
    documents.put(there + ZARR_JSON, group)
