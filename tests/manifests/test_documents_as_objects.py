"""Documents that are objects are spelled when a text is needed, and behave as texts do."""

import json
import pickle

import pytest
import tifffile

import jnrrdz
from jnrrdz.errors import MalformedError
from jnrrdz.manifests import documents as module
from jnrrdz.manifests.documents import Documents
from jnrrdz.manifests.manifest import from_group, load

GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}
WHOLE = {**GROUP, "consolidated_metadata": {"kind": "inline", "metadata": {"b": GROUP}}}


def test_objects_and_texts_are_the_same_documents():
    texts = Documents({"zarr.json": json.dumps(WHOLE, separators=(",", ":")).encode(), "note": b"\xff"})
    objects = Documents({"note": b"\xff"}, {"zarr.json": WHOLE})
    assert objects == texts
    assert pickle.loads(pickle.dumps(objects)) == texts
    for documents in (texts, objects):
        assert documents.whole("zarr.json") == WHOLE
        assert documents.parsed("zarr.json") == GROUP
        assert documents.nodes() == {"": GROUP}
        assert ("zarr.json" in documents, "x" in documents, len(documents)) == (True, False, 2)


def test_a_text_in_place_of_an_object_counts():
    documents = Documents(objects={"zarr.json": WHOLE})
    assert documents.node("")["attributes"] == {"a": 1}
    other = {**GROUP, "attributes": {"b": 2}}
    documents["zarr.json"] = json.dumps(other).encode()
    assert documents.node("") == other
    documents.put("zarr.json", GROUP)
    assert json.loads(documents["zarr.json"]) == documents.node("") == GROUP
    documents.rename("zarr.json", "b/zarr.json")
    assert (list(documents), documents.node("b"), documents.node("")) == (["b/zarr.json"], GROUP, {})
    del documents["b/zarr.json"]
    assert documents.nodes() == {}


@pytest.mark.parametrize("document", [[], "text", 3])
def test_an_object_that_is_none(document):
    with pytest.raises(MalformedError, match="no object"):
        Documents(objects={"zarr.json": document}).node("")


def test_what_is_scanned_is_neither_spelled_nor_parsed(manifests, monkeypatch):
    """Its documents and sources are those of the manifest that would be written."""
    group, target = manifests
    written = load(target)
    monkeypatch.setattr(module, "parse_json", None)
    monkeypatch.setattr(module, "_COMPACT", None)
    scanned = from_group(group)
    assert scanned.documents.nodes() == written.documents.nodes()
    assert tuple(scanned.sources) == tuple(written.sources)
    assert list(scanned.hierarchy.nodes) == list(written.hierarchy.nodes)


@pytest.fixture
def manifests(tmp_path):
    """A scanned file, and the JSON manifest of it."""

    path = tmp_path / "a.tif"
    tifffile.imwrite(path, [[1, 2], [3, 4]], dtype="u2", description="a picture")
    group = jnrrdz.scan(path)
    target = str(tmp_path / "a.json")
    jnrrdz.write(group, target)
    load(target).documents.nodes()
    return group, target


def test_what_was_made_of_a_document_goes_with_it():
    grid = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}
    kind = {"data_type": "uint8", "fill_value": 0, "codecs": [{"name": "bytes"}]}
    keys = {"chunk_key_encoding": {"name": "default"}}
    array = {"zarr_format": 3, "node_type": "array", "shape": [4], **grid, **kind, **keys}
    documents = Documents(objects={"zarr.json": WHOLE, "b/zarr.json": array})
    assert documents.consolidated("") == ["b"]
    assert documents.consolidated("b") is None
    assert documents.array_keys(documents)["b"].grid == (2,)
    documents.put("b/zarr.json", {**array, "shape": [6]})
    assert documents.array_keys(documents)["b"].grid == (3,)
    documents["zarr.json"] = json.dumps(GROUP).encode()
    assert documents.consolidated("") is None
    documents["zarr.json"] = json.dumps({**GROUP, "consolidated_metadata": 3}).encode()
    assert documents.consolidated("") == []
