"""What cannot be opened, listed or written: one sentence each, and no traceback of a library's."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.manifests.atomic import new_file
from jnrrdz.sources import faults as s3_faults
from jnrrdz.sources import http
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.retry import is_passing
from jnrrdz.sources.tree import open_tree
from tests.servers.seaweed import ADMIN, READABLE, READER

MODULES = {"gs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "oss": "ossfs", "sftp": "paramiko", "smb": "smbprotocol"}


@pytest.fixture
def absent(monkeypatch):
    """Make a package one that is not installed, whatever is."""

    def make(module):
        for name in [name for name in sys.modules if name.partition(".")[0] == module]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setattr(sys.modules["fsspec.registry"], "_registry", {})

    return make


@pytest.mark.parametrize("scheme", MODULES)
def test_a_package_that_is_missing_is_named(scheme, absent, tmp_path):
    module = MODULES[scheme]
    absent(module)
    line = f"needs a package that is not installed: pip install {module}"
    url = f"{scheme}://place/a.tif"
    for work in (
        lambda: open_source(url).read([(0, 1)]),
        lambda: open_tree(f"{scheme}://place/a.n5/"),
        lambda: new_file(url).__enter__(),
    ):
        with pytest.raises(UnsupportedError) as error:
            work()
        assert str(error.value).endswith(line)
    done = CliRunner().invoke(cli, ["index", url, "-o", str(tmp_path / "x.json")])
    assert (done.exit_code, done.output) == (1, f"error: {url}: {line}\n")


def _writes(options, bucket, key="d/x.json"):
    with new_file(f"s3://{bucket}/{key}", storage_options=options, replaces=bool) as stream:
        stream.write(b"x")


def _lists(options, bucket, key="d"):
    return list(open_tree(f"s3://{bucket}/{key}/", storage_options=options).pages())


REFUSED = {
    "listing, denied": (_lists, READER, None, r"{bucket}/d/ may not be listed; ask for s3:ListBucket.*READ\.\.\. from"),
    "listing, no bucket": (_lists, ADMIN, "nothere", "no such bucket as nothere"),
    "listing, wrong secret": (_lists, (ADMIN[0], "wrong"), None, "secret key does not belong"),
    "listing, unknown key": (_lists, ("NOBODYATALL", "x"), None, "does not know the access key"),
    "writing, denied": (
        _writes,
        READER,
        READABLE,
        r"readable/d/x\.json may not be written; ask for s3:PutObject.*READ",
    ),
    "writing, wrong secret": (_writes, (ADMIN[0], "wrong"), None, "secret key does not belong|may not be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_s3_refuses_in_a_sentence(seaweed, bucket, case):
    work, identity, other, said = REFUSED[case]
    seaweed.put(bucket, "d/a", b"data")
    with pytest.raises(JnrrdzError, match=said.format(bucket=bucket)) as error:
        work(seaweed.options(identity), other or bucket)
    text = str(error.value)
    assert text.startswith("s3://")
    assert "\n" not in text
    assert identity[1] not in text
    assert identity[0] not in text


@pytest.mark.parametrize("code", ["SlowDown", "503", "429", "InternalError"])
def test_what_was_busy_may_be_tried_again_later(code):
    assert is_passing(s3_faults.explain_s3(code, "b", "k", "anonymously"))
    assert not is_passing(s3_faults.explain_s3("AccessDenied", "b", "k", "anonymously"))


class _Answers(BaseHTTPRequestHandler):
    """S3 as it answers everything with one error that the server of the other tests does not know."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        code, status = self.server.answer
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def answers():
    """Return a function that sets the one error, and gives the URL of the server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.answer = ("ExpiredToken", 400)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield (
            lambda code, status: vars(server).update(answer=(code, status)) or f"http://127.0.0.1:{server.server_port}"
        )
        server.shutdown()
        thread.join()


@pytest.fixture
def expired(answers):
    return answers("ExpiredToken", 400)


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("NoSuchBucket", 404, "no such bucket as b; check its name and the endpoint"),
        ("AccessDenied", 403, "b/d/x.json may not be "),
        ("ExpiredToken", 400, "session token has expired"),
    ],
)
def test_writing_to_a_server_that_refuses(answers, code, status, said):
    options = {"key": "KEYEXAMPLE", "secret": "secretExample", "endpoint_url": answers(code, status)}
    with pytest.raises(JnrrdzError, match=said) as error:
        _writes(options, "b")
    assert "\n" not in str(error.value)


def _environment(url, key=ADMIN[0], secret=ADMIN[1], **more):
    named = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_ENDPOINT_URL": url, **more}
    return {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", **named}


LINES = {
    "wrong secret": ({"secret": "wrong"}, "s3://readable/a.tif", "secret key does not belong to the access key"),
    "unknown key": ({"key": "NOBODY"}, "s3://readable/a.tif", "the server does not know the access key"),
    "no bucket": ({}, "s3://nothere/a.tif", "no such bucket as nothere"),
    "no object": ({}, "s3://readable/none.tif", "not found: the bucket readable has no object none.tif"),
    "may not read": (
        {"key": READER[0], "secret": READER[1]},
        "s3://{bucket}/a.tif",
        "may not be read; ask for s3:GetObject",
    ),
    "may not list": (
        {"key": READER[0], "secret": READER[1]},
        "s3://{bucket}/a.n5/",
        "may not be listed; ask for s3:ListBucket",
    ),
    "expired": ({"url": "{expired}", "AWS_SESSION_TOKEN": "tOKEN"}, "s3://readable/a.tif", "session token has expired"),
    "expired, listing": (
        {"url": "{expired}", "AWS_SESSION_TOKEN": "tOKEN"},
        "s3://b/a.n5/",
        "session token has expired",
    ),
    "nobody there": ({"url": "http://127.0.0.1:9"}, "s3://readable/a.tif", "127.0.0.1:9"),
}


@pytest.mark.parametrize("case", LINES)
def test_the_command_ends_with_one_line(seaweed, bucket, expired, case, tmp_path):
    wrong, url, said = LINES[case]
    seaweed.put(bucket, "a.tif", b"data")
    given = {name: value.format(expired=expired) for name, value in wrong.items()}
    environment = _environment(**{"url": seaweed.url, **given})
    out = tmp_path / "x.json"
    done = CliRunner(env=environment).invoke(cli, ["index", url.format(bucket=bucket), "-o", str(out)])
    assert done.exit_code == 1, done.output
    (line,) = done.output.splitlines()
    assert line.startswith("error: s3://")
    assert said in line
    assert "tOKEN" not in line
    assert not out.exists()


def test_no_credentials_at_all(seaweed, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = _environment(seaweed.url, key=None, secret=None)
    for url in ("s3://readable/a.tif", "s3://readable/a.n5/"):
        done = CliRunner(env=environment).invoke(cli, ["index", url, "-o", str(tmp_path / "x.json")])
        assert (done.exit_code, len(done.output.splitlines())) == (1, 1), done.output
        assert "no credentials found for the bucket readable" in done.output


def test_a_server_without_ranges_is_read_whole_where_that_is_little(nginx, tmp_path, monkeypatch):
    values = np.arange(128 * 128, dtype=np.uint16).reshape(128, 128)
    tifffile.imwrite(nginx.files / "whole.tif", values, tile=(32, 32))
    url = f"{nginx.url_without_ranges}/whole.tif"
    out = tmp_path / "x.json"
    done = CliRunner().invoke(cli, ["index", url, "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert np.array_equal(jnrrdz.open_group(str(out))["data"][:], values)
    monkeypatch.setattr(http, "WHOLE_LIMIT", 20_000)
    with pytest.raises(UnsupportedError, match=r"the server ignores ranges.*use a server with ranges, or a local copy"):
        jnrrdz.open_group(str(out))["data"][:]
    monkeypatch.setattr(http, "WHOLE_LIMIT", 100)
    out.unlink()
    done = CliRunner().invoke(cli, ["index", url, "-o", str(out)])
    (line,) = done.output.splitlines()
    assert (done.exit_code, out.exists()) == (1, False)
    assert "the server ignores ranges" in line


@pytest.mark.timeout(30)
@pytest.mark.parametrize("url", ["s3://place/a.tif", "http://place/a.tif"])
def test_an_error_raised_from_what_it_led_to_is_told(url):
    """A client that tries again raises the first error once more, while it handles one that was raised from it."""
    first = OSError("no way there")

    def fail():
        try:
            raise ConnectionError("nor there") from first  # noqa: TRY301  the same
        except ConnectionError:
            raise first  # noqa: B904  the cause is left as it is, as in the clients

    with pytest.raises(JnrrdzError, match="reading failed: no way there"), s3_faults.translate_errors(url, "reading"):
        fail()
