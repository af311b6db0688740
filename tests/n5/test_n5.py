"""N5 datasets and containers, read back and compared with what independent writers wrote."""

import itertools
import json
import os
import struct
import tracemalloc
import warnings

import numcodecs
import numpy as np
import pytest
import tensorstore
import tifffile
import xarray as xr
import zarr

import jnrrdz
from jnrrdz import api
from jnrrdz.formats import scanning
from jnrrdz.formats.n5.attributes import default_header
from jnrrdz.options import Access, ScanOptions
from tests.writers import n5_attributes, n5_block, n5_document

CHAINS = [None, "offset", "pad", "n5_default"]
TYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
COMPRESSIONS = [
    {"type": "raw"},
    {"type": "gzip", "level": -1},
    {"type": "gzip", "useZlib": True},
    {"type": "bzip2"},
    {"type": "xz"},
    {"type": "zstd"},
    {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2},
]


def values_of(shape, dtype="uint16"):
    return (np.random.default_rng(len(shape)).random(shape) * 100).astype(dtype)


def names(array):
    return [codec["name"] for codec in array.metadata.to_dict()["codecs"]]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_types_and_dimensions(write_n5, tmp_path, dtype, axes):
    values = values_of((9, 7, 5, 3)[:axes], dtype)
    write_n5(tmp_path / "v", values, (4, 3, 2, 2)[:axes])
    for chain in CHAINS:
        found = jnrrdz.open_dataset(tmp_path / "v", chain=chain)["data"]
        assert found.dtype == values.dtype
        assert found.dims == ("dim_3", "z", "y", "x")[-axes:]
        np.testing.assert_array_equal(found.values, values.T)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=json.dumps)
@pytest.mark.parametrize("chain", CHAINS)
def test_compressions(write_n5, tmp_path, compression, chain):
    values = values_of((20, 10))
    write_n5(tmp_path / "v", values, (8, 4), compression)
    np.testing.assert_array_equal(jnrrdz.open_dataset(tmp_path / "v", chain=chain)["data"].values, values.T)


def by_hand(folder, values, block, *, edges="cut", compression=None, compress=bytes, **more):  # noqa: PLR0913
    """Write a dataset byte by byte; edges are cut, padded or (mixed) now this and now that."""
    document = n5_document(values.shape, block, values.dtype, compression or "raw", **more)
    if "compressionType" in more:
        del document["compression"]
    n5_attributes(folder, **document)
    grid = [range(-(-size // step)) for size, step in zip(values.shape, block, strict=True)]
    for number, place in enumerate(itertools.product(*grid)):
        part = values[tuple(slice(at * step, (at + 1) * step) for at, step in zip(place, block, strict=True))]
        if edges == "padded" or (edges == "mixed" and number % 2):
            part = np.pad(part, [(0, step - size) for size, step in zip(part.shape, block, strict=True)])
        file = folder.joinpath(*map(str, place))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(n5_block(part, compress=compress))


@pytest.mark.parametrize("edges", ["cut", "padded", "mixed"])
@pytest.mark.parametrize("shape", [(9, 7), (8, 8)])
def test_edges(tmp_path, edges, shape):
    values = values_of(shape)
    by_hand(tmp_path / "v", values, (4, 4), edges=edges)
    group = jnrrdz.open_group(tmp_path / "v")
    np.testing.assert_array_equal(group["data"][...], values.T)
    whole = edges == "padded" or shape == (8, 8)
    assert names(group["data"]) == (["bytes"] if whole else ["transpose", "n5_default"])
    proposal = jnrrdz.open_group(tmp_path / "v", codecs="proposal")["data"]
    assert names(proposal) == (["bytes", "pad"] if whole else ["transpose", "n5_default"])
    np.testing.assert_array_equal(proposal[...], values.T)
    if not whole:
        with pytest.raises(jnrrdz.UnsupportedError, match=r"data: .*headers .*--codecs auto"):
            jnrrdz.scan(tmp_path / "v", codecs="standard")


def test_references_begin_behind_headers(write_n5, tmp_path):
    values = values_of((8, 8))
    write_n5(tmp_path / "v", values, (4, 4), "raw")
    jnrrdz.index(tmp_path / "v", tmp_path / "r.json")
    refs = json.loads((tmp_path / "r.json").read_text())["refs"]
    header = len(default_header((4, 4)))
    assert {tuple(refs[f"data/c/{y}/{x}"][1:]) for y in (0, 1) for x in (0, 1)} == {(header, 32)}
    assert jnrrdz.verify(tmp_path / "r.json", drift=True).findings == ()
    block = tmp_path / "v/1/0"
    times = (block.stat().st_atime_ns, block.stat().st_mtime_ns)
    block.write_bytes(block.read_bytes() + b"more")  # behind what is referred to, at another time
    with pytest.raises(jnrrdz.DriftError, match=r"v/1/0: .*size was 44, is 48"):
        jnrrdz.open_group(tmp_path / "r.json")["data"][...]
    block.write_bytes(default_header((8, 2)) + block.read_bytes()[header : header + 32])
    with pytest.raises(jnrrdz.DriftError, match=r"v/1/0: .*time of modification"):
        jnrrdz.open_group(tmp_path / "r.json")["data"][...]
    block.write_bytes(default_header((4, 4)) + block.read_bytes()[header:])
    os.utime(block, ns=times)
    (tmp_path / "r.json").touch()
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "r.json")["data"][...], values.T)


def test_a_raw_block_with_bytes_behind_it_is_not_cut_to_size(write_n5, tmp_path):
    write_n5(tmp_path / "v", values_of((8, 8)), (4, 4), "raw")
    block = tmp_path / "v/1/0"
    block.write_bytes(block.read_bytes() + b"more")
    array = jnrrdz.open_group(tmp_path / "v")["data"]
    assert names(array) == ["bytes", "pad"]
    with pytest.raises(jnrrdz.JnrrdzError, match="v/1/0"):
        array[...]


def test_offset_is_refused_where_blocks_are_cut(tmp_path):
    by_hand(tmp_path / "v", values_of((9, 7)), (4, 4))
    with pytest.raises(jnrrdz.UnrepresentableError, match=r"v/[02]/[01]: chain: a block of another shape"):
        jnrrdz.scan(tmp_path / "v", chain="offset")


@pytest.mark.parametrize("chain", ["offset", "pad"])
def test_a_stranger_among_many_is_found(tmp_path, chain):
    by_hand(tmp_path / "v", np.zeros((64, 64), "u1"), (2, 2))
    (tmp_path / "v/17/21").write_bytes(default_header((4, 1)) + bytes(range(4)))
    with pytest.raises(jnrrdz.UnrepresentableError, match=r"v/17/21: chain: a block of another shape"):
        jnrrdz.scan(tmp_path / "v", chain=chain)


def test_a_grid_too_large_for_a_manifest_is_indexed_in_place(add_attributes, tmp_path):
    huge = {"dimensions": [1 << 20] * 3, "blockSize": [8, 8, 8], "dataType": "uint8", "compression": {"type": "raw"}}
    add_attributes(tmp_path / "v", **huge)
    block = tmp_path / "v/131071/0/7"
    block.parent.mkdir(parents=True)
    block.write_bytes(default_header((8, 8, 8)) + bytes([7]) * 512)
    with pytest.raises(jnrrdz.UnsupportedError, match="in-place"):
        jnrrdz.scan(tmp_path / "v")
    api.index_in_place(tmp_path / "v")
    assert zarr.open_array(tmp_path / "v", mode="r")[-1, 0, 63] == 7


@pytest.mark.parametrize("choice", [{"chain": "offset"}, {"stack_timepoints": True}])
def test_options_of_containers_are_refused_for_files(tmp_path, choice):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 4), "u1"))
    with pytest.raises(jnrrdz.UnsupportedError, match=f"{next(iter(choice))} is for N5"):
        jnrrdz.scan(tmp_path / "a.tif", **choice)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">HHIII", 1, 2, 4, 4, 16) + bytes(range(16)), id="variable length"),
        pytest.param(default_header((8, 2)) + bytes(range(16)), id="as many elements in another shape"),
        pytest.param(default_header((2, 2)) + bytes(range(4)), id="short"),
    ],
)
def test_aligned_dimensions_do_not_make_a_block_full(tmp_path, data):
    by_hand(tmp_path / "v", np.zeros((8, 8), "u1"), (4, 4))
    (tmp_path / "v/1/1").write_bytes(data)
    array = jnrrdz.open_group(tmp_path / "v", allow_odd_blocks=True)["data"]
    assert names(array) == ["transpose", "n5_default"]
    width = struct.unpack_from(">I", data, 4)[0]
    assert array[4, 4 : 4 + min(width, 4)].tolist() == list(range(min(width, 4)))
    assert not array[:4].any()


@pytest.mark.parametrize(
    ("compression", "compress", "framing"),
    [
        ({"type": "lz4", "level": 6}, lambda d: bytes(numcodecs.LZ4().encode(d))[4:], "block"),
        ({"type": "lz4", "id": "lz4", "acceleration": 1}, lambda d: bytes(numcodecs.LZ4().encode(d)), "frame"),
        ({"type": "lz4", "blockSize": 65536}, None, "java"),
    ],
)
@pytest.mark.parametrize("chain", CHAINS)
def test_lz4(tmp_path, compression, compress, framing, chain):
    def java(data):
        import xxhash  # noqa: PLC0415  for this case only

        check = xxhash.xxh32_intdigest(data, 0x9747B28C) & 0x0FFFFFFF
        head = b"LZ4Block" + struct.pack("<BIII", 0x16, len(data), len(data), check)
        return head + data + b"LZ4Block\x16" + bytes(12)

    values = values_of((8, 8))
    by_hand(tmp_path / "v", values, (4, 4), compression=compression, compress=compress or java)
    array = jnrrdz.open_group(tmp_path / "v", chain=chain)["data"]
    assert f'"framing": "{framing}"' in json.dumps(array.metadata.to_dict()["codecs"])
    np.testing.assert_array_equal(array[...], values.T)


def test_version_0(tmp_path):
    values = values_of((8, 6))
    import gzip  # noqa: PLC0415  for this case only

    by_hand(tmp_path / "v", values, (4, 4), compressionType="gzip", compress=gzip.compress)
    np.testing.assert_array_equal(jnrrdz.open_dataset(tmp_path / "v")["data"].values, values.T)


def test_missing_blocks_are_zero_and_blocks_outside_are_none(tmp_path):
    values = values_of((8, 8))
    by_hand(tmp_path / "v", values, (4, 4))
    (tmp_path / "v/0/1").unlink()
    (tmp_path / "v/7").mkdir()
    (tmp_path / "v/7/0").write_bytes(b"outside")
    values[:4, 4:] = 0
    found = jnrrdz.scan(tmp_path / "v")
    assert found.children["data"].refs.counts.tolist() == [1, 1, 0, 1]
    np.testing.assert_array_equal(jnrrdz.open_dataset(found)["data"].values, values.T)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"dataType": "string"}, "dataType: elements of type 'string'"),
        ({"dataType": "object"}, "dataType: elements of type 'object'"),
        ({"isLabelMultiset": True}, "isLabelMultiset: a label multiset"),
        ({"compression": {"type": "jpeg"}}, "compression: 'jpeg'"),
        ({"n5": "5.0.0"}, "n5: N5 version '5.0.0'"),
    ],
)
def test_refused_by_name(write_n5, add_attributes, tmp_path, attributes, said):
    write_n5(tmp_path / "v", values_of((4, 4)), (4, 4))
    add_attributes(tmp_path / "v", **attributes)
    with pytest.raises(jnrrdz.UnsupportedError, match=said):
        jnrrdz.scan(tmp_path / "v")


@pytest.mark.parametrize(
    "attributes",
    [
        {"dimensions": [4, -4]},
        {"dimensions": "4"},
        {"dimensions": [True, 4]},
        {"blockSize": [4]},
        {"blockSize": [4, 0]},
        {"dimensions": [1 << 50, 4]},
    ],
    ids=json.dumps,
)
def test_malformed_metadata(write_n5, add_attributes, tmp_path, attributes):
    write_n5(tmp_path / "v", values_of((4, 4)), (4, 4))
    add_attributes(tmp_path / "v", **attributes)
    with pytest.raises(jnrrdz.JnrrdzError, match=next(iter(attributes))):
        jnrrdz.scan(tmp_path / "v")


def test_other_directories_are_refused(tmp_path):
    (tmp_path / "a.tif").write_bytes(b"II")
    with pytest.raises(jnrrdz.UnsupportedError, match=r"holds a\.tif and no attributes\.json"):
        jnrrdz.scan(tmp_path)


def test_what_is_left_out_of_a_container_is_told(write_n5, add_attributes, tmp_path):
    write_n5(tmp_path / "a", values_of((4, 4)), (4, 4))
    write_n5(tmp_path / "b", values_of((4, 4)), (4, 4))
    add_attributes(tmp_path / "b", isLabelMultiset=True)
    with pytest.warns(UserWarning, match=r"left out: .*/b/attributes\.json: isLabelMultiset"):
        found = jnrrdz.scan(tmp_path)
    assert list(found.children) == ["a"]


def test_links_are_followed_but_not_in_circles(write_n5, tmp_path):
    values = values_of((8, 8))
    write_n5(tmp_path / "elsewhere", values, (4, 4))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/v").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "c/up").symlink_to(tmp_path)
    with pytest.raises(jnrrdz.UntrustedSourceError, match=f"--allow {tmp_path}/elsewhere would let it"):
        jnrrdz.scan(tmp_path / "c")
    found = jnrrdz.scan(tmp_path / "c", allow=[str(tmp_path / "elsewhere")])
    np.testing.assert_array_equal(jnrrdz.open_dataset(found)["data"].values, values.T)


# Manifests


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("relative", [False, True])
def test_manifests(write_n5, tmp_path, form, relative):
    values = values_of((40, 30))  # more blocks than are spelt all together
    write_n5(tmp_path / "c.n5/raw/7", values, (4, 3))
    out = tmp_path / f"refs.{form}"
    jnrrdz.index(tmp_path / "c.n5", out, relative=relative)
    group = jnrrdz.open_group(out)
    np.testing.assert_array_equal(group["raw/7/data"][...], values.T)
    tree = "c.n5/" if relative else f"{os.path.realpath(tmp_path)}/c.n5/"
    assert [record["url"] for record in group.attrs["jnrrdz"]["sources"]] == [tree, f"{tree}raw/7/attributes.json"]
    if relative:
        (tmp_path / "moved").mkdir()
        for name in ("c.n5", out.name):
            (tmp_path / name).rename(tmp_path / "moved" / name)
        np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "moved" / out.name)["raw/7/data"][...], values.T)


def test_a_manifest_reaches_its_container_and_no_further(write_n5, tmp_path):
    write_n5(tmp_path / "c.n5", values_of((8, 8)), (4, 4))
    jnrrdz.index(tmp_path / "c.n5", tmp_path / "refs.json")
    (tmp_path / "secret").write_bytes((tmp_path / "c.n5/1/1").read_bytes())
    (tmp_path / "c.n5/1/1").unlink()
    (tmp_path / "c.n5/1/1").symlink_to(tmp_path / "secret")
    array = jnrrdz.open_group(tmp_path / "refs.json")["data"]
    assert array[0, 0] is not None
    with pytest.raises(jnrrdz.UntrustedSourceError):
        array[7, 7]


def test_icechunk(write_n5, tmp_path):
    icechunk = pytest.importorskip("icechunk")
    values = values_of((40, 30))
    write_n5(tmp_path / "c.n5", values, (4, 3))
    jnrrdz.index(tmp_path / "c.n5", tmp_path / "refs.icechunk")
    repository = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "refs.icechunk")),
        authorize_virtual_chunk_access={f"file://{tmp_path}/": icechunk.credentials.LocalFileSystemAccess},
    )
    array = zarr.open_group(repository.readonly_session("main").store, mode="r")["data"]
    np.testing.assert_array_equal(array[...], values.T)


def test_a_cut_block_is_an_error_that_names_it(write_n5, tmp_path):
    write_n5(tmp_path / "v", values_of((8, 8)), (4, 4))
    file = tmp_path / "v/1/0"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(jnrrdz.JnrrdzError, match="v/1/0"):
        jnrrdz.open_group(tmp_path / "v", chain="n5_default")["data"][...]


@pytest.mark.parametrize("chain", ["offset", "pad"])
@pytest.mark.parametrize("compression", ["raw", "gzip", "zstd"])
def test_a_block_that_changes_after_it_was_indexed(write_n5, tmp_path, chain, compression):
    values = values_of((8, 8))
    write_n5(tmp_path / "v", values, (4, 4), compression)
    jnrrdz.index(tmp_path / "v", tmp_path / "r.json", chain=chain)
    write_n5(tmp_path / "other", values[4:, :4].reshape(8, 2), (8, 2), compression)
    block = (tmp_path / "other/0/0").read_bytes()
    array = jnrrdz.open_group(tmp_path / "r.json")["data"]
    assert names(array)[-1] == chain
    np.testing.assert_array_equal(array[...], values.T)
    (tmp_path / "v/1/0").write_bytes(block.ljust((tmp_path / "v/1/0").stat().st_size))
    with pytest.raises(jnrrdz.JnrrdzError, match="v/1/0"):
        jnrrdz.open_group(tmp_path / "r.json")["data"][:4, 4:]


@pytest.mark.parametrize("chain", ["offset", "pad", "n5_default"])
@pytest.mark.parametrize("compression", ["gzip", "zstd", "xz", "bzip2"])
def test_a_bomb_is_an_error_before_it_goes_off(tmp_path, chain, compression):
    import bz2  # noqa: PLC0415  for this case only
    import gzip  # noqa: PLC0415
    import lzma  # noqa: PLC0415

    import zstandard  # noqa: PLC0415

    pack = {"gzip": gzip.compress, "zstd": zstandard.compress, "xz": lzma.compress, "bzip2": bz2.compress}[compression]
    by_hand(tmp_path / "v", values_of((8, 8)), (4, 4), compression={"type": compression}, compress=pack)
    bomb = default_header((4, 4)) + pack(bytes(1 << 28))
    (tmp_path / "v/1/1").write_bytes(bomb)
    array = jnrrdz.open_group(jnrrdz.scan(tmp_path / "v", chain=chain))["data"]
    tracemalloc.start()
    with pytest.raises(jnrrdz.JnrrdzError, match=r"v/1/1.*(longer than|where) 32 "):
        array[4:, 4:]
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_s3_is_listed_a_thousand_blocks_a_request(s3):
    values = values_of((130, 20))
    block = {
        f"v.n5/a/{x}/{y}": default_header((1, 1)) + int(values[x, y]).to_bytes(2, "big")
        for x in range(130)
        for y in range(20)
    }
    document = {"dimensions": [130, 20], "blockSize": [1, 1], "dataType": "uint16", "compression": {"type": "raw"}}
    s3.files |= block | {"v.n5/a/attributes.json": json.dumps(document).encode(), "v.n5x/0/0": b"no part of it"}
    found = scanning.scan("s3://bucket/v.n5", ScanOptions(), Access(storage_options=s3.options))
    assert s3.log == ["LIST"] * 3 + ["GET"] * (1 + 8)  # the metadata, and a few headers: whether blockSize is right
    assert found.requests == 12
    array = jnrrdz.open_group(found.group, source_options=s3.options)["a/data"]
    np.testing.assert_array_equal(array[:3, :5], values.T[:3, :5])


def test_other_file_systems_are_walked(write_n5, tmp_path):
    import fsspec  # noqa: PLC0415  for this case only

    values = values_of((8, 8))
    write_n5(tmp_path / "v", values, (4, 4))
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "v"), "/n5test.n5/v", recursive=True)
    np.testing.assert_array_equal(jnrrdz.open_dataset("memory://n5test.n5/", group="v")["data"].values, values.T)
    memory.rm("/n5test.n5", recursive=True)


# In place


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("path", ["", "raw/s0"])
def test_in_place_and_back(write_n5, tmp_path, chain, path):
    values = values_of((10, 8, 6))
    write_n5(tmp_path / "c.n5" / path, values, (4, 4, 3))
    before = snapshot(tmp_path)
    keys = api.index_in_place(tmp_path / "c.n5", chain=chain)
    after = snapshot(tmp_path)
    assert {file: data for file, data in after.items() if file.name != "zarr.json"} == before
    assert len(after) == len(before) + len(keys)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "c.n5" / path, mode="r")[...], values)
    if path:
        found = xr.open_dataset(tmp_path / "c.n5", engine="zarr", group="raw", consolidated=True)
        np.testing.assert_array_equal(found["s0"].transpose("x", "y", "z").values, values)
    with pytest.raises(jnrrdz.JnrrdzError, match="exists already"):
        api.index_in_place(tmp_path / "c.n5")
    api.index_in_place(tmp_path / "c.n5", overwrite=True)
    assert api.remove_in_place(tmp_path / "c.n5")
    assert snapshot(tmp_path) == before


def test_in_place_leaves_zarr_of_others_alone(write_n5, tmp_path):
    write_n5(tmp_path / "c/a", values_of((4, 4)), (4, 4))
    (tmp_path / "c/attributes.json").write_text('{"n5": "2.5.0"}')
    (tmp_path / "c/zarr.json").write_text('{"attributes": {}}')
    before = snapshot(tmp_path)
    with pytest.raises(jnrrdz.JnrrdzError, match="not of jnrrdz's making"):
        api.index_in_place(tmp_path / "c", overwrite=True)
    assert api.remove_in_place(tmp_path / "c") == []
    assert snapshot(tmp_path) == before


def test_in_place_takes_back_what_a_failure_left(write_n5, tmp_path, monkeypatch):
    from jnrrdz.manifests import in_place  # noqa: PLC0415  for this case only

    for name in "ab":
        write_n5(tmp_path / "c" / name, values_of((4, 4)), (4, 4))
    before = snapshot(tmp_path)
    put = in_place._Place.put  # noqa: SLF001  the one place where a disk can be full

    def full(place, key, data, **how):
        put(place, key, data, **how)
        if key.startswith("b"):
            raise jnrrdz.JnrrdzError("no space")

    monkeypatch.setattr("jnrrdz.manifests.in_place._Place.put", full)
    with pytest.raises(jnrrdz.JnrrdzError, match="no space"):
        api.index_in_place(tmp_path / "c")
    assert snapshot(tmp_path) == before


def test_tensorstore_reads_what_is_written_in_place(write_n5, tmp_path):
    write_n5(tmp_path / "v", np.zeros((8, 8), "u2"), (4, 4), "gzip")
    api.index_in_place(tmp_path / "v")
    values = values_of((8, 8))
    zarr.open_array(tmp_path / "v", mode="r+")[...] = values
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{tmp_path}/v/"}}
    np.testing.assert_array_equal(tensorstore.open(spec).result().read().result(), values)


# Levels and places

CONVENTIONS = {
    "n5-viewer": (
        "v",
        {
            "v": {
                "downsamplingFactors": [[1, 1, 1], [2, 2, 1]],
                "pixelResolution": {"unit": "um", "dimensions": [1, 2, 5]},
            },
        },
    ),
    "n5-viewer, scales": (
        "v",
        {"v": {"scales": [[1, 1, 1], [2, 2, 1]], "pixelResolution": [1, 2, 5], "units": ["um"] * 3}},
    ),
    "BigDataViewer": (
        "setup0/timepoint0",
        {
            "setup0": {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]], "dataType": "uint16"},
            "setup0/timepoint0": {"multiScale": True, "resolution": [1, 2, 5], "units": ["um"] * 3},
        },
    ),
    "Paintera": (
        "raw/data",
        {
            "raw": {"painteraData": {"type": "raw"}},
            "raw/data": {"multiScale": True, "resolution": [1, 2, 5], "offset": [0, 0, 0], "units": ["um"] * 3},
            "raw/data/s1": {"downsamplingFactors": [2, 2, 1]},
        },
    ),
    "neuroglancer": (
        "v",
        {
            "": {"axes": ["x", "y", "z"], "units": ["um"] * 3, "resolution": [1, 2, 5]},
            "v": {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]]},
        },
    ),
    "COSEM": (
        "v",
        {
            "v": {
                "multiscales": [
                    {
                        "datasets": [
                            {
                                "path": path,
                                "transform": {"order": "C", "axes": ["z", "y", "x"], "units": ["um"] * 3, **own},
                            }
                            for path, own in (
                                ("s0", {"scale": [5, 2, 1], "translate": [0, 0, 0]}),
                                ("s1", {"scale": [5, 4, 2], "translate": [0, 1, 0.5]}),
                            )
                        ]
                    }
                ]
            }
        },
    ),
}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_conventions_come_out_as_one(write_n5, add_attributes, tmp_path, name):
    path, attributes = CONVENTIONS[name]
    write_n5(tmp_path / path / "s0", values_of((8, 8, 4)), (4, 4, 4))
    write_n5(tmp_path / path / "s1", values_of((4, 4, 4)), (4, 4, 4))
    for folder, own in attributes.items():
        add_attributes(tmp_path / folder, **own)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = jnrrdz.open_group(tmp_path)[path]
    layout = group.attrs["multiscales"]["layout"]
    assert [level["asset"] for level in layout] == ["s0", "s1"]
    assert layout[1]["transform"]["scale"] == [1, 2, 2]
    (image,) = group.attrs["ome"]["multiscales"]
    assert image["axes"] == [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"]
    assert [level["path"] for level in image["datasets"]] == ["s0/data", "s1/data"]
    assert image["datasets"][1]["coordinateTransformations"] == [
        {"type": "scale", "scale": [5, 4, 2]},
        {"type": "translation", "translation": [0, 1, 0.5]},
    ]
    found = jnrrdz.open_dataset(tmp_path, group=f"{path}/s1")["data"]
    assert found["x"].values.tolist() == [0.5, 2.5, 4.5, 6.5]
    assert found["z"].values.tolist() == [0, 5, 10, 15]
    assert jnrrdz.open_dataset(tmp_path)["data"].shape == (4, 8, 8)


def test_cosem_without_order_is_told(write_n5, add_attributes, tmp_path):
    write_n5(tmp_path / "v", values_of((4, 4)), (4, 4))
    add_attributes(tmp_path / "v", transform={"axes": ["y", "x"], "scale": [2, 1], "translate": [0, 0]})
    with pytest.warns(UserWarning, match="taken for C"):
        found = jnrrdz.open_dataset(tmp_path / "v")["data"]
    assert found["y"].values.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("shape", [(8, 8, 4), (9, 7, 5)])
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_timepoints(tmp_path, add_attributes, shape, form):
    times = {0: values_of(shape), 2: values_of(shape) + 1}
    add_attributes(tmp_path / "c/setup0", downsamplingFactors=[[1, 1, 1]])
    for time, values in times.items():
        by_hand(tmp_path / f"c/setup0/timepoint{time}/s0", values, (4, 4, 4))
    jnrrdz.index(tmp_path / "c", tmp_path / f"r.{form}", stack_timepoints=True)
    found = jnrrdz.open_dataset(tmp_path / f"r.{form}")["data"]
    assert found.dims == ("t", "z", "y", "x")
    for time, values in times.items():
        np.testing.assert_array_equal(found.values[time], values.T)
    assert not found.values[1].any()


def test_stacks_of_earlier_versions_are_read(write_n5, tmp_path):
    values = values_of((9, 7, 5))
    write_n5(tmp_path / "v/setup0/timepoint0/s0", values, (4, 4, 4))
    jnrrdz.index(tmp_path / "v", tmp_path / "r.json", stack_timepoints=True, chain="n5_default")
    text = (tmp_path / "r.json").read_text()
    written = r"{\"name\":\"reshape\",\"configuration\":{\"shape\":[[0,1],[2],[3]]}}"
    assert written in text
    (tmp_path / "old.json").write_text(text.replace(written, r"{\"name\":\"jnrrdz.squeeze\"}"))
    for name, dropped in (("r", "reshape"), ("old", "jnrrdz.squeeze")):
        array = jnrrdz.open_group(tmp_path / f"{name}.json")["setup0/s0/data"]
        assert names(array) == ["transpose", dropped, "n5_default"]
        np.testing.assert_array_equal(array[0], values.T)
        jnrrdz.merge([tmp_path / f"{name}.json"], tmp_path / f"{name}-again.json", concat_dim="again")
        np.testing.assert_array_equal(
            jnrrdz.open_group(tmp_path / f"{name}-again.json")["setup0/s0/data"][0, 0], values.T
        )


def test_timepoints_that_disagree(tmp_path):
    by_hand(tmp_path / "setup0/timepoint0/s0", values_of((8, 8)), (4, 4))
    by_hand(tmp_path / "setup0/timepoint1/s0", values_of((8, 4)), (4, 4))
    with pytest.raises(jnrrdz.UnrepresentableError, match="timepoint 1 has other"):
        jnrrdz.scan(tmp_path, stack_timepoints=True)


@pytest.mark.parametrize("chain", ["offset", "n5_default"])
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_merged_containers_stand_in_the_table_once(write_n5, tmp_path, form, chain):
    values = [values_of((20, 14, 9)) + number for number in range(2)]
    for number, one in enumerate(values):
        write_n5(tmp_path / f"v{number}.n5", one, (4, 3, 3))
        jnrrdz.index(tmp_path / f"v{number}.n5", tmp_path / f"r{number}.{form}", chain=chain)
    (tmp_path / "v1.n5/0/0/0").unlink()  # it was listed, so this is an error
    jnrrdz.merge([tmp_path / f"r{number}.{form}" for number in range(2)], tmp_path / "m.json", concat_dim="t")
    group = jnrrdz.open_group(tmp_path / "m.json")
    assert [record["url"] for record in group.attrs["jnrrdz"]["sources"]] == [
        f"{os.path.realpath(tmp_path)}/v{number}.n5/{name}" for name in ("", "attributes.json") for number in range(2)
    ]
    np.testing.assert_array_equal(group["data"][0], values[0].T)
    np.testing.assert_array_equal(group["data"][1, 3:], values[1].T[3:])
    with pytest.raises(jnrrdz.JnrrdzError, match=r"v1.n5/0/0/0: .*not found"):
        group["data"][1]


@pytest.mark.parametrize("times", [1, 2])
def test_merged_blocks_have_their_headers_checked(write_n5, tmp_path, times):
    values = values_of((8, 6, 4))
    write_n5(tmp_path / "v.n5", values, (4, 3, 2), "raw")
    jnrrdz.index(tmp_path / "v.n5", tmp_path / "0.json", chain="offset")
    for number in range(times):
        jnrrdz.merge([tmp_path / f"{number}.json"], tmp_path / f"{number + 1}.json", concat_dim=f"t{number}")
    array = jnrrdz.open_group(tmp_path / f"{times}.json")["data"]
    assert array.shape == (1,) * times + (4, 6, 8)
    np.testing.assert_array_equal(array[...].reshape(4, 6, 8), values.T)
    block = tmp_path / "v.n5/1/0/0"
    block.write_bytes(default_header((2, 3, 4)) + block.read_bytes()[16:])
    array = jnrrdz.open_group(tmp_path / f"{times}.json")["data"]
    with pytest.raises(jnrrdz.JnrrdzError, match=r"v.n5/1/0/0"):
        array[..., :2, :3, 4:]
