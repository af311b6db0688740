"""Jobs in the threads of this process, a bounded number under way at once.

May touch threads only.  Header reads wait for servers most of their time, each in a thread of its own; that
they do not wait for each other is all that is asked here.  What is no error of ours is an outcome as well: one
odd file must not end a batch of thousands.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue

from jnrrdz.batch import turn
from jnrrdz.batch.item import Job, Outcome, State
from jnrrdz.batch.jobs import LOOK, Jobs
from jnrrdz.batch.timed import StoppedError
from jnrrdz.batch.work import Plan, done, failed, warnings_kept
from jnrrdz.scan.located import is_tree

type Ended = tuple[Job, "Future[Outcome]"]


def in_threads(plan: Plan, jobs: Jobs, stop: threading.Event) -> Iterator[Outcome]:
    """Yield outcomes as they come; when the generator is closed, what is under way is given up."""
    pool = ThreadPoolExecutor(plan.threads, thread_name_prefix="jnrrdz-batch")
    results: SimpleQueue[Ended] = SimpleQueue()
    most, count = 2 * plan.threads, 0  # as many wait as work
    try:
        with warnings_kept():
            while count or not jobs.ended:
                for job in jobs.take(most - count, wait=count == 0):
                    _start(pool, results, plan, job, stop)
                    count += 1
                for job, work in _ended(results, none=count == 0):
                    count -= 1
                    outcome = outcome_of(work, job)
                    if outcome is not None:
                        yield outcome
    finally:
        if count:
            stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _start(
    pool: ThreadPoolExecutor, results: "SimpleQueue[Ended]", plan: Plan, job: Job, stop: threading.Event
) -> None:
    pool.submit(_worked, plan, job, stop).add_done_callback(lambda work: results.put((job, work)))


def _worked(plan: Plan, job: Job, stop: threading.Event) -> Outcome:
    if is_tree(job.found.url):  # its many files are asked for all through the scan
        return done(plan, job, stop)
    with turn.taken():
        return done(plan, job, stop)


def _ended(results: "SimpleQueue[Ended]", *, none: bool) -> list[Ended]:
    """Return what has ended since, after a moment's wait for the first; nothing where nothing is under way."""
    found: list[Ended] = []
    try:
        while not none:
            found.append(results.get(timeout=0 if found else LOOK))
    except Empty:
        pass
    return found


def outcome_of(work: "Future[Outcome]", job: Job) -> Outcome | None:
    """Return how a job ended, None where it was stopped before."""
    if work.cancelled():
        return None
    error = work.exception()
    if error is None:
        return work.result()
    return None if isinstance(error, StoppedError) else failed(Outcome(job, State.FAILED, attempts=1), error)
