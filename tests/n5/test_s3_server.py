"""An N5 container on a real S3 server: listed, read through a manifest, indexed in place and cleared again."""

import json

import fsspec
import numpy as np
import pytest
import xarray as xr

import jnrrdz
from jnrrdz import api
from tests.servers.fixtures import bucket, seaweed

__all__ = ["bucket", "seaweed"]


@pytest.fixture
def container(seaweed, bucket, write_n5, tmp_path):
    values = np.random.default_rng(7).integers(1, 60000, (40, 30, 20), "u2")
    write_n5(tmp_path / "v.n5/raw/s0", values, (8, 8, 8))
    for file in sorted((tmp_path / "v.n5").rglob("*")):
        if file.is_file():
            seaweed.put(bucket, str(file.relative_to(tmp_path)), file.read_bytes())
    return f"s3://{bucket}/v.n5", values


@pytest.mark.parametrize("chain", [None, "offset"])
def test_read_through_a_manifest(seaweed, container, tmp_path, chain):
    url, values = container
    out = tmp_path / "r.json"
    done = jnrrdz.index(url, out, chain=chain, storage_options=seaweed.options())
    blocks = 5 * 4 * 3
    assert done.requests == 2 + blocks  # a page, the metadata, and every header, which is what allows for skipping it
    references = json.loads(out.read_text())["refs"]
    assert len([key for key in references if "/c/" in key]) == blocks
    array = jnrrdz.open_group(out, source_options=seaweed.options(), allow=[url])["raw/s0/data"]
    names = [codec["name"] for codec in array.metadata.to_dict()["codecs"]]
    assert names == ["bytes", *names[1:2], *(["offset"] if chain else [])]
    np.testing.assert_array_equal(array[...], values.T)


def test_in_place_and_back(seaweed, container, bucket):
    url, values = container
    before = seaweed.keys(bucket)
    api.index_in_place(url, storage_options=seaweed.options())
    assert set(seaweed.keys(bucket)) - set(before) == {f"v.n5/{key}zarr.json" for key in ("", "raw/", "raw/s0/")}
    found = xr.open_dataset(url, engine="zarr", group="raw", storage_options=seaweed.options(), consolidated=True)
    np.testing.assert_array_equal(found["s0"].transpose("x", "y", "z").values, values)
    fsspec.filesystem("s3", **seaweed.options()).invalidate_cache()
    assert len(api.remove_in_place(url, storage_options=seaweed.options())) == 3
    assert seaweed.keys(bucket) == before
