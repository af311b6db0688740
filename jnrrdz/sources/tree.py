"""A tree of objects: listed with their sizes, and small ones read.

May touch fsspec and the file system.  A container format (N5) is a directory; its blocks are known from
listings, a thousand in a request, and never asked for one by one.  HTTP has no listings.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import batched
from typing import Any, Protocol

import fsspec.asyn

from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls

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
        # imported here: it knows this module's pages
        from jnrrdz.sources.unlisted import UnlistedTree  # noqa: PLC0415

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
