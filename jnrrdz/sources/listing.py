"""What is in a place: the entries of a local folder, of a bucket, of any file system that lists, and their states.

Trees of containers (`tree`), the names that a command is given (`batches.selection`) and the sizes of many files
(`tree.file_sizes`) are listed here.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from jnrrdz.core.state import Mark, Validators, nanoseconds, rfc3339
from jnrrdz.errors import UnsupportedError
from jnrrdz.lazy import library
from jnrrdz.sources import faults, filesystems

if TYPE_CHECKING:
    from fsspec import asyn
else:
    # a local file needs none of it, see `sources.filesystems`
    asyn = library("fsspec.asyn")

type Entries = list[tuple[str, Mapping[str, Any]]]
"""Names of a page of a listing, relative to the place that is listed, and what its file system says of each."""

PER_REQUEST = 1000
"""Objects in one page of an S3 listing."""

LONGEST_PAGE = 600.0
"""Seconds for a page of a listing: a store may answer with empty pages for ever."""


def local_entries(folder: str, url: str) -> list[os.DirEntry[str]]:
    """Return what is in a local folder; an error names `url`."""
    with faults.translate_errors(url, "listing"), os.scandir(folder) as entries:
        return list(entries)


class RemoteFolder(NamedTuple):
    """A folder of a file system."""

    fs: Any
    path: str
    """In the file system."""
    url: str
    """What errors name."""


def pages(
    folder: RemoteFolder,
    *,
    start: str = "",
    is_deep: bool = True,
    descends: Callable[[str], bool] | None = None,
) -> Iterator[Entries]:
    """Yield what is in a folder of a file system and in the folders in it, page by page.

    Parameters
    ----------
    folder
        What is listed.
    start
        How the names begin that a store lists.
    is_deep
        Whether a store lists what is in folders.
    descends
        Whether a folder is listed, by its name with a slash; all are where it is left out.
        Stores list all objects as one folder.
    """
    fs, path, url = folder
    if has_pages(fs):
        yield from pages_of(fs, path, url, start=start, delimiter="" if is_deep else "/")
        return
    path = path.rstrip("/")
    skipped = len(path) + 1
    waiting = [path]
    while waiting:
        entries = sorted(entries_of(fs, waiting.pop(), url), key=lambda entry: str(entry["name"]))
        folders = [entry["name"].rstrip("/") for entry in entries if entry["type"] == "directory"]
        if descends is not None:
            folders = [name for name in folders if descends(f"{name[skipped:]}/")]
        waiting += reversed(folders)
        yield [(str(entry["name"])[skipped:], entry) for entry in entries]


def has_pages(fs: Any) -> bool:
    """Whether a file system tells of objects as the answers of S3's LIST come."""
    return hasattr(fs, "_iterdir") and hasattr(fs, "split_path")


def pages_of(fs: Any, path: str, url: str, *, start: str = "", delimiter: str = "") -> Iterator[Entries]:
    """Yield the answers of S3's LIST of all below a path that starts so: keys relative to the path, and entries.

    Nothing of a million objects stays but what is taken here; there is one page at least.
    """
    bucket, key, _ = fs.split_path(path)
    prefix = f"{key.rstrip('/')}/" if key else ""

    # s3fs offers pages only here; `find` would hold a dictionary for every object
    entries = fs._iterdir(bucket, delimiter=delimiter, prefix=prefix + start)  # noqa: SLF001
    skipped = len(bucket) + 1 + len(prefix)

    async def next_page() -> Entries:
        page: Entries = []
        async for entry in entries:
            page.append((str(entry["name"])[skipped:], entry))
            if len(page) == PER_REQUEST:
                break
        return page

    is_first = True
    while True:
        with faults.translate_errors(url, "listing", fs):
            page = asyn.sync(filesystems.loop(), next_page, timeout=LONGEST_PAGE)
        if page or is_first:
            yield page
        is_first = False
        if len(page) < PER_REQUEST:
            return


def entries_of(fs: Any, folder: str, url: str) -> list[dict[str, Any]]:
    """Return what a folder of any file system holds now."""
    with faults.translate_errors(url, "listing", fs):
        fs.invalidate_cache(folder)
        return [entry for entry in fs.ls(folder, detail=True) if entry["name"].rstrip("/") != folder]


# States


_ETAG = ("ETag", "etag")
_VERSION = ("VersionId", "version_id", "generation")
_MODIFIED = ("LastModified", "last_modified", "updated", "mtime", "created")


def validators_of(info: Mapping[str, Any]) -> Validators:
    """Return the state of an object as a file system's `info` or listing says it."""
    if info.get("type") == "directory":
        raise UnsupportedError("a directory where a file is read; name an object in it")
    if info.get("size") is None:
        raise UnsupportedError("the file system does not say the size")
    version, modified = _first(info, _VERSION), _first(info, _MODIFIED)
    if isinstance(modified, int | float):
        modified = datetime.fromtimestamp(modified).astimezone()
    elif isinstance(modified, str):
        modified = datetime.fromisoformat(modified)
    return Validators(
        size=int(info["size"]),
        etag=_first(info, _ETAG),
        version=None if version in {None, "null"} else str(version),
        modified=rfc3339(modified) if isinstance(modified, datetime) else None,
    )


def _first(info: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((info[name] for name in names if info.get(name)), None)


def mark_of(entry: Mapping[str, Any]) -> Mark:
    """Return what an entry of a listing says of an object's state in short."""
    if entry.get("ETag"):
        return str(entry["ETag"])
    try:
        state = validators_of(entry)
    except ValueError:  # a time that is no ISO 8601
        return 0
    return state.etag or (0 if state.modified is None else nanoseconds(state.modified))


def state_of(entry: Mapping[str, Any]) -> Validators | None:
    """Return the state of an entry of a listing, None where the file system does not report its size."""
    if entry.get("size") is None:
        return None
    try:
        return validators_of(entry)
    except ValueError:  # a time that is no ISO 8601
        return Validators(int(entry["size"]), _first(entry, _ETAG))
