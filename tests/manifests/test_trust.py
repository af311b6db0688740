"""What a manifest may reach: each case is refused by one rule, and its neighbour is not."""

import pickle
from ipaddress import ip_address

import pytest

from jnrrdz.errors import JnrrdzError, UntrustedSourceError
from jnrrdz.manifests.trust import Trust, check_named
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard, Nearness

WEB = "https://host.example/dir/refs.json"
BUCKET = "s3://bucket/dir/refs.json"
INTRANET = "http://10.1.2.3/dir/refs.json"
LOOP = "http://127.0.0.1:8000/dir/refs.json"


# manifest, table, allow, the reference's URL, what is opened
GRANTED = {
    "beside it": (WEB, [], [], "a.tif", "https://host.example/dir/a.tif"),
    "below it": (WEB, [], [], "x/y/a.tif", "https://host.example/dir/x/y/a.tif"),
    "absolute, below it": (WEB, [], [], "https://host.example/dir/a.tif", "https://host.example/dir/a.tif"),
    "its default port spelt": (WEB, [], [], "https://HOST.example:443/dir/a.tif", "https://host.example/dir/a.tif"),
    "dots that stay inside": (WEB, [], [], "x/../a.tif", "https://host.example/dir/a.tif"),
    "a query": (WEB, [], [], "a.tif?v=1", "https://host.example/dir/a.tif?v=1"),
    "an escaped space": (WEB, [], [], "a%20b.tif", "https://host.example/dir/a%20b.tif"),
    "a space": (WEB, [], [], "a b.tif", "https://host.example/dir/a%20b.tif"),
    "a signed manifest": (WEB + "?sig=a/b", [], [], "a.tif", "https://host.example/dir/a.tif"),
    "named elsewhere": (WEB, ["s3://other/a.tif"], [], "s3://other/a.tif", "s3://other/a.tif"),
    "named, spelt otherwise": (
        WEB,
        ["https://b.example/a%2Ftif"],
        [],
        "https://b.example/a/tif",
        "https://b.example/a%2Ftif",
    ),
    "named above": (WEB, ["../a.tif"], [], "../a.tif", "https://host.example/a.tif"),
    "named above, absolute": (WEB, ["../a.tif"], [], "https://host.example/a.tif", "https://host.example/a.tif"),
    "named above, in a bucket": (BUCKET, ["../a.tif"], [], "../a.tif", "s3://bucket/a.tif"),
    "a named directory": (BUCKET, ["s3://o/x.n5/"], [], "s3://o/x.n5/0/0", "s3://o/x.n5/0/0"),
    "a doubled slash is part of a key": (BUCKET, ["s3://o//a"], [], "s3://o//a", "s3://o//a"),
    "in its bucket's directory": (BUCKET, [], [], "s3://bucket/dir/a.tif", "s3://bucket/dir/a.tif"),
    "a synonym": (BUCKET, [], [], "s3a://bucket/dir/a.tif", "s3://bucket/dir/a.tif"),
    "its own loopback host": (LOOP, [], [], "a.tif", "http://127.0.0.1:8000/dir/a.tif"),
    "its own loopback host, named": (LOOP, ["/x"], [], "http://127.0.0.1:8000/dir/b", "http://127.0.0.1:8000/dir/b"),
    "another private host": (INTRANET, ["http://192.168.1.1/a"], [], "http://192.168.1.1/a", "http://192.168.1.1/a"),
    "in memory": ("memory://refs.json", [], [], "a.tif", "memory:///a.tif"),
    "an allowed bucket": (WEB, [], ["s3://other"], "s3://other/a/b", "s3://other/a/b"),
    "an allowed loopback port": (WEB, [], ["http://127.0.0.1:9000/"], "http://127.0.0.1:9000/a", None),
    "an allowed chain": (WEB, [], ["zip://a::s3://b"], "zip://a::s3://b/z.zip", "zip://a::s3://b/z.zip"),
    "all allowed": (WEB, [], ["*"], "gopher://127.0.0.1/a", "gopher://127.0.0.1/a"),
    "an allowed local directory": (WEB, [], ["/nowhere/data"], "file:///nowhere/data/a", "/nowhere/data/a"),
}

# manifest, table, allow, the reference's URL, a word of the reason
REFUSED = {
    "a local file": (WEB, [], [], "file:///etc/passwd", "local file"),
    "a local file, though its table names it": (WEB, ["file:///etc/passwd"], [], "file:///etc/passwd", "local file"),
    "a plain path": (WEB, ["/etc/passwd"], [], "/etc/passwd", "local file"),
    "a path with two slashes": (WEB, [], [], "//etc/passwd", "local file"),
    "file: without slashes": (WEB, [], [], "file:/etc/passwd", "local file"),
    "capitals": (WEB, [], [], "FILE:///etc/passwd", "local file"),
    "local:": (WEB, [], [], "local:///etc/passwd", "local file"),
    "a file on localhost": (WEB, [], [], "file://localhost/etc/passwd", "local file"),
    "from a bucket too": (BUCKET, [], [], "file:///etc/passwd", "local file"),
    "a chain to a file": (WEB, [], [], "filecache::file:///etc/passwd", "chain"),
    "a chain, though named": (WEB, ["zip://a::s3://b/z"], [], "zip://a::s3://b/z", "chain"),
    "a chain behind its own host": (WEB, [], [], "https://host.example/dir/a::file:///etc/passwd", "chain"),
    "a further manifest": (WEB, ["reference://x"], [], "reference://x", "scheme reference"),
    "memory": (WEB, ["memory://x"], [], "memory://x", "scheme memory"),
    "a scheme that no guard sees": (WEB, ["ftp://host.example/x"], [], "ftp://host.example/x", "scheme ftp"),
    "another host of its own scheme": ("ftp://h.example/r.json", ["ftp://10.0.0.1/x"], [], "ftp://10.0.0.1/x", "ftp"),
    "one up": (WEB, [], [], "../a.tif", "table"),
    "one up, escaped": (WEB, [], [], "%2e%2e/a.tif", "table"),
    "one up, with an escaped slash": (WEB, [], [], "..%2fa.tif", "table"),
    "one up, absolute": (WEB, [], [], "https://host.example/dir/../a.tif", "table"),
    "one up, with backslashes": (WEB, [], [], "x\\..\\..\\a.tif", "table"),
    "one up in a bucket": (BUCKET, [], [], "s3://bucket/dir/../a.tif", "table"),
    "a directory whose name goes on": (WEB, [], [], "https://host.example/dir-evil/a.tif", "table"),
    "another bucket": (BUCKET, [], [], "s3://bucket-evil/dir/a.tif", "table"),
    "another bucket behind more slashes": (BUCKET, [], [], "s3:///evil/dir/a.tif", "table"),
    "an allowed bucket whose name goes on": (BUCKET, [], ["s3://buck"], "s3://bucket-evil/a", "table"),
    "an allowed directory whose name goes on": (BUCKET, [], ["s3://o/data"], "s3://o/data2/a", "table"),
    "out of an allowed directory": (BUCKET, [], ["s3://o/data"], "s3://o/data/../a", "table"),
    "out of an allowed chain": (WEB, [], ["zip://a::s3://b/c"], "zip://a::s3://b/c/../z", "chain"),
    "out of an allowed local directory": (WEB, [], ["/nowhere/data"], "/nowhere/data/../a", "local file"),
    "another host": (WEB, [], [], "https://evil.example/dir/a.tif", "table"),
    "another host behind its name": (WEB, [], [], "https://host.example@evil.example/dir/a.tif", "table"),
    "another port": (WEB, [], [], "https://host.example:8443/dir/a.tif", "table"),
    "another scheme": (WEB, [], [], "http://host.example/dir/a.tif", "table"),
    "another query of a named URL": (WEB, ["https://b.example/a?f=1"], [], "https://b.example/a?f=2", "table"),
    "a file that a named file's name begins": (WEB, ["s3://o/a.tif"], [], "s3://o/a.tif/b", "table"),
    "loopback, though named": (WEB, ["http://127.0.0.1/a"], [], "http://127.0.0.1/a", "loopback"),
    "loopback by name": (WEB, ["http://localhost/a"], [], "http://localhost/a", "loopback"),
    "loopback as a number": (WEB, ["http://2130706433/a"], [], "http://2130706433/a", "loopback"),
    "loopback in odd digits": (WEB, ["http://127。0。0。1/a"], [], "http://127。0。0。1/a", "loopback"),
    "loopback in IPv6": (WEB, ["http://[::1]/a"], [], "http://[::1]/a", "loopback"),
    "loopback mapped": (WEB, ["http://[::ffff:7f00:1]/a"], [], "http://[::ffff:7f00:1]/a", "loopback"),
    "the metadata address": (WEB, ["http://169.254.169.254/"], [], "http://169.254.169.254/", "link-local"),
    "nowhere": (WEB, ["http://0.0.0.0/a"], [], "http://0.0.0.0/a", "unspecified"),
    "a private host": (WEB, ["http://192.168.1.1/a"], [], "http://192.168.1.1/a", "a private"),
    "a private host in IPv6": (WEB, ["http://[fd00::1]/a"], [], "http://[fd00::1]/a", "a private"),
    "a private host behind NAT64": (WEB, ["http://[64:ff9b::a00:1]/"], [], "http://[64:ff9b::a00:1]/", "a private"),
    "a private host, from a bucket": (BUCKET, ["http://10.0.0.1/a"], [], "http://10.0.0.1/a", "a private"),
    "loopback, from a private host": (INTRANET, ["http://127.0.0.1/a"], [], "http://127.0.0.1/a", "loopback"),
    "metadata, from a private host": (INTRANET, ["http://192.0.0.192/"], [], "http://192.0.0.192/", "metadata"),
    "another port of its own loopback": (LOOP, ["http://127.0.0.1:1/a"], [], "http://127.0.0.1:1/a", "loopback"),
    "another name of its own loopback": (LOOP, ["http://localhost:8000/"], [], "http://localhost:8000/a", "loopback"),
}


@pytest.mark.parametrize(("manifest", "table", "allow", "raw", "opened"), GRANTED.values(), ids=GRANTED)
def test_granted(manifest, table, allow, raw, opened):
    assert Trust(manifest, table, allow).resolve(raw) == (opened or raw)


@pytest.mark.parametrize(("manifest", "table", "allow", "raw", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(manifest, table, allow, raw, reason):
    with pytest.raises(UntrustedSourceError, match=reason) as error:
        Trust(manifest, table, allow).resolve(raw)
    assert error.value.url == raw
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("case", REFUSED, ids=REFUSED)
def test_what_the_error_advises_works(case):
    manifest, table, _, raw, _ = REFUSED[case]
    with pytest.raises(UntrustedSourceError) as error:
        Trust(manifest, table).resolve(raw)
    advised = str(error.value).partition("--allow ")[2].partition(" would permit it")[0]
    if "/../" in advised and "::" in advised:
        advised = "*"  # a chain with dots in it has no prefix
    assert Trust(manifest, table, [advised]).resolve(raw)


def test_a_template_that_expands_to_another_scheme():
    trust = Trust(WEB, ["{{u}}/a.tif"])
    for expanded in ("file:///etc/a.tif", "http://169.254.169.254/a.tif"):
        with pytest.raises(UntrustedSourceError):
            trust.resolve("{{u}}/a.tif".replace("{{u}}", expanded.removesuffix("/a.tif")))


NO_URLS = ["a\x00.tif", "https://host.example/dir/a\n.tif", "http:///a", "http://h:99999/a", "\ud800.tif"]


@pytest.mark.parametrize("raw", NO_URLS)
@pytest.mark.parametrize("manifest", [WEB, "/nowhere/refs.json"])
def test_what_is_no_url_is_an_error_too(manifest, raw):
    with pytest.raises(JnrrdzError):
        Trust(manifest, [raw]).resolve(raw)


# -- local manifests ----------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path):
    """A manifest's directory with a file, and a file outside of it."""
    (tmp_path / "home" / "sub").mkdir(parents=True)
    for name in ("home/a.tif", "home/sub/b.tif", "secret"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path / "home"


def test_without_a_table_only_files_beside_it(home):
    trust = Trust(str(home / "refs.json"))
    for raw in ("a.tif", "./sub/../a.tif", str(home / "a.tif"), (home / "a.tif").as_uri(), f"file://{home}/a.tif"):
        assert trust.resolve(raw) == str(home / "a.tif")
    for raw in ("../secret", "sub/../../secret", str(home.parent / "secret"), "/etc/passwd", f"{home}-2/a", "//a.tif"):
        with pytest.raises(UntrustedSourceError, match="outside of its directory"):
            trust.resolve(raw)
    for raw in ("s3://b/a.tif", "https://host.example/a.tif", "zip://a::file:///b.zip", "memory://a"):
        with pytest.raises(UntrustedSourceError, match="does not name it"):
            trust.resolve(raw)


def test_with_a_table_only_what_it_names(home):
    table = ["a.tif", "../secret", "s3://b/a.tif", "http://127.0.0.1:9/a", "zip://x::s3://b/z", "ftp://h/a", "t.n5/"]
    trust = Trust(str(home / "refs.json"), table)
    opened = [str(home / "a.tif"), str(home.parent / "secret"), *table[2:-1], str(home / "t.n5")]
    assert [trust.resolve(entry) for entry in table] == opened
    assert trust.resolve(str(home / "a.tif")) == str(home / "a.tif")
    assert trust.resolve("t.n5/0/1") == str(home / "t.n5/0/1")
    for raw in ("sub/b.tif", "t.n5-evil/0", "/etc/passwd", "s3://b/b.tif", "http://127.0.0.1:9/b", "zip://x::s3://b/y"):
        with pytest.raises(UntrustedSourceError, match="does not name it"):
            trust.resolve(raw)


def test_percent_signs_of_a_plain_path_are_its_own(home):
    trust = Trust(str(home / "refs.json"))
    assert trust.resolve("%2e%2e/a.tif") == str(home / "%2e%2e/a.tif")
    with pytest.raises(UntrustedSourceError):
        trust.resolve(f"file://{home}/%2e%2e/secret")


@pytest.mark.parametrize("table", [[], ["link"], ["link", "a.tif"]])
def test_a_link_out_of_the_directory(home, table):
    (home / "link").symlink_to(home.parent / "secret")
    with pytest.raises(UntrustedSourceError, match=r"symbolic link out of its directory.*--allow .*secret") as error:
        Trust(str(home / "refs.json"), table).resolve("link")
    assert error.value.url == "link"


def test_a_linked_directory_out_of_the_directory(home):
    (home / "up").symlink_to("..")
    for table in ([], ["up/secret"], ["up/"]):
        with pytest.raises(UntrustedSourceError, match="symbolic link"):
            Trust(str(home / "refs.json"), table).resolve("up/secret")


def test_links_that_are_granted(home):
    secret = str(home.parent / "secret")
    (home / "link").symlink_to(secret)
    (home / "inner").symlink_to("a.tif")
    (home.parent / "way").symlink_to(home)
    refs = str(home / "refs.json")
    assert Trust(refs).resolve("inner") == str(home / "a.tif")
    assert Trust(refs, [secret]).resolve("link") == secret
    assert Trust(refs, ["link"], [secret]).resolve("link") == secret
    assert Trust(refs, ["link"], ["*"]).resolve("link") == secret
    # links on the way to the manifest, or to what a table names elsewhere, are the reader's own
    assert Trust(str(home.parent / "way" / "refs.json"), ["a.tif"]).resolve("a.tif") == str(home / "a.tif")
    (home.parent / "else").mkdir()
    assert Trust(str(home.parent / "else/refs.json"), [str(home / "link")]).resolve(str(home / "link")) == secret


def test_a_link_out_of_an_allowed_directory(home):
    (home / "link").symlink_to(home.parent / "secret")
    with pytest.raises(UntrustedSourceError):
        Trust(WEB, allow=[str(home)]).resolve(str(home / "link"))


def test_what_is_resolved_is_what_is_opened(home, monkeypatch):
    monkeypatch.chdir(home.parent)
    for manifest in (str(home / "refs.json"), "home/refs.json", f"file://{home}/refs.json"):
        assert open_source(Trust(manifest).resolve("sub/b.tif")).read([(0, 99)]) == [b"home/sub/b.tif"]


# -- the guard ----------------------------------------------------------------------------------


def test_the_guard_of_a_remote_manifest_measures_by_its_own_host():
    guard = Trust(LOOP, ["http://127.0.0.1:1/a"]).guard_for("http://127.0.0.1:8000/dir/a")
    assert guard == AddressGuard(("http", "127.0.0.1", 8000), Nearness.MACHINE)
    assert Trust(WEB, ["https://b.example/"]).guard_for("https://b.example/").start == ("https", "host.example", 443)


def test_the_guard_of_a_local_manifest_lets_a_host_be_anywhere_without_headers():
    trust = Trust("/nowhere/refs.json", ["http://LOCALHOST:81/a", "https://h.example/b", "s3://b/c", "d"])
    guard = trust.guard_for("http://localhost:81/a")
    assert guard == AddressGuard(("http", "localhost", 81), is_named=False)
    assert guard.refuses("localhost", 81, ip_address("127.0.0.1")) is None
    assert not guard.gets_headers(("http", "localhost", 81))


def test_the_guard_follows_the_allow_list():
    assert Trust(WEB, allow=["http://127.0.0.1:9/x"]).guard_for(WEB).allowed == (("http", "127.0.0.1", 9),)
    assert Trust(WEB, allow=["*"]).guard_for(WEB).anywhere


def test_trust_travels():
    trust = pickle.loads(pickle.dumps(Trust(WEB, ["s3://o/a"])))
    assert trust.resolve("s3://o/a") == "s3://o/a"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_redirect_from_a_trusted_source_to_this_machine(http_server, make_http_server, host):
    inner = make_http_server(files={"/a": b"secret"})
    http_server.redirects["/dir/a"] = f"http://{host}:{inner.port}/a"
    trust = Trust(f"{http_server.url}/dir/refs.json")
    url = trust.resolve("a")
    with pytest.raises(UntrustedSourceError, match="loopback"):
        open_source(url, guard=trust.guard_for(url)).read([(0, 6)])
    assert inner.log == []
    wide = Trust(f"{http_server.url}/dir/refs.json", allow=[f"http://{host}:{inner.port}/"])
    assert open_source(url, guard=wide.guard_for(url)).read([(0, 6)]) == [b"secret"]


def test_a_redirect_from_a_trusted_source_to_the_metadata_address(http_server):
    http_server.redirects["/dir/a"] = "http://169.254.169.254/latest/"
    trust = Trust(f"{http_server.url}/dir/refs.json")
    url = trust.resolve("a")
    with pytest.raises(UntrustedSourceError, match="link-local"):
        open_source(url, guard=trust.guard_for(url)).read([(0, 6)])


# -- documents of other kinds --------------------------------------------------------------------


@pytest.mark.parametrize("url", ["/etc/passwd", "file:///etc/passwd", "http://127.0.0.1/a", "ftp://h/a", "zip://a::b"])
def test_a_document_from_afar_names_nothing_here(url):
    with pytest.raises(UntrustedSourceError):
        check_named("https://stac.example/item.json", url)
    assert check_named("/data/item.json", url) == url


def test_a_document_from_afar_names_what_is_afar():
    for document in ("https://stac.example/c/item.json", "s3://bucket/c/item.json"):
        assert check_named(document, "s3://data/a.tif") == "s3://data/a.tif"
        assert check_named(document, "https://b.example/a.tif?x=1") == "https://b.example/a.tif?x=1"
    assert check_named("https://stac.example/c/item.json", "../a.tif") == "https://stac.example/a.tif"
    assert check_named("https://stac.example/item.json", "/data/a", ["/data"]) == "/data/a"
