"""What parsers make of published documents, and of documents that are wrong."""

import json

import pytest
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.products import landsat, sentinel2
from tests.products.writers import DOCUMENTS, LANDSAT_7, LANDSAT_8

L2A = (DOCUMENTS / "MTD_MSIL2A.xml").read_text()
L1C = (DOCUMENTS / "MTD_MSIL1C.xml").read_text()
OLI = (DOCUMENTS / f"{LANDSAT_8}_MTL.json").read_text()
ETM = (DOCUMENTS / f"{LANDSAT_7}_MTL.xml").read_text()


def of_sentinel2(text):
    return sentinel2.parse_product(text.encode())


def of_landsat(text):
    return landsat.parse_product(text.encode())


def by_name(product):
    return {image.name: image for image in product.images}


def scale_of(image):
    return image.attributes.get("scale_factor"), image.attributes.get("add_offset")


def flags_of(image):
    """Return the masks and values of the meanings."""
    attributes = image.attributes
    values = attributes["flag_values"]
    masks = attributes.get("flag_masks", values)
    meanings = attributes["flag_meanings"].split()
    return dict(zip(meanings, zip(masks, values, strict=True), strict=True))


def test_level_2a_has_an_offset_since_baseline_04_00():
    product = of_sentinel2(L2A)
    images = by_name(product)
    assert len(product.images) == 36
    assert product.attributes["datetime"] == "2022-10-05T11:54:11.024Z"
    facts = product.attributes["product"]
    assert facts["processing_baseline"] == "04.00"
    assert facts["tile"] == "29UNU"
    assert facts["cloud_cover"] == 59.769726
    assert scale_of(images["B04"]) == (0.0001, -0.1)
    assert scale_of(images["AOT"]) == (0.001, 0.0)
    assert images["WVP"].attributes["units"] == "cm"
    assert images["B8A"].nodata == 0
    assert images["B04"].attributes["common_name"] == "red"
    assert images["B04"].attributes["center_wavelength"] == 0.6646
    assert images["B01"].path.endswith("R60m/T29UNU_20221005T115411_B01_60m.jp2")


def test_classes_of_the_scene_classification_are_flags():
    scl = by_name(of_sentinel2(L2A))["SCL"]
    flags = flags_of(scl)
    assert flags["cloud_shadow"] == (3, 3)
    assert flags["snow_ice"] == (11, 11)
    assert scl.is_flags
    assert scl.nodata is None


def test_level_1c_before_04_00_has_no_offset():
    product = of_sentinel2(L1C)
    names = [image.name for image in product.images]
    assert names[0] == "B01"
    assert names[-1] == "TCI"
    assert scale_of(by_name(product)["B10"]) == (0.0001, 0.0)
    assert "cloud_cover" not in product.attributes["product"]


def test_level_1c_since_04_00_has_an_offset():
    offsets = "".join(
        f'<RADIO_ADD_OFFSET band_id="{number}">-1000</RADIO_ADD_OFFSET>'
        for number in range(13)
    )
    text = L1C.replace(
        '<QUANTIFICATION_VALUE unit="none">',
        f"<Radiometric_Offset_List>{offsets}</Radiometric_Offset_List>"
        '<QUANTIFICATION_VALUE unit="none">',
    )
    images = by_name(of_sentinel2(text))
    assert scale_of(images["B8A"]) == (0.0001, -0.1)
    assert scale_of(images["TCI"]) == (None, None)


def test_images_may_be_geotiff():
    images = of_sentinel2(L2A.replace('"JPEG2000"', '"GeoTIFF"')).images
    assert images[0].path.endswith("_B02_10m.tif")


def test_level_2_of_landsat_is_scaled_by_its_own_factors():
    product = of_landsat(OLI)
    images = by_name(product)
    assert product.attributes["datetime"] == "2019-01-14T14:34:30.4390740Z"
    assert product.attributes["product"]["platform"] == "LANDSAT_8"
    # the factors of level 1 are in the same document
    assert scale_of(images["SR_B4"]) == (2.75e-05, -0.2)
    assert scale_of(images["ST_B10"]) == (0.00341802, 149.0)
    assert images["ST_B10"].attributes["units"] == "K"
    assert images["SR_B5"].attributes["common_name"] == "nir08"
    assert scale_of(images["ST_EMIS"]) == (0.0001, 0.0)
    assert images["ST_EMIS"].nodata == -9999
    assert images["SR_B4"].nodata == 0


def test_bits_of_landsat_are_flags():
    images = by_name(of_landsat(OLI))
    pixel = flags_of(images["QA_PIXEL"])
    assert pixel["fill"] == (1, 1)
    assert pixel["cloud"] == (1 << 3, 1 << 3)
    assert pixel["high_cloud_confidence"] == (3 << 8, 3 << 8)
    assert pixel["low_cirrus_confidence"] == (3 << 14, 1 << 14)
    assert flags_of(images["QA_RADSAT"])["terrain_occlusion"] == (1 << 11, 1 << 11)
    assert flags_of(images["SR_QA_AEROSOL"])["high_aerosol"] == (3 << 6, 3 << 6)


def test_bits_differ_by_sensor():
    images = by_name(of_landsat(ETM))
    assert "cirrus" not in flags_of(images["QA_PIXEL"])
    saturation = flags_of(images["QA_RADSAT"])
    assert saturation["band_6_high_gain_saturated"] == (1 << 8, 1 << 8)
    assert images["SR_B4"].attributes["common_name"] == "nir08"
    assert scale_of(images["ST_B6"]) == (0.00341802, 149.0)


def level_1(sensor, bands, files=()):
    """Return a document of level 1 in JSON, after the format control books."""
    letter = {"OLI": "C", "ETM": "E", "MSS": "M"}[sensor]
    number = {"OLI": 8, "ETM": 7, "MSS": 1}[sensor]
    name = f"L{letter}0{number}_L1TP_021030_20100109_20200911_02_T1"
    contents = {
        "LANDSAT_PRODUCT_ID": name,
        "PROCESSING_LEVEL": "L1TP",
        "COLLECTION_NUMBER": "02",
        "COLLECTION_CATEGORY": "T1",
    }
    contents |= {f"FILE_NAME_BAND_{band}": f"{name}_B{band}.TIF" for band in bands}
    contents |= {f"FILE_NAME_{key}": f"{name}_{value}.TIF" for key, value in files}
    image = {
        "SPACECRAFT_ID": f"LANDSAT_{number}",
        "SENSOR_ID": sensor,
        "WRS_PATH": "021",
        "WRS_ROW": "030",
        "DATE_ACQUIRED": "2010-01-09",
        "SCENE_CENTER_TIME": "16:13:46.0400581Z",
    }
    groups = {
        "PRODUCT_CONTENTS": contents,
        "IMAGE_ATTRIBUTES": image,
        **bands_of(bands),
    }
    return json.dumps({"LANDSAT_METADATA_FILE": groups})


def bands_of(bands):
    rescaling, thermal = {}, {}
    for band in bands:
        rescaling[f"RADIANCE_MULT_BAND_{band}"] = "3.3420E-04"
        rescaling[f"RADIANCE_ADD_BAND_{band}"] = "0.10000"
        if band.startswith(("10", "6_VCID")):
            thermal[f"K1_CONSTANT_BAND_{band}"] = "774.8853"
            thermal[f"K2_CONSTANT_BAND_{band}"] = "1321.0789"
        else:
            rescaling[f"REFLECTANCE_MULT_BAND_{band}"] = "2.0000E-05"
            rescaling[f"REFLECTANCE_ADD_BAND_{band}"] = "-0.100000"
    return {
        "LEVEL1_RADIOMETRIC_RESCALING": rescaling,
        "LEVEL1_THERMAL_CONSTANTS": thermal,
    }


def test_level_1_of_landsat_is_reflectance_and_radiance():
    files = [("ANGLE_SOLAR_ZENITH_BAND_4", "SZA")]
    images = by_name(of_landsat(level_1("OLI", ["4", "8", "10"], files)))
    assert scale_of(images["B4"]) == (2e-05, -0.1)
    assert "sun" in images["B4"].attributes["comment"]
    assert images["B8"].attributes["common_name"] == "pan"
    thermal = images["B10"].attributes
    assert scale_of(images["B10"]) == (3.342e-04, 0.1)
    assert thermal["k1_constant"] == 774.8853
    assert thermal["common_name"] == "lwir11"
    assert scale_of(images["SZA"]) == (0.01, 0.0)


def test_gains_of_etm_are_bands():
    images = by_name(of_landsat(level_1("ETM", ["1", "6_VCID_1", "6_VCID_2"])))
    assert set(images) == {"B1", "B6_VCID_1", "B6_VCID_2"}
    assert images["B6_VCID_2"].attributes["common_name"] == "lwir"


def test_bands_of_the_first_scanners_begin_at_four():
    images = by_name(of_landsat(level_1("MSS", ["4", "5", "6", "7"])))
    names = [image.attributes["common_name"] for image in images.values()]
    assert names == ["green", "red", "nir08", "nir09"]


WRONG_SENTINEL2 = [
    ("<BOA_QUANTIFICATION_VALUE", "<X", "</BOA_QUANTIFICATION_VALUE", "</X"),
    ('unit="none">10000<', 'unit="none">0<'),
    ('unit="none">10000<', 'unit="none">nan<'),
    ('band_id="3">-1000<', 'band_id="3">many<'),
    ('<BOA_ADD_OFFSET band_id="3">-1000</BOA_ADD_OFFSET>', ""),
    (
        '<BOA_ADD_OFFSET band_id="3">',
        '<BOA_ADD_OFFSET band_id="2">0</BOA_ADD_OFFSET><BOA_ADD_OFFSET band_id="3">',
    ),
    ('band_id="3"', 'band_id="2"'),
    ("GRANULE/L2A", "../L2A"),
    ("GRANULE/L2A", "/etc/L2A"),
    ("GRANULE/L2A", "s3://bucket/L2A"),
    ("GRANULE/L2A", "zip://x::L2A"),
    ("_B02_10m<", "_Q02_10m<"),
    ('physicalBand="B4"', 'physicalBand="Z4"'),
    ('physicalBand="B4"', 'physicalBand="B14"'),
    ("<PRODUCT_START_TIME>", "<X>", "</PRODUCT_START_TIME>", "</X>"),
    ("n1:General_Info", "n1:Other_Info"),
    ("Level-2A_User_Product", "Level-1B_User_Product"),
    ("<SPECIAL_VALUE_INDEX>0<", "<SPECIAL_VALUE_INDEX>none<"),
    ("SENSING_ORBIT_NUMBER>23<", "SENSING_ORBIT_NUMBER>x<"),
    ("IMAGE_FILE", "OTHER_FILE"),
    ('imageFormat="JPEG2000"', 'imageFormat="PNG"'),
    ("<Granule ", "<Granule/><Granule "),
    ("Level-2A_User_Product>\n", "Level-2A_User_Product"),
]


@pytest.mark.parametrize("changes", WRONG_SENTINEL2)
def test_wrong_documents_of_sentinel2_are_refused(changes):
    text = L2A
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(JnrrdzError) as caught:
        of_sentinel2(text)
    assert caught.value.field


WRONG_LANDSAT = [
    ('"COLLECTION_NUMBER": "02"', '"COLLECTION_NUMBER": "01"'),
    ('"DATE_ACQUIRED"', '"DATE"'),
    ('"WRS_PATH": "1"', '"WRS_PATH": "x"'),
    ('"REFLECTANCE_ADD_BAND_4": "-0.2"', '"X": "-0.2"'),
    ('"REFLECTANCE_MULT_BAND_4": "2.75e-05"', '"REFLECTANCE_MULT_BAND_4": "inf"'),
    ('"REFLECTANCE_MULT_BAND_4": "2.75e-05"', '"REFLECTANCE_MULT_BAND_4": "0"'),
    ('"LEVEL2_SURFACE_TEMPERATURE_PARAMETERS"', '"X"'),
    ("LC08_L2SP_001070_20190114_20200830_02_T2_SR_B1.TIF", "../../x.TIF"),
    ("LC08_L2SP_001070_20190114_20200830_02_T2_SR_B1.TIF", "x y.TIF"),
    ('"LANDSAT_PRODUCT_ID": "LC08', '"LANDSAT_PRODUCT_ID": "XC08'),
    ('"PRODUCT_CONTENTS"', '"CONTENTS"'),
    ('"LANDSAT_METADATA_FILE"', '"OTHER_FILE"'),
    ('"CLOUD_COVER": "75.65"', '"CLOUD_COVER": "much"'),
    ('"CLOUD_COVER": "75.65"', '"CLOUD_COVER": 75.65'),
    (".TIF", ".XYZ"),
    ("}", ""),
]


@pytest.mark.parametrize(("old", "new"), WRONG_LANDSAT)
def test_wrong_documents_of_landsat_are_refused(old, new):
    assert old in OLI
    with pytest.raises(JnrrdzError) as caught:
        of_landsat(OLI.replace(old, new))
    assert caught.value.field


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
DEEP = "<a>" * 100 + "</a>" * 100


@pytest.mark.parametrize("text", [BOMB, DEEP, "", "<", "{", "[" * 300])
@pytest.mark.parametrize("parse", [of_sentinel2, of_landsat])
def test_bombs_are_refused(parse, text):
    with pytest.raises((MalformedError, UnsupportedError)):
        parse(text)


def test_a_document_of_too_many_images_is_refused():
    start, image, rest = L2A.partition("<IMAGE_FILE>")
    line = "<IMAGE_FILE>G/T29UNU_20221005T115411_B02_10m</IMAGE_FILE>"
    with pytest.raises(UnsupportedError, match="2036 images"):
        of_sentinel2(start + line * 2000 + image + rest)
