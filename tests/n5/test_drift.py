"""Blocks and metadata of a container that are not what they were when it was indexed: refused, and told by `verify`."""

import json
import os
import shutil
import warnings
from pathlib import Path

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import DriftError, DriftWarning
from jnrrdz.formats.n5.attributes import default_header

VALUES = np.random.default_rng(3).integers(1, 60_000, (20, 12, 8), "u2")
BLOCK = (8, 6, 4)


@pytest.fixture
def container(write_n5, tmp_path):
    for name in ("raw", "zstd"):
        write_n5(tmp_path / "v.n5" / name, VALUES, BLOCK, name)
    return tmp_path / "v.n5"


def replace(file, data):
    """Put other bytes in a file's place, later than what was there."""
    was = file.stat().st_mtime_ns
    file.write_bytes(data)
    os.utime(file, ns=(was + 1000, was + 1000))


def other_block(file):
    """Return a block of the same length with another element."""
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    return bytes(data)


def drifted(refs, **access):
    """Return what `verify --drift` finds, by the ends of the places."""
    found = jnrrdz.verify(refs, drift=True, **access)
    return sorted((finding.kind, finding.place.partition("v.n5/")[2]) for finding in found.findings)


@pytest.fixture(params=["json", "parquet"])
def refs(request, container, tmp_path):
    jnrrdz.index(container, tmp_path / f"r.{request.param}")
    return tmp_path / f"r.{request.param}"


def test_what_is_as_it_was_is_read(container, refs, tmp_path):
    for name in ("raw", "zstd"):
        np.testing.assert_array_equal(jnrrdz.open_group(refs)[f"{name}/data"][...], VALUES.T)
    assert drifted(refs) == []
    assert jnrrdz.verify(refs, drift=True).sources == 2 * 12 + 2
    assert jnrrdz.verify(refs, deep=True).ok
    shutil.copytree(container, tmp_path / "saved")  # times and all
    shutil.rmtree(container)
    shutil.copytree(tmp_path / "saved", container)
    assert drifted(refs) == []


@pytest.mark.parametrize("pipeline", ["tuned", "stock"])
@pytest.mark.parametrize("more", [b"", b"\0" * 5])
def test_a_replaced_block_is_refused(container, refs, more, pipeline):
    file = container / "raw/1/1/0"
    replace(file, other_block(file) + more)
    opened = jnrrdz.open_group(refs) if pipeline == "tuned" else zarr.open_group(jnrrdz.open_store(refs), mode="r")
    array = opened["raw/data"]
    for _ in range(2):
        with pytest.raises(DriftError, match=r"raw/1/1/0: .*changed since it was scanned: (size|time of modification)"):
            array[:4, 6:, 8:16]
    np.testing.assert_array_equal(array[4:], VALUES.T[4:])
    assert drifted(refs) == [("drift", "raw/1/1/0")]
    done = CliRunner().invoke(cli, ["verify", "--drift", str(refs)])
    assert (done.exit_code, "raw/1/1/0" in done.output) == (4, True)


def test_changed_metadata_are_refused_with_the_blocks_of_their_data_set(container, refs):
    file = container / "zstd/attributes.json"
    about = json.loads(file.read_text())
    replace(file, file.read_text().replace('"uint16"', '"int16 "' if "int16" not in about else '"uint16"').encode())
    group = jnrrdz.open_group(refs)
    with pytest.raises(DriftError, match=r"zstd/attributes\.json: .*changed since it was scanned"):
        group["zstd/data"][:4]
    np.testing.assert_array_equal(group["raw/data"][...], VALUES.T)
    assert drifted(refs) == [("drift", "zstd/attributes.json")]


def test_a_copy_is_read_with_a_warning_until_one_of_its_files_is_replaced(container, tmp_path):
    jnrrdz.index(container, tmp_path / "r.json", relative=True)
    there = tmp_path / "there"
    there.mkdir()
    shutil.copytree(container, there / "v.n5", copy_function=shutil.copyfile)
    for number, file in enumerate(sorted(filter(Path.is_file, (there / "v.n5").rglob("*")))):
        os.utime(file, (1e9 + number, 1e9 + number))
    shutil.copy(tmp_path / "r.json", there)
    with pytest.warns(DriftWarning, match="unless this is a copy") as told:
        np.testing.assert_array_equal(jnrrdz.open_group(there / "r.json")["raw/data"][...], VALUES.T)
    assert len(told) == 1
    file = there / "v.n5/raw/0/0/0"
    file.write_bytes(file.read_bytes() + b"longer")
    array = jnrrdz.open_group(there / "r.json")["raw/data"]
    with pytest.raises(DriftError, match=r"raw/0/0/0.*size was"):
        array[:4, :6, :8]


def test_blocks_that_come_and_go_are_told(container, refs, tmp_path):
    (container / "raw/0/0/1").unlink()
    assert drifted(refs) == [("source", "raw/0/0/1")]
    jnrrdz.index(container, tmp_path / "later.json")
    shutil.copyfile(container / "raw/0/0/0", container / "raw/0/0/1")
    (container / "raw/9").mkdir()
    shutil.copytree(container / "raw/0/0", container / "raw/9/0")  # beyond the data set
    (container / "raw/notes.txt").write_text("no block")
    assert drifted(tmp_path / "later.json") == [("drift", "raw/0/0/1")]
    shutil.copytree(container / "raw", container / "more")
    assert drifted(tmp_path / "later.json") == [("drift", "more/attributes.json"), ("drift", "raw/0/0/1")]


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("command", ["index", "batch"])
def test_versions_can_be_left_out(container, tmp_path, form, command):
    out = tmp_path / f"r.{form}"
    given = ["index", str(container), "-o", str(out)]
    if command == "batch":
        given = ["batch", str(container), "-o", str(out)]
    done = CliRunner().invoke(cli, [*given, "--no-object-versions"])
    assert done.exit_code == 0, done.output
    assert all("version" not in pq.read_schema(file).names for file in tmp_path.rglob("refs.*.parq"))
    if form == "json":
        assert "object_versions" not in json.loads(out.read_text())
    file = container / "raw/1/1/0"
    replace(file, other_block(file))
    assert (jnrrdz.open_group(out)["raw/data"][...] != VALUES.T).sum() == 1
    assert drifted(out) == []
    group = jnrrdz.open_group(out)
    assert group.attrs["jnrrdz"]["sources"] == [{"url": f"{os.path.realpath(container)}/"}]


def test_versions_survive_conversion_and_merging(container, tmp_path):
    jnrrdz.index(container, tmp_path / "a.json")
    jnrrdz.convert(tmp_path / "a.json", tmp_path / "b.parquet")
    jnrrdz.convert(tmp_path / "b.parquet", tmp_path / "c.json")
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((tmp_path / "c.json").read_text())
    jnrrdz.index(container, tmp_path / "d.json")
    jnrrdz.merge([tmp_path / "c.json", tmp_path / "d.json"], tmp_path / "m.parquet", concat_dim="t", keep_order=True)
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "m.parquet")["raw/data"][1], VALUES.T)
    assert drifted(tmp_path / "m.parquet") == []
    file = container / "zstd/0/1/1"
    replace(file, other_block(file))
    for name in ("b.parquet", "c.json", "m.parquet"):
        assert drifted(tmp_path / name) == [("drift", "zstd/0/1/1")]
        with pytest.raises(DriftError, match=r"zstd/0/1/1"):
            jnrrdz.open_group(tmp_path / name)["zstd/data"][...]


def test_sources_that_move_leave_their_versions_behind(container, tmp_path):
    jnrrdz.index(container, tmp_path / "a.json")
    shutil.copytree(container, tmp_path / "w" / "v.n5", copy_function=shutil.copyfile)
    (tmp_path / "w").mkdir(exist_ok=True)
    jnrrdz.convert(tmp_path / "a.json", tmp_path / "b.json", rewrite_prefix={str(tmp_path): str(tmp_path / "w")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "b.json")["raw/data"][...], VALUES.T)


def test_a_refresh_renews_them(container, refs):
    file = container / "raw/1/1/0"
    replace(file, other_block(file))
    jnrrdz.refresh(refs)
    assert drifted(refs) == []
    assert (jnrrdz.open_group(refs)["raw/data"][...] != VALUES.T).sum() == 1


def test_a_refresh_renews_a_member_of_a_stack(write_n5, tmp_path):
    for number in range(2):
        write_n5(tmp_path / f"v{number}.n5", VALUES, BLOCK, "raw")
    names = [tmp_path / f"v{number}.n5" for number in range(2)]
    jnrrdz.merge(names, tmp_path / "m.json", concat_dim="t", keep_order=True)
    file = names[1] / "1/1/0"
    replace(file, other_block(file))
    with pytest.raises(DriftError, match=r"v1\.n5/1/1/0"):
        jnrrdz.open_group(tmp_path / "m.json")["data"][1]
    jnrrdz.refresh(tmp_path / "m.json")
    found = jnrrdz.open_group(tmp_path / "m.json")["data"][...]
    np.testing.assert_array_equal(found[0], VALUES.T)
    assert (found[1] != VALUES.T).sum() == 1
    assert jnrrdz.verify(tmp_path / "m.json", drift=True).ok


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("container")
def test_stock_readers_take_no_notice(refs):
    fs = fsspec.filesystem("reference", fo=str(refs), remote_protocol="file", asynchronous=False)
    found = xr.open_dataset(fs.get_mapper("raw"), engine="zarr", consolidated=False, zarr_format=3)
    np.testing.assert_array_equal(found["data"].values, VALUES.T)


@pytest.mark.parametrize(
    "wrong",
    [
        "no object",
        {"raw/data": "AAAA"},
        {"raw/data": ["AAAA"]},
        {"raw/data": ["not base64"]},
        {"raw/data": [7]},
        {"raw/data": []},
        {"other": []},
        {"raw/data": None},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("layout", ["lines", "one line"])
def test_malformed_versions_are_refused(container, tmp_path, wrong, layout):
    jnrrdz.index(container, tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    text = json.dumps(document | {"object_versions": wrong})
    if layout == "lines":
        head = (tmp_path / "r.json").read_text().partition('\n},"object_versions":{')[0]
        inside = json.dumps(wrong)[1:-1] if isinstance(wrong, dict) else "1"
        text = f'{head}\n}},"object_versions":{{\n{inside}\n}}}}\n'
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(jnrrdz.MalformedError):
        jnrrdz.open_group(tmp_path / "r.json")


class Bucket:
    """A container in a bucket of a real S3 server, seen through a proxy that counts."""

    def __init__(self, seaweed, bucket, make_proxy, folder):
        self.seaweed, self.name, self.folder = seaweed, bucket, folder
        for file in sorted(filter(Path.is_file, folder.rglob("*"))):
            seaweed.put(bucket, f"v.n5/{file.relative_to(folder)}", file.read_bytes())
        self.proxy = make_proxy(seaweed.port)
        self.url = f"s3://{bucket}/v.n5"
        self.options = seaweed.options(endpoint_url=self.proxy.url)

    def put(self, key, data):
        self.seaweed.put(self.name, f"v.n5/{key}", data)

    def opened(self, refs):
        return jnrrdz.open_group(refs, source_options=self.options, allow=[self.url])


@pytest.fixture
def on_s3(seaweed, bucket, make_proxy, container):
    return Bucket(seaweed, bucket, make_proxy, container)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_replaced_object_is_refused(on_s3, tmp_path, form):
    refs = tmp_path / f"r.{form}"
    done = jnrrdz.index(on_s3.url, refs, storage_options=on_s3.options, chain="n5_default")
    assert done.requests == 1 + 2 + 2 * 8  # a page, the metadata, and some headers: no object was asked for its state
    del on_s3.proxy.requests[:]
    np.testing.assert_array_equal(on_s3.opened(refs)["raw/data"][...], VALUES.T)
    asked = [request for request in on_s3.proxy.requests if "/v.n5/" in request.path]
    assert sorted(request.method for request in asked) == ["GET"] * 12 + ["HEAD"]
    (head,) = [request.path for request in asked if request.method == "HEAD"]
    assert head.endswith("raw/attributes.json")
    on_s3.put("raw/1/1/0", other_block(on_s3.folder / "raw/1/1/0"))
    array = on_s3.opened(refs)["raw/data"]
    for _ in range(2):
        with pytest.raises(DriftError, match=r"raw/1/1/0: .*ETag is .*, and was another one"):
            array[:4, 6:, 8:16]
    np.testing.assert_array_equal(array[4:], VALUES.T[4:])
    on_s3.put("zstd/attributes.json", (on_s3.folder / "zstd/attributes.json").read_bytes() + b" ")
    with pytest.raises(DriftError, match=r"zstd/attributes\.json"):
        on_s3.opened(refs)["zstd/data"][:4]
    on_s3.put("raw/0/0/5", b"beyond")
    assert drifted(refs, source_options=on_s3.options) == [("drift", "raw/1/1/0"), ("drift", "zstd/attributes.json")]


def test_a_listing_and_an_answer_name_one_etag(on_s3, seaweed, tmp_path):
    """Objects that were put in parts have another kind of ETag."""
    part, client = 5 << 20, seaweed.client
    values = np.random.default_rng(1).integers(0, 255, (256, 256, 128), "u1")
    about = {"dimensions": [256, 256, 128], "blockSize": [256, 256, 128], "dataType": "uint8"}
    on_s3.put("big/attributes.json", json.dumps({**about, "compression": {"type": "raw"}}).encode())
    data = default_header(values.shape) + values.T.tobytes()
    where = {"Bucket": on_s3.name, "Key": "v.n5/big/0/0/0"}
    upload = client.create_multipart_upload(**where)["UploadId"]
    tags = [
        client.upload_part(**where, UploadId=upload, PartNumber=number, Body=data[first : first + part])["ETag"]
        for number, first in enumerate(range(0, len(data), part), 1)
    ]
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
    jnrrdz.index(f"{on_s3.url}/big/", tmp_path / "r.json", storage_options=on_s3.options)
    found = on_s3.opened(tmp_path / "r.json")
    np.testing.assert_array_equal(found["data"][...], values.T)
    assert drifted(tmp_path / "r.json", source_options=on_s3.options) == []


def test_icechunk_refuses_what_is_later_than_the_container(container, tmp_path):
    icechunk = pytest.importorskip("icechunk")
    for file in filter(Path.is_file, container.rglob("*")):
        os.utime(file, (1e9, 1e9))
    jnrrdz.index(container / "raw", tmp_path / "r.icechunk")
    storage = icechunk.local_filesystem_storage(str(tmp_path / "r.icechunk"))
    access = {f"file://{container}/": icechunk.credentials.LocalFileSystemAccess}
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    array = zarr.open_group(repository.readonly_session("main").store, mode="r")["data"]
    np.testing.assert_array_equal(array[4:], VALUES.T[4:])
    (container / "raw/1/1/0").write_bytes(other_block(container / "raw/1/1/0"))
    with pytest.raises(icechunk.IcechunkError, match=r"modified|changed|checksum"):
        array[:4, 6:, 8:16]


def test_metadata_are_looked_at_where_nothing_is_listed(http_server, container, tmp_path):
    for file in filter(Path.is_file, (container / "raw").rglob("*")):
        http_server.files[f"/v.n5/{file.relative_to(container / 'raw')}"] = file.read_bytes()
    jnrrdz.index(f"{http_server.url}/v.n5/", tmp_path / "r.json")
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "r.json")["data"][...], VALUES.T)
    http_server.files["/v.n5/attributes.json"] += b" "
    with pytest.raises(DriftError, match=r"v\.n5/attributes\.json"):
        jnrrdz.open_group(tmp_path / "r.json")["data"][:4]
    assert drifted(tmp_path / "r.json") == [("drift", "attributes.json")]
