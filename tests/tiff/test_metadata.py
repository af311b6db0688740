"""What a TIFF says of its pixels, against rasterio on files that rasterio and tifffile write."""

import base64
import datetime as dt
import math
import os
import pathlib
import re
import warnings

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rasterio.enums import ColorInterp

import jnrrdz
from jnrrdz.core.bands import by_band
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.formats.tiff.metadata import iso_time
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def write(path, *, count=2, dtype="int16", **profile):
    """Return a dataset that rasterio wrote, open for what a test wants to say of it."""
    return writers.gdal_file(path, np.zeros((count, 8, 8), dtype), **profile)


def picture(group):
    """Return the group of the full-resolution image."""
    while "data" not in group.children:
        group = next(child for child in group.children.values() if isinstance(child, VirtualGroup))
    return group


def scanned(path, **choices):
    """Return the attributes of the image's variable, and of its group."""
    found = picture(jnrrdz.scan(str(path), **choices))
    return dict(found.children["data"].attributes), dict(found.attributes)


def test_bands_are_named_scaled_and_measured_as_rasterio_has_them(tmp_path):
    path = tmp_path / "a.tif"
    with write(path, count=3, nodata=-5) as target:
        target.descriptions = ("red edge", None, "née")
        target.scales, target.offsets, target.units = (0.1, 1.0, 2.0), (1.5, 0.0, -3.0), ("K", "", "m")
        target.update_tags(2, STATISTICS_MEAN="1.25", STATISTICS_APPROXIMATE="YES", OTHER="a<b & c")
        target.update_tags(3, ns="DOMAIN", KEY="value")
    array, _ = scanned(path)
    with rasterio.open(path) as source:
        assert array["band_names"] == [name or "" for name in source.descriptions]
        assert array["scales"] == list(source.scales)
        assert array["offsets"] == list(source.offsets)
        assert array["band_units"] == [unit or "" for unit in source.units]
        assert array["colorinterp"] == [color.name for color in source.colorinterp]
    assert array["statistics"] == [{}, {"mean": 1.25, "approximate": True}, {}]
    assert array["band_metadata"] == [{}, {"": {"OTHER": "a<b & c"}}, {"DOMAIN": {"KEY": "value"}}]
    assert not {"scale_factor", "add_offset", "units"} & set(array)


def test_one_unit_is_cfs_and_one_name_too(tmp_path):
    with write(tmp_path / "a.tif", count=1) as target:
        target.units, target.descriptions = ("K",), ("temperature",)
    array, _ = scanned(tmp_path / "a.tif")
    assert (array["units"], array["long_name"], array["band_names"]) == ("K", "temperature", ["temperature"])
    assert "band_units" not in array


def test_one_scale_is_cfs(tmp_path):
    with write(tmp_path / "a.tif", count=2) as target:
        target.units, target.scales, target.offsets = ("K", "K"), (0.5, 0.5), (3.0, 3.0)
    array, _ = scanned(tmp_path / "a.tif")
    assert (array["scale_factor"], array["add_offset"], array["units"]) == (0.5, 3.0, "K")
    assert not {"scales", "offsets", "band_units"} & set(array)


def test_dates_that_are_scaled_have_no_unit_of_cf(tmp_path):
    with write(tmp_path / "a.tif", count=1) as target:
        target.units, target.scales = ("days since 2000-01-01",), (0.5,)
    array, _ = scanned(tmp_path / "a.tif")
    assert (array["scale_factor"], array["band_units"]) == (0.5, ["days since 2000-01-01"])
    # xarray would make dates of the numbers that it was asked not to scale, all of them wrong
    raw = xr.open_dataset(tmp_path / "a.tif", engine="jnrrdz", mask_and_scale=False)["data"]
    assert (raw.dtype, raw.attrs["unit"]) == (np.int16, "days since 2000-01-01")


def test_nothing_said_is_nothing_written(tmp_path):
    with write(tmp_path / "a.tif"):
        pass
    array, group = scanned(tmp_path / "a.tif")
    assert array == {"colorinterp": ["gray", "undefined"]}
    assert group == {}


COORDINATES = [
    (("red", "nir"), ["red", "nir"]),
    (("red", None), ["red", "2"]),
    ((None, None), [1, 2]),
]


@pytest.mark.parametrize(("names", "expected"), COORDINATES)
def test_band_coordinate(tmp_path, names, expected):
    path = tmp_path / "a.tif"
    with write(path) as target:
        target.write(np.arange(128, dtype="i2").reshape(2, 8, 8))
        target.descriptions = names
    found = xr.open_dataset(path, engine="jnrrdz")
    assert found["band"].values.tolist() == expected
    with rasterio.open(path) as source:
        np.testing.assert_array_equal(found["data"].sel(band=expected[1]), source.read(2))


PHOTOMETRICS = [
    ({"count": 1, "photometric": "MINISBLACK"}, {}),
    ({"count": 2, "alpha": "YES"}, {}),
    ({"count": 2, "alpha": "PREMULTIPLIED"}, {"alpha_premultiplied": True}),
    ({"count": 3, "photometric": "RGB"}, {}),
    ({"count": 4, "photometric": "RGB"}, {}),
    ({"count": 5, "photometric": "RGB", "alpha": "NO"}, {}),
    ({"count": 3, "photometric": "YCBCR", "compress": "JPEG"}, {}),
    ({"count": 1, "photometric": "MINISWHITE"}, {"photometric": "MINISWHITE"}),
]


@pytest.mark.parametrize(("profile", "more"), PHOTOMETRICS)
def test_colours_of_bands(tmp_path, profile, more):
    path = tmp_path / "a.tif"
    with write(path, dtype="uint8", **profile):
        pass
    array, _ = scanned(path)
    with rasterio.open(path) as source:
        assert array["colorinterp"] == [color.name for color in source.colorinterp]
    assert {name: array[name] for name in ("photometric", "alpha_premultiplied") if name in array} == more


@pytest.mark.parametrize("color", [color for color in ColorInterp if color.name != "palette"])
def test_every_colour_that_rasterio_writes(tmp_path, color):
    with write(tmp_path / "a.tif") as target:
        target.colorinterp = (ColorInterp.gray, color)
    with rasterio.open(tmp_path / "a.tif") as source:
        expected = [found.name for found in source.colorinterp]
    assert scanned(tmp_path / "a.tif")[0]["colorinterp"] == expected


def test_alpha_among_wrong_numbers_of_extra_samples(tmp_path):
    """Some writers list the colours too, others leave samples out."""
    for name, count, extra in (("a", 6, (0, 0, 0, 0, 2)), ("b", 5, (2,)), ("c", 4, (2, 0)), ("d", 5, (0, 2))):
        path = tmp_path / f"{name}.tif"
        tifffile.imwrite(path, np.zeros((8, 8, count), "u1"), photometric="rgb", extrasamples=[0] * (count - 3))
        with tifffile.TiffFile(path, mode="r+b") as tif:
            tif.pages[0].tags["ExtraSamples"].overwrite(extra)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rasterio.open(path) as source:
                theirs = [color.name for color in source.colorinterp]
        assert scanned(path)[0]["colorinterp"] == theirs, name


def test_raw_cmyk_and_lab_are_what_is_stored(tmp_path):
    tifffile.imwrite(tmp_path / "k.tif", np.zeros((8, 8, 4), "u1"), photometric="separated")
    tifffile.imwrite(tmp_path / "l.tif", np.zeros((8, 8, 3), "u1"), photometric="cielab")
    cmyk, lab = scanned(tmp_path / "k.tif")[0], scanned(tmp_path / "l.tif")[0]
    assert (cmyk["colorinterp"], cmyk["photometric"]) == (["cyan", "magenta", "yellow", "black"], "SEPARATED")
    assert (lab["colorinterp"], lab["photometric"]) == (["undefined"] * 3, "CIELAB")


TAGS = {
    "TIFFTAG_DOCUMENTNAME": "name",
    "TIFFTAG_IMAGEDESCRIPTION": "two\nlines",
    "TIFFTAG_SOFTWARE": "é",
    "TIFFTAG_DATETIME": "2020:02:29 12:30:05",
    "TIFFTAG_ARTIST": "someone",
    "TIFFTAG_HOSTCOMPUTER": "host",
    "TIFFTAG_COPYRIGHT": "all",
    "TIFFTAG_XRESOLUTION": "833.3334",
    "TIFFTAG_YRESOLUTION": "0.01",
    "TIFFTAG_RESOLUTIONUNIT": "3",
    "TIFFTAG_MINSAMPLEVALUE": "2",
    "TIFFTAG_MAXSAMPLEVALUE": "7",
}


def test_tags_are_rasterios(tmp_path):
    path = tmp_path / "a.tif"
    with write(path) as target:
        target.update_tags(PLAIN="item", **TAGS)
        target.update_tags(ns="IMD", numRows="3")
    _, group = scanned(path)
    with rasterio.open(path) as source:
        theirs = {name: value for name, value in source.tags().items() if name != "METADATATYPE"}
        assert group["gdal_metadata"] == {"": {"PLAIN": "item"}, "IMD": source.tags(ns="IMD")}
    assert {name: value for name, value in group.items() if name.startswith("TIFF")} | {"PLAIN": "item"} == theirs
    assert set(TAGS) <= set(theirs)
    assert group["datetime"] == "2020-02-29T12:30:05"


def test_when_it_was_taken_goes_before_when_the_file_was_made(tmp_path):
    with write(tmp_path / "a.tif") as target:
        target.update_tags(TIFFTAG_DATETIME="2020:02:29 12:30:05")
        target.update_tags(ns="IMD", **{"IMAGE_1.firstLineTime": "2010-06-13T10:11:12.5Z"})
    assert scanned(tmp_path / "a.tif")[1]["datetime"] == "2010-06-13T10:11:12.5Z"


TIMES = [
    ("2020:02:29 12:30:05", "2020-02-29T12:30:05"),
    ("2020-02-29T12:30:05.123456789Z", "2020-02-29T12:30:05.123456789Z"),
    ("2020-02-29 12:30", "2020-02-29T12:30:00"),
    ("2020/02/29 12:30:05 +0130", "2020-02-29T12:30:05+01:30"),
    ('"2020-02-29";', "2020-02-29"),
    ("2021:02:29 12:30:05", None),
    ("2020:02:29 25:30:05", None),
    ("0000:00:00 00:00:00", None),
    ("    :  :     :  :  ", None),
    ("yesterday", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_iso_time(text, expected):
    assert iso_time(text) == expected


@given(st.datetimes(min_value=dt.datetime(1000, 1, 1)))  # noqa: DTZ001
def test_every_time_that_tiff_can_spell(moment):
    whole = moment.replace(microsecond=0)
    assert iso_time(whole.strftime("%Y:%m:%d %H:%M:%S")) == whole.isoformat()


def test_documents_only_on_request(tmp_path):
    profile, packet = os.urandom(300), "<x:xmpmeta>é</x:xmpmeta>"
    path = tmp_path / "a.tif"
    extra = [(34675, 7, 300, profile, True), (700, 1, len(packet.encode()), packet.encode(), True)]
    tifffile.imwrite(path, np.zeros((8, 8), "u1"), extratags=extra)
    assert not {"icc_profile", "xmp", "exif"} & set(scanned(path)[1])
    group = scanned(path, embedded=True)[1]
    assert base64.b64decode(group["icc_profile"]) == profile
    assert group["xmp"] == packet
    with rasterio.open(path) as source:
        assert group["icc_profile"] == source.tags(ns="COLOR_PROFILE")["SOURCE_ICC_PROFILE"]
        assert source.tags(ns="xml:XMP")["xml:XMP"].endswith(packet)


def test_exif(tmp_path):
    from PIL import Image, TiffImagePlugin  # noqa: PLC0415 - the one writer of EXIF at hand

    path, tags = tmp_path / "a.tif", TiffImagePlugin.ImageFileDirectory_v2()
    tags[34665] = {33434: 0.25, 36867: "2020:02:29 12:30:05", 34855: 400, 37500: b"\x01\xffmaker"}
    Image.new("L", (8, 8)).save(path, tiffinfo=tags)
    note = (37500).to_bytes(2, "little")
    path.write_bytes(path.read_bytes().replace(note + b"\1\0", note + b"\7\0"))  # Pillow writes BYTE for UNDEFINED
    found = scanned(path, embedded=True)[1]["exif"]
    assert found == {
        "ExposureTime": 0.25,
        "DateTimeOriginal": "2020:02:29 12:30:05",
        "ISOSpeedRatings": 400,
        "MakerNote": base64.b64encode(b"\x01\xffmaker").decode(),
    }


MALFORMED = ["<GDALMetadata>", "<Other/>", '<!DOCTYPE a [<!ENTITY b "c">]><GDALMetadata/>']


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_tag_never_costs_the_pixels(tmp_path, text):
    path, data = tmp_path / "a.tif", np.arange(64, dtype="u1").reshape(8, 8)
    tifffile.imwrite(path, data, metadata=None, extratags=[(42112, 2, len(text) + 1, text, True)])
    with pytest.warns(UserWarning, match="metadata are left out"):
        group = picture(jnrrdz.scan(str(path)))
    assert "GDAL_METADATA" in group.attributes["metadata_refused"][0]
    np.testing.assert_array_equal(xr.open_dataset(group, engine="jnrrdz")["data"], data)


def test_a_tag_that_points_outside_the_file_never_costs_the_pixels(tmp_path):
    path, data = tmp_path / "a.tif", np.arange(64, dtype="u1").reshape(8, 8)
    artist = (315, 2, 22, "someone with a surname", True)
    tifffile.imwrite(path, data, metadata=None, description="what it shows", extratags=[artist])
    whole = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        entry = tif.pages[0].tags["Artist"].offset
    whole[entry + 8 : entry + 12] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.warns(UserWarning, match="Artist"):
        group = picture(jnrrdz.scan(str(path)))
    assert group.attributes["TIFFTAG_IMAGEDESCRIPTION"] == "what it shows"
    np.testing.assert_array_equal(xr.open_dataset(group, engine="jnrrdz")["data"], data)


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """Return the bytes of a file that says much of itself, and its pixels."""
    path, pixels = tmp_path_factory.mktemp("described") / "a.tif", np.arange(128, dtype="i2").reshape(2, 8, 8)
    with write(path, nodata=3) as target:
        target.write(pixels)
        target.descriptions, target.scales, target.units = ("a", "b"), (2.0, 3.0), ("m", "K")
        target.update_tags(1, STATISTICS_MEAN="1.5")
        target.update_tags(TIFFTAG_SOFTWARE="é", TIFFTAG_DATETIME="2020:02:29 12:30:05")
    return path.read_bytes(), pixels


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_metadata_leave_the_pixels(tmp_path, described, data):
    whole, pixels = bytearray(described[0]), described[1]
    start, stop = whole.index(b"<GDALMetadata>"), whole.index(b"</GDALMetadata>")
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(start, stop))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.tif").write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = xr.open_dataset(tmp_path / "a.tif", engine="jnrrdz", mask_and_scale=False)
    np.testing.assert_array_equal(found["data"], pixels)


def test_overviews_share_the_meaning_but_not_the_statistics(tmp_path):
    path = tmp_path / "a.tif"
    with writers.gdal_file(path, np.arange(4096).astype("u1").reshape(64, 64), tiled=True) as target:
        target.descriptions, target.units = ("height",), ("m",)
        target.update_tags(1, STATISTICS_MEAN="1.5")
        target.update_tags(ITEM="value")
        target.build_overviews([2], rasterio.enums.Resampling.average)
    group = jnrrdz.scan(str(path))
    full, half = (group.children[name].children["data"].attributes for name in ("0", "1"))
    assert (full["units"], half["units"], half["band_names"]) == ("m", "m", ["height"])
    assert "statistics" in full
    assert "statistics" not in half
    assert group.children["0"].attributes["gdal_metadata"] == {"": {"ITEM": "value"}}
    assert "gdal_metadata" not in group.children["1"].attributes


# what rasterio says differently, and why
RAW_COLORS = {"image-tiff_tiled-cmyk-i8.tif", "data_cielab.tif", "data_rgbsmall_cmyk.tif"}  # it converts to RGB


def _said(path):
    """Return what rasterio and what jnrrdz say of a file, in the same words; None for files that either refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = picture(jnrrdz.scan(str(path)))
            source = rasterio.open(path)
    except (jnrrdz.JnrrdzError, rasterio.errors.RasterioIOError):
        return None
    with source:
        return _theirs(source), _ours(found, source.count)


def _theirs(source):
    tags = {name: value for name, value in source.tags().items() if value}
    bands = [source.tags(number) for number in source.indexes]
    try:
        colors = [list(color) for _, color in sorted(source.colormap(1).items())]
    except ValueError:
        colors = None
    return {
        "descriptions": [name or "" for name in source.descriptions],
        "scales": list(source.scales),
        "offsets": list(source.offsets),
        "units": [unit or "" for unit in source.units],
        "colorinterp": [color.name for color in source.colorinterp],
        "colors": colors,
        "nodata": None if source.nodata is None else str(np.float32(source.nodata)),
        "area_or_point": tags.pop("AREA_OR_POINT", None),
        "tags": tags,
        "band_tags": [{name: value for name, value in band.items() if "STATISTICS_" not in name} for band in bands],
        "mean": [float(band.get("STATISTICS_MEAN", math.pi)) for band in bands],
        "rpc": source.rpcs and {name: pytest.approx(value) for name, value in source.rpcs.to_dict().items()},
        "gcps": len(source.gcps[0]),
    }


def _ours(found, count):
    array, group = by_band(found.children["data"].attributes, count), found.attributes
    fill = array.get("_FillValue")
    mapping = found.children.get("spatial_ref")
    items = {name: value for name, value in group.items() if name.startswith("TIFFTAG_")}
    return {
        "descriptions": array.get("band_names", [""] * count),
        "scales": array.get("scales", [1.0] * count),
        "offsets": array.get("offsets", [0.0] * count),
        "units": array.get("band_units", [""] * count),
        "colorinterp": array["colorinterp"],
        "colors": array.get("color_table"),
        "nodata": None if fill is None else str(np.float32(np.real(fill))),
        "area_or_point": group.get("AREA_OR_POINT"),
        "tags": {**items, **group.get("gdal_metadata", {}).get("", {})},
        "band_tags": [band.get("", {}) for band in array.get("band_metadata", [{}] * count)],
        "mean": [band.get("mean", math.pi) for band in array.get("statistics", [{}] * count)],
        "rpc": {name.lower(): value for name, value in group["rpc"].items()} if "rpc" in group else None,
        "gcps": mapping.attributes.get("gcps", "").count('"Feature"') if mapping else 0,
    }


@pytest.mark.skipif("JNRRDZ_CORPUS" not in os.environ, reason="JNRRDZ_CORPUS names no folder of TIFFs")
@pytest.mark.filterwarnings("ignore")
def test_every_file_of_the_corpus_means_what_rasterio_says():
    compared, differing = 0, {}
    for path in pathlib.Path(os.environ["JNRRDZ_CORPUS"]).rglob("*"):
        said = _said(path) if re.fullmatch(r"\.tiff?", path.suffix.lower()) else None
        if said is None:
            continue
        compared += 1
        theirs, ours = said
        names = {name for name in theirs if theirs[name] != ours[name]}
        if path.name in RAW_COLORS:
            names.discard("colorinterp")
        if names:
            differing[path.name] = {name: (theirs[name], ours[name]) for name in names}
    assert compared > 100
    assert differing == {}
