"""Bytes at any URL that fsspec opens but local files: object stores, HTTP, memory, chained file systems.

Requests run on fsspec's own event loop, where its sessions live, whichever thread or loop asks; file systems without
async methods run in threads.
"""

import asyncio
import errno
import os
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from jnrrdz.concurrency import together
from jnrrdz.core.state import SourceState, Validators
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.lazy import library
from jnrrdz.sources import faults, filesystems, ranges, retry
from jnrrdz.sources import url as urls
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.listing import validators_of
from jnrrdz.sources.ranges import Span
from jnrrdz.sources.retry import Transient, broken, persistently

if TYPE_CHECKING:
    from fsspec import asyn
else:
    # a local file needs none of it, see `sources.filesystems`
    asyn = library("fsspec.asyn")

_REQUESTS = 64
"""Requests of one `read` under way at once; more only wait for sockets."""


class Transport(Protocol):
    """One object, one span at a time, on fsspec's loop."""

    validators: Validators | None
    """What is known without asking."""

    expected: SourceState | None
    """What was recorded; compared before bytes are given out by those who learn the state from an answer."""

    async def stat(self) -> Validators:
        """Ask for the validators."""

    async def fetch(self, span: Span) -> bytes:
        """Return the bytes of one span, fewer only at the object's end."""

    async def whole(self, most: int) -> bytes:
        """Return all bytes; more than `most` are refused."""


class FsspecSource:
    """An object behind fsspec; pickles as its URL and options, and survives a fork."""

    def __init__(
        self,
        url: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        guard: AddressGuard | None = None,
        expected: SourceState | None = None,
        gap: int = ranges.GAP,
    ) -> None:
        self._options = dict(storage_options or {})
        self._url = url
        self._guard = guard
        self._expected = expected
        self._gap = gap
        self._process = -1
        self._known: Validators | None = None
        self._transport()

    @property
    def url(self) -> str:
        """The URL as it was given."""
        return self._url

    @property
    def validators(self) -> Validators:
        """Size, ETag, version and modification: from the first answer if it tells, else one request."""
        return self._known or self._submit(self.avalidators()).result()

    async def avalidators(self) -> Validators:
        """Return the validators on fsspec's own loop, where nothing may block."""
        if self._known is None:
            transport = self._transport()
            with faults.translate_errors(self._url, "asking for the size"):
                self._known = transport.validators or await transport.stat()
        return self._known

    @property
    def known(self) -> Validators | None:
        """The same as far as an answer has told it."""
        return self._known or self._transport().validators

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, near ones in one request, requests together."""
        return self._submit(self._fetch_all(spans)).result()

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same from any event loop."""
        return await asyncio.wrap_future(self._submit(self._fetch_all(spans)))

    async def head(self, length: int) -> bytes:
        """Return the first bytes, the validators being known then; on fsspec's own loop, where nothing may block."""
        with faults.translate_errors(self._url, "reading"):
            found = await self._transport().fetch((0, length))
        await self.avalidators()
        return found

    def whole(self, most: int) -> bytes:
        """Return all bytes, over HTTP also where the server does not say how many; more than `most` are refused."""
        with faults.translate_errors(self._url, "reading"):
            return self._submit(self._transport().whole(most)).result()

    def close(self) -> None:
        """Do nothing: connections belong to fsspec's shared file system."""

    def _submit[T](self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, filesystems.loop())

    def _transport(self) -> Transport:
        """Return the way to the object, made anew in a forked or unpickled process."""
        if self._process != os.getpid():
            with faults.translate_errors(self._url, "opening"):
                self._way = self._connect()
            self._way.validators, self._way.expected = self._known, self._expected
            self._process = os.getpid()
        return self._way

    def _connect(self) -> Transport:
        where = urls.parse(self._url)
        if where.origin is not None:
            return self._http()
        fs, path = filesystems.opened(self._url, self._options)
        if where.scheme == "s3" and not where.is_chained:
            # imported here: botocore takes a third of a second that other sources need not pay
            from jnrrdz.sources import s3  # noqa: PLC0415  for S3 alone

            plain = s3.transport(fs, path)
            if plain is not None:
                return plain

        kind = _AsyncTransport if isinstance(fs, asyn.AsyncFileSystem) else _ThreadTransport
        return kind(fs, path)

    def _http(self) -> Transport:
        # imported here: aiohttp takes a tenth of a second that local files need not pay
        from jnrrdz.sources.http import HttpTransport, guarded_client, proxies  # noqa: PLC0415  for HTTP alone

        guard, options = self._guard or AddressGuard.of_source(self._url), self._options
        own = [
            name for name in ("get_client", "connector") if name in {**(options.get("client_kwargs") or {}), **options}
        ]
        if own and guard.is_strangers:
            raise UnsupportedError(f"the storage option {own[0]} would bypass the address guard", field=own[0])
        if "get_client" not in options:
            more = proxies(options) if options else ()
            guard = replace(guard, allowed=guard.allowed + more) if more else guard
            options = {**options, "get_client": partial(guarded_client, guard)}
        return HttpTransport(filesystems.of("http", options), self._url, guard)

    async def _fetch_all(self, spans: Sequence[Span]) -> list[bytes]:
        with faults.translate_errors(self._url, "reading"):
            ranges.check(spans)
            known = self._transport().validators
            size = ranges.MOST if known is None else known.size
            clamped = [(min(start, size), min(stop, size)) for start, stop in spans]
            merged = ranges.coalesce(clamped, gap=self._gap)
            fetches = [self._transport().fetch(request.span) for request in merged]
            bodies = await together(fetches, most=_REQUESTS)
        pieces = [b""] * len(spans)
        for request, body in zip(merged, bodies, strict=True):
            for index, piece in ranges.split(request, body, spans):
                pieces[index] = piece
        return pieces

    def __getstate__(self) -> dict[str, Any]:
        known = self._known or self._transport().validators
        return {**self.__dict__, "_process": -1, "_known": known, "_way": None}


class _AsyncTransport:
    """An async file system other than HTTP."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path
        self.validators: Validators | None = None
        self.expected: SourceState | None = None

    async def stat(self) -> Validators:
        self._fs.invalidate_cache(self._path)  # a listing made earlier tells of an earlier state
        async with asyncio.timeout(retry.longest_answer(0)):
            self.validators = validators_of(await self._info())
        return self.validators

    async def fetch(self, span: Span) -> bytes:
        return await persistently(partial(self._fetch_once, span))

    async def whole(self, most: int) -> bytes:
        size = await self._size()
        if size > most:
            raise UnsupportedError(f"a document of {size} bytes, more than {most}")
        return await self.fetch((0, size))

    async def _fetch_once(self, span: Span, attempt: int) -> bytes:
        del attempt  # how long these wait is their own affair
        try:
            async with asyncio.timeout(retry.longest_answer(span[1] - span[0])):
                return await self._whole(*span)
        except ConnectionRefusedError:
            raise
        except broken() as error:
            raise Transient(error) from error

    async def _whole(self, start: int, stop: int) -> bytes:
        try:
            data = await self._cat(start, stop)
        except OSError as error:
            if error.errno != errno.EINVAL or start < await self._size():  # S3's InvalidRange
                raise
            return b""
        if len(data) != stop - start and len(data) != max(min(stop, await self._size()) - start, 0):
            cut = JnrrdzError(
                f"{len(data)} bytes for a range of {stop - start}; the server does not answer ranges", offset=start
            )
            raise cut if len(data) > stop - start else Transient(cut)
        return data

    async def _size(self) -> int:
        return (self.validators or await self.stat()).size

    async def _info(self) -> Mapping[str, Any]:
        info: Mapping[str, Any] = await self._fs._info(self._path)  # noqa: SLF001  # fsspec's documented async side
        return info

    async def _cat(self, start: int, stop: int) -> bytes:
        data: bytes = await self._fs._cat_file(self._path, start=start, end=stop)  # noqa: SLF001  # the same
        return data


class _ThreadTransport(_AsyncTransport):
    """A file system without async methods."""

    async def _info(self) -> Mapping[str, Any]:
        info: Mapping[str, Any] = await asyncio.to_thread(self._fs.info, self._path)
        return info

    async def _cat(self, start: int, stop: int) -> bytes:
        data: bytes = await asyncio.to_thread(self._fs.cat_file, self._path, start=start, end=stop)
        return data
