"""Landsat's Collection 2 metadata, `*_MTL.json` and `*_MTL.xml`, to a product.

Both forms hold the same groups of members: `PRODUCT_CONTENTS` names the files, other
groups have a factor and a summand for each band.  Some bands of Level 2 have factors in
no document; they are in a table here.
Specs: Landsat 8-9 Collection 2 Level 2 Science Product Guide (LSDS-1619), Landsat 4-7
Collection 2 Level 2 Science Product Guide (LSDS-1618), data format control books of
Collection 2 Level 1 (LSDS-1822, LSDS-1414, LSDS-1415); docs/formats/products.md
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from jnrrdz.core.bands import NAMES
from jnrrdz.core.json_schema import TEXT, members, object_of, parse_json, shown
from jnrrdz.core.xml_tree import parse_xml
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.products import flags
from jnrrdz.formats.products.product import (
    COMMON_NAME,
    DATETIME,
    PRODUCT,
    Attributes,
    Product,
    ProductImage,
    check_images,
    check_path,
    number,
    scaling,
)

type Groups = Mapping[str, Mapping[str, str]]
"""Groups of a document, with their members as texts."""

PRODUCT_ID = re.compile(
    r"L[COTEM]0[1-9]_L[12][A-Z]{2}_\d{6}_\d{8}_\d{8}_\d{2}_[A-Z0-9]{2}"
)
"""The name of a product."""

ROOT = "LANDSAT_METADATA_FILE"
CONTENTS = "PRODUCT_CONTENTS"
IMAGE = "IMAGE_ATTRIBUTES"
FILE_NAME = "FILE_NAME_"
COLLECTION = "02"

REFLECTANCE = "LEVEL2_SURFACE_REFLECTANCE_PARAMETERS"
TEMPERATURE = "LEVEL2_SURFACE_TEMPERATURE_PARAMETERS"
RESCALING = "LEVEL1_RADIOMETRIC_RESCALING"
THERMAL = "LEVEL1_THERMAL_CONSTANTS"

SENSORS: Mapping[str, str] = MappingProxyType(
    {"O": "OLI", "C": "OLI", "T": "TM", "E": "ETM", "M": "MSS"}
)
"""Sensors by the second letter of a product's name."""

RADIANCE_UNITS = "W m-2 sr-1 um-1"

_OLI = (
    "coastal",
    "blue",
    "green",
    "red",
    "nir08",
    "swir16",
    "swir22",
    "pan",
    "cirrus",
    "lwir11",
    "lwir12",
)
_TM = ("blue", "green", "red", "nir08", "swir16", "lwir", "swir22", "pan")
_MSS = ("green", "red", "nir08", "nir09")

COMMON_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "OLI": dict(zip(map(str, range(1, 12)), _OLI, strict=True)),
        "ETM": dict(zip(map(str, range(1, 9)), _TM, strict=True)),
        "TM": dict(zip(map(str, range(1, 8)), _TM[:7], strict=True)),
        "MSS": dict(zip("1234", _MSS, strict=True)),
    }
)
"""Names that sensors share, by band number, as in STAC's extension `eo`."""

FIRST_MSS = 4
"""The number of the first band of MSS on Landsat 1 to 3; on Landsat 4 and 5 it is 1."""

LEVEL2_NODATA = -9999.0

DERIVED: Mapping[str, tuple[float, str, str]] = MappingProxyType(
    {
        "ST_TRAD": (0.001, RADIANCE_UNITS, "thermal radiance"),
        "ST_URAD": (0.001, RADIANCE_UNITS, "upwelled radiance"),
        "ST_DRAD": (0.001, RADIANCE_UNITS, "downwelled radiance"),
        "ST_ATRAN": (0.0001, "1", "atmospheric transmittance"),
        "ST_EMIS": (0.0001, "1", "emissivity"),
        "ST_EMSD": (0.0001, "1", "standard deviation of emissivity"),
        "ST_CDIST": (0.01, "km", "distance to clouds"),
        "ST_QA": (0.01, "K", "uncertainty of surface temperature"),
        "SR_ATMOS_OPACITY": (0.001, "1", "atmospheric opacity"),
    }
)
"""Factor, unit and meaning of bands of Level 2 that no document scales."""

ANGLES: Mapping[str, str] = MappingProxyType(
    {
        "SAA": "solar azimuth angle",
        "SZA": "solar zenith angle",
        "VAA": "sensor azimuth angle",
        "VZA": "sensor zenith angle",
    }
)
ANGLE_SCALE = 0.01

_MEMBER = object_of(TEXT)
_DOCUMENT = members({ROOT: object_of(_MEMBER)})
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def parse_product(document: bytes) -> Product:
    """Return the product that a document describes."""
    groups = _groups(document)
    contents = _group(groups, CONTENTS)
    collection = _text(groups, CONTENTS, "COLLECTION_NUMBER")
    if collection != COLLECTION:
        message = f"collection {shown(collection)}; collection {COLLECTION} is read"
        raise UnsupportedError(message, field="COLLECTION_NUMBER")
    name = _text(groups, CONTENTS, "LANDSAT_PRODUCT_ID")
    sensor = SENSORS.get(name[1:2])
    if PRODUCT_ID.fullmatch(name) is None or sensor is None:
        message = f"found {shown(name)}; a product of Collection 2 is needed"
        raise MalformedError(message, field="LANDSAT_PRODUCT_ID")
    images = [
        _image(groups, name, sensor, member, path)
        for member, path in contents.items()
        if member.startswith(FILE_NAME) and path.upper().endswith(".TIF")
    ]
    attributes = {DATETIME: _acquired(groups), PRODUCT: _facts(groups, name)}
    return Product(attributes, check_images(images, CONTENTS))


def _groups(document: bytes) -> Groups:
    """Return the groups of a document in JSON or XML."""
    text = document.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith("{"):
        value = _DOCUMENT(parse_json(text, field="MTL"))
        groups: Groups = value[ROOT]
        return groups
    root = parse_xml(text, "MTL")
    if root.tag != ROOT:
        raise MalformedError(f"found <{root.tag}>; <{ROOT}> is needed", field="root")
    return {
        group.tag: {member.tag: member.text.strip() for member in group.children}
        for group in root.children
    }


def _acquired(groups: Groups) -> str:
    """Return the time of the scene's centre."""
    date = _text(groups, IMAGE, "DATE_ACQUIRED")
    clock = _text(groups, IMAGE, "SCENE_CENTER_TIME")
    return f"{date}T{clock}"


def _facts(groups: Groups, name: str) -> Attributes:
    """Return what describes the product as a whole."""
    image = _group(groups, IMAGE)
    facts: Attributes = {
        "id": name,
        "type": name.split("_")[1],
        "platform": _text(groups, IMAGE, "SPACECRAFT_ID"),
        "sensor": _text(groups, IMAGE, "SENSOR_ID"),
        "processing_level": _text(groups, CONTENTS, "PROCESSING_LEVEL"),
        "collection": _text(groups, CONTENTS, "COLLECTION_NUMBER"),
        "collection_category": _text(groups, CONTENTS, "COLLECTION_CATEGORY"),
    }
    for member in ("WRS_PATH", "WRS_ROW"):
        facts[member.lower()] = int(number(_text(groups, IMAGE, member), member))
    for member in ("CLOUD_COVER", "SUN_AZIMUTH", "SUN_ELEVATION", "EARTH_SUN_DISTANCE"):
        if member in image:
            facts[member.lower()] = number(image[member], member)
    return facts


def _image(
    groups: Groups, product: str, sensor: str, member: str, path: str
) -> ProductImage:
    """Return one image; `member` names its file, such as `FILE_NAME_BAND_4`."""
    check_path(path, member)
    name = path.rpartition(".")[0].removeprefix(f"{product}_").upper()
    if _NAME.fullmatch(name) is None:
        message = f"found {shown(path)}; the name of a file of {product} is needed"
        raise MalformedError(message, field=member)
    suffix = member.removeprefix(FILE_NAME)
    attributes: Attributes = {NAMES: [name]}
    if name in flags.QUALITY_BANDS:
        fields = flags.LANDSAT.get((name, sensor))
        if fields is not None:
            attributes |= flags.bit_fields(fields)
        return ProductImage(path, name, member, None, attributes, is_flags=True)
    if name in DERIVED:
        scale, units, meaning = DERIVED[name]
        attributes |= {"long_name": meaning, **scaling(scale, 0.0, units)}
        return ProductImage(path, name, member, LEVEL2_NODATA, attributes)
    if name in ANGLES:
        attributes |= {"long_name": ANGLES[name], **scaling(ANGLE_SCALE, 0.0, "degree")}
        return ProductImage(path, name, member, 0.0, attributes)
    if suffix.startswith("BAND_"):
        attributes |= _named(name, sensor, product)
        attributes |= _scale(groups, product, suffix)
        return ProductImage(path, name, member, 0.0, attributes)
    return ProductImage(path, name, member, None, attributes)


def _named(name: str, sensor: str, product: str) -> Attributes:
    """Return the common name of a band such as `SR_B4`, `ST_B10` or `B6_VCID_1`."""
    digits = re.search(r"B(\d+)", name)
    if digits is None:
        return {}
    band = digits[1]
    if sensor == "MSS" and product[2:4] in {"01", "02", "03"}:
        band = str(int(band) - FIRST_MSS + 1)
    common = COMMON_NAMES[sensor].get(band)
    return (
        {}
        if common is None
        else {"long_name": f"{name}, {common}", COMMON_NAME: common}
    )


def _scale(groups: Groups, product: str, band: str) -> Attributes:
    """Return the scale of a band, such as `BAND_4` or `BAND_ST_B10`."""
    if product.split("_")[1].startswith("L2"):
        temperature = _factors(groups, TEMPERATURE, "TEMPERATURE", band)
        if temperature is not None:
            return {
                "standard_name": "surface_temperature",
                **scaling(*temperature, "K"),
            }
        reflectance = _factors(groups, REFLECTANCE, "REFLECTANCE", band)
        if reflectance is not None:
            name = "surface_bidirectional_reflectance"
            return {"standard_name": name, **scaling(*reflectance, "1")}
        raise MalformedError(f"no factor of {band}", field=REFLECTANCE)
    reflectance = _factors(groups, RESCALING, "REFLECTANCE", band)
    if reflectance is not None:
        # dividing by the sine of the sun's elevation, which differs across the scene,
        # makes it CF's reflectance
        comment = "not corrected for the sun's elevation"
        return {"comment": comment, **scaling(*reflectance, "1")}
    radiance = _factors(groups, RESCALING, "RADIANCE", band)
    if radiance is None:
        raise MalformedError(f"no factor of {band}", field=RESCALING)
    name = "toa_outgoing_radiance_per_unit_wavelength"
    constants = dict(_thermal(groups, band))
    return {"standard_name": name, **constants, **scaling(*radiance, RADIANCE_UNITS)}


def _factors(
    groups: Groups, group: str, quantity: str, band: str
) -> tuple[float, float] | None:
    """Return factor and summand of a band, None where a group has neither."""
    factor, summand = f"{quantity}_MULT_{band}", f"{quantity}_ADD_{band}"
    found = groups.get(group, {})
    if factor not in found and summand not in found:
        return None
    for member in (factor, summand):
        if member not in found:
            raise MalformedError(f"{member} is missing", field=group)
    scale = number(found[factor], factor)
    if not scale:
        raise MalformedError("a factor of 0", field=factor)
    return scale, number(found[summand], summand)


def _thermal(groups: Groups, band: str) -> Iterator[tuple[str, float]]:
    """Yield the constants that make brightness temperature of radiance."""
    constants = groups.get(THERMAL, {})
    for constant in ("K1_CONSTANT", "K2_CONSTANT"):
        member = f"{constant}_{band}"
        if member in constants:
            yield constant.lower(), number(constants[member], member)


def _group(groups: Groups, name: str) -> Mapping[str, str]:
    if name not in groups:
        raise MalformedError(f"{name} is missing", field=ROOT)
    return groups[name]


def _text(groups: Groups, group: str, member: str) -> str:
    text = _group(groups, group).get(member)
    if not text:
        raise MalformedError(f"{member} is missing or empty", field=group)
    return text.strip()
