"""Trees of objects: listed with their sizes, and small ones read; the sizes of many files by listing their folders.

A container format (N5) is a directory; its blocks are known from listings, a thousand in a request, and never asked
for one by one.  HTTP has no listings: there are only objects that someone knows the name of, and a server that
answers anything but 404 to a name does not say that nothing is there.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched, takewhile
from typing import TYPE_CHECKING, Any, Protocol

from jnrrdz.core.state import Mark, Validators
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.lazy import library
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls
from jnrrdz.sources.faults import is_absent
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.listing import RemoteFolder, local_entries, mark_of, pages
from jnrrdz.sources.local import READING, read_at
from jnrrdz.sources.ranges import ByteSource

if TYPE_CHECKING:
    from fsspec import asyn
else:
    # a local file needs none of it, see `sources.filesystems`
    asyn = library("fsspec.asyn")

type Page = tuple[list[str], list[int], list[Mark]]
"""Keys relative to the tree, the size of each object, and what tells its state."""

_TOGETHER = 256


class Tree(Protocol):
    """Objects below a URL."""

    url: str
    """With a slash at its end."""

    latest: float
    """When the last object that was listed was modified, in seconds since 1970; 0 where that is not told."""

    requests: int
    bytes_read: int

    def pages(self) -> Iterator[Page]:
        """Yield all objects in the tree, in no particular order."""

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each object, all there are of shorter ones, together."""


def open_tree(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    guard: AddressGuard | None = None,
    allow: Sequence[str] = (),
) -> Tree:
    """Return the tree at a path or URL; options are fsspec's.

    `allow` covers where symbolic links may lead that leave a directory.
    """
    where = urls.parse(url)
    if where.path is not None:
        return LocalTree(where.path, allow)
    return FsspecTree(url, storage_options) if where.origin is None else UnlistedTree(url, storage_options, guard)


class LocalTree:
    """A directory."""

    def __init__(self, path: str, allow: Sequence[str] = ()) -> None:
        self._path = os.path.realpath(path)
        self._allow = tuple(allow)
        self.url = f"{self._path.rstrip('/')}/"
        self.latest = 0.0
        self.requests = 0
        self.bytes_read = 0

    def pages(self) -> Iterator[Page]:
        """Yield the files of each directory."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with faults.translate_errors(self.url + folder, "listing"):
                keys, sizes, marks, below = self._listed(folder)
            self.requests += 1
            waiting += below
            if keys:
                self.latest = max(self.latest, max(map(int, marks)) / 1e9)
                yield keys, sizes, marks

    def _listed(self, folder: str) -> tuple[list[str], list[int], list[Mark], list[str]]:
        keys: list[str] = []
        sizes: list[int] = []
        marks: list[Mark] = []
        below: list[str] = []
        for entry in local_entries(f"{self._path}/{folder}", self.url + folder):
            if entry.is_dir():
                if self._follows(entry, f"{self._path}/{folder}"):
                    below.append(f"{folder}{entry.name}/")
            elif entry.is_file() and self._follows(entry):
                state = entry.stat()
                keys.append(folder + entry.name)
                sizes.append(state.st_size)
                marks.append(state.st_mtime_ns)
        return keys, sizes, marks, below

    def _follows(self, entry: os.DirEntry[str], folder: str | None = None) -> bool:
        """Whether an entry is looked at: a link to a directory that it is in would be listed without end.

        A link out of the tree is refused: whoever gives a directory away can put one there.
        """
        if not entry.is_symlink():
            return True
        target = urls.place(entry.path)
        if folder is not None and urls.place(folder).within(target):
            return False
        urls.require_inside(target, urls.place(self._path), self._allow, name=entry.path)
        return True

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each file."""
        heads: list[bytes] = []
        for key in keys:
            with faults.translate_errors(self.url + key, "reading"):
                handle = os.open(f"{self._path}/{key}", READING)
                try:
                    heads.append(read_at(handle, stop, 0))
                finally:
                    os.close(handle)
            self.requests += 1
            self.bytes_read += len(heads[-1])
        return heads


class FsspecTree:
    """A prefix of an object store, or a directory of any file system that lists."""

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        self.url = f"{url.rstrip('/')}/"
        self.latest = 0.0
        self.requests = 0
        self.bytes_read = 0
        with faults.translate_errors(self.url, "opening"):
            self._fs, path = filesystems.opened(self.url, options)
        self._path = path.rstrip("/")

    def pages(self) -> Iterator[Page]:
        """Yield pages of one flat listing where the store has that, of each directory elsewhere."""
        for page in pages(RemoteFolder(self._fs, self._path, self.url)):
            self.requests += 1
            files = [(key, entry) for key, entry in page if entry["type"] == "file" and key[-1:] != "/"]
            if files:
                times = [entry["LastModified"].timestamp() for _, entry in files if "LastModified" in entry]
                self.latest = max([self.latest, *times])
                yield _page(files)

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each object, many at once."""
        found: list[bytes] = []
        for some in batched(keys, _TOGETHER):
            paths = [f"{self._path}/{key}" for key in some]
            with faults.translate_errors(self.url, "reading", self._fs):
                answers = self._fs.cat_ranges(paths, [0] * len(paths), [stop] * len(paths), on_error="return")
            for key, answer in zip(some, answers, strict=True):
                with faults.translate_errors(self.url + key, "reading", self._fs):
                    if isinstance(answer, Exception):
                        raise answer
                found.append(bytes(answer))
        self.requests += len(found)
        self.bytes_read += sum(map(len, found))
        return found


def _page(files: Sequence[tuple[str, Mapping[str, Any]]]) -> Page:
    """Return the entries of a listing as columns."""
    marks = [mark_of(entry) for _, entry in files]
    return [key for key, _ in files], [int(entry["size"]) for _, entry in files], marks


_UNLISTED_TOGETHER = 16


class UnlistedTree:
    """Objects below an HTTP URL."""

    def __init__(self, url: str, options: Mapping[str, Any] | None, guard: AddressGuard | None = None) -> None:
        if "?" in url or "#" in url:
            raise UnsupportedError("a URL with a query names one object, not those below it", url=url)
        self._options = options
        self._guard = guard
        self.url = f"{url.rstrip('/')}/"
        self.latest = 0.0
        self.requests = 0
        self.bytes_read = 0
        self.states: dict[str, Validators] = {}
        """Of the objects that were found."""

    def pages(self) -> Iterator[Page]:
        """Refuse: there is no listing."""
        raise UnsupportedError("HTTP has no listing", url=self.url)

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each object; an absent one is an error."""
        found = self.find(keys, stop)
        for key, data in zip(keys, found, strict=True):
            if data is None:
                raise JnrrdzError("not found", url=self.url + key)
        return [data for data in found if data is not None]

    def find(self, keys: Sequence[str], stop: int) -> list[bytes | None]:
        """Return the first `stop` bytes of each object, None for those that are not there."""
        with ThreadPoolExecutor(_UNLISTED_TOGETHER) as threads:
            found = list(threads.map(lambda key: self._found(key, stop), keys))
        self.requests += len(found)
        self.bytes_read += sum(len(data) for data in found if data is not None)
        return found

    def _found(self, key: str, stop: int) -> bytes | None:
        source = open_source(self.url + key, storage_options=self._options, guard=self._guard)
        try:
            data = source.read([(0, stop)])[0]
            self.states[key] = source.validators
        except JnrrdzError as error:
            if is_absent(error):
                return None
            raise
        else:
            return data
        finally:
            source.close()


MISSING = -1
_AT_ONCE = 32


@dataclass
class FileSizes:
    """What was found: a size for each file, `MISSING` where there is none."""

    sizes: list[int]
    marks: list[Mark] = field(default_factory=list)
    """What tells each file's state, where listings tell it of all."""

    requests: int = 0
    links: list[int] = field(default_factory=list)
    """Local files that symbolic links lead to, or to whose folder."""


def file_sizes(
    wanted: Sequence[str], opener: Callable[[str], ByteSource], storage_options: Mapping[str, Any] | None = None
) -> FileSizes:
    """Return the sizes of files by their URLs; options are fsspec's."""
    found = FileSizes([MISSING] * len(wanted), [0] * len(wanted))
    by_folder: dict[str, list[int]] = {}
    for number, url in enumerate(wanted):
        by_folder.setdefault(url.rpartition("/")[0], []).append(number)
    remote: list[int] = []
    for folder, numbers in by_folder.items():
        path = urls.local_path(f"{folder}/")
        if path is None:
            remote += numbers
        else:
            _list_local(path, numbers, wanted, found)
    if remote and not _list_remote(remote, wanted, storage_options, found):
        _ask(remote, wanted, opener, found)
    return found


def common_folder(wanted: Sequence[str]) -> str:
    """Return the folder that holds all of some files, without a slash at its end."""
    folders = {url.rpartition("/")[0] for url in wanted}
    # what two texts have in common that are first and last by order, all between them have
    pairs = zip(min(folders, default="").split("/"), max(folders, default="").split("/"), strict=False)
    return "/".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _list_local(path: str, numbers: Sequence[int], wanted: Sequence[str], found: FileSizes) -> None:
    found.requests += 1
    try:
        known = {entry.name: entry for entry in local_entries(path, path.rstrip("/"))}
    except JnrrdzError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return
        raise
    is_link = os.path.realpath(path) != path.rstrip("/")
    for number in numbers:
        entry = known.get(wanted[number].rpartition("/")[2])
        if entry is not None and entry.is_file():
            state = entry.stat()
            found.sizes[number], found.marks[number] = state.st_size, state.st_mtime_ns
            if is_link or entry.is_symlink():
                found.links.append(number)


def _list_remote(
    numbers: Sequence[int], wanted: Sequence[str], options: Mapping[str, Any] | None, found: FileSizes
) -> bool:
    """Fill in what one listing tells; False where there is none."""
    first = wanted[numbers[0]]
    common = common_folder([wanted[number] for number in numbers])
    if urls.origin(first) is not None or urls.is_chained(first) or common.endswith(("/", ":")) or "://" not in common:
        return False
    place = {wanted[number][len(common) + 1 :]: number for number in numbers}
    twins = {number: place[wanted[number][len(common) + 1 :]] for number in numbers}
    try:
        tree = open_tree(common, storage_options=options)
        for page in tree.pages():
            for key, size, mark in zip(*page, strict=True):
                if key in place:
                    found.sizes[place[key]], found.marks[place[key]] = size, mark
    except JnrrdzError as error:
        return isinstance(error.__cause__, FileNotFoundError)
    found.requests += tree.requests
    for number, twin in twins.items():
        found.sizes[number], found.marks[number] = found.sizes[twin], found.marks[twin]
    return True


def _ask(numbers: Sequence[int], wanted: Sequence[str], opener: Callable[[str], ByteSource], found: FileSizes) -> None:
    """Ask for the size of each file, many at a time."""

    def size(url: str) -> int:
        try:
            found_size = opener(url).validators.size
        except JnrrdzError as error:
            if isinstance(error.__cause__, FileNotFoundError | PermissionError):
                return MISSING
            raise
        return found_size

    found.requests += len(numbers)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = threads.map(size, [wanted[number] for number in numbers])
        for number, answer in zip(numbers, answers, strict=True):
            found.sizes[number] = answer
