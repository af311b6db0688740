"""Requests that one event loop makes in one turn, merged where they are neighbours.

May touch asyncio, read.pool, read.recent, source.ranges and errors.  Zarr asks for every chunk by itself; in one
turn of the loop it asks for as many as `async.concurrency` lets it, and those share requests here.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from jnrrdz.sources import ranges
from jnrrdz.store.pool import SourcePool, truncated
from jnrrdz.store.recent import Recent


class _Ask(NamedTuple):
    url: str
    start: int
    stop: int
    answer: asyncio.Future[bytes]


class Batches:
    """What is asked for and not yet sent, for each event loop."""

    def __init__(self, pool: SourcePool) -> None:
        self._pool = pool
        self._recent = Recent()
        self._waiting: dict[asyncio.AbstractEventLoop, list[_Ask]] = {}
        self._fetches: set[asyncio.Task[None]] = set()

    def ask(self, url: str, offset: int, length: int) -> asyncio.Future[bytes]:
        """Return what will be the bytes of a range; the request leaves when the loop's turn is over."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        kept = self._recent.get((url, offset, length)) if length else b""
        if kept is not None:
            answer.set_result(kept)
            return answer
        if loop not in self._waiting:
            self._waiting[loop] = []
            loop.call_soon(self._flush, loop)
        self._waiting[loop].append(_Ask(url, offset, offset + length, answer))
        return answer

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a request for each run of ranges that are no more than `source.ranges.GAP` apart."""
        by_url = defaultdict(list)
        for ask in self._waiting.pop(loop):
            by_url[ask.url].append(ask)
        for url, asks in by_url.items():
            for request in ranges.coalesce([(ask.start, ask.stop) for ask in asks]):
                served = [asks[index] for index in request.serves]
                fetch = loop.create_task(self._fetch(url, request, served))
                self._fetches.add(fetch)  # a loop does not keep its tasks alive
                fetch.add_done_callback(partial(self._settle, served))

    async def _fetch(self, url: str, request: ranges.Merged, served: Sequence[_Ask]) -> None:
        opened = self._pool.known(url)
        if opened is None:
            opened = await asyncio.to_thread(self._pool.opened, url)
        (data,) = await opened.source.aread([request.span])
        if not opened.checked:
            # after reading: the answer has often told what would else take a request of its own
            await asyncio.to_thread(opened.check)
        for ask in served:
            piece = data[ask.start - request.start : ask.stop - request.start]
            wanted = ask.stop - ask.start
            if len(piece) == wanted:
                self._recent.put((url, ask.start, wanted), piece)
            if ask.answer.done():  # whoever asked was cancelled
                continue
            if len(piece) < wanted:
                ask.answer.set_exception(truncated(opened.source, ask.start, wanted, len(piece)))
            else:
                ask.answer.set_result(piece)

    def _settle(self, served: Sequence[_Ask], fetch: asyncio.Task[None]) -> None:
        """Tell everybody who still waits that the request failed."""
        self._fetches.discard(fetch)
        error = asyncio.CancelledError() if fetch.cancelled() else fetch.exception()
        for ask in served:
            if error is not None and not ask.answer.done():
                ask.answer.set_exception(error)
