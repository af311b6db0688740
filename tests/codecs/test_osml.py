"""Manifests of osml-imagery-io (golden/osml, made by it) read as tifffile and GDAL read their sources."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest
import rasterio
import tifffile
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import get_data_type_from_native_dtype
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.registry import get_codec_class
from zarr.storage import FsspecStore

from jnrrdz.api import open_group, open_store
from jnrrdz.codecs.adapter.osml import OsmlTiffTileCodec, OsmlUnreadCodec
from jnrrdz.codecs.osml import PREFIX, TIFF_TILE, UNREAD, OsmlTiffTile, adopted, adopted_documents, is_osml
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")  # the sources have no place

GOLDEN = Path(__file__).parent / "golden" / "osml"

LITTLE = [
    "u1_packbits_tiles",
    "u4_deflate_tiles",
    "five_deflate_tiles",
    "rgba_lzw_tiles",
    "u2_none_tiles",
    "u2_lzw_predictor2_tiles",
    "f4_deflate_predictor3_tiles",
    "f4_deflate_strips",
    "rgb2_none_tiles",
    "planar2_deflate_tiles",
    "rgb1_deflate_predictor2_tiles",
    "rgb1_lzw_predictor2_strips",
    "grey_jpeg_tiles",
    "ycbcr_jpeg_tiles",
    "ycbcr_jpeg_strips",
    "planar_jpeg_tiles",
    "pyramid",
]
ORDER_FREE = ["f4_deflate_predictor3_tiles_big", "ycbcr_jpeg_tiles_big"]
"""Big-endian sources whose tiles do not depend on it."""
NEED_ADOPTING = [
    "u2_none_strips",
    "u2_none_strips_big",
    "u2_none_tiles_big",
    "u2_lzw_predictor2_tiles_big",
    "f4_deflate_strips_big",
    "rgb2_none_tiles_big",
    "planar2_deflate_tiles_big",
]
REFUSED = {"block.ntf": "jbp-block", "jpeg.ntf": "jpeg", "scattered.j2k": "jpeg2000"}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Put the golden files into the working directory, against which stock fsspec resolves relative URLs."""
    place = tmp_path / "elsewhere"
    shutil.copytree(GOLDEN, place)
    monkeypatch.chdir(place)


def manifest(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def metadata(name, level=0):
    return json.loads(manifest(name)["refs"][f"{level}/data/zarr.json"])


def magic(name):
    return (GOLDEN / f"{name}.tif").read_bytes()[:4]


def opened(references, **options):
    """A manifest as zarr and fsspec alone open it, with jnrrdz's codecs registered."""
    system = fsspec.filesystem(
        "reference", fo=references, remote_protocol="file", asynchronous=True, skip_instance_cache=True, **options
    )
    return zarr.open_group(FsspecStore(system, read_only=True), mode="r", zarr_format=3)


def adopting(name):
    references = manifest(name)
    for key, value in references["refs"].items():
        if key.endswith("data/zarr.json"):
            references["refs"][key] = json.dumps(adopted(json.loads(value), magic(name)))
    return references


def by_gdal(name, level=0):
    with rasterio.open(GOLDEN / f"{name}.tif", **({"overview_level": level - 1} if level else {})) as dataset:
        return dataset.read()


def by_tifffile(name, level=0):
    with tifffile.TiffFile(GOLDEN / f"{name}.tif") as tif:
        page = tif.pages[level]
        pixels = page.asarray()
    if pixels.ndim == 2:
        return pixels[None]
    return pixels if page.planarconfig == 2 else np.moveaxis(pixels, -1, 0)


def same(found, expected):
    assert found.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("name", LITTLE + ORDER_FREE)
def test_pixels_through_zarr_and_fsspec_alone(name):
    same(opened(manifest(name))["0/data"][:], by_gdal(name))


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("name", LITTLE + ORDER_FREE + NEED_ADOPTING)
def test_pixels_when_adopted(name):
    array = opened(adopting(name))["0/data"]
    assert [codec["name"] for codec in array.metadata.to_dict()["codecs"]] == ["tiff-tile"]
    same(array[:], by_gdal(name))


@pytest.mark.parametrize("name", LITTLE + ORDER_FREE)
def test_pixels_through_jnrrdz(name):
    same(open_group(GOLDEN / f"{name}.json", allow=[str(GOLDEN)])["0/data"][:], by_gdal(name))


@pytest.mark.parametrize("name", LITTLE + ORDER_FREE + NEED_ADOPTING)
def test_pixels_through_jnrrdz_with_adopted_documents(name):
    store = open_store(GOLDEN / f"{name}.json", allow=[str(GOLDEN)])
    asked = []
    documents = adopted_documents(store.manifest.documents, lambda path: asked.append(path) or magic(name))
    assert asked[0] == "0/data"
    manifest = replace(store.manifest, documents=documents)
    group = zarr.open_group(type(store)(manifest, allow=[str(GOLDEN)]), mode="r", zarr_format=3)
    same(group["0/data"][:], by_gdal(name))


def test_documents_of_others_are_not_touched():
    documents = {"zarr.json": b'{"zarr_format":3,"node_type":"group","attributes":{"source":"x"}}', "a/zarr.json": b"?"}
    assert adopted_documents(documents, pytest.fail) is documents
    with pytest.raises(MalformedError, match="JSON"):
        adopted_documents({"zarr.json": b"?"}, pytest.fail)


# tifffile asks the JPEG decoder for RGB of a plane, which has one component
@pytest.mark.parametrize("name", sorted({*LITTLE, *ORDER_FREE, *NEED_ADOPTING} - {"planar_jpeg_tiles"}))
def test_tifffile_sees_what_gdal_sees(name):
    np.testing.assert_array_equal(by_tifffile(name), by_gdal(name))


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("level", [1, 2])
def test_overviews_are_levels(level):
    found = opened(manifest("pyramid"))[f"{level}/data"][:]
    same(found, by_gdal("pyramid", level))
    same(found, by_tifffile("pyramid", level))


def test_templates():
    references = manifest("templated")
    found = opened(references, template_overrides={"base": f"{GOLDEN}/"})["0/data"][:]
    same(found, by_gdal("u4_deflate_tiles"))


@pytest.mark.usefixtures("copy")
def test_one_window():
    found = opened(manifest("rgba_lzw_tiles"))["0/data"][1:3, 14:40, 30:34]
    same(found, by_gdal("rgba_lzw_tiles")[1:3, 14:40, 30:34])


@pytest.mark.usefixtures("copy")
def test_without_adopting_the_codec_is_little_endian_as_osml_means_it():
    swapped = by_gdal("rgb2_none_tiles_big").byteswap()
    same(opened(manifest("rgb2_none_tiles_big"))["0/data"][:], swapped)


@pytest.mark.parametrize(("source", "codec"), REFUSED.items())
@pytest.mark.parametrize("read", [ArrayV3Metadata.from_dict, lambda document: adopted(document, b"NITF")])
def test_other_codecs_are_refused_by_name(source, codec, read):
    with pytest.raises(UnsupportedError) as caught:
        read(metadata(Path(source).stem))
    assert f"{PREFIX}{codec} " in str(caught.value)


@pytest.mark.parametrize("name", [TIFF_TILE, *UNREAD])
def test_every_uri_is_registered(name):
    assert get_codec_class(name) is (OsmlTiffTileCodec if name == TIFF_TILE else OsmlUnreadCodec)


def test_a_scattered_reference_is_a_list_of_ranges():
    source = (GOLDEN / "scattered.j2k").read_bytes()
    for key, reference in manifest("scattered")["refs"].items():
        if key.startswith("0/data/c."):
            url, ranges = reference
            assert url == "scattered.j2k"
            assert len(ranges) == 2
            for offset, length in ranges:
                sot = source[offset : offset + 12]
                assert sot[:4] == b"\xff\x90\x00\x0a"
                assert int.from_bytes(sot[6:10], "big") == length


# The metadata


def test_adopting_changes_the_codecs_only():
    before = metadata("u2_lzw_predictor2_tiles_big")
    after = adopted(before, magic("u2_lzw_predictor2_tiles_big"))
    assert {**after, "codecs": before["codecs"]} == before
    configuration = after["codecs"][0]["configuration"]
    assert configuration["byte_order"] == "big"
    assert (configuration["image_width"], configuration["image_height"]) == (44, 40)
    assert configuration["compression"] == 5
    assert configuration["predictor"] == 2


@pytest.mark.parametrize("start", [b"NITF", b"\x89PNG", b"II", b""])
def test_a_bare_array_of_another_format_is_left_alone(start):
    before = metadata("u2_none_tiles")
    assert adopted(before, start) == before


def test_tiles_whose_source_is_no_tiff_are_refused():
    with pytest.raises(MalformedError, match="no TIFF"):
        adopted(metadata("u4_deflate_tiles"), b"NITF")


def test_the_root_tells_the_maker():
    root = json.loads(manifest("pyramid")["refs"]["zarr.json"])
    assert is_osml(root)
    attributes = root["attributes"]
    assert not is_osml({**root, "attributes": {**attributes, "jnrrdz": {}}})
    assert not is_osml({**root, "attributes": {name: attributes[name] for name in attributes if name != "source"}})
    assert not is_osml({"zarr_format": 3, "node_type": "group"})


TIFF_TAGS = st.integers(1, 0xFFFF)


@given(
    st.builds(
        OsmlTiffTile,
        *[TIFF_TAGS] * 9,
        jpeg_tables=st.none() | st.binary(max_size=50),
    )
)
def test_the_configuration_survives_json(tile):
    text = json.dumps(tile.to_json())
    assert OsmlTiffTile.from_json(json.loads(text)) == tile


@pytest.mark.parametrize("name", LITTLE)
def test_the_entry_in_zarr_json_survives(name):
    for entry in metadata(name)["codecs"]:
        if entry["name"] == TIFF_TILE:
            assert OsmlTiffTileCodec.from_dict(entry).to_dict() == entry


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"tile_width": 0}, MalformedError, "tile_width 0"),
        ({"compression": "8"}, MalformedError, "compression '8'"),
        ({"predictor": True}, MalformedError, "predictor True"),
        ({"photometric": -1}, MalformedError, "photometric -1"),
        ({"samples_per_pixel": 1 << 32}, MalformedError, "samples_per_pixel"),
        ({"jpeg_tables": "not base64"}, MalformedError, "jpeg_tables"),
        ({"jpeg_tables": 7}, MalformedError, "jpeg_tables"),
        ({"byte_order": "big"}, UnsupportedError, "byte_order"),
    ],
)
def test_configurations_that_are_refused(change, error, text):
    with pytest.raises(error) as caught:
        OsmlTiffTile.from_json(change)
    assert text in str(caught.value)
    assert TIFF_TILE in str(caught.value)


PLAIN = OsmlTiffTile(compression=8, tile_width=32, tile_height=16)


@pytest.mark.parametrize(
    ("tile", "dtype", "text"),
    [
        (replace(PLAIN, compression=50000), "u1", "compression 50000"),
        (replace(PLAIN, compression=4), "u1", "compression 4"),
        (replace(PLAIN, planar_config=2), "u1", "planar_config 2"),
        (replace(PLAIN, photometric=6, samples_per_pixel=3), "u1", "subsampling"),
        (replace(PLAIN, photometric=6, compression=7), "u1", "subsampling"),
        (PLAIN, "u2", "8 bits in format 1 for an array of uint16"),
        (PLAIN, "i1", "for an array of int8"),
        (replace(PLAIN, bits_per_sample=12), "u2", "12 bits"),
        (replace(PLAIN, bits_per_sample=32), "f4", "float32"),
        (replace(PLAIN, bits_per_sample=64, sample_format=6), "c8", "complex64"),
    ],
)
def test_tiles_that_are_refused(tile, dtype, text):
    with pytest.raises(UnsupportedError, match=text):
        tile.config((40, 40), np.dtype(dtype))


@pytest.mark.parametrize(
    ("tile", "photometric", "extra"),
    [
        (replace(PLAIN, photometric=2, samples_per_pixel=3), 2, ()),
        (replace(PLAIN, photometric=2, samples_per_pixel=5), 2, (0, 0)),
        (replace(PLAIN, photometric=1, samples_per_pixel=4), 1, (0, 0, 0)),
        (replace(PLAIN, photometric=5, samples_per_pixel=4), 5, ()),
        (replace(PLAIN, photometric=2, samples_per_pixel=1), 1, ()),
        (replace(PLAIN, photometric=3), 3, ()),
    ],
)
def test_extra_samples_are_what_the_colours_leave(tile, photometric, extra):
    config = tile.config((40, 40), np.dtype("u1"))
    assert (config.photometric, config.extra_samples) == (photometric, extra)


# The codec


def spec(shape, dtype="u4"):
    dtype = get_data_type_from_native_dtype(np.dtype(dtype))
    return ArraySpec(shape, dtype, 0, ArrayConfig.from_dict({}), default_buffer_prototype())


def codec_and_chunk(name, key="0/data/c.0.0.0"):
    url, offset, length = manifest(name)["refs"][key]
    entry = next(entry for entry in metadata(name)["codecs"] if entry["name"] == TIFF_TILE)
    data = (GOLDEN / url).read_bytes()[offset : offset + length]
    return OsmlTiffTileCodec.from_dict(entry).evolve_from_array_spec(spec((1, 40, 44))), data


def decoded(codec, data, chunk):
    return codec._decode_sync(chunk.prototype.buffer.from_bytes(data), chunk).to_bytes()  # noqa: SLF001


def test_a_codec_decodes_to_little_endian_bytes_band_by_band():
    codec, data = codec_and_chunk("rgb2_none_tiles")
    expected = by_gdal("rgb2_none_tiles")[:, :16, :32].astype("<u2").tobytes()
    assert decoded(codec, data, spec((3, 16, 32), "u2")) == expected


def test_a_short_strip_is_padded_also_after_a_pickle():
    codec, data = codec_and_chunk("f4_deflate_strips", "0/data/c.0.2.0")
    for same_codec in (codec, pickle.loads(pickle.dumps(codec))):
        strip = np.frombuffer(decoded(same_codec, data, spec((1, 16, 44), "f4")), "<f4").reshape(16, 44)
        np.testing.assert_array_equal(strip[:8], by_gdal("f4_deflate_strips")[0, 32:])
        assert not strip[8:].any()


@pytest.mark.parametrize("cut", [0, 1, 5, -1, -40])
def test_a_cut_chunk_is_an_error(cut):
    codec, data = codec_and_chunk("u4_deflate_tiles")
    with pytest.raises(JnrrdzError):
        decoded(codec, data[:cut], spec((1, 16, 32)))


def test_a_chunk_of_another_shape_is_an_error():
    codec, data = codec_and_chunk("u4_deflate_tiles")
    with pytest.raises(MalformedError, match="shape"):
        decoded(codec, data, spec((2, 16, 32)))


def test_nothing_is_encoded():
    codec, data = codec_and_chunk("u4_deflate_tiles")
    chunk = spec((1, 16, 32))
    with pytest.raises(UnsupportedError, match="reading"):
        codec._encode_sync(chunk.prototype.buffer.from_bytes(data), chunk)  # noqa: SLF001
