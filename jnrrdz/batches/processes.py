"""Jobs in processes of this machine, since one interpreter works on one header at a time.

May touch processes and pipes.  Each worker is a fresh interpreter that imports what scanning needs and nothing of
the program that called; one that dies is replaced, and what it had not told of is done again.  The process that
calls works too, in threads: it has imported everything while the others still do.
"""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait

from jnrrdz.batches.item import Job, Outcome, State
from jnrrdz.batches.jobs import LOOK, Jobs
from jnrrdz.batches.work import Plan
from jnrrdz.batches.worker import GONE, serve
from jnrrdz.errors import JnrrdzError

PROGRAM = "import sys; from jnrrdz.batches.worker import main; main(int(sys.argv[1]))"
DEATHS = 3
"""Workers that a job may outlive: a file that kills each of them is told as failed."""

_GRACE = 5.0
"""Seconds that a worker has to end what it is writing."""


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
class Pool:
    """The workers of a batch."""

    plan: Plan
    jobs: Jobs
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
        for worker in sorted(self.workers, key=lambda one: len(one.under_way)):
            room = most - len(worker.under_way)
            if room * 4 < most:  # a few at a time cost a message each
                continue
            jobs = [self.again.popleft() for _ in range(min(room, len(self.again)))]
            share = room - len(jobs) if worker.under_way else min(room - len(jobs), self.plan.threads)
            jobs += self.jobs.take(share, wait=idle and not jobs)
            idle = idle and not jobs
            self._give(worker, jobs)

    def _give(self, worker: Worker, jobs: list[Job]) -> None:
        if not jobs:
            return
        worker.under_way.update((job.number, job) for job in jobs)
        with suppress(*GONE):  # the pipe's end is told when it is read, and the jobs are done again
            worker.pipe.send(jobs)

    def outcomes(self) -> Iterator[Outcome]:
        """Yield what has come in, after a moment's wait."""
        for pipe in wait([worker.pipe for worker in self.workers], LOOK):
            worker = next(one for one in self.workers if one.pipe is pipe)
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
            yield Outcome(job, State.FAILED, attempts=DEATHS, error=JnrrdzError.__name__, message=died)
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


def in_processes(plan: Plan, jobs: Jobs, stop: threading.Event, count: int) -> Iterator[Outcome]:
    """Yield outcomes as they come; when the generator is closed, what is under way is given up."""
    pool = Pool(plan, jobs)
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
