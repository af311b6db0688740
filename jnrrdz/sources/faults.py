"""Library exceptions turned into one-line `JnrrdzError`s that say what was tried.

May touch errors, s3_faults and `sys.modules`; imports no library: what was never imported was never raised.
"""

import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError
from jnrrdz.sources import s3_faults
from jnrrdz.sources import url as urls

# The exceptions of the libraries that fsspec drives which descend from Exception only.
_LIBRARY_ERRORS = (
    ("aiohttp", "ClientError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("azure.core.exceptions", "AzureError"),
)
_BROKEN = (
    ("aiohttp", "ClientPayloadError"),
    ("aiohttp", "ServerDisconnectedError"),
    ("botocore.exceptions", "ConnectionClosedError"),
    ("botocore.exceptions", "IncompleteReadError"),
    ("botocore.exceptions", "ReadTimeoutError"),
    ("botocore.exceptions", "ResponseStreamingError"),
)
"""Connections and bodies that ended before they were done."""

_PACKAGES = {
    "adlfs": "adlfs",
    "aiohttp": "aiohttp",
    "boxfs": "boxfs",
    "dropboxdrivefs": "dropboxdrivefs",
    "gcsfs": "gcsfs",
    "gdrive_fsspec": "gdrive_fsspec",
    "huggingface_hub": "huggingface_hub",
    "lakefs_spec": "lakefs-spec",
    "libarchive": "libarchive-c",
    "ocifs": "ocifs",
    "ossfs": "ossfs",
    "paramiko": "paramiko",
    "pyarrow": "pyarrow",
    "pygit2": "pygit2",
    "requests": "requests",
    "s3fs": "s3fs",
    "smbclient": "smbprotocol",
    "tosfs": "tosfs",
    "webdav4": "webdav4[fsspec]",
}
"""What pip calls the package of a module that fsspec imports for a scheme."""

_CREDENTIALS = (
    "give credentials (AWS_* variables, --profile), or --no-sign-request for public data, "
    "or --requester-pays where the bucket asks for it"
)


@contextmanager
def told(url: str, action: str, fs: Any = None) -> Iterator[None]:
    """Let only `JnrrdzError`s out, each knowing the URL and what was being done; of S3's also who asked (`fs`)."""
    try:
        yield
    except JnrrdzError as error:
        error.at(url=url)
        raise
    except _raised() as error:
        known = _of_s3(error, url, action, fs)
        if known is not None:
            raise known.at(url=url) from known.__cause__
        raise _explain(error, url, action) from error


def passing() -> tuple[type[BaseException], ...]:
    """Return the failures of libraries that may pass when the same is asked again."""
    broken = [getattr(sys.modules.get(module), name, None) for module, name in _BROKEN]
    return TimeoutError, ConnectionError, EOFError, *(kind for kind in broken if isinstance(kind, type))


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


def _of_s3(error: BaseException, url: str, action: str, fs: Any) -> JnrrdzError | None:
    """Return what a refusal of S3 means, None where the error is none."""
    link = next((link for link in reversed(url.split("::")) if urls.scheme(link) == "s3"), None)
    if link is None:
        return None
    bucket, _, key = link.partition("://")[2].partition("/")
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ in {"NoCredentialsError", "PartialCredentialsError"}:
            return s3_faults.no_credentials(bucket)
        answer = getattr(seen, "response", None)
        if isinstance(answer, dict) and "Code" in answer.get("Error", {}):
            region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
            who = s3_faults.identity_of(fs)
            return s3_faults.explained(answer["Error"]["Code"], bucket, key, who, region=region, action=action)
        seen = seen.__cause__ or seen.__context__
    return None


def _missing(error: BaseException) -> str | None:
    """Return the name by which pip installs the package that an import lacked."""
    names = {getattr(each, "name", None) for each in (error, error.__cause__)}
    return next((_PACKAGES[name] for name in names if name in _PACKAGES), None)


def _explain(error: BaseException, url: str, action: str) -> JnrrdzError:
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError):
        return JnrrdzError(f"not found ({action})", url=url)
    if isinstance(error, PermissionError) or "redential" in type(error).__name__:
        hint = f"; {_CREDENTIALS}" if url.startswith("s3") else ""
        return JnrrdzError(f"permission denied ({action}): {text}{hint}", url=url)
    package = _missing(error) if isinstance(error, ImportError) else None
    if package is not None:
        return UnsupportedError(f"needs a package that is not installed: pip install {package}", url=url)
    if isinstance(error, ImportError | NotImplementedError):
        return UnsupportedError(f"cannot be opened ({action}): {text}", url=url)
    if isinstance(error, TimeoutError):
        return JnrrdzError(f"no answer in time ({action}): {text}", url=url)
    return JnrrdzError(f"{action} failed: {text}", url=url)
