"""Nodata texts in every type, and whose they are: an overview's own, its image's, none of a mask."""

import warnings

import numpy as np
import pytest
import rasterio
import tifffile

import jnrrdz
from jnrrdz.formats.tiff.arrays import nodata_attributes
from tests import writers

NAN = float("nan")

HELD = [
    ("0", "u1", 0),
    ("-0", "u1", 0),
    ("1e2", "u1", 100),
    ("12.0", "i2", 12),
    ("-9223372036854775808", "i8", -(2**63)),
    ("18446744073709551615", "u8", 2**64 - 1),
    ("9007199254740993", "i8", 2**53 + 1),  # a double would make it even
    ("nan", "f4", NAN),
    ("-nan", "f8", NAN),
    ("1.#QNAN", "f4", NAN),
    ("-1.#IND00", "f8", NAN),
    ("-1.#INF", "f4", -np.inf),
    ("-9999,5", "f8", -9999.5),
    ("-3.4028234663852886e+38", "f4", np.finfo("f4").min),
    ("-3.4028235e+38", "f4", np.finfo("f4").min),
    ("-9999", "c8", -9999 + 0j),
    ("1.5-2j", "c16", 1.5 - 2j),
    ("nan", "c8", complex(NAN, 0)),
]


@pytest.mark.parametrize(("text", "code", "expected"), HELD)
def test_held(text, code, expected):
    dtype = np.dtype(code)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attributes = nodata_attributes(text, dtype)
    assert attributes.keys() == {"_FillValue"}
    assert attributes["_FillValue"].dtype == dtype
    np.testing.assert_array_equal(attributes["_FillValue"], np.array(expected, dtype))


NOT_HELD = [
    *[(text, code) for code in ("u1", "i2", "u4") for text in ("nan", "0.5", "-1e30", "inf", "none", "9" * 60)],
    ("256", "u1"),
    ("-1", "u2"),
    ("18446744073709551616", "u8"),
    ("1e39", "f4"),
    ("1+2j", "f4"),
    ("1e39", "c8"),
    ("x", "c8"),
]


@pytest.mark.parametrize(("text", "code"), NOT_HELD)
def test_not_held_is_an_attribute_and_a_warning(text, code):
    with pytest.warns(UserWarning, match="kept as an attribute only"):
        assert nodata_attributes(f" {text} ", np.dtype(code)) == {"nodata": text}


@pytest.mark.parametrize("text", [None, "", "  "])
def test_nothing_is_nothing(text):
    assert nodata_attributes(text, np.dtype("u1")) == {}


def test_a_tag_that_points_outside_the_file_never_costs_the_pixels(tmp_path):
    path, nodata = tmp_path / "a.tif", (42113, 2, 8, "1234567", True)
    tifffile.imwrite(path, np.ones((8, 8), "u2"), metadata=None, extratags=[nodata])
    with tifffile.TiffFile(path) as tif:
        entry = tif.pages[0].tags["GDAL_NODATA"].offset
    whole = bytearray(path.read_bytes())
    whole[entry + 8 : entry + 12] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.warns(UserWarning, match="GDAL_NODATA"):
        group = jnrrdz.scan(str(path))
    assert "GDAL_NODATA" in group.attributes["metadata_refused"][0]
    np.testing.assert_array_equal(jnrrdz.open_group(group)["data"][...], np.ones((8, 8)))


def levels(path, *, own):
    """Write an image with nodata 5 and an overview, with its own nodata where one is given."""
    extra = [] if own is None else [(42113, 2, len(own) + 1, own, True)]
    with tifffile.TiffWriter(path) as target:
        options = {"tile": (16, 16), "metadata": None}
        nodata = (42113, 2, 2, "5", True)
        target.write(np.ones((64, 64), "u1"), subifds=1, extratags=[nodata], **options)
        target.write(np.ones((32, 32), "u1"), subfiletype=1, extratags=extra, **options)


@pytest.mark.parametrize(("own", "expected"), [("7", 7), (None, 5), (" ", 5)])
def test_an_overviews_nodata(tmp_path, own, expected):
    levels(tmp_path / "a.tif", own=own)
    group = jnrrdz.scan(str(tmp_path / "a.tif"))
    assert group.children["0"].children["data"].fill_value == 5
    assert group.children["1"].children["data"].fill_value == expected


def test_a_masks_own_nodata_is_none(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as target:
        zero = (42113, 2, 2, "0", True)
        target.write(np.ones((32, 32), "u1"), metadata=None)
        target.write(np.eye(32, dtype="u1"), metadata=None, subfiletype=1, extratags=[zero])
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as tif:
        tif.pages[1].tags["NewSubfileType"].overwrite(4)
    mask = jnrrdz.scan(str(tmp_path / "a.tif")).children["mask"]
    assert "_FillValue" not in mask.attributes


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_mask_has_no_nodata(tmp_path):
    path = tmp_path / "a.tif"
    pixels = np.ones((32, 32), "u1")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), writers.gdal_file(path, pixels, nodata=255) as target:
        target.write_mask(np.eye(32, dtype=bool))
    group = jnrrdz.scan(str(path))
    assert group.children["data"].attributes["_FillValue"] == 255
    assert "_FillValue" not in group.children["mask"].attributes
