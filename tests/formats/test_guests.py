"""Parsers of other libraries in worker processes: what they return, and how they end."""

import copy
import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
from astropy.io import fits

import jnrrdz
from jnrrdz.batches import run
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats import FORMATS, guests
from jnrrdz.formats.guest_messages import group_from_message, tree_message
from jnrrdz.formats.scanning import scan
from jnrrdz.manifests.json import dump
from jnrrdz.options import Access, ScanOptions
from tests.bombs import BOMBS
from tests.foreign.conftest import WRITERS
from tests.formats.guest_toys import GUEST, guest_bytes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows runs no workers")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Return a function that writes files, whose format is known to workers, too."""
    site = tmp_path / "site"
    site.mkdir()
    program = "from tests.formats.guest_toys import register\nregister()\n"
    (site / "sitecustomize.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{ROOT}")
    FORMATS.append(GUEST)
    folder = tmp_path / "toys"
    folder.mkdir()

    def write(**words):
        for name, word in words.items():
            (folder / f"{name}.guest").write_bytes(guest_bytes(word))
        return folder

    yield write
    FORMATS.remove(GUEST)


@pytest.fixture
def pool():
    """Return one worker."""
    workers = guests.Guests(1)
    yield workers
    workers.close()


def scanned(path, guest=None, **options):
    """Return the manifest of a scan, its warnings, and what it cost."""
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always", UserWarning)
        found = scan(str(path), ScanOptions(**options), Access(), guest=guest)
    stream = io.BytesIO()
    dump(found.group, stream)
    texts = sorted(str(each.message) for each in recorded)
    return stream.getvalue(), texts, found.requests, found.bytes_read


def write_fits(path):
    image = fits.PrimaryHDU(np.arange(12000, dtype="i2").reshape(100, 120))
    image.header["BSCALE"] = 0.5
    other = fits.ImageHDU(np.ones((64, 64), "f4"), name="A/B")
    table = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=np.arange(5))])
    fits.HDUList([image, other, table]).writeto(path)


def write_imagej(path):
    metadata = {"axes": "ZCYX", "spacing": 2.0, "unit": "um"}
    pixels = np.zeros((5, 2, 200, 300), "u2")
    tifffile.imwrite(path, pixels, imagej=True, resolution=(2.0, 2.0), metadata=metadata)


def write_slide(path):
    pixels = np.zeros((512, 512, 3), "u1")
    slide = {"description": "Aperio Image Library v1\n", "tile": (256, 256)}
    tifffile.imwrite(path, pixels, photometric="rgb", **slide)


def write_shaped(path):
    tifffile.imwrite(path, np.zeros((3, 40, 50), "u2"), photometric="minisblack")


def write_plain(path):
    """Write an ordinary TIFF by tifffile, whose tables are behind its first bytes."""
    pixels = np.zeros((1024, 1024), "u2")
    tifffile.imwrite(path, pixels, tile=(16, 16), bigtiff=True)


OTHERS = {"plain.tif": write_plain, "imagej.tif": write_imagej, "slide.svs": write_slide, "shaped.tif": write_shaped}
WRITTEN = {name: write for write, name, _ in WRITERS.values()} | OTHERS


@pytest.mark.parametrize("codecs", ["auto", "proposal"])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_worker_returns_what_the_process_returns(name, codecs, tmp_path, pool):
    WRITTEN[name](tmp_path / name)
    here = scanned(tmp_path / name, codecs=codecs)
    assert scanned(tmp_path / name, pool.within(60), codecs=codecs) == here


def test_names_with_slashes_are_refused_as_in_the_process(tmp_path, pool):
    write_fits(tmp_path / "a.fits")
    for guest in (None, pool.within(60)):
        with pytest.raises(JnrrdzError, match="'A/B' is no name"):
            scanned(tmp_path / "a.fits", guest)


@pytest.mark.parametrize("name", [*WRITTEN, "a.fits"])
@pytest.mark.filterwarnings("ignore:left out")
def test_remote_files_are_read_by_the_parent(name, tmp_path, http_server, pool):
    write = {**WRITTEN, "a.fits": write_fits}[name]
    write(tmp_path / name)
    http_server.files[f"/{name}"] = (tmp_path / name).read_bytes()
    url = f"{http_server.url}/{name}"
    costs = []
    for guest in (None, pool.within(60)):
        http_server.log.clear()
        found = scan(url, ScanOptions(), Access(), guest=guest)
        costs.append((found.requests, found.bytes_read, len(http_server.log)))
    assert costs[0] == costs[1]


def test_a_worker_is_kept(toys, pool):
    folder = toys(a="ok", b="refuse", c="ok")
    guest = pool.within(60)
    first = scan(str(folder / "a.guest"), ScanOptions(), Access(), guest=guest)
    with pytest.raises(UnsupportedError, match="refused") as refused:
        scan(str(folder / "b.guest"), ScanOptions(), Access(), guest=guest)
    assert (refused.value.offset, refused.value.field) == (6, "word")
    assert refused.value.url.endswith("b.guest")
    last = scan(str(folder / "c.guest"), ScanOptions(), Access(), guest=guest)
    processes = {each.group.attributes["process"] for each in (first, last)}
    assert len(processes) == 1
    assert os.getpid() not in processes


LARGE = """
import sys
import numpy as np
from jnrrdz.formats.guests import Guests
from jnrrdz.formats.scanning import scan
from jnrrdz.options import Access, ScanOptions

memory = np.ones(1100 << 20, "u1")
started = []
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
workers = Guests(1)
for _ in range(3):
    scan(sys.argv[1], ScanOptions(), Access(), guest=workers.within(60))
workers.close()
print(len(started))
"""


def test_a_worker_of_a_large_process_is_kept(tmp_path):
    write_fits(tmp_path / "a.fits")
    command = [sys.executable, "-c", LARGE, tmp_path / "a.fits"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "1\n"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("exit", "the process of its parser ended .code 7"),
        ("crash", "the process of its parser ended .SIGSEGV"),
        ("grow", "its parser needs more than 1 GB of memory"),
        ("spin", "its parser was not done after 2 s of work"),
        ("elsewhere", "a reference into another file"),
    ],
)
def test_what_ends_badly_is_an_error_of_its_source(word, text, toys, pool, monkeypatch):
    monkeypatch.setattr(guests, "MEMORY", 1 << 30)
    folder = toys(bad=word, good="ok")
    with pytest.raises(JnrrdzError, match=text) as raised:
        scan(str(folder / "bad.guest"), ScanOptions(), Access(), guest=pool.within(2 if word == "spin" else 60))
    assert raised.value.url.endswith("bad.guest")
    found = scan(str(folder / "good.guest"), ScanOptions(), Access(), guest=pool.within(60))
    assert found.group.attributes["process"] != os.getpid()


def answer():
    refs = ChunkRefs.single("a", [0, 4], [4, 4])
    refs = ChunkRefs(("a",), np.array([0, 2, 2]), *[refs.source, refs.offset, refs.length], {1: b"xyz"})
    codecs = (CodecSpec("bytes", {}),)
    array = VirtualArray((8,), np.dtype("u1"), (4,), codecs, refs, ("x",))
    return tree_message(VirtualGroup({"g": VirtualGroup({"v": array}, {"n": 1})}))


HOSTILE = [None, True, -1, 1 << 70, 1.5, "", "x", [], [None], [[1, 2, 3]], {}, {"x": 1}]


def paths(value, at=()):
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from paths(inner, (*at, name))


def test_every_member_of_an_answer_is_checked():
    document, data = answer()
    plain = group_from_message(document, data, frozenset("a"))
    assert plain.at("g/v").refs.inline == {1: b"xyz"}
    refused = 0
    for path in filter(None, paths(document)):
        for value in HOSTILE:
            changed = copy.deepcopy(document)
            place = changed
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = value
            try:
                group_from_message(changed, data, frozenset("a"))
            except JnrrdzError:
                refused += 1
    assert refused > 200


def test_inline_bytes_of_a_chunk_beyond_the_grid_are_refused():
    document, data = answer()
    place = document["children"]["g"]["children"]["v"]
    place["inline"] = [[2, 3]]
    with pytest.raises(MalformedError, match="a chunk beyond the grid"):
        group_from_message(document, data, frozenset("a"))


def test_a_group_is_no_array():
    document, data = answer()
    place = document["children"]["g"]["children"]["v"]
    place["array"] = {"zarr_format": 3, "node_type": "group"}
    with pytest.raises(MalformedError, match="a group where an array is needed"):
        group_from_message(document, data, frozenset("a"))


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"\xff" * len(data)]
)
def test_columns_are_checked(change):
    document, data = answer()
    with pytest.raises(MalformedError):
        group_from_message(document, change(data), frozenset("a"))


def test_numbers_that_hold_nothing_arrive_as_they_were():
    numbers = {"f4": 0.1, "f8": float("nan"), "c8": complex(1, 0.25), "i2": -7}
    for kind, number in numbers.items():
        refs = ChunkRefs.empty(1)
        dtype = np.dtype(kind)
        codecs = (CodecSpec("bytes", {"endian": "little"}),)
        attributes = {"_FillValue": number}
        array = VirtualArray((4,), dtype, (4,), codecs, refs, ("x",), attributes=attributes)
        document, data = tree_message(VirtualGroup({"v": array}))
        document = json.loads(json.dumps(document))
        found = group_from_message(document, data, frozenset()).at("v")
        np.testing.assert_equal(found.attributes["_FillValue"], number)


# Batches


EXECUTORS = {
    "threads": {"processes": 1},
    "processes": {"processes": 2},
    "dask": {"scheduler": "local"},
}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_batch_goes_on_while_a_parser_does_not_end(executor, toys, tmp_path):
    if executor == "dask":
        pytest.importorskip("distributed")
    folder = toys(a="spin", b="ok", c="ok", d="exit", e="ok")
    outcomes = []
    done = run.batch(
        f"{folder}/*.guest",
        f"{tmp_path}/out/{{stem}}.json",
        timeout=10,
        retries=0,
        on_outcome=lambda outcome, _: outcomes.append(outcome),
        **EXECUTORS[executor],
    )
    assert (done.ok, done.failed) == (3, 2)
    texts = {Path(each.job.found.url).stem: each.message for each in outcomes}
    assert "not done within 10 s; --timeout" in texts["a"]
    assert "a.guest" in texts["a"]
    assert "ended (code 7)" in texts["d"]
    last = Path(outcomes[-1].job.found.url).stem
    assert last == "a"  # others came first


def test_waiting_for_another_source_is_not_counted(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "FEWEST_GUESTS", 1)
    monkeypatch.setattr(run, "cores", lambda: 1)
    folder = toys(a="spin", b="spin", c="ok")
    done = run.batch(f"{folder}/*.guest", f"{tmp_path}/{{stem}}.json", timeout=3, retries=0)
    assert (done.ok, done.failed) == (1, 2)


def test_no_worker_is_awaited_on_the_event_loop(toys, tmp_path, http_server):
    folder = toys(a="spin", b="ok")
    for path in folder.iterdir():
        http_server.files[f"/{path.name}"] = path.read_bytes()
    urls = [f"{http_server.url}/{name}.guest" for name in "ab"]
    done = run.batch(urls, f"{tmp_path}/{{stem}}.json", timeout=5, retries=0, allow=["*"])
    assert (done.ok, done.failed) == (1, 1)
    group = json.loads((tmp_path / "b.json").read_text())["refs"]["zarr.json"]
    assert json.loads(group)["attributes"]["process"] != os.getpid()


PROGRAM = """
import sys
from jnrrdz.batches.run import batch
batch(sys.argv[1], sys.argv[2], processes=int(sys.argv[3]))
"""


def is_running(process):
    command = ["ps", "-o", "stat=", "-p", str(process)]
    state = subprocess.run(command, capture_output=True, check=False).stdout.strip()
    return bool(state) and not state.startswith(b"Z")


def wait_until(is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="the lifeline was tried on Linux")
@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda each: each.name)
def test_a_batch_that_is_ended_leaves_no_worker(ended_by, toys, tmp_path):
    folder = toys(a="spin")
    command = [sys.executable, "-c", PROGRAM, f"{folder}/*.guest", f"{tmp_path}/{{stem}}.json", "1"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    note = folder / "a.guest.pid"
    try:
        wait_until(lambda: note.exists() and note.read_text())
        worker = int(note.read_text())
        assert is_running(worker)
        process.send_signal(ended_by)
        process.wait(30)
        wait_until(lambda: not is_running(worker), 20)
    finally:
        process.kill()
        process.wait()


# Serving


def asked(url):
    try:
        with urllib.request.urlopen(url, timeout=100) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_server_goes_on_while_a_parser_does_not_end(toys, monkeypatch):
    pytest.importorskip("uvicorn")
    monkeypatch.setattr("jnrrdz.server.catalog.PARSING", 8.0)
    folder = toys(a="spin", b="ok")
    with jnrrdz.serve(folder / "a.guest", folder / "b.guest") as server, ThreadPoolExecutor(1) as client:
        waiting = client.submit(asked, f"{server['a.guest']}/zarr.json")
        wait_until((folder / "a.guest.pid").exists)
        assert asked(f"{server['b.guest']}/zarr.json")[0] == 200
        assert not waiting.done()
        status, text = waiting.result()
        assert status == 502
        assert b"not done after 8 s" in text
        worker = int((folder / "a.guest.pid").read_text())
        wait_until(lambda: not is_running(worker), 20)
        # it is not parsed again by the next request, but some time later
        (folder / "a.guest.pid").unlink()
        status, text = asked(f"{server['a.guest']}/zarr.json")
        assert status == 502
        assert b"tried again 600 s after" in text
        assert not (folder / "a.guest.pid").exists()
        monkeypatch.setattr("jnrrdz.server.catalog.REMEMBERED", 0.0)
        monkeypatch.setattr("jnrrdz.server.catalog.PARSING", 1.0)
        assert asked(f"{server['a.guest']}/zarr.json")[0] == 502
        assert (folder / "a.guest.pid").exists()


def end_of(path, guest=None):
    """Return how a scan ends: the chunks of the arrays, or the error."""
    try:
        group = scan(str(path), ScanOptions(), Access(), guest=guest).group
    except JnrrdzError as error:
        return str(error)
    return {name: array.refs.chunks for name, array in group.arrays()}


FOREIGN = ["dmrpp_many", "hdf5_chunks", "hdf5_absent", "fits_axes", "netcdf3_records", "netcdf3_allowed"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FOREIGN)
def test_the_budget_is_the_same_in_a_worker(tmp_path, pool, name):
    path = BOMBS[name](tmp_path)
    assert end_of(path, pool.within(60)) == end_of(path)
