"""What a path or URL means: its scheme, its local path, its parts made comparable.

`parse` reads a text once into a `Url`; the functions beside it give one member each.  `place` goes further, to where
a URL leads: symbolic links followed, spellings of one object made equal.  Nothing is opened.  The parser of HTTP is
the one that the HTTP client uses, so that what is compared is what is opened.
RFC 3986 (URLs), RFC 8089 (file URLs); what has no `://` is a path, as in fsspec.  Paths of Windows have slashes here,
and its file URLs drive letters (`file:///C:/a`) or hosts (`file://server/share/a`).
"""

import os
import re
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote

from jnrrdz.errors import JnrrdzError, UntrustedSourceError
from jnrrdz.records import record

if TYPE_CHECKING:
    import yarl

HTTP = frozenset({"http", "https"})

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://")
_FILE = re.compile(r"(?:file|local):", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udc7f\udd00-\udfff]")
"""Control characters, and halves of surrogate pairs but for those that Python has for bytes of a name."""
_ONE_TREE = frozenset({"memory"})
_ALIASES = {"s3a": "s3", "gcs": "gs", "local": "file"}
_DRIVE = re.compile(r"/[A-Za-z]:(?=/|$)")
_BRACKETED_HOST = re.compile(r"^(https?://[^/?#]*?)\[[0-9A-Fa-f:.%]*\]", re.IGNORECASE)


type Origin = tuple[str, str, int]

_system = os.path
"""The system's rules of paths; tests of other systems put theirs here."""


def _is_windows() -> bool:
    return _system.sep == "\\"


@record
class Url:
    """A path or URL as it is spelt, and what that means."""

    text: str
    scheme: str
    """In lower case, synonyms made one; `file` for every local form."""
    is_chained: bool
    """Whether it stacks file systems (`zip://a::s3://b`), as fsspec reads `::`."""

    @property
    def path(self) -> str | None:
        """The path that a plain path or a file URL names, None for anything elsewhere.

        A plain path stands for itself; a file URL is percent-decoded (RFC 8089).
        """
        # the home may be another the next time
        return os.path.expanduser(self._path) if self._path and self.text[0] == "~" else self._path  # noqa: PTH111

    @cached_property
    def _path(self) -> str | None:
        if self.is_chained or self.scheme != "file":
            return None
        match = _FILE.match(self.text)
        if match is None:
            return self.text
        rest = self.text[match.end() :]
        if rest.startswith("//"):
            host, slash, path = rest[2:].partition("/")
            is_here = host.lower() in {"", "localhost"}
            if not slash or not (is_here or _is_windows()):
                raise JnrrdzError(f"a file URL on host {host!r}; file:///absolute/path would work", url=self.text)
            rest = f"/{path}" if is_here else f"//{host}/{path}"
        path = unquote(rest)
        return path[1:] if _is_windows() and _DRIVE.match(path) else path

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The URLs of a chain, the outermost first; the URL alone where it is none."""
        return tuple(self.text.split("::")) if self.is_chained else (self.text,)

    @cached_property
    def object_path(self) -> str:
        """Bucket and key of an object in a store: `bucket/folder/a.tif`."""
        return self.text.partition("://")[2]

    @cached_property
    def origin(self) -> Origin | None:
        """Scheme, host and port of an HTTP URL (RFC 6454), None for other schemes."""
        if self.is_chained or self.scheme not in HTTP:
            return None
        parsed = _parse_http(self.text)
        return self.scheme, _host(parsed), parsed.port or 0


@lru_cache(4096)
def parse(text: str) -> Url:
    """Return what a text says that names a file, an object or a folder."""
    match = _SCHEME.match(text)
    name = "file" if match is None else match[1].lower()
    is_chained = "::" in text and "::" in _BRACKETED_HOST.sub(r"\1", text)
    return Url(text, _ALIASES.get(name, name), is_chained)


def scheme(url: str) -> str:
    """Return the scheme in lower case, synonyms made one; `file` for every local form."""
    return parse(url).scheme


def is_chained(url: str) -> bool:
    """Whether the URL stacks file systems (`zip://a::s3://b`), as fsspec reads `::`."""
    return parse(url).is_chained


def local_path(url: str) -> str | None:
    """Return the path that a plain path or a file URL names, None for anything elsewhere."""
    return parse(url).path


def origin(url: str) -> Origin | None:
    """Return scheme, host and port of an HTTP URL, None for other schemes."""
    return parse(url).origin


def is_absolute(url: str) -> bool:
    """Whether the URL says by itself where it is."""
    return _SCHEME.match(url) is not None or _FILE.match(url) is not None or url.startswith("/") or _system.isabs(url)


def slashed(path: str) -> str:
    """Return a local path with slashes, which Windows takes too."""
    return path.replace("\\", "/") if _is_windows() else path


def file_url(path: str) -> str:
    """Return the URL of an absolute local path: what `local_path` reads back."""
    rest = slashed(path)
    if _is_windows() and rest.startswith("//"):
        return f"file:{quote(rest)}"
    return f"file://{quote(rest)}" if rest.startswith("/") else f"file:///{quote(rest, safe='/:')}"


def has_drive(url: str) -> bool:
    """Whether a path begins as only Windows' do: with a drive's letter, or the name of another machine."""
    return _is_windows() and bool(_system.splitdrive(url)[0]) and not is_chained(url) and _SCHEME.match(url) is None


def without_query(url: str) -> str:
    """Return a URL without the query and fragment that an HTTP URL may have; names of others may hold `?` and `#`."""
    return re.split(r"[?#]", url, maxsplit=1)[0] if parse(url).origin is not None else url


def join_folder(folder: str, path: str) -> str:
    """Return the URL of what is below a folder; the folder's query, which may be a token, stays behind it."""
    name = without_query(folder)
    return f"{name.rstrip('/')}/{path}{folder[len(name) :]}"


@record
class Location:
    """A remote URL in the one form in which two spellings of it are equal."""

    scheme: str
    authority: str
    parts: tuple[str, ...]
    query: str = ""
    text: str = field(default="", compare=False)
    """The URL as it was spelt."""

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the location of a URL that has a scheme and is not chained.

        HTTP paths are decoded once, with backslashes and doubled slashes as single slashes: servers
        differ in what they do with them.  Keys of object stores are literal, all but `.` and `..`.
        """
        name = scheme(url)
        if name in HTTP:
            parsed = _parse_http(url)
            parts = [part for part in unquote(parsed.raw_path).replace("\\", "/").split("/") if part]
            return cls(name, f"{_host(parsed)}:{parsed.port}", _undotted(parts), parsed.raw_query_string, url)
        path = url.partition("://")[2].lstrip("/")
        authority, _, path = ("", "", path) if name in _ONE_TREE else path.partition("/")
        if not authority and name not in _ONE_TREE:
            raise JnrrdzError("a URL without a host or bucket", url=url)
        return cls(name, authority, _undotted(path.rstrip("/").split("/")) if path else (), "", url)

    def within(self, directory: "Place") -> bool:
        """Whether this lies at or below the directory, on the same host or in the same bucket."""
        if not isinstance(directory, Location):
            return False
        same = (self.scheme, self.authority) == (directory.scheme, directory.authority)
        return same and self.parts[: len(directory.parts)] == directory.parts

    def parent(self) -> "Location":
        """Return the directory that holds this."""
        return replace(self, parts=self.parts[:-1], query="")

    def url(self) -> str:
        """Return the URL of just this location, in a spelling that no server reads as another."""
        if self.scheme not in HTTP:
            return f"{self.scheme}://{self.authority}/{'/'.join(self.parts)}"
        path = "/".join(quote(part, safe="!$&'()*+,;=:@~") for part in self.parts)
        host, _, port = self.authority.rpartition(":")
        shown = f"[{host}]" if ":" in host else host
        usual = (self.scheme, port) in {("http", "80"), ("https", "443")}
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{shown}{'' if usual else ':' + port}/{path}{query}"


@record
class LocalFile:
    """A local path, and the path that it is once symbolic links are followed."""

    path: str = field(compare=False)
    real: str

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the file at a path, which need not exist."""
        # `..` is resolved before links, as in URLs; POSIX lets `//` at the start be another root
        lexical = slashed(_system.abspath(path))
        lexical = lexical if _is_windows() else re.sub("^/+", "/", lexical)
        return cls(lexical, slashed(_system.realpath(lexical)))

    @property
    def text(self) -> str:
        """The real path: what is checked is what is opened."""
        return self.real

    def within(self, directory: "Place") -> bool:
        """Whether the real file lies at or below the real directory."""
        return isinstance(directory, LocalFile) and is_under(self.real, directory.real)

    def parent(self) -> "LocalFile":
        """Return the directory that holds this."""
        return LocalFile.of(os.path.dirname(self.path))  # noqa: PTH120

    def url(self) -> str:
        """Return the real path."""
        return self.real


@record
class Chain:
    """Stacked file systems, compared as text."""

    text: str

    def within(self, directory: "Place") -> bool:
        """Whether the text continues the other's, at a component's end.

        Or its first path does, in the same archive: `zip://d/v.raw::A` is in `zip://d/::A`.
        """
        if not isinstance(directory, Chain) or "/.." in self.text:
            return False
        first, _, archive = self.text.partition("::")
        folder, _, other = directory.text.partition("::")
        is_beside = archive == other and is_under(first, folder)
        return is_beside or is_under(self.text, directory.text)

    def parent(self) -> "Chain":
        """Return the directory that holds this."""
        return Chain(self.text.rpartition("/")[0])

    def url(self) -> str:
        """Return the text."""
        return self.text


type Place = Location | LocalFile | Chain


def place(url: str) -> Place:
    """Return where an absolute URL, or a path (from the working directory), leads."""
    if _CONTROL.search(url):
        raise JnrrdzError("a control character, or half of a surrogate pair, in the URL", url=url)
    if is_chained(url):
        return Chain(url)
    path = local_path(url)
    return Location.of(url) if path is None else LocalFile.of(path)


def require_inside(target: Place, folder: Place, allow: Sequence[str], *, name: str) -> None:
    """Refuse what is found beside or below a source and leads out of its folder, unless `allow` covers it.

    Symbolic links were followed on both sides: a link in the folder leads where it leads, and the folder of a
    source that is a link is the one that holds the file itself.
    """
    if not target.within(folder) and not any(prefix == "*" or target.within(place(prefix)) for prefix in allow):
        raise UntrustedSourceError(
            f"{name!r:.200} leads out of the folder of what names it; --allow {target.url()} would let it"
        )


def is_same(path: str, other: str) -> bool:
    """Whether two local paths lead to one file that is there: by links, or in spellings that are one to the system."""
    try:
        return os.path.samefile(path, other)  # noqa: PTH121  a path object costs more than the call
    except (OSError, ValueError):
        return False


def is_under(path: str, directory: str) -> bool:
    """Whether a path is a directory or below it, in whole components."""
    if _is_windows():  # one file by names in capitals and small letters
        path, directory = slashed(_system.normcase(path)), slashed(_system.normcase(directory))
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _parse_http(url: str) -> "yarl.URL":
    import yarl  # noqa: PLC0415  paths need none

    try:
        parsed = yarl.URL(url)
    except ValueError as error:
        raise JnrrdzError(f"not a URL: {error}", url=url) from None  # its causes quote a password
    if not parsed.raw_host:
        raise JnrrdzError("a URL without a host", url=url)
    return parsed


def _host(parsed: "yarl.URL") -> str:
    """Return the host as DNS compares it."""
    return (parsed.raw_host or "").lower().rstrip(".")


def _undotted(parts: list[str]) -> tuple[str, ...]:
    """Return the components with `.` and `..` carried out; nothing is above the root."""
    kept: list[str] = []
    for part in parts:
        if part == "..":
            del kept[-1:]
        elif part != ".":
            kept.append(part)
    return tuple(kept)
