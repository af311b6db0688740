"""What one server keeps in memory and in temporary files, by one budget each, and the threads that it works with.

Answers, decoded chunks and the like of all sources share the budget: what was not asked for the longest goes first,
whatever it is.  Threads are daemons, so that a process ends whatever a slow source does; who waits for what another
one waits for already holds no thread.
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.caches import BoundedCache

FILES = "files"
"""What is kept in files; all other kinds are kept in memory."""

MOST_IN_FILES = 8 << 30

type Key = tuple[str, Hashable]
"""The kind of what is kept, and its name."""


class _Kept(NamedTuple):
    value: Any
    nbytes: int


class Memory:
    """Values by their keys, within a budget of bytes; safe to use from any thread."""

    def __init__(self, most: int, most_in_files: int = MOST_IN_FILES) -> None:
        self.most = most
        self._memory = BoundedCache[Key, _Kept](most_bytes=most, nbytes=lambda kept: kept.nbytes)
        self._files = BoundedCache[Key, _Kept](most_bytes=most_in_files, nbytes=lambda kept: kept.nbytes)
        self._kinds: set[str] = set()

    def nbytes(self) -> dict[str, int]:
        """Return how many bytes are kept, by kind."""
        totals = dict.fromkeys(self._kinds, 0)
        for cache in (self._memory, self._files):
            for key, kept in cache.entries():
                totals[key[0]] += kept.nbytes
        return totals

    def get(self, kind: str, name: Hashable) -> Any:
        """Return a value, None where it is not kept."""
        kept = self._of(kind).get((kind, name))
        return None if kept is None else kept.value

    def put(self, kind: str, name: Hashable, value: Any, nbytes: int) -> None:
        """Keep a value; those that were used longest ago leave."""
        self._kinds.add(kind)
        self._of(kind).put((kind, name), _Kept(value, nbytes))

    def forget(self, kind: str, prefix: str) -> None:
        """Drop all values of a kind whose names begin so."""
        cache = self._of(kind)
        for key, _ in cache.entries():
            if key[0] == kind and str(key[1]).startswith(prefix):
                cache.pop(key)

    def _of(self, kind: str) -> BoundedCache[Key, _Kept]:
        return self._files if kind == FILES else self._memory


BLOCKS = "blocks"


class Blocks:
    """Decoded source chunks that several answers are cut from, of all sources of a server.

    One that takes more than half of the memory is kept in a file without a name, which goes with it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def get(self, key: Hashable) -> NDArray[Any] | None:
        """Return a chunk, None where it is not kept."""
        found: NDArray[Any] | None = self._memory.get(BLOCKS, key)
        if found is None:
            found = self._memory.get(FILES, key)
        return found

    def keep(self, key: Hashable, block: NDArray[Any]) -> None:
        """Keep a chunk, unless it is larger than all files together may be."""
        if block.nbytes <= self._memory.most // 2:
            self._memory.put(BLOCKS, key, block, block.nbytes)
        elif block.nbytes <= MOST_IN_FILES:
            with tempfile.TemporaryFile(prefix="jnrrdz-") as file:
                # the mapping outlives the file
                spilled = np.memmap(file, block.dtype, "w+", shape=block.shape)
            spilled[...] = block
            self._memory.put(FILES, key, spilled, block.nbytes)


IDLE = 30.0
"""Seconds after which a thread without work ends."""


class ThreadPool:
    """Daemon threads for one kind of work, used from one event loop."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = f"jnrrdz-{name}"
        self._work: SimpleQueue[_ThreadCall | None] = SimpleQueue()
        self._lock = threading.Lock()
        """Held where work is added and where a thread ends for lack of it."""
        self._started = 0
        self._under_way = 0
        self._room: asyncio.Semaphore | None = None

    def close(self) -> None:
        """End the threads once they have done what they are doing."""
        for _ in range(self._started):
            self._work.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether there is no work and no thread."""
        return not self._under_way and not self._started

    async def run[T](self, make: Callable[[], T]) -> T:
        """Return what a function makes in a thread once there is room."""
        work = _ThreadCall(make, asyncio.get_running_loop())
        self._under_way += 1
        try:
            with self._lock:
                self._work.put(work)
                if self._started < min(self._threads, self._under_way):
                    self._started += 1
                    name = f"{self._name}-{self._started}"
                    threading.Thread(target=self._serve, name=name, daemon=True).start()
            result: T = await work.future
        finally:
            self._under_way -= 1
        return result

    async def run_wanted[T](self, make: Callable[[], T], is_unwanted: Callable[[], bool]) -> T | None:
        """Return the same; None where nobody wants it any more when there is room."""
        self._room = self._room or asyncio.Semaphore(self._threads)
        async with self._room:
            return None if is_unwanted() else await self.run(make)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE)
            except Empty:
                if self._ends_idle():
                    return
                continue
            if work is None:
                return
            work.do()

    def _ends_idle(self) -> bool:
        """Whether there is still no work for the calling thread, which then ends."""
        with self._lock:
            if not self._work.empty():
                return False
            self._started -= 1
            return True


MOST_POOLS = 1024
"""Pools beyond which those without work are dropped."""


class Pools:
    """A pool of threads for each source elsewhere, so that a slow one blocks no other."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._pools: dict[str, ThreadPool] = {}

    def of(self, source: str) -> ThreadPool:
        """Return the pool of a source, made when it is first needed."""
        if source not in self._pools and len(self._pools) >= MOST_POOLS:
            self._pools = {name: pool for name, pool in self._pools.items() if not pool.is_idle}
        return self._pools.setdefault(source, ThreadPool(self._threads, self._name))

    def close(self) -> None:
        """End the threads once they have done what they are doing."""
        for pool in self._pools.values():
            pool.close()


class _ThreadCall:
    """A function that a thread calls, and the future that is told what came of it."""

    def __init__(self, make: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._make, self._loop = make, loop
        self._result: Any = None
        self.future: asyncio.Future[Any] = loop.create_future()

    def do(self) -> None:
        if not self.future.cancelled():
            with self:
                self._result = self._make()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._settle, error)
        return True

    def _settle(self, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self._result)
        else:
            self.future.set_exception(error)
