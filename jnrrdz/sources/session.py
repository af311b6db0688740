"""An aiohttp session that asks an `AddressGuard` before it connects.

May touch aiohttp.  Two places see everything: a client middleware runs for the first request and
for every redirect, with the parsed URL; the resolver runs for every name, with its addresses.
"""

from ipaddress import ip_address
from socket import AddressFamily
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from jnrrdz.sources.guard import AddressGuard


async def guarded_client(guard: AddressGuard, **kwargs: Any) -> aiohttp.ClientSession:
    """Return a session that goes only where the guard lets it; for fsspec's `get_client`."""
    connector = aiohttp.TCPConnector(resolver=GuardedResolver(guard, aiohttp.DefaultResolver()))
    return aiohttp.ClientSession(connector=connector, middlewares=(_Middleware(guard),), **kwargs)


class GuardedResolver(AbstractResolver):
    """A resolver that refuses names with a forbidden address among theirs."""

    def __init__(self, guard: AddressGuard, inner: AbstractResolver) -> None:
        self._guard = guard
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AddressFamily.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses, all of which may be dialled."""
        found = await self._inner.resolve(host, port, family)
        for result in found:
            self._guard.check(host, port, ip_address(result["host"].partition("%")[0]))
        return found

    async def close(self) -> None:
        """Let go of the resolver inside."""
        await self._inner.close()


class _Middleware:
    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        url = request.url
        self._guard.check_url(url.scheme, url.raw_host or "", url.port or 0)
        return await handler(request)
