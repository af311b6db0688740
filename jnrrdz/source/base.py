"""What a source of bytes can do.

May touch errors only.  Everything that opens something implements `ByteSource`; layouts and
scanners see no more than `read_range`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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
