"""What requests are answered with: who may ask, status, headers, and parts of bodies."""

import hmac
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

from jnrrdz.options import ServeOptions

type Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
type Headers = list[tuple[bytes, bytes]]
type Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_TEXT = "text/plain; charset=utf-8"
_LONGEST_RANGE = 40

PIECE = 1 << 20
"""Bytes of an answer that are handed on at once; more are, once those have left."""


METHODS = "GET, HEAD, OPTIONS"
ALLOWED = b"range, if-none-match, if-range, if-modified-since, cache-control, content-type"
EXPOSED = b"content-range, content-length, accept-ranges, etag"
PREFLIGHT_AGE = b"600"

_ALWAYS: Headers = [(b"x-content-type-options", b"nosniff"), (b"vary", b"origin")]


class Refusal(NamedTuple):
    """An answer that shows nothing of what is served."""

    status: int
    reason: str


class Guard:
    """Who may read what a server has: by the Host header, the token, and the page that asks.

    On loopback whoever is on this machine may read; at another address whoever has the token, which is the first part
    of each path.  A browser on this machine runs pages of strangers, so that a page of another origin reads nothing
    unless its origin is named: the Host header has to be the server's own (no name can be bound to it anew), `Origin`
    and `Sec-Fetch-Site` the server's or an allowed one.

    https://fetch.spec.whatwg.org/#http-cors-protocol, https://www.w3.org/TR/fetch-metadata/
    """

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
        text = host.decode("latin-1").lower()
        name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]  # without its port
        if "*" not in self._hosts and name not in self._hosts:
            return Refusal(421, "this name is not the server's")
        first = path.strip("/").partition("/")[0].encode("utf-8", "replace")
        if self._token is not None and not hmac.compare_digest(first, self._token):
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


class Answer(NamedTuple):
    """What is answered to who may read: a status, a body, and headers that are true of both."""

    status: int
    body: bytes
    headers: Headers
    tag: bytes = b""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory, more or less."""
        return len(self.body) + 2048


def plain_answer(status: int, text: str) -> Answer:
    """Return an answer of one line of text, which nobody keeps."""
    body = (" ".join(text.split()) + "\n").encode("utf-8", "replace")
    headers = [(b"content-type", _TEXT.encode()), (b"cache-control", b"no-store")]
    return Answer(status, body, [*headers, (b"content-length", b"%d" % len(body))])


PLAINLY = frozenset({b"range", b"if-none-match", b"content-length", b"transfer-encoding", b"upgrade", b"expect"})
"""Headers that ask for something else than the whole of an answer, or say more than headers."""

ABSENT = plain_answer(404, "not found")
NOBODY = Answer(0, b"", [])
"""What is answered to who has gone: nothing."""


async def send_answer(send: Send, answer: Answer, more: Headers, *, whole: bool) -> None:
    """Send an answer, a large one in pieces that wait for their reader; of one that is not whole the headers."""
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, *more]})
    body = answer.body if whole else b""
    for start in range(0, len(body) - PIECE, PIECE):
        await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
    rest = body if len(body) <= PIECE else body[(len(body) - 1) // PIECE * PIECE :]
    await send({"type": "http.response.body", "body": rest})


def as_asked(answer: Answer, request: Mapping[bytes, bytes]) -> Answer:
    """Return an answer as its reader wants it: nothing of what it has, or a part of it."""
    if not answer.tag:
        return answer
    tags = [tag.strip().removeprefix(b"W/") for tag in request.get(b"if-none-match", b"").split(b",")]
    if tags == [b"*"] or answer.tag in tags:
        kept = [pair for pair in answer.headers if pair[0] != b"content-length"]
        return answer._replace(status=304, body=b"", headers=kept)
    asked = request.get(b"range")
    if asked is None or request.get(b"if-range", answer.tag) != answer.tag:
        return answer
    return _part(answer, asked)


def _part(answer: Answer, asked: bytes) -> Answer:
    """Return what a Range header asks for."""
    size = len(answer.body)
    span = _span(asked, size)
    if span is None:
        return answer
    start, stop = span
    headers = [pair for pair in answer.headers if pair[0] != b"content-length"]
    if start >= size:
        headers += [(b"content-range", b"bytes */%d" % size), (b"content-length", b"0")]
        return answer._replace(status=416, body=b"", headers=headers)
    headers += [
        (b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, size)),
        (b"content-length", b"%d" % (stop - start)),
    ]
    return answer._replace(status=206, body=answer.body[start:stop], headers=headers)


def _span(header: bytes, size: int) -> tuple[int, int] | None:
    """Return the bytes that a Range header asks for; None for all of them, and for what need not be understood."""
    unit, _, text = header.partition(b"=")
    first, dash, last = (part.strip() for part in text.partition(b"-"))
    if unit.strip().lower() != b"bytes" or not dash or not (first + last).isdigit() or len(text) > _LONGEST_RANGE:
        return None
    if not first:
        return max(size - int(last), 0) if int(last) else size, size
    stop = min(int(last) + 1, size) if last else size
    return (int(first), stop) if int(first) < stop or int(first) >= size else None
