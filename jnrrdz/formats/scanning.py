"""Source and layout to model: `SCANNERS` tells by a source's first bytes which format's scanner reads it.

May touch the source protocol, layouts and the model.  Each format is one module or folder here and
no scanner knows another; each is a callable of the form `Scan`.

A path or URL to what it holds: opened, scanned, let go of.

May touch sources and the scanners.  Imports no framework: a worker of a batch starts with this and a
writer, in half the time that the whole library takes.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours, record_of
from jnrrdz.formats.tiff.scan import scan_tiff
from jnrrdz.formats.tiff.structure import is_tiff
from jnrrdz.options import Access, ScanOptions
from jnrrdz.sources.base import ByteSource
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.tree import Tree, file_sizes, open_tree
from jnrrdz.sources.url import local_path

TREE_OPTIONS = ("chain", "stack_timepoints")
"""Choices that mean something for containers of blocks (N5) only."""

type Sniff = Callable[[bytes], bool]
type Scan = Callable[[ReadAhead, str, ScanOptions, Neighbours], VirtualGroup]

HEAD = 64
"""Bytes that every `Sniff` is given; fewer where the source is shorter."""


@dataclass(frozen=True)
class Scanner:
    """One format: how it is recognised and how it is read."""

    name: str
    sniff: Sniff
    scan: Scan


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is first called: who reads TIFFs waits for no other format."""

    def called(*given: Any) -> Any:
        return getattr(import_module(module), name)(*given)

    return called


def _scanner(title: str, layout: str, scan: str, name: str) -> Scanner:
    return Scanner(
        title, _later(f"jnrrdz.formats.{layout}", f"is_{name}"), _later(f"jnrrdz.formats.{scan}", f"scan_{name}")
    )


SCANNERS = (
    Scanner("TIFF", is_tiff, scan_tiff),
    _scanner("JPEG 2000", "jpeg2000.codestream", "jpeg2000.scan", "jpeg2000"),
    _scanner("NITF", "nitf.header", "nitf.scan", "nitf"),
    _scanner("JNRRD", "nrrd.jnrrd", "nrrd.scan", "jnrrd"),
    _scanner("NRRD", "nrrd.header", "nrrd.scan", "nrrd"),
)

scan_n5 = _later("jnrrdz.formats.n5.scan", "scan_n5")
physical: Callable[[VirtualGroup], VirtualGroup] = _later("jnrrdz.core.physical", "physical")

KNOWN = {
    b"\x89HDF": "HDF5",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"CDF": "netCDF 3",
    b"PK\x03\x04": "ZIP",
    b"\x1f\x8b": "gzip",
    b"<": "XML or HTML",
    b"{": "JSON",
}
"""Formats that are recognised in order to be refused by name."""


@dataclass(frozen=True)
class Scanned:
    """What a scan found, and what it cost."""

    group: VirtualGroup
    format: str
    requests: int
    bytes_read: int


def scan_source(source: ByteSource, options: ScanOptions, neighbours: Neighbours) -> Scanned:
    """Return the virtual group of one source, its validators recorded."""
    _refuse_tree_options(source, options)
    read = ReadAhead(source)
    head = read(0, HEAD)  # before the size is asked for: the first answer often tells it
    scanner = next((known for known in SCANNERS if known.sniff(head)), None)
    if scanner is None:
        raise _refusal(head, source.url)
    try:
        found = scanner.scan(read, source.url, options, neighbours)
        group = _physical(found, source.url) if options.physical else found
        records = (record_of(source), *neighbours.records)
    finally:
        neighbours.close()
    readers = [read, *neighbours.readers]
    return Scanned(
        VirtualGroup(group.children, group.attributes, records),
        scanner.name,
        sum(reader.requests for reader in readers) + neighbours.requests,
        sum(reader.bytes_read for reader in readers),
    )


def _refuse_tree_options(source: ByteSource, options: ScanOptions) -> None:
    """Refuse what is asked of directories only: an option that does nothing would pass for one that did."""
    for name in TREE_OPTIONS:
        if getattr(options, name):
            raise UnsupportedError(f"{name} is for N5 containers, which are directories", url=source.url, field=name)


def scan_tree(tree: Tree, options: ScanOptions) -> Scanned:
    """Return the virtual group of a format that is a directory: N5 is the only one."""
    found = scan_n5(tree, options)
    group = _physical(found, tree.url) if options.physical else found
    return Scanned(group, "N5", tree.requests, tree.bytes_read)


def _physical(group: VirtualGroup, url: str) -> VirtualGroup:
    try:
        return physical(group)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _refusal(head: bytes, url: str) -> Exception:
    readable = ", ".join(scanner.name for scanner in SCANNERS)
    if not head:
        return MalformedError("the source is empty", url=url, offset=0)
    name = next((name for magic, name in KNOWN.items() if head.startswith(magic)), None)
    if name is not None:
        return UnsupportedError(f"{name}, where jnrrdz reads {readable}", url=url, offset=0, field="format")
    shown = head[:8].hex(" ")
    return UnsupportedError(f"starts with {shown}; jnrrdz reads {readable}", url=url, offset=0, field="format")


type Options = Mapping[str, Any] | None

TREES = (".n5",)


class Opener(Protocol):
    """What opens a URL as `source.fsspec.open_source` does."""

    def __call__(self, url: str, *, storage_options: Options = None) -> ByteSource:
        """Return the bytes at a URL."""


def scan(text: str, options: ScanOptions, access: Access, *, opener: Opener = open_source) -> Scanned:
    """Return what a path or URL holds, with the requests and bytes that finding it took."""
    storage_options = access.storage_options
    if is_tree(text):
        found = scan_tree(open_tree(text, storage_options=storage_options), options)
    else:
        source = opener(literal(text), storage_options=storage_options)
        try:
            beside = partial(opener, storage_options=storage_options)
            lister = partial(file_sizes, opener=beside, storage_options=storage_options)
            found = scan_source(source, options, Neighbours(beside, lister, tuple(access.allow)))
        finally:
            source.close()
    return replace(found, group=replace(found.group, origin={"options": options.changed()}))


def literal(text: str) -> str:
    """Return a source as its manifest names it: by the real path, and no symbolic link on the way to it."""
    path = local_path(text)
    return text if path is None else os.path.realpath(path)


def is_tree(text: str) -> bool:
    """Whether a source is a directory: a remote one is told by the slash at its end, or by its name."""
    path = local_path(text)
    if path is not None:
        return os.path.isdir(path)  # noqa: PTH112  the path is literal
    return text.endswith((*TREES, "/")) or any(f"{ending}/" in text for ending in TREES)
