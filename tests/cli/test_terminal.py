"""Nothing that is printed drives a terminal: names of files, of manifests' arrays, and what errors quote."""

import json

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner

from jnrrdz.cli import cli

HOSTILE = "a\x1b[2J\x1b]0;x\x07\x9b1m\u202etxt\u2066\u200f\x7f\r"


def printed(*args):
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert all(line.isprintable() for line in done.output.split("\n")), args
    return done


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A folder with a picture, a file that is none and a manifest, all of hostile names and with hostile content."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    tifffile.imwrite(tmp_path / "in" / f"{HOSTILE}.tif", np.zeros((16, 16), np.uint8))
    (tmp_path / "in" / f"{HOSTILE}-bad.tif").write_bytes(HOSTILE.encode())
    printed("index", tmp_path / "in" / f"{HOSTILE}.tif", "-o", tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    name = json.dumps(json.dumps(HOSTILE)[1:-1])[1:-1]
    inner = json.dumps(HOSTILE)[1:-1]
    hostile = text.replace('"data/', f'"{inner}/').replace('\\"data\\"', f'\\"{name}\\"')
    (tmp_path / f"{HOSTILE}.json").write_text(hostile)
    return tmp_path


def test_no_command_prints_what_drives_a_terminal(hostile):
    folder, manifest = hostile / "in", hostile / f"{HOSTILE}.json"
    assert "\\x1b" in printed("batch", "--dry-run", f"{folder}/", "-o", "o/{index}.json").stdout
    printed("batch", "--dry-run", f"{folder}/", "-o", "{stem}.json")
    assert "\\x1b" in printed("batch", f"{folder}/", "-o", "{index}.json").stderr
    bad = folder / f"{HOSTILE}-bad.tif"
    for args in (["index", bad, "-o", "x.json"], ["info", bad], ["ls", hostile / HOSTILE], ["verify", bad]):
        assert "Traceback" in printed("-v", *args).stderr
    for args in (["info"], ["ls", "-l"], ["ls", "-r"], ["verify"], ["codecs", "--check"]):
        shown = printed(*args, manifest).output
        assert "\\x1b" in shown or args[0] == "codecs"
    printed("index", bad, bad, "-o", f"{HOSTILE}/")
    printed("index", "--chain", HOSTILE, bad, "-o", "x.json")
    printed("merge", manifest, bad, "-o", "y.json", "--concat-dim", HOSTILE)
    printed("convert", manifest, "-o", HOSTILE, "--rewrite-prefix", HOSTILE)


def test_json_stays_json(hostile):
    for args in (["info"], ["verify", "--drift"]):
        found = json.loads(printed(*args, "--json", hostile / "in" / f"{HOSTILE}.tif").stdout)
        assert found["source"].endswith(f"{HOSTILE}.tif")
