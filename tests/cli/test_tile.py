"""`jnrrdz tile`: what it says, its codes, and that it leaves nothing when it is stopped."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.commands.jnrrd_reader import read

VOLUME = np.arange(6 * 10 * 12, dtype="u2").reshape(6, 10, 12)


@pytest.fixture
def volume(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("volume.npy", VOLUME)
    return "volume.npy"


@pytest.mark.parametrize("external", [False, True])
def test_a_volume(volume, run, tmp_path, external):
    options = ["--compression", "gzip", "--endian", "big", "--levels", "2", "--method", "max", "-j", "1"]
    options += ["--external"] if external else []
    done = run("tile", volume, "-o", "out.jnrrd", "--tile", "5,4,3", *options)
    assert done.stdout == ""
    assert done.stderr.startswith("out.jnrrd: 12x10x6, 2 levels, 22 tiles, ")
    assert len(done.stderr.splitlines()) == 1
    header, levels = read(tmp_path / "out.jnrrd")
    assert (header["endian"], header["tile:compression"]) == ("big", "gzip")
    np.testing.assert_array_equal(levels[0], VOLUME)
    np.testing.assert_array_equal(levels[1], VOLUME[1::2, 1::2, 1::2])


def test_an_image_and_one_of_its_groups(cog, run, tmp_path, pixels):
    run("-q", "tile", cog, "-o", "out.jnrrd", "--tile", "64,64", "--levels", "3")
    np.testing.assert_array_equal(read(tmp_path / "out.jnrrd")[1][0], pixels)
    assert run("-q", "tile", cog, "-o", "half.jnrrd", "--tile", "64,64", "--group", "1").stderr == ""
    assert read(tmp_path / "half.jnrrd")[0]["sizes"] == [250, 150]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tile", "5,4"], "--tile: 5,4 is 2 numbers for 3 axes (x,y,z)"),
        (["--tile", "5,4,three"], "whole numbers"),
        (["--tile", "5,4,0"], "whole numbers"),
        (["--tile", "5,4,3", "--factors", "2,2"], "--factors: 2,2 is 2 numbers"),
        (["--tile", "5,4,3", "--levels", "9"], "ask for 4"),
        (["--tile", "5,4,3", "--compression", "xz"], "'xz'"),
        ([], "--tile"),
    ],
)
def test_wrong_usage(volume, run, options, words):
    done = run("tile", volume, "-o", "out.jnrrd", *options, code=2)
    assert words in done.stderr
    assert os.listdir() == [volume]  # noqa: PTH208


def test_what_exists_is_replaced_when_asked(volume, run):
    arguments = ["tile", volume, "-o", "out.jnrrd", "--tile", "5,4,3"]
    run(*arguments)
    assert "--overwrite" in run(*arguments, code=1).stderr
    run(*arguments, "--overwrite")


def test_booleans_are_refused_by_name(volume, run):
    np.save(volume, VOLUME > 3)
    line = run("tile", volume, "-o", "out.jnrrd", "--tile", "5,4,3", code=1).stderr
    assert line.startswith("error: volume.npy: type: bool; JNRRD has int8")


def command(*arguments):
    return [sys.executable, "-c", "from jnrrdz.cli import main; main()", "tile", *arguments]


def test_progress_is_for_terminals(volume):
    reader, terminal = pty.openpty()
    done = subprocess.run(command(volume, "-o", "out.jnrrd", "--tile", "5,4,3"), stderr=terminal, check=True)
    os.close(terminal)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert done.returncode == 0
    assert "18/18" in shown


def is_writing(process, folder):
    """Whether a process has a file or directory open, named or not, beside the volume."""
    try:
        opened = [str(entry.readlink()) for entry in Path(f"/proc/{process}/fd").iterdir()]
    except OSError:
        return False
    return any(name.startswith(f"{folder}/") and not name.endswith("volume.npy") for name in opened)


@pytest.mark.parametrize(("kind", "external"), [(signal.SIGINT, ["--external"]), (signal.SIGTERM, [])])
def test_a_stopped_run_leaves_nothing(tmp_path, kind, external):
    np.save(tmp_path / "volume.npy", np.zeros((256, 256, 256), "u1"))
    process = subprocess.Popen(
        command("volume.npy", "-o", "out.jnrrd", "--tile", "4,4,4", *external), cwd=tmp_path, stderr=subprocess.PIPE
    )
    guard = threading.Timer(60, process.kill)
    guard.start()
    while not is_writing(process.pid, tmp_path) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(kind)
    _, said = process.communicate()
    guard.cancel()
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 128 + signal.SIGTERM}[kind], said
    assert os.listdir(tmp_path) == ["volume.npy"]  # noqa: PTH208
