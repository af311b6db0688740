"""The library's functions: scan, write, index, open.

Each takes paths or URLs as text, whatever fsspec opens, and raises JnrrdzError alone for what is wrong with them.
"""

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Unpack

from jnrrdz.core.arrays import VirtualGroup, html_table
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests.manifest import format_of, write_form
from jnrrdz.options import (
    Access,
    IndexChoices,
    OpenChoices,
    ScanOptions,
    SourceChoices,
    StorageOptions,
    WriteChoices,
    WriteOptions,
    with_choices,
)
from jnrrdz.redact import record_repr
from jnrrdz.sources.url import is_same, local_path
from jnrrdz.store.opened import loaded, opened

if TYPE_CHECKING:
    import xarray as xr
    import zarr

    from jnrrdz.formats.scanning import Scanned
    from jnrrdz.store.store import ReferenceStore


@dataclass(frozen=True)
class Indexed:
    """What an index run made and what it cost."""

    source: str
    """The image that was read."""
    output: str
    """The manifest that was written."""
    format: str
    """Of the manifest: `json`, `parquet` or `icechunk`."""

    arrays: int
    """How many arrays the manifest holds."""
    chunks: int
    """How many chunks it refers to."""
    requests: int
    """Range requests that reading the headers took."""

    bytes_read: int
    """Bytes that these requests brought."""

    __repr__ = record_repr

    def _repr_html_(self) -> str:
        members = asdict(self)
        return html_table("Indexed", list(members), [list(members.values())])


def scan(
    src: str | os.PathLike[str],
    options: ScanOptions | None = None,
    *,
    access: Access | None = None,
    **choices: Unpack[SourceChoices],
) -> VirtualGroup:
    """Return what a source holds, as a virtual group: metadata and references, no pixels.

    Parameters
    ----------
    src
        The path or URL of an image or container.
    options
        What to take of it.
    access
        How it is reached.
    **choices
        Members of `ScanOptions` and `Access`, in place of the records or beside them.
    """
    records = with_choices(choices, options or ScanOptions(), access or Access())
    return _scanned(os.fspath(src), *records).group


def _scanned(url: str, options: ScanOptions, access: Access) -> "Scanned":
    from jnrrdz.formats import scanning  # noqa: PLC0415  who opens a manifest scans nothing

    return scanning.scan(url, options, access)


def write(
    group: VirtualGroup,
    out: str | os.PathLike[str],
    options: WriteOptions | None = None,
    *,
    storage_options: StorageOptions = None,
    **choices: Unpack[WriteChoices],
) -> None:
    """Write a virtual group as a manifest, whole or not at all.

    Parameters
    ----------
    group
        What `scan` returned.
    out
        The path or URL of the manifest.
    options
        The manifest's form, and what it may replace.
    storage_options
        fsspec's options for the output.
    **choices
        Members of `WriteOptions`, in place of the record or beside it.
    """
    write_form(group, os.fspath(out), *with_choices(choices, options or WriteOptions(target_options=storage_options)))


def index(
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    options: ScanOptions | None = None,
    form: WriteOptions | None = None,
    access: Access | None = None,
    **choices: Unpack[IndexChoices],
) -> Indexed:
    """Scan a source, write its manifest, and return what that made and cost.

    Parameters
    ----------
    src
        The path or URL of an image or container.
    out
        The path or URL of the manifest; its ending says its form.
    options
        What to take of the source.
    form
        The manifest's form, and what it may replace.
    access
        How the source is reached.
    **choices
        Members of `ScanOptions`, `WriteOptions` and `Access`, in place of the records or beside them:
        `storage_options` are fsspec's for the source, `target_options` for the output.
    """
    source, target = os.fspath(src), os.fspath(out)
    wanted, output, reach = with_choices(choices, options or ScanOptions(), form or WriteOptions(), access or Access())
    here, there = local_path(source), local_path(target)
    if here is not None and there is not None and is_same(here, there):
        raise UnsupportedError("the manifest would replace its own source", url=target)
    name = output.format or format_of(target)
    if output.single_range or name == "icechunk":
        wanted = wanted.whole_tiles()
    scanned = _scanned(source, wanted, reach)
    write_form(scanned.group, target, output)
    arrays = [array for _, array in scanned.group.arrays() if array.shape]
    return Indexed(
        source,
        target,
        name,
        len(arrays),
        sum(array.refs.chunks for array in arrays),
        scanned.requests,
        scanned.bytes_read,
    )


def index_in_place(
    src: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    **choices: Unpack[SourceChoices],
) -> list[str]:
    """Write zarr.json beside the metadata of a container (N5), and return the keys written.

    Keywords are the members of `ScanOptions`, and of `Access` as far as they are about a source.
    """
    from jnrrdz.formats import scanning  # noqa: PLC0415  as above
    from jnrrdz.manifests import in_place  # noqa: PLC0415  the same

    options, access = with_choices(choices, ScanOptions(), Access())
    url = os.fspath(src)
    root = scanning.describe_in_place(url, options, access)
    return in_place.write(root, url, overwrite=overwrite, storage_options=access.storage_options)


def remove_in_place(src: str | os.PathLike[str], *, storage_options: StorageOptions = None) -> list[str]:
    """Remove what `index_in_place` wrote, and return the keys removed."""
    from jnrrdz.manifests import in_place  # noqa: PLC0415  as above

    return in_place.remove(os.fspath(src), storage_options=storage_options)


def open_store(
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    options: ScanOptions | None = None,
    access: Access | None = None,
    virtual_levels: int = 0,
    downsample: str | None = None,
    **choices: Unpack[OpenChoices],
) -> "ReferenceStore":
    """Return a read-only zarr store of a manifest, of a virtual group, or of a source scanned now.

    Levels that a group lists as virtual are there too, computed where they are read.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    options
        What to take of a source that is scanned; a manifest holds what its own scan was asked for.
    access
        How the manifest and its sources are reached.
    virtual_levels
        So many coarser levels are computed for every image that has none.
    downsample
        The method that makes them: `average`, `gaussian`, `lanczos`, `max`, `min` or `mode`;
        by default `mode` for labels and palettes, `average` for all others.
    **choices
        Members of `Access` and `ScanOptions`, in place of the records or beside them.
    """
    from jnrrdz.store.computed_levels import with_pyramids  # noqa: PLC0415  zarr, which no scan needs

    wanted, reach = with_choices(choices, options or ScanOptions(), access or Access())
    return with_pyramids(opened(refs, wanted, reach).store, virtual_levels, downsample)


def open_stored(
    refs: str | os.PathLike[str] | VirtualGroup, *, options: ScanOptions | None = None, access: Access | None = None
) -> "ReferenceStore":
    """Return the store without computed levels: what has references, and nothing else."""
    return opened(refs, options or ScanOptions(), access or Access()).store


def manifest_store(url: str, access: Access) -> "ReferenceStore":
    """Return the store of a manifest as its writer left it; no source is opened."""
    return loaded(url, access).plain_store()


def open_group(
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    options: ScanOptions | None = None,
    access: Access | None = None,
    virtual_levels: int = 0,
    downsample: str | None = None,
    **choices: Unpack[OpenChoices],
) -> "zarr.Group":
    """Return the root group of a manifest (or of a source scanned now), read-only.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    options
        What to take of a source that is scanned.
    access
        How the manifest and its sources are reached.
    virtual_levels
        So many coarser levels are computed for every image that has none.
    downsample
        The method that makes them, as for `open_store`.
    **choices
        Members of `Access` and `ScanOptions`, in place of the records or beside them.
    """
    from jnrrdz.store.group import reference_group  # noqa: PLC0415  zarr, which no scan needs

    store = open_store(
        refs, options=options, access=access, virtual_levels=virtual_levels, downsample=downsample, **choices
    )
    return reference_group(store)


def open_dataset(
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    group: str | None = None,
    chunks: Any = None,
    **options: Any,
) -> "xr.Dataset":
    """Return the full-resolution image (or one group) of a manifest or source.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    group
        The group to open, such as `"1"` for the first overview; by default the full-resolution image.
    chunks
        As xarray has it: `{}` makes a dask chunk of each chunk, None uses no dask.
    **options
        Further options of `open_store` and of `xarray.open_dataset`.
    """
    import xarray as xr  # noqa: PLC0415  more than half of the time that a command starts in, which needs none

    from jnrrdz.engine import JnrrdzBackend  # noqa: PLC0415  by its name, xarray would import every other engine too

    return xr.open_dataset(refs, engine=JnrrdzBackend, group=group, chunks=chunks, **options)  # type: ignore[arg-type]


def open_datatree(refs: str | os.PathLike[str] | VirtualGroup, **options: Any) -> "xr.DataTree":
    """Return every group of a manifest or source as a tree of datasets.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    **options
        Options of `open_store` and of `xarray.open_datatree`.
    """
    import xarray as xr  # noqa: PLC0415  the same

    from jnrrdz.engine import JnrrdzBackend  # noqa: PLC0415  the same

    return xr.open_datatree(refs, engine=JnrrdzBackend, **options)  # type: ignore[arg-type]
