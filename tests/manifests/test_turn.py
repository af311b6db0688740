"""A run's turn to write an output: who waits, who is refused, and what a killed run leaves."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import numpy as np
import pytest
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.commands import refresh
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests import atomic, parquet, turns
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import load, remove
from jnrrdz.options import WriteOptions
from tests import writers
from tests.manifests import many_sources
from tests.servers.fixtures import bucket, seaweed

__all__ = ["bucket", "seaweed"]

HOLDER = """
import sys, time
from jnrrdz.manifests import atomic
with atomic.writing(atomic.locate(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(600)
"""
DAYS = ("20240101", "20240102", "20240103", "20240104")


@contextmanager
def holding(out):
    """Yield a process that has the turn to write an output."""
    command = [sys.executable, "-c", HOLDER, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "mine\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def holder(tmp_path):
    """Return a process that has the turn to write `out.json`."""
    with holding(tmp_path / "out.json") as process:
        yield process


@pytest.fixture
def scene(tmp_path):
    many_sources.write_scene(tmp_path, 0)
    return tmp_path / "scene_000.tif"


def locks(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith(".jnrrdz")]


def test_who_waits_too_long_is_told_for_whom(tmp_path, scene, holder, monkeypatch):
    out = tmp_path / "out.json"
    jnrrdz.index(scene, out)
    before = out.read_bytes()
    monkeypatch.setattr(turns, "WAIT", 0.05)
    words = [
        ["index", scene, "-o", out, "--overwrite"],
        ["merge", scene, scene, "-o", out, "--concat-dim", "t", "--overwrite"],
        ["refresh", out],
        ["cube", scene, "-o", out, "--append"],
    ]
    for each in words:
        run = CliRunner().invoke(cli, [str(word) for word in each])
        assert run.exit_code != 0, each
        assert f"process {holder.pid} of " in run.stderr, each
        assert "was not done within 0.05 s" in run.stderr, each
    assert out.read_bytes() == before


def test_the_lock_of_a_killed_run_is_free(tmp_path, scene, holder, monkeypatch):
    out = tmp_path / "out.json"
    jnrrdz.index(scene, out)
    assert locks(tmp_path) == [".out.json.lock.jnrrdz"]
    holder.kill()
    holder.wait()
    monkeypatch.setattr(turns, "WAIT", 0.05)
    jnrrdz.merge([scene, scene], out, concat_dim="t", overwrite=True)
    assert jnrrdz.open_group(out)["data"].shape[0] == 2
    assert not locks(tmp_path)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_new_output_needs_no_turn(tmp_path, scene, form, monkeypatch):
    out = tmp_path / f"out.{form}"
    monkeypatch.setattr(turns, "WAIT", 0.05)
    with holding(out) as process:
        jnrrdz.index(scene, out)
        with pytest.raises(JnrrdzError, match=f"process {process.pid} of "):
            jnrrdz.index(scene, out, overwrite=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_parquet_output_that_another_run_made_meanwhile(tmp_path, scene, overwrite, monkeypatch):
    (tmp_path / "other").mkdir()
    many_sources.write_scene(tmp_path / "other", 1)
    write_records = parquet._write_records  # noqa: SLF001  the moment between
    out = tmp_path / "out" / "a.parquet"
    out.parent.mkdir()

    def another_first(*arguments):
        monkeypatch.undo()
        jnrrdz.index(tmp_path / "other" / "scene_001.tif", out)
        write_records(*arguments)

    monkeypatch.setattr(parquet, "_write_records", another_first)
    if overwrite:
        jnrrdz.index(scene, out, overwrite=True)
    else:
        with pytest.raises(JnrrdzError, match="exists already"):
            jnrrdz.index(scene, out)
    stays = 0 if overwrite else 1
    np.testing.assert_array_equal(jnrrdz.open_group(out)["data"][...], many_sources.pixels(stays))
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert files == {".zmetadata", "data/refs.0.parq"}
    assert [path.name for path in out.parent.iterdir()] == ["a.parquet"]


def test_a_look_at_what_changed_needs_no_turn(tmp_path, scene, holder, monkeypatch):
    jnrrdz.index(scene, tmp_path / "out.json")
    monkeypatch.setattr(turns, "WAIT", 0.05)
    assert jnrrdz.refresh(tmp_path / "out.json", dry_run=True).changed == ()
    assert holder.poll() is None


def test_a_batch_that_resumes_sweeps_the_lock_of_a_killed_run(tmp_path, scene, holder):
    holder.kill()
    holder.wait()
    assert locks(tmp_path) == [".out.json.lock.jnrrdz"]
    words = ["batch", str(scene), "-o", f"{tmp_path}/{{stem}}.json", "--resume"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert not locks(tmp_path)


def test_a_file_system_without_locks_is_a_warning(tmp_path, scene, monkeypatch):
    out = tmp_path / "out.json"
    jnrrdz.index(scene, out)

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="this file system has no locks"):
        jnrrdz.refresh(out)
    assert not locks(tmp_path)


def test_a_folder_reached_through_a_link_is_the_same_turn(tmp_path, scene, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(turns, "WAIT", 0.05)
    place = atomic.locate(str(tmp_path / "real" / "a.json"))
    with atomic.writing(place) as turn:
        linked = atomic.locate(str(tmp_path / "link" / "a.json"))
        with atomic.writing(linked) as same:
            assert same is turn
        jnrrdz.index(scene, tmp_path / "link" / "a.json", overwrite=True)


def test_two_batches_never_share_a_report(tmp_path, scene):
    report, out = str(tmp_path / "report.jsonl"), f"{tmp_path}/{{stem}}.json"
    words = ["batch", str(scene), "-o", out, "--report", report, "--overwrite"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    lines = Path(report).read_bytes()
    command = [sys.executable, "-c", HOLDER, report]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "mine\n"
        run = CliRunner().invoke(cli, words)
        process.kill()
    assert run.exit_code != 0
    assert f"process {process.pid} of " in run.stderr
    assert Path(report).read_bytes() == lines


# Stores


def test_an_object_that_came_meanwhile_is_not_replaced(seaweed, bucket):
    url, options = f"s3://{bucket}/a.json", seaweed.options()
    with ExitStack() as stack:
        stream = stack.enter_context(atomic.new_file(url, storage_options=options))
        stream.write(b"ours")
        seaweed.put(bucket, "a.json", b"another's")
        with pytest.raises(JnrrdzError, match="exists already"):
            stack.close()
    assert seaweed.get(bucket, "a.json") == b"another's"


def test_a_request_that_was_done_twice_is_no_rival(seaweed, bucket):
    fs = fsspec.filesystem("s3", skip_instance_cache=True, **seaweed.options())
    path, url = f"{bucket}/a", f"s3://{bucket}/a"
    first = turns.put_if(fs, path, b"ours", None, url)
    # its answer got lost, and the client asks again
    assert turns.put_if(fs, path, b"ours", None, url) == first
    later = turns.put_if(fs, path, b"next", first, url)
    with pytest.raises(turns.ChangedError, match="another run changed it meanwhile"):
        turns.put_if(fs, path, b"other", first, url)
    assert turns.put_if(fs, path, b"next", first, url) == later
    seaweed.client.delete_object(Bucket=bucket, Key="a")
    with pytest.raises(turns.ChangedError):
        turns.put_if(fs, path, b"last", later, url)


class WithoutConditions(BaseHTTPRequestHandler):
    """Passes requests on to a store, and answers 501 where a PUT has a condition."""

    protocol_version = "HTTP/1.1"
    port = 0

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_conditional = "If-Match" in self.headers or "If-None-Match" in self.headers
        if self.command == "PUT" and is_conditional:
            self.answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
            return
        connection = HTTPConnection("127.0.0.1", self.port)
        with closing(connection):
            headers = {name: text for name, text in self.headers.items() if name != "Expect"}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            self.answer(response.status, dict(response.getheaders()), response.read())

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward  # noqa: N815  the base class has these names

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, text in headers.items():
            if name not in {"Content-Length", "Transfer-Encoding", "Connection"}:
                self.send_header(name, text)
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def without_conditions(seaweed):
    """Return the options of a store that knows no conditions."""
    options = seaweed.options()
    port = int(options["endpoint_url"].rpartition(":")[2])
    handler = type("Handler", (WithoutConditions,), {"port": port})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {**options, "endpoint_url": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_store_that_refuses_conditions(seaweed, bucket, scene, form, without_conditions):
    """What is written whole is written without them; what was read first is refused."""
    url, options = f"s3://{bucket}/a.{form}", without_conditions
    for overwrite in (False, True):
        jnrrdz.index(scene, url, overwrite=overwrite, target_options=options)
    before = {key: seaweed.get(bucket, key) for key in seaweed.keys(bucket)}
    many_sources.write_scene(scene.parent, 0, seed=1, written=many_sources.WRITTEN + 10, gap=64)
    with pytest.raises(JnrrdzError, match=r"this store knows no conditions \(If-Match\)"):
        jnrrdz.refresh(url, storage_options=options, source_options={}, allow=("*",))
    assert before == {key: seaweed.get(bucket, key) for key in seaweed.keys(bucket)}
    jnrrdz.index(scene, url, overwrite=True, target_options=options)
    group = jnrrdz.open_group(url, storage_options=options, source_options={}, allow=("*",))
    np.testing.assert_array_equal(group["data"][...], many_sources.pixels(0, 1))


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_manifest_is_removed_from_a_store_as_it_was_read(seaweed, bucket, scene, form, is_changed, monkeypatch):  # noqa: PLR0913, PLR0917  four of them are fixtures
    """`refresh --prune` removes none that another run wrote meanwhile."""
    url, options = f"s3://{bucket}/a.{form}", seaweed.options()
    jnrrdz.index(scene, url, target_options=options)
    scene.unlink()
    many_sources.write_scene(scene.parent, 1)

    def prune():
        return jnrrdz.refresh(url, prune=True, storage_options=options, source_options={}, allow=("*",))

    def replaced_first(*arguments):
        monkeypatch.undo()
        another = threading.Thread(
            target=jnrrdz.index,
            args=(scene.parent / "scene_001.tif", url),
            kwargs={"overwrite": True, "target_options": options},
        )
        another.start()
        another.join()
        remove(*arguments)

    if not is_changed:
        assert prune().removed
        assert seaweed.keys(bucket) == []
        return
    monkeypatch.setattr(refresh, "remove", replaced_first)
    with pytest.raises(turns.ChangedError, match="another run changed it meanwhile"):
        prune()
    group = jnrrdz.open_group(url, storage_options=options, source_options={}, allow=("*",))
    np.testing.assert_array_equal(group["data"][...], many_sources.pixels(1))


@pytest.fixture
def days(tmp_path):
    """Write a file for each day, and return their paths."""
    paths = [tmp_path / f"d_{day}.tif" for day in DAYS]
    for number, path in enumerate(paths):
        choices = {"tiled": True, "blockxsize": 16, "blockysize": 16, **writers.PLACE}
        writers.geotiff(path, pixels(number), **choices)
    return [str(path) for path in paths]


def pixels(number):
    return np.random.default_rng(number).integers(1, 60000, (32, 48)).astype("u2")


class Cube:
    """A cube of Parquet in a store, in records of few chunks."""

    def __init__(self, seaweed, bucket, days, folder):
        self.url, self.days = f"s3://{bucket}/c.parquet", days
        self.options, self.seaweed, self.bucket = seaweed.options(), seaweed, bucket
        self.whole = str(folder / "whole.json")
        jnrrdz.cube(days[:2], self.whole, time_from="_([0-9]{8})")
        form = WriteOptions(overwrite=True, target_options=self.options)
        group = group_from_manifest(load(self.whole))
        parquet.write(group, self.url, form, record_size=4)

    def append(self, number):
        jnrrdz.cube(
            [self.days[number]],
            self.url,
            append=True,
            overwrite=True,
            time_from="_([0-9]{8})",
            target_options=self.options,
            allow=("*",),
        )

    def check(self, *numbers):
        group = jnrrdz.open_group(self.url, storage_options=self.options, source_options={}, allow=("*",))
        expected = [pixels(number) for number in numbers]
        np.testing.assert_array_equal(group["data"][:, 0], expected)


@pytest.fixture
def cube(seaweed, bucket, days, tmp_path):
    return Cube(seaweed, bucket, days, tmp_path)


def meanwhile(monkeypatch, work, number):
    """Let another thread do some work before the n-th file is put to its place."""
    put, counted = atomic.OutputPath.put, []

    def pausing(place, source):
        if threading.current_thread() is threading.main_thread():
            counted.append(place)
            if len(counted) == number:
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
        put(place, source)

    monkeypatch.setattr(atomic.OutputPath, "put", pausing)
    return counted


@pytest.mark.parametrize("number", range(1, 4))
def test_a_run_that_slept_writes_into_no_other_cube(cube, monkeypatch, number):
    """It had announced itself, slept too long, and another run took its turn."""
    monkeypatch.setattr(turns, "LEASE", 0)
    done = meanwhile(monkeypatch, lambda: cube.append(2), number)
    with pytest.raises(turns.ChangedError, match="another run changed it meanwhile"):
        cube.append(3)
    assert len(done) >= number
    cube.check(0, 1, 2)
    cube.append(3)
    cube.check(0, 1, 2, 3)


def intrude(cube, name):
    """Write a file as a run does that slept, and wakes in the middle of another's turn."""
    cube.seaweed.put(cube.bucket, f"c.parquet/{name}", b"of a run that slept")


def test_a_run_that_wakes_in_anothers_append_spoils_nothing(cube, monkeypatch):
    name = "data/refs.3.parq"
    with monkeypatch.context() as patch:
        meanwhile(patch, lambda: intrude(cube, name), 1)
        with pytest.raises(turns.ChangedError):
            cube.append(2)
    cube.check(0, 1)
    cube.append(2)  # at once: the refused run has taken back what it announced
    cube.check(0, 1, 2)


def test_a_run_that_wakes_in_anothers_replacement_spoils_nothing(cube, monkeypatch):
    count = len(cube.seaweed.keys(cube.bucket)) - 1
    name = "data/refs.1.parq"
    done = meanwhile(monkeypatch, lambda: intrude(cube, name), count + 1)
    group = group_from_manifest(load(cube.whole))
    form = WriteOptions(overwrite=True, target_options=cube.options)
    parquet.write(group, cube.url, form, record_size=4)
    assert len(done) > 2 * count  # once into a folder, and twice to their places
    cube.check(0, 1)
    text = cube.seaweed.get(cube.bucket, "c.parquet/.zmetadata")
    assert turns.token_in(text) is None


def test_what_a_killed_run_announced_ends_by_itself(cube, monkeypatch):
    """The next run waits, sees nothing change, and goes on."""

    def killed(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_put_announced", killed)
        patch.setattr(parquet, "_is_still", killed)
        with pytest.raises(SystemExit):
            cube.append(2)
    text = cube.seaweed.get(cube.bucket, "c.parquet/.zmetadata")
    assert turns.token_in(text) is not None
    cube.check(0, 1)
    monkeypatch.setattr(turns, "LEASE", 0.05)
    cube.append(2)
    cube.check(0, 1, 2)
    text = cube.seaweed.get(cube.bucket, "c.parquet/.zmetadata")
    assert turns.token_in(text) is None


class Elsewhere(MemoryFileSystem):
    """A store that knows no conditions."""

    protocol = "elsewhere"


def test_a_store_without_conditions_is_a_warning(days):
    fsspec.register_implementation("elsewhere", Elsewhere, clobber=True)
    rules = {"time_from": "_([0-9]{8})", "allow": ("*",)}
    jnrrdz.cube(days[:2], "elsewhere://c.json", overwrite=True, **rules)
    with pytest.warns(UserWarning, match="nothing is written under a condition"):
        jnrrdz.cube(days[2:3], "elsewhere://c.json", append=True, **rules)
    # nothing changed, so nothing is written
    assert jnrrdz.refresh("elsewhere://c.json", allow=("*",)).changed == ()
