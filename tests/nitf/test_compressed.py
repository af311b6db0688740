"""JPEG, facsimile, vector quantisation and JPEG 2000 in image segments, against decoders of their own."""

import json
import struct
import warnings
from importlib.metadata import distribution
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import rasterio
import zarr

import jnrrdz
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.nitf.blocks import PIECE, find_streams
from jnrrdz.formats.nitf.codecs import JbpJpegConfig
from jnrrdz.formats.nitf.decode import JpegDecoder
from tests.nitf.conftest import mask_bytes
from tests.readers import assert_identical, needs_openjp2

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def picture(rows, columns, bands=0, seed=0):
    """Return something smooth, so that JPEG does not mangle it."""
    y, x = np.mgrid[:rows, :columns]
    planes = [(x * (3 + band) + y * 2 + seed * 17) % 200 for band in range(bands or 1)]
    return np.stack(planes, axis=-1).astype(np.uint8) if bands else planes[0].astype(np.uint8)


def size(rows, columns, block, **more):
    header = {"NROWS": rows, "NCOLS": columns, "NPPBV": block[0], "NPPBH": block[1], "COMRAT": "00.0"}
    return header | {"NBPC": -(-rows // block[0]), "NBPR": -(-columns // block[1]), **more}


def test_streams_are_found_by_their_markers(make_nitf, open_nitf):
    parts = [picture(16, 24, seed=seed) for seed in range(4)]
    data = b"".join(imagecodecs.jpeg8_encode(part, level=95) for part in parts)
    path = make_nitf((data, size(32, 48, (16, 24), IC="C3")))
    found = open_nitf(path)["image_0/data"]
    with rasterio.open(path) as gdal:
        np.testing.assert_array_equal(found[...], gdal.read(1))
    assert found.chunks == (16, 24)


def test_a_missing_block_among_streams(make_nitf, make_mask, open_nitf):
    parts = [imagecodecs.jpeg8_encode(picture(16, 16, seed=seed)) for seed in range(3)]
    mask = make_mask([0, None, len(parts[0]), len(parts[0]) + len(parts[1])], pad=b"\x09")
    path = make_nitf((mask + b"".join(parts), size(32, 32, (16, 16), IC="M3")))
    found = open_nitf(path)["image_0/data"][...]
    assert (found[:16, 16:] == 9).all()
    for place, part in zip([np.s_[:16, :16], np.s_[16:, :16], np.s_[16:, 16:]], parts, strict=True):
        np.testing.assert_array_equal(found[place], imagecodecs.jpeg8_decode(part))


@pytest.mark.parametrize("mode", "BPS")
@pytest.mark.parametrize("masked", [False, True])
def test_bands_in_one_stream_or_in_a_stream_each(make_nitf, make_mask, open_nitf, mode, masked):
    parts = [picture(16, 16, 3, seed=seed) for seed in range(2)]
    if mode == "P":
        streams = [[imagecodecs.jpeg8_encode(part, colorspace="rgb", outcolorspace="ycbcr")] for part in parts]
    else:
        streams = [
            [imagecodecs.jpeg8_encode(np.ascontiguousarray(part[..., band])) for band in range(3)] for part in parts
        ]
    if mode == "S":
        streams = [[block[band]] for band in range(3) for block in streams]
    data = b"".join(stream for block in streams for stream in block)
    if masked:
        lengths = [sum(map(len, block)) for block in streams]
        data = make_mask([sum(lengths[:number]) for number in range(len(streams))]) + data
    path = make_nitf((data, size(16, 32, (16, 16), IC="M3" if masked else "C3", IMODE=mode, NBANDS=3, IREP="RGB")))
    found = open_nitf(path)["image_0/data"][...]
    flat = [imagecodecs.jpeg8_decode(stream) for block in streams for stream in block]
    if mode == "P":
        expected = np.concatenate(flat, axis=1).transpose(2, 0, 1)
    else:
        order = [flat[band::3] for band in range(3)] if mode == "B" else [flat[2 * band :][:2] for band in range(3)]
        expected = np.stack([np.concatenate(blocks, axis=1) for blocks in order])
    np.testing.assert_array_equal(found, expected)


def without_markers(stream, numbers):
    """Return a JPEG of three components without JFIF and Adobe segments, its components numbered anew."""
    data, at = bytearray(stream[:2]), 2
    while stream[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(stream[at + 2 : at + 4], "big")
        segment = bytearray(stream[at:end])
        if stream[at + 1] == 0xC0:
            segment[10::3] = bytes(numbers)
        if stream[at + 1] not in {0xE0, 0xEE}:
            data += segment
        at = end
    scan = bytearray(stream[at:])
    scan[5:11:2] = bytes(numbers)
    return bytes(data + scan)


def nitf_segment(colour):
    """Return the APP6 segment of MIL-STD-188-198A for a stream of RGB (1) or YCbCr601 (2)."""
    content = b"NITF\0" + bytes([2, 0]) + b"P" + bytes([0, 1, 0, 1, 1, 8, 0, 1, 0, colour, 8, 1, 1, 0, 0])
    return b"\xff\xe6" + struct.pack(">H", len(content) + 2) + content


@pytest.mark.parametrize(
    "case",
    [
        ("RGB", None, True),
        ("MULTI", None, True),
        ("YCbCr601", None, False),
        ("YCbCr601", 1, True),
        ("RGB", 1, True),
        ("RGB", 2, False),
        ("RGB", 0, True),
    ],
)
@pytest.mark.parametrize("numbers", [(1, 2, 3), (0, 1, 2)])
def test_the_colours_of_a_stream(make_nitf, open_nitf, case, numbers):
    irep, app6, is_rgb = case
    image = picture(16, 32, 3)
    image[..., 2] //= 3
    colours = "rgb" if is_rgb else "ycbcr"
    whole = imagecodecs.jpeg8_encode(image, level=95, colorspace="rgb", outcolorspace=colours)
    bare = without_markers(whole, numbers)
    data = bare[:2] + (b"" if app6 is None else nitf_segment(app6)) + bare[2:]
    path = make_nitf((data, size(16, 32, (16, 32), IC="C3", IMODE="P", NBANDS=3, IREP=irep)))
    found = open_nitf(path)["image_0/data"][...]
    # with its markers libjpeg knows the colours
    np.testing.assert_array_equal(found, imagecodecs.jpeg8_decode(whole).transpose(2, 0, 1))
    with rasterio.open(path) as gdal:
        assert np.array_equal(gdal.read(), found) is not is_rgb  # GDAL asks neither IREP nor APP6


@pytest.mark.parametrize(("fill", "blocks"), [(1, 1), (2, 2), (3, 1), (100, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_fill_bytes_before_a_stream(make_nitf, open_nitf, fill, blocks, masked):
    parts = [picture(16, 16, seed=seed) for seed in range(blocks)]
    streams = [b"\xff" * fill + imagecodecs.jpeg8_encode(part) for part in parts]
    places = [sum(map(len, streams[:number])) for number in range(blocks)]
    data = (mask_bytes(places) if masked else b"") + b"".join(streams)
    path = make_nitf((data, size(16, 16 * blocks, (16, 16), IC="M3" if masked else "C3")))
    expected = np.concatenate([imagecodecs.jpeg8_decode(stream[fill:]) for stream in streams], axis=1)
    np.testing.assert_array_equal(open_nitf(path)["image_0/data"][...], expected)


@pytest.mark.parametrize("fill", [0, 2])
def test_a_stream_for_each_band_in_one_chunk(fill):
    streams = [imagecodecs.jpeg8_encode(picture(16, 24, seed=seed)) for seed in range(4)]
    decoder = JpegDecoder(JbpJpegConfig(), (4, 16, 24), np.dtype("u1"), 0)
    data = b"".join(b"\xff" * fill + stream for stream in streams)
    np.testing.assert_array_equal(decoder.decode(data), [imagecodecs.jpeg8_decode(stream) for stream in streams])
    with pytest.raises(jnrrdz.MalformedError, match="3 streams where 4 belong"):
        decoder.decode(b"".join(streams[:3]))
    with pytest.raises(jnrrdz.MalformedError, match="8 x 24 x 1 in a chunk of 16 x 24 x 1"):
        decoder.decode(b"".join([*streams[:3], imagecodecs.jpeg8_encode(picture(8, 24))]))


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_lossless_jpeg(make_nitf, open_nitf, bits):
    pixels = (np.random.default_rng(bits).integers(0, 1 << bits, (20, 30))).astype(np.uint8 if bits == 8 else np.uint16)
    data = imagecodecs.ljpeg_encode(pixels, bitspersample=bits)
    header = size(20, 30, (20, 30), IC="C5", NBPP=bits)
    np.testing.assert_array_equal(open_nitf(make_nitf((data, header)))["image_0/data"][...], pixels)


def test_a_stream_in_two_pieces_of_the_scan_for_markers():
    head = imagecodecs.jpeg8_encode(picture(16, 16))[:-2]
    data = head + bytes(PIECE - len(head) % PIECE - 1) + b"\xff\xd9" + b"\xff\xd8"  # FF D9 over a piece's end
    spans = find_streams(lambda start, stop: data[start:stop], 0, len(data), 1)
    assert [int(part[0]) for part in spans] == [0, len(data) - 2]


FAX = {
    "1D": "000135dd3a1d1d7a74ead00001f50bfb43ae43c3800135589d7a1d5a1d4d5800010d47687dd3ab4e00013543a70307000174e061d0"
    "ea10e0011d4018e50001354ffff8e9fc43a8000135569d3e3f3fbc4001e5687df1f85fe00001cf3e43bbbc0001f43ab578fc28dd58",
    "2DS": "0019aee9d0e8ebd3a756800423891d2820490e0940066ab13af43ab43a9ab0010889856929740810820a0033543a703070010f9744"
    "7412800c750063940009208fe7f38e53a082e00335569d3e3f3fbc40021610d245f23eedb001e79f21ddde0020ca1cab2af0811512ea",
}
"""Rows as libtiff writes them, black for 1: with one code dimension (and aligned ends of line), and with two."""

FAX_ROWS = """
    c940080921 011018502e 824050a010 0004616484 a7fffffc00 27fffffca2 47fffffc08 980c069828 849b00c0c1 02166c4060
    060c0bc380 01421b1190
"""


@pytest.mark.parametrize(("comrat", "data"), [("1D", FAX["1D"]), ("2DS", FAX["2DS"]), ("2DH", FAX["2DS"])])
def test_facsimile(make_nitf, open_nitf, comrat, data):
    rows = np.array([list(bytes.fromhex(row)) for row in FAX_ROWS.split()], np.uint8)
    header = size(12, 40, (12, 40), IC="C1", NBPP=1, PVTYPE="B") | {"COMRAT": comrat}
    found = open_nitf(make_nitf((bytes.fromhex(data), header)))["image_0/data"][...]
    np.testing.assert_array_equal(found, np.unpackbits(rows, axis=1))


def codebooks(seed=5):
    return np.random.default_rng(seed).integers(0, 256, (4, 4096, 4), dtype=np.uint8)


def vq_data(codes, books):
    """Return the tables and the codes as MIL-STD-2411 lays them out."""
    records = b"".join(struct.pack(">HIHHI", n + 1, 4096, 4, 8, 62 + n * 16384) for n in range(4))
    tables = struct.pack(">IIBHHH", 64, 64, 12, 1, 4, 0) + struct.pack(">IH", 6, 14) + records + books.tobytes()
    number = 0
    for code in codes.ravel().tolist():
        number = number << 12 | code
    return tables, number.to_bytes(codes.size * 12 // 8, "big")


def test_vector_quantisation(make_nitf, make_mask, open_nitf):
    books, random = codebooks(), np.random.default_rng(6)
    codes = random.integers(0, 4096, (2, 4, 8))
    tables, _ = vq_data(codes, books)
    parts = [vq_data(block, books)[1] for block in codes]
    mask = make_mask([0, None, len(parts[0]), None], pad=b"\x05")
    begin = int.from_bytes(mask[:4], "big") + len(tables)
    data = begin.to_bytes(4, "big") + mask[4:] + tables + b"".join(parts)
    found = open_nitf(make_nitf((data, size(32, 64, (16, 32), IC="M4"))))["image_0/data"][...]
    assert (found[:, 32:] == 5).all()
    for top, block in zip((0, 16), codes, strict=True):
        for row, column in np.ndindex(block.shape):
            kernel = books[:, block[row, column]]
            here = np.s_[top + row * 4 : top + row * 4 + 4, column * 4 : column * 4 + 4]
            np.testing.assert_array_equal(found[here], kernel)


@pytest.mark.parametrize("boxed", [False, True])
def test_jpeg_2000_bare_or_in_boxes(make_nitf, open_nitf, boxed):
    pixels = picture(64, 48, 3)
    data = imagecodecs.jpeg2k_encode(pixels, level=0, codecformat="JP2" if boxed else "J2K", reversible=True)
    path = make_nitf((data, size(64, 48, (64, 48), IC="C8", NBANDS=3, IREP="RGB")))
    group = open_nitf(path)
    found = group["image_0/0/data"]
    np.testing.assert_array_equal(found[...], pixels.transpose(2, 0, 1))
    assert group["image_0/1/data"].shape == (3, 32, 24)
    assert "data" in open_nitf(path, overviews=False)["image_0"]


GOLDEN = Path(__file__).parent.parent / "jpeg2000" / "golden"
SEVERAL_SIZES = {"subsampled": ((48, 64), {}), "ycc422_offset": ((45, 61), {"ABPP": 10, "NBPP": 16})}


@needs_openjp2
@pytest.mark.parametrize("overviews", [True, False])
@pytest.mark.parametrize("name", SEVERAL_SIZES)
def test_components_of_several_sizes_are_one_picture_as_in_jpeg_2000(make_nitf, open_nitf, name, overviews):
    shape, more = SEVERAL_SIZES[name]
    bare = jnrrdz.open_group(jnrrdz.scan(GOLDEN / f"{name}.j2k", overviews=overviews))
    data = (GOLDEN / f"{name}.j2k").read_bytes()
    path = make_nitf((data, size(*shape, shape, IC="C8", NBANDS=3, IREP="MULTI", **more)))
    image = open_nitf(path, overviews=overviews)["image_0"]
    assert sorted(image) == sorted(bare)
    arrays = [key for key in walk(bare) if key.endswith("data")]
    assert arrays == [key for key in walk(image) if key.endswith("data")]
    assert any(key.startswith("composite") for key in arrays)
    for key in arrays:
        assert_identical(image[key][...], bare[key][...])
    assert image.attrs["nitf"]["IC"] == "C8"
    with jnrrdz.open_dataset(path) as dataset:
        assert dataset["data"].shape == (3, *shape)


def walk(group):
    return sorted(key for key, _ in group.members(max_depth=None))


def test_a_codestream_of_another_size_is_refused(make_nitf, tmp_path):
    data = imagecodecs.jpeg2k_encode(picture(64, 48), level=0, codecformat="J2K")
    path = make_nitf((data, size(64, 64, (64, 64), IC="C8")))
    with pytest.raises(jnrrdz.MalformedError, match="64 x 48 pixels for 64 x 64"):
        jnrrdz.index(path, tmp_path / "refs.json")


def test_a_downsampled_image_fills_a_corner_of_its_block(make_nitf, open_nitf):
    """I1 stores fewer pixels than the header says: they are read as they are, and the rest is fill."""
    part = imagecodecs.jpeg8_encode(picture(14, 16))
    path = make_nitf((part, size(29, 31, (29, 31), IC="I1")))
    found = open_nitf(path)["image_0/data"]
    pixels = found[...]
    np.testing.assert_array_equal(pixels[:14, :16], imagecodecs.jpeg8_decode(part))
    assert not pixels[14:].any()
    assert found.attrs["stored_shape"] == [14, 16]


def test_other_jpeg_has_all_its_samples(make_nitf, open_nitf):
    path = make_nitf((imagecodecs.jpeg8_encode(picture(16, 16)), size(16, 16, (16, 16), IC="C3")))
    assert "stored_shape" not in open_nitf(path)["image_0/data"].attrs


@pytest.mark.parametrize("block", [(20, 22), (0, 0), (24, 32)])
def test_a_stream_larger_than_its_only_block_is_cut_off(make_nitf, open_nitf, block):
    part = imagecodecs.jpeg8_encode(picture(24, 24))
    header = size(20, 22, (20, 22), IC="C3") | {"NPPBV": block[0], "NPPBH": block[1]}
    path = make_nitf((part, header))
    found = open_nitf(path)["image_0/data"][...]
    np.testing.assert_array_equal(found, imagecodecs.jpeg8_decode(part)[:20, :22])
    with rasterio.open(path) as gdal:
        np.testing.assert_array_equal(found, gdal.read(1))


def test_a_stream_smaller_than_its_image_is_refused(make_nitf, tmp_path):
    """Nobody knows where its pixels belong; GDAL refuses it too."""
    path = make_nitf((imagecodecs.jpeg8_encode(picture(24, 24)), size(30, 30, (30, 30), IC="C3")))
    with pytest.raises(jnrrdz.MalformedError, match="24 x 24 pixels for an image of 30 x 30"):
        jnrrdz.index(path, tmp_path / "refs.json")


@pytest.mark.parametrize("side", [16, 24])
def test_a_stream_of_another_size_than_its_block_is_refused(make_nitf, open_nitf, side):
    streams = imagecodecs.jpeg8_encode(picture(20, 20)) + imagecodecs.jpeg8_encode(picture(side, side))
    found = open_nitf(make_nitf((streams, size(20, 40, (20, 20), IC="C3"))))["image_0/data"]
    with pytest.raises(jnrrdz.MalformedError, match=f"declare {side} x {side} x 1 in a chunk of 20 x 20 x 1"):
        found[...]


@pytest.mark.parametrize(("count", "names"), [(3, ["red", "green", "blue"]), (2, None), (4, None)])
def test_bands_of_a_codestream_have_the_headers_names_if_they_are_as_many(make_nitf, open_nitf, count, names):
    data = imagecodecs.jpeg2k_encode(picture(16, 16, 3), level=0, codecformat="J2K")
    bands = {f"IREPBAND{number + 1:05}": name for number, name in zip(range(count), "RGBM", strict=False)}
    path = make_nitf((data, size(16, 16, (16, 16), IC="C8", IREP="MULTI", NBANDS=count, **bands)))
    found = open_nitf(path, overviews=False)["image_0/data"]
    assert found.shape == (3, 16, 16)
    assert found.attrs.get("colorinterp") == names


def test_manifests_of_the_first_version_call_the_codec_jpeg(make_nitf, tmp_path):
    part = picture(16, 16)
    stream = imagecodecs.jpeg8_encode(part, level=95)
    source = make_nitf((stream, {"NROWS": 16, "NCOLS": 16, "IC": "C3", "COMRAT": "00.0"}))
    jnrrdz.index(source, tmp_path / "new.json")
    text = (tmp_path / "new.json").read_text()
    assert "jbp-jpeg" in text
    old = tmp_path / "old.json"
    old.write_text(text.replace("jbp-jpeg", "jpeg"))
    with warnings.catch_warnings():  # the copy was not written by this machine
        warnings.simplefilter("ignore", jnrrdz.UntrustedSourceWarning)
        for opened in (jnrrdz.open_group(str(old)), zarr.open_group(jnrrdz.open_store(str(old)), mode="r")):
            array = opened["image_0/data"]
            np.testing.assert_array_equal(array[:], imagecodecs.jpeg8_decode(stream))
            assert [codec.to_dict()["name"] for codec in array.metadata.codecs] == ["jbp-jpeg"]
        jnrrdz.convert(old, tmp_path / "renewed.json")
    assert "jbp-jpeg" in (tmp_path / "renewed.json").read_text()


def test_zarr_does_not_get_the_name_jpeg_from_us(tmp_path):
    points = distribution("jnrrdz").entry_points.select(group="zarr.codecs")
    assert "jpeg" not in points.names
    stranger = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8, 8],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "jpeg", "configuration": {"quality": 3}}],
        "fill_value": 0,
    }
    refs = {"zarr.json": stranger, "data/zarr.json": json.dumps(array)}
    (tmp_path / "theirs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    with pytest.raises(JnrrdzError, match="'jpeg' in"):
        jnrrdz.open_group(str(tmp_path / "theirs.json"))["data"]
