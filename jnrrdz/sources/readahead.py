"""A block cache over a `ByteSource`, for scanners that walk through headers a few bytes at a time.

Not for several threads at once: one scan, one reader.
"""

from bisect import bisect_right
from collections import OrderedDict

from jnrrdz.errors import MalformedError
from jnrrdz.sources import faults
from jnrrdz.sources.base import ByteSource, Span, check

FIRST = 32 * 1024
LARGEST = 4 * 1024 * 1024
KEEP = 32 * 1024 * 1024


class ReadAhead:
    """`read(start, stop)` with blocks that grow while a walk goes on.

    The first request reads `first` bytes at 0.  Where reading continues at the end of the last
    block, the next one is as long as the walk so far (so a walk's bytes double with each request),
    up to `largest`; a jump starts again with `first`.  What is longer is asked for as it is.
    """

    def __init__(self, source: ByteSource, *, first: int = FIRST, largest: int = LARGEST, keep: int = KEEP) -> None:
        self.source = source
        self.requests = 0
        self.bytes_read = 0
        self._first = first
        self._largest = largest
        self._keep = keep
        self._walk: Span = (0, 0)
        self._head = b""
        """The first block, while it is kept."""
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
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
        if self._head and 0 <= start <= stop <= len(self._head):  # most headers are there
            self._blocks.move_to_end(0)
            return self._head[start:stop]
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
        held = self._held(start)
        if held is not None and held[1] >= stop:
            return self._blocks[held[0]][start - held[0] : stop - held[0]]
        return self._assemble(start, stop)

    def _read_first(self) -> None:
        """Read the head before asking for the size: over HTTP its answer tells the size too."""
        (head,) = self.source.read([(0, self._first)])
        self.requests += 1
        self.bytes_read += len(head)
        self._store(0, head)
        self._head = head
        self._walk = (0, len(head))

    def _assemble(self, start: int, stop: int) -> bytes:
        """Join what is cached with what is missing, which is fetched together."""
        joined = bytearray(stop - start)
        gaps: list[Span] = []
        at = start
        while at < stop:
            held = self._held(at)
            end = min(stop, self._next(at) if held is None else held[1])
            if held is None:
                gaps.append((at, end))
            else:
                joined[at - start : end - start] = self._blocks[held[0]][at - held[0] : end - held[0]]
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
        asked = [*gaps[:-1], self._extended(gaps[-1])]
        self.requests += len(asked)
        found = self.source.read(asked)
        for (start, stop), data in zip(asked, found, strict=True):
            self.bytes_read += len(data)
            if len(data) != stop - start:
                raise faults.shrunk(self.source.url, len(data), stop - start, start)
            if len(data) <= self._largest:
                self._store(start, data)
        return [data[: stop - start] for (start, stop), data in zip(gaps, found, strict=True)]

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

    def _next(self, position: int) -> int:
        """Return where the next block starts, or the source ends."""
        after = bisect_right(self._starts, position)
        return self._starts[after] if after < len(self._starts) else self.size

    def _held(self, position: int) -> Span | None:
        """Return the span of the block that holds a position."""
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return None
        start = self._starts[index]
        stop = start + len(self._blocks[start])
        if position >= stop:
            return None
        self._blocks.move_to_end(start)
        return start, stop

    def _store(self, start: int, data: bytes) -> None:
        """Keep a block, letting go of those used longest ago."""
        if not data:
            return
        self._blocks[start] = data
        self._starts.insert(bisect_right(self._starts, start), start)
        while sum(map(len, self._blocks.values())) > self._keep and len(self._blocks) > 1:
            oldest, _ = self._blocks.popitem(last=False)
            self._starts.remove(oldest)
            if oldest == 0:
                self._head = b""
