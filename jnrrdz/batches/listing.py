"""What lies below a prefix, found page by page: names with size, ETag and time of modification.

May touch fsspec and the file system.  Nothing of a page stays once it is passed on, so that a listing of a
million objects costs no more memory than one page; S3's LIST takes a prefix and, where only one level is asked
for, a delimiter.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import fsspec.asyn
import fsspec.core
from fsspec.utils import glob_translate

from jnrrdz.batches.item import Found
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.sources import base as times
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls

type Options = Mapping[str, Any] | None

MAGIC = re.compile(r"[*?\[]")
_PAGE = 1000


class Within(NamedTuple):
    """What to list: everything below a folder whose path relative to it fits."""

    folder: str
    """A URL or path without a slash at its end."""
    start: str = ""
    """How every path below it starts."""
    pattern: re.Pattern[str] | None = None
    deep: bool = True
    """Whether to go down into folders."""

    def takes(self, path: str) -> bool:
        """Whether a path relative to the folder is asked for."""
        return path.startswith(self.start) and (self.pattern is None or self.pattern.match(path) is not None)


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
    return Within(root, start, re.compile(glob_translate(rest)), deep="/" in rest or "**" in rest)


def listed(wanted: Within, storage_options: Options = None) -> Iterator[Found]:
    """Yield the files asked for, in the order of their names within each folder."""
    path = urls.local_path(wanted.folder)
    if path is not None:
        yield from _local(wanted, path)
        return
    with faults.told(wanted.folder, "opening"):
        fs, root = filesystems.opened(wanted.folder, _plain(storage_options))
    pages = hasattr(fs, "_iterdir") and hasattr(fs, "split_path")
    yield from _by_pages(fs, wanted, root) if pages else _walked(fs, wanted, root)


def _plain(options: Options) -> dict[str, Any]:
    return {name: value for name, value in (options or {}).items() if name not in {"asynchronous", "loop"}}


# Local


def _local(wanted: Within, root: str) -> Iterator[Found]:
    if not os.path.isdir(root):  # noqa: PTH112  the path is literal
        raise JnrrdzError("no such directory", url=wanted.folder)
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with faults.told(f"{wanted.folder}/{below}", "listing"):
            entries = _entries(os.path.join(root, below))  # noqa: PTH118  the same
        folders = [f"{below}{name}/" for name, is_folder in entries if is_folder]
        waiting += reversed([folder for folder in folders if _may_hold(wanted, folder)])
        for name, is_folder in entries:
            if not is_folder and wanted.takes(below + name):
                yield from _local_file(wanted.folder, below + name, os.path.join(root, below, name))  # noqa: PTH118


def _entries(folder: str) -> list[tuple[str, bool]]:
    """Return names and whether each is a folder to go into; links to folders are not followed."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False), entry.is_file()) for entry in found]
    return sorted((name, is_folder) for name, is_folder, is_file in entries if is_folder or is_file)


def _local_file(folder: str, path: str, place: str) -> Iterator[Found]:
    try:
        found = os.stat(place)  # noqa: PTH116  the path is literal
    except FileNotFoundError:  # gone since it was listed
        return
    seconds, fraction = divmod(found.st_mtime_ns, 10**9)
    modified = times.rfc3339(datetime.fromtimestamp(seconds, UTC), fraction)
    yield Found(_below(folder, path), found.st_size, None, modified, path)


def _may_hold(wanted: Within, folder: str) -> bool:
    """Whether what is asked for may lie in a folder: the start of all paths leads through it."""
    return wanted.deep and (folder.startswith(wanted.start) or wanted.start.startswith(folder) or not wanted.start)


def _below(folder: str, path: str) -> str:
    return path if folder == "." else f"{folder.rstrip('/')}/{path}"


# Elsewhere


def _by_pages(fs: Any, wanted: Within, root: str) -> Iterator[Found]:
    """Yield from the answers of S3's LIST as they come."""
    bucket, key, _ = fs.split_path(root)
    prefix = f"{key.rstrip('/')}/" if key else ""
    # s3fs offers pages only here; `find` would hold a dictionary for every object
    entries = fs._iterdir(bucket, delimiter="" if wanted.deep else "/", prefix=prefix + wanted.start)  # noqa: SLF001
    skipped = len(bucket) + 1 + len(prefix)
    while True:
        with faults.told(wanted.folder, "listing", fs):
            page = fsspec.asyn.sync(fsspec.asyn.get_loop(), _taken, entries)
        yield from _taken_of(wanted, page, lambda entry: str(entry["name"])[skipped:])
        if len(page) < _PAGE:
            return


async def _taken(entries: Any) -> list[Mapping[str, Any]]:
    page: list[Mapping[str, Any]] = []
    async for entry in entries:
        page.append(entry)
        if len(page) == _PAGE:
            break
    return page


def _walked(fs: Any, wanted: Within, root: str) -> Iterator[Found]:
    """Yield from the listing of each folder."""
    root = root.rstrip("/")
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        with faults.told(wanted.folder, "listing", fs):
            fs.invalidate_cache(folder)
            page = sorted(fs.ls(folder, detail=True), key=lambda entry: str(entry["name"]))
        own = [entry for entry in page if entry["name"].rstrip("/") != folder]
        folders = [entry["name"].rstrip("/") for entry in own if entry["type"] == "directory"]
        waiting += reversed([name for name in folders if _may_hold(wanted, name[len(root) + 1 :] + "/")])
        yield from _taken_of(wanted, own, lambda entry: str(entry["name"])[len(root) + 1 :])


def _taken_of(
    wanted: Within, page: Sequence[Mapping[str, Any]], path_of: Callable[[Mapping[str, Any]], str]
) -> Iterator[Found]:
    for entry in page:
        path = path_of(entry)
        if entry["type"] == "file" and path and not path.endswith("/") and wanted.takes(path):
            yield found_of(_below(wanted.folder, path), entry, path)


def found_of(url: str, entry: Mapping[str, Any], path: str | None = None) -> Found:
    """Return a source with what a file system's entry says of it."""
    size, etag = entry.get("size"), entry.get("ETag") or entry.get("etag")
    modified = entry.get("LastModified") or entry.get("last_modified") or entry.get("mtime")
    return Found(
        url,
        None if size is None else int(size),
        etag if isinstance(etag, str) else None,
        times.rfc3339(modified) if isinstance(modified, datetime) else None,
        path,
    )
