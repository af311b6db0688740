"""GDAL's metadata in XML: the tag and the file beside an image, as GDAL spells them."""

import pytest

from jnrrdz.core.crs_geokeys import GroundControlPoint
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.tiff.gdal_metadata import BandMetadata, GdalMetadata, merged, parse_gdal_metadata, parse_pam


def tag(items):
    return parse_gdal_metadata(f"<GDALMetadata>{items}</GDALMetadata>")


ITEMS = [
    ('<Item name="A">v</Item>', {"": {"A": "v"}}, {}),
    ('<Item name="A" domain="IMD">v</Item>', {"IMD": {"A": "v"}}, {}),
    ('<Item name="A">a&amp;lt;b&amp;amp;c</Item>', {"": {"A": "a<b&c"}}, {}),  # as GDAL escapes: twice
    ('<Item name="A">a&lt;b</Item>', {"": {"A": "a<b"}}, {}),
    ('<Item name="A">  two  </Item>', {"": {"A": "two  "}}, {}),
    ('<Item name="A"></Item>', {}, {}),
    ("<Item>nameless</Item>", {}, {}),
    ('<Other name="A">v</Other>', {}, {}),
    ('<Item name="doc" domain="xml:X" format="xml"><a><b>1</b></a></Item>', {"xml:X": {"doc": "<a><b>1</b></a>"}}, {}),
    ('<Item name="K" sample="2">v</Item>', {}, {3: BandMetadata(items={"": {"K": "v"}})}),
    ('<Item name="K" sample="0" domain="D">v</Item>', {}, {1: BandMetadata(items={"D": {"K": "v"}})}),
    ('<Item name="SCALE" sample="0" role="scale">0.1</Item>', {}, {1: BandMetadata(scale=0.1)}),
    ('<Item name="OFFSET" sample="0" role="offset">-1e3</Item>', {}, {1: BandMetadata(offset=-1000.0)}),
    ('<Item name="UNITTYPE" sample="0" role="unittype">m</Item>', {}, {1: BandMetadata(unit="m")}),
    ('<Item name="DESCRIPTION" sample="0" role="description">red</Item>', {}, {1: BandMetadata(description="red")}),
    ('<Item name="COLORINTERP" sample="0" role="colorinterp">NIR</Item>', {}, {1: BandMetadata(colour="NIR")}),
    ('<Item name="SCALE" role="scale">0.1</Item>', {"": {"SCALE": "0.1"}}, {}),  # of no band
]


@pytest.mark.parametrize(("items", "domains", "bands"), ITEMS)
def test_items_of_the_tag(items, domains, bands):
    found = tag(items)
    assert (found.items, found.bands, found.problems) == (domains, bands, [])


PROBLEMS = [
    ('<Item name="SCALE" sample="0" role="scale">much</Item>', "scale of band 1 'much' is no number"),
    ('<Item name="A" sample="x">v</Item>', "sample 'x' of item 'A'"),
    ('<Item name="A" sample="-2">v</Item>', "sample '-2' of item 'A'"),
    ('<Item name="A" sample="123456">v</Item>', "sample '123456' of item 'A'"),
]


@pytest.mark.parametrize(("items", "problem"), PROBLEMS)
def test_what_cannot_be_read_is_named_and_the_rest_kept(items, problem):
    found = tag(items + '<Item name="B">kept</Item>')
    assert found.items == {"": {"B": "kept"}}
    assert len(found.problems) == 1
    assert problem in found.problems[0]


@pytest.mark.parametrize("text", ["<Other/>", "<GDALMetadata>", "", "plain"])
def test_what_is_no_metadata_is_refused(text):
    with pytest.raises(MalformedError) as caught:
        parse_gdal_metadata(text)
    assert caught.value.field == "GDAL_METADATA"


PAM = """<PAMDataset>
  <SRS dataAxisToSRSAxisMapping="2,1">EPSG:4326</SRS>
  <GeoTransform>  1.0e+01,  2.0,  0.5, 20.0,  0.25, -2.0</GeoTransform>
  <Metadata><MDI key="AREA_OR_POINT">Point</MDI><MDI key="EMPTY"></MDI></Metadata>
  <Metadata domain="xml:X" format="xml"><a b="1"/></Metadata>
  <GCPList Projection="EPSG:32633"><GCP Id="1" Pixel="1.5" Line="2.5" X="3" Y="4" Z="5"/><GCP Id="2" X="3"/></GCPList>
  <PAMRasterBand band="2">
    <Description>second</Description><NoDataValue le_hex_equiv="0000000000C06FC0">-2.54000000000000E+02</NoDataValue>
    <UnitType>K</UnitType><Offset>1</Offset><Scale>0.5</Scale><ColorInterp>Palette</ColorInterp>
    <CategoryNames><Category>sea</Category><Category></Category></CategoryNames>
    <ColorTable><Entry c1="1" c2="2" c3="3" c4="4"/><Entry c1="300" c2="x" c3="3"/></ColorTable>
    <Metadata><MDI key="STATISTICS_MEAN">3.5</MDI></Metadata>
  </PAMRasterBand>
  <PAMRasterBand band="none"/>
</PAMDataset>"""


def test_file_beside_an_image():
    found = parse_pam(PAM)
    assert found.wkt == "EPSG:4326"
    assert found.affine == (2.0, 0.5, 10.0, 0.25, -2.0, 20.0)
    assert found.items == {"": {"AREA_OR_POINT": "Point"}, "xml:X": {"xml:X": '<a b="1"/>'}}
    assert found.gcps == (GroundControlPoint(1.5, 2.5, 3.0, 4.0, 5.0),)
    assert found.bands == {
        2: BandMetadata(
            description="second",
            scale=0.5,
            offset=1.0,
            unit="K",
            colour="Palette",
            nodata="-2.54000000000000E+02",
            categories=("sea", ""),
            colour_table=((1, 2, 3, 4), (255, 0, 3, 255)),
            items={"": {"STATISTICS_MEAN": "3.5"}},
        )
    }
    assert len(found.problems) == 2


@pytest.mark.parametrize("text", ["1,2,3,4,5", "1,2,3,4,5,x", "1,2,3,4,5,inf", "1,2,3,4,5,6,7"])
def test_a_geotransform_that_is_none_is_a_problem(text):
    found = parse_pam(f"<PAMDataset><GeoTransform>{text}</GeoTransform></PAMDataset>")
    assert found.affine is None
    assert "not six numbers" in found.problems[0]


def test_what_is_no_pam_is_refused():
    with pytest.raises(JnrrdzError, match="PAMDataset belongs"):
        parse_pam("<VRTDataset/>")


def test_the_file_beside_goes_first_and_hides_nothing_else():
    inner = GdalMetadata(
        {"": {"A": "1", "B": "1"}}, {1: BandMetadata("in", scale=2.0, unit="m", items={"": {"K": "1"}})}, ["p"]
    )
    outer = GdalMetadata(
        {"": {"B": "2"}, "D": {"C": "2"}},
        {1: BandMetadata("out", scale=0.0, items={"": {"L": "2"}}), 2: BandMetadata()},
        ["q"],
    )
    found = merged(inner, outer)
    assert found.items == {"": {"A": "1", "B": "2"}, "D": {"C": "2"}}
    assert found.bands[1] == BandMetadata("out", scale=0.0, unit="m", items={"": {"K": "1", "L": "2"}})
    assert found.problems == ["p", "q"]
    assert merged(inner, None) is inner
