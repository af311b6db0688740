"""Sentinel-2's product metadata, `MTD_MSIL1C.xml` and `MTD_MSIL2A.xml`, to a product.

The numbers of a band become reflectance by `(number + offset) / quantification value`;
offsets exist since processing baseline 04.00.  A product is of one tile, as all are
since December 2016.
Spec: Sentinel-2 Products Specification Document (S2-PDGS-TAS-DI-PSD), version 14 and
later; docs/formats/products.md
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from jnrrdz.core.bands import NAMES
from jnrrdz.core.json_schema import shown
from jnrrdz.core.xml_tree import Element, parse_xml
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.products import flags
from jnrrdz.formats.products.product import (
    CENTER_WAVELENGTH,
    COMMON_NAME,
    DATETIME,
    PRODUCT,
    Attributes,
    Product,
    ProductImage,
    check_images,
    check_path,
    divisor,
    number,
    scaling,
)
from jnrrdz.records import record

ROOTS = ("Level-1C_User_Product", "Level-2A_User_Product")

COMMON_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "B01": "coastal",
        "B02": "blue",
        "B03": "green",
        "B04": "red",
        "B05": "rededge071",
        "B06": "rededge075",
        "B07": "rededge078",
        "B08": "nir",
        "B8A": "nir08",
        "B09": "nir09",
        "B10": "cirrus",
        "B11": "swir16",
        "B12": "swir22",
    }
)
"""Names that sensors share, by band, as STAC's extension `eo` has them."""

ENDINGS: Mapping[str, str] = MappingProxyType({"JPEG2000": ".jp2", "GeoTIFF": ".tif"})
"""The ending of a file, which the document leaves out, by `imageFormat`."""

LONG_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "AOT": "aerosol optical thickness at 550 nm",
        "WVP": "water vapour",
        "SCL": "scene classification",
        "TCI": "true colour image",
    }
)

STANDARD_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "Level-1C": "toa_bidirectional_reflectance",
        "Level-2A": "surface_bidirectional_reflectance",
    }
)
"""CF's name of what a band measures, by processing level."""

NANOMETRES = 1000
"""In a micrometre."""

_IMAGE = re.compile(r"(?:.*/)?[^/]*_(B\d[\dA]|TCI|AOT|WVP|SCL)(?:_(\d+)m)?")
_PHYSICAL_BAND = re.compile(r"B(\d{1,2}|8A)")
_TILE = re.compile(r"_T(\d{2}[A-Z]{3})_")
MOST_BANDS = 13


@record
class _Scale:
    """How a band's numbers become values."""

    quantification: float
    offset: float
    units: str

    @property
    def attributes(self) -> Attributes:
        """CF's attributes."""
        scale = 1 / self.quantification
        return scaling(scale, self.offset / self.quantification, self.units)


@record
class _Characteristics:
    """What a document says of its bands."""

    bands: Mapping[str, Attributes]
    """The attributes of each spectral band, such as `B04`."""

    derived: Mapping[str, Attributes]
    """Those of aerosol optical thickness and water vapour, in products of level 2A."""

    classes: Attributes
    """Those of the scene classification."""

    nodata: float | None


def parse_product(document: bytes) -> Product:
    """Return the product that a document describes."""
    root = parse_xml(document.decode("utf-8", "replace"), "product metadata")
    if _name(root) not in ROOTS:
        needed = " or ".join(ROOTS)
        raise MalformedError(
            f"found <{_name(root)}>; <{needed}> is needed", field="root"
        )
    general = _child(root, "General_Info")
    info = _child(general, "Product_Info")
    characteristics = _child(general, "Product_Image_Characteristics")
    level = _text(info, "PROCESSING_LEVEL")
    granule = _granule(info)
    facts = _Characteristics(
        bands=dict(_bands(characteristics, level)),
        derived=dict(_derived(characteristics)),
        classes=_classes(characteristics),
        nodata=_nodata(characteristics),
    )
    images = [_image(path, member, facts) for path, member in _paths(granule)]
    attributes = {
        DATETIME: _text(info, "PRODUCT_START_TIME"),
        PRODUCT: _facts(root, info, granule),
    }
    return Product(attributes, check_images(images, "Granule/IMAGE_FILE"))


def _facts(root: Element, info: Element, granule: Element) -> Attributes:
    """Return what describes the product as a whole."""
    name = _text(info, "PRODUCT_URI").removesuffix(".SAFE")
    facts: Attributes = {
        "id": name,
        "type": _text(info, "PRODUCT_TYPE"),
        "processing_level": _text(info, "PROCESSING_LEVEL"),
        "processing_baseline": _text(info, "PROCESSING_BASELINE"),
    }
    generated = info.text_of("GENERATION_TIME")
    if generated is not None:
        facts["generated"] = generated
    for datatake in info.named("Datatake"):
        platform = datatake.text_of("SPACECRAFT_NAME")
        orbit = datatake.text_of("SENSING_ORBIT_NUMBER")
        facts |= {"platform": platform} if platform else {}
        facts |= (
            {"relative_orbit": int(number(orbit, "SENSING_ORBIT_NUMBER"))}
            if orbit
            else {}
        )
    identifier = granule.attributes.get("granuleIdentifier", "")
    tile = _TILE.search(identifier) or _TILE.search(name)
    if tile is not None:
        facts["tile"] = tile[1]
    for quality in _children(root, "Quality_Indicators_Info"):
        cover = quality.text_of("Cloud_Coverage_Assessment")
        if cover is not None:
            facts["cloud_cover"] = number(cover, "Cloud_Coverage_Assessment")
    return facts


def _granule(info: Element) -> Element:
    """Return the only granule of a product."""
    organisation = _child(info, "Product_Organisation")
    granules = [
        granule
        for group in organisation.named("Granule_List")
        for granule in (*group.named("Granule"), *group.named("Granules"))
    ]
    if len(granules) != 1:
        message = (
            f"{len(granules)} granules; products of one tile are read, "
            "as all are since December 2016"
        )
        raise UnsupportedError(message, field="Granule_List")
    return granules[0]


def _paths(granule: Element) -> Iterator[tuple[str, str]]:
    """Yield the path of each image, with the member that names it."""
    image_format = granule.attributes.get("imageFormat", "JPEG2000")
    ending = ENDINGS.get(image_format)
    if ending is None:
        needed = ", ".join(ENDINGS)
        message = f"images in {shown(image_format)}; {needed} are read"
        raise UnsupportedError(message, field="Granule/imageFormat")
    for position, element in enumerate(granule.named("IMAGE_FILE"), 1):
        member = f"IMAGE_FILE {position}"
        path = element.text.strip()
        named = path if path.lower().endswith(ending) else f"{path}{ending}"
        yield check_path(named, member), member


def _image(path: str, member: str, facts: _Characteristics) -> ProductImage:
    """Return one image: a spectral band, or a band made of them."""
    match = _IMAGE.fullmatch(path.rpartition(".")[0])
    if match is None:
        raise MalformedError(f"{shown(path)} names no band", field=member)
    name = match[1]
    attributes: Attributes = {}
    if name in LONG_NAMES:
        attributes["long_name"] = LONG_NAMES[name]
    if name == "TCI":
        return ProductImage(path, name, member, None, attributes)
    attributes[NAMES] = [name]
    if name == "SCL":
        attributes |= facts.classes
        return ProductImage(path, name, member, None, attributes, is_flags=True)
    of_bands = facts.derived if name in LONG_NAMES else facts.bands
    if name not in of_bands:
        message = f"the document does not describe band {name}, which it names"
        raise MalformedError(message, field=member)
    attributes |= of_bands[name]
    return ProductImage(path, name, member, facts.nodata, attributes)


def _derived(characteristics: Element) -> Iterator[tuple[str, Attributes]]:
    """Yield the attributes of aerosol optical thickness and of water vapour."""
    for values in _children(characteristics, "QUANTIFICATION_VALUES_LIST"):
        for name in ("AOT", "WVP"):
            member = f"{name}_QUANTIFICATION_VALUE"
            for element in values.named(member):
                unit = element.attributes.get("unit", "none")
                units = "1" if unit == "none" else unit
                yield name, _Scale(divisor(element.text, member), 0.0, units).attributes


def _spectral(name: str, level: str, wavelength: float | None) -> Attributes:
    """Return the attributes of a spectral band but for its scale."""
    attributes: Attributes = {}
    common = COMMON_NAMES.get(name)
    if common is not None:
        attributes |= {"long_name": f"{name}, {common}", COMMON_NAME: common}
    if wavelength is not None:
        attributes[CENTER_WAVELENGTH] = round(wavelength / NANOMETRES, 6)
    if level in STANDARD_NAMES:
        attributes["standard_name"] = STANDARD_NAMES[level]
    return attributes


def _bands(characteristics: Element, level: str) -> Iterator[tuple[str, Attributes]]:
    """Yield the attributes of spectral bands by name, such as `B04`."""
    quantification = _quantification(characteristics)
    offsets = _offsets(characteristics)
    spectra = list(
        _child(characteristics, "Spectral_Information_List").named(
            "Spectral_Information"
        )
    )
    if len(spectra) > MOST_BANDS:
        message = f"{len(spectra)} bands; there are {MOST_BANDS}"
        raise MalformedError(message, field="Spectral_Information_List")
    for element in spectra:
        identifier = element.attributes.get("bandId", "")
        physical = element.attributes.get("physicalBand", "")
        match = _PHYSICAL_BAND.fullmatch(physical)
        if match is None:
            raise MalformedError(
                f"found {shown(physical)}; a band is needed", field="physicalBand"
            )
        if offsets and identifier not in offsets:
            message = f"no offset of band {physical}, where other bands have one"
            raise MalformedError(message, field=f"ADD_OFFSET band_id={identifier}")
        scale = _Scale(quantification, offsets.get(identifier, 0.0), "1")
        name = f"B{match[1]:0>2}"
        yield name, scale.attributes | _spectral(name, level, _wavelength(element))


def _wavelength(spectrum: Element) -> float | None:
    for wavelength in spectrum.named("Wavelength"):
        central = wavelength.text_of("CENTRAL")
        if central is not None:
            return divisor(central, "Wavelength/CENTRAL")
    return None


def _quantification(characteristics: Element) -> float:
    """Return what numbers of all spectral bands are divided by."""
    lists = [characteristics, *_children(characteristics, "QUANTIFICATION_VALUES_LIST")]
    for field in ("BOA_QUANTIFICATION_VALUE", "QUANTIFICATION_VALUE"):
        for element in lists:
            text = element.text_of(field)
            if text is not None:
                return divisor(text, field)
    raise MalformedError("no quantification value", field="QUANTIFICATION_VALUE")


def _offsets(characteristics: Element) -> dict[str, float]:
    """Return what is added to the numbers of bands, by `band_id`; none before 04.00."""
    offsets: dict[str, float] = {}
    for name, member in (
        ("BOA_ADD_OFFSET_VALUES_LIST", "BOA_ADD_OFFSET"),
        ("Radiometric_Offset_List", "RADIO_ADD_OFFSET"),
    ):
        for values in _children(characteristics, name):
            for element in values.named(member):
                identifier = element.attributes.get("band_id", "")
                field = f"{member} band_id={identifier}"
                if identifier in offsets:
                    raise MalformedError("two offsets of one band", field=field)
                offsets[identifier] = number(element.text, field)
    return offsets


def _nodata(characteristics: Element) -> float | None:
    for special in _children(characteristics, "Special_Values"):
        if special.text_of("SPECIAL_VALUE_TEXT") == "NODATA":
            return number(_text(special, "SPECIAL_VALUE_INDEX"), "SPECIAL_VALUE_INDEX")
    return None


def _classes(characteristics: Element) -> Attributes:
    """Return the classes of the scene classification, the document's if it has any."""
    meanings: dict[int, str] = {}
    for group in _children(characteristics, "Scene_Classification_List"):
        for entry in group.named("Scene_Classification_ID"):
            text = _text(entry, "SCENE_CLASSIFICATION_TEXT")
            meaning = re.sub(r"\W", "_", text.strip().lower().removeprefix("sc_"))
            value = number(
                _text(entry, "SCENE_CLASSIFICATION_INDEX"), "SCENE_CLASSIFICATION_INDEX"
            )
            meanings[int(value)] = meaning
    return flags.classes(meanings or dict(enumerate(flags.SCL)))


# Elements


def _name(element: Element) -> str:
    """Return the name of an element without its namespace's prefix."""
    return element.tag.rpartition(":")[2]


def _children(element: Element, name: str) -> Iterator[Element]:
    return (child for child in element.children if _name(child) == name)


def _child(element: Element, name: str) -> Element:
    child = next(_children(element, name), None)
    if child is None:
        raise MalformedError(f"<{name}> is missing", field=_name(element))
    return child


def _text(element: Element, name: str) -> str:
    text = element.text_of(name)
    if text is None:
        raise MalformedError(f"<{name}> is missing or empty", field=_name(element))
    return text.strip()
