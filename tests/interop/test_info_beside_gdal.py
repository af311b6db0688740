"""`info --json` beside GDAL: what `gdalinfo -json` and `rio info` tell of place, bands, nodata and metadata.

Each is there and equal, or REASONS says why not.  Files that rasterio writes are looked at always, 30 of the corpus
where JNRRDZ_CORPUS names its folder of TIFFs (the others lie beside it), and gdalinfo where it is installed.
"""

import json
import math
import os
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from rasterio.crs import CRS
from rasterio.rpc import RPC
from rasterio.transform import Affine

import jnrrdz
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning", "ignore::UserWarning")

FILES = {
    "tiff": [
        "data_2by2.tif",
        "data_byte.tif",
        "data_byte_gcp.tif",
        "data_byte_nodata_0.tif",
        "data_byte_rpc.tif",
        "data_byte_zstd.tif",
        "data_citation_mixedcase.tif",
        "data_cfloat64.tif",
        "data_epsg26711_3855_geotiff1_1.tif",
        "data_epsg4979_geotiff1_1.tif",
        "data_f32nan_data.tif",
        "data_float16.tif",
        "data_input_epsg_6259_plus_6360_us_survey_foot.tif",
        "data_md_dg.tif",
        "data_n43.tif",
        "data_rgbsmall_cmyk.tif",
        "data_small_world_pct.tif",
        "data_spaf27_brokengdal.tif",
        "data_stats_nodata_posinf_msvc.tif",
        "data_test_rpc_with_gt_bug_2460.tif",
        "gtiff_byte_5_bands_LZW_predictor_2.tif",
        "gtiff_byte_with_xmp.tif",
        "gtiff_non_square_pixels.tif",
    ],
    "nitf": ["nitf_SENSRB_TRE.ntf", "nitf_U_4017A.NTF", "nitf_i_3034f.ntf", "nitf_valid_udid.ntf", "nitf_rset.ntf.r0"],
    "jpeg2000": ["jpeg2000_byte.jp2", "jpeg2000_gtsmall_11_int16.jp2", "jpeg2000_gmljp2_epsg3035_easting_northing.jp2"],
}

IDENTITY = "an affine that is the identity, which GDAL's interface cannot tell from none"

REASONS = {
    ("data_byte_rpc.tif", "crs"): "WGS 84 is the CRS of a sensor model's ground; GDAL says none",
    ("data_f32nan_data.tif", "affine"): IDENTITY,
    ("data_f32nan_data.tif", "bounds"): IDENTITY,
    ("data_f32nan_data.tif", "resolution"): IDENTITY,
    ("data_rgbsmall_cmyk.tif", "colour"): "the bands as they are stored; GDAL converts CMYK to RGBA",
    ("gtiff_byte_with_xmp.tif", "domains"): "XMP is embedded metadata, which --embedded-metadata takes along",
    ("nitf_i_3034f.ntf", "nodata"): "the pad pixel of the blocks that its mask leaves out",
    ("jpeg2000_gmljp2_epsg3035_easting_northing.jp2", "domains"): "XML boxes, likewise",
    ("jpeg2000_gtsmall_11_int16.jp2", "domains"): "XML boxes, likewise",
}
"""By file and fact; docs/info.md has them for users."""

OF_FORMATS = {
    ("NITF", "items"): "headers have a member of their own, which another test compares",
    ("NITF", "domains"): "so have TREs",
    ("NITF", "registration"): "GDAL says none, or Area for some; pixels are areas",
    ("JPEG 2000", "registration"): "the same",
    ("JPEG 2000", "levels"): "GDAL leaves out levels that are smaller than a block",
    ("JPEG 2000", "blocks"): "GDAL cuts large tiles into blocks of 1024",
}


def corpus():
    """Return the files of the corpus that are compared, nothing where there is none."""
    folder = os.environ.get("JNRRDZ_CORPUS")
    if not folder:
        return []
    home = Path(folder).parent
    named = [home / kind / "gdal" / name for kind, names in FILES.items() for name in names]
    return [path for path in named if path.exists()]


def model():
    """Return a sensor's model."""
    line, sample, constant = ([float(place == at) for place in range(20)] for at in (2, 1, 0))
    scales = {"height_off": 100.0, "height_scale": 500.0, "lat_off": 47.0, "lat_scale": 0.05, "long_off": 8.0}
    scales |= {"long_scale": 0.05, "line_off": 30.0, "line_scale": 30.0, "samp_off": 40.0, "samp_scale": 40.0}
    return RPC(line_num_coeff=line, line_den_coeff=constant, samp_num_coeff=sample, samp_den_coeff=constant, **scales)


def points():
    return [
        rasterio.control.GroundControlPoint(row, column, 8 + column / 800, 47 - row / 1200, 10.0)
        for row in (0, 60)
        for column in (0, 80)
    ]


def scene(path, **options):
    """Write an image whose bands have names, units, scales, statistics and items of their own."""
    pixels = np.arange(3 * 60 * 80).reshape(3, 60, 80).astype("u2")
    with writers.gdal_file(path, pixels, **options) as file:
        file.descriptions, file.units = ("red edge", "", "blue"), ("K", "", "m")
        file.scales, file.offsets = (0.1, 1.0, 2.0), (-273.15, 0.0, 5.0)
        file.update_tags(TIFFTAG_SOFTWARE="by hand", PLATFORM="A1")
        file.update_tags(ns="IMAGERY", CLOUDS="12")
        file.update_tags(2, STATISTICS_MINIMUM=1, STATISTICS_MAXIMUM=9, STATISTICS_MEAN=4.5, STATISTICS_STDDEV=2, B="x")
    return path


WRITTEN = {
    "bands": lambda path: scene(path, nodata=7, **writers.PLACE),
    "no place": scene,
    "rotated": lambda path: scene(
        path, crs="EPSG:3035", transform=Affine.translation(4e6, 3e6) @ Affine.rotation(20) @ Affine.scale(30, -30)
    ),
    "degrees": lambda path: scene(path, crs="EPSG:4326", transform=Affine(0.001, 0, 8, 0, -0.001, 47)),
    "control points": lambda path: scene(path, crs=CRS.from_epsg(4326), gcps=points()),
    "affine and model": lambda path: scene(path, rpcs=model(), **writers.PLACE),
    "rgb, point": lambda path: point(scene(path, photometric="rgb", **writers.PLACE)),
    "levels": lambda path: overviews(scene(path, tiled=True, blockxsize=16, blockysize=16, **writers.PLACE)),
}


def point(path):
    with rasterio.open(path, "r+") as file:
        file.update_tags(AREA_OR_POINT="Point")
    return path


def overviews(path):
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4])
    return path


@pytest.fixture(params=[*WRITTEN, *corpus()], ids=lambda one: getattr(one, "name", one))
def image(request, tmp_path):
    """Return a file, and what jnrrdz says of its first image."""
    path = request.param if isinstance(request.param, Path) else WRITTEN[request.param](tmp_path / "a.tif")
    return path, jnrrdz.info(path)


def number(value):
    """Return a number as Zarr may spell it."""
    return float(str(value).replace("Infinity", "inf"))


def same(one, other):
    if one is None or other is None:
        return one is other
    return bool(np.allclose(np.array(one, float), np.array(other, float), rtol=1e-9, atol=1e-9, equal_nan=True))


def wkt(place):
    text = (place.get("crs") or {}).get("wkt")
    return CRS.from_wkt(text) if text else None


def by_rasterio(path):
    """Yield each fact that rasterio (`rio info`) tells of a file, by what it is called here."""
    with rasterio.open(path) as file:
        points, ground = file.gcps
        placed = not file.transform.is_identity
        yield "crs", file.crs or ground
        yield "affine", list(file.transform)[:6] if placed else None
        straight = placed and not file.transform.b and not file.transform.d
        xs, ys = sorted(file.bounds[::2]), sorted(file.bounds[1::2])
        yield "bounds", [xs[0], ys[0], xs[1], ys[1]] if straight else None
        yield "resolution", list(file.res) if straight else None
        yield "center", file.lnglat() if straight and file.crs and file.crs.is_projected else None
        yield "points", [[point.row, point.col, point.x, point.y, point.z] for point in points]
        yield (
            "model",
            None if file.rpcs is None else [file.rpcs.lat_off, file.rpcs.samp_scale, *file.rpcs.line_num_coeff],
        )
        yield "registration", file.tags().get("AREA_OR_POINT")
        yield "shape", file.shape
        yield "levels", 1 + len(file.overviews(1))
        yield "types", file.dtypes
        yield "colour", [colour.name for colour in file.colorinterp]
        yield "name", [name or None for name in file.descriptions]
        yield "unit", [unit or None for unit in file.units]
        yield "scale", list(file.scales)
        yield "offset", list(file.offsets)
        yield "nodata", list(file.nodatavals)
        yield "blocks", file.block_shapes[0]
        bands = [file.tags(band) for band in file.indexes]
        yield (
            "statistics",
            [{k[11:].lower(): number(v) for k, v in tags.items() if k.startswith("STATIS")} for tags in bands],
        )
        yield "items of bands", [{k: v for k, v in tags.items() if not k.startswith("STATIS")} for tags in bands]
        yield "items", {key: text for key, text in file.tags().items() if key != "AREA_OR_POINT"}
        own = {"IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "RPC", "SUBDATASETS"}
        yield "domains", {name: file.tags(ns=name) for name in file.tag_namespaces() if name not in own}


def ours(found):
    """Return the same facts as `info` tells them."""
    image = found["images"][0]
    place, bands = image.get("place", {}), image.get("bands", [{}])
    axes = image["dimension_names"]
    array = next(array for array in found["arrays"] if array["path"] == image["path"])
    metadata = image.get("metadata", {})
    rpc = place.get("rpc")
    straight = "affine" in place and not place["affine"][1] and not place["affine"][3]
    projected = wkt(place) is not None and wkt(place).is_projected
    return {
        "crs": wkt(place),
        "affine": place.get("affine"),
        "bounds": place.get("bounds") if straight else None,
        "resolution": place.get("resolution") if straight else None,
        "center": place.get("degrees", {}).get("center") if straight and projected else None,
        "points": [[one[name] for name in ("row", "column", "x", "y", "z")] for one in place.get("control_points", [])],
        "model": None if rpc is None else [rpc["LAT_OFF"], rpc["SAMP_SCALE"], *rpc["LINE_NUM_COEFF"]],
        "registration": place.get("area_or_point"),
        "shape": tuple(image["shape"][axes.index(axis)] for axis in "yx"),
        "levels": len(image["levels"]),
        "types": (image["data_type"],) * len(bands),
        "colour": [band.get("colour", "undefined") for band in bands],
        "name": [band.get("name") for band in bands],
        "unit": [band.get("unit") for band in bands],
        "scale": [band.get("scale", 1.0) for band in bands],
        "offset": [band.get("offset", 0.0) for band in bands],
        "nodata": [None if band.get("nodata") is None else number(band["nodata"]) for band in bands],
        "blocks": tuple(array["chunk_shape"][axes.index(axis)] for axis in "yx"),
        "statistics": [{name: number(value) for name, value in band.get("statistics", {}).items()} for band in bands],
        "items of bands": [band.get("metadata", {}).get("", {}) for band in bands],
        "items": metadata.get("", {}),
        "domains": {name: items for name, items in metadata.items() if name not in {"", "IMAGE_STRUCTURE"}},
    }


def nitf_items(found):
    """Return GDAL's items of the headers of a NITF, as far as they are numbers or texts of a field."""
    image = found["images"][0]["nitf"]
    fields = {**found["nitf"]["header"], **image["header"]}
    fields |= {"FHDR": found["nitf"]["version"], "CCS_ROW": image["place"][0], "CCS_COLUMN": image["place"][1]}
    return {f"NITF_{name}": value for name, value in fields.items()}


def is_field(text, value):
    """Whether a text of GDAL's is a field's: numbers without their zeros, texts without spaces around."""
    if isinstance(value, int | float):
        return math.isclose(float(text), value)
    return str(value).strip().replace(" ", "") == text.strip().replace(" ", "")


def differences(path, found, told):
    """Return the facts that differ and for which there is no reason."""
    own, wrong = ours(found), {}
    for fact, theirs in told:
        if (path.name, fact) in REASONS or (found["format"], fact) in OF_FORMATS:
            continue
        mine = own[fact]
        if fact == "blocks" and mine != theirs:
            # strips that lie together are one chunk
            assert mine[0] >= theirs[0], path
            continue
        if fact == "center":
            equal = mine is theirs or np.allclose(mine, theirs, rtol=0, atol=1e-6)
        elif fact in {"points", "affine", "bounds", "resolution", "model", "scale", "offset"}:
            equal = mine == theirs or same(mine, theirs)
        elif fact == "nodata":
            equal = all(same(a, b) for a, b in zip(mine, theirs, strict=True))
        else:
            equal = mine == theirs
        if not equal:
            wrong[fact] = (mine, theirs)
    return wrong


def test_all_that_rasterio_tells_is_there(image):
    path, found = image
    assert differences(path, found, by_rasterio(path)) == {}


def test_all_that_gdalinfo_tells_of_the_ground_is_there(image):
    path, found = image
    if shutil.which("gdalinfo") is None:
        pytest.skip("gdalinfo is not installed; tests/system.sh installs it")
    done = subprocess.run(["gdalinfo", "-json", str(path)], check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    place = found["images"][0].get("place", {})
    transform = told.get("geoTransform")
    if transform is None or transform == [0, 1, 0, 0, 0, 1]:
        assert "affine" not in place or path.name == "data_f32nan_data.tif"
        return
    c, a, b, f, d, e = transform
    assert same(place["affine"], [a, b, c, d, e, f])
    names = ("upperLeft", "lowerLeft", "lowerRight", "upperRight")
    np.testing.assert_allclose(place["corners"], [told["cornerCoordinates"][name] for name in names], rtol=0, atol=1e-3)
    extent = told.get("wgs84Extent", {}).get("coordinates")
    if extent and "degrees" in place:
        # its PROJ may have grids that this one has not: within 150 metres
        np.testing.assert_allclose(place["degrees"]["corners"], np.array(extent[0][:4])[:, :2], rtol=0, atol=2e-3)


def test_headers_of_a_nitf_are_those_that_gdal_tells(image):
    path, found = image
    if "nitf" not in found:
        return
    with warnings.catch_warnings(), rasterio.open(path) as file:
        warnings.simplefilter("ignore")
        told = {key: text for key, text in file.tags().items() if key.startswith("NITF_") and text.strip(" -")}
        tres = set(file.tags(ns="TRE"))
    known = nitf_items(found)
    fields = {key: text for key, text in told.items() if key in known}
    assert {key: (text, known[key]) for key, text in fields.items() if not is_field(text, known[key])} == {}
    assert len(fields) > 20
    named = {name.rstrip() for name in [*found["nitf"].get("tres", []), *found["images"][0]["nitf"].get("tres", [])]}
    assert {name.rstrip() for name in tres} <= named


def test_reasons_are_those_of_facts_that_differ():
    """A reason that is none any more goes."""
    paths = {path.name: path for path in corpus()}
    for name, fact in REASONS:
        if name in paths:
            told = dict(by_rasterio(paths[name]))
            assert ours(jnrrdz.info(paths[name]))[fact] != told[fact], (name, fact)
