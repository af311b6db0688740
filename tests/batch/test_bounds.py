"""Listings, lists and STAC documents that never end are refused, and the error names the way out."""

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jnrrdz.batches import run
from jnrrdz.batches.names import NameCount, PageCount
from jnrrdz.batches.selection import Selection, Wanted, listed, resolve, within
from jnrrdz.batches.stac import Assets, Reader
from jnrrdz.errors import UnsupportedError
from tests.batch.conftest import image

REMEDY = "narrow the pattern or the search, or raise --max-names"


def page(number: int, items: list[str]) -> bytes:
    features = [
        {
            "type": "Feature",
            "id": name,
            "assets": {"a": {"href": name, "type": "image/tiff"}},
        }
        for name in items
    ]
    links = [{"rel": "next", "href": f"search.json?page={number + 1}"}]
    document = {"type": "FeatureCollection", "features": features, "links": links}
    return json.dumps(document).encode()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        number = int(self.path.partition("page=")[2] or 0)
        body = page(number, self.server.items(number))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def search():
    """A search whose pages each link to another one."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}/search.json"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "items",
    [lambda _: [], lambda _: ["a.tif", "b.tif"], lambda number: ["a.tif"][:number]],
    ids=["no items", "the same items", "items on one page only"],
)
def test_pages_that_name_nothing_new_are_refused(search, items):
    search.items = items
    reader = Reader(Assets(), pages=PageCount(20))
    with pytest.raises(UnsupportedError, match="20 documents in a row name nothing new"):
        list(reader.found(search.url))
    assert search.asked <= 23


def test_pages_with_new_items_are_read_up_to_the_number_of_names(search):
    search.items = lambda number: [f"{number}-{item}.tif" for item in range(10)]
    selection = Selection((), stac=[search.url], max_names=220)
    sources = selection.found(lambda _: None)
    assert len(list(itertools.islice(sources, 150))) == 150
    with pytest.raises(UnsupportedError, match=f"more than 220 names; {REMEDY}"):
        list(sources)
    assert search.asked <= 21


def test_a_page_of_many_links_counts_them(tmp_path):
    links = [{"rel": "item", "href": f"{number}.json"} for number in range(100)]
    catalog = {"type": "Catalog", "links": links}
    (tmp_path / "catalog.json").write_text(json.dumps(catalog))
    reader = Reader(Assets(), names=NameCount(99))
    with pytest.raises(UnsupportedError, match="more than 99 names"):
        list(reader.found(f"{tmp_path}/catalog.json"))


@pytest.fixture
def folder(tmp_path):
    for number in range(30):
        (tmp_path / "in" / f"{number % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / f"{number % 3}" / f"{number}.txt").touch()
    (tmp_path / "in" / "a.tif").write_bytes(image(1))
    return tmp_path / "in"


@pytest.mark.parametrize("source", ["{}/", "{}/**/*.tif", "@{}/../list.txt"])
def test_a_batch_looks_at_as_many_names_as_it_may(folder, source):
    (folder.parent / "list.txt").write_text(f"{folder}/a.tif\n" * 34)
    name = source.format(folder)
    out = f"{folder.parent}/out/{{stem}}.json"
    done = run.batch((), out, selection=Selection([name], max_names=34 + 34), overwrite=True)
    assert (done.ok, done.failed) == (1, 0)
    with pytest.raises(UnsupportedError, match=f"more than 33 names; {REMEDY}"):
        run.batch((), out, selection=Selection([name], max_names=33), overwrite=True)


def test_a_listing_of_a_store_is_counted_page_by_page(seaweed, bucket):
    for number in range(12):
        seaweed.put(bucket, f"in/{number}.txt", b"-")
    options = seaweed.options()
    pattern = within(f"s3://{bucket}/in/**/*.tif")
    assert list(listed(pattern, options, NameCount(12))) == []
    with pytest.raises(UnsupportedError, match="more than 11 names"):
        list(listed(pattern, options, NameCount(11)))


def test_what_a_command_keeps_is_bounded_too(folder, monkeypatch):
    monkeypatch.setattr("jnrrdz.batches.selection.MOST_RESOLVED", 33)
    with pytest.raises(UnsupportedError, match="more than 33 names; narrow the pattern"):
        resolve([f"{folder}/"], Wanted.IMAGES, lambda _: None)
