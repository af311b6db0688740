"""Files beside a source: their names, and opening those that are there."""

import pytest

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.sources.fsspec import open_source

NAMES = [
    ("/data/a.tif", ".ovr", False, "/data/a.tif.ovr"),
    ("/data/a.tif", ".tfw", True, "/data/a.tfw"),
    ("a.b.tif", ".wld", True, "a.b.wld"),
    ("/data.v2/a", ".wld", True, "/data.v2/a.wld"),
    ("s3://bucket/a?b.tif", ".aux.xml", False, "s3://bucket/a?b.tif.aux.xml"),
    ("https://host/a.tif?key=1.2", ".aux.xml", False, "https://host/a.tif.aux.xml?key=1.2"),
    ("https://host/a.tif?key=1.2", ".tfw", True, "https://host/a.tfw?key=1.2"),
    ("zip://in/a.tif::s3://bucket/b.zip", ".tfw", True, "zip://in/a.tfw::s3://bucket/b.zip"),
]


@pytest.mark.parametrize(("url", "ending", "replace", "expected"), NAMES)
def test_names(url, ending, replace, expected):
    assert beside(url, ending, replace=replace) == expected


def test_a_neighbour_is_opened_once_and_recorded(tmp_path):
    (tmp_path / "a.tfw").write_bytes(b"content")
    asked = []

    def opener(url):
        asked.append(url)
        return open_source(url)

    neighbours = Neighbours(opener)
    here, missing = str(tmp_path / "a.tfw"), str(tmp_path / "a.wld")
    for _ in range(2):
        assert neighbours.open(here)(0, 7) == b"content"
        assert neighbours.open(missing) is None
    assert asked == [here]
    assert [(record.url, record.size) for record in neighbours.records] == [(here, 7)]
    neighbours.close()


def test_without_an_opener_nothing_is_there(tmp_path):
    (tmp_path / "a.tfw").write_bytes(b"content")
    neighbours = Neighbours()
    assert neighbours.open(str(tmp_path / "a.tfw")) is None
    assert neighbours.records == ()


@pytest.mark.parametrize(("status", "is_missing"), [(404, True), (403, True), (500, False)])
def test_what_a_server_says(http_server, status, is_missing):
    http_server.statuses["/a.tfw"] = [status] * 9
    neighbours = Neighbours(open_source)
    if is_missing:
        assert neighbours.open(f"{http_server.url}/a.tfw") is None
        return
    with pytest.raises(JnrrdzError, match="500"):
        neighbours.open(f"{http_server.url}/a.tfw")


def test_an_empty_neighbour_is_there(tmp_path, http_server):
    (tmp_path / "a.tfw").write_bytes(b"")
    http_server.files["/a.tfw"] = b""
    for url in (str(tmp_path / "a.tfw"), f"{http_server.url}/a.tfw"):
        assert Neighbours(open_source).open(url).size == 0
