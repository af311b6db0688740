"""Errors say where: in chains of several codecs too, and before a source is harmed."""

import numpy as np
import pytest
import rasterio

import jnrrdz
from tests import writers


def scaled(path):
    pixels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    writers.geotiff(path, pixels, compress="deflate", transform=writers.PLACE["transform"])
    with rasterio.open(path, "r+") as target:
        target.scales, target.offsets = (0.1,), (5.0,)
    return path


@pytest.mark.parametrize("physical", [True, False])
def test_a_damaged_chunk_is_named_whatever_the_chain(tmp_path, physical):
    path = scaled(tmp_path / "a.tif")
    group = jnrrdz.open_group(path, physical=physical)
    store = group.store
    (_, offset, length), *_ = store.manifest.arrays["data"].lookup(0)
    data = bytearray(path.read_bytes())
    data[offset : offset + length] = bytes(length)
    path.write_bytes(data)
    with pytest.raises(jnrrdz.MalformedError) as caught:
        jnrrdz.open_group(path, physical=physical)["data"][...]
    text = str(caught.value)
    assert all(part in text for part in ("a.tif", "data/c/0/0", str(offset), "numcodecs.zlib")), text


def test_a_manifest_does_not_replace_its_source(tmp_path):
    path = scaled(tmp_path / "a.tif")
    before = path.read_bytes()
    with pytest.raises(jnrrdz.UnsupportedError, match="own source"):
        jnrrdz.index(path, path, overwrite=True)
    assert path.read_bytes() == before


def test_a_view_of_other_files_is_no_source():
    with pytest.raises(jnrrdz.UnsupportedError, match="name the file"):
        jnrrdz.scan("reference://refs.json")
