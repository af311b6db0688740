"""How a manifest spells where its sources are: without credentials, and as seen from the manifest where asked for.

A relative URL is relative to the directory that holds the manifest, be that a JSON file or a Parquet directory, and
is no URI: nothing in it is percent-encoded.
"""

import os
import posixpath
import warnings
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from fsspec.utils import get_protocol

from jnrrdz.core.arrays import Node, VirtualGroup
from jnrrdz.core.refs import TreeFiles
from jnrrdz.errors import UnrepresentableError, without_credentials

_LOCAL = ("file", "local")


def relocate(root: VirtualGroup, target: str) -> VirtualGroup:
    """Return the same tree with the URL of every source relative to the directory that holds `target`."""
    return moved(root, {url: relative(url, target) for url in named_urls(root)})


def moved(root: VirtualGroup, urls: dict[str, str]) -> VirtualGroup:
    """Return the same tree with other URLs, those of the sources and of trees; `urls` has one for each."""
    sources = tuple(replace(record, url=urls[record.url]) for record in root.sources)
    return replace(_relocated(root, urls), sources=sources)


def shareable(root: VirtualGroup) -> VirtualGroup:
    """Return the same tree without the credentials in its sources' URLs: a manifest is read by others, and later."""
    bare = {url: without_credentials(url) for url in named_urls(root)}
    signed = sorted(other for url, other in bare.items() if other != url)
    if not signed:
        return root
    others = f" (and {len(signed) - 1} more)" if len(signed) > 1 else ""
    warnings.warn(
        f"the URL of {signed[0]}{others} held credentials, which no manifest records: whoever reads it needs their own",
        stacklevel=2,
    )
    return moved(root, bare)


def named_urls(root: VirtualGroup) -> set[str]:
    """Return the URLs of all sources that references or records name."""
    every = [array.refs for _, array in root.arrays()]
    return {url for refs in every for url in refs.named} | {record.url for record in root.sources}


def _relocated(group: VirtualGroup, urls: dict[str, str]) -> VirtualGroup:
    children: dict[str, Node] = {}
    for name, child in group.children.items():
        if isinstance(child, VirtualGroup):
            children[name] = _relocated(child, urls)
            continue
        files = child.refs.sources
        places = files.moved(urls[files.tree]) if isinstance(files, TreeFiles) else tuple(urls[url] for url in files)
        children[name] = replace(child, refs=replace(child.refs, sources=places))
    return replace(group, children=children)


def relative(url: str, target: str) -> str:
    """Return `url` as seen from the directory that holds `target`; a tree keeps the slash at its end."""
    if url.endswith("/"):
        return f"{relative(url.rstrip('/'), target)}/"
    if get_protocol(url) in _LOCAL and get_protocol(target) in _LOCAL:
        return Path(os.path.relpath(local_path(url), Path(local_path(target)).parent)).as_posix()
    here, there = urlsplit(url), urlsplit(target)
    path = url.partition("://")[2].removeprefix(here.netloc)
    same = bool(here.netloc) and (here.scheme, here.netloc) == (there.scheme, there.netloc)
    # a key with empty or dotted parts is another one once it is normalised, and `::` chains file systems
    if not same or "::" in url or posixpath.normpath(path) != path:
        raise UnrepresentableError(f"no relative path leads here from {target}; write absolute URLs", url=url)
    return posixpath.relpath(path, posixpath.dirname(there.path) or "/")


def local_path(url: str) -> str:
    """Return the absolute path of a local source, as fsspec understands it."""
    for protocol in _LOCAL:
        url = url.removeprefix(f"{protocol}://")
    return os.path.abspath(url)  # noqa: PTH100 - Path.absolute keeps `..`, and resolve follows links


def is_local(url: str) -> bool:
    """Return whether a URL names a local file."""
    return get_protocol(url) in _LOCAL
