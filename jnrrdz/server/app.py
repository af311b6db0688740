"""`serve`: sources and manifests as plain Zarr v3 over HTTP, an ASGI application and its server.

Who may read: on 127.0.0.1 whoever is on this machine; at another address whoever has the token, which is the first
part of each path.  A page of another origin reads nothing: the Host header has to be the server's own, so that no name
can be bound to it anew, and no other origin is allowed unless it is named.  Decoding runs off the event loop, a few
chunks at once; an answer that nobody waits for any more is not begun.

https://zarr-specs.readthedocs.io/en/latest/v3/stores/filesystem/index.html, https://www.rfc-editor.org/rfc/rfc9110
"""

import asyncio
import hashlib
import hmac
import os
import re
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from jnrrdz.api import open_stored
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats import FORMATS
from jnrrdz.manifests.manifest import ENDINGS
from jnrrdz.options import Access
from jnrrdz.server.plain import Packing, PlainZarr, with_levels
from jnrrdz.sources.url import local_path
from jnrrdz.store.computed_levels import with_pyramids

CACHED = 256 << 20
"""Bytes of answers that are kept."""

LOCAL = ("127.0.0.1", "localhost", "::1")
OPEN = 64
"""Sources that are open at once."""

MOST_CONNECTIONS = 2000
"""Requests that are under way at once; more are told to come again (503)."""

MAX_AGE = "public, max-age=3600"


@dataclass(frozen=True)
class ServeOptions:
    """What is served, and to whom."""

    packing: Packing = "zstd"
    """The codec of chunks: `zstd`, `gzip`, or `bytes` for none."""

    token: str | None = None
    """The first part of each path; without one only this machine is served."""

    hosts: Sequence[str] = LOCAL
    """Names that the Host header may have."""

    origins: Sequence[str] = ()
    """Origins whose pages may read, such as https://avivator.gehlenborglab.org; * for all."""

    pyramids: bool = True
    """Whether a picture without coarser levels gets some, computed where they are read."""

    access: Access = field(default_factory=Access)


class Cache:
    """Answers, those that were asked for last."""

    def __init__(self, most: int = CACHED) -> None:
        self._most = most
        self._nbytes = 0
        self._kept: OrderedDict[tuple[str, str], tuple[bytes | None, str]] = OrderedDict()

    def get(self, key: tuple[str, str]) -> tuple[bytes | None, str] | None:
        """Return an answer, None where it is not kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: tuple[str, str], answer: tuple[bytes | None, str]) -> None:
        """Keep an answer; the oldest go."""
        if key in self._kept or len(answer[0] or b"") > self._most:
            return
        self._kept[key] = answer
        self._nbytes += len(answer[0] or b"") + 512
        while self._nbytes > self._most:
            self._nbytes -= len(self._kept.popitem(last=False)[1][0] or b"") + 512


class Served:
    """What is served, by names; each is opened when it is first asked for."""

    def __init__(self, sources: Sequence[str], options: ServeOptions) -> None:
        self.options = options
        self.sources = served_names(sources)
        self._open: OrderedDict[str, PlainZarr] = OrderedDict()
        self._opening = {name: threading.Lock() for name in self.sources}
        self._lock = threading.Lock()

    def plain(self, name: str) -> PlainZarr:
        """Return a source as plain Zarr; one that is slow to open keeps nobody from the others."""
        with self._opening[name]:
            with self._lock:
                made = self._open.pop(name, None)
            if made is None:
                stored = open_stored(self.sources[name], access=self.options.access)
                store = with_levels(stored) if self.options.pyramids else with_pyramids(stored, 0)
                made = PlainZarr(store, self.options.packing)
            with self._lock:
                self._open[name] = made
                if len(self._open) > OPEN:
                    self._open.popitem(last=False)
            return made


def served_names(sources: Sequence[str]) -> dict[str, str]:
    """Return sources by names that are one part of a path, each another."""
    names: dict[str, str] = {}
    for source in sources:
        base = source.rstrip("/").rpartition("/")[2].partition("?")[0]
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", base).lstrip(".") or "source"
        name, number = stem, 2
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names[name] = source
    return names


def make_app(sources: Sequence[str | os.PathLike[str]], options: ServeOptions | None = None) -> Starlette:
    """Return the ASGI application that serves sources and manifests as plain Zarr."""
    wanted = options or ServeOptions()
    served = Served([os.fspath(source) for source in sources], wanted)
    answers = Answers(served)
    prefix = f"/{wanted.token}" if wanted.token else ""
    routes = [
        Route(f"{prefix}/", answers.listing, methods=["GET", "HEAD"]),
        Route(f"{prefix}/{{name}}/{{key:path}}", answers.key, methods=["GET", "HEAD", "OPTIONS"]),
    ]
    app = Starlette(routes=routes, exception_handlers={JnrrdzError: _failed})
    app.add_middleware(Guard, options=wanted)
    return app


async def _failed(_: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=502)


class Guard:
    """Refuses what is not for this server: other hosts' names, a path without the token, pages of other origins."""

    def __init__(self, app: Any, options: ServeOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        origin = headers.get("origin")
        allowed = origin is not None and ("*" in self._options.origins or origin in self._options.origins)

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [(b"x-content-type-options", b"nosniff"), (b"vary", b"origin")]
                more += [(b"cross-origin-resource-policy", b"cross-origin" if allowed else b"same-origin")]
                if allowed:
                    more += [
                        (b"access-control-allow-origin", str(origin).encode("latin-1")),
                        (b"access-control-allow-headers", b"range"),
                        (b"access-control-expose-headers", b"content-range, etag, content-length"),
                    ]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, answer)

    def _refusal(self, path: str, headers: dict[str, str]) -> Response | None:
        host = headers.get("host", "").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if "*" not in self._options.hosts and name not in self._options.hosts:
            return PlainTextResponse("this name is not the server's\n", status_code=421)
        token = self._options.token
        if token is not None and not hmac.compare_digest(path.strip("/").partition("/")[0].encode(), token.encode()):
            return PlainTextResponse("the token is missing or another\n", status_code=403)
        return None


class Answers:
    """What the routes answer."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._cache = Cache()
        self._under_way: dict[tuple[str, str], asyncio.Event] = {}
        self._limiter: anyio.CapacityLimiter | None = None

    async def listing(self, request: Request) -> Response:
        """Return what is served."""
        prefix = request.url.path
        return JSONResponse({"served": [{"name": name, "url": f"{prefix}{name}"} for name in self._served.sources]})

    async def key(self, request: Request) -> Response:
        """Return the bytes of a key, or a part of them."""
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": "GET, HEAD, OPTIONS"})
        where = request.path_params["name"], request.path_params["key"]
        data, tag = None, ""
        if where[0] in self._served.sources:
            data, tag = await self._answer(where, request.is_disconnected)
        if data is None:
            return PlainTextResponse("not found\n", status_code=404)
        headers = {"etag": tag, "cache-control": MAX_AGE, "accept-ranges": "bytes"}
        if tag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return _whole_or_part(data, headers, request.headers.get("range"), where[1])

    async def _answer(self, where: tuple[str, str], gone: Callable[[], Awaitable[bool]]) -> tuple[bytes | None, str]:
        """Return bytes and their tag; who asks for the same while they are made waits for them."""
        while (kept := self._cache.get(where)) is None and where in self._under_way:
            await self._under_way[where].wait()
        if kept is not None:
            return kept
        self._limiter = self._limiter or anyio.CapacityLimiter(2 * (os.cpu_count() or 1))
        ended = self._under_way[where] = asyncio.Event()
        try:
            async with self._limiter:
                if await gone():
                    return None, ""
                answer = await anyio.to_thread.run_sync(self._make, *where)
            self._cache.put(where, answer)
            return answer
        finally:
            del self._under_way[where]
            ended.set()

    def _make(self, name: str, key: str) -> tuple[bytes | None, str]:
        data = self._served.plain(name).get(key)
        return data, "" if data is None else f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'


def _whole_or_part(data: bytes, headers: dict[str, str], asked: str | None, key: str) -> Response:
    """Return what a Range header asks for, all of it where there is none."""
    kind = "application/json" if key.endswith(".json") else "application/octet-stream"
    span = _span(asked, len(data))
    if span is None:
        return Response(data, headers=headers, media_type=kind)
    start, stop = span
    if start >= len(data):
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{len(data)}"})
    headers = headers | {"content-range": f"bytes {start}-{stop - 1}/{len(data)}"}
    return Response(data[start:stop], status_code=206, headers=headers, media_type=kind)


def _span(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the bytes that a Range header asks for; None for all of them, and for what need not be understood."""
    unit, _, text = (header or "").partition("=")
    first, dash, last = text.strip().partition("-")
    if unit.strip() != "bytes" or not dash or "," in text or not (first.isdecimal() or last.isdecimal()):
        return None
    if not first:
        return max(size - int(last), 0), size
    stop = min(int(last) + 1, size) if last.isdecimal() else size
    return (int(first), stop) if int(first) < stop or int(first) >= size else None


@dataclass(frozen=True)
class Server:
    """A server that runs in a thread of this process."""

    url: str
    names: Sequence[str]

    def __getitem__(self, name: str) -> str:
        return f"{self.url}{name}"


@contextmanager
def serve(*sources: str | os.PathLike[str], port: int = 0, options: ServeOptions | None = None) -> Iterator[Server]:
    """Serve sources and manifests on 127.0.0.1 while the block runs; yields the server, whose `url` lists them."""
    wanted = options or ServeOptions()
    app = make_app(sources, wanted)
    listening = listening_socket("127.0.0.1", port)
    server = http_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="jnrrdz-serve", daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield Server(base_url(listening, wanted), tuple(served_names([os.fspath(source) for source in sources])))
    finally:
        server.should_exit = True
        thread.join()


def http_server(app: Starlette) -> Any:
    """Return uvicorn's server of an application, which is one way to serve it."""
    import uvicorn  # noqa: PLC0415  an application that is mounted elsewhere needs none

    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", timeout_keep_alive=20, limit_concurrency=MOST_CONNECTIONS
    )
    return uvicorn.Server(config)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a port that is taken is refused in words."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise JnrrdzError(f"{host}, port {port}: {error.strerror or error}", field="--port") from error


def base_url(listening: socket.socket, options: ServeOptions) -> str:
    """Return the address of the listing."""
    host, port = listening.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"{options.token}/" if options.token else "")


def listed_sources(names: Sequence[str]) -> list[str]:
    """Return what is named, a folder as the sources and manifests in it."""
    endings = (".json", *ENDINGS, *(ending for fmt in FORMATS for ending in fmt.endings))
    sources: list[str] = []
    for name in names:
        path = local_path(name)
        if path is None or not os.path.isdir(path) or name.rstrip("/").lower().endswith(endings):  # noqa: PTH112
            sources.append(name)
            continue
        with os.scandir(path) as entries:
            sources += sorted(entry.path for entry in entries if entry.name.lower().endswith(endings))
    return sources
