"""A batch from beginning to end: what is found becomes jobs, workers do them, outcomes are counted and told.

The process that runs this holds no more of a source than its name.  Where all sources become one output along an
axis, workers return manifests, which are kept on the disk and put together by one writer at the end; a source that
failed is left out (docs/decisions/004-merge.md).
"""

import json
import os
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from xxhash import xxh3_128_intdigest

from jnrrdz import commands
from jnrrdz.batches.executors import Ahead, cores, in_processes, in_threads, on_cluster
from jnrrdz.batches.item import Found, Job, JobState, Outcome, Template, exists
from jnrrdz.batches.selection import Selection
from jnrrdz.batches.work import Plan, failed
from jnrrdz.core.coordinate import rule_of
from jnrrdz.core.tree import SHOWN, html_table
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.scanning import literal
from jnrrdz.manifests import turns
from jnrrdz.manifests.atomic import lock_file_of, sweep_folder
from jnrrdz.manifests.manifest import format_of
from jnrrdz.manifests.trust import check_named
from jnrrdz.options import (
    Access,
    BatchOptions,
    Codecs,
    ItemRules,
    MergeOptions,
    PrecinctWindows,
    ScanOptions,
    StorageOptionsOf,
    WriteOptions,
)
from jnrrdz.redact import bare, hidden, redacted
from jnrrdz.sources.url import is_same, local_path, origin

if TYPE_CHECKING:
    from jnrrdz.commands.merge import Merged
    from jnrrdz.commands.stac_collection import CollectionWriter


@dataclass
class Together:
    """Takes the manifests of a batch, in any order, to make one output of them along an axis."""

    plan: Plan
    axis: MergeOptions
    output: str
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="jnrrdz-batch-")
    )
    _urls: dict[int, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what makes no sense for one output, before anything is read."""
        if self.plan.work.resume:
            raise UnsupportedError("resume is for an output for each source; --concat-dim has one", field="--resume")
        if self.axis.coord_from is not None:
            rule_of(self.axis.coord_from)
        if not self.plan.form.overwrite and exists(self.output, self.plan.work.output_options(self.output)):
            raise JnrrdzError("exists already; --overwrite (overwrite=True) replaces it", url=self.output)

    def add(self, outcome: Outcome) -> None:
        """Keep a source's manifest."""
        if outcome.manifest is not None:
            number = outcome.job.number
            self._place(number).write_bytes(outcome.manifest)
            self._urls[number] = literal(outcome.job.found.url)

    def merge(self) -> "Merged":
        """Write the one manifest, of the sources in the order in which they were found."""
        if not self._urls:
            raise JnrrdzError("no source could be read, so there is nothing to put together", url=self.output)
        numbers = sorted(self._urls)
        first = self._urls[numbers[0]]
        source, target = self.plan.work.source_options(first), self.plan.work.output_options(self.output)
        if target is None and origin(first) is None and (self.plan.form.format or format_of(self.output)) == "icechunk":
            target = source  # a repository takes its sources' endpoint too
        return commands.merge.merged(
            [self._place(number) for number in numbers],
            self.output,
            # what was just read needs no look; some sources need the query that manifests leave out
            replace(self.axis, names=[self._urls[number] for number in numbers], check=False),
            replace(self.plan.form, target_options=target),
            # they are our own, and name what was just read; by their origins the sources get the same headers
            Access(allow=("*", *self._origins()), source_options=source),
        )

    def _origins(self) -> list[str]:
        """Return the origins of sources over HTTP, as `allow` takes them."""
        found = filter(None, {origin(url) for url in self._urls.values()})
        return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/" for scheme, host, port in sorted(found)]

    def close(self) -> None:
        """Remove what was kept."""
        self._folder.cleanup()

    def _place(self, number: int) -> Path:
        return Path(self._folder.name) / f"{number:09}.json"


FEW = 128
"""Sources for which starting processes takes longer than the work."""

FEWEST_GUESTS = 4
"""Worker processes for parsers of other libraries: they may wait for servers."""

GUESTS_EACH = 2
"""Those of each process, where several share the work."""


type Tell = Callable[[Outcome, "Batch"], None]
"""Is told how a job ended, and of the batch so far."""


@dataclass
class Batch:
    """What a batch did."""

    ok: int = 0
    """How many sources were indexed."""
    skipped: int = 0
    """How many had a manifest that is up to date."""
    empty: int = 0
    """How many hold no image, so that there is nothing to index."""
    failed: int = 0
    """How many could not be indexed."""
    planned: int = 0
    """How many a dry run would have indexed."""
    requests: int = 0
    """Range requests that reading the headers took."""
    bytes_read: int = 0
    """Bytes that these requests brought."""
    chunks: int = 0
    """Chunks that the new manifests refer to."""
    items: int = 0
    """STAC items that were written."""
    seconds: float = 0.0
    """How long the batch took."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Files of folders that were not taken because of their names: how many by their ending."""
    left_out: tuple[str, ...] = ()
    """Of one output for all: what did not fit, with the reasons."""
    listed: int = 0
    """How many sources there are, as far as is known."""
    all_listed: bool = False
    """Whether there will be no more."""
    stopped: str | None = None
    """Why it ended before all was done."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    """The first hundred, as a report has them."""

    @property
    def total(self) -> int:
        """How many sources have an outcome."""
        return self.ok + self.skipped + self.empty + self.failed + self.planned

    def __repr__(self) -> str:
        counts = f"{self.ok} ok, {self.skipped} skipped, {self.failed} failed, {self.planned} planned"
        counts += f", {self.empty} without an image" if self.empty else ""
        return f"Batch: {counts}, {self.seconds:.1f} s" + (f"; stopped: {self.stopped}" if self.stopped else "")

    def _repr_html_(self) -> str:
        rows = [(line.get("source"), line.get("message")) for line in self.failures[:SHOWN]]
        return html_table(repr(self), ("failed", "why"), rows)

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        setattr(self, outcome.state.value, getattr(self, outcome.state.value) + 1)
        self.requests += outcome.requests
        self.bytes_read += outcome.nbytes
        self.chunks += outcome.chunks
        if outcome.state is JobState.FAILED and len(self.failures) < 100:  # noqa: PLR2004  told above
            self.failures.append(redacted_record(outcome))


def redacted_record(outcome: Outcome) -> dict[str, Any]:
    """Return a report's line, without the credentials that URLs may carry."""
    return {
        name: hidden(value) if name in {"source", "output"} else redacted(value) if isinstance(value, str) else value
        for name, value in outcome.record().items()
    }


class Jobs:
    """What is found, with an output for each; what can have none is refused in its place."""

    def __init__(
        self,
        template: Template,
        keep_query: Sequence[str] = (),
        allow: Sequence[str] = (),
        *,
        together: bool = False,
        report: str | os.PathLike[str] | None = None,
    ) -> None:
        self.template = template
        self.items = False
        """Whether each has a STAC item, whose name is its own."""
        self.keep_query = keep_query
        self.allow = allow
        self._report = None if report is None else os.fspath(report)
        self.together = together
        """Whether all sources become one output."""
        self._refused: deque[Outcome] = deque()
        self._outputs: set[int] = set()
        self._folders: set[str] = set()

    def of(self, found: Iterator[Found]) -> Iterator[Job]:
        """Yield a job for each source."""
        for number, source in enumerate(found):
            try:
                yield self._job(source, number)
            except JnrrdzError as error:
                self._refused.append(failed(Outcome(Job(number, source, ""), JobState.FAILED), error))

    def refusals(self) -> Iterator[Outcome]:
        """Yield the outcomes of what has been refused since the last time."""
        while self._refused:
            yield self._refused.popleft()

    def _job(self, found: Found, number: int) -> Job:
        if found.named_by:
            found = found._replace(url=check_named(found.named_by, found.url, self.allow))
        output = self.template.filled(found, number)
        own, place = local_path(found.url), local_path(output)
        if place is not None:
            if own is not None and is_same(own, place):
                raise UnrepresentableError("the manifest would replace its own source", url=found.url)
            if self._report is not None and is_same(place, self._report):
                raise UnrepresentableError("the report goes there", url=output)
        name = bare(found.url, self.keep_query) if self.together else output.rstrip("/")
        digest = _digest(name)
        if digest in self._outputs:
            reason = f"another source has the same output, {output}; {{path}} or {{index}} tells them apart"
            if self.together:
                reason = (
                    "only its query tells it from another source; --keep-query NAME (keep_query=('NAME',)) keeps it"
                )
            raise UnrepresentableError(reason, url=found.url)
        self._outputs.add(digest)
        if self.together:
            return Job(number, found, output)
        self._folders.add(name[: name.rfind("/") + 1])
        return Job(number, found, output, item=self._named(found, output) if self.items else "")

    def _named(self, found: Found, output: str) -> str:
        """Return the name of an item, which no other has."""
        name = self.template.short(output)
        digest = _digest(f"item {name}")
        if digest in self._outputs:
            raise UnrepresentableError(f"another source has the same name of an item, {name}", url=found.url)
        self._outputs.add(digest)
        return name

    def remove_leftovers(self) -> None:
        """Remove what a run that was killed, or a worker of this one, left half written beside the outputs."""
        for folder in tuple(self._folders):  # where the batch was stopped, one more may be listed meanwhile
            place = local_path(folder or ".")
            if place is not None and os.path.isdir(place):  # noqa: PTH112  the path is literal
                sweep_folder(place)


def _digest(text: str) -> int:
    return xxh3_128_intdigest(text.encode("utf-8", "surrogateescape"))


def batch(  # noqa: PLR0913  the signature is the documentation
    sources: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    on_outcome: Tell | None = None,
    jobs: int = 64,
    processes: int | None = None,
    scheduler: str | None = None,
    retries: int = 3,
    timeout: float | None = None,
    max_errors: int | None = None,
    fail_fast: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    report: str | os.PathLike[str] | None = None,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    format: str | None = None,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    keep_query: Sequence[str] = (),
    stac_out: str | os.PathLike[str] | None = None,
    datetime: str | None = None,
    time_from: str | None = None,
    band_from: str | None = None,
    collection: str = "",
    concat_dim: str = "",
    coord_from: str | None = None,
    keep_order: bool = False,
    skip_mismatched: bool = False,
    allow: Sequence[str] = (),
    storage_options: StorageOptionsOf = None,
    target_options: StorageOptionsOf = None,
) -> Batch:
    """Index many sources, each to the output that the template `out` names, and return what was done.

    Parameters
    ----------
    sources
        Paths, URLs, patterns, prefixes or lists, as `jnrrdz batch` takes them.
    out
        The name of the outputs, with placeholders such as `{stem}` and `{path}`.
    selection
        What says more of the sources than their names do: lists, STAC, patterns, a shard.
    on_outcome
        Called with each `Outcome`.
    jobs
        Sources under way at once.
    processes
        Processes that share the work: by default one for each core, and one for few
        sources.
    scheduler
        The URL of a dask.distributed scheduler to work on, or `local`.
    retries
        How often a source is tried again after a failure that may pass.
    timeout
        Seconds for each source.
    max_errors
        Stop when this many sources have failed.
    fail_fast
        Stop at the first failure.
    resume
        Skip outputs of the same source, as it is now, with the same options.
    dry_run
        Write nothing; the outcomes name what would be written.
    report
        A local file that gets a line of JSON for each source.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    format
        `json`, `parquet` or `icechunk`; by default by the ending of the output's name,
        else `json`.
    single_range
        Refer to scattered chunks by the span that holds them: one range for every
        chunk.
    relative
        Write the sources' URLs relative to the manifest.
    overwrite
        Replace a manifest that exists.
    keep_query
        Query parameters that name the file and are no secret, which the manifest then
        records; `*` for all. By default only versions of objects are recorded
        (`versionId`, `generation`).
    stac_out
        A folder for STAC items and their collection, or a file that ends in `.ndjson`
        for items on a line each.
    datetime
        When the images were taken: a time, or two with a slash between them.
    time_from
        Where that is recorded: a regular expression whose one group finds it in the
        source's name, `metadata`, or `modified` for the time at which the file was
        changed; by default a STAC item's properties, else the metadata.
    band_from
        A regular expression whose one group finds, in the source's name, the band of an
        image of one band.
    collection
        The id of the collection that the items belong to; by default the name of the
        folder or file that they are written to.
    concat_dim
        Put all sources together along this axis, as `jnrrdz.merge` does; `out` is then
        one output. By default each source has its own.
    coord_from
        As for `jnrrdz.merge`; names are the sources' URLs.
    keep_order
        As for `jnrrdz.merge`.
    skip_mismatched
        As for `jnrrdz.merge`.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the sources, or a function of a URL that returns them; it
        has to pickle.
    target_options
        The same for the outputs.
    """
    work = BatchOptions(
        jobs=jobs,
        processes=processes,
        scheduler=scheduler,
        retries=retries,
        timeout=timeout,
        max_errors=max_errors,
        fail_fast=fail_fast,
        resume=resume,
        dry_run=dry_run,
        report=report,
        stac_out=stac_out,
        allow=allow,
        storage_options=storage_options,
        target_options=target_options,
    )
    axis = MergeOptions(
        concat_dim=concat_dim,
        coord_from=coord_from,
        keep_order=keep_order,
        skip_mismatched=skip_mismatched,
    )
    scan = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    form = WriteOptions(
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        keep_query=keep_query,
    )
    rules = ItemRules(
        datetime=datetime,
        time_from=time_from,
        band_from=band_from,
        collection=collection,
    )
    output = os.fspath(out)
    if form.single_range or (form.format or format_of(output)) == "icechunk":
        scan = scan.whole_tiles()
    is_one = bool(axis.concat_dim)
    chosen = selection or Selection([sources] if isinstance(sources, str) else list(sources))
    catalog = _catalog(rules, work, form, together=is_one)
    items = None if catalog is None else rules
    plan = Plan(scan, form, work, since=chosen.earliest, collect=is_one, threads=work.jobs, items=items)
    plans = Jobs(Template(output), form.keep_query, work.allow, together=is_one, report=work.report)
    plans.items = catalog is not None
    with nullcontext() if work.report is None else _report(os.fspath(work.report)) as lines:
        together = Together(plan, axis, output) if is_one and not work.dry_run else None
        return _Run(plan, chosen, plans, together, on_outcome, catalog).run(lines)


def _catalog(rules: ItemRules, work: BatchOptions, form: WriteOptions, *, together: bool) -> "CollectionWriter | None":
    """Return what writes STAC items, None where none are asked for."""
    if work.stac_out is None:
        if rules != ItemRules():
            raise UnsupportedError(
                "says something of STAC items; --stac-out writes some", field="--datetime, --time-from"
            )
        return None
    if together:
        message = "one output of all has no items; jnrrdz cube --stac-out makes it a collection"
        raise UnsupportedError(message, field="--stac-out")
    commands.stac.check_rules(rules)
    may_replace = form.overwrite or work.resume
    return commands.stac_collection.CollectionWriter(
        os.fspath(work.stac_out), rules.collection, may_replace, form.relative, work.output_options
    )


@contextmanager
def _report(path: str) -> Iterator[BinaryIO]:
    """Yield the stream of a report, which replaces an earlier report and nothing else.

    A pipe or a terminal takes it too.  Another batch that writes it is an error.
    """
    is_special = os.path.exists(path)  # noqa: PTH110  the path is literal
    if os.path.isfile(path):  # noqa: PTH113  the same
        is_special = False
    target = os.path.realpath(path)
    lock_file = None if is_special else lock_file_of(target)
    with turns.writing(path, target, lock_file, wait=0):
        _check_report(path)
        # each line is appended by one call, whole, whenever the batch is killed
        with open(path, "wb", buffering=_LONGEST_LINE, opener=_appending) as lines:
            yield lines


def _check_report(path: str) -> None:
    """Refuse a path where there is something else than a report of a batch."""
    if os.path.isfile(path):  # noqa: PTH113  the path is literal
        with open(path, "rb") as file:  # noqa: PTH123  the same
            first = file.readline(_LONGEST_LINE)
        try:
            is_ours = not first or {"source", "output", "state"} <= set(json.loads(first))
        except (ValueError, TypeError, RecursionError):
            is_ours = False
        if not is_ours:
            raise JnrrdzError("is no report of a batch, and is not replaced; name another file", url=path)
    if not os.path.isdir(os.path.dirname(path) or "."):  # noqa: PTH112, PTH120  the same
        raise JnrrdzError("the folder of this output does not exist; make it first", url=path)


def _appending(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND, 0o666)


_LONGEST_LINE = 1 << 20


@dataclass
class _Run:
    plan: Plan
    selection: Selection
    jobs: Jobs
    together: Together | None
    tell: Tell | None
    catalog: "CollectionWriter | None" = None
    ahead: Ahead | None = None
    passed_over: Counter[str] = field(default_factory=Counter)

    def run(self, lines: BinaryIO | None) -> Batch:
        """Return the counts, all outputs being written, or the one where that is asked for."""
        start = time.perf_counter()
        batch = Batch()
        with self.catalog or nullcontext(), closing(self.together) if self.together else nullcontext():
            if self.together is not None:
                self.together.check()
            if self.catalog is not None and not self.plan.work.dry_run:
                self.catalog.check()
            self._count(batch, lines)
            if self.catalog is not None:
                self.catalog.finish()
            if self.together is not None and batch.stopped is None:
                batch.left_out = self.together.merge().left_out
        batch.passed_over = dict(self.passed_over.most_common())
        batch.seconds = time.perf_counter() - start
        return batch

    def _count(self, batch: Batch, lines: BinaryIO | None) -> None:
        """Count the outcomes; each is written as it comes."""
        work = self.plan.work
        most = 1 if work.fail_fast else work.max_errors
        stop = threading.Event()
        outcomes = self._outcomes(stop)
        try:
            for outcome in outcomes:
                batch.add(outcome)
                if self.ahead is not None:
                    batch.listed, batch.all_listed = self.ahead.listed, self.ahead.all_listed
                if self.together is not None:
                    self.together.add(outcome)
                if self.catalog is not None and outcome.item is not None:
                    self.catalog.add(outcome.job.number, outcome.item)
                    batch.items += 1
                if lines is not None:
                    lines.write(json.dumps(redacted_record(outcome)).encode() + b"\n")
                    lines.flush()
                if self.tell is not None:
                    self.tell(outcome, batch)
                if most is not None and batch.failed >= most:
                    batch.stopped = f"{batch.failed} failed"
                    break
        finally:
            stop.set()
            outcomes.close()
            if not work.dry_run and (work.resume or work.processes != 1):
                self.jobs.remove_leftovers()

    def _outcomes(self, stop: threading.Event) -> Generator[Outcome]:
        is_fixed = self.jobs.template.is_fixed and not self.jobs.together
        if self.selection.is_plain and not is_fixed and not self.jobs.together:
            self._refuse_twins()
        work = self.plan.work
        first = self.selection.found(work.source_options, work.allow, self.passed_over)
        few = list(islice(first, FEW))
        if is_fixed and len(few) > 1:
            raise UnrepresentableError(
                "one output for several sources; a placeholder such as {stem} gives each its own",
                url=self.jobs.template.text,
                field="--output",
            )
        jobs = self.jobs.of(chain(few, first))
        if self.plan.work.dry_run:
            yield from (Outcome(job, JobState.PLANNED) for job in jobs)
        else:
            self.ahead = Ahead(jobs, stop)
            for outcome in self._executor(few=len(few) < FEW)(self.ahead, stop):
                yield outcome
                yield from self.jobs.refusals()
        yield from self.jobs.refusals()

    def _refuse_twins(self) -> None:
        """Refuse sources that were named one by one and would become one output: nothing is done yet."""
        first: dict[str, str] = {}
        for number, source in enumerate(self.selection.found(self.plan.work.source_options, self.plan.work.allow)):
            output = self.jobs.template.filled(source, number)
            other = first.setdefault(output, source.url)
            if other != source.url:
                raise UnrepresentableError(
                    f"{other} has the same output, {output}; {{path}} or {{index}} tells them apart",
                    url=source.url,
                    field="--output",
                )

    def _executor(self, *, few: bool) -> Callable[[Ahead, threading.Event], Iterator[Outcome]]:
        plan, scheduler = self.plan, self.plan.work.scheduler
        if scheduler is not None:
            return partial(on_cluster, replace(plan, threads=min(plan.threads, 8)), scheduler)
        count = plan.work.processes or (1 if few or os.name != "posix" else cores())
        if count == 1:
            return partial(in_threads, replace(plan, guests=max(cores(), FEWEST_GUESTS)))
        threads = max(plan.threads // count, 1)
        return partial(in_processes, replace(plan, threads=threads, guests=GUESTS_EACH), count)
