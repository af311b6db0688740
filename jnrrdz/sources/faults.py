"""Library exceptions turned into one-line `JnrrdzError`s that say what was tried, and for S3 what would help.

No library is imported: what was never imported was never raised.  No secret and no whole access key stands in any
message.  https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError
from jnrrdz.sources import url as urls
from jnrrdz.sources.retry import S3_BUSY

_SHOWN = 4

_ORIGINS = {
    "options": "from the storage options",
    "env": "from the environment variable AWS_ACCESS_KEY_ID",
    "shared-credentials-file": "from the credentials file",
    "config-file": "from the configuration file",
    "iam-role": "from the machine's role",
    "container-role": "from the container's role",
    "sso": "from single sign-on",
    "assume-role": "from an assumed role",
    "assume-role-with-web-identity": "from a web identity",
}

_GONE = {
    "NoSuchBucket": "no such bucket as {bucket}; check its name and the endpoint (--endpoint-url)",
    "NoSuchKey": "not found: the bucket {bucket} has no object {key}",
    "NoSuchVersion": "not found: the bucket {bucket} has no such version of {key}",
    "404": "not found: the bucket {bucket} or its object {key} is not there",
}
_DENIED = {
    "InvalidAccessKeyId": "permission denied: the server does not know the access key; "
    "check the key and that it belongs to this endpoint (--profile, --endpoint-url)",
    "SignatureDoesNotMatch": "permission denied: the secret key does not belong to the access key; "
    "check AWS_SECRET_ACCESS_KEY or the profile",
    "ExpiredToken": "permission denied: the session token has expired; sign in again (aws sso login) or renew "
    "AWS_SESSION_TOKEN",
    "InvalidToken": "permission denied: the session token is not one of this access key; renew AWS_SESSION_TOKEN",
    "RequestTimeTooSkewed": "permission denied: this machine's clock and the server's differ; set the clock",
    "AccessDenied": "permission denied: {bucket}/{key} may not be read; ask for s3:GetObject (and s3:ListBucket, "
    "without which a missing object is denied too), or give other credentials (--profile), --no-sign-request "
    "for public data, or --requester-pays where the bucket asks for it",
    "listing": "permission denied: {bucket}/{key} may not be listed; ask for s3:ListBucket, or give other "
    "credentials (--profile), or name the objects themselves",
    "writing": "permission denied: {bucket}/{key} may not be written; ask for s3:PutObject, or give other "
    "credentials (--profile)",
    "removing": "permission denied: {bucket}/{key} may not be removed; ask for s3:DeleteObject, or give other "
    "credentials (--profile)",
    "InvalidObjectState": "permission denied: {bucket}/{key} is archived; restore it first",
}
_UNSAID = {
    "400": "the server refuses {bucket}/{key} and does not say why; mostly the session token has expired (sign in "
    "again, or renew AWS_SESSION_TOKEN) or the region is another (--region)",
}
"""An answer to HEAD has no body to say more in."""

_SAME = {
    "403": "AccessDenied",
    "401": "AccessDenied",
    "AllAccessDisabled": "AccessDenied",
    "ExpiredTokenException": "ExpiredToken",
    "TokenRefreshRequired": "ExpiredToken",
    "InvalidSecurity": "InvalidAccessKeyId",
}
_ELSEWHERE = frozenset(
    {
        "PermanentRedirect",
        "TemporaryRedirect",
        "AuthorizationHeaderMalformed",
        "301",
        "307",
        "IllegalLocationConstraintException",
    }
)


def identity(access_key: str, method: str | None, profile: str | None) -> str:
    """Return who asks: the access key's first letters and where it was found."""
    origin = _ORIGINS.get(method or "", f"from {method}" if method else "")
    named = f" (profile {profile})" if profile else ""
    return f"with access key {access_key[:_SHOWN]}... {origin}{named}".rstrip()


def _without_keys(bucket: str) -> str:
    """Return a bucket's name without keys in front of it, which a manifest may have."""
    return bucket.rpartition("@")[2]


def no_credentials(bucket: str) -> JnrrdzError:
    """Return the error for a user who has no credentials at all."""
    error = JnrrdzError(
        f"no credentials found for the bucket {_without_keys(bucket)} "
        "(looked at AWS_* variables, the profile, the machine's role); "
        "give some (AWS_ACCESS_KEY_ID, --profile), or --no-sign-request for public data"
    )
    error.__cause__ = PermissionError("no credentials")
    return error


def identity_of(fs: Any) -> str:
    """Return who asks through an s3fs file system, as far as it can be told without asking anybody."""
    if fs is None:
        return "with the credentials that were found"
    if fs.anon:
        return "anonymously"
    found = getattr(fs.session, "_credentials", None)
    key = fs.key or getattr(found, "access_key", None)
    if key is None:
        return "with the credentials that were found"
    method = "options" if fs.key else getattr(found, "method", None)
    return identity(key, method, getattr(fs.session, "profile", None))


def is_elsewhere(code: str) -> bool:
    """Whether a bucket would answer in another region."""
    return code in _ELSEWHERE


def explain_s3(  # noqa: PLR0913  what a sentence says
    code: str, bucket: str, key: str, who: str, *, region: str | None = None, action: str = "reading"
) -> JnrrdzError:
    """Return the error for a server's error code (or HTTP status where there is none)."""
    bucket = _without_keys(bucket)
    name = _SAME.get(code, code)
    if name == "AccessDenied" and action in _DENIED:
        name = action
    if name in _ELSEWHERE:
        where = f"in the region {region}; --region {region}" if region else "in another region; --region"
        return JnrrdzError(f"the bucket {bucket} is {where} would reach it ({code}, asked {who})")
    if name in S3_BUSY:
        error = JnrrdzError(f"the server was busy each time it was asked ({code}, bucket {bucket}); fewer at once (-j)")
        error.__cause__ = TimeoutError(code)  # who looks for what may pass later asks for the cause
        return error
    known = _GONE.get(name) or _DENIED.get(name)
    text = known or _UNSAID.get(name, "the server refuses {bucket}/{key}")
    error = JnrrdzError(f"{text.format(bucket=bucket, key=key)} ({code}, asked {who})")
    if known:
        error.__cause__ = FileNotFoundError(code) if name in _GONE else PermissionError(code)
    return error


# The exceptions of the libraries that fsspec drives which descend from Exception only.
_LIBRARY_ERRORS = (
    ("aiohttp", "ClientError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("azure.core.exceptions", "AzureError"),
)
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
    "s3fs": "'jnrrdz[s3]'",
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
def translate_errors(url: str, action: str, fs: Any = None) -> Iterator[None]:
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


def is_absent(error: JnrrdzError) -> bool:
    """Whether an error says that there is no such object, and nothing else.

    HTTP: 404 (RFC 9110, 15.5.5); 410 tells of an object that was there, 403 of one that may be.
    """
    return isinstance(error.__cause__, FileNotFoundError) and "HTTP 410" not in error.message


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
    links = map(urls.parse, reversed(urls.parse(url).links))
    link = next((link for link in links if link.scheme == "s3"), None)
    if link is None:
        return None
    bucket, _, key = link.object_path.partition("/")
    for seen in _chain(error):
        if type(seen).__name__ in {"NoCredentialsError", "PartialCredentialsError"}:
            return no_credentials(bucket)
        answer = getattr(seen, "response", None)
        if isinstance(answer, dict) and "Code" in answer.get("Error", {}):
            region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
            who = identity_of(fs)
            return explain_s3(answer["Error"]["Code"], bucket, key, who, region=region, action=action)
    return None


def _explain(error: BaseException, url: str, action: str) -> JnrrdzError:
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        reason = "" if isinstance(error, FileNotFoundError) else ": a folder in this path is a file"
        return JnrrdzError(f"not found{reason}", url=url)
    if isinstance(error, PermissionError) or "redential" in type(error).__name__:
        hint = f"; {_CREDENTIALS}" if url.startswith("s3") else ""
        return JnrrdzError(f"permission denied ({action}): {text}{hint}", url=url)
    missing = {getattr(each, "name", None) for each in (error, error.__cause__)} & _PACKAGES.keys()
    if isinstance(error, ImportError) and missing:
        package = _PACKAGES[str(missing.pop())]
        return UnsupportedError(f"needs a package that is not installed: pip install {package}", url=url)
    if isinstance(error, ImportError | NotImplementedError):
        return UnsupportedError(f"cannot be opened ({action}): {text}", url=url)
    if isinstance(error, TimeoutError):
        return JnrrdzError(f"no answer in time ({action}): {text}", url=url)
    if isinstance(error, OSError) and error.strerror:  # the path is said already
        text = error.strerror
    return JnrrdzError(_unknown_scheme(text) or _unreached(error) or f"{action} failed: {text}", url=url)


def _unknown_scheme(text: str) -> str | None:
    """Return what to say of an address that begins as none does, None where fsspec says something else."""
    from difflib import get_close_matches  # noqa: PLC0415  few addresses are misspelt

    import fsspec  # noqa: PLC0415  it is here already, for it said so

    says, _, found = text.partition(": ")
    if says != "Protocol not known":
        return None
    near = get_close_matches(found, fsspec.available_protocols(), n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]}://?" if near else ""
    return f"no file system of fsspec reads addresses that begin with {found}://{meant}"


def _unreached(error: BaseException) -> str | None:
    """Return what to say of a host that aiohttp could not connect to, None where that is not what happened."""
    for seen in _chain(error):
        host, port = getattr(seen, "host", ""), getattr(seen, "port", "")
        if type(seen).__name__ == "ClientConnectorDNSError":
            return f"no host has the name {host}; check the address"
        if type(seen).__name__ == "ClientConnectorError":
            return f"no connection to {host}:{port}; check the address, and that a server answers there"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it, each once: who raises an error from what it led to makes a circle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
