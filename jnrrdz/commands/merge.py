"""JPEG tables of a TIFF put back into its tiles, by reference: where the tables stand in the file.

May touch sources, the TIFF layout and the model.  A TIFF may hold the tables of all its tiles once,
in the tag JPEGTables; the codec then has them in its configuration, which arrays of several files
share.  A chunk of two ranges, the tables' and the tile's, needs no configuration.
Spec: https://www.awaresystems.be/imaging/tiff/specification/TIFFTechNote2.txt

Many manifests or sources as one dataset: read in turn, put together along one axis, written once.

May touch everything below the command line.  A few references are read at a time, in threads;
what stays of each is its columns.  What was decided, and why: docs/decisions/004-merge.md.
"""

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import batched
from typing import Any, NoReturn, get_args

import numpy as np

from jnrrdz import api
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.concat import Concatenated, Concatenation
from jnrrdz.core.coordinate import Meaning, Values, column, parsed
from jnrrdz.core.refs import ChunkRefs, with_tables
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.trust import Trust
from jnrrdz.sources.base import ByteSource
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import place

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
    places = [
        ifd.entries[Tag.JPEGTables].position for ifd in _ifds(layout) if layout.raw(ifd, Tag.JPEGTables) == tables
    ]
    if not places or tables[:2] != SOI or tables[-2:] != EOI:
        raise UnrepresentableError("its JPEG tables are no JPEG stream in the file any more", field="JPEGTables")
    start = int(refs.offset[np.argmin(refs.offset)])
    (head,) = source.read([(start, start + HEAD)])
    # a JFIF marker says which colours they are, but only as the first segment
    if head[:2] != SOI or head[JFIF] == b"JFIF":
        raise UnrepresentableError("its tiles cannot follow the JPEG tables in one stream", offset=start)
    return places[0]


def _ifds(layout: TiffLayout) -> Iterator[Ifd]:
    """Yield the directories of the chain, and those of smaller versions that hang below them."""
    for ifd in map(layout.ifd, layout.main):
        yield ifd
        for start in layout.ints(ifd, Tag.SubIFDs):
            yield from map(layout.ifd, layout.chain(start))


METADATA = "metadata"
DATETIME = "datetime"
"""The attribute in which a scanner says when an image was taken."""

AT_ONCE = 64
"""Manifests that are read together; as many groups are in memory at one time."""

THREADS = 8

type Options = Mapping[str, Any] | None
type Ref = str | os.PathLike[str] | VirtualGroup


@dataclass(frozen=True)
class Merged:
    """What a merge made."""

    output: str
    format: str
    members: tuple[str, ...]
    """What is in it, in the order of the axis."""
    left_out: tuple[str, ...]
    """What did not fit, with the reasons."""
    dropped: tuple[str, ...]
    """Attributes that were not the same everywhere, as `path: name`."""
    arrays: int
    chunks: int


def merge(  # noqa: PLR0913 - those of stacked, and those of api.write
    refs: Sequence[Ref],
    out: str | os.PathLike[str],
    *,
    concat_dim: str,
    names: Sequence[str] | None = None,
    coord_from: str | None = None,
    keep_order: bool = False,
    skip_mismatched: bool = False,
    allow: Sequence[str] = (),
    format: str | None = None,  # noqa: A002 - the word that users know
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    storage_options: Options = None,
    source_options: Options = None,
    target_options: Options = None,
) -> Merged:
    """Write manifests, or sources that are scanned, of one form as one manifest."""
    found = stacked(
        refs,
        concat_dim=concat_dim,
        names=names,
        coord_from=coord_from,
        keep_order=keep_order,
        skip_mismatched=skip_mismatched,
        allow=allow,
        single_range=single_range,
        storage_options=storage_options,
        source_options=source_options,
    )
    target = os.fspath(out)
    if place(target) in {place(record.url) for record in found.group.sources}:
        raise UnrepresentableError("is a source itself and would be replaced; name another output", url=target)
    api.write(
        found.group,
        target,
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        storage_options=target_options,
    )
    arrays = [array for _, array in found.group.arrays() if concat_dim in array.dimension_names and array.refs.sources]
    return Merged(
        target,
        format or api.format_of(target),
        found.names,
        tuple(map(str, found.left_out)),
        found.dropped,
        len(arrays),
        sum(array.refs.chunks for array in arrays),
    )


def stacked(  # noqa: PLR0913 - what may be said of the references, and how they are reached
    refs: Sequence[Ref],
    *,
    concat_dim: str,
    names: Sequence[str] | None = None,
    coord_from: str | None = None,
    keep_order: bool = False,
    skip_mismatched: bool = False,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    single_range: bool = False,
    source_options: Options = None,
) -> Concatenated:
    """Return manifests, or sources that are scanned, of one form as one group along the axis `concat_dim`.

    `coord_from` is a regular expression with one group, which finds the coordinate in each name, or
    "metadata" for the time at which the images were taken; `names` are those of the references where they
    are not their own.  A manifest may reach what it may reach
    when it is opened by itself.
    """
    names = names or [
        os.fspath(ref) if not isinstance(ref, VirtualGroup) else f"group {n}" for n, ref in enumerate(refs)
    ]
    rule = None if coord_from is None else rule_of(coord_from)
    finder = TableFinder(source_options or storage_options)
    read = partial(_read, allow=tuple(allow), storage_options=storage_options, source_options=source_options)
    origins: list[Mapping[str, Any]] = []
    found = Concatenation(concat_dim, column if rule is None else rule.values)
    for name, ref in zip(names, _in_threads(read, refs), strict=True):
        finder.guards |= ref.guards
        origins.append(ref.group.origin)
        try:
            found.add(ref.group, name, None if rule is None else rule.text(name, ref.group))
        except UnrepresentableError as error:
            found.refuse(name, str(error))
    moved = _refuse_tables if single_range else finder
    made = found.finish(keep_order=keep_order, skip_mismatched=skip_mismatched, with_tables=moved)
    # one scan of a source that changed can be put in place of the old one where all were scanned alike
    alike = {"options": origins[0]["options"]} if all("options" in one and one == origins[0] for one in origins) else {}
    return replace(made, group=replace(made.group, origin={**alike, "concat_dim": concat_dim}))


def _refuse_tables(refs: ChunkRefs, tables: str) -> NoReturn:  # noqa: ARG001 - the signature of `WithTables`
    """Refuse: a span from the tables to a tile holds other tiles too, and decodes to one of them."""
    raise UnrepresentableError(
        "the files' JPEG tables differ and have to be ranges of the chunks; leave out --single-range"
    )


@dataclass(frozen=True)
class _Found:
    """A group, and with what its sources may be opened."""

    group: VirtualGroup
    guards: Mapping[str, AddressGuard | None]


def _read(ref: Ref, *, allow: tuple[str, ...], storage_options: Options, source_options: Options) -> _Found:
    """Return what a manifest, a source or a group holds; only a manifest's sources have to be trusted."""
    if isinstance(ref, VirtualGroup):
        return _Found(ref, {})
    manifest = api.open_stored(
        ref, allow=allow, storage_options=storage_options, source_options=source_options
    ).manifest
    group = group_from_manifest(manifest, allow=allow, source_options=source_options)
    if manifest.url is None:
        return _Found(group, {})
    trust = Trust(manifest.url, tuple(record.url for record in manifest.sources), allow)
    return _Found(group, {record.url: trust.guard_for(record.url) for record in group.sources})


def _in_threads(read: Callable[[Ref], _Found], refs: Sequence[Ref]) -> Iterator[_Found]:
    """Yield what is read, in order, a few at a time: all of it together would not fit in memory."""
    with ThreadPoolExecutor(min(THREADS, max(len(refs), 1))) as pool:
        for some in batched(refs, AT_ONCE):
            yield from pool.map(read, some)


@dataclass(frozen=True)
class Rule:
    """Where the coordinate of each group stands, and what it means."""

    pattern: re.Pattern[str] | None = None
    """Finds it in a name; without a pattern it is the time in the metadata."""
    meaning: Meaning | None = None

    def text(self, name: str, group: VirtualGroup) -> str:
        """Return the text of one group's coordinate."""
        if self.pattern is None:
            return _datetime(group)
        found = self.pattern.search(name)
        if found is None or not found[1]:
            raise UnrepresentableError(f"--coord-from {self.pattern.pattern!r} finds nothing in its name")
        return found[1]

    def values(self, texts: Sequence[str]) -> Values:
        """Return what the texts stand for."""
        return parsed(texts, self.meaning)


def rule_of(coord_from: str) -> Rule:
    """Return what `--coord-from` asks for: "metadata", or a regular expression with one group.

    A group called `date`, `number` or `text` says what it finds, where that could be mistaken.
    """
    if coord_from == METADATA:
        return Rule(meaning="date")
    try:
        pattern = re.compile(coord_from)
    except re.error as error:
        raise MalformedError(f"not a regular expression: {error}", field="--coord-from") from error
    if pattern.groups != 1:
        raise MalformedError(f"{pattern.groups} groups in {coord_from!r}; one finds the value", field="--coord-from")
    names = [name for name in get_args(Meaning.__value__) if name in pattern.groupindex]
    return Rule(pattern, names[0] if names else None)


def _datetime(group: VirtualGroup) -> str:
    """Return when an image was taken, as its scanner found it."""
    nodes = [group, *(node for _, node in group.walk())]
    found = dict.fromkeys(node.attributes[DATETIME] for node in nodes if DATETIME in node.attributes)
    if len(found) != 1:
        told = f"several times: {', '.join(map(str, found))}" if found else "no time"
        raise UnrepresentableError(f"its metadata (attribute {DATETIME!r}) tell {told}; --coord-from REGEX reads names")
    return str(next(iter(found)))
