"""Ranges over HTTP, through the session that fsspec keeps, with the answer's status looked at.

May touch aiohttp (through fsspec's session).  fsspec's own `_cat_file` returns the body whatever
the status, so a server without ranges would give wrong bytes.  RFC 9110, sections 13 and 14.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError, UntrustedSourceError
from jnrrdz.source.base import Span, Validators
from jnrrdz.source.times import rfc3339

WHOLE_LIMIT = 64 * 1024 * 1024
"""What may be downloaded to reach a span on a server that ignores ranges."""

ATTEMPTS = 3
_PAUSE = 0.1
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_OK, _PARTIAL, _UNSATISFIABLE = 200, 206, 416
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)$")
_BROKEN = (
    aiohttp.ClientPayloadError,
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    asyncio.IncompleteReadError,
)
_ADVICE = {
    401: "; the server wants credentials (storage option headers)",
    403: "; the server wants credentials (storage option headers), or a signed URL has expired",
}
_LIKE = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError, 410: FileNotFoundError}
"""What a status would be on a file system: whoever looks for a file that may be absent asks for the cause."""


class HttpTransport:
    """One URL, asked by ranges; what the answers say about its state is kept and compared."""

    def __init__(self, fs: Any, url: str) -> None:
        self._fs = fs
        self._url = url
        self.validators: Validators | None = None

    async def stat(self) -> Validators:
        """Return size, ETag and so on from one HEAD, or from one byte where HEAD does not tell."""
        async with await self._ask("HEAD") as answer:
            told = answer.status == _OK and _size(answer) is not None
            if told or answer.status in {404, 410}:
                return self._learn(answer, _size(answer))
        async with await self._ask("GET", (0, 1)) as answer:
            return self._learn(answer, _size(answer))

    async def fetch(self, span: Span) -> bytes:
        """Return the bytes of one span, asking again where a connection broke."""
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._fetch_once(span)
            except aiohttp.ClientConnectorError:  # refused or not found: the same the next time
                raise
            except _BROKEN:
                await asyncio.sleep(_PAUSE * 2**attempt)
        return await self._fetch_once(span)

    async def _fetch_once(self, span: Span) -> bytes:
        async with await self._ask("GET", span) as answer:
            size = self._learn(answer, _size(answer)).size
            if span[0] >= size:
                return b""
            skipped, wanted = _body(answer, span, size)
            await _skip(answer.content, skipped)
            return await answer.content.readexactly(wanted)

    async def _ask(self, method: str, span: Span | None = None) -> aiohttp.ClientResponse:
        """Return the answer, its body not read yet, after a pause and another try for a busy server."""
        session = await self._fs.set_session()
        options = {"allow_redirects": True, **self._fs.kwargs, "auto_decompress": False}
        options["headers"] = {**options.get("headers", {}), **_headers(span)}
        url = self._fs.encode_url(self._url)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer: aiohttp.ClientResponse = await session.request(method, url, **options)
            except aiohttp.NonHttpUrlRedirectClientError as error:
                raise UntrustedSourceError(f"a redirect to {error}; only http and https are followed") from error
            if answer.status not in _TRANSIENT or attempt == ATTEMPTS:
                break
            answer.close()
            await asyncio.sleep(_PAUSE * 2**attempt)
        return answer

    def _learn(self, answer: aiohttp.ClientResponse, size: int | None) -> Validators:
        """Keep what the answer says about the object's state; refuse a state other than before."""
        known = self.validators
        if answer.status not in {_OK, _PARTIAL, _UNSATISFIABLE}:
            said = f"HTTP {answer.status} {answer.reason} to {answer.method}"
            raise JnrrdzError(f"{said}{_ADVICE.get(answer.status, '')}") from _LIKE.get(answer.status)
        if answer.status == _OK and _encoded(answer):
            raise UnsupportedError("the server compresses what it sends although asked not to; turn that off there")
        if size is None and known is None:
            raise UnsupportedError(f"the server does not say the size (HTTP {answer.status} to {answer.method})")
        found = _validators(answer.headers, known.size if size is None and known else size or 0)
        if known is None:
            self.validators = found
            return found
        # an answer without an ETag (to HEAD, from some servers) says nothing about the object
        tags = {_strong(each.etag) for each in (known, found) if each.etag is not None}
        if known.size != found.size or len(tags) > 1:
            raise DriftError(f"changed while it was read: was {known}, is {found}")
        self.validators = known if known.etag is not None else replace(known, etag=found.etag)
        return self.validators


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


def _headers(span: Span | None) -> dict[str, str]:
    identity = {"Accept-Encoding": "identity"}
    return identity if span is None else {**identity, "Range": f"bytes={span[0]}-{span[1] - 1}"}


async def _skip(content: aiohttp.StreamReader, count: int) -> None:
    """Read past what was not asked for, keeping none of it."""
    while count > 0:
        passed = len(await content.read(min(count, 1 << 20)))
        if not passed:
            return
        count -= passed


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
    try:
        modified = rfc3339(parsedate_to_datetime(headers["Last-Modified"]))
    except (KeyError, ValueError):
        modified = None
    version = headers.get("x-amz-version-id") or headers.get("x-goog-generation")
    return Validators(size, headers.get("ETag"), None if version == "null" else version, modified)


def _strong(etag: str | None) -> str | None:
    """Return the ETag without its mark of weakness, which servers add and drop on the way."""
    return etag.removeprefix("W/") if etag else None
