"""What a local manifest names outside of its folder: read at its word, with a warning unless it has seen it."""

import json

import numpy as np
import pytest
import tensorstore
import tifffile

import jnrrdz
from jnrrdz.errors import DriftError, DriftWarning, UntrustedSourceWarning
from tests.nrrd.tiled_files import core, keys, lines, stored, tiles_of, volume

PIXELS = np.arange(64, dtype="u1").reshape(8, 8)
SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----".ljust(64, b"#")
UNSEEN = "outside of its folder, and does not show that who wrote it has seen that"


@pytest.fixture
def data(tmp_path):
    """A folder of an image and of a file that is nobody's business, and a manifest elsewhere."""
    (tmp_path / "data").mkdir()
    (tmp_path / "refs").mkdir()
    tifffile.imwrite(tmp_path / "data/a.tif", PIXELS, metadata=None)
    (tmp_path / "data/id_rsa").write_bytes(SECRET)
    return tmp_path / "data"


def rewritten(path, source, record=None):
    """Let a manifest's only chunk and its table name another source."""
    document = json.loads(path.read_text())
    document["refs"]["data/c/0/0"] = [source, 0, 64]
    root = json.loads(document["refs"]["zarr.json"])
    root["attributes"]["jnrrdz"]["sources"] = [record or {"url": source}]
    document["refs"]["zarr.json"] = json.dumps(root)
    path.write_text(json.dumps(document))
    return path


def of_a_stranger(data, **record):
    path = data.parent / "refs/strange.json"
    jnrrdz.index(data / "a.tif", path, overwrite=True)
    return rewritten(path, str(data / "id_rsa"), {"url": str(data / "id_rsa"), **record})


def read(path, **options):
    return jnrrdz.open_group(path, **options)["data"][...].tobytes()


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
def test_what_was_indexed_here_is_read_without_a_word(data, name):
    jnrrdz.index(data / "a.tif", data.parent / "refs" / name)
    assert read(data.parent / "refs" / name) == PIXELS.tobytes()


@pytest.mark.parametrize("record", [{}, {"size": 64}, {"size": 64, "etag": '"x"'}])
def test_a_source_that_the_manifest_does_not_know_is_warned_of_once(data, record):
    path = of_a_stranger(data, **record)
    array = jnrrdz.open_group(path)["data"]
    with pytest.warns(UntrustedSourceWarning, match=f"{UNSEEN}.*--allow {data}/id_rsa"):
        assert array[...].tobytes() == SECRET
    assert array[...].tobytes() == SECRET


def test_a_guess_at_what_it_was_is_told_too(data):
    path = of_a_stranger(data, size=64, last_modified="2024-01-01T00:00:00Z")
    with pytest.warns(DriftWarning):
        read(path)
    with pytest.raises(DriftError):
        read(of_a_stranger(data, size=63, last_modified="2024-01-01T00:00:00Z"))


def test_leave_says_that_it_is_meant(data):
    path = of_a_stranger(data)
    for allow in (str(data), f"{data}/id_rsa", "*"):
        assert read(path, allow=[allow]) == SECRET


def test_beside_the_manifest_nothing_has_to_be_known(data):
    jnrrdz.index(data / "a.tif", data / "refs.json")
    assert read(rewritten(data / "refs.json", "id_rsa")) == SECRET


def test_a_folder_that_is_no_container_does_not_vouch_for_what_is_below(data):
    path = of_a_stranger(data, url=f"{data}/")
    with pytest.warns(UntrustedSourceWarning, match=UNSEEN):
        read(path)


def test_a_document_that_the_manifest_does_not_record_does_not_vouch_either(data):
    (data / "attributes.json").write_text("{}")
    path = of_a_stranger(data, url=f"{data}/")
    with pytest.warns(UntrustedSourceWarning, match=UNSEEN):
        read(path)


def test_a_container_is_known_by_its_metadata(data):
    metadata = {"dimensions": [8, 8], "blockSize": [4, 4], "dataType": "uint8", "compression": {"type": "gzip"}}
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{data}/c.n5/v/w/"}, "metadata": metadata}
    tensorstore.open(spec, create=True).result().write(PIXELS).result()
    jnrrdz.index(data / "c.n5", data.parent / "refs/n5.json")
    assert jnrrdz.open_group(data.parent / "refs/n5.json")["v/w/data"][...].T.tobytes() == PIXELS.tobytes()


@pytest.mark.parametrize("side", [4, 36])
def test_tiles_are_known_by_their_header(data, side):
    array = volume((side, side), "uint8")
    for number, (_, part) in enumerate(tiles_of(array, (1, 1))):  # few are named one by one, many by their folder
        (data / f"tile-{number}").write_bytes(stored(part))
    (data / "h.jnrrd").write_bytes(lines(core(array) | keys((1, 1), storage="external", pattern="tile-{i}")))
    jnrrdz.index(data / "h.jnrrd", data.parent / "refs/tiles.json")
    np.testing.assert_array_equal(jnrrdz.open_group(data.parent / "refs/tiles.json")["data"][...], array)


def test_a_host_that_nobody_has_seen(data, http_server):
    http_server.files["/a"] = SECRET
    path = data.parent / "refs/web.json"
    jnrrdz.index(data / "a.tif", path)
    url = f"{http_server.url}/a"
    with pytest.warns(UntrustedSourceWarning, match=UNSEEN):
        assert read(rewritten(path, url)) == SECRET
    assert read(path, allow=[http_server.url]) == SECRET
    with pytest.raises(DriftError):  # what is recorded has to be what is there
        read(rewritten(path, url, {"url": url, "size": 7}))


def test_what_was_indexed_from_a_host_is_read_without_a_word(data, http_server):
    http_server.files["/a.tif"] = (data / "a.tif").read_bytes()
    jnrrdz.index(f"{http_server.url}/a.tif", data.parent / "refs/web.json")
    assert read(data.parent / "refs/web.json") == PIXELS.tobytes()
