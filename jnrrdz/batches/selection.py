"""Which sources a batch has: what was named, found one after another, each once.

May touch everything that finds sources.  A source may be a file, a pattern, a prefix, a list (`-`, `@file`), a
STAC document or a stac-geoparquet table.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from fsspec.utils import glob_translate
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from jnrrdz.batches import listing, lists
from jnrrdz.batches.item import Found
from jnrrdz.batches.stac import Assets, Reader
from jnrrdz.batches.template import source_path
from jnrrdz.batches.times import is_since, moment
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.sources.url import local_path, origin

type OptionsOf = Callable[[str], Mapping[str, Any] | None]

_TIFF = (".tif", ".tiff", ".gtiff", ".btf", ".tf8", ".svs", ".ndpi", ".scn", ".lsm")
_JPEG2000 = (".jp2", ".jpx", ".jpf", ".j2k", ".j2c", ".jpc", ".jph", ".jhc")
ENDINGS = (*_TIFF, *_JPEG2000, ".ntf", ".nitf", ".nsf", ".jnrrd")
"""Names that are taken from a prefix where nothing is said of names."""

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
        for found in lists.lines(name, options(name)):
            yield from self._one(found.url, options)

    def _one(self, source: str, options: OptionsOf) -> Iterator[Found]:
        """Yield what one source stands for."""
        if source == lists.STDIN or source.startswith("@"):
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
        yield from found if self.include else (one for one in found if one.url.lower().endswith(ENDINGS))

    def _of_stac(self, url: str, options: OptionsOf) -> Iterator[Found]:
        assets = Assets(self.assets)
        if source_path(url).lower().endswith(_TABLES):
            from jnrrdz.batches.geoparquet import found_in_rows  # noqa: PLC0415  pyarrow's reader takes a while to load

            yield from found_in_rows(url, assets, options(url))
        else:
            yield from Reader(assets, options(url)).found(url)


def _is_plain(source: str) -> bool:
    stands_for_more = source == lists.STDIN or source.startswith("@") or is_pattern(source) or _is_prefix(source)
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
    if source.rstrip("/").lower().endswith(".n5"):
        return False
    path = local_path(source)
    return source.endswith("/") if path is None else Path(path).is_dir()


def _fits(found: Found, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern fits the name of a source, or the path below its prefix."""
    path = source_path(found.url) if found.path is None else found.path
    name = path.rpartition("/")[2]
    return any(pattern.match(name) or pattern.match(path) for pattern in patterns)
