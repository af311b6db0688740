"""Library exceptions turned into one-line `JnrrdzError`s that say what was tried.

May touch errors and `sys.modules`; imports no library: what was never imported was never raised.
"""

import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError

# The exceptions of the libraries that fsspec drives which descend from Exception only.
_LIBRARY_ERRORS = (
    ("aiohttp", "ClientError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("azure.core.exceptions", "AzureError"),
)
_CREDENTIALS = (
    "give credentials (AWS_* variables, --profile), or --no-sign-request for public data, "
    "or --requester-pays where the bucket asks for it"
)


@contextmanager
def told(url: str, action: str) -> Iterator[None]:
    """Let only `JnrrdzError`s out, each knowing the URL and what was being done."""
    try:
        yield
    except JnrrdzError as error:
        error.at(url=url)
        raise
    except _raised() as error:
        raise _explain(error, url, action) from error


def shrunk(url: str, got: int, wanted: int, start: int) -> DriftError:
    """Return the error for a source that ends before the size it had."""
    return DriftError(
        f"{got} bytes where {wanted} were there when it was opened; the source has changed", url=url, offset=start
    )


def _raised() -> tuple[type[BaseException], ...]:
    found = [getattr(sys.modules.get(module), name, None) for module, name in _LIBRARY_ERRORS]
    libraries = [kind for kind in found if isinstance(kind, type)]
    # ValueError: unknown protocols and malformed URLs; ImportError: a file system not installed
    # EOFError: a body that ends too early
    return OSError, ValueError, ImportError, NotImplementedError, EOFError, zipfile.BadZipFile, *libraries


def _explain(error: BaseException, url: str, action: str) -> JnrrdzError:
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError):
        return JnrrdzError(f"not found ({action})", url=url)
    if isinstance(error, PermissionError) or "redential" in type(error).__name__:
        hint = f"; {_CREDENTIALS}" if url.startswith("s3") else ""
        return JnrrdzError(f"permission denied ({action}): {text}{hint}", url=url)
    if isinstance(error, ImportError | NotImplementedError):
        return UnsupportedError(f"cannot be opened ({action}): {text}", url=url)
    if isinstance(error, TimeoutError):
        return JnrrdzError(f"no answer in time ({action}): {text}", url=url)
    return JnrrdzError(f"{action} failed: {text}", url=url)
