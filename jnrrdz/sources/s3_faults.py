"""What an S3 server's refusals mean, each as one sentence: which bucket, who asked, what would help.

Pure: may touch errors.  No secret and no whole access key stands in any of them.
https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from typing import Any

from jnrrdz.errors import JnrrdzError

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
_BUSY = frozenset({"SlowDown", "503", "429", "ServiceUnavailable", "TooManyRequests", "InternalError", "500"})


def identity(access_key: str, method: str | None, profile: str | None) -> str:
    """Return who asks: the access key's first letters and where it was found."""
    origin = _ORIGINS.get(method or "", f"from {method}" if method else "")
    named = f" (profile {profile})" if profile else ""
    return f"with access key {access_key[:_SHOWN]}... {origin}{named}".rstrip()


def no_credentials(bucket: str) -> JnrrdzError:
    """Return the error for a user who has no credentials at all."""
    error = JnrrdzError(
        f"no credentials found for the bucket {bucket} (looked at AWS_* variables, the profile, the machine's role); "
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


def explained(  # noqa: PLR0913  what a sentence says
    code: str, bucket: str, key: str, who: str, *, region: str | None = None, action: str = "reading"
) -> JnrrdzError:
    """Return the error for a server's error code (or HTTP status where there is none)."""
    name = _SAME.get(code, code)
    if name == "AccessDenied" and action in _DENIED:
        name = action
    if name in _ELSEWHERE:
        where = f"in the region {region}; --region {region}" if region else "in another region; --region"
        return JnrrdzError(f"the bucket {bucket} is {where} would reach it ({code}, asked {who})")
    if name in _BUSY:
        error = JnrrdzError(f"the server was busy each time it was asked ({code}, bucket {bucket}); fewer at once (-j)")
        error.__cause__ = TimeoutError(code)  # who looks for what may pass later asks for the cause
        return error
    known = _GONE.get(name) or _DENIED.get(name)
    text = known or _UNSAID.get(name, "the server refuses {bucket}/{key}")
    error = JnrrdzError(f"{text.format(bucket=bucket, key=key)} ({code}, asked {who})")
    if known:
        error.__cause__ = FileNotFoundError(code) if name in _GONE else PermissionError(code)
    return error
