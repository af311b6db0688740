"""A tree of virtual arrays as VirtualiZarr's ManifestStore, in memory.

Follows https://virtualizarr.readthedocs.io/en/stable/api/developer.html; a manifest there has one range for each
chunk and an absolute URI for each source.
"""

from typing import Any

import numpy as np
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH, MISSING_CHUNK_PATH
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.zarr_json import ZARR_JSON, dumps, tree_json
from jnrrdz.errors import UnrepresentableError
from jnrrdz.manifests.place import is_local, local_path
from jnrrdz.manifests.spans import refuse_whole, remedy, spans


def to_manifest_store(
    root: VirtualGroup, registry: ObjectStoreRegistry[Any] | None = None, *, single_range: bool = False
) -> ManifestStore:
    """Return a store of the tree's references, which reads through the object stores of `registry`."""
    # ManifestStore lists the keys of an array only where they are separated by dots
    documents = tree_json(root, separator=".", consolidated=False)
    group = _group(root, "", documents, single_range=single_range)
    return ManifestStore(group, registry=registry)


def _group(
    group: VirtualGroup, prefix: str, documents: dict[str, dict[str, Any]], *, single_range: bool
) -> ManifestGroup:
    arrays: dict[str, ManifestArray] = {}
    groups: dict[str, ManifestGroup] = {}
    for name, child in group.children.items():
        path = f"{prefix}{name}"
        if isinstance(child, VirtualArray):
            text = default_buffer_prototype().buffer.from_bytes(dumps(documents[f"{path}/{ZARR_JSON}"]).encode())
            metadata: Any = zarr.open_array(MemoryStore({ZARR_JSON: text}), mode="r", zarr_format=3).metadata
            arrays[name] = ManifestArray(metadata, chunk_manifest(child, path, single_range=single_range))
        else:
            groups[name] = _group(child, f"{path}/", documents, single_range=single_range)
    return ManifestGroup(arrays, groups, documents[f"{prefix}{ZARR_JSON}"]["attributes"])


def chunk_manifest(array: VirtualArray, path: str, *, single_range: bool) -> ChunkManifest:
    """Return the references of the array at `path`, made from columns and not chunk by chunk."""
    refs = array.refs
    found = spans(refs, path, single_range=single_range)
    refuse_whole(refs, found, path, "VirtualiZarr")
    if len(found.scattered):
        raise UnrepresentableError(
            f"a chunk of several ranges, and VirtualiZarr has one for each; {remedy(refs)}",
            url=refs.sources[found.source[found.scattered[0]]],
            field=f"{path}, chunk {found.scattered[0]}",
        )
    inline = np.sort(np.fromiter(refs.inline, np.int64))
    # the source of a missing chunk is -1, which is the last of these
    paths: Any = np.array([*map(_uri, refs.sources), MISSING_CHUNK_PATH], np.dtypes.StringDType())[found.source]
    paths[inline] = INLINED_CHUNK_PATH
    lengths = found.length.astype(np.uint64)
    lengths[inline] = [len(refs.inline[chunk]) for chunk in inline.tolist()]
    indices = np.column_stack(np.unravel_index(inline, array.grid)).tolist() if array.grid else [()] * len(inline)
    return ChunkManifest.from_arrays(
        paths=paths.reshape(array.grid),
        offsets=found.start.astype(np.uint64).reshape(array.grid),
        lengths=lengths.reshape(array.grid),
        validate_paths=False,
        inlined={tuple(index): refs.inline[chunk] for index, chunk in zip(indices, inline.tolist(), strict=True)},
    )


def _uri(url: str) -> str:
    """Return the URL of a source as ManifestStore takes it apart: it cuts at `?` and `#`, and decodes nothing."""
    absolute = f"file://{local_path(url)}" if is_local(url) else url
    if "?" in absolute or "#" in absolute:
        raise UnrepresentableError("VirtualiZarr reads no URL with `?` or `#`; write JSON or Parquet", url=url)
    return absolute
