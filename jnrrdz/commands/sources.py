"""Whether the sources of a manifest are what they were when it was written, and how long they are.

May touch sources, read's pool and manifests, and errors.  A source is asked for its state once, many
at a time; the files of a container (N5) are known from its listing and never asked for one by one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from typing import Any

from jnrrdz.commands.findings import Finding, Kind
from jnrrdz.errors import DriftError, JnrrdzError, UntrustedSourceError
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.manifests.trust import Trust
from jnrrdz.sources.tree import open_tree
from jnrrdz.sources.url import origin
from jnrrdz.store.pool import SourcePool

AT_ONCE = 256
"""Sources that are under way together; no more wait in memory for their turn."""


@dataclass
class States:
    """The sizes of sources as they are now, and what is wrong with those that are not as they were."""

    sizes: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    asked: int = 0


def states(manifest: Manifest, pool: SourcePool, urls: Iterable[str], jobs: int, *, times: bool = True) -> States:
    """Return the state of every source in the manifest's table and of those that its references name.

    Without `times` a local file of the recorded size is what it was, whenever it was written.
    """
    pool.warns = False  # what it would warn of is looked at here
    trees = tuple(record.url for record in manifest.sources if record.url.endswith("/"))
    found = States()
    single = dict.fromkeys(record.url for record in manifest.sources if record.url not in trees)
    single.update((url, None) for url in urls if not url.startswith(trees or ("\0",)))
    with ThreadPoolExecutor(jobs) as threads:
        for url, answer in _in_turn(threads, lambda url: _size(pool, url, times=times), single):
            found.asked += 1
            if isinstance(answer, Finding):
                found.findings.append(answer)
            else:
                found.sizes[url] = answer
    return found


def tree_sizes(
    manifest: Manifest, wanted: Iterable[str], options: Mapping[str, Any] | None, allow: tuple[str, ...]
) -> States:
    """Return the sizes of the files of containers, from their listings."""
    found = States()
    wanted = set(wanted)
    trust = None if manifest.url is None else Trust(manifest.url, tuple(r.url for r in manifest.sources), allow)
    for tree in (record.url for record in manifest.sources if record.url.endswith("/")):
        inside = {url[len(tree) :] for url in wanted if url.startswith(tree)}
        try:
            place = tree if trust is None else trust.resolve(tree)
            if origin(place) is not None:  # without a listing, only reading a file tells whether it is there
                continue
            for keys, sizes in open_tree(place, storage_options=options).pages():
                found.sizes.update((tree + key, size) for key, size in zip(keys, sizes, strict=True) if key in inside)
        except JnrrdzError as error:
            found.findings.append(Finding(kind_of(error), tree, str(error)))
            continue
        found.asked += len(inside)
        lost = sorted(key for key in inside if tree + key not in found.sizes)
        found.findings += [Finding("source", tree + key, "is not there any more") for key in lost]
    return found


def kind_of(error: JnrrdzError) -> Kind:
    """Return what kind of finding an error about a source is."""
    if isinstance(error, DriftError):
        return "drift"
    return "trust" if isinstance(error, UntrustedSourceError) else "source"


def _size(pool: SourcePool, url: str, *, times: bool) -> int | Finding:
    """Return the size of a source that is what it was."""
    try:
        opened = pool.opened(url)
        opened.check()
        if times and opened.touched is not None:
            return Finding("drift", url, opened.touched.message)
    except JnrrdzError as error:
        return Finding(kind_of(error), url, error.at(url=url).message)
    else:
        return opened.source.validators.size


def _in_turn[T](threads: ThreadPoolExecutor, work: Callable[[str], T], urls: Iterable[str]) -> Iterator[tuple[str, T]]:
    for some in batched(urls, AT_ONCE):
        yield from zip(some, threads.map(work, some), strict=True)
