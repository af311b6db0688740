"""The library's functions: scan, write, index, open.

Each takes paths or URLs as text, whatever fsspec opens, and raises JnrrdzError alone for what is wrong with them.
Keywords have the same names, defaults and meanings in every function of the package; the functions put them into the
records of `jnrrdz.options`, which other modules pass on.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jnrrdz import manifests, store
from jnrrdz.core.tree import VirtualGroup, html_table
from jnrrdz.errors import UnsupportedError
from jnrrdz.lazy import library
from jnrrdz.manifests.manifest import format_of, write_form
from jnrrdz.options import (
    Access,
    Codecs,
    PrecinctWindows,
    ScanOptions,
    StorageOptions,
    WriteOptions,
)
from jnrrdz.redact import record_repr
from jnrrdz.sources.url import is_same, local_path
from jnrrdz.store.opened import loaded, opened

if TYPE_CHECKING:
    import xarray as xr
    import zarr

    from jnrrdz import engine
    from jnrrdz.formats import scanning
    from jnrrdz.formats.scanning import Scanned
    from jnrrdz.store.store import ReferenceStore
else:
    # more than half of the time that a command starts in, which needs none
    xr = library("xarray")
    # the class of the engine: by its name, xarray would import every other engine too
    engine = library("jnrrdz.engine")
    # a manifest is opened without
    scanning = library("jnrrdz.formats.scanning")


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


def scan(  # noqa: PLR0913  the signature is the documentation
    src: str | os.PathLike[str],
    *,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
) -> VirtualGroup:
    """Return what a source holds, as a virtual group: metadata and references, no pixels.

    Parameters
    ----------
    src
        The path or URL of an image or container.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    """
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    access = Access(allow=allow, storage_options=storage_options)
    return _scanned(os.fspath(src), options, access).group


def _scanned(url: str, options: ScanOptions, access: Access) -> "Scanned":
    return scanning.scan(url, options, access)


def write(  # noqa: PLR0913  the signature is the documentation
    group: VirtualGroup,
    out: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    format: str | None = None,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    keep_query: Sequence[str] = (),
    target_options: StorageOptions = None,
) -> None:
    """Write a virtual group as a manifest, whole or not at all.

    Parameters
    ----------
    group
        What `scan` returned.
    out
        The path or URL of the manifest.
    storage_options
        fsspec's options for the output, where `target_options` are not given.
    format
        `json`, `parquet` or `icechunk`; by default by the ending of the output's name,
        else `json`.
    single_range
        Refer to scattered chunks by the span that holds them: one range for every
        chunk.
    relative
        Write the sources' URLs relative to the manifest.
    overwrite
        Replace a manifest that exists.
    keep_query
        Query parameters that name the file and are no secret, which the manifest then
        records; `*` for all. By default only versions of objects are recorded
        (`versionId`, `generation`).
    target_options
        fsspec's options for the output.
    """
    if target_options is None:
        target_options = storage_options
    options = WriteOptions(
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        keep_query=keep_query,
        target_options=target_options,
    )
    write_form(group, os.fspath(out), options)


def index(  # noqa: PLR0913  the signature is the documentation
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    format: str | None = None,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    keep_query: Sequence[str] = (),
    target_options: StorageOptions = None,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
) -> Indexed:
    """Scan a source, write its manifest, and return what that made and cost.

    Parameters
    ----------
    src
        The path or URL of an image or container.
    out
        The path or URL of the manifest.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    format
        `json`, `parquet` or `icechunk`; by default by the ending of the output's name,
        else `json`.
    single_range
        Refer to scattered chunks by the span that holds them: one range for every
        chunk.
    relative
        Write the sources' URLs relative to the manifest.
    overwrite
        Replace a manifest that exists.
    keep_query
        Query parameters that name the file and are no secret, which the manifest then
        records; `*` for all. By default only versions of objects are recorded
        (`versionId`, `generation`).
    target_options
        fsspec's options for the output.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    """
    source, target = os.fspath(src), os.fspath(out)
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    form = WriteOptions(
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        keep_query=keep_query,
        target_options=target_options,
    )
    access = Access(allow=allow, storage_options=storage_options)
    here, there = local_path(source), local_path(target)
    if here is not None and there is not None and is_same(here, there):
        raise UnsupportedError("the manifest would replace its own source", url=target)
    name = form.format or format_of(target)
    if form.single_range or name == "icechunk":
        options = options.whole_tiles()
    scanned = _scanned(source, options, access)
    write_form(scanned.group, target, form)
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


def index_in_place(  # noqa: PLR0913  the signature is the documentation
    src: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
) -> list[str]:
    """Write zarr.json next to the metadata of a container (N5), and return the keys written.

    Parameters
    ----------
    src
        The path or URL of the container.
    overwrite
        Replace zarr.json files that exist.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    """
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    access = Access(allow=allow, storage_options=storage_options)
    url = os.fspath(src)
    root = scanning.describe_in_place(url, options, access)
    return manifests.in_place.write(root, url, overwrite=overwrite, storage_options=storage_options)


def remove_in_place(src: str | os.PathLike[str], *, storage_options: StorageOptions = None) -> list[str]:
    """Remove what `index_in_place` wrote, and return the keys removed."""
    return manifests.in_place.remove(os.fspath(src), storage_options=storage_options)


def open_store(  # noqa: PLR0913  the signature is the documentation
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    virtual_levels: int = 0,
    downsample: str | None = None,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> "ReferenceStore":
    """Return a read-only zarr store of a manifest, of a virtual group, or of a source scanned now.

    Levels that a group lists as virtual are there too, computed where they are read.  What is scanned takes the
    keywords of `scan`; a manifest holds what its own scan was asked for.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    virtual_levels
        The number of coarser levels that are computed for every image that has none.
    downsample
        The method that makes them: `average`, `gaussian`, `lanczos`, `max`, `min` or
        `mode`; by default `mode` for labels and palettes, `average` for all others.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    return store_with_levels(refs, options, access, virtual_levels, downsample)


def store_with_levels(
    refs: str | os.PathLike[str] | VirtualGroup,
    options: ScanOptions,
    access: Access,
    virtual_levels: int = 0,
    downsample: str | None = None,
) -> "ReferenceStore":
    """Return the store of `open_store`, for functions that have its keywords as records."""
    return store.computed_levels.with_pyramids(opened(refs, options, access).store, virtual_levels, downsample)


def open_stored(
    refs: str | os.PathLike[str] | VirtualGroup, *, options: ScanOptions | None = None, access: Access | None = None
) -> "ReferenceStore":
    """Return the store without computed levels: what has references, and nothing else."""
    return opened(refs, options or ScanOptions(), access or Access()).store


def manifest_store(url: str, access: Access) -> "ReferenceStore":
    """Return the store of a manifest as its writer left it; no source is opened."""
    return loaded(url, access).plain_store()


def open_group(  # noqa: PLR0913  the signature is the documentation
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    virtual_levels: int = 0,
    downsample: str | None = None,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> "zarr.Group":
    """Return the root group of a manifest (or of a source scanned now), read-only.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    virtual_levels
        The number of coarser levels that are computed for every image that has none.
    downsample
        The method that makes them: `average`, `gaussian`, `lanczos`, `max`, `min` or
        `mode`; by default `mode` for labels and palettes, `average` for all others.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    return store.group.reference_group(store_with_levels(refs, options, access, virtual_levels, downsample))


def open_dataset(  # noqa: PLR0913  the signature is the documentation
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    group: str | None = None,
    chunks: Any = None,
    virtual_levels: int = 0,
    downsample: str | None = None,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
    **xarray_options: Any,
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
    virtual_levels
        The number of coarser levels that are computed for every image that has none.
    downsample
        The method that makes them: `average`, `gaussian`, `lanczos`, `max`, `min` or
        `mode`; by default `mode` for labels and palettes, `average` for all others.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    **xarray_options
        Further keywords of `xarray.open_dataset`, such as `mask_and_scale` and `drop_variables`.
    """
    return xr.open_dataset(
        refs,  # type: ignore[arg-type]
        engine=engine.JnrrdzBackend,
        group=group,
        chunks=chunks,
        virtual_levels=virtual_levels,
        downsample=downsample,
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
        **xarray_options,
    )


def open_datatree(  # noqa: PLR0913  the signature is the documentation
    refs: str | os.PathLike[str] | VirtualGroup,
    *,
    virtual_levels: int = 0,
    downsample: str | None = None,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
    **xarray_options: Any,
) -> "xr.DataTree":
    """Return every group of a manifest or source as a tree of datasets.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source, or what `scan` returned.
    virtual_levels
        The number of coarser levels that are computed for every image that has none.
    downsample
        The method that makes them: `average`, `gaussian`, `lanczos`, `max`, `min` or
        `mode`; by default `mode` for labels and palettes, `average` for all others.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    **xarray_options
        Further keywords of `xarray.open_datatree`, such as `group` and `chunks`.
    """
    return xr.open_datatree(
        refs,  # type: ignore[arg-type]
        engine=engine.JnrrdzBackend,
        virtual_levels=virtual_levels,
        downsample=downsample,
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
        **xarray_options,
    )
