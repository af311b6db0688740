"""A batch's worker, in a process of its own or a thread: jobs come through a pipe, outcomes go back.

May touch signals and the pipe whose descriptor it is given.  It ends when the pipe does, whatever became of the
process at its other end: nothing half written stays, and nobody indexes for a batch that is gone.
"""

import signal
import threading
from collections import deque
from multiprocessing.connection import Connection

from jnrrdz.batches.item import Job
from jnrrdz.batches.threads import in_threads

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
            self._receive()
        return [self._left.popleft() for _ in range(min(most, len(self._left)))]

    def _receive(self) -> None:
        try:
            jobs = self._pipe.recv()
        except GONE:
            self._stop.set()
            self._left.clear()
            jobs = None
        if jobs is None:
            self._over = True
        else:
            self._left += jobs


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
