"""World files and .aux.xml beside a TIFF, against rasterio, which reads them unasked."""

import html

import numpy as np
import pyproj
import pytest
import rasterio
import tifffile
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from rasterio.transform import Affine

import jnrrdz
from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.georeference import world_affine
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

WORLD = "2.5\n0.25\n-0.5\n-2\n1000.5\n2000\n"


PLACE = {"crs": "EPSG:4326", "transform": Affine(1, 0, 5, 0, -1, 6)}


def image(path, **options):
    data = np.arange(64, dtype="u1").reshape(8, 8)
    tifffile.imwrite(path, data, metadata=None, **options)
    return data


def geotransform(group):
    c, a, b, f, d, e = map(float, group.children["spatial_ref"].attributes["GeoTransform"].split())
    return Affine(a, b, c, d, e, f)


@pytest.mark.parametrize(
    ("name", "world"),
    [("a.tif", "a.tfw"), ("a.tif", "a.tifw"), ("a.tif", "a.wld"), ("a.tiff", "a.tfw"), ("A.TIF", "A.TFW")],
)
def test_world_file(tmp_path, name, world):
    image(tmp_path / name)
    (tmp_path / world).write_text(WORLD)
    assert "spatial_ref" not in jnrrdz.scan(str(tmp_path / name)).children
    group = jnrrdz.scan(str(tmp_path / name), sidecars=True)
    with rasterio.open(tmp_path / name) as source:
        assert geotransform(group) == source.transform
    assert [source.url for source in group.sources] == [str(tmp_path / name), str(tmp_path / world)]


sides = st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6) | st.just(0.0)


@given(st.tuples(*[sides] * 4), st.tuples(*[st.floats(-1e8, 1e8)] * 2))
def test_the_middle_of_the_first_pixel_is_where_the_world_file_says(linear, middle):
    a, d, b, e = linear
    c, f = middle
    text = "\n".join(map(repr, (a, d, b, e, c, f)))
    if a * e == b * d:
        with pytest.raises(MalformedError):
            world_affine(text)
        return
    a, b, c, d, e, f = world_affine(text)
    assert ((a + b) / 2 + c, (d + e) / 2 + f) == pytest.approx(middle, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize(
    "text", ["", "1\n2\n3", "a\nb\nc\nd\ne\nf", "1\n2\n2\n4\n0\n0", "nan\n0\n0\n1\n0\n0", "x" * 5000]
)
def test_a_world_file_that_is_none_never_costs_the_pixels(tmp_path, text):
    data = image(tmp_path / "a.tif")
    (tmp_path / "a.tfw").write_text(text)
    with pytest.warns(UserWarning, match=r"a\.tfw"):
        group = jnrrdz.scan(str(tmp_path / "a.tif"), sidecars=True)
    assert "a.tfw" in group.attributes["metadata_refused"][0]
    np.testing.assert_array_equal(xr.open_dataset(group, engine="jnrrdz")["data"], data)


PAM = f"""<PAMDataset>
  <SRS>{html.escape(pyproj.CRS(32633).to_wkt("WKT1_GDAL"))}</SRS>
  <GeoTransform>500000, 10, 0, 6000000, 0, -10</GeoTransform>
  <Metadata><MDI key="AREA_OR_POINT">Point</MDI><MDI key="ITEM">beside</MDI></Metadata>
  <PAMRasterBand band="1">
    <Description>beside</Description><NoDataValue>7</NoDataValue><UnitType>K</UnitType>
    <Offset>-3</Offset><Scale>0.5</Scale>
    <Metadata><MDI key="STATISTICS_MEAN">31.5</MDI></Metadata>
  </PAMRasterBand>
</PAMDataset>"""


def said(group):
    array, attributes = group.children["data"].attributes, group.attributes
    return {
        "transform": geotransform(group),
        "code": attributes.get("proj:code"),
        "point": attributes["AREA_OR_POINT"],
        "item": attributes["gdal_metadata"][""]["ITEM"],
        "names": array["band_names"],
        "nodata": float(array["_FillValue"]),
        "unit": array["units"],
        "scale": (array["scale_factor"], array["add_offset"]),
        "mean": array["statistics"][0]["mean"],
    }


def rasterio_says(path):
    with rasterio.open(path) as source:
        return {
            "transform": source.transform,
            "code": f"EPSG:{source.crs.to_epsg()}",
            "point": source.tags()["AREA_OR_POINT"],
            "item": source.tags()["ITEM"],
            "names": list(source.descriptions),
            "nodata": source.nodata,
            "unit": source.units[0],
            "scale": (source.scales[0], source.offsets[0]),
            "mean": float(source.tags(1)["STATISTICS_MEAN"]),
        }


def test_aux_xml_gives_what_the_file_does_not(tmp_path):
    image(tmp_path / "a.tif")
    (tmp_path / "a.tif.aux.xml").write_text(PAM)
    group = jnrrdz.scan(str(tmp_path / "a.tif"), sidecars=True)
    assert said(group) == rasterio_says(tmp_path / "a.tif")
    assert group.sources[1].url == str(tmp_path / "a.tif.aux.xml")


@pytest.mark.parametrize("code", ["EPSG:32633", "epsg:4326"])
def test_aux_xml_may_give_the_code_of_a_crs(tmp_path, code):
    image(tmp_path / "a.tif")
    (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset><SRS>{code}</SRS></PAMDataset>")
    group = jnrrdz.scan(str(tmp_path / "a.tif"), sidecars=True)
    with rasterio.open(tmp_path / "a.tif") as source:
        wanted = source.crs
    found = group.children["spatial_ref"].attributes["crs_wkt"]
    assert rasterio.crs.CRS.from_wkt(found) == wanted
    assert wanted.to_epsg() == int(code[5:])


def test_aux_xml_goes_before_the_file(tmp_path):
    path = tmp_path / "a.tif"
    with writers.gdal_file(path, np.zeros((8, 8), "u1"), nodata=3, **PLACE) as target:
        target.descriptions, target.units, target.scales, target.offsets = ("inside",), ("m",), (2.0,), (1.0,)
        target.update_tags(ITEM="inside")
    inside = jnrrdz.scan(str(path))
    (tmp_path / "a.tif.aux.xml").write_text(PAM)
    (tmp_path / "a.tfw").write_text(WORLD)
    assert jnrrdz.scan(str(path)).attributes == inside.attributes  # nothing is looked for unasked
    assert said(jnrrdz.scan(str(path), sidecars=True)) == rasterio_says(path)


def test_a_file_that_knows_its_place_needs_no_world_file(tmp_path):
    path = tmp_path / "a.tif"
    writers.geotiff(path, np.zeros((8, 8), "u1"), **PLACE)
    (tmp_path / "a.tfw").write_text(WORLD)
    with rasterio.open(path) as source:
        assert geotransform(jnrrdz.scan(str(path), sidecars=True)) == source.transform


CATEGORIES = """<PAMDataset><PAMRasterBand band="1"><ColorInterp>Palette</ColorInterp>
<CategoryNames><Category>open sea</Category><Category>land</Category></CategoryNames>
<ColorTable><Entry c1="0" c2="0" c3="255" c4="255"/><Entry c1="0" c2="255" c3="0" c4="128"/></ColorTable>
</PAMRasterBand></PAMDataset>"""


def test_categories_and_colours_beside_the_file(tmp_path):
    image(tmp_path / "a.tif")
    (tmp_path / "a.tif.aux.xml").write_text(CATEGORIES)
    array = jnrrdz.scan(str(tmp_path / "a.tif"), sidecars=True).children["data"].attributes
    with rasterio.open(tmp_path / "a.tif") as source:
        colors = source.colormap(1)
        assert array["colorinterp"] == [color.name for color in source.colorinterp]
    assert array["color_table"] == [list(colors[0]), list(colors[1])]
    assert array["flag_meanings"] == "open_sea land"
    assert array["flag_values"] == [0, 1]
    assert array["flag_colors"] == "#0000ff #00ff00"


BROKEN = ["<PAMDataset>", "plain", '<!DOCTYPE a SYSTEM "b"><PAMDataset/>', "<PAMDataset><SRS>no CRS</SRS></PAMDataset>"]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_aux_xml_never_costs_the_pixels(tmp_path, text):
    data = image(tmp_path / "a.tif")
    (tmp_path / "a.tif.aux.xml").write_text(text)
    with pytest.warns(UserWarning, match="left out"):
        group = jnrrdz.scan(str(tmp_path / "a.tif"), sidecars=True)
    assert "metadata_refused" in group.attributes or "georeference_refused" in group.attributes
    np.testing.assert_array_equal(xr.open_dataset(group, engine="jnrrdz")["data"], data)


def test_over_http_each_is_one_request_and_recorded(tmp_path, http_server):
    image(tmp_path / "a.tif")
    http_server.files["/a.tif"] = (tmp_path / "a.tif").read_bytes()
    http_server.files["/a.tif.aux.xml"] = PAM.encode()
    url = f"{http_server.url}/a.tif"
    assert len(jnrrdz.scan(url).sources) == 1
    assert {entry.path for entry in http_server.log} == {"/a.tif"}
    group = jnrrdz.scan(url, sidecars=True)
    assert [source.url for source in group.sources] == [url, f"{url}.aux.xml"]
    assert group.sources[1].etag is not None
    assert group.attributes["proj:code"] == "EPSG:32633"
