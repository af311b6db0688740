"""VirtualiZarr's door: a parser over every scanner, and a tree of virtual arrays as a ManifestStore in memory.

A manifest there has one range for each chunk and an absolute URI for each source.  VirtualiZarr is imported where a
manifest is made, so that the parser is there without it.  Interfaces:
https://virtualizarr.readthedocs.io/en/stable/custom_parsers.html and
https://virtualizarr.readthedocs.io/en/stable/api/developer.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.json_schema import validate
from jnrrdz.core.tree import VirtualGroup, tree_json
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.scanning import scan
from jnrrdz.lazy import library
from jnrrdz.manifests.written_refs import (
    absolute_path,
    is_local,
    named_urls,
    refuse_whole,
    remedy,
    shareable,
    spans,
)
from jnrrdz.options import Access, Codecs, PrecinctWindows, ScanOptions
from jnrrdz.store.xarray import DECODED

if TYPE_CHECKING:
    from obspec_utils.registry import ObjectStoreRegistry
    from virtualizarr import manifests
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
else:
    manifests = library("virtualizarr.manifests")  # it may not be installed


@dataclass(frozen=True)
class Parser:
    """`virtualizarr.open_virtual_dataset(url, registry=registry, parser=jnrrdz.Parser())`.

    Chunks of several ranges are refused without `single_range`, since VirtualiZarr has one range for each.
    """

    group: str | None = None
    """The group to take (an overview, a page); by default the full-resolution image."""

    single_range: bool = False
    """Refer to scattered chunks by the span that holds them."""

    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    """fsspec's options for the source."""

    overviews: bool = True
    """Take the smaller versions of an image that the file holds."""

    embedded: bool = False
    """Take whole documents that the file carries: colour profile (ICC), XMP, EXIF."""

    expand_palette: bool = False
    """Return colours in place of the indices into a palette."""

    physical: bool = False
    """Return values after scale, offset and nodata, as floats with NaN, in place of
    those that are stored."""

    sidecars: bool = False
    """Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
    source."""

    codecs: Codecs = "auto"
    """`auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
    raises an error that gives the reason, `proposal` those of the format's proposal,
    one family for a whole archive."""

    chain: str | None = None
    """Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
    those that read them right."""

    stack_timepoints: bool = False
    """Stack the timepoints of a BigDataViewer container along an axis `t`."""

    precinct_windows: PrecinctWindows | None = None
    """Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
    cheap to find (`auto`, the default), all (`always`), or none (`never`)."""

    tile_part_table: str | None = None
    """A Parquet table on this machine that lists the tile-parts of JPEG 2000 files, in place
    of the walk through a file without TLM."""

    allow_missing: bool = False
    """Read tiles whose files are missing as the fill value."""

    allow_odd_blocks: bool = False
    """Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
    shorter ones padded."""

    object_versions: bool = True
    """Record the listed state of each of a container's objects, so that a replaced one
    is noticed; this costs some bytes for each chunk."""

    def __call__(self, url: str, registry: "ObjectStoreRegistry[Any]") -> "ManifestStore":
        """Return the manifest store of one source: of the named group, or of the first one that holds an image."""
        options = ScanOptions(
            overviews=self.overviews,
            embedded=self.embedded,
            expand_palette=self.expand_palette,
            physical=self.physical,
            sidecars=self.sidecars,
            codecs=self.codecs,
            chain=self.chain,
            stack_timepoints=self.stack_timepoints,
            precinct_windows=self.precinct_windows,
            tile_part_table=self.tile_part_table,
            allow_missing=self.allow_missing,
            allow_odd_blocks=self.allow_odd_blocks,
            object_versions=self.object_versions,
        ).whole_tiles()
        root = scan(url, options, Access(storage_options=self.storage_options)).group
        if self.group is None:
            choice = root.choice()
            choice.warn((str(Path(__file__).parent),))
            chosen = root.at(choice.path)
        else:
            chosen = root.at(self.group.strip("/"))
        if not isinstance(chosen, VirtualGroup):
            there = [at for at, node in root.walk() if isinstance(node, VirtualGroup)]
            message = f"no such group; there are {', '.join(there[:9]) or 'none'}"
            raise JnrrdzError(message, url=url, field=self.group)
        chosen = VirtualGroup(chosen.children, chosen.attributes, root.sources)
        return to_manifest_store(chosen, registry, single_range=self.single_range)


def to_manifest_store(
    root: VirtualGroup, registry: "ObjectStoreRegistry[Any] | None" = None, *, single_range: bool = False
) -> "ManifestStore":
    """Return a store of the tree's references, which reads through the object stores of `registry`."""
    try:
        from virtualizarr.manifests import ManifestStore  # noqa: PLC0415  may not be installed
    except ImportError as error:
        raise UnsupportedError(
            f"the form virtualizarr needs a package ({error}): pip install 'jnrrdz[virtualizarr]'"
        ) from error
    for url in named_urls(root):
        if "?" in url or "#" in url:  # ManifestStore cuts URLs there, and decodes nothing
            raise UnrepresentableError("VirtualiZarr reads no URL with `?` or `#`; write JSON or Parquet", url=url)
    root = shareable(root)
    # ManifestStore lists the keys of an array only where they are separated by dots
    documents = tree_json(root, separator=".", consolidated="nowhere")
    group = _group(root, "", documents, single_range=single_range)
    return ManifestStore(group, registry=registry)


def _group(
    group: VirtualGroup, prefix: str, documents: dict[str, dict[str, Any]], *, single_range: bool
) -> "ManifestGroup":
    arrays: dict[str, ManifestArray] = {}
    groups: dict[str, ManifestGroup] = {}
    for name, child in group.children.items():
        path = f"{prefix}{name}"
        if isinstance(child, VirtualArray):
            key = f"{path}/{ZARR_JSON}"
            validate(documents[key], DECODED, key)
            text = default_buffer_prototype().buffer.from_bytes(dumps(documents[key]).encode())
            store = MemoryStore({ZARR_JSON: text})
            try:
                metadata: Any = zarr.open_array(store, mode="r", zarr_format=3).metadata
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                message = f"metadata that zarr refuses: {error}"
                raise MalformedError(message, field=key) from error
            arrays[name] = manifests.ManifestArray(metadata, chunk_manifest(child, path, single_range=single_range))
        else:
            groups[name] = _group(child, f"{path}/", documents, single_range=single_range)
    return manifests.ManifestGroup(arrays, groups, documents[f"{prefix}{ZARR_JSON}"]["attributes"])


def chunk_manifest(array: VirtualArray, path: str, *, single_range: bool) -> "ChunkManifest":
    """Return the references of the array at `path`, made from columns and not chunk by chunk."""
    refs = array.refs.columns()
    ranges = spans(refs, path, single_range=single_range)
    refuse_whole(refs, ranges, path, "VirtualiZarr")
    if len(ranges.scattered):
        raise UnrepresentableError(
            f"a chunk of several ranges, and VirtualiZarr has one for each; {remedy(refs)}",
            url=refs.sources[ranges.source[ranges.scattered[0]]],
            field=f"{path}, chunk {ranges.scattered[0]}",
        )
    inline = np.sort(np.fromiter(refs.inline, np.int64))
    # the source of a missing chunk is -1, which is the last of these
    uris = [f"file://{absolute_path(url)}" if is_local(url) else url for url in refs.sources]
    paths: Any = np.array([*uris, manifests.manifest.MISSING_CHUNK_PATH], np.dtypes.StringDType())[ranges.source]
    paths[inline] = manifests.manifest.INLINED_CHUNK_PATH
    lengths = ranges.length.astype(np.uint64)
    lengths[inline] = [len(refs.inline[chunk]) for chunk in inline.tolist()]
    indices = np.column_stack(np.unravel_index(inline, array.grid)).tolist() if array.grid else [()] * len(inline)
    return manifests.ChunkManifest.from_arrays(
        paths=paths.reshape(array.grid),
        offsets=ranges.start.astype(np.uint64).reshape(array.grid),
        lengths=lengths.reshape(array.grid),
        validate_paths=False,
        inlined={tuple(index): refs.inline[chunk] for index, chunk in zip(indices, inline.tolist(), strict=True)},
    )
