"""What is served, by names: the sources that were named, and those in folders, each opened when it is asked for.

A folder is listed when something of it is asked for, and again when that listing is some seconds old; nothing in it is
opened for that, but the first bytes of JSON, which may be no manifest.  A name is one that stays: what is listed later
takes none of another's.
"""

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jnrrdz.batches.selection import NameKind, Wanted, kind_of, resolve, within
from jnrrdz.caches import BoundedCache
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.guests import IS_POSSIBLE, Guests, ParserTimeoutError
from jnrrdz.formats.neighbours import Guest
from jnrrdz.manifests.forms import ENDINGS
from jnrrdz.options import ScanOptions, ServeOptions
from jnrrdz.redact import hidden
from jnrrdz.server.memory import Memory
from jnrrdz.server.plain import PlainZarr
from jnrrdz.sources.url import is_under, local_path
from jnrrdz.store.opened import opened

OPEN = 64
"""Sources that are open at once."""

FRESH = 10.0
"""Seconds for which a folder's listing is taken as it was."""

DEEPEST = 16
"""Folders in folders, and parts of a name."""

MOST = 100_000
"""Names that a server has."""

PARSING = 60.0
"""Seconds that a parser of another library may work on one source."""

REMEMBERED = 600.0
"""Seconds for which a source is refused after its parser took too long."""

FEWEST_FAR = 16
"""Worker processes for parsers that wait for sources elsewhere."""

RESERVED = frozenset({"index.json", "metrics", "viewer", "favicon.ico"})
"""First parts of paths that are the server's own."""

ELSEWHERE = "(a place on the server)"
"""What stands for the paths and URLs in an error's text that have no name here."""

_PLACE = re.compile(
    r"""[A-Za-z][A-Za-z0-9+.-]{1,31}://[^\s"'<>]*|(?<![\w./])(?:[A-Za-z]:)?[\\/][^\s"'<>/\\]+[\\/][^\s"'<>]*"""
)


@dataclass(frozen=True)
class ServedSource:
    """One thing that is served."""

    name: str
    source: str

    @property
    def kind(self) -> str:
        """The format that its name tells, `manifest`, or `source`."""
        text = self.source.partition("?")[0].rstrip("/").lower()
        if text.endswith(tuple(ENDINGS)):
            return "manifest"
        return next((fmt.name for fmt in FORMATS if text.endswith(fmt.endings)), "source")

    @property
    def title(self) -> str:
        """The name that its file has."""
        return hidden(self.source).partition("?")[0].rstrip("/").rpartition("/")[2]


class Catalog:
    """Sources by their names, and those that are open."""

    def __init__(self, sources: Sequence[str], options: ServeOptions, memory: Memory | None = None) -> None:
        self.options = options
        self._memory = memory or Memory(options.cache_bytes)
        kinds = {source: kind_of(source) for source in sources}
        self._folders = [source for source, kind in kinds.items() if kind in {NameKind.FOLDER, NameKind.PATTERN}]
        self._entries: dict[str, ServedSource] = {}
        self._names: dict[str, str] = {}
        self._above: set[str] = set()
        self._listed_at: float | None = None
        self._listing = threading.Lock()
        self._open = BoundedCache[str, PlainZarr](most=OPEN)
        self._timed_out: dict[str, tuple[float, str]] = {}
        """Sources whose parsers took too long: when, and the error's text."""
        cores = os.cpu_count() or 1
        self._guests = Guests(2 * cores)
        self._far_guests = Guests(max(cores, FEWEST_FAR))
        others = [source for source in sources if source not in self._folders]
        named = resolve(others, Wanted.BOTH, lambda _: options.access.storage_options, may_be_empty=True)
        self._named = {found.url for found in named}
        for source in dict.fromkeys(found.url for found in named):
            self._add(source, source.rstrip("/").rpartition("/")[2].partition("?")[0])

    @property
    def is_fresh(self) -> bool:
        """Whether folders need not be listed."""
        at = self._listed_at
        return not self._folders or (at is not None and time.monotonic() - at < FRESH)

    @property
    def listed(self) -> Mapping[str, ServedSource]:
        """What is served, as far as folders are listed."""
        return self._entries

    def refresh(self) -> None:
        """List folders anew where that was long ago."""
        with self._listing:
            if not self.is_fresh:
                found = [(source, name) for folder in self._folders for source, name in _below(folder, self.options)]
                there = {source for source, _ in found} | self._named
                gone = [name for name, entry in self._entries.items() if entry.source not in there]
                for name in gone:
                    del self._entries[name]
                for source, name in found[:MOST]:
                    self._add(source, name)
                self._listed_at = time.monotonic()

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
        self._entries.setdefault(name, ServedSource(name, source))

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
        return self._open.get(name)

    def is_local(self, name: str) -> bool:
        """Whether what is opened for a name is on this machine."""
        return local_path(self._entries[name].source) is not None

    def open(self, name: str) -> PlainZarr:
        """Return a source as plain Zarr; whoever calls this sees to it that nobody else does so meanwhile."""
        plain = self.opened(name)
        if plain is None:
            source = self._entries[name].source
            guest = self._guest(is_local=self.is_local(name))
            self._refuse_if_timed_out(source)
            try:
                opening = opened(source, ScanOptions(), self.options.access, guest)
            except ParserTimeoutError as error:
                self._timed_out[source] = time.monotonic(), error.message
                raise
            plain = PlainZarr(opening.store, self.options, self._memory)
            self._open.put(name, plain)
        return plain

    def _refuse_if_timed_out(self, source: str) -> None:
        """Refuse a source whose parser took too long some minutes ago."""
        start, message = self._timed_out.get(source, (0.0, ""))
        if not message:
            return
        if time.monotonic() - start < REMEMBERED:
            text = f"{message}; it is tried again {REMEMBERED:g} s after that"
            raise ParserTimeoutError(text, url=source)
        del self._timed_out[source]

    def _guest(self, *, is_local: bool) -> Guest | None:
        """Return what runs parsers of other libraries: sources elsewhere, which may be slow, keep out no local one."""
        if not IS_POSSIBLE:
            return None
        guests = self._guests if is_local else self._far_guests
        return guests.within(PARSING)

    def close(self) -> None:
        """End the worker processes; nothing may be opened afterwards."""
        self._guests.close()
        self._far_guests.close()

    @property
    def count_open(self) -> int:
        """How many sources are open."""
        return len(self._open)

    def public_text(self, error: JnrrdzError, name: str = "") -> str:
        """Return an error's text for those who read over HTTP: what is served by its name, and no path or URL."""
        source = self._entries[name].source if name in self._entries else ""
        path = local_path(source) if source else None
        spellings = {error.url or "", source, path or "", os.path.realpath(path) if path else "", hidden(source)} - {""}
        known = dict.fromkeys(spellings, name or ELSEWHERE)
        folders = {spelling.rpartition("/")[0] for spelling in spellings}
        known |= {f"{folder}/": "" for folder in folders if folder and not folder.endswith(("/", ":"))}
        field, message = error.field or "", error.message
        for spelling in sorted(known, key=len, reverse=True):
            field, message = (text.replace(spelling, known[spelling]) for text in (field, message))
        message = _PLACE.sub(ELSEWHERE, message)
        return str(JnrrdzError(message, url=name or None, field=field or None, offset=error.offset))

    def forget(self, name: str) -> None:
        """Let go of a source that is not what it was when it was opened; who asks next opens it anew."""
        self._open.pop(name)


def _below(folder: str, options: ServeOptions) -> Iterator[tuple[str, str]]:
    """Yield the sources and manifests in a folder, or that fit a pattern, each with its path from there.

    Links that lead out of the folder are passed over, and what is hidden.
    """
    root = local_path(within(folder).folder)
    real = None if root is None else os.path.realpath(root)
    for found in resolve([folder], Wanted.BOTH, lambda _: options.access.storage_options, may_be_empty=True):
        name = found.path or found.url.rstrip("/").rpartition("/")[2]
        parts = name.split("/")
        path = local_path(found.url)
        leads_out = real is not None and path is not None and not is_under(os.path.realpath(path), real)
        if not leads_out and len(parts) <= DEEPEST and not any(part.startswith(".") for part in parts):
            yield found.url, name
