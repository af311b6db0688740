import asyncio
import base64
import itertools
import json
import math
import multiprocessing
import pickle
import threading
from dataclasses import replace
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from jnrrdz import open_store
from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.state import Validators
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import DriftError, JnrrdzError, MalformedError, UnsupportedError, UntrustedSourceError
from jnrrdz.manifests.documents import Documents
from jnrrdz.manifests.manifest import Manifest, from_group, load
from jnrrdz.manifests.parquet_records import ParquetRefs
from jnrrdz.sources.local import LocalSource
from jnrrdz.sources.ranges import GAP
from jnrrdz.store import requests
from jnrrdz.store.group import reference_group
from jnrrdz.store.store import ReferenceStore

PROTOTYPE = default_buffer_prototype()
PIPELINES = ["BatchedCodecPipeline", "FusedCodecPipeline"]
VALUES = np.arange(48 * 60, dtype="<u2").reshape(48, 60)
CHUNK = (8, 10)
GRID = (6, 6)


def pipeline(name):
    return zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{name}"})


def is_sync(store):
    return store._supports_sync_io  # noqa: SLF001 - zarr's own name for the question


def tiles():
    """The bytes of every chunk, by index."""
    for i, j in np.ndindex(GRID):
        yield (i, j), VALUES[i * 8 : i * 8 + 8, j * 10 : j * 10 + 10].tobytes()


def documents(sources=(), **keys):
    encoding = {"name": keys.get("encoding", "default"), "configuration": {"separator": keys.get("separator", "/")}}
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(VALUES.shape),
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}},
        "chunk_key_encoding": encoding,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": 7,
        "attributes": {},
    }
    attributes = {"jnrrdz": {"version": "0", "sources": list(sources)}} if sources else {}
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return {"zarr.json": json.dumps(group), "data/zarr.json": json.dumps(array)}


def raw_file(gap=0):
    """A file of all chunks in C order, and where each is."""
    data, places = bytearray(b"header"), {}
    for index, chunk in tiles():
        places[index] = (len(data), len(chunk))
        data += chunk + b"\xaa" * gap
    return bytes(data), places


def write_manifest(path, refs):
    path.write_text(
        '{"version":1,"refs":{\n' + ",\n".join(f'"{k}":{json.dumps(v)}' for k, v in refs.items()) + "\n}}\n"
    )
    return str(path)


def local_manifest(tmp_path):
    """A manifest beside its file, chunks of one range, of several, inline and missing."""
    data, places = raw_file()
    (tmp_path / "raw.bin").write_bytes(data)
    refs = documents([{"url": "raw.bin", "size": len(data)}])
    for (i, j), (offset, length) in places.items():
        refs[f"data/c/{i}/{j}"] = ["raw.bin", offset, length]
    offset, length = places[1, 1]
    refs["data/c/1/1"] = ["raw.bin", [[offset, 60], [offset + 60, length - 60]]]
    refs["data/c/2/2"] = "base64:" + base64.b64encode(dict(tiles())[2, 2]).decode()
    del refs["data/c/3/3"]
    return write_manifest(tmp_path / "refs.json", refs)


@pytest.fixture
def local(tmp_path):
    return local_manifest(tmp_path)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return open_store(local_manifest(tmp_path_factory.mktemp("local")))


def expected():
    values = VALUES.copy()
    values[24:32, 30:40] = 7
    return values


@pytest.mark.parametrize("name", PIPELINES)
def test_zarr_reads_the_values(local, name):
    with pipeline(name):
        group = zarr.open_group(open_store(local), mode="r")
        assert np.array_equal(group["data"][:], expected())
        assert np.array_equal(group["data"][5:30, 7:41], expected()[5:30, 7:41])


def test_a_fused_pipeline_never_starts_a_loop_for_local_files(local, monkeypatch):
    store = open_store(local)
    with pipeline("FusedCodecPipeline"):
        array = zarr.open_group(store, mode="r")["data"]
        monkeypatch.setattr(store, "get", None)  # the asynchronous way
        assert np.array_equal(array[:], expected())


def oracle(store, keys):
    """zarr's own store with the same content."""
    content = {key: store.get_sync(key) for key in keys}
    return MemoryStore(content)


@pytest.mark.parametrize(("encoding", "separator"), list(itertools.product(["default", "v2"], "/.")))
def test_listing_says_what_a_memory_store_says(tmp_path, encoding, separator):
    names = {"default": f"c{separator}", "v2": ""}
    refs = documents(encoding=encoding, separator=separator)
    refs |= {
        f"data/{names[encoding]}{i}{separator}{j}": "ab" for i, j in np.ndindex(GRID) if (i, j) != (3, 3) and i != 4
    }
    refs |= {f"deep/er/{key.partition('/')[2]}": value for key, value in refs.items() if key.startswith("data/")}
    refs["deep/zarr.json"] = refs["zarr.json"]
    store = open_store(write_manifest(tmp_path / "refs.json", refs))
    memory = oracle(store, refs)

    async def collected(listing):
        return sorted([key async for key in listing])

    async def compare():
        assert await collected(store.list()) == await collected(memory.list()) == sorted(refs)
        prefixes = [
            "",
            "d",
            "data",
            "data/",
            "data/c",
            "data/c/",
            "data/c/1",
            "data/c/1/",
            "data/c/9",
            "data/1",
            "data/c.1",
            "deep",
            "deep/er",
            "x",
        ]
        for prefix in prefixes:
            assert await collected(store.list_prefix(prefix)) == await collected(memory.list_prefix(prefix)), prefix
            assert await collected(store.list_dir(prefix)) == await collected(memory.list_dir(prefix)), prefix
        for key in [*refs, "data/c/3/3", "data/c/9/9", "nothing", "data", "data/c"]:
            assert await store.exists(key) == await memory.exists(key), key
        assert await store.getsize_prefix("data") == await memory.getsize_prefix("data")

    asyncio.run(compare())


byte_ranges = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 200), st.integers(0, 200)).map(lambda pair: RangeByteRequest(*sorted(pair))),
    st.integers(0, 200).map(OffsetByteRequest),
    st.integers(0, 200).map(SuffixByteRequest),
)


@given(byte_ranges, st.sampled_from(["data/c/0/0", "data/c/1/1", "data/c/2/2", "data/c/3/3", "data/zarr.json", "none"]))
def test_parts_are_what_a_memory_store_cuts(store, part, key):
    whole = store.get_sync(key)
    memory = MemoryStore({} if whole is None else {key: whole})
    cut = memory.get_sync(key, prototype=PROTOTYPE, byte_range=part)
    found = store.get_sync(key, prototype=PROTOTYPE, byte_range=part)
    later = asyncio.run(store.get(key, PROTOTYPE, part))
    many = asyncio.run(store.get_partial_values(PROTOTYPE, ((k, part) for k in [key])))
    assert [x if x is None else x.to_bytes() for x in (found, later, *many)] == [
        None if cut is None else cut.to_bytes()
    ] * 3


def test_a_whole_file_is_a_chunk(tmp_path):
    chunk = dict(tiles())[0, 0]
    (tmp_path / "one.bin").write_bytes(chunk)
    opened = open_store(write_manifest(tmp_path / "refs.json", documents() | {"data/c/0/0": ["one.bin"]}))
    assert opened.get_sync("data/c/0/0").to_bytes() == chunk
    assert opened.get_sync("data/c/0/0", byte_range=SuffixByteRequest(3)).to_bytes() == chunk[-3:]
    assert asyncio.run(opened.getsize("data/c/0/0")) == len(chunk)


@pytest.mark.parametrize("key", ["data/c/0/0", "data/c/1/1", "data/c/2/2"])
def test_a_suffix_longer_than_a_value_is_all_of_it(store, key):
    whole = store.get_sync(key).to_bytes()
    assert store.get_sync(key, byte_range=SuffixByteRequest(170)).to_bytes() == whole
    assert asyncio.run(store.get(key, PROTOTYPE, SuffixByteRequest(10**6))).to_bytes() == whole


def test_what_is_no_byte_range_is_refused(store):
    with pytest.raises(TypeError, match="Unexpected byte_range, got"):
        store.get_sync("data/c/0/0", byte_range=(0, 2))


# Many requests


class Remote:
    """A source that counts; every answer takes a turn of the loop."""

    def __init__(self, url, data, log, etag=None):
        self.url = url
        self.data = data
        self.log = log
        self.validators = Validators(len(data), etag)
        self.wait = None

    def read(self, spans):
        self.log.append((self.url, list(spans)))
        return [self.data[start:stop] for start, stop in spans]

    async def aread(self, spans):
        await asyncio.sleep(0.01)
        return self.read(spans)

    def close(self):
        pass


def remote_store(data, refs, *, table=(), etag=None):
    """A store of a remote manifest, and what is read and opened through it."""
    url = "https://example.org/d/refs.json"
    log = []
    opened = []

    def opener(place, *, storage_options, guard, **_):
        opened.append((place, storage_options, guard))
        return Remote(place, data, log, etag)

    content = documents() | {key: value for key, value in refs.items() if isinstance(value, str)}
    manifest = from_references(url, content, refs)
    manifest = Manifest(url, manifest.documents, manifest.arrays, tuple(table))
    return ReferenceStore(manifest, opener=opener), log, opened


def from_references(url, content, refs):
    rows = [refs.get(f"data/c/{i}/{j}", []) for i, j in np.ndindex(GRID)]
    urls = tuple(dict.fromkeys(row[0] for ranges in rows for row in ranges))
    flat = [(urls.index(source), offset, length) for ranges in rows for source, offset, length in ranges]
    source, offset, length = np.array(flat, np.int64).reshape(-1, 3).T
    indptr = np.concatenate(([0], np.cumsum([len(ranges) for ranges in rows])))
    columns = ChunkRefs(urls, indptr, source.astype(np.int32), offset, length)
    array = VirtualArray(VALUES.shape, VALUES.dtype, CHUNK, (bytes_("little"),), columns, ("y", "x"), 7)
    scanned = from_group(VirtualGroup({"data": array}))
    return Manifest(
        url, Documents({**scanned.documents, **{k: v.encode() for k, v in content.items()}}), scanned.arrays
    )


def tiled(gap, url="raw.bin"):
    data, places = raw_file(gap)
    return data, {f"data/c/{i}/{j}": [(url, *place)] for (i, j), place in places.items()}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_window_over_nine_tiles_costs_a_request_per_tile_row(name):
    # a tile row is followed by more than what is worth reading for nothing
    data, refs = tiled(GAP // 3)
    store, log, _ = remote_store(data, refs)
    with pipeline(name):
        array = zarr.open_group(store, mode="r")["data"]
        assert np.array_equal(array[10:30, 12:38], VALUES[10:30, 12:38])
    assert len(log) == 3
    assert not is_sync(store)


@pytest.mark.parametrize(("gap", "requests"), [(0, 1), (GAP, 1), (GAP + 1, 36)])
def test_neighbours_share_a_request(gap, requests):
    data, refs = tiled(gap)
    store, log, _ = remote_store(data, refs)
    found = asyncio.run(store.get_many(list(refs)[::-1]))
    assert [buffer.to_bytes() for buffer in found] == [chunk for _, chunk in tiles()][::-1]
    assert len(log) == requests


@pytest.mark.parametrize("most", [64, 5])
def test_a_whole_read_has_all_connections_under_way(monkeypatch, most):
    under_way, peak, inner = 0, 0, Remote.aread

    async def counted(self, spans):
        nonlocal under_way, peak
        under_way += 1
        peak = max(peak, under_way)
        try:
            return await inner(self, spans)
        finally:
            under_way -= 1

    monkeypatch.setattr(Remote, "aread", counted)
    monkeypatch.setattr(requests, "CONNECTIONS", most)
    data, refs = tiled(GAP + 1)
    del refs["data/c/1/1"]
    expected = VALUES.copy()
    expected[CHUNK[0] : 2 * CHUNK[0], CHUNK[1] : 2 * CHUNK[1]] = 7
    store, log, _ = remote_store(data, refs)
    assert np.array_equal(reference_group(store)["data"][...], expected)
    assert (len(log), peak) == (35, min(most, 35))


def test_large_reads_are_shared_out(monkeypatch):
    monkeypatch.setattr(requests, "SHARE", 2000)
    monkeypatch.setattr(requests, "SHARED", 1000)
    data, refs = tiled(0)
    store, log, _ = remote_store(data, refs)
    assert np.array_equal(reference_group(store)["data"][...], VALUES)
    sizes = [stop - start for _, [(start, stop)] in log]
    assert sum(sizes) == sum(length for [(_, _, length)] in refs.values())
    assert max(sizes) <= 2000 < sum(sizes)


def test_a_window_over_http_costs_a_request_per_tile_row(http_server):
    data, refs = tiled(GAP // 3)
    listed = {key: [url, offset, length] for key, [(url, offset, length)] in refs.items()}
    http_server.files["/raw.bin"] = data
    table = [{"url": "raw.bin", "size": len(data)}]
    http_server.files["/refs.json"] = json.dumps({"version": 1, "refs": documents(table) | listed}).encode()
    array = zarr.open_group(open_store(f"{http_server.url}/refs.json"), mode="r")["data"]
    http_server.log.clear()
    assert np.array_equal(array[10:30, 12:38], VALUES[10:30, 12:38])
    assert [entry.method for entry in http_server.log if entry.path == "/raw.bin"] == ["GET"] * 3


def test_ranges_of_one_chunk_may_lie_in_several_sources():
    data, places = raw_file()
    offset, length = places[0, 0]
    parts = [("a.bin", offset, 50), ("b.bin", offset + 50, length - 50)]
    store, log, _ = remote_store(data, {"data/c/0/0": parts, "data/c/0/1": [("b.bin", *places[0, 1])]})
    first, second = asyncio.run(store.get_many(["data/c/0/0", "data/c/0/1"]))
    chunks = dict(tiles())
    assert (first.to_bytes(), second.to_bytes()) == (chunks[0, 0], chunks[0, 1])
    assert sorted(url for url, _ in log) == ["https://example.org/d/a.bin", "https://example.org/d/b.bin"]
    assert store.describe("data/c/0/0") == f"a.bin bytes 6-55, b.bin bytes 56-{offset + length - 1}"


def test_threads_with_loops_of_their_own_read_at_once():
    data, refs = tiled(0)
    store, _, _ = remote_store(data, refs)
    found = {}

    def read(number):
        found[number] = asyncio.run(store.get_many(list(refs)))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chunks = [chunk for _, chunk in tiles()]
    assert all([buffer.to_bytes() for buffer in buffers] == chunks for buffers in found.values())
    assert len(found) == 8


def test_a_cancelled_reader_takes_nothing_from_the_others():
    data, refs = tiled(0)
    store, log, _ = remote_store(data, refs)

    async def read():
        first = asyncio.create_task(store.get("data/c/0/0"))
        second = asyncio.create_task(store.get("data/c/0/1"))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    first, second = asyncio.run(read())
    assert isinstance(first, asyncio.CancelledError)
    assert second.to_bytes() == dict(tiles())[0, 1]
    assert len(log) == 1


def test_a_failed_request_fails_those_who_asked_for_it_only():
    data, refs = tiled(GAP + 1)
    offset, length = refs["data/c/5/5"][0][1:]
    store, _, _ = remote_store(data[: offset + 3], refs)

    async def read():
        keys = ["data/c/5/4", "data/c/5/5"]
        return await asyncio.gather(*map(store.get, keys), return_exceptions=True)

    first, second = asyncio.run(read())
    assert first.to_bytes() == dict(tiles())[5, 4]
    assert isinstance(second, MalformedError)
    assert second.field == "data/c/5/5"
    assert second.offset == offset
    assert f"3 of {length} bytes" in str(second)


# Trust, drift, truncation


def test_a_source_is_asked_about_before_it_is_opened():
    data, refs = tiled(0, "file:///etc/passwd")
    store, log, opened = remote_store(data, refs)
    for read in (lambda: store.get_sync("data/c/0/0"), lambda: asyncio.run(store.get("data/c/0/0"))):
        with pytest.raises(UntrustedSourceError) as caught:
            read()
        assert caught.value.url == "file:///etc/passwd"
    assert (log, opened) == ([], [])


def test_what_was_fetched_last_is_not_fetched_again():
    data, refs = tiled(0)
    store, log, _ = remote_store(data, refs)
    first = asyncio.run(store.get_many(list(refs)))
    again = asyncio.run(store.get_many(list(refs)))
    assert [one.to_bytes() for one in first] == [one.to_bytes() for one in again]
    assert len(log) == 1


def test_a_source_is_opened_once_with_its_guard_and_options():
    data, refs = tiled(0)
    store, log, opened = remote_store(data, refs)
    for key in list(refs)[:3]:  # one that was fetched already would not be fetched again
        asyncio.run(store.get_many([key]))
    assert len(log) == 3
    ((place, options, guard),) = opened
    assert (place, options) == ("https://example.org/d/raw.bin", None)
    assert guard.start == ("https", "example.org", 443)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (SourceRecord("raw.bin", 5), "size was 5"),
        (SourceRecord("raw.bin", None, '"old"'), 'ETag was "old", is "new"'),
        (SourceRecord("raw.bin", 0), "size was 0"),
    ],
)
def test_a_source_that_changed_is_refused(record, error):
    data, refs = tiled(0)
    store, _, _ = remote_store(data, refs, table=[record], etag='"new"')
    for read in (lambda: store.get_sync("data/c/0/0"), lambda: asyncio.run(store.get("data/c/0/0"))):
        with pytest.raises(DriftError, match=f"changed since it was scanned: {error}") as caught:
            read()
        assert caught.value.url == "https://example.org/d/raw.bin"


def test_a_source_that_did_not_change_is_read():
    data, refs = tiled(0)
    table = [SourceRecord("raw.bin", len(data), 'W/"same"', modified="2001-01-01T00:00:00Z")]
    store, _, _ = remote_store(data, refs, table=table, etag='"same"')
    assert asyncio.run(store.get("data/c/0/0")).to_bytes() == dict(tiles())[0, 0]


def test_a_local_file_that_changed_is_refused(local, tmp_path):
    with (tmp_path / "raw.bin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(DriftError, match=r"raw\.bin.*size was"):
        open_store(local).get_sync("data/c/0/0")


def test_zarr_raises_and_shows_no_fill_value_where_bytes_are_gone(tmp_path):
    data, places = raw_file()
    (tmp_path / "raw.bin").write_bytes(data[:-10])
    refs = {f"data/c/{i}/{j}": ["raw.bin", *place] for (i, j), place in places.items()}
    path = write_manifest(tmp_path / "refs.json", documents() | refs)
    for name in PIPELINES:
        with pipeline(name):
            array = zarr.open_group(open_store(path), mode="r")["data"]
            assert np.array_equal(array[:40], VALUES[:40])
            with pytest.raises(MalformedError, match=r"raw\.bin: data/c/5/5: truncated: 150 of 160 bytes"):
                array[:]


def test_a_truncated_remote_source_is_an_error_in_every_way():
    data, refs = tiled(0)
    store, _, _ = remote_store(data[:-1], refs)
    for read in (lambda: store.get_sync("data/c/5/5"), lambda: asyncio.run(store.get("data/c/5/5"))):
        with pytest.raises(MalformedError, match="truncated: 159 of 160 bytes"):
            read()


def test_a_range_without_a_length_ends_where_its_source_does():
    store, _, _ = remote_store(
        b"0123456789", {"data/c/0/0": [("raw.bin", 4, WHOLE)], "data/c/0/1": [("raw.bin", 11, WHOLE)]}
    )
    assert store.get_sync("data/c/0/0").to_bytes() == b"456789"
    assert asyncio.run(store.get("data/c/0/0", PROTOTYPE, RangeByteRequest(1, 3))).to_bytes() == b"56"
    assert store.describe("data/c/0/0") == "raw.bin bytes 4-"
    with pytest.raises(MalformedError, match="a source of 10 bytes"):
        asyncio.run(store.get("data/c/0/1"))


def test_a_length_beyond_the_file_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "raw.bin").write_bytes(b"x" * 100)
    places = {"data/c/0/0": ["raw.bin", 40, 2**20], "data/c/0/1": ["raw.bin", 2**61, 5]}
    refs = documents() | places | {"data/c/0/2": ["raw.bin", 40, 2**61]}
    opened = open_store(write_manifest(tmp_path / "refs.json", refs))
    monkeypatch.setattr(LocalSource, "read", None)
    for key, words in zip(
        [*places, "data/c/0/2"], ("truncated: 60 of", "truncated: 0 of", f"{2**61} bytes stored for"), strict=True
    ):
        with pytest.raises(MalformedError, match=words):
            opened.get_sync(key)


def test_a_file_that_is_gone_is_an_error_and_no_missing_chunk(local, tmp_path):
    (tmp_path / "raw.bin").unlink()
    array = zarr.open_group(open_store(local), mode="r")["data"]
    with pytest.raises(JnrrdzError, match=r"raw\.bin"):
        array[:]


def test_more_sources_than_descriptors_can_be_read(tmp_path):
    count = 600
    refs = documents()
    document = json.loads(refs["data/zarr.json"]) | {"shape": [count], "data_type": "uint8"}
    document["chunk_grid"]["configuration"]["chunk_shape"] = [1]
    refs["data/zarr.json"] = json.dumps(document)
    for number in range(count):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number % 251]))
        refs[f"data/c/{number}"] = [f"{number}.bin", 0, 1]
    store = open_store(write_manifest(tmp_path / "refs.json", refs))
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert zarr.open_group(store, mode="r")["data"][:].tolist() == [number % 251 for number in range(count)]
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 256 + 8


# Elsewhere: pickles, processes, dask


def scanned(tmp_path):
    data, places = raw_file()
    (tmp_path / "scanned.bin").write_bytes(data)
    offsets, lengths = zip(*places.values(), strict=True)
    refs = ChunkRefs.single(str(tmp_path / "scanned.bin"), offsets, lengths)
    array = VirtualArray(VALUES.shape, VALUES.dtype, CHUNK, (bytes_("little"),), refs, ("y", "x"), 7)
    return ReferenceStore(from_group(VirtualGroup({"data": array})))


def test_a_manifests_store_pickles_as_its_url(local):
    store = open_store(local, source_options={"anon": True}, allow=["s3://b/"])
    text = pickle.dumps(store)
    assert len(text) < 1000
    again = pickle.loads(text)
    assert again == store
    assert again.manifest is store.manifest  # this process has it already
    assert again != open_store(local)
    assert again.get_sync("data/c/0/0").to_bytes() == dict(tiles())[0, 0]


def test_a_scanned_store_pickles_its_columns(tmp_path):
    store = scanned(tmp_path)
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert np.array_equal(zarr.open_group(again, mode="r")["data"][:], VALUES)
    assert again != scanned(tmp_path.joinpath("..").resolve())


def values_of(store):
    return zarr.open_group(store, mode="r")["data"][:]


def put_values(queue, store):
    queue.put(values_of(store))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_other_processes_read_the_same(local, method):
    store = open_store(local)
    assert np.array_equal(values_of(store), expected())  # sources are open and loops are running
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=put_values, args=(queue, store))
    process.start()
    assert np.array_equal(queue.get(timeout=60), expected())
    process.join()


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("kind", ["manifest", "scanned"])
def test_dask_reads_the_same(local, tmp_path, scheduler, kind):
    store = open_store(local) if kind == "manifest" else scanned(tmp_path)
    array = da.from_zarr(zarr.open_group(store, mode="r")["data"], chunks=(24, 30))
    with dask.config.set(scheduler=scheduler, num_workers=2):
        assert np.array_equal(array.compute(), expected() if kind == "manifest" else VALUES)


# What zarr asks about, and refusals


def test_local_sources_are_read_without_a_loop(local, tmp_path):
    assert is_sync(open_store(local))
    assert is_sync(scanned(tmp_path))
    refs = documents() | {"data/c/0/0": ["s3://b/k", 0, 1]}
    assert not is_sync(open_store(write_manifest(tmp_path / "remote.json", refs)))
    refs = documents() | {"data/c/0/0": ["file://elsewhere/k", 0, 1]}
    assert not is_sync(open_store(write_manifest(tmp_path / "odd.json", refs)))


def test_records_do_not_say_where_sources_are_before_they_are_read(tmp_path):
    refs = ParquetRefs(math.prod(GRID), str(tmp_path / "data"), 10, None)
    content = Documents({key: value.encode() for key, value in documents().items()})
    manifest = Manifest(str(tmp_path), content, {"data": refs})
    assert not is_sync(ReferenceStore(manifest))
    assert is_sync(ReferenceStore(replace(manifest, sources=(SourceRecord("a.bin"),))))
    assert not is_sync(ReferenceStore(replace(manifest, sources=(SourceRecord("s3://b/k"),))))


def test_nothing_is_written(local):
    store = open_store(local)
    value = PROTOTYPE.buffer.from_bytes(b"x")
    assert store.read_only
    assert not store.supports_writes
    assert not store.supports_deletes
    for write in (
        lambda: asyncio.run(store.set("a", value)),
        lambda: asyncio.run(store.delete("a")),
        lambda: store.set_sync("a", value),
        lambda: store.delete_sync("a"),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(UnsupportedError, match="read-only"):
        store.with_read_only(read_only=False)
    assert store.with_read_only(read_only=True) == store


def test_keys_are_described_for_people(local, tmp_path):
    store = open_store(local)
    assert store.describe("data/c/0/0") == "raw.bin bytes 6-165"
    offset = 6 + 7 * 160
    assert store.describe("data/c/1/1") == f"raw.bin bytes {offset}-{offset + 59}, {offset + 60}-{offset + 159}"
    assert store.describe("data/c/2/2") == f"inline in {local}, 160 bytes"
    assert store.describe("data/c/3/3") == "in no source"
    assert str(tmp_path) in repr(store)


def test_the_manifest_stays_as_loaded(local):
    assert open_store(local).manifest is load(local)
