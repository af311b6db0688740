"""The sources of a manifest as they are now, against what the manifest recorded, for `verify` and `refresh`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from typing import Any

import numpy as np

from jnrrdz.commands.verification import MOST, Finding, kind_of
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.state import ObjectState, Validators
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats import FORMATS
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.options import Access
from jnrrdz.sources.tree import Tree, open_tree
from jnrrdz.sources.url import local_path, origin
from jnrrdz.store.sources import SourcePool

SOURCES_AT_ONCE = 256
"""Sources that are under way together; no more wait in memory for their turn."""


@dataclass
class States:
    """The sizes of sources as they are now, and what is wrong with those that are not as they were."""

    sizes: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    asked: int = 0


def states(  # noqa: PLR0913  which sources, and how they are asked
    manifest: Manifest,
    pool: SourcePool,
    urls: Iterable[str],
    jobs: int,
    *,
    times: bool = True,
    records: Sequence[SourceRecord] | None = None,
) -> States:
    """Return the state of every source in the manifest's table and of those that its references name.

    Without `times` a local file of the recorded size is what it was, whenever it was written.  `records` are those of
    the table that are looked at, where that is not all of it.
    """
    trees = manifest.trees
    # a listing tells of all that is in a tree, but HTTP has none
    listed = tuple(tree for tree in trees if origin(tree) is None) or ("\0",)
    looked_at = manifest.sources if records is None else records
    single = dict.fromkeys(
        record.url for record in looked_at if record.url not in trees and not record.url.startswith(listed)
    )
    single.update((url, None) for url in urls if not url.startswith(trees or ("\0",)))

    def size(url: str) -> int | Finding:
        try:
            opened = pool.opened(url)
            opened.check()
            drift = opened.touched or opened.rewritten
            if times and drift is not None:
                return Finding("drift", url, drift.message)
        except JnrrdzError as error:
            return Finding(kind_of(error, "source"), url, error.at(url=url).message)
        else:
            return opened.source.validators.size

    answers = States(asked=len(single))
    with pool.quietly(), ThreadPoolExecutor(jobs) as threads:
        for some in batched(single, SOURCES_AT_ONCE):
            for url, answer in zip(some, threads.map(size, some), strict=True):
                if isinstance(answer, Finding):
                    answers.findings.append(answer)
                else:
                    answers.sizes[url] = answer
    return answers


def tree_states(manifest: Manifest, columns: Mapping[str, ChunkRefs], access: Access, *, times: bool = True) -> States:
    """Return the sizes of the files of containers from their listings, and what is not as it was recorded.

    Without `times` a local file of the recorded size is what it was, whenever it was written.
    """
    answers = States()
    recorded = _recorded_objects(columns)
    records = manifest.records
    trust = manifest.trust(access.allow)
    for tree in manifest.trees:
        files = {url for url in (*recorded, *records) if url.startswith(tree) and url != tree}
        new = _NewObjects(tree, [url[len(tree) :] for url in files if url in records])
        drifted: list[Finding] = []
        try:
            place = tree if trust is None else trust.resolve(tree)
            if origin(place) is not None:  # without a listing, only reading a file tells whether it is there
                continue
            listed = open_tree(place, storage_options=access.source_options, allow=access.allow)
            sized = times or local_path(place) is None
            for page in listed.pages():
                rest = []
                for key, size, mark in zip(*page, strict=True):
                    url = tree + key
                    if url not in files:
                        rest.append((key, size, mark))
                        continue
                    answers.sizes[url] = size
                    then = recorded.get(url) or records.get(url)
                    now = Validators.of_listing(size, mark if sized else 0)
                    drift = None if then is None else then.drift(now)
                    if drift is not None:
                        drifted.append(Finding("drift", url, drift.message))
                new.add(rest)
            drifted += new.findings(listed)
        except JnrrdzError as error:
            answers.findings.append(Finding(kind_of(error, "source"), tree, str(error)))
            continue
        answers.asked += len(files)
        lost = sorted(files - answers.sizes.keys())
        found = [*drifted, *(Finding("source", url, "is not there any more") for url in lost)]
        answers.findings += found[:MOST]
        if len(found) > MOST:
            answers.findings.append(Finding("drift", tree, f"{len(found) - MOST:,} more files are not as they were"))
    return answers


def _recorded_objects(columns: Mapping[str, ChunkRefs]) -> dict[str, ObjectState | None]:
    """Return what is recorded of each file that references name, None where it is no more than that."""
    recorded: dict[str, ObjectState | None] = {}
    for refs in columns.values():
        urls, place = refs.spelt(refs.source)
        version = np.zeros(len(refs.source), np.int64) if refs.version is None else refs.version
        sizes, numbers = np.zeros(len(urls), np.int64), np.zeros(len(urls), np.int64)
        sizes[place], numbers[place] = refs.offset + refs.length, version
        for at in np.unique(place).tolist():  # an array need not use all that its manifest names
            known = int(numbers[at])
            recorded[urls[at]] = ObjectState(int(sizes[at]), known) if known else None
    return recorded


class _NewObjects:
    """The objects of a directory that its manifest does not name, as each format looks at them."""

    def __init__(self, url: str, recorded: Sequence[str]) -> None:
        self._url = url
        self._looks = [fmt.call("verify_listing", recorded) for fmt in FORMATS if fmt.verify_listing is not None]

    def add(self, objects: Sequence[tuple[str, int, Any]]) -> None:
        """Take objects of a listing: key, size, and what tells the state."""
        columns = [list(column) for column in zip(*objects, strict=True)] if objects else ((), (), ())
        for look in self._looks:
            look.add(*columns)

    def findings(self, tree: Tree) -> Iterator[Finding]:
        """Yield what the formats find in them."""
        for look in self._looks:
            for key, message in look.differences(tree.read):
                yield Finding("drift", self._url + key, message)
