"""Which failures may pass by themselves, and how long to wait for that.

May touch errors and randomness.  A file that is broken stays broken; a server that was busy answers later.
"""

import errno
import random
import re
from collections.abc import Iterator

from jnrrdz.errors import DriftError, JnrrdzError

_STATUS = re.compile(r"\bHTTP (?:408|425|429|5\d\d)\b")
_BUSY = re.compile(r"SlowDown|ServiceUnavailable|InternalError|RequestTimeout|Throttl|request rate", re.IGNORECASE)
_LIBRARIES = ("aiohttp", "aiobotocore", "botocore", "urllib3", "gcsfs", "azure")
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
FIRST = 0.5
LONGEST = 30.0


def is_passing(error: BaseException) -> bool:
    """Whether the same might work the next time."""
    if isinstance(error, DriftError):  # it changed while it was read; what is there now may be whole
        return True
    if isinstance(error, JnrrdzError) and type(error) is not JnrrdzError:
        return False
    causes = list(_causes(error))
    if any(isinstance(cause, _LASTING) or "redential" in type(cause).__name__ for cause in causes):
        return False
    return any(map(_passes, causes)) or _STATUS.search(str(error)) is not None or _BUSY.search(str(error)) is not None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _passes(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING:
        return True
    name = type(error).__name__
    library = type(error).__module__.partition(".")[0] in _LIBRARIES
    return library and any(word in name for word in ("Timeout", "Connect", "Disconnect", "Payload", "Stream", "Closed"))


def pause(attempt: int) -> float:
    """Return the seconds to wait after an attempt (from 1): twice as long each time, and never all at once."""
    longest = min(FIRST * 2.0 ** min(attempt - 1, 16), LONGEST)
    return longest * (0.5 + random.random() / 2)  # noqa: S311  spreads requests, protects nothing
