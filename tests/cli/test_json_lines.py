"""`--json` in every command, `-` for stdout, exit codes of wrong usage, and what a workflow's runner is told."""

import io
import json
import re

import pytest
import xarray as xr
from click.testing import CliRunner

from jnrrdz.cli import COMMANDS as ALL
from jnrrdz.cli import cli

COMMANDS = {
    "index": (["index", "scene.tif", "nix.tif", "-o", "out/"], {"output", "arrays", "chunks", "requests"}),
    "batch": (["batch", "scene.tif", "nix.tif", "-o", "out/{stem}.json"], {"output", "attempts", "chunks"}),
    "info": (["info", "scene.tif", "nix.tif"], {"arrays", "levels", "requests"}),
    "ls": (["ls", "scene.tif", "nix.tif"], {"nodes"}),
    "verify": (["verify", "refs.json", "nix.json"], {"ok", "findings", "chunks"}),
    "refresh": (["refresh", "refs.json", "nix.json"], {"changed", "sources", "written"}),
    "convert": (["convert", "refs.json", "nix.json", "-o", "out/"], {"output", "arrays", "chunks", "sources"}),
    "preview": (["preview", "scene.tif", "nix.tif", "-o", "out/"], {"output", "width", "height"}),
    "merge": (["merge", "refs.json", "-o", "m.json", "--concat-dim", "t"], {"members", "left_out", "chunks"}),
    "tile": (["tile", "scene.tif", "-o", "s.jnrrd", "--tile", "256,256"], {"output", "tiles", "sizes"}),
    "codecs": (["codecs", "--check", "refs.json"], {"codecs"}),
}


@pytest.fixture
def refs(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    return cog


@pytest.mark.usefixtures("refs")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_for_each_source(name):
    words, members = COMMANDS[name]
    result = CliRunner().invoke(cli, [*words, "--json"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    lines.sort(key=lambda line: line["state"] == "failed")  # those of a batch come as they end
    several = any(word.startswith("nix") for word in words)
    assert [line["state"] for line in lines] == (["ok", "failed"] if several else ["ok"])
    assert {"source", *members} <= lines[0].keys()
    if several:
        assert {"source", "error", "message"} <= lines[1].keys()
        assert "nix" in lines[1]["source"]


@pytest.mark.usefixtures("cog")
def test_commands_without_json_are_serve_and_none_else():
    lacking = {name for name in ALL if "--json" not in cli.get_command(context(name), name).get_help(context(name))}
    assert lacking == {"serve"}
    assert set(COMMANDS) | lacking == set(ALL) - {"cube"}  # its line: tests/commands/test_cube.py


def context(name):
    return cli.make_context("jnrrdz", [name, "--help"], resilient_parsing=True)


@pytest.mark.parametrize("command", [["index", "scene.tif"], ["convert", "refs.json"], ["merge", "refs.json"]])
def test_a_manifest_on_stdout_is_the_one_of_a_file(refs, run, command):
    more = ["--concat-dim", "t"] if command[0] == "merge" else []
    printed = run(*command, *more, "-o", "-").stdout_bytes
    run(*command, *more, "-o", "file.json")
    assert printed == refs.with_name("file.json").read_bytes()
    refs.with_name("printed.json").write_bytes(printed)
    with xr.open_dataset("printed.json", group="0") as found:
        assert found.sizes["x"] == 500


@pytest.mark.usefixtures("refs")
def test_what_stdout_does_not_take(run):
    for words in (["-f", "parquet"], ["--relative"], ["--json"]):
        for command in (["index", "scene.tif"], ["convert", "refs.json"], ["merge", "refs.json", "--concat-dim", "t"]):
            run(*command, "-o", "-", *words, code=2)
    run("preview", "scene.tif", "refs.json", "-o", "-", code=2)


@pytest.mark.usefixtures("cog")
def test_the_report_of_a_batch_on_stdout(run):
    (line,) = map(json.loads, run("batch", "scene.tif", "-o", "out/{stem}.json", "--report", "-").stdout.splitlines())
    assert (line["source"], line["state"]) == ("scene.tif", "ok")


WRONG = [
    "index scene.tif -o x.jsn",
    "index scene.tif -o y.zarr",
    "index scene.tif refs.json -o one.json",
    "convert refs.json -o x.zarr",
    "convert refs.json -o x.json --rewrite-prefix nothing",
    "convert refs.json -o x.json --rewrite-prefix s3://a=s3://b",
    "merge refs.json -o x.tif --concat-dim t",
    "merge refs.json -o x.json --concat-dim t --coord-from ((",
    "merge refs.json -o x.json --concat-dim t --coord-from [0-9]+",
    "batch scene.tif -o {stem}.jsn",
    "batch scene.tif -o {nope}.json",
    "batch scene.tif -o {stem}.json --since yesterday",
    "batch scene.tif -o x.json --concat-dim t --resume",
    "tile scene.tif -o x.tif --tile 64,64",
    "preview scene.tif -o x.jpg",
    "verify refs.json --deep --drift",
]


@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_ends_with_2_and_writes_nothing(refs, run, line):
    before = sorted(refs.parent.rglob("*"))
    command, *words = line.split()
    if words[:2] == ["scene.tif", "refs.json"]:
        words[1] = "scene.tif"
        refs.with_name("other.tif").write_bytes(refs.read_bytes())
        words[1] = "other.tif"
        before = sorted(refs.parent.rglob("*"))
    result = run(command, *words, code=2)
    assert re.search(r"^(?:error|Error): ", result.stderr, re.MULTILINE)
    assert sorted(refs.parent.rglob("*")) == before


def test_known_endings_are_listed(cog, error_line):
    line = error_line("index", cog, "-o", "y.zarr", code=2)
    assert all(ending in line for ending in (".zarr", ".json", ".parquet", ".icechunk", "--format"))


COUNTED = {
    "verify": "1 manifest, 0 findings, 1 failed",
    "refresh": "1 manifest, 1 failed",
    "batch": "0 ok, 0 skipped, 1 failed",
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_workflow_is_told(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    (tmp_path / "summary.md").write_text("before\n")
    source = "a,b%<b>|.json" if name != "batch" else "a,b%<b>|.tif"
    words = ["-o", "{stem}.json"] if name == "batch" else []
    result = run(name, source, *words, code=3 if name == "batch" else 1)
    found = re.findall(r"^::error file=([^,]*),title=jnrrdz::(.*)$", result.stderr, re.MULTILINE)
    assert [place for place, _ in found] == [source.replace("%", "%25").replace(",", "%2C")]
    assert "not found" in found[0][1]
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith(f"before\n<p>jnrrdz {name}: {COUNTED[name]}</p>\n<table>")
    assert "a,b%&lt;b&gt;|" in summary
    assert "<b>" not in summary


@pytest.mark.parametrize("name", ["index", "batch", "verify", "refresh"])
def test_a_url_is_no_file_of_the_repository(run, http_server, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ending = ".tif" if name in {"index", "batch"} else ".json"
    url = f"{http_server.url}/missing{ending}"
    words = ["-o", "{stem}.json"] if name == "batch" else ["-o", "a.json"] if name == "index" else []
    result = run(name, url, *words, code=3 if name == "batch" else 1)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("::error")]
    assert line.startswith(f"::error title=jnrrdz::{url}: ")
    assert line.count(url) == 1


def test_findings_of_verify_are_annotations(refs, run, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    refs.write_bytes(refs.read_bytes()[:-100])
    result = run("verify", "refs.json", code=4)
    assert "::error file=refs.json,title=jnrrdz::drift%3A" in result.stderr.replace("drift:", "drift%3A")


def test_nothing_that_is_printed_is_a_command_to_the_runner(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    refs = {"zarr.json": group, "::add-mask::a/zarr.json": group, "##[error]b/zarr.json": group}
    (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": refs}))
    assert run("ls", "r.json").stdout.splitlines()[0].startswith("::")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    printed = run("ls", "r.json").stdout
    assert not re.search(r"^\s*::|##\[", printed, re.MULTILINE)
    assert "add-mask" in printed


def test_a_list_on_stdin(refs, tmp_path):
    other = tmp_path / "other.tif"
    other.write_bytes(refs.read_bytes())
    result = CliRunner().invoke(cli, ["info", "-"], input=io.BytesIO(b"# two\nscene.tif\n\nother.tif\n"))
    assert (result.exit_code, result.stdout.count("format ")) == (0, 2)
