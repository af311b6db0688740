"""Corners, grid references and coefficients against pyproj, GDAL and worked examples."""

import math

import pyproj
import pytest

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nitf.corners import LOWEST, parse_igeolo, parse_mgrs

G = "322030N0851530E" + "322030S0851530W" * 3


@pytest.mark.parametrize(
    ("text", "kind", "is_20", "epsg", "first"),
    [
        (G, "G", False, 4326, (85.258333, 32.341667)),
        ("+32.341-085.258" * 4, "D", False, 4326, (-85.258, 32.341)),
        ("172330853807070" * 4, "N", False, 32617, (233085, 3807070)),
        ("172330853807070" * 4, "S", False, 32717, (233085, 3807070)),
        ("33UVR9182076213" * 4, "U", False, 32633, (491820, 5576213)),
        (G, "C", True, 4326, (85.258333, 32.515859)),
    ],
)
def test_corners(text, kind, is_20, epsg, first):
    found = parse_igeolo(text, kind, is_20=is_20)
    assert found.epsg == epsg
    assert found.points[0] == pytest.approx(first, rel=1e-6)
    assert len(found.points) == 4


def test_geocentric_latitudes_are_those_that_proj_converts():
    """A point at a geocentric latitude, found from its geodetic one by way of earth-centred coordinates."""
    found = parse_igeolo(G, "C", is_20=True).points[0]
    to_xyz = pyproj.Transformer.from_crs(4979, 4978, always_xy=True)
    x, y, z = to_xyz.transform(*found, 0)
    geocentric = math.degrees(math.atan2(z, math.hypot(x, y)))
    assert geocentric == pytest.approx(32 + 20 / 60 + 30 / 3600, abs=1e-6)


def test_none_is_spelt_otherwise_in_2_0():
    assert parse_igeolo("172330853807070" * 4, "N", is_20=True) is None
    assert parse_igeolo(G, " ") is None
    assert parse_igeolo(" " * 60, "G") is None


@pytest.mark.parametrize(
    ("text", "kind", "error"),
    [
        ("x" * 60, "G", MalformedError),
        ("992030N0851530E" * 4, "G", MalformedError),
        ("172330853807070" * 3 + "182330853807070", "N", UnsupportedError),
        ("612330853807070" * 4, "N", UnsupportedError),
        ("17SKU0000000000" * 3 + "17HKU0000000000", "U", JnrrdzError),
        (G, "Q", UnsupportedError),
    ],
)
def test_what_is_no_place_is_refused(text, kind, error):
    with pytest.raises(error):
        parse_igeolo(text, kind)


def squares(zone, latitude):
    """Return the letters of the square at the middle of a zone, by the scheme of the standard."""
    longitude = zone * 6 - 183
    base = 32600 if latitude >= 0 else 32700
    to_utm = pyproj.Transformer.from_crs(4326, base + zone, always_xy=True)
    easting, northing = to_utm.transform(longitude + 0.4, latitude)
    sets = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")[(zone - 1) % 3]
    rows = "ABCDEFGHJKLMNPQRSTUV" if zone % 2 else "FGHJKLMNPQRSTUVABCDE"
    band = "CDEFGHJKLMNPQRSTUVWX"[min(int((latitude + 80) // 8), 19)]
    column = sets[int(easting // 100_000) - 1]
    row = rows[int(northing // 100_000) % 20]
    text = f"{zone:02}{band}{column}{row}{int(easting % 100_000):05}{int(northing % 100_000):05}"
    return text, easting, northing


@pytest.mark.parametrize("zone", [1, 2, 17, 30, 31, 60])
@pytest.mark.parametrize("latitude", [-79.5, -72.1, -40, -8.01, -0.1, 0.1, 7.9, 33, 56, 71.9, 83])
def test_grid_references_are_the_places_that_proj_projects(zone, latitude):
    text, easting, northing = squares(zone, latitude)
    found = parse_mgrs(text)
    assert (found.zone, found.is_north) == (zone, latitude >= 0)
    assert (found.easting, found.northing) == (int(easting), int(northing))


def test_a_known_reference():
    """The White House in the standard's own notation."""
    found = parse_mgrs("18SUJ2339407396")
    longitude, latitude = pyproj.Transformer.from_crs(32618, 4326, always_xy=True).transform(*found[2:])
    assert (longitude, latitude) == pytest.approx((-77.0365, 38.8977), abs=1e-3)


@pytest.mark.parametrize("text", ["18SIJ2339407396", "18SAJ2339407396", "18YUJ2339407396", "18SUJ23394", ""])
def test_what_is_no_reference_is_refused(text):
    with pytest.raises(MalformedError):
        parse_mgrs(text)


def test_every_band_has_its_least_northing():
    assert "".join(LOWEST) == "CDEFGHJKLMNPQRSTUVWX"
