"""What file systems report of objects."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jnrrdz.core.state import Validators, rfc3339
from jnrrdz.errors import UnsupportedError

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
