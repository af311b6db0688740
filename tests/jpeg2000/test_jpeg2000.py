"""JPEG 2000 files from bytes to datasets: levels, georeference, colours, and what an index costs over HTTP."""

import struct
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.control import GroundControlPoint
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE
from tests import writers

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def index(tmp_path):
    def index(path, **options):
        jnrrdz.index(str(path), tmp_path / "refs.json", overwrite=True, **options)
        return jnrrdz.open_group(tmp_path / "refs.json")

    return index


@pytest.mark.parametrize("name", ["tiles_tlm", "odd_tiles", "offset", "by_resolution", "signed"])
def test_a_pyramid_reads_as_openjpeg_reduces_it(index, name):
    data = (GOLDEN / f"{name}.j2k").read_bytes()
    group = index(GOLDEN / f"{name}.j2k")
    for level, (path, one) in enumerate(sorted(group.groups())):
        assert path == str(level)
        expected = imagecodecs.jpeg2k_decode(data, skipres=level, planar=True)
        shape = one["data"].shape
        np.testing.assert_array_equal(one["data"][...], expected[..., : shape[-2], : shape[-1]])
    assert [entry["asset"] for entry in group.attrs["multiscales"]["layout"]] == sorted(dict(group.groups()))


@pytest.mark.parametrize("form", ["ranges", "span"])
def test_scattered_tile_parts_read_through_a_manifest(tmp_path, form):
    path = GOLDEN / "offset.j2k"
    jnrrdz.index(str(path), tmp_path / "refs.json", single_range=form == "span")
    expected = imagecodecs.jpeg2k_decode(path.read_bytes(), planar=True)
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "refs.json")["data"], expected)


def test_without_overviews_there_is_one_variable(index):
    group = index(GOLDEN / "odd_tiles.j2k", overviews=False)
    assert group["data"].shape == (75, 101)


def test_components_of_two_sizes_are_two_images(index):
    group = index(GOLDEN / "subsampled.j2k")
    shapes = {name: one["0/data"].shape for name, one in group.groups()}
    assert shapes == {"composite": (3, 48, 64), "component_0": (48, 64), "components_1_2": (2, 24, 32)}


def written(path, **options):
    """A JP2 of GDAL's, and its pixels."""
    pixels = np.add.outer(np.arange(60), np.arange(80)).astype("u1")
    lossless = {"QUALITY": "100", "REVERSIBLE": "YES"}
    writers.gdal_image(path, pixels, driver="JP2OpenJPEG", **lossless, **options)
    return pixels


BOXES = {"GeoJP2": {"GMLJP2": "NO"}, "GMLJP2": {"GeoJP2": "NO"}, "both": {}}
PLACES = {
    "metres": ("EPSG:32633", from_origin(500000, 4649776, 10, 20)),
    "degrees": ("EPSG:4326", from_origin(12.5, 48.25, 0.25, 0.125)),
    "north before east": ("EPSG:3035", from_origin(4000000, 3000000, 100, 100)),
}


@pytest.mark.parametrize("boxes", BOXES)
@pytest.mark.parametrize("place", PLACES)
def test_the_georeference_is_gdals(index, tmp_path, boxes, place):
    crs, transform = PLACES[place]
    pixels = written(tmp_path / "a.jp2", crs=crs, transform=transform, **BOXES[boxes])
    group = index(tmp_path / "a.jp2", overviews=False)
    with rasterio.open(tmp_path / "a.jp2") as file:
        assert group.attrs["spatial:transform"] == pytest.approx(list(file.transform)[:6], rel=1e-9)
        assert group.attrs["proj:code"] == file.crs.to_string() == crs
    np.testing.assert_array_equal(group["data"][...], pixels)
    assert group["data"].attrs["grid_mapping"] == "spatial_ref"


def test_the_georeference_of_a_level_spans_the_same_extent(index, tmp_path):
    crs, transform = PLACES["metres"]
    written(tmp_path / "a.jp2", crs=crs, transform=transform, RESOLUTIONS="3")
    group = index(tmp_path / "a.jp2")
    boxes = [group[name].attrs["spatial:bbox"] for name in ("0", "1", "2")]
    assert boxes[0] == boxes[1] == boxes[2]


def test_control_points_are_gdals(index, tmp_path):
    points = [
        GroundControlPoint(row=5.5, col=7.25, x=10, y=20, z=3),
        GroundControlPoint(row=50, col=70, x=11, y=19, z=1),
    ]
    points += [GroundControlPoint(row=1, col=60, x=12, y=18, z=0)]
    written(tmp_path / "a.jp2", crs="EPSG:4326", gcps=points)
    group = index(tmp_path / "a.jp2", overviews=False)
    with rasterio.open(tmp_path / "a.jp2") as file:
        expected = [(point.col, point.row, point.x, point.y) for point in file.gcps[0]]
    features = jnrrdz_features(group["spatial_ref"].attrs["gcps"])
    assert len(expected) == 3
    assert features == expected


def jnrrdz_features(text):
    import json  # noqa: PLC0415  for this alone

    found = json.loads(text)["features"]
    return [(one["properties"]["col"], one["properties"]["row"], *one["geometry"]["coordinates"][:2]) for one in found]


def box(kind, body):
    return struct.pack(">I4s", 8 + len(body), kind) + body


def jp2(*inside, codestream="odd_tiles"):
    """A JP2 file around a golden codestream, with some boxes in its header."""
    ihdr = box(b"ihdr", struct.pack(">IIHBBBB", 75, 101, 1, 7, 7, 0, 0))
    head = SIGNATURE + box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + box(b"jp2h", ihdr + b"".join(inside))
    return head + box(b"jp2c", (GOLDEN / f"{codestream}.j2k").read_bytes())


TABLE = np.random.default_rng(0).integers(0, 256, (256, 3), dtype=np.uint8)
PCLR = box(b"pclr", struct.pack(">HB", 256, 3) + bytes([7, 7, 7]) + TABLE.tobytes())
CMAP = box(b"cmap", b"".join(struct.pack(">HBB", 0, 1, column) for column in range(3)))
COLR = box(b"colr", struct.pack(">BBBI", 1, 0, 0, 16))


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_palette_is_an_attribute_or_the_colours_themselves(index, tmp_path):
    path = tmp_path / "a.jp2"
    path.write_bytes(jp2(COLR, PCLR, CMAP))
    plain = index(path, overviews=False)["data"]
    assert plain.attrs["colorinterp"] == ["palette"]
    with rasterio.open(path) as file:
        expected = [list(colour) for _, colour in sorted(file.colormap(1).items())]
    assert plain.attrs["color_table"] == expected
    colours = index(path, overviews=False, expand_palette=True)["data"]
    np.testing.assert_array_equal(TABLE[plain[...]], np.moveaxis(colours[...], 0, -1))
    assert colours.attrs["colorinterp"] == ["red", "green", "blue"]


def test_resolution_comments_and_colour_space_are_attributes(index, tmp_path):
    grey = box(b"colr", struct.pack(">BBBI", 1, 0, 0, 17))
    res = box(b"res ", box(b"resc", struct.pack(">HHHHbb", 300, 1, 150, 1, 1, 2)))
    (tmp_path / "a.jp2").write_bytes(jp2(grey, res))
    group = index(tmp_path / "a.jp2", overviews=False)
    assert group.attrs["capture_resolution"] == {"y": 3000.0, "x": 15000.0, "unit": "samples per metre"}
    assert group["data"].attrs["color_space"] == "greyscale"
    assert group["data"].attrs["colorinterp"] == ["gray"]
    assert any("OpenJPEG" in text for text in group.attrs["comments"])


def test_a_palette_that_is_broken_costs_no_pixel(index, tmp_path):
    (tmp_path / "a.jp2").write_bytes(jp2(COLR, box(b"pclr", b"\xff\xff\x03")))
    with pytest.warns(UserWarning, match="pclr"):
        group = index(tmp_path / "a.jp2", overviews=False)
    assert "pclr" in group.attrs["metadata_refused"][0]
    assert group["data"].shape == (75, 101)


def test_several_codestreams_are_several_images(index, tmp_path):
    whole = jp2() + box(b"jp2c", (GOLDEN / "signed.j2k").read_bytes())
    (tmp_path / "a.jpx").write_bytes(whole)
    group = index(tmp_path / "a.jpx", overviews=False)
    assert {name: one["data"].shape for name, one in group.groups()} == {"image_0": (75, 101), "image_1": (48, 64)}


def test_an_index_over_http_takes_two_requests_with_a_list(http_server, tmp_path):
    data = (GOLDEN / "by_resolution.j2k").read_bytes()
    # tile-parts as long as those of large images: what they hold is not looked at
    head = data.find(b"\xff\x90\0\x0a")
    at = data.find(b"\xff\x55")
    entries = (int.from_bytes(data[at + 2 : at + 4], "big") - 4) // 5
    listed, parts, position = bytearray(data[at + 6 : at + 6 + 5 * entries]), b"", head
    for entry in range(entries):
        tile, length = struct.unpack_from(">BI", listed, 5 * entry)
        part = bytearray(data[position : position + length]) + bytes(100_000)
        part[6:10] = struct.pack(">I", len(part))
        struct.pack_into(">BI", listed, 5 * entry, tile, len(part))
        parts, position = parts + bytes(part), position + length
    http_server.files["/a.j2k"] = data[: at + 6] + bytes(listed) + data[at + 6 + 5 * entries : head] + parts + data[-2:]
    jnrrdz.index(f"{http_server.url}/a.j2k", tmp_path / "refs.json")
    assert (len(http_server.log), http_server.body_bytes <= 64 << 10) == (2, True)


def test_a_bomb_is_refused_by_its_header(index, tmp_path):
    data = bytearray((GOLDEN / "odd_tiles.j2k").read_bytes())
    for at in (8, 12, 24, 28):
        data[at : at + 4] = struct.pack(">I", 60000)
    (tmp_path / "a.j2k").write_bytes(
        data[: data.find(b"\xff\x90\0\x0a")] + b"\xff\x90\0\x0a\0\0\0\0\0\x0e\0\1\xff\x93\xff\xd9"
    )
    with pytest.raises(jnrrdz.UnsupportedError, match="60000 x 60000"):
        index(tmp_path / "a.j2k")
