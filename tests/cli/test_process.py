"""The command as users start it: what it imports, signals, pipes, colours, completion."""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jnrrdz.cli import COMMANDS, cli

HEAVY = {"numpy", "xarray", "zarr", "fsspec", "tifffile", "imagecodecs", "aiohttp", "pyarrow", "jnrrdz.api"}
PROGRAM = [sys.executable, "-c", "from jnrrdz.cli import main; main()"]


def started(*args, environment=None, **options):
    env = {**os.environ, **(environment or {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*PROGRAM, *map(str, args)], env=env, text=True, **pipes)


def ran(*args, **options):
    process = started(*args, **options)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["index", "--help"], ["info", "-h"], ["codecs", "-h"]])
def test_help_imports_nothing_heavy(args):
    code = f"""
import sys
from jnrrdz.cli import cli
try:
    cli({args!r})
except SystemExit as end:
    print("exit", end.code, sorted({HEAVY!r} & set(sys.modules)))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "exit 0 []"


@pytest.mark.parametrize("command", ["index", "info", "ls", "codecs"])
def test_every_help_has_an_example_of_its_command(run, command):
    shown = run(command, "-h").stdout
    assert re.search(rf"^  Examples?:\n    jnrrdz {command}", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 100


def test_version(run):
    assert run("--version").stdout == f"jnrrdz {importlib.metadata.version('jnrrdz')}\n"


def test_entry_point_is_installed():
    (found,) = importlib.metadata.entry_points(group="console_scripts", name="jnrrdz")
    assert found.value == "jnrrdz.cli:main"


def test_codes_and_streams(cog):
    assert ran("index", cog, "-o", "refs.json")[0] == 0
    code, out, err = ran("info", "refs.json", "--json")
    assert (code, json.loads(out)["levels"], err) == (0, 3, "")
    code, out, err = ran("info", "missing.tif")
    assert (code, out) == (1, "")
    assert re.fullmatch("error: .*missing.tif: not found.*\n", err)
    assert ran("info")[0] == 2


@pytest.mark.parametrize("args", [["ls", "-r"], ["-q", "index", "-o", "-"]])
def test_reader_that_has_left_is_no_matter_for_a_line(cog, args):
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = ran(*args, cog, stdout=writer)
    os.close(writer)
    assert (code, err) == (1, "")


SLOW_TO_CLEAN = """
import os, signal, shutil, sys
from jnrrdz.cli import main
from jnrrdz.manifests import parquet

def written(*_):
    os.kill(os.getpid(), signal.{name})

rmtree, parquet._write_records = shutil.rmtree, written

def slow(path, *more):
    for _ in range({more}):
        os.kill(os.getpid(), signal.{name})
    rmtree(path, *more)

shutil.rmtree = slow
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("more", [1, 2])
def test_a_second_signal_does_not_disturb_the_cleaning_up_and_a_third_ends_it(cog, tmp_path, name, more):
    out = tmp_path / "out"
    out.mkdir()
    code = SLOW_TO_CLEAN.format(name=name, more=more)
    script = f"import signal; signal.signal(signal.{name}, signal.default_int_handler);{code}"
    done = subprocess.run(
        [sys.executable, "-c", script, "index", cog, "-o", out / "r.parquet"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}[name], done.stderr
    assert len(os.listdir(out)) == (more - 1)  # noqa: PTH208  names are what counts
    # what was left is gone when the output is written again
    again = subprocess.run([*PROGRAM, "index", cog, "-o", out / "r.parquet"], capture_output=True, check=False)
    assert (again.returncode, os.listdir(out)) == (0, ["r.parquet"]), again.stderr  # noqa: PTH208


def test_signals_that_the_caller_ignores_stay_ignored():
    code = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from jnrrdz.cli import end_in_order
end_in_order()
print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "True False\n"


def test_a_batch_looks_for_garbage_as_often_as_python(cog, tmp_path):
    code = """
import atexit, gc
usual = gc.get_threshold()
atexit.register(lambda: print(gc.get_threshold() == usual))
from jnrrdz.cli import main
main()
"""
    for command, is_usual in (("batch", "True"), ("index", "False")):
        words = [sys.executable, "-c", code, "-q", command, str(cog), "-o", f"{tmp_path}/{command}-{{stem}}.json"]
        shown = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
        assert shown.splitlines()[-1] == is_usual


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="Linux's /dev/full")
@pytest.mark.parametrize("args", [["info"], ["-q", "index", "-o", "-"]])
def test_full_disk_behind_stdout_is_told(cog, args):
    with FULL.open("w", encoding="utf-8") as full:
        code, _, err = ran(*args, cog, stdout=full)
    assert (code, err) == (1, "error: No space left on device\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_the_run_and_leave_nothing(make_http_server, cog_bytes, tmp_path, number, code):
    server = make_http_server(files={"/scene.tif": cog_bytes}, latency=3)
    process = started("index", f"{server.url}/scene.tif", "-o", tmp_path / "out" / "", cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not server.log and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert err in {"interrupted\n", ""}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_terminals_only_and_can_be_refused(environment, coloured):
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [*PROGRAM, "info", "missing.tif"],
        env={**clean, **environment},
        stderr=writer,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    os.close(writer)
    shown = os.read(reader, 4096).decode()
    os.close(reader)
    assert "missing.tif" in shown
    assert ("\x1b[" in shown) == coloured
    assert "\x1b[" not in ran("info", "missing.tif", environment={})[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    source = ran(environment={"_JNRRDZ_COMPLETE": f"{shell}_source"})
    assert source[0] == 0
    assert "_JNRRDZ_COMPLETE" in source[1]
    words = {"COMP_WORDS": "jnrrdz in", "COMP_CWORD": "in" if shell == "fish" else "1"}
    completed = ran(environment={"_JNRRDZ_COMPLETE": f"{shell}_complete", **words})[1]
    assert set(re.findall(r"\b(?:index|info|codecs)\b", completed.split("Write")[0] + completed)) == {"index", "info"}


def test_icechunk_says_nothing_of_its_own(cog):
    pytest.importorskip("icechunk")
    code, out, err = ran("index", cog, "-o", "refs.icechunk", "-q", environment={"PYTHONWARNINGS": "error"})
    assert (code, out, err) == (0, "", "")


def test_document_tells_every_option():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        command = cli.get_command(None, name)
        assert f"## {command.name}\n" in text
        for option in (option for parameter in command.params for option in parameter.opts if option[0] == "-"):
            assert f"`{option}" in text, f"{command.name} {option}"
