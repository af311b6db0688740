"""Times of modification as RFC 3339 text in UTC.

Pure.
"""

from datetime import UTC, datetime


def rfc3339(when: datetime, nanoseconds: int = 0) -> str:
    """Return the time as text; one without a zone is taken as UTC, as HTTP and S3 mean it."""
    aware = when.replace(tzinfo=UTC) if when.tzinfo in (None, UTC) else when.astimezone(UTC)
    fraction = nanoseconds or aware.microsecond * 1000
    text = aware.replace(tzinfo=None, microsecond=0).isoformat()  # a fifth of what strftime takes, for each small file
    return f"{text}.{fraction:09d}Z" if fraction else f"{text}Z"
