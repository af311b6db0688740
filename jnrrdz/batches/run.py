"""The manifests of a batch as one, along an axis: kept on the disk as they come, put together by one writer at the end.

May touch merging and a temporary directory.  Workers return manifests and write none; a source that failed is
reported by the batch and left out.  See docs/decisions/004-merge.md for what is put together and how.

A batch from beginning to end: what is found becomes jobs, workers do them, outcomes are counted and told.

May touch everything below the command line.  The process that runs this holds no more of a source than its name.
"""

import json
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from xxhash import xxh3_128_intdigest

from jnrrdz.batches.cluster import on_cluster
from jnrrdz.batches.executors import Ahead, cores, in_processes, in_threads
from jnrrdz.batches.item import Found, Job, Outcome, State, exists
from jnrrdz.batches.selection import Selection, Template
from jnrrdz.batches.work import OptionsOf, Plan, failed
from jnrrdz.core.arrays import SHOWN, html_table
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError, redacted
from jnrrdz.formats.scanning import literal
from jnrrdz.manifests.atomic import leftovers, remove
from jnrrdz.manifests.manifest import format_of
from jnrrdz.options import ScanChoices, ScanOptions, with_choices
from jnrrdz.sources.url import local_path, origin

if TYPE_CHECKING:
    from jnrrdz.commands.merge import Merged


def _merging() -> Any:
    """Return what merges; it brings xarray, which other batches need not wait for."""
    return import_module("jnrrdz.commands.merge")


@dataclass(frozen=True)
class Axis:
    """Along what the sources are put together; the members are those of `merging.merge`."""

    concat_dim: str
    coord_from: str | None = None
    keep_order: bool = False
    skip_mismatched: bool = False

    def check(self, plan: Plan) -> None:
        """Refuse what makes no sense for one output, before anything is read."""
        if plan.resume:
            raise UnsupportedError("resume is for an output for each source; --concat-dim has one", field="--resume")
        if self.coord_from is not None:
            _merging().rule_of(self.coord_from)


@dataclass
class Together:
    """Takes the manifests of a batch, in any order."""

    plan: Plan
    axis: Axis
    output: str
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="jnrrdz-batch-")
    )
    _urls: dict[int, str] = field(default_factory=dict)

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
        made: Merged = _merging().merge(
            [self._place(number) for number in numbers],
            self.output,
            names=[self._urls[number] for number in numbers],
            concat_dim=self.axis.concat_dim,
            coord_from=self.axis.coord_from,
            keep_order=self.axis.keep_order,
            skip_mismatched=self.axis.skip_mismatched,
            allow=("*",),  # they are our own, and name what was just read
            format=self.plan.form,
            single_range=self.plan.single_range,
            relative=self.plan.relative,
            overwrite=self.plan.overwrite,
            source_options=self.plan.source_options(first),
            target_options=self._target_options(first),
        )
        return made

    def _target_options(self, source: str) -> dict[str, object] | None:
        """Return the options for the output; an Icechunk repository takes its sources' endpoint from them too."""
        own = self.plan.output_options(self.output)
        if own is None and origin(source) is None and (self.plan.form or format_of(self.output)) == "icechunk":
            own = self.plan.source_options(source)
        return None if own is None else dict(own)

    def close(self) -> None:
        """Remove what was kept."""
        self._folder.cleanup()

    def _place(self, number: int) -> Path:
        return Path(self._folder.name) / f"{number:09}.json"


JOBS = 64
FEW = 128
"""Sources for which starting processes takes longer than the work."""


type Tell = Callable[[Outcome, "Batch"], None]
"""Is told how a job ended, and of the batch so far."""


@dataclass
class Batch:
    """What a batch did."""

    ok: int = 0
    skipped: int = 0
    failed: int = 0
    planned: int = 0
    requests: int = 0
    bytes_read: int = 0
    chunks: int = 0
    seconds: float = 0.0
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
        return self.ok + self.skipped + self.failed + self.planned

    def __repr__(self) -> str:
        counts = f"{self.ok} ok, {self.skipped} skipped, {self.failed} failed, {self.planned} planned"
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
        if outcome.state is State.FAILED and len(self.failures) < 100:  # noqa: PLR2004  told above
            self.failures.append(told(outcome))


def told(outcome: Outcome) -> dict[str, Any]:
    """Return a report's line, without the credentials that URLs may carry."""
    return {name: redacted(value) if isinstance(value, str) else value for name, value in outcome.record().items()}


class Jobs:
    """What is found, with an output for each; what can have none is refused in its place."""

    def __init__(self, template: Template, *, together: bool = False) -> None:
        self.template = template
        self._together = together
        self.refused: deque[Outcome] = deque()
        self._outputs: set[int] = set()
        self._folders: set[str] = set()

    def of(self, found: Iterator[Found]) -> Iterator[Job]:
        """Yield a job for each source."""
        for number, one in enumerate(found):
            try:
                yield self._job(one, number)
            except JnrrdzError as error:
                self.refused.append(failed(Outcome(Job(number, one, ""), State.FAILED), error))

    def _job(self, found: Found, number: int) -> Job:
        output = self.template.filled(found, number)
        own = local_path(found.url)
        if own is not None and local_path(output) is not None and os.path.realpath(output) == os.path.realpath(own):
            raise UnrepresentableError("the manifest would replace its own source", url=found.url)
        if self._together:
            return Job(number, found, output)
        name = output.rstrip("/")
        digest = _digest(name)
        if digest in self._outputs:
            raise UnrepresentableError(f"another source becomes {output} too; use {{path}} or {{index}}", url=found.url)
        self._outputs.add(digest)
        self._folders.add(name[: name.rfind("/") + 1])
        return Job(number, found, output)

    def remove_leftovers(self) -> None:
        """Remove what a run that was killed, or a worker of this one, left half written beside the outputs."""
        for folder in self._folders:
            place = local_path(folder or ".")
            if place is None or not os.path.isdir(place):  # noqa: PTH112  the path is literal
                continue
            for name, paths in leftovers(place).items():
                if _digest(folder + name) in self._outputs:
                    for path in paths:
                        remove(path)


def _digest(text: str) -> int:
    return xxh3_128_intdigest(text.encode("utf-8", "surrogateescape"))


def batch(  # noqa: PLR0913  what may be asked of many sources
    sources: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    jobs: int = JOBS,
    processes: int | None = None,
    scheduler: str | None = None,
    retries: int = 3,
    timeout: float | None = None,
    max_errors: int | None = None,
    fail_fast: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    report: str | os.PathLike[str] | None = None,
    on_outcome: Tell | None = None,
    concat_dim: str | None = None,
    coord_from: str | None = None,
    keep_order: bool = False,
    skip_mismatched: bool = False,
    format: str | None = None,  # noqa: A002  the word that users know
    single_range: bool = False,
    relative: bool = False,
    allow: Sequence[str] = (),
    storage_options: OptionsOf = None,
    target_options: OptionsOf = None,
    **choices: Unpack[ScanChoices],
) -> Batch:
    """Index many sources, each to the output that the template `out` names, and return what was done.

    With `concat_dim` all of them become one output, put together along that axis as `jnrrdz.merge` does.
    Options of fsspec are a mapping, or a function of a URL that can be pickled.
    """
    chosen = selection or Selection([sources] if isinstance(sources, str) else list(sources))
    (options,) = with_choices(choices, ScanOptions())
    if single_range or (format or format_of(os.fspath(out))) == "icechunk":
        options = options.whole_tiles()
    plan = Plan(
        options,
        format,
        allow=tuple(allow),
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        resume=resume,
        retries=retries,
        timeout=timeout,
        since=chosen.earliest,
        collect=concat_dim is not None,
        threads=jobs,
        storage_options=storage_options,
        target_options=target_options,
    )
    axis = None if concat_dim is None else Axis(concat_dim, coord_from, keep_order, skip_mismatched)
    run = _Run(
        plan,
        chosen,
        Jobs(Template(os.fspath(out)), together=axis is not None),
        axis,
        processes,
        scheduler,
        dry_run=dry_run,
    )
    stream = nullcontext() if report is None else Path(report).open("w", encoding="utf-8")  # noqa: SIM115  the next line is its context
    with stream as lines:
        return run.all_done(1 if fail_fast else max_errors, lines, on_outcome)


@dataclass
class _Run:
    plan: Plan
    selection: Selection
    jobs: Jobs
    axis: Axis | None
    processes: int | None
    scheduler: str | None
    dry_run: bool
    ahead: Ahead | None = None

    def all_done(self, most: int | None, lines: TextIO | None, tell: Tell | None) -> Batch:
        """Return the counts, all outputs being written, or the one where that is asked for."""
        start = time.perf_counter()
        if self.axis is None or self.dry_run:
            found = self.done(most, lines, tell)
        else:
            found = self._put_together(self.axis, most, lines, tell)
        found.seconds = time.perf_counter() - start
        return found

    def _put_together(self, axis: Axis, most: int | None, lines: TextIO | None, tell: Tell | None) -> Batch:
        axis.check(self.plan)
        output = self.jobs.template.text
        if not self.plan.overwrite and exists(output, self.plan.output_options(output)):
            raise JnrrdzError("exists already; --overwrite (overwrite=True) replaces it", url=output)
        together = Together(self.plan, axis, output)
        try:
            found = self.done(most, lines, tell, together)
            if found.stopped is None:
                found.left_out = together.merge().left_out
        finally:
            together.close()
        return found

    def done(
        self, most: int | None, lines: TextIO | None, tell: Tell | None, together: Together | None = None
    ) -> Batch:
        """Return the counts; each outcome is written as it comes."""
        found = Batch()
        stop = threading.Event()
        outcomes = self._outcomes(stop)
        try:
            for outcome in outcomes:
                found.add(outcome)
                if self.ahead is not None:
                    found.listed, found.all_listed = self.ahead.listed, self.ahead.all_listed
                if together is not None:
                    together.add(outcome)
                if lines is not None:
                    lines.write(json.dumps(told(outcome)) + "\n")
                    lines.flush()
                if tell is not None:
                    tell(outcome, found)
                if most is not None and found.failed >= most:
                    found.stopped = f"{found.failed} failed"
                    break
        finally:
            stop.set()
            outcomes.close()
            if self.plan.resume or self.processes != 1:
                self.jobs.remove_leftovers()
        return found

    def _outcomes(self, stop: threading.Event) -> Generator[Outcome]:
        self._refuse_twins()
        first = self.selection.found(self.plan.source_options)
        few = list(islice(first, FEW))
        if self.axis is None and self.jobs.template.is_fixed and len(few) > 1:
            raise UnrepresentableError(
                "one output for several sources; a placeholder such as {stem} gives each its own",
                url=self.jobs.template.text,
                field="output",
            )
        listed = self.jobs.of(chain(few, first))
        if self.dry_run:
            yield from (Outcome(job, State.PLANNED) for job in listed)
        else:
            self.ahead = Ahead(listed, stop)
            yield from self._worked(self.ahead, stop, few=len(few) < FEW)
        while self.jobs.refused:
            yield self.jobs.refused.popleft()

    def _refuse_twins(self) -> None:
        """Refuse sources that were named one by one and would become one output: nothing is done yet."""
        if self.axis is not None or self.jobs.template.is_fixed or not self.selection.is_plain:
            return
        first: dict[str, str] = {}
        for number, found in enumerate(self.selection.found(self.plan.source_options)):
            output = self.jobs.template.filled(found, number)
            other = first.setdefault(output, found.url)
            if other != found.url:
                raise UnrepresentableError(
                    f"becomes {output}, and so does {other}; use {{path}} or {{index}}", url=found.url, field="output"
                )

    def _worked(self, ahead: Ahead, stop: threading.Event, *, few: bool) -> Iterator[Outcome]:
        work = self._executor(few=few)
        for outcome in work(ahead, stop):
            yield outcome
            while self.jobs.refused:
                yield self.jobs.refused.popleft()

    def _executor(self, *, few: bool) -> Callable[[Ahead, threading.Event], Iterator[Outcome]]:
        count = self.processes or (1 if few or os.name != "posix" else cores())
        plan = self.plan
        if self.scheduler is not None:
            on_each = replace(plan, threads=min(plan.threads, 8))
            return lambda ahead, stop: on_cluster(on_each, ahead, stop, self.scheduler or "")
        if count == 1:
            return partial(in_threads, plan)
        shared = replace(plan, threads=max(plan.threads // count, 1))
        return lambda ahead, stop: in_processes(shared, ahead, stop, count)
