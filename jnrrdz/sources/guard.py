"""Which network addresses a manifest's sources may be fetched from.

The HTTP client asks at every request, redirect and name lookup (`sources.http`).
IANA special-purpose address registries (RFC 6890); RFC 4291 (mapped), RFC 3056 (6to4), RFC 6052 (NAT64).
"""

import socket
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from jnrrdz.errors import UntrustedSourceError

type Address = IPv4Address | IPv6Address
type HostPort = tuple[str, int]

_LOCAL_ONLY = {
    network: kind
    for kind, networks in {
        "a loopback": ("127.0.0.0/8", "::1/128"),
        "a link-local": ("169.254.0.0/16", "fe80::/10"),
        "an unspecified": ("0.0.0.0/8", "::/128"),
        # where clouds serve instance credentials outside of link-local space
        "a cloud metadata": ("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128"),
    }.items()
    for network in map(ip_network, networks)
}
_EMBEDS_IPV4 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


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


def local_only(address: Address) -> str | None:
    """Return what kind of address this is if it only reaches this machine or its link, else None."""
    forms = [address]
    if isinstance(address, IPv6Address):  # the IPv4 address that it stands for
        embedded = address.ipv4_mapped or address.sixtofour
        if embedded is None and any(address in network for network in _EMBEDS_IPV4):
            embedded = IPv4Address(int(address) & 0xFFFFFFFF)
        forms += [] if embedded is None else [embedded]
    for form in forms:
        for network, kind in _LOCAL_ONLY.items():
            if form.version == network.version and form in network:
                return kind
    return None


def local_host(host: str) -> str | None:
    """Return the same for a host name, as far as it can be told without asking DNS."""
    name = host.lower().rstrip(".")
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return "a loopback"
    address = literal(name)
    return None if address is None else local_only(address)


@dataclass(frozen=True)
class AddressGuard:
    """Refuses loopback, link-local, unspecified and metadata addresses, except at the hosts named.

    Frozen, with a plain repr: fsspec keeps one client per distinct guard.
    """

    hosts: tuple[HostPort, ...] = ()
    """Host (as DNS compares it) and port pairs that may be anywhere."""
    anywhere: bool = False
    """Whether everything is allowed (`--allow '*'`)."""

    def check_url(self, scheme: str, host: str, port: int) -> None:
        """Refuse a request, or a redirect, that spells out a forbidden address or leaves HTTP."""
        if scheme not in {"http", "https"}:
            raise UntrustedSourceError(f"a redirect to {scheme}://{host}; only http and https are followed")
        address = literal(host)
        if address is not None:
            self.check(host, port, address)

    def check(self, host: str, port: int, address: Address) -> None:
        """Refuse a connection to `host:port` at this address."""
        if self.anywhere or (host.lower().rstrip("."), port) in self.hosts:
            return
        kind = local_only(address)
        if kind is not None:
            shown = f"[{host}]" if ":" in host else host
            raise UntrustedSourceError(
                f"leads to {kind} address ({shown}:{port} is {address}); --allow http://{shown}:{port}/ permits it"
            )
