"""What a source of bytes can do.

May touch errors only.  Everything that opens something implements `ByteSource`; layouts and
scanners see no more than `read_range`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jnrrdz.errors import DriftError

type Span = tuple[int, int]
"""First byte and the byte after the last one."""

type ReadRange = Callable[[int, int], bytes]
"""`read(start, stop)`: the bytes of one span, fewer only at the end of the source."""


@dataclass(frozen=True)
class Validators:
    """What tells one state of a source from another, as far as its server says."""

    size: int
    etag: str | None = None
    version: str | None = None
    modified: str | None = None
    """Last modification as RFC 3339 text in UTC."""


class State(Protocol):
    """A source's state as seen or as recorded; None is what is not known."""

    @property
    def size(self) -> int | None:
        """Bytes."""

    @property
    def etag(self) -> str | None:
        """ETag, with or without its mark of weakness."""

    @property
    def modified(self) -> str | None:
        """Last modification as RFC 3339 text in UTC."""


def difference(then: State, now: State) -> str | None:
    """Return in words what shows that two states are not the same, None where nothing shows it.

    Servers add and drop an ETag's mark of weakness on the way.  An answer without an ETag says nothing
    by that.  The time of modification counts only where no ETag can be compared.
    """
    if None not in {then.size, now.size} and then.size != now.size:
        return f"size was {then.size}, is {now.size}"
    if then.etag is not None and now.etag is not None:
        same = then.etag.removeprefix("W/") == now.etag.removeprefix("W/")
        return None if same else f"ETag was {then.etag}, is {now.etag}"
    if then.etag is now.etag is None and None not in {then.modified, now.modified} and then.modified != now.modified:
        return f"time of modification was {then.modified}, is {now.modified}"
    return None


def since_scanned(then: State, now: State) -> DriftError | None:
    """Return the error for a source that is not what was recorded when it was scanned, None where nothing shows it."""
    change = difference(then, now)
    return None if change is None else DriftError(f"changed since it was scanned: {change}; index it again")


class ByteSource(Protocol):
    """Bytes at a URL, read by ranges from any thread."""

    @property
    def url(self) -> str:
        """The URL that a manifest names."""

    @property
    def validators(self) -> Validators:
        """Size, ETag, version and time of modification; asked once and kept."""

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, in order, fetched together; shorter only at the source's end."""

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same without blocking the running event loop (of whichever thread)."""

    def close(self) -> None:
        """Let go of handles."""
