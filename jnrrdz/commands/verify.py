"""Whether a manifest and its sources still belong together: `verify`.

What is looked at, from cheap to dear: the state of each source against what was recorded, every range against its
source's size, the tables that files of a format have (`Format.verify_tables`), and chunks by reading them as
their users do, so that whatever would fail for them fails here.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz import api
from jnrrdz.commands.verification import MOST, Finding, Verification
from jnrrdz.commands.verify_chunks import RangeComparison, chunk_findings, readable_chunks, sampled
from jnrrdz.commands.verify_sources import States, states, tree_states
from jnrrdz.core.refs import ALL, ByteRange, References, Shard, of_shard
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.verification import StoredArray
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.options import Access, StorageOptions
from jnrrdz.store.group import reference_group
from jnrrdz.store.store import ReferenceStore

SAMPLE = 8
"""Chunks of every array that are read where not all are."""

JOBS = 32
"""Sources that are asked for their state at the same time."""


def verify(  # noqa: PLR0913  what is looked at
    refs: str | os.PathLike[str],
    *,
    drift: bool = False,
    deep: bool = False,
    sample: int = SAMPLE,
    jobs: int = JOBS,
    shard: Shard = ALL,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> Verification:
    """Return what is wrong with a manifest, or with a source that is scanned now.

    Parameters
    ----------
    refs
        The path or URL of a manifest or of a source.
    drift
        Compare the sources' states with those recorded, and no more.
    deep
        Read every chunk, and compare every checksum.
    sample
        How many chunks of each array are read without `deep`.
    jobs
        How many requests are under way at once.
    shard
        Which of how many parts of the references is looked at, `(1, 4)` the first of four, with the sources that
        it names; with `drift`, which part of the table of sources.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    name = os.fspath(refs)
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    if sample < 0 or jobs < 1:
        raise UnsupportedError(f"sample {sample} and jobs {jobs}; they are at least 0 and 1", field="sample, jobs")
    if not 1 <= shard[0] <= shard[1]:
        raise UnsupportedError(f"shard {shard}; the first of four is (1, 4)", field="shard")
    look = _Look(drift, None if deep else sample, jobs, shard)
    store = api.open_stored(name, access=access)
    state = _all_states(store, access, look)
    if drift:
        return Verification(name, tuple(state.findings), state.asked, 0, 0, 0)
    return _compared(store, name, state, look)


@dataclass(frozen=True)
class _Look:
    """What is looked at."""

    drift: bool
    """Nothing but the table of sources."""
    sample: int | None
    """How many chunks of each array are read; None for all."""
    jobs: int
    shard: Shard


def _all_states(store: ReferenceStore, access: Access, look: _Look) -> States:
    """Return the state of the sources of a manifest, those of a shard where that is not all of it."""
    manifest = store.manifest
    is_whole = look.shard == ALL
    urls = () if look.drift else _urls(manifest, look.shard)
    # what is in a shard of the references is what those name
    records = manifest.sources if is_whole else of_shard(manifest.sources, look.shard) if look.drift else ()
    state = states(manifest, store.pool, urls, look.jobs, times=look.drift, records=records)
    if manifest.trees:
        if not is_whole:
            raise UnsupportedError("a container has one listing and is verified whole; leave out --shard")
        columns = {path: refs.stored() for path, refs in manifest.arrays.items()}
        listed = tree_states(manifest, columns, access, times=look.drift)
        state.sizes.update(listed.sizes)
        state.findings += listed.findings
        state.asked += listed.asked
    return state


def _urls(manifest: Manifest, shard: Shard) -> Iterator[str]:
    for refs in manifest.arrays.values():
        for _, part in refs.parts(shard):
            yield from part.spelt(part.source)[0]


def _compared(store: ReferenceStore, name: str, state: States, look: _Look) -> Verification:
    """Return what is wrong with the references of a manifest, with the tables of its files, and with its chunks."""
    findings = list(state.findings)
    lost = frozenset(finding.place for finding in state.findings)
    chunks: dict[str, Iterable[int]] = {}
    ranges = 0
    for path, refs in store.manifest.arrays.items():
        comparison = RangeComparison(store.manifest.keys[path], state.sizes, look.sample)
        for first, part in refs.parts(look.shard):
            comparison.look(first, part)
        findings += comparison.all_findings()
        ranges += comparison.compared
        if look.sample is None:
            chunks[path] = _present(refs, look.shard)
        else:
            chunks[path] = comparison.sampled()
    count, unread = _read_all(store, lost, chunks)
    checksums, differing = _table_findings(store, lost, look)
    findings += [*unread, *differing]
    return Verification(name, tuple(findings), state.asked, ranges, count, checksums)


def _present(refs: References, shard: Shard) -> Iterator[int]:
    """Yield the chunks that are not missing."""
    for first, part in refs.parts(shard):
        yield from (first + part.present).tolist()


def _read_all(
    store: ReferenceStore, lost: frozenset[str], chunks: Mapping[str, Iterable[int]]
) -> tuple[int, list[Finding]]:
    """Return how many chunks of all arrays were read, and what those that could not be raise."""
    count = 0
    findings: list[Finding] = []
    group: Any = reference_group(store)
    for path, refs in store.manifest.arrays.items():
        try:
            array = group[path]
        except (JnrrdzError, ValueError, KeyError, TypeError) as error:  # a codec that is not installed, say
            findings.append(Finding("chunk", path, f"the array cannot be opened: {error}"))
            continue
        readable = readable_chunks(refs, lost, chunks[path])
        read, failed = chunk_findings(array, store.manifest.keys[path], readable)
        count += read
        findings += failed
    return count, findings


def _table_findings(store: ReferenceStore, lost: frozenset[str], look: _Look) -> tuple[int, list[Finding]]:
    """Return how many parts of chunks were compared with checksums of their files, and what the tables contradict."""
    manifest = store.manifest
    nodes = manifest.documents.nodes()
    arrays = {path: _stored_array(store, path, lost) for path in manifest.arrays}
    count = 0
    findings: list[Finding] = []
    for form in FORMATS:
        if form.verify_tables is None:
            continue
        tables = form.call("verify_tables", nodes, arrays)
        if look.shard[0] == 1:
            findings += [Finding("table", path, message) for path, message in tables.contradictions()]
        for path, tiles in tables.checked_chunks().items():
            readable = list(readable_chunks(manifest.arrays[path], lost, of_shard(list(tiles), look.shard)))
            failed = 0
            for chunk in sampled(readable, look.sample).tolist():
                count += 1
                try:
                    message = tables.difference(path, chunk, tiles[chunk])
                except JnrrdzError as error:
                    message = f"its bytes cannot be read: {error}"
                failed += message is not None
                if message is not None and failed <= MOST:
                    findings.append(Finding("checksum", manifest.keys[path].key(chunk), message))
            if failed > MOST:
                findings.append(Finding("checksum", path, f"{failed - MOST:,} more tiles differ"))
    return count, findings


def _stored_array(store: ReferenceStore, path: str, lost: frozenset[str]) -> StoredArray:
    """Return an array as the checks of formats read it."""
    refs, keys = store.manifest.arrays[path], store.manifest.keys[path]

    def ranges(chunk: int) -> list[ByteRange]:
        found = refs.lookup(chunk)
        if isinstance(found, bytes) or any(url in lost for url, _, _ in found):
            return []
        return found

    def read(chunk: int) -> bytes | None:
        data = store.get_sync(keys.key(chunk))
        return None if data is None else data.to_bytes()

    return StoredArray(store.manifest.documents.node(path), keys.grid, ranges, read)
