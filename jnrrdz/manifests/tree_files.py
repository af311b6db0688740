"""The URLs of a container's blocks as columns, where a manifest spells each of them.

May touch numpy, the model, read.keys and the file system.  A million URLs below one tree that differ in indices only
are one folder and a row of numbers each; which of them may be reached is then told for the folder.  Links between
the blocks would lead elsewhere, so where there is one, each file is looked at by itself.
"""

import os
from collections.abc import Sequence
from itertools import batched

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import GridFiles
from jnrrdz.manifests.keys import read_indices
from jnrrdz.sources.url import local_path

_MOST = np.iinfo(np.int32).max
_TOGETHER = 1 << 16


def common_folder(urls: Sequence[str]) -> str:
    """Return what all URLs begin with, up to a slash."""
    first, last = min(urls), max(urls)
    return os.path.commonprefix([first, last]).rpartition("/")[0] + "/"  # noqa: RUF071  cut at a slash behind it


def indices(urls: Sequence[str], folder: str) -> NDArray[np.int32] | None:
    """Return a row of indices for each URL below a folder; None where anything else stands there."""
    axes, rows = urls[0].count("/", len(folder)) + 1, []
    for some in batched(urls, _TOGETHER):
        text = "\n".join(("", *(url[len(folder) :] for url in some), ""))
        found = read_indices(text.encode(), len(some), axes, b"/")
        if found is None or (found > _MOST).any():
            return None
        rows.append(found.astype(np.int32))
    return np.concatenate(rows)


def tree_files(tree: str, folder: str, index: NDArray[np.int32]) -> GridFiles | None:
    """Return the files of a folder in a tree, both where they really are; None where there are links among them."""
    if not folder.startswith(tree) or not _is_plain(folder, index):
        return None
    return GridFiles(tree, (folder,), np.column_stack((np.zeros(len(index), np.int32), index)))


def _is_plain(folder: str, index: NDArray[np.int32]) -> bool:
    """Whether no local file or directory in a folder is a link."""
    place = local_path(folder)
    if place is None:
        return True
    place = place.rstrip("/")
    if os.path.realpath(place) != place:
        return False
    known = {
        row[:depth] for row in map(tuple, np.unique(index[:, :-1], axis=0).tolist()) for depth in range(len(row) + 1)
    }
    return not any(_has_links("/".join([place, *map(str, row)])) for row in known)


def _has_links(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() for entry in entries)
    except OSError:  # what is not there is no link, and is told when it is read
        return False
