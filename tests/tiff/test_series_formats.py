"""Files of microscopes and slide scanners: built here as their makers build them, read as tifffile reads them."""

import json
import struct
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
import xarray as xr

import jnrrdz
from jnrrdz.formats.tiff.series import axis_names, order_of
from jnrrdz.formats.tiff.structure import TiffLayout

GOLDEN = Path(__file__).parent / "golden"


def pattern(*shape, dtype="u2", seed=0):
    return np.random.default_rng(seed).integers(0, 60000 if dtype == "u2" else 250, shape).astype(dtype)


IMAGEJ = {
    "hyperstack": ((3, 4, 2, 20, 30), {"axes": "TZCYX"}, {}),
    "stack": ((6, 20, 30), {"axes": "ZYX"}, {}),
    "plane": ((20, 30), {"axes": "YX"}, {}),
    "colours": ((4, 20, 30, 3), {"axes": "ZYXS"}, {"dtype": "u1"}),
    "compressed": ((3, 2, 20, 30), {"axes": "ZCYX"}, {"compression": "zlib"}),
    "big-endian": ((3, 2, 20, 30), {"axes": "TCYX"}, {"byteorder": ">"}),
    "large planes": ((2, 900, 800), {"axes": "ZYX"}, {}),
}


@pytest.mark.parametrize("case", IMAGEJ)
def test_imagej(tmp_path, assert_like_tifffile, case):
    shape, metadata, options = IMAGEJ[case]
    options = dict(options)
    path = tmp_path / "a.tif"
    pixels = pattern(*shape, dtype=options.pop("dtype", "u2"))
    tifffile.imwrite(path, pixels, imagej=True, metadata=metadata, **options)
    found = jnrrdz.open_dataset(path)["data"]
    assert_like_tifffile(found, path)


def test_imagej_hyperstack_of_one_ifd(tmp_path, assert_like_tifffile):
    """Beyond 4 GB ImageJ writes one IFD and all planes behind it; here the same with less."""
    path, pixels = tmp_path / "a.tif", pattern(3, 2, 4, 20, 30)
    says = b"ImageJ=1.54f\nimages=24\nchannels=4\nslices=2\nframes=3\nhyperstack=true\nunit=micron\nspacing=2.5\n"
    tifffile.imwrite(path, pixels[0, 0, 0], description=says, metadata=None, byteorder=">", resolution=(4.0, 2.0))
    with tifffile.TiffFile(path) as tif:
        (start,) = tif.pages[0].dataoffsets
    data = path.read_bytes()[:start] + pixels.astype(">u2").tobytes()
    path.write_bytes(data)
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("t", "c", "z", "y", "x")
    np.testing.assert_array_equal(found.transpose("t", "z", "c", "y", "x"), pixels)
    assert_like_tifffile(found, path)
    path.write_bytes(data[:-10])
    with pytest.warns(UserWarning, match="imagej"):
        assert jnrrdz.scan(path).children["data"].shape == (20, 30)


def test_imagej_beyond_four_gigabytes(tmp_path):
    """A sparse file: only the last plane has bytes, beyond what 32 bits count."""
    path, planes = tmp_path / "a.tif", 600
    says = f"ImageJ=1.54f\nimages={planes}\nslices={planes}\n".encode()
    tifffile.imwrite(path, np.zeros((2048, 2048), "u2"), description=says, metadata=None, byteorder=">")
    with tifffile.TiffFile(path) as tif:
        (start,) = tif.pages[0].dataoffsets
    last = start + (planes - 1) * 2048 * 2048 * 2
    assert last > 1 << 32
    with path.open("r+b") as file:
        file.seek(last)
        file.write(np.full((2048, 2048), 7, ">u2").tobytes())
    array = jnrrdz.open_group(path)["data"]
    assert array.shape == (planes, 2048, 2048)
    assert array[planes - 1, 2040:, 2040:].tolist() == [[7] * 8] * 8
    assert array[planes - 2, 2047, 2047] == 0


def test_imagej_says_what_the_axes_measure(tmp_path):
    path = tmp_path / "a.tif"
    metadata = {"axes": "TZYX", "spacing": 2.5, "unit": "um", "finterval": 0.5}
    tifffile.imwrite(path, pattern(3, 4, 20, 30), imagej=True, metadata=metadata, resolution=(4.0, 2.0))
    group = jnrrdz.scan(path)
    (multiscale,) = group.attributes["ome"]["multiscales"]
    assert [axis.get("unit") for axis in multiscale["axes"]] == ["second", *["micrometer"] * 3]
    (level,) = multiscale["datasets"]
    assert level["coordinateTransformations"][0]["scale"] == [0.5, 2.5, 0.5, 0.25]


SHAPED = {
    "stack": ((5, 20, 30), {}, {}),
    "named": ((3, 4, 20, 30), {"axes": "TCYX"}, {}),
    "tiled": ((3, 4, 40, 30), {"axes": "CZYX"}, {"tile": (16, 16), "compression": "zlib"}),
    "colours": ((4, 20, 30, 3), {}, {"photometric": "rgb"}),
    "unnamed": ((3, 4, 5, 20, 30), {}, {}),
    "plane": ((20, 30), {}, {}),
}


@pytest.mark.parametrize("case", SHAPED)
def test_shaped(tmp_path, case):
    shape, metadata, options = SHAPED[case]
    path, pixels = tmp_path / "a.tif", pattern(*shape)
    tifffile.imwrite(path, pixels, metadata=metadata, **{"photometric": "minisblack", **options})
    found = jnrrdz.open_dataset(path)["data"]
    moved = np.moveaxis(pixels, -1, 1) if case == "colours" else pixels
    np.testing.assert_array_equal(found.values, moved)
    if metadata:
        assert found.dims == tuple(metadata["axes"].lower())


def test_pyramid_of_a_shaped_file(tmp_path):
    path, pixels = tmp_path / "a.tif", pattern(3, 64, 96)
    options = {"tile": (16, 16), "photometric": "minisblack"}
    with tifffile.TiffWriter(path) as tif:
        tif.write(pixels, subifds=1, **options)
        tif.write(pixels[:, ::2, ::2], subfiletype=1, **options)
    group = jnrrdz.open_group(path)
    np.testing.assert_array_equal(group["0/data"][...], pixels)
    np.testing.assert_array_equal(group["1/data"][...], pixels[:, ::2, ::2])


def write_slide(path, description, software=None, *, order=("base", "thumbnail", "levels", "label", "macro")):
    """Write a slide: RGB tiles in JPEG at three sizes, and small pictures in strips."""
    base = pattern(128, 192, 3, dtype="u1")
    pictures = {
        "base": [(base, {"tile": (64, 64), "compression": "jpeg", "description": description})],
        "thumbnail": [(base[::4, ::4], {"compression": "jpeg", "description": "thumb"})],
        "levels": [(base[::s, ::s], {"tile": (32, 32), "compression": "jpeg", "description": "l"}) for s in (2, 4)],
        "label": [(pattern(20, 24, 3, dtype="u1"), {"compression": "lzw", "subfiletype": 1, "description": "label"})],
        "macro": [(pattern(30, 34, 3, dtype="u1"), {"compression": "jpeg", "subfiletype": 9, "description": "macro"})],
    }
    with tifffile.TiffWriter(path) as tif:
        for name in order:
            for pixels, options in pictures[name]:
                tif.write(pixels, photometric="rgb", metadata=None, contiguous=False, software=software, **options)
    return path


def test_aperio_slide(tmp_path, assert_like_tifffile):
    description = "Aperio Image Library v11.2\r\n192x128 -> 192x128 |AppMag = 20|MPP = 0.5|Left = 1"
    path = write_slide(tmp_path / "a.svs", description)
    tree = jnrrdz.open_datatree(path)
    assert set(tree.children) == {"baseline", "thumbnail", "label", "macro"}
    for level in range(3):
        assert_like_tifffile(tree[f"baseline/{level}"]["data"], path, 0, level)
    for series, name in enumerate(["baseline/0", "thumbnail", "label", "macro"]):
        assert_like_tifffile(tree[name]["data"], path, series)
    assert_like_tifffile(jnrrdz.open_dataset(path)["data"], path, 0)
    attributes = jnrrdz.scan(path).children["baseline"].attributes
    assert attributes["magnification"] == 20.0
    scales = [
        entry["coordinateTransformations"][0]["scale"] for entry in attributes["ome"]["multiscales"][0]["datasets"]
    ]
    assert scales == [[1.0, 0.5, 0.5], [1.0, 1.0, 1.0], [1.0, 2.0, 2.0]]


def test_perkinelmer_channels_and_levels(tmp_path, assert_like_tifffile):
    path = tmp_path / "a.qptiff"
    xml = (
        "<PerkinElmer-QPI-ImageDescription><Magnification>20</Magnification><PixelSizeMicrons>0.5</PixelSizeMicrons>"
        "</PerkinElmer-QPI-ImageDescription>"
    )
    options = {"metadata": None, "contiguous": False, "photometric": "minisblack", "software": "PerkinElmer-QPI"}
    with tifffile.TiffWriter(path) as tif:
        for step in (1, 2, 4):
            for channel in range(3):
                page = pattern(128, 192, seed=channel, dtype="u1")[::step, ::step]
                tif.write(page, tile=(32, 32), compression="lzw", description=xml, **options)
            if step == 1:
                tif.write(pattern(32, 48, 3, dtype="u1"), **{**options, "photometric": "rgb"})
    tree = jnrrdz.open_datatree(path)
    for level in range(3):
        assert_like_tifffile(tree[f"baseline/{level}"]["data"], path, 0, level)
    assert tree["baseline/0"]["data"].dims == ("c", "y", "x")
    assert_like_tifffile(tree["thumbnail"]["data"], path, 1)
    assert json.loads(tree["baseline/0"]["data"].attrs["axes"])["x"] == {
        "step": 0.5,
        "unit": "micrometer",
        "start": 0.0,
    }


def test_scanimage_frames(tmp_path):
    path = tmp_path / "a.tif"
    says = (
        "SI.hChannels.channelSave = [1;2]\nSI.hStackManager.framesPerSlice = 3\nSI.hRoiManager.scanFramePeriod = 0.03\n"
    )
    with tifffile.TiffWriter(path) as tif:
        for number, page in enumerate(pattern(12, 20, 30)):
            tif.write(
                page,
                metadata=None,
                contiguous=False,
                software=says,
                description=f"frameNumbers = {number:04}",
                photometric="minisblack",
            )
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("page", "y", "x")
    np.testing.assert_array_equal(found, pattern(12, 20, 30))


def test_metamorph_stack(tmp_path, assert_like_tifffile):
    """STK: one IFD, the planes behind one another, UIC tags that count them."""
    path, pixels = tmp_path / "a.stk", pattern(4, 20, 30)
    planes = len(pixels)
    uic2 = struct.pack("<6I", 2, 1, 2451545, 0, 2451545, 0) * planes  # z distance 2/1, then dates and times
    tags = [(33628, 4, 2, (0, 0), True), (33629, 4, planes * 6, uic2, True)]
    tifffile.imwrite(path, pixels[0], metadata=None, extratags=tags, photometric="minisblack")
    layout = layout_of(path)
    entries = layout.ifd(layout.first).entries
    with tifffile.TiffFile(path, is_stk=False) as tif:
        (start,) = tif.pages[0].dataoffsets
    data = bytearray(path.read_bytes()[:start] + pixels.tobytes())
    for tag, kind, count in [(33628, 4, 1), (33629, 5, planes)]:  # counts are of planes, not of values
        at = data.index(struct.pack("<HHI", tag, 4, entries[tag].count))
        struct.pack_into("<HI", data, at + 2, kind, count)
    path.write_bytes(data)
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("z", "y", "x")
    np.testing.assert_array_equal(found, pixels)
    assert_like_tifffile(found, path)


def layout_of(path):
    data = path.read_bytes()
    return TiffLayout(lambda start, stop: data[start:stop], len(data))


def lsm_info(sizes):
    """Return a CZ_LSMINFO of x, y, z, channels and times."""
    x, y, z, channels, times = sizes
    head = struct.pack("<2I8i", 67127628, 512, x, y, z, channels, times, 2, 7, 5)
    return (head + struct.pack("<6d", 1e-7, 2e-7, 3e-7, 0, 0, 0)).ljust(512, b"\0")


@pytest.mark.parametrize("channels", [2, 3])
def test_zeiss_lsm(tmp_path, channels):
    path, pixels = tmp_path / "a.lsm", pattern(4, channels, 20, 30)
    with tifffile.TiffWriter(path) as tif:
        for number, page in enumerate(pixels):
            tags = [(34412, 1, 512, lsm_info((30, 20, 4, channels, 1)), True)] if number == 0 else []
            options = {"metadata": None, "contiguous": False, "photometric": "minisblack"}
            tif.write(page, planarconfig="separate", extratags=tags, **options)
            tif.write(pattern(5, 7, dtype="u1"), subfiletype=1, **options)
    if channels == 2:  # LSM writers put two widths into a place of their own, though they fit into the IFD
        data = bytearray(path.read_bytes())
        layout = layout_of(path)
        for ifd in [layout.ifd(offset) for offset in layout.main[::2]]:
            struct.pack_into("<I", data, ifd.entries[258].position, len(data))
        path.write_bytes(data + struct.pack("<HH", 16, 16))
    tree = jnrrdz.open_datatree(path)
    (name,) = [name for name in tree.children if tree[name]["data"].sizes["x"] == 30]
    found = tree[name]["data"]
    assert found.dims == ("c", "z", "y", "x")
    np.testing.assert_array_equal(found.transpose("z", "c", "y", "x"), pixels)
    assert json.loads(found.attrs["axes"])["z"]["step"] == pytest.approx(0.3)


def test_georeferenced_file_is_a_map_whoever_wrote_it(tmp_path):
    path = tmp_path / "a.tif"
    tags = [(33550, 12, 3, (2.0, 2.0, 0.0), False), (33922, 12, 6, (0.0, 0, 0, 100.0, 900.0, 0), False)]
    tifffile.imwrite(path, pattern(3, 20, 30), extratags=tags, metadata={"axes": "TYX"}, photometric="minisblack")
    found = jnrrdz.open_dataset(path)
    assert found["data"].dims == ("page", "y", "x")
    assert float(found["x"][0]) == 101.0


def test_planes_that_the_file_has_no_room_for_are_refused(tmp_path):
    path = tmp_path / "a.tif"
    says = b'{"shape": [50, 20, 30], "truncated": true}'
    tifffile.imwrite(path, pattern(20, 30), description=says, metadata=None, photometric="minisblack")
    with pytest.raises(jnrrdz.MalformedError, match="50 planes of 1200 bytes"):
        jnrrdz.scan(path)


IMPOSSIBLE = {
    "imagej": b"ImageJ=1.54f\nimages=900000000\nslices=900000000\n",
    "imagej negative": b"ImageJ=1.54f\nimages=-5\nslices=-5\n",
    "shaped": b'{"shape": [1000000000000, 20, 30]}',
    "shaped other": b'{"shape": [7, 11]}',
    "shaped zero": b'{"shape": [0, 20, 30]}',
    "shaped text": b'{"shape": "x"}',
    "shaped not JSON": b'{"shape": [',
    "scn": b"<?xml version='1.0'?><scn><collection></image></scn>",
    "aperio": b"Aperio \xff\xfe|MPP = x|AppMag = []",
    "state": b"state.configName='x'\nstate.acq.numberOfChannels=\n",
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
@pytest.mark.filterwarnings("ignore:its .* metadata")
def test_impossible_metadata_never_costs_more_than_a_refusal(tmp_path, case):
    path, page = tmp_path / "a.tif", pattern(20, 30)
    tifffile.imwrite(path, page, description=IMPOSSIBLE[case], metadata=None, photometric="minisblack")
    try:
        array = jnrrdz.open_group(path)["data"]
    except jnrrdz.JnrrdzError:
        return
    np.testing.assert_array_equal(array[...], page)


@pytest.mark.parametrize(
    ("letters", "names"),
    [
        ("TZCYX", ("t", "z", "c", "y", "x")),
        ("QQYXS", ("other", "other_2", "y", "x", "band")),
        ("IYX", ("page", "y", "x")),
        ("UYX", ("u", "y", "x")),
    ],
)
def test_axis_names(letters, names):
    assert axis_names(letters) == names


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        ("t z c y x", "t c z y x"),
        ("z band y x", "band z y x"),
        ("c t page y x", "page t c y x"),
        ("other angle z y x", "other angle z y x"),
    ],
)
def test_order_of_axes(names, ordered):
    names = names.split()
    assert [names[place] for place in order_of(names)] == ordered.split()


def write_ndpi(path, levels, *, at=0):
    """Write an NDPI: a JPEG with restart intervals a level, IFDs with 64-bit links; the first IFD at `at` or later."""
    with path.open("wb") as file:
        file.write(struct.pack("<2sHQ", b"II", 42, 0))
        link = 4
        for data, magnification in levels:
            file.seek(max(at, file.tell()))
            starts = restarts(data)
            where = file.tell()
            file.write(data)
            height, width = imagecodecs.jpeg8_decode(data).shape[:2]
            counters = file.tell()
            file.write(np.array(starts, "<u4").tobytes())
            make = file.tell()
            file.write(b"Hamamatsu\0\0\0" + struct.pack("<3H", 8, 8, 8) + b"\0\0")
            ifd = file.tell()
            entries = [
                (254, 4, 1, 0),
                (256, 4, 1, width),
                (257, 4, 1, height),
                (258, 3, 3, make + 12),
                (259, 3, 1, 7),
                (262, 3, 1, 6),
                (271, 2, 10, make),
                (273, 4, 1, where),
                (277, 3, 1, 3),
                (278, 4, 1, height),
                (279, 4, 1, len(data)),
                (282, 5, 1, counters),
                (65420, 4, 1, 1),
                (65421, 11, 1, struct.unpack("<I", struct.pack("<f", magnification))[0]),
                (65426, 4, len(starts), counters),
            ]
            file.write(struct.pack("<H", len(entries)))
            for tag, kind, count, value in entries:
                file.write(struct.pack("<HHII", tag, kind, count, value & 0xFFFFFFFF))
            file.write(struct.pack("<Q", 0))
            for *_, value in entries:
                file.write(struct.pack("<I", value >> 32))
            end = file.tell()
            file.seek(link)
            file.write(struct.pack("<Q", ifd))
            file.seek(end)
            link = ifd + 2 + 12 * len(entries)
    return path


def restarts(data):
    """Return where the data of each interval begin between the restart markers of a JPEG."""
    scan = data.index(b"\xff\xda")
    first = scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big")
    found = [at + 2 for at in range(first, len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]
    return [first, *found]


@pytest.mark.parametrize("at", [0, 5 << 30])
def test_hamamatsu_slide(tmp_path, at):
    """Colour ramps of 64 x 96 and 32 x 48 pixels, quality 90, chroma whole, restarting every 4 (3) blocks of 8 x 8."""
    jpegs = [(GOLDEN / f"restart_{name}.jpg").read_bytes() for name in ("full", "half")]
    path = write_ndpi(tmp_path / "a.ndpi", zip(jpegs, (20.0, 10.0), strict=True), at=at)
    group = jnrrdz.open_group(path)
    with tifffile.TiffFile(path) as tif:
        for level, jpeg in enumerate(jpegs):
            whole = imagecodecs.jpeg8_decode(jpeg)
            np.testing.assert_array_equal(tif.series[0].levels[level].asarray(), whole)
            np.testing.assert_array_equal(group[f"{level}/data"][...], np.moveaxis(whole, -1, 0))
    assert [group[f"{level}/data"].chunks for level in (0, 1)] == [(3, 8, 32), (3, 8, 24)]
    assert group.attrs["magnification"] == 20.0
    assert group["0"].attrs["TIFFTAG_MAKE"] == "Hamamatsu"


BOOLEANS = {
    "one plane": ((20, 30), {}),
    "colours": ((20, 30, 3), {"photometric": "rgb"}),
    "planar colours": ((3, 20, 30), {"photometric": "rgb", "planarconfig": "separate"}),
    "planes": ((5, 20, 30), {}),
    "tiles": ((40, 60), {"tile": (16, 16), "compression": "zlib"}),
}


@pytest.mark.parametrize("case", BOOLEANS)
def test_booleans_are_booleans(tmp_path, case, assert_like_tifffile):
    shape, options = BOOLEANS[case]
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.random.default_rng(3).random(shape) < 0.5, **options)
    jnrrdz.index(path, tmp_path / "a.json")
    with xr.open_dataset(tmp_path / "a.json", engine="jnrrdz") as dataset:
        assert dataset["data"].dtype == bool
        assert_like_tifffile(dataset["data"], path)
