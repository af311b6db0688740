"""Ranges of bytes: what a source of them can do, and how near ones share a request.

Everything that opens something implements `ByteSource`; scanners see no more than `ReadRange`.  Near spans share a
request (`coalesce`), and their bytes are handed out again (`split`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jnrrdz.core.state import Validators
from jnrrdz.errors import MalformedError
from jnrrdz.records import record

type Span = tuple[int, int]
"""First byte and the byte after the last one."""

type ReadRange = Callable[[int, int], bytes]
"""`read(start, stop)`: the bytes of one span, fewer only at the end of the source."""


class ByteSource(Protocol):
    """Bytes at a URL, read by ranges from any thread."""

    @property
    def url(self) -> str:
        """The URL that a manifest names."""

    @property
    def validators(self) -> Validators:
        """Size, ETag, version and time of modification; asked once and kept."""

    @property
    def known(self) -> Validators | None:
        """The same as far as nobody has to be asked for it."""

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, in order, fetched together; shorter only at the source's end."""

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span without blocking the running event loop (of whichever thread)."""

    def close(self) -> None:
        """Let go of handles."""


GAP = 64 * 1024
"""Bytes worth reading for nothing rather than asking twice: at 20 ms and 25 MB/s a request costs 500 KB."""

LIMIT = 16 * 1024 * 1024
"""A merged request stays under this, so that several run at once; one span alone may be longer."""

MOST = 2**63 - 1
"""Bytes that a file can have."""


@record
class MergedRequest:
    """One request, and which of the asked spans it serves."""

    start: int
    stop: int
    serves: tuple[int, ...]

    @property
    def span(self) -> Span:
        """The bytes to ask for."""
        return self.start, self.stop


def check(spans: Sequence[Span]) -> None:
    """Refuse spans that no file can have."""
    for start, stop in spans:
        if not 0 <= start <= stop <= MOST:
            raise MalformedError(
                f"a range from byte {start} to {stop}; a range starts at 0 or later and ends after its start",
                offset=start,
            )


def coalesce(spans: Sequence[Span], *, gap: int = GAP, limit: int = LIMIT) -> list[MergedRequest]:
    """Return the requests that serve every span that is not empty, in ascending order.

    Spans at most `gap` bytes apart share a request as long as it stays within `limit` bytes.
    """
    order = sorted((index for index, (start, stop) in enumerate(spans) if stop > start), key=lambda i: spans[i])
    merged: list[MergedRequest] = []
    serves: list[int] = []
    first = last = 0
    for index in order:
        start, stop = spans[index]
        end = max(last, stop)
        if serves and start - last <= gap and (end == last or end - first <= limit):
            last = end
            serves.append(index)
            continue
        if serves:
            merged.append(MergedRequest(first, last, tuple(serves)))
        first, last, serves = start, stop, [index]
    if serves:
        merged.append(MergedRequest(first, last, tuple(serves)))
    return merged


def split(merged: MergedRequest, data: bytes, spans: Sequence[Span]) -> Iterator[tuple[int, bytes]]:
    """Yield each served span's index and bytes; shorter where `data` ends early."""
    for index in merged.serves:
        start, stop = spans[index]
        yield index, data[start - merged.start : stop - merged.start]
