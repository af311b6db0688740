"""What a verification found: one record for each thing that is wrong, and the sum of it.

May touch nothing.

Whether chunks can be read: a few of every array, or all of them.

May touch zarr's arrays and errors.  A chunk is read as its users read it, so that whatever would fail
for them fails here: a source that cannot be reached, bytes that are cut, a codec that is missing.

Whether every range of an array's references lies inside of its source.

May touch numpy, the model, and read's columns.  All ranges are looked at together: a million take
some milliseconds.

Whether the sources of a manifest are what they were when it was written, and how long they are.

May touch sources, read's pool and manifests, and errors.  A source is asked for its state once, many
at a time; the files of a container (N5) are known from its listing and never asked for one by one.

Whether stored tiles are those that were written, and whether a file's own tables agree: JNRRD's.

May touch read's store, the model, the pure codec of tiles and errors.  Attributes as docs/formats/jnrrd.md
tells them: `tile_checksums` of a level's array, `level_offsets` of the group above.

Whether a manifest and its sources still belong together: `verify`.

May touch the api, read, sources and errors.  What is looked at, from cheap to dear: the state of each
source against what was recorded, every range against its source's size, the tables of the files
themselves, and chunks by reading them.
"""

import hashlib
import json
import lzma
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import batched
from typing import Any, Literal

import numpy as np
import zarr

from jnrrdz import api
from jnrrdz.core.arrays import SHOWN, html_table
from jnrrdz.core.codecs import TILE, TileConfig
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.zarr_json import ZARR_JSON, array_from_json
from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError, UntrustedSourceError, redacted
from jnrrdz.formats.nrrd.decode import TileCoder
from jnrrdz.manifests.columns import ArrayRefs
from jnrrdz.manifests.documents import ChunkKeys
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.manifests.trust import Trust
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.tree import open_tree
from jnrrdz.sources.url import origin
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
    place: str
    """The source's URL, or an array's path with the chunk's key."""
    message: str


@dataclass(frozen=True)
class Verification:
    """What was looked at in a manifest, and what is wrong with it."""

    refs: str
    findings: tuple[Finding, ...]
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
        return f"Verification of {redacted(self.refs)}: {len(self.findings)} findings in {counts}"

    def _repr_html_(self) -> str:
        rows = [(finding.kind, finding.place, finding.message) for finding in self.findings[:SHOWN]]
        return html_table(repr(self), ("what", "where", "finding"), rows)

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON has it."""
        return {"ok": self.ok, **asdict(self), "findings": [asdict(finding) for finding in self.findings]}


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


@dataclass(frozen=True)
class Wanted:
    """Which chunks of an array are to be read."""

    refs: ArrayRefs
    lost: frozenset[str]
    """Sources that are known to be wrong: their chunks would only say so again."""
    sample: int | None
    """How many chunks; None for all of them."""

    def chunks(self) -> Iterator[int]:
        """Yield the numbers of the chunks."""
        present = self.refs.present()
        if self.sample is not None and len(present) > self.sample:
            # first and last, and some between: a file that was cut or overwritten in part shows at either end
            present = present[np.unique(np.linspace(0, len(present) - 1, self.sample).astype(np.int64))]
        for some in batched(present, AT_ONCE):
            yield from (int(chunk) for chunk in some if not self.lost or not self._is_lost(int(chunk)))

    def _is_lost(self, chunk: int) -> bool:
        found = self.refs.lookup(chunk)
        trees = tuple(place for place in self.lost if place.endswith("/"))
        return isinstance(found, list) and any(url in self.lost or url.startswith(trees) for url, _, _ in found)


def chunk_findings(array: "zarr.Array[Any]", wanted: Wanted) -> tuple[int, list[Finding]]:
    """Return how many chunks were read, and those that could not be."""
    findings: list[Finding] = []
    count = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for some in batched(wanted.chunks(), AT_ONCE):
            count += len(some)
            for found in _failures(threads, array, wanted.refs, some):
                failed += 1
                if failed <= MOST:
                    findings.append(found)
    if failed > MOST:
        findings.append(Finding("chunk", wanted.refs.keys.prefix, f"{failed - MOST:,} more chunks cannot be read"))
    return count, findings


def _failures(
    threads: ThreadPoolExecutor, array: "zarr.Array[Any]", refs: ArrayRefs, chunks: tuple[int, ...]
) -> Iterator[Finding]:
    for chunk, error in zip(chunks, threads.map(lambda one: _failure(array, refs, one), chunks), strict=True):
        if error is not None:
            yield Finding(_kind(error), refs.keys.key(chunk), str(error) or type(error).__name__)


def _failure(array: "zarr.Array[Any]", refs: ArrayRefs, chunk: int) -> Exception | None:
    """Return what reading one chunk raises."""
    index = np.unravel_index(chunk, refs.keys.grid) if refs.keys.grid else ()
    region = tuple(slice(int(at) * size, (int(at) + 1) * size) for at, size in zip(index, array.chunks, strict=True))
    try:
        array[region]
    except UNREADABLE as error:
        return error
    return None


def _kind(error: Exception) -> Kind:
    if isinstance(error, DriftError):
        return "drift"
    return "trust" if isinstance(error, UntrustedSourceError) else "chunk"


_UNKNOWN = -1


def range_findings(keys: ChunkKeys, refs: ChunkRefs, sizes: Mapping[str, int]) -> tuple[int, list[Finding]]:
    """Return how many ranges were compared with their source's size, and those that end behind it."""
    urls, place = refs.spelt(refs.source)
    known = np.array([sizes.get(url, _UNKNOWN) for url in urls] or [_UNKNOWN], np.int64)[place]
    whole = refs.length == WHOLE
    # a range to the end of its source needs its first byte only; the sum of the others may not overflow
    last = np.where(whole, refs.offset, refs.offset + np.where(whole, 0, refs.length))
    beyond = np.flatnonzero((known != _UNKNOWN) & (last > known))
    chunks = np.searchsorted(refs.indptr, beyond[:MOST], side="right") - 1
    findings = [
        Finding(
            "range",
            keys.key(int(chunk)),
            f"bytes {refs.offset[row]} to {last[row]} of {urls[place[row]]}, which has {known[row]}",
        )
        for chunk, row in zip(chunks.tolist(), beyond[:MOST].tolist(), strict=True)
    ]
    if len(beyond) > MOST:
        findings.append(Finding("range", keys.prefix, f"{len(beyond) - MOST:,} more ranges end behind their source"))
    return int(np.count_nonzero(known != _UNKNOWN)), findings


SOURCES_AT_ONCE = 256
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
    for some in batched(urls, SOURCES_AT_ONCE):
        yield from zip(some, threads.map(work, some), strict=True)


CHECKSUMS, LEVEL_OFFSETS = "tile_checksums", "level_offsets"


@dataclass(frozen=True)
class Tiles:
    """The tiles of one array: which chunk begins with each, and how its bytes stand among the chunk's."""

    store: ReferenceStore
    path: str
    grid: tuple[int, ...]
    """Tiles along each axis; what is left of the last one is further chunks."""

    coder: TileCoder | None

    @classmethod
    def of(cls, store: ReferenceStore, path: str) -> "Tiles":
        """Return the tiles of an array of a manifest."""
        facts = array_from_json(_document(store, path))
        grid = store.manifest.arrays[path].keys.grid
        if facts.codecs[0].name != TILE:
            return cls(store, path, grid, None)
        config = TileConfig.from_json(facts.codecs[0].configuration or {})
        rests = [sum(first > 0 for _, first in axis) for axis in config.axes]
        tiles = tuple(max(chunks - rest, 1) for chunks, rest in zip(grid, rests, strict=True))
        return cls(store, path, tiles, TileCoder(config, facts.chunks, facts.dtype, facts.fill_value))

    def key(self, tile: int) -> str:
        """Return the key of the chunk that begins with a tile."""
        keys = self.store.manifest.arrays[self.path].keys
        return keys.key(int(np.ravel_multi_index(np.unravel_index(tile, self.grid), keys.grid)))

    def stored(self, tile: int) -> memoryview | None:
        """Return the stored bytes of a tile; None where it is missing."""
        found = self.store.get_sync(self.key(tile))
        if found is None:
            return None
        data = memoryview(found.to_bytes())
        return data if self.coder is None else self.coder.stored(data)


def checksum_findings(
    store: ReferenceStore, path: str, lost: frozenset[str], sample: int | None
) -> tuple[int, list[Finding]]:
    """Return how many tiles were compared with their checksums, and those that differ."""
    sums = (_document(store, path).get("attributes") or {}).get(CHECKSUMS)
    if not isinstance(sums, list):
        return 0, []
    tiles = Tiles.of(store, path)
    if math.prod(tiles.grid) != len(sums):
        return 0, [Finding("table", path, f"{len(sums)} checksums for {math.prod(tiles.grid)} tiles")]
    findings: list[Finding] = []
    count = failed = 0
    for tile in _wanted(sums, sample):
        if _is_lost(tiles, tile, lost):
            continue
        message = _difference(tiles, tile, sums[tile])
        count += 1
        failed += message is not None
        if message is not None and failed <= MOST:
            findings.append(Finding("checksum", tiles.key(tile), message))
    if failed > MOST:
        findings.append(Finding("checksum", path, f"{failed - MOST:,} more tiles differ"))
    return count, findings


def table_findings(store: ReferenceStore, lost: frozenset[str]) -> list[Finding]:
    """Return the levels that a header places elsewhere than its table of tiles does."""
    findings: list[Finding] = []
    for key, text in store.manifest.documents.items():
        if key.rpartition("/")[2] != ZARR_JSON or LEVEL_OFFSETS.encode() not in text:
            continue
        offsets = (json.loads(text).get("attributes") or {}).get(LEVEL_OFFSETS)
        if isinstance(offsets, dict):
            findings += _misplaced(store, key[: -len(ZARR_JSON)], offsets, lost)
    return findings


def _misplaced(
    store: ReferenceStore, folder: str, offsets: Mapping[str, Any], lost: frozenset[str]
) -> Iterator[Finding]:
    for level, told in offsets.items():
        path = _array_path(store, folder, level)
        if path is None:
            continue
        tiles = Tiles.of(store, path)
        if _is_lost(tiles, 0, lost):
            continue
        # the first chunk begins with the first tile: nothing stands before that, whatever its kind is
        found = store.manifest.arrays[path].lookup(0)
        if isinstance(found, list) and found and found[0][1] != told:
            yield Finding("table", path, f"{LEVEL_OFFSETS} says {told}, the table of tiles {found[0][1]}")


def _array_path(store: ReferenceStore, folder: str, level: str) -> str | None:
    """Return the array of a level: in its group, or beside the attribute where one level is all there is."""
    for path in (f"{folder}{level}/data", f"{folder}data" if level == "0" else ""):
        if path in store.manifest.arrays:
            return path
    return None


def _document(store: ReferenceStore, path: str) -> dict[str, Any]:
    return store.manifest.documents.node(path)


def _wanted(sums: list[Any], sample: int | None) -> list[int]:
    known = [tile for tile, one in enumerate(sums) if isinstance(one, str)]
    if sample is None or len(known) <= sample:
        return known
    return [known[place] for place in np.unique(np.linspace(0, len(known) - 1, sample).astype(np.int64)).tolist()]


def _is_lost(tiles: Tiles, tile: int, lost: frozenset[str]) -> bool:
    """Whether a tile is in a source that is known to be wrong."""
    refs = tiles.store.manifest.arrays[tiles.path]
    number = refs.keys.number(tiles.key(tile))
    found = [] if number is None or not lost else refs.lookup(number)
    return isinstance(found, list) and any(url in lost for url, _, _ in found)


def _difference(tiles: Tiles, tile: int, expected: str) -> str | None:
    try:
        stored = tiles.stored(tile)
    except JnrrdzError as error:
        return f"its bytes cannot be told: {error}"
    if stored is None:
        return None
    found = hashlib.sha256(stored).hexdigest()
    return None if found == expected else f"SHA-256 is {found}, the header says {expected}"


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
    columns = {} if drift else {path: refs.columnar() for path, refs in manifest.arrays.items()}
    pool = SourcePool(manifest, options=source_options, allow=allow, opener=open_source)
    state = states(manifest, pool, _urls(columns), jobs, times=drift)
    if columns and any(record.url.endswith("/") for record in manifest.sources):
        listed = tree_sizes(manifest, _urls(columns), source_options, tuple(allow))
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
