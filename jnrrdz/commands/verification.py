"""What `verify` reports: its findings, and what it looked at."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from jnrrdz.core.tree import SHOWN, html_table
from jnrrdz.errors import DriftError, UntrustedSourceError
from jnrrdz.redact import hidden, record_repr, redacted

type Kind = Literal["drift", "source", "trust", "range", "table", "checksum", "chunk"]
"""drift: a source changed; source: it cannot be opened; trust: the manifest may not reach it; range: a
reference ends behind its source; table: a file's own tables contradict each other; checksum: stored
bytes are not those that were written; chunk: a chunk cannot be read."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: Kind
    """`drift`, `source`, `trust`, `range`, `table`, `checksum` or `chunk`."""
    place: str
    """The source's URL, or an array's path with the chunk's key."""
    message: str
    """What is wrong, in a sentence."""

    __repr__ = record_repr


@dataclass(frozen=True)
class Verification:
    """What was looked at in a manifest, and what is wrong with it."""

    refs: str
    """The manifest, as you named it."""
    findings: tuple[Finding, ...]
    """What is wrong with it; empty where all is well."""
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

    def __repr__(self) -> str:
        counts = f"{self.sources} sources, {self.ranges} ranges, {self.chunks} chunks, {self.checksums} checksums"
        return f"Verification of {hidden(self.refs)}: {len(self.findings)} findings in {counts}"

    def _repr_html_(self) -> str:
        rows = [(finding.kind, hidden(finding.place), finding.message) for finding in self.findings[:SHOWN]]
        return html_table(repr(self), ("what", "where", "finding"), rows)

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON has it."""
        findings = [
            {"kind": found.kind, "place": hidden(found.place), "message": redacted(found.message)}
            for found in self.findings
        ]
        return {"ok": self.ok, **asdict(self), "refs": hidden(self.refs), "findings": findings}


MOST = 20
"""Findings for one array; where every chunk fails for one reason, more would tell nothing."""


def kind_of(error: Exception, other: Kind) -> Kind:
    """Return what kind of finding an error is; `other` where it is neither drift nor a matter of trust."""
    if isinstance(error, DriftError):
        return "drift"
    return "trust" if isinstance(error, UntrustedSourceError) else other
