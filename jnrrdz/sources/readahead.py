"""A block cache for scanners that walk through headers a few bytes at a time; one scan has one."""

from bisect import bisect_right
from collections.abc import Sequence

from jnrrdz.caches import BoundedCache
from jnrrdz.errors import MalformedError
from jnrrdz.sources import faults
from jnrrdz.sources.ranges import ByteSource, Span, check

FIRST = 32 * 1024
LARGEST = 4 * 1024 * 1024
KEEP = 32 * 1024 * 1024
STRIDED = 8 * 1024
"""Bytes of a place that is fetched ahead: a directory and most of its values."""

SURE = 3
"""Jumps that repeat a stride before it is followed."""

MOST_AHEAD = 64
"""Places that are fetched at once."""


class ReadAhead:
    """`read(start, stop)` with blocks that grow while a walk goes on.

    The first request reads `first` bytes at 0.  Where reading continues at the end of the last
    block, the next one is as long as the walk so far (so a walk's bytes double with each request),
    up to `largest`; a jump starts again with `first`.  What is longer is asked for as it is.
    Jumps of one stride, as those from one directory to the next of a stack, are followed
    ahead: the places where the next ones would lead are fetched with it, at once.
    """

    def __init__(self, source: ByteSource, *, first: int = FIRST, largest: int = LARGEST, keep: int = KEEP) -> None:
        self.source = source
        self.requests = 0
        self.bytes_read = 0
        self._first = first
        self._largest = largest
        self._walk: Span = (0, 0)
        self._jump = 0
        """Where the last jump led, or the last place that was fetched ahead."""
        self._stride = 0
        self._equal = 0
        """Jumps by this stride, one after the other, behind the first."""
        self._ahead = 0
        """Places that were fetched ahead with the last jump."""
        self._recent = 0, b""
        """Where the block that was used last begins, and its bytes; none where it is no longer kept."""
        self._blocks = BoundedCache[int, bytes](most_bytes=keep, nbytes=len, on_eviction=self._forget)
        self._starts: list[int] = []
        self._size: int | None = None

    @property
    def size(self) -> int:
        """The source's size."""
        if self._size is None:
            self._size = self.source.validators.size
        return self._size

    def __call__(self, start: int, stop: int) -> bytes:
        """Return the bytes of one span, fewer only at the end of the source."""
        first, block = self._recent
        if block and first <= start <= stop <= first + len(block):  # most of a walk is there
            return block[start - first : stop - first]
        try:
            check([(start, stop)])
        except MalformedError as error:
            error.at(url=self.source.url)
            raise
        if self.requests == 0:
            self._read_first()
        stop = min(stop, self.size)
        if start >= stop:
            return b""
        first, block = self._block_at(start)
        if first + len(block) >= stop:
            self._recent = first, block
            return block[start - first : stop - first]
        return self._assemble(start, stop)

    def cached(self, start: int, stop: int) -> bytes | None:
        """Return the bytes of a span that were read before, None where some were not."""
        first, block = self._block_at(start)
        return block[start - first : stop - first] if first + len(block) >= stop else None

    def add(self, start: int, data: bytes) -> None:
        """Keep bytes that were read from the source elsewhere."""
        if len(data) <= self._largest and not self._block_at(start)[1]:
            self._store(start, data)

    def fetch(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of several spans, read at once; they are no part of a walk, and are not kept."""
        pieces = self.source.read(spans)
        self.requests += len(spans)
        self.bytes_read += sum(map(len, pieces))
        return pieces

    def _read_first(self) -> None:
        """Read the head before asking for the size: over HTTP its answer tells the size too."""
        (head,) = self.source.read([(0, self._first)])
        self.requests += 1
        self.bytes_read += len(head)
        self._store(0, head)
        self._recent = 0, head
        self._walk = (0, len(head))

    def _assemble(self, start: int, stop: int) -> bytes:
        """Join what is cached with what is missing, which is fetched together."""
        joined = bytearray(stop - start)
        gaps: list[Span] = []
        at = start
        while at < stop:
            first, block = self._block_at(at)
            if block:
                end = min(stop, first + len(block))
                joined[at - start : end - start] = block[at - first : end - first]
            else:
                end = min(stop, self._next(at))
                gaps.append((at, end))
            at = end
        fetched = self._fetch(gaps)
        if gaps == [(start, stop)]:
            return fetched[0]
        for (first, last), data in zip(gaps, fetched, strict=True):
            joined[first - start : last - start] = data
        return bytes(joined)

    def _fetch(self, gaps: list[Span]) -> list[bytes]:
        """Return the bytes of the gaps, reading ahead after the last, and keep all that is not too long."""
        if not gaps:
            return []
        is_jump = gaps[-1][0] != self._walk[1]
        asked = [*gaps[:-1], self._extended(gaps[-1])]
        if is_jump:
            asked += self._strided(*asked[-1])
        self.requests += len(asked)
        found = self.source.read(asked)
        for (start, stop), data in zip(asked, found, strict=True):
            self.bytes_read += len(data)
            if len(data) != stop - start:
                raise faults.shrunk(self.source.url, len(data), stop - start, start)
            if len(data) <= self._largest:
                self._store(start, data)
        return [data[: stop - start] for (start, stop), data in zip(gaps, found, strict=False)]

    def _extended(self, gap: Span) -> Span:
        """Return what to read for a gap: more of it, where it continues a walk or is short."""
        start, stop = gap
        walk_start, walk_stop = self._walk
        if start == walk_stop:
            size = min(max(walk_stop - walk_start, self._first), self._largest)
        else:
            size, walk_start = self._first, start
        stop = max(stop, min(start + size, self._next(start)))
        self._walk = (walk_start, stop)
        return start, stop

    def _strided(self, start: int, stop: int) -> list[Span]:
        """Return the spans that follow a jump if it and the next ones are of one stride."""
        before, self._stride = self._stride, start - self._jump
        self._jump = start
        if self._stride != before or self._stride < stop - start:
            self._equal = self._ahead = 0
            return []
        self._equal += 1
        if self._equal < SURE:
            return []
        self._ahead = min(2 * self._ahead or 2, MOST_AHEAD)
        nbytes = min(self._first, STRIDED)
        spans: list[Span] = []
        for number in range(1, self._ahead + 1):
            place = start + number * self._stride
            end = min(place + nbytes, self._next(place))
            if place >= end or self._block_at(place)[1]:
                break
            spans.append((place, end))
            self._jump = place
        return spans

    def _next(self, position: int) -> int:
        """Return where the next block starts, or the source ends."""
        after = bisect_right(self._starts, position)
        return self._starts[after] if after < len(self._starts) else self.size

    def _block_at(self, position: int) -> tuple[int, bytes]:
        """Return the block that has a position, and where it begins; no bytes where there is none."""
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return position, b""
        start = self._starts[index]
        block = self._blocks.get(start) or b""
        return (start, block) if position < start + len(block) else (position, b"")

    def _store(self, start: int, data: bytes) -> None:
        """Keep a block; those that were used longest ago leave."""
        if not data:
            return
        self._blocks.put(start, data)
        if start in self._blocks:
            self._starts.insert(bisect_right(self._starts, start), start)
            self._recent = start, data

    def _forget(self, start: int, _: bytes) -> None:
        self._starts.remove(start)
        if start == self._recent[0]:
            self._recent = 0, b""
