"""Which addresses are refused, in every spelling a resolver takes; the client that asks."""

import asyncio
import pickle
import socket
import threading
from ipaddress import IPv6Address, ip_network

import pytest
from hypothesis import given, strategies

from jnrrdz.errors import UntrustedSourceError
from jnrrdz.sources import guard
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard, Nearness, kind_of, kind_of_host, literal

NEAR = {
    Nearness.MACHINE: [
        *["127.0.0.1", "127.8.9.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1"],
        *["127.0.0.1.", "0.0.0.0", "0", "::1", "[::1]", "::", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"],
        *["64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::1", "localhost", "LOCALHOST.", "a.localhost"],
    ],
    Nearness.LINK: [
        *["169.254.169.254", "0xA9FEA9FE", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1"],
        *["255.255.255.255", "::ffff:a9fe:a9fe", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1"],
    ],
    Nearness.SITE: [
        *["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1", "192.0.2.1"],
        *["240.0.0.1", "fc00::1", "fd12::1", "fec0::1", "64:ff9b:1::808:808", "2001:0:808:808::f7f7:f7f7"],
        *["2001:db8::1", "100::1", "::ffff:10.0.0.1", "64:ff9b::c0a8:101", "2002:a00:1::"],
    ],
    Nearness.PUBLIC: ["93.184.216.34", "172.32.0.1", "2606:2800:220:1::", "::ffff:8.8.8.8", "64:ff9b::808:808"],
}
CASES = [(host, nearness) for nearness, hosts in NEAR.items() for host in hosts]
REFUSED = [host for nearness in (Nearness.MACHINE, Nearness.LINK) for host in NEAR[nearness]]


@pytest.mark.parametrize(("host", "nearness"), CASES)
def test_how_near_a_host_is(host, nearness):
    assert kind_of_host(host).nearness == nearness


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "host.local"])
def test_only_dns_tells_where_other_names_are(host):
    assert kind_of_host(host) is None


V4 = strategies.ip_addresses(v=4)
V6 = strategies.ip_addresses(v=6)
CARRIERS = {
    "mapped": lambda v4: (0xFFFF << 32) | v4,
    "compatible": lambda v4: v4,
    "NAT64": lambda v4: (0x64FF9B << 96) | v4,
    "local NAT64": lambda v4: (0x64FF9B0001 << 80) | v4,
    "6to4": lambda v4: (0x2002 << 112) | (v4 << 80),
    "Teredo's client": lambda v4: (0x20010000 << 96) | (0x08080808 << 64) | (v4 ^ 0xFFFFFFFF),
}


@given(V4 | V6)
def test_no_address_is_public_that_the_registries_say_is_not(address):
    if kind_of(address).nearness == Nearness.PUBLIC and getattr(address, "ipv4_mapped", None) is None:
        # what is translated is dialled as the address that it carries
        assert address.is_global or address in ip_network("64:ff9b::/96")
        assert not any([address.is_multicast, address.is_loopback, address.is_link_local, address.is_unspecified])


@pytest.mark.parametrize("carry", CARRIERS.values(), ids=CARRIERS)
@given(V4)
def test_an_address_is_as_near_as_the_one_that_it_carries(carry, address):
    assert kind_of(IPv6Address(carry(int(address)))).nearness >= kind_of(address).nearness


@given(V4)
def test_every_spelling_of_an_address_is_as_near(address):
    number = int(address)
    for spelt in (str(address), str(number), hex(number), f"0{number:o}", f"{address}.", f"::ffff:{address}"):
        assert kind_of_host(spelt) == kind_of(address)


@pytest.mark.parametrize("host", [h for h in REFUSED if ":" not in h and "localhost" not in h.lower()])
def test_ipv4_spellings_are_read_as_the_system_reads_them(host):
    dialled = socket.getaddrinfo(host.rstrip("."), 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    assert str(literal(host)) == dialled


def allowing(*allowed):
    """Return the guard of a manifest from a public host, with an allow list."""
    return AddressGuard.of_document("https://host.example/refs.json", allowed)


def test_an_allowed_host_is_exempt_at_its_port_only():
    guard = allowing("http://127.0.0.1:80/")
    guard.check_url("http", "127.0.0.1", 80)
    with pytest.raises(UntrustedSourceError, match=r"--allow http://127\.0\.0\.1:81/"):
        guard.check_url("http", "127.0.0.1", 81)
    AddressGuard(anywhere=True).check_url("http", "127.0.0.1", 81)


def test_schemes_other_than_http_are_refused_everywhere():
    with pytest.raises(UntrustedSourceError, match="only http and https"):
        AddressGuard(anywhere=True).check_url("ws", "example.org", 80)


def test_a_guarded_source_does_not_connect(http_server):
    http_server.files["/a"] = b"secret"
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"):
        with pytest.raises(UntrustedSourceError, match="--allow"):
            open_source(f"http://{host}:{http_server.port}/a", guard=allowing()).read([(0, 6)])
    assert http_server.log == []


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f.1"])
def test_short_and_numeric_forms_do_not_connect_either(http_server, host):
    http_server.files["/a"] = b"secret"
    with pytest.raises(UntrustedSourceError):
        open_source(f"http://{host}:{http_server.port}/a", guard=allowing()).read([(0, 6)])
    assert http_server.log == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_a_name_that_resolves_there_is_refused_at_the_lookup(monkeypatch, http_server, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    real = socket.getaddrinfo

    def lookup(host, port, *args, **kwargs):
        if host != "rebound.example":
            return real(host, port, *args, **kwargs)
        end = (address, port, 0, 0) if family == socket.AF_INET6 else (address, port)
        return [(family, socket.SOCK_STREAM, 6, "", end)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(UntrustedSourceError, match=r"rebound\.example"):
        open_source(f"http://rebound.example:{http_server.port}/a", guard=allowing()).read([(0, 6)])
    assert http_server.log == []


@pytest.fixture
def outside(http_server):
    """A server that the guard allows, whose redirects lead elsewhere."""
    guard = allowing(f"{http_server.url}/")
    return http_server, lambda: open_source(f"{http_server.url}/a", guard=guard)


def test_a_redirect_on_the_same_host_is_followed(outside):
    server, source = outside
    server.files["/b"] = b"here it is"
    server.redirects["/a"] = "/b"
    assert source().read([(0, 4)]) == [b"here"]
    assert source().validators.size == 10


@pytest.mark.parametrize("ask", [lambda s: s.read([(0, 6)]), lambda s: s.validators])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
def test_a_redirect_to_another_port_of_this_machine(outside, make_http_server, host, ask):
    server, source = outside
    inner = make_http_server(files={"/a": b"secret"})
    server.redirects["/a"] = f"http://{host}:{inner.port}/a"
    with pytest.raises(UntrustedSourceError, match="loopback") as error:
        ask(source())
    assert error.value.url == f"{server.url}/a"
    assert inner.log == []


def test_a_redirect_to_the_metadata_address(outside):
    server, source = outside
    server.redirects["/a"] = "http://169.254.169.254/latest/meta-data/"
    with pytest.raises(UntrustedSourceError, match="link-local"):
        source().read([(0, 6)])


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.org/a", "ws://example.org/a"])
def test_a_redirect_to_another_scheme(outside, target):
    server, source = outside
    server.redirects["/a"] = target
    with pytest.raises(UntrustedSourceError, match="only http and https"):
        source().read([(0, 6)])


def test_a_redirect_in_two_steps(outside, make_http_server):
    server, source = outside
    inner = make_http_server(files={"/a": b"secret"})
    server.redirects |= {"/a": "/b", "/b": f"{inner.url}/a"}
    with pytest.raises(UntrustedSourceError):
        source().read([(0, 6)])
    assert inner.log == []


def test_a_guard_travels_with_a_pickled_source(outside, make_http_server):
    server, source = outside
    inner = make_http_server(files={"/a": b"secret"})
    server.redirects["/a"] = f"{inner.url}/a"
    with pytest.raises(UntrustedSourceError):
        asyncio.run(pickle.loads(pickle.dumps(source())).aread([(0, 6)]))


def test_two_guards_do_not_share_a_client(http_server):
    http_server.files["/a"] = b"public"
    allowed = allowing(f"{http_server.url}/")
    assert open_source(f"{http_server.url}/a", guard=allowed).read([(0, 6)]) == [b"public"]
    assert open_source(f"{http_server.url}/a").read([(0, 6)]) == [b"public"]
    with pytest.raises(UntrustedSourceError):
        open_source(f"{http_server.url}/a", guard=allowing()).read([(0, 6)])


class Slow(dict):
    """A dict in which whoever has looked waits until another thread has come as well, or could not."""

    def __init__(self):
        super().__init__()
        self.looked, self.other = threading.Event(), threading.Event()

    def get(self, key, default=None):
        found = super().get(key, default)
        self.looked.set()
        if threading.current_thread().name == "first":
            self.other.wait(1)
        return found


def test_what_two_threads_see_of_a_host_is_kept_as_the_most_public(monkeypatch):
    seen = Slow()
    monkeypatch.setattr(guard, "_resolved", seen)
    first = threading.Thread(name="first", target=guard.remember, args=("a.example", 80, [literal("127.0.0.1")]))
    first.start()
    assert seen.looked.wait(10)
    second = threading.Thread(target=guard.remember, args=("a.example", 80, [literal("8.8.8.8")]))
    second.start()
    second.join(0.3)  # without a lock it is through, and the first one then keeps what it had looked at
    seen.other.set()
    first.join()
    second.join()
    assert guard.nearness_of(("http", "a.example", 80)) == Nearness.PUBLIC
