"""Headers of NITF 2.0 and 2.1 written field by field, against GDAL and against the pixels that were written."""

import itertools
import struct

import numpy as np
import pytest
import rasterio

from tests.nitf.by_hand import SECURITY, V20, V21, file_bytes, image_header, overflow_header
from tests.nitf.test_blocks import BY_GDAL, NATIVE, blocks, raw, stored, values
from tests.nitf.test_places import assert_as_gdal, rpfimg

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.parametrize("version", [V20, V21]),
]

PIXELS = np.arange(70, dtype=np.uint8).reshape(7, 10)
DATA = PIXELS.tobytes()
RAMP = bytes(range(256))
LUT = RAMP[:10]


@pytest.fixture
def opened(tmp_path, open_nitf):
    """Return a function that writes a file and opens it, and its path."""

    def made(data):
        path = tmp_path / "image.ntf"
        path.write_bytes(data)
        return open_nitf(path), path

    return made


def gdal_pixels(path):
    with rasterio.open(path) as gdal:
        return gdal.read()


HEADERS = [
    {"comments": (b"one", b"two", b"three")},
    {"comments": tuple(b"%d" % number for number in range(9))},
    {"isync": 4},
    {"is_many": True},
    {"block": (0, 0)},
    {"udid": (b"ABCDEF00004text", 0), "ixshd": (b"GHIJKL00005more!", 0)},
    {"bands": ((b"M", (RAMP,)),)},
    {"bands": ((b"M", (RAMP, RAMP[::-1])),)},
    {"bands": ((b"LU", (RAMP, RAMP[::-1], RAMP)),), "irep": b"RGB/LUT"},
    *({"irep": irep} for irep in (b"MULTI", b"NODISPLY", b"NVECTOR", b"POLAR", b"VPH", b"")),
    *({"abpp": 6, "pjust": side} for side in (b"L", b"R")),
]


@pytest.mark.parametrize("changes", HEADERS)
def test_fields_before_the_pixels_move_them(opened, version, changes):
    group, path = opened(file_bytes(image_header(7, 10, version=version, **changes), DATA, version=version))
    np.testing.assert_array_equal(group["image_0/data"][...], PIXELS)
    np.testing.assert_array_equal(gdal_pixels(path)[0], PIXELS)
    if "comments" in changes:
        assert group["image_0"].attrs["comments"] == [one.decode() for one in changes["comments"]]


def test_four_tables_of_a_band_are_stepped_over(opened, version):
    """GDAL reads three at most, and goes on in the fourth."""
    header = image_header(7, 10, version=version, bands=((b"M", (LUT,) * 4),))
    group, _ = opened(file_bytes(header, DATA, version=version))
    np.testing.assert_array_equal(group["image_0/data"][...], PIXELS)
    assert len(group["image_0"].attrs["luts"][0]) == 4


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("mode", "BPRS")
@pytest.mark.parametrize("sample", [*NATIVE, ("INT", 1, None), ("INT", 12, None)])
def test_bands_blocks_and_types(opened, version, mode, count, sample):
    pvtype, bits, dtype = sample
    shape, block = (count, 7, 10), (4, 8)
    random = np.random.default_rng(bits)
    pixels = random.integers(0, 1 << bits, shape) if dtype is None else values(dtype, shape)
    data = b"".join((stored if dtype is None else raw)(one, mode, bits) for one in blocks(pixels, block, mode))
    header = image_header(
        7,
        10,
        version=version,
        pvtype=pvtype.encode(),
        nbpp=bits,
        abpp=bits,
        irep=b"MULTI",
        bands=((b"", ()),) * count,
        imode=mode.encode(),
        grid=(2, 2),
        block=block,
    )
    group, path = opened(file_bytes(header, data, version=version))
    found = group["image_0/data"][...].reshape(shape)
    np.testing.assert_array_equal(found, pixels)
    if dtype is not None and dtype.strip(">") in BY_GDAL:
        np.testing.assert_array_equal(found, gdal_pixels(path))


@pytest.mark.parametrize("names", [(b"R", b"G", b"B"), (b"Y", b"Cb", b"Cr"), (b"M", b"", b"R")])
def test_bands_have_the_colours_that_gdal_sees(opened, version, names):
    bands = tuple((name, ()) for name in names)
    irep = b"YCbCr601" if b"Y" in names else b"RGB"
    header = image_header(7, 10, version=version, bands=bands, irep=irep)
    group, path = opened(file_bytes(header, DATA * 3, version=version))
    with rasterio.open(path) as gdal:
        assert group["image_0/data"].attrs["colorinterp"] == [one.name for one in gdal.colorinterp]


def test_blocks_beyond_the_image_are_stepped_over(opened, version):
    whole = np.pad(PIXELS, ((0, 1), (0, 14)))
    parts = (whole[row : row + 4, column : column + 8] for row, column in itertools.product((0, 4), (0, 8, 16)))
    header = image_header(7, 10, version=version, grid=(2, 3), block=(4, 8))
    group, path = opened(file_bytes(header, b"".join(part.tobytes() for part in parts), version=version))
    np.testing.assert_array_equal(group["image_0/data"][...], PIXELS)
    np.testing.assert_array_equal(gdal_pixels(path)[0], PIXELS)


@pytest.mark.parametrize(("field", "item"), [(b"UDID", 1), (b"IXSHD", 1), (b"XHD", 0), (b"UDHD", 0)])
def test_extensions_without_room_in_their_header(opened, version, field, item):
    segment = (overflow_header(version, field, item), b"ABCDEF00004text")
    own = {"udid" if field == b"UDID" else "ixshd": (b"GHIJKL00003own", 1)} if item else {}
    header = image_header(7, 10, version=version, **own)
    group, _ = opened(file_bytes(header, DATA, version=version, extensions=[segment]))
    holder = group["image_0"] if item else group
    texts = {tre["tag"]: tre["text"] for tre in holder.attrs["tres"]}
    assert texts == {"ABCDEF": "text"} | ({"GHIJKL": "own"} if item else {})


def test_symbols_and_labels(opened, version):
    symbol = b"SY" + b"first".ljust(10) + b"a name".ljust(20) + SECURITY + b"0"
    if version == V20:
        symbol += (
            b"C" + b"0" * 13 + b"002000" + b"0000300004" + b"0" * 10 + b"0" + b"0" * 6 + b"000" + b"000" + b"00000"
        )
    else:
        symbol += b"C" + b"0" * 13 + b"002000" + b"0000300004" + b"0" * 10 + b"C" + b"0" * 10 + b"00" + b"00000"
    label = b"LA" + b"second".ljust(10) + SECURITY + b"0" + b" " + b"0000" + b"003000" + b"0" * 10 + bytes(6) + b"00000"
    segments = {"symbols": [(symbol, b"drawing")], "labels": [(label, b"what it is")] if version == V20 else []}
    group, path = opened(file_bytes(image_header(7, 10, version=version), DATA, version=version, **segments))
    np.testing.assert_array_equal(group["image_0/data"][...], gdal_pixels(path)[0])
    (drawing,) = group.attrs["graphics"]
    assert (drawing["SID"], drawing["SLOC"], drawing["SDLVL"]) == ("first", "0000300004", 2)
    assert [one["text"] for one in group.attrs.get("labels", [])] == (["what it is"] if version == V20 else [])
    assert "metadata_refused" not in group.attrs


POLAR = b"741119N0713354W825544N0450000W741119N0182605W684712N0450000W"


@pytest.mark.parametrize("pole", [1, -1])
@pytest.mark.parametrize("title", [b"0123456789.JJ9", b"0123456789.JJJ", b"0123456789.JJ5"])
def test_a_polar_cadrg_frame_is_in_the_projection_of_its_zone(opened, version, pole, title):
    """GDAL tells it by the title of NITF 2.0, and takes none whose corners are as coarse as IGEOLO's."""
    metres = [(-1.6e6, -0.5e6), (-1.6e6, -1.6e6), (-0.5e6, -0.5e6), (-0.5e6, -1.6e6)]
    coverage = []
    for x, y in metres:
        away, around = np.degrees(np.hypot(x, y) / 6378137), np.degrees(np.arctan2(x, -pole * y))
        coverage += [pole * (90 - away), around]
    data = DATA + struct.pack(">8d", *coverage)
    igeolo = POLAR if pole == 1 else POLAR.replace(b"N", b"S")

    def written(place):
        tre = rpfimg(0, [(130, 64, place)])
        udid = b"RPFIMG%05d" % len(tre) + tre
        header = image_header(7, 10, version=version, iid=b"CADRG", title=title, igeolo=igeolo, udid=(udid, 0))
        return file_bytes(header, data, version=version)

    group, path = opened(written(len(written(0)) - 64))
    assert_as_gdal(path, group)
    assert ("equidistant" in group["image_0/spatial_ref"].attrs["crs_wkt"].lower()) == (
        version == V20 and title[-1:] in b"9J"
    )


BOX = b"010000N0020000E010000N0030000E005000N0030000E005000N0020000E"


@pytest.mark.parametrize(
    ("igeolo", "expected"),
    [
        (BOX, "affine"),
        (BOX.lower(), "affine"),
        (BOX.replace(b"0000", b"    "), "affine"),  # minutes and seconds that are not known
        (BOX.replace(b"010000N", b"01    N"), "affine"),
        (b"000000N0000000E" * 4, "nothing"),
        (b" " * 60, "nothing"),
    ],
)
def test_corners_as_writers_have_them(opened, version, igeolo, expected):
    header = image_header(7, 10, version=version, igeolo=igeolo)
    group, path = opened(file_bytes(header, DATA, version=version))
    assert assert_as_gdal(path, group) == expected
    assert "georeference_refused" not in group["image_0"].attrs


@pytest.mark.parametrize("igeolo", [BOX.replace(b"0020000", b"002  05"), BOX.replace(b"01", b"  "), b"x" * 60])
def test_corners_with_blanks_elsewhere_are_named(opened, version, igeolo):
    with pytest.warns(UserWarning, match="is no corner"):
        group, _ = opened(file_bytes(image_header(7, 10, version=version, igeolo=igeolo), DATA, version=version))
    assert "is no corner" in group["image_0"].attrs["georeference_refused"]


@pytest.mark.parametrize("left_out", [5, 10])
def test_headers_that_end_before_their_extensions(opened, version, left_out):
    header = image_header(7, 10, version=version)[:-left_out]
    with pytest.warns(UserWarning, match="where 0 are left"):
        group, path = opened(file_bytes(header, DATA, version=version))
    np.testing.assert_array_equal(group["image_0/data"][...], PIXELS)
    if left_out == 5:  # GDAL takes a header without UDIDL for a truncated one
        np.testing.assert_array_equal(gdal_pixels(path)[0], PIXELS)
