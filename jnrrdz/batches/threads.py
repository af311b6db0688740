"""Jobs in this process, a bounded number under way at once.

May touch threads.  Heads of remote sources are asked for on one event loop (`heads`); what is not done with that
waits for servers in a thread of its own.  What is no error of ours is an outcome as well: one
odd file must not end a batch of thousands.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

from jnrrdz.batches import turn
from jnrrdz.batches.heads import Heads, source_of
from jnrrdz.batches.item import Job, Outcome, State
from jnrrdz.batches.jobs import LOOK, Jobs
from jnrrdz.batches.timed import StoppedError
from jnrrdz.batches.work import Plan, done, failed, warnings_kept
from jnrrdz.formats.located import is_tree

type Told = tuple[Job, Outcome | None]

GATHER = 0.01
"""Seconds in which outcomes come together: to look at each by itself costs the workers their lock each time."""


def in_threads(plan: Plan, jobs: Jobs, stop: threading.Event) -> Iterator[Outcome]:
    """Yield outcomes as they come; when the generator is closed, what is under way is given up."""
    work = _Work(plan, stop)
    most = 2 * plan.threads  # as many wait as work
    try:
        with warnings_kept():
            while work.count or not jobs.ended:
                work.give(jobs.take(most - work.count, wait=work.count == 0))
                yield from work.ended()
                if stop.is_set():
                    break
    finally:
        work.close()


class _Work:
    """What is under way in this process: on the loop, and in threads."""

    def __init__(self, plan: Plan, stop: threading.Event) -> None:
        self.count = 0
        self._plan = plan
        self._stop = stop
        self._pool = ThreadPoolExecutor(plan.threads, thread_name_prefix="jnrrdz-batch")
        self._results: SimpleQueue[Told] = SimpleQueue()
        self._heads = Heads(plan, stop, self._later, lambda *told: self._results.put(told))

    def give(self, jobs: list[Job]) -> None:
        """Start some jobs."""
        self.count += len(jobs)
        remote = []
        for job in jobs:
            source = source_of(self._plan, job)
            if source is None:
                self._start(job)
            else:
                remote.append((job, source))
        self._heads.give(remote)

    def ended(self) -> list[Outcome]:
        """Return what has ended since, after a moment's wait; nothing where nothing is under way."""
        found: list[Outcome] = []
        try:
            told = self._results.get(timeout=LOOK) if self.count else None
            time.sleep(GATHER if self.count > 1 else 0)
            while told is not None:
                self.count -= 1
                found += [told[1]] if told[1] is not None else []
                told = self._results.get_nowait()
        except Empty:
            pass
        return found

    def close(self) -> None:
        """End the threads; what is under way is given up."""
        if self.count:
            self._stop.set()
            self._heads.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, job: Job, *more: Any) -> "Future[Outcome]":
        work = self._pool.submit(_worked, self._plan, job, self._stop, *more)
        work.add_done_callback(lambda work: self._results.put((job, outcome_of(work, job))))
        return work

    def _later(self, job: Job, *more: Any) -> "asyncio.Future[Any]":
        ended = asyncio.wrap_future(self._start(job, *more))
        ended.add_done_callback(lambda work: work.cancelled() or work.exception())  # it is told elsewhere
        return ended


def _worked(plan: Plan, job: Job, stop: threading.Event, *more: Any) -> Outcome:
    if is_tree(job.found.url):  # its many files are asked for all through the scan
        return done(plan, job, stop, *more)
    with turn.taken():
        return done(plan, job, stop, *more)


def outcome_of(work: "Future[Outcome]", job: Job) -> Outcome | None:
    """Return how a job ended, None where it was stopped before."""
    if work.cancelled():
        return None
    error = work.exception()
    if error is None:
        return work.result()
    return None if isinstance(error, StoppedError) else failed(Outcome(job, State.FAILED, attempts=1), error)
