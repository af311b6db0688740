"""Spans merged into fewer requests, and their bytes handed out again.

Pure: may touch errors and `source.base` only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jnrrdz.errors import MalformedError
from jnrrdz.sources.base import Span

GAP = 64 * 1024
"""Bytes worth reading for nothing rather than asking twice: at 20 ms and 25 MB/s a request costs 500 KB."""

LIMIT = 16 * 1024 * 1024
"""A merged request stays under this, so that several run at once; one span alone may be longer."""

_FILE_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class Merged:
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
        if not 0 <= start <= stop <= _FILE_LIMIT:
            raise MalformedError(
                f"a range from byte {start} to {stop}; a range starts at 0 or later and ends after its start",
                offset=start,
            )


def coalesce(spans: Sequence[Span], *, gap: int = GAP, limit: int = LIMIT) -> list[Merged]:
    """Return the requests that serve every span that is not empty, in ascending order.

    Spans at most `gap` bytes apart share a request as long as it stays within `limit` bytes.
    """
    order = sorted((index for index, (start, stop) in enumerate(spans) if stop > start), key=lambda i: spans[i])
    merged: list[Merged] = []
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
            merged.append(Merged(first, last, tuple(serves)))
        first, last, serves = start, stop, [index]
    if serves:
        merged.append(Merged(first, last, tuple(serves)))
    return merged


def split(merged: Merged, data: bytes, spans: Sequence[Span]) -> Iterator[tuple[int, bytes]]:
    """Yield each served span's index and bytes; shorter where `data` ends early."""
    for index in merged.serves:
        start, stop = spans[index]
        yield index, data[start - merged.start : stop - merged.start]
