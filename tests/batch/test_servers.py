"""Batches on real servers: S3 to S3, HTTP, resumed by ETag, faults in between, times that are over."""

import io
import json
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.batches import run, work
from jnrrdz.batches.selection import Selection
from jnrrdz.errors import DriftError, JnrrdzError
from tests.batch.conftest import image
from tests.servers.seaweed import ADMIN


def manifests(seaweed, bucket, prefix="out/"):
    return {key.removeprefix(prefix): seaweed.get(bucket, key) for key in seaweed.keys(bucket, prefix)}


def value_of(document: bytes, data: bytes) -> int:
    """Return the first pixel that a manifest of an uncompressed image leads to, by its first reference alone."""
    _, offset, length = json.loads(document)["refs"]["data/c/0/0"]
    return int(np.frombuffer(data[offset : offset + length], "<u2")[0])


def check(seaweed, bucket, scenes, found):
    assert sorted(found) == sorted(name.removeprefix("in/").replace(".tif", ".json") for name in scenes)
    for number, name in enumerate(scenes):
        document = found[name.removeprefix("in/").replace(".tif", ".json")]
        assert value_of(document, seaweed.get(bucket, name)) == number
        assert f"s3://{bucket}/{name}" in document.decode()


@pytest.mark.parametrize("how", [{}, {"processes": 2}])
def test_s3_to_s3_with_one_request_a_source(seaweed, bucket, scenes, make_proxy, how):
    proxy = make_proxy(seaweed.port)
    patient = {"connect_timeout": 60, "read_timeout": 60}  # on a busy machine nothing is asked for again
    options = seaweed.options(endpoint_url=proxy.url, config_kwargs=patient)
    done = run.batch(
        f"s3://{bucket}/in/**/*.tif",
        f"s3://{bucket}/out/{{path}}.json",
        storage_options=options,
        target_options=seaweed.options(),
        **how,
    )
    assert (done.ok, done.failed, done.requests) == (40, 0, 40)
    check(seaweed, bucket, scenes, manifests(seaweed, bucket))
    reads = [one for one in proxy.requests if one.path.endswith(".tif")]
    assert {one.method for one in reads} == {"GET"}
    assert len(reads) == 40
    assert not any(one.headers.get("x-amz-security-token") for one in reads)


@pytest.mark.usefixtures("environment")
def test_manifests_hold_no_credential(seaweed, bucket, scenes, tmp_path):
    assert scenes
    run.batch(f"s3://{bucket}/in/", f"s3://{bucket}/out/{{path}}.json", report=tmp_path / "r.jsonl")
    told = b"".join(manifests(seaweed, bucket).values()) + (tmp_path / "r.jsonl").read_bytes()
    assert not any(secret.encode() in told for secret in ADMIN)


def test_resume_on_s3_asks_the_sources_for_nothing_and_redoes_what_changed(seaweed, bucket, scenes, make_proxy):
    proxy = make_proxy(seaweed.port)
    options = {"storage_options": seaweed.options(endpoint_url=proxy.url), "target_options": seaweed.options()}
    both = (f"s3://{bucket}/in/", f"s3://{bucket}/out/{{path}}.json")
    run.batch(*both, **options)
    seaweed.put(bucket, scenes[7], image(700))  # of the same size: its ETag tells
    cut = "out/" + scenes[8].removeprefix("in/").replace(".tif", ".json")
    seaweed.put(bucket, cut, seaweed.get(bucket, cut)[:-20])
    before = len(proxy.requests)
    done = run.batch(*both, resume=True, **options)
    assert (done.ok, done.skipped, done.failed) == (2, 38, 0)
    read = {one.path.removeprefix(f"/{bucket}/") for one in proxy.requests[before:] if one.path.endswith(".tif")}
    assert read == {scenes[7], scenes[8]}
    changed = manifests(seaweed, bucket)[scenes[7].removeprefix("in/").replace(".tif", ".json")]
    assert value_of(changed, seaweed.get(bucket, scenes[7])) == 700


def test_resume_redoes_what_other_options_were_asked_for(nginx, tmp_path):
    (nginx.files / "r.tif").write_bytes(image(3))
    both = (f"{nginx.url}/r.tif", f"{tmp_path}/{{stem}}.json")
    run.batch(*both)
    assert run.batch(*both, resume=True).skipped == 1
    assert run.batch(*both, resume=True, overviews=False).ok == 1
    assert run.batch(*both, resume=True, overviews=False).skipped == 1
    assert run.batch(*both, resume=True, overviews=False, single_range=True).ok == 1
    assert run.batch(*both, resume=True).ok == 1


PROGRAM = "from jnrrdz.cli import main; main()"
FAULTS = {"unavailable": 0.1, "reset": 0.02, "truncate": 0.02, "stall": 0.01}


@pytest.mark.parametrize("how", [{}, {"processes": 2}])
def test_faults_cost_no_output(nginx, make_proxy, tmp_path, how):
    for number in range(200):
        (nginx.files / f"f{number:03}.tif").write_bytes(image(number))
    proxy = make_proxy(nginx.port, **FAULTS, seed=5)
    urls = [f"{proxy.url}/f{number:03}.tif" for number in range(200)]
    done = run.batch(urls, f"{tmp_path}/{{stem}}.json", **how)
    assert (done.ok, done.failed) == (200, 0)
    assert sum(one.fault is not None for one in proxy.requests) > 10
    for number in range(200):
        document = (tmp_path / f"f{number:03}.json").read_bytes()
        assert value_of(document, image(number)) == number


def test_a_source_that_stalls_fails_when_its_time_is_over_and_costs_the_others_nothing(nginx, make_proxy, tmp_path):
    (nginx.files / "t.tif").write_bytes(image(1))
    slow = make_proxy(nginx.port, stall=1.0)
    done = run.batch(
        [f"{slow.url}/t.tif", f"{nginx.url}/t.tif?second"],
        f"{tmp_path}/{{index}}.json",
        timeout=0.4,
        retries=0,
    )
    assert (done.ok, done.failed) == (1, 1)
    assert "0.4 s" in done.failures[0]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["000001.json"]


def test_attempts_after_passing_failures_are_told(nginx, make_proxy, tmp_path):
    (nginx.files / "u.tif").write_bytes(image(1))
    proxy = make_proxy(nginx.port, unavailable=1.0, times=9, retry_after="0")
    report = tmp_path / "r.jsonl"
    done = run.batch(f"{proxy.url}/u.tif", f"{tmp_path}/{{stem}}.json", retries=4, report=report)
    (line,) = map(json.loads, report.read_text().splitlines())
    assert (done.ok, line["state"]) == (1, "ok")
    assert line["attempts"] > 1
    none = make_proxy(nginx.port, unavailable=1.0, retry_after="0")
    done = run.batch(f"{none.url}/u.tif", f"{tmp_path}/never.json", retries=1, report=report)
    (line,) = map(json.loads, report.read_text().splitlines())
    assert (done.failed, line["attempts"]) == (1, 2)
    assert "503" in line["message"]


@pytest.mark.usefixtures("environment")
def test_since_takes_what_was_modified_later(seaweed, bucket, tmp_path):
    seaweed.put(bucket, "in/old.tif", image(1))
    time.sleep(1.1)  # S3 tells whole seconds
    seaweed.put(bucket, "in/new.tif", image(2))
    moment = seaweed.client.head_object(Bucket=bucket, Key="in/new.tif")["LastModified"].isoformat()
    done = run.batch(
        (), f"{tmp_path}/{{stem}}.json", selection=Selection([f"s3://{bucket}/in/"], since=moment), processes=1
    )
    assert done.ok == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]


@pytest.mark.usefixtures("environment")
def test_shards_of_a_bucket_are_all_of_it(seaweed, bucket, scenes):
    for part in (1, 2, 3):
        selection = Selection([f"s3://{bucket}/in/"], shard=(part, 3))
        assert 0 < run.batch((), f"s3://{bucket}/out/{{path}}.json", selection=selection).ok < 40
    check(seaweed, bucket, scenes, manifests(seaweed, bucket))


def test_large_headers_go_on_in_threads(nginx, tmp_path):
    stream = io.BytesIO()
    pixels = np.arange(1 << 20, dtype="u2").reshape(1024, 1024)
    tifffile.imwrite(stream, pixels, tile=(16, 16), bigtiff=True)  # 64 KB of offsets and lengths
    (nginx.files / "large.tif").write_bytes(stream.getvalue())
    done = run.batch(f"{nginx.url}/large.tif", f"{tmp_path}/{{stem}}.json")
    assert (done.ok, done.requests) == (1, 2)
    jnrrdz.index(f"{nginx.url}/large.tif", tmp_path / "expected.json")
    assert (tmp_path / "large.json").read_bytes() == (tmp_path / "expected.json").read_bytes()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("store", ["s3", "http"])
def test_an_object_replaced_after_the_batch_is_an_error_when_it_is_read(store, seaweed, bucket, nginx, tmp_path):
    seaweed.put(bucket, "a.tif", image(1))
    (nginx.files / "drift.tif").write_bytes(image(1))
    url = f"s3://{bucket}/a.tif" if store == "s3" else f"{nginx.url}/drift.tif"
    run.batch(url, f"{tmp_path}/o.json")
    allowed = {"allow": ["*"]}
    assert jnrrdz.open_dataset(tmp_path / "o.json", **allowed)["data"][0, 0] == 1
    seaweed.put(bucket, "a.tif", image(2))
    (nginx.files / "drift.tif").write_bytes(image(2) + b"more")
    with pytest.raises(DriftError):
        jnrrdz.open_dataset(tmp_path / "o.json", **allowed)["data"].load()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": "WRONGKEYEXAMPLE00001"}, "WRON|credential|key"),
        ({"bucket": "no-such-bucket"}, "no-such-bucket"),
    ],
)
def test_refusals_are_one_clear_line(seaweed, bucket, tmp_path, change, said):
    options = seaweed.options(**{name: value for name, value in change.items() if name == "key"})
    place = change.get("bucket", bucket)
    seaweed.put(bucket, "a.tif", image(1))
    with pytest.raises(JnrrdzError, match=said) as listing:
        run.batch(f"s3://{place}/*.tif", f"{tmp_path}/{{stem}}.json", storage_options=options)
    done = run.batch(f"s3://{place}/a.tif", f"{tmp_path}/{{stem}}.json", storage_options=options, retries=0)
    assert done.failed == 1
    for told in (str(listing.value), done.failures[0]["message"]):
        assert "\n" not in told
        assert "adminSecret" not in told


def test_interrupted_it_ends_soon_with_whole_outputs_only(nginx, make_proxy, tmp_path):
    for number in range(300):
        (nginx.files / f"i{number:03}.tif").write_bytes(image(number))
    proxy = make_proxy(nginx.port, latency=0.05)
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(f"{proxy.url}/i{number:03}.tif" for number in range(300)))
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, "batch", "--from-file", str(listed), "-o", f"{out}/{{stem}}.json"]
    process = subprocess.Popen([*command, "-j", "4", "--processes", "2"], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while process.poll() is None and len(list(out.glob("*.json"))) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(2)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in said
    left = sorted(path.name for path in out.iterdir())
    assert 20 <= len(left) < 300
    assert all(name.endswith(".json") and name.startswith("i") for name in left)
    for name in left:
        assert value_of((out / name).read_bytes(), image(int(name[1:4]))) == int(name[1:4])
    shutil.rmtree(out)


def test_outputs_are_written_to_a_store_together(nginx, monkeypatch):
    for number in range(4):
        (nginx.files / f"together{number}.tif").write_bytes(image(number))
    meeting = threading.Barrier(4)
    monkeypatch.setattr(work, "write_form", lambda *_, **__: meeting.wait(10))
    urls = [f"{nginx.url}/together{number}.tif" for number in range(4)]
    done = run.batch(urls, "memory://together/{stem}.json", processes=1, retries=0)
    assert (done.ok, done.failed) == (4, 0)
