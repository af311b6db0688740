"""A batch's jobs shared out: to threads of this process, to processes of this machine, to a cluster.

In the process that lists, a thread runs ahead of the work, so that what is left is soon known; it holds a bounded
number of jobs.  First bytes of remote sources are fetched on fsspec's event loop.  A header of a small file fits in
one answer, and what is left is a millisecond of work: done where the answer arrives, it needs no thread to be woken
and no fight for the interpreter's lock.  Whatever needs more bytes, another file, or another try goes on in a thread.
Figures: docs/decisions/018-batch.md.

Each worker process is a fresh interpreter that imports what scanning needs and nothing of the program that called;
its jobs come through a pipe, outcomes go back.  It ends when the pipe does: nobody indexes for a batch that is gone.
One that dies is replaced, and what it had not told of is done again.  The process that calls works too.  What is no
error of ours is an outcome as well: one odd file does not end a batch of thousands.

A task of dask.distributed has some jobs.  Its worker writes their outputs and returns outcomes; a task whose worker
died runs again elsewhere and leaves what is done already.
"""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing.connection import Connection, Pipe, wait
from queue import Empty, Full, Queue, SimpleQueue
from typing import Any, Protocol

import fsspec.asyn

from jnrrdz.batches.item import Job, JobState, Outcome
from jnrrdz.batches.work import (
    Clock,
    Plan,
    StoppedError,
    TimedOpener,
    TimedSource,
    failed,
    guard_for,
    run_job,
    run_job_now,
    turn,
    warnings_kept,
)
from jnrrdz.concurrency import end
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.guests import IS_POSSIBLE, Guests
from jnrrdz.formats.scanning import is_tree, literal
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.readahead import FIRST
from jnrrdz.sources.remote import FsspecSource
from jnrrdz.sources.url import local_path

AHEAD = 100_000
"""Jobs that are listed and not begun."""

LOOK = 0.05
"""Seconds between two looks for new jobs."""


class JobSource(Protocol):
    """Where jobs come from."""

    @property
    def ended(self) -> bool:
        """Whether there will be none any more."""

    def take(self, most: int, *, wait: bool) -> list[Job]:
        """Return some jobs; none only where none is there yet and `wait` is not asked for, or at the end."""


class ListedJobs:
    """Jobs that are there already."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._left = deque(jobs)

    @property
    def ended(self) -> bool:
        """Whether all are taken."""
        return not self._left

    def take(self, most: int, *, wait: bool) -> list[Job]:
        """Return the next jobs."""
        del wait
        return [self._left.popleft() for _ in range(min(most, len(self._left)))]


class Ahead:
    """Jobs that a thread takes from an iterator; what goes wrong there is raised where they are taken."""

    def __init__(self, jobs: Iterator[Job], stop: threading.Event) -> None:
        self.listed = 0
        """How many there are, as far as is known."""
        self._queue: Queue[Job] = Queue(AHEAD)
        self._stop = stop
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jnrrdz-listing")
        self._work = self._pool.submit(self._run, jobs)
        self._pool.shutdown(wait=False)

    def _run(self, jobs: Iterator[Job]) -> None:
        for job in jobs:
            while not self._stop.is_set():
                try:
                    self._queue.put(job, timeout=LOOK)
                except Full:
                    continue
                self.listed += 1
                break
            if self._stop.is_set():
                return

    @property
    def all_listed(self) -> bool:
        """Whether the number of jobs is known."""
        return self._work.done()

    @property
    def ended(self) -> bool:
        """Whether all are taken."""
        over = self._work.done()  # before the queue is looked at, which may be filled until then
        if over and self._queue.empty():
            self._work.result()
            return True
        return False

    def take(self, most: int, *, wait: bool) -> list[Job]:
        """Return jobs that are listed, up to `most`; a listing that fails is raised when all before it are taken."""
        jobs: list[Job] = []
        while len(jobs) < most:
            try:
                jobs.append(self._queue.get_nowait())
            except Empty:
                if jobs or not wait or self.ended:
                    return jobs
                time.sleep(LOOK / 10)  # let the listing go on for a moment
        return jobs


type Later = Callable[[Job, Clock, TimedOpener], "asyncio.Future[Any]"]
"""Does a job in a thread, which tells its outcome."""

_GRACE = 5.0


def source_of(plan: Plan, job: Job) -> FsspecSource | None:
    """Return the source whose head is worth asking for before anything else is known; None where there is none."""
    url = job.found.url
    if local_path(url) is not None or is_tree(url) or not plan.is_new(job):
        return None
    try:
        options, guard = plan.work.source_options(url), guard_for(plan, job.found)
        source = open_source(literal(url), storage_options=options, guard=guard)
    except (JnrrdzError, OSError):
        return None  # told where the job is done
    return source if isinstance(source, FsspecSource) else None


class PendingHeads:
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

        def take() -> None:
            self._waiting += jobs
            self._start()

        if jobs:
            self._loop.call_soon_threadsafe(take)

    def close(self) -> None:
        """Give up what is under way."""

        async def give_up() -> None:
            self._waiting.clear()
            await end(list(self._tasks))

        asyncio.run_coroutine_threadsafe(give_up(), self._loop).result(_GRACE)

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
            self._tell(job, failed(Outcome(job, JobState.FAILED, attempts=1), error))
        self._start()

    async def _do(self, job: Job, source: FsspecSource) -> None:
        clock = Clock(self._plan.work.timeout, self._stop)
        head: bytes | JnrrdzError
        try:
            head = await clock.awaited(source.head(FIRST))
        except JnrrdzError as error:
            head = error
        outcome = None
        if isinstance(head, bytes) and local_path(job.output) is not None:
            alone = TimedSource(source, clock, head, alone=True)
            outcome = run_job_now(self._plan, job, clock, TimedOpener(clock, alone))
        if outcome is not None and outcome.state is JobState.OK:
            self._tell(job, outcome)
        else:
            opener = TimedOpener(clock, TimedSource(source, clock, head))
            await asyncio.wait([self._later(job, clock, opener)])


type Result = tuple[Job, Outcome | None]

GATHER = 0.01
"""Seconds in which outcomes come together: to look at each by itself costs the workers their lock each time."""


def in_threads(plan: Plan, jobs: JobSource, stop: threading.Event) -> Iterator[Outcome]:
    """Yield outcomes as they come; when the generator is closed, what is under way is given up."""
    guests = Guests(plan.guests) if IS_POSSIBLE else None
    try:
        yield from _in_threads(plan, jobs, stop, guests)
    finally:
        if guests is not None:
            guests.close()


def _in_threads(plan: Plan, jobs: JobSource, stop: threading.Event, guests: Guests | None) -> Iterator[Outcome]:
    work = _ProcessWork(plan, stop, guests)
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


class _ProcessWork:
    """What is under way in this process: on the loop, and in threads."""

    def __init__(self, plan: Plan, stop: threading.Event, guests: Guests | None) -> None:
        self.count = 0
        self._plan = plan
        self._stop = stop
        self._guests = guests
        self._pool = ThreadPoolExecutor(plan.threads, thread_name_prefix="jnrrdz-batch")
        self._results: SimpleQueue[Result] = SimpleQueue()
        self._heads = PendingHeads(plan, stop, self._later, lambda *result: self._results.put(result))

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
        outcomes: list[Outcome] = []
        with suppress(Empty):
            result = self._results.get(timeout=LOOK) if self.count else None
            time.sleep(GATHER if self.count > 1 else 0)
            while result is not None:
                self.count -= 1
                outcomes += [result[1]] if result[1] is not None else []
                result = self._results.get_nowait()
        return outcomes

    def close(self) -> None:
        """End the threads; what is under way is given up."""
        if self.count:
            self._stop.set()
            self._heads.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, job: Job, clock: Clock | None = None, opener: TimedOpener | None = None) -> "Future[Outcome]":
        work = self._pool.submit(self._worked, job, clock, opener)
        work.add_done_callback(lambda work: self._results.put((job, outcome_of(work, job))))
        return work

    def _worked(self, job: Job, clock: Clock | None, opener: TimedOpener | None) -> Outcome:
        # a tree's many files are asked for all through the scan
        with nullcontext() if is_tree(job.found.url) else turn():
            clock = clock or Clock(self._plan.work.timeout, self._stop)
            return run_job(self._plan, job, self._guests, clock, opener)

    def _later(self, job: Job, *more: Any) -> "asyncio.Future[Any]":
        ended = asyncio.wrap_future(self._start(job, *more))
        ended.add_done_callback(lambda work: work.cancelled() or work.exception())  # it is told elsewhere
        return ended


def outcome_of(work: "Future[Outcome]", job: Job) -> Outcome | None:
    """Return how a job ended, None where it was stopped before."""
    if work.cancelled():
        return None
    error = work.exception()
    if error is None:
        return work.result()
    return None if isinstance(error, StoppedError) else failed(Outcome(job, JobState.FAILED, attempts=1), error)


GONE = (EOFError, BrokenPipeError, ConnectionResetError)


class PipedJobs:
    """Jobs that come in lists through a pipe, the end of them as None."""

    def __init__(self, pipe: "Connection[object, list[Job] | None]", stop: threading.Event) -> None:
        self._pipe = pipe
        self._stop = stop
        self._left: deque[Job] = deque()
        self._over = False

    @property
    def ended(self) -> bool:
        """Whether all that will come is taken."""
        return self._over and not self._left

    def take(self, most: int, *, wait: bool) -> list[Job]:
        """Return the next jobs; the pipe is looked at even where there is no room, for it tells the end."""
        while not self._over and (self._pipe.poll() or (wait and not self._left)):
            try:
                jobs = self._pipe.recv()
            except GONE:
                self._stop.set()
                self._left.clear()
                jobs = None
            self._over = jobs is None
            self._left += jobs or []
        return [self._left.popleft() for _ in range(min(most, len(self._left)))]


def main(descriptor: int) -> None:
    """Work in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process tells it when to stop
    serve(Connection(descriptor))


def serve(pipe: "Connection[object, object]") -> None:
    """Work until there are no jobs any more, or the other end is gone."""
    stop = threading.Event()
    try:
        plan = pipe.recv()
        for outcome in in_threads(plan, PipedJobs(pipe, stop), stop):  # type: ignore[arg-type]
            pipe.send(outcome)
    except GONE:
        stop.set()
    finally:
        pipe.close()


PROGRAM = "import sys; from jnrrdz.batches.executors import main; main(int(sys.argv[1]))"
DEATHS = 3
"""Workers that a job may outlive: a file that kills each of them is told as failed."""


class Inside:
    """A worker in threads of this process, which ends as a process does."""

    def __init__(self, pipe: "Connection[object, object]") -> None:
        self._thread = threading.Thread(target=serve, args=(pipe,), name="jnrrdz-worker", daemon=True)
        self._given_up = False
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int:
        """Return when it has ended, or has been given up."""
        self._thread.join(0 if self._given_up else timeout)
        if self._thread.is_alive() and not self._given_up:
            raise subprocess.TimeoutExpired(self._thread.name, timeout or 0)
        return 0

    def kill(self) -> None:
        """Wait for it no longer."""
        self._given_up = True


@dataclass(eq=False)
class Worker:
    """One process, and what it was given and has not told of."""

    process: "subprocess.Popen[bytes] | Inside"
    pipe: "Connection[object, object]"
    under_way: dict[int, Job] = field(default_factory=dict)


@dataclass
class WorkerPool:
    """The workers of a batch."""

    plan: Plan
    jobs: JobSource
    workers: list[Worker] = field(default_factory=list)
    again: deque[Job] = field(default_factory=deque)
    deaths: dict[int, int] = field(default_factory=dict)

    def start_inside(self) -> None:
        """Let this process work too."""
        ours, theirs = Pipe()
        ours.send(self.plan)
        self.workers.append(Worker(Inside(theirs), ours))

    def start(self) -> None:
        """Add a process."""
        ours, theirs = Pipe()
        command = [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno())]
        # a group of its own: an interrupt from the terminal is for the coordinator, which tells the workers
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, process_group=0)  # noqa: S603
        theirs.close()
        ours.send(self.plan)
        self.workers.append(Worker(process, ours))

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return not self.again and not any(worker.under_way for worker in self.workers) and self.jobs.ended

    def feed(self) -> None:
        """Give each worker jobs, as many as it works on and as many to wait."""
        most = 2 * self.plan.threads
        idle = not any(worker.under_way for worker in self.workers)
        for worker in sorted(self.workers, key=lambda worker: len(worker.under_way)):
            room = most - len(worker.under_way)
            if room * 4 < most:  # a few at a time cost a message each
                continue
            jobs = [self.again.popleft() for _ in range(min(room, len(self.again)))]
            share = room - len(jobs) if worker.under_way else min(room - len(jobs), self.plan.threads)
            jobs += self.jobs.take(share, wait=idle and not jobs)
            idle = idle and not jobs
            if jobs:
                worker.under_way.update((job.number, job) for job in jobs)
                with suppress(*GONE):  # the pipe's end is told when it is read, and the jobs are done again
                    worker.pipe.send(jobs)

    def outcomes(self) -> Iterator[Outcome]:
        """Yield what has come in, after a moment's wait."""
        for pipe in wait([worker.pipe for worker in self.workers], LOOK):
            worker = next(worker for worker in self.workers if worker.pipe is pipe)
            try:
                while worker.pipe.poll():
                    outcome = worker.pipe.recv()
                    assert isinstance(outcome, Outcome)  # noqa: S101  our own process sends nothing else
                    worker.under_way.pop(outcome.job.number, None)
                    yield outcome
            except GONE:
                yield from self._buried(worker)

    def _buried(self, worker: Worker) -> Iterator[Outcome]:
        """Replace a worker that died; yield the outcomes of jobs that too many died of."""
        self.workers.remove(worker)
        worker.pipe.close()
        code = worker.process.wait()
        for number, job in worker.under_way.items():
            self.deaths[number] = self.deaths.get(number, 0) + 1
            if self.deaths[number] < DEATHS:
                self.again.append(job._replace(again=True))
                continue
            died = f"{DEATHS} workers died while this and others were being indexed, the last one with code {code}"
            yield Outcome(job, JobState.FAILED, attempts=DEATHS, error=JnrrdzError.__name__, message=died)
        self.start()

    def close(self) -> None:
        """End the workers; what they are writing gets whole, or goes."""
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            try:
                worker.process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()


def in_processes(plan: Plan, count: int, jobs: JobSource, stop: threading.Event) -> Iterator[Outcome]:
    """Yield outcomes as they come; when the generator is closed, what is under way is given up."""
    pool = WorkerPool(plan, jobs)
    try:
        for _ in range(count - 1):
            pool.start()
        pool.start_inside()
        while not pool.is_over and not stop.is_set():
            pool.feed()
            yield from pool.outcomes()
    finally:
        pool.close()


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


PER_TASK = 50
"""Sources in a task: a task costs a scheduler a millisecond, an item in it a tenth."""

LOCAL = "local"
type Tasks = dict[str, tuple[Any, list[Job]]]
"""What is under way on a cluster: by a task's key, the task and its jobs."""


def run_task(plan: Plan, jobs: list[Job]) -> list[Outcome]:
    """Return the outcomes of some jobs; this is what a cluster's worker runs."""
    guests = task_guests() if IS_POSSIBLE else None
    return list(_in_threads(plan, ListedJobs(jobs), threading.Event(), guests))


@cache
def task_guests() -> Guests:
    """Return the worker processes of all tasks that this process runs; they end with it."""
    return Guests(cores())


def on_cluster(plan: Plan, scheduler: str, jobs: JobSource, stop: threading.Event) -> Iterator[Outcome]:
    """Yield outcomes as tasks end."""
    with _client(scheduler) as client:
        results: SimpleQueue[Any] = SimpleQueue()
        under_way: Tasks = {}

        def submit(some: list[Job]) -> None:
            task = client.submit(run_task, plan, some, pure=False)
            under_way[task.key] = (task, some)
            task.add_done_callback(results.put)

        try:
            while (under_way or not jobs.ended) and not stop.is_set():
                most = 2 * max(sum(client.nthreads().values()), 1)  # two tasks for each thread of the workers
                while len(under_way) < most and (some := jobs.take(PER_TASK, wait=not under_way)):
                    # a task may run twice, so what is there and of the same source is done
                    submit([job._replace(again=True) for job in some])
                with suppress(Empty):
                    task = results.get(timeout=LOOK)
                    _, some = under_way.pop(task.key)
                    if task.status == "lost":  # its worker died after the task, before its outcomes were fetched
                        submit(some)
                    else:
                        yield from _outcomes(task, some)
        finally:
            client.cancel([task for task, _ in under_way.values()], force=True)


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise UnsupportedError(
            f"dask.distributed is not installed ({error}); pip install 'jnrrdz[dask]'", field="scheduler"
        ) from error
    if scheduler == LOCAL:
        options = {"n_workers": cores(), "threads_per_worker": 1, "dashboard_address": None}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            yield client
        return
    try:
        client = distributed.Client(scheduler)
    except (OSError, ValueError, ImportError) as error:
        raise JnrrdzError(f"no scheduler answers: {error}", url=scheduler, field="scheduler") from error
    with client:
        yield client


def _outcomes(task: Any, jobs: list[Job]) -> Iterator[Outcome]:
    """Yield what a task's jobs came to; a task that failed as a whole fails each of them."""
    if task.status == "finished":
        yield from task.result()
        return
    error = task.exception() if task.status == "error" else JnrrdzError(f"the task was {task.status}")
    yield from (failed(Outcome(job, JobState.FAILED, attempts=1), error) for job in jobs)
