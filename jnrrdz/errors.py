"""What can go wrong, as exceptions that say where and never show a credential.

Every error that jnrrdz raises on purpose is a `JnrrdzError`; its text is one line that names the source, the field
and the byte offset as far as they are known.  Signed URLs have credentials in their query (AWS, Google, Azure, tokens
of services), old ones before the host.  AWS: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html;
Azure: https://learn.microsoft.com/rest/api/storageservices/create-service-sas; userinfo: RFC 3986, section 3.2.1.
"""

import re
from typing import Self

HIDDEN = "REDACTED"

# what stands before the `@` of an Azure URL is a container, before that of ssh a user
_USER = re.compile(
    r"(\bhttps?://)[^/?#@\s'\"]*@|(\b[A-Za-z][A-Za-z0-9+.\-]*://)[^/?#@:\s'\"]*:[^/?#@\s'\"]*@", re.IGNORECASE
)
_CREDENTIAL = (
    r"(?:[\w.-]*(?:sig|signature|credentials?|token|secret|password|passwd|auth|authorization|policy|apikey"
    r"|api[_-]key|access[_-]?key(?:[_-]?id)?|key-pair-id|googleaccessid|x-amz-[\w-]*|x-goog-[\w-]*|session|jwt)"
    r"|hdnea|hdnts|pwd)"
)
# a URL in the query of another has its own marks percent-encoded
_VALUE = re.compile(
    rf"((?:[?&;]|%3F|%26)(?:{_CREDENTIAL}|key|code|s[a-z]{{1,2}})(?:=|%3D))(?:(?!%26)[^&\s'\"#;])+", re.IGNORECASE
)
_NAME = re.compile(_CREDENTIAL, re.IGNORECASE)
_OPAQUE = re.compile(r"[\w-]{16,}")
_WITH_SIGNATURE = re.compile(r"expires|response-[\w-]+|s[a-z]{1,2}|s[a-z]oid|sktid|sduoid|scid", re.IGNORECASE)
"""Parameters that mean something beside a signature only."""


def redacted(text: str) -> str:
    """Return the text with users, passwords, signatures and tokens in URLs hidden."""
    if "://" not in text and "?" not in text:
        return text
    return _VALUE.sub(rf"\1{HIDDEN}", _USER.sub(r"\1\2", text))


def without_credentials(url: str) -> str:
    """Return the URL of the same object for somebody else, who has credentials of their own.

    Only HTTP has a query: in the key of an object store a question mark is a letter.
    """
    if "://" not in url or not ("@" in url or "?" in url):
        return url
    return "::".join(_USER.sub(r"\1\2", _unsigned(link)) for link in url.split("::"))


def _unsigned(link: str) -> str:
    """Return one link of a chain of URLs without the parameters that are credentials, or belong to a signature."""
    path, mark, query = link.partition("?")
    if not mark or not path.lower().startswith(("http://", "https://")):
        return link
    parameters = query.split("&")
    kept = [parameter for parameter in parameters if not _is_secret(*parameter.partition("=")[::2])]
    if len(kept) < len(parameters):
        kept = [parameter for parameter in kept if not _WITH_SIGNATURE.fullmatch(parameter.partition("=")[0])]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _is_secret(name: str, value: str) -> bool:
    """Whether a parameter is a credential: `key` and `code` are often, unless they look like a name."""
    if name.lower() in {"key", "code"}:
        return _OPAQUE.fullmatch(value) is not None
    return _NAME.fullmatch(name) is not None


class JnrrdzError(Exception):
    """Anything that jnrrdz refuses or finds broken, with its place."""

    def __init__(
        self, message: str, *, url: str | None = None, offset: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.offset = offset
        self.field = field

    def __str__(self) -> str:
        """`url: field: message (at byte offset)`, on one line, without what is not known and without credentials."""
        parts = [part for part in (self.url, self.field, self.message) if part]
        text = redacted(": ".join(parts).replace("\n", " "))
        return text if self.offset is None else f"{text} (at byte {self.offset})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the place, so that a worker's error arrives whole."""
        state = {"url": self.url, "offset": self.offset, "field": self.field}
        return type(self), (self.message,), state

    def at(self, *, url: str | None = None, offset: int | None = None, field: str | None = None) -> Self:
        """Return this error, with the places filled in that it did not know yet."""
        self.url = self.url if self.url is not None else url
        self.offset = self.offset if self.offset is not None else offset
        self.field = self.field if self.field is not None else field
        return self


class MalformedError(JnrrdzError):
    """The bytes contradict their format or themselves."""


class UnsupportedError(JnrrdzError):
    """The bytes are fine, but jnrrdz (or a library that it needs) does not read this."""


class UnrepresentableError(JnrrdzError):
    """The result cannot be expressed in the target (a manifest form, a Zarr data type)."""


class UntrustedSourceError(JnrrdzError):
    """A manifest reaches for a source that its reader did not allow."""


class DriftError(JnrrdzError):
    """A source is no longer what it was when it was scanned."""


class DriftWarning(UserWarning):
    """A local file has the size that it had when it was scanned, but another time of modification."""
