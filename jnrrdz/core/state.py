"""What tells one state of a source from another, and whether two states are the same.

A source is described where it is scanned (a record in a manifest), where it is listed (a
size and a mark), and where it is read (an answer's headers).  `SourceState.difference` compares
any two of these, with one rule and one wording:

    >>> Validators(10, '"a"').difference(Validators(10, '"b"'))
    'ETag was "a", is "b"'
"""

import hashlib
from datetime import UTC, datetime
from typing import Self

from jnrrdz.errors import DriftError
from jnrrdz.records import record

type Mark = str | int
"""What a listing says of an object's state: its ETag, else the nanoseconds since 1970 at
which it was last modified; 0 where it says neither."""


class SourceState:
    """The state of a source as seen or as recorded; None is what is not known."""

    size: int | None
    """Bytes."""
    etag: str | None
    """The server's name of this state, with or without its mark of weakness."""
    version: str | None
    """The store's own number of a version (S3's version id, GCS's generation)."""
    modified: str | None
    """Last modification as RFC 3339 text in UTC."""

    def difference(self, now: "SourceState", *, times: bool = True) -> str | None:
        """Return in words what shows that a source has changed, None where nothing shows it.

        What one of the two states does not have is not compared.  The time of modification
        counts where there is no ETag, or no longer one; an ETag that is new is a server's,
        which has times of its own.  It does not count without `times`: a copy of a local
        file has another one.
        """
        if None not in {self.size, now.size} and self.size != now.size:
            return f"size was {self.size}, is {now.size}"
        if None not in {self.version, now.version} and self.version != now.version:
            return f"version was {self.version}, is {now.version}"
        if now.etag is not None and self.has_etag:
            return self._difference_of_etags(now.etag)
        is_timed = times and now.etag is None and None not in {self.modified, now.modified}
        if is_timed and self.modified != now.modified:
            return f"time of modification was {self.modified}, is {now.modified}"
        return None

    def drift(self, now: "SourceState") -> DriftError | None:
        """Return the error for a source that has changed, None where nothing shows it."""
        change = self.difference(now)
        return None if change is None else scanned_before(change)

    def is_proven_by(self, now: "SourceState") -> bool:
        """Whether the size and either ETag or time show that a source has not changed."""
        if self.size is None or now.size is None or self.difference(now) is not None:
            return False
        has_etags = self.has_etag and now.etag is not None
        return has_etags or (self.modified is not None and self.modified == now.modified)

    @property
    def has_etag(self) -> bool:
        """Whether an ETag can be compared with this state."""
        return self.etag is not None

    def _difference_of_etags(self, now: str) -> str | None:
        is_same = bare_etag(self.etag or "") == bare_etag(now)
        return None if is_same else f"ETag was {self.etag}, is {now}"


@record
class Validators(SourceState):
    """The state of a source as its server, its file system or a listing reports it."""

    size: int
    etag: str | None = None
    version: str | None = None
    modified: str | None = None

    @classmethod
    def of_listing(cls, size: int, mark: Mark) -> Self:
        """Return the state of an object in a listing."""
        if isinstance(mark, str):
            return cls(size, mark)
        return cls(size, modified=modified_text(mark) if mark > 0 else None)


@record
class ObjectState(SourceState):
    """What a manifest records of one of many objects, in a number each."""

    size: int
    number: int
    """`version_number` of the object's mark."""

    etag = None
    version = None

    @property
    def modified(self) -> str | None:  # type: ignore[override]
        """Last modification as RFC 3339 text in UTC."""
        return modified_text(self.number) if self.number > 0 else None

    @property
    def has_etag(self) -> bool:
        """Whether the number is an ETag's."""
        return self.number < 0

    def _difference_of_etags(self, now: str) -> str | None:
        is_same = version_number(now) == self.number
        return None if is_same else f"ETag is {now}, and was another one"


def scanned_before(change: str) -> DriftError:
    """Return the error for a source that has changed since it was scanned."""
    return DriftError(f"changed since it was scanned: {change}; jnrrdz refresh or index scans it again")


def bare_etag(text: str) -> str:
    """Return an ETag without its mark of weakness and its quotes.

    Servers add and drop the mark on the way, and listings the quotes.
    """
    return text.removeprefix("W/").strip('"')


def version_number(mark: Mark) -> int:
    """Return 64 bits that tell one state of an object from another, 0 for nothing.

    Above 0 it is a time of modification, below 0 the digest of an ETag.
    """
    if isinstance(mark, int):
        return max(mark, 0)
    digest = hashlib.blake2b(bare_etag(mark).encode(), digest_size=8).digest()
    return -1 - (int.from_bytes(digest) >> 1)


# Times


def rfc3339(when: datetime, nanoseconds: int = 0) -> str:
    """Return the time as text; one without a zone is taken as UTC, as HTTP and S3 mean it."""
    aware = when.replace(tzinfo=UTC) if when.tzinfo in (None, UTC) else when.astimezone(UTC)
    fraction = nanoseconds or aware.microsecond * 1000
    text = aware.replace(tzinfo=None, microsecond=0).isoformat()  # a fifth of what strftime takes, for each small file
    return f"{text}.{fraction:09d}Z" if fraction else f"{text}Z"


def modified_text(time: int) -> str:
    """Return nanoseconds since 1970 as RFC 3339 text in UTC."""
    seconds, fraction = divmod(time, 10**9)
    return rfc3339(datetime.fromtimestamp(seconds, UTC), fraction)


def nanoseconds(text: str) -> int:
    """Return how long after 1970 a time of modification is, as `rfc3339` spells it; 0 where it is no such text."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    try:
        seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
        return seconds * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
    except ValueError:
        return 0
