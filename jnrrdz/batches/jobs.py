"""Jobs as workers take them: as many as there is room for, without waiting where there is other work.

May touch threads.  In the process that lists, a thread runs ahead of the work, so that what is left is soon
known; it holds no more than a bounded number.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Full, Queue
from typing import Protocol

from jnrrdz.batches.item import Job

AHEAD = 100_000
"""Jobs that are listed and not begun."""

LOOK = 0.05
"""Seconds between two looks for new jobs."""


class Jobs(Protocol):
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
        found: list[Job] = []
        while len(found) < most:
            try:
                found.append(self._queue.get_nowait())
            except Empty:
                if found or not wait or self.ended:
                    return found
                self._work_or_look()
        return found

    def _work_or_look(self) -> None:
        """Let the listing go on for a moment."""
        threading.Event().wait(LOOK / 10)
