"""Asking again where an answer failed for a reason that passes: how often, how long between, how long to wait.

May touch asyncio and chance.  What is not `Transient` is never asked again.
Jitter as in https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/;
Retry-After: RFC 9110, section 10.2.3.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

ATTEMPTS = 6
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
LONGEST_ASKED_PAUSE = 20.0
"""What a server may ask for in Retry-After; more is cut."""

FIRST_SILENCE = 5.0
LONGEST_SILENCE = 40.0
"""Seconds without a byte after which a request is given up: twice as many at each attempt, for slow servers."""


class Transient(Exception):  # noqa: N818  not an error for anybody but `persistently`
    """A failure that may pass; its cause is what is told when it does not."""

    def __init__(self, cause: BaseException, after: float | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.after = after


async def persistently[T](ask: Callable[[int], Awaitable[T]]) -> T:
    """Return what `ask(attempt)` gives, asking again while it raises Transient."""
    for attempt in range(ATTEMPTS - 1):
        try:
            return await ask(attempt)
        except Transient as passing:
            await asyncio.sleep(pause(attempt, passing.after))
    try:
        return await ask(ATTEMPTS - 1)
    except Transient as last:
        raise last.cause from last.cause.__cause__


def pause(attempt: int, asked: float | None = None) -> float:
    """Return the seconds to wait after an attempt; many clients must not come back together."""
    if asked is not None:
        return min(asked, LONGEST_ASKED_PAUSE)
    return random.uniform(0.5, 1) * min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)  # noqa: S311  no secret depends on it


def silence(attempt: int) -> float:
    """Return for how many seconds an attempt waits for the next byte."""
    return min(FIRST_SILENCE * 2.0**attempt, LONGEST_SILENCE)


def retry_after(said: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for; None where it says nothing that is understood."""
    if said is None:
        return None
    if said.strip().isdecimal():
        return float(said)
    try:
        when = parsedate_to_datetime(said)
    except ValueError:
        return None
    return max((when - datetime.now(UTC)).total_seconds(), 0.0) if when.tzinfo else None
