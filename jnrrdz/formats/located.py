"""A path or URL to what it holds: opened, scanned, let go of.

May touch sources and the scanners.  Imports no framework: a worker of a batch starts with this and a
writer, in half the time that the whole library takes.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from jnrrdz.formats.scan import Scanned, scan_source, scan_tree
from jnrrdz.options import ScanOptions
from jnrrdz.sources.base import ByteSource
from jnrrdz.sources.file_sizes import file_sizes
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.tree import open_tree
from jnrrdz.sources.url import local_path

type Options = Mapping[str, Any] | None

TREES = (".n5",)


class Opener(Protocol):
    """What opens a URL as `source.fsspec.open_source` does."""

    def __call__(self, url: str, *, storage_options: Options = None) -> ByteSource:
        """Return the bytes at a URL."""


def scan_located(
    text: str, options: ScanOptions, *, storage_options: Options = None, opener: Opener = open_source
) -> Scanned:
    """Return what a path or URL holds, with the requests and bytes that finding it took."""
    if is_tree(text):
        found = scan_tree(open_tree(text, storage_options=storage_options), options)
    else:
        source = opener(literal(text), storage_options=storage_options)
        try:
            beside = partial(opener, storage_options=storage_options)
            lister = partial(file_sizes, opener=beside, storage_options=storage_options)
            found = scan_source(source, options, beside, lister)
        finally:
            source.close()
    return replace(found, group=replace(found.group, origin={"options": options.asked()}))


def literal(text: str) -> str:
    """Return a source as its manifest names it: by the real path, and no symbolic link on the way to it."""
    path = local_path(text)
    return text if path is None else os.path.realpath(path)


def is_tree(text: str) -> bool:
    """Whether a source is a directory: a remote one is told by the slash at its end, or by its name."""
    path = local_path(text)
    if path is not None:
        return os.path.isdir(path)  # noqa: PTH112  the path is literal
    return text.endswith((*TREES, "/")) or any(f"{ending}/" in text for ending in TREES)
