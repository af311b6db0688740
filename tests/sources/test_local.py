"""Local files: positioned reads from any thread, descriptors that come back, what is refused."""

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jnrrdz.errors import DriftError, JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.sources import local
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.local import LocalSource

DATA = bytes(range(256)) * 16


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a b%.bin"
    file.write_bytes(DATA)
    return file


def descriptors(path):
    return [link for link in Path("/proc/self/fd").iterdir() if link.resolve() == path]


@pytest.mark.parametrize("spell", [str, lambda p: p.as_uri(), lambda p: f"file:{p}", lambda p: f"LOCAL://{p}"])
def test_every_local_spelling_opens_the_file(path, spell):
    source = open_source(spell(path))
    assert isinstance(source, LocalSource)
    assert source.url == spell(path)
    assert source.read([(250, 260)]) == [DATA[250:260]]


@settings(deadline=None)  # a busy machine takes its time
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)).map(sorted).map(tuple), max_size=5))
def test_reads_are_slices_short_at_the_end(tmp_path_factory, spans):
    file = tmp_path_factory.getbasetemp() / "slices.bin"
    file.write_bytes(DATA)
    source = open_source(str(file))
    expected = [DATA[start:stop] for start, stop in spans]
    assert source.read(spans) == expected
    assert asyncio.run(source.aread(spans)) == expected


def test_validators_are_those_of_the_file(path):
    os.utime(path, ns=(0, 1_445_412_480_123_456_789))
    found = open_source(str(path)).validators
    assert (found.size, found.etag, found.version) == (4096, None, None)
    assert found.modified == "2015-10-21T07:28:00.123456789Z"
    assert datetime.fromisoformat(found.modified) == datetime(2015, 10, 21, 7, 28, 0, 123456, UTC)


def test_many_threads_share_one_descriptor(path):
    source = open_source(str(path))
    spans = [(i, i + 100) for i in range(0, 4000, 7)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda span: source.read([span])[0], spans))
        assert len(descriptors(path)) == 1
    assert found == [DATA[start:stop] for start, stop in spans]


def test_close_lets_go_and_reading_opens_again(path):
    source = open_source(str(path))
    assert len(descriptors(path)) == 1
    source.close()
    assert descriptors(path) == []
    assert source.read([(0, 2)]) == [DATA[:2]]
    assert len(descriptors(path)) == 1
    del source
    assert descriptors(path) == []


def test_a_reader_keeps_its_descriptor_while_others_close(path):
    source = open_source(str(path))
    stop = threading.Event()

    def closing():
        while not stop.is_set():
            source.close()

    closer = threading.Thread(target=closing)
    closer.start()
    try:
        assert all(source.read([(7, 17)]) == [DATA[7:17]] for _ in range(500))
    finally:
        stop.set()
        closer.join()


def test_a_pickled_source_reads_on(path):
    source = open_source(str(path))
    copy = pickle.loads(pickle.dumps(source))
    assert copy.url == source.url
    assert copy.validators == source.validators
    assert copy.read([(1, 3)]) == [DATA[1:3]]


def test_a_file_replaced_before_it_is_opened_again_has_drifted(path):
    source = open_source(str(path))
    state = pickle.dumps(source)
    path.write_bytes(b"other")
    with pytest.raises(DriftError, match="scan it again") as error:
        pickle.loads(state).read([(0, 1)])
    assert error.value.url == str(path)


def test_a_file_that_shrinks_is_an_error_not_short_bytes(path):
    source = open_source(str(path))
    os.truncate(path, 100)
    with pytest.raises(DriftError, match="50 bytes where 60") as error:
        source.read([(50, 110)])
    assert error.value.offset == 50


@pytest.mark.parametrize("span", [(-1, 3), (3, 1)])
def test_an_impossible_span(path, span):
    with pytest.raises(MalformedError) as error:
        open_source(str(path)).read([span])
    assert (error.value.offset, error.value.url) == (span[0], str(path))


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsupportedError, match="neither a file nor a directory"):
        open_source(str(tmp_path / "pipe"))
    with pytest.raises(UnsupportedError, match="a directory where a file is read") as error:
        open_source(str(tmp_path))
    assert error.value.url == str(tmp_path)


def test_a_missing_file_and_a_foreign_file_url(tmp_path):
    with pytest.raises(JnrrdzError, match="not found") as error:
        open_source(str(tmp_path / "none"))
    assert isinstance(error.value.__cause__, FileNotFoundError)
    with pytest.raises(JnrrdzError, match="on host 'elsewhere'"):
        open_source("file://elsewhere/etc/passwd")


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import jnrrdz
jnrrdz.index("volume.nhdr", "refs.json")
for name in ("refs.json", "volume.nhdr"):
    volume = jnrrdz.open_group(name)["data"]
    assert [int(plane.max()) for plane in volume[...]] == list(range(200)), name
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of this kind")
def test_more_files_than_a_process_may_open(tmp_path):
    for number in range(200):
        (tmp_path / f"{number}.raw").write_bytes(bytes([number]) * 64)
    header = ["NRRD0004", "type: uint8", "dimension: 3", "sizes: 8 8 200"]
    header += ["encoding: raw", "data file: LIST"]
    header += [f"{number}.raw" for number in range(200)]
    (tmp_path / "volume.nhdr").write_text("\n".join(header) + "\n")
    command = [sys.executable, "-c", LIMITED]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


CROWDED = """
import resource, sys
from jnrrdz.sources.local import LocalSource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
others = [open("0.raw", "rb") for _ in range(45)]
sources = [LocalSource(f"{number}.raw", f"{number}.raw") for number in range(60)]
for number, source in enumerate(sources):
    assert source.read([(0, 1)]) == [bytes([number])]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of this kind")
def test_sources_give_way_where_others_hold_the_descriptors(tmp_path):
    for number in range(60):
        (tmp_path / f"{number}.raw").write_bytes(bytes([number]))
    command = [sys.executable, "-c", CROWDED]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_source_that_was_closed_for_another_is_read_again(path, monkeypatch):
    monkeypatch.setattr(local, "most_open", lambda: 3)
    sources = [open_source(str(path)) for _ in range(10)]
    assert len(descriptors(path)) <= 3
    assert {source.read([(1, 3)])[0] for source in sources} == {DATA[1:3]}
    path.write_bytes(DATA[::-1] + b"x")
    with pytest.raises(DriftError, match="scan it again"):
        sources[0].read([(1, 3)])
