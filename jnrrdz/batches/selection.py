"""What you name, resolved to sources and manifests: the one place that every command asks.

`kind_of` says what a name stands for: a list, a pattern, a folder, a STAC document, a manifest or a source.
`resolve` gives all that the names of a command stand for.  `Selection` finds the sources of a batch one after another,
each once, by more than their names.

What lies below a prefix is found page by page, with size, ETag and time of modification.  A directory that is one
thing (an N5 container, a Parquet manifest, an Icechunk repository) is found as a whole, and what is in it is not; a
Zarr store whose name does not say so is passed over.  A product of satellites is found as a whole, too, unless a
pattern asks for files in it.  On this machine its content tells, elsewhere its name.  Nothing
of a page stays once it is passed on, so that a listing of a million objects costs no more memory than one page; S3's
LIST takes a prefix and, where only one level is asked for, a delimiter.
"""

import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from jnrrdz.batches.item import Found, exists, is_since, moment, source_path
from jnrrdz.batches.names import MOST_NAMES, MOST_RESOLVED, NameCount
from jnrrdz.batches.stac import LARGEST, LINES, Assets, Reader, found_in_lines, found_in_rows, named_by
from jnrrdz.core.zarr_json import ZARR_JSON
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.n5.attributes import ATTRIBUTES
from jnrrdz.formats.scanning import document_among, local_document
from jnrrdz.lazy import library
from jnrrdz.manifests.documents import METADATA
from jnrrdz.manifests.forms import ENDINGS
from jnrrdz.manifests.manifest import REPOSITORY, is_reference_manifest, is_repository, manifest_form
from jnrrdz.manifests.trust import check_named
from jnrrdz.redact import record_repr
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls
from jnrrdz.sources.fsspec import read_document
from jnrrdz.sources.guard import AddressGuard, guard_of
from jnrrdz.sources.listing import RemoteFolder, local_entries, pages, state_of
from jnrrdz.sources.local import validators_of
from jnrrdz.sources.url import join_folder, local_path, origin

if TYPE_CHECKING:
    import fsspec
else:
    # a local file needs none of it, see `sources.filesystems`
    fsspec = library("fsspec")

type Options = Mapping[str, Any] | None

MAGIC = re.compile(r"[*?\[]")

CONTAINERS = tuple(ending for fmt in FORMATS if fmt.is_directory for ending in fmt.endings)
WHOLE = (*CONTAINERS, *(ending for ending in ENDINGS if ending != ".json"))
"""Endings of directories that are one thing."""
_ZARR_FILES = (ZARR_JSON, ".zgroup", ".zarray")


def is_product_name(name: str) -> bool:
    """Whether the name of a directory shows that it holds a product."""
    return any(fmt.folder is not None and fmt.is_folder(name) for fmt in FORMATS)


def is_container(path: str) -> bool:
    """Whether a local directory is a container of a format (N5, or Zarr by its name)."""
    return path.rstrip("/").lower().endswith(CONTAINERS) or os.path.isfile(f"{path}/{ATTRIBUTES}")  # noqa: PTH113


def is_product(path: str) -> bool:
    """Whether a local directory holds a product."""
    return local_document(path) is not None


def is_whole(path: str) -> bool:
    """Whether a local directory is one thing: a container or a manifest."""
    return is_container(path) or is_repository(path) or is_parquet(path)


def is_parquet(path: str) -> bool:
    """Whether a local directory is a Parquet manifest; a Zarr store may have a file of that name too."""
    return os.path.isfile(f"{path}/{METADATA}") and not is_zarr(path)  # noqa: PTH113


def is_zarr(path: str) -> bool:
    """Whether a local directory is a Zarr group or array."""
    return any(os.path.isfile(f"{path}/{name}") for name in _ZARR_FILES)  # noqa: PTH113


class Within(NamedTuple):
    """What to list: everything below a folder whose path relative to it fits."""

    folder: str
    """A URL or path without a slash at its end."""
    start: str = ""
    """How every path below it starts."""
    pattern: re.Pattern[str] | None = None
    deep: bool = True
    """Whether to go down into folders."""
    in_products: bool = False
    """Whether to list the files of products, too."""

    def takes(self, path: str) -> bool:
        """Whether a path relative to the folder is asked for."""
        return path.startswith(self.start) and (self.pattern is None or self.pattern.match(path) is not None)

    def opens(self, path: str) -> bool:
        """Whether the files of a product are listed: a pattern that does not match it may match them."""
        return self.in_products or (self.pattern is not None and not self.takes(path))


def within(text: str) -> Within:
    """Return what a pattern (`s3://bucket/a/**/*.tif`) or a prefix asks for."""
    if urls.origin(text) is not None:
        raise UnsupportedError(
            "HTTP has no listing; name the files themselves, or in a list (--from-file), or list the store behind it",
            url=text,
        )
    magic = MAGIC.search(text)
    if magic is None:
        return Within(text.rstrip("/") or "/")
    folder = text[: magic.start()].rpartition("/")[0]
    scheme = text.partition("://")[0] if "://" in text else None
    if scheme is not None and len(folder) <= len(scheme) + 2:
        raise UnsupportedError("a pattern in the bucket's name; name the bucket", url=text)
    rest = text[len(folder) :].lstrip("/") if folder or text.startswith("/") else text
    start = rest[: (MAGIC.search(rest) or magic).start()]
    root = folder or ("/" if text.startswith("/") else ".")
    return Within(root, start, re.compile(fsspec.utils.glob_translate(rest)), deep="/" in rest or "**" in rest)


def listed(wanted: Within, storage_options: Options = None, names: NameCount | None = None) -> Iterator[Found]:
    """Yield the files asked for, in the order of their names within each folder.

    `names` counts all that are looked at.
    """
    counted = NameCount() if names is None else names
    path = urls.local_path(wanted.folder)
    if path is not None:
        yield from _local(wanted, path, counted)
        return
    with faults.translate_errors(wanted.folder, "opening"):
        fs, root = filesystems.opened(wanted.folder, storage_options)
    folder = RemoteFolder(fs, root, wanted.folder)
    descends = partial(_may_hold, wanted)
    for page in pages(folder, start=wanted.start, is_deep=wanted.deep, descends=descends):
        counted.add(wanted.folder, len(page))
        yield from _files(wanted, page)


def _files(wanted: Within, entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Found]:
    """Yield the files that are asked for with what a file system's entries say of them."""
    last = ""
    for path, entry in entries:
        whole = _whole_part(path, is_folder=entry["type"] == "directory")
        if whole is not None:
            if whole != last and wanted.takes(whole):
                yield Found(_below(wanted.folder, whole), path=whole)
            last = whole
            if not (wanted.opens(whole) and is_product_name(whole.rpartition("/")[2])):
                continue
        if entry["type"] != "file" or not path or path.endswith("/") or not wanted.takes(path):
            continue
        url, state = _below(wanted.folder, path), state_of(entry)
        if state is None:
            yield Found(url, path=path)
        else:
            yield Found(url, state.size, state.etag, state.modified, path)


def _whole_part(path: str, *, is_folder: bool) -> str | None:
    """Return the path of the outermost directory on the way that is one thing by its name."""
    return _outermost_whole(path.rstrip("/") if is_folder else path.rpartition("/")[0])


@lru_cache(maxsize=1024)
def _outermost_whole(folder: str) -> str | None:
    """Return the outermost part of a path that is one thing; thousands of files have the same folder."""
    parts = folder.split("/")
    for number, part in enumerate(parts, 1):
        if part.lower().endswith(WHOLE) or is_product_name(part):
            return "/".join(parts[:number])
    return None


type _Entry = tuple[str, bool, bool]
"""The name of an entry of a local folder, whether it is a folder, whether it is a file."""


def _local(wanted: Within, root: str, names: NameCount) -> Iterator[Found]:
    """Yield the files below a directory; links to directories are not followed."""
    if not os.path.isdir(root):  # noqa: PTH112  the path is literal
        raise JnrrdzError("no such directory", url=wanted.folder)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        place = os.path.join(root, folder)  # noqa: PTH118  the same
        entries = local_entries(place, f"{wanted.folder}/{folder}")
        kinds = sorted((entry.name, entry.is_dir(follow_symlinks=False), entry.is_file()) for entry in entries)
        names.add(wanted.folder, len(kinds))
        if folder and document_among(name for name, _, is_file in kinds if is_file) is not None:
            product = folder.rstrip("/")
            if wanted.takes(product):
                yield Found(_below(wanted.folder, product), path=product)
            if not wanted.opens(product):
                continue
        folders: list[str] = []
        yield from _entries(wanted, root, folder, kinds, folders)
        waiting += reversed(folders)


def _entries(wanted: Within, root: str, folder: str, entries: Iterable[_Entry], folders: list[str]) -> Iterator[Found]:
    """Yield what a folder holds itself; `folders` gets those that are to be listed."""
    for name, is_folder, is_file in entries:
        path = folder + name
        place = os.path.join(root, path)  # noqa: PTH118  the path is literal
        if is_folder and is_whole(place):
            if wanted.takes(path):
                yield Found(_below(wanted.folder, path), path=path)
        elif is_folder and _may_hold(wanted, f"{path}/") and not is_zarr(place):
            folders.append(f"{path}/")
        elif is_folder and wanted.takes(path) and is_product(place):
            yield Found(_below(wanted.folder, path), path=path)
        if is_folder or not is_file or not wanted.takes(path):
            continue
        try:
            stat = os.stat(place)  # noqa: PTH116  the same
        except FileNotFoundError:  # gone since it was listed
            continue
        yield Found(_below(wanted.folder, path), stat.st_size, None, validators_of(stat).modified, path)


def _may_hold(wanted: Within, folder: str) -> bool:
    """Whether what is asked for may lie in a folder: the start of all paths leads through it."""
    return wanted.deep and (folder.startswith(wanted.start) or wanted.start.startswith(folder) or not wanted.start)


def _below(folder: str, path: str) -> str:
    return path if folder == "." else f"{folder.rstrip('/')}/{path}"


_STAC = (".json", ".geojson", *LINES)
_TABLES = (".parquet", ".geoparquet", ".parq")


class NameKind(StrEnum):
    """What a name stands for."""

    LIST = "list"
    """`-` or `@FILE`: a source on each line."""
    PATTERN = "pattern"
    FOLDER = "folder"
    """A prefix, or a local directory, that is no container and no manifest."""
    STAC = "STAC document"
    TABLE = "stac-geoparquet table"
    MANIFEST = "manifest"
    SOURCE = "source"


class Wanted(StrEnum):
    """What a command takes of a folder; what you name by itself, or by a pattern, is taken as it is."""

    IMAGES = "images"
    MANIFESTS = "manifests"
    MANIFESTS_FIRST = "manifests, or images where there are none"
    BOTH = "images and manifests"


class Held(StrEnum):
    """What a file or directory in a folder is by its name, and on this machine by its content."""

    IMAGE = "image"
    DATASET = "dataset"
    """A directory of N5 that may be a container, or a part of one."""
    MANIFEST = "manifest"
    ATTRIBUTES = "attributes"
    """Elsewhere, what makes a folder a data set of N5."""
    OTHER = "other"


_TAKEN = {
    Wanted.IMAGES: {Held.IMAGE},
    Wanted.MANIFESTS: {Held.MANIFEST},
    Wanted.MANIFESTS_FIRST: {Held.MANIFEST},
    Wanted.BOTH: {Held.IMAGE, Held.MANIFEST},
}


def _held(found: Found) -> Held:
    """Return what a file or a whole directory of a folder is."""
    name = found.url.lower()
    if name.endswith(tuple(ending for fmt in FORMATS for ending in fmt.endings)):
        return Held.IMAGE
    path = local_path(found.url)
    is_file, is_here = found.size is not None, path is not None
    if not is_file and (is_product_name(found.url.rpartition("/")[2]) or (path is not None and is_product(path))):
        return Held.IMAGE
    if is_file and name.endswith(f"/{ATTRIBUTES}"):
        return Held.OTHER if is_here else Held.ATTRIBUTES
    if is_file and (not name.endswith(".json") or name.endswith(f"/{ZARR_JSON}")):
        return Held.OTHER
    if is_reference_manifest(found.url) if is_here else name.endswith(tuple(ENDINGS)):
        return Held.MANIFEST
    return Held.OTHER if is_file else Held.DATASET


def kind_of(name: str, *, stac: bool = False) -> NameKind:
    """Return what a name stands for.

    What lies on this machine is told by its content, what lies elsewhere by its name alone.  With `stac` JSON that is
    no manifest is a STAC document, and a Parquet file a table of STAC items.
    """
    path = local_path(name)
    if name == STDIN or name.startswith("@"):
        return NameKind.LIST
    if MAGIC.search(name) is not None:
        # a local file that is really called so is that file; a `?` in an HTTP URL starts its query
        is_literal = Path(path).exists() if path is not None else origin(name) is not None and "*" not in name
        if not is_literal:
            return NameKind.PATTERN
    if path is not None and Path(path).is_dir():
        if is_container(path) or is_product(path) or (manifest_form(name) is None and is_zarr(path)):
            return NameKind.SOURCE
        return NameKind.FOLDER if manifest_form(name) is None else NameKind.MANIFEST
    return _kind_of_file(name, stac=stac and not (path is not None and is_reference_manifest(name)))


def _kind_of_file(name: str, *, stac: bool) -> NameKind:
    """Return what a local file, or anything elsewhere, stands for."""
    key = source_path(name).lower()
    if stac and key.endswith((*_STAC, *_TABLES)):
        return NameKind.STAC if key.endswith(_STAC) else NameKind.TABLE
    if manifest_form(name) is not None:
        return NameKind.MANIFEST
    # HTTP has no folders to list: what ends in a slash there is a container
    is_folder = local_path(name) is None and name.endswith("/") and origin(name) is None
    is_whole_name = key.endswith(CONTAINERS) or is_product_name(source_path(name).rpartition("/")[2])
    return NameKind.FOLDER if is_folder and not is_whole_name else NameKind.SOURCE


def resolve(names: Iterable[str], wanted: Wanted, options: "OptionsOf", *, may_be_empty: bool = False) -> list[Found]:
    """Return what the names of a command stand for, each once, in their order.

    `options` gives fsspec's options for a URL.  A list may be a local file or stdin.  Nothing at all is an error,
    unless it `may_be_empty`: what is not there now may be there later.
    """
    count = NameCount(MOST_RESOLVED)
    finder = _Finder(wanted, options, may_be_empty=may_be_empty, names=count)
    found = {each.url: each for name in names for each in finder.one(name)}
    if not found and not may_be_empty:
        raise JnrrdzError("names nothing", url=" ".join(names) or "the list")
    return list(found.values())


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


type OptionsOf = Callable[[str], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Selection:
    """What the user asks for."""

    sources: Sequence[str]
    """Paths, URLs, patterns and prefixes."""

    lists: Sequence[str] = ()
    """Files with a source on each line."""

    stac: Sequence[str] = ()
    """STAC documents, and tables of stac-geoparquet."""

    assets: Sequence[str] = ()
    """The keys or media types of assets to take; by default those of media types that jnrrdz reads."""

    include: Sequence[str] = ()
    """Patterns of names, or of paths below a prefix, to take."""

    exclude: Sequence[str] = ()
    """Patterns of names, or of paths below a prefix, to leave."""

    since: str | None = None
    """Take only what was modified since this time."""

    shard: tuple[int, int] | None = None
    """Which part of how many, from 1: the sources whose URL's hash falls into it."""

    max_names: int = MOST_NAMES
    """How many names of listings, lists and STAC documents are looked at before the batch is refused."""

    alternate: str | None = None
    """The name of the alternate location (`alternate`) that assets are read at, such as `s3` or `https`; by default,
    and where an asset has none of this name, its own."""

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
            kind_of(source, stac=True) is NameKind.SOURCE for source in self.sources
        )

    def found(
        self, options: OptionsOf, allow: Sequence[str] = (), passed_over: Counter[str] | None = None
    ) -> Iterator[Found]:
        """Yield every source once, as it is found; `allow` are URLs that documents from afar may name too.

        `passed_over` counts the files of folders whose names are not those of images, by their ending.
        """
        seen: set[int] = set()
        chosen = [re.compile(fsspec.utils.glob_translate(pattern)) for pattern in self.include]
        left_out = [re.compile(fsspec.utils.glob_translate(pattern)) for pattern in self.exclude]
        for found in self._all(options, allow, Counter() if passed_over is None else passed_over):
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

    def _all(self, options: OptionsOf, allow: Sequence[str], passed_over: Counter[str]) -> Iterator[Found]:
        finder = _Finder(
            Wanted.IMAGES,
            options,
            allow,
            Assets(self.assets, self.alternate),
            bool(self.include),
            passed_over=passed_over,
            names=NameCount(self.max_names, "narrow the pattern or the search, or raise --max-names"),
        )
        for source in self.sources:
            yield from finder.one(source)
        for name in self.lists:
            yield from finder.of_list(name)
        for url in self.stac:
            is_table = source_path(url).lower().endswith(_TABLES)
            yield from finder.of_stac(url, NameKind.TABLE if is_table else NameKind.STAC)


NO_ENDING, OTHER_ENDINGS = "no ending", "other endings"
MOST_ENDINGS = 100
"""Endings that are counted by themselves: names may end in anything."""

MOST_LISTS = 64
"""Lists that lists from afar may name."""


@dataclass(frozen=True)
class _Finder:
    """Finds what names stand for."""

    wanted: Wanted
    options: OptionsOf
    allow: Sequence[str] = ()
    assets: Assets | None = None
    """Of STAC items; None where no command but a batch follows STAC, nor lists from afar."""
    any_file: bool = False
    """Whether files of a folder are taken whatever their names end in, since patterns choose among them."""
    may_be_empty: bool = False
    """Whether a folder or pattern may hold nothing."""
    lists: set[str] = field(default_factory=set)
    """Those that were read."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """How many files of folders were not taken, by their ending."""
    names: NameCount = field(default_factory=NameCount)
    """How many names were looked at."""

    def of_list(self, name: str, by: str = "") -> Iterator[Found]:
        """Yield what the lines of a list stand for, once; one from afar names only what is afar."""
        if name in self.lists:
            return
        self.lists.add(name)
        is_here = name == STDIN or local_path(name) is not None
        if self.assets is None and not is_here:
            raise UnsupportedError("a list from elsewhere is for batch; fetch it, and name what it is here", url=name)
        if by and len(self.lists) > MOST_LISTS:
            raise UnsupportedError(f"more than {MOST_LISTS} lists in lists", url=name)
        for source in lines(name, self.options(name), guard_of(name, by, self.allow)):
            self.names.add(name)
            if is_here:
                yield from self.one(source)
            elif kind_of(source, stac=True) is NameKind.SOURCE:
                yield Found(source, **named_by(name))
            else:
                list_mark = "@" if source.startswith("@") else ""
                url = check_named(name, source.removeprefix("@"), self.allow)
                for found in self.one(f"{list_mark}{url}", name):
                    yield found if found.named_by else found._replace(**named_by(name))

    def one(self, source: str, by: str = "") -> Iterator[Found]:
        """Yield what one source stands for; `by` is the list from afar that names it."""
        kind = kind_of(source, stac=self.assets is not None)
        if kind is NameKind.LIST:
            yield from self.of_list(source.removeprefix("@"), by)
        elif kind is NameKind.PATTERN:
            found = listed(within(source), self.options(source), self.names)
            first = next(found, None)
            if first is not None:
                yield from chain([first], found)
            elif not self.may_be_empty:  # more likely a mistake than meant
                raise JnrrdzError("nothing is found by this pattern", url=source)
        elif kind is NameKind.FOLDER:
            yield from self.of_folder(source)
        elif kind in {NameKind.STAC, NameKind.TABLE}:
            yield from self.of_stac(source, kind, by)
        elif kind is NameKind.MANIFEST and self.wanted is Wanted.IMAGES:
            raise UnsupportedError(
                f"is a manifest already; jnrrdz convert {source} -o OUT writes it in another form", url=source
            )
        else:
            yield Found(source)

    def of_folder(self, source: str) -> Iterator[Found]:
        """Yield what a folder holds that is asked for; one that is a container or a manifest itself is that."""
        if local_path(source) is None and self._is_whole(source):
            yield Found(source)
            return
        takes = _TAKEN[self.wanted]
        counts: Counter[Held] = Counter()
        later: list[Found] = []
        wanted = within(source)._replace(in_products=self.any_file)
        for each in listed(wanted, self.options(source), self.names):
            held = Held.IMAGE if self.any_file else _held(each)
            counts[held] += 1
            if held in takes:
                yield each
            elif held in {Held.IMAGE, Held.DATASET}:
                later.append(each)
            else:
                self._pass_over(each)
        if counts.keys() & takes:
            yield from later if Held.IMAGE in takes else ()
        elif self.wanted is Wanted.MANIFESTS or not (later or counts[Held.ATTRIBUTES]):
            if not self.may_be_empty:
                raise self._nothing(source, counts)
        elif counts[Held.IMAGE]:
            yield from later
        else:  # nothing but data sets of N5, which are one container
            yield Found(source)

    def _pass_over(self, found: Found) -> None:
        """Count a file that is not taken; hidden ones are nobody's data."""
        name = found.url.rstrip("/").rpartition("/")[2].lower()
        if name.startswith(".") or found.size is None:
            return
        stem, dot, ending = name.rpartition(".")
        ending = f".{ending}" if stem and dot else NO_ENDING
        is_known = ending in self.passed_over or len(self.passed_over) < MOST_ENDINGS
        self.passed_over[ending if is_known else OTHER_ENDINGS] += 1

    def _is_whole(self, source: str) -> bool:
        """Whether a remote folder is a container or a manifest, by the file that makes it one."""
        marks = [] if self.wanted is Wanted.IMAGES else [METADATA, REPOSITORY]
        marks += [] if self.wanted is Wanted.MANIFESTS else [ATTRIBUTES]
        return any(exists(join_folder(source, mark), self.options(source)) for mark in marks)

    def _nothing(self, source: str, counts: Mapping["Held", int]) -> JnrrdzError:
        """Return the error for a folder that holds nothing of what is asked for."""
        wanted = "manifest" if self.wanted is Wanted.MANIFESTS else "image"
        if self.wanted is Wanted.MANIFESTS and (counts[Held.IMAGE] or counts[Held.DATASET]):
            told = f", only images; jnrrdz batch {source} -o 'OUT/{{path}}.json' makes a manifest of each"
        elif self.wanted is Wanted.IMAGES and counts[Held.MANIFEST]:
            told = ", only manifests; jnrrdz convert writes them in another form"
        else:
            told = f" by its name; a pattern such as '{source.rstrip('/')}/*' takes files of any name"
        return JnrrdzError(f"the folder holds no {wanted}{told}", url=source)

    def of_stac(self, url: str, kind: NameKind, by: str = "") -> Iterator[Found]:
        """Yield the sources that a STAC document, or a table of items, names."""
        assets = self.assets or Assets()
        if kind is NameKind.TABLE:
            sources = found_in_rows(url, assets, self.options(url), guard_of(url, by, self.allow))
        elif source_path(url).lower().endswith(LINES):
            sources = found_in_lines(url, assets, self.options(url), guard_of(url, by, self.allow))
        else:
            sources = Reader(assets, self.options(url), self.allow, names=self.names).found(url, by)
        for source in sources:
            self.names.add(url)
            yield source


def _fits(found: Found, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern fits the name of a source, or the path below its prefix."""
    path = source_path(found.url) if found.path is None else found.path
    name = path.rpartition("/")[2]
    return any(pattern.match(name) or pattern.match(path) for pattern in patterns)
