"""Workers that die, on this machine and on a cluster; what is left behind; what is kept in memory."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from jnrrdz.batches import executors as processes
from jnrrdz.batches import run
from jnrrdz.batches.executors import Ahead
from jnrrdz.batches.item import Found, Template
from jnrrdz.batches.run import Jobs
from jnrrdz.manifests import atomic
from tests.batch.conftest import image

MANY = 300


@pytest.fixture
def images(tmp_path):
    """Return a folder of many small images, and one for outputs."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(MANY):
        (folder / f"w{number:03}.tif").write_bytes(image(number % 7))
    return folder


def temporary_name(folder, name):
    """Return the name that a run on this machine gives to what becomes an output."""
    return Path(next(atomic.temporary_names(str(folder), name)))


def hidden(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("."))


def outputs(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def expected(images, tmp_path):
    """Return what one process makes of the images."""
    run.batch(f"{images}/", f"{tmp_path}/alone/{{stem}}.json", processes=1)
    return outputs(tmp_path / "alone")


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(images, expected, tmp_path, monkeypatch):
    started = []
    start = processes.WorkerPool.start
    monkeypatch.setattr(
        processes.WorkerPool, "start", lambda pool: (start(pool), started.append(pool.workers[-1].process))
    )
    told = []

    def kill_once(outcome, _):
        told.append(outcome.job.found.url)
        if len(told) == 20:
            temporary_name(tmp_path / "out", "w299.json").write_bytes(b"half")  # as the dead one may leave it
            started[0].kill()

    done = run.batch(f"{images}/", f"{tmp_path}/out/{{stem}}.json", processes=3, jobs=12, on_outcome=kill_once)
    assert done.ok + done.skipped == MANY
    assert len(set(told)) == len(told) == MANY
    assert len(started) == 3
    assert outputs(tmp_path / "out") == expected


def test_a_cluster_that_loses_a_worker_makes_the_same(images, expected, tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        victims = iter(client.run(os.getpid).values())
        seen = []

        def kill_once(outcome, _):
            seen.append(outcome.job.found.url)
            if len(seen) == 1:
                os.kill(next(victims), signal.SIGKILL)

        out = f"{tmp_path}/out/{{stem}}.json"
        done = run.batch(f"{images}/", out, scheduler=cluster.scheduler_address, on_outcome=kill_once)
    assert (done.ok + done.skipped, done.failed) == (MANY, 0)
    assert len(set(seen)) == len(seen) == MANY
    assert outputs(tmp_path / "out") == expected


def test_outcomes_that_die_with_their_worker_are_made_again(images, expected, tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        seen = []

        def kill_all_when_all_is_written(outcome, _):
            seen.append(outcome.job.found.url)
            if len(seen) == 1:
                # all of what was given out: where listing is slow, eight tasks do not hold all sources
                wait_until(lambda: not any(client.processing().values()))
                victims = client.run(os.getpid)
                for victim in victims.values():
                    os.kill(victim, signal.SIGKILL)
                wait_until(lambda: not set(victims) & set(client.nthreads()))

        out = f"{tmp_path}/out/{{stem}}.json"
        done = run.batch(
            f"{images}/", out, scheduler=cluster.scheduler_address, on_outcome=kill_all_when_all_is_written
        )
    assert (done.ok + done.skipped, done.failed) == (MANY, 0)
    assert len(set(seen)) == len(seen) == MANY
    assert outputs(tmp_path / "out") == expected


def wait_until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_killed_and_resumed_nothing_done_is_indexed_twice(images, expected, tmp_path):
    out = tmp_path / "out"
    before = tmp_path / "before.jsonl"
    options = f"processes=2, jobs=2, report='{before}'"
    code = f"from jnrrdz.batches.run import batch; batch('{images}/', '{out}/{{stem}}.json', {options})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        if out.is_dir() and len(list(out.glob("w*.json"))) >= 40:
            break
        time.sleep(0.002)
    process.kill()
    process.communicate(timeout=60)  # its workers hold its output open, and end when they see that it is gone
    there = {path.name: path.stat().st_mtime_ns for path in out.glob("w*.json")}
    assert 0 < len(there) < MANY
    reported = [json.loads(line)["output"] for line in before.read_text().splitlines()]
    assert len(there) / 2 < len(reported) <= len(there)
    assert {Path(output).name for output in reported} <= set(there)
    report = tmp_path / "r.jsonl"
    done = run.batch(f"{images}/", f"{out}/{{stem}}.json", resume=True, report=report)
    assert (done.ok, done.skipped, done.failed) == (MANY - len(there), len(there), 0)
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert {Path(line["output"]).name for line in lines if line["state"] == "skipped"} == set(there)
    assert {name: (out / name).stat().st_mtime_ns for name in there} == there
    assert outputs(out) == expected


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_what_a_killed_run_left_is_removed_by_the_next_that_resumes(images, tmp_path, form):
    out = tmp_path / "out"
    out.mkdir()
    ours, writing = temporary_name(out, f"w000.{form}"), temporary_name(out, f"w001.{form}")
    ours.write_bytes(b"half")
    writing.mkdir()
    foreign = [out / ".w000.json.0123abcd.tmp", out / f".w000.{form}.00000000-0.jnrrdz", out / ".w000.jnrrdz"]
    for path in foreign:
        path.write_bytes(b"somebody else's, or of another machine")
    descriptor = os.open(writing, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        run.batch(f"{images}/w00*.tif", f"{out}/{{stem}}.{form}", resume=True, dry_run=True)
        assert ours.exists()
        run.batch(f"{images}/w00*.tif", f"{out}/{{stem}}.{form}", resume=True)
        assert hidden(out) == sorted([writing, *foreign])
    finally:
        os.close(descriptor)
    run.batch(f"{images}/w00*.tif", f"{out}/{{stem}}.{form}", resume=True)
    assert hidden(out) == sorted(foreign)


def test_a_source_costs_the_coordinator_less_than_a_kilobyte():
    def found(count):
        for number in range(count):
            name = f"2024/scene_{number:08}.tif"
            yield Found(f"s3://bucket/prefix/{name}", 10**6 + number, f'"{number:032x}"', "2024-01-01T00:00:00Z", name)

    def kept(count):
        jobs = Jobs(Template("s3://out/{path}.json"))
        tracemalloc.start()
        try:
            ahead = Ahead(jobs.of(found(count)), threading.Event())
            while not ahead.all_listed:
                time.sleep(0.001)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert (kept(11_000) - kept(1_000)) / 10_000 < 1000


def test_a_batch_keeps_nothing_of_outcomes():
    counted = run.Batch()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(5000):
            job = run.Job(number, Found(f"s3://b/{number}.tif"), f"o/{number}.json")
            state = run.JobState.FAILED if number % 2 else run.JobState.OK
            counted.add(run.Outcome(job, state, error="MalformedError", message="x" * 200))
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert (counted.total, counted.failed, len(counted.failures)) == (5000, 2500, 100)
    assert grown < 200_000
