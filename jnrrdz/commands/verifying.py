"""Whether a manifest and its sources still belong together: `verify`.

May touch the api, read, sources and errors.  What is looked at, from cheap to dear: the state of each
source against what was recorded, every range against its source's size, the tables of the files
themselves, and chunks by reading them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jnrrdz import api
from jnrrdz.commands import sources
from jnrrdz.commands.chunks import SAMPLE, Wanted, chunk_findings
from jnrrdz.commands.findings import Finding, Verification
from jnrrdz.commands.ranges import range_findings
from jnrrdz.commands.tiles import checksum_findings, table_findings
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.manifests.groups import columnar
from jnrrdz.sources.fsspec import open_source
from jnrrdz.store.group import reference_group
from jnrrdz.store.pool import SourcePool
from jnrrdz.store.store import ReferenceStore

JOBS = 32
"""Sources that are asked for their state at the same time."""

type Options = Mapping[str, Any] | None


def verify(  # noqa: PLR0913  what is looked at, and how the sources are reached
    refs: str | os.PathLike[str],
    *,
    drift: bool = False,
    deep: bool = False,
    sample: int = SAMPLE,
    jobs: int = JOBS,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
) -> Verification:
    """Return what is wrong with a manifest, or with a source that is scanned now.

    With `drift` only the sources' states are compared with those recorded; with `deep` every chunk is
    read, else `sample` of each array.
    """
    name = os.fspath(refs)
    if sample < 0 or jobs < 1:
        raise UnsupportedError(f"sample {sample} and jobs {jobs}; they are at least 0 and 1", field="sample, jobs")
    store = api.open_stored(name, allow=allow, storage_options=storage_options, source_options=source_options)
    manifest = store.manifest
    columns = {} if drift else {path: columnar(found) for path, found in manifest.arrays.items()}
    pool = SourcePool(manifest, options=source_options, allow=allow, opener=open_source)
    state = sources.states(manifest, pool, _urls(columns), jobs, times=drift)
    if columns and any(record.url.endswith("/") for record in manifest.sources):
        listed = sources.tree_sizes(manifest, _urls(columns), source_options, tuple(allow))
        state.sizes.update(listed.sizes)
        state.findings += listed.findings
        state.asked += listed.asked
    findings = list(state.findings)
    ranges = 0
    for path, found in columns.items():
        compared, beyond = range_findings(manifest.arrays[path].keys, found, state.sizes)
        ranges += compared
        findings += beyond
    lost = frozenset(finding.place for finding in state.findings)
    if drift:
        return Verification(name, tuple(findings), state.asked, 0, 0, 0)
    wanted = None if deep else sample
    chunks, unread = _read(store, lost, wanted)
    checksums, others = _compared(store, lost, wanted)
    return Verification(name, tuple(findings + unread + others), state.asked, ranges, chunks, checksums)


def _urls(columns: Mapping[str, ChunkRefs]) -> Iterator[str]:
    for refs in columns.values():
        yield from refs.spelt(refs.source)[0]


def _read(store: ReferenceStore, lost: frozenset[str], sample: int | None) -> tuple[int, list[Finding]]:
    """Return how many chunks of all arrays were read, and what those that could not be raise."""
    count = 0
    findings: list[Finding] = []
    group = reference_group(store)
    for path, refs in store.manifest.arrays.items():
        read, failed = _read_array(group, path, Wanted(refs, lost, sample))
        count += read
        findings += failed
    return count, findings


def _compared(store: ReferenceStore, lost: frozenset[str], sample: int | None) -> tuple[int, list[Finding]]:
    """Return how many tiles were compared with checksums, and what a file's own tables say that is not so."""
    findings = table_findings(store, lost)
    count = 0
    for path in store.manifest.arrays:
        compared, differing = checksum_findings(store, path, lost, sample)
        count += compared
        findings += differing
    return count, findings


def _read_array(group: Any, path: str, wanted: Wanted) -> tuple[int, list[Finding]]:
    try:
        array = group[path]
    except (JnrrdzError, ValueError, KeyError, TypeError) as error:  # a codec that is not installed, say
        return 0, [Finding("chunk", path, f"the array cannot be opened: {error}")]
    return chunk_findings(array, wanted)
