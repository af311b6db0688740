"""The sizes of many files at once, by listing their folders where that can be.

May touch fsspec, the file system and the source's own modules.  Local folders are listed one by one, object stores
by the prefix that the files share; HTTP lists nothing, so that every file is asked for, many at a time.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import faults
from jnrrdz.sources import url as urls
from jnrrdz.sources.base import ByteSource
from jnrrdz.sources.tree import open_tree

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
