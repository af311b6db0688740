"""What a verification found: one record for each thing that is wrong, and the sum of it.

May touch nothing.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

type Kind = Literal["drift", "source", "trust", "range", "table", "checksum", "chunk"]
"""drift: a source changed; source: it cannot be opened; trust: the manifest may not reach it; range: a
reference ends behind its source; table: a file's own tables contradict each other; checksum: stored
bytes are not those that were written; chunk: a chunk cannot be read."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: Kind
    place: str
    """The source's URL, or an array's path with the chunk's key."""
    message: str


@dataclass(frozen=True)
class Verification:
    """What was looked at in a manifest, and what is wrong with it."""

    refs: str
    findings: tuple[Finding, ...]
    sources: int
    """Sources whose state was compared with what the manifest records."""
    ranges: int
    """References that were compared with the size of their source."""
    chunks: int
    """Chunks that were read."""
    checksums: int
    """Tiles whose stored bytes were compared with the checksum that their file gives."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return {"ok": self.ok, **asdict(self), "findings": [asdict(finding) for finding in self.findings]}
