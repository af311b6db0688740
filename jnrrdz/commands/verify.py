"""Whether a manifest and its sources still belong together: `verify`.

What is looked at, from cheap to dear: the state of each source against what was recorded, every range against its
source's size, the tables of the files themselves (JNRRD's, docs/formats/jnrrd.md), and chunks by reading them as
their users do, so that whatever would fail for them fails here.
"""

import hashlib
import lzma
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import batched
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import zarr

from jnrrdz import api
from jnrrdz.core.arrays import SHOWN, SourceRecord, html_table
from jnrrdz.core.codecs import TILE, TileConfig
from jnrrdz.core.pyramid import LEVEL_OFFSETS, TILE_CHECKSUMS
from jnrrdz.core.refs import ALL, WHOLE, ChunkRefs, References, Shard, of_shard
from jnrrdz.core.zarr_json import array_from_json
from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError, UntrustedSourceError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.nrrd.decode import TileCoder
from jnrrdz.manifests.documents import ChunkKeys
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.options import Access, StorageOptions
from jnrrdz.redact import hidden, record_repr, redacted
from jnrrdz.sources.base import ObjectState, Validators, seen_in_listing, since_listed, since_scanned
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.tree import Tree, open_tree
from jnrrdz.sources.url import local_path, origin
from jnrrdz.store.group import reference_group
from jnrrdz.store.sources import SourcePool
from jnrrdz.store.store import ReferenceStore

type Kind = Literal["drift", "source", "trust", "range", "table", "checksum", "chunk"]
"""drift: a source changed; source: it cannot be opened; trust: the manifest may not reach it; range: a
reference ends behind its source; table: a file's own tables contradict each other; checksum: stored
bytes are not those that were written; chunk: a chunk cannot be read."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: Kind
    """`drift`, `source`, `trust`, `range`, `table`, `checksum` or `chunk`."""
    place: str
    """The source's URL, or an array's path with the chunk's key."""
    message: str
    """What is wrong, in a sentence."""

    __repr__ = record_repr


@dataclass(frozen=True)
class Verification:
    """What was looked at in a manifest, and what is wrong with it."""

    refs: str
    """The manifest, as you named it."""
    findings: tuple[Finding, ...]
    """What is wrong with it; empty where all is well."""
    sources: int
    """Sources whose state was compared with what the manifest records."""
    ranges: int
    """References that were compared with the size of their source."""
    chunks: int
    """Chunks that were read."""
    checksums: int
    """Tiles whose stored bytes were compared with the checksum that their file gives."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def __repr__(self) -> str:
        counts = f"{self.sources} sources, {self.ranges} ranges, {self.chunks} chunks, {self.checksums} checksums"
        return f"Verification of {hidden(self.refs)}: {len(self.findings)} findings in {counts}"

    def _repr_html_(self) -> str:
        rows = [(finding.kind, hidden(finding.place), finding.message) for finding in self.findings[:SHOWN]]
        return html_table(repr(self), ("what", "where", "finding"), rows)

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON has it."""
        findings = [
            {"kind": found.kind, "place": hidden(found.place), "message": redacted(found.message)}
            for found in self.findings
        ]
        return {"ok": self.ok, **asdict(self), "refs": hidden(self.refs), "findings": findings}


SAMPLE = 8
"""Chunks of every array that are read where not all are."""

MOST = 20
"""Findings for one array; where every chunk fails for one reason, more would tell nothing."""

AT_ONCE = 512
"""Chunks that wait for their turn at the decoders."""

UNREADABLE = (
    JnrrdzError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    OSError,
    EOFError,
    MemoryError,
    zlib.error,
    lzma.LZMAError,
)
"""What codecs raise for bytes that are not theirs: those of other packages too, of which each has its own way."""


def _wanted_chunks(refs: References, lost: frozenset[str], chunks: Iterable[int]) -> Iterator[int]:
    """Yield the numbers of the chunks to read, but for those of sources that are `lost`."""
    trees = tuple(url for url in lost if url.endswith("/"))
    for chunk in chunks:
        ranges = refs.lookup(chunk) if lost else []
        if not isinstance(ranges, list) or not any(url in lost or url.startswith(trees) for url, _, _ in ranges):
            yield chunk


def _sampled(numbers: npt.ArrayLike, sample: int | None) -> npt.NDArray[np.int64]:
    """Return first and last and some between: a file that was cut or overwritten in part shows at either end."""
    every = np.asarray(numbers, np.int64)
    if sample is None or len(every) <= sample:
        return every
    return every[np.unique(np.linspace(0, len(every) - 1, sample).astype(np.int64))]


def chunk_findings(array: "zarr.Array[Any]", keys: ChunkKeys, chunks: Iterator[int]) -> tuple[int, list[Finding]]:
    """Return how many chunks were read, and those that could not be."""

    def failure(chunk: int) -> Exception | None:
        index = np.unravel_index(chunk, keys.grid) if keys.grid else ()
        sides = zip(index, array.chunks, strict=True)
        try:
            array[tuple(slice(int(at) * size, (int(at) + 1) * size) for at, size in sides)]
        except UNREADABLE as error:
            return error
        return None

    findings: list[Finding] = []
    count = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for some in batched(chunks, AT_ONCE):
            count += len(some)
            for chunk, error in zip(some, threads.map(failure, some), strict=True):
                failed += error is not None
                if error is not None and failed <= MOST:
                    message = str(error) or type(error).__name__
                    findings.append(Finding(kind_of(error, "chunk"), keys.key(chunk), message))
    if failed > MOST:
        findings.append(Finding("chunk", keys.prefix, f"{failed - MOST:,} more chunks cannot be read"))
    return count, findings


_UNKNOWN = -1


@dataclass
class RangeComparison:
    """What a look at the references of an array, some at a time, finds; `sizes` are those of the sources."""

    keys: ChunkKeys
    sizes: Mapping[str, int]
    sample: int | None
    """How many chunks are to be read; None for all."""
    compared: int = 0
    beyond: int = 0
    findings: list[Finding] = field(default_factory=list)
    chosen: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Of each part as many chunks as are to be read of all of them."""

    def look(self, first: int, refs: ChunkRefs) -> None:
        """Compare ranges with their source's size; `first` is the number of the first chunk."""
        if self.sample is not None:
            self.chosen.append(first + _sampled(refs.present, self.sample))
        urls, place = refs.spelt(refs.source)
        known = np.array([self.sizes.get(url, _UNKNOWN) for url in urls] or [_UNKNOWN], np.int64)[place]
        whole = refs.length == WHOLE
        # a range to the end of its source needs its first byte only; the sum of the others may not overflow
        last = np.where(whole, refs.offset, refs.offset + np.where(whole, 0, refs.length))
        beyond = np.flatnonzero((known != _UNKNOWN) & (last > known))
        shown = beyond[: max(MOST - self.beyond, 0)]
        chunks = np.searchsorted(refs.indptr, shown, side="right") - 1 + first
        self.findings += [
            Finding(
                "range",
                self.keys.key(int(chunk)),
                f"bytes {refs.offset[row]} to {last[row]} of {urls[place[row]]}, which has {known[row]}",
            )
            for chunk, row in zip(chunks.tolist(), shown.tolist(), strict=True)
        ]
        self.beyond += len(beyond)
        self.compared += int(np.count_nonzero(known != _UNKNOWN))

    def all_findings(self) -> list[Finding]:
        """Return the findings, and how many more there are."""
        more = self.beyond - MOST
        message = f"{more:,} more ranges end behind their source"
        return [*self.findings, *([Finding("range", self.keys.prefix, message)] if more > 0 else ())]

    def sampled(self) -> list[int]:
        """Return the chunks that are to be read."""
        every = np.concatenate([np.empty(0, np.int64), *self.chosen])
        return [int(chunk) for chunk in _sampled(every, self.sample)]


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
    pool.warns = False  # what it would warn of is looked at here
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
    with ThreadPoolExecutor(jobs) as threads:
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
                    drift = _drift(recorded.get(url) or records.get(url), seen_in_listing(size, mark if sized else 0))
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


def _drift(then: ObjectState | SourceRecord | None, now: Validators) -> DriftError | None:
    if then is None:
        return None
    return since_listed(then, now) if isinstance(then, ObjectState) else since_scanned(then, now)


class _NewObjects:
    """The objects of a directory that its manifest does not name, as each format looks at them."""

    def __init__(self, url: str, recorded: Sequence[str]) -> None:
        self._url = url
        self._looks = [fmt.call("verify", recorded) for fmt in FORMATS if fmt.verify is not None]

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


def kind_of(error: Exception, other: Kind) -> Kind:
    """Return what kind of finding an error is; `other` where it is neither drift nor a matter of trust."""
    if isinstance(error, DriftError):
        return "drift"
    return "trust" if isinstance(error, UntrustedSourceError) else other


@dataclass(frozen=True)
class TileChunks:
    """The tiles of one array: which chunk begins with each, and how its bytes stand among the chunk's."""

    store: ReferenceStore
    path: str
    grid: tuple[int, ...]
    """Tiles along each axis; what is left of the last one is further chunks."""

    coder: TileCoder | None

    @classmethod
    def of(cls, store: ReferenceStore, path: str) -> "TileChunks":
        """Return the tiles of an array of a manifest."""
        facts = array_from_json(store.manifest.documents.node(path))
        grid = store.manifest.keys[path].grid
        if facts.codecs[0].name != TILE:
            return cls(store, path, grid, None)
        config = TileConfig.from_json(facts.codecs[0].configuration or {})
        rests = [sum(first > 0 for _, first in axis) for axis in config.axes]
        tiles = tuple(max(chunks - rest, 1) for chunks, rest in zip(grid, rests, strict=True))
        return cls(store, path, tiles, TileCoder(config, facts.chunks, facts.dtype, facts.fill_value))

    def key(self, tile: int) -> str:
        """Return the key of the chunk that begins with a tile."""
        keys = self.store.manifest.keys[self.path]
        return keys.key(int(np.ravel_multi_index(np.unravel_index(tile, self.grid), keys.grid)))

    def stored(self, tile: int) -> memoryview | None:
        """Return the stored bytes of a tile; None where it is missing."""
        found = self.store.get_sync(self.key(tile))
        if found is None:
            return None
        data = memoryview(found.to_bytes())
        return data if self.coder is None else self.coder.stored(data)

    def is_lost(self, tile: int, lost: frozenset[str]) -> bool:
        """Whether a tile is in a source that is known to be wrong."""
        number = self.store.manifest.keys[self.path].number(self.key(tile))
        if number is None or not lost:
            return False
        ranges = self.store.manifest.arrays[self.path].lookup(number)
        return isinstance(ranges, list) and any(url in lost for url, _, _ in ranges)


def checksum_findings(
    store: ReferenceStore, path: str, lost: frozenset[str], sample: int | None, shard: Shard = ALL
) -> tuple[int, list[Finding]]:
    """Return how many tiles were compared with their checksums, and those that differ."""
    sums = (store.manifest.documents.node(path).get("attributes") or {}).get(TILE_CHECKSUMS)
    if not isinstance(sums, list):
        return 0, []
    tiles = TileChunks.of(store, path)
    if math.prod(tiles.grid) != len(sums):
        return 0, [Finding("table", path, f"{len(sums)} checksums for {math.prod(tiles.grid)} tiles")]
    findings: list[Finding] = []
    count = failed = 0
    known = [number for number, digest in enumerate(sums) if isinstance(digest, str)]
    for tile in map(int, _sampled(of_shard(known, shard), sample)):
        if tiles.is_lost(tile, lost):
            continue
        count += 1
        try:
            stored = tiles.stored(tile)
        except JnrrdzError as error:
            message = f"its bytes cannot be told: {error}"
        else:
            digest = sums[tile] if stored is None else hashlib.sha256(stored).hexdigest()
            if digest == sums[tile]:
                continue
            message = f"SHA-256 is {digest}, the header says {sums[tile]}"
        failed += 1
        if failed <= MOST:
            findings.append(Finding("checksum", tiles.key(tile), message))
    if failed > MOST:
        findings.append(Finding("checksum", path, f"{failed - MOST:,} more tiles differ"))
    return count, findings


def table_findings(store: ReferenceStore, lost: frozenset[str]) -> list[Finding]:
    """Return the levels that a header places elsewhere than its table of tiles does."""
    findings: list[Finding] = []
    for path, node in store.manifest.documents.nodes().items():
        attributes = node.get("attributes")
        offsets = attributes.get(LEVEL_OFFSETS) if isinstance(attributes, dict) else None
        folder = f"{path}/".lstrip("/")
        for level, offset in offsets.items() if isinstance(offsets, dict) else ():
            # a level is in its group, or beside the attribute where one level is all there is
            places = (f"{folder}{level}/data", f"{folder}data" if level == "0" else "")
            array = next((place for place in places if place in store.manifest.arrays), None)
            if array is None or TileChunks.of(store, array).is_lost(0, lost):
                continue
            # the first chunk begins with the first tile: nothing stands before that, whatever its kind is
            ranges = store.manifest.arrays[array].lookup(0)
            if isinstance(ranges, list) and ranges and ranges[0][1] != offset:
                message = f"{LEVEL_OFFSETS} says {offset}, the table of tiles {ranges[0][1]}"
                findings.append(Finding("table", array, message))
    return findings


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
    pool = SourcePool(store.manifest, options=access.source_options, allow=access.allow, opener=open_source)
    state = _all_states(store.manifest, pool, access, look)
    if drift:
        return Verification(name, tuple(state.findings), state.asked, 0, 0, 0)
    return _looked_into(store, name, state, look)


@dataclass(frozen=True)
class _Look:
    """What is looked at."""

    drift: bool
    """Nothing but the table of sources."""
    sample: int | None
    """How many chunks of each array are read; None for all."""
    jobs: int
    shard: Shard


def _all_states(manifest: Manifest, pool: SourcePool, access: Access, look: _Look) -> States:
    """Return the state of the sources of a manifest, those of a shard where that is not all of it."""
    is_whole = look.shard == ALL
    urls = () if look.drift else _urls(manifest, look.shard)
    # what is in a shard of the references is what those name
    records = manifest.sources if is_whole else of_shard(manifest.sources, look.shard) if look.drift else ()
    state = states(manifest, pool, urls, look.jobs, times=look.drift, records=records)
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


def _looked_into(store: ReferenceStore, name: str, state: States, look: _Look) -> Verification:
    """Return what is wrong with the references of a manifest, with the tables of its files, and with its chunks."""
    findings = list(state.findings)
    lost = frozenset(finding.place for finding in state.findings)
    looks: dict[str, RangeComparison] = {}
    for path, refs in store.manifest.arrays.items():
        looks[path] = RangeComparison(store.manifest.keys[path], state.sizes, look.sample)
        for first, part in refs.parts(look.shard):
            looks[path].look(first, part)
        findings += looks[path].all_findings()
    wanted = {
        path: seen.sampled() if look.sample is not None else _present(store.manifest.arrays[path], look.shard)
        for path, seen in looks.items()
    }
    chunks, unread = _read_all(store, lost, wanted)
    findings += [*unread, *(table_findings(store, lost) if look.shard[0] == 1 else ())]
    checksums = 0
    for path in store.manifest.arrays:
        compared, differing = checksum_findings(store, path, lost, look.sample, look.shard)
        checksums += compared
        findings += differing
    ranges = sum(seen.compared for seen in looks.values())
    return Verification(name, tuple(findings), state.asked, ranges, chunks, checksums)


def _present(refs: References, shard: Shard) -> Iterator[int]:
    """Yield the chunks that are not missing."""
    for first, part in refs.parts(shard):
        yield from (first + part.present).tolist()


def _read_all(
    store: ReferenceStore, lost: frozenset[str], wanted: Mapping[str, Iterable[int]]
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
        read, failed = chunk_findings(array, store.manifest.keys[path], _wanted_chunks(refs, lost, wanted[path]))
        count += read
        findings += failed
    return count, findings
