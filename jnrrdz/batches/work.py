"""One source to its manifest: what every worker does, in this process, in another, or on a cluster.

Of a process's threads one works at a time, while all others wait for servers: sixty threads that all want the
interpreter's lock spend a third of their time on getting it (figures: docs/decisions/018-batch.md).  A request that
is given up, because its time is over or the batch is to stop, is cancelled, so that its connection is free again.
"""

import asyncio
import io
import json
import os
import threading
import time
import warnings
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import fsspec.asyn

from jnrrdz import commands
from jnrrdz.batches import item as recorded
from jnrrdz.batches.item import Found, Job, JobState, Outcome, is_since
from jnrrdz.batches.stac import IMAGE
from jnrrdz.batches.stac_bands import BANDS, with_bands
from jnrrdz.core.state import Validators
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, NoImageError
from jnrrdz.formats.guests import SECONDS, Guests
from jnrrdz.formats.neighbours import Guest
from jnrrdz.formats.scanning import Scanned, document_of, is_tree, literal, scan
from jnrrdz.manifests.atomic import DURABLE
from jnrrdz.manifests.json import dump
from jnrrdz.manifests.manifest import format_of, from_group, write_form
from jnrrdz.options import Access, BatchOptions, ItemRules, ScanOptions, WriteOptions
from jnrrdz.redact import redacted
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard, guard_of, recall
from jnrrdz.sources.ranges import ByteSource, Span
from jnrrdz.sources.readahead import FIRST, ReadAhead
from jnrrdz.sources.remote import FsspecSource
from jnrrdz.sources.retry import is_passing, pause
from jnrrdz.sources.url import local_path, origin

_turn = threading.Lock()
_own = threading.local()
"""What belongs to a thread: whether it has the turn, and the warnings of its job."""


@contextmanager
def turn() -> Iterator[None]:
    """Work, when it is this thread's turn."""
    _turn.acquire()
    _own.turn = True
    try:
        yield
    finally:
        if _own.turn:
            _own.turn = False
            _turn.release()


@contextmanager
def turn_given_up() -> Iterator[None]:
    """Let others work while this thread waits for what is not in this process.

    It goes on without the turn where that does not come back: whoever has it may wait for a lock of a library that
    this thread holds, as h5py's, which a file is read under.
    """
    if not getattr(_own, "turn", False):
        yield
        return
    _own.turn = False
    _turn.release()
    try:
        yield
    finally:
        _own.turn = _turn.acquire(timeout=_PATIENCE)


_PATIENCE = 0.25
"""Seconds that a thread waits for its turn to come back."""

_LOOK = 0.25
"""Seconds between two looks at whether to stop."""


class StoppedError(JnrrdzError):
    """The batch was to stop before this was done."""


class Clock:
    """The time that one source has, and whether it is still wanted."""

    def __init__(self, seconds: float | None, stop: threading.Event) -> None:
        self.begun = time.perf_counter()
        self._seconds = seconds
        self._stop = stop
        self._end = None if seconds is None else time.monotonic() + seconds

    def check_stop(self) -> None:
        """Raise if the batch is to stop."""
        if self._stop.is_set():
            raise StoppedError("interrupted")

    def check(self) -> None:
        """Raise if the time is over or the batch is to stop."""
        self.check_stop()
        if self._end is not None and time.monotonic() > self._end:
            raise JnrrdzError(f"not done within {self._seconds:g} s; --timeout (timeout=) gives it longer")

    def extend(self, seconds: float) -> None:
        """Add seconds in which other sources were worked on."""
        if self._end is not None:
            self._end += seconds

    def left(self, most: float) -> float:
        """Return the seconds that are left, at most so many."""
        return most if self._end is None else min(most, max(self._end - time.monotonic(), 0.0))

    def sleep(self, seconds: float) -> None:
        """Wait, unless the time would be over before that, or the batch is to stop."""
        with turn_given_up():
            self._stop.wait(self.left(seconds))
        self.check()

    async def awaited[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Return what some work gives on the running loop; it is cancelled where its time is over first."""
        if self._end is None:
            return await work
        try:
            async with asyncio.timeout(max(self._end - time.monotonic(), 0.0)):
                return await work
        except TimeoutError:
            self.check()
            raise

    def result[T](self, work: "Future[T]") -> T:
        """Return what some work gives; it is cancelled where its time is over first."""
        with turn_given_up():
            while True:
                try:
                    return work.result(self.left(_LOOK) + (0 if self._end is None else 0.001))
                except TimeoutError:
                    if work.done():
                        raise
                try:
                    self.check()
                except JnrrdzError:
                    work.cancel()
                    raise


class BeyondError(JnrrdzError):
    """What is asked for is not in the head."""


class TimedSource:
    """A remote source that keeps to a clock.

    Its `head` may be here already, or the reason why it could not be had.  A source that is `alone` has nothing
    else to read from.
    """

    def __init__(
        self, inner: FsspecSource, clock: Clock, head: bytes | JnrrdzError | None = None, *, alone: bool = False
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._head = head
        self.alone = alone

    @property
    def url(self) -> str:
        """The URL that a manifest names."""
        return self._inner.url

    @property
    def validators(self) -> Validators:
        """Those of the source inside, or raise when the time is over."""
        self._clock.check()
        if isinstance(self._head, bytes):  # with it they came; on the loop itself nothing could be waited for
            return self._inner.validators
        return self._clock.result(asyncio.run_coroutine_threadsafe(self._inner.avalidators(), fsspec.asyn.get_loop()))

    @property
    def known(self) -> Validators | None:
        """What is known of them."""
        return self._inner.known

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, or raise when the time is over."""
        self._clock.check()
        held = self._held(spans)
        if held is not None:
            return held
        work = asyncio.run_coroutine_threadsafe(self._inner.aread(spans), fsspec.asyn.get_loop())
        return self._clock.result(work)

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same without blocking."""
        return self._held(spans) or await self._inner.aread(spans)

    def _held(self, spans: Sequence[Span]) -> list[bytes] | None:
        """Return what the head has of the spans, None where it does not have all."""
        if self._head is None:
            return None
        if isinstance(self._head, JnrrdzError):
            raise self._head
        # a head that is shorter than was asked for is the whole source
        held = FIRST if len(self._head) == self._inner.validators.size else len(self._head)
        if all(stop <= held for _, stop in spans):
            return [self._head[start:stop] for start, stop in spans]
        if self.alone:
            raise BeyondError("more than the first bytes is needed", url=self.url)
        return None

    def close(self) -> None:
        """Let go of the source inside."""
        self._inner.close()


class TimedOpener:
    """Opens sources that keep to one clock; the one that is here already is given out once."""

    def __init__(self, clock: Clock, here: TimedSource | None = None) -> None:
        self._clock = clock
        self._here = here
        self._alone = here is not None and here.alone

    def __call__(
        self, url: str, *, storage_options: Mapping[str, Any] | None = None, guard: AddressGuard | None = None
    ) -> ByteSource:
        """Return the bytes at a URL."""
        here = self._here
        if here is not None and here.url == url:
            self._here = None
            return here
        if self._alone:
            raise BeyondError("another file is needed", url=url)
        self._clock.check()
        source = open_source(url, storage_options=storage_options, guard=guard)
        return TimedSource(source, self._clock) if isinstance(source, FsspecSource) else source


FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds between two attempts at a source; each of its requests has had several."""


@dataclass(frozen=True)
class Plan:
    """What is asked of every source; it is sent to workers."""

    scan: ScanOptions
    form: WriteOptions
    work: BatchOptions
    since: str | None = None
    """The earliest time of modification, as RFC 3339 text."""
    collect: bool = False
    """Return the manifests in place of writing them."""
    threads: int = 8
    """Sources under way at once in each process."""
    guests: int = 1
    """Worker processes for parsers of other libraries, of each process."""
    items: ItemRules | None = None
    """Return a STAC item of each; None where none is asked for."""

    @property
    def recorded_options(self) -> Mapping[str, Any]:
        """What a manifest that is made so says of it."""
        asked = json.loads(json.dumps(self.scan.changed()))  # tuples become lists, as they are there
        return {**asked, "single_range": True} if self.form.single_range else asked

    def is_new(self, job: Job) -> bool:
        """Whether a job's source is to be scanned for certain: nothing that is there already can be its output."""
        if self.form.overwrite or self.collect or not (self.work.resume or job.again):
            return self.since is None or job.found.modified is not None
        place = local_path(job.output)
        return place is not None and not os.path.lexists(place)


def guest_of(plan: Plan, guests: Guests | None, clock: Clock) -> Guest | None:
    """Return what runs parsers of other libraries for one source, None for this process.

    Other threads work while a worker process does.
    """
    if guests is None:
        return None
    scan = guests.within(plan.work.timeout or SECONDS, clock)

    def scan_elsewhere(*arguments: Any) -> VirtualGroup | None:
        with turn_given_up():
            return scan(*arguments)

    return scan_elsewhere


def no_guest(function: str, read: ReadAhead, url: str, *_: Any) -> VirtualGroup | None:
    """Refuse to wait for a worker process, on an event loop."""
    del function, read
    raise BeyondError("a parser of another library is needed", url=url)


def run_job(plan: Plan, job: Job, guests: Guests | None, clock: Clock, opener: TimedOpener | None = None) -> Outcome:
    """Return how a job ended: its manifest is written, was there already, or what went wrong.

    The opener is for the first attempt; others ask anew.  Parsers of other libraries
    run in `guests`, in this process where it is None.
    """
    guest = guest_of(plan, guests, clock)
    _own.warnings = []
    outcome = Outcome(job, JobState.FAILED)
    for attempt in range(plan.work.retries + 1):
        outcome = outcome._replace(attempts=attempt + 1)
        try:
            outcome = _attempt(plan, outcome, clock, opener or TimedOpener(clock), guest)
            break
        except StoppedError:
            raise
        except (JnrrdzError, OSError) as error:
            opener = None
            outcome = failed(outcome, error)
            if attempt == plan.work.retries or not is_passing(error):
                break
        try:
            clock.sleep(pause(attempt, first=FIRST_PAUSE, longest=LONGEST_PAUSE))
        except StoppedError:
            raise
        except JnrrdzError:  # the time is over
            break
    return _ended(outcome, clock)


def run_job_now(plan: Plan, job: Job, clock: Clock, opener: TimedOpener) -> Outcome | None:
    """Return how a job ended that what is here is enough for; None where it may need more, or went wrong."""
    _own.warnings = []
    try:
        outcome = Outcome(job, JobState.FAILED, attempts=1)
        return _ended(_attempt(plan, outcome, clock, opener, no_guest), clock)
    except (JnrrdzError, OSError, RuntimeError):  # the last is fsspec's, where the loop would wait for itself
        return None


def _ended(outcome: Outcome, clock: Clock) -> Outcome:
    texts = tuple(dict.fromkeys(map(redacted, _own.warnings)))
    return outcome._replace(seconds=time.perf_counter() - clock.begun, warnings=texts)


def failed(outcome: Outcome, error: BaseException) -> Outcome:
    """Return the outcome of a job with what went wrong, without the credentials of URLs."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    state = JobState.EMPTY if isinstance(error, NoImageError) else JobState.FAILED
    return outcome._replace(state=state, error=type(error).__name__, message=redacted(text))


def _attempt(plan: Plan, outcome: Outcome, clock: Clock, opener: TimedOpener, guest: Guest | None) -> Outcome:
    job = outcome.job
    replaces = plan.form.overwrite
    if not plan.collect and not plan.form.overwrite:
        with _waiting(job.output):
            there = _state_of(plan, job, opener)
        if there is JobState.SKIPPED:
            item = None if plan.items is None else _item(plan, job, None)
            return outcome._replace(state=JobState.SKIPPED, error=None, message=None, item=item)
        # another batch may write the same output meanwhile, and the later one is whole
        replaces = there is JobState.FAILED or plan.work.resume
    if plan.since is not None and job.found.modified is None and not _is_since(plan, job, opener):
        return outcome._replace(state=JobState.SKIPPED, error=None, message=None)
    found = job.found
    _recall(found)
    access = Access(plan.work.allow, plan.work.source_options(found.url), named_by=found.named_by)
    scanned = scan(job.found.url, plan.scan, access, opener=opener, guest=guest)
    scanned = replace(scanned, group=with_bands(scanned.group, dict(found.told).get(BANDS, ())))
    clock.check()  # nothing is written for whoever has given up
    item = None if plan.items is None else _item(plan, job, scanned)
    manifest = None
    if plan.collect:
        stream = io.BytesIO()
        dump(scanned.group, stream, keep_query=plan.form.keep_query)
        manifest = stream.getvalue()
    else:
        with _waiting(job.output):
            _write(plan, job.output, scanned, overwrite=replaces)
    arrays = [array for _, array in scanned.group.arrays() if array.shape]
    return outcome._replace(
        state=JobState.OK,
        requests=scanned.requests,
        nbytes=scanned.bytes_read,
        arrays=len(arrays),
        chunks=sum(array.refs.chunks for array in arrays),
        error=None,
        message=None,
        manifest=manifest,
        item=item,
    )


def _item(plan: Plan, job: Job, scanned: Scanned | None) -> dict[str, Any]:
    """Return the STAC item of what was scanned, or of the manifest that is there already."""
    found, output, work = job.found, job.output, plan.work
    access = Access(work.allow, work.output_options(output), work.source_options(found.url))
    if scanned is None:
        with _waiting(output):
            whole = commands.facts.opened(output, access)
    else:
        whole = commands.facts.Inspection(found.url, scanned.format, from_group(scanned.group))
    form = plan.form.format or format_of(output)
    key = dict(found.names).get("asset", IMAGE)
    parts = commands.stac.ItemParts(job.item, key, output, form, dict(found.told), plan.form.keep_query)
    return commands.stac.item_of(whole, plan.items or ItemRules(), parts, access)


def _state_of(plan: Plan, job: Job, opener: TimedOpener) -> JobState:
    """Return whether the output is to be left (skipped), to be replaced (failed), or is not there (planned)."""
    options = plan.work.output_options(job.output)
    if not (plan.work.resume or job.again):
        if recorded.exists(job.output, options):
            raise JnrrdzError(
                "exists already; --resume (resume=True) leaves what is done, --overwrite (overwrite=True) replaces it",
                url=job.output,
            )
        return JobState.PLANNED
    form = plan.form.format or format_of(job.output)
    there = recorded.recorded_in(job.output, form, opener, options)
    if there is None:
        return JobState.FAILED if recorded.exists(job.output, options) else JobState.PLANNED
    if there.options != plan.recorded_options:
        return JobState.FAILED
    found = job.found
    source_options = plan.work.source_options(found.url)
    guarded = partial(opener, guard=guard_for(plan, found))
    if is_tree(found.url):
        # of a product its document is recorded
        document = document_of(found.url, partial(guarded, storage_options=source_options))
        found = found._replace(url=document)
    named = recorded.name_in(found.url, job.output, plan.form)
    same = recorded.is_made_of(there.sources, found, named, guarded, source_options)
    return JobState.SKIPPED if same else JobState.FAILED


def _recall(found: Found) -> None:
    if found.named_by:
        recall(origin(found.named_by), found.nearness)


def guard_for(plan: Plan, found: Found) -> AddressGuard:
    """Return the guard to open a source with; another process may have read the document that names it."""
    _recall(found)
    return guard_of(found.url, found.named_by, plan.work.allow)


def _is_since(plan: Plan, job: Job, opener: TimedOpener) -> bool:
    """Whether a source that no listing told of is new enough; one whose age nobody knows is."""
    if is_tree(job.found.url) or plan.since is None:
        return True
    options, guard = plan.work.source_options(job.found.url), guard_for(plan, job.found)
    source = opener(literal(job.found.url), storage_options=options, guard=guard)
    try:
        modified = source.validators.modified
    finally:
        source.close()
    return modified is None or is_since(modified, plan.since)


def _waiting(output: str) -> AbstractContextManager[None]:
    """Let others work while a store is asked and written to."""
    return turn_given_up() if local_path(output) is None else nullcontext()


def _write(plan: Plan, output: str, scanned: Scanned, *, overwrite: bool) -> None:
    place = local_path(output)
    if place is not None:
        _make_folder(os.path.dirname(os.path.abspath(place)))  # noqa: PTH100, PTH120  the path is literal
    durable = DURABLE.set(False)
    try:
        form = replace(plan.form, overwrite=overwrite, target_options=plan.work.output_options(output))
        write_form(scanned.group, output, form)
    finally:
        DURABLE.reset(durable)


_make_folder = lru_cache(1024)(partial(os.makedirs, exist_ok=True))
"""Makes a folder, once for all that is written into it."""


@contextmanager
def warnings_kept() -> Iterator[None]:
    """Let each job keep the warnings of its own thread while this lasts."""

    def keep(message: Warning | str, *_: Any, **__: Any) -> None:
        if hasattr(_own, "warnings"):
            _own.warnings.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = keep
        yield
