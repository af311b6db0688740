"""N5 over HTTP, where nothing is listed: metadata are looked for, blocks may be absent."""

import json

import fsspec
import numpy as np
import pytest
import zarr
from zarr.storage import FsspecStore

import jnrrdz
from jnrrdz import api

pytestmark = [
    pytest.mark.filterwarnings("ignore:HTTP has no listing; found by their usual names"),
    pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated"),  # fsspec's
]
VALUES = np.random.default_rng(3).integers(1, 60000, (20, 14, 9), "u2")


@pytest.fixture
def http(s3, tmp_path):
    """Return what serves a folder's files, and answers 404 to any other name."""

    def serve(folder):
        for file in folder.rglob("*"):
            if file.is_file():
                s3.files[str(file.relative_to(tmp_path))] = file.read_bytes()
        return f"{s3.options['endpoint_url']}/b/{folder.relative_to(tmp_path)}"

    return serve


@pytest.fixture
def sparse(write_n5, http, tmp_path, s3):
    """Return the URL of a dataset without some of its blocks, and what is to be read of it."""
    write_n5(tmp_path / "v.n5", VALUES, (8, 8, 4))
    url = http(tmp_path / "v.n5")
    del s3.files["v.n5/1/0/0"], s3.files["v.n5/2/1/2"]
    expected = VALUES.copy()
    expected[8:16, :8, :4] = expected[16:, 8:, 8:] = 0
    return url, expected.T


@pytest.mark.parametrize("form", ["json", "parquet", "scanned"])
def test_absent_blocks_are_zero(sparse, s3, tmp_path, form):
    url, expected = sparse
    out = tmp_path / f"r.{form}"
    assert form == "scanned" or jnrrdz.index(url, out).requests == 1
    array = jnrrdz.open_group(url if form == "scanned" else out)["data"]
    assert [codec["name"] for codec in array.metadata.to_dict()["codecs"]] == ["transpose", "n5_default"]
    s3.log.clear()
    np.testing.assert_array_equal(array[...], expected)
    # each block once, there or not; whether the dataset is there, and is what it was, in one request or in two:
    # who looks first knows for the other, where the other has not begun
    assert len(s3.log) in {3 * 2 * 3 + 1, 3 * 2 * 3 + 2}
    assert (array[:4, :8, 8:16] == 0).all()


def test_json_has_whole_files(sparse, tmp_path):
    url, _ = sparse
    jnrrdz.index(url, tmp_path / "r.json")
    references = json.loads((tmp_path / "r.json").read_text())["refs"]
    assert references["data/c/2/1/0"] == [f"{url}/0/1/2"]
    assert len([key for key in references if key.startswith("data/c/")]) == 18


def test_many_blocks(http, write_n5, s3, tmp_path):
    write_n5(tmp_path / "v.n5", VALUES, (4, 3, 3))  # more than are spelt one by one
    url = http(tmp_path / "v.n5")
    del s3.files["v.n5/1/2/0"]
    jnrrdz.index(url, tmp_path / "r.json")
    references = json.loads((tmp_path / "r.json").read_text())["refs"]
    assert references["data/c/2/1/0"] == [f"{url}/0/1/2"]
    expected = VALUES.copy()
    expected[4:8, 6:9, :3] = 0
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "r.json")["data"][...], expected.T)


@pytest.mark.parametrize("status", [403, 410])
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_block_that_is_refused_is_an_error(sparse, s3, tmp_path, status, form):
    url, _ = sparse
    jnrrdz.index(url, tmp_path / f"r.{form}")
    s3.refused["v.n5/1/0/0"] = status
    array = jnrrdz.open_group(tmp_path / f"r.{form}")["data"]
    with pytest.raises(jnrrdz.JnrrdzError, match=rf"v.n5/1/0/0: .*HTTP {status}"):
        array[...]


@pytest.mark.parametrize("data", [b"", b"<html>not found</html>" * 9])
def test_what_is_no_block_is_an_error(sparse, s3, data):
    url, _ = sparse
    s3.files["v.n5/1/0/0"] = data
    with pytest.raises(jnrrdz.JnrrdzError, match=r"v.n5/1/0/0"):
        jnrrdz.open_group(url)["data"][...]


def test_an_absent_file_that_is_named_by_itself_is_an_error(sparse, tmp_path):
    url, _ = sparse
    jnrrdz.index(url, tmp_path / "r.json")
    manifest = json.loads((tmp_path / "r.json").read_text())
    root = json.loads(manifest["refs"]["zarr.json"])
    root["attributes"]["jnrrdz"]["sources"] = [{"url": f"{url}/1/0/0"}]
    manifest["refs"]["zarr.json"] = json.dumps(root)
    (tmp_path / "other.json").write_text(json.dumps(manifest))
    with pytest.raises(jnrrdz.JnrrdzError, match="404"):
        jnrrdz.open_group(tmp_path / "other.json", allow=[url])["data"][:4, :8, 8:16]


@pytest.mark.parametrize("name", ["v.n5", "w.n5/7"])
def test_a_dataset_that_was_moved_away_is_not_all_zero(http, write_n5, s3, tmp_path, name):
    write_n5(tmp_path / name, VALUES, (8, 8, 4))
    if name != "v.n5":
        (tmp_path / "w.n5/attributes.json").write_text("{}")
    jnrrdz.index(http(tmp_path / name), tmp_path / "r.json")
    kept = {key: data for key, data in s3.files.items() if key == "w.n5/attributes.json"}
    del s3.files[f"{name}/0/0/0"]
    array = jnrrdz.open_group(tmp_path / "r.json")["data"]
    assert not array[:4, :8, :8].any()
    s3.files = kept
    with pytest.raises(jnrrdz.JnrrdzError, match="neither the block nor its dataset"):
        jnrrdz.open_group(tmp_path / "r.json")["data"][...]


@pytest.mark.parametrize("gone", [False, True])
def test_a_local_copy_may_lack_blocks_too(sparse, tmp_path, gone):
    url, expected = sparse
    (tmp_path / "v.n5/1/0/0").unlink()
    (tmp_path / "v.n5/2/1/2").unlink()
    jnrrdz.index(url, tmp_path / "r.json")
    jnrrdz.convert(tmp_path / "r.json", tmp_path / "local.json", rewrite_prefix={url: f"{tmp_path}/v.n5"})
    if gone:
        (tmp_path / "v.n5").rename(tmp_path / "elsewhere")
        with pytest.raises(jnrrdz.JnrrdzError, match="neither the block nor its dataset"):
            jnrrdz.open_group(tmp_path / "local.json")["data"][...]
    else:
        np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "local.json")["data"][...], expected)


def test_listed_blocks_that_vanish_are_errors(write_n5, tmp_path):
    write_n5(tmp_path / "v.n5", VALUES, (8, 8, 4))
    jnrrdz.index(tmp_path / "v.n5", tmp_path / "r.json", chain="n5_default")
    (tmp_path / "v.n5/1/0/0").unlink()
    with pytest.raises(jnrrdz.JnrrdzError, match="not found"):
        jnrrdz.open_group(tmp_path / "r.json")["data"][...]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_manifest_as_a_group_keeps_blocks_that_may_be_absent(sparse, s3, tmp_path, form):
    url, expected = sparse
    jnrrdz.index(url, tmp_path / f"r.{form}")
    s3.log.clear()
    jnrrdz.convert(tmp_path / f"r.{form}", tmp_path / "again.json", check=False)
    assert s3.log == []
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "again.json")["data"][...], expected)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_stock_fsspec_reads_what_is_there_and_says_what_is_not(sparse, tmp_path, form):
    url, expected = sparse
    out = tmp_path / f"r.{form}"
    jnrrdz.index(url, out)
    options = {"remote_protocol": "http", "remote_options": {"asynchronous": True}, "asynchronous": True}
    fs = fsspec.filesystem("reference", fo=str(out), **options, skip_instance_cache=True)
    array = zarr.open_group(FsspecStore(fs, read_only=True, path=""), mode="r", zarr_format=3)["data"]
    np.testing.assert_array_equal(array[4:8, :8, :8], expected[4:8, :8, :8])
    with pytest.raises(fsspec.implementations.reference.ReferenceNotReachable):
        array[...]


@pytest.mark.parametrize("form", ["icechunk"])
def test_forms_that_need_lengths_refuse(sparse, tmp_path, form):
    pytest.importorskip("icechunk")
    with pytest.raises(jnrrdz.UnrepresentableError, match=r"v.n5/0/0/0: data, chunk 0: .*Icechunk needs its length"):
        jnrrdz.index(sparse[0], tmp_path / f"r.{form}")


def test_virtualizarr_refuses(sparse):
    from jnrrdz.parser import to_manifest_store  # noqa: PLC0415  heavy

    with pytest.raises(jnrrdz.UnrepresentableError, match="VirtualiZarr needs its length"):
        to_manifest_store(jnrrdz.scan(sparse[0]))


@pytest.mark.parametrize("chain", ["offset", "pad"])
def test_chains_that_need_headers_are_refused(sparse, chain):
    with pytest.raises(jnrrdz.UnrepresentableError, match=f"chain: {chain} needs the header of every block"):
        jnrrdz.scan(sparse[0], chain=chain)


def test_in_place_needs_to_write(sparse):
    with pytest.raises(jnrrdz.UnsupportedError, match="HTTP is read-only"):
        api.index_in_place(sparse[0])


def test_a_grid_without_end_is_refused(http, add_attributes, tmp_path):
    huge = {"dimensions": [1 << 20] * 3, "blockSize": [8, 8, 8], "dataType": "uint8", "compression": {"type": "raw"}}
    add_attributes(tmp_path / "v.n5", **huge)
    with pytest.raises(jnrrdz.UnsupportedError, match="without a listing"):
        jnrrdz.scan(http(tmp_path / "v.n5"))


HIERARCHIES = {
    "levels by name": ({"": {"n5": "4.0.0"}}, ["s0", "s1", "s2"]),
    "scales": ({"": {"scales": [[1, 1, 1], [2, 2, 2], [4, 4, 4]]}}, ["s0", "s2"]),
    "factors": ({"": {"downsamplingFactors": [[1, 1, 1], [2, 2, 2], [4, 4, 4]]}}, ["s0", "s1", "s2"]),
    "multiscales": ({"": {"multiscales": [{"datasets": [{"path": "fine"}, {"path": "coarse"}]}]}}, ["coarse", "fine"]),
    "Paintera": ({"": {"painteraData": {"type": "raw"}}}, ["data/s0", "data/s1"]),
    "Paintera, told": (
        {"": {"painteraData": {"type": "raw"}}, "data": {"multiScale": True}},
        ["data/s0", "data/s1"],
    ),
    "BDV": (
        {f"setup{n}": {"downsamplingFactors": [[1, 1, 1], [2, 2, 2]], "dataType": "uint16"} for n in range(2)}
        | {f"setup{n}/timepoint{t}": {"multiScale": True} for n in range(2) for t in range(2)},
        [f"setup{n}/timepoint{t}/s{level}" for n in range(2) for t in range(2) for level in range(2)],
    ),
    "a tree above nothing known": ({"": {"n5": "4.0.0"}, "em": {}}, None),
    "names that lead elsewhere": ({"": {"multiscales": [{"datasets": [{"path": "../w"}, {"path": "w?x"}]}]}}, None),
}


@pytest.mark.parametrize("name", HIERARCHIES)
def test_hierarchies(http, write_n5, add_attributes, tmp_path, name):
    folders, datasets = HIERARCHIES[name]
    for path in datasets or ["em/raw"]:
        write_n5(tmp_path / "c.n5" / path, VALUES[: 4 + len(path)], (8, 8, 4))
    for path, attributes in folders.items():
        add_attributes(tmp_path / "c.n5" / path, **attributes)
    url = http(tmp_path / "c.n5")
    if datasets is None:
        with pytest.raises(jnrrdz.UnsupportedError, match="no dataset found, and HTTP has no listing"):
            jnrrdz.scan(url)
        return
    found = jnrrdz.scan(url)
    assert sorted(path.removesuffix("/data") for path, _ in found.arrays()) == datasets
    listed = jnrrdz.scan(tmp_path / "c.n5")
    assert [path for path, _ in found.arrays()] == [path for path, _ in listed.arrays()]
    assert found.attributes == listed.attributes
    group = jnrrdz.open_group(found)
    for path in datasets:
        np.testing.assert_array_equal(group[f"{path}/data"][...], VALUES[: 4 + len(path)].T)


def test_what_was_found_by_name_is_told(http, write_n5, tmp_path):
    write_n5(tmp_path / "c.n5/s0", VALUES, (8, 8, 4))
    with pytest.warns(UserWarning, match="HTTP has no listing; found by their usual names: s0"):
        jnrrdz.scan(http(tmp_path / "c.n5"))


def test_a_server_that_has_everything_comes_to_an_end(s3):
    class Everything(dict):
        def get(self, key, default=None):  # noqa: ARG002
            return b"{}" if key.endswith(("/s0/attributes.json", "n5/attributes.json")) else None

    s3.files = Everything()
    with pytest.raises(jnrrdz.UnsupportedError, match="without end"):
        jnrrdz.scan(f"{s3.options['endpoint_url']}/b/c.n5")


@pytest.mark.parametrize(("framing", "first"), [("java", "0/0"), ("java", "1/1"), ("block", None)])
def test_framing_of_lz4(http, add_attributes, tmp_path, framing, first):
    told = {"dimensions": [4, 4], "blockSize": [2, 2], "dataType": "uint8", "compression": {"type": "lz4"}}
    add_attributes(tmp_path / "v.n5", **told)
    if first:
        (tmp_path / "v.n5" / first).parent.mkdir()
        (tmp_path / "v.n5" / first).write_bytes(b"\0\0\0\2\0\0\0\2\0\0\0\2LZ4Block\x10")
    codecs = jnrrdz.scan(http(tmp_path / "v.n5")).children["data"].codecs
    assert f"'framing': '{framing}'" in str(codecs[-1].to_json())


@pytest.mark.parametrize("status", [None, 403])
def test_verify_reads_what_it_cannot_list(sparse, s3, tmp_path, status):
    jnrrdz.index(sparse[0], tmp_path / "r.json")
    if status:
        s3.refused["v.n5/1/1/1"] = status
    report = jnrrdz.verify(tmp_path / "r.json", deep=True)
    assert [finding.kind for finding in report.findings] == (["chunk"] if status else [])
