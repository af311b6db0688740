"""A TCP relay before one server that holds each client's bytes back: `python benchmarks/delay.py PORT --latency 0.02`.

It looks at no byte, so that its share of the CPU is small beside the client's: what passes
through `tests.servers.proxy`, which reads HTTP, is bound by the proxy at a thousand requests a second.
"""

import argparse
import asyncio
import sys
from typing import cast


class Server(asyncio.Protocol):
    """The side of the server: what it says goes to the client at once."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        """Pass the answer."""
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the client."""
        del exc
        self._client.close()


class Client(asyncio.Protocol):
    """The side of the client: what it says reaches the server later."""

    def __init__(self, port: int, latency: float) -> None:
        self._port = port
        self._latency = latency
        self._server: asyncio.Task[asyncio.Transport]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the server."""
        self._server = asyncio.ensure_future(self._connected(cast("asyncio.Transport", transport)))

    async def _connected(self, client: asyncio.Transport) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_connection(lambda: Server(client), "127.0.0.1", self._port)
        return server

    def data_received(self, data: bytes) -> None:
        """Keep the request for a while."""
        asyncio.get_running_loop().call_later(self._latency, self._pass, data)

    def _pass(self, data: bytes) -> None:
        if self._server.done():
            self._server.result().write(data)
        else:
            self._server.add_done_callback(lambda server: server.result().write(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the server."""
        del exc
        self._server.add_done_callback(lambda server: server.exception() or server.result().close())


async def relay(port: int, latency: float) -> None:
    """Relay until the input ends; the first line printed is the address."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(port, latency), "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    """Run the relay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds before a request is passed on")
    given = parser.parse_args()
    asyncio.run(relay(given.port, given.latency))


if __name__ == "__main__":
    main()
