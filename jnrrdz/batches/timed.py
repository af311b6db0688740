"""A source whose reads end: when its time is over, or when the batch is to stop.

May touch the source protocol and fsspec's event loop.  A request that is given up is cancelled, so that its
connection is free again.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import fsspec.asyn

from jnrrdz.batches import turn
from jnrrdz.errors import JnrrdzError
from jnrrdz.sources.base import ByteSource, Span, Validators
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.local import LocalSource

_LOOK = 0.25
"""Seconds between two looks at whether to stop."""


class StoppedError(JnrrdzError):
    """The batch was to stop before this was done."""


class Clock:
    """The time that one source has, and whether it is still wanted."""

    def __init__(self, seconds: float | None, stop: threading.Event) -> None:
        self.begun = time.perf_counter()
        self._seconds = seconds
        self._stop = stop
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise if the time is over or the batch is to stop."""
        if self._stop.is_set():
            raise StoppedError("interrupted")
        if self._end is not None and time.monotonic() > self._end:
            raise JnrrdzError(f"not done within {self._seconds:g} s; --timeout (timeout=) gives it longer")

    async def awaited[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Return what some work gives on the running loop; it is cancelled where its time is over first."""
        if self._end is None:
            return await work
        try:
            async with asyncio.timeout(max(self._end - time.monotonic(), 0.0)):
                return await work
        except TimeoutError:
            self.check()
            raise

    def sleep(self, seconds: float) -> None:
        """Wait, unless the time would be over before that, or the batch is to stop."""
        left = seconds if self._end is None else min(seconds, max(self._end - time.monotonic(), 0.0))
        with turn.given_up():
            self._stop.wait(left)
        self.check()

    def await_result[T](self, work: "Future[T]") -> T:
        """Return what some work gives; it is cancelled where its time is over first."""
        with turn.given_up():
            while True:
                try:
                    return work.result(self._until_next_look())
                except TimeoutError:
                    if work.done():
                        raise
                    self._check_or_cancel(work)

    def _check_or_cancel(self, work: "Future[Any]") -> None:
        try:
            self.check()
        except JnrrdzError:
            work.cancel()
            raise

    def _until_next_look(self) -> float:
        return _LOOK if self._end is None else min(_LOOK, max(self._end - time.monotonic(), 0.0) + 0.001)


class TimedSource:
    """A remote source that keeps to a clock."""

    def __init__(self, inner: ByteSource, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    @property
    def url(self) -> str:
        """The URL that a manifest names."""
        return self._inner.url

    @property
    def validators(self) -> Validators:
        """Those of the source inside."""
        self._clock.check()
        with turn.given_up():
            return self._inner.validators

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, or raise when the time is over."""
        self._clock.check()
        work = asyncio.run_coroutine_threadsafe(self._inner.aread(spans), fsspec.asyn.get_loop())
        return self._clock.await_result(work)

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same without blocking."""
        return await self._inner.aread(spans)

    def close(self) -> None:
        """Let go of the source inside."""
        self._inner.close()


class TimedOpener:
    """Opens sources that keep to one clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, url: str, *, storage_options: Mapping[str, Any] | None = None) -> ByteSource:
        """Return the bytes at a URL."""
        self._clock.check()
        source = open_source(url, storage_options=storage_options)
        return source if isinstance(source, LocalSource) else TimedSource(source, self._clock)
