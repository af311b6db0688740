"""CRS from GeoTIFF keys against what GDAL makes of the same keys.

The golden file has the keys of real files with the WKT that rasterio 1.5.2 (GDAL 3.12.2) read in them.
"""

import io
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pyproj
import pytest
import rasterio
import tifffile
from rasterio.crs import CRS

from jnrrdz.core.crs import Crs, cf_attributes, crs_from_geokeys, crs_from_wkt
from jnrrdz.core.crs_geokeys import GeoKey, GeoKeys, citation, parse_geokeys, placement
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "geokeys.json").read_text())


def theirs(crs):
    return pyproj.CRS(crs.to_wkt(version="WKT2_2019"))


def tags_of(data):
    tags = tifffile.TiffFile(io.BytesIO(data)).pages[0].tags

    def value(code):
        return tags[code].value if code in tags else ()

    return value(34735), value(34736), value(34737) or ""


def alike(found, gdals):
    """Whether two CRSs are equal, or have one EPSG code where pyproj's PROJ is older than GDAL's.

    EPSG has given some of its CRSs other names since.
    """
    if found != gdals and tuple(map(int, pyproj.__proj_version__.split(".")[:2])) < (9, 8):
        return found.to_json_dict()["id"] == gdals.to_json_dict()["id"]
    return found == gdals


@pytest.mark.parametrize("case", GOLDEN, ids=[case["file"] for case in GOLDEN])
def test_real_keys_give_the_crs_that_gdal_reads(case):
    keys = parse_geokeys(case["directory"], case["doubles"], case["ascii"])
    assert alike(pyproj.CRS(crs_from_geokeys(keys).wkt), pyproj.CRS(case["wkt"]))


@pytest.mark.parametrize("case", GOLDEN, ids=[case["file"] for case in GOLDEN])
def test_wkt_comes_back_equal_through_gdal(case):
    keys = parse_geokeys(case["directory"], case["doubles"], case["ascii"])
    wkt = crs_from_geokeys(keys).wkt
    assert alike(pyproj.CRS(wkt), theirs(CRS.from_wkt(wkt)))


DEFINITIONS = {
    "tmerc": "+proj=tmerc +lat_0=1 +lon_0=2 +k=0.9 +x_0=3 +y_0=4",
    "tmerc in feet": "+proj=tmerc +lat_0=1 +lon_0=2 +k=0.9 +x_0=3000 +y_0=4 +units=us-ft",
    "omerc A": "+proj=omerc +no_uoff +lat_0=4 +lonc=115 +alpha=53 +gamma=52 +k=0.99 +x_0=7 +y_0=8",
    "omerc B": "+proj=omerc +lat_0=4 +lonc=115 +alpha=53 +gamma=52 +k=0.99 +x_0=7 +y_0=8",
    "laborde": "+proj=labrd +lat_0=-18 +lon_0=46 +azi=18 +k_0=0.99",
    "merc A": "+proj=merc +lon_0=1 +k=0.9",
    "merc B": "+proj=merc +lon_0=1 +lat_ts=20",
    "lcc 2SP": "+proj=lcc +lat_0=1 +lat_1=2 +lat_2=30 +lon_0=5 +x_0=6000 +units=ft",
    "lcc 1SP": "+proj=lcc +lat_1=1 +lat_0=1 +k_0=0.9 +lon_0=5",
    "laea": "+proj=laea +lat_0=1 +lon_0=3",
    "aea": "+proj=aea +lat_1=1 +lat_2=30 +lat_0=9 +lon_0=8 +x_0=7",
    "aeqd": "+proj=aeqd +lat_0=1 +lon_0=3",
    "eqdc": "+proj=eqdc +lat_1=1 +lat_2=30 +lat_0=9 +lon_0=8",
    "stere": "+proj=stere +lat_0=1 +lon_0=3 +k=0.9",
    "polar A": "+proj=stere +lat_0=90 +k=0.99 +lon_0=3",
    "polar A south": "+proj=stere +lat_0=-90 +k=0.99",
    "polar B": "+proj=stere +lat_0=90 +lat_ts=70 +lon_0=3",
    "polar B south": "+proj=stere +lat_0=-90 +lat_ts=-71",
    "sterea": "+proj=sterea +lat_0=1 +lon_0=3 +k=0.9",
    "eqc": "+proj=eqc +lat_ts=10 +lon_0=3",
    "cass": "+proj=cass +lat_0=1 +lon_0=3",
    "gnom": "+proj=gnom +lat_0=1 +lon_0=3",
    "mill": "+proj=mill +lon_0=3",
    "ortho": "+proj=ortho +lat_0=1 +lon_0=3",
    "poly": "+proj=poly +lat_0=1 +lon_0=3",
    "robin": "+proj=robin +lon_0=3",
    "sinu": "+proj=sinu +lon_0=3 +R=6371000",
    "vandg": "+proj=vandg +lon_0=3",
    "nzmg": "+proj=nzmg +lat_0=-41 +lon_0=173 +x_0=2510000 +y_0=6023150",
    "cea": "+proj=cea +lat_ts=30 +lon_0=3",
    "moon": "+proj=stere +lat_0=-90 +R=1737400",
    "ESRI string": "+proj=moll +lon_0=9",
    "geostationary": "+proj=geos +h=35785831 +lon_0=0 +ellps=GRS80",
    "datum shift": "+proj=utm +zone=33 +ellps=bessel +towgs84=1,2,3,4,5,6,7",
    "prime meridian": "+proj=longlat +ellps=bessel +pm=paris",
    "local": 'LOCAL_CS["mine",UNIT["metre",1]]',
    **{code: code for code in ("EPSG:32633", "EPSG:4326", "EPSG:4807", "EPSG:27572", "EPSG:3031", "EPSG:3857")},
    **{code: code for code in ("EPSG:2053", "EPSG:4978", "EPSG:4979", "EPSG:7415", "EPSG:5514", "EPSG:6529+6360")},
    **{code: code for code in ("ESRI:54009", "ESRI:102008", "ESRI:102113", "IAU_2015:49900")},
}


REGISTERED = {
    "EPSG:32633",
    "EPSG:4326",
    "EPSG:4807",
    "EPSG:27572",
    "EPSG:3031",
    "EPSG:3857",
    "EPSG:2053",
    "EPSG:4979",
} | {"EPSG:7415"}


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_what_gdal_writes_is_read_as_gdal_reads_it(definition):
    plain = definition.startswith("+")
    ellipsoid = "" if "+R" in definition or "+ellps" in definition else " +datum=WGS84"
    crs = CRS.from_user_input(f"{definition}{ellipsoid} +type=crs" if plain else definition)
    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", width=2, height=2, count=1, dtype="u1", crs=crs):
            pass
        keys = parse_geokeys(*tags_of(bytes(memory.getbuffer())))
        with memory.open() as image:
            expected = theirs(image.crs)
    found = crs_from_geokeys(keys)
    assert pyproj.CRS(found.wkt) == expected
    if definition in REGISTERED:
        assert found.code == definition


def keys_of(revision=0, **named):
    """The three tags of keys by name."""
    entries, doubles, ascii_ = [], [], ""
    for name, value in named.items():
        key = GeoKey[f"{name}GeoKey" if not name.endswith("GeoKey") else name]
        if isinstance(value, str):
            entries += [key, 34737, len(value) + 1, len(ascii_)]
            ascii_ += value + "|"
        elif isinstance(value, int):
            entries += [key, 0, 1, value]
        else:
            several = value if isinstance(value, tuple) else (value,)
            entries += [key, 34736, len(several), len(doubles)]
            doubles += several
    return [1, 1, revision, len(named), *(int(number) for number in entries)], doubles, ascii_


def gdal(directory, doubles, ascii_):
    extra = [(34735, "H", len(directory), tuple(directory), True)]
    extra += [(34736, "d", len(doubles), tuple(doubles), True)] if doubles else []
    extra += [(34737, "s", 0, ascii_, True)] if ascii_ else []
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, np.zeros((8, 8), "u1"), extratags=extra, metadata=None)
    with rasterio.MemoryFile(buffer.getvalue()) as memory, memory.open() as image:
        return theirs(image.crs)


PROJECTED = {"GTModelType": 1, "GeodeticCRS": 4326, "ProjectedCRS": 32767, "Projection": 32767, "ProjLinearUnits": 9001}
GEOGRAPHIC = {"GTModelType": 2, "GeodeticCRS": 32767, "GeogAngularUnits": 9102}
UTM = {"GTModelType": 1, "ProjectedCRS": 32633}
IMAGINE = "IMAGINE GeoTIFF Support\n(c) $Date$\nProjection Name = UTM\nUnits = feet\nGeoTIFF Units = feet"

AS_GDAL = {
    "a code without a model": ({"ProjectedCRS": 32633}, "EPSG:32633"),
    "a code in feet": (UTM | {"ProjLinearUnits": 9003}, None),
    "a code in half metres": (UTM | {"ProjLinearUnits": 32767, "ProjLinearUnitSize": 0.5}, None),
    "a code in Imagine's feet": (UTM | {"GTCitation": IMAGINE}, None),
    "a code with other axes": (
        UTM | {"EllipsoidSemiMajorAxis": 6378200.0, "EllipsoidInvFlattening": 298.3},
        "EPSG:32633",
    ),
    "a geographic code in grads": ({"GTModelType": 2, "GeodeticCRS": 4326, "GeogAngularUnits": 9105}, "EPSG:4326"),
    "a geographic code as projected": ({"GTModelType": 1, "ProjectedCRS": 4326}, "EPSG:4326"),
    "a projected code as geographic": ({"GTModelType": 2, "GeodeticCRS": 32633}, "EPSG:32633"),
    "a geographic 3D code": ({"GTModelType": 2, "GeodeticCRS": 4979}, "EPSG:4979"),
    "geocentric": ({"GTModelType": 3, "GeodeticCRS": 4978}, "EPSG:4978"),
    "geocentric by its datum": ({"GTModelType": 3, "GeodeticCRS": 4326}, None),
    "axes": (GEOGRAPHIC | {"EllipsoidSemiMajorAxis": 6378137.0, "EllipsoidSemiMinorAxis": 6356752.0}, None),
    "axes of a sphere": (GEOGRAPHIC | {"EllipsoidSemiMajorAxis": 6371000.0, "EllipsoidSemiMinorAxis": 6371000.0}, None),
    "no flattening": (GEOGRAPHIC | {"EllipsoidSemiMajorAxis": 6371000.0, "EllipsoidInvFlattening": math.inf}, None),
    "an ellipsoid": (GEOGRAPHIC | {"Ellipsoid": 7004}, None),
    "a datum": (GEOGRAPHIC | {"GeodeticDatum": 6269}, None),
    "a prime meridian": (GEOGRAPHIC | {"Ellipsoid": 7004, "PrimeMeridian": 8903}, None),
    "a longitude of one": (GEOGRAPHIC | {"Ellipsoid": 7004, "PrimeMeridianLongitude": 5.5}, None),
    "a shift of three": (GEOGRAPHIC | {"Ellipsoid": 7004, "GeogTOWGS84": (1.0, 2.0, 3.0)}, None),
    "a shift of a known datum": ({"GTModelType": 2, "GeodeticCRS": 4267, "GeogTOWGS84": (1.0, 2.0, 3.0)}, "EPSG:4267"),
    "Mercator by latitude": (PROJECTED | {"ProjMethod": 7, "ProjNatOriginLat": 20.0}, None),
    "Mercator by parallel": (PROJECTED | {"ProjMethod": 7, "ProjStdParallel1": 20.0, "ProjNatOriginLong": 5.0}, None),
    "polar by centre": (PROJECTED | {"ProjMethod": 15, "ProjCenterLat": 90.0, "ProjScaleAtNatOrigin": 0.994}, None),
    "polar south": (PROJECTED | {"ProjMethod": 15, "ProjNatOriginLat": -90.0, "ProjScaleAtNatOrigin": 0.994}, None),
    "conic by natural origin": (
        PROJECTED | {"ProjMethod": 8, "ProjStdParallel1": 20.0, "ProjStdParallel2": 40.0, "ProjNatOriginLat": 30.0},
        None,
    ),
    "conic by two origins": (
        PROJECTED
        | {"ProjMethod": 8, "ProjStdParallel1": 20.0, "ProjStdParallel2": 40.0}
        | {
            "ProjNatOriginLat": 30.0,
            "ProjFalseOriginLat": 31.0,
            "ProjFalseOriginEasting": 7.0,
            "ProjFalseEasting": 8.0,
        },
        None,
    ),
    "oblique by its centre": (
        PROJECTED
        | {"ProjMethod": 9815, "ProjCenterLong": 5.0, "ProjCenterLat": 30.0, "ProjAzimuthAngle": 10.0}
        | {"ProjRectifiedGridAngle": 11.0, "ProjCenterEasting": 7.0, "ProjCenterNorthing": 8.0},
        None,
    ),
    "to the south-west": (PROJECTED | {"ProjMethod": 27, "ProjNatOriginLong": 5.0}, None),
    "a code's base in grads": (
        PROJECTED | {"GeogAngularUnits": 9105, "ProjMethod": 1, "ProjNatOriginLat": 55.0},
        None,
    ),
    "a registered conversion": (PROJECTED | {"Projection": 16033}, None),
    "in grads": (
        PROJECTED | {"GeodeticCRS": 4807, "ProjMethod": 9, "ProjNatOriginLat": 55.0, "ProjScaleAtNatOrigin": 0.999},
        None,
    ),
    "in grads of its own": (
        PROJECTED
        | {"GeodeticCRS": 32767, "GeogAngularUnits": 9105, "Ellipsoid": 7004, "ProjMethod": 1, "ProjNatOriginLat": 5.0},
        None,
    ),
    "an ellipsoid of its own": (
        PROJECTED
        | {"ProjMethod": 10, "ProjNatOriginLat": 5.0}
        | {"EllipsoidSemiMajorAxis": 6378140.0, "EllipsoidInvFlattening": 298.257},
        None,
    ),
    "local in feet": ({"GTModelType": 32767, "GTCitation": "pit", "ProjLinearUnits": 9002}, None),
}
AS_GDAL_WITH_HEIGHT = {
    "a height": ({"Vertical": 5703}, None),
    "an ellipsoidal height": ({"Vertical": 5030}, None),
    "a 3D code": ({"Vertical": 4979}, None),
    "a 3D code on another datum": ({"Vertical": 4937}, "EPSG:32633"),
    "a datum as a height": ({"Vertical": 5103}, "EPSG:32633"),
    "a 2D code as a height": ({"Vertical": 4326}, "EPSG:32633"),
    "a private height": ({"Vertical": 40000}, "EPSG:32633"),
    "a private unit": ({"Vertical": 5703, "VerticalUnits": 40000}, "EPSG:32633"),
    "a private unit alone": ({"VerticalUnits": 40000}, "EPSG:32633"),
    "a height of its own": ({"Vertical": 32767, "VerticalCitation": "mine", "VerticalUnits": 9002}, None),
    "a datum alone": ({"Vertical": 32767, "VerticalDatum": 5103, "VerticalCitation": "mine"}, None),
    "a unit alone": ({"VerticalUnits": 9001}, None),
}
CASES = {name: (named, code, 0) for name, (named, code) in AS_GDAL.items()}
CASES |= {name: (UTM | named, code, 1) for name, (named, code) in AS_GDAL_WITH_HEIGHT.items()}
CASES |= {"a height in GeoTIFF 1.0": (UTM | {"Vertical": 5703}, "EPSG:32633", 0)}


@pytest.mark.parametrize(("named", "code", "revision"), CASES.values(), ids=CASES)
def test_keys_by_hand_give_what_gdal_reads(named, code, revision):
    tags = keys_of(revision, **named)
    found = crs_from_geokeys(parse_geokeys(*tags))
    assert pyproj.CRS(found.wkt) == gdal(*tags)
    assert found.code == code


BETTER_THAN_GDAL = {
    # GDAL drops the size of a user-defined angular unit, makes a local CRS of an ESRI code, of an ESRI
    # string in the general citation, and hangs a vertical CRS of its own invention on 50xx codes
    "an angular unit": (
        GEOGRAPHIC | {"GeogAngularUnits": 32767, "GeogAngularUnitSize": 0.01, "Ellipsoid": 7030},
        lambda crs: [axis.unit_conversion_factor for axis in crs.axis_info] == [0.01, 0.01],
    ),
    "an ESRI code": ({"GTModelType": 1, "ProjectedCRS": 54009}, lambda crs: crs == pyproj.CRS("ESRI:54009")),
    "an ESRI string": (
        {"GTModelType": 1, "GTCitation": "ESRI PE String = " + pyproj.CRS("ESRI:54009").to_wkt("WKT1_ESRI")},
        lambda crs: crs == pyproj.CRS("ESRI:54009"),
    ),
}


@pytest.mark.parametrize(("named", "is_right"), BETTER_THAN_GDAL.values(), ids=BETTER_THAN_GDAL)
def test_keys_that_gdal_does_not_understand(named, is_right):
    assert is_right(pyproj.CRS(crs_from_geokeys(parse_geokeys(*keys_of(**named))).wkt))


REFUSED = {
    "nothing but a model": ({"GTModelType": 2}, UnsupportedError, "GeodeticCRS"),
    "an unknown model": ({"GTModelType": 7}, UnsupportedError, "GTModelType"),
    "an unknown code": ({"GTModelType": 1, "ProjectedCRS": 99}, UnsupportedError, "ProjectedCRS"),
    "a height as the CRS": ({"GTModelType": 1, "ProjectedCRS": 5703}, UnsupportedError, "ProjectedCRS"),
    "an unknown method": (PROJECTED | {"ProjMethod": 2}, UnsupportedError, "ProjMethod"),
    "no method": (PROJECTED, UnsupportedError, "GTModelType"),
    "no parallels": (PROJECTED | {"ProjMethod": 8}, UnsupportedError, "ProjStdParallel1"),
    "half an ellipsoid": (GEOGRAPHIC | {"EllipsoidSemiMajorAxis": 6371000.0}, UnsupportedError, "GeodeticCRS"),
    "sexagesimal degrees": (
        GEOGRAPHIC | {"Ellipsoid": 7004, "GeogAngularUnits": 9110},
        UnsupportedError,
        "GeogAngular",
    ),
    "metres for degrees": (GEOGRAPHIC | {"Ellipsoid": 7004, "GeogAngularUnits": 9001}, UnsupportedError, "GeogAngular"),
    "a code without a use": ({"GeodeticCRS": 4326}, UnsupportedError, "GeodeticCRS"),
    "broken WKT": ({"ProjectedCitation": "ESRI PE String = PROJCS["}, UnsupportedError, "ProjectedCitation"),
    "a code that is text": ({"GTModelType": 1, "ProjectedCRS": "UTM"}, MalformedError, "ProjectedCRS"),
    "a shift of two": (GEOGRAPHIC | {"Ellipsoid": 7004, "GeogTOWGS84": (1.0, 2.0)}, MalformedError, "GeogTOWGS84"),
    "a unit of nothing": (
        UTM | {"ProjLinearUnits": 32767, "ProjLinearUnitSize": 0.0},
        MalformedError,
        "ProjLinearUnit",
    ),
    "a parameter of NaN": (
        PROJECTED | {"ProjMethod": 1, "ProjNatOriginLat": math.nan},
        MalformedError,
        "ProjNatOriginLat",
    ),
    "an ellipsoid inside out": (
        GEOGRAPHIC | {"EllipsoidSemiMajorAxis": -1.0, "EllipsoidInvFlattening": 300.0},
        MalformedError,
        "EllipsoidSemiMajorAxis",
    ),
}


@pytest.mark.parametrize(("named", "kind", "field"), REFUSED.values(), ids=REFUSED)
def test_refuses_with_the_key(named, kind, field):
    with pytest.raises(kind) as error:
        crs_from_geokeys(parse_geokeys(*keys_of(**named)))
    assert field in error.value.field


@pytest.mark.parametrize("named", [{}, {"GTRasterType": 1}, {"GTModelType": 32767}, {"GTCitation": " "}])
def test_keys_without_a_crs(named):
    assert crs_from_geokeys(parse_geokeys(*keys_of(**named))) is None


@pytest.mark.parametrize("number", [-1.0, 0.0, 1e308, math.nan, "text", (), (1.0, 2.0), 65535])
def test_no_value_of_a_single_key_raises_anything_else(number):
    bases = (
        PROJECTED | {"ProjMethod": 8},
        GEOGRAPHIC | {"Ellipsoid": 7004},
        UTM | {"Vertical": 5703},
        {"GTCitation": "x"},
    )
    for base, key in itertools.product(bases, GeoKey):
        named = {f"{name}GeoKey": value for name, value in base.items()} | {key.name: number}
        try:
            found = crs_from_geokeys(GeoKeys({GeoKey[name]: value for name, value in named.items()}, (1, 1)))
        except JnrrdzError:
            continue
        assert found is None or isinstance(found, Crs)


def test_cf_attributes_come_back_as_the_same_crs():
    found = crs_from_geokeys(parse_geokeys(*keys_of(**UTM)))
    attributes = cf_attributes(found)
    assert attributes["grid_mapping_name"] == "transverse_mercator"
    wkt = attributes.pop("crs_wkt")
    assert wkt == found.wkt
    assert pyproj.CRS.from_cf({"crs_wkt": wkt}) == pyproj.CRS("EPSG:32633")
    bare = pyproj.CRS.from_cf(attributes).coordinate_operation
    assert [parameter.value for parameter in bare.params] == [0, 15, 0.9996, 500000, 0]


def test_imagine_citations_begin_after_the_copyright():
    assert citation(IMAGINE) == {"Projection Name": "UTM", "Units": "feet", "GeoTIFF Units": "feet"}


def test_importing_the_model_leaves_pyproj_alone():
    code = "import sys, jnrrdz.core.crs, jnrrdz.core.georeference; sys.exit('pyproj' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# GDAL: an invented ellipsoid for want of any; east before north where EPSG has north before east
CORPUS_DIFFERS = {"data_byte_gcp_pixelispoint.tif", "gtiff_epsg_2193_override.tif"}


@pytest.mark.skipif("JNRRDZ_CORPUS" not in os.environ, reason="JNRRDZ_CORPUS names no folder of GeoTIFFs")
def test_every_file_of_the_corpus_equals_rasterio():
    files = [
        path for path in pathlib.Path(os.environ["JNRRDZ_CORPUS"]).rglob("*") if path.suffix.lower().startswith(".tif")
    ]
    differing = {path.name for path in files if not _equals_rasterio(path)}
    assert len(files) > 100
    assert differing <= CORPUS_DIFFERS


def _equals_rasterio(path):
    try:
        with rasterio.open(path) as image, tifffile.TiffFile(path) as tiff:
            affine, crs = tuple(image.transform)[:6], image.crs or image.gcps[1]
            tags = {
                tag.code: tag.value
                for tag in tiff.pages[0].tags
                if tag.code in {33550, 33922, 34264, 34735, 34736, 34737}
            }
    except (rasterio.errors.RasterioError, tifffile.TiffFileError, ValueError):
        return True  # not a file that both independent readers can open
    try:
        keys = parse_geokeys(tags.get(34735, (1, 1, 0, 0)), tags.get(34736, ()), tags.get(34737, ""))
        found = crs_from_geokeys(keys)
    except JnrrdzError:
        keys, found = GeoKeys(), None
    place = placement(keys, tags.get(33550, ()), tags.get(33922, ()), tags.get(34264, ()))
    same_crs = found is None if crs is None else found is not None and pyproj.CRS(found.wkt) == theirs(crs)
    return same_crs and (place.affine or (1, 0, 0, 0, 1, 0)) == pytest.approx(affine, rel=1e-12, abs=0)


METHODS = {
    "Mercator_1SP": ("central_meridian", "scale_factor", "false_easting", "false_northing"),
    "Mercator_2SP": ("standard_parallel_1", "central_meridian", "false_easting"),
    "Lambert_Conformal_Conic_2SP": ("standard_parallel_1", "latitude_of_origin"),
    "Albers_Conic_Equal_Area": ("standard_parallel_1", "standard_parallel_2"),
    "Transverse_Mercator": ("latitude_of_origin", "central_meridian"),
    "Sinusoidal": ("false_easting",),
    "Geostationary_Satellite": ("central_meridian",),
}


@pytest.mark.parametrize("method", METHODS)
def test_projection_without_all_that_cf_wants_is_its_wkt(method):
    """A WKT may leave parameters out, whose defaults PROJ knows and CF's names for the projection do not."""
    datum = 'DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0]'
    for count in range(len(METHODS[method]) + 1):
        given = "".join(f'PARAMETER["{name}",1],' for name in METHODS[method][:count])
        base = f'GEOGCS["b",{datum},UNIT["degree",0.0174532925199433]]'
        crs = crs_from_wkt(f'PROJCS["a",{base},PROJECTION["{method}"],{given}UNIT["metre",1]]', "SRS")
        attributes = cf_attributes(crs)
        assert attributes["crs_wkt"] == crs.wkt
        assert CRS.from_wkt(attributes["crs_wkt"]).is_projected
