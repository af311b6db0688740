"""GeoTIFF tags against what GDAL makes of the same tags in a file written by tifffile."""

import io
import math

import numpy as np
import pytest
import rasterio
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st

from jnrrdz.core.crs_geokeys import GeoKey, GeoKeys, GroundControlPoint, RasterType, parse_geokeys, placement
from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.tags import Tag

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

UTM = [(1024, 0, 1, 1), (1025, 0, 1, 1), (3072, 0, 1, 32633)]


def directory(entries, count=None, head=(1, 1, 0)):
    return [*head, len(entries) if count is None else count, *(number for entry in entries for number in entry)]


def gdal(geokeys, doubles=(), ascii_="", places=((), (), ())):
    """What rasterio sees: EPSG code, affine, control points."""
    tags = [
        (Tag.GeoKeyDirectory, "H", geokeys),
        (Tag.GeoDoubleParams, "d", doubles),
        (Tag.ModelPixelScale, "d", places[0]),
        (Tag.ModelTiepoint, "d", places[1]),
        (Tag.ModelTransformation, "d", places[2]),
    ]
    extra = [(int(tag), kind, len(values), tuple(values), True) for tag, kind, values in tags if len(values)]
    extra += [(int(Tag.GeoAsciiParams), "s", 0, ascii_, True)] if ascii_ else []
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, np.zeros((8, 8), "u1"), extratags=extra, metadata=None)
    with rasterio.MemoryFile(buffer.getvalue()) as memory, memory.open() as image:
        points, gcp_crs = image.gcps
        crs = image.crs or gcp_crs
        found = tuple(GroundControlPoint(p.col, p.row, p.x, p.y, p.z) for p in points)
        return crs.to_epsg() if crs else None, tuple(image.transform)[:6], found


READABLE = {
    "plain": (directory(UTM), [], ""),
    "a later revision": (directory(UTM, head=(1, 9, 0)), [], ""),
    "unsorted": (directory(UTM[::-1]), [], ""),
    "a key twice": (directory([*UTM, (3072, 0, 1, 32634)]), [], ""),
    "more numbers than keys": ([*directory(UTM), 0, 0, 0, 0], [], ""),
    "a citation one too long": (directory([*UTM, (1026, 34737, 6, 0)]), [], "abcd|"),
    "a citation much too long": (directory([*UTM, (1026, 34737, 11, 0)]), [], "abcd|"),
    "an empty citation": (directory([*UTM, (1026, 34737, 0, 0)]), [], "abcd|"),
    "no doubles": (directory([*UTM, (3082, 34736, 0, 0)]), [1.0], ""),
}


@pytest.mark.parametrize(("tag", "doubles", "ascii_"), READABLE.values(), ids=READABLE)
def test_reads_what_gdal_reads(tag, doubles, ascii_):
    keys = parse_geokeys(tag, doubles, ascii_)
    assert keys.get(GeoKey.ProjectedCRSGeoKey) == gdal(tag, doubles, ascii_)[0]
    assert keys.revision == tuple(tag[1:3])


MALFORMED = {
    "a header alone": ([1, 1, 0], [], "", "3 numbers"),
    "version 2": (directory(UTM, head=(2, 1, 0)), [], "", "version 2"),
    "too many keys": (directory(UTM, count=9), [], "", "9 keys announced"),
    "a key cut short": (directory(UTM)[:-2], [], "", "3 keys announced"),
    "doubles out of range": (directory([*UTM, (3082, 34736, 1, 5)]), [1.0], "", "ProjFalseEastingGeoKey"),
    "doubles absent": (directory([*UTM, (3082, 34736, 1, 0)]), [], "", "ProjFalseEastingGeoKey"),
    "doubles over the end": (directory([*UTM, (2062, 34736, 7, 0)]), [1.0] * 3, "", "GeogTOWGS84GeoKey"),
    "a citation beyond the end": (directory([*UTM, (1026, 34737, 1, 20)]), [], "abcd|", "GTCitationGeoKey"),
    "two values in one place": (directory([(1024, 0, 2, 1), *UTM[1:]]), [], "", "GTModelTypeGeoKey"),
    "shorts out of range": (directory([*UTM, (3076, 34735, 1, 99)]), [], "", "ProjLinearUnitsGeoKey"),
    "an unknown tag": (directory([*UTM, (5000, 12345, 1, 0)]), [], "", "GeoKey 5000"),
}


@pytest.mark.parametrize(("tag", "doubles", "ascii_", "said"), MALFORMED.values(), ids=MALFORMED)
def test_refuses_what_gdal_refuses(tag, doubles, ascii_, said):
    assert gdal(tag, doubles, ascii_)[0] is None
    with pytest.raises(MalformedError, match=said):
        parse_geokeys(tag, doubles, ascii_)


def test_values_of_every_kind():
    tag = directory(
        [(1024, 0, 1, 2), (2049, 34737, 4, 0), (2062, 34736, 3, 1), (2059, 34736, 1, 0), (1026, 34737, 2, 4)]
    )
    keys = parse_geokeys(tag, [298.3, 1.0, 2.0, 3.0], "abc|d|\0")
    assert dict(keys.values) == {1024: 2, 2049: "abc", 2062: (1.0, 2.0, 3.0), 2059: 298.3, 1026: "d"}
    assert keys.get("GeogTOWGS84GeoKey") == (1.0, 2.0, 3.0)
    assert keys.get("ProjectedCRSGeoKey") is None


texts = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="|"), max_size=9)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.one_of(st.integers(0, 65535), numbers, st.lists(numbers, min_size=2, max_size=7).map(tuple), texts)


@given(st.dictionaries(st.integers(1, 65535), values, max_size=9))
def test_reads_back_what_the_standard_says_to_write(wanted):
    entries, doubles, ascii_ = [], [], ""
    for key, value in wanted.items():
        if isinstance(value, str):
            entries.append((key, 34737, len(value) + 1, len(ascii_)))
            ascii_ += value + "|"
        elif isinstance(value, int):
            entries.append((key, 0, 1, value))
        else:
            several = value if isinstance(value, tuple) else (value,)
            entries.append((key, 34736, len(several), len(doubles)))
            doubles.extend(several)
    assert dict(parse_geokeys(directory(entries), doubles, ascii_).values) == wanted


@given(st.lists(st.integers(0, 65535) | st.sampled_from([0, 1, 34735, 34736, 34737]), max_size=40), texts)
def test_random_directories_are_read_or_malformed(tag, ascii_):
    for head in (tag, [1, 1, 0, len(tag) // 4, *tag]):
        try:
            found = parse_geokeys(head, [1.0, 2.0], ascii_).values
        except MalformedError:
            continue
        assert all(isinstance(value, (int, float, str, tuple)) for value in found.values())


AREA = GeoKeys({GeoKey.GTRasterTypeGeoKey: RasterType.RasterPixelIsArea})
POINT = GeoKeys({GeoKey.GTRasterTypeGeoKey: RasterType.RasterPixelIsPoint})
ORIGIN = [0, 0, 0, 10, 20, 0]
MATRIX = [1, 2, 0, 3, 4, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1]
PLACES = {
    "scale and tiepoint": ([2, 3, 0], ORIGIN, []),
    "a tiepoint inside": ([2, 3, 0], [1, 2, 0, 10, 20, 0], []),
    "south-up": ([2, -3, 0], ORIGIN, []),
    "east to west": ([-2, 3, 0], ORIGIN, []),
    "a scale of two": ([2, 3], ORIGIN, []),
    "a scale of nothing": ([0, 0, 0], ORIGIN, []),
    "nothing beside a matrix": ([0, 0, 0], ORIGIN, MATRIX),
    "no tiepoint": ([2, 3, 0], [], []),
    "half a tiepoint": ([2, 3, 0], [1, 2, 0], []),
    "two tiepoints": ([2, 3, 0], [*ORIGIN, 1, 1, 0, 99, 17, 0], []),
    "a matrix": ([], [], MATRIX),
    "scale before matrix": ([2, 3, 0], ORIGIN, MATRIX),
    "matrix before tiepoint": ([], ORIGIN, MATRIX),
    "half a matrix": ([], [], MATRIX[:12]),
    "control points": ([], [*ORIGIN, 7, 1, 0, 99, 17, 5], []),
    "one control point": ([], [1, 2, 0, 10, 20, 3], []),
    "control points and a rest": ([], [*ORIGIN, 7, 1], []),
    "nothing": ([], [], []),
}


@pytest.mark.parametrize("keys", [AREA, POINT], ids=["area", "point"])
@pytest.mark.parametrize(("scale", "tiepoints", "matrix"), PLACES.values(), ids=PLACES)
def test_places_pixels_where_gdal_does(keys, scale, tiepoints, matrix):
    kind = int(keys.get(GeoKey.GTRasterTypeGeoKey))
    found = placement(keys, scale, tiepoints, matrix)
    tag = directory([(1024, 0, 1, 1), (1025, 0, 1, kind), (3072, 0, 1, 32633)])
    _, affine, points = gdal(tag, places=(scale, tiepoints, matrix))
    # rasterio has no word for an affine that is absent
    assert (found.affine or (1, 0, 0, 0, 1, 0)) == affine
    assert found.gcps == points
    assert found.is_point == (kind == RasterType.RasterPixelIsPoint)


coordinates = st.floats(-1e7, 1e7, allow_subnormal=False)
sizes = st.floats(1e-6, 1e6)


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.lists(coordinates, min_size=6, max_size=6), st.sampled_from([AREA, POINT]))
def test_any_scale_and_tiepoint_equal_gdal(x, y, tiepoint, keys):
    tag = directory([(1025, 0, 1, int(keys.get(GeoKey.GTRasterTypeGeoKey)))])
    _, affine, _ = gdal(tag, places=([x, y, 0], tiepoint, ()))
    found = placement(keys, [x, y, 0], tiepoint, []).affine
    largest = max(abs(number) for number in (*tiepoint, 1)) * max(x, y, 1)
    assert found == pytest.approx(affine, rel=1e-12, abs=1e-15 * largest)


@pytest.mark.parametrize(
    ("scale", "tiepoints", "matrix"),
    [
        ([math.nan, 3, 0], ORIGIN, []),
        ([2, 3, 0], [0, 0, 0, math.inf, 0, 0], []),
        ([], [], [1, 2, 0, 3, 2, 4, 0, 6, *[0] * 8]),
        ([], [], [0] * 16),
    ],
    ids=["a scale of NaN", "an infinite tiepoint", "onto a line", "onto a point"],
)
def test_refuses_what_places_nothing(scale, tiepoints, matrix):
    with pytest.raises(MalformedError):
        placement(AREA, scale, tiepoints, matrix)
