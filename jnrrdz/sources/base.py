"""What a source of bytes can do, and what of it is the same whichever way the bytes come.

Everything that opens something implements `ByteSource`; layouts and scanners see no more than `read_range`.  Near
spans share a request (`coalesce`), and their bytes are handed out again (`split`).  `ReadAhead` is a block cache for
scanners that walk through headers a few bytes at a time; one scan has one.
"""

import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from jnrrdz.errors import DriftError, JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.records import record
from jnrrdz.sources import faults

type Span = tuple[int, int]
"""First byte and the byte after the last one."""

type ReadRange = Callable[[int, int], bytes]
"""`read(start, stop)`: the bytes of one span, fewer only at the end of the source."""


@record
class Validators:
    """What tells one state of a source from another, as far as its server says."""

    size: int
    etag: str | None = None
    version: str | None = None
    modified: str | None = None
    """Last modification as RFC 3339 text in UTC."""


type Mark = str | int
"""What a listing says of an object's state: its ETag, else the nanoseconds since 1970 at which it was last modified;
0 where it says neither."""


def version_number(mark: Mark) -> int:
    """Return 64 bits that tell one state of an object from another, 0 for nothing.

    Above 0 it is a time of modification, below 0 the digest of an ETag.
    """
    if isinstance(mark, int):
        return max(mark, 0)
    digest = hashlib.blake2b(mark.removeprefix("W/").strip('"').encode(), digest_size=8).digest()
    return -1 - (int.from_bytes(digest) >> 1)


def nanoseconds(text: str) -> int:
    """Return how long after 1970 a time of modification is, as `rfc3339` spells it; 0 where it is no such text."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    try:
        seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
        return seconds * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
    except ValueError:
        return 0


@record
class ObjectState:
    """What a manifest records of one of many objects."""

    size: int
    number: int
    """`version_number` of the object's mark."""

    def difference(self, now: Validators) -> str | None:
        """Return in words what shows that an object has changed, None where nothing shows it."""
        if now.size != self.size:
            return f"size was {self.size}, is {now.size}"
        if self.number < 0 and now.etag is not None:
            return None if version_number(now.etag) == self.number else f"ETag is {now.etag}, and was another one"
        if now.etag is not None or now.modified is None or self.number <= 0 or nanoseconds(now.modified) == self.number:
            return None
        return f"time of modification was {modified_text(self.number)}, is {now.modified}"


def scanned_before(change: str) -> DriftError:
    """Return the error for a source that is not what it was."""
    return DriftError(f"changed since it was scanned: {change}; jnrrdz refresh or index scans it again")


def since_listed(then: ObjectState, now: Validators) -> DriftError | None:
    """Return the error for an object that is not what it was when it was listed, None where nothing shows it."""
    change = then.difference(now)
    return None if change is None else scanned_before(change)


def seen_in_listing(size: int, mark: Mark) -> Validators:
    """Return what a listing says of an object as the validators that an answer for it would give."""
    if isinstance(mark, str):
        return Validators(size, mark)
    return Validators(size, modified=modified_text(mark) if mark > 0 else None)


def modified_text(time: int) -> str:
    """Return nanoseconds since 1970 as RFC 3339 text in UTC."""
    seconds, fraction = divmod(time, 10**9)
    return rfc3339(datetime.fromtimestamp(seconds, UTC), fraction)


class SourceState(Protocol):
    """A source's state as seen or as recorded; None is what is not known."""

    @property
    def size(self) -> int | None:
        """Bytes."""

    @property
    def etag(self) -> str | None:
        """ETag, with or without its mark of weakness."""

    @property
    def version(self) -> str | None:
        """The store's own number of a version (S3's version id, GCS's generation)."""

    @property
    def modified(self) -> str | None:
        """Last modification as RFC 3339 text in UTC."""


def difference(then: SourceState, now: SourceState) -> str | None:
    """Return in words what shows that two states are not the same, None where nothing shows it.

    What one of the two does not say is not compared.  Servers add and drop an ETag's mark of weakness on the
    way.  The time of modification counts where there is no ETag, or no longer one; an ETag that is new is a
    server's, which has times of its own.
    """
    if None not in {then.size, now.size} and then.size != now.size:
        return f"size was {then.size}, is {now.size}"
    if None not in {then.version, now.version} and then.version != now.version:
        return f"version was {then.version}, is {now.version}"
    if then.etag is not None and now.etag is not None:
        same = then.etag.removeprefix("W/") == now.etag.removeprefix("W/")
        return None if same else f"ETag was {then.etag}, is {now.etag}"
    if now.etag is None and None not in {then.modified, now.modified} and then.modified != now.modified:
        return f"time of modification was {then.modified}, is {now.modified}"
    return None


def since_scanned(then: SourceState, now: SourceState) -> DriftError | None:
    """Return the error for a source that is not what was recorded when it was scanned, None where nothing shows it."""
    change = difference(then, now)
    return None if change is None else scanned_before(change)


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


def is_absent(error: JnrrdzError) -> bool:
    """Whether an error says that there is no such object, and nothing else.

    HTTP: 404 (RFC 9110, 15.5.5); 410 tells of an object that was there, 403 of one that may be.
    """
    return isinstance(error.__cause__, FileNotFoundError) and "HTTP 410" not in error.message


def rfc3339(when: datetime, nanoseconds: int = 0) -> str:
    """Return the time as text; one without a zone is taken as UTC, as HTTP and S3 mean it."""
    aware = when.replace(tzinfo=UTC) if when.tzinfo in (None, UTC) else when.astimezone(UTC)
    fraction = nanoseconds or aware.microsecond * 1000
    text = aware.replace(tzinfo=None, microsecond=0).isoformat()  # a fifth of what strftime takes, for each small file
    return f"{text}.{fraction:09d}Z" if fraction else f"{text}Z"


_ETAG = ("ETag", "etag")
_VERSION = ("VersionId", "version_id", "generation")
_MODIFIED = ("LastModified", "last_modified", "updated", "mtime", "created")


def validators_of(info: Mapping[str, Any]) -> Validators:
    """Return the state of an object as a file system's `info` or listing says it."""
    if info.get("type") == "directory":
        raise UnsupportedError("a directory where a file is read; name an object in it")
    if info.get("size") is None:
        raise UnsupportedError("the file system does not say the size")
    version, modified = _first(info, _VERSION), _first(info, _MODIFIED)
    if isinstance(modified, int | float):
        modified = datetime.fromtimestamp(modified).astimezone()
    elif isinstance(modified, str):
        modified = datetime.fromisoformat(modified)
    return Validators(
        size=int(info["size"]),
        etag=_first(info, _ETAG),
        version=None if version in {None, "null"} else str(version),
        modified=rfc3339(modified) if isinstance(modified, datetime) else None,
    )


def _first(info: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((info[name] for name in names if info.get(name)), None)


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
        self._keep = keep
        self._walk: Span = (0, 0)
        self._jump = 0
        """Where the last jump led, or the last place that was fetched ahead."""
        self._stride = 0
        self._equal = 0
        """Jumps by this stride, one after the other, behind the first."""
        self._ahead = 0
        """Places that were fetched ahead with the last jump."""
        self._recent = 0, b""
        """Where the block that was read from last begins, and its bytes; none where it is no longer kept."""
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
        first, block = self._recent
        if block and first <= start <= stop <= first + len(block):  # most of a walk is there
            self._blocks.move_to_end(first)
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
        held = self._held(start)
        if held is not None and held[1] >= stop:
            self._recent = held[0], self._blocks[held[0]]
            return self._blocks[held[0]][start - held[0] : stop - held[0]]
        return self._assemble(start, stop)

    def cached(self, start: int, stop: int) -> bytes | None:
        """Return the bytes of a span that were read before, None where some were not."""
        block = self._held(start)
        if block is None or block[1] < stop:
            return None
        return self._blocks[block[0]][start - block[0] : stop - block[0]]

    def add(self, start: int, data: bytes) -> None:
        """Keep bytes that were read from the source elsewhere."""
        if len(data) <= self._largest and self._held(start) is None:
            self._store(start, data)

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
            if place >= end or self._held(place) is not None:
                break
            spans.append((place, end))
            self._jump = place
        return spans

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
            if oldest == self._recent[0]:
                self._recent = 0, b""
