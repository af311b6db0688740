"""An HTTP/1.1 proxy before one server that delays, refuses, resets, truncates and stalls, reproducibly.

Which request meets which fault follows from the seed, the request (method, path,
range) and how often it was made, not from the order of arrival.  Bodies without a Content-Length are not
passed: upload to the server itself.  `python -m tests.servers.proxy PORT --latency 0.02` runs one in a
process of its own and prints its URL.
"""

import argparse
import asyncio
import json
import random
import re
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field

_HEAD_LIMIT = 1 << 20
_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
_BODYLESS = frozenset({204, 304})


@dataclass(frozen=True)
class Faults:
    """The share of requests, 0 to 1, that meets each fault."""

    latency: float = 0.0
    """Seconds before each request is passed on."""
    unavailable: float = 0.0
    """Answered 503 SlowDown."""
    reset: float = 0.0
    """The connection is reset before the answer."""
    truncate: float = 0.0
    """Half of the body is sent, then the connection closed."""
    stall: float = 0.0
    """Half of the body is sent, then nothing, until the client lets go."""
    status: int = 503
    """What `unavailable` answers."""
    retry_after: str | None = None
    """The Retry-After of that answer."""
    seed: int = 0
    times: int | None = None
    """At most so many faults for one and the same request; None: as chance has it."""

    def of(self, method: str, path: str, span: str, asked: int) -> str | None:
        """Return the name of the fault that a request meets when it is made for the nth time."""
        if self.times is not None and asked >= self.times:
            return None
        chance = random.Random(f"{self.seed} {method} {path} {span} {asked}").random()
        for name in ("unavailable", "reset", "truncate", "stall"):
            chance -= getattr(self, name)
            if chance < 0:
                return name
        return None


@dataclass(frozen=True)
class Passed:
    """One request as the proxy saw it."""

    connection: int
    method: str
    path: str
    headers: dict[str, str] = field(hash=False)
    fault: str | None

    @property
    def range(self) -> str:
        """The Range header, empty without one."""
        return self.headers.get("range", "")


class FaultProxy:
    """A proxy on a thread with an event loop of its own, from `start` to `close`."""

    def __init__(self, target: int, faults: Faults) -> None:
        self.target = target
        self.faults = faults
        self.requests: list[Passed] = []
        self.connections = 0
        self.port = 0
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "FaultProxy":
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(), self._loop).result(10)
        return self

    def close(self) -> None:
        """Drop all connections and end the thread."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def listen(self) -> asyncio.Server:
        """Listen on the running loop."""
        self._server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=_HEAD_LIMIT, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]
        return self._server

    async def _shut(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        number = self.connections
        server = await asyncio.open_connection("127.0.0.1", self.target, limit=_HEAD_LIMIT)
        try:
            while await self._pass_one(number, (reader, writer), server):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            server[1].close()

    async def _pass_one(self, number, client, server) -> bool:
        """Pass one request and its answer; False where the connection is over."""
        head = await client[0].readuntil(b"\r\n\r\n")
        method, path, headers = _parsed(head)
        if "expect" in headers:  # answered here, since the body is read before the server is asked
            client[1].write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = re.sub(rb"(?im)^expect:[^\n]*\n", b"", head)
        body = await client[0].readexactly(int(headers.get("content-length", 0)))
        span = headers.get("range", "")
        fault = self.faults.of(method, path, span, self._asked[method, path, span])
        self._asked[method, path, span] += 1
        self.requests.append(Passed(number, method, path, headers, fault))
        if self.faults.latency:
            await asyncio.sleep(self.faults.latency)
        if fault == "reset":
            client[1].transport.abort()
            return False
        if fault == "unavailable":
            client[1].write(self._refusal(method))
            return True
        server[1].write(head + body)
        return await self._answer(method, fault, client, server[0])

    async def _answer(self, method, fault, client, server) -> bool:
        head = await server.readuntil(b"\r\n\r\n")
        _, status, headers = _parsed(head)
        length = None if "transfer-encoding" in headers else int(headers.get("content-length", 0))
        if method == "HEAD" or int(status) in _BODYLESS:
            length = 0
        if fault in {"truncate", "stall"} and length:
            client[1].write(head + await server.readexactly(length // 2))
            await client[1].drain()
            if fault == "stall":
                await client[0].read(1)  # until the client lets go
            return False
        client[1].write(head)
        await (_chunks(server, client[1]) if length is None else _bytes(server, client[1], length))
        return headers.get("connection", "").lower() != "close"

    def _refusal(self, method: str) -> bytes:
        faults = self.faults
        after = f"Retry-After: {faults.retry_after}\r\n" if faults.retry_after else ""
        head = f"HTTP/1.1 {faults.status} Slow Down\r\nContent-Type: application/xml\r\n{after}"
        body = b"" if method == "HEAD" else _SLOW_DOWN
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _bytes(server: asyncio.StreamReader, client: asyncio.StreamWriter, length: int) -> None:
    while length:
        piece = await server.read(min(length, 1 << 18))
        if not piece:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        client.write(piece)
        await client.drain()


async def _chunks(server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    """Pass a body in Transfer-Encoding: chunked (RFC 9112, section 7.1)."""
    size = -1
    while size:
        line = await server.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        client.write(line + await server.readexactly(size + 2))
        await client.drain()


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    one, two, *_ = first.split(" ")
    pairs = (line.partition(":") for line in lines if line)
    return one, two, {name.lower(): value.strip() for name, _, value in pairs}


def main() -> None:
    """Run a proxy until the input ends, then print what it saw as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=int)
    for name, value in asdict(Faults()).items():
        if isinstance(value, int | float):
            parser.add_argument(f"--{name}", type=type(value), default=value)
    given = vars(parser.parse_args())
    proxy = FaultProxy(given.pop("target"), Faults(**given)).start()
    print(proxy.url, flush=True)  # noqa: T201  read by whoever started this
    for line in iter(input_line, ""):
        if line.strip() == "count":
            faults = Counter(each.fault for each in proxy.requests if each.fault)
            counts = {"connections": proxy.connections, "requests": len(proxy.requests), "faults": faults}
            print(json.dumps(counts), flush=True)  # noqa: T201
    proxy.close()


def input_line() -> str:
    """Return the next line of standard input, empty at its end."""
    try:
        return input() + "\n"
    except EOFError:
        return ""


if __name__ == "__main__":
    main()
