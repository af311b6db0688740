"""Extensions that say better than IGEOLO where an image lies, against GDAL."""

import json
import struct

import jbpy
import numpy as np
import pytest
import rasterio
from pyproj import CRS, Transformer

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:a georeference is left out"),
]

ROWS, COLUMNS = 10, 20
DATA = bytes(range(ROWS * COLUMNS))
PLAIN = {"NROWS": ROWS, "NCOLS": COLUMNS}
BOX = "010000N0020000E010000N0030000E005000N0030000E005000N0020000E"
TURNED = {"north": (0, 3, 2, 1), "pairs": (0, 3, 1, 2), "other": (1, 0, 3, 2)}


def raw_tre(tag, data):
    tre = jbpy.core.UnknownTre(tag)
    tre["TREL"].value = len(data)
    tre["TREDATA"].value = data
    return tre


def blocka(corners, lines=ROWS):
    """Return a BLOCKA of the corners in IGEOLO's order; its own begins with the upper right."""
    upper_left, upper_right, lower_right, lower_left = corners
    places = f"{upper_right}{lower_right}{lower_left}{upper_left}"
    return raw_tre("BLOCKA", f"01{1:05}{lines:05}{0:03}{0:03}{'':16}{places}{'':5}".encode())


DECIMAL = ["+01.000000+002.000000", "+01.000000+003.000000", "+00.833333+003.000000", "+00.833333+002.000000"]
SECONDS = ["N010000.00E0020000.00", "N010000.00E0030000.00", "N005000.25E0030000.00", "N005000.25E0020000.00"]
SOUTH_WEST = ["S010000.50W0030000.00", "S010000.50W0020000.00", "S012000.00W0020000.00", "S012000.00W0030000.00"]
SKEWED = ["+01.000000+002.000000", "+01.010000+003.000000", "+00.833333+003.100000", "+00.833333+002.000000"]


def assert_as_gdal(path, group):
    """Compare affine, control points and CRS with GDAL's; return what was compared."""
    mapping = group["image_0/spatial_ref"].attrs if "spatial_ref" in group["image_0"] else {}
    with rasterio.open(path) as gdal:
        affine, (points, _), crs = gdal.transform.to_gdal(), gdal.gcps, gdal.crs or gdal.gcps[1]
    if points:
        features = json.loads(mapping["gcps"])["features"]
        for feature, point in zip(features, points, strict=True):
            place = feature["properties"]
            assert (place["row"], place["col"]) == (point.row, point.col)
            assert feature["geometry"]["coordinates"][:2] == pytest.approx([point.x, point.y], abs=1e-9)
        return "points"
    if affine == (0, 1, 0, 0, 0, 1):
        assert "GeoTransform" not in mapping
        return "nothing"
    assert [float(number) for number in mapping["GeoTransform"].split()] == pytest.approx(affine, rel=1e-12, abs=1e-9)
    ours, theirs = CRS.from_wkt(mapping["crs_wkt"]), CRS.from_wkt(crs.to_wkt())
    assert ours.is_geographic == theirs.is_geographic
    grid = np.meshgrid(*(affine[0] + affine[1] * np.arange(3), affine[3] + affine[5] * np.arange(3)))
    there = [Transformer.from_crs(one, "EPSG:4326", always_xy=True).transform(*grid) for one in (ours, theirs)]
    np.testing.assert_allclose(there[0], there[1], atol=1e-9)
    return "affine"


@pytest.mark.parametrize("corners", [DECIMAL, SECONDS, SOUTH_WEST, SKEWED])
@pytest.mark.parametrize("igeolo", [None, BOX])
def test_corners_of_blocka(make_nitf, open_nitf, corners, igeolo):
    header = PLAIN | ({"ICORDS": "G", "IGEOLO": igeolo} if igeolo else {})
    path = make_nitf((DATA, header), tres=[blocka(corners)])
    assert assert_as_gdal(path, open_nitf(path)) == ("points" if corners is SKEWED else "affine")


@pytest.mark.parametrize(("corners", "lines"), [(DECIMAL, ROWS + 1), ([" " * 21] * 4, ROWS), (SECONDS, 0)])
def test_blocka_of_another_block_or_without_corners_changes_nothing(make_nitf, open_nitf, corners, lines):
    for header, expected in ((PLAIN, "nothing"), (PLAIN | {"ICORDS": "G", "IGEOLO": BOX}, "affine")):
        path = make_nitf((DATA, header), tres=[blocka(corners, lines)])
        assert assert_as_gdal(path, open_nitf(path)) == expected


def test_corners_of_blocka_that_are_none_are_named_and_igeolo_holds(make_nitf, open_nitf):
    path = make_nitf((DATA, PLAIN | {"ICORDS": "G", "IGEOLO": BOX}), tres=[blocka(["+99.000000+002.000000"] * 4)])
    with pytest.warns(UserWarning, match="BLOCKA|IGEOLO"):
        group = open_nitf(path)
    assert "no place on the Earth" in group["image_0"].attrs["georeference_refused"]
    assert "GeoTransform" in group["image_0/spatial_ref"].attrs


@pytest.mark.parametrize("igeolo", [None, BOX])
def test_origin_and_pixels_of_geolob(make_nitf, open_nitf, igeolo):
    header = PLAIN | ({"ICORDS": "G", "IGEOLO": igeolo} if igeolo else {})
    tre = raw_tre("GEOLOB", f"{36000:09}{72000:09}{2.5:+015.8f}{-1.25:+015.8f}".encode())
    path = make_nitf((DATA, header), tres=[tre, blocka(DECIMAL)])
    assert assert_as_gdal(path, open_nitf(path)) == "affine"


def rpfimg(data_start, parts):
    """Return the table of an RPF frame: numbers, lengths and places of its parts."""
    table = b"".join(struct.pack(">HII", *part) for part in parts)
    return struct.pack(">HIHHI", 14 + len(table), 14, len(parts), 10, data_start) + table


@pytest.mark.parametrize("header_at", [None, "wrong"])
@pytest.mark.parametrize("away", [0.0, 1.0])
def test_corners_of_an_rpf_frame(make_nitf, open_nitf, header_at, away):
    """They count if the header of the frame is where its table says, or if they are IGEOLO's, in short."""
    coverage = [1.00001 + away, 2.00002, 0.83331 + away, 2.00002, 1.00001 + away, 3.00003, 0.83331 + away, 3.00003]
    data = DATA + struct.pack(">8d", *coverage)
    header = PLAIN | {"ICORDS": "G", "IGEOLO": BOX, "NROWS": ROWS}

    def written(place):
        parts = [(130, 64, place), *([(128, 48, 50)] if header_at else [])]
        return make_nitf((data, header), tres=[raw_tre("RPFIMG", rpfimg(0, parts))])

    path = written(written(0).stat().st_size - 64)
    assert assert_as_gdal(path, open_nitf(path)) == "affine"
    west = float(open_nitf(path)["image_0/spatial_ref"].attrs["GeoTransform"].split()[0])
    assert (west == 2.00002) == (header_at is None or not away)


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3)])
def test_corners_whose_sides_cross_are_taken_by_where_they_lie(make_nitf, open_nitf, order):
    corners = [BOX[start : start + 15] for start in range(0, 60, 15)]
    path = make_nitf((DATA, PLAIN | {"ICORDS": "G", "IGEOLO": "".join(corners[number] for number in order)}))
    group = open_nitf(path)
    assert assert_as_gdal(path, group) == "affine"
    assert "order" in group["image_0"].attrs["georeference_remark"]


PROJECTIONS = {
    "AC": [-96, 29.5, 45.5, 23],
    "AK": [10, 52],
    "AL": [10, 52],
    "KA": [-96, 20, 60, 40],
    "LE": [-96, 33, 45, 39],
    "LI": [10, 30],
    "SA": [15],
    "TC": [9, 0.9996, 5],
}


def map_file(make_nitf, code, parameters, *, datum="WGE ", unit="M  "):
    """Return a file with the three extensions of a map: two in the file header, one in the image's."""
    geopsb = f"MAPM  {'World Geodetic System 1984':80}{datum}{'WGS 84':80}WE "
    geopsb += f"{'':80}    {'':80}    {0:015d}{'':3}{'':80}{0:04d}"
    numbers = "".join(f"{value:+015.8f}" for value in parameters)
    prjpsb = f"{'a projection':80}{code}{len(parameters)}{numbers}{500000:+015.4f}{1000:+015.4f}"
    maplob = raw_tre("MAPLOB", f"{unit}{30:05}{20:05}{440720:+015.4f}{3751320:+015.4f}".encode())
    path = make_nitf((DATA, PLAIN | {"ICORDS": "G", "IGEOLO": BOX}), tres=[maplob])
    file = jbpy.Jbp()
    with path.open("rb") as stream:
        file.load(stream)
    file["FileHeader"]["UDHDL"].value = 4
    for tag, text in (("GEOPSB", geopsb), ("PRJPSB", prjpsb)):
        file["FileHeader"]["UDHD"].append(raw_tre(tag, text.encode()))
    file.finalize()
    with path.open("w+b") as stream:
        file.dump(stream)
        stream.seek(file["ImageSegments"][0]["Data"].get_offset())
        stream.write(DATA)
    return path


@pytest.mark.parametrize("code", PROJECTIONS)
def test_a_map_in_a_projection(make_nitf, open_nitf, code):
    path = map_file(make_nitf, code, PROJECTIONS[code])
    assert assert_as_gdal(path, open_nitf(path)) == "affine"


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"parameters": [9, 0.9996]}, "PRJPSB NUM_PRJ"),
        ({"code": "LE", "parameters": [0, 40, -40, 0]}, "PRJPSB"),
        ({"code": "ZZ"}, "PRJPSB PCO"),
        ({"datum": "EURM"}, "GEOPSB DCD"),
        ({"unit": "DM "}, "MAPLOB UNILOA"),
    ],
)
def test_a_map_that_is_not_understood_is_named_and_igeolo_holds(make_nitf, open_nitf, choices, named):
    path = map_file(make_nitf, **{"code": "TC", "parameters": PROJECTIONS["TC"]} | choices)
    with pytest.warns(UserWarning, match=named):
        group = open_nitf(path)
    assert named in group["image_0"].attrs["georeference_refused"]
    assert group["image_0"].attrs["proj:code"] == "EPSG:4326"
