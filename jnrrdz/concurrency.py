"""Work that several callers share, and work that starts together and ends together.

`SharedCalls` and `SharedTasks` compute a value once for all who ask for it at one time, in
threads and on an event loop; nothing is kept once it is there.  `together` runs coroutines
at once, and leaves none behind.
"""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable
from concurrent.futures import Future
from typing import Any


class SharedCalls:
    """Calls of which one serves all threads that ask for the same key meanwhile."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def once[T](self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns, called by this thread or by another one.

        What it raises, all who wait raise.
        """
        with self._lock:
            running = self._under_way.get(key)
            future = self._under_way.setdefault(key, Future())
        if running is not None:
            shared: T = running.result()
            return shared
        try:
            value = make()
            future.set_result(value)
        finally:
            if not future.done():  # whatever ended the work, nobody waits for ever
                future.set_exception(sys.exception())
            with self._lock:
                del self._under_way[key]
        return value


class SharedTasks:
    """Tasks of one event loop, of which one serves all who wait for the same key meanwhile."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Any]] = {}

    async def once[T](self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return what the task becomes, which goes on if the caller that began it is cancelled."""
        future = self._under_way.get(key)
        if future is None:
            future = self._under_way[key] = asyncio.ensure_future(make())
            future.add_done_callback(lambda done: self._ended(key, done))
        result: T = await asyncio.shield(future)
        return result

    def _ended(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # marks it as retrieved: perhaps no caller waits any more


async def together[T](work: Iterable[Coroutine[Any, Any, T]], *, most: int | None = None) -> list[T]:
    """Return the results of coroutines in order, `most` of them running at once.

    The first that fails cancels the others, and all have ended when this returns or raises.
    """
    coroutines = list(work)
    if len(coroutines) == 1:
        return [await coroutines[0]]
    turns = asyncio.Semaphore(most or len(coroutines) or 1)
    tasks = [asyncio.ensure_future(_in_turn(turns, each)) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await end(tasks)
        for each in coroutines:
            each.close()  # one that never began would be reported as never awaited


async def _in_turn[T](turns: asyncio.Semaphore, work: Coroutine[Any, Any, T]) -> T:
    async with turns:
        return await work


async def end(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until all have ended, whatever they raise."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
