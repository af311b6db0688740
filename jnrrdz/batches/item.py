"""What passes through a batch: a source that was found, a job made of it, and how the job ended.

May touch nothing.  Tuples, since a batch holds thousands and sends them to processes.
"""

from enum import StrEnum
from typing import Any, NamedTuple


class Found(NamedTuple):
    """A source, with what its listing says of it."""

    url: str
    size: int | None = None
    etag: str | None = None
    modified: str | None = None
    """Last modification as RFC 3339 text in UTC."""
    path: str | None = None
    """Where it lies below the prefix or pattern that found it; None where it was named by itself."""
    names: tuple[tuple[str, str], ...] = ()
    """Further placeholders of the output's name: of a STAC item `id`, `collection`, `asset`."""


class Job(NamedTuple):
    """One source and its output."""

    number: int
    found: Found
    output: str
    again: bool = False
    """Whether a worker that died may have done it already."""


class State(StrEnum):
    """How a job ended."""

    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "failed"
    PLANNED = "planned"


class Outcome(NamedTuple):
    """How a job ended, and what it cost."""

    job: Job
    state: State
    requests: int = 0
    nbytes: int = 0
    arrays: int = 0
    chunks: int = 0
    seconds: float = 0.0
    attempts: int = 0
    error: str | None = None
    """The class of what went wrong."""
    message: str | None = None
    warnings: tuple[str, ...] = ()
    manifest: bytes | None = None
    """The manifest itself, where the batch puts all of them together."""

    def record(self) -> dict[str, Any]:
        """Return the members of a report's line; what is not known is left out."""
        told = {
            "source": self.job.found.url,
            "output": self.job.output,
            "state": str(self.state),
            "requests": self.requests,
            "bytes": self.nbytes,
            "arrays": self.arrays,
            "chunks": self.chunks,
            "seconds": round(self.seconds, 4),
            "attempts": self.attempts,
            "error": self.error,
            "message": self.message,
            "warnings": list(self.warnings),
        }
        return {name: value for name, value in told.items() if value is not None and value != []}
