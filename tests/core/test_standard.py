"""Which chunks Zarr's own codecs say exactly, and what is told of the others."""

import json

import numpy as np
import pytest
import tifffile
import zarr

import jnrrdz
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.standard import (
    ANY,
    GDAL,
    JNRRDZ,
    ZARR,
    ZARR_WITH_JNRRDZ,
    is_own_inverse,
    of_all,
    transpositions,
    verdicts,
)

PIXELS = np.random.default_rng(0).integers(0, 200, (60, 48)).astype("u2")

REFUSED = {
    "a last strip of 12 rows": {"compression": "zlib", "rowsperstrip": 16},
    "predictor 2": {"compression": "zlib", "tile": (16, 16), "predictor": True},
    "TIFF compression 5": {"compression": "lzw", "tile": (16, 16)},
}


def codecs_of(path, **choices):
    (array,) = [array for _, array in jnrrdz.scan(path, **choices).arrays() if array.shape]
    return [codec.name for codec in array.codecs]


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_chain_of_zarrs_own_keeps_its_codec(tmp_path, reason):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, **REFUSED[reason])
    assert codecs_of(tmp_path / "a.tif") == ["tiff-tile"]
    with pytest.raises(jnrrdz.UnsupportedError, match=reason) as caught:
        jnrrdz.index(tmp_path / "a.tif", tmp_path / "a.json", codecs="standard")
    assert caught.value.field == "data"
    assert not (tmp_path / "a.json").exists()


def test_the_bits_of_bytes_in_reverse_order_are_not_plain(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, extratags=[(65000, "H", 1, 2, True)])
    data = (tmp_path / "a.tif").read_bytes()
    assert data.count(b"\xe8\xfd\3\0") == 1
    (tmp_path / "a.tif").write_bytes(data.replace(b"\xe8\xfd\3\0", b"\x0a\x01\3\0"))  # FillOrder
    assert codecs_of(tmp_path / "a.tif") == ["tiff-tile"]


def test_a_family_of_codecs_is_kept_on_demand(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, compression="zlib", tile=(16, 16))
    assert codecs_of(tmp_path / "a.tif") == ["bytes", "numcodecs.zlib"]
    assert codecs_of(tmp_path / "a.tif", codecs="standard") == ["bytes", "numcodecs.zlib"]
    assert codecs_of(tmp_path / "a.tif", codecs="proposal") == ["tiff-tile"]


def test_a_tile_that_is_stored_longer_is_cut_to_its_pixels(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS[:32], tile=(16, 48), metadata=None)
    data = bytearray((tmp_path / "a.tif").read_bytes())
    with tifffile.TiffFile(tmp_path / "a.tif") as tif:
        at = tif.pages[0].tags["TileByteCounts"].valueoffset
    assert int.from_bytes(data[at : at + 2], "little") == 16 * 48 * 2
    data[at : at + 2] = (16 * 48 * 2 + 10).to_bytes(2, "little")
    (tmp_path / "a.tif").write_bytes(data)
    assert codecs_of(tmp_path / "a.tif") == ["bytes"]
    np.testing.assert_array_equal(jnrrdz.open_group(str(tmp_path / "a.tif"))["data"][...], PIXELS[:32])


@pytest.mark.parametrize("scheme", ["zlib", "zstd"])
@pytest.mark.parametrize("rows", [15, 17])
def test_a_chunk_that_becomes_another_length_is_an_error(tmp_path, scheme, rows):
    """The strips of an image that is said to have fewer, or more, rows a strip."""
    tifffile.imwrite(tmp_path / "a.tif", PIXELS[:48], compression=scheme, rowsperstrip=16, metadata=None)
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "a.json")
    manifest = json.loads((tmp_path / "a.json").read_text())
    document = json.loads(manifest["refs"]["data/zarr.json"])
    document["shape"][0], document["chunk_grid"]["configuration"]["chunk_shape"][0] = 3 * rows, rows
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    manifest["refs"] |= {"zarr.json": json.dumps(root), "data/zarr.json": json.dumps(document)}
    (tmp_path / "a.json").write_text(json.dumps(manifest))
    with pytest.raises(jnrrdz.MalformedError):
        jnrrdz.open_group(str(tmp_path / "a.json"), allow=["*"])["data"][...]
    store = zarr.storage.FsspecStore.from_url(
        "reference://",
        storage_options={"fo": str(tmp_path / "a.json"), "remote_protocol": "file", "asynchronous": True},
    )
    with pytest.raises((ValueError, RuntimeError)):  # nor does zarr by itself make up pixels
        zarr.open_array(store, path="data", mode="r")[...]


CHUNKS = [
    ((3, 4, 5), (1, 2, 0)),
    ((3, 1, 5), (2, 0)),
    ((3, 4, 5), (1, 0, 2)),
    ((1, 3, 4, 5), (2, 3, 1)),
    ((1, 3, 1, 4, 5), (3, 4, 1)),
    ((1, 1, 3, 4, 5), (3, 4, 2)),
    ((3, 4, 5), (0, 1, 2)),
]


@pytest.mark.parametrize("for_gdal", [True, False])
@pytest.mark.parametrize(("chunk", "stored"), CHUNKS)
def test_transpositions_bring_a_chunk_into_its_stored_order(chunk, stored, for_gdal):
    pixels = np.arange(np.prod(chunk)).reshape(chunk)
    lone = [axis for axis in range(len(chunk)) if axis not in stored]
    expected = pixels.transpose([*lone, *stored]).ravel()
    orders = transpositions(chunk, stored, for_gdal=for_gdal)
    for order in orders:
        pixels = pixels.transpose(order)
    np.testing.assert_array_equal(pixels.ravel(), expected)
    assert not for_gdal or all(map(is_own_inverse, orders))
    assert for_gdal or len(orders) <= 1


def read_by(codecs, data_type="uint16", *, is_single=True):
    specs = [CodecSpec(name, {"order": order} if order else {}) for name, order in codecs]
    return {each.reader for each in verdicts(specs, data_type, is_single=is_single) if each.is_readable}


EVERYBODY = {JNRRDZ, ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL}


@pytest.mark.parametrize(
    ("codecs", "without"),
    [
        ([("bytes", None), ("zstd", None)], set()),
        ([("transpose", [1, 0, 2]), ("bytes", None)], set()),
        ([("transpose", [1, 2, 0]), ("bytes", None)], {GDAL}),
        ([("transpose", [1, 0, 2]), ("transpose", [0, 2, 1]), ("bytes", None)], {ANY}),
        ([("bytes", None), ("numcodecs.zlib", None)], {ANY, GDAL}),
        ([("tiff-tile", None)], {ZARR, ANY, GDAL}),
        ([("unheard-of", None)], EVERYBODY),
    ],
)
def test_who_reads_a_chain(codecs, without):
    assert read_by(codecs) == EVERYBODY - without


def test_who_reads_odd_types_and_several_ranges():
    plain = [("bytes", None)]
    assert read_by(plain, "complex64") == EVERYBODY - {ANY}
    assert read_by(plain, is_single=False) == {JNRRDZ, ZARR_WITH_JNRRDZ}


def test_the_first_array_that_is_not_read_is_named():
    plain, private = (verdicts([CodecSpec(name)], "uint8", is_single=True) for name in ("bytes", "tiff-tile"))
    found = {each.reader: each for each in of_all([("0/data", plain), ("1/data", private), ("2/data", private)])}
    assert found[JNRRDZ].to_json() == {"reader": "jnrrdz", "readable": True}
    assert found[GDAL].to_json() == {
        "reader": "GDAL",
        "readable": False,
        "array": "1/data",
        "reason": "the codec tiff-tile, which is not of the Zarr specification",
        "remedy": "jnrrdz serve gives it as plain Zarr",
    }


def test_merging_gives_no_advice_that_does_not_help(tmp_path):
    for name, predictor in (("a", False), ("b", True)):
        tifffile.imwrite(tmp_path / f"{name}.tif", PIXELS, compression="zlib", tile=(16, 16), predictor=predictor)
    with pytest.raises(jnrrdz.JnrrdzError, match="has the codecs tiff-tile in data, not bytes") as refused:
        jnrrdz.merge([tmp_path / "a.tif", tmp_path / "b.tif"], tmp_path / "m.json", concat_dim="t")
    assert "proposal" not in str(refused.value)
