"""Bytes at any URL that fsspec opens: object stores, HTTP, memory, chained file systems.

May touch fsspec.  Requests run on fsspec's own event loop, where its sessions live, whichever
thread or loop asks; file systems without async methods run in threads.
"""

import asyncio
import errno
import os
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import fsspec.asyn
import fsspec.core

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.sources import base as ranges
from jnrrdz.sources import base as times
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources import url as urls
from jnrrdz.sources.base import ByteSource, Span, State, Validators
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.local import LocalSource
from jnrrdz.sources.retry import Transient, broken, persistently

_REQUESTS = 64
"""Requests of one `read` under way at once; more only wait for sockets."""

NOT_BYTES = {"reference", "dask", "generic"}
"""fsspec's protocols that open something other than one object."""

_ETAG = ("ETag", "etag")
_VERSION = ("VersionId", "version_id", "generation")
_MODIFIED = ("LastModified", "last_modified", "updated", "mtime", "created")


def open_source(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    guard: AddressGuard | None = None,
    expected: State | None = None,
) -> ByteSource:
    """Return the bytes at a path or URL; options are fsspec's (anon, endpoint_url, profile, headers, ...).

    `expected` is the state that was recorded: over HTTP and S3 no byte of another one is given out.
    """
    path = urls.local_path(url)
    if path is not None:
        return LocalSource(url, path)
    if urls.scheme(url) in NOT_BYTES:
        raise UnsupportedError("a view of other files; name the file or the manifest itself", url=url, field="scheme")
    return FsspecSource(url, storage_options=storage_options, guard=guard, expected=expected)


class Transport(Protocol):
    """One object, one span at a time, on fsspec's loop."""

    validators: Validators | None
    """What is known without asking."""

    expected: State | None
    """What was recorded; compared before bytes are given out by those who learn the state from an answer."""

    async def stat(self) -> Validators:
        """Ask for the validators."""

    async def fetch(self, span: Span) -> bytes:
        """Return the bytes of one span, fewer only at the object's end."""


class FsspecSource:
    """An object behind fsspec; pickles as its URL and options, and survives a fork."""

    def __init__(  # noqa: PLR0913  how it is reached, and how it is asked
        self,
        url: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        guard: AddressGuard | None = None,
        expected: State | None = None,
        gap: int = ranges.GAP,
        limit: int = ranges.LIMIT,
    ) -> None:
        # fsspec's loop is the only one: a caller's `asynchronous` or `loop` would tie us to another
        self._options = {k: v for k, v in (storage_options or {}).items() if k not in {"asynchronous", "loop"}}
        self._url = url
        self._guard = guard
        self._expected = expected
        self._gap = gap
        self._limit = limit
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
        if self._known is None:
            transport = self._transport()
            with faults.told(self._url, "asking for the size"):
                self._known = transport.validators or self._submit(transport.stat()).result()
        return self._known

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span, near ones in one request, requests together."""
        return self._submit(self._fetch_all(spans)).result()

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Do the same from any event loop."""
        return await asyncio.wrap_future(self._submit(self._fetch_all(spans)))

    async def head(self, length: int) -> bytes:
        """Return the first bytes, the validators being known then; on fsspec's own loop, where nothing may block."""
        (found,) = await self._fetch_all([(0, length)])
        if self._known is None:
            transport = self._transport()
            with faults.told(self._url, "asking for the size"):
                self._known = transport.validators or await transport.stat()
        return found

    def close(self) -> None:
        """Do nothing: connections belong to fsspec's shared file system."""

    def _submit[T](self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, fsspec.asyn.get_loop())

    def _transport(self) -> Transport:
        """Return the way to the object, made anew in a forked or unpickled process."""
        if self._process != os.getpid():
            with faults.told(self._url, "opening"):
                self._way = self._connect()
            self._way.validators, self._way.expected = self._known, self._expected
            self._process = os.getpid()
        return self._way

    def _connect(self) -> Transport:
        if urls.origin(self._url) is not None:
            return _http(self._url, self._options, self._guard)
        fs, path = filesystems.opened(self._url, self._options)
        if urls.scheme(self._url) == "s3" and not urls.is_chained(self._url):
            # imported here: botocore takes a third of a second that other sources need not pay
            from jnrrdz.sources import s3  # noqa: PLC0415

            if s3.is_plain(fs, fs.split_path(path)[0]):
                return s3.S3Transport(fs, path)
        kind = _AsyncTransport if isinstance(fs, fsspec.asyn.AsyncFileSystem) else _ThreadTransport
        return kind(fs, path)

    async def _fetch_all(self, spans: Sequence[Span]) -> list[bytes]:
        with faults.told(self._url, "reading"):
            ranges.check(spans)
            merged = ranges.coalesce(self._clamped(spans), gap=self._gap, limit=self._limit)
            bodies = await _together([partial(self._transport().fetch, request.span) for request in merged])
        pieces = [b""] * len(spans)
        for request, body in zip(merged, bodies, strict=True):
            for index, piece in ranges.split(request, body, spans):
                pieces[index] = piece
        return pieces

    def _clamped(self, spans: Sequence[Span]) -> Sequence[Span]:
        """Return the spans cut at the end of the object, if that is known."""
        known = self._transport().validators
        if known is None:
            return spans
        return [(min(start, known.size), min(stop, known.size)) for start, stop in spans]

    def __getstate__(self) -> dict[str, Any]:
        known = self._known or self._transport().validators
        return {**self.__dict__, "_process": -1, "_known": known, "_way": None}


class _AsyncTransport:
    """An async file system other than HTTP."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path
        self.validators: Validators | None = None
        self.expected: State | None = None

    async def stat(self) -> Validators:
        self._fs.invalidate_cache(self._path)  # a listing made earlier tells of an earlier state
        self.validators = _validators(await self._info())
        return self.validators

    async def fetch(self, span: Span) -> bytes:
        return await persistently(partial(self._fetch_once, span))

    async def _fetch_once(self, span: Span, attempt: int) -> bytes:
        del attempt  # how long these wait is their own affair
        try:
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


def _http(url: str, options: Mapping[str, Any], guard: AddressGuard | None) -> Transport:
    # imported here: aiohttp takes a tenth of a second that local files need not pay
    from jnrrdz.sources.http import HttpTransport, guarded_client  # noqa: PLC0415  imported where it is needed

    if guard is None:
        return HttpTransport(filesystems.of("http", options), url)
    if "get_client" in options:
        raise UnsupportedError("the storage option get_client would bypass the address guard", field="get_client")
    return HttpTransport(filesystems.of("http", {**options, "get_client": partial(guarded_client, guard)}), url)


async def _together(requests: Sequence[partial[Coroutine[Any, Any, bytes]]]) -> list[bytes]:
    """Return every answer, in order; the first failure cancels the rest."""
    if len(requests) == 1:
        return [await requests[0]()]
    places = asyncio.Semaphore(_REQUESTS)

    async def take(request: partial[Coroutine[Any, Any, bytes]]) -> bytes:
        async with places:
            return await request()

    tasks = [asyncio.ensure_future(take(request)) for request in requests]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _validators(info: Mapping[str, Any]) -> Validators:
    if info.get("type") == "directory":
        raise UnsupportedError("a directory where a file is read; name an object in it")
    if info.get("size") is None:
        raise UnsupportedError("the file system does not say the size")
    version = _first(info, _VERSION)
    return Validators(
        size=int(info["size"]),
        etag=_first(info, _ETAG),
        version=None if version in {None, "null"} else str(version),
        modified=_when(_first(info, _MODIFIED)),
    )


def _first(info: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((info[name] for name in names if info.get(name)), None)


def _when(value: Any) -> str | None:
    """Return a time as file systems give it: datetime, seconds or ISO text."""
    if isinstance(value, int | float):
        return times.rfc3339(datetime.fromtimestamp(value).astimezone())
    if isinstance(value, str):
        return times.rfc3339(datetime.fromisoformat(value))
    return times.rfc3339(value) if isinstance(value, datetime) else None
