"""What lies below a prefix, found page by page: names with size, ETag and time of modification.

A directory that is one thing (an N5 container, a Parquet manifest, an Icechunk repository) is found as a whole, and
what is in it is not; a Zarr store whose name does not say so is passed over.  On this machine its content
tells, elsewhere its name.

Nothing of a page stays once it is passed on, so that a listing of a million objects costs no more memory than one
page; S3's LIST takes a prefix and, where only one level is asked for, a delimiter.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from jnrrdz.batches.item import Found
from jnrrdz.core.zarr_json import ZARR_JSON
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.n5.listing import ATTRIBUTES
from jnrrdz.manifests.documents import METADATA
from jnrrdz.manifests.manifest import ENDINGS, is_repository
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls
from jnrrdz.sources.base import rfc3339
from jnrrdz.sources.local import modified_at
from jnrrdz.sources.tree import entries_of, has_pages, pages_of

type Options = Mapping[str, Any] | None

MAGIC = re.compile(r"[*?\[]")

CONTAINERS = tuple(ending for fmt in FORMATS if fmt.is_directory for ending in fmt.endings)
WHOLE = (*CONTAINERS, *(ending for ending in ENDINGS if ending != ".json"))
"""Endings of directories that are one thing."""
_ZARR_FILES = (ZARR_JSON, ".zgroup", ".zarray")


def is_container(path: str) -> bool:
    """Whether a local directory is a container of a format (N5, or Zarr by its name)."""
    return path.rstrip("/").lower().endswith(CONTAINERS) or os.path.isfile(f"{path}/{ATTRIBUTES}")  # noqa: PTH113


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
    from fsspec.utils import glob_translate  # noqa: PLC0415  see `sources.filesystems`

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
    with faults.translate_errors(wanted.folder, "opening"):
        fs, root = filesystems.opened(wanted.folder, storage_options)
    if has_pages(fs):
        delimiter = "" if wanted.deep else "/"
        for page in pages_of(fs, root, wanted.folder, start=wanted.start, delimiter=delimiter):
            yield from _files(wanted, page)
        return
    root = root.rstrip("/")
    waiting = [root]
    while waiting:
        entries = sorted(entries_of(fs, waiting.pop(), wanted.folder), key=lambda entry: str(entry["name"]))
        folders = [entry["name"].rstrip("/") for entry in entries if entry["type"] == "directory"]
        waiting += reversed([name for name in folders if _may_hold(wanted, name[len(root) + 1 :] + "/")])
        yield from _files(wanted, ((str(entry["name"])[len(root) + 1 :], entry) for entry in entries))


def _files(wanted: Within, entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Found]:
    """Yield the files that are asked for with what a file system's entries say of them."""
    last = ""
    for path, entry in entries:
        whole = _whole_part(path, is_folder=entry["type"] == "directory")
        if whole is not None:
            if whole != last and wanted.takes(whole):
                yield Found(_below(wanted.folder, whole), path=whole)
            last = whole
            continue
        if entry["type"] != "file" or not path or path.endswith("/") or not wanted.takes(path):
            continue
        size, etag = entry.get("size"), entry.get("ETag") or entry.get("etag")
        modified = entry.get("LastModified") or entry.get("last_modified") or entry.get("mtime")
        yield Found(
            _below(wanted.folder, path),
            None if size is None else int(size),
            etag if isinstance(etag, str) else None,
            rfc3339(modified) if isinstance(modified, datetime) else None,
            path,
        )


def _whole_part(path: str, *, is_folder: bool) -> str | None:
    """Return the path of the outermost directory on the way that is one thing by its name."""
    folder = path.rstrip("/") if is_folder else path.rpartition("/")[0]
    if "." not in folder:
        return None
    parts = folder.split("/")
    ends = (number for number, part in enumerate(parts, 1) if part.lower().endswith(WHOLE))
    number = next(ends, None)
    return None if number is None else "/".join(parts[:number])


def _local(wanted: Within, root: str) -> Iterator[Found]:
    """Yield the files below a directory; links to directories are not followed."""
    if not os.path.isdir(root):  # noqa: PTH112  the path is literal
        raise JnrrdzError("no such directory", url=wanted.folder)
    waiting = [""]
    while waiting:
        below = waiting.pop()
        folder = os.path.join(root, below)  # noqa: PTH118  the same
        with faults.translate_errors(f"{wanted.folder}/{below}", "listing"), os.scandir(folder) as entries:
            kinds = sorted((entry.name, entry.is_dir(follow_symlinks=False), entry.is_file()) for entry in entries)
        folders = []
        for name, is_folder, is_file in kinds:
            path, place = below + name, os.path.join(folder, name)  # noqa: PTH118  the same
            if is_folder and is_whole(place):
                if wanted.takes(path):
                    yield Found(_below(wanted.folder, path), path=path)
            elif is_folder and _may_hold(wanted, f"{path}/") and not is_zarr(place):
                folders.append(f"{path}/")
            if is_folder or not is_file or not wanted.takes(path):
                continue
            try:
                stat = os.stat(place)  # noqa: PTH116  the same
            except FileNotFoundError:  # gone since it was listed
                continue
            yield Found(_below(wanted.folder, path), stat.st_size, None, modified_at(stat), path)
        waiting += reversed(folders)


def _may_hold(wanted: Within, folder: str) -> bool:
    """Whether what is asked for may lie in a folder: the start of all paths leads through it."""
    return wanted.deep and (folder.startswith(wanted.start) or wanted.start.startswith(folder) or not wanted.start)


def _below(folder: str, path: str) -> str:
    return path if folder == "." else f"{folder.rstrip('/')}/{path}"
