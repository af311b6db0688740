"""Whether an error says that there is no such object, and nothing else.

May touch errors only.  HTTP: 404 (RFC 9110, 15.5.5); 410 tells of
an object that was there, 403 of one that may be.
"""

from jnrrdz.errors import JnrrdzError

_GONE = "HTTP 410"


def is_absent(error: JnrrdzError) -> bool:
    """Whether an object was not found, which is no failure where it need not be there."""
    return isinstance(error.__cause__, FileNotFoundError) and _GONE not in error.message
