"""Zarr that is there already, written by zarr, as a source: both versions, shards, levels, what is missing, where."""

import json
import shutil

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli

PIXELS = np.random.default_rng(16).integers(0, 999, (7, 50, 61)).astype("i4")

KINDS = {
    "v2": {"zarr_format": 2, "compressors": numcodecs.Zstd()},
    "v2, big endian": {"zarr_format": 2, "dtype": ">i4"},
    "v2, in folders": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "v2, filters": {"zarr_format": 2, "filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib()},
    "v2, order F": {"zarr_format": 2, "order": "F", "compressors": None},
    "v3": {},
    "v3, blosc": {"compressors": zarr.codecs.BloscCodec()},
    "v3, dots": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "v3, keys of v2": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
    "v3, shards": {"shards": (4, 40, 40)},
    "v3, shards with their index first": {"shards": {"shape": (4, 40, 40), "index_location": "start"}},
    "v3, plain shards": {"shards": (4, 40, 40), "compressors": None},
}
FORMS = ("json", "parquet")


def store(path, kind, **options):
    """Write groups with arrays; one chunk is not there."""
    chosen = {"shape": PIXELS.shape, "dtype": "i4", "chunks": (2, 20, 20), "fill_value": -5, **KINDS[kind], **options}
    version = chosen.pop("zarr_format", 3)
    root = zarr.create_group(path, zarr_format=version, attributes={"title": "made by zarr"})
    array = root.require_group("0/deep").create_array("pixels", attributes={"units": "1"}, **chosen)
    array[...] = PIXELS
    scalar = root.create_array("scalar", shape=(), dtype="f8")
    scalar[...] = 2.5
    line = root.create_array("7", shape=(30,), chunks=(4,), dtype="u2", compressors=None)
    line[...] = np.arange(30)
    folder = next(p for p in (path / "0/deep/pixels").rglob("*") if p.is_file() and p.name[-1] == "1")
    folder.unlink()
    return zarr.open_group(path, mode="r")


def same(found, expected):
    assert sorted(dict(found.members(max_depth=None))) == sorted(dict(expected.members(max_depth=None)))
    for name in ("0/deep/pixels", "scalar", "7"):
        np.testing.assert_array_equal(found[name][...], expected[name][...])
    assert found.attrs["title"] == "made by zarr"
    assert (found["0/deep/pixels"][...] == -5).any()


@pytest.mark.parametrize("kind", KINDS)
def test_what_zarr_writes_reads_the_same(tmp_path, kind):
    expected = store(tmp_path / "a.zarr", kind)
    for form in FORMS:
        jnrrdz.index(tmp_path / "a.zarr", tmp_path / f"r.{form}")
        same(jnrrdz.open_group(tmp_path / f"r.{form}"), expected)
        assert jnrrdz.verify(tmp_path / f"r.{form}", deep=True).ok
    jnrrdz.convert(tmp_path / "r.parquet", tmp_path / "c.json")
    same(jnrrdz.open_group(tmp_path / "c.json"), expected)


@pytest.mark.parametrize("kind", ["v2", "v3", "v3, shards", "v3, dots"])
def test_what_became_of_the_store_since(tmp_path, kind):
    store(tmp_path / "a.zarr", kind)
    jnrrdz.index(tmp_path / "a.zarr", tmp_path / "r.json")
    chunk = max((p for p in (tmp_path / "a.zarr/0").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    whole = chunk.read_bytes()
    for data in (whole[:-3], whole + b"more", whole[::-1]):
        chunk.write_bytes(data)
        with pytest.raises(jnrrdz.DriftError):
            jnrrdz.open_group(tmp_path / "r.json")["0/deep/pixels"][...]
        assert not jnrrdz.verify(tmp_path / "r.json", deep=True).ok
    chunk.write_bytes(whole)
    assert jnrrdz.refresh(tmp_path / "r.json").changed
    np.testing.assert_array_equal(
        jnrrdz.open_group(tmp_path / "r.json")["0/deep/pixels"][...],
        zarr.open_group(tmp_path / "a.zarr")["0/deep/pixels"][...],
    )
    chunk.unlink()
    with pytest.raises(jnrrdz.JnrrdzError):
        jnrrdz.open_group(tmp_path / "r.json")["0/deep/pixels"][...]


def test_shards_are_read_in_part(tmp_path):
    store(tmp_path / "a.zarr", "v3, plain shards")
    group = jnrrdz.open_group(tmp_path / "a.zarr")
    np.testing.assert_array_equal(group["0/deep/pixels"][5, 3:7, 3:7], PIXELS[5, 3:7, 3:7])


def test_an_array_at_the_root(tmp_path):
    for version in (2, 3):
        array = zarr.create_array(
            tmp_path / f"{version}", shape=(50, 61), chunks=(20, 20), dtype="i4", zarr_format=version
        )
        array[...] = PIXELS[0]
        np.testing.assert_array_equal(
            xr.open_dataset(tmp_path / f"{version}", engine="jnrrdz", mask_and_scale=False)["data"], PIXELS[0]
        )


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning", "ignore:The data type:Warning")
@pytest.mark.parametrize("version", [2, 3])
def test_what_xarray_writes(tmp_path, version):
    data = xr.Dataset(
        {"v": (("time", "y"), np.array([[1.5, np.nan], [3, 4]])), "s": (("time",), ["a", "b"])},
        {"time": np.array(["2020-01-01", "2020-02-01"], "M8[ns]")},
    )
    encoding = {"v": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}}
    data.to_zarr(tmp_path / "x.zarr", zarr_format=version, encoding=encoding)
    with pytest.warns(UserWarning, match="left out: .*s"):
        found = xr.open_dataset(tmp_path / "x.zarr", engine="jnrrdz")
    xr.testing.assert_equal(found, data.drop_vars("s"))


REFUSED = {
    "two compressors": [{"name": "gzip", "configuration": {"level": 1}}] * 2,
    "one that is not ours": [{"name": "numcodecs.pcodec", "configuration": {}}],
    "a shard beside a compressor": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", ["v3", "v3, shards"])
def test_a_chain_that_no_bound_is_known_of(tmp_path, name, kind):
    store(tmp_path / "a.zarr", kind, compressors=None)
    path = tmp_path / "a.zarr/0/deep/pixels/zarr.json"
    document = json.loads(path.read_text())
    inside = document["codecs"][0]["configuration"]["codecs"] if kind != "v3" else document["codecs"]
    (inside if "beside" not in name else document["codecs"]).extend(REFUSED[name])
    path.write_text(json.dumps(document))
    if kind == "v3" and "beside" in name:
        return
    with pytest.warns(UserWarning, match="left out: 0/deep/pixels"):
        group = jnrrdz.scan(tmp_path / "a.zarr")
    assert [path for path, _ in group.arrays()] == ["7", "scalar"]


INNER = {"chunk_shape": [1, 1, 1], "codecs": ["bytes"]}
BOMBS = {
    "chunks": ({"chunk_shape": [1, 1, 1]}, (2048, 2048, 2048), "chunks in a shard"),
    "an index that is compressed": ({"index_codecs": [{"name": "bytes"}, {"name": "gzip"}]}, None, "index of shards"),
    "shards in shards": ({"codecs": [{"name": "sharding_indexed", "configuration": INNER}]}, None, "sharding_indexed"),
    "a shard without sides": (
        {"codecs": [{"name": "sharding_indexed"}]},
        None,
        r"codecs\[0\].configuration.codecs\[0\].configuration.chunk_shape: is missing",
    ),
    "two compressors": ({"codecs": [{"name": "bytes"}, {"name": "gzip"}, {"name": "gzip"}]}, None, "at most one"),
    "other axes": ({"chunk_shape": [1, 1]}, None, "no sides"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_manifest_of_a_stranger(tmp_path, name):
    store(tmp_path / "a.zarr", "v3, shards")
    jnrrdz.index(tmp_path / "a.zarr", tmp_path / "r.json")
    change, shape, message = BOMBS[name]
    refs = json.loads((tmp_path / "r.json").read_text())
    document = json.loads(refs["refs"]["0/deep/pixels/zarr.json"])
    document["codecs"][0]["configuration"] |= change
    if shape is not None:
        document["chunk_grid"]["configuration"]["chunk_shape"] = list(shape)
        document["shape"] = list(shape)
    refs["refs"] = {key: text for key, text in refs["refs"].items() if "/c/" not in key}
    refs["refs"]["0/deep/pixels/zarr.json"] = json.dumps(document)
    refs.pop("object_versions", None)
    (tmp_path / "r.json").write_text(json.dumps(refs))
    with pytest.raises(jnrrdz.JnrrdzError, match=message):
        jnrrdz.open_group(tmp_path / "r.json")["0/deep/pixels"][0, 0, 0]


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_over_http(tmp_path, http_server):
    expected = store(tmp_path / "a.zarr", "v3")
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    for path in (tmp_path / "a.zarr").rglob("*"):
        if path.is_file():
            http_server.files[f"/{path.relative_to(tmp_path)}"] = path.read_bytes()
    jnrrdz.index(f"{http_server.url}/a.zarr/", tmp_path / "r.json")
    same(jnrrdz.open_group(tmp_path / "r.json"), expected)
    with pytest.raises(jnrrdz.UnsupportedError, match="consolidated"):
        jnrrdz.scan(f"{http_server.url}/a.zarr/0/deep/")
    array = jnrrdz.open_group(f"{http_server.url}/a.zarr/0/deep/pixels/")["data"]
    np.testing.assert_array_equal(array[...], expected["0/deep/pixels"][...])


def test_in_a_bucket(tmp_path, seaweed, bucket):
    expected = store(tmp_path / "a.zarr", "v3, shards")
    for path in (tmp_path / "a.zarr").rglob("*"):
        if path.is_file():
            seaweed.put(bucket, f"in/{path.relative_to(tmp_path)}", path.read_bytes())
    options = seaweed.options()
    jnrrdz.batch(
        f"s3://{bucket}/in/", f"s3://{bucket}/out/{{name}}.json", storage_options=options, target_options=options
    )
    refs = f"s3://{bucket}/out/a.zarr.json"
    same(jnrrdz.open_group(refs, storage_options=options, source_options=options), expected)
    key = max((p for p in (tmp_path / "a.zarr/0").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    seaweed.put(bucket, f"in/{key.relative_to(tmp_path)}", key.read_bytes()[::-1])
    with pytest.raises(jnrrdz.DriftError):
        jnrrdz.open_group(refs, storage_options=options, source_options=options)["0/deep/pixels"][...]


def test_a_folder_of_stores_and_commands(tmp_path):
    for name in ("a.zarr", "b.zarr"):
        store(tmp_path / "in" / name, "v3")
    shutil.copytree(tmp_path / "in/b.zarr", tmp_path / "in/other")
    done = jnrrdz.batch(f"{tmp_path}/in/", f"{tmp_path}/out/{{stem}}.json")
    assert (done.ok, done.failed) == (2, 0)
    run = CliRunner().invoke
    facts = json.loads(run(cli, ["info", "--json", str(tmp_path / "in/other")]).stdout)
    assert (facts["state"], facts["format"]) == ("ok", "Zarr")
    done = run(cli, ["preview", str(tmp_path / "in/other"), "-o", str(tmp_path / "p.png"), "--group", "0/deep"])
    assert done.exit_code == 0, done.output


def test_a_link_out_of_the_store(tmp_path):
    store(tmp_path / "a.zarr", "v3")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "a.zarr/7/c/99").symlink_to(tmp_path / "secret")
    with pytest.raises(jnrrdz.UntrustedSourceError):
        jnrrdz.scan(tmp_path / "a.zarr")
