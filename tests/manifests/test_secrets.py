"""No secret of a source's URL in what is written or shown: every form of URL in every place."""

import ast
import io
import json
import logging
import pickle
import sys
import threading
import warnings
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import tifffile
import xarray as xr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.batches.item import Found, Job, JobState, Outcome
from jnrrdz.batches.run import redacted_record
from jnrrdz.batches.selection import Selection
from jnrrdz.batches.work import Plan
from jnrrdz.cli import cli
from jnrrdz.cli.console import guard_terminal
from jnrrdz.commands.verification import Finding, Verification
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.manifests.json import dump
from jnrrdz.manifests.written_refs import moved
from jnrrdz.options import Access, BatchOptions, ScanOptions, WriteOptions
from jnrrdz.redact import bare
from tests.sources.test_redact import EVERY, OF_SEVERAL_WORDS, SECRETS, SHARES
from tests.writers import tiff_bytes


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    path = tmp_path_factory.mktemp("scanned") / "a.tif"
    tifffile.imwrite(path, np.full((32, 32), 7, np.uint8))
    return jnrrdz.scan(path)


def named(scanned, url):
    return moved(scanned, {record.url: url for record in scanned.sources})


def has_secret(text):
    return "SECRET" in text or "secretx1y2" in text


@pytest.mark.parametrize("case", SECRETS)
@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_no_manifest_holds_a_secret(scanned, tmp_path, case, name):
    url, kept = SECRETS[case]
    with pytest.warns(UserWarning, match="no manifest records: whoever reads it needs their own") as told:
        jnrrdz.write(named(scanned, url), tmp_path / name)
    assert not has_secret(str(told[0].message))
    assert "--keep-query NAME" in str(told[0].message)
    assert "\n" not in str(told[0].message)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(has_secret(text.decode("latin-1")) for text in written)
    assert any(json.dumps(kept)[1:-1].encode() in text for text in written)


@pytest.mark.parametrize("case", SHARES)
def test_a_manifest_of_a_share_link_is_refused(scanned, case):
    with pytest.raises(UnrepresentableError, match=r"a share link: .*--keep-query '\*'") as refused:
        dump(named(scanned, SHARES[case]), io.BytesIO())
    assert not has_secret(str(refused.value))
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fragment
        dump(named(scanned, SHARES[case]), stream, keep_query=["*"])
    assert bare(SHARES[case], ["*"]).encode() in stream.getvalue()


@pytest.mark.parametrize("case", EVERY)
def test_nothing_shows_a_secret(scanned, case):
    url = EVERY[case]
    group = named(scanned, url)
    job = Job(0, Found(url, named_by=url), url)
    error = JnrrdzError("gone", url=url)
    outcome = Outcome(job, JobState.FAILED, message=str(error), warnings=(str(error),))
    verification = Verification(url, (Finding("source", url, str(error)),), 1, 0, 0, 0)
    opened = jnrrdz.open_group(group)
    shown = [
        *(repr(group), group._repr_html_(), repr(group.sources), repr(group.arrays()[0][1].refs)),
        *(repr(job), repr(outcome), json.dumps(redacted_record(outcome)), str(pickle.loads(pickle.dumps(error)))),
        *(
            repr(verification),
            verification._repr_html_(),
            json.dumps(verification.to_json()),
            repr(verification.findings),
        ),
        *(repr(opened.store), str(opened), repr(opened["data"]), repr(Selection([url]))),
    ]
    assert [text for text in shown if has_secret(text)] == []
    if case not in SHARES:  # attributes are what a manifest would record, and none is written of a share link
        assert not has_secret(repr(dict(opened.attrs)))


@pytest.mark.parametrize("case", [case for case in EVERY if case not in OF_SEVERAL_WORDS])
def test_no_command_shows_a_secret_of_anothers_manifest(scanned, tmp_path, case):
    stream = io.BytesIO()
    dump(scanned, stream)
    url = json.dumps(json.dumps(EVERY[case])[1:-1])[1:-1].encode()
    ours = json.dumps(scanned.sources[0].url)[1:-1].encode()
    text = stream.getvalue().replace(ours, url)
    (tmp_path / "a.json").write_bytes(text)
    for args in (["info", "--json"], ["info"], ["ls", "-l"], ["-v", "convert", "-o", str(tmp_path / "b.json")]):
        done = CliRunner().invoke(cli, [*args, str(tmp_path / "a.json")])
        assert not has_secret(done.output), args
        assert done.exit_code == 0 or args[0] == "-v"
    sources = json.loads(CliRunner().invoke(cli, ["info", "--json", str(tmp_path / "a.json")]).output)["sources"]
    assert "://" in sources[0]["url"]


def test_options_are_in_no_repr():
    options = {"key": "SECRET", "headers": {"Authorization": "SECRET"}}
    work = BatchOptions(storage_options=options, target_options=options)
    form = WriteOptions(target_options=options)
    for record in (
        Access((), options, options),
        form,
        work,
        Plan(ScanOptions(), form, work),
        jnrrdz.Parser(storage_options=options),
    ):
        assert "SECRET" not in repr(record)


class Handler(BaseHTTPRequestHandler):
    """Answers with a picture if the query has the right token and the right id."""

    def do_GET(self):
        query = dict(part.split("=") for part in self.path.partition("?")[2].split("&") if "=" in part)
        data = self.server.pictures.get(query.get("id"), b"") if query.get("token") == "SECRET" else b""
        self.send_response(200 if data else 403)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hash(data)}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815  the name is http.server's

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.pictures = {}
        for value in (1, 2):
            running.pictures[str(value)] = tiff_bytes(np.full((32, 32), value, np.uint8))
        running.url = f"http://127.0.0.1:{running.server_port}/get"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_server_that_names_files_by_query_is_read_with_its_token_given_again(server, tmp_path):
    """The name of the file is kept by --keep-query, the token is the reader's own."""
    out = tmp_path / "a.json"
    done = CliRunner().invoke(cli, ["index", f"{server.url}?id=2&token=SECRET", "-o", str(out), "--keep-query", "id"])
    assert done.exit_code == 0, done.output
    assert not has_secret(done.output + out.read_text())
    assert f'"{server.url}?id=2"' in out.read_text()
    given = {"source_options": {"params": {"token": "SECRET"}}, "allow": [server.url]}
    opened = jnrrdz.open_dataset(out, **given)
    assert (opened["data"].values == 2).all()
    with pytest.raises(JnrrdzError, match="403"):
        jnrrdz.open_dataset(out)["data"].load()
    # what is written anew keeps what it kept
    jnrrdz.convert(out, tmp_path / "b.json", **given)
    jnrrdz.refresh(out, **given)
    for path in (out, tmp_path / "b.json"):
        assert f'"{server.url}?id=2"' in path.read_text()


def test_without_the_name_one_line_tells_what_keeps_it(server, tmp_path):
    done = CliRunner().invoke(cli, ["index", f"{server.url}?id=2&token=SECRET", "-o", str(tmp_path / "a.json")])
    assert done.exit_code == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
    assert len(lines) == 1
    assert "--keep-query NAME" in lines[0]
    assert "(there are id, token)" in lines[0]
    assert f'"{server.url}"' in (tmp_path / "a.json").read_text()


def test_sources_that_only_their_query_tells_apart_are_not_mixed_up(server, tmp_path):
    urls = [f"{server.url}?id={number}&token=SECRET" for number in (1, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UnrepresentableError, match="only its query tells it from another") as refused:
            jnrrdz.merge(urls, tmp_path / "a.json", concat_dim="n")
        assert not has_secret(str(refused.value))
        jnrrdz.merge(urls, tmp_path / "a.json", concat_dim="n", keep_query=("id",))
        done = jnrrdz.batch(urls, tmp_path / "b.json", concat_dim="n")
        assert (done.ok, done.failed) == (1, 1)
        assert "--keep-query" in done.failures[0]["message"]
        done = jnrrdz.batch(urls, tmp_path / "c.json", concat_dim="n", keep_query=("id",))
        assert (done.ok, done.failed) == (2, 0)
    given = {"source_options": {"params": {"token": "SECRET"}}, "allow": [server.url]}
    for name in ("a.json", "c.json"):
        assert not has_secret((tmp_path / name).read_text())
        assert jnrrdz.open_dataset(tmp_path / name, **given)["data"].values[:, 0, 0].tolist() == [1, 2]


def test_manifests_whose_sources_lost_their_names_are_not_put_together(scanned, tmp_path):
    """One server address stands for two files: their times tell that they are two."""
    for number in (1, 2):
        (record,) = scanned.sources
        dated = replace(scanned, sources=(replace(record, modified=f"2024-01-0{number}T00:00:00Z"),))
        with pytest.warns(UserWarning, match="--keep-query"):
            jnrrdz.write(named(dated, f"https://h.org/get?id={number}"), tmp_path / f"{number}.json")
    with pytest.raises(UnrepresentableError, match="two files of one name"):
        jnrrdz.merge([tmp_path / "1.json", tmp_path / "2.json"], tmp_path / "m.json", concat_dim="n")


def test_a_batch_resumes_what_had_a_token(server, tmp_path):
    url = f"{server.url}?id=1&token=SECRET"
    report = tmp_path / "report.jsonl"
    for state in ("ok", "skipped"):
        done = jnrrdz.batch(
            [url], f"{tmp_path}/{{stem}}.json", keep_query=("id",), resume=True, report=report, timeout=20
        )
        assert getattr(done, state) == 1
        assert not has_secret(report.read_text())


def test_datasets_say_where_they_are_from_without_secrets(server):
    url = f"{server.url}?id=1&token=SECRET"
    for chunks in (None, {}):
        opened = xr.open_dataset(url, engine="jnrrdz", chunks=chunks)
        assert opened.encoding["source"] == server.url
        assert not has_secret(repr(opened) + repr(opened.encoding) + repr(opened["data"].encoding) + repr(opened.attrs))
        assert (opened["data"].values == 1).all()
        tree = xr.open_datatree(url, engine="jnrrdz", chunks=chunks)
        assert not has_secret(repr([node.encoding for node in tree.subtree]) + repr(tree))
        if chunks is not None:
            assert not has_secret(repr(list(opened.__dask_graph__())))


@pytest.fixture
def terminal():
    usual = warnings.formatwarning, logging.lastResort.formatter
    hook = sys.excepthook
    guard_terminal()
    yield
    warnings.formatwarning, logging.lastResort.formatter = usual
    sys.excepthook = hook


@pytest.mark.usefixtures("terminal")
def test_what_python_prints_has_neither_secrets_nor_controls(capsys):
    text = f"\x1b[2J\u202e\x9b\x7f {SECRETS['AWS v4'][0]}"
    sys.excepthook(KeyError, KeyError(text), None)
    logging.lastResort.handle(logging.makeLogRecord({"msg": text, "levelno": 40}))
    shown = capsys.readouterr().err + warnings.formatwarning(text, UserWarning, "f.py", 1, "")
    assert not has_secret(shown)
    assert all(line.isprintable() for line in shown.splitlines())
    assert shown.count("h.org") == 3


def test_the_console_alone_prints():
    for path in Path(jnrrdz.cli.__file__).parent.glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {ast.unparse(func) for func in calls} & {"click.echo", "click.secho", "print"}
        assert not names or path.name == "console.py", path


@pytest.mark.parametrize("url", ["//me:SECRET@127.0.0.1:9/a.tif", "//me:SEC\tSECRET@h.org/a.tif"])
def test_no_door_shows_a_password_of_a_url_without_its_scheme(tmp_path, url):
    report = tmp_path / "report.jsonl"
    doors = [
        ["index", "--json", url, "-o", f"{tmp_path}/a.json"],
        ["info", "--json", url],
        ["merge", url, "-o", f"{tmp_path}/m.json", "--concat-dim", "t"],
        ["batch", url, "-o", f"{tmp_path}/{{stem}}.json", "--report", str(report)],
    ]
    for args in doors:
        done = CliRunner().invoke(cli, args)
        assert done.exit_code != 0
        assert not has_secret(done.output + done.stderr + str(done.exception)), args
    assert not has_secret(report.read_text())
    with pytest.raises(JnrrdzError) as error:
        jnrrdz.scan(url)
    assert not has_secret(str(error.value))
