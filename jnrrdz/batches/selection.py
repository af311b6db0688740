"""A list of sources: one on each line of a file, or of what comes through a pipe.

May touch fsspec and stdin.  Empty lines and those that start with `#` are passed over.

An output's name for every source: `s3://out/{path}.json`.

May touch errors, URLs and the model's item.  What a placeholder is filled with may come from a listing or a STAC
item that someone else wrote: it is never a way out of the folder that the template names.

Which sources a batch has: what was named, found one after another, each once.

May touch everything that finds sources.  A source may be a file, a pattern, a prefix, a list (`-`, `@file`), a
STAC document or a stac-geoparquet table.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from jnrrdz.batches.stac import Assets, Reader
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.sources import faults
from jnrrdz.sources.url import HTTP, local_path, origin, scheme

STDIN = "-"
_LONGEST = 1 << 16
"""Bytes of a line: longer ones are no URL, but a file of another kind."""


def lines(name: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Found]:
    """Yield the sources that a list names, while it is still being written if need be."""
    if name == STDIN:
        yield from _found(sys.stdin.buffer, "stdin")
        return
    with faults.told(name, "reading the list"), fsspec.open(name, "rb", **(storage_options or {})) as stream:
        yield from _found(stream, name)


def _found(stream: Any, name: str) -> Iterator[Found]:
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
            yield Found(text)


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

    @property
    def is_fixed(self) -> bool:
        """Whether every source would have the same output."""
        return not self.names

    def filled(self, found: Found, number: int) -> str:
        """Return the output of one source."""
        values = _values(found, number)

        def value(match: re.Match[str]) -> str:
            if match[1] not in values:
                raise UnrepresentableError(f"{{{match[1]}}} is known of STAC items only", url=found.url, field="output")
            return _safe(values[match[1]], match[1], found.url)

        return _FIELD.sub(value, self.text)


def _values(found: Found, number: int) -> dict[str, str]:
    whole = source_path(found.url)
    folder, _, name = whole.rpartition("/")
    below = whole if found.path is None else found.path
    return {
        "name": name,
        "stem": _without_ending(name),
        "path": _without_ending(below.strip("/")),
        "parent": folder.rpartition("/")[2],
        "index": f"{number:06}",
        **dict(found.names),
    }


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


type OptionsOf = Callable[[str], Mapping[str, Any] | None]

_STAC = (".json", ".geojson")
_TABLES = (".parquet", ".geoparquet", ".parq")


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
        return not (self.lists or self.stac) and all(map(_is_plain, self.sources))

    def found(self, options: OptionsOf) -> Iterator[Found]:
        """Yield every source once, as it is found."""
        seen: set[int] = set()
        chosen = [re.compile(glob_translate(pattern)) for pattern in self.include]
        left_out = [re.compile(glob_translate(pattern)) for pattern in self.exclude]
        for found in self._all(options):
            if not self._mine(found) or (chosen and not _fits(found, chosen)) or _fits(found, left_out):
                continue
            # sixteen bytes for each source tell whether it was seen; the URLs themselves would take hundreds
            digest = xxh3_128_intdigest(found.url.encode("utf-8", "surrogateescape"))
            if digest not in seen:
                seen.add(digest)
                yield found

    def _mine(self, found: Found) -> bool:
        if self.earliest is not None and found.modified is not None and not is_since(found.modified, self.earliest):
            return False
        if self.shard is None:
            return True
        part, parts = self.shard
        return xxh3_64_intdigest(found.url.encode("utf-8", "surrogateescape")) % parts == part - 1

    def _all(self, options: OptionsOf) -> Iterator[Found]:
        for source in self.sources:
            yield from self._one(source, options)
        for name in self.lists:
            yield from self._of_list(name, options)
        for url in self.stac:
            yield from self._of_stac(url, options)

    def _of_list(self, name: str, options: OptionsOf) -> Iterator[Found]:
        for found in lines(name, options(name)):
            yield from self._one(found.url, options)

    def _one(self, source: str, options: OptionsOf) -> Iterator[Found]:
        """Yield what one source stands for."""
        if source == STDIN or source.startswith("@"):
            yield from self._of_list(source.removeprefix("@"), options)
        elif is_pattern(source):
            yield from _some(listing.listed(listing.within(source), options(source)), source)
        elif _is_prefix(source):
            yield from self._below(source, options)
        elif source_path(source).lower().endswith((*_STAC, *_TABLES)):
            yield from self._of_stac(source, options)
        else:
            yield Found(source)

    def _below(self, prefix: str, options: OptionsOf) -> Iterator[Found]:
        found = listing.listed(listing.within(prefix), options(prefix))
        endings = tuple(ending for fmt in FORMATS if not fmt.is_directory for ending in fmt.endings)
        yield from found if self.include else (one for one in found if one.url.lower().endswith(endings))

    def _of_stac(self, url: str, options: OptionsOf) -> Iterator[Found]:
        assets = Assets(self.assets)
        if source_path(url).lower().endswith(_TABLES):
            from jnrrdz.batches.stac import found_in_rows  # noqa: PLC0415  pyarrow's reader takes a while to load

            yield from found_in_rows(url, assets, options(url))
        else:
            yield from Reader(assets, options(url)).found(url)


def _is_plain(source: str) -> bool:
    stands_for_more = source == STDIN or source.startswith("@") or is_pattern(source) or _is_prefix(source)
    return not stands_for_more and not source_path(source).lower().endswith((*_STAC, *_TABLES))


def _some(found: Iterator[Found], pattern: str) -> Iterator[Found]:
    """Yield what was found; a pattern that finds nothing is more likely a mistake than meant."""
    first = next(found, None)
    if first is None:
        raise JnrrdzError("nothing is found by this pattern", url=pattern)
    yield from chain([first], found)


def is_pattern(source: str) -> bool:
    """Whether a source stands for what a listing finds; a file that is really called so is that file."""
    if listing.MAGIC.search(source) is None:
        return False
    path = local_path(source)
    if path is not None:
        return not Path(path).exists()
    return origin(source) is None or "*" in source  # a `?` in an HTTP URL starts its query


def _is_prefix(source: str) -> bool:
    containers = tuple(ending for fmt in FORMATS if fmt.is_directory for ending in fmt.endings)
    if source.rstrip("/").lower().endswith(containers):
        return False
    path = local_path(source)
    return source.endswith("/") if path is None else Path(path).is_dir()


def _fits(found: Found, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern fits the name of a source, or the path below its prefix."""
    path = source_path(found.url) if found.path is None else found.path
    name = path.rpartition("/")[2]
    return any(pattern.match(name) or pattern.match(path) for pattern in patterns)
