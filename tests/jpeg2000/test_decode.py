"""The codec `jpeg2000`: chunks of codestreams of every kind, against a decoder that is given the whole file."""

import base64
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from zarr.registry import get_codec_class

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000Config
from jnrrdz.formats.jpeg2000.codestream import parse_codestream
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder
from jnrrdz.formats.jpeg2000.markers import Marker, parse_siz
from jnrrdz.formats.jpeg2000.scan import codestream_array, level_count
from jnrrdz.formats.jpeg2000.windows import Windows
from tests.readers import needs_openjp2

GOLDEN = Path(__file__).parent / "golden"
REGULAR = ["tiles_tlm", "odd_tiles", "offset", "by_resolution", "by_resolution_plt", "by_layer", "lossy", "signed"]


def golden(name):
    return (GOLDEN / f"{name}.j2k").read_bytes()


def array_of(codestream, **choices):
    return codestream_array(Windows(codestream, None, "a", "never"), **choices)


def parsed(data):
    return parse_codestream(lambda start, stop: data[start:stop], 0, len(data))


def config_of(array):
    return Jpeg2000Config.from_json(array.codecs[0].configuration)


def decoder_of(array, config=None):
    return Jpeg2000Decoder(config or config_of(array), array.chunks, array.dtype, array.fill_value)


def bytes_of(data, array, chunk, *, span=False):
    ranges = [(offset, offset + length) for _, offset, length in array.refs.ranges(chunk)]
    if span:
        return data[min(start for start, _ in ranges) : max(stop for _, stop in ranges)]
    return b"".join(data[start:stop] for start, stop in ranges)


def assembled(data, array, **options):
    """All chunks put together by hand."""
    whole = np.zeros(array.shape, array.dtype)
    decoder, across = decoder_of(array), array.grid[-1]
    height, width = array.chunks[-2:]
    for chunk in range(array.refs.chunks):
        pixels = decoder.decode(bytes_of(data, array, chunk, **options))
        row, column = divmod(chunk, across)
        place = whole[..., row * height : (row + 1) * height, column * width : (column + 1) * width]
        place[...] = pixels[..., : place.shape[-2], : place.shape[-1]]
    return whole


def reference(data, level, shape):
    """OpenJPEG's reduction of the whole file; of a row or column too many it leaves zeros."""
    pixels = imagecodecs.jpeg2k_decode(data, skipres=level, planar=True)
    return pixels[..., : shape[-2], : shape[-1]]


@pytest.mark.parametrize("span", [False, True], ids=["ranges", "span"])
@pytest.mark.parametrize("name", REGULAR)
def test_every_level_is_the_decoders_own_reduction_of_the_whole(name, span):
    data = golden(name)
    codestream = parsed(data)
    levels = level_count(codestream, (0,))
    assert levels == codestream.levels + 1
    for level in range(levels):
        array = array_of(codestream, level=level)
        np.testing.assert_array_equal(assembled(data, array, span=span), reference(data, level, array.shape))


@needs_openjp2
def test_subsampled_components_are_arrays_of_their_own_size():
    import glymur  # noqa: PLC0415  of no use without the library

    path = GOLDEN / "subsampled.j2k"
    data = path.read_bytes()
    codestream = parsed(data)
    assert codestream.component_groups == [(0,), (1, 2)]
    for level in range(3):
        luma, *chroma = glymur.Jp2k(path).read_bands(rlevel=level)
        arrays = [array_of(codestream, level=level, components=names) for names in ((0,), (1, 2))]
        np.testing.assert_array_equal(assembled(data, arrays[0]), luma)
        np.testing.assert_array_equal(assembled(data, arrays[1]), np.stack(chroma))


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    from glymur.lib import openjp2 as library  # noqa: PLC0415  of no use to other tests

    monkeypatch.setattr(library, "OPENJP2", None)
    data = golden("subsampled")
    array = array_of(parsed(data), components=(0,))
    with pytest.raises(UnsupportedError, match="apt-get install libopenjp2-7"):
        decoder_of(array).decode(bytes_of(data, array, 0))


def test_without_glymur_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "glymur.lib", None)
    data = golden("subsampled")
    array = array_of(parsed(data), components=(0,))
    decoder = decoder_of(array)
    with pytest.raises(UnsupportedError, match=r"differ in precision.* need glymur.*pip install 'jnrrdz\[openjp2\]'"):
        decoder.decode(bytes_of(data, array, 0))
    regular = golden("odd_tiles")
    array = array_of(parsed(regular))
    assert decoder_of(array).decode(bytes_of(regular, array, 0)).any()


def uniform(step):
    """The same samples, one every `step` points of the grid."""
    data = golden("odd_tiles")
    siz = parse_siz(data[2 : 4 + int.from_bytes(data[4:6], "big")])
    axes = [replace(axis, stop=axis.stop * step, tile=axis.tile * step) for axis in (siz.x, siz.y)]
    scaled = replace(siz, x=axes[0], y=axes[1], components=(replace(siz.components[0], dx=step, dy=step),))
    return scaled.encode().join([data[:2], data[2 + len(siz.encode()) :]])


@pytest.mark.parametrize("step", [2, 3, 7])
def test_components_of_one_subsampling_need_no_library(step):
    """The same samples on a finer grid: imagecodecs refuses the whole, and reads its tiles."""
    data, plain = uniform(step), golden("odd_tiles")
    for level in range(4):
        array = array_of(parsed(data), level=level)
        np.testing.assert_array_equal(assembled(data, array), reference(plain, level, array.shape))


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2"])
def test_high_throughput_streams_are_exact_at_every_level(dtype):
    rows, columns = np.mgrid[:90, :130]
    pixels = ((rows * 7 + columns * columns // 5) % 200).astype(dtype)
    data = imagecodecs.htj2k_encode(pixels)
    codestream = parsed(data)
    assert codestream.bodies(Marker.CAP)
    np.testing.assert_array_equal(assembled(data, array_of(codestream)), pixels)
    for level in range(1, level_count(codestream, (0,))):
        array = array_of(codestream, level=level)
        np.testing.assert_array_equal(assembled(data, array), reference(data, level, array.shape))


@pytest.mark.parametrize("name", ["by_resolution", "by_resolution_plt"])
def test_a_level_refers_to_the_tile_parts_of_its_resolutions_only(name):
    data = golden(name)
    shares = [array_of(parsed(data), level=level).refs.nbytes_stored / len(data) for level in range(4)]
    assert shares[0] > 0.95
    assert shares[1] < 0.4
    assert shares[2] < 0.14
    assert shares[3] < 0.05


@pytest.mark.parametrize("name", ["by_resolution", "by_resolution_plt"])
def test_a_level_that_is_not_all_there_is_an_error_and_not_a_blur(name):
    """With the parts of the next coarser level alone, OpenJPEG would decode without a word."""
    data = golden(name)
    codestream = parsed(data)
    array, coarser = (array_of(codestream, level=level) for level in (1, 2))
    with pytest.raises(MalformedError, match=r"\d+ of \d+ packets of resolution level 1"):
        decoder_of(array).decode(bytes_of(data, coarser, 0))


def test_colours_come_in_place_of_indices():
    data = golden("odd_tiles")
    table = np.random.default_rng(0).integers(0, 256, (256, 3), dtype=np.uint8)
    array = array_of(parsed(data), palette=table.tobytes())
    indices = reference(data, 0, array.shape)
    np.testing.assert_array_equal(assembled(data, array), np.moveaxis(table[indices], -1, 0))
    few = array_of(parsed(data), palette=table[:9].tobytes())
    with pytest.raises(MalformedError, match="palette"):
        assembled(data, few)


def test_a_header_that_declares_more_than_the_chunk_is_refused_before_decoding():
    data = golden("odd_tiles")
    array = array_of(parsed(data))
    config = config_of(array)
    siz = parsed(data).siz
    large = replace(siz, x=replace(siz.x, stop=60000, tile=60000), y=replace(siz.y, stop=60000, tile=60000))
    header = config.main_header[:2] + large.encode() + config.main_header[2 + len(siz.encode()) :]
    tracemalloc.start()
    with pytest.raises(UnsupportedError, match="60000 x 60000"):
        decoder_of(array, replace(config, main_header=header))
    small = replace(siz, x=replace(siz.x, tile=60), y=replace(siz.y, tile=60))
    header = config.main_header[:2] + small.encode() + config.main_header[2 + len(siz.encode()) :]
    with pytest.raises(MalformedError, match=r"chunks of shape \(23, 30\)"):
        decoder_of(array, replace(config, main_header=header))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


SPOILED = {
    "cut": (lambda chunk: chunk[:-20], "are left in the chunk"),
    "no bytes": (lambda _: b"", "no tile-part"),
    "no SOT": (lambda chunk: b"\0" + chunk, "where a tile-part begins"),
    "more tile-parts than a byte counts": (lambda chunk: chunk * 256, "more than 255 tile-parts of tile 0"),
    "another tile": (lambda chunk: chunk[:4] + b"\0\xff" + chunk[6:], "tile 255, where there are 16"),
}


@pytest.mark.parametrize(("spoil", "words"), SPOILED.values(), ids=list(SPOILED))
def test_a_chunk_that_is_spoiled_is_an_error(spoil, words):
    data = golden("odd_tiles")
    array = array_of(parsed(data))
    with pytest.raises(MalformedError, match=words):
        decoder_of(array).decode(spoil(bytes_of(data, array, 0)))


def test_tiles_that_make_up_no_chunk_are_refused():
    data = golden("odd_tiles")
    array = array_of(parsed(data), level=1)
    start = int(array.refs.offset[0])
    first = data[start : start + int.from_bytes(data[start + 6 : start + 10], "big")]
    with pytest.raises(MalformedError, match="make up no chunk"):
        decoder_of(array).decode(first)


WRONG = [
    {},
    {"main_header": "no base64!"},
    {"main_header": ""},
    {"main_header": "AAAA", "resolution_level": 33},
    {"main_header": "AAAA", "resolution_level": True},
    {"main_header": "AAAA", "components": []},
    {"main_header": "AAAA", "components": [1, 1]},
    {"main_header": "AAAA", "components": [-1]},
    {"main_header": "AAAA", "tile_parts": [65535]},
    {"main_header": "AAAA", "palette": ""},
    {"main_header": "AAAA", "surplus": 1},
]


@pytest.mark.parametrize("configuration", WRONG, ids=str)
def test_codec_and_schema_refuse_the_same(configuration):
    entry = {"name": "jpeg2000", "configuration": configuration}
    with pytest.raises(MalformedError):
        get_codec_class("jpeg2000").from_dict(entry)
    assert not schema().is_valid(entry)


def schema():
    import json  # noqa: PLC0415  for this alone

    path = Path(__file__).parents[2] / "docs" / "codecs" / "jpeg2000" / "schema.json"
    return Draft202012Validator(json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("name", [*REGULAR, "subsampled"])
def test_what_is_emitted_validates_and_comes_back(name):
    codestream = parsed(golden(name))
    for names in codestream.component_groups:
        entry = array_of(codestream, level=1, components=names).codecs[0].to_json()
        assert schema().is_valid(entry)
        assert get_codec_class("jpeg2000").from_dict(entry).to_dict() == entry
        header = base64.b64decode(entry["configuration"]["main_header"])
        assert header.find(b"\xff\x55") < 0


def test_a_configuration_whose_header_is_none_is_refused():
    with pytest.raises(MalformedError, match="SOC and SIZ"):
        Jpeg2000Decoder(Jpeg2000Config(b"\xff\x4f\xff\x64\0\x02"), (1, 1), np.dtype("u1"), 0)
