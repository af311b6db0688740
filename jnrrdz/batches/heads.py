"""First bytes of remote sources, fetched on fsspec's event loop; where they are enough, the work is done there.

May touch sources, the loop and the work.  A header of a small file fits in one answer, and what is left is a
millisecond of work: done where the answer arrives, it needs no thread to be woken and no fight for the interpreter's
lock.  Whatever needs more bytes, another file, or another try goes on in a thread, with the answer that is there.
Figures: docs/decisions/018-batch.md.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import fsspec.asyn

from jnrrdz.batches.item import Job, Outcome, State
from jnrrdz.batches.timed import Clock, TimedOpener, TimedSource
from jnrrdz.batches.work import Plan, done_now, failed
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.located import is_tree, literal
from jnrrdz.sources.base import ByteSource, Span, Validators
from jnrrdz.sources.fsspec import FsspecSource, open_source
from jnrrdz.sources.readahead import FIRST
from jnrrdz.sources.url import local_path

type Later = Callable[[Job, Clock, TimedOpener], "asyncio.Future[Any]"]
"""Does a job in a thread, which tells its outcome."""

_GRACE = 5.0


class BeyondError(JnrrdzError):
    """What is asked for is not in the head."""


class HeadSource:
    """A source whose first bytes are here, or what went wrong when they were asked for."""

    def __init__(self, inner: FsspecSource, head: bytes | JnrrdzError, *, alone: bool) -> None:
        self._inner = inner
        self._head = head
        self._alone = alone

    @property
    def url(self) -> str:
        """The URL that a manifest names."""
        return self._inner.url

    @property
    def validators(self) -> Validators:
        """Those of the source inside."""
        return self._inner.validators

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, from the source inside if it may be asked."""
        return self._held(spans) or self._inner.read(spans)

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same without blocking."""
        return self._held(spans) or await self._inner.aread(spans)

    def _held(self, spans: Sequence[Span]) -> list[bytes] | None:
        if isinstance(self._head, JnrrdzError):
            raise self._head
        held = FIRST if len(self._head) == self.validators.size else len(self._head)
        if all(stop <= held for _, stop in spans):
            return [self._head[start:stop] for start, stop in spans]
        if self._alone:
            raise BeyondError("more than the first bytes is needed", url=self.url)
        return None

    def close(self) -> None:
        """Let go of the source inside."""
        self._inner.close()


class HeadOpener(TimedOpener):
    """Opens a source with the head that is here, once; other sources, and this one again, as they are."""

    def __init__(self, clock: Clock, inner: FsspecSource, head: bytes | JnrrdzError, *, alone: bool = False) -> None:
        super().__init__(clock)
        self._here: HeadSource | None = HeadSource(inner, head, alone=alone)
        self._alone = alone

    def __call__(self, url: str, *, storage_options: Mapping[str, Any] | None = None) -> ByteSource:
        """Return the bytes at a URL."""
        here = self._here
        if here is not None and here.url == url:
            self._here = None
            return here if self._alone else TimedSource(here, self._clock)
        if self._alone:
            raise BeyondError("another file is needed", url=url)
        return super().__call__(url, storage_options=storage_options)


def source_of(plan: Plan, job: Job) -> FsspecSource | None:
    """Return the source whose head is worth asking for before anything else is known; None where there is none."""
    url = job.found.url
    if local_path(url) is not None or is_tree(url) or not plan.is_new(job):
        return None
    try:
        source = open_source(literal(url), storage_options=plan.source_options(url))
    except (JnrrdzError, OSError):
        return None  # told where the job is done
    return source if isinstance(source, FsspecSource) else None


class Heads:
    """Jobs whose sources are asked for their heads, a bounded number at once."""

    def __init__(
        self, plan: Plan, stop: threading.Event, later: Later, tell: Callable[[Job, Outcome | None], None]
    ) -> None:
        self._plan = plan
        self._stop = stop
        self._later = later
        self._tell = tell
        self._loop = fsspec.asyn.get_loop()
        self._waiting: deque[tuple[Job, FsspecSource]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def give(self, jobs: list[tuple[Job, FsspecSource]]) -> None:
        """Take some jobs, from any thread."""
        if jobs:
            self._loop.call_soon_threadsafe(self._take, jobs)

    def close(self) -> None:
        """Give up what is under way."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_GRACE)

    async def _end(self) -> None:
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, jobs: list[tuple[Job, FsspecSource]]) -> None:
        self._waiting += jobs
        self._start()

    def _start(self) -> None:
        while self._waiting and len(self._tasks) < self._plan.threads:
            job, source = self._waiting.popleft()
            task = self._loop.create_task(self._do(job, source))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, job))

    def _ended(self, job: Job, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._tell(job, None)
        elif (error := task.exception()) is not None:
            self._tell(job, failed(Outcome(job, State.FAILED, attempts=1), error))
        self._start()

    async def _do(self, job: Job, source: FsspecSource) -> None:
        clock = Clock(self._plan.timeout, self._stop)
        head: bytes | JnrrdzError
        try:
            head = await clock.awaited(source.head(FIRST))
        except JnrrdzError as error:
            head = error
        outcome = None
        if isinstance(head, bytes) and local_path(job.output) is not None:
            outcome = done_now(self._plan, job, clock, HeadOpener(clock, source, head, alone=True))
        if outcome is not None and outcome.state is State.OK:
            self._tell(job, outcome)
        else:
            await asyncio.wait([self._later(job, clock, HeadOpener(clock, source, head))])
