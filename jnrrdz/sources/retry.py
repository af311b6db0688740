"""Which failures pass by themselves, how often to ask again, and how long to wait for that.

A request that fails with `Transient` is asked again within some seconds (`persistently`).  Whoever does a whole
job again asks `is_passing`, and waits longer with `pause`.
Jitter as in https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/;
Retry-After: RFC 9110, section 10.2.3.
"""

import errno
import random
import re
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from jnrrdz.errors import DriftError, JnrrdzError

ATTEMPTS = 6
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
LONGEST_ASKED_PAUSE = 20.0
"""What a server may ask for in Retry-After; more is cut."""

FIRST_SILENCE = 5.0
LONGEST_SILENCE = 40.0
"""Seconds without a byte after which a request is given up: twice as many at each attempt, for slow servers."""

LONGEST_ANSWER = 60.0
SLOWEST = 16 * 1024
"""Bytes a second of a store that works, beyond the first seconds."""

BUSY_STATUSES = frozenset({429, 500, 502, 503, 504})
"""HTTP statuses after which a request is asked again."""

S3_BUSY = frozenset({"SlowDown", "503", "429", "ServiceUnavailable", "TooManyRequests", "InternalError", "500"})
"""S3's error codes of a server that has too much to do."""

_BROKEN = (
    ("aiohttp", "ClientPayloadError"),
    ("aiohttp", "ServerDisconnectedError"),
    ("botocore.exceptions", "ConnectionClosedError"),
    ("botocore.exceptions", "IncompleteReadError"),
    ("botocore.exceptions", "ReadTimeoutError"),
    ("botocore.exceptions", "ResponseStreamingError"),
)
"""Connections and bodies that ended before they were done, by the modules that may have been imported."""

_BUSY = re.compile(
    r"\bHTTP (?:408|425|429|5\d\d)\b"
    r"|(?i:SlowDown|ServiceUnavailable|InternalError|RequestTimeout|Throttl|request rate)"
)
_LIBRARIES = ("aiohttp", "aiobotocore", "botocore", "urllib3", "gcsfs", "azure")
_BREAKS = ("Timeout", "Connect", "Disconnect", "Payload", "Stream", "Closed")
"""Words in the names of those libraries' errors that tell of a connection."""

_PASSING = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)
_LASTING = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)


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
            import asyncio  # noqa: PLC0415  which a scan of local files does without

            await asyncio.sleep(pause(attempt, passing.after))
    try:
        return await ask(ATTEMPTS - 1)
    except Transient as last:
        raise last.cause from last.cause.__cause__


def pause(
    attempt: int, asked: float | None = None, *, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE
) -> float:
    """Return the seconds to wait after an attempt (from 0); many clients must not come back together."""
    if asked is not None:
        return min(asked, LONGEST_ASKED_PAUSE)
    return random.uniform(0.5, 1) * min(first * 2.0 ** min(attempt, 16), longest)  # noqa: S311  no secret depends on it


def silence(attempt: int) -> float:
    """Return for how many seconds an attempt waits for the next byte."""
    return min(FIRST_SILENCE * 2.0**attempt, LONGEST_SILENCE)


def longest_answer(nbytes: int) -> float:
    """Return for how many seconds an answer of so many bytes is waited for by who cannot see it come."""
    return LONGEST_ANSWER + nbytes / SLOWEST


def retry_after(header: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for; None where it says nothing that is understood."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  of use to who waits

    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max((when - datetime.now(UTC)).total_seconds(), 0.0) if when.tzinfo else None


def broken(*more: type[BaseException]) -> tuple[type[BaseException], ...]:
    """Return the exceptions of a connection that ended early; a library that was never imported has raised none."""
    kinds = [getattr(sys.modules.get(module), name, None) for module, name in _BROKEN]
    return TimeoutError, ConnectionError, EOFError, *more, *(kind for kind in kinds if isinstance(kind, type))


def is_passing(error: BaseException) -> bool:
    """Whether the same work might succeed the next time: a broken file stays broken, a busy server answers later."""
    if isinstance(error, DriftError):  # it changed while it was read; what is there now may be whole
        return True
    if isinstance(error, JnrrdzError) and type(error) is not JnrrdzError:
        return False
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    if any(isinstance(cause, _LASTING) or "redential" in type(cause).__name__ for cause in causes):
        return False
    return _BUSY.search(str(error)) is not None or any(map(_passes, causes))


def _passes(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING:
        return True
    library, name = type(error).__module__.partition(".")[0], type(error).__name__
    return library in _LIBRARIES and any(word in name for word in _BREAKS)
