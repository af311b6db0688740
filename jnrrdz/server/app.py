"""The ASGI application that serves sources and manifests as plain Zarr v3: what is asked for, and what is answered.

`answers` decides who may read, `catalog` what there is, and `plain` what a key holds.  An answer is made once
however many ask for it, off the event loop and a few at one time; is kept while there is room; and is not begun where
nobody waits for it any more.  Kept ones are answered before anything else is looked at.  The
application is mounted below any path of another one, or served as it is: `running` does that.

https://zarr-specs.readthedocs.io/en/latest/v3/stores/filesystem/index.html, https://www.rfc-editor.org/rfc/rfc9110
"""

import asyncio
import hashlib
import json
import logging
import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from jnrrdz.commands.preview import PreviewOptions, picture_of
from jnrrdz.concurrency import SharedTasks
from jnrrdz.errors import DriftError, JnrrdzError
from jnrrdz.options import CACHE_BYTES, LOCAL, Access, Packing, ServeOptions, StorageOptions
from jnrrdz.server.answers import (
    ABSENT,
    NOBODY,
    PLAINLY,
    Answer,
    Guard,
    Headers,
    Receive,
    Send,
    as_asked,
    plain_answer,
    send_answer,
)
from jnrrdz.server.catalog import Catalog
from jnrrdz.server.memory import BLOCKS, FILES, Memory, Pools, ThreadPool
from jnrrdz.server.plain import ChunkAt, PlainZarr
from jnrrdz.store.requests import recent_nbytes

type Scope = MutableMapping[str, Any]
type Make = "Callable[[Callable[[], bool]], Awaitable[Answer | None]]"
"""Makes an answer, unless a function says that nobody waits for it."""

_LOG = logging.getLogger(__name__)

PREVIEW = "preview.png"
"""The key below each name that is a picture of it."""

PREVIEW_SIZE = 256
LARGEST_PREVIEW = 1024

FETCHES = 16
"""Chunks of one source elsewhere that are fetched at once: they wait for a network, not for a core."""

SHOWN = "text/html"
_JSON, _BINARY, _PNG = "application/json", "application/octet-stream", "image/png"
_LONGEST_SIZE = 8
_KINDS = {
    "js": "text/javascript",
    "mjs": "text/javascript",
    "wasm": "application/wasm",
    "html": "text/html; charset=utf-8",
}


ANSWERS = "answers"
"""The kind of what is kept by its path."""


class App:
    """Sources and manifests as plain Zarr over HTTP, an ASGI application."""

    def __init__(self, sources: Sequence[str], options: ServeOptions) -> None:
        self.memory = Memory(options.cache_bytes)
        self.catalog = Catalog(sources, options, self.memory)
        self._guard = Guard(options)
        self._token = options.token
        shared = "private" if options.token else "public"
        self._cache_control = f"{shared}, max-age={options.max_age}".encode() if options.max_age else b"no-cache"
        self._sharing = SharedTasks()
        cores = os.cpu_count() or 1
        most = {
            "chunks": 2 * cores,
            "openings": 2 * cores,
            "previews": max(1, cores // 2),
            "listings": 1,
            "pages": 2,
        }
        self._pools = {name: ThreadPool(threads, name) for name, threads in most.items()}
        # a source elsewhere may be slow: each has threads of its own, and blocks no other
        most_of_each = {"chunks": FETCHES, "openings": 1, "previews": 1}
        self._far_pools = {name: Pools(threads, f"far-{name}") for name, threads in most_of_each.items()}

    def close(self) -> None:
        """End the threads; nothing may be asked afterwards."""
        for pool in self._pools.values():
            pool.close()
        for pools in self._far_pools.values():
            pools.close()
        self.catalog.close()

    def _pool(self, kind: str, name: str, *, is_local: bool) -> ThreadPool:
        """Return the threads for a kind of work on what is served by a name."""
        return self._pools[kind] if is_local else self._far_pools[kind].of(name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        pairs: Headers = scope["headers"]
        headers = dict(pairs)
        root, path = scope.get("root_path", ""), scope["path"]
        below = path[len(root) :] if root and path.startswith(root) else path
        refusal = self._guard.refusal(headers, sum(name == b"host" for name, _ in pairs), below)
        more = self._guard.headers(headers)
        method = scope["method"]
        if refusal is not None:
            answer, more = plain_answer(*refusal), [*more, (b"connection", b"close")]
        elif method == "OPTIONS":
            answer, more = Answer(204, b"", []), self._guard.preflight(headers)
        elif method not in {"GET", "HEAD"}:
            answer, more = plain_answer(405, "GET and HEAD are answered"), self._guard.preflight(headers)
        else:
            answer = await self._asked(below, scope, receive)
        if answer.status:
            await send_answer(send, as_asked(answer, headers), more, whole=method != "HEAD")

    def kept(self, target: bytes, pairs: Headers) -> tuple[bytes, bytes] | None:
        """Return the headers and the body of an answer that is kept, for a server that sends them as they are.

        None where it is not kept, or not asked for plainly: then the application is to be called.
        """
        answer: Answer | None = self.memory.get(ANSWERS, target.decode("latin-1"))
        if answer is None or answer.status != HTTPStatus.OK:
            return None
        headers = dict(pairs)
        if len(headers) != len(pairs) or not PLAINLY.isdisjoint(headers):
            return None
        if self._guard.refusal(headers, 1, target.decode("latin-1")) is not None:
            return None
        lines = answer.headers + self._guard.headers(headers)
        return b"".join([b"%s: %s\r\n" % pair for pair in lines]) + b"\r\n", answer.body

    async def _asked(self, path: str, scope: Scope, receive: Receive) -> Answer:
        query = scope["query_string"]
        if not query:
            kept: Answer | None = self.memory.get(ANSWERS, path)
            if kept is not None:
                return kept
        prefix = f"/{self._token}/" if self._token else "/"
        base = f"{scope.get('root_path', '')}{prefix}"
        if f"{path}/" == prefix:
            return Answer(308, b"", [(b"location", quote(base).encode()), (b"content-length", b"0")])
        inside = path.removeprefix(prefix)
        is_browser = SHOWN in dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        if inside in {"", "index.json", "metrics"} or inside.startswith("viewer/"):
            return await self._own(inside, base, is_browser=is_browser)
        answer = await self._below_a_name(path, inside, query, receive)
        if answer is ABSENT and is_browser and (inside.removesuffix("/"), "") == self.catalog.find(inside):
            viewed = f"{quote(base)}#/{quote(inside.removesuffix('/'))}"
            return Answer(303, b"", [(b"location", viewed.encode()), (b"vary", b"accept"), (b"content-length", b"0")])
        return answer

    async def _own(self, inside: str, base: str, *, is_browser: bool) -> Answer:
        """Return what is the server's own: its listing, its figures, its pages."""
        if inside == "metrics":
            return self._metrics()
        if inside == "index.json" or (not inside and not is_browser):
            return await self._index(base)
        file = inside.removeprefix("viewer/") or "index.html"
        page = await self._pools["pages"].run(partial(viewer_file, file))
        if page is None:
            return ABSENT if inside else await self._index(base)
        return self._page(page, file)

    async def _index(self, base: str) -> Answer:
        """Return what is served."""
        try:
            await self._list()
        except JnrrdzError as error:
            return self._failure(502, error)
        served = [
            {"name": entry.name, "kind": entry.kind, "title": entry.title, "url": quote(f"{base}{entry.name}")}
            for entry in list(self.catalog.listed.values())
        ]
        return self._answer(json.dumps({"served": served}).encode(), _JSON)

    async def _list(self) -> None:
        """List folders again where that was long ago."""
        listings = self._pools["listings"]
        await self._sharing.once("listing", lambda: listings.run(self.catalog.refresh))

    def _metrics(self) -> Answer:
        """Return what the server keeps, as Prometheus reads it."""
        kept = dict.fromkeys((ANSWERS, BLOCKS, FILES), 0) | self.memory.nbytes()
        kept["source"] = recent_nbytes()
        lines = ["# TYPE jnrrdz_kept_bytes gauge"]
        lines += [f'jnrrdz_kept_bytes{{kind="{kind}"}} {nbytes}' for kind, nbytes in sorted(kept.items())]
        lines += ["# TYPE jnrrdz_kept_bytes_most gauge", f"jnrrdz_kept_bytes_most {self.memory.most}"]
        lines += ["# TYPE jnrrdz_open_sources gauge", f"jnrrdz_open_sources {self.catalog.count_open}"]
        body = ("\n".join(lines) + "\n").encode()
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        headers = [(b"content-type", kind), (b"cache-control", b"no-store")]
        return Answer(200, body, [*headers, (b"content-length", b"%d" % len(body))])

    def _page(self, body: bytes, name: str) -> Answer:
        """Return a file of the viewer."""
        kind = _KINDS.get(name.rpartition(".")[2]) or mimetypes.guess_type(name)[0] or _BINARY
        answer = self._answer(body, kind)
        if not kind.startswith(SHOWN):
            return answer
        more = [(b"content-security-policy", self._guard.page_policy), (b"referrer-policy", b"no-referrer")]
        return answer._replace(headers=[*answer.headers, *more])

    async def _below_a_name(self, path: str, inside: str, query: bytes, receive: Receive) -> Answer:
        """Return what a source holds at a key."""
        found = self.catalog.find(inside)
        if found is None and not self.catalog.is_fresh:
            try:
                await self._list()
            except JnrrdzError as error:
                return self._failure(502, error)
            found = self.catalog.find(inside)
        if found is None:
            return ABSENT
        name, key = found
        if key == PREVIEW:
            asked = parse_qs(query.decode("latin-1")).get("size", [""])[0]
            is_number = asked.isascii() and asked.isdecimal() and len(asked) < _LONGEST_SIZE
            size = min(max(int(asked), 1), LARGEST_PREVIEW) if is_number else PREVIEW_SIZE
            path = f"{path}?{size}"
            return await self._once(path, name, receive, partial(self._preview, name, size))
        return await self._key(path, name, key, receive)

    async def _opened(self, name: str) -> PlainZarr:
        """Return a source, opened once for all who ask for it meanwhile."""
        plain = self.catalog.opened(name)
        if plain is None:
            pool = self._pool("openings", name, is_local=self.catalog.is_local(name))
            opening = partial(self.catalog.open, name)
            plain = await self._sharing.once(("opening", name), lambda: pool.run(opening))
        return plain

    async def _key(self, path: str, name: str, key: str, receive: Receive) -> Answer:
        try:
            plain = await self._opened(name)
        except JnrrdzError as error:
            return self._failure(502, error, name)
        document = plain.documents.get(key)
        if document is not None:
            answer = self._answer(document, _JSON)
            self._keep(path, answer)
            return answer
        chunk = plain.chunk_at(key)
        if chunk is None:
            return ABSENT
        return await self._once(path, name, receive, partial(self._chunk, name, plain, chunk))

    async def _once(self, path: str, name: str, receive: Receive, make: Make) -> Answer:
        """Return an answer that is kept, or make it; all who ask for it meanwhile get the same.

        None is made where the client that it is made for has left: then the next one makes it.
        """
        is_maker = False

        async def make_for_this_client() -> Answer | None:
            nonlocal is_maker
            is_maker = True
            return await self._made(path, name, receive, make)

        while not is_maker:
            kept: Answer | None = self.memory.get(ANSWERS, path)
            answer = kept or await self._sharing.once(("answer", path), make_for_this_client)
            if answer is not None:
                return answer
        return NOBODY

    async def _made(self, path: str, name: str, receive: Receive, make: Make) -> Answer | None:
        """Return an answer, made as long as its client waits, and keep it; None where the client has left."""
        leaving = asyncio.ensure_future(_left(receive))
        answer = None
        try:
            answer = await make(leaving.done)
        except DriftError as error:
            answer = self._failure(409, error, name)
            self.catalog.forget(name)
            self.memory.forget(ANSWERS, path[: path.index(f"/{name}/") + len(name) + 2])
        except JnrrdzError as error:
            answer = self._failure(502, error, name)
        finally:
            leaving.cancel()
        if answer is not None and answer.status in {200, 404}:
            self._keep(path, answer)
        return answer

    def _keep(self, path: str, answer: Answer) -> None:
        nbytes = answer.nbytes + len(path)
        if nbytes <= self.memory.most // 4:
            self.memory.put(ANSWERS, path, answer, nbytes)

    async def _chunk(
        self, name: str, plain: PlainZarr, chunk: ChunkAt, is_unwanted: Callable[[], bool]
    ) -> Answer | None:
        """Return a chunk; what it is cut from is decoded once for all that are cut from it."""
        pool = self._pool("chunks", name, is_local=plain.is_local)
        if not chunk.array.is_open:
            await pool.run_wanted(chunk.array.open, is_unwanted)
        for block in chunk.array.shared_blocks(chunk.place) if chunk.array.is_open else ():
            if not plain.is_kept(block):
                load = partial(chunk.array.load, block)
                await self._sharing.once(block, lambda load=load: pool.run_wanted(load, never))  # type: ignore[misc]
        return await pool.run_wanted(partial(self._packed, plain, chunk), is_unwanted)

    def _failure(self, status: int, error: JnrrdzError, name: str = "") -> Answer:
        """Return why something cannot be read; where it lies is told to the server's log alone."""
        _LOG.warning("%s", error)
        return plain_answer(status, self.catalog.public_text(error, name))

    def _packed(self, plain: PlainZarr, chunk: Any) -> Answer:
        data = plain.packed(chunk)
        return ABSENT if data is None else self._answer(data, _BINARY)

    async def _preview(self, name: str, size: int, is_unwanted: Callable[[], bool]) -> Answer | None:
        plain = await self._opened(name)
        pool = self._pool("previews", name, is_local=plain.is_local)
        return await pool.run_wanted(partial(self._picture, plain, size), is_unwanted)

    def _picture(self, plain: PlainZarr, size: int) -> Answer:
        return self._answer(picture_of(plain.stored, PreviewOptions(size=size)).png, _PNG)

    def _answer(self, body: bytes, kind: str) -> Answer:
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'.encode()
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"etag", tag),
            (b"cache-control", self._cache_control),
            (b"accept-ranges", b"bytes"),
        ]
        return Answer(200, body, headers, tag)


def never() -> bool:
    """Say that work is wanted, whoever asked for it has gone."""
    return False


async def _left(receive: Receive) -> None:
    """Wait until whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


@cache
def _viewer_files() -> Mapping[str, Path]:
    """Return the files of the viewer by their paths from its folder."""
    root = Path(__file__).parent / "viewer"
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}


def viewer_file(name: str) -> bytes | None:
    """Return a file of the viewer, None where there is none of that name."""
    path = _viewer_files().get(name)
    return None if path is None else path.read_bytes()


def make_app(  # noqa: PLR0913  the signature is the documentation
    sources: Sequence[str | os.PathLike[str]],
    *,
    packing: Packing = "zstd",
    token: str | None = None,
    hosts: Sequence[str] = LOCAL,
    origins: Sequence[str] = (),
    pyramids: bool = True,
    max_age: int = 0,
    cache_bytes: int = CACHE_BYTES,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> App:
    """Return the ASGI application that serves sources and manifests as plain Zarr.

    Where the application is mounted in another one, `hosts` names the hosts of that one.

    Parameters
    ----------
    sources
        Paths and URLs of images, manifests, and folders of them.
    packing
        The codec of chunks: `zstd`, `gzip`, or `bytes` for none.
    token
        The first part of each path; without one only clients on this machine are
        served.
    hosts
        Names that the Host header may have; `*` for all, where a server in front checks
        them.
    origins
        Origins whose pages may read, such as `https://avivator.gehlenborglab.org`; `*`
        for all.
    pyramids
        Compute coarser levels, where they are read, of a picture that has none.
    max_age
        Seconds for which clients may reuse an answer; with 0 they ask each time whether
        it is current.
    cache_bytes
        Bytes that a server keeps in memory: answers, and decoded source chunks.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    options = ServeOptions(
        packing=packing,
        token=token,
        hosts=hosts,
        origins=origins,
        pyramids=pyramids,
        max_age=max_age,
        cache_bytes=cache_bytes,
        access=Access(
            allow=allow,
            storage_options=storage_options,
            source_options=source_options,
            template_overrides=template_overrides,
        ),
    )
    return App([os.fspath(source) for source in sources], options)
