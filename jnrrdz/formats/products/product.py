"""A product: files of one acquisition, described by one metadata document.

A parser of a document returns a `Product`; it opens nothing.  Paths are relative to the
document, and attributes are CF's wherever CF has one.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from jnrrdz.core.bands import ADD_OFFSET, CF_UNITS, SCALE_FACTOR
from jnrrdz.core.json_schema import shown
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import record

type Attributes = dict[str, Any]

PRODUCT = "product"
"""The root's attribute with the metadata of a product.

`{"id": "S2A_MSIL2A_...", "type": "S2MSI2A", "platform": "Sentinel-2A", ...}`
"""

DATETIME = "datetime"
"""The attribute in which scanners write when an image was taken."""

COMMON_NAME = "common_name"
"""The attribute for a band's name that sensors share, such as `red`."""

CENTER_WAVELENGTH = "center_wavelength"
"""The attribute for the centre of a band in micrometres, as STAC has it."""

MOST_IMAGES = 1000
"""Images of one product; Sentinel-2 has 35, Landsat 30."""

_PLACE = re.compile(r"[^/\\:?#\0]+(?:/[^/\\:?#\0]+)*")


@record
class ProductImage:
    """One file of a product."""

    path: str
    """Relative to the document, such as `IMG_DATA/R10m/T32TQM_B04_10m.jp2`."""

    name: str
    """The name of its variable, such as `B04`."""

    member: str
    """The member of the document that names the file, such as `IMAGE_FILE 3`."""

    nodata: float | None = None
    """The number of missing pixels; a file's own comes first."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of its variable."""

    is_flags: bool = False
    """Whether its numbers are classes or bits, which nothing scales or masks."""


@record
class Product:
    """What a document says."""

    attributes: Mapping[str, Any]
    """Attributes of the root."""

    images: tuple[ProductImage, ...]


def scaling(scale: float, offset: float, units: str | None = None) -> Attributes:
    """Return the attributes of packed numbers; the identity has none."""
    attributes: Attributes = {}
    if (scale, offset) != (1.0, 0.0):
        attributes = {SCALE_FACTOR: scale, ADD_OFFSET: offset}
    if units is not None:
        attributes[CF_UNITS] = units
    return attributes


def number(text: str, field: str) -> float:
    """Return a finite number of a document."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MalformedError(f"found {shown(text)}; a number is needed", field=field)
    return value


def divisor(text: str, field: str) -> float:
    """Return a number of a document that others are divided by."""
    value = number(text, field)
    if value <= 0:
        raise MalformedError(
            f"found {shown(text)}; a number above 0 is needed", field=field
        )
    return value


def check_path(path: str, field: str) -> str:
    """Return the path of a file below the document's folder; no other one is read."""
    if _PLACE.fullmatch(path) is None or ".." in path.split("/"):
        message = f"found {shown(path)}; a path below the product's folder is needed"
        raise MalformedError(message, field=field)
    return path


def check_images(images: list[ProductImage], field: str) -> tuple[ProductImage, ...]:
    """Return the images of a product, which has at least one."""
    if not images:
        raise MalformedError("the document names no image", field=field)
    if len(images) > MOST_IMAGES:
        message = f"{len(images)} images, no more than {MOST_IMAGES} are read"
        raise UnsupportedError(message, field=field)
    return tuple(images)
