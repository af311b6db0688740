"""What headers and extensions say, against GDAL and jbpy; and images of several files or segments."""

import io
import json
import math

import jbpy
import numpy as np
import pytest
import rasterio
import xarray as xr

import jnrrdz

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

ROWS, COLUMNS = 10, 20
PLAIN = {"NROWS": ROWS, "NCOLS": COLUMNS}
DATA = bytes(range(ROWS * COLUMNS))
BOX = "010000N0020000E010000N0030000E005000N0030000E005000N0020000E"
TILTED = "010000N0020000E013000N0030000E005000N0031000E003000N0020000E"
ODD = "010000N0020000E010000N0030000E005000N0034000E005000N0020000E"
ANTIMERIDIAN = "010000N1790000E010000N1790000W005000N1790000W005000N1790000E"


def corners(text, kind="G"):
    return (DATA, PLAIN | {"ICORDS": kind, "IGEOLO": text})


@pytest.mark.parametrize("text", [BOX, TILTED])
def test_corners_of_an_affine_are_one(make_nitf, open_nitf, text):
    path = make_nitf(corners(text))
    mapping = open_nitf(path)["image_0/spatial_ref"].attrs
    with rasterio.open(path) as gdal:
        expected = gdal.transform.to_gdal() if not gdal.gcps[0] else None
        assert gdal.crs is None or gdal.crs.to_epsg() == 4326
    if expected is None:
        assert "GeoTransform" not in mapping
    else:
        found = [float(number) for number in mapping["GeoTransform"].split()]
        assert found == pytest.approx(expected, abs=1e-12)


def test_other_corners_are_control_points(make_nitf, open_nitf):
    path = make_nitf(corners(ODD))
    mapping = open_nitf(path)["image_0/spatial_ref"].attrs
    assert "GeoTransform" not in mapping
    with rasterio.open(path) as gdal:
        points, crs = gdal.gcps
    features = json.loads(mapping["gcps"])["features"]
    assert crs.to_epsg() == 4326
    assert len(features) == 4
    for feature, point in zip(features, points, strict=True):
        place = feature["properties"]
        assert (place["row"], place["col"]) == (point.row, point.col)
        assert feature["geometry"]["coordinates"][:2] == pytest.approx([point.x, point.y])


def test_corners_on_both_sides_of_the_antimeridian_go_on_beyond_180_degrees(make_nitf, open_nitf):
    """GDAL takes them for an image that runs backwards around the Earth."""
    mapping = open_nitf(make_nitf(corners(ANTIMERIDIAN)))["image_0/spatial_ref"].attrs
    west, step = (float(number) for number in mapping["GeoTransform"].split()[:2])
    assert step == pytest.approx(2 / (COLUMNS - 1))
    assert west == pytest.approx(179 - step / 2)


def test_corners_out_of_order_are_named_and_left_out(make_nitf, open_nitf):
    crossed = BOX[:15] + BOX[30:] + BOX[15:30]  # upper left, lower right, lower left, upper right
    with pytest.warns(UserWarning, match="IGEOLO"):
        group = open_nitf(make_nitf(corners(crossed)))
    assert "convex" in group["image_0"].attrs["georeference_refused"]
    assert bytes(group["image_0/data"][...].ravel()) == DATA


def test_a_dataset_has_coordinates(make_nitf, tmp_path):
    out = tmp_path / "refs.json"
    jnrrdz.index(make_nitf(corners(BOX)), out)
    with xr.open_dataset(out) as found:
        assert found["data"].shape == (ROWS, COLUMNS)
        assert float(found["x"][0]) == pytest.approx(2)
        assert float(found["y"][-1]) == pytest.approx(50 / 60)


def rpc_bytes(seed=0):
    random = np.random.default_rng(seed)
    single = "1" + "0001.00" + "0002.00" + "001234" + "04321" + "+12.3456" + "-123.4567" + "+0100"
    single += "005000" + "06000" + "+01.2345" + "+002.3456" + "+0500"
    terms = (
        f"{value:+.6f}E{power:+d}"
        for value, power in zip(random.uniform(-9, 9, 80), random.integers(-9, 1, 80), strict=True)
    )
    return (single + "".join(terms)).encode()


def raw_tre(tag, data):
    tre = jbpy.core.UnknownTre(tag)
    tre["TREL"].value = len(data)
    tre["TREDATA"].value = data
    return tre


@pytest.mark.parametrize("tag", ["RPC00A", "RPC00B"])
def test_coefficients_are_those_that_gdal_reads(make_nitf, open_nitf, tag):
    path = make_nitf((DATA, PLAIN), tres=[raw_tre(tag, rpc_bytes())])
    found = open_nitf(path)["image_0"].attrs["rpc"]
    with rasterio.open(path) as gdal:
        expected = gdal.rpcs.to_dict()
    assert expected["line_num_coeff"][7] != expected["line_num_coeff"][10]
    for name, value in expected.items():
        assert found[name.upper()] == pytest.approx(value), name


@pytest.mark.parametrize(
    ("step", "line", "sample"), [(1, 1234 - 100, 4321 - 200), (2, (1234 - 100) / 2, (4321 - 200) / 2)]
)
def test_coefficients_of_a_chip_are_moved_to_its_pixels(make_nitf, open_nitf, step, line, sample):
    """A chip that begins at line 100 and sample 200; GDAL leaves the coefficients those of the full image."""
    chip = jbpy.core.tre_factory("ICHIPB")
    values = {"XFRM_FLG": 0, "SCALE_FACTOR": step, "ANAMRPH_CORR": 0, "SCANBLK_NUM": 0, "FI_ROW": 5000, "FI_COL": 6000}
    first = 100 + step / 2, 200 + step / 2
    ends = {"OP": (0.5, 0.5, 9.5, 19.5), "FI": (*first, first[0] + 9 * step, first[1] + 19 * step)}
    for kind, (top, left, bottom, right) in ends.items():
        places = {"11": (top, left), "12": (top, right), "21": (bottom, left), "22": (bottom, right)}
        for corner, (row, column) in places.items():
            values |= {f"{kind}_ROW_{corner}": row, f"{kind}_COL_{corner}": column}
    for name, value in values.items():
        chip[name].value = value
    chip.finalize()
    found = open_nitf(make_nitf((DATA, PLAIN), tres=[raw_tre("RPC00B", rpc_bytes()), chip]))["image_0"].attrs["rpc"]
    # the centre of a pixel counts as a whole number
    assert found["LINE_OFF"] == pytest.approx(line + (0.5 / step - 0.5))
    assert found["SAMP_OFF"] == pytest.approx(sample + (0.5 / step - 0.5))
    assert (found["LINE_SCALE"], found["SAMP_SCALE"]) == pytest.approx((5000 / step, 6000 / step))


def test_extensions_have_all_their_fields(make_nitf, open_nitf):
    blocka = jbpy.core.tre_factory("BLOCKA")
    blocka["L_LINES"].value = 33
    blocka.finalize()
    text = raw_tre("ABCDEF", b"a text of its own")
    binary = raw_tre("BINARY", bytes(range(20)))
    csdida = raw_tre("CSDIDA", b"25MAR2009QB021000000MA0000" + b"20090325000000" * 2 + b"0102NY01.2345678")
    path = make_nitf((DATA, PLAIN), tres=[blocka, text, binary, csdida])
    found = {tre["tag"]: tre for tre in open_nitf(path)["image_0"].attrs["tres"]}
    assert found["BLOCKA"]["fields"]["L_LINES"] == 33
    assert {"FRLC_LOC", "LRLC_LOC", "LRFC_LOC", "FRFC_LOC"} <= set(found["BLOCKA"]["fields"])
    assert found["ABCDEF"]["text"] == "a text of its own"
    assert len(csdida["TREDATA"].value) == 70
    assert found["CSDIDA"]["fields"]["DAY"] == 25
    assert found["CSDIDA"]["fields"]["SOFTWARE_VERSION"] == "01.2345678"
    assert found["BINARY"]["base64"] == "AAECAwQFBgcICQoLDA0ODxAREhM="


def test_a_damaged_extension_costs_itself_only(make_nitf, open_nitf):
    data = make_nitf((DATA, PLAIN), tres=[raw_tre("ABCDEF", b"first"), raw_tre("GHIJKL", b"second")])
    data.write_bytes(data.read_bytes().replace(b"GHIJKL00006", b"GHIJKL99999"))
    with pytest.warns(UserWarning, match="GHIJKL"):
        group = open_nitf(data)
    assert [tre["tag"] for tre in group["image_0"].attrs["tres"]] == ["ABCDEF"]
    assert any("GHIJKL" in reason for reason in group["image_0"].attrs["metadata_refused"])


def test_headers_security_and_comments_are_attributes(make_nitf, open_nitf):
    fields = {
        "NICOM": 1,
        "ICOM1": "a remark",
        "ISCLAS": "U",
        "ISCTLH": "XX",
        "ILOC": (3, 4),
        "IID2": "second",
    }
    group = open_nitf(make_nitf((DATA, PLAIN | fields)))
    found = group["image_0"].attrs
    assert found["comments"] == ["a remark"]
    assert found["security"] == {"ISCLAS": "U", "ISCTLH": "XX"}
    assert found["nitf"]["ILOC"] == "0000300004"
    assert (found["nitf"]["IALVL"], found["nitf"]["IID2"]) == (0, "second")
    assert group.attrs["nitf"]["OSTAID"] == "test"
    assert group.attrs["security"]["FSCLAS"] == "U"


RAMP = [bytes(range(256)), bytes(reversed(range(256))), bytes(value // 2 for value in range(256))]


def test_a_lookup_table_is_a_colour_table_or_read(make_nitf, open_nitf):
    path = make_nitf((DATA, PLAIN | {"IREP": "RGB/LUT"}), luts=RAMP)
    found = open_nitf(path)["image_0/data"]
    assert found.attrs["color_table"][3] == [3, 252, 1, 255]
    assert bytes(found[...].ravel()) == DATA
    colours = open_nitf(path, expand_palette=True)["image_0/data"]
    assert colours.shape == (3, ROWS, COLUMNS)
    table = np.array([list(lut) for lut in RAMP], np.uint8)
    np.testing.assert_array_equal(colours[...], table[:, np.frombuffer(DATA, np.uint8).reshape(ROWS, COLUMNS)])
    with rasterio.open(path) as gdal:
        assert gdal.colormap(1)[3] == tuple(found.attrs["color_table"][3])


def test_every_image_is_a_group_and_one_that_is_not_read_is_named(make_nitf, open_nitf):
    other = (bytes(6), {"NROWS": 2, "NCOLS": 3})
    broken = (bytes(6), {"NROWS": 2, "NCOLS": 3, "IC": "C7", "COMRAT": "01.0"})
    with pytest.warns(UserWarning, match=r"image_1 is left out: image 1 IC: 'C7'"):
        group = open_nitf(make_nitf((DATA, PLAIN), broken, other))
    assert sorted(group) == ["image_0", "image_2"]
    assert group["image_2/data"].shape == (2, 3)
    (refused,) = group.attrs["refused"]
    assert refused["image"] == "image_1"
    assert "C7" in refused["reason"]


def test_smaller_versions_beside_the_file_are_levels(make_nitf, open_nitf):
    first = make_nitf(corners(BOX), name="image.r0")
    make_nitf((bytes(50), {"NROWS": 5, "NCOLS": 10}), name="image.r1")
    make_nitf((bytes(range(15)), {"NROWS": 3, "NCOLS": 5}), name="image.r2")
    group = open_nitf(first)
    assert [group[f"image_0/{level}/data"].shape for level in range(3)] == [(10, 20), (5, 10), (3, 5)]
    assert bytes(group["image_0/2/data"][...].ravel()) == bytes(range(15))
    assert [level["asset"] for level in group["image_0"].attrs["multiscales"]["layout"]] == ["0", "1", "2"]
    assert "data" in open_nitf(first, overviews=False)["image_0"]


NAMES = [
    ("image.r0", "image.r{}"),
    ("image.ntf.r0", "image.ntf.r{}"),
    ("image.ntf", "image.ntf.r{}"),
    ("IMAGE.R0", "IMAGE.R{}"),
    ("image.NTF.r0", "image.NTF.r{}"),
]


@pytest.mark.parametrize(("first", "others"), NAMES)
@pytest.mark.parametrize("placed", [False, True])
def test_smaller_versions_are_those_that_gdal_finds(make_nitf, open_nitf, first, others, placed):
    path = make_nitf(corners(BOX), name=first)
    for number, (rows, columns) in enumerate([(5, 10), (3, 5)], start=1):
        place = {"ICORDS": "G", "IGEOLO": BOX} if placed else {}
        make_nitf((bytes(rows * columns), {"NROWS": rows, "NCOLS": columns} | place), name=others.format(number))
    with rasterio.open(path) as gdal:
        count, bounds = len(gdal.overviews(1)), gdal.bounds
    image = open_nitf(path)["image_0"]
    assert [level for level, _ in sorted(image.groups())] == [str(number) for number in range(count + 1)]
    for level in image.attrs["multiscales"]["layout"]:
        assert level["spatial:transform"] == image[level["asset"]].attrs["spatial:transform"]
        assert image[level["asset"]].attrs["proj:code"] == "EPSG:4326"
        if not placed:
            assert image[level["asset"]].attrs["spatial:bbox"] == pytest.approx(bounds)
            numbers = image[f"{level['asset']}/spatial_ref"].attrs["GeoTransform"].split()
            a, _, c, _, e, f = level["spatial:transform"]
            assert [float(number) for number in numbers] == [c, a, 0, f, 0, e]


def test_upper_case_names_go_on_in_their_case(make_nitf, open_nitf):
    path = make_nitf(corners(BOX), name="IMAGE.NTF")
    make_nitf((bytes(50), {"NROWS": 5, "NCOLS": 10}), name="IMAGE.NTF.R1")
    assert sorted(name for name, _ in open_nitf(path)["image_0"].groups()) == ["0", "1"]


def test_a_smaller_version_has_none_of_its_own(make_nitf, open_nitf):
    path = make_nitf(corners(BOX), name="image.ntf.r1")
    make_nitf((bytes(50), {"NROWS": 5, "NCOLS": 10}), name="image.ntf.r2")
    make_nitf((bytes(50), {"NROWS": 5, "NCOLS": 10}), name="image.ntf.r1.r1")
    assert "data" in open_nitf(path)["image_0"]


@pytest.mark.parametrize("heights", [(6, 6, 4), (7, 5, 4), (1, 1, 1)])
def test_parts_of_one_image_are_joined(make_nitf, open_nitf, heights):
    pixels = np.random.default_rng(1).normal(size=(sum(heights), 9, 2)).astype(">f4")
    tops = [sum(heights[:number]) for number in range(len(heights))]
    header = {
        "NCOLS": 9,
        "NBPP": 32,
        "PVTYPE": "R",
        "IMODE": "P",
        "NBANDS": 2,
        "ISUBCAT00001": "I",
        "ISUBCAT00002": "Q",
    }
    images = [
        (pixels[top : top + height].tobytes(), header | {"NROWS": height, "IID1": f"SICD{number + 1:03}"})
        for number, (top, height) in enumerate(zip(tops, heights, strict=True))
    ]
    group = open_nitf(make_nitf(*images))
    assert list(group) == ["image_0"]
    found = group["image_0/data"]
    np.testing.assert_array_equal(found[...], pixels[..., 0] + 1j * pixels[..., 1])
    assert group["image_0"].attrs["segments"] == [0, 1, 2]


def test_a_part_that_no_chunk_height_divides_is_read_over_its_end(make_nitf, open_nitf):
    pixels = np.random.default_rng(2).integers(0, 1 << 16, (2 * 523, 600)).astype(">u2")
    header = {"NROWS": 523, "NCOLS": 600, "NBPP": 16}
    images = [
        (part.tobytes(), header | {"IID1": f"SIDD00100{number + 1}"}) for number, part in enumerate(np.split(pixels, 2))
    ]
    found = open_nitf(make_nitf(*images))["image_0/data"]
    assert found.chunks[0] > 1
    assert math.gcd(523, found.chunks[0]) == 1
    np.testing.assert_array_equal(found[...], pixels)


def test_xml_and_texts_are_attributes(make_nitf, open_nitf, make_bytes):
    file = jbpy.Jbp().load(io.BytesIO(make_bytes((DATA, PLAIN))))
    xml = b"<SICD><CollectionInfo/></SICD>"
    file["FileHeader"]["NUMDES"].value = 1
    file["FileHeader"]["LD001"].value = len(xml)
    subheader = jbpy.core.des_subheader_factory("XML_DATA_CONTENT", 1)
    file["DataExtensionSegments"][0].set_subheader(subheader)
    file["FileHeader"]["NUMT"].value = 1
    file["FileHeader"]["LT001"].value = 5
    file.finalize()
    out = io.BytesIO()
    file.dump(out)
    for part, data in (
        (file["ImageSegments"][0]["Data"], DATA),
        (file["TextSegments"][0]["Data"], b"hello"),
        (file["DataExtensionSegments"][0]["DESDATA"], xml),
    ):
        out.seek(part.get_offset())
        out.write(data)
    path = make_nitf((DATA, PLAIN))
    path.write_bytes(out.getvalue())
    found = open_nitf(path).attrs
    assert found["xml"] == [xml.decode()]
    assert found["texts"][0]["text"] == "hello"
    assert found["extensions"][0]["DESID"] == "XML_DATA_CONTENT"
