"""One thread of a process works at a time, while all others wait for servers.

May touch threads.  Sixty threads that all want the interpreter's lock spend a third of their time on getting it;
a thread that waits for an answer gives its turn to another one.  Figures: docs/decisions/018-batch.md.

A source whose reads end: when its time is over, or when the batch is to stop.

May touch the source protocol and fsspec's event loop.  A request that is given up is cancelled, so that its
connection is free again.

Which failures may pass by themselves, and how long to wait for that.

May touch errors and randomness.  A file that is broken stays broken; a server that was busy answers later.

One source to its manifest: what every worker does, in this process, in another, or on a cluster.

May touch scanning, writing and the resume check, and no framework: see `scan.located`.
"""

import asyncio
import errno
import io
import json
import os
import random
import re
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import fsspec.asyn

from jnrrdz.batches import item as recorded
from jnrrdz.batches.item import Job, Outcome, State, is_since
from jnrrdz.errors import DriftError, JnrrdzError, redacted
from jnrrdz.formats.scanning import Scanned, is_tree, literal, scan
from jnrrdz.manifests.atomic import DURABLE, leftovers, remove
from jnrrdz.manifests.forms import format_of, write_form
from jnrrdz.manifests.json import dump
from jnrrdz.options import Access, ScanOptions
from jnrrdz.sources.base import ByteSource, Span, Validators
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.local import LocalSource
from jnrrdz.sources.url import local_path

_turn = threading.Lock()
_own = threading.local()


@contextmanager
def taken() -> Iterator[None]:
    """Work, when it is this thread's turn."""
    with _turn:
        _own.turn = True
        try:
            yield
        finally:
            _own.turn = False


@contextmanager
def given_up() -> Iterator[None]:
    """Let others work while this thread waits for what is not in this process."""
    if not getattr(_own, "turn", False):
        yield
        return
    _own.turn = False
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()
        _own.turn = True


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

    def check(self) -> None:
        """Raise if the time is over or the batch is to stop."""
        if self._stop.is_set():
            raise StoppedError("interrupted")
        if self._end is not None and time.monotonic() > self._end:
            raise JnrrdzError(f"not done within {self._seconds:g} s; --timeout (timeout=) gives it longer")

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

    def sleep(self, seconds: float) -> None:
        """Wait, unless the time would be over before that, or the batch is to stop."""
        left = seconds if self._end is None else min(seconds, max(self._end - time.monotonic(), 0.0))
        with given_up():
            self._stop.wait(left)
        self.check()

    def await_result[T](self, work: "Future[T]") -> T:
        """Return what some work gives; it is cancelled where its time is over first."""
        with given_up():
            while True:
                try:
                    return work.result(self._until_next_look())
                except TimeoutError:
                    if work.done():
                        raise
                    self._check_or_cancel(work)

    def _check_or_cancel(self, work: "Future[Any]") -> None:
        try:
            self.check()
        except JnrrdzError:
            work.cancel()
            raise

    def _until_next_look(self) -> float:
        return _LOOK if self._end is None else min(_LOOK, max(self._end - time.monotonic(), 0.0) + 0.001)


class TimedSource:
    """A remote source that keeps to a clock."""

    def __init__(self, inner: ByteSource, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    @property
    def url(self) -> str:
        """The URL that a manifest names."""
        return self._inner.url

    @property
    def validators(self) -> Validators:
        """Those of the source inside."""
        self._clock.check()
        with given_up():
            return self._inner.validators

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, or raise when the time is over."""
        self._clock.check()
        work = asyncio.run_coroutine_threadsafe(self._inner.aread(spans), fsspec.asyn.get_loop())
        return self._clock.await_result(work)

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same without blocking."""
        return await self._inner.aread(spans)

    def close(self) -> None:
        """Let go of the source inside."""
        self._inner.close()


class TimedOpener:
    """Opens sources that keep to one clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, url: str, *, storage_options: Mapping[str, Any] | None = None) -> ByteSource:
        """Return the bytes at a URL."""
        self._clock.check()
        source = open_source(url, storage_options=storage_options)
        return source if isinstance(source, LocalSource) else TimedSource(source, self._clock)


_STATUS = re.compile(r"\bHTTP (?:408|425|429|5\d\d)\b")
_BUSY = re.compile(r"SlowDown|ServiceUnavailable|InternalError|RequestTimeout|Throttl|request rate", re.IGNORECASE)
_LIBRARIES = ("aiohttp", "aiobotocore", "botocore", "urllib3", "gcsfs", "azure")
_PASSING = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)
_LASTING = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)
FIRST = 0.5
LONGEST = 30.0


def is_passing(error: BaseException) -> bool:
    """Whether the same might work the next time."""
    if isinstance(error, DriftError):  # it changed while it was read; what is there now may be whole
        return True
    if isinstance(error, JnrrdzError) and type(error) is not JnrrdzError:
        return False
    causes = list(_causes(error))
    if any(isinstance(cause, _LASTING) or "redential" in type(cause).__name__ for cause in causes):
        return False
    return any(map(_passes, causes)) or _STATUS.search(str(error)) is not None or _BUSY.search(str(error)) is not None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _passes(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING:
        return True
    name = type(error).__name__
    library = type(error).__module__.partition(".")[0] in _LIBRARIES
    return library and any(word in name for word in ("Timeout", "Connect", "Disconnect", "Payload", "Stream", "Closed"))


def pause(attempt: int) -> float:
    """Return the seconds to wait after an attempt (from 1): twice as long each time, and never all at once."""
    longest = min(FIRST * 2.0 ** min(attempt - 1, 16), LONGEST)
    return longest * (0.5 + random.random() / 2)  # noqa: S311  spreads requests, protects nothing


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
    allow: tuple[str, ...] = ()
    storage_options: OptionsOf = None
    target_options: OptionsOf = None
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    """Another one for each batch."""

    @property
    def recorded_options(self) -> Mapping[str, Any]:
        """What a manifest that is made so says of it."""
        asked = json.loads(json.dumps(self.scan.changed()))  # tuples become lists, as they are there
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
    access = Access(plan.allow, plan.source_options(job.found.url))
    found = scan(job.found.url, plan.scan, access, opener=opener)
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
    return given_up() if local_path(output) is None else nullcontext()


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
