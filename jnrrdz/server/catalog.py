"""What is served, by names: the sources that were named, and those in folders, each opened when it is asked for.

A folder is listed when something of it is asked for, and again when that listing is some seconds old; nothing in it is
opened for that, but the first bytes of JSON, which may be no manifest.  A name is one that stays: what is listed later
takes none of another's.
"""

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jnrrdz.api import names_manifest, open_stored
from jnrrdz.batches.listing import listed, within
from jnrrdz.batches.selection import Kind, kind_of
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.manifests.manifest import ENDINGS, is_reference_manifest
from jnrrdz.options import ServeOptions
from jnrrdz.redact import hidden
from jnrrdz.server.plain import PlainZarr
from jnrrdz.sources.url import local_path

OPEN = 64
"""Sources that are open at once."""

FRESH = 10.0
"""Seconds for which a folder's listing is taken as it was."""

DEEPEST = 16
"""Folders in folders, and parts of a name."""

MOST = 100_000
"""Names that a server has."""

RESERVED = frozenset({"index.json", "viewer", "favicon.ico"})
"""First parts of paths that are the server's own."""

MANIFEST_ENDINGS = (".json", *ENDINGS)
_FOLDERS = (*ENDINGS, *(ending for fmt in FORMATS if fmt.is_directory for ending in fmt.endings))
_FILES = (*MANIFEST_ENDINGS, *(ending for fmt in FORMATS if not fmt.is_directory for ending in fmt.endings))
_N5 = "attributes.json"
_ZARR = ("zarr.json", ".zgroup", ".zarray")


@dataclass(frozen=True)
class Entry:
    """One thing that is served."""

    name: str
    source: str

    @property
    def kind(self) -> str:
        """The format that its name tells, `manifest`, or `source`."""
        text = self.source.partition("?")[0].rstrip("/").lower()
        if text.endswith(MANIFEST_ENDINGS):
            return "manifest"
        return next((fmt.name for fmt in FORMATS if text.endswith(fmt.endings)), "source")

    @property
    def title(self) -> str:
        """The name that its file has."""
        return hidden(self.source).partition("?")[0].rstrip("/").rpartition("/")[2]


class Catalog:
    """Sources by their names, and those that are open."""

    def __init__(self, sources: Sequence[str], options: ServeOptions) -> None:
        self.options = options
        self._folders = [source for source in sources if _is_folder(source)]
        self._entries: dict[str, Entry] = {}
        self._names: dict[str, str] = {}
        self._above: set[str] = set()
        self._listed_at: float | None = None
        self._listing = threading.Lock()
        self._open: OrderedDict[str, PlainZarr] = OrderedDict()
        self._opening: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        for source in sources:
            if source not in self._folders:
                self._add(source, source.rstrip("/").rpartition("/")[2].partition("?")[0])

    @property
    def is_fresh(self) -> bool:
        """Whether folders need not be listed."""
        at = self._listed_at
        return not self._folders or (at is not None and time.monotonic() - at < FRESH)

    @property
    def listed(self) -> Mapping[str, Entry]:
        """What is served, as far as folders are listed."""
        return self._entries

    def refresh(self) -> None:
        """List folders anew where that was long ago."""
        with self._listing:
            if not self.is_fresh:
                found = [(source, name) for folder in self._folders for source, name in _below(folder, self.options)]
                there = {source for source, _ in found}
                gone = [name for name, entry in self._entries.items() if self._is_gone(entry.source, there)]
                for name in gone:
                    del self._entries[name]
                for source, name in found[:MOST]:
                    self._add(source, name)
                self._listed_at = time.monotonic()

    def _is_gone(self, source: str, there: set[str]) -> bool:
        return source not in there and any(source.startswith(f"{folder.rstrip('/')}/") for folder in self._folders)

    def _add(self, source: str, name: str) -> None:
        if source not in self._names:
            parts = [re.sub(r"[^A-Za-z0-9._-]", "_", part).lstrip(".") or "source" for part in name.split("/")]
            stem = tried = "/".join(parts)
            number = 2
            while self._is_taken(tried):
                tried, number = f"{stem}-{number}", number + 1
            self._names[source] = tried
            self._above.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
        name = self._names[source]
        self._entries.setdefault(name, Entry(name, source))

    def _is_taken(self, name: str) -> bool:
        parts = name.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        return (
            name in self._entries or name in self._above or not above.isdisjoint(self._entries) or parts[0] in RESERVED
        )

    def find(self, path: str) -> tuple[str, str] | None:
        """Return the name that a path begins with, and what follows; None where it begins with none."""
        name, _, key = path.partition("/")
        for _ in range(DEEPEST):
            if name in self._entries:
                return name, key
            if not key:
                return None
            part, _, key = key.partition("/")
            name = f"{name}/{part}"
        return None

    def opened(self, name: str) -> PlainZarr | None:
        """Return a source that is open; None where it is not."""
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)

    def open(self, name: str) -> PlainZarr:
        """Return a source as plain Zarr; one that is slow to open keeps nobody from the others."""
        with self._lock:
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:
            plain = self.opened(name)
            if plain is None:
                stored = open_stored(self._entries[name].source, access=self.options.access)
                plain = PlainZarr(stored, self.options)
                with self._lock:
                    self._open[name] = plain
                    if len(self._open) > OPEN:
                        self._open.popitem(last=False)
            return plain

    def forget(self, name: str) -> None:
        """Let go of a source that is not what it was when it was opened; who asks next opens it anew."""
        with self._lock:
            self._open.pop(name, None)


def _is_folder(source: str) -> bool:
    """Whether a name is that of a folder of sources, not of a container or manifest."""
    path = local_path(source)
    if source.rstrip("/").lower().endswith(_FOLDERS):
        return False
    if path is None:
        return kind_of(source, many=True) is Kind.FOLDER
    return os.path.isdir(path) and not os.path.exists(os.path.join(path, _N5)) and not names_manifest(source)  # noqa: PTH110, PTH112, PTH118


def _below(folder: str, options: ServeOptions) -> Iterator[tuple[str, str]]:
    """Yield the sources and manifests in a folder, each with its path from there."""
    path = local_path(folder)
    if path is not None:
        yield from _local(path, "", 0)
        return
    last = ""
    for found in listed(within(folder), options.access.storage_options):
        below = found.path or ""
        parts = below.split("/")
        depth = next((n for n, part in enumerate(parts, 1) if part.lower().endswith(_FOLDERS)), None)
        name = below if depth is None else "/".join(parts[:depth])
        if name != last and name.lower().endswith((*_FILES, *_FOLDERS)) and len(parts) <= DEEPEST:
            last = name
            yield f"{folder.rstrip('/')}/{name}", name


def _local(root: str, below: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield what lies in a local folder and in those in it; links that lead out of it are passed over."""
    folder = os.path.join(root, below)  # noqa: PTH118  paths are literal
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(), entry.is_symlink()) for entry in entries)
    except OSError as error:
        if not depth:
            raise UnsupportedError(f"not to be listed: {error.strerror}", url=root) from error
        return
    names = {name for name, _, _ in found}
    if below and _N5 in names:
        yield folder.rstrip("/"), below.rstrip("/")
        return
    if not names.isdisjoint(_ZARR):  # it is Zarr already
        return
    real = os.path.realpath(root)
    for name, is_folder, is_link in found:
        place, path = f"{below}{name}", os.path.join(folder, name)  # noqa: PTH118  the same
        leads_out = is_link and os.path.commonpath([real, os.path.realpath(path)]) != real
        if name.startswith(".") or leads_out:
            continue
        lower = name.lower()
        if is_folder and not lower.endswith(_FOLDERS):
            if depth < DEEPEST - 1 and not is_link:
                yield from _local(root, f"{place}/", depth + 1)
        elif lower.endswith(_FOLDERS if is_folder else _FILES) and (
            not lower.endswith(".json") or is_reference_manifest(path)
        ):
            yield path, place
