"""Components of several sizes as one picture, against imagecodecs' RGB, glymur's components and opj_decompress."""

import os
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import xarray as xr

import jnrrdz
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE
from jnrrdz.formats.jpeg2000.codestream import parse_codestream
from jnrrdz.formats.jpeg2000.decode import Composite
from jnrrdz.formats.jpeg2000.grid import check_composite, is_sycc
from jnrrdz.formats.jpeg2000.markers import Axis, Component, Siz
from jnrrdz.formats.jpeg2000.scan import level_arrays, level_count
from jnrrdz.formats.jpeg2000.windows import Windows
from tests.readers import needs_openjp2

GOLDEN = Path(__file__).parent / "golden"
CORPUS = Path(os.environ.get("JNRRDZ_CORPUS", "/nowhere")).parent / "jpeg2000"
SYCC, SRGB = 18, 16
LEVELS = {"subsampled": 3, "ycc422_offset": 2}
"""Goldens, and of how many of their three levels there is a picture: the offset is odd at the third one."""


def box(kind, body):
    return struct.pack(">I4s", 8 + len(body), kind) + body


def jp2(name, space, *more):
    data = (GOLDEN / f"{name}.j2k").read_bytes()
    rows, columns, depth = {"subsampled": (48, 64, 8), "ycc422_offset": (45, 61, 10)}[name]
    ihdr = box(b"ihdr", struct.pack(">IIHBBBB", rows, columns, 3, depth - 1, 7, 0, 0))
    head = box(b"jp2h", ihdr + box(b"colr", struct.pack(">BBBI", 1, 0, 0, space)) + b"".join(more))
    return SIGNATURE + box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + head + box(b"jp2c", data)


@pytest.fixture
def opened(tmp_path):
    def opened(data, **options):
        (tmp_path / "a.jp2").write_bytes(data)
        jnrrdz.index(tmp_path / "a.jp2", tmp_path / "refs.json", overwrite=True, **options)
        return jnrrdz.open_group(tmp_path / "refs.json")

    return opened


@pytest.mark.parametrize("name", LEVELS)
def test_sycc_is_the_rgb_that_imagecodecs_shows_at_every_level(opened, name, monkeypatch):
    # for this no other library is needed
    monkeypatch.setattr("jnrrdz.formats.jpeg2000.decode.decode_components", None)
    data = jp2(name, SYCC)
    group = opened(data)["composite"]
    assert sorted(group.group_keys()) == [str(level) for level in range(LEVELS[name])]
    for level in range(LEVELS[name]):
        array = group[f"{level}/data"]
        np.testing.assert_array_equal(array[...], imagecodecs.jpeg2k_decode(data, planar=True, skipres=level))
        assert array.attrs["colorinterp"] == ["red", "green", "blue"]
        assert (array.attrs["color_space"], array.attrs["converted_from"]) == ("sRGB", "sYCC")
        assert array.attrs["upsampled_components"] == [1, 2]
        assert array.metadata.dimension_names == ("band", "y", "x")


def components(name, level):
    """What glymur reads, the coarse components repeated."""
    import glymur  # noqa: PLC0415  of no use without the library

    luma, *chroma = glymur.Jp2k(GOLDEN / f"{name}.j2k").read_bands(rlevel=level)
    steps = (2, 2) if name == "subsampled" else (1, 2)
    return [luma, *(np.kron(one, np.ones(steps, one.dtype))[: luma.shape[0], : luma.shape[1]] for one in chroma)]


@needs_openjp2
@pytest.mark.parametrize("name", LEVELS)
def test_sycc_is_converted_as_the_standard_has_it_at_every_level(opened, name):
    most = 255 if name == "subsampled" else 1023
    group = opened(jp2(name, SYCC))["composite"]
    for level in range(LEVELS[name]):
        luma, blue, red = (one.astype(np.int64) for one in components(name, level))
        blue, red = blue - (most + 1) // 2, red - (most + 1) // 2
        # products are cut off towards zero
        green = luma - np.trunc(0.344 * blue + 0.714 * red)
        expected = np.stack([luma + np.trunc(1.402 * red), green, luma + np.trunc(1.772 * blue)])
        np.testing.assert_array_equal(group[f"{level}/data"][...], np.clip(expected, 0, most))


CDEF = box(b"cdef", struct.pack(">H9H", 3, 0, 0, 1, 1, 0, 3, 2, 0, 2))
PLAIN = {"another space": (SRGB,), "channels in another order": (SYCC, CDEF), "bare": None}


@needs_openjp2
@pytest.mark.parametrize("boxes", PLAIN)
@pytest.mark.parametrize("name", LEVELS)
def test_what_no_box_calls_sycc_is_repeated_and_not_converted(opened, name, boxes):
    arguments = PLAIN[boxes]
    data = (GOLDEN / f"{name}.j2k").read_bytes() if arguments is None else jp2(name, *arguments)
    group = opened(data)["composite"]
    for level in range(LEVELS[name]):
        np.testing.assert_array_equal(group[f"{level}/data"][...], np.stack(components(name, level)))
        assert "converted_from" not in group[f"{level}/data"].attrs


def test_a_dataset_without_a_group_is_the_whole_picture(opened, tmp_path):
    opened(jp2("subsampled", SYCC))
    assert xr.open_dataset(tmp_path / "refs.json")["data"].shape == (3, 48, 64)
    names = list(xr.open_datatree(tmp_path / "refs.json").children)
    assert sorted(names) == ["component_0", "components_1_2", "composite"]


def test_without_overviews_the_picture_has_no_levels(opened):
    assert opened(jp2("subsampled", SYCC), overviews=False)["composite/data"].shape == (3, 48, 64)


def siz(*components, x=(0, 64, 0, 32), y=(0, 48, 0, 32)):
    return Siz(0, Axis(*x), Axis(*y), tuple(Component(8, False, dx, dy) for dx, dy in components))  # noqa: FBT003


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        (siz((2, 1), (1, 2)), 0, "every point"),
        (siz((1, 1), (3, 1)), 0, "every 3 points"),
        (siz((1, 1), (173, 247)), 0, "every 247 points"),
        (siz((1, 1), (2, 1), x=(1, 64, 0, 32)), 0, "from 1 in tiles of 32"),
        (siz((1, 1), (1, 2), y=(0, 48, 0, 31)), 0, "tiles of 31"),
        (siz((1, 1), (2, 2), x=(32, 64, 1, 33)), 0, "every 2th point"),
        (siz((1, 1), (2, 2), x=(4, 64, 0, 32)), 2, "every 8th point"),
        (siz((1, 1), (4, 1)), 4, "every 64th point"),
    ],
)
def test_pixels_whose_sample_is_in_doubt_are_refused(given, level, words):
    with pytest.raises(UnsupportedError, match=words):
        check_composite(given, level)


@pytest.mark.parametrize(
    ("given", "level"),
    [
        (siz((2, 2), (1, 1)), 3),
        (siz((1, 1), (4, 1)), 3),
        (siz((1, 1), (2, 1), y=(1, 48, 0, 31), x=(0, 61, 0, 61)), 0),
    ],
)
def test_what_is_certain_is_not_refused(given, level):
    assert given.components[check_composite(given, level)] == Component(8, False, 1, 1)  # noqa: FBT003


def test_only_what_every_reader_converts_is_sycc():
    picture = siz((1, 1), (2, 1), (2, 1)).components
    assert is_sycc(picture)
    assert not is_sycc(siz((1, 1), (4, 1), (4, 1)).components)
    assert not is_sycc(siz((1, 1), (2, 1), (2, 2)).components)
    assert not is_sycc((replace(picture[0], bits=7), *picture[1:]))
    assert not is_sycc((*picture[:2], replace(picture[2], signed=True)))
    assert not is_sycc(picture[:2])


def test_components_that_come_out_too_small_are_refused():
    composite = Composite(siz((1, 1), (2, 2)), 0, is_rgb=False)
    planes = [np.zeros((32, 32), np.int32), np.zeros((16, 15), np.int32)]
    with pytest.raises(MalformedError, match=r"\(16, 15\) samples where a tile has \(16, 16\)"):
        composite.joined(planes, (32, 32), np.dtype("u1"))


UPSAMPLED = [CORPUS / "imaging-nitf" / f"JitcJpeg2000_{name}.j2k" for name in ("p1_03", "p1_07")]
COMMAND = shutil.which("opj_decompress")


@needs_openjp2
@pytest.mark.skipif(not COMMAND, reason="opj_decompress is not installed: Debian's libopenjp2-tools")
@pytest.mark.parametrize("path", UPSAMPLED, ids=lambda path: path.stem)
def test_repeated_components_are_those_of_opj_decompress(opened, tmp_path, path):
    if not path.exists():
        pytest.skip("no corpus of JPEG 2000 beside JNRRDZ_CORPUS")
    arguments = ["-i", str(path), "-upsample", "-o", str(tmp_path / "o.pgx")]
    subprocess.run([COMMAND, *arguments], check=True, capture_output=True, timeout=60)
    group = opened(path.read_bytes(), overviews=False)
    planes = [pgx(one) for one in sorted(tmp_path.glob("o_*.pgx"))]
    np.testing.assert_array_equal(group["composite/data"][...], np.stack(planes))


def pgx(path):
    data = path.read_bytes()
    head = re.match(rb"PG ML \+ 8 (\d+) (\d+)\n", data)
    return np.frombuffer(data, "u1", offset=head.end()).reshape(int(head[2]), int(head[1]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sycc_to_rgb": True}, "sycc_to_rgb without upsample"),
        ({"upsample": True, "components": [0]}, "upsample is for all components"),
        ({"upsample": True, "palette": "AAAA"}, "upsample is for all components"),
        ({"upsample": 1}, "true or false is needed"),
        ({"components": [0, 1]}, "several sizes"),
    ],
)
def test_a_configuration_that_makes_no_picture_is_refused(opened, tmp_path, change, words):
    opened((GOLDEN / "subsampled.j2k").read_bytes(), overviews=False)
    text = (tmp_path / "refs.json").read_text()
    import json  # noqa: PLC0415  for this alone

    found = json.loads(text)
    for key in [key for key in found["refs"] if key.endswith("zarr.json")]:
        document = found["refs"][key]
        document = json.loads(document) if isinstance(document, str) else document
        for one in [document, *document.get("consolidated_metadata", {}).get("metadata", {}).values()]:
            if one["node_type"] == "array":
                configuration = one["codecs"][0]["configuration"]
                configuration.pop("upsample", None)
                configuration.update(change)
        found["refs"][key] = json.dumps(document)
    (tmp_path / "refs.json").write_text(json.dumps(found))
    with pytest.raises(JnrrdzError, match=words):
        jnrrdz.open_group(tmp_path / "refs.json")["composite/data"][...]


def test_the_georeference_of_a_component_spans_the_picture(opened):
    gml = (
        b'<gml:FeatureCollection xmlns:gml="http://www.opengis.net/gml"><gml:RectifiedGrid dimension="2">'
        b"<gml:limits><gml:GridEnvelope><gml:low>0 0</gml:low><gml:high>63 47</gml:high></gml:GridEnvelope>"
        b"</gml:limits>"
        b'<gml:origin><gml:Point srsName="urn:ogc:def:crs:EPSG::32633"><gml:pos>500005 4649995</gml:pos></gml:Point>'
        b"</gml:origin><gml:offsetVector>10 0</gml:offsetVector><gml:offsetVector>0 -10</gml:offsetVector>"
        b"</gml:RectifiedGrid></gml:FeatureCollection>"
    )
    data = jp2("subsampled", SYCC)
    group = opened(data + box(b"xml ", gml))
    boxes = {name: group[f"{name}/0"].attrs["spatial:bbox"] for name in ("composite", "component_0", "components_1_2")}
    assert boxes["composite"] == [500000, 4650000 - 480, 500640, 4650000]
    assert boxes["component_0"] == boxes["components_1_2"] == boxes["composite"]
    assert group["components_1_2/0"].attrs["spatial:transform"][0] == 20


def test_all_components_have_as_many_levels_as_the_one_that_has_the_fewest():
    data = (GOLDEN / "subsampled.j2k").read_bytes()
    found = parse_codestream(lambda start, stop: data[start:stop], 0, len(data))
    # a tile of which the coarse components have a sample at full resolution and at half of it, none at a quarter
    narrow = replace(found, siz=siz((1, 1), (2, 2), (2, 2), x=(2, 8, 0, 32), y=(0, 48, 0, 48)))
    windows = Windows(narrow, None, "a", "never")
    by_size = [level_arrays(windows, names) for names in narrow.component_groups]
    assert [level_count(narrow, names) for names in narrow.component_groups] == [3, 2]
    assert [[array.shape[-2:] for array in level] for level in zip(*by_size, strict=False)] == [
        [(48, 6), (24, 3)],
        [(24, 3), (12, 1)],
    ]
