"""Pyramids for images that have none: coarser levels listed as virtual, as if their files had asked for them.

May touch read's own modules, the model and errors.  An image whose group holds it alone moves into the
group `0` beside its levels, as stored pyramids stand: xarray's trees let no child have another size.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jnrrdz.core.georeference import MULTISCALES
from jnrrdz.core.virtual_level import MOST_LEVELS, VirtualLevel, check_method, virtual_levels_attribute
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests.columns import ArrayRefs, ColumnarRefs, Ints
from jnrrdz.manifests.keys import ChunkKeys
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.store.store import ReferenceStore
from jnrrdz.store.virtual_levels import VirtualLevelStore, listed_levels, with_virtual_levels

FINEST = "0"
PLANE = ("y", "x")
LEAST_CHUNK = 256
"""Rows and columns of a level's chunk, where its source has thinner ones (strips)."""

type Document = dict[str, Any]


def with_pyramids(store: ReferenceStore, levels: int, method: str = "average") -> ReferenceStore:
    """Return a store in which every image without coarser levels has some, computed where they are read.

    Level n halves rows and columns n times, and the slices of a volume that is stored in chunks of several.
    """
    if type(levels) is not int or not 0 <= levels <= MOST_LEVELS:
        raise UnsupportedError(f"{levels!r} levels; 0 to {MOST_LEVELS} can be asked for", field="virtual_levels")
    check_method(method)
    found = _with_lists(store.manifest, levels, method) if levels else store.manifest
    if found is store.manifest:
        return with_virtual_levels(store)
    listing = store.with_manifest(found)
    return PyramidStore(listing, (store, levels, method))


class PyramidStore(VirtualLevelStore):
    """A store with levels that were asked for when it was opened; it pickles as what it was made of."""

    def __init__(self, listing: ReferenceStore, made_of: tuple[ReferenceStore, int, str]) -> None:
        super().__init__(listing, listed_levels(listing.manifest.documents))
        self._made_of = made_of

    def __reduce__(self) -> tuple[Any, ...]:
        return with_pyramids, self._made_of

    def __eq__(self, other: object) -> bool:
        """Whether both compute the same levels from the same references."""
        return isinstance(other, PyramidStore) and self._made_of == other._made_of

    __hash__ = object.__hash__


@dataclass(frozen=True)
class MovedRefs:
    """The references of an array under another path."""

    keys: ChunkKeys
    inner: ArrayRefs

    def lookup(self, chunk: int) -> Any:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        return self.inner.lookup(chunk)

    def ready(self, chunk: int) -> bool:
        """Whether `lookup` answers without waiting for a network."""
        return self.inner.ready(chunk)

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending."""
        return self.inner.present()


def _with_lists(manifest: Manifest, levels: int, method: str) -> Manifest:
    nodes = {key: json.loads(text) for key, text in manifest.documents.items() if key.rpartition("/")[2] == ZARR_JSON}
    images = {folder: found for folder in _groups(nodes) if (found := _image(nodes, folder)) is not None}
    if not images:
        return manifest
    documents, arrays = dict(manifest.documents), dict(manifest.arrays)
    for folder, (name, array) in images.items():
        listed = _levels(name, array, levels, method)
        if not listed:
            continue
        _move(folder, nodes, documents, arrays)
        layout = [{"asset": FINEST, "transform": {"scale": [1.0] * len(array["shape"])}}]
        about = nodes[f"{folder}{ZARR_JSON}"]
        own = {"jnrrdz": about["attributes"]["jnrrdz"]} if "jnrrdz" in (about.get("attributes") or {}) else {}
        scales = {"zarr_conventions": [dict(MULTISCALES)], "multiscales": {"layout": layout}}
        document = {"attributes": {**own, **scales, **virtual_levels_attribute(listed)}}
        documents[f"{folder}{ZARR_JSON}"] = dumps(about | document).encode()
    return replace(manifest, documents=documents, arrays=arrays)


def _groups(nodes: Mapping[str, Document]) -> Iterator[str]:
    for key, node in nodes.items():
        if node.get("node_type") == "group":
            yield key[: -len(ZARR_JSON)]


def _image(nodes: Mapping[str, Document], folder: str) -> tuple[str, Document] | None:
    """Return the only image of a group that is no level of a pyramid; None where there is none."""
    above = folder.rstrip("/").rpartition("/")[0]
    parent = nodes.get(f"{above}/{ZARR_JSON}" if above else ZARR_JSON, {})
    if folder and "multiscales" in (parent.get("attributes") or {}):
        return None
    below = {key[len(folder) :] for key in nodes if key.startswith(folder)}
    if any(name.count("/") > 1 or nodes[folder + name].get("node_type") == "group" for name in below - {ZARR_JSON}):
        return None
    found = [(name.partition("/")[0], nodes[folder + name]) for name in below if "/" in name]
    images = [(name, array) for name, array in found if _is_image(array)]
    return images[0] if len(images) == 1 else None


def _is_image(array: Document) -> bool:
    return tuple(array.get("dimension_names") or ())[-2:] == PLANE or _plane(array) is not None


def _plane(array: Document) -> list[int] | None:
    """Return the axes y and x wherever they stand."""
    names = array.get("dimension_names") or []
    return [names.index(name) for name in PLANE] if all(name in names for name in PLANE) else None


def _levels(variable: str, array: Document, levels: int, method: str) -> list[VirtualLevel]:
    shape, chunks = array["shape"], array["chunk_grid"]["configuration"]["chunk_shape"]
    plane = _plane(array) or []
    names = array["dimension_names"]
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


def _move(
    folder: str, nodes: Mapping[str, Document], documents: dict[str, bytes], arrays: dict[str, ArrayRefs]
) -> None:
    """Put what stands in a group into the group `0` below it."""
    there = f"{folder}{FINEST}/"
    for key in [key for key in documents if key.startswith(folder) and key != f"{folder}{ZARR_JSON}"]:
        documents[there + key[len(folder) :]] = documents.pop(key)
    for path in [path for path in arrays if path.startswith(folder)]:
        refs = arrays.pop(path)
        keys = replace(refs.keys, prefix=there + refs.keys.prefix[len(folder) :])
        moved = replace(refs, keys=keys) if isinstance(refs, ColumnarRefs) else MovedRefs(keys, refs)
        arrays[there + path[len(folder) :]] = moved
    own = nodes[f"{folder}{ZARR_JSON}"]
    attributes = {name: value for name, value in (own.get("attributes") or {}).items() if name != "jnrrdz"}
    group = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
    documents[there + ZARR_JSON] = dumps(group).encode()
