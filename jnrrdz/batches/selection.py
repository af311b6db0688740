"""What a name stands for, which sources a batch has, and how their outputs are called.

`kind_of` is what every command asks of a name that you give: a list, a pattern, a folder, a STAC document, a manifest
or a source.  `Selection` finds the sources of a batch one after another, each once.  `Template` names an output for
every source, such as `s3://out/{path}.json`; what fills a placeholder may come from a listing or a STAC item that
someone else wrote, and is never a way out of the folder that the template names.
"""

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import fsspec
from fsspec.utils import glob_translate
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from jnrrdz.batches import listing
from jnrrdz.batches.item import Found, is_since, moment
from jnrrdz.batches.stac import LARGEST, Assets, Reader, found_in_rows, named_by
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.manifests.trust import check_named
from jnrrdz.redact import record_repr
from jnrrdz.sources import faults
from jnrrdz.sources.fsspec import read_document
from jnrrdz.sources.guard import AddressGuard, guard_of
from jnrrdz.sources.url import HTTP, is_absolute, local_path, origin, parse, scheme

_STAC = (".json", ".geojson")
_TABLES = (".parquet", ".geoparquet", ".parq")


class Kind(StrEnum):
    """What a name stands for."""

    LIST = "list"
    """`-` or `@FILE`: a source on each line."""
    PATTERN = "pattern"
    FOLDER = "folder"
    """A prefix, or a local directory, that is no container."""
    STAC = "STAC document"
    TABLE = "stac-geoparquet table"
    REPOSITORY = "Icechunk repository"
    MANIFEST = "manifest"
    SOURCE = "source"


def kind_of(name: str, *, many: bool = False) -> Kind:
    """Return what a name stands for: one thing, or, where `many` sources are asked for, where they are found.

    A remote name is told by its text alone.  Among many, JSON is a STAC document and Parquet a table of STAC items.
    """
    path = local_path(name)
    if not many:
        from jnrrdz.api import names_manifest  # noqa: PLC0415  it brings zarr, which a batch need not wait for

        if name.rstrip("/").endswith(".icechunk") if path is None else (Path(path) / "repo").is_file():
            return Kind.REPOSITORY
        return Kind.MANIFEST if names_manifest(name) else Kind.SOURCE
    if name == STDIN or name.startswith("@"):
        return Kind.LIST
    if listing.MAGIC.search(name) is not None:
        # a local file that is really called so is that file; a `?` in an HTTP URL starts its query
        is_literal = Path(path).exists() if path is not None else origin(name) is not None and "*" not in name
        if not is_literal:
            return Kind.PATTERN
    if name.endswith("/") if path is None else Path(path).is_dir():
        containers = tuple(ending for fmt in FORMATS if fmt.is_directory for ending in fmt.endings)
        if not name.rstrip("/").lower().endswith(containers):
            return Kind.FOLDER
    key = source_path(name).lower()
    return Kind.STAC if key.endswith(_STAC) else Kind.TABLE if key.endswith(_TABLES) else Kind.SOURCE


STDIN = "-"
_LONGEST = 1 << 16
"""Bytes of a line: longer ones are no URL, but a file of another kind."""


def lines(
    name: str, storage_options: Mapping[str, Any] | None = None, guard: AddressGuard | None = None
) -> Iterator[str]:
    """Yield the sources that a list names, while it is still being written if need be.

    Empty lines and those that start with `#` are passed over.
    """
    if name == STDIN:
        yield from _lines(sys.stdin.buffer, "stdin")
        return
    if origin(name) is not None:
        yield from _lines(io.BytesIO(read_document(name, LARGEST, storage_options=storage_options, guard=guard)), name)
        return
    with (
        faults.translate_errors(name, "reading the list"),
        fsspec.open(name, "rb", **(storage_options or {})) as stream,
    ):
        yield from _lines(stream, name)


def _lines(stream: Any, name: str) -> Iterator[str]:
    number = 0
    while line := stream.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST:
            raise MalformedError(f"line {number} is longer than any URL; a list has one on each line", url=name)
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise MalformedError(f"line {number} is no UTF-8 text: {error}", url=name) from error
        if text and not text.startswith("#"):
            yield text


PLACEHOLDERS = {
    "stem": "the source's name without its last ending",
    "name": "the source's name",
    "path": "the path below the prefix or pattern that found it (else its whole path), without its last ending",
    "parent": "the name of the directory that holds it",
    "index": "its number in the order of the batch, from 0, at least six digits",
    "id": "of a STAC item",
    "collection": "of a STAC item",
    "asset": "the key of a STAC item's asset",
}
_FIELD = re.compile(r"\{([^{}]*)\}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
_HOME = re.compile(r"(?:(?:file|local):)?(?://)?~[^/]*\{", re.IGNORECASE)
_SCHEME = re.compile(r"(?:\A|::)[^/:]*\{[^/]*:(?::|//)")
_AUTHORITY = re.compile(r"(?<!file)(?<!local)(?<!memory)(?<!zip)(?<!tar)://[^/]*\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COLONS = re.compile(r"\A:|:\Z|:(?=:)|(?<=:):")
_ESCAPED = re.compile(r"%(?=7E|3A|25)")


class Template:
    """A name with placeholders, checked when it is made."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = tuple(_FIELD.findall(text))
        left = _FIELD.sub("", text)
        if "{" in left or "}" in left:
            raise UnsupportedError("a brace that belongs to no placeholder", url=text, field="output")
        for name in self.names:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise UnsupportedError(f"no placeholder {{{name}}}; there are {known}", url=text, field="output")
        if _HOME.match(text):
            raise UnsupportedError("a placeholder after `~` would name a user's home", url=text, field="output")
        if _SCHEME.search(text):
            raise UnsupportedError("a placeholder in place of a scheme", url=text, field="output")
        sample = parse(_FIELD.sub("x", text))
        self._leads = (sample.scheme, sample.is_chained, is_absolute(sample.text))
        self._decodes = sample.scheme in HTTP or text.lower().startswith(("file:", "local:"))

    @property
    def is_fixed(self) -> bool:
        """Whether every source would have the same output."""
        return not self.names

    def filled(self, found: Found, number: int) -> str:
        """Return the output of one source."""
        whole = source_path(found.url)
        folder, _, name = whole.rpartition("/")
        values = {
            "name": name,
            "stem": _without_ending(name),
            "path": _without_ending((whole if found.path is None else found.path).strip("/")),
            "parent": folder.rpartition("/")[2],
            "index": f"{number:06}",
            **dict(found.names),
        }

        output, done = "", 0
        for match in _FIELD.finditer(self.text):
            if match[1] not in values:
                raise UnrepresentableError(f"{{{match[1]}}} is known of STAC items only", url=found.url, field="output")
            output += self.text[done : match.start()]
            done = match.end()
            safe = _escaped(_safe(values[match[1]], match[1], found.url), output)
            if _AUTHORITY.search(output) and not _HOST.fullmatch(safe):
                message = f"{{{match[1]}}} is {safe!r}, which is no name of a host or bucket"
                raise UnrepresentableError(message, url=found.url, field="output")
            output += safe.replace("%", "%25") if self._decodes else safe
        output += self.text[done:]
        where = parse(output)
        if (where.scheme, where.is_chained, is_absolute(output)) != self._leads:
            raise UnrepresentableError(f"{output} would lead out of {self.text}", url=found.url, field="output")
        return output


def source_path(url: str) -> str:
    """Return the path of a source: the key in a bucket, the decoded path of an HTTP URL; no slash at its end."""
    kind = scheme(url)
    if kind in HTTP:
        return unquote(urlsplit(url).path).rstrip("/")
    if "://" not in url:
        return url.rstrip("/")
    path = url.partition("://")[2].rstrip("/")
    return path if kind == "file" else path.partition("/")[2]


def _without_ending(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return f"{folder}{slash}{stem}"


def _safe(value: str, name: str, url: str) -> str:
    """Return a value that stays where the template puts it: no empty name, `..`, backslash or control character."""
    parts = value.split("/")
    slashed = len(parts) > 1 and name != "path"
    if slashed or "\\" in value or _UNSAFE.search(value) or any(part in {"", ".", ".."} for part in parts):
        raise UnrepresentableError(f"{{{name}}} is {value!r}, which is no name for an output", url=url, field="output")
    return value


def _escaped(value: str, before: str) -> str:
    """Return a value in which nothing names a home, a scheme or a chain, whatever stands before it.

    `~` and `:` are percent-encoded where they could, and a percent sign where it would look like that.
    """
    value = _ESCAPED.sub("%25", value)
    if "/" not in before:
        value = value.replace(":", "%3A")
    if not before or before.endswith((":", "//")):
        value = re.sub("^~", "%7E", value)
    return _COLONS.sub("%3A", value)


type OptionsOf = Callable[[str], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Selection:
    """What the user asks for."""

    sources: Sequence[str]
    lists: Sequence[str] = ()
    stac: Sequence[str] = ()
    assets: Sequence[str] = ()
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    since: str | None = None
    shard: tuple[int, int] | None = None
    """Which part of how many, from 1: the sources whose URL's hash falls into it."""

    __repr__ = record_repr

    def __post_init__(self) -> None:
        """Refuse what no source could fulfil."""
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise MalformedError(f"{self.shard[0]}/{self.shard[1]}; the first of four is 1/4", field="--shard")
        _ = self.earliest

    @cached_property
    def earliest(self) -> str | None:
        """The time of `since` as RFC 3339 text, which times of modification are compared with."""
        return None if self.since is None else moment(self.since)

    @property
    def is_plain(self) -> bool:
        """Whether all sources are named one by one."""
        return not (self.lists or self.stac) and all(
            kind_of(source, many=True) is Kind.SOURCE for source in self.sources
        )

    def found(self, options: OptionsOf, allow: Sequence[str] = ()) -> Iterator[Found]:
        """Yield every source once, as it is found; `allow` are URLs that documents from afar may name too."""
        seen: set[int] = set()
        chosen = [re.compile(glob_translate(pattern)) for pattern in self.include]
        left_out = [re.compile(glob_translate(pattern)) for pattern in self.exclude]
        for found in self._all(options, allow):
            key = found.url.encode("utf-8", "surrogateescape")
            if self.shard is not None and xxh3_64_intdigest(key) % self.shard[1] != self.shard[0] - 1:
                continue
            if self.earliest is not None and found.modified is not None and not is_since(found.modified, self.earliest):
                continue
            if (chosen and not _fits(found, chosen)) or _fits(found, left_out):
                continue
            # sixteen bytes for each source tell whether it was seen; the URLs themselves would take hundreds
            digest = xxh3_128_intdigest(key)
            if digest not in seen:
                seen.add(digest)
                yield found

    def _all(self, options: OptionsOf, allow: Sequence[str]) -> Iterator[Found]:
        finder = _Finder(self, options, allow)
        for source in self.sources:
            yield from finder.one(source)
        for name in self.lists:
            yield from finder.of_list(name)
        for url in self.stac:
            is_table = source_path(url).lower().endswith(_TABLES)
            yield from finder.of_stac(url, Kind.TABLE if is_table else Kind.STAC)


MOST_LISTS = 64
"""Lists that lists from afar may name."""


@dataclass(frozen=True)
class _Finder:
    """Finds what names stand for."""

    selection: Selection
    options: OptionsOf
    allow: Sequence[str]
    lists: set[str] = field(default_factory=set)
    """Those that were read."""

    def of_list(self, name: str, by: str = "") -> Iterator[Found]:
        """Yield what the lines of a list stand for, once; one from afar names only what is afar."""
        if name in self.lists:
            return
        self.lists.add(name)
        if by and len(self.lists) > MOST_LISTS:
            raise UnsupportedError(f"more than {MOST_LISTS} lists in lists", url=name)
        for source in lines(name, self.options(name), guard_of(name, by, self.allow)):
            if name == STDIN or local_path(name) is not None:
                yield from self.one(source)
            elif kind_of(source, many=True) is Kind.SOURCE:
                yield Found(source, **named_by(name))
            else:
                list_mark = "@" if source.startswith("@") else ""
                url = check_named(name, source.removeprefix("@"), self.allow)
                for found in self.one(f"{list_mark}{url}", name):
                    yield found if found.named_by else found._replace(**named_by(name))

    def one(self, source: str, by: str = "") -> Iterator[Found]:
        """Yield what one source stands for; `by` is the list from afar that names it."""
        kind = kind_of(source, many=True)
        if kind is Kind.LIST:
            yield from self.of_list(source.removeprefix("@"), by)
        elif kind is Kind.PATTERN:
            found = listing.listed(listing.within(source), self.options(source))
            first = next(found, None)
            if first is None:  # more likely a mistake than meant
                raise JnrrdzError("nothing is found by this pattern", url=source)
            yield from chain([first], found)
        elif kind is Kind.FOLDER:
            endings = tuple(ending for fmt in FORMATS if not fmt.is_directory for ending in fmt.endings)
            for below in listing.listed(listing.within(source), self.options(source)):
                if self.selection.include or below.url.lower().endswith(endings):
                    yield below
        elif kind is Kind.SOURCE:
            yield Found(source)
        else:
            yield from self.of_stac(source, kind, by)

    def of_stac(self, url: str, kind: Kind, by: str = "") -> Iterator[Found]:
        """Yield the sources that a STAC document, or a table of items, names."""
        assets = Assets(self.selection.assets)
        if kind is Kind.TABLE:
            yield from found_in_rows(url, assets, self.options(url), guard_of(url, by, self.allow))
        else:
            yield from Reader(assets, self.options(url), self.allow).found(url, by)


def _fits(found: Found, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern fits the name of a source, or the path below its prefix."""
    path = source_path(found.url) if found.path is None else found.path
    name = path.rpartition("/")[2]
    return any(pattern.match(name) or pattern.match(path) for pattern in patterns)
