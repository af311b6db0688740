"""Running the application: a server in this process, in a thread of it, in several processes, or from the environment.

uvicorn serves it, with the bounds of `connections`.
"""

import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast, get_args

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.lazy import library
from jnrrdz.options import CACHE_BYTES, LOCAL, Access, Packing, ServeOptions, StorageOptions
from jnrrdz.server.app import App

if TYPE_CHECKING:
    import uvicorn

    from jnrrdz.server import connections
else:
    # an application that is mounted in another one needs none
    uvicorn, connections = library("uvicorn"), library("jnrrdz.server.connections")

VARIABLES = {
    "JNRRDZ_SERVE": "sources, manifests and folders, one a line, or with spaces between",
    "JNRRDZ_TOKEN": "the first part of every path; `-` for none, where something in front looks at who asks",
    "JNRRDZ_HOSTS": "names that the Host header may have, commas between; * for all",
    "JNRRDZ_ORIGINS": "origins whose pages may read, commas between; * for all",
    "JNRRDZ_CODEC": "zstd, gzip or bytes",
    "JNRRDZ_PYRAMIDS": "0 computes no coarser levels",
    "JNRRDZ_MAX_AGE": "seconds for which an answer may be taken for fresh",
    "JNRRDZ_CACHE_MB": "megabytes of answers that each worker keeps",
    "JNRRDZ_ALLOW": "places that manifests may name beside their own, commas between",
}
"""What the environment says of a server that others start."""


@dataclass(frozen=True)
class Server:
    """A server that runs in a thread of this process."""

    url: str
    """The address of the server; the token, if there is one, is its first part."""
    app: App
    """The ASGI application that answers."""

    @property
    def names(self) -> Sequence[str]:
        """The names of what is served."""
        self.app.catalog.refresh()
        return tuple(self.app.catalog.listed)

    def __getitem__(self, name: str) -> str:
        return f"{self.url}{name}"


@contextmanager
def serve(  # noqa: PLR0913  the signature is the documentation
    *sources: str | os.PathLike[str],
    port: int = 0,
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
) -> Iterator[Server]:
    """Serve sources and manifests on 127.0.0.1 while the block runs; yields the server, whose `url` lists them.

    Parameters
    ----------
    *sources
        Paths and URLs of images, manifests, and folders of them.
    port
        The port to listen on; 0 takes a free one.
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
    app = App([os.fspath(source) for source in sources], options)
    listening = listening_socket("127.0.0.1", port)
    server = http_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="jnrrdz-serve", daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield Server(base_url(listening, options), app)
    finally:
        server.should_exit = True
        thread.join()
        app.close()


def http_server(app: App) -> Any:
    """Return uvicorn's server of the application."""
    kinds = {entry.kind for entry in app.catalog.listed.values()}
    threading.Thread(target=_import_readers, args=(kinds,), name="jnrrdz-imports", daemon=True).start()
    config = uvicorn.Config(
        app,
        http=connections.BoundedProtocol,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(connections.KEEP_ALIVE),
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def _import_readers(kinds: Collection[str]) -> None:
    """Import the decoders, and what scans the formats that are named: the first picture does not wait for it."""
    for fmt in FORMATS:
        for function in filter(None, (fmt.decoders, fmt.scan if fmt.name in kinds else None)):
            with suppress(ImportError):  # told when something is read
                resolve_name(function)


def run(sources: Sequence[str], options: ServeOptions, listening: socket.socket, workers: int = 1) -> None:
    """Serve until interrupted, in this process or in several that share the socket; one that dies is replaced."""
    if workers == 1:
        http_server(App(sources, options)).run(sockets=[listening])
        return
    context = get_context("spawn")

    def started() -> Any:
        process = context.Process(target=_work, args=(sources, options, listening), daemon=True)
        process.start()
        return process

    processes = [started() for _ in range(workers)]
    try:
        while True:
            ended = wait([process.sentinel for process in processes])
            time.sleep(0.5)  # what dies at once is not started a thousand times
            processes = [started() if process.sentinel in ended else process for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(10)


def _work(sources: Sequence[str], options: ServeOptions, listening: socket.socket) -> None:
    """Serve in a process of its own, until who started it ends it, or has ended."""
    threading.Thread(target=_end_with_parent, name="jnrrdz-parent", daemon=True).start()
    run(sources, options, listening)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # noqa: S101  `run` started this process
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def app_from_environment() -> App:
    """Return the application that environment variables describe, for `uvicorn --factory` and its like.

    Without a token an answer needs a word that none is wanted: whoever deploys it has more than this machine in mind.
    """
    told = {name: os.environ[name].strip() for name in VARIABLES if os.environ.get(name, "").strip()}

    def several(name: str) -> list[str]:
        return [part.strip() for part in told.get(name, "").split(",") if part.strip()]

    sources = told.get("JNRRDZ_SERVE", "")
    if not sources:
        raise UnsupportedError(VARIABLES["JNRRDZ_SERVE"], field="JNRRDZ_SERVE")
    if "JNRRDZ_TOKEN" not in told:
        raise UnsupportedError(f"not set: {VARIABLES['JNRRDZ_TOKEN']}", field="JNRRDZ_TOKEN")
    default = ServeOptions()
    if (packing := told.get("JNRRDZ_CODEC", default.packing)) not in get_args(Packing.__value__):
        raise UnsupportedError(f"{packing!r}; {VARIABLES['JNRRDZ_CODEC']}", field="JNRRDZ_CODEC")
    token = told["JNRRDZ_TOKEN"]
    options = ServeOptions(
        packing=cast("Packing", packing),
        token=None if token == "-" else token,  # noqa: S105  a dash is the word for none
        hosts=(*LOCAL, *several("JNRRDZ_HOSTS")),
        origins=tuple(several("JNRRDZ_ORIGINS")),
        pyramids=told.get("JNRRDZ_PYRAMIDS") != "0",
        max_age=_whole("JNRRDZ_MAX_AGE", told, default.max_age),
        cache_bytes=_whole("JNRRDZ_CACHE_MB", told, default.cache_bytes >> 20) << 20,
        access=Access(allow=tuple(several("JNRRDZ_ALLOW"))),
    )
    return App(sources.splitlines() if "\n" in sources else sources.split(), options)


def _whole(name: str, told: Mapping[str, str], default: int) -> int:
    text = told.get(name, str(default))
    if not (text.isascii() and text.isdecimal()):
        raise UnsupportedError(f"{text!r} is no whole number; {VARIABLES[name]}", field=name)
    return int(text)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a port that is taken is refused in words."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise JnrrdzError(f"port {port} of {host} is taken; --port 0 takes a free one") from error
        raise JnrrdzError(f"{host}, port {port}: {error.strerror or error}") from error


def base_url(listening: socket.socket, options: ServeOptions) -> str:
    """Return the address of the listing."""
    host, port = listening.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"{options.token}/" if options.token else "")
