"""What a writer of a manifest needs of references: their URLs as the manifest spells them, one span for each chunk.

URLs are written without credentials, and relative to the directory that holds the manifest where asked for, be that a
JSON file or a Parquet directory.  A relative URL is no URI: nothing in it is percent-encoded.

Spans are the rows of `ChunkRefs` as dense columns, a value for each chunk of the grid, with the chunks that need
several ranges; references of other readers know no more than one span.
"""

import os
import posixpath
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnrepresentableError
from jnrrdz.records import record
from jnrrdz.redact import EVERYTHING, bare, dropped_names, is_share_link
from jnrrdz.sources.url import file_url, has_drive

_LOCAL = ("file", "local")

MISSING = -1
"""The source of a chunk that has no span: it is absent, or inline."""

WHOLE_TILES = "--precinct-windows never (precinct_windows='never') refers to whole tiles of JPEG 2000"


_UNSAID = re.compile(r"[\x00-\x1f\x7f]|\{\{")
"""What no plain path in a manifest may hold: control characters, and what opens a template of kerchunk's."""


def placed(root: VirtualGroup, target: str | None, keep_query: Collection[str] = ()) -> VirtualGroup:
    """Return the same tree with its sources' URLs as a manifest has them: relative to `target`, absolute without."""
    shared, urls = _shared(root, keep_query)
    if target is not None:
        return relocate(shared, target)
    odd = {url for url in urls if has_drive(url) or (_UNSAID.search(url) and url.startswith("/"))}
    if not odd:
        return shared
    return moved(shared, {url: file_url(url) if url in odd else url for url in urls})


def relocate(root: VirtualGroup, target: str) -> VirtualGroup:
    """Return the same tree with the URL of every source relative to the directory that holds `target`."""
    return moved(root, {url: relative(url, target) for url in named_urls(root)})


def moved(root: VirtualGroup, urls: dict[str, str]) -> VirtualGroup:
    """Return the same tree with other URLs, those of the sources and of trees; `urls` has one for each."""
    sources = tuple(replace(record, url=urls[record.url]) for record in root.sources)
    return replace(root.with_refs(lambda refs: refs.moved(urls)), sources=sources)


def shareable(root: VirtualGroup, keep_query: Collection[str] = ()) -> VirtualGroup:
    """Return the same tree without what its sources' URLs may hold of secrets: a manifest is read by others, and later.

    What a URL keeps is said in `jnrrdz.redact`; `keep_query` names further members of queries, and is recorded.
    """
    return _shared(root, keep_query)[0]


def _shared(root: VirtualGroup, keep_query: Collection[str]) -> tuple[VirtualGroup, Collection[str]]:
    """Return the tree of `shareable`, and the URLs that it names."""
    recorded = root.origin.get("keep_query")
    keep = {*keep_query, *(recorded if isinstance(recorded, list) else ())}
    urls = {url: bare(url, keep) for url in named_urls(root)}
    _refuse_shares(urls, keep)
    _refuse_merged(urls)
    lost = sorted((url, kept) for url, kept in urls.items() if kept != url)
    if lost:
        _tell_lost(lost, keep)
    if keep and any(bare(kept) != kept for kept in urls.values()):
        root = replace(root, origin={**root.origin, "keep_query": sorted(keep)})
    return (moved(root, urls) if lost else root), urls.values()


def _refuse_shares(urls: Iterable[str], keep: Collection[str]) -> None:
    share = None if EVERYTHING in keep else next(filter(is_share_link, urls), None)
    if share is not None:
        raise UnrepresentableError(
            "a share link: its path is the permission to read, which a manifest would hand on; "
            "--keep-query '*' (keep_query=('*',)) writes it as it is",
            url=share,
        )


def _refuse_merged(urls: Mapping[str, str]) -> None:
    """Refuse sources that only differ in what is left out: one would be read in place of the other."""
    if len(set(urls.values())) < len(urls):
        first: dict[str, str] = {}
        url = next(url for url, kept in urls.items() if first.setdefault(kept, url) != url)
        raise UnrepresentableError(
            f"only its query tells it from another source, and no manifest records that unasked; {_remedy([url], ())}",
            url=url,
        )


def _tell_lost(lost: Sequence[tuple[str, str]], keep: Collection[str]) -> None:
    others = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    warnings.warn(
        f"the URL of {lost[0][1]}{others} held what may be credentials, which no manifest records: whoever reads it "
        f"needs their own; if the server names files by its query, {_remedy([url for url, _ in lost], keep)}",
        stacklevel=4,
    )


def _remedy(urls: Sequence[str], keep: Collection[str]) -> str:
    names = dict.fromkeys(name for url in urls[:_LOOKED_AT] for name in dropped_names(url, keep))
    shown = f" (there are {', '.join(list(names)[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})" if names else ""
    return f"--keep-query NAME (keep_query=('NAME',)) keeps a member{shown}"


_LOOKED_AT = 16
_SHOWN = 4


def named_urls(root: VirtualGroup) -> set[str]:
    """Return the URLs of all sources that references or records name."""
    return {*root.referenced_urls, *(record.url for record in root.sources)}


def relative(url: str, target: str) -> str:
    """Return `url` as seen from the directory that holds `target`; a tree keeps the slash at its end."""
    if url.endswith("/"):
        return f"{relative(url.rstrip('/'), target)}/"
    if is_local(url) and is_local(target):
        try:
            path = Path(os.path.relpath(absolute_path(url), Path(absolute_path(target)).parent)).as_posix()
        except ValueError as error:
            raise UnrepresentableError(f"is on another drive than {target}; write absolute URLs", url=url) from error
        if _UNSAID.search(path):
            message = "a control character or {{ in the name, which a relative path cannot spell; write absolute URLs"
            raise UnrepresentableError(message, url=url)
        return f"./{path}" if ":" in path.partition("/")[0] else path  # what else looks like a scheme
    here, there = urlsplit(url), urlsplit(target)
    path = url.partition("://")[2].removeprefix(here.netloc)
    same = bool(here.netloc) and (here.scheme, here.netloc) == (there.scheme, there.netloc)
    # a key with empty or dotted parts is another one once it is normalised, and `::` chains file systems
    if not same or "::" in url or posixpath.normpath(path) != path:
        raise UnrepresentableError(f"no relative path leads here from {target}; write absolute URLs", url=url)
    return posixpath.relpath(path, posixpath.dirname(there.path) or "/")


def absolute_path(url: str) -> str:
    """Return the absolute path of a local source, as fsspec understands it."""
    for protocol in _LOCAL:
        url = url.removeprefix(f"{protocol}://")
    return os.path.abspath(url)  # noqa: PTH100 - Path.absolute keeps `..`, and resolve follows links


def is_local(url: str) -> bool:
    """Return whether a URL names a local file."""
    protocol, separator, _ = url.partition("::" if "::" in url.partition("://")[0] else "://")
    return not separator or protocol in _LOCAL


@record(eq=False)
class Spans:
    """From the first to the last byte of every chunk, in C order of the grid."""

    source: NDArray[np.int32]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    scattered: NDArray[np.int64]
    """The chunks whose bytes are not all of their span, or not in its order."""

    version: NDArray[np.int64] | None = None
    """What tells the state of each chunk that is a whole object; None where that is known of none."""

    def slice(self, first: int, stop: int) -> "Spans":
        """Return the spans of the chunks from `first` to before `stop`, numbered from 0."""
        if first == 0 and stop == len(self.source):
            return self
        low, high = np.searchsorted(self.scattered, (first, stop))
        part = np.s_[first:stop]
        version = None if self.version is None else self.version[part]
        return Spans(self.source[part], self.start[part], self.length[part], self.scattered[low:high] - first, version)


def spans(refs: ChunkRefs, path: str, *, single_range: bool, before: int = 0) -> Spans:
    """Return the span of every chunk of the array at `path`, none scattered if `single_range` hides that.

    Errors number the chunks from what is `before` them.
    """
    if refs.is_plain:
        found = Spans(refs.source, refs.offset, refs.length, np.empty(0, np.int64), refs.version)
    else:
        found = _gathered(refs, path, single_range=single_range, before=before)
    _refuse_empty(found, refs, path, before)
    return found


def refuse_whole(refs: ChunkRefs, found: Spans, path: str, form: str, before: int = 0) -> None:
    """Refuse whole files for a form of manifest in which a reference needs its length."""
    whole = np.flatnonzero((found.length == WHOLE) & (found.source != MISSING))
    if len(whole):
        raise UnrepresentableError(
            f"a block that nobody could list, and {form} needs its length; write JSON or Parquet, "
            "or index the container where it can be listed",
            url=refs.sources[found.source[whole[0]]],
            field=f"{path}, chunk {before + whole[0]}",
        )


def _gathered(refs: ChunkRefs, path: str, *, single_range: bool, before: int) -> Spans:
    filled = np.flatnonzero(refs.counts)
    first = refs.indptr[filled]
    source = _spread(refs, filled, refs.source[first], MISSING)
    _refuse_mixed(refs, source, path, before)
    start = np.minimum.reduceat(refs.offset, first) if len(first) else first
    stop = np.maximum.reduceat(refs.offset + refs.length, first) if len(first) else first
    if single_range:
        _refuse_overlapping(refs, source, path, before)
        scattered = np.empty(0, np.int64)
    else:  # some range does not begin where the one before it ends
        chunk = refs.owner
        apart = refs.offset[1:] != refs.offset[:-1] + refs.length[:-1]
        is_scattered = np.zeros(refs.chunks, bool)
        is_scattered[chunk[1:][apart & (chunk[1:] == chunk[:-1])]] = True
        scattered = np.flatnonzero(is_scattered)
    version = None if refs.version is None else _spread(refs, filled, refs.version[first], 0)
    return Spans(source, _spread(refs, filled, start, 0), _spread(refs, filled, stop - start, 0), scattered, version)


def _spread(refs: ChunkRefs, filled: NDArray[np.int64], values: NDArray[Any], absent: int) -> NDArray[Any]:
    column = np.full(refs.chunks, absent, values.dtype)
    column[filled] = values
    return column


def remedy(refs: ChunkRefs) -> str:
    """Return what helps where a form of manifest has one range for each chunk."""
    if len(_overlapping(refs)):
        return f"{WHOLE_TILES}, or write JSON or Parquet"
    return "--single-range (single_range=True) refers to all bytes between them, or write JSON or Parquet"


def _overlapping(refs: ChunkRefs) -> NDArray[np.int64]:
    """Return the chunks that refer to some byte twice: their order means something, their span does not."""
    chunk = refs.owner
    order = np.lexsort((refs.offset, chunk))
    chunk, start, stop = chunk[order], refs.offset[order], (refs.offset + refs.length)[order]
    return np.unique(chunk[1:][(start[1:] < stop[:-1]) & (chunk[1:] == chunk[:-1])])


def _refuse_overlapping(refs: ChunkRefs, source: NDArray[np.int32], path: str, before: int) -> None:
    found = _overlapping(refs)
    if len(found):
        raise UnrepresentableError(
            "a chunk of several ranges that overlap, which no single range stands for (--single-range); "
            f"{WHOLE_TILES}, or leave --single-range out and write JSON or Parquet",
            url=refs.sources[source[found[0]]],
            field=f"{path}, chunk {before + found[0]}",
        )


def _refuse_mixed(refs: ChunkRefs, source: NDArray[np.int32], path: str, before: int) -> None:
    chunk = refs.owner
    strange = np.flatnonzero(refs.source != source[chunk])
    if len(strange):
        where = int(chunk[strange[0]])
        raise UnrepresentableError(
            "the ranges of one chunk lie in several sources, which no manifest can say",
            url=refs.sources[refs.source[strange[0]]],
            field=f"{path}, chunk {before + where}",
        )


def _refuse_empty(found: Spans, refs: ChunkRefs, path: str, before: int) -> None:
    """Refuse a chunk of no bytes: no codec reads it, and readers take it for a whole file or for absent."""
    if found.length.all():
        return
    empty = np.flatnonzero((found.length == 0) & (found.source != MISSING))
    if len(empty):
        chunk = int(empty[0])
        raise UnrepresentableError(
            "a chunk of no bytes; leave it out if it is absent",
            url=refs.sources[found.source[chunk]],
            offset=int(found.start[chunk]),
            field=f"{path}, chunk {before + chunk}",
        )
