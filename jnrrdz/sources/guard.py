"""Which network addresses a source may be fetched from, and where the headers that you give may go.

What you name is your word, wherever it is.  What a document names (a manifest, a STAC item), and where a server
redirects to, is a stranger's: it may be no nearer to this machine than the document was.  The HTTP client asks at
every request, redirect and name lookup (`sources.http`).
IANA special-purpose address registries (RFC 6890); RFC 4291 (mapped), RFC 3056 (6to4), RFC 4380 (Teredo),
RFC 6052 and RFC 8215 (NAT64).
"""

import os
import socket
import threading
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Self

from jnrrdz.errors import UntrustedSourceError
from jnrrdz.records import record
from jnrrdz.sources import url as urls
from jnrrdz.sources.url import Origin

type Address = IPv4Address | IPv6Address


class Nearness(IntEnum):
    """How near to this machine an address is: the nearer, the fewer others reach it."""

    PUBLIC = 0
    SITE = 1
    """A private network, and whatever else is not reached from everywhere."""
    LINK = 2
    """What answers on this machine's own link, the services that clouds give credentials by among it."""
    MACHINE = 3


class AddressKind(NamedTuple):
    """What kind of address one is."""

    nearness: Nearness
    name: str
    """With its article."""


_PUBLIC = AddressKind(Nearness.PUBLIC, "a public")
_SITE = AddressKind(Nearness.SITE, "a private")
NEAR = tuple(
    (network, AddressKind(nearness, name))
    for nearness, name, networks in (
        (Nearness.MACHINE, "a loopback", ("127.0.0.0/8", "::1/128")),
        (Nearness.MACHINE, "an unspecified", ("0.0.0.0/8", "::/128")),
        (Nearness.LINK, "a link-local", ("169.254.0.0/16", "fe80::/10")),
        (Nearness.LINK, "a multicast", ("224.0.0.0/4", "ff00::/8", "255.255.255.255/32")),
        # where clouds serve instance credentials outside of link-local space
        (Nearness.LINK, "a cloud metadata", ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")),
        (Nearness.LINK, "a cloud metadata", ("fd00:ec2::/32", "fd20:ce::254/128")),
    )
    for network in map(ip_network, networks)
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96"))
"""Prefixes before an IPv4 address that is dialled in their place."""
_LOCALLY_TRANSLATED = (IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


@lru_cache(1024)
def literal(host: str) -> Address | None:
    """Return the address that a host name spells, in any of the forms a resolver takes; None for a name.

    Decimal (2130706433), hexadecimal, octal and short (127.1) IPv4 are addresses to `inet_aton`,
    and so to getaddrinfo.
    """
    bare = host.strip("[]").partition("%")[0].rstrip(".")
    if ":" not in bare:
        try:
            return IPv4Address(socket.inet_aton(bare))
        except (OSError, UnicodeError, AddressValueError):
            return None
    try:
        return ip_address(bare)
    except ValueError:
        return None


def kind_of(address: Address) -> AddressKind:
    """Return what kind of address this is; one that carries an IPv4 address is as near as that one too."""
    for network, kind in NEAR:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv4Address):
        return _PUBLIC if address.is_global else _SITE
    carried = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _TRANSLATED):
        return kind_of(carried)
    own = _PUBLIC if address.is_global and address in _GLOBAL_UNICAST else _SITE
    inside = [carried] if any(address in network for network in _LOCALLY_TRANSLATED) else []
    inside += [] if address.sixtofour is None else [address.sixtofour]
    inside += address.teredo or ()
    return max(own, *map(kind_of, inside)) if inside else own


def kind_of_host(host: str) -> AddressKind | None:
    """Return the same for a host name, None where only DNS can tell."""
    name = host.lower().rstrip(".")
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return AddressKind(Nearness.MACHINE, "a loopback")
    address = literal(name)
    return None if address is None else kind_of(address)


_resolved: dict[tuple[str, int], Nearness] = {}
"""The most public kind of address that each host and port has had in this process."""

_lock = threading.Lock()
"""Held from looking to keeping: else who looked before would forget that a host was public meanwhile."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: globals().__setitem__("_lock", threading.Lock()))


def _keep(key: tuple[str, int], found: Nearness) -> None:
    with _lock:
        _resolved[key] = min(found, _resolved.get(key, Nearness.MACHINE))


def remember(host: str, port: int, addresses: Iterable[Address]) -> None:
    """Keep how near a host is; one whose name leads to several places counts as the most public of them."""
    found = min((kind_of(address).nearness for address in addresses), default=Nearness.MACHINE)
    _keep((host.lower().rstrip("."), port), found)


def nearness_of(origin: Origin | None) -> Nearness:
    """Return how near an origin was when it was reached; what nobody has seen counts as public."""
    if origin is None:
        return Nearness.PUBLIC
    spelt = kind_of_host(origin[1])
    return _resolved.get(origin[1:], Nearness.PUBLIC) if spelt is None else spelt.nearness


def recall(origin: Origin | None, nearness: int) -> None:
    """Keep how near a host was when another process reached it."""
    if origin is not None:
        _keep(origin[1:], Nearness(nearness))


@record
class AddressGuard:
    """Refuses addresses that are nearer than they may be; says which origins get the headers that you give.

    Frozen, with a plain repr: fsspec keeps one client per distinct guard.
    """

    start: Origin | None = None
    """Whom all else is measured by: what you named, or the document that names the source."""
    most: Nearness | None = None
    """How near a document's own host may be; None where `start` may be anywhere, because you named it."""
    allowed: tuple[Origin, ...] = ()
    """Origins of the allow list: they may be anywhere, and get the headers."""
    is_named: bool = True
    """Whether you named `start`, so that it gets the headers."""
    anywhere: bool = False
    """Whether everything is allowed (`--allow '*'`)."""

    @classmethod
    def of_source(cls, url: str, allow: Sequence[str] = (), *, is_named: bool = True) -> Self:
        """Return the guard of a source that you name, or (`is_named=False`) that a document of yours names."""
        return cls(urls.origin(url), None, _origins(allow), is_named, "*" in allow)

    @classmethod
    def of_document(cls, url: str, allow: Sequence[str] = ()) -> Self:
        """Return the guard of the sources that a remote document names, which has been fetched."""
        start = urls.origin(url)
        return cls(start, nearness_of(start), _origins(allow), anywhere="*" in allow)

    @property
    def is_strangers(self) -> bool:
        """Whether a document names the source, and not you."""
        return self.most is not None or not self.is_named

    def gets_headers(self, origin: Origin) -> bool:
        """Whether an origin gets the headers, cookies and parameters that you give."""
        return origin in self.allowed or (self.is_named and origin == self.start)

    def check_url(self, scheme: str, host: str, port: int) -> None:
        """Refuse a request, or a redirect, that spells out a forbidden address or leaves HTTP."""
        if scheme not in {"http", "https"}:
            raise UntrustedSourceError(f"a redirect to {scheme}://{host}; only http and https are followed")
        address = literal(host)
        if address is not None:
            self.check(host, port, address)

    def check(self, host: str, port: int, address: Address) -> None:
        """Refuse a connection to `host:port` at this address."""
        reason = self.refuses(host, port, address)
        if reason is not None:
            shown = f"[{host}]" if ":" in host else host
            raise UntrustedSourceError(
                f"leads to {reason} address ({shown}:{port} is {address}); --allow http://{shown}:{port}/ permits it"
            )

    def refuses(self, host: str, port: int, address: Address) -> str | None:
        """Return the kind of a forbidden address, None where `host:port` may be there."""
        key = (host.lower().rstrip("."), port)
        is_start = self.start is not None and key == self.start[1:]
        free = self.anywhere or (is_start and self.most is None)
        if free or any(key == origin[1:] for origin in self.allowed):
            return None
        limit = nearness_of(self.start) if self.most is None else self.most
        kind = kind_of(address)
        return kind.name if kind.nearness > (limit if is_start else min(limit, Nearness.SITE)) else None


def guard_of(url: str, named_by: str, allow: Sequence[str] = ()) -> AddressGuard:
    """Return where a source and what is beside it may be: as far as you, or the document that names it, could reach."""
    if named_by and urls.local_path(named_by) is None:
        return AddressGuard.of_document(named_by, allow)
    return AddressGuard.of_source(url, allow, is_named=not named_by)


def _origins(allow: Sequence[str]) -> tuple[Origin, ...]:
    found = {urls.origin(entry) for entry in allow if entry != "*"}
    return tuple(sorted(origin for origin in found if origin is not None))
