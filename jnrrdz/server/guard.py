"""Who may read what is served: by the Host header, the token, and the page that asks.

On loopback whoever is on this machine may read; at another address whoever has the token, which is the first part of
each path.  A browser on this machine runs pages of strangers, so that a page of another origin reads nothing unless
its origin is named: the Host header has to be the server's own (no name can be bound to it anew), `Origin` and
`Sec-Fetch-Site` the server's or an allowed one.

https://fetch.spec.whatwg.org/#http-cors-protocol, https://www.w3.org/TR/fetch-metadata/
"""

import hmac
from collections.abc import Mapping
from typing import NamedTuple

from jnrrdz.options import ServeOptions

type Headers = list[tuple[bytes, bytes]]

METHODS = "GET, HEAD, OPTIONS"
ALLOWED = b"range, if-none-match, if-range, if-modified-since, cache-control, content-type"
EXPOSED = b"content-range, content-length, accept-ranges, etag"
PREFLIGHT_AGE = b"600"

_ALWAYS: Headers = [(b"x-content-type-options", b"nosniff"), (b"vary", b"origin")]


class Refusal(NamedTuple):
    """An answer that gives nothing away."""

    status: int
    reason: str


class Guard:
    """The rules of one server."""

    def __init__(self, options: ServeOptions) -> None:
        self._token = None if options.token is None else options.token.encode()
        self._hosts = frozenset(host.lower() for host in options.hosts)
        self._origins = frozenset(origin.rstrip("/").encode() for origin in options.origins)
        self._own = [*_ALWAYS, (b"cross-origin-resource-policy", b"same-origin")]

    def refusal(self, headers: Mapping[bytes, bytes], hosts: int, path: str) -> Refusal | None:
        """Return why a request is refused, None where it is not; `path` is that below where the server is mounted."""
        if hosts > 1:
            return Refusal(400, "more than one Host header")
        host = headers.get(b"host", b"")
        if "*" not in self._hosts and _name(host) not in self._hosts:
            return Refusal(421, "this name is not the server's")
        if self._token is not None and not hmac.compare_digest(_first(path), self._token):
            return Refusal(403, "the token is missing or another")
        if not self._is_own_page(headers, host):
            return Refusal(403, "pages of this origin may not read; --allow-origin names those that may")
        return None

    def _is_own_page(self, headers: Mapping[bytes, bytes], host: bytes) -> bool:
        """Whether no page asks, or one of the server's own, or one that is allowed."""
        origin = headers.get(b"origin")
        if origin is not None:
            return origin.partition(b"://")[2].lower() == host.lower() or self._allows(origin)
        if headers.get(b"sec-fetch-site", b"none") in {b"none", b"same-origin"} or b"*" in self._origins:
            return True
        # a link that is followed shows the page to its user, and to no other page
        shown = {b"document"} if not self._origins else {b"document", b"iframe"}
        return headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") in shown

    def _allows(self, origin: bytes) -> bool:
        return b"*" in self._origins or origin in self._origins

    def headers(self, request: Mapping[bytes, bytes]) -> Headers:
        """Return what browsers are told beside each answer."""
        origin = request.get(b"origin")
        if origin is None or not self._allows(origin):
            return self._own
        return [
            *_ALWAYS,
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", EXPOSED),
            (b"timing-allow-origin", origin),
        ]

    def preflight(self, request: Mapping[bytes, bytes]) -> Headers:
        """Return what a browser wants to know before it asks."""
        headers = [*self.headers(request), (b"allow", METHODS.encode())]
        if b"access-control-request-method" not in request or request.get(b"origin") is None:
            return headers
        headers += [
            (b"access-control-allow-methods", METHODS.encode()),
            (b"access-control-allow-headers", ALLOWED),
            (b"access-control-max-age", PREFLIGHT_AGE),
        ]
        if request.get(b"access-control-request-private-network") == b"true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers

    @property
    def page_policy(self) -> bytes:
        """What pages of the viewer may do: show what this server has, and reach no other."""
        framed = b" ".join([b"'self'", *sorted(self._origins)])
        return (
            b"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
            b"connect-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
            b"frame-ancestors " + framed
        )


def _name(host: bytes) -> str:
    """Return the name in a Host header, without its port."""
    text = host.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _first(path: str) -> bytes:
    return path.strip("/").partition("/")[0].encode("utf-8", "replace")
