"""Which addresses are refused, in every spelling a resolver takes; the client that asks."""

import asyncio
import pickle
import socket

import pytest

from jnrrdz.errors import UntrustedSourceError
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard, literal, local_host, local_only

REFUSED = [
    "127.0.0.1",
    "127.8.9.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "0.0.0.0",
    "0",
    "169.254.169.254",
    "0xA9FEA9FE",
    "100.100.100.200",
    "::1",
    "[::1]",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
]
ACCEPTED = ["93.184.216.34", "10.0.0.1", "192.168.1.1", "2606:2800:220:1::", "example.org", "localhost.example.org"]


@pytest.mark.parametrize("host", REFUSED)
def test_spellings_of_this_machine_and_its_link(host):
    assert local_host(host) is not None


@pytest.mark.parametrize("host", ACCEPTED)
def test_other_hosts(host):
    assert local_host(host) is None


@pytest.mark.parametrize("host", [h for h in REFUSED if ":" not in h and "localhost" not in h.lower()])
def test_ipv4_spellings_are_read_as_the_system_reads_them(host):
    dialled = socket.getaddrinfo(host.rstrip("."), 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    assert str(literal(host)) == dialled


def test_the_table_agrees_with_the_standard_library():
    for host in ("127.0.0.1", "169.254.0.1", "::1", "fe80::1", "0.0.0.0", "::"):
        address = literal(host)
        assert address.is_loopback or address.is_link_local or address.is_unspecified
        assert local_only(address)


def test_a_named_host_is_exempt_at_its_port_only():
    guard = AddressGuard((("127.0.0.1", 80),))
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
            open_source(f"http://{host}:{http_server.port}/a", guard=AddressGuard()).read([(0, 6)])
    assert http_server.log == []


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f.1"])
def test_short_and_numeric_forms_do_not_connect_either(http_server, host):
    http_server.files["/a"] = b"secret"
    with pytest.raises(UntrustedSourceError):
        open_source(f"http://{host}:{http_server.port}/a", guard=AddressGuard()).read([(0, 6)])
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
        open_source(f"http://rebound.example:{http_server.port}/a", guard=AddressGuard()).read([(0, 6)])
    assert http_server.log == []


@pytest.fixture
def outside(http_server):
    """A server that the guard allows, whose redirects lead elsewhere."""
    guard = AddressGuard((("127.0.0.1", http_server.port),))
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
    allowed = AddressGuard((("127.0.0.1", http_server.port),))
    assert open_source(f"{http_server.url}/a", guard=allowed).read([(0, 6)]) == [b"public"]
    assert open_source(f"{http_server.url}/a").read([(0, 6)]) == [b"public"]
    with pytest.raises(UntrustedSourceError):
        open_source(f"{http_server.url}/a", guard=AddressGuard()).read([(0, 6)])
