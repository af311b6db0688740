"""The library's functions: scan, write, index, open.

May touch everything below it.  Each function takes paths or URLs as text, whatever fsspec opens,
and raises JnrrdzError alone for what is wrong with them.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import xarray as xr
import zarr

from jnrrdz.codecs.osml import adopted_documents
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.physical import physical as physical_values
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.n5.scan import describe_in_place
from jnrrdz.formats.scanning import Scanned, scan_located
from jnrrdz.manifests import in_place
from jnrrdz.manifests.forms import ENDINGS, format_of, write_form
from jnrrdz.manifests.manifest import from_group, is_reference_manifest
from jnrrdz.options import ScanChoices, ScanOptions, with_whole_tiles
from jnrrdz.sources.tree import open_tree
from jnrrdz.sources.url import local_path
from jnrrdz.store.computed_levels import with_pyramids
from jnrrdz.store.group import reference_group
from jnrrdz.store.store import ReferenceStore
from jnrrdz.store.store import open_store as _open_store
from jnrrdz.store.xarray import dataset, datasets

type Options = Mapping[str, Any] | None

MAGIC_BYTES = 4


@dataclass(frozen=True)
class Indexed:
    """What an index run made and what it cost."""

    source: str
    output: str
    format: str
    arrays: int
    chunks: int
    requests: int
    bytes_read: int


def scan_with_cost(
    src: str | os.PathLike[str],
    *,
    overviews: bool = True,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    **choices: Unpack[ScanChoices],
) -> Scanned:
    """Return the virtual group of a source with the requests and bytes that finding it took."""
    options = ScanOptions(overviews=overviews, allow=tuple(allow), **choices)
    return scan_located(os.fspath(src), options, storage_options=storage_options)


def scan(
    src: str | os.PathLike[str],
    *,
    overviews: bool = True,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    **choices: Unpack[ScanChoices],
) -> VirtualGroup:
    """Return what a source holds, as a virtual group: metadata and references, no pixels.

    `allow` are paths and URLs under which its header may name files that are not below its own folder.
    """
    return scan_with_cost(src, overviews=overviews, allow=allow, storage_options=storage_options, **choices).group


def write(  # noqa: PLR0913
    group: VirtualGroup,
    out: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  the word that users know
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    storage_options: Options = None,
) -> None:
    """Write a virtual group as a manifest, whole or not at all."""
    write_form(
        group,
        os.fspath(out),
        format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        storage_options=storage_options,
    )


def index(  # noqa: PLR0913
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  the word that users know
    single_range: bool = False,
    relative: bool = False,
    overviews: bool = True,
    overwrite: bool = False,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    target_options: Options = None,
    **choices: Unpack[ScanChoices],
) -> Indexed:
    """Scan a source and write its manifest; options are fsspec's, for the source and for the output."""
    if local_path(os.fspath(src)) is not None and os.path.realpath(src) == os.path.realpath(out):
        raise UnsupportedError("the manifest would replace its own source", url=os.fspath(out))
    if single_range or (format or format_of(os.fspath(out))) == "icechunk":
        choices = with_whole_tiles(choices)
    found = scan_with_cost(src, overviews=overviews, allow=allow, storage_options=storage_options, **choices)
    write(
        found.group,
        out,
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        storage_options=target_options,
    )
    arrays = [array for _, array in found.group.arrays() if array.shape]
    return Indexed(
        os.fspath(src),
        os.fspath(out),
        format or format_of(os.fspath(out)),
        len(arrays),
        sum(array.refs.chunks for array in arrays),
        found.requests,
        found.bytes_read,
    )


def index_in_place(
    src: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    storage_options: Options = None,
    overviews: bool = True,
    **choices: Unpack[ScanChoices],
) -> list[str]:
    """Write zarr.json beside the metadata of a container (N5), and return the keys written."""
    text = os.fspath(src)
    options = ScanOptions(overviews=overviews, **choices)
    found = describe_in_place(open_tree(text, storage_options=storage_options), options)
    return in_place.write(found, text, overwrite=overwrite, storage_options=storage_options)


def remove_in_place(src: str | os.PathLike[str], *, storage_options: Options = None) -> list[str]:
    """Remove what `index_in_place` wrote, and return the keys removed."""
    return in_place.remove(os.fspath(src), storage_options=storage_options)


def open_store(  # noqa: PLR0913  what is opened, and what is made of it
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
    virtual_levels: int = 0,
    downsample: str = "average",
    **choices: Unpack[ScanChoices],
) -> ReferenceStore:
    """Return a read-only zarr store of a manifest, of a virtual group, or of a source scanned now.

    `storage_options` are fsspec's for what is opened here, `source_options` for the sources that a
    manifest names, and `allow` are further prefixes that it may reach.  The choices are for what is
    scanned; a manifest holds what was asked for when it was written.  Levels that a group lists as
    virtual are there too, computed where they are read; `virtual_levels` gives so many to every image that
    has no coarser levels, made by the method `downsample`.
    """
    stored = open_stored(refs, allow=allow, storage_options=storage_options, source_options=source_options, **choices)
    return with_pyramids(stored, virtual_levels, downsample)


def open_stored(
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
    **choices: Unpack[ScanChoices],
) -> ReferenceStore:
    """Return the same without levels that are computed: what has references, and nothing else."""
    if isinstance(refs, VirtualGroup):
        group = physical_values(refs) if choices.get("physical") else refs
        return ReferenceStore(from_group(group), source_options=source_options, allow=("*",))
    text = os.fspath(refs)
    if names_manifest(text):
        chosen = ", ".join(f"{name}=True" for name, value in choices.items() if value)
        if chosen:
            raise UnsupportedError(
                f"a manifest is read as it was written; index its source with {chosen}", url=text, field=chosen
            )
        store = _open_store(text, storage_options=storage_options, source_options=source_options, allow=allow)
        # what osml-imagery-io leaves out of its manifests (byte order, codecs of plain files) its sources tell
        found = adopted_documents(store.manifest.documents, lambda path: store.source_head(path, MAGIC_BYTES))
        return store if found is store.manifest.documents else store.with_documents(found)
    group = scan(text, allow=allow, storage_options=storage_options, **choices)
    own = source_options if source_options is not None else storage_options
    return ReferenceStore(from_group(group), source_options=own, allow=("*",))


def names_manifest(text: str) -> bool:
    """Whether references are opened, not a source; a remote one is told by its name."""
    if local_path(text) is not None:
        return is_reference_manifest(text) or text.rstrip("/").endswith((".json", *ENDINGS))
    return text.rstrip("/").endswith((".json", *ENDINGS))


def open_group(  # noqa: PLR0913  those of open_store
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
    virtual_levels: int = 0,
    downsample: str = "average",
    **choices: Unpack[ScanChoices],
) -> zarr.Group:
    """Return the root group of a manifest (or of a source scanned now), read-only; options are `open_store`'s."""
    store = open_store(
        refs,
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        virtual_levels=virtual_levels,
        downsample=downsample,
        **choices,
    )
    return reference_group(store)


def open_dataset(
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    group: str | None = None,
    chunks: Any = None,
    **options: Any,
) -> xr.Dataset:
    """Return the full-resolution image (or one group) of a manifest or source.

    Options are those of `open_store` and xarray's.
    """
    return xr.open_dataset(refs, engine="jnrrdz", group=group, chunks=chunks, **options)  # type: ignore[arg-type]


def open_datatree(refs: str | os.PathLike[str] | VirtualGroup, **options: Any) -> xr.DataTree:
    """Return every group of a manifest or source as a tree of datasets.

    Options are those of `open_store` and xarray's.
    """
    return xr.open_datatree(refs, engine="jnrrdz", **options)  # type: ignore[arg-type]


__all__ = [
    "Indexed",
    "dataset",
    "datasets",
    "format_of",
    "index",
    "index_in_place",
    "names_manifest",
    "open_dataset",
    "open_datatree",
    "open_group",
    "open_store",
    "open_stored",
    "remove_in_place",
    "scan",
    "scan_with_cost",
    "write",
]
