"""Files beside a source that a scanner may ask for, opened the same way as the source itself.

One that is not there (or may not be read, which is how object stores say the same to a stranger) is None, not an
error; each that was read is recorded once.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError
from jnrrdz.options import ScanOptions
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.tree import MISSING, FileSizes
from jnrrdz.sources.url import Place, is_chained, local_path, place, require_inside
from jnrrdz.sources.zip_member import StoredMember

type Opener = Callable[[str], ByteSource]
"""Opens a URL, or raises the JnrrdzError that says why not."""

type Guest = Callable[[str, ReadAhead, str, ScanOptions, "Neighbours"], VirtualGroup | None]
"""Runs a scanner, named `module:function`, where parsers of other libraries may run."""

type Lister = Callable[[Sequence[str]], FileSizes]
"""Tells the sizes of many files at once."""


@dataclass
class Neighbours:
    """What stands beside a source; without an opener nothing does."""

    opener: Opener | None = None
    lister: Lister | None = None
    allow: tuple[str, ...] = ()
    """Paths and URLs under which files may be that are not below the source's own folder; `*` for all."""
    source: str = ""
    """The source: what leads out of its folder, by a symbolic link or otherwise, is not opened."""
    opened: dict[str, ReadAhead | None] = field(default_factory=dict)
    listed: list[SourceRecord] = field(default_factory=list)
    """Files that were never opened, as listings showed them."""
    requests: int = 0
    """What listing took."""
    guest: Guest | None = None
    """Runs parsers of other libraries; None where they run in this process."""

    def open(self, url: str) -> ReadAhead | None:
        """Return a reader of a neighbour, None where there is none."""
        if url not in self.opened:
            path = local_path(url)
            there = path is None or os.path.exists(path)  # noqa: PTH110  the path is literal
            if there and self._folder is not None:
                require_inside(place(url), self._folder, self.allow, name=url)
            self.opened[url] = _open_if_there(self.opener, url) if there and self.opener is not None else None
        return self.opened[url]

    @cached_property
    def _folder(self) -> Place | None:
        """The folder of the source; that of a chain of file systems is not known."""
        return place(self.source).parent() if self.source and not is_chained(self.source) else None

    def sizes(self, urls: Sequence[str]) -> FileSizes:
        """Return the sizes of many files, none of which is opened."""
        sizes = FileSizes([MISSING] * len(urls)) if self.lister is None else self.lister(urls)
        self.requests += sizes.requests
        return sizes

    @property
    def readers(self) -> list[ReadAhead]:
        """The readers of all neighbours that are there."""
        return [reader for reader in self.opened.values() if reader is not None]

    @property
    def records(self) -> tuple[SourceRecord, ...]:
        """The neighbours for the table of sources."""
        return (*(record_of(reader.source) for reader in self.readers), *self.listed)

    def close(self) -> None:
        """Let go of all handles."""
        for reader in self.readers:
            reader.source.close()


def _open_if_there(opener: Opener, url: str) -> ReadAhead | None:
    try:
        source = opener(url)
        reader = ReadAhead(source)
        reader(0, 1)  # object stores say only now whether there is anything
    except JnrrdzError as error:
        if isinstance(error.__cause__, FileNotFoundError | PermissionError):
            return None
        raise
    return reader


def record_of(source: ByteSource) -> SourceRecord:
    """Return a source as it is now; of a stored member its archive."""
    if isinstance(source, StoredMember):
        source = source.archive
    seen = source.validators
    return SourceRecord(source.url, seen.size, seen.etag, seen.version, seen.modified)


def beside(url: str, ending: str, *, replace: bool = False) -> str:
    """Return the URL of a neighbour: with an ending added, or in place of the last one of the name.

    A query stays where it is, and in a chain of file systems (`zip://a.tif::s3://b`) the first
    path is meant.
    """
    first, chain, rest = url.partition("::")
    is_http = first.lower().startswith(("http://", "https://"))
    path, question, query = first.partition("?") if is_http else (first, "", "")
    folder, slash, name = path.rpartition("/")
    stem = name.rpartition(".")[0] if replace and "." in name else name
    return f"{folder}{slash}{stem}{ending}{question}{query}{chain}{rest}"


def in_folder_of(url: str, path: str) -> str:
    """Return the URL of a file by its path relative to another file's folder.

    A query stays, and in a chain of file systems the first path is meant, as in `beside`.
    """
    first, chain, rest = url.partition("::")
    is_http = first.lower().startswith(("http://", "https://"))
    place, question, query = first.partition("?") if is_http else (first, "", "")
    folder, slash, _ = place.rpartition("/")
    name = quote(path) if is_http else path
    return f"{folder}{slash}{name}{question}{query}{chain}{rest}"
