"""An array whose type has no room for a codec's samples is refused when it is opened, by whomever it is opened."""

import base64
import itertools
import json
import zlib

import imagecodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from jnrrdz.core.configuration import Samples
from jnrrdz.errors import JnrrdzError, MalformedError

TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TYPES += ["float16", "float32", "float64", "complex64", "complex128"]
SIDE = 8
OSML = "https://awslabs.github.io/osml-imagery-io/codecs/"


def extremes(dtype, bits=None):
    """Return pixels of a type that reach from its least to its largest value (of so many bits)."""
    kind = np.dtype(dtype).kind
    if kind in "fc":
        values = np.array([-1.5, 0.25, 1e4, -3.0], dtype)
        return np.tile(values + (2j * values if kind == "c" else 0), SIDE * SIDE // 4).reshape(SIDE, SIDE)
    bits = bits or np.dtype(dtype).itemsize * 8
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "i" else (0, (1 << bits) - 1)
    return np.resize(np.array([low, high, high // 2, high // 3], dtype), (SIDE, SIDE))


def tile(pixels, bits=None, **more):
    """Return a chunk of `tiff-tile`: raw bytes, or packed bits."""
    dtype = pixels.dtype
    form = {"u": 1, "i": 2, "f": 3, "c": 6}[dtype.kind]
    data = pixels.astype(dtype.newbyteorder("<")).tobytes() if bits is None else packed(pixels, bits)
    side = dict.fromkeys(("tile_width", "tile_height", "image_width", "image_height"), SIDE)
    members = {"bits_per_sample": [bits or dtype.itemsize * 8], "sample_format": [form], "byte_order": "little"}
    required = {"compression": 1, "photometric": 1, "samples_per_pixel": 1}
    return [{"name": "tiff-tile", "configuration": {**side, **required, **members, **more}}], data, pixels


def packed(pixels, bits):
    flags = (pixels.astype("u8").reshape(-1, 1) >> np.arange(bits - 1, -1, -1, dtype="u8")) & 1
    return np.packbits(flags.astype("u1")).tobytes()


def complex_integers(bits):
    half = np.dtype(f"<i{bits // 16}")
    parts = np.resize(np.array([-5, 7, np.iinfo(half).min, np.iinfo(half).max], half), (SIDE, 2 * SIDE))
    codecs, data, _ = tile(parts[:, ::2].astype("i2"), None, sample_format=[5], bits_per_sample=[bits])
    whole = parts.astype("f8")
    return codecs, parts.tobytes() if data else b"", whole[:, 0::2] + 1j * whole[:, 1::2]


def image_tile(pixels, compression, data, bits=None):
    """Return a chunk of `tiff-tile` that is an image file of its own."""
    codecs, _, _ = tile(pixels, None, compression=compression)
    codecs[0]["configuration"]["bits_per_sample"] = [bits or pixels.dtype.itemsize * 8]
    return codecs, data, pixels


def jpeg2000(pixels, bits=None, name="jpeg2000"):
    stream = bytes(imagecodecs.jpeg2k_encode(pixels, codecformat="J2K", reversible=True, bitspersample=bits))
    start = stream.index(b"\xff\x90\0\x0a")
    header = {"main_header": base64.b64encode(stream[:start]).decode(), "resolution_level": 0}
    codec = {"name": name, "configuration": header}
    return [codec] if name == "jpeg2000" else [little(8), codec], stream[start:-2], pixels


def little(bytes_of_a_sample):
    return {"name": "bytes", "configuration": {"endian": "little"} if bytes_of_a_sample > 1 else {}}


def block(pixel_type, dtype, **more):
    pixels = extremes(dtype)
    configuration = {"pixel_type": pixel_type, "bits_per_pixel": np.dtype(dtype).itemsize * 8, **more}
    return [{"name": "jbp-block", "configuration": configuration}], pixels.astype(f">{dtype}").tobytes(), pixels


def paired():
    codecs, data, _ = block("R", "f4", complex_pairs=True)
    return codecs, data * 2, extremes("f4") * (1 + 1j)


def osml_block():
    members = {"num_bands": 1, "block_height": SIDE, "block_width": SIDE, "nbpp": 16, "imode": "B", "pvtype": "INT"}
    pixels = extremes("u2")
    return [little(2), {"name": f"{OSML}jbp-block", "configuration": members}], pixels.astype(">u2").tobytes(), pixels


def osml_tile():
    sides = {"tile_width": SIDE, "tile_height": SIDE}
    members = {"compression": 1, "bits_per_sample": 16, "samples_per_pixel": 1, "photometric": 1, "planar_config": 1}
    configuration = {**members, **sides, "predictor": 1, "sample_format": 2, "jpeg_tables": None}
    pixels = extremes("i2")
    return [little(2), {"name": f"{OSML}tiff-tile", "configuration": configuration}], pixels.tobytes(), pixels


def jpeg(bits, name="jbp-jpeg"):
    pixels = np.resize(np.arange(1 << bits, dtype="u1" if bits == 8 else "u2"), (SIDE, SIDE))
    pixels[0, 0] = (1 << bits) - 1
    data = imagecodecs.jpeg8_encode(pixels, lossless=True, bitspersample=bits)
    return [{"name": name, "configuration": {}}], bytes(data), pixels


def vq():
    books = np.zeros((4, 4096, 4), "u1") + 255
    codecs = [{"name": "jnrrdz.nitf-vq", "configuration": {"codebooks": text(zlib.compress(books.tobytes()))}}]
    return codecs, bytes(6), np.full((SIDE, SIDE), 255, "u1")


def text(data):
    return base64.b64encode(data).decode()


def with_palette(made):
    codecs, data, pixels = made
    codecs[0]["configuration"]["palette"] = text(bytes(range(256)) * 3)
    colours = np.frombuffer(bytes(range(256)) * 3, "u1").reshape(-1, 3).T[:, pixels]
    return codecs, data, colours


WIDE = extremes("u4", 23)
FLOATS = extremes("f4")
OWN = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
CASES = {
    **{f"tiff-tile {dtype}": tile(extremes(dtype)) for dtype in OWN},
    **{f"tiff-tile {bits} bits": tile(extremes("u4", bits), bits) for bits in (1, 2, 4, 7, 12, 24)},
    "tiff-tile complex int16": complex_integers(32),
    "tiff-tile palette": with_palette(tile(extremes("u1"))),
    "tiff-tile 12 bits as JPEG": image_tile(jpeg(12)[2], 7, jpeg(12)[1], 12),
    "tiff-tile PNG": image_tile(extremes("u2"), 34933, bytes(imagecodecs.png_encode(extremes("u2")))),
    "tiff-tile JPEG XL": image_tile(FLOATS, 50002, bytes(imagecodecs.jpegxl_encode(FLOATS, lossless=True))),
    "tiff-tile LERC": image_tile(extremes("i4"), 34887, bytes(imagecodecs.lerc_encode(extremes("i4")))),
    "jpeg2000 uint8": jpeg2000(extremes("u1")),
    "jpeg2000 int16": jpeg2000(extremes("i2")),
    "jpeg2000 uint12": jpeg2000(extremes("u2", 12), 12),
    "jpeg2000 uint23": jpeg2000(WIDE, 23),
    "jpeg2000 palette": with_palette(jpeg2000(extremes("u1"))),
    "osml's jpeg2000 uint23": jpeg2000(WIDE, 23, f"{OSML}jpeg2000"),
    "osml's jbp-block": osml_block(),
    "osml's tiff-tile": osml_tile(),
    "jbp-block uint8": block("INT", "u1"),
    "jbp-block uint16": block("INT", "u2"),
    "jbp-block int32": block("SI", "i4"),
    "jbp-block float32": block("R", "f4"),
    "jbp-block complex64": block("C", "c8"),
    "jbp-block pairs": paired(),
    "jbp-block palette": with_palette(block("INT", "u1")),
    "jbp-jpeg 8 bits": jpeg(8),
    "jbp-jpeg 12 bits": jpeg(12),
    "jbp-jpeg palette": with_palette(jpeg(8)),
    "jnrrdz.nitf-vq": vq(),
}
AT_THE_CHUNK = {"jbp-jpeg 8 bits", "jbp-jpeg 12 bits"}
"""Configurations that do not say what the chunks hold."""


def opened(codecs, data, shape, dtype):
    """Return an array of one chunk, as zarr opens it."""
    chunks = {"name": "regular", "configuration": {"chunk_shape": shape}}
    fill = [0.0, 0.0] if dtype.startswith("complex") else False if dtype == "bool" else 0
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": chunks,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
    }
    as_buffer = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes
    store = MemoryStore(
        {
            "zarr.json": as_buffer(json.dumps({"zarr_format": 3, "node_type": "group"}).encode()),
            "data/zarr.json": as_buffer(json.dumps(document).encode()),
            f"data/c/{'/'.join('0' * len(shape))}": as_buffer(bytes(data)),
        }
    )
    return zarr.open_group(store, mode="r")["data"]


@pytest.mark.parametrize("case", CASES)
def test_every_type_reads_right_or_is_refused_when_it_is_opened(case):
    codecs, data, pixels = CASES[case]
    shape = (1, *pixels.shape) if OSML in str(codecs) else pixels.shape
    read = []
    for dtype in TYPES:
        try:
            array = opened(codecs, data, shape, dtype)
        except JnrrdzError as error:
            assert dtype in str(error)  # noqa: PT017 - it may be read, too
            assert any(word in str(error) for word in ("samples of ", "bits in format"))  # noqa: PT017
            continue
        try:
            found = array[...]
        except JnrrdzError as error:
            assert case in AT_THE_CHUNK
            assert dtype in str(error)  # noqa: PT017
            continue
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.reshape(pixels.shape), pixels)
        read.append(dtype)
    # its own type is among them, and for numbers of few bits a wider one
    assert str(pixels.dtype) in read or f"uint{pixels.dtype.itemsize * 8}" in read


@pytest.mark.parametrize("dtype", ["float16", "complex64", "bool"])
def test_n5_has_no_such_type(dtype):
    inner = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "bytes", "configuration": {"endian": "big"}},
    ]
    codec = {"name": "n5_default", "configuration": {"codecs": inner}}
    with pytest.raises(JnrrdzError, match=dtype):
        opened([codec], b"", (SIDE, SIDE), dtype)


def test_tiles_of_a_jnrrd_need_a_byte_order():
    codec = {"name": "jnrrdz.tile", "configuration": {"axes": [[[SIDE, 0]], [[SIDE, 0]]]}}
    assert opened([codec], bytes(SIDE * SIDE), (SIDE, SIDE), "uint8")[0, 0] == 0
    with pytest.raises(JnrrdzError, match="no endian"):
        opened([codec], b"", (SIDE, SIDE), "uint16")


@pytest.mark.parametrize(
    ("image", "bits", "form"),
    [
        (imagecodecs.png_encode(extremes("u2")), 8, 1),
        (imagecodecs.jpegxl_encode(extremes("u2"), lossless=True), 8, 1),
        (imagecodecs.jpegxl_encode(FLOATS, lossless=True), 16, 1),
        (imagecodecs.jpeg2k_encode(extremes("i2"), codecformat="J2K", reversible=True), 16, 1),
    ],
    ids=["PNG", "JPEG XL", "JPEG XL of floats", "JPEG 2000 with signs"],
)
def test_an_image_with_wider_samples_than_the_tags_say(image, bits, form):
    scheme = {b"\x89PNG": 34933, b"\xff\x4f\xff\x51": 34712}.get(bytes(image[:4]), 50002)
    pixels = np.zeros((SIDE, SIDE), f"u{bits // 8}")
    codecs, data, _ = image_tile(pixels, scheme, bytes(image))
    codecs[0]["configuration"]["sample_format"] = [form]
    with pytest.raises(MalformedError, match=f"for an array of uint{bits}"):
        opened(codecs, data, (SIDE, SIDE), f"uint{bits}")[...]


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(1, 64), st.data())
def test_what_fits_survives_and_comes_back(stored, dtype, bits, data):
    """The rule itself, against numpy's conversion there and back of the largest numbers and others."""
    stored, dtype = np.dtype(stored), np.dtype(dtype)
    if stored.kind not in "ui":
        samples, values = (
            Samples.of(stored),
            extremes(stored).ravel() if stored.kind in "fc" else np.array([False, True]),
        )
    else:
        bits = min(bits, stored.itemsize * 8)
        samples = Samples(stored.kind, bits)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if stored.kind == "i" else (0, (1 << bits) - 1)
        values = np.array([low, high, data.draw(st.integers(low, high))], stored)
    if samples.fit(dtype):
        with np.errstate(all="ignore"):
            back = values.astype(dtype)
        assert [complex(a) if dtype.kind == "c" else a.item() for a in back] == [v.item() for v in values]


@pytest.mark.parametrize("kind", "uif")
def test_types_of_one_kind_fit_wider_ones(kind):
    types = [np.dtype(f"{kind}{size}") for size in (1, 2, 4, 8) if (kind, size) != ("f", 1)]
    for (i, narrow), (j, wide) in itertools.product(enumerate(types), repeat=2):
        assert Samples.of(narrow).fit(wide) == (i <= j)
