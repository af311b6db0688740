"""Times of modification compared with what the user names.

Pure.
"""

from datetime import UTC, datetime

from jnrrdz.errors import MalformedError

_MODIFIED = "--since"


def moment(text: str) -> str:
    """Return a time as the user wrote it as RFC 3339 text in UTC; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedError(f"{text!r} is no time such as 2024-06-01T12:00:00Z", field=_MODIFIED) from error
    aware = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return aware.isoformat()


def is_since(modified: str, earliest: str) -> bool:
    """Whether a time of modification is not before another."""
    return datetime.fromisoformat(modified) >= datetime.fromisoformat(earliest)
