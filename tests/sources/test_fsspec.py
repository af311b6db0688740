"""Sources over HTTP, S3, memory and zip: right bytes or a JnrrdzError, few requests, any loop."""

import asyncio
import multiprocessing
import pickle
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

from jnrrdz.errors import DriftError, JnrrdzError, UnsupportedError
from jnrrdz.sources import http as http_module
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.remote import FsspecSource

DATA = bytes(range(251)) * 800
SPANS = [(100, 200), (0, 7), (190_000, 200_795), (150, 160), (200_700, 999_999), (5, 5), (300_000, 300_010)]
SLICES = [DATA[start:stop] for start, stop in SPANS]
S3_OPTIONS = {"anon": True, "use_listings_cache": False}


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/source-tests/a.bin", DATA)
    yield "memory://source-tests/a.bin"
    fs.rm("/source-tests", recursive=True)


@pytest.fixture
def zipped(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/a.bin", DATA)
    return f"zip://inner/a.bin::file://{tmp_path}/z.zip"


@pytest.fixture
def web(http_server):
    http_server.files["/d/a.bin"] = DATA
    return http_server


@pytest.fixture
def s3(make_http_server):
    server = make_http_server(files={"/bucket/a.bin": DATA}, headers={"x-amz-version-id": "v7"})
    return server, {**S3_OPTIONS, "endpoint_url": server.url}


@pytest.fixture(params=["memory", "zipped", "http", "s3"])
def source(request):
    if request.param == "http":
        return open_source(f"{request.getfixturevalue('web').url}/d/a.bin")
    if request.param == "s3":
        return open_source("s3://bucket/a.bin", storage_options=request.getfixturevalue("s3")[1])
    return open_source(request.getfixturevalue(request.param))


def test_reads_are_slices_whether_the_size_is_known_or_not(source):
    assert source.read(SPANS) == SLICES
    assert source.validators.size == len(DATA)
    assert source.read(SPANS) == SLICES


def test_past_the_end_at_first_sight(source):
    assert source.read([(len(DATA), len(DATA) + 9)]) == [b""]
    assert source.read([(len(DATA) - 1, len(DATA) + 9)]) == [DATA[-1:]]


def test_aread_from_loops_that_are_not_fsspecs(source):
    assert asyncio.run(source.aread(SPANS)) == SLICES
    assert asyncio.run(source.aread(SPANS)) == SLICES  # another loop, the first is closed


def test_many_threads(source):
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(source.read, [SPANS] * 16)) == [SLICES] * 16


def test_a_pickled_source_reads_and_knows_what_it_knew(source):
    known = source.validators
    copy = pickle.loads(pickle.dumps(source))
    assert (copy.url, copy.validators) == (source.url, known)
    assert copy.read(SPANS) == SLICES


def test_aread_leaves_the_loop_free(web):
    web.latency = 0.2
    source = open_source(f"{web.url}/d/a.bin")

    async def both():
        ticks = 0
        task = asyncio.ensure_future(source.aread([(0, 5)]))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks, await task

    ticks, data = asyncio.run(both())
    assert data == [DATA[:5]]
    assert ticks > 1


def _read_in_child(source, results):
    results.put(source.read([(3, 9)]))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_source_used_before_a_fork_works_after_it(web):
    source = open_source(f"{web.url}/d/a.bin")
    source.read([(0, 3)])
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(source, results))
    child.start()
    child.join(20)
    child.kill()
    assert not results.empty()
    assert results.get() == [DATA[3:9]]


# -- requests -----------------------------------------------------------------------------------


def test_validators_over_http_are_one_head(web):
    found = open_source(f"{web.url}/d/a.bin").validators
    assert (found.size, found.modified) == (len(DATA), "2015-10-21T07:28:00Z")
    assert len(found.etag) == 34
    assert web.methods() == ["HEAD"]


def test_a_header_scan_over_http_is_one_request(web):
    source = open_source(f"{web.url}/d/a.bin")
    assert ReadAhead(source)(8, 30_000) == DATA[8:30_000]
    assert (source.validators.size, source.validators.etag[0]) == (len(DATA), '"')
    assert [(entry.method, entry.range) for entry in web.log] == [("GET", "bytes=0-32767")]


def test_validators_over_s3_are_one_head(s3):
    server, options = s3
    found = open_source("s3://bucket/a.bin", storage_options=options).validators
    assert (found.size, found.version, found.modified) == (len(DATA), "v7", "2015-10-21T07:28:00Z")
    assert found.etag.strip('"')
    assert server.methods() == ["HEAD"]


def test_an_earlier_listing_does_not_tell_the_state(s3):
    server, _ = s3
    options = {"anon": True, "endpoint_url": server.url}
    old = {"name": "bucket/a.bin", "size": 1, "type": "file", "ETag": '"old"'}
    fsspec.filesystem("s3", **options).dircache["bucket"] = [old]
    assert open_source("s3://bucket/a.bin", storage_options=options).validators.size == len(DATA)


def test_requester_pays_and_stray_loop_options(s3):
    server, options = s3
    more = {**options, "requester_pays": True, "asynchronous": True}
    assert open_source("s3://bucket/a.bin", storage_options=more).read([(0, 4)]) == [DATA[:4]]
    assert server.log[0].headers["x-amz-request-payer"] == "requester"


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_server_that_refuses_head_is_asked_for_one_byte(web, status):
    web.head = status
    assert open_source(f"{web.url}/d/a.bin").validators.size == len(DATA)
    assert [entry.range for entry in web.log] == [None, "bytes=0-0"]


def test_a_server_whose_head_tells_a_compressed_length_is_asked_for_one_byte(web):
    web.headers["Content-Encoding"] = "gzip"  # the length that HEAD gives is then not the object's
    assert open_source(f"{web.url}/d/a.bin").validators.size == len(DATA)
    assert web.methods() == ["HEAD", "GET"]


def test_near_spans_share_a_request_and_far_ones_do_not(web):
    FsspecSource(f"{web.url}/d/a.bin", gap=50).read([(0, 100), (100, 200), (250, 300), (400, 500)])
    assert sorted(entry.range for entry in web.log) == ["bytes=0-299", "bytes=400-499"]


def test_requests_run_together(web):
    web.latency = 0.2
    found = FsspecSource(f"{web.url}/d/a.bin", gap=0).read([(i * 1000, i * 1000 + 10) for i in range(10)])
    assert web.together > 3
    assert found == [DATA[i * 1000 : i * 1000 + 10] for i in range(10)]


def test_connections_are_used_again(web):
    source = open_source(f"{web.url}/d/a.bin")
    for start in range(0, 1000, 100):
        source.read([(start, start + 10)])
    assert len({entry.connection for entry in web.log}) == 1


def test_bytes_arrive_as_they_are_stored(web):
    source = open_source(f"{web.url}/d/a.bin", storage_options={"headers": {"X-Key": "k"}})
    source.read([(0, 5)])
    assert web.log[0].headers["Accept-Encoding"] == "identity"
    assert web.log[0].headers["X-Key"] == "k"


# -- servers that misbehave ---------------------------------------------------------------------


def test_a_server_without_ranges_gives_right_bytes(web):
    web.ranges = False
    assert open_source(f"{web.url}/d/a.bin").read(SPANS) == SLICES


def test_a_server_without_ranges_is_not_read_to_the_end(web):
    web.ranges = False
    web.files["/d/a.bin"] = bytes(40_000_000)
    assert open_source(f"{web.url}/d/a.bin").read([(10, 20)]) == [bytes(10)]
    assert web.body_bytes < 20_000_000


def test_a_server_without_ranges_is_refused_where_much_would_be_downloaded(web, monkeypatch):
    monkeypatch.setattr(http_module, "WHOLE_LIMIT", 100_000)
    web.ranges = False
    with pytest.raises(UnsupportedError, match="ignores ranges: 150010 bytes") as error:
        open_source(f"{web.url}/d/a.bin").read([(150_000, 150_010)])
    assert (error.value.offset, error.value.url) == (150_000, f"{web.url}/d/a.bin")


@pytest.mark.parametrize(
    "lie", [lambda a, b: (0, b - a), lambda a, b: (a + 1, b + 1), lambda a, b: (a, b - 1), lambda a, b: (a, b + 5)]
)
def test_an_answer_for_another_range_is_refused(web, lie):
    web.lie = lie
    with pytest.raises(JnrrdzError, match="asked for bytes 10-19, the server sent bytes"):
        open_source(f"{web.url}/d/a.bin").read([(10, 20)])


def test_a_206_that_does_not_say_which_bytes(web):
    web.headers["Content-Range"] = "None"
    source = open_source(f"{web.url}/d/a.bin")
    assert source.validators.size == len(DATA)
    with pytest.raises(JnrrdzError, match="no Content-Range"):
        source.read([(10, 20)])


def test_an_s3_server_without_ranges_gives_right_bytes(s3):
    server, options = s3
    server.ranges = False
    assert open_source("s3://bucket/a.bin", storage_options=options).read([(10, 20)]) == [DATA[10:20]]


def test_a_body_compressed_against_our_wish(web):
    web.ranges = False
    web.headers["Content-Encoding"] = "gzip"
    with pytest.raises(UnsupportedError, match="compresses"):
        open_source(f"{web.url}/d/a.bin").read([(0, 10)])


def test_an_object_that_changes_between_two_reads(web):
    source = open_source(f"{web.url}/d/a.bin")
    source.read([(0, 10)])
    web.files["/d/a.bin"] = DATA[::-1]
    with pytest.raises(DriftError, match="changed while it was read"):
        source.read([(0, 10)])


def test_an_etag_that_only_some_answers_have(web):
    """Some servers give none to HEAD; once there is one, it counts."""
    source = open_source(f"{web.url}/d/a.bin")
    web.etags = False
    assert source.validators.etag is None
    web.etags = True
    assert source.read([(0, 10)]) == [DATA[:10]]
    web.etags = False
    assert source.read([(10, 20)]) == [DATA[10:20]]
    web.etags = True
    web.files["/d/a.bin"] = DATA[::-1]
    with pytest.raises(DriftError, match="changed while it was read"):
        source.read([(0, 10)])


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(web, status):
    web.statuses["/d/a.bin"] = [status, status]
    assert open_source(f"{web.url}/d/a.bin").read([(0, 10)]) == [DATA[:10]]
    assert len(web.log) == 3


def test_a_broken_connection_is_tried_again(web):
    web.cut = [50_000, 0]
    assert open_source(f"{web.url}/d/a.bin").read([(0, 100_000)]) == [DATA[:100_000]]
    assert len(web.log) == 3


def test_a_connection_that_always_breaks_is_an_error(web):
    web.cut = [50_000] * 9
    with pytest.raises(JnrrdzError, match="reading failed"):
        open_source(f"{web.url}/d/a.bin").read([(0, 100_000)])


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [lambda s: s.read([(0, 4)]), lambda s: s.validators])
@pytest.mark.parametrize("status", [401, 403, 404, 410, 500])
def test_http_statuses_are_named(web, status, ask):
    web.head = 405
    web.statuses["/x"] = [status] * 9
    with pytest.raises(JnrrdzError, match=f"HTTP {status}") as error:
        ask(open_source(f"{web.url}/x"))
    assert error.value.url == f"{web.url}/x"
    assert "\n" not in str(error.value)


def test_connection_refused(make_http_server):
    server = make_http_server()
    server.close()
    for ask in (lambda s: s.read([(0, 4)]), lambda s: s.validators, lambda s: asyncio.run(s.aread([(0, 4)]))):
        with pytest.raises(JnrrdzError, match=f"127.0.0.1:{server.port}") as error:
            ask(open_source(f"{server.url}/x"))
        assert error.value.__cause__ is not None


def test_too_many_redirects(web):
    web.redirects["/x"] = "/x"
    with pytest.raises(JnrrdzError, match="reading failed"):
        open_source(f"{web.url}/x").read([(0, 4)])


def test_s3_not_found_and_forbidden(s3):
    server, options = s3
    with pytest.raises(JnrrdzError, match="not found") as error:
        open_source("s3://bucket/none", storage_options=options).read([(0, 4)])
    assert error.value.url == "s3://bucket/none"
    server.statuses["/bucket/a.bin"] = [403] * 9
    with pytest.raises(JnrrdzError, match=r"permission denied.*--no-sign-request"):
        _ = open_source("s3://bucket/a.bin", storage_options=options).validators


def test_s3_without_credentials(monkeypatch, s3, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {"endpoint_url": s3[0].url}
    with pytest.raises(JnrrdzError, match="--no-sign-request") as error:
        open_source("s3://bucket/a.bin", storage_options=options).read([(0, 4)])
    assert "redentials" in str(error.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://none", "not found"),
        ("nothing://a/b", "nothing"),
        ("http:///nohost", "without a host"),
        ("http://a:99999/x", "not a URL"),
        ("memory://source-tests", "a directory"),
    ],
)
@pytest.mark.usefixtures("memory")
def test_other_failures_are_jnrrdz_errors_too(url, message):
    with pytest.raises(JnrrdzError, match=message) as error:
        _ = open_source(url).validators
    assert error.value.url == url


def test_a_broken_zip(tmp_path):
    (tmp_path / "z.zip").write_bytes(b"not a zip")
    with pytest.raises(JnrrdzError, match="not a zip"):
        open_source(f"zip://a::file://{tmp_path}/z.zip")


def test_one_failure_gives_up_the_rest_of_a_batch(web):
    web.latency = 0.05
    web.statuses["/d/a.bin"] = [404]
    with pytest.raises(JnrrdzError, match="HTTP 404"):
        FsspecSource(f"{web.url}/d/a.bin", gap=0).read([(i * 10, i * 10 + 1) for i in range(500)])
    time.sleep(0.2)
    assert len(web.log) < 200


def test_a_source_behind_a_cache(web):
    assert open_source(f"simplecache::{web.url}/d/a.bin").read([(3, 9)]) == [DATA[3:9]]
