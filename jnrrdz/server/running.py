"""Running the application: a server in this process, in a thread of it, in several processes, or from the environment.

uvicorn serves it.  What it leaves open to whoever connects is bounded here: how many connections there are, how long
one may take for its headers and for reading its answer, and how long headers may be.
"""

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.options import ServeOptions
from jnrrdz.server.app import App, make_app

PREFIX = "JNRRDZ_SERVE_"
"""What the names of variables begin with that say what is served."""


@dataclass(frozen=True)
class Server:
    """A server that runs in a thread of this process."""

    url: str
    app: App

    @property
    def names(self) -> Sequence[str]:
        """The names of what is served."""
        self.app.catalog.refresh()
        return tuple(self.app.catalog.listed)

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
        yield Server(base_url(listening, wanted), app)
    finally:
        server.should_exit = True
        thread.join()
        app.close()


def http_server(app: App) -> Any:
    """Return uvicorn's server of the application."""
    import uvicorn  # noqa: PLC0415  an application that is mounted elsewhere needs none

    from jnrrdz.server.connections import KEEP_ALIVE, BoundedProtocol  # noqa: PLC0415  the same

    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(KEEP_ALIVE),
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def run(sources: Sequence[str], options: ServeOptions, listening: socket.socket, workers: int = 1) -> None:
    """Serve until interrupted, in this process or in several that share the socket; one that dies is replaced."""
    if workers == 1:
        http_server(make_app(sources, options)).run(sockets=[listening])
        return
    context = get_context("spawn")

    def started() -> Any:
        process = context.Process(target=run, args=(sources, options, listening), daemon=True)
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
