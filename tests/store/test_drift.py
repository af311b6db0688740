"""A source that changed after it was indexed: refused before a byte of it is given out, on real servers."""

import http.server
import json
import os
import shutil
import threading
import time
import warnings

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.errors import DriftError, DriftWarning
from jnrrdz.sources.local import MARGIN, SETTLED

OLD, NEW = (np.full((64, 64), value, np.uint8) for value in (7, 8))


def tiff(path, values, more=b""):
    tifffile.imwrite(path, values, tile=(32, 32), metadata=None)
    path.write_bytes(path.read_bytes() + more)
    return path.read_bytes()


class OnS3:
    """An object of a bucket, seen through a proxy that counts."""

    def __init__(self, seaweed, bucket, make_proxy):
        self.put = lambda data: seaweed.put(bucket, "a.tif", data)
        self.proxy = make_proxy(seaweed.port)
        self.url = f"s3://{bucket}/a.tif"
        self.options = seaweed.options(endpoint_url=self.proxy.url)


class OnHttp:
    """A file that nginx serves, the same way; its ETag is its time and size."""

    def __init__(self, nginx, make_proxy):
        self.proxy = make_proxy(nginx.port)
        self.path = nginx.files / "drift.tif"
        self.url = f"{self.proxy.url}/drift.tif"
        self.options = {}
        self.times = 0

    def put(self, data):
        self.times += 1
        self.path.write_bytes(data)
        os.utime(self.path, (1e9 + self.times, 1e9 + self.times))


@pytest.fixture(params=["s3", "http"])
def place(request, make_proxy):
    if request.param == "s3":
        return OnS3(request.getfixturevalue("seaweed"), request.getfixturevalue("bucket"), make_proxy)
    return OnHttp(request.getfixturevalue("nginx"), make_proxy)


def indexed(place, tmp_path):
    place.put(tiff(tmp_path / "a.tif", OLD))
    refs = tmp_path / "refs.json"
    jnrrdz.index(place.url, refs, storage_options=place.options)
    del place.proxy.requests[:]
    return jnrrdz.open_group(str(refs), source_options=place.options)["data"]


def test_an_unchanged_source_costs_no_request_more(place, tmp_path):
    array = indexed(place, tmp_path)
    assert np.array_equal(array[:], OLD)
    (request,) = place.proxy.requests
    assert request.method == "GET"
    assert request.headers["if-match"].startswith('"')


@pytest.mark.parametrize("more", [b"", b"longer"])
def test_a_replaced_source_is_refused_at_the_first_request(place, tmp_path, more):
    array = indexed(place, tmp_path)
    place.put(tiff(tmp_path / "a.tif", NEW, more))
    with pytest.raises(DriftError, match=r"changed since it was scanned: (ETag was \"|size was \d+)") as error:
        array[:]
    assert place.url in str(error.value)
    first, *others = place.proxy.requests
    assert "if-match" in first.headers  # answered 412: not a byte of the new object came
    # tells what is there now; nginx may close the connection after a 412, and aiohttp asks once more then
    assert [("if-match" in other.headers) for other in others] in ([False], [False, False])


def test_a_source_replaced_while_it_is_read_is_refused(place, tmp_path):
    array = indexed(place, tmp_path)
    assert array[0, 0] == 7
    place.put(tiff(tmp_path / "a.tif", NEW))
    with pytest.raises(DriftError, match="changed while it was read: ETag was"):
        array[32:, 32:]


def test_a_replaced_source_is_refused_however_often_it_is_asked(place, tmp_path):
    array = indexed(place, tmp_path)
    place.put(tiff(tmp_path / "a.tif", NEW))
    for _ in range(3):  # no state of a failed request may let the next one pass
        with pytest.raises(DriftError):
            array[:]


@pytest.fixture
def local(tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    tiff(folder / "a.tif", OLD)
    jnrrdz.index(folder / "a.tif", folder / "refs.json", relative=True)
    return folder


def test_a_local_file_of_another_size_is_refused(local):
    tiff(local / "a.tif", NEW, b"longer")
    with pytest.raises(DriftError, match="size was"):
        jnrrdz.open_group(local / "refs.json")["data"][:]


def test_a_local_file_of_another_time_is_warned_of_once(local, tmp_path):
    shutil.copytree(local, tmp_path / "copied")
    os.utime(tmp_path / "copied" / "a.tif", (1e9, 1e9))
    array = jnrrdz.open_group(tmp_path / "copied" / "refs.json")["data"]
    with pytest.warns(DriftWarning, match=r"a\.tif: changed since it was scanned: time of modification") as told:
        assert np.array_equal(array[:], OLD)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array[:]


def test_many_files_of_other_times_are_one_warning(tmp_path):
    names = [tmp_path / f"{number}.tif" for number in range(3)]
    for name in names:
        tiff(name, OLD)
    jnrrdz.merge(names, tmp_path / "refs.json", concat_dim="t")
    for name in names:
        os.utime(name, (1e9, 1e9))
    with pytest.warns(DriftWarning) as told:
        jnrrdz.open_group(tmp_path / "refs.json")["data"][:]
    assert len(told) == 1


def test_verify_tells_the_time_where_it_is_asked_for_drift_alone(local):
    os.utime(local / "a.tif", (1e9, 1e9))
    (found,) = jnrrdz.verify(local / "refs.json", drift=True).findings
    assert (found.kind, "time of modification was" in found.message) == ("drift", True)
    with pytest.warns(DriftWarning):
        assert jnrrdz.verify(local / "refs.json").ok  # the chunks are read: they are as the references say
    assert jnrrdz.refresh(local / "refs.json").changed
    assert jnrrdz.verify(local / "refs.json", drift=True).ok


def rewrite(path, data):
    """Write to a file in place and put its time back, until the disk's clock has moved on."""
    before = path.stat()
    start, now = time.time_ns(), before
    while now.st_ctime_ns <= start + MARGIN + 10**8:
        time.sleep(0.1)
        with path.open("r+b") as stream:
            stream.write(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        now = path.stat()
    assert (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


PUT_BACK = r"a\.tif: its status changed at .* after the manifest was written at"


@pytest.mark.parametrize("form", ["json", "parquet", "icechunk"])
def test_a_file_whose_time_was_put_back_is_warned_of(tmp_path, form):
    old, new = tiff(tmp_path / "a.tif", OLD), tiff(tmp_path / "b.tif", NEW)
    assert len(old) == len(new)
    refs = tmp_path / f"refs.{form}"
    jnrrdz.index(tmp_path / "a.tif", refs)
    assert np.array_equal(jnrrdz.open_group(refs)["data"][:], OLD)
    rewrite(tmp_path / "a.tif", new)
    with pytest.warns(DriftWarning, match=PUT_BACK):
        jnrrdz.open_group(refs)["data"][:]
    (finding,) = jnrrdz.verify(refs, drift=True).findings
    assert (finding.kind, "its status changed at" in finding.message) == ("drift", True)
    assert jnrrdz.refresh(refs).changed == (str(tmp_path / "a.tif"),)
    assert np.array_equal(jnrrdz.open_group(refs)["data"][:], NEW)


def test_a_copy_with_its_times_is_read_without_a_warning(local, tmp_path):
    before = (local / "a.tif").stat().st_mtime_ns - 2 * SETTLED
    os.utime(local / "refs.json", ns=(before, before))
    for name in ("refs.json", "a.tif"):  # the manifest first
        (tmp_path / "copied").mkdir(exist_ok=True)
        shutil.copy2(local / name, tmp_path / "copied" / name)
        time.sleep(1.1 * MARGIN / 1e9)
    array = jnrrdz.open_group(tmp_path / "copied" / "refs.json")["data"]
    assert np.array_equal(array[:], OLD)


def test_a_file_with_other_permissions_is_read_and_warned_of_until_the_manifest_is_touched(local):
    rewrite(local / "a.tif", (local / "a.tif").read_bytes())
    (local / "a.tif").chmod(0o600)
    with pytest.warns(DriftWarning, match="other permissions"):
        assert np.array_equal(jnrrdz.open_group(local / "refs.json")["data"][:], OLD)
    (local / "refs.json").touch()
    assert np.array_equal(jnrrdz.open_group(local / "refs.json")["data"][:], OLD)


def test_a_file_whose_time_is_put_back_while_it_is_open_is_warned_of(local):
    array = jnrrdz.open_group(local / "refs.json")["data"]
    assert (array[:32, :32] == OLD[:32, :32]).all()
    rewrite(local / "a.tif", (local / "a.tif").read_bytes())
    with pytest.warns(DriftWarning, match="its status changed since it was opened"):
        array[32:, 32:]
    assert (array[:32, 32:] == OLD[:32, 32:]).all()


@pytest.mark.parametrize("change", ["chmod", "link", "unlink"])
def test_what_explains_a_status_while_a_file_is_open_is_no_warning(local, change):
    array = jnrrdz.open_group(local / "refs.json")["data"]
    assert (array[:32, :32] == OLD[:32, :32]).all()
    match change:
        case "chmod":
            (local / "a.tif").chmod(0o600)
        case "link":
            (local / "b.tif").hardlink_to(local / "a.tif")
        case "unlink":
            (local / "a.tif").unlink()
    assert (array[32:, 32:] == OLD[32:, 32:]).all()


def served(http_server, tmp_path):
    """Index a file of the loopback server, and return its array."""
    http_server.files["/a.tif"] = tiff(tmp_path / "a.tif", OLD)
    jnrrdz.index(f"{http_server.url}/a.tif", tmp_path / "refs.json")
    return jnrrdz.open_group(tmp_path / "refs.json")["data"]


@pytest.mark.parametrize("header", ["x-amz-version-id", "x-goog-generation"])
def test_another_version_is_refused_though_its_etag_is_the_same(http_server, tmp_path, header):
    http_server.headers[header] = "1"
    array = served(http_server, tmp_path)
    http_server.headers[header] = "2"
    with pytest.raises(DriftError, match="changed since it was scanned: version was 1, is 2"):
        array[:]
    http_server.headers[header] = "1"
    assert np.array_equal(jnrrdz.open_group(tmp_path / "refs.json")["data"][:], OLD)


def test_an_answer_that_names_no_version_is_told_by_its_etag(http_server, tmp_path):
    http_server.headers["x-amz-version-id"] = "1"
    array = served(http_server, tmp_path)
    del http_server.headers["x-amz-version-id"]
    assert np.array_equal(array[:], OLD)


def test_an_answer_without_an_etag_is_told_by_its_time(http_server, tmp_path):
    array = served(http_server, tmp_path)
    http_server.etags = False
    assert np.array_equal(array[:], OLD)
    http_server.headers["Last-Modified"] = "Thu, 22 Oct 2015 07:28:00 GMT"
    with pytest.raises(DriftError, match="time of modification was 2015-10-21T07:28:00Z, is 2015-10-22T07:28:00Z"):
        jnrrdz.open_group(tmp_path / "refs.json")["data"][:]


def test_a_version_put_by_other_words_of_the_same_bytes_is_refused(seaweed, bucket, tmp_path):
    seaweed.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    data = tiff(tmp_path / "a.tif", OLD)
    etag = seaweed.put(bucket, "a.tif", data)
    url, options, refs = f"s3://{bucket}/a.tif", seaweed.options(), tmp_path / "refs.json"
    jnrrdz.index(url, refs, storage_options=options)
    assert "version_id" in refs.read_text()
    array = jnrrdz.open_group(refs, source_options=options)["data"]
    assert np.array_equal(array[:], OLD)
    assert seaweed.put(bucket, "a.tif", data) == etag
    with pytest.raises(DriftError, match="version was"):
        jnrrdz.open_group(refs, source_options=options)["data"][:]
    assert [finding.kind for finding in jnrrdz.verify(refs, drift=True, source_options=options).findings] == ["drift"]


def test_a_file_that_is_rewritten_in_place_gives_no_new_chunks_beside_old_ones(tmp_path):
    old, new = tiff(tmp_path / "a.tif", OLD), tiff(tmp_path / "b.tif", NEW)
    assert len(old) == len(new)
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "refs.json")
    array = jnrrdz.open_group(tmp_path / "refs.json")["data"]
    assert (array[:32, :32] == OLD[:32, :32]).all()
    with (tmp_path / "a.tif").open("r+b") as stream:
        stream.write(new)
    os.utime(tmp_path / "a.tif", (2e9, 2e9))  # clocks of file systems are coarse
    with pytest.raises(DriftError, match=r"a\.tif.*written to since it was opened; open it again"):
        array[32:, 32:]


def test_a_manifest_that_nothing_tells_the_state_of_is_read_again():
    class Bare(http.server.BaseHTTPRequestHandler):
        """Answers ranges, and says nothing of time or state."""

        def do_GET(self):
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = served[0][int(first) : int(last or len(served[0])) + 1]
            self.send_response_only(206)
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(served[0])}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *_):
            """Say nothing."""

    array = {"shape": [1], "data_type": "uint8", "fill_value": 0, "codecs": [{"name": "bytes"}], "attributes": {}}
    array |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "node_type": "array"}
    array |= {"chunk_key_encoding": {"name": "default"}, "zarr_format": 3}
    group = json.dumps({"zarr_format": 3, "node_type": "group"})
    texts = [
        {
            "zarr.json": group,
            "data/zarr.json": json.dumps(array),
            "data/c/0": data,
        }
        for data in ("a", "b")
    ]
    served = [json.dumps({"version": 1, "refs": texts[0]}).encode()]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bare) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/refs.json"
        try:
            assert jnrrdz.open_group(url)["data"][0] == ord("a")
            served[0] = json.dumps({"version": 1, "refs": texts[1]}).encode()
            assert jnrrdz.open_group(url)["data"][0] == ord("b")
        finally:
            server.shutdown()
            thread.join()


def test_what_was_indexed_on_a_disk_is_read_from_a_server(http_server, tmp_path):
    http_server.files["/a.tif"] = tiff(tmp_path / "a.tif", OLD)
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "refs.json", relative=True)
    http_server.files["/refs.json"] = (tmp_path / "refs.json").read_bytes()
    assert np.array_equal(jnrrdz.open_group(f"{http_server.url}/refs.json")["data"][:], OLD)
