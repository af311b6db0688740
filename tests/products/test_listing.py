"""Products in folders and buckets: found whole, unless a pattern asks for files."""

import fsspec
import jnrrdz
import pytest
import xarray as xr
from jnrrdz.batches.selection import NameKind, Selection, kind_of
from tests.products.writers import LANDSAT_7, LANDSAT_8, SAFE, SAFE_1C

NAMES = {LANDSAT_7, LANDSAT_8, SAFE, SAFE_1C}


def found(*sources, **options):
    selection = Selection([str(source) for source in sources], **options)
    return [each.url.rstrip("/") for each in selection.found(lambda _: None)]


def last(urls):
    return {url.rpartition("/")[2] for url in urls}


@pytest.fixture
def bucket(products):
    """Return a prefix of a store in memory with the same products."""
    store = fsspec.filesystem("memory")
    for path in products.rglob("*"):
        if path.is_file():
            place = f"/archive/{path.relative_to(products).as_posix()}"
            store.pipe_file(place, path.read_bytes())
    yield "memory://archive/"
    store.rm("/archive", recursive=True)


def test_products_of_a_folder_are_found_as_a_whole(products):
    assert last(found(products)) == NAMES


def test_products_of_a_bucket_are_found_as_a_whole(bucket):
    assert last(found(bucket)) == NAMES


def test_a_pattern_that_fits_a_product_finds_it(products, bucket):
    for root in (products, bucket.rstrip("/")):
        assert last(found(f"{root}/*.SAFE")) == {SAFE, SAFE_1C}
        assert last(found(f"{root}/**/L*_T2")) == {LANDSAT_8}


def test_a_pattern_of_files_finds_files(products, bucket):
    for root in (products, bucket.rstrip("/")):
        urls = found(f"{root}/**/*_B04_10m.jp2")
        assert [url.rpartition("_")[2] for url in urls] == ["10m.jp2"]
        assert len(found(f"{root}/**/*_QA_PIXEL.TIF")) == 2


def test_include_finds_files_or_products(products, bucket):
    for root in (products, bucket):
        assert len(found(root, include=["*_B04_10m.jp2"])) == 1
        assert last(found(root, include=["*.SAFE"])) == {SAFE, SAFE_1C}


def test_a_folder_of_another_name_is_a_product_by_its_document(products, tmp_path):
    folder = tmp_path / "archive" / "scene"
    folder.parent.mkdir()
    (products / LANDSAT_8).rename(folder)
    try:
        assert kind_of(str(folder)) is NameKind.SOURCE
        assert last(found(folder.parent)) == {"scene"}
    finally:
        folder.rename(products / LANDSAT_8)


@pytest.mark.parametrize(
    "name",
    [f"s3://bucket/a/{SAFE}/", f"s3://bucket/a/{SAFE}", f"s3://bucket/{LANDSAT_8}/"],
)
def test_a_remote_product_is_one_source(name):
    assert kind_of(name) is NameKind.SOURCE


def test_batch_makes_a_manifest_of_each_product(products, tmp_path):
    report = jnrrdz.batch([str(products)], f"{tmp_path}/{{stem}}.json", jobs=4)
    assert report.ok == 4
    stems = {name.removesuffix(".SAFE") for name in NAMES}
    assert {path.stem for path in tmp_path.glob("*.json")} == stems
    tree = xr.open_datatree(tmp_path / f"{SAFE.removesuffix('.SAFE')}.json")
    assert list(tree.children) == ["10m", "20m", "60m"]


def test_batch_of_a_bucket(bucket, tmp_path):
    report = jnrrdz.batch([bucket], f"{tmp_path}/{{path}}.json", processes=1)
    assert report.ok == 4
    manifest = tmp_path / f"{LANDSAT_8}.json"
    assert "SR_B4" in xr.open_dataset(manifest, group="30m").data_vars


def test_batch_resumes_products(products, tmp_path):
    out = f"{tmp_path}/{{stem}}.json"
    jnrrdz.batch([str(products)], out)
    report = jnrrdz.batch([str(products)], out, resume=True)
    assert report.skipped == 4
