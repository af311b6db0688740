"""One source to its manifest: what every worker does, in this process, in another, or on a cluster.

May touch scanning, writing and the resume check, and no framework: see `scan.located`.
"""

import io
import json
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jnrrdz.batches import recorded, turn
from jnrrdz.batches.item import Job, Outcome, State
from jnrrdz.batches.retry import is_passing, pause
from jnrrdz.batches.timed import Clock, StoppedError, TimedOpener
from jnrrdz.batches.times import is_since
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.located import is_tree, literal, scan_located
from jnrrdz.formats.scan import Scanned
from jnrrdz.manifests.atomic import DURABLE, leftovers, remove
from jnrrdz.manifests.forms import format_of, write_form
from jnrrdz.manifests.kerchunk_json import dump
from jnrrdz.options import ScanOptions
from jnrrdz.redact import redacted
from jnrrdz.sources.url import local_path

type OptionsOf = Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None] | None

_told = threading.local()


@dataclass(frozen=True)
class Plan:
    """What is asked of every source; it is sent to workers."""

    scan: ScanOptions = field(default_factory=ScanOptions)
    form: str | None = None
    single_range: bool = False
    relative: bool = False
    overwrite: bool = False
    resume: bool = False
    retries: int = 3
    timeout: float | None = None
    since: str | None = None
    collect: bool = False
    """Return the manifests in place of writing them."""
    threads: int = 8
    """Sources under way at once in each process."""
    storage_options: OptionsOf = None
    target_options: OptionsOf = None
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    """Another one for each batch."""

    @property
    def recorded_options(self) -> Mapping[str, Any]:
        """What a manifest that is made so says of it."""
        asked = json.loads(json.dumps(self.scan.asked()))  # tuples become lists, as they are there
        return {**asked, "single_range": True} if self.single_range else asked

    def source_options(self, url: str) -> Mapping[str, Any] | None:
        """Return fsspec's options for a source."""
        return _options(self.storage_options, url)

    def output_options(self, url: str) -> Mapping[str, Any] | None:
        """Return fsspec's options for an output."""
        return _options(self.target_options, url)

    def is_new(self, job: Job) -> bool:
        """Whether a job's source is to be scanned for certain: nothing that is there already can be its output."""
        if self.overwrite or self.collect or not (self.resume or job.again):
            return self.since is None or job.found.modified is not None
        place = local_path(job.output)
        return place is not None and not os.path.lexists(place)


def _options(given: OptionsOf, url: str) -> Mapping[str, Any] | None:
    return given(url) if callable(given) else given


def done(
    plan: Plan, job: Job, stop: threading.Event, clock: Clock | None = None, opener: TimedOpener | None = None
) -> Outcome:
    """Return how a job ended: its manifest is written, was there already, or what went wrong.

    The opener is for the first attempt; others ask anew.
    """
    clock = clock or Clock(plan.timeout, stop)
    _told.texts = []
    made = Outcome(job, State.FAILED)
    for attempt in range(1, plan.retries + 2):
        made = made._replace(attempts=attempt)
        try:
            made = _attempted(plan, made, clock, (opener if attempt == 1 else None) or TimedOpener(clock))
        except StoppedError:
            raise
        except (JnrrdzError, OSError) as error:
            made = failed(made, error)
            if attempt > plan.retries or not is_passing(error) or not _waited(clock, attempt):
                break
        else:
            break
    return _ended(made, clock)


def done_now(plan: Plan, job: Job, clock: Clock, opener: TimedOpener) -> Outcome | None:
    """Return how a job ended that what is here is enough for; None where it may need more, or went wrong."""
    _told.texts = []
    try:
        return _ended(_attempted(plan, Outcome(job, State.FAILED, attempts=1), clock, opener), clock)
    except (JnrrdzError, OSError, RuntimeError):  # the last is fsspec's, where the loop would wait for itself
        return None


def _ended(made: Outcome, clock: Clock) -> Outcome:
    told = tuple(dict.fromkeys(map(redacted, _told.texts)))
    return made._replace(seconds=time.perf_counter() - clock.begun, warnings=told)


def failed(made: Outcome, error: BaseException) -> Outcome:
    """Return the outcome of a job with what went wrong, without the credentials of URLs."""
    return made._replace(state=State.FAILED, error=type(error).__name__, message=redacted(_text(error)))


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _waited(clock: Clock, attempt: int) -> bool:
    """Wait before another attempt; False where the time is over."""
    try:
        clock.sleep(pause(attempt))
    except StoppedError:
        raise
    except JnrrdzError:
        return False
    return True


def _attempted(plan: Plan, made: Outcome, clock: Clock, opener: TimedOpener) -> Outcome:
    job = made.job
    replace = plan.overwrite
    if not plan.collect and not replace:
        with _waiting(job.output):
            there = _state_of(plan, job, opener)
        if there is State.SKIPPED:
            return made._replace(state=State.SKIPPED, error=None, message=None)
        replace = there is State.FAILED
    if plan.since is not None and job.found.modified is None and not _is_since(plan, job, opener):
        return made._replace(state=State.SKIPPED, error=None, message=None)
    found = scan_located(job.found.url, plan.scan, storage_options=plan.source_options(job.found.url), opener=opener)
    clock.check()  # nothing is written for whoever has given up
    return _written(plan, made, found, replace=replace)


def _state_of(plan: Plan, job: Job, opener: TimedOpener) -> State:
    """Return whether the output is to be left (skipped), to be replaced (failed), or is not there (planned)."""
    options = plan.output_options(job.output)
    if not (plan.resume or job.again):
        if recorded.exists(job.output, options):
            raise JnrrdzError(
                "exists already; --resume (resume=True) leaves what is done, --overwrite (overwrite=True) replaces it",
                url=job.output,
            )
        return State.PLANNED
    _clean(plan, job.output)
    form = plan.form or format_of(job.output)
    there = recorded.recorded_in(job.output, form, opener, options)
    if there is None:
        return State.FAILED if recorded.exists(job.output, options) else State.PLANNED
    if there.options != plan.recorded_options:
        return State.FAILED
    url = job.found.url
    named = recorded.name_in(url, job.output, is_relative=plan.relative)
    same = recorded.is_made_of(there.sources, job.found, named, opener, plan.source_options(url))
    return State.SKIPPED if same else State.FAILED


def _clean(plan: Plan, output: str) -> None:
    """Remove what a run that was killed left beside an output: nobody else makes this one now."""
    place = local_path(output)
    if place is None:
        return
    folder, name = os.path.split(os.path.abspath(place.rstrip("/")))  # noqa: PTH100  the path is literal
    for path in _leftovers(folder, plan.token).get(name, ()):
        remove(path)


@lru_cache(256)
def _leftovers(folder: str, token: str) -> dict[str, list[str]]:
    """Return what was left in a folder when a batch first looked at it."""
    del token
    return leftovers(folder) if os.path.isdir(folder) else {}  # noqa: PTH112  the same


def _is_since(plan: Plan, job: Job, opener: TimedOpener) -> bool:
    """Whether a source that no listing told of is new enough; one whose age nobody knows is."""
    if is_tree(job.found.url) or plan.since is None:
        return True
    source = opener(literal(job.found.url), storage_options=plan.source_options(job.found.url))
    try:
        modified = source.validators.modified
    finally:
        source.close()
    return modified is None or is_since(modified, plan.since)


def _waiting(output: str) -> AbstractContextManager[None]:
    """Let others work while a store is asked and written to."""
    return turn.given_up() if local_path(output) is None else nullcontext()


def _written(plan: Plan, made: Outcome, found: Scanned, *, replace: bool) -> Outcome:
    manifest = None
    if plan.collect:
        stream = io.BytesIO()
        dump(found.group, stream)
        manifest = stream.getvalue()
    else:
        with _waiting(made.job.output):
            _write(plan, made.job.output, found, replace=replace)
    arrays = [array for _, array in found.group.arrays() if array.shape]
    return made._replace(
        state=State.OK,
        requests=found.requests,
        nbytes=found.bytes_read,
        arrays=len(arrays),
        chunks=sum(array.refs.chunks for array in arrays),
        error=None,
        message=None,
        manifest=manifest,
    )


def _write(plan: Plan, output: str, found: Scanned, *, replace: bool) -> None:
    durable = DURABLE.set(False)
    place = local_path(output)
    if place is not None:
        _made(os.path.dirname(os.path.abspath(place)))  # noqa: PTH100, PTH120  the path is literal
    try:
        write_form(
            found.group,
            output,
            plan.form,
            single_range=plan.single_range,
            relative=plan.relative,
            overwrite=replace,
            storage_options=plan.output_options(output),
        )
    finally:
        DURABLE.reset(durable)


@lru_cache(1024)
def _made(folder: str) -> None:
    """Make a folder, once for all that is written into it."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103  the same


@contextmanager
def warnings_kept() -> Iterator[None]:
    """Let each job keep the warnings of its own thread while this lasts."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _keep
        yield


def _keep(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
    del category, filename, lineno
    if hasattr(_told, "texts"):
        _told.texts.append(str(message))
