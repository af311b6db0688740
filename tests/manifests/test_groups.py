import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup, tree_json
from jnrrdz.errors import MalformedError, UnsupportedError, UntrustedSourceError
from jnrrdz.manifests import json as kerchunk_json
from jnrrdz.manifests import parquet as kerchunk_parquet
from jnrrdz.manifests.documents import Documents
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import from_group, load
from jnrrdz.options import WriteOptions


def refs_of(urls, rows, inline=()):
    flat = [one for row in rows for one in row]
    source = np.array([urls.index(url) for url, _, _ in flat], np.int32)
    columns = [np.array([one[column] for one in flat], np.int64) for column in (1, 2)]
    return ChunkRefs(tuple(urls), np.cumsum([0, *map(len, rows)]), source, *columns, dict(inline))


def array_of(refs, grid, **more):
    sizes = tuple(4 * size for size in grid)
    names = tuple("zyx"[3 - len(grid) :])
    codecs = (bytes_("little"), CodecSpec("gzip", {"level": 1}))
    return VirtualArray(sizes, np.dtype("f4"), (4,) * len(grid), codecs, refs, names, np.float32("nan"), more)


@pytest.fixture
def root(tmp_path):
    """A tree with chunks of every kind; a source is beside it, another in a directory above."""
    folder = tmp_path / "data"
    folder.mkdir()
    urls = [str(folder / "a.tif"), str(tmp_path / "b.tif")]
    for url in urls:
        Path(url).write_bytes(bytes(1000))
    mixed = [[(urls[0], 5, 10)], [], [(urls[1], 7, 3), (urls[1], 40, 5)], [], [(urls[1], 0, 9)], [(urls[0], 20, 1)]]
    sparse = [[] for _ in range(600)]
    sparse[17], sparse[599] = [(urls[1], 1, 2)], [(urls[1], 3, 4)]
    children = {
        "data": array_of(refs_of(urls, mixed, {3: b"base64: looks like it"}), (2, 3), units="m", _FillValue=1.5),
        "0": VirtualGroup({"sparse": array_of(refs_of(urls[1:], sparse, {18: b"x"}), (30, 20))}, {"level": 0}),
        "none": array_of(ChunkRefs.empty(8), (2, 2, 2)),
        "scalar": VirtualArray((), np.dtype("i8"), (), (bytes_("little"),), ChunkRefs.empty(1), (), np.int64(0)),
    }
    records = tuple(
        SourceRecord(url, 1000, f'"{number}"', "v", "2024-01-01T00:00:00Z") for number, url in enumerate(urls)
    )
    return VirtualGroup(children, {"title": "a title"}, records)


def looked_up(refs):
    return [refs.lookup(chunk) for chunk in range(refs.chunks)]


def written(form, root, folder):
    if form == "json":
        kerchunk_json.write(root, str(folder / "m.json"))
        return load(str(folder / "m.json"))
    if form == "relative json":
        kerchunk_json.write(root, str(folder / "m.json"), WriteOptions(relative=True))
        return load(str(folder / "m.json"))
    if form.startswith("parquet"):
        kerchunk_parquet.write(root, str(folder / "m.parquet"), record_size=int(form.split()[1]))
        return load(str(folder / "m.parquet"))
    return from_group(root)


@pytest.mark.parametrize("form", ["memory", "json", "relative json", "parquet 4", "parquet 17", "parquet 1000"])
def test_a_group_comes_back_from_every_manifest(root, tmp_path, form):
    manifest = written(form, root, tmp_path / "data")
    found = group_from_manifest(manifest)
    assert tree_json(found) == tree_json(root)
    assert sorted(found.sources, key=lambda record: record.url) == sorted(root.sources, key=lambda record: record.url)
    arrays = dict(root.arrays())
    for path, array in found.arrays():
        assert (path, looked_up(array.refs)) == (path, looked_up(arrays[path].refs))
        assert set(array.refs.sources) == {
            url for row in looked_up(array.refs) if isinstance(row, list) for url, _, _ in row
        }


def test_only_what_the_manifest_may_reach_is_taken(root, tmp_path):
    group = VirtualGroup({"data": root.children["data"]}, {}, root.sources[:1])
    kerchunk_json.write(group, str(tmp_path / "data" / "m.json"))
    text = (tmp_path / "data" / "m.json").read_text()
    table = json.dumps({"url": root.sources[1].url}).replace(" ", "")
    assert json.dumps(f",{table}")[1:-1] in text
    (tmp_path / "data" / "m.json").write_text(text.replace(json.dumps(f",{table}")[1:-1], ""))
    manifest = load(str(tmp_path / "data" / "m.json"))
    with pytest.raises(UntrustedSourceError, match=r"b\.tif"):
        group_from_manifest(manifest)
    found = group_from_manifest(manifest, allow=(str(tmp_path),))
    assert {record.url for record in found.sources} == {record.url for record in root.sources}


def test_relative_urls_are_relative_to_the_manifest(root, tmp_path, monkeypatch):
    kerchunk_json.write(root, str(tmp_path / "data" / "m.json"), WriteOptions(relative=True))
    monkeypatch.chdir(tmp_path)
    assert '"../b.tif"' in (tmp_path / "data" / "m.json").read_text()
    found = group_from_manifest(load(os.path.join("data", "m.json")))  # noqa: PTH118 - as a user types it
    assert {record.url for record in found.sources} == {record.url for record in root.sources}


@pytest.mark.parametrize("known", [True, False])
def test_a_whole_source_gets_its_length(root, tmp_path, known):
    path = tmp_path / "data" / "m.json"
    kerchunk_json.write(root, str(path))
    records = [{"url": record.url, **({"size": 777} if known else {})} for record in root.sources]
    refs = json.loads(path.read_text())
    top = json.loads(refs["refs"]["zarr.json"])
    top["attributes"]["jnrrdz"]["sources"] = records
    refs["refs"] |= {"zarr.json": json.dumps(top), "data/c/0/0": [records[0]["url"]]}
    path.write_text(json.dumps(refs))
    found = group_from_manifest(load(str(path)))
    assert found.children["data"].refs.ranges(0) == [(records[0]["url"], 0, 777 if known else 1000)]


BROKEN = {
    "no names": ({"dimension_names": None}, UnsupportedError, "dimensions have no names"),
    "a strange type": ({"data_type": "r24"}, UnsupportedError, "data type 'r24'"),
    "a huge grid": ({"shape": [1 << 31, 1 << 20]}, UnsupportedError, "chunks are taken at once"),
}


@pytest.mark.parametrize(("change", "error", "text"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_taken_is_refused(root, tmp_path, change, error, text):
    path = tmp_path / "data" / "m.json"
    kerchunk_json.write(VirtualGroup({"data": root.children["data"]}), str(path))
    refs = json.loads(path.read_text())["refs"]
    refs["data/zarr.json"] = json.dumps(json.loads(refs["data/zarr.json"]) | change)
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    with pytest.raises(error, match=text) as caught:
        group_from_manifest(load(str(path)), allow=("*",))
    assert caught.value.url == str(path)


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"attributes": [1]}'])
def test_documents_that_say_nothing_are_refused(root, text):
    manifest = from_group(root)
    with pytest.raises(MalformedError):
        group_from_manifest(replace(manifest, documents=Documents({**manifest.documents, "zarr.json": text})))
