"""Ranges over HTTP, through the session that fsspec keeps, with the answer's status looked at.

fsspec's own `_cat_file` returns the body whatever the status, so that a server without ranges would give wrong
bytes.  RFC 9110, sections 13 and 14.

An `AddressGuard` is asked before anything is connected, in two places that see everything: a client middleware runs
for the first request and for every redirect, with the parsed URL; the resolver runs for every name, and the addresses
that it lets through are what is dialled.  The middleware also takes from a request what was given for another origin.
A `Pace` remembers how fast a host has answered lately, and so how soon a request to it may be given up:
a stalled answer costs whoever waits for it the whole patience.  Figures: docs/decisions/011-object-stores.md.
"""

import asyncio
import errno
import re
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from ipaddress import ip_address
from itertools import chain
from socket import AddressFamily
from typing import Any
from urllib.request import getproxies

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict

from jnrrdz.caches import BoundedCache
from jnrrdz.core.state import SourceState, Validators, rfc3339, scanned_before
from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError, UntrustedSourceError
from jnrrdz.sources import retry
from jnrrdz.sources import url as urls
from jnrrdz.sources.guard import AddressGuard, remember
from jnrrdz.sources.ranges import Span
from jnrrdz.sources.retry import Transient, persistently, retry_after, silence


async def guarded_client(guard: AddressGuard, **kwargs: Any) -> aiohttp.ClientSession:
    """Return a session that connects only where the guard lets it; for fsspec's `get_client`."""
    connector = aiohttp.TCPConnector(resolver=GuardedResolver(guard, aiohttp.DefaultResolver()))
    return aiohttp.ClientSession(**{"connector": connector, **kwargs})


def proxies(options: Mapping[str, Any]) -> tuple[urls.Origin, ...]:
    """Return the origins of the proxies that storage options name, or let the environment name."""
    client = options.get("client_kwargs") or {}
    named = [options.get("proxy"), client.get("proxy"), *(getproxies().values() if client.get("trust_env") else ())]
    found = (urls.origin(str(proxy)) for proxy in named if proxy)
    return tuple(origin for origin in found if origin is not None)


class GuardedResolver(AbstractResolver):
    """A resolver of a name to those of its addresses that may be dialled: they are what is connected to."""

    def __init__(self, guard: AddressGuard, inner: AbstractResolver) -> None:
        self._guard = guard
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AddressFamily.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses that may be dialled; with none of them, the error says why not."""
        found = await self._inner.resolve(host, port, family)
        addresses = [ip_address(result["host"].partition("%")[0]) for result in found]
        remember(host, port, addresses)
        permitted = [
            result
            for result, address in zip(found, addresses, strict=True)
            if self._guard.refuses(host, port, address) is None
        ]
        if addresses and not permitted:
            self._guard.check(host, port, addresses[0])
        return permitted

    async def close(self) -> None:
        """Let go of the resolver inside."""
        await self._inner.close()


_CREDENTIALS = {"auth": "authorization", "cookies": "cookie", "middlewares": "authorization"}
"""Options of aiohttp, and the header that each becomes."""


class _Middleware:
    """Sees the first request and every redirect: whether it may be sent, and with which headers."""

    def __init__(self, guard: AddressGuard, given: Collection[str]) -> None:
        self._guard = guard
        self._given = given

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        url = request.url
        self._guard.check_url(url.scheme, url.raw_host or "", url.port or 0)
        if not self._guard.gets_headers(_origin(url)):
            for name in self._given:
                request.headers.popall(name, None)
        return await handler(request)


def _origin(url: yarl.URL) -> urls.Origin:
    return url.scheme, (url.raw_host or "").lower().rstrip("."), url.port or 0


SHORTEST_SILENCE = 1.0
"""Seconds of silence that no host is given up before: a lost packet is sent again within that time."""

SLOW = 0.9
TIMES = 4
"""An answer may take so many times as long as one of the slow ones: this share of all answers was faster."""

ENOUGH = 16
"""Answers that have to be seen before anything is concluded."""

_REMEMBERED = 64
_HOSTS = 256


class Pace:
    """The last answers of one host."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def note(self, seconds: float) -> None:
        """Remember how long an answer took, or was waited for in vain."""
        self._seen.append(seconds)

    def silence(self, attempt: int) -> float:
        """Return for how many seconds an attempt waits for the next byte: twice as many at each."""
        usual = retry.silence(attempt)
        if len(self._seen) < ENOUGH:
            return usual
        slow = sorted(self._seen)[int(SLOW * len(self._seen))]
        return min(max(SHORTEST_SILENCE, TIMES * slow) * 2.0**attempt, usual)


_PACES = BoundedCache[urls.Origin | None, Pace](most=_HOSTS)


def of(url: str) -> Pace:
    """Return the pace of a URL's host."""
    return _PACES.made(urls.origin(url), Pace)


WHOLE_LIMIT = 64 * 1024 * 1024
"""What may be downloaded to reach a span on a server that ignores ranges."""

_SHORT = 1 << 20
"""Bytes of an answer that should come without a pause."""

PROGRESS = 16 * 1024
"""Bytes of a body (or its rest) that have to come in the time in which silence is borne: drops are no answer."""

_OK, _PARTIAL, _PRECONDITION_FAILED, _UNSATISFIABLE = 200, 206, 412, 416
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)$")
_ADVICE = {
    401: "; the server wants credentials (in Python: storage_options={'headers': {...}})",
    403: "; the server wants credentials (in Python: storage_options={'headers': {...}}), or a signed URL has expired",
    404: "; check the URL",
    410: "; it was there and is gone",
}
_MEANS = {401: "permission denied", 403: "permission denied", 404: "not found", 410: "not found"}
_SERVER_FAULT = 500
_LIKE = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError, 410: FileNotFoundError}
"""What a status would be on a file system: whoever looks for a file that may be absent asks for the cause."""


class Progress:
    """The time that a request has left; it begins anew with all that comes in time."""

    def __init__(self, limit: asyncio.Timeout, seconds: float | None) -> None:
        self._limit, self._seconds = limit, seconds
        self._seen = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self._seconds is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def pieces(self, content: aiohttp.StreamReader, count: int) -> AsyncIterator[bytes]:
        """Yield the next `count` bytes of a body as they come, fewer where it ends."""
        while count and (piece := await content.read(count)):
            count -= len(piece)
            self._seen += len(piece)
            if self._seen >= PROGRESS:
                self._seen = 0
                self._begin_anew()
            yield piece


class HttpTransport:
    """One URL, asked by ranges; what the answers say about its state is kept and compared."""

    def __init__(self, fs: Any, url: str, guard: AddressGuard | None = None) -> None:
        self._fs = fs
        self._url = url
        self._guard = guard or AddressGuard.of_source(url)
        self._conditional = True
        self.validators: Validators | None = None
        self.expected: SourceState | None = None
        """The object as it was recorded when it was scanned."""

    async def stat(self) -> Validators:
        """Return size, ETag and so on from one HEAD, or from one byte where HEAD does not tell."""
        return await persistently(self._stat_once)

    async def _stat_once(self, attempt: int) -> Validators:
        async with self._asked("HEAD", None, attempt) as (answer, _):
            told = answer.status == _OK and _size(answer) is not None
            if told or answer.status in self._final:
                return await self._learn(answer, _size(answer))
        async with self._asked("GET", (0, 1), attempt) as (answer, _):
            return await self._learn(answer, _size(answer))

    async def fetch(self, span: Span) -> bytes:
        """Return the bytes of one span, asking again where a server is busy or a connection broke."""
        return await persistently(partial(self._fetch_once, span))

    async def _fetch_once(self, span: Span, attempt: int) -> bytes:
        async with self._asked("GET", span, attempt) as (answer, progress):
            if answer.status == _PRECONDITION_FAILED:
                # asked once more without a condition: the answer tells what is there now, and some
                # servers refuse conditions that hold
                self._conditional = False
                raise Transient(scanned_before("If-Match failed"), 0)
            size = (await self._learn(answer, _size(answer))).size
            if span[0] >= size:
                return b""
            skipped, wanted = _body(answer, span, size)
            async for _ in progress.pieces(answer.content, skipped):
                pass
            data = b"".join([piece async for piece in progress.pieces(answer.content, wanted)])
            if len(data) < wanted:
                raise asyncio.IncompleteReadError(data, wanted)
            return data

    async def whole(self, most: int) -> bytes:
        """Return all that a server sends, which need not say how much that is; more than `most` bytes are refused."""
        return await persistently(partial(self._whole_once, most))

    async def _whole_once(self, most: int, attempt: int) -> bytes:
        async with self._asked("GET", None, attempt) as (answer, progress):
            if answer.status != _OK:
                error = await self._refusal(answer)
                raise error from error.__cause__
            if _encoded(answer):
                raise UnsupportedError("the server compresses what it sends although asked not to; turn that off there")
            data = bytearray()
            async for piece in progress.pieces(answer.content, most + 1):
                data += piece
                if len(data) > most:
                    raise UnsupportedError(f"a document of more than {most} bytes")
            return bytes(data)

    @asynccontextmanager
    async def _asked(
        self, method: str, span: Span | None, attempt: int
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, Progress]]:
        """Give the answer, its body not read yet, and the time for it; what may pass is raised as Transient."""
        await self._prepare()
        host = self._pace()
        # a long body may well pause for longer than an answer takes
        short = span is None or span[1] - span[0] <= _SHORT
        quiet = host.silence(attempt) if short else silence(attempt)
        headers = {"Accept-Encoding": "identity"}
        if span is not None:
            headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
        waits = self._waits(silence(attempt), quiet)
        # the connector makes wait who comes after so many: that is no fault of the server
        free = vars(self._fs).setdefault("_jnrrdz_connections", asyncio.Semaphore(self._connections))
        await free.acquire()
        start = time.monotonic()
        try:
            longest = (waits.sock_connect or 0) + (waits.sock_read or 0) if waits is not None else None
            async with asyncio.timeout(longest) as limit:
                async with await self._send(method, headers, waits) as answer:
                    host.note(time.monotonic() - start)
                    # a link that many share is slow for each, however soon its host answers
                    longest = None if waits is None else max(waits.sock_read or 0, silence(attempt))
                    progress = Progress(limit, longest)
                    if answer.status in retry.BUSY_STATUSES:
                        raise Transient(await self._refusal(answer), retry_after(answer.headers.get("Retry-After")))
                    yield answer, progress
        except aiohttp.NonHttpUrlRedirectClientError as error:
            raise UntrustedSourceError(f"a redirect to {error}; only http and https are followed") from error
        except aiohttp.ClientConnectorError as error:
            if not _passes(error):
                raise
            raise Transient(error) from error
        except TimeoutError as error:
            host.note(time.monotonic() - start)
            raise Transient(error) from error
        except retry.broken(aiohttp.ClientOSError) as error:
            raise Transient(error) from error
        finally:
            free.release()

    _connections = 100
    """As many as aiohttp's connector has."""

    def _waits(self, connect: float, read: float) -> aiohttp.ClientTimeout | None:
        """Return how long is waited; None where the user asked for times, which are left as they are."""
        is_asked = "timeout" in self._fs.client_kwargs or "timeout" in self._fs.kwargs
        return None if is_asked else patience(connect, read)

    def _pace(self) -> Pace:
        return of(self._url)

    async def _prepare(self) -> None:
        """Find out what has to be known before anything is asked: here nothing."""

    async def _send(
        self, method: str, headers: dict[str, str], waits: aiohttp.ClientTimeout | None
    ) -> aiohttp.ClientResponse:
        session = await self._fs.set_session()
        options = {"allow_redirects": True, **self._fs.kwargs, "auto_decompress": False}
        if waits is not None:
            options["timeout"] = waits
        url = self._fs.encode_url(self._url)
        if not self._guard.gets_headers(_origin(yarl.URL(url))):
            options.pop("params", None)  # those of redirects are dropped by aiohttp
        options["middlewares"] = self._middlewares
        options["headers"] = {**options.get("headers", {}), **headers, **self._condition(method)}
        answer: aiohttp.ClientResponse = await session.request(method, url, **options)
        return answer

    @cached_property
    def _middlewares(self) -> tuple[aiohttp.ClientMiddlewareType, ...]:
        """The user's own, and after them ours, which sees what is really sent."""
        users = (options.get("middlewares", ()) for options in (self._fs.client_kwargs, self._fs.kwargs))
        return *chain.from_iterable(users), _Middleware(self._guard, self._given)

    @cached_property
    def _given(self) -> set[str]:
        """The names of the headers that the user gives, in whatever way."""
        given: set[str] = set()
        for options in (self._fs.kwargs, self._fs.client_kwargs):
            given |= {header for name, header in _CREDENTIALS.items() if options.get(name)}
            given |= {name.lower() for name in CIMultiDict(options.get("headers") or {})}
        return given

    def _condition(self, method: str) -> dict[str, str]:
        """Return If-Match with the state that is known; a weak ETag never matches (RFC 9110, 13.1.1)."""
        seen = self.validators or self.expected
        etag = seen and seen.etag
        holds = etag and etag.startswith('"') and self._conditional and method == "GET"
        return {"If-Match": etag} if etag and holds else {}

    _final = frozenset({404, 410})
    """Answers to HEAD after which GET is not tried."""

    async def _refusal(self, answer: aiohttp.ClientResponse) -> JnrrdzError:
        """Return the error that a status stands for."""
        means = _MEANS.get(answer.status, "refused" if answer.status < _SERVER_FAULT else "the server failed")
        said = f"{means} (HTTP {answer.status} {answer.reason} to {answer.method})"
        error = JnrrdzError(f"{said}{self._withheld(answer) or _ADVICE.get(answer.status, '')}")
        kind = _LIKE.get(answer.status)
        error.__cause__ = None if kind is None else kind()
        return error

    def _withheld(self, answer: aiohttp.ClientResponse) -> str:
        """Return that an answer wants credentials which were not sent, and what would send them."""
        if answer.status not in {401, 403} or self._guard.gets_headers(_origin(answer.url)) or not self._given:
            return ""
        host = f"{answer.url.origin()}/"
        return f"; {host} was not named by you and got none of your headers; --allow {host} sends them"

    async def _learn(self, answer: aiohttp.ClientResponse, size: int | None) -> Validators:
        """Keep what the answer says about the object's state; refuse a state other than before."""
        if answer.status not in {_OK, _PARTIAL, _UNSATISFIABLE}:
            error = await self._refusal(answer)
            raise error from error.__cause__
        if answer.status == _OK and _encoded(answer):
            raise UnsupportedError("the server compresses what it sends although asked not to; turn that off there")
        known = self.validators
        if size is None and known is None:
            raise UnsupportedError(f"the server does not say the size (HTTP {answer.status} to {answer.method})")
        found = _validators(answer.headers, known.size if size is None and known else size or 0)
        if known is None and self.expected is not None:
            drift = self.expected.drift(found)
            if drift is not None:
                raise drift
        self.validators = found if known is None else settled(known, found)
        return self.validators


def settled(known: Validators, found: Validators) -> Validators:
    """Return what is known of an object after one more answer, or refuse one of another state."""
    change = known.difference(found)
    if change is not None:
        raise DriftError(f"changed while it was read: {change}")
    # a refused range tells size and ETag only
    etag, modified = known.etag or found.etag, known.modified or found.modified
    return replace(known, etag=etag, modified=modified, version=known.version or found.version)


def patience(connect: float | None, read: float | None) -> aiohttp.ClientTimeout:
    """Return how long is waited for a connection and for each next byte, however long all takes."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)


def _passes(error: aiohttp.ClientConnectorError) -> bool:
    """Whether a connection that could not be made may be made later: not where it was refused or has no name."""
    cause = error.os_error
    if isinstance(cause, socket.gaierror):
        return cause.errno == socket.EAI_AGAIN
    return cause.errno in {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT}


def _body(answer: aiohttp.ClientResponse, span: Span, size: int) -> tuple[int, int]:
    """Return how many bytes of the body to pass over and how many to take, or refuse the answer."""
    start, stop = span[0], min(span[1], size)
    if answer.status == _PARTIAL:
        said = answer.headers.get("Content-Range", "no Content-Range")
        found = _CONTENT_RANGE.match(said)
        if found is None or (found[1], found[2]) != (str(start), str(stop - 1)):
            raise JnrrdzError(f"asked for bytes {start}-{stop - 1}, the server sent {said}", offset=start)
        return 0, stop - start
    if answer.status == _UNSATISFIABLE:
        raise JnrrdzError(f"the server refuses bytes {start}-{stop - 1} of {size}", offset=start)
    if stop > WHOLE_LIMIT:
        raise UnsupportedError(
            f"the server ignores ranges: {stop} bytes would be downloaded for {stop - start}; "
            "use a server with ranges, or a local copy",
            offset=start,
        )
    return start, stop - start


def _size(answer: aiohttp.ClientResponse) -> int | None:
    """Return the size of the whole object."""
    if answer.status in {_PARTIAL, _UNSATISFIABLE}:
        found = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        return int(found[3]) if found and found[3] != "*" else None
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and not _encoded(answer) else None


def _encoded(answer: aiohttp.ClientResponse) -> bool:
    return answer.headers.get("Content-Encoding", "identity") != "identity"


def _validators(headers: Mapping[str, str], size: int) -> Validators:
    version = headers.get("x-amz-version-id") or headers.get("x-goog-generation")
    version = None if version == "null" else version
    return Validators(size, headers.get("ETag"), version, _modified(headers.get("Last-Modified", "")))


_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905  easier to read
_FIXED_DATE = re.compile(r"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)
"""How servers spell a date (RFC 9110, 5.6.7); other forms are read by the standard library, at ten times the cost."""


def _modified(text: str) -> str | None:
    """Return a time of modification as RFC 3339 text, None where there is none that is understood."""
    fixed = _FIXED_DATE.fullmatch(text)
    try:
        if fixed is None:
            return rfc3339(parsedate_to_datetime(text))
        day, month, *others = fixed.groups()
        year, hour, minute, second = map(int, others)
        return rfc3339(datetime(year, _MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=UTC))
    except ValueError:
        return None
