"""Batches into one output along an axis, beside `jnrrdz.merge` of the same sources and their pixels."""

import json
import threading
import time

import numpy as np
import pytest
import tifffile
import zarr

import jnrrdz
from jnrrdz.batches import run, work
from jnrrdz.errors import JnrrdzError


@pytest.fixture
def days(tmp_path):
    """Return a folder of images, one a day, which are listed in another order than that of their days."""
    folder = tmp_path / "days"
    folder.mkdir()
    for number, day in enumerate((20240103, 20240101, 20240102)):
        tifffile.imwrite(folder / f"{'cab'[number]}_{day}.tif", np.full((32, 32), day % 100, "u2"), tile=(16, 16))
    return folder


@pytest.mark.parametrize("how", [{}, {"processes": 2}])
@pytest.mark.parametrize("name", ["all.json", "all.parquet"])
def test_all_become_one_manifest_in_the_order_of_their_values(days, tmp_path, how, name):
    out = tmp_path / name
    done = run.batch(f"{days}/", out, concat_dim="time", coord_from=r"_(\d{8})", **how)
    assert (done.ok, done.failed) == (3, 0)
    data = jnrrdz.open_dataset(out)["data"]
    assert data.dims == ("time", "y", "x")
    np.testing.assert_array_equal(data[:, 5, 5], [1, 2, 3])
    jnrrdz.merge(sorted(days.iterdir()), tmp_path / f"m{name}", concat_dim="time", coord_from=r"_(\d{8})")
    if name.endswith(".json"):
        assert json.loads(out.read_bytes()) == json.loads((tmp_path / f"m{name}").read_bytes())


def test_all_become_one_icechunk_repository(days, tmp_path):
    icechunk = pytest.importorskip("icechunk")
    run.batch(f"{days}/", tmp_path / "all.icechunk", concat_dim="time", keep_order=True)
    place = f"file://{days}/"
    access = {place: icechunk.credentials.LocalFileSystemAccess}
    repository = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "all.icechunk")), authorize_virtual_chunk_access=access
    )
    names = sorted(path.name for path in days.iterdir())
    with_values = [int(name.removesuffix(".tif")[-2:]) for name in names]
    found = zarr.open_group(repository.readonly_session("main").store, mode="r")["data"][:, 0, 0]
    np.testing.assert_array_equal(found, with_values)


def test_sources_that_fail_are_reported_and_the_others_put_together(days, tmp_path):
    (days / "d_20240104.tif").write_bytes(b"II*\0nonsense")
    report = tmp_path / "r.jsonl"
    done = run.batch(f"{days}/", tmp_path / "o.json", concat_dim="time", coord_from=r"_(\d{8})", report=report)
    assert (done.ok, done.failed) == (3, 1)
    states = [json.loads(line)["state"] for line in report.read_text().splitlines()]
    assert sorted(states) == ["failed", "ok", "ok", "ok"]
    assert jnrrdz.open_dataset(tmp_path / "o.json")["data"].shape == (3, 32, 32)


def test_what_does_not_fit_is_left_out_or_refused_as_in_a_merge(days, tmp_path):
    tifffile.imwrite(days / "d_20240104.tif", np.zeros((64, 64), "u2"), tile=(16, 16))
    options = {"concat_dim": "time", "coord_from": r"_(\d{8})"}
    with pytest.raises(JnrrdzError, match=r"d_20240104\.tif"):
        run.batch(f"{days}/", tmp_path / "o.json", **options)
    assert not (tmp_path / "o.json").exists()
    done = run.batch(f"{days}/", tmp_path / "o.json", skip_mismatched=True, **options)
    assert len(done.left_out) == 1
    assert "d_20240104.tif" in done.left_out[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resume": True}, "resume"),
        ({"coord_from": "(a)(b)"}, "2 pairs of"),
        ({}, "exists already"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(days, tmp_path, options, said):
    (tmp_path / "o.json").write_bytes(b"older")
    seen = []
    with pytest.raises(JnrrdzError, match=said):
        run.batch(
            f"{days}/", tmp_path / "o.json", concat_dim="time", on_outcome=lambda *told: seen.append(told), **options
        )
    assert not seen
    assert (tmp_path / "o.json").read_bytes() == b"older"


def test_a_batch_that_was_stopped_writes_nothing(days, tmp_path):
    (days / "d.tif").write_bytes(b"nonsense")
    done = run.batch(f"{days}/", tmp_path / "o.json", concat_dim="time", fail_fast=True)
    assert done.stopped == "1 failed"
    assert not (tmp_path / "o.json").exists()


@pytest.mark.timeout(60)
def test_a_lock_that_is_held_while_reading_stops_nobody():
    """h5py reads a file under a lock of its own: who has the turn may wait for it."""
    lock, waits, done = threading.Lock(), threading.Event(), []

    def reads_under_the_lock():
        with work.turn(), lock, work.turn_given_up():
            assert waits.wait(30)
        done.append("read")

    def waits_for_the_lock():
        with work.turn():
            waits.set()
            with lock:
                done.append("waited")

    threads = [threading.Thread(target=each, daemon=True) for each in (reads_under_the_lock, waits_for_the_lock)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join(30)
    assert sorted(done) == ["read", "waited"]
    with work.turn():
        done.append("free again")
