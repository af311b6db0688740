"""Names that lead somewhere else the next time, and whose servers get the headers that a reader gives."""

import itertools
import socket
from ipaddress import ip_network

import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import JnrrdzError, UnsupportedError, UntrustedSourceError
from jnrrdz.formats.scanning import scan
from jnrrdz.manifests.trust import Trust
from jnrrdz.options import Access, ScanOptions
from jnrrdz.sources import guard as guards
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard, AddressKind, Nearness
from tests.writers import nrrd_of

NUMBERS = itertools.count()


@pytest.fixture
def names(monkeypatch):
    """The addresses of names as a test's DNS answers them, one list after another, the last for ever."""
    answers = {}
    real = socket.getaddrinfo

    def lookup(host, port, *args, **kwargs):
        if host not in answers:
            return real(host, port, *args, **kwargs)
        now = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in now]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)

    def name(*found):
        host = f"rebound-{next(NUMBERS)}.example"
        answers[host] = [[one] if isinstance(one, str) else one for one in found]
        return host

    return name


@pytest.fixture
def site(monkeypatch, make_http_server):
    """Two servers at one port: of a private network, as 127.0.0.2 counts here, and of this machine."""
    near = [(network, kind) for network, kind in guards.NEAR if kind.name != "a loopback"]
    loopback = (ip_network("127.0.0.1/32"), AddressKind(Nearness.MACHINE, "a loopback"))
    monkeypatch.setattr(guards, "NEAR", (loopback, *near))
    there = make_http_server(host="127.0.0.2", files={"/refs.json": b"{}", "/a": b"public"})
    here = make_http_server(host="127.0.0.1", port=there.port, files={"/a": b"secret"})
    return there, here


def fetched(host, port):
    """Return the URL of a manifest that was read just now."""
    url = f"http://{host}:{port}/refs.json"
    assert open_source(url).read([(0, 2)]) == [b"{}"]
    return url


def test_a_manifests_own_host_that_leads_here_afterwards_is_refused(site, names):
    there, here = site
    host = names("127.0.0.2", "127.0.0.1")
    trust = Trust(fetched(host, there.port))
    url = trust.resolve("a")
    with pytest.raises(UntrustedSourceError, match=f"loopback address .{host}"):
        open_source(url, guard=trust.guard_for(url)).read([(0, 6)])
    assert here.log == []
    allowed = Trust(trust.manifest_url, allow=[f"http://{host}:{there.port}/"])
    assert open_source(url, guard=allowed.guard_for(url)).read([(0, 6)]) == [b"secret"]


def test_a_manifests_own_host_stays_where_it_was(site, names):
    there, _ = site
    trust = Trust(fetched(names("127.0.0.2"), there.port))
    url = trust.resolve("a")
    assert open_source(url, guard=trust.guard_for(url)).read([(0, 6)]) == [b"public"]


def test_only_the_addresses_that_were_checked_are_dialled(site, names):
    there, here = site
    host = names("127.0.0.2", ["127.0.0.1", "127.0.0.2"])
    trust = Trust(fetched(host, there.port))
    url = trust.resolve("a")
    assert open_source(url, guard=trust.guard_for(url)).read([(0, 6)]) == [b"public"]
    assert here.log == []


def test_a_host_of_several_addresses_is_as_public_as_the_most_public(site, names):
    there, here = site
    host = names(["127.0.0.2", "127.0.0.1"], "127.0.0.1")
    trust = Trust(fetched(host, there.port))
    url = trust.resolve("a")
    with pytest.raises(UntrustedSourceError, match="loopback"):
        open_source(url, guard=trust.guard_for(url)).read([(0, 6)])
    assert here.log == []


def test_another_name_may_be_as_near_as_the_manifest_but_not_this_machine(site, names):
    there, here = site
    manifest = fetched(names("127.0.0.2"), there.port)
    near, nearer = (f"http://{names(address)}:{there.port}/a" for address in ("127.0.0.2", "127.0.0.1"))
    trust = Trust(manifest, [near, nearer])
    assert open_source(near, guard=trust.guard_for(near)).read([(0, 6)]) == [b"public"]
    with pytest.raises(UntrustedSourceError, match="loopback"):
        open_source(nearer, guard=trust.guard_for(nearer)).read([(0, 6)])
    assert here.log == []


@pytest.mark.parametrize("target", ["http://127.0.0.1:{0}/a", "http://{1}:{0}/a"])
def test_what_a_reader_names_redirects_no_nearer_than_it_is(site, names, target):
    there, here = site
    there.redirects["/a"] = target.format(here.port, names("127.0.0.1"))
    url = f"http://{names('127.0.0.2')}:{there.port}/a"
    with pytest.raises(UntrustedSourceError, match="loopback"):
        open_source(url).read([(0, 6)])
    assert here.log == []
    wide = AddressGuard.of_source(url, [there.redirects["/a"]])
    assert open_source(url, guard=wide).read([(0, 6)]) == [b"secret"]


def test_a_name_that_is_typed_may_be_anywhere(http_server, names):
    http_server.files["/a"] = b"here"
    assert open_source(f"http://{names('127.0.0.1')}:{http_server.port}/a").read([(0, 4)]) == [b"here"]


def test_a_proxy_may_be_anywhere(make_http_server):
    proxy = make_http_server(files={"http://data.example/a": b"through"})
    guard = AddressGuard.of_document("https://host.example/refs.json")
    source = open_source("http://data.example/a", storage_options={"proxy": proxy.url}, guard=guard)
    assert source.read([(0, 7)]) == [b"through"]


def detached(size=64):
    """Return an NRRD header of some bytes in a file beside it."""
    return nrrd_of(np.zeros(size, "u1"), data_file="a.raw")


def test_files_beside_a_header_redirect_no_nearer_than_it_is(site, names):
    there, here = site
    there.files["/a.nhdr"] = detached()
    here.files["/a.raw"] = bytes(64)
    there.redirects["/a.raw"] = f"http://127.0.0.1:{here.port}/a.raw"
    url = f"http://{names('127.0.0.2')}:{there.port}/a.nhdr"
    with pytest.raises(UntrustedSourceError, match="loopback"):
        jnrrdz.scan(url)
    assert here.log == []
    assert jnrrdz.scan(url, allow=[f"http://127.0.0.1:{here.port}/"]).sources[1].size == 64


def test_what_a_document_names_is_scanned_no_nearer_than_the_document_is(site, names):
    there, here = site
    here.files["/a.nhdr"], here.files["/a.raw"] = detached(), bytes(64)
    document = fetched(names("127.0.0.2"), there.port)
    url = f"http://{names('127.0.0.1')}:{here.port}/a.nhdr"
    with pytest.raises(UntrustedSourceError, match="loopback"):
        scan(url, ScanOptions(), Access(named_by=document))
    assert here.log == []
    assert scan(url, ScanOptions(), Access()).format == "NRRD"
    assert scan(url, ScanOptions(), Access(named_by="/data/item.json")).format == "NRRD"


# -- headers --------------------------------------------------------------------------------------

GIVEN = {
    "headers": {"headers": {"Authorization": "Bearer 1", "X-Api-Key": "2", "Cookie": "c=3"}},
    "headers of the client": {"client_kwargs": {"headers": {"Authorization": "Bearer 1", "x-api-key": "2"}}},
    "cookies": {"cookies": {"c": "3"}},
    "parameters": {"params": {"key": "4"}},
}
SECRETS = {"authorization", "x-api-key", "cookie"}


def got(server):
    """Return what the last request to a server carried."""
    last = server.log[-1]
    return {name.lower() for name in last.headers} & SECRETS | ({"key"} if "key=4" in last.path else set())


@pytest.fixture
def two(make_http_server):
    return [make_http_server(files={"/d/a": b"data"}) for _ in range(2)]


@pytest.mark.parametrize("options", GIVEN.values(), ids=GIVEN)
def test_headers_go_to_the_origin_that_was_named(two, options):
    named, _ = two
    assert open_source(f"{named.url}/d/a", storage_options=options).read([(0, 4)]) == [b"data"]
    assert got(named)


@pytest.mark.parametrize("options", GIVEN.values(), ids=GIVEN)
def test_headers_do_not_follow_a_redirect_to_another_origin(two, options):
    named, other = two
    named.redirects["/d/a"] = f"{other.url}/d/a"
    guard = AddressGuard(("http", "127.0.0.1", named.port), anywhere=True)
    assert open_source(f"{named.url}/d/a", storage_options=options, guard=guard).read([(0, 4)]) == [b"data"]
    assert got(named)
    assert not got(other)


@pytest.mark.parametrize("options", GIVEN.values(), ids=GIVEN)
def test_headers_follow_a_redirect_on_the_same_origin(two, options):
    named, _ = two
    named.redirects["/a"] = "/d/a"
    assert open_source(f"{named.url}/a", storage_options=options).read([(0, 4)]) == [b"data"]
    assert got(named) or "params" in options  # a redirect has parameters of its own


@pytest.mark.parametrize("options", GIVEN.values(), ids=GIVEN)
def test_headers_do_not_go_to_the_other_hosts_of_a_manifest(two, options):
    named, other = two
    url = f"{other.url}/d/a"
    for allow, is_sent in ([], False), (["*"], False), ([f"{other.url}/"], True):
        trust = Trust("/nowhere/refs.json", [url], allow)
        assert open_source(url, storage_options=options, guard=trust.guard_for(url)).read([(0, 4)]) == [b"data"]
        assert bool(got(other)) == is_sent
    trust = Trust(f"{named.url}/d/refs.json")
    url = trust.resolve("a")
    assert open_source(url, storage_options=options, guard=trust.guard_for(url)).read([(0, 4)]) == [b"data"]
    assert got(named)


def test_files_beside_a_header_get_what_it_gets(two):
    named, other = two
    named.files |= {"/a.nhdr": detached(), "/a.raw": bytes(64)}
    options = GIVEN["headers"]
    group = jnrrdz.scan(f"{named.url}/a.nhdr", storage_options=options)
    assert got(named)
    assert jnrrdz.open_group(group, source_options=options)["data"][:].tobytes() == bytes(64)
    named.redirects["/a.raw"] = f"{other.url}/a.raw"
    other.files["/a.raw"] = bytes(64)
    jnrrdz.scan(f"{named.url}/a.nhdr", storage_options=options, allow=["*"])
    assert not got(other)


def test_an_origin_is_scheme_host_and_port():
    guard = AddressGuard.of_source("https://h.example/a")
    assert guard.gets_headers(("https", "h.example", 443))
    for other in (("http", "h.example", 443), ("https", "h.example", 8443), ("https", "a.h.example", 443)):
        assert not guard.gets_headers(other)


@pytest.mark.parametrize("status", [401, 403])
def test_who_wanted_headers_and_got_none_is_told_of(two, status):
    _, other = two
    other.statuses["/d/a"] = [status] * 9
    url = f"{other.url}/d/a"
    guard = Trust("/nowhere/refs.json", [url]).guard_for(url)
    with pytest.raises(JnrrdzError, match=rf"none of your headers; --allow {other.url}/ sends them"):
        open_source(url, storage_options=GIVEN["headers"], guard=guard).read([(0, 4)])


@pytest.mark.parametrize("options", [{"get_client": None}, {"client_kwargs": {"connector": None}}])
def test_a_client_that_no_guard_sees_is_for_sources_that_are_named(options):
    guard = AddressGuard.of_document("https://host.example/refs.json")
    with pytest.raises(UnsupportedError, match="bypass the address guard"):
        open_source("https://host.example/a", storage_options=options, guard=guard)
