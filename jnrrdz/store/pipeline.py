"""zarr's fused pipeline, its chunks handed to threads some at a time.

May touch zarr's pipeline only.  zarr gives its pool a task for each chunk: a future, its locks and a waking of
whoever waits for it, all of it while the threads that decode wait for the interpreter.  Here each thread
takes the next few chunks until none are left.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from typing import Any

from zarr.abc.codec import GetResult
from zarr.abc.store import ByteGetter
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer
from zarr.core.codec_pipeline import FusedCodecPipeline, _get_pool
from zarr.core.indexing import SelectorTuple

type Item = tuple[ByteGetter, ArraySpec, SelectorTuple, SelectorTuple, bool]

_MOST = 4
"""Chunks that a thread takes at once: two save a sixth of a read of small blocks, more save nothing else."""

_TURNS = 16
"""Times that each thread comes back at least, so that none is left with much when the others have finished."""


class ReferencePipeline(FusedCodecPipeline):
    """Reads, decodes and places chunks on a few threads."""

    def read_sync(
        self,
        batch_info: Iterable[Item],
        out: NDBuffer,
        drop_axes: tuple[int, ...] = (),
        max_workers: int = 1,
    ) -> tuple[GetResult, ...]:
        """Fill an array with chunks, and return for each whether it was there; the first that fails ends the rest."""
        batch = list(batch_info)
        if max_workers == 1 or len(batch) <= 1:
            return super().read_sync(batch, out, drop_axes, max_workers=1)
        length = max(1, min(_MOST, len(batch) // (_TURNS * max_workers)))
        found: dict[int, tuple[GetResult, ...]] = {}

        def read(first: int) -> None:
            part = batch[first : first + length]
            found[first] = super(ReferencePipeline, self).read_sync(part, out, drop_axes, max_workers=1)

        starts = range(0, len(batch), length)
        _shared(read, deque(starts), max_workers)
        return tuple(result for first in starts for result in found[first])


def _shared(work: Callable[[int], Any], pending: deque[int], workers: int) -> None:
    """Do work on several threads until nothing is pending; raises what the earliest that failed raised."""
    begun: dict[int, int] = {}

    def drain(worker: int) -> None:
        try:
            while (first := _next(pending)) is not None:
                begun[worker] = first
                work(first)
        finally:
            pending.clear()  # where one has failed, the others stop

    pool = _get_pool(workers)
    tasks = [pool.submit(drain, worker) for worker in range(min(workers, len(pending)))]
    wait(tasks)
    for worker in sorted(begun, key=begun.__getitem__):
        tasks[worker].result()


def _next(pending: deque[int]) -> int | None:
    """Return the next that is pending, None where another thread took the last."""
    try:
        return pending.popleft()
    except IndexError:
        return None
