"""A path or URL to what it holds: opened, recognised by its first bytes, scanned, let go of.

No framework is imported: a worker of a batch starts with this and a writer, in half the time that the whole
library takes.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.standard import with_standard_codecs
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import REFERENCES
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.format import Format
from jnrrdz.formats.neighbours import Guest, Neighbours, record_of
from jnrrdz.options import Access, ScanOptions, StorageOptions
from jnrrdz.records import record
from jnrrdz.sources.faults import is_absent
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard, guard_of
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.tree import file_sizes, open_tree
from jnrrdz.sources.url import file_url, is_chained, local_path, scheme, slashed
from jnrrdz.sources.zip_member import StoredMember, member_and_archive, member_url, open_member

KNOWN = {
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GRIB": "GRIB",
    b"PK\x03\x04": "ZIP",
    b"\x1f\x8b": "gzip",
    b"<": "XML or HTML",
    b"{": "JSON",
}
"""Formats that are recognised in order to be refused by name."""

MANIFEST_HEAD = 4096
"""Bytes in which a manifest shows that it is one: the key of its first document."""


type Open = Callable[[str], ByteSource]


@record
class Scanned:
    """What a scan found, and what it cost."""

    group: VirtualGroup
    format: str
    requests: int
    bytes_read: int


class Opener(Protocol):
    """What opens a URL as `sources.fsspec.open_source` does."""

    def __call__(
        self, url: str, *, storage_options: StorageOptions = None, guard: AddressGuard | None = None
    ) -> ByteSource:
        """Return the bytes at a URL."""


def scan(
    text: str,
    options: ScanOptions,
    access: Access,
    *,
    opener: Opener = open_source,
    guest: Guest | None = None,
) -> Scanned:
    """Return what a path or URL holds, with the requests and bytes that finding it took.

    `guest` runs parsers of other libraries; they run in this process where it is None.
    """
    origin: dict[str, Any] = {"options": options.changed()}
    guard = guard_of(text, access.named_by, access.allow)
    text = document_of(text, partial(opener, storage_options=access.storage_options, guard=guard))
    if is_tree(text):
        tree = open_tree(text, storage_options=access.storage_options, guard=guard, allow=access.allow)
        fmt = _directory_format(text)
        _check_options(fmt, origin["options"], tree.url)
        group = _group(partial(fmt.call, "scan"), options, tree.url, tree, options)
        return Scanned(replace(group, origin=origin), fmt.name, tree.requests, tree.bytes_read)
    open_plain = partial(opener, storage_options=access.storage_options, guard=guard)
    open_archive = partial(_open_archive, opener=opener, access=access)
    open_beside = partial(_open_or_member, open_plain=open_plain, open_archive=open_archive)
    lister = partial(file_sizes, opener=open_plain, storage_options=access.storage_options)
    allow = tuple(access.allow)
    url = literal(text)
    neighbours = Neighbours(open_beside, lister, allow, url, guest=guest)
    source = open_beside(url)
    try:
        read = ReadAhead(source)
        fmt = file_format(read, source.url)
        call: Callable[..., Any] = partial(fmt.call, "scan")
        if fmt.is_guest and guest is not None:
            call = partial(guest, fmt.scan)
        _check_options(fmt, origin["options"], source.url)
        group = _group(call, options, source.url, read, source.url, options, neighbours)
        records = (record_of(source), *neighbours.records)
        sources = (source, *(reader.source for reader in neighbours.readers))
        members = {one.url: one for one in sources if isinstance(one, StoredMember)}
        if members:
            group = group.with_refs(partial(_in_archives, members=members))
            records = tuple(dict.fromkeys(records))
        if isinstance(source, StoredMember):
            parts = member_and_archive(source.url)
            origin["member"] = parts[0] if parts else ""
    finally:
        neighbours.close()
        source.close()
    readers = [read, *neighbours.readers]
    return Scanned(
        VirtualGroup(group.children, group.attributes, records, origin),
        fmt.name,
        sum(reader.requests for reader in readers) + neighbours.requests,
        sum(reader.bytes_read for reader in readers),
    )


def _open_or_member(url: str, *, open_plain: Open, open_archive: Open) -> ByteSource:
    """Return the bytes at a URL, of a stored member of an archive as a part of the archive."""
    return open_member(url, open_archive) or open_plain(url)


def _open_archive(url: str, *, opener: Opener, access: Access) -> ByteSource:
    """Return an archive's bytes; fsspec's options of a chain are by the scheme of each part."""
    options = (access.storage_options or {}).get(scheme(url))
    guard = guard_of(url, access.named_by, access.allow)
    return opener(literal(url), storage_options=options, guard=guard)


def _in_archives(refs: ChunkRefs, *, members: Mapping[str, StoredMember]) -> ChunkRefs:
    """Return references to the archives in place of those to their stored members."""
    held = [members.get(url) for url in refs.sources]
    if not any(held):
        return refs
    starts = np.array([0 if one is None else one.start for one in held], np.int64)
    sizes = np.array([WHOLE if one is None else one.size for one in held], np.int64)
    urls = [url if one is None else one.archive.url for url, one in zip(refs.sources, held, strict=True)]
    archives = list(dict.fromkeys(urls))
    numbers = np.array([archives.index(url) for url in urls], np.int32)
    start, size = starts[refs.source], sizes[refs.source]
    is_rest = (refs.length == WHOLE) & (size != WHOLE)
    return replace(
        refs,
        sources=tuple(archives),
        source=numbers[refs.source],
        offset=refs.offset + start,
        length=np.where(is_rest, size - refs.offset, refs.length),
    )


def document_of(text: str, open_plain: Open) -> str:
    """Return the document of the product that a directory holds, by its path or URL; other sources as they are.

    A local directory is listed; elsewhere the directory's name shows that it holds a product, and documents are
    tried by their names.
    """
    folder = text.rstrip("/")
    name = folder.rpartition("/")[2]
    path = local_path(text)
    if path is not None:
        document = local_document(path)
        return text if document is None else f"{folder}/{document}"
    fmt = next((fmt for fmt in FORMATS if fmt.documents and fmt.is_folder(name)), None)
    if fmt is None or is_chained(text):
        return text
    urls = [f"{folder}/{each.format(name=name)}" for each in fmt.documents]
    for url in urls:
        if _exists(url, open_plain):
            return url
    names = " or ".join(url.rpartition("/")[2] for url in urls)
    raise MalformedError(f"a {fmt.name} without its document, {names}", url=text)


def _exists(url: str, open_plain: Open) -> bool:
    try:
        source = open_plain(url)
        try:
            source.read([(0, 1)])
        finally:
            source.close()
    except JnrrdzError as error:
        if is_absent(error):
            return False
        raise
    return True


def local_document(path: str) -> str | None:
    """Return the name of the document in a local directory that holds a product; of several forms the first."""
    try:
        names = os.listdir(path)  # noqa: PTH208  the path is literal
    except (OSError, ValueError):
        return None
    return document_among(names)


def document_among(names: Iterable[str]) -> str | None:
    """Return which of the files in a directory is the document of the product that it holds."""
    patterns = [fmt.document for fmt in FORMATS if fmt.document is not None]
    documents = [name for name in names if any(pattern.fullmatch(name) for pattern in patterns)]
    stems = {name.rpartition(".")[0] for name in documents}
    if len(stems) > 1:
        return None
    # XML comes before JSON, which may be a manifest by its name
    return max(documents, default=None)


def describe_in_place(text: str, options: ScanOptions, access: Access) -> Node:
    """Return a directory's tree as Zarr would have it in the very same place."""
    path = local_path(text)
    if path is not None and os.path.isfile(path):  # noqa: PTH113  the path is literal
        message = "a file is not described in place, only containers of N5 are"
        raise UnsupportedError(f"{message}; write a manifest", url=text)
    fmt = _directory_format(text)
    if fmt.in_place is None:
        raise UnsupportedError(f"{fmt.name} is not described in place; write a manifest", url=text)
    node: Node = fmt.call(
        "in_place", open_tree(text, storage_options=access.storage_options, allow=access.allow), options
    )
    return node


def literal(text: str) -> str:
    """Return a source as its manifest names it: by the real path, and no symbolic link on the way to it."""
    path = local_path(text)
    if path is not None:
        return slashed(os.path.realpath(path))
    parts = member_and_archive(text)
    if parts is None or local_path(parts[1]) is None:
        return text
    name, archive = parts
    return member_url(name, file_url(os.path.realpath(local_path(archive) or archive)))


def is_tree(text: str) -> bool:
    """Whether a source is a directory: the slash at a remote one's end says so, or its name."""
    path = local_path(text)
    if path is not None:
        return os.path.isdir(path)  # noqa: PTH112  the path is literal
    endings = tuple(ending for fmt in FORMATS if fmt.is_directory for ending in fmt.endings)
    if text.endswith((*endings, "/")) or any(f"{ending}/" in text for ending in endings):
        return True
    name = text.rpartition("/")[2]
    return any(fmt.is_folder(name) for fmt in FORMATS)


def _directory_format(text: str) -> Format:
    """Return the format of a directory: what lies in it here, an ending in its path, or the first one."""
    directories = [fmt for fmt in FORMATS if fmt.is_directory]
    path = local_path(text)
    if path is not None and not path.rstrip("/").endswith(tuple(end for fmt in directories for end in fmt.endings)):
        marked = (fmt for fmt in directories if any(os.path.isfile(f"{path}/{mark}") for mark in fmt.marks))  # noqa: PTH113
        return next(marked, directories[0])
    return next((fmt for fmt in directories if any(ending in text for ending in fmt.endings)), directories[0])


def file_format(read: ReadAhead, url: str) -> Format:
    """Return the format that a file's head shows; others are refused by name as far as they have one."""
    # the head is read before the size is asked for: the first answer often says it
    head = read(0, max(fmt.magic_start + fmt.magic_length for fmt in FORMATS))
    for fmt in FORMATS:
        if fmt.fits(head):
            return fmt
    if not head:
        raise MalformedError("the file is empty", url=url)
    if head.lstrip().startswith(b"{") and REFERENCES.search(read(0, MANIFEST_HEAD)):
        message = "this is a manifest, where an image is needed; jnrrdz convert changes a manifest's form"
        raise UnsupportedError(message, url=url)
    readable = ", ".join(fmt.name for fmt in FORMATS if not fmt.is_directory)
    name = next((name for magic, name in KNOWN.items() if head.startswith(magic)), None)
    found = f"the file starts with {head[:8].hex(' ')}" if name is None else f"this is {name}"
    raise UnsupportedError(f"{found}, which is not a format that jnrrdz reads; it reads {readable}", url=url)


def _check_options(fmt: Format, changed: Iterable[str], url: str) -> None:
    """Refuse options of other formats: one that does nothing would pass for one that did."""
    for name in changed:
        other = next((other for other in FORMATS if name in other.options), None)
        if other is not None and name not in fmt.options:
            kind = " containers, which are directories" if other.is_directory else ""
            raise UnsupportedError(f"{name} is for {other.name}{kind}", url=url, field=name)


def _group(call: Callable[..., Any], options: ScanOptions, url: str, *source: Any) -> VirtualGroup:
    """Return what a format's scanner finds, its values physical where the options say so."""
    try:
        group: VirtualGroup = call(*source)
        if options.codecs != "proposal":
            group = with_standard_codecs(group, is_strict=options.codecs == "standard")
        if not options.physical:
            return group
        from jnrrdz.core.physical import physical  # noqa: PLC0415  few scans need it

        return physical(group)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__
