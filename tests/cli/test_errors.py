"""What goes wrong is one line on stderr and an exit code, and leaves nothing."""

import os
import warnings

import pytest

JP2 = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 " + bytes(80)
J2K = b"\xff\x4f\xff\x51\0\x2f" + bytes(80)

COMMANDS = {
    "index": lambda name: ("index", name, "-o", "out.json"),
    "info": lambda name: ("info", name),
    "ls": lambda name: ("ls", name),
    "codecs": lambda name: ("codecs", "--check", name),
}


@pytest.fixture(params=COMMANDS)
def command(request):
    return COMMANDS[request.param]


NO_SOURCES = [
    ("missing.tif", None, "missing.tif: not found"),
    ("missing.parquet", None, "missing.parquet"),
    ("folder", "folder", "the folder holds no "),
    (
        "random.tif",
        bytes(range(7, 207)),
        "starts with 07 08 09 0a 0b 0c 0d 0e, which is not a format",
    ),
    ("empty.tif", b"", "the file is empty"),
    ("image.jp2", JP2, "no codestream in the file itself"),
    ("image.j2k", J2K, "where the main header goes on"),
    ("header.tif", b"II*\0", "header.tif"),
    ("no.txt", b"{}", "this is JSON, which is not a format that jnrrdz reads; it reads TIFF"),
    ("a\x1bb.tif", None, "a\\x1bb.tif: not found"),
]


@pytest.fixture(params=NO_SOURCES, ids=[name for name, _, _ in NO_SOURCES])
def no_source(request, tmp_path, monkeypatch):
    """A name that leads to no image in the working directory, and what is to be said of it."""
    monkeypatch.chdir(tmp_path)
    name, content, words = request.param
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    return name, words


def test_sources_that_are_none(no_source, tmp_path, command, error_line):
    before = sorted(tmp_path.iterdir())
    name, words = no_source
    assert words in error_line(*command(name))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("kept", [0.02, 0.5])
def test_truncated_image(cog, command, error_line, kept):
    data = cog.read_bytes()
    cog.write_bytes(data[: int(len(data) * kept)])
    line = error_line(*command("scene.tif"))
    assert "scene.tif: " in line
    assert "truncated" in line
    assert sorted(path.name for path in cog.parent.iterdir()) == ["scene.tif"]


def test_truncated_overviews_are_left_out(cog, command, run):
    """The image itself is whole: GDAL reads it too."""
    data = cog.read_bytes()
    cog.write_bytes(data[: int(len(data) * 0.9)])
    lines = run(*command("scene.tif")).stderr.splitlines()
    (warning,) = [line for line in lines if line.startswith("warning: ")]
    assert "scene.tif: left out, not readable: " in warning
    assert "the file is truncated" in warning


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "holds no zarr.json"),
        ("[1, 2]", "not a reference manifest"),
        ("{", "not JSON"),
        ('{"version": 1, "refs": {".zgroup": "{}"}}', "zarr_format"),
        ('{"version": 1, "refs": {"zarr.json": "[]"}}', "hand.json"),
    ],
)
@pytest.mark.parametrize("name", ["info", "ls", "codecs"])
def test_manifests_that_are_none(tmp_path, error_line, name, content, words):
    (tmp_path / "hand.json").write_text(content, encoding="utf-8")
    assert words in error_line(*COMMANDS[name](tmp_path / "hand.json"))


def test_repository_is_named(cog, run):
    pytest.importorskip("icechunk")
    run("-q", "index", cog, "-o", "repository", "-f", "icechunk")
    assert "Icechunk repository" in run("info", "repository").stdout


@pytest.mark.usefixtures("cog")
def test_permission(command, error_line, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(13, os.strerror(13), path)

    monkeypatch.setattr("jnrrdz.sources.local.os.open", refuse)
    assert "permission denied" in error_line(*command("scene.tif"))


def test_permission_to_write(cog, error_line, monkeypatch):
    real = os.open

    def refuse(path, flags, *mode, **place):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, os.strerror(13), str(path))
        return real(path, flags, *mode, **place)

    monkeypatch.setattr("os.open", refuse)
    assert error_line("index", cog, "-o", "out.json").endswith("out.json: cannot be written: Permission denied")
    assert list(cog.parent.iterdir()) == [cog]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "error: No space left on device"),
        (OSError(5, "Input/output error", "a\x1b.tif"), "error: a\\x1b.tif: Input/output error"),
        (OSError("of a library"), "error: of a library"),
        (TimeoutError(), "error: TimeoutError"),
    ],
)
def test_errors_of_the_system(cog, error_line, monkeypatch, error, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("jnrrdz.formats.scanning.scan", fail)
    assert error_line("info", cog) == line


def test_no_other_exception_is_hidden(cog, run, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("jnrrdz.formats.scanning.scan", fail)
    with pytest.raises(ZeroDivisionError):
        run("info", cog)


def test_interrupted(cog, run, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("jnrrdz.manifests.json._write_lines", stop)
    assert run("index", cog, "-o", "out.json", code=130).stderr == "interrupted\n"
    assert list(cog.parent.iterdir()) == [cog]


def test_interruption_stops_a_batch(cog, run, monkeypatch):
    seen = []

    def stop(source, *_, **__):
        seen.append(source)
        raise KeyboardInterrupt

    monkeypatch.setattr("jnrrdz.api.index", stop)
    run("index", cog, "other.tif", "-o", "out", code=130)
    assert seen == [str(cog)]


@pytest.mark.parametrize("args", [("-v", "info"), ("info", "-v")])
def test_verbose_shows_the_traceback_before_the_line(run, args):
    lines = run(*args, "missing.tif", code=1).stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.startswith("FileNotFoundError") for line in lines)
    assert lines[-1].startswith("error: ")


# Warnings


@pytest.fixture
def noisy(monkeypatch):
    """Scans that warn, twice the same way."""
    from jnrrdz.formats import scanning  # noqa: PLC0415  the real one, before it is replaced

    real = scanning.scan

    def scan(*args, **options):
        for text in ("a\nstrange tag", "a\nstrange tag", "another"):
            warnings.warn(text, stacklevel=1)
        return real(*args, **options)

    monkeypatch.setattr("jnrrdz.formats.scanning.scan", scan)


@pytest.mark.usefixtures("noisy")
def test_warnings_are_lines_once_for_each_source(cog, run):
    (cog.parent / "other.tif").write_bytes(cog.read_bytes())
    result = run("index", "scene.tif", "other.tif", "-o", "out")
    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert lines == [
        f"warning: {name}: {text}" for name in ("scene.tif", "other.tif") for text in ("a\\nstrange tag", "another")
    ]
    assert len(result.stderr.splitlines()) == 6
    assert run("info", "scene.tif", "--json").stdout.startswith("{")


@pytest.mark.usefixtures("noisy")
def test_warnings_with_detail_and_without(cog, run):
    detailed = run("-v", "info", cog).stderr.splitlines()
    assert all("(UserWarning, " in line and "test_errors.py:" in line for line in detailed)
    assert len(detailed) == 2
    assert run("-q", "info", cog).stderr == ""
