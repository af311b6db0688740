"""How fast a host has answered lately, and so how soon a request to it may be given up as lost.

Pure, but for what it remembers.  A stalled answer costs whoever waits for it the whole patience: five seconds
are many thousand answers of a near server.  Why these figures: docs/decisions/011-object-stores.md.
"""

from collections import deque
from urllib.parse import urlsplit

from jnrrdz.sources import retry

SHORTEST_SILENCE = 1.0
"""Seconds of silence that no host is given up before: a lost packet is sent again within that time."""

SLOW = 0.9
TIMES = 4
"""An answer may take so many times as long as one of the slow ones: this share of all answers was faster."""

ENOUGH = 16
"""Answers that have to be seen before anything is concluded."""

_REMEMBERED = 64
_HOSTS = 256
_PACES: "dict[tuple[str, str], Pace]" = {}


class Pace:
    """The last answers of one host."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def note(self, seconds: float) -> None:
        """Remember how long an answer took, or was waited for in vain."""
        self._seen.append(seconds)

    def silence(self, attempt: int) -> float:
        """Return for how many seconds an attempt waits for the next byte: twice as many at each."""
        usual = retry.silence(attempt)
        if len(self._seen) < ENOUGH:
            return usual
        slow = sorted(self._seen)[int(SLOW * len(self._seen))]
        return min(max(SHORTEST_SILENCE, TIMES * slow) * 2.0**attempt, usual)


def of(url: str) -> Pace:
    """Return the pace of a URL's host."""
    parts = urlsplit(url)
    host = (parts.scheme, parts.netloc)
    if host not in _PACES and len(_PACES) >= _HOSTS:
        del _PACES[next(iter(_PACES))]
    return _PACES.setdefault(host, Pace())
