"""URLs and text without the credentials that URLs may carry.

Pure.  Signed URLs have them in the query (AWS, Google, Azure, tokens of services), old ones before the host.
AWS: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html; Azure:
https://learn.microsoft.com/rest/api/storageservices/create-service-sas; userinfo: RFC 3986, section 3.2.1.
"""

import re

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
    """Return the URL of the same object as somebody else may be told it, who has credentials of their own.

    Only HTTP has a query: in the key of an object store a question mark is a letter.
    """
    if "://" not in url or not ("@" in url or "?" in url):
        return url
    return "::".join(_USER.sub(r"\1\2", _unsigned(link)) for link in url.split("::"))


def _unsigned(link: str) -> str:
    path, mark, query = link.partition("?")
    if not mark or not path.lower().startswith(("http://", "https://")):
        return link
    given = query.split("&")
    kept = [one for one in given if not _is_secret(*one.partition("=")[::2])]
    if len(kept) < len(given):
        kept = [one for one in kept if not _WITH_SIGNATURE.fullmatch(one.partition("=")[0])]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _is_secret(name: str, value: str) -> bool:
    """Whether a parameter is a credential: `key` and `code` are often, unless they look like a name."""
    if name.lower() in {"key", "code"}:
        return _OPAQUE.fullmatch(value) is not None
    return _NAME.fullmatch(name) is not None
