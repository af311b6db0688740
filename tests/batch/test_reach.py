"""A STAC document, a list or a table that came from afar names only what is afar, under the rules of manifests."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jnrrdz.batches import run
from jnrrdz.batches.selection import Selection
from jnrrdz.errors import JnrrdzError, UntrustedSourceError
from tests.batch.conftest import image

TIFF = "image/tiff"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("X-Api-Key")))
        to = self.server.redirects.get(self.path)
        body = self.server.files.get(self.path, b"")
        self.send_response(302 if to else 200 if body else 404)
        if to:
            self.send_header("Location", to)
        if self.path.endswith(".tif"):  # of documents nothing says the length: they end where the connection does
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def other():
    """A server on this machine whose files a stranger's document is not to reach."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.redirects, server.asked = {}, {}, []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def afar(nginx, other):
    """Addresses that a document at `nginx` may not name."""
    (nginx.files / "own.tif").write_bytes(image(1))
    local = nginx.files / "local.tif"
    local.write_bytes(image(2))
    other.files["/a.tif"] = image(3)
    return [
        str(local),
        f"file://{local}",
        f"LOCAL:{local}",
        "~/a.tif",
        "memory://a.tif",
        f"simplecache::{nginx.url}/own.tif",
        f"http://127.0.0.1:{other.server_port}/a.tif",
        f"http://localhost:{other.server_port}/a.tif",
        f"http://2130706433:{other.server_port}/a.tif",
        "ftp://127.0.0.1/a.tif",
    ]


def item(number, href):
    return {"type": "Feature", "id": str(number), "assets": {"a": {"href": href, "type": TIFF}}}


def items(hrefs):
    return {"type": "FeatureCollection", "features": [item(number, href) for number, href in enumerate(hrefs)]}


def by_collection(folder, hrefs):
    (folder / "doc.json").write_text(json.dumps(items(hrefs)))
    return "doc.json", {}


def by_catalog(folder, hrefs):
    links = []
    for number, href in enumerate(hrefs):
        (folder / f"{number}.json").write_text(json.dumps(item(number, href)))
        links.append({"rel": "item", "href": f"{number}.json"})
    (folder / "doc.json").write_text(json.dumps({"type": "Catalog", "links": links}))
    return "doc.json", {}


def by_table(folder, hrefs):
    rows = [item(number, href) for number, href in enumerate(hrefs)]
    columns = {"id": [row["id"] for row in rows], "assets": [json.dumps(row["assets"]) for row in rows]}
    pq.write_table(pa.table(columns), folder / "doc.parquet")
    return "doc.parquet", {}


def by_list(folder, hrefs):
    (folder / "doc.txt").write_text("\n".join(hrefs))
    return "@doc.txt", {}


@pytest.mark.parametrize("kind", [by_collection, by_catalog, by_table, by_list])
def test_what_came_from_afar_names_what_is_afar(nginx, other, afar, tmp_path, kind):
    name, choices = kind(nginx.files, [*afar, "own.tif"])
    mark = "@" if name.startswith("@") else ""
    document = f"{mark}{nginx.url}/{name.removeprefix('@')}"
    done = run.batch(document, f"{tmp_path}/{{index}}.json", **choices)
    # `~` is no home in a URL: that is a file of the server, which is not there
    assert (done.ok, done.failed) == (1, len(afar)), done.failures
    messages = [failure["message"] for failure in done.failures]
    assert sum("--allow" in message for message in messages) == len(afar) - 1, messages
    assert other.asked == []
    allowed = run.batch(document, f"{tmp_path}/b{{index}}.json", allow=[f"http://127.0.0.1:{other.server_port}/"])
    assert [path for path, _ in other.asked][:1] == ["/a.tif"]
    assert allowed.ok + allowed.failed == done.ok + done.failed


def test_links_and_redirects_stay_afar(nginx, other, tmp_path):
    secret = nginx.files / "secret.json"
    secret.write_text(json.dumps(items([])))
    other.files["/doc.json"] = json.dumps(items([])).encode()
    there = f"http://127.0.0.1:{other.server_port}/doc.json"
    for link in (str(secret), f"file://{secret}", there, "memory://doc.json"):
        catalog = {"type": "Catalog", "links": [{"rel": "child", "href": link}]}
        (nginx.files / "catalog.json").write_text(json.dumps(catalog))
        with pytest.raises(UntrustedSourceError, match="--allow"):
            run.batch(f"{nginx.url}/catalog.json", f"{tmp_path}/{{id}}.json")
    assert other.asked == []
    catalog["links"][0]["href"] = there
    (nginx.files / "catalog.json").write_text(json.dumps(catalog))
    assert run.batch(f"{nginx.url}/catalog.json", f"{tmp_path}/{{id}}.json", allow=[there]).stopped is None
    other.redirects["/r.json"] = f"{nginx.url}/secret.json"
    catalog["links"][0]["href"] = "r.json"
    other.files["/catalog.json"] = json.dumps(catalog).encode()
    with pytest.raises(JnrrdzError, match="leads to a loopback address"):
        run.batch(there.replace("doc", "catalog"), f"{tmp_path}/{{id}}.json")


def test_a_list_from_afar_reads_no_other_list_here(nginx, tmp_path):
    (tmp_path / "own.txt").write_text("secret.tif")
    for line in (f"@{tmp_path}/own.txt", f"{tmp_path}/", f"{tmp_path}/*.txt", f"{tmp_path}/x.json"):
        (nginx.files / "list.txt").write_text(line)
        with pytest.raises(JnrrdzError, match="--allow"):
            run.batch(f"@{nginx.url}/list.txt", f"{tmp_path}/{{stem}}.json")


def test_lists_that_name_lists_come_to_an_end(other, nginx, tmp_path):
    (tmp_path / "own.txt").write_text(f"@{tmp_path}/own.txt")
    (nginx.files / "list.txt").write_text("@list.txt")
    for name in (f"@{tmp_path}/own.txt", f"@{nginx.url}/list.txt"):
        assert run.batch(name, f"{tmp_path}/{{stem}}.json").listed == 0
    for number in range(1500):
        other.files[f"/{number}"] = f"@{number + 1}".encode()
    with pytest.raises(JnrrdzError, match="more than 64 lists in lists"):
        run.batch(f"@http://127.0.0.1:{other.server_port}/0", f"{tmp_path}/{{stem}}.json")


def with_key(url):
    return {"headers": {"X-Api-Key": "k"}} if url.startswith("http") else None


def test_your_own_list_names_what_you_like(other, tmp_path):
    other.files["/a.tif"] = image(3)
    own = tmp_path / "a.tif"
    own.write_bytes(image(4))
    hrefs = [str(own), f"http://127.0.0.1:{other.server_port}/a.tif"]
    (tmp_path / "doc.json").write_text(json.dumps(items(hrefs)))
    (tmp_path / "list.txt").write_text("\n".join(hrefs))
    for named in (f"{tmp_path}/doc.json", f"@{tmp_path}/list.txt"):
        done = run.batch(
            named,
            f"{tmp_path}/{{index}}.json",
            overwrite=True,
            storage_options=with_key,
        )
        assert (done.ok, done.failed) == (2, 0), done.failures
    assert {key for _, key in other.asked} == {"k"}


def test_headers_stay_with_the_server_of_the_document(nginx, other, tmp_path):
    (nginx.files / "own.tif").write_bytes(image(1))
    other.files |= {"/a.tif": image(3), "/doc.json": json.dumps(items([f"{nginx.url}/own.tif", "a.tif"])).encode()}
    there = f"http://127.0.0.1:{other.server_port}"
    options = {"headers": {"X-Api-Key": "k"}}
    done = run.batch(
        f"{there}/doc.json", f"{tmp_path}/{{id}}.json", storage_options=options, allow=[f"{nginx.url}/own.tif"]
    )
    assert (done.ok, done.failed) == (2, 0), done.failures
    assert {key for _, key in other.asked} == {"k"}


def test_a_selection_without_a_batch_says_who_named_a_source(nginx):
    (nginx.files / "doc.json").write_text(json.dumps(items(["own.tif"])))
    (found,) = Selection([f"{nginx.url}/doc.json"]).found(lambda _: None)
    assert (found.named_by, found.nearness) == (f"{nginx.url}/doc.json", 3)
