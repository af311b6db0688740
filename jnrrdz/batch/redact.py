"""Text without the credentials that URLs may carry.

Pure.  Signed URLs (AWS, Google, Azure, tokens of APIs) have them in the query, old ones before the host.
"""

import re

_USER = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.\-]*://)[^/?#@\s'\"]*@")
_VALUE = re.compile(
    r"([?&;](?:[\w.%-]*(?:sig|signature|credential|token|secret|password|passwd|auth|authorization|policy|apikey"
    r"|api[_-]key|access[_-]?key(?:[_-]?id)?|key-pair-id|googleaccessid|x-amz-[\w-]*|x-goog-[\w-]*|session)"
    r"|key|code|jwt|s[a-z]{1,2})=)[^&\s'\"#;]+",
    re.IGNORECASE,
)

HIDDEN = "REDACTED"


def redacted(text: str) -> str:
    """Return the text with users, passwords, signatures and tokens in URLs hidden."""
    if "://" not in text and "?" not in text:
        return text
    return _VALUE.sub(rf"\1{HIDDEN}", _USER.sub(r"\1", text))
