"""Sources named by STAC: a collection whose items are links on a server, and a table of items."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jnrrdz.batches import run
from jnrrdz.batches.selection import Selection
from tests.batch.conftest import image

TIFF = "image/tiff; application=geotiff; profile=cloud-optimized"


def item(name: str, href: str) -> dict[str, object]:
    assets = {
        "visual": {"href": href, "type": TIFF, "roles": ["data"]},
        "thumbnail": {"href": "t.tif", "type": TIFF, "roles": ["thumbnail"]},
        "metadata": {"href": "m.xml", "type": "application/xml"},
    }
    return {"type": "Feature", "stac_version": "1.0.0", "id": name, "collection": "c", "assets": assets, "links": []}


def test_a_collection_on_a_server_is_followed_to_its_items(nginx, tmp_path):
    folder = nginx.files / "stac"
    (folder / "items").mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.tif").write_bytes(image(1))
        (folder / "items" / f"{name}.json").write_text(json.dumps(item(name, f"../{name}.tif")))
    links = [{"rel": "item", "href": f"./items/{name}.json"} for name in ("one", "two")]
    collection = {"type": "Collection", "stac_version": "1.0.0", "id": "c", "links": links}
    (folder / "collection.json").write_text(json.dumps(collection))
    done = run.batch(f"{nginx.url}/stac/collection.json", f"{tmp_path}/{{collection}}/{{id}}-{{asset}}.json")
    assert (done.ok, done.failed) == (2, 0)
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["one-visual.json", "two-visual.json"]
    assert f"{nginx.url}/stac/one.tif" in (tmp_path / "c" / "one-visual.json").read_text()


@pytest.mark.parametrize("as_text", [False, True])
def test_rows_of_a_table_are_items(tmp_path, as_text):
    rows = [item(name, f"{tmp_path}/{name}.tif") for name in ("one", "two")]
    for row in rows:
        (tmp_path / f"{row['id']}.tif").write_bytes(image(2))
    del rows[1]["assets"]["metadata"]  # a struct has its member all the same, null
    columns = {name: [row[name] for row in rows] for name in ("id", "collection", "assets")}
    if as_text:
        columns["assets"] = [json.dumps(assets) for assets in columns["assets"]]
    pq.write_table(pa.table(columns), tmp_path / "items.parquet")
    out = f"{tmp_path}/out/{{id}}-{{asset}}.json"
    done = run.batch((), out, selection=Selection([f"{tmp_path}/items.parquet"], assets=["visual"]))
    assert (done.ok, done.failed) == (2, 0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one-visual.json", "two-visual.json"]
