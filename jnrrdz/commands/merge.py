"""Many manifests or sources as one dataset: read in turn, put together along one axis, written once.

A few references are read at a time, in threads; what stays of each is its columns.  What was decided, and why:
docs/decisions/004-merge.md.

A TIFF may hold the JPEG tables of all its tiles once, in the tag JPEGTables; the codec then has them in its
configuration, which arrays of several files share.  Where the files' tables differ, each chunk becomes two ranges,
the tables' and the tile's, and needs no configuration.
Spec: https://www.awaresystems.be/imaging/tiff/specification/TIFFTechNote2.txt
"""

import base64
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import batched
from typing import Any, NoReturn

import numpy as np

from jnrrdz import api
from jnrrdz.commands.convert import write_elsewhere
from jnrrdz.commands.first_chunks import FirstChunks
from jnrrdz.core.concat import Concatenated, Concatenation
from jnrrdz.core.coordinate import column, rule_of
from jnrrdz.core.large_refs import Spool
from jnrrdz.core.refs import ChunkRefs, References, with_tables
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats import scanning
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import format_of, manifest_form
from jnrrdz.options import Access, MergeOptions, ScanOptions, StorageOptions, WriteOptions
from jnrrdz.redact import record_repr
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.sources.readahead import ReadAhead

SOI, EOI = b"\xff\xd8", b"\xff\xd9"
HEAD = 12
JFIF = slice(6, 10)


@dataclass
class TableFinder:
    """Gives the chunks of an array the tables that stand in the same file."""

    options: Mapping[str, Any] | None = None
    guards: dict[str, AddressGuard | None] = field(default_factory=dict)
    """With what each source is to be opened."""

    def __call__(self, refs: ChunkRefs, tables: str) -> ChunkRefs:
        """Return references of whole JPEG streams; what cannot be one is an error."""
        data = base64.b64decode(tables)
        if not refs.sources:
            return refs
        if len(refs.sources) > 1:
            raise UnrepresentableError("the files' JPEG tables differ, and these are of one file of several")
        (url,) = refs.sources
        source = open_source(url, storage_options=self.options, guard=self.guards.get(url))
        try:
            return with_tables(refs, url, _position(source, refs, data), data)
        except JnrrdzError as error:
            raise error.at(url=url) from error.__cause__
        finally:
            source.close()


def _position(source: ByteSource, refs: ChunkRefs, tables: bytes) -> int:
    """Return where the tables stand in a TIFF."""
    layout = TiffLayout(ReadAhead(source), source.validators.size)
    position = None
    for top in layout.main:
        for ifd in map(layout.ifd, (top, *layout.sub_ifds(layout.ifd(top)))):
            if position is None and layout.raw(ifd, Tag.JPEGTables) == tables:
                position = ifd.entries[Tag.JPEGTables].position
    if position is None or tables[:2] != SOI or tables[-2:] != EOI:
        raise UnrepresentableError("its JPEG tables are no JPEG stream in the file any more", field="JPEGTables")
    start = int(refs.offset[np.argmin(refs.offset)])
    (head,) = source.read([(start, start + HEAD)])
    # a JFIF marker says which colours they are, but only as the first segment
    if head[:2] != SOI or head[JFIF] == b"JFIF":
        raise UnrepresentableError("its tiles cannot follow the JPEG tables in one stream", offset=start)
    return position


AT_ONCE = 64
"""Manifests that are read together; as many groups are in memory at one time."""

THREADS = 8

type Keep = Callable[[References], References]
type Ref = str | os.PathLike[str] | VirtualGroup


@dataclass(frozen=True)
class Merged:
    """What a merge made."""

    output: str
    """The manifest that was written."""
    format: str
    """Its form: `json`, `parquet` or `icechunk`."""
    members: tuple[str, ...]
    """What is in it, in the order of the axis."""
    left_out: tuple[str, ...]
    """What did not fit, with the reasons."""
    dropped: tuple[str, ...]
    """Attributes that were not the same everywhere, as `path: name`."""
    arrays: int
    """How many arrays the manifest holds."""
    chunks: int
    """How many chunks it refers to."""

    __repr__ = record_repr


def merge(  # noqa: PLR0913  the signature is the documentation
    refs: Sequence[Ref],
    out: str | os.PathLike[str],
    *,
    concat_dim: str = "",
    coord_from: str | None = None,
    keep_order: bool = False,
    skip_mismatched: bool = False,
    names: Sequence[str] = (),
    check: bool = True,
    format: str | None = None,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    keep_query: Sequence[str] = (),
    target_options: StorageOptions = None,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> Merged:
    """Write manifests, or sources that are scanned, of one form as one manifest, and return what is in it.

    Parameters
    ----------
    refs
        Paths or URLs of manifests or sources, or virtual groups.
    out
        The path or URL of the manifest to write.
    concat_dim
        The axis along which they are put together: a new one, or one that all of them
        have.
    coord_from
        Each value along the axis: a regular expression whose one group finds it in the
        name, or `metadata` for the time at which the image was taken.
    keep_order
        Keep the order in which they are named, and equal values too; by default the
        values order them.
    skip_mismatched
        Leave out what does not fit the others; by default it is an error.
    names
        Names of the references, from which `coord_from` takes values; by default their
        paths or URLs.
    check
        Decode one chunk of each array before the manifest is written.
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
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    axis = MergeOptions(
        concat_dim=concat_dim,
        coord_from=coord_from,
        keep_order=keep_order,
        skip_mismatched=skip_mismatched,
        names=names,
        check=check,
    )
    form = WriteOptions(
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        keep_query=keep_query,
        target_options=target_options,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    return merged(refs, os.fspath(out), axis, form, access)


def merged(
    refs: Sequence[Ref],
    target: str,
    axis: MergeOptions,
    form: WriteOptions,
    access: Access,
) -> Merged:
    """Return what `merge` writes, for functions that have its keywords as records."""
    with closing(Spool(tempfile.TemporaryFile)) as spool:
        first_chunks = FirstChunks(access)
        found = stacked(
            refs,
            axis,
            access=access,
            single_range=form.single_range,
            keep=spool.keep,
            guards=first_chunks.guards,
        )
        write_elsewhere(found.group, target, form, first_chunks if axis.check else None)
    dim = axis.concat_dim
    arrays = [array for _, array in found.group.arrays() if dim in array.dimension_names and array.refs.sources]
    return Merged(
        target,
        form.format or format_of(target),
        found.names,
        tuple(map(str, found.left_out)),
        found.dropped,
        len(arrays),
        sum(array.refs.chunks for array in arrays),
    )


def stacked(  # noqa: PLR0913  what is read, and what stays of it
    refs: Sequence[Ref],
    options: MergeOptions,
    *,
    access: Access | None = None,
    single_range: bool = False,
    keep: Keep = lambda refs: refs,
    guards: dict[str, AddressGuard | None] | None = None,
) -> Concatenated:
    """Return manifests, or sources that are scanned, of one form as one group along an axis.

    A manifest may reach what it may reach when it is opened by itself.  `keep` takes the references of each file, and
    returns what stays of them in memory.  `guards` gets those that the sources of manifests are opened with.
    """
    if not options.concat_dim:
        raise TypeError("merge() misses the keyword argument 'concat_dim'")
    access = access or Access()
    names = options.names or [
        f"group {n}" if isinstance(ref, VirtualGroup) else os.fspath(ref) for n, ref in enumerate(refs)
    ]
    rule = None if options.coord_from is None else rule_of(options.coord_from)
    finder = TableFinder(access.source_options or access.storage_options, {} if guards is None else guards)
    origins: list[Mapping[str, Any]] = []
    stack = Concatenation(options.concat_dim, column if rule is None else rule.values)
    with ThreadPoolExecutor(min(THREADS, max(len(refs), 1))) as pool:
        # a few at a time: all of them together would not fit in memory
        read = itertools.chain.from_iterable(
            pool.map(partial(_read, access, keep), some) for some in batched(refs, AT_ONCE)
        )
        for name, (group, own_guards) in zip(names, read, strict=True):
            finder.guards |= own_guards
            origins.append(group.origin)
            try:
                stack.add(group, name, None if rule is None else rule.text(name, group))
            except UnrepresentableError as error:
                stack.refuse(name, str(error))
    made = stack.finish(
        keep_order=options.keep_order,
        skip_mismatched=options.skip_mismatched,
        with_tables=_refuse_tables if single_range else lambda part, tables: keep(finder(part.columns(), tables)),
    )
    # one scan of a source that changed can be put in place of the old one where all were scanned alike
    alike = {"options": origins[0]["options"]} if all("options" in one and one == origins[0] for one in origins) else {}
    return replace(made, group=replace(made.group, origin={**alike, "concat_dim": options.concat_dim}))


def _refuse_tables(refs: References, tables: str) -> NoReturn:  # noqa: ARG001 - the signature of `WithTables`
    """Refuse: a span from the tables to a tile holds other tiles too, and decodes to one of them."""
    raise UnrepresentableError(
        "the files' JPEG tables differ and have to be ranges of the chunks; leave out --single-range"
    )


def _read(access: Access, keep: Keep, ref: Ref) -> tuple[VirtualGroup, Mapping[str, AddressGuard | None]]:
    """Return what a manifest, a source or a group holds, and with what the sources of a manifest may be opened."""
    if isinstance(ref, VirtualGroup):
        return ref, {}
    if manifest_form(os.fspath(ref)) is None:
        return scanning.scan(os.fspath(ref), ScanOptions(), access).group.with_refs(keep), {}
    manifest = api.open_stored(ref, access=access).manifest
    group = group_from_manifest(manifest, allow=access.allow, source_options=access.source_options)
    group = group.with_refs(keep)
    trust = manifest.trust(access.allow)
    if trust is None:
        return group, {}
    return group, {record.url: trust.guard_for(record.url) for record in group.sources}
