"""Manifests of osml-imagery-io (golden/osml, made by it) read as tifffile and GDAL read their sources."""

import base64
import io
import json
import pickle
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import fsspec
import imagecodecs
import numcodecs
import numpy as np
import pytest
import rasterio
import tifffile
import zarr
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import get_data_type_from_native_dtype
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.registry import get_codec_class
from zarr.storage import FsspecStore

from jnrrdz.api import open_group, open_store
from jnrrdz.codecs.osml import (
    MAKERS,
    TIFF_TILE,
    UNREAD,
    OsmlBlocksCodec,
    OsmlTiffTile,
    OsmlTiffTileCodec,
    OsmlUnreadCodec,
    adopted,
    adopted_documents,
)
from jnrrdz.core.codecs import OSML
from jnrrdz.core.zarr_json import is_osml
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.documents import Documents
from tests import writers
from tests.readers import assert_identical

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


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("name", LITTLE + ORDER_FREE)
def test_pixels_through_zarr_and_fsspec_alone(name):
    assert_identical(opened(manifest(name))["0/data"][:], by_gdal(name))


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("name", LITTLE + ORDER_FREE + NEED_ADOPTING)
def test_pixels_when_adopted(name):
    array = opened(adopting(name))["0/data"]
    assert [codec["name"] for codec in array.metadata.to_dict()["codecs"]] == ["tiff-tile"]
    assert_identical(array[:], by_gdal(name))


@pytest.mark.parametrize("name", LITTLE + ORDER_FREE)
def test_pixels_through_jnrrdz(name):
    assert_identical(open_group(GOLDEN / f"{name}.json", allow=[str(GOLDEN)])["0/data"][:], by_gdal(name))


@pytest.mark.parametrize("name", LITTLE + ORDER_FREE + NEED_ADOPTING)
def test_pixels_through_jnrrdz_with_adopted_documents(name):
    store = open_store(GOLDEN / f"{name}.json", allow=[str(GOLDEN)])
    asked = []
    documents = adopted_documents(store.manifest.documents, lambda path: asked.append(path) or magic(name))
    assert asked[0] == "0/data"
    manifest = replace(store.manifest, documents=Documents(documents))
    group = zarr.open_group(type(store)(manifest, allow=[str(GOLDEN)]), mode="r", zarr_format=3)
    assert_identical(group["0/data"][:], by_gdal(name))


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
    assert_identical(found, by_gdal("pyramid", level))
    assert_identical(found, by_tifffile("pyramid", level))


def test_templates():
    references = manifest("templated")
    found = opened(references, template_overrides={"base": f"{GOLDEN}/"})["0/data"][:]
    assert_identical(found, by_gdal("u4_deflate_tiles"))


@pytest.mark.usefixtures("copy")
def test_one_window():
    found = opened(manifest("rgba_lzw_tiles"))["0/data"][1:3, 14:40, 30:34]
    assert_identical(found, by_gdal("rgba_lzw_tiles")[1:3, 14:40, 30:34])


@pytest.mark.usefixtures("copy")
def test_without_adopting_the_codec_is_little_endian_as_osml_means_it():
    swapped = by_gdal("rgb2_none_tiles_big").byteswap()
    assert_identical(opened(manifest("rgb2_none_tiles_big"))["0/data"][:], swapped)


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("name", ["block", "jpeg", "scattered"])
@pytest.mark.parametrize("through", ["fsspec", "jnrrdz"])
def test_nitf_and_jpeg_2000(name, through):
    source = next(path for path in GOLDEN.glob(f"{name}.*") if path.suffix not in {".json", ".parquet"})
    with rasterio.open(source) as dataset:
        expected = dataset.read()
    if through == "jnrrdz":
        assert_identical(open_group(GOLDEN / f"{name}.json", allow=[str(GOLDEN)])["0/data"][:], expected)
    elif name != "scattered":  # stock fsspec knows no lists of ranges
        assert_identical(opened(manifest(name))["0/data"][:], expected)


def codec_of(name):
    return next(entry for entry in metadata(name)["codecs"] if entry["name"].startswith(OSML))


@pytest.mark.parametrize("name", ["block", "jpeg", "scattered"])
def test_the_codec_of_a_block_survives(name):
    codec = OsmlBlocksCodec.from_dict(codec_of(name))
    assert codec.to_dict() == codec_of(name)
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert hash(codec) == hash(OsmlBlocksCodec.from_dict(codec_of(name)))


@pytest.mark.parametrize(("mode", "axes"), [("B", "bhw"), ("P", "hwb"), ("R", "hbw")])
@pytest.mark.parametrize(("kind", "bits", "dtype"), [("INT", 16, ">u2"), ("SI", 32, ">i4"), ("R", 64, ">f8")])
def test_blocks_of_every_interleave(mode, axes, kind, bits, dtype):
    pixels = np.random.default_rng(1).integers(0, 999, (3, 4, 5)).astype(dtype)
    data = np.ascontiguousarray(pixels.transpose(["bhw".index(axis) for axis in axes])).tobytes()
    said = {"num_bands": 3, "block_height": 4, "block_width": 5, "nbpp": bits, "imode": mode, "pvtype": kind}
    codec = OsmlBlocksCodec.from_dict({"name": f"{OSML}jbp-block", "configuration": said})
    found = decoded(codec, data, spec((3, 4, 5), dtype[1:]))
    assert found == pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()


def test_a_tile_keeps_its_place_on_the_reference_grid(tmp_path):
    """A tile that begins at an odd place: moved to the origin, as osml-imagery-io does, it has other pixels."""
    pixels = np.random.default_rng(2).integers(0, 256, (74, 66), np.uint8)
    lossless = {"codec": "J2K", "quality": 100, "reversible": True, "blockxsize": 33, "blockysize": 37}
    path = writers.gdal_image(tmp_path / "tiles.j2k", pixels, driver="JP2OpenJPEG", **lossless)
    stream = path.read_bytes()
    begin = stream.index(b"\xff\x90\x00\x0a")
    said = {"main_header": base64.b64encode(stream[:begin]).decode(), "resolution_level": 0}
    codec = OsmlBlocksCodec.from_dict({"name": f"{OSML}jpeg2000", "configuration": said})
    found = {}
    while stream[begin : begin + 2] == b"\xff\x90":
        tile, length = struct.unpack_from(">HI", stream, begin + 4)
        found[tile] = found.get(tile, b"") + stream[begin : begin + length]
        begin += length
    assert sorted(found) == [0, 1, 2, 3]
    for tile, data in found.items():
        top, left = 37 * (tile // 2), 33 * (tile % 2)
        expected = np.ascontiguousarray(pixels[top : top + 37, left : left + 33]).tobytes()
        assert decoded(codec, data, spec((1, 37, 33), "u1")) == expected


@pytest.mark.parametrize(
    ("name", "change", "shape", "text"),
    [
        ("block", {"imode": "S"}, (3, 40, 44), "imode 'S'"),
        ("block", {"imode": ["B"]}, (3, 40, 44), "imode"),
        ("block", {"nbpp": 200}, (3, 40, 44), "bits_per_pixel"),
        ("block", {"more": 1}, (3, 40, 44), "more"),
        ("block", {"pvtype": "C", "nbpp": 8}, (3, 40, 44), "8 bits"),
        ("block", {}, (3, 40, 45), "blocks of"),
        ("block", {}, (40, 44), "bands, y, x"),
        ("jpeg", {"imode": "B"}, (3, 40, 44), "imode 'B'"),
        ("jpeg", {"color_space": "MONO"}, (3, 40, 44), "MONO"),
        ("scattered", {"main_header": "AAAA"}, (1, 32, 32), "SOC"),
        ("scattered", {}, (1, 1 << 20, 1 << 20), "chunks of shape"),
    ],
)
def test_blocks_that_are_refused(name, change, shape, text):
    entry = codec_of(name)
    codec = OsmlBlocksCodec.from_dict({**entry, "configuration": {**entry["configuration"], **change}})
    with pytest.raises(JnrrdzError, match=text):
        decoded(codec, b"", spec(shape, "u2" if name == "scattered" else "u1"))


@pytest.mark.parametrize("space", ["MONO", "RGB"])
@pytest.mark.parametrize("fill", [b"", b"\xff\xff"])
def test_a_chunk_of_a_jpeg_stream_for_each_band(space, fill):
    planes = scene_planes(4)
    streams = [fill + imagecodecs.jpeg8_encode(plane, level=90) for plane in planes]
    said = {"bits_per_pixel": 8, "num_bands": 4, "block_width": 44, "block_height": 40, "imode": "B"}
    codec = OsmlBlocksCodec.from_dict({"name": f"{OSML}jpeg", "configuration": {**said, "color_space": space}})
    found = decoded(codec, b"".join(streams), spec((4, 40, 44), "u1"))
    expected = np.stack([np.asarray(Image.open(io.BytesIO(stream.removeprefix(fill)))) for stream in streams])
    assert found == expected.tobytes()
    by_numcodecs = numcodecs.get_codec({"id": f"{OSML}jpeg", **said, "color_space": space})
    assert by_numcodecs.decode(b"".join(streams)).tobytes() == expected.tobytes()
    with pytest.raises(JnrrdzError):
        decoded(codec, b"".join(streams[:3]), spec((4, 40, 44), "u1"))


def scene_planes(count):
    rows, columns = np.mgrid[:40, :44]
    return [(rows * (2 + band) + columns * 3).astype("u1") for band in range(count)]


@pytest.mark.parametrize("read", [ArrayV3Metadata.from_dict, lambda document: adopted(document, b"")])
def test_other_codecs_are_refused_by_name(read):
    document = metadata("block")
    with pytest.raises(UnsupportedError) as caught:
        read({**document, "codecs": [document["codecs"][0], {"name": f"{OSML}dted", "configuration": {}}]})
    assert f"{OSML}dted " in str(caught.value)


@pytest.mark.parametrize("name", [TIFF_TILE, *MAKERS, *UNREAD])
def test_every_uri_is_registered(name):
    kinds = {TIFF_TILE: OsmlTiffTileCodec, **dict.fromkeys(MAKERS, OsmlBlocksCodec)}
    assert get_codec_class(name) is kinds.get(name, OsmlUnreadCodec)


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
    assert OsmlTiffTile.from_json(json.loads(text)["configuration"]) == tile


@pytest.mark.parametrize("name", LITTLE)
def test_the_entry_in_zarr_json_survives(name):
    for entry in metadata(name)["codecs"]:
        if entry["name"] == TIFF_TILE:
            assert OsmlTiffTileCodec.from_dict(entry).to_dict() == entry


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"tile_width": 0}, MalformedError, "tile_width: found 0"),
        ({"compression": "8"}, MalformedError, "compression: found '8'"),
        ({"predictor": True}, MalformedError, "predictor: found True"),
        ({"photometric": -1}, MalformedError, "photometric: found -1"),
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
    whole = spec((1, 40, 44), metadata(name)["data_type"])
    return OsmlTiffTileCodec.from_dict(entry).evolve_from_array_spec(whole), data


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
