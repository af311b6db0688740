"""A batch from beginning to end: what is found becomes jobs, workers do them, outcomes are counted and told.

May touch everything below the command line.  The process that runs this holds no more of a source than its name.
"""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO, Unpack

from xxhash import xxh3_128_intdigest

from jnrrdz.batch.cluster import on_cluster
from jnrrdz.batch.item import Found, Job, Outcome, State
from jnrrdz.batch.jobs import Ahead
from jnrrdz.batch.processes import cores, in_processes
from jnrrdz.batch.selection import Selection
from jnrrdz.batch.template import Template
from jnrrdz.batch.threads import in_threads
from jnrrdz.batch.work import OptionsOf, Plan, failed
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.redact import redacted
from jnrrdz.scan.options import ScanChoices, ScanOptions, with_whole_tiles
from jnrrdz.source.url import local_path
from jnrrdz.write.forms import format_of

JOBS = 64
FEW = 128
"""Sources for which starting processes takes longer than the work."""


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
    stopped: str | None = None
    """Why it ended before all was done."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    """The first hundred, as a report has them."""

    @property
    def total(self) -> int:
        """How many sources have an outcome."""
        return self.ok + self.skipped + self.failed + self.planned

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

    def __init__(self, template: Template) -> None:
        self.template = template
        self.refused: deque[Outcome] = deque()
        self._outputs: set[int] = set()

    def of(self, found: Iterator[Found]) -> Iterator[Job]:
        """Yield a job for each source."""
        for number, one in enumerate(found):
            try:
                yield self._job(one, number)
            except JnrrdzError as error:
                self.refused.append(failed(Outcome(Job(number, one, ""), State.FAILED), error))

    def _job(self, found: Found, number: int) -> Job:
        output = self.template.filled(found, number)
        if local_path(output) is not None and os.path.realpath(output) == os.path.realpath(found.url):
            raise UnrepresentableError("the manifest would replace its own source", url=found.url)
        digest = xxh3_128_intdigest(output.encode("utf-8", "surrogateescape"))
        if digest in self._outputs:
            raise UnrepresentableError(f"another source becomes {output} too; use {{path}} or {{index}}", url=found.url)
        self._outputs.add(digest)
        return Job(number, found, output)


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
    on_outcome: Callable[[Outcome], None] | None = None,
    format: str | None = None,  # noqa: A002  the word that users know
    single_range: bool = False,
    relative: bool = False,
    overviews: bool = True,
    allow: Sequence[str] = (),
    storage_options: OptionsOf = None,
    target_options: OptionsOf = None,
    **choices: Unpack[ScanChoices],
) -> Batch:
    """Index many sources, each to the output that the template `out` names, and return what was done.

    Options of fsspec are a mapping, or a function of a URL that can be pickled.
    """
    chosen = selection or Selection([sources] if isinstance(sources, str) else list(sources))
    if single_range or (format or format_of(os.fspath(out))) == "icechunk":
        choices = with_whole_tiles(choices)
    plan = Plan(
        ScanOptions(overviews=overviews, allow=tuple(allow), **choices),
        format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        resume=resume,
        retries=retries,
        timeout=timeout,
        since=chosen.earliest,
        threads=jobs,
        storage_options=storage_options,
        target_options=target_options,
    )
    run = _Run(plan, chosen, Jobs(Template(os.fspath(out))), processes, scheduler, dry_run=dry_run)
    stream = nullcontext() if report is None else Path(report).open("w", encoding="utf-8")  # noqa: SIM115  the next line is its context
    with stream as lines:
        return run.done(1 if fail_fast else max_errors, lines, on_outcome)


@dataclass
class _Run:
    plan: Plan
    selection: Selection
    jobs: Jobs
    processes: int | None
    scheduler: str | None
    dry_run: bool

    def done(self, most: int | None, lines: TextIO | None, tell: Callable[[Outcome], None] | None) -> Batch:
        """Return the counts; each outcome is written as it comes."""
        start, found = time.perf_counter(), Batch()
        stop = threading.Event()
        outcomes = self._outcomes(stop)
        try:
            for outcome in outcomes:
                found.add(outcome)
                if lines is not None:
                    lines.write(json.dumps(told(outcome)) + "\n")
                    lines.flush()
                if tell is not None:
                    tell(outcome)
                if most is not None and found.failed >= most:
                    found.stopped = f"{found.failed} failed"
                    break
        finally:
            stop.set()
            outcomes.close()  # type: ignore[attr-defined]  it is a generator
        found.seconds = time.perf_counter() - start
        return found

    def _outcomes(self, stop: threading.Event) -> Iterator[Outcome]:
        first = self.selection.found(self.plan.source_options)
        few = list(islice(first, FEW))
        if self.jobs.template.is_fixed and len(few) > 1:
            raise UnrepresentableError(
                "one output for several sources; a placeholder such as {stem} gives each its own",
                url=self.jobs.template.text,
                field="output",
            )
        listed = self.jobs.of(chain(few, first))
        if self.dry_run:
            yield from (Outcome(job, State.PLANNED) for job in listed)
        else:
            yield from self._worked(Ahead(listed, stop), stop, few=len(few) < FEW)
        while self.jobs.refused:
            yield self.jobs.refused.popleft()

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
