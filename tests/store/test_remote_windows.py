"""Windows of remote images: pixels as tifffile reads them, few requests at once, bytes held within a bound."""

import json
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile
from zarr.core.sync import sync

import jnrrdz
from jnrrdz.errors import DriftError, MalformedError
from jnrrdz.manifests import parquet
from jnrrdz.server.running import serve
from jnrrdz.store import pipeline, requests
from jnrrdz.store.pipeline import PlainPlacer, RemoteWindow, Window
from jnrrdz.store.requests import Walks

SIDE, TILE = 512, 64
WINDOWS = [np.s_[..., :, :], np.s_[..., 5:161, 17:399], np.s_[..., 33, :], np.s_[..., 31:33, 40], np.s_[..., -20:, -7:]]
STEPS = np.s_[..., ::3, 1::2]

KINDS = {
    "deflate": ("u2", {"compression": "zlib", "predictor": 2}, {}),
    "floats": ("f4", {"compression": "zstd", "predictor": 3}, {}),
    "raw": ("u1", {}, {}),
    "jpeg": ("u1", {"compression": "jpeg", "photometric": "rgb"}, {"samples": 3}),
    "planes": ("u2", {"compression": "lzw", "planarconfig": "separate", "photometric": "minisblack"}, {"planes": 2}),
}


def picture(dtype, samples=0, planes=0):
    shape = (*([planes] if planes else []), SIDE, SIDE, *([samples] if samples else []))
    across = np.add.outer(np.arange(SIDE), 3 * np.arange(SIDE)) % 251
    noise = np.random.default_rng(5).integers(0, 5, shape)
    return (noise + (across[..., None] if samples else across)).astype(dtype)


@pytest.fixture
def remote(http_server, tmp_path):
    """Returns the array of an image over HTTP, and what tifffile reads of it; nothing is counted yet."""

    def opened(kind="raw", form="json", codecs="proposal"):
        dtype, options, more = KINDS[kind]
        path = tmp_path / "a.tif"
        tifffile.imwrite(path, picture(dtype, **more), tile=(TILE, TILE), **options)
        http_server.files["/a.tif"] = path.read_bytes()
        jnrrdz.index(f"{http_server.url}/a.tif", str(tmp_path / f"a.{form}"), overwrite=True, codecs=codecs)
        array = jnrrdz.open_group(str(tmp_path / f"a.{form}"), allow=[http_server.url])["data"]
        http_server.log.clear()
        expected = tifffile.imread(path)
        return array, np.moveaxis(expected, -1, 0) if "samples" in more else expected

    return opened


def spans(server):
    """Returns what was asked of a server, each request's first byte and the one after its last."""
    asked = [entry.range.removeprefix("bytes=").split("-") for entry in server.log if entry.range]
    return [(int(first), int(last) + 1) for first, last in asked]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("codecs", ["auto", "proposal"])
def test_windows_hold_what_tifffile_reads(remote, monkeypatch, kind, form, codecs):
    alone = []
    monkeypatch.setattr(Window, "_item", lambda _self, number: alone.append(number))
    array, expected = remote(kind, form, codecs)
    for window in (*WINDOWS, STEPS):
        np.testing.assert_array_equal(array[window], expected[window], strict=True)
    assert not alone


def test_absent_and_damaged_chunks_are_what_they_are_in_a_local_file(remote, http_server, tmp_path):
    array, expected = remote("deflate")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as tiff:
        counts, offsets = list(tiff.pages[0].databytecounts), list(tiff.pages[0].dataoffsets)
        counts[3] = offsets[3] = 0
        tiff.pages[0].tags["TileByteCounts"].overwrite(counts)
        tiff.pages[0].tags["TileOffsets"].overwrite(offsets)
    data = bytearray((tmp_path / "a.tif").read_bytes())
    data[offsets[9] + 2 : offsets[9] + 42] = bytes(40)
    http_server.files["/a.tif"] = bytes(data)
    jnrrdz.index(f"{http_server.url}/a.tif", str(tmp_path / "a.json"), overwrite=True)
    array = jnrrdz.open_group(str(tmp_path / "a.json"), allow=[http_server.url])["data"]
    expected[:TILE, 3 * TILE : 4 * TILE] = 0
    np.testing.assert_array_equal(array[:TILE], expected[:TILE])
    with pytest.raises(MalformedError, match="c/1/1") as told:
        array[...]
    assert "a.tif" in str(told.value)


def test_a_window_is_one_round_trip(remote, http_server):
    array, expected = remote()
    http_server.latency = 0.3
    http_server.together = 0
    window = np.s_[10:140, 20:60]  # tiles of one column, far from each other
    gap = requests.ranges.GAP
    try:
        requests.ranges.GAP = 0
        np.testing.assert_array_equal(array[window], expected[window])
    finally:
        requests.ranges.GAP = gap
    assert http_server.methods() == ["GET"] * len(http_server.log)
    assert http_server.together == len(http_server.log)


def test_a_whole_image_is_few_large_requests(remote, http_server, monkeypatch):
    monkeypatch.setattr(requests, "SHARED", 1 << 14)
    monkeypatch.setattr(requests, "SHARE", 1 << 15)
    array, expected = remote()
    np.testing.assert_array_equal(array[...], expected)
    asked = spans(http_server)
    assert len(asked) == SIDE * SIDE >> 15
    assert {stop - start for start, stop in asked} == {1 << 15}


def test_what_is_not_decoded_yet_is_within_a_bound(remote, http_server, monkeypatch):
    held = 10 * TILE * TILE
    for name, size in {"HELD": held, "SHARED": 1, "SHARE": 2 * TILE * TILE, "BUDGET": 1}.items():
        monkeypatch.setattr(requests, name, size)
    array, expected = remote("raw", codecs="standard")
    gate, place = threading.Event(), PlainPlacer.place
    monkeypatch.setattr(PlainPlacer, "place", lambda *of: gate.wait(30) and place(*of))
    found = {}
    reader = threading.Thread(target=lambda: found.update(pixels=array[...]))
    reader.start()
    deadline = time.monotonic() + 20
    while sum(stop - start for start, stop in spans(http_server)) < held and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)  # more would come now
    before = sum(stop - start for start, stop in spans(http_server))
    gate.set()
    reader.join()
    assert before == held
    np.testing.assert_array_equal(found["pixels"], expected)


def test_a_chunk_that_is_larger_than_the_bound_is_read_all_the_same(remote, monkeypatch):
    monkeypatch.setattr(requests, "HELD", 100)
    array, expected = remote()
    np.testing.assert_array_equal(array[...], expected)


def in_order(step=TILE):
    return [
        np.s_[row : row + step, column : column + step]
        for row in range(0, SIDE, step)
        for column in range(0, SIDE, step)
    ]


def test_windows_in_a_row_are_read_ahead(remote, http_server):
    array, expected = remote("deflate")
    for window in in_order():
        np.testing.assert_array_equal(array[window], expected[window])
    asked = spans(http_server)
    assert len(asked) < len(in_order()) // 2
    assert all(last <= first for (_, last), (first, _) in zip(sorted(asked), sorted(asked)[1:], strict=False))  # once


@pytest.mark.parametrize("aligned", [1, TILE // 4])
def test_windows_anywhere_are_not(remote, http_server, monkeypatch, aligned):
    places = np.random.default_rng(3).integers(0, (SIDE - TILE) // aligned, (60, 2)) * aligned
    asked = []
    for ahead in (pipeline.AHEAD, 0):
        monkeypatch.setattr(pipeline, "AHEAD", ahead)
        array, expected = remote("deflate")
        for row, column in places.tolist():
            window = np.s_[row : row + TILE, column : column + TILE]
            np.testing.assert_array_equal(array[window], expected[window])
        asked.append(sorted(spans(http_server)))
    assert asked[0] == asked[1]


def test_large_windows_are_not_read_ahead(remote, http_server, monkeypatch):
    monkeypatch.setattr(pipeline, "AHEAD", 1)
    array, expected = remote("deflate")
    for window in in_order():
        np.testing.assert_array_equal(array[window], expected[window])
    assert len(http_server.log) == len(in_order())


def test_what_is_read_ahead_is_within_a_bound(remote, http_server, monkeypatch):
    monkeypatch.setattr(requests, "AHEAD", 3 * TILE * TILE)
    array, expected = remote()
    array[:TILE, :TILE]
    http_server.latency = 0.5
    store = array.store_path.store
    for row in (2, 4):
        sync(store.read_ahead("data", [[range(row, row + 1), range(2)]]))
    assert store._batches._ahead == 3 * TILE * TILE  # noqa: SLF001  nothing else tells what is on its way
    window = np.s_[2 * TILE : 6 * TILE, : 2 * TILE]
    np.testing.assert_array_equal(array[window], expected[window])
    deadline = time.monotonic() + 20
    while store._batches._coming and time.monotonic() < deadline:  # noqa: SLF001  the same
        time.sleep(0.01)
    assert (store._batches._ahead, store._batches._coming) == (0, {})  # noqa: SLF001  the same


def test_dask_reads_blocks_with_fewer_requests(remote, http_server):
    array, expected = remote("deflate")
    blocks = da.from_array(array, chunks=(TILE, TILE))
    with dask.config.set(scheduler="threads", num_workers=2):
        np.testing.assert_array_equal(blocks.compute(), expected)
    assert len(http_server.log) < blocks.npartitions


def test_a_server_of_tiles_reads_ahead_of_its_clients(remote, http_server):
    import zarr  # noqa: PLC0415  without jnrrdz's codecs

    remote("deflate")
    with serve(f"{http_server.url}/a.tif") as server:
        array = zarr.open_group(server[server.names[0]], mode="r")
        array = array["data"] if "data" in array else array["0/data"]
        http_server.log.clear()
        rows = array.chunks[0]
        for start in range(0, SIDE, rows):
            for column in range(0, SIDE, array.chunks[1]):
                array[start : start + rows, column : column + array.chunks[1]]
    assert len(http_server.log) < array.nchunks


def test_an_image_that_changes_while_it_is_read_ahead_is_refused(remote, http_server):
    array, expected = remote("deflate")
    windows = in_order()
    for window in windows[:6]:
        np.testing.assert_array_equal(array[window], expected[window])
    http_server.files["/a.tif"] = http_server.files["/a.tif"][::-1]
    told = 0
    for window in windows[6:]:
        try:
            pixels = array[window]
        except DriftError:
            told += 1
        else:  # fetched before
            np.testing.assert_array_equal(pixels, expected[window])
    assert told > len(windows) // 2


def test_what_cannot_be_read_ahead_is_told_where_it_is_asked_for(remote, http_server):
    array, expected = remote("deflate")
    windows = in_order()
    for window in windows[:5]:
        array[window]
    http_server.files.clear()
    told = ""
    for window in windows[5:]:
        try:
            pixels = array[window]
        except jnrrdz.JnrrdzError as error:
            told = str(error)
            break
        np.testing.assert_array_equal(pixels, expected[window])
    assert "404" in told


def test_references_that_cannot_be_read_ahead_are_no_error_of_the_window_before(remote, monkeypatch, tmp_path):
    monkeypatch.setitem(parquet.write.__kwdefaults__, "record_size", 2 * SIDE // TILE)
    array, expected = remote("deflate", "parquet")
    (tmp_path / "a.parquet" / "data" / "refs.1.parq").write_bytes(b"damaged")
    for window in in_order()[: 2 * SIDE // TILE]:
        np.testing.assert_array_equal(array[window], expected[window])
    with pytest.raises(MalformedError, match=r"refs\.1\.parq: data: "):
        array[2 * TILE :]


def test_a_url_that_is_refused_is_an_error_of_its_chunk_only(remote, http_server, tmp_path):
    _, expected = remote("deflate")
    manifest = json.loads((tmp_path / "a.json").read_text())
    manifest["refs"]["data/c/7/7"] = ["file://elsewhere/b.tif", 0, 100]
    (tmp_path / "b.json").write_text(json.dumps(manifest))
    array = jnrrdz.open_group(str(tmp_path / "b.json"), allow=[http_server.url])["data"]
    np.testing.assert_array_equal(array[: 7 * TILE], expected[: 7 * TILE])
    with pytest.raises(jnrrdz.JnrrdzError, match=r"elsewhere.*data/c/7/7"):
        array[...]


def test_a_store_that_is_closed_gives_up_what_it_reads_ahead(remote, http_server):
    array, expected = remote("deflate")
    array[:TILE, :TILE]
    http_server.latency = 1.0
    store = array.store_path.store
    sync(store.read_ahead("data", [[range(4, 6), range(8)]]))
    coming = set(store._batches._coming.values())  # noqa: SLF001  nothing else tells what is on its way
    store.close()
    assert coming
    assert all(fetch.cancelled() for fetch in coming)
    np.testing.assert_array_equal(array[4 * TILE :], expected[4 * TILE :])


def _pixels(array, window, queue):
    queue.put(array[window])


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_reads_what_this_one_reads_ahead(remote, http_server, method):
    array, expected = remote("deflate")
    windows = in_order()
    for window in windows[:4]:
        array[window]
    http_server.latency = 0.3
    array[windows[4]]  # the next ones are on their way now
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_pixels, args=(array, windows[5], queue))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), expected[windows[5]])
    child.join()
    again = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(again[windows[6]], expected[windows[6]])


SCRIPT = """
import sys, jnrrdz
array = jnrrdz.open_group(sys.argv[1], allow=[sys.argv[2]])["data"]
for column in range(0, 320, 64):
    array[:64, column : column + 64]
"""


def test_a_process_that_ends_meanwhile_says_nothing(remote, http_server, tmp_path):
    remote("deflate")
    http_server.latency = 0.2
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "a.json"), http_server.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_remote_windows_are_what_these_tests_read(remote, monkeypatch):
    read = []
    usual = RemoteWindow.read
    monkeypatch.setattr(RemoteWindow, "read", lambda window: read.append(1) or usual(window))
    array, _ = remote()
    for window in WINDOWS:
        array[window]
    array[STEPS]
    assert len(read) == len(WINDOWS)


def boxes(*places, size=64):
    return [tuple((at, at + size) for at in place) for place in places]


def followed(walks, *windows):
    """Returns all that is fetched after some windows."""
    return [ahead for window in windows for ahead in walks.after(window)]


def test_a_walk_goes_on_along_its_axis_and_in_the_next_row():
    windows = boxes(*((row, column) for row in (0, 64) for column in range(0, 320, 64)))
    fetched = followed(Walks((128, 320)), *windows)
    assert fetched == windows[3:]  # each once, and in order


@pytest.mark.parametrize("step", [(0, -64), (64, 0), (-64, 0)])
def test_a_walk_has_any_direction_and_ends_with_the_array(step):
    windows = boxes(*((256 + number * step[0], 256 + number * step[1]) for number in range(8)))
    windows = [box for box in windows if all(0 <= start < 512 for start, _ in box)]
    assert followed(Walks((512, 512)), *windows)[: len(windows) - 3] == windows[3:]


def test_the_last_window_of_a_row_is_cut():
    windows = [*boxes((0, 0), (0, 64), (0, 128)), ((0, 64), (192, 200)), *boxes((64, 0))]
    assert followed(Walks((100, 200)), *windows)[:2] == [windows[3], ((64, 100), (0, 64))]


def test_a_walk_backwards_goes_on_in_the_row_before():
    rows = [(((row, row + 64), (column, min(column + 64, 200)))) for row in (64, 0) for column in (192, 128, 64, 0)]
    assert followed(Walks((128, 200)), *rows) == rows[4:]  # the first one is narrower


def test_threads_that_overtake_each_other_walk_on():
    line = boxes(*((0, column) for column in range(0, 64 * 40, 64)))
    order = sorted(range(40), key=lambda number: number + np.random.default_rng(number).uniform(0, 3))
    fetched = followed(Walks((64, 64 * 40)), *(line[number] for number in order))
    assert len(set(fetched)) == len(fetched) > 25


def test_two_windows_are_no_walk_and_windows_of_other_sizes_neither():
    assert followed(Walks((512, 512)), *boxes((0, 0), (0, 64), (64, 0), (192, 64), (0, 64))) == []
    assert followed(Walks((512, 512)), *boxes((0, 0), (0, 64)), ((0, 64), (128, 160))) == []
