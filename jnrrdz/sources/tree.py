"""A tree of objects: listed with their sizes, and small ones read.

May touch fsspec and the file system.  A container format (N5) is a directory; its blocks are known from
listings, a thousand in a request, and never asked for one by one.  HTTP has no listings.

A tree that cannot be listed: over HTTP there are only objects that someone knows the name of.

May touch sources and errors.  What is absent is told from what cannot be had: a server that answers anything
but 404 to a name does not say that nothing is there.

The sizes of many files at once, by listing their folders where that can be.

May touch fsspec, the file system and the source's own modules.  Local folders are listed one by one, object stores
by the prefix that the files share; HTTP lists nothing, so that every file is asked for, many at a time.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched, takewhile
from typing import Any, Protocol

import fsspec.asyn

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls
from jnrrdz.sources.base import ByteSource, is_absent
from jnrrdz.sources.fsspec import open_source

type Page = tuple[list[str], list[int]]
"""Keys relative to the tree, and the size of each object."""

PER_REQUEST = 1000
"""Objects in one page of an S3 listing."""

_PAGE = 10 * PER_REQUEST
_TOGETHER = 256


class Tree(Protocol):
    """Objects below a URL."""

    url: str
    """With a slash at its end."""

    requests: int
    bytes_read: int

    def pages(self) -> Iterator[Page]:
        """Yield all objects in the tree, in no particular order."""

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each object, all there are of shorter ones, together."""


def open_tree(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Tree:
    """Return the tree at a path or URL; options are fsspec's."""
    path = urls.local_path(url)
    if path is not None:
        return LocalTree(path)
    if urls.origin(url) is not None:
        return UnlistedTree(url, storage_options)
    return FsspecTree(url, storage_options)


class LocalTree:
    """A directory."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self.url = f"{self._path.rstrip('/')}/"
        self.requests = 0
        self.bytes_read = 0

    def pages(self) -> Iterator[Page]:
        """Yield the files of each directory."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with faults.told(self.url + folder, "listing"):
                keys, sizes, below = self._listed(folder)
            self.requests += 1
            waiting += below
            if keys:
                yield keys, sizes

    def _listed(self, folder: str) -> tuple[list[str], list[int], list[str]]:
        keys: list[str] = []
        sizes: list[int] = []
        below: list[str] = []
        with os.scandir(f"{self._path}/{folder}") as entries:
            for entry in entries:
                if entry.is_dir():
                    if not entry.is_symlink() or not self._is_loop(entry.path):
                        below.append(f"{folder}{entry.name}/")
                elif entry.is_file():
                    keys.append(folder + entry.name)
                    sizes.append(entry.stat().st_size)
        return keys, sizes, below

    def _is_loop(self, link: str) -> bool:
        """Whether a link leads to a directory that it is in, whose listing would never end."""
        return urls.is_under(os.path.realpath(os.path.dirname(link)), os.path.realpath(link))  # noqa: PTH120

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each file."""
        return [self._read(key, stop) for key in keys]

    def _read(self, key: str, stop: int) -> bytes:
        with faults.told(self.url + key, "reading"):
            handle = os.open(f"{self._path}/{key}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = os.pread(handle, stop, 0)
            finally:
                os.close(handle)
        self.requests += 1
        self.bytes_read += len(found)
        return found


class FsspecTree:
    """A prefix of an object store, or a directory of any file system that lists."""

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        given = {name: value for name, value in (options or {}).items() if name not in {"asynchronous", "loop"}}
        self.url = f"{url.rstrip('/')}/"
        self.requests = 0
        self.bytes_read = 0
        with faults.told(self.url, "opening"):
            self._fs, path = filesystems.opened(self.url, given)
        self._path = path.rstrip("/")

    def pages(self) -> Iterator[Page]:
        """Yield pages of one flat listing where the store has that, of each directory elsewhere."""
        flat = hasattr(self._fs, "_iterdir") and hasattr(self._fs, "split_path")
        yield from self._flat() if flat else self._walked()

    def _flat(self) -> Iterator[Page]:
        """Yield the answers of S3's LIST as they come: nothing of a million objects stays but what is taken here."""
        bucket, key, _ = self._fs.split_path(self._path)
        prefix = f"{key}/" if key else ""
        # s3fs offers pages only here; `find` would hold a dictionary for every object
        entries = self._fs._iterdir(bucket, delimiter="", prefix=prefix)  # noqa: SLF001
        skipped = len(bucket) + 1 + len(prefix)
        while True:
            with faults.told(self.url, "listing", self._fs):
                keys, sizes = fsspec.asyn.sync(fsspec.asyn.get_loop(), _taken, entries, skipped)
            self.requests += max(-(-len(keys) // PER_REQUEST), 1)
            if keys:
                yield keys, sizes
            if len(keys) < _PAGE:
                return

    def _walked(self) -> Iterator[Page]:
        waiting = [self._path]
        while waiting:
            folder = waiting.pop()
            with faults.told(self.url, "listing", self._fs):
                self._fs.invalidate_cache(folder)
                entries = [entry for entry in self._fs.ls(folder, detail=True) if entry["name"].rstrip("/") != folder]
            self.requests += 1
            waiting += [entry["name"].rstrip("/") for entry in entries if entry["type"] == "directory"]
            files = [entry for entry in entries if entry["type"] == "file"]
            yield [entry["name"][len(self._path) + 1 :] for entry in files], [int(entry["size"]) for entry in files]

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each object, many at once."""
        found: list[bytes] = []
        for some in batched(keys, _TOGETHER):
            paths = [f"{self._path}/{key}" for key in some]
            with faults.told(self.url, "reading", self._fs):
                answers = self._fs.cat_ranges(paths, [0] * len(paths), [stop] * len(paths), on_error="return")
            for key, answer in zip(some, answers, strict=True):
                with faults.told(self.url + key, "reading", self._fs):
                    if isinstance(answer, Exception):
                        raise answer
                found.append(bytes(answer))
        self.requests += len(found)
        self.bytes_read += sum(map(len, found))
        return found


async def _taken(entries: Any, skipped: int) -> Page:
    """Return the next objects of a listing."""
    keys: list[str] = []
    sizes: list[int] = []
    async for entry in entries:
        if entry["type"] == "file" and not entry["name"].endswith("/"):
            keys.append(entry["name"][skipped:])
            sizes.append(entry["size"])
        if len(keys) == _PAGE:
            break
    return keys, sizes


_UNLISTED_TOGETHER = 16


class UnlistedTree:
    """Objects below an HTTP URL."""

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        if "?" in url or "#" in url:
            raise UnsupportedError("a URL with a query names one object, not those below it", url=url)
        self._options = options
        self.url = f"{url.rstrip('/')}/"
        self.requests = 0
        self.bytes_read = 0

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
        source = open_source(self.url + key, storage_options=self._options)
        try:
            return source.read([(0, stop)])[0]
        except JnrrdzError as error:
            if is_absent(error):
                return None
            raise
        finally:
            source.close()


MISSING = -1
_AT_ONCE = 32
_ABSENT = (FileNotFoundError, NotADirectoryError)


@dataclass
class FileSizes:
    """What was found: a size for each file, `MISSING` where there is none."""

    sizes: list[int]
    requests: int = 0
    links: list[int] = field(default_factory=list)
    """Local files that symbolic links lead to, or to whose folder."""


def file_sizes(
    wanted: Sequence[str], opener: Callable[[str], ByteSource], storage_options: Mapping[str, Any] | None = None
) -> FileSizes:
    """Return the sizes of files by their URLs; options are fsspec's."""
    found = FileSizes([MISSING] * len(wanted))
    by_folder: dict[str, list[int]] = {}
    for number, url in enumerate(wanted):
        by_folder.setdefault(url.rpartition("/")[0], []).append(number)
    remote: list[int] = []
    for folder, numbers in by_folder.items():
        if urls.is_chained(folder) or urls.local_path(f"{folder}/") is None:
            remote += numbers
        else:
            _list_local(folder, numbers, wanted, found)
    if remote and not _list_remote(remote, wanted, storage_options, found):
        _ask(remote, wanted, opener, found)
    return found


def common_folder(wanted: Sequence[str]) -> str:
    """Return the folder that holds all of some files, without a slash at its end."""
    folders = {url.rpartition("/")[0] for url in wanted}
    # what two texts have in common that are first and last by order, all between them have
    pairs = zip(min(folders, default="").split("/"), max(folders, default="").split("/"), strict=False)
    return "/".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _list_local(folder: str, numbers: Sequence[int], wanted: Sequence[str], found: FileSizes) -> None:
    path = urls.local_path(f"{folder}/") or "/"
    found.requests += 1
    try:
        with faults.told(folder, "listing"), os.scandir(path) as entries:
            known = {entry.name: entry for entry in entries}
    except JnrrdzError as error:
        if isinstance(error.__cause__, _ABSENT):
            return
        raise
    is_link = os.path.realpath(path) != path.rstrip("/")
    for number in numbers:
        entry = known.get(wanted[number].rpartition("/")[2])
        if entry is not None and entry.is_file():
            found.sizes[number] = entry.stat().st_size
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
        for keys, sizes in tree.pages():
            for key, size in zip(keys, sizes, strict=True):
                if key in place:
                    found.sizes[place[key]] = size
    except JnrrdzError as error:
        return isinstance(error.__cause__, FileNotFoundError)
    found.requests += tree.requests
    for number, twin in twins.items():
        found.sizes[number] = found.sizes[twin]
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
